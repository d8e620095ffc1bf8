"""Process groups: messages with a time-out, errors that name missing ranks, and the state kept for each group."""

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

from tensorclass.support.printable import type_name

from .worker_errors import GROUP_IS_BROKEN, WorkerTimeout, error_class_of

if TYPE_CHECKING:
    from .collectives.agreement import Successor

_AllgatherOptions: Any = c10d.AllgatherOptions  # type: ignore[attr-defined]

#: seconds that a rank whose message failed waits for the others to report the same
GRACE = 2.0
#: for error messages
NO_GROUP = "expected a process group, as torch.distributed.new_group or DeviceMesh.get_group returns"
_SCRATCH_BYTES = 2**26  #: kept for copies


class GroupState:
    """State of a group for collectives. Does not keep the group alive.

    For the prediction of calls see :mod:`.collectives.agreement`.
    """

    __slots__ = (
        "_scratch", "calls", "device", "finish_agreement", "gloo", "last", "rank", "ranks", "size", "successors",
    )  # fmt: skip

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.ranks: list[int] = dist.get_process_group_ranks(group)
        self.rank: int = group.rank()
        self.size: int = group.size()
        self.device: torch.device = device_of(group)
        self.gloo: bool = self.device.type == "cpu" and group._get_backend(self.device).name() == "gloo"
        self._scratch: Tensor = torch.empty(0, dtype=torch.uint8, device="cpu")
        #: number of calls
        self.calls: int = 0
        #: the last call, and the successor of each call
        self.last: int = 0
        self.successors: dict[int, Successor] = {}
        #: completes the agreement on an asynchronous call that did not wait for it
        self.finish_agreement: Callable[[], None] | None = None

    def scratch_copy(self, tensor: Tensor) -> Tensor:
        """Copy a tensor into scratch memory, valid until the next call: allocating takes as long as copying."""
        size = tensor.numel() * tensor.dtype.itemsize
        if size > _SCRATCH_BYTES or tensor.device.type != "cpu":
            return tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        if len(self._scratch) < size:
            self._scratch = torch.empty(-(-size // 4096) * 4096, dtype=torch.uint8, device="cpu")
        found = self._scratch[:size].view(tensor.dtype).view(tensor.shape)
        found.copy_(tensor)
        return found

    def forget(self) -> None:
        """Forget the calls so far, so that no call is predicted."""
        self.last = 0
        self.successors.clear()


_known: weakref.WeakKeyDictionary[Any, GroupState] = weakref.WeakKeyDictionary()


def finish_pending(group: Any) -> None:
    """Complete the agreement on the last call before the next one, because all ranks must send messages in one order.

    Raises:
        RecordsDiffer: the ranks did not agree on that call.
    """
    state = _known.get(group)
    if state is not None and state.finish_agreement is not None:
        state.finish_agreement()


class GroupCall:
    """A process group during one call of a collective.

    Args:
        group: the group.
        state: its state.
        what: name of the call, for error messages.
        timeout: of each message. Default: the time-out of the group.
    """

    __slots__ = ("pg", "state", "timeout", "what")

    def __init__(self, group: dist.ProcessGroup, state: GroupState, what: str, timeout: timedelta | None) -> None:
        self.pg: dist.ProcessGroup = group
        self.state: GroupState = state
        self.what: str = what
        self.timeout: timedelta | None = timeout
        state.calls += 1

    def group_rank(self, rank: int | None, name: str) -> int:
        """Return the rank in the group of a rank in the world.

        Raises:
            ValueError: it is not in the group.
        """
        return rank_within(self.state.ranks, rank, self.what, name)

    def origin(self, rank: int) -> str:
        """Return the origin of what another rank of the group sent, for messages."""
        return f"{self.what}: rank {self.state.ranks[rank]}"

    # -- messages -----------------------------------------------------------------------------------------------------

    def _options(self, options_class: Callable[[], Any], **values: Any) -> Any:
        options = options_class()
        if self.timeout is not None:
            options.timeout = self.timeout
        for name, value in values.items():
            setattr(options, name, value)
        return options

    def all_reduce(self, tensor: Tensor, op: Any) -> dist.Work:
        """Start to reduce a tensor in place."""
        return self._begin(self.pg.allreduce, [tensor], self._options(c10d.AllreduceOptions, reduceOp=op))

    def reduce(self, tensor: Tensor, op: Any, root: int) -> dist.Work:
        """Start to reduce a tensor to one rank of the group. It is overwritten on all ranks."""
        options = self._options(c10d.ReduceOptions, reduceOp=op, rootRank=root)
        return self._begin(self.pg.reduce, [tensor], options)

    def all_gather(self, target: Tensor, tensor: Tensor) -> dist.Work:
        """Start to gather the tensors of all ranks, one after the other."""
        return self._begin(self.pg._allgather_base, target, tensor, self._options(_AllgatherOptions))

    def gather(self, targets: Sequence[Tensor], tensor: Tensor, root: int) -> dist.Work:
        """Start to gather the tensors of all ranks on one."""
        options = self._options(c10d.GatherOptions, rootRank=root)
        return self._begin(self.pg.gather, [list(targets)] if self.state.rank == root else [], [tensor], options)

    def broadcast(self, tensor: Tensor, root: int) -> dist.Work:
        """Start to broadcast a tensor of one rank."""
        options = self._options(c10d.BroadcastOptions, rootRank=root, rootTensor=0)
        return self._begin(self.pg.broadcast, [tensor], options)

    def scatter(self, target: Tensor, tensors: Sequence[Tensor], root: int) -> dist.Work:
        """Start to scatter the tensors of one rank."""
        options = self._options(c10d.ScatterOptions, rootRank=root)
        return self._begin(self.pg.scatter, [target], [list(tensors)] if self.state.rank == root else [], options)

    def _begin(self, send: Callable[..., Any], *args: Any) -> dist.Work:
        try:
            work: dist.Work = send(*args)
        except RuntimeError as error:
            self.fail(error)
        return work

    def wait(self, *works: dist.Work) -> None:
        """Wait for messages.

        Raises:
            WorkerTimeout: not all ranks took part within the time-out.
            WorkerDied: a rank is gone.
            RuntimeError: another error of the backend, such as a reduction that it lacks for a dtype.
        """
        for work in works:
            try:
                work.wait()
            except RuntimeError as error:
                self.fail(error)

    # -- faults -------------------------------------------------------------------------------------------------------

    def fail(self, error: RuntimeError) -> NoReturn:
        """Raise the error for a message that did not arrive. It names the missing ranks."""
        self.state.forget()
        error_class = error_class_of(error)
        if error_class is None:
            raise error
        late = error_class is WorkerTimeout
        missing, why = self._missing()
        within = f" within {self.timeout.total_seconds():g} s" if late and self.timeout else ""
        if missing:
            who = named_ranks(missing)
            told = f"{who} did not take part{within}"
        else:
            who, told = "", why or f"all ranks began, but not all messages arrived{within}"
        raise error_class(
            f"{self.what}: {told}. This is rank {self.state.ranks[self.state.rank]} of {shown(self.state.ranks)}, in "
            f"its call {self.state.calls} on this group. {GROUP_IS_BROKEN}",
            worker=who,
        ) from error

    def _missing(self) -> tuple[list[int], str]:
        """Return the ranks that have not reported that this call failed, or why that is unknown."""
        state, found = self.state, dict[str, Any]()

        def ask() -> None:
            # in a thread, because the store hangs if its process does
            try:
                store = self.pg.get_group_store()
                store.set(f"tensorclass/{state.calls}/{state.rank}", "1")
                left, end = set(range(state.size)) - {state.rank}, time.monotonic() + GRACE
                while left and time.monotonic() < end:
                    left = {rank for rank in left if not store.check([f"tensorclass/{state.calls}/{rank}"])}
                    found["missing"] = sorted(state.ranks[rank] for rank in left)
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
    """Return ranks as messages show them.

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
    """Return ranks with the word in front.

    >>> named_ranks([3]), named_ranks([0, 1])
    ('rank 3', 'ranks 0-1')
    """
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown(ranks)}"


def rank_within(ranks: Sequence[int], rank: int | None, what: str, name: str) -> int:
    """Return the rank in a group of a rank in the world.

    Raises:
        ValueError: it is not in the group.
    """
    try:
        return ranks.index(rank)
    except ValueError:
        raise ValueError(
            f"{what}: {name}: expected a rank of the world that is in the group, one of {shown(ranks)}, got {rank!r}"
        ) from None


def device_of(group: Any, device: torch.device | None = None) -> torch.device:
    """Return the device of messages. Default: the CPU, if the group has a backend for it.

    Raises:
        ValueError: the group has no backend for ``device``.
    """
    types: set[str] = {found.type for found in getattr(group, "_device_types", ())} or {"cpu"}
    wanted = device.type if device is not None else "cpu" if "cpu" in types else min(types)
    if wanted not in types:
        raise ValueError(f"the group has no backend for {wanted}; it has backends for {sorted(types)}")
    return torch.device("cpu") if wanted == "cpu" else torch.device(wanted, torch.accelerator.current_device_index())


def as_timeout(timeout: float | timedelta | None, what: str) -> timedelta | None:
    """Convert a time-out in seconds to a timedelta.

    Raises:
        ValueError: it is not positive.
    """
    if timeout is None:
        return None
    try:
        found = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    except (OverflowError, ValueError):  # NaN or infinity
        found = timedelta()
    if found < timedelta(milliseconds=1):
        raise ValueError(f"{what}: timeout: expected a positive number of seconds or a timedelta, got {timeout!r}")
    return found


def group_of(group: dist.ProcessGroup | None, what: str, timeout: float | timedelta | None = None) -> GroupCall | None:
    """Return a group for one call. On a rank that is not in the group, warn as torch does and return ``None``.

    Raises:
        ValueError: there is no default group yet.
        TypeError: ``group`` is not a process group.
        RecordsDiffer: the ranks did not agree on the last call; see :func:`finish_pending`.
    """
    limit = as_timeout(timeout, what)
    pg: Any = c10d._get_default_group() if group is None else group
    if pg is dist.GroupMember.NON_GROUP_MEMBER:
        warnings.warn(f"{what}: rank {dist.get_rank()} is not in the group: nothing is done here", stacklevel=4)
        return None
    if not isinstance(pg, dist.ProcessGroup):
        raise TypeError(f"{what}: group: {NO_GROUP}, got a {type_name(pg)}")
    state = _known.get(pg)
    if state is None:
        state = _known[pg] = GroupState(pg)
    if state.finish_agreement is not None:
        state.finish_agreement()
    return GroupCall(pg, state, what, limit)
