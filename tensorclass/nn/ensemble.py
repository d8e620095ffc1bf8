"""Run several copies of a module, each with its own parameters, as one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from typing_extensions import Self

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import unravel_key_list
from tensorclass.td.tensordict import TensorDict

from .dispatch import as_outputs, collected, only_values
from .fx_tracing import as_call
from .module_base import T, TensorDictModuleBase, names_of
from .params import TensorDictParams

if TYPE_CHECKING:
    from tensorclass.td.keys import NestedKey


class EnsembleModule(TensorDictModuleBase):
    """Run copies of a module together, by ``torch.vmap``. Results get a new first batch dimension: the copies.

    Each copy is initialised by calling ``reset_parameters`` of the submodules that have it; all other parameters start
    equal. The parameters of the copies are stacked in ``params_td``, which is what an optimizer trains. The module
    itself defines the computation; its own parameters are not used. Random numbers, of dropout for example, differ
    between copies.

    Args:
        module: a module with ``in_keys`` and ``out_keys``.
        num_copies: the number of copies, at least 1.
        expand_input: give every copy the whole input. With ``False`` the first batch dimension of the input is the
            copies, as after another ensemble.

    Raises:
        TypeError: the module has no ``in_keys`` and ``out_keys``.
        ValueError: ``num_copies`` is not positive.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import EnsembleModule, TensorDictModule
        >>> module = TensorDictModule(nn.Linear(4, 2), in_keys=["a"], out_keys=["b"])
        >>> ensemble = EnsembleModule(module, num_copies=3)
        >>> ensemble(TensorDict(a=torch.randn(10, 4), batch_size=[10]))["b"].shape
        torch.Size([3, 10, 2])
    """

    _selects = True

    def __init__(self, module: TensorDictModuleBase, num_copies: int, expand_input: bool = True) -> None:
        super().__init__()
        if not isinstance(module, nn.Module) or not TensorDictModuleBase.is_tdmodule_compatible(module):
            raise TypeError(
                f"EnsembleModule: expected a module with in_keys and out_keys, got {names_of(module)}; "
                "TensorDictModule(module, in_keys=..., out_keys=...) makes one"
            )
        if num_copies < 1:
            raise ValueError(f"EnsembleModule: expected a num_copies of at least 1, got {num_copies}")
        self.in_keys: Sequence[NestedKey] = module.in_keys
        self.out_keys: Sequence[NestedKey] = module.out_keys
        self.module: TensorDictModuleBase = module
        stacked: Any = TensorDict.from_modules(*(_initialised(module) for _ in range(num_copies)), as_module=True)
        self.params_td: TensorDictParams = stacked.unlock_()
        self.num_copies: int = num_copies
        self.expand_input: bool = expand_input

    @overload
    def forward(self, tensordict: T) -> T: ...
    @overload
    def forward(self, *args: Tensor, **kwargs: Tensor) -> Any: ...
    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Run all copies. The input is not changed.

        Args:
            tensordict: a collection that has the ``in_keys``; or the first tensor.
            *args: further tensors, in the order of ``in_keys``.
            **kwargs: tensors by keyword.

        Returns:
            A collection with batch size ``[num_copies, *batch_size]``; for a call with tensors the values under
            ``out_keys``.

        Raises:
            TypeError: a call with a collection has further arguments, or a keyword is not one of the ``in_keys``.
            ValueError: with ``expand_input=False``, the batch size does not begin with ``num_copies``.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from tensorclass.nn import EnsembleModule, TensorDictModule
            >>> ensemble = EnsembleModule(TensorDictModule(nn.Linear(4, 2), ["a"], ["b"]), num_copies=3)
            >>> ensemble(torch.zeros(10, 4)).shape
            torch.Size([3, 10, 2])
        """
        if isinstance(tensordict, TensorCollection):
            if args or kwargs:
                raise TypeError(
                    f"EnsembleModule: expected one collection, got {len(args) + len(kwargs)} more arguments"
                )
            return self._run(tensordict)
        if isinstance(tensordict, Proxy):
            return as_call(self, tensordict)
        given = args if tensordict is None else (tensordict, *args)
        data = collected(only_values("EnsembleModule", unravel_key_list(self.in_keys), given, kwargs), False)
        result = self._run(data if self.expand_input else data.auto_batch_size_(1))
        return as_outputs([result._get_key(key) for key in self.out_keys])

    if TYPE_CHECKING:

        @overload
        def __call__(self, tensordict: T) -> T: ...
        @overload
        def __call__(self, *args: Tensor, **kwargs: Tensor) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:
        __call__ = nn.Module.__call__

    def _run(self, tensordict: Any) -> Any:
        if not self.expand_input and (not tensordict.ndim or tensordict.shape[0] != self.num_copies):
            raise ValueError(
                f"EnsembleModule: expected a batch size that begins with the number of copies, {self.num_copies}, got "
                f"{list(tensordict.batch_size)}; with expand_input=True every copy gets all of the input"
            )
        # vmap needs an input with the dimension, also if there are no parameters
        copies = torch.arange(self.num_copies)
        in_dims = (0, None if self.expand_input else 0, 0)
        return torch.vmap(self._call, in_dims, randomness="different")(self.params_td, tensordict, copies)

    def _call(self, params: Any, tensordict: Any, _copy: Any) -> Any:
        with params.to_module(self.module):
            return self.module(tensordict)

    def select_out_keys(self, *out_keys: Any) -> Self:
        """Restrict the keys that the copies write. See :meth:`TensorDictModuleBase.select_out_keys`.

        Example:
            >>> import torch
            >>> from tensorclass.nn import EnsembleModule, TensorDictModule
            >>> module = TensorDictModule(torch.frexp, ["x"], ["mantissa", "exponent"])
            >>> EnsembleModule(module, 2).select_out_keys("mantissa").out_keys
            ['mantissa']
        """
        self.module.select_out_keys(*out_keys)
        return super().select_out_keys(*out_keys)

    def reset_out_keys(self) -> Self:
        """Undo :meth:`select_out_keys`.

        Example:
            >>> import torch
            >>> from tensorclass.nn import EnsembleModule, TensorDictModule
            >>> module = TensorDictModule(torch.frexp, ["x"], ["mantissa", "exponent"])
            >>> EnsembleModule(module, 2).select_out_keys("mantissa").reset_out_keys().out_keys
            ['mantissa', 'exponent']
        """
        self.module.reset_out_keys()
        return super().reset_out_keys()

    def reset_parameters_recursive(self, parameters: Any = None) -> Any:
        """Initialise the copies anew, each by itself.

        Args:
            parameters: stacked parameters, as ``params_td``. They are not changed, and ``params_td`` is not either. By
                default ``params_td`` is reset in place.

        Returns:
            New stacked parameters if ``parameters`` is given, else ``None``.

        Raises:
            ValueError: the batch size of ``parameters`` is not that of ``params_td``.

        Example:
            >>> from torch import nn
            >>> from tensorclass.nn import EnsembleModule, TensorDictModule
            >>> ensemble = EnsembleModule(TensorDictModule(nn.Linear(4, 2), ["a"], ["b"]), num_copies=3)
            >>> ensemble.reset_parameters_recursive(ensemble.params_td).batch_size
            torch.Size([3])
        """
        fresh = TensorDict.from_modules(*(_initialised(self.module) for _ in range(self.num_copies)), lock=False)
        if parameters is None:
            self.params_td.update_(fresh)
            return None
        if parameters.batch_size != self.params_td.batch_size:
            raise ValueError(
                f"EnsembleModule: expected parameters of batch size {list(self.params_td.batch_size)}, one for each "
                f"copy, got {list(parameters.batch_size)}"
            )
        return fresh


def _initialised(module: nn.Module) -> nn.Module:
    """Copy a module and initialise the parameters of the copy."""
    fresh = copy.deepcopy(module)
    for submodule in fresh.modules():
        if isinstance(submodule, TensorDictModuleBase) and not hasattr(type(submodule), "reset_parameters"):
            continue  # it has the method of the module inside, which is one of the submodules, too
        reset: Any = getattr(submodule, "reset_parameters", None)
        if callable(reset):
            reset()
    return fresh
