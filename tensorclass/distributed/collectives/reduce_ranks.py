"""``all_reduce`` and ``reduce``: reduce the records of all ranks, in place.

Small tensors of one dtype share flat buckets, so that the cost grows with bytes and not with the number of fields. A
large tensor is reduced as it is, without a copy; if there are no small ones, one of at most 1 MB goes through a bucket.
A :class:`ReductionPlan` is made once for each form of records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass.distributed.messages.message_buffer import LARGE, contiguous_strides
from tensorclass.distributed.messages.record_layout import RecordLayout, copy
from tensorclass.distributed.process_groups import GroupCall, GroupState, group_of
from tensorclass.td.base import TensorCollection

from . import rank_tensors
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
    from torch.distributed import ProcessGroup, ReduceOp

METHODS_OF = "Collectives"

#: default bytes of a bucket: more would not be faster, and takes memory
BUCKET = 4 * 2**20
#: bytes up to which a predicted message has the values
_MOST_PREDICTED = 2**20

_ReduceOp: Any = dist.ReduceOp
_SUM, _AVG, _MAX, _MIN = _ReduceOp.SUM, _ReduceOp.AVG, _ReduceOp.MAX, _ReduceOp.MIN
#: the number up to which a dtype has all integers
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
#: dtypes that gloo reduces, besides complex numbers, which are pairs of real ones
_GLOO = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8,
    torch.bool,
}  # fmt: skip
_BITWISE = (_ReduceOp.BAND, _ReduceOp.BOR, _ReduceOp.BXOR)


class Bucket:
    """Tensors of one dtype and device that share a flat buffer.

    Attributes:
        members: indices of the tensors in the layout.
        forms: shape, strides and offset of each, in items.
        count: number of items of the buffer.
    """

    __slots__ = ("count", "device", "dtype", "forms", "members")

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype: torch.dtype = dtype
        self.device: torch.device = device
        self.members: list[int] = []
        self.forms: list[tuple[Sequence[int], Sequence[int], int]] = []
        self.count: int = 0

    def add(self, member: int, shape: torch.Size) -> None:
        """Append a tensor."""
        self.members.append(member)
        self.forms.append((shape, contiguous_strides(shape), self.count))
        self.count += shape.numel()

    def of(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Select the tensors of this bucket."""
        return [tensors[at] for at in self.members]

    def views(self, memory: Tensor) -> list[Tensor]:
        """Return the tensors as views of a buffer."""
        return [memory.as_strided(*form) for form in self.forms]


class ReductionPlan:
    """Plan of a reduction: the messages for tensors of one form.

    Attributes:
        call: digest of the call.
        buckets: the small tensors.
        alone: indices of the tensors that are reduced as they are.
        count: number of messages.
        several: whether two messages have one dtype, so that tensors that share memory can be in both.
        problem: why the tensors cannot be reduced.
    """

    __slots__ = ("alone", "buckets", "call", "count", "problem", "several")

    def __init__(self, prepared: rank_tensors.ReductionInput, what: str, op: Any, limit: int, gloo: bool) -> None:
        self.call: int = call_digest(what, prepared.form)
        self.alone: list[int] = []
        self.problem: tuple[type[Exception], str] | None = None
        self.buckets: list[Bucket] = []
        filling: dict[tuple[torch.dtype, str], Bucket] = {}
        problems: list[str] = []
        for at, (spec, tensor) in enumerate(zip(prepared.layout.specs, prepared.tensors, strict=True)):
            if spec.component:
                continue  # offsets of a jagged tensor
            if why := _unfit(spec.dtype, op, gloo):
                problems.append(f"{rank_tensors.name_of(spec)}: {why}")
            if spec.nbytes >= min(limit, LARGE):
                self.alone.append(at)
            elif spec.nbytes:
                key = spec.dtype, tensor.device.type
                bucket = filling.get(key)
                if bucket is None or bucket.count * spec.dtype.itemsize + spec.nbytes > limit:
                    bucket = filling[key] = Bucket(spec.dtype, tensor.device)
                    self.buckets.append(bucket)
                bucket.add(at, spec.shape)
        if not self.buckets:
            self._take_one(prepared, min(limit, _MOST_PREDICTED))
        self.count: int = len(self.buckets) + len(self.alone)
        self.several: bool = bool(self.alone) or len(filling) < len(self.buckets)
        if problems:
            # torch raises the same class
            strange = any(spec.dtype.is_complex for spec in prepared.layout.specs) and op not in (_SUM, _AVG)
            self.problem = (
                ValueError if strange else RuntimeError,
                f"{what}: nothing was written; {'; '.join(problems)}",
            )

    def _take_one(self, prepared: rank_tensors.ReductionInput, most: int) -> None:
        """Move the smallest large tensor to a bucket, which can be predicted: agreement takes longer than a copy."""
        specs = prepared.layout.specs
        at = min(self.alone, key=lambda at: specs[at].nbytes, default=None)
        if at is not None and specs[at].nbytes <= most:
            self.alone.remove(at)
            bucket = Bucket(specs[at].dtype, prepared.tensors[at].device)
            bucket.add(at, specs[at].shape)
            self.buckets.append(bucket)


