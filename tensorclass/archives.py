"""Archives of memory-mapped folders: the functions of the package. What they do is in :mod:`.storage.archive`."""

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
    """Packs a folder that :meth:`TensorDict.memmap` wrote into one file, as a whole or not at all.

    Args:
        prefix: the folder. All files in it are packed.
        archive_path: the file; one that is there is replaced. The suffix ``.tdz`` is usual.
        compression: ``"stored"`` (the default: tensors are mapped from the archive), ``"deflated"``, ``"bzip2"``,
            ``"lzma"``, or the number that ``zipfile`` has for it.
        compresslevel: as ``zipfile`` has it: 0 to 9 for ``"deflated"``, 1 to 9 for ``"bzip2"``.
        progress: show a bar; by default on a terminal, where it takes more than two seconds.

    Returns:
        The path of the archive.

    Raises:
        ValueError: nothing is saved in the folder, or it has links in it.

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
    """Unpacks an archive into a folder, as a whole or not at all; every checksum is verified.

    Args:
        archive_path: the archive.
        prefix: the folder. A collection that is there is replaced in one step.
        progress: show a bar; by default on a terminal, where it takes more than two seconds.

    Returns:
        The path of the folder.

    Raises:
        ValueError: it is no archive, or damaged, or needs more space than there is. Nothing was written.
    """
    from .storage import archive

    return archive.unpack_memmap(archive_path, prefix, progress=progress)


def is_memmap_archive(path: _Filename) -> bool:
    """Whether a file is an archive of a memory-mapped folder: a ZIP file with a member ``meta.json``.

    Args:
        path: of the file; ``False`` where there is none.
    """
    from .storage import archive

    return archive.is_memmap_archive(path)


def refresh_archive_checksums(archive_path: _Filename) -> _Path:
    """Brings the checksums of an archive up to date, after values were written in place (``mode="r+"``).

    Where this is interrupted, some checksums are those of before; the values are not touched.

    Args:
        archive_path: the archive.

    Returns:
        Its path.

    Raises:
        ValueError: it is no archive.
    """
    from .storage import archive

    return archive.refresh_archive_checksums(archive_path)
