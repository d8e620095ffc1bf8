"""Modules that map a record to a record."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from torch import nn
from torch.fx import Proxy

from tensorclass.pipelines.stage import Function, HasForward, Stage, _arguments, _declared
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey
from tensorclass.td.tensordict import TensorDict

from .dispatch import as_outputs, collected, only_values
from .fully_sharded import look_into_results
from .fx_tracing import as_call
from .module_base import TensorDictModuleBase, missing_keys

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
First = TypeVar("First", bound=TensorCollection)
Last = TypeVar("Last", bound=TensorCollection)
Taken = TypeVar("Taken", bound=TensorCollection)
Given = TypeVar("Given", bound=TensorCollection)


class TensorClassModuleBase(nn.Module, abc.ABC, Generic[In, Out]):
    """Base class of modules that map a record to a record: ``class Net(TensorClassModuleBase[Text, Scores])``.

    ``forward`` takes a ``Text`` and returns a ``Scores``; type checkers check its calls. The module is a stage of typed
    pipelines: ``tokenize >> Net() >> rank`` (see :class:`tensorclass.Stage`). :meth:`as_td_module` converts it to a
    module on collections.

    Example:
        >>> import torch
        >>> from torch import Tensor, nn
        >>> from tensorclass import TensorClass, TensorDict
        >>> from tensorclass.nn import TensorClassModuleBase
        >>> class Text(TensorClass):
        ...     codes: Tensor
        >>> class Scores(TensorClass):
        ...     logits: Tensor
        >>> class Net(TensorClassModuleBase[Text, Scores]):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.linear = nn.Linear(3, 2)
        ...
        ...     def forward(self, x: Text) -> Scores:
        ...         return Scores(self.linear(x.codes), batch_size=x.batch_size)
        >>> Net()(Text(torch.ones(4, 3), batch_size=[4])).logits.shape
        torch.Size([4, 2])
        >>> Net().input_type.__name__, Net().output_type.__name__
        ('Text', 'Scores')
        >>> module = Net().as_td_module()
        >>> module.in_keys, module.out_keys, list(module(TensorDict(codes=torch.ones(4, 3))).keys())
        (['codes'], ['logits'], ['logits'])
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        look_into_results(cls)

    @abc.abstractmethod
    def forward(self, x: In, /) -> Out:
        """Compute the output record of the record ``x``. Subclasses override this method.

        Args:
            x: a record of the class in the brackets, or in the annotation of ``forward``.

        Returns:
            A record of the output class.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> from tensorclass.nn import TensorClassModuleBase
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> class Double(TensorClassModuleBase[Point, Point]):
            ...     def forward(self, x: Point) -> Point:
            ...         return x * 2
            >>> Double()(Point(torch.ones(2), batch_size=[2])).x
            tensor([2., 2.])
        """

    if TYPE_CHECKING:

        def __call__(self, x: In, /) -> Out: ...

    else:
        __call__ = nn.Module.__call__

    @property
    def input_type(self) -> Any:
        """The type of the input: the first type in the brackets, or the annotation of ``forward``.

        Raises:
            ValueError: there is neither.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> from tensorclass.nn import TensorClassModuleBase
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> class Double(TensorClassModuleBase[Point, Point]):
            ...     def forward(self, x: Point) -> Point:
            ...         return x * 2
            >>> Double().input_type.__name__
            'Point'
        """
        return self._types()[0]

    @property
    def output_type(self) -> Any:
        """The type of the output: the second type in the brackets, or the annotation of ``forward``.

        Raises:
            ValueError: there is neither.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> from tensorclass.nn import TensorClassModuleBase
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> class Double(TensorClassModuleBase[Point, Point]):
            ...     def forward(self, x: Point) -> Point:
            ...         return x * 2
            >>> Double().output_type.__name__
            'Point'
        """
        return self._types()[1]

    def _types(self) -> tuple[Any, Any]:
        found = _arguments(type(self), TensorClassModuleBase)
        if found is None or any(isinstance(one, TypeVar) for one in found):
            declared = _declared(self, type_name(self), {})
            found = None if declared is None else (declared.input_annotation, declared.output_annotation)
        if found is None:
            raise ValueError(
                f"{type_name(self)}: does not say what it takes and gives; derive it from "
                "TensorClassModuleBase[Input, Output], or annotate the argument and the result of forward"
            )
        return found[0], found[1]

    def as_td_module(self) -> TensorClassModuleWrapper:
        """Convert to a module on collections, whose keys are the fields of the records.

        Returns:
            A module that contains this one and shares its parameters.

        Raises:
            ValueError: the input or the output is not a record.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, TensorDict
            >>> from tensorclass.nn import TensorClassModuleBase
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> class Double(TensorClassModuleBase[Point, Point]):
            ...     def forward(self, x: Point) -> Point:
            ...         return x * 2
            >>> Double().as_td_module()(TensorDict(x=torch.ones(2)))["x"]
            tensor([2., 2.])
        """
        return TensorClassModuleWrapper(self)

    @overload
    def __rshift__(
        self: TensorClassModuleBase[Taken, Given], following: HasForward[Given, Last], /
    ) -> Stage[Taken, Last]: ...
    @overload
    def __rshift__(
        self: TensorClassModuleBase[Taken, Given], following: Function[Given, Last], /
    ) -> Stage[Taken, Last]: ...
    def __rshift__(self, following: Any, /) -> Stage[Any, Any]:
        """Return the stage that runs this module, then ``following``."""
        this: Any = self
        return cast("Stage[Any, Any]", Stage(this) >> following)

    @overload
    def __rrshift__(
        self: TensorClassModuleBase[Taken, Given], preceding: HasForward[First, Taken], /
    ) -> Stage[First, Given]: ...
    @overload
    def __rrshift__(
        self: TensorClassModuleBase[Taken, Given], preceding: Function[First, Taken], /
    ) -> Stage[First, Given]: ...
    def __rrshift__(self, preceding: Any, /) -> Stage[Any, Any]:
        """Return the stage that runs ``preceding``, then this module."""
        this: Any = self
        return cast("Stage[Any, Any]", preceding >> Stage(this))


