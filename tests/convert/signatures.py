"""Read the arguments of converters, those of ``**kwargs: Unpack[...]`` included."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from tensorclass.convert.conversion_options import ConversionOptions, TableOptions

_DEFAULTS = {
    name: one.default
    for options in (ConversionOptions, TableOptions)
    for name, one in inspect.signature(options.of).parameters.items()
}


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function after the first one, with their defaults.

    Arguments of an unpacked ``TypedDict`` have the defaults of the options that they are checked by. ``None`` and
    ``False`` are the same for ``auto_batch_size``.
    """
    found: dict[str, Any] = {}
    for one in [*inspect.signature(function).parameters.values()][1:]:
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation))
        if unpacked is None:
            found[one.name] = one.default
        else:
            found |= {name: _DEFAULTS[name] for name in function.__globals__[unpacked[1]].__annotations__}
    if "auto_batch_size" in found:
        found["auto_batch_size"] = bool(found["auto_batch_size"])
    return found
