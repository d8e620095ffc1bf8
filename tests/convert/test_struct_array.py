"""from_struct_array and to_struct_array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorClass, TensorDict
from tests.convert.samples import values
from tests.convert.sides import both

PETS = [("name", "U10"), ("age", "i4"), ("weight", "f4")]


def pets() -> Any:
    return np.array([("Rex", 9, 81.0), ("Fido", 3, 27.0)], dtype=PETS)


class Pet(TensorClass):
    name: str
    age: Tensor
    weight: Tensor


def test_writing_to_one_shows_in_the_other() -> None:
    array = pets()
    data = TensorDict.from_struct_array(array)
    array["age"] += 1
    assert data["age"].tolist() == [10, 4]
    data["weight"].zero_()
    assert array["weight"].tolist() == [0, 0]
    data[0]["age"].fill_(7)
    assert array[0]["age"] == 7


def test_also_through_nested_dtypes_sub_arrays_and_slices() -> None:
    dtype = [("a", [("b", "i4"), ("c", "f8", (2,))]), ("d", "u1", (2, 3))]
    array = np.zeros((4, 2), dtype=np.dtype(dtype, align=True))
    data = TensorDict.from_struct_array(array[::2])
    assert (data.batch_size, data["a"].batch_size, data["d"].shape) == ((2, 2), (2, 2), (2, 2, 2, 3))
    data["a", "c"].fill_(5)
    data["d"][1].fill_(6)
    assert array["a"]["c"][::2].min() == 5
    assert array["a"]["c"][1::2].max() == 0
    assert (array["d"][2] == 6).all()


def test_a_field_at_an_odd_offset_shares_memory_where_the_stride_is_a_multiple() -> None:
    array = np.zeros(
        3, dtype=np.dtype({"names": ["x", "y"], "formats": ["i1", "f4"], "offsets": [0, 1], "itemsize": 8})
    )
    data = TensorDict.from_struct_array(array)
    data["y"].fill_(2)
    assert array["y"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", [[("x", "i1"), ("y", "f8")], [("y", ">f8")], [("y", "<f8")]], ids=str)
def test_what_torch_cannot_share_is_copied_with_its_values(dtype: Any) -> None:
    array = np.ones(3, dtype=dtype)
    array.flags.writeable = False
    assert TensorDict.from_struct_array(array)["y"].tolist() == [1, 1, 1]
    array = np.ones(3, dtype=dtype)
    assert TensorDict.from_struct_array(array[::-1])["y"].dtype == torch.float64


@pytest.mark.parity
@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), dtype=[("a", "i4"), ("b", "f8", (2,))]),
        np.zeros((), dtype=[("a", "i4")]),
        np.zeros(0, dtype=[("a", "i4")]),
        np.ones(2, dtype=[("a", ">i4"), ("b", "<u2")]),
        np.ones(3, dtype=[("x", "i1"), ("a", "f8")]),
        np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
        np.zeros(2, dtype=[("a", [("b", "i4")], (3,))]),
        np.zeros(2, dtype=[("a", "?"), ("h", "f2"), ("c", "c8")]),
    ],
    ids=str,
)
def test_the_collection_and_the_array_that_comes_back_are_those_of_the_peer(array: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_struct_array(array))
    assert ours == peers
    ours, peers = both(lambda m: m.from_struct_array(array))
    assert ours == peers
    if array.ndim:
        ours, peers = both(lambda m: repr(m.from_struct_array(array).to_struct_array()))
        assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [{"auto_batch_size": True}, {"batch_size": [2]}, {"batch_size": []}, {"auto_batch_size": True, "batch_dims": 1},
     {"batch_size": [2], "auto_batch_size": True}, {"device": "cpu"}, {"batch_size": [5]}],
    ids=str,
)  # fmt: skip
def test_the_options_do_what_they_do_in_the_peer(options: dict[str, Any]) -> None:
    array = np.zeros((2, 3), dtype=[("a", "i4"), ("b", "f8", (4,))])
    ours, peers = both(lambda m: m.TensorDict.from_struct_array(array, **options))
    assert ours == peers


def test_text_bytes_times_and_objects_are_non_tensor_data() -> None:
    key = object()
    dtype = [("u", "U3", (2,)), ("s", "S2"), ("t", "M8[s]"), ("o", "O"), ("v", "V2")]
    array = np.array(
        [(["a", "b"], b"x", "2020-01-01", key, b"\1\2"), (["c", "d"], b"y", "NaT", None, b"\3\4")], dtype=dtype
    )
    data = TensorDict.from_struct_array(array)
    assert data["u"] == [["a", "b"], ["c", "d"]]
    assert (data["s"], data["o"], data["v"]) == ([b"x", b"y"], [key, None], [b"\1\2", b"\3\4"])
    assert data["t"][0] == np.datetime64("2020-01-01", "s")
    assert data[1]["u"] == ["c", "d"]
    back = data.exclude("v").to_struct_array()
    assert (back["u"] == array["u"]).all()
    assert (back["t"].dtype, back["o"].tolist(), back["s"].tolist()) == ("M8[s]", [key, None], [b"x", b"y"])


def test_a_dtype_can_be_given_for_the_way_back() -> None:
    array = pets()
    data = TensorDict.from_struct_array(array)
    back = data.to_struct_array(array.dtype)
    assert back.dtype == array.dtype
    assert (back == array).all()
    assert data.to_struct_array().dtype == [("name", "U4"), ("age", "i4"), ("weight", "f4")]
    with pytest.raises(ValueError, match="dtype must have the fields"):
        data.to_struct_array([("name", "U10")])


@pytest.mark.parametrize("bad", [np.zeros(3), 1, None, [(1, 2)], {"a": 1}], ids=str)
def test_other_objects_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="expected a numpy array of a structured dtype"):
        TensorDict.from_struct_array(bad)


def test_a_dtype_that_torch_does_not_have_is_an_error_that_names_the_field() -> None:
    array = np.zeros(2, dtype=[("a", [("wide", np.longdouble)])])
    with pytest.raises(TypeError, match=r"a\.wide: expected a dtype that torch has, got float128"):
        TensorDict.from_struct_array(array)


@pytest.mark.parametrize(
    "value", [values(2).bfloat16(), torch.nested.nested_tensor([values(2), values(3)], layout=torch.jagged)], ids=str
)
def test_what_numpy_cannot_hold_is_an_error_that_names_the_key(value: Tensor) -> None:
    with pytest.raises(TypeError, match=r"to_struct_array: n\.w (has the dtype|is ragged)"):
        TensorDict({"n": {"w": value}}, [2]).to_struct_array()


def test_objects_of_any_kind_come_back() -> None:
    given = {
        "mixed": [1, "a"],
        "same": "q",
        "none": None,
        "zero": ["a\0", "b"],
        "big": [2**70, 1],
        "flag": [True, False],
    }
    array = TensorDict.from_dict(given, batch_size=[2]).to_struct_array()
    assert {name: array[name].tolist() for name in array.dtype.names} == {
        **given, "same": ["q", "q"], "none": [None, None],
    }  # fmt: skip
    assert TensorDict.from_struct_array(array)["none"] is None


def test_a_collection_without_batch_dimensions_is_an_array_without_any() -> None:
    array = TensorDict({"a": 1, "s": "text", "n": {"b": [1.0, 2.0]}}).to_struct_array()
    assert (array.shape, array["a"], array["s"], array["n"]["b"].tolist()) == ((), 1, "text", [1, 2])
    assert TensorDict({}, [2]).to_struct_array().shape == (2,)


def test_a_record_is_checked_against_its_fields() -> None:
    record = Pet.from_struct_array(pets())
    assert (type(record), record[1].name, record.age.dtype) == (Pet, "Fido", torch.int32)
    assert (record.to_struct_array(PETS) == pets()).all()
    assert Pet.from_struct_array(pets()[:0]).name == ""
    with pytest.raises(ValueError, match=r"weight: expected Tensor, got nothing"):
        Pet.from_struct_array(pets()[["name", "age"]])

    class Nested(TensorClass):
        pet: Pet
        more: TensorDict

    dtype = [("pet", PETS), ("more", [("a", "i4")], (3,))]
    nested = Nested.from_struct_array(np.zeros(2, dtype))
    assert (type(nested.pet), nested.more.batch_size) == (Pet, (2, 3))


plain = st.sampled_from(["?", "i1", "<i2", ">i4", "i8", "u1", "<u2", "f2", ">f4", "f8", "c8", "U3", "S2"])
parts = st.tuples(plain, st.sampled_from([(), (2,), (1, 2)]))


@st.composite
def dtypes(draw: Any, depth: int = 2) -> Any:
    fields = []
    for name in draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True)):
        kind, shape = draw(parts)
        kind = draw(dtypes(depth - 1)) if depth and draw(st.booleans()) else np.dtype(kind)
        fields.append((name, kind, shape))
    return np.dtype(fields, align=draw(st.booleans()))


@given(data=st.data())
def test_an_array_comes_back_equal(data: st.DataObject) -> None:
    dtype = data.draw(dtypes())
    shape = data.draw(nps.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    array = np.zeros(shape, dtype)
    _fill(array, iter(range(10_000)))
    before = array.copy()
    back = tc.from_struct_array(array).to_struct_array(dtype)
    assert back.dtype == dtype
    assert_equal(back, before)
    assert_equal(array, before)


def assert_equal(a: Any, b: Any) -> None:
    if a.dtype.names:
        for name in a.dtype.names:
            assert_equal(a[name], b[name])
    else:
        assert np.array_equal(a, b)


def _fill(array: Any, numbers: Any) -> None:
    for name in array.dtype.names:
        part = array[name]
        if part.dtype.names:
            _fill(part, numbers)
        else:
            array[name] = (
                np.array([next(numbers) % 90 for _ in range(part.size)]).reshape(part.shape).astype(part.dtype)
            )
