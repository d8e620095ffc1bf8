"""Identity of prompts: the rows of runs that are of one prompt, by their task and their document.

``prompt_id`` is a number for the document, ``prompt_task`` says of which task it is. Rows of one run with the same key
are repeats of one prompt. Rows of two runs with the same key are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tensorclass.scores.labels import Vocabulary, common_codes, text_hash
from tensorclass.scores.score_arrays import plain_value

if TYPE_CHECKING:
    from tensorclass.scores.score_data import ScoreData

__all__ = ["paired_keys", "prompt_keys", "task_of_rows"]

_SHOWN = 3  # names of tasks in an error


def prompt_keys(scores: ScoreData) -> NDArray[np.int64] | None:
    """A number for each row, the same for rows of one prompt: of one task and one document.

    Returns:
        int64, in the shape of the batch; None where the record has no ``prompt_id``.

    Raises:
        ValueError: ``prompt_id`` is not one integer a prompt.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> scores = ExactMatchScoreData(torch.ones(3), prompt_id=torch.tensor([7, 8, 7]), batch_size=[3])
        >>> prompt_keys(scores).tolist()
        [7, 8, 7]
    """
    ids = _ids("prompt_id", scores)
    return None if ids is None else ids ^ _task_keys(scores)


def paired_keys(a: ScoreData, b: ScoreData) -> tuple[NDArray[np.int64], NDArray[np.int64]] | tuple[None, None]:
    """The keys of the rows of two runs: rows with the same key are of one prompt. None twice for runs without ids.

    A run whose rows don't all say their task is compared by ``prompt_id`` alone.

    Args:
        a: a run of one batch dimension.
        b: another one.

    Raises:
        ValueError: the runs are of different tasks, or only one of them has a ``prompt_id``.
    """
    ids_a, ids_b = _ids("a.prompt_id", a), _ids("b.prompt_id", b)
    if ids_a is None and ids_b is None:
        return None, None
    if ids_a is None or ids_b is None:
        raise ValueError("prompt_id: expected in both runs or in none, got None in one of them")
    (codes_a, names_a), (codes_b, names_b) = task_of_rows(a), task_of_rows(b)
    if not codes_a.size or not codes_b.size or codes_a.min() < 0 or codes_b.min() < 0:
        return ids_a, ids_b
    held_a, held_b = _names_in_use(codes_a, names_a), _names_in_use(codes_b, names_b)
    if not held_a & held_b:
        raise ValueError(
            f"expected two runs of one task, got {_listed(held_a)} and {_listed(held_b)}; "
            "compare runs of the same task, whose prompts are the same"
        )
    return ids_a ^ _task_keys(a), ids_b ^ _task_keys(b)


def task_of_rows(scores: ScoreData) -> tuple[NDArray[np.int64], Vocabulary]:
    """The task of each row as a code, -1 where it isn't known, and the names of the codes."""
    shape = tuple(scores.batch_size)
    tasks = scores.prompt_task
    if not isinstance(tasks, Tensor):
        return np.full(shape, -1, dtype=np.int64), ()
    _check_shape("prompt_task", tasks, shape)
    try:
        return common_codes(tasks.cpu().long().numpy(), plain_value(scores.task_names), shape)
    except ValueError as error:
        raise ValueError(f"prompt_task: {error}") from None


def _names_in_use(codes: NDArray[np.int64], names: Vocabulary) -> set[str]:
    return {name for code, name in enumerate(names) if (codes == code).any()}


def _task_keys(scores: ScoreData) -> NDArray[np.int64]:
    """A number for the task of each row, 0 where it isn't known."""
    codes, names = task_of_rows(scores)
    table = np.array([*map(text_hash, names), 0], dtype=np.int64)
    keys: NDArray[np.int64] = table[codes]
    return keys


def _ids(name: str, scores: ScoreData) -> NDArray[np.int64] | None:
    ids = scores.prompt_id
    if not isinstance(ids, Tensor):
        return None
    _check_shape(name, ids, tuple(scores.batch_size))
    values: NDArray[np.int64] = ids.cpu().long().numpy()
    return values


def _check_shape(name: str, values: Tensor, shape: tuple[int, ...]) -> None:
    is_integer = not (values.is_floating_point() or values.is_complex()) or not values.numel()
    if tuple(values.shape) != shape or not is_integer:
        raise ValueError(
            f"{name}: expected one integer a prompt, shape {list(shape)}, got {values.dtype} {list(values.shape)}"
        )


def _listed(names: set[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(map(repr, shown[:_SHOWN])) + more
