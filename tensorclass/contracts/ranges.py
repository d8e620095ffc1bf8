"""The values of a dtype that lie in a range."""

from __future__ import annotations

import math

import torch

from .dtype_names import name_of


def whole(low: float | None, high: float | None, dtype: torch.dtype) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype, or ``bool``, from ``low`` to ``high``.

    Raises:
        ValueError: the dtype has no value in the range.

    >>> whole(-0.5, None, torch.int8)
    (0, 127)
    """
    least, most = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    if low is not None and low > -math.inf:
        least = _checked(low, high, dtype) if low == math.inf else max(least, math.ceil(low))
    if high is not None and high < math.inf:
        most = _checked(low, high, dtype) if high == -math.inf else min(most, math.floor(high))
    if least > most:
        _checked(low, high, dtype)
    return least, most


def finite(low: float | None, high: float | None, dtype: torch.dtype) -> tuple[float, float]:
    """Return the smallest and the largest finite value of a floating dtype from ``low`` to ``high``.

    Raises:
        ValueError: the dtype has no value in the range.

    >>> finite(0.1, None, torch.float16)
    (0.10003662109375, 65504.0)
    """
    info = torch.finfo(dtype)
    if (low is not None and low > info.max) or (high is not None and high < info.min):
        _checked(low, high, dtype)
    least = info.min if low is None or low < info.min else _next(low, dtype, upwards=True)
    most = info.max if high is None or high > info.max else _next(high, dtype, upwards=False)
    if least > most:
        _checked(low, high, dtype)
    return least, most


def _next(bound: float, dtype: torch.dtype, upwards: bool) -> float:
    """Return a bound, or the nearest value of the dtype inside of it."""
    info = torch.finfo(dtype)
    value = rounded(bound, dtype)
    # a rounded value is off by one step at most, and below a power of two steps are half as wide as above
    step_size = max(math.ldexp(info.eps, math.frexp(value)[1] - 1) if value else 0.0, info.tiny * info.eps)
    steps = [0.0, step_size / 2, step_size] if upwards else [0.0, -step_size / 2, -step_size]
    near = [rounded(value + step, dtype) for step in steps]
    return next(found for found in near if (found >= bound if upwards else found <= bound))


def rounded(value: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(value, dtype=torch.float64, device="cpu").to(dtype))


def _checked(low: float | None, high: float | None, dtype: torch.dtype) -> int:
    raise ValueError(
        f"no {name_of(dtype)} lies from {'-inf' if low is None else low} to {'inf' if high is None else high}"
    )
