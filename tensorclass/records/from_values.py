"""The base class of records with the methods that make them of other values: mappings, collections, files, pickles."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, ValuesView
from typing import Any

from torch.compiler import is_compiling
from typing_extensions import Self

from tensorclass.contracts.checking import inferred_size
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import class_name, type_name
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.leaves.nontensor import NonTensorData
from tensorclass.td.stored_names import shown_names
from tensorclass.td.tensordict import TensorDict

from .contracted import Contracted


class FromValues(Contracted):
    """A collection whose keys are fields, and which is made of values for them."""

    __slots__ = ()

    _takes_fields = False  # whether the constructor takes all fields and the metadata by name

    def _set_up(self, values: Mapping[str, Any], batch_size: Any = None, device: Any = None, names: Any = None) -> None:
        """Set the metadata, and the fields from ``values`` or their defaults."""
        found = inferred_size(self._item_ranks, values) if batch_size is None and self._item_ranks else batch_size
        self._batch_size = shapes.as_size(found)
        self._device = as_device(device)
        self._names = shapes.as_names(names, len(self._batch_size))
        self._lock = None
        self._store = {}
        for name, spec in self._specs.items():
            if name in values:
                value = values[name]
            elif spec.default is not None:
                value = spec.default_value()
            else:
                continue
            if value is not None:
                self._store[name] = spec.fit(self, value)
            elif not spec.allows_none(self):
                raise spec.mismatch(value)
        if self._checks is not None and not is_compiling():
            self._checks.check_new(self, batch_size is None)
        if not self._store:  # without values nothing has shown that the batch size is valid
            shapes.check_size(self._batch_size)

    @classmethod
    def from_any(
        cls,
        obj: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: Sequence[int] | int | None = None,
        strict: bool = True,
    ) -> Self:
        """Make a record of an object that has entries for its fields: a mapping, an instance, a table, an array.

        See :meth:`TensorDict.from_any` for the conversion.

        Args:
            obj: the object. A record of this class is returned unchanged.
            auto_batch_size: infer the batch size, at every level, from the leading dimensions that all values share.
                Default: ``False``.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            batch_size: the batch size; ``[]`` by default.
            strict: with ``False``, drop keys that are not fields, at every level, and warn about them. By default they
                are an error.

        Returns:
            A record of this class. Its tensors share memory with those of the object.

        Raises:
            ConversionError: the object does not fit the fields, or the batch size. Lists everything that is wrong.

        Example:
            >>> import torch
            >>> from dataclasses import dataclass
            >>> from tensorclass import TensorClass
            >>> @dataclass
            ... class Pet:
            ...     name: str
            ...     age: int
            >>> class Animal(TensorClass):
            ...     name: str
            ...     age: torch.Tensor
            >>> animal = Animal.from_any(Pet("Rex", 9))
            >>> animal.name, animal.age
            ('Rex', tensor(9))
        """
        record: Self = super().from_any(
            obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size,
            strict=strict,
        )  # fmt: skip
        return record

    @classmethod
    def from_pytree(
        cls,
        pytree: Any,
        *,
        batch_size: Sequence[int] | int | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        namespace: str = "",
        strict: bool = True,
    ) -> Self:
        """Make a record of a mapping, named tuple or dataclass of trees, and remember the structure of each tree.

        See :meth:`TensorDict.from_pytree`. Its inverse :meth:`to_pytree` gives a dict of the fields, whose trees are
        restored.

        Args:
            pytree: the tree, with an entry for each field.
            batch_size: the batch size; ``[]`` by default.
            auto_batch_size: infer the batch size from the leading dimensions that all values share. Default: ``False``.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            namespace: a namespace of optree's registry, in addition to the global one.
            strict: with ``False``, drop keys that are not fields, and warn about them.

        Returns:
            A record of this class. Its tensors are those of the tree.

        Raises:
            ConversionError: the entries do not fit the fields. Lists everything that is wrong.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, TensorDict
            >>> class State(TensorClass):
            ...     step: torch.Tensor
            ...     carry: TensorDict
            >>> state = State.from_pytree({"step": 3, "carry": (1.0, [2.0])})
            >>> (state * 2).to_pytree()
            {'step': tensor(6), 'carry': (2.0, [4.0])}
        """
        record: Self = super().from_pytree(
            pytree, batch_size=batch_size, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            namespace=namespace, strict=strict,
        )  # fmt: skip
        return record

    @classmethod
    def from_tensordict(
        cls,
        tensordict: Collection | Mapping[str, Any],
        non_tensordict: Mapping[str, Any] | None = None,
        safe: bool | None = None,
    ) -> Self:
        """Make a record that shares the values of a collection whose keys are the fields.

        Args:
            tensordict: the collection. The record gets its batch size, device and dimension names.
            non_tensordict: values of more fields, by name. They replace those of the collection.
            safe: ``False`` also accepts a mapping, whose record has no batch dimensions. By default it is an error.

        Returns:
            A record. Tensors are shared, not copied.

        Raises:
            TypeError: ``tensordict`` is not a collection.
            ValueError: a key is not a field, or a field without default is missing. The error lists all of them.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, TensorDict
            >>> class Sample(TensorClass):
            ...     x: torch.Tensor
            ...     label: str
            >>> data = TensorDict({"x": torch.zeros(3)}, [3])
            >>> sample = Sample.from_tensordict(data, {"label": "a"})
            >>> sample.label, sample.x is data["x"], sample.batch_size
            ('a', True, torch.Size([3]))
        """
        if isinstance(tensordict, Collection):
            items = {**tensordict._store, **(non_tensordict or {})}
            return cls._from_mapping(items, tensordict._batch_size, tensordict._device, tensordict._names)
        if safe is not False or not isinstance(tensordict, Mapping):
            raise TypeError(f"from_tensordict: expected a collection, got a {type_name(tensordict)}")
        return cls._from_mapping({**tensordict, **(non_tensordict or {})}, None, None, None)

    @classmethod
    def _check_keys(cls, keys: Mapping[str, Any], complete: bool = False) -> None:
        """Raise if keys are not fields, or required fields are missing.

        Args:
            keys: the keys.
            complete: whether fields with a default are required, too.
        """
        specs = cls._specs
        unexpected = [key for key in keys if key not in specs]
        missing = [
            name
            for name, spec in specs.items()
            if name not in keys
            and not (spec.optional or spec.kind is None)
            and (complete or (spec.init and spec.default is None))
        ]
        if unexpected or missing:
            raise ValueError(
                f"{class_name(cls)}: the keys must be the fields [{', '.join(shown_names(cls, specs))}]"
                + (f"; missing: {missing}" if missing else "")
                + (f"; unexpected: {unexpected}" if unexpected else "")
                + did_you_mean(unexpected, missing)
            )

    def _check_entry(self, key: str, value: Any) -> None:
        self._spec(key).check(self, value, True)

    def _nested_class(self, key: str) -> type[TensorCollection]:
        targets = [cls for cls in self._spec(key).types if issubclass(cls, TensorCollection)]
        return targets[0] if targets and targets[0] is not TensorCollection else TensorDict

    @classmethod
    def _from_mapping(cls, source: Mapping[Any, Any], batch_size: Any, device: Any, names: Any) -> Self:
        specs = cls._specs
        if cls._takes_fields and source.keys() == specs.keys() and not _have_none(source.values()):
            constructor: Any = cls
            return constructor(**source, batch_size=batch_size, device=device, names=names)  # type: ignore[no-any-return]
        cls._check_keys(source)
        values = {key: None if is_none(value) else value for key, value in source.items()}
        for name, spec in specs.items():
            if name not in source and spec.init and spec.default is None:
                values[name] = None
        if not getattr(cls.__init__, "__generated__", False):  # its arguments are unknown
            record = object.__new__(cls)
            record._set_up(values, batch_size, device, names)
            return record
        metadata = {"batch_size": batch_size, "device": device, "names": names}
        arguments = {key: value for key, value in metadata.items() if key not in specs}
        arguments.update((key, value) for key, value in values.items() if specs[key].init)
        record = cls(**arguments)
        for key, value in values.items():
            if not specs[key].init and value is not None:
                record._store[key] = specs[key].fit(record, value)
        if "device" in specs and device is not None:  # fields of a class with shadow=True
            moved: Any = TensorCollection.to(record, device)
            record = moved
        if "names" in specs and names is not None:
            record._set_names(shapes.as_names(names, len(record._batch_size)))
        return record

    @classmethod
    def _from_finished(cls, source: Mapping[Any, Any], batch_size: Any, device: Any, names: Any) -> Self:
        """Make a record without calling the constructor: the values come from an object that was constructed."""
        cls._check_keys(source)
        record = object.__new__(cls)
        record._set_up(source, batch_size, device, names)
        return record

    # -- restored from a file or pickle, whose class may have had other fields ----------------------------------------

    def _pickled(self) -> tuple[Any, ...]:
        store = self._store
        absent = tuple(
            [name for name in self._specs if name not in store]
        )  # a field that is missing here was added to the class later
        return (absent,) if absent else ()

    def _unpickled(self, absent: Sequence[str] = ()) -> None:
        store, specs = self._store, self._specs
        known = {*store, *absent}
        if known == specs.keys():
            return
        missing = self._lacking(known)
        unexpected = [key for key in store if key not in specs]
        wrong: list[str] = []
        if missing or unexpected:
            wrong.append(
                f"its fields are {list(specs)}, those of the class that was pickled were {sorted(known)}"
                + (f"; missing, without a default: {missing}" if missing else "")
                + (f"; unexpected: {unexpected}" if unexpected else "")
                + " (to read it, let the class have them, with a default)"
            )
        self._store = {}
        wrong += [str(error) for error in self._restore(store, {*missing, *absent})]
        if wrong:
            raise ValueError(f"{type_name(self)}: {'; '.join(wrong)}")

    @classmethod
    def _lacking(cls, known: Container[str]) -> list[str]:
        """Return the fields that need a value and did not exist when a record was saved."""
        return [name for name, spec in cls._specs.items() if name not in known and not spec.can_be_missing]

    def _restore(self, values: Mapping[str, Any], absent: Container[str]) -> list[Exception]:
        """Set the fields to saved values, or to their defaults, except those in ``absent``.

        Ranges are not checked: that would read all elements.

        Returns:
            The errors of values that do not fit.
        """
        problems: list[Exception] = []
        for name, spec in self._specs.items():
            if name in absent:
                continue
            try:
                value = values[name] if name in values else None if spec.default is None else spec.default_value()
                if value is not None and not is_none(value):
                    self._store[name] = spec.fit(self, value)
                elif name in values and not spec.allows_none(self):
                    raise spec.mismatch(None)
            except (ValueError, TypeError, RuntimeError) as error:
                problems.append(error)
        if self._checks is not None:
            try:
                self._checks.check_new(self, False, elements=False)
            except (ValueError, TypeError, RuntimeError) as error:
                problems.append(error)
        return problems

    @classmethod
    def fromkeys(cls, keys: Any, value: Any = 0) -> Self:
        """Make a record without batch dimensions that has the same value in each field.

        Args:
            keys: the names of the fields. Fields with a default can be left out.
            value: what each of the fields takes. Default: 0.

        Returns:
            A new record.

        Raises:
            ValueError: a key is not a field, or a field without default is missing.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            ...     y: torch.Tensor
            >>> Point.fromkeys(["x", "y"], 1.0).y
            tensor(1.)
        """
        return cls._from_mapping(dict.fromkeys(keys, value), None, None, None)


def is_none(value: Any) -> bool:
    """Return whether a value is the non-tensor data that represents ``None`` in a collection."""
    return type(value) is NonTensorData and value._objects[0] is None


def _have_none(values: ValuesView[Any]) -> bool:
    """Return whether one of the values is the non-tensor data that represents ``None``."""
    return NonTensorData in map(type, values) and any(map(is_none, values))
