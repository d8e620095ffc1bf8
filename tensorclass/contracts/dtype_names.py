"""Categories of dtypes, under the names that jaxtyping gives them, in small letters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from tensorclass.support.help_links import help_link
from tensorclass.support.nearest import did_you_mean

_ALL: tuple[torch.dtype, ...] = tuple(
    {id(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}.values()
)


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype without its module.

    >>> name_of(torch.float32)
    'float32'
    """
    return str(dtype).removeprefix("torch.")


def _named(pattern: str) -> frozenset[torch.dtype]:
    return frozenset(dtype for dtype in _ALL if re.fullmatch(pattern, name_of(dtype)))


#: all dtypes by name
BY_NAME: dict[str, torch.dtype] = {name_of(dtype): dtype for dtype in _ALL}

_int, _uint = _named(r"int\d+"), _named(r"uint\d+")
_float = frozenset(dtype for dtype in _ALL if dtype.is_floating_point)
_complex = frozenset(dtype for dtype in _ALL if dtype.is_complex)

#: the categories; those of one dtype have its name: ``"float32"``
CATEGORIES: dict[str, frozenset[torch.dtype]] = {
    "bool": frozenset([torch.bool]),
    "int": _int,
    "uint": _uint,
    "integer": _int | _uint,
    "float": _float,
    "complex": _complex,
    "inexact": _float | _complex,
    "real": _float | _int | _uint,
    "num": _float | _complex | _int | _uint,
}


def category(name: str) -> frozenset[torch.dtype]:
    """Return the dtypes of a category, or the one dtype of a name.

    >>> category("float32")
    frozenset({torch.float32})
    """
    if name in CATEGORIES:
        return CATEGORIES[name]
    if name in BY_NAME:
        return frozenset([BY_NAME[name]])
    raise ValueError(
        f"no dtypes are called {name!r}; there are {[*CATEGORIES]}, and single ones such as 'float32'"
        + did_you_mean(name, (*CATEGORIES, *BY_NAME))
        + help_link("bad-contract")
    )


def matching(patterns: Iterable[Any]) -> frozenset[torch.dtype]:
    """Return the dtypes that a jaxtyping category lists, by name or by regular expression."""
    found: set[torch.dtype] = set()
    for pattern in patterns:
        if isinstance(pattern, str):
            found.update([BY_NAME[pattern]] if pattern in BY_NAME else [])
        else:
            found.update(dtype for name, dtype in BY_NAME.items() if pattern.match(name))
    return frozenset(found)


#: dtypes that programs commonly use, most common first
_USUAL = (
    torch.float32, torch.int64, torch.bool, torch.complex64, torch.uint8,
    torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.complex128,
)  # fmt: skip


def usual(allowed: frozenset[torch.dtype] | None) -> list[torch.dtype]:
    """Return the common dtypes among those allowed, the best default first.

    The best default is torch's default dtype, then ``int64``, ``bool``, and the default for complex numbers. If no
    common dtype is allowed, return all that are.

    Args:
        allowed: the dtypes to choose from; ``None`` for all.

    >>> usual(category("real"))[:2], usual(category("uint")), usual(category("float8_e5m2"))
    ([torch.float32, torch.int64], [torch.uint8], [torch.float8_e5m2])
    """
    default = torch.get_default_dtype()
    first = [default, torch.int64, torch.bool, *([torch.complex128] if default is torch.float64 else [])]
    found = [dtype for dtype in dict.fromkeys((*first, *_USUAL)) if allowed is None or dtype in allowed]
    return found or [dtype for dtype in _ALL if allowed is None or dtype in allowed]


def spelled(allowed: frozenset[torch.dtype]) -> list[str]:
    """Return the shortest names for dtypes: the name of a category, or the names of all, sorted.

    >>> spelled(category("float")), spelled(frozenset([torch.float64, torch.float32]))
    (['float'], ['float32', 'float64'])
    """
    return next(
        ([name] for name, dtypes in CATEGORIES.items() if dtypes == allowed), sorted([name_of(d) for d in allowed])
    )
