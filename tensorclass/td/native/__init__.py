"""Operations in C++, which call torch's kernels without its Python interface: optional, built on the user's machine.

``python -m tensorclass native --build`` compiles ``source/`` for the installed torch into this folder, in some 15
seconds. Without it, or with the environment variable ``TENSORCLASS_NATIVE=0``, every operation runs in Python, with the
same results.

A native operation tries: it returns ``None``, with nothing done, for whatever it does not know, among it everything
that raises, and the method goes on in Python. Methods ask like this, so that compiled code is traced through the Python
code and has no guards for the question::

    if not is_dynamo_compiling() and native.ON:
        result = native.reshape(self, shape)
        if result is not None:
            return result
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from tensorclass.td.collection import Collection

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "source"

#: whether operations run in C++; tests switch it off
ON: bool = False

#: methods that have native code: a class that overrides one of them runs in Python (see ``Collection._NATIVE``)
METHODS = (
    "__getitem__",
    "_at",
    "_index",
    "_like",
    "_same",
    "expand",
    "flatten",
    "permute",
    "reshape",
    "squeeze",
    "transpose",
    "unflatten",
    "unsqueeze",
    "view",
)

if TYPE_CHECKING:
    # what the library has; see the comments in source/module.cpp
    def bind(tensor: type, size: type, collection: type) -> None: ...
    def bind_inverses(copied: object, resized: object, permuted: object) -> None: ...
    def index(collection: Any, item: Any) -> Any: ...
    def index_named(collection: Any, item: Any, names: Any) -> Any: ...
    def reshape(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def view(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def flatten(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def unflatten(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def squeeze(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def unsqueeze(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def expand(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def permute(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def transpose(collection: Any, args: tuple[Any, ...]) -> Any: ...


def overrides_nothing(cls: type, base: type) -> bool:
    """Return whether a class has the methods of its base that have native code."""
    return all(getattr(cls, name) is getattr(base, name) for name in METHODS)


def library_name() -> str:
    """Return the name of the library for this torch: its C++ interface differs between versions."""
    version = "".join([character if character.isalnum() else "_" for character in str(torch.__version__)])
    return f"_native_torch_{version}"


def library_file() -> Path:
    """Return the file of the library for this torch and this Python, whether it is there or not."""
    return FOLDER / f"{library_name()}{EXTENSION_SUFFIXES[0]}"


def is_built() -> bool:
    """Return whether the library is there, and not older than its sources."""
    try:
        built = library_file().stat().st_mtime_ns
    except OSError:
        return False
    return all(source.stat().st_mtime_ns <= built for source in SOURCES.iterdir())


def _load() -> bool:
    """Take the functions of the library over, if it is built and wanted. Return whether they are there."""
    wanted = os.environ.get("TENSORCLASS_NATIVE", "")
    if wanted == "0":
        return False
    if not is_built():
        if wanted == "1":
            raise ImportError(
                f"TENSORCLASS_NATIVE=1, but {library_file()} is missing or older than its sources; build it with "
                "`python -m tensorclass native --build`, or unset the variable"
            )
        return False
    name = f"{__name__}.{library_name()}"
    spec = importlib.util.spec_from_file_location(name, library_file())
    assert spec is not None
    assert spec.loader is not None
    try:
        library = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(library)
    except ImportError:
        if wanted == "1":
            raise
        return False
    sys.modules[name] = library
    globals().update({key: value for key, value in vars(library).items() if not key.startswith("_")})
    bind(Tensor, Size, Collection)
    return True


ON = _load()
