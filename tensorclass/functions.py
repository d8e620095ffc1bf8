"""Public functions of the package that are methods of collections, or that need no collection.

Each subject has a section: converters, files, archives of memory-mapped folders, parameters of modules. Functions
that read take the class of the result from the file, if it names one; others return a :class:`TensorDict`. To add a
function, write it here. ``make stubs`` writes the functions of converters, ``__all__``, and the names in
``tensorclass/__init__.py``.
"""

from __future__ import annotations

from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any, Final

from .td.base import TensorCollection as _Collection
from .td.memory.mapped_files import Filename as _Filename
from .td.tensordict import TensorDict as _TensorDict

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "append_memmap",
    "dumps",
    "from_any",
    "from_arrow",
    "from_consolidated",
    "from_csv",
    "from_dict",
    "from_feather",
    "from_h5",
    "from_huggingface",
    "from_json",
    "from_list",
    "from_module",
    "from_modules",
    "from_namedtuple",
    "from_pandas",
    "from_parquet",
    "from_polars",
    "from_pytorch_tensordict",
    "from_pytree",
    "from_ray_dataset",
    "from_safetensors",
    "from_struct_array",
    "from_tuple",
    "from_zarr",
    "is_memmap_archive",
    "iter_csv",
    "iter_feather",
    "iter_huggingface",
    "iter_json",
    "iter_parquet",
    "iter_ray_dataset",
    "load",
    "load_memmap",
    "load_safetensors",
    "memmap",
    "memmap_",
    "memmap_like",
    "pack_memmap",
    "refresh_archive_checksums",
    "save",
    "save_safetensors",
    "to_arrow",
    "to_attrs",
    "to_csv",
    "to_dataclass",
    "to_dict",
    "to_feather",
    "to_h5",
    "to_huggingface",
    "to_json",
    "to_namedtuple",
    "to_pandas",
    "to_parquet",
    "to_polars",
    "to_pydantic",
    "to_pytorch_tensordict",
    "to_pytree",
    "to_ray_dataset",
    "to_safetensors",
    "to_struct_array",
    "to_tuple",
    "to_zarr",
    "unpack_memmap",
]

# -- converters: written by "make stubs" ------------------------------------------------------------------------------

from_any: Final = _TensorDict.from_any
from_arrow: Final = _TensorDict.from_arrow
from_csv: Final = _TensorDict.from_csv
from_dict: Final = _TensorDict.from_dict
from_feather: Final = _TensorDict.from_feather
from_huggingface: Final = _TensorDict.from_huggingface
from_json: Final = _TensorDict.from_json
from_list: Final = _TensorDict.from_list
from_namedtuple: Final = _TensorDict.from_namedtuple
from_pandas: Final = _TensorDict.from_pandas
from_parquet: Final = _TensorDict.from_parquet
from_polars: Final = _TensorDict.from_polars
from_pytorch_tensordict: Final = _TensorDict.from_pytorch_tensordict
from_pytree: Final = _TensorDict.from_pytree
from_ray_dataset: Final = _TensorDict.from_ray_dataset
from_struct_array: Final = _TensorDict.from_struct_array
from_tuple: Final = _TensorDict.from_tuple
iter_csv: Final = _TensorDict.iter_csv
iter_feather: Final = _TensorDict.iter_feather
iter_huggingface: Final = _TensorDict.iter_huggingface
iter_json: Final = _TensorDict.iter_json
iter_parquet: Final = _TensorDict.iter_parquet
iter_ray_dataset: Final = _TensorDict.iter_ray_dataset
to_arrow: Final = _Collection.to_arrow
to_attrs: Final = _Collection.to_attrs
to_csv: Final = _Collection.to_csv
to_dataclass: Final = _Collection.to_dataclass
to_feather: Final = _Collection.to_feather
to_huggingface: Final = _Collection.to_huggingface
to_json: Final = _Collection.to_json
to_namedtuple: Final = _Collection.to_namedtuple
to_pandas: Final = _Collection.to_pandas
to_parquet: Final = _Collection.to_parquet
to_polars: Final = _Collection.to_polars
to_pydantic: Final = _Collection.to_pydantic
to_pytorch_tensordict: Final = _Collection.to_pytorch_tensordict
to_pytree: Final = _Collection.to_pytree
to_ray_dataset: Final = _Collection.to_ray_dataset
to_struct_array: Final = _Collection.to_struct_array
to_tuple: Final = _Collection.to_tuple

# -- files ------------------------------------------------------------------------------------------------------------

from_consolidated: Final = _Collection.from_consolidated
from_h5: Final = _TensorDict.from_h5
from_zarr: Final = _TensorDict.from_zarr
to_dict: Final = _Collection.to_dict
to_h5: Final = _Collection.to_h5
to_zarr: Final = _Collection.to_zarr
load_safetensors: Final = _Collection.load_safetensors
from_safetensors: Final = load_safetensors
load_memmap: Final = _Collection.load_memmap
append_memmap: Final = _Collection.append_memmap
load: Final = load_memmap

memmap: Final = _Collection.memmap
memmap_: Final = _Collection.memmap_
memmap_like: Final = _Collection.memmap_like
save: Final = memmap
dumps: Final = memmap
save_safetensors: Final = _Collection.save_safetensors
to_safetensors: Final = save_safetensors

