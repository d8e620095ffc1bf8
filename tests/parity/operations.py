"""Single operations, by name: what they are called with, and how.

Arguments are drawn so that both libraries define what comes out; where they differ on purpose is said in
docs/differences.md and asserted in test_differences.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.operations import SHAPE_OPERATIONS
from tests.parity.sides import PEER

Size = tuple[int, ...]


@dataclass(frozen=True)
class Drawn:
    """The collection that an operation is done on, before it is built for a library."""

    tree: draw.Tree
    batch_size: Size
    names: list[str | None] | None

    def build(self, library: Any) -> Any:
        return self.tree.build(self.batch_size, self.names, library)


@dataclass(frozen=True)
class Operation:
    """An operation: a strategy for its arguments, and a call with collection, library and arguments.

    ``batch_dims`` are the fewest that it needs, ``leaf`` the tensors that it works on, ``objects`` says whether it
    works beside non-tensor data in both libraries.
    """

    arguments: Callable[[Drawn], st.SearchStrategy[Any]]
    call: Callable[..., Any]
    batch_dims: int = 0
    leaf: st.SearchStrategy[draw.Leaf] = draw.leaves
    objects: bool = True


def nothing(drawn: Drawn) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.just(())


def _method(name: str) -> Callable[..., Any]:
    def call(data: Any, library: Any, *arguments: Any) -> Any:
        return getattr(data, name)(*arguments)

    return call


def on(function: Callable[[Any], Any], **options: Any) -> Operation:
    """An operation without arguments."""
    return Operation(nothing, lambda data, library: function(data), **options)


# -- shape operations --------------------------------------------------------------------------------------------------


def _shaping(name: str) -> Operation:
    def arguments(drawn: Drawn) -> st.SearchStrategy[Any]:
        strategy = SHAPE_OPERATIONS[name](drawn.batch_size)
        if name == "squeeze":  # of several dims: see "more is taken"
            return strategy.filter(lambda args: not args or isinstance(args[0], int))
        if name == "unbind":  # without a dim: the same
            return strategy.filter(bool)
        if name == "flip":  # with a dim twice, of a collection without tensors: see "empty collections"
            return strategy.filter(lambda args: len(set(args[0])) == len(args[0]))
        return strategy

    return Operation(arguments, _method(name), batch_dims=1)


SHAPING = {name: _shaping(name) for name in SHAPE_OPERATIONS}


# -- rows --------------------------------------------------------------------------------------------------------------


def _index(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.tuples(draw.indices(drawn.batch_size))


@st.composite
def _index_and_rows(data: Callable[..., Any], drawn: Drawn) -> Any:
    index = data(draw.indices(drawn.batch_size))
    try:
        size = tuple(PEER.TensorDict({}, drawn.batch_size)[index].batch_size)
    except Exception:
        size = drawn.batch_size  # both refuse the index
    return index, draw.Tree(drawn.tree.entries), size


def _write(data: Any, library: Any, index: Any, rows: Any, size: Size) -> Any:
    data[index] = rows.build(size, None, library)
    return data


def _write_number(data: Any, library: Any, index: Any) -> Any:
    data[index] = 1
    return data


def _row_by_row(data: Any, library: Any, order: list[int]) -> Any:
    result = library.TensorDict({}, [len(order), *data.batch_size])
    for i in order:
        result[i] = data
    return result


ROWS = {
    "index": Operation(_index, lambda data, library, index: data[index]),
    "write rows": Operation(_index_and_rows, _write),
    "write a number": Operation(_index, _write_number, objects=False),
    "write row by row": Operation(
        lambda drawn: st.tuples(st.integers(1, 3).flatmap(lambda n: st.permutations(range(n)))), _row_by_row
    ),
    "rows": on(list, batch_dims=1),
}


# -- several made one --------------------------------------------------------------------------------------------------


@st.composite
def _others(data: Callable[..., Any], drawn: Drawn) -> Any:
    size = drawn.batch_size
    count = data(st.integers(0, 2))
    trees = [data(st.just(drawn.tree) | st.just(drawn.tree) | draw.trees(3, 1)) for _ in range(count)]
    sizes = [data(st.just(size) | st.just(size) | st.just((*size, 1))) for _ in range(count)]
    return list(zip(trees, sizes, strict=True)), data(st.integers(-len(size), max(len(size) - 1, 0)))


def _combine(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(data: Any, library: Any, others: Any, dim: int) -> Any:
        return function([data, *(tree.build(size, None, library) for tree, size in others)], dim)

    return call


@st.composite
def _condition(data: Callable[..., Any], drawn: Drawn) -> Any:
    depth = data(st.integers(0, len(drawn.batch_size)))
    condition = torch.as_tensor(data(draw.masks(drawn.batch_size[:depth])), dtype=torch.bool)
    return condition, drawn.tree if data(st.booleans()) else draw.Tree(drawn.tree.entries)


COMBINING = {
    "stack": Operation(_others, _combine(torch.stack)),
    "cat": Operation(_others, _combine(torch.cat), batch_dims=1),
    "where": Operation(
        _condition,
        lambda data, library, condition, other: torch.where(
            condition, data, other.build(data.batch_size, None, library)
        ),
    ),
    "where, a number": Operation(
        _condition, lambda data, library, condition, other: torch.where(condition, data, 0), objects=False
    ),
}


# -- the dict interface ------------------------------------------------------------------------------------------------


def paths(tree: draw.Tree, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All keys of a tree."""
    below = [paths(entry, (*prefix, key)) for key, entry in tree.entries.items() if isinstance(entry, draw.Tree)]
    return [(*prefix, key) for key in tree.entries] + [path for part in below for path in part]


