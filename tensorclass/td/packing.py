"""Many values made one tensor: packed into columns, joined or stacked."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from . import shapes
from .keys import FlatKey, NestedKey, join_key, unravel_key, unravel_key_to_tuple
from .reading import MISSING
from .remove import Removing

if TYPE_CHECKING:
    from .base import TensorCollection


@dataclass(frozen=True)
class PackLayout:
    """What :meth:`TensorDict.pack` put where, so that :meth:`unpack` can undo it.

    Frozen, hashable, equal by value: one layout serves all collections of one structure.

    Args:
        keys: of the tensors, in the order of their columns.
        shapes: of each tensor, behind the batch dimensions of the collection that was packed.
        dim: the packed dimension, counted from the end.
        nested: the key, the further batch dimensions and the class (``None``: a TensorDict) of each nested collection.
        device: of the collection.
        cls: its class; ``None`` for a TensorDict.

    Attributes:
        offsets: the first column of each tensor.
        numel: the number of columns.
    """

    keys: tuple[FlatKey, ...]
    shapes: tuple[Size, ...]
    dim: int = -1
    nested: tuple[tuple[FlatKey, Size, type | None], ...] = ()
    device: torch.device | None = None
    cls: type | None = None
    offsets: tuple[int, ...] = field(init=False)
    numel: int = field(init=False)

    def __post_init__(self) -> None:
        sizes = tuple(Size(shape) for shape in self.shapes)
        nested = tuple((key, Size(shape), cls) for key, shape, cls in self.nested)
        offsets = [0]
        for shape in sizes:
            offsets.append(offsets[-1] + shape.numel())
        computed = {"shapes": sizes, "nested": nested, "offsets": tuple(offsets[:-1]), "numel": offsets[-1]}
        for name, value in computed.items():
            object.__setattr__(self, name, value)

    def unpack(self, flat: Tensor) -> TensorCollection:
        """The collection whose values are the columns of ``flat``: views of it, where its strides allow.

        Args:
            flat: a tensor with ``numel`` entries along ``dim``; its other dimensions are the batch size of the result.

        Raises:
            ValueError: ``flat`` has another number of columns.
        """
        if flat.ndim < -self.dim or flat.shape[self.dim] != self.numel:
            raise ValueError(
                f"unpack: expected {self.numel} entries along dim {self.dim}, got a tensor of shape {list(flat.shape)}"
            )
        dim = self.dim + flat.ndim
        batch_size = flat.shape[:dim] + flat.shape[dim + 1 :]
        root = _made(self.cls, batch_size, self.device)
        kinds = {key: (shape, cls) for key, shape, cls in self.nested}
        nodes: dict[FlatKey, Any] = {}

        def node(path: tuple[str, ...]) -> Any:
            if not path:
                return root
            key = unravel_key(path)
            if key not in nodes:
                shape, cls = kinds.get(key, (Size(), None))
                nodes[key] = _made(cls, batch_size + shape, self.device)
                node(path[:-1])._store[path[-1]] = nodes[key]
            return nodes[key]

        for key, shape, start in zip(self.keys, self.shapes, self.offsets, strict=True):
            *path, last = unravel_key_to_tuple(key)
            columns = flat.narrow(dim, start, shape.numel()).movedim(dim, -1)
            node(tuple(path))._store[last] = columns.reshape(batch_size + shape)
        for key in kinds:  # those that hold no tensor
            node(unravel_key_to_tuple(key))
        return root


def _made(cls: type[TensorCollection] | None, batch_size: Size, device: torch.device | None) -> TensorCollection:
    from .tensordict import TensorDict

    empty = TensorDict({}, batch_size, device)
    if cls is None:
        return empty
    new = object.__new__(cls)
    new._store, new._lock, new._names = {}, None, None
    new._batch_size, new._device = empty._batch_size, empty._device
    return new


class Packing(Removing):
    """``pack``, ``cat_tensors``, ``stack_tensors``, ``cat_from_tensordict``, ``stack_from_tensordict``."""

    __slots__ = ()

    # -- all values in the columns of one tensor -----------------------------------------------------------------------

    def pack(self, dim: int = -1, *, layout: PackLayout | None = None) -> tuple[Tensor, PackLayout]:
        """All values as columns of one tensor, and the layout that undoes it.

        Args:
            dim: where the columns lie among the batch dimensions; ``-1`` is behind them.
            layout: of a collection of the same structure; its columns come in the order of this layout.

        Returns:
            A tensor of the shape of the batch size with one more dimension, and the layout.

        Raises:
            TypeError: an entry is no tensor, or dtypes differ.
            IndexError: ``dim`` is out of range.
            KeyError, ValueError: keys, shapes or ``dim`` are not those of the layout.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"position": torch.zeros(5, 3), "mass": torch.ones(5)}, [5])
        >>> flat, layout = data.pack()
        >>> flat.shape, layout.keys, layout.offsets
        (torch.Size([5, 4]), ('position', 'mass'), (0, 3))
        >>> layout.unpack(flat[:2])["position"].shape
        torch.Size([2, 3])
        """
        batch_size = self._batch_size
        ndim = len(batch_size)
        try:
            at = shapes.wrap_dim(dim, ndim + 1)
        except IndexError as error:
            raise IndexError(f"pack: {error}; there are {ndim} batch dimensions and one of columns") from None
        found = _Found(ndim)
        found.visit(self, ())
        keys = tuple(found.leaves) if layout is None else layout.keys
        if found.leaves.keys() != set(keys):
            raise KeyError(f"pack: the layout has the keys {list(keys)}, the collection has {list(found.leaves)}")
        sizes = tuple(found.leaves[key].shape[ndim:] for key in keys)
        if layout is None:
            cls = _class(self)  # type: ignore[arg-type]
            layout = PackLayout(keys, sizes, at - ndim - 1, tuple(found.nested), self._device, cls)
        elif sizes != layout.shapes:
            raise ValueError(f"pack: the layout has the shapes {list(layout.shapes)}, the collection {list(sizes)}")
        elif at - ndim - 1 != layout.dim:
            raise ValueError(f"pack: the layout has its columns in dim {layout.dim}, dim is {at - ndim - 1}")
        columns: list[Tensor] = []
        first: Tensor | None = None
        for key in keys:
            leaf = found.leaves[key]
            first = leaf if first is None else first
            if leaf.dtype != first.dtype:
                raise TypeError(
                    f"pack: one dtype is needed, {key!r} has {leaf.dtype} and {keys[0]!r} has {first.dtype}; cast them "
                    "first, for instance with .float()"
                )
            if leaf.device != first.device:
                raise RuntimeError(
                    f"pack: one device is needed, {key!r} is on {leaf.device} and {keys[0]!r} on {first.device}"
                )
            columns.append(leaf.reshape(*batch_size, leaf.shape[ndim:].numel()).movedim(-1, at))
        if not columns:
            columns.append(torch.zeros((*batch_size[:at], 0, *batch_size[at:]), device=self._device))
        return torch.cat(columns, at), layout

    # -- all values joined ---------------------------------------------------------------------------------------------

    def cat_from_tensordict(
        self, dim: int = 0, *, sorted: bool | list[NestedKey] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """All tensors joined along ``dim``, a dimension of the tensors.

        Args:
            dim: along which dimension.
            sorted: ``True`` takes the keys in alphabetical order, a list in its order; it must have all of them.
            out: a tensor to write the result into.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"b": torch.ones(3, 2), "a": torch.zeros(3, 1)}, [3]).cat_from_tensordict(1, sorted=True)[0]
        tensor([0., 1., 1.])
        """
        return torch.cat(self._in_order(sorted), dim, out=out)

    def stack_from_tensordict(
        self, dim: int = 0, *, sorted: bool | list[NestedKey] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """All tensors, of one shape, stacked along a new dimension ``dim``; see :meth:`cat_from_tensordict`.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"b": torch.ones(3, 2), "a": torch.zeros(3, 2)}, [3]).stack_from_tensordict(1).shape
        torch.Size([3, 2, 2])
        """
        return torch.stack(self._in_order(sorted), dim, out=out)

    def _in_order(self, order: bool | Iterable[NestedKey] | None) -> list[Tensor]:
        leaves = {unravel_key(path): leaf for path, leaf in self._named_leaves()}
        if order is None or order is False:
            return list(leaves.values())
        keys = (
            builtins.sorted(leaves, key=unravel_key_to_tuple) if order is True else [unravel_key(key) for key in order]
        )
        if len(keys) != len(leaves) or leaves.keys() != set(keys):
            raise RuntimeError(f"sorted: expected all of the keys {list(leaves)}, got {keys}")
        return [leaves[key] for key in keys]

    # -- some values joined --------------------------------------------------------------------------------------------

    def cat_tensors(self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> Self:
        """Replaces several values by one, joined along ``dim`` of the tensors; gives this collection.

        Args:
            keys: of the values, nested or not.
            out_key: where the result goes; it can be one of ``keys``.
            dim: along which dimension. The result must have the batch size in front.
            keep_entries: leave the values there beside the result.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": torch.zeros(3, 2), "b": torch.ones(3, 4)}, [3])
        >>> data.cat_tensors("a", "b", out_key="ab", dim=1)["ab"].shape, "a" in data
        (torch.Size([3, 6]), False)
        """
        return self._merge_entries(torch.cat, keys, out_key, dim, keep_entries)

    def stack_tensors(self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> Self:
        """:meth:`cat_tensors` with ``torch.stack``: values of one shape, along a new dimension.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": torch.zeros(3, 2), "b": torch.ones(3, 2)}, [3])
        >>> data.stack_tensors("a", "b", out_key="ab", dim=1)["ab"].shape
        torch.Size([3, 2, 2])
        """
        return self._merge_entries(torch.stack, keys, out_key, dim, keep_entries)

    def _merge_entries(
        self,
        join: Callable[..., Any],
        keys: Sequence[NestedKey],
        out_key: NestedKey,
        dim: int,
        keep_entries: bool,
    ) -> Self:
        self._check_unlocked()
        paths = [unravel_key_to_tuple(key) for key in keys]
        values = [self._find(path) for path in paths]
        for path, value in zip(paths, values, strict=True):
            if value is MISSING:
                raise self._key_error(path)
        # written first: where it does not fit, nothing is removed
        self._set_nested(unravel_key_to_tuple(out_key), join(values, dim))
        if not keep_entries:
            for path in dict.fromkeys(paths):
                if path != unravel_key_to_tuple(out_key):
                    self.pop(path)
        return self


def _class(collection: TensorCollection) -> type[TensorCollection] | None:
    """The class of a record; ``None`` for a TensorDict."""
    from .tensordict import TensorDict

    cls = type(collection._same({}))
    return None if cls is TensorDict else cls


class _Found:
    """The tensors and the nested collections of a tree, with their keys."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        self.leaves: dict[FlatKey, Tensor] = {}
        self.nested: list[tuple[FlatKey, Size, type | None]] = []

    def visit(self, tree: Any, path: tuple[str, ...]) -> None:
        for name, value in tree._store.items():
            key = join_key(path, name)
            if isinstance(value, Tensor):
                self.leaves[key] = value
            elif value._is_tree():
                self.nested.append((key, value._batch_size[self.ndim :], _class(value)))
                self.visit(value, (*path, name))
            else:
                raise TypeError(
                    f"pack: {key!r} is no tensor but {type(value).__name__}; leave such entries out first, with "
                    ".filter_non_tensor_data()"
                )
