"""Addresses of the pages that describe names of Python, torch and numpy, by the rules that their sites follow.

No inventory is fetched, so the site builds without a network. A name must exist in the installed package.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from functools import cache
from typing import Any, Final

_PYTHON: Final = "https://docs.python.org/3/"
_TORCH: Final = "https://docs.pytorch.org/docs/stable/"
_NUMPY: Final = "https://numpy.org/doc/stable/"

#: pages of torch that describe many names; every other name has a page of its own
_TORCH_PAGES: Final = {
    "torch.Tensor": "tensors",
    "torch.dtype": "tensor_attributes",
    "torch.device": "tensor_attributes",
    "torch.layout": "tensor_attributes",
    "torch.memory_format": "tensor_attributes",
    "torch.Size": "size",
    "torch.UntypedStorage": "storage",
    "torch.utils.data": "data",
    "torch.distributed": "distributed",
    "torch.distributions": "distributions",
    "torch.testing": "testing",
    "torch.multiprocessing": "multiprocessing",
    "torch.nested": "nested",
    "torch.fx": "fx",
    "torch.export": "export",
    "torch.utils.checkpoint": "checkpoint",
    "torch.distributed.checkpoint": "distributed.checkpoint",
}

#: instances that stand for a value of a class, such as ``torch.float32``: the page of the class describes them
_TORCH_VALUES: Final = ("torch.dtype", "torch.layout", "torch.memory_format")

#: builtin types that the page of types describes; the others are on that of functions
_STDTYPES: Final = frozenset(
    {"str", "list", "tuple", "dict", "set", "frozenset", "range", "bytes", "bytearray", "memoryview"}
)

#: names by which docstrings and annotations call what is described under another name
_OTHER_NAMES: Final = {
    "Tensor": "torch.Tensor",
    "Future": "concurrent.futures.Future",
    "Module": "torch.nn.Module",
    "nn.Module": "torch.nn.Module",
    "ProcessGroup": "torch.distributed.ProcessGroup",
    "Dataset": "torch.utils.data.Dataset",
    "Sampler": "torch.utils.data.Sampler",
    "timedelta": "datetime.timedelta",
    "concurrent.futures._base.Future": "concurrent.futures.Future",
    "torch._C.Generator": "torch.Generator",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.parameter.Buffer": "torch.nn.Buffer",
    "torch.storage.UntypedStorage": "torch.UntypedStorage",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
}


def address(name: str) -> str | None:
    """Return the address of the entry of a public name, or ``None`` if no rule knows it or it does not exist."""
    name = public_path(name)
    package = name.partition(".")[0]
    is_known = package in ("torch", "numpy") or package in sys.stdlib_module_names or hasattr(builtins, package)
    if not is_known or not _exists(name):
        return None
    site, page = _page(name, package)
    return None if page is None else site + page


def public_path(name: str) -> str:
    """Return the name under which users import what modules know by this one."""
    return _OTHER_NAMES.get(name, name).removeprefix("builtins.").replace("typing_extensions.", "typing.")


def _page(name: str, package: str) -> tuple[str, str | None]:
    if package == "torch":
        return _TORCH, _torch_page(name)
    if package == "numpy":
        return _NUMPY, _numpy_page(name)
    if hasattr(builtins, package):
        return _PYTHON, _builtin_page(name)
    if package in sys.stdlib_module_names and "._" not in name:
        return _PYTHON, _python_page(name)
    return "", None


@cache
def _exists(name: str) -> bool:
    return find(name) is not None or name == "None"


@cache
def find(name: str) -> Any:
    """Return the object of a dotted name, or ``None``: modules are imported as needed."""
    parts = name.split(".")
    if hasattr(builtins, parts[0]):
        item: Any = builtins
    else:
        try:
            item = importlib.import_module(parts.pop(0))
        except ImportError:
            return None
    path = getattr(item, "__name__", "")
    for part in parts:
        path = f"{path}.{part}"
        if not hasattr(item, part):
            try:
                importlib.import_module(path)
            except ImportError:
                return None
        item = getattr(item, part, None)
    return item


def _is_module(name: str) -> bool:
    return name in sys.modules


def _torch_page(name: str) -> str | None:
    item = find(name)
    for cls in _TORCH_VALUES:
        if isinstance(item, find(cls)):
            return f"{_TORCH_PAGES[cls]}.html#{cls}"
    if _is_module(name):
        return f"{_TORCH_PAGES[name]}.html#module-{name}" if name in _TORCH_PAGES else None
    if name.startswith("torch.distributions."):  # described under the modules that define them
        return f"distributions.html#{item.__module__}.{item.__qualname__}"
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        prefix = ".".join(parts[:length])
        if prefix in _TORCH_PAGES and not (prefix == "torch.Tensor" and name != prefix):
            return f"{_TORCH_PAGES[prefix]}.html#{name}"
    owner = ".".join(parts[:-1])
    if isinstance(find(owner), type) and owner != "torch.Tensor":  # a method is on the page of its class
        return f"generated/{owner}.html#{name}"
    return f"generated/{name}.html#{name}"


def _numpy_page(name: str) -> str | None:
    item = find(name)
    if _is_module(name):
        return None
    if name.startswith("numpy.typing."):
        return f"reference/typing.html#{name}"
    if isinstance(item, type) and issubclass(item, importlib.import_module("numpy").generic):
        return f"reference/arrays.scalars.html#{name}"
    return f"reference/generated/{name}.html#{name}"


def _builtin_page(name: str) -> str:
    item = find(name)
    if item in (None, True, False, Ellipsis, NotImplemented):
        return f"library/constants.html#{name}"
    if isinstance(item, type) and issubclass(item, BaseException):
        return f"library/exceptions.html#{name}"
    page = "stdtypes" if name.partition(".")[0] in _STDTYPES or "." in name else "functions"
    return f"library/{page}.html#{name}"


def _python_page(name: str) -> str:
    if _is_module(name):
        return f"library/{name}.html#module-{name}"
    parts = name.split(".")
    module = next(".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in sys.modules)
    return f"library/{module}.html#{name}"
