"""Collections between processes and machines.

``td.send(...)`` and similar methods use the groups of ``torch.distributed``: a collection is one message, in which the
small tensors share a buffer (:mod:`.messages.message_buffer`). ``td.map(...)`` runs functions in other processes
(:mod:`.map.executors`). ``import tensorclass`` imports nothing of this: methods of collections import it when they are
called.
"""

from tensorclass.td.memory.shared_memory import NoSharedMemory

from .map.executors import Runner
from .worker_errors import NotSendable, RecordsDiffer, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout

__all__ = [
    "NoSharedMemory",
    "NotSendable",
    "RecordsDiffer",
    "Runner",
    "WorkerDied",
    "WorkerError",
    "WorkerRaised",
    "WorkerTimeout",
]
