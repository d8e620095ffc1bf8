"""A distribution that has all of its probability at one point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from typing_extensions import Self


class Delta(Distribution):
    """All probability is at ``param``: for modules whose output is certain where a distribution is asked for.

    >>> point = Delta(torch.zeros(4, 3))
    >>> point.batch_shape, point.event_shape
    (torch.Size([4]), torch.Size([3]))
    >>> point.log_prob(torch.tensor([0.0, 0.0, 1.0]))
    tensor([-inf, -inf, -inf, -inf])

    Args:
        param: the point, of shape ``[*batch_shape, *event_shape]``.
        atol: values differ from the point if they do by more than ``atol + rtol * abs(param)``.
        rtol: see ``atol``.
        batch_shape: by default what remains of the shape of ``param`` without ``event_shape``.
        event_shape: by default what remains of the shape of ``param`` without ``batch_shape``; if that is not given
            either, the last dimension, as far as there is one.

    Raises:
        ValueError: the shapes do not make up that of ``param``.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleMethodOverride]
    has_rsample = True

    def __init__(
        self,
        param: Tensor,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        batch_shape: Size | Sequence[int] | None = None,
        event_shape: Size | Sequence[int] | None = None,
    ) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(f"Delta: the point is a tensor, got {type(param).__name__}")
        self.param: Tensor = param
        self.atol: float = atol
        self.rtol: float = rtol
        shape = param.shape
        if event_shape is None:
            at = max(len(shape) - 1, 0) if batch_shape is None else len(batch_shape)
            event_shape = shape[at:]
        if batch_shape is None:
            batch_shape = shape[: max(len(shape) - len(event_shape), 0)]
        if (*batch_shape, *event_shape) != tuple(shape):
            raise ValueError(
                f"Delta: batch_shape {list(batch_shape)} and event_shape {list(event_shape)} must make up "
                f"the shape of param, {list(shape)}"
            )
        super().__init__(Size(batch_shape), Size(event_shape), validate_args=False)

    def __repr__(self) -> str:
        return f"Delta(param: {self.param.shape})"

    @property
    def support(self) -> Any:
        """All numbers: what is not at the point has the density 0."""
        independent: Any = constraints.independent
        return independent(constraints.real, len(self._event_shape))

    def expand(self, batch_shape: Size | Sequence[int], _instance: object = None) -> Self:
        """The same point for a larger batch."""
        batch_shape = Size(batch_shape)
        event = self._event_shape
        param = self.param.expand(batch_shape + event)
        return type(self)(param, self.atol, self.rtol, batch_shape, event)

    def update(self, param: Tensor) -> None:
        """Moves all probability to another point, whose shape ends with the ``event_shape``.

        Raises:
            ValueError: its shape does not.
        """
        events = len(self._event_shape)
        batch = param.shape[: param.ndim - events]
        if batch + self._event_shape != param.shape:
            raise ValueError(
                f"Delta: the shape of the point must end with the event_shape {list(self._event_shape)}, "
                f"got {list(param.shape)}"
            )
        self.param, self._batch_shape = param, batch

    def _equal(self, value: Tensor) -> Tensor:
        """Where all of an event is at the point."""
        dtype = torch.promote_types(value.dtype, self.param.dtype)
        point = self.param.to(dtype)
        if dtype.is_floating_point or dtype.is_complex:
            equal = (value - point).abs() <= self.atol + self.rtol * point.abs()
        else:
            equal = value == point
        events = len(self._event_shape)
        return equal.flatten(equal.ndim - events).all(-1) if events else equal

    def log_prob(self, value: Tensor) -> Tensor:
        """``inf`` where the value is at the point, ``-inf`` elsewhere: a density, whose integral is 1.

        Args:
            value: of a shape that broadcasts with that of the point; the result has it without ``event_shape``.
        """
        equal = self._equal(value)
        dtype = self.param.dtype if self.param.is_floating_point() else torch.get_default_dtype()
        inf = torch.full((), torch.inf, dtype=dtype, device=self.param.device)
        return torch.where(equal, inf, -inf)

    def rsample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """The point, in the shape ``[*sample_shape, *batch_shape, *event_shape]``; gradients flow to it."""
        return self.param.expand(Size(sample_shape or ()) + self.param.shape)

    def sample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """As :meth:`rsample`: there is nothing random that gradients would have to go around."""
        return self.rsample(sample_shape)

    @property
    def mean(self) -> Tensor:
        """The point."""
        return self.param

    @property
    def mode(self) -> Tensor:
        """The point."""
        return self.param

    @property
    def median(self) -> Tensor:
        """The point."""
        return self.param

    @property
    def deterministic_sample(self) -> Tensor:
        """The point."""
        return self.param

    @property
    def variance(self) -> Tensor:
        """0."""
        return torch.zeros_like(self.param)
