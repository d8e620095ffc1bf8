"""Making records stackable: common widths, common vocabularies, common dtypes."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import torch
from torch import Tensor

from tensorclass.scores.labels import common_codes, merge, translate
from tensorclass.scores.metrics import declared_codes
from tensorclass.scores.score_arrays import plain_value
from tensorclass.scores.score_data import ScoreData
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind

__all__ = ["align"]

_Score = TypeVar("_Score", bound=ScoreData)


def align(*scores: _Score) -> list[_Score]:
    """Return the same scores in a form that ``torch.stack`` and ``torch.cat`` take.

    Ragged fields are padded to the widest of all records (NaN; -1 for codes), codes are translated into one vocabulary,
    a field that holds bools here and numbers there becomes floating. A field that only some of the records hold is an
    error: there is nothing to put in its place. The task of a prompt, where a record doesn't say it, is -1.

    Args:
        scores: records of one class.

    Raises:
        TypeError: records of different classes.
        ValueError: a field that some hold and some don't, or whose number of dimensions differs.

    Example:
        >>> import torch
        >>> from tensorclass.scores import IFEvalScoreData, align, ragged
        >>> short = IFEvalScoreData(None, ragged([[1], [0]]), None, None, batch_size=[2])
        >>> long = IFEvalScoreData(None, ragged([[1, 1, 0]]), None, None, batch_size=[1])
        >>> torch.cat(align(short, long)).inst_level_strict_acc.shape
        torch.Size([3, 3])
    """
    for score in scores:
        if not isinstance(score, ScoreData):
            raise TypeError(f"expected score records, one an argument: align(a, b); got {type_name(score)}")
    kinds = {type(score) for score in scores}
    if len(kinds) > 1:
        raise TypeError(f"expected records of one class, got {', '.join(sorted(map(class_name, kinds)))}")
    columns: list[dict[str, Any]] = [{} for _ in scores]
    for field in dataclasses.fields(scores[0]) if scores else ():
        values = [getattr(score, field.name) for score in scores]
        are_texts = [content_kind(value) is Content.TEXT for value in values]
        if any(are_texts) and not all(are_texts):
            raise ValueError(f"{field.name}: expected texts in each record or in none, got None in some")
        if not any(isinstance(value, Tensor) for value in values):
            for column, value in zip(columns, values, strict=True):
                column.setdefault(field.name, value)
            continue
        if field.name == "prompt_task":
            for place, score in enumerate(scores):
                if values[place] is None:  # the task is not known
                    values[place] = torch.full(tuple(score.batch_size), -1, dtype=torch.int32, device=score.device)
        if not all(isinstance(value, Tensor) for value in values):
            raise ValueError(f"{field.name}: expected a tensor in each record or in none, got None in some")
        declared = declared_codes(field.metadata)
        if declared is not None:
            values, names = _common_names(scores, values, declared.names)
            for column in columns:
                column[declared.names] = names
        shaped = _same_shape(field.name, scores, values, -1 if declared else float("nan"))
        for column, value in zip(columns, shaped, strict=True):
            column[field.name] = value
    return [
        type(score)(**column, batch_size=score.batch_size, device=score.device)
        for score, column in zip(scores, columns, strict=True)
    ]


def _common_names(scores: tuple[_Score, ...], values: list[Tensor], field: str) -> tuple[list[Tensor], Any]:
    vocabularies = [plain_value(getattr(score, field)) for score in scores]
    if all(names is None for names in vocabularies):
        return values, None
    each = [
        common_codes(value.cpu().long().numpy(), names, tuple(score.batch_size))
        for value, names, score in zip(values, vocabularies, scores, strict=True)
    ]
    names = merge(own for _, own in each)
    translated = [
        torch.as_tensor(translate(codes, own, names), device="cpu").to(value)
        for (codes, own), value in zip(each, values, strict=True)
    ]
    return translated, names


def _same_shape(name: str, scores: tuple[_Score, ...], values: list[Tensor], fill: float) -> list[Tensor]:
    dtype = values[0].dtype
    for value in values[1:]:
        dtype = torch.promote_types(dtype, value.dtype)
    trailing = [tuple(value.shape[len(score.batch_size) :]) for value, score in zip(values, scores, strict=True)]
    if len({len(shape) for shape in trailing}) > 1:
        shapes = [list(shape) for shape in trailing]
        raise ValueError(f"{name}: expected as many dimensions in each record, got shapes {shapes}")
    if len(set(trailing)) == 1:
        return [value.to(dtype) for value in values]
    widest = [max(sizes) for sizes in zip(*trailing, strict=True)]
    if fill != fill and not dtype.is_floating_point:
        dtype = torch.float32  # only these have NaN
    padded: list[Tensor] = []
    for value, shape in zip(values, trailing, strict=True):
        room = [size for wide, own in zip(reversed(widest), reversed(shape), strict=True) for size in (0, wide - own)]
        padded.append(torch.nn.functional.pad(value.to(dtype), room, value=fill))
    return padded
