"""What the converters share: objects taken apart into values under string keys, and collections built of those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.contracts.checking import inferred_size
from tensorclass.contracts.errors import ContractError
from tensorclass.record import TensorClass
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection, has_shape
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.nontensor import NonTensorData, NonTensorDataBase, stack_of
from tensorclass.td.objects import row_by_row
from tensorclass.td.stores.classes import dense_class
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import Misfit, as_tensor, shape_of

from .kinds import PLAIN, kind_of
from .problems import ConversionError, Problems
from .readers import reader_of
from .record_class import record_class_for

C = TypeVar("C", bound=TensorCollection)

#: What something becomes: a collection of this class, or one like this collection. ``Tensor`` and ``None`` stand for
#: fields of records that hold a tensor or an object: what is given for them stays whole.
Target: TypeAlias = "type[TensorCollection] | TensorCollection | type[Tensor] | None"
BatchSize: TypeAlias = Sequence[int] | int | None

#: stands for what could not be made; what is wrong is noted in the plan
FAILED: Any = object()
#: the errors of values that do not fit
MISTAKES = (TypeError, ValueError, RuntimeError, AttributeError)


class Plan(NamedTuple):
    """What a converter was asked for, checked."""

    what: str
    auto: bool
    batch_dims: int | None
    batch_size: Size | None
    device: torch.device | None
    names: Sequence[str | None] | None
    strict: bool
    problems: Problems

    def inner(self) -> Plan:
        """The plan for a part that has a batch size of its own."""
        return Plan(self.what, False, None, None, None, None, self.strict, self.problems)


def plan(
    what: str,
    auto_batch_size: bool | None,
    batch_dims: int | None,
    batch_size: BatchSize,
    device: DeviceLike | None,
    names: Sequence[str | None] | None = None,
    conflict: type[Exception] = TypeError,
    strict: bool = True,
) -> Plan:
    """The options of a converter together.

    Args:
        what: what was asked for, for messages: ``"Sample.from_dict"``.
        auto_batch_size: whether the batch size is found out.
        batch_dims: how many dimensions it has at most then.
        batch_size: the batch size.
        device: where the values go.
        names: of the batch dimensions.
        conflict: the class of the error for a batch size that is given and shall be found out too.
        strict: whether keys that are no fields of a record are an error; otherwise they are left out, with a warning.

    Raises:
        TypeError: a batch size is given and shall be found out too (or the class ``conflict``).
        ValueError: ``batch_dims`` is negative.
    """
    if batch_size is not None and (auto_batch_size or batch_dims is not None):
        other = "auto_batch_size=True" if auto_batch_size else f"batch_dims={batch_dims}"
        raise conflict(
            f"{what}: batch_size={list(shapes.as_size(batch_size))} and {other} exclude each other: give the batch "
            "size, or let it be found out"
        )
    if batch_dims is not None and batch_dims < 0:
        raise ValueError(f"{what}: expected batch_dims of at least 0, got {batch_dims}")
    auto = batch_dims is not None if auto_batch_size is None else auto_batch_size or batch_dims is not None
    size = None if batch_size is None else shapes.as_size(batch_size)
    return Plan(what, auto, batch_dims, size, as_device(device), names, strict, Problems(what))


# ---------------------------------------------------------------------------------------------------------------------
# taking apart


def entries(obj: Any) -> dict[Any, Any] | None:
    """What an object consists of, by key: a mapping, a (named) tuple, an instance of a class of fields (``kinds.py``).

    ``None`` for other objects.

    >>> entries((1, "a"))
    {'0': 1, '1': 'a'}
    """
    if type(obj) in PLAIN:
        return None
    if type(obj) is dict or isinstance(obj, Mapping):
        return dict(cast("Mapping[object, Any]", obj))
    if isinstance(obj, tuple):
        items = cast("tuple[object, ...]", obj)
        fields: Sequence[str] | None = getattr(items, "_fields", None)
        names = map(str, range(len(items))) if fields is None else fields
        return dict(zip(names, items, strict=True))
    kind = kind_of(obj.__class__)
    return None if kind is None else kind.values(obj)


def target_class(target: type[TensorCollection] | TensorCollection) -> type[TensorCollection]:
    """The class of what is made for a target."""
    return dense_class(target if isinstance(target, type) else type(target))


def below(target: type[TensorCollection] | TensorCollection, key: str, value: object = None) -> Target:
    """What the entry of a target under a key becomes; for a field of several classes the value tells which."""
    cls = target_class(target)
    if isinstance(target, TensorCollection):
        entry = target._store.get(key)
        if isinstance(entry, TensorCollection) and entry._is_tree():
            return entry
    if issubclass(cls, TensorClass):
        spec = cls._specs.get(key)
        if spec is None:
            return None
        if len(spec.types) > 1 and value is not None:
            for one in spec.types:
                if issubclass(one, TensorClass) and record_class_for(one, value) is not None:
                    return one
        return spec.target(cls)
    return TensorDict


def converted(value: Any, target: Target, plan: Plan, path: tuple[str, ...] = ()) -> Any:
    """A value as a collection takes it: what has entries of its own taken apart, as far as the target says.

    ``FAILED`` where that cannot be; the problems are noted then.
    """
    if target is None or isinstance(value, (Tensor, Collection)) or _is(target, Tensor):
        return value
    inner: Any = target
    found = entries(value)
    if found is not None:
        # what is around it may not know its class
        if isinstance(inner, TensorClass) or record_class_for(inner, value) is not None:
            return part_of(inner, value, found, plan._replace(device=None, names=None), path)
        return converted_entries(found, inner, plan, path)
    reader = reader_of(value)
    if reader is not None:
        try:
            return getattr(target_class(inner), reader.method)(value, strict=plan.strict)
        except ConversionError as error:
            plan.problems.below(error, path)
            return FAILED
    if isinstance(value, list):
        rows = cast("list[object]", value)
        if issubclass(target_class(inner), TensorClass) and rows and all(_has_entries(row) for row in rows):
            from .list import from_rows

            return from_rows(target_class(inner), rows, plan.inner(), path)
        tensor = as_tensor(rows, plan.device)
        if tensor is not None:
            return tensor
        if not plan.batch_size:  # the rows that the list has, while no others are given
            return column(rows)
        return rows
    return value


def converted_entries(
    found: Mapping[Any, Any],
    target: type[TensorCollection] | TensorCollection,
    plan: Plan,
    path: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The entries of an object under string keys, converted."""
    values = _keyed(found, plan.what, path)
    failed: list[str] = []
    for key, value in values.items():
        if type(value) is not Tensor:
            inner = TensorDict if target is TensorDict else below(target, key, value)
            made = values[key] = converted(value, inner, plan, (*path, key))
            if made is FAILED:
                failed.append(key)
            elif plan.batch_size and inner is TensorDict and isinstance(made, (bool, int, float, complex, np.generic)):
                values[key] = NonTensorData(made)  # one number for all rows
    for key in failed:
        del values[key]
    return values


