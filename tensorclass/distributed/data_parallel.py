"""``DistributedDataParallel`` for modules that return collections.

Torch's class takes records and collections as arguments and results, and synchronises gradients through them. Only with
``find_unused_parameters=True`` does it search the results for tensors, in lists, tuples, dicts and dataclasses: it
finds those of a record, but not those of a :class:`TensorDict`.
"""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel as _OfTorch
from torch.utils._pytree import tree_flatten, tree_unflatten


class DistributedDataParallel(_OfTorch):
    """Torch's :class:`~torch.nn.parallel.DistributedDataParallel`, which finds the tensors of every collection.

    Use it with ``find_unused_parameters=True`` for modules that return TensorDicts, lazy stacks or pytrees of them, as
    those of :mod:`tensorclass.nn` do. Torch's class then considers all parameters unused and raises an error ("Expected
    to mark a variable ready only once"). Everything else, names of parameters included, is the same.
    """

    def _post_forward(self, output: Any) -> Any:
        leaves, structure = tree_flatten(output)
        wrapped: Any = super()
        found: Any = wrapped._post_forward(leaves)
        return tree_unflatten(found, structure)


__all__ = ["DistributedDataParallel"]
