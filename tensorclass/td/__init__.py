"""The engine: untyped collections of tensors. It knows nothing of records."""

from . import pytree
from .base import TensorCollection
from .combining import cat, stack, where
from .keys import NestedKey, unravel_key, unravel_key_list, unravel_key_to_tuple
from .loading import collate
from .nontensor import NonTensorData, NonTensorDataBase, NonTensorStack, is_non_tensor
from .stores import SubTensorDict
from .tensordict import TensorDict

for _cls in (TensorDict, NonTensorData, NonTensorStack):
    pytree.register(_cls)

__all__ = [
    "NestedKey",
    "NonTensorData",
    "NonTensorDataBase",
    "NonTensorStack",
    "SubTensorDict",
    "TensorCollection",
    "TensorDict",
    "cat",
    "collate",
    "is_non_tensor",
    "stack",
    "unravel_key",
    "unravel_key_list",
    "unravel_key_to_tuple",
    "where",
]