def column(rows: list[Any]) -> NonTensorDataBase:
    """A list of objects as non-tensor data, with an object for each row; lists of one length give more dimensions.

    >>> column([["a", "b"], ["c", "d"]]).batch_size
    torch.Size([2, 2])
    """
    shape: list[int] = []
    level: list[Any] = [rows]
    while level and all(isinstance(item, list) and len(item) == len(level[0]) for item in level):  # pyright: ignore[reportUnknownArgumentType]
        shape.append(len(level[0]))
        level = [item for items in level for item in items]
    return objects(level, Size(shape))


def objects(flat: list[Any], shape: Size, empty: Any = None) -> NonTensorDataBase:
    """Non-tensor data with an object for each position of a shape; ``empty`` stands for them where there is none."""
    if not flat and empty is not None:
        return NonTensorData(empty, batch_size=shape)
    if flat and all(item is None for item in flat):  # one None for all of them: an optional field takes that
        return NonTensorData(None, batch_size=shape)
    return stack_of(tuple(flat), row_by_row(shape), None, None) if shape else NonTensorData(flat[0])


def _is(target: Target, cls: type) -> bool:
    return isinstance(target, type) and issubclass(target, cls)


def _has_entries(row: object) -> bool:
    return isinstance(row, TensorCollection) or entries(row) is not None


def _keyed(source: Mapping[Any, Any], what: str, path: tuple[str, ...]) -> dict[str, Any]:
    """A mapping with plain strings as keys: nested keys become nested dicts."""
    if all(type(key) is str for key in source):
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
                    kind = type(inner).__name__
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
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    plan: Plan,
) -> Any:
    """A collection of converted values, with the batch size that was asked for.

    Raises:
        ConversionError: problems were noted before, or there are some here: fields without default are missing, keys
            are no fields, values are not what their fields take or lack the batch size. It lists all of them.
        ContractError: values break contracts, and nothing else is wrong.
    """
    result = part(target, values, plan)
    finish(plan)
    return result


