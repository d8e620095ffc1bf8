"""from_struct_array and to_struct_array."""

from __future__ import annotations

import itertools
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


class Pet(TensorClass, stack_objects=True):
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


PACKED = [("flag", "u1"), ("x", "f8"), ("m", "f4", (2, 3)), ("n", [("k", "i2"), ("z", "c16")]), ("i", "i4")]


def _fill(array: Any, numbers: Any) -> None:
    for name in array.dtype.names:
        part = array[name]
        if part.dtype.names:
            _fill(part, numbers)
        else:
            array[name] = (
                np.array([next(numbers) % 90 for _ in range(part.size)]).reshape(part.shape).astype(part.dtype)
            )


def numbers(shape: Any = (4,), dtype: Any = PACKED) -> Any:
    """Return an array with different numbers in its fields."""
    array = np.zeros(shape, dtype)
    _fill(array, itertools.count())
    return array


def flat(data: Any) -> dict[Any, Any]:
    return {key: value.tolist() for key, value in data.items(True, True)}


def test_packed_fields_share_memory_with_the_array() -> None:
    array = numbers((4, 2))
    data = TensorDict.from_struct_array(array)
    array["x"] += 1
    assert data["x"].tolist() == array["x"].tolist()
    data["x"][1:, 0] = -1
    data["n", "z"].mul_(2)
    data[0]["m"].zero_()
    data[2:]["i"].fill_(5)
    data[3] = data[0].clone()
    assert flat(data) == flat(TensorDict.from_struct_array(array, copy=True))
    assert (array["x"][1:3, 0].tolist(), array["m"][0].any(), array["i"][2].tolist()) == ([-1, -1], False, [5, 5])
    data.add_(1)
    assert flat(data) == flat(TensorDict.from_struct_array(array, copy=True))


@pytest.mark.parametrize(
    "dtype",
    [
        {"names": ["x", "y"], "formats": ["i1", "f4"], "offsets": [0, 1], "itemsize": 8},
        {"names": ["x", "y"], "formats": ["i1", "f4"], "offsets": [9, 2], "itemsize": 13},
        {"names": ["x", "y"], "formats": ["u4", "f4"], "offsets": [4, 4], "itemsize": 12},
        {"names": ["x", "y"], "formats": ["f8", "c16"], "offsets": [0, 8], "itemsize": 32},
        {"names": ["x", "y"], "formats": ["i8", "(3,)f2"], "titles": ["first", "second"]},
        np.dtype([("x", "i1"), ("y", "f8")], align=True),
    ],
    ids=str,
)  # fmt: skip
def test_offsets_gaps_titles_and_alignment_share_memory_and_come_back(dtype: Any) -> None:
    array = np.zeros((3, 2), dtype)
    data = TensorDict.from_struct_array(array, copy=False)
    data["y"].fill_(2)
    assert (array["y"] == 2).all()
    array["y"][1] = 3
    assert data["y"].tolist() == array["y"].tolist()
    back = data.to_struct_array(array.dtype)
    assert (back.dtype, back.tobytes()) == (array.dtype, array.tobytes())


def test_one_row_and_one_structure_share_memory() -> None:
    array = numbers()
    one, row = TensorDict.from_struct_array(array[1:2], copy=False), TensorDict.from_struct_array(array[2], copy=False)
    one["x"].fill_(-1)
    row["x"].fill_(-2)
    row["n", "z"].fill_(-3)
    assert (array["x"][1:3].tolist(), array["n"]["z"][2]) == ([-1, -2], -3)
    assert TensorDict.from_struct_array(array[1:2].reshape(()), copy=False).batch_size == ()


def test_columns_of_a_larger_array_share_memory() -> None:
    array = numbers((3, 4))
    data = TensorDict.from_struct_array(array.T[1:, ::2], copy=False)
    data["x"].fill_(-1)
    assert (array["x"].T[1:, ::2] == -1).all()
    assert (array["x"] == -1).sum() == 6


@pytest.mark.parametrize("of", [lambda array: array.view(np.recarray), np.ma.array], ids=["recarray", "unmasked"])
def test_classes_of_arrays_share_memory(of: Any) -> None:
    record = of(numbers())
    TensorDict.from_struct_array(record, copy=False)["x"].fill_(-1)
    assert (np.asarray(record)["x"] == -1).all()


def test_masked_values_are_an_error() -> None:
    array = np.ma.array(numbers(), mask=[True, False, False, False])
    with pytest.raises(TypeError, match=r"expected an array without masked values.*filled"):
        TensorDict.from_struct_array(array)


@pytest.mark.parametrize("copy", [None, True, False])
def test_what_is_copied_when(copy: bool | None) -> None:
    array = numbers()
    data = TensorDict.from_struct_array(array, copy=copy)
    array["x"] += 1
    assert (data["x"].tolist() == array["x"].tolist()) == (copy is not True)
    if copy:
        assert {type(value) for value in data.values(True, True)} == {Tensor}


