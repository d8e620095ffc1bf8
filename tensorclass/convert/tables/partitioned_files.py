"""Readers of files that contain their schema: several files are the parts of one table."""

from __future__ import annotations

import abc
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tensorclass.convert.conversion_steps import C
from tensorclass.support.printable import printable

from .arrow_extensions import check_extensions
from .column_reader import UnreadableColumn
from .file_columns import chosen_columns, kept_columns
from .file_sources import TableFile
from .row_batches import TableReader


class PartitionedReader(TableReader[C], metaclass=abc.ABCMeta):
    """Reads files with the same columns one after another.

    Making the reader reads the schema of each file. Wrong columns raise before any data is read.

    Args:
        columns: the columns to read; by default all, for a record those of its fields. A field of a struct is named
            after it: ``"point.x"``.
    """

    @abc.abstractmethod
    def _opened(self, file: TableFile) -> AbstractContextManager[Any]:
        """Open a file."""

    @abc.abstractmethod
    def _describe_file(self, opened: Any) -> tuple[int | None, Any]:
        """Return the number of rows of an open file, if it is known, and its Arrow schema."""

    @abc.abstractmethod
    def _whole(self, opened: Any) -> Any:
        """Read an open file as one table."""

    @abc.abstractmethod
    def _batches(self, opened: Any, rows: int) -> Iterable[Any]:
        """Return the record batches of an open file, of about as many rows."""

    def table(self) -> Any:
        tables: list[Any] = []
        for file in self.files:
            with self._opened(file) as opened:
                tables.append(self._align(self._whole(opened), file))
        return self._concatenated(tables)

    def tables(self, rows: int) -> Generator[Any, None, None]:
        for file in self.files:
            with self._opened(file) as opened:
                for batch in self._batches(opened, rows):
                    yield self._align(self.pa.Table.from_batches([batch]), file)

    def _infer_schema(self) -> None:
        """Read the schemas, and choose the columns."""
        pa, what = self.pa, self.request.what
        schemas: list[Any] = []
        self.rows = 0
        for file in self.files:
            with self._opened(file) as opened:
                rows, schema = self._describe_file(opened)
            self.rows = None if rows is None or self.rows is None else self.rows + rows
            schemas.append(schema)
            if {*schema.names} != {*schemas[0].names}:
                odd = sorted({*schema.names} ^ {*schemas[0].names})
                raise ValueError(
                    f"{what}: {printable(file)}: expected the columns of {printable(self.files[0])}; "
                    f"{odd} are only in one of the two"
                )
        first = schemas[0]
        self._check_names(first.names)
        with self._naming_types():
            schema = first if len(schemas) == 1 else pa.unify_schemas(schemas, promote_options="permissive")
        for name in self.files[0].folder_values:
            values = [file.folder_values.get(name) for file in self.files]
            if name not in schema.names and None not in values:
                whole = all(value is not None and value.lstrip("-").isdecimal() for value in values)
                schema = schema.append(pa.field(name, pa.int64() if whole else pa.string()))
        self._choose_columns(schema)

    def _choose_columns(self, schema: Any) -> None:
        """Choose the columns that fields take."""
        pa, problems, columns = self.pa, self.request.options.problems, self._chosen_columns()
        columns_of_file = self.paths([leaf for field in schema for leaf in _leaf_columns(pa, field)])
        leaves = {".".join(column): path for column, path in columns_of_file.items()}
        if columns is not None:
            names = [name for name in columns if any(_is_in(leaf, name) for leaf in leaves)]
            chosen_columns(self.request.what, schema.names, columns, problems, names)
            leaves = {leaf: path for leaf, path in leaves.items() if any(_is_in(leaf, name) for name in columns)}
        kept = kept_columns(self.cls, leaves.values(), problems, self.request.options.strict)
        problems.check()
        chosen = [leaf for leaf, path in leaves.items() if path in kept]
        #: names of the columns to read, dotted for structs; ``None``: all
        self._columns: list[str] | None = None if columns is None and len(chosen) == len(leaves) else chosen
        self._schema = pa.schema([made for one in schema if (made := _select_in_field(pa, one, chosen)) is not None])
        for field in self._schema:
            try:
                check_extensions(pa, field.type)
            except UnreadableColumn as error:
                problems.add(self.path(field.name), *error.problem)
        problems.check()

    def _align(self, table: Any, file: TableFile) -> Any:
        """Return a table with the columns of all files, those in the names of folders included."""
        pa = self.pa
        for field in self._schema:
            if field.name not in table.column_names:
                folder_values: Any = file.folder_values[field.name]
                folder_values = int(folder_values) if pa.types.is_integer(field.type) else folder_values
                table = table.append_column(field, pa.repeat(pa.scalar(folder_values, field.type), table.num_rows))
        if table.schema.names != self._schema.names:
            table = table.select(self._schema.names)
        return table if table.schema.equals(self._schema) else table.cast(self._schema)


def _is_in(leaf: str, name: str) -> bool:
    return leaf == name or leaf.startswith(f"{name}.")


def _leaf_columns(pa: Any, field: Any) -> Iterable[tuple[str, ...]]:
    """Yield the columns in a field, those of structs one by one: the names from the outside in."""
    found: list[tuple[tuple[str, ...], Any]] = [((field.name,), field.type)]
    while found:
        names, arrow_type = found.pop(0)
        if pa.types.is_struct(arrow_type) and arrow_type.num_fields:
            found[:0] = [((*names, one.name), one.type) for one in arrow_type]
        else:
            yield names


def _select_in_field(pa: Any, field: Any, chosen: Sequence[str], prefix: str = "") -> Any:
    """Reduce a field to the chosen columns; ``None`` if it has none."""
    name = prefix + field.name
    if name in chosen:
        return field
    if not pa.types.is_struct(field.type):
        return None
    kept = [made for one in field.type if (made := _select_in_field(pa, one, chosen, f"{name}.")) is not None]
    return field.with_type(pa.struct(kept)) if kept else None
