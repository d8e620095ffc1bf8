"""Record classes that are made the same way in both libraries, and drawn records of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st

import tensorclass
from tests import strategies as draw
from tests.parity.drawn import Drawn, numbers
from tests.parity.sides import is_record


@cache
def classes(library: Any) -> dict[str, Any]:
    """The record classes of a library, by their names."""
    base: Any = library.TensorClass
    decorate: Any = library.tensorclass
    options: dict[str, bool] = {}
    if library is tensorclass:  # as the peer's records do
        options, decorate = {"stack_objects": True}, tensorclass.tensorclass(stack_objects=True)

    class Inner(base, **options):  # type: ignore[misc]
        x: torch.Tensor
        y: torch.Tensor | None = None

    class Plain(base, **options):  # type: ignore[misc]
        a: torch.Tensor
        inner: Inner
        b: torch.Tensor | None = None

    class Inherited(Plain):
        text: str = "text"

    @decorate  # type: ignore[untyped-decorator]
    class Decorated:
        a: torch.Tensor
        inner: Inner
        b: torch.Tensor | None = None
        text: str = "text"

    return {cls.__name__: cls for cls in (Inner, Plain, Inherited, Decorated)}


_INNER = {("inner",), ("inner", "x"), ("inner", "y")}

#: the keys that a record of a class can have
FIELDS = {
    "Plain": {("a",), ("b",), *_INNER},
    "Inherited": {("a",), ("b",), ("text",), *_INNER},
    "Decorated": {("a",), ("b",), ("text",), *_INNER},
}


@dataclass(frozen=True)
class RecordTree(draw.Tree):
    """A record, by the values of its fields; those that it lacks have their defaults."""

    cls: str = "Inner"

    def build(
        self,
        batch_size: Sequence[int] = (),
        names: Sequence[str | None] | None = None,
        library: Any = None,
        device: Any = None,
    ) -> Any:
        """The record, of the class of this name in a library."""
        size = [*batch_size, *self.more]
        values = {
            key: entry.value if isinstance(entry, draw.Text) else draw.built(entry, size, library, device)
            for key, entry in self.entries.items()
        }
        return classes(library)[self.cls](**values, batch_size=size, names=names, device=device)


@st.composite
def trees(data: Callable[..., Any], leaf: st.SearchStrategy[draw.Leaf], objects: bool) -> RecordTree:
    """Records with a nested one, with and without what is optional."""

    def optional(key: str, entry: st.SearchStrategy[draw.Entry]) -> dict[str, draw.Entry]:
        return {key: data(entry)} if data(st.booleans()) else {}

    name = data(st.sampled_from(("Inherited", "Decorated", "Decorated", "Plain"))) if objects else "Plain"
    inner = RecordTree({"x": data(leaf), **optional("y", leaf)}, data(st.sampled_from(((), (), (1,), (2,)))))
    entries = {"a": data(leaf), "inner": inner, **optional("b", leaf)}
    texts = {} if name == "Plain" else {"text": draw.Text(data(st.sampled_from(("text", "other text"))))}
    return RecordTree({**entries, **texts}, cls=name)


@st.composite
def records(data: Callable[..., Any], dims: int = 0, computing: bool = False, objects: bool = True) -> Drawn:
    """Drawn records, as :func:`tests.parity.test_operations.collections` are drawn."""
    tree = data(trees(numbers if computing else draw.leaves, objects))
    batch_size = data(draw.shapes(min_dims=dims))
    device = data(st.sampled_from((None, None, "cpu")))
    locked = data(st.integers(0, 9)) == 0
    return Drawn(tree, batch_size, data(draw.names_or_none(len(batch_size))), device, locked)


def as_seen(data: Any) -> Drawn:
    """The description of a collection that is there already, as :meth:`Drawn.seen` gives it, with its records."""
    drawn = Drawn.seen(data)
    return replace(drawn, tree=_with_classes(drawn.tree, data))


def _with_classes(tree: draw.Tree, data: Any) -> draw.Tree:
    entries = {
        key: _with_classes(entry, data.get(key)) if isinstance(entry, draw.Tree) else entry
        for key, entry in tree.entries.items()
    }
    return RecordTree(entries, tree.more, type(data).__name__) if is_record(data) else draw.Tree(entries, tree.more)
