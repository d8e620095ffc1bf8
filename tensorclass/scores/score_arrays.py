"""The fields of a score record as arrays, run by run, and the tallies of its metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import nan, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.scores.labels import Vocabulary, common_codes, label_number, text_hash
from tensorclass.scores.metrics import Mean, Metric, check_metrics, declared_codes, declared_metrics
from tensorclass.scores.padded_verdicts import ragged
from tensorclass.scores.tally import Sample, Tally
from tensorclass.support.printable import type_name

_ALONE = text_hash("a prompt that is a cluster of its own")

__all__ = ["RecordRows", "RunRows", "Tallies", "plain_value", "pooling_notes", "tallies"]


class RecordRows:
    """A score record whose batch dimensions are sorted into runs, prompts and repeats.

    Args:
        record: the scores.
        dim: the batch dimensions to reduce: the last one holds the prompts, those before it repeats of them. The
            others are runs.
        keys: in the shape of the batch, a number for the prompt of each row; by default each row is a prompt of its
            own. Rows of a run with the same number are pooled within their prompt.
    """

    def __init__(self, record: TensorClass, dim: int | Sequence[int], keys: NDArray[np.int64] | None = None) -> None:
        self.record = record
        shape = tuple(record.batch_size)
        if not shape:
            raise ValueError(
                "batch size: expected at least one dimension, which holds the prompts, got []; "
                "give batch_size=[prompts]; of one prompt, score[i:i + 1] keeps it where score[i] does not"
            )
        asked = (dim,) if isinstance(dim, int) else tuple(dim)
        if not asked or any(not -len(shape) <= one < len(shape) for one in asked):
            raise ValueError(f"dim: expected batch dimensions of {list(shape)}, got {dim}")
        reduced = [one % len(shape) for one in asked]
        if len(set(reduced)) < len(reduced):
            raise ValueError(f"dim: expected each batch dimension once, got {dim}")
        kept = [one for one in range(len(shape)) if one not in reduced]
        self._order = [*kept, reduced[-1], *reduced[:-1]]
        self.runs: tuple[int, ...] = tuple(shape[one] for one in kept)
        self.prompts: int = shape[reduced[-1]]
        self._read: dict[tuple[str, str], Any] = {}  # what fields are, each read once
        self._repeats_are_rows = False
        self.keys: NDArray[np.int64] | None = None
        if keys is not None and all(shape[one] for one in reduced[:-1]):
            every = self._laid_out(keys)
            every = np.reshape(every, (*every.shape[:2], prod(every.shape[2:])))
            # Where repeats come in orders of their own, a place isn't one prompt: each row goes by its number.
            self._repeats_are_rows = bool((every != every[..., :1]).any())
            self.keys = self._laid_out(keys) if self._repeats_are_rows else every[..., 0]

    @cached_property
    def fields(self) -> dict[str, dataclasses.Field[Any]]:
        """The declared fields by name."""
        return {one.name: one for one in dataclasses.fields(self.record)}

    def each(self) -> list[RunRows]:
        """The runs, in the order of their (flattened) dimensions."""
        return [RunRows(self, run) for run in range(prod(self.runs))]

    def tensor(self, name: str) -> Tensor | None:
        """A field, padded where it is nested; None where it holds no tensor."""
        if name not in self.fields:
            raise ValueError(f"{name}: expected a field of {type_name(self.record)}: {', '.join(self.fields)}")
        value = getattr(self.record, name)
        if not isinstance(value, Tensor):
            return None
        value = value.detach()
        return ragged(value) if value.is_nested else value

    def labels(self, name: str) -> NDArray[np.float64] | None:
        """A number for each label, laid out as :attr:`numbers`; see :meth:`RunRows.labels`."""
        if name not in self.fields or declared_codes(self.fields[name].metadata) is None:
            return self.numbers(name)
        coded = self.codes(name)
        if coded is None:
            return None
        codes, names = coded
        return np.array([*map(label_number, names), nan])[codes]

    def numbers(self, name: str) -> NDArray[np.float64] | None:
        """A field as float64, ``[runs, prompts, repeats..., values...]``; None where it holds no tensor."""
        found: NDArray[np.float64] | None = self._once(self._read_numbers, name)
        return found

    def codes(self, name: str) -> tuple[NDArray[np.int64], Vocabulary] | None:
        """A field of codes in one vocabulary, laid out as :attr:`numbers`; None where it holds no tensor."""
        found: tuple[NDArray[np.int64], Vocabulary] | None = self._once(self._read_codes, name)
        return found

    def clusters(self, name: str) -> NDArray[np.int64]:
        """A number for the cluster of each prompt, ``[runs, prompts]``; see :meth:`RunRows.clusters`."""
        found: NDArray[np.int64] = self._once(self._read_clusters, name)
        return found

    def _once(self, read: Callable[[str], Any], name: str) -> Any:
        key = (read.__name__, name)
        if key not in self._read:
            self._read[key] = read(name)
        return self._read[key]

    def _read_clusters(self, name: str) -> NDArray[np.int64]:
        tensor = self.tensor(name)
        if tensor is None:
            raise ValueError(f"{name}: expected the cluster of each prompt, as a code or another integer, got None")
        shape = tuple(self.record.batch_size)
        if tuple(tensor.shape) != shape or tensor.is_floating_point() or tensor.is_complex():
            raise ValueError(
                f"{name}: expected one integer a prompt, shape {list(shape)}, as it says which prompts belong "
                f"together, got {tensor.dtype} {list(tensor.shape)}"
            )
        if declared_codes(self.fields[name].metadata) is None:
            return self._of_prompts(name, self._laid_out(tensor.cpu().long().numpy()))
        codes, names = self._named(name, tensor)
        table = np.array([*map(text_hash, names), 0], dtype=np.int64)
        # A prompt without a cluster is one of its own: the same in every run that holds the prompt.
        every: NDArray[np.int64] = np.arange(int(codes.shape[1]), dtype=np.int64)
        keys = every[None, :] if self.keys is None else self.keys
        own = np.broadcast_to(np.expand_dims(keys, tuple(range(keys.ndim, codes.ndim))), codes.shape) ^ _ALONE
        return self._of_prompts(name, np.where(codes < 0, own, table[codes]))

    def _of_prompts(self, name: str, clusters: NDArray[np.int64]) -> NDArray[np.int64]:
        """One cluster for each prompt, or an error if its repeats have several, or prompts of two tasks share one."""
        found = np.reshape(clusters, (*clusters.shape[:2], -1))
        apart = np.argwhere(found != found[..., :1])
        if len(apart):
            row = int(apart[0][1])
            raise ValueError(f"{name}: expected one cluster for all repeats of a prompt, got several in row {row}")
        tasks = self.codes("prompt_task") if "prompt_task" in self.fields else None
        if tasks is not None:
            for run, codes in enumerate(tasks[0]):
                _check_tasks(name, found[run], np.reshape(codes, (len(codes), -1)), tasks[1])
        return found[..., 0]

    def _read_numbers(self, name: str) -> NDArray[np.float64] | None:
        tensor = self.tensor(name)
        if tensor is None:
            return None
        if tensor.is_complex():
            raise ValueError(f"{name}: expected bools or real numbers, got {tensor.dtype}")
        numbers: NDArray[np.float64] = tensor.cpu().double().numpy()
        if np.isinf(numbers).any():
            raise ValueError(
                f"{name}: expected finite numbers (NaN where there is none), got an infinite one at position "
                f"{[int(axis[0]) for axis in np.nonzero(np.isinf(numbers))]}"
            )
        return self._laid_out(numbers)

    def _read_codes(self, name: str) -> tuple[NDArray[np.int64], Vocabulary] | None:
        tensor = self.tensor(name)
        return None if tensor is None else self._named(name, tensor)

    def _named(self, name: str, tensor: Tensor) -> tuple[NDArray[np.int64], Vocabulary]:
        if tensor.is_floating_point() or tensor.is_complex():
            raise ValueError(f"{name}: expected integer codes, got {tensor.dtype}")
        declared = declared_codes(self.fields[name].metadata)
        names = None if declared is None else plain_value(getattr(self.record, declared.names))
        try:
            codes, vocabulary = common_codes(tensor.cpu().long().numpy(), names, tuple(self.record.batch_size))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return self._laid_out(codes), vocabulary

    def _laid_out(self, values: NDArray[Any]) -> NDArray[Any]:
        ndim = len(self._order)
        values = np.transpose(values, (*self._order, *range(ndim, values.ndim)))
        values = np.reshape(values, (prod(self.runs), *values.shape[len(self.runs) :]))
        if self._repeats_are_rows:
            inner = 1 + ndim - len(self.runs)
            values = np.reshape(values, (len(values), -1, *values.shape[inner:]))
        return values


@dataclasses.dataclass(frozen=True, eq=False)
class RunRows:
    """One run of a record, as metrics read it."""

    whole: RecordRows
    run: int

    @cached_property
    def keys(self) -> NDArray[np.int64] | None:
        """A number for each prompt, in the order of the tallies: rising where rows are pooled; None without ids."""
        if self.whole.keys is None:
            return None
        return self.whole.keys[self.run] if self._are_distinct else self._prompts[0]

    @cached_property
    def rows(self) -> int:
        """The number of rows of the run; repeats of a prompt in a dimension of their own count once."""
        return self.whole.prompts if self.whole.keys is None else len(self.whole.keys[self.run])

    @cached_property
    def prompts(self) -> int:
        """The number of prompts of the run; repeats count once."""
        return self.rows if self.keys is None else len(self.keys)

    def pooled(self, part: Tally | Sample) -> Tally | Sample:
        """Convert a tally or a sample of rows to one of prompts: the rows of a prompt are pooled."""
        return part if self.prompts == self.rows else part.pooled(self._prompts[1])

    @cached_property
    def _are_distinct(self) -> bool:
        """Return whether each row is a prompt of its own."""
        assert self.whole.keys is not None
        keys = np.sort(self.whole.keys[self.run])
        return not (keys[1:] == keys[:-1]).any()

    @cached_property
    def _prompts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys of the prompts, and the place among them of each row, where prompts have several rows."""
        assert self.whole.keys is not None
        return np.unique(self.whole.keys[self.run], return_inverse=True)

    def numbers(self, field: str) -> NDArray[np.float64] | None:
        """``[prompts, ...]`` as float64, or None where the record doesn't hold the field."""
        values = self.whole.numbers(field)
        return None if values is None else values[self.run]

    def codes(self, field: str) -> tuple[NDArray[np.int64], Vocabulary] | None:
        """``[prompts, ...]`` and the names of the codes, or None where the record doesn't hold the field."""
        coded = self.whole.codes(field)
        return None if coded is None else (coded[0][self.run], coded[1])

    def labels(self, field: str) -> NDArray[np.float64] | None:
        """``[prompts, ...]``, a number for each label, the same in every run; NaN where there is none.

        Codes with names become numbers of their names, other fields stay as they are.
        """
        values = self.whole.labels(field)
        return None if values is None else values[self.run]

    def clusters(self, field: str) -> NDArray[np.int64]:
        """``[prompts]``, a number for the cluster of each prompt: for the same name or number in every run the same.

        Args:
            field: an integer field with one value a prompt: codes with names, of which a negative one makes the prompt
                a cluster of its own, or any other numbers.

        Raises:
            ValueError: the record doesn't hold the field, its shape is another, the rows of a prompt have several
                clusters, or a cluster holds prompts of several tasks.
        """
        clusters: NDArray[np.int64] = self.whole.clusters(field)[self.run]
        if self.prompts < self.rows:
            place = self._prompts[1]
            first = np.unique(place, return_index=True)[1]
            apart = np.flatnonzero(clusters != clusters[first][place])
            if len(apart):
                row, other = int(apart[0]), int(first[place[apart[0]]])
                raise ValueError(
                    f"{field}: expected one cluster for all rows of a prompt, got several in rows {other} and {row}, "
                    "which have the same prompt_id"
                )
        return clusters


