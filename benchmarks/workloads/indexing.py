"""Reading and writing rows, with every kind of index."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.sides import Batch
from benchmarks.workloads.table import GRID, ROWS, Operation, on_forms

_MASK = torch.arange(32) % 3 == 0
_COUNT = int(_MASK.sum())
_INDEX = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
_MATRIX = _INDEX.reshape(4, 2)
_LIST = _INDEX.tolist()
_NUMPY = _INDEX.numpy()
_RANGE = range(4, 20, 2)
_FEW = slice(2, 10)


def _size_of(d: dict[str, Any], dims: int) -> Batch:
    """The batch size of a result whose size an index decides."""
    return tuple(next(iter(d.values())).shape[:dims])


def _mask(d: dict[str, Any], n: Batch) -> Any:
    out = {k: v[_MASK] for k, v in d.items()}
    return out, _size_of(out, 1)


def _list(d: dict[str, Any], n: Batch) -> Any:
    index = torch.tensor(_LIST)
    return {k: v[index] for k, v in d.items()}, (len(_LIST), *n[1:])


def _range(d: dict[str, Any], n: Batch) -> Any:
    index = torch.arange(_RANGE.start, _RANGE.stop, _RANGE.step)  # a slice would be a view, not a copy
    return {k: v[index] for k, v in d.items()}, (len(_RANGE), *n[1:])


def _numpy(d: dict[str, Any], n: Batch) -> Any:
    index = torch.from_numpy(_NUMPY)
    return {k: v[index] for k, v in d.items()}, (len(_NUMPY), *n[1:])


def _slice(d: dict[str, Any], n: Batch) -> Any:
    return {k: v[_FEW] for k, v in d.items()}, (len(range(n[0])[_FEW]), *n[1:])


READ = (
    Operation("[int]", lambda x: x[3], lambda d, n: ({k: v[3] for k, v in d.items()}, n[1:])),
    Operation("[slice]", lambda x: x[_FEW], _slice),
    Operation("[mask]", lambda x: x[_MASK], _mask),
    Operation(
        "[index tensor]",
        lambda x: x[_INDEX],
        lambda d, n: ({k: v[_INDEX] for k, v in d.items()}, (*_INDEX.shape, *n[1:])),
    ),
    Operation(
        "[index matrix]",
        lambda x: x[_MATRIX],
        lambda d, n: ({k: v[_MATRIX] for k, v in d.items()}, (*_MATRIX.shape, *n[1:])),
    ),
    Operation("[list]", lambda x: x[_LIST], _list),
    Operation("[range]", lambda x: x[_RANGE], _range),
    Operation("[numpy]", lambda x: x[_NUMPY], _numpy),
    Operation("[None]", lambda x: x[None], lambda d, n: ({k: v[None] for k, v in d.items()}, (1, *n))),
    # Everything: nothing to compute, so a new dict of the same tensors.
    Operation("[...]", lambda x: x[...], lambda d, n: (dict(d), n)),
    Operation(
        "[int, slice]",
        lambda x: x[3, 1:3],
        lambda d, n: ({k: v[3, 1:3] for k, v in d.items()}, (len(range(n[1])[1:3]), *n[2:])),
        batch=GRID,
    ),
    Operation(
        "[..., int]",
        lambda x: x[..., 1],
        lambda d, n: ({k: v[:, 1] for k, v in d.items()}, n[:-1]),
        batch=GRID,
    ),
)


def _write(name: str, index: Any, rows: Batch) -> Operation:
    """`x[index] = y`, with `y` of batch size `rows`."""

    def library(x: Any, y: Any) -> Any:
        x[index] = y
        return x

    def hand(d: dict[str, Any], n: Batch, e: dict[str, Any]) -> Any:
        for k, v in d.items():
            v[index] = e[k]
        return d, n

    return Operation(name, library, hand, other=rows)


def _zero(x: Any) -> Any:
    x[_MASK] = 0.0
    return x


def _zero_by_hand(d: dict[str, Any], n: Batch) -> Any:
    for v in d.values():
        v[_MASK] = 0.0
    return d, n


WRITE = (
    _write("[int] = row", 3, ()),
    _write("[slice] = rows", _FEW, (8,)),
    _write("[mask] = rows", _MASK, (_COUNT,)),
    _write("[index tensor] = rows", _INDEX, (8,)),
    _write("[...] = rows", ..., ROWS),
    Operation("[mask] = number", _zero, _zero_by_hand),
)


def _nested(index: Any, size: Callable[[Batch], Batch]) -> Callable[..., Any]:
    def hand(d: dict[str, Any], n: Batch) -> Any:
        return {
            k: {j: w[index] for j, w in v.items()} if isinstance(v, dict) else v[index] for k, v in d.items()
        }, size(n)

    return hand


NESTED = (
    Operation("[int]", lambda x: x[3], _nested(3, lambda n: n[1:])),
    Operation("[slice]", lambda x: x[_FEW], _nested(_FEW, lambda n: (len(range(n[0])[_FEW]), *n[1:]))),
    Operation("[index tensor]", lambda x: x[_INDEX], _nested(_INDEX, lambda n: (*_INDEX.shape, *n[1:]))),
)

WORKLOADS = (
    *on_forms(READ),
    *on_forms(READ[:4], ("td50",)),
    *on_forms(WRITE),
    *on_forms(NESTED, ("nested record", "nested td")),
)
