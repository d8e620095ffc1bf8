"""The algebra of batch sizes and dimension names: pure functions on tuples.

No function here touches a tensor. (An index may hold tensors, of which only the shape is read, and of masks the number
of true entries.) Each function takes the batch size before an operation and returns the one after it, or raises the
error that torch would raise for a tensor of that shape. Functions whose name starts with ``names_`` do the same for
dimension names; ``None`` means that no dimension has a name.

Sizes are built as lists: a slice of a ``torch.Size`` makes another one, and costs as much as everything else here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, TypeAlias

import torch
from torch import Size, Tensor

from tensorclass.support.help_links import help_link

from .first_class_dims import is_bound
from .tracing import sizes_are_known

Names: TypeAlias = tuple[str | None, ...] | None

#: the largest size that a tensor can have; a ``torch.Size`` takes any int
LARGEST = 2**63 - 1


def as_size(batch_size: Any) -> Size:
    """Convert ``None``, an int, or a sequence of ints to a batch size.

    Example:
        >>> as_size(None), as_size(3), as_size([3, 4])
        (torch.Size([]), torch.Size([3]), torch.Size([3, 4]))
    """
    given: object = batch_size
    given_type = type(given)
    if given_type is Size:
        return batch_size  # type: ignore[no-any-return]
    if given_type is tuple or given_type is list:
        return Size(batch_size)
    if batch_size is None:
        return Size(())
    if isinstance(batch_size, (int, torch.SymInt)):
        return Size([batch_size])  # type: ignore[list-item]  # torch's stubs do not know of symbolic sizes
    sizes = batch_size
    if isinstance(batch_size, SupportsIndex) and not getattr(batch_size, "shape", ()):
        return Size([operator.index(batch_size)])  # an int of numpy
    if isinstance(batch_size, (str, bytes)) or not isinstance(batch_size, Iterable):
        raise TypeError(f"batch_size: expected an int or a sequence of ints, got {batch_size!r}")
    return Size(tuple(sizes))


def check_size(size: Size) -> None:
    """Raise if a batch size from a user has a negative entry, or one that no tensor can have.

    Example:
        >>> check_size(Size([3, 0]))
    """
    for entry in size:
        if entry < 0:
            raise RuntimeError(f"batch_size: expected sizes that are not negative, got {list(size)}")
    check_largest(size)


def check_largest(sizes: Iterable[int]) -> None:
    """Raise if a size is larger than that of any tensor. Collections without tensors have no other check.

    Symbolic sizes are left out, as comparing them would become a guard of the compiled function.
    """
    if not sizes_are_known():
        return
    for size in sizes:
        if size.__class__ is int and size > LARGEST:
            raise RuntimeError(f"batch_size: expected sizes below 2**63, got {list(sizes)}")


def common(sizes: Sequence[tuple[int, ...]], at_most: int | None = None) -> Size:
    """Return the leading dimensions that all sizes share, ``at_most`` that many.

    Example:
        >>> common([(3, 4, 5), (3, 4), (3, 4, 7)]), common([(3, 4), (3, 4)], 1)
        (torch.Size([3, 4]), torch.Size([3]))
    """
    found: list[int] = []
    for entries in zip(*sizes, strict=False):
        if entries.count(entries[0]) != len(entries):
            break
        found.append(entries[0])
    return Size(found[:at_most])


def as_sequence(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the same ints for ``f(2, 3)``, ``f((2, 3))``, ``f([2, 3])`` and ``f(torch.Size([2, 3]))``."""
    if len(args) == 1 and type(args[0]) is not int and not isinstance(args[0], (int, torch.SymInt)):
        return tuple(args[0])
    return args


def wrap_dim(dim: int, ndim: int) -> int:
    """Return ``dim`` counted from the front, for a shape of ``ndim`` dimensions.

    Example:
        >>> wrap_dim(-1, 3)
        2
    """
    if 0 <= dim < ndim:
        return dim
    if -ndim <= dim < 0:
        return dim + ndim
    if ndim == 0:
        raise IndexError(
            f"dimension {dim} is out of range: there are no batch dimensions; give batch_size= when you make the "
            f"collection{help_link('no-batch-size')}"
        )
    raise IndexError(
        f"batch dimension out of range: expected it in [{-ndim}, {ndim - 1}], got {dim}; other dimensions are those of "
        f"single values{help_link('batch-dimensions')}"
    )


