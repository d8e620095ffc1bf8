"""The scores of a log, gathered row by row under the names that the log gives them, and the run that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tensorclass.scores.identity import prompt_keys
from tensorclass.scores.labels import Vocabulary, merge, translate
from tensorclass.scores.limits import check_shares, finite_number
from tensorclass.scores.logged_kinds import LOGGED_KINDS, fields_of_kind
from tensorclass.scores.logged_scores import NAMES_OF, LoggedMetric, family_of, field_names
from tensorclass.scores.metrics import declared_codes
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.growing_columns import AnyLabelColumn, NumberColumn, PromptColumn, TaskColumn
from tensorclass.scores.readers.metric_units import unit_of
from tensorclass.scores.readers.run import PromptText, Run, run_name
from tensorclass.scores.score_arrays import RecordRows, tallies
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.support.printable import class_name

__all__ = ["GatheredScores"]

_AGREEMENT: Final = 5e-5  # of published figures: harnesses write four digits or more
_MOST_GROUPS: Final = 100
_LONGEST_LABEL: Final = 200  # longer text is no name of a group


class GatheredScores:
    """Columns of scores, of labels and of prompts, which grow row by row.

    A metric or label that a row lacks is NaN, or no label, there.

    Args:
        head: the file.

    Attributes:
        rows: the number of rows added.
    """

    def __init__(self, head: FileHead) -> None:
        self.rows: int = 0
        self._head = head
        self._path = str(head.path)
        self._numbers: dict[str, NumberColumn] = {}
        self._labels: dict[str, _Labels] = {}
        self._prompts = PromptColumn()
        self._tasks = TaskColumn(())
        self._usage: dict[str, list[float]] = {}

    def use(self, usage: Mapping[str, object]) -> None:
        """Add what the answer of a row took: ``cost`` (US dollars), ``tokens``, ``seconds``. Skip what is no number.

        Args:
            usage: amounts by name.
        """
        for name, amount in usage.items():
            found = None if isinstance(amount, bool) else finite_number(amount)
            if found is not None and found >= 0:
                self._usage.setdefault(name, []).append(found)

    def add(
        self,
        document: str,
        values: Mapping[str, object],
        *,
        labels: Mapping[str, object] | None = None,
        task: str | None = None,
        text: str | None = None,
        line: int | None = None,
        usage: Mapping[str, object] | None = None,
    ) -> None:
        """Add a row.

        Args:
            document: what identifies the document in its task. Rows of the same document are its repeats.
            values: numbers or verdicts by metric; None where not scored.
            labels: what may group the rows: short text, numbers or verdicts by label. Other values are no labels.
            task: the task of the document, if it is known.
            text: the text of the prompt, if it identifies the document in files of other formats, too.
            line: where the row stands, for errors.
            usage: see :meth:`use`.

        Raises:
            ScoreFileError: a value is no number, or not finite.
        """
        for name, value in values.items():
            column = self._numbers.get(name)
            if column is None:
                column = self._numbers[name] = NumberColumn()
                column.fill(self.rows)
            try:
                column.add(value)
            except TypeError as error:
                raise ScoreFileError(self._path, line, f"{name}: expected {error}") from None
        for name, value in (labels or {}).items():
            if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= _LONGEST_LABEL):
                if name not in self._labels:
                    self._labels[name] = _Labels()
                    self._labels[name].fill(self.rows)
                self._labels[name].add(value)
        self.rows += 1
        if len(values) < len(self._numbers):
            for column in self._numbers.values():
                column.fill(self.rows)
        for label in self._labels.values():
            label.fill(self.rows)
        self._prompts.add(document, text)
        self._tasks.add(task)
        self.use(usage or {})

    def metrics(self) -> list[str]:
        """The metrics that at least one row has a value of, in the order of their first row."""
        return [name for name, column in self._numbers.items() if not np.isnan(column.numbers()).all()]

    def run(
        self,
        format: str,
        family: type[ScoreData] | None = None,
        *,
        name: str | None = None,
        beside: Sequence[Path] = (),
        texts: Callable[[], Iterator[PromptText]] | None = None,
        kinds: Mapping[str, str] | None = None,
        groups: Collection[str] | None = None,
        cluster: str | None = None,
        published_in: str = "",
        may_differ: bool = False,
        **about: Any,
    ) -> Run:
        """The run that the rows make. Figures that were published of it are compared with those of the rows.

        Args:
            format: the name of the reader.
            family: the class of the scores, with fields named as the metrics; by default one made for them.
            name: of the run; by default that of the file.
            beside: files that were read as well.
            texts: reads the texts of the rows again, if the file can be.
            kinds: the kind of each metric that is no mean; see :data:`~tensorclass.scores.logged_kinds.LOGGED_KINDS`.
                Rows have the values of its other fields as well.
            groups: the labels by whose groups figures are given; by default those with at least two values, at most
                half as many as there are rows, and at most a hundred. Numbers are labels only if they are whole.
            cluster: the label of prompts that are not independent of each other.
            published_in: what publishes figures of the run.
            may_differ: the harness may compute figures otherwise than as means over rows: those that differ are noted.
            about: the other fields of the run.

        Raises:
            ScoreFileError: the family has no field for any of the metrics, a label isn't there, or a published figure
                differs.
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
            fields.update((names[metric], self._numbers[metric].tensor(1)) for metric in metrics)
            for label in held:
                fields[names[label]], fields[NAMES_OF + names[label]] = self._labels[label].coded()
        else:
            fields.update(self._declared(family, metrics))
        others = [label for label in self._labels if label not in held]
        if others:
            about["left_out"] = (*about.get("left_out", ()), f"labels that make no groups: {', '.join(others)}")
        run = Run(
            name=run_name(self._head.path) if name is None else name,
            scores=family(**fields, batch_size=[self.rows]),
            files=(self._path, *map(str, beside)),
            format=format,
            texts=texts if self._head.can_be_read_again else None,
            usage={name: sum(amounts) / len(amounts) for name, amounts in self._usage.items()},
            **about,
        )
        return _checked(run, published_in, may_differ) if run.published else run

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
        numbers = self._numbers[name].numbers().astype(np.float64)
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
            known = f"{class_name(family)} ({', '.join(one.name for one in declared)})"
            raise ScoreFileError(self._path, None, f"expected a metric of {known}, got {', '.join(metrics)}")
        fields.update((name, self._numbers[name].tensor(1)) for name in found)
        for one in declared:
            codes = declared_codes(one.metadata)
            label = "" if codes is None or not codes.logged else codes.logged[-1]
            if codes is not None and label in self._labels:
                fields[one.name], fields[codes.names] = self._labels[label].coded(codes.vocabulary)
        return fields


