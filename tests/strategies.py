"""What properties draw: batch sizes, dimension names, nested collections, and indices.

A nested collection is drawn as a :class:`Tree`, a description that holds no tensor, so that the same one can be built
more than once and by more than one library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

import tensorclass

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
KEYS = ("a", "b", "c", "d", "image", "label", "x", "y", "z", "aa", "_private", "a key", "0")
OBJECTS: tuple[Any, ...] = ("text", "", "other text", None, ("a", 1), {"unhashable": [1]}, b"bytes", frozenset({1}))


# -- shapes -----------------------------------------------------------------------------------------------------------


def shapes(
    min_dims: int = 0, max_dims: int = 3, min_size: int = 0, max_size: int = 4
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes, sizes 0 and 1 among them."""
    sizes = st.integers(min_size, max_size)
    return st.lists(sizes, min_size=min_dims, max_size=max_dims).map(tuple)


def names(ndim: int) -> st.SearchStrategy[list[str | None]]:
    """Dimension names: each at most once, ``None`` where there is none."""
    return st.permutations(("time", "batch", "env", "head")).flatmap(
        lambda order: st.lists(st.booleans(), min_size=ndim, max_size=ndim).map(
            lambda named: [name if on else None for name, on in zip(order, named, strict=False)]
        )
    )


def names_or_none(ndim: int) -> st.SearchStrategy[list[str | None] | None]:
    """:func:`names`, or ``None`` for "no dimension has a name"."""
    return st.none() | names(ndim)


def dims(ndim: int) -> st.SearchStrategy[int]:
    """A dimension, counted from either end; there must be one."""
    return st.integers(-ndim, ndim - 1)


def any_dims(ndim: int) -> st.SearchStrategy[int]:
    """A dimension, sometimes one that is out of range."""
    return st.integers(-ndim - 2, ndim + 1)


# -- nested collections -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """A tensor: its shape behind the batch dimensions, its dtype, and the first of its values."""

    rest: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    start: int = 0

    def tensor(self, batch_size: Sequence[int]) -> torch.Tensor:
        """Values that differ from one another, as far as the dtype allows."""
        shape = (*batch_size, *self.rest)
        values = torch.arange(math.prod(shape)).reshape(shape) + self.start
        if self.dtype is torch.bool:
            return values % 3 == 0
        return torch.complex(values.float(), -values.float()) if self.dtype.is_complex else values.to(self.dtype)


@dataclass(frozen=True)
class Text:
    """An object that belongs to every position of the batch."""

    value: Any = "text"


@dataclass(frozen=True)
class Column:
    """An object for each position of the batch, repeating these; :class:`Text` where the batch has no position."""

    values: tuple[Any, ...] = ("x", "y", "z")

    def nested(self, batch_size: Sequence[int]) -> Any:
        """The objects as nested lists."""
        flat = [self.values[i % len(self.values)] for i in range(math.prod(batch_size))]
        for size in reversed(batch_size[1:]):
            flat = [flat[i : i + size] for i in range(0, len(flat), size)]
        return flat


@dataclass(frozen=True)
class Tree:
    """A collection: its entries, and the batch dimensions that it has beyond those of its owner."""

    entries: dict[str, Leaf | Text | Column | Tree] = field(default_factory=dict)
    more: tuple[int, ...] = ()

    def build(
        self,
        batch_size: Sequence[int] = (),
        names: Sequence[str | None] | None = None,
        library: Any = tensorclass,
        device: Any = None,
    ) -> Any:
        """The collection, as a ``TensorDict`` of a library."""
        size = [*batch_size, *self.more]
        values = {key: built(entry, size, library, device) for key, entry in self.entries.items()}
        return library.TensorDict(values, batch_size=size, names=names, device=device)

    def count(self, kind: type = Leaf) -> int:
        """How many entries of a kind it has, at any depth."""
        return sum(isinstance(e, kind) + (e.count(kind) if isinstance(e, Tree) else 0) for e in self.entries.values())


Entry = Leaf | Text | Column | Tree


