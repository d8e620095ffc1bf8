"""The tables of formats that tests run over have every format that the package knows, and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.inspection.data_files import FORMATS, CollectionFile, DataFile, TableFile, ZarrFolder, format_of
from tests.convert import files as tables
from tests.inspection.test_inspect_and_convert import WRITE, rows
from tests.storage import formats as collections

#: of each table: how a file of each of its formats is written, and what the formats have in common
TABLES: dict[str, tuple[dict[str, Callable[[Path], Any]], type[DataFile]]] = {
    "tests/storage/formats.py": (
        {
            **{
                form: lambda path, form=form: collections.FORMATS[form].save(collections.plain(), path)  # type: ignore[misc]
                for form in collections.FORMATS
            },
            "rows.pt": lambda path: torch.save(collections.plain(), path),  # torch writes the file
        },
        CollectionFile,
    ),
    "tests/convert/files.py": (
        {
            {"lines": "rows.jsonl"}.get(kind, f"rows.{kind}"): lambda path, kind=kind: tables.write(  # type: ignore[misc]
                tables.rows(), kind, path
            )
            for kind in tables.FORMATS
        },
        TableFile,
    ),
    "tests/inspection/test_inspect_and_convert.py": (
        {
            **{name: lambda path, name=name: WRITE[name](rows(), path) for name in WRITE},  # type: ignore[misc]
            "rows.pt": lambda path: torch.save(rows(), path),
            "rows.csv": lambda path: tables.rows().to_csv(path, separator="."),  # a cell holds no list
        },
        DataFile,
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_every_format(table: str, tmp_path: Path) -> None:
    write, kind = TABLES[table]
    for name in write:
        write[name](tmp_path / name)
    found = {format_of(tmp_path / name) for name in write}
    missing_here = set() if "zarr" in collections.FORMATS else {ZarrFolder}  # on Python 3.10
    assert found == {one for one in FORMATS if issubclass(one, kind)} - missing_here
