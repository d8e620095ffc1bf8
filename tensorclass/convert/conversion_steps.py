"""The two steps of every conversion: take an object apart to values by key, and build a collection of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import numpy as np
from torch import Size, Tensor

from tensorclass.contracts.checking import inferred_size
from tensorclass.contracts.contract_error import ContractError
from tensorclass.records.fields import shown_value
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import type_name
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection, has_shape
from tensorclass.td.collection import Collection
from tensorclass.td.hidden_members import with_members
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.leaves.nontensor import NonTensorData, NonTensorDataBase, stack_of
from tensorclass.td.leaves.object_codes import codes_row_by_row
from tensorclass.td.stack_and_cat import stack
from tensorclass.td.stores.lazy import lazy_stack, maybe_dense_stack
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import Misfit, as_tensor, shape_of

from .conversion_errors import ConversionError, Problems
from .conversion_options import ConversionOptions
from .conversion_targets import VALUE_ERRORS, Target, entries, entry_target, target_class
from .converter_registry import converter_of
from .python.record_class import matching_record_class

C = TypeVar("C", bound=TensorCollection)

#: result of a conversion that failed; its problems are noted
FAILED: Any = object()
# ---------------------------------------------------------------------------------------------------------------------
# taking apart


def convert_value(value: Any, target: Target, options: ConversionOptions, path: tuple[str, ...] = ()) -> Any:
    """Convert a value for a collection: objects with entries are taken apart, as far as the target says.

    Returns ``FAILED`` if that is not possible; the problems are noted.
    """
    if target is None or isinstance(value, (Tensor, Collection)) or _is(target, Tensor):
        return value
    inner: Any = target
    converter = converter_of(value)
    found = entries(value) if converter is None else None
    if found is not None:
        # the class of the parent may not know this one
        if isinstance(inner, TensorClass) or matching_record_class(inner, value) is not None:
            return build_from_entries(inner, value, found, options._replace(device=None, names=None), path)
        return convert_entries(found, inner, options, path)
    if converter is not None:
        try:
            return getattr(target_class(inner), converter.method)(value, strict=options.strict)
        except ConversionError as error:
            options.problems.below(error, path)
            return FAILED
    if isinstance(value, list):
        rows = cast("list[object]", value)
        if issubclass(target_class(inner), TensorClass) and rows and all(_has_entries(row) for row in rows):
            return rows_of(target_class(inner), rows, options.nested(), path)
        tensor = as_tensor(rows, options.device)
        if tensor is not None:
            return tensor
        if not options.batch_size:  # a list sets the rows, unless a batch size is given
            return nested_object_column(rows)
        return rows
    return value


def rows_of(cls: type[TensorCollection], rows: list[Any], options: ConversionOptions, path: tuple[str, ...]) -> Any:
    """Stack nested rows. ``FAILED`` if one cannot be converted; the problems are in ``options``."""
    made = [convert_row(cls, item, options, (*path, f"[{position}]")) for position, item in enumerate(rows)]
    return FAILED if any(row is FAILED for row in made) else stack_rows(made, None)


def convert_row(cls: type[TensorCollection], item: Any, options: ConversionOptions, path: tuple[str, ...]) -> Any:
    """Convert a row of a list: a collection, or an object with entries. ``FAILED`` if that is not possible."""
    if isinstance(item, Collection):
        if isinstance(item, cls):
            return with_metadata(item._shallow(), options)
        return build_nested(cls, dict(item._store), with_metadata_of(item, options), path)
    found = entries(item)
    if found is None:
        options.problems.add(path, "a mapping, a dataclass, a (named) tuple or a collection", shown_value(item))
        return FAILED
    return build_from_entries(cls, item, found, options, path)


def stack_rows(rows: list[Any], lazy: bool | None) -> Any:
    """Stack rows to a lazy stack or to stacked values; ``None``: values, if that is possible."""
    if lazy is None:
        return maybe_dense_stack(rows)
    return lazy_stack(rows) if lazy else stack(rows)


def convert_entries(
    found: Mapping[Any, Any],
    target: type[TensorCollection] | TensorCollection,
    options: ConversionOptions,
    path: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Convert the entries of an object, under string keys."""
    values = _keyed(found, options.what, path)
    cls: type[TensorCollection] = target if isinstance(target, type) else target.__class__
    if cls._stored_names is not None:
        values = _by_field(target_class(target), values)
    failed: list[str] = []
    for key, value in values.items():
        if type(value) is not Tensor:
            inner = TensorDict if target is TensorDict else entry_target(target, key, value)
            made = values[key] = convert_value(value, inner, options, (*path, key))
            if made is FAILED:
                failed.append(key)
            elif (
                options.batch_size and inner is TensorDict and isinstance(made, (bool, int, float, complex, np.generic))
            ):
                values[key] = NonTensorData(made)  # one number for all rows
    for key in failed:
        del values[key]
    return values


