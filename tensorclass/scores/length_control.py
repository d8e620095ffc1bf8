r"""Win rates controlled for length: what a judge would prefer if both answers had the same length.

The regression of Dubois et al., 2024, "Length-Controlled AlpacaEval: A Simple Way to Debias Automatic Evaluators",
arXiv 2404.04475, section 3. The judge prefers the model's answer to prompt x with the probability

    logistic(theta + phi * tanh(d_x / sd(d)) + psi * gamma_x)

where d_x is the length of the model's answer less that of the baseline's, and gamma_x is the difficulty of the prompt,
the same for all models. The win rate controlled for length is the mean of this probability with d_x = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorclass.scores.metrics import Metric, Rows
from tensorclass.scores.tally import Tally

__all__ = [
    "LengthControlledWinRate",
    "instruction_difficulties",
    "length_control_shares",
    "length_controlled_win_rate",
]

_STEPS: Final = 200
_CONVERGED: Final = 1e-10
_STEP: Final = 1e-4  # relative, of a central difference
_FARTHEST: Final = 5.0  # a longer step of Newton's method overshoots where nearly all prompts are won


@dataclass(frozen=True)
class LengthControlledWinRate(Metric):
    """The win rate controlled for length, of a field of preferences; see :func:`length_controlled_win_rate`.

    Args:
        length_difference: the field with the difference of the lengths of both answers.
        difficulty: the field with the difficulty of the prompts; where the record doesn't hold it, the term is left
            out.
        name: the figure's name.
        penalty: the strength of the L2 penalty.

    Example:
        >>> from tensorclass.scores import LengthControlledWinRate
        >>> LengthControlledWinRate("length_difference").name
        'length_controlled_win_rate'
    """

    length_difference: str
    difficulty: str | None = None
    name: str = "length_controlled_win_rate"
    penalty: float = 1.0

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        preferences, differences = rows.numbers(field), rows.numbers(self.length_difference)
        if preferences is None or differences is None:
            return []
        difficulties = None if self.difficulty is None else rows.numbers(self.difficulty)
        shares = length_control_shares(preferences, differences, difficulties, penalty=self.penalty)
        counted = ~np.isnan(shares)
        return [Tally(self.name, np.where(counted, shares, 0.0), counted.astype(np.float64))]


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
    shares = length_control_shares(preferences, length_differences, difficulties, penalty=penalty)
    counted = ~np.isnan(shares)
    return float(shares[counted].mean()) if counted.any() else float("nan")


def length_control_shares(
    preferences: ArrayLike,
    length_differences: ArrayLike,
    difficulties: ArrayLike | None = None,
    *,
    penalty: float = 1.0,
) -> NDArray[np.float64]:
    """Linearise the win rate controlled for length: a number a prompt, whose mean is the win rate.

    A prompt's number is the win rate plus the prompt's influence on it (Hampel, 1974): the change of its own
    probability, and of the coefficients. The standard error of the mean of these numbers is that of the win rate, up
    to terms of higher order (the infinitesimal jackknife).

    Args:
        preferences: see :func:`length_controlled_win_rate`.
        length_differences: likewise.
        difficulties: likewise.
        penalty: likewise.

    Returns:
        ``[prompts]``, not limited to 0..1; NaN where there is no judgement.

    Raises:
        ValueError: see :func:`length_controlled_win_rate`.

    Example:
        >>> from tensorclass.scores.length_control import length_control_shares
        >>> won, longer = [1, 1, 1, 0, 1, 0, 0, 1], [300, 250, 400, -200, 350, -100, -300, 20]
        >>> round(length_control_shares(won, longer).mean().item(), 3)
        0.583
    """
    if not penalty > 0:
        raise ValueError(f"penalty: expected a number above 0, got {penalty}")
    wins, differences = _same_shape("length_differences", preferences, length_differences)
    terms = [np.ones_like(wins), differences]
    if difficulties is not None:
        terms.append(_same_shape("difficulties", preferences, difficulties)[1])
    features = np.stack(terms, axis=1)
    counted = ~np.isnan(wins) & ~np.isnan(features).any(axis=1)
    shares = np.full(wins.shape, np.nan)
    if not counted.any():
        return shares
    features, wins = features[counted], wins[counted]
    spread = float(features[:, 1].std())
    penalties = np.array([0.0, *[penalty] * (features.shape[1] - 1)])
    shares[counted] = _linearised(_with_lengths(features, spread), wins, penalties)
    if spread > 0:  # the spread is estimated from the same prompts
        at = [
            float(_linearised(_with_lengths(features, spread * scale), wins, penalties).mean())
            for scale in (1 - _STEP, 1 + _STEP)
        ]
        deviation = features[:, 1] - features[:, 1].mean()
        shares[counted] += (at[1] - at[0]) / (2 * _STEP) * (deviation**2 / spread**2 - 1) / 2
    return shares


def _linearised(
    features: NDArray[np.float64], wins: NDArray[np.float64], penalties: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The win rate at equal lengths plus the influence of each prompt on it."""
    weights = _fitted(features, wins, penalties)
    chance = _logistic(features @ weights)
    same_length = features.copy()
    same_length[:, 1] = 0.0
    own = _logistic(same_length @ weights)
    slope: NDArray[np.float64] = (same_length.T * (own * (1 - own))).mean(axis=1)
    influence: NDArray[np.float64] = features * (wins - chance)[:, None] - penalties * weights / len(wins)
    shares = own + len(wins) * (influence @ np.linalg.solve(_curvature(features, chance, penalties), slope))
    return np.asarray(shares, dtype=np.float64)


