"""``broadcast`` and ``scatter``: send records of one rank to all.

The other ranks need no record: a description as JSON is sent in front of the values. Nothing is unpickled unless the
caller allows it. Description and small tensors are one message; large tensors are sent as they are, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import torch
from torch import Tensor

from tensorclass.distributed.messages.byte_tensors import as_bytes, as_message, padded, to_bytes
from tensorclass.distributed.messages.message_buffer import MessageBuffer, Packing, packing_of
from tensorclass.distributed.messages.record_layout import (
    TensorSpec,
    allocate,
    describe_with_tensors,
    lookup_in,
    rebuild_record,
    specs_in,
)
from tensorclass.distributed.process_groups import GroupCall, group_of
from tensorclass.distributed.worker_errors import records_differ
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.leaves.object_codes import to_lists

from .agreement import (
    CallDescription,
    PredictedMessage,
    agree,
    call_digest,
    predicted_message,
    raise_on_all_ranks,
    record_call,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

METHODS_OF = "Collectives"
C = TypeVar("C", bound=TensorCollection)

_MOST_PREDICTED = 2**20  #: bytes up to which a predicted message has the values
_NOTHING = torch.empty(0, dtype=torch.uint8, device="cpu")
_WORDS = 32  #: bytes of the header: digest of the call, length of the description, large tensors or not, padding


class _Parcel(NamedTuple):
    """Description and tensors that a rank receives."""

    text: bytes
    tensors: list[Tensor]
    packing: Packing

    @property
    def size(self) -> int:
        """Bytes of header, description and small tensors."""
        return _WORDS + padded(len(self.text)) + self.packing.size

    def message(self, call: int, size: int) -> Tensor:
        """Return header, description and small tensors as one tensor of ``size`` bytes."""
        begin = _WORDS + padded(len(self.text))
        buffer = MessageBuffer(begin, self.packing, torch.device("cpu"))
        if self.packing.small:
            buffer.gather(self.packing.small_of(self.tensors))
        memory = buffer.memory
        told = [call, len(self.text), int(bool(self.packing.large)), 0]
        memory[:_WORDS].view(torch.int64).copy_(torch.tensor(told, dtype=torch.int64, device="cpu"))
        memory[_WORDS : _WORDS + len(self.text)] = as_bytes(self.text)
        if size == len(memory):
            return memory
        wide = torch.zeros(size, dtype=torch.uint8, device="cpu")
        wide[: len(memory)] = memory
        return wide


class PredictedBroadcast(PredictedMessage):
    """A message of the size of the last one.

    The receiving ranks do not answer. So only a rank that makes another call notices: it receives what was sent, so
    that the group stays usable, and raises an error.
    """

    __slots__ = ("memory", "root", "size", "spreads", "what")

    def __init__(self, call: int, what: str, root: int, size: int, scatters: bool) -> None:
        super().__init__(call)
        self.what: str = what
        self.root: int = root
        self.size: int = size
        self.spreads: bool = scatters
        self.memory: Tensor = _NOTHING

    def agreed(self, group: GroupCall, call: int, content: Any) -> bool:
        """See :meth:`.agreement.PredictedMessage.agreed`; ``content`` are the parcels of the sending rank."""
        state = group.state
        sends = state.rank == self.root
        count = state.size if self.spreads else 1
        if not sends:
            messages = [torch.empty(self.size, dtype=torch.uint8, device=state.device)]
        elif content is None:
            messages = [torch.zeros(self.size, dtype=torch.uint8, device=state.device)] * count
        else:
            messages = [parcel.message(self.call, self.size).to(state.device) for parcel in content]
        memory = _spread(group, messages, self.root, self.spreads)
        if _words(memory)[0] != self.call:
            return False
        if call != self.call:
            self._differs(group, memory)
        self.memory = memory
        return True

    def take(self) -> Tensor:
        """Return what came, and release it."""
        memory, self.memory = self.memory, _NOTHING
        return memory

    def _differs(self, group: GroupCall, memory: Tensor) -> NoReturn:
        specs, separate_large, _, _ = _parse(memory, group)
        packing = packing_of(specs, separate_large)
        _spread_large(group, packing, [], self.root, self.spreads)
        state = group.state
        state.last = self.call
        lines = [f"{self.what} on rank {state.ranks[self.root]}", f"{group.what} on rank {state.ranks[state.rank]}"]
        raise records_differ(f"{group.what}: the ranks do not call the same", lines)


def _words(memory: Tensor) -> list[int]:
    return to_lists(memory[:_WORDS].view(torch.int64))


def _parse(memory: Tensor, group: GroupCall) -> tuple[list[TensorSpec], bool, bytes, Tensor]:
    """Return the specs, whether large tensors are separate, the description, and the memory of small tensors."""
    _, length, separate_large, _ = _words(memory)
    text = to_bytes(memory[_WORDS : _WORDS + length])
    if not 0 <= length <= len(memory) - _WORDS:
        raise FileError(f"{group.what}: the header of the message is damaged")
    return specs_in(text, group.what), bool(separate_large), text, memory[_WORDS + padded(length) :]


def _spread(group: GroupCall, messages: list[Tensor], root: int, scatters: bool) -> Tensor:
    """Send one message to all, or one to each. Return what this rank received."""
    if not scatters:
        group.wait(group.broadcast(messages[0], root))
        return messages[0]
    target = torch.empty_like(messages[0])
    group.wait(group.scatter(target, messages, root))
    return target


def broadcast(
    data: C,
    src: int,
    *,
    group: ProcessGroup | None = None,
    device: DeviceLike | None = None,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> C:
    """Return the collection of one rank on all ranks. All ranks of the group call it.

    The receivers need not know its form, which is sent first, as JSON. A record stays a record if its class is
    defined in the receiving process (nothing is imported); elsewhere it becomes a :class:`TensorDict`. The
    collection on which a receiver calls the method can have any class, and is not changed.

    Args:
        src: the rank of the sender in the world.
        group: the process group; by default all ranks. A rank outside it gets its own collection back, with a
            warning.
        device: the device of the result; by default that of the collection on which the method is called, if it has
            one.
        timeout: the time limit of each message in seconds; by default that of the group.
        allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

    Returns:
        On ``src`` the collection itself, on the other ranks a new one.

    Raises:
        TypeError: a message cannot hold some values. All ranks raise, the others a WorkerRaised.
        WorkerTimeout: some ranks did not call in time. Names them.
        WorkerDied: some ranks have ended. Names them.
        ValueError: ``src`` is not in the group.

    Example:
        A group of one process; usually ``torchrun`` starts several.

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> TensorDict({"x": torch.ones(2)}, [2]).broadcast(src=0)["x"]
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    found = group_of(group, "broadcast", timeout)
    return data if found is None else _send_from(data, [data], found, src, device, False, allow_pickle)


