"""Typed pipelines: functions and modules from record to record, put in a row that type checkers follow."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

from torch import nn
from typing_extensions import TypeVar

from .fields import _shown as shown
from .record import TensorClass
from .td.base import TensorCollection

In = TypeVar("In", bound=TensorCollection, contravariant=True)
Out = TypeVar("Out", bound=TensorCollection, covariant=True)
First = TypeVar("First", bound=TensorCollection)
Last = TypeVar("Last", bound=TensorCollection)
Input = TypeVar("Input", bound=TensorCollection, contravariant=True)
Output = TypeVar("Output", bound=TensorCollection, covariant=True)


class HasForward(Protocol[Input, Output]):
    """A module, by the types of its ``forward``: what ``nn.Module.__call__`` takes and gives is unknown to checkers."""

    def forward(self, record: Input, /) -> Output: ...


class Function(Protocol[Input, Output]):
    """A function, which has a name: a module, which can be called with anything as far as checkers know, has none."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, record: Input, /) -> Output: ...


class Stage(nn.Module, Generic[In, Out]):
    """A function or a module from record to record, with declared types.

    ``first >> second`` is a stage again, from what the first takes to what the second gives. Where the second does not
    take what the first gives, type checkers report the line, and building the pipeline raises an error that names both
    stages and the fields in which the two records differ.

    A stage is an ``nn.Module``: the parameters of the modules in a pipeline are the pipeline's, it can be moved,
    compiled, saved and trained as one.

    >>> import torch
    >>> from tensorclass import Stage, TensorClass
    >>> class Text(TensorClass):
    ...     codes: torch.Tensor
    >>> class Score(TensorClass):
    ...     value: torch.Tensor
    >>> @Stage
    ... def score(text: Text) -> Score:
    ...     return Score(text.codes.float().mean(-1), batch_size=text.batch_size)
    >>> @Stage
    ... def double(text: Text) -> Text:
    ...     return text + text
    >>> (double >> score)(Text(torch.ones(2, 3), batch_size=[2])).value
    tensor([2., 2.])
    >>> score >> double
    Traceback (most recent call last):
    TypeError: score >> double: score gives Score, double takes Text; ...

    What takes no annotations, such as a ``lambda``, is declared with ``Stage[Text, Score](...)``. A subclass of
    ``Stage[Text, Score]`` overrides ``forward``.

    Args:
        function: takes a record by position and gives a record: an annotated function, a module with an annotated
            ``forward``, an object with an annotated ``__call__``.
        name: what messages call the stage: by default the name of the function or of the module's class.

    Raises:
        TypeError: the function takes something else than one record, or its annotations name something else than
            records or other collections.
    """

    name: str

    @overload
    def __init__(self, *, name: str | None = None) -> None: ...
    @overload
    def __init__(self, function: HasForward[In, Out], *, name: str | None = None) -> None: ...
    @overload
    def __init__(self, function: Callable[[In], Out], *, name: str | None = None) -> None: ...
    def __init__(self, function: Any = None, *, name: str | None = None) -> None:
        super().__init__()
        own = _overrides(self)
        if function is None and not own:
            raise TypeError(f"{type(self).__name__}: expected a function or a module; or override forward")
        if not (function is None or callable(function)):
            raise TypeError(f"{type(self).__name__}: expected a function or a module, got {type(function).__name__}")
        if function is not None:
            self.function = function
        self.name = name or _name(self if function is None else function)
        self._declared = _declared(self if own else function, self.name, _scope())

    def forward(self, record: In, /) -> Out:
        """What the function gives for ``record``."""
        function: Any = self.function
        result: Out = function(record)
        return result

    if TYPE_CHECKING:

        def __call__(self, record: In, /) -> Out: ...

    else:

        def __call__(self, record):
            """What the stage gives for ``record``; a TypeError where one of the two is not what was declared."""
            takes, gives = self._types
            if not isinstance(record, takes):
                difference = _difference(type(record), takes) if isinstance(record, TensorCollection) else ""
                raise TypeError(f"{self.name}: expected {_names(takes)}, got {type(record).__name__}{difference}")
            result = super().__call__(record)
            if not isinstance(result, gives):
                raise TypeError(
                    f"{self.name}: declared to give {_names(gives)}, gave {type(result).__name__}; correct the "
                    "annotation, or what the stage returns"
                )
            return result

    @property
    def input_type(self) -> type[TensorCollection] | types.UnionType:
        """The class of the records that the stage takes (a union, where there are several)."""
        return _union(self._types[0])

    @property
    def output_type(self) -> type[TensorCollection] | types.UnionType:
        """The class of the records that it gives (a union, where there are several)."""
        return _union(self._types[1])

    @property
    def stages(self) -> tuple[Stage[Any, Any], ...]:
        """The stages of a pipeline in the order in which they run; for a single one, itself."""
        return (self,)

    @property
    def _types(self) -> tuple[_Classes, _Classes]:
        if self._declared is None:
            arguments = getattr(getattr(self, "__orig_class__", None), "__args__", None) or _arguments(type(self))
            if arguments is None:
                raise TypeError(
                    f"{self.name}: does not say what it takes and gives; annotate its argument and its result with "
                    "records, or declare them: Stage[Input, Output](...)"
                )
            self._declared = _classes(arguments[0], self.name), _classes(arguments[1], self.name)
        return self._declared

    @overload
    def __rshift__(self, following: HasForward[Out, Last], /) -> Stage[In, Last]: ...
    @overload
    def __rshift__(self, following: Function[Out, Last], /) -> Stage[In, Last]: ...
    def __rshift__(self, following: Any, /) -> Stage[In, Any]:
        """The stage that runs this one, and ``following`` on what it gives."""
        return Pipeline(self, _as_stage(following)) if callable(following) else NotImplemented

    @overload
    def __rrshift__(self, preceding: HasForward[First, In], /) -> Stage[First, Out]: ...
    @overload
    def __rrshift__(self, preceding: Function[First, In], /) -> Stage[First, Out]: ...
    def __rrshift__(self, preceding: Any, /) -> Stage[Any, Out]:
        """The stage that runs ``preceding``, and this one on what it gives."""
        return Pipeline(_as_stage(preceding), self) if callable(preceding) else NotImplemented

    def extra_repr(self) -> str:
        takes, gives = self._types
        return f"{self.name}: {_names(takes)} -> {_names(gives)}"