class _Labels(AnyLabelColumn):
    """A label of the rows, which may group them."""

    def __init__(self) -> None:
        super().__init__(())
        self.is_grouping = True  # text, verdicts or whole numbers

    @property
    def distinct(self) -> int:
        return len(self._codes)

    def add(self, value: object) -> None:
        self.is_grouping = self.is_grouping and not isinstance(value, float)
        super().add(value)

    def fill(self, rows: int) -> None:
        """Fill up to so many rows."""
        self._values.extend([-1] * (rows - len(self._values)))

    def coded(self, vocabulary: Vocabulary = ()) -> tuple[Tensor, Vocabulary]:
        """The codes of the rows and their names, after those of a vocabulary."""
        names = merge((vocabulary, self.vocabulary))
        codes = translate(np.array(self._values, dtype=np.int64), self.vocabulary, names)
        return torch.as_tensor(codes, device="cpu").to(torch.int32), names


def _checked(run: Run, where: str, may_differ: bool) -> Run:
    """Compare each published figure of a run with that of its rows. One that differs is an error, or else a note."""
    (rows,) = RecordRows(run.scores, -1, prompt_keys(run.scores)).each()
    notes: list[str] = []
    for name, tally in tallies(rows).sums.items():
        said, count = run.published.get(name), tally.denominator.sum()
        if said is None or not count:
            continue
        own = float(tally.numerator.sum() / count)
        if isclose(own, said.value, rel_tol=_AGREEMENT, abs_tol=_AGREEMENT):
            continue
        note = f"{name}: the rows give {own:.6g}, but {where} says {said.value:.6g}"
        if not may_differ:
            raise ScoreFileError(
                run.files[0], None, f"{note}; these are files of different runs, or one of them was changed"
            )
        notes.append(note)
    return dataclasses.replace(run, notes=(*run.notes, *notes)) if notes else run
