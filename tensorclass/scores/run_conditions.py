"""Conditions under which runs were made, as their logs say: what differs between runs that are compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tensorclass.scores.identity import prompt_keys
from tensorclass.scores.readers import Run
from tensorclass.scores.run_grid import model_of, runs_by_task
from tensorclass.scores.seeds import seed_of

__all__ = ["ConditionsDifferError", "check_conditions"]

_OF_PROMPTS: Final = frozenset(
    (
        *("n_shot", "version", "chat_template", "system_prompt", "prompt_hash", "instructions", "prompt_format"),
        *("task_args", "dataset", "scenario", "solver", "method", "output_type", "filter", "scorer", "metric"),
    )
)
"""Conditions that change the prompt or the metric. Others are listed."""

_MOST_RUNS: Final = 3


class ConditionsDifferError(ValueError):
    """Runs on one task were made with other prompts, or are scored by other metrics."""


def check_conditions(runs: Sequence[Run], across: Collection[str] = ()) -> list[str]:
    """List the conditions that differ between the runs on each task.

    A condition counts for the runs whose logs say it. Two chat templates are those of two models, and listed; a chat
    template and none are other prompts.

    Args:
        runs: the runs.
        across: the conditions that may differ; ``"all"`` for any.

    Returns:
        Notes, in sentences.

    Raises:
        ConditionsDifferError: a condition differs that changes the prompt or the metric, and isn't among ``across``.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
        >>> runs = [Run(f"m{n}", scores, (), "lm-eval", task="arc", conditions={"n_shot": n}) for n in "05"]
        >>> check_conditions(runs, across=["n_shot"])
        ['arc: other conditions are compared: n_shot is 0 in m0 and 5 in m5']
    """
    notes: list[str] = []
    refused: list[tuple[str, str]] = []
    for task, own in runs_by_task(runs).items():
        differs = {name: values for name, values in _said(own).items() if len(values) > 1}
        if not _changes_prompts(differs) and (number := _other_prompts(own)):
            differs["prompt_hash"] = {number: []}
        shown: list[str] = []
        for name, values in differs.items():
            if name == "prompt_hash":
                text = f"prompt_hash: {next(iter(values))}"
            else:
                each = sorted(values.items(), key=lambda item: len(item[1]))
                text = f"{name} is " + " and ".join(f"{value} in {_listed(who)}" for value, who in each)
            is_strict = name in _OF_PROMPTS and (name != "chat_template" or "none" in values)
            if is_strict and not {name, "all"} & set(across):
                refused.append((name, f"{task}: {text}"))
            else:
                shown.append(text)
        if shown:
            notes.append(f"{task}: other conditions are compared: {'; '.join(shown)}")
    if refused:
        names = ",".join(dict.fromkeys(name for name, _ in refused))
        texts = [text for _, text in refused]
        more = f"; and {len(texts) - 5} more" if len(texts) > 5 else ""
        raise ConditionsDifferError(
            f"runs under other conditions, whose figures don't compare: {'; '.join(texts[:5])}{more}; leave runs out, "
            f"or compare them all the same with --across {names}"
        )
    return notes


def _said(runs: Sequence[Run]) -> dict[str, dict[str, list[str]]]:
    """The values of each condition, with the runs that say them."""
    found: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        filters = {} if run.filter is None else {"filter": run.filter}
        for name, value in {**run.conditions, **filters}.items():
            if name != "seed":
                found.setdefault(name, {}).setdefault(value, []).append(run.name)
    return found


def _changes_prompts(differs: Collection[str]) -> bool:
    """Return whether a condition explains that the texts of prompts differ."""
    return bool(set(differs) & (_OF_PROMPTS - {"filter", "scorer", "metric", "output_type"}))


def _other_prompts(runs: Sequence[Run]) -> str:
    """Say how many prompts have other texts in two of the runs; nothing if all have the same."""
    held: list[tuple[Run, str, dict[int, int]]] = []
    for run in runs:
        keys = prompt_keys(run.scores)
        if run.prompt_hashes is None or keys is None:
            continue
        own, seed = dict(zip(keys.tolist(), run.prompt_hashes.tolist(), strict=True)), _seed(run)
        # Seeds may draw other examples for the prompts, so that runs of one seed are compared, if there are any.
        like = next((one for one in held if one[1] == seed), None)
        first = like or next(iter(held), None)
        is_new_seed = like is None and any(model_of(other) == model_of(run) for other, _, _ in held)
        if like is None:
            held.append((run, seed, own))
        if first is None or is_new_seed:
            continue
        shared = own.keys() & first[2].keys()
        apart = sum(own[key] != first[2][key] for key in shared)
        if apart:
            return f"{apart} of {len(shared)} prompts have another text in {run.name} than in {first[0].name}"
    return ""


def _seed(run: Run) -> str:
    found = seed_of(run)
    return "" if found is None else found.seed


def _listed(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct) if len(distinct) <= _MOST_RUNS else f"{len(distinct)} runs"
