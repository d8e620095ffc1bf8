"""from_dict, from_dict_instance, and to_dict back."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tensorclass as tc
from tensorclass import ConversionError, TensorDict
from tests.convert.samples import Inner, Pair, Plain, Sample, values
from tests.convert.sides import both


def source() -> dict[str, Any]:
    return {"a": values(3, 4), "b": {"c": values(3, 4, 5), "n": 1.5}, "s": "x", "none": None, "e": {}}


OPTIONS: list[dict[str, Any]] = [
    {},
    {"auto_batch_size": True},
    {"auto_batch_size": False},
    {"batch_size": [3]},
    {"batch_dims": 1},
    {"batch_dims": 0},
    {"auto_batch_size": True, "batch_dims": 1},
    {"auto_batch_size": True, "batch_dims": 5},
    {"auto_batch_size": False, "batch_dims": 1},
    {"batch_size": [3], "batch_dims": 1},
    {"batch_size": [3], "names": ["x"]},
    {"batch_size": [4]},
    {"device": "cpu"},
    {"device": "meta"},
]


@pytest.mark.parity
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_options_do_what_they_do_in_the_peer(options: dict[str, Any]) -> None:
    given = source() if "batch_size" not in options else {"a": values(3, 4), "b": {"c": values(3, 4, 5)}, "s": "x"}
    if options.get("device") != "meta":
        ours, peers = both(lambda m: m.TensorDict.from_dict(given, **options))
        assert ours == peers
        ours, peers = both(lambda m: m.from_dict(given, **options))
        assert ours == peers
        ours, peers = both(lambda m: m.TensorDict({}).from_dict_instance(given, **options))
        assert ours == peers
    else:
        assert TensorDict.from_dict(given, **options)["b", "c"].device.type == "meta"


@pytest.mark.parity
@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        (1, "a", (values(2),)),
        Pair(1, {"k": "text"}),
        Plain(values(3), "b", Plain(values(3))),
        [1, 2],
        [[1, 2], [3, 4]],
        ["a", "b"],
        [["a", "b"], ["c", "d"]],
        [{"k": 1}, {"k": 2}],
        [None, "a"],
        [1, "a"],
        {"k": {"l": [1.5]}},
        {("k", "l"): 1, ("k", "m"): 2},
        collections.OrderedDict(k=1),
        collections.UserDict(k=1),
        b"bytes",
        {1, 2},
        [],
        (),
        {},
        True,
        None,
    ],
    ids=str,
)
def test_values_become_what_they_become_in_the_peer(value: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_dict({"v": value}))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("columns", [{"s": ["a", "b"]}, {"s": ["a", "b", "c"]}, {"s": "a", "t": 1}, {"e": {}}], ids=str)
def test_the_batch_size_that_is_found_is_that_of_the_peer(columns: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_dict({"x": values(2), **columns}, auto_batch_size=True))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("bad", [{1: 2}, {"a": {1: 2}}, {("a", 1): 2}, {True: 1}, {(): 1}, {None: 1}], ids=str)
def test_keys_that_are_no_strings_are_an_error_as_in_the_peer(bad: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_dict(bad))
    assert ours is peers is KeyError


def test_the_error_for_a_key_says_where_it_is_and_what_to_do() -> None:
    with pytest.raises(KeyError, match=r"got 1 in 'a\.b'; from_pytree keeps keys of any kind"):
        TensorDict.from_dict({"a": {"b": {1: 2}}})


@pytest.mark.parametrize("twice", [{"a": 1, ("a",): 2}, {("a", "b"): 1, ("a", ("b",)): 2}, {("a", "b"): 1, "a": 2}])
def test_two_values_for_one_key_are_an_error(twice: Any) -> None:
    with pytest.raises(KeyError, match="two values are given for 'a"):
        TensorDict.from_dict(twice)


def test_nested_keys_join_the_mapping_that_they_are_below() -> None:
    inner = {"b": 1}
    data = TensorDict.from_dict({"a": inner, ("a", "c"): 2})
    assert data["a"].to_dict() == {"b": 1, "c": 2}
    assert inner == {"b": 1}


def test_nothing_is_below_a_value() -> None:
    with pytest.raises(KeyError, match="'a', which is a int and has no keys"):
        TensorDict.from_dict({"a": 1, ("a", "b"): 2})


def test_pairs_are_taken_as_dict_takes_them_and_other_objects_refused() -> None:
    assert TensorDict.from_dict([("a", 1)]).to_dict() == {"a": 1}  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a mapping, got a int; from_any takes other objects"):
        TensorDict.from_dict(1)  # type: ignore[arg-type]


def test_a_batch_size_and_one_to_be_found_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"batch_size=\[3\] and auto_batch_size=True exclude each other"):
        TensorDict.from_dict({"a": values(3)}, batch_size=[3], auto_batch_size=True)
    with pytest.raises(ValueError, match="batch_dims of at least 0, got -1"):
        TensorDict.from_dict({"a": values(3)}, batch_dims=-1)


def test_names_are_given_to_the_batch_size_that_is_found() -> None:
    data = TensorDict.from_dict(
        {"a": values(3, 4), "b": {"c": values(3, 4, 2)}}, auto_batch_size=True, names=["x", "y"]
    )
    assert (data.names, data["b"].names) == (["x", "y"], ["x", "y", None])


def test_tensors_are_shared_and_mappings_are_not() -> None:
    given = source()
    data = TensorDict.from_dict(given)
    assert data["a"] is given["a"]
    data["b", "new"] = 1
    assert "new" not in given["b"]


def test_a_collection_gives_a_new_collection() -> None:
    inner = TensorDict({"a": values(3)})
    data = TensorDict.from_dict(inner, batch_size=[3])
    assert (data.batch_size, inner.batch_size) == ((3,), ())
    assert data["a"] is inner["a"]
    record = Sample.from_dict(TensorDict({"x": values(3)}, [3]))
    assert (type(record), record.batch_size) == (Sample, (3,))


# -- records ----------------------------------------------------------------------------------------------------------


def test_a_record_is_checked_against_its_fields() -> None:
    record = Sample.from_dict({"x": values(2, 3), "inner": {"x": values(2)}, "pair": (1, 2)}, batch_size=[2])
    assert (type(record.inner), record.batch_size, record.pair) == (Inner, (2,), (1, 2))
    with pytest.raises(ValueError, match=r"(?s)x: expected Tensor, got nothing.*y: expected one.*z: expected one"):
        Sample.from_dict({"y": 1, "z": 2})
    with pytest.raises(TypeError, match=r"Sample\.from_dict: label: expected str, got int 3"):
        Sample.from_dict({"x": 1, "label": 3})


def test_below_a_record_dataclasses_and_tuples_become_the_records_that_the_fields_declare() -> None:
    record = Sample.from_dict({"x": values(2), "inner": Inner(values(2), "t", batch_size=[2])}, auto_batch_size=True)
    assert record.batch_size == (2,)
    assert record.inner is not None
    assert record.inner.tag == "t"

    class Outer(tc.TensorClass):
        below: Inner
        more: TensorDict

    outer = Outer.from_dict({"below": {"x": 1}, "more": (1, Pair(2, 3))})
    assert (type(outer.below), outer.more.to_dict()) == (Inner, {"0": 1, "1": {"x": 2, "y": 3}})
    rows = Outer.from_dict({"below": [{"x": 1, "tag": "a"}, {"x": 2, "tag": "b"}], "more": {}}, auto_batch_size=True)
    assert rows.below.tag == ["a", "b"]
    assert rows.batch_size == (2,)


def test_text_columns_of_a_record_find_their_rows_at_every_level() -> None:
    given = {"x": values(2, 3), "label": ["a", "b"], "inner": {"x": values(2), "tag": ["c", "d"]}}
    record = Sample.from_dict(given, auto_batch_size=True)
    assert record.inner is not None
    assert (record.batch_size, record[1].label, record.inner[0].tag) == ((2,), "b", "c")


# -- from_dict_instance -----------------------------------------------------------------------------------------------


def test_from_dict_instance_makes_the_records_that_stand_in_the_collection() -> None:
    like = TensorDict({"r": Inner(values(3), "t", batch_size=[3]), "n": {"r": Inner(1)}, "a": values(3)}, [])
    made = like.from_dict_instance({"r": {"x": values(2), "tag": "u"}, "n": {"r": {"x": 5}}, "new": {"x": 1}})
    assert (type(made["r"]), type(made["n", "r"]), type(made["new"])) == (Inner, Inner, TensorDict)
    assert made["r"].tag == "u"
    assert "a" not in made
    record = Sample(values(2), inner=Inner(values(2), batch_size=[2]), batch_size=[2])
    again = record.from_dict_instance(record.to_dict(), auto_batch_size=True)
    assert (type(again), type(again.inner), again.batch_size) == (Sample, Inner, (2,))


# -- to_dict, tolist, numpy -------------------------------------------------------------------------------------------


def mixed(m: Any, size: list[int]) -> Any:
    nested = m.TensorDict({"b": values(2, 3)}, [2, 3])
    return m.TensorDict({"a": values(2, 3), "n": nested, "s": "q", "none": None}, size)


@pytest.mark.parity
@pytest.mark.parametrize("convert_tensors", [False, True, "numpy"])
@pytest.mark.parametrize("tolist_first", [False, True])
@pytest.mark.parametrize("size", [[], [2]], ids=str)
def test_to_dict_and_tolist_give_what_the_peer_gives(convert_tensors: Any, tolist_first: bool, size: list[int]) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return (type(value).__name__, value.tolist()) if hasattr(value, "tolist") else value

    options: dict[str, Any] = {"convert_tensors": convert_tensors, "tolist_first": tolist_first}
    for method in ("to_dict", "tolist"):
        ours, peers = both(lambda m, method=method: plain(getattr(mixed(m, size), method)(**options)))
        assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("retain_none", [True, False])
def test_retain_none_is_that_of_the_peer(retain_none: bool) -> None:
    ours, peers = both(lambda m: list(mixed(m, []).to_dict(retain_none=retain_none)))
    assert ours == peers
    record = Sample(values(2))
    assert ("inner" in record.to_dict(retain_none=retain_none)) is retain_none


def test_tolist_can_leave_the_rows_collections() -> None:
    rows = mixed(tc, [2]).tolist(convert_nodes=False)
    assert [type(row) for row in rows] == [TensorDict, TensorDict]
    assert mixed(tc, []).tolist(convert_nodes=False)["s"] == "q"


def test_numpy_shares_memory_and_refuses_what_an_array_cannot_hold() -> None:
    data = TensorDict({"a": values(2), "n": {"b": values(2)}, "s": "q"})
    arrays = data.numpy()
    arrays["n"]["b"][0] = 7
    assert data["n", "b"][0] == 7
    assert arrays["s"] == "q"
    with pytest.raises(RuntimeError, match=r"w: the tensor requires a gradient.*call detach\(\) first"):
        TensorDict({"w": values(2).requires_grad_()}).numpy()
    with pytest.raises(TypeError, match=r"w: numpy does not have the dtype torch\.bfloat16"):
        TensorDict({"w": values(2).bfloat16()}).numpy()


leaves = st.one_of(st.integers(-9, 9), st.floats(-1, 1, width=32), st.booleans(), st.text("ab"), st.none(), st.binary())
trees = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.recursive(leaves, lambda below: st.dictionaries(st.text("abc", min_size=1, max_size=2), below, max_size=3)),
    max_size=4,
)


@given(tree=trees)
def test_from_dict_undoes_to_dict(tree: dict[str, Any]) -> None:
    assert TensorDict.from_dict(tree).to_dict(convert_tensors=True) == _rounded(tree)


def _rounded(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    return torch.tensor(tree).item() if isinstance(tree, float) else tree


@pytest.mark.parametrize("options", [{"batch_size": [3]}, {"auto_batch_size": True}], ids=str)
def test_it_compiles(options: dict[str, Any]) -> None:
    def convert(x: torch.Tensor) -> tuple[TensorDict, Sample, dict[str, Any]]:
        given = {"x": x, "inner": {"x": x + 1}}
        data = TensorDict.from_dict(given, **options)
        return data, Sample.from_dict(given, **options), data.to_dict()

    compiled = torch.compile(convert, fullgraph=True, backend="eager")
    for ours, theirs in zip(compiled(values(3)), convert(values(3)), strict=True):
        assert type(ours) is type(theirs)
        assert ours["inner"]["x"].tolist() == theirs["inner"]["x"].tolist() == [1, 2, 3]


def test_a_list_with_an_object_for_each_row_is_told_what_lacks() -> None:
    hint = r"label: expected str, got list \['a', 'b'\]; .* give batch_size=\[2\], or auto_batch_size=True"
    with pytest.raises(ConversionError, match=hint):
        Sample.from_dict({"x": values(2), "label": ["a", "b"]})
    assert Sample.from_dict({"x": values(2), "label": ["a", "b"]}, auto_batch_size=True)[1].label == "b"


def test_arrays_of_tensors_without_numbers_are_an_error_that_says_what_to_do() -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    for value, message in (
        (torch.zeros(2, device="meta"), r"x: the device meta has no numbers; torch.zeros_like"),
        (ragged, r"x: expected a strided tensor, got a ragged .* to_padded_tensor"),
        (torch.eye(2).to_sparse(), r"x: expected a strided tensor, .* to_dense"),
    ):
        with pytest.raises(TypeError, match=message):
            TensorDict({"x": value}, [2]).numpy()


def test_arrays_of_conjugates_have_their_numbers() -> None:
    value = torch.tensor([1j, 2]).conj()
    data = TensorDict({"x": value, "y": value.imag}, [2])
    assert data.numpy()["x"].tolist() == [-1j, 2]
    assert data.numpy()["y"].tolist() == [-1, 0]
