"""Making a collection from tensors, with the batch size checked against each of them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from benchmarks.sides import FIELDS, Batch, Hand, Side, fifty, four, nested
from benchmarks.timing import Call
from benchmarks.workloads.table import ROWS, Workload


def _checked(values: dict[str, Tensor], size: Batch) -> dict[str, Tensor]:
    """What anyone checks who takes tensors from outside."""
    dims = len(size)
    for key, value in values.items():
        if value.shape[:dims] != size:
            raise ValueError(f"{key}: expected batch size {size}, got shape {tuple(value.shape)}")
    return values


def _record(side: Side) -> Call:
    return _made(side.Record)


def _contracted(side: Side) -> Call:
    return _made(side.Contracted)


def _made(record: Any) -> Call:
    source = four(ROWS)

    def construct() -> Any:
        return record(
            observation=source["observation"],
            action=source["action"],
            reward=source["reward"],
            value=source["value"],
            batch_size=ROWS,
        )

    return construct


def _record_by_hand() -> Call:
    source = four(ROWS)

    def construct() -> Hand:
        values = {
            "observation": source["observation"],
            "action": source["action"],
            "reward": source["reward"],
            "value": source["value"],
        }
        return _checked(values, ROWS), ROWS

    return construct


def _contracted_by_hand() -> Call:
    source = four(ROWS)
    shapes, floats = FIELDS, (torch.float16, torch.bfloat16, torch.float32, torch.float64)

    def construct() -> Hand:
        values = {
            "observation": source["observation"],
            "action": source["action"],
            "reward": source["reward"],
            "value": source["value"],
        }
        for key, value in values.items():
            if value.shape != ROWS + shapes[key]:
                raise ValueError(f"{key}: expected {shapes[key]} behind {ROWS}, got shape {tuple(value.shape)}")
            if value.dtype not in floats:
                raise ValueError(f"{key}: expected floats, got {value.dtype}")
        return values, ROWS

    return construct


def _nested_record(side: Side) -> Call:
    source, nesting = nested(ROWS), side.Nested
    before, after = (side.Record(**source[key], batch_size=ROWS) for key in ("before", "after"))

    def construct() -> Any:
        return nesting(before=before, after=after, reward=source["reward"], value=source["value"], batch_size=ROWS)

    return construct


def _nested_record_by_hand() -> Call:
    source = nested(ROWS)
    before, after = (source["before"], ROWS), (source["after"], ROWS)

    def construct() -> Hand:
        for _, size in (before, after):
            if size != ROWS:
                raise ValueError(f"expected batch size {ROWS}, got {size}")
        flat = _checked({"reward": source["reward"], "value": source["value"]}, ROWS)
        return {"before": before[0], "after": after[0], **flat}, ROWS

    return construct


def _dict(name: str, source: Mapping[str, Any]) -> Workload:
    def library(side: Side) -> Call:
        collection = side.TensorDict
        return lambda: collection(source, ROWS)

    def hand() -> Call:
        return lambda: (_checked(dict(source), ROWS), ROWS)

    return Workload(name, library, hand)


def _nested_dict() -> Workload:
    source = nested(ROWS)

    def library(side: Side) -> Call:
        collection = side.TensorDict
        return lambda: collection(source, ROWS)

    def construct() -> Hand:
        flat = {key: value for key, value in source.items() if not isinstance(value, dict)}
        inner = {key: _checked(dict(value), ROWS) for key, value in source.items() if isinstance(value, dict)}
        return {**inner, **_checked(flat, ROWS)}, ROWS

    return Workload("construct (nested td)", library, lambda: construct)


WORKLOADS = (
    Workload("construct (record)", _record, _record_by_hand),
    Workload("construct (record with contracts)", _contracted, _contracted_by_hand),
    _dict("construct (td)", four(ROWS)),
    _dict("construct (td50)", fifty(ROWS)),
    Workload("construct (nested record)", _nested_record, _nested_record_by_hand),
    _nested_dict(),
)
