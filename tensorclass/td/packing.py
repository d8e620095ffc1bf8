"""Pack, concatenate or stack many values to one tensor."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name

from . import registry, shapes
from .get import MISSING
from .hidden_members import with_members
from .keys import FlatKey, NestedKey, join_key, unravel_key, unravel_key_to_tuple
from .remove import Removing

if TYPE_CHECKING:
    from .base import TensorCollection


@dataclass(frozen=True)
class PackLayout:
    """Layout of the tensor that :meth:`TensorDict.pack` makes; :meth:`unpack` restores the collection.

    It is frozen, hashable and equal by value: one layout serves all collections of one structure.

    Args:
        keys: keys of the tensors, in the order of their columns.
        shapes: shape of each tensor after the batch dimensions of the packed collection.
        dim: position of the columns, counted from the end. Default: -1.
        nested: key, additional batch dimensions and class (``None``: a TensorDict) of each nested collection.
        device: device of the collection, or ``None``.
        cls: class of the collection; ``None`` for a TensorDict.

    Attributes:
        offsets: first column of each tensor.
        numel: number of columns.

    Example:
        >>> import torch
        >>> from tensorclass import PackLayout
        >>> layout = PackLayout(keys=("position", "mass"), shapes=(torch.Size([3]), torch.Size([])))
        >>> layout.offsets, layout.numel, layout.unpack(torch.zeros(5, 4))["position"].shape
        ((0, 3), 4, torch.Size([5, 3]))
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
        """Restore a collection from packed columns.

        Args:
            flat: tensor with ``numel`` columns along ``dim``. Its other dimensions are the batch size of the result.

        Returns:
            A collection of the packed structure. Its values are views of ``flat`` if the strides allow it.

        Raises:
            ValueError: ``flat`` has another number of columns.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> flat, layout = TensorDict({"a": torch.zeros(5, 3), "b": torch.ones(5)}, [5]).pack()
            >>> layout.unpack(flat)["b"]
            tensor([1., 1., 1., 1., 1.])
        """
        if flat.ndim < -self.dim or flat.shape[self.dim] != self.numel:
            raise ValueError(
                f"unpack: expected {self.numel} entries along dim {self.dim}, got a tensor of shape {list(flat.shape)}"
            )
        dim = self.dim + flat.ndim
        batch_size = flat.shape[:dim] + flat.shape[dim + 1 :]
        root = _made(self.cls, batch_size, self.device)
        structure = {key: (shape, cls) for key, shape, cls in self.nested}
        nodes: dict[FlatKey, Any] = {}

        def node(path: tuple[str, ...]) -> Any:
            if not path:
                return root
            key = unravel_key(path)
            if key not in nodes:
                shape, cls = structure.get(key, (Size(), None))
                nodes[key] = _made(cls, batch_size + shape, self.device)
                node(path[:-1])._store[path[-1]] = nodes[key]
            return nodes[key]

        for key, shape, start in zip(self.keys, self.shapes, self.offsets, strict=True):
            *path, last = unravel_key_to_tuple(key)
            columns = flat.narrow(dim, start, shape.numel()).movedim(dim, -1)
            node(tuple(path))._store[last] = columns.reshape(batch_size + shape)
        for key in structure:  # nested collections without tensors
            node(unravel_key_to_tuple(key))
        return root


