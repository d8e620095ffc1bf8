"""Stand-ins for record classes that a file names and the program has not imported.

Their values are read as a ``TensorDict``, since an import would run code. A program that only copies files from one
format to another wants the name of the class in the copy: within :func:`keep_class_names`, readers make a stand-in for
the class, whose name writers write.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from tensorclass.td.tensordict import TensorDict

from .collection_tree import Node

_keeps = ContextVar("keep_class_names", default=False)


class _StandIn(TensorDict):
    """Base class of stand-ins."""

    __slots__ = ()

    #: the description of the class in files, as JSON
    _written = ""


@contextmanager
def keep_class_names() -> Generator[None, None, None]:
    """Read values of classes that are not imported so that they are written with the name of their class."""
    token = _keeps.set(True)
    try:
        yield
    finally:
        _keeps.reset(token)


def stand_in(named: object) -> type[TensorDict]:
    """Return the class for values whose class is not imported.

    Args:
        named: what the file says about the class: ``{"module": ..., "name": ...}``, ``None`` for a plain collection.

    >>> stand_in({"module": "samples", "name": "Sample"}).__name__
    'TensorDict'
    >>> with keep_class_names():
    ...     made = stand_in({"module": "samples", "name": "Sample"})
    >>> made.__name__, described_class(made)
    ('Sample', {'module': 'samples', 'name': 'Sample'})
    """
    if not _keeps.get() or not isinstance(named, dict) or not named:
        return TensorDict
    return _stand_in(json.dumps(named, sort_keys=True))


@lru_cache(1000)
def _stand_in(written: str) -> type[_StandIn]:
    name = str(json.loads(written).get("name")).rpartition(".")[2]
    return type(name, (_StandIn,), {"__slots__": (), "_written": written})


def described_class(cls: type[Any]) -> Node | None:
    """Return the description in files of the class that a stand-in replaces; ``None`` for other classes."""
    return json.loads(cls._written) if issubclass(cls, _StandIn) else None
