"""``all_gather`` and ``gather_and_stack``: the records of all ranks, brought to all or to one.

The small tensors of a record go as one message, large ones as they are. All ranks have records of one form, so that the
sizes are known; only the text of non-tensor data may be of any length.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.objects import CPU

from . import leaves as leaves_of
from .agreement import (
    MASK,
    Call,
    Head,
    agree,
    as_bytes,
    expected,
    gathered,
    mixed,
    note,
    numbers_of,
    refuse,
    texts,
    to_bytes,
)
from .groups import Group, group_of
from .layout import Layout, described, objects_text, parts_in, read_objects, reader_of, rebuilt, space, taken
from .places import Places, places_of
from .staging import Staging

#: up to how many bytes of all ranks together the first message of a call has values in it
_HEAD = 2**20
_WORDS = 32  #: bytes in front: the digest, length and checksum of the text of objects, and a gap


class _Content(NamedTuple):
    """What a rank gives."""

    tensors: list[Tensor]
    plain: bool
    text: bytes  #: of its non-tensor data


class GatherHead(Head):
    """The small tensors of all ranks, each with its digest in front."""

    __slots__ = ("places", "rows", "same", "sizes", "staging", "told", "words")

    def __init__(self, call: int, places: Places, group: Group, told: Any) -> None:
        super().__init__(call)
        self.places: Places = places
        self.staging: Staging = places.staging(_WORDS, group.known.device)
        self.words: Tensor = self.staging.memory[:_WORDS].view(torch.int64)
        self.told: Any = told  #: what a rank knows of the records when it has none itself
        self.rows: Tensor = self.words
        self.sizes: list[int] = []
        self.same: bool = True

    def agreed(self, group: Group, call: int, content: Any) -> bool:
        """See :meth:`.agreement.Head.agreed`."""
        told = [call, 0, 0, 0]
        if content is not None:
            told[1:3] = len(content.text), zlib.crc32(content.text)
            if content.tensors:
                self.staging.gather(content.tensors, content.plain)
        self.words.copy_(torch.tensor(told, dtype=torch.int64, device="cpu"))
        memory = self.staging.memory
        rows = torch.empty(group.known.size * len(memory), dtype=torch.uint8, device=memory.device)
        group.wait(group.all_gather(rows, memory))
        self.rows = rows.view(group.known.size, -1)
        found: list[list[int]] = numbers_of(self.rows[:, :_WORDS].view(torch.int64))
        self.sizes = [row[1] for row in found]
        self.same = len({(row[1], row[2]) for row in found}) == 1
        return all(row[0] == self.call for row in found)

    def taken(self) -> Tensor:
        """What came, without the digests. It is not kept here."""
        rows, self.rows = self.rows, self.words
        return rows[:, _WORDS:]


def all_gather(
    data: TensorCollection,
    *,
    group: dist.ProcessGroup | None = None,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> list[Any]:
    """See :meth:`TensorDict.all_gather`."""
    found = group_of(group, "all_gather", timeout)
    if found is None:
        return []
    known = found.known
    layout, mine, call = _entered(data, found, "all_gather()", False, allow_pickle)
    places = places_of(layout.parts)
    small, large = _split(mine, places, known.device)
    head: Any = expected(found)
    if head is not None and head.agreed(found, call.digest, small if head.call == call.digest else None):
        rows, sizes, same = head.taken(), head.sizes, head.same
    else:
        sizes, same = None, agree(found, call).same
        rows = gathered(found, _packed(places, small, known.device))
    _note(found, call.digest, places, None)
    wide = [gathered(found, tensor) for tensor in large]
    told = [mine.text] * known.size if same else texts(found, mine.text, sizes)
    return [
        _made(
            data,
            layout,
            places.whole(places.views(rows[at]), [all_of[at] for all_of in wide]),
            told[at],
            found,
            at,
            allow_pickle,
        )
        for at in range(known.size)
    ]


def gather_and_stack(
    data: TensorCollection,
    dst: int,
    group: dist.ProcessGroup | None = None,
    *,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> Any:
    """See :meth:`TensorDict.gather_and_stack`."""
    found = group_of(group, "gather_and_stack", timeout)
    if found is None:
        return None
    known, root = found.known, found.group_rank(dst, "dst")
    what = f"gather_and_stack(dst={dst})"
    senders = [rank for rank in range(known.size) if rank != root]
    if not senders:
        return data
    head: Any = expected(found)
    last: tuple[str, bytes] = head.told if isinstance(head, GatherHead) and head.told is not None else ("", b"")
    mine, text = _Content([], True, b""), b""
    if root == known.rank:
        call = Call(what, 0, {})
        ours = last[0] == what
        digest = head.call if ours else call.digest
    else:
        _, mine, call = _entered(data, found, what, True, allow_pickle)
        text = described(data, what, allow_pickle) if known.rank == senders[0] else b""
        digest = call.digest
        ours = head is not None and head.call == digest
    rows: Tensor | None = None
    told: bytes
    if head is not None and head.agreed(found, digest, _split(mine, head.places, known.device)[0] if ours else None):
        told, places = last[1], head.places
        rows, sizes = head.taken(), head.sizes
    else:
        agreed = agree(found, call._replace(numbers=(*(call.numbers or (0, 0)), len(text))))
        sizes, digest = (None if agreed.most[0] else [0] * known.size), mixed(what, agreed.form)
        told = _shared(found, text, agreed.most[2], senders[0])
        places = places_of(parts_in(told, what))
    small, large = _split(mine, places, known.device)
    if rows is None:
        rows = _gathered_to(found, root, _packed(places, small, known.device))
    _note(found, digest, places, (what, told))
    wide = [
        _gathered_to(found, root, _own(found, places, at, large, which, known.device))
        for which, at in enumerate(places.alone)
    ]
    # what was told of the records can be from another call, and their non-tensor data has changed
    texts_of = texts(found, mine.text, sizes)
    if root != known.rank:
        return None
    stack = _stacked(found, told, senders, places, rows, wide, texts_of, allow_pickle)
    if stack.batch_size[: data.batch_dims] != data.batch_size:
        raise RuntimeError(
            f"gather_and_stack: the stack of the others has the batch size {list(stack.batch_size)}, and the "
            f"collection on rank {dst}, which it is written to, {list(data.batch_size)}; make that one with batch_size="
            f"{list(stack.batch_size)}. Nothing was written there"
        )
    return data.update_(stack) if data.is_locked else data.update(stack)


def _entered(
    data: TensorCollection, group: Group, what: str, whole: bool, pickles: bool
) -> tuple[Layout, _Content, Call]:
    """A record taken apart to be sent; the other ranks learn where it cannot be.

    Args:
        data: the record.
        group: the group.
        what: the call.
        whole: batch sizes, names and classes must be the same, too.
        pickles: objects may be pickled.
    """
    try:
        found = taken(data)
        layout = found.layout
        text = objects_text(data, layout, group.what, pickles) if layout.objects else b""
    except Exception as error:
        refuse(group, what, error)
    form, entries = layout.digest, layout.entries
    if whole:
        head = leaves_of.head_of(data)
        form, entries = mixed(head, form), {**entries, "batch sizes": head}
    call = Call(what, form & MASK, entries, None, (len(text), zlib.crc32(text)))
    return layout, _Content(found.tensors, found.plain, text), call


def _split(content: _Content, places: Places, device: torch.device) -> tuple[_Content, list[Tensor]]:
    """The small tensors, and the large ones."""
    if not content.tensors or not places.alone:
        return content, []
    small = content._replace(tensors=[content.tensors[at] for at in places.small])
    return small, [as_message(content.tensors[at], device) for at in places.alone]


def as_message(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor whose items lie one behind the other, and are what they seem to be."""
    return tensor.detach().resolve_conj().resolve_neg().to(device).contiguous()


