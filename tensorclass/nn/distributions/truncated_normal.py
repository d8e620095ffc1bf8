r"""The normal distribution between two bounds, accurate far into the tails.

For a standard normal variable between :math:`\alpha` and :math:`\beta`, with :math:`\varphi` its density, :math:`\Phi`
its distribution function and :math:`Z = \Phi(\beta) - \Phi(\alpha)`:

- density :math:`\varphi(z) / Z`, distribution function :math:`(\Phi(z) - \Phi(\alpha)) / Z`;
- mean :math:`\mu = (\varphi(\alpha) - \varphi(\beta)) / Z`;
- second moment :math:`1 + (\alpha \varphi(\alpha) - \beta \varphi(\beta)) / Z`, and the variance is that less
  :math:`\mu^2`;
- entropy :math:`\log(\sqrt{2 \pi} Z) + E[z^2] / 2`.

Sources: N. L. Johnson, S. Kotz, N. Balakrishnan, Continuous Univariate Distributions, volume 1, 1994, section 13.10.1;
J. Burkardt, The Truncated Normal Distribution, 2014.

Both terms of :math:`Z` underflow in a tail. There all terms are divided by :math:`\varphi(\beta)`, which leaves the
scaled complementary error function: for :math:`\alpha < \beta \le 0`, with :math:`\Delta = (\alpha^2 - \beta^2) / 2`,

.. math:: 2 e^{\beta^2 / 2} Z = \mathrm{erfcx}(-\beta / \sqrt 2) - \mathrm{erfcx}(-\alpha / \sqrt 2) e^{-\Delta}

(J. Fernandez-de-Cossio-Diaz, Moments of the univariate truncated normal distribution, 2017). An interval in the upper
tail is mirrored. Around 0 the two error functions have different signs, and no digits cancel. Computations are in
float64 if the device has it, whatever the dtype of the parameters.

The functions that are exact in the tails take ten times as long as the others. In eager mode on the CPU, where values
can be read, they are called for the elements that need them; elsewhere for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Size, Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch._C import _len_torch_dispatch_stack as _modes_active
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from typing_extensions import Self

from tensorclass.td import shapes

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_SQRT_PI_OVER_2 = math.sqrt(math.pi / 2.0)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_2 = math.sqrt(2.0)
_LOG_HALF = -math.log(2.0)

#: below this logarithm of a probability, Newton's method replaces ``ndtri``
_FAR = -600.0

#: smaller probabilities of doubles need the inverse that is exact in the tails, which takes six times as long
_SMALL = 0.02

#: the same for floats, which are computed in double precision
_SMALL_FLOAT = 1e-7

#: below this ``Φ`` nears the end of float64, and logarithms are used
_DEEP = -36.0

#: narrower intervals use a series in the width for the variance
_NARROW = 1e-3


def _erfcx(x: Tensor) -> Tensor:
    special: Any = torch.special
    value: Tensor = special.erfcx(x)
    return value


def _log_ndtr(z: Tensor) -> Tensor:
    """Compute ``log Φ``. ``torch.special.log_ndtr`` has no ``vmap`` rule."""
    is_below = z < -1.0
    below = torch.where(is_below, z, -1.0)
    tail = torch.log(0.5 * _erfcx(below * -_SQRT_HALF)) - 0.5 * below.square()
    return torch.where(is_below, tail, torch.log1p(-0.5 * torch.erfc(torch.where(is_below, -1.0, z) * _SQRT_HALF)))


def _hazard(z: Tensor) -> Tensor:
    """Compute ``Φ(z) / φ(z)``, the reciprocal of the derivative of ``log Φ``."""
    return _erfcx(z * -_SQRT_HALF) * _SQRT_PI_OVER_2


def _log_ndtri(y: Tensor) -> Tensor:
    """Compute the inverse of ``log_ndtr``: the z at which ``log Φ`` is ``y``, with its first and second derivatives.

    ``ndtri`` computes it as long as ``exp(y)`` does not underflow. Below that, ``log Φ(z)`` is about
    ``-z²/2 - log(-z √(2π))`` (Mills' ratio), which gives a first guess. As ``log Φ`` is concave, Newton's method
    converges from there: four steps reach the last digit.

    Two more steps are for the derivatives only. A step from a constant has the first derivative of the root; a second
    step also has the second derivative.
    """
    special: Any = torch.special
    infinite = y == -torch.inf
    y = torch.where(infinite, _FAR, y)
    fixed = y.detach()
    near: Tensor = special.ndtri(fixed.clamp_min(_FAR).exp())
    far = fixed.clamp_max(_FAR)
    square = -2.0 * (far + _LOG_SQRT_2PI)
    z = -(square - square.log()).sqrt()
    for _ in range(4):
        z = z - (_log_ndtr(z) - far) * _hazard(z)
    z = torch.where(fixed < _FAR, z, near)
    for _ in range(2):
        z = z - (_log_ndtr(z) - y) * _hazard(z)
    return torch.where(infinite, -torch.inf, z)


class _Interval(NamedTuple):
    """The standardised interval, mirrored if it lies above 0, and terms computed from it.

    Terms that an element does not use (``tail`` tells which half it uses) are harmless numbers, so that no derivative
    is nan. ``None`` stands for a mask that is ``False`` everywhere.
    """

    loc: Tensor
    scale: Tensor
    mirrored: Tensor | None
    tail: Tensor | None  # the interval lies below 0
    lower: Tensor  # any number if there is no bound
    upper: Tensor
    no_lower: Tensor | None
    no_upper: Tensor | None
    bracket: Tensor  # of the tail: 2 Z / φ(upper) / √(2π)
    decay: Tensor  # of the tail: φ(lower) / φ(upper)
    mass: Tensor  # of an interval around 0: 2 Z
    log_z: Tensor


def _if_any(mask: Tensor, hidden: bool) -> Tensor | None:
    """Return the mask, or ``None`` if it is known to be ``False`` everywhere."""
    return mask if hidden or bool(mask.any()) else None


def _unless(mask: Tensor | None, value: Tensor, other: float) -> Tensor:
    """Return ``value``, or ``other`` where the mask is ``True``."""
    return value if mask is None else torch.where(mask, other, value)


def _scaled(lower: Tensor, upper: Tensor, no_lower: Tensor | None) -> tuple[Tensor, Tensor]:
    """For an interval below 0, compute ``2 exp(upper² / 2) Z`` and ``φ(lower) / φ(upper)``."""
    decay = _unless(no_lower, torch.exp((upper - lower) * (upper + lower) * 0.5), 0.0)
    return _erfcx(upper * -_SQRT_HALF) - _erfcx(lower * -_SQRT_HALF) * decay, decay


def _mass(lower: Tensor, upper: Tensor, no_lower: Tensor | None, no_upper: Tensor | None) -> Tensor:
    """For an interval around 0, compute ``2 Z``."""
    above = _unless(no_upper, torch.erf(upper * _SQRT_HALF), 1.0)
    return above - _unless(no_lower, torch.erf(lower * _SQRT_HALF), -1.0)


def _halves(
    tail: Tensor, lower: Tensor, upper: Tensor, no_lower: Tensor | None
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Split the bounds into those of tails and the others, with harmless numbers for the remaining elements."""
    high = torch.where(tail, upper, -1.0)
    low = torch.where(tail, lower, -2.0)
    if no_lower is not None:
        low = torch.where(no_lower, high - 1.0, low)
    return (low, high), (torch.where(tail, -1.0, lower), torch.where(tail, 1.0, upper))


def _interval(
    loc: Tensor,
    scale: Tensor,
    alpha: Tensor,
    beta: Tensor,
    no_alpha: Tensor | None,
    no_beta: Tensor | None,
    hidden: bool,
) -> _Interval:
    """Build the interval. If values can be read (not ``hidden``), terms that no element needs are not computed."""
    mirrored: Tensor | None = None
    if hidden or not float(alpha.detach().max()) < 0:
        mirrored = _if_any(alpha >= 0 if no_alpha is None else (alpha >= 0) & ~no_alpha, hidden)
    lower, upper, no_lower, no_upper = alpha, beta, no_alpha, no_beta
    if mirrored is not None:
        lower, upper = torch.where(mirrored, -beta, alpha), torch.where(mirrored, -alpha, beta)
        if no_alpha is not None or no_beta is not None:
            none = torch.zeros_like(mirrored)
            below = none if no_alpha is None else no_alpha
            no_lower = torch.where(mirrored, none if no_beta is None else no_beta, below)
            no_upper = none if no_beta is None else no_beta & ~mirrored
    tail: Tensor | None = None
    if hidden or not float(upper.detach().min()) > 0:
        tail = _if_any(upper <= 0 if no_upper is None else (upper <= 0) & ~no_upper, hidden)
    if tail is None:
        mass = _mass(lower, upper, no_lower, no_upper)
        log_z = mass.log() + _LOG_HALF
        return _Interval(loc, scale, mirrored, None, lower, upper, no_lower, no_upper, mass, mass, mass, log_z)
    outer, inner = _halves(tail, lower, upper, no_lower)
    mass = _mass(*inner, None if no_lower is None else no_lower & ~tail, no_upper)
    if hidden:
        bracket, decay = _scaled(*outer, no_lower)
        log_z = torch.where(tail, bracket.log() - 0.5 * outer[1].square(), mass.log()) + _LOG_HALF
    else:  # erfcx takes twenty times as long as erf: compute it for tails only
        low, high = outer[0][tail], outer[1][tail]
        some_bracket, some_decay = _scaled(low, high, None if no_lower is None else no_lower[tail])
        ones = torch.ones_like(mass)
        bracket, decay = ones.masked_scatter(tail, some_bracket), ones.masked_scatter(tail, some_decay)
        log_z = mass.log().masked_scatter(tail, some_bracket.log() - 0.5 * high.square()) + _LOG_HALF
    return _Interval(loc, scale, mirrored, tail, lower, upper, no_lower, no_upper, bracket, decay, mass, log_z)


class TruncatedNormal(Distribution):
    """The normal distribution restricted to an interval.

    Args:
        loc: the mean of the normal distribution before truncation.
        scale: its standard deviation; positive.
        a: the lower bound; ``-inf`` for none.
        b: the upper bound; ``inf`` for none.
        validate_args: check arguments and values; torch's default if ``None``.

    Raises:
        ValueError: a lower bound is not below its upper bound, a scale is not positive, or a parameter is nan.

    Example:
        >>> import torch
        >>> from tensorclass.nn import TruncatedNormal
        >>> truncated = TruncatedNormal(torch.zeros(3), torch.ones(3), -1.0, 2.0)
        >>> truncated.mean
        tensor([0.2296, 0.2296, 0.2296])
        >>> truncated.log_prob(torch.tensor(0.0))
        tensor([-0.7188, -0.7188, -0.7188])

    Source: see the top of this module for the formulas and their sources.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {  # pyright: ignore[reportIncompatibleMethodOverride]
        "loc": constraints.real,
        "scale": constraints.positive,
        "a": constraints.real,
        "b": constraints.real,
    }
    has_rsample = True

    loc: Tensor
    scale: Tensor
    a: Tensor
    b: Tensor
    #: the standardised interval, once computed
    _interval: _Interval | None = None
    #: whether gradients flow through the cached terms
    _kept_graph: bool = False
    #: the term added to ``-z²/2`` for the logarithm of the density, once computed
    _log_factor: Tensor | None = None
    #: ``Φ`` of the ends of the mirrored interval, the upper end negated, and its mass, once computed
    _masses: tuple[Tensor, Tensor, Tensor] | None = None
    #: whether no probability between the ends is small
    _is_central: bool = False
    #: the deepest upper bound of an interval in a tail, once computed
    _depth: float | None = None
    _may_be_open: tuple[bool, ...]
    #: the bounds, if both are numbers
    _numbers: tuple[float, float] | None = None

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        a: float | Tensor,
        b: float | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.a, self.b = broadcast_all(loc, scale, a, b)
        # finite numbers need no masks of missing bounds, which take time
        self._may_be_open = tuple(isinstance(bound, Tensor) or math.isinf(bound) for bound in (a, b))
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            self._numbers = (a, b)
        super().__init__(self.loc.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.a < self.b).all()):
            raise ValueError(
                "TruncatedNormal: each lower bound a must be below its upper bound b; "
                f"got a between {self.a.min().item()} and {self.a.max().item()}, "
                f"b between {self.b.min().item()} and {self.b.max().item()}"
            )

    def expand(self, batch_shape: Size | Sequence[int], _instance: Any = None) -> Self:
        """Return the same distribution for a larger batch, as views of its parameters.

        Args:
            batch_shape: the new batch shape, to which the old one broadcasts.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 1.0).expand([4]).batch_shape
            torch.Size([4])
        """
        size = Size(batch_shape)
        new: Self = object.__new__(type(self)) if _instance is None else _instance
        new.loc, new.scale, new.a, new.b = (tensor.expand(size) for tensor in (self.loc, self.scale, self.a, self.b))
        Distribution.__init__(new, size, validate_args=False)
        new._validate_args = self._validate_args
        new._may_be_open, new._numbers = self._may_be_open, self._numbers
        return new

    @property
    def support(self) -> Any:
        """The interval between the bounds.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 1.0).support.check(torch.tensor([0.0, 2.0]))
            tensor([ True, False])
        """
        interval: Any = constraints.interval
        return interval(self.a, self.b)

    # -- the standardised interval ------------------------------------------------------------------------------------

    @property
    def _known(self) -> _Interval:
        """The standardised interval; computed on first use and cached."""
        known = self._interval
        differentiable = torch.is_grad_enabled()
        if known is None or (differentiable and not self._kept_graph):
            self._kept_graph = differentiable
            self._log_factor = self._masses = None
            dtype = torch.float64 if self.loc.device.type != "mps" else torch.float32
            loc, scale, a, b = self.loc.to(dtype), self.scale.to(dtype), self.a.to(dtype), self.b.to(dtype)
            hidden = self._is_hidden()
            no_alpha = _if_any(a == -torch.inf, hidden) if self._may_be_open[0] else None
            no_beta = _if_any(b == torch.inf, hidden) if self._may_be_open[1] else None
            alpha = (_unless(no_alpha, a, 0.0) - loc) / scale
            beta = (_unless(no_beta, b, 0.0) - loc) / scale
            known = self._interval = _interval(loc, scale, alpha, beta, no_alpha, no_beta, hidden)
        return known

    def _standardised(self, value: Tensor) -> Tensor:
        """Standardise a finite value, in the dtype of the computations."""
        known = self._known
        return (value.to(known.loc.dtype) - known.loc) / known.scale

    def _factor(self) -> Tensor:
        """The term added to ``-z²/2`` for the logarithm of the density."""
        known = self._known
        if self._log_factor is None:
            self._log_factor = -(known.log_z + known.scale.log() + _LOG_SQRT_2PI)
        return self._log_factor

    def _is_hidden(self) -> bool:
        """Return whether reading values would break a graph or wait for a device."""
        return (
            torch.compiler.is_compiling()
            or _transforms_active()
            or self.loc.device.type != "cpu"
            or not self.loc.numel()
            or _modes_active() > 0
        )

    def _is_beyond(self, depth: float) -> bool:
        """Return whether an interval may lie below ``depth``."""
        known = self._known
        if known.tail is None:
            return False
        if self._is_hidden():
            return True
        if self._depth is None:
            self._depth = float(torch.where(known.tail, known.upper, 0.0).detach().min())
        return self._depth < depth

    def _clamped(self, value: Tensor) -> Tensor:
        """Clamp a value to the bounds."""
        return value.clamp(self.a, self.b) if self._numbers is None else value.clamp(*self._numbers)

    def _are_inside(self, value: Tensor) -> bool:
        """Return whether all values are known to lie between the bounds."""
        if self._numbers is None or self._is_hidden() or not value.numel() or value.device.type != "cpu":
            return False
        least, most = value.detach().aminmax()
        # compared as tensors, so that the bound is cast to their dtype
        return bool(least >= self._numbers[0]) and bool(most <= self._numbers[1])

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Return the means of the standardised, mirrored variable and of its square."""
        known = self._known
        tail, decay = known.tail, known.decay
        # tails: φ(upper) / Z = √(2/π) / bracket; others: φ(z) / Z = √(2/π) exp(-z²/2) / mass
        low, high = _unless(known.no_lower, known.lower, 0.0), _unless(known.no_upper, known.upper, 0.0)
        inner_low, inner_high = (low, high) if tail is None else _halves(tail, low, high, None)[1]
        at_lower = _unless(known.no_lower, torch.exp(-0.5 * inner_low.square()), 0.0)
        at_upper = _unless(known.no_upper, torch.exp(-0.5 * inner_high.square()), 0.0)
        mass = known.mass
        if tail is not None:
            at_lower, at_upper = torch.where(tail, decay, at_lower), torch.where(tail, 1.0, at_upper)
            mass = torch.where(tail, known.bracket, mass)
        factor = _SQRT_2_OVER_PI / mass
        return (at_lower - at_upper) * factor, 1.0 + (low * at_lower - high * at_upper) * factor

    def _in_dtype(self, value: Tensor) -> Tensor:
        return value.to(self.loc.dtype)

    @property
    def auc(self) -> Tensor:
        """The probability of the normal distribution between the bounds, ``Z``.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 1.0).auc
            tensor(0.6827)
        """
        return self._in_dtype(self._known.log_z.exp())

    @property
    def eps(self) -> float:
        """The smallest probability from which samples are drawn.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> 0 < TruncatedNormal(0.0, 1.0, -1.0, 1.0).eps < 1e-6
            True
        """
        return torch.finfo(self.loc.dtype).tiny

    @property
    def mean(self) -> Tensor:
        """The expected value.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, 0.0, 1.0).mean
            tensor(0.4599)
        """
        first, _ = self._moments()
        known = self._known
        if known.mirrored is not None:
            first = torch.where(known.mirrored, -first, first)
        return self._clamped(self._in_dtype(known.loc + known.scale * first))

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 1.0).variance
            tensor(0.2911)
        """
        known = self._known
        first, second = self._moments()
        variance = second - first.square()
        lower, upper = _unless(known.no_lower, known.lower, -9.0), _unless(known.no_upper, known.upper, 9.0)
        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        half = _unless(known.no_lower, _unless(known.no_upper, half, 9.0), 9.0)  # never narrow
        narrow = half * (1.0 + middle.abs()) < _NARROW
        # the density exp(-m t - t²/2) for -h < t < h, to the fourth power of h
        series = half.square() * (1.0 / 3.0 - half.square() * (2.0 / 45.0 + middle.square() / 15.0))
        variance = torch.where(narrow, series, variance).clamp_min(0.0)
        return self._in_dtype(variance * known.scale.square())

    @property
    def mode(self) -> Tensor:
        """The most probable value: ``loc``, or the bound nearest to it.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, 0.5, 1.0).mode
            tensor(0.5000)
        """
        return self.loc.clamp(self.a, self.b)

    @property
    def median(self) -> Tensor:
        """The value with half of the probability below it.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, 0.0, 1.0).median
            tensor(0.4418)
        """
        return self.icdf(torch.full_like(self.loc, 0.5))

    def entropy(self) -> Tensor:
        """Compute the differential entropy, in nats.

        Returns:
            A tensor of the batch shape.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 2.0).entropy()
            tensor(1.0050)
        """
        _, second = self._moments()
        return self._in_dtype(0.5 * second - self._factor())

    # -- values -------------------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density; ``-inf`` outside the bounds.

        Args:
            value: broadcasts with the batch shape.

        Raises:
            ValueError: a value is outside the bounds, if arguments are validated.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 2.0, validate_args=False).log_prob(torch.tensor([0.0, 3.0]))
            tensor([-0.7188,    -inf])
        """
        if self._validate_args:
            self._validate_sample(value)
        z = self._standardised(value)
        log_prob = self._in_dtype(torch.addcmul(self._factor(), z, z, value=-0.5))
        if self._validate_args or self._are_inside(value):
            return log_prob
        return log_prob.masked_fill((value < self.a) | (value > self.b), -torch.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Compute the probability below each value: 0 below the lower bound, 1 above the upper bound.

        Args:
            value: broadcasts with the batch shape.

        Raises:
            ValueError: a value is outside the bounds, if arguments are validated.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 1.0).cdf(torch.tensor([-1.0, 0.0, 1.0]))
            tensor([0.0000, 0.5000, 1.0000])
        """
        if self._validate_args:
            self._validate_sample(value)
        known = self._known
        tail, mirrored = known.tail, known.mirrored
        infinite: Tensor | None = None
        if self._numbers is None or any(self._may_be_open):
            value = torch.minimum(torch.maximum(value, self.a), self.b)
            infinite = value.isinf()
        else:
            value = value.clamp(*self._numbers)
        z = self._standardised(_unless(infinite, value, 0.0))
        lower, upper, no_lower, no_upper = known.lower, z, known.no_lower, infinite
        if mirrored is not None:
            # mirrored: the probability below the value lies between the mirrored value and the upper bound
            z = torch.where(mirrored, -z, z)
            lower = torch.where(mirrored, z, known.lower)
            upper = torch.where(mirrored, known.upper, z)
            if infinite is not None:
                plain = torch.zeros_like(mirrored) if known.no_lower is None else known.no_lower
                no_lower = torch.where(mirrored, infinite, plain)
                no_upper = infinite & ~mirrored
        if tail is None:
            probability = _mass(lower, upper, no_lower, no_upper) / known.mass
        else:
            finite = tail if no_upper is None else tail & ~no_upper
            outer, inner = _halves(finite, lower, upper, no_lower)
            below = self._bracket(finite, *outer, no_lower)
            # each scaled mass refers to its own upper end; for a mirrored interval they are the same
            shifted = finite if mirrored is None else finite & ~mirrored
            shift = torch.where(shifted, (known.upper - z) * (known.upper + z) * 0.5, 0.0)
            in_tail = below * torch.exp(shift) / known.bracket
            probability = torch.where(tail, in_tail, _mass(*inner, no_lower, no_upper) / known.mass)
        if infinite is not None:  # a value at minus infinity has nothing below it
            probability = torch.where(value == -torch.inf, 0.0, probability)
        return self._in_dtype(probability.clamp(0.0, 1.0))

    def _bracket(self, tail: Tensor, lower: Tensor, upper: Tensor, no_lower: Tensor | None) -> Tensor:
        """Compute ``2 exp(upper² / 2) Z`` of the tails; other elements get any number."""
        if self._is_hidden():
            return _scaled(lower, upper, no_lower)[0]
        shape = shapes.broadcast(lower.shape, upper.shape, tail.shape)
        lower, upper, tail = lower.expand(shape), upper.expand(shape), tail.expand(shape)
        none = None if no_lower is None else no_lower.expand(shape)[tail]
        return torch.ones_like(lower).masked_scatter(tail, _scaled(lower[tail], upper[tail], none)[0])

    def icdf(self, value: Tensor) -> Tensor:
        """Compute the quantile: the value with the given probability below it.

        Args:
            value: probabilities; broadcast with the batch shape.

        Raises:
            ValueError: a probability is not between 0 and 1, if arguments are validated.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 2.0).icdf(torch.tensor([0.0, 1.0]))
            tensor([-1.,  2.])
        """
        if self._validate_args and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError("TruncatedNormal.icdf: expected probabilities between 0 and 1")
        known = self._known
        value = value.to(known.loc.dtype)
        mirrored = known.mirrored
        below = value if mirrored is None else torch.where(mirrored, 1.0 - value, value)
        z = self._quantile(known, below)
        if known.tail is not None and self._is_beyond(_DEEP):
            z = torch.where(known.tail & (known.upper < _DEEP), self._deep_quantile(known, below), z)
        if mirrored is not None:
            z = torch.where(mirrored, -z, z)
        return self._clamped(self._in_dtype(torch.addcmul(known.loc, known.scale, z)))

    def _quantile(self, known: _Interval, below: Tensor) -> Tensor:
        """Compute the quantile of the mirrored interval, as far as ``Φ`` does not underflow there.

        It is computed from the end of the interval that has less probability, which has more digits.
        """
        special: Any = torch.special
        tail = known.tail
        deep = None if tail is None or not self._is_beyond(_DEEP) else tail & (known.upper < _DEEP)
        is_double = self.loc.dtype is torch.float64
        if self._masses is None:
            lower, upper = _unless(deep, known.lower, -2.0), _unless(deep, known.upper, -1.0)
            # the probability above a tail is not used
            high = 0.5 * torch.erfc(_unless(tail, upper, -1.0) * _SQRT_HALF)
            low = _unless(known.no_lower, 0.5 * torch.erfc(lower * -_SQRT_HALF), 0.0)
            high = _unless(known.no_upper, high, 0.0)
            self._masses = low, high, torch.exp(_unless(deep, known.log_z, 0.0))
            small = _SMALL if is_double else _SMALL_FLOAT
            self._is_central = (
                not self._is_hidden()
                and deep is None
                and float(low.detach().min()) > small
                and float(high.detach().min()) > small
            )
        low, high, mass = self._masses
        from_below = torch.addcmul(low, below, mass)
        if self._is_central:
            return torch.erfinv(2.0 * from_below - 1.0) * _SQRT_2
        from_below = _unless(deep, from_below, 0.25)
        if self._is_hidden():
            above = from_below > 0.5 if tail is None else (from_below > 0.5) & ~tail
            share = torch.where(above, torch.addcmul(high, 1.0 - below, mass), from_below)
            z: Tensor = special.ndtri(share)
            return torch.where(above, -z, z)
        few = (from_below - 0.5).abs() >= 0.5 - (_SMALL if is_double else _SMALL_FLOAT)
        z = torch.erfinv(2.0 * from_below.masked_fill(few, 0.5) - 1.0) * _SQRT_2
        if not bool(few.any()):
            return z
        shape = from_below.shape
        share = from_below[few]
        above = share > 0.5 if tail is None else (share > 0.5) & ~tail.expand(shape)[few]
        rest = torch.addcmul(high.expand(shape)[few], 1.0 - below.expand(shape)[few], mass.expand(shape)[few])
        some: Tensor = special.ndtri(torch.where(above, rest, share))
        return z.masked_scatter(few, torch.where(above, -some, some))

    def _deep_quantile(self, known: _Interval, below: Tensor) -> Tensor:
        """Compute :meth:`_quantile` of an interval where ``Φ`` underflows."""
        lower = _unless(known.no_lower, known.lower, 0.0)
        log_lower = _unless(known.no_lower, _log_ndtr(lower), -torch.inf)
        share = torch.logaddexp(log_lower, known.log_z + below.log())
        return _log_ndtri(torch.where(share > _LOG_HALF, _LOG_HALF, share))

    def rsample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Draw values. Gradients flow to all parameters.

        Uniform numbers are passed to :meth:`icdf` (inverse transform sampling).

        Args:
            sample_shape: dimensions in front of the batch; none by default.

        Returns:
            A tensor of shape ``[*sample_shape, *batch_shape]``.

        Example:
            >>> from tensorclass.nn import TruncatedNormal
            >>> TruncatedNormal(0.0, 1.0, -1.0, 1.0).rsample([4]).shape
            torch.Size([4])
        """
        shape = Size(sample_shape or ()) + self._batch_shape
        dtype = self.loc.dtype if self.loc.dtype.itemsize >= 4 else torch.float32
        uniform = torch.rand(shape, dtype=dtype, device=self.loc.device).clamp_min(torch.finfo(dtype).tiny)
        return self.icdf(uniform)
