"""What a value becomes when it enters a collection, and what does not fit."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorData, NonTensorStack, TensorClass, TensorDict
from tensorclass.td.value_checks import BatchMismatch, as_tensor
from tests.checks import assert_consistent, shares_memory
from tests.samples import Unchanged


def constructed(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    return TensorDict({"x": value}, batch_size, **kwargs)


def by_keyword(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    return TensorDict(batch_size=batch_size, x=value, **kwargs)


def by_item(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    data = TensorDict({}, batch_size, **kwargs)
    data["x"] = value
    return data


def by_set(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    return TensorDict({}, batch_size, **kwargs).set("x", value)


def by_update(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    return TensorDict({}, batch_size, **kwargs).update({"x": value})


def by_replacing(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    data = TensorDict({}, batch_size, **kwargs)
    data["x"] = torch.zeros(data.batch_size, device=data.device)
    data["x"] = value
    return data


def by_setdefault(value: Any, batch_size: Any, **kwargs: Any) -> TensorDict:
    data = TensorDict({}, batch_size, **kwargs)
    data.setdefault("x", value)
    return data


entrances = pytest.mark.parametrize(
    "enter",
    [constructed, by_keyword, by_item, by_set, by_update, by_replacing, by_setdefault],
    ids=lambda f: f.__name__,
)
Enter = Callable[..., TensorDict]


class Record(TensorClass):
    """A record to be nested."""

    y: Tensor


# -- tensors ----------------------------------------------------------------------------------------------------------


@entrances
def test_a_tensor_is_stored_itself(enter: Enter) -> None:
    value = torch.zeros(2, 3)
    assert enter(value, [2])["x"] is value


@entrances
def test_a_parameter_stays_a_parameter(enter: Enter) -> None:
    value = torch.nn.Parameter(torch.zeros(2))
    assert enter(value, [2])["x"] is value


@pytest.mark.parametrize("shape", [(), (3,), (2, 4), (1,), (0,)], ids=str)
@entrances
def test_a_tensor_without_the_batch_size_in_front_is_refused(enter: Enter, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError) as caught:
        enter(torch.zeros(shape), [2, 3])
    assert str(caught.value).startswith(
        f"x: batch dimension mismatch: expected batch dimensions [2, 3] in front, got shape {list(shape)}; "
    )


def test_the_error_says_what_to_do_about_too_few_dimensions() -> None:
    with pytest.raises(RuntimeError, match=r"\.expand\(\)"):
        TensorDict({"x": torch.zeros(2)}, [2, 3])


def test_the_error_says_what_to_do_about_other_sizes() -> None:
    with pytest.raises(RuntimeError, match="give batch_size= the leading dimensions"):
        TensorDict({"x": torch.zeros(2, 4)}, [2, 3])


# -- numbers, arrays, lists -------------------------------------------------------------------------------------------

numbers = [True, 3, -2.5, 2**40, 1j, np.float32(3), np.int8(-1), np.bool_(True), np.array(5), np.complex64(1j)]


@pytest.mark.parametrize("value", numbers, ids=repr)
@entrances
def test_a_number_becomes_a_tensor_without_dimensions(enter: Enter, value: Any) -> None:
    stored = enter(value, [])["x"]
    assert isinstance(stored, Tensor)
    assert stored.shape == ()
    assert stored.dtype == torch.as_tensor(value).dtype
    assert stored.item() == value


@pytest.mark.parametrize("value", [1, 2.5, np.float32(3)], ids=repr)
def test_a_number_does_not_fill_a_batch(value: Any) -> None:
    with pytest.raises(RuntimeError, match=r"x: .*expected batch dimensions \[2\] in front, got shape \[\]"):
        TensorDict({"x": value}, [2])


sequences = [
    [1, 2],
    (1.5, 2.5),
    [True, False],
    [[1, 2], [3, 4]],
    ([1], (2,)),
    [1j, 2],
    [np.float32(1), np.float32(2)],
    [np.arange(3), np.arange(3)],
    np.arange(6).reshape(2, 3),
    np.array([1, 2], dtype=np.uint16),
    [[], []],
]


@pytest.mark.parametrize("value", sequences, ids=repr)
@entrances
def test_arrays_and_sequences_of_numbers_become_tensors(enter: Enter, value: Any) -> None:
    stored = enter(value, [2])["x"]
    assert isinstance(stored, Tensor)
    expected = np.asarray(value)
    assert stored.shape == expected.shape
    assert np.array_equal(stored.numpy(), expected)


def test_a_sequence_of_python_floats_has_the_default_dtype() -> None:
    assert TensorDict({"x": [1.0, 2.0]}, [2])["x"].dtype == torch.get_default_dtype()


@pytest.mark.parametrize("empty", [[], (), np.zeros(0, np.float32)], ids=repr)
def test_an_empty_sequence_is_a_tensor_without_items(empty: Any) -> None:
    assert TensorDict({"x": empty}, [0])["x"].shape == (0,)
    with pytest.raises(RuntimeError, match=r"expected batch dimensions \[3\] in front, got shape \[0\]"):
        TensorDict({"x": empty}, [3])


def test_a_sequence_of_tensors_of_one_shape_becomes_one_tensor() -> None:
    rows = [torch.ones(3, requires_grad=True), torch.zeros(3)]
    stored = TensorDict({"x": rows}, [2])["x"]
    assert torch.equal(stored, torch.stack(rows))
    assert stored.requires_grad


def test_a_sequence_of_numbers_of_another_length_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"expected batch dimensions \[3\] in front, got shape \[2\]"):
        TensorDict({"x": [1, 2]}, [3])


def test_an_array_keeps_its_memory() -> None:
    array = np.zeros(2)
    data = TensorDict({"x": array}, [2])
    array[0] = 5
    assert data["x"].tolist() == [5, 0]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3)[::-1],
        np.broadcast_to(np.arange(3), (3, 3)),
        np.arange(3, dtype=">i4"),
        np.arange(3, dtype="<f8"),
        np.asfortranarray(np.arange(6).reshape(3, 2)),
        np.arange(6)[::2],
    ],
    ids=["reversed", "read-only", "big-endian", "little-endian", "columns", "strided"],
)
def test_an_array_of_any_layout_becomes_a_tensor_of_the_same_numbers(array: Any) -> None:
    stored = TensorDict({"x": array}, [3])["x"]
    assert isinstance(stored, Tensor)
    assert stored.tolist() == array.tolist()


def test_a_tensor_made_of_a_read_only_array_can_be_written_and_leaves_the_array_alone() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    data = TensorDict({"x": array}, [3])
    data["x"][0] = 7
    assert array.tolist() == [0, 1, 2]


# -- objects ----------------------------------------------------------------------------------------------------------

objects = [
    "text",
    "",
    b"bytes",
    None,
    object,
    {1, 2},
    len,
    range(2),
    frozenset(),
    np.array(["x", "y"]),
    np.array([{}, {}], dtype=object),
    np.zeros(2, dtype="datetime64[s]"),
    np.zeros(2, dtype=np.longdouble),
    Ellipsis,
]


@pytest.mark.parametrize("value", objects, ids=repr)
@entrances
def test_any_other_object_is_stored_for_the_whole_batch(enter: Enter, value: Any) -> None:
    data = enter(value, [2])
    assert isinstance(data.get("x"), NonTensorData)
    assert data.get("x").batch_size == (2,)
    assert data["x"] is value


@entrances
def test_a_list_with_an_object_for_each_row_is_stored_row_by_row(enter: Enter) -> None:
    data = enter(["p", None, {"q": 1}], [3])
    assert isinstance(data.get("x"), NonTensorStack)
    assert [row["x"] for row in data] == ["p", None, {"q": 1}]


def test_a_list_that_mixes_numbers_and_text_is_stored_as_an_object() -> None:
    assert TensorDict({"x": [1, "a"]})["x"] == [1, "a"]
    assert TensorDict({"x": ["a", 1]})["x"] == ["a", 1]


def test_a_ragged_list_of_numbers_is_stored_as_an_object() -> None:
    assert TensorDict({"x": [[1, 2], [3]]})["x"] == [[1, 2], [3]]


@entrances
def test_non_tensor_data_is_stored_itself(enter: Enter) -> None:
    value = NonTensorData("text", batch_size=[2])
    assert enter(value, [2]).get("x") is value


@entrances
def test_non_tensor_data_without_batch_dimensions_is_given_those_of_the_owner(enter: Enter) -> None:
    value = NonTensorData("text")
    data = enter(value, [2])
    assert data.get("x").batch_size == (2,)
    assert value.batch_size == ()


# -- collections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType], ids=lambda kind: kind.__name__)
@entrances
def test_a_mapping_becomes_a_nested_collection_of_the_same_batch_size(enter: Enter, kind: Any) -> None:
    data = enter(kind({"y": torch.zeros(2, 3), "z": {"w": [1, 2]}}), [2], device="cpu", names=["row"])
    assert type(data["x"]) is TensorDict
    assert data["x", "z", "w"].tolist() == [1, 2]
    assert data["x", "z"].batch_size == (2,)
    assert_consistent(data)


@entrances
def test_an_empty_mapping_becomes_an_empty_collection(enter: Enter) -> None:
    assert enter({}, [2])["x"].batch_size == (2,)


@entrances
def test_a_collection_that_fits_is_stored_itself(enter: Enter) -> None:
    value = TensorDict({"y": torch.zeros(2, 3)}, [2, 3])
    assert enter(value, [2])["x"] is value


@entrances
def test_a_record_stays_a_record(enter: Enter) -> None:
    value = Record(torch.zeros(2), batch_size=[2])
    assert enter(value, [2])["x"] is value


@entrances
def test_a_collection_with_fewer_batch_dimensions_is_given_those_of_the_owner_in_a_copy(enter: Enter) -> None:
    value = TensorDict({"y": torch.zeros(2, 3), "z": {"w": torch.zeros(2, 3)}})
    data = enter(value, [2, 3])
    assert data["x"].batch_size == (2, 3)
    assert data["x", "z"].batch_size == (2, 3)
    assert data["x", "y"] is value["y"]
    assert (value.batch_size, value["z"].batch_size) == ((), ())


@entrances
def test_a_collection_of_another_batch_size_is_refused_and_not_changed(enter: Enter) -> None:
    value = TensorDict({"y": torch.zeros(2, 3), "z": {"w": torch.zeros(2, 4)}}, [2])
    with Unchanged(value), pytest.raises(RuntimeError, match=r"x: .*expected batch dimensions \[2, 3\] in front"):
        enter(value, [2, 3])


def test_the_error_for_a_nested_value_names_the_whole_key() -> None:
    data = TensorDict({"p": {"q": torch.zeros(3)}}, [3])
    bad = torch.zeros(2)
    for attempt in (
        lambda: TensorDict({"p": {"q": {"r": bad}}}, [3]),
        lambda: TensorDict({("p", "q", "r"): bad}, [3]),
        lambda: data.set(("p", "s", "r"), bad),
        lambda: data.update({"p": {"s": {"r": bad}}}),
        lambda: data.update({("p", "s", "r"): bad}),
    ):
        with pytest.raises(
            RuntimeError, match=r"^p\.[qs]\.r: .*expected batch dimensions \[3\] in front, got shape \[2\]"
        ):
            attempt()


@entrances
def test_the_names_of_the_owner_reach_a_nested_collection_in_a_copy(enter: Enter) -> None:
    value = TensorDict({"y": torch.zeros(2, 3)}, [2, 3], names=[None, "column"])
    data = enter(value, [2], names=["row"])
    assert data["x"].names == ["row", "column"]
    assert value.names == [None, "column"]


# -- device -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [torch.zeros(2), [1, 2], np.zeros(2), {"y": torch.zeros(2)}, TensorDict({"y": torch.zeros(2)}, [2], device="cpu")],
    ids=["tensor", "list", "array", "mapping", "collection"],
)
@entrances
def test_values_are_moved_to_the_device_when_they_are_written(enter: Enter, value: Any) -> None:
    data = enter(value, [2], device="meta")
    assert_consistent(data)
    assert {leaf.device.type for leaf in data.values(True, True)} == {"meta"}


@entrances
def test_a_collection_without_a_device_takes_values_of_any(enter: Enter) -> None:
    value = torch.zeros(2, device="meta")
    data = enter(value, [2])
    assert data["x"] is value
    assert data.device is None


@entrances
def test_a_nested_collection_gets_the_device_of_the_owner_in_a_copy(enter: Enter) -> None:
    value = TensorDict({"y": torch.zeros(2)}, [2])
    data = enter(value, [2], device="cpu")
    assert data["x"].device == torch.device("cpu")
    assert data["x", "y"] is value["y"]
    assert value.device is None


@entrances
def test_objects_are_given_the_device_of_the_owner(enter: Enter) -> None:
    assert enter("text", [2], device="meta").get("x").device == torch.device("meta")
    assert enter(["p", "q"], [2], device="meta").get("x").device == torch.device("meta")


# -- constructing -----------------------------------------------------------------------------------------------------


def test_nested_keys_construct_the_levels_between() -> None:
    data = TensorDict({("a", ("b", "c")): torch.zeros(2), ("a", "d"): torch.ones(2)}, [2])
    assert set(data.keys(True, True)) == {("a", "b", "c"), ("a", "d")}
    assert data["a", "b"].batch_size == (2,)


def test_a_key_below_a_leaf_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="a is a leaf"):
        TensorDict({"a": 1, ("a", "b"): 2})


def test_values_come_as_one_mapping_or_by_keyword_not_both() -> None:
    with pytest.raises(ValueError, match=r"keywords: \['b'\]"):
        TensorDict({"a": 1}, b=2)


@pytest.mark.parametrize("source", [3, [("a", 1)], "a", torch.zeros(2)], ids=repr)
def test_a_source_is_a_mapping_or_a_collection(source: Any) -> None:
    with pytest.raises(ValueError, match=f"got {type(source).__name__}"):
        TensorDict(source)


@pytest.mark.parametrize("key", [3, None, ("a", 3), ()], ids=repr)
def test_a_source_has_strings_or_tuples_of_strings_as_keys(key: Any) -> None:
    with pytest.raises(TypeError, match="a key is a string"):
        TensorDict({key: 1})


@pytest.mark.parametrize("batch_size", [2, [2], (2,), torch.Size([2]), range(2, 3)], ids=repr)
def test_a_batch_size_is_an_int_or_a_sequence(batch_size: Any) -> None:
    data = TensorDict({"a": torch.zeros(2, 3)}, batch_size)
    assert isinstance(data.batch_size, torch.Size)
    assert data.batch_size == (2,)


@pytest.mark.parametrize("batch_size", ["2", 2.0, ["2"], [2.0], len], ids=repr)
def test_anything_else_is_no_batch_size(batch_size: Any) -> None:
    with pytest.raises(TypeError):
        TensorDict({"a": torch.zeros(2)}, batch_size)


def test_a_collection_as_the_source_is_taken_over_with_its_batch_size_and_names() -> None:
    source = TensorDict({"a": torch.zeros(2, 3), "b": {"c": torch.zeros(2)}}, [2], names=["row"])
    data = TensorDict(source)
    assert (data.batch_size, data.names) == (source.batch_size, source.names)
    assert data["a"] is source["a"]
    data["new"] = torch.zeros(2)
    assert "new" not in source


def test_a_collection_as_the_source_can_be_given_another_batch_size_and_device() -> None:
    source = TensorDict({"a": torch.zeros(2, 3), "b": {"c": torch.zeros(2, 3)}}, [2])
    data = TensorDict(source, [2, 3], device="meta")
    assert data.batch_size == data["b"].batch_size == (2, 3)
    assert_consistent(data)
    assert source["b"].batch_size == (2,)


def test_a_record_as_the_source_gives_its_fields() -> None:
    record = Record(torch.zeros(2), batch_size=[2])
    data = TensorDict(record)
    assert type(data) is TensorDict
    assert data["y"] is record.y


def test_names_are_one_for_each_batch_dimension() -> None:
    with pytest.raises(ValueError, match="expected 1 of them"):
        TensorDict({}, [2], names=["a", "b"])


def test_a_collection_can_be_constructed_locked() -> None:
    data = TensorDict({"a": 1, "b": {"c": 2}}, lock=True)
    assert data.is_locked
    assert data["b"].is_locked


def test_without_a_source_there_are_no_keys() -> None:
    assert list(TensorDict().keys()) == []
    assert TensorDict(batch_size=[3]).batch_size == (3,)


# -- as_tensor --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*numbers, *sequences, [], ()], ids=repr)
def test_as_tensor_takes_what_is_made_of_numbers(value: Any) -> None:
    assert isinstance(as_tensor(value), Tensor)


@pytest.mark.parametrize("value", [*objects, [1, "a"], ["a"], [[1], [2, 3]], [None], [{}], {1: 2}], ids=repr)
def test_as_tensor_of_anything_else_is_none(value: Any) -> None:
    assert as_tensor(value) is None


def test_as_tensor_makes_the_tensor_on_a_device() -> None:
    for value in (1, [1, 2], np.zeros(2), np.float32(1), [torch.zeros(2)]):
        tensor = as_tensor(value, torch.device("meta"))
        assert tensor is not None
        assert tensor.device.type == "meta"


def test_as_tensor_shares_the_memory_of_an_array() -> None:
    array = np.zeros(3)
    tensor = as_tensor(array)
    assert tensor is not None
    assert shares_memory(tensor, torch.from_numpy(array))


@pytest.mark.parametrize("offset", [0, 8, 1])
def test_as_tensor_of_complex_doubles_can_be_computed_with(offset: int) -> None:
    memory = np.zeros(100, np.uint8)
    memory = memory[-memory.ctypes.data % 16 :]
    array: Any = np.ndarray(4, np.complex128, memory.data, offset)
    tensor = as_tensor(array)
    assert tensor is not None
    assert (tensor.data_ptr() % 16, (tensor + 1).tolist()) == (0, [1] * 4)


def test_a_batch_mismatch_survives_pickling_with_its_message() -> None:
    with pytest.raises(BatchMismatch) as raised:
        TensorDict({"a": {"b": torch.zeros(2)}}, [3])
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    assert again.key == ("a", "b")
