"""Devices, dtypes, copies and gradients: operations that keep every shape."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypedDict, TypeVar, cast, overload
from weakref import ref

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self, Unpack

from .attributes import Attributes
from .collection import Collection, DeviceLike, as_device
from .consolidated import moved_at_once
from .context import CAST

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store

R = TypeVar("R", covariant=True)
#: called with the key, always as a tuple, and the tensor
CastFilter: TypeAlias = Callable[[Any, Tensor], builtins.bool]


C = TypeVar("C", bound="Devices")


class MoveOptions(TypedDict, total=False):
    """What ``cpu`` and ``cuda`` pass on to ``to``."""

    dtype: torch.dtype | None
    non_blocking: bool | None
    copy: bool
    memory_format: torch.memory_format | None
    batch_size: Sequence[int] | None
    cast_filter: CastFilter | None
    non_blocking_pin: bool
    num_threads: int | None
    inplace: bool


class BoundCast(Protocol[R]):
    def __call__(self, *, cast_filter: CastFilter | None = None) -> R: ...


class Cast(Protocol):
    """``data.float()`` and its kin."""

    def __get__(self, instance: C, owner: Any) -> BoundCast[C]: ...


def _cast(name: str, dtype: torch.dtype) -> Cast:
    """The method that casts to one dtype."""

    def method(self: Devices, *, cast_filter: CastFilter | None = None) -> Devices:
        return self.type(dtype, cast_filter=cast_filter)

    method.__name__ = name
    method.__qualname__ = f"Devices.{name}"
    method.__doc__ = f"The values as ``{dtype}``; only those for which ``cast_filter(key, tensor)`` is true, if given."
    return cast("Cast", method)


class Devices(Collection):
    """``to`` and its kin, ``clone``, ``detach``, ``requires_grad_``, ``data``, ``grad``."""

    __slots__ = ()

    #: whether a cast to a floating or complex dtype casts integers and booleans too
    _CASTS_INTEGERS: ClassVar[builtins.bool] = True

    # -- copies -------------------------------------------------------------------------------------------------------

    def clone(
        self, recurse: builtins.bool = True, *, memory_format: torch.memory_format = torch.preserve_format
    ) -> Self:
        """A copy: of the tensors too, or with ``recurse=False`` only of the collections, sharing the tensors."""
        if not recurse:
            return self._shallow()
        return self._same({key: value.clone(memory_format=memory_format) for key, value in self._store.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        new = self._same({})
        memo[id(self)] = new
        for key, value in self._store.items():
            new._store[key] = copy.deepcopy(value, memo)
        return new

    # -- to -----------------------------------------------------------------------------------------------------------

    @overload
    def to(
        self,
        device: DeviceLike | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: builtins.bool | None = None,
        *,
        copy: builtins.bool = ...,
        memory_format: torch.memory_format | None = ...,
        batch_size: Sequence[int] | None = ...,
        cast_filter: CastFilter | None = ...,
        non_blocking_pin: builtins.bool = ...,
        num_threads: int | None = ...,
        inplace: builtins.bool = ...,
    ) -> Self: ...
    @overload
    def to(
        self,
        dtype: torch.dtype,
        non_blocking: builtins.bool | None = None,
        *,
        device: DeviceLike | None = None,
        copy: builtins.bool = ...,
        memory_format: torch.memory_format | None = ...,
        batch_size: Sequence[int] | None = ...,
        cast_filter: CastFilter | None = ...,
        non_blocking_pin: builtins.bool = ...,
        num_threads: int | None = ...,
        inplace: builtins.bool = ...,
    ) -> Self: ...
    @overload
    def to(
        self,
        other: Tensor | Collection,
        non_blocking: builtins.bool | None = None,
        *,
        device: DeviceLike | None = None,
        dtype: torch.dtype | None = None,
        copy: builtins.bool = ...,
        memory_format: torch.memory_format | None = ...,
        batch_size: Sequence[int] | None = ...,
        cast_filter: CastFilter | None = ...,
        non_blocking_pin: builtins.bool = ...,
        num_threads: int | None = ...,
        inplace: builtins.bool = ...,
    ) -> Self: ...
    def to(  # pyright: ignore[reportInconsistentOverload]  # what is given by position is sorted out by its type
        self,
        *args: Any,
        device: Any = None,
        dtype: torch.dtype | None = None,
        non_blocking: builtins.bool | None = None,
        copy: builtins.bool = False,
        memory_format: torch.memory_format | None = None,
        batch_size: Sequence[int] | None = None,
        other: Any = None,
        cast_filter: CastFilter | None = None,
        non_blocking_pin: builtins.bool = False,
        num_threads: int | None = None,
        inplace: builtins.bool = False,
    ) -> Self:
        """The values on another device, of another dtype, or both.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(other)`` with a tensor (its device and dtype) or a
        collection (its device, and the dtype that all its tensors share, if there is one), and the same by keyword.
        ``to(data.attrs())`` gives each tensor the device and the dtype of the one under its key in ``data``.

        Args:
            device: where to; the result has it as its device.
            dtype: of all tensors; in a record, where it is floating or complex, of those that are so already.
            non_blocking: ``True`` does not wait for the transfer, where the memory allows that.
            copy: copy tensors that would come as they are.
            memory_format: of the tensors.
            batch_size: another batch size for the result.
            other: a tensor or a collection to be like.
            cast_filter: called with key (a tuple) and tensor, whether the tensor is cast; the others are only moved.
            non_blocking_pin: put the tensors into page-locked memory first, from which transfers run by themselves.
            num_threads: how many threads do that.
            inplace: replace the values of this collection.

        Returns:
            This collection itself when nothing changes.
        """
        if inplace or non_blocking_pin or cast_filter is not None:
            source: Any = self.pin_memory(num_threads) if non_blocking_pin else self
            if cast_filter is not None:
                likes: list[Any] = [arg for arg in (other, *args) if isinstance(arg, Tensor)]
                dtypes = [arg for arg in (dtype, *args) if isinstance(arg, torch.dtype)]
                if dtypes or likes:
                    source = source.type(dtypes[0] if dtypes else likes[0].dtype, cast_filter=cast_filter)
                args = tuple([arg for arg in args if not isinstance(arg, (torch.dtype, Tensor))])
                dtype = None
                if likes:
                    device, other = likes[0].device if device is None else device, None
            moved: Self = source.to(
                *args, device=device, dtype=dtype, non_blocking=non_blocking, copy=copy, memory_format=memory_format,
                batch_size=batch_size, other=other,
            )  # fmt: skip
            if inplace:
                return self._take_values(moved)
            if moved is not self:
                moved._context = ((), CAST, ref(self))
            return moved
        for arg in args:
            if isinstance(arg, torch.dtype):
                dtype = arg
            elif isinstance(arg, (torch.device, str, int)) and not isinstance(arg, bool):
                device = arg
            elif isinstance(arg, (Tensor, Collection)):
                other = arg
            elif isinstance(arg, bool):
                non_blocking = arg
            elif arg is not None:
                raise TypeError(
                    f"to: expected a device, a dtype, a tensor or a collection, got {arg!r} ({type(arg).__name__})"
                )
        if isinstance(other, Tensor):
            device, dtype = device or other.device, dtype or other.dtype
        elif isinstance(other, Devices):
            if _is_described(other):
                result = self._as_described(other, bool(non_blocking))
                result._context = ((), CAST, ref(self))
                return result
            device, dtype = device or other._device, dtype or other.dtype
        target = as_device(device)
        if target is not None and dtype is None and memory_format is None and not copy and batch_size is None:
            if target == self._device:
                return self
            there: Self = self if is_dynamo_compiling() else moved_at_once(self, target, bool(non_blocking))
            result = there._placed(target, bool(non_blocking))
            result._context = ((), CAST, ref(self))
            return result
        if dtype is None and memory_format is None and not copy and (target is None or target == self._device):
            result = self
        else:
            result = self._moved(target, dtype, bool(non_blocking), copy, memory_format)
        if batch_size is not None:
            result = result._shallow() if result is self else result
            result._set_batch_size(batch_size)
        if result is not self:
            result._context = ((), CAST, ref(self))
        return result

    def _as_described(self, attrs: Any, non_blocking: builtins.bool) -> Self:
        """Each tensor on the device and of the dtype that ``attrs()`` of another collection says under its key."""
        store: Store = {}
        for key, value in self._store.items():
            wanted = attrs._store.get(key)
            if wanted is None:
                store[key] = value
            elif isinstance(value, Devices):
                store[key] = value._as_described(wanted, non_blocking) if value._is_tree() else value
            else:
                options = {name: wanted.get_non_tensor(f"tgt_{name}", None) for name in ("device", "dtype")}
                options = {name: option for name, option in options.items() if option is not None}
                store[key] = value.to(**options, non_blocking=non_blocking)
        result = self._on(store, None)
        if self._device is not None and all(leaf.device == self._device for leaf in result._leaves()):
            result._device = self._device
        return result

    def _placed(self, device: torch.device, non_blocking: builtins.bool, /) -> Self:
        """The values on a device; tensors that are there already need no call."""
        return self._on(
            {
                key: value if value.device == device else value.to(device, non_blocking=non_blocking)
                for key, value in self._store.items()
            },
            device,
        )

    def _moved(
        self,
        device: torch.device | None,
        dtype: torch.dtype | None,
        non_blocking: builtins.bool,
        copy: builtins.bool,
        memory_format: torch.memory_format | None,
        numbers: builtins.bool = True,
        /,
    ) -> Self:
        """The values elsewhere, of another dtype, or both; integers and booleans keep theirs without ``numbers``."""
        if dtype is not None and not (numbers and self._CASTS_INTEGERS) and _is_inexact(dtype):
            return self._moved_inexact(device, dtype, non_blocking, copy, memory_format)
        if device is None and not copy and memory_format is None:
            return self._same({key: value.to(dtype) for key, value in self._store.items()})
        kwargs: dict[str, Any] = {"non_blocking": non_blocking, "copy": copy}
        if device is not None:
            kwargs["device"] = device
        if dtype is not None:
            kwargs["dtype"] = dtype
        if memory_format is not None:
            kwargs["memory_format"] = memory_format
        store = {key: value.to(**kwargs) for key, value in self._store.items()}
        return self._on(store, self._device if device is None else device)

    def _moved_inexact(
        self,
        device: torch.device | None,
        dtype: torch.dtype,
        non_blocking: builtins.bool,
        copy: builtins.bool,
        memory_format: torch.memory_format | None,
    ) -> Self:
        """:meth:`_moved`, where only tensors of floating or complex dtypes take the dtype, at all levels below."""
        moves = device is not None or copy or memory_format is not None
        kwargs: dict[str, Any] = {"non_blocking": non_blocking, "copy": copy}
        if device is not None:
            kwargs["device"] = device
        if memory_format is not None:
            kwargs["memory_format"] = memory_format
        store: Store = {}
        for key, value in self._store.items():
            if isinstance(value, Devices):
                store[key] = value._moved(device, dtype, non_blocking, copy, memory_format, False)
            elif value.is_floating_point() or value.is_complex():
                store[key] = value.to(dtype=dtype, **kwargs) if moves else value.to(dtype)
            else:
                store[key] = value.to(**kwargs) if moves else value
        return self._on(store, self._device if device is None else device)

    def _take_values(self, source: Collection) -> Self:
        """Replaces the values by those of a collection with the same keys, at every level, and takes its device."""
        if source is not self:
            self._check_unlocked()
            for key, value in source._store.items():
                current = self._store.get(key)
                if isinstance(current, Devices) and isinstance(value, Collection) and current._is_tree():
                    current._take_values(value)
                else:
                    self._store[key] = value
            self._batch_size, self._device = source._batch_size, source._device
        return self

    def cpu(self, **kwargs: Unpack[MoveOptions]) -> Self:
        """The values in main memory; see :meth:`to` for more arguments."""
        return self.to("cpu", **kwargs)

    def cuda(self, device: DeviceLike | None = None, **kwargs: Unpack[MoveOptions]) -> Self:
        """The values on a CUDA device, the current one by default; see :meth:`to` for more arguments."""
        target = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
        return self.to(target, **kwargs)

    def pin_memory(self, num_threads: int | None = None, inplace: builtins.bool = False) -> Self:
        """The values in page-locked memory, from which transfers to an accelerator can run by themselves."""
        pinned = _in_threads(list(self._leaves()), Tensor.pin_memory, num_threads or 0)
        if not inplace:
            return self._with_leaves(iter(pinned))
        for leaf, new in zip(self._leaves(), pinned, strict=True):
            leaf.data = new
        return self

    def pin_memory_(self, num_threads: int = 0) -> Self:
        """:meth:`pin_memory` in place."""
        return self.pin_memory(num_threads, inplace=True)

    def record_stream(self, stream: torch.Stream) -> Self:
        """Tells the allocator that a CUDA stream uses the tensors, so that their memory is not given away before."""
        for leaf in self._leaves():
            leaf.record_stream(stream)
        return self

    def as_tensor(self) -> Self:
        """The values as plain tensors, sharing memory: what lies in a file is read as a tensor on the same bytes."""
        store: Store = {}
        for key, value in self._store.items():
            plain = getattr(value, "as_tensor", None)
            store[key] = value if plain is None else plain()
        return self._same(store)

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the device is a CUDA device."""
        return self._device is not None and self._device.type == "cuda"

    @property
    def is_cpu(self) -> builtins.bool:
        """Whether the device is the CPU."""
        return self._device is not None and self._device.type == "cpu"

    @property
    def is_meta(self) -> builtins.bool:
        """Whether the device is ``meta``: shapes and dtypes without memory."""
        return self._device is not None and self._device.type == "meta"

    def auto_device_(self) -> Self:
        """Sets the device to that of the values, if all of them share one."""
        devices = {leaf.device for leaf in self._leaves()}
        if len(devices) == 1:
            self._set_device(devices.pop())
        return self

    def _set_device(self, device: torch.device) -> None:
        self._device = device
        for value in self._store.values():
            if isinstance(value, Devices):
                value._set_device(device)

    # -- dtypes -------------------------------------------------------------------------------------------------------

    def type(self, dst_type: torch.dtype, *, cast_filter: CastFilter | None = None) -> Self:
        """The values in another dtype; only those for which ``cast_filter(key, tensor)`` is true, if it is given."""
        if cast_filter is None:
            if not self._CASTS_INTEGERS and _is_inexact(dtype := _as_dtype(dst_type)):
                store: Store = {}
                for key, value in self._store.items():
                    if isinstance(value, Devices):
                        store[key] = value._moved(None, dtype, False, False, None, False)
                    else:  # torch is faster with type() than with to()
                        store[key] = value.type(dtype) if value.is_floating_point() or value.is_complex() else value
                return self._same(store)
            return self._same({key: value.type(dst_type) for key, value in self._store.items()})
        return self._filtered_cast(dst_type, cast_filter, ())

    def _filtered_cast(self, dtype: torch.dtype, cast_filter: CastFilter, path: tuple[str, ...]) -> Self:
        store: Store = {}
        for key, value in self._store.items():
            if isinstance(value, Devices):
                store[key] = value._filtered_cast(dtype, cast_filter, (*path, key))
            else:
                store[key] = value.to(dtype) if cast_filter((*path, key), value) else value
        return self._same(store)

    double: Cast = _cast("double", torch.float64)
    float: Cast = _cast("float", torch.float32)
    half: Cast = _cast("half", torch.float16)
    int: Cast = _cast("int", torch.int32)
    bool: Cast = _cast("bool", torch.bool)
    bfloat16: Cast = _cast("bfloat16", torch.bfloat16)
    float16: Cast = _cast("float16", torch.float16)
    float32: Cast = _cast("float32", torch.float32)
    float64: Cast = _cast("float64", torch.float64)
    int8: Cast = _cast("int8", torch.int8)
    int16: Cast = _cast("int16", torch.int16)
    int32: Cast = _cast("int32", torch.int32)
    int64: Cast = _cast("int64", torch.int64)
    qint8: Cast = _cast("qint8", torch.qint8)
    qint32: Cast = _cast("qint32", torch.qint32)
    quint8: Cast = _cast("quint8", torch.quint8)
    quint4x2: Cast = _cast("quint4x2", torch.quint4x2)
    uint8: Cast = _cast("uint8", torch.uint8)
    uint16: Cast = _cast("uint16", torch.uint16)
    uint32: Cast = _cast("uint32", torch.uint32)
    uint64: Cast = _cast("uint64", torch.uint64)
    complex32: Cast = _cast("complex32", torch.complex32)
    complex64: Cast = _cast("complex64", torch.complex64)
    complex128: Cast = _cast("complex128", torch.complex128)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that all tensors share; ``None`` when they differ or there is none."""
        dtypes = {leaf.dtype for leaf in self._leaves()}
        return dtypes.pop() if len(dtypes) == 1 else None

    def is_floating_point(self) -> builtins.bool:
        """Whether all tensors are of a floating point dtype."""
        return all(leaf.is_floating_point() for leaf in self._leaves())

    # -- gradients ----------------------------------------------------------------------------------------------------

    def detach(self) -> Self:
        """The values without their history of operations, sharing memory."""
        return self._same({key: value.detach() for key, value in self._store.items()})

    def detach_(self) -> Self:
        """:meth:`detach` in place."""
        leaves = list(self._leaves())
        if not is_dynamo_compiling():
            leaves.sort(key=Tensor._is_view, reverse=True)  # torch refuses those: before any other is detached
        for leaf in leaves:
            leaf.detach_()
        return self

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether a tensor among the values requires gradients."""
        return any(leaf.requires_grad for leaf in self._leaves())

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Self:
        """Sets whether the tensors require gradients."""
        leaves = list(self._leaves())
        if requires_grad:
            for leaf in leaves:
                if not (leaf.is_floating_point() or leaf.is_complex()):
                    torch.empty(0, dtype=leaf.dtype).requires_grad_()  # its error, before the first tensor is changed
        before = [leaf.requires_grad for leaf in leaves]
        try:
            for leaf in leaves:
                leaf.requires_grad_(requires_grad)
        except BaseException:
            for leaf, was in zip(leaves, before, strict=True):
                if leaf.requires_grad is not was:
                    leaf.requires_grad_(was)
            raise
        return self

    @property
    def data(self) -> Self:
        """The values as ``tensor.data`` gives them: sharing memory, unknown to autograd."""
        return self._plain()

    @data.setter
    def data(self, value: Collection) -> None:
        self._assign("data", value)

    def _assign(self, what: str, values: Collection) -> None:
        """Sets an attribute of each tensor."""
        for leaf, new in _pairs(self, values, what):
            setattr(leaf, what, new)

    def _plain(self) -> Self:
        # not through the property: non-tensor data has another one of this name
        return self._same(
            {key: value.data if isinstance(value, Tensor) else value._plain() for key, value in self._store.items()}
        )

    @property
    def grad(self) -> Self | None:
        """The gradients, for the values that have one; ``None`` when no value has."""
        store: Store = {}
        found = False
        for key, value in self._store.items():
            if isinstance(value, Devices) and not value._is_tree() and value._held() is None:
                store[key] = value
            elif (gradient := value.grad) is not None:
                store[key] = gradient
                found = True
        return self._same(store) if found else None

    @grad.setter
    def grad(self, value: Collection | None) -> None:
        if value is None:
            self.zero_grad()
            return
        self._assign("grad", value)

    def backward(
        self,
        gradient: TensorCollection | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Collection | Sequence[Tensor] | None = None,
    ) -> None:
        """Computes the gradients of all values in one pass, as ``torch.Tensor.backward`` does of one.

        Args:
            gradient: a collection with the gradient of each value that requires one; values of one number need none.
            retain_graph: keep what is needed to go backward once more.
            create_graph: make the gradients differentiable themselves.
            inputs: the tensors, or a collection of those, to compute gradients for; all that led here by default.

        Raises:
            RuntimeError: no value requires gradients; or one is not a single number and there is no ``gradient``.
            KeyError: ``gradient`` lacks a value.

        >>> from tensorclass import TensorDict
        >>> weights = TensorDict({"a": torch.ones(2), "b": torch.ones(())}).requires_grad_()
        >>> (weights * 3).sum().backward()
        >>> weights.grad["a"]
        tensor([3., 3.])
        """
        tensors: list[Tensor] = []
        gradients: list[Tensor | None] = []
        for path, leaf in self._named_leaves():
            if not leaf.requires_grad:
                continue
            given: Any = None
            if gradient is not None:
                given = gradient.get(path)
                if given is None:
                    raise KeyError(f"backward: the gradient lacks the key {'.'.join(path)!r}")
            elif leaf.numel() != 1:
                raise RuntimeError(
                    f"backward: {'.'.join(path)!r} has shape {list(leaf.shape)}; give gradient= a collection like this "
                    "one, or reduce the values to single numbers first, for instance with .sum()"
                )
            tensors.append(leaf)
            gradients.append(given)
        if not tensors:
            raise RuntimeError("backward: no value requires gradients")
        targets: Any = list(inputs._leaves()) if isinstance(inputs, Collection) else inputs
        torch.autograd.backward(tensors, gradients, retain_graph, create_graph, inputs=targets)

    def zero_grad(self, set_to_none: builtins.bool = True) -> Self:
        """Forgets the gradients of the values, or sets them to zero."""
        for leaf in self._leaves():
            if leaf.grad is None:
                continue
            if set_to_none:
                leaf.grad = None
            else:
                leaf.grad.detach_().zero_()
        return self


