"""Each operation on rows gives what pandas gives."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import Ragged, TensorClass, TensorDict, Text

numbers = st.one_of(st.integers(-3, 3), st.integers(-(2**62), 2**62))
floats = st.one_of(st.sampled_from([float("nan"), 0.0, -0.0, 1.5, -2.0, float("inf")]), st.floats(width=32))
words = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "é", "日本", "b\0", "b"]))
rows = st.lists(st.tuples(numbers, floats, words, st.booleans(), st.floats(-100, 100, width=32)), max_size=12)


def frame(drawn: list[tuple[Any, ...]]) -> pd.DataFrame:
    i, f, w, b, x = map(list, zip(*drawn, strict=True)) if drawn else ([], [], [], [], [])
    return pd.DataFrame(
        {
            "i": pd.Series(i, dtype="int64"),
            "f": pd.Series(f, dtype="float32"),
            "w": pd.Series(w, dtype=object),
            "b": pd.Series(b, dtype=bool),
            "x": pd.Series(x, dtype="float32"),
            "row": range(len(drawn)),
        }
    )


def collection(table: pd.DataFrame) -> TensorDict:
    values: dict[str, Any] = {name: torch.tensor(table[name].tolist(), dtype=dtype) for name, dtype in DTYPES.items()}
    return TensorDict({**values, "w": Text.from_list(table["w"].tolist())}, [len(table)])


DTYPES = {"i": torch.int64, "f": torch.float32, "b": torch.bool, "x": torch.float32, "row": torch.int64}
KEYS = ["i", "f", "w", "b", ["b", "i"], ["w", "f"], ["i", "w", "b"]]


def listed(by: str | list[str]) -> list[str]:
    return by if isinstance(by, list) else [by]


def column(data: Any, key: str) -> list[Any]:
    return [None if item != item else item for item in data[key].tolist()]


@pytest.mark.parametrize("by", KEYS, ids=str)
@settings(max_examples=8)
@given(drawn=rows, data=st.data())
def test_sort_by(by: Any, drawn: list[Any], data: Any) -> None:
    table = frame(drawn)
    downwards = [data.draw(st.booleans()) for _ in listed(by)]
    order = list(range(len(table)))
    for name, down in reversed(list(zip(listed(by), downwards, strict=True))):
        values = column(collection(table), name)
        present = [row for row in order if values[row] is not None]
        order = sorted(present, key=lambda row: values[row], reverse=down) + [r for r in order if values[r] is None]
        if down:  # Python reverses equal values, too
            ranks = {row: rank for rank, row in enumerate(present)}
            order[: len(present)] = sorted(present, key=lambda row: ranks[row])
            order[: len(present)] = sorted(order[: len(present)], key=lambda row: values[row], reverse=True)
    result = collection(table).sort_by(by, descending=downwards)
    assert result["row"].tolist() == order


@pytest.mark.parametrize("by", KEYS, ids=str)
@settings(max_examples=8)
@given(drawn=rows)
def test_distinct_rows(by: Any, drawn: list[Any]) -> None:
    table = frame(drawn)
    data = collection(table)
    for keep in ("first", "last", False):
        expected = table.drop_duplicates(listed(by), keep=keep)["row"].tolist()
        assert data.drop_duplicates(by, keep=keep)["row"].tolist() == expected
    expected = data.drop_duplicates(by).sort_by(by)["row"].tolist()
    assert data.unique(by)["row"].tolist() == expected


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")  # pandas 2
@pytest.mark.parametrize("by", KEYS, ids=str)
@settings(max_examples=8)
@given(drawn=rows)
def test_groups(by: Any, drawn: list[Any]) -> None:
    table = frame(drawn)
    data = collection(table)
    data["x"] = torch.where(data["row"] % 3 == 2, float("nan"), data["x"])
    table["x"] = data["x"].numpy()
    groups = data.group_by(by)
    found = groups.agg(
        rows="count",
        count=("x", "count"),
        total=("x", "sum"),
        mean=("x", "mean"),
        var=("x", "var"),
        low=("x", "min"),
        high=("x", "max"),
        median=("x", "median"),
        first=("row", "first"),
        last=("row", "last"),
        whole=("row", "sum"),
        distinct=("b", "nunique"),
    )
    expected = table.groupby(listed(by), dropna=False, sort=False)
    by_first = {int(part["row"].iloc[0]): part for _, part in expected} if len(table) else {}
    assert len(groups) == len(by_first) == len(found)
    assert groups.sizes().tolist() == found["rows"].tolist()
    for position in range(len(found)):
        row = found[position]
        part = by_first[int(row["first"])]
        x = part["x"].astype("float64")
        assert row["rows"] == len(part)
        assert row["count"] == x.count()
        assert row["last"] == part["row"].iloc[-1]
        assert row["whole"] == part["row"].sum()
        assert row["distinct"] == part["b"].nunique()
        for name, value in [
            ("total", x.sum()), ("mean", x.mean()), ("var", x.var()), ("low", x.min()), ("high", x.max()),
            ("median", x.median()),
        ]:  # fmt: skip
            assert float(row[name]) == pytest.approx(value, rel=1e-5, abs=1e-3, nan_ok=True), name


HOWS = ["inner", "left", "right", "full", "semi", "anti"]


@settings(max_examples=40)
@given(left=rows, right=rows, by=st.sampled_from(KEYS), how=st.sampled_from(HOWS))
def test_join(left: list[Any], right: list[Any], by: Any, how: Any) -> None:
    ours, theirs = frame(left), frame(right)
    other = collection(theirs).select(*listed(by), "x", "row").rename_key_("row", "other").rename_key_("x", "y")
    result = collection(ours).join(other, by, how, fill={"other": -1, "row": -1, "i": 0, "b": 0})
    mine, others = (
        [[_key(table[name][at]) for name in listed(by)] for at in range(len(table))] for table in (ours, theirs)
    )
    pairs = [(row, at) for row, key in enumerate(mine) for at, its in enumerate(others) if key == its]
    alone = [row for row in range(len(ours)) if row not in {pair[0] for pair in pairs}]
    without = [(-1, at) for at in range(len(theirs)) if at not in {pair[1] for pair in pairs}]
    if how in ("semi", "anti"):
        having = {row for row, _ in pairs}
        expected = [row for row in range(len(ours)) if (row in having) == (how == "semi")]
        assert result["row"].tolist() == expected
        return
    if how in ("left", "full"):
        pairs = sorted([*pairs, *((row, -1) for row in alone)])
    if how == "right":
        pairs = sorted([*pairs, *without], key=lambda pair: (pair[1], pair[0]))
    if how == "full":
        pairs += without
    assert list(zip(result["row"].tolist(), result["other"].tolist(), strict=True)) == pairs
    assert [math.isnan(y) for y in result["y"].tolist()] == [at < 0 for _, at in pairs]
    keys = [mine[row] if row >= 0 else others[at] for row, at in pairs]
    found = [column(result, name) for name in listed(by)]
    assert [[_key(values[at]) for values in found] for at in range(len(pairs))] == keys


def _key(value: Any) -> Any:
    return None if value is None or value != value else value


class Sample(TensorClass):
    label: Tensor
    text: Text


class Labelled(TensorClass):
    label: Tensor
    name: Text


def samples() -> Sample:
    return Sample(torch.tensor([2, 0, 2, 1]), ["c", "a", "d", "b"], batch_size=[4])


def test_records_stay_records() -> None:
    given = samples()
    assert type(given.filter(lambda rows: rows.label > 0)) is Sample
    assert given.filter([True, False, False, True]).text.tolist() == ["c", "b"]
    assert type(given.sort_by("text")) is Sample
    assert given.sort_by("text").label.tolist() == [0, 1, 2, 2]
    assert type(given.unique("label")) is Sample
    assert [(label, rows.text.tolist()) for label, rows in given.group_by("label")] == [
        (0, ["a"]),
        (1, ["b"]),
        (2, ["c", "d"]),
    ]
    assert given.value_counts("label").to_dict()["count"].tolist() == [2, 1, 1]
    train, test = given.train_test_split(1, shuffle=False)
    assert type(train) is Sample
    assert test.text.tolist() == ["b"]


def test_join_into_a_record_class() -> None:
    names = Labelled(torch.tensor([0, 1, 2]), ["zero", "one", "two"], batch_size=[3])

    class Both(TensorClass):
        label: Tensor
        text: Text
        name: Text

    joined = samples().join(names, "label", into=Both)
    assert type(joined) is Both
    assert joined.name.tolist() == ["two", "zero", "two", "one"]


def test_nested_keys_and_names_on_both_sides() -> None:
    left = TensorDict({"n": {"k": torch.tensor([1, 2])}, "v": torch.tensor([1.0, 2.0])}, [2])
    assert left.sort_by(("n", "k"), descending=True)["v"].tolist() == [2, 1]
    assert left.group_by(("n", "k")).agg(v=("v", "sum"))["n", "k"].tolist() == [1, 2]
    right = TensorDict({"k": torch.tensor([1, 1]), "v": torch.tensor([7.0, 8.0])}, [2])
    joined = TensorDict({"k": torch.tensor([1, 3]), "v": torch.tensor([1.0, 3.0])}, [2]).join(right, "k", "left")
    assert joined["v"].tolist() == [1, 1, 3]
    assert joined["v_right"].tolist()[:2] == [7, 8]
    assert math.isnan(joined["v_right"][2])


def test_random_splits() -> None:
    data = TensorDict({"x": torch.arange(103), "label": torch.arange(103) % 2}, [103])
    parts = data.random_split([0.5, 0.25, 0.25], torch.Generator().manual_seed(3))
    assert [len(part) for part in parts] == [52, 26, 25]
    assert sorted(torch.cat([part["x"] for part in parts]).tolist()) == list(range(103))
    again = data.random_split([0.5, 0.25, 0.25], torch.Generator().manual_seed(3))
    assert torch.equal(parts[0]["x"], again[0]["x"])
    expected = torch.utils.data.random_split(range(103), [52, 26, 25], torch.Generator().manual_seed(3))  # type: ignore[arg-type]
    assert parts[0]["x"].tolist() == list(expected[0])
    train, test = data.train_test_split(0.3, stratify="label")
    assert (int(test["label"].sum()), len(test)) == (15, 31)
    assert sorted(torch.cat([train["x"], test["x"]]).tolist()) == list(range(103))


def test_a_filter_reads_only_its_rows_of_a_file(tmp_path: Any) -> None:
    with TensorDict({"x": torch.arange(6), "y": torch.arange(6.0)}, [6]).to_h5(tmp_path / "rows.h5") as data:
        assert data.filter(lambda rows: rows["x"] > 3)["y"].tolist() == [4, 5]
        assert data.sort_by("x", descending=True)["y"].tolist() == [5, 4, 3, 2, 1, 0]
        assert data.group_by("x").agg("max")["y"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda d: d.filter(torch.ones(4)), ValueError, r"filter: expected a bool for each row, .*got torch.float32"),
        (lambda d: d.group_by("a", "b"), TypeError, r"too many .*several keys are one list: group_by\(\['a', 'b'\]\)"),
        (lambda d: d.filter("a > 1"), TypeError, r"filter: .*got the string 'a > 1'; write filter\(lambda rows: "),
        (lambda d: d.filter([True]), ValueError, r"of the shape \[4\].*got torch.bool of the shape \[1\]"),
        (lambda d: d.sort_by("labl"), KeyError, "sort_by: there is no key 'labl'; the keys are 'label', 'text'"),
        (lambda d: d.sort_by("label", descending=[True, False]), ValueError, "one for each of 1 keys"),
        (lambda d: d[0].sort_by("label"), ValueError, "sort_by: expected at least one batch dimension"),
        (lambda d: d.unique([]), ValueError, "expected at least one key"),
        (lambda d: d.drop_duplicates(keep="all"), ValueError, "keep: expected 'first', 'last' or False, got 'all'"),
        (lambda d: d.group_by("label").agg(x=("text", "mean")), TypeError, "'mean' takes a tensor of real numbers"),
        (lambda d: d.group_by("label").agg(x=("label", "avg")), ValueError, "expected one of count, sum, mean"),
        (lambda d: d.group_by("label").agg(x="mean"), ValueError, "x: expected 'count', or a pair"),
        (lambda d: d.group_by("label").agg(label="count"), ValueError, "label: there is a key of this name"),
        (
            lambda d: d.join(d, "label", "outer"),
            ValueError,
            "how: expected one of 'inner', .*outer joins are called 'full'",
        ),
        (lambda d: d.join(d.select("text"), "label"), KeyError, "join: there is no key 'label'"),
        (
            lambda d: d.join(TensorDict({"label": torch.zeros(4, 2, dtype=torch.int64)}, [4]), "label"),
            ValueError,
            r"join: 'label': expected rows of one shape, got \[\] and \[2\]",
        ),
        (
            lambda d: d.join(TensorDict({"label": torch.zeros(4, 1, dtype=torch.int64)}, [4]), "label"),
            ValueError,
            r"join: 'label': expected rows of one shape, got \[\] and \[1\]",
        ),
        (lambda d: d.random_split([1, 2]), ValueError, "expected lengths that sum to the 4 rows"),
        (lambda d: d.train_test_split(1.5), ValueError, "test_size: expected a fraction"),
    ],
)
def test_mistakes_are_told(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(TensorDict({"label": torch.tensor([2, 0, 2, 1]), "text": Text(["c", "a", "d", "b"])}, [4]))


def test_rows_without_a_partner_need_a_number() -> None:
    left = TensorDict({"k": torch.tensor([1, 2])}, [2])
    right = TensorDict({"k": torch.tensor([1]), "n": torch.tensor([5]), "t": Text(["a"])}, [1])
    with pytest.raises(ValueError, match=r"join: 1 rows have no partner, and 'n' .*fill=\{'n': -1\}"):
        left.join(right, "k", "left")
    joined = left.join(right, "k", "left", fill={"n": -1})
    assert (joined["n"].tolist(), joined["t"].tolist()) == ([5, -1], ["a", None])


def test_full_join_of_records_keeps_keys_once_and_fills_both_sides() -> None:
    class Trip(TensorClass):
        user: Text
        stop: Ragged[Tensor]
        at: TensorDict

    class Person(TensorClass):
        user: Text
        age: Tensor

    class Row(TensorClass):
        user: Text
        age: Tensor
        stop: Ragged[Tensor] | None = None

    stops = [torch.tensor([1, 2]), torch.tensor([3])]
    trips = Trip(Text(["b", "a"]), stops, TensorDict({"x": torch.tensor([0.5, 1.5])}, [2]), batch_size=[2])
    people = Person(Text(["c", "b"]), torch.tensor([30, 40]), batch_size=[2])
    joined = trips.join(people, "user", "full", fill={"age": -1})
    assert joined["user"].tolist() == ["b", "a", "c"]
    assert joined["age"].tolist() == [40, -1, 30]
    assert joined["stop"].missing.tolist() == [False, False, True]
    assert joined["at", "x"].isnan().tolist() == [False, False, True]
    right = trips.exclude("at").join(people, "user", "right", into=Row)
    assert type(right) is Row
    assert (right.user.tolist(), right.age.tolist()) == (["c", "b"], [30, 40])
    empty = trips[:0].join(people, "user", "full")
    assert (empty["user"].tolist(), empty["stop"].missing.all()) == (["c", "b"], True)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi"])
def test_keys_have_other_names_on_the_other_side(how: Any) -> None:
    left = TensorDict({"user": torch.tensor([2, 1, 2]), "day": torch.tensor([0, 0, 1])}, [3])
    right = TensorDict({"id": torch.tensor([1, 3]), "user": Text(["ann", "bob"])}, [2])
    found = left.join(right, "user", how, right_on="id", fill={"day": -1})
    expected = left.join(
        right.clone().rename_key_("user", "user_right").rename_key_("id", "user"), "user", how, fill={"day": -1}
    )
    assert list(found.keys()) == list(expected.keys())
    assert found["user"].tolist() == expected["user"].tolist()
    if how != "semi":
        assert found["user_right"].tolist() == expected["user_right"].tolist()
    with pytest.raises(ValueError, match="right_on: expected a key for each of the 1 of on, got 2"):
        left.join(right, "user", how, right_on=["id", "user"])


def test_filling_needs_numbers_that_fit_and_keys_that_exist() -> None:
    left = TensorDict({"k": torch.tensor([1, 2]), "n": torch.tensor([5, 6], dtype=torch.uint8)}, [2])
    right = TensorDict({"k": torch.tensor([3]), "n": torch.tensor([7])}, [1])
    both = left.join(right, "k", "full", fill={"n": 0, "n_right": -1})
    assert (both["n"].tolist(), both["n_right"].tolist()) == ([5, 6, 0], [-1, -1, 7])
    with pytest.raises(ValueError, match=r"fill: 'n' \(torch.uint8\) cannot hold -1"):
        left.join(right, "k", "full", fill={"n": -1})
    with pytest.raises(ValueError, match=r"fill: there are no keys \['m'\]; the keys are \['k', 'n', 'n_right'\]"):
        left.join(right, "k", "full", fill={"n": 0, "m": 0})
    with pytest.raises(TypeError, match=r"fill: 'n': expected a number for torch.uint8, got 'none'"):
        left.join(right, "k", "full", fill={"n": "none"})


def test_fields_with_the_names_of_these_methods() -> None:
    class Row(TensorClass):
        filter: Tensor
        keys: Tensor

    rows = Row(torch.tensor([2, 1]), torch.tensor([0, 1]), batch_size=[2])
    assert rows.sort_by("filter").keys.tolist() == [1, 0]
    assert rows.drop_duplicates().filter.tolist() == [2, 1]
