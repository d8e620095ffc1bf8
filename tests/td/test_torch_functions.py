"""A torch function called on a collection is the method of the collection."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorCollection, TensorDict, stack
from tensorclass.td.foreach import SINGLE
from tensorclass.td.operations import OPERATIONS
from tensorclass.td.torch_functions import HANDLERS
from tests.checks import assert_equal, outcome
from tests.operations import POINTWISE
from tests.samples import Unchanged, nested

BATCH = (2, 3)
MASK = torch.tensor([[True, False, True], [False, True, False]])


def collection(dtype: torch.dtype = torch.float32, start: float = 0.1) -> TensorDict:
    values = lambda *rest: torch.linspace(start, start + 0.8, 6 * (rest[0] if rest else 1)).reshape(*BATCH, *rest)
    convert = lambda x: x.to(dtype) if dtype.is_floating_point else (x * 10).round().to(dtype)
    return TensorDict({"a": convert(values()), "b": {"c": convert(values(4))}, "text": "t"}, BATCH, names=["row", None])


#: what functions take behind the collection, by keyword as torch calls them; one entry is enough where none is needed
KEYWORDS: dict[str, dict[str, Any]] = {
    "broadcast_to": {"size": (4, 2, 3)},
    "chunk": {"chunks": 2, "dim": 1},
    "clamp": {"min": 0.2, "max": 0.6},
    "cummax": {"dim": 1},
    "cummin": {"dim": 1},
    "cumprod": {"dim": 1, "dtype": torch.float64},
    "cumsum": {"dim": 1, "dtype": torch.float64},
    "flatten": {"start_dim": 0, "end_dim": 1},
    "flip": {"dims": (0, 1)},
    "gather": {"dim": 1, "index": torch.tensor([[0, 2], [1, 1]])},
    "lerp": {"end": collection(start=0.3), "weight": 0.25},
    "logsumexp": {"dim": 1, "keepdim": True},
    "masked_fill": {"mask": MASK, "value": 7},
    "masked_fill_": {"mask": MASK, "value": 7},
    "masked_select": {"mask": MASK},
    "max": {"dim": 1},
    "min": {"dim": 1, "keepdim": True},
    "moveaxis": {"source": 0, "destination": 1},
    "movedim": {"source": 0, "destination": 1},
    "narrow": {"dim": 1, "start": 1, "length": 2},
    "permute": {"dims": (1, 0)},
    "quantile": {"q": 0.5, "dim": 1, "keepdim": True, "interpolation": "lower"},
    "repeat_interleave": {"repeats": 2, "dim": 1},
    "reshape": {"shape": (3, 2)},
    "roll": {"shifts": 1, "dims": 1},
    "rot90": {"k": 1, "dims": (0, 1)},
    "softmax": {"dim": 1, "dtype": torch.float64},
    "split": {"split_size_or_sections": 2, "dim": 1},
    "squeeze": {"dim": 1},
    "std": {"dim": 1, "correction": 0, "keepdim": True},
    "sum": {"dim": 1, "keepdim": True, "dtype": torch.float64},
    "mean": {"dim": (0, 1), "keepdim": True, "dtype": torch.float64},
    "swapaxes": {"axis0": 0, "axis1": 1},
    "swapdims": {"dim0": 0, "dim1": 1},
    "tensor_split": {"sections": 2, "dim": 1},
    "tile": {"dims": (2, 1)},
    "transpose": {"dim0": 0, "dim1": 1},
    "unbind": {"dim": 1},
    "unflatten": {"dim": 1, "sizes": (3, 1)},
    "unsqueeze": {"dim": 1},
    "var": {"dim": 1, "correction": 0, "keepdim": True},
    "all": {"dim": 1, "keepdim": True},
    "any": {"dim": 1, "keepdim": True},
    "amax": {"dim": (0, 1), "keepdim": True},
    "amin": {"dim": 1},
    "prod": {"dim": 1, "keepdim": True},
    "nansum": {"dim": 1, "keepdim": True},
    "nanmean": {"dim": 1, "keepdim": True},
    "addcmul": {"tensor1": collection(start=0.3), "tensor2": collection(start=0.5), "value": 2},
    "addcdiv": {"tensor1": collection(start=0.3), "tensor2": collection(start=0.5), "value": 2},
    "clamp_max": {"max": 0.5},
    "clamp_min": {"min": 0.5},
    "pow": {"exponent": 2},
    "add": {"other": collection(start=0.3), "alpha": 2},
    "sub": {"other": collection(start=0.3), "alpha": 2},
    "rsub": {"other": collection(start=0.3), "alpha": 2},
}
BY_KEYWORD_ONLY = {
    *((name, "dtype") for name in KEYWORDS),
    *((name, "alpha") for name in ("add", "sub", "rsub")),
    *((name, "value") for name in ("addcmul", "addcdiv")),
    *((name, key) for name in ("std", "var", "quantile") for key in ("correction", "keepdim", "interpolation")),
}
SPECIAL = {"stack", "cat", "concat", "concatenate", "where", "take", "norm", "randint_like", "full_like"}
DTYPES = (torch.float32, torch.int64, torch.bool)


def operands(name: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """The positional arguments behind the collection."""
    if name in KEYWORDS:
        return tuple(value for key, value in KEYWORDS[name].items() if (name, key) not in BY_KEYWORD_ONLY)
    if name not in POINTWISE:
        return ()
    parameters = list(inspect.signature(getattr(TensorDict, name)).parameters.values())[1:]
    return tuple(collection(dtype, 0.3) for p in parameters if p.default is p.empty)


def assert_same(result: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert type(result) is type(wanted)
        assert len(result) == len(wanted)
        for one, other in zip(result, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, TensorCollection):
        assert type(result) is type(wanted)
        assert_equal(result, wanted)
    else:
        assert result == wanted


ALIASES = {alias: row.name for row in OPERATIONS for alias in row.aliases}


def name_of(function: Callable[..., Any]) -> str:
    name = function.__name__
    return ALIASES.get(name, name)


IN_TORCH = {
    function.__name__: function
    for function in HANDLERS
    if getattr(torch, function.__name__, None) is function and not function.__name__.startswith("_")
}
NORMAL = [name for name in IN_TORCH if name not in SPECIAL and not name.endswith("_like")]


def test_the_table_has_the_functions_of_the_torch_namespace() -> None:
    assert len(IN_TORCH) > 150
    assert {row.name for row in OPERATIONS if row.in_torch and hasattr(torch, row.name)} <= set(IN_TORCH)


@pytest.mark.parametrize("name", NORMAL)
def test_a_torch_function_is_the_method(name: str) -> None:
    method = name_of(IN_TORCH[name])
    for dtype in DTYPES:
        args = operands(method, dtype)
        wanted = outcome(lambda args=args, dtype=dtype: getattr(collection(dtype), method)(*args))
        if not isinstance(wanted, Exception):
            data = collection(dtype)
            result = IN_TORCH[name](data, *args)
            assert_same(result, wanted)
            assert result is data or not name.endswith("_")
            return
    pytest.fail("no dtype worked")


@pytest.mark.parametrize("name", [name for name in NORMAL if name in KEYWORDS])
def test_a_torch_function_takes_its_arguments_by_keyword(name: str) -> None:
    kwargs = KEYWORDS[name]
    dtype = torch.bool if name in ("all", "any") else torch.float32
    plain = outcome(lambda: IN_TORCH[name](torch.ones(*BATCH), **{k: _leaf(v) for k, v in kwargs.items()}))
    assert not isinstance(plain, Exception), "torch itself takes these"
    data = collection(dtype)
    with Unchanged(data):
        result = IN_TORCH[name](data, **kwargs)
    try:
        assert_same(result, IN_TORCH[name](input=data, **kwargs))
    except TypeError as error:
        assert "input" in str(error)  # noqa: PT017 - functions written in Python may call it otherwise
    for key, leaf in data.items(True, True):
        wanted = IN_TORCH[name](leaf, **{k: _leaf(v, key) for k, v in kwargs.items()}) if _fits(name, leaf) else None
        if isinstance(wanted, Tensor):
            torch.testing.assert_close(result[key], wanted)
        elif wanted is not None:
            for one, other in zip(result, wanted, strict=True):
                torch.testing.assert_close(one[key], other)


def _leaf(value: Any, key: Any = "a") -> Any:
    return value[key] if isinstance(value, TensorDict) else value


def _fits(name: str, leaf: Tensor) -> bool:
    """Whether torch does the same on a tensor with more dimensions."""
    shapes = ("broadcast_to", "flatten", "gather", "masked_fill", "masked_select", "permute", "reshape", "tile")
    return leaf.ndim == 2 or name not in shapes


TENSOR_METHODS = [function for function in HANDLERS if getattr(Tensor, function.__name__, None) is function]
RIGHT = {
    f"__r{name}__" for name in ("add", "sub", "mul", "div", "truediv", "pow", "floordiv", "mod", "and", "or", "xor")
}


@pytest.mark.parametrize("function", TENSOR_METHODS, ids=lambda f: f.__name__)
def test_a_tensor_method_is_answered_by_the_method(function: Any) -> None:
    name = name_of(function)
    method = {"__div__": "__truediv__", "__rdiv__": "__rtruediv__"}.get(name, name)
    for dtype in DTYPES:
        args = operands(method, dtype) if not method.startswith("__") else (collection(dtype, 0.3)["a"],)
        wanted = outcome(lambda args=args, dtype=dtype: getattr(collection(dtype), method)(*args))
        if not isinstance(wanted, Exception):
            data = collection(dtype)
            assert_same(TensorDict.__torch_function__(function, (TensorDict,), (data, *args)), wanted)
            return
    pytest.fail("no dtype worked")


# -- functions of their own -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_stack(dim: int) -> None:
    items = [collection(start=start) for start in (0.1, 0.2, 0.3)]
    assert_equal(torch.stack(items, dim), stack(items, dim))
    assert_equal(torch.stack(tuple(items), dim=dim), stack(items, dim))


@pytest.mark.parametrize("function", [torch.cat, torch.concat, torch.concatenate], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(function: Any, dim: int) -> None:
    items = [collection(start=start) for start in (0.1, 0.2, 0.3)]
    assert_equal(function(items, dim), TensorDict.cat(items, dim))
    assert_equal(function(items, dim=dim), TensorDict.cat(items, dim))


def test_stack_and_cat_write_to_out() -> None:
    items = [nested(), nested() * 2]
    for function, wanted in ((torch.stack, stack(items)), (torch.cat, TensorDict.cat(items))):
        out = wanted * 0
        tensors = list(out.values(True, True))
        assert function(items, out=out) is out
        assert all(a is b for a, b in zip(out.values(True, True), tensors, strict=True))
        assert_equal(out, wanted)


@pytest.mark.parametrize("function", [torch.stack, torch.cat], ids=lambda f: f.__name__)
def test_a_tensor_among_the_collections_is_a_type_error(function: Any) -> None:
    for items in ([nested(), torch.ones(3)], [torch.ones(3), nested()]):
        with pytest.raises(TypeError, match="is a Tensor"):
            function(items)


def test_where() -> None:
    data, other = collection(), collection(start=0.3)
    chosen = torch.where(MASK, data, other)
    for key, leaf in data.items(True, True):
        mask = MASK.reshape(*BATCH, *[1] * (leaf.ndim - 2))
        assert torch.equal(chosen[key], torch.where(mask, leaf, other[key]))
        assert torch.equal(torch.where(MASK, data, 0.0)[key], torch.where(mask, leaf, 0.0))
        assert torch.equal(torch.where(MASK, 0.0, data)[key], torch.where(mask, 0.0, leaf))
    assert chosen["text"] == "t"


def test_take_counts_the_items_in_one_row_as_torch_does() -> None:
    data, index = collection(), torch.tensor([[0, 5], [2, 2]])
    result = torch.take(data, index)
    assert result.batch_size == (2, 2)
    assert torch.equal(result["a"], torch.take(data["a"], index))
    assert torch.equal(result["b", "c"], data["b", "c"].reshape(6, 4)[index])


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_two_operands(name: str) -> None:
    data, other = collection(), collection(start=0.3)
    function, method = getattr(torch, name), f"{name}imum"
    assert_equal(function(data, other), getattr(data, method)(other))
    assert_equal(function(data, other["a"]), getattr(data, method)(other["a"]))
    assert_equal(function(other["a"], data), getattr(data, method)(other["a"]))
    assert_equal(function(data), getattr(data, name)())


def test_norm_is_euclidean() -> None:
    data = collection()
    assert_equal(torch.norm(data), data.norm())
    assert_equal(torch.norm(data, 2, dtype=torch.float64), data.norm(dtype=torch.float64))
    for args in ((1,), ("fro", 0)):
        with pytest.raises(TypeError, match="norm"):
            torch.norm(data, *args)


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like"])
def test_like_functions(name: str) -> None:
    data = collection()
    args = (5,) if name == "full_like" else ()
    result = getattr(torch, name)(data, *args, dtype=torch.int32)
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], getattr(torch, name)(leaf, *args, dtype=torch.int32))
    assert (result.batch_size, result.names, result["text"]) == (data.batch_size, data.names, "t")


def test_softmax_of_nn_functional() -> None:
    data = collection()
    assert_equal(torch.nn.functional.softmax(data, dim=1), data.softmax(1))
    assert_equal(torch.nn.functional.softmax(data, 0, dtype=torch.float64), data.softmax(0, torch.float64))


LOSSES = ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_the_loss_of_each_value(name: str, reduction: str) -> None:
    function = getattr(torch.nn.functional, name)
    data, target = collection(), collection(start=0.3)
    options: dict[str, Any] = {"beta": 0.05} if name == "smooth_l1_loss" else {}
    result = function(data, target, reduction=reduction, **options)
    assert result.batch_size == (BATCH if reduction == "none" else ())
    assert result.names == (data.names if reduction == "none" else [])
    assert result["text"] == "t"
    for key, leaf in data.items(True, True):
        torch.testing.assert_close(result[key], function(leaf, target[key], reduction=reduction, **options))
    assert_equal(function(input=data, target=target, reduction=reduction, **options), result)


def test_the_target_and_the_weight_of_a_loss_may_be_tensors_over_the_batch() -> None:
    data, target, weight = collection(), torch.rand(BATCH), torch.rand(BATCH)
    result = torch.nn.functional.mse_loss(data, target, weight=weight)
    for key, leaf in data.items(True, True):
        rest = [1] * (leaf.ndim - 2)
        whole = [tensor.reshape(*BATCH, *rest).expand(leaf.shape) for tensor in (target, weight)]
        torch.testing.assert_close(result[key], torch.nn.functional.mse_loss(leaf, whole[0], weight=whole[1]))
    weights = collection(start=0.5)
    result = torch.nn.functional.huber_loss(data, data * 2, weight=weights)
    wanted = torch.nn.functional.huber_loss(data["b", "c"], data["b", "c"] * 2, weight=weights["b", "c"])
    torch.testing.assert_close(result["b", "c"], wanted)


def test_a_loss_takes_the_arguments_that_reduction_replaced() -> None:
    data, target = collection(), collection(start=0.3)
    loss = torch.nn.functional.mse_loss
    assert_equal(loss(data, target, size_average=False), loss(data, target, reduction="sum"))
    assert_equal(loss(data, target, None, False), loss(data, target, reduction="none"))


def test_a_loss_says_what_is_wrong() -> None:
    data, loss = collection(), torch.nn.functional.mse_loss
    with pytest.raises(ValueError, match="'none', 'mean' or 'sum', got 'all'"):
        loss(data, data, reduction="all")
    with pytest.raises(TypeError, match=r"target: expected a collection, .* got 1\.0"):
        loss(data, 1.0)
    with pytest.raises(KeyError, match="differ in their keys"):
        loss(data, data.select("a"))


def test_a_loss_of_records_is_a_record() -> None:
    class Record(TensorClass):
        x: Tensor
        y: Tensor

    record = Record(torch.rand(3, 2), torch.rand(3), batch_size=[3])
    loss = torch.nn.functional.mse_loss(record, record * 2)
    assert type(loss) is Record
    assert loss.batch_size == ()
    torch.testing.assert_close(loss.x, torch.nn.functional.mse_loss(record.x, record.x * 2))


# -- out= and options that the methods do not have --------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda d, **out: torch.abs(d, **out),
        lambda d, **out: torch.add(d, d, alpha=2, **out),
        lambda d, **out: torch.mul(d["a"], d, **out),
        lambda d, **out: torch.sum(d, 0, **out),
        lambda d, **out: torch.std(d, 0, **out),
        lambda d, **out: torch.norm(d, **out),
        lambda d, **out: torch.logsumexp(d, 1, **out),
        lambda d, **out: torch.gather(d, 1, torch.tensor([[0, 2], [1, 1]]), **out),
        lambda d, **out: torch.div(d, 2, rounding_mode="floor", **out),
        lambda d, **out: torch.clamp(d, 0.2, 0.4, **out),
    ],
)
def test_out_is_written_in_place(call: Any) -> None:
    data = collection()
    wanted = call(data)
    out = wanted * 0
    tensors = list(out.values(True, True))
    assert call(data, out=out) is out
    assert all(a is b for a, b in zip(out.values(True, True), tensors, strict=True))
    assert_equal(out, wanted)


def test_out_of_two_results_is_a_collection_for_each() -> None:
    data = collection()
    wanted = torch.max(data, 1)
    out = tuple(part * 0 for part in wanted)
    result = torch.max(data, 1, out=out)
    assert type(result) is type(wanted)
    for part, target, expected in zip(result, out, wanted, strict=True):
        assert part is target
        assert_equal(part, expected)
    with pytest.raises(TypeError, match="expected the form of the result"):
        torch.max(data, 1, out=out[:1])


def test_out_of_another_batch_size_is_an_error_and_stays_as_it_was() -> None:
    data = collection()
    out = collection(start=0.7)
    with Unchanged(out), pytest.raises(RuntimeError, match=r"expected the batch size of the result, \[3\]"):
        torch.sum(data, 0, out=out)


@pytest.mark.parametrize("name", ["std", "var"])
def test_std_and_var_take_unbiased_wherever_torch_does(name: str) -> None:
    function, data = getattr(torch, name), collection()
    for args, kwargs in (
        ((0, False), {}),
        ((0, True, True), {}),
        ((0,), {"unbiased": False}),
        ((0,), {"correction": 0}),
    ):
        result = function(data, *args, **kwargs)
        for key, leaf in data.items(True, True):
            torch.testing.assert_close(result[key], function(leaf, *args, **kwargs))
    torch.testing.assert_close(function(data, False)["a"], function(data["a"], False))


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_div_takes_a_rounding_mode(mode: Any) -> None:
    data, other = collection(), collection(start=-0.37)
    for operand in (other, 0.3, other["a"]):
        result = torch.div(data, operand, rounding_mode=mode)
        torch.testing.assert_close(result["a"], torch.div(data["a"], _leaf(operand), rounding_mode=mode))
        whole = operand["b", "c"] if operand is other else operand if isinstance(operand, float) else operand[..., None]
        torch.testing.assert_close(result["b", "c"], torch.div(data["b", "c"], whole, rounding_mode=mode))
        assert result["text"] == "t"


def test_round_takes_decimals() -> None:
    data = collection()
    result = torch.round(data, decimals=1)
    assert result["text"] == "t"
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], torch.round(leaf, decimals=1))
    assert_equal(torch.round(input=data, decimals=1), result)


SPECIAL_FUNCTIONS = [row.name for row in OPERATIONS if row.in_torch and hasattr(torch.special, row.name)]


@pytest.mark.parametrize("name", [*ALIASES, *SPECIAL_FUNCTIONS])
def test_an_alias_is_the_same_function(name: str) -> None:
    plain = getattr(torch, ALIASES.get(name, name))
    owners = (torch, Tensor, torch.special) if name in ALIASES else (torch.special,)
    aliases = [getattr(owner, name) for owner in owners if hasattr(owner, name)]
    assert aliases
    args = (1,) if name in ("softmax", "logsumexp") else (2,) if name == "clip" or _takes_two(plain.__name__) else ()
    tensor = torch.linspace(0.1, 0.9, 6).reshape(BATCH)
    for alias in aliases:
        assert HANDLERS[alias] is HANDLERS[plain]
        assert torch.equal(alias(tensor, *args), plain(tensor, *args))


def _takes_two(name: str) -> bool:
    return len(operands(name, torch.float32)) > 0 and name in POINTWISE


@pytest.mark.parametrize("name", [name for name in ALIASES if hasattr(Tensor, name) and _takes_two(ALIASES[name])])
def test_an_alias_of_a_tensor_method_takes_a_collection(name: str) -> None:
    data, tensor = collection(), torch.full(BATCH, 0.3)
    assert_equal(getattr(tensor, name)(data), getattr(torch, name)(tensor, data))


# -- a tensor on the left ---------------------------------------------------------------------------------------------

TWO = ["add", "sub", "rsub", "mul", "div", "true_divide", "pow", "floor_divide", "remainder", "maximum", "minimum"]
TWO += ["eq", "ne", "lt", "le", "gt", "ge"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"]


@pytest.mark.parametrize("name", TWO + BITS)
def test_a_function_of_two_operands_takes_the_tensor_first(name: str) -> None:
    data = collection(torch.int64 if name in BITS else torch.float32)
    tensor = collection(torch.int64 if name in BITS else torch.float32, 0.3)["a"]
    function = getattr(torch, name)
    for call in (lambda t, d: function(t, d), lambda t, d: getattr(t, name)(d) if hasattr(t, name) else function(t, d)):
        result = call(tensor, data)
        assert type(result) is TensorDict
        for key, leaf in data.items(True, True):
            left = tensor.reshape(*BATCH, *[1] * (leaf.ndim - 2))
            torch.testing.assert_close(result[key], function(left, leaf))


@pytest.mark.parametrize("name", ["add", "sub", "rsub"])
def test_alpha_goes_with_the_second_operand(name: str) -> None:
    data, tensor = collection(), collection(start=0.3)["a"]
    result = getattr(torch, name)(tensor, data, alpha=2)
    torch.testing.assert_close(result["a"], getattr(torch, name)(tensor, data["a"], alpha=2))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, d: torch.fmod(x, d),
        lambda x, d: torch.clamp_min(x, d),
        lambda x, d: torch.clamp(x, d),
        lambda x, d: torch.lerp(x, d, 0.5),
        lambda x, d: torch.addcmul(x, d, d),
        lambda x, d: torch.gather(x, 0, d),
        lambda x, d: torch.masked_fill(x, d, 0),
        lambda x, d: x.add_(d),
        lambda x, d: x.mul_(d),
        lambda x, d: x.pow_(d),
    ],
)
def test_what_a_tensor_cannot_do_with_a_collection_is_a_type_error(call: Any) -> None:
    with pytest.raises(TypeError):
        call(torch.rand(BATCH), collection())


# -- foreach ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", SINGLE, ids=lambda kernel: kernel.__name__)
def test_a_foreach_kernel_takes_collections_among_tensors(kernel: Any) -> None:
    single = {"add_": "add", "zero_": "zero_"}.get(SINGLE[kernel], SINGLE[kernel])
    count = len(operands({"clamp_min_": "clamp_min_"}.get(single, single), torch.float32))
    count = 2 if single in ("addcmul", "addcmul_", "addcdiv", "addcdiv_", "lerp", "lerp_") else count
    items: list[Any] = [collection(), collection()["a"].clone(), TensorDict({"z": {}}, [2])]
    others = [[collection(start=0.3), collection(start=0.3)["a"], items[2]] for _ in range(count)]
    wanted = [
        outcome(lambda i=i: getattr(items[i].clone(), single)(*[other[i] for other in others]))
        for i in range(len(items))
    ]
    result = kernel(items, *others)
    for one, other in zip(result or items, wanted, strict=True):
        if isinstance(other, Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert_equal(one, other)


# -- what is not there ------------------------------------------------------------------------------------------------

UNSUPPORTED: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda d: torch.matmul(d, d),
    "sort": torch.sort,
    "argmax": torch.argmax,
    "unique": torch.unique,
    "relu": torch.nn.functional.relu,
    "linear": lambda d: torch.nn.functional.linear(d, torch.ones(2, 3)),
    "inv": torch.linalg.inv,
    "hstack": lambda d: torch.hstack([d, d]),
    "equal": lambda d: torch.equal(d, d),
    "a norm of order 1": lambda d: torch.norm(d, 1),
    "a loss of a tensor and a collection": lambda d: torch.nn.functional.mse_loss(torch.ones(2, 3), d),
    "@": lambda d: d @ d,
    "tensor @": lambda d: torch.ones(2, 2) @ d,
    "index_select": lambda d: torch.index_select(d, 0, torch.tensor([0])),
}


@pytest.mark.parametrize("call", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_a_function_without_a_handler_is_a_type_error(call: Any) -> None:
    data = collection()
    with Unchanged(data), pytest.raises(TypeError):
        call(data)


def test_the_type_error_names_the_function_and_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"torch\.matmul is not defined for a TensorDict; .* data\.apply"):
        torch.matmul(collection(), collection())
    with pytest.raises(TypeError, match=r"use data\.apply\(torch\.relu\)"):
        torch.relu(collection())
    with pytest.raises(TypeError, match=r"these arguments of torch\.norm are not supported"):
        torch.norm(collection(), 1)
    with pytest.raises(TypeError, match=r"torch\.Tensor\.add_ of a tensor does not take a TensorDict"):
        torch.ones(2, 3).add_(collection())


@pytest.mark.parametrize("target", [torch.zeros(3, dtype=torch.int64), nn.Parameter(torch.zeros(3))])
def test_a_function_that_gets_a_tensor_beside_a_collection_says_what_to_do(target: Tensor) -> None:
    data: Any = TensorDict(logits=torch.zeros(3, 4), batch_size=[3])
    with pytest.raises(
        TypeError, match=r"cross_entropy is not defined for a TensorDict; give it tensors, .* data\.apply"
    ):
        nn.functional.cross_entropy(data, target)


def test_the_type_error_names_the_class_of_a_record() -> None:
    class Record(TensorClass):
        x: Tensor

    with pytest.raises(TypeError, match="not defined for a Record"):
        torch.relu(Record(torch.ones(3), batch_size=[3]))


def test_a_function_that_is_not_taken_is_left_to_the_other_type() -> None:
    class Other:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "from the other type"

    assert torch.matmul(collection(), Other()) == "from the other type"  # type: ignore[call-overload]


def test_a_record_answers_as_its_class() -> None:
    class Record(TensorClass):
        x: Tensor

    record = Record(torch.ones(3), batch_size=[3])
    for result in (torch.stack([record, record]), torch.exp(record), torch.zeros_like(record), torch.sum(record, 0)):
        assert type(result) is Record


def test_an_exception_in_a_method_comes_through() -> None:
    with pytest.raises(IndexError, match="batch dimension out of range"):
        torch.sum(collection(), 5)
