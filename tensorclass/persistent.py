"""The functions of the package that save and load: they are the methods; loading asks the file for the class.

To add one, add its name here and in ``__all__``. What they do is in :mod:`tensorclass.storage`, imported at their call.
"""

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

from_consolidated = _Collection.from_consolidated
load_safetensors = _Collection.load_safetensors
from_safetensors = load_safetensors
load_memmap = _Collection.load_memmap
load = load_memmap

memmap = _Collection.memmap
memmap_ = _Collection.memmap_
memmap_like = _Collection.memmap_like
save = memmap
dumps = memmap
save_safetensors = _Collection.save_safetensors
to_safetensors = save_safetensors
