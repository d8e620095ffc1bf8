"""Collections between processes and machines.

``td.send(...)`` and its kin go over the groups of ``torch.distributed``: one collection moves as one message, its small
tensors put into one piece of memory (:mod:`.layout`). ``td.map(...)`` runs functions in other processes
(:mod:`.executors`). Nothing here is imported by ``import tensorclass``: the methods of collections import what they
need when they are called.
"""

from tensorclass.td.shared_memory import NoSharedMemory

from .executors import Runner
from .faults import NotSendable, RecordsDiffer, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout

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