def _by_field(cls: type[TensorCollection], values: dict[str, Any]) -> dict[str, Any]:
    """Return entries by field. An entry under the stored name of a field counts if the field's own name is missing."""
    names = cls._stored_names
    if names is None or values.keys() <= names.of_fields.keys():
        return values
    made: dict[str, Any] = {}
    known = set(names.fields.values())
    for name, value in values.items():
        key = name if name in known else names.fields.get(name, name)
        made[name if key in values else key] = value
    return made


def nested_object_column(rows: list[Any]) -> NonTensorDataBase:
    """Return non-tensor data of a list, with an object for each row; nested lists of one length add dimensions.

    >>> nested_object_column([["a", "b"], ["c", "d"]]).batch_size
    torch.Size([2, 2])
    """
    shape: list[int] = []
    level: list[Any] = [rows]
    while level and all(isinstance(item, list) and len(item) == len(level[0]) for item in level):  # pyright: ignore[reportUnknownArgumentType]
        shape.append(len(level[0]))
        level = [item for items in level for item in items]
    return object_column(level, Size(shape))


def object_column(flat: list[Any], shape: Size, empty: Any = None) -> NonTensorDataBase:
    """Return non-tensor data with an object for each position of a shape; ``empty`` fills an empty shape."""
    if not flat and empty is not None:
        return NonTensorData(empty, batch_size=shape)
    if flat and all(item is None for item in flat):  # one None for all rows, as optional fields take it
        return NonTensorData(None, batch_size=shape)
    return stack_of(tuple(flat), codes_row_by_row(shape), None, None) if shape else NonTensorData(flat[0])


def _is(target: Target, cls: type) -> bool:
    return isinstance(target, type) and issubclass(target, cls)


def _has_entries(row: object) -> bool:
    return isinstance(row, TensorCollection) or entries(row) is not None


_STRINGS = {str}


