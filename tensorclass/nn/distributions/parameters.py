"""Modules that convert the outputs of a network to the parameters of a normal distribution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Size, Tensor, nn
from torch.fx import Proxy

from tensorclass.nn.fx_tracing import as_call

from .scales import Mapping, mappings


class NormalParamExtractor(nn.Module):
    """Split the last dimension of a tensor: the first half is the location, the second half is mapped to the scale.

    Args:
        scale_mapping: the name of the mapping that makes the scale positive: see :func:`mappings`.
        scale_lb: the lower bound of the scale.

    Raises:
        NotImplementedError: no mapping has that name.

    Example:
        >>> import torch
        >>> from tensorclass.nn import NormalParamExtractor
        >>> loc, scale = NormalParamExtractor()(torch.zeros(3, 4))
        >>> loc.shape, scale
        (torch.Size([3, 2]), tensor([[1., 1.], [1., 1.], [1., 1.]]))
    """

    def __init__(self, scale_mapping: str = "biased_softplus_1.0", scale_lb: float = 1e-4) -> None:
        super().__init__()
        self.scale_mapping: Mapping = mappings(scale_mapping)
        self.scale_lb: float = scale_lb

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the location, the scale, and all further tensors unchanged.

        Args:
            *tensors: the first has shape ``[*, 2 * n]``.

        Returns:
            Location and scale of shape ``[*, n]``, then the further tensors. The location is a view.

        Raises:
            ValueError: there is no tensor, or its last dimension is odd.

        Example:
            >>> import torch
            >>> from tensorclass.nn import NormalParamExtractor
            >>> loc, scale, rest = NormalParamExtractor()(torch.zeros(3, 4), torch.ones(3))
            >>> loc.shape, scale.shape, rest.shape
            (torch.Size([3, 2]), torch.Size([3, 2]), torch.Size([3]))
        """
        if not tensors:
            raise ValueError("NormalParamExtractor: expected a tensor with location and scale in its last dimension")
        tensor, *others = tensors
        if isinstance(tensor, Proxy):
            return as_call(self, *tensors)  # pyright: ignore[reportReturnType]
        if not tensor.ndim or tensor.shape[-1] % 2:
            raise ValueError(
                "NormalParamExtractor: the last dimension is halved, so its size must be even; "
                f"got a tensor of shape {list(tensor.shape)}"
            )
        loc, scale = tensor.chunk(2, -1)
        return loc, self.scale_mapping(scale).clamp_min(self.scale_lb), *others


class AddStateIndependentNormalScale(nn.Module):
    """Add a scale to a location: a parameter that does not depend on the input of the network.

    Args:
        scale_shape: the shape of the scale, which is also the end of the shapes of locations; a scalar by default.
        scale_mapping: the name of the mapping that makes the scale positive: see :func:`mappings`.
        scale_lb: the lower bound of the scale.
        device: the device of the parameter.
        make_param: make it a parameter; with ``False`` a buffer.
        init_value: the initial value of the parameter, before the mapping.

    Raises:
        NotImplementedError: no mapping has that name.

    Example:
        >>> import torch
        >>> from tensorclass.nn import AddStateIndependentNormalScale
        >>> module = AddStateIndependentNormalScale(3)
        >>> loc, scale = module(torch.zeros(2, 3))
        >>> scale
        tensor([[1., 1., 1.], [1., 1., 1.]], grad_fn=<ClampMinBackward0>)
    """

    state_independent_scale: Tensor

    def __init__(
        self,
        scale_shape: Size | int | tuple[int, ...] | None = None,
        *,
        scale_mapping: str = "exp",
        scale_lb: float = 1e-4,
        device: torch.device | str | int | None = None,
        make_param: bool = True,
        init_value: float = 0.0,
    ) -> None:
        super().__init__()
        sizes: Sequence[int] = (scale_shape,) if isinstance(scale_shape, int) else (scale_shape or ())
        self.scale_lb: float = scale_lb
        self.scale_shape: Size = Size(sizes)
        self.scale_mapping: str = scale_mapping
        self._mapping = mappings(scale_mapping)
        scale = torch.full(self.scale_shape, float(init_value), device=device)
        if make_param:
            self.state_independent_scale = nn.Parameter(scale)
        else:
            self.register_buffer("state_independent_scale", scale)

    def forward(self, loc: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """Return the location, the scale in its shape, and all further tensors unchanged.

        Args:
            loc: the location; its shape ends with the shape of the scale.
            *others: further tensors.

        Returns:
            ``loc``, the scale in the shape of ``loc``, then the further tensors.

        Raises:
            RuntimeError: the shape of ``loc`` does not end with that of the scale.

        Example:
            >>> import torch
            >>> from tensorclass.nn import AddStateIndependentNormalScale
            >>> loc, scale = AddStateIndependentNormalScale(3, init_value=1.0)(torch.zeros(2, 3))
            >>> scale.shape
            torch.Size([2, 3])
        """
        if isinstance(loc, Proxy):
            return as_call(self, loc, *others)  # pyright: ignore[reportReturnType]
        shape = self.scale_shape
        if loc.shape[loc.ndim - len(shape) :] != shape:
            raise RuntimeError(
                f"AddStateIndependentNormalScale: the scale has the shape {list(shape)}, so the shape of the location "
                f"must end with it; got {list(loc.shape)}"
            )
        scale = self._mapping(self.state_independent_scale.expand(loc.shape)).clamp_min(self.scale_lb)
        return loc, scale, *others
