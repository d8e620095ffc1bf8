"""``all_gather`` and ``gather_and_stack``: collect the records of all ranks, on all ranks or on one.

The small tensors of a record are one message; large ones are sent as they are. All records have the same form, so sizes
are known; only the text of non-tensor data may have any length.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from tensorclass.distributed.messages.byte_tensors import as_bytes, as_message, to_bytes
from tensorclass.distributed.messages.message_buffer import MessageBuffer, Packing, packing_of
from tensorclass.distributed.messages.record_layout import (
    RecordLayout,
    allocate,
    content_of,
    describe_record,
    flatten_record,
    layout_of,
    lookup_in,
    read_content,
    rebuild_record,
    rebuild_whole,
    split_specs_in,
    whole_record,
)
from tensorclass.distributed.process_groups import GroupCall, group_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.leaves.object_codes import CPU, to_lists

from . import rank_tensors
from .agreement import (
    MASK,
    CallDescription,
    PredictedMessage,
    agree,
    call_digest,
    gather_tensors,
    gather_texts,
    predicted_message,
    raise_on_all_ranks,
    record_call,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

METHODS_OF = "Collectives"
C = TypeVar("C", bound=TensorCollection)

_MOST_PREDICTED = 2**20  #: bytes of all ranks together up to which a predicted message has the values
_WORDS = 32  #: bytes of the header: the digest, length and checksum of the text of objects, padding


class _RankData(NamedTuple):
    """Tensors and non-tensor data of a rank."""

    tensors: list[Tensor]
    text: bytes  #: non-tensor data as JSON


class PredictedGather(PredictedMessage):
    """The small tensors of all ranks, each with a digest in front."""

    __slots__ = ("buffer", "packing", "rows", "same", "sizes", "told", "words")

    def __init__(self, call: int, packing: Packing, group: GroupCall, told: Any) -> None:
        super().__init__(call)
        self.packing: Packing = packing
        self.buffer: MessageBuffer = MessageBuffer(_WORDS, packing, group.state.device)
        self.words: Tensor = self.buffer.memory[:_WORDS].view(torch.int64)
        self.told: Any = told  #: (call, description of the records), for a rank without a record
        self.rows: Tensor = self.words
        self.sizes: list[int] = []
        self.same: bool = True

    def agreed(self, group: GroupCall, call: int, content: Any) -> bool:
        """See :meth:`.agreement.PredictedMessage.agreed`."""
        told = [call, 0, 0, 0]
        if content is not None:
            told[1:3] = len(content.text), zlib.crc32(content.text)
            if content.tensors:
                self.buffer.gather(content.tensors)
        self.words.copy_(torch.tensor(told, dtype=torch.int64, device="cpu"))
        memory = self.buffer.memory
        rows = torch.empty(group.state.size * len(memory), dtype=torch.uint8, device=memory.device)
        group.wait(group.all_gather(rows, memory))
        self.rows = rows.view(group.state.size, -1)
        found: list[list[int]] = to_lists(self.rows[:, :_WORDS].view(torch.int64))
        self.sizes = [row[1] for row in found]
        self.same = len({(row[1], row[2]) for row in found}) == 1
        return all(row[0] == self.call for row in found)

    def take(self) -> Tensor:
        """Return what came, without the digests, and release it."""
        rows, self.rows = self.rows, self.words
        return rows[:, _WORDS:]


def all_gather(
    data: C,
    *,
    group: ProcessGroup | None = None,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> list[C]:
    """Return the collections of all ranks on all ranks. All ranks of the group call it.

    Args:
        group: the process group; by default all ranks. A rank outside it gets an empty list, with a warning.
        broadcast: timeout, allow_pickle

    Returns:
        One new collection per rank of the group, including this one, in the order of the ranks. Values and
        non-tensor data are those of the ranks; class and batch size are those of this rank's collection.

    Raises:
        RecordsDiffer: the collections differ in keys, dtypes or shapes. All ranks raise and list the differences.
        broadcast: TypeError
        broadcast: WorkerTimeout, WorkerDied

    Example:
        A group of one process; usually ``torchrun`` starts several.

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> [data["x"] for data in TensorDict({"x": torch.ones(2)}, [2]).all_gather()]
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    found = group_of(group, "all_gather", timeout)
    if found is None:
        return []
    state = found.state
    layout, mine, call = _prepare(data, found, "all_gather()", False, allow_pickle)
    packing = packing_of(layout.specs)
    small, large = _split(mine, packing, state.device)
    predicted: Any = predicted_message(found)
    if predicted is not None and predicted.agreed(found, call.digest, small if predicted.call == call.digest else None):
        rows, sizes, same = predicted.take(), predicted.sizes, predicted.same
    else:
        sizes, same = None, agree(found, call).same
        rows = gather_tensors(found, _pack(packing, small, state.device))
    _record(found, call.digest, packing, None)
    wide = [gather_tensors(found, tensor) for tensor in large]
    told = [mine.text] * state.size if same else gather_texts(found, mine.text, sizes)
    return [
        _remake(data, layout, _tensors_of(at, packing, rows, wide), told[at], found.origin(at), allow_pickle)
        for at in range(state.size)
    ]


