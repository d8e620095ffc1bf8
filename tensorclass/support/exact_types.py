"""Classes to compare with, where subclasses do not count."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DICT"]

#: ``type(store) is DICT`` tells a plain dict from other stores. Dynamo guards ``type()`` on each torch, ``__class__``
#: not on 2.15; and with this name, other than with ``dict``, type checkers leave the declared type of a store alone.
DICT: Final[Any] = dict
