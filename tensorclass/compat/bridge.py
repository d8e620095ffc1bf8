"""Collections of PyTorch's ``tensordict`` package, and back. Tensors are shared in both directions.

A collection of one package becomes the same kind of collection of the other: nested ones, lazy stacks, non-tensor data,
parameters and records, with their batch size, device, names and lock. Keys that are set later in one of the two are not
set in the other; values written in place are seen in both.
"""

from __future__ import annotations

import dataclasses
import sys
import weakref
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionKwargs
from tensorclass.convert.converter_registry import converter_of
from tensorclass.nn import TensorDictParams
from tensorclass.records.record import TensorClass
from tensorclass.support.extras import require
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.leaves.nontensor import MetaData, NonTensorData, NonTensorStack
from tensorclass.td.leaves.unbatched_tensor import UnbatchedTensor
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked, LazyStackedTensorDict
from tensorclass.td.stores.write_back import WrittenBack
from tensorclass.td.tensordict import TensorDict

METHODS_OF = "PythonObjects"

C = TypeVar("C", bound=TensorCollection)

#: the record class made for each record class of the other package, and the other way
_RECORDS: weakref.WeakKeyDictionary[type, type[TensorClass]] = weakref.WeakKeyDictionary()
_THEIR_RECORDS: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def from_pytorch_tensordict(cls: type[C], source: Any, **kwargs: Unpack[ConversionKwargs]) -> Any:
    """Take over a collection of PyTorch's ``tensordict`` package. Tensors are shared.

    Lazy stacks, non-tensor data, parameters, names, locks and files of memory maps stay what they are. A record of
    that package becomes one of a class with the same fields, made once; called on a record class, it becomes a
    record of this class. :meth:`from_any` does the same.

    Args:
        source: the collection or record.
        auto_batch_size: infer the batch size, at every level, from the leading dimensions that all values share.
        ConversionKwargs: batch_dims, device
        batch_size: the batch size; by default that of the source.
        strict: with ``False``, drop keys that are not fields of a record, at every level, and warn about them. By
            default they are an error.

    Returns:
        A collection of the same kind, or a record of this class. Writes in place are seen in both; keys that are set
        later in one of them are not.

    Raises:
        TypeError: the source is no collection of ``tensordict``, or reads from a file of HDF5 or zarr.
        ConversionError: the source does not fit the fields of a record. Lists everything that is wrong.

    Example:
        >>> import torch
        >>> import tensordict
        >>> from tensorclass import TensorClass
        >>> class Step(TensorClass):
        ...     reward: torch.Tensor
        >>> theirs = tensordict.TensorDict({"reward": torch.zeros(3)}, [3])
        >>> step = Step.from_pytorch_tensordict(theirs)
        >>> step.reward += 1
        >>> theirs["reward"], step.batch_size
        (tensor([1., 1., 1.]), torch.Size([3]))
    """
    if not _is_theirs(source):
        raise TypeError(
            f"{class_name(cls)}.from_pytorch_tensordict: expected a collection of the package tensordict, got a "
            f"{type(source).__module__}.{type_name(source)}"
        )
    made: Any = cls
    return made.from_any(as_ours(source), **kwargs)


def to_pytorch_tensordict(self: TensorCollection, *, untyped: bool = False) -> Any:
    """Return a collection of PyTorch's ``tensordict`` package, for libraries that ask for one. Tensors are shared.

    Lazy stacks, non-tensor data, parameters, names, locks and files of memory maps stay what they are. A record
    becomes a ``tensordict.tensorclass`` with the same fields, made once for each class. Rows of :class:`Text` and
    :class:`Column` become a stack of objects, :class:`Ragged` becomes torch's jagged tensor.

    Args:
        untyped: records become a ``tensordict.TensorDict``, to which modules can add keys that the class does not
            declare. Default: ``False``.

    Returns:
        The collection. :meth:`from_pytorch_tensordict` and :meth:`from_any` are the way back.

    Raises:
        TypeError: the collection, or one in it, reads from a file of HDF5 or zarr.
        ImportError: ``tensordict`` is not installed.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": torch.zeros(3)}, [3], names=["time"])
        >>> theirs = data.to_pytorch_tensordict()
        >>> type(theirs).__module__.split(".")[0], theirs.names, theirs["a"] is data["a"]
        ('tensordict', ['time'], True)
    """
    return _Theirs(require("tensordict", "tensordict", "to_pytorch_tensordict"), untyped).value(self)


def _is_theirs(value: object) -> bool:
    converter = converter_of(value)
    return converter is not None and converter.package == "tensordict"


# -- from the other package -------------------------------------------------------------------------------------------


