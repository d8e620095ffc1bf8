"""Modes: settings for a block, for a function, or for the rest of the program."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias, TypeVar

from torch.utils import _contextlib
from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

#: decorates a generator so that its mode is not active while it is suspended; torch has no types for it
_decorated: Callable[..., Any] = _contextlib.context_decorator  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: the mode of the innermost ``with`` statement, and those around it
Entered: TypeAlias = "tuple[bool, Entered | None]"


class Switch:
    """The state of a mode. ``with`` statements apply to their own thread and task, ``set()`` to the whole program."""

    __slots__ = ("_count", "_everywhere", "_guard", "_here", "default")

    def __init__(self, name: str, default: bool) -> None:
        self.default: bool = default
        self._everywhere: bool | None = None
        self._here: ContextVar[Entered | None] = ContextVar(name, default=None)
        self._count = 0  # open `with` statements, in all threads
        self._guard = threading.Lock()

    def current(self) -> bool | None:
        """Return the mode; ``None`` if it was never set."""
        if self._count:  # torch.compile cannot read a context variable, so read it only if it can be set
            here = self._here.get()
            if here is not None:
                return here[0]
        return self._everywhere

    def read(self, allow_none: bool) -> bool | None:
        """Return the mode, or the default if it was never set."""
        mode = self.current()
        return self.default if mode is None and not allow_none else mode

    def enter(self, mode: bool) -> None:
        with self._guard:
            self._count += 1
        self._here.set((mode, self._here.get()))

    def leave(self) -> None:
        here = self._here.get()
        assert here is not None
        self._here.set(here[1])
        with self._guard:
            self._count -= 1

    def set_everywhere(self, mode: bool) -> None:
        self._everywhere = mode


class Setting:
    """Base class of modes: a context manager, a decorator, and ``set()``."""

    _switch: ClassVar[Switch]

    def __init__(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise TypeError(f"{type(self).__name__}: expected True or False, got {mode!r}")
        self.mode = mode

    def __enter__(self) -> Self:
        self._switch.enter(self.mode)
        return self

    def __exit__(self, *exc: object) -> None:
        self._switch.leave()

    def set(self) -> None:
        """Set the mode for the rest of the program, in all threads. ``with`` statements take precedence.

        Example:
            >>> from tensorclass.contracts import validation
            >>> validation(True).set()
        """
        self._switch.set_everywhere(self.mode)

    def clone(self) -> Self:
        """Return another instance with the same mode.

        Example:
            >>> from tensorclass import set_list_to_stack
            >>> set_list_to_stack(False).clone().mode
            False
        """
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        given: Any = function
        if inspect.isasyncgenfunction(given):
            raise TypeError(f"{type(self).__name__} cannot decorate the asynchronous generator {given.__qualname__}")
        if not inspect.iscoroutinefunction(given):
            return _decorated(self.clone, given)  # type: ignore[no-any-return]

        @functools.wraps(given)
        async def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return await given(*args, **kwargs)

        return decorated  # type: ignore[return-value]


LIST_TO_STACK = Switch("list_to_stack", True)
CAPTURE = Switch("capture_non_tensor_stack", True)


def list_to_stack(allow_none: bool = False) -> bool | None:
    """Return whether a list of objects that is set under a key becomes a stack. See :class:`set_list_to_stack`.

    Args:
        allow_none: return ``None`` instead of ``True`` if the mode was never set. Default: ``False``.

    Example:
        >>> from tensorclass import list_to_stack, set_list_to_stack
        >>> with set_list_to_stack(False):
        ...     list_to_stack()
        False
    """
    return LIST_TO_STACK.read(allow_none)


class set_list_to_stack(Setting):
    """Choose whether a list of objects that is set under a key becomes a stack.

    If the mode was never set, a list with an object for each row of the batch becomes a stack, and any other list is
    one object for the whole batch. With ``True`` every list becomes a stack, which must fit the batch. With ``False``
    none does. Lists of numbers always become tensors.

    A context manager and a decorator for their own thread and task. ``set_list_to_stack(mode).set()`` applies
    everywhere.

    Args:
        mode: whether lists become stacks.

    Example:
        >>> from tensorclass import TensorDict, set_list_to_stack
        >>> with set_list_to_stack(True):
        ...     data = TensorDict({"text": ["a", "b"]})
        >>> data.get("text").batch_size
        torch.Size([2])
        >>> with set_list_to_stack(False):
        ...     data = TensorDict({"text": ["a", "b"]}, [2])
        >>> data[0]["text"]
        ['a', 'b']
    """

    _switch = LIST_TO_STACK


def capture_non_tensor_stack(allow_none: bool = False) -> bool | None:
    """Return whether a stack of equal objects stays one object. See :class:`set_capture_non_tensor_stack`.

    Args:
        allow_none: return ``None`` instead of ``True`` if the mode was never set. Default: ``False``.

    Example:
        >>> from tensorclass import capture_non_tensor_stack, set_capture_non_tensor_stack
        >>> with set_capture_non_tensor_stack(False):
        ...     capture_non_tensor_stack()
        False
    """
    return CAPTURE.read(allow_none)


class set_capture_non_tensor_stack(Setting):
    """Choose whether one object for a batch stays one object when the batch gets a new dimension.

    With ``True``, the default, a stack of equal objects is one object for the whole batch. With ``False`` ``stack``,
    ``unsqueeze`` and ``expand`` turn it into a :class:`NonTensorStack`, with an object for each position.

    A context manager and a decorator for their own thread and task. ``set_capture_non_tensor_stack(mode).set()``
    applies everywhere.

    Args:
        mode: whether equal objects are kept as one.

    Example:
        >>> from tensorclass import NonTensorData, set_capture_non_tensor_stack, stack
        >>> with set_capture_non_tensor_stack(False):
        ...     stack([NonTensorData("a"), NonTensorData("a")]).tolist()
        ['a', 'a']
        >>> stack([NonTensorData("a"), NonTensorData("a")]).data
        'a'
    """

    _switch = CAPTURE
