"""Tables of the reference show what the package does."""

import pytest

pytest.importorskip("sphinx")

from observed_tables import FieldTypes, FileFormats, NamesOfFields


def rows(table: type) -> dict[str, list[str]]:
    return {row[0]: list(row[1:]) for row in table.rows(None)}  # type: ignore[attr-defined]


def test_types_of_fields() -> None:
    found = rows(FieldTypes)
    assert found["``Text``"] == [
        "``['one', 'two']``",
        "``Text``, batch size ``[2]``",
        "``Text`` of ``'one'``",
        "``string``",
    ]
    assert found['``Int[Tensor, ""]``'] == ["``[0, 1]``", "``int64[2]``", "``int64[]``", "``int64``"]
    assert found["``Tensor | None``"] == ["``None``", "``None``", "``None``", "none"]


def test_names_of_fields() -> None:
    table = object.__new__(NamesOfFields)
    found = {row[0]: row[1] for row in table.rows()}
    assert found["``batch_size``"] == "no"
    assert found["``device``, ``names``, ``shape``"] == "with ``shadow=True``"
    assert "split" in table.hiding
    assert not {"shape", "batch_size"} & set(table.hiding)


def test_formats_of_files() -> None:
    found = rows(FileFormats)
    assert found["``zarr``"][:4] == ["``.zarr``", "a folder", "yes", "yes"]
    assert found["``torch``"][2:4] == ["yes", "no"]
    assert found["``parquet``"][4].startswith("a table")
