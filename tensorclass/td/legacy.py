"""The lazy operations of old releases of tensordict: there are none here, and the switch for them says so."""

from __future__ import annotations

from contextlib import ContextDecorator

from typing_extensions import Self


def lazy_legacy(allow_none: bool = False) -> bool | None:
    """Whether ``unsqueeze``, ``view``, ``torch.stack`` and their kin give lazy views: never.

    Args:
        allow_none: give ``None``, as nobody can have set it.
    """
    return None if allow_none else False


class set_lazy_legacy(ContextDecorator):
    """Keeps operations as they are: ``set_lazy_legacy(False)`` in a ``with`` statement, as a decorator, or ``.set()``.

    Raises:
        NotImplementedError: lazy operations were asked for. :func:`lazy_stack` makes a lazy stack.

    >>> with set_lazy_legacy(False):
    ...     lazy_legacy()
    False
    """

    def __init__(self, mode: bool) -> None:
        if mode:
            raise NotImplementedError(
                "set_lazy_legacy: operations give collections here, not lazy views; for a lazy stack call lazy_stack()"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def set(self) -> None:
        """Keeps operations as they are for the rest of the program."""
