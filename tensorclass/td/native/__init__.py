"""Operations in C++, which call torch's kernels without its Python interface: optional, built on the user's machine.

``tensorclass native --build`` compiles ``source/`` for the installed torch into this folder; the package
``tensorclass-native`` brings it compiled. Without either, or with the environment variable ``TENSORCLASS_NATIVE=0``,
every operation runs in Python, with the same results.

A native operation tries: it returns ``None``, with nothing done, for whatever it does not know, among it everything
that raises, and the method goes on in Python. A method says so with a decorator, and does not ask itself::

    @native.tries("reshape")
    def reshape(self, *shape): ...

The function of the library takes the positional arguments of the method. Compiled code is traced through the method in
Python and has no guards for the question. Without a library the decorator returns the method as it is.

``README.md`` says which operations have native code, and why these. Functions, properties and classes are those that
Python makes: debuggers, tracers and profilers see each call.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling

from tensorclass.td.collection import Collection
from tensorclass.td.operations import OPERATIONS

from . import native_library
from .first_load import FirstLoad

#: methods that have native code: a class that overrides one of them runs in Python (see ``Collection._NATIVE``)
METHODS: tuple[str, ...] = tuple([row.operator or row.name for row in OPERATIONS if row.native])

if TYPE_CHECKING:
    # what the package tells the library; see the comments in source/module.cpp
    def fill_record(
        made: Any, fields: tuple[Any, ...], batch_size: Any, device: Any, names: Any, /, *values: Any
    ) -> bool | None: ...


#: the methods that try each function of the library
TRIED: dict[str, list[Callable[..., Any]]] = {}

F = TypeVar("F", bound=Callable[..., Any])


def tries(name: str, *bound: object) -> Callable[[F], F]:
    """Decorate a method or function that the library also implements: the library is tried first.

    Args:
        name: of the function of the library. It is called with the positional arguments, and has done all if it returns
            something other than ``None``, which is then the result.
        *bound: arguments that it gets behind the first.
    """

    def decorate(function: F) -> F:
        if WHY_OFF:
            return function
        library, code = _library[name], function.__code__
        names = code.co_varnames[: code.co_argcount]
        last = function.__defaults__ or ()
        defaults = {**dict(zip(names[len(names) - len(last) :], last, strict=True)), **(function.__kwdefaults__ or {})}

        def method(*args: Any, **kwargs: Any) -> Any:
            if not is_dynamo_compiling() and ON:
                given = _positional(args, kwargs, names, defaults) if kwargs else args
                if given:
                    result = library(given[0], *bound, *given[1:]) if bound else library(*given)
                    if result is not None:
                        return result
            return function(*args, **kwargs)

        functools.update_wrapper(method, function)
        # profilers and debuggers show the method, not this function, and tracebacks the line of the decorator
        method.__code__ = _on_first_line(
            method.__code__.replace(
                co_name=code.co_name, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
            )
        )
        TRIED.setdefault(name, []).append(method)
        return method  # type: ignore[return-value]

    return decorate


def _on_first_line(code: CodeType) -> CodeType:
    """Return code with all of its instructions on its first line.

    The form of ``co_linetable`` is described in ``InternalDocs/code_objects.md`` of CPython (3.10:
    ``Objects/lnotab_notes.txt``).
    """
    size = len(code.co_code)
    if sys.version_info < (3, 11):  # pairs: bytes of code, lines
        table = b"".join(bytes((min(254, size - at), 0)) for at in range(0, size, 254))
    else:  # for each of up to eight instructions of two bytes: no columns, how many; lines
        table = b"".join(bytes((0x80 | 13 << 3 | min(8, size // 2 - at) - 1, 0)) for at in range(0, size // 2, 8))
    return code.replace(co_linetable=table)


def _positional(
    args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...], defaults: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of a call by position, without those that are the default; none if others are left."""
    given = {name: value for name, value in kwargs.items() if name not in defaults or value is not defaults[name]}
    for name in names[len(args) :]:
        if name not in given:
            break
        args = (*args, given.pop(name))
    return () if given else args


def tell(name: str, *args: object) -> None:
    """Call a ``bind_...`` function of the library, if it is loaded: it registers a class, a function or an inverse."""
    if not WHY_OFF:
        _library[name](*args)


def switch(on: bool) -> None:
    """Switch native code on or off, where it is loaded: for tests, and to compare.

    Args:
        on: whether operations run in C++.
    """
    global ON
    if not WHY_OFF:
        ON = on  # pyright: ignore[reportConstantRedefinition]  # but for this, it is


#: the methods of ``METHODS`` that native code replaces
_known: dict[str, object] = {}

#: classes that native code leaves to Python because one of their methods was replaced
_left_to_python: WeakSet[type] = WeakSet()


def register_methods(base: type) -> None:
    """Register the methods of a class as those that native code replaces."""
    _known.update({name: getattr(base, name) for name in METHODS})


def overrides_nothing(cls: type) -> bool:
    """Return whether a class overrides none of the methods that native code replaces."""
    return all(getattr(cls, name) is _known[name] for name in METHODS)


def replaced(owner: type, name: str, before: object, member: object, calls_nested: bool) -> None:
    """Record that a method of a class was replaced.

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
    _library.update({key: value for key, value in vars(library).items() if not key.startswith("_")})
    globals()["fill_record"] = _library["fill_record"]
    return ""


def _warned(off: str, message: str) -> str:
    warnings.warn(message, RuntimeWarning, stacklevel=3)
    return off


def settle() -> None:
    """Record that the package was imported with the library. Called at the end of the import."""
    if _first_load is not None:
        _first_load.end()


#: the note about the first load of the library
_first_load: FirstLoad | None = None

#: the functions of the library, by name
_library: dict[str, Callable[..., Any]] = {}

#: why native code was not loaded; empty if it was
WHY_OFF = _load()

#: whether operations run in C++; tests switch it off
ON = not WHY_OFF
