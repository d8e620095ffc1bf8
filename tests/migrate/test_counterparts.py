"""Every public name of the peer has a place here, or is listed as one that has none."""

from __future__ import annotations

from importlib import import_module

import pytest

from tensorclass.migrate.counterparts import MODULES, RENAMED, STAYS, Counterpart, counterpart, reason_without

#: public names of the peer that this package does not have
WITHOUT = {
    "IndexType",
    "LazyStackedTensorDictStore",
    "NO_DEFAULT",
    "STORE_BACKENDS",
    "TDGraphModule",
    "TensorDictFuture",
    "TensorDictStore",
    "TruncatedStandardNormal",
    "__version__",
    "print_directory_tree",
}


@pytest.mark.parametrize("module", MODULES)
def test_a_public_name_has_a_counterpart_that_can_be_imported(module: str) -> None:
    peer = import_module(module)
    names = [name for name in peer.__all__ if name not in WITHOUT] if hasattr(peer, "__all__") else []
    for name in names:
        here = counterpart(f"{module}.{name}")
        assert here is not None, name
        assert hasattr(import_module(here.module), here.name) or here.name == ""


def test_names_that_stay_are_names_of_the_peer() -> None:
    known = {name for module in MODULES for name in vars(import_module(module))}
    assert known >= set(STAYS)
    for dotted in RENAMED:
        module, _, name = dotted.rpartition(".")
        assert hasattr(import_module(module), name)


@pytest.mark.parametrize(
    "dotted, expected",
    [
        ("tensordict", Counterpart("tensorclass", "", 1)),
        ("tensordict.tensorclass", Counterpart("tensorclass", "tensorclass", 2)),
        ("tensordict.tensorclass.NonTensorData.data", Counterpart("tensorclass", "NonTensorData", 3)),
        ("tensordict._td.TensorDict", Counterpart("tensorclass", "TensorDict", 3)),
        ("tensordict.nn.common.dispatch", Counterpart("tensorclass.nn", "dispatch", 4)),
        ("tensordict.prototype.symbolic_trace", Counterpart("torch.fx", "symbolic_trace", 3)),
        ("tensordict.utils._zip_strict", None),
        ("tensordict.__version__", None),
        ("torch.nn", None),
    ],
)
def test_counterparts(dotted: str, expected: Counterpart | None) -> None:
    assert counterpart(dotted) == expected


def test_a_name_without_a_counterpart_has_a_reason() -> None:
    assert reason_without("tensordict.utils._zip_strict") == "a private name of tensordict"
    assert reason_without("tensordict.__version__") == STAYS["__version__"]
    assert reason_without("tensordict.no_such_name") == "this package has nothing of that name"
