"""Methods that collections have while compat is installed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import nn

from tensorclass import LazyStackedTensorDict, MemoryMappedTensor, NonTensorStack, TensorDict
from tensorclass.compat import peer_names
from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from tensorclass.td.get import NO_DEFAULT


@pytest.fixture
def data(stand_in: Any) -> Any:
    nested = TensorDict({"c": torch.ones(2, 3)}, [2, 3])
    return TensorDict({"a": torch.zeros(2), "b": nested, "text": NonTensorStack("x", "y"), "one": "z"}, [2])


def test_without_compat_they_are_not_there() -> None:
    assert not hasattr(TensorDict, "_fast_apply")
    assert not hasattr(ProbabilisticTensorDictModule, "_dist_sample")


def test_keys_are_read_and_written(data: Any) -> None:
    assert data._get_str("a", None) is data["a"]
    assert data._get_tuple(("b", "c"), None) is data["b", "c"]
    assert data._get_str("x", None) is None
    with pytest.raises(KeyError, match="x"):
        data._get_str("x", NO_DEFAULT)
    data._set_str("a", torch.ones(2), inplace=False, validated=True)
    data._set_tuple(("b", "d"), torch.ones(2, 3), inplace=False, validated=True)
    data._set_at_str("a", 5.0, 0)
    assert data["a"].tolist() == [5.0, 1.0]
    data.lock_()._set_str("new", torch.ones(2), inplace=False, validated=True, ignore_lock=True)
    assert data.is_locked
    assert "new" in data


def test_rows_write_through(data: Any) -> None:
    data._get_sub_tensordict(0).set_("a", torch.tensor(3.0))
    assert data["a"].tolist() == [3.0, 0.0]


def test_a_row_of_stacked_parts_is_one_object(stand_in: Any) -> None:
    parts = [TensorDict({"text": text}, [3]) for text in "ab"]
    stacked = torch.stack(parts)
    assert stacked["text"] == [["a"] * 3, ["b"] * 3]
    assert (stacked[1]["text"], stacked.clone()[0, 1:]["text"]) == ("b", "a")
    assert stacked[:, 0]["text"] == torch.cat(parts)[::3]["text"] == ["a", "b"]
    assert NonTensorStack("a", "a").tolist() == TensorDict({"text": ["a", "a"]}, [2])["text"] == ["a", "a"]


def test_functions_are_applied(data: Any) -> None:
    assert data._fast_apply(lambda x: x + 1)["b", "c"].sum() == 12
    keys: list[Any] = []
    data._apply_nest(lambda key, x: keys.append(key), named=True, nested_keys=True, checked=True, out=None)
    assert keys == ["a", ("b", "c")]
    kept = data.apply(lambda key, x: x if key == "a" else None, named=True, filter_empty=True)
    assert list(kept.keys(leaves_only=True)) == ["a"]


def test_entries_are_listed(data: Any) -> None:
    assert data._items_list(True, True)[0] == ["a", ("b", "c")]
    assert data._values_list(sorting_keys=["b", "a"])[1] is data["a"]
    assert data._items_list(sorting_keys=["a", "x"], default=0)[1] == [data["a"], 0]


def test_lazy_stacks_are_read_collection_by_collection(data: Any) -> None:
    first, second = TensorDict({"a": torch.zeros(2), "n": {"b": 1}}), TensorDict({"a": torch.zeros(3), "s": "x"})
    lazy = LazyStackedTensorDict(first, second)
    in_lists = peer_names._NESTED_TENSORS_AS_LISTS
    assert [key for key, _ in lazy.items(True, True, is_leaf=in_lists)] == [("0", "a"), ("0", "n", "b"), ("1", "a")]
    assert len(lazy.values(True, True, is_leaf=in_lists)) == 3
    with_objects = peer_names._NESTED_TENSORS_AS_LISTS_NONTENSOR
    held = TensorDict({"z": torch.ones(2), "l": lazy}, [2])
    assert [key for key, _ in held.items(True, True, is_leaf=with_objects)][-1] == ("l", "1", "s")
    assert [key for key, _ in held.items(is_leaf=in_lists)] == ["z", "l"]
    assert [key for key, _ in data.items()] == ["a", "b", "text", "one"]


def test_names_and_sizes(data: Any) -> None:
    data.names = ["rows"]
    assert data._has_names()
    data._erase_names()
    assert not data._has_names()
    data._change_batch_size(torch.Size([]))
    assert data.batch_size == torch.Size([])


def test_keys_that_are_missing_are_loaded_with_their_objects(data: Any) -> None:
    loaded = TensorDict().load_state_dict(data.state_dict(), strict=False)
    assert loaded.batch_size == torch.Size([2])
    assert loaded["b"].batch_size == torch.Size([2, 3])
    assert loaded["b", "c"].sum() == 6
    assert loaded["text"] == ["x", "y"]
    assert loaded["one"] == "z"
    with pytest.raises(RuntimeError, match="unexpected keys"):
        TensorDict().load_state_dict(data.state_dict())


def test_a_collection_in_no_folder_has_no_path(data: Any, tmp_path: Any) -> None:
    assert TensorDict({"a": MemoryMappedTensor.zeros(2)}, [2]).memmap_().saved_path is None
    assert data.memmap(tmp_path / "kept").saved_path == tmp_path / "kept"
    with pytest.raises(AttributeError, match="not saved in a folder"):
        _ = data.saved_path


def test_forms_of_lazy_stacks_say_nothing_about_tensors(data: Any) -> None:
    assert data.get("a", as_padded_tensor=True) is data["a"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_of_the_strided_layout_become_jagged(data: Any) -> None:
    rows = [torch.arange(3), torch.arange(1)]
    nested = torch.nested.nested_tensor(rows, layout=torch.strided)
    for made in (
        TensorDict({"n": nested}, [2]),
        TensorDict(n=nested, batch_size=[2]),
        TensorDict({}, [2]).set("n", nested),
    ):
        assert made["n"].layout is torch.jagged
        assert [row.tolist() for row in made["n"].unbind()] == [[0, 1, 2], [0]]
    assert TensorDict({"deep": {"n": nested}}, [2])["deep", "n"].layout is torch.jagged
    assert pickle.loads(pickle.dumps(made))["n"].size(0) == 2


def test_modules_draw_as_torchrl_asks(data: Any) -> None:
    draw = ProbabilisticTensorDictModule(
        ["loc", "scale"], ["x"], distribution_class=torch.distributions.Normal, generator=3
    )
    values = TensorDict(loc=torch.zeros(2), scale=torch.ones(2))
    generator, afterwards = draw._resolve_generator(values)
    assert afterwards is None
    sequence = ProbabilisticTensorDictSequential(TensorDictModule(nn.Identity(), "loc", "loc"), draw)
    drawn = sequence._dist_sample(draw.get_dist(values), None, generator=generator.manual_seed(0))
    assert drawn.tolist() == draw.get_dist(values).mean.tolist()
    keyed = ProbabilisticTensorDictModule(
        ["loc", "scale"], ["x"], distribution_class=torch.distributions.Normal, generator="seed"
    )
    values["seed"] = torch.tensor(1)
    generator, afterwards = keyed._resolve_generator(values)
    afterwards(generator)
    assert values["seed"] != 1


def test_a_collection_is_made_without_a_constructor(stand_in: Any) -> None:
    made = TensorDict._new_unsafe({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, batch_size=[2], nested=True)  # type: ignore[attr-defined]
    assert made.batch_size == (2,)
    assert made["b", "c"].tolist() == [1.0, 1.0]
    assert TensorDict._new_unsafe(a=torch.zeros(2), batch_size=[2]).batch_size == (2,)  # type: ignore[attr-defined]
