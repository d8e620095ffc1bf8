"""Prompts that changed sides: those that two runs score differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.comparison import pair
from tensorclass.scores.identity import paired_keys
from tensorclass.scores.score_arrays import RecordRows, RunRows, tallies
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.tally import Tally

__all__ = ["ChangedPrompt", "ChangedPrompts", "changed_prompts", "prompt_figures"]

_SMALLEST = 1e-12  # differences below are rounding errors


@dataclass(frozen=True)
class ChangedPrompt:
    """One prompt, scored differently by two runs.

    Attributes:
        row_a: its row in the first run; the first one if there are repeats.
        row_b: its row in the second run.
        a: its score in the first run, a mean over its verdicts.
        b: its score in the second run.

    Example:
        >>> from tensorclass.scores.changed_prompts import ChangedPrompt
        >>> ChangedPrompt(row_a=3, row_b=5, a=0.0, b=1.0).b
        1.0
    """

    row_a: int
    row_b: int
    a: float
    b: float


@dataclass(frozen=True, eq=False)
class ChangedPrompts:
    """The prompts that two runs score differently, those with the largest differences first.

    Equal differences are in the order of the first run. Iterate over it for each :class:`ChangedPrompt`.

    Attributes:
        figure: the name of the figure.
        unit: its unit; ``"%"`` for fractions 0..1.
        compared: the number of prompts that count in both runs.
        rows_a: int64 ``[changed]``, the row of each prompt in the first run.
        rows_b: int64 ``[changed]``, its row in the second run.
        a: float64 ``[changed]``, its score in the first run.
        b: float64 ``[changed]``, its score in the second run.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> from tensorclass.scores.changed_prompts import changed_prompts
        >>> a = ExactMatchScoreData(torch.tensor([1.0, 0, 0, 1]), batch_size=[4])
        >>> b = ExactMatchScoreData(torch.tensor([0.0, 1, 0, 1]), batch_size=[4])
        >>> found = changed_prompts(a, b, "exact_match")
        >>> found.compared, found.rises, found.falls, [one.row_a for one in found]
        (4, 1, 1, [0, 1])
    """

    figure: str
    unit: str
    compared: int
    rows_a: NDArray[np.int64]
    rows_b: NDArray[np.int64]
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    @property
    def rises(self) -> int:
        """The number of prompts that the second run scores higher."""
        return int((self.b > self.a).sum())

    @property
    def falls(self) -> int:
        """The number of prompts that the second run scores lower."""
        return int((self.b < self.a).sum())

    def __len__(self) -> int:
        return len(self.a)

    def __iter__(self) -> Iterator[ChangedPrompt]:
        for row_a, row_b, a, b in zip(self.rows_a, self.rows_b, self.a, self.b, strict=True):
            yield ChangedPrompt(int(row_a), int(row_b), float(a), float(b))


def changed_prompts(
    a: ScoreData, b: ScoreData, figure: str | None = None, *, with_equal: bool = False
) -> ChangedPrompts:
    """Find the prompts that two runs score differently.

    Prompts are paired as :func:`~tensorclass.scores.compare` pairs them.

    Args:
        a: the first run, of one batch dimension.
        b: the second run.
        figure: the name of a figure that both have; by default the first one of :func:`prompt_figures`.
        with_equal: whether to return prompts with equal scores as well, after the others.

    Returns:
        The prompts whose scores differ.

    Raises:
        ValueError: a run lacks the figure, or no figure scores prompts in both; no prompt is in both runs; the runs
            are of different tasks.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> from tensorclass.scores.changed_prompts import changed_prompts
        >>> a = ExactMatchScoreData(torch.tensor([1.0, 0]), prompt_id=torch.tensor([7, 8]), batch_size=[2])
        >>> b = ExactMatchScoreData(torch.tensor([1.0, 1]), prompt_id=torch.tensor([8, 7]), batch_size=[2])
        >>> list(changed_prompts(a, b, "exact_match"))
        [ChangedPrompt(row_a=1, row_b=0, a=0.0, b=1.0)]
    """
    keys_a, keys_b = paired_keys(a, b)
    (run_a,), (run_b,) = RecordRows(a, -1, keys_a).each(), RecordRows(b, -1, keys_b).each()
    figures_a, figures_b = tallies(run_a).sums, tallies(run_b).sums
    if figure is None:
        figure = next((name for name in figures_a if name in figures_b), None)
    if figure is None:
        raise ValueError(
            "expected a figure that is a mean over prompts in both runs, "
            f"got {', '.join(figures_a) or 'none'} and {', '.join(figures_b) or 'none'}"
        )
    tally_a, tally_b = _tally("a", figures_a, figure), _tally("b", figures_b, figure)
    places_a, places_b = pair(run_a.keys, run_b.keys, run_a.prompts, run_b.prompts)
    values_a, values_b = _means(tally_a)[places_a], _means(tally_b)[places_b]
    compared = ~np.isnan(values_a) & ~np.isnan(values_b)
    size = np.where(compared, np.abs(values_b - values_a), 0.0)
    rows_a, rows_b = _first_rows(run_a)[places_a], _first_rows(run_b)[places_b]
    order = np.lexsort((rows_a, -size))
    order = order[compared[order] if with_equal else size[order] > _SMALLEST]
    return ChangedPrompts(
        figure=figure,
        unit=tally_a.unit,
        compared=int(compared.sum()),
        rows_a=rows_a[order],
        rows_b=rows_b[order],
        a=values_a[order],
        b=values_b[order],
    )


def prompt_figures(a: ScoreData, b: ScoreData) -> list[str]:
    """The figures that score each prompt in both runs: ratios of sums, not a macro-F1 or a perplexity.

    Args:
        a: the first run, of one batch dimension.
        b: the second run.

    Example:
        >>> import torch
        >>> from tensorclass.scores import MultipleChoiceScoreData
        >>> from tensorclass.scores.changed_prompts import prompt_figures
        >>> a = MultipleChoiceScoreData(acc=torch.ones(2), acc_norm=torch.ones(2), batch_size=[2])
        >>> b = MultipleChoiceScoreData(acc=torch.ones(2), batch_size=[2])
        >>> prompt_figures(a, b)
        ['acc']
    """
    (run_a,), (run_b,) = RecordRows(a, -1).each(), RecordRows(b, -1).each()
    held = tallies(run_b).sums
    return [name for name in tallies(run_a).sums if name in held]


def _tally(name: str, found: Mapping[str, Tally], figure: str) -> Tally:
    if figure not in found:
        raise ValueError(f"{name}: expected the figure {figure!r}, got {', '.join(found) or 'none'}")
    return found[figure]


def _means(tally: Tally) -> NDArray[np.float64]:
    """The score of each prompt; NaN where nothing counts."""
    means = np.full(len(tally.numerator), np.nan)
    np.divide(tally.numerator, tally.denominator, out=means, where=tally.denominator > 0)
    return means


def _first_rows(run: RunRows) -> NDArray[np.int64]:
    """The first row of each prompt, in the order of the tallies."""
    if run.keys is None or run.prompts == run.rows:
        return np.arange(run.prompts, dtype=np.int64)
    assert run.whole.keys is not None
    _, first = np.unique(run.whole.keys[run.run], return_index=True)
    return first.astype(np.int64)