def scatter(
    data: C,
    src: int,
    tensordicts: Sequence[C] | None = None,
    *,
    group: ProcessGroup | None = None,
    device: DeviceLike | None = None,
    timeout: float | timedelta | None = None,
    allow_pickle: bool = False,
) -> C:
    """Give each rank one of the collections of ``src``. All ranks of the group call it.

    The collections may differ in everything. As in :meth:`broadcast`, the receivers need not know the form, and the
    collection on which the method is called is not changed.

    Args:
        src: the rank of the sender in the world.
        tensordicts: on ``src``, one collection per rank of the group, in the order of the ranks. Ignored elsewhere.
        group: the process group; by default all ranks.
        broadcast: device, timeout, allow_pickle

    Returns:
        A new collection, also on ``src``.

    Raises:
        ValueError: the number of collections is not that of the ranks. All ranks raise, the others a WorkerRaised.
        TypeError: ``src`` gives no collections, or values that a message cannot hold. All ranks raise, as above.
        broadcast: WorkerTimeout, WorkerDied

    Example:
        A group of one process; usually ``torchrun`` starts several.

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = list(TensorDict({"x": torch.arange(4)}, [4]).chunk(dist.get_world_size()))
        >>> TensorDict({}).scatter(src=0, tensordicts=parts)["x"]
        tensor([0, 1, 2, 3])
        >>> dist.destroy_process_group()
    """
    found = group_of(group, "scatter", timeout)
    return data if found is None else _send_from(data, tensordicts, found, src, device, True, allow_pickle)


