"""Datasets of Hugging Face: their Arrow tables, with what their features say beyond Arrow's types."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.keys import NestedKey

from .arrow import read_table, reading_of, to_arrow
from .arrow_numbers import Nulls, Ragged, Reading
from .declared import Declared
from .extras import require
from .readers import described
from .tree import BatchSize, C, Plan, plan

_EXTRA = "datasets"


def from_huggingface(
    cls: type[C],
    dataset: Any,
    *,
    copy: bool | None = None,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    columns: Sequence[str] | None = None,
    ragged: Ragged = "jagged",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_huggingface`."""
    what = f"{cls.__name__}.from_huggingface"
    asked = plan(what, auto_batch_size, batch_dims, batch_size, device, strict=strict)
    source = _Source(cls, dataset, what)
    if isinstance(dataset, source.datasets.IterableDataset):
        raise TypeError(
            f"{what}: expected a dataset whose rows are known, got one that is streamed; iter_huggingface gives "
            f"batches of it, and RecordStream({cls.__name__}, dataset) single records for a DataLoader"
        )
    return source.read(source.table(), asked, reading_of(what, nulls, copy, ragged, mask_key), columns)  # type: ignore[no-any-return]


def iter_huggingface(
    cls: type[C],
    dataset: Any,
    *,
    batch_size: int,
    drop_last: bool = False,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    columns: Sequence[str] | None = None,
    ragged: Ragged = "jagged",
    strict: bool = True,
) -> Iterator[C]:
    """See :meth:`TensorDict.iter_huggingface`."""
    what = f"{cls.__name__}.iter_huggingface"
    source = _Source(cls, dataset, what)
    reading = reading_of(what, nulls, None, ragged, mask_key)
    tables = dataset.with_format("arrow").iter(batch_size, drop_last_batch=drop_last)
    return (
        source.read(table, plan(what, None, None, None, device, strict=strict), reading, columns) for table in tables
    )


def to_huggingface(data: TensorCollection, *, features: Any = None) -> Any:
    """See :meth:`TensorDict.to_huggingface`."""
    datasets = require("datasets", _EXTRA, "to_huggingface")
    pa = require("pyarrow", _EXTRA, "to_huggingface")
    if not isinstance(data, TensorCollection):
        raise TypeError(f"to_huggingface: expected a collection, got a {type(data).__name__}")
    table = to_arrow(data)
    arrays = [_plain(pa, column.combine_chunks()) for column in table.columns]
    plain = pa.table(dict(zip(table.column_names, arrays, strict=True))).replace_schema_metadata(table.schema.metadata)
    if features is not None:
        if set(features) != set(table.column_names):
            raise ValueError(
                f"to_huggingface: expected features for the columns {table.column_names}, got {list(features)}"
            )
        ordered = datasets.Features({name: features[name] for name in table.column_names})
        plain = datasets.table.table_cast(plain, ordered.arrow_schema)
    return datasets.Dataset(plain)


# -- in ---------------------------------------------------------------------------------------------------------------