def built(entry: Entry, size: Sequence[int], library: Any = tensorclass, device: Any = None) -> Any:
    """The value that an entry describes, as a library has it, for a batch size."""
    if isinstance(entry, Leaf):
        return entry.tensor(size)
    if isinstance(entry, Tree):
        return entry.build(size, None, library, device)
    if isinstance(entry, Column) and math.prod(size) and size:
        return library.NonTensorStack.from_list(entry.nested(size))
    value = entry.value if isinstance(entry, Text) else entry.values[0]
    return library.NonTensorData(value, batch_size=size, device=device)


leaves = st.builds(
    Leaf, rest=shapes(max_dims=2, min_size=1, max_size=3), dtype=st.sampled_from(DTYPES), start=st.integers(0, 9)
)
texts = st.builds(Text, value=st.sampled_from(OBJECTS))
columns = st.builds(Column, values=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4).map(tuple))


@st.composite
def trees(
    draw: Callable[..., Any],
    max_leaves: int = 4,
    max_levels: int = 2,
    leaf: st.SearchStrategy[Leaf] = leaves,
    objects: bool = True,
    min_leaves: int = 0,
    empty: bool = True,
) -> Tree:
    """Nested collections: leaves of mixed shapes and dtypes, objects, and collections with a longer batch size.

    Args:
        draw: given by hypothesis.
        max_leaves: how many entries that hold no others there are at most, at all levels together.
        max_levels: how deep collections lie in one another at most; 0 for a flat one.
        leaf: the tensors.
        objects: whether there is non-tensor data among the entries.
        min_leaves: how many tensors there are at least, on the first level.
        empty: whether nested collections can be without tensors.
    """
    entry = leaf | texts | columns if objects else leaf
    budget = draw(st.integers(min_leaves, max_leaves))

    def tree(level: int, count: int, at_least: int, more: tuple[int, ...]) -> Tree:
        first = draw(st.integers(0, len(KEYS) - 1))
        keys = KEYS[first:] + KEYS[:first]
        entries: dict[str, Any] = {}
        for key in keys[:at_least]:
            entries[key] = draw(leaf)
            count -= 1
        if level < max_levels and count >= (0 if empty else 1) and draw(st.booleans()):
            inner = draw(st.integers(0 if empty else 1, count))
            count -= inner
            longer = draw(shapes(max_dims=1, min_size=1, max_size=2))
            entries[keys[len(entries)]] = tree(level + 1, inner, 0 if empty else 1, longer)
        for key in keys[len(entries) : len(entries) + count]:
            entries[key] = draw(entry)
        return Tree(entries, more)

    return tree(0, budget, min_leaves, ())


@st.composite
def deep_trees(
    draw: Callable[..., Any],
    max_leaves: int = 40,
    max_levels: int = 4,
    leaf: st.SearchStrategy[Leaf] = leaves,
    objects: bool = True,
) -> Tree:
    """Nested collections with several others on a level; most are small, some have all the leaves and levels."""
    entry = leaf | leaf | texts | columns if objects else leaf
    budget = draw(st.integers(0, 3) | st.integers(0, 3) | st.integers(0, 6) | st.integers(0, max_leaves))
    levels = draw(st.integers(0, 1) | st.integers(0, max_levels))

    def tree(level: int, count: int, more: tuple[int, ...]) -> Tree:
        first = draw(st.integers(0, len(KEYS) - 1))
        keys = (KEYS[(first + i) % len(KEYS)] + "_" * (i // len(KEYS)) for i in range(count + 2))
        entries: dict[str, Any] = {}
        for _ in range(draw(st.integers(0, 2)) if level < levels else 0):
            inner = draw(st.integers(0, count))
            count -= inner
            longer = draw(st.sampled_from(((), (), (1,), (2,), (0,))))
            entries[next(keys)] = tree(level + 1, inner, longer)
        for _ in range(count):
            entries[next(keys)] = draw(entry)
        return Tree(entries, more)

    return tree(0, budget, ())


# -- indices ----------------------------------------------------------------------------------------------------------


def slices(size: int) -> st.SearchStrategy[slice]:
    """Slices with bounds inside and outside of a dimension."""
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 3))


