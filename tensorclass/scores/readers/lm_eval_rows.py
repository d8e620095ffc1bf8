"""Rows of sample logs of lm-evaluation-harness: metrics, the identity of the document, texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.growing_columns import shown
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.run import PromptText

__all__ = ["BOOKKEEPING", "document_of", "logged_metrics", "logged_texts", "number_of", "text_of", "value_at"]

BOOKKEEPING: Final[frozenset[str]] = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
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


def logged_texts(path: Path, filter: str | None, prompt_ids: NDArray[np.int64]) -> Iterator[PromptText]:
    """Read the texts of the rows of one filter of a log.

    Args:
        path: the log.
        filter: the filter of the rows.
        prompt_ids: the id of the prompt of each row.
    """
    rows = (row for _, row in FileHead.of(path).rows() if row.get("filter") == filter)
    for number, row in zip(prompt_ids.tolist(), rows, strict=True):
        target = None if row.get("target") is None else _shown(row["target"])
        yield PromptText(number, _prompt(row), _response(row), target)


def _requests(row: Row) -> list[list[object]]:
    """The arguments of each request: the prompt, and the continuation or the options of generation."""
    found = row.get("arguments")
    if isinstance(found, dict):  # {"gen_args_0": {"arg_0": ..., "arg_1": ...}}
        requests: list[object] = list(cast("dict[str, object]", found).values())
    else:  # [[..., ...]] in older logs
        requests = cast("list[object]", found) if isinstance(found, list) else []
    return [
        list(cast("Mapping[str, object]", one).values()) if isinstance(one, dict) else cast("list[object]", one)
        for one in requests
        if isinstance(one, (dict, list)) and one
    ]


def _prompt(row: Row) -> str:
    requests = _requests(row)
    if requests:
        return _shown(requests[0][0])
    doc: object = row.get("doc")
    return _shown(cast("Row", doc).get("prompt", doc) if isinstance(doc, dict) else doc)


def _response(row: Row) -> str | None:
    """The response after the filter; of several choices, the one with the highest log-likelihood."""
    found: object = row.get("filtered_resps", row.get("resps"))
    responses = cast("list[object]", found) if isinstance(found, list) else []
    if not responses:
        return None
    choices = [one[1] for one in _requests(row) if len(one) > 1 and isinstance(one[1], str)]
    likelihoods = [_likelihood(one) for one in responses]
    known = [one for one in likelihoods if one is not None]
    if len(known) == len(responses) == len(choices):
        return choices[known.index(max(known))]
    return _shown(responses[0])


def _likelihood(response: object) -> float | None:
    """The log-likelihood in ``["-1.25", "False"]``; None for other responses."""
    pair = cast("list[object]", response) if isinstance(response, list) else []
    if len(pair) != 2:
        return None
    try:
        return float(str(pair[0]))
    except ValueError:
        return None


def _shown(value: object) -> str:
    while isinstance(value, list) and len(cast("list[object]", value)) == 1:
        value = cast("list[object]", value)[0]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
