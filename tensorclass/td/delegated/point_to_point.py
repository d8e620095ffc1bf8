"""Methods that send a collection from one process to another."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .declaration import delegated

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from tensorclass.distributed.point_to_point import Transfer


class PointToPoint(Collection):
    """``send``, ``recv``, ``isend``, ``irecv``, ``init_remote`` and ``from_remote_init``."""

    __slots__ = ()

    # -- point to point -----------------------------------------------------------------------------------------------

    @delegated("tensorclass.distributed.point_to_point")
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
        """Sends the values to a process that has a collection of the same form and calls :meth:`recv`.

        All small values are one message, and each large tensor another one that is not copied; they go at the same
        time. The other side can have another class, batch size or order of keys. Names, dtypes and shapes of the
        values must be the same: otherwise both sides raise an error that lists the differences, and nothing is
        written. No side learns more than that before its own call has ended: when ``send`` comes back, the other side
        has called :meth:`recv` for this record.

        Args:
            dst: the rank of the other process, in the world.
            group: the process group, by default that of the world.
            group_dst: the rank of the other process within ``group``, in the place of ``dst``.
            init_tag: a number that tells records apart which are on their way between two processes at the same time.
                Those of the same number arrive in the order in which they were sent.
            pseudo_rand: tags are far from those of other numbers, as for the peer; both sides must say the same.
            consolidated: send the piece of memory of a consolidated collection, as it is; one that is not
                consolidated is copied for it. Both sides must say the same.
            timeout: how long this may take, in seconds; by default the time-out of the group.
            allow_pickle: send objects that JSON cannot hold as pickles. The other side must ask for them, too.

        Raises:
            RecordsDiffer: the other side has another record; it is raised there, too. It is a RuntimeError.
            WorkerTimeout: the other side did not come in time. It is a TimeoutError. Gloo has then closed the
                connections of this process in the group, as for all its messages.
            WorkerDied: the process of the other side has ended, or has given up waiting.
            ValueError: no rank is named, or two, or this process.
            TypeError: values that no message can hold. Nothing was sent.
        """
        ...

    @delegated("tensorclass.distributed.point_to_point")
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
        """Receives the values of a collection of the same form that another process sends, into the tensors here.

        Where the sender dies while it sends, the small values and the non-tensor data here are as before. Large tensors
        (of 256 KB and more) are received where they are, so that some of their values can be new by then.

        Args:
            src: the rank of the other process, in the world.
            group: the process group, by default that of the world.
            group_src: the rank of the other process within ``group``, in the place of ``src``.
            init_tag: what the other side gives to :meth:`send`.
            pseudo_rand: what the other side gives.
            consolidated: what the other side gives; the collection must be consolidated.
            timeout: how long this may take, in seconds; by default the time-out of the group.
            allow_pickle: read objects that were sent as pickles, which can run any code. Otherwise nothing is
                unpickled.

        Returns:
            ``init_tag`` plus the number of tensors, less one: the last tag, were each tensor a message.

        Raises:
            RecordsDiffer: the other side has another record; see :meth:`send` for this and other errors.
            RuntimeError: a tensor here is expanded, so that it cannot be written, and nothing was received; or objects
                came that are not those of the files of a memory-mapped collection. Nothing was written.
            TypeError: an object came that the field of a record here cannot have. Nothing was written.
            ValueError: an object was sent as a pickle, and ``allow_pickle`` is off. Nothing was written.
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
    @delegated("tensorclass.distributed.point_to_point")
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
        """:meth:`send` that need not wait: with ``return_early``, what it gives is waited for later.

        Args:
            dst: see :meth:`send`, for this and the following.
            group: see there.
            group_dst: see there.
            init_tag: see there.
            pseudo_rand: see there.
            return_early: come back at once, with a list of what is on its way; small values are copied by then, large
                tensors must not be written to before ``wait()`` of its items has come back. The errors of
                :meth:`send` are raised there.
            consolidated: see there.
            timeout: see there; not with ``return_early``, where ``wait()`` takes it.
            allow_pickle: see there.

        Returns:
            The last tag, see :meth:`recv`; with ``return_early`` a list of objects with ``wait(timeout=None)`` and
            ``is_completed()``.
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
    @delegated("tensorclass.distributed.point_to_point")
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
        """:meth:`recv` that need not wait: with ``return_premature``, what it gives is waited for later.

        Args:
            src: see :meth:`recv`, for this and the following.
            group: see there.
            group_src: see there.
            return_premature: come back at once, with a list of what is on its way. The values are here when
                ``wait()`` of its items has come back, which raises the errors of :meth:`recv`.
            init_tag: see there.
            pseudo_rand: see there.
            consolidated: see there.
            timeout: see there; not with ``return_premature``, where ``wait()`` takes it.
            allow_pickle: see there.

        Returns:
            ``None``; with ``return_premature`` a list of objects with ``wait(timeout=None)`` and ``is_completed()``.
        """
        ...

    # -- to a process that does not know what comes -------------------------------------------------------------------

    @delegated("tensorclass.distributed.remote")
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
        """Sends the whole collection to a process that does not know what it looks like: see :meth:`from_remote_init`.

        Keys, dtypes, shapes, batch sizes, names of dimensions and non-tensor data go as JSON, and the tensors as one
        piece of memory: that of the collection where it is consolidated, and else a copy.

        Args:
            dst: the rank of the other process, in the world.
            group: the process group, by default that of the world.
            device: what the messages go through, where the group has several backends: ``"cuda"`` for NCCL.
            use_broadcast: send it to all other processes of the group; ``dst`` is left out then.
            timeout: how long a message may take, in seconds; by default the time-out of the group.
            allow_pickle: send objects that JSON cannot hold as pickles. The other side must ask for them, too.

        Raises:
            WorkerTimeout: the other side did not come in time; see :meth:`send` for this and other errors.
            RecordsDiffer: it came with another call, such as :meth:`recv`.
            TypeError: values that no message can hold, all of them. Nothing was sent.
        """
        ...

    @classmethod
    @delegated("tensorclass.distributed.remote")
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
        """A collection that another process sends with :meth:`init_remote`.

        It is consolidated: its tensors lie one behind the other, so that more of the same form can come with
        ``recv(consolidated=True)``.

        Args:
            src: the rank of the other process, in the world.
            group: the process group, by default that of the world.
            device: where the tensors are moved; the messages go through the backend for it, where the group has one.
                A group of several backends needs the same ``device`` on both sides.
            use_broadcast: what the other side gives.
            timeout: how long a message may take, in seconds; by default the time-out of the group.
            allow_pickle: read objects that were sent as pickles, which can run any code. Otherwise nothing is
                unpickled.

        Returns:
            An instance of this class, whatever the class on the other side is: a record wants its fields.

        Raises:
            FileError: what came does not fit the record, or is damaged. It is a ValueError.
            WorkerTimeout: the other side did not come in time; see :meth:`send` for this and other errors.
        """
        ...
