"""Annotations of AlpacaEval: ``annotations.json``, an array with a judgement on each prompt.

An entry has ``instruction``, the answers ``output_1`` of the baseline and ``output_2`` of the model, ``generator_1``
and ``generator_2``, ``annotator``, ``dataset`` and ``preference``: 1 for the baseline, 2 for the model, between
them for a probability, 1.5 (in older files 0) for a draw, null where the judge gave no verdict. Source: the
documentation of alpaca_eval 0.6, https://github.com/tatsu-lab/alpaca_eval#readme.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Final, cast

from typing_extensions import TypedDict

from tensorclass.scores.families import AlpacaEvalScoreData
from tensorclass.scores.readers.alpaca_difficulties import WITHOUT_DIFFICULTIES
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.json_document import read_document, shaped
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Published, Run
from tensorclass.scores.readers.unpacked_file import BROKEN, broken, opened
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "AlpacaEvalReader"]

_BASELINE: Final = 1.0
_MODEL: Final = 2.0
_DRAWS: Final = (0.0, 1.5)
_PUBLISHED: Final = ("win_rate", "standard_error", "length_controlled_winrate")


class _Annotation(TypedDict, total=False):
    instruction: str
    output_1: str
    output_2: str
    generator_1: str
    generator_2: str
    annotator: str
    dataset: str | None
    preference: float | None
    difficulty: object  # of the caller's own


class AlpacaEvalReader(Reader):
    """Reads annotations of AlpacaEval."""

    name: str = "alpaca_eval"
    description = "annotations of AlpacaEval (instruction, output_1, output_2, preference)"
    companions: Sequence[str] = ("leaderboard.csv", "model_outputs.json")

    def recognises(self, head: FileHead) -> bool:
        row = head.first_row
        return row is not None and {"instruction", "output_1", "output_2", "preference"} <= row.keys()

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name, roles=("difficulty",))
        annotations = _annotations(head)
        key = options.columns.get("difficulty")
        if key is not None:
            for one, difficulty in zip(annotations, _difficulties(head, key), strict=True):
                one["difficulty"] = difficulty
        models = dict.fromkeys(one.get("generator_2", "") for one in annotations)
        return [
            _run(head, options, [one for one in annotations if one.get("generator_2", "") == model], model)
            for model in models
        ]


READER = AlpacaEvalReader()


def _annotations(head: FileHead) -> list[_Annotation]:
    if head.start.lstrip()[:1] == b"[":
        return read_document(head.location, list[_Annotation], str(head.path))
    return [shaped(row, _Annotation, str(head.path), line) for line, row in head.rows()]


def _difficulties(head: FileHead, key: str) -> list[object]:
    """The difficulty of each prompt, which the caller has added to the entries under a key."""
    entries = [row for _, row in head.rows()]
    for number, entry in enumerate(entries):
        if key not in entry:
            raise ScoreFileError(str(head.path), None, f"{key}: expected in each entry, but entry {number} lacks it")
    return [entry[key] for entry in entries]


def _run(head: FileHead, options: ReadOptions, annotations: list[_Annotation], model: str) -> Run:
    path = str(head.path)
    gathered = GatheredScores(head)
    wins = draws = losses = 0
    for number, one in enumerate(annotations):
        preference = _preference(one, path, number)
        wins += preference is not None and preference > 0.5
        draws += preference == 0.5
        losses += preference is not None and preference < 0.5
        gathered.add(
            one.get("instruction", ""),
            {
                "preference": preference,
                "length_difference": len(one.get("output_2", "")) - len(one.get("output_1", "")),
                **({"difficulty": one["difficulty"]} if "difficulty" in one else {}),
            },
            labels={"dataset": one.get("dataset")},
            task=_task(one),
        )
    if "preference" not in gathered.metrics():
        raise ScoreFileError(path, None, f"{gathered.rows} prompts, none of them judged: there is nothing to aggregate")
    unjudged = gathered.rows - wins - losses - draws
    notes = [f"wins: {wins}, losses: {losses}, draws: {draws}, not judged: {unjudged}"]
    family = options.family or AlpacaEvalScoreData
    if family is AlpacaEvalScoreData and "difficulty" not in options.columns:
        notes.append(WITHOUT_DIFFICULTIES)
    leaderboard = head.path.with_name("leaderboard.csv")
    row = _leaderboard_row(leaderboard, model)
    controlled = row.get("length_controlled_winrate")
    return gathered.run(
        READER.name,
        family,
        name=model or None,
        beside=[leaderboard] if row else [],
        notes=tuple(notes),
        model=model or None,
        task=_task(annotations[0]),
        published={"win_rate": Published(row["win_rate"], row.get("standard_error"))} if row else {},
        published_in=str(leaderboard),
        higher_is_better=dict.fromkeys(("win_rate", "length_controlled_win_rate", "length_adjusted_win_rate"), True),
        left_out=()
        if controlled is None
        else (f"length_controlled_winrate is {100 * controlled:.2f} in {leaderboard}",),
        texts=partial(_texts, head.path, model),
    )


def _preference(annotation: _Annotation, path: str, number: int) -> float | None:
    """The preference for the model, 0 to 1; None where there is no judgement."""
    value = annotation.get("preference")
    if value is None or value != value:
        return None
    if value in _DRAWS:
        return 0.5
    if not _BASELINE <= value <= _MODEL:
        expected = "a number from 1 (the baseline) to 2 (the model), or 0 for a draw"
        raise ScoreFileError(path, None, f"preference: expected {expected}, got {shown(value)} in entry {number}")
    return value - _BASELINE


def _task(annotation: _Annotation) -> str:
    """Win rates over other baselines, or of other judges, are of other tasks."""
    parts = "alpaca_eval", annotation.get("annotator", ""), annotation.get("generator_1", "")
    return "/".join(part for part in parts if part)


def _leaderboard_row(path: Path, model: str) -> dict[str, float]:
    """The figures of a model in ``leaderboard.csv``, as fractions; none if it isn't there."""
    if not path.is_file():
        return {}
    with opened(path) as (stream, _), TextIOWrapper(cast("IO[bytes]", stream), "utf-8-sig", newline="") as text:
        rows, nothing = csv.DictReader(text), dict[str, str]()
        try:
            row = next((row for row in rows if model in (row.get(""), row.get("model"), row.get("name"))), nothing)
            figures = {key: float(row[key]) / 100 for key in _PUBLISHED if row.get(key)}
        except BROKEN as error:
            raise broken(str(path), rows.line_num + 1, error) from None
        except ScoreFileError:
            raise
        except (csv.Error, ValueError) as error:  # or no UTF-8
            raise ScoreFileError(str(path), rows.line_num, f"expected a table of figures: {error}") from None
    return figures if "win_rate" in figures else {}


def _texts(path: Path, model: str) -> Iterator[PromptText]:
    for one in _annotations(FileHead.of(path)):
        if one.get("generator_2", "") == model:
            instruction = one.get("instruction", "")
            yield PromptText(prompt_id(instruction), instruction, one.get("output_2"))
