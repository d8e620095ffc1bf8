"""``torch.vmap`` of collections around the pytrees gives what it gives through them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._functorch import apis, predispatch
from torch._functorch import vmap as torch_vmap

from tensorclass import (
    LazyStackedTensorDict,
    NonTensorStack,
    Shape,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    lazy_stack,
)
from tensorclass.nn import TensorDictParams
from tensorclass.td import vmapping
from tests import fresh_python
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged


class Sample(TensorClass):
    """A record with a contract."""

    x: Annotated[Tensor, Shape("5")]
    text: str = "t"


@contextmanager
def pytrees() -> Iterator[None]:
    """Torch's own vmap."""
    installed = apis.vmap_impl
    apis.vmap_impl = torch_vmap.vmap_impl
    try:
        yield
    finally:
        apis.vmap_impl = installed


@contextmanager
def around() -> Iterator[None]:
    """Nothing may go through the pytrees."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("went through the pytrees")

    before = vmapping._through_pytrees
    vmapping._through_pytrees = refused
    try:
        yield
    finally:
        vmapping._through_pytrees = before


def data(batch_size: tuple[int, ...] = (3, 4)) -> TensorDict:
    """Tensors at three levels, objects, an empty level; a name for each dimension."""
    values = lambda *rest: torch.rand((*batch_size, *rest))
    return TensorDict(
        {
            "a": values(5),
            "b": {"c": values(), "inner": TensorDict({"d": values(2, 6)}, (*batch_size, 2))},
            "text": "text",
            "empty": {},
            "record": Sample(values(5), batch_size=batch_size),
        },
        batch_size,
        names=[f"dim{i}" for i in range(len(batch_size))],
    )


def assert_same(result: Any, expected: Any) -> None:
    """Alike in all that can be seen."""
    assert type(result) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert list(result) == list(expected)
        for key in expected:
            assert_same(result[key], expected[key])
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(result, expected)
        assert result.stride() == expected.stride()
    elif isinstance(expected, LazyStackedTensorDict):
        assert_same(result.tensordicts, expected.tensordicts)
    elif isinstance(expected, TensorDict | TensorClass):
        assert_equal(result, expected)
        assert_consistent(result)
        assert result.is_locked == expected.is_locked
        for key, value in expected.items(include_nested=True):
            assert type(result.get(key)) is type(value)
            if not isinstance(value, Tensor):
                assert result.get(key).names == value.names
    else:
        assert result == expected


def both(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a mapped function gives, which must be the same around the pytrees and through them."""
    kwargs, first = options.pop("kwargs", {}), options.pop("first", around)
    seen: list[list[Any]] = [[], []]

    def noting(notes: list[Any]) -> Callable[..., Any]:
        def noted(*inputs: Any, **given: Any) -> Any:
            for value in inputs:
                if isinstance(value, TensorDict | TensorClass):
                    assert_consistent(value)
                    notes.append((type(value), value.batch_size, value.names, value.device, value.is_locked))
                    notes.extend((key, v.shape, type(v)) for key, v in value.items(include_nested=True))
                else:
                    notes.append((type(value), getattr(value, "shape", None)))
            return function(*inputs, **given)

        return noted

    with first():
        result = torch.vmap(noting(seen[0]), **options)(*args, **kwargs)
    with pytrees():
        expected = torch.vmap(noting(seen[1]), **options)(*args, **kwargs)
    assert seen[0] == seen[1]
    assert_same(result, expected)
    return result


# -- the same as through pytrees --------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(1, 3, min_size=2), st.data())
def test_any_collection_along_any_dimensions(tree: Any, batch_size: Any, drawn: st.DataObject) -> None:
    collection = tree.build(batch_size, drawn.draw(draw.names_or_none(len(batch_size))))
    in_dim = drawn.draw(st.integers(0, len(batch_size) - 1))
    out_dim = drawn.draw(st.integers(0, len(batch_size) - 1))
    number = torch.rand(batch_size[in_dim])
    with Unchanged(collection):
        if tree.count() == 0 and tree.count(draw.Column) == 0:
            return
        both(lambda x, n: (x, n), collection, number, in_dims=(in_dim, 0), out_dims=(out_dim, 0))
        both(lambda x: x, collection, in_dims=in_dim, out_dims=out_dim)


