"""Calls whose results, errors and shared memory are those of the peer: a table, and draws where the space is large."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.legacy_mode import legacy_mode
from tests.parity.cases.tools import utils
from tests.parity.differences import without_names
from tests.parity.record_differences import cast_field
from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = pytest.mark.parity

Call = Callable[[Any], Any]


def collection(library: Any, values: dict[str, Any], size: list[int] | None = None, **options: Any) -> Any:
    return library.TensorDict(values, batch_size=size or [], **options)


# -- gradients --------------------------------------------------------------------------------------------------------


def weights(library: Any) -> Any:
    values = {"a": torch.ones(3, requires_grad=True), "n": {"b": torch.ones(3, requires_grad=True)}}
    return collection(library, values, [3])


def gradient(library: Any, inputs: Callable[[Any], Any] = lambda x: x, **options: Any) -> Any:
    given = inputs(weights(library))
    results = given**2
    return torch.autograd.grad(results, given, torch.ones_like(results), **options)


def second_derivative(library: Any) -> Any:
    x = weights(library)
    first = torch.autograd.grad(x**3, x, torch.ones_like(x), create_graph=True)
    return torch.autograd.grad(first, x, torch.ones_like(first))


def gradient_of_one_value(library: Any, **options: Any) -> Any:
    x = weights(library)
    y = collection(library, {"a": x["a"] * 2}, [3])
    return torch.autograd.grad(y, x, torch.ones_like(y), **options)


def locked_gradient(library: Any) -> Any:
    x = weights(library)
    (x["a"] + x["n", "b"]).sum().backward()
    return x.lock_().grad


GRADIENTS: dict[str, Call] = {
    "grad": gradient,
    "grad of a locked collection": lambda m: gradient(m, lambda x: x.lock_()),
    "grad of a sum": lambda m: torch.autograd.grad((x := weights(m)).sum(), x),
    "grad without gradients of the outputs": lambda m: torch.autograd.grad((x := weights(m)) * 2, x),
    "grad twice": second_derivative,
    "grad of unused values": gradient_of_one_value,
    "grad of unused values, allowed": lambda m: gradient_of_one_value(m, allow_unused=True),
    "grad of unused values, as zeros": lambda m: gradient_of_one_value(m, materialize_grads=True),
    "the gradients of a locked collection": locked_gradient,
}

# -- dtypes and casts -------------------------------------------------------------------------------------------------


def numbers(library: Any) -> Any:
    nested = library.TensorDict({"b": torch.zeros(2, 4, 2)}, [2, 4])
    return collection(library, {"a": torch.arange(16.0).view(2, 8), "n": nested}, [2])


def integers(library: Any, dtype: torch.dtype) -> Any:
    values = {"a": torch.arange(6).view(2, 3).to(dtype), "n": {"b": torch.ones(2, 3, 2, dtype=dtype)}}
    return collection(library, values, [2, 3])


CASTS: dict[str, Call] = {
    "view as a dtype in a batch size": lambda m: numbers(m).view(torch.float64, batch_size=[2]),
    "view as a dtype in a shorter batch size": lambda m: numbers(m)[:, None].view(torch.float64, batch_size=[2]),
    "view as a dtype in a batch size that does not fit": lambda m: numbers(m).view(torch.float64, batch_size=[3]),
    **{
        f"logsumexp of {dtype} along {dim}": lambda m, dtype=dtype, dim=dim: integers(m, dtype).logsumexp(dim)
        for dtype in (torch.int64, torch.bool, torch.uint8)
        for dim in (None, 0, -1, (0, 1))
    },
    "softmax with a dtype": lambda m: integers(m, torch.int64).softmax(1, dtype=torch.float64),
}

# -- functions --------------------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Call] = {
    "apply to nothing": lambda m: collection(m, {}, [2]).apply(lambda x: x, filter_empty=None),
    "apply to empty collections": lambda m: collection(m, {"n": {"m": {}}}, [2]).apply(lambda x: x, filter_empty=None),
    "apply to text": lambda m: collection(m, {"t": "text", "n": {}}, [2]).apply(lambda x: x, filter_empty=None),
}

# -- keys -------------------------------------------------------------------------------------------------------------


def with_block(data: Any, view: Call, change: Call) -> Any:
    with view(data) as inside:
        change(inside)
    return data


def deep(library: Any) -> Any:
    return collection(library, {"n": {"a": torch.ones(2), "m": {"b": torch.ones(2)}}, "c": torch.ones(2)}, [2])


def flat(library: Any) -> Any:
    return collection(library, {"n.a": torch.ones(2), "c": torch.ones(2)}, [2])


def assign(key: Any, value: Any) -> Call:
    return lambda data: data.set(key, value)


def colliding(library: Any, **options: Any) -> Any:
    return collection(library, {"n.a": torch.zeros(2), "n": {"a": torch.ones(2)}}, [2]).flatten_keys(".", **options)


def rows(library: Any) -> Any:
    return collection(library, {"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4)}}, [4])


def updated_selection(library: Any, *keys: Any, **options: Any) -> Any:
    data = rows(library)
    selection = data.select(*keys)
    selection.update({"a": torch.ones(4, 3), "n": {"b": torch.ones(4)}}, **options)
    return [data, selection]


def written_rows(library: Any, value: Any, index: Any) -> Any:
    return rows(library).set_at_("a", value, index)


KEYS: dict[str, Call] = {
    "flat keys that collide": colliding,
    "flat keys that collide in place": lambda m: colliding(m, inplace=True),
    **{
        f"{key!r} through flat keys": lambda m, key=key: with_block(
            deep(m), lambda d: d.flatten_keys("."), assign(key, torch.zeros(2))
        )
        for key in ("n.a", "n.z", ("n", "z"), ("n", "m", "z"), "z.y", ("z", "y"), "n.m.z", "n.a.z")
    },
    "a collection through flat keys": lambda m: with_block(
        deep(m), lambda d: d.flatten_keys("."), assign("n", m.TensorDict({"z": torch.zeros(2)}, [2]))
    ),
    "a collection under a flat key": lambda m: with_block(
        deep(m), lambda d: d.flatten_keys("."), assign("n.a", m.TensorDict({"z": torch.zeros(2)}, [2]))
    ),
    **{
        f"{key!r} through nested keys": lambda m, key=key: with_block(
            flat(m), lambda d: d.unflatten_keys("."), assign(key, torch.zeros(2))
        )
        for key in (("n", "a"), ("n", "z"), ("z", "y"), "z")
    },
    "update with a tensor for a collection": lambda m: deep(m).update({"n": torch.zeros(2)}),
    "update with a tensor for a collection, of keys": lambda m: deep(m).update(
        {"n": torch.zeros(2)}, keys_to_update=["n"]
    ),
    "update with a collection for a tensor": lambda m: deep(m).update({"c": {"z": torch.zeros(2)}}),
    "update with text for a collection": lambda m: deep(m).update({"n": "text"}),
    "set_at_ with an array": lambda m: written_rows(m, np.ones(3, dtype=np.float32), 1),
    "set_at_ with rows of an array": lambda m: written_rows(m, np.ones((2, 3)), slice(2, 4)),
    "set_at_ with a number of numpy": lambda m: written_rows(m, np.float32(3.0), 3),
    "set_at_ with booleans": lambda m: written_rows(m, np.array([True, False, True]), 0),
    "set_at_ at an array": lambda m: written_rows(m, torch.ones(2, 3), np.array([1, 2])),
    "set_at_ at a mask of numpy": lambda m: written_rows(m, np.ones((2, 3)), np.array([True, False, False, True])),
    "update of a selection": lambda m: updated_selection(m, "a", "n"),
    "update of a selection of nested keys": lambda m: updated_selection(m, "a", ("n", "b")),
    "update of a selection in place": lambda m: updated_selection(m, "a", ("n", "b"), inplace=True),
}

# -- records ----------------------------------------------------------------------------------------------------------


def record(library: Any, **options: bool) -> Any:
    class Record:
        a: torch.Tensor

    return library.tensorclass(**options)(Record)(a=torch.ones(3), batch_size=[3])


def hashes(data: Any) -> Any:
    return isinstance(hash(data), int), data in {data}, hash(data) == hash(data.clone())


def calls_of_setattr(library: Any) -> Any:
    """The attributes that a class's own __setattr__ is called for, by the constructor and later."""
    calls: list[str] = []

    class Record(library.TensorClass):  # type: ignore[misc, name-defined]
        a: torch.Tensor
        text: str = "t"

        def __setattr__(self, name: str, value: Any) -> None:
            calls.append(name)
            super().__setattr__(name, value * 2 if name == "a" else value)

    data = Record(a=torch.ones(3), batch_size=[3])
    data.a = torch.ones(3)
    data.batch_size = []
    return calls, data.a, data.clone().a