def wrap_dims(dims: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Wrap one dim or several, each of which may occur once; see :func:`wrap_dim`."""
    if isinstance(dims, int):
        return (wrap_dim(dims, ndim),)
    wrapped = tuple([wrap_dim(d, ndim) for d in dims])
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"a dimension appears twice in {dims}")
    return wrapped


def reshaped(batch_size: tuple[int, ...], shape: tuple[int, ...]) -> Size:
    """Return the batch size after ``reshape(shape)``, with ``-1`` replaced by the size that is left.

    Example:
        >>> reshaped(Size([4, 6]), (3, -1))
        torch.Size([3, 8])
    """
    count = 1
    for size in batch_size:
        count *= size
    if -1 not in shape:
        known = 1
        for size in shape:
            known *= size
        if known != count or (shape and min(shape) < 0):
            raise _invalid_shape(shape, batch_size)
    else:
        known = 1
        free = -1
        for dim, size in enumerate(shape):
            if size == -1:
                if free >= 0:
                    raise RuntimeError(f"only one dimension of {list(shape)} can be -1")
                free = dim
            elif size < 0:
                raise RuntimeError(f"invalid shape {list(shape)}: a size is negative")
            else:
                known *= size
        if known == 0 or count % known != 0:
            raise _invalid_shape(shape, batch_size)
        shape = (*shape[:free], count // known, *shape[free + 1 :])
    if sizes_are_known() and count.__class__ is int and not 0 < count <= LARGEST:
        check_largest(shape)
    return Size(shape)


def _invalid_shape(shape: tuple[int, ...], batch_size: tuple[int, ...]) -> RuntimeError:
    """Return the error for a shape that the batch size cannot be given."""
    return RuntimeError(
        f"shape {list(shape)} is invalid for the batch size {list(batch_size)}; other dimensions are those of single "
        f"values{help_link('batch-dimensions')}"
    )


def too_many_indices(count: int, batch_size: Size) -> str:
    """Return the message about an index with more dimensions than the batch has."""
    what = f"too many indices: {count} of them for the batch size {list(batch_size)}; "
    if not batch_size:
        return f"{what}without batch dimensions there are no rows: give batch_size={help_link('no-batch-size')}"
    return f"{what}index a value for its other dimensions{help_link('batch-dimensions')}"


def flat_range(batch_size: Size, start_dim: int, end_dim: int) -> tuple[int, int]:
    """Return the wrapped first and last dimension of ``flatten(start_dim, end_dim)``."""
    ndim = len(batch_size)
    start, end = wrap_dim(start_dim, ndim), wrap_dim(end_dim, ndim)
    if start > end:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    return start, end


def flattened(batch_size: Size, start: int, end: int) -> Size:
    """Return the batch size with the (wrapped) dimensions ``start`` to ``end``, inclusive, merged to one.

    Example:
        >>> flattened(Size([2, 3, 4]), 0, 1)
        torch.Size([6, 4])
    """
    sizes = [*batch_size]
    count = 1
    for size in sizes[start : end + 1]:
        count *= size
    check_largest((count,))
    sizes[start : end + 1] = (count,)
    return Size(sizes)


def unflattened(batch_size: Size, dim: int, sizes: Sequence[int]) -> Size:
    """Return the batch size with the (wrapped) dimension ``dim`` split into ``sizes``.

    Example:
        >>> unflattened(Size([6, 4]), 0, (2, -1))
        torch.Size([2, 3, 4])
    """
    new = [*batch_size]
    new[dim : dim + 1] = reshaped((batch_size[dim],), tuple(sizes))
    return Size(new)


def permutation(ndim: int, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the wrapped order of ``permute(dims)``.

    Example:
        >>> permutation(3, (-1, 0, 1))
        (2, 0, 1)
    """
    if sorted(dims) == list(range(ndim)):
        return tuple(dims)
    if len(dims) != ndim:
        raise ValueError(f"permute: expected {ndim} dims, one for each batch dimension, got {tuple(dims)}")
    order = tuple([wrap_dim(d, ndim) for d in dims])
    if len(set(order)) != ndim:
        raise ValueError(f"permute: each batch dimension must appear once, got {tuple(dims)}")
    return order


def transposition(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    """Return the order that swaps two dimensions.

    Example:
        >>> transposition(3, 0, -1)
        (2, 1, 0)
    """
    try:
        a, b = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    except IndexError as error:
        raise ValueError(str(error)) from None
    order = list(range(ndim))
    order[a], order[b] = order[b], order[a]
    return tuple(order)


def movement(ndim: int, source: int | Sequence[int], destination: int | Sequence[int]) -> tuple[int, ...]:
    """Return the order that moves ``source`` dimensions to ``destination``. The others keep their order.

    Example:
        >>> movement(3, 0, -1)
        (1, 2, 0)
    """
    src, dst = wrap_dims(source, ndim), wrap_dims(destination, ndim)
    if len(src) != len(dst):
        raise RuntimeError(f"movedim: source {source} and destination {destination} differ in length")
    order = [-1] * ndim
    for s, d in zip(src, dst, strict=True):
        order[d] = s
    rest = iter([d for d in range(ndim) if d not in src])
    return tuple([next(rest) if d < 0 else d for d in order])


def broadcast(*sizes: Sequence[int]) -> Size:
    """Return the shape to which shapes broadcast.

    Example:
        >>> broadcast((3, 1), (4,))
        torch.Size([3, 4])
    """
    shape: Size = torch.broadcast_shapes(*sizes)  # type: ignore[no-untyped-call]
    return shape  # pyright: ignore[reportUnknownVariableType]


def permuted(batch_size: Size, order: tuple[int, ...]) -> Size:
    """Return the batch size with its dimensions in ``order``."""
    return Size([batch_size[d] for d in order])


def squeezed_dims(batch_size: Size, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the wrapped dimensions of size 1 that ``squeeze(dim)`` removes.

    Example:
        >>> squeezed_dims(Size([1, 3, 1]), None), squeezed_dims(Size([1, 3]), 1)
        ((0, 2), ())
    """
    ndim = len(batch_size)
    if isinstance(dim, int):
        dim = wrap_dim(dim, ndim)
        return (dim,) if batch_size[dim] == 1 else ()
    dims = range(ndim) if dim is None else wrap_dims(dim, ndim)
    return tuple([d for d in dims if batch_size[d] == 1])


def without(values: Sequence[Any], dims: Sequence[int]) -> tuple[Any, ...]:
    """Return the sequence without its entries at (wrapped) ``dims``."""
    if len(dims) == 1:
        rest = [*values]
        del rest[dims[0]]
        return tuple(rest)
    return tuple([value for d, value in enumerate(values) if d not in dims])


def unsqueezed_dim(ndim: int, dim: int) -> int:
    """Return the position of the dimension that ``unsqueeze(dim)`` adds.

    Example:
        >>> unsqueezed_dim(2, -1)
        2
    """
    if -ndim - 1 <= dim <= ndim:
        return dim % (ndim + 1)
    raise IndexError(f"unsqueeze: expected a dim in [{-ndim - 1}, {ndim}] for {ndim} batch dimensions, got {dim}")


def expanded(batch_size: Size, shape: tuple[int, ...]) -> Size:
    """Return the batch size after ``expand(shape)``.

    Example:
        >>> expanded(Size([3, 1]), (2, -1, 4))
        torch.Size([2, 3, 4])
    """
    new = len(shape) - len(batch_size)
    check_largest(shape)
    if shape[new:] == batch_size and new >= 0 and (not shape or min(shape) >= 0):
        return Size(shape)
    if new < 0:
        raise RuntimeError(f"expand: {list(shape)} has fewer dimensions than the batch size {list(batch_size)}")
    result = list(shape)
    for dim, size in enumerate(batch_size, new):
        if result[dim] == -1:
            result[dim] = size
        elif size != 1 and result[dim] != size:
            raise RuntimeError(f"expand: the batch size {list(batch_size)} cannot be expanded to {list(shape)}")
    if any(size < 0 for size in result[:new]):
        raise RuntimeError(
            f"expand: -1 keeps the size of an existing dimension; the new ones in {list(shape)} need a size"
        )
    return Size(result)


def repeated(batch_size: Size, repeats: tuple[int, ...]) -> Size:
    """Return the batch size after ``repeat(repeats)``.

    Example:
        >>> repeated(Size([3]), (2, 4))
        torch.Size([2, 12])
    """
    new = len(repeats) - len(batch_size)
    if new < 0:
        raise RuntimeError(
            f"repeat: expected at least {len(batch_size)} repeats, one per batch dimension, got {repeats}"
        )
    if any(count < 0 for count in repeats):
        raise RuntimeError(f"repeat: repeats cannot be negative, got {repeats}")
    sizes = [size * count for size, count in zip((1,) * new + tuple(batch_size), repeats, strict=True)]
    check_largest(sizes)
    return Size(sizes)


def split_sizes(total: int, split_size: int | Sequence[int]) -> list[int]:
    """Return the sizes of the results of ``split(split_size)`` along a dimension of size ``total``.

    Example:
        >>> split_sizes(5, 2), split_sizes(5, [1, 4])
        ([2, 2, 1], [1, 4])
    """
    if isinstance(split_size, int):
        if split_size < 0 or (split_size == 0 and total):
            raise RuntimeError(f"split: split_size must be positive, got {split_size}")
        if total == 0:
            return [0]
        full, rest = total // split_size, total % split_size
        return [split_size] * int(full) + ([rest] if rest else [])
    sizes = list(split_size)
    if sum(sizes) != total or any(size < 0 for size in sizes):
        raise RuntimeError(f"split: the sizes {sizes} must be non-negative and sum to {total}")
    return sizes


def with_size(batch_size: Size, dim: int, size: int) -> Size:
    """Return the batch size with another size of the (wrapped) dimension ``dim``.

    Example:
        >>> with_size(Size([3, 4]), 1, 9)
        torch.Size([3, 9])
    """
    check_largest((size,))
    sizes = [*batch_size]
    sizes[dim] = size
    return Size(sizes)


def inserted(batch_size: Size, dim: int, size: int) -> Size:
    """Return the batch size with an additional dimension of ``size`` at ``dim``.

    Example:
        >>> inserted(Size([3, 4]), 1, 9)
        torch.Size([3, 9, 4])
    """
    sizes = [*batch_size]
    sizes.insert(dim, size)
    return Size(sizes)


def reduced(batch_size: Size, dims: tuple[int, ...], keepdim: bool) -> Size:
    """Return the batch size after a reduction over (wrapped) ``dims``.

    Example:
        >>> reduced(Size([3, 4]), (0,), False), reduced(Size([3, 4]), (0,), True)
        (torch.Size([4]), torch.Size([1, 4]))
    """
    if keepdim:
        return Size([1 if d in dims else size for d, size in enumerate(batch_size)])
    return Size(without(batch_size, dims))


# ---------------------------------------------------------------------------------------------------------------------
# indexing: an index is prepared by prepare_index. It is a tuple of ints, slices, None, bools and index tensors,
# without ellipsis and mask, and consumes at most the batch dimensions.


def slice_length(item: slice, size: int) -> int:
    """Return the number of items that a slice takes from a dimension.

    Written with comparisons only, so that torch.compile keeps the size dynamic.

    Example:
        >>> slice_length(slice(-3, None, 2), 10)
        2
    """
    step = 1 if item.step is None else item.step
    if step < 1:
        raise ValueError("a slice of a tensor needs a positive step; use .flip() to reverse a dimension")
    start = 0 if item.start is None else item.start
    stop = size if item.stop is None else item.stop
    start = max(start + size, 0) if start < 0 else start
    stop = stop + size if stop < 0 else min(stop, size)
    return (stop - start + step - 1) // step if stop > start else 0


def indexed(batch_size: Size, index: tuple[Any, ...]) -> Size:
    """Return the batch size after indexing with a prepared index.

    Example:
        >>> indexed(Size([5, 4]), (slice(1, 3), None, 2))
        torch.Size([2, 1])
        >>> indexed(Size([5, 4, 3]), (torch.tensor([[0, 1]]), slice(None), torch.tensor([2])))
        torch.Size([1, 2, 4])
    """
    if not index:
        return batch_size
    if len(index) == 1:  # the most frequent case
        item = index[0]
        if type(item) is Tensor and item.ndim:
            return item.shape if len(batch_size) == 1 else item.shape + batch_size[1:]
        if type(item) is int and -batch_size[0] <= item < batch_size[0]:
            return batch_size[1:]
        if type(item) is slice:
            return Size((slice_length(item, batch_size[0]), *batch_size[1:]))
    out: list[int] = []
    advanced: list[Sequence[int]] = []
    dim = 0
    for item in index:
        if item is None:
            out.append(1)
            continue
        if isinstance(item, bool):
            advanced.append((int(item),))
            continue
        if type(item) is slice:
            out.append(slice_length(item, batch_size[dim]))
        elif isinstance(item, Tensor) and item.ndim:
            advanced.append(item.shape)
        else:
            # an int, or a tensor that holds one
            wrap = int(item)
            size = batch_size[dim]
            if not -size <= wrap < size:
                raise IndexError(f"index {wrap} is out of bounds for batch dimension {dim} with size {size}")
        dim += 1
    out.extend(batch_size[dim:])
    if advanced:
        try:
            shape = broadcast(*advanced)
        except RuntimeError as error:
            raise IndexError(f"the index tensors do not broadcast together: {error}") from None
        at = _advanced_at(index)
        out[at:at] = shape
    return Size(out)


def _advanced_at(index: tuple[Any, ...]) -> int:
    """Return where the dimensions of index tensors and bools are in the result: in front if other items part them."""
    kept = 0
    where: int | None = None
    last = -1
    for position, item in enumerate(index):
        if item is None or isinstance(item, slice):
            kept += 1
        elif isinstance(item, bool) or (isinstance(item, Tensor) and item.ndim):
            if where is None:
                where = kept
            elif position != last + 1:
                return 0
            last = position
        elif last == position - 1:
            # torch applies integers first: beside index tensors they neither break adjacency nor leave a dimension
            last = position
    return where or 0


def names_indexed(names: Names, index: tuple[Any, ...]) -> Names:
    """Return the dimension names after indexing with a prepared index.

    A slice, or a one-dimensional index tensor, keeps the name of its dimension; a new dimension has none.

    Example:
        >>> names_indexed(("x", "y"), (None, 0))
        (None, 'y')
    """
    if names is None:
        return None
    out: list[str | None] = []
    for dim, item in enumerate(index):
        if type(item) is slice:
            out.append(names[dim])
        elif type(item) is not int:
            break
    else:  # only slices and ints, the most frequent case
        return names_or_none((*out, *names[len(index) :]))
    out.clear()
    advanced: list[int] = []  # numbers of dimensions
    name: str | None = None
    dim = 0
    for item in index:
        if item is None:
            out.append(None)
            continue
        if isinstance(item, bool):
            advanced.append(1)
            continue
        if isinstance(item, slice):
            out.append(names[dim])
        elif isinstance(item, Tensor) and item.ndim:
            advanced.append(item.ndim)
            name = names[dim]
        dim += 1
    out.extend(names[dim:])
    if advanced:
        at = _advanced_at(index)
        out[at:at] = [name] if advanced == [1] else [None] * max(advanced)
    return names_or_none(out)


# ---------------------------------------------------------------------------------------------------------------------
# names


def names_or_none(names: Sequence[str | None]) -> Names:
    """Return the names as a tuple, or ``None`` if no dimension has one."""
    for name in names:
        if name is not None:
            return tuple(names)
    return None


def as_names(names: Sequence[str | None] | None, ndim: int) -> Names:
    """Check dimension names: one for each batch dimension, no name twice.

    Example:
        >>> as_names(["time", None], 2)
        ('time', None)
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError(f"names: expected a sequence with one name or None for each batch dimension, got {names!r}")
    if len(names) != ndim:
        raise ValueError(
            f"names: expected {ndim} of them, one for each batch dimension (None: no name), got {list(names)}"
        )
    known = [name for name in names if name is not None]
    for name in known:
        if not isinstance(name, str) and not is_bound(name):
            raise TypeError(f"names: expected strings or None, got {name!r}")
    if len(set(known)) != len(known):
        raise ValueError(f"names: expected a different name for each dimension, got {list(names)}")
    return names_or_none(names)


def names_reshaped(names: Names, batch_size: Size, shape: Size) -> Names:
    """Return the names after a reshape: lost, unless it changes nothing."""
    return names if batch_size == shape else None


def names_flattened(names: Names, start: int, end: int) -> Names:
    """Return the names after ``flatten``: a merged dimension has none."""
    if names is None or start == end:
        return names
    return names_or_none((*names[:start], None, *names[end + 1 :]))


def names_unflattened(names: Names, dim: int, parts: int) -> Names:
    """Return the names after ``unflatten``: new dimensions have none, unless there is only one."""
    if names is None or parts == 1:
        return names
    return names_or_none((*names[:dim], *(None,) * parts, *names[dim + 1 :]))


def names_permuted(names: Names, order: tuple[int, ...]) -> Names:
    """Return the names in ``order``."""
    return None if names is None else tuple([names[d] for d in order])


def names_without(names: Names, dims: Sequence[int]) -> Names:
    """Return the names without those at (wrapped) ``dims``."""
    return None if names is None else names_or_none(without(names, dims))


def names_inserted(names: Names, dim: int, name: str | None = None) -> Names:
    """Return the names with an additional dimension at ``dim``."""
    return None if names is None else names_or_none((*names[:dim], name, *names[dim:]))


def names_padded(names: Names, new: int) -> Names:
    """Return the names behind ``new`` unnamed dimensions; a negative ``new`` removes names in front."""
    if names is None or new == 0:
        return names
    return names_or_none((None,) * new + names if new > 0 else names[-new:])


def names_fitted(names: Names, ndim: int) -> Names:
    """Return the names cut, or filled with ``None`` at the end, to ``ndim`` dimensions."""
    if names is None:
        return None
    return names_or_none((names + (None,) * ndim)[:ndim])


def names_reduced(names: Names, dims: tuple[int, ...], keepdim: bool) -> Names:
    """Return the names after a reduction over (wrapped) ``dims``."""
    return names if keepdim else names_without(names, dims)


def infer_size_impl(shape: Sequence[int], numel: int) -> list[int]:
    """Replace ``-1`` in a shape by the size that is left.

    Args:
        shape: sizes, of which one may be ``-1``.
        numel: number of items of the result.

    Raises:
        RuntimeError: no size makes a shape of ``numel`` items, or ``-1`` occurs twice.

    Example:
        >>> from tensorclass.utils import infer_size_impl
        >>> infer_size_impl([2, -1], 6)
        [2, 3]
    """
    result = list(shape)
    if any(size < -1 for size in result):
        raise RuntimeError(f"expected sizes that are -1 or not negative, got {result}")
    if result.count(-1) > 1:
        raise RuntimeError(f"expected -1 for at most one size, got {result}")
    known = math.prod(size for size in result if size != -1)
    if -1 in result and known and numel % known == 0:
        result[result.index(-1)] = numel // known
        known = numel
    if known != numel or -1 in result:
        raise RuntimeError(f"a shape {list(shape)} cannot hold {numel} items")
    return result


def numel(batch_size: Size) -> int:
    """Return the number of items in a batch size."""
    return math.prod(batch_size)
