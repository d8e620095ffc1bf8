"""The functions of the package that read parameters: they are the methods of a TensorDict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .td.tensordict import TensorDict as _TensorDict

if TYPE_CHECKING:
    from torch import nn

__all__ = ["from_module", "from_modules"]


def from_module(
    module: nn.Module,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    filter_empty: bool = True,
) -> Any:
    """:meth:`TensorDict.from_module`, locked by default.

    >>> from torch import nn
    >>> from_module(nn.Linear(3, 4)).is_locked
    True
    """
    return _TensorDict.from_module(module, as_module, lock, use_state_dict, filter_empty)


from_modules: Final = _TensorDict.from_modules
