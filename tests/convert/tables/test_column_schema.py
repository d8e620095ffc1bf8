"""Schemas of columns, and defaults in rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Bool, Float, Float16, Int
from torch import Size, Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.convert.conversion_steps import object_column
from tensorclass.convert.tables.column_schema import NOTHING, ColumnSchema, fill_rows, fit_columns


class Inner(TensorClass, stack_objects=True):
    x: Tensor
    name: str = "none"


class Outer(TensorClass, stack_objects=True):
    inner: Inner
    free: TensorDict
    either: Tensor | str
    text: str | None
    anything: Any = None
    tags: list[str] = None  # type: ignore[assignment]
    later: Later | None = None


class Later(TensorClass):
    x: Tensor = torch.tensor(1.5)


@pytest.mark.parametrize(
    "path, kind",
    [("inner", "collection"), ("inner.x", "tensor"), ("inner.name", "object"), ("free", "collection"),
     ("free.a.b", "any"), ("either", "any"), ("text", "object"), ("anything", "any"), ("tags", "object"),
     ("later.x", "tensor")],
)  # fmt: skip
def test_a_field_says_what_its_column_becomes(path: str, kind: str) -> None:
    found = ColumnSchema.of(Outer, path.split("."))
    assert found is not None
    assert found.holds == kind


def test_what_is_no_field_is_none() -> None:
    assert ColumnSchema.of(Outer, ("y",)) is ColumnSchema.of(Outer, ("inner", "y")) is None
    assert ColumnSchema.of(TensorDict, ("y",)) == ColumnSchema()


def test_defaults_are_those_of_the_field() -> None:
    def of(*path: str) -> ColumnSchema:
        found = ColumnSchema.of(Outer, path)
        assert found is not None
        return found

    assert of("inner", "name").default() == "none"
    assert of("inner", "x").default() is NOTHING is ColumnSchema().default()
    assert (of("text").optional, of("inner", "x").optional) == (True, False)
    assert of("later", "x").default() == 1.5


nan = float("nan")


@pytest.mark.parametrize(
    "values, default, expected",
    [
        (torch.tensor([1, 0]), 7, torch.tensor([1, 7])),
        (torch.tensor([1, 0]), 0.5, torch.tensor([1, 0.5], dtype=torch.float64)),
        (torch.tensor([1.5, nan]), 7, torch.tensor([1.5, 7])),
        (torch.tensor([1.5, nan], dtype=torch.float64), 7, torch.tensor([1.5, 7], dtype=torch.float64)),
        (torch.tensor([1.0, nan], dtype=torch.float64), 7, torch.tensor([1, 7])),
        (torch.tensor([1.0, nan], dtype=torch.float64), 7.0, torch.tensor([1.0, 7.0], dtype=torch.float64)),
        (torch.tensor([7.0, nan], dtype=torch.float64), True, torch.tensor([7, 1])),
        (torch.tensor([True, False]), True, torch.tensor([True, True])),
        (torch.zeros(2, 3), torch.ones(3), torch.tensor([[0.0, 0, 0], [1, 1, 1]])),
        (torch.zeros(2, 3), 1, torch.tensor([[0.0, 0, 0], [1, 1, 1]])),
    ],
)
def test_a_default_stands_in_the_rows_without_a_value(values: Tensor, default: Any, expected: Tensor) -> None:
    made = fill_rows(values, torch.tensor([True, False]), default)
    assert made is not None
    assert made.dtype == expected.dtype
    assert torch.equal(made, expected)


@pytest.mark.parametrize("default", ["text", torch.zeros(2)])
def test_a_default_that_cannot_stand_there_is_none(default: Any) -> None:
    assert fill_rows(torch.zeros(2, 3), torch.tensor([True, False]), default) is None


class Cast(TensorClass, autocast=True, stack_objects=True):
    small: Float16[Tensor, ""]
    real: Float[Tensor, "..."]
    count: Int[Tensor, ""]
    flag: Bool[Tensor, ""]
    id: int


def read(cls: type[Any], rows: int = 2, **values: Any) -> Any:
    made = fit_columns(cls, {key: torch.as_tensor(value) for key, value in values.items()}, [rows])
    return {key: value.dtype if isinstance(value, Tensor) else value.tolist() for key, value in made.items()}


def test_numbers_get_the_dtype_of_the_contract_where_the_class_casts() -> None:
    made = read(Cast, small=[1.0, 2.0], real=[1, 2], count=[1.0, 2.0], flag=[0, 1], id=[3, 4])
    assert made == {
        "small": torch.float16,
        "real": torch.float32,
        "count": torch.int64,
        "flag": torch.bool,
        "id": [3, 4],
    }


def test_numbers_that_would_change_are_not_cast() -> None:
    assert read(Cast, count=[1.5, 2.0], flag=[0, 2]) == {"count": torch.float32, "flag": torch.int64}


def test_no_class_casts_unless_asked() -> None:
    class Plain(TensorClass):
        real: Float[Tensor, ""]

    assert read(Plain, real=[1, 2]) == {"real": torch.int64}


def test_objects_are_cast_row_by_row() -> None:
    made = fit_columns(Cast, {"id": object_column(["1", 2, 3.0], Size([3]))}, [3])
    assert made["id"].tolist() == [1, 2, 3]
    wrong = object_column(["a"], Size([1]))
    assert fit_columns(Cast, {"id": wrong}, [1])["id"] is wrong


def test_fields_of_objects_get_numbers_row_by_row() -> None:
    class Objects(TensorClass, stack_objects=True):
        id: int
        pair: list[int]
        ragged: tuple[float, ...]
        nested: Outer | None = None

    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(1)], layout=torch.jagged)
    assert read(Objects, id=[1, 2], pair=[[1, 2], [3, 4]]) == {"id": [1, 2], "pair": [[1, 2], [3, 4]]}
    assert fit_columns(Objects, {"ragged": ragged}, [2])["ragged"].tolist() == [(0, 0), (1,)]


def test_columns_that_are_not_there_are_the_defaults_of_their_fields_row_by_row() -> None:
    class Defaults(TensorClass, stack_objects=True):
        x: Tensor
        scale: Tensor = torch.tensor([1.0, 2.0])
        number: Tensor = 3  # type: ignore[assignment]
        text: str = "a"
        later: Later | None = None

    made = fit_columns(Defaults, {"x": torch.zeros(3), "later": {}}, [3])
    assert made["scale"].shape == (3, 2)
    assert made["number"].tolist() == [3, 3, 3]
    assert made["later"]["x"].tolist() == [1.5] * 3
    assert set(made) == {"x", "scale", "number", "later"}
    made["scale"].add_(1)
    assert Defaults(torch.zeros(2)).scale.tolist() == [1, 2]


def test_the_shape_may_have_any_number_of_dimensions() -> None:
    class Grid(TensorClass, stack_objects=True):
        id: int
        pair: list[int]
        weight: Tensor = torch.tensor([1.0, 2.0])

    for size in ([], [2], [2, 3]):
        shape = torch.Size(size)
        ids = torch.arange(shape.numel()).reshape(shape)
        made = fit_columns(Grid, {"id": ids, "pair": torch.stack([ids, ids], -1)}, size)
        grid = Grid._from_mapping(made, shape, None, None)
        assert grid.weight.shape == (*size, 2)
        last = grid[(-1,) * len(size)]
        assert (last.id, last.pair) == (shape.numel() - 1, [shape.numel() - 1] * 2)