RECORDS: dict[str, Call] = {
    "a frozen record can be hashed": lambda m: hashes(record(m, frozen=True)),
    "another record cannot be hashed": lambda m: hashes(record(m)),
    "__setattr__ with super": calls_of_setattr,
    "autocast to a float": lambda m: repr(cast_field(m, "autocast", float)(1).a),
    "autocast to an array": lambda m: cast_field(m, "autocast", np.ndarray)(torch.ones(2)).a,
    "tensor_only with a mapping": lambda m: cast_field(m, "tensor_only", torch.Tensor)({"x": torch.ones(2)}).a,
    "tensor_only with numbers": lambda m: cast_field(m, "tensor_only", torch.Tensor)([1.0, 2.0]).a,
    "autocast of None": lambda m: cast_field(m, "autocast", int | None)(None).a,
    "autocast of a number to a tensor": lambda m: cast_field(m, "autocast", torch.Tensor | None)(1.0).a,
}

# -- objects, modules and names ---------------------------------------------------------------------------------------


def add(x: int, y: int = 1) -> int:
    return x + y


def modules(library: Any) -> Any:
    return importlib.import_module(f"{library.__name__}.nn")


def wrapped(library: Any) -> Any:
    return modules(library).WrapModule(add, in_keys=["x"])


OTHERS: dict[str, Call] = {
    "a function as an object": lambda m: m.NonTensorData(add, batch_size=[2])(3, y=4),
    "a function of a collection": lambda m: collection(m, {"f": add}, [2]).get("f")(3),
    "an object that is no function": lambda m: m.NonTensorData("a")(3),
    "fields of objects": lambda m: [(field.name, str(field.type)[:4]) for field in m.NonTensorData.fields()],
    "more of one object": lambda m: m.NonTensorData("a", batch_size=[2]).extend(["b"]),
    **{
        f"interaction type {name!r}": lambda m, name=name: modules(m).InteractionType.from_str(name).value
        for name in ("mode", "MODE", "Mean", "random", "deterministic", "foo", "")
    },
    "the source of dispatch": lambda m: modules(m).dispatch(source=["a"]).get_source(None, None),
    "the source of a method": lambda m: (
        modules(m).dispatch().get_source(None, modules(m).WrapModule(add, in_keys=["x"]))
    ),
    "copy_at_ with fast=None": lambda m: rows(m).copy_at_(rows(m)[0], 1, fast=None),
    "to_module without a choice": lambda m: weights(m).to_module(torch.nn.Linear(1, 1), preserve_module_state=None),
    "get_defaults_to_none": lambda m: m.get_defaults_to_none() is True,
    "dtypes of numpy": lambda m: {str(key): value for key, value in utils(m).NUMPY_TO_TORCH_DTYPE_DICT.items()},
    "dtypes of torch": lambda m: {str(key): str(value) for key, value in utils(m).TORCH_TO_NUMPY_DTYPE_DICT.items()},
}

