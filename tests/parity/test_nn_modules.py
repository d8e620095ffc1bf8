"""Modules on collections: the same networks on the same data in both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensordict.nn
import torch
from torch import Tensor, nn

import tensorclass.nn
from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

Call = Callable[[Any], Any]
X = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
ONE, TWO = torch.tensor(1.0), torch.tensor(2.0)


def source(m: Any, **more: Any) -> Any:
    return m.TensorDict({"a": X, "n": {"b": X + 1}, **more}, batch_size=[2])


def scalars(m: Any, **values: float) -> Any:
    return m.TensorDict({key: torch.tensor(value) for key, value in values.items()}, batch_size=[])


def linear(out: int = 4) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, out)


def module(m: Any, function: Any, in_keys: Any, out_keys: Any, **options: Any) -> Any:
    return m.nn.TensorDictModule(function, in_keys, out_keys, **options)


def both(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, x * 2


def steps(m: Any) -> list[Any]:
    return [
        module(m, lambda a: a + 1, ["a"], ["b"]),
        module(m, lambda b: b * 2, ["b"], ["c"]),
        module(m, torch.add, ["c", "z"], ["d"]),
    ]


def sequence(m: Any, **options: Any) -> Any:
    return m.nn.TensorDictSequential(*steps(m), **options)


def keys_of(one: Any) -> Any:
    return list(one.in_keys), list(one.out_keys), list(one.out_keys_source)


def gradients(m: Any) -> list[Tensor]:
    network = m.nn.TensorDictSequential(module(m, linear(), "a", "h"), module(m, torch.tanh, "h", ("out", "y")))
    network(source(m))["out", "y"].square().sum().backward()
    return [parameter.grad for parameter in network.parameters()]


def trained(m: Any) -> list[Tensor]:
    network = m.nn.TensorDictSequential(module(m, linear(), "a", "h"), module(m, torch.tanh, "h", "y"))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        network(source(m))["y"].square().sum().backward()
        optimizer.step()
    return list(network.state_dict().values())


def names(network: Any) -> Any:
    return list(network.state_dict()), [name for name, _ in network.named_modules()]


def selected(m: Any) -> Any:
    one = module(m, lambda x: (x, x * 2, x * 3), ["a"], ["b", "c", "d"])
    one.select_out_keys("c")
    first = keys_of(one), one(source(m)), one(X)
    return first, one.select_out_keys("c").reset_out_keys()(source(m)), keys_of(one)


def wrapper(m: Any) -> Any:
    inner = module(m, both, ["a"], ["b", "c"])
    outer = m.nn.TensorDictModuleWrapper(inner)
    outer.select_out_keys("c")
    found = keys_of(inner), keys_of(outer), outer(source(m)), inner(source(m))
    outer.reset_out_keys()
    return found, outer(source(m)), names(m.nn.TensorDictModuleWrapper(module(m, linear(), "a", "b")))


def user_module(m: Any) -> Any:
    class Own(m.nn.TensorDictModuleBase):  # type: ignore[misc,name-defined]
        in_keys = ["a", (("n",), "b")]
        out_keys = ["c", ("m", "d")]

        @m.nn.dispatch
        def forward(self, tensordict: Any) -> Any:
            tensordict["c"] = tensordict["a"] + 1
            tensordict["m", "d"] = tensordict["n", "b"]
            return tensordict

    return Own()


def dispatched(m: Any) -> Any:
    own = user_module(m)
    return own(X, X), own(a=X, n_b=X), own(X, n_b=X), own(source(m)), keys_of(own)


def decorated(m: Any) -> Any:
    @m.nn.as_tensordict_module(in_keys=["a", ("n", "b")], out_keys="c")
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    return add(source(m)), add(X, X)


def skipped(m: Any, mode: Any) -> Any:
    with m.nn.set_skip_existing(mode):
        found = [
            m.nn.skip_existing(),
            sequence(m)(scalars(m, a=1.0, c=7.0, z=2.0)),
            module(m, both, ["a"], ["b", "c"])(scalars(m, a=1.0, b=7.0)),
            module(m, both, ["a"], ["b", "c"])(scalars(m, a=1.0, b=7.0, c=8.0)),
            module(m, torch.neg, ["a"], ["a"])(scalars(m, a=1.0)),
        ]
    return found, m.nn.skip_existing()


def record_module(m: Any) -> Any:
    class In(m.TensorClass):  # type: ignore[misc,name-defined]
        x: Tensor

    class Out(m.TensorClass):  # type: ignore[misc,name-defined]
        y: Tensor

    class Net(m.nn.TensorClassModuleBase[In, Out]):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = linear()

        def forward(self, x: Any) -> Any:
            return Out(y=self.linear(x.x), batch_size=x.batch_size)

    net = Net()
    on_collections = net.as_td_module()
    data = m.TensorDict({"x": X, "z": X}, batch_size=[2])
    return (
        net(In(x=X, batch_size=[2])).y,
        keys_of(on_collections),
        names(on_collections),
        on_collections(data),
        on_collections(X),
        on_collections(x=X),
        sorted(data.keys()),
    )


def to_record(m: Any) -> Any:
    @m.tensorclass
    class Sample:
        a: Tensor
        b: Tensor | None = None

    sample = Sample(a=X, batch_size=[2])
    result = module(m, linear(), "a", "b")(sample)
    return result is sample, sample.b, outcome(lambda: module(m, torch.neg, "a", "other")(sample))


def subsequence(m: Any, **keys: Any) -> Any:
    part = sequence(m).select_subsequence(**keys)
    return type(part).__name__, [one.out_keys for one in part], keys_of(part)


def lazy(m: Any, **options: Any) -> Any:
    stack = m.LazyStackedTensorDict.lazy_stack([scalars(m, a=1.0), scalars(m, q=1.0)], 0)
    return [sorted(part.keys()) for part in sequence(m, **options)(stack).tensordicts]


def hooked(m: Any) -> Any:
    seen: list[Any] = []
    one = module(m, nn.Identity(), "a", "b")
    one.register_forward_pre_hook(lambda _, args: seen.append(sorted(args[0].keys())))
    one.register_forward_hook(lambda _, args, result: seen.append(sorted(result.keys())))
    one(source(m))
    return seen


def changed(m: Any) -> Any:
    network = sequence(m)
    del network[0]
    first = keys_of(network)
    network[0] = module(m, torch.neg, ["q"], ["c"])
    return first, keys_of(network), len(network)


CASES: dict[str, Call] = {
    "keys": lambda m: keys_of(module(m, both, ["a", ("x", ("y",))], [("z",), ("u", "v")])),
    "one key": lambda m: keys_of(module(m, torch.neg, ("n", "b"), "c")),
    "call": lambda m: module(m, linear(), "a", "b")(source(m)),
    "same": lambda m: (lambda data: module(m, torch.neg, "a", "b")(data) is data)(source(m)),
    "nested": lambda m: module(m, both, [("n", "b")], [("n", "c"), ("x", "y")])(source(m)),
    "tensors": lambda m: (
        module(m, torch.add, ["a", ("n", "b")], "c")(X, X),
        module(m, torch.add, ["a", ("n", "b")], "c")(a=X, n_b=X),
        module(m, torch.add, ["a", ("n", "b")], "c")(X, n_b=X),
        module(m, both, "a", ["b", "_"])(X),
        module(m, both, "a", ["b", "c"])(1),
    ),
    "by argument": lambda m: module(m, lambda *, x, y: x - y, {"x": "a", "y": ("n", "b")}, "c")(source(m)),
    "by argument True": lambda m: keys_of(module(m, both, {"x": "a"}, ["b", "c"], out_to_in_map=True)),
    "by key": lambda m: module(m, lambda *, x, y: x - y, {"a": "x", ("n", "b"): "y"}, "c", out_to_in_map=False)(
        source(m)
    ),
    "method": lambda m: module(m, ONE, "a", "b", method="add", method_kwargs={"alpha": 2})(source(m)),
    "keywords": lambda m: module(m, lambda x, k=1: x * k, "a", "b")(source(m), k=3),
    "discarded": lambda m: module(m, both, "a", ["_", "c"])(source(m)),
    "mapping": lambda m: module(m, lambda x: {"c": x, "b": x + 1, "d": 0}, "a", ["b", "c"])(source(m)),
    "collection": lambda m: module(m, lambda x: m.TensorDict({"b": x, "c": x}, []), "a", ["b", "c"])(source(m)),
    "collection whole": lambda m: module(m, lambda x: m.TensorDict({"q": x}, [2]), "a", "b")(source(m)),
    "optional": lambda m: module(m, lambda x, y: x if y is None else y, ["a", "q"], "b")(source(m)),
    "text": lambda m: module(m, lambda x, s: (x, s + "!"), ["a", "s"], ["b", "t"])(source(m, s="text"))["t"],
    "inplace False": lambda m: module(m, torch.neg, "a", "b", inplace=False)(source(m)),
    "inplace empty": lambda m: module(m, torch.neg, "a", "b", inplace="empty")(source(m)),
    "out": lambda m: module(m, torch.neg, "a", "b")(source(m), tensordict_out=scalars(m, k=1.0)),
    "missing": lambda m: module(m, linear(), "q", "b")(source(m)),
    "strict": lambda m: module(m, both, ["a", "q"], "b", strict=True)(source(m)),
    "too many results": lambda m: module(m, both, "a", "b")(source(m)),
    "too few results": lambda m: module(m, both, "a", ["b", "c", "d"])(source(m)),
    "no result": lambda m: module(m, lambda x: None, "a", "b")(source(m)),
    "no fit": lambda m: module(m, lambda x: x.sum(), "a", "b")(source(m)),
    "below a leaf": lambda m: module(m, both, "a", ["b", ("b", "c")])(source(m)),
    "locked": lambda m: module(m, torch.neg, "a", "b")(source(m).lock_()),
    "too many tensors": lambda m: module(m, torch.neg, "a", "b")(X, X),
    "missing tensor": lambda m: module(m, torch.add, ["a", "c"], "b")(X),
    "not callable": lambda m: module(m, 3, "a", "b"),
    "a class": lambda m: module(m, nn.Linear, "a", "b"),
    "no key": lambda m: module(m, both, [None], "b"),
    "no inplace": lambda m: module(m, both, "a", "b", inplace="full"),
    "no method": lambda m: module(m, nn.ReLU(), "a", "b", method="nothing")(source(m)),
    "record": to_record,
    "selected": selected,
    "select unknown": lambda m: module(m, both, "a", ["b", "c"]).select_out_keys("q"),
    "attributes": lambda m: (module(m, linear(), "a", "b").in_features, module(m, linear(), "a", "b").is_functional),
    "names": lambda m: names(module(m, linear(), "a", "b")),
    "hooks": hooked,
    "compatible": lambda m: (
        m.nn.TensorDictModuleBase.is_tdmodule_compatible(user_module(m)),
        m.nn.TensorDictModuleBase.is_tdmodule_compatible(linear()),
    ),
    "dispatch": dispatched,
    "as module": decorated,
    "wrap": lambda m: m.nn.WrapModule(lambda data: data.set("b", data["a"]))(source(m)),
    "wrap inplace": lambda m: m.nn.WrapModule(lambda data: scalars(m, q=1.0), inplace=True)(scalars(m, a=1.0)),
    "wrap names": lambda m: names(m.nn.WrapModule(linear())),
    "wrapper": wrapper,
    "skip": lambda m: skipped(m, True),
    "do not skip": lambda m: skipped(m, False),
    "skip keys": lambda m: skipped(m, ["c"]),
    "skip all keys": lambda m: skipped(m, ["b", "c"]),
    "record module": record_module,
    "sequence keys": lambda m: keys_of(sequence(m)),
    "sequence": lambda m: sequence(m)(scalars(m, a=1.0, z=2.0)),
    "sequence of tensors": lambda m: (sequence(m)(ONE, TWO), sequence(m)(z=TWO, a=ONE)),
    "sequence of a list": lambda m: keys_of(m.nn.TensorDictSequential(steps(m))),
    "sequence of a dict": lambda m: names(m.nn.TensorDictSequential({"x": module(m, linear(), "a", "b")})),
    "sequence names": lambda m: names(
        m.nn.TensorDictSequential(m.nn.TensorDictSequential(module(m, linear(), "a", "b")))
    ),
    "sequence of functions": lambda m: m.nn.TensorDictSequential(
        steps(m)[0], lambda data: data.set("b", data["b"] * 10), steps(m)[1]
    )(scalars(m, a=1.0)),
    "parts": lambda m: (len(sequence(m)), keys_of(sequence(m)[:2]), keys_of(sequence(m)[0]), len(list(sequence(m)))),
    "no part": lambda m: sequence(m)[7],
    "changed": changed,
    "sequence misses": lambda m: sequence(m)(scalars(m, z=1.0)),
    "sequence keywords": lambda m: sequence(m)(scalars(m, a=1.0, z=1.0), scale=3),
    "sequence selects": lambda m: sequence(m, selected_out_keys=["d"])(scalars(m, a=1.0, z=2.0)),
    "sequence selects keys": lambda m: keys_of(sequence(m, selected_out_keys=["d"])),
    "sequence selects tensors": lambda m: sequence(m).select_out_keys("d", "b")(ONE, TWO),
    "sequence selects unknown": lambda m: sequence(m, selected_out_keys=["q"]),
    "sequence False": lambda m: sequence(m, inplace=False)(scalars(m, a=1.0, z=2.0)),
    "sequence empty": lambda m: sequence(m, inplace="empty")(scalars(m, a=1.0, z=2.0)),
    "sequence out": lambda m: sequence(m)(scalars(m, a=1.0, z=2.0), tensordict_out=scalars(m, k=1.0)),
    "sequence True": lambda m: m.nn.TensorDictSequential(
        module(m, torch.neg, "a", "b", inplace=False), module(m, torch.neg, "b", "c"), inplace=True
    )(scalars(m, a=1.0)),
    "sequence None": lambda m: m.nn.TensorDictSequential(
        module(m, torch.neg, "a", "b", inplace=False), module(m, torch.neg, "b", "c")
    )(scalars(m, a=1.0)),
    "tolerant": lambda m: sequence(m, partial_tolerant=True)(scalars(m, a=1.0)),
    "tolerant lazy": lambda m: lazy(m, partial_tolerant=True),
    "no modules": lambda m: m.nn.TensorDictSequential()(scalars(m, a=1.0)),
    "subsequence": subsequence,
    "subsequence out": lambda m: subsequence(m, out_keys=["c"]),
    "subsequence in": lambda m: subsequence(m, in_keys=["b", "z"]),
    "subsequence in and out": lambda m: subsequence(m, in_keys=["a"], out_keys=["b"]),
    "subsequence nothing": lambda m: subsequence(m, in_keys=["z"]),
    "gradients": gradients,
    "training": trained,
}


@pytest.mark.parametrize("name", CASES)
def test_both_libraries_give_the_same(name: str) -> None:
    torch.manual_seed(0)
    ours = described(outcome(lambda: CASES[name](OURS)))
    torch.manual_seed(0)
    assert ours == described(outcome(lambda: CASES[name](PEER)))


def test_the_libraries_are_two() -> None:
    assert OURS.nn is tensorclass.nn
    assert PEER.nn is tensordict.nn
