"""What a field's annotation means, and how a value enters the field."""

from __future__ import annotations

import builtins
import enum
import sys
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .td import values
from .td.base import TensorCollection
from .td.nontensor import NonTensorData, NonTensorDataBase, NonTensorStack
from .td.tensordict import TensorDict

if TYPE_CHECKING:
    from .record import TensorClass
    from .td.collection import Value

_UNIONS = (typing.Union, types.UnionType)


class Kind(enum.Enum):
    """What a field holds."""

    TENSOR = enum.auto()  #: a tensor
    COLLECTION = enum.auto()  #: a record or another collection
    OBJECT = enum.auto()  #: an object, stored as non-tensor data
    ANY = enum.auto()  #: whatever the value is


class Unresolved(Exception):
    """A string annotation that names something not defined yet."""


class FieldSpec:
    """One field: its name, kind and types, found out from its annotation.

    A string annotation may name a class that is defined later, or this very class; it is then looked at again when the
    first value comes.
    """

    __slots__ = ("_annotation", "_kind", "_module", "_options", "name", "optional", "owner", "types")

    def __init__(
        self,
        owner: str,
        name: str,
        annotation: Any,
        module: str,
        scope: Mapping[str, Any],
        options: Mapping[str, Any],
        optional: bool,
    ) -> None:
        self.owner = owner
        self.name = name
        self.optional = optional
        self.types: tuple[type, ...] = ()
        self._annotation = annotation
        self._module = module
        self._options = options
        self._kind: Kind | None = None
        try:
            self._resolve(scope)
        except Unresolved:
            pass

    @property
    def kind(self) -> Kind | None:
        """What the field holds; ``None`` while its annotation names what is not defined yet."""
        return self._kind

    def _resolve(self, scope: Mapping[str, Any]) -> None:
        module = sys.modules.get(self._module)
        space = dict(vars(module)) if module is not None and scope else vars(module) if module is not None else {}
        kind, self.types, optional = classify(self._annotation, space, scope)
        if self._options["tensor_only"] and kind in (Kind.OBJECT, Kind.ANY):
            kind, self.types = Kind.TENSOR, (Tensor,)
        self._kind = kind
        self.optional = self.optional or optional

    def _known_kind(self, record: TensorClass) -> Kind:
        if self._kind is None:
            try:
                self._resolve({type(record).__name__: type(record)})
            except Unresolved:
                # it stays unknown (a class local to a function that has returned): the value decides
                self._kind = Kind.ANY
        assert self._kind is not None
        return self._kind

    # -- entering -----------------------------------------------------------------------------------------------------

    def fit(self, record: TensorClass, value: Any, non_blocking: bool = False) -> Value:
        """What the record stores for a value that is not ``None``.

        Raises:
            TypeError: the value is not what the annotation says.
            RuntimeError: it does not have the record's batch size in front.
        """
        kind = self._kind or self._known_kind(record)
        if kind is Kind.TENSOR:
            return self._fit_tensor(record, value, non_blocking)
        if kind is Kind.COLLECTION:
            return self._fit_collection(record, value, non_blocking)
        if isinstance(value, NonTensorDataBase):
            for item in value._objects:
                if kind is Kind.OBJECT and not self._is_object(item):
                    raise self.mismatch(item)
            return values.fit_collection(record, self.name, value, non_blocking)
        if kind is Kind.ANY and not self._options["nocast"] and isinstance(value, (np.ndarray, np.generic)):
            return values.fit(record, self.name, value, non_blocking)
        if kind is Kind.ANY and isinstance(value, (Tensor, TensorCollection)):
            return values.fit(record, self.name, value, non_blocking)
        return self._fit_object(record, value, kind)

    def _fit_tensor(self, record: TensorClass, value: Any, non_blocking: bool) -> Value:
        if not isinstance(value, Tensor):
            tensor = None if self._options["nocast"] else values.as_tensor(value, record._device)
            if tensor is None:
                raise self.mismatch(value)
            value = tensor
        return values.fit(record, self.name, value, non_blocking)

    def _fit_collection(self, record: TensorClass, value: Any, non_blocking: bool) -> Value:
        if not isinstance(value, self.types):
            target = self.types[0]
            assert issubclass(target, TensorCollection)
            if isinstance(value, TensorCollection) and value._is_tree():
                if issubclass(target, TensorDict):
                    value = TensorDict._of(value, value._store)
                else:
                    value = target._from_mapping(value._store, value._batch_size, value._device, None)
            elif isinstance(value, Mapping):
                concrete = target if target is not TensorCollection else TensorDict
                value = concrete._from_mapping(value, record._batch_size, record._device, None)
            else:
                raise self.mismatch(value)
        return values.fit_collection(record, self.name, value, non_blocking)

    def _fit_object(self, record: TensorClass, value: Any, kind: Kind) -> Value:
        size = record._batch_size
        if kind is Kind.OBJECT and not self._is_object(value):
            if isinstance(value, list) and size and len(value) == size[0] and self._are_objects(value):
                return values.fit_collection(record, self.name, NonTensorStack.from_list(value), False)
            if not self._options["autocast"] or isinstance(value, TensorCollection):
                raise self.mismatch(value)
            try:
                value = self.types[0](value)
            except (TypeError, ValueError) as error:
                raise self.mismatch(value, f" ({error})") from None
        result = NonTensorData(value, batch_size=size, device=record._device)
        result._names = record._names
        return result

    def _is_object(self, value: Any) -> bool:
        if not self.types or isinstance(value, self.types):
            return not isinstance(value, (Tensor, TensorCollection)) or bool(self.types)
        # a number of a narrower kind stands for one of a wider kind, as in type checkers
        return (float in self.types and type(value) is int) or (
            complex in self.types and isinstance(value, (int, float)) and not isinstance(value, bool)
        )

    def _are_objects(self, items: list[Any]) -> bool:
        return all(self._are_objects(item) if isinstance(item, list) else self._is_object(item) for item in items)

    def mismatch(self, value: Any, why: str = "") -> TypeError:
        """The error for a value that is not what the annotation says."""
        expected = self._annotation if isinstance(self._annotation, str) else _shown(self._annotation)
        got = f"{type(value).__name__}" + (f" {value!r}" if len(repr(value)) < 40 else "")
        return TypeError(
            f"{self.owner}.{self.name}: expected {expected}, got {got}{why}; give it that type, or change the annotation "
            "of the field"
        )


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not hasattr(annotation, "__args__") else str(annotation)


