"""Names of pandas, polars and Hugging Face datasets that collections have under other names.

``record.describe()`` is an ``AttributeError`` like that of any name that a collection does not have, and names the verb
to use: ``summary()``. Each name is a descriptor that raises, so other attributes cost the same with and without it
(``__getattr__`` would slow down all of them), ``hasattr`` stays false, and fields can have these names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from .collection import Collection

_CAST = "replace(name=data.name.to(dtype))"
_REPLACE = "replace(name=values) returns a copy with other values of fields"
_NULLS = "tensors have no nulls; nulls= of from_pandas(), from_arrow() and other readers says what stands for them"

#: the advice for some names
_ADVICE: dict[str, str] = {
    # looking at data
    "columns column_names": "keys() has the names of the fields",
    "describe": "summary() has the statistics of each field",
    "dtypes": "print the collection to see the dtypes; attrs(fields=['dtype']) returns them",
    "estimated_size memory_usage": "bytes() is the size in memory",
    "features": "print the collection to see the fields; keys() has their names",
    "glimpse": "print the collection, or head()",
    "height num_rows": "len(data) is the number of rows",
    "info": "print the collection to see fields, dtypes and shapes; summary() has statistics",
    "num_columns width": "len(data.keys()) is the number of fields",
    # rows
    "concat append extend vstack": "torch.cat([data, other]) joins rows",
    "at iat": "data[3] is a row, data[3].name a value",
    "iloc": "index the collection itself: data[3], data[2:5], data[[0, 2]]",
    "index": "rows have their position as index; data[3], data[2:5] and data[[0, 2]] take them",
    "iter_rows iterrows itertuples rows": "for row in data iterates over the rows",
    "limit": "head(n) returns the first rows",
    "loc": "data[mask] and filter(function) take rows, select(keys) takes fields",
    "query": "data[mask] and filter(function) take rows",
    "reset_index": "rows have no index but their position",
    "set_index": "rows have no index but their position; keep its values in a field",
    "shuffle": "sample(len(data)) returns the rows in random order; DataLoader(data, shuffle=True) does in each epoch",
    "skip": "data[n:] leaves out the first rows",
    "slice": "data[start:stop] returns rows",
    # fields
    "add_column assign insert_column with_column with_columns": _REPLACE,
    "drop": "exclude(keys) leaves out fields, data[mask] rows",
    "remove_columns": "exclude(keys) leaves out fields",
    "rename_column rename_columns": "rename_keys({'old': 'new'}) renames keys",
    "select_columns": "select(keys) keeps fields",
    # values
    "applymap map_elements": "apply(function) calls a function with each tensor",
    "astype cast": f"to(dtype) casts fields of floats, float32() all fields; {_CAST} casts one",
    "cast_column": f"{_CAST} casts a field",
    "drop_nulls dropna fill_null fillna": _NULLS,
    "fill_nan": "apply(torch.nan_to_num) replaces NaN",
    "isna isnull": f"isnan() finds NaN; {_NULLS}",
    "map_rows": "map(function, dim=0) calls a function with rows, in several processes",
    # sorting, grouping, joining
    "agg aggregate": "group_by(keys).agg(...) aggregates groups; mean(), sum() and summary() all rows",
    "duplicated": "drop_duplicates(keys) keeps the first row of each value",
    "groupby partition_by": "group_by(keys) groups the rows",
    "merge": "join(other, on=keys) joins by keys",
    "n_unique nunique": "len(data.unique(keys)) is their number; summary() has it for each field",
    "nlargest top_k": "sort_by(keys, descending=True).head(n) returns them",
    "nsmallest": "sort_by(keys).head(n) returns them",
    "pivot": "to_pandas().pivot(...) makes a table of another form",
    "pivot_table": "to_pandas().pivot_table(...) makes a table of another form",
    "sort sort_index sort_values": "sort_by(keys) sorts the rows",
    # files, other libraries
    "from_dicts": "from_list(rows) takes a list of dicts",
    "from_generator": "RecordStream(cls, iterable) gives a DataLoader samples; from_list(list(rows)) takes all rows",
    "from_records": "from_list(rows) takes a list of dicts, from_struct_array() an array of numpy",
    "load_dataset": "from_huggingface(datasets.load_dataset(...)) reads one",
    "read_csv": "from_csv(path) reads a file",
    "read_feather read_ipc": "from_feather(path) reads a file",
    "read_json": "from_json(path) reads a file",
    "read_ndjson": "from_json(path, lines=True) reads a file",
    "read_parquet": "from_parquet(path) reads a file",
    "scan_csv": "iter_csv(path, batch_size=...) reads batches of rows",
    "scan_parquet": "iter_parquet(path, batch_size=...) reads batches of rows",
    "collect": "nothing is deferred; the collection has its values",
    "lazy": "nothing is deferred; iter_parquet() and other readers take files in batches",
    "load_from_disk": "load(path) opens what save(path) wrote",
    "save_to_disk": "save(path) writes a folder, or an archive",
    "set_format with_format": "the values are tensors; numpy() returns arrays by key",
    "to_dicts": "tolist() returns the rows as dicts",
    "to_excel": "to_pandas().to_excel(path) writes a workbook",
    "to_numpy": "numpy() returns arrays by key, data.name.numpy() one",
    "to_pickle": "torch.save(data, path) pickles; save(path) writes files that open at once",
    "to_records": "to_struct_array() returns a structured array of numpy",
    "to_sql": "to_pandas().to_sql(...) writes to a database",
    "to_torch": "the values are tensors",
    "write_csv": "to_csv(path) writes a file",
    "write_ipc": "to_feather(path) writes a file",
    "write_json": "to_json(path) writes a file",
    "write_ndjson": "to_json(path, lines=True) writes a file",
    "write_parquet": "to_parquet(path) writes a file",
}

#: the advice for each name
INSTEAD: dict[str, str] = {name: advice for names, advice in _ADVICE.items() for name in names.split()}


class NameElsewhere:
    """An attribute that there is not: reading it raises an ``AttributeError`` that says what to use.

    Instances of classes with a ``__dict__`` can have the attribute, as any other.
    """

    __slots__ = ("instead", "name")

    def __init__(self, name: str, instead: str) -> None:
        self.name: str = name
        self.instead: str = instead

    def __get__(self, instance: object, owner: type) -> Any:
        attributes = getattr(instance, "__dict__", {})
        if instance is not None and self.name in attributes:
            return attributes[self.name]
        name = repr(owner.__name__)
        raise self._missing(f"type object {name}" if instance is None else f"{name} object")

    def __set__(self, instance: object, value: object) -> None:
        self._attributes(instance)[self.name] = value

    def __delete__(self, instance: object) -> None:
        if self._attributes(instance).pop(self.name, self) is self:
            raise self._missing(f"{type(instance).__name__!r} object")

    def __repr__(self) -> str:
        return f"<no attribute; {self.instead}>"

    def _attributes(self, instance: object) -> dict[str, Any]:
        if not hasattr(instance, "__dict__"):
            raise self._missing(f"{type(instance).__name__!r} object")
        return vars(instance)

    def _missing(self, owner: str) -> AttributeError:
        # the name alone, without the object: so Python looks for no other name
        return AttributeError(f"{owner} has no attribute {self.name!r}; {self.instead}", name=self.name)


class DataFrameNames(Collection):
    """Errors for names of data frames, and the list of attributes without them."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """Return the names of attributes, without the private ones of this package.

        Where a name is missing, Python looks for a similar one only among at most 750.
        """
        cls = type(self)
        private = {
            name for base in cls.__mro__ if base.__module__.startswith("tensorclass.") for name in vars(base)
            if name.startswith("_") and not name.endswith("__")
        }  # fmt: skip
        return [name for name in own_names(cls, super().__dir__()) if name not in private]


def own_names(cls: type, names: Iterable[str]) -> list[str]:
    """Return the names that are attributes of a class, in order.

    >>> class Table(DataFrameNames):
    ...     columns = 3
    >>> own_names(Table, ["columns", "describe", "keys"])
    ['columns', 'keys']
    """
    return [
        name
        for name in names
        if name not in INSTEAD or not isinstance(inspect.getattr_static(cls, name, None), NameElsewhere)
    ]


for _name, _instead in INSTEAD.items():
    setattr(DataFrameNames, _name, NameElsewhere(_name, _instead))
