"""The tensors of a record as the collectives take them: shards of ``DTensor`` leaves, copies that a store gives."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.consolidated import is_sharded, with_parts
from tensorclass.td.nontensor import NonTensorDataBase
from tensorclass.td.stores.lazy.stack import LazyStacked
from tensorclass.td.unbatched import UnbatchedTensor

from .agreement import mixed
from .groups import Group
from .layout import Layout, Part, copy, named, taken

_ONLY_TENSORS = {Tensor}


class Taken(NamedTuple):
    """A record taken apart."""

    layout: Layout
    tensors: list[Tensor]
    form: int  #: the digest of all that must be the same on all ranks
    entries: dict[str, str]  #: what the digest is of
    plain: bool  #: they are on the CPU, and the items of each lie one behind the other
    finish: Callable[[], object] | None  #: writes values back where the tensors are copies


def name_of(part: Part) -> str:
    """The name of a tensor, for messages."""
    return f"{named(part.path)}: {part.part}" if part.part else named(part.path)


def _is_plain(data: Any) -> bool:
    """Whether all tensors of a record are in dicts, so that what is written into them is written into the record."""
    if isinstance(data, LazyStacked):
        return all(_is_plain(part) for part in data._store.items_)
    store = data._store
    if store.__class__ is not dict:
        return False
    return all(_is_plain(value) for value in store.values() if isinstance(value, TensorCollection))


def to_reduce(data: TensorCollection, group: Group) -> Taken:
    """A record whose tensors are going to be written into.

    Raises:
        TypeError: a value that no message can hold; a ``DTensor`` whose shards are on the ranks of the group.
    """
    told: list[str] = []
    try:
        found = taken(data)
    except TypeError:
        if not any(map(is_sharded, data._leaves())):
            raise
        data = data._with_leaves(iter([_local(leaf, group, told) for leaf in data._leaves()]))
        found = taken(data)
    layout, tensors = found.layout, found.tensors
    if found.plain and found.leaves is None and not told and _ONLY_TENSORS.issuperset(map(type, tensors)):
        return Taken(layout, tensors, layout.digest & 2**63 - 1, layout.entries, True, None)
    finish: Callable[[], object] | None = None
    if not _is_plain(data):
        dense = data.to_tensordict()
        finish = partial(data.update_, dense)
        data = dense
        layout, tensors, *_ = taken(data)
    devices = {tensor.device.type for tensor in tensors}
    ragged = any(part.part for part in layout.parts)
    if devices <= {"cpu"} and not ragged and not told:
        return Taken(layout, tensors, layout.digest & 2**63 - 1, layout.entries, False, finish)
    entries = dict(layout.entries)
    if told:
        entries["placements"] = ", ".join(told)
    for part, tensor in zip(layout.parts, tensors, strict=True):
        name = named(part.path)
        if part.part:  # where rows begin is not reduced: it must be the same
            entries[name] += f", rows {zlib.crc32(tensor.cpu().numpy().tobytes()):08x}"
        elif tensor.device.type != "cpu":
            entries[name] += f" on {tensor.device.type}"
    return Taken(layout, tensors, mixed(str(sorted(entries.items())), 0), entries, False, finish)


def apart(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors that are none of one another: copies of those that lie in the memory of another one, too.

    Each is to be read as it was, also when others were written by then.
    """
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    if len(set(storages)) == len(storages):
        return tensors
    spans: list[tuple[int, int, int, int]] = []
    for at, (tensor, storage) in enumerate(zip(tensors, storages, strict=True)):
        if tensor.numel():
            steps = zip(tensor.shape, tensor.stride(), strict=True)
            start = int(tensor.storage_offset()) * tensor.dtype.itemsize
            last = sum((size - 1) * step for size, step in steps)
            spans.append((storage, start, start + (last + 1) * tensor.dtype.itemsize, at))
    spans.sort()
    found, before = list(tensors), (0, 0, 0, -1)
    for span in spans:
        if span[0] == before[0] and span[1] < before[2]:
            for at in (before[3], span[3]):
                if found[at] is tensors[at]:
                    found[at] = tensors[at].detach().clone()
            before = before if before[2] > span[2] else span
        else:
            before = span
    return found