class TensorClassModuleWrapper(TensorDictModuleBase):
    """A module from record to record, as a module on collections. :meth:`TensorClassModuleBase.as_td_module` makes it.

    A TensorDict that has the fields of the input record gives a new TensorDict with the fields of the output record.
    The input record itself gives the output record. Other keys are ignored.

    Args:
        module: the module.

    Raises:
        ValueError: the input or the output of the module is not a record.

    Example:
        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass, TensorDict
        >>> from tensorclass.nn import TensorClassModuleBase, TensorClassModuleWrapper
        >>> class Point(TensorClass):
        ...     x: Tensor
        >>> class Double(TensorClassModuleBase[Point, Point]):
        ...     def forward(self, x: Point) -> Point:
        ...         return Point(2 * x.x, batch_size=x.batch_size)
        >>> module = TensorClassModuleWrapper(Double())
        >>> module(torch.ones(2)), module(TensorDict(x=torch.ones(2)))["x"]
        (tensor([2., 2.]), tensor([2., 2.]))
    """

    tc_module: nn.Module

    def __init__(self, module: TensorClassModuleBase[Any, Any]) -> None:
        super().__init__()
        self.input_type: type[TensorClass] = _require_record(module, "takes", module.input_type)
        self.output_type: type[TensorClass] = _require_record(module, "gives", module.output_type)
        self.tc_module = module
        self._in_keys = [*_field_keys(self.input_type)]
        self._out_keys = [*_field_keys(self.output_type)]

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Call the module on a collection, on a record, or on tensors.

        Args:
            tensordict: a collection that has the ``in_keys``, an input record; or the first tensor.
            *args: further tensors, in the order of ``in_keys``.
            **kwargs: tensors by keyword.

        Returns:
            A new TensorDict for a collection, the output record for a record, otherwise the values under ``out_keys``.

        Raises:
            KeyError: required fields are missing.
            TypeError: a keyword is not one of the ``in_keys``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, TensorDict
            >>> from tensorclass.nn import TensorClassModuleBase
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> class Double(TensorClassModuleBase[Point, Point]):
            ...     def forward(self, x: Point) -> Point:
            ...         return x * 2
            >>> module = Double().as_td_module()
            >>> module(x=torch.ones(2)), type(module(Point(torch.ones(2), batch_size=[2]))).__name__
            (tensor([2., 2.]), 'Point')
        """
        if isinstance(tensordict, self.input_type):
            return self.tc_module(tensordict)
        if isinstance(tensordict, TensorCollection):
            return self._run(tensordict)
        if isinstance(tensordict, Proxy):
            return as_call(self, tensordict)
        given = () if tensordict is None else (tensordict, *args)
        result = self._run(collected(only_values(type_name(self), self._in_keys, given, kwargs), False))
        return as_outputs([result.get(key) for key in self._out_keys])

    def _run(self, data: TensorCollection) -> TensorDict:
        absent = [*_lacking(self.input_type, data)]
        if absent:
            raise missing_keys(type_name(self.tc_module), absent, data)
        result: TensorClass = self.tc_module(_as_record(self.input_type, data))
        return _as_tensordict(result)


def _require_record(module: nn.Module, verb: str, cls: Any) -> type[TensorClass]:
    if isinstance(cls, type) and issubclass(cls, TensorClass):
        return cls
    raise ValueError(f"{type_name(module)}: only a module from record to record is one on collections; it {verb} {cls}")


def _nested_records(cls: type[TensorClass]) -> dict[str, type[TensorClass] | None]:
    """Map each field of a class to the record class that it holds, or to ``None``."""
    found: dict[str, type[TensorClass] | None] = {}
    for name, spec in cls._specs.items():
        classes = [one for one in spec.types if issubclass(one, TensorClass)]
        found[name] = classes[0] if len(classes) == 1 else None
    return found


def _field_keys(cls: type[TensorClass], path: tuple[str, ...] = ()) -> Iterator[FlatKey]:
    """Iterate over the keys of all fields, including fields of nested records."""
    for name, nested in _nested_records(cls).items():
        if nested is not None and nested is not cls:
            yield from _field_keys(nested, (*path, name))
        else:
            yield (*path, name) if path else name


def _lacking(cls: type[TensorClass], data: TensorCollection, path: tuple[str, ...] = ()) -> Iterator[FlatKey]:
    """Iterate over the required fields that have no value."""
    for name, nested in _nested_records(cls).items():
        value: Any = data._store.get(name)
        if value is None:
            if not cls._specs[name].optional and cls._specs[name].default is None:
                yield (*path, name) if path else name
        elif nested is not None and isinstance(value, TensorCollection):
            yield from _lacking(nested, value, (*path, name))


def _as_record(cls: type[TensorClass], data: TensorCollection) -> TensorClass:
    """Build a record from the values of a collection that has its fields; other keys are ignored."""
    values: dict[str, Any] = {}
    for name, nested in _nested_records(cls).items():
        value: Any = data._store.get(name)
        if value is not None:
            tree = nested is not None and isinstance(value, TensorCollection) and not isinstance(value, nested)
            values[name] = _as_record(nested, value) if tree and nested is not None else value
    return cls._from_mapping(values, data._batch_size, data._device, data._names)


def _as_tensordict(record: TensorCollection) -> TensorDict:
    """Return the values of a record as a TensorDict, without copying."""
    return TensorDict._of(
        record,
        {
            key: _as_tensordict(value) if isinstance(value, TensorClass) else value
            for key, value in record._now().items()
        },
    )
