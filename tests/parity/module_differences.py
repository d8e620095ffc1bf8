"""Where modules and those of the peer differ, as tests/parity/test_differences.py lists it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import tensordict.nn  # noqa: F401
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import tensorclass.nn  # noqa: F401
from tests.parity.sides import described

Call = Callable[[Any], Any]


def error(cls: type[Exception]) -> Any:
    return described(cls())


def data(m: Any, **values: float) -> Any:
    return m.TensorDict({key: torch.tensor(value) for key, value in values.items()}, batch_size=[])


def module(m: Any, function: Any, in_keys: Any, out_keys: Any, **options: Any) -> Any:
    return m.nn.TensorDictModule(function, in_keys, out_keys, **options)


def numbers(source: Any) -> Any:
    return {key: source[key].item() for key in sorted(source.keys())}


def two(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x * 2


def fail(x: Tensor) -> Tensor:
    raise ZeroDivisionError


def after_a_failure(m: Any, *modules: Any) -> list[str]:
    source = m.TensorDict({"a": torch.zeros(2)}, batch_size=[2])
    try:
        m.nn.TensorDictSequential(*modules)(source)
    except (ZeroDivisionError, RuntimeError):
        return sorted(source.keys())
    raise AssertionError


def value_error_of_missing_keys(m: Any) -> Any:
    def check(x: Tensor | None) -> Tensor:
        raise ValueError

    return module(m, check, "q", "b")(data(m, a=1.0))


def message_of_missing_keys(m: Any) -> bool:
    adding = [module(m, torch.neg, "x", "b"), module(m, torch.add, ["b", "y"], "c")]
    try:
        m.nn.TensorDictSequential(*adding)(data(m, a=1.0))
    except KeyError as raised:
        return "'x'" in str(raised) and "'y'" in str(raised)
    raise AssertionError


def selected(m: Any) -> Any:
    one = module(m, two, "a", ["b", "c"])
    one.select_out_keys("c")
    return numbers(one(data(m, a=1.0, b=7.0)))


def selected_in_a_sequence(m: Any) -> Any:
    modules = [module(m, torch.neg, "a", "b"), module(m, torch.neg, "b", "c")]
    return numbers(m.nn.TensorDictSequential(*modules, selected_out_keys=["c"])(data(m, a=1.0, b=7.0)))


def record(m: Any) -> Any:
    @m.tensorclass
    class Sample:
        a: Tensor
        b: Tensor | None = None

    sample = Sample(a=torch.zeros(2, 3), batch_size=[2])
    result = module(m, torch.exp, "a", "b", inplace=False)(sample)
    return type(result).__name__, list(result.batch_size)


def nested_in_keys(m: Any) -> Any:
    first = module(m, lambda a: m.TensorDict({"x": a}, batch_size=[]), "a", "n")
    return list(m.nn.TensorDictSequential(first, module(m, torch.neg, ("n", "x"), "y")).in_keys)


def named_part(m: Any) -> Any:
    named = {"x": module(m, torch.neg, "a", "b"), "y": module(m, torch.neg, "b", "c")}
    return list(m.nn.TensorDictSequential(named)[:1].out_keys)


def appended(m: Any) -> Any:
    sequence = m.nn.TensorDictSequential(module(m, torch.neg, "a", "b"))
    sequence.append(module(m, torch.neg, "b", "c"))
    return list(sequence.out_keys)


def dispatched(m: Any) -> Any:
    class Other(m.nn.TensorDictModuleBase):  # type: ignore[misc,name-defined]
        in_keys = ["a"]
        out_keys = ["b"]

        @m.nn.dispatch
        def forward(self, source: Any) -> Any:
            source["b"] = source["a"] + 1
            return source

    return Other()(torch.tensor(1)).item()


def wrapped_record(m: Any) -> Any:
    class In(m.TensorClass):  # type: ignore[misc,name-defined]
        x: Tensor

    class Net(m.nn.TensorClassModuleBase[In, In]):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return In(x=-x.x, batch_size=x.batch_size)

    return type(Net().as_td_module()(In(x=torch.zeros(2), batch_size=[2]))).__name__


def annotated(m: Any) -> Any:
    class In(m.TensorClass):  # type: ignore[misc,name-defined]
        x: Tensor

    class Net(m.nn.TensorClassModuleBase):  # type: ignore[misc,name-defined]
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x

    Net.forward.__annotations__.update({"x": In, "return": In})
    return list(Net().as_td_module().in_keys)


def called_with_alpha(m: Any) -> Any:
    adding = module(m, torch.add, ["a", "a"], "b", method_kwargs={"alpha": 3})
    return adding(data(m, a=1.0), alpha=5)["b"].item()


def beside_a_nested_key(m: Any, **options: Any) -> Any:
    source = m.TensorDict({"n": data(m, a=1.0)}, batch_size=[])
    sequence = m.nn.TensorDictSequential(module(m, torch.neg, ("n", "a"), ("n", "b")), **options)
    return sorted((sequence(source) if options else sequence(source, tensordict_out=data(m)))["n"].keys())


def sharded_gradients(m: Any) -> int:
    """How many parameters of a part of a sharded sequence get a gradient."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        part = module(m, nn.Linear(1, 1), "a", "b")
        sequence = m.nn.TensorDictSequential(part, module(m, nn.Linear(1, 1), "b", "c"))
        for one in (part, sequence):
            fully_shard(one, mesh=init_device_mesh("cpu", (1,)))
        sequence(m.TensorDict({"a": torch.ones(2, 1)}, batch_size=[2]))["c"].sum().backward()
        return sum(parameter.grad is not None for parameter in part.parameters())
    finally:
        distributed.destroy_process_group()


