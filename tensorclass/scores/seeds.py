"""Seeds of a model: runs that differ in their seed alone are one run, whose seeds are a level of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from tensorclass import cat
from tensorclass.scores.align import align
from tensorclass.scores.readers.run import PromptText, Run, SeedPath, model_name, seed_path
from tensorclass.scores.run_grid import model_of
from tensorclass.scores.usage import mean_usage

__all__ = ["SEEDS", "SEEDS_SAID", "joined", "seed_of", "with_seeds"]

SEEDS = ("random", "pooled", "apart")
"""The rules for seeds. Any other text is a pattern of names of their folders."""

SEEDS_SAID = "compared with the seeds as random; --seeds pooled pools them, --seeds apart takes them for models"
"""The end of the note on seeds."""


def with_seeds(runs: Sequence[Run], how: str = "random", pattern: str | None = None, *, said: bool = True) -> list[Run]:
    """Join runs of one model and task that are its seeds.

    A run's seed is named by its path (``MODEL/seed1/``, ``MODEL_seed1/``, ``MODEL/seed1.jsonl``), or else by its log.

    Args:
        runs: the runs.
        how: ``"random"`` for a level of their own, ``"pooled"`` within their prompts, ``"apart"`` for models.
        pattern: of the folders or files that are named for seeds, such as ``"run*"``; by default ``seed1``, ``seed-2``.
        said: whether runs whose logs say other seeds, but not their paths, are joined.

    Returns:
        The runs, with one for all seeds of a model on a task. If a seed occurs twice, the seeds of each folder are
        joined, or none.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(2), prompt_id=torch.arange(2), batch_size=[2])
        >>> runs = [
        ...     Run("llama", scores, (f"llama/seed{seed}/samples.csv",), "table", model="llama", task="arc")
        ...     for seed in (1, 2)
        ... ]
        >>> [(run.model, run.seeds) for run in with_seeds(runs)]
        [('llama', (('seed1', 2), ('seed2', 2)))]
    """
    if how == "apart":
        return list(runs)
    matched = None if pattern is None else re.compile(translate(pattern))
    groups: dict[object, list[tuple[str, Run]]] = {}
    for place, run in enumerate(runs):
        found = seed_of(run, matched) if said else _of_path(run, matched)
        if found is None:
            groups[place] = [("", run)]
        else:
            run = replace(run, model=_model_of(run, matched))
            groups.setdefault((run.model, run.task, run.filter, found.others), []).append((found.seed, run))
    result: list[Run] = []
    for own in chain.from_iterable(map(_distinct_seeds, groups.values())):
        if len(own) > 1:
            result.append(joined([run for _, run in own], [seed for seed, _ in own] if how == "random" else ()))
        else:
            result += [run for _, run in own]
    return result


def seed_of(run: Run, pattern: re.Pattern[str] | None = None) -> SeedPath | None:
    """Find the seed of a run in the path of its file, or else in its log; None if neither says it.

    Of a seed that the log says, ``others`` are the other conditions of the run, since seeds of a model share them.

    Args:
        run: the run.
        pattern: of the folders or files that are named for seeds; then what the log says doesn't count.
    """
    found, said = _of_path(run, pattern), run.conditions.get("seed")
    if found is not None or said is None or pattern is not None or not run.files:
        return found
    others = sorted((name, value) for name, value in run.conditions.items() if name not in ("seed", "harness"))
    return SeedPath(f"seed {said}", tuple(f"{name}={value}" for name, value in others))


def _of_path(run: Run, pattern: re.Pattern[str] | None) -> SeedPath | None:
    if not run.files:
        return None
    return seed_path(run.files[0]) if pattern is None else seed_path(run.files[0], pattern)


def _distinct_seeds(own: list[tuple[str, Run]]) -> Iterator[list[tuple[str, Run]]]:
    """Split runs of a model of which a seed occurs twice: by folder, if each has a seed once; else into single runs."""
    if len({seed for seed, _ in own}) == len(own):
        yield own
        return
    folders: dict[Path, list[tuple[str, Run]]] = {}
    for seed, run in own:
        folders.setdefault(Path(run.files[0]).absolute().parent, []).append((seed, run))
    if all(len({seed for seed, _ in runs}) == len(runs) for runs in folders.values()):
        yield from folders.values()
    else:
        yield from ([one] for one in own)


def _model_of(run: Run, pattern: re.Pattern[str] | None) -> str:
    """The model; the name of a seed's folder is none."""
    model = model_of(run)
    is_seed = pattern is not None and pattern.fullmatch(model) is not None
    found = seed_path(run.files[0], pattern) if is_seed and pattern is not None else None
    return model if found is None else (model_name("/".join(found.others[:-1])) or model)


def joined(runs: Sequence[Run], seeds: Sequence[str] = ()) -> Run:
    """One run of the rows of several.

    Args:
        runs: the runs, of one model and task.
        seeds: the name of the seed of each; without names the runs are pooled within their prompts.

    Raises:
        ValueError: there are no ids of prompts, by which repeats are told.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    without = next((run for run in runs if run.scores.prompt_id is None), None)
    if without is not None:
        raise ValueError(f"{without.name}: expected ids of prompts, by which repeats are told, got None")
    texts = [run.texts for run in runs if run.texts is not None]
    hashes = [run.prompt_hashes for run in runs if run.prompt_hashes is not None]
    if seeds:
        note = f"{sum(len(run.seeds) or 1 for run in runs)} seeds, {SEEDS_SAID}"
    else:
        note = f"{len(runs)} runs are repeats of one, pooled within their prompts"
    return replace(
        first,
        scores=cat(align(*(run.scores for run in runs))),
        files=tuple(dict.fromkeys(file for run in runs for file in run.files)),
        notes=(*dict.fromkeys(note for run in runs for note in run.notes), note),
        published={},
        texts=partial(_texts_of, texts) if len(texts) == len(runs) else None,
        prompt_hashes=np.concatenate(hashes) if len(hashes) == len(runs) else None,
        expected=None,
        usage=mean_usage([run.usage for run in runs], [len(run.scores) for run in runs]),
        seeds=tuple(
            own for name, run in zip(seeds, runs, strict=bool(seeds)) for own in run.seeds or ((name, len(run.scores)),)
        ),
    )


def _texts_of(runs: Sequence[Callable[[], Iterator[PromptText]]]) -> Iterator[PromptText]:
    """The texts of several runs, one after another, as their rows are."""
    for texts in runs:
        yield from texts()
