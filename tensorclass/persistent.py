"""The public functions that save and load. They are the methods of collections; loading takes the class from the file.

To add one, add its name here, in ``__all__`` and in ``tensorclass/__init__.py``. :mod:`tensorclass.storage` implements
them and is imported by the first call.
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
    """Append rows to a folder that ``memmap`` wrote; see :meth:`TensorDict.append_memmap`.

    Args:
        prefix: the folder.
        rows: a collection with the same keys, dtypes and, except for the first dimension, shapes.
        allow_pickle: pickle objects that have no JSON form.
        progress: show a bar; by default only on a terminal, if writing takes more than two seconds.

    Raises:
        ValueError: nothing is saved in the folder, or the rows do not fit. The message lists all differences, and
            nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict, append_memmap
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.zeros(2)}, [2]).memmap(folder)
        ...     append_memmap(folder, TensorDict({"x": torch.ones(1)}, [1]))
        ...     TensorDict.load_memmap(folder)["x"].tolist()
        [0.0, 0.0, 1.0]
    """
    given: _TensorDict = rows  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    _TensorDict.append_memmap(prefix, given, allow_pickle=allow_pickle, progress=progress)