def _packed(places: Places, content: _Content, device: torch.device) -> Tensor:
    """The small tensors in one piece of memory; zeros where there are none."""
    staging = places.staging(0, device)
    if content.tensors:
        staging.gather(content.tensors, content.plain)
    return staging.memory


def _own(group: Group, places: Places, at: int, large: Sequence[Tensor], which: int, device: torch.device) -> Tensor:
    dtype, shape = places.forms[at]
    return large[which] if large else space(shape, dtype, device, group.what)


def _gathered_to(group: Group, root: int, tensor: Tensor) -> Tensor:
    """The tensors of all ranks, on one of them; elsewhere nothing of use."""
    size = group.known.size if group.known.rank == root else 0
    target = torch.empty(size, *tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if tensor.numel():
        group.wait(group.gather(list(target), tensor, root))
    return target


def _note(group: Group, call: int, places: Places, told: Any) -> None:
    small = (places.size + _WORDS) * group.known.size <= _HEAD
    note(group, call, lambda: GatherHead(call, places, group, told) if small else None)


def _shared(group: Group, text: bytes, size: int, root: int) -> bytes:
    """The text of one rank."""
    own = as_bytes(text) if group.known.rank == root else space(size, torch.uint8, CPU, group.what)
    own = own.to(group.known.device)
    group.wait(group.broadcast(own, root))
    return to_bytes(own.cpu())


def _made(
    data: Any,
    layout: Layout,
    tensors: list[Tensor],
    text: bytes,
    group: Group,
    rank: int,
    pickles: bool,
) -> Any:
    """A record like another one, with other tensors and non-tensor data."""
    made = leaves_of.remade(data, layout, tensors)
    if layout.objects:
        read_objects(text, made, layout, f"{group.what}: rank {group.known.ranks[rank]}", pickles)()
    return made


def _stacked(
    group: Group,
    told: bytes,
    senders: list[int],
    places: Places,
    rows: Tensor,
    wide: list[Tensor],
    texts_of: list[bytes],
    pickles: bool,
) -> Any:
    """The records of the senders as one."""
    parts = parts_in(told, group.what)
    found: list[Any] = []
    for at in senders:
        tensors = places.whole(places.views(rows[at]), [all_of[at] for all_of in wide])
        if found:
            made = found[0]
        else:
            named = {(part.path, part.part): tensor for part, tensor in zip(parts, tensors, strict=True)}
            made = rebuilt(told, None, reader_of(named, group.what), group.what, allow_pickle=pickles)
        found.append(_made(made, taken(made).layout, tensors, texts_of[at], group, at, pickles))
    return torch.stack(found, 0)
