"""``torch.export`` with a batch of any size, tensors without data, and subclasses of tensors as values."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from tensorclass import TensorClass, TensorCollection, TensorDict
from tests.calls import CALLS, INTEGER, STORED
from tests.checks import assert_equal, outcome
from tests.test_compile_operations import record

BATCH = torch.export.Dim("batch", min=2, max=64)


class Sample(TensorClass, stack_objects=True):
    x: Tensor
    y: Tensor
    text: str = "a"


def sample(n: int) -> Sample:
    return Sample(torch.rand(n, 3), torch.rand(n), batch_size=[n])


def nested(n: int) -> TensorDict:
    return TensorDict({"a": torch.rand(n, 3), "b": {"c": torch.rand(n), "e": {}}}, [n])


# -- export -----------------------------------------------------------------------------------------------------------


class Inside(nn.Module):
    """Takes and gives tensors, and works with collections in between."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        made = Sample(x, y, batch_size=[x.shape[0]])
        data = TensorDict({"r": made * 2, "z": {"w": y}}, [x.shape[0]])
        both = torch.cat([data, data]).reshape(2, -1)
        return both["r"].x, both[0]["z", "w"], both.sum(0)["r"].y


class Layer(nn.Module):
    """Takes and gives collections."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, data: Sample) -> tuple[Sample, Tensor]:
        return data.replace(x=self.linear(data.x)), data.sum(0).x


class Double(nn.Module):
    def forward(self, data: Any) -> Any:
        return {"double": data * 2, "more": [data + 1]}


MODULES: dict[str, tuple[nn.Module, Callable[[int], tuple[Any, ...]], Any]] = {
    "tensors": (Inside(), lambda n: (torch.rand(n, 3), torch.rand(n)), ({0: BATCH}, {0: BATCH})),
    "a record": (Layer(), lambda n: (sample(n),), ([{0: BATCH}, {0: BATCH}, []],)),
    "a nested TensorDict": (Double(), lambda n: (nested(n),), ([{0: BATCH}, [{0: BATCH}, []]],)),
}


def assert_same(result: Any, expected: Any) -> None:
    if isinstance(expected, TensorCollection):
        assert_equal(result, expected)
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(result, expected)
    else:
        assert type(result) is type(expected)
        pairs = (
            [(result[key], expected[key]) for key in expected]
            if isinstance(expected, dict)
            else zip(result, expected, strict=True)
        )
        for a, b in pairs:
            assert_same(a, b)


@pytest.mark.parametrize("strict", [False, True], ids=["traced by running", "traced by dynamo"])
@pytest.mark.parametrize("name", MODULES)
def test_an_exported_program_takes_a_batch_of_any_size(name: str, strict: bool) -> None:
    module, arguments, dynamic = MODULES[name]
    program = torch.export.export(module, arguments(4), dynamic_shapes=dynamic, strict=strict)
    exported = program.module()
    for n in (4, 7, 2):
        inputs = arguments(n)
        assert_same(exported(*inputs), module(*inputs))


def test_sizes_can_be_given_for_the_tensors_of_a_collection() -> None:
    data = nested(4)
    sizes = torch.export.ShapesCollection()
    for leaf in data.values(True, True):
        sizes[leaf] = {0: BATCH}
    exported = torch.export.export(Double(), (data,), dynamic_shapes=sizes).module()
    assert exported(nested(9))["double"].batch_size == (9,)


def test_an_exported_program_takes_the_structure_that_it_was_made_for() -> None:
    exported = torch.export.export(Double(), (nested(4),)).module()
    with pytest.raises(ValueError, match="with exported input tree spec"):
        exported(nested(4).exclude("a"))


def test_an_exported_program_is_saved_and_loaded() -> None:
    module, arguments, dynamic = MODULES["a nested TensorDict"]
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, arguments(4), dynamic_shapes=dynamic), file)
    file.seek(0)
    inputs = arguments(5)
    loaded = torch.export.load(file)
    assert_same(loaded.module()(*inputs), module(*inputs))


# -- tensors without data ---------------------------------------------------------------------------------------------

#: they read data, write into a source that is on the CPU, or operands on the CPU meet the values
FILES = {*STORED, "from_csv", "from_feather", "from_huggingface", "from_json", "from_parquet", "from_polars"}
NOT_ON_META = {*FILES, "cpu", "from_arrow", "from_pandas", "from_struct_array", "share_memory_"}
NOT_ON_META |= {"__enter__", "tensor + r", "torch.where", "where", "masked_fill", "masked_fill_"}
NOT_ON_META |= {"drop_duplicates", "sort_by", "unique"}
#: they read data
NOT_FAKE = {*FILES, "[mask]", "masked_select", "from_arrow", "from_pandas", "from_struct_array", "share_memory_"}
NOT_FAKE |= {"drop_duplicates", "filter", "sort_by", "unique"}


def form(result: Any) -> Any:
    """Classes, sizes and dtypes."""
    if isinstance(result, (tuple, list)):
        return [form(part) for part in result]
    if isinstance(result, TensorCollection):
        values = {key: form(value) for key, value in result.items()}
        return type(result).__name__, tuple(result.batch_size), result.names, values
    return (tuple(result.shape), result.dtype) if isinstance(result, Tensor) else result


def called(name: str, data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(lambda: CALLS[name](data))


def assert_same_form(result: Any, expected: Any) -> None:
    if isinstance(expected, Exception):
        assert isinstance(result, Exception)
    else:
        assert not isinstance(result, Exception), result
        assert form(result) == form(expected)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in NOT_ON_META])
def test_an_operation_on_the_meta_device_gives_the_same_form(name: str) -> None:
    source = record(name in INTEGER)
    expected = called(name, source)
    assert_same_form(called(name, record(name in INTEGER).to("meta")), expected)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in NOT_FAKE])
def test_an_operation_on_fake_tensors_gives_the_same_form(name: str) -> None:
    expected = called(name, record(name in INTEGER))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = record(name in INTEGER).apply(mode.from_tensor)
    with mode:
        result = called(name, fake)
    assert_same_form(result, expected)


def test_a_collection_made_under_a_fake_mode_holds_fake_tensors() -> None:
    with FakeTensorMode():
        data = sample(4)
        assert all(isinstance(leaf, FakeTensor) for leaf in data.values(True, True))
        assert torch.stack([data, data]).reshape(-1).batch_size == (8,)


# -- subclasses of tensors --------------------------------------------------------------------------------------------


class Tagged(Tensor):
    """A subclass as users write it: results of torch's functions are of the class too."""


