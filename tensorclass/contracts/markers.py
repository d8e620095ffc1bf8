"""Markers for ``Annotated[Tensor, ...]``: shape, dtype, range and device of a tensor.

    image: Annotated[Tensor, Shape("3 h w"), DType("float"), Range(0, 1)]

Shapes describe one item: the batch dimensions come in front.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from tensorclass.td.device_names import named_device

from .dims import Dim, parse
from .dtype_names import category, name_of


def _quoted(text: str) -> str:
    return f'"{text}"'


class Marker:
    """Base class of the markers.

    Example:
        >>> from tensorclass import Shape
        >>> from tensorclass.contracts import Marker
        >>> isinstance(Shape("3 h w"), Marker)
        True
    """

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Shape(Marker):
    """The dimensions of one item, in jaxtyping's notation.

    Args:
        text: the dimensions, with spaces between them: numbers, names (one size in all fields of a record), ``_`` (any
            size), ``...`` (any number of dimensions), ``*name``, ``#name`` (size one is allowed, too), ``h+1``.

    Raises:
        ValueError: the text is not a shape.

    Example:
        >>> from tensorclass import Shape
        >>> Shape("3 h w").dims[0].size
        3
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"Shape: expected a text such as Shape('3 h w'), got {self.text!r}")
        _ = self.dims

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The parsed dimensions.

        Example:
            >>> from tensorclass import Shape
            >>> [dim.size for dim in Shape("3 4").dims]
            [3, 4]
        """
        return parse(self.text)

    def __repr__(self) -> str:
        return f'Shape("{self.text}")'


@dataclasses.dataclass(frozen=True, init=False)
class DType(Marker):
    """The dtypes that a tensor can have.

    Args:
        dtypes: a category (``"float"``, ``"int"``, ``"uint"``, ``"integer"``, ``"bool"``, ``"complex"``, ``"inexact"``,
            ``"real"``, ``"num"``: those of jaxtyping), the name of a dtype, or the dtype; or several of them.

    Raises:
        ValueError: no dtypes have that name.

    Example:
        >>> import torch
        >>> from tensorclass import DType
        >>> DType("float").allowed >= DType(torch.float32, "bfloat16").allowed
        True
    """

    dtypes: tuple[str | torch.dtype, ...]

    def __init__(self, *dtypes: str | torch.dtype) -> None:
        if not dtypes or not all(isinstance(dtype, (str, torch.dtype)) for dtype in dtypes):
            raise ValueError(f"DType: expected dtypes or their names, such as DType('float'), got {dtypes}")
        object.__setattr__(self, "dtypes", dtypes)
        _ = self.allowed

    @property
    def allowed(self) -> frozenset[torch.dtype]:
        """The allowed dtypes.

        Example:
            >>> from tensorclass import DType
            >>> DType("bool").allowed
            frozenset({torch.bool})
        """
        found: frozenset[torch.dtype] = frozenset()
        for dtype in self.dtypes:
            found |= category(dtype) if isinstance(dtype, str) else {dtype}
        return found

    def __repr__(self) -> str:
        return f"DType({', '.join([str(d) if isinstance(d, torch.dtype) else _quoted(d) for d in self.dtypes])})"

    @property
    def name(self) -> str:
        """The category, for messages.

        Example:
            >>> from tensorclass import DType
            >>> DType("int", "bool").name
            'int or bool'
        """
        return " or ".join([name_of(d) if isinstance(d, torch.dtype) else d for d in self.dtypes])


@dataclasses.dataclass(frozen=True)
class Range(Marker):
    """The smallest and the largest value of the elements. ``nan`` is outside of every range.

    Checking a range reads the data when a field is set, which waits for a GPU. The other markers need no data.

    Args:
        low: the smallest value; ``None`` for no bound.
        high: the largest value; ``None`` for no bound.

    Raises:
        ValueError: ``low`` is larger than ``high``.

    Example:
        >>> import torch
        >>> from typing import Annotated
        >>> from tensorclass import Range, TensorClass
        >>> class Image(TensorClass):
        ...     pixels: Annotated[torch.Tensor, Range(0, 1)]
        >>> Image(torch.tensor([0.5, 2.0]), batch_size=[2])
        Traceback (most recent call last):
        ContractError: Image.pixels: expected ...
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if bound is not None and (not isinstance(bound, (int, float)) or math.isnan(bound)):
                raise ValueError(f"Range: the bounds are numbers or None, got {bound!r}")
        if self.low is None and self.high is None:
            raise ValueError("Range: give a bound: Range(0, 1), Range(low=0), Range(high=1)")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"Range: no value is at least {self.low} and at most {self.high}")

    def __repr__(self) -> str:
        if self.low is None:
            return f"Range(high={self.high})"
        return f"Range(low={self.low})" if self.high is None else f"Range({self.low}, {self.high})"


@dataclasses.dataclass(frozen=True, init=False)
class Device(Marker):
    """The device of a tensor.

    Args:
        device: a device; one without an index, such as ``"cuda"``, stands for all of its type.

    Example:
        >>> import torch
        >>> from typing import Annotated
        >>> from tensorclass import Device, TensorClass
        >>> class Image(TensorClass):
        ...     pixels: Annotated[torch.Tensor, Device("cpu")]
        >>> Image(torch.zeros(2, device="meta"), batch_size=[2])
        Traceback (most recent call last):
        ContractError: Image.pixels: expected ...
    """

    device: torch.device

    def __init__(self, device: torch.device | str) -> None:
        object.__setattr__(self, "device", named_device(device))

    def __repr__(self) -> str:
        return f'Device("{self.device}")'
