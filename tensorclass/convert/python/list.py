"""Lists of rows: a mapping, a dataclass, a named tuple or a collection each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Size
from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionOptions, NamedKwargs
from tensorclass.convert.conversion_steps import C, convert_row, raise_problems, stack_rows
from tensorclass.convert.tensor_trees import of_rows
from tensorclass.support.printable import class_name, type_name
from tensorclass.td import shapes
from tensorclass.td.tensordict import TensorDict

METHODS_OF = "PythonObjects"


def from_list(cls: type[C], input: Sequence[Any], *, lazy: bool | None = None, **kwargs: Unpack[NamedKwargs]) -> C:
    """Convert a list with one mapping, dataclass, tuple or collection per row.

    Args:
        input: the rows.
        auto_batch_size: infer the batch size of the rows. The result has the number of rows in front of it.
        batch_size: the batch size of the result, which begins with the number of rows.
        ConversionKwargs: device
        batch_dims: the largest number of dimensions of an inferred batch size of the result; unlimited by default.
        names: a name or ``None`` for each batch dimension of the result.
        lazy: ``True`` makes a lazy stack, ``False`` stacks the values. By default they are stacked if possible.
        ConversionKwargs: strict

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_list([{"a": 1, "t": "x"}, {"a": 2, "t": "y"}]).to_dict()
        {'a': tensor([1, 2]), 't': ['x', 'y']}
    """
    options = ConversionOptions.of(f"{class_name(cls)}.from_list", **kwargs)
    if not isinstance(input, (list, tuple)):
        raise TypeError(f"from_list: expected a list with an item for each row, got a {type_name(input)}")
    if not input:
        raise RuntimeError("from_list: expected at least one row, got an empty list")
    size, dims, names = options.batch_size, options.batch_dims, options.names
    if dims == 0:
        raise ValueError("from_list: expected batch_dims of at least 1, the dimension of the rows; got 0")
    if size is not None and size[:1] != (len(input),):
        raise ValueError(
            f"from_list: expected a batch size that begins with the number of rows, {len(input)}; got {list(size)}"
        )
    if cls is TensorDict and not lazy and not options.auto and options.device is None and names is None:
        made: Any = of_rows(input, Size((len(input),)) if size is None else size)
        if made is not None:
            return made  # type: ignore[no-any-return]
    of_row = options._replace(
        names=None, batch_dims=None if dims is None else dims - 1, batch_size=None if size is None else size[1:]
    )
    rows = [convert_row(cls, item, of_row, (f"[{position}]",)) for position, item in enumerate(input)]
    raise_problems(options)
    result: C = stack_rows(rows, lazy)
    if names is not None:
        result._set_names(shapes.as_names(names, result.ndim))
    return result
