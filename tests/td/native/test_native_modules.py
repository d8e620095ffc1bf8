"""Parameters of modules: native code reads and swaps what the Python code does, and undoes what it cannot finish."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from tensorclass import TensorDict, UnbatchedTensor
from tests.native_code import in_both_modes


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.again = self.first
        self.norm = nn.BatchNorm1d(2)
        self.nothing = nn.Identity()
        self.absent = None
        self.register_parameter("optional", None)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.again(self.first(x))) * self.scale


def tree(data: Any) -> Any:
    """The classes, keys and tensors of a collection, by identity; shared collections are numbered."""
    seen: dict[int, int] = {}

    def walk(node: Any) -> Any:
        if isinstance(node, Tensor):
            return id(node)
        number = seen.setdefault(id(node), len(seen))
        held = {key: walk(value) for key, value in node._store.items()}
        return number, type(node), held, node.batch_size, node.device, node.names, node._lock

    return walk(data)


@pytest.mark.parametrize("filter_empty", [True, False])
def test_a_module_is_read_the_same(filter_empty: bool) -> None:
    module = Tied()
    compiled, python = in_both_modes(lambda: tree(TensorDict.from_module(module, filter_empty=filter_empty)))
    assert compiled == python
    assert compiled[2]["first"][0] == compiled[2]["again"][0]


def test_a_module_in_itself_raises_the_same() -> None:
    module = nn.Module()
    module.__dict__["_modules"]["loop"] = module
    compiled, python = in_both_modes(lambda: TensorDict.from_module(module))
    assert compiled[0] is python[0] is RecursionError


def test_a_module_that_is_a_collection_is_read_the_same() -> None:
    from tensorclass.nn import TensorDictParams

    module = nn.Sequential(nn.Linear(1, 1))
    module.params = TensorDictParams(TensorDict({"a": torch.ones(3)}, [3]))
    compiled, python = in_both_modes(lambda: tree(TensorDict.from_module(module)))
    assert compiled[2]["params"][2:] == python[2]["params"][2:]
    assert compiled[2]["params"][3] == (3,)


VALUES: dict[str, Callable[[TensorDict], Any]] = {
    "parameters": lambda given: given,
    "data": lambda given: given.data.clone(),
    "computed": lambda given: given.apply(lambda value: value * 2),
    "locked": lambda given: given.data.clone().lock_(),
    "some": lambda given: given.select("scale", ("first", "bias")),
    "unbatched": lambda given: given.data.clone().set("scale", UnbatchedTensor(torch.zeros(2))),
    "unknown key": lambda given: given.data.clone().set(("first", "other"), torch.zeros(2)),
    "a tensor for a module": lambda given: TensorDict({"scale": torch.zeros(2), "first": torch.zeros(2)}),
    "a collection for a tensor": lambda given: TensorDict({"scale": {"a": torch.zeros(2)}}),
    "an object": lambda given: TensorDict({"scale": torch.zeros(2), "first": {"weight": "text"}}),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("wrap", [True, False])
def test_a_swap_is_the_same(name: str, wrap: bool) -> None:
    module, other = Tied(), Tied()
    values = VALUES[name](TensorDict.from_module(other))
    before = tree(TensorDict.from_module(module))

    def swapped() -> Any:
        with values.to_module(module, preserve_module_state=wrap) as old:
            inside = [
                (key, type(held), held is not None and held.requires_grad, None if held is None else held.tolist())
                for table in (module._parameters, module._buffers, module.first._parameters, module.norm._buffers)
                for key, held in table.items()
            ]
            return tree(old), inside

    compiled, python = in_both_modes(swapped)
    assert compiled == python
    assert tree(TensorDict.from_module(module)) == before


def test_buffers_that_the_block_replaced_go_to_the_collection() -> None:
    def called() -> Any:
        module = Tied()
        values = TensorDict.from_module(Tied()).data.clone()
        scale, kept = module.scale, values["norm", "running_mean"]
        with values.to_module(module):
            module.scale = torch.full((2,), 5.0)
            module.optional = nn.Parameter(torch.ones(1))
            module.norm.running_mean += 1
        assert module.scale is scale
        return values["scale"].tolist(), values["norm", "running_mean"] is kept, kept.tolist()

    compiled, python = in_both_modes(called)
    assert compiled == python
    assert compiled == ([5.0, 5.0], True, [1.0, 1.0])


def test_an_exception_of_the_block_changes_nothing() -> None:
    def failed() -> Any:
        module, values = Tied(), TensorDict.from_module(Tied())
        before, scale = tree(TensorDict.from_module(module)), values["scale"]
        with contextlib.suppress(ZeroDivisionError), values.to_module(module):
            module.scale = torch.zeros(2)
            raise ZeroDivisionError
        return tree(TensorDict.from_module(module)) == before, values["scale"] is scale

    assert in_both_modes(failed) == ((True, True), (True, True))


def test_recurrent_modules_see_the_swapped_weights() -> None:
    torch.manual_seed(0)
    module, other, x = nn.GRU(2, 3), nn.GRU(2, 3), torch.randn(4, 2)
    expected, own = other(x)[0], module(x)[0]

    def called() -> Any:
        with TensorDict.from_module(other).to_module(module):
            inside = module(x)[0]
        return torch.equal(inside, expected), torch.equal(module(x)[0], own)

    assert in_both_modes(called) == ((True, True), (True, True))


def test_gradients_of_each_sample_are_the_same() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    params, x = TensorDict.from_module(module).data.clone(), torch.randn(5, 2)

    def loss(params: Any, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x).sum()

    compiled, python = in_both_modes(
        lambda: torch.vmap(torch.func.grad(loss), (None, 0))(params, x)["0", "weight"].tolist()
    )
    by_hand = torch.vmap(torch.func.grad(lambda params, x: functional_call(module, params, x).sum()), (None, 0))(
        {name: value.detach() for name, value in module.named_parameters()}, x
    )["0.weight"]
    assert compiled == python
    torch.testing.assert_close(torch.tensor(compiled), by_hand)
