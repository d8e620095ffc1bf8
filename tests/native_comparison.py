"""What an operation gives and leaves behind, as plain data, so that two ways to run it can be compared.

Described are class, keys and their order, batch size, names, device, locks and contexts; of each tensor its class,
dtype, shape, strides, device, autograd, values, and whose memory it shares.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tensorclass.td.collection import Collection
from tests.native_code import native_code


@dataclass
class Description:
    """Describes values. Objects and memory get numbers in the order in which they are seen first, so that what a result
    has in common with its source has the same number."""

    objects: dict[int, int] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    """Keeps objects alive, so that no other object gets the id of one."""

    def of(self, value: Any) -> Any:
        """Return a description of a value that can be compared with ``==``."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device)):
            return value if value == value else repr(value)  # NaN
        if isinstance(value, torch.Size):
            return ("Size", *value)
        if isinstance(value, (tuple, list)):
            return (type(value).__name__, *map(self.of, value))
        number = self.objects.get(id(value))
        if number is not None:
            return ("same object", number)
        self.objects[id(value)] = len(self.objects)
        self.kept.append(value)
        if isinstance(value, Tensor):
            return self.of_tensor(value)
        if isinstance(value, Collection):
            return self.of_collection(value)
        if isinstance(value, Mapping):
            return (type(value).__name__, *((self.of(key), self.of(entry)) for key, entry in value.items()))
        if isinstance(value, weakref.ref):
            return ("reference", self.of(value()))
        if callable(value):
            return getattr(value, "__qualname__", type(value).__name__)
        return (type(value).__name__, repr(value))

    def of_tensor(self, tensor: Tensor) -> Any:
        function = tensor.grad_fn
        return (
            type(tensor).__name__,
            tensor.dtype,
            tensor.device,
            tuple(tensor.shape),
            tensor.stride() if tensor.layout == torch.strided else tensor.layout,
            tensor.requires_grad,
            tensor.is_leaf,
            type(function).__name__ if function is not None else None,
            tensor.is_conj(),
            tensor.is_neg(),
            tensor.is_inference(),
            tensor._version if not tensor.is_inference() else None,
            self.memory_of(tensor),
            values_of(tensor),
        )

    def memory_of(self, tensor: Tensor) -> Any:
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            return None
        storage = tensor.untyped_storage()
        number = self.memory.setdefault(storage._cdata, len(self.memory))
        self.kept.append(storage)
        return (number, tensor.storage_offset())

    def of_collection(self, value: Collection) -> Any:
        context = getattr(value, "_context", None)
        buffer = getattr(value, "_buffer", None)
        store = value._store
        return (
            type(value).__name__,
            self.of(value._batch_size),
            value._device,
            self.of(value._names),
            value.is_locked if hasattr(value, "is_locked") else None,
            None if context is None else self.of(context),
            buffer is None or type(buffer).__name__,
            type(store).__name__,
            self.of(store) if isinstance(store, dict) else self.of(vars(store)) if hasattr(store, "__dict__") else None,
        )


def values_of(tensor: Tensor) -> Any:
    """The values of a tensor, NaN and signed zeros told apart."""
    if tensor.device.type == "meta" or tensor.layout != torch.strided:
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return bytes(plain.reshape(-1).view(torch.uint8).tolist()) if plain.numel() else b""


@contextmanager
def _all_warnings() -> Iterator[None]:
    """Show each warning, also those that torch gives once in a process."""
    warnings.simplefilter("always")
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


Operation = Callable[[Any], Any]


def outcome(build: Callable[[], Any], operation: Operation, native: bool) -> Any:
    """Run an operation on a new collection; describe result or error, warnings, and the collection after."""
    torch.manual_seed(0)
    source = build()
    description = Description()
    before = description.of(source)
    description.kept.append(before)
    with native_code(native), warnings.catch_warnings(record=True) as caught, _all_warnings():
        try:
            result = ("result", description.of(operation(source)))
        except Exception as error:
            result = ("error", type(error).__name__, str(error))
    again = Description()
    told = sorted((warning.category.__name__, str(warning.message)) for warning in caught)
    return result, told, again.of(source)
