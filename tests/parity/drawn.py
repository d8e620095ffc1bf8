"""What is drawn once and built for either library: a collection, and the arguments of a call on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.parity.sides import is_collection, is_object

Size = tuple[int, ...]
Path = tuple[str, ...]

NUMBERS = (torch.float32, torch.float64, torch.int64)

numbers = st.builds(
    draw.Leaf,
    rest=draw.shapes(max_dims=2, min_size=1, max_size=3),
    dtype=st.sampled_from(NUMBERS),
    start=st.integers(0, 9),
)


@dataclass(frozen=True)
class Lazy:
    """How a collection is a lazy stack: along which dimension, and whether itself or the collections in it."""

    dim: int
    nested: bool = False

    def stacked(self, data: Any, tree: draw.Tree) -> Any:
        if not self.nested:
            return data.to_lazystack(self.dim)
        for key, entry in tree.entries.items():
            if isinstance(entry, draw.Tree):
                data.set(key, data.get(key).to_lazystack(self.dim))
        return data


@dataclass(frozen=True)
class Drawn:
    """A collection, before it is built for a library or after some operations on it."""

    tree: draw.Tree
    batch_size: Size = ()
    names: list[str | None] | None = None
    device: Any = None
    locked: bool = False
    lazy: Lazy | None = None

    def build(self, library: Any) -> Any:
        data = self.tree.build(self.batch_size, self.names, library, self.device)
        if self.lazy is not None:
            data = self.lazy.stacked(data, self.tree)
        return data.lock_() if self.locked else data

    @classmethod
    def seen(cls, data: Any) -> Drawn:
        """The description of a collection that is there already, as far as arguments are drawn from it."""
        return cls(_tree_of(data, data.ndim), tuple(data.batch_size), data.names, data.device, data.is_locked)

    @property
    def ndim(self) -> int:
        return len(self.batch_size)

    @cached_property
    def paths(self) -> list[Path]:
        """All keys, with those of nested collections."""
        return _paths(self.tree)

    @cached_property
    def leaves(self) -> dict[Path, draw.Leaf]:
        """The tensors, at all levels."""
        return {path: entry for path in self.paths if isinstance(entry := self.entry(path), draw.Leaf)}

    @cached_property
    def objects(self) -> bool:
        return bool(self.tree.count(draw.Column) + self.tree.count(draw.Text))

    @cached_property
    def numeric(self) -> bool:
        return all(leaf.dtype in NUMBERS for leaf in self.leaves.values())

    def entry(self, path: Path) -> Any:
        entry: Any = self.tree
        for key in path:
            entry = entry.entries[key]
        return entry


def _paths(tree: draw.Tree, prefix: Path = ()) -> list[Path]:
    below = [_paths(entry, (*prefix, key)) for key, entry in tree.entries.items() if isinstance(entry, draw.Tree)]
    return [(*prefix, key) for key in tree.entries] + [path for part in below for path in part]


def _tree_of(data: Any, ndim: int) -> draw.Tree:
    size = data.batch_size
    entries: dict[str, Any] = {}
    for key in data.keys():  # noqa: SIM118
        value = data.get(key)
        if is_object(value):
            entries[key] = draw.Text()
        elif is_collection(value):
            entries[key] = _tree_of(value, len(size))
        else:
            entries[key] = draw.Leaf(tuple(value.shape[len(size) :]), value.dtype)
    return draw.Tree(entries, tuple(size[ndim:]))


@dataclass(frozen=True)
class Made:
    """An argument that each library makes for itself: an entry for a batch size."""

    entry: draw.Entry
    size: Size

    def build(self, library: Any) -> Any:
        return draw.built(self.entry, self.size, library)


@dataclass(frozen=True)
class OnTheCollection:
    """An argument that is computed from the collection itself."""

    function: Callable[[Any], Any]
    name: str = "of the collection"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def built(self, data: Any, library: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def made(value: Any) -> Any:
            if isinstance(value, Made):
                return value.build(library)
            if isinstance(value, OnTheCollection):
                return value.function(data)
            if type(value) in (list, tuple):
                return type(value)(made(part) for part in value)
            if isinstance(value, dict):
                return {key: made(part) for key, part in value.items()}
            return value.clone() if isinstance(value, torch.Tensor) else value

        return made(self.args), made(dict(self.kwargs))


# what is drawn for a collection: a strategy, a function of the collection that gives one, or a constant
Source = Any

_ABSENT = object()


def maybe(source: Source) -> Source:
    """An argument that is given sometimes."""
    return lambda drawn: st.just(_ABSENT) | strategy(source, drawn)


def strategy(source: Source, drawn: Drawn) -> st.SearchStrategy[Any]:
    if isinstance(source, st.SearchStrategy):
        return source
    return strategy(source(drawn), drawn) if callable(source) else st.just(source)


@dataclass(frozen=True)
class Case:
    """A call of a public method: what it is called with, and how where that is not by its name.

    ``dims`` are the fewest batch dimensions that it needs; ``numbers`` says that it computes, and ``objects`` whether
    it works beside non-tensor data in both libraries.
    """

    arguments: Callable[[Drawn], st.SearchStrategy[Arguments]]
    call: Callable[..., Any] | None = None
    dims: int = 0
    numbers: bool = False
    objects: bool = True

    def fits(self, drawn: Drawn) -> bool:
        return drawn.ndim >= self.dims and (self.objects or not drawn.objects) and (not self.numbers or drawn.numeric)

    def __call__(self, name: str, data: Any, library: Any, arguments: Arguments) -> Any:
        args, kwargs = arguments.built(data, library)
        if self.call is not None:
            return self.call(data, library, *args, **kwargs)
        name = name.split(":")[0]
        if name.endswith("()"):
            return getattr(library, name[:-2])(data, *args, **kwargs)
        member = getattr(data, name)
        return member(*args, **kwargs) if callable(member) and not is_collection(member) else member


def case(*positional: Source, call: Callable[..., Any] | None = None, dims: int = 0, numbers: bool = False,
         objects: bool = True, **keywords: Source) -> Case:  # fmt: skip
    """A case whose arguments are drawn one by one."""

    def arguments(drawn: Drawn) -> st.SearchStrategy[Arguments]:
        args = st.tuples(*(strategy(source, drawn) for source in positional))
        kwargs = st.fixed_dictionaries({key: strategy(source, drawn) for key, source in keywords.items()})
        return st.builds(
            lambda a, k: Arguments(
                tuple(value for value in a if value is not _ABSENT),
                {key: value for key, value in k.items() if value is not _ABSENT},
            ),
            args,
            kwargs,
        )

    return Case(arguments, call, dims, numbers, objects)


def spread(source: Source, **options: Any) -> Case:
    """A case whose positional arguments are drawn together, as one tuple."""
    return Case(lambda drawn: strategy(source, drawn).map(lambda args: Arguments(tuple(args))), **options)
