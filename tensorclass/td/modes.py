"""Modes: values that hold for a block, for a function, or for the rest of the program.

All modes of the package stand on :class:`Mode`, which keeps the value, and :class:`Setting`, which sets it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from torch.utils import _contextlib
from typing_extensions import Self

from tensorclass.support.printable import type_name

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

#: decorates a generator so that its mode is not active while it is suspended; torch has no types for it
_decorated: Callable[..., Any] = _contextlib.context_decorator  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

#: the value of the innermost block of a thread or task, and those of the blocks around it
Overrides: TypeAlias = "tuple[Any, Overrides | None]"


class Mode(Generic[T]):
    """The current value of a mode: one for the whole program, which threads and tasks can override.

    Args:
        name: name for debuggers.
        value: the initial value of the program.
    """

    __slots__ = ("_guard", "_here", "_open", "everywhere")

    def __init__(self, name: str, value: T) -> None:
        self.everywhere: T = value
        self._here: ContextVar[Overrides | None] = ContextVar(name, default=None)
        self._open = 0  # overrides that are active, in all threads and tasks
        self._guard = threading.Lock()

    def current(self) -> T:
        """Return the innermost override of this thread and task, or the value of the program."""
        if self._open:  # torch.compile cannot read a context variable, so read it only if there is something in it
            here = self._here.get()
            if here is not None:
                value: T = here[0]
                return value
        return self.everywhere

    def is_overridden(self) -> bool:
        """Return whether this thread or task overrides the value of the program."""
        return bool(self._open) and self._here.get() is not None

    def override(self, value: T) -> None:
        """Override the value in this thread and task."""
        with self._guard:
            self._open += 1
        self._here.set((value, self._here.get()))

    def drop_override(self) -> None:
        """Drop the innermost override of this thread and task."""
        here = self._here.get()
        assert here is not None
        self._here.set(here[1])
        with self._guard:
            self._open -= 1


class Setting(Generic[T]):
    """Base class of what sets a mode: a context manager, a decorator, and ``set()``.

    A block holds for its own thread and task.
    """

    def _mode_and_value(self) -> tuple[Mode[T], T]:
        """Return the mode and the value to set."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        mode, value = self._mode_and_value()
        mode.override(value)
        return self

    def __exit__(self, *exc: object) -> None:
        self._mode_and_value()[0].drop_override()

    def set(self) -> None:
        """Set the mode for the rest of the program, in all threads. Open blocks take precedence.

        Example:
            >>> from tensorclass.contracts import validation
            >>> validation(True).set()
        """
        mode, value = self._mode_and_value()
        mode.everywhere = value

    def clone(self) -> Self:
        """Return another instance with the same arguments.

        Example:
            >>> from tensorclass import set_list_to_stack
            >>> set_list_to_stack(False).clone().mode
            False
        """
        return copy.copy(self)

    def __call__(self, function: F) -> F:
        given: Any = function
        if inspect.isasyncgenfunction(given):
            raise TypeError(f"{type_name(self)} cannot decorate the asynchronous generator {given.__qualname__!r}")
        if not inspect.iscoroutinefunction(given):
            return _decorated(self.clone, given)  # type: ignore[no-any-return]

        @functools.wraps(given)
        async def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return await given(*args, **kwargs)

        return decorated  # type: ignore[return-value]


class FlagSetting(Setting["bool | None"]):
    """Base class of settings whose value is ``True`` or ``False``."""

    _mode: ClassVar[Mode[bool | None]]

    def __init__(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise TypeError(f"{type_name(self)}: expected True or False, got {mode!r}")
        self.mode = mode

    def _mode_and_value(self) -> tuple[Mode[bool | None], bool | None]:
        return self._mode, self.mode


class ProgramSetting(Setting[T]):
    """Base class of settings whose blocks hold for all threads while they are open.

    With ``thread_local``, or inside a block that has it, a block holds for its own thread and task only.
    """

    def __init__(self, thread_local: bool = False) -> None:
        if type(thread_local) is not bool:
            raise TypeError(f"{type_name(self)}: thread_local is True or False, got {thread_local!r}")
        self.thread_local: bool = thread_local
        #: for each open block of this object: whether it is an override, and the value of the program before it
        self._before: list[tuple[bool, T]] = []

    def __enter__(self) -> Self:
        mode, value = self._mode_and_value()
        overrides = self.thread_local or mode.is_overridden()
        self._before.append((overrides, mode.everywhere))
        if overrides:
            mode.override(value)
        else:
            mode.everywhere = value
        return self

    def __exit__(self, *exc: object) -> None:
        mode = self._mode_and_value()[0]
        overrides, before = self._before.pop()
        if overrides:
            mode.drop_override()
        else:
            mode.everywhere = before

    def clone(self) -> Self:
        """Return another instance with the same arguments.

        Example:
            >>> from tensorclass.nn import set_interaction_type
            >>> set_interaction_type("mean").clone().type
            <InteractionType.MEAN: 'mean'>
        """
        new = copy.copy(self)
        new._before = []
        return new


#: ``None``: never set
LIST_TO_STACK: Mode[bool | None] = Mode("list_to_stack", None)
CAPTURE: Mode[bool | None] = Mode("capture_non_tensor_stack", None)


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
    mode = LIST_TO_STACK.current()
    return True if mode is None and not allow_none else mode


class set_list_to_stack(FlagSetting):
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

    _mode = LIST_TO_STACK


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
    mode = CAPTURE.current()
    return True if mode is None and not allow_none else mode


class set_capture_non_tensor_stack(FlagSetting):
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

    _mode = CAPTURE