class _Source:
    """A dataset, and how its tables are read."""

    def __init__(self, cls: Any, dataset: Any, what: str) -> None:
        self.cls, self.dataset, self.what = cls, dataset, what
        self.datasets = require("datasets", _EXTRA, what.rpartition(".")[2])
        self.pa = require("pyarrow", _EXTRA, what.rpartition(".")[2])
        if isinstance(dataset, (self.datasets.DatasetDict, self.datasets.IterableDatasetDict)):
            splits = list(dataset)
            raise TypeError(
                f"{what}: expected one dataset, got a {type(dataset).__name__} with the splits {splits}; take one, "
                f"dataset[{splits[0] if splits else 'name'!r}], or all of them with TensorDict.from_dict(dataset)"
            )
        if not isinstance(dataset, (self.datasets.Dataset, self.datasets.IterableDataset)):
            raise TypeError(f"{what}: expected a datasets.Dataset, got {described(dataset)}")
        if getattr(dataset, "format", {}).get("type") == "custom":
            raise TypeError(
                f"{what}: the dataset has a transform, which makes its rows when they are read: use "
                "dataset.map(...), dataset.with_format(None) for what is stored, or RecordDataset for single records"
            )
        self.features: Mapping[str, Any] = dataset.features or {}

    def table(self) -> Any:
        """The rows of the dataset, in the order that it has."""
        shown = self.dataset.format["columns"]
        names = [name for name in self.dataset.column_names if shown is None or name in shown]
        indices = self.dataset._indices
        if indices is None:
            return self.dataset.with_format("arrow", columns=names)[:]
        # the dataset itself would cut the table into a piece for each row
        return self.dataset.data.table.select(names).take(indices.column(0).combine_chunks())

    def read(self, table: Any, asked: Plan, reading: Reading, columns: Sequence[str] | None) -> Any:
        names: list[str] = table.column_names
        read = set(names if columns is None else columns)
        arrays: list[Any] = []
        for name, column in zip(names, table.columns, strict=True):
            feature = self.features.get(name)
            if name in read and (kind := _decoded(feature)):
                asked.problems.add(
                    (name,), "values that are stored as they are", f"a feature {kind} that decodes them",
                    f"dataset.cast_column({name!r}, {kind}(decode=False)) gives what is stored, RecordDataset decodes "
                    "each sample",
                )  # fmt: skip
                read.discard(name)
            arrays.append(self._column(name, column, feature))
        plain = self.pa.table(dict(zip(names, arrays, strict=True)))
        if len(plain.columns):
            plain = plain.replace_schema_metadata(table.schema.metadata)
        missing = [name for name in columns or () if name not in names]
        chosen = [name for name in names if name in read] + missing
        return read_table(self.cls, plain, asked, reading, columns=chosen)

    def _column(self, name: str, column: Any, feature: Any) -> Any:
        """A column as Arrow has it, where a feature of the library stands for more."""
        if isinstance(feature, self.datasets.ClassLabel):
            declared = Declared.of(self.cls, (name,))
            if declared is not None and declared.kind == "object" and declared.spec is not None:
                return self._names(column, feature, declared)
        shape = getattr(feature, "shape", None)
        if isinstance(column.type, self.pa.BaseExtensionType) and shape and None not in shape:
            return self._arrays(column, tuple(shape))
        return column

    def _names(self, column: Any, feature: Any, declared: Declared) -> Any:
        """The names of classes, for a field that holds text; what has no class (-1) is null."""
        if declared.spec is None or not any(issubclass(str, one) for one in declared.spec.types):
            return column
        if not self.pa.types.is_integer(column.type):  # no codes: it is read, or refused, as what it is
            return column
        codes = column.combine_chunks().to_pylist()
        names = [None if code is None or code < 0 else feature.int2str(code) for code in codes]
        return self.pa.array(names, self.pa.string())

    def _arrays(self, column: Any, shape: tuple[int, ...]) -> Any:
        """A column of arrays of one shape, which the library stores as lists of lists, without copying the numbers."""
        whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        values = whole.storage
        if values.null_count:
            return values
        for _ in shape:
            values = values.flatten()
        size = math.prod(shape)
        if len(values) != len(whole) * size or not size:
            return whole.storage
        return self.pa.ExtensionArray.from_storage(
            self.pa.fixed_shape_tensor(values.type, shape), self.pa.FixedSizeListArray.from_arrays(values, size)
        )


def _decoded(feature: Any) -> str:
    """The name of a feature that makes other objects of what is stored (images, sounds), here or in what it holds."""
    if getattr(feature, "decode", False) is True:
        return type(feature).__name__
    held: Any = feature
    inner: list[Any] = [held.feature] if hasattr(held, "feature") else []
    if isinstance(feature, Mapping):
        inner = list(held.values())
    return next((name for name in map(_decoded, inner) if name), "")


# -- out --------------------------------------------------------------------------------------------------------------


def _plain(pa: Any, array: Any) -> Any:
    """An array with types that the library has: lists of fixed lengths for tensors, values for their codes."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if isinstance(kind, pa.FixedShapeTensorType):
        shape: list[int] = list(kind.shape)
        values = array.storage.flatten()
        for size in reversed(shape):
            values = pa.FixedSizeListArray.from_arrays(values, size)
        return values
    if pa.types.is_dictionary(kind):
        return array.dictionary_decode()
    if pa.types.is_struct(kind):
        names: list[str] = [kind.field(position).name for position in range(kind.num_fields)]
        parts = [_plain(pa, part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, names) if names else array
    return array