# -- unbatched tensors ------------------------------------------------------------------------------------------------


def holder(library: Any, values: Any) -> Any:
    return library.UnbatchedTensor(torch.tensor(values))


def with_unbatched(library: Any) -> Any:
    values = {"a": torch.arange(4.0), "u": holder(library, [1.0, 2.0, 3.0])}
    return collection(library, values, [4])


def numbers_of_rows(data: Any, key: str) -> Any:
    """A value as lists: in the peer tensors of a vmap are of the class of the unbatched tensor."""
    return torch.as_tensor(data[key]).tolist()


UNBATCHED: dict[str, Call] = {
    "as a bool": lambda m: (bool(holder(m, [1])), bool(holder(m, 0))),
    "as numbers": lambda m: (int(holder(m, 3)), float(holder(m, 3)), complex(holder(m, 3))),
    "as an index": lambda m: [10, 20][holder(m, 1)],
    "as an index of a tensor": lambda m: torch.arange(10)[holder(m, [1, 2])].tolist(),
    "as an array": lambda m: np.asarray(holder(m, [1.0, 2.0])),
    "its batch size": lambda m: with_unbatched(m).get("u").batch_size,
    "through vmap": lambda m: numbers_of_rows(torch.vmap(lambda d: d * 2)(with_unbatched(m)), "u"),
    "a row": lambda m: with_unbatched(m)[0].get("u").batch_size,
    **{
        name: lambda m, function=function: torch.as_tensor(function(holder(m, [1.0, 2.0]), torch.ones(3, 2))).tolist()
        for name, function in {
            "linear": lambda u, x: torch.nn.functional.linear(x, u),
            "matmul": lambda u, x: torch.matmul(x, u),
            "@": lambda u, x: x @ u,
            "relu": lambda u, x: torch.nn.functional.relu(u),
            "i0": lambda u, x: torch.special.i0(u),
        }.items()
    },
    "equal": lambda m: torch.equal(holder(m, [1.0]), holder(m, [1.0])),
}

