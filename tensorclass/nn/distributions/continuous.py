"""A distribution with all of its probability at one point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from typing_extensions import Self

from tensorclass.support.printable import type_name


class Delta(Distribution):
    """All probability is at ``param``. For modules with a certain output where a distribution is expected.

    Args:
        param: the point, of shape ``[*batch_shape, *event_shape]``.
        atol: values are at the point if they differ from it by at most ``atol + rtol * abs(param)``.
        rtol: see ``atol``.
        batch_shape: by default the dimensions of ``param`` in front of ``event_shape``.
        event_shape: by default the dimensions of ``param`` after ``batch_shape``. Without both, the event is the last
            dimension, if there is one.

    Raises:
        TypeError: ``param`` is not a tensor.
        ValueError: the shapes do not add up to the shape of ``param``.

    Example:
        >>> import torch
        >>> from tensorclass.nn.distributions import Delta
        >>> point = Delta(torch.zeros(4, 3))
        >>> point.batch_shape, point.event_shape
        (torch.Size([4]), torch.Size([3]))
        >>> point.log_prob(torch.tensor([0.0, 0.0, 1.0]))
        tensor([-inf, -inf, -inf, -inf])
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
            raise TypeError(f"Delta: the point is a tensor, got {type_name(param)}")
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
        """All real numbers; the density is 0 everywhere but at the point.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.tensor([1.0])).support.check(torch.tensor([5.0]))
            tensor(True)
        """
        independent: Any = constraints.independent
        return independent(constraints.real, len(self._event_shape))

    def expand(self, batch_shape: Size | Sequence[int], _instance: object = None) -> Self:
        """Return the same point for a larger batch, as a view.

        Args:
            batch_shape: the new batch shape, to which the old one broadcasts.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.zeros(3)).expand([4]).batch_shape
            torch.Size([4])
        """
        batch_shape = Size(batch_shape)
        event = self._event_shape
        param = self.param.expand(batch_shape + event)
        return type(self)(param, self.atol, self.rtol, batch_shape, event)

    def update(self, param: Tensor) -> None:
        """Move all probability to another point.

        Args:
            param: the point; its shape ends with the ``event_shape``.

        Raises:
            ValueError: the shape does not end with the ``event_shape``.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> point = Delta(torch.zeros(3))
            >>> point.update(torch.ones(3))
            >>> point.mean
            tensor([1., 1., 1.])
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
        """Return a mask over the batch: ``True`` where the whole event is at the point."""
        dtype = torch.promote_types(value.dtype, self.param.dtype)
        point = self.param.to(dtype)
        if dtype.is_floating_point or dtype.is_complex:
            equal = (value - point).abs() <= self.atol + self.rtol * point.abs()
        else:
            equal = value == point
        events = len(self._event_shape)
        return equal.flatten(equal.ndim - events).all(-1) if events else equal

    def log_prob(self, value: Tensor) -> Tensor:
        """Return ``inf`` at the point and ``-inf`` elsewhere: the logarithm of a density whose integral is 1.

        Args:
            value: broadcasts with the point.

        Returns:
            A tensor of the broadcast shape without the event dimensions.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.zeros(2)).log_prob(torch.zeros(2))
            tensor(inf)
        """
        equal = self._equal(value)
        dtype = self.param.dtype if self.param.is_floating_point() else torch.get_default_dtype()
        inf = torch.full((), torch.inf, dtype=dtype, device=self.param.device)
        return torch.where(equal, inf, -inf)

    def rsample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Return the point, expanded. Gradients flow to it.

        Args:
            sample_shape: dimensions in front of the batch; none by default.

        Returns:
            A view of shape ``[*sample_shape, *batch_shape, *event_shape]``.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.zeros(2)).rsample([3]).shape
            torch.Size([3, 2])
        """
        return self.param.expand(Size(sample_shape or ()) + self.param.shape)

    def sample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Return the point as a sample: the same as :meth:`rsample`.

        Gradients flow here too, because nothing is random.

        Args:
            sample_shape: the dimensions of the sample in front of the batch shape; none by default.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.zeros(2)).sample([3]).shape
            torch.Size([3, 2])
        """
        return self.rsample(sample_shape)

    @property
    def mean(self) -> Tensor:
        """The point.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.tensor([1.0, 2.0])).mean
            tensor([1., 2.])
        """
        return self.param

    @property
    def mode(self) -> Tensor:
        """The point.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.tensor([1.0, 2.0])).mode
            tensor([1., 2.])
        """
        return self.param

    @property
    def median(self) -> Tensor:
        """The point.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.tensor([1.0, 2.0])).median
            tensor([1., 2.])
        """
        return self.param

    @property
    def deterministic_sample(self) -> Tensor:
        """The point.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.tensor([1.0, 2.0])).deterministic_sample
            tensor([1., 2.])
        """
        return self.param

    @property
    def variance(self) -> Tensor:
        """Zeros.

        Example:
            >>> import torch
            >>> from tensorclass.nn.distributions import Delta
            >>> Delta(torch.tensor([1.0, 2.0])).variance
            tensor([0., 0.])
        """
        return torch.zeros_like(self.param)