def _send_from(
    data: TensorCollection,
    given: Sequence[TensorCollection] | None,
    group: GroupCall,
    src: int,
    device: DeviceLike | None,
    scatters: bool,
    pickles: bool,
) -> Any:
    """Send the records of the rank ``src``: to each rank its own, or the only one to all."""
    root, what = group.group_rank(src, "src"), f"{group.what}(src={src})"
    state, target = group.state, as_device(device)
    sends = state.rank == root
    parcels: list[_Parcel] = []
    if sends:
        try:
            parcels = _parcels(given, group, state.size if scatters else 1, scatters, pickles)
        except Exception as error:
            raise_on_all_ranks(group, what, error)
    size = max((parcel.size for parcel in parcels), default=0)
    base = call_digest(what, 0)
    predicted: Any = predicted_message(group)
    ours = isinstance(predicted, PredictedBroadcast) and predicted.call == call_digest(f"{base} {predicted.size}", 0)
    if predicted is not None and predicted.agreed(
        group, predicted.call if ours else 0, parcels if ours and sends and size == predicted.size else None
    ):
        memory, size = predicted.take(), predicted.size
    else:
        size = agree(group, CallDescription(what, 0, {}, None, (size, 0, 0))).most[0]
        messages = [parcel.message(0, size).to(state.device) for parcel in parcels]
        memory = _spread(group, messages or [allocate(size, torch.uint8, state.device, group.what)], root, scatters)
    call = call_digest(f"{base} {size}", 0)
    fits = size <= _MOST_PREDICTED
    record_call(group, call, lambda: PredictedBroadcast(call, what, root, size, scatters) if fits else None)
    specs, separate_large, text, rest = _parse(memory, group)
    packing = parcels[0].packing if sends and not scatters else packing_of(specs, separate_large)
    large = _spread_large(group, packing, parcels, root, scatters)
    if sends and not scatters:
        return data if target is None else data.to(target)
    if packing.size > len(rest):
        raise FileError(f"{group.what}: the message is shorter than the record that it describes")
    named = {spec[:2]: tensor for spec, tensor in zip(specs, packing.merge(packing.views(rest), large), strict=True)}
    made = rebuild_record(text, None, lookup_in(named, group.what), group.what, None, pickles)
    target = data._device if target is None else target
    return made if target is None else made.to(target)


def _spread_large(
    group: GroupCall, packing: Packing, parcels: list[_Parcel], root: int, scatters: bool
) -> list[Tensor]:
    """Send or receive the large tensors."""
    device, found = group.state.device, list[Tensor]()
    for at, (dtype, shape) in zip(packing.large, packing.large_forms, strict=True):
        tensors = [as_message(parcel.tensors[at], device) for parcel in parcels]
        found.append(_spread(group, tensors or [allocate(shape, dtype, device, group.what)], root, scatters))
    return found


def _parcels(
    given: Sequence[TensorCollection] | None, group: GroupCall, count: int, scatters: bool, pickles: bool
) -> list[_Parcel]:
    """Prepare what is sent to each rank.

    Raises:
        TypeError: there are no records, or one has values that no message can hold.
        ValueError: there are not as many records as ranks.
    """
    if given is None:
        raise TypeError(f"{group.what}: the sending rank needs tensordicts=, a record for each rank of the group")
    records: list[Any] = list(given)
    strange = [type_name(data) for data in records if not isinstance(data, TensorCollection)]
    if strange:
        raise TypeError(f"{group.what}: tensordicts: expected records, a collection for each rank, got a {strange[0]}")
    if len(records) != count:
        raise ValueError(f"{group.what}: tensordicts: expected {count} records, one for each rank, got {len(records)}")
    described = [describe_with_tensors(data, group.what, pickles) for data in records]
    # only with one form do all ranks know which tensors are large
    separate_large = len({tuple(specs) for _, specs, _ in described}) == 1
    return [_Parcel(text, tensors, packing_of(specs, separate_large)) for text, specs, tensors in described]
