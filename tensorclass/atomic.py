"""Files and folders that are written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | Path) -> Generator[IO[bytes], None, None]:
    """A file to write to that takes its name only when all is written and on disk.

    It is written beside its place under another name. Where the block raises, that is removed, and what stood at
    ``path`` stays.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/result.json") as file:
        ...         _ = file.write(b"{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.absolute().parent)
    except OSError as error:
        raise _of(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp keeps others out
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: str | Path) -> Generator[Path, None, None]:
    """A folder to write to that takes its place only when all is written.

    It is filled beside its place under another name and then renamed. Where ``path`` is a folder already, the files
    written replace those of the same name, each as a whole, and others stay. Missing parent folders are made.

    Example:
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     with whole_folder(f"{parent}/results") as folder:
        ...         _ = (folder / "scores.json").write_text("{}")
        ...     os.listdir(parent), os.listdir(f"{parent}/results")
        (['results'], ['scores.json'])
    """
    path = Path(path).absolute()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: expected a folder to write to, found a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise _of(path, error) from None
    try:
        yield draft
        os.chmod(draft, 0o777 & ~_umask())
        try:
            os.rename(draft, path)  # also over an empty folder
        except OSError:
            if not path.is_dir():
                raise
            for file in sorted(draft.iterdir()):
                os.replace(file, path / file.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _of(path: Path, error: OSError) -> OSError:
    """The error as one of the file that was asked for, not of the draft beside it."""
    return OSError(error.errno, f"can't be written: {error.strerror}", str(path))


def _umask() -> int:
    """The bits that the user keeps from new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
