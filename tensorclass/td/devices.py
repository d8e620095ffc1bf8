"""Devices, dtypes and copies: operations that keep every shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, overload
from weakref import ref

import torch
from torch import Tensor
from typing_extensions import Self, Unpack

from tensorclass.support.printable import type_name

from . import buffer_operations, native, registry
from .collection import Collection, DeviceLike, as_device
from .context import CAST
from .dtype_casts import CastFilter, Casts, is_inexact
from .hidden_members import member_items, with_members

if TYPE_CHECKING:
    from .collection import Store


class MoveOptions(TypedDict, total=False):
    """The arguments that ``cpu`` and ``cuda`` pass on to ``to``."""

    dtype: torch.dtype | None
    non_blocking: bool | None
    copy: bool
    memory_format: torch.memory_format | None
    batch_size: Sequence[int] | None
    cast_filter: CastFilter | None
    non_blocking_pin: bool
    num_threads: int | None
    inplace: bool


class Devices(Casts):
    """``to`` and its variants, ``clone``, and what concerns page-locked memory and streams."""

    __slots__ = ()

    # -- copies -------------------------------------------------------------------------------------------------------

    def clone(self, recurse: bool = True, *, memory_format: torch.memory_format = torch.preserve_format) -> Self:
        """Return a copy.

        Args:
            recurse: copy the tensors, too. ``False`` copies only the collections, which share the tensors. Default:
                ``True``.
            memory_format: of the copied tensors. Default: that of each tensor.

        Returns:
            A new collection. With ``recurse`` it shares no memory with this one. That of a consolidated collection,
                which is locked, is consolidated, too, unless it is small: its tensors share one buffer, which a
                single one keeps in memory.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> copied = data.clone()
            >>> copied["a"] += 1
            >>> data["a"], data.clone(recurse=False)["a"] is data["a"]
            (tensor([0., 0.]), True)
        """
        if not recurse:
            return self._shallow()
        if memory_format is torch.preserve_format:
            if self._lock is not None and (copied := buffer_operations.cloned(self)) is not None:
                return copied  # type: ignore[no-any-return]
            return self._cloned()
        return self._same({key: value.clone(memory_format=memory_format) for key, value in member_items(self._now())})

    @native.tries("clone")
    def _cloned(self) -> Self:
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.clone()
        return self._same(store)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        new = self._same({})
        memo[id(self)] = new
        for key, value in self._now().items():
            new._store[key] = copy.deepcopy(value, memo)
        return new

    # -- to -----------------------------------------------------------------------------------------------------------

    @overload
    def to(
        self,
        device: DeviceLike | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool | None = None,
        *,
        copy: bool = ...,
        memory_format: torch.memory_format | None = ...,
        batch_size: Sequence[int] | None = ...,
        cast_filter: CastFilter | None = ...,
        non_blocking_pin: bool = ...,
        num_threads: int | None = ...,
        inplace: bool = ...,
    ) -> Self: ...
    @overload
    def to(
        self,
        dtype: torch.dtype,
        non_blocking: bool | None = None,
        *,
        device: DeviceLike | None = None,
        copy: bool = ...,
        memory_format: torch.memory_format | None = ...,
        batch_size: Sequence[int] | None = ...,
        cast_filter: CastFilter | None = ...,
        non_blocking_pin: bool = ...,
        num_threads: int | None = ...,
        inplace: bool = ...,
    ) -> Self: ...
    @overload
    def to(
        self,
        other: Tensor | Collection,
        non_blocking: bool | None = None,
        *,
        device: DeviceLike | None = None,
        dtype: torch.dtype | None = None,
        copy: bool = ...,
        memory_format: torch.memory_format | None = ...,
        batch_size: Sequence[int] | None = ...,
        cast_filter: CastFilter | None = ...,
        non_blocking_pin: bool = ...,
        num_threads: int | None = ...,
        inplace: bool = ...,
    ) -> Self: ...
    @native.tries("to")
    def to(  # pyright: ignore[reportInconsistentOverload]  # positional arguments are told apart by type
        self,
        *args: Any,
        device: Any = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool | None = None,
        copy: bool = False,
        memory_format: torch.memory_format | None = None,
        batch_size: Sequence[int] | None = None,
        other: Any = None,
        cast_filter: CastFilter | None = None,
        non_blocking_pin: bool = False,
        num_threads: int | None = None,
        inplace: bool = False,
    ) -> Self:
        """Return the values on another device, in another dtype, or both.

        The forms are ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(other)`` with a tensor (its device and
        dtype) or a collection (its device, and the dtype that its tensors share, if any), and the same by keyword. With
        ``to(data.attrs())`` each tensor takes the device and the dtype of the tensor under its key in ``data``.

        Args:
            device: the device of the result. Default: unchanged.
            dtype: the dtype of all tensors. Records cast only floating and complex tensors to a floating or complex
                dtype. Default: unchanged.
            non_blocking: do not wait for the transfer, if the memory allows that. Default: ``False``.
            copy: copy also tensors that need no change. Default: ``False``.
            memory_format: the memory format of the tensors. Default: unchanged.
            batch_size: another batch size for the result. Default: unchanged.
            other: a tensor or a collection whose device and dtype are taken.
            cast_filter: called with the key (a tuple) and the tensor, returns whether to cast the tensor; all others
                are only moved.
            non_blocking_pin: copy the tensors to page-locked memory first, from which they transfer asynchronously.
                Default: ``False``.
            num_threads: the number of threads for this copy. Default: none.
            inplace: replace the values of this collection. Default: ``False``.

        Returns:
            A new collection, in which tensors that need no change are shared; this collection if nothing changes or
            ``inplace`` is set.

        Raises:
            TypeError: a positional argument is neither a device nor a dtype, a tensor or a collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2, 3)}, [2])
            >>> moved = data.to("meta", torch.float16)
            >>> moved.device, moved["a"].dtype
            (device(type='meta'), torch.float16)
        """
        device, dtype, non_blocking, other = _arguments(args, device, dtype, bool(non_blocking), other)
        described = None
        if other is None:
            pass
        elif isinstance(other, Tensor):
            device, dtype = device or other.device, dtype or other.dtype
        elif isinstance(other, Devices):
            if _is_described(other):
                described = other
            else:
                device, dtype = device or other._device, dtype or with_members(other).dtype
        source = with_members(self).pin_memory(num_threads) if non_blocking_pin else self
        if cast_filter is not None and dtype is not None:
            source, dtype = with_members(source).type(dtype, cast_filter=cast_filter), None
        target = as_device(device)
        changes_only_place = dtype is None and memory_format is None and not copy
        if described is not None:
            result = source._as_described(described, non_blocking)
        elif target == source._device or target is None:
            result = source if changes_only_place else source._to(target, dtype, non_blocking, copy, memory_format)
        elif changes_only_place and batch_size is None:
            there: Self = buffer_operations.moved(source, target, non_blocking)
            result = there._to_device(target, non_blocking)
            if there is not source:
                buffer_operations.hand_over(there, result)
        else:
            result = source._to(target, dtype, non_blocking, copy, memory_format)
        if batch_size is not None:
            result = result._shallow() if result is source else result
            result._set_batch_size(batch_size)
        return self._take_values(result) if inplace else result._cast_from(self)

    def _cast_from(self, source: Collection) -> Self:
        """Note that a ``with`` statement writes the values back into ``source``, unless this is it."""
        if self is not source:
            self._context = ((), CAST, ref(source))
        return self

    def _as_described(self, attrs: Any, non_blocking: bool) -> Self:
        """Convert each tensor to the device and the dtype that ``attrs()`` of another collection has under its key."""
        store: Store = {}
        for key, value in self._now().items():
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

    def _to_device(self, device: torch.device, non_blocking: bool, /) -> Self:
        """Return the collection on a device. Tensors that are on it already are shared."""
        store = {**self._store}
        for key, value in member_items(store):
            if value.device != device:
                store[key] = value.to(device, non_blocking=non_blocking)
        return self._on(store, device)

    def _to(
        self,
        device: torch.device | None,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool,
        memory_format: torch.memory_format | None,
        numbers: bool = True,
        /,
    ) -> Self:
        """Move the values to a device, cast them, or both. Without ``numbers``, integers and booleans are not cast."""
        if self._lock is not None and dtype is not None and device is None and memory_format is None and not copy:
            made = buffer_operations.cast(self, dtype, numbers and self._CASTS_INTEGERS, "to", "_to")
            if made is not None:
                return made  # type: ignore[no-any-return]
        if dtype is not None and not (numbers and self._CASTS_INTEGERS) and is_inexact(dtype):
            return self._to_inexact(device, dtype, non_blocking, copy, memory_format)
        store = {**self._store}
        if device is None and not copy and memory_format is None:
            for key, value in member_items(store):
                store[key] = value.to(dtype)
            return self._same(store)
        for key, value in member_items(store):
            store[key] = value.to(device, dtype, non_blocking, copy=copy, memory_format=memory_format)
        return self._on(store, self._device if device is None else device)

    def _to_inexact(
        self,
        device: torch.device | None,
        dtype: torch.dtype,
        non_blocking: bool,
        copy: bool,
        memory_format: torch.memory_format | None,
    ) -> Self:
        """:meth:`_to` with a floating or complex dtype, to which only floating and complex tensors are cast."""
        moves = device is not None or copy or memory_format is not None
        store: Store = {}
        for key, value in self._now().items():
            if isinstance(value, Devices):
                store[key] = value._to(device, dtype, non_blocking, copy, memory_format, False)
            elif not (value.is_floating_point() or value.is_complex()):
                store[key] = value
                if moves:
                    store[key] = value.to(device, None, non_blocking, copy=copy, memory_format=memory_format)
            elif moves:
                store[key] = value.to(device, dtype, non_blocking, copy=copy, memory_format=memory_format)
            else:
                store[key] = value.to(dtype)
        return self._on(store, self._device if device is None else device)

    def _take_values(self, source: Collection) -> Self:
        """Replace the values by those of a collection with the same keys, at every level, and take its device."""
        if source is not self:
            self._check_unlocked()
            for key, value in source._now().items():
                current = self._store.get(key)
                if isinstance(current, Devices) and isinstance(value, Collection) and current._is_tree():
                    current._take_values(value)
                else:
                    self._store[key] = value
            self._batch_size, self._device = source._batch_size, source._device
        return self

    def cpu(self, **kwargs: Unpack[MoveOptions]) -> Self:
        """Return the values in main memory.

        Args:
            kwargs: further arguments of :meth:`to`.

        Returns:
            A new collection, in which tensors that are on the CPU already are shared.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1}).cpu().device
            device(type='cpu')
        """
        return with_members(self).to("cpu", **kwargs)

    def cuda(self, device: DeviceLike | None = None, **kwargs: Unpack[MoveOptions]) -> Self:
        """Return the values on a CUDA device.

        Args:
            device: the device or its number. Default: the current CUDA device.
            kwargs: further arguments of :meth:`to`.

        Returns:
            A new collection, in which tensors that are on this device already are shared.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> if torch.cuda.is_available():
            ...     assert TensorDict({"a": 1}).cuda().is_cuda
        """
        target = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
        return with_members(self).to(target, **kwargs)

    def pin_memory(self, num_threads: int | None = None, inplace: bool = False) -> Self:
        """Return the values in page-locked memory, from which they transfer asynchronously to an accelerator.

        Args:
            num_threads: the number of threads that copy. Default: none.
            inplace: replace the memory of the tensors of this collection. Default: ``False``.

        Returns:
            A new collection; this collection if ``inplace`` is set.

        Raises:
            RuntimeError: there is no accelerator, or a tensor is on one.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> if torch.cuda.is_available():
            ...     assert TensorDict({"a": torch.zeros(2)}, [2]).pin_memory()["a"].is_pinned()
        """
        if not inplace and (made := buffer_operations.pinned(self)) is not None:
            return made  # type: ignore[no-any-return]
        leaves: list[Tensor] = []
        tree = self._captured(leaves)
        pinned = _in_threads(leaves, Tensor.pin_memory, num_threads or 0)
        if not inplace:
            return tree._with_leaves(iter(pinned))
        for leaf, new in zip(leaves, pinned, strict=True):
            leaf.data = new
        return self

    def pin_memory_(self, num_threads: int = 0) -> Self:
        """Replace the values by copies in page-locked memory; see :meth:`pin_memory`.

        Args:
            num_threads: the number of threads that copy. Default: 0, none.

        Returns:
            This collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> if torch.cuda.is_available():
            ...     assert TensorDict({"a": torch.zeros(2)}, [2]).pin_memory_()["a"].is_pinned()
        """
        return with_members(self).pin_memory(num_threads, inplace=True)

    def record_stream(self, stream: torch.Stream) -> Self:
        """Tell the allocator that a CUDA stream uses the tensors, so that their memory is not reused before it is done.

        Args:
            stream: the stream.

        Returns:
            This collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> if torch.cuda.is_available():
            ...     data = TensorDict({"a": 1}).cuda().record_stream(torch.cuda.Stream())
        """
        for leaf in self._leaves():
            leaf.record_stream(stream)
        return self

    def as_tensor(self) -> Self:
        """Return a collection on a plain dict. Values with an ``as_tensor`` method of their own are converted by it.

        Returns:
            A new collection. Tensors are shared; values that another store keeps in a file are read.

        Example:
            >>> from tensorclass import TensorDict, lazy_stack
            >>> rows = lazy_stack([TensorDict({"a": 1}), TensorDict({"a": 2})])
            >>> type(rows.as_tensor()).__name__
            'TensorDict'
        """
        store: Store = {}
        for key, value in self._now().items():
            plain = getattr(with_members(value), "as_tensor", None)
            store[key] = value if plain is None else plain()
        return self._same(store)

    @property
    def is_cuda(self) -> bool:
        """``True`` if the device is a CUDA device.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict(a=1, device="cpu").is_cuda
            False
        """
        return self._device is not None and self._device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """``True`` if the device is the CPU.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict(a=1).is_cpu, TensorDict(a=1, device="cpu").is_cpu
            (False, True)
        """
        return self._device is not None and self._device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """``True`` if the device is ``meta``: shapes and dtypes without memory.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict(a=1).to("meta").is_meta
            True
        """
        return self._device is not None and self._device.type == "meta"

    def clear_device_(self) -> Self:
        """Accept values on any device, here and in nested collections. No value is moved.

        Returns:
            This collection, with ``device`` ``None``.

        Example:
            >>> from tensorclass import TensorDict
            >>> print(TensorDict({"a": 1}, device="cpu").clear_device_().device)
            None
        """
        nodes = self._all_nodes()
        before = [node._device for node in nodes]
        try:
            self._clear_device()
        except BaseException:
            for node, device in zip(nodes, before, strict=True):
                node._device = device
            raise
        return self

    def _clear_device(self) -> None:
        self._device = None
        for node in self._nodes():
            node._clear_device()

    def auto_device_(self) -> Self:
        """Set the device to that of the tensors if all of them share one.

        Returns:
            This collection. No value is moved.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1}).auto_device_().device
            device(type='cpu')
        """
        devices = {leaf.device for leaf in self._leaves()}
        if len(devices) == 1:
            self._set_device(devices.pop())
        return self

    def _set_device(self, device: torch.device) -> None:
        self._device = device
        for value in self._now().values():
            if isinstance(value, Devices):
                value._set_device(device)


native.tell("bind_function", torch.clone, "clone")


def _arguments(
    args: tuple[Any, ...], device: Any, dtype: torch.dtype | None, non_blocking: bool, other: Any
) -> tuple[Any, torch.dtype | None, bool, Any]:
    """Return the arguments of :meth:`Devices.to`, however given: device, dtype, whether not to wait, example."""
    for arg in args:
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            non_blocking = arg
        elif isinstance(arg, (torch.device, str, int)):
            device = arg
        elif isinstance(arg, (Tensor, Collection)):
            other = arg
        elif arg is not None:
            raise TypeError(f"to: expected a device, a dtype, a tensor or a collection, got {arg!r} ({type_name(arg)})")
    if dtype is not None and not isinstance(dtype, torch.dtype):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"to: dtype: expected a dtype of torch, such as torch.float32, got {dtype!r}")
    return device, dtype, non_blocking, other


def _is_described(collection: Collection) -> bool:
    """Return whether a collection is a result of ``attrs()``."""
    for value in collection._now().values():
        if type(value) is registry.TensorAttrs or (
            isinstance(value, Collection) and value._is_tree() and _is_described(value)
        ):
            return True
    return False


def _in_threads(tensors: list[Tensor], function: Callable[[Tensor], Tensor], num_threads: int) -> list[Tensor]:
    if num_threads <= 1:
        return [function(tensor) for tensor in tensors]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(function, tensors))
