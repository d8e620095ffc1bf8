"""Groups of rows, and figures of each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

import torch
from torch import Tensor

from tensorclass.records.fields import shown_value
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.keys import NestedKey, dotted, unravel_key_to_tuple
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.tensordict import TensorDict

from .key_codes import KeyCodes, Keys, as_keys, key_codes, key_columns, leaf_keys
from .row_order import stable_order
from .row_selection import columns_of

METHODS_OF = "RowOperations"

T = TypeVar("T", bound=Collection)  # as the family of methods that returns groups

#: an aggregation of ``agg``: the name of an aggregation of a key, ``"count"``, or a function of the rows of a group
Aggregation: TypeAlias = "str | tuple[NestedKey, str] | tuple[NestedKey, Callable[[Any], Any]]"


def group_by(self: T, by: Keys) -> RowGroups[T]:
    """Group the rows by their values under one or several keys.

    Args:
        by: a key or a list of keys: real numbers, text, or objects that can be hashed and sorted.

    Returns:
        The groups, sorted by their keys. Iterate over pairs of a key and its rows, or compute figures with
        :meth:`~tensorclass.relational.row_groups.RowGroups.agg`. NaN and ``None`` are groups, too.

    Raises:
        KeyError: there is no such key.
        TypeError: the values of a key cannot be compared.
        ValueError: there is no batch dimension.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "score": torch.tensor([0.5, 1.0, 1.5])}, [3])
        >>> data.group_by("label").agg(score=("score", "mean"), rows="count").to_dict()
        {'label': tensor([0, 1]), 'score': tensor([1., 1.]), 'rows': tensor([1, 2])}
    """
    keys = as_keys(by)
    data: Any = self
    return RowGroups(self, keys, key_codes("group_by", data, keys))


class RowGroups(Generic[T]):
    """Rows of a collection in groups of equal keys, in the order of the keys.

    Made by :meth:`TensorDict.group_by`. Iterating gives a pair for each group: its key (a tuple of keys, if there are
    several) and its rows.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "score": torch.tensor([0.5, 1.0, 1.5])}, [3])
        >>> groups = data.group_by("label")
        >>> len(groups), [(label, rows["score"].tolist()) for label, rows in groups]
        (2, [(0, [1.0]), (1, [0.5, 1.5])])
        >>> groups.agg(score=("score", "mean"), rows="count").to_dict()
        {'label': tensor([0, 1]), 'score': tensor([1., 1.]), 'rows': tensor([1, 2])}
    """

    def __init__(self, data: T, keys: Sequence[tuple[str, ...]], codes: KeyCodes) -> None:
        self._data: T = data
        self._rows_of: Any = data  # with all families of methods
        self._by = list(keys)
        self._codes = codes
        self._order: Tensor | None = None

    def __len__(self) -> int:
        return self._codes.count

    def __repr__(self) -> str:
        by = ", ".join(repr(dotted(key)) for key in self._by)
        return f"RowGroups(by {by}: {len(self)} groups of {len(self._codes.codes)} rows)"

    def __iter__(self) -> Iterator[tuple[Any, T]]:
        keys = self.keys()
        for position, rows in enumerate(self._rows()):
            values = [_plain(keys._index_value(position)._find(key)) for key in self._by]
            yield (tuple(values) if len(values) > 1 else values[0]), self._rows_of[rows]

    def keys(self) -> TensorDict:
        """Return the keys of the groups: a row for each group.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"label": torch.tensor([1, 0, 1])}, [3]).group_by("label").keys()["label"]
            tensor([0, 1])
        """
        return columns_of(self._rows_of, self._by, self._codes.first_rows())

    def sizes(self) -> Tensor:
        """Return the number of rows in each group, ``int64[groups]``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"label": torch.tensor([1, 0, 1])}, [3]).group_by("label").sizes()
            tensor([1, 2])
        """
        return self._codes.counts()

    def agg(self, *everywhere: str, **named: Aggregation) -> TensorDict:
        """Compute figures of each group.

        Args:
            everywhere: names of aggregations of all keys of numbers: ``agg("mean")`` gives the mean under each key,
                ``agg("min", "max")`` under ``key_min`` and ``key_max``.
            named: figures by name: ``"count"`` for the number of rows, or a pair of a key and an aggregation. It is one
                of ``count`` (rows with a value), ``sum``, ``mean``, ``var``, ``std`` (both with n - 1), ``min``,
                ``max``, ``median``, ``first``, ``last``, ``nunique``, or a function that takes the values of one group
                and returns a number or tensor.

        Returns:
            A collection with a row for each group: its keys, then the figures. ``sum`` and ``mean`` of float32 are
            computed in float64 and returned in float32; ``mean``, ``var``, ``std`` and ``median`` of integers are
            float32. NaN is no value, except for ``first`` and ``last``; figures of no values are NaN.

        Raises:
            KeyError: there is no such key.
            TypeError: the key holds no numbers.
            ValueError: there is no such aggregation; a figure has the name of a key; integers have no value for an
                aggregation.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "score": torch.tensor([0.5, 1.0, 1.5])}, [3])
            >>> data.group_by("label").agg(
            ...     best=("score", "max"), range=("score", lambda x: x.max() - x.min())
            ... ).to_dict()
            {'label': tensor([0, 1]), 'best': tensor([1.0000, 1.5000]), 'range': tensor([0., 1.])}
        """
        if (wrong := next((one for one in everywhere if not isinstance(one, str)), None)) is not None:
            raise TypeError(
                f"agg: expected names of aggregations, got {shown_value(wrong)}; give figures of one key by name, with "
                "the key and the aggregation: agg(x=('key', 'mean'))"
            )
        result = self.keys()
        for key, names in self._figures_of_all(everywhere).items():
            for name, how in names:
                _add(result, (*key[:-1], name), self._figure(key, how))
        for name, asked in named.items():
            if asked == "count":
                _add(result, (name,), self.sizes())
            elif isinstance(asked, tuple) and len(asked) == 2:
                _add(result, (name,), self._figure(unravel_key_to_tuple(asked[0]), asked[1]))
            else:
                raise ValueError(
                    f"agg: {name}: expected 'count', or a pair of a key and an aggregation, such as ('score', 'mean'); "
                    f"got {asked!r}"
                )
        return result

    if not TYPE_CHECKING:  # to type checkers every attribute would exist

        def __getattr__(self, name: str) -> NoReturn:
            if name in AGGREGATIONS:  # as pandas has them
                raise AttributeError(f"groups have no method {name}(); use agg({name!r}), or agg(x=('key', {name!r}))")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _figures_of_all(self, aggregations: Sequence[str]) -> dict[tuple[str, ...], list[tuple[str, str]]]:
        """Return the figures of all numbers by key: pairs of a name and an aggregation."""
        found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for key in leaf_keys(self._rows_of) if aggregations else ():
            if key not in self._by and type(self._rows_of._find(key)) is Tensor:
                several = len(aggregations) > 1
                found[key] = [(f"{key[-1]}_{one}" if several else key[-1], one) for one in aggregations]
        return found

    def _figure(self, key: tuple[str, ...], aggregation: str | Callable[[Any], Any]) -> Tensor:
        column: Any = key_columns("agg", self._rows_of, [key])[0]
        if callable(aggregation):
            values = [aggregation(column[rows]) for rows in self._rows()]
            return torch.stack([torch.as_tensor(value) for value in values]) if values else torch.zeros(0)
        make = AGGREGATIONS.get(aggregation)
        if make is None:
            raise ValueError(
                f"agg: {dotted(key)}: expected one of {', '.join(AGGREGATIONS)}, or a function, got {aggregation!r}"
                + did_you_mean(aggregation, AGGREGATIONS)
            )
        if aggregation == "nunique":
            return self._distinct(key)
        if not isinstance(column, Tensor) or column.is_nested or column.is_complex():
            name = key[0] if len(key) == 1 else key
            reduced = f"data.to_tensordict().set({name!r}, data[{name!r}].mean()).group_by(...)"
            hint = f"; reduce each of its rows first: {reduced}" if content_kind(column) is Content.RAGGED else ""
            raise TypeError(
                f"agg: {dotted(key)}: {aggregation!r} takes a tensor of real numbers, got a {type_name(column)}{hint}"
            )
        return make(_Values(column, self._codes, self._rows))

    def _distinct(self, key: tuple[str, ...]) -> Tensor:
        """Return the number of distinct values in each group."""
        both = key_codes("agg", self._rows_of, [*self._by, key])
        return torch.bincount(self._codes.codes[both.first_rows()], minlength=len(self))

    def _rows(self) -> tuple[Tensor, ...]:
        """Return the rows of each group."""
        if self._order is None:
            self._order = stable_order(self._codes.codes)
        return self._order.split(self.sizes().tolist())  # type: ignore[no-any-return, no-untyped-call]


def _add(result: TensorDict, key: tuple[str, ...], figure: Tensor) -> None:
    if key in result.keys(True):
        raise ValueError(f"agg: {dotted(key)}: there is a key of this name; give the figure another one")
    result[key] = figure


def _plain(value: Any) -> Any:
    """Return a number of a tensor without dimensions."""
    return value.item() if isinstance(value, Tensor) and not value.ndim else value


# -- aggregations -----------------------------------------------------------------------------------------------------


class _Values:
    """The values of a key, with the group of each row. Values of further dimensions are aggregated one by one."""

    def __init__(self, column: Tensor, codes: KeyCodes, rows: Callable[[], tuple[Tensor, ...]]) -> None:
        self.column = column
        self.codes = codes.codes
        self.groups = codes.count
        self.rows = rows
        self.sizes = codes.counts
        self.missing = column.isnan() if column.is_floating_point() else None
        if self.missing is not None and not bool(self.missing.any()):
            self.missing = None

    def figures_dtype(self) -> torch.dtype:
        return self.column.dtype if self.column.is_floating_point() else torch.get_default_dtype()

    def added(self, values: Tensor) -> Tensor:
        """Return the sums by group."""
        if values.ndim == 1:
            return torch.bincount(self.codes, weights=values, minlength=self.groups).to(values.dtype)
        out = torch.zeros((self.groups, *values.shape[1:]), dtype=values.dtype, device=values.device)
        return out.index_add_(0, self.codes, values)

    def present(self) -> Tensor:
        """Return the number of values by group, which the figures divide by."""
        if self.missing is None:
            counts = self.sizes()
            return counts.reshape(-1, *[1] * (self.column.ndim - 1)).expand(self.groups, *self.column.shape[1:])
        return self.added(self.missing.logical_not().double()).to(torch.int64)

    def doubles(self) -> Tensor:
        values = self.column.double()
        return values if self.missing is None else values.nan_to_num(0.0, float("inf"), float("-inf"))

    def reduced(self, how: str) -> Tensor:
        values = self.column.to(torch.uint8) if self.column.dtype is torch.bool else self.column
        if self.missing is not None:
            values = torch.where(self.missing, float("inf") if how == "amin" else float("-inf"), values)
        out = values.new_zeros((self.groups, *values.shape[1:]))
        index = self.codes.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
        out = out.scatter_reduce_(0, index, values, how, include_self=False)
        if self.missing is not None:
            out = torch.where(self.present() == 0, float("nan"), out)
        return out.to(self.column.dtype)


def _sum(values: _Values) -> Tensor:
    if values.column.is_floating_point():
        return values.added(values.doubles()).to(values.column.dtype)
    out = torch.zeros((values.groups, *values.column.shape[1:]), dtype=torch.int64, device=values.column.device)
    return out.index_add_(0, values.codes, values.column.to(torch.int64))


def _mean_in_double(values: _Values) -> Tensor:
    return values.added(values.doubles()) / values.present()


def _var_in_double(values: _Values) -> Tensor:
    away = values.doubles() - _mean_in_double(values).nan_to_num(0.0)[values.codes]
    if values.missing is not None:
        away = away.masked_fill(values.missing, 0.0)
    count = values.present()
    return values.added(away * away) / torch.where(count > 1, count - 1, torch.nan)


def _median(values: _Values) -> Tensor:
    rows = [values.column[rows].to(values.figures_dtype()) for rows in values.rows()]
    return torch.stack([torch.nanquantile(part, 0.5, dim=0) for part in rows]) if rows else values.column.new_zeros(0)


#: figures by name; ``nunique`` compares codes
AGGREGATIONS: dict[str, Callable[[_Values], Tensor]] = {
    "count": lambda values: values.present().contiguous(),
    "sum": _sum,
    "mean": lambda values: _mean_in_double(values).to(values.figures_dtype()),
    "var": lambda values: _var_in_double(values).to(values.figures_dtype()),
    "std": lambda values: _var_in_double(values).sqrt().to(values.figures_dtype()),
    "min": lambda values: values.reduced("amin"),
    "max": lambda values: values.reduced("amax"),
    "median": _median,
    "first": lambda values: values.column[KeyCodes(values.codes, values.groups).first_rows()],
    "last": lambda values: values.column[KeyCodes(values.codes, values.groups).last_rows()],
    "nunique": lambda values: values.codes,
}
