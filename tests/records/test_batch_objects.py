"""A field of objects holds one object for all rows: what it gives has one type."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import Column, NonTensorStack, TensorClass, TensorDict, Text, cat, lazy_stack, stack, tensorclass
from tensorclass.td.leaves.batch_object import BatchObject, RowsDiffer


class Sample(TensorClass):
    x: Tensor
    source: str = "web"
    config: dict[str, int] | None = None


class Stacking(TensorClass, stack_objects=True):
    x: Tensor
    source: str


def sample(source: str = "web", count: int = 2) -> Sample:
    return Sample(torch.arange(count), source, {"a": 1}, batch_size=[count])


OPERATIONS: dict[str, Callable[[Sample], Sample]] = {
    "row": lambda s: s[0],
    "slice": lambda s: s[1:],
    "mask": lambda s: s[torch.tensor([True, False])],
    "stack": lambda s: stack([s, s.clone()]),
    "stack of rows": lambda s: stack([s[0], sample()[1]]),
    "cat": lambda s: cat([s, sample()]),
    "lazy stack": lambda s: lazy_stack([s, sample()]),
    "where": lambda s: s.where(torch.tensor([True, False]), sample()),
    "reshape": lambda s: s.reshape(2, 1),
    "expand": lambda s: s.expand(3, 2),
    "unbind": lambda s: s.unbind(0)[1],
    "clone": lambda s: s.clone(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "to": lambda s: s.to("meta"),
    "arithmetic": lambda s: s + 1,
    "replace": lambda s: dataclasses.replace(s, x=s.x + 1),
    "gather": lambda s: s.gather(0, torch.tensor([1, 1, 0])),
    "pad": lambda s: __import__("tensorclass").pad(s, [0, 1]),
    "from_dict": lambda s: Sample.from_dict(s.to_dict(), batch_size=[2]),
    "vmap": lambda s: torch.vmap(lambda row: row)(s),
    "tree_map": lambda s: torch.utils._pytree.tree_map(lambda x: x + 1, s),
    "to_tensordict": lambda s: Sample.from_tensordict(s.to_tensordict()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_keeps_the_object(name: str) -> None:
    result = OPERATIONS[name](sample())
    assert (result.source, result.config) == ("web", {"a": 1})
    assert isinstance(result, Sample)


DIFFERENT: dict[str, Callable[[Sample, Sample], Any]] = {
    "stack": lambda a, b: stack([a, b]),
    "stack of rows": lambda a, b: stack([a[0], b[0]]),
    "cat": lambda a, b: cat([a, b]),
    "torch.cat": lambda a, b: torch.cat([a, b]),
    "lazy stack": lambda a, b: lazy_stack([a, b]).source,
    "where": lambda a, b: a.where(torch.tensor([True, False]), b),
    "row": lambda a, b: a.__setitem__(0, b[0]),
    "rows": lambda a, b: a.__setitem__(slice(None), b),
    "list": lambda a, b: Sample(torch.zeros(2), ["a", "b"], batch_size=[2]),
    "set": lambda a, b: setattr(a, "source", ["a", "b"]),
    "data": lambda a, b: a.set("source", NonTensorStack("a", "b")),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_rows_that_differ_are_an_error_that_names_the_field_and_says_what_to_declare(name: str) -> None:
    here, other = sample(), sample("film")
    before = here.clone()
    with pytest.raises(RuntimeError, match="the rows differ") as raised:
        DIFFERENT[name](here, other)
    assert "declare it Text" in str(raised.value)
    assert "source" in str(raised.value) or name == "lazy stack"
    assert (here.source, here.x.tolist()) == (before.source, before.x.tolist())


def test_a_list_of_equal_objects_is_one_object() -> None:
    assert Sample(torch.zeros(2), ["a", "a"], batch_size=[2]).source == "a"
    data = sample()
    data.set("source", NonTensorStack("b", "b"))
    assert data.source == "b"


def test_a_field_is_replaced_as_a_whole() -> None:
    data = sample()
    data.source = "film"
    assert data[0].source == "film"
    data.update({"source": "radio"})
    assert data.source == "radio"
    data[:] = sample("radio")
    assert data.source == "radio"


def test_objects_are_stacked_where_the_class_says_so() -> None:
    a, b = Stacking(torch.zeros(1), "a"), Stacking(torch.zeros(1), "b")
    assert stack([a, b]).source == ["a", "b"]
    assert stack([a, a]).source == "a"

    @tensorclass(stack_objects=True)
    class Decorated:
        x: Tensor
        source: str

    assert torch.stack([Decorated(torch.zeros(1), s) for s in "ab"]).source == ["a", "b"]  # type: ignore[call-overload]

    class Derived(Stacking):
        more: str = ""

    rows = stack([Derived(torch.zeros(1), s, s) for s in "ab"])
    assert (rows.source, rows.more) == (["a", "b"], ["a", "b"])


def test_a_tensordict_stacks_objects() -> None:
    assert stack([TensorDict({"s": "a"}), TensorDict({"s": "b"})])["s"] == ["a", "b"]
    assert stack([sample("a").to_tensordict(), sample("b").to_tensordict()])["source"] == [["a", "a"], ["b", "b"]]


def test_columns_take_what_one_object_cannot() -> None:
    class Row(TensorClass):
        text: Text
        tags: Column[list[str]]

    rows = stack([Row(text=t, tags=[t]) for t in ("yes", "no")])
    assert rows.text.tolist() == ["yes", "no"]
    assert stack([Row(text="yes", tags=["u"]) for _ in range(2)]).text.tolist() == ["yes", "yes"]
    assert type(rows.text) is type(rows[:1].text) is type(rows[0].text) is Text
    assert dataclasses.replace(rows, text=rows.text).tags.tolist() == [["yes"], ["no"]]


def test_it_comes_back_from_files(tmp_path: Path) -> None:
    data = sample()
    data.memmap(tmp_path / "folder")
    assert Sample.load_memmap(tmp_path / "folder").source == "web"
    buffer = io.BytesIO()
    torch.save(data, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert (loaded.source, type(loaded.get("source"))) == ("web", BatchObject)
    with pytest.raises(RowsDiffer):
        loaded[0] = sample("film")[0]


def test_compiled_code_keeps_the_object() -> None:
    def work(s: Sample) -> Sample:
        return stack([s[0] + 1, s[1]])

    assert torch.compile(work, fullgraph=True, backend="eager")(sample()).source == "web"
