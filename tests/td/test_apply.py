"""A function on each tensor: ``apply``, ``apply_`` and ``named_apply``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from tensorclass import NonTensorDataBase, TensorClass, TensorDict
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged, mixed, nested


def double(value: Tensor) -> Tensor:
    return value * 2


def keys_of(data: TensorDict) -> list[Any]:
    return list(data.keys(include_nested=True))


class Record(TensorClass):
    """A record whose class must be kept."""

    x: Tensor
    text: str = "t"


#: apply, and named_apply with a function that does not look at the key
Apply = Callable[..., Any]
both = pytest.mark.parametrize(
    "apply",
    [
        lambda data, fn, *others, **kwargs: data.apply(fn, *others, **kwargs),
        lambda data, fn, *others, **kwargs: data.named_apply(lambda _, *values: fn(*values), *others, **kwargs),
        # with an argument that changes nothing, past the short way of calls without arguments
        lambda data, fn, *others, **kwargs: data.apply(fn, *others, **{"is_leaf": lambda _: False, **kwargs}),
    ],
    ids=["apply", "named_apply", "apply with arguments"],
)

# -- the result -------------------------------------------------------------------------------------------------------


@both
def test_the_result_has_what_the_function_gives_for_each_tensor(apply: Apply) -> None:
    data = nested(device="cpu", names=["row"])
    with Unchanged(data):
        result = apply(data, double)
    assert_equal(result, data * 2)
    assert result.device == data.device


@both
def test_the_function_is_called_once_for_each_tensor_in_order(apply: Apply) -> None:
    data = nested()
    seen: list[Tensor] = []
    apply(data, seen.append)
    assert all(a is b for a, b in zip(seen, data.values(True, True), strict=True))


@both
def test_objects_are_kept_as_they_are(apply: Apply) -> None:
    result = apply(mixed(), lambda x: x + 1)
    assert (result["text"], result["labels"], result["nest", "none"]) == ("hello", ["p", "q", "r"], None)


@both
def test_numbers_and_arrays_become_tensors(apply: Apply) -> None:
    data = TensorDict({"a": torch.ones(3), "b": {"c": torch.ones(3)}})
    assert apply(data, lambda x: 5).to_dict() == {"a": 5, "b": {"c": 5}}
    assert apply(data, lambda x: x.numpy() * 2)["b", "c"].tolist() == [2, 2, 2]
    assert apply(data, lambda x: [1, 2])["a"].tolist() == [1, 2]


@both
def test_a_function_can_give_a_collection(apply: Apply) -> None:
    result = apply(mixed(), lambda x: TensorDict({"z": x}, [3]))
    assert keys_of(result.select("x", ("nest", "flag"))) == [
        "x",
        ("x", "z"),
        "nest",
        ("nest", "flag"),
        ("nest", "flag", "z"),
    ]


@pytest.mark.parametrize("value", ["text", {"a": 1}, object()], ids=["str", "dict", "object"])
@both
def test_anything_else_is_a_type_error_that_names_the_key(apply: Apply, value: Any) -> None:
    data = nested()
    with Unchanged(data), pytest.raises(TypeError, match="expected the function to give a tensor or None"):
        apply(data, lambda x: value)


@both
def test_a_result_of_another_batch_size_is_an_error_that_names_key_and_shapes(apply: Apply) -> None:
    data = nested()
    with (
        Unchanged(data),
        pytest.raises(RuntimeError, match=r"^a: .*expected batch dimensions \[3\] in front, got shape \[\]"),
    ):
        apply(data, torch.sum)
    data = TensorDict({"b": {"c": {"d": torch.zeros(3)}}}, [3])
    with Unchanged(data), pytest.raises(RuntimeError, match=r"^b\.c\.d: .*expected batch dimensions \[3\] in front"):
        apply(data, torch.sum)


@both
def test_an_error_in_the_function_comes_through(apply: Apply) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    data = nested()
    with Unchanged(data), pytest.raises(ZeroDivisionError):
        apply(data, fail)


@both
def test_the_class_of_a_record_is_kept(apply: Apply) -> None:
    result = apply(Record(torch.ones(3), batch_size=[3]), double)
    assert type(result) is Record
    assert result.x.tolist() == [2, 2, 2]
    assert result.text == "t"


def test_unknown_arguments_are_a_type_error() -> None:
    for apply in (nested().apply, nested().named_apply, nested().apply_):
        with pytest.raises(TypeError, match="in_place"):
            apply(double, in_place=True)


@given(draw.trees())
def test_applying_a_function_keeps_the_structure(tree: Any) -> None:
    data = tree.build((2,))
    result = data.apply(lambda x: x.clone())
    assert keys_of(result) == keys_of(data)
    assert_equal(result, data)


# -- None and empty collections ---------------------------------------------------------------------------------------


@both
def test_none_drops_the_key(apply: Apply) -> None:
    data = nested()
    with Unchanged(data):
        result = apply(data, lambda x: None if x.ndim == 1 else x)
    assert keys_of(result) == ["a", "b", ("b", "inner"), ("b", "inner", "d"), "empty"]


#: filter_empty -> the keys of nested() without the tensors of three dimensions, and without any
FILTERED: dict[Any, tuple[list[Any], list[Any]]] = {
    None: (["a", "b", ("b", "c"), "empty"], ["empty"]),
    False: (["a", "b", ("b", "c"), ("b", "inner"), "empty"], ["b", ("b", "inner"), "empty"]),
    True: (["a", "b", ("b", "c")], []),
}


@pytest.mark.parametrize("filter_empty", FILTERED)
@both
def test_filter_empty_says_what_becomes_of_collections_without_leaves(apply: Apply, filter_empty: Any) -> None:
    some, none = FILTERED[filter_empty]
    assert keys_of(apply(nested(), lambda x: x if x.ndim < 3 else None, filter_empty=filter_empty)) == some
    assert keys_of(apply(nested(), lambda x: None, filter_empty=filter_empty)) == none


@pytest.mark.parametrize("filter_empty", [None, False, True])
@both
def test_levels_of_empty_collections_stay_unless_filtered(apply: Apply, filter_empty: Any) -> None:
    data = TensorDict({"a": torch.ones(3), "p": {"q": {}}}, [3])
    kept = [] if filter_empty else ["p", ("p", "q")]
    assert keys_of(apply(data, double, filter_empty=filter_empty)) == ["a", *kept]


@pytest.mark.parametrize("filter_empty", [None, False, True])
@both
def test_a_collection_that_holds_an_object_is_not_empty(apply: Apply, filter_empty: Any) -> None:
    result = apply(mixed(), lambda x: None, filter_empty=filter_empty)
    assert keys_of(result) == ["text", "labels", "nest", ("nest", "none")]


# -- other collections ------------------------------------------------------------------------------------------------


@both
def test_the_values_of_other_collections_are_further_arguments(apply: Apply) -> None:
    data = nested()
    result = apply(data, lambda x, y, z: x + y * z, data * 2, data * 3)
    assert (result == data + (data * 2) * (data * 3)).all()


@both
def test_other_collections_can_be_mappings(apply: Apply) -> None:
    data = TensorDict({"a": torch.ones(3), "b": {"c": torch.ones(3)}}, [3])
    result = apply(data, torch.add, {"a": torch.ones(3), "b": {"c": torch.ones(3)}})
    assert result["b", "c"].tolist() == [2, 2, 2]


@both
def test_other_collections_can_have_more_keys_and_other_batch_sizes(apply: Apply) -> None:
    data = nested()
    other = (data * 2).update({"more": torch.ones(3), "b": {"more": torch.ones(3)}})
    other.batch_size = []
    assert (apply(data, torch.add, other) == data * 3).all()


@pytest.mark.parametrize("missing", ["a", "b", ("b", "c")], ids=repr)
@both
def test_a_key_that_another_collection_lacks_is_a_key_error(apply: Apply, missing: Any) -> None:
    data = nested()
    name = missing if isinstance(missing, str) else missing[-1]
    with Unchanged(data), pytest.raises(KeyError, match=f"'{name}' is missing"):
        apply(data, torch.add, data.exclude(missing))


@pytest.mark.parametrize("missing", ["a", "b", ("b", "c")], ids=repr)
@both
def test_a_default_stands_for_a_missing_key(apply: Apply, missing: Any) -> None:
    data = nested()
    others = []
    apply(data, lambda x, y: others.append(y), data.exclude(missing), default=None)
    absent = data.exclude(missing)
    wanted = [absent.get(key) for key in data.keys(True, True)]
    assert all(a is b for a, b in zip(others, wanted, strict=True))
    result = apply(data, torch.add, data.exclude(missing), default=torch.tensor(5.0))
    assert torch.equal(result["b", "c"], data["b", "c"] + (5 if missing != "a" else data["b", "c"]))


# -- batch size, names, device, lock ----------------------------------------------------------------------------------


@both
def test_batch_size_is_that_of_the_result(apply: Apply) -> None:
    data = TensorDict({"a": torch.rand(3, 2), "b": {"c": torch.rand(3)}, "t": "text"}, [3], names=["row"])
    result = apply(data, lambda x: x.sum(0), batch_size=[])
    assert result.batch_size == result["b"].batch_size == result.get("t").batch_size == ()
    assert torch.equal(result["a"], data["a"].sum(0))
    result = apply(data, lambda x: x.unsqueeze(0).expand(4, *x.shape), batch_size=[4, 3])
    assert result.batch_size == result["b"].batch_size == (4, 3)
    assert result.names == [None, None]
    assert result["t"] == "text"
    assert_consistent(result)


@both
def test_a_result_that_does_not_have_the_batch_size_asked_for_is_an_error(apply: Apply) -> None:
    with pytest.raises(RuntimeError, match=r"a: .*expected batch dimensions \[4\]"):
        apply(nested(), double, batch_size=[4])


@both
def test_names_are_those_of_the_result_at_every_level(apply: Apply) -> None:
    data = nested(names=["row"])
    result = apply(data, double, names=["other"])
    assert result.names == ["other"]
    assert_consistent(result)
    assert apply(data, double, names=None).names == [None]
    assert apply(data, double, names=None)["b"].names == [None]
    assert data["b"].names == ["row"]
    result = apply(data.exclude(("b", "inner")), lambda x: x[None], batch_size=[1, 3], names=["new", "row"])
    assert result.names == result["b"].names == ["new", "row"]


@both
def test_names_are_kept_with_the_batch_size(apply: Apply) -> None:
    assert apply(nested(names=["row"]), double, device=None).names == ["row"]
    assert apply(nested(names=["row"]), double)["b", "inner"].names == ["row", None]


@both
def test_device_is_that_of_the_result(apply: Apply) -> None:
    result = apply(nested(device="cpu"), lambda x: x.to("meta"), device="meta")
    assert result.device == torch.device("meta")
    assert_consistent(result)
    assert apply(nested(device="cpu"), double, device=None).device is None


@both
def test_the_result_is_locked_only_when_asked_for(apply: Apply) -> None:
    data = nested().lock_()
    assert not apply(data, double).is_locked
    result = apply(data, double, propagate_lock=True)
    assert result.is_locked
    assert result["b", "inner"].is_locked
    assert not result.unlock_()["b"].is_locked
    assert not apply(nested(), double, propagate_lock=True).is_locked


# -- what the function is called on -----------------------------------------------------------------------------------


@both
def test_call_on_nested_calls_the_function_on_collections(apply: Apply) -> None:
    data = nested()
    seen: list[Any] = []
    apply(data, seen.append, call_on_nested=True)
    assert all(a is b for a, b in zip(seen, data.values(), strict=True))
    assert_equal(apply(data, lambda x: x[:2], call_on_nested=True, batch_size=[2]), data[:2])


@both
def test_is_leaf_says_what_the_function_is_called_on(apply: Apply) -> None:
    data = TensorDict({"a": torch.ones(3), "r": Record(torch.ones(3), batch_size=[3]), "b": {"c": torch.ones(3)}}, [3])
    seen: list[Any] = []
    apply(data, seen.append, is_leaf=lambda kind: issubclass(kind, Record))
    assert seen[1] is data["r"]
    assert len(seen) == 3


@both
def test_is_leaf_can_ask_for_objects(apply: Apply) -> None:
    seen: list[Any] = []
    apply(mixed(), seen.append, is_leaf=lambda kind: issubclass(kind, NonTensorDataBase))
    assert [value.tolist() for value in seen if isinstance(value, NonTensorDataBase)] == [
        ["hello"] * 3,
        ["p", "q", "r"],
        [None] * 3,
    ]


# -- in place, into out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"batch_size": []}, {"device": "cpu"}, {"names": ["t"]}, {"out": TensorDict()}])
@pytest.mark.parametrize("name", ["apply", "named_apply"])
@pytest.mark.parametrize("lazy", [False, True])
def test_in_place_there_is_no_new_collection_to_describe(option: dict[str, Any], name: str, lazy: bool) -> None:
    data: Any = nested().to_lazystack(0) if lazy else nested()
    with pytest.raises(TypeError, match=f"{name}: {next(iter(option))} do not go with inplace=True"):
        getattr(data, name)(lambda *args: args[-1], inplace=True, **option)


@pytest.mark.parametrize(
    "apply",
    [
        lambda data, fn: data.apply_(fn),
        lambda data, fn: data.apply(fn, inplace=True),
        lambda data, fn: data.named_apply(lambda _, x: fn(x), inplace=True),
    ],
    ids=["apply_", "apply", "named_apply"],
)
@pytest.mark.parametrize("fn", [double, lambda x: x.mul_(2)], ids=["new tensors", "the same tensors"])
def test_in_place_the_results_are_written_into_the_tensors(apply: Apply, fn: Any) -> None:
    data, wanted = nested(), nested() * 2
    entries = list(data.values(True))
    assert apply(data, fn) is data
    assert all(a is b for a, b in zip(data.values(True), entries, strict=True))
    assert_equal(data, wanted)


def test_in_place_nothing_is_removed() -> None:
    data = nested()
    with Unchanged(data):
        data.apply_(lambda x: None)
        data.apply_(lambda x: None, filter_empty=True)


def test_in_place_objects_stay() -> None:
    data = mixed().apply_(lambda x: x.logical_not())
    assert (data["text"], data["labels"]) == ("hello", ["p", "q", "r"])


def test_in_place_with_other_collections() -> None:
    data = nested()
    assert (data.apply_(torch.add, nested()) == nested() * 2).all()


def test_in_place_a_result_that_does_not_fit_names_the_key() -> None:
    data = nested().select("a")
    with pytest.raises(RuntimeError, match=r"a: cannot write in place: expected shape \[3, 2\]"):
        data.apply_(lambda x: x.reshape(3, -1).repeat(1, 3))


@both
def test_out_is_written_into(apply: Apply) -> None:
    data, out = nested(), nested() * 0
    entries = list(out.values(True))
    with Unchanged(data):
        assert apply(data, double, out=out) is out
    assert all(a is b for a, b in zip(out.values(True), entries, strict=True))
    assert (out == data * 2).all()


@both
def test_out_gets_the_keys_that_it_lacks(apply: Apply) -> None:
    data = nested()
    out = TensorDict({"b": {"c": torch.zeros(3)}, "more": torch.ones(3)}, [3])
    c = out["b", "c"]
    apply(data, double, out=out)
    assert out["b", "c"] is c
    assert (out.exclude("more") == data * 2).all()
    assert out["more"].tolist() == [1, 1, 1]


@both
def test_out_can_be_locked_when_it_has_all_keys(apply: Apply) -> None:
    data, out = nested(), (nested() * 0).lock_()
    apply(data, double, out=out)
    assert (out == data * 2).all()


# -- keys -------------------------------------------------------------------------------------------------------------


def test_named_apply_gives_the_last_name_of_the_key() -> None:
    data = nested()
    seen: list[Any] = []
    data.named_apply(lambda key, value: seen.append((key, value)))
    assert [key for key, _ in seen] == ["a", "c", "d"]
    assert all(value is leaf for (_, value), leaf in zip(seen, data.values(True, True), strict=True))
    seen.clear()
    data.named_apply(lambda key, value: seen.append((key, value)), is_leaf=lambda kind: False)
    assert [key for key, _ in seen] == ["a", "c", "d"]


@pytest.mark.parametrize("more", [{}, {"is_leaf": lambda kind: False}], ids=["alone", "with arguments"])
def test_named_apply_with_nested_keys_gives_the_key_that_finds_the_value(more: Any) -> None:
    data = nested()
    seen: dict[Any, Tensor] = {}
    data.named_apply(seen.__setitem__, nested_keys=True, **more)
    assert list(seen) == list(data.keys(True, True))
    assert all(data[key] is value for key, value in seen.items())


def test_named_apply_gives_the_values_of_others_behind_the_value() -> None:
    data = nested()
    result = data.named_apply(lambda key, x, y: x + y if key == "c" else None, data * 2)
    assert list(result.keys(True, True)) == [("b", "c")]
    assert torch.equal(result["b", "c"], data["b", "c"] * 3)


def test_named_apply_on_nested_collections_gives_their_keys() -> None:
    seen: list[Any] = []
    nested().named_apply(lambda key, value: seen.append(key), call_on_nested=True)
    assert seen == ["a", "b", "empty"]


def test_named_apply_errors_name_the_key() -> None:
    for kwargs in ({}, {"is_leaf": lambda kind: False}):
        with pytest.raises(RuntimeError, match=r"^b\.c: "):
            nested().named_apply(lambda key, x: x.sum() if key == "c" else x, **kwargs)
        with pytest.raises(RuntimeError, match=r"^b\.c: "):
            nested().named_apply(lambda key, x: x.sum() if key == ("b", "c") else x, nested_keys=True, **kwargs)


def test_apply_with_another_batch_size_keeps_an_object_that_belongs_to_all_rows() -> None:
    data = TensorDict({"a": torch.zeros(6), "text": "x"}, [6])
    result = data.apply(lambda x: x[:2], batch_size=[2])
    assert result["text"] == "x"
    assert result.get("text").batch_size == (2,)


def test_threads_call_the_function_on_every_value() -> None:
    both = threading.Barrier(2, timeout=120)  # passed only by two calls at the same time
    data = TensorDict({"a": torch.zeros(2), "n": {"b": torch.ones(2)}}, [2])

    def meet(value: Tensor, more: int) -> Tensor:
        both.wait()
        return value + more

    assert data.apply(meet, num_threads=2, more=1).to_dict(convert_tensors=True) == {"a": [1, 1], "n": {"b": [2, 2]}}
    names = data.named_apply(lambda key, value: value + (key == ("n", "b")), nested_keys=True, num_threads=2)
    assert names.to_dict(convert_tensors=True) == {"a": [0, 0], "n": {"b": [2, 2]}}


def test_an_error_in_a_thread_is_raised_and_changes_nothing() -> None:
    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}, [2])

    def fail(key: str, value: Tensor) -> Tensor:
        if key == "b":
            raise ValueError("refused")
        return value + 1

    with pytest.raises(ValueError, match="refused"):
        data.named_apply(fail, inplace=True, num_threads=2)
    assert data["a"].tolist() == [0, 0]
