"""Every operation that ``tests/calls.py`` finds is traced whole by ``torch.compile``, and gives what it gives eagerly.

A new operation is compiled here without being named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tests.calls import CALLS, INTEGER, STORED
from tests.checks import assert_equal, outcome
from tests.compiling import groups, together


class Inner(TensorClass):
    value: Tensor


class Outer(TensorClass, stack_objects=True):
    image: Tensor
    label: Tensor
    inner: Inner
    text: str = "a"
    spare: Tensor | None = None
    extra: TensorDict | None = None


def record(integer: bool) -> Outer:
    label = torch.arange(1, 7).reshape(2, 3)
    label = label if integer else label / 20
    image = torch.stack([label, label], -1)
    return Outer(image, label, Inner(label * 2, batch_size=[2, 3]), batch_size=[2, 3])


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_same(result: Any, expected: Any, values: bool) -> None:
    assert type(result) is type(expected)
    if isinstance(expected, (tuple, list)):
        for a, b in zip(result, expected, strict=True):
            assert_same(a, b, values)
    elif isinstance(expected, TensorClass | TensorDict):
        if values:
            assert_equal(result, expected)
        else:
            assert_equal(torch.zeros_like(result), torch.zeros_like(expected))  # nan times 0 would be nan
    else:
        assert result == expected


#: values that nobody can foresee
RANDOM = {"torch.empty_like", "new_empty", "random", "random_split", "sample"}

#: what dynamo does not trace on a tensor either, and converters that call other libraries
UNTRACED = {
    **dict.fromkeys(STORED, "files"),
    "__deepcopy__": "copy.deepcopy of a tensor",
    "detach_": "a view in place of a graph input",
    "grad": "requires_grad_",
    "requires_grad_": "requires_grad_",
    "share_memory_": "share_memory_",
    "torch.rand_like": "torch.rand_like of what is no tensor",
    "drop_duplicates": "codes of the values, by numpy",
    "sort_by": "codes of the values, by numpy",
    "unique": "codes of the values, by numpy",
    "from_arrow": "pyarrow",
    "from_csv": "pyarrow",
    "from_feather": "pyarrow",
    "from_json": "pyarrow",
    "from_parquet": "pyarrow",
    "from_attrs": "makes a class",
    "from_namedtuple": "makes a class",
    "from_huggingface": "datasets",
    "from_pandas": "pandas",
    "from_polars": "polars",
    "from_pydantic": "makes a class",
    "from_struct_array": "a structured array of numpy",
}
if torch.torch_version.TorchVersion(torch.__version__) >= (2, 14):
    UNTRACED["load_state_dict"] = "the attribute _metadata of an OrderedDict, also in Module.state_dict"


@pytest.mark.parametrize("name", UNTRACED)
def test_what_is_said_not_to_be_traced_is_not(name: str) -> None:
    call, data = CALLS[name], record(False)
    if isinstance(outcome(lambda: call(record(False))), ImportError):
        pytest.skip(UNTRACED[name])
    error = outcome(lambda: torch.compile(lambda r: call(r), fullgraph=True, backend="eager")(data))
    assert isinstance(error, Exception)


#: torch compares no values of this dtype
UNCOMPARED = {"complex32"}


#: a record with a required nested field has none of them
ABSENT = {"from_schema", "fromkeys", "unchecked"}


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_an_operation_that_the_record_does_not_have_raises(name: str) -> None:
    assert isinstance(outcome(lambda: CALLS[name](record(False))), Exception)


TRACED = [name for name in CALLS if name not in {*UNTRACED, *UNCOMPARED, *ABSENT}]


@pytest.mark.parametrize("names", groups(TRACED))
def test_operations_are_traced_whole(names: list[str]) -> None:
    together(check_in_one_graph, names)


def check_in_one_graph(names: Sequence[str]) -> None:
    """Compile operations, each on a record of its own; compare the results, and the records afterwards."""
    calls = [CALLS[name] for name in names]
    data, arguments = [[record(name in INTEGER) for name in names] for _ in range(2)]
    expected = [call(value) for call, value in zip(calls, data, strict=True)]

    def run(values: list[Any]) -> list[Any]:
        return [call(value) for call, value in zip(calls, values, strict=True)]

    results = torch.compile(run, fullgraph=True, backend="eager")(arguments)
    for name, result, wanted, argument, value in zip(names, results, expected, arguments, data, strict=True):
        assert_same(result, wanted, name not in RANDOM)
        assert_equal(argument, value)
