"""Columns of metrics whose rows hold pairs, of which one figure is made: classes, sets of labels, likelihoods."""

from __future__ import annotations

import re
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorclass.scores.labels import merge
from tensorclass.scores.logged_kinds import LOGGED_KINDS
from tensorclass.scores.readers.growing_columns import Misfit, NumberColumn, RaggedLabelColumn, shown

__all__ = ["PairColumn", "pair_column"]

_PERPLEXITIES: Final = frozenset(("word_perplexity", "byte_perplexity", "bits_per_byte"))


class PairColumn(ABC):
    """Values of a metric, and the arrays that a figure is made of.

    Args:
        metric: the name of the metric.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The kinds of figures that the rows may stand for: names in ``LOGGED_KINDS``."""

    @property
    def about_kinds(self) -> str:
        """The kinds in words."""
        return " or ".join(LOGGED_KINDS[kind].about for kind in self.kinds)

    @property
    @abstractmethod
    def is_certain(self) -> bool:
        """True if the first kind is meant, whatever other programs say."""

    @abstractmethod
    def add(self, value: object) -> None:
        """Add the value of the next row. Raise a TypeError that says what was expected if it doesn't fit."""

    @abstractmethod
    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """The values of all rows: of the field of the metric, and of the other fields."""

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        """Pairs are added one by one."""
        raise Misfit

    def tensors(self) -> tuple[Tensor, ...]:
        """The values of the fields."""
        return tuple(torch.tensor(array, dtype=torch.float32, device="cpu") for array in self.arrays())


class _NumberPairs(PairColumn, metaclass=ABCMeta):
    """A pair of numbers a row."""

    about: ClassVar[str]  # a pair, in words

    def __init__(self, metric: str) -> None:
        super().__init__(metric)
        self._first, self._second = NumberColumn(), NumberColumn()

    def pair(self, value: object) -> tuple[object, object]:
        """The two numbers of a row."""
        return _pair(value, self.about)

    def add(self, value: object) -> None:
        first, second = self.pair(value)
        self._first.add(first)
        self._second.add(second)

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        return tuple(column.numbers().astype(np.float64) for column in (self._first, self._second))


class _ClassPairs(_NumberPairs):
    """The expected and the predicted class of each row, as numbers."""

    about = "the expected and the predicted class"

    @property
    def kinds(self) -> tuple[str, ...]:
        if "mcc" in self.metric or "matthews" in self.metric:
            return ("mcc",)
        named = {"weighted": "weighted_f1", "macro": "macro_f1", "micro": "accuracy"}
        first = next((kind for word, kind in named.items() if word in self.metric), "f1")
        return tuple(dict.fromkeys((first, "f1", "weighted_f1", "macro_f1", "accuracy")))

    @property
    def is_certain(self) -> bool:
        classes = np.unique(np.concatenate(self.arrays()))
        return self.kinds[0] != "f1" or set(classes.tolist()) <= {0.0, 1.0}

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        return super().arrays()[::-1]  # predicted classes first


class _Likelihoods(_NumberPairs):
    """The log-likelihood of each row, and the number of its units: one where the log has none."""

    about = "a log-likelihood and its number of units"

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("bits",) if self.metric == "bits_per_byte" else ("perplexity",)

    @property
    def is_certain(self) -> bool:
        return True

    def pair(self, value: object) -> tuple[object, object]:
        if self.metric not in _PERPLEXITIES:
            return value, 1.0
        likelihood, units = super().pair(value)
        if isinstance(units, (int, float)) and not units > 0:
            raise TypeError(f"a number of units above 0, got {shown(value)}")
        return likelihood, units


class _LabelSets(PairColumn):
    """The expected and the predicted labels of each row: for each label, whether it is among them."""

    def __init__(self, metric: str) -> None:
        super().__init__(metric)
        self._expected, self._predicted = RaggedLabelColumn(()), RaggedLabelColumn(())

    @property
    def kinds(self) -> tuple[str, ...]:
        kinds = ("multilabel_f1", "multilabel_macro_f1")
        return kinds[::-1] if "macro" in self.metric else kinds

    @property
    def is_certain(self) -> bool:
        return "macro" in self.metric or "micro" in self.metric

    def add(self, value: object) -> None:
        expected, predicted = _pair(value, "the expected and the predicted labels")
        self._expected.add(expected)
        self._predicted.add(predicted)

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        labels = merge((self._expected.vocabulary, self._predicted.vocabulary))
        predicted, expected = (_indicators(column, labels) for column in (self._predicted, self._expected))
        numbers = np.broadcast_to(np.arange(len(labels), dtype=np.float64), predicted.shape)
        return predicted, expected, numbers


def pair_column(metric: str, value: object) -> PairColumn | None:
    """Return the column for a metric by its name and the value in the first row; None for other values.

    Example:
        >>> type(pair_column("f1", [1, 0])).__name__, pair_column("f1", ["a text", ["another"]])
        ('_ClassPairs', None)
    """
    if metric == "perplexity" and isinstance(value, (int, float)):
        return _Likelihoods(metric)
    if not isinstance(value, list) or len(cast("list[object]", value)) != 2:
        return None
    pair = cast("list[object]", value)
    are_numbers = all(isinstance(one, (int, float)) for one in pair)
    if are_numbers and metric in _PERPLEXITIES:
        return _Likelihoods(metric)
    if not re.search("f1|mcc|matthews", metric):
        return None
    if are_numbers and all(isinstance(one, int) or cast("float", one).is_integer() for one in pair):
        return _ClassPairs(metric)
    return _LabelSets(metric) if all(map(_is_labels, pair)) else None


def _is_labels(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value))


def _pair(value: object, what: str) -> tuple[object, object]:
    given = value
    pair = cast("list[object]", value) if isinstance(value, list) else []
    if len(pair) != 2:
        raise TypeError(f"a pair, {what}, got {shown(given)}")
    return pair[0], pair[1]


def _indicators(column: RaggedLabelColumn, labels: tuple[str, ...]) -> NDArray[np.float64]:
    """``[rows, labels]``, 1 where a row has the label."""
    codes = column.tensor(1).numpy()
    place = np.array([*map(labels.index, column.vocabulary), len(labels)])
    found = np.zeros((len(codes), len(labels) + 1))
    np.put_along_axis(found, place[codes], 1.0, axis=1)
    return found[:, :-1]