@dataclasses.dataclass(frozen=True, eq=False)
class Tallies:
    """Contributions of the prompts of one run: tallies to ratios of sums, samples to other figures.

    Attributes:
        figures: by name, in the order of the fields.
        groups: by the name of the figure and of the group.
    """

    figures: dict[str, Tally | Sample]
    groups: dict[str, dict[str, Tally | Sample]]

    @property
    def sums(self) -> dict[str, Tally]:
        """The figures that are ratios of sums."""
        return _sums(self.figures)

    @property
    def group_sums(self) -> dict[str, dict[str, Tally | Sample]]:
        """The groups of figures that are ratios of sums."""
        return {name: {**_sums(own)} for name, own in self.groups.items()}


def _sums(parts: Mapping[str, Tally | Sample]) -> dict[str, Tally]:
    return {name: part for name, part in parts.items() if isinstance(part, Tally)}


def tallies(
    rows: RunRows, metrics: Mapping[str, Metric | Sequence[Metric]] | None = None, cluster: str | None = None
) -> Tallies:
    """The tallies of one run by the metrics declared at the fields, or by those given in their place.

    Args:
        rows: the run.
        metrics: metrics by field, in place of the declared ones.
        cluster: a field of clusters for metrics that name none of their own; by default the one that the class names.
    """
    if cluster is None:
        cluster = getattr(type(rows.whole.record), "cluster_field", None)
    clusters = None if cluster is None else rows.clusters(cluster)

    def of_prompts(part: Tally | Sample) -> Tally | Sample:
        if part.cluster is None and clusters is not None:
            part = dataclasses.replace(part, cluster=clusters)
        return rows.pooled(part)

    fields = rows.whole.fields
    metrics = metrics or {}
    for name in metrics:
        if name not in fields:
            raise ValueError(f"metrics: expected fields of {type_name(rows.whole.record)}, got {name!r}")
    check = getattr(type(rows.whole.record), "check_rows", None)
    if check is not None:
        check(rows)
    found = Tallies({}, {})
    for name, field in fields.items():
        for one in _metrics_of(rows.whole, field, metrics.get(name)):
            parts: list[Tally | Sample] = [*one.tallies(name, rows), *one.samples(name, rows)]
            for part in parts:
                if part.name in found.figures:
                    raise ValueError(f"{name}: two metrics are named {part.name!r}; name one of them otherwise")
                found.figures[part.name] = of_prompts(part)
            for groups in (one.groups(name, rows), one.sample_groups(name, rows)):
                for figure, members in groups.items():
                    own = found.groups.setdefault(figure, {})
                    own.update((group, of_prompts(part)) for group, part in members.items())
    return found


