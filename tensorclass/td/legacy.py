"""The switch for lazy operations of old releases of tensordict, which do not exist here."""

from __future__ import annotations

from typing_extensions import Self

from .modes import FlagSetting


def lazy_legacy(allow_none: bool = False) -> bool | None:
    """Return whether ``unsqueeze``, ``view``, ``torch.stack`` and others return lazy views, which they never do here.

    Args:
        allow_none: return ``None`` instead of ``False``, since the mode cannot have been set. Default: ``False``.

    Example:
        >>> from tensorclass import lazy_legacy
        >>> lazy_legacy(), lazy_legacy(allow_none=True)
        (False, None)
    """
    return None if allow_none else False


class set_lazy_legacy(FlagSetting):
    """Accept ``False``, the only mode there is, in a ``with`` statement, as a decorator or with ``.set()``.

    Args:
        mode: ``False``.

    Raises:
        NotImplementedError: the mode is ``True``. :func:`lazy_stack` makes a lazy stack.

    Example:
        >>> from tensorclass import lazy_legacy, set_lazy_legacy
        >>> with set_lazy_legacy(False):
        ...     lazy_legacy()
        False
    """

    def __init__(self, mode: bool) -> None:
        if mode:
            raise NotImplementedError(
                "set_lazy_legacy: lazy views do not exist here, all operations return collections; expected False, got "
                f"{mode!r}. For a lazy stack call lazy_stack()"
            )
        super().__init__(False)

    def __enter__(self) -> Self:  # there is nothing to set, which compiled code could not do anyway
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def set(self) -> None:
        """Set the mode for the rest of the program. It is ``False`` already, so nothing changes.

        Example:
            >>> from tensorclass import set_lazy_legacy
            >>> set_lazy_legacy(False).set()
        """
