"""Folders of memory-mapped files, as functions of the package."""

from __future__ import annotations

from .td.base import TensorCollection
from .td.memmap import Filename
from .td.tensordict import TensorDict


def append_memmap(
    prefix: Filename, rows: TensorCollection, *, allow_pickle: bool | None = None, progress: bool | None = None
) -> None:
    """Writes more rows behind those that ``memmap`` wrote to a folder; see :meth:`TensorDict.append_memmap`.

    Args:
        prefix: the folder.
        rows: a collection with the keys, the dtypes and, but for the first dimension, the shapes of what is there.
        allow_pickle: write objects that JSON cannot hold as pickles.
        progress: show a bar; by default on a terminal, where it takes more than two seconds.

    Raises:
        ValueError: nothing is saved there, or the rows do not fit; all differences are named, nothing was written.
    """
    given: TensorDict = rows  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    TensorDict.append_memmap(prefix, given, allow_pickle=allow_pickle, progress=progress)
