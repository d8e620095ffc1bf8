"""Parameters of modules; by hand, over the tables of modules and with `torch.func`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from benchmarks.sides import Side
from benchmarks.timing import Call
from benchmarks.workloads.table import Workload

X = torch.linspace(-1, 1, 64).view(16, 4)


def _layers(count: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count)))


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))


def _networks(count: int) -> list[nn.Sequential]:
    torch.manual_seed(0)
    return [_network() for _ in range(count)]


Tree = dict[str, Any]
"""Parameters and buffers by hand: dicts in dicts, as modules are in modules."""


def _tree(module: nn.Module) -> Tree:
    """What `from_module` gives, by hand."""
    values: Tree = {key: value for key, value in module._parameters.items() if value is not None}
    values.update({key: value for key, value in module._buffers.items() if value is not None})
    for key, child in module._modules.items():
        below = _tree(child) if child is not None else None
        if below:
            values[key] = below
    return values


def _doubled(values: Tree) -> Tree:
    return {key: _doubled(value) if isinstance(value, dict) else value * 2 for key, value in values.items()}


def _put(module: nn.Module, values: Tree, done: list[tuple[Tree, str, Any]]) -> Tree:
    """Puts other tensors into a module, notes what is to be undone, and gives those that were there."""
    before: Tree = {}
    for key, value in values.items():
        child = module._modules.get(key)
        if child is not None:
            before[key] = _put(child, value, done)
            continue
        table: Tree = module._parameters if key in module._parameters else module._buffers
        before[key] = table[key]
        done.append((table, key, table[key]))
        table[key] = value
    return before


def _swap(count: int, computed: bool) -> Workload:
    """A block with other parameters: those of another module, or tensors that were computed."""

    def library(side: Side) -> Call:
        module = _layers(count)
        params = side.TensorDict.from_module(_layers(count))
        if computed:
            params = params * 2

        def call() -> Any:
            with params.to_module(module):
                return module[0].bias

        return call

    def hand() -> Call:
        module, values = _layers(count), _tree(_layers(count))
        if computed:
            values = _doubled(values)

        def call() -> Any:
            done: list[tuple[Tree, str, Any]] = []
            try:
                _put(module, values, done)
                return module[0].bias
            finally:
                for table, key, before in reversed(done):
                    table[key] = before

        return call

    what = "computed tensors" if computed else "parameters"
    return Workload(f"to_module of {count} layers, {what}", library, hand)


def _reading(count: int) -> Workload:
    def library(side: Side) -> Call:
        module = _layers(count)
        return lambda: side.TensorDict.from_module(module)

    def hand() -> Call:
        module = _layers(count)
        return lambda: (_tree(module), ())

    return Workload(f"from_module of {count} layers", library, hand)


def _call(module: nn.Module) -> Callable[[Any, Tensor], Tensor]:
    def call(params: Any, x: Tensor) -> Tensor:
        with params.to_module(module):
            return module(x)  # type: ignore[no-any-return]

    return call


def _functional() -> Workload:
    def library(side: Side) -> Call:
        module, other = _networks(2)
        params, call = side.TensorDict.from_module(other), _call(module)
        return lambda: call(params, X)

    def hand() -> Call:
        module, other = _networks(2)
        params = dict(other.named_parameters())
        return lambda: functional_call(module, params, X)

    return Workload("a call with other parameters", library, hand)


def _ensemble(count: int) -> Workload:
    def library(side: Side) -> Call:
        modules = _networks(count)
        params, call = side.TensorDict.from_modules(*modules).data, _call(_network().to("meta"))
        return lambda: torch.vmap(call, (0, None))(params, X)

    def hand() -> Call:
        params, _ = stack_module_state(_networks(count))  # type: ignore[arg-type]
        params = {name: value.detach() for name, value in params.items()}
        module = _network().to("meta")
        return lambda: torch.vmap(lambda params, x: functional_call(module, params, x), (0, None))(params, X)

    return Workload(f"an ensemble of {count} by vmap", library, hand)


def _gradients() -> Workload:
    """Gradients of each sample."""

    def library(side: Side) -> Call:
        module = _networks(1)[0]
        params, call = side.TensorDict.from_module(module).data.clone(), _call(module)
        gradient = torch.func.grad(lambda params, x: call(params, x).sum())
        return lambda: torch.vmap(gradient, (None, 0))(params, X)["0", "weight"]

    def hand() -> Call:
        module = _networks(1)[0]
        params = {name: value.detach() for name, value in module.named_parameters()}
        gradient = torch.func.grad(lambda params, x: functional_call(module, params, x).sum())
        return lambda: torch.vmap(gradient, (None, 0))(params, X)["0.weight"]

    return Workload("gradients of each sample", library, hand)


WORKLOADS = (
    *(_swap(count, computed) for count in (10, 100) for computed in (False, True)),
    *(_reading(count) for count in (10, 100)),
    _functional(),
    _ensemble(8),
    _gradients(),
)
