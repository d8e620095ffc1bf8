"""The mode that sums the log-probabilities of several variables."""

from __future__ import annotations

import os

from tensorclass.support.printable import type_name
from tensorclass.td.modes import Mode, ProgramSetting

_AGGREGATE: Mode[bool] = Mode(
    "composite_lp_aggregate", os.environ.get("COMPOSITE_LP_AGGREGATE", "0").lower() in ("1", "true")
)


def composite_lp_aggregate(nowarn: bool = False) -> bool:
    """Return the mode that :class:`set_composite_lp_aggregate` sets: ``True`` if log-probabilities are summed.

    Args:
        nowarn: no effect: there is no warning. Kept for compatibility.

    Example:
        >>> from tensorclass.nn import composite_lp_aggregate, set_composite_lp_aggregate
        >>> with set_composite_lp_aggregate(False):
        ...     composite_lp_aggregate()
        False
    """
    return _AGGREGATE.current()


class set_composite_lp_aggregate(ProgramSetting[bool]):
    """Set whether log-probabilities and entropies of several variables are summed.

    With ``True``, :meth:`CompositeDistribution.log_prob` returns one tensor of the batch's shape, and modules write it
    under ``"sample_log_prob"``. With ``False``, the default, it returns a ``TensorDict`` with one value per variable
    under ``"<variable>_log_prob"``. The environment variable ``COMPOSITE_LP_AGGREGATE`` sets the mode at the start of
    the program.

    A context manager and a decorator; ``set_composite_lp_aggregate(mode).set()`` holds for the rest of the program.

    Args:
        mode: whether to sum.
        thread_local: limit a block to its own thread; otherwise it holds for all threads while it is open.

    Example:
        >>> from tensorclass.nn import composite_lp_aggregate, set_composite_lp_aggregate
        >>> with set_composite_lp_aggregate(True):
        ...     composite_lp_aggregate()
        True
    """

    def __init__(self, mode: bool = True, *, thread_local: bool = False) -> None:
        super().__init__(thread_local)
        if type(mode) is not bool:
            raise TypeError(f"{type_name(self)}: expected True or False, got {mode!r}")
        self.mode = mode
        self._replaced: bool = composite_lp_aggregate()

    def _mode_and_value(self) -> tuple[Mode[bool], bool]:
        return _AGGREGATE, self.mode

    def set(self) -> None:
        """Set the mode for the rest of the program, in all threads. Open blocks take precedence.

        Example:
            >>> from tensorclass.nn import composite_lp_aggregate, set_composite_lp_aggregate
            >>> setter = set_composite_lp_aggregate(True)
            >>> setter.set()
            >>> composite_lp_aggregate()
            True
            >>> setter.unset()
        """
        self._replaced = _AGGREGATE.everywhere
        super().set()

    def unset(self) -> None:
        """Undo :meth:`set`: restore the mode that it replaced.

        Example:
            >>> from tensorclass.nn import composite_lp_aggregate, set_composite_lp_aggregate
            >>> before = composite_lp_aggregate()
            >>> setter = set_composite_lp_aggregate(not before)
            >>> setter.set()
            >>> setter.unset()
            >>> composite_lp_aggregate() is before
            True
        """
        _AGGREGATE.everywhere = self._replaced
