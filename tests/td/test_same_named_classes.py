"""Two classes of one name, as a cell of a notebook that runs again makes them: errors say so, and what to do."""

from __future__ import annotations

import enum
import linecache
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import tensorclass
from tensorclass import RecordDataset, Stage, TensorClass, TensorDict, collate

CELL = """
from torch import Tensor
from tensorclass import TensorClass, tensorclass

class Sample(TensorClass):
    a: Tensor
"""


class Notebook(NamedTuple):
    """A class that was defined twice, with a value of each, and what names the first one, or the second one."""

    old: Any
    new: Any
    holder: Any
    holder_of_new: Any


def run(cell: str, name: str, space: dict[str, Any]) -> None:
    exec(compile(cell, name, "exec", dont_inherit=True), space)


@pytest.fixture(params=["subclass", "decorator"])
def notebook(request: pytest.FixtureRequest) -> Iterator[Notebook]:
    cell = (
        CELL if request.param == "subclass" else CELL.replace("class Sample(TensorClass)", "@tensorclass\nclass Sample")
    )
    space: dict[str, Any] = {"__name__": "notebook"}
    holder = "class Holder(TensorClass):\n    inner: Sample\n"
    run(cell, "<cell 1>", space)
    run(holder, "<cell 2>", space)
    old, first = space["Sample"], space["Holder"]
    run(cell, "<cell 3>", space)
    run(holder, "<cell 4>", space)
    zeros = torch.zeros(2)
    yield Notebook(old(zeros, batch_size=[2]), space["Sample"](zeros, batch_size=[2]), first, space["Holder"])
    for name in [name for name in linecache.cache if "notebook" in name]:
        del linecache.cache[name]


# Python 3.10 calls a decorator of a class in the line of the class
OLD_VALUE = r"an earlier definition \(<cell 1>:[56]\) came; the class was defined again.* Sample.from_any\(value\)"
NEW_VALUE = r"a later definition \(<cell 3>:[56]\) came; .*still refer to the older one: define them again"


def test_a_value_of_the_older_class_is_named_so(notebook: Notebook) -> None:
    old, _, _, holder = notebook
    held = holder(notebook.new, batch_size=[2])
    for write in (
        lambda: holder(old, batch_size=[2]),
        lambda: held.set("inner", old),
        lambda: setattr(held, "inner", old),
        lambda: held.update({"inner": old}),
        lambda: held.replace(inner=old),
        lambda: torch.stack([notebook.new, old]),
        lambda: torch.cat([notebook.new, old]),
        lambda: tensorclass.lazy_stack([notebook.new, old]),
        lambda: collate([notebook.new, old]),
        lambda: type(notebook.new).lazy_stack([notebook.new]).append(old),
        lambda: RecordDataset(holder, [{"inner": old[0]}])[0],
        lambda: RecordDataset(holder, [{"inner": old[0]}, {"inner": old[0]}]).__getitems__([0, 1]),
        lambda: type(notebook.new).from_pytree(old),
    ):
        with pytest.raises(TypeError, match=OLD_VALUE):
            write()


def test_what_still_means_the_older_class_is_to_be_defined_again(notebook: Notebook) -> None:
    held = notebook.holder(notebook.old, batch_size=[2])
    for write in (
        lambda: notebook.holder(notebook.new, batch_size=[2]),
        lambda: held.set("inner", notebook.new),
        lambda: RecordDataset(notebook.holder, [{"inner": notebook.new[0]}])[0],
    ):
        with pytest.raises(TypeError, match=NEW_VALUE):
            write()


def test_the_advice_for_an_old_value_works(notebook: Notebook) -> None:
    converted = type(notebook.new).from_any(notebook.old)
    assert notebook.holder_of_new(converted, batch_size=[2]).inner.a is notebook.old.a


def test_stages_say_it(notebook: Notebook) -> None:
    def of(cls: Any) -> Any:
        def stage(record: Any) -> Any:
            return record

        stage.__annotations__ = {"record": cls, "return": cls}
        return Stage(stage)

    old, new = of(type(notebook.old)), of(type(notebook.new))
    with pytest.raises(TypeError, match=NEW_VALUE):
        old(notebook.new)
    with pytest.raises(TypeError, match=OLD_VALUE):
        new(notebook.old)
    for first, second in ((old, new), (new, old)):
        with pytest.raises(TypeError, match="define them again"):
            first >> second

    def wrong(record: Any) -> Any:
        return notebook.old

    wrong.__annotations__ = {"record": type(notebook.new), "return": type(notebook.new)}
    with pytest.raises(TypeError, match=OLD_VALUE):
        Stage(wrong)(notebook.new)


def test_files_say_it(notebook: Notebook, tmp_path: Path) -> None:
    notebook.new.memmap(tmp_path / "rows")
    with pytest.raises(TypeError, match=OLD_VALUE):
        type(notebook.new).append_memmap(tmp_path / "rows", notebook.old)


def test_records_on_other_stores_say_it(notebook: Notebook) -> None:
    lazy = type(notebook.old).lazy_stack([notebook.old[0], notebook.old[1]])
    with pytest.raises(TypeError, match=OLD_VALUE):
        notebook.holder_of_new(lazy, batch_size=[2])


def test_classes_of_other_modules_are_told_apart_by_those() -> None:
    made: list[Any] = []
    for module in ("first", "second"):
        space: dict[str, Any] = {"__name__": module}
        run(CELL, f"{module}.py", space)
        made.append(space["Sample"](torch.zeros(2), batch_size=[2]))
    with pytest.raises(
        TypeError, match=r"first\.Sample \(first.py:5\) was expected, and second\.Sample \(second.py:5\) came"
    ):
        torch.stack(made)


def test_classes_that_are_no_records_are_told_apart() -> None:
    def mode() -> Any:
        class Mode(enum.Enum):
            TRAIN = 1

        return Mode

    first, second = mode(), mode()
    annotations = {"mode": first}
    record: Any = types.new_class(
        "Run", (TensorClass,), exec_body=lambda space: space.update(__annotations__=annotations)
    )
    assert record(first.TRAIN).mode is first.TRAIN
    with pytest.raises(TypeError, match=r"there are two classes of this name.*create the value again \(see"):
        record(second.TRAIN)


def test_other_mistakes_have_the_message_that_they_had(notebook: Notebook) -> None:
    with pytest.raises(TypeError, match=r"expected Sample, got Tensor.*; give it that type, or change the annotation"):
        notebook.holder(torch.zeros(2), batch_size=[2])
    with pytest.raises(TypeError, match=r"item 1 is a TensorDict$"):
        torch.stack([notebook.old, TensorDict(a=torch.zeros(2)).auto_batch_size_(1)])
