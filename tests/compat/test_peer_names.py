"""Private names of tensordict do what its clients use them for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from tensorclass import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    TensorDictStore,
    UnbatchedTensor,
)
from tensorclass.compat import peer_names, peer_networks
from tensorclass.nn import TensorDictModule, skip_existing
from tensorclass.td.get import NO_DEFAULT


class Point(TensorClass):
    x: Tensor


def test_records_and_objects_are_no_instances_of_the_base() -> None:
    base = peer_names.TensorDictBase
    assert isinstance(TensorDict(), base)
    assert isinstance(NonTensorStack("a", "b"), base)
    assert not isinstance(Point(torch.ones(1)), base)
    assert not isinstance(NonTensorData("a"), base)
    assert not isinstance(torch.ones(1), base)
    assert base.from_any({"a": 1})["a"] == 1

    class Own(base):  # type: ignore[misc, valid-type]
        pass

    assert not isinstance(TensorDict(), Own)
    assert isinstance(Own(), Own)


def test_nested_keys_are_instances() -> None:
    assert isinstance(("a", ("b",)), peer_names.NestedKey)
    assert not isinstance(["a"], peer_names.NestedKey)
    assert peer_names._unravel_key_to_tuple(("a", ("b",))) == ("a", "b")
    assert peer_names._unravel_key_to_tuple(3) == ()
    assert peer_names.unravel_key((0, 1)) == ()
    assert peer_names.unravel_key(("a",)) == "a"


def test_zip_is_strict() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list(peer_names._zip_strict([1], []))


def test_sizes_of_indices() -> None:
    assert peer_names._getitem_batch_size([3, 4, 5], (slice(2), ..., 0)) == torch.Size([2, 4])
    assert peer_names._getitem_batch_size([3, 4], torch.tensor([True, False, True])) == torch.Size([2, 4])


def test_dimensions_are_counted_from_the_front() -> None:
    assert peer_names._maybe_correct_neg_dim(-1, torch.Size([3, 4])) == 1
    assert peer_names._maybe_correct_neg_dim(-1, None, 3) == 2
    with pytest.raises(IndexError, match=r"-3 is out of range for a shape \[2\]"):
        peer_names._maybe_correct_neg_dim(-3, torch.Size([2]))


def test_classes_of_values() -> None:
    classes = (Tensor, TensorDict, NonTensorData, Point, UnbatchedTensor)
    assert [*map(peer_names._is_tensorclass, classes)] == [False, False, False, True, False]
    assert [*map(peer_names._is_non_tensor, classes)] == [False, False, True, False, False]
    assert [*map(peer_names._pass_through_cls, classes)] == [False, False, True, False, True]
    assert [*map(peer_names._is_leaf_nontensor, classes)] == [True, False, True, False, True]
    assert peer_names._pass_through(NonTensorData("a"))
    assert not peer_names._is_dataclass(Point(torch.ones(1)))
    assert isinstance(torch.ones(1), peer_names._ACCEPTED_CLASSES)


def test_keys_of_lazy_stacks_that_only_some_have() -> None:
    a, b = TensorDict(x=1, y=1), TensorDict(x=1)
    assert peer_names._has_exclusive_keys(LazyStackedTensorDict(a, b))
    assert not peer_names._has_exclusive_keys(LazyStackedTensorDict(a, a))
    assert peer_names._check_keys([a, b]) == {"x"}
    with pytest.raises(KeyError, match="'y'"):
        peer_names._check_keys([a, b], strict=True)


def test_pytrees_take_collections_for_leaves() -> None:
    data = TensorDict(x=1)
    with peer_names._exclude_td_from_pytree():
        assert _pytree.tree_leaves({"data": data}) == [data]
    assert _pytree.tree_leaves({"data": data}) == [data["x"]]


def test_dtypes_by_name() -> None:
    assert peer_names._STRDTYPE2DTYPE["torch.float32"] is torch.float32
    assert peer_names._DTYPE2STRDTYPE[torch.bool] == "torch.bool"
    assert peer_names._NUMPY_TO_TORCH_DTYPE_DICT[np.dtype("complex64")] is torch.complex64


def test_no_default_asks_for_the_error() -> None:
    data = TensorDict(x=1)
    for read in (data.get, data.pop, data.get_non_tensor, LazyStackedTensorDict(data, data).get):
        with pytest.raises(KeyError, match="y"):
            read("y", NO_DEFAULT)
    assert data.apply(lambda x: x + 1, default=NO_DEFAULT)["x"] == 2
    assert repr(NO_DEFAULT) == "NO_DEFAULT"


def test_tensors_are_stacked_at_once() -> None:
    assert peer_names.lazy_stack([torch.zeros(2), torch.ones(2)], 1).tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert type(peer_names.lazy_stack([TensorDict(x=1), TensorDict(x=2)])) is LazyStackedTensorDict


def test_there_are_no_stores_of_lazy_stacks_alone() -> None:
    assert peer_names.TensorDictStore is TensorDictStore
    with pytest.raises(NotImplementedError, match=r"to_store\(\)"):
        peer_names.LazyStackedTensorDictStore.from_tensordict(TensorDict())


def test_leaves_and_their_rows() -> None:
    tensor = torch.zeros(3, 2)
    assert peer_names._get_item(tensor, 0) is not None
    assert peer_names._set_item(tensor, 0, 1.0) is tensor
    assert tensor[0].tolist() == [1.0, 1.0]
    assert peer_names._shape(tensor) == torch.Size([3, 2])
    assert peer_names._device(tensor) == torch.device("cpu")
    assert peer_names._dtype(tensor) is torch.float32
    assert peer_names._prod(sequence=[2, 3]) == 6
    assert peer_names._get_item(tensor=tensor, index=0).tolist() == [1.0, 1.0]
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    assert peer_names._shape(nested) == torch.Size([2, -1])


def test_modes_of_modules() -> None:
    assert peer_networks._dispatch_td_nn_modules()
    with peer_networks._set_dispatch_td_nn_modules(False):
        assert not peer_networks._dispatch_td_nn_modules()

    class Counting(TensorDictModule):
        calls = 0

        @peer_networks._set_skip_existing_None()
        def forward(self, data: TensorDict) -> TensorDict:  # type: ignore[override]
            self.calls += 1
            return data

    module = Counting(torch.exp, "x", "y")
    module(TensorDict(x=1.0, y=1.0))
    assert module.calls == 1
    assert not skip_existing()


def test_random_numbers_come_from_a_generator() -> None:
    generator = torch.Generator().manual_seed(0)
    expected = torch.rand(2, generator=torch.Generator().manual_seed(0))
    with peer_networks._use_generator(generator):
        assert torch.equal(torch.rand(2), expected)
    with peer_networks._use_generator(None):
        torch.rand(1)


def test_tensors_of_modules_are_replaced() -> None:
    module = nn.Linear(1, 1)
    peer_networks.set_tensor(module, "weight", torch.zeros(1, 1))
    assert type(module.weight) is Tensor
    peer_networks.set_tensor(module, "extra", torch.ones(1))
    assert module.extra.item() == 1


def test_a_standard_normal_distribution_that_is_truncated() -> None:
    drawn = peer_networks.TruncatedStandardNormal(-0.5, 0.5).sample((20,))
    assert bool((drawn.abs() <= 0.5).all())
