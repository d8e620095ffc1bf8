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


def _on_column(name: str, library: Callable[[Any], Any], hand: Callable[[Hand], Any]) -> Workload:
    """An operation on eight notes with different texts, stacked."""
    return Workload(
        name,
        lambda side: partial(library, torch.stack(_notes(side, _DIFFERENT))),
        lambda: partial(hand, _stack_by_hand(_notes_by_hand(_DIFFERENT))),
    )


def _texts(note: Any) -> list[str]:
    return [row if isinstance(row, str) else row[0] for row in note.text]


def _slice_by_hand(note: Hand) -> Hand:
    values, size = note
    return {k: v[2:6] for k, v in values.items()}, (4, *size[1:])


def _rows_by_hand(note: Hand) -> list[Hand]:
    values, size = note
    return [({"score": s, "text": t}, size[1:]) for s, t in zip(values["score"].unbind(0), values["text"], strict=True)]


def _texts_by_hand(note: Hand) -> list[str]:
    texts: list[str] = note[0]["text"]
    return list(texts)


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
    _on_column("read the texts (8 texts)", _texts, _texts_by_hand),
    _on_column("[slice], score (8 texts)", lambda note: note[2:6].score, lambda note: _slice_by_hand(note)[0]["score"]),
    _on_column(
        "unbind, scores (8 texts)",
        lambda note: [row.score for row in note.unbind(0)],
        lambda note: [row[0]["score"] for row in _rows_by_hand(note)],
    ),
    _on_column(
        "[int], text (8 texts)",
        lambda note: (lambda text: text if isinstance(text, str) else text[0])(note[3].text),
        lambda note: note[0]["text"][3],
    ),
)
