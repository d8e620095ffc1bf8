r"""The normal distribution between two bounds, computed so that it holds far in the tails, too.

For a standard normal variable between :math:`\alpha` and :math:`\beta`, with :math:`\varphi` its density, :math:`\Phi`
its distribution function and :math:`Z = \Phi(\beta) - \Phi(\alpha)`:

- density :math:`\varphi(z) / Z`, distribution function :math:`(\Phi(z) - \Phi(\alpha)) / Z`;
- mean :math:`\mu = (\varphi(\alpha) - \varphi(\beta)) / Z`;
- second moment :math:`1 + (\alpha \varphi(\alpha) - \beta \varphi(\beta)) / Z`, and the variance is that less
  :math:`\mu^2`;
- entropy :math:`\log(\sqrt{2 \pi} Z) + E[z^2] / 2`.

Sources: N. L. Johnson, S. Kotz, N. Balakrishnan, Continuous Univariate Distributions, volume 1, 1994, section 13.10.1;
J. Burkardt, The Truncated Normal Distribution, 2014.

Both terms of :math:`Z` vanish in a tail. There everything is divided by :math:`\varphi(\beta)`, which leaves the scaled
complementary error function: for :math:`\alpha < \beta \le 0`, with :math:`\Delta = (\alpha^2 - \beta^2) / 2`,

.. math:: 2 e^{\beta^2 / 2} Z = \mathrm{erfcx}(-\beta / \sqrt 2) - \mathrm{erfcx}(-\alpha / \sqrt 2) e^{-\Delta}

(J. Fernandez-de-Cossio-Diaz, Moments of the univariate truncated normal distribution, 2017). An interval in the upper
tail is mirrored. Around 0 the two error functions have different signs, and nothing is lost. All of it is computed in
float64 where the device has that, whatever the dtype of the parameters is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Size, Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from typing_extensions import Self

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_SQRT_PI_OVER_2 = math.sqrt(math.pi / 2.0)
_SQRT_HALF = math.sqrt(0.5)
_LOG_HALF = -math.log(2.0)

#: below this logarithm of a probability, a first guess and Newton's method take the place of ``ndtri``
_FAR = -600.0

#: intervals above this can do without the inverse functions that are exact in the tails
_NEAR = -4.0

#: where ``Φ`` comes to the end of float64, and logarithms take its place
_DEEP = -36.0

#: widths of intervals below which the variance is that of the series in the width
_NARROW = 1e-3


def _erfcx(x: Tensor) -> Tensor:
    special: Any = torch.special
    value: Tensor = special.erfcx(x)
    return value


def _log_ndtr(z: Tensor) -> Tensor:
    """``log Φ``; ``torch.special.log_ndtr`` knows no ``vmap``."""
    below = z.clamp_max(-1.0)
    tail = torch.log(0.5 * _erfcx(below * -_SQRT_HALF)) - 0.5 * below.square()
    return torch.where(z < -1.0, tail, torch.log1p(-0.5 * torch.erfc(z.clamp_min(-1.0) * _SQRT_HALF)))


def _hazard(z: Tensor) -> Tensor:
    """``Φ(z) / φ(z)``, which is the inverse of the derivative of ``log Φ``."""
    return _erfcx(z * -_SQRT_HALF) * _SQRT_PI_OVER_2


def _log_ndtri(y: Tensor) -> Tensor:
    """The inverse of ``log_ndtr``: the z at which ``log Φ`` is ``y``; with its first and second derivatives.

    ``ndtri`` gives it as far as ``exp(y)`` is a number. Below that ``log Φ(z)`` is about ``-z²/2 - log(-z √(2π))``
    (Mills' ratio), which gives a first guess, and as ``log Φ`` is concave, Newton's method finds the root from there:
    four steps reach the last digit.

    Two more steps are for the derivatives only. A step from a constant has the first derivative of the root, and one
    from that has the second, too.
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
    """The standardised interval, mirrored where it lies above 0, and what is known of it.

    What is not used for an element (``tail`` says which half is) is a harmless number, so that no derivative is nan.
    ``None`` stands for a mask that is ``False`` everywhere.
    """

    loc: Tensor
    scale: Tensor
    mirrored: Tensor
    tail: Tensor  # the interval lies below 0
    lower: Tensor  # where there is no bound: any number
    upper: Tensor
    no_lower: Tensor | None
    no_upper: Tensor | None
    bracket: Tensor  # of the tail: 2 Z / φ(upper) / √(2π)
    decay: Tensor  # of the tail: φ(lower) / φ(upper)
    mass: Tensor  # of an interval around 0: 2 Z
    log_z: Tensor


def _unless(mask: Tensor | None, value: Tensor, other: float) -> Tensor:
    """``other`` where the mask says so."""
    return value if mask is None else torch.where(mask, other, value)


def _scaled(lower: Tensor, upper: Tensor, no_lower: Tensor | None) -> tuple[Tensor, Tensor]:
    """For an interval below 0, ``2 exp(upper² / 2) Z`` and ``φ(lower) / φ(upper)``."""
    decay = _unless(no_lower, torch.exp((upper - lower) * (upper + lower) * 0.5), 0.0)
    return _erfcx(upper * -_SQRT_HALF) - _erfcx(lower * -_SQRT_HALF) * decay, decay


def _mass(lower: Tensor, upper: Tensor, no_lower: Tensor | None, no_upper: Tensor | None) -> Tensor:
    """For an interval around 0, ``2 Z``."""
    above = _unless(no_upper, torch.erf(upper * _SQRT_HALF), 1.0)
    return above - _unless(no_lower, torch.erf(lower * _SQRT_HALF), -1.0)


def _halves(
    tail: Tensor, lower: Tensor, upper: Tensor, no_lower: Tensor | None
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The bounds where they are those of a tail, and where not, with harmless numbers for the others."""
    high = torch.where(tail, upper, -1.0)
    low = torch.where(tail, lower, -2.0)
    if no_lower is not None:
        low = torch.where(no_lower, high - 1.0, low)
    return (low, high), (torch.where(tail, -1.0, lower), torch.where(tail, 1.0, upper))


def _interval(
    loc: Tensor, scale: Tensor, alpha: Tensor, beta: Tensor, no_alpha: Tensor | None, no_beta: Tensor | None
) -> _Interval:
    mirrored = alpha >= 0
    if no_alpha is not None:
        mirrored = mirrored & ~no_alpha
    lower, upper = torch.where(mirrored, -beta, alpha), torch.where(mirrored, -alpha, beta)
    no_lower, no_upper = no_alpha, no_beta
    if no_alpha is not None or no_beta is not None:
        none = torch.zeros_like(mirrored)
        no_lower = torch.where(mirrored, none if no_beta is None else no_beta, none if no_alpha is None else no_alpha)
        no_upper = none if no_beta is None else no_beta & ~mirrored
    tail = upper <= 0
    if no_upper is not None:
        tail = tail & ~no_upper
    outer, inner = _halves(tail, lower, upper, no_lower)
    bracket, decay = _scaled(*outer, no_lower)
    mass = _mass(*inner, None if no_lower is None else no_lower & ~tail, no_upper)
    log_z = torch.where(tail, bracket.log() - 0.5 * outer[1].square(), mass.log()) + _LOG_HALF
    return _Interval(loc, scale, mirrored, tail, lower, upper, no_lower, no_upper, bracket, decay, mass, log_z)


class TruncatedNormal(Distribution):
    """The normal distribution, of which only what lies between two bounds is left.

    The formulas and their sources stand at the top of this module.

    >>> truncated = TruncatedNormal(torch.zeros(3), torch.ones(3), -1.0, 2.0)
    >>> truncated.mean
    tensor([0.2296, 0.2296, 0.2296])
    >>> truncated.log_prob(torch.tensor(0.0))
    tensor([-0.7188, -0.7188, -0.7188])

    Args:
        loc: the mean of the normal distribution before it is truncated.
        scale: its standard deviation; positive.
        a: the lower bound, ``-inf`` for none.
        b: the upper bound, ``inf`` for none.
        validate_args: check arguments and values; as torch's default says if it is ``None``.

    Raises:
        ValueError: a lower bound is not below its upper bound, a scale is not positive, a parameter is nan.
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
    #: the standardised interval, once it was asked for
    _interval: _Interval | None = None
    #: whether gradients flow through what is kept
    _kept_graph: bool = False
    #: what is added to ``-z²/2`` for the logarithm of the density, once it was asked for
    _log_factor: Tensor | None = None
    #: of the mirrored interval ``Φ`` of its ends, the upper one mirrored, and the mass, once they were asked for
    _masses: tuple[Tensor, Tensor, Tensor] | None = None
    #: how far intervals lie in the tails, once it was asked for
    _depth: float | None = None
    _any_mirrored: bool | None = None
    _may_be_open: tuple[bool, ...]

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        a: float | Tensor,
        b: float | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.a, self.b = broadcast_all(loc, scale, a, b)
        # masks of missing bounds take time, and most bounds are finite numbers
        self._may_be_open = tuple(isinstance(bound, Tensor) or math.isinf(bound) for bound in (a, b))
        super().__init__(self.loc.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.a < self.b).all()):
            raise ValueError(
                "TruncatedNormal: each lower bound a must be below its upper bound b; "
                f"got a between {self.a.min().item()} and {self.a.max().item()}, "
                f"b between {self.b.min().item()} and {self.b.max().item()}"
            )

    def expand(self, batch_shape: Size | Sequence[int], _instance: Any = None) -> Self:
        """The same distribution for a larger batch."""
        size = Size(batch_shape)
        new: Self = object.__new__(type(self)) if _instance is None else _instance
        new.loc, new.scale, new.a, new.b = (tensor.expand(size) for tensor in (self.loc, self.scale, self.a, self.b))
        Distribution.__init__(new, size, validate_args=False)
        new._validate_args = self._validate_args
        new._may_be_open = self._may_be_open
        return new

    @property
    def support(self) -> Any:
        """What lies between the bounds."""
        interval: Any = constraints.interval
        return interval(self.a, self.b)

    # -- the standardised interval ------------------------------------------------------------------------------------

    @property
    def _known(self) -> _Interval:
        """The interval; computed when it is first asked for, and kept."""
        known = self._interval
        differentiable = torch.is_grad_enabled()
        if known is None or (differentiable and not self._kept_graph):
            self._kept_graph = differentiable
            self._log_factor = self._masses = None
            dtype = torch.float64 if self.loc.device.type != "mps" else torch.float32
            loc, scale, a, b = self.loc.to(dtype), self.scale.to(dtype), self.a.to(dtype), self.b.to(dtype)
            no_alpha = a == -torch.inf if self._may_be_open[0] else None
            no_beta = b == torch.inf if self._may_be_open[1] else None
            alpha = (_unless(no_alpha, a, 0.0) - loc) / scale
            beta = (_unless(no_beta, b, 0.0) - loc) / scale
            known = self._interval = _interval(loc, scale, alpha, beta, no_alpha, no_beta)
        return known

    def _standard(self, value: Tensor) -> Tensor:
        """A value, at most infinite, on the scale of the standard normal distribution, in the dtype of computations."""
        known = self._known
        return (value.to(known.loc.dtype) - known.loc) / known.scale

    def _factor(self) -> Tensor:
        """What is added to ``-z²/2`` for the logarithm of the density."""
        known = self._known
        if self._log_factor is None:
            self._log_factor = -(known.log_z + known.scale.log() + _LOG_SQRT_2PI)
        return self._log_factor

    def _is_hidden(self) -> bool:
        """Whether asking for values would break a graph, or wait for a device."""
        return torch.compiler.is_compiling() or _transforms_active() or self.loc.device.type != "cpu"

    def _is_mirrored(self) -> bool:
        """Whether an interval may be mirrored."""
        if self._is_hidden():
            return True
        if self._any_mirrored is None:
            self._any_mirrored = bool(self._known.mirrored.any())
        return self._any_mirrored

    def _is_beyond(self, depth: float) -> bool:
        """Whether an interval may lie below ``depth``."""
        if self._is_hidden():
            return True
        if self._depth is None:
            known = self._known
            ends = torch.where(known.tail, known.upper, 0.0)
            self._depth = float(ends.detach().min()) if ends.numel() else 0.0
        return self._depth < depth

    def _moments(self) -> tuple[Tensor, Tensor]:
        """The mean of the standardised, mirrored variable, and that of its square."""
        known = self._known
        tail, decay = known.tail, known.decay
        # of a tail: φ(upper) / Z = √(2/π) / bracket; of others: φ(z) / Z = √(2/π) exp(-z²/2) / mass
        factor = _SQRT_2_OVER_PI / torch.where(tail, known.bracket, known.mass)
        low, high = _unless(known.no_lower, known.lower, 0.0), _unless(known.no_upper, known.upper, 0.0)
        _, (inner_low, inner_high) = _halves(tail, low, high, None)
        at_lower = torch.where(tail, decay, _unless(known.no_lower, torch.exp(-0.5 * inner_low.square()), 0.0))
        at_upper = torch.where(tail, 1.0, _unless(known.no_upper, torch.exp(-0.5 * inner_high.square()), 0.0))
        return (at_lower - at_upper) * factor, 1.0 + (low * at_lower - high * at_upper) * factor

    def _given(self, value: Tensor) -> Tensor:
        return value.to(self.loc.dtype)

    @property
    def auc(self) -> Tensor:
        """The probability that the normal distribution has between the bounds, :math:`Z`."""
        return self._given(self._known.log_z.exp())

    @property
    def eps(self) -> float:
        """The smallest probability from which samples are drawn."""
        return torch.finfo(self.loc.dtype).tiny

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        first, _ = self._moments()
        first = torch.where(self._known.mirrored, -first, first)
        return self._given(self._known.loc + self._known.scale * first).clamp(self.a, self.b)

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        known = self._known
        first, second = self._moments()
        variance = second - first.square()
        lower, upper = _unless(known.no_lower, known.lower, -9.0), _unless(known.no_upper, known.upper, 9.0)
        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        half = _unless(known.no_lower, _unless(known.no_upper, half, 9.0), 9.0)  # no narrow one
        narrow = half * (1.0 + middle.abs()) < _NARROW
        # the density exp(-m t - t²/2) for -h < t < h, to the fourth power of h
        series = half.square() * (1.0 / 3.0 - half.square() * (2.0 / 45.0 + middle.square() / 15.0))
        variance = torch.where(narrow, series, variance).clamp_min(0.0)
        return self._given(variance * known.scale.square())

    @property
    def mode(self) -> Tensor:
        """The most probable value: ``loc``, or the bound that is next to it."""
        return self.loc.clamp(self.a, self.b)

    @property
    def median(self) -> Tensor:
        """The value with half of the probability below it."""
        return self.icdf(torch.full_like(self.loc, 0.5))

    def entropy(self) -> Tensor:
        """The differential entropy, in nats."""
        _, second = self._moments()
        return self._given(0.5 * second - self._factor())

    # -- values -------------------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density; ``-inf`` outside the bounds.

        Args:
            value: of a shape that broadcasts with the batch shape.

        Raises:
            ValueError: a value is outside the bounds (where arguments are checked).
        """
        if self._validate_args:
            self._validate_sample(value)
        z = self._standard(value)
        log_prob = self._given(torch.addcmul(self._factor(), z, z, value=-0.5))
        if self._validate_args:
            return log_prob
        return log_prob.masked_fill((value < self.a) | (value > self.b), -torch.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability below each value: 0 below the lower bound, 1 above the upper one.

        Args:
            value: of a shape that broadcasts with the batch shape.

        Raises:
            ValueError: a value is outside the bounds (where arguments are checked).
        """
        if self._validate_args:
            self._validate_sample(value)
        known = self._known
        value = torch.minimum(torch.maximum(value, self.a), self.b)
        infinite = value.isinf()
        z = self._standard(torch.where(infinite, 0.0, value))
        mirrored = known.mirrored
        z = torch.where(mirrored, -z, z)
        tail = known.tail
        # of a mirrored interval: from the value to its upper bound, which is what lies below the value
        lower = torch.where(mirrored, z, known.lower)
        upper = torch.where(mirrored, known.upper, z)
        no_lower = mirrored & infinite if known.no_lower is None else torch.where(mirrored, infinite, known.no_lower)
        no_upper = infinite & ~mirrored
        outer, inner = _halves(tail & ~no_upper, lower, upper, no_lower)
        below, _ = _scaled(*outer, no_lower)
        # both scaled masses refer to their own upper end: that of a mirrored interval is the same
        shift = torch.where(tail & ~mirrored & ~no_upper, (known.upper - z) * (known.upper + z) * 0.5, 0.0)
        in_tail = below * torch.exp(shift) / known.bracket
        around = _mass(*inner, no_lower, no_upper) / known.mass
        # a value at minus infinity has nothing below it
        probability = torch.where(tail, in_tail, around)
        return self._given(torch.where(value == -torch.inf, 0.0, probability).clamp(0.0, 1.0))

    def icdf(self, value: Tensor) -> Tensor:
        """The value with the given probability below it.

        Args:
            value: probabilities, of a shape that broadcasts with the batch shape.

        Raises:
            ValueError: a probability is not between 0 and 1 (where arguments are checked).
        """
        if self._validate_args and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError("TruncatedNormal.icdf: expected probabilities between 0 and 1")
        known = self._known
        value = value.to(known.loc.dtype)
        mirrored = self._is_mirrored()
        below = torch.where(known.mirrored, 1.0 - value, value) if mirrored else value
        z = self._quantile(known, below)
        if self._is_beyond(_DEEP):
            z = torch.where(known.tail & (known.upper < _DEEP), self._deep_quantile(known, below), z)
        if mirrored:
            z = torch.where(known.mirrored, -z, z)
        return self._given(torch.addcmul(known.loc, known.scale, z)).clamp(self.a, self.b)

    def _quantile(self, known: _Interval, below: Tensor) -> Tensor:
        """The z with the share ``below`` of the mirrored interval below it, as far as ``Φ`` is a number there.

        From the side of the interval that has less probability, as that has more digits.
        """
        special: Any = torch.special
        deep = known.tail & (known.upper < _DEEP) if self._is_beyond(_DEEP) else None
        if self._masses is None:
            lower, upper = _unless(deep, known.lower, -2.0), _unless(deep, known.upper, -1.0)
            # what lies above a tail is not asked for
            high = 0.5 * torch.erfc(torch.where(known.tail, 1.0, upper) * _SQRT_HALF)
            self._masses = (
                _unless(known.no_lower, 0.5 * torch.erfc(lower * -_SQRT_HALF), 0.0),
                _unless(known.no_upper, high, 0.0),
                torch.exp(_unless(deep, known.log_z, 0.0)),
            )
        low, high, mass = self._masses
        from_below = torch.addcmul(low, below, mass)
        above = (from_below > 0.5) & ~known.tail
        share = torch.where(above, torch.addcmul(high, 1.0 - below, mass), from_below)
        share = _unless(deep, share, 0.25)
        if self.loc.dtype is torch.float64 or self._is_beyond(_NEAR):
            z: Tensor = special.ndtri(share)
        else:  # several times faster, and more exact than float32 here
            z = torch.erfinv(2.0 * share - 1.0) * (2.0 * _SQRT_HALF)
        return torch.where(above, -z, z)

    def _deep_quantile(self, known: _Interval, below: Tensor) -> Tensor:
        """:meth:`_quantile` of an interval below the last numbers that ``Φ`` has."""
        lower = _unless(known.no_lower, known.lower, 0.0)
        log_lower = _unless(known.no_lower, _log_ndtr(lower), -torch.inf)
        share = torch.logaddexp(log_lower, known.log_z + below.log())
        return _log_ndtri(share.clamp_max(_LOG_HALF))

    def rsample(self, sample_shape: Size | Sequence[int] | None = None) -> Tensor:
        """Random values of shape ``[*sample_shape, *batch_shape]``; gradients flow to all parameters.

        Uniform numbers go through :meth:`icdf` (inverse transform sampling).
        """
        shape = Size(sample_shape or ()) + self._batch_shape
        dtype = self.loc.dtype if self.loc.dtype.itemsize >= 4 else torch.float32
        uniform = torch.rand(shape, dtype=dtype, device=self.loc.device).clamp_min(torch.finfo(dtype).tiny)
        return self.icdf(uniform)
