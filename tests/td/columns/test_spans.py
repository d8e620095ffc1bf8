"""Spans: start and length of each row in a buffer of items, compared with lists of positions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tensorclass.td.columns import spans as spans_module
from tensorclass.td.columns.spans import (
    check,
    check_lengths,
    check_readable,
    check_unshared,
    counts_of,
    first_row,
    from_lengths,
    from_offsets,
    positions,
    row_numbers,
    run_of,
    take,
)
from tensorclass.td.tracing import has_values, is_batched, is_fake

lengths = st.lists(st.integers(-1, 4), max_size=8)
pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 4)), max_size=8)


def spans_of(rows: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 2)


def listed(rows: list[tuple[int, int]]) -> list[list[int]]:
    """The positions of the items of each row."""
    return [list(range(start, start + length)) for start, length in rows]


@given(lengths)
def test_rows_of_lengths_lie_one_after_the_other(rows: list[int]) -> None:
    spans = from_lengths(torch.tensor(rows, dtype=torch.int64))
    assert spans.dtype is torch.int64
    assert spans[:, 1].tolist() == rows
    assert positions(spans).tolist() == list(range(sum(max(row, 0) for row in rows)))
    assert counts_of(spans).tolist() == [max(row, 0) for row in rows]


def test_lengths_have_any_shape() -> None:
    spans = from_lengths(torch.tensor([[2, -1], [0, 3]]))
    assert spans.tolist() == [[[0, 2], [2, -1]], [[2, 0], [2, 3]]]
    assert counts_of(spans).tolist() == [[2, 0], [0, 3]]
    assert row_numbers(spans).tolist() == [0, 0, 3, 3, 3]
    assert positions(spans).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_offsets_of_any_integers_become_int64(dtype: torch.dtype) -> None:
    spans = from_offsets(torch.tensor([3, 5, 5, 9], dtype=dtype))
    assert spans.dtype is torch.int64
    assert spans.tolist() == [[3, 2], [5, 0], [5, 4]]


@given(pairs)
def test_positions_and_numbers_of_items_are_those_of_the_rows(rows: list[tuple[int, int]]) -> None:
    spans = spans_of(rows)
    assert positions(spans).tolist() == [item for row in listed(rows) for item in row]
    assert row_numbers(spans).tolist() == [number for number, row in enumerate(listed(rows)) for _ in row]


@pytest.mark.parametrize("count", [0, 3, spans_module._MANY_ROWS - 1, spans_module._MANY_ROWS, 2500])
@pytest.mark.parametrize("shape", [(3000, 2), (3000, 3, 2)])
def test_rows_are_taken_as_by_index(count: int, shape: tuple[int, ...]) -> None:
    spans = torch.randint(-1, 2**62, shape)
    rows = torch.randint(0, 3000, (count,))
    found = take(spans, rows)
    assert found.dtype is torch.int64
    assert torch.equal(found, spans[rows])


def test_many_rows_are_taken_on_any_device() -> None:
    rows = torch.zeros(spans_module._MANY_ROWS, dtype=torch.int64, device="meta")
    assert take(torch.zeros(3, 2, dtype=torch.int64, device="meta"), rows).shape == (len(rows), 2)


@given(pairs)
def test_a_run_is_rows_without_gaps_in_order(rows: list[tuple[int, int]]) -> None:
    items = [item for row in listed(rows) for item in row]
    expected = None
    if not items:
        expected = (0, 0)
    elif items == list(range(items[0], items[0] + len(items))):
        expected = (items[0], len(items))
    assert run_of(spans_of(rows)) == expected


@given(st.integers(0, 5), st.lists(st.integers(-1, 3), max_size=6))
def test_rows_of_lengths_are_a_run_wherever_they_begin(first: int, rows: list[int]) -> None:
    spans = from_lengths(torch.tensor(rows, dtype=torch.int64))
    spans[:, 0] += first
    total = sum(max(row, 0) for row in rows)
    assert run_of(spans) == ((first, total) if total else (0, 0))


def test_only_int64_pairs_are_spans() -> None:
    for dtype in (torch.int32, torch.float64):
        with pytest.raises(TypeError, match=f"rows: expected spans of dtype int64, got {dtype}"):
            check(torch.zeros(1, 2, dtype=dtype), 3, "rows")
    for shape in ([], [2, 3], [0]):
        with pytest.raises(ValueError, match=r"rows: expected spans of shape \[\*batch, 2\] .*, got \["):
            check(torch.zeros(shape, dtype=torch.int64), 3, "rows")


@given(pairs, st.integers(0, 12))
def test_rows_outside_of_the_buffer_are_told(rows: list[tuple[int, int]], size: int) -> None:
    wrong = [number for number, (start, length) in enumerate(rows) if length > 0 and start + length > size]
    if not wrong:
        check(spans_of(rows), size, "rows")
        return
    start, length = rows[wrong[0]]
    with pytest.raises(ValueError, match=rf"rows: row {wrong[0]}: .* the {size} .*start {start} and length {length}"):
        check(spans_of(rows), size, "rows")


@pytest.mark.parametrize("row", [(-1, 1), (0, -2), (2**63 - 1, 2), (0, 2**63 - 1)])
def test_rows_that_begin_before_the_buffer_or_overflow_are_told(row: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"row 0: .*start {row[0]} and length {row[1]}"):
        check(spans_of([row]), 4, "rows")


def test_rows_without_items_begin_anywhere_and_those_on_meta_are_not_read() -> None:
    check(spans_of([(99, 0), (-5, -1), (0, 4)]), 4, "rows")
    check(torch.zeros(3, 2, dtype=torch.int64, device="meta"), 0, "rows")


def test_rows_that_share_items_are_no_file() -> None:
    assert check_unshared(spans_of([(0, 2), (2, 2)]), 4, has_missing=False) == 4
    assert check_unshared(spans_of([(0, 2), (0, -1)]), 2, has_missing=True) == 2
    with pytest.raises(ValueError, match="rows have 5 items together, more than the 4 of the buffer"):
        check_unshared(spans_of([(0, 2), (1, 3)]), 4, has_missing=False)
    with pytest.raises(ValueError, match="more than the 4 of the buffer"):
        check_unshared(spans_of([(0, 2**62), (0, 2**62)]), 4, has_missing=False)
    with pytest.raises(ValueError, match="row 1 has no value, but its description"):
        check_unshared(spans_of([(0, 2), (0, -1)]), 4, has_missing=False)


def test_lengths_that_differ_are_told_with_the_row() -> None:
    check_lengths(spans_of([(0, 2), (2, 1)]), spans_of([(5, 2), (0, 1)]), "add")
    with pytest.raises(ValueError, match="add: the lengths of row 1 differ: 1 and 3; rows"):
        check_lengths(spans_of([(0, 2), (2, 1)]), spans_of([(0, 2), (2, 3)]), "add")
    with pytest.raises(ValueError, match=r"row \[1, 0\] differ: 0 and 1"):
        check_lengths(from_lengths(torch.tensor([[2], [0]])), from_lengths(torch.tensor([[2], [1]])), "add")
    assert first_row(torch.tensor([[False, False], [True, True]])) == "[1, 0]"


def test_what_has_no_values_is_known() -> None:
    spans = spans_of([(0, 2)])
    assert has_values(spans)
    assert not has_values(spans.to("meta"))
    assert not is_fake(spans)
    assert not is_fake(torch.nn.Parameter(torch.zeros(2)))
    with FakeTensorMode():
        fake = torch.zeros(1, 2, dtype=torch.int64)
        assert is_fake(fake)
        assert not has_values(fake)


def test_a_vmap_hides_lengths() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(spans: Tensor) -> Tensor:
        seen.append((is_batched(spans), has_values(spans)))
        for function in (check_readable, positions, row_numbers):
            with pytest.raises(RuntimeError, match="vmap: this needs the lengths of the rows"):
                function(spans)
        return spans

    def grad_look(numbers: Tensor) -> Tensor:
        spans = spans_of([(0, 2)])
        seen.append((is_batched(spans), has_values(spans)))
        return numbers.sum()

    torch.vmap(look)(torch.zeros(3, 1, 2, dtype=torch.int64))
    torch.func.grad(grad_look)(torch.ones(2))
    assert seen == [(True, False), (False, True)]
    assert not is_batched(spans_of([]))
