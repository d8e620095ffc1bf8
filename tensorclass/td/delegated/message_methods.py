"""Methods that send a collection from one process to another."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .declaration import delegated

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from tensorclass.distributed.messages.point_to_point import Transfer


class PointToPoint(Collection):
    """``send``, ``recv``, ``isend``, ``irecv``, ``init_remote`` and ``from_remote_init``."""

    __slots__ = ()

    # -- point to point -----------------------------------------------------------------------------------------------

    @delegated("tensorclass.distributed.messages.point_to_point")
    def send(
        self,
        dst: int | None = None,
        *,
        group: ProcessGroup | None = None,
        group_dst: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> None:
        """Send the values to a process that has a collection of the same form and calls :meth:`recv`.

        All small values are one message. Each large tensor is another message, sent at the same time without a copy.
        The receiver's collection can have another class, batch size or order of keys. Names, dtypes and shapes of the
        values must match: otherwise both processes raise an error that lists the differences, and nothing is written.
        ``send`` returns only after the other process has called :meth:`recv` for this record.

        Args:
            dst: the rank of the receiver in the world.
            group: the process group; by default that of the world.
            group_dst: the rank of the receiver within ``group``, instead of ``dst``.
            init_tag: a number that distinguishes records that are sent between two processes at the same time. Records
                with the same number arrive in the order in which they were sent.
            pseudo_rand: use tags that are far from those of other numbers, as tensordict does. Both processes must
                agree.
            consolidated: send the buffer of a consolidated collection as it is. A collection that is not consolidated
                is copied. Both processes must agree.
            timeout: the time limit in seconds; by default that of the group.
            allow_pickle: send objects that JSON cannot hold as pickles. The receiver must allow them too.

        Raises:
            RecordsDiffer: the receiver has another record; it raises too. It is a RuntimeError.
            WorkerTimeout: the receiver did not call in time. It is a TimeoutError. Gloo then closes all connections of
                this process in the group.
            WorkerDied: the receiver has ended, or has stopped waiting.
            ValueError: no rank is given, or two are, or this process.
            TypeError: a message cannot hold some values. Nothing was sent.

        Example:
            On each of two processes of one group:

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank()))}, [3])
            >>> if dist.get_rank() == 0:
            ...     data.send(dst=1)
            ... else:
            ...     tag = data.recv(src=0)
            >>> data["x"]
            tensor([0., 0., 0.])
        """
        ...

    @delegated("tensorclass.distributed.messages.point_to_point")
    def recv(
        self,
        src: int | None = None,
        *,
        group: ProcessGroup | None = None,
        group_src: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> int:
        """Receive the values of a collection of the same form that another process sends, into the tensors of this one.

        If the sender dies while it sends, small values and non-tensor data keep their values. Large tensors (256 KB and
        more) are received in place, so some of their values can be new.

        Args:
            src: the rank of the sender in the world.
            group: the process group; by default that of the world.
            group_src: the rank of the sender within ``group``, instead of ``src``.
            init_tag: the number that the sender gives to :meth:`send`.
            pseudo_rand: as the sender gives it.
            consolidated: as the sender gives it. The collection must be consolidated.
            timeout: the time limit in seconds; by default that of the group.
            allow_pickle: read objects that were sent as pickles, which can run any code. By default nothing is
                unpickled.

        Returns:
            ``init_tag`` plus the number of tensors, minus one: the last tag if each tensor were a message.

        Raises:
            RecordsDiffer: the sender has another record. See :meth:`send` for this and other errors.
            RuntimeError: a tensor is expanded and cannot be written, and nothing was received; or objects arrived that
                do not belong to the files of a memory-mapped collection. Nothing was written.
            TypeError: an object arrived that the field of a record cannot hold. Nothing was written.
            ValueError: an object was sent as a pickle, and ``allow_pickle`` is ``False``. Nothing was written.

        Example:
            On each of two processes of one group:

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank())), "below": {"y": torch.ones(3)}}, [3])
            >>> if dist.get_rank() == 0:
            ...     data.send(dst=1)
            ... else:
            ...     tag = data.recv(src=0)
            ...     assert tag == 1
            >>> data["x"]
            tensor([0., 0., 0.])
        """
        ...

    @overload
    def isend(
        self,
        dst: int | None = ...,
        *,
        group: ProcessGroup | None = ...,
        group_dst: int | None = ...,
        init_tag: int = ...,
        pseudo_rand: bool = ...,
        return_early: Literal[False] = ...,
        consolidated: bool = ...,
        timeout: float | timedelta | None = ...,
        allow_pickle: bool = ...,
    ) -> int: ...
    @overload
    def isend(
        self,
        dst: int | None = ...,
        *,
        group: ProcessGroup | None = ...,
        group_dst: int | None = ...,
        init_tag: int = ...,
        pseudo_rand: bool = ...,
        return_early: Literal[True],
        consolidated: bool = ...,
        timeout: float | timedelta | None = ...,
        allow_pickle: bool = ...,
    ) -> list[Transfer]: ...
    @delegated("tensorclass.distributed.messages.point_to_point")
    def isend(
        self,
        dst: int | None = None,
        *,
        group: ProcessGroup | None = None,
        group_dst: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        return_early: bool = False,
        consolidated: bool = False,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> int | list[Transfer]:
        """Send the values as :meth:`send` does, optionally without waiting.

        Args:
            dst: the rank of the receiver in the world.
            group: the process group; by default that of the world.
            group_dst: the rank of the receiver within ``group``, instead of ``dst``.
            init_tag: a number that distinguishes records that are sent at the same time.
            pseudo_rand: use tags that are far from those of other numbers.
            return_early: return at once. Small values are copied by then. Do not write to large tensors before
                ``wait()`` of the returned transfers returns; it raises the errors of :meth:`send`.
            consolidated: send the buffer of a consolidated collection as it is.
            timeout: the time limit in seconds. With ``return_early``, give it to ``wait()`` instead.
            allow_pickle: send objects that JSON cannot hold as pickles.

        Returns:
            The last tag, see :meth:`recv`. With ``return_early``, a list of transfers with ``wait(timeout=None)`` and
            ``is_completed()``.

        Raises:
            ValueError: ``timeout`` together with ``return_early``. See :meth:`send` for other errors.

        Example:
            On each of two processes of one group:

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank()))}, [3])
            >>> if dist.get_rank() == 0:
            ...     for transfer in data.isend(dst=1, return_early=True):
            ...         _ = transfer.wait()
            ... else:
            ...     tag = data.recv(src=0)
            >>> data["x"]
            tensor([0., 0., 0.])
        """
        ...

    @overload
    def irecv(
        self,
        src: int | None = ...,
        *,
        group: ProcessGroup | None = ...,
        group_src: int | None = ...,
        return_premature: Literal[False] = ...,
        init_tag: int = ...,
        pseudo_rand: bool = ...,
        consolidated: bool = ...,
        timeout: float | timedelta | None = ...,
        allow_pickle: bool = ...,
    ) -> None: ...
    @overload
    def irecv(
        self,
        src: int | None = ...,
        *,
        group: ProcessGroup | None = ...,
        group_src: int | None = ...,
        return_premature: Literal[True],
        init_tag: int = ...,
        pseudo_rand: bool = ...,
        consolidated: bool = ...,
        timeout: float | timedelta | None = ...,
        allow_pickle: bool = ...,
    ) -> list[Transfer]: ...
    @delegated("tensorclass.distributed.messages.point_to_point")
    def irecv(
        self,
        src: int | None = None,
        *,
        group: ProcessGroup | None = None,
        group_src: int | None = None,
        return_premature: bool = False,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> list[Transfer] | None:
        """Receive values as :meth:`recv` does, optionally without waiting.

        Args:
            src: the rank of the sender in the world.
            group: the process group; by default that of the world.
            group_src: the rank of the sender within ``group``, instead of ``src``.
            return_premature: return at once. The values have arrived when ``wait()`` of the returned transfers returns;
                it raises the errors of :meth:`recv`.
            init_tag: the number that the sender gives to :meth:`send`.
            pseudo_rand: as the sender gives it.
            consolidated: as the sender gives it.
            timeout: the time limit in seconds. With ``return_premature``, give it to ``wait()`` instead.
            allow_pickle: read objects that were sent as pickles, which can run any code.

        Returns:
            ``None``. With ``return_premature``, a list of transfers with ``wait(timeout=None)`` and ``is_completed()``.

        Raises:
            ValueError: ``timeout`` together with ``return_premature``. See :meth:`recv` for other errors.

        Example:
            On each of two processes of one group:

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.full((3,), float(dist.get_rank()))}, [3])
            >>> if dist.get_rank() == 0:
            ...     data.send(dst=1)
            ... else:
            ...     for transfer in data.irecv(src=0, return_premature=True):
            ...         _ = transfer.wait()
            >>> data["x"]
            tensor([0., 0., 0.])
        """
        ...

    # -- to a process that does not know what comes -------------------------------------------------------------------

    @delegated("tensorclass.distributed.messages.remote_init")
    def init_remote(
        self,
        dst: int | None = None,
        group: ProcessGroup | None = None,
        device: DeviceLike | None = None,
        use_broadcast: bool = False,
        *,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> None:
        """Send the whole collection to a process that does not know its form; see :meth:`from_remote_init`.

        Keys, dtypes, shapes, batch sizes, dimension names and non-tensor data are sent as JSON, and the tensors as one
        buffer: that of a consolidated collection, otherwise a copy.

        Args:
            dst: the rank of the receiver in the world.
            group: the process group; by default that of the world.
            device: the device whose backend carries the messages, if the group has several: ``"cuda"`` for NCCL.
            use_broadcast: send to all other processes of the group, without ``dst``.
            timeout: the time limit of each message in seconds; by default that of the group.
            allow_pickle: send objects that JSON cannot hold as pickles. The receiver must allow them too.

        Raises:
            WorkerTimeout: the receiver did not call in time. See :meth:`send` for this and other errors.
            RecordsDiffer: the receiver made another call, such as :meth:`recv`.
            TypeError: a message cannot hold some values. Lists all of them. Nothing was sent.

        Example:
            On each of two processes of one group:

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> if dist.get_rank() == 0:
            ...     data = TensorDict({"x": torch.arange(3), "text": ["a", "b", "c"]}, [3])
            ...     data.init_remote(dst=1)
            ... else:
            ...     data = TensorDict.from_remote_init(src=0)
            >>> data[2].to_dict()
            {'x': tensor(2), 'text': 'c'}
        """
        ...

    @classmethod
    @delegated("tensorclass.distributed.messages.remote_init")
    def from_remote_init(
        cls,
        src: int,
        group: ProcessGroup | None = None,
        device: DeviceLike | None = None,
        use_broadcast: bool = False,
        *,
        timeout: float | timedelta | None = None,
        allow_pickle: bool = False,
    ) -> Self:
        """Receive a collection that another process sends with :meth:`init_remote`.

        Args:
            src: the rank of the sender in the world.
            group: the process group; by default that of the world.
            device: where the tensors are moved. The messages use the backend of this device if the group has one. In a
                group with several backends, both processes must give the same device.
            use_broadcast: as the sender gives it.
            timeout: the time limit of each message in seconds; by default that of the group.
            allow_pickle: read objects that were sent as pickles, which can run any code. By default nothing is
                unpickled.

        Returns:
            An instance of this class, whatever the sender's class is; a record must get its fields. It is consolidated:
            more collections of the same form can follow with ``recv(consolidated=True)``.

        Raises:
            FileError: what arrived does not fit the record, or is damaged. It is a ValueError.
            WorkerTimeout: the sender did not call in time. See :meth:`send` for this and other errors.

        Example:
            On each of two processes of one group, which send the form once and then values:

            >>> import torch, torch.distributed as dist
            >>> from tensorclass import TensorDict
            >>> if dist.get_rank() == 0:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).consolidate()
            ...     data.init_remote(dst=1)
            ...     _ = data["x"].fill_(1.0)
            ...     data.send(dst=1, consolidated=True)
            ... else:
            ...     data = TensorDict.from_remote_init(src=0)
            ...     tag = data.recv(src=0, consolidated=True)
            >>> data["x"]
            tensor([1., 1., 1.])
        """
        ...
