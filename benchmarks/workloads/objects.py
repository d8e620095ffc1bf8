"""Records with a field that is no tensor: the same text at every row, until different ones are stacked."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.sides import Hand, Side
from benchmarks.timing import Call
from benchmarks.workloads.table import ROWS, Workload


def _notes(side: Side, texts: list[str]) -> list[Any]:
    return [side.Note(score=torch.ones(32), text=text, batch_size=ROWS) for text in texts]


def _notes_by_hand(texts: list[str]) -> list[Hand]:
    return [({"score": torch.ones(32), "text": text}, ROWS) for text in texts]


def _row_by_hand(note: Hand) -> Hand:
    values, size = note
    return {k: v if isinstance(v, str) else v[3] for k, v in values.items()}, size[1:]


def _stack_by_hand(notes: list[Hand]) -> Hand:
    texts: list[str] = [values["text"] for values, _ in notes]
    score = torch.stack([values["score"] for values, _ in notes])
    text = texts[0] if len(set(texts)) == 1 else texts
    return {"score": score, "text": text}, (len(notes), *notes[0][1])


def _construct(side: Side) -> Call:
    score, note = torch.ones(32), side.Note
    return lambda: note(score=score, text="a text", batch_size=ROWS)


def _construct_by_hand() -> Call:
    score = torch.ones(32)

    def construct() -> Hand:
        if score.shape[:1] != ROWS:
            raise ValueError("score")
        return {"score": score, "text": "a text"}, ROWS

    return construct


def _on_notes(name: str, texts: list[str], library: Callable[[Any], Any], hand: Callable[[Any], Any]) -> Workload:
    """An operation on a list of notes."""
    return Workload(
        name,
        lambda side: partial(library, _notes(side, texts)),
        lambda: partial(hand, _notes_by_hand(texts)),
    )


_EQUAL = ["a text"] * 8
_DIFFERENT = [f"text {i}" for i in range(8)]

WORKLOADS = (
    Workload("construct (text field)", _construct, _construct_by_hand),
    _on_notes("read the text (text field)", _EQUAL[:1], lambda notes: notes[0].text, lambda notes: notes[0][0]["text"]),
    _on_notes("[int] (text field)", _EQUAL[:1], lambda notes: notes[0][3], lambda notes: _row_by_hand(notes[0])),
    _on_notes("stack of 8 equal (text field)", _EQUAL, torch.stack, _stack_by_hand),
    _on_notes("stack of 8 different (text field)", _DIFFERENT, torch.stack, _stack_by_hand),
)
