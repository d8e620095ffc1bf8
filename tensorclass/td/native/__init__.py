"""Operations in C++, which call torch's kernels without its Python interface: optional, built on the user's machine.

``tensorclass native --build`` compiles ``source/`` for the installed torch into this folder; the package
``tensorclass-native`` brings it compiled. Without either, or with the environment variable ``TENSORCLASS_NATIVE=0``,
every operation runs in Python, with the same results.

A native operation tries: it returns ``None``, with nothing done, for whatever it does not know, among it everything
that raises, and the method goes on in Python. Methods ask like this, so that compiled code is traced through the Python
code and has no guards for the question::

    if not is_dynamo_compiling() and native.ON:
        result = native.reshape(self, shape)
        if result is not None:
            return result

The question costs some 50 ns. So native code has only what is at least a fifth faster with it; ``README.md`` has the
figures. Functions, properties and classes are those that Python makes: debuggers, tracers and profilers see each call.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from torch import Size, Tensor

from tensorclass.td.collection import Collection

from . import native_library
from .first_load import FirstLoad

#: methods that have native code: a class that overrides one of them runs in Python (see ``Collection._NATIVE``)
METHODS = (
    "__eq__",
    "__getitem__",
    "__ne__",
    "_at",
    "_cat",
    "_index",
    "_leaves",
    "_like",
    "_moved",
    "_pairwise",
    "_placed",
    "_reduce",
    "_same",
    "_stack",
    "_where",
    "_with_leaves",
    "clone",
    "contiguous",
    "detach",
    "expand",
    "flatten",
    "permute",
    "reshape",
    "split_with_sizes",
    "squeeze",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "view",
)

if TYPE_CHECKING:
    # what the library has; see the comments in source/module.cpp
    def bind(tensor: type, size: type, collection: type) -> None: ...
    def bind_tensordict(cls: type) -> None: ...
    def bind_locks(by_lock: tuple[Any, Any], by_unlock: tuple[Any, Any], none: tuple[Any, Any]) -> None: ...
    def bind_trees(key: str, as_dict: object, as_list: object, as_tuple: object) -> None: ...
    def find(collection: Any, key: Any) -> Any: ...
    def set_tensor(collection: Any, key: Any, value: Any) -> bool | None: ...
    def set_field(record: Any, name: str, value: Any) -> bool | None: ...
    def walk(collection: Any, leaves_only: bool, pairs: bool) -> list[Any] | None: ...
    def shallow(collection: Any) -> Any: ...
    def empty(collection: Any) -> Any: ...
    def select(collection: Any, keys: tuple[Any, ...]) -> Any: ...
    def exclude(collection: Any, keys: tuple[Any, ...]) -> Any: ...
    def flat_store(collection: Any, separator: str) -> dict[str, Any] | None: ...
    def nested_store(collection: Any, separator: str) -> dict[str, Any] | None: ...
    def lock_keys(collection: Any, lock: bool) -> bool | None: ...
    def fill_tensordict(made: Any, source: Any, batch_size: Any) -> bool | None: ...
    def fill_record(
        made: Any, fields: tuple[Any, ...], batch_size: Any, device: Any, names: Any, /, *values: Any
    ) -> bool | None: ...
    def from_dict(cls: type, source: Any, batch_size: Any) -> Any: ...
    def to_dict(collection: Any) -> dict[str, Any] | None: ...
    def from_pytree(tree: Any) -> Any: ...
    def to_pytree(collection: Any) -> Any: ...
    def bind_inverses(copied: object, resized: object, permuted: object) -> None: ...
    def bind_objects(one: type, stack: type, linked_list: type, codes: str) -> None: ...
    def bind_column(cls: type, spans: str, is_text: bool) -> None: ...
    def index(collection: Any, item: Any) -> Any: ...
    def index_named(collection: Any, item: Any, names: Any) -> Any: ...
    def index_column(column: Any, item: Any) -> Any: ...
    def linked_lists(stack: Any, check: Any) -> Any: ...
    def object_of(data: Any, batch_size: Size, device: Any, names: Any) -> Any: ...
    def unbind_stack(stack: Any, dim: int) -> Any: ...
    def strings(text: Any) -> list[str | None] | None: ...
    def string(text: Any, row: int) -> str | None: ...
    def encode(strings: list[Any]) -> tuple[Tensor, Tensor] | None: ...
    def unflattened(
        cls: type, keys: tuple[str, ...], values: Any, device: Any, batch_size: Size, names: Any
    ) -> Any: ...
    def tensors_of(collection: Any) -> list[Tensor] | None: ...
    def with_tensors(collection: Any, tensors: list[Tensor]) -> Any: ...
    def placed(collection: Any, device: object, non_blocking: bool) -> Any: ...
    def views_of(memory: Tensor, spans: list[Any]) -> list[Tensor] | None: ...
    def module_tree(module: Any, filter_empty: bool, cls: type) -> Any: ...
    def swap_module(
        collection: Any,
        module: Any,
        cls: type,
        parameter: type,
        convert: Any,
        wrap: bool,
        done: list[Any],
        recurrent: list[Any],
        /,
    ) -> Any: ...
    def unswap_module(done: list[Any]) -> list[Any] | tuple[()] | None: ...
    def reshape(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def view(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def flatten(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def unflatten(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def squeeze(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def unsqueeze(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def expand(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def permute(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def transpose(collection: Any, args: tuple[Any, ...]) -> Any: ...
    def stack(items: Any, dim: Any) -> Any: ...
    def cat(items: Any, dim: Any) -> Any: ...
    def unbind(collection: Any, dim: int, names: Any) -> Any: ...
    def split(collection: Any, sizes: list[int], dim: int) -> Any: ...
    def write(collection: Any, index: Any, value: Any) -> bool | None: ...
    def write_all(collection: Any, source: Any, whole: bool) -> bool | None: ...
    def write_key(collection: Any, key: str, value: Any) -> bool | None: ...
    def are_tensors_of(entries: dict[Any, Any], batch_size: Size) -> bool | None: ...
    def bind_lazy(parts: type, lazily: object, name: str) -> None: ...
    def lazily(parts: list[Any], dim: int, like: Any) -> Any: ...
    def append_part(parts: list[Any], part: Any, batch_size: Size, dim: int) -> Size | None: ...
    def stack_key(parts: list[Any], key: str, dim: int) -> Any: ...
    def set_key(parts: list[Any], key: str, value: Any, dim: int, batch_size: Size) -> bool | None: ...
    def densify(parts: list[Any], dim: int) -> Any: ...
    def know(function: object, name: str) -> bool: ...
    def unary(collection: Any, function: object) -> Any: ...
    def unary_(collection: Any, function: object) -> Any: ...
    def binary(collection: Any, function: object, other: object) -> Any: ...
    def binary_(collection: Any, function: object, other: object) -> Any: ...
    def detach(collection: Any) -> Any: ...
    def contiguous(collection: Any) -> Any: ...
    def moved(collection: Any, target: object, inverse: object) -> Any: ...
    def retyped(collection: Any, dtype: object) -> Any: ...
    def know_reduction(function: object, name: str) -> bool: ...
    def reduce(collection: Any, function: object, dim: object, keepdim: bool) -> Any: ...
    def where(collection: Any, mask: Tensor, other: object) -> Any: ...


def switch(on: bool) -> None:
    """Switch native code on or off, where it is loaded: for tests, and to compare.

    Args:
        on: whether operations run in C++.
    """
    global ON
    if not WHY_OFF:
        ON = on  # pyright: ignore[reportConstantRedefinition]  # but for this, it is


#: the methods of ``METHODS`` that native code stands for
_known: dict[str, object] = {}

#: classes that native code would know, if a method of theirs were not replaced
_left_to_python: WeakSet[type] = WeakSet()


def know_methods(base: type) -> None:
    """Take the methods of a class for those that native code stands for."""
    _known.update({name: getattr(base, name) for name in METHODS})


def overrides_nothing(cls: type) -> bool:
    """Return whether a class has the methods that native code stands for."""
    return all(getattr(cls, name) is _known[name] for name in METHODS)


def replaced(owner: type, name: str, before: object, member: object, calls_nested: bool) -> None:
    """Take note that a method of a class was replaced.

    Args:
        owner: the class.
        name: the method.
        before: what was replaced.
        member: the new method.
        calls_nested: native code leaves classes that have the new method to Python; otherwise it stands for it, too.
    """
    if name not in METHODS:
        return
    if not calls_nested and _known[name] is before:
        _known[name] = member
    todo: list[Any] = [owner]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if cls.__dict__.get("_NATIVE") or cls in _left_to_python:
            cls._NATIVE = overrides_nothing(cls)
            (_left_to_python.discard if cls._NATIVE else _left_to_python.add)(cls)


def _load() -> str:
    """Take over the functions of the library, if there is one and it is wanted. Return why not, if not.

    Raises:
        ImportError: the environment variable is 1, and the library is missing, stale or damaged.
        ValueError: the environment variable is neither 0 nor 1.
    """
    global _first_load
    off = native_library.why_not_wanted()
    if off:
        return off
    required = os.environ.get(native_library.VARIABLE) == "1"
    file: Path | None = None
    with suppress(OSError):  # why_unusable says it
        file = native_library.found_library()
    if file is None:
        off = native_library.why_unusable()
        if required:
            raise ImportError(
                f"{native_library.VARIABLE}=1, but native code is {off} ({native_library.library_file()}); "
                "build it with `tensorclass native --build`, or unset the variable"
            )
        return off
    first_load = FirstLoad(file)
    if not required and first_load.crashed():
        off = "left out, as a process ended while it loaded it"
        return _warned(
            off,
            f"native code is {off} ({file}); {native_library.VARIABLE}=1 tries it again, "
            "`tensorclass native --build` builds it again, `tensorclass native --remove` removes it",
        )
    first_load.begin()
    try:
        library = native_library.load_library(file)
        library.bind(Tensor, Size, Collection)
    except (ImportError, AttributeError, TypeError) as error:
        if required:
            raise
        off = f"cannot be loaded: {error}"
        return _warned(
            off, f"native code {off}; build it again with `tensorclass native --build`, or remove it with `--remove`"
        )
    _first_load = first_load
    globals().update({key: value for key, value in vars(library).items() if not key.startswith("_")})
    return ""


def _warned(off: str, message: str) -> str:
    warnings.warn(message, RuntimeWarning, stacklevel=3)
    return off


def settle() -> None:
    """Take note that the package was imported with the library: called at the end of the import."""
    if _first_load is not None:
        _first_load.end()


#: the note about the first load of the library
_first_load: FirstLoad | None = None

#: why native code was not loaded; empty if it was
WHY_OFF = _load()

#: whether operations run in C++; tests switch it off
ON = not WHY_OFF
