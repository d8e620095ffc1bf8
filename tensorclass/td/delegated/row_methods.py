"""Methods that choose, order and combine rows by their values, as tables do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from torch import Generator, Tensor
from typing_extensions import Self

from tensorclass.td.collection import Collection
from tensorclass.td.keys import NestedKey

from .declaration import delegated

if TYPE_CHECKING:
    from tensorclass.relational.row_groups import RowGroups
    from tensorclass.td.base import TensorCollection
    from tensorclass.td.tensordict import TensorDict

    C = TypeVar("C", bound="TensorCollection")

#: a key, or a list of keys; a tuple is one nested key
Keys: TypeAlias = "NestedKey | list[NestedKey]"


class RowOperations(Collection):
    """``filter``, ``sort_by``, ``unique``, ``group_by``, ``join`` and their kin. Rows lie along the first dimension."""

    __slots__ = ()

    @delegated("tensorclass.relational.row_selection")
    def filter(self, condition: Tensor | Sequence[bool] | Callable[[Self], Tensor]) -> Self:
        """Return the rows that fulfil a condition.

        Args:
            condition: a bool for each row, ``bool[rows]`` (or for each item of several batch dimensions), or a function
                that takes this collection and returns them.

        Returns:
            The rows in their order, as ``data[mask]`` gives them. From a file only these rows are read.

        Raises:
            TypeError: the condition is a string.
            ValueError: the condition is not bool, or has another shape.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"score": torch.tensor([0.1, 0.9, 0.5])}, [3])
            >>> data.filter(lambda rows: rows["score"] > 0.3)["score"]
            tensor([0.9000, 0.5000])
        """
        ...

    @delegated("tensorclass.relational.row_selection")
    def sort_by(self, by: Keys, *, descending: bool | Sequence[bool] = False) -> Self:
        """Return the rows in the order of one or several keys. Equal rows keep their order.

        Args:
            by: a key, or a list of keys of which the first counts most. Values are real numbers, text, or objects that
                can be sorted; rows of tensors are compared from the left.
            descending: largest first; one bool, or one for each key. Default: ``False``.

        Returns:
            The sorted rows. Rows without a value (NaN, ``None``) come last in both directions.

        Raises:
            KeyError: there is no such key.
            TypeError: the values of a key cannot be sorted.
            ValueError: there is no batch dimension, or the number of directions is not that of the keys.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "score": torch.tensor([0.5, 0.1, 0.9])}, [3])
            >>> data.sort_by(["label", "score"], descending=[False, True])["score"]
            tensor([0.1000, 0.9000, 0.5000])
        """
        ...

    @delegated("tensorclass.relational.row_selection")
    def unique(self, by: Keys | None = None) -> Self:
        """Return one row for each distinct value, sorted by it. Of several rows the first one is kept.

        Args:
            by: a key or a list of keys; all keys by default.

        Raises:
            KeyError: there is no such key.
            TypeError: the values of a key cannot be compared.
            ValueError: there is no batch dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"label": torch.tensor([1, 0, 1]), "row": torch.arange(3)}, [3]).unique("label")["row"]
            tensor([1, 0])
        """
        ...

    @delegated("tensorclass.relational.row_selection")
    def drop_duplicates(
        self, by: Keys | None = None, *, keep: Literal["first", "last"] | Literal[False] = "first"
    ) -> Self:
        """Return the rows without those that repeat another one, in their order.

        Args:
            by: a key or a list of keys; all keys by default.
            keep: the row that stays of several equal ones: ``"first"`` (default), ``"last"``, or ``False`` for none.

        Raises:
            KeyError: there is no such key.
            TypeError: the values of a key cannot be compared.
            ValueError: there is no batch dimension, or ``keep`` is something else.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"label": torch.tensor([1, 0, 1]), "row": torch.arange(3)}, [3])
            >>> data.drop_duplicates("label")["row"], data.drop_duplicates("label", keep=False)["row"]
            (tensor([0, 1]), tensor([1]))
        """
        ...

    @delegated("tensorclass.relational.row_selection")
    def value_counts(self, by: Keys, *, sort: bool = True) -> TensorDict:
        """Count the rows with each value.

        Args:
            by: a key or a list of keys.
            sort: the most frequent value first; with ``False`` in the order of the values. Default: ``True``.

        Returns:
            A row for each distinct value: the keys, and ``count``, int64.

        Raises:
            KeyError: there is no such key.
            TypeError: the values of a key cannot be compared.
            ValueError: there is no batch dimension, or a key is called ``count``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"label": torch.tensor([1, 0, 1])}, [3]).value_counts("label").to_dict()
            {'label': tensor([1, 0]), 'count': tensor([2, 1])}
        """
        ...

    @delegated("tensorclass.relational.row_groups")
    def group_by(self, by: Keys) -> RowGroups[Self]:
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
        ...

    @overload
    def join(
        self,
        other: TensorCollection,
        on: Keys,
        how: Literal["inner", "left", "right", "full", "semi", "anti"] = ...,
        *,
        right_on: Keys | None = ...,
        suffix: str = ...,
        fill: Mapping[str, Any] | None = ...,
        into: type[C],
    ) -> C: ...
    @overload
    def join(
        self,
        other: TensorCollection,
        on: Keys,
        how: Literal["semi", "anti"],
        *,
        right_on: Keys | None = ...,
        suffix: str = ...,
        fill: Mapping[str, Any] | None = ...,
        into: None = ...,
    ) -> Self: ...
    @overload
    def join(
        self,
        other: TensorCollection,
        on: Keys,
        how: Literal["inner", "left", "right", "full"] = ...,
        *,
        right_on: Keys | None = ...,
        suffix: str = ...,
        fill: Mapping[str, Any] | None = ...,
        into: None = ...,
    ) -> TensorDict: ...
    @delegated("tensorclass.relational.row_joins")
    def join(
        self,
        other: TensorCollection,
        on: Keys,
        how: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner",
        *,
        right_on: Keys | None = None,
        suffix: str = "_right",
        fill: Mapping[str, Any] | None = None,
        into: type[C] | None = None,
    ) -> Any:
        """Put rows of two collections with equal keys side by side.

        Args:
            other: the other collection.
            on: a key, or a list of keys, of both. NaN is equal to NaN, and ``None`` to ``None``.
            how: ``"inner"``: the pairs of equal keys; ``"left"``: also the rows here that have no partner;
                ``"right"``: also those of the other side; ``"full"``: also those of both sides (the outer join of other
                libraries); ``"semi"``: the rows here that have a partner; ``"anti"``: those that have none.
            right_on: the keys of the other side, if they have other names there; the result has those of ``on``.
            suffix: what is added to a key of the other side that is here, too. Default: ``"_right"``.
            fill: values where a row has no partner, by name in the result or by key of a side. Default: NaN for
                floating-point numbers, ``None`` for text, ragged rows and objects; other numbers need one.
            into: the record class of the result.

        Returns:
            The pairs: the keys here, and those of the other side. The keys of ``on`` are there once, with the value
            of the side that has the row. Pairs are in the order of the rows here, then of the other side; for
            ``"right"`` the other way round; for ``"full"`` rows of the other side without a partner come last.
            ``"semi"`` and ``"anti"`` give rows of this class.

        Raises:
            KeyError: a side lacks a key.
            TypeError: the values of a key are of two kinds, or cannot be compared.
            ValueError: values need a ``fill``, which has an unknown key or does not fit; names collide in spite of the
                suffix; ``how`` is something else.
            ConversionError: the result does not fit ``into``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> rows = TensorDict({"user": torch.tensor([2, 1, 2])}, [3])
            >>> users = TensorDict({"user": torch.tensor([1, 2]), "age": torch.tensor([30, 40])}, [2])
            >>> rows.join(users, on="user")["age"]
            tensor([40, 30, 40])
            >>> more = TensorDict({"user": torch.tensor([3, 1]), "city": ["Bonn", "Rome"]}, [2])
            >>> full = users.join(more, on="user", how="full", fill={"age": -1})
            >>> full["user"].tolist(), full["age"].tolist(), full["city"].tolist()
            ([1, 2, 3], [30, 40, -1], ['Rome', None, 'Bonn'])
        """
        ...

    @delegated("tensorclass.relational.row_splits")
    def random_split(self, lengths: Sequence[int | float], generator: Generator | None = None) -> tuple[Self, ...]:
        """Deal the rows out at random, as ``torch.utils.data.random_split`` does with data sets.

        Args:
            lengths: numbers of rows that sum to all, or fractions that sum to 1. Rows that rounding leaves go to the
                first parts, one each.
            generator: source of the random order. Default: torch's.

        Returns:
            The parts, of this class. Tensors are copied.

        Raises:
            ValueError: the lengths do not sum to the rows; there is no batch dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.arange(10)}, [10])
            >>> train, valid, test = data.random_split([0.8, 0.1, 0.1], torch.Generator().manual_seed(0))
            >>> len(train), len(valid), len(test)
            (8, 1, 1)
        """
        ...

    @delegated("tensorclass.relational.row_splits")
    def train_test_split(
        self,
        test_size: float = 0.25,
        *,
        shuffle: bool = True,
        stratify: Keys | None = None,
        generator: Generator | None = None,
    ) -> tuple[Self, Self]:
        """Hold out rows for a test.

        Args:
            test_size: the share of the rows, or their number (an int). Default: 0.25.
            shuffle: draw the rows at random. With ``False`` the last rows are held out. Default: ``True``.
            stratify: a key, or a list of keys: of each of their values the same share is held out, rounded.
            generator: source of the random order. Default: torch's.

        Returns:
            The rows to train with and those to test with, of this class. Tensors are copied.

        Raises:
            ValueError: ``test_size`` is no share and no number of rows; there is no batch dimension.
            KeyError: there is no key to stratify by.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"label": torch.tensor([0, 1]).repeat(4)}, [8])
            >>> train, test = data.train_test_split(0.25, stratify="label")
            >>> len(train), sorted(test["label"].tolist())
            (6, [0, 1])
        """
        ...
