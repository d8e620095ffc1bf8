"""Point-wise operations: native code gives what the Python code gives, bit by bit, and its errors."""

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from tensorclass import TensorClass, TensorDict
from tensorclass.td import native
from tests.native_code import functions


class Inner(TensorClass):
    x: Tensor
    y: Tensor


class Outer(TensorClass):
    inner: Inner
    z: Tensor


def make(dtype: torch.dtype = torch.float32, form: str = "nested", shift: int = 0) -> Any:
    """Data of the batch size [4]: values with signs, zeros, and (if the dtype has them) NaN and infinities."""
    random = torch.Generator().manual_seed(shift)

    def values(*shape: int) -> Tensor:
        drawn = torch.randn(4, *shape, generator=random) * 3
        if dtype.is_floating_point:
            drawn.view(-1)[:3] = torch.tensor([0.0, float("nan"), float("inf")]).roll(shift)
        return drawn.to(dtype)

    if form == "record":
        return Outer(inner=Inner(x=values(3), y=values(), batch_size=[4]), z=values(2, 2).mT, batch_size=[4])
    if form == "flat":
        return TensorDict({"a": values(), "b": values(3)}, [4], names=["row"])
    inner = TensorDict({"b": values(3), "c": values(2)}, [4], device="cpu")
    deep = TensorDict({"d": values(2, 2)}, [4, 2], names=["row", None])
    return TensorDict({"a": values(), "inner": inner, "deep": deep}, [4], names=["row"])


def state(value: Any) -> Any:
    """All that makes up a tensor or a collection, with the bits of the elements."""
    if isinstance(value, Tensor):
        seen = value.detach()
        bits = seen.flatten().clone().view(torch.uint8).tolist()
        version = value._version if value.is_floating_point() else None  # torch makes some masks in two steps
        return bits, value.shape, value.dtype, value.stride(), value.grad_fn is None, value.is_inference(), version
    if isinstance(value, list):
        return [state(item) for item in value]
    if not isinstance(value, (TensorDict, TensorClass)):
        return value
    content = [(key, state(item)) for key, item in value._store.items()]
    return type(value), content, value.batch_size, type(value.batch_size), value.device, value.names, value._lock


def both(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> tuple[Any, Any]:
    """The state of a result, or the error, by native code (where it is built) and by Python."""
    found: list[Any] = []
    for on in (native.ON, False):
        monkeypatch.setattr(native, "ON", on)
        try:
            found.append(state(call()))
        except Exception as error:
            found.append((type(error), str(error)))
    monkeypatch.undo()
    return found[0], found[1]


DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64]
FORMS = ["flat", "nested", "record"]
UNARY = [
    "abs", "acos", "asin", "atan", "bitwise_not", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "lgamma", "log", "log10", "log1p", "log2",
    "logical_not", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "sub", "rsub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max", "remainder", "fmod",
    "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor", "eq", "ne",
    "lt", "le", "gt", "ge",
]  # fmt: skip
WRITES = ["add_", "sub_", "mul_", "div_", "pow_", "clamp_min_", "clamp_max_", "maximum_", "minimum_"]
REFLECTED = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv, operator.mod]


