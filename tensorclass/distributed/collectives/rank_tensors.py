"""The tensors of a record for reductions: local shards of ``DTensor`` leaves, and copies of values in other stores."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Size, Tensor

from tensorclass.distributed.messages.byte_tensors import to_bytes
from tensorclass.distributed.messages.column_bytes import ColumnForm, lengths_and_items
from tensorclass.distributed.messages.record_layout import (
    Path,
    RecordLayout,
    TensorSpec,
    copy,
    flatten_record,
    path_name,
    value_at,
)
from tensorclass.distributed.process_groups import GroupCall
from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.memory.consolidated_buffer import is_sharded, parts_of, with_parts
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.tensordict import TensorDict

from .agreement import MASK, call_digest

_ONLY_TENSORS = {Tensor}


class ReductionInput(NamedTuple):
    """A record prepared for a reduction."""

    layout: RecordLayout
    tensors: list[Tensor]
    form: int  #: digest over all that must be the same on all ranks
    entries: dict[str, str]  #: the input of the digest
    finish: Callable[[], object] | None  #: writes values back, if the tensors are copies


def name_of(spec: TensorSpec) -> str:
    """Return the name of a tensor for messages."""
    return f"{path_name(spec.path)}: {spec.component}" if spec.component else path_name(spec.path)


def _is_plain(data: Any) -> bool:
    """Return whether all tensors are in dicts, so that writing to a tensor writes to the record."""
    if isinstance(data, LazyStacked):
        return all(_is_plain(part) for part in data._store.items_)
    store = data._store
    if type(store) is not DICT:
        return False
    return all(_is_plain(value) for value in store.values() if isinstance(value, Collection))


def prepare_reduction(data: TensorCollection, group: GroupCall) -> ReductionInput:
    """Prepare a record whose tensors are going to be written.

    Raises:
        TypeError: a value that no message can hold, or a ``DTensor`` whose shards are on the ranks of the group.
    """
    placements: list[str] = []
    try:
        found = flatten_record(data)
    except TypeError:
        if not any(map(is_sharded, data._leaves())):
            raise
        leaves: list[Tensor] = []
        data = data._captured(leaves)
        data = data._with_leaves(iter([_local(leaf, group, placements) for leaf in leaves]))
        found = flatten_record(data)
    layout, tensors = found.layout, found.tensors
    if layout.columns:
        return _with_columns(data, layout)
    if found.is_plain and found.tree_leaves is None and not placements and _ONLY_TENSORS.issuperset(map(type, tensors)):
        return ReductionInput(layout, tensors, layout.digest & MASK, layout.entries, None)
    data, finish = _densified(data)
    if finish is not None:
        layout, tensors, *_ = flatten_record(data)
    entries = dict(layout.entries)
    if placements:
        entries["placements"] = ", ".join(placements)
    _add_offsets_and_devices(entries, layout, tensors)
    form = layout.digest & MASK if entries == layout.entries else call_digest(str(sorted(entries.items())), 0)
    return ReductionInput(layout, tensors, form, entries, finish)


def _densified(data: TensorCollection) -> tuple[TensorCollection, Callable[[], object] | None]:
    """Return a record whose tensors can be written, and what writes them back if they are copies."""
    if _is_plain(data):
        return data, None
    dense = data.to_tensordict()
    return dense, partial(data.update_, dense)


def _add_offsets_and_devices(entries: dict[str, str], layout: RecordLayout, tensors: Sequence[Tensor]) -> None:
    """Add the offsets of rows, which are not reduced but must be equal, and devices other than the CPU."""
    for spec, tensor in zip(layout.specs, tensors, strict=True):
        if spec.component:
            entries[path_name(spec.path)] += f", rows {zlib.crc32(to_bytes(tensor)):08x}"
        elif tensor.device.type != "cpu":
            entries[path_name(spec.path)] += f" on {tensor.device.type}"


def _with_columns(data: TensorCollection, layout: RecordLayout) -> ReductionInput:
    """Prepare a record with columns: the items of ragged rows are reduced, of which all ranks need equal lengths.

    Text stays as it is. Items are copied: others may share the buffer.
    """
    data, finish = _densified(data)
    columns = {path: value_at(data, path) for path in layout.columns}
    ragged: dict[Path, Any] = {path: column for path, column in columns.items() if column._CONTENT is Content.RAGGED}
    items = {path: [*lengths_and_items(column)][-1].detach().clone() for path, column in ragged.items()}
    numbers = flatten_record(_numbers_of(data, items, ()))
    entries = {**layout.entries, **{path_name(path): str(ColumnForm.of(column)) for path, column in columns.items()}}
    for path, column in ragged.items():
        parts = [*lengths_and_items(column)][:-1]
        lengths = zlib.crc32(b"".join([to_bytes(part) for part in parts]))
        entries[path_name(path)] += f", {len(items[path])} items in all, lengths {lengths:08x}"
    _add_offsets_and_devices(entries, numbers.layout, numbers.tensors)

    def write() -> None:
        for path, column in ragged.items():
            column._become(column._with_tensor(items[path]))
        if finish is not None:
            finish()

    form = call_digest(str(sorted(entries.items())), 0)
    return ReductionInput(numbers.layout, numbers.tensors, form, entries, write)


def _numbers_of(value: Any, items: dict[Path, Tensor], path: Path) -> TensorDict:
    """Return the tensors of a record under the same names, with items in place of ragged rows, and without text."""
    store: Any = value._store
    entries = enumerate(store.items_) if isinstance(value, LazyStacked) else store.items()
    found: dict[str, Any] = {}
    for key, item in entries:
        below = (*path, str(key))
        content = content_kind(item)
        if content is Content.TREE:
            found[str(key)] = _numbers_of(item, items, below)
        elif below in items:
            found[str(key)] = items[below]
        elif content is None or content is Content.TENSOR:
            found[str(key)] = item
    made: TensorDict = object.__new__(TensorDict)
    made._store, made._batch_size = found, Size(())
    made._device = made._names = made._lock = None
    return made


def separate_overlapping(tensors: list[Tensor]) -> list[Tensor]:
    """Copy tensors that overlap in memory, so that each keeps its values while others are written."""
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
    """Copy tensors into others, also into expanded tensors, whose rows share memory."""
    try:
        copy(targets, sources)
    except RuntimeError:
        if not any(0 in target.stride() for target in targets):
            raise
        for target, source in zip(targets, sources, strict=True):
            copy([without_repetitions(target)], [without_repetitions(source, like=target)])


def without_repetitions(tensor: Tensor, like: Tensor | None = None) -> Tensor:
    """Return a tensor without the repetitions of an expanded one."""
    model = tensor if like is None else like
    for dim, stride in enumerate(model.stride()):
        if stride == 0:
            tensor = tensor.narrow(dim, 0, min(1, tensor.shape[dim]))
    return tensor


# ---------------------------------------------------------------------------------------------------------------------
# shards


def _local(leaf: Any, group: GroupCall, placements: list[str]) -> Tensor:
    """Return the local shard of a ``DTensor``, and any other tensor as it is."""
    if not is_sharded(leaf):
        return leaf  # type: ignore[no-any-return]
    mesh = leaf.device_mesh
    for dim, placement in enumerate(leaf.placements):
        shared = [rank for rank in mesh.mesh.flatten().tolist() if rank in group.state.ranks]
        along = _ranks_along(mesh, dim)
        if not placement.is_replicate() and sum(rank in group.state.ranks for rank in along) > 1:
            raise TypeError(
                f"{group.what}: a DTensor with placements {tuple(leaf.placements)} has different shards on the ranks "
                f"{shared} of the group, which cannot be reduced with one another; use a group across the mesh, or "
                "value.full_tensor(), or value.redistribute(...)"
            )
    placements.append(f"{tuple(leaf.placements)} of {tuple(leaf.shape)} on a mesh of {tuple(mesh.mesh.shape)}")
    found: Any = leaf.to_local()
    local: Tensor = found.wait() if hasattr(found, "wait") else found
    return local


def _ranks_along(mesh: Any, dim: int) -> list[int]:
    """Return the ranks along a dimension of a mesh through this one."""
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
# records with other tensors


#: in the names of tensors: the items of ragged rows, which are no tensors of the layout
ITEMS = "<items>"


def with_tensors(data: Any, layout: RecordLayout, tensors: Sequence[Tensor]) -> Any:
    """Make a record like ``data`` with other tensors, in the order of its layout. Columns stay."""
    order: list[int | None] | None = layout.plans.get("tree")
    if order is None:
        at = {(spec.path, spec.component): number for number, spec in enumerate(layout.specs)}
        order = layout.plans["tree"] = [at.get(key) for key in _names_in_tree_order(data, ())]
    if not layout.columns:
        return with_parts(data, [tensors[at] for at in order if at is not None])
    own = [part for leaf in data._leaves() for part in parts_of(leaf)]
    return with_parts(data, [part if at is None else tensors[at] for at, part in zip(order, own, strict=True)])


def _names_in_tree_order(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield path and component of the tensors, in tree order."""
    if isinstance(value, LazyStacked):
        for at, part in enumerate(value._store.items_):
            yield from _names_in_tree_order(part, (*path, str(at)))
        return
    for key, item in value._now().items():
        where = (*path, key)
        if isinstance(item, Tensor):
            yield where, ""
            if item.is_nested:
                yield where, "offsets"
        elif item._CONTENT is Content.TREE:
            yield from _names_in_tree_order(item, where)
        elif item._CONTENT is Content.RAGGED:
            yield where, ITEMS
        elif item._CONTENT is Content.TENSOR:
            yield where, ""


def structure_of(value: Any) -> str:
    """Return classes, batch sizes and names of a record and its nested collections, which a layout lacks."""
    if isinstance(value, LazyStacked):
        return f"[{','.join(structure_of(part) for part in value._store.items_)}]{value._names}"
    below = [f"{key}:{structure_of(item)}" for key, item in value._now().items() if isinstance(item, Collection)]
    names = "" if value._names is None else str(value._names)
    return f"{type_name(value)}{list(value._batch_size)}{names}{sorted(below)}"
