"""State dicts, pickling, shared memory, and measures of what a collection holds."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tensorclass import NonTensorData, NonTensorStack, Ragged, TensorClass, TensorDict, Text, lazy_stack
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged, mixed, nested


class Record(TensorClass):
    """A record to be pickled."""

    x: Tensor
    text: str = "t"


# -- state_dict -------------------------------------------------------------------------------------------------------


def test_a_state_dict_has_the_tensors_under_joined_keys() -> None:
    data = nested()
    state = data.state_dict()
    assert type(state) is OrderedDict
    assert list(state) == ["a", "b.c", "b.inner.d"]
    for key, leaf in data.flatten_keys().items():
        assert state[key].data_ptr() == leaf.data_ptr()


def test_a_state_dict_can_be_nested() -> None:
    data = nested()
    state = data.state_dict(flatten=False)
    assert list(state) == ["a", "b", "empty"]
    assert list(state["b"]) == ["c", "inner"]
    assert torch.equal(state["b"]["inner"]["d"], data["b", "inner", "d"])


def test_a_state_dict_is_detached_unless_asked_to_keep_the_tensors() -> None:
    data = nested(requires_grad=True)
    assert not any(value.requires_grad for value in data.state_dict().values())
    assert data.state_dict(keep_vars=True)["b.c"] is data["b", "c"]
    assert data.state_dict(keep_vars=True, flatten=False)["b"]["c"] is data["b", "c"]


def test_a_state_dict_takes_a_prefix_and_a_destination() -> None:
    destination: dict[str, Any] = {"first": 1}
    state = nested().state_dict(destination, prefix="model.")
    assert state is destination
    assert list(state) == ["first", "model.a", "model.b.c", "model.b.inner.d"]


def test_a_state_dict_leaves_objects_out() -> None:
    assert list(mixed().state_dict()) == ["x", "n", "nest.flag"]
    assert list(mixed().state_dict(flatten=False)["nest"]) == ["flag"]


# -- load_state_dict --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("from_flatten", [None, "as it is"])
def test_loading_writes_into_the_tensors(flatten: bool, from_flatten: Any) -> None:
    data, source = nested(), nested() * 2
    entries = list(data.values(True))
    state = source.state_dict(flatten=flatten)
    result = data.load_state_dict(state, from_flatten=None if from_flatten is None else flatten)
    assert result is data
    assert all(a is b for a, b in zip(data.values(True), entries, strict=True))
    assert_equal(data, source)


def test_loading_with_assign_stores_the_tensors_themselves() -> None:
    data, source = nested(), nested() * 2
    state = source.state_dict()
    data.load_state_dict(state, assign=True)
    assert data["b", "c"] is state["b.c"]
    assert data["b", "inner"].batch_size == (3, 2)
    assert_equal(data, source)


def test_loading_works_on_leaves_of_the_graph() -> None:
    data = nested(requires_grad=True)
    data.load_state_dict((nested() * 2).state_dict())
    assert data["a"].is_leaf
    assert data["a"].requires_grad
    assert torch.equal(data["a"].detach(), nested()["a"] * 2)


def test_a_key_that_holds_a_dot_is_found() -> None:
    data = TensorDict({"a.b": torch.zeros(3), "c": {"d.e": torch.zeros(3)}}, [3])
    data.load_state_dict((data + 1).state_dict())
    assert data["a.b"].tolist() == data["c", "d.e"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("flatten", [True, False])
def test_all_differences_are_listed_and_nothing_is_loaded(flatten: bool) -> None:
    data = nested()
    state = (
        (nested() * 2).exclude("a").update({"z": torch.ones(3), "b": {"y": torch.ones(3)}}).state_dict(flatten=flatten)
    )
    with Unchanged(data), pytest.raises(RuntimeError) as caught:
        data.load_state_dict(state)
    assert "nothing was loaded" in str(caught.value)
    assert "missing keys: ['a']" in str(caught.value)
    for key in ("'z'", "'b.y'"):
        assert key in str(caught.value).split("unexpected keys: ")[1]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("assign", [True, False])
def test_a_tensor_of_another_shape_is_listed_and_nothing_is_loaded(strict: bool, assign: bool) -> None:
    data = nested()
    state = (nested() * 2).state_dict() | {"b.c": torch.ones(4)}
    with Unchanged(data), pytest.raises(RuntimeError, match=r"b\.c: .*\[3\].*got.* \[4\]"):
        data.load_state_dict(state, strict=strict, assign=assign)


def test_loading_not_strictly_takes_the_keys_in_common() -> None:
    data, source = nested(), nested() * 2
    data.load_state_dict(source.exclude("a").update({"z": torch.ones(3)}).state_dict(), strict=False)
    assert "z" not in data
    assert torch.equal(data["a"], nested()["a"])
    assert torch.equal(data["b", "c"], source["b", "c"])


@pytest.mark.parametrize("assign", [True, False])
@pytest.mark.parametrize("flatten", [True, False])
def test_loading_takes_the_batch_sizes(flatten: bool, assign: bool) -> None:
    source = TensorDict({"a": torch.ones(3, 4), "n": TensorDict({"b": torch.ones(3, 4, 5)}, [3, 4])}, [3])
    data = TensorDict({"a": torch.zeros(3, 4), "n": TensorDict({"b": torch.zeros(3, 4, 5)}, [3, 4, 5])})
    data.load_state_dict(source.state_dict(flatten=flatten), assign=assign)
    assert (data.batch_size, data["n"].batch_size) == ((3,), (3, 4))
    assert_equal(data, source)


def test_loading_with_assign_takes_a_longer_batch() -> None:
    source = TensorDict({"n": TensorDict({"b": torch.ones(5, 4)}, [5, 4])}, [5])
    data = TensorDict({"n": {"b": torch.zeros(3, 4)}}, [3])
    data.load_state_dict(source.state_dict(), assign=True)
    assert_equal(data, source)


@pytest.mark.parametrize("assign", [True, False])
def test_a_batch_size_that_does_not_fit_what_stays_is_listed_and_nothing_is_loaded(assign: bool) -> None:
    data = TensorDict({"a": torch.zeros(3, 4), "b": torch.zeros(3)}, [3])
    state = TensorDict({"a": torch.ones(3, 4)}, [3, 4]).state_dict()
    with Unchanged(data), pytest.raises(RuntimeError, match=r"b: shape \[3\] .* batch size \[3, 4\]"):
        data.load_state_dict(state, strict=False, assign=assign)


def test_the_batch_sizes_of_a_state_dict_go_through_a_file() -> None:
    file = io.BytesIO()
    torch.save(nested().state_dict(), file)
    file.seek(0)
    data = nested().auto_batch_size_()
    data.load_state_dict(torch.load(file, weights_only=True))
    assert_equal(data, nested())


def test_loading_writes_through_stores_whose_values_are_copies() -> None:
    parts = [TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2]) for _ in range(3)]
    data = lazy_stack(parts)
    data.load_state_dict((data + 1).state_dict())
    assert all(part["a"].tolist() == part["n", "b"].tolist() == [1, 1] for part in parts)


def test_a_state_dict_goes_through_a_module() -> None:
    module = nn.Linear(2, 3)
    params = TensorDict({"weight": torch.zeros(3, 2), "bias": torch.zeros(3)}, [3])
    params.load_state_dict(module.state_dict())
    assert torch.equal(params["weight"], module.weight)
    module.load_state_dict((params * 2).state_dict())
    assert torch.equal(module.bias, params["bias"] * 2)


@given(draw.trees(objects=False), st.booleans())
def test_loading_undoes_state_dict(tree: Any, flatten: bool) -> None:
    data = tree.build((2,))
    other = data.apply(torch.zeros_like)
    other.load_state_dict(data.state_dict(flatten=flatten))
    assert_equal(other, data)


# -- pickling ---------------------------------------------------------------------------------------------------------


def through_pickle(data: Any) -> Any:
    return pickle.loads(pickle.dumps(data))


def through_torch(data: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(data, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


through = pytest.mark.parametrize("through", [through_pickle, through_torch], ids=["pickle", "torch.save"])
Through = Callable[[Any], Any]


@through
def test_pickling_keeps_everything(through: Through) -> None:
    for data in (nested(device="cpu", names=["row"]), mixed()):
        result = through(data)
        assert_equal(result, data)
        assert result.device == data.device
        assert isinstance(result.batch_size, torch.Size)
        assert_consistent(result)


@through
def test_pickling_keeps_the_class_of_a_record(through: Through) -> None:
    data = TensorDict({"r": Record(torch.ones(3), "text", batch_size=[3])}, [3])
    result = through(data)
    assert type(result["r"]) is Record
    assert result["r"].text == "text"


@through
def test_pickling_keeps_what_is_shared_shared(through: Through) -> None:
    tensor, part = torch.zeros(3), TensorDict({"c": torch.zeros(3)}, [3])
    result = through(TensorDict({"a": tensor, "b": tensor, "p": part, "q": part}, [3]))
    assert result["a"] is result["b"]
    assert result["p"] is result["q"]


@through
def test_pickling_keeps_leaves_of_the_graph(through: Through) -> None:
    result = through(nested(requires_grad=True))
    assert all(leaf.requires_grad and leaf.is_leaf for leaf in result.values(True, True))


@through
@pytest.mark.parametrize(
    "value", [NonTensorData("text", batch_size=[2]), NonTensorStack("p", "q", "p"), NonTensorData({"a": [1]})], ids=repr
)
def test_non_tensor_data_is_pickled(through: Through, value: Any) -> None:
    result = through(value)
    assert type(result) is type(value)
    assert result.tolist() == value.tolist()
    assert result.batch_size == value.batch_size


@through
def test_a_loaded_collection_can_be_used(through: Through) -> None:
    result = through(mixed())
    result["new"] = torch.zeros(3)
    assert result[:2]["labels"] == ["p", "q"]
    assert (result.select("x") + 1)["x"][0, 0] == 1
    assert not result.is_locked


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_works(protocol: int) -> None:
    assert_equal(pickle.loads(pickle.dumps(mixed(), protocol)), mixed())


class Finder(pickle.Unpickler):
    """Remembers the modules that a pickle asks for."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module.split(".")[0])
        return super().find_class(module, name)


