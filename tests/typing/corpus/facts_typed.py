"""Typed TensorDicts: declared keys on a TensorDict."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorDict, TypedTensorDict


class State(TypedTensorDict):
    position: Tensor
    speed: Tensor


def constructed(x: Tensor) -> None:
    assert_type(State(position=x, speed=x, batch_size=[4]), State)
    assert_type(State(position=x, speed=x), State)


def read(x: Tensor) -> None:
    state = State(position=x, speed=x, batch_size=[4])
    assert_type(state.position, Tensor)
    assert_type(state[0], State)
    assert_type(state[0].speed, Tensor)
    assert_type(state + 1, State)
    assert_type(state.to(torch.float64), State)
    assert_type(state.unbind(), tuple[State, ...])
    assert_type(State.stack([state, state]), State)
    takes(state)


def takes(data: TensorDict) -> None:
    assert_type(data.reshape(-1), TensorDict)