class Pipeline(Stage[In, Out]):
    """Stages in a row: what ``first >> second >> third`` makes. Its stages are its submodules ``0``, ``1``, ...

    Args:
        first, *others: the stages; pipelines among them are taken apart.

    Raises:
        TypeError: a stage does not take what the one in front of it gives.
    """

    def __init__(self, first: Stage[Any, Any], *others: Stage[Any, Any]) -> None:
        nn.Module.__init__(self)
        row = [stage for part in (first, *others) for stage in part.stages]
        for left, right in itertools.pairwise(row):
            _check(left, right)
        for position, stage in enumerate(row):
            self.add_module(str(position), stage)
        self.name: str = " >> ".join(stage.name for stage in row)
        self._declared = row[0]._types[0], row[-1]._types[1]

    if not TYPE_CHECKING:
        __call__ = nn.Module.__call__  # the stages look at what goes in and comes out

    def forward(self, record: In, /) -> Out:
        """What the last stage gives for what the one in front of it gives, and so on."""
        value: Any = record
        for stage in self._modules.values():
            value = typing.cast("Stage[Any, Any]", stage)(value)
        result: Out = value
        return result

    @property
    def stages(self) -> tuple[Stage[Any, Any], ...]:
        """The stages in the order in which they run."""
        return tuple(typing.cast("Iterator[Stage[Any, Any]]", self._modules.values()))

    def extra_repr(self) -> str:
        takes, gives = self._types
        return f"{_names(takes)} -> {_names(gives)}"


# ---------------------------------------------------------------------------------------------------------------------
# what a function declares

_Classes = tuple[type[TensorCollection], ...]


def _is_stage(value: object) -> bool:
    return isinstance(value, Stage)


def _overrides(stage: object) -> bool:
    """Whether the class of a stage has a ``forward`` of its own."""
    return getattr(type(stage), "forward", None) not in (vars(Stage)["forward"], vars(Pipeline)["forward"])


def _as_stage(function: Any) -> Stage[Any, Any]:
    stage: Stage[Any, Any] = function if _is_stage(function) else Stage(function)
    return stage


def _name(function: Any) -> str:
    function = _unbound(function)
    named = _is_stage(function) and hasattr(function, "name")  # a stage that is being made has none yet
    name: str = function.name if named else getattr(function, "__name__", type(function).__name__)
    return name


def _unbound(function: Any) -> Any:
    """The function without the arguments that ``functools.partial`` bound."""
    while issubclass(type(function), functools.partial):
        function = function.func
    return function


