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

    from tensorclass.distributed.collectives.reduce_ranks import Pending


class Collectives(Collection):
    """``broadcast``, ``scatter``, ``all_gather``, ``gather_and_stack``, ``all_reduce`` and ``reduce``."""

    __slots__ = ()

    @delegated("tensorclass.distributed.collectives.broadcast_ranks")
    def broadcast(
        self,
        src: int,
        *,
        group: ProcessGroup | None = None,
        device: DeviceLike | None = None,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> Self:
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
        ...

    @delegated("tensorclass.distributed.collectives.broadcast_ranks")
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
        """Give each rank one of the collections of ``src``. All ranks of the group call it.

        The collections may differ in everything. As in :meth:`broadcast`, the receivers need not know the form, and the
        collection on which the method is called is not changed.

        Args:
            src: the rank of the sender in the world.
            tensordicts: on ``src``, one collection per rank of the group, in the order of the ranks. Ignored elsewhere.
            group: the process group; by default all ranks.
            device: the device of the result; by default that of the collection on which the method is called, if it has
                one.
            timeout: the time limit of each message in seconds; by default that of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            A new collection, also on ``src``.

        Raises:
            ValueError: the number of collections is not that of the ranks. All ranks raise, the others a WorkerRaised.
            TypeError: ``src`` gives no collections, or values that a message cannot hold. All ranks raise, as above.
            WorkerTimeout: some ranks did not call in time.
            WorkerDied: some ranks have ended.

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
        ...

    @delegated("tensorclass.distributed.collectives.gather_ranks")
    def all_gather(
        self,
        *,
        group: ProcessGroup | None = None,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> list[Self]:
        """Return the collections of all ranks on all ranks. All ranks of the group call it.

        Args:
            group: the process group; by default all ranks. A rank outside it gets an empty list, with a warning.
            timeout: the time limit of each message in seconds; by default that of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            One new collection per rank of the group, including this one, in the order of the ranks. Values and
            non-tensor data are those of the ranks; class and batch size are those of this rank's collection.

        Raises:
            RecordsDiffer: the collections differ in keys, dtypes or shapes. All ranks raise and list the differences.
            TypeError: a message cannot hold some values. All ranks raise, the others a WorkerRaised.
            WorkerTimeout: some ranks did not call in time.
            WorkerDied: some ranks have ended.

        Example:
            A group of one process; usually ``torchrun`` starts several.

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            >>> [data["x"] for data in TensorDict({"x": torch.ones(2)}, [2]).all_gather()]
            [tensor([1., 1.])]
            >>> dist.destroy_process_group()
        """
        ...

    @delegated("tensorclass.distributed.collectives.gather_ranks")
    def gather_and_stack(
        self,
        dst: int,
        group: ProcessGroup | None = None,
        *,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> Self | None:
        """Write the collections of all other ranks, stacked along a new first dimension, into that of one rank.

        All ranks of the group call it. The collection on ``dst`` is not part of the stack, but is updated with it. Its
        batch size must be ``[ranks - 1, *batch_size]``, or the first dimensions of that. If it is locked or in files,
        it is written in place.

        Args:
            dst: the rank of the receiver in the world.
            group: the process group; by default all ranks.
            timeout: the time limit of each message in seconds; by default that of the group.
            allow_pickle: send, and read, objects that JSON cannot hold as pickles. Reading one can run any code.

        Returns:
            On ``dst`` the collection itself, on the other ranks ``None``.

        Raises:
            RecordsDiffer: the collections that are sent differ in keys, dtypes, shapes or batch sizes. All ranks raise.
            TypeError: a message cannot hold some values. All ranks raise, the others a WorkerRaised.
            RuntimeError: the stack does not fit the collection on ``dst``, which is not changed.
            WorkerTimeout: some ranks did not call in time.
            WorkerDied: some ranks have ended.

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
    @delegated("tensorclass.distributed.collectives.reduce_ranks")
    def all_reduce(
        self,
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
            timeout: the time limit of each message in seconds; by default that of the group.

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
        ...

    @delegated("tensorclass.distributed.collectives.reduce_ranks")
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
        """Sum the values of all ranks, in place, on one of them. All ranks of the group call it.

        The collections of the other ranks do not change.

        Args:
            dst: the rank of the world that gets the sums.
            op: the reduction, as in :meth:`all_reduce`.
            async_op: begin all messages at once.
            return_premature: with ``async_op``, return as soon as the ranks agree on what is sent. Do not use the
                tensors until ``wait()`` of each result returns.
            group: the process group; by default all ranks.
            bucket_bytes: the largest message of several tensors, in bytes; 4 MiB by default.
            timeout: the time limit of each message in seconds; by default that of the group.

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
        ...
