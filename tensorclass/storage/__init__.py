"""Save collections to files and load them, with a module for each format. README.md in this folder is an overview."""

from .archive import is_memmap_archive, pack_memmap, refresh_archive_checksums, unpack_memmap
from .common.collection_tree import FileError
from .hdf5_zarr.persistent_tensordict import PersistentTensorDict
from .key_value.tensordict_store import TensorDictStore
from .memmap.memmap_methods import saved_path

__all__ = [
    "FileError",
    "PersistentTensorDict",
    "TensorDictStore",
    "is_memmap_archive",
    "pack_memmap",
    "refresh_archive_checksums",
    "saved_path",
    "unpack_memmap",
]
