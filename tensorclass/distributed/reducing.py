"""``all_reduce`` and ``reduce``: the values of all ranks made one, in place.

Tensors of one dtype go in flat buckets, so that the cost grows with bytes and not with the number of fields; a large
tensor goes as it is, without a copy. :class:`Plan` says which goes where; it is made once for a form of records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass.td.base import TensorCollection

from . import leaves as leaves_of
from .agreement import Call, Head, agree, expected, mixed, note, refuse
from .groups import Group, Known, group_of
from .layout import Layout, copy
from .places import strides_of
from .staging import LARGE, Staging

#: how many bytes of one dtype go as one message by default: more would not be faster, and is memory
BUCKET = 4 * 2**20
#: up to how many bytes the first message of a call has values in it
_HEAD = 2**20

_ReduceOp: Any = dist.ReduceOp
_SUM, _AVG, _MAX, _MIN = _ReduceOp.SUM, _ReduceOp.AVG, _ReduceOp.MAX, _ReduceOp.MIN
#: up to which number a dtype has all integers
_EXACT: dict[torch.dtype, int] = {
    torch.float64: 2**53,
    torch.float32: 2**24,
    torch.float16: 2**11,
    torch.bfloat16: 2**8,
    torch.int64: 2**63,
    torch.int32: 2**31 - 1,
    torch.int16: 2**15 - 1,
    torch.int8: 2**7 - 1,
    torch.uint8: 2**8 - 1,
}
#: what gloo reduces, besides complex numbers, which are pairs of others
_GLOO = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8,
    torch.bool,
}  # fmt: skip
_BITWISE = (_ReduceOp.BAND, _ReduceOp.BOR, _ReduceOp.BXOR)


class Bucket:
    """Tensors of one dtype and device one behind the other.

    Attributes:
        members: which tensors of a layout.
        forms: shape, strides and first item of each.
        count: how many items they have together.
    """

    __slots__ = ("count", "device", "dtype", "forms", "members")

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype: torch.dtype = dtype
        self.device: torch.device = device
        self.members: list[int] = []
        self.forms: list[tuple[Sequence[int], Sequence[int], int]] = []
        self.count: int = 0

    def add(self, member: int, shape: torch.Size) -> None:
        """Puts a tensor behind the others."""
        self.members.append(member)
        self.forms.append((shape, strides_of(shape), self.count))
        self.count += shape.numel()

    def of(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of this bucket among all."""
        return [tensors[at] for at in self.members]

    def views(self, memory: Tensor) -> list[Tensor]:
        """The tensors in a piece of memory."""
        return [memory.as_strided(*form) for form in self.forms]


class Plan:
    """How the tensors of a form are reduced.

    Attributes:
        call: the digest of the call.
        buckets: what goes together.
        alone: which tensors go as they are.
        count: how many messages there are.
        several: some are of the same dtype, so that a tensor can be in two of them.
        problem: why they cannot be reduced.
    """

    __slots__ = ("alone", "buckets", "call", "count", "problem", "several")

    def __init__(self, taken: leaves_of.Taken, what: str, op: Any, limit: int, gloo: bool) -> None:
        self.call: int = mixed(what, taken.form)
        self.alone: list[int] = []
        self.problem: tuple[type[Exception], str] | None = None
        self.buckets: list[Bucket] = []
        filling: dict[tuple[torch.dtype, str], Bucket] = {}
        problems: list[str] = []
        for at, (part, tensor) in enumerate(zip(taken.layout.parts, taken.tensors, strict=True)):
            if part.part:
                continue  # where rows of a jagged tensor begin
            if why := _unfit(part.dtype, op, gloo):
                problems.append(f"{leaves_of.name_of(part)}: {why}")
            if part.nbytes >= min(limit, LARGE):
                self.alone.append(at)
            elif part.nbytes:
                key = part.dtype, tensor.device.type
                bucket = filling.get(key)
                if bucket is None or bucket.count * part.dtype.itemsize + part.nbytes > limit:
                    bucket = filling[key] = Bucket(part.dtype, tensor.device)
                    self.buckets.append(bucket)
                bucket.add(at, part.shape)
        self.count: int = len(self.buckets) + len(self.alone)
        self.several: bool = bool(self.alone) or len(filling) < len(self.buckets)
        if problems:
            # as torch has it
            strange = any(part.dtype.is_complex for part in taken.layout.parts) and op not in (_SUM, _AVG)
            self.problem = (
                ValueError if strange else RuntimeError,
                f"{what}: nothing was written; {'; '.join(problems)}",
            )


