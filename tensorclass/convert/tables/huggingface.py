"""Datasets of Hugging Face: their Arrow tables, with what their features add to Arrow's types."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import (
    ConversionOptions,
    StreamKwargs,
    TableKwargs,
    TableOptions,
    table_call_options,
)
from tensorclass.convert.conversion_steps import C
from tensorclass.convert.converter_registry import describe_source
from tensorclass.support.extras import require
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.text import Text

from .arrow import check_has_rows, read_table, to_arrow
from .arrow_extensions import of_one_shape
from .column_names import key_of_columns
from .column_schema import ColumnSchema

METHODS_OF = "Datasets"

_EXTRA = "datasets"


def from_huggingface(cls: type[C], dataset: Any, **kwargs: Unpack[TableKwargs]) -> C:
    """Convert a ``datasets.Dataset``: one value per column, with the number of rows as batch size.

    The rows are those that the dataset shows after ``select``, ``shuffle`` and ``filter``, the columns those of its
    format, in the types that are stored. Columns are read as :meth:`from_arrow` reads them, and ``Array2D`` and its
    kin as tensors of their shape. Class labels become numbers; a field of text gets their names.

    Args:
        dataset: a ``datasets.Dataset``.
        TableKwargs: copy, nulls, mask_key, device, columns, rename, ragged, auto_batch_size, batch_dims, batch_size,
            strict

    Returns:
        A collection of this class. Columns of numbers share memory with the dataset, or its file, if they are one chunk
        without nulls and no rows were selected. Copy before you write.

    Raises:
        ImportError: datasets is not installed.
        TypeError: ``dataset`` is a dict of splits, is streamed, or has a transform.
        ConversionError: columns do not fit their fields, or hold data that is decoded when it is read (images, sounds).

    Example:
        >>> import datasets
        >>> from tensorclass import TensorDict
        >>> dataset = datasets.Dataset.from_dict({"x": [1.0, 2.0, 3.0], "text": ["a", "b", "c"]})
        >>> TensorDict.from_huggingface(dataset.select([2, 0])).to_dict()
        {'x': tensor([3., 1.], dtype=torch.float64), 'text': ['c', 'a']}
    """
    what = f"{class_name(cls)}.from_huggingface"
    options, table_options = table_call_options(what, **kwargs)
    source = _HuggingFaceSource(cls, dataset, what)
    if isinstance(dataset, source.datasets.IterableDataset):
        raise TypeError(
            f"{what}: expected a dataset whose rows are known, got one that is streamed; iter_huggingface gives "
            f"batches of it, and RecordStream({class_name(cls)}, dataset) single records for a DataLoader"
        )
    return source.read(source.table(), options, table_options)  # type: ignore[no-any-return]


def iter_huggingface(
    cls: type[C], dataset: Any, *, batch_size: int, drop_last: bool = False, **kwargs: Unpack[StreamKwargs]
) -> Iterator[C]:
    """Iterate over a ``datasets.Dataset`` or ``IterableDataset`` in batches. It can be larger than memory.

    Args:
        dataset: the dataset.
        StreamKwargs: batch_size, drop_last, nulls, mask_key, device, columns, rename, ragged, strict

    Returns:
        StreamKwargs

    Example:
        >>> import datasets
        >>> from tensorclass import TensorDict
        >>> dataset = datasets.Dataset.from_dict({"x": [1, 2, 3]})
        >>> [batch["x"].tolist() for batch in TensorDict.iter_huggingface(dataset, batch_size=2)]
        [[1, 2], [3]]
    """
    what = f"{class_name(cls)}.iter_huggingface"
    options, table_options = table_call_options(what, **kwargs)
    source = _HuggingFaceSource(cls, dataset, what)
    tables = dataset.with_format("arrow").iter(batch_size, drop_last_batch=drop_last)
    return (source.read(table, options.renamed(what), table_options) for table in tables)


def to_huggingface(data: TensorCollection, *, features: Any = None) -> Any:
    """Return a ``datasets.Dataset`` with one row per item of the batch.

    Further dimensions become lists of a fixed length, nested collections structs, ragged rows lists.

    Args:
        features: the ``datasets.Features`` of the dataset, such as ``ClassLabel``; by default they follow from the
            types of the values.

    Returns:
        A dataset in memory, which shares memory with the tensors where Arrow can.

    Raises:
        ImportError: datasets is not installed.
        ValueError: there is no batch dimension, or the features do not fit the columns.
        ConversionError: a value has a dtype that Arrow does not have.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": [1, 2], "text": ["a", "b"]}, [2]).to_huggingface()[1]
        {'x': 2, 'text': 'b'}
    """
    datasets = require("datasets", _EXTRA, "to_huggingface")
    pa = require("pyarrow", _EXTRA, "to_huggingface")
    check_has_rows(data, "to_huggingface")
    table = to_arrow(data)
    arrays = [_library_types(pa, column.combine_chunks()) for column in table.columns]
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


class _HuggingFaceSource:
    """A dataset and the reader of its tables."""

    def __init__(self, cls: Any, dataset: Any, what: str) -> None:
        self.cls, self.dataset, self.what = cls, dataset, what
        self.datasets = require("datasets", _EXTRA, what.rpartition(".")[2])
        self.pa = require("pyarrow", _EXTRA, what.rpartition(".")[2])
        if isinstance(dataset, (self.datasets.DatasetDict, self.datasets.IterableDatasetDict)):
            splits = list(dataset)
            raise TypeError(
                f"{what}: expected one dataset, got a {type_name(dataset)} with the splits {splits}; take one, "
                f"dataset[{splits[0] if splits else 'name'!r}], or all of them with TensorDict.from_dict(dataset)"
            )
        if not isinstance(dataset, (self.datasets.Dataset, self.datasets.IterableDataset)):
            raise TypeError(f"{what}: expected a datasets.Dataset, got {describe_source(dataset)}")
        if getattr(dataset, "format", {}).get("type") == "custom":
            raise TypeError(
                f"{what}: the dataset has a transform, which makes its rows when they are read: use "
                "dataset.map(...), dataset.with_format(None) for what is stored, or RecordDataset for single records"
            )
        self.features: Mapping[str, Any] = dataset.features or {}

    def table(self) -> Any:
        """Return all rows of the dataset as an Arrow table, in the order of the dataset."""
        shown = self.dataset.format["columns"]
        names = [name for name in self.dataset.column_names if shown is None or name in shown]
        indices = self.dataset._indices
        if indices is None:
            return self.dataset.with_format("arrow", columns=names)[:]
        # indexing the dataset would cut the table into one piece for each row
        return self.dataset.data.table.select(names).take(indices.column(0).combine_chunks())

    def read(self, table: Any, options: ConversionOptions, table_options: TableOptions) -> Any:
        """Convert a table of the dataset."""
        names: list[str] = table.column_names
        columns = table_options.columns
        read = set(names if columns is None else columns)
        arrays: list[Any] = []
        for name, column in zip(names, table.columns, strict=True):
            feature = self.features.get(name)
            if name in read and (decoder := _decoding_feature(feature)):
                options.problems.add(
                    (name,), "values that are stored as they are", f"a feature {decoder} that decodes them",
                    f"dataset.cast_column({name!r}, {decoder}(decode=False)) gives what is stored, RecordDataset "
                    "decodes each sample",
                )  # fmt: skip
                read.discard(name)
            arrays.append(self._column((table_options.rename or {}).get(name, name), column, feature))
        plain = self.pa.table(dict(zip(names, arrays, strict=True)))
        if len(plain.columns):
            plain = plain.replace_schema_metadata(table.schema.metadata)
        missing = [name for name in columns or () if name not in names]
        chosen = [name for name in names if name in read] + missing
        return read_table(self.cls, plain, options, table_options._replace(columns=chosen))

    def _column(self, name: str, column: Any, feature: Any) -> Any:
        """Convert a column whose feature has more information than its Arrow type, such as names of classes."""
        if isinstance(feature, self.datasets.ClassLabel):
            declared = ColumnSchema.of(self.cls, key_of_columns(self.cls, [name]))
            # no codes: read, or refused, as what it is
            if declared is not None and _takes_names(declared) and self.pa.types.is_integer(column.type):
                codes = column.combine_chunks().to_pylist()
                names = [None if code is None or code < 0 else feature.int2str(code) for code in codes]
                return self.pa.array(names, self.pa.string())
        shape = getattr(feature, "shape", None)
        if isinstance(column.type, self.pa.BaseExtensionType) and shape and None not in shape:
            return self._arrays(column, tuple(shape))
        return column

    def _arrays(self, column: Any, shape: tuple[int, ...]) -> Any:
        """Convert arrays of one shape, stored as lists of lists, to tensors on the same numbers."""
        whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        values = whole.storage
        if values.null_count:
            return values
        for _ in shape:
            values = values.flatten()
        size = math.prod(shape)
        if len(values) != len(whole) * size or not size:
            return whole.storage
        return of_one_shape(self.pa, values, shape)


def _takes_names(declared: ColumnSchema) -> bool:
    """Return whether a field of text takes the names of classes instead of their codes. No class (-1) becomes null."""
    types = () if declared.spec is None or declared.holds not in ("object", "column") else declared.spec.types
    return any(issubclass(str, one) or issubclass(one, Text) for one in types)


def _decoding_feature(feature: Any) -> str:
    """Return the name of a feature, here or nested, that decodes stored values (images, audio); empty without one."""
    if getattr(feature, "decode", False) is True:
        return type(feature).__name__
    held: Any = feature
    inner: list[Any] = [held.feature] if hasattr(held, "feature") else []
    if isinstance(feature, Mapping):
        inner = list(held.values())
    return next((name for name in map(_decoding_feature, inner) if name), "")


# -- out --------------------------------------------------------------------------------------------------------------


def _library_types(pa: Any, array: Any) -> Any:
    """Convert an array to types that the library has: fixed lists for tensors, values for dictionary codes."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    arrow_type = array.type
    if isinstance(arrow_type, pa.FixedShapeTensorType):
        shape: list[int] = list(arrow_type.shape)
        values = array.storage.flatten()
        for size in reversed(shape):
            values = pa.FixedSizeListArray.from_arrays(values, size)
        return values
    if pa.types.is_dictionary(arrow_type):
        return array.dictionary_decode()
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        items = _library_types(pa, array.values)
        if items.type == arrow_type.value_type:
            return array
        made = (pa.large_list if pa.types.is_large_list(arrow_type) else pa.list_)(items.type)
        return pa.Array.from_buffers(made, len(array), array.buffers()[:2], offset=array.offset, children=[items])
    if pa.types.is_struct(arrow_type):
        names: list[str] = [field.name for field in arrow_type]
        parts = [_library_types(pa, part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, names) if names else array
    return array
