"""Parameters of modules, swaps and ensembles give what the peer's give: outputs, keys, gradients, state dict keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from tensordict.nn import TensorDictParams as PeerParams
from torch import Tensor, nn

import tensorclass
from tensorclass.nn import TensorDictParams
from tests.parity.coverage import LATER, LIST

pytestmark = pytest.mark.parity

OURS, PEER = (tensorclass.TensorDict, TensorDictParams), (tensordict.TensorDict, PeerParams)

X = torch.linspace(-1, 1, 15).view(5, 3)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("hidden", torch.ones(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return self.linear(x) * self.hidden  # type: ignore[no-any-return]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = self.first
        self.third = nn.Linear(3, 3)
        self.third.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))  # type: ignore[no-any-return]


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(3, 4),
    "no bias": lambda: nn.Linear(3, 4, bias=False),
    "sequence": lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Tanh(), nn.Linear(4, 2))),
    "norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)),
    "replaced buffer": Counting,
    "tied": Tied,
    "frozen": lambda: nn.Linear(3, 4).requires_grad_(False),
    "attention": lambda: nn.TransformerEncoderLayer(3, 1, 8, dropout=0.0, batch_first=True),
}


def both(make: str) -> tuple[nn.Module, nn.Module]:
    """The same module twice."""
    modules = []
    for _ in range(2):
        torch.manual_seed(0)
        modules.append(MODULES[make]())
    return modules[0], modules[1]


def flat(params: Any) -> dict[str, Tensor]:
    """The leaves by their joined keys, in the order of the names."""
    leaves = {key if isinstance(key, str) else ".".join(key): value for key, value in params.items(True, True)}
    return dict(sorted(leaves.items()))


def assert_same(ours: Any, theirs: Any) -> None:
    a, b = flat(ours), flat(theirs)
    assert list(a) == list(b)
    for key in a:
        torch.testing.assert_close(a[key], b[key])
        assert a[key].requires_grad == b[key].requires_grad, key
        assert isinstance(a[key], nn.Parameter) == isinstance(b[key], nn.Parameter), key
    assert ours.batch_size == theirs.batch_size
    assert ours.is_locked == theirs.is_locked


@pytest.mark.parametrize("make", MODULES)
@pytest.mark.parametrize(
    "options", [{}, {"lock": True}, {"use_state_dict": True}, {"as_module": True}, {"filter_empty": False}], ids=str
)
def test_from_module(make: str, options: dict[str, Any]) -> None:
    modules = both(make)
    ours, theirs = (library.from_module(m, **options) for m, (library, _) in zip(modules, (OURS, PEER), strict=True))
    assert_same(ours, theirs)
    structure = sorted(map(str, ours.keys(True))), sorted(map(str, theirs.keys(True)))
    assert structure[0] == structure[1]
    if options.get("as_module"):
        assert list(ours.state_dict()) == sorted(theirs.state_dict(), key=list(ours.state_dict()).index)
        assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]


@pytest.mark.parametrize("make", ["linear", "sequence", "norm", "frozen"])
@pytest.mark.parametrize(
    "options", [{}, {"as_module": True}, {"lock": False}, {"use_state_dict": True}, {"lazy_stack": True}], ids=str
)
def test_from_modules(make: str, options: dict[str, Any]) -> None:
    results = []
    for library, _ in (OURS, PEER):
        torch.manual_seed(0)
        modules = [MODULES[make]() for _ in range(3)]
        results.append(library.from_modules(*modules, **options))
    assert_same(*results)


def test_from_modules_of_identical_ones() -> None:
    results = []
    for library, _ in (OURS, PEER):
        torch.manual_seed(0)
        module = nn.Linear(3, 4)
        results.append(library.from_modules(module, module, expand_identical=True))
    assert_same(*results)
    assert [result["weight"].stride() for result in results] == [(0, 3, 1)] * 2


@pytest.mark.parametrize("make", MODULES)
@pytest.mark.parametrize("inplace", [None, False, True])
def test_calls_and_gradients_in_a_block(make: str, inplace: bool | None) -> None:
    found = []
    for module, (library, _) in zip(both(make), (OURS, PEER), strict=True):
        x = X[None] if make == "attention" else X
        before = {name: value.detach().clone() for name, value in module.state_dict().items()}
        params = library.from_module(module).data.clone()
        params = params.apply(lambda leaf: leaf * 2 if leaf.is_floating_point() else leaf)
        with params.to_module(module, inplace=inplace):
            inside = list(module.state_dict()), [name for name, _ in module.named_parameters()]
            y = module(x)
            if y.requires_grad:
                y.sum().backward()
            gradients = {name: value.grad for name, value in module.named_parameters()}
        after = {name: value.detach() for name, value in module.state_dict().items()}
        if library is OURS[0] or not (inplace and make == "tied"):  # the peer loses what was there of tied ones
            torch.testing.assert_close(after, before)
        found.append((sorted(inside[0]), sorted(inside[1]), y.detach(), gradients))
    torch.testing.assert_close(*[one[2:] for one in found])
    assert found[0][:2] == found[1][:2]


@pytest.mark.parametrize("make", MODULES)
def test_a_swap_for_good(make: str) -> None:
    found = []
    for module, (library, _) in zip(both(make), (OURS, PEER), strict=True):
        own = library.from_module(module)
        params = own.data.clone()
        old = params.to_module(module)
        now = library.from_module(module)
        kinds = {key: (type(value).__name__, value.requires_grad) for key, value in flat(now).items()}
        same = {key: value is flat(own)[key] for key, value in flat(old).items()}
        found.append((kinds, same))
    assert found[0] == found[1]


def test_a_replaced_buffer_is_in_the_collection() -> None:
    counts = []
    for library, _ in (OURS, PEER):
        module = Counting()
        params = library.from_module(module).data.clone()
        with params.to_module(module):
            module(X)
            module(X)
        counts.append((params["count"].item(), module.count.item()))
    assert counts == [(2.0, 0.0)] * 2


@pytest.mark.parametrize("make", ["linear", "sequence", "tied"])
def test_vmap_grad_and_ensembles(make: str) -> None:
    found = []
    for library, _ in (OURS, PEER):
        torch.manual_seed(0)
        modules = [MODULES[make]() for _ in range(3)]
        x = X[None] if make == "attention" else X

        def call(params: Any, x: Tensor, module: nn.Module = modules[0]) -> Tensor:
            with params.to_module(module):
                return module(x)  # type: ignore[no-any-return]

        params = library.from_modules(*modules, lock=False).data
        y = torch.vmap(call, (0, None))(params, x)
        gradients = torch.func.grad(lambda p, x=x, call=call: call(p, x).square().sum())(params[0])
        found.append((y, flat(gradients)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "mistake",
    [
        {"weight": torch.zeros(4, 3), "other": torch.zeros(1)},
        {"weight": {"deep": torch.zeros(1)}},
        {"other": {"weight": torch.zeros(4, 3)}},
        {"weight": torch.zeros(4, 3), "text": "a"},
    ],
    ids=["another tensor", "a collection for a parameter", "another submodule", "text"],
)
def test_what_does_not_fit_is_a_key_error_in_both(mistake: dict[str, Any]) -> None:
    for library, _ in (OURS, PEER):
        with pytest.raises(KeyError):
            library(mistake).to_module(nn.Linear(3, 4))


def test_a_memo_is_an_error_in_both() -> None:
    for library, _ in (OURS, PEER):
        with pytest.raises(RuntimeError, match="memo"):
            library({}).to_module(nn.Linear(3, 4), memo={})


# -- TensorDictParams -------------------------------------------------------------------------------------------------


def values() -> dict[str, Any]:
    return {
        "a": torch.ones(2, 3),
        "n": {"b": torch.zeros(2), "i": torch.zeros(2, dtype=torch.int64)},
        "mean": nn.Buffer(torch.ones(2, 4)),
        "frozen": nn.Parameter(torch.ones(2), requires_grad=False),
    }


def made(**options: Any) -> tuple[Any, Any]:
    return tuple(params(library(values(), [2]), **options) for library, params in (OURS, PEER))  # type: ignore[return-value]


@pytest.mark.parametrize("options", [{}, {"no_convert": True}, {"no_convert": "skip"}], ids=str)
def test_the_same_is_registered(options: dict[str, Any]) -> None:
    ours, theirs = made(**options)
    for name in ("named_parameters", "named_buffers"):
        registered = [{name: type(value) for name, value in getattr(params, name)()} for params in (ours, theirs)]
        assert registered[0] == registered[1]
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    assert sorted(ours.state_dict(flatten=False)) == sorted(theirs.state_dict(flatten=False))
    assert_same(ours, theirs)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "set": lambda params: params.set("new", torch.ones(2)),
    "set an integer": lambda params: params.set("new", torch.ones(2, dtype=torch.int64)),
    "set in place": lambda params: params.set_("a", torch.zeros(2, 3)),
    "update": lambda params: params.update({"new": torch.ones(2), "a": torch.zeros(2, 3)}),
    "update in place": lambda params: params.update_({"a": torch.zeros(2, 3)}),
    "delete": lambda params: params.del_("a"),
    "pop": lambda params: params.pop("a"),
    "rename": lambda params: params.rename_key_("a", "z"),
    "zero_": lambda params: params.zero_(),
    "fill_": lambda params: params.fill_("a", 3.0),
    "requires_grad_": lambda params: params.requires_grad_(False),
    "register": lambda params: params.register_parameter("r", nn.Parameter(torch.ones(2))),
    "module.double": lambda params: nn.ModuleList([params]).double(),
    "load_state_dict": lambda params: params.load_state_dict(
        {key: torch.full_like(value, 2) for key, value in params.state_dict().items()}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_does_the_same(change: str) -> None:
    ours, theirs = made()
    for params in (ours, theirs):
        CHANGES[change](params)
    names = [sorted(name for name, _ in params.named_parameters()) for params in (ours, theirs)]
    assert names[0] == names[1]
    if change == "register":  # of the peer it is no key
        del ours["r"]
    assert_same(ours, theirs)


RESULTS: dict[str, Callable[[Any], Any]] = {
    "clone": lambda params: params.clone(),
    "copy": lambda params: params.copy(),
    "to": lambda params: params.to(torch.float64),
    "cpu": lambda params: params.cpu(),
    "double": lambda params: params.double(),
    "detach": lambda params: params.detach(),
    "data": lambda params: params.data,
    "[0]": lambda params: params[0],
    "reshape": lambda params: params.reshape(2, 1),
    "select": lambda params: params.select("a"),
    "exclude": lambda params: params.exclude("a"),
    "flatten_keys": lambda params: params.flatten_keys(),
    "stack": lambda params: torch.stack([params, params]),
    "apply": lambda params: params.apply(lambda leaf: leaf + 1),
    "empty": lambda params: params.empty(),
    "to_tensordict": lambda params: params.to_tensordict(),
    "zeros_like": lambda params: torch.zeros_like(params),
    "contiguous": lambda params: params.contiguous(),
    "abs": lambda params: params.select("a").abs(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_the_same_and_a_module_where_it_is_one(name: str) -> None:
    ours, theirs = (RESULTS[name](params) for params in made())
    assert isinstance(ours, nn.Module) == isinstance(theirs, nn.Module)
    assert_same(ours, theirs)


def test_every_name_of_the_peer_is_there() -> None:
    if LIST.is_file():
        section = LIST.read_text().split("\n  class TensorDictParams(")[1].split("\n  class ")[0]
        names = re.findall(r"^    (\w+)", section, re.M)
    else:
        names = [name for name in dir(PeerParams) if not name.startswith("_")]
    later = {name for names in LATER.values() for name in names.split()} | {"arecv", "asend", "to_mds"}
    missing = [name for name in names if not hasattr(TensorDictParams, name) and name not in later]
    assert missing == []
