"""The prompts that changed sides, as many as the page holds, with their texts from the logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tensorclass.scores.changed_prompts import ChangedPrompt, ChangedPrompts, changed_prompts
from tensorclass.scores.readers import PromptText, Run

__all__ = ["PairTotals", "ShownPrompt", "ShownPrompts", "TaskPair", "shown_prompts"]

_SHARED = 200  # characters that the prompts of a task must share for the page to show them once
_EXAMPLES = 20  # prompts to read of each log, at least, to see what they share


@dataclass(frozen=True, eq=False)
class TaskPair:
    """Two models on a task, whose prompts are compared."""

    task: str
    a: Run
    b: Run
    model_a: str
    model_b: str
    figure: str
    higher_is_better: bool


@dataclass(frozen=True)
class PairTotals:
    """The numbers of prompts of all tasks that changed sides between two models.

    Attributes:
        model_a: the first model.
        model_b: the second model.
        compared: the prompts that both score.
        better: those that the second model does better.
        worse: those that it does worse.
        shown: those that the page shows one by one.
    """

    model_a: str
    model_b: str
    compared: int
    better: int
    worse: int
    shown: int


@dataclass(frozen=True)
class ShownPrompt:
    """A prompt that the page shows.

    Attributes:
        task: its task.
        figure: the figure that scores it.
        model_a: the first model.
        model_b: the second model.
        row: its row in the log of the first model, from 0.
        a: its score there.
        b: its score in the log of the second model.
        unit: the unit of the scores.
        is_better: whether the second model does better.
        prompt: its text, after what all prompts of its task begin with; None if no log holds texts.
        target: the expected answer; None if no log holds it.
        response_a: the answer of the first model; None likewise.
        response_b: the answer of the second model; None likewise.
    """

    task: str
    figure: str
    model_a: str
    model_b: str
    row: int
    a: float
    b: float
    unit: str
    is_better: bool
    prompt: str | None = None
    target: str | None = None
    response_a: str | None = None
    response_b: str | None = None


@dataclass(frozen=True, eq=False)
class ShownPrompts:
    """The prompts that changed sides.

    Attributes:
        prompts: those that the page shows, pair by pair and task by task.
        totals: how many there are, pair by pair.
        beginnings: by task, what all its prompts shown begin with, such as examples; only if that is long.
        shortened: the number of texts that were shortened.
        without_texts: the files that hold no texts, or can't be read again.
    """

    prompts: tuple[ShownPrompt, ...]
    totals: tuple[PairTotals, ...]
    beginnings: Mapping[str, str]
    shortened: int
    without_texts: tuple[str, ...]


def shown_prompts(
    pairs: Sequence[TaskPair], *, number: int, texts: bool, characters: int, with_equal: bool = False
) -> ShownPrompts:
    """Find the prompts that changed sides, choose those to show, and read their texts.

    Each pair of models and each of its tasks gets a share of the prompts shown that fits the number of its changes;
    among them those with the largest differences, rises and falls in turn.

    Args:
        pairs: the pairs of models on each task.
        number: how many prompts to show at most.
        texts: whether to read texts from the logs.
        characters: how long a text may be; longer ones lose their middle.
        with_equal: whether to show prompts with equal scores as well, after the others.
    """
    found = [changed_prompts(pair.a.scores, pair.b.scores, pair.figure, with_equal=with_equal) for pair in pairs]
    by_models: dict[tuple[str, str], list[int]] = {}
    for place, pair in enumerate(pairs):
        by_models.setdefault((pair.model_a, pair.model_b), []).append(place)
    per_pair = _shares([sum(len(found[place]) for place in places) for places in by_models.values()], number, even=True)
    chosen: dict[int, list[ChangedPrompt]] = {}
    for places, share in zip(by_models.values(), per_pair, strict=True):
        per_task = _shares([len(found[place]) for place in places], share)
        chosen.update((place, _chosen(found[place], own)) for place, own in zip(places, per_task, strict=True))
    chosen = {place: prompts for place, prompts in chosen.items() if prompts}
    reader = _Texts()
    if texts:
        for place, prompts in chosen.items():
            reader.want(pairs[place].a, (one.row_a for one in prompts))
            reader.want(pairs[place].b, (one.row_b for one in prompts))
        reader.read()
    cut = _Shortener(characters)
    beginnings = _beginnings(pairs, chosen, reader)
    shown = [
        _shown(pairs[place], found[place].unit, one, reader, beginnings, cut)
        for place, prompts in chosen.items()
        for one in prompts
    ]
    return ShownPrompts(
        prompts=tuple(shown),
        totals=tuple(_totals(pairs, found, places, chosen) for places in by_models.values()),
        beginnings={task: cut(text) for task, text in beginnings.items()},
        shortened=cut.count,
        without_texts=tuple(reader.without),
    )


def _shares(counts: Sequence[int], number: int, *, even: bool = False) -> list[int]:
    """Divide a number of prompts among groups: evenly, or in proportion to their counts (largest remainders).

    Example:
        >>> _shares([10, 1, 50], 12, even=True), _shares([10, 1, 50], 12)
        ([6, 1, 5], [2, 0, 10])
    """
    total = sum(counts)
    if total <= number:
        return list(counts)
    if even:
        shares = [0] * len(counts)
        left = number
        while left:
            open_ = [place for place, count in enumerate(counts) if shares[place] < count]
            for place in open_[:left]:
                shares[place] += 1
            left -= min(left, len(open_))
        return shares
    exact = [number * count / total for count in counts]
    shares = [int(one) for one in exact]
    order = sorted(range(len(counts)), key=lambda place: shares[place] - exact[place])
    for place in order[: number - sum(shares)]:
        shares[place] += 1
    return shares


def _chosen(found: ChangedPrompts, number: int) -> list[ChangedPrompt]:
    """The prompts with the largest differences, rises and falls in turn."""
    if number >= len(found):
        return list(found)
    rises, falls = [one for one in found if one.b > one.a], [one for one in found if one.b < one.a]
    in_turn = [one for both in zip_longest(rises, falls) for one in both if one is not None]
    return [*in_turn, *(one for one in found if one.a == one.b)][:number]


class _Texts:
    """Texts of some rows of some runs. Each log is read once."""

    def __init__(self) -> None:
        self._wanted: dict[int, tuple[Run, set[int]]] = {}
        self._found: dict[tuple[int, int], PromptText] = {}
        self._ends: dict[int, tuple[str, str]] = {}  # the first and last prompt of a log, in alphabetical order
        self.without: list[str] = []

    def want(self, run: Run, rows: Iterable[int]) -> None:
        self._wanted.setdefault(id(run), (run, set()))[1].update(rows)

    def read(self) -> None:
        for run, rows in self._wanted.values():
            if run.texts is None:
                self.without += [file for file in run.files or (run.name,) if file not in self.without]
                continue
            last = max(*rows, _EXAMPLES)
            for row, text in enumerate(run.texts()):
                if row in rows:
                    self._found[id(run), row] = text
                low, high = self._ends.get(id(run), (text.prompt, text.prompt))
                self._ends[id(run)] = min(low, text.prompt), max(high, text.prompt)
                if row == last:
                    break

    def ends(self, run: Run) -> tuple[str, str] | None:
        """Two prompts of a log that share what all the prompts read from it share; None if it has no texts."""
        return self._ends.get(id(run))

    def get(self, run: Run, row: int) -> PromptText | None:
        return self._found.get((id(run), row))


class _Shortener:
    """Cut the middle out of long texts, and count them."""

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self.count = 0

    def __call__(self, text: str) -> str:
        if len(text) <= self._characters:
            return text
        self.count += 1
        head = self._characters * 3 // 5
        tail = self._characters - head
        left_out = len(text) - head - tail
        return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[len(text) - tail :]}"


def _beginnings(pairs: Sequence[TaskPair], places: Iterable[int], reader: _Texts) -> dict[str, str]:
    """The text that all prompts of a task begin with, up to a line break, if it is long: instructions and examples."""
    prompts: dict[str, set[str]] = {}
    for place in places:
        ends = reader.ends(pairs[place].a) or reader.ends(pairs[place].b)
        prompts.setdefault(pairs[place].task, set()).update(ends or ())
    shared = {task: _shared_beginning(texts) for task, texts in prompts.items() if len(texts) > 1}
    return {task: text for task, text in shared.items() if len(text) >= _SHARED}


def _shared_beginning(texts: Iterable[str]) -> str:
    """The lines that all texts begin with.

    Example:
        >>> _shared_beginning(["one\\ntwo", "one\\nthree"])
        'one\\n'
    """
    held = list(texts)
    first, last = min(held), max(held)  # a beginning that these two share, all share
    length = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind("\n", 0, length) + 1]


def _shown(
    pair: TaskPair, unit: str, changed: ChangedPrompt, reader: _Texts, beginnings: Mapping[str, str], cut: _Shortener
) -> ShownPrompt:
    a, b = reader.get(pair.a, changed.row_a), reader.get(pair.b, changed.row_b)
    first = a if a is not None else b

    def shortened(text: str | None) -> str | None:
        return None if text is None else cut(text)

    return ShownPrompt(
        task=pair.task,
        figure=pair.figure,
        model_a=pair.model_a,
        model_b=pair.model_b,
        row=changed.row_a,
        a=changed.a,
        b=changed.b,
        unit=unit,
        is_better=(changed.b > changed.a) == pair.higher_is_better,
        prompt=shortened(None if first is None else first.prompt.removeprefix(beginnings.get(pair.task, ""))),
        target=shortened(next((one.target for one in (a, b) if one is not None and one.target is not None), None)),
        response_a=shortened(None if a is None else a.response),
        response_b=shortened(None if b is None else b.response),
    )


def _totals(
    pairs: Sequence[TaskPair],
    found: Sequence[ChangedPrompts],
    places: Sequence[int],
    chosen: Mapping[int, Sequence[ChangedPrompt]],
) -> PairTotals:
    first = pairs[places[0]]
    rises = [(found[place].rises, found[place].falls) for place in places]
    better = [up if pairs[place].higher_is_better else down for place, (up, down) in zip(places, rises, strict=True)]
    return PairTotals(
        model_a=first.model_a,
        model_b=first.model_b,
        compared=sum(found[place].compared for place in places),
        better=sum(better),
        worse=sum(up + down for up, down in rises) - sum(better),
        shown=sum(len(chosen.get(place, ())) for place in places),
    )
