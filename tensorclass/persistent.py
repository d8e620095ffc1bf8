"""The functions of the package that save and load: they are the methods; loading asks the file for the class.

To add one, add its name here, in ``__all__`` and in ``tensorclass/__init__.py``. What they do is in
:mod:`tensorclass.storage`, imported at their call.
"""

from __future__ import annotations

from typing import Final

from .td.base import TensorCollection as _Collection
from .td.memmap import Filename as _Filename
from .td.tensordict import TensorDict as _TensorDict

__all__ = [
    "append_memmap",
    "dumps",
    "from_consolidated",
    "from_safetensors",
    "load",
    "load_memmap",
    "load_safetensors",
    "memmap",
    "memmap_",
    "memmap_like",
    "save",
    "save_safetensors",
    "to_safetensors",
]

from_consolidated: Final = _Collection.from_consolidated
load_safetensors: Final = _Collection.load_safetensors
from_safetensors: Final = load_safetensors
load_memmap: Final = _Collection.load_memmap
load: Final = load_memmap

memmap: Final = _Collection.memmap
memmap_: Final = _Collection.memmap_
memmap_like: Final = _Collection.memmap_like
save: Final = memmap
dumps: Final = memmap
save_safetensors: Final = _Collection.save_safetensors
to_safetensors: Final = save_safetensors


def append_memmap(
    prefix: _Filename, rows: _Collection, *, allow_pickle: bool | None = None, progress: bool | None = None
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
    given: _TensorDict = rows  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    _TensorDict.append_memmap(prefix, given, allow_pickle=allow_pickle, progress=progress)
