"""Modules from record to record."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from torch import nn
from torch.fx import Proxy

from tensorclass.record import TensorClass
from tensorclass.stage import Function, HasForward, Stage, _arguments, _declared
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey
from tensorclass.td.tensordict import TensorDict

from .base import TensorDictModuleBase, missing_keys
from .dispatch import as_outputs, collected, given_values
from .sharding import look_into_results
from .tracing import as_call

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
First = TypeVar("First", bound=TensorCollection)
Last = TypeVar("Last", bound=TensorCollection)
Taken = TypeVar("Taken", bound=TensorCollection)
Given = TypeVar("Given", bound=TensorCollection)


class TensorClassModuleBase(nn.Module, abc.ABC, Generic[In, Out]):
    """The base of modules from record to record: ``class Net(TensorClassModuleBase[Text, Scores])``.

    ``forward`` takes a ``Text`` and gives a ``Scores``, which type checkers hold a call to. It is a stage of typed
    pipelines: ``tokenize >> Net() >> rank`` (see :class:`tensorclass.Stage`). :meth:`as_td_module` makes a module on
    collections of it.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass, TensorDict
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
    >>> module = Net().as_td_module()
    >>> module.in_keys, module.out_keys, list(module(TensorDict(codes=torch.ones(4, 3))).keys())
    (['codes'], ['logits'], ['logits'])
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        look_into_results(cls)

    @abc.abstractmethod
    def forward(self, x: In, /) -> Out:
        """The record that the module makes of ``x``."""

    if TYPE_CHECKING:

        def __call__(self, x: In, /) -> Out: ...

    else:
        __call__ = nn.Module.__call__

    @property
    def input_type(self) -> Any:
        """What the module takes: the first type between the brackets, or the annotation of ``forward``."""
        return self._types()[0]

    @property
    def output_type(self) -> Any:
        """What the module gives: the second type between the brackets, or the annotation of ``forward``."""
        return self._types()[1]

    def _types(self) -> tuple[Any, Any]:
        found = _arguments(type(self), TensorClassModuleBase)
        if found is None or any(isinstance(one, TypeVar) for one in found):
            declared = _declared(self, type(self).__name__, {})
            found = None if declared is None else (declared.input_annotation, declared.output_annotation)
        if found is None:
            raise ValueError(
                f"{type(self).__name__}: does not say what it takes and gives; derive it from "
                "TensorClassModuleBase[Input, Output], or annotate the argument and the result of forward"
            )
        return found[0], found[1]

    def as_td_module(self) -> TensorClassModuleWrapper:
        """This module on collections: its keys are the fields of the records.

        Raises:
            ValueError: it takes or gives something else than a record.
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
        """The stage that runs this module, and ``following`` on what it gives."""
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
        """The stage that runs ``preceding``, and this module on what it gives."""
        this: Any = self
        return cast("Stage[Any, Any]", preceding >> Stage(this))


class TensorClassModuleWrapper(TensorDictModuleBase):
    """A module from record to record, on collections: :meth:`TensorClassModuleBase.as_td_module` makes it.

    A TensorDict with the fields of the one record gives a new TensorDict with the fields of the other. The record
    itself gives the other record. Further keys are left aside.

    Args:
        module: the module.

    Raises:
        ValueError: it takes or gives something else than a record.
    """

    tc_module: nn.Module

    def __init__(self, module: TensorClassModuleBase[Any, Any]) -> None:
        super().__init__()
        self.input_type: type[TensorClass] = _record(module, "takes", module.input_type)
        self.output_type: type[TensorClass] = _record(module, "gives", module.output_type)
        self.tc_module = module
        self._in_keys = [*_keys(self.input_type)]
        self._out_keys = [*_keys(self.output_type)]

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, as a collection; or its values, of a call with tensors."""
        if isinstance(tensordict, self.input_type):
            return self.tc_module(tensordict)
        if isinstance(tensordict, TensorCollection):
            return self._run(tensordict)
        if isinstance(tensordict, Proxy):
            return as_call(self, tensordict)
        name = type(self).__name__
        values = given_values(name, self._in_keys, "_", (tensordict, *args) if tensordict is not None else (), kwargs)
        if kwargs:
            raise TypeError(f"{name}: unknown keywords {[*kwargs]}; the in_keys are {self._in_keys}")
        result = self._run(collected(values, False))
        return as_outputs([result.get(key) for key in self._out_keys])

    def _run(self, data: TensorCollection) -> TensorDict:
        absent = [*_lacking(self.input_type, data)]
        if absent:
            raise missing_keys(type(self.tc_module).__name__, absent, data)
        result: TensorClass = self.tc_module(_as_record(self.input_type, data))
        return _plain(result)


def _record(module: nn.Module, verb: str, cls: Any) -> type[TensorClass]:
    if isinstance(cls, type) and issubclass(cls, TensorClass):
        return cls
    raise ValueError(
        f"{type(module).__name__}: only a module from record to record is one on collections; it {verb} {cls}"
    )


def _nested(cls: type[TensorClass]) -> dict[str, type[TensorClass] | None]:
    """The fields of a class; of each, the record class that it has, if there is one."""
    found: dict[str, type[TensorClass] | None] = {}
    for name, spec in cls._specs.items():
        classes = [one for one in spec.types if issubclass(one, TensorClass)]
        found[name] = classes[0] if len(classes) == 1 else None
    return found


def _keys(cls: type[TensorClass], path: tuple[str, ...] = ()) -> Iterator[FlatKey]:
    """The fields of a class, and those of records among them."""
    for name, nested in _nested(cls).items():
        if nested is not None and nested is not cls:
            yield from _keys(nested, (*path, name))
        else:
            yield (*path, name) if path else name


def _lacking(cls: type[TensorClass], data: TensorCollection, path: tuple[str, ...] = ()) -> Iterator[FlatKey]:
    """The fields that need a value and have none."""
    for name, nested in _nested(cls).items():
        value: Any = data._store.get(name)
        if value is None:
            if not cls._specs[name].optional and cls._specs[name].default is None:
                yield (*path, name) if path else name
        elif nested is not None and isinstance(value, TensorCollection):
            yield from _lacking(nested, value, (*path, name))


def _as_record(cls: type[TensorClass], data: TensorCollection) -> TensorClass:
    """The record on the values of a collection that has its fields, and maybe more."""
    values: dict[str, Any] = {}
    for name, nested in _nested(cls).items():
        value: Any = data._store.get(name)
        if value is not None:
            tree = nested is not None and isinstance(value, TensorCollection) and not isinstance(value, nested)
            values[name] = _as_record(nested, value) if tree and nested is not None else value
    return cls._from_mapping(values, data._batch_size, data._device, data._names)


def _plain(record: TensorCollection) -> TensorDict:
    """The values of a record in a TensorDict."""
    return TensorDict._of(
        record,
        {key: _plain(value) if isinstance(value, TensorClass) else value for key, value in record._store.items()},
    )