# -- first-class dimensions -------------------------------------------------------------------------------------------


def grid(library: Any) -> Any:
    nested = library.TensorDict({"b": torch.arange(24.0).view(3, 4, 2)}, [3, 4])
    return collection(library, {"a": torch.arange(12.0).view(3, 4), "n": nested}, [3, 4], names=["x", "y"])


def at_dimensions(library: Any, call: Callable[..., Any], source: Call = grid) -> Any:
    """What a call gives with two dimensions: batch sizes and names, and its tensors with the dimensions in front."""
    from functorch.dim import Tensor, dims  # here: it takes a while to import

    first, second = dims(2)
    first.size, second.size = 3, 4
    result = call(source(library), first, second)
    leaves = {key: result.get(key) for key in result.keys(True, True)}
    ordered = {key: leaf.order(*leaf.dims) if isinstance(leaf, Tensor) else leaf for key, leaf in leaves.items()}
    return result.batch_size, [name for name in result.names if isinstance(name, str)], ordered


def written_at(data: Any, index: Any, value: Any) -> Any:
    data[index] = value
    return data


BOUND: dict[str, Callable[..., Any]] = {
    "one": lambda d, i, j: d[i],
    "two": lambda d, i, j: d[i, j],
    "the second": lambda d, i, j: d[:, j],
    "behind an ellipsis": lambda d, i, j: d[..., j],
    "behind a new dimension": lambda d, i, j: d[None, i],
    "a bound tensor": lambda d, i, j: d[torch.tensor([2, 0, 1])[i]],
    "reshaped": lambda d, i, j: d[i].view(2, 2),
    "expanded": lambda d, i, j: d[i].expand(2, 4),
    "unsqueezed": lambda d, i, j: d[i].unsqueeze(0),
    "indexed": lambda d, i, j: d[i][0],
    "selected": lambda d, i, j: d[i].select("a"),
    "cloned": lambda d, i, j: d[:, j].clone(),
    "cast": lambda d, i, j: d[i].to(torch.float64),
    "reduced": lambda d, i, j: d[i].sum(0),
    "ordered": lambda d, i, j: d[i].apply(lambda x: x.order(i), batch_size=[3, 4]),
    "written": lambda d, i, j: written_at(d, i, d[i].clone().zero_()),
    "filled": lambda d, i, j: written_at(d, (slice(None), j), 1),
    "names": lambda d, i, j: d.rename(i, "y").transpose(0, 1),
    "refined names": lambda d, i, j: d.rename(i, None).refine_names(..., "z"),
}
DIMENSIONS: dict[str, Call] = {
    **{f"{name} at dimensions": lambda m, call=call: at_dimensions(m, call) for name, call in BOUND.items()},
    "parameters at a dimension": lambda m: at_dimensions(
        m, BOUND["one"], lambda m: importlib.import_module(f"{m.__name__}.nn").TensorDictParams(grid(m))
    ),
    "a record at a dimension": lambda m: at_dimensions(m, BOUND["one"], lambda m: record(m).expand(3, 3)),
}