def operands(dtype: torch.dtype, form: str) -> Iterator[Any]:
    """Second operands of all sorts."""
    yield from (2, 0.1, -1, True, 1e300, 2**60 + 1, 2**80, float("nan"), "text", None)
    if dtype is not torch.float16:  # torch warns of complex numbers of half the precision, once
        yield 1 + 2j
    yield from (torch.tensor(2.5), torch.tensor(3), torch.tensor(0.1, dtype=torch.float64))
    yield from (torch.arange(4.0), torch.arange(4).to(dtype), torch.ones(1), torch.ones(3), torch.ones(2, 4))
    yield make(dtype, form, 1)
    yield make(torch.float64, form, 2)
    yield TensorDict({"other": torch.ones(4)}, [4])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_one_tensor(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, form: str) -> None:
    for name in UNARY:
        data = make(dtype, form)
        ours, python = both(monkeypatch, lambda data=data, name=name: getattr(data, name)())
        assert ours == python, name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_one_tensor_in_place(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, form: str) -> None:
    for name in (*[f"{name}_" for name in UNARY if hasattr(TensorDict, f"{name}_")], "zero_"):
        ours, python = both(monkeypatch, lambda name=name: getattr(make(dtype, form), name)())
        assert ours == python, name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_two_operands(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    form = "nested" if dtype in (torch.float32, torch.int64) else "flat"
    data = make(dtype, form)
    for other in operands(dtype, form):
        for name in BINARY:
            ours, python = both(monkeypatch, lambda name=name, other=other: getattr(data, name)(other))
            assert ours == python, (name, other)


@pytest.mark.parametrize("form", FORMS)
def test_numbers_and_tensors_on_the_left(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.int64):
        data = make(dtype, form)
        for left in (2, 0.3, torch.tensor(2.0), torch.arange(4.0)):
            for function in REFLECTED:
                ours, python = both(monkeypatch, lambda f=function, left=left, data=data: f(left, data))
                assert ours == python, (function, left)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_two_operands_in_place(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    form = "record" if dtype is torch.float32 else "flat"
    for other in operands(dtype, form):
        for name in WRITES:

            def call(name: str = name, other: Any = other) -> Any:
                data = make(dtype, form)
                try:
                    return getattr(data, name)(other)
                except Exception as error:
                    return [data, type(error), str(error)]

            ours, python = both(monkeypatch, call)
            assert ours == python, (name, other)


def test_strides_of_values_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = torch.arange(48.0)
    values = {
        "transposed": memory.view(8, 6).T[:4],
        "sliced": memory.view(6, 8)[:4, ::2],
        "expanded": torch.ones(1).expand(4),
        "column": torch.ones(4, 1),
        "odd column": memory.as_strided((4, 1), (1, 7)),
        "plane": torch.ones(4, 1, 3, 1),
        "odd plane": memory.as_strided((4, 1, 3, 1), (3, 5, 1, 9)),
        "empty": torch.empty(4, 0),
        "empty planes": torch.empty(4, 0, 3),
    }
    data, one = TensorDict(values, [4]), TensorDict({"row": torch.ones(1, 3), "plane": torch.ones(1, 3, 1, 2)}, [1])
    for x in (data, one):
        for call in (lambda x: x + 1, lambda x: x * x, lambda x: -x, lambda x: x > 0.5, lambda x: x**2):
            ours, python = both(monkeypatch, lambda x=x, call=call: call(x))
            assert ours == python


def test_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    data = TensorDict({"a": torch.randn(4, 5000), "b": torch.randn(4, 10)}, [4])
    for call in (lambda: data + 1, lambda: data * data, lambda: abs(data), lambda: data.clone().mul_(0.999)):
        ours, python = both(monkeypatch, call)
        assert ours == python


def test_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(function: Callable[[Any, Any], Any]) -> Any:
        x = TensorDict({"a": torch.linspace(0.1, 0.9, 4), "n": {"b": torch.ones(4, 3)}}, [4]).requires_grad_()
        y = TensorDict({"a": torch.linspace(0.2, 0.8, 4), "n": {"b": torch.full((4, 3), 0.5)}}, [4])
        y["a"].requires_grad_()
        result = function(x, y)
        sum(leaf.sum() for leaf in result._leaves() if leaf.requires_grad).backward()
        grads = TensorDict({"x": x.grad, "y": y["a"].grad, "result": result})
        return grads

    for function in (
        lambda x, y: x + y,
        lambda x, y: x * 2,
        lambda x, y: 3 - x,
        lambda x, y: x / y["a"],
        lambda x, y: x**2,
        lambda x, y: x.exp().tanh(),
        lambda x, y: (x * 2).mul_(y),
    ):
        ours, python = both(monkeypatch, lambda f=function: call(f))
        assert ours == python
        assert not isinstance(ours[0], type) or ours[0] is TensorDict, ours  # no error


def test_a_leaf_that_requires_a_gradient_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> Any:
        data = TensorDict({"a": torch.ones(4), "b": torch.ones(4, requires_grad=True)}, [4])
        with pytest.raises(RuntimeError, match="requires"):
            data.mul_(2)
        with pytest.raises(RuntimeError, match="requires"):
            data.zero_()
        return data

    ours, python = both(monkeypatch, call)
    assert ours == python
    assert ours[1][0][1][0] == state(torch.ones(4))[0]


def test_writes_to_overlapping_memory_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(name: str) -> Any:
        memory = torch.arange(10.0)
        data = TensorDict({"a": memory[:4], "b": torch.ones(1).expand(4)}, [4])
        other = TensorDict({"a": memory[2:6], "b": torch.ones(4)}, [4])
        getattr(data, name)(other)
        return data

    for name in ("add_", "mul_"):
        ours, python = both(monkeypatch, lambda name=name: call(name))
        assert ours == python
        assert ours[0] is RuntimeError


def test_transforms_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.linspace(0.1, 0.9, 12).view(3, 4), torch.ones(3, 4)

    def inner(a: Tensor, b: Tensor) -> Tensor:
        left = TensorDict({"v": a, "n": {"w": b}}, [4])
        result = (left * 2 + left).exp() - left**2
        result.add_(1.5)
        return result["v"].sum() + result["n", "w"].sum()

    for call in (
        lambda: torch.vmap(inner)(x, y),
        lambda: torch.func.grad(inner)(x[0], y[0]),
        lambda: torch.vmap(torch.func.grad(inner))(x, y),
        lambda: torch.func.jvp(inner, (x[0], y[0]), (y[0], y[0]))[1],
    ):
        ours, python = both(monkeypatch, call)
        assert ours == python
        assert isinstance(ours[0], (list, float)), ours


def test_forward_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> Any:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(4), torch.full((4,), 2.0))
            result = TensorDict({"a": dual}, [4]) * 3
            return forward_ad.unpack_dual(result["a"]).tangent

    ours, python = both(monkeypatch, call)
    assert ours == python == state(torch.full((4,), 6.0))


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.autograd.detect_anomaly])
def test_modes_of_autograd(monkeypatch: pytest.MonkeyPatch, context: Callable[[], AbstractContextManager[Any]]) -> None:
    outside = make()

    def call() -> Any:
        with context():
            data = make() + outside
            return TensorDict({"made": -data, "written": data.mul_(2), "outside": outside.clone().add_(1)}, [4])

    ours, python = both(monkeypatch, call)
    assert ours == python


