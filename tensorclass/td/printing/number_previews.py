"""Some numbers of a tensor on a part of a line.

Nothing is read of tensors without values (meta, fake, inside ``vmap``), while a program is traced, or if reading would
wait for other processes. Of a tensor on an accelerator only the numbers that are shown are copied.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import Buffer, Parameter

from tensorclass.td.collection import functorch
from tensorclass.td.leaves.object_codes import flatten_lists, to_lists
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor

from .text_previews import cut

#: numbers of a tensor in main memory that are shown all together, if they fit
_FEW = 24
#: the largest tensors whose range is looked for, in numbers; less of those in files, which would be read for it
_RANGED, _RANGED_IN_FILE = 1 << 20, 1 << 16
_PLAIN: frozenset[type] = frozenset((Tensor, Parameter, Buffer, MemoryMappedTensor))

_tensor_str: Any = sys.modules["torch._tensor_str"]  # not exported; set_printoptions changes its PRINT_OPTS
_is_wrapped: Callable[[Tensor], bool] = functorch.is_functorch_wrapped_tensor
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_tracing_state: Callable[[], object] = torch._C._get_tracing_state


class NumberStyle(Protocol):
    """The options of :func:`torch.set_printoptions`."""

    precision: int
    threshold: float
    edgeitems: int
    linewidth: int
    sci_mode: bool | None


def number_style() -> NumberStyle:
    """Return the options that :func:`torch.set_printoptions` has set.

    >>> number_style().precision
    4
    """
    return _tensor_str.PRINT_OPTS  # type: ignore[no-any-return]


def is_readable(tensor: Tensor) -> bool:
    """Return whether a tensor has numbers that can be read here and now, without effects.

    >>> is_readable(torch.ones(2)), is_readable(torch.ones(2, device="meta"))
    (True, False)
    """
    if is_compiling() or _dispatch_modes() or _tracing_state() is not None:
        return False
    if tensor.layout is not torch.strided or tensor.is_nested or _is_wrapped(tensor):
        return False
    device = tensor.device.type
    if device == "meta" or (device == "cuda" and torch.cuda.is_current_stream_capturing()):
        return False
    cls = type(tensor)
    # a distributed tensor would be gathered from all ranks, of which this may be the only one that prints
    return cls in _PLAIN or not cls.__module__.startswith(("torch._subclasses", "torch.distributed"))


def numbers_text(tensor: Tensor, ndim: int, width: int) -> str:
    """Return all numbers of a tensor if they are few, their range, or the first and last of them.

    Args:
        tensor: of any shape and dtype.
        ndim: the number of batch dimensions.
        width: columns.

    Returns:
        The text; empty if the numbers cannot be read.

    >>> numbers_text(torch.arange(3), 1, 40), numbers_text(torch.arange(100) / 8, 1, 60)
    ('[0, 1, 2]', '[0.0, 0.125, 0.25, ..., 12.125, 12.25, 12.375]')
    >>> numbers_text(torch.arange(100).view(2, 50), 1, 40), numbers_text(torch.ones(30, 2).bool(), 1, 40)
    ('0 to 99', '60 of 60 True')
    """
    try:
        return _numbers_text(tensor, ndim, width) if is_readable(tensor) else ""
    except Exception:  # dtypes and subclasses without the operation
        return ""


def first_numbers_text(rows: Tensor, width: int) -> str:
    """Return the first numbers of a tensor of which ``rows`` is only the beginning.

    >>> first_numbers_text(torch.arange(8), 40)
    '[0, 1, 2, ...]'
    """
    try:
        return _edges_text(rows.detach(), width, whole=False) if is_readable(rows) and rows.numel() else ""
    except Exception:
        return ""


def _numbers_text(tensor: Tensor, ndim: int, width: int) -> str:
    count = tensor.numel()
    if not count:
        return ""
    style = number_style()
    is_near = tensor.device.type == "cpu"
    few = min(max(_FEW, 2 * style.edgeitems) if is_near else 2 * style.edgeitems, style.threshold)
    usual_width = 8 if tensor.dtype.is_floating_point else 3
    if count <= few and count * usual_width <= max(width, 12 * style.edgeitems):
        numbers = _to_list(tensor)
        text = list_text(numbers, number_writer(flatten_lists(numbers)[0], tensor.dtype))
        if len(text) <= width or count <= 2 * style.edgeitems:
            return cut(text, width)
    values = tensor.detach()
    limit = _RANGED_IN_FILE if isinstance(tensor, MemoryMappedTensor) else _RANGED
    if tensor.ndim > ndim and count <= limit and (text := _range_text(values, count)):
        return cut(text, width)
    return _edges_text(values, width, whole=True)


def _to_list(values: Tensor) -> Any:
    if values.dtype.itemsize == 1 and values.dtype.is_floating_point:  # float8
        values = values.float()
    return to_lists(values)


def list_text(values: Any, write: Callable[[Any], str]) -> str:
    """Return nested lists of numbers as text.

    >>> list_text([[1, 2], [3]], str)
    '[[1, 2], [3]]'
    """
    if not isinstance(values, list):
        return write(values)
    items: list[Any] = values  # pyright: ignore[reportUnknownVariableType]
    if items and isinstance(items[0], list):
        return f"[{', '.join([list_text(item, write) for item in items])}]"
    return f"[{', '.join(map(write, items))}]"


def _range_text(values: Tensor, count: int) -> str:
    dtype = values.dtype
    if dtype is torch.bool:
        return f"{int(values.count_nonzero())} of {count} True"
    if dtype.is_complex:
        return ""
    ends: list[float] = [end.item() for end in torch.aminmax(values)]
    missing = 0
    if ends[0] != ends[0]:
        is_nan = values.isnan()
        missing = int(is_nan.count_nonzero())
        if missing == count:
            return "all nan"
        ends = [end.item() for end in torch.aminmax(values[~is_nan])]
    low, high = (number_writer([end], dtype)(end) for end in ends)
    text = f"{low} to {high}" if ends[0] != ends[1] else f"all {low}"
    return f"{text}, {missing} nan" if missing else text


def _edges_text(values: Tensor, width: int, *, whole: bool) -> str:
    edge = max(number_style().edgeitems, 1)
    if values.ndim == 0:
        return cut(number_writer([values.item()], values.dtype)(values.item()), width)
    outer = values.shape[:-1]
    row = values
    for _ in outer:
        row = row.select(0, 0)
    is_cut = row.numel() > 2 * edge
    head: list[Any] = _to_list(row.narrow(0, 0, min(edge, len(row))) if is_cut or not whole else row)
    tail: list[Any] = _to_list(row.narrow(0, len(row) - edge, edge)) if is_cut and whole and not outer else []
    write = number_writer(head + tail, values.dtype)
    shown = [*map(write, head)]
    if is_cut or (not whole and not outer):
        shown += ["...", *map(write, tail)]
    text = f"[{', '.join(shown)}]"
    for depth in range(len(outer) - 1, -1, -1):
        text = f"[{text}, ...]" if outer[depth] > 1 or (not whole and depth == 0) else f"[{text}]"
    return cut(text, width)


def number_writer(numbers: Sequence[Any], dtype: torch.dtype) -> Callable[[Any], str]:
    """Return a function that writes numbers of a dtype in one notation, as torch's options say.

    Args:
        numbers: those that are shown together.
        dtype: their dtype.

    >>> write = number_writer([0.5, 1 / 3], torch.float32)
    >>> write(0.5), write(1 / 3), number_writer([1e-9], torch.float32)(1e-9), number_writer([True], torch.bool)(True)
    ('0.5', '0.3333', '1e-09', 'True')
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return str
    style = number_style()
    precision, is_scientific = style.precision, style.sci_mode
    if is_scientific is None:
        sizes = [size for size in map(abs, numbers) if 0 < size < math.inf]
        is_scientific = bool(sizes) and (max(sizes) >= 1e8 or min(sizes) < 10.0**-precision)
    write = _scientific(precision) if is_scientific else _fixed(precision)
    if not dtype.is_complex:
        return write
    return lambda number: f"{write(number.real)}{'' if write(number.imag)[0] == '-' else '+'}{write(number.imag)}j"


def _fixed(precision: int) -> Callable[[float], str]:
    form = f"{{:.{precision}f}}".format

    def write(number: float) -> str:
        text = form(number)
        if not precision or text[-1] != "0":
            return text
        text = text.rstrip("0")
        return text + "0" if text[-1] == "." else text

    return write


def _scientific(precision: int) -> Callable[[float], str]:
    form = f"{{:.{precision}e}}".format

    def write(number: float) -> str:
        digits, e, exponent = form(number).partition("e")
        return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + e + exponent

    return write