def test_without_a_copy_all_fields_that_would_need_one_are_an_error() -> None:
    array = np.zeros(3, [("a", ">i4"), ("b", [("c", ">f8"), ("d", "<f8")]), ("t", "U3")])
    with pytest.raises(tc.ConversionError) as caught:
        TensorDict.from_struct_array(array, copy=False)
    assert [problem.path for problem in caught.value.problems] == [("a",), ("b", "c")]
    assert {problem.got for problem in caught.value.problems} == {"numbers in another byte order"}
    array.flags.writeable = False
    with pytest.raises(tc.ConversionError, match=r"got a read-only array; .*mmap_mode='c'"):
        TensorDict.from_struct_array(array, copy=False)
    with pytest.raises(tc.ConversionError, match="negative strides"):
        TensorDict.from_struct_array(numbers()[::-1], copy=False)
    assert TensorDict.from_struct_array(numbers()[::-1])["x"].tolist() == numbers()["x"][::-1].tolist()


@pytest.mark.parametrize("mode", ["r+", "c", "r"])
def test_a_mapped_file_stays_mapped(tmp_path: Any, mode: Any) -> None:
    np.save(tmp_path / "a.npy", numbers())
    mapped = np.load(tmp_path / "a.npy", mmap_mode=mode)
    data = TensorDict.from_struct_array(mapped)
    data["x"].fill_(-1)
    data["i"] += 5
    assert np.array_equal(mapped, data.to_struct_array(PACKED)) == (mode != "r")
    del mapped
    saved = np.load(tmp_path / "a.npy")
    assert (saved["x"] == -1).all() == (mode == "r+")
    assert (saved["i"] == numbers()["i"] + 5).all() == (mode == "r+")


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_a_mapped_array_is_a_value_that_stays_mapped(tmp_path: Any, mode: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(6.0))
    data = TensorDict({"a": np.load(tmp_path / "a.npy", mmap_mode=mode)}, [6])
    data["a"][2] = -1
    assert (np.load(tmp_path / "a.npy")[2] == -1) == (mode == "r+")


def operations() -> dict[str, Any]:
    index = torch.tensor([2, 0])
    return {
        "add": lambda d: d + 1,
        "add_": lambda d: d.add_(1),
        "mul_ by itself": lambda d: d.mul_(d),
        "write a row": lambda d: d.__setitem__(1, d[0].clone()),
        "write rows": lambda d: d.__setitem__(index, 0),
        "read rows": lambda d: d[index],
        "mask": lambda d: d[d["i"] > 20],
        "reshape": lambda d: d.reshape(2, 2),
        "view in a block": lambda d: d.view(2, 2).__enter__(),
        "unbind": lambda d: torch.stack(list(d.unbind(0))),
        "split": lambda d: torch.cat(list(d.split(3))),
        "stack": lambda d: torch.stack([d, d]),
        "lazy stack": lambda d: tc.lazy_stack([d, d])[1],
        "expand": lambda d: d.expand(2, 4),
        "gather": lambda d: d.gather(0, index),
        "where": lambda d: d.where(d["i"] > 20, d + 1),
        "apply_": lambda d: d.apply_(lambda x: x.mul_(2)),
        "update_": lambda d: d.update_({"x": torch.ones(4)}),
        "copy_": lambda d: d.copy_(d.clone() + 1),
        "set_at_": lambda d: d.set_at_("x", 3.0, 0),
        "rows that write": lambda d: d.get_sub_tensordict([0, 2]).zero_(),
        "sum": lambda d: d.sum(0),
        "to": lambda d: d.exclude("n").to(torch.float16),
        "clone": lambda d: d.clone(),
        "vmap": lambda d: torch.vmap(lambda row: row + 1)(d),
        "data": lambda d: d.data,
        "flatten keys": lambda d: d.flatten_keys(),
        "numpy": lambda d: {key: value.tolist() for key, value in d.exclude("n").numpy().items()},
        "tolist": lambda d: d.tolist(convert_tensors=True),
        "to_dict": lambda d: d.to_dict(convert_tensors=True),
    }


@pytest.mark.parametrize("name", operations())
def test_operations_on_packed_fields_are_those_on_plain_tensors(name: str) -> None:
    array, function = numbers(), operations()[name]
    packed, plain = TensorDict.from_struct_array(array), TensorDict.from_struct_array(array, copy=True)
    results = [function(packed), function(plain)]
    assert flat(packed) == flat(plain) == flat(TensorDict.from_struct_array(array, copy=True))
    if isinstance(results[0], tc.TensorDict):
        assert results[0].batch_size == results[1].batch_size
        results = [flat(result) for result in results]
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [[("y", ">f8")], [("y", "<f8")]], ids=str)
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


def test_strings_are_text_and_bytes_times_and_objects_non_tensor_data() -> None:
    key = object()
    dtype = [("u", "U3", (2,)), ("s", "S2"), ("t", "M8[s]"), ("o", "O"), ("v", "V2")]
    array = np.array(
        [(["a", "b"], b"x", "2020-01-01", key, b"\1\2"), (["c", "d"], b"y", "NaT", None, b"\3\4")], dtype=dtype
    )
    data = TensorDict.from_struct_array(array)
    assert data["u"].tolist() == [["a", "b"], ["c", "d"]]
    assert (data["s"], data["o"], data["v"]) == ([b"x", b"y"], [key, None], [b"\1\2", b"\3\4"])
    assert data["t"][0] == np.datetime64("2020-01-01", "s")
    assert data[1]["u"].tolist() == ["c", "d"]
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
    with pytest.raises(ValueError, match="expected a dtype with the fields"):
        data.to_struct_array([("name", "U10")])


