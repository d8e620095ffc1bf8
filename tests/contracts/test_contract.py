"""What annotations say about the tensor in a field."""

import typing
from typing import Annotated, Any, Final, NewType, Optional, TypeVar, Union

import pytest
import torch
import typing_extensions
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from tensorclass import Device, DType, Range, Shape, TensorClass, TensorDict
from tensorclass.contracts import Contract
from tensorclass.contracts.dims import parse

Pixels = NewType("Pixels", Float[Tensor, "3 h w"])  # type: ignore[valid-newtype]
Alias = typing_extensions.TypeAliasType("Alias", Float[Tensor, "3 h w"])
BoundT = TypeVar("BoundT", bound=Float[Tensor, "3 h w"])
PIXELS = Contract(parse("3 h w"), DType("float").allowed & Contract.of(Float[Tensor, ""]).dtypes)  # type: ignore[union-attr, operator]


@pytest.mark.parametrize(
    "annotation",
    [
        Float[Tensor, "3 h w"],
        Optional[Float[Tensor, "3 h w"]],
        Float[Tensor, "3 h w"] | None,
        Union[Float[Tensor, "3 h w"], str],
        Float[Tensor, "3 h w"] | list[int],
        Float[Float[Tensor, "h w"], "3"],
        Float[torch.nn.Parameter, "3 h w"],
        Annotated[Float[Tensor, "3 h w"], "pixels"],
        Final[Float[Tensor, "3 h w"]],
        Pixels,
        Alias,
        BoundT,
        'Float[Tensor, "3 h w"]',
        typing.ForwardRef("Alias"),
    ],
)
def test_a_contract_is_found_wherever_it_stands(annotation: Any) -> None:
    assert Contract.of(annotation, lambda text: eval(text, globals())) == PIXELS


@pytest.mark.parametrize(
    "annotation",
    [
        Tensor,
        Tensor | None,
        Annotated[Tensor, "pixels"],
        Float[Tensor, "3"] | Tensor,
        Float[Tensor, "3"] | Any,
        Float[Tensor, "3"] | TensorDict,
        Union[object, Float[Tensor, "3"]],
        Any,
        object,
        str,
        list[Tensor],
        TypeVar("T"),
        None,
    ],
)
def test_other_annotations_have_none(annotation: Any) -> None:
    assert Contract.of(annotation) is None


def test_markers_are_put_together_and_join_those_of_jaxtyping() -> None:
    whole = Contract(parse("n"), frozenset({torch.float32}), 0, 1, torch.device("cuda"))
    marks = Shape("n"), DType(torch.float32), Range(0, 1), Device("cuda")
    assert Contract.of(Annotated[(Tensor, *marks)]) == whole
    assert Contract.of(Annotated[Annotated[(Tensor, *marks[:2])], marks[2], marks[3]]) == whole
    assert Contract.of(Annotated[Shaped[Tensor, "n"], marks[1], marks[2], marks[3]]) == whole
    assert Contract.of(Annotated[(Tensor | None, *marks)]) == whole


def test_a_union_of_contracts_has_the_first_with_the_others_beside_it() -> None:
    contract = Contract.of(Float[Tensor, "n"] | Int[Tensor, "n m"] | None)
    assert contract is not None
    assert (contract.dims, [other.dims for other in contract.others]) == (parse("n"), [parse("n m")])
    assert contract.rank is None
    same = Contract.of(Float[Tensor, "n"] | Int[Tensor, "n"])
    assert same is not None
    assert same.rank == 1


@pytest.mark.parametrize(
    "shape, rank, names",
    [("3 h w", 3, ("h", "w")), ("", 0, ()), ("*n 3", None, ("*n",)), ("...", None, ()), ("h h+w", 2, ("h", "w"))],
)
def test_rank_and_names_of_a_contract(shape: str, rank: int | None, names: tuple[str, ...]) -> None:
    contract = Contract(parse(shape))
    assert (contract.rank, contract.names) == (rank, names)


def test_an_item_has_a_shape_where_the_names_have_sizes() -> None:
    contract = Contract(parse("3 h *n 2*h _"))
    assert contract.item_shape({"h": 4}) == (3, 4, 8, 1)
    assert contract.item_shape({"h": 4}, {"n": (5, 6)}) == (3, 4, 5, 6, 8, 1)


@pytest.mark.parametrize(
    "annotation, message",
    [
        (Annotated[Tensor, Shape], "Shape says nothing by itself"),
        (Annotated[Tensor, Shape("n"), Shape("m")], "both say what the shape is"),
        (Annotated[Float[Tensor, "n"], Shape("n")], 'Float[Tensor, "n"] and Shape("n") both say what the shape is'),
        (Annotated[Float[Tensor, "n"], DType("float")], "both say what the dtype is"),
        (Annotated[Tensor, Range(0), Range(high=1)], "both say what the range is"),
        (Annotated[str, Shape("n")], "speak of tensors"),
        (Annotated[int, Range(0, 1)], "speak of tensors"),
        (Annotated[TensorDict, DType("float")], "declared at its own fields"),
        (Annotated[TensorDict, Range(0, 1)], "declared at its own fields"),
        (Float[TensorDict, "n"], "declared at its own fields"),
    ],
)
def test_contracts_that_make_no_sense_are_refused_when_the_class_is_made(annotation: Any, message: str) -> None:
    def make() -> type:
        class Record(TensorClass):
            x: annotation

        return Record

    with pytest.raises(TypeError) as raised:
        make()
    assert message in str(raised.value)
    assert "Record.x" in str(raised.value)


def test_a_formula_whose_names_no_field_has_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(ValueError, match=r"Record\.x: the dimension 'k\+1' follows from \['k'\]"):

        class Record(TensorClass):
            x: Float[Tensor, "n k+1"]


def test_the_contract_of_a_field_is_in_its_spec_also_in_subclasses() -> None:
    class Base(TensorClass):
        x: Float[Tensor, "3 h w"]

    class Derived(Base, frozen=True):
        y: Tensor

    assert Derived._specs["x"].contract == PIXELS
    assert Derived._specs["y"].contract is None
