"""Find everything that is wrong with values which a constructor refused. Nothing here runs while all is well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Size, Tensor

from tensorclass.contracts.checking import inferred_size
from tensorclass.contracts.contract_error import ContractError
from tensorclass.records.fields import FieldSpec, shown_value
from tensorclass.records.record import TensorClass
from tensorclass.td import value_checks
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.batch_object import ADVICE, RowsDiffer
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.stored_names import all_names, shown_names
from tensorclass.td.value_checks import BatchMismatch, as_tensor

from .conversion_errors import Problems
from .conversion_targets import entry_target, target_class

#: number of fields named in a message
_NAMED = 12


def diagnose(
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    size: Size | None,
    problems: Problems,
    path: tuple[str, ...],
) -> None:
    """Note all problems of the values of a collection, nested ones included."""
    cls = target_class(target)
    if issubclass(cls, TensorClass):
        _diagnose_record(cls, values, size, problems, path)
    else:
        _diagnose_untyped(target, values, Size(size or ()), problems, path)


def without_undeclared(
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    problems: Problems,
    path: tuple[str, ...],
) -> dict[str, Any]:
    """Remove values that are no fields of a record, at every level. Their keys are noted for the warning."""
    cls = target_class(target)
    kept: dict[str, Any] = {}
    for key, value in values.items():
        where = (*path, key)
        if issubclass(cls, TensorClass) and key not in cls._specs:
            problems.left_out[tuple(name for name in where if not str(name).startswith("["))] = None
            continue
        inner = entry_target(target, key)
        kept[key] = value
        if inner is None or inner is Tensor:
            continue
        part: Any = inner
        if isinstance(value, Mapping):
            if not _fits_another(cls, key, part, value):
                kept[key] = without_undeclared(part, cast("Mapping[str, Any]", value), problems, where)
        elif (
            isinstance(value, TensorCollection)
            and value._is_tree()
            and not isinstance(value, target_class(part))
            and not _fits_another(cls, key, part, value._store)
        ):
            kept[key] = value._same(without_undeclared(part, value._store, problems, where))
    return kept


def _fits_another(cls: type[TensorCollection], key: str, part: Any, values: Any) -> bool:
    """Return whether a field takes several record classes, and the values fit another one than the first."""
    types: tuple[type, ...] = cls._specs[key].types if issubclass(cls, TensorClass) else ()
    others = [one for one in types if issubclass(one, TensorClass) and one is not part]
    return any(values.keys() <= one._specs.keys() for one in others)


# -- records ----------------------------------------------------------------------------------------------------------


def _diagnose_record(
    cls: type[TensorClass], values: Mapping[str, Any], size: Size | None, problems: Problems, path: tuple[str, ...]
) -> None:
    inferred = size is None
    if size is None and cls._item_ranks:
        size = inferred_size(cls._item_ranks, values)
    record = _empty(cls, Size(size or ()))
    for name, spec in cls._specs.items():
        where = (*path, name)
        if name in values:
            _diagnose_field(record, spec, values[name], problems, where)
        elif is_required(spec) and not problems.covers(where):
            problems.add(where, spec.shown, f"nothing: there is no {absent_key(spec)}")
    names = ", ".join(shown_names(cls, [*cls._specs][:_NAMED])) + (", ..." if len(cls._specs) > _NAMED else "")
    for key in values:
        if key not in cls._specs:
            got, hint = "a key that is none of them", "strict=False leaves it out"
            problems.add_unknown((*path, key), f"one of the fields {names}", got, all_names(cls, cls._specs), hint)
    if cls._checks is not None:
        try:
            cls._checks.check_new(record, inferred)
        except ContractError as error:
            problems.contracts.append(error.below(*path))
        except BatchMismatch:  # noted above
            pass


def _diagnose_field(record: Any, spec: FieldSpec, value: Any, problems: Problems, path: tuple[str, ...]) -> None:
    if value is None or (holds_objects(value) and value._is_uniform and value._unwrapped() is None):
        if not spec.allows_none(record):
            problems.add(path, spec.shown, "None")
        return
    if spec.contract is not None:  # its contract checks more than the batch size
        tensor = value if isinstance(value, Tensor) else as_tensor(value)
        if tensor is not None and spec.target(record.__class__) is Tensor:
            record._store[spec.name] = tensor
            return
    try:
        record._store[spec.name] = spec.fit(record, value)
    except ContractError as error:
        problems.contracts.append(error.below(*path[:-1]))
    except BatchMismatch as error:
        if not _diagnose_below(record, spec, value, problems, path):
            _add_mismatch(problems, path, record._batch_size, value, error)
    except RowsDiffer:
        problems.add(path, f"one {spec.shown} for all rows", "rows that differ", ADVICE)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        if _diagnose_below(record, spec, value, problems, path):
            return
        if holds_objects(value):
            wrong = [item for item in value._coded_objects()[0] if not spec._is_item(item)]
            got = f"{shown_value(wrong[0])} among its rows" if wrong else shown_value(value)
        else:
            got = shown_value(value)
        is_mismatch = str(error) == str(spec.mismatch(value)) or holds_objects(value)
        rows = spec.hint(value)
        hint = spec.namesake(value) or (rows and f"{rows}, or auto_batch_size=True")
        problems.add(path, spec.shown, got, hint if is_mismatch else str(error))


def _diagnose_below(record: Any, spec: FieldSpec, value: Any, problems: Problems, path: tuple[str, ...]) -> bool:
    """Note problems of a nested mapping or collection. ``False`` if there are none, and none were noted before."""
    inner: Any = spec.target(record.__class__)
    if inner is None or inner is Tensor:
        return False
    if isinstance(value, TensorCollection) and value._is_tree() and not isinstance(value, inner):
        found: Mapping[str, Any] = value._store
        size = value._batch_size
    elif isinstance(value, Mapping):
        found, size = cast("Mapping[str, Any]", value), record._batch_size
        item_ranks = inner._item_ranks if issubclass(inner, TensorClass) else None
        size = (inferred_size(item_ranks, found) if item_ranks else None) or size
    else:
        return False
    diagnose(inner, found, size, problems, path)
    return problems.covers(path)


def absent_key(spec: FieldSpec, what: str = "key") -> str:
    """Return the key (the column) that there is not, for messages."""
    return f"such {what}" if spec.stored_name == spec.name else f"{what} {spec.stored_name!r} or {spec.name!r}"


def is_required(spec: FieldSpec) -> bool:
    """Return whether a field needs a value."""
    return spec.init and spec.default is None and not spec.optional and spec.kind is not None


def _empty(cls: type[Any], size: Size) -> Any:
    """Return a collection without values."""
    new = object.__new__(cls)
    new._batch_size, new._device, new._names, new._lock, new._store = size, None, None, None, {}
    return new


# -- other collections ------------------------------------------------------------------------------------------------


def _diagnose_untyped(
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    size: Size,
    problems: Problems,
    path: tuple[str, ...],
) -> None:
    owner = _empty(target_class(target), size)
    for key, value in values.items():
        where = (*path, key)
        if isinstance(value, dict):
            inner: Any = entry_target(target, key)
            diagnose(inner, cast("dict[str, Any]", value), size, problems, where)
            continue
        try:
            value_checks.fit(owner, key, value)
        except BatchMismatch as error:
            _add_mismatch(problems, where, size, value, error)
        except (TypeError, ValueError, RuntimeError) as error:
            problems.add(where, "a value for a collection", shown_value(value), str(error))


def _add_mismatch(problems: Problems, path: tuple[str, ...], size: Size, value: Any, error: BatchMismatch) -> None:
    shaped = value if isinstance(value, (Tensor, Collection)) else as_tensor(value)
    got = shown_value(value) if shaped is None else f"shape {list(shaped.shape)}"
    problems.add(path, f"batch dimensions {list(size)} in front", got, error.what.rpartition("; ")[2])