def tagged(n: int) -> Any:
    return torch.rand(n, 2).as_subclass(Tagged)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d[0],
        lambda d: d[1:],
        lambda d: d[torch.tensor([0, 2])],
        lambda d: d.reshape(3, 1),
        lambda d: d.unsqueeze(0),
        lambda d: torch.stack([d, d]),
        lambda d: torch.cat([d, d]),
        lambda d: d + 1,
        lambda d: d * d,
        lambda d: d.abs(),
        lambda d: d.clone(),
        lambda d: d.to(torch.float64),
        lambda d: d.sum(0),
        lambda d: d.split(1)[0],
        lambda d: d.unbind(0)[0],
        lambda d: d.apply(lambda x: x * 2),
        lambda d: d.where(torch.tensor([True, False, True]), 0),
        lambda d: torch.zeros_like(d),
        lambda d: pytree.tree_map(lambda x: x + 1, d),
    ],
)
def test_an_operation_keeps_the_class_of_its_values(call: Callable[[Any], Any]) -> None:
    values = tagged(3)
    result = call(TensorDict({"a": values, "n": {"b": values, "c": torch.ones(3)}}, [3]))
    assert type(result["a"]) is type(result["n", "b"]) is Tagged
    plain = call(TensorDict({"a": values.as_subclass(Tensor)}, [3]))
    torch.testing.assert_close(result["a"].as_subclass(Tensor), plain["a"])


def test_parameters_and_buffers_stay_what_they_are() -> None:
    parameter, buffer = nn.Parameter(torch.rand(3)), nn.Buffer(torch.rand(3))
    data = TensorDict({"p": parameter, "b": buffer}, [3])
    assert data["p"] is parameter
    assert data["b"] is buffer
    assert isinstance(data.copy()["p"], nn.Parameter)
    assert isinstance(pytree.tree_leaves(data)[0], nn.Parameter)
    assert type((data + 1)["p"]) is Tensor
    data.sum(reduce=True).backward()
    assert torch.equal(parameter.grad, torch.ones(3))  # type: ignore[arg-type]
    loaded = pickle.loads(pickle.dumps(data))
    assert isinstance(loaded["p"], nn.Parameter)


def test_a_subclass_that_answers_torch_functions_itself_meets_collections() -> None:
    seen: list[str] = []

    class Logged(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs or {})

    values = torch.ones(3, 2).as_subclass(Logged)
    data = TensorDict({"a": values, "n": {"b": torch.ones(3)}}, [3])
    assert type((data * 2)["a"]) is Logged
    assert type((values[:, 0] * data)["a"]) is Logged
    assert "mul" in seen


@pytest.mark.filterwarnings("ignore")
def test_masked_tensors_are_values_as_far_as_torch_goes() -> None:
    from torch.masked import MaskedTensor, masked_tensor

    values = masked_tensor(torch.arange(6.0).reshape(3, 2), torch.tensor([[True, False], [True, True], [False, True]]))
    data = TensorDict({"m": values, "x": torch.ones(3)}, [3])
    for result in (data[0], data[1:], data * 2, data.abs(), data.clone(), data.apply(lambda x: x + 1)):
        assert isinstance(result["m"], MaskedTensor)
    total: Any = data["m"].sum()
    assert total.get_data().item() == 0 + 2 + 3 + 5
