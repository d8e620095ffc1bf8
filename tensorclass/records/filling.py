"""The fields of a new record, as the generated ``__init__`` of a class without contracts sets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling

from tensorclass.contracts.checking import ItemRank, inferred_size
from tensorclass.td import native, shapes
from tensorclass.td.collection import as_device
from tensorclass.td.value_checks import all_begin_with, batch_mismatch, explained

from .fields import FieldSpec, Kind
from .name_errors import REQUIRED

if TYPE_CHECKING:
    from .record import TensorClass


class FieldPlan(NamedTuple):
    """The facts about the fields of a class that its constructor needs at each call."""

    #: the fields that the constructor sets
    specs: tuple[FieldSpec, ...]
    #: for each default that is made at each call: what stands for it, and the function that makes it
    factories: Mapping[str, tuple[Any, Callable[[], Any]]]
    #: the fields that tell the batch size
    ranks: Mapping[str, ItemRank]
    #: makes the error about arguments that the constructor does not take, or that are missing
    refused: Callable[[Sequence[object], Mapping[str, object], Mapping[str, object]], TypeError]


def filling_lines(
    plan: FieldPlan, values: Mapping[str, str], me: str, given: Mapping[str, str], namespace: dict[str, Any]
) -> list[str]:
    """Return the lines of ``__init__`` that set the metadata and the fields.

    They are few, because they are compiled when the class is defined. Usual values of usual fields are stored as they
    are; for others the lines call :func:`fill`.

    Args:
        plan: the plan of the class.
        values: the expression for the value of each field.
        me: the variable of the record.
        given: the expressions for batch size, device and names.
        namespace: the globals of the function.
    """
    namespace.update(__fill=fill, __plan=plan)
    rest = f"{', '.join([*given.values()][1:])}, __more, __unknown)"
    store = ", ".join([f"{name!r}: {expression}" for name, expression in values.items()])
    all_given = not plan.factories and not plan.ranks and [*values] == [*values.values()]
    conditions = _unusual(plan.specs, namespace) if all_given else []
    if not conditions:
        return [f"__fill({me}, __plan, {{{store}}}, {given['batch_size']}, {rest}"]
    namespace.update(__Size=Size, __as_size=shapes.as_size, __type=type, __begin_with=all_begin_with)
    unusual = ["__more", "__unknown", *[f"{name} is not None" for name in ("device", "names") if given[name] == name]]
    objects = [spec for spec in plan.specs if spec.kind is Kind.OBJECT]
    namespace.update({f"__hold_{spec.name}": spec.holder._of_rows for spec in objects})
    return [
        f"{me}._batch_size = __size = batch_size if __type(batch_size) is __Size else __as_size(batch_size)",
        f"{me}._store = __store = {{{store}}}",
        f"{me}._device = {me}._names = {me}._lock = None",
        f"if {' or '.join([*unusual, *conditions])}:",
        f"    __fill({me}, __plan, __store, __size, {rest}",
        *(["else:"] if objects else []),
        *[f"    __store[{spec.name!r}] = __hold_{spec.name}({spec.name}, __size)" for spec in objects],
    ]


def native_fields(plan: FieldPlan, values: Mapping[str, str]) -> tuple[object, ...] | None:
    """Return a flat tuple of name, class and holder of each field; ``None`` if native code cannot set them."""
    if plan.factories or plan.ranks or [*values] != [*values.values()] or not _unusual(plan.specs, {}):
        return None
    fields: list[object] = []
    for spec in plan.specs:
        fields += [
            spec.name,
            None if spec.kind is Kind.TENSOR else spec.types[0],
            spec.holder if spec.kind is Kind.OBJECT else None,
        ]
    return tuple(fields)


def asking_lines(
    fields: tuple[object, ...],
    whole: bool,
    values: Mapping[str, str],
    me: str,
    given: Mapping[str, str],
    namespace: dict[str, Any],
    lines: Sequence[str],
) -> list[str]:
    """Return lines that ask native code to set the metadata and the fields, before others that do it in Python.

    Args:
        fields: the fields as native code takes them.
        whole: whether the constructor does nothing else, so that native code can make records without calling it.
        values: the expression for the value of each field.
        me: the variable of the record.
        given: the expressions for batch size, device and names.
        namespace: the globals of the function.
        lines: those in Python.
    """
    plan = "__native_fields" if whole else "__some_fields"  # native code looks for the first of them
    namespace.update({"__native": native, "__compiling": is_dynamo_compiling, plan: fields})
    call = f"__native.fill_record({', '.join([me, plan, *given.values(), *values.values()])})"
    return [
        f"if __compiling() or not __native.ON or __more or __unknown or not {call}:",
        *[f"    {line}" for line in lines],
    ]


def _unusual(specs: Sequence[FieldSpec], namespace: dict[str, Any]) -> list[str]:
    """Return conditions under which a value is not stored unchanged. Empty if the fields allow no such conditions."""
    tensors = [spec.name for spec in specs if spec.kind is Kind.TENSOR and not spec.optional]
    conditions: list[str] = []
    shaped = len(tensors)
    for spec in specs:
        name = spec.name
        if spec.kind in (Kind.COLLECTION, Kind.OBJECT) and len(spec.types) == 1 and not spec.literals:
            namespace[f"__class_{name}"] = spec.types[0]
            conditions.append(f"__type({name}) is not __class_{name}")
            if spec.kind is Kind.COLLECTION:
                shaped += 1
                conditions += [f"{name}._batch_size != __size", f"{name}._names is not None"]
        elif name not in tensors:
            return []
    if len(tensors) == len(specs):
        return ["not __begin_with(__store.values(), __size)"] if tensors else []
    if tensors:
        conditions.append(f"not __begin_with(({', '.join(tensors)},), __size)")
    return conditions if shaped else []  # without a shape nothing has shown that the batch size is valid


def fill(
    record: TensorClass,
    plan: FieldPlan,
    values: dict[str, Any],
    batch_size: Any,
    device: Any,
    names: Any,
    more: Sequence[object],
    unknown: Mapping[str, object],
) -> None:
    """Set the metadata and the fields of a new record.

    Args:
        record: the record.
        plan: that of its class.
        values: the arguments for fields, each of them; ``REQUIRED`` stands for a missing one.
        batch_size: as the constructor was given it.
        device: as the constructor was given it.
        names: as the constructor was given them.
        more: positional arguments for which there is no parameter.
        unknown: keywords for which there is no parameter.
    """
    if more or unknown:
        raise plan.refused(more, unknown, values)
    if plan.factories or plan.ranks:
        _check_complete(plan, values)
        for name, (default, make) in plan.factories.items():
            if values[name] is default:
                values[name] = make()
        if batch_size is None:
            batch_size = _inferred(plan, values)
    record._batch_size = size = batch_size if type(batch_size) is Size else shapes.as_size(batch_size)
    record._device = None if device is None else as_device(device)
    record._names = None if names is None else shapes.as_names(names, len(size))
    record._lock = None
    record._store = {}
    try:
        _fit_each(record, plan, values)
    except Exception as error:
        _check_complete(plan, values)
        if isinstance(error, RuntimeError):  # a strided nested tensor has no shape
            raise explained(error, values) from None
        raise


def _inferred(plan: FieldPlan, values: Mapping[str, Any]) -> Size | None:
    try:
        return inferred_size(plan.ranks, values)
    except RuntimeError as error:
        raise explained(error, values) from None


def _check_complete(plan: FieldPlan, values: Mapping[str, Any]) -> None:
    """Raise if an argument is missing."""
    for value in values.values():
        if value is REQUIRED:
            raise plan.refused((), {}, values) from None


def _fit_each(record: TensorClass, plan: FieldPlan, values: Mapping[str, Any]) -> None:
    """Store the values of fields, each converted, moved and checked. ``None`` is not stored."""
    store, size, device = record._store, record._batch_size, record._device
    anywhere = device is None and record._names is None
    for spec in plan.specs:
        name = spec.name
        value = values[name]
        if spec.kind is Kind.TENSOR and isinstance(value, Tensor):
            shape = value.shape
            if shape[: len(size)] != size:
                raise batch_mismatch(name, size, shape)
            store[name] = value if device is None or value.device == device else value.to(device)
        elif value is REQUIRED:
            raise plan.refused((), {}, values)
        elif value is None:
            if not spec.allows_none(record):
                raise spec.mismatch(value)
        elif (
            anywhere
            and spec.kind is Kind.COLLECTION
            and type(value) in spec.types
            and value._batch_size == size
            and value._names is None
        ):
            store[name] = value
        else:
            store[name] = spec.fit(record, value)
    if not store:  # without values nothing has shown that the batch size is valid
        shapes.check_size(size)
