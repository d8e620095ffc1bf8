"""Values packed into columns and back, joined and stacked: compared with torch on the tensors, on records too."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import PackLayout, TensorClass, TensorDict, lazy_stack
from tests.checks import assert_equal
from tests.samples import Unchanged


class Inner(TensorClass):
    b: Tensor


class Sample(TensorClass):
    a: Tensor
    inner: Inner | None = None
    spare: Tensor | None = None


def numbers() -> TensorDict:
    return TensorDict({"a": torch.arange(6.0).reshape(3, 2), "n": {"b": torch.ones(3), "e": {}}}, [3])


@given(
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.lists(st.integers(0, 3), max_size=2), max_size=4),
    st.data(),
)
def test_unpacking_undoes_packing(batch: list[int], rests: list[list[int]], data: st.DataObject) -> None:
    source = TensorDict({f"k{i}": torch.randn([*batch, *rest]) for i, rest in enumerate(rests)}, batch)
    dim = data.draw(st.integers(-len(batch) - 1, len(batch)))
    flat, layout = source.pack(dim)
    assert flat.shape[dim] == layout.numel
    result = layout.unpack(flat)
    assert result.batch_size == source.batch_size
    for key, value in source.items():
        assert torch.equal(result.get(key), value)


def test_columns_are_what_torch_joins() -> None:
    data = numbers()
    flat, _ = data.pack()
    assert torch.equal(flat, torch.cat([data["a"], data["n", "b"].unsqueeze(-1)], -1))


def test_unpacked_values_are_views() -> None:
    flat, layout = numbers().pack()
    layout.unpack(flat)["a"].zero_()
    assert not flat[:, :2].any()


def test_gradients_go_through_packing() -> None:
    data = numbers().requires_grad_()
    flat, layout = data.pack()
    (layout.unpack(flat)["a"] * 2).sum().backward()
    assert torch.equal(data["a"].grad, torch.full((3, 2), 2.0))


def test_a_record_comes_back_as_a_record() -> None:
    source = Sample(torch.zeros(3, 2), Inner(torch.ones(3), batch_size=[3]), batch_size=[3])
    flat, layout = source.pack()
    result = layout.unpack(flat)
    assert isinstance(result, Sample)
    assert isinstance(result.inner, Inner)
    assert layout.cls is Sample
    assert_equal(result, source)


def test_a_lazy_stack_packs_as_the_dense_one() -> None:
    parts = [TensorDict({"a": torch.full((2,), float(i)), "b": torch.ones(())}) for i in range(3)]
    lazy, dense = lazy_stack(parts).pack(), torch.stack(parts).pack()
    assert torch.equal(lazy[0], dense[0])
    assert lazy[1] == dense[1]


def test_a_layout_is_a_key_and_can_be_pickled() -> None:
    _, layout = numbers().pack()
    assert {layout: 1}[pickle.loads(pickle.dumps(layout))] == 1
    with pytest.raises(AttributeError):
        layout.dim = 0  # type: ignore[misc]


def test_a_layout_takes_sizes_as_lists() -> None:
    layout = PackLayout(("a",), ([2, 3],), nested=(("n", [1], None),))  # type: ignore[arg-type]
    assert (layout.shapes, layout.offsets, layout.numel) == ((torch.Size([2, 3]),), (0,), 6)


def test_joined_values_replace_those_they_come_from_in_a_record() -> None:
    record = Sample(torch.zeros(3, 2), spare=torch.ones(3, 4), batch_size=[3])
    assert record.cat_tensors("a", "spare", out_key="a", dim=1) is record
    assert record.a.shape == (3, 6)
    assert record.spare is None


@pytest.mark.parametrize("name", ["cat_tensors", "stack_tensors"])
def test_nothing_changes_where_the_result_does_not_fit(name: str) -> None:
    data = TensorDict({"a": torch.zeros(3, 2), "b": torch.ones(3, 2)}, [3])
    with Unchanged(data), pytest.raises(RuntimeError, match="batch dimension mismatch"):
        getattr(data, name)("a", "b", out_key="a", dim=0)


def test_a_record_has_no_field_for_another_key() -> None:
    record = Sample(torch.zeros(3, 2), batch_size=[3])
    with pytest.raises(AttributeError, match="has no field 'new'"):
        record.stack_tensors("a", out_key="new", dim=1)
    assert record.a.shape == (3, 2)


@pytest.mark.parametrize("name", ["cat_tensors", "stack_tensors"])
@pytest.mark.parametrize("keys, out_key", [(("a", "b"), "new"), (("a", "b"), "a"), (("a", "missing"), "new")])
def test_a_locked_collection_says_so_before_anything_else(name: str, keys: tuple[str, ...], out_key: str) -> None:
    data = TensorDict({"a": torch.zeros(3, 2), "b": torch.ones(3, 2)}, [3]).lock_()
    with Unchanged(data), pytest.raises(RuntimeError, match="is locked"):
        getattr(data, name)(*keys, out_key=out_key, dim=1)


def test_joined_values_go_unless_they_are_kept() -> None:
    def joined(**options: Any) -> TensorDict:
        data = TensorDict({"a": torch.zeros(3, 2), "n": {"b": torch.ones(3, 2)}}, [3])
        assert data.stack_tensors("a", ("n", "b"), **options) is data
        return data

    assert set(joined(out_key="ab", dim=1).keys(True, True)) == {"ab"}
    assert joined(out_key=("n", "ab"), dim=1)["n", "ab"].shape == (3, 2, 2)
    assert set(joined(out_key="a", dim=1, keep_entries=True).keys(True, True)) == {"a", ("n", "b")}
    with pytest.raises(KeyError, match="missing"):
        TensorDict({"a": torch.zeros(3)}, [3]).cat_tensors("a", "missing", out_key="ab")


def test_values_are_joined_along_the_first_dimension_by_default() -> None:
    data = TensorDict({"b": torch.ones(2, 3), "a": torch.zeros(2, 3)}, [])
    assert torch.equal(data.cat_from_tensordict(), torch.cat([data["b"], data["a"]]))
    assert torch.equal(data.stack_from_tensordict(), torch.stack([data["b"], data["a"]]))
    assert torch.equal(data.clone().cat_tensors("a", "b", out_key="x")["x"], torch.cat([data["a"], data["b"]]))
    assert torch.equal(data.clone().stack_tensors("a", "b", out_key="x")["x"], torch.stack([data["a"], data["b"]]))


@pytest.mark.parametrize("name", ["cat_from_tensordict", "stack_from_tensordict"])
def test_all_values_are_joined_in_the_order_that_is_asked_for(name: str) -> None:
    data = TensorDict({"b": torch.ones(2), "n": {"c": torch.full((2,), 2.0)}, "a": torch.zeros(2)}, [2])
    join = getattr(data, name)
    for order in (None, False):
        assert join(sorted=order).reshape(-1)[::2].tolist() == [1, 2, 0]
    assert join(sorted=True).reshape(-1)[::2].tolist() == [0, 1, 2]
    assert join(sorted=[("n", "c"), "a", "b"]).reshape(-1)[::2].tolist() == [2, 0, 1]
    out = torch.empty_like(join())
    assert join(sorted=True, out=out) is out
    assert out.reshape(-1)[::2].tolist() == [0, 1, 2]
    for wrong in (["a", "b"], ["a", "b", "b"], ["a", "b", ("n", "c"), "a"], ["a", "b", "x"]):
        with pytest.raises(RuntimeError, match=r"sorted: expected all of the keys .*, got "):
            join(sorted=wrong)


def test_a_layout_gives_the_order_of_columns_and_what_it_does_not_fit_is_told() -> None:
    data = TensorDict({"a": torch.zeros(3, 2), "b": torch.ones(3)}, [3])
    _, layout = TensorDict({"b": torch.ones(3), "a": torch.zeros(3, 2)}, [3]).pack()
    flat, used = data.pack(layout=layout)
    assert used is layout
    assert flat[0].tolist() == [1, 0, 0]
    with pytest.raises(KeyError, match=r"the layout has the keys \['b', 'a'\], the collection has \['a'\]"):
        data.select("a").pack(layout=layout)
    with pytest.raises(ValueError, match=r"the layout has the shapes \[.*\], the collection \["):
        TensorDict({"a": torch.zeros(3, 3), "b": torch.ones(3)}, [3]).pack(layout=layout)
    with pytest.raises(ValueError, match="the layout has its columns in dim -1, dim is -2"):
        data.pack(0, layout=layout)


def test_what_cannot_be_packed_is_told() -> None:
    zeros = torch.zeros(3)
    with pytest.raises(TypeError, match=r"one dtype is needed, 'b' has torch.int64 and 'a' has torch.float32; cast"):
        TensorDict({"a": zeros, "b": torch.arange(3)}, [3]).pack()
    with pytest.raises(RuntimeError, match="one device is needed, 'b' is on meta and 'a' on cpu"):
        TensorDict({"a": zeros, "b": zeros.to("meta")}, [3]).pack()
    with pytest.raises(TypeError, match=r"pack: expected a tensor for \('n', 'text'\), got a .*leave such entries out"):
        TensorDict({"a": zeros, "n": {"text": "word"}}, [3]).pack()
    for dim in (2, -3):
        with pytest.raises(IndexError, match=r"pack: .*there are 1 batch dimensions and one of columns"):
            TensorDict({"a": zeros}, [3]).pack(dim)


def test_columns_of_another_number_are_told() -> None:
    _, layout = numbers().pack()
    with pytest.raises(ValueError, match=r"unpack: expected 3 entries along dim -1, got a tensor of shape \[3, 4\]"):
        layout.unpack(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"got a tensor of shape \[\]"):
        layout.unpack(torch.zeros(()))
    _, first = TensorDict({"a": torch.zeros(2, 3)}, [2]).pack(0)
    assert first.dim == -2
    assert first.unpack(torch.zeros(3, 5))["a"].shape == (5, 3)
    with pytest.raises(ValueError, match=r"expected 3 entries along dim -2, got a tensor of shape \[3\]"):
        first.unpack(torch.zeros(3))


def test_nested_collections_come_back_with_class_batch_size_and_device() -> None:
    inner = TensorDict({"x": torch.zeros(3, 4)}, [3, 4])
    data = TensorDict({"n": {"m": inner, "empty": {}}, "r": Inner(torch.ones(3), batch_size=[3])}, [3], device="cpu")
    flat, layout = data.pack(0)
    assert layout.nested == (
        ("n", torch.Size([]), None),
        (("n", "m"), torch.Size([4]), None),
        (("n", "empty"), torch.Size([]), None),
        ("r", torch.Size([]), Inner),
    )
    result = layout.unpack(flat[:, :2])
    assert (result.batch_size, result.device) == (torch.Size([2]), torch.device("cpu"))
    assert result["n", "m"].batch_size == (2, 4)
    assert result["n", "m"].device == torch.device("cpu")
    assert result["n", "empty"].batch_size == (2,)
    assert isinstance(result["r"], Inner)
    assert result["r"].batch_size == (2,)


def test_an_empty_collection_has_no_columns() -> None:
    for dim, shape in ((0, [0, 3, 2]), (1, [3, 0, 2]), (-1, [3, 2, 0])):
        flat, layout = TensorDict({}, [3, 2], device="cpu").pack(dim)
        assert (list(flat.shape), flat.device.type, layout.numel) == (shape, "cpu", 0)
    assert TensorDict({}, [3], device="meta").pack()[0].device.type == "meta"
