"""Operations on the batch dimensions."""

import math
from typing import Any

import torch

from benchmarks.sides import Batch
from benchmarks.workloads.table import GRID, ROWS, Operation, on_forms

_PICKED = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
_MASK = torch.arange(32) % 3 == 0


def _pieces(d: dict[str, Any], parts: Any, sizes: Any) -> Any:
    """Collections from what an operation made of each field: the i-th of every field belong together."""
    return [(dict(zip(d, part, strict=True)), size) for part, size in zip(zip(*parts, strict=True), sizes, strict=True)]


def _split(d: dict[str, Any], n: Batch) -> Any:
    parts = [v.split(8) for v in d.values()]
    return _pieces(d, parts, [(part.shape[0], *n[1:]) for part in parts[0]])


def _chunk(d: dict[str, Any], n: Batch) -> Any:
    parts = [v.chunk(4) for v in d.values()]
    return _pieces(d, parts, [(part.shape[0], *n[1:]) for part in parts[0]])


def _unbind(d: dict[str, Any], n: Batch) -> Any:
    return [(dict(zip(d, row, strict=True)), n[1:]) for row in zip(*(v.unbind(0) for v in d.values()), strict=True)]


def _gather(d: dict[str, Any], n: Batch) -> Any:
    count = len(_PICKED)
    return {
        k: v.gather(0, _PICKED.reshape(count, *[1] * (v.ndim - 1)).expand(count, *v.shape[1:])) for k, v in d.items()
    }, (count,)


def _masked_select(d: dict[str, Any], n: Batch) -> Any:
    out = {k: v[_MASK] for k, v in d.items()}
    return out, tuple(next(iter(out.values())).shape[:1])


def _flatten(d: dict[str, Any], n: Batch) -> Any:
    return {k: v.flatten(0, 1) for k, v in d.items()}, (math.prod(n),)


SHAPES = (
    Operation(
        "reshape",
        lambda x: x.reshape(4, 8),
        lambda d, n: ({k: v.reshape(4, 8, *v.shape[len(n) :]) for k, v in d.items()}, (4, 8)),
    ),
    Operation(
        "reshape(-1)",
        lambda x: x.reshape(-1),
        lambda d, n: ({k: v.reshape(-1, *v.shape[len(n) :]) for k, v in d.items()}, (math.prod(n),)),
        batch=GRID,
    ),
    Operation(
        "view",
        lambda x: x.view(4, 8),
        lambda d, n: ({k: v.view(4, 8, *v.shape[len(n) :]) for k, v in d.items()}, (4, 8)),
    ),
    Operation("flatten", lambda x: x.flatten(0, 1), _flatten, batch=GRID),
    Operation(
        "unflatten",
        lambda x: x.unflatten(0, (4, 8)),
        lambda d, n: ({k: v.unflatten(0, (4, 8)) for k, v in d.items()}, (4, 8, *n[1:])),
    ),
    Operation(
        "permute",
        lambda x: x.permute(1, 0),
        lambda d, n: ({k: v.permute(1, 0, *range(2, v.ndim)) for k, v in d.items()}, (n[1], n[0])),
        batch=GRID,
    ),
    Operation(
        "transpose",
        lambda x: x.transpose(0, 1),
        lambda d, n: ({k: v.transpose(0, 1) for k, v in d.items()}, (n[1], n[0])),
        batch=GRID,
    ),
    Operation(
        "squeeze",
        lambda x: x.squeeze(1),
        lambda d, n: ({k: v.squeeze(1) for k, v in d.items()}, (n[0], *n[2:])),
        batch=(32, 1),
    ),
    Operation("unsqueeze", lambda x: x.unsqueeze(0), lambda d, n: ({k: v.unsqueeze(0) for k, v in d.items()}, (1, *n))),
    Operation(
        "expand",
        lambda x: x.expand(3, 32),
        lambda d, n: ({k: v.expand(3, *v.shape) for k, v in d.items()}, (3, *n)),
    ),
    Operation(
        "repeat",
        lambda x: x.repeat(2),
        lambda d, n: ({k: v.repeat(2, *[1] * (v.ndim - 1)) for k, v in d.items()}, (2 * n[0], *n[1:])),
    ),
    Operation(
        "repeat_interleave",
        lambda x: x.repeat_interleave(2, dim=0),
        lambda d, n: ({k: v.repeat_interleave(2, dim=0) for k, v in d.items()}, (2 * n[0], *n[1:])),
    ),
    Operation("split", lambda x: x.split(8), _split),
    Operation("chunk", lambda x: x.chunk(4), _chunk),
    Operation("unbind", lambda x: x.unbind(0), _unbind),
    Operation("rows of a loop", list, _unbind),
    Operation("flip", lambda x: x.flip(0), lambda d, n: ({k: v.flip(0) for k, v in d.items()}, n)),
    Operation("roll", lambda x: x.roll(1, 0), lambda d, n: ({k: v.roll(1, 0) for k, v in d.items()}, n)),
    Operation("gather", lambda x: x.gather(0, _PICKED), _gather),
    Operation("masked_select", lambda x: x.masked_select(_MASK), _masked_select),
    Operation("contiguous", lambda x: x.contiguous(), lambda d, n: ({k: v.contiguous() for k, v in d.items()}, n)),
)

FIFTY = tuple(operation for operation in SHAPES if operation.name in ("reshape", "permute", "unsqueeze", "unbind"))


def _nested_reshape(d: dict[str, Any], n: Batch) -> Any:
    dims = len(n)
    return {
        k: {j: w.reshape(4, 8, *w.shape[dims:]) for j, w in v.items()}
        if isinstance(v, dict)
        else v.reshape(4, 8, *v.shape[dims:])
        for k, v in d.items()
    }, (4, 8)


NESTED = (Operation("reshape", lambda x: x.reshape(4, 8), _nested_reshape, batch=ROWS),)

WORKLOADS = (
    *on_forms(SHAPES),
    *on_forms(FIFTY, ("td50",)),
    *on_forms(NESTED, ("nested record", "nested td")),
)
