"""``import tensordict`` finds this package: install and remove the finder of its modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from email.message import Message
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from multiprocessing import spawn
from os import PathLike
from types import ModuleType
from typing import Any, Final, cast

from tensorclass.td.modes import CAPTURE

from .peer_modules import MODULES, VERSION, fill

__all__ = ["install", "is_installed", "uninstall"]

PACKAGE: Final = "tensordict"


class _PeerFinder(DistributionFinder, Loader):
    """Finds the modules of ``tensordict``, and its version, before all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        is_package = any(name.startswith(fullname + ".") for name in MODULES)
        return ModuleSpec(fullname, self, origin="tensorclass.compat", is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        fill(module)

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 (as in the base)
    ) -> Iterable[Distribution]:
        return [_PeerDistribution()] if context.name in (None, PACKAGE) else []


class _PeerDistribution(Distribution):
    """Distribution of ``tensordict`` for ``importlib.metadata``: its name and the version that this package follows."""

    @property
    def metadata(self) -> Message:  # type: ignore[override]
        message = Message()
        message["Metadata-Version"], message["Name"], message["Version"] = "2.1", PACKAGE, VERSION
        return message

    def read_text(self, filename: str) -> str | None:
        return None

    def locate_file(self, path: str | PathLike[str]) -> PathLike[str]:  # type: ignore[override]
        raise FileNotFoundError(f"{path}: {PACKAGE} has no files here: tensorclass.compat stands in for it")


def _child_command(**arguments: Any) -> list[str]:
    """Return the command that starts a child process of multiprocessing, which installs first."""
    command = _plain_command(**arguments)
    if "-c" not in command:  # of a frozen program, which runs no code of ours first
        return command
    code = command.index("-c") + 1
    command[code] = f"from {__name__} import install; install(); {command[code]}"
    return command


_finder: _PeerFinder | None = None
_plain_command: Callable[..., list[str]] = spawn.get_command_line
_capture: bool | None = None  # the setting of set_capture_non_tensor_stack before


def install() -> None:
    """Let ``import tensordict`` find this package, for the rest of the program or until :func:`uninstall`.

    Every public module of ``tensordict`` is found, and the private names that its known clients import. Records that
    are declared through it (``tensordict.tensorclass``, ``tensordict.TensorClass``) take what those of ``tensordict``
    take: ``None`` for any field, objects of any type, fields with names of members. Records declared through this
    package stay as strict as they are. A stack of equal objects is a stack, as for ``tensordict``
    (``set_capture_non_tensor_stack(False)``). Processes that ``multiprocessing`` starts with ``spawn`` install, too. To
    install twice changes nothing.

    Raises:
        RuntimeError: the package ``tensordict`` itself has been imported. Its classes would stand beside those of this
            package.

    Example:
        >>> import sys
        >>> from tensorclass import compat
        >>> if "tensordict" not in sys.modules:  # it would be too late
        ...     compat.install()
        ...     from tensordict import TensorDict
        ...
        ...     compat.uninstall()
    """
    global _capture, _finder
    if _finder is not None:
        return
    if PACKAGE in sys.modules:
        where = getattr(sys.modules[PACKAGE], "__file__", None)
        raise RuntimeError(
            f"tensorclass.compat.install(): {PACKAGE} is imported already, from {where}; install before anything "
            "imports it, or start the program with python -m tensorclass.compat PROGRAM"
        )
    from .peer_methods import add_methods

    add_methods()
    _capture = CAPTURE.everywhere
    CAPTURE.everywhere = bool(_capture)
    cast("Any", spawn).get_command_line = _child_command
    _finder = _PeerFinder()
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undo :func:`install`: the next ``import tensordict`` finds the package of that name, if it is there.

    Modules that have imported names from ``tensordict`` keep them. Nothing happens if ``install`` was not called.

    Example:
        >>> from tensorclass import compat
        >>> compat.uninstall()
        >>> compat.is_installed()
        False
    """
    global _capture, _finder
    if _finder is None:
        return
    from .peer_methods import remove_methods

    remove_methods()
    CAPTURE.everywhere = _capture
    cast("Any", spawn).get_command_line = _plain_command
    sys.meta_path.remove(_finder)
    for name in MODULES:
        sys.modules.pop(name, None)
    _finder = None


def is_installed() -> bool:
    """Return whether ``import tensordict`` finds this package.

    Example:
        >>> from tensorclass import compat
        >>> compat.is_installed()
        False
    """
    return _finder is not None