def _unfit(dtype: torch.dtype, op: Any, gloo: bool) -> str:
    if dtype.is_complex and op not in (_SUM, _AVG):
        return f"{_named(op)} is not defined for {dtype}"
    if op == _AVG and not (dtype.is_floating_point or dtype.is_complex):
        return f"the mean of {dtype} is no {dtype}; cast it first, or reduce with SUM"
    if gloo and dtype not in _GLOO and not dtype.is_complex:
        return f"gloo reduces no {dtype}; cast it first"
    if gloo and op in _BITWISE and dtype.is_floating_point:
        return f"{_named(op)} is not defined for {dtype}"
    return ""


class ReduceHead(Head):
    """A bucket of small tensors that has the digest of its call behind them, as numbers that survive the reduction.

    Sums (and means) of such numbers are those of equal ones only if all were equal, but for a chance of 2 ** -63; for
    maxima and minima both the numbers and what they lack to 255 are sent.
    """

    __slots__ = ("_free", "_last", "at", "bucket", "numbers", "op", "right", "words")

    def __init__(self, plan: Plan, at: int, op: Any, numbers: Callable[[int], list[int]], size: int) -> None:
        super().__init__(plan.call)
        self.at: int = at  #: which bucket of the plan, of which there can be another one by then
        self.bucket: Bucket = plan.buckets[at]
        bucket = self.bucket
        self.op: Any = op
        self.numbers: Callable[[int], list[int]] = numbers
        own = torch.tensor(numbers(plan.call), dtype=torch.int64, device="cpu")
        self.words: Tensor = own.to(bucket.device, bucket.dtype)
        self.right: Tensor = (own * size if op == _SUM else own).to(bucket.device, bucket.dtype)
        self._free: list[_Space] = []
        self._last: _Space | None = None

    def sent(self, group: Group, call: int, content: leaves_of.Taken | None) -> tuple[dist.Work, _Space]:
        """Begins with the message; :meth:`give` back what it lies in."""
        space = self._free.pop() if self._free else _Space(self.bucket, self.words)
        if content is None:
            space.whole.zero_()
            space.result.copy_(torch.tensor(self.numbers(call), dtype=torch.int64, device="cpu"))
        else:
            space.fill(self.bucket.of(content.tensors), self.words, content.plain)
        return group.all_reduce(space.whole, self.op), space

    def give(self, space: _Space) -> None:
        """Takes space back that no message is in any more."""
        self._free.append(space)

    def agreed(self, group: Group, call: int, content: Any) -> bool:
        """See :meth:`.agreement.Head.agreed`; the content is the record, taken apart."""
        work, space = self.sent(group, call, content)
        group.wait(work)
        self._last = space
        self.give(space)
        return torch.equal(space.result, self.right)

    def write(self, content: leaves_of.Taken, space: _Space | None = None) -> None:
        """Writes what was reduced into the record."""
        found = space or self._last
        if found is not None:
            found.empty(self.bucket.of(content.tensors), content.plain)


class _Space:
    """The memory of a bucket and the numbers behind it."""

    __slots__ = ("result", "scratch", "staging", "whole")

    def __init__(self, bucket: Bucket, words: Tensor) -> None:
        forms = [(bucket.dtype, torch.Size(shape)) for shape, _, _ in bucket.forms]
        self.staging: Staging = Staging(0, [*forms, (bucket.dtype, words.shape)], bucket.device)
        self.whole: Tensor = self.staging.memory.view(bucket.dtype)
        self.result: Tensor = self.staging.views()[-1]
        self.scratch: Tensor = torch.empty_like(self.result)

    def fill(self, tensors: list[Tensor], words: Tensor, plain: bool) -> None:
        if len(tensors) <= _FEW:
            copy(self.staging.views(), [*tensors, words])
        else:
            self.staging.gather([*tensors, words], plain)

    def empty(self, tensors: list[Tensor], plain: bool) -> None:
        if plain and len(tensors) > _FEW:
            self.staging.scatter([*tensors, self.scratch], True)
        else:
            leaves_of.write(tensors, self.staging.views()[:-1])


_FEW = 4  #: tensors that torch copies faster than the kernel


def _head(plan: Plan, op: Any, known: Known) -> Head | None:
    """The head of a plan, where one of its buckets can be one."""
    if op not in (_SUM, _MAX, _MIN) and not (op == _AVG and known.gloo):  # others may divide before they add
        return None
    extreme = op in (_MAX, _MIN)
    for at, bucket in enumerate(plan.buckets):
        most = _EXACT.get(bucket.dtype, 0) // (1 if extreme else known.size)
        if most and bucket.count * bucket.dtype.itemsize <= _HEAD:
            numbers = partial(_numbers, 8 if most >= 255 else 1, extreme)
            return ReduceHead(plan, at, op, numbers, known.size)
    return None


def _numbers(width: int, extreme: bool, call: int) -> list[int]:
    """A digest as small numbers."""
    most = 2**width - 1
    found = [call >> at & most for at in range(0, 64, width)]
    return found + [most - number for number in found] if extreme else found