def without_cuda(m: Any) -> Any:
    with mock.patch("torch.cuda.is_available", return_value=False):
        return type(m.nn.CudaGraphModule(torch.neg)).__name__


def traced(m: Any) -> Any:
    sequence = m.nn.TensorDictSequential(module(m, nn.ReLU(), "a", "b"))
    return numbers(torch.fx.symbolic_trace(sequence)(data(m, a=1.0)))


#: for each sentence of docs/differences.md: a call, what is expected here, and what of the peer
MODULES: dict[str, list[tuple[Call, Any, Any]]] = {
    "A call that fails changes nothing.": [
        (lambda m: after_a_failure(m, module(m, torch.neg, "a", "b"), module(m, fail, "b", "c")), ["a"], ["a", "b"]),
        (lambda m: after_a_failure(m, module(m, lambda x: (x, x.sum()), "a", ["b", "c"])), ["a"], ["a", "b"]),
    ],
    "All missing keys are named.": [
        (value_error_of_missing_keys, error(KeyError), error(ValueError)),
        (message_of_missing_keys, True, False),
    ],
    "Keys that are not selected stay as they are.": [
        (selected, {"a": 1.0, "b": 7.0, "c": 2.0}, {"a": 1.0, "c": 2.0}),
        (selected_in_a_sequence, {"a": 1.0, "b": 7.0, "c": 1.0}, {"a": 1.0, "b": -1.0, "c": 1.0}),
    ],
    "Two results need two keys.": [
        (lambda m: numbers(module(m, two, "a", ["b", "b"])(data(m, a=1.0))), error(ValueError), {"a": 1.0, "b": 2.0}),
        (lambda m: list(module(m, two, "a", "b", out_to_in_map=True).in_keys), error(ValueError), ["a"]),
    ],
    "A record gives a record with `inplace=False`.": [
        (record, ("Sample", [2]), ("TensorDict", [])),
    ],
    "Keys inside a written value are not in_keys.": [
        (nested_in_keys, ["a"], ["a", ("n", "x")]),
    ],
    "A sequence is made of modules and functions.": [
        (lambda m: len(m.nn.TensorDictSequential(3)), error(TypeError), 1),
        (lambda m: len(m.nn.TensorDictSequential(inplace="full")), error(ValueError), 0),
        (lambda m: list(m.nn.TensorDictSequential(module(m, two, "a", ["b", "_"])).out_keys), ["b"], ["b", "_"]),
        (named_part, ["b"], error(KeyError if sys.version_info >= (3, 12) else TypeError)),  # slices got a hash
        (appended, ["b", "c"], ["b"]),
    ],
    "A dispatched method can name its argument freely.": [
        (dispatched, 2, error(RuntimeError)),
    ],
    "Modules from record to record take records on collections, too.": [
        (wrapped_record, "In", error(RuntimeError)),
        (annotated, ["x"], error(ValueError)),
    ],
    "Keywords of the call take precedence.": [
        (called_with_alpha, 6.0, 4.0),
    ],
    "A sequence that writes elsewhere writes its out_keys.": [
        (beside_a_nested_key, ["b"], ["a", "b"]),
        (lambda m: beside_a_nested_key(m, inplace=False), ["b"], ["a", "b"]),
        (lambda m: beside_a_nested_key(m, inplace="empty"), ["b"], ["a", "b"]),
    ],
    "Sharded modules are trained.": [
        (sharded_gradients, 2, 0),
    ],
    "CUDA graphs need CUDA.": [
        (without_cuda, error(RuntimeError), "CudaGraphModule"),
    ],
    "Sequences can be traced.": [
        (traced, {"a": 1.0, "b": 1.0}, error(ValueError)),
    ],
}
