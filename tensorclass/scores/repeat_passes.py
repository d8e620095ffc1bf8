"""pass@k and pass^k of runs that hold several rows of right or wrong for each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tensorclass.scores.identity import prompt_keys
from tensorclass.scores.logged_scores import family_of, field_names
from tensorclass.scores.passatk import pass_at_k, pass_hat_k
from tensorclass.scores.readers.run import Run
from tensorclass.scores.score_arrays import RecordRows, tallies

__all__ = ["with_passes"]


def with_passes(run: Run, ks: Sequence[int], metric: str | None = None) -> Run:
    """Take the rows of each prompt for samples: the figures are then pass@k and pass^k, means over prompts.

    Args:
        run: the run, whose rows of one prompt are samples of it; those of several seeds as well.
        ks: the numbers of samples.
        metric: the figure with the verdicts; by default the first one whose verdicts are 0 or 1.

    Raises:
        ValueError: there is no such figure, or no prompt has as many rows as the smallest k.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> ids = torch.tensor([7, 7, 7, 7, 8, 8, 8, 8])
        >>> scores = ExactMatchScoreData(torch.tensor([1.0, 1, 0, 1, 0, 0, 0, 0]), prompt_id=ids, batch_size=[8])
        >>> found = with_passes(Run("a", scores, (), "memory"), [1, 2]).scores.aggregate()
        >>> {name: one.value.item() for name, one in found.items()}
        {'pass@1': 0.375, 'pass^1': 0.375, 'pass@2': 0.5, 'pass^2': 0.25}
    """
    keys = prompt_keys(run.scores)
    (rows,) = RecordRows(run.scores, -1).each()
    verdicts = {
        name: one
        for name, one in tallies(rows).sums.items()
        if ((one.denominator == 1) | (one.denominator == 0)).all() and np.isin(one.numerator, (0, 1)).all()
    }
    name = next((one for one in verdicts if metric in (None, one)), None)
    if name is None or keys is None:
        wanted = "verdicts of 0 or 1 with ids of prompts" if metric is None else repr(metric)
        raise ValueError(f"--k: {run.name}: expected {wanted}, got {', '.join(verdicts) or 'no figure of 0 and 1'}")
    prompts, first, place = np.unique(keys, return_index=True, return_inverse=True)
    own = verdicts[name]
    counts = np.bincount(place, weights=own.denominator, minlength=len(prompts))
    right = np.bincount(place, weights=own.numerator, minlength=len(prompts))
    made = {
        f"pass{sign}{k}": function(counts, right, k)
        for k in ks
        for sign, function in (("@", pass_at_k), ("^", pass_hat_k))
    }
    held = {figure: values for figure, values in made.items() if not np.isnan(values).all()}
    if not held:
        raise ValueError(f"--k: {run.name}: expected prompts with {min(ks)} rows, got at most {int(counts.max())}")
    fields = field_names(list(held))
    values: dict[str, Any] = {fields[figure]: torch.as_tensor(one) for figure, one in held.items()}
    for field in ("prompt_id", "prompt_task"):
        codes = getattr(run.scores, field)
        values[field] = None if codes is None else codes[torch.as_tensor(first)]
    family = family_of(tuple((figure, "%") for figure in held))
    unreached = sorted({int(figure[5:]) for figure in made} - {int(figure[5:]) for figure in held})
    least, most = int(counts.min()), int(counts.max())
    rows_of = f"from {least} to {most} rows" if least < most else f"from {most} row{'s' * (most > 1)}"
    notes = [f"pass@k and pass^k of {name}, {rows_of} of a prompt"]
    notes += [f"no prompt has {k} rows" for k in unreached]
    return replace(
        run,
        scores=family(**values, task_names=run.scores.task_names, batch_size=[len(prompts)]),
        notes=(*run.notes, *notes),
        published={},
        higher_is_better=dict.fromkeys(held, True),
        texts=None,
        prompt_hashes=None,
        seeds=(),
    )
