"""Shared by the tests of table files: records, formats, and a check for leftovers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from tensorclass import TensorClass
from tests.open_files import open_files

FORMATS = ("parquet", "feather", "csv", "json", "lines")


class Point(TensorClass):
    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""]


class Row(TensorClass, stack_objects=True):
    """Fields that every format can hold, with ``separator="."``."""

    label: Int[Tensor, ""]
    name: str
    point: Point
    score: Float[Tensor, ""]
    flag: bool = False
    note: str | None = None


def rows(count: int = 5) -> Row:
    generator = torch.Generator().manual_seed(0)
    return Row(
        label=torch.arange(count),
        name=[f"name {i}" if i % 3 else "007" for i in range(count)],
        point=Point(x=torch.rand(count, generator=generator), y=torch.rand(count, generator=generator)),
        score=torch.rand(count, generator=generator, dtype=torch.float64),
        flag=[i % 2 == 0 for i in range(count)],
        note=[None if i % 4 == 1 else f"note {i}" for i in range(count)],
        batch_size=[count],
    )


def write(data: Any, kind: str, path: Any, **options: Any) -> None:
    if kind == "lines":
        data.to_json(path, lines=True, separator=".", **options)
    else:
        getattr(data, f"to_{kind}")(path, separator=".", **options)


def read(cls: Any, kind: str, path: Any, **options: Any) -> Any:
    if kind == "lines":
        return cls.from_json(path, lines=True, separator=".", **options)
    return getattr(cls, f"from_{kind}")(path, separator=".", **options)


def stream(cls: Any, kind: str, path: Any, **options: Any) -> Any:
    if kind == "lines":
        return cls.iter_json(path, lines=True, separator=".", **options)
    return getattr(cls, f"iter_{kind}")(path, separator=".", **options)


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Check that the block leaves no open file of a folder, and no new file in it."""
    before = sorted(os.listdir(folder))
    yield
    assert open_files(folder) == []
    assert sorted(os.listdir(folder)) == before


def same(one: Any, other: Any) -> bool:
    """Return whether two records are equal in values (nan too), dtypes, shapes and objects."""
    if type(one) is not type(other) or one.batch_size != other.batch_size:
        return False
    if {*one.keys()} != {*other.keys()}:
        return False
    return all(_same_value(one.get(key), other.get(key)) for key in {*one.keys()})


def _same_value(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return bool(torch.equal(one, other) or torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))
    if hasattr(one, "_store") and getattr(one, "_is_tree", lambda: False)():
        return same(one, other)
    return bool(one.tolist() == other.tolist())


Caller = Callable[[], Any]