def finish(plan: Plan) -> None:
    """Ends a conversion: raises the one error for all that is wrong, or warns of what was left out."""
    plan.problems.check()
    plan.problems.warn()


def part(
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    plan: Plan,
    path: tuple[str, ...] = (),
    is_finished: bool = False,
) -> Any:
    """:func:`build` for a part of what is made: what is wrong is noted in the plan, and the result ``FAILED`` then.

    What ``is_finished`` has been through a constructor: that of a record does not run.
    """
    cls, problems = target_class(target), plan.problems
    if not plan.strict:
        from .diagnosis import without_undeclared

        values = without_undeclared(target, values, problems, path)
    size = plan.batch_size
    # a record takes a list for a column only where the rows are known, and names need dimensions
    if plan.auto and (issubclass(cls, TensorClass) or _named(values)):
        size = Size((_common_size(values, target) or ())[: plan.batch_dims])
    if problems:  # it will not be made: what else is wrong?
        from .diagnosis import diagnose

        diagnose(target, values, size, problems, path)
        return FAILED
    try:
        owner: Any = cls
        make: Any = owner._from_finished if is_finished else owner._from_mapping
        result = make(values, size, plan.device, None)
    except MISTAKES as error:
        explain(error, target, values, size, problems, path)
        return FAILED
    if plan.auto:
        result = result.clone(False)  # collections among the values are those of the source
        result.auto_batch_size_(plan.batch_dims)
    if plan.names is not None:
        result._set_names(shapes.as_names(plan.names, result.ndim))
    return result


def part_of(
    target: type[TensorCollection] | TensorCollection,
    obj: object,
    found: Mapping[Any, Any],
    plan: Plan,
    path: tuple[str, ...] = (),
) -> Any:
    """:func:`part` of an object that consists of what was found."""
    own = record_class_for(target, obj)
    values = converted_entries(found, own or target, plan, path)
    return part(own or target, values, plan, path, is_finished=own is not None)


def like(data: Collection, plan: Plan) -> Plan:
    """The plan with the metadata that a collection has, where it says nothing else."""
    size = plan.batch_size if plan.auto or plan.batch_size is not None else data.batch_size
    return plan._replace(batch_size=size, device=plan.device or data.device)


def explain(
    error: Exception,
    target: type[TensorCollection] | TensorCollection,
    values: Mapping[str, Any],
    size: Size | None,
    problems: Problems,
    path: tuple[str, ...] = (),
) -> None:
    """Notes what is wrong with values of which no collection could be made, for the reason of this error."""
    if isinstance(error, ContractError):
        problems.contracts.append(error.below(*path))
        return
    from .diagnosis import diagnose

    known = len(problems)
    diagnose(target, values, size, problems, path)
    if len(problems) == known:  # it is about something else, such as what __post_init__ checks
        raise error.below(*path) if isinstance(error, Misfit) else error from None


def from_entries(cls: type[C], source: Any, plan: Plan) -> C:
    """A collection of what an object consists of."""
    result: C = part_of(cls, source, entries(source) or {}, plan)
    finish(plan)
    return result


def settled(data: C, plan: Plan) -> C:
    """A new collection with its device, batch size and names as they were asked for."""
    if plan.device is not None and data.device != plan.device:
        data = data.to(plan.device)
    if plan.auto:
        data.auto_batch_size_(plan.batch_dims)
    elif plan.batch_size is not None:
        data._set_batch_size(plan.batch_size)
    if plan.names is not None:
        data._set_names(shapes.as_names(plan.names, data.ndim))
    return data


def _named(values: Mapping[str, Any]) -> bool:
    """Whether dimensions of collections among the values have names."""
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
    """The leading dimensions that all values share; ``None`` where there is no value that has any shape.

    Where a record has contracts that tell the batch size, it is what they say.
    """
    cls = target_class(target)
    if issubclass(cls, TensorClass) and cls._telling:
        told = inferred_size(cls._telling, values)
        if told is not None:
            return tuple(told)
    shape: list[tuple[int, ...]] = []
    for key, value in values.items():
        own = shape_of(value, key) if type(value) is Tensor else _shape(value, below(target, key))
        if own is not None:
            shape.append(own)
    return shapes.common(shape) if shape else None


def _shape(value: Any, target: Target) -> tuple[int, ...] | None:
    """The shape that a value will have; lists count as one object for each row. ``None`` where it fits any batch."""
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, TensorCollection):
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
