"""Result files of IFEval's reference scorer: two a model, strict and loose, with rows in the same order.

One JSON object a line: ``{"follow_all_instructions": bool, "follow_instruction_list": [bool, ...],
"instruction_id_list": [str, ...], "prompt": str, "response": str}``. Source: Zhou et al., 2023, arXiv 2311.07911. A row
doesn't say whether it is strict or loose; the name of the file does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorclass.scores.ifeval import INSTRUCTION_TYPES, IFEvalScoreData
from tensorclass.scores.readers.growing_columns import (
    NumberColumn,
    PromptColumn,
    RaggedColumn,
    RaggedLabelColumn,
    shared_texts,
    shown,
)
from tensorclass.scores.readers.instructions import check_levels
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Run, run_name
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.support.printable import class_name

__all__ = ["LEVELS", "READER", "IFEvalReferenceReader", "level_of", "other_level", "read_reference"]

FORMAT = "ifeval-reference"

LEVELS = ("strict", "loose")

_KEYS = ("follow_all_instructions", "follow_instruction_list", "instruction_id_list", "prompt")


class IFEvalReferenceReader(Reader):
    """Reads the result files of IFEval's reference scorer: a strict and a loose one, whichever is given."""

    name = FORMAT
    description = "a result file of IFEval's reference scorer (follow_all_instructions, ...)"

    def recognises(self, head: FileHead) -> bool:
        row = head.first_row
        return row is not None and "follow_all_instructions" in row and "follow_instruction_list" in row

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        path = head.path
        refuse_options(head, options, self.name)
        if options.family not in (None, IFEvalScoreData):
            raise TypeError(f"family: expected IFEvalScoreData for {path}, got {class_name(options.family)}")
        level, other = level_of(path), other_level(path)
        if level is None or other is None:
            raise ScoreFileError(
                str(path),
                1,
                "a result file of IFEval's reference scorer doesn't say whether it is strict or loose, and neither "
                "does this file's name; name it *.eval_results_strict.jsonl or *.eval_results_loose.jsonl",
            )
        with ExitStack() as files:  # an error in one file leaves neither open
            given = {level: (str(path), _rows(head, options, files))}
            if other.exists():
                beside = FileHead.of(other)
                rows = _rows(beside, options, files)
                if not self.recognises(beside):
                    number = next((number for number, _ in rows), 1)  # or the error of the line
                    problem = f"expected a result file as {path.name} is, got another format"
                    raise ScoreFileError(str(other), number, problem)
                given["strict" if level == "loose" else "loose"] = (str(other), rows)
            run = read_reference(given.get("strict"), given.get("loose"), run_name(path))
        ids = run.scores.prompt_id
        if ids is None or not head.can_be_read_again:
            return [run]
        prompt_ids: NDArray[np.int64] = ids.numpy()
        return [replace(run, texts=partial(_texts, path, prompt_ids))]


READER = IFEvalReferenceReader()


def _rows(head: FileHead, options: ReadOptions, files: ExitStack) -> Iterator[tuple[int, Row]]:
    """The rows of a file, which is closed with the others."""
    rows: Any = head.rows(options.on_progress(head.path))
    files.callback(getattr(rows, "close", rows.__iter__))
    return cast("Iterator[tuple[int, Row]]", rows)


def level_of(path: str | Path) -> str | None:
    """``"strict"`` or ``"loose"``, as the file's name says (the last of the words counts); None where it doesn't."""
    name = Path(path).name.lower()
    found = max(LEVELS, key=name.rfind)
    return found if found in name else None


def other_level(path: str | Path) -> Path | None:
    """The name of the file with the other level of the same run; None where the name says no level.

    Example:
        >>> other_level("gpt4.eval_results_strict.jsonl").name
        'gpt4.eval_results_loose.jsonl'
    """
    path, level = Path(path), level_of(path)
    if level is None:
        return None
    start = path.name.lower().rindex(level)
    other = LEVELS[1 - LEVELS.index(level)]
    return path.with_name(path.name[:start] + other + path.name[start + len(level) :])