FUNCTIONS: dict[str, Callable[[TensorDict], Any]] = {
    "identity": lambda x: x,
    "arithmetic": lambda x: x.exclude("text", "empty", "record") * 2 + 1,
    "a value": lambda x: x["a"],
    "a level": lambda x: x["b"],
    "a record": lambda x: x["record"],
    "a sum": lambda x: x["a"].sum(),
    "a tuple": lambda x: (x, x["a"], (x["b"], x["a"].sum())),
    "a list": lambda x: [x, x["a"]],
    "a dict": lambda x: {"x": x["b"], "y": x["a"]},
    "nothing": lambda x: (),
    "longer": lambda x: x.unsqueeze(0),
    "shorter": lambda x: x[0],
    "reshaped": lambda x: x.reshape(2, -1),
    "a constant": lambda x: TensorDict({"k": torch.ones(4, 2)}, [4]),
    "other leaves": lambda x: torch.utils._pytree.tree_map(lambda leaf: leaf * 2, x),
    "locked": lambda x: x.lock_(),
    "with a key more": lambda x: x.set("new", x["a"] * 2),
    "a lazy stack": lambda x: lazy_stack([x, x]),
    "unbatched": lambda x: x.exclude("record").set("u", UnbatchedTensor(torch.ones(7))),
}


