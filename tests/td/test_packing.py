"""Values packed into columns and back, joined and stacked: compared with torch on the tensors, on records too."""

from __future__ import annotations

import pickle

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
