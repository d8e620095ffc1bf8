"""Tables that were read from files as collections."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .arrow import read_table, reading_of, table_values, to_arrow
from .arrow_numbers import Nulls
from .problems import Problems
from .tree import BatchSize, C, Plan, build, plan


class Asked(NamedTuple):
    """What the reader of a file was asked for, whatever the format."""

    #: who asks, for messages: ``"from_csv"``
    what: str
    plan: Plan
    separator: str | None
    dtype: torch.dtype | None
    nulls: Nulls

    @classmethod
    def of(
        cls,
        what: str,
        auto_batch_size: bool,
        batch_dims: int | None,
        device: DeviceLike | None,
        batch_size: BatchSize,
        separator: str | None,
        dtype: torch.dtype | None,
        nulls: Nulls,
        strict: bool,
    ) -> Asked:
        """The arguments of ``from_x``, checked."""
        asked = plan(what, auto_batch_size, batch_dims, batch_size, device, strict=strict)
        if separator == "":
            raise ValueError(f"{what}: expected a separator of at least one character, got ''")
        return cls(what, asked, separator, dtype, nulls)

    def of_file(self, name: str) -> Asked:
        """The same for a file, which the messages name, with problems of its own."""
        what = f"{self.what}: {name}"
        return self._replace(plan=self.plan._replace(what=what, problems=Problems(what)))

    def again(self) -> Asked:
        """The same for another part of the file, with problems of its own."""
        return self._replace(plan=self.plan._replace(problems=Problems(self.plan.what)))

    def path(self, column: str) -> tuple[str, ...]:
        """The key that a column is for."""
        return (column,) if self.separator is None else tuple(column.split(self.separator))

    def collection(self, cls: type[C], table: Any) -> C:
        """The collection that a table of Arrow makes.

        Raises:
            ConversionError: columns are missing, or cannot be read as what the class wants. All of them are listed.
        """
        how = reading_of(self.what, self.nulls)
        if self.dtype is None:
            return read_table(cls, table, self.plan, how, separator=self.separator)
        asked = self.plan
        if not asked.auto and asked.batch_size is None:
            asked = asked._replace(batch_size=Size((table.num_rows,)))
        values = table_values(cls, table, asked, how, separator=self.separator)
        return build(cls, _cast(values, self.dtype), asked)  # type: ignore[no-any-return]


def flattened(data: TensorCollection, separator: str | None) -> Any:
    """A table of Arrow with the values of a collection, nested ones under joined names where there is a separator."""
    return to_arrow(data if separator is None else TensorCollection.flatten_keys(data, separator))


def check_rows(data: TensorCollection, what: str) -> None:
    """Raises an error where a collection has not one batch dimension, the rows."""
    if data.batch_dims != 1:
        raise ValueError(
            f"{what}: expected one batch dimension, the rows; got the batch size {list(data.batch_size)}. reshape(-1) "
            "makes one of several"
        )


def _cast(values: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    return {
        key: value.to(dtype)
        if isinstance(value, Tensor)
        else _cast(cast("dict[str, Any]", value), dtype)
        if isinstance(value, dict)
        else value
        for key, value in values.items()
    }
