"""from_any: the right converter for any object."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tensorclass as tc
from tensorclass import TensorDict
from tests.convert.samples import Inner, Pair, Plain, Sample, values
from tests.convert.sides import both

ARRAY = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f4")])


@pytest.mark.parity
@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize(
    "obj",
    [
        1,
        "text",
        b"bytes",
        None,
        values(3),
        [1, 2],
        ["a", "b"],
        [{"a": 1}, {"a": 2}],
        [1, "a", {"a": 1}],
        [],
        (),
        {},
        {"a": 1, ("b", "c"): 2},
        (1, "a", values(3)),
        Pair(values(3), Pair(values(3), "x")),
        Plain(values(3), "x", Plain(values(3), "y")),
        ARRAY,
        {"array": ARRAY, "deep": {"pair": Pair(1, [1, 2])}},
        {1, 2},
    ],
    ids=str,
)
def test_any_object_becomes_what_it_becomes_in_the_peer(obj: Any, auto: bool) -> None:
    ours, peers = both(lambda m: m.from_any(obj, auto_batch_size=auto))
    assert ours == peers
    ours, peers = both(lambda m: m.TensorDict.from_any(obj, auto_batch_size=auto))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("options", [{"batch_size": [3]}, {"batch_size": [3], "auto_batch_size": True}], ids=str)
@pytest.mark.parametrize(
    "obj", [(values(3, 2), values(3)), Pair(values(3, 2), (values(3),)), Plain(values(3))], ids=str
)
def test_a_batch_size_is_taken_as_in_the_peer(obj: Any, options: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.from_any(obj, **options))
    assert ours == peers


def test_a_collection_is_given_back() -> None:
    data, record = TensorDict({"x": values(3)}), Sample(values(3))
    assert TensorDict.from_any(data) is data
    assert TensorDict.from_any(record) is record
    assert Sample.from_any(record) is record
    assert type(Sample.from_any(data)) is Sample


def test_a_collection_with_other_options_is_a_new_collection() -> None:
    data = TensorDict({"x": values(3, 2), "n": {"y": values(3, 2)}})
    assert TensorDict.from_any(data, batch_size=[3]).batch_size == (3,)
    assert TensorDict.from_any(data, auto_batch_size=True)["n"].batch_size == (3, 2)
    assert TensorDict.from_any(data, device="meta")["x"].device.type == "meta"
    assert (data.batch_size, data["n"].batch_size, data.device) == ((), (), None)


def test_a_list_of_tensors_is_a_tensor_as_for_the_constructor() -> None:
    assert tc.from_any({"a": [values(2), values(2)]})["a"].shape == (2, 2)
    ragged = tc.from_any({"a": [values(2), values(3)]})["a"]
    assert [len(item) for item in ragged] == [2, 3]


def test_a_given_batch_size_says_which_lists_are_columns() -> None:
    data = tc.from_any({"x": values(2, 3), "rows": ["a", "b"], "whole": ["a", "b", "c"]}, batch_size=[2])
    assert (data[0]["rows"], data[0]["whole"]) == ("a", ["a", "b", "c"])


def test_an_item_of_a_structured_array_is_a_collection() -> None:
    assert tc.from_any(ARRAY[1]).to_dict(convert_tensors=True) == {"a": 3, "b": 4}


def test_a_class_is_an_object() -> None:
    assert tc.from_any({"kind": Plain})["kind"] is Plain
    assert tc.from_any(Plain) is Plain


@pytest.mark.parametrize(
    "obj",
    [
        {"x": values(2), "label": ["a", "b"]},
        Pair(values(2), "unused")._replace(),
        Plain(values(2), "a"),
        [{"x": 0.0, "label": "a"}, {"x": 1.0, "label": "b"}],
        np.array([(0.0, "a"), (1.0, "b")], dtype=[("x", "f4"), ("label", "U3")]),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_a_record_is_made_of_all_that_has_its_fields(obj: Any) -> None:
    if isinstance(obj, Pair):
        with pytest.raises(ValueError, match=r"y: expected one of the fields 'x', .* got a key that is none"):
            Sample.from_any(obj)
        return
    if isinstance(obj, Plain):
        with pytest.raises(ValueError, match=r"below: expected one of the fields"):
            Sample.from_any(obj)
        return
    record = Sample.from_any(obj, auto_batch_size=True)
    assert (type(record), record.batch_size, record.x.tolist(), record[1].label) == (Sample, (2,), [0, 1], "b")


@pytest.mark.parametrize("obj", [1, "text", None, values(2), Plain], ids=str)
def test_a_record_cannot_be_made_of_what_has_no_entries(obj: Any) -> None:
    with pytest.raises(
        TypeError, match=r"Sample\.from_any: expected something with entries for the fields \['x', 'lab"
    ):
        Sample.from_any(obj)


def test_what_a_field_holds_whole_is_not_taken_apart() -> None:
    record = Sample.from_any({"x": values(2), "pair": Pair(1, {"k": 2})})
    assert record.pair == Pair(1, {"k": 2})
    assert type(record.pair) is Pair


def test_tables_are_read_by_their_converter() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0], "tag": ["a", "b"]})
    assert tc.from_any(frame)["tag"].tolist() == ["a", "b"]
    assert tc.from_any({"inner": frame})["inner"].batch_size == (2,)
    record = Sample.from_any({"x": torch.zeros(2), "inner": frame}, batch_size=[2])
    assert type(record.inner) is Inner
