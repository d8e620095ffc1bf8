"""Mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionOptions, NamedKwargs
from tensorclass.convert.conversion_steps import C, build, convert_entries, with_metadata, with_metadata_of
from tensorclass.convert.converter_registry import converter_of, describe_source
from tensorclass.convert.tensor_trees import of_tensors, record_of_tensors
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name, type_name
from tensorclass.td import native, shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.delegated.arguments import BatchSize
from tensorclass.td.tensordict import TensorDict

METHODS_OF = "PythonObjects"


def from_dict(
    cls: type[C],
    input_dict: Mapping[Any, Any] | Collection,
    *,
    auto_batch_size: bool | None = None,
    batch_size: BatchSize = None,
    device: DeviceLike | None = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
    strict: bool = True,
) -> C:
    """Convert a mapping, which may be nested. See :meth:`from_any` for how values are converted.

    Args:
        input_dict: the values. Keys are strings, or tuples of strings for nested values.
        auto_batch_size: infer the batch size; by default only if ``batch_dims`` is given.
        ConversionKwargs: batch_size, device, batch_dims
        names: a name or ``None`` for each batch dimension.
        strict: with ``False``, drop keys that are not fields of a record, at every level, and warn about them.

    Returns:
        A collection of this class. Its tensors share memory with those of the mapping.

    Raises:
        ConversionError: values do not fit the fields of a record, or the batch size. Lists everything that is wrong.
        KeyError: a key is neither a string nor a tuple of strings.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_dict({"a": torch.zeros(3, 4), "b": torch.zeros(3)}, auto_batch_size=True).batch_size
        torch.Size([3])
    """
    if type(input_dict) is dict and names is None and device is None:
        given: Any = input_dict  # pyright: ignore[reportUnknownVariableType]
        made: Any = None
        if batch_dims is None and not auto_batch_size:
            if strict or cls is TensorDict:
                made = _of_tensors(cls, given, batch_size)
        elif cls is TensorDict and batch_size is None:
            made = of_tensors(given, None, batch_dims)
        if made is not None:
            return made  # type: ignore[no-any-return]
    what = f"{class_name(cls)}.from_dict"
    options = ConversionOptions.of(
        what, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size, device=device, names=names,
        strict=strict, conflict=ValueError,
    )  # fmt: skip
    return _read(cls, input_dict, options)  # type: ignore[no-any-return]


@native.tries("from_dict")
def _of_tensors(cls: type[Any], source: dict[Any, Any], batch_size: BatchSize) -> Any:
    """Convert a dict of tensors, and of such dicts. Return ``None`` if it has others, or not the fields."""
    if cls is TensorDict:
        return of_tensors(source, shapes.as_size(batch_size))
    if not issubclass(cls, TensorClass):
        return None
    return record_of_tensors(cls, source, None if batch_size is None else shapes.as_size(batch_size))


def from_dict_instance(instance: C, input_dict: Mapping[Any, Any] | Collection, **kwargs: Unpack[NamedKwargs]) -> C:
    """Convert a mapping to a collection that has records of the same classes where this one has records.

    The values and metadata of this collection are ignored. See :meth:`from_dict` for the arguments.

    Args:
        input_dict: the values.
        auto_batch_size: infer the batch size; by default only if ``batch_dims`` is given.
        ConversionKwargs: batch_size, device, batch_dims
        names: a name or ``None`` for each batch dimension.
        ConversionKwargs: strict

    Example:
        >>> import torch
        >>> from tensorclass import TensorClass, TensorDict
        >>> class Point(TensorClass):
        ...     x: torch.Tensor
        >>> data = TensorDict({"point": Point(x=torch.zeros(()))})
        >>> type(data.from_dict_instance({"point": {"x": 1.0}})["point"]).__name__
        'Point'
    """
    what = f"{type_name(instance)}.from_dict_instance"
    options = ConversionOptions.of(what, conflict=ValueError, **kwargs)
    return _read(instance, input_dict, options)  # type: ignore[no-any-return]


def _read(target: type[TensorCollection] | TensorCollection, source: Any, options: ConversionOptions) -> Any:
    if isinstance(source, Collection):
        cls = target if isinstance(target, type) else type(target)
        if not isinstance(source, cls):
            return build(target, dict(source._store), with_metadata_of(source, options))
        return with_metadata(source._shallow(), options)
    if not isinstance(source, Mapping):
        got = f"{options.what}: expected a mapping, got {describe_source(source)}; from_any takes other objects"
        if converter_of(source) is not None:  # dict() would make a dict of the columns of a table
            raise TypeError(got)
        try:
            source = dict(source)
        except (TypeError, ValueError):
            raise TypeError(got) from None
    return build(target, convert_entries(source, target, options), options)  # pyright: ignore[reportUnknownArgumentType]