def read_reference(
    strict: tuple[str, Iterable[tuple[int, Row]]] | None, loose: tuple[str, Iterable[tuple[int, Row]]] | None, name: str
) -> Run:
    """The run in a pair of result files, or in one of them.

    Args:
        strict: the strict file's path, and its rows with their line numbers; or None.
        loose: likewise.
        name: the run's name.

    Raises:
        ScoreFileError: a row that isn't of the format, or rows of the two files that are not of the same prompt with
            the same instructions.
    """
    given = {level: file for level, file in zip(LEVELS, (strict, loose), strict=True) if file is not None}
    if not given:
        raise ValueError("strict, loose: expected at least one file, got None for both")
    prompts, types = PromptColumn(), RaggedLabelColumn(INSTRUCTION_TYPES)
    verdicts = {level: (NumberColumn(share=True), RaggedColumn(share=True)) for level in given}
    count = 0
    for rows in _together(given):
        path, number, row = rows[next(iter(given))]
        _add(path, number, row, {"instruction_id_list": types})
        text = row["prompt"]
        if not isinstance(text, str):
            raise ScoreFileError(path, number, f"prompt: expected the prompt's text, got {shown(text)}")
        prompts.add(json.dumps([text, row["instruction_id_list"]]), text)
        for level, (path, number, row) in rows.items():
            every, each = verdicts[level]
            _add(path, number, row, {"follow_all_instructions": every, "follow_instruction_list": each})
            if each.lengths[-1] != types.lengths[-1]:
                expected = f"a verdict for each of the {types.lengths[-1]} instructions, got {each.lengths[-1]}"
                raise ScoreFileError(path, number, f"follow_instruction_list: expected {expected}")
            check_levels(path, number, "follow_all_instructions", "follow_instruction_list", every.last(), each.last())
        count += 1
    width = IFEvalScoreData.ragged_width
    values: dict[str, Any] = {}
    for level, (every, each) in verdicts.items():
        values[f"prompt_level_{level}_acc"] = every.tensor(width)
        values[f"inst_level_{level}_acc"] = each.tensor(width)
    scores = IFEvalScoreData(
        **values,
        prompt_id=prompts.tensor(width),
        prompt_task=torch.full((count,), -1, dtype=torch.int32, device="cpu"),  # no row says it, and no file name
        task_names=(),
        instruction_id=types.tensor(width),
        instruction_types=types.vocabulary,
        batch_size=[count],
    )
    notes = [f"no {level} file beside it" for level in LEVELS if level not in given]
    if len(given) == 2 and _right(values["prompt_level_loose_acc"]) < _right(values["prompt_level_strict_acc"]):
        notes.append("fewer prompts are followed loosely than strictly: are the names of the two files exchanged?")
    return Run(
        name=name,
        scores=scores,
        files=tuple(path for path, _ in given.values()),
        format=FORMAT,
        notes=(*notes, *shared_texts(prompts)),
    )


def _texts(path: Path, prompt_ids: NDArray[np.int64]) -> Iterator[PromptText]:
    """The texts of a run's rows, read again from one of its files."""
    for number, (_, row) in zip(prompt_ids.tolist(), FileHead.of(path).rows(), strict=True):
        response = row.get("response")
        yield PromptText(number, str(row["prompt"]), response if isinstance(response, str) else None)


def _right(verdicts: Tensor) -> float:
    return float(verdicts.double().nansum())


def _together(given: dict[str, tuple[str, Iterable[tuple[int, Row]]]]) -> Iterator[dict[str, tuple[str, int, Row]]]:
    """The rows of the files side by side; an error where they are not of the same prompt."""
    last = dict.fromkeys(given, 0)
    for rows in zip_longest(*(iter(rows) for _, rows in given.values())):
        found: dict[str, tuple[str, int, Row]] = {}
        for (level, (path, _)), numbered in zip(given.items(), rows, strict=True):
            if numbered is None:
                other = next(path for name, (path, _) in given.items() if name != level)
                problem = f"the file ends here, but {Path(other).name} has more rows; expected the same prompts in both"
                raise ScoreFileError(path, last[level] + 1, problem)
            number, row = numbered
            last[level] = number
            for key in _KEYS:
                if key not in row:
                    raise ScoreFileError(path, number, f"{key}: expected in every row, but this row lacks it")
            found[level] = (path, number, row)
        if len(found) == 2:
            _check_same(*found.values())
        yield found


def _check_same(one: tuple[str, int, Row], other: tuple[str, int, Row]) -> None:
    for key, what in (("prompt", "prompt"), ("instruction_id_list", "instructions")):
        if one[2][key] != other[2][key]:
            raise ScoreFileError(
                other[0],
                other[1],
                f"expected the {what} of line {one[1]} of {Path(one[0]).name}, got another; "
                "strict and loose files must hold the same rows in the same order",
            )


def _add(path: str, number: int, row: Row, columns: dict[str, NumberColumn | RaggedColumn | RaggedLabelColumn]) -> None:
    for key, column in columns.items():
        try:
            column.add(row[key])
        except TypeError as error:
            raise ScoreFileError(path, number, f"{key}: expected {error}") from None
