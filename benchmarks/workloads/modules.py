"""Modules on collections; by hand, plain modules on the values of a dict."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import tensordict.nn
import torch
from torch import nn

import tensorclass.nn
from benchmarks.sides import OURS, Batch, Form, Side, by_hand
from benchmarks.timing import Call
from benchmarks.workloads.table import BOTH, ROWS, Workload

#: what the sequence reads and writes: a record of four fields has these
CHAIN = ("observation", "action", "reward", "value", "action", "reward")


def _modules(side: Side) -> Any:
    return tensorclass.nn if side is OURS else tensordict.nn


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8))


class _Two(nn.Module):
    """A module with two results."""

    def __init__(self) -> None:
        super().__init__()
        self.network = _network()

    def forward(self, x: Any) -> Any:
        y = self.network(x)
        return x, y


def _on_form(
    name: str, form: Form, make: Callable[[Any], Any], hand: Callable[[dict[str, Any], Batch], Call]
) -> Workload:
    def library(side: Side) -> Call:
        module, data = make(_modules(side)), side.make(form, ROWS)
        return lambda: module(data)

    return Workload(f"{name} ({form})", library, lambda: hand(*by_hand(form, ROWS)))


def _call(library: Any) -> Any:
    return library.TensorDictModule(_network(), ["observation"], ["action"])


def _call_by_hand(values: dict[str, Any], size: Batch) -> Call:
    module = _network()

    def call() -> Any:
        values["action"] = module(values["observation"])
        return values, size

    return call


def _results(library: Any) -> Any:
    return library.TensorDictModule(_Two(), ["observation"], ["action", "value"])


def _results_by_hand(values: dict[str, Any], size: Batch) -> Call:
    module = _Two()

    def call() -> Any:
        values["action"], values["value"] = module(values["observation"])
        return values, size

    return call


def _sequence(library: Any) -> Any:
    return library.TensorDictSequential(*(library.TensorDictModule(_network(), [a], [b]) for a, b in pairwise(CHAIN)))


def _sequence_by_hand(values: dict[str, Any], size: Batch) -> Call:
    modules = [_network() for _ in CHAIN[1:]]

    def call() -> Any:
        for read, written, module in zip(CHAIN[:-1], CHAIN[1:], modules, strict=True):
            values[written] = module(values[read])
        return values, size

    return call


def _tensors(side: Side) -> Call:
    module, x = _call(_modules(side)), side.make("td", ROWS)["observation"]
    return lambda: module(x)


def _tensors_by_hand() -> Call:
    module, x = _network(), by_hand("td", ROWS)[0]["observation"]
    return lambda: module(x)


WORKLOADS = (
    *(_on_form("module call", form, _call, _call_by_hand) for form in BOTH),
    *(_on_form("module call, two results", form, _results, _results_by_hand) for form in BOTH),
    Workload("module call (tensors)", _tensors, _tensors_by_hand),
    *(_on_form("sequence of 5", form, _sequence, _sequence_by_hand) for form in BOTH),
)
