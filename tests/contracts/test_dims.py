"""The notation of shapes, and expressions of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.contracts.dims import Dim, evaluate, parse


@pytest.mark.parametrize(
    "word, dim",
    [
        ("3", Dim("3", size=3)),
        ("h=3", Dim("h=3", size=3)),
        ("#3", Dim("#3", size=3, broadcastable=True)),
        ("2*3", Dim("2*3", size=6)),
        ("h", Dim("h", name="h")),
        ("#h", Dim("#h", name="h", broadcastable=True)),
        ("_", Dim("_")),
        ("_any", Dim("_any")),
        ("...", Dim("...", variadic=True)),
        ("*_any", Dim("*_any", variadic=True)),
        ("*n", Dim("*n", name="n", variadic=True)),
        ("*#n", Dim("*#n", name="n", variadic=True, broadcastable=True)),
        ("#*n", Dim("#*n", name="n", variadic=True, broadcastable=True)),
        ("h+1", Dim("h+1", formula="h+1")),
        ("#h+1", Dim("#h+1", formula="h+1", broadcastable=True)),
        ("h=w+1", Dim("h=w+1", formula="w+1")),
    ],
)
def test_a_word_is_a_dimension(word: str, dim: Dim) -> None:
    assert parse(word) == (dim,)


def test_dimensions_stand_apart_by_spaces() -> None:
    assert [dim.text for dim in parse("  3 h   w ")] == ["3", "h", "w"]
    assert parse("") == ()


@pytest.mark.parametrize(
    "word",
    [
        "?h",
        "{h}",
        "f(h)",
        "h.size",
        "h**2",
        "h/2",
        "*h+1",
        "'a'",
        "h<w",
        "-1",
        "1-2",
        "#_",
        "##h",
        "**h",
        "*3",
        "h+",
        "1.5",
        "h+1#w",
    ],
)
def test_what_is_no_dimension_is_refused_with_its_text(word: str) -> None:
    with pytest.raises(ValueError, match="the dimension") as raised:
        parse(f"h w {word}")
    assert repr(word) in str(raised.value)


def test_two_variadic_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="more than one of"):
        parse("*a ... 3")


@given(
    st.integers(1, 50),
    st.integers(1, 50),
    st.sampled_from(["h+w", "h-w", "h*w", "h//w", "h%w", "-(h+2)*w", "2*h-w//3"]),
)
def test_an_expression_has_the_value_that_python_gives_it(h: int, w: int, formula: str) -> None:
    assert evaluate(formula, {"h": h, "w": w}) == eval(formula, {}, {"h": h, "w": w})


def test_the_names_of_a_dimension_are_those_that_it_needs() -> None:
    assert [dim.names for dim in parse("3 h *n h+w*h _")] == [(), ("h",), ("*n",), ("h", "w"), ()]


def test_a_dimension_is_resolved_where_its_names_are_known() -> None:
    three, h, formula, several = parse("3 h h+w *n")
    assert [dim.resolved({"h": 4, "w": 1}) for dim in (three, h, formula, several)] == [3, 4, 5, None]
    assert [dim.resolved({}) for dim in (three, h, formula)] == [3, None, None]