@pytest.mark.parametrize("dims", [(0, 0), (1, 0), (0, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_result(name: str, dims: tuple[int, int]) -> None:
    if name in ("a sum", "a tuple", "shorter", "a constant", "unbatched"):
        dims = dims[0], 0  # a scalar has no other place; torch expands what is not mapped in front only
    both(FUNCTIONS[name], data((3, 4) if dims[0] == 0 else (4, 3)), in_dims=dims[0], out_dims=dims[1])


@pytest.mark.parametrize("out_dims", [0, 1, -1, 2, (1, 0), (0, -1), [1, 0], (None, 0)], ids=str)
def test_any_place_of_the_dimension_in_a_result(out_dims: Any) -> None:
    constant = torch.ones(2, 2)
    function = lambda x: (
        (constant if out_dims == (None, 0) else x.exclude("text", "empty")),
        x["a"].sum(0, keepdim=True),
    )
    if out_dims == 2:
        function = lambda x: (x["b"].unsqueeze(0), x["a"])
    if out_dims == [1, 0]:
        both(lambda x: [x, x["a"]], data(), out_dims=out_dims)
    else:
        both(function, data(), out_dims=out_dims)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "a collection": (0, lambda: [data()]),
    "a tensor before it": ((0, 1), lambda: [torch.rand(3), data((4, 3))]),
    "a tensor from the end": ((-1, 0), lambda: [torch.rand(2, 3), data()]),
    "a tensor for all": ((None, 0), lambda: [torch.rand(2, 3), data()]),
    "a collection for all": ((None, 0), lambda: [data((4,)), torch.rand(3)]),
    "a locked collection for all": ((None, 0), lambda: [data((4,)).lock_(), data()]),
    "a collection without dimensions for all": ((None, 0), lambda: [data(()), torch.rand(3)]),
    "two collections": ((1, 0), lambda: [data((4, 3)), data()]),
    "one twice": (0, lambda: [shared := data(), shared]),
    "objects for each row": (0, lambda: [TensorDict({"x": torch.rand(2), "o": NonTensorStack("p", "q")}, [2])]),
    "a record": (0, lambda: [Sample(torch.rand(3, 5), batch_size=[3])]),
    "a number for all": ((0, None), lambda: [data(), 5]),
    "a structure for all": ((0, None), lambda: [data(), (torch.rand(2), [data((2,)), 5])]),
    "a function for all": ((0, None), lambda: [data(), torch.sin]),
    "a dimension for each in a dict": (({"a": 0, "b": 1},), lambda: [{"a": torch.rand(3), "b": data((4, 3))}]),
    "a list": ((0, 1), lambda: [[data(), data((3, 2))], data((4, 3))]),
    "a dimension for each in a list": (([0, 1],), lambda: [[data(), data((4, 3))]]),
    "a tuple": (0, lambda: [(torch.rand(3), data())]),
    "tuples in a dict": (({"k": (0, None)},), lambda: [{"k": (data(), data((4,)))}]),
    "empty containers": (0, lambda: [data(), {}, (), []]),
    "a dimension from the end": (
        -1,
        lambda: [TensorDict({"a": torch.rand(3), "n": {"b": torch.rand(3)}}, [3])],
    ),
    "a lazy stack": (0, lambda: [lazy_stack([data((4,)), data((4,))])]),
    "a lazy stack for all": ((0, None), lambda: [data(), lazy_stack([data((4,)), data((4,))])]),
    "a lazy stack inside": (
        0,
        lambda: [TensorDict({"l": lazy_stack([data((4,)), data((4,))]), "x": torch.rand(2)}, [2])],
    ),
    "parameters": (
        0,
        lambda: [TensorDictParams(TensorDict({"w": torch.rand(3, 2), "n": {"b": torch.rand(3)}}, [3]).detach())],
    ),
    "on a device": (0, lambda: [data().to("cpu")]),
    "size 0": (0, lambda: [data((0, 2))]),
    "size 1": (0, lambda: [data((1, 2))]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_any_arguments(name: str) -> None:
    in_dims, make = ARGUMENTS[name]
    args = make()
    calls: list[Any] = []

    def function(*inputs: Any) -> Any:
        calls.append(inputs)
        return tuple(value for value in inputs if isinstance(value, Tensor | TensorDict | TensorClass | dict | list))

    both(function, *args, in_dims=in_dims)
    for inputs in calls:
        for arg, value in zip(args, inputs, strict=True):
            assert not isinstance(arg, TensorDict) or value is not arg


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_randomness(randomness: str) -> None:
    draws, source = lambda x: x["b"].exclude("inner") + torch.rand(4), data()
    with around():
        torch.manual_seed(0)
        result = torch.vmap(draws, randomness=randomness)(source)
    with pytrees():
        torch.manual_seed(0)
        expected = torch.vmap(draws, randomness=randomness)(source)
    assert_same(result, expected)
    with around(), pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(draws)(source)


def test_keywords_are_not_mapped() -> None:
    both(lambda x, *, other: (x, x["a"] * other), data(), kwargs={"other": torch.rand(4, 5)})


@pytest.mark.parametrize("outer, inner, inner_out, outer_out", [(0, 0, 0, 0), (1, 0, 1, 0), (2, 1, 0, 1), (0, 1, 1, 2)])
def test_vmap_in_vmap(outer: int, inner: int, inner_out: int, outer_out: int) -> None:
    function = torch.vmap(lambda x: (x, x["a"] * 2), in_dims=inner, out_dims=inner_out)
    both(function, data((2, 3, 4)), in_dims=outer, out_dims=outer_out)


def squares(x: TensorDict) -> Tensor:
    return (x["a"] ** 2).sum() + (x["b", "c"] * x["b", "inner", "d"].sum()).sum() + (x["record"].x ** 3).sum()


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": torch.func.grad(squares),
    "grad_and_value": torch.func.grad_and_value(squares),
    "grad of grad": torch.func.grad(lambda x: torch.func.grad(squares)(x)["a"].sum()),
    "jacrev": torch.func.jacrev(lambda x: x["a"].sum(0)),
    "jacfwd": torch.func.jacfwd(lambda x: x["a"].sum(0)),
    "hessian": torch.func.hessian(lambda x: (x["a"] ** 3).sum()),
    "vjp": lambda x: torch.func.vjp(squares, x)[1](torch.tensor(1.0))[0],
    "grad of vmap": torch.func.grad(lambda x: torch.vmap(squares)(x).sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_other_transforms_inside(name: str) -> None:
    source = data((2, 3)).exclude("text", "empty")
    source["record"] = source["record"].replace(x=torch.rand(2, 3, 5))
    both(TRANSFORMS[name], source, first=around if "grad" in name else nullcontext)  # a jacobian is a vmap of tensors


def test_other_transforms_outside() -> None:
    source = data((2, 3)).exclude("text", "empty")
    with around():
        result = torch.func.grad(lambda x: torch.vmap(squares, in_dims=1)(x).sum())(source)
    with pytrees():
        expected = torch.func.grad(lambda x: torch.vmap(squares, in_dims=1)(x).sum())(source)
    assert_same(result, expected)


def test_gradients_flow_through() -> None:
    source = data().exclude("text", "empty")
    leaves = [leaf.requires_grad_() for leaf in source.values(True, True)]
    gradients = []
    for route in (around, pytrees):
        with route():
            total = torch.vmap(lambda x: x * x)(source)["b", "c"].sum() + torch.vmap(squares)(source).sum()
        gradients.append(torch.autograd.grad(total, leaves))
    torch.testing.assert_close(*gradients)


def test_parameters_put_in_place_inside() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    before = dict(model.named_parameters())

    def call(params: TensorDict, x: Tensor) -> Tensor:
        with params.to_module(model):
            return model(x)

    x = torch.rand(5, 4)
    stacked = TensorDict.from_modules(
        *(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)) for _ in range(3))
    )
    both(call, stacked, x, in_dims=(0, None))
    params = TensorDict.from_module(model).data
    both(torch.func.grad(lambda p, x: call(p, x).sum()), params, x, in_dims=(None, 0))
    assert all(model.get_parameter(key) is value for key, value in before.items())


# -- what is left to pytrees ------------------------------------------------------------------------------------------

UNUSUAL: dict[str, tuple[dict[str, Any], Callable[[], list[Any]]]] = {
    "a dimension from the end": (
        {"in_dims": -1},
        lambda: [TensorDict({"a": torch.rand(2, 3), "b": torch.rand(3)}, [])],
    ),
    "a dimension behind the batch": ({"in_dims": 1, "out_dims": 1}, lambda: [TensorDict({"a": torch.rand(3, 4)}, [3])]),
    "the last dimension": ({"in_dims": -1, "out_dims": -1}, lambda: [TensorDict({"a": torch.rand(3, 4, 5)}, [3])]),
    "keys in another order": ({"in_dims": ({"b": 0, "a": 0},)}, lambda: [{"a": data(), "b": torch.rand(3)}]),
    "a lazy stack from the end": ({"in_dims": -1}, lambda: [lazy_stack([TensorDict({"a": torch.rand(3)}, [3])] * 2)]),
    "another mapping": ({}, lambda: [{"a": data(), "b": OrderedDict(x=torch.rand(3))}]),
    "a lazy stack of shapes that differ": (
        {},
        lambda: [{"l": lazy_stack([TensorDict({"a": torch.rand(2, n)}, [2]) for n in (2, 3)], 1), "x": torch.rand(2)}],
    ),
    "chunks": ({"chunk_size": 2}, lambda: [data((5, 2))]),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_goes_through_pytrees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, make = UNUSUAL[name]
    args = make()
    function = lambda *inputs: inputs if len(inputs) > 1 else inputs[0]
    through: list[str] = []
    original = vmapping._through_pytrees
    monkeypatch.setattr(vmapping, "_through_pytrees", lambda *a, **k: (through.append(name), original(*a, **k))[1])
    result = torch.vmap(function, **options)(*args)
    assert through == [name]
    with pytrees():
        assert_same(result, torch.vmap(function, **options)(*args))


ERRORS: dict[str, tuple[dict[str, Any], Callable[[], list[Any]]]] = {
    "a dimension out of range": ({"in_dims": 5}, lambda: [data()]),
    "a dimension of a tensor out of range": ({"in_dims": (0, 2)}, lambda: [data(), torch.rand(3)]),
    "no dimension at all": ({"in_dims": (None, None)}, lambda: [data(), torch.rand(3)]),
    "too few dimensions": ({"in_dims": (0,)}, lambda: [data(), torch.rand(3)]),
    "dimensions as a list": ({"in_dims": [0]}, lambda: [data()]),
    "a dimension that is no number": ({"in_dims": ("x",)}, lambda: [data()]),
    "sizes that differ": ({}, lambda: [data(), torch.rand(4)]),
    "sizes of collections that differ": ({}, lambda: [data(), data((4, 3))]),
    "an object that is mapped": ({}, lambda: [data(), "text"]),
    "places that are no numbers": ({"out_dims": "x"}, lambda: [data()]),
    "a place out of range": ({"out_dims": 7}, lambda: [data()]),
    "too many places": ({"out_dims": (0, 0, 0)}, lambda: [data(), data()]),
    "no place": ({"out_dims": None}, lambda: [data()]),
    "no tensors": ({}, lambda: [TensorDict({"e": {}}, [3])]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_torch(name: str) -> None:
    options, make = ERRORS[name]
    args = make()

    def function(*inputs: Any) -> Any:
        return inputs if len(inputs) > 1 else inputs[0]

    raised = []
    for route in (pytrees, nullcontext):
        with route(), pytest.raises(Exception) as info:
            torch.vmap(function, **options)(*args)
        raised.append((info.type, str(info.value)))
        assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert raised[0] == raised[1]


@pytest.mark.parametrize("wrong", ["text", 5, None, [1]], ids=repr)
def test_results_that_are_no_tensors_are_errors_of_torch(wrong: Any) -> None:
    def function(x: TensorDict) -> Any:
        return x, wrong

    raised = []
    for route in (pytrees, around):
        with route(), pytest.raises(ValueError, match="must only return Tensors") as info:
            torch.vmap(function)(data())
        raised.append(str(info.value))
    assert raised[0] == raised[1]


def test_an_error_inside_leaves_no_transform_behind() -> None:
    def function(x: TensorDict) -> TensorDict:
        raise KeyError("mine")

    with around(), pytest.raises(KeyError, match="mine"):
        torch.vmap(function)(data())
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0


# -- better than through pytrees --------------------------------------------------------------------------------------


def test_a_collection_without_values_is_mapped_by_its_batch_size() -> None:
    sizes: list[Any] = []
    function = lambda e, x: (sizes.append(e.batch_size), (e, x))[1]
    with around():
        result, _ = torch.vmap(function)(TensorDict({"text": "t"}, [3, 4]), torch.rand(3))
    assert sizes == [(4,)]
    assert result.batch_size == result.get("text").batch_size == (3, 4)


def test_a_constant_gets_a_dimension_of_size_one() -> None:
    with around():
        result = torch.vmap(lambda x: TensorDict({"a": torch.zeros(4)}, [4]))(data((1,)))
    assert result.batch_size == (1, 4)


def test_an_argument_that_is_not_mapped_is_the_functions_own() -> None:
    params = TensorDict({"a": torch.ones(2), "n": {"b": torch.ones(2)}}).lock_()

    def function(params: TensorDict, x: Tensor) -> Tensor:
        params["new"] = x
        params["n", "b"] = x
        return params["new"] + params["n", "b"]

    with Unchanged(params), around():
        torch.vmap(function, (None, 0))(params, torch.rand(3))


# -- installation -----------------------------------------------------------------------------------------------------


def test_it_is_installed() -> None:
    assert apis.vmap_impl is vmapping._mapped
    assert vmapping._through_pytrees is torch_vmap.vmap_impl


def test_what_has_no_collection_goes_to_torch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(vmapping, "_through_pytrees", lambda *args, **kwargs: calls.append((args, kwargs)))
    function = torch.sin
    torch.vmap(function, 1, 2, "same", chunk_size=3)(torch.ones(2), [data()], out=4)
    ((args, kwargs),) = calls
    assert args[:5] == (function, 1, 2, "same", 3)
    assert len(args) == 7
    assert kwargs == {"out": 4}


def other_signature(func: Any, in_dims: Any, out_dims: Any, *args: Any, **kwargs: Any) -> None:
    """No implementation of vmap that is known."""


def same_signature(
    func: Any, in_dims: Any, out_dims: Any, randomness: Any, chunk_size: Any, *args: Any, **kwargs: Any
) -> None:
    """Looks like that of torch."""


CHANGED: dict[str, list[tuple[Any, str, Any]]] = {
    "another signature of the implementation": [
        (torch_vmap, "vmap_impl", other_signature),
        (apis, "vmap_impl", other_signature),
    ],
    "an implementation that somebody else put there": [(apis, "vmap_impl", same_signature)],
    "a vmap that does not look it up": [(apis, "vmap", other_signature)],
    "another function that unwraps": [(torch_vmap, "_unwrap_batched", lambda batched, dims: None)],
    "no function that checks places": [(torch_vmap, "_check_out_dims_is_int_or_int_pytree", None)],
    "other functions around those in C": [(predispatch, "_add_batch_dim", lambda tensor, dim: None)],
    "no function in C": [(vmapping.functorch, "_remove_batch_dim", None)],
    "no decompositions": [(predispatch, "DECOMPOSITIONS_LOADED", None)],
    "no module of them": [(vmapping, "_predispatch", None)],
}


@pytest.mark.parametrize("name", CHANGED)
def test_nothing_is_installed_in_a_torch_that_is_another_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apis, "vmap_impl", torch_vmap.vmap_impl)
    assert vmapping._fits()
    for module, attribute, value in CHANGED[name]:
        if value is None:
            monkeypatch.delattr(module, attribute)
        else:
            monkeypatch.setattr(module, attribute, value)
    if name == "no module of them":
        monkeypatch.setattr(vmapping, "_predispatch", None, raising=False)
    before = apis.vmap_impl
    assert not vmapping.install()
    assert apis.vmap_impl is before


def test_the_package_is_imported_without_what_it_would_install_itself_in() -> None:
    code = """
import sys, torch
sys.modules["torch._functorch.predispatch"] = None
implementation = torch._functorch.apis.vmap_impl
import tensorclass
assert torch._functorch.apis.vmap_impl is implementation
"""
    fresh_python.run(["-c", code], check=True)