def test_a_pickle_asks_for_nothing_but_this_package_and_torch() -> None:
    finder = Finder(io.BytesIO(pickle.dumps(nested(device="cpu", names=["row"]))))
    finder.load()
    assert finder.modules <= {"tensorclass", "torch", "collections"}


@given(draw.trees(), draw.shapes(0, 2, min_size=1), st.data())
def test_any_collection_comes_back_from_a_pickle(tree: Any, batch_size: Any, data: st.DataObject) -> None:
    names = data.draw(draw.names_or_none(len(batch_size)))
    collection = tree.build(batch_size, names=names)
    assert_equal(through_pickle(collection), collection)
    assert_equal(copy.deepcopy(collection), collection)


# -- measures ---------------------------------------------------------------------------------------------------------


def test_bytes_and_count_are_those_of_the_tensors() -> None:
    data = mixed()
    assert data.bytes() == 6 * 4 + 3 * 8 + 3
    assert data.param_count() == 6 + 3 + 3
    assert TensorDict({"t": "text"}).bytes() == TensorDict().param_count() == 0


def test_a_tensor_that_is_there_twice_can_count_once() -> None:
    tensor = torch.zeros(4)
    data = TensorDict({"a": tensor, "b": {"c": tensor}})
    assert (data.bytes(), data.bytes(count_duplicates=False)) == (32, 16)
    assert (data.param_count(), data.param_count(count_duplicates=False)) == (8, 4)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_memory_that_tensors_share_can_count_once(device: str) -> None:
    base, other = torch.zeros(8, device=device), torch.zeros(2, device=device)
    for views, size in (
        ({"a": base, "b": base[:4]}, 32),
        ({"a": base[:4], "b": base}, 32),
        ({"a": base[:2], "b": base[4:6]}, 16),
        ({"a": base[:2], "b": base[:2]}, 8),
        ({"a": base.expand(5, 8)}, 32),
        ({"a": base[:0], "b": other}, 8),
        ({"a": base, "b": other}, 40),
    ):
        assert TensorDict(views).bytes(count_duplicates=False) == size