def classify(annotation: Any, space: Mapping[str, Any], scope: Mapping[str, Any]) -> tuple[Kind, tuple[type, ...], bool]:
    """Kind, classes and whether ``None`` is allowed, for an annotation.

    Args:
        annotation: the annotation, as an object or as text.
        space: the names of the module in which it stands.
        scope: further names: those of the function around the class, and of the class itself.

    >>> classify(Tensor | None, {}, {})
    (<Kind.TENSOR: 1>, (<class 'torch.Tensor'>,), True)
    """
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, dict(space), dict(scope))  # the same text that Python itself would evaluate
        except (NameError, AttributeError):
            raise Unresolved from None
        except TypeError:  # an expression that this Python version cannot evaluate, such as "X | None" on strings
            return Kind.ANY, (), True
        return classify(annotation, space, scope)
    if annotation is None or annotation is type(None):
        return Kind.OBJECT, (type(None),), True
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return classify(typing.get_args(annotation)[0], space, scope)
    if origin in (typing.Final, typing.ClassVar):
        return classify(typing.get_args(annotation)[0], space, scope)
    if origin in _UNIONS:
        return _union([classify(part, space, scope) for part in typing.get_args(annotation)])
    if isinstance(annotation, type) and origin is None:
        array = getattr(annotation, "array_type", None)  # jaxtyping: Float[Tensor, "..."] knows the class it describes
        if isinstance(array, type) and issubclass(array, Tensor):
            return Kind.TENSOR, (array,), False
        if issubclass(annotation, Tensor):
            return Kind.TENSOR, (annotation,), False
        if issubclass(annotation, NonTensorDataBase):
            return Kind.ANY, (), True
        if issubclass(annotation, TensorCollection):
            return Kind.COLLECTION, (annotation,), False
        if annotation is builtins.object:
            return Kind.ANY, (), True
        return Kind.OBJECT, (annotation,) if _checkable(annotation) else (), False
    if isinstance(origin, type):
        if issubclass(origin, TensorCollection):
            return Kind.COLLECTION, (origin,), False
        return Kind.OBJECT, (origin,) if _checkable(origin) else (), False
    if origin is typing.Literal:
        return Kind.OBJECT, tuple({type(value) for value in typing.get_args(annotation)}), None in typing.get_args(annotation)
    supertype = getattr(annotation, "__supertype__", None)  # NewType
    if supertype is not None:
        return classify(supertype, space, scope)
    return Kind.ANY, (), True  # Any, type variables


def _union(parts: list[tuple[Kind, tuple[type, ...], bool]]) -> tuple[Kind, tuple[type, ...], bool]:
    optional = any(is_optional for _, _, is_optional in parts)
    rest = [(kind, classes) for kind, classes, _ in parts if classes != (type(None),)]
    kinds = {kind for kind, _ in rest}
    if len(kinds) == 1 and Kind.ANY not in kinds:
        classes = tuple(cls for _, known in rest for cls in known)
        return kinds.pop(), () if any(not known for _, known in rest) else classes, optional
    return Kind.ANY, (), optional


def _checkable(cls: type) -> bool:
    """Whether ``isinstance(x, cls)`` is allowed."""
    try:
        isinstance(None, cls)
    except TypeError:  # a protocol that is not for run time
        return False
    return True
