"""Native code with arguments that no method of the package hands to it: errors, or None, but no crash."""

from __future__ import annotations

import gc
import itertools
import re
import warnings
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from tensorclass import NonTensorStack, Ragged, TensorDict, Text, lazy_stack
from tensorclass.td import native
from tests import fresh_python, native_code

pytestmark = pytest.mark.skipif(not native.ON, reason="native code is not built, or switched off")


HUGE = torch.Size([2**62, 8])


class Foreign:
    _NATIVE = True


class ForeignList(list[Any]):
    _NATIVE = True


def hostile_arguments() -> list[Any]:
    data = TensorDict({"a": torch.zeros(2, 3)}, [2])
    text = TensorDict({"t": Text(["x", "y"])}, [2])
    half = TensorDict.__new__(TensorDict)
    wrong_size = TensorDict({"a": torch.zeros(2)}, [2])
    wrong_size._batch_size = 5
    huge = TensorDict({}, [2])
    huge._batch_size = HUGE
    stack = NonTensorStack("x", "y")
    values: list[Any] = [data, text, half, wrong_size, huge, stack, text["t"], lazy_stack([data, data])]
    values += [Foreign(), ForeignList(), None, True, -1, 2**70, "a", "cpu", b"a", 0.5, (), ("a",), (2**62, 4), (-1, 3)]
    values += [[], [data], [data, Foreign()], [half], [(1, 2, 3, 4, 5)], [3], ["a"], [None]]
    values += [
        {},
        {"a": 1},
        {1: 2},
        {"a": data},
        {"a": [3]},
        {"a": {"b": torch.zeros(2)}},
        [{}],
        [torch.zeros(2)],
        (data, 3),
    ]
    values += [torch.zeros(2), torch.tensor([9])]
    values += [torch.Size([2]), torch.float32, torch.device("meta"), TensorDict, int, lambda: None]
    return values


def arities() -> dict[str, int]:
    """Return how many arguments each function takes; some take fewer, too."""
    sources = Path(native.__file__).parent / "source"
    text = "".join([file.read_text() for file in sources.glob("*.h")])
    fixed = {name: int(count) for name, count in re.findall(r"(?:OPERATION|FUNCTION)\((\w+), (\d)\)", text)}
    return {**dict.fromkeys(native_code.functions(), 3), **fixed, "fill_record": 7}


def test_functions_check_what_they_are_called_with() -> None:
    random = Random(0)
    assert len(native_code.functions()) > 20
    for name, function in native_code.functions().items():
        count, values = arities()[name], hostile_arguments()
        plain = [None, 0, 1]  # with these, a function goes on to look at its first argument
        for first, others in itertools.product(values, [values] * 12 + [plain] * 12):
            arguments = [first, *random.choices(others, k=count - 1)]
            with suppress(Exception):  # any error will do, and so will None
                function(*arguments)


def test_a_method_with_nonsense_raises() -> None:
    data = TensorDict({"a": torch.zeros(4)}, [4])
    with pytest.raises((TypeError, IndexError)):
        data._permute("a")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["contiguous", "detach", "to_dict", "shallow"])
def test_a_class_that_says_it_is_native_is_no_collection(name: str) -> None:
    assert native_code.functions()[name](Foreign()) is None


@pytest.mark.parametrize("name", ["to", "type"])
def test_warnings_that_are_errors_keep_no_result(name: str, request: pytest.FixtureRequest) -> None:
    torch.set_warn_always(True)
    request.addfinalizer(lambda: torch.set_warn_always(False))
    data = TensorDict({"a": torch.zeros(4, dtype=torch.complex64)}, [4])

    def count() -> int:
        gc.collect()
        return sum(type(value) is TensorDict for value in gc.get_objects())

    before = count()
    for _ in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="omplex"):
                getattr(data, name)(torch.float32)
    assert count() <= before + 1


def test_batch_sizes_beyond_64_bits_are_told_with_the_field() -> None:
    with pytest.raises(Exception, match=r"a: batch dimension mismatch.*1180591620717411303424"):
        TensorDict({"a": torch.zeros(4)}, [2**70])


