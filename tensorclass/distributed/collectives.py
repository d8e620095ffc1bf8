"""The collectives of ``torch.distributed`` on whole records: what a user calls, as methods, is here as functions.

:mod:`.agreement` has how ranks make sure that they mean the same, :mod:`.reducing`, :mod:`.gathering` and
:mod:`.spreading` what then happens; :mod:`.groups` has messages, time-outs and the errors that name missing ranks.
"""

from .gathering import all_gather, gather_and_stack
from .reducing import Pending, all_reduce, reduce
from .spreading import broadcast, scatter

__all__ = ["Pending", "all_gather", "all_reduce", "broadcast", "gather_and_stack", "reduce", "scatter"]
