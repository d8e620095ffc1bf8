"""A process group as the collectives use it: messages with a time-out, and errors that name the ranks that are missing.

What the ranks have agreed on is kept for each group (:class:`Known`, see :mod:`.agreement`), as long as it lives.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d as c10d

from .faults import BROKEN, WorkerTimeout, kind_of

if TYPE_CHECKING:
    from .agreement import Expected

_AllgatherOptions: Any = c10d.AllgatherOptions  # type: ignore[attr-defined]

#: how long a rank whose message failed waits for the others to say that theirs did, in seconds
GRACE = 2.0
#: what to say of something else
NO_GROUP = "expected a process group, such as torch.distributed.new_group and DeviceMesh.get_group give"
_SCRATCH = 2**26  #: how many bytes are kept for copies


class Known:
    """What a process remembers of a group. It does not hold the group, which ends when its user lets go of it."""

    __slots__ = ("_scratch", "begun", "calls", "device", "following", "gloo", "last", "rank", "ranks", "size")

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.ranks: list[int] = dist.get_process_group_ranks(group)
        self.rank: int = group.rank()
        self.size: int = group.size()
        self.device: torch.device = device_of(group)
        self.gloo: bool = self.device.type == "cpu" and group._get_backend(self.device).name() == "gloo"
        self._scratch: Tensor = torch.empty(0, dtype=torch.uint8, device="cpu")
        #: how many calls there were
        self.calls: int = 0
        #: which call was the last one, and which ones came behind which
        self.last: int = 0
        self.following: dict[int, Expected] = {}
        #: makes sure that all ranks mean the same by the last call, where it went on without
        self.begun: Callable[[], None] | None = None

    def copied(self, tensor: Tensor) -> Tensor:
        """A copy of a tensor that is good until the next one is asked for: new memory takes as long as the copy."""
        size = tensor.numel() * tensor.dtype.itemsize
        if size > _SCRATCH or tensor.device.type != "cpu":
            return tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        if len(self._scratch) < size:
            self._scratch = torch.empty(-(-size // 4096) * 4096, dtype=torch.uint8, device="cpu")
        found = self._scratch[:size].view(tensor.dtype).view(tensor.shape)
        found.copy_(tensor)
        return found

    def forget(self) -> None:
        """Begins anew: what comes next is not expected to be anything."""
        self.last = 0
        self.following.clear()


_known: weakref.WeakKeyDictionary[Any, Known] = weakref.WeakKeyDictionary()


def settle(group: Any) -> None:
    """Ends what a call has left to do before the next one, as the ranks must have the same messages in the same order.

    Raises:
        RecordsDiffer: the ranks did not mean the same by that call.
    """
    known = _known.get(group)
    if known is not None and known.begun is not None:
        known.begun()


class Group:
    """A process group during one call of a collective.

    Args:
        group: the group.
        known: what is remembered of it.
        what: the name of the call, for errors.
        timeout: how long a message may take; the time-out of the group by default.
    """

    __slots__ = ("known", "pg", "timeout", "what")

    def __init__(self, group: dist.ProcessGroup, known: Known, what: str, timeout: timedelta | None) -> None:
        self.pg: dist.ProcessGroup = group
        self.known: Known = known
        self.what: str = what
        self.timeout: timedelta | None = timeout
        known.calls += 1

    def group_rank(self, rank: int | None, name: str) -> int:
        """The rank within the group of a rank of the world.

        Raises:
            ValueError: it is not one of the group.
        """
        return rank_within(self.known.ranks, rank, self.what, name)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _options(self, kind: Callable[[], Any]) -> Any:
        options = kind()
        if self.timeout is not None:
            options.timeout = self.timeout
        return options

    def all_reduce(self, tensor: Tensor, op: Any) -> dist.Work:
        """Begins to reduce a tensor in place."""
        options = self._options(c10d.AllreduceOptions)
        options.reduceOp = op
        return self._begin(self.pg.allreduce, [tensor], options)

    def reduce(self, tensor: Tensor, op: Any, root: int) -> dist.Work:
        """Begins to reduce a tensor to one rank of the group; it is overwritten on the others, too."""
        options = self._options(c10d.ReduceOptions)
        options.reduceOp, options.rootRank = op, root
        return self._begin(self.pg.reduce, [tensor], options)

    def all_gather(self, target: Tensor, tensor: Tensor) -> dist.Work:
        """Begins to put the tensors of all ranks one behind the other."""
        return self._begin(self.pg._allgather_base, target, tensor, self._options(_AllgatherOptions))

    def gather(self, targets: Sequence[Tensor], tensor: Tensor, root: int) -> dist.Work:
        """Begins to bring the tensors of all ranks to one."""
        options = self._options(c10d.GatherOptions)
        options.rootRank = root
        return self._begin(self.pg.gather, [list(targets)] if self.known.rank == root else [], [tensor], options)

    def broadcast(self, tensor: Tensor, root: int) -> dist.Work:
        """Begins to bring a tensor of one rank to all."""
        options = self._options(c10d.BroadcastOptions)
        options.rootRank, options.rootTensor = root, 0
        return self._begin(self.pg.broadcast, [tensor], options)

    def scatter(self, target: Tensor, tensors: Sequence[Tensor], root: int) -> dist.Work:
        """Begins to bring each rank the tensor that one rank has for it."""
        options = self._options(c10d.ScatterOptions)
        options.rootRank = root
        return self._begin(self.pg.scatter, [target], [list(tensors)] if self.known.rank == root else [], options)

    def _begin(self, send: Callable[..., Any], *args: Any) -> dist.Work:
        try:
            work: dist.Work = send(*args)
        except RuntimeError as error:
            self.fail(error)
        return work

    def wait(self, *works: dist.Work) -> None:
        """Waits for messages.

        Raises:
            WorkerTimeout: not all ranks came within the time-out.
            WorkerDied: a rank is gone.
            RuntimeError: what the backend says besides, such as that it has no such reduction of a dtype.
        """
        for work in works:
            try:
                work.wait()
            except RuntimeError as error:
                self.fail(error)

    # -- faults -------------------------------------------------------------------------------------------------------

    def fail(self, error: RuntimeError) -> NoReturn:
        """Raises the error of a message that did not arrive, with the names of the ranks that are missing."""
        self.known.forget()
        kind = kind_of(error)
        if kind is None:
            raise error
        late = kind is WorkerTimeout
        missing, why = self._missing()
        within = f" within {self.timeout.total_seconds():g} s" if late and self.timeout else ""
        if missing:
            who = named_ranks(missing)
            told = f"{who} did not take part{within}"
        else:
            who, told = "", why or f"all ranks began, but not all messages arrived{within}"
        raise kind(
            f"{self.what}: {told}. This is rank {self.known.ranks[self.known.rank]} of {shown(self.known.ranks)}, in "
            f"its call {self.known.calls} on this group. {BROKEN}",
            worker=who,
        ) from error

    def _missing(self) -> tuple[list[int], str]:
        """The ranks that have not said that this call failed for them too, or why that cannot be known."""
        known, found = self.known, dict[str, Any]()

        def ask() -> None:
            # a store that hangs with its process would keep us, so this runs beside
            try:
                store = self.pg.get_group_store()
                store.set(f"tensorclass/{known.calls}/{known.rank}", "1")
                left, end = set(range(known.size)) - {known.rank}, time.monotonic() + GRACE
                while left and time.monotonic() < end:
                    left = {rank for rank in left if not store.check([f"tensorclass/{known.calls}/{rank}"])}
                    found["missing"] = sorted(known.ranks[rank] for rank in left)
                    time.sleep(0.02)
            except RuntimeError:
                found["gone"] = True

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(GRACE + 1.0)
        if "gone" in found or "missing" not in found:
            told = "the store of the group does not answer: the process that holds it, most often that of rank 0, has"
            return [], f"{told} {'ended' if 'gone' in found else 'stopped'}, and with it the names of missing ranks"
        return found["missing"], ""


def shown(ranks: Sequence[int]) -> str:
    """Ranks for messages.

    >>> shown([0, 1, 2, 3, 7])
    '0-3, 7'
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    return ", ".join("-".join(map(str, run)) for run in runs)