def _scope() -> Mapping[str, Any]:
    """The names where a stage is made: annotations that are text can name classes of the function around it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "typing"):
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals}


def _declared(function: Any, name: str, scope: Mapping[str, Any]) -> tuple[_Classes, _Classes] | None:
    """The classes that a function takes and gives; ``None`` where one of them is not declared."""
    if _is_stage(function) and not _overrides(function):
        types_of_stage: tuple[_Classes, _Classes] = function._types
        return types_of_stage
    if isinstance(function, nn.Module):
        function = function.forward
    elif not (inspect.isroutine(function) or issubclass(type(function), (type, functools.partial))):
        function = function.__call__
    try:
        signature = inspect.signature(function)
    except ValueError:  # built in
        return None
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wanting = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind not in _VARIADIC]
    if not positional or wanting not in ([], [positional[0].name]):
        if not any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            raise TypeError(f"{name}: a stage takes one record by position, got a function of {wanting}; use partial()")
        return None
    if not positional:
        return None
    taken, given = positional[0].annotation, signature.return_annotation
    if taken is signature.empty or given is signature.empty:
        return None
    function = _unbound(function)
    space = {**scope, **getattr(function, "__globals__", {}), **_closure(function)}
    return _classes(_evaluated(taken, space, name), name), _classes(_evaluated(given, space, name), name)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _closure(function: Any) -> Mapping[str, Any]:
    function = inspect.unwrap(getattr(function, "__func__", function))
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


def _evaluated(annotation: Any, space: dict[str, Any], name: str) -> Any:
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    try:
        return typing.get_type_hints(holder, space, space)["value"]
    except NameError as error:
        raise NameError(f"{name}: the annotation {annotation!r} names what is not defined here ({error})") from None


def _classes(annotation: Any, name: str) -> _Classes:
    """The classes of which an annotation allows instances."""
    if isinstance(annotation, typing.TypeVar):
        annotation = annotation.__bound__ or annotation.__constraints__ or TensorCollection
    alternatives: tuple[Any, ...] = ()
    if issubclass(type(annotation), tuple):  # the constraints of a type variable
        alternatives = annotation
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
        alternatives = typing.get_args(annotation)
    if alternatives:
        return tuple(cls for one in alternatives for cls in _classes(one, name))
    cls = typing.get_origin(annotation) or annotation
    if not (isinstance(cls, type) and issubclass(cls, TensorCollection)):
        raise TypeError(
            f"{name}: a stage goes from record to record, got {shown(annotation)} in its annotations; "
            "declare a record (a TensorClass) or another collection"
        )
    return (cls,)


def _arguments(cls: type) -> tuple[Any, Any] | None:
    """The types between the brackets of the ``Stage[In, Out]`` from which a class derives."""
    for base in getattr(cls, "__orig_bases__", ()):
        origin = typing.get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Stage):
            arguments = typing.get_args(base)
            if len(arguments) == 2:
                return arguments
    return None


# ---------------------------------------------------------------------------------------------------------------------
# whether one stage takes what another one gives


def _check(left: Stage[Any, Any], right: Stage[Any, Any]) -> None:
    gives, takes = left._types[1], right._types[0]
    for cls in gives:
        if not issubclass(cls, takes):
            raise TypeError(
                f"{left.name} >> {right.name}: {left.name} gives {_names(gives)}, {right.name} takes {_names(takes)}"
                f"{_difference(cls, takes)}"
            )


def _difference(given: type, takes: _Classes) -> str:
    """In which fields a class differs from the only one that is taken."""
    if len(takes) != 1 or not issubclass(given, TensorClass) or not issubclass(takes[0], TensorClass):
        return "; put a stage between them that makes the one of the other"
    have, want = ({f.name: shown(f.type) for f in dataclasses.fields(cls)} for cls in (given, takes[0]))
    facts = [f"{given.__name__} lacks {name!r} ({want[name]})" for name in want if name not in have]
    facts += [
        f"{name!r} is {have[name]} instead of {want[name]}" for name in want if have.get(name, want[name]) != want[name]
    ]
    facts += [f"{name!r} ({have[name]}) is not a field of {takes[0].__name__}" for name in have if name not in want]
    if not facts:
        facts = ["they have the same fields, but the one does not derive from the other"]
    return f"; {', '.join(facts)}; put a stage between them that makes the one of the other"


def _names(classes: _Classes) -> str:
    return " | ".join(cls.__name__ for cls in classes)


def _union(classes: _Classes) -> type[TensorCollection] | types.UnionType:
    union: Any = functools.reduce(lambda left, right: left | right, typing.cast("tuple[Any, ...]", classes))
    return typing.cast("type[TensorCollection]", union)
