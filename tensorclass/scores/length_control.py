r"""Win rates controlled for length: what a judge would prefer if both answers had the same length.

The regression of Dubois et al., 2024, "Length-Controlled AlpacaEval: A Simple Way to Debias Automatic Evaluators",
arXiv 2404.04475, section 3. The judge prefers the model's answer to prompt x with the probability

    logistic(theta + phi * tanh(d_x / sd(d)) + psi * gamma_x)

where d_x is the length of the model's answer less that of the baseline's, and gamma_x is the difficulty of the prompt,
the same for all models. The win rate controlled for length is the mean of this probability with d_x = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["instruction_difficulties", "length_controlled_win_rate", "weighted_length_control"]

_Numbers: TypeAlias = NDArray[np.float64]

_STEPS: Final = 200
_CONVERGED: Final = 1e-9
_FARTHEST: Final = 5.0  # a longer step of Newton's method overshoots where nearly all prompts are won
_FEW: Final = 10
_CERTAIN: Final = 30.0  # log-odds beyond which a rate is 0 or 1: where all prompts are won, they would grow for ever


def length_controlled_win_rate(
    preferences: ArrayLike,
    length_differences: ArrayLike,
    difficulties: ArrayLike | None = None,
    *,
    penalty: float = 1.0,
) -> float:
    """Compute the win rate that a model would have if its answers were as long as the baseline's.

    Args:
        preferences: ``[prompts]``, 1 where the judge prefers the model, 0 where the baseline, 0.5 for a draw, or a
            probability. NaN where there is no judgement.
        length_differences: ``[prompts]``, characters of the model's answer less those of the baseline's.
        difficulties: ``[prompts]``, gamma; None leaves the term out. See :func:`instruction_difficulties`.
        penalty: the strength of the L2 penalty, ``penalty / 2 * (phi² + psi²)`` beside the sum of the log losses. The
            paper penalises phi, so that a model does not gain by truncated answers, and does not state the strength.

    Returns:
        A fraction 0..1; NaN where no prompt is judged.

    Raises:
        ValueError: arrays of different shapes, or a penalty that is not above 0.

    Example:
        >>> from tensorclass.scores import length_controlled_win_rate
        >>> won, longer = [1, 1, 1, 0, 1, 0, 0, 1], [300, 250, 400, -200, 350, -100, -300, 20]
        >>> round(length_controlled_win_rate(won, longer), 3)
        0.583

    Source: Dubois et al., 2024, arXiv 2404.04475, section 3.
    """
    columns = list(_same_shape("length_differences", preferences, length_differences))
    if difficulties is not None:
        columns.append(_same_shape("difficulties", preferences, difficulties)[1])
    counted = ~np.isnan(np.sum(columns, axis=0))
    columns = [column[counted] for column in columns]
    return float(weighted_length_control(columns, np.ones(len(columns[0])), penalty=penalty))


def weighted_length_control(columns: Sequence[_Numbers], weights: _Numbers, *, penalty: float) -> _Numbers:
    """Compute win rates controlled for length of weighted prompts.

    Args:
        columns: ``[prompts]`` each: preferences, length differences and, if there are any, difficulties.
        weights: ``[..., prompts]``; a weight of 2 counts a prompt twice.
        penalty: see :func:`length_controlled_win_rate`.

    Returns:
        ``[...]``; NaN where no prompt counts.

    Raises:
        ValueError: the penalty is not above 0.

    Example:
        >>> from tensorclass.scores.length_control import weighted_length_control
        >>> columns = np.array([1.0, 1.0, 0.0]), np.array([20.0, 30.0, -5.0])
        >>> weighted_length_control(columns, np.array([[1.0, 1, 1], [2, 2, 2]]), penalty=1.0).round(3)
        array([0.593, 0.546])
    """
    wins, differences, *others = columns
    total = weights.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (weights * differences).sum(-1, keepdims=True) / total
        spread = np.sqrt((weights * (differences - mean) ** 2).sum(-1, keepdims=True) / total)
        lengths = np.tanh(differences / np.where(spread > 0, spread, np.inf))
        start = None
        if weights.ndim > 1 and len(weights) > _FEW:  # resamples: a few steps from the fit to all of them together
            mean_lengths = np.tanh(differences / (np.std(differences) or np.inf))
            start = _fitted([np.ones_like(wins), mean_lengths, *others], wins, weights.mean(axis=0), penalty)
            start = np.broadcast_to(start, (*weights.shape[:-1], len(start)))
        found = _fitted([np.ones_like(wins), lengths, *others], wins, weights, penalty, start=start)
        level = found[..., :1] + (found[..., 2:] * others[0] if others else 0.0)
        rates: _Numbers = (weights * _logistic(np.broadcast_to(level, weights.shape))).sum(-1) / total[..., 0]
    return rates


def instruction_difficulties(
    preferences: ArrayLike, length_differences: ArrayLike, *, penalty: float = 1.0
) -> _Numbers:
    """Estimate how easily each prompt is won, from the judgements on several models with the same baseline.

    The joint regression of the paper: all models share gamma, and psi is 1.

    Args:
        preferences: ``[models, prompts]``, as for :func:`length_controlled_win_rate`.
        length_differences: ``[models, prompts]``.
        penalty: the strength of the L2 penalty on phi and gamma.

    Returns:
        ``[prompts]``, gamma: above 0 where models win more often than elsewhere; 0 for a prompt without judgements.

    Raises:
        ValueError: arrays of different shapes or of one dimension, fewer than two models, or a penalty that is not
            above 0.

    Example:
        >>> from tensorclass.scores import instruction_difficulties
        >>> won = [[1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 0, 0]]
        >>> gamma = instruction_difficulties(won, [[10, -10, 20, -5]] * 3)
        >>> gamma.argmax().item(), gamma.argmin().item()
        (0, 2)

    Source: Dubois et al., 2024, arXiv 2404.04475, section 3.
    """
    _check(penalty)
    wins, differences = _same_shape("length_differences", preferences, length_differences)
    if wins.ndim != 2 or len(wins) < 2:
        raise ValueError(
            f"preferences: expected [models, prompts] with at least two models, got shape {list(wins.shape)}; one "
            "model doesn't tell hard prompts from its own mistakes"
        )
    counted = (~np.isnan(wins) & ~np.isnan(differences)).astype(np.float64)
    wins, differences = np.where(counted, wins, 0.0), np.where(counted, differences, np.nan)
    spread = np.nanstd(differences, axis=1, keepdims=True)
    lengths = np.nan_to_num(np.tanh(differences / np.where(spread > 0, spread, np.inf)))
    gamma = np.zeros(wins.shape[1])
    weights = np.zeros((len(wins), 2))
    for _ in range(_STEPS):
        weights = _fitted([np.ones_like(gamma), lengths], wins, counted, penalty, gamma, weights)
        chance = _logistic(weights[:, :1] + weights[:, 1:] * lengths + gamma)
        slope = (counted * (chance - wins)).sum(axis=0) + penalty * gamma
        step = slope / ((counted * chance * (1 - chance)).sum(axis=0) + penalty)
        gamma = gamma - step
        if np.abs(step).max(initial=0.0) < _CONVERGED:
            break
    return gamma


def _fitted(
    features: Sequence[_Numbers],
    wins: _Numbers,
    weights: _Numbers,
    penalty: float,
    offset: _Numbers | float = 0.0,
    start: _Numbers | None = None,
) -> _Numbers:
    """Logistic regressions of weighted rows by Newton's method, with an L2 penalty on all but the first coefficient.

    Args:
        features: ``[..., rows]`` each.
        wins: ``[..., rows]``, 0 to 1.
        weights: ``[..., rows]``.
        penalty: of the squares of the coefficients.
        offset: ``[..., rows]``, added to the log-odds.
        start: ``[..., features]``.

    Returns:
        ``[..., features]``.
    """
    _check(penalty)
    count = len(features)
    penalties = np.array([0.0, *[penalty] * (count - 1)])
    found = np.zeros((*weights.shape[:-1], count)) if start is None else start
    for _ in range(_STEPS):
        odds = sum((found[..., [place]] * own for place, own in enumerate(features)), np.asarray(offset))
        chance = _logistic(odds)
        error, spread = weights * (chance - wins), weights * chance * (1 - chance)
        slope = np.stack([(error * own).sum(-1) for own in features], axis=-1) + penalties * found
        curve = np.empty((*found.shape, count))
        for row, one in enumerate(features):
            part = spread * one
            for column in range(row, count):
                curve[..., row, column] = curve[..., column, row] = (part * features[column]).sum(-1)
        curve += np.eye(count) * (penalties + 1e-9)
        step = np.linalg.solve(curve, slope[..., None])[..., 0]
        step *= np.minimum(1.0, _FARTHEST / np.maximum(np.abs(step).max(-1, keepdims=True), _FARTHEST))
        step[np.abs(found[..., 0]) > _CERTAIN] = 0.0
        found = found - step
        if np.abs(step).max(initial=0.0) < _CONVERGED:
            break
    return found


def _logistic(values: _Numbers) -> _Numbers:
    chance: _Numbers = 0.5 * (1.0 + np.tanh(0.5 * values))
    return chance


def _check(penalty: float) -> None:
    if not penalty > 0:
        raise ValueError(f"penalty: expected a number above 0, got {penalty}")


def _same_shape(name: str, first: ArrayLike, second: ArrayLike) -> tuple[_Numbers, _Numbers]:
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise ValueError(f"{name}: expected the shape of preferences, {list(one.shape)}, got {list(other.shape)}")
    return one, other
