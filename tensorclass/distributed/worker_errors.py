"""Errors of other processes: which worker, what it did, and where."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pickle import PicklingError
from typing import Any, cast

from tensorclass.support.printable import printable

_type: Callable[[str, tuple[type, ...], dict[str, Any]], Any] = type


class WorkerError(RuntimeError):
    """Work in another process failed.

    Args:
        message: what happened.
        worker: the process, such as ``"process 4711"`` or ``"rank 3"``.
        chunk: index of the chunk, from 0.
        rows: first row of the chunk, and last row (exclusive).
        trace: traceback of the other process, if there is one.
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


def message_of(error: BaseException) -> str:
    """Return the class and the message of an error, as a traceback ends with them, without notes.

    Notes stand after the message: Python 3.14 adds one for each object around one that cannot be pickled.
    """
    described: Any = traceback.TracebackException(type(error), error, None)
    described.__notes__ = None
    lines: list[str] = list(described.format_exception_only())
    return lines[-1].strip()


class NotSendable(TypeError, PicklingError, AttributeError):
    """An object cannot be pickled, and so cannot be sent to another process."""


class WorkerDied(WorkerError):
    """A process exited or was killed before its work was done."""


class WorkerTimeout(WorkerError, TimeoutError):
    """A process did not answer in time."""


#: end of error messages after which torch has closed the connections of a group
GROUP_IS_BROKEN = "The group cannot be used any more: make a new one, or start the processes anew"


def error_class_of(error: RuntimeError) -> type[WorkerDied] | type[WorkerTimeout] | None:
    """Classify an error of a backend of ``torch.distributed`` by its text, which is all it has.

    torch has classes for some of these errors (``DistNetworkError``), but gloo raises plain RuntimeErrors.
    """
    text = str(error)
    if "imed out" in text or ("imeout" in text and "closure" not in text):
        return WorkerTimeout
    if any(word in text for word in ("onnection", "ocket", "roken pipe", "losed", "closure", "eset")):
        return WorkerDied
    return None


class WorkerRaised(WorkerError):
    """A function raised an error in another process.

    The error is also an instance of the class of that error: ``except KeyError`` catches a ``KeyError`` of a worker.
    Its ``__cause__`` is the error of the worker, if that could be sent.
    """

    _message: str

    def __str__(self) -> str:
        return printable(self._message, lines=True)

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
        """Make the error to raise for an error of another process.

        Args:
            error: the error of the other process; ``None`` if it could not be sent.
            message: what happened.
            worker: the process, such as ``"process 4711"`` or ``"rank 3"``.
            chunk: index of the chunk, from 0.
            rows: first row of the chunk, and last row (exclusive).
            trace: traceback of the other process, if there is one.

        Returns:
            An instance of this class and of the class of ``error``, with the attributes of ``error``.

        Example:
            >>> from tensorclass.distributed import WorkerRaised
            >>> error = WorkerRaised.of(KeyError("x"), "process 4711: KeyError: 'x'", worker="process 4711")
            >>> isinstance(error, KeyError), error.worker, error.__cause__
            (True, 'process 4711', KeyError('x'))
        """
        new: Any = _instance_like(error)
        new.args = (message,) if error is None else error.args
        new.worker, new.chunk, new.rows, new.trace = worker, chunk, rows, trace
        new._message = message
        new.__cause__ = error
        return new  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        context = {"worker": self.worker, "chunk": self.chunk, "rows": self.rows, "trace": self.trace}
        return _unpickle, (None if self.__cause__ is None else pickle_error(self.__cause__), str(self), context)


def _unpickle(error: bytes | None, message: str, context: dict[str, Any]) -> WorkerRaised:
    return WorkerRaised.of(None if error is None else unpickle_error(error), message, **context)


def pickle_error(error: BaseException) -> bytes | None:
    """Pickle an error, or its class, arguments and attributes. Return ``None`` if neither is possible."""
    standard = type(error).__reduce__ is BaseException.__reduce__
    states: list[Any] = [(type(error), error.args, state) for state in (vars(error), {}) if standard]
    picklers: list[Any] = [pickle]
    # Ray and Dask send classes of the program by value, with their own cloudpickle; pickle cannot find them by name
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        picklers.append(ray.cloudpickle)
    picklers.append(sys.modules.get("cloudpickle"))
    for pickler in picklers:
        for state in states or [error]:
            with suppress(Exception):  # classes of errors can raise anything here
                return bytes(pickler.dumps(state))
    return None


def unpickle_error(pickled: bytes) -> BaseException | None:
    """Unpickle an error of :func:`pickle_error`. Return ``None`` if its class cannot be imported or made here."""
    try:
        error: Any = pickle.loads(pickled)
        if isinstance(error, tuple):
            cls, args, state = cast("tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]", error)
            error = _rebuild_error(cls, args, state)
    except Exception:  # classes of errors can raise anything here
        return None
    return error if isinstance(error, BaseException) else None


def _rebuild_error(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Make an error again, even if the constructor of its class takes other arguments than ``args``."""
    try:
        error = cls(*args)
    except Exception:
        error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class RecordsDiffer(RuntimeError):
    """The processes of one operation have records of different forms, or call different operations.

    All sides raise it, and nothing was written on any.

    Args:
        message: what differs.
        differences: a line for each difference.
    """

    differences: list[str]

    def __init__(self, message: str = "", *, differences: Sequence[str] = ()) -> None:
        super().__init__(printable(message, lines=True))
        self.differences = list(differences)


def records_differ(what: str, differences: Sequence[str]) -> RecordsDiffer:
    """Return the error that lists the differences, the first twenty of them."""
    more = f"; and {len(differences) - 20} more" if len(differences) > 20 else ""
    return RecordsDiffer(f"{what}: {'; '.join(differences[:20])}{more}. Nothing was written", differences=differences)


#: classes derived from :class:`WorkerRaised` and the class of an error
_error_classes: dict[type[Exception], type[WorkerRaised]] = {}


def _instance_like(error: BaseException | None) -> WorkerRaised:
    """Make an instance of :class:`WorkerRaised` and of the class of an error, with the attributes of the error."""
    if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
        return WorkerRaised()  # a StopIteration would silently end the generator that raises it
    cls = type(error)
    try:
        both = _error_classes.get(cls)
        if both is None:
            related = issubclass(WorkerRaised, cls) or issubclass(cls, WorkerRaised)
            both = WorkerRaised if related else _type(cls.__name__, (WorkerRaised, cls), {"__module__": cls.__module__})
            _error_classes[cls] = both
        new: Any = cls.__new__(both) if both is not WorkerRaised else both()
    except TypeError:  # the instance layouts conflict, or __new__ needs arguments
        return WorkerRaised()
    new.__dict__.update(error.__dict__)
    if isinstance(error, OSError):
        new.errno, new.strerror, new.filename = error.errno, error.strerror, error.filename
    return new  # type: ignore[no-any-return]