def gather_and_stack(
    data: C,
    dst: int,
    group: ProcessGroup | None = None,
    *,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> C | None:
    """Write the collections of all other ranks, stacked along a new first dimension, into that of one rank.

    All ranks of the group call it. The collection on ``dst`` is not part of the stack, but is updated with it. Its
    batch size must be ``[ranks - 1, *batch_size]``, or the first dimensions of that. If it is locked or in files,
    it is written in place.

    Args:
        dst: the rank of the receiver in the world.
        group: the process group; by default all ranks.
        broadcast: timeout, allow_pickle

    Returns:
        On ``dst`` the collection itself, on the other ranks ``None``.

    Raises:
        RecordsDiffer: the collections that are sent differ in keys, dtypes, shapes or batch sizes. All ranks raise.
        broadcast: TypeError
        RuntimeError: the stack does not fit the collection on ``dst``, which is not changed.
        broadcast: WorkerTimeout, WorkerDied

    Example:
        On each of two processes of one group:

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> if dist.get_rank() == 0:
        ...     rows = TensorDict({"x": torch.zeros(1, 3)}, [1])
        ...     assert rows.gather_and_stack(dst=0)["x"].tolist() == [[1.0, 1.0, 1.0]]
        ... else:
        ...     TensorDict({"x": torch.ones(3)}).gather_and_stack(dst=0)
    """
    found = group_of(group, "gather_and_stack", timeout)
    if found is None:
        return None
    state, root = found.state, found.group_rank(dst, "dst")
    what = f"gather_and_stack(dst={dst})"
    senders = [rank for rank in range(state.size) if rank != root]
    if not senders:
        return data
    predicted: Any = predicted_message(found)
    last: tuple[str, bytes] = (isinstance(predicted, PredictedGather) and predicted.told) or ("", b"")
    mine, text = _RankData([], b""), b""
    if root == state.rank:
        call = CallDescription(what, 0, {})
        ours = last[0] == what
        digest = predicted.call if ours else call.digest
    else:
        _, mine, call = _prepare(data, found, what, True, allow_pickle)
        text = describe_record(data, what, allow_pickle) if state.rank == senders[0] else b""
        digest = call.digest
        ours = predicted is not None and predicted.call == digest
    rows: Tensor | None = None
    told: bytes
    if predicted is not None and predicted.agreed(
        found, digest, _split(mine, predicted.packing, state.device)[0] if ours else None
    ):
        told, packing = last[1], predicted.packing
        rows, sizes = predicted.take(), predicted.sizes
    else:
        agreed = agree(found, call._replace(numbers=(*(call.numbers or (0, 0)), len(text))))
        sizes, digest = (None if agreed.most[0] else [0] * state.size), call_digest(what, agreed.form)
        told = _broadcast_text(found, text, agreed.most[2], senders[0])
        packing = packing_of(split_specs_in(told, what)[0])
    small, large = _split(mine, packing, state.device)
    if rows is None:
        rows = _gather_to(found, root, _pack(packing, small, state.device))
    _record(found, digest, packing, (what, told))
    if not large:  # this rank has no record: it sends any values
        large = [allocate(shape, dtype, state.device, found.what) for dtype, shape in packing.large_forms]
    wide = [_gather_to(found, root, tensor) for tensor in large]
    # the description can be that of an earlier call, since when non-tensor data has changed
    texts_of = gather_texts(found, mine.text, sizes)
    if root != state.rank:
        return None
    tensors_of = {at: _tensors_of(at, packing, rows, wide) for at in senders}
    stack: Any = torch.stack(_records(found, told, tensors_of, texts_of, allow_pickle), 0)
    if stack.batch_size[: data.batch_dims] != data.batch_size:
        raise RuntimeError(
            f"gather_and_stack: expected a collection with the batch size of the stack, {list(stack.batch_size)}, on "
            f"rank {dst}, got {list(data.batch_size)}. Nothing was written there"
        )
    return data.update_(stack) if data.is_locked else data.update(stack)


def _prepare(
    data: TensorCollection, group: GroupCall, what: str, whole: bool, pickles: bool
) -> tuple[RecordLayout, _RankData, CallDescription]:
    """Flatten a record to send it. If that fails, all ranks raise.

    Args:
        data: the record.
        group: the group.
        what: the call.
        whole: compare batch sizes, names and classes as well.
        pickles: pickle objects that JSON cannot hold.
    """
    try:
        found = flatten_record(data)
        layout = found.layout
        if whole and layout.columns:  # their lengths differ, so each rank describes its own record
            text = whole_record(data, layout, group.what, pickles)
        else:
            text = content_of(data, layout, group.what, pickles) if layout.has_content else b""
    except Exception as error:
        raise_on_all_ranks(group, what, error)
    form, entries = layout.digest, layout.entries
    if whole:
        predicted = rank_tensors.structure_of(data)
        form, entries = call_digest(predicted, form), {**entries, "batch sizes": predicted}
    call = CallDescription(what, form & MASK, entries, None, (len(text), zlib.crc32(text)))
    return layout, _RankData(found.tensors, text), call


def _split(content: _RankData, packing: Packing, device: torch.device) -> tuple[_RankData, list[Tensor]]:
    """Split into small and large tensors."""
    if not content.tensors or not packing.large:
        return content, []
    small = content._replace(tensors=[content.tensors[at] for at in packing.small])
    return small, [as_message(content.tensors[at], device) for at in packing.large]


def _pack(packing: Packing, content: _RankData, device: torch.device) -> Tensor:
    """Return the small tensors in one buffer, or zeros without tensors."""
    buffer = MessageBuffer(0, packing, device)
    if content.tensors:
        buffer.gather(content.tensors)
    return buffer.memory


def _tensors_of(at: int, packing: Packing, rows: Tensor, wide: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors of a rank, in the order of its layout."""
    return packing.merge(packing.views(rows[at]), [all_of[at] for all_of in wide])


def _gather_to(group: GroupCall, root: int, tensor: Tensor) -> Tensor:
    """Gather tensors on the rank ``root``. Other ranks return an empty tensor."""
    size = group.state.size if group.state.rank == root else 0
    target = torch.empty(size, *tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if tensor.numel():
        group.wait(group.gather(list(target), tensor, root))
    return target


def _record(group: GroupCall, call: int, packing: Packing, told: Any) -> None:
    small = (packing.size + _WORDS) * group.state.size <= _MOST_PREDICTED
    record_call(group, call, lambda: PredictedGather(call, packing, group, told) if small else None)


def _broadcast_text(group: GroupCall, text: bytes, size: int, root: int) -> bytes:
    """Broadcast the text of one rank."""
    own = as_bytes(text) if group.state.rank == root else allocate(size, torch.uint8, CPU, group.what)
    own = own.to(group.state.device)
    group.wait(group.broadcast(own, root))
    return to_bytes(own)


def _remake(data: Any, layout: RecordLayout, tensors: list[Tensor], text: bytes, origin: str, pickles: bool) -> Any:
    """Make a record like ``data`` with other tensors and non-tensor data."""
    made = rank_tensors.with_tensors(data, layout, tensors)
    if layout.has_content:
        read_content(text, made, layout, origin, pickles)()
    return made


def _records(
    group: GroupCall, told: bytes, tensors_of: Mapping[int, list[Tensor]], texts_of: Sequence[bytes], pickles: bool
) -> list[Any]:
    """Make the records of the senders; ``told`` describes that of the first, without the values."""
    specs, of_columns = split_specs_in(told, group.what)
    if of_columns:
        return [rebuild_whole(texts_of[at], own, group.origin(at), pickles) for at, own in tensors_of.items()]
    named = {spec[:2]: tensor for spec, tensor in zip(specs, next(iter(tensors_of.values())), strict=True)}
    first = rebuild_record(told, None, lookup_in(named, group.what), group.what, allow_pickle=pickles)
    layout = layout_of(first)
    return [_remake(first, layout, own, texts_of[at], group.origin(at), pickles) for at, own in tensors_of.items()]