def test_inference_tensors_are_written_only_in_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.inference_mode():
        data = TensorDict({"a": torch.ones(4)}, [4])
    for name in ("zero_", "exp_"):
        ours, python = both(monkeypatch, lambda name=name: getattr(data, name)())
        assert ours == python
        assert ours[0] is RuntimeError


class Seen(TorchDispatchMode):
    """Counts the results of operations that torch tells a mode."""

    def __init__(self) -> None:
        super().__init__()
        self.results = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.results += len(result) if isinstance(result, (list, tuple)) else 1
        return result


def test_a_dispatch_mode_sees_each_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> Any:
        data, mode = make(), Seen()
        with mode:
            _ = data + data
            _ = -data
        return mode.results

    ours, python = both(monkeypatch, call)
    assert ours == python == 8


def test_fake_and_meta_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> Any:
        with FakeTensorMode():
            result = (TensorDict({"a": torch.ones(4), "n": {"b": torch.ones(4, 2)}}, [4]) * 2 + 1).exp()
            return [(type(leaf).__name__, leaf.shape, leaf.dtype) for leaf in result._leaves()]

    ours, python = both(monkeypatch, call)
    assert ours == python
    meta = TensorDict({"a": torch.ones(4, device="meta")}, [4])
    for on_meta in (lambda: meta + 1, lambda: meta.mul_(2), lambda: meta > meta):
        assert on_meta()["a"].is_meta


def test_non_tensor_data_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    data = TensorDict({"a": torch.ones(4), "note": "text", "p": torch.nn.Parameter(torch.ones(4))}, [4])
    for call in (lambda: (data + 1)["note"], lambda: (-data)["p"], lambda: (data == data)["a"]):
        ours, python = both(monkeypatch, call)
        assert ours == python


def test_a_class_with_an_own_comparison_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(TensorDict):
        def __eq__(self, other: object) -> Any:
            return TensorDict({"same": torch.ones(4, dtype=torch.bool)}, [4])

        __hash__ = None  # type: ignore[assignment]

    data = TensorDict({"own": Own({"a": torch.zeros(4)}, [4])}, [4])
    assert list((data == data.clone())["own"].keys()) == ["same"]


def test_profilers_see_the_operations() -> None:
    data = TensorDict({"a": torch.ones(4)}, [4])
    with torch.profiler.profile() as profile:
        _ = data + 1
    assert any("add" in event.key for event in profile.key_averages())


def test_native_code_is_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    if not native.ON:
        pytest.skip("native code is not built")
    data = make()
    assert functions()["binary"](data, torch._foreach_add, 1) is not None
    assert functions()["binary"](data, operator.eq, data) is not None
    assert functions()["unary"](data, torch._foreach_exp) is not None
    assert functions()["unary_"](data.clone(), torch._foreach_exp_) is not None
    assert functions()["binary_"](data.clone(), torch._foreach_mul_, 2.0) is not None
    assert functions()["binary"](data, torch.dot, 1) is None