def _made(cls: type[TensorCollection] | None, batch_size: Size, device: torch.device | None) -> TensorCollection:
    """Return an empty collection of a class."""
    empty = registry.TensorDict({}, batch_size, device)
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
        """Pack all values into columns of one tensor.

        Args:
            dim: position of the columns among the batch dimensions. Default: -1, after them.
            layout: layout of a collection of the same structure, whose order of columns is used. Default: the order
                of the keys.

        Returns:
            A tensor of the batch size with one more dimension, and the layout that :meth:`PackLayout.unpack` needs.

        Raises:
            TypeError: an entry is not a tensor, or dtypes differ.
            IndexError: ``dim`` is out of range.
            KeyError: the keys are not those of ``layout``.
            ValueError: shapes or ``dim`` are not those of ``layout``.
            RuntimeError: tensors are on different devices.

        Example:
            >>> import torch
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
        found = _Structure(ndim)
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
        """Concatenate all tensors.

        Args:
            dim: dimension of the tensors along which they are concatenated. Default: 0.
            sorted: ``True`` takes the keys in alphabetical order, a list of all keys in its order. Default: the order
                of the collection.
            out: tensor that the result is written to.

        Returns:
            A new tensor, or ``out``.

        Raises:
            RuntimeError: ``sorted`` does not list all keys, or the shapes do not fit.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"b": torch.ones(3, 2), "a": torch.zeros(3, 1)}, [3]).cat_from_tensordict(1, sorted=True)[0]
            tensor([0., 1., 1.])
        """
        return torch.cat(self._in_order(sorted), dim, out=out)

    def stack_from_tensordict(
        self, dim: int = 0, *, sorted: bool | list[NestedKey] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Stack all tensors, which must have one shape.

        Args:
            dim: position of the new dimension. Default: 0.
            sorted: see :meth:`cat_from_tensordict`.
            out: tensor that the result is written to.

        Returns:
            A new tensor, or ``out``.

        Raises:
            RuntimeError: ``sorted`` does not list all keys, or the shapes differ.

        Example:
            >>> import torch
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
        """Replace several values by their concatenation, in place.

        Args:
            keys: keys of the values, nested or not.
            out_key: key of the result, which can be one of ``keys``.
            dim: dimension of the tensors along which they are concatenated. Default: 0.
            keep_entries: keep the values beside the result. Default: ``False``.

        Returns:
            This collection.

        Raises:
            KeyError: a key does not exist.
            RuntimeError: shapes do not fit, the result lacks the batch size in front, or the collection is locked.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3, 2), "b": torch.ones(3, 4)}, [3])
            >>> data.cat_tensors("a", "b", out_key="ab", dim=1)["ab"].shape, "a" in data
            (torch.Size([3, 6]), False)
        """
        return self._merge_entries(torch.cat, keys, out_key, dim, keep_entries)

    def stack_tensors(self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> Self:
        """Replace several values of one shape by their stack, in place.

        Args:
            keys: keys of the values, nested or not.
            out_key: key of the result, which can be one of ``keys``.
            dim: position of the new dimension. Default: 0.
            keep_entries: keep the values beside the result. Default: ``False``.

        Returns:
            This collection.

        Raises:
            KeyError: a key does not exist.
            RuntimeError: shapes differ, the result lacks the batch size in front, or the collection is locked.

        Example:
            >>> import torch
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
        # write first: if the result does not fit, nothing is removed
        self._set_nested(unravel_key_to_tuple(out_key), join(values, dim))
        if not keep_entries:
            for path in dict.fromkeys(paths):
                if path != unravel_key_to_tuple(out_key):
                    with_members(self).pop(path)
        return self


def _class(collection: TensorCollection) -> type[TensorCollection] | None:
    """The class of a record; ``None`` for a TensorDict."""
    cls = type(collection._same({}))
    return None if cls is registry.TensorDict else cls


class _Structure:
    """Tensors and nested collections of a tree, with their keys."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        self.leaves: dict[FlatKey, Tensor] = {}
        self.nested: list[tuple[FlatKey, Size, type | None]] = []

    def visit(self, tree: Any, path: tuple[str, ...]) -> None:
        for name, value in tree._now().items():
            key = join_key(path, name)
            if isinstance(value, Tensor):
                self.leaves[key] = value
            elif value._is_tree():
                self.nested.append((key, value._batch_size[self.ndim :], _class(value)))
                self.visit(value, (*path, name))
            else:
                raise TypeError(
                    f"pack: expected a tensor for {key!r}, got a {type_name(value)}; leave such entries out with "
                    ".filter_non_tensor_data()"
                )
