"""Files written piece by piece: rows of any number go through the memory of a few."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from tensorclass.storage import pack_memmap
from tensorclass.support.extras import require
from tensorclass.td.tensordict import TensorDict

#: writes the first piece and the others to a draft of the file
Writer: TypeAlias = Callable[[Any, Iterator[Any], Path], None]


def _to_memmap(first: Any, others: Iterator[Any], draft: Path) -> None:
    first.memmap(draft, copy_existing=True, progress=False)
    for piece in others:
        TensorDict.append_memmap(draft, piece, progress=False)


def _from_memmap(save: Callable[[Path, Path], object]) -> Writer:
    """Return a writer for a format that is written whole, from values that lie in a temporary memory map."""

    def write(first: Any, others: Iterator[Any], draft: Path) -> None:
        with tempfile.TemporaryDirectory(dir=draft.parent, prefix=".tensorclass-convert-") as folder:
            _to_memmap(first, others, Path(folder, "rows"))
            save(Path(folder, "rows"), draft)

    return write


def _extended(create: Callable[[Any, Path], Any]) -> Writer:
    """Return a writer for a format whose files can be extended."""

    def write(first: Any, others: Iterator[Any], draft: Path) -> None:
        with create(first, draft) as data:
            for piece in others:
                data.extend(piece)

    return write


def _like(table: Any, first: Any) -> Any:
    """Return a table with the types of the first one."""
    # only where they differ: up to version 24, pyarrow's cast loses the items of fixed-size lists in structs
    return table if table.schema.equals(first.schema) else table.cast(first.schema)


def _of_tables(module: str, what: str, create: Callable[[Any, Path, Any], Any]) -> Writer:
    """Return a writer for a format of a module of pyarrow, from what makes its writer for a schema."""

    def write(first: Any, others: Iterator[Any], draft: Path) -> None:
        library = require(module, "arrow", f"writing {what}")
        table = first.to_arrow()
        with create(library, draft, table.schema) as writer:
            for one in chain([table], (piece.to_arrow() for piece in others)):
                writer.write_table(_like(one, table))

    return write


def _joined(method: str, suffix: str, headers: int) -> Writer:
    """Return a writer that makes a file of each piece, and joins the files: the lines of the header only once."""

    def write(first: Any, others: Iterator[Any], draft: Path) -> None:
        beside = tempfile.TemporaryDirectory(dir=draft.parent, prefix=".tensorclass-convert-")
        with beside as folder, draft.open("wb") as out:
            part = Path(folder, "part" + suffix)
            for number, piece in enumerate(chain([first], others)):
                getattr(piece, method)(part)
                with part.open("rb") as lines:
                    for _ in range(headers if number else 0):
                        lines.readline()
                    shutil.copyfileobj(lines, out)

    return write


#: the formats that are folders
FOLDERS = ("memmap", "zarr")

#: by the name of the format
WRITERS: dict[str, Writer] = {
    "memmap": _to_memmap,
    "archive": _from_memmap(pack_memmap),
    "safetensors": _from_memmap(lambda folder, draft: TensorDict.load_memmap(folder).save_safetensors(draft)),
    "consolidated": _from_memmap(lambda folder, draft: TensorDict.load_memmap(folder).consolidate(filename=draft)),
    "h5": _extended(lambda first, draft: first.to_h5(draft, resizable=True, progress=False)),
    "zarr": _extended(lambda first, draft: first.to_zarr(draft, progress=False)),
    "parquet": _of_tables(
        "pyarrow.parquet", "Parquet", lambda library, path, schema: library.ParquetWriter(path, schema)
    ),
    "arrow": _of_tables(
        "pyarrow.ipc", "Arrow files", lambda library, path, schema: library.new_file(str(path), schema)
    ),
    "csv": _joined("to_csv", ".csv", headers=1),
    "jsonl": _joined("to_json", ".jsonl", headers=0),
}
