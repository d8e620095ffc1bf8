"""Every operation of Ragged and Text, against lists of Python, also inside of a collection."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorclass import TensorDict, cat, stack
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text

numbers = st.lists(st.integers(-5, 5), max_size=5)
strings = st.one_of(st.none(), st.text(st.sampled_from("ab é€😀"), max_size=4))


@st.composite
def columns(draw: st.DrawFn, min_rows: int = 0) -> Any:
    """A column, and its rows as an object tensor's index table: (column, list of rows)."""
    is_text = draw(st.booleans())
    rows = draw(st.lists(strings if is_text else st.one_of(st.none(), numbers), min_size=min_rows, max_size=8))
    if is_text:
        column: Any = Text(rows)
    else:
        column = Ragged(rows, dtype=torch.int64)
    if draw(st.booleans()) and rows:  # not compact: rows of a larger column in another order
        order = draw(st.permutations(range(len(rows))))
        column = column[torch.tensor([*order])]
        rows = [rows[at] for at in order]
    return column, rows


def positions_of(count: int) -> Any:
    return torch.arange(count)


def rows_at(rows: list[Any], table: torch.Tensor) -> Any:
    """The rows at a table of positions, as nested lists."""

    def look_up(at: Any) -> Any:
        return [look_up(below) for below in at] if isinstance(at, list) else rows[at]

    return look_up(table.tolist())


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:],
    "step": lambda x: x[::2],
    "indices": lambda x: x[torch.tensor([i for i in (2, 0, 0, -1) if i < len(x)], dtype=torch.int64)] if len(x) else x,
    "list": lambda x: x[[0]] if len(x) else x,
    "mask": lambda x: x[torch.arange(len(x)) % 2 == 0],
    "none": lambda x: x[None],
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "reshape": lambda x: x.reshape(2, -1) if len(x) and len(x) % 2 == 0 else x,
    "view": lambda x: x.view(-1, 1) if len(x) else x,
    "permute": lambda x: x.unsqueeze(0).permute(1, 0),
    "transpose": lambda x: x.unsqueeze(0).transpose(0, 1),
    "expand": lambda x: x.expand(3, len(x)),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "flatten": lambda x: x.unsqueeze(0).flatten(0, 1),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "repeat": lambda x: x.repeat(2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=0),
    "gather": lambda x: x.gather(0, torch.zeros(2, dtype=torch.int64)) if len(x) else x,
    "split": lambda x: x.split(2)[0] if len(x) else x,
    "chunk": lambda x: x.chunk(2)[0] if len(x) else x,
    "narrow": lambda x: x.narrow(0, 1, len(x) - 1) if len(x) else x,
    "unflatten": lambda x: x.unflatten(0, (len(x), 1)) if len(x) else x,
}


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=settings().max_examples // 2)
@given(columns())
def test_a_shape_operation_moves_rows_as_it_moves_the_elements_of_a_tensor(name: str, drawn: Any) -> None:
    column, rows = drawn
    operation = OPERATIONS[name]
    table = operation(positions_of(len(rows)))
    expected = rows_at(rows, table)
    result = operation(column)
    assert result.batch_size == table.shape
    assert result.tolist() == expected
    data = operation(TensorDict({"c": column, "x": positions_of(len(rows))}, [len(rows)]))
    assert data["c"].tolist() == expected
    assert data["c"].batch_size == data["x"].shape == table.shape
    compact = result.compact()
    assert compact.tolist() == expected
    assert compact._is_compact
    assert compact.compact() is compact
    clone = result.clone()
    assert clone.tolist() == expected
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert again.tolist() == expected
        assert (again.batch_size, type(again)) == (table.shape, type(column))
    if result.numel() and len(result._items):
        assert clone.values.untyped_storage().data_ptr() != column.values.untyped_storage().data_ptr()