def as_ours(source: Any) -> Any:
    """Return the collection of this package with the values of one of the other package."""
    theirs: Any = sys.modules["tensordict"]
    if isinstance(source, theirs.NonTensorStack):
        return _named(
            NonTensorStack(
                *[as_ours(part) for part in source.tensordicts], stack_dim=source.stack_dim, device=source.device
            ),
            source,
        )
    if isinstance(source, theirs.NonTensorDataBase):
        kind = MetaData if isinstance(source, theirs.MetaData) else NonTensorData
        return kind(source.data, batch_size=source.batch_size, device=source.device)
    if isinstance(source, theirs.UnbatchedTensor):
        return UnbatchedTensor(source.data.as_subclass(Tensor), batch_size=source.batch_size)
    if isinstance(source, Tensor):
        return _our_tensor(source)
    if not _is_theirs(source):
        return source
    if isinstance(source, theirs.PersistentTensorDict):
        raise TypeError(
            "from_pytorch_tensordict: a PersistentTensorDict reads copies of its values from a file; open the file "
            "with tensorclass.PersistentTensorDict(filename=...), or convert source.to_tensordict()"
        )
    new: Any
    if isinstance(source, theirs.LazyStackedTensorDict):
        parts = [as_ours(part) for part in source.tensordicts]
        new = LazyStackedTensorDict(*parts, stack_dim=source.stack_dim)
    elif isinstance(source, theirs.TensorDictParams):
        entries: dict[str, Any] = {key: as_ours(value) for key, value in source.items()}
        new = TensorDictParams(TensorDict(entries, source.batch_size), no_convert=True)
    elif theirs.is_tensorclass(source):
        source_class: type = type(source)  # pyright: ignore[reportUnknownVariableType]
        cls = our_record_class(source_class)
        held: dict[str, Any] = dict(source.items())  # without the fields that are None
        values = {one.name: as_ours(held.get(one.name)) for one in dataclasses.fields(source)}
        new = cls._from_mapping(values, source.batch_size, source.device, None)
    else:
        entries = {key: as_ours(source.get(key)) for key in source.keys()}  # noqa: SIM118 (iterates over rows)
        new = TensorDict(entries, source.batch_size, source.device)
    new = _named(new, source)
    return new.lock_() if source.is_locked and not new.is_locked else new


def _named(new: Any, source: Any) -> Any:
    names: list[str | None] = list(source.names) if source.batch_size else []
    if any(name is not None for name in names):
        new.names = names
    return new


