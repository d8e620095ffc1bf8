"""Lines of the generated ``__init__`` of classes with contracts: each field is stored and checked without a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Size, Tensor
from torch.compiler import is_compiling

from tensorclass.contracts.checking import Checks, ItemRank, entered, inferred_size
from tensorclass.contracts.generated_checks import CheckWriter, writer_of
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import as_device
from tensorclass.td.value_checks import batch_mismatch, explained

from .fields import FieldSpec, Kind

#: globals of the lines; the prefix keeps them apart from fields, which may have names of builtins
_GLOBALS: dict[str, Any] = {
    "__isinstance": isinstance,
    "__len": len,
    "__type": type,
    "__Tensor": Tensor,
    "__Size": Size,
    "__as_size": shapes.as_size,
    "__check_size": shapes.check_size,
    "__as_names": shapes.as_names,
    "__as_device": as_device,
    "__explained": explained,
    "__mismatch": batch_mismatch,
    "__infer": inferred_size,
    "__is_compiling": is_compiling,
    "__entered": entered,
}

#: the first line of the check of a shape: slicing a ``torch.Size`` is slow, and most records have one batch dimension
_MISMATCH = (
    "__ndim and __shape != __size and (__ndim > 1 or not __shape or __shape[0] != __size[0]) "
    "and __shape[:__ndim] != __size"
)
_FAILS = "__broken = True"


def checked_lines(
    specs: Sequence[FieldSpec],
    checks: Checks,
    ranks: Mapping[str, ItemRank],
    me: str,
    given: Mapping[str, str],
    namespace: dict[str, Any],
) -> list[str]:
    """Return the lines that set the metadata, and check and store the fields.

    Args:
        specs: the fields that the constructor sets, each in a variable of its name.
        checks: the checks of the class.
        ranks: the fields that tell the batch size.
        me: the variable of the record.
        given: the expressions for batch size, device and names.
        namespace: the globals of the function.
    """
    writer = writer_of(checks.specs)
    namespace.update(_GLOBALS, **writer.space, __check_new=checks.check_new, __contents=checks.contents)
    writer.space = namespace
    values = ", ".join([f"{spec.name!r}: {spec.name}" for spec in specs])
    # a strided nested tensor has no shape; a try block costs nothing while nothing is raised
    handler = ["except RuntimeError as __error:", f"    raise __explained(__error, {{{values}}}) from None"]
    device = "__device" if given["device"] == "None" else "device"
    names = given["names"]
    sizes = _batch_size_lines(ranks, namespace)
    if ranks:  # shapes are read
        sizes = ["try:", *_indented(sizes), *handler]
    body = [line for spec in specs for line in _field_lines(spec, namespace, me, device, writer)]
    return [
        *sizes,
        "__ndim = __len(__size)",
        f"{device} = " + ("None" if device == "__device" else "None if device is None else __as_device(device)"),
        f"{me}._batch_size = __size",
        f"{me}._device = {device}",
        f"{me}._names = " + ("None" if names == "None" else "None if names is None else __as_names(names, __ndim)"),
        f"{me}._lock = None",
        f"{me}._store = __store = {{}}",
        "try:",
        *_indented(_within_checks(checks, writer, body, me)),
        *handler,
        "if not __store:",  # without values nothing has shown that the batch size is valid
        "    __check_size(__size)",
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _batch_size_lines(ranks: Mapping[str, ItemRank], namespace: dict[str, Any]) -> list[str]:
    """Return the lines that set the batch size: the argument, or what the first field with a contract implies."""
    given = "batch_size if __type(batch_size) is __Size else __as_size(batch_size)"
    if not ranks:
        return [f"__size = {given}"]
    namespace["__ranks"] = ranks
    lines = ["if batch_size is not None:", f"    __size = {given}"]
    for name, rank in ranks.items():
        if not isinstance(rank, int):  # a column, which tells the batch size only if no tensor does
            continue
        lines += [
            f"elif __isinstance({name}, __Tensor):",
            f"    __size = {name}.shape" + (f"[:-{rank}]" if rank else ""),
        ]
    values = ", ".join([f"{name!r}: {name}" for name in ranks])
    return [*lines, "else:", f"    __size = __as_size(__infer(__ranks, {{{values}}}))"]


def _within_checks(checks: Checks, writer: CheckWriter, body: list[str], me: str) -> list[str]:
    """Return the lines that store the fields, between the lines that begin and end the checks of their contracts."""
    lines = ["__checked = not __is_compiling()", "__broken = False", *writer.start()]
    wrong, errors = "__broken", ""
    if any("__errors" in line for line in body):  # of nested records
        lines.append("__errors = []")
        wrong, errors = "__broken or __errors", ", __errors"
    lines += body
    if end := writer.end(_FAILS):
        lines += ["if __checked:", *_indented(end)]
    lines += [f"if {wrong}:", f"    __check_new({me}, batch_size is None{errors})"]
    reads = checks.bounded or checks.lengths is not None
    return [*lines, "elif __checked:", f"    __contents({me}, batch_size is None)"] if reads else lines


def _field_lines(spec: FieldSpec, namespace: dict[str, Any], me: str, device: str, writer: CheckWriter) -> list[str]:
    """Return the lines that check one field and store it."""
    name, own = spec.name, f"__spec_{spec.name}"
    namespace[own] = spec
    if spec.kind is Kind.TENSOR:
        return _tensor_lines(spec, me, device, writer)
    lines = [f"if {name} is not None:", f"    __store[{name!r}] = {own}.fit({me}, {name})"]
    if any(issubclass(held, TensorCollection) for held in spec.types):
        lines[1:] = [
            f"    __entry = __entered({own}, {me}, {name}, __errors) if __checked else {own}.fit({me}, {name})",
            "    if __entry is not None:",
            f"        __store[{name!r}] = __entry",
        ]
    if spec.kind is Kind.COLLECTION and len(spec.types) == 1:  # most are stored as they are
        namespace[f"__class_{name}"] = spec.types[0]
        as_it_is = f"__type({name}) is __class_{name} and {name}._batch_size == __size and {name}._names is None"
        lines = [
            f"if {as_it_is} and {device} is None and {me}._names is None:",
            f"    __store[{name!r}] = {name}",
            f"el{lines[0]}",
            *lines[1:],
        ]
    if spec.kind is None:  # the annotation names a class that is defined later
        lines += [f"elif not {own}.allows_none({me}):", f"    raise {own}.mismatch({name})"]
    elif not spec.optional:
        lines += ["else:", f"    raise {own}.mismatch({name})"]
    if writer.contracts[name] is not None:
        lines += [
            f"__entry = __store.get({name!r}) if __checked else None",
            "if __entry is not None:",
            f"    __shape = {writer.shape_of(name, '__entry')}",
            *_indented(writer.field(name, "__entry", False, _FAILS)),
        ]
    elif spec.kind is None:
        lines += [f"if __checked and {own}.has_contract:", f"    {_FAILS}"]
    return lines


def _tensor_lines(spec: FieldSpec, me: str, device: str, writer: CheckWriter) -> list[str]:
    """Return the lines that check a tensor and store it."""
    name, own = spec.name, f"__spec_{spec.name}"
    checks = [f"if {_MISMATCH}:", f"    {_FAILS}"]
    if spec.contract is not None:
        checks = writer.field(name, name, not spec.optional, _FAILS)
    store = [
        f"__store[{name!r}] = {name}",
        f"__shape = {name}.shape",
        "if __checked:",
        *_indented(checks),
        "elif __shape[:__ndim] != __size:",
        f"    raise __mismatch({name!r}, __size, __shape)",
    ]
    lines = [
        f"if __isinstance({name}, __Tensor):",
        f"    if {device} is not None and {name}.device != {device}:",
        f"        {name} = {name}.to({device})",
        f"elif {name} is not None:",
        f"    {name} = {own}.fit({me}, {name})",
    ]
    if spec.optional:
        return [*lines, f"if {name} is not None:", *_indented(store)]
    return [*lines, "else:", f"    raise {own}.mismatch({name})", *store]
