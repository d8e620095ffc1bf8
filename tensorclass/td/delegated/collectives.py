"""Collectives: methods that all ranks of a process group call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .declaration import delegated

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, ReduceOp

    from tensorclass.distributed.reducing import Pending


class Collectives(Collection):
    """``broadcast``, ``scatter``, ``all_gather``, ``gather_and_stack``, ``all_reduce`` and ``reduce``."""

    __slots__ = ()

    @delegated("tensorclass.distributed.spreading")
    def broadcast(
        self,
        src: int,
        *,
        group: ProcessGroup | None = None,
        device: DeviceLike | None = None,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> Self:
        """The collection of one rank, on all ranks of a group. All of them call it.

        The others need not know what comes: it is told, as JSON, in front of the values. A record stays one where its
        class is defined in the process that receives it (nothing is imported), and is a :class:`TensorDict` elsewhere.
        So its class need not be that of the collection on which it is called there, which is not changed.

        Args:
            src: the rank of the world that sends its collection.
            group: the ranks, all by default. A rank that is not among them gets its own collection, and a warning.
            device: where the result is; by default the device of the collection it is called on, if that has one.
            timeout: how long a message may take, in seconds; by default the time-out of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            On ``src`` the collection itself, on the other ranks a new one.

        Raises:
            TypeError: values that no message can hold. All ranks raise, the others a WorkerRaised.
            WorkerTimeout: some ranks, which the error names, did not call it in time.
            WorkerDied: some ranks, which the error names, are gone.
            ValueError: ``src`` is not in the group.
        """
        ...

    @delegated("tensorclass.distributed.spreading")
    def scatter(
        self,
        src: int,
        tensordicts: Sequence[Self] | None = None,
        *,
        group: ProcessGroup | None = None,
        device: DeviceLike | None = None,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> Self:
        """The one of several collections of a rank that is meant for this rank. All ranks of the group call it.

        They may differ in everything. As for :meth:`broadcast`, those who receive need not know what comes, and the
        collection on which it is called is not changed.

        Args:
            src: the rank of the world that sends.
            tensordicts: on ``src``, a collection for each rank of the group, in their order.
            group: the ranks, all by default.
            device: where the result is; by default the device of the collection it is called on, if that has one.
            timeout: how long a message may take, in seconds; by default the time-out of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            A new collection, on ``src`` too.

        Raises:
            ValueError: there are not as many collections as ranks. All ranks raise, the others a WorkerRaised.
            TypeError: ``src`` gives none, or values that no message can hold; likewise.
            WorkerTimeout: some ranks did not call it in time.
            WorkerDied: some ranks are gone.
        """
        ...

    @delegated("tensorclass.distributed.gathering")
    def all_gather(
        self,
        *,
        group: ProcessGroup | None = None,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> list[Self]:
        """The collections of all ranks, on all of them. All call it.

        Args:
            group: the ranks, all by default. A rank that is not among them gets an empty list, and a warning.
            timeout: how long a message may take, in seconds; by default the time-out of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            A new collection for each rank of the group, its own included, with their values and non-tensor data, and
            the class and the batch size that this rank's collection has.

        Raises:
            RecordsDiffer: the collections differ in keys, dtypes or shapes. All ranks raise, and list the differences.
            TypeError: values that no message can hold. All ranks raise, the others a WorkerRaised.
            WorkerTimeout: some ranks did not call it in time.
            WorkerDied: some ranks are gone.
        """
        ...

    @delegated("tensorclass.distributed.gathering")
    def gather_and_stack(
        self,
        dst: int,
        group: ProcessGroup | None = None,
        *,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> Self | None:
        """Writes the collections of all other ranks, stacked along a new first dimension, into that of one rank.

        All ranks of the group call it. The collection on ``dst`` is no part of the stack: it is updated with it, and
        must have its batch size, ``[ranks - 1, *batch_size]``, or the first dimensions of that. A locked one, or
        one in files, is written to in place.

        Args:
            dst: the rank of the world that receives.
            group: the ranks, all by default.
            timeout: how long a message may take, in seconds; by default the time-out of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            On ``dst`` the collection itself, on the other ranks ``None``.

        Raises:
            RecordsDiffer: the collections that are sent differ in keys, dtypes, shapes or batch sizes. All ranks raise.
            TypeError: values that no message can hold. All ranks raise, the others a WorkerRaised.
            RuntimeError: what was stacked does not fit into the collection on ``dst``, which is not changed then.
            WorkerTimeout: some ranks did not call it in time.
            WorkerDied: some ranks are gone.
        """
        ...

    @overload
    def all_reduce(
        self,
        op: ReduceOp | ReduceOp.RedOpType | None = ...,
        *,
        group: ProcessGroup | None = ...,
        async_op: Literal[False] = ...,
        bucket_bytes: int | None = ...,
        timeout: float | timedelta | None = ...,
    ) -> None: ...
    @overload
    def all_reduce(
        self,
        op: ReduceOp | ReduceOp.RedOpType | None = ...,
        *,
        group: ProcessGroup | None = ...,
        async_op: bool,
        bucket_bytes: int | None = ...,
        timeout: float | timedelta | None = ...,
    ) -> list[Pending] | None: ...
    @delegated("tensorclass.distributed.reducing")
    def all_reduce(
        self,
        op: ReduceOp | ReduceOp.RedOpType | None = None,
        *,
        group: ProcessGroup | None = None,
        async_op: bool = False,
        bucket_bytes: int | None = None,
        timeout: float | timedelta | None = None,
    ) -> list[Pending] | None:
        """Sums the values of all ranks, in place, on all of them. All call it.

        Tensors of one dtype go as one message, large ones (from 256 KB on) as they are, without a copy. So the cost
        grows with the bytes and not with the number of fields. Non-tensor data stays as it is on each rank. Tensors
        that share memory are reduced once.

        Args:
            op: what is done in the place of a sum, of ``torch.distributed.ReduceOp``: ``AVG``, ``MAX``, ...
            group: the ranks, all by default. On a rank that is not among them nothing happens, with a warning.
            async_op: come back as soon as the ranks agree on what is sent; that they do can show later, in ``wait()``
                or in the next call on the group. The values are there when ``wait()`` was called on each of the
                results; leave the tensors alone until then.
            bucket_bytes: how large a message of several tensors may be; by default 4 MiB. 1 sends each for itself.
            timeout: how long a message may take, in seconds; by default the time-out of the group.

        Returns:
            With ``async_op`` the messages that are on their way.

        Raises:
            RecordsDiffer: the collections differ in keys, dtypes or shapes. All ranks raise, list the differences, and
                nothing was written.
            RuntimeError: the mean of integers, or a dtype that the backend does not reduce. Nothing was written.
            ValueError: ``op`` has no meaning for complex numbers. Nothing was written.
            TypeError: values that no message can hold, or a ``DTensor`` that has different parts on these ranks.
                Nothing was written; the other ranks raise a WorkerRaised.
            WorkerTimeout: some ranks did not call it in time. Large tensors may have been written to.
            WorkerDied: some ranks are gone; likewise.
        """
        ...

    @delegated("tensorclass.distributed.reducing")
    def reduce(
        self,
        dst: int,
        op: ReduceOp | ReduceOp.RedOpType | None = None,
        async_op: bool = False,
        return_premature: bool = False,
        group: ProcessGroup | None = None,
        *,
        bucket_bytes: int | None = None,
        timeout: float | timedelta | None = None,
    ) -> list[Pending] | None:
        """Sums the values of all ranks, in place, on one of them. All call it; on the others nothing changes.

        Args:
            dst: the rank of the world that gets the sums.
            op: what is done in the place of a sum; see :meth:`all_reduce`.
            async_op: begin all messages at once.
            return_premature: with ``async_op``, come back as soon as the ranks agree on what is sent, with the messages
                that are on their way. The values are there when ``wait()`` was called on each; leave the tensors alone
                until then.
            group: the ranks, all by default.
            bucket_bytes: how large a message of several tensors may be; by default 4 MiB.
            timeout: how long a message may take, in seconds; by default the time-out of the group.

        Raises:
            Exception: what :meth:`all_reduce` raises.
        """
        ...