def _unfit(dtype: torch.dtype, op: Any, gloo: bool) -> str:
    if dtype.is_complex and op not in (_SUM, _AVG):
        return f"{_op_name(op)} is not defined for {dtype}"
    if op == _AVG and not (dtype.is_floating_point or dtype.is_complex):
        return f"the mean of {dtype} is not a {dtype}; cast it first, or reduce with SUM"
    if gloo and dtype not in _GLOO and not dtype.is_complex:
        return f"gloo cannot reduce {dtype}; cast it first"
    if gloo and op in _BITWISE and dtype.is_floating_point:
        return f"{_op_name(op)} is not defined for {dtype}"
    return ""


class PredictedReduce(PredictedMessage):
    """A bucket of small tensors, followed by the digest of its call as numbers that survive the reduction.

    The sum (or mean) of the numbers is that of equal ones only if all ranks sent the same, but for a chance of
    2 ** -63. For maxima and minima, the complements to 255 are sent as well.
    """

    __slots__ = ("_free", "_last", "at", "bucket", "numbers", "op", "right", "words")

    def __init__(self, plan: ReductionPlan, at: int, op: Any, numbers: Callable[[int], list[int]], size: int) -> None:
        super().__init__(plan.call)
        self.at: int = at  #: index of the bucket, as the cached plan can be another object later
        self.bucket: Bucket = plan.buckets[at]
        bucket = self.bucket
        self.op: Any = op
        self.numbers: Callable[[int], list[int]] = numbers
        own = torch.tensor(numbers(plan.call), dtype=torch.int64, device="cpu")
        self.words: Tensor = own.to(bucket.device, bucket.dtype)
        self.right: Tensor = (own * size if op == _SUM else own).to(bucket.device, bucket.dtype)
        self._free: list[_PredictedBuffer] = []
        self._last: _PredictedBuffer | None = None

    def sent(
        self, group: GroupCall, call: int, content: rank_tensors.ReductionInput | None
    ) -> tuple[dist.Work, _PredictedBuffer]:
        """Start the message. Return it and its buffer, to be given back with :meth:`give`."""
        buffer = self._free.pop() if self._free else _PredictedBuffer(self.bucket, self.words)
        if content is None:
            buffer.whole.zero_()
            buffer.received_words.copy_(torch.tensor(self.numbers(call), dtype=torch.int64, device="cpu"))
        else:
            buffer.fill(self.bucket.of(content.tensors), self.words)
        return group.all_reduce(buffer.whole, self.op), buffer

    def give(self, buffer: _PredictedBuffer) -> None:
        """Return a buffer."""
        self._free.append(buffer)

    def agreed(self, group: GroupCall, call: int, content: Any) -> bool:
        """See :meth:`.agreement.PredictedMessage.agreed`; ``content`` is the prepared record."""
        work, buffer = self.sent(group, call, content)
        group.wait(work)
        self._last = buffer
        self.give(buffer)
        return torch.equal(buffer.received_words, self.right)

    def write(self, content: rank_tensors.ReductionInput, buffer: _PredictedBuffer | None = None) -> None:
        """Write the reduced values into the record."""
        found = buffer or self._last
        if found is not None:
            rank_tensors.write(self.bucket.of(content.tensors), found.views)


class _PredictedBuffer:
    """A bucket and the words of its call in one tensor."""

    __slots__ = ("received_words", "views", "whole")

    def __init__(self, bucket: Bucket, words: Tensor) -> None:
        self.whole: Tensor = torch.zeros(bucket.count + words.numel(), dtype=bucket.dtype, device=bucket.device)
        self.views: list[Tensor] = bucket.views(self.whole)
        self.received_words: Tensor = self.whole[bucket.count :]

    def fill(self, tensors: list[Tensor], words: Tensor) -> None:
        copy([*self.views, self.received_words], [*tensors, words])