def test_bytes_are_also_those_of_text_and_ragged_rows() -> None:
    text, rows = Text(["é", "b", "c"]), Ragged([[1], [], [2, 3]])
    data = TensorDict({"text": text, "below": {"rows": rows, "same": rows}}, [3])
    spans = 3 * 16
    assert data.bytes() == (4 + spans) + 2 * (3 * 8 + spans)
    assert data.bytes(count_duplicates=False) == (4 + spans) + (3 * 8 + spans)
    assert data[:1].bytes() == (2 + 16) + 2 * (8 + 16)
    assert data[:1].bytes(count_duplicates=False) == (4 + 16) + (3 * 8 + 16)
    assert lazy_stack([data, data]).bytes() == 2 * data.bytes()
    assert data.to("meta").bytes() == data.bytes()


def test_depth_counts_the_levels_below() -> None:
    assert TensorDict().depth == 0
    assert mixed().depth == 1
    assert nested().depth == 2
    assert TensorDict({"a": "text"}).depth == 0


# -- shared memory ----------------------------------------------------------------------------------------------------


def test_sharing_memory_moves_the_tensors_in_place_and_locks_the_keys() -> None:
    data = nested()
    tensors = list(data.values(True, True))
    assert not data.is_shared()
    assert data.share_memory_() is data
    assert data.is_shared()
    assert data.is_locked
    assert all(a is b for a, b in zip(data.values(True, True), tensors, strict=True))
    assert data["b"].is_shared()


def test_a_collection_is_shared_when_all_its_tensors_are() -> None:
    data = nested()
    data["a"].share_memory_()
    assert not data.is_shared()
    assert not TensorDict().is_shared()


def _add_one(data: TensorDict) -> None:
    data.add_(1)


def test_another_process_writes_into_shared_memory() -> None:
    data = TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(3)}}, [3]).share_memory_()
    process = torch.multiprocessing.get_context("fork").Process(target=_add_one, args=(data,))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert data["b", "c"].tolist() == [1, 1, 1]