def named_ranks(ranks: Sequence[int]) -> str:
    """Ranks with that word.

    >>> named_ranks([3]), named_ranks([0, 1])
    ('rank 3', 'ranks 0-1')
    """
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown(ranks)}"


def rank_within(ranks: Sequence[int], rank: int | None, what: str, name: str) -> int:
    """The rank within a group of a rank of the world.

    Raises:
        ValueError: it is not one of the group.
    """
    try:
        return ranks.index(rank)
    except ValueError:
        raise ValueError(
            f"{what}: {name}: expected a rank of the world that is in the group, one of {shown(ranks)}, got {rank!r}"
        ) from None


def device_of(group: Any, device: torch.device | None = None) -> torch.device:
    """Where the memory of messages is: main memory, where a group has a backend for it, if no device is asked for.

    Raises:
        ValueError: the group has no backend for the device that is asked for.
    """
    types: set[str] = {found.type for found in getattr(group, "_device_types", ())} or {"cpu"}
    wanted = device.type if device is not None else "cpu" if "cpu" in types else min(types)
    if wanted not in types:
        raise ValueError(f"the group has no backend for {wanted}; it has those for {sorted(types)}")
    return torch.device("cpu") if wanted == "cpu" else torch.device(wanted, torch.accelerator.current_device_index())


def as_timeout(timeout: float | timedelta | None, what: str) -> timedelta | None:
    """A time-out as torch has it, from seconds or from one.

    Raises:
        ValueError: it is not positive.
    """
    if timeout is None:
        return None
    try:
        found = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    except (OverflowError, ValueError):  # no number, or an endless one
        found = timedelta()
    if found < timedelta(milliseconds=1):
        raise ValueError(f"{what}: timeout: expected a positive number of seconds or a timedelta, got {timeout!r}")
    return found


def group_of(group: dist.ProcessGroup | None, what: str, timeout: float | timedelta | None = None) -> Group | None:
    """A group for one call; ``None``, with torch's warning, on a rank that is not in it.

    Raises:
        ValueError: there is no default group yet.
        TypeError: it is no group.
        RecordsDiffer: the ranks did not mean the same by the call before; see :func:`settle`.
    """
    limit = as_timeout(timeout, what)
    pg: Any = c10d._get_default_group() if group is None else group
    if pg is dist.GroupMember.NON_GROUP_MEMBER:
        warnings.warn(f"{what}: rank {dist.get_rank()} is not in the group: nothing is done here", stacklevel=4)
        return None
    if not isinstance(pg, dist.ProcessGroup):
        raise TypeError(f"{what}: group: {NO_GROUP}, got a {type(pg).__name__}")
    known = _known.get(pg)
    if known is None:
        known = _known[pg] = Known(pg)
    if known.begun is not None:
        known.begun()
    return Group(pg, known, what, limit)
