"""One object for all rows of a batch, which rows cannot differ in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import pytree
from tensorclass.td.collection import Collection
from tensorclass.td.keys import dotted
from tensorclass.td.safe_unpickling import allow_class

from .leaf import Leaf, Uniform
from .nontensor import NonTensorData
from .nontensor_base import NonTensorDataBase
from .object_codes import same_object, to_lists

#: advice for a field whose rows differ
ADVICE = "declare it Text (a string a row) or Column[...] (an object a row), or make the class with stack_objects=True"


class RowsDiffer(RuntimeError, ValueError):
    """Rows with different objects met in a field that holds one object for all rows."""


class BatchObject(NonTensorData):
    """The object of a record's field that is annotated ``str``, ``list`` or with another class.

    It is one object for the batch, whatever is stacked or concatenated. Rows with different objects do not fit
    together. A field with an object for each row is declared :class:`Text`, :class:`Ragged` or :class:`Column`, or its
    class is made with ``stack_objects=True``.

    Args:
        data: the object.
        batch_size: the batch size. Default: none.

    Raises:
        RowsDiffer: objects that differ are stacked, concatenated or written to some of the rows.

    Example:
        >>> import torch
        >>> from tensorclass import TensorClass, stack
        >>> class Sample(TensorClass):
        ...     x: torch.Tensor
        ...     source: str
        >>> rows = [Sample(torch.zeros(2), "web"), Sample(torch.zeros(2), "web")]
        >>> stack(rows).source
        'web'
    """

    __slots__ = ()

    def _captures(self) -> bool:
        return True

    def _object_of(self, rows: object) -> Any:
        """Return the only object of other data. Raise if there are several."""
        if isinstance(rows, NonTensorData):
            return rows._objects[0]
        if isinstance(rows, NonTensorDataBase):
            return one_object(rows)
        raise RuntimeError(f"an object of all rows does not fit together with a {type_name(rows)}")

    def _check_same(self, items: Sequence[Any]) -> None:
        mine = self._objects[0]
        for item in items:
            other = self._object_of(item)
            if not same_object(mine, other):
                rows_differ(mine, other)

    def _stack(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(NonTensorDataBase, items, None)
        self._check_same(items)
        return self._stacked_as_one(items, dim)

    def _cat(self, items: list[Any], dim: int) -> Any:
        self._check_joinable(NonTensorDataBase, items, dim)
        self._check_same(items)
        return self._joined_as_one(items, dim)

    def _where(self, condition: Tensor, other: Any, pad: float | None, path: tuple[str, ...]) -> Any:
        if isinstance(other, NonTensorDataBase):
            try:
                self._check_same([other])
            except RowsDiffer as error:
                raise RowsDiffer(f"where: {dotted(path)}: {error}") from None
        return self._shallow()

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        super()._check_rows(rows, ndim, row_ndim, path)
        try:
            self._check_same([rows])
        except RowsDiffer as error:
            raise RowsDiffer(f"{dotted(path)}: {error}; nothing was written") from None

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Collection:
        self._check_same([rows])
        return self

    _padded = Uniform._padded  # no row gets another object

    def _as_held(self, source: NonTensorDataBase) -> NonTensorDataBase:
        new = self._like({}, self._batch_size, self._names)
        new._objects = (self._object_of(source),)
        return new

    def _allocated(self, batch_size: Size) -> Self:
        return self._like({}, batch_size)

    def maybe_to_stack(self) -> NonTensorDataBase:
        return self

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        return NonTensorData(self._objects[0], batch_size=self._batch_size, device=self._device)


def one_object(rows: Leaf) -> Any:
    """Return the object that all rows share.

    Raises:
        RowsDiffer: they differ.
    """
    if rows._is_uniform:
        return rows._unwrapped()
    objects, coded = rows._coded_objects()
    if len(objects) and all(same_object(objects[0], other) for other in objects[1:]):
        return objects[0]  # codes are not read: fake tensors have none
    codes = to_lists(coded.reshape(-1))
    if not codes:
        return None
    first = objects[codes[0]]
    for code in set(codes):
        if not same_object(first, objects[code]):
            rows_differ(first, objects[code])
    return first


def rows_differ(one: Any, other: Any) -> NoReturn:
    """Raise the error for rows with different objects."""
    raise RowsDiffer(
        f"the rows differ, {one!r:.60} and {other!r:.60}, and the field holds one object for all rows; {ADVICE}"
    )


pytree.register(BatchObject)
allow_class(BatchObject)
