"""Typed pipelines: functions and modules from record to record, composed with ``>>``."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, overload

from torch import nn
from typing_extensions import TypeVar

from tensorclass.contracts.contract import described_array
from tensorclass.records.fields import _SELF
from tensorclass.records.fields import shown_annotation as shown
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.support.progress import progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.same_named_classes import namesake

In = TypeVar("In", bound=TensorCollection, contravariant=True)
Out = TypeVar("Out", bound=TensorCollection, covariant=True)
First = TypeVar("First", bound=TensorCollection)
Last = TypeVar("Last", bound=TensorCollection)
Input = TypeVar("Input", bound=TensorCollection, contravariant=True)
Output = TypeVar("Output", bound=TensorCollection, covariant=True)


class HasForward(Protocol[Input, Output]):
    """A module, typed by its ``forward``, because type checkers know nothing about ``nn.Module.__call__``."""

    def forward(self, record: Input, /) -> Output: ...


class Function(Protocol[Input, Output]):
    """A function. Requiring ``__name__`` excludes modules, whose ``__call__`` accepts anything to a type checker."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, record: Input, /) -> Output: ...


class Stage(nn.Module, Generic[In, Out]):
    """A function or a module from record to record, with declared types.

    ``first >> second`` is a stage from the input of ``first`` to the output of ``second``. If the types do not fit,
    type checkers report the line, and building the pipeline raises an error that names both stages and the fields in
    which the two records differ.

    A stage is an ``nn.Module``. A pipeline owns the parameters of its modules, and can be moved, compiled, saved and
    trained as one module.

    Declare the types of a callable without annotations, such as a ``lambda``, with ``Stage[Text, Score](...)``. A
    subclass of ``Stage[Text, Score]`` overrides ``forward``.

    Args:
        function: takes one record by position and returns a record: an annotated function, a module with an annotated
            ``forward``, or an object with an annotated ``__call__``.
        name: the name of the stage in messages. Default: the name of the function or of the class of the module.

    Raises:
        TypeError: the function does not take exactly one record, or its annotations are not collections.

    Example:
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
            raise TypeError(f"{type_name(self)}: expected a function or a module; or override forward")
        if not (function is None or callable(function)):
            raise TypeError(f"{type_name(self)}: expected a function or a module, got {type_name(function)}")
        if function is not None:
            self.function = function
        self.name = name or _name(self if function is None else function)
        self._declared = _declared(self if own else function, self.name, _scope())

    def forward(self, record: In, /) -> Out:
        """Call the function of the stage on a record.

        Call the stage itself instead: that also checks the types of the record and of the result. A subclass overrides
        this method.

        Args:
            record: the record. Its type is not checked.

        Returns:
            The result of the function. Its type is not checked.

        Example:
            >>> import torch
            >>> from tensorclass import Stage, TensorClass
            >>> class Text(TensorClass):
            ...     codes: torch.Tensor
            >>> class Shift(Stage[Text, Text]):
            ...     def forward(self, record: Text) -> Text:
            ...         return record + 1
            >>> Shift()(Text(torch.zeros(2), batch_size=[2])).codes
            tensor([1., 1.])
        """
        function: Any = self.function
        result: Out = function(record)
        return result

    if TYPE_CHECKING:

        def __call__(self, record: In, /) -> Out: ...

    else:

        def __call__(self, record):
            """Run the stage. Raise a TypeError if the record or the result does not have the declared type."""
            takes, gives, *_ = self._types
            if not isinstance(record, takes):
                raise self._refusal(record)
            result = super().__call__(record)
            if not isinstance(result, gives):
                twin = namesake(type(result), gives)
                raise TypeError(
                    f"{self.name}: declared to give {_names(gives)}, gave {type_name(result)}; "
                    + (twin or "correct the annotation, or what the stage returns")
                )
            return result

    def run(
        self,
        record: In,
        /,
        *,
        on: Any = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        timeout: float | None = None,
        retries: int = 0,
        progress: bool | None = None,
        pbar: bool | None = None,
    ) -> Out:
        """Run the stage on many rows: in batches in this process, in other processes, or on a cluster.

        If the stage treats each row alike, the result equals ``stage(record)``. Rows keep their order. No gradients are
        recorded.

        Args:
            record: the rows, along the first batch dimension.
            on: runs the batches: the module ``ray``, a client of ``dask.distributed``, or an executor of
                ``concurrent.futures``. The stage is sent there with its parameters. Its functions are found by name,
                except that Ray and Dask also send functions defined in the program.
            batch_size: rows of a batch. Default: all rows in this process, or one batch for each worker.
            num_workers: number of processes to start for this call. Not together with ``on``.
            timeout: seconds that a worker may take for a batch.
            retries: how often a worker's batch is repeated after an error, a time-out or the death of a process.
            progress: show a progress bar. Default: none is shown.
            pbar: another name of ``progress``.

        Returns:
            The results of all rows as one record.

        Raises:
            TypeError: ``record`` does not have the input type of the stage.
            ValueError: the options contradict each other.
            WorkerError: a batch failed in a worker. The error names the worker and the batch, and has the traceback.
                It is also an instance of the class that the stage raised.

        Example:
            >>> import torch
            >>> from tensorclass import Stage, TensorClass
            >>> class Text(TensorClass):
            ...     codes: torch.Tensor
            >>> @Stage
            ... def double(text: Text) -> Text:
            ...     return text + text
            >>> double.run(Text(torch.ones(5), batch_size=[5]), batch_size=2).codes
            tensor([2., 2., 2., 2., 2.])
        """
        if not isinstance(record, self._types.takes):
            raise self._refusal(record)
        from .stage_run import run

        return run(
            self, record, on, batch_size, num_workers, timeout, retries, bool(progress_of(self.name, progress, pbar))
        )

    def _refusal(self, record: object) -> TypeError:
        """Return the error for a record of another type than the stage takes."""
        takes = self._types.takes
        difference = _difference(type(record), takes, "value") if isinstance(record, TensorCollection) else ""
        if type(record).__module__.startswith("ray.data"):
            difference = "; tensorclass.distributed.ray.map_batches(dataset, stage) takes datasets"
        return TypeError(f"{self.name}: expected {_names(takes)}, got {type_name(record)}{difference}")

    @property
    def input_type(self) -> type[TensorCollection] | types.UnionType:
        """Class of the records that the stage takes, or a union of classes.

        Example:
            >>> from tensorclass import Stage, TensorDict
            >>> @Stage
            ... def double(data: TensorDict) -> TensorDict:
            ...     return data * 2
            >>> double.input_type.__name__
            'TensorDict'
        """
        return _union(self._types[0])

    @property
    def output_type(self) -> type[TensorCollection] | types.UnionType:
        """Class of the records that the stage returns, or a union of classes.

        Example:
            >>> from tensorclass import Stage, TensorDict
            >>> @Stage
            ... def double(data: TensorDict) -> TensorDict:
            ...     return data * 2
            >>> double.output_type.__name__
            'TensorDict'
        """
        return _union(self._types[1])

    @property
    def stages(self) -> tuple[Stage[Any, Any], ...]:
        """Stages of a pipeline in the order in which they run. A single stage returns itself.

        Example:
            >>> from tensorclass import Stage, TensorDict
            >>> @Stage
            ... def double(data: TensorDict) -> TensorDict:
            ...     return data * 2
            >>> len(double.stages), len((double >> double).stages)
            (1, 2)
        """
        return (self,)

    @property
    def _types(self) -> _StageTypes:
        if self._declared is None:
            arguments = _arguments(getattr(self, "__orig_class__", type(self)), Stage)
            if arguments is None:
                raise TypeError(
                    f"{self.name}: does not say what it takes and gives; annotate its argument and its result with "
                    "records, or declare them: Stage[Input, Output](...)"
                )
            self._declared = _types_of(arguments[0], arguments[1], self.name)
        return self._declared

    @overload
    def __rshift__(self, following: HasForward[Out, Last], /) -> Stage[In, Last]: ...
    @overload
    def __rshift__(self, following: Function[Out, Last], /) -> Stage[In, Last]: ...
    def __rshift__(self, following: Any, /) -> Stage[In, Any]:
        """Compose: run this stage, then ``following`` on its result."""
        return Pipeline(self, _as_stage(following)) if callable(following) else NotImplemented

    @overload
    def __rrshift__(self, preceding: HasForward[First, In], /) -> Stage[First, Out]: ...
    @overload
    def __rrshift__(self, preceding: Function[First, In], /) -> Stage[First, Out]: ...
    def __rrshift__(self, preceding: Any, /) -> Stage[Any, Out]:
        """Compose: run ``preceding``, then this stage on its result."""
        return Pipeline(_as_stage(preceding), self) if callable(preceding) else NotImplemented

    def extra_repr(self) -> str:
        return f"{self.name}: {_names(self._types.takes)} -> {_names(self._types.gives)}"

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**vars(self)}
        function = state.get("function")
        if inspect.isfunction(function) and function.__module__ in sys.modules:
            method = getattr(_DecoratedFunction(function.__module__, function.__qualname__), function.__name__, None)
            if getattr(method, "__func__", None) is function:
                state["function"] = method
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        method = state.get("function")
        if inspect.ismethod(method) and isinstance(method.__self__, _DecoratedFunction):
            state = {**state, "function": method.__func__}
        module: Any = super()
        module.__setstate__(state)


class Pipeline(Stage[In, Out]):
    """Stages that run one after another, as ``first >> second >> third`` makes them.

    The stages are the submodules ``0``, ``1``, ...

    Args:
        first: the first stage. A pipeline is flattened, here and below.
        *others: the stages after it.

    Raises:
        TypeError: a stage does not take the output of the stage before it.

    Example:
        >>> import torch
        >>> from tensorclass import Pipeline, Stage, TensorClass
        >>> class Text(TensorClass):
        ...     codes: torch.Tensor
        >>> @Stage
        ... def double(text: Text) -> Text:
        ...     return text * 2
        >>> @Stage
        ... def shift(text: Text) -> Text:
        ...     return text + 1
        >>> pipeline = Pipeline(double, shift)  # the same as double >> shift
        >>> [stage.name for stage in pipeline.stages], pipeline(Text(torch.ones(2), batch_size=[2])).codes
        (['double', 'shift'], tensor([3., 3.]))
    """

    def __init__(self, first: Stage[Any, Any], *others: Stage[Any, Any]) -> None:
        nn.Module.__init__(self)
        for given in (first, *others):
            if not isinstance(given, Stage):
                raise TypeError(
                    f"Pipeline: expected stages, one after another, got a {type_name(given)}; Stage(function) "
                    "makes one of a function with annotations"
                )
        row = [stage for part in (first, *others) for stage in part.stages]
        gives = row[0]._types
        for left, right in itertools.pairwise(row):
            gives = _following(gives, left, right)
        for position, stage in enumerate(row):
            self.add_module(str(position), stage)
        self.name: str = " >> ".join(stage.name for stage in row)
        first_types = row[0]._types
        self._declared = _StageTypes(
            first_types.takes, gives.gives, first_types.input_annotation, gives.output_annotation
        )

    if not TYPE_CHECKING:
        __call__ = nn.Module.__call__  # each stage checks its own input and output

    def forward(self, record: In, /) -> Out:
        """Run the stages one after another, each on the result of the one before.

        Args:
            record: the record for the first stage.

        Returns:
            The result of the last stage.

        Raises:
            TypeError: a record, or the result of a stage, does not have the declared type.

        Example:
            >>> import torch
            >>> from tensorclass import Stage, TensorClass
            >>> class Text(TensorClass):
            ...     codes: torch.Tensor
            >>> @Stage
            ... def double(text: Text) -> Text:
            ...     return text * 2
            >>> (double >> double)(Text(torch.ones(2), batch_size=[2])).codes
            tensor([4., 4.])
        """
        value: Any = record
        for stage in self._modules.values():
            value = typing.cast("Stage[Any, Any]", stage)(value)
        result: Out = value
        return result

    @property
    def stages(self) -> tuple[Stage[Any, Any], ...]:
        """Stages in the order in which they run.

        Example:
            >>> from tensorclass import Stage, TensorDict
            >>> @Stage
            ... def double(data: TensorDict) -> TensorDict:
            ...     return data * 2
            >>> [stage.name for stage in (double >> double).stages]
            ['double', 'double']
        """
        return tuple(typing.cast("Iterator[Stage[Any, Any]]", self._modules.values()))

    def extra_repr(self) -> str:
        return f"{_names(self._types.takes)} -> {_names(self._types.gives)}"


# ---------------------------------------------------------------------------------------------------------------------
# declared types

_Classes = tuple[type[TensorCollection], ...]


class _StageTypes(NamedTuple):
    """Declared input and output of a stage."""

    takes: _Classes  #: classes of the input
    gives: _Classes  #: classes of the output
    input_annotation: Any
    output_annotation: Any

    @property
    def keeps_class(self) -> bool:
        """Return whether one type variable annotates input and output, so that the output has the input's class."""
        return isinstance(self.input_annotation, typing.TypeVar) and self.input_annotation is self.output_annotation