def pooling_notes(runs: Iterable[RunRows]) -> Iterator[tuple[str, str]]:
    """Notes on runs whose rows of one prompt are pooled, each with the position of the run, empty for a single one."""
    for one in runs:
        if one.prompts < one.rows:
            position = list(map(int, np.unravel_index(one.run, one.whole.runs)))
            note = f"{one.rows} rows hold {one.prompts} prompts: rows of one prompt are its repeats, and pooled"
            yield str(position or ""), note


def _check_tasks(name: str, clusters: NDArray[np.int64], tasks: NDArray[np.int64], names: Vocabulary) -> None:
    """Raise if a cluster holds prompts of two tasks: numbers that start anew in each task are no clusters of all."""
    known = tasks >= 0
    pairs = np.unique(np.stack([clusters[known], tasks[known]], axis=1), axis=0)
    crossing = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if len(crossing):
        a, b = (names[int(pairs[place, 1])] for place in (crossing[0], crossing[0] + 1))
        row = int(np.flatnonzero((clusters == pairs[crossing[0], 0]).any(axis=1))[0])
        raise ValueError(
            f"{name}: expected clusters of one task each, got the cluster of row {row} in {a!r} and in {b!r}; give the "
            "clusters of each task names or numbers of their own"
        )


def plain_value(value: Any) -> Any:
    """A plain field's value: the object, or nested lists of them where they differ from position to position."""
    return value.tolist() if hasattr(value, "tolist") else value


def _metrics_of(
    record: RecordRows, field: dataclasses.Field[Any], given: Metric | Sequence[Metric] | None
) -> Sequence[Metric]:
    if given is not None:
        return check_metrics((given,) if isinstance(given, (Metric, str)) else given)
    declared = declared_metrics(field.metadata)
    if declared is not None:
        return declared
    return (Mean(),) if record.tensor(field.name) is not None else ()
