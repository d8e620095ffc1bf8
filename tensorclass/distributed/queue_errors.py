"""Errors of records that a queue pickles in a background thread.

A queue of ``multiprocessing`` pickles items in a background thread, and only prints errors that occur there. The other
side then waits forever for the lost item; so does a ``DataLoader`` for a batch of its worker. If a record cannot be
pickled in such a thread, the error is sent in its place: ``get`` raises it, and a ``DataLoader`` raises it for the
batch, like errors of a dataset.
"""

from __future__ import annotations

import multiprocessing.queues
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from tensorclass.support.printable import type_name

from .worker_errors import WorkerRaised, message_of, pickle_error, unpickle_error

_wrapper: Any = ExceptionWrapper
_queue: Any = multiprocessing.queues.Queue
_feed: Any = getattr(_queue._feed, "__code__", None)  #: code of a queue's thread
_DEPTH = 8  #: frames between that code and the reduction of a record


class Fed(NamedTuple):
    """The item that a queue's thread pickles."""

    item: Any


def current() -> Fed | None:
    """Return the item that this thread pickles for a queue; ``None`` elsewhere, or if the queue handles errors."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return None
        if frame.f_code is _feed:
            # this one only prints errors; executors hand them to the future of the call
            is_silent = frame.f_locals.get("onerror") is _queue._on_queue_feeder_error
            return Fed(frame.f_locals.get("obj")) if is_silent else None
        frame = frame.f_back
    return None


def instead(fed: Fed, value: Any, error: Exception) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Reduce to the error that is sent in place of a record."""
    worker = get_worker_info()
    item = fed.item
    if worker is not None and isinstance(item, tuple) and len(item) == 2 and item[1] is value:  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        wrapped: Any = _wrapper((type(error), error, error.__traceback__), f"in DataLoader worker process {worker.id}")
        try:
            return pickle.loads, (pickle.dumps(wrapped),)
        except Exception:  # the class of the error cannot be imported by name
            wrapped.exc_type = RuntimeError
            return pickle.loads, (pickle.dumps(wrapped),)
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    sender = f"process {os.getpid()}" if worker is None else f"DataLoader worker process {worker.id} ({os.getpid()})"
    return _raised, (
        pickle_error(error),
        f"{sender} could not send a {type_name(value)}: {message_of(error)}",
        sender,
        trace,
    )


def _raised(error: bytes | None, message: str, worker: str, trace: str) -> Any:
    """Raise the error of a record that could not be sent; unpickling calls this."""
    found = None if error is None else unpickle_error(error)
    raise WorkerRaised.of(found, f"{message}\n\n{worker}:\n{trace}", worker=worker, trace=trace)
