"""Contracts of the rows of ragged columns: ``Ragged[Int[Tensor, "n"]]``."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .contract import Contract
from .dims import Dim
from .dtype_names import usual


@dataclasses.dataclass(frozen=True)
class RowContract:
    """Requirements on the rows of a ragged column: on the length of each row, and on its items.

    The first dimension of the annotation is the ragged one. Its name has a size for each row; names behind it are
    dimensions of an item, with one size in the record.

    >>> import typing
    >>> from tensorclass import Range, Shape
    >>> row = RowContract.of(typing.Annotated[Tensor, Shape("n 3"), Range(0, 1)])
    >>> row.length.name, row.item.dims[0].size, row.item.high
    ('n', 3, 1)
    """

    #: the length of a row; ``None``: any
    length: Dim | None
    #: the requirements on an item
    item: Contract
    #: the number of ragged dimensions; the length is that of the innermost one
    depth: int = 1
    #: alternatives, from a union of annotations
    others: tuple[RowContract, ...] = ()
    #: the annotation of the row, for messages
    shown: str = dataclasses.field(default="", compare=False)

    def __iter__(self) -> Iterator[RowContract]:
        """Iterate over this contract and its alternatives."""
        yield self
        yield from self.others

    @property
    def bounded(self) -> bool:
        """``True`` if there is a range, so that checking has to read the items."""
        return any(one.item.bounded for one in self)

    @property
    def expected(self) -> str:
        """The contract and its alternatives, for messages."""
        return " or ".join(["Ragged[" * one.depth + one.shown + "]" * one.depth for one in self])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of dimensions: that of the length first."""
        return tuple(dict.fromkeys([*(self.length.names if self.length is not None else ()), *self.item.names]))

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of rows without items; ``None`` if any will do."""
        return None if self.item.dtypes is None else usual(self.item.dtypes)[0]

    @property
    def item_shape(self) -> tuple[int, ...] | None:
        """The shape of an item; ``None`` unless each dimension is a number."""
        sizes = [dim.size for dim in self.item.dims or ()]
        known = tuple([size for size in sizes if size is not None])
        return known if self.item.dims is not None and len(known) == len(sizes) else None

    @classmethod
    def of(cls, row: Any, depth: int = 1, evaluate: Callable[[str], Any] | None = None) -> RowContract | None:
        """Return the contract of the annotation of a row, or ``None`` if it has none.

        Args:
            row: as for :meth:`Contract.of`.
            depth: the number of ragged dimensions.
            evaluate: evaluates an annotation that is text.

        Raises:
            TypeError: a row is not a tensor.
            ValueError: a row has no dimension, or the first one stands for several.
        """
        contract = Contract.of(row, evaluate)
        if contract is None:
            _check_is_tensor(row)
            return None
        first, *others = [_of_contract(one, depth) for one in (contract, *contract.others)]
        return dataclasses.replace(first, others=tuple(others))


def _of_contract(contract: Contract, depth: int) -> RowContract:
    dims, length = contract.dims, None
    if dims is not None:
        if not dims or (dims[0].variadic and dims[0].name is not None):
            raise ValueError(
                f"Ragged[{contract.shown}]: expected the length of a row as the first dimension, such as "
                f'Int[Tensor, "n"], got {" ".join([dim.text for dim in dims])!r}'
            )
        if not dims[0].variadic:
            length, dims = dims[0], dims[1:]
    item = dataclasses.replace(contract, dims=dims, others=())
    return RowContract(length, item, depth, shown=contract.shown)


def _check_is_tensor(row: Any) -> None:
    """Raise if an annotation says that rows are something other than tensors."""
    if row is Any or row is object or not isinstance(row, type) or typing.get_origin(row) is not None:
        return
    if not issubclass(row, Tensor):
        raise TypeError(
            f"Ragged[{row.__name__}]: the annotation of a row is a tensor: Ragged[Tensor], "
            'Ragged[Int[Tensor, "n"]]; for rows of objects use Column'
        )