def write(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Writes tensors into others, also those that are expanded, of which all rows are one."""
    try:
        copy(targets, sources)
    except RuntimeError as error:
        if "single memory location" not in str(error):
            raise
        for target, source in zip(targets, sources, strict=True):
            copy([once(target)], [once(source, like=target)])


def once(tensor: Tensor, like: Tensor | None = None) -> Tensor:
    """A tensor without the repetitions of an expanded one."""
    model = tensor if like is None else like
    for dim, stride in enumerate(model.stride()):
        if stride == 0:
            tensor = tensor.narrow(dim, 0, min(1, tensor.shape[dim]))
    return tensor


# ---------------------------------------------------------------------------------------------------------------------
# shards


def _local(leaf: Any, group: Group, told: list[str]) -> Tensor:
    """The part of a ``DTensor`` that is here; any other tensor as it is."""
    if not is_sharded(leaf):
        return leaf  # type: ignore[no-any-return]
    mesh = leaf.device_mesh
    for dim, placement in enumerate(leaf.placements):
        shared = [rank for rank in mesh.mesh.flatten().tolist() if rank in group.known.ranks]
        along = _along(mesh, dim)
        if not placement.is_replicate() and sum(rank in group.known.ranks for rank in along) > 1:
            raise TypeError(
                f"{group.what}: a DTensor of the placements {tuple(leaf.placements)} has different parts on the ranks "
                f"{shared} of the group, which are no values of one thing; use a group across the mesh, or "
                "value.full_tensor(), or value.redistribute(...)"
            )
    told.append(f"{tuple(leaf.placements)} of {tuple(leaf.shape)} on a mesh of {tuple(mesh.mesh.shape)}")
    found: Any = leaf.to_local()
    local: Tensor = found.wait() if hasattr(found, "wait") else found
    return local


def _along(mesh: Any, dim: int) -> list[int]:
    """The ranks that share a dimension of a mesh with this one."""
    here: list[int] | None = mesh.get_coordinate()
    if here is None:
        return []
    ranks = mesh.mesh
    for other, at in reversed(list(enumerate(here))):
        if other != dim:
            ranks = ranks.select(other, at)
    found: list[int] = ranks.tolist()
    return found


# ---------------------------------------------------------------------------------------------------------------------
# the same record with other tensors


def remade(data: Any, layout: Layout, tensors: Sequence[Tensor]) -> Any:
    """A record like another one, of other tensors, which are in the order of its layout."""
    order: list[int] | None = layout.plans.get("tree")
    if order is None:
        at = {(part.path, part.part): number for number, part in enumerate(layout.parts)}
        order = layout.plans["tree"] = [at[key] for key in _tree(data, ())]
    return with_parts(data, [tensors[at] for at in order])


def _tree(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The names of the tensors in memory, in the order of the tree."""
    if isinstance(value, LazyStacked):
        for at, part in enumerate(value._store.items_):
            yield from _tree(part, (*path, str(at)))
        return
    for key, item in value._store.items():
        where = (*path, key)
        if isinstance(item, Tensor):
            yield where, ""
            if item.is_nested:
                yield where, "offsets"
        elif isinstance(item, UnbatchedTensor):
            yield where, ""
        elif not isinstance(item, NonTensorDataBase):
            yield from _tree(item, where)


def head_of(value: Any) -> str:
    """Classes, batch sizes and names of a record and of those in it: what a layout has nothing of."""
    if isinstance(value, LazyStacked):
        return f"[{','.join(head_of(part) for part in value._store.items_)}]{value._names}"
    below = [f"{key}:{head_of(item)}" for key, item in value._store.items() if isinstance(item, TensorCollection)]
    names = "" if value._names is None else str(value._names)
    return f"{type(value).__qualname__}{list(value._batch_size)}{names}{sorted(below)}"
