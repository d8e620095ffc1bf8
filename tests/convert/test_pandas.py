"""from_pandas and to_pandas; and what happens without pandas or pyarrow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import TensorDict
from tests.convert.samples import Inner, Sample, values
from tests.convert.sides import both


def numbers() -> Any:
    return pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "flag": [True, False, True], "n.x": [1, 2, 3]})


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [{}, {"separator": "."}, {"auto_batch_size": True}, {"batch_size": [3]}, {"batch_size": []}, {"batch_size": [2]},
     {"dtype": torch.float32}, {"auto_batch_size": True, "batch_dims": 1}, {"batch_size": [3], "auto_batch_size": True},
     {"device": "cpu"}],
    ids=str,
)  # fmt: skip
def test_the_options_do_what_they_do_in_the_peer(options: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_pandas(numbers(), **options))
    assert ours == peers
    ours, peers = both(lambda m: m.from_pandas(numbers(), **options))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2], dtype="int8"),
        pd.array([1, 2], dtype="Int64"),
        pd.array([1, None], dtype="Int64"),
        pd.array([1.5, None], dtype="Float32"),
        pd.array([True, False], dtype="boolean"),
        [1.0, None],
        pd.date_range("2020", periods=2),
        pd.Series([], dtype="float64"),
    ],
    ids=lambda column: str(getattr(column, "dtype", column)),
)
def test_columns_become_what_they_become_in_the_peer(column: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_pandas(pd.DataFrame({"c": column})))
    assert repr(ours) == repr(peers)


def test_text_categories_and_objects_are_rows_of_objects() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a", "b", None],
            "category": pd.Categorical(["u", "v", "u"]),
            "object": [1, "a", None],
            "flag": pd.array([True, None, False], dtype="boolean"),
            "list": [[1], [2, 3], []],
        }
    )
    data = TensorDict.from_pandas(frame)
    assert data.to_dict() == {
        "text": ["a", "b", None],
        "category": ["u", "v", "u"],
        "object": [1, "a", None],
        "flag": [True, None, False],
        "list": [[1], [2, 3], []],
    }
    assert data[1].to_dict()["list"] == [2, 3]


def test_numbers_that_nan_cannot_stand_beside_are_an_error() -> None:
    frame = pd.DataFrame({"i": pd.array([2**53 + 1, None], dtype="Int64")})
    with pytest.raises(ValueError, match=r"the column 'i' misses values.*fillna"):
        TensorDict.from_pandas(frame)
    with pytest.raises(ValueError, match="the column 't' has 1 missing times"):
        TensorDict.from_pandas(pd.DataFrame({"t": [pd.Timestamp("2020"), pd.NaT]}))


def test_labels_become_keys() -> None:
    assert list(TensorDict.from_pandas(pd.DataFrame({1: [1], 2: [2]})).keys()) == ["1", "2"]
    levels = pd.DataFrame({("a", "b"): [1.0], ("a", "c"): [2.0]})
    assert TensorDict.from_pandas(levels)["a"].to_dict() == {"b": 1, "c": 2}
    with pytest.raises(ValueError, match="several columns have the label 'a'"):
        TensorDict.from_pandas(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("bad", [1, {"a": [1]}, pd.Series([1])], ids=lambda bad: type(bad).__name__)
def test_other_objects_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match=rf"expected a pandas\.DataFrame, got a {type(bad).__name__}"):
        TensorDict.from_pandas(bad)


@pytest.mark.parity
def test_a_table_is_that_of_the_peer() -> None:
    def table(m: Any) -> Any:
        data = m.TensorDict({"a": values(2), "s": ["x", "y"], "n": {"b": values(2).int()}, "one": "q"}, [2])
        frame = data.to_pandas(separator="/")
        return frame.to_dict("list"), [str(dtype) for dtype in frame.dtypes], list(frame.index)

    ours, peers = both(table)
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize(
    "source, size",
    [({"a": 1}, []), ({"a": values(2, 3)}, [2]), ({"a": values(2, 3)}, [2, 3]), ({"n": {"a": [1]}}, [1])],
)
def test_what_is_no_table_is_an_error_as_in_the_peer(source: Any, size: list[int]) -> None:
    ours, peers = both(lambda m: m.TensorDict(source, size).to_pandas())
    assert ours is peers is ValueError


def test_an_error_names_the_column() -> None:
    with pytest.raises(ValueError, match=r"'w' has the shape \[2, 3\]; a column has one value a row"):
        TensorDict({"w": values(2, 3)}, [2]).to_pandas()
    with pytest.raises(TypeError, match=r"'w' has the dtype torch\.bfloat16"):
        TensorDict({"w": values(2).bfloat16()}, [2]).to_pandas()
    with pytest.raises(ValueError, match=r"two values would become the column 'a\.b'"):
        TensorDict({"a.b": values(2), "a": {"b": values(2)}}, [2]).to_pandas(separator=".")


def test_a_record_takes_a_table_with_its_fields_and_gives_one() -> None:
    record = Sample.from_pandas(pd.DataFrame({"x": [1.0, 2.0], "label": ["a", "b"], "inner/x": [1, 2]}), separator="/")
    assert (type(record), type(record.inner), record[1].label) == (Sample, Inner, "b")
    assert list(record.to_pandas(separator="/").columns) == ["x", "label", "inner/x"]
    with pytest.raises(ValueError, match=r"y: expected one of the fields"):
        Sample.from_pandas(pd.DataFrame({"x": [1.0], "y": [1]}))


rows = st.integers(0, 4)


@given(data=st.data())
def test_a_table_comes_back_equal(data: st.DataObject) -> None:
    count = data.draw(rows)
    kinds = st.sampled_from(["int64", "float32", "bool", "uint8", "text", "object"])
    frame = pd.DataFrame(index=pd.RangeIndex(count))
    for name in data.draw(st.lists(st.sampled_from("abcd"), unique=True)):
        kind = data.draw(kinds)
        if kind == "text":
            frame[name] = pd.Series(data.draw(st.lists(st.text("xy"), min_size=count, max_size=count)), dtype="str")
        elif kind == "object":
            items = data.draw(st.lists(st.sampled_from([1, "a", (1,)]), min_size=count, max_size=count))
            frame[name] = pd.Series([*items], dtype=object)
        else:
            frame[name] = np.arange(count).astype(kind)
    back = TensorDict.from_pandas(frame).to_pandas()
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)
    for name in frame:
        if frame[name].dtype.kind in "biuf":
            assert back[name].dtype == frame[name].dtype


def test_an_absent_package_is_an_error_that_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "from tensorclass import TensorDict\n"
        "for call in (lambda: TensorDict.from_pandas(1), TensorDict({'a': [1]}, [1]).to_pandas,\n"
        "             lambda: TensorDict.from_arrow(1), TensorDict({'a': [1]}, [1]).to_arrow):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "print(TensorDict.from_any({'a': [1]})['a'])\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown == [
        "from_pandas needs pandas, which is not installed: pip install 'tensorclass[pandas]'",
        "to_pandas needs pandas, which is not installed: pip install 'tensorclass[pandas]'",
        "from_arrow needs pyarrow, which is not installed: pip install 'tensorclass[arrow]'",
        "to_arrow needs pyarrow, which is not installed: pip install 'tensorclass[arrow]'",
        "tensor([1])",
    ]
