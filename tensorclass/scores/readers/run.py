"""A run read from files: its scores and their origin; names for runs, from the names of their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tensorclass.scores.readers.unpacked_file import STANDARD_INPUT
from tensorclass.scores.score_data import ScoreData

__all__ = ["PromptText", "Published", "Run", "distinct_names", "model_name", "run_name", "task_name"]

_SUFFIX = re.compile(r"(\.(jsonl?|eval|csv|tsv|parquet))?(\.(gz|bz2|zst))?$")
_REFERENCE = re.compile(r"[._-]?(eval[._-]results[._-])?(strict|loose)$", re.IGNORECASE)
_LM_EVAL = re.compile(r"^samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+$")

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

    lm-evaluation-harness names the folder for the model, with ``__`` in place of a slash.

    Example:
        >>> model_name("Qwen__Qwen3-8B/samples_gsm8k_2026-01-31.jsonl"), model_name("runs/gpt4.jsonl")
        ('Qwen/Qwen3-8B', 'gpt4')
    """
    if str(path) == STANDARD_INPUT:
        return None
    if task_name(path) is None:
        return run_name(path)
    folder = Path(path).absolute().parent.name
    return folder.replace("__", "/", 1) or None


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