def key_of(drawn: Drawn) -> st.SearchStrategy[Any]:
    """A key that is there, mostly, as a string where it can be."""
    keys = [*paths(drawn.tree), ("missing",), ("missing", "below")]
    return st.sampled_from(keys).flatmap(lambda key: st.sampled_from((key, key[0])) if len(key) == 1 else st.just(key))


def a_key(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.tuples(key_of(drawn))


def keys_apart(drawn: Drawn) -> st.SearchStrategy[Any]:
    """Keys of the first level, each at most once."""
    keys = st.sampled_from([*drawn.tree.entries, "missing"])
    return st.lists(keys, max_size=3, unique=True).map(tuple)


def _then(method: Callable[..., Any]) -> Callable[..., Any]:
    """The result of a method, and the collection afterwards."""

    def call(data: Any, library: Any, *arguments: Any) -> Any:
        result = method(data, *arguments)
        return ["itself" if result is data else result, data]

    return call


def _new_value(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.tuples(st.sampled_from([*drawn.tree.entries, "new", ("new", "below")]), draw.leaves | draw.texts)


def _set(data: Any, library: Any, key: Any, value: Any) -> Any:
    data[key] = value.tensor(data.batch_size) if isinstance(value, draw.Leaf) else library.NonTensorData(value.value)
    return data


def _another(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(drawn.tree) | draw.trees(4, 1, min_leaves=1, empty=False))


def _with_another(method: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def call(data: Any, library: Any, other: draw.Tree) -> Any:
        return method(data, other.build(data.batch_size, None, library))

    return call


DICT = {
    "data[key]": Operation(a_key, lambda data, library, key: data[key]),
    "get": Operation(a_key, lambda data, library, key: data.get(key)),
    "get with a default": Operation(a_key, lambda data, library, key: data.get(key, 5)),
    "in": Operation(a_key, lambda data, library, key: key in data),
    "in keys": Operation(a_key, lambda data, library, key: key in data.keys(True)),
    "keys": on(lambda data: list(data.keys())),
    "keys, nested": on(lambda data: set(data.keys(True))),
    "keys, leaves": on(lambda data: set(data.keys(True, True))),
    "keys, sorted": on(lambda data: list(data.keys(sort=True))),
    "values": on(lambda data: list(data.values(False, True))),
    "is_empty": on(lambda data: data.is_empty()),
    "len": on(len),
    "batch size": on(lambda data: (data.batch_size, data.shape, data.ndim, data.batch_dims, data.dim(), data.size())),
    "set": Operation(_new_value, _set),
    "pop": Operation(a_key, _then(lambda data, key: data.pop(key))),
    "pop with a default": Operation(a_key, _then(lambda data, key: data.pop(key, None))),
    "del_": Operation(a_key, _then(lambda data, key: data.del_(key))),
    "clear": on(lambda data: data.clear()),
    "select": Operation(keys_apart, lambda data, library, *keys: data.select(*keys)),
    "select, not strict": Operation(keys_apart, lambda data, library, *keys: data.select(*keys, strict=False)),
    "select in place": Operation(keys_apart, _then(lambda data, *keys: data.select(*keys, strict=False, inplace=True))),
    "exclude": Operation(keys_apart, lambda data, library, *keys: data.exclude(*keys)),
    "exclude in place": Operation(keys_apart, _then(lambda data, *keys: data.exclude(*keys, inplace=True))),
    "split_keys": Operation(keys_apart, lambda data, library, *keys: data.split_keys(keys, strict=False)),
    "rename_key_": Operation(
        lambda drawn: st.tuples(key_of(drawn), st.sampled_from(("new", ("new", "below")))),
        _then(lambda data, old, new: data.rename_key_(old, new)),
    ),
    "flatten_keys": on(lambda data: data.flatten_keys()),
    "flatten_keys and back": on(lambda data: data.flatten_keys("/").unflatten_keys("/")),
    "update": Operation(_another, _with_another(lambda data, other: data.update(other))),
    "replace": Operation(_another, _with_another(lambda data, other: data.replace(other))),
    "update_ with the same keys": Operation(
        lambda drawn: st.just((drawn.tree,)), _with_another(lambda data, other: data.update_(other + 0))
    ),
    "copy_": Operation(lambda drawn: st.just((drawn.tree,)), _with_another(lambda data, other: data.copy_(other))),
    "setdefault": Operation(
        lambda drawn: st.tuples(st.sampled_from([*drawn.tree.entries, "new"])),
        _then(lambda data, key: data.setdefault(key, torch.zeros(data.batch_size))),
    ),
    "empty": on(lambda data: data.empty()),
    "copy": on(lambda data: data.copy()),
    "clone": on(lambda data: data.clone()),
    "clone, not recursing": on(lambda data: data.clone(recurse=False)),
    "to_dict": on(lambda data: data.to_dict(), objects=False),
    "to_tensordict": on(lambda data: data.to_tensordict()),
}


# -- dtypes, devices, functions ----------------------------------------------------------------------------------------

numbers = st.builds(
    draw.Leaf,
    rest=draw.shapes(max_dims=2, min_size=1, max_size=3),
    dtype=st.sampled_from((torch.float32, torch.float64, torch.int64)),
    start=st.integers(0, 9),
)

EACH_VALUE = {
    **{name: on(lambda data, name=name: getattr(data, name)()) for name in ("float", "double", "int", "bool", "half")},
    "to a dtype": on(lambda data: data.to(torch.float64)),
    "to a device": on(lambda data: data.to("cpu")),
    "to another device": on(lambda data: [data.to("meta").device, data.to("meta").batch_size]),
    "detach": on(lambda data: data.detach()),
    "zero_": on(lambda data: data.zero_()),
    "apply": on(lambda data: data.apply(lambda value: value.float() + 1), leaf=numbers),
    "named_apply": on(lambda data: data.named_apply(lambda name, value: value.clone(), nested_keys=True)),
    "zeros_like": on(torch.zeros_like),
    "ones_like": on(torch.ones_like),
    "full_like": on(lambda data: torch.full_like(data, 1)),
}


# -- numbers -----------------------------------------------------------------------------------------------------------

UNARY = (
    "abs", "neg", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc", "lgamma", "reciprocal", "round", "ceil", "floor", "trunc", "frac",
    "sign", "isnan", "isfinite",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max")
OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "pow",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "iadd",
    "isub",
    "imul",
    "itruediv",
)
REDUCTIONS = ("sum", "mean", "prod", "std", "var", "nansum", "nanmean", "amin", "amax")
LOGICAL_REDUCTIONS = ("any", "all")


@st.composite
def _operand(data: Callable[..., Any], drawn: Drawn) -> Any:
    kind = data(st.sampled_from(("number", "tensor", "same keys", "other keys")))
    if kind != "other keys":
        return (kind,)
    # tensors under other keys, and under the same keys of the same shape
    other = data(draw.trees(2, 0, leaf=numbers, min_leaves=1, objects=False))
    entries: dict[str, Any] = {}
    for key, leaf in other.entries.items():
        entry = drawn.tree.entries.get(key, leaf)
        entries[key] = draw.Leaf(entry.rest, leaf.dtype, leaf.start) if isinstance(entry, draw.Leaf) else entry
    return (draw.Tree(entries),)


def _built(data: Any, library: Any, operand: Any) -> Any:
    if operand == "number":
        return 2
    if operand == "tensor":
        return torch.full(tuple(data.batch_size), 2.0)
    return data.clone() if operand == "same keys" else operand.build(data.batch_size, None, library)


def _binary(name: str) -> Operation:
    def call(data: Any, library: Any, operand: Any) -> Any:
        return getattr(data, name)(_built(data, library, operand))

    return Operation(_operand, call, leaf=numbers, objects=False)


def _operator(name: str, reflected: bool) -> Operation:
    function = getattr(operator, name)

    def call(data: Any, library: Any, operand: Any) -> Any:
        other = _built(data, library, operand)
        return function(other, data) if reflected else function(data, other)

    return Operation(_operand, call, leaf=numbers, objects=False)


@st.composite
def _reduction_arguments(data: Callable[..., Any], drawn: Drawn) -> Any:
    ndim = len(drawn.batch_size)
    options: dict[str, Any] = {}
    dims = st.just(None) | st.just("feature")
    if ndim:
        dims = dims | draw.dims(ndim) | st.sets(st.integers(0, ndim - 1), min_size=1).map(tuple)
    dim = data(dims)
    if dim is not None:
        options["dim"] = dim
    if dim != "feature" and data(st.booleans()):
        options["keepdim"] = True
    return (options,)


NUMBERS = {
    **{name: on(lambda data, name=name: getattr(data, name)(), leaf=numbers) for name in UNARY},
    **{
        f"{name}_": on(lambda data, name=name: getattr(data, f"{name}_")(), leaf=numbers, objects=False)
        for name in UNARY
        if name not in ("isnan", "isfinite")
    },
    **{f"{name}(other)": _binary(name) for name in BINARY},
    **{f"data {name} other": _operator(name, False) for name in OPERATORS},
    **{f"other {name} data": _operator(name, True) for name in ("add", "sub", "mul", "truediv")},
    **{
        name: Operation(
            _reduction_arguments,
            lambda data, library, options, name=name: getattr(data, name)(**options),
            leaf=numbers,
            objects=False,
        )
        for name in REDUCTIONS
    },
    **{
        name: Operation(
            lambda drawn: st.sampled_from([{}, *({"dim": d} for d in range(len(drawn.batch_size)))]).map(
                lambda o: (o,)
            ),
            lambda data, library, options, name=name: getattr(data, name)(**options),
            leaf=numbers,
            objects=False,
        )
        for name in LOGICAL_REDUCTIONS
    },
}

# -- dimension names ---------------------------------------------------------------------------------------------------

NAMED = ("time", "batch", "env", "head", "other")


def _names(drawn: Drawn) -> st.SearchStrategy[Any]:
    """Names for the batch, mostly; sometimes too few, or one of them twice."""
    ndim = len(drawn.batch_size)
    return draw.names(ndim) | draw.names(ndim) | st.lists(st.sampled_from(NAMED), max_size=ndim)


def _refining(drawn: Drawn) -> st.SearchStrategy[Any]:
    own = drawn.names or [None] * len(drawn.batch_size)
    return st.tuples(*[st.just(name) | st.sampled_from(NAMED) for name in own]) | st.integers(0, len(own)).map(
        lambda cut: (*own[:cut], ...)
    )


@st.composite
def _other_batch_size(data: Callable[..., Any], drawn: Drawn) -> Any:
    size = drawn.batch_size
    return (data(st.sampled_from([size[:n] for n in range(len(size) + 1)] + [(*size, 1), (*size, 2)])),)


@st.composite
def _named_part(data: Callable[..., Any], drawn: Drawn) -> Any:
    more = data(draw.shapes(max_dims=1, min_size=1))
    return more, data(draw.names_or_none(len(drawn.batch_size) + len(more)))


def _set_attribute(name: str) -> Callable[..., Any]:
    def call(data: Any, library: Any, value: Any) -> Any:
        setattr(data, name, value)
        return data

    return call


def _set_part(data: Any, library: Any, more: Size, names: Any) -> Any:
    size = [*data.batch_size, *more]
    data["part"] = library.TensorDict({"a": torch.zeros(size)}, batch_size=size, names=names)
    return data


def _resized_twice(data: Any, library: Any, size: Size) -> Any:
    own = data.batch_size
    data.batch_size = size
    data.batch_size = own
    return data


DIMENSION_NAMES = {
    "names =": Operation(lambda drawn: st.tuples(_names(drawn) | st.none()), _set_attribute("names")),
    "rename": Operation(_names, lambda data, library, *names: [data.rename(*names), data], batch_dims=1),
    "rename_": Operation(_names, _then(lambda data, *names: data.rename_(*names)), batch_dims=1),
    "rename one": Operation(
        lambda drawn: st.tuples(st.dictionaries(st.sampled_from(NAMED), st.sampled_from(NAMED), max_size=2)),
        lambda data, library, mapping: [data.rename(**mapping), data],
        batch_dims=1,
    ),
    "refine_names": Operation(_refining, _then(lambda data, *names: data.refine_names(*names)), batch_dims=1),
    "batch_size =": Operation(_other_batch_size, _set_attribute("batch_size"), objects=False),
    "batch_size = and back": Operation(_other_batch_size, _resized_twice, objects=False),
    "auto_batch_size_": Operation(
        lambda drawn: st.tuples(st.none() | st.integers(0, 3)),
        lambda data, library, dims: data.auto_batch_size_(dims),
        objects=False,
    ),
    "a part with names": Operation(_named_part, _set_part),
    "empty of a size": Operation(
        lambda drawn: st.tuples(draw.shapes(max_dims=4)), lambda data, library, size: data.empty(batch_size=size)
    ),
}

OPERATIONS = {**SHAPING, **ROWS, **COMBINING, **DICT, **EACH_VALUE, **NUMBERS, **DIMENSION_NAMES}