@pytest.mark.parametrize("bad", [np.zeros(3), 1, None, [(1, 2)], {"a": 1}], ids=str)
def test_other_objects_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="expected a numpy array of a structured dtype"):
        TensorDict.from_struct_array(bad)


def test_dtypes_that_torch_does_not_have_are_one_error_that_lists_the_fields() -> None:
    array = np.zeros(2, dtype=[("a", [("wide", np.longdouble)]), ("b", "f4"), ("c", np.clongdouble)])
    for copy in (None, True):
        with pytest.raises(tc.ConversionError) as caught:
            TensorDict.from_struct_array(array, copy=copy)
        assert [(problem.path, problem.got) for problem in caught.value.problems] == [
            (("a", "wide"), "float128"), (("c",), "complex256"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "dtype, paths",
    [
        ([("name", "U3"), ("age", "i8"), ("weight", "i4")], [("name",), ("weight",)]),
        ([("name", "O"), ("age", "i4", (2,)), ("weight", "f8")], [("age",)]),
    ],
)
def test_values_that_a_given_dtype_cannot_hold_are_one_error(dtype: Any, paths: Any) -> None:
    with pytest.raises(tc.ConversionError) as caught:
        Pet.from_struct_array(pets()).to_struct_array(dtype)
    assert [problem.path for problem in caught.value.problems] == paths


def test_text_is_as_long_as_its_dtype_or_shorter() -> None:
    array = np.zeros(2, [("none", "U0"), ("long", "U9"), ("zeros", "S4")])
    array["zeros"] = [b"a\0b", b"c"]
    data = TensorDict.from_struct_array(array)
    assert data.to_struct_array(array.dtype).tobytes() == array.tobytes()
    assert data["zeros"] == [b"a\0b", b"c"]


def test_a_large_array_is_written_whole() -> None:
    array = numbers((430, 7), [("a", "f8"), ("b", "f4", (50,)), ("c", [("d", "i8", (9,))], (2,))])
    assert array.nbytes > 1 << 20
    assert TensorDict.from_struct_array(array).to_struct_array(array.dtype).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "value", [values(2).bfloat16(), torch.nested.nested_tensor([values(2), values(3)], layout=torch.jagged)], ids=str
)
def test_what_numpy_cannot_hold_is_an_error_that_names_the_key(value: Tensor) -> None:
    with pytest.raises(TypeError, match=r"to_struct_array: n\.w: expected (a dtype that numpy has|items of one shape)"):
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


def reached(data: TensorDict, array: Any, path: tuple[str, ...] = ()) -> list[tuple[Any, Any]]:
    """Return each tensor with its field of the array."""
    found: list[tuple[Any, Any]] = []
    for name in array.dtype.names:
        if array[name].dtype.names:
            found += reached(data, array[name], (*path, name))
        elif array[name].dtype.kind in "biufc" and array[name].dtype.isnative:
            found.append((data[(*path, name)], array[name]))
    return found


@given(data=st.data())
def test_all_numbers_in_native_byte_order_share_memory(data: st.DataObject) -> None:
    array = numbers(data.draw(nps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)), data.draw(dtypes()))
    if array.ndim > 1 and data.draw(st.booleans()):
        array = array.swapaxes(0, 1)[::2]
    for tensor, field in reached(tc.from_struct_array(array), array):
        assert tensor.shape == field.shape
        tensor.fill_(1)
        assert (field == 1).all()
        field[...] = 0
        assert not tensor.any()
        assert type(tensor) is Tensor or any(stride % field.itemsize for stride in field.strides)


@given(data=st.data())
def test_an_array_comes_back_equal(data: st.DataObject) -> None:
    dtype = data.draw(dtypes())
    shape = data.draw(nps.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    array = np.zeros(shape, dtype)
    _fill(array, itertools.count())
    before = array.copy()
    made = tc.from_struct_array(array)
    assert made.batch_size == shape
    back = made.to_struct_array(dtype)
    assert back.dtype == dtype
    assert_equal(back, before)
    assert_equal(array, before)


def assert_equal(a: Any, b: Any) -> None:
    if a.dtype.names:
        for name in a.dtype.names:
            assert_equal(a[name], b[name])
    else:
        assert np.array_equal(a, b)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_fields_of_objects_get_numbers_and_absent_ones_their_default(shape: tuple[int, ...]) -> None:
    class Numbered(TensorClass, stack_objects=True):
        id: int
        x: Tensor
        weight: Tensor = torch.tensor(2.0)

    data = Numbered.from_struct_array(np.ones(shape, dtype=[("id", "i4"), ("x", "f4")]))
    assert data[(0,) * len(shape)].id == 1
    assert data.weight.tolist() == torch.full(shape, 2.0).tolist()
