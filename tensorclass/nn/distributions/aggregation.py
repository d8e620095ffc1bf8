"""Whether log-probabilities of several variables are added up."""

from __future__ import annotations

import os

from typing_extensions import Self

from tensorclass.nn.modes import Mode, ModeSetting

_AGGREGATE: Mode[bool] = Mode(os.environ.get("COMPOSITE_LP_AGGREGATE", "0").lower() in ("1", "true"))


def composite_lp_aggregate(nowarn: bool = False) -> bool:
    """Whether the log-probability of several variables is one number: see :class:`set_composite_lp_aggregate`.

    Args:
        nowarn: taken for compatibility: there is no warning to leave out.
    """
    return _AGGREGATE.current()


class set_composite_lp_aggregate(ModeSetting[bool]):
    """Sets whether log-probabilities and entropies of several variables are added up.

    With ``True``, :meth:`CompositeDistribution.log_prob` gives one tensor with the shape of the batch, and modules
    write it under ``"sample_log_prob"``. With ``False``, as where no mode is set, it gives a ``TensorDict`` with a
    value for each variable, under ``"<variable>_log_prob"``. The environment variable ``COMPOSITE_LP_AGGREGATE`` is
    the mode at the start of the program.

    A context manager and a decorator; ``set_composite_lp_aggregate(mode).set()`` holds for the rest of the program.

    >>> with set_composite_lp_aggregate(True):
    ...     composite_lp_aggregate()
    True

    Args:
        mode: whether they are added up.
        thread_local: for this thread only; otherwise for all threads, as long as the block is open.
    """

    def __init__(self, mode: bool = True, *, thread_local: bool = False) -> None:
        super().__init__(mode)
        self._begin(thread_local)
        self._replaced: bool = composite_lp_aggregate()

    def _mode_and_value(self) -> tuple[Mode[bool], bool]:
        return _AGGREGATE, self.mode

    def set(self) -> None:
        """Sets the mode for the rest of the program, in all threads, wherever no block says another."""
        self._replaced = _AGGREGATE.everywhere
        super().set()

    def unset(self) -> None:
        """Undoes :meth:`set`: the mode is what it was before."""
        _AGGREGATE.everywhere = self._replaced

    def clone(self) -> Self:
        """Another one with this mode."""
        return type(self)(self.mode, thread_local=self.thread_local)
