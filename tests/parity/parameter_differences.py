"""Where parameters and swaps differ from the peer's, as tests/parity/test_differences.py lists it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensordict.nn  # noqa: F401
import torch
from torch import nn

import tensorclass.nn  # noqa: F401
from tests.parity.sides import described

Call = Callable[[Any], Any]


class Counting(nn.Module):
    """Computes a buffer anew in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self) -> None:
        self.count = self.count + 1


def error(cls: type[Exception]) -> Any:
    return described(cls())


def tried(call: Callable[[], Any]) -> None:
    try:
        call()
    except KeyError:
        pass
    else:
        raise AssertionError


def kept(m: Any, **options: Any) -> bool:
    """Whether a module has its own parameter after a block."""
    module = nn.Linear(3, 4)
    own = module.weight
    with m.TensorDict.from_module(module).data.clone().to_module(module, **options):
        pass
    return module.weight is own


def kept_after_a_misfit(m: Any) -> bool:
    module = nn.Linear(3, 4)
    own = module.weight
    tried(lambda: m.TensorDict({"weight": torch.zeros(4, 3), "other": torch.zeros(1)}).to_module(module))
    return module.weight is own


def in_the_place_of(m: Any, register: str, old: Any) -> Any:
    """Whether a module has a parameter, during a block, in the place of something else."""
    module = nn.Module()
    getattr(module, register)("held", old)
    parameter = nn.Parameter(torch.ones(2))
    with m.TensorDict({"held": parameter}).to_module(module):
        return module.held is parameter


def order_in_a_block(m: Any) -> list[str]:
    module = nn.Linear(3, 4)
    with m.TensorDict({"weight": torch.zeros(4, 3)}).to_module(module):
        return list(module.state_dict())


def names_without_preserving(m: Any) -> list[str]:
    module = nn.Linear(3, 4)
    m.TensorDict.from_module(module).data.clone().to_module(module, preserve_module_state=False)
    return list(module.state_dict())


def frozen_in_a_block(m: Any) -> bool:
    module, frozen = nn.Linear(3, 4), nn.Parameter(torch.zeros(4, 3), requires_grad=False)
    with m.TensorDict({"weight": frozen}).to_module(module):
        return module.weight is frozen


def hooked(m: Any) -> Any:
    """A module is swapped whose hooks rename a key, double what is saved, and count what is loaded."""
    module, loaded = nn.Linear(3, 4), []
    module.register_load_state_dict_pre_hook(lambda _, state, *rest: state.update(weight=state.pop("old")))
    module.register_load_state_dict_post_hook(lambda *given: loaded.append(1))
    m.TensorDict({"old": torch.zeros(4, 3)}).to_module(module, use_state_dict=True)
    return module.weight.sum().item(), len(loaded)


def saved(m: Any) -> float:
    module = nn.Sequential(nn.Linear(3, 4))
    nn.init.ones_(module[0].bias)
    module.register_state_dict_post_hook(lambda _, state, *rest: state.update({"0.bias": state["0.bias"] * 2}))
    return m.TensorDict.from_module(module, use_state_dict=True)["0", "bias"][0].item()  # type: ignore[no-any-return]


def as_state_dict_in_place(m: Any) -> float:
    module = nn.Linear(3, 4)
    m.TensorDict({"weight": torch.zeros(4, 3)}).to_module(module, use_state_dict=True, inplace=True)
    return module.weight.sum().item()


class Counted(nn.Module):
    def get_extra_state(self) -> Any:
        return {"count": 3}

    def set_extra_state(self, state: Any) -> None: ...


def extra_state(m: Any) -> str:
    return type(m.TensorDict.from_module(Counted(), use_state_dict=True)["_extra_state"]).__name__


def tied_in_place(m: Any) -> bool:
    """Whether a parameter of two modules has its numbers after a block."""
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    before = module[0].weight.detach().clone()
    with m.TensorDict.from_module(module).data.clone().zero_().to_module(module, inplace=True):
        pass
    return torch.equal(module[0].weight, before)


def count_after_an_exception(m: Any) -> float:
    module = Counting()
    params = m.TensorDict.from_module(module).clone()

    def interrupted() -> None:
        with params.to_module(module):
            module()
            raise KeyError

    tried(interrupted)
    return params["count"].item()  # type: ignore[no-any-return]


def params(m: Any, source: Any, **options: Any) -> Any:
    return m.nn.TensorDictParams(m.TensorDict(source), **options)


def kind_of_the_source(m: Any) -> str:
    source = m.TensorDict({"a": torch.ones(2)})
    m.nn.TensorDictParams(source)
    return type(source["a"]).__name__


def registered(m: Any) -> list[str]:
    made = params(m, {"a": torch.ones(2)})
    made.register_parameter("b", nn.Parameter(torch.ones(2)))
    return list(made.keys())


def expanded(m: Any) -> int:
    module = nn.Linear(3, 4)
    made = m.TensorDict.from_modules(module, module, as_module=True, expand_identical=True)
    return len(list(made.parameters()))


def with_text(m: Any) -> list[str]:
    made = params(m, {"a": torch.ones(1), "text": "b"})
    nn.ModuleList([made]).load_state_dict({"0.a": torch.zeros(1)})
    return list(made.state_dict())


#: for each sentence of docs/differences.md: a call, what is expected here, and what of the peer
PARAMETERS: dict[str, list[tuple[Call, Any, Any]]] = {
    "A swap that does not fit changes nothing.": [
        (kept_after_a_misfit, True, False),
    ],
    "A swap changes the tensors of a module and nothing else.": [
        (order_in_a_block, ["weight", "bias"], ["bias", "weight"]),
        (names_without_preserving, ["weight", "bias"], []),
        (frozen_in_a_block, True, False),
        (lambda m: in_the_place_of(m, "register_buffer", torch.zeros(2)), True, False),
        (lambda m: in_the_place_of(m, "register_parameter", None), True, error(KeyError)),
    ],
    "After the block, the old parameters are back.": [
        (lambda m: kept(m, use_state_dict=True), True, False),
        (tied_in_place, True, False),
    ],
    "`use_state_dict` calls the hooks of state dicts.": [
        (hooked, (0.0, 1), error(KeyError)),
        (saved, 2.0, error(KeyError)),
        (as_state_dict_in_place, 0.0, error(RuntimeError)),
        (extra_state, "dict", "TensorDict"),
    ],
    "A block that fails leaves the collection as it was.": [
        (count_after_an_exception, 0.0, 1.0),
    ],
    "Parameters leave their source unchanged.": [
        (kind_of_the_source, "Tensor", "Parameter"),
    ],
    "Registered parameters are keys.": [
        (registered, ["a", "b"], ["a"]),
        (lambda m: isinstance(params(m, {"a": {"b": torch.ones(2)}})["a"], nn.Module), True, False),
    ],
    "Complex tensors become parameters.": [
        (lambda m: len(list(params(m, {"a": torch.ones(2, dtype=torch.complex64)}).parameters())), 1, 0),
    ],
    "Operations accept integers beside parameters.": [
        (
            lambda m: (params(m, {"a": torch.ones(2), "b": torch.ones(1, dtype=torch.int64)}) * 2)["b"].tolist(),
            [2],
            error(RuntimeError),
        ),
    ],
    "A locked collection of parameters is locked.": [
        (lambda m: params(m, {"a": torch.ones(2)}, lock=True).is_locked, True, False),
    ],
    "Parameters that no module can have are an error.": [
        (expanded, error(RuntimeError), 0),
    ],
    "State dicts of parameters are loaded as modules load them.": [
        (with_text, ["a"], error(RuntimeError)),
    ],
}