@st.composite
def index_tensors(draw: Callable[..., Any], size: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Tensors of positions in a dimension, of a shape that meets ``shape`` by broadcasting."""
    cut = draw(st.integers(0, len(shape)))
    own = [1 if draw(st.integers(0, 4)) == 0 and n else n for n in shape[cut:]]
    count = math.prod(own)
    if size == 0 and count:
        own, count = [0], 0
    values = draw(st.lists(st.integers(-size, max(size - 1, -size)), min_size=count, max_size=count))
    return torch.tensor(values, dtype=torch.long).reshape(own)


@st.composite
def prepared_indices(draw: Callable[..., Any], batch_size: Sequence[int]) -> tuple[Any, ...]:
    """Tuples of ints, slices, ``None``, bools and index tensors, in any order, for at most the batch dimensions.

    Not all of them are valid: a bool beside index tensors may not broadcast.
    """
    common = draw(shapes(max_dims=2, max_size=3))
    items: list[Any] = []
    dim = 0
    kinds = ("int", "slice", "tensor", "tensor", "none", "bool")
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=len(batch_size) + 2)):
        if kind == "none":
            items.append(None)
        elif kind == "bool":
            items.append(draw(st.sampled_from((True, True, False))))
        elif dim < len(batch_size):
            size = batch_size[dim]
            dim += 1
            if kind == "int" and size:
                items.append(draw(st.integers(-size, size - 1)))
            elif kind == "tensor":
                items.append(draw(index_tensors(size, common)))
            else:
                items.append(draw(slices(size)))
    return tuple(items)


@st.composite
def indices(draw: Callable[..., Any], batch_size: Sequence[int]) -> Any:
    """Everything that stands in the brackets behind a tensor: one item, or a tuple of them in any order.

    In the spellings of Python, numpy and torch. Like :func:`prepared_indices` not always valid.
    """
    common = draw(shapes(max_dims=2, max_size=3))
    items: list[Any] = []
    dim = 0
    kinds = ("int", "slice", "tensor", "tensor", "mask", "none", "bool", "ellipsis")
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=len(batch_size) + 2)):
        left = len(batch_size) - dim
        if kind == "none":
            items.append(None)
        elif kind == "bool":
            items.append(draw(st.sampled_from((True, True, False))))
        elif kind == "ellipsis":
            if not any(item is Ellipsis for item in items):
                items.append(...)
                dim += draw(st.integers(0, left))
        elif kind == "mask" and left:
            depth = draw(st.integers(1, left))
            items.append(draw(masks(tuple(batch_size[dim : dim + depth]))))
            dim += depth
        elif left:
            size = batch_size[dim]
            dim += 1
            if kind == "int" and size:
                value = draw(st.integers(-size, size - 1))
                items.append(draw(st.sampled_from((int, np.int64, np.int32, torch.tensor)))(value))
            elif kind == "tensor":
                items.append(draw(spelled(draw(index_tensors(size, common)))))
            else:
                items.append(draw(slices(size)))
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def masks(draw: Callable[..., Any], shape: tuple[int, ...]) -> Any:
    """Masks of a shape: as a tensor, an array or, with one dimension, a list."""
    count = math.prod(shape)
    mask = torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=torch.bool).reshape(shape)
    spelling = draw(st.sampled_from(("tensor", "array", "list")))
    # a list without an item has no dtype: it is an index without positions, which is the same in one dimension
    if spelling == "list" and mask.ndim == 1:
        return mask.tolist()
    return mask.numpy() if spelling == "array" else mask


@st.composite
def spelled(draw: Callable[..., Any], index: torch.Tensor) -> Any:
    """An index tensor, or the same as another dtype, an array, a (nested) list, or a range."""
    spelling = draw(st.sampled_from(("tensor", "tensor", "int32", "array", "list", "range")))
    if spelling == "int32":
        return index.int()
    if spelling == "array":
        return index.numpy()
    if spelling == "list" and index.ndim and index.numel():
        return index.tolist()
    if spelling == "range" and index.ndim == 1 and index.numel():
        first = int(index[0])
        return range(first, first + 1) if first >= 0 else range(first, first - 1, -1)
    return index