def _keyed(source: Mapping[Any, Any], what: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Convert nested keys to nested dicts with plain strings as keys."""
    if {*map(type, source)} <= _STRINGS:
        return dict(source)
    result: dict[str, Any] = {}
    made: set[int] = set()
    for key, value in source.items():
        try:
            *parents, last = unravel_key_to_tuple(key)
        except (TypeError, ValueError, KeyError, IndexError):
            raise KeyError(
                f"{what}: expected keys that are strings, or tuples of strings for nested ones, got {key!r}"
                + (f" in {'.'.join(path)!r}" if path else "")
                + "; from_pytree keeps keys of any kind"
            ) from None
        node = result
        for name in parents:
            inner: object = node.setdefault(name, {})
            if id(inner) not in made:
                if not isinstance(inner, Mapping):
                    kind = type_name(inner)
                    raise KeyError(f"{what}: {key!r} is below {name!r}, which is a {kind} and has no keys")
                inner = node[name] = dict(cast("Mapping[str, Any]", inner))
                made.add(id(inner))
            node = cast("dict[str, Any]", inner)
        if last in node:
            raise KeyError(f"{what}: two values are given for {'.'.join((*path, *parents, last))!r}")
        node[last] = value
    return result


# ---------------------------------------------------------------------------------------------------------------------
# putting together


def build(
    target: type[TensorCollection] | TensorCollection, values: Mapping[str, Any], options: ConversionOptions
) -> Any:
    """Build a collection of converted values, with the requested batch size.

    Raises:
        ConversionError: there are problems, noted before or found here: required fields are missing, keys are no
            fields, values do not fit their fields or lack the batch size. Lists all of them.
        ContractError: values break contracts, and nothing else is wrong.
    """
    result = build_nested(target, values, options)
    raise_problems(options)
    return result


def raise_problems(options: ConversionOptions) -> None:
    """Raise the one error for all problems, or warn of keys that were left out."""
    options.problems.check()
    options.problems.warn()


def build_nested(
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    options: ConversionOptions,
    path: tuple[str, ...] = (),
    is_finished: bool = False,
) -> Any:
    """Build a nested collection. Problems are noted, and the result is ``FAILED`` then.

    ``is_finished`` values went through a constructor, so the record's constructor does not run.
    """
    cls, problems = target_class(target), options.problems
    if not options.strict:
        from .diagnosis import without_undeclared

        values = without_undeclared(target, values, problems, path)
    size = options.batch_size
    # a record takes lists as columns only if it knows its rows; names need dimensions
    if options.auto and (issubclass(cls, TensorClass) or _named(values)):
        size = Size((_common_size(values, target) or ())[: options.batch_dims])
    if problems:  # it will not be made: find all problems
        from .diagnosis import diagnose

        diagnose(target, values, size, problems, path)
        return FAILED
    try:
        owner: Any = cls
        make: Any = owner._from_finished if is_finished else owner._from_mapping
        result = make(values, size, options.device, None)
    except VALUE_ERRORS as error:
        note_cause(error, target, values, size, problems, path)
        return FAILED
    if options.auto:
        result = with_members(result).clone(False)  # nested collections belong to the source
        with_members(result).auto_batch_size_(options.batch_dims)
    if options.names is not None:
        result._set_names(shapes.as_names(options.names, len(result._batch_size)))
    return result


def build_from_entries(
    target: type[TensorCollection] | TensorCollection,
    obj: object,
    found: Mapping[Any, Any],
    options: ConversionOptions,
    path: tuple[str, ...] = (),
) -> Any:
    """Build a nested collection of an object with these entries."""
    own = matching_record_class(target, obj)
    values = convert_entries(found, own or target, options, path)
    return build_nested(own or target, values, options, path, is_finished=own is not None)


def with_metadata_of(data: Collection, options: ConversionOptions) -> ConversionOptions:
    """Return the options with the batch size and device of a collection, unless they give their own."""
    size = options.batch_size if options.auto or options.batch_size is not None else data.batch_size
    return options._replace(batch_size=size, device=options.device or data._device)


def note_cause(
    error: Exception,
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    size: Size | None,
    problems: Problems,
    path: tuple[str, ...] = (),
) -> None:
    """Note the problems of values that a constructor refused with an error."""
    if isinstance(error, ContractError):
        problems.contracts.append(error.below(*path))
        return
    known = len(problems)
    from .diagnosis import diagnose

    diagnose(target, values, size, problems, path)
    if len(problems) == known:  # another error, such as one of __post_init__
        raise error.below(*path) if isinstance(error, Misfit) else error from None


def from_entries(cls: type[C], source: Any, options: ConversionOptions) -> C:
    """Convert an object with entries."""
    result: C = build_from_entries(cls, source, entries(source) or {}, options)
    raise_problems(options)
    return result


def with_metadata(data: C, options: ConversionOptions) -> C:
    """Set the requested device, batch size and names of a new collection."""
    if options.device is not None and data.device != options.device:
        data = data.to(options.device)
    if options.auto:
        data.auto_batch_size_(options.batch_dims)
    elif options.batch_size is not None:
        data._set_batch_size(options.batch_size)
    if options.names is not None:
        data._set_names(shapes.as_names(options.names, data.ndim))
    return data


def _named(values: Mapping[str, Any]) -> bool:
    """Return whether a collection among the values has named dimensions."""
    for value in values.values():
        if type(value) is dict:
            if _named(cast("dict[str, Any]", value)):
                return True
        elif isinstance(value, Collection) and value._names is not None:
            return True
    return False


def _common_size(
    values: Mapping[str, Any], target: type[TensorCollection] | TensorCollection
) -> tuple[int, ...] | None:
    """Return the leading dimensions that all values share; ``None`` if no value has a shape.

    Contracts of a record that determine the batch size take precedence.
    """
    cls = target_class(target)
    if issubclass(cls, TensorClass) and cls._item_ranks:
        told = inferred_size(cls._item_ranks, values)
        if told is not None:
            return tuple(told)
    shape: list[tuple[int, ...]] = []
    for key, value in values.items():
        spec = cls._specs.get(key) if issubclass(cls, TensorClass) else None
        if spec is not None and spec.column is not None:
            own: tuple[int, ...] | None = spec.column.implied_size(value)
        else:
            own = shape_of(value, key) if type(value) is Tensor else _shape(value, entry_target(target, key))
        if own is not None:
            shape.append(own)
    return shapes.common(shape) if shape else None


def _shape(value: Any, target: Target) -> tuple[int, ...] | None:
    """Return the shape that a value will have; ``None`` if it fits any batch. A list is one object for each row."""
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, Collection):
        return value.shape if has_shape(value) else None
    part: Any = target
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return None if part is None or _is(part, Tensor) else _common_size(inner, part)
    if isinstance(value, (bool, int, float, complex)):
        return None if part is None else ()
    tensor = as_tensor(value)
    if tensor is not None:
        return tensor.shape
    return (len(cast("list[object]", value)),) if isinstance(value, list) else None
