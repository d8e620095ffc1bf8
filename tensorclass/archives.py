"""The public functions for archives of memory-mapped folders; :mod:`.storage.archive` implements them."""

from pathlib import Path as _Path

from .td.memmap import Filename as _Filename

__all__ = ["is_memmap_archive", "pack_memmap", "refresh_archive_checksums", "unpack_memmap"]


def pack_memmap(
    prefix: _Filename,
    archive_path: _Filename,
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
    progress: bool | None = None,
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
        prefix, archive_path, compression=compression, compresslevel=compresslevel, progress=progress
    )


def unpack_memmap(archive_path: _Filename, prefix: _Filename, *, progress: bool | None = None) -> _Path:
    """Unpack an archive to a folder, and verify all checksums.

    Args:
        archive_path: the archive.
        prefix: the folder. A collection in it is replaced in one step.
        progress: show a bar; by default only on a terminal, if unpacking takes more than two seconds.

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

    return archive.unpack_memmap(archive_path, prefix, progress=progress)


def is_memmap_archive(path: _Filename) -> bool:
    """Return whether a file is an archive of a memory-mapped folder: a ZIP file with a member ``meta.json``.

    Args:
        path: the path of the file; if there is none, the result is ``False``.

    Example:
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
