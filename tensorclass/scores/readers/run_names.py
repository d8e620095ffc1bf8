"""Names for runs, from the names of their files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tensorclass.scores.readers.unpacked_file import STANDARD_INPUT

__all__ = ["distinct_names", "model_name", "run_name", "task_name"]

_SUFFIX = re.compile(r"(\.(jsonl?|eval|csv|tsv|parquet))?(\.(gz|bz2|zst))?$")
_REFERENCE = re.compile(r"[._-]?(eval[._-]results[._-])?(strict|loose)$", re.IGNORECASE)
_LM_EVAL = re.compile(r"^samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+$")

_DATED = re.compile(r"^samples_(?P<task>.+)_\d{4}-\d\d-\d\d(T[\d.:-]+)?$", re.DOTALL)


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
