"""Classes and functions that modules of the engine need before they exist.

The modules of the engine need each other: a mapping that is written to a collection becomes a ``TensorDict``, which is
itself a collection. So the module that defines such a class registers it, and the others read it here when they are
called: ``registry.TensorDict``. Reading is one attribute of a module, which ``torch.compile`` takes as a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import TensorCollection as TensorCollection
    from .leaves.nontensor import non_tensor as non_tensor
    from .leaves.nontensor import stack_of as stack_of
    from .leaves.nontensor_base import NonTensorDataBase as NonTensorDataBase
    from .leaves.nontensor_data import NonTensorData as NonTensorData
    from .stores.lazy.lazy_base import lazily as lazily
    from .stores.lazy.lazy_stack import LazyStacked as LazyStacked
    from .stores.lazy.lazy_stack import lazy_stack as lazy_stack
    from .stores.lazy.lazy_stack import maybe_dense_stack as maybe_dense_stack
    from .stores.store_classes import dense_class as dense_class
    from .stores.sub_tensordict import SubTensorDict as SubTensorDict
    from .tensordict import TensorDict as TensorDict

    #: the record that ``attrs()`` makes for each tensor; records register it, which the engine does not know
    TensorAttrs: Callable[..., TensorCollection]


def register(*entries: Callable[..., Any]) -> None:
    """Make classes and functions available under their names.

    Raises:
        ValueError: a name is registered already.
    """
    for entry in entries:
        if entry.__name__ in globals():
            raise ValueError(f"{entry.__name__} is registered already, from {globals()[entry.__name__].__module__}")
        globals()[entry.__name__] = entry
