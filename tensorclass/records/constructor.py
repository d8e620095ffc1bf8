"""The generated ``__init__`` of record classes."""

from __future__ import annotations

import dataclasses
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature
from typing import Any, cast, get_args

from torch import Size, Tensor
from torch.compiler import is_compiling

from tensorclass.contracts.checking import Checks, ItemRank, entered, inferred_size
from tensorclass.contracts.contract import described_array
from tensorclass.contracts.generated_checks import CheckWriter, writer_of
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.value_checks import batch_mismatch, explained

from .fields import FieldSpec, Kind, evaluated
from .frozen import IN_POST_INIT
from .name_errors import REQUIRED, refused_arguments
from .record import METADATA, RecordMeta, TensorClass


class _Factory:
    """Shown in signatures as the default of fields that have a ``default_factory``."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()

#: the first line of the check of a shape: slicing a ``torch.Size`` is slow, and most records have one batch dimension
_MISMATCH = (
    "__ndim and __shape != __size and (__ndim > 1 or not __shape or __shape[0] != __size[0]) "
    "and __shape[:__ndim] != __size"
)

_POSITIONAL = Parameter.POSITIONAL_OR_KEYWORD

#: globals of every generated function; the prefix keeps them apart from fields, which may have names of builtins
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
    "__FACTORY": _FACTORY,
    "__REQUIRED": REQUIRED,
    "__infer": inferred_size,
    "__is_compiling": is_compiling,
    "__IN_POST_INIT": IN_POST_INIT,
}


def has_own_init(cls: Any) -> bool:
    """Return whether the class has, or inherits from a record, a hand-written ``__init__``."""
    for base in cls.__mro__:
        if base is TensorClass:
            break
        if isinstance(base, RecordMeta) and "__init__" in base.__dict__:
            return not getattr(base.__dict__["__init__"], "__generated__", False)
    return False


def _has_own_setattr(cls: Any) -> bool:
    """Return whether the class, or one that it derives from, has a hand-written ``__setattr__``."""
    return any(getattr(base.__dict__.get("__setattr__"), "__of_fields__", False) for base in cls.__mro__)


def generate_init(cls: Any, specs: Mapping[str, FieldSpec]) -> Callable[..., None]:
    """Write and compile the ``__init__`` of a class.

    The lines of each field depend on its annotation.
    """
    namespace = {**_GLOBALS}
    checks: Checks | None = cls._checks
    nested = any(getattr(kind, "_checks", None) is not None for spec in specs.values() for kind in spec.types)
    if checks is None and nested and cls._options["validate"]:  # one error lists the mistakes of all nested records
        checks = Checks(cls.__qualname__, specs)
    writer = None if checks is None else writer_of(specs)
    if writer is not None:
        namespace.update(writer.space)
        writer.space = namespace
    metadata = [name for name in METADATA if name not in specs]
    me = "__self" if "self" in cls.__dataclass_fields__ else "self"
    device = "device" if "device" in metadata else "__device"
    taken: list[Parameter] = []
    shape_defaults: list[str] = []
    body: list[str] = []
    init_vars: list[str] = []
    parameters: dict[str, Any] = {}
    seen_default = ""
    for f in cls.__dataclass_fields__.values():
        field_type = f._field_type
        name = f.name
        if field_type is dataclasses._FIELD_CLASSVAR or (name in METADATA and name not in specs):  # type: ignore[attr-defined]
            continue
        default, value = "", cast("Any", Parameter.empty)
        if f.default is not dataclasses.MISSING:
            namespace[f"__default_{name}"] = value = f.default
            default = f"__default_{name}"
        elif f.default_factory is not dataclasses.MISSING:
            namespace[f"__factory_{name}"] = f.default_factory
            default, value = "__FACTORY", _FACTORY
        if f.init:
            parameters[name] = f.type
            taken.append(Parameter(name, Parameter.KEYWORD_ONLY if f.kw_only else _POSITIONAL, default=value))
            if not f.kw_only:
                if seen_default and not default:
                    raise TypeError(
                        f"{cls.__name__}: the field {name!r} without a default follows {seen_default!r}, which has "
                        f"one; give it one too, or make it keyword-only: class {cls.__name__}(..., kw_only=True)"
                    )
                seen_default = name if default else seen_default
        elif default:
            body.append(f"{name} = {default}")
        else:
            continue
        if field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            init_vars.append(name)
            continue
        if (
            default and f.default is not None and specs[name].kind in (Kind.COLUMN, None)
        ):  # a default that each row of a batch gets
            namespace[f"__factory_{name}"] = specs[name].default_value
        if f"__factory_{name}" in namespace:
            make_default = [f"if {name} is {default}:", f"    {name} = __factory_{name}()"]
            if f.init and name in cls._item_ranks:
                shape_defaults += make_default
            else:
                body += make_default
        body += _field_lines(specs[name], namespace, me, device, writer)
    taken.sort(key=lambda parameter: parameter.kind)
    taken += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in metadata]
    namespace["__refused"] = partial(refused_arguments, cls, taken)
    values = ", ".join([f"{name!r}: {name}" for name in parameters if name in specs])
    # a strided nested tensor has no shape; a try block costs nothing while nothing is raised
    checked = _with_contract_checks(checks, writer, body, namespace, me)
    stores_fields = ["try:", *[f"    {line}" for line in checked or ["pass"]]]
    stores_fields += ["except RuntimeError as __error:", f"    raise __explained(__error, {{{values}}}) from None"]
    sizes = (*shape_defaults, *_batch_size_lines(cls._item_ranks, parameters, namespace))
    if len(sizes) > 1:  # shapes are read
        sizes = ("try:", *[f"    {line}" for line in sizes], *stores_fields[-2:])
    lines = [
        f"def __init__({', '.join(_parameters(me, taken))}):",
        *(f"    {line}" for line in _argument_lines(taken)),
        *(f"    {line}" for line in sizes),
        "    __ndim = __len(__size)",
        f"    {device} = " + ("None if device is None else __as_device(device)" if device in metadata else "None"),
        f"    {me}._batch_size = __size",
        f"    {me}._device = {device}",
        f"    {me}._names = "
        + ("None if names is None else __as_names(names, __ndim)" if "names" in metadata else "None"),
        f"    {me}._lock = None",
        f"    {me}._store = __store = {{}}",
        *(f"    {line}" for line in stores_fields),
        "    if not __store:",  # without values nothing has shown that the batch size is valid
        "        __check_size(__size)",
    ]
    if _has_own_setattr(cls) and not cls._options["frozen"]:  # as dataclasses set fields
        namespace["__fields"] = [name for name in specs if name in parameters]
        lines += ["    for __name in __fields:", f"        setattr({me}, __name, getattr({me}, __name))"]
    if hasattr(cls, "__post_init__"):
        call = f"{me}.__post_init__({', '.join(init_vars)})"
        if cls._options["frozen"]:
            lines += [f"    {me}._context = __IN_POST_INIT", f"    {call}", f"    del {me}._context"]
        else:
            lines.append(f"    {call}")
    source = "\n".join(lines) + "\n"
    init = _compiled(cls, source, namespace, parameters)
    init.__signature__ = Signature([Parameter(me, _POSITIONAL), *taken])  # type: ignore[attr-defined]
    return init


def _parameters(me: str, taken: Iterable[Parameter]) -> list[str]:
    """Return the parameters as Python text. None is required, so that errors name the nearest one."""
    shown: list[str] = [me]
    for parameter in taken:
        if parameter.kind is Parameter.KEYWORD_ONLY and "*__more" not in shown:
            shown.append("*__more")
        given = parameter.default
        default = "__REQUIRED" if given is Parameter.empty else "__FACTORY" if given is _FACTORY else None
        if default is None:
            default = "None" if given is None and parameter.name in METADATA else f"__default_{parameter.name}"
        shown.append(f"{parameter.name}={default}")
    return [*shown, "**__unknown"]


def _argument_lines(taken: Iterable[Parameter]) -> list[str]:
    """Return the lines that refuse calls with wrong arguments, as Python does."""
    required = [parameter.name for parameter in taken if parameter.default is Parameter.empty]
    wrong = " or ".join(["__more", "__unknown", *[f"{name} is __REQUIRED" for name in required]])
    missing = ", ".join([f"{name!r}: {name}" for name in required])
    return [f"if {wrong}:", f"    raise __refused(__more, __unknown, {{{missing}}})"]


def _compiled(cls: Any, source: str, namespace: dict[str, Any], parameters: Mapping[str, Any]) -> Callable[..., None]:
    """Compile the text of an ``__init__``, and keep the text for debuggers and tracebacks."""
    filename = f"<generated __init__ of {cls.__module__}.{cls.__qualname__}>"
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    init: Any = namespace["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {**parameters, "return": None}
    init.__generated__ = True
    return init  # type: ignore[no-any-return]


def describe_init(cls: Any, own: Mapping[str, Any], scope: Mapping[str, Any]) -> None:
    """Give the generated ``__init__`` a docstring, and its annotations as objects, for ``inspect`` and ``help``.

    Text annotations would be looked up in the globals of the generated function, which are not those of the module.
    """
    init = cls.__init__
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        if getattr(base.__dict__.get("__init__"), "__generated__", False):
            inherited.update(base.__dict__["__init__"].__annotations__)
    namespace = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    annotations = init.__annotations__
    for name, annotation in annotations.items():
        if name not in own and name in inherited:
            annotations[name] = inherited[name]
        elif isinstance(annotation, str):
            annotations[name] = evaluated(annotation, namespace, scope)
        if isinstance(annotations[name], dataclasses.InitVar):
            annotations[name] = annotations[name].type
    metadata = {name: hint for name, hint in _METADATA_HINTS.items() if name not in cls._specs}
    init.__annotations__ = {**annotations, **metadata, "return": None}
    hints = init.__annotations__
    init.__signature__ = Signature(
        [
            one.replace(annotation=hints.get(one.name, Parameter.empty))
            for one in init.__signature__.parameters.values()
        ],
        return_annotation=None,
    )
    init.__doc__ = "Make a record of the values of its fields; for ``batch_size``, ``device``, ``names`` see the bases."
    if any(described_array(part) is not None for hint in annotations.values() for part in (hint, *get_args(hint))):
        # jaxtyping's annotations describe one item: its checker of calls would refuse a batch
        init.__no_type_check__ = True


_METADATA_HINTS: dict[str, Any] = {
    "batch_size": Sequence[int] | int | None,
    "device": DeviceLike | None,
    "names": Sequence[str | None] | None,
}


def _batch_size_lines(
    item_ranks: Mapping[str, ItemRank], parameters: Mapping[str, Any], namespace: dict[str, Any]
) -> list[str]:
    """Return the lines that set the batch size: the argument, or what the first field with a contract implies."""
    given = "batch_size if __type(batch_size) is __Size else __as_size(batch_size)"
    ranks = {name: rank for name, rank in item_ranks.items() if name in parameters}
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


def _with_contract_checks(
    checks: Checks | None, writer: CheckWriter | None, body: list[str], namespace: dict[str, Any], me: str
) -> list[str]:
    """Return the lines that store the fields, surrounded by the checks of their contracts, if the class has any."""
    if checks is None or writer is None:
        return body
    namespace.update(__made=checks.made, __contents=checks.contents, __entered=entered)
    lines = ["__checked = not __is_compiling()", "__broken = False", *writer.start()]
    wrong, errors = "__broken", ""
    if any("__errors" in line for line in body):  # of nested records
        lines.append("__errors = []")
        wrong, errors = "__broken or __errors", ", __errors"
    lines += body
    if end := writer.end("__broken = True"):
        lines += ["if __checked:", *[f"    {line}" for line in end]]
    lines += [f"if {wrong}:", f"    __made({me}, batch_size is None{errors})"]
    reads = checks.bounded or checks.lengths is not None
    return [*lines, "elif __checked:", f"    __contents({me}, batch_size is None)"] if reads else lines


def _field_lines(
    spec: FieldSpec, namespace: dict[str, Any], me: str, device: str, writer: CheckWriter | None
) -> list[str]:
    """Return the lines that check one field and store it."""
    name = spec.name
    own = f"__spec_{name}"
    namespace[own] = spec
    if writer is not None and spec.kind is Kind.TENSOR:
        fails = "__broken = True"
        behind = [f"if {_MISMATCH}:", f"    {fails}"]
        if spec.contract is not None:
            behind = writer.field(name, name, not spec.optional, fails)
        store = [
            f"__store[{name!r}] = {name}",
            f"__shape = {name}.shape",
            "if __checked:",
            *[f"    {line}" for line in behind],
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
            return [*lines, f"if {name} is not None:", *[f"    {line}" for line in store]]
        return [*lines, "else:", f"    raise {own}.mismatch({name})", *store]
    if spec.kind is Kind.TENSOR:
        lines = [
            f"if __isinstance({name}, __Tensor):",
            f"    __shape = {name}.shape",
            f"    if {_MISMATCH}:",
            f"        raise __mismatch({name!r}, __size, __shape)",
            f"    __store[{name!r}] = {name} if {device} is None or {name}.device == {device} else {name}.to({device})",
            f"elif {name} is not None:",
            f"    __store[{name!r}] = {own}.fit({me}, {name})",
        ]
    elif writer is not None and any(issubclass(kind, TensorCollection) for kind in spec.types):
        lines = [
            f"if {name} is not None:",
            f"    __entry = __entered({own}, {me}, {name}, __errors) if __checked else {own}.fit({me}, {name})",
            "    if __entry is not None:",
            f"        __store[{name!r}] = __entry",
        ]
    else:
        lines = [f"if {name} is not None:", f"    __store[{name!r}] = {own}.fit({me}, {name})"]
    if spec.kind is Kind.COLLECTION and len(spec.types) == 1:  # most are stored as they are
        namespace[f"__class_{name}"] = spec.types[0]
        as_it_is = f"__type({name}) is __class_{name} and {name}._batch_size == __size and {name}._names is None"
        lines = [
            f"if {as_it_is} and {device} is None and {me}._names is None:",
            f"    __store[{name!r}] = {name}",
            *[line.replace("if ", "elif ", 1) if position == 0 else line for position, line in enumerate(lines)],
        ]
    if spec.kind is None:  # the annotation names a class that is defined later
        lines += [f"elif not {own}.allows_none({me}):", f"    raise {own}.mismatch({name})"]
    elif not spec.optional:
        lines += ["else:", f"    raise {own}.mismatch({name})"]
    if writer is not None and writer.contracts[name] is not None:
        checks = writer.field(name, "__entry", False, "__broken = True")
        lines += [
            f"__entry = __store.get({name!r}) if __checked else None",
            "if __entry is not None:",
            f"    __shape = {writer.shape_of(name, '__entry')}",
            *[f"    {line}" for line in checks],
        ]
    elif writer is not None and spec.kind is None:
        lines += [f"if __checked and {own}.has_contract:", "    __broken = True"]
    return lines
