"""What went wrong in another process: which one it was, what it was doing, and where."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pickle import PicklingError
from typing import Any, ClassVar, cast

from tensorclass.printable import printable

_type: Callable[[str, tuple[type, ...], dict[str, Any]], Any] = type


class WorkerError(RuntimeError):
    """Work that was given to another process did not come back.

    Args:
        message: what happened, for people.
        worker: who had the work: ``"process 4711"``, ``"rank 3"``.
        chunk: which piece of the work it was, counted from 0.
        rows: the first of its rows, and the one behind its last.
        trace: the traceback of the other process, where it had one.
    """

    worker: str
    chunk: int | None
    rows: tuple[int, int] | None
    trace: str

    def __init__(
        self,
        message: str = "",
        *,
        worker: str = "",
        chunk: int | None = None,
        rows: tuple[int, int] | None = None,
        trace: str = "",
    ) -> None:
        super().__init__(printable(message, lines=True))
        self.worker = worker
        self.chunk = chunk
        self.rows = rows
        self.trace = trace


class NotSendable(TypeError, PicklingError, AttributeError):
    """Something cannot be pickled, and so no other process can have it."""


class WorkerDied(WorkerError):
    """A process ended, or was killed, before its work was done."""


class WorkerTimeout(WorkerError, TimeoutError):
    """A process did not answer in time."""


#: what errors of messages end with: torch closes the connections then
BROKEN = "The group cannot be used any more: make a new one, or start the processes anew"


def kind_of(error: RuntimeError) -> type[WorkerDied] | type[WorkerTimeout] | None:
    """What an error of a backend of ``torch.distributed`` means, which has only a text; ``None`` for another one."""
    text = str(error)
    if "imed out" in text or ("imeout" in text and "closure" not in text):
        return WorkerTimeout
    if any(word in text for word in ("onnection", "ocket", "roken pipe", "losed", "closure", "eset")):
        return WorkerDied
    return None


class WorkerRaised(WorkerError):
    """A function raised an error in another process.

    What is raised is an instance of the class of that error, too: ``except KeyError`` takes a ``KeyError`` of a worker.
    It is the ``__cause__``, where it could be brought here.
    """

    _message: str

    def __str__(self) -> str:
        return self._message

    @classmethod
    def of(
        cls,
        error: BaseException | None,
        message: str,
        *,
        worker: str = "",
        chunk: int | None = None,
        rows: tuple[int, int] | None = None,
        trace: str = "",
    ) -> WorkerRaised:
        """The error to raise for one of another process; ``None`` where that one could not be brought here."""
        new: Any = _like(error)
        new.args = (message,) if error is None else error.args
        new.worker, new.chunk, new.rows, new.trace = worker, chunk, rows, trace
        new._message = message
        new.__cause__ = error
        return new  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        about = {"worker": self.worker, "chunk": self.chunk, "rows": self.rows, "trace": self.trace}
        return _again, (None if self.__cause__ is None else carried(self.__cause__), str(self), about)


def _again(error: bytes | None, message: str, about: dict[str, Any]) -> WorkerRaised:
    return WorkerRaised.of(None if error is None else brought(error), message, **about)


def carried(error: BaseException) -> bytes | None:
    """A pickle of an error, or of its class, arguments and attributes; ``None`` where there can be none."""
    alike = type(error).__reduce__ is BaseException.__reduce__
    parts: list[Any] = [(type(error), error.args, state) for state in (vars(error), {}) if alike]
    picklers: list[Any] = [pickle]
    # Ray and Dask bring classes of the program, which are found by no name here; each has a cloudpickle of its own
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        picklers.append(ray.cloudpickle)
    picklers.append(sys.modules.get("cloudpickle"))
    for pickler in picklers:
        for part in parts or [error]:
            with suppress(Exception):  # whatever its class raises
                return bytes(pickler.dumps(part))
    return None


def brought(pickled: bytes) -> BaseException | None:
    """The error of a pickle of :func:`carried`; ``None`` where it cannot be made here."""
    try:
        found: Any = pickle.loads(pickled)
        if isinstance(found, tuple):
            kind, args, state = cast("tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]", found)
            found = _remade(kind, args, state)
    except Exception:  # whatever its class raises
        return None
    return found if isinstance(found, BaseException) else None


def _remade(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """An error as it was, also of a class that makes its arguments of others."""
    try:
        error = kind(*args)
    except Exception:
        error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class RecordsDiffer(RuntimeError):
    """The processes of one operation have records of different forms, or do not call the same.

    It is raised on all sides, and nothing was written on any.

    Args:
        message: what differs, for people.
        differences: a line for each.
    """

    differences: list[str]

    def __init__(self, message: str = "", *, differences: Sequence[str] = ()) -> None:
        super().__init__(printable(message, lines=True))
        self.differences = list(differences)


class _Kinds:
    """The classes that are made for errors of other processes, one for each class of errors."""

    made: ClassVar[dict[type[Exception], type[WorkerRaised]]] = {}


def _like(error: BaseException | None) -> WorkerRaised:
    """An instance of the class of an error and of ours, with the attributes of the error."""
    if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
        return WorkerRaised()  # the latter end the generator that raises them, without a word
    kind = type(error)
    try:
        both = _Kinds.made.get(kind)
        if both is None:
            alike = issubclass(WorkerRaised, kind) or issubclass(kind, WorkerRaised)
            both = (
                WorkerRaised if alike else _type(kind.__name__, (WorkerRaised, kind), {"__module__": kind.__module__})
            )
            _Kinds.made[kind] = both
        new: Any = kind.__new__(both) if both is not WorkerRaised else both()
    except TypeError:  # its instances are laid out in another way, or its class wants more
        return WorkerRaised()
    new.__dict__.update(error.__dict__)
    if isinstance(error, OSError):
        new.errno, new.strerror, new.filename = error.errno, error.strerror, error.filename
    return new  # type: ignore[no-any-return]