class _DecoratedFunction(NamedTuple):
    """Pickles a function decorated with ``@Stage``, whose name now refers to the stage.

    The function is pickled as a method of this class. Pickle looks a method up by name on its object, which finds the
    function through ``__getattr__``. Cloudpickle sends the function itself if no stage has that name, as in the program
    of a worker on a cluster.
    """

    module: str
    path: str

    def __getattr__(self, name: str) -> Any:
        found: Any = None
        if name == self.path.rpartition(".")[2]:
            found = sys.modules.get(self.module) or importlib.import_module(self.module)
            for part in self.path.split("."):
                found = getattr(found, part, None)
        if not _is_stage(found) or not hasattr(found, "function"):
            raise AttributeError(
                f"cannot unpickle the function {name}: the module {self.module} has no stage {self.path}"
            )
        return types.MethodType(found.function, self)


def _is_stage(value: object) -> bool:
    return isinstance(value, Stage)


def _overrides(stage: object) -> bool:
    """Return whether the class of a stage overrides ``forward``."""
    return getattr(type(stage), "forward", None) not in (vars(Stage)["forward"], vars(Pipeline)["forward"])


def _as_stage(function: Any) -> Stage[Any, Any]:
    stage: Stage[Any, Any] = function if _is_stage(function) else Stage(function)
    return stage