def _predicted(plan: ReductionPlan, op: Any, state: GroupState) -> PredictedMessage | None:
    """Return the predicted message of a plan, if one of its buckets fits."""
    if op not in (_SUM, _MAX, _MIN) and not (op == _AVG and state.gloo):  # others may divide before they add
        return None
    extreme = op in (_MAX, _MIN)
    for at, bucket in enumerate(plan.buckets):
        most = _EXACT.get(bucket.dtype, 0) // (1 if extreme else state.size)
        if most and bucket.count * bucket.dtype.itemsize <= _MOST_PREDICTED:
            numbers = partial(_numbers, 8 if most >= 255 else 1, extreme)
            return PredictedReduce(plan, at, op, numbers, state.size)
    return None


def _numbers(width: int, extreme: bool, call: int) -> list[int]:
    """Return a digest as small numbers."""
    most = 2**width - 1
    found = [call >> at & most for at in range(0, 64, width)]
    return found + [most - number for number in found] if extreme else found


class Pending:
    """A message of a reduction under way.

    :meth:`wait` writes the values into the record.
    """

    __slots__ = ("_group", "_work", "_write")

    def __init__(self, group: GroupCall, work: dist.Work | None, write: Callable[[], object] | None) -> None:
        self._group: GroupCall = group
        self._work: dist.Work | None = work
        self._write: Callable[[], object] | None = write

    def wait(self) -> bool:
        """Wait for the message and write its values into the record. Return ``True``.

        Raises:
            RecordsDiffer: the records of the ranks differ. Nothing was written.
            WorkerTimeout: not all ranks came in time.
            WorkerDied: a rank is gone.
        """
        if self._work is not None:
            self._group.wait(self._work)
            if self._write is not None:
                self._write()
            self._work = self._write = None
        return True

    def is_completed(self) -> bool:
        """Return whether the message has arrived, so that :meth:`wait` returns at once."""
        return self._work is None or self._work.is_completed()


class _PredictedPending(Pending):
    """The predicted message of an asynchronous call, with all values of the record.

    If it shows that a rank made another call, all ranks compare their calls, and those messages must be the next ones.
    So it is checked before anything else is sent in the group (:func:`.groups.finish_pending`), or when it is waited
    for.
    """

    __slots__ = (
        "_before", "_buffer", "_call", "_error", "_predicted", "_rest", "_right", "_start_rest", "_write_predicted",
    )  # fmt: skip

    def __init__(
        self,
        group: GroupCall,
        predicted: PredictedReduce,
        prepared: rank_tensors.ReductionInput,
        call: CallDescription,
        writes: bool,
        start_rest: Callable[[], list[Pending]],
    ) -> None:
        work, buffer = predicted.sent(group, predicted.call, prepared)
        super().__init__(group, work, prepared.finish if writes else None)
        self._call: CallDescription = call
        self._predicted: PredictedReduce = predicted
        self._buffer: _PredictedBuffer = buffer
        self._write_predicted: partial[None] | None = partial(predicted.write, prepared, buffer) if writes else None
        self._start_rest: Callable[[], list[Pending]] | None = start_rest
        self._right: bool = False
        self._rest: list[Pending] = []
        self._error: BaseException | None = None
        state = group.state
        self._before: int = state.last
        state.last = predicted.call
        state.finish_agreement = self._finish

    def _finish(self) -> None:
        group, start_rest = self._group, self._start_rest
        if start_rest is None or self._work is None:
            return
        try:
            group.wait(self._work)
            self._right = torch.equal(self._buffer.received_words, self._predicted.right)
            if not self._right:
                group.state.last = self._before
                agree(group, self._call)
                self._rest = start_rest()
        except BaseException as error:
            self._error = error
            raise
        finally:
            group.state.finish_agreement = self._start_rest = None

    def wait(self) -> bool:
        if self._work is None:
            return True
        if self._error is not None:
            raise self._error
        self._finish()
        for message in self._rest:
            message.wait()
        for write in (self._write_predicted if self._right else None, self._write):
            if write is not None:
                write()
        self._predicted.give(self._buffer)
        self._work = self._write = self._write_predicted = None
        self._rest = []
        return True


def _check_op(op: Any, what: str) -> Any:
    if op is None:
        return _SUM
    if isinstance(op, type) or not isinstance(op, (_ReduceOp, _ReduceOp.RedOpType)):
        raise TypeError(f"{what}: op: expected one of torch.distributed.ReduceOp, got {op!r}")
    return op


def _op_name(op: Any) -> str:
    """Return the name of an operation, with its factor if it has one.

    >>> _op_name(dist.ReduceOp.SUM), _op_name(dist.ReduceOp(dist.ReduceOp.SUM))
    ('SUM', 'SUM')
    """
    kind, factor = (op, None) if isinstance(op, _ReduceOp.RedOpType) else op.__getstate__()
    return f"{kind.name}" if factor is None else f"{kind.name}({factor})"


