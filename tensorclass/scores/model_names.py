"""Names of models: told apart by their folders, given by the user, and short for tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tensorclass.scores.readers import Run
from tensorclass.scores.run_grid import model_of
from tensorclass.scores.seeds import joined

__all__ = ["find_model", "renamed", "short_names", "told_apart"]

_SEPARATOR = re.compile(r"/|__")  # lm-evaluation-harness writes ORGANISATION__MODEL
_TOKEN = re.compile(r"(?:\d+e-\d+|[^-_: ])+[-_: ]*")  # 1e-4 is one
_LONG = 24

_Key = TypeVar("_Key", str, tuple[str, ...])


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Add folders to the names of models that have two runs of one task in different folders.

    Runs of the same name, which are in one folder, are named for their files.

    Args:
        runs: the runs.

    Returns:
        The runs, each with its model. Two runs in one folder keep their model: nothing tells them apart.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
        >>> runs = [
        ...     Run("qwen", scores, (f"{folder}/qwen/samples.jsonl",), "lm-eval", model="qwen", task="arc")
        ...     for folder in ("before", "after")
        ... ]
        >>> [run.model for run in told_apart(runs)]
        ['before/qwen', 'after/qwen']
    """
    models = [model_of(run) for run in runs]
    result = [replace(run, model=model) for run, model in zip(runs, models, strict=True)]
    counts = Counter((run.task, model) for run, model in zip(runs, models, strict=True))
    for model in {model for (_, model), count in counts.items() if count > 1}:
        places = [place for place, own in enumerate(models) if own == model and runs[place].files]
        folders = {place: Path(runs[place].files[0]).absolute().parent.parts for place in places}
        if len(set(folders.values())) < 2:
            continue
        prefixes = _without_common({folder: folder for folder in folders.values()})
        for place in places:
            parts = [part for part in prefixes[folders[place]] if part != model]
            if parts:
                result[place] = replace(result[place], model="/".join([*parts, model]))
    names = Counter(run.name for run in result)
    return [replace(run, name=Path(run.files[0]).name) if run.files and names[run.name] > 1 else run for run in result]


def renamed(runs: Sequence[Run], names: str, *, pooled: bool = False) -> list[Run]:
    """Rename models. Models that get the same name are seeds of one.

    Args:
        runs: the runs.
        names: ``"A,B"``: a name for each model, in the order of the runs; or ``"OLD=NEW,..."`` for some of them.
        pooled: pool the rows of seeds within their prompts; else the seeds are a level of their own.

    Returns:
        The runs under their new names. Runs of one name and task are joined.

    Raises:
        ValueError: there are more or fewer names than models, a name is empty, a model is unknown, or repeats have no
            ids of prompts.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(2), prompt_id=torch.arange(2), batch_size=[2])
        >>> runs = [Run(name, scores, (), "lm-eval") for name in ("step-100", "step-200")]
        >>> [run.model for run in renamed(runs, "early,late")], [run.model for run in renamed(runs, "step-100=old")]
        (['early', 'late'], ['old', 'step-200'])
        >>> (run,) = renamed(runs, "both,both")
        >>> run.model, run.scores.batch_size
        ('both', torch.Size([4]))
    """
    models = list(dict.fromkeys(map(model_of, runs)))
    given = [name.strip() for name in names.split(",")]
    if any("=" in name for name in given):
        pairs = [name.rpartition("=") for name in given]
        new = {**{model: model for model in models}, **{find_model(old, runs): name for old, _, name in pairs}}
    elif len(given) != len(models):
        raise ValueError(f"names: expected one for each model ({', '.join(models)}), got {len(given)}: {names}")
    else:
        new = dict(zip(models, given, strict=True))
    if "" in new.values():
        raise ValueError(f"names: expected a name for each model ({', '.join(models)}), got an empty one: {names}")
    groups: dict[tuple[str, str | None], list[Run]] = {}
    for run in runs:
        groups.setdefault((new[model_of(run)], run.task), []).append(run)
    several = len({task for _, task in groups}) > 1
    return [
        replace(
            joined(own, () if pooled else [run.name for run in own]),
            model=model,
            name=f"{model}/{task}" if several else model,
        )
        for (model, task), own in groups.items()
    ]


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Shorten names to what tells them apart.

    Folders and organisations go first; then, of long names, what all of them begin with or end with.

    Example:
        >>> short_names(["meta-llama/Llama-3-8B", "Qwen/Qwen3-8B"])
        {'meta-llama/Llama-3-8B': 'Llama-3-8B', 'Qwen/Qwen3-8B': 'Qwen3-8B'}
        >>> list(
        ...     short_names(["an-experiment-of-today_lr-1e-4_seed-0", "an-experiment-of-today_lr-3e-4_seed-0"]).values()
        ... )
        ['1e-4', '3e-4']
    """
    distinct = list(dict.fromkeys(names))
    parts = {name: tuple(part for part in _SEPARATOR.split(name) if part) or (name,) for name in distinct}
    short = {name: "/".join(own) for name, own in _distinct_ends(parts).items()}
    if len(distinct) > 1 and max(map(len, short.values())) > _LONG:
        tokens = {name: tuple(_TOKEN.findall(own)) or (own,) for name, own in short.items()}
        short = {name: "".join(own).strip("-_.: ") for name, own in _without_common(tokens).items()}
    are_distinct = len(set(short.values())) == len(distinct) and all(short.values())
    return short if are_distinct else {name: name for name in names}


def find_model(name: str, runs: Sequence[Run]) -> str:
    """Find the model that a name means: its own, its short one, or that of one of its runs or files.

    Raises:
        ValueError: no model is called so, or several are.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
        >>> runs = [Run("a", scores, ("a.jsonl",), "lm-eval", model="org/a"), Run("b", scores, (), "lm-eval")]
        >>> find_model("org/a", runs), find_model("a", runs), find_model("a.jsonl", runs)
        ('org/a', 'org/a', 'org/a')
    """
    models = list(dict.fromkeys(map(model_of, runs)))
    if name in models:
        return name
    short = short_names(models)
    path = Path(name).absolute()
    meant = dict.fromkeys(
        model_of(run)
        for run in runs
        if name in (short[model_of(run)], run.name)
        or any(path in (file, *file.parents) for file in (Path(one).absolute() for one in run.files))
    )
    if len(meant) != 1:
        raise ValueError(f"expected one of the models {', '.join(models)}, got {name!r}")
    return next(iter(meant))


def _without_common(names: Mapping[_Key, tuple[str, ...]]) -> dict[_Key, tuple[str, ...]]:
    """Each name without the parts that all begin with, and those that all end with; some part of it stays."""
    shortest = min(map(len, names.values())) if len(names) > 1 else 1
    every = list(names.values())
    start = 0
    while start < shortest - 1 and len({own[start] for own in every}) == 1:
        start += 1
    end = 0
    while end < shortest - start - 1 and len({own[-1 - end] for own in every}) == 1:
        end += 1
    return {name: own[start : len(own) - end] for name, own in names.items()}


def _distinct_ends(names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """As few last parts of each name as no other name ends with."""
    found: dict[str, tuple[str, ...]] = {}
    for name, own in names.items():
        others = [other for key, other in names.items() if key != name]
        count = next(
            (count for count in range(1, len(own)) if all(other[-count:] != own[-count:] for other in others)), len(own)
        )
        found[name] = own[-count:]
    return found
