"""The base of all collections: the families of operations put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Size, Tensor
from torch.nn import Parameter
from typing_extensions import Self

from . import shapes
from .attributes import Attributes
from .choosing import Choosing
from .collection import Collection, DeviceLike, as_device
from .collective import Collective
from .combining import Combining
from .converting import Converting
from .creation import Creation
from .devices import Devices
from .distributing import Distributing
from .files import Files
from .huggingface import HuggingFace
from .indexing import Indexing
from .instances import Instances
from .locking import Locking
from .mapping import Applying
from .modules import Modules
from .packing import Packing
from .padding import Padding
from .persistent import Persistent
from .pointwise import Pointwise
from .printing import Printing
from .ray_datasets import RayDatasets
from .reductions import Reductions
from .shapes import Names
from .shaping import Shaping
from .state import State
from .storing import Storing
from .tables import Tables
from .torch_functions import HANDLERS, unsupported
from .workers import Workers

if TYPE_CHECKING:
    from .indexing import Index
    from .tensordict import TensorDict


class TensorCollection(
    Indexing,
    Shaping,
    Choosing,
    Packing,
    Padding,
    Pointwise,
    Reductions,
    Combining,
    Creation,
    Converting,
    Instances,
    Storing,
    Persistent,
    Tables,
    Files,
    HuggingFace,
    RayDatasets,
    Modules,
    Distributing,
    Collective,
    Workers,
    Devices,
    Applying,
    Attributes,
    Locking,
    State,
    Printing,
):
    """A store of values under string keys that behaves like one tensor of the shape of its batch size.

    The base of :class:`TensorDict` (any keys) and of records (declared keys). It is not made directly.
    """

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        handler = HANDLERS.get(func)
        if handler is not None:
            result = handler(*args, **kwargs) if kwargs else handler(*args)
            if result is not NotImplemented:
                return result
        if all(issubclass(kind, Collection) or kind is Tensor or kind is Parameter for kind in types):
            raise unsupported(func, cls)
        return NotImplemented  # another type may know

    def get_sub_tensordict(self, idx: Index) -> Self:
        """The rows at an index as a collection that writes through to this one, for every kind of index.

        See :class:`SubTensorDict`. ``data[idx]`` is a collection of its own, whose tensors share memory with those here
        only where the index gives views.
        """
        from .stores.sub import SubTensorDict

        return SubTensorDict(self, idx)  # type: ignore[return-value]

    @classmethod
    def from_store(
        cls,
        store: MutableMapping[str, Any],
        batch_size: Sequence[int] | int | None = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> Self:
        """A collection that reads from a mapping and writes to it, without a copy.

        Args:
            store: gives and takes the values under strings. A mutable mapping in it is a nested collection that reads
                and writes through too. It is given tensors and collections (nested ones and non-tensor data).
            batch_size: the dimensions that all values have in front; none by default.
            device: that of all values, if it is to be checked. Nothing is moved.
            names: a name or ``None`` for each batch dimension.

        Raises:
            RuntimeError: a value does not have the batch size in front, or is on another device.

        Operations give collections on a plain dict. Those in place take the values, change them, and write them back.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> store = {"a": torch.zeros(3), "b": {"c": torch.ones(3)}}
        >>> data = TensorDict.from_store(store, [3])
        >>> data["b", "d"] = torch.ones(3)
        >>> list(store["b"])
        ['c', 'd']
        """
        from .stores.mapping import check, through

        if not isinstance(store, MutableMapping):
            raise TypeError(f"from_store: expected a mutable mapping, got a {type(store).__name__}")
        size = shapes.as_size(batch_size)
        given = None if names is None else shapes.as_names(names, len(size))
        result = through(cls, store, size, as_device(device), given)
        check(result)
        return result

    @classmethod
    def _check_keys(cls, keys: Mapping[str, Any], complete: bool = False) -> None:
        """Raises an error where keys are not those that the collection can have; a record knows."""

    def _check_entry(self, key: str, value: Any) -> None:
        """Raises an error where a value is none for its key; a record knows."""

    def _nested_class(self, key: str) -> type[TensorCollection]:
        """The class of a mapping as the value of a key; a record knows."""
        from .tensordict import TensorDict

        return TensorDict

    def to_tensordict(self, *, retain_none: bool | None = None) -> TensorDict:
        """A :class:`TensorDict` with copies of the values, nested records becoming TensorDicts too.

        Args:
            retain_none: also write ``None`` for the fields of records that are ``None``; by default they are left out.
        """
        from .tensordict import TensorDict

        store: dict[str, Any] = {
            key: value.to_tensordict(retain_none=retain_none) if isinstance(value, TensorCollection) else value.clone()
            for key, value in self._items_for_export(bool(retain_none))
        }
        return TensorDict._of(self, store)

    def _items_for_export(self, retain_none: bool) -> Any:
        """The items of the store; a record adds those of its fields that are ``None`` where that is asked for."""
        return self._store.items()

    @classmethod
    def _from_mapping(cls, source: Mapping[Any, Any], batch_size: Any, device: Any, names: Any) -> Self:
        return cls(source, batch_size=batch_size, device=device, names=names)  # type: ignore[call-arg]

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Sets the batch size to the leading dimensions that all values share, at every level.

        Args:
            batch_dims: how many dimensions at most.
            keep_compliant_size: leave nested collections whose batch size fits already as they are.
        """
        before: list[tuple[Collection, Size, Names]] = []
        _sizes_below(self, before)
        try:
            self._find_batch_size(batch_dims, keep_compliant_size)
        except BaseException:
            for node, size, names in before:
                node._batch_size, node._names = size, names
            raise
        return self

    def _find_batch_size(self, batch_dims: int | None, keep_compliant_size: bool) -> None:
        sizes: list[Size] = []
        without: list[TensorCollection] = []
        for value in self._store.values():
            if isinstance(value, TensorCollection):
                if value._is_tree() and not keep_compliant_size:
                    value._find_batch_size(batch_dims, False)
                if not has_shape(value):
                    without.append(value)
                    continue
            sizes.append(value.shape)
        if not sizes:
            return
        common = shapes.common(sizes, batch_dims)
        for value in without:
            value._set_batch_size(common)
        self._set_batch_size(common)


def _sizes_below(node: Collection, found: list[tuple[Collection, Size, Names]]) -> None:
    """The batch size and names of a collection and of those that it consists of."""
    found.append((node, node._batch_size, node._names))
    for below in node._nodes():
        _sizes_below(below, found)


def has_shape(value: Any) -> bool:
    """Whether a value has a shape of its own; empty collections and objects for a whole batch take any."""
    if not isinstance(value, TensorCollection):
        return True
    for item in value._store.values():  # noqa: SIM110  (a generator costs more than the answer)
        if has_shape(item):
            return True
    return False


# annotations in the tables are for checkers; typing.get_type_hints of a record shall find its fields alone
for _family in TensorCollection.__mro__:
    if vars(_family).get("__annotations__"):
        del _family.__annotations__


# Where torch.compile sees an attribute being set, it guards that no class in front of the one that has the slot has
# another attribute of this name. With the slots only behind all the classes of methods there are some thirty of these
# guards for each slot, wherever a compiled function makes a collection: half of the time that its guards take.
for _slot in Collection.__slots__:
    if _slot != "__weakref__":
        setattr(TensorCollection, _slot, Collection.__dict__[_slot])
