"""The scores of a log, gathered row by row under the names that the log gives them, and the run that they make."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorclass.scores.labels import Vocabulary, merge, translate
from tensorclass.scores.limits import check_shares
from tensorclass.scores.logged_kinds import LOGGED_KINDS, fields_of_kind
from tensorclass.scores.logged_scores import NAMES_OF, LoggedMetric, family_of, field_names
from tensorclass.scores.metrics import declared_codes
from tensorclass.scores.readers.growing_columns import PromptColumn, TaskColumn, shown
from tensorclass.scores.readers.metric_units import unit_of
from tensorclass.scores.readers.run import Run
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.support.printable import class_name

__all__ = ["GatheredScores"]

_NAN: Final = float("nan")
_LARGEST: Final = float(np.finfo(np.float32).max)  # the largest number in the record
_MOST_GROUPS: Final = 100
_LONGEST_LABEL: Final = 200  # longer text is no name of a group


class GatheredScores:
    """Columns of scores, of labels and of prompts, which grow row by row.

    A metric or label that a row lacks is NaN, or no label, there.

    Args:
        path: the file, for errors.

    Attributes:
        rows: the number of rows added.
    """

    def __init__(self, path: str) -> None:
        self.rows: int = 0
        self._path = path
        self._numbers: dict[str, _Numbers] = {}
        self._labels: dict[str, _Labels] = {}
        self._prompts = PromptColumn()
        self._tasks = TaskColumn(())

    def add(
        self,
        document: str,
        values: Mapping[str, object],
        *,
        labels: Mapping[str, object] | None = None,
        task: str | None = None,
        text: str | None = None,
        line: int | None = None,
    ) -> None:
        """Add a row.

        Args:
            document: what identifies the document in its task. Rows of the same document are its repeats.
            values: numbers or verdicts by metric; None where not scored.
            labels: what may group the rows: short text, numbers or verdicts by label. Other values are no labels.
            task: the task of the document, if it is known.
            text: the text of the prompt, if it identifies the document in files of other formats, too.
            line: where the row stands, for errors.

        Raises:
            ScoreFileError: a value is no number, or not finite.
        """
        for name, value in values.items():
            column = self._numbers.get(name)
            if column is None:
                column = self._numbers[name] = _Numbers(self.rows)
            try:
                column.add(value)
            except TypeError as error:
                raise ScoreFileError(self._path, line, f"{name}: expected {error}") from None
        for name, value in (labels or {}).items():
            if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= _LONGEST_LABEL):
                if name not in self._labels:
                    self._labels[name] = _Labels(self.rows)
                self._labels[name].add(value)
        self.rows += 1
        if len(values) < len(self._numbers):
            for column in self._numbers.values():
                column.fill(self.rows)
        for label in self._labels.values():
            label.fill(self.rows)
        self._prompts.add(document, text)
        self._tasks.add(task)

    def metrics(self) -> list[str]:
        """The metrics that at least one row has a value of, in the order of their first row."""
        return [name for name, column in self._numbers.items() if column.is_scored()]

    def run(
        self,
        family: type[ScoreData] | None = None,
        *,
        kinds: Mapping[str, str] | None = None,
        groups: Collection[str] | None = None,
        cluster: str | None = None,
        **about: Any,
    ) -> Run:
        """The run that the rows make.

        Args:
            family: the class of the scores, with fields named as the metrics; by default one made for them.
            kinds: the kind of each metric that is no mean; see :data:`~tensorclass.scores.logged_kinds.LOGGED_KINDS`.
                Rows have the values of its other fields as well.
            groups: the labels by whose groups figures are given; by default those with at least two values, at most
                half as many as there are rows, and at most a hundred. Numbers are labels only if they are whole.
            cluster: the label of prompts that are not independent of each other.
            about: the other fields of the run.

        Raises:
            ScoreFileError: the family has no field for any of the metrics, or a label isn't there.
        """
        groups = self._groups(groups)
        clusters = () if cluster is None else (cluster,)
        for label in (*groups, *clusters):
            if label not in self._labels:
                known = ", ".join(self._labels) or "none"
                raise ScoreFileError(self._path, None, f"{label}: expected a label of the rows ({known})")
        held = tuple(dict.fromkeys((*groups, *clusters)))
        metrics = self.metrics()
        fields: dict[str, Any] = {
            "prompt_id": self._prompts.tensor(1),
            "prompt_task": self._tasks.tensor(1),
            "task_names": self._tasks.vocabulary,
        }
        if family is None:
            family, names = self._made(metrics, kinds or {}, held, tuple(groups), cluster)
            fields.update((names[name], self._numbers[name].tensor()) for name in metrics)
            for label in held:
                fields[names[label]], fields[NAMES_OF + names[label]] = self._labels[label].coded()
        else:
            fields.update(self._declared(family, metrics))
        others = [name for name in self._labels if name not in held]
        if others:
            about["left_out"] = (*about.get("left_out", ()), f"labels that make no groups: {', '.join(others)}")
        return Run(scores=family(**fields, batch_size=[self.rows]), **about)

    def _made(
        self,
        metrics: Sequence[str],
        kinds: Mapping[str, str],
        labels: tuple[str, ...],
        groups: tuple[str, ...],
        cluster: str | None,
    ) -> tuple[type[ScoreData], dict[str, str]]:
        """A family for the metrics, and the field of each metric and label."""
        others = {other for name, kind in kinds.items() for other in fields_of_kind(name, kind)[1:]}
        declared: list[LoggedMetric] = []
        for name in metrics:
            if name in kinds:
                declared.append((name, LOGGED_KINDS[kinds[name]].unit, kinds[name]))
            elif name not in others:
                declared.append((name, self._unit(name)))
        fields = [one for name, _, *kind in declared for one in fields_of_kind(name, *kind or ("mean",))]
        return family_of(tuple(declared), labels, groups, cluster), field_names(fields, labels)

    def _unit(self, name: str) -> str:
        numbers = self._numbers[name].numbers()
        unit = unit_of(name.rpartition("/")[2], numbers)
        if unit == "%":
            try:
                check_shares(name, numbers)
            except ValueError as error:
                raise ScoreFileError(self._path, None, str(error)) from None
        return unit

    def _groups(self, asked: Collection[str] | None) -> list[str]:
        if asked is not None:
            return list(asked)
        most = min(_MOST_GROUPS, self.rows // 2)
        return [name for name, column in self._labels.items() if column.is_grouping and 2 <= column.distinct <= most]

    def _declared(self, family: type[ScoreData], metrics: Collection[str]) -> dict[str, Any]:
        """The fields of a class that the caller declared."""
        declared = dataclasses.fields(family)
        fields: dict[str, Any] = {
            one.name: None
            for one in declared
            if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        }
        found = [one.name for one in declared if one.name in metrics]
        if not found:
            raise ScoreFileError(
                self._path,
                None,
                f"expected a metric of {class_name(family)} ({', '.join(one.name for one in declared)}), "
                f"got {', '.join(metrics)}",
            )
        fields.update((name, self._numbers[name].tensor()) for name in found)
        for one in declared:
            codes = declared_codes(one.metadata)
            label = "" if codes is None or not codes.logged else codes.logged[-1]
            if codes is not None and label in self._labels:
                fields[one.name], fields[codes.names] = self._labels[label].coded(codes.vocabulary)
        return fields


class _Numbers:
    """A number or verdict a row, NaN where there is none."""

    def __init__(self, rows: int) -> None:
        self._values = array("d", [_NAN]) * rows
        self._is_bool = not rows

    def add(self, value: object) -> None:
        if value is True or value is False:
            self._values.append(value)
            return
        self._is_bool = False
        if value is None:
            value = _NAN
        if not isinstance(value, (int, float)) or abs(value) > _LARGEST:
            raise TypeError(f"a finite number or true or false, got {shown(value)}")
        self._values.append(value)

    def fill(self, rows: int) -> None:
        """Fill up to ``rows`` rows."""
        if len(self._values) < rows:
            self._is_bool = False
            self._values.append(_NAN)

    def is_scored(self) -> bool:
        return bool((~np.isnan(self.numbers())).any())

    def tensor(self) -> Tensor:
        values = torch.as_tensor(self.numbers(), device="cpu")
        return values.to(torch.bool if self._is_bool else torch.float32)

    def numbers(self) -> NDArray[np.float64]:
        """The value of each row."""
        return np.array(self._values, dtype=np.float64)


class _Labels:
    """A name a row, as a code; -1 where there is none."""

    def __init__(self, rows: int) -> None:
        self._codes: dict[str, int] = {}
        self._values = array("i", [-1]) * rows
        self.is_grouping = True  # text, verdicts or whole numbers

    @property
    def distinct(self) -> int:
        return len(self._codes)

    def add(self, value: str | float) -> None:
        if isinstance(value, float):
            self.is_grouping = False
        self._values.append(self._codes.setdefault(str(value), len(self._codes)))

    def fill(self, rows: int) -> None:
        """Fill up to ``rows`` rows."""
        if len(self._values) < rows:
            self._values.append(-1)

    def coded(self, vocabulary: Vocabulary = ()) -> tuple[Tensor, Vocabulary]:
        """The codes of the rows and their names, after those of a vocabulary."""
        own = tuple(self._codes)
        names = merge((vocabulary, own))
        codes = translate(np.array(self._values, dtype=np.int64), own, names)
        return torch.as_tensor(codes, device="cpu").to(torch.int32), names
