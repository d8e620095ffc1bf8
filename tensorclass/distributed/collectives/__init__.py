"""The collectives of ``torch.distributed`` on whole records, as functions; users call them as methods.

:mod:`.agreement` is how ranks agree on a call. :mod:`.reduce_ranks`, :mod:`.gather_ranks` and :mod:`.broadcast_ranks`
are the calls. :mod:`tensorclass.distributed.process_groups` has messages, time-outs, and the errors that name missing
ranks.
"""

from .broadcast_ranks import broadcast, scatter
from .gather_ranks import all_gather, gather_and_stack
from .reduce_ranks import Pending, all_reduce, reduce

__all__ = ["Pending", "all_gather", "all_reduce", "broadcast", "gather_and_stack", "reduce", "scatter"]