@pytest.mark.parametrize(
    "size, change",
    [
        ([2**62, 2], "reshape(-1, 3, 6148914691236517205)"),
        ([0], "reshape(2**32, 2**32)"),
        ([4], "reshape(2**62 + 1, 4)"),
        ([2**62, 4], "flatten()"),
        ([2**40, 2**40], "flatten(0, 1)"),
        ([4], "unflatten(0, (2**62 + 1, 4))"),
    ],
)
def test_sizes_that_overflow_raise(size: list[int], change: str) -> None:
    data = TensorDict({}, size)
    with pytest.raises(RuntimeError):
        eval(f"data.{change}", {"data": data})


def test_spans_of_another_dtype_are_not_read_as_pairs_of_int64() -> None:
    for change in (lambda spans: spans.int(), lambda spans: spans[:, :1].contiguous()):
        spans = torch.tensor([[0, 1], [1, 2], [3, 1]] * 4000)
        column = Ragged(torch.arange(10.0), spans)
        spans.data = change(spans)  # `from_spans` keeps the caller's tensor
        taken = [column[torch.arange(12_000)]._spans() for _ in range(10)]
        assert all(torch.equal(found, spans) for found in taken)


def test_values_that_were_resized_are_not_joined_beyond_their_memory() -> None:
    rows = []
    for _ in range(2000):
        tensor = torch.ones(3)
        rows.append(TensorDict({"a": tensor}, [3]))
        tensor.resize_(())
    with pytest.raises(RuntimeError, match="a: zero-dimensional tensor"):
        torch.cat(rows)
    tensors = [torch.ones(1, 3), torch.ones(1, 3)]
    planes = [TensorDict({"a": tensor}, [1, 3]) for tensor in tensors]
    for tensor in tensors:
        tensor.resize_(1)
    for join in (torch.cat, torch.stack):
        with pytest.raises((RuntimeError, IndexError)):
            join(planes, 2 if join is torch.stack else 1)


def test_a_collection_that_is_made_anew_in_the_middle_of_a_join_is_read_in_one_state() -> None:
    class Key(str):
        other: TensorDict | None = None

        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            if Key.other is not None:
                changed, Key.other = Key.other, None
                changed.__init__({"k": torch.ones(5)}, [5])  # type: ignore[misc]
            return str.__eq__(self, other)

    first, second = TensorDict({}, [3]), TensorDict({"k": torch.ones(3)}, [3])
    first._store[Key("k")] = torch.ones(3)
    Key.other = second
    joined = torch.cat([first, second])
    assert joined.batch_size == joined["k"].shape


def test_joining_lengths_that_overflow_raises() -> None:
    data = TensorDict({}, [2**62])
    with pytest.raises(RuntimeError):
        torch.cat([data, data])


DEEP = """
import torch
from tensorclass import TensorDict

def deep(levels):
    made = TensorDict({"a": torch.zeros(4)}, [4])
    for _ in range(levels):
        outer = TensorDict({}, [4])
        outer._store["below"] = made
        made = outer
    return made

operations = {
    "exp": lambda d: d.exp(), "add": lambda d: d + 1, "add_all": lambda d: d + d, "row": lambda d: d[0],
    "rows": lambda d: d[1:3], "detach": lambda d: d.detach(), "clone": lambda d: d.clone(),
    "cast": lambda d: d.to(torch.float64), "reshape": lambda d: d.reshape(2, 2), "unbind": lambda d: d.unbind(0),
    "split": lambda d: d.split(2), "mean": lambda d: d.mean(0), "update_": lambda d: d.update_(d),
    "write": lambda d: d.__setitem__(0, 0), "stack": lambda d: torch.stack([d, d]),
    "contiguous": lambda d: d.contiguous(),
    "where": lambda d: d.where(torch.ones(4, dtype=torch.bool), d), "copy": lambda d: d.copy(),
    "to_dict": lambda d: d.to_dict(), "keys": lambda d: list(d.keys(True, True)), "flat": lambda d: d.flatten_keys(),
}
own = TensorDict({"a": torch.zeros(4)}, [4])
own._store["own"] = own._store["again"] = own
for data in (deep(60_000), own):
    for name, operation in operations.items():
        try:
            operation(data)
        except RecursionError:
            continue
        raise SystemExit(name)
    assert all(operation(deep(30)) is not NotImplemented for operation in operations.values())
own._store.clear()
print("all raised")
"""


def test_deep_trees_raise_recursion_errors() -> None:
    done = fresh_python.run(["-c", DEEP])
    assert (done.stdout.strip(), done.returncode) == ("all raised", 0), done.stderr[-2000:]