def _check_bucket_bytes(bucket_bytes: int | None, what: str) -> int:
    if bucket_bytes is None:
        return BUCKET
    if bucket_bytes < 1:
        raise ValueError(f"{what}: bucket_bytes: expected a positive number of bytes, got {bucket_bytes}")
    return bucket_bytes


@overload
def all_reduce(data: TensorCollection, *, async_op: Literal[False] = ...) -> None: ...
@overload
def all_reduce(data: TensorCollection, *, async_op: bool) -> list[Pending] | None: ...
def all_reduce(
    data: TensorCollection,
    op: ReduceOp | ReduceOp.RedOpType | None = None,
    *,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    bucket_bytes: int | None = None,
    timeout: float | timedelta | None = None,
) -> list[Pending] | None:
    """Sum the values of all ranks, in place, on all of them. All ranks of the group call it.

    Tensors of one dtype are sent in one message, large ones (256 KB and more) in place, without a copy. So the cost
    grows with the number of bytes, not of fields. Non-tensor data stays unchanged on each rank. Tensors that share
    memory are reduced once.

    Args:
        op: the reduction, of ``torch.distributed.ReduceOp``: ``AVG``, ``MAX``, ...; by default the sum.
        group: the process group; by default all ranks. On a rank outside it nothing happens, with a warning.
        async_op: return without waiting for the messages. A disagreement between the ranks can then raise in
            ``wait()`` or in the next call on the group. Do not use the tensors until ``wait()`` of each result
            returns.
        bucket_bytes: the largest message of several tensors, in bytes; 4 MiB by default. 1 sends each tensor
            separately.
        broadcast: timeout

    Returns:
        ``None``. With ``async_op``, the pending messages, each with ``wait()``.

    Raises:
        RecordsDiffer: the collections differ in keys, dtypes or shapes. All ranks raise and list the differences.
            Nothing was written.
        RuntimeError: the mean of integers, or a dtype that the backend does not reduce. Nothing was written.
        ValueError: ``op`` is undefined for complex numbers. Nothing was written.
        TypeError: a message cannot hold some values, or a ``DTensor`` is distributed differently on the ranks.
            Nothing was written. The other ranks raise a WorkerRaised.
        WorkerTimeout: some ranks did not call in time. Large tensors may have been written.
        WorkerDied: some ranks have ended. Large tensors may have been written.

    Example:
        A group of one process; usually ``torchrun`` starts several.

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> gradients = TensorDict({"weight": torch.ones(2), "bias": torch.zeros(1)})
        >>> gradients.all_reduce(dist.ReduceOp.AVG)
        >>> gradients["weight"]
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    op, limit = _check_op(op, "all_reduce"), _check_bucket_bytes(bucket_bytes, "all_reduce")
    found = group_of(group, "all_reduce", timeout)
    if found is None:
        return None
    return _Reduction(found, op, None).run(data, limit, async_op)


def reduce(
    data: TensorCollection,
    dst: int,
    op: ReduceOp | ReduceOp.RedOpType | None = None,
    async_op: bool = False,
    return_premature: bool = False,
    group: ProcessGroup | None = None,
    *,
    bucket_bytes: int | None = None,
    timeout: float | timedelta | None = None,
) -> list[Pending] | None:
    """Sum the values of all ranks, in place, on one of them. All ranks of the group call it.

    The collections of the other ranks do not change.

    Args:
        dst: the rank of the world that gets the sums.
        op: the reduction, as in :meth:`all_reduce`.
        async_op: begin all messages at once.
        return_premature: with ``async_op``, return as soon as the ranks agree on what is sent. Do not use the
            tensors until ``wait()`` of each result returns.
        group: the process group; by default all ranks.
        all_reduce: bucket_bytes
        broadcast: timeout

    Returns:
        ``None``. With ``async_op`` and ``return_premature``, the pending messages, each with ``wait()``.

    Raises:
        RecordsDiffer, RuntimeError, ValueError, TypeError, WorkerTimeout, WorkerDied: as in :meth:`all_reduce`.

    Example:
        A group of one process; usually ``torchrun`` starts several.

        >>> import torch, torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> losses = TensorDict({"loss": torch.tensor(0.5)})
        >>> losses.reduce(dst=0)
        >>> losses["loss"]
        tensor(0.5000)
        >>> dist.destroy_process_group()
    """
    op, limit = _check_op(op, "reduce"), _check_bucket_bytes(bucket_bytes, "reduce")
    found = group_of(group, "reduce", timeout)
    if found is None:
        return None
    pending = _Reduction(found, op, found.group_rank(dst, "dst")).run(data, limit, async_op)
    if pending is None or return_premature:
        return pending
    for message in pending:
        message.wait()
    return None


_plans: dict[tuple[RecordLayout, int, str, bool], ReductionPlan] = {}  #: cached plans
_MOST = 256


def _plan(prepared: rank_tensors.ReductionInput, what: str, op: Any, limit: int, gloo: bool) -> ReductionPlan:
    key = prepared.layout, prepared.form, what, gloo
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _MOST:
            _plans.clear()
        plan = _plans[key] = ReductionPlan(prepared, what, op, limit, gloo)
    return plan


class _Reduction(NamedTuple):
    """A call of ``all_reduce``, or of ``reduce`` to the rank ``root`` of the group."""

    group: GroupCall
    op: Any
    root: int | None

    @property
    def writes(self) -> bool:
        """``True`` if this rank gets the values."""
        return self.root is None or self.root == self.group.state.rank

    def run(self, data: TensorCollection, limit: int, async_op: bool) -> list[Pending] | None:
        """Reduce a record; ``limit`` are the bytes of a bucket."""
        group, op, state = self.group, self.op, self.group.state
        to = "" if self.root is None else f"dst={state.ranks[self.root]}, "
        what = f"{group.what}({to}{_op_name(op)}, bucket_bytes={limit})"
        try:
            prepared = rank_tensors.prepare_reduction(data, group)
        except Exception as error:
            raise_on_all_ranks(group, what, error)
        plan = _plan(prepared, what, op, limit, state.gloo)
        problem = None if plan.problem is None else plan.problem[0](plan.problem[1])
        call = CallDescription(what, prepared.form, prepared.entries, problem)
        overlap = self.writes and plan.several
        sources = rank_tensors.separate_overlapping(prepared.tensors) if overlap else prepared.tensors
        predicted: Any = predicted_message(group)
        ours = isinstance(predicted, PredictedReduce) and predicted.call == plan.call
        begun: int | None = None

        def start_rest() -> list[Pending]:
            record_call(group, plan.call, lambda: _predicted(plan, op, state))
            return self._start(plan, sources, prepared.tensors, begun, async_op)

        if ours and async_op and plan.count == 1:
            return [_PredictedPending(group, predicted, prepared, call, self.writes, start_rest)]
        if predicted is not None and predicted.agreed(group, plan.call, prepared if ours else None):
            begun = predicted.at
            if self.writes:
                predicted.write(prepared)
        if begun is None:
            agree(group, call)
        pending = start_rest()
        if async_op and prepared.finish is None:
            return pending
        for message in pending:
            message.wait()
        if prepared.finish is not None and self.writes:
            prepared.finish()
        return [] if async_op else None

    def _start(
        self, plan: ReductionPlan, sources: list[Tensor], targets: list[Tensor], begun: int | None, async_op: bool
    ) -> list[Pending]:
        """Start all messages but the one of the bucket ``begun``, which has come."""
        pending: list[Pending] = []
        for at, bucket in enumerate(plan.buckets):
            if at == begun:
                if async_op:
                    pending.append(Pending(self.group, None, None))
                continue
            memory = torch.empty(bucket.count, dtype=bucket.dtype, device=bucket.device)
            views = bucket.views(memory)
            copy(views, bucket.of(sources))
            pending.append(self._message(memory, bucket.of(targets), views))
            if not async_op and len(pending) > 2:
                pending.pop(0).wait()  # at most three buckets at once
        for at in plan.alone:
            value, target = sources[at].detach(), targets[at].detach()
            if self.writes or async_op:
                pending.append(self._large(value, target))
            else:  # one after the other, as they share scratch memory
                self._message(self.group.state.scratch_copy(value)).wait()
        return pending

    def _message(self, tensor: Tensor, targets: Sequence[Tensor] = (), sources: Sequence[Tensor] = ()) -> Pending:
        """Start to reduce a tensor in place; then ``sources``, which are views of it, are copied into ``targets``."""
        numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        if self.root is None:
            work = self.group.all_reduce(numbers, self.op)
        else:
            work = self.group.reduce(numbers, self.op, self.root)
        copies = self.writes and len(targets) > 0
        return Pending(self.group, work, partial(rank_tensors.write, targets, sources) if copies else None)

    def _large(self, value: Tensor, target: Tensor) -> Pending:
        """Reduce a large tensor in its own memory, if it is contiguous and may be overwritten."""
        if not self.writes or not value.is_contiguous() or value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        elif value.data_ptr() == target.data_ptr():
            return self._message(value)
        return self._message(value, [target], [value])
