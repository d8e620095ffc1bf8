"""``torch.autograd.grad`` and ``torch.autograd.backward`` on collections, where the peer does not take them."""

from __future__ import annotations

import pytest
import torch

from tensorclass import TensorDict, UnbatchedTensor, lazy_stack


def weights() -> TensorDict:
    return TensorDict({"a": torch.ones(3, requires_grad=True), "ids": torch.arange(3)}, [3])


def test_collections_and_tensors_are_inputs_of_one_call() -> None:
    x, factor = weights(), torch.tensor(2.0, requires_grad=True)
    for_x, for_factor = torch.autograd.grad((x["a"] * factor).sum(), [x, factor])
    assert list(for_x.keys()) == ["a"]
    assert for_x["a"].tolist() == [2, 2, 2]
    assert for_factor == 3


def test_an_unbatched_tensor_has_a_gradient_without_the_batch() -> None:
    x = TensorDict({"u": UnbatchedTensor(torch.ones(2, requires_grad=True))}, [3])
    assert torch.autograd.grad((x["u"] * 5).sum(), x)["u"].tolist() == [5, 5]


def test_gradients_of_a_lazy_stack_are_a_lazy_stack() -> None:
    x = lazy_stack([weights().exclude("ids"), weights().exclude("ids")])
    y = x * 2
    found = torch.autograd.grad(y, x, torch.ones_like(y))
    assert found["a"].tolist() == [[2, 2, 2]] * 2
    assert found.batch_size == (2, 3)


def test_gradients_in_batches_have_the_batches_in_front() -> None:
    x = weights()
    y = x.exclude("ids") * 2
    batches = torch.stack([torch.ones_like(y), torch.zeros_like(y)])
    found = torch.autograd.grad(y, x, batches, is_grads_batched=True)
    assert found.batch_size == (2, 3)
    assert found["a"].tolist() == [[2, 2, 2], [0, 0, 0]]


def test_gradients_in_batches_of_a_lazy_stack_are_refused() -> None:
    x = lazy_stack([weights().exclude("ids")])
    y = TensorDict({"b": x["a"].sum()})
    with pytest.raises(NotImplementedError, match="stack them first"):
        torch.autograd.grad(y, x, TensorDict({"b": torch.ones(2)}, [2]), is_grads_batched=True)


def test_a_gradient_of_the_outputs_with_other_keys_is_an_error() -> None:
    x = weights()
    with pytest.raises(KeyError, match="differ in their keys"):
        torch.autograd.grad(x.exclude("ids") * 2, x, TensorDict({"z": torch.ones(3)}, [3]))
    with pytest.raises(ValueError, match="is a collection with its keys"):
        torch.autograd.grad(x * 2, x, torch.ones(3))


def test_outputs_without_history_are_an_error() -> None:
    x = weights()
    with pytest.raises(RuntimeError, match="no value of the outputs requires gradients"):
        torch.autograd.grad(x.detach().sum(), x)


def test_backward_from_a_collection_adds_to_the_gradients_of_the_inputs() -> None:
    x, other = weights(), torch.ones(3, requires_grad=True)
    y = TensorDict({"a": x["a"] * other}, [3])
    torch.autograd.backward(y, torch.ones_like(y), inputs=[x.exclude("ids")])
    assert x["a"].grad is not None
    assert x["a"].grad.tolist() == [1, 1, 1]
    assert other.grad is None


def test_backward_refuses_the_rows_that_torch_makes_of_inputs() -> None:
    x = weights()
    y = x.exclude("ids") * 2
    with pytest.raises(RuntimeError, match=r"inputs=\[data\]"):
        torch.autograd.backward(y, torch.ones_like(y), inputs=x)
