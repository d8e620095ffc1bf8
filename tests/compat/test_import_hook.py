"""`compat.install()`: the import of tensordict finds this package, until `uninstall()`."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from multiprocessing import spawn
from typing import Any

import pytest

import tensorclass as tc
import tensorclass.nn as tcnn
from tensorclass import compat
from tensorclass.compat import peer_modules


def test_imports_find_this_package(stand_in: Any) -> None:
    assert stand_in.TensorDict is tc.TensorDict
    assert stand_in.nn.TensorDictModule is tcnn.TensorDictModule
    assert importlib.import_module("tensordict.nn.common").dispatch is tcnn.dispatch
    assert isinstance(tc.TensorDict(), importlib.import_module("tensordict.base").TensorDictBase)


def test_the_name_tensorclass_is_the_decorator_also_after_an_import_of_the_module(stand_in: Any) -> None:
    module = importlib.import_module("tensordict.tensorclass")
    assert callable(stand_in.tensorclass)
    assert module.tensorclass is stand_in.tensorclass


def test_the_version_is_told(stand_in: Any) -> None:
    assert importlib.metadata.version("tensordict") == stand_in.__version__ == peer_modules.VERSION
    assert importlib.metadata.version("numpy") != peer_modules.VERSION


def test_a_name_that_is_not_there_is_an_error_that_says_who_answers(stand_in: Any) -> None:
    with pytest.raises(AttributeError, match=r"'tensordict\.utils' has no attribute '_nothing' \(tensorclass\.compat"):
        _ = stand_in.utils._nothing
    with pytest.raises(ImportError, match="_nothing"):
        exec("from tensordict.utils import _nothing")
    with pytest.raises(ImportError, match="nothing"):
        importlib.import_module("tensordict.nothing")


def test_a_star_gives_the_public_names(stand_in: Any) -> None:
    space: dict[str, Any] = {}
    exec("from tensordict.nn.probabilistic import *", space)
    assert sorted(name for name in space if not name.startswith("__")) == sorted(stand_in.nn.probabilistic.__all__)


def test_uninstall_gives_the_name_back(monkeypatch: pytest.MonkeyPatch) -> None:
    if compat.is_installed():
        pytest.skip("installed for the whole run")
    for name in [name for name in sys.modules if name.split(".")[0] == "tensordict"]:
        monkeypatch.delitem(sys.modules, name)
    finders, command = list(sys.meta_path), spawn.get_command_line
    compat.install()
    compat.install()
    assert compat.is_installed()
    importlib.import_module("tensordict")
    compat.uninstall()
    compat.uninstall()
    assert not compat.is_installed()
    assert sys.meta_path == finders
    assert spawn.get_command_line is command
    assert not [name for name in sys.modules if name.split(".")[0] == "tensordict"]
    assert not hasattr(tc.TensorDict, "__setstate__")


def test_children_of_multiprocessing_install_too(stand_in: Any) -> None:
    command = spawn.get_command_line(tracker_fd=3, pipe_handle=4)
    code = command[command.index("-c") + 1]
    assert code.startswith("from tensorclass.compat.import_hook import install; install(); from multiprocessing")


def test_after_an_import_of_tensordict_it_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    if compat.is_installed():
        pytest.skip("installed for the whole run")
    monkeypatch.setitem(sys.modules, "tensordict", importlib.import_module("types").ModuleType("tensordict"))
    with pytest.raises(RuntimeError, match=r"imported already.*python -m tensorclass\.compat PROGRAM"):
        compat.install()
    assert not compat.is_installed()
