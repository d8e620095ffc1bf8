"""The base class of all collections: the families of operations combined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Size
from typing_extensions import Self

from tensorclass.support.exact_types import DICT

from . import native, registry, shapes
from .apply import Applying
from .attributes import Attributes
from .collection import Collection, is_tree
from .converting import Converting
from .creation import Creation
from .delegated.class_instance_methods import ClassInstances
from .delegated.collective_methods import Collectives
from .delegated.dataset_methods import Datasets
from .delegated.file_methods import Files
from .delegated.look_methods import Looks
from .delegated.map_methods import Map
from .delegated.memory_map_methods import MemoryMaps
from .delegated.message_methods import PointToPoint
from .delegated.object_methods import PythonObjects
from .delegated.row_methods import RowOperations
from .delegated.store_methods import Stores
from .delegated.table_file_methods import TableFiles
from .delegated.table_methods import Tables
from .devices import Devices
from .gather_and_take import Gathering
from .gradients import Gradients
from .hidden_members import with_members
from .inherited_members import copy_inherited
from .locking import Locking
from .module_parameters import Modules
from .packing import Packing
from .padding import Padding
from .permute_and_flip import Permuting
from .pickling import Pickling
from .pointwise import Pointwise
from .printing.representations import Printing
from .reductions import Reductions
from .select_keys import KeySelecting
from .shapes import Names
from .split_and_narrow import Splitting
from .stack_and_cat import Combining
from .state_dict import State
from .storage_state import Sharing, Storing
from .torch_functions import TorchFunctions

if TYPE_CHECKING:
    from .indexing import Index
    from .tensordict import TensorDict


class ValueOperations(
    TorchFunctions,
    Permuting,
    Splitting,
    Gathering,
    Padding,
    Pointwise,
    Reductions,
    Combining,
    Creation,
    Converting,
    Storing,
    MemoryMaps,
    Devices,
    Gradients,
    Locking,
    Printing,
):
    """The families of operations that leaves have, too: those on a value of any kind, as on a tensor."""

    __slots__ = ()


class TensorCollection(
    ValueOperations,
    KeySelecting,
    Packing,
    PythonObjects,
    ClassInstances,
    Tables,
    TableFiles,
    Datasets,
    RowOperations,
    Looks,
    Files,
    Stores,
    Modules,
    PointToPoint,
    Collectives,
    Map,
    Applying,
    Attributes,
    State,
    Pickling,
    Sharing,
):
    """A store of values under string keys that behaves like one tensor whose shape is the batch size.

    The base class of :class:`TensorDict` (any keys) and of records (declared keys). It cannot be instantiated itself.

    Example:
        >>> from tensorclass import TensorClass, TensorCollection, TensorDict
        >>> isinstance(TensorDict(), TensorCollection), issubclass(TensorClass, TensorCollection)
        (True, True)
    """

    __slots__ = ()

    def get_sub_tensordict(self, idx: Index) -> Self:
        """Return the rows at an index as a collection that writes through to this one, for every type of index.

        ``data[idx]`` is an independent collection; its tensors share memory with this one only if the index gives
        views. See :class:`SubTensorDict`.

        Args:
            idx: an index into the batch.

        Returns:
            A collection of the batch size of ``data[idx]``. What is set or written there is written into the rows here.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3)}, [3])
            >>> data.get_sub_tensordict(torch.tensor([0, 2])).fill_("a", 1)["a"], data["a"]
            (tensor([1., 1.]), tensor([1., 0., 1.]))
        """
        return registry.SubTensorDict(self, idx)  # type: ignore[return-value]

    @classmethod
    def _check_keys(cls, keys: Mapping[str, Any], complete: bool = False) -> None:
        """Raise if a key is not allowed. Records override this."""

    def _check_entry(self, key: str, value: Any) -> None:
        """Raise if the value does not fit its key. Records override this."""

    def _nested_class(self, key: str) -> type[TensorCollection]:
        """Return the class of a nested collection that is made from a mapping under a key. Records override this."""
        return registry.TensorDict

    def to_tensordict(self, *, retain_none: bool | None = None) -> TensorDict:
        """Return a :class:`TensorDict` with copies of the values. Nested records become TensorDicts, too.

        Args:
            retain_none: include record fields that are ``None``. Default: leave them out.

        Returns:
            A TensorDict that shares no memory with this collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, TensorDict
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> data = Point(x=torch.zeros(3), batch_size=[3]).to_tensordict()
            >>> type(data) is TensorDict, list(data.keys()), data.batch_size
            (True, ['x'], torch.Size([3]))
        """
        store: dict[str, Any] = {
            key: with_members(value).to_tensordict(retain_none=retain_none)
            if isinstance(value, TensorCollection)
            else value.clone()
            for key, value in self._items_for_export(bool(retain_none))
        }
        return registry.TensorDict._of(self, store)

    def _exports_store(self) -> bool:
        """Return whether the items for export are those of a dict, in its order. Records override this."""
        return type(self._store) is DICT and self._TAKES_ANY_KEY

    def _items_for_export(self, retain_none: bool) -> Any:
        """Return the items of the store. Records add the fields that are ``None`` if ``retain_none`` is set."""
        return self._now().items()

    @classmethod
    def _from_mapping(cls, source: Mapping[Any, Any], batch_size: Any, device: Any, names: Any) -> Self:
        return cls(source, batch_size=batch_size, device=device, names=names)  # type: ignore[call-arg]

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Set the batch size to the leading dimensions that all values share, at every level.

        Args:
            batch_dims: the maximum number of dimensions. Default: as many as are shared.
            keep_compliant_size: keep the batch size of nested collections that fits already. Default: ``False``.

        Returns:
            This collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3, 4), "b": torch.zeros(3, 5)})
            >>> data.auto_batch_size_().batch_size
            torch.Size([3])
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
        without: list[Collection] = []
        for value in self._now().values():
            if isinstance(value, Collection):
                if is_tree(value) and not keep_compliant_size:
                    value._find_batch_size(batch_dims, False)
                if not has_shape(value):
                    without.append(value)
                    continue
            sizes.append(value._batch_size if isinstance(value, Collection) else value.shape)
        if not sizes:
            return
        common = shapes.common(sizes, batch_dims)
        for node in without:
            _follow(node, common)
        self._set_batch_size(common)


def _follow(node: Collection, size: Size) -> None:
    """Set the batch size of a collection without a shape of its own, and of all below it."""
    for value in node._now().values():
        if isinstance(value, Collection):
            _follow(value, size)
    node._set_batch_size(size)


def _sizes_below(node: Collection, found: list[tuple[Collection, Size, Names]]) -> None:
    """Collect the batch size and names of a collection and of all collections below it."""
    found.append((node, node._batch_size, node._names))
    for below in node._nodes():
        _sizes_below(below, found)


def has_shape(value: Any) -> bool:
    """Return whether a value has a shape of its own. Empty collections and objects of a whole batch have none."""
    if not isinstance(value, Collection):
        return True
    for item in value._now().values():  # noqa: SIM110  (a generator would cost more than the loop)
        if has_shape(item):
            return True
    return False


# The annotations in the tables are for type checkers; typing.get_type_hints of a record must find only its fields.
for _family in TensorCollection.__mro__:
    if vars(_family).get("__annotations__"):
        del _family.__annotations__


copy_inherited(TensorCollection)
native.register_methods(TensorCollection)
registry.register(TensorCollection)
