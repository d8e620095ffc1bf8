"""Score records to files and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from tensorclass.scores import families
from tensorclass.scores.align import align
from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.logged_scores import LoggedScoreData, declared_family
from tensorclass.scores.score_data import ScoreData
from tensorclass.support.atomic import whole_file
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.support.regular_files import reading_regular
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind

__all__ = ["load_scores", "save_scores"]

_FORMAT = "tensorclass.scores.score_data/1"


def save_scores(scores: ScoreData, path: str | Path) -> None:
    """Write a score record to a file, completely or not at all.

    The file holds tensors, names and numbers only: reading it runs no code.

    Args:
        scores: the record. Fields that are not tensors must be None, strings, numbers, or tuples or lists of them.
        path: the file; an existing one is replaced.

    Raises:
        TypeError: a field holds something else, or differs between positions.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass.scores import ExactMatchScoreData, load_scores, save_scores
        >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_scores(scores, f"{folder}/scores.pt")
        ...     load_scores(f"{folder}/scores.pt", ExactMatchScoreData).exact_match
        tensor([1., 0.])
    """
    (scores,) = align(scores)  # one vocabulary, where positions had their own
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(scores):
        value = getattr(scores, field.name)
        if isinstance(value, Tensor):
            value = value.detach().cpu().contiguous()
        elif content_kind(value) is Content.TEXT:
            value = value.tolist()
        elif not _is_plain(value):
            raise TypeError(
                f"{field.name}: expected a tensor, None, text, a number, or a tuple or list of them, the same at each "
                f"position, got {type_name(value)}"
            )
        fields[field.name] = value
    content: dict[str, object] = {
        "format": _FORMAT,
        "family": type(scores).__name__,
        "batch_size": list(scores.batch_size),
        "fields": fields,
    }
    if isinstance(scores, LoggedScoreData):
        content["declaration"] = [scores.logged_metrics, scores.logged_labels, scores.grouped_by, scores.clustered_by]
    with uninterrupted() as section, whole_file(path) as file, section.interruptible():
        torch.save(content, file)


def load_scores(path: str | Path, family: type[ScoreData] | None = None) -> ScoreData:
    """Read a score record that :func:`save_scores` wrote.

    Args:
        path: the file.
        family: the class of the record; by default the class of this package that the file names.

    Raises:
        ValueError: another kind of file, a part of one, or a class that isn't of this package and wasn't given.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass.scores import ExactMatchScoreData, load_scores, save_scores
        >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_scores(scores, f"{folder}/scores.pt")
        ...     type(load_scores(f"{folder}/scores.pt")).__name__
        'ExactMatchScoreData'
    """
    try:
        with reading_regular(path) as file:
            read: object = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception:  # other files make the unpickler raise any error, and advise to run their code
        raise ValueError(
            f"{printable(str(path))}: expected a file written by save_scores, got something else or a part of one"
        ) from None
    named = printable(str(path))
    content = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if content.get("format") != _FORMAT:
        raise ValueError(f"{named}: expected a file written by save_scores ({_FORMAT}), got something else")
    name = content["family"]
    shown = printable(str(name))
    if family is None and "declaration" in content:
        family = declared_family(*content["declaration"])
    if family is None:
        known = (IFEvalScoreData, *(one for one in vars(families).values() if isinstance(one, type)))
        family = next((one for one in known if issubclass(one, ScoreData) and one.__name__ == name), None)
        if family is None:
            raise ValueError(
                f"{named}: holds {shown}, which is not of this package; give its class: load_scores(path, {shown})"
            )
    elif family.__name__ != name:
        raise ValueError(f"{named}: expected {class_name(family)}, got {shown}")
    return family(**content["fields"], batch_size=content["batch_size"])


def _is_plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, cast("Iterable[object]", value)))
    return value is None or isinstance(value, (str, int, float))
