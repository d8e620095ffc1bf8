"""Nested tensors of the strided layout have no shape: they are refused where they enter, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from tensorclass import TensorClass, TensorDict, UnbatchedTensor, lazy_stack, set_printoptions

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Plain(TensorClass):
    x: Tensor


class Loose(TensorClass):
    x: Any = None


class Contracted(TensorClass):
    x: Float[Tensor, "a b"]


def nested() -> Any:
    return torch.nested.as_nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])


def data() -> TensorDict:
    return TensorDict({"x": torch.zeros(2, 2, 2)}, [2])


class Holder(nn.Module):
    """A module with a buffer ``x``."""

    x: Tensor

    def __init__(self, x: Any) -> None:
        super().__init__()
        self.register_buffer("x", x)


def leave_in_module(x: Any) -> None:
    module = Holder(torch.zeros(2))
    with TensorDict(x=torch.ones(2)).to_module(module):
        module.x = x


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "constructor": lambda x: TensorDict({"x": x}, [2]),
    "constructor without a batch size": lambda x: TensorDict(x=x),
    "set": lambda x: data().set("x", x),
    "set in place": lambda x: data().set_("x", x),
    "set at an index": lambda x: data().set_at_("x", x, 0),
    "by key": lambda x: data().__setitem__("x", x),
    "by a nested key": lambda x: data().__setitem__(("n", "x"), x),
    "update": lambda x: data().update({"x": x}),
    "update in place": lambda x: data().update_({"x": x}),
    "rows": lambda x: data().__setitem__(slice(None), {"x": x}),
    "a default": lambda x: data().exclude("x").setdefault("x", x),
    "from_dict": lambda x: TensorDict.from_dict({"x": x}),
    "from_any": lambda x: TensorDict.from_any({"x": x}),
    "from_dict, with its batch size": lambda x: TensorDict.from_dict({"x": x}, auto_batch_size=True),
    "from_store": lambda x: TensorDict.from_store({"x": x}, [2]),
    "apply": lambda x: data().apply(lambda _: x),
    "apply in place": lambda x: data().apply_(lambda _: x),
    "apply without a batch size": lambda x: TensorDict(x=torch.zeros(2)).apply(lambda _: x),
    "named_apply": lambda x: data().named_apply(lambda key, _: x),
    "tree_map": lambda x: tree_map(lambda _: x, data()),
    "tree_map without a batch size": lambda x: tree_map(lambda _: x, TensorDict(x=torch.zeros(2))),
    "tree_map of a nested one": lambda x: tree_map(lambda _: x, TensorDict(a=TensorDict(x=torch.zeros(2)))),
    "tree_map of a record": lambda x: tree_map(lambda _: x, Plain(torch.zeros(2))),
    "optree": lambda x: optree.tree_map(lambda _: x, Plain(torch.zeros(2))),  # type: ignore[arg-type, unused-ignore]
    "from_pytree": lambda x: TensorDict.from_pytree({"x": x}),
    "from_pytree, below": lambda x: TensorDict.from_pytree([1, {"x": nn.Parameter(x)}]),
    "from_pytree, with its batch size": lambda x: TensorDict.from_pytree({"x": x}, auto_batch_size=True),
    "from_pytree, with a batch size": lambda x: TensorDict.from_pytree({"x": x}, batch_size=[2]),
    "a record of a pytree": lambda x: Plain.from_pytree({"x": x}),
    "from_module": lambda x: TensorDict.from_module(Holder(x)),
    "from_module, below": lambda x: TensorDict.from_module(nn.Sequential(Holder(x))),
    "from_module, its state": lambda x: TensorDict.from_module(Holder(x), use_state_dict=True),
    "from_modules": lambda x: TensorDict.from_modules(Holder(x), Holder(x)),
    "to_module": lambda x: TensorDict(x=torch.zeros(2)).to_module(Holder(x)),
    "to_module, in place": lambda x: TensorDict(x=torch.zeros(2)).to_module(Holder(x), inplace=True),
    "the end of to_module": leave_in_module,
    "load_state_dict": lambda x: data().load_state_dict({"x": x}),
    "load_state_dict, as it is": lambda x: data().load_state_dict({"x": x}, assign=True),
    "a record": lambda x: Plain(x, batch_size=[2]),
    "a record's attribute": lambda x: setattr(Plain(torch.zeros(2)), "x", x),
    "a record's field": lambda x: Plain(torch.zeros(2), batch_size=[2]).set("x", x),
    "another record's": lambda x: Plain(torch.zeros(2), batch_size=[2]).replace(x=x),
    "a record of anything": lambda x: Loose(x, batch_size=[2]),
    "a record with contracts": lambda x: Contracted(x, batch_size=[2]),
    "a record whose batch size is told": lambda x: Contracted(x),
    "a record of a dict, with its batch size": lambda x: Plain.from_dict({"x": x}, auto_batch_size=True),
    "a record of a dict": lambda x: Plain.from_dict({"x": x}),
}


@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_a_nested_tensor_without_a_shape_is_refused(enter: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"x: .*the strided layout has no shape.*layout=torch\.jagged"):
        enter(nested())


OPERANDS: dict[str, Callable[[Any], Any]] = {
    "UnbatchedTensor": lambda x: UnbatchedTensor(x),
    "data": lambda x: setattr(UnbatchedTensor(torch.zeros(2)), "data", x),
    "operand": lambda x: data() + x,
    "value": lambda x: data().__setitem__(0, x),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_nor_is_it_an_operand(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"{name}: .*the strided layout has no shape"):
        OPERANDS[name](nested())


def test_a_key_below_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"^1\.x: "):
        TensorDict.from_pytree([1, {"x": nested()}])
    with pytest.raises(RuntimeError, match=r"^0\.x: "):
        TensorDict.from_module(nn.Sequential(Holder(nested())))


def test_a_module_that_is_refused_stays_what_it_is() -> None:
    inner = Holder(torch.zeros(2))
    module = nn.ModuleDict({"first": inner, "second": Holder(nested())})
    before = inner.x
    with pytest.raises(RuntimeError, match="strided layout"):
        TensorDict(first={"x": torch.ones(2)}, second={"x": torch.ones(2)}).to_module(module)
    assert inner.x is before


def test_densify_makes_jagged_tensors() -> None:
    ragged = lazy_stack([Plain(torch.ones(2, 3)), Plain(torch.ones(4, 3))])
    dense = ragged.densify()
    assert dense.x.layout is torch.jagged
    assert dense[1].x.shape == (4, 3)
    assert torch.cat([dense, dense]).x.shape[0] == 4
    in_a_collection = TensorDict(rows=ragged).densify()
    assert in_a_collection["rows"].x.layout is torch.jagged


@pytest.mark.parametrize("shape", [(4, 5), (4, 3, 1)])
def test_densify_says_what_no_jagged_tensor_holds(shape: tuple[int, ...]) -> None:
    rows = [torch.ones(2, 3), torch.ones(shape)]
    with pytest.raises(RuntimeError, match=r"^x: a jagged tensor has one dimension .*to_padded_tensor"):
        lazy_stack([TensorDict(x=row) for row in rows]).densify()


def test_one_that_was_asked_for_is_printed() -> None:
    ragged = lazy_stack([TensorDict(x=torch.ones(2, 3)), TensorDict(x=torch.ones(4, 3))])
    nested = ragged.densify(layout=torch.strided)
    assert "x: f32[*]" in repr(nested)
    with set_printoptions(style="long"):
        assert "x: Tensor(shape=none, nested, device=cpu" in repr(nested)


def test_what_the_error_advises_works() -> None:
    jagged: Any = torch.nested.as_nested_tensor(list(nested().unbind()), layout=torch.jagged)
    assert Plain(jagged, batch_size=[2])[1].x.shape == (4, 3)
    assert Plain(nested().to_padded_tensor(0), batch_size=[2]).x.shape == (2, 4, 3)
