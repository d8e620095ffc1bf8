"""A run read from files: its scores and their origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tensorclass.scores.score_data import ScoreData

__all__ = ["PromptText", "Published", "Run"]


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
