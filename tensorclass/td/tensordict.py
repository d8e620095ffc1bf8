"""The untyped collection: any keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import type_name

from . import native, pytree, registry, shapes
from .base import TensorCollection
from .collection import Collection, DeviceLike, as_device
from .dataframe_names import DataFrameNames
from .keys import NestedKey, unravel_key_to_tuple
from .safe_unpickling import allow_class
from .value_checks import BatchMismatch, all_begin_with, explained, have_plain_keys

if TYPE_CHECKING:
    from .collection import Store


class TensorDict(TensorCollection, DataFrameNames):
    """A dict of tensors with common leading dimensions, which behaves like one tensor of that shape.

    Args:
        source: a mapping (nested mappings become nested collections) or another collection.
        batch_size: leading dimensions of all values. Default: those of a collection, else none.
        device: device to which values are moved when they are written. Default: they stay on theirs.
        names: a name or ``None`` for each batch dimension. Default: no names.
        non_blocking: do not wait for transfers to the device. Default: ``False``.
        lock: lock the keys. Default: ``False``.
        kwargs: values by keyword, instead of ``source``.

    Raises:
        RuntimeError: a value does not have the batch size in front.
        ValueError: ``source`` is not a mapping, or values are given both ways.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"image": torch.zeros(32, 3, 8, 8), "label": torch.zeros(32)}, batch_size=[32])
        >>> data[:8].reshape(2, 4)["image"].shape
        torch.Size([2, 4, 3, 8, 8])
    """

    __slots__ = ()

    _TAKES_ANY_KEY = True
    _NATIVE = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._NATIVE = native.overrides_nothing(cls)  # pyright: ignore[reportConstantRedefinition]

    def __init__(
        self,
        source: Mapping[Any, Any] | Collection | None = None,
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if source is None:
            source = kwargs
        elif kwargs:
            raise ValueError(f"give the values as one mapping or by keyword, not both; keywords: {sorted(kwargs)}")
        items: Any = source
        if type(source) is not dict:
            if isinstance(source, Collection):
                if batch_size is None:
                    batch_size = source._batch_size
                    device = source._device if device is None else device
                    names = source._name_list() if names is None and source._names is not None else names
                items = source._store
            elif not isinstance(source, Mapping):
                raise ValueError(
                    f"TensorDict: expected a mapping or a collection as the source, got {type_name(source)}; "
                    "values can also be given by keyword: TensorDict(a=..., b=...)"
                )
        if device is None and names is None and self._take_tensors(items, batch_size):
            if lock:
                self._lock_under(())
            return
        self._batch_size = size = batch_size if type(batch_size) is Size else shapes.as_size(batch_size)
        self._device = None if device is None else as_device(device)
        self._names = None if names is None else shapes.as_names(names, len(size))
        self._lock = None
        self._store = {}
        self._fit_values(items, bool(non_blocking))
        if not self._store:  # a tensor would have shown it
            shapes.check_size(size)
        if lock:
            self._lock_under(())

    @native.tries("fill_tensordict")
    def _take_tensors(self, source: Any, batch_size: Sequence[int] | int | None) -> bool:
        """Fill a new collection with a dict of tensors that fit. Return ``False`` for others, with nothing done."""
        if type(source) is not DICT or not source:  # others may compute their values
            return False
        size = batch_size if type(batch_size) is Size else shapes.as_size(batch_size)
        if not (have_plain_keys(source) and all_begin_with(source.values(), size)):
            return False
        self._store, self._batch_size = source.copy(), size
        self._device = self._names = self._lock = None
        return True

    def _fit_values(self, items: Mapping[Any, Any], non_blocking: bool) -> None:
        """Store the values of a new collection, each converted, moved and checked."""
        store, size = self._store, self._batch_size
        ndim = len(size)
        anywhere = self._device is None
        try:
            for key, value in items.items():
                if type(key) is not str:
                    self._set_nested(unravel_key_to_tuple(key), value, False, non_blocking)
                elif anywhere and isinstance(value, Tensor) and value.shape[:ndim] == size:
                    store[key] = value
                elif type(value) is DICT and self.__class__ is TensorDict and self._names is None:
                    # nothing can contain this collection yet, so the one below is not searched for it
                    nested: Any = value
                    try:
                        store[key] = TensorDict(nested, size, self._device, None, non_blocking)
                    except BatchMismatch as error:
                        raise error.below(key) from None
                else:
                    store[key] = self._fit(key, value, non_blocking)
        except RuntimeError as error:
            raise explained(error, items) from None

    @classmethod
    def _on_store(cls, store: Store, batch_size: Size) -> Self:
        """Make a collection on ``store``, without checks."""
        new = object.__new__(cls)
        new._store = store
        new._batch_size = batch_size
        new._device = new._names = new._lock = None
        return new

    @classmethod
    def _of(cls, source: Collection, store: Store) -> Self:
        """Make a collection on ``store`` with the metadata of another, without checks."""
        new = object.__new__(cls)
        new._store = store
        new._batch_size = source._batch_size
        new._device = source._device
        new._names = source._names
        new._lock = None
        return new


def make_tensordict(
    input_dict: Mapping[Any, Any] | Collection | None = None,
    batch_size: Sequence[int] | int | None = None,
    device: DeviceLike | None = None,
    auto_batch_size: bool | None = None,
    **kwargs: Any,
) -> TensorDict:
    """Make a TensorDict from a mapping, keywords, or both.

    Args:
        input_dict: values, which take precedence over keywords.
        batch_size: batch size of the result. Default: none.
        device: device of the result. Default: none.
        auto_batch_size: without ``batch_size``, use the leading dimensions that all values share. Default: ``False``.
        kwargs: more values.

    Raises:
        RuntimeError: a value does not have the batch size in front.

    Example:
        >>> import torch
        >>> from tensorclass import make_tensordict
        >>> make_tensordict(a=torch.zeros(3, 4), b=torch.zeros(3), auto_batch_size=True).batch_size
        torch.Size([3])
    """
    given: Any = input_dict
    entries: Any = given._store if isinstance(input_dict, Collection) else given
    result = TensorDict(kwargs if entries is None else {**kwargs, **entries}, batch_size, device)
    return result.auto_batch_size_() if auto_batch_size and batch_size is None else result


def fromkeys(keys: Iterable[NestedKey], value: Any = 0) -> TensorDict:
    """Make a TensorDict without batch dimensions that has the same value under each key.

    Args:
        keys: the keys, nested or not.
        value: the value. Default: 0.

    Example:
        >>> from tensorclass import fromkeys
        >>> fromkeys(["a", ("b", "c")], 1)["b", "c"]
        tensor(1)
    """
    return TensorDict.fromkeys(keys, value)


native.tell("bind_tensordict", TensorDict)
registry.register(TensorDict)

pytree.register(TensorDict)
allow_class(TensorDict)
