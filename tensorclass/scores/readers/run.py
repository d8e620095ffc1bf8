"""A run read from files: its scores and their origin; names for runs, from the names of their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.readers.unpacked_file import STANDARD_INPUT
from tensorclass.scores.score_data import ScoreData

__all__ = [
    "PromptText",
    "Published",
    "Run",
    "SeedPath",
    "distinct_names",
    "model_name",
    "run_name",
    "seed_path",
    "task_name",
]

_SUFFIX = re.compile(r"(\.(jsonl?|eval|csv|tsv|parquet))?(\.(gz|bz2|zst))?$")
_REFERENCE = re.compile(r"[._-]?(eval[._-]results[._-])?(strict|loose)$", re.IGNORECASE)
_LM_EVAL = re.compile(r"^samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+$")

_SEED = re.compile(r"(?:(?P<rest>.+)[-_.])?(?P<seed>seed[-_=.]?\d+)", re.IGNORECASE)

_DATED = re.compile(r"^samples_(?P<task>.+)_\d{4}-\d\d-\d\d(T[\d.:-]+)?$", re.DOTALL)


@dataclass(frozen=True)
class Published:
    """A figure that a results file says about a run.

    Attributes:
        value: the figure, in the unit of the metric: a fraction 0..1 for a share.
        stderr: its standard error; None if the file has none.

    Example:
        >>> from tensorclass.scores import Published
        >>> Published(0.45, 0.1141)
        Published(value=0.45, stderr=0.1141)
    """

    value: float
    stderr: float | None = None


@dataclass(frozen=True)
class PromptText:
    """The texts of one row of a run.

    Attributes:
        prompt_id: the row's number, as in the record's ``prompt_id``.
        prompt: what the model was given.
        response: what the model answered; None if the file does not hold it.
        target: the expected answer; None if the file does not hold it.

    Example:
        >>> from tensorclass.scores import PromptText
        >>> PromptText(7, "2 + 2 =", "4", "4").response
        '4'
    """

    prompt_id: int
    prompt: str
    response: str | None = None
    target: str | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """The scores of one model on one task, read from one file or from a few.

    Attributes:
        name: the run's name, from the names of its files.
        scores: the record, one row a prompt, in the order of the file.
        files: the files read.
        format: the name of the reader: ``"lm-eval"``, ``"ifeval-reference"``, ...
        filter: of an lm-eval log: the filter whose rows were taken; None where rows carry none.
        filters: of an lm-eval log: how many rows each filter has in the file.
        ignored: metrics that the file logs and the record has no field for.
        notes: what a reader of the figures should know, in sentences.
        model: the model; None if neither the file nor its name says it.
        task: the task; None if neither the file nor its name says it.
        published: figures that a results file says about this run, by the name of the figure.
        higher_is_better: for each figure, whether a larger value is better; a figure that is not there is unknown.
        left_out: what the file holds and the record can't, in sentences.
        texts: a function that reads the texts of the rows from the file, in the order of the record; None if the file
            holds none, or can't be read again. It can be pickled.
        groups: groups of tasks that the results file names, with the tasks of each.
        conditions: how the run was made, as its log says: ``{"n_shot": "5", "version": "3.0"}``. Runs under other
            conditions are not compared without being asked to.
        prompt_hashes: int64 ``[rows]``, a number for the text of each prompt that the model got; None if the log has
            none.
        expected: the number of rows that the log says there are; None if it doesn't say.
        seeds: the names of the seeds whose rows the scores hold, one after the other, and their numbers of rows; empty
            for a single run.
        usage: what an answer took in the mean, where the log says it: ``cost`` (US dollars), ``tokens``, ``seconds``.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
        >>> run = Run("model-a", scores, files=("samples_gsm8k.jsonl",), format="lm-eval", task="gsm8k")
        >>> run.name, run.task, run.scores.batch_size
        ('model-a', 'gsm8k', torch.Size([2]))
    """

    name: str
    scores: ScoreData
    files: tuple[str, ...]
    format: str
    filter: str | None = None
    filters: dict[str, int] = field(default_factory=dict[str, int])
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model: str | None = None
    task: str | None = None
    published: Mapping[str, Published] = field(default_factory=dict[str, Published])
    higher_is_better: Mapping[str, bool] = field(default_factory=dict[str, bool])
    left_out: tuple[str, ...] = ()
    texts: Callable[[], Iterator[PromptText]] | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    conditions: Mapping[str, str] = field(default_factory=dict[str, str])
    prompt_hashes: NDArray[np.int64] | None = field(default=None, compare=False)
    expected: int | None = None
    seeds: tuple[tuple[str, int], ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict[str, float])


def run_name(path: str | Path) -> str:
    """Derive the name of a run from the name of its file.

    Without suffixes, and without the level of a result file of the reference scorer. A sample log is named for its
    task, so its folder, which lm-evaluation-harness names for the model, stands in front.

    Example:
        >>> run_name("runs/gpt4.eval_results_strict.jsonl"), run_name("runs/gpt4/eval_results_loose.jsonl")
        ('gpt4', 'gpt4')
        >>> run_name("llama/samples_gsm8k_2026-01-31T10-20-30.123456.jsonl")
        'llama/gsm8k'
    """
    if str(path) == STANDARD_INPUT:
        return "stdin"
    path = Path(path)
    stem = _SUFFIX.sub("", path.name, count=1)
    folder = path.absolute().parent.name
    log = _LM_EVAL.match(stem)
    if log is not None:
        return f"{folder}/{log['task']}" if folder else log["task"]
    return _REFERENCE.sub("", stem) or folder or stem


def task_name(path: str | Path) -> str | None:
    """The task of a sample log, ``samples_<task>_<date>``; None where the name of the file has another form.

    Example:
        >>> (
        ...     task_name("llama/samples_gsm8k_2026-01-31T10-20-30.123456.jsonl.gz"),
        ...     task_name("samples_gsm8k_2026-01-31.jsonl"),
        ... )
        ('gsm8k', 'gsm8k')
        >>> task_name("llama.jsonl") is None
        True
    """
    log = _DATED.match(_SUFFIX.sub("", Path(path).name, count=1))
    return log["task"] if log is not None else None


def model_name(path: str | Path) -> str | None:
    """The model of a run: the folder of a sample log, else the name of the file; None for the standard input.

    lm-evaluation-harness names the folder for the model, with ``__`` in place of a slash. A folder or file that is
    named for a seed is not the model's: ``MODEL/seed1``.

    Example:
        >>> model_name("Qwen__Qwen3-8B/samples_gsm8k_2026-01-31.jsonl"), model_name("runs/gpt4.jsonl")
        ('Qwen/Qwen3-8B', 'gpt4')
        >>> model_name("llama/seed1/samples_gsm8k_2026-01-31.jsonl"), model_name("llama_seed2.csv")
        ('llama', 'llama')
    """
    if str(path) == STANDARD_INPUT:
        return None
    path = Path(path).absolute()
    name = run_name(path) if task_name(path) is None else path.parent.name
    seed = _SEED.fullmatch(name)
    if seed is not None:  # MODEL/seed1/samples_..., MODEL_seed1/samples_..., MODEL/seed1.jsonl
        folder = path.parent if task_name(path) is None else path.parent.parent
        name = seed["rest"] or folder.name or name
    return name.replace("__", "/", 1) or None


class SeedPath(NamedTuple):
    """The seed in the path of a run.

    Attributes:
        seed: its name, ``"seed1"``.
        others: the folders before it and what else its folder is named, which all seeds of a model share.
    """

    seed: str
    others: tuple[str, ...]


def seed_path(path: str | Path, pattern: re.Pattern[str] = _SEED) -> SeedPath | None:
    """Find the seed of a run in the path of its file: a folder, or the name of the file; None if there is none.

    Args:
        path: the file.
        pattern: of the name of the folder or file, with the group ``seed``.

    Example:
        >>> found = seed_path("/runs/llama/seed1/samples_gsm8k_2026-01-31.jsonl")
        >>> found.seed, found.others
        ('seed1', ('/', 'runs', 'llama', ''))
    """
    if str(path) == STANDARD_INPUT:
        return None
    path = Path(path).absolute()
    parts = [*path.parts[:-1], _SUFFIX.sub("", path.name, count=1)]
    for place in range(len(parts) - 1, 0, -1):
        found = pattern.fullmatch(parts[place])
        if found is not None:
            rest = found.groupdict().get("rest") or ""
            return SeedPath(found.groupdict().get("seed") or parts[place], (*parts[:place], rest))
    return None


def distinct_names(paths: Sequence[Path], names: Sequence[str]) -> list[str]:
    """The names of runs, with as many folders in front as it takes to tell equal ones apart.

    Args:
        paths: the file of each run.
        names: its name.

    Example:
        >>> distinct_names([Path("/a/x.jsonl"), Path("/b/x.jsonl"), Path("/b/y.jsonl")], ["x", "x", "y"])
        ['a/x', 'b/x', 'y']
    """
    found = list(names)
    for depth in range(1, max((len(path.absolute().parts) for path in paths), default=0)):
        repeated = {name for name in found if found.count(name) > 1}
        if not repeated:
            break
        for number, path in enumerate(paths):
            if found[number] in repeated:
                own = names[number].rpartition("/")[2]
                found[number] = "/".join([*path.absolute().parts[-1 - depth : -1], own])
    return found