TABLE = {**GRADIENTS, **CASTS, **FUNCTIONS, **KEYS, **RECORDS, **OTHERS, **UNBATCHED, **DIMENSIONS}


@pytest.mark.parametrize("call", TABLE.values(), ids=TABLE)
@pytest.mark.filterwarnings("ignore")
def test_a_call_does_what_it_does_in_the_peer(call: Call) -> None:
    ours, peers = described(outcome(lambda: call(OURS))), described(outcome(lambda: call(PEER)))
    assert ours == peers


# -- the legacy mode --------------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Any], Any]] = {
    "view": lambda d: d.view(6),
    "permute": lambda d: d.permute(1, 0),
    "transpose": lambda d: d.transpose(0, 1),
    "swapaxes": lambda d: d.swapaxes(0, 1),
    "unsqueeze": lambda d: d.unsqueeze(1),
    "squeeze": lambda d: d.unsqueeze(0).squeeze(0),
    "reshape": lambda d: d.reshape(6),
    "expand": lambda d: d.expand(2, 2, 3),
    "view of a view": lambda d: d.permute(1, 0).unsqueeze(0),
    "view and back": lambda d: d.view(6).view(2, 3),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "set": lambda d: d.set("new", torch.ones(d.batch_size)),
    "replace": lambda d: d.set("a", torch.ones(d.batch_size)),
    "nested": lambda d: d.set(("n", "new"), torch.ones(d.batch_size)),
    "update": lambda d: d.update({"a": torch.ones(d.batch_size), "z": torch.ones(d.batch_size)}),
    "in place": lambda d: d.set_("a", torch.full(tuple(d.batch_size), 7.0)),
    "add_": lambda d: d.add_(1),
    "rename": lambda d: d.rename_key_("a", "z"),
    "delete": lambda d: d.del_("a"),
    "lock": lambda d: d.lock_(),
    "rows": lambda d: d[0].zero_(),
}


@given(st.sampled_from(sorted(VIEWS)), st.lists(st.sampled_from(sorted(WRITES)), max_size=3))
def test_a_view_of_the_legacy_mode_writes_through_as_in_the_peer(view: str, writes: list[str]) -> None:
    if view.startswith("view"):  # "Legacy views are of the class of their source.": the peer refuses new nested keys
        writes = [write for write in writes if write != "nested"]

    def result(library: Any) -> Any:
        values = {"a": torch.zeros(2, 3), "n": library.TensorDict({"b": torch.zeros(2, 3)}, [2, 3])}
        data = library.TensorDict(values, [2, 3])
        seen = VIEWS[view](data)
        raised = [isinstance(outcome(lambda write=write: WRITES[write](seen)), Exception) for write in writes]
        if view not in ("reshape", "expand"):  # "Results of operations are not locked."
            return raised, described(data), {key: described(seen[key]) for key in sorted(seen.keys())}
        return raised, described(data)

    with legacy_mode():
        ours = result(OURS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with PEER.set_lazy_legacy(True):
            peers = result(PEER)
    assert ours == peers


# -- operands that broadcast ------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 3), max_size=3)
OPERATIONS = ("add", "mul", "sub", "pow", "maximum", "clamp_min", "__eq__", "__lt__", "__radd__", "__truediv__")


@given(SIZES, SIZES, st.sampled_from(OPERATIONS), st.booleans())
def test_a_tensor_operand_broadcasts_with_the_batch(
    batch: list[int], operand: list[int], name: str, lazy: bool
) -> None:
    tensor = torch.arange(float(torch.Size(operand).numel())).reshape(operand) + 1

    def result(library: Any) -> Any:
        values = {"a": torch.ones(*batch, 2), "n": library.TensorDict({"b": torch.ones(*batch)}, batch)}
        data = library.TensorDict(values, batch, names=["x", "y", "z"][: len(batch)])
        if lazy and batch:
            data = library.lazy_stack(list(data.unbind(0)))
        return getattr(data, name)(tensor)

    ours, peers = described(outcome(lambda: result(OURS))), described(outcome(lambda: result(PEER)))
    if name.startswith("__") or lazy:  # "Names stay with their dimension."
        ours, peers = without_names(ours), without_names(peers)
    assert ours == peers
