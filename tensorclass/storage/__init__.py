"""Save collections to files and load them, with a module for each format. README.md in this folder is an overview."""

from .archive import is_memmap_archive, pack_memmap, refresh_archive_checksums, unpack_memmap
from .common.collection_tree import FileError
from .consolidated_file import consolidate, from_consolidated
from .hdf5_zarr.persistent_tensordict import PersistentTensorDict
from .key_value.tensordict_store import TensorDictStore
from .memmap.append import append_memmap
from .memmap.memmap_methods import (
    load_memmap,
    load_memmap_,
    make_memmap,
    make_memmap_from_storage,
    make_memmap_from_tensor,
    memmap,
    memmap_,
    memmap_like,
    memmap_refresh_,
    saved_path,
)
from .safetensors import load_safetensors, save_safetensors

__all__ = [
    "FileError",
    "PersistentTensorDict",
    "TensorDictStore",
    "append_memmap",
    "consolidate",
    "from_consolidated",
    "is_memmap_archive",
    "load_memmap",
    "load_memmap_",
    "load_safetensors",
    "make_memmap",
    "make_memmap_from_storage",
    "make_memmap_from_tensor",
    "memmap",
    "memmap_",
    "memmap_like",
    "memmap_refresh_",
    "pack_memmap",
    "refresh_archive_checksums",
    "save_safetensors",
    "saved_path",
    "unpack_memmap",
]
