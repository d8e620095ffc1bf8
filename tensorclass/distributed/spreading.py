"""``broadcast`` and ``scatter``: records of one rank, brought to all.

The others need not have a record: what it looks like is told, as JSON, in front of the values. Nothing is unpickled.
One message has that and the small tensors; large ones go as they are, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass.storage.tree import FileError
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike, as_device

from .agreement import Call, Head, agree, as_bytes, expected, mixed, note, numbers_of, refuse, to_bytes
from .faults import RecordsDiffer
from .gathering import as_message
from .groups import Group, group_of
from .layout import Part, described, parts_in, reader_of, rebuilt, space, taken
from .places import Places, places_of

#: up to how many bytes the first message of a call has values in it
_HEAD = 2**20
_NOTHING = torch.empty(0, dtype=torch.uint8, device="cpu")
_WORDS = 32  #: bytes in front of a text: the digest of the call, the length of the text, and a gap


class _Parcel(NamedTuple):
    """What a rank gets."""

    text: bytes
    tensors: list[Tensor]
    plain: bool
    places: Places

    @property
    def size(self) -> int:
        """How many bytes text and small tensors take, with what stands in front."""
        return _WORDS + _padded(len(self.text)) + self.places.size

    def message(self, call: int, size: int) -> Tensor:
        """Text and small tensors in one piece of memory."""
        begin = _WORDS + _padded(len(self.text))
        staging = self.places.staging(begin, torch.device("cpu"))
        if self.places.small:
            staging.gather([self.tensors[at] for at in self.places.small], self.plain)
        memory = staging.memory
        told = [call, len(self.text), int(bool(self.places.alone)), 0]
        memory[:_WORDS].view(torch.int64).copy_(torch.tensor(told, dtype=torch.int64, device="cpu"))
        memory[_WORDS : _WORDS + len(self.text)] = as_bytes(self.text)
        if size == len(memory):
            return memory
        wide = torch.zeros(size, dtype=torch.uint8, device="cpu")
        wide[: len(memory)] = memory
        return wide


def _padded(size: int) -> int:
    return -(-size // 16) * 16


class SpreadHead(Head):
    """A message of the size that the last one had.

    It goes from one rank to the others, who do not answer. So a rank that comes with another call is the only one to
    know: it takes what was sent, so that the group stays whole, and raises an error.
    """

    __slots__ = ("memory", "root", "size", "spreads", "what")

    def __init__(self, call: int, what: str, root: int, size: int, scatters: bool) -> None:
        super().__init__(call)
        self.what: str = what
        self.root: int = root
        self.size: int = size
        self.spreads: bool = scatters
        self.memory: Tensor = _NOTHING

    def agreed(self, group: Group, call: int, content: Any) -> bool:
        """See :meth:`.agreement.Head.agreed`; the content are the parcels, where this rank sends them."""
        known = group.known
        sends = known.rank == self.root
        count = known.size if self.spreads else 1
        if not sends:
            messages = [torch.empty(self.size, dtype=torch.uint8, device=known.device)]
        elif content is None:
            messages = [torch.zeros(self.size, dtype=torch.uint8, device=known.device)] * count
        else:
            messages = [parcel.message(self.call, self.size).to(known.device) for parcel in content]
        memory = _spread(group, messages, self.root, self.spreads)
        if _words(memory)[0] != self.call:
            return False
        if call != self.call:
            self._differs(group, memory)
        self.memory = memory
        return True

    def taken(self) -> Tensor:
        """What came. It is not kept here."""
        memory, self.memory = self.memory, _NOTHING
        return memory

    def _differs(self, group: Group, memory: Tensor) -> NoReturn:
        parts, alone, _, _ = _opened(memory, group)
        places = places_of(parts, alone)
        for at in places.alone:
            _large(group, at, places, [], self.root, self.spreads)
        known = group.known
        known.last = self.call
        lines = [f"{self.what} on rank {known.ranks[self.root]}", f"{group.what} on rank {known.ranks[known.rank]}"]
        raise RecordsDiffer(
            f"{group.what}: the ranks do not call the same: {'; '.join(lines)}. Nothing was written", differences=lines
        )


def _words(memory: Tensor) -> list[int]:
    found: list[int] = numbers_of(memory[:_WORDS].view(torch.int64))
    return found


def _opened(memory: Tensor, group: Group) -> tuple[list[Part], bool, bytes, Tensor]:
    """What a message has: the tensors, whether large ones come alone, the text, and the memory of small ones."""
    _, length, alone, _ = _words(memory)
    text = to_bytes(memory[_WORDS : _WORDS + length].cpu())
    if not 0 <= length <= len(memory) - _WORDS:
        raise FileError(f"{group.what}: what the message tells of itself is damaged")
    return parts_in(text, group.what), bool(alone), text, memory[_WORDS + _padded(length) :]


def _spread(group: Group, messages: list[Tensor], root: int, scatters: bool) -> Tensor:
    """One message to all, or one to each; what came here."""
    if not scatters:
        group.wait(group.broadcast(messages[0], root))
        return messages[0]
    target = torch.empty_like(messages[0])
    group.wait(group.scatter(target, messages, root))
    return target


def broadcast(
    data: TensorCollection,
    src: int,
    *,
    group: dist.ProcessGroup | None = None,
    device: DeviceLike | None = None,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> Any:
    """See :meth:`TensorDict.broadcast`."""
    found = group_of(group, "broadcast", timeout)
    if found is None:
        return data
    return _sent(
        data, [data], found, found.group_rank(src, "src"), f"broadcast(src={src})", device, False, allow_pickle
    )


def scatter(
    data: TensorCollection,
    src: int,
    tensordicts: Sequence[TensorCollection] | None = None,
    *,
    group: dist.ProcessGroup | None = None,
    device: DeviceLike | None = None,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> Any:
    """See :meth:`TensorDict.scatter`."""
    found = group_of(group, "scatter", timeout)
    if found is None:
        return data
    return _sent(
        data, tensordicts, found, found.group_rank(src, "src"), f"scatter(src={src})", device, True, allow_pickle
    )


def _sent(
    data: TensorCollection,
    given: Sequence[TensorCollection] | None,
    group: Group,
    root: int,
    what: str,
    device: DeviceLike | None,
    scatters: bool,
    pickles: bool,
) -> Any:
    known, target = group.known, as_device(device)
    sends = known.rank == root
    parcels: list[_Parcel] = []
    if sends:
        try:
            parcels = _parcels(given, group, known.size if scatters else 1, scatters, pickles)
        except Exception as error:
            refuse(group, what, error)
    size = max((parcel.size for parcel in parcels), default=0)
    base = mixed(what, 0)
    head: Any = expected(group)
    ours = isinstance(head, SpreadHead) and head.call == mixed(f"{base} {head.size}", 0)
    if head is not None and head.agreed(
        group, head.call if ours else 0, parcels if ours and sends and size == head.size else None
    ):
        memory, size = head.taken(), head.size
    else:
        size = agree(group, Call(what, 0, {}, None, (size, 0, 0))).most[0]
        messages = [parcel.message(0, size).to(known.device) for parcel in parcels]
        memory = _spread(group, messages or [space(size, torch.uint8, known.device, group.what)], root, scatters)
    call = mixed(f"{base} {size}", 0)
    note(group, call, lambda: SpreadHead(call, what, root, size, scatters) if size <= _HEAD else None)
    parts, alone, text, rest = _opened(memory, group)
    places = parcels[0].places if sends and not scatters else places_of(parts, alone)
    large = [_large(group, at, places, parcels, root, scatters) for at in places.alone]
    if sends and not scatters:
        return data if target is None else data.to(target)
    if places.size > len(rest):
        raise FileError(f"{group.what}: the message is shorter than the record that it tells of")
    small = places.views(rest)
    named = {(part.path, part.part): tensor for part, tensor in zip(parts, places.whole(small, large), strict=True)}
    made = rebuilt(text, None, reader_of(named, group.what), group.what, None, pickles)
    if target is None:
        target = data._device
    return made if target is None else made.to(target)


def _large(group: Group, at: int, places: Places, parcels: list[_Parcel], root: int, scatters: bool) -> Tensor:
    """A large tensor: of the memory it has where it is sent."""
    dtype, shape = places.forms[at]
    device = group.known.device
    tensors = [as_message(parcel.tensors[at], device) for parcel in parcels]
    return _spread(group, tensors or [space(shape, dtype, device, group.what)], root, scatters)


def _parcels(
    given: Sequence[TensorCollection] | None, group: Group, count: int, scatters: bool, pickles: bool
) -> list[_Parcel]:
    """What is sent to each rank.

    Raises:
        TypeError: there are no records, or one has values that no message can hold.
        ValueError: there are more or less of them than ranks.
    """
    if given is None:
        raise TypeError(f"{group.what}: the rank that sends needs tensordicts, a record for each rank of the group")
    found: list[Any] = list(given)
    strange = [type(data).__name__ for data in found if not isinstance(data, TensorCollection)]
    if strange:
        raise TypeError(f"{group.what}: tensordicts: expected records, a collection for each rank, got a {strange[0]}")
    if len(found) != count:
        raise ValueError(f"{group.what}: tensordicts: expected {count} records, one for each rank, got {len(found)}")
    apart = [taken(data) for data in found]
    alike = len({part.layout.digest for part in apart}) == 1  # so that all know where large tensors go alone
    return [
        _Parcel(described(data, group.what, pickles), part.tensors, part.plain, places_of(part.layout.parts, alike))
        for data, part in zip(found, apart, strict=True)
    ]