class Pending:
    """A message of a reduction that is on its way.

    What :meth:`wait` gives back is written into the record then, and not before.
    """

    __slots__ = ("_done", "_group", "_work", "_write")

    def __init__(self, group: Group, work: dist.Work | None, write: Callable[[], object] | None) -> None:
        self._group: Group = group
        self._work: dist.Work | None = work
        self._write: Callable[[], object] | None = write
        self._done: bool = work is None

    def wait(self) -> bool:
        """Waits for the message and writes its values into the record; always true.

        Raises:
            RecordsDiffer: the records of the ranks differ. Nothing was written.
            WorkerTimeout: not all ranks came in time.
            WorkerDied: a rank is gone.
        """
        if not self._done:
            if self._work is not None:
                self._group.wait(self._work)
            if self._write is not None:
                self._write()
                self._write = None
            self._done = True
        return True

    def is_completed(self) -> bool:
        """Whether the message has arrived, so that :meth:`wait` does not have to."""
        return self._done or self._work is None or self._work.is_completed()


class _Deferred(Pending):
    """The head of a call that has gone on without waiting for it, with all values of the record.

    If it shows that a rank came with another call, all ranks compare what they came with, and those messages must be
    the next ones. So it is looked at before anything else is sent in the group (:func:`.groups.settle`), at the latest
    when it is waited for.
    """

    __slots__ = ("_before", "_call", "_error", "_go_on", "_head", "_rest", "_right", "_space", "_write_head")

    def __init__(
        self,
        group: Group,
        head: ReduceHead,
        taken: leaves_of.Taken,
        call: Call,
        writes: bool,
        go_on: Callable[[], list[Pending]],
    ) -> None:
        work, space = head.sent(group, head.call, taken)
        super().__init__(group, work, taken.finish if writes else None)
        self._call: Call = call
        self._head: ReduceHead = head
        self._space: _Space = space
        self._write_head: Callable[[], None] | None = partial(head.write, taken, space) if writes else None
        self._go_on: Callable[[], list[Pending]] | None = go_on
        self._right: bool = False
        self._rest: list[Pending] = []
        self._error: BaseException | None = None
        known = group.known
        self._before: int = known.last
        known.last = head.call
        known.begun = self._settle

    def _settle(self) -> None:
        group, go_on = self._group, self._go_on
        if go_on is None or self._work is None:
            return
        try:
            group.wait(self._work)
            self._right = torch.equal(self._space.result, self._head.right)
            if not self._right:
                group.known.last = self._before
                agree(group, self._call)
                self._rest = go_on()
        except BaseException as error:
            self._error = error
            raise
        finally:
            group.known.begun = self._go_on = None

    def wait(self) -> bool:
        if self._done:
            return True
        if self._error is not None:
            raise self._error
        self._settle()
        if not self._right:
            for message in self._rest:
                message.wait()
        elif self._write_head is not None:
            self._write_head()
        self._write_head, self._rest = None, []
        if self._write is not None:
            self._write()
            self._write = None
        self._head.give(self._space)
        self._done = True
        return True


def _as_op(op: Any, what: str) -> Any:
    if op is None:
        return _SUM
    if isinstance(op, type) or not isinstance(op, (_ReduceOp, _ReduceOp.RedOpType)):
        raise TypeError(f"{what}: op: expected one of torch.distributed.ReduceOp, got {op!r}")
    return op


def _named(op: Any) -> str:
    """The name of an operation, with its factor where it has one.

    >>> _named(dist.ReduceOp.SUM), _named(dist.ReduceOp(dist.ReduceOp.SUM))
    ('SUM', 'SUM')
    """
    kind, factor = (op, None) if isinstance(op, _ReduceOp.RedOpType) else op.__getstate__()
    return f"{kind.name}" if factor is None else f"{kind.name}({factor})"


def _as_limit(bucket_bytes: int | None, what: str) -> int:
    if bucket_bytes is None:
        return BUCKET
    if bucket_bytes < 1:
        raise ValueError(f"{what}: bucket_bytes: expected a positive number of bytes, got {bucket_bytes}")
    return bucket_bytes


def all_reduce(
    data: TensorCollection,
    op: Any = None,
    *,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
    bucket_bytes: int | None = None,
    timeout: float | timedelta | None = None,
) -> list[Pending] | None:
    """See :meth:`TensorDict.all_reduce`."""
    op, limit = _as_op(op, "all_reduce"), _as_limit(bucket_bytes, "all_reduce")
    found = group_of(group, "all_reduce", timeout)
    if found is None:
        return None
    return _reduce(data, op, found, limit, None, async_op)


