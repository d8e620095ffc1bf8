"""The collectives of ``torch.distributed`` on whole records: the functions behind the methods.

:mod:`.agreement` is how ranks agree on a call. :mod:`.reduce_ranks`, :mod:`.gather_ranks` and :mod:`.broadcast_ranks`
are the calls. :mod:`tensorclass.distributed.process_groups` has messages, time-outs, and the errors that name missing
ranks.
"""

from .reduce_ranks import Pending

__all__ = ["Pending"]
