"""The base of score records: a batch of prompts with their scores, which knows how its metrics aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor

from tensorclass import TensorClass, Text, field, stack
from tensorclass.scores.estimate import Estimate, IntervalKwargs, estimate
from tensorclass.scores.identity import prompt_keys
from tensorclass.scores.metrics import Metric, Rows, codes, metric
from tensorclass.scores.repeated_runs import RepeatedRun, RepeatedTally, check_repeats, repeated_runs
from tensorclass.scores.report import Report
from tensorclass.scores.score_arrays import RecordRows, Tallies, pooling_notes, tallies
from tensorclass.scores.tally import Sample, Tally
from tensorclass.scores.variance_components import VarianceComponents, variance_record

__all__ = ["ScoreData"]

_NONE = np.zeros(0, dtype=np.int64)


class ScoreData(TensorClass, stack_objects=True):
    """Scores of a model on a batch of prompts; the base of all families of metrics.

    A subclass declares its metrics as fields, with the prompts as batch dimension. An unmarked tensor field is a metric
    whose figure is the mean over all its values: ``[prompts]`` bools or numbers, or ``[prompts, n]`` floats for up to n
    values a prompt, padded with NaN. Declare another way to aggregate at the field, with
    :func:`~tensorclass.scores.metric`.

    Like any record, scores can be indexed, shuffled, concatenated, stacked and saved; :meth:`aggregate` gives the same
    figures for the same prompts.

    Attributes:
        prompt_id: int64 ``[prompts]``, the same number for the same prompt in every run, by which
            runs are paired. Rows of a run with the same number are repeats of one prompt.
        prompt_task: integer ``[prompts]``, the task of each prompt as a code, -1 where it isn't known. Runs of
            different tasks can't be compared.
        task_names: the names of the codes.
        prompt: the text of each prompt, where it is wanted (:func:`~tensorclass.scores.with_texts`); else None.
        response: likewise, what the model answered.

    Example:
        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import field
        >>> from tensorclass.scores import Mean, ScoreData, metric
        >>> class ToxicityScoreData(ScoreData):
        ...     toxicity: Tensor | None
        ...     length: Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))
        >>> scores = ToxicityScoreData(torch.tensor([0.0, 0.5, 0.1]), torch.tensor([10, 20, 33]), batch_size=[3])
        >>> report = scores.aggregate()
        >>> f"{report['toxicity'].value:.2f} {report['length'].value:.1f}"
        '0.20 21.0'
    """

    prompt_id: Tensor | None = field(default=None, kw_only=True, metadata=metric())
    prompt_task: Tensor | None = field(default=None, kw_only=True, metadata=codes("task_names"))
    task_names: tuple[str, ...] | None = field(default=None, kw_only=True, metadata=metric())
    prompt: Text | None = field(default=None, kw_only=True, metadata=metric())
    response: Text | None = field(default=None, kw_only=True, metadata=metric())

    cluster_field: ClassVar[str | None] = None
    """The field of clusters for metrics that name none of their own; ``aggregate(cluster=...)`` comes before it."""

    ragged_width: ClassVar[int] = 1
    """The least width that readers pad ragged fields to, so that records from different files can be stacked."""

    @classmethod
    def check_rows(cls, rows: Rows) -> None:
        """Raise an error if the fields of a prompt contradict each other. Families override it.

        :meth:`aggregate` and :func:`~tensorclass.scores.compare` call it before they make figures.

        Args:
            rows: the fields of one run, prompts in front.

        Raises:
            ValueError: fields contradict each other. Here: never.

        Example:
            >>> import torch
            >>> from torch import Tensor
            >>> from tensorclass.scores import ScoreData
            >>> class Ranked(ScoreData):
            ...     top1: Tensor | None
            ...     top5: Tensor | None
            ...
            ...     @classmethod
            ...     def check_rows(cls, rows):
            ...         if (rows.numbers("top1") > rows.numbers("top5")).any():
            ...             raise ValueError("top5: expected at least top1")
            >>> Ranked(torch.ones(2), torch.zeros(2), batch_size=[2]).aggregate()
            Traceback (most recent call last):
            ValueError: top5: expected at least top1
        """

    def aggregate(
        self,
        *,
        dim: int | Sequence[int] = -1,
        seed: int = 0,
        resamples: int | None = None,
        confidence: float = 0.95,
        interval: str = "auto",
        metrics: Mapping[str, Metric | Sequence[Metric]] | None = None,
        cluster: str | None = None,
        repeats: str = "pooled",
    ) -> Report:
        """Compute every metric with its count and confidence interval.

        The last batch dimension holds the prompts and is reduced; dimensions in front of it stay, as they do in
        ``mean(-1)``. So ``torch.stack([gpt4o, llama3]).aggregate()`` gives figures of batch size ``[2]``, the same as
        two calls.

        Intervals are t intervals over prompts, in which the verdicts of a prompt stay together. For shares, about two
        prompts with everything right and two with everything wrong are added first (sources:
        :func:`~tensorclass.scores.intervals.interval_of_ratio`). Figures that are no ratio of sums have bootstrap
        intervals (:class:`~tensorclass.scores.RowMetric`). The same prompts in another order give the same intervals.
        Rows with the same ``prompt_id`` are repeats of one prompt: they are pooled, and the report's ``notes`` say so.

        Args:
            dim: the batch dimensions to reduce. The last one given holds the prompts; those given before it hold
                repeats of the same prompts (seeds, samples), which are pooled within their prompt; by ``prompt_id``
                where there is one, else by position.
            seed: the seed of the bootstrap.
            resamples: the number of bootstrap resamples; by default 10,000, or fewer (at least 1,000) where more than
                20,000 prompts have nearly all distinct values; 2,000, or fewer, of figures that are no ratio of sums.
            confidence: the level of the intervals, 0.95 for 95 %.
            interval: ``"auto"`` as said above; ``"bootstrap"`` for the percentile bootstrap over prompts wherever
                they vary.
            metrics: metrics to use in place of the declared ones, by field; an empty sequence leaves the field out.
            cluster: the field that says which prompts belong together, such as questions on the same passage: an
                integer field with one number a prompt, or codes with names (:func:`~tensorclass.scores.codes`).
                Intervals and standard errors are then over clusters. Metrics may name another,
                ``Mean(cluster="passage")``.
            repeats: ``"pooled"`` within their prompts, as said at ``dim``; right where repeats of a prompt vary on
                their own, as sampled answers do. ``"random"`` for repeats that shift all prompts, such as training
                seeds: the interval then covers other repeats, too
                (:func:`~tensorclass.scores.crossed.crossed_interval`).

        Returns:
            The figures by name, as fractions 0..1 where they are shares, and by group where a metric has groups. A
            field that is None has no figure.

        Raises:
            ValueError: the record has no batch dimension, ``dim`` names none of them, or a field can't be aggregated.

        Example:
            >>> import torch
            >>> from tensorclass.scores import IFEvalScoreData, ragged
            >>> scores = IFEvalScoreData(
            ...     torch.tensor([True, False]), ragged([[1], [1, 0, 1]]), None, None, batch_size=[2]
            ... )
            >>> report = scores.aggregate()
            >>> report["prompt_level_strict_acc"].value.item(), report["inst_level_strict_acc"].value.item()
            (0.5, 0.75)
        """
        settings: IntervalKwargs = {"seed": seed, "resamples": resamples, "confidence": confidence}
        found: Sequence[Tallies | RepeatedRun]
        notes: list[str] = []
        if check_repeats(repeats):
            if interval != "auto":
                raise ValueError(f"interval: expected 'auto', since repeats='random', got {interval!r}")
            shape, found = repeated_runs(self, dim, prompt_keys(self), metrics, cluster)
        else:
            rows = RecordRows(self, dim, prompt_keys(self))
            shape, each_run = rows.runs, rows.each()
            found = [tallies(run, metrics, cluster) for run in each_run]
            notes = [f"run {place}: {note}" if place else note for place, note in pooling_notes(each_run)]
            about = {name: one.about for run in found for name, one in run.figures.items() if isinstance(one, Sample)}
            notes += [f"{name}: {text}" for name, text in about.items() if text]

        def one_of(part: Tally | Sample | RepeatedTally) -> Estimate:
            if isinstance(part, RepeatedTally):
                return part.estimate(confidence=confidence)
            return estimate(part, interval=interval, **settings)

        def figure(parts: Sequence[Tally | Sample | RepeatedTally | None]) -> Estimate:
            present = next(part for part in parts if part is not None)
            each = [one_of(present.at(_NONE) if part is None else part) for part in parts]
            return stack(each).reshape(shape) if shape else each[0]

        names = dict.fromkeys(name for run in found for name in run.figures)
        figures = {name: figure([run.figures.get(name) for run in found]) for name in names}
        groups: dict[str, dict[str, Estimate]] = {}
        for name in dict.fromkeys(name for run in found for name in run.groups):
            parts = [run.groups.get(name, {}) for run in found]
            members = sorted({member for part in parts for member in part})
            groups[name] = {member: figure([part.get(member) for part in parts]) for member in members}
        return Report(
            figures=figures, groups=groups, family=type(self).__name__, batch_size=shape, notes=tuple(notes), **settings
        )

    def variance_components(
        self,
        *,
        dim: Sequence[int],
        metrics: Mapping[str, Metric | Sequence[Metric]] | None = None,
        cluster: str | None = None,
    ) -> dict[str, VarianceComponents]:
        """Compute how much of the variance of verdicts comes from prompts, from repeats (seeds) and from neither.

        Args:
            dim: the batch dimensions of the repeats, and last that of the prompts.
            metrics: metrics to use in place of the declared ones, as in :meth:`aggregate`.
            cluster: the field of clusters, which then take the place of prompts.

        Returns:
            The variances by the name of the figure, with the remaining dimensions as batch dimensions.

        Raises:
            ValueError: fewer than two repeats, repeats of other prompts, or a figure that is no ratio of sums.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData
            >>> seeds = torch.tensor([[1.0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [1, 1, 0, 1, 1]])
            >>> found = ExactMatchScoreData(seeds, batch_size=[3, 5]).variance_components(dim=(0, 1))
            >>> f"{found['exact_match'].prompts:.3f}"
            '0.150'

        Source: Searle, Casella and McCulloch, 1992, "Variance Components", section 4.3.
        """
        shape, runs = repeated_runs(self, dim, prompt_keys(self), metrics, cluster)
        found: dict[str, VarianceComponents] = {}
        for name in runs[0].figures:
            each = [variance_record(run.figures[name].variance()) for run in runs if name in run.figures]
            if len(each) == len(runs):
                found[name] = stack(each).reshape(shape) if shape else each[0]
        return found
