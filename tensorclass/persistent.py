"""The functions of the package that save and load: they are the methods; loading asks the file for the class.

To add one, add its name here, in ``__all__`` and in ``tensorclass/__init__.py``. What they do is in
:mod:`tensorclass.storage`, imported at their call.
"""

from typing import Final

from .td.base import TensorCollection as _Collection

__all__ = [
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