def reduce(
    data: TensorCollection,
    dst: int,
    op: Any = None,
    async_op: bool = False,
    return_premature: bool = False,
    group: dist.ProcessGroup | None = None,
    *,
    bucket_bytes: int | None = None,
    timeout: float | timedelta | None = None,
) -> list[Pending] | None:
    """See :meth:`TensorDict.reduce`."""
    op, limit = _as_op(op, "reduce"), _as_limit(bucket_bytes, "reduce")
    found = group_of(group, "reduce", timeout)
    if found is None:
        return None
    pending = _reduce(data, op, found, limit, found.group_rank(dst, "dst"), async_op)
    if pending is None or return_premature:
        return pending
    for message in pending:
        message.wait()
    return None


_plans: dict[tuple[Layout, int, str, bool], Plan] = {}  #: made plans
_MOST = 256


def _plan(taken: leaves_of.Taken, what: str, op: Any, limit: int, gloo: bool) -> Plan:
    key = taken.layout, taken.form, what, gloo
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _MOST:
            _plans.clear()
        plan = _plans[key] = Plan(taken, what, op, limit, gloo)
    return plan


def _reduce(
    data: TensorCollection, op: Any, group: Group, limit: int, root: int | None, async_op: bool
) -> list[Pending] | None:
    known = group.known
    to = "" if root is None else f"dst={known.ranks[root]}, "
    what = f"{group.what}({to}{_named(op)}, bucket_bytes={limit})"
    try:
        taken = leaves_of.to_reduce(data, group)
    except Exception as error:
        refuse(group, what, error)
    plan, call = _plan(taken, what, op, limit, known.gloo), Call(what, taken.form, taken.entries)
    if plan.problem is not None:
        kind, why = plan.problem
        call = call._replace(problem=kind(why))
    writes = root is None or root == known.rank
    sources = leaves_of.apart(taken.tensors) if writes and plan.several else taken.tensors
    head: Any = expected(group)
    ours = isinstance(head, ReduceHead) and head.call == plan.call
    begun: int | None = None

    def go_on() -> list[Pending]:
        note(group, plan.call, lambda: _head(plan, op, known))
        return _messages(group, plan, sources, taken.tensors, op, root, begun, async_op)

    if ours and async_op and plan.count == 1:
        deferred: Pending = _Deferred(group, head, taken, call, writes, go_on)
        return [deferred]
    if head is not None and head.agreed(group, plan.call, taken if ours else None):
        begun = head.at
        if writes:
            head.write(taken)
    if begun is None:
        agree(group, call)
    pending = go_on()
    if async_op and taken.finish is None:
        return pending
    for message in pending:
        message.wait()
    if taken.finish is not None and writes:
        taken.finish()
    return [] if async_op else None


def _messages(
    group: Group,
    plan: Plan,
    sources: list[Tensor],
    targets: list[Tensor],
    op: Any,
    root: int | None,
    begun: int | None,
    async_op: bool,
) -> list[Pending]:
    """Begins with all messages but the one that has come."""
    writes = root is None or root == group.known.rank
    pending: list[Pending] = []
    for at, bucket in enumerate(plan.buckets):
        if at == begun:
            if async_op:
                pending.append(Pending(group, None, None))
            continue
        memory = torch.empty(bucket.count, dtype=bucket.dtype, device=bucket.device)
        views = bucket.views(memory)
        copy(views, bucket.of(sources))
        write = _writing(bucket.of(targets), views) if writes else None
        pending.append(Pending(group, _begin(group, memory, op, root), write))
        if not async_op and len(pending) > 2:
            pending.pop(0).wait()  # so that no more than three buckets are there at once
    for at in plan.alone:
        value, target = sources[at].detach(), targets[at].detach()
        if writes or async_op:
            pending.append(_alone(group, value, target, op, root, writes))
        else:  # one after the other, since they lie in the same memory
            group.wait(_begin(group, group.known.copied(value), op, root))
    return pending


def _writing(targets: list[Tensor], sources: list[Tensor]) -> Callable[[], None]:
    return lambda: leaves_of.write(targets, sources)


def _begin(group: Group, tensor: Tensor, op: Any, root: int | None) -> dist.Work:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return group.all_reduce(tensor, op) if root is None else group.reduce(tensor, op, root)


def _alone(group: Group, value: Tensor, target: Tensor, op: Any, root: int | None, writes: bool) -> Pending:
    """A large tensor: reduced where it is, if it is in one piece and may be overwritten."""
    if writes and value.is_contiguous() and not value.is_conj() and not value.is_neg():
        if value.data_ptr() == target.data_ptr():
            return Pending(group, _begin(group, value, op, root), None)
        piece = value  # a copy already
    else:
        piece = value.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return Pending(group, _begin(group, piece, op, root), _writing([target], [piece]) if writes else None)
