"""Options of a class that the operations of its records follow: ``cast_filter``, ``skip_post_init_on_rebuild``."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass as ours
from tensorclass import TensorClass, TensorDict, tensorclass


def not_b(key: tuple[str, ...], tensor: Tensor) -> bool:
    return key[-1] != "b"


class Kept(TensorClass, cast_filter=not_b):
    a: Tensor
    b: Tensor


def kept() -> Kept:
    return Kept(torch.zeros(2), torch.zeros(2), batch_size=[2])


CASTS: dict[str, Callable[[Any], Any]] = {
    "double": lambda r: r.double(),
    "type": lambda r: r.type(torch.float64),
    "to": lambda r: r.to(torch.float64),
    "to by keyword": lambda r: r.to(dtype=torch.float64),
    "to a device too": lambda r: r.to("cpu", torch.float64),
    "to a tensor's": lambda r: r.to(torch.zeros(1, dtype=torch.float64)),
    "in place": lambda r: r.to(torch.float64, inplace=True),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=list(CASTS))
def test_the_filter_of_a_class_chooses_what_is_cast(cast: Callable[[Any], Any]) -> None:
    result = cast(kept())
    assert (type(result), result.a.dtype, result.b.dtype) == (Kept, torch.float64, torch.float32)


@pytest.mark.parametrize("cast", CASTS.values(), ids=list(CASTS))
def test_it_holds_wherever_the_record_stands(cast: Callable[[Any], Any]) -> None:
    class Outer(TensorClass):
        inner: Kept

    class Derived(Kept):
        c: Tensor

    derived = Derived(torch.zeros(2), torch.zeros(2), torch.zeros(2), batch_size=[2])
    for inside in (
        cast(Outer(kept(), batch_size=[2])).inner,
        cast(TensorDict({"inner": kept()}, [2]))["inner"],
        cast(Kept.lazy_stack([kept(), kept()])),
        cast(derived),
    ):
        assert (inside.a.dtype, inside.b.dtype) == (torch.float64, torch.float32)


def test_the_filter_of_the_outer_class_goes_before_that_of_an_inner_one() -> None:
    class Outer(TensorClass, cast_filter=lambda key, tensor: key == ("inner", "b")):
        inner: Kept
        own: Tensor

    inner = Outer(kept(), torch.zeros(2), batch_size=[2]).half()
    assert (inner.inner.a.dtype, inner.inner.b.dtype, inner.own.dtype) == (torch.float32, torch.float16, torch.float32)


def test_a_filter_that_is_given_goes_before_that_of_the_class() -> None:
    for cast in (
        kept().double(cast_filter=lambda key, tensor: key == ("b",)),
        kept().to(torch.float64, cast_filter=lambda key, tensor: key == ("b",)),
        kept().to(torch.zeros(1, dtype=torch.float64), cast_filter=lambda key, tensor: key == ("b",)),
    ):
        assert (cast.a.dtype, cast.b.dtype) == (torch.float32, torch.float64)


def test_moving_casts_nothing() -> None:
    moved = kept().to("meta")
    assert (moved.a.dtype, moved.device) == (torch.float32, torch.device("meta"))


def test_a_filter_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="cast_filter is called with key and tensor, got 3"):

        @tensorclass(cast_filter=3)  # type: ignore[call-overload, untyped-decorator]
        class A:
            a: Tensor


def test_a_filter_can_be_compiled() -> None:
    result = torch.compile(lambda r: r.double(), fullgraph=True, backend="eager")(kept())
    assert (result.a.dtype, result.b.dtype) == (torch.float64, torch.float32)


def test_running_post_init_on_results_is_refused() -> None:
    with pytest.raises(TypeError, match="skip_post_init_on_rebuild=False: __post_init__ is for what"):

        class A(TensorClass, skip_post_init_on_rebuild=False):
            a: Tensor


REBUILDS: dict[str, Callable[[Any], Any]] = {
    "index": lambda r: r[0],
    "clone": lambda r: r.clone(),
    "add": lambda r: r + 1,
    "reshape": lambda r: r.reshape(3, 1),
    "stack": lambda r: torch.stack([r, r]),
    "cat": lambda r: torch.cat([r, r]),
    "to": lambda r: r.to(torch.float64),
    "apply": lambda r: r.apply(lambda x: x + 1),
    "unbind": lambda r: r.unbind(0),
    "split": lambda r: r.split(1),
    "replace": lambda r: r.replace(a=torch.ones(3)),
    "dataclasses.replace": lambda r: dataclasses.replace(r, a=torch.ones(3)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "zeros_like": torch.zeros_like,
    "new_zeros": lambda r: r.new_zeros(3),
    "tree_map": lambda r: torch.utils._pytree.tree_map(lambda x: x, r),
    "from_dict": lambda r: type(r).from_dict({"a": torch.zeros(3)}),
    "constructor": lambda r: type(r)(torch.zeros(3), batch_size=[3]),
}


@pytest.mark.parity
@pytest.mark.parametrize("rebuild", REBUILDS.values(), ids=list(REBUILDS))
def test_post_init_runs_as_often_as_the_peer_runs_it_with_the_option(rebuild: Callable[[Any], Any]) -> None:
    import tensordict

    counts: list[int] = []
    for library in (ours, tensordict):
        ran: list[Any] = []

        @library.tensorclass(skip_post_init_on_rebuild=True)  # type: ignore[attr-defined]
        class A:
            a: Tensor

            def __post_init__(self, ran: list[Any] = ran) -> None:
                ran.append(self)

        record = A(torch.zeros(3), batch_size=[3])  # type: ignore[call-arg]
        ran.clear()
        rebuild(record)
        counts.append(len(ran))
    assert counts[0] == counts[1]


@pytest.mark.parity
def test_a_filter_is_called_with_the_keys_that_the_peer_gives() -> None:
    import tensordict

    seen: dict[Any, list[Any]] = {}
    for library in (ours, tensordict):
        keys = seen[library] = []

        def cast_filter(key: Any, tensor: Tensor, keys: list[Any] = keys) -> bool:
            keys.append(key)
            return True

        @library.tensorclass(cast_filter=cast_filter)  # type: ignore[attr-defined]
        class A:
            a: Tensor
            n: Any

        record = A(  # type: ignore[call-arg]
            torch.zeros(2),
            library.TensorDict(b=torch.zeros(2), batch_size=[2]),
            batch_size=[2],  # type: ignore[attr-defined]
        )
        record.double()
        record.to(torch.float64)
        library.TensorDict(a=torch.zeros(2)).double(cast_filter=cast_filter)  # type: ignore[attr-defined]
    assert seen[ours] == seen[tensordict] != []
