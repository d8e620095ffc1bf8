"""Operations on the values: numbers, reductions, dtypes, devices, functions, new ones."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.parity.cases.shaping import dim, existing_dim
from tests.parity.drawn import Case, Drawn, Made, OnTheCollection, case, maybe, numbers

# -- numbers -----------------------------------------------------------------------------------------------------------

FUNCTIONS = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
TESTS = ("isfinite", "isnan", "isneginf", "isposinf", "isreal")
BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max")
OPERATORS = ("add", "sub", "mul", "truediv", "pow", "mod", "iadd", "isub", "imul", "itruediv", "ipow",
             "eq", "ne", "lt", "le", "gt", "ge")  # fmt: skip
REFLECTED = ("add", "sub", "mul", "truediv", "pow")
BITS = ("and", "xor", "or")


def _twice(data: Any) -> Any:
    return data + 0 if not data.is_empty() else data.clone()


SAME = OnTheCollection(lambda data: data.clone(), "a copy of it")


def over_the_batch(drawn: Drawn) -> st.SearchStrategy[torch.Tensor]:
    return st.just(torch.full(drawn.batch_size, 2.0))


@st.composite
def other_keys(data: Callable[..., Any], drawn: Drawn) -> Any:
    """Tensors under other keys, and under the same keys of the same shape."""
    other = data(draw.trees(2, 0, leaf=numbers, min_leaves=1, objects=False))
    entries: dict[str, Any] = {}
    for key, leaf in other.entries.items():
        entry = drawn.tree.entries.get(key, leaf)
        entries[key] = draw.Leaf(entry.rest, leaf.dtype, leaf.start) if isinstance(entry, draw.Leaf) else entry
    return Made(draw.Tree(entries), drawn.batch_size)


def operand(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.sampled_from((2, 0.5, SAME, SAME)) | over_the_batch(drawn) | other_keys(drawn)


def _operator(name: str, reflected: bool, numbers: bool = True) -> Case:
    function = getattr(operator, f"__{name}__")

    def call(data: Any, library: Any, other: Any) -> Any:
        return function(other, data) if reflected else function(data, other)

    return case(operand, call=call, numbers=numbers, objects=False)


def _computed(*sources: Any, **options: Any) -> Case:
    return case(*sources, numbers=True, objects=False, **options)


NUMBERS = {
    **{name: case(numbers=True) for name in (*FUNCTIONS, *TESTS)},
    **{f"{name}_": _computed() for name in FUNCTIONS},
    **{name: _computed(operand) for name in (*BINARY, "mod", "rsub")},
    **{f"{name}: with a default": _computed(operand, default=st.sampled_from((1.0, "intersection")))
       for name in BINARY},
    **{f"{name}_": _computed(operand) for name in BINARY},
    "add: alpha": _computed(operand, alpha=2),
    "add_: alpha": _computed(operand, alpha=2),
    "sub: alpha": _computed(operand, alpha=2),
    "sub_: alpha": _computed(operand, alpha=2),
    "clamp": _computed(maybe(1.0), max=maybe(3)),
    "lerp": _computed(operand, 0.5),
    "lerp_": _computed(operand, 0.5),
    "lerp: a weight each": _computed(SAME, SAME),
    **{f"{name}{place}": _computed(operand, operand, value=maybe(2))
       for name in ("addcmul", "addcdiv") for place in ("", "_")},
    "bitwise_and": case(operand, objects=False),
    "logical_and": case(operand, objects=False),
    **{f"__{name}__": _operator(name, False) for name in OPERATORS},
    **{f"__r{name}__": _operator(name, True) for name in REFLECTED},
    **{f"__{name}__": _operator(name, False, numbers=False) for name in BITS},
    **{f"__r{name}__": _operator(name, True, numbers=False) for name in BITS},
    "__neg__": _computed(call=lambda data, library: -data),
    "__abs__": _computed(call=lambda data, library: abs(data)),
    "__invert__": case(call=lambda data, library: ~data, objects=False),
}  # fmt: skip

# -- reductions --------------------------------------------------------------------------------------------------------


@st.composite
def _reduced(data: Callable[..., Any], drawn: Drawn) -> Any:
    dims = st.just(None) | st.just("feature") | dim(drawn)
    if drawn.ndim:
        dims = dims | draw.dims(drawn.ndim) | st.sets(st.integers(0, drawn.ndim - 1), min_size=1).map(tuple)
    return data(dims)


def _on_a_dim(**options: Any) -> Case:
    return _computed(existing_dim, dims=1, **options)


def _pair(name: str) -> Callable[..., Any]:
    return lambda data, library, *args, **kwargs: list(getattr(data, name)(*args, **kwargs))


REDUCTIONS = {
    **{name: _computed(dim=maybe(_reduced), keepdim=maybe(st.booleans()))
       for name in ("sum", "mean", "prod", "std", "var", "nansum", "nanmean", "amin", "amax")},
    **{f"{name}: of all": _computed(reduce=True) for name in ("sum", "mean", "prod", "std", "var", "amin", "amax")},
    "quantile": _computed(st.sampled_from((0.5, 0.0)), dim=maybe(_reduced), keepdim=maybe(st.booleans())),
    "any": case(maybe(dim), objects=False),
    "all": case(maybe(dim), objects=False),
    **{name: _on_a_dim(keepdim=maybe(st.booleans()), return_indices=maybe(st.booleans())) for name in ("max", "min")},
    **{f"{name}: of all": _computed() for name in ("max", "min")},
    **{name: _on_a_dim(return_indices=maybe(st.booleans())) for name in ("cummax", "cummin")},
    "softmax": _on_a_dim(),
    "logsumexp": _computed(maybe(existing_dim), keepdim=maybe(st.booleans())),
    "norm": _computed(),
}  # fmt: skip

# -- dtypes, devices, gradients ----------------------------------------------------------------------------------------

DTYPES = ("bfloat16", "bool", "complex128", "complex32", "complex64", "double", "float", "float16", "float32",
          "float64", "half", "int", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64",
          "uint8")  # fmt: skip

DEVICES = {
    **{name: case() for name in DTYPES},
    "type": case(torch.float64),
    "to: a dtype": case(torch.float64),
    "to: a device": case("cpu"),
    "to: another device": case("meta"),
    "to: another": case(SAME),
    "cpu": case(),
    "contiguous": case(),
    "detach": case(),
    "detach_": case(),
    "data": case(),
    "grad": case(),
    "requires_grad_": case(numbers=True),
    "zero_grad": case(),
    "zero_": case(),
    "clear_device_": case(),
    "auto_device_": case(),
    "auto_batch_size_": case(maybe(st.integers(0, 3))),
    "data_ptr": case(call=lambda data, library: data.data_ptr() is not None),
    "share_memory_": case(objects=False),  # each process has its own objects
    "batch_size: set": case(
        lambda d: st.just(d.batch_size[:-1]) | st.just((*d.batch_size, 2)) | draw.shapes(max_dims=2),
        call=lambda data, library, size: setattr(data, "batch_size", size),
    ),
}

# -- functions ---------------------------------------------------------------------------------------------------------


def _plus_one(value: torch.Tensor) -> torch.Tensor:
    return value.float() + 1


def _none_for_some(value: torch.Tensor) -> torch.Tensor | None:
    return None if value.dtype is torch.int64 else value.clone()


def _named(name: Any, value: torch.Tensor) -> torch.Tensor:
    return value.float() + len(name)


def _first_of_two(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.stack([value, other], -1)


def _in_place(value: torch.Tensor) -> None:
    value.zero_()


def _refused(value: torch.Tensor) -> torch.Tensor:
    raise LookupError("refused")


MAPPING = {
    "apply": case(st.sampled_from((_plus_one, _none_for_some, _refused, torch.clone)),
                  filter_empty=maybe(st.booleans()), inplace=maybe(st.booleans())),
    "apply: to two": case(st.just(_first_of_two), SAME),
    "apply: lock": case(st.just(_plus_one), propagate_lock=True),
    "apply: another batch": case(st.just(torch.sum), batch_size=[], names=None, numbers=True, objects=False),
    "apply_": case(st.sampled_from((_in_place, torch.clone))),
    "named_apply": case(st.just(_named), nested_keys=maybe(st.booleans())),
}  # fmt: skip

# -- new ones ----------------------------------------------------------------------------------------------------------

CREATION = {
    **{name: case(lambda d: draw.shapes(max_dims=2), dtype=maybe(torch.float64)) for name in ("new_zeros", "new_ones")},
    "new_full": case(lambda d: draw.shapes(max_dims=2), 3),
    "new_empty": case(
        lambda d: draw.shapes(max_dims=2),
        call=lambda data, library, size: data.new_empty(size).zero_(),
    ),
    "new_tensor": case(SAME),
    "__torch_function__: zeros_like": case(call=lambda data, library: torch.zeros_like(data)),
    "__torch_function__: ones_like": case(call=lambda data, library: torch.ones_like(data)),
    "__torch_function__: full_like": case(call=lambda data, library: torch.full_like(data, 1)),
    "expand_as: another": case(SAME),
}