def _with_lengths(features: NDArray[np.float64], spread: float) -> NDArray[np.float64]:
    """The features with the term of the length in place of the difference of lengths."""
    found = features.copy()
    found[:, 1] = np.tanh(features[:, 1] / spread) if spread > 0 else 0.0
    return np.asarray(found, dtype=np.float64)


def instruction_difficulties(
    preferences: ArrayLike, length_differences: ArrayLike, *, penalty: float = 1.0
) -> NDArray[np.float64]:
    """Estimate how hard each prompt is to win, from the judgements on several models with the same baseline.

    The joint regression of the paper: all models share gamma, and psi is 1.

    Args:
        preferences: ``[models, prompts]``, as for :func:`length_controlled_win_rate`.
        length_differences: ``[models, prompts]``.
        penalty: the strength of the L2 penalty on phi and gamma.

    Returns:
        ``[prompts]``, gamma: above 0 where models win more often than their other answers say; 0 for a prompt without
        judgements.

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
    if not penalty > 0:
        raise ValueError(f"penalty: expected a number above 0, got {penalty}")
    wins, differences = _same_shape("length_differences", preferences, length_differences)
    if wins.ndim != 2 or len(wins) < 2:
        raise ValueError(
            f"preferences: expected [models, prompts] with at least two models, got shape {list(wins.shape)}; one "
            "model doesn't tell hard prompts from its own mistakes"
        )
    counted = ~np.isnan(wins) & ~np.isnan(differences)
    spreads = np.nanstd(differences, axis=1, keepdims=True)
    features = np.stack([np.ones_like(wins), np.tanh(differences / np.where(spreads > 0, spreads, np.inf))], axis=2)
    wins, features = np.where(counted, wins, 0.0), np.where(counted[..., None], features, 0.0)
    gamma = np.zeros(wins.shape[1])
    weights = np.zeros((len(wins), 2))
    for _ in range(_STEPS):
        for model, own in enumerate(counted):
            weights[model] = _fitted(
                features[model][own], wins[model][own], np.array([1e-6, penalty]), gamma[own], weights[model]
            )
        chance = _logistic(np.einsum("mpf,mf->mp", features, weights) + gamma)
        slope = np.where(counted, chance - wins, 0.0).sum(axis=0) + penalty * gamma
        curve = np.where(counted, chance * (1 - chance), 0.0).sum(axis=0) + penalty
        step = slope / curve
        gamma = gamma - step
        if np.abs(step).max(initial=0.0) < 1e-8:
            break
    return gamma


def _fitted(
    features: NDArray[np.float64],
    wins: NDArray[np.float64],
    penalties: NDArray[np.float64],
    offset: NDArray[np.float64] | float = 0.0,
    start: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Logistic regression with an L2 penalty, by Newton's method."""
    weights = np.zeros(features.shape[1]) if start is None else start
    for _ in range(_STEPS):
        chance = _logistic(features @ weights + offset)
        slope = features.T @ (chance - wins) + penalties * weights
        step = np.linalg.solve(_curvature(features, chance, penalties), slope)
        farthest = float(np.abs(step).max())
        weights = weights - step * min(1.0, _FARTHEST / max(farthest, _FARTHEST))
        if farthest < _CONVERGED:
            break
        if np.abs(weights[0]) > 30.0:  # all prompts are won, or none: the rate is 1, or 0, to the last bit but few
            break
    return weights


def _curvature(
    features: NDArray[np.float64], chance: NDArray[np.float64], penalties: NDArray[np.float64]
) -> NDArray[np.float64]:
    curve: NDArray[np.float64] = (features.T * (chance * (1 - chance))) @ features + np.diag(penalties + 1e-9)
    return curve


def _logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    chance: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * values))
    return chance


def _same_shape(name: str, first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise ValueError(f"{name}: expected the shape of preferences, {list(one.shape)}, got {list(other.shape)}")
    return one, other