@given(columns(min_rows=1), st.data())
def test_columns_are_joined_row_by_row(drawn: Any, data: st.DataObject) -> None:
    column, rows = drawn
    other_rows = data.draw(
        st.lists(strings if isinstance(column, Text) else numbers, min_size=len(rows), max_size=len(rows))
    )
    other = Text(other_rows) if isinstance(column, Text) else Ragged(other_rows, dtype=torch.int64)
    assert torch.cat([column, other, column]).tolist() == rows + other_rows + rows
    assert torch.stack([column, other, column]).tolist() == [rows, other_rows, rows]
    assert torch.stack([column, other], 1).tolist() == [list(pair) for pair in zip(rows, other_rows, strict=True)]
    condition = torch.tensor([position % 3 == 0 for position in range(len(rows))])
    chosen = [a if c else b for a, b, c in zip(rows, other_rows, condition.tolist(), strict=True)]
    assert column.where(condition, other).tolist() == chosen
    assert torch.where(condition, column, other).tolist() == chosen
    whole = TensorDict({"c": column}, [len(rows)])
    assert cat([whole, TensorDict({"c": other}, [len(rows)])])["c"].tolist() == rows + other_rows
    assert stack([whole[at] for at in range(len(rows))])["c"].tolist() == rows
    assert whole.where(condition, TensorDict({"c": other}, [len(rows)]))["c"].tolist() == chosen
    assert stack(list(whole.unbind(0)))["c"].values is column.values  # rows of one buffer stay in it


@given(columns(min_rows=1), st.data())
def test_rows_are_written(drawn: Any, data: st.DataObject) -> None:
    column, rows = drawn
    before, shared = list(rows), column[:]
    data_of = TensorDict({"c": column.clone()}, [len(rows)])
    inside = list(rows)
    one = strings.filter(lambda row: row is not None) if isinstance(column, Text) else numbers
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(-len(rows), len(rows) - 1))
        row = data.draw(one)
        column[at] = row
        rows[at] = row
        assert column.tolist() == rows
        some = data.draw(st.lists(one, min_size=len(rows[::2]), max_size=len(rows[::2])))
        column[::2] = some
        rows[::2] = some
        assert column.tolist() == rows
        source = data_of[[at]].clone()
        source["c"][0] = row
        data_of[at] = source[0]
        inside[at] = row
        assert data_of["c"].tolist() == inside
    assert shared.tolist() == before  # columns that share the buffer do not change


@given(columns())
def test_content_is_read_back(drawn: Any) -> None:
    column, rows = drawn
    cls = type(column)
    assert column.tolist() == rows
    assert column.missing.tolist() == [row is None for row in rows]
    assert column.lengths.tolist() == [0 if row is None else len(row) for row in rows]
    assert len(column) == len(rows)
    assert cls(column.values, column.spans).tolist() == rows
    assert [row if row is None or isinstance(row, str) else row.tolist() for row in column.numpy()] == rows


@given(st.lists(strings, max_size=8), st.lists(strings, max_size=8), st.text(st.sampled_from("ab é€😀"), max_size=3))
def test_text_compares_as_strings_do(rows: list[Any], others: list[Any], wanted: str) -> None:
    text = Text(rows).flip(0)
    rows = rows[::-1]
    assert (text == wanted).tolist() == [row == wanted for row in rows]
    assert (text != wanted).tolist() == [row != wanted for row in rows]
    assert (text == None).tolist() == [row is None for row in rows]  # noqa: E711
    assert text.startswith(wanted).tolist() == [row is not None and row.startswith(wanted) for row in rows]
    assert text.endswith(wanted).tolist() == [row is not None and row.endswith(wanted) for row in rows]
    assert text.contains(wanted).tolist() == [row is not None and wanted in row for row in rows]
    assert text.isin(others).tolist() == [row in others for row in rows]
    assert text.isin([*others, *map(str, range(20))]).tolist() == [row in others for row in rows]
    assert (wanted in text) == (wanted in rows)
    assert list(text) == rows
    assert [text[at] for at in range(len(rows))] == rows
    values, codes = text.unique()
    assert values[codes].tolist() == rows if rows else not len(values)
    present = sorted({row for row in rows if row is not None})
    assert values.tolist() == present + [None] * (None in rows)
    expected = sorted(row for row in rows if row is not None) + [row for row in rows if row is None]
    assert text.sort()[0].tolist() == expected
    assert text.map(str.upper).tolist() == [None if row is None else row.upper() for row in rows]
    count = min(len(rows), len(others))
    pairs = zip(rows[:count], others[:count], strict=True)
    assert (text[:count] == Text(others)[:count]).tolist() == [a == b for a, b in pairs]


