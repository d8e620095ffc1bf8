"""Base of the column readers for Arrow and pandas: columns by name become values, and masks of their nulls."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from torch import Tensor

from tensorclass.convert.conversion_options import ConversionOptions, TableOptions
from tensorclass.convert.conversion_steps import FAILED
from tensorclass.convert.conversion_targets import target_class
from tensorclass.td.base import TensorCollection

from .column_names import keys_of_columns
from .column_schema import ColumnSchema

Path = tuple[str, ...]


class UnreadableColumn(Exception):
    """A column cannot be read: what was expected, what came, and what to do."""

    def __init__(self, expected: str, got: str, hint: str = "") -> None:
        super().__init__(expected, got, hint)
        self.problem: tuple[str, str, str] = (expected, got, hint)


class ReadColumn(NamedTuple):
    """The value of a column: a tensor, objects, or a dict of values for a nested collection; ``None`` for no value."""

    value: Any
    #: ``True`` for rows that are not null (a dict of masks for a nested collection); ``None`` without nulls
    mask: Any = None


class LazyRows(list[Tensor]):
    """Tensors of different shapes, one for each row, for ``ragged="lazy"``."""


class ColumnReader(abc.ABC):
    """Reads columns as the options say. Subclasses read one column of their library."""

    def __init__(self, options: ConversionOptions, table_options: TableOptions) -> None:
        self.conversion: ConversionOptions = options
        self.options: TableOptions = table_options

    @abc.abstractmethod
    def column(self, column: Any, schema: ColumnSchema, path: Path) -> ReadColumn:
        """Read a column, or a dict of columns for a nested collection.

        Raises:
            UnreadableColumn: the column cannot become what the schema says.
        """

    @abc.abstractmethod
    def check_type(self, column: Any) -> None:
        """Raise :class:`UnreadableColumn` if values of the type of a column must not be read."""

    def values(
        self, columns: Mapping[str, Any], target: type[TensorCollection] | TensorCollection, path: Path = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read (nested dicts of) columns by name. Return values and masks; note and leave out unreadable columns."""
        cls = target_class(target)
        columns = keys_of_columns(cls, columns, path, self.conversion.problems)
        values: dict[str, Any] = {}
        masks: dict[str, Any] = {}
        schemas = {name: ColumnSchema.of(cls, (name,)) for name in columns}
        refused = self._check_types(columns, schemas, path)
        for name, column in columns.items():
            schema = schemas[name]
            if schema is None:  # no field: the constructor raises, whatever the values are
                values[name] = None
                continue
            if name in refused:
                continue
            try:
                found = self.column(column, schema, (*path, name))
            except UnreadableColumn as error:
                self.conversion.problems.add((*path, name), *error.problem)
                continue
            if found.value is FAILED:
                continue
            values[name] = found.value
            if found.mask is not None:
                masks[name] = found.mask
        return values, masks

    def nested(self, columns: Mapping[str, Any], target: Any, path: Path) -> ReadColumn:
        """Read the columns of a nested collection."""
        values, masks = self.values(columns, target, path)
        return ReadColumn(values, masks or None)

    def _check_types(
        self, columns: Mapping[str, Any], schemas: Mapping[str, ColumnSchema | None], path: Path
    ) -> set[str]:
        """Note the columns whose types are refused, before a value of any column is read. Return their names."""
        refused: set[str] = set()
        for name, column in columns.items():
            if schemas[name] is not None and not isinstance(column, dict):
                try:
                    self.check_type(column)
                except UnreadableColumn as error:
                    self.conversion.problems.add((*path, name), *error.problem)
                    refused.add(name)
        return refused


def reshape_rows(value: Any, shape: Sequence[int]) -> Any:
    """Split the rows of (nested dicts of) values into several dimensions.

    Raises:
        UnreadableColumn: a value is ragged.
    """
    if isinstance(value, dict):
        return {key: reshape_rows(item, shape) for key, item in cast("dict[str, Any]", value).items()}
    if value is None:
        return None
    if isinstance(value, LazyRows) or (isinstance(value, Tensor) and value.is_nested):
        raise UnreadableColumn("lists of one length", "lists of several, in structs in lists")
    if isinstance(value, Tensor):
        return value.reshape(*shape, *value.shape[1:])
    return value.reshape(*shape)
