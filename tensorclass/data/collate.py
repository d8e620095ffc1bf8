"""Join samples field by field: a list of dicts, one for each sample, becomes one dict of batched values."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.convert.conversion_steps import object_column
from tensorclass.convert.conversion_targets import entry_target
from tensorclass.records.fields import Kind
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.columns.column_values import Declared
from tensorclass.td.dataset import Ragged
from tensorclass.td.keys import dotted
from tensorclass.td.stack_and_cat import stack
from tensorclass.td.value_checks import as_tensor

Path = tuple[str, ...]
_keys = operator.methodcaller("keys")
_dtype = operator.attrgetter("dtype")
_TENSORS = {Tensor}


class SampleMismatch(ValueError):
    """A sample does not fit the first sample of its batch."""

    def __init__(self, position: int, path: Path, expected: str, got: str, hint: str = "") -> None:
        super().__init__(f"{dotted(path)}: expected {expected}, got {got}")
        self.position: int = position
        self.path: Path = path
        self.expected: str = expected
        self.got: str = got
        self.hint: str = hint


class SampleJoiner:
    """Joins the values of samples."""

    def __init__(self, cls: type[Any], ragged: Ragged, count: int) -> None:
        self.cls: type[Any] = cls
        self.ragged: Ragged = ragged
        self.count: int = count

    def join(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Join the samples to one dict of batched values."""
        masks: dict[Path, Tensor] = {}
        columns = self._level(rows, self.cls, (), masks)
        ragged = self.ragged
        if missing := [path for path in (*ragged.padding, *ragged.jagged) if not _has(columns, path)]:
            where = ".".join(missing[0])
            raise KeyError(f"{class_name(self.cls)}: the samples have no value under {where!r} to pad or to nest")
        if not masks:
            return columns
        holds_tensor = ragged.together is not None and _kind(self.cls, ragged.together) is Kind.TENSOR
        for path, mask in ragged.masks_by_key(masks, holds_tensor).items():
            level = columns
            for name in path[:-1]:
                level = level.setdefault(name, {})
            if level.get(path[-1]) is not None:
                where = ".".join(path)
                raise ValueError(
                    f"{class_name(self.cls)}: mask_key={where!r} is a key of the samples; give another one"
                )
            level[path[-1]] = mask
        return columns

    def _level(
        self, rows: Sequence[Mapping[str, Any]], target: Any, path: Path, masks: dict[Path, Tensor]
    ) -> dict[str, Any]:
        first = rows[0]
        keys = first.keys()
        if [*map(_keys, rows)].count(keys) != len(rows):
            position, row = next((position, row) for position, row in enumerate(rows) if row.keys() != keys)
            raise SampleMismatch(position, path, f"the keys {list(first)}", f"{list(row)}")
        return {key: self._column([row[key] for row in rows], target, (*path, key), masks) for key in first}

    def _column(self, values: list[Any], target: Any, path: Path, masks: dict[Path, Tensor]) -> Any:
        declared = declared_column(target, path[-1])
        if declared is not None and path not in self.ragged.jagged:
            return self._rows(values, declared, path)
        first = values[0]
        if path in self.ragged.padding or path in self.ragged.jagged:
            joined, mask = self.ragged.join(_tensors(values, path, ragged=1), path)
            if mask is not None:
                masks[path] = mask
            return joined
        if isinstance(first, Tensor):
            kinds = {*map(type, values)}
            are_tensors = kinds == _TENSORS or all(issubclass(one, Tensor) for one in kinds)
            if are_tensors and len({*map(_dtype, values)}) == 1:
                with contextlib.suppress(RuntimeError):  # different shapes raise below, with a better message
                    return torch.stack(values)
            return torch.stack(_tensors(values, path))
        inner = entry_target(target, path[-1])
        if isinstance(first, dict) and inner is not None:
            for position, value in enumerate(values):
                if not isinstance(value, dict):
                    raise SampleMismatch(position, path, "a mapping", f"a {type_name(value)}")
            return self._level(values, inner, path, masks)
        if isinstance(first, Collection):
            return stack(values)
        is_array = isinstance(first, (np.ndarray, np.generic))
        if inner is not None or (is_array and _kind(target, (path[-1],)) is Kind.ANY):
            if _are_numbers(values):
                return torch.tensor(values)
            if as_tensor(first) is not None:
                return torch.stack(_tensors(values, path))
        return object_column(values, Size([self.count]))

    def _rows(self, values: list[Any], declared: Declared, path: Path) -> Any:
        """Join values of a field that is declared as a column: one row each, or rows of samples with a batch size."""
        if path in self.ragged.padding:
            raise ValueError(
                f"pad_keys names {dotted(path)!r}, which {class_name(self.cls)} declares as "
                f"{class_name(declared.cls)}: its rows keep their lengths. Leave it out, and pad the batch: "
                f"batch.{dotted(path)}.to_padded()"
            )
        sizes = [declared.implied_size(value) for value in values]
        sizes = [None if size is not None and not size.numel() else size for size in sizes]  # []: a row without items
        if all(not size for size in sizes) and not any(isinstance(value, Collection) for value in values):
            return declared.made(values, Size([self.count]))
        if all(value is None for value in values):
            return None
        size = next((size for size in sizes if size is not None), Size(()))
        return stack([declared.made(value, size) for value in values])


def declared_column(target: Any, key: str) -> Declared | None:
    """Return the declaration of a field that holds a column."""
    cls: Any = target if isinstance(target, type) else target.__class__
    spec = cls._specs.get(key) if issubclass(cls, TensorClass) else None
    return None if spec is None else spec.column


def _are_numbers(values: list[Any]) -> bool:
    first: object = values[0]
    return isinstance(first, (bool, int, float)) and all(type(value) is type(first) for value in values)


def _tensors(values: list[Any], path: Path, ragged: int = 0) -> list[Tensor]:
    """Convert values to tensors that can be joined; their first ``ragged`` dimensions may differ."""
    tensors: list[Tensor] = []
    for position, value in enumerate(values):
        tensor = value if isinstance(value, Tensor) else as_tensor(value)
        if tensor is None or tensor.ndim < ragged:
            raise SampleMismatch(position, path, f"a tensor of at least {ragged} dimensions", f"a {type_name(value)}")
        tensors.append(tensor)
    first = tensors[0]
    for position, tensor in enumerate(tensors):
        if tensor.dtype != first.dtype:
            raise SampleMismatch(
                position, path, f"the dtype {first.dtype}", f"{tensor.dtype}", "convert it with transform="
            )
        if tensor.shape[ragged:] != first.shape[ragged:]:
            hint = "" if ragged else "pad_keys= pads the first dimension, nested_keys= keeps its lengths"
            shape = list(first.shape[ragged:])
            expected = f"the shape {shape}" if not ragged else f"the shape {shape} behind the first dimension"
            raise SampleMismatch(position, path, expected, f"{list(tensor.shape[ragged:])}", hint)
    return tensors


def _kind(cls: Any, path: Path) -> Kind | None:
    """Return the kind of value that a field of a record holds; ``None`` for keys of other collections."""
    *above, last = path
    for name in above:
        cls = entry_target(cls, name)
        if not isinstance(cls, type) or not issubclass(cls, TensorCollection):
            return None
    return cls._specs[last].kind if issubclass(cls, TensorClass) and last in cls._specs else None


def _has(columns: dict[str, Any], path: Path) -> bool:
    value: Any = columns
    for name in path:
        level = value
        if not isinstance(value, dict) or name not in level:
            return False
        value = level[name]
    return True