# -- archives of memory-mapped folders --------------------------------------------------------------------------------


def pack_memmap(
    prefix: _Filename,
    archive_path: _Filename,
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
    progress: bool | None = None,
    pbar: bool | None = None,
) -> _Path:
    """Pack a folder that :meth:`TensorDict.memmap` wrote into one file.

    The archive is complete or not there at all, also if the process is killed.

    Args:
        prefix: the folder. All files in it are packed.
        archive_path: the file to write; an existing one is replaced. Its suffix is usually ``.tdz``.
        compression: ``"stored"`` (the default: tensors are mapped from the archive), ``"deflated"``, ``"bzip2"``,
            ``"lzma"``, or a constant of ``zipfile``.
        compresslevel: 0 to 9 for ``"deflated"``, 1 to 9 for ``"bzip2"``; by default that of ``zipfile``.
        progress: show a bar; by default only on a terminal, if packing takes more than two seconds.
        pbar: another name of ``progress``.

    Returns:
        The path of the archive.

    Raises:
        ValueError: nothing is saved in the folder, or it contains links.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict, pack_memmap
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3)}, [3]).memmap(folder + "/rows")
        ...     packed = pack_memmap(folder + "/rows", folder + "/rows.tdz")
        ...     TensorDict.load_memmap(packed)["x"]
        tensor([1., 1., 1.])
    """
    from .storage import archive

    return archive.pack_memmap(
        prefix, archive_path, compression=compression, compresslevel=compresslevel, progress=progress, pbar=pbar
    )


def unpack_memmap(
    archive_path: _Filename, prefix: _Filename, *, progress: bool | None = None, pbar: bool | None = None
) -> _Path:
    """Unpack an archive to a folder, and verify all checksums.

    Args:
        archive_path: the archive.
        prefix: the folder. A collection in it is replaced in one step.
        progress: show a bar; by default only on a terminal, if unpacking takes more than two seconds.
        pbar: another name of ``progress``.

    Returns:
        The path of the folder.

    Raises:
        ValueError: the file is not an archive, is damaged, or needs more space than there is. Nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict, unpack_memmap
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3)}, [3]).memmap(folder + "/rows.tdz")
        ...     TensorDict.load_memmap(unpack_memmap(folder + "/rows.tdz", folder + "/rows"))["x"].tolist()
        [1.0, 1.0, 1.0]
    """
    from .storage import archive

    return archive.unpack_memmap(archive_path, prefix, progress=progress, pbar=pbar)


def is_memmap_archive(path: _Filename) -> bool:
    """Return whether a file is an archive of a memory-mapped folder: a ZIP file with a member ``meta.json``.

    Args:
        path: the path of the file; if there is none, the result is ``False``.

    Example:
        >>> from tensorclass import is_memmap_archive
        >>> is_memmap_archive("no_such_file.tdz")
        False
    """
    from .storage import archive

    return archive.is_memmap_archive(path)


def refresh_archive_checksums(archive_path: _Filename) -> _Path:
    """Update the checksums of an archive after values were written in place (``mode="r+"``).

    If this is interrupted, some checksums are still the old ones. Values never change.

    Args:
        archive_path: the archive.

    Returns:
        The path of the archive.

    Raises:
        ValueError: the file is not an archive.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict, refresh_archive_checksums
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3)}, [3]).memmap(folder + "/rows.tdz")
        ...     _ = TensorDict.load_memmap(folder + "/rows.tdz", mode="r+")["x"].fill_(2.0)
        ...     path = refresh_archive_checksums(folder + "/rows.tdz")
        ...     TensorDict.load_memmap(path, verify=True)["x"]
        tensor([2., 2., 2.])
    """
    from .storage import archive

    return archive.refresh_archive_checksums(archive_path)


# -- parameters of modules --------------------------------------------------------------------------------------------


def from_module(
    module: nn.Module,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    filter_empty: bool = True,
) -> Any:
    """Return the parameters and buffers of a module, nested as its submodules are. Nothing is copied.

    The same as :meth:`TensorDict.from_module`, except that the result is locked by default.

    Args:
        module: an ``nn.Module``.
        as_module: return a :class:`~tensorclass.nn.TensorDictParams`, which can be an attribute of another module.
            Default: ``False``.
        lock: lock the result. Default: ``True``.
        use_state_dict: read ``module.state_dict()``, which runs its hooks and detaches the tensors. Default: ``False``.
        filter_empty: leave out submodules that have neither parameters nor buffers. Default: ``True``.

    Returns:
        A :class:`TensorDict` that shares memory with the module. Its batch size is empty, unless the module is a
        collection itself.

    Raises:
        TypeError: ``module`` is not an ``nn.Module``.

    Example:
        >>> from torch import nn
        >>> from tensorclass import from_module
        >>> params = from_module(nn.Linear(3, 4))
        >>> params["weight"].shape, params.is_locked
        (torch.Size([4, 3]), True)
    """
    return _TensorDict.from_module(module, as_module, lock, use_state_dict, filter_empty)


from_modules: Final = _TensorDict.from_modules
