"""The command ``tensorclass convert``."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorclass.support.atomic import swapped_folder, whole_path
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import printable
from tensorclass.support.progress import bar
from tensorclass.td.delegated.arguments import Nulls

from .data_files import CHUNK, FORMATS, DataFile, UnknownFormat, opened
from .data_writers import FOLDERS, WRITERS
from .file_description import bytes_of, shown_bytes

__all__ = ["convert_file", "run"]


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: ``source``, ``target``, ``to``, ``rows``, ``overwrite``, ``nulls``, as
            ``tensorclass convert --help`` tells.

    Returns:
        The exit code: 0, or 2 after a line on stderr.
    """
    try:
        rows = convert_file(
            arguments.source,
            arguments.target,
            to=arguments.to,
            rows=arguments.rows,
            overwrite=arguments.overwrite,
            nulls=arguments.nulls,
        )
    except KeyboardInterrupt:
        sys.stderr.write("tensorclass convert: interrupted; nothing was written\n")
        return 130
    except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
        missing = isinstance(error, FileNotFoundError) and error.filename
        message = f"{error.filename}: no such file" if missing else " ".join(str(error).split())  # type: ignore[union-attr]
        sys.stderr.write(f"tensorclass convert: {printable(message)}\n")
        return 2
    target = Path(arguments.target)
    count = "a collection without batch dimensions" if rows is None else f"{rows:,} rows"
    sys.stdout.write(printable(f"{target}: {count}, {shown_bytes(bytes_of(target))}") + "\n")
    return 0


def convert_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    rows: int = CHUNK,
    overwrite: bool = False,
    nulls: Nulls = "default",
) -> int | None:
    """Write the rows of a file in another format.

    Rows are read and written in pieces, so the file can be larger than memory. The target appears when it is complete.

    Args:
        source: a file of a format that :func:`~tensorclass.inspection.describe_file` knows.
        target: the new file or folder.
        to: its format, ``"memmap"``, ``"parquet"``, ...; by default the one of the end of its name, and a folder of
            memory maps for a name without one.
        rows: the number of rows in a piece.
        overwrite: replace a file that is there. Default: ``False``.
        nulls: what becomes of nulls of a table, as :meth:`TensorDict.from_arrow` takes it: ``"fill"``, or ``"mask"`` to
            write where they were, too. By default nulls of numbers that have no NaN are an error.

    Returns:
        The number of rows; ``None`` if there is no batch dimension.

    Raises:
        FileExistsError: there is such a file, and ``overwrite`` is not set.
        ValueError: a format is unknown, or cannot hold the values.

    Example:
        >>> import os, tempfile, torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.inspection.convert_command import convert_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.arange(3)}, [3]).to_parquet(folder + "/rows.parquet")
        ...     rows = convert_file(folder + "/rows.parquet", folder + "/rows.h5")
        ...     rows, sorted(os.listdir(folder))
        (3, ['rows.h5', 'rows.parquet'])
    """
    made = Path(target)
    if rows < 1:
        raise ValueError(f"rows: expected at least 1, got {rows}")
    name = format_named(made) if to is None else to
    if name not in WRITERS:
        raise UnknownFormat(f"to: expected one of {', '.join(WRITERS)}, got {name!r}{did_you_mean(name, WRITERS)}")
    if made.exists() and not overwrite:
        raise FileExistsError(f"{made}: there is a file of this name; give another one, or --overwrite")
    with opened(Path(source), nulls) as file:
        total = file.rows()
        pieces = _with_progress(file, rows, total)
        first = next(pieces)
        with swapped_folder(made) if name in FOLDERS else whole_path(made) as draft:
            WRITERS[name](first, pieces, draft)
    return total


def _with_progress(file: DataFile, rows: int, total: int | None) -> Iterator[Any]:
    """Yield the pieces; at least one."""
    empty = True
    with bar(1 if total is None else total, f"converting {file.path.name}", unit="row", delay=2.0) as progress:
        for piece in file.pieces(rows):
            empty = False
            yield piece
            progress.advance(len(piece) if total is not None else 1)
    if empty:
        yield file.first(0)


def format_named(path: Path) -> str:
    """Return the format that the end of a file name says.

    >>> format_named(Path("rows.parquet")), format_named(Path("rows"))
    ('parquet', 'memmap')
    """
    for one in FORMATS:
        if one.suffixes and path.name.endswith(one.suffixes) and one.name in WRITERS:
            return one.name
    if path.suffix:
        raise UnknownFormat(f"{path}: the end of the name says no format; name it with --to: {', '.join(WRITERS)}")
    return "memmap"