@given(st.lists(st.one_of(st.none(), numbers), max_size=8), st.integers(0, 4), st.sampled_from(["left", "right"]))
def test_ragged_rows_are_padded_cut_and_reduced_as_each_row_is(rows: list[Any], length: int, side: Any) -> None:
    ragged = Ragged(rows, dtype=torch.int64).flip(0)
    rows = rows[::-1]
    plain = [[] if row is None else row for row in rows]
    cut = [row[:length] if side == "right" else row[max(len(row) - length, 0) :] for row in plain]
    assert ragged.truncate(length, side=side).tolist() == [
        None if r is None else c for r, c in zip(rows, cut, strict=True)
    ]
    padded, mask = ragged.to_padded(-9, side=side)
    longest = max(map(len, plain), default=0)
    more = [[-9] * (longest - len(row)) for row in plain]
    assert padded.tolist() == [row + m if side == "right" else m + row for row, m in zip(plain, more, strict=True)]
    assert Ragged.from_padded(padded, mask=mask).tolist() == plain
    assert ragged.to_padded(multiple_of=3).values.shape[-1] == -(-longest // 3) * 3
    if side == "right":
        assert Ragged.from_padded(padded, lengths=ragged.lengths).tolist() == plain
    assert ragged.sum().tolist() == [sum(row) for row in plain]
    assert ragged.cat_items(ragged, ragged.flip(0)).tolist() == [
        a + a + b for a, b in zip(plain, plain[::-1], strict=True)
    ]
    rest, order = ragged.sort_by_length()
    assert order.tolist() == sorted(range(len(plain)), key=lambda at: len(plain[at]))
    assert rest.tolist() == [rows[at] for at in order.tolist()]
    filled = [row for row in plain if row]
    column = Ragged(filled, dtype=torch.int64)
    assert column.max().tolist() == [max(row) for row in filled]
    assert column.min().tolist() == [min(row) for row in filled]
    assert column.argmax().tolist() == [row.index(max(row)) for row in filled]
    assert column.argmin().tolist() == [row.index(min(row)) for row in filled]
    torch.testing.assert_close(
        column.double().mean(), torch.tensor([sum(row) / len(row) for row in filled], dtype=torch.float64)
    )
    for row, own in zip(column.double().softmax().tensors(), filled, strict=True):
        torch.testing.assert_close(row, torch.tensor(own, dtype=torch.float64).softmax(0))


@given(st.lists(numbers, min_size=1, max_size=6))
def test_arithmetic_acts_on_items(rows: list[list[int]]) -> None:
    ragged = Ragged(rows, dtype=torch.int64).flip(0)
    rows = rows[::-1]
    by_row = torch.arange(len(rows))
    assert (ragged * 2 + 1).tolist() == [[2 * x + 1 for x in row] for row in rows]
    assert (1 - ragged).tolist() == [[1 - x for x in row] for row in rows]
    assert (ragged + by_row).tolist() == [[x + at for x in row] for at, row in enumerate(rows)]
    assert (ragged * ragged).tolist() == [[x * x for x in row] for row in rows]
    assert (ragged > 1).tolist() == [[x > 1 for x in row] for row in rows]
    assert (ragged == ragged).values.all()
    assert (-ragged).abs().tolist() == [[abs(x) for x in row] for row in rows]
    assert ragged.float().exp().dtype is torch.float32
    data = TensorDict({"r": ragged, "x": by_row}, [len(rows)])
    assert (data * 2)["r"].tolist() == [[2 * x for x in row] for row in rows]
    assert (data + by_row)["r"].tolist() == [[x + at for x in row] for at, row in enumerate(rows)]
    assert (data + data)["r"].tolist() == [[2 * x for x in row] for row in rows]
    assert data.apply(lambda x: x + 1)["r"].tolist() == [[x + 1 for x in row] for row in rows]
    ragged = ragged.clone()
    shared = ragged
    ragged += 1
    assert shared.tolist() == [[x + 1 for x in row] for row in rows]
