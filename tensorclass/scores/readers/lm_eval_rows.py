"""Rows of sample logs of lm-evaluation-harness: the metrics of a row, and the identity of its document."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from tensorclass.scores.readers.growing_columns import shown
from tensorclass.scores.readers.lines import Row

__all__ = ["BOOKKEEPING", "document_of", "logged_metrics", "number_of", "text_of", "value_at"]

BOOKKEEPING: Final[frozenset[str]] = frozenset(
    (
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    )
)


def logged_metrics(row: Row) -> list[str]:
    """The names of the metrics of a row."""
    names = row.get("metrics")
    if isinstance(names, list):
        return [name for name in cast("list[object]", names) if isinstance(name, str)]
    return [name for name in row if name not in BOOKKEEPING]


def value_at(row: Row, keys: tuple[str, ...]) -> Any:
    """The value under nested keys; None where there is none."""
    value: Any = row
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = cast("Row", value).get(key)
    return value


def text_of(row: Row) -> str | None:
    """The prompt's text, where the document holds it."""
    doc = row.get("doc")
    text = cast("Row", doc).get("prompt") if isinstance(doc, dict) else None
    return text if isinstance(text, str) else None


def document_of(row: Row) -> str | None:
    """Return the identity of the row's document: its hash, else its number and content; None for a number alone."""
    digest = row.get("doc_hash")
    if isinstance(digest, str) and digest:
        return digest
    if digest is not None and not isinstance(digest, str):
        raise TypeError(f"the document's hash as text, got {shown(digest)}")
    doc = row.get("doc")
    if doc is None or doc in ({}, [], ""):
        return None
    try:
        return f"doc {number_of(row)} {json.dumps(doc, sort_keys=True)}"
    except RecursionError:
        raise TypeError("a document that is nested less deeply, or doc_hash") from None


def number_of(row: Row) -> str:
    """The document's number, or name, in its task."""
    number: object = row["doc_id"]
    if isinstance(number, bool) or not isinstance(number, (int, str)):
        raise TypeError(f"the document's number, got {shown(number)}")
    return str(number)
