"""from_list: lists of rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import TensorDict
from tests.convert.samples import Inner, Pair, Plain, Sample, values
from tests.convert.sides import both


def rows() -> list[dict[str, Any]]:
    return [{"a": values(3, 4), "b": {"c": values(3, 4, 5), "s": text}} for text in ("x", "y")]


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lazy": False},
        {"lazy": True},
        {"lazy": True, "auto_batch_size": True},
        {"auto_batch_size": True},
        {"auto_batch_size": False},
        {"auto_batch_size": True, "batch_dims": 1},
        {"auto_batch_size": True, "batch_dims": 2},
        {"batch_size": [2]},
        {"batch_size": [2, 3]},
        {"batch_size": [3]},
        {"device": "cpu"},
    ],
    ids=str,
)
def test_rows_become_what_they_become_in_the_peer(options: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_list(rows(), **options))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("bad", [1, None, [1, 2], [], [{"a": 1}, 2]], ids=str)
def test_what_has_no_rows_is_an_error_as_in_the_peer(bad: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_list(bad))
    assert ours is peers


def test_an_error_names_the_row() -> None:
    with pytest.raises(TypeError, match=r"\[1\]: expected a mapping, .* got int 2"):
        TensorDict.from_list([{"a": 1}, 2])
    with pytest.raises(ValueError, match=r"begins with the number of rows, 2; got \[3\]"):
        TensorDict.from_list([{"a": 1}] * 2, batch_size=[3])
    with pytest.raises(ValueError, match="batch_dims of at least 1"):
        TensorDict.from_list([{"a": 1}] * 2, batch_dims=0)


@pytest.mark.parity
@pytest.mark.parametrize("other", [{"a": values(4)}, {"b": values(3)}], ids=str)
def test_rows_that_do_not_fit_are_an_error_where_the_stack_shall_not_be_lazy(other: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_list([{"a": values(3)}, other], lazy=False))
    assert ours is peers is RuntimeError


@pytest.mark.parity
@pytest.mark.parametrize("lazy", [None, True])
@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("other", [{"a": values(4)}, {"a": values(3), "b": values(3)}, {"b": values(3)}], ids=str)
def test_rows_that_do_not_fit_make_a_lazy_stack_as_in_the_peer(other: dict[str, Any], auto: bool, lazy: Any) -> None:
    def describe_source(m: Any) -> Any:
        data = m.TensorDict.from_list([{"a": values(3)}, other], lazy=lazy, auto_batch_size=auto)
        rows = [{key: value.tolist() for key, value in row.items()} for row in data.unbind(0)]
        return type(data).__name__, tuple(data.batch_size), sorted(data.keys()), rows

    ours, peers = both(describe_source)
    assert ours == peers


def test_a_lazy_stack_of_a_record_is_a_record() -> None:
    rows = Sample.from_list([{"x": values(2)}, {"x": values(3)}])
    assert isinstance(rows, Sample)
    assert rows.get("x", as_padded_tensor=True).shape == (2, 3)  # type: ignore[call-arg]
    assert isinstance(Sample.from_list([{"x": 1.0}], lazy=True), Sample)


def test_names_are_those_of_the_result() -> None:
    assert TensorDict.from_list([{"a": 1}] * 2, names=["rows"]).names == ["rows"]


@pytest.mark.parametrize(
    "item", [Pair(1, "t"), Plain(values(2)), (1, "a"), TensorDict({"a": 1}), Inner(values(2))], ids=str
)
def test_rows_can_be_anything_with_entries(item: Any) -> None:
    data = TensorDict.from_list([item, item])
    assert data.batch_size == (2,)
    expected = TensorDict.from_any(item).to_dict(retain_none=False)
    assert data[0].to_dict(retain_none=False).keys() == expected.keys()


def test_rows_that_are_collections_stay_what_they_are() -> None:
    row = TensorDict({"a": values(3)})
    assert TensorDict.from_list([row, row], auto_batch_size=True).batch_size == (2, 3)
    assert row.batch_size == ()


def test_a_record_takes_rows_with_its_fields() -> None:
    record = Sample.from_list(
        [{"x": 1.0, "label": "a", "inner": {"x": 1}}, {"x": 2.0, "label": "b", "inner": {"x": 2}}]
    )
    assert (type(record), record.batch_size, record.label) == (Sample, (2,), ["a", "b"])
    assert type(record.inner) is Inner
    with pytest.raises(ValueError, match=r"(?s)\[1\]\.x: expected Tensor, got nothing.*\[1\]\.y: expected one"):
        Sample.from_list([{"x": 1.0}, {"y": 2.0}])
    assert Inner.from_list([TensorDict({"x": 1.0}), Inner(2.0)]).x.tolist() == [1, 2]


row = st.fixed_dictionaries(
    {"a": st.integers(-5, 5), "b": st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2), "t": st.text("xy")}
)


@given(rows=st.lists(row, min_size=1, max_size=4))
def test_tolist_undoes_from_list(rows: list[dict[str, Any]]) -> None:
    data = TensorDict.from_list(rows)
    assert data.batch_size == (len(rows),)
    assert data.tolist(convert_tensors=True) == rows
    nested = TensorDict.from_list([{"n": one} for one in rows])
    assert [one["n"] for one in nested.tolist(convert_tensors=True)] == rows
