"""``DistributedDataParallel`` for modules that give collections.

Torch's own takes records and collections as arguments and results, and synchronises gradients through them. Only with
``find_unused_parameters=True`` it looks into the results by itself, and there knows tensors, lists, tuples, dicts and
dataclasses: so a record is looked into, and a :class:`TensorDict` is not.
"""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel as _OfTorch
from torch.utils._pytree import tree_flatten, tree_unflatten


class DistributedDataParallel(_OfTorch):
    """Torch's :class:`~torch.nn.parallel.DistributedDataParallel`, which finds the tensors of every collection.

    It is needed where a module gives TensorDicts, lazy stacks or pytrees of them, as those of :mod:`tensorclass.nn` do,
    and ``find_unused_parameters=True``. Torch's own then takes all parameters for unused and raises an error
    ("Expected to mark a variable ready only once"). Arguments, names of parameters and all else are the same.
    """

    def _post_forward(self, output: Any) -> Any:
        leaves, structure = tree_flatten(output)
        wrapped: Any = super()
        found: Any = wrapped._post_forward(leaves)
        return tree_unflatten(found, structure)


__all__ = ["DistributedDataParallel"]