def _name(function: Any) -> str:
    function = _unbound(function)
    named = _is_stage(function) and hasattr(function, "name")  # a stage under construction has no name yet
    return printable(function.name if named else getattr(function, "__name__", type(function).__name__))


def _unbound(function: Any) -> Any:
    """Unwrap ``functools.partial`` and ``torch.compile``."""
    function = _uncompiled(function)
    while issubclass(type(function), functools.partial):
        function = function.func
    return function


def _uncompiled(function: Any) -> Any:
    """Return the module that ``torch.compile`` wrapped: the wrapper has no annotations."""
    compiled = isinstance(function, nn.Module) and "_orig_mod" in function._modules
    return function.get_submodule("_orig_mod") if compiled else function


def _scope() -> Mapping[str, Any]:
    """Return the names visible where the stage is constructed: string annotations can name local classes."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "typing"):
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals}


def _declared(function: Any, name: str, scope: Mapping[str, Any]) -> _StageTypes | None:
    """Return the annotated types of a function, or ``None`` if an annotation is missing."""
    function = _uncompiled(function)
    if _is_stage(function) and not _overrides(function):
        types_of_stage: _StageTypes = function._types
        return types_of_stage
    if inspect.isclass(function) and issubclass(function, nn.Module):
        raise TypeError(f"{name}: expected a module, got its class; instantiate it: {name}(...)")
    if isinstance(function, nn.Module):
        function = function.forward
    elif not (inspect.isroutine(function) or issubclass(type(function), (type, functools.partial))):
        function = function.__call__
    if inspect.iscoroutinefunction(_unbound(function)):
        raise TypeError(
            f"{name}: expected a function that returns a record, got an async function; await it outside of the stage"
        )
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in function
        return None
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind not in _VARIADIC]
    if not positional or required not in ([], [positional[0].name]):
        if not any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            raise TypeError(
                f"{name}: a stage takes one record by position, got a function of {required}; use partial()"
            )
        return None
    if not positional:
        return None
    taken, given = positional[0].annotation, signature.return_annotation
    if taken is signature.empty or given is signature.empty:
        return None
    function = _unbound(function)
    space = {**scope, **getattr(function, "__globals__", {}), **_closure(function)}
    taken, given = _evaluated(taken, space, name), _evaluated(given, space, name)
    if taken is Any or given is Any:  # such as a module for any collection
        return None
    owner = getattr(function, "__self__", None)
    if owner is not None:  # a bound method: Self is the class of its object
        owner = owner if isinstance(owner, type) else type(owner)
        taken, given = (owner if one in _SELF else one for one in (taken, given))
    return _types_of(taken, given, name)


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
        raise NameError(
            f"{name}: cannot resolve the annotation {annotation!r} ({error}); define the class above the stage, and "
            "import it at run time, not only under TYPE_CHECKING"
        ) from None


def _classes(annotation: Any, name: str) -> _Classes:
    """Return the classes whose instances an annotation allows."""
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


def _types_of(taken: Any, given: Any, name: str) -> _StageTypes:
    return _StageTypes(_classes(taken, name), _classes(given, name), taken, given)


def _arguments(annotation: Any, base: type) -> tuple[Any, ...] | None:
    """Return the type arguments that an annotation gives to ``base``, also through subclasses."""
    cls, given = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if cls is base:
        return given or None
    known = dict(zip(getattr(cls, "__parameters__", ()), given, strict=False))
    for parent in getattr(cls, "__orig_bases__", ()):
        origin = typing.get_origin(parent) or parent
        if isinstance(origin, type) and issubclass(origin, base):
            free = getattr(parent, "__parameters__", ()) if origin is not parent else ()
            return _arguments(parent[tuple([known.get(one, one) for one in free])] if free else parent, base)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# compatibility of two stages


def _following(gives: _StageTypes, left: Stage[Any, Any], right: Stage[Any, Any]) -> _StageTypes:
    """Return the types after ``right``, given those after ``left``, or raise if they do not fit together."""
    types_of_right = right._types
    pair = f"{left.name} >> {right.name}: {left.name} gives"
    for cls in gives.gives:
        if not issubclass(cls, types_of_right.takes):
            raise TypeError(
                f"{pair} {_names(gives.gives)}, {right.name} takes {_names(types_of_right.takes)}"
                f"{_difference(cls, types_of_right.takes)}"
            )
    if _other_arguments(gives, types_of_right):
        have, want = shown(gives.output_annotation), shown(types_of_right.input_annotation)
        raise TypeError(
            f"{pair} {have}, {right.name} takes {want}; put a stage between them that converts one into the other"
        )
    return gives if types_of_right.keeps_class else types_of_right


def _other_arguments(left: _StageTypes, right: _StageTypes) -> bool:
    """Return whether two generic records have unrelated type arguments, as ``Box[A]`` and ``Box[B]`` have."""
    if len(left.gives) != 1 or len(right.takes) != 1:
        return False
    have, want = _arguments(left.output_annotation, right.takes[0]), typing.get_args(right.input_annotation)
    return any(
        isinstance(one, type) and isinstance(other, type) and not issubclass(one, other)
        for one, other in zip(have or (), want, strict=False)
        if described_array(one) is None and described_array(other) is None and Any not in (one, other)
    )


def _difference(given: type, takes: _Classes, between: Literal["value", "classes"] = "classes") -> str:
    """Describe the fields in which a class differs from the one that a stage takes."""
    if twin := namesake(given, takes, between=between):
        return f"; {twin}"
    if len(takes) != 1 or not issubclass(given, TensorClass) or not issubclass(takes[0], TensorClass):
        return "; put a stage between them that converts one into the other"
    have, want = ({f.name: shown(f.type) for f in dataclasses.fields(cls)} for cls in (given, takes[0]))
    facts = [f"{class_name(given)} lacks {name!r} ({want[name]})" for name in want if name not in have]
    facts += [
        f"{name!r} is {have[name]} instead of {want[name]}" for name in want if have.get(name, want[name]) != want[name]
    ]
    facts += [f"{name!r} ({have[name]}) is not a field of {class_name(takes[0])}" for name in have if name not in want]
    if not facts:
        facts = ["they have the same fields, but neither derives from the other"]
    return f"; {', '.join(facts)}; put a stage between them that converts one into the other"


def _names(classes: _Classes) -> str:
    return " | ".join(cls.__name__ for cls in classes)


def _union(classes: _Classes) -> type[TensorCollection] | types.UnionType:
    union: Any = functools.reduce(lambda left, right: left | right, typing.cast("tuple[Any, ...]", classes))
    return typing.cast("type[TensorCollection]", union)