def _our_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor. One that holds all of a file keeps its file; a part of it becomes a plain tensor there."""
    theirs: Any = sys.modules["tensordict"]
    if not isinstance(tensor, theirs.MemoryMappedTensor):
        return tensor
    mapped: Any = tensor
    plain: Tensor = mapped.as_subclass(Tensor)
    if not _holds_all(plain):
        return plain
    try:
        filename: str | None = str(mapped.filename)
    except RuntimeError:  # shared memory without a name
        filename = None
    return MemoryMappedTensor._of(plain, filename, "r+", plain.shape)


def _holds_all(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def our_record_class(cls: type) -> type[TensorClass]:
    """Return the record class for a record class of the other package, made once.

    It has the fields, their defaults and the name, not the methods.
    """
    made = _RECORDS.get(cls)
    if made is None:
        made = _record_class_like(cls)
        _RECORDS[cls] = made
        _THEIR_RECORDS.setdefault(made, cls)
    return made


def _record_class_like(cls: type) -> type[TensorClass]:
    namespace = _namespace(cls, {one.name: _our_annotation(one.type) for one in dataclasses.fields(cls)})
    metaclass: Any = type(TensorClass)
    made: type[TensorClass] = metaclass(cls.__name__, (TensorClass,), namespace, shadow=True, stack_objects=True)
    return made


def _namespace(cls: type, annotations: dict[str, Any]) -> dict[str, Any]:
    """Return the namespace of a record class with the name, the fields and the defaults of another one."""
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    defaults = {one.name: default for one in dataclasses.fields(cls) if (default := _default_of(one)) is not None}
    return {**names, "__annotations__": annotations, **defaults}


def _our_annotation(annotation: Any) -> Any:
    """Return the annotation of a field: any value that is no tensor and no record is left open."""
    theirs: Any = sys.modules["tensordict"]
    if annotation in (Tensor, "Tensor", "torch.Tensor"):
        return Tensor | None
    if isinstance(annotation, type) and theirs.is_tensorclass(annotation):
        return our_record_class(annotation) | None
    return Any


def _default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the right-hand side of a field's declaration: its default; ``None`` if it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    if field.default is not dataclasses.MISSING:
        return dataclasses.field(default=field.default)
    return None


# -- to the other package ---------------------------------------------------------------------------------------------


class _Theirs:
    """Makes values of the other package."""

    def __init__(self, package: Any, untyped: bool) -> None:
        self._package = package
        self._untyped = untyped

    def value(self, source: Any) -> Any:
        """Return the value of the other package for one of this package."""
        package = self._package
        content = content_kind(source)
        if content is Content.TENSOR:
            return package.UnbatchedTensor(source._wrapped_tensor(), batch_size=source._batch_size)
        if isinstance(source, Tensor):
            return self._tensor(source)
        if content is Content.RAGGED:
            return source.to_jagged()
        if content is Content.OBJECTS and source._is_uniform:
            kind = package.MetaData if source._KIND == "MetaData" else package.NonTensorData
            return kind(source._unwrapped(), batch_size=source._batch_size, device=source._device)
        if content is Content.TEXT or content is Content.OBJECTS:
            return self._objects(source.tolist(), source._batch_size, source)
        if not isinstance(source, TensorCollection):
            return source
        return self._collection(source)

    def _collection(self, source: Any) -> Any:
        package = self._package
        if isinstance(source, WrittenBack):
            raise TypeError(
                "to_pytorch_tensordict: this collection reads copies of its values, from a file or from rows "
                "of another collection; call to_tensordict() first, or open its file with the package tensordict"
            )
        names = source._names
        new: Any
        if isinstance(source, LazyStacked):
            parts = [self.value(part) for part in source.tensordicts]
            name = None if names is None else names[source.stack_dim]
            return self._locked(
                package.LazyStackedTensorDict(*parts, stack_dim=source.stack_dim, stack_dim_name=name), source
            )
        entries = {key: self.value(value) for key, value in source._now().items()}
        if isinstance(source, TensorDictParams):
            return package.TensorDictParams(package.TensorDict(entries, source._batch_size), no_convert=True)
        new = package.TensorDict(entries, batch_size=source._batch_size, device=source._device, names=names)
        if isinstance(source, TensorClass) and not self._untyped:
            made: Any = self.record_class(type(source))
            new = made.from_tensordict(new)
        return self._locked(new, source)

    def _locked(self, new: Any, source: Any) -> Any:
        return new.lock_() if source._lock is not None else new

    def _tensor(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, MemoryMappedTensor):
            return tensor
        theirs = self._package.MemoryMappedTensor
        if not _holds_all(tensor):
            return cast("Any", tensor).as_subclass(Tensor)  # type: ignore[no-any-return]
        if tensor._filename is None:
            mapped = theirs.from_handler(tensor.handler, tensor.dtype, tensor.shape, None)
        else:
            mapped = theirs.from_filename(tensor._filename, tensor.dtype, tensor.shape, mode=tensor._mode)
        return cast("Tensor", mapped)

    def _objects(self, rows: list[Any], batch_size: torch.Size, source: Any) -> Any:
        """Return the stack of objects of nested lists of rows."""
        package = self._package
        if not batch_size or 0 in batch_size:
            return package.NonTensorData(rows, batch_size=batch_size, device=source._device)
        return package.NonTensorStack(*[self._object(row, batch_size[1:]) for row in rows])

    def _object(self, row: Any, batch_size: torch.Size) -> Any:
        if batch_size:
            return self._package.NonTensorStack(*[self._object(item, batch_size[1:]) for item in row])
        return self._package.NonTensorData(row, batch_size=[])

    def record_class(self, cls: type[TensorClass]) -> type:
        """Return the record class of the other package for a record class, made once: fields, defaults and name."""
        made = _THEIR_RECORDS.get(cls)
        if made is None:
            namespace = _namespace(cls, {one.name: Any for one in dataclasses.fields(cls)})
            made = self._package.tensorclass(type(cls.__name__, (), namespace), shadow=True)
            _THEIR_RECORDS[cls] = cast("type", made)
            _RECORDS[cast("type", made)] = cls
        return cast("type", made)


# -- modules of the other package -------------------------------------------------------------------------------------


class BridgedModule(nn.Module, Generic[C]):
    """A module of PyTorch's ``tensordict`` that takes and returns collections of this package.

    The module gets the same tensors under the same keys. Its parameters are those of the wrapper, and gradients flow
    through. In a pipeline: ``Stage[Sample, Scored](BridgedModule(module, Scored))``.

    Args:
        module: reads keys of a collection and writes others, as a ``tensordict.nn.TensorDictModule`` does.
        output: the class of the result. A record class takes the keys that it declares, ``TensorDict`` takes all.

    Example:
        >>> import torch
        >>> from tensordict.nn import TensorDictModule
        >>> from tensorclass import TensorClass
        >>> from tensorclass.compat import BridgedModule
        >>> class Sample(TensorClass):
        ...     x: torch.Tensor
        >>> class Scored(TensorClass):
        ...     x: torch.Tensor
        ...     score: torch.Tensor
        >>> module = TensorDictModule(torch.nn.Linear(3, 1), in_keys=["x"], out_keys=["score"])
        >>> scored = BridgedModule(module, Scored)(Sample(torch.ones(2, 3), batch_size=[2]))
        >>> type(scored).__name__, scored.score.shape
        ('Scored', torch.Size([2, 1]))
    """

    def __init__(self, module: nn.Module, output: type[C]) -> None:
        super().__init__()
        self.module = module
        self.output = output

    def forward(self, data: TensorCollection) -> C:
        """Call the module.

        Args:
            data: the collection or record with the keys that the module reads. It is not changed.

        Returns:
            A collection of the class ``output``.

        Raises:
            ConversionError: the module's result lacks a field of ``output``, or has values that do not fit.
        """
        result: Any = self.module(to_pytorch_tensordict(data, untyped=True))
        cls: Any = self.output
        if issubclass(cls, TensorClass):
            result = result.select(*cls._specs, strict=False)
        return cast("C", cls.from_any(result))
