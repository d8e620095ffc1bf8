"""Names of ``tensordict`` and their counterparts in this package."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

PEER = "tensordict"
PACKAGE = "tensorclass"

#: public modules of the peer, and the modules here that have their names
MODULES: dict[str, str] = {
    f"tensordict{module}": here
    for here, modules in {
        "tensorclass": (
            *("", ".base", ".functional", ".memmap", ".persistent", ".tensorclass", ".tensordict", ".typedtensordict"),
            *(".prototype", ".prototype.fx", ".store"),
        ),
        "tensorclass.nn": (
            *(".nn", ".nn.common", ".nn.cudagraphs", ".nn.ensemble", ".nn.functional_modules", ".nn.params"),
            *(".nn.probabilistic", ".nn.sequence", ".nn.tensorclass_module", ".nn.utils"),
        ),
        "tensorclass.nn.distributions": (
            *(".nn.distributions", ".nn.distributions.composite", ".nn.distributions.continuous"),
            *(".nn.distributions.discrete", ".nn.distributions.truncated_normal"),
        ),
        "tensorclass.utils": (".utils",),
    }.items()
    for module in modules
}

#: modules of this package, in the order in which a name is looked up that the module above does not have
LOOKED_UP = ("tensorclass", "tensorclass.nn", "tensorclass.nn.distributions", "tensorclass.utils")

#: names of the peer that are another name here
RENAMED = {
    "tensordict.prototype.symbolic_trace": ("torch.fx", "symbolic_trace"),
    "tensordict.prototype.fx.symbolic_trace": ("torch.fx", "symbolic_trace"),
    "tensordict.utils.DeviceType": ("torch.types", "Device"),
}

#: names of the peer that stay, with the reason
STAYS = {
    "__version__": "the versions of the two packages are numbered apart",
    "TDGraphModule": "torch.fx.symbolic_trace returns a torch.fx.GraphModule",
    "NO_DEFAULT": "leave the argument out instead",
}


class Counterpart(NamedTuple):
    """A name of this package (or of torch) in the place of one of the peer."""

    module: str
    name: str
    used: int  #: how many of the dotted names of the peer it replaces


def is_peer_module(dotted: str) -> bool:
    """Return whether a dotted name is a public module of the peer.

    ``tensordict.tensorclass`` is the decorator, unless a name of the module follows.

    Example:
        >>> from tensorclass.migrate.counterparts import is_peer_module
        >>> (
        ...     is_peer_module("tensordict.nn"),
        ...     is_peer_module("tensordict.tensorclass"),
        ...     is_peer_module("tensordict.stack"),
        ... )
        (True, False, False)
    """
    return dotted in MODULES and dotted != f"{PEER}.{PACKAGE}"


def counterpart(dotted: str) -> Counterpart | None:
    """Return where this package has a name of the peer.

    Args:
        dotted: the name with its module, and attributes after it: ``"tensordict.nn.dispatch.x"``.

    Returns:
        Module and name here, or ``None``. A module of the peer has its counterpart as ``module``, and no name.

    Example:
        >>> from tensorclass.migrate.counterparts import counterpart
        >>> counterpart("tensordict.nn.probabilistic.InteractionType.MODE")
        Counterpart(module='tensorclass.nn', name='InteractionType', used=4)
        >>> counterpart("tensordict.nn")
        Counterpart(module='tensorclass.nn', name='', used=2)
        >>> counterpart("tensordict.base.NO_DEFAULT")
    """
    parts = dotted.split(".")
    depth = _module_depth(parts)
    if depth == len(parts):
        return Counterpart(MODULES[dotted], "", depth)
    if depth == 0 or parts[depth] in STAYS:
        return None
    name = parts[depth]
    module = ".".join(parts[:depth])
    if f"{module}.{name}" in RENAMED:
        return Counterpart(*RENAMED[f"{module}.{name}"], depth + 1)
    for candidate in (MODULES.get(module, PACKAGE), *LOOKED_UP):
        if name in _public_names(candidate):
            return Counterpart(candidate, name, depth + 1)
    return None


def reason_without(dotted: str) -> str:
    """Return why a name of the peer has no counterpart.

    Example:
        >>> from tensorclass.migrate.counterparts import reason_without
        >>> reason_without("tensordict.utils._zip_strict")
        'a private name of tensordict'
    """
    names = dotted.split(".")[1:]
    for name in names:
        if name in STAYS:
            return STAYS[name]
    if any(name.startswith("_") for name in names):
        return "a private name of tensordict"
    return "this package has nothing of that name"


def _module_depth(parts: list[str]) -> int:
    """Return how many of the parts are a module of the peer; private modules count."""
    if parts[0] != PEER:
        return 0
    depth = 1
    while depth < len(parts):
        longer = ".".join(parts[: depth + 1])
        rest = parts[depth + 1 :]
        private = bool(rest) and parts[depth].startswith("_") and not parts[depth].startswith("__")
        # behind tensordict.tensorclass, names of the package are of the module; others are attributes of the decorator
        decorator_module = longer in MODULES and bool(rest) and rest[0] in _public_names(PACKAGE)
        if not (private or is_peer_module(longer) or decorator_module):
            break
        depth += 1
    return depth


@cache
def _public_names(module: str) -> frozenset[str]:
    return frozenset(import_module(module).__all__)
