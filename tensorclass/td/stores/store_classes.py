"""Classes of collections on a store: a collection class with the methods of the store in front."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td import pytree, registry
from tensorclass.td.base import TensorCollection
from tensorclass.td.dataframe_names import DataFrameNames
from tensorclass.td.hidden_members import with_members
from tensorclass.td.shapes import Names

if TYPE_CHECKING:
    from tensorclass.td.collection import Store, Value

C = TypeVar("C", bound=TensorCollection)


class OnStore(TensorCollection, DataFrameNames):
    """Base of the methods of a store other than a dict. Results of operations are on a plain dict.

    :func:`on_store` puts the methods of a subclass in front of those of a collection class.
    """

    __slots__ = ()

    _TAKES_ANY_KEY = False
    #: class methods that only the class of the store has: those of collections on it are those of their own class
    _CONSTRUCTORS: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        _dense: ClassVar[type[Any]]

    def _like(self, store: Store, batch_size: Size, names: Names = None) -> Any:
        new = object.__new__(self._dense)
        new._begin(store, batch_size, self._device, names)
        return new

    def _same(self, store: Store) -> Any:
        return self._like(store, self._batch_size, self._names)

    def _now(self) -> Store:
        return self._store

    def _captured(self, leaves: list[Tensor]) -> Self:
        leaves.extend(self._leaves())
        return self

    @classmethod
    def _register(cls) -> None:
        """Register the class as a node of pytrees."""
        pytree.register(cls)

    def _densified(self) -> Self:
        """Return a collection on plain dicts at every level. Each value is read once."""
        return self._same(  # type: ignore[no-any-return]
            {key: value._densified() if isinstance(value, OnStore) else value for key, value in self._now().items()}
        )


class SourceKeys(MutableMapping[str, "Value"], metaclass=ABCMeta):
    """Base of stores whose keys are those of another collection, in its order. Removing one removes it there."""

    __slots__ = ("source",)

    def __init__(self, source: TensorCollection) -> None:
        self.source: TensorCollection = source

    def __delitem__(self, key: str) -> None:
        self.source._check_unlocked()
        del self.source._store[key]

    def __contains__(self, key: object) -> bool:
        return key in self.source._store

    def __iter__(self) -> Iterator[str]:
        return iter(self.source._store)

    def __len__(self) -> int:
        return len(self.source._store)


class OnSource(OnStore):
    """Methods of a collection on a store that is a :class:`SourceKeys`: keys are changed in the source."""

    __slots__ = ()

    if TYPE_CHECKING:
        _store: Any

    def _beside(self) -> tuple[TensorCollection]:
        return (self._store.source,)

    def clear(self) -> Any:
        """Remove all keys from the source.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(4)}, [4])
            >>> _ = data.get_sub_tensordict([0, 2]).clear()
            >>> list(data.keys())
            []
        """
        with_members(self._store.source).clear()
        return self

    def rename_key_(self, old_key: Any, new_key: Any, safe: bool = False) -> Any:
        with_members(self._store.source).rename_key_(old_key, new_key, safe)
        return self

    def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: Any = None) -> Any:
        if not inplace:
            return super().flatten_keys(separator, False, is_leaf)
        with_members(self._store.source).flatten_keys(separator, True, is_leaf)
        return self

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Any:
        if not inplace:
            return super().unflatten_keys(separator, False)
        with_members(self._store.source).unflatten_keys(separator, True)
        return self


def dense_class(cls: type[C]) -> type[C]:
    """Return the class that a collection has on a plain dict."""
    given: Any = cls
    return given._dense if issubclass(cls, OnStore) else given  # type: ignore[no-any-return]


def on_store(methods: type[OnStore], cls: type[C]) -> type[C]:
    """Return the subclass of a collection class with the methods of a store. It is made once."""
    name = f"_class_on_{methods.__name__}"
    dense = cls if name in vars(cls) else dense_class(cls)
    made: Any = vars(dense).get(name)
    if made is None:
        namespace: dict[str, Any] = {
            "__slots__": (), "__module__": dense.__module__, "__qualname__": dense.__qualname__,
            "__doc__": dense.__doc__, "_dense": dense,
        }  # fmt: skip
        options = {"is_base": True} if hasattr(dense, "_specs") else {}  # a record declares its fields itself
        for field in getattr(dense, "_specs", ()):  # fields precede methods that only this store has, such as `close`
            if any(field in vars(base) for base in methods.__mro__[:-1]) and not hasattr(TensorCollection, field):
                namespace[field] = inspect.getattr_static(dense, field)
        namespace |= {one: inspect.getattr_static(dense, one) for one in methods._CONSTRUCTORS}
        metaclass: Any = dense.__class__
        made = metaclass(dense.__name__, (methods, dense), namespace, **options)
        if dense._hidden_members:  # the store's own methods precede fields
            made._hidden_members = {
                field: member
                for field, member in dense._hidden_members.items()
                if inspect.getattr_static(made, field) is inspect.getattr_static(dense, field)
            }
        setattr(dense, name, made)
        made._register()
    return made  # type: ignore[no-any-return]


def on_new_store(
    methods: type[OnStore], cls: type[C], store: Any, batch_size: Size, device: torch.device | None, names: Names
) -> C:
    """Return an unlocked collection of a class on a store. Nothing is checked."""
    new = object.__new__(on_store(methods, cls))
    new._begin(store, batch_size, device, names)
    return new


registry.register(dense_class)
