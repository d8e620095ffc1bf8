"""The mode of old releases of tensordict in which shape operations return views that write through."""

from __future__ import annotations

import warnings
from typing import ClassVar

from .modes import FlagSetting, Mode
from .stores.legacy_views import install

_LAZY: Mode[bool | None] = Mode("lazy_legacy", None)


def lazy_legacy(allow_none: bool = False) -> bool | None:
    """Return whether shape operations such as ``view`` return views that write through.

    See :class:`set_lazy_legacy`, which sets the mode.

    Args:
        allow_none: return ``None`` instead of ``False`` where the mode was never set. Default: ``False``.

    Example:
        >>> from tensorclass import lazy_legacy
        >>> lazy_legacy(), lazy_legacy(allow_none=True)
        (False, None)
    """
    mode = _LAZY.current()
    return mode if allow_none or mode is not None else False


class set_lazy_legacy(FlagSetting):
    """Let shape operations return views that write through, as old releases of tensordict did, or not.

    With ``True``, the results of ``view``, ``permute``, ``transpose``, ``squeeze`` and ``unsqueeze`` have the keys and
    the lock of the collection that they are called on: a key that is set, removed or renamed in the view is set,
    removed or renamed there. Other operations return collections of their own. A ``with`` statement
    (``with data.view(-1) as flat:``) does that without the mode. Set it in a ``with`` statement, as a decorator or with
    ``.set()``.

    Args:
        mode: whether they do. ``True`` is deprecated: tensordict 0.17 removes it.

    Raises:
        TypeError: the mode is neither ``True`` nor ``False``.

    Example:
        >>> from tensorclass import lazy_legacy, set_lazy_legacy
        >>> with set_lazy_legacy(False):
        ...     lazy_legacy(allow_none=True)
        False
    """

    _mode: ClassVar[Mode[bool | None]] = _LAZY

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        if mode:
            warnings.warn(
                "set_lazy_legacy(True) is deprecated, and tensordict 0.17 removes it: write back with a block, "
                "`with data.view(-1) as flat: ...`, or set the keys in the collection itself",
                DeprecationWarning,
                stacklevel=2,
            )
            install(lazy_legacy)
