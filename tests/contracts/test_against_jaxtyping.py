"""Records accept what jaxtyping's own checks accept, with the batch dimensions in front."""

import types
from typing import Any

import pytest
import torch
from hypothesis import event, example, given
from hypothesis import strategies as st
from jaxtyping import (
    AbstractDtype,
    BFloat16,
    Bool,
    Complex,
    Complex64,
    Float,
    Float16,
    Float32,
    Float64,
    Inexact,
    Int,
    Int8,
    Int32,
    Integer,
    Key,
    Num,
    Real,
    Shaped,
    UInt,
    UInt8,
    jaxtyped,
)
from torch import Tensor

from tensorclass import ContractError, TensorClass
from tensorclass.contracts.checking import broken
from tensorclass.contracts.dtype_names import BY_NAME

Texts = list[str]
Shapes = list[tuple[int, ...]]

CATEGORIES: list[Any] = [
    *(BFloat16, Bool, Complex, Complex64, Float, Float16, Float32, Float64, Inexact, Int, Int8, Int32, Integer),
    *(Num, Real, Shaped, UInt, UInt8),
]


def record_of(annotations: dict[str, Any], **options: bool) -> Any:
    return types.new_class("Record", (TensorClass,), options, lambda body: body.update(__annotations__=annotations))


#: what a dimension can be, but for the formulas, which need names
WORDS = ["3", "1", "h", "w", "_", "_any", "#h", "#w", "#3", "h=3", "2", "4-1", "..."]
VARIADIC = ["*n", "*m", "..."]
FORMULAS = ["h+1", "2*h", "h-w", "(h+w)*2", "h//2", "h%2", "#h+1"]


@st.composite
def contracts(draw: st.DrawFn) -> tuple[Texts, Shapes, tuple[int, ...]]:
    """The shapes that some fields declare, those that their tensors have (near to them), and a batch size."""
    sizes = {name: draw(st.integers(0, 4)) for name in "hw"}
    several = {name: tuple(draw(st.lists(st.integers(0, 3), max_size=2))) for name in ("*n", "*m", "...")}
    texts, shapes = [], []
    formulas = draw(st.booleans())
    for position in range(draw(st.integers(1, 3))):
        words, shape = [], []
        for word in draw(st.lists(st.sampled_from(WORDS), max_size=4)):
            if word == "..." and any(one in VARIADIC for one in words):
                continue
            word = draw(st.sampled_from(VARIADIC)) if word == "..." else word
            words.append(word)
            if word in VARIADIC:
                shape += several[word]
                continue
            name = word.lstrip("#")
            right = sizes.get(name, {"3": 3, "1": 1, "h=3": 3, "2": 2, "4-1": 3}.get(name, 2))
            if "#" in word and draw(st.booleans()):
                right = 1
            shape.append(draw(st.integers(0, 4)) if draw(st.integers(0, 9)) == 0 else right)
        if formulas and position == 2 and "h" in texts[0].split() and "w" in texts[0].split():
            formula = draw(st.sampled_from(FORMULAS))
            words.append(formula)
            size = eval(formula.lstrip("#"), {}, sizes)
            shape.append(max(size + draw(st.sampled_from([0, 0, 0, 1])), 0))
        if draw(st.integers(0, 19)) == 0 and shape:
            shape.pop()
        texts.append(" ".join(words))
        shapes.append(tuple(shape))
    return texts, shapes, tuple(draw(st.lists(st.integers(0, 3), max_size=2)))


@given(contracts())
@example((["h w", "h", "h+1 #w"], [(2, 3), (2,), (3, 1)], (4,)))
@example((["#h", "h", "h"], [(1,), (2,), (2,)], ()))
def test_the_shapes_that_a_record_accepts_are_those_that_jaxtyping_accepts(
    case: tuple[Texts, Shapes, tuple[int, ...]],
) -> None:
    texts, shapes, batch = case
    names = "".join(f"batch{i} " for i in range(len(batch)))
    values = {f"x{i}": torch.zeros((*batch, *shape)) for i, shape in enumerate(shapes)}
    cls = record_of({f"x{i}": Float[Tensor, text] for i, text in enumerate(texts)})
    with jaxtyped("context"):
        expected = all(
            isinstance(value, Float[Tensor, names + text]) for value, text in zip(values.values(), texts, strict=True)
        )
    event(f"accepted: {expected}")
    try:
        cls(**values, batch_size=batch)
    except ContractError:
        assert not expected
    else:
        assert expected
    # the lines that are generated for a store, and the functions that find out what is wrong, agree with those
    size = torch.Size(batch)
    problems = broken(cls._specs, values, size, values)
    assert (problems == []) is expected
    hard = any("//" in text or "%" in text for text in texts)
    assert cls._checks.fits(values.get, size) is (expected and not hard)


@given(st.data())
def test_broadcastable_variadic_names_are_those_of_jaxtyping(data: st.DataObject) -> None:
    size = st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3).map(tuple)
    shapes = data.draw(st.lists(size, min_size=1, max_size=3))
    cls = record_of({f"x{i}": Float[Tensor, "*#n"] for i in range(len(shapes))})
    with jaxtyped("context"):
        expected = all(isinstance(torch.zeros(shape), Float[Tensor, "*#n"]) for shape in shapes)
    try:
        cls(**{f"x{i}": torch.zeros(shape) for i, shape in enumerate(shapes)})
    except ContractError:
        assert not expected
    else:
        assert expected


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("category", CATEGORIES, ids=lambda category: category.__name__)
def test_the_dtypes_of_a_category_are_those_of_jaxtyping(category: Any) -> None:
    cls = record_of({"x": category[Tensor, "2"]})
    for name, dtype in BY_NAME.items():
        try:
            value = torch.empty(2, dtype=dtype, device="meta")
        except RuntimeError:  # a quantized one
            continue
        expected = isinstance(value, category[Tensor, "2"])
        try:
            cls(x=value)
        except ContractError:
            assert not expected, name
        else:
            assert expected, name


def test_a_category_of_ones_own_is_understood() -> None:
    class Small(AbstractDtype):
        dtypes = ["uint8", "int8"]

    cls = record_of({"x": Small[Tensor, "n"]})
    assert cls(x=torch.zeros(4, 3, dtype=torch.int8)).batch_size == (4,)
    with pytest.raises(ContractError, match="the dtype int16 is not small"):
        cls(x=torch.zeros(4, 3, dtype=torch.int16))


def test_a_category_that_no_tensor_has_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(ValueError, match=r"Record.x: Key\[Tensor, \"\"\]: no tensor has one of the dtypes"):
        record_of({"x": Key[Tensor, ""]})


def test_nested_annotations_of_jaxtyping_join_their_dimensions() -> None:
    cls = record_of({"x": Float[Float[Tensor, "3"], "n"]})
    assert cls(x=torch.zeros(5, 2, 3)).batch_size == (5,)
