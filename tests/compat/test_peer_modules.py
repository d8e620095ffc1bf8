"""The modules of tensordict and their names."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from types import ModuleType
from typing import Any

import pytest

from tensorclass.compat import peer_modules


@pytest.mark.parametrize("module", sorted(peer_modules.PUBLIC))
def test_each_public_name_is_found(stand_in: Any, module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in peer_modules.PUBLIC[module].split() if not hasattr(found, name)] == []


def test_functions_hide_the_modules_of_their_names(stand_in: Any) -> None:
    public = peer_modules.PUBLIC["tensordict"].split()
    assert [name for name in public if isinstance(getattr(stand_in, name), ModuleType)] == []
    assert importlib.import_module("tensordict.memmap").MemoryMappedTensor is stand_in.MemoryMappedTensor


def test_private_names_that_torchrl_imports_are_found(stand_in: Any) -> None:
    names = {
        "_tensorcollection": "TensorCollection",
        "base": "_is_leaf_nontensor _NESTED_TENSORS_AS_LISTS NO_DEFAULT _default_is_leaf _ACCEPTED_CLASSES",
        "nn.distributions": "Delta",
        "nn.functional_modules": "_exclude_td_from_pytree set_tensor PYTREE_REGISTERED_TDS",
        "nn.probabilistic": "_use_generator",
        "nn.utils": "_set_dispatch_td_nn_modules _set_skip_existing_None expln mappings",
        "utils": (
            "_zip_strict _getitem_batch_size _unravel_key_to_tuple _maybe_correct_neg_dim _is_tensorclass "
            "_is_non_tensor is_seq_of_nested_key Buffer NUMPY_TO_TORCH_DTYPE_DICT"
        ),
        "_reductions": "_make_td",
        "store": "TensorDictStore",
        "_lazy": "_has_exclusive_keys",
    }
    missing = [
        f"{module}.{name}"
        for module, text in names.items()
        for name in text.split()
        if not hasattr(importlib.import_module(f"tensordict.{module}"), name)
    ]
    assert missing == []


@pytest.mark.parity
def test_the_modules_and_their_names_are_those_of_tensordict() -> None:
    peer = pytest.importorskip("tensordict")
    if peer.__spec__.origin == "tensorclass.compat":
        pytest.skip("tensordict is this package")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = {one.name for one in pkgutil.walk_packages(peer.__path__, "tensordict.")}
        assert modules <= peer_modules.MODULES
        for name, public in peer_modules.PUBLIC.items():
            theirs = getattr(importlib.import_module(name), "__all__", [])
            assert sorted(theirs) == public.split(), name