def _is_inexact(dtype: torch.dtype) -> builtins.bool:
    """Return whether a dtype is floating or complex."""
    return dtype.is_floating_point or dtype.is_complex


def _as_dtype(given: Any) -> torch.dtype:
    """The dtype that ``Tensor.type`` is given, which takes ``"torch.HalfTensor"`` and ``torch.HalfTensor`` as well."""
    if isinstance(given, torch.dtype):
        return given
    return cast("Tensor", torch.empty(0).type(given)).dtype


def _pairs(owner: Collection, values: Collection, what: str) -> Iterable[tuple[Tensor, Tensor]]:
    if not isinstance(values, Collection):
        raise TypeError(f"{what}: expected a collection, got a {type(values).__name__}")
    from .foreach import aligned

    return zip(list(owner._leaves()), list(aligned(owner, values)), strict=True)


def _is_described(collection: Collection) -> builtins.bool:
    """Whether a collection is what ``attrs()`` gives."""
    made: Any = getattr(Attributes, "_described", None)
    if made is None:
        return False
    for value in collection._store.values():
        if type(value) is made or (isinstance(value, Collection) and value._is_tree() and _is_described(value)):
            return True
    return False


def _in_threads(tensors: list[Tensor], function: Callable[[Tensor], Tensor], num_threads: int) -> list[Tensor]:
    if num_threads <= 1:
        return [function(tensor) for tensor in tensors]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(function, tensors))
