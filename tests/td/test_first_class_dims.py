"""First-class dimensions bind batch dimensions of collections as they bind those of tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functorch.dim import dims
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.nn import TensorDictParams
from tests.checks import assert_equal


class Sample(TensorClass):
    x: Tensor
    source: str = "web"


def data() -> TensorDict:
    values = {"a": torch.arange(12.0).view(3, 4), "n": {"b": torch.arange(24.0).view(3, 4, 2)}}
    return TensorDict(values, [3, 4], names=["x", "y"])


def unbound(bound: Any, *dimensions: Any) -> dict[Any, Tensor]:
    return {key: value.order(*dimensions) for key, value in bound.items(True, True)}


def assert_same(one: dict[Any, Tensor], other: dict[Any, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("at", [0, 1])
def test_an_index_binds_its_dimension(at: int) -> None:
    d0 = dims(1)
    bound = data()[(slice(None),) * at + (d0,)]
    assert bound.batch_size == bound["n"].batch_size == ((4,), (3,))[at]
    assert bound.names == (["y"], ["x"])[at]
    assert_same(unbound(bound, d0), dict(data().transpose(0, at).items(True, True)))


def test_several_dimensions_are_bound_at_once() -> None:
    d0, d1 = dims(2)
    bound = data()[d0, d1]
    assert bound.batch_size == ()
    assert_same(unbound(bound, d0, d1), dict(data().items(True, True)))


def test_one_dimension_is_split_in_two() -> None:
    d0, d1 = dims(2)
    d0.size = 3
    bound = TensorDict({"a": torch.arange(12)}, [12])[((d0, d1),)]
    assert bound.batch_size == ()
    assert bound["a"].order(d0, d1).tolist() == torch.arange(12).view(3, 4).tolist()


def test_a_bound_tensor_is_an_index() -> None:
    d0 = dims(1)
    rows = data()[torch.tensor([2, 0])[d0]]
    assert rows.batch_size == (4,)
    assert torch.equal(rows["a"].order(d0), data()["a"][[2, 0]])


def test_operations_work_on_what_is_bound() -> None:
    d0 = dims(1)
    bound = data()[:, d0]
    results = {
        "add": (bound + 1, data() + 1),
        "both": (bound * bound, data() * data()),
        "exp": (bound.exp(), data().exp()),
        "apply": (bound.apply(lambda x: x - 1), data() - 1),
        "clone": (bound.clone(), data()),
        "to": (bound.to(torch.float64), data().to(torch.float64)),
        "view": (bound.view(3, 1).view(3), data()),
    }
    for name, (result, expected) in results.items():
        assert result.batch_size == (3,) == result["n"].batch_size, name
        assert_same(unbound(result, d0), dict(expected.transpose(0, 1).items(True, True)))
    assert torch.equal(bound.sum(0)["a"].order(d0), data()["a"].sum(0))
    ordered = bound.apply(lambda x: x.order(d0), batch_size=[4, 3], names=["y", "x"])
    assert_equal(ordered, data().transpose(0, 1))


def test_bound_values_are_set_if_they_have_the_batch_size() -> None:
    d0 = dims(1)
    bound = data()[d0]
    bound["c"] = bound["a"] * 2
    assert torch.equal(bound["c"].order(d0), data()["a"] * 2)
    with pytest.raises(RuntimeError, match="c: batch dimension mismatch"):
        bound["c"] = data()["a"][:, d0]


def test_rows_are_written_at_a_dimension() -> None:
    d0 = dims(1)
    written = data()
    written[:, d0] = data()[:, d0] + 1
    assert_equal(written, data() + 1)
    written[d0] = 0
    assert_equal(written, data().zero_())
    with pytest.raises(RuntimeError, match=r"expected the batch size \[4\], got \[3\]"):
        written[d0] = data()[:, d0]
    with pytest.raises(KeyError, match="z"):
        written[d0] = TensorDict({"z": torch.zeros(4)}, [4])


def test_a_record_stays_one() -> None:
    d0 = dims(1)
    bound = Sample(torch.arange(6.0).view(2, 3), batch_size=[2, 3])[d0]
    assert type(bound) is Sample
    assert (bound.batch_size, bound.source) == ((3,), "web")
    bound.x = bound.x + 1
    assert bound.x.order(d0).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_parameters_unbatched_tensors_and_lazy_stacks_are_indexed() -> None:
    d0 = dims(1)
    assert torch.equal(TensorDictParams(data())[d0]["a"].order(d0), data()["a"])
    shared = TensorDict({"a": torch.zeros(3), "u": UnbatchedTensor(torch.ones(2))}, [3])[d0]
    assert shared["u"].tolist() == [1.0, 1.0]
    lazy = lazy_stack([data(), data() + 1])[d0]
    assert lazy.batch_size == (3, 4)
    assert torch.equal(lazy["a"].order(d0)[1], data()["a"] + 1)


def test_rows_of_objects_and_copies_are_refused() -> None:
    d0 = dims(1)
    with pytest.raises(IndexError, match="first-class dimensions, such as"):
        TensorDict({"text": NonTensorStack("a", "b")}, [2])[d0]
    with pytest.raises(IndexError, match="first-class dimensions"):
        lazy_stack([data(), data()])[d0] = 0
    with pytest.raises(IndexError, match=r"too many|dimensions"):
        data()[d0, d0, d0]


def test_a_dimension_can_name_a_dimension() -> None:
    d0, d1 = dims(2)
    named = TensorDict({"a": torch.zeros(3, 4), "n": {"b": torch.zeros(3, 4)}}, [3, 4], names=[d0, "y"])
    assert named.names[0] is d0
    assert named["n"].transpose(0, 1).names[1] is d0
    assert named.rename(y="z").names[1] == "z"
    assert named.refine_names(..., "y").names[0] is d0
    with pytest.raises(ValueError, match="a different name for each"):
        named.names = [d1, d1]
