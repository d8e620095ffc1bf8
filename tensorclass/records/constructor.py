"""The generated ``__init__`` of record classes."""

from __future__ import annotations

import dataclasses
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature
from typing import Any, cast, get_args

from tensorclass.contracts.checking import Checks
from tensorclass.contracts.contract import described_array
from tensorclass.support.printable import class_name
from tensorclass.td import native
from tensorclass.td.collection import DeviceLike

from .checked_lines import checked_lines
from .fields import FieldSpec, Kind, evaluated
from .filling import FieldPlan, asking_lines, filling_lines, native_fields
from .frozen import IN_POST_INIT
from .name_errors import REQUIRED, refused_arguments
from .record import METADATA, RecordMeta, TensorClass


class _Factory:
    """Shown in signatures as the default of fields that have a ``default_factory``."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_POSITIONAL = Parameter.POSITIONAL_OR_KEYWORD

#: parameters of every constructor that are not fields
_METADATA = [
    Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    for name, annotation in zip(
        METADATA, (Sequence[int] | int | None, DeviceLike | None, Sequence[str | None] | None), strict=True
    )
]


def has_own_init(cls: Any) -> bool:
    """Return whether the class has, or inherits from a record, a hand-written ``__init__``."""
    for base in _records(cls):
        if isinstance(base, RecordMeta) and "__init__" in base.__dict__:
            return not getattr(base.__dict__["__init__"], "__generated__", False)
    return False


def _has_own_setattr(cls: Any) -> bool:
    """Return whether the class, or one that it derives from, has a hand-written ``__setattr__``."""
    return any(getattr(base.__dict__.get("__setattr__"), "__of_fields__", False) for base in _records(cls))


def _records(cls: Any) -> Sequence[Any]:
    """Return a class and those of its bases that are records or precede one."""
    order: tuple[Any, ...] = cls.__mro__
    return order[: order.index(TensorClass)]


def generate_init(
    cls: Any, specs: Mapping[str, FieldSpec], own: Mapping[str, Any], scope: Mapping[str, Any]
) -> Callable[..., None]:
    """Write and compile the ``__init__`` of a class.

    Args:
        cls: the class.
        specs: its fields.
        own: the annotations of the class itself.
        scope: names that annotations can use beside those of the module.
    """
    # a loop over the fields is as fast as lines for each of them, which take long to compile; checks are not
    checks = _checks(cls, specs)
    me = "__self" if "self" in cls.__dataclass_fields__ else "self"
    arguments = _Arguments(cls, specs, _annotations(cls, own, scope))
    metadata = [one for one in _METADATA if one.name not in specs]
    taken = [*sorted(arguments.parameters, key=lambda one: one.kind), *metadata]
    refused = partial(refused_arguments, cls, taken)
    namespace: dict[str, Any] = {**arguments.defaults, "__REQUIRED": REQUIRED, "__FACTORY": _FACTORY}
    given = {one.name: one.name if one in metadata else "None" for one in _METADATA}
    lines: list[str] = []
    required = [one.name for one in taken if one.default is Parameter.empty]
    if checks is not None or not arguments.values.keys() >= set(required):
        wrong = " or ".join(["__more", "__unknown", *[f"{name} is __REQUIRED" for name in required]])
        missing = ", ".join([f"{name!r}: {name}" for name in required])
        lines = [f"if {wrong}:", f"    raise __refused(__more, __unknown, {{{missing}}})"]
        namespace["__refused"] = refused
    ranks = {name: rank for name, rank in cls._item_ranks.items() if name in arguments.values}
    taken_specs = [specs[name] for name in arguments.values]
    last = _last_lines(cls, me, arguments, namespace)
    if checks is None:
        plan = FieldPlan(tuple(taken_specs), arguments.factories, ranks, refused)
        filling = filling_lines(plan, arguments.values, me, given, namespace)
        fields = None if native.WHY_OFF else native_fields(plan, arguments.values)
        if fields is not None:
            whole = not last and not arguments.init_vars
            filling = asking_lines(fields, whole, arguments.values, me, given, namespace, filling)
        lines += filling
    else:
        lines += arguments.default_lines(namespace)
        lines += checked_lines(taken_specs, checks, ranks, me, given, namespace)
    lines += last
    shown = [me, *[_shown(one) for one in taken], "**__unknown"]
    shown.insert(1 + sum([one.kind is _POSITIONAL for one in taken]), "*__more")
    source = f"def __init__({', '.join(shown)}):\n    " + "\n    ".join(lines) + "\n"
    init = _compiled(cls, source, namespace)
    init.__signature__ = Signature([Parameter(me, _POSITIONAL), *taken], return_annotation=None)
    init.__annotations__ = {**{one.name: one.annotation for one in taken}, "return": None}
    init.__doc__ = "Make a record of the values of its fields; for ``batch_size``, ``device``, ``names`` see the bases."
    hints = [one.annotation for one in arguments.parameters]
    if any(described_array(part) is not None for hint in hints for part in (hint, *get_args(hint))):
        # jaxtyping's annotations describe one item: its checker of calls would refuse a batch
        init.__no_type_check__ = True
    return init  # type: ignore[no-any-return]


def _checks(cls: Any, specs: Mapping[str, FieldSpec]) -> Checks | None:
    """Return the checks of a class, or of the records in it: one error lists the mistakes of all."""
    checks: Checks | None = cls._checks
    if checks is None and cls._options["validate"]:
        nested = any(getattr(held, "_checks", None) is not None for spec in specs.values() for held in spec.types)
        return Checks(cls.__qualname__, specs) if nested else None
    return checks


class _Arguments:
    """The arguments of a constructor: those of fields, and ``InitVar`` pseudo-fields."""

    def __init__(self, cls: Any, specs: Mapping[str, FieldSpec], annotations: Mapping[str, Any]) -> None:
        self.parameters: list[Parameter] = []
        #: the values of fields, as expressions; fields that are no arguments are set to their defaults
        self.values: dict[str, str] = {}
        #: a marker for defaults that are made at each call, and the function that makes them
        self.factories: dict[str, tuple[Any, Callable[[], Any]]] = {}
        #: the variables of the other defaults, by name
        self.defaults: dict[str, Any] = {}
        self.init_vars: list[str] = []
        seen_default = ""
        for name, f in cls.__dataclass_fields__.items():
            field_type = f._field_type
            if field_type is dataclasses._FIELD_CLASSVAR or (name in METADATA and name not in specs):  # type: ignore[attr-defined]
                continue
            default, expression = cast("Any", Parameter.empty), name
            if f.default is not dataclasses.MISSING:
                default = f.default
                self.defaults[f"__default_{name}"] = default
            elif f.default_factory is not dataclasses.MISSING:
                default = _FACTORY
                self.factories[name] = (default, f.default_factory)
            if f.init:
                if not f.kw_only:
                    if seen_default and default is Parameter.empty:
                        raise TypeError(
                            f"{class_name(cls)}: the field {name!r} without a default follows {seen_default!r}, which "
                            f"has one; give it one too, or make it keyword-only: "
                            f"class {class_name(cls)}(..., kw_only=True)"
                        )
                    seen_default = seen_default if default is Parameter.empty else name
                kind = Parameter.KEYWORD_ONLY if f.kw_only else _POSITIONAL
                self.parameters.append(Parameter(name, kind, default=default, annotation=annotations[name]))
            elif default is Parameter.empty:
                continue
            else:
                expression = _expression(name, default)
            if field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
                self.init_vars.append(name)
                continue
            self.values[name] = expression
            has_default = default is not Parameter.empty and f.default is not None
            if has_default and specs[name].kind in (Kind.COLUMN, None):  # each row of a batch can get it
                self.factories[name] = (default, specs[name].default_value)

    def default_lines(self, namespace: dict[str, Any]) -> list[str]:
        """Return the lines that set the fields that are no arguments, and those whose defaults are made."""
        lines = [f"{name} = {expression}" for name, expression in self.values.items() if expression != name]
        for name, (default, make) in self.factories.items():
            namespace[f"__factory_{name}"] = make
            lines += [f"if {name} is {_expression(name, default)}:", f"    {name} = __factory_{name}()"]
        return lines


def _expression(name: str, default: Any) -> str:
    """Return the default of a field as an expression."""
    return "None" if default is None else "__FACTORY" if default is _FACTORY else f"__default_{name}"


def _shown(parameter: Parameter) -> str:
    """Return a parameter as text. All have defaults, so that the error about a missing one names the nearest."""
    default = parameter.default
    return f"{parameter.name}={'__REQUIRED' if default is Parameter.empty else _expression(parameter.name, default)}"


def _last_lines(cls: Any, me: str, arguments: _Arguments, namespace: dict[str, Any]) -> list[str]:
    """Return the last lines, which call the class's own ``__setattr__`` and ``__post_init__``."""
    lines: list[str] = []
    if _has_own_setattr(cls) and not cls._options["frozen"]:  # as dataclasses set fields
        namespace["__fields"] = [one.name for one in arguments.parameters if one.name in arguments.values]
        lines += ["for __name in __fields:", f"    setattr({me}, __name, getattr({me}, __name))"]
    if hasattr(cls, "__post_init__"):
        call = f"{me}.__post_init__({', '.join(arguments.init_vars)})"
        if cls._options["frozen"]:
            namespace["__IN_POST_INIT"] = IN_POST_INIT
            return [*lines, f"{me}._context = __IN_POST_INIT", call, f"del {me}._context"]
        lines.append(call)
    return lines


def _compiled(cls: Any, source: str, namespace: dict[str, Any]) -> Any:
    """Compile the text of an ``__init__``, and keep the text for debuggers and tracebacks."""
    filename = f"<generated __init__ of {cls.__module__}.{cls.__qualname__}>"
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    init: Any = namespace["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__generated__ = True
    return init


def _annotations(cls: Any, own: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of fields and ``InitVar`` pseudo-fields as objects, for ``inspect`` and ``help``.

    Text annotations would be looked up in the globals of the generated function, which are not those of the module.
    """
    inherited: dict[str, Any] = {}
    for base in reversed(_records(cls)[1:]):
        if getattr(base.__dict__.get("__init__"), "__generated__", False):
            inherited.update(base.__dict__["__init__"].__annotations__)
    space = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    annotations: dict[str, Any] = {}
    for name, f in cls.__dataclass_fields__.items():
        annotation = f.type
        if name not in own and name in inherited:
            annotation = inherited[name]
        elif isinstance(annotation, str):
            annotation = evaluated(annotation, space, scope)
        pseudo: Any = annotation
        annotations[name] = pseudo.type if isinstance(annotation, dataclasses.InitVar) else annotation
    return annotations
