"""Tables of pandas: a column is a value, a row an item of the batch.

Numbers become tensors; rows that are lists or arrays, further dimensions where they are of one shape and jagged tensors
where they are not; rows that are dicts, nested collections; text and the rest, objects.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.nontensor import stack_of
from tensorclass.td.objects import row_by_row
from tensorclass.td.values import as_tensor

from .arrow_extensions import check_extensions
from .arrow_numbers import Unreadable
from .arrow_text import Text, is_text
from .declared import NOTHING, Declared, filled, fitted
from .extras import require
from .memory import make_writable
from .readers import described, is_dataframe
from .tree import BatchSize, C, Plan, build, converted_entries, entries, objects, plan

Path: TypeAlias = tuple[str, ...]
Nulls: TypeAlias = Literal["default", "raise", "fill", "mask"]

_EXTRA = "pandas"
_NULLS = ("default", "raise", "fill", "mask")
_MASK = "_mask"  #: where the masks are written by default
_EXACT = 2**53  #: up to here a double is every whole number

# torch has a part of its type only
_from_numpy: Callable[[Any], Tensor] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def from_pandas(
    cls: type[C],
    dataframe: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    copy: bool | None = True,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_pandas`."""
    asked = plan(f"{cls.__name__}.from_pandas", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    require("pandas", _EXTRA, "from_pandas")
    if nulls not in _NULLS:
        raise ValueError(f"from_pandas: expected nulls to be one of {_NULLS}, got {nulls!r}")
    if mask_key is not None and nulls != "mask":
        raise ValueError(f"from_pandas: mask_key={mask_key!r} needs nulls='mask', got nulls={nulls!r}")
    if not is_dataframe(dataframe):
        hint = "; .to_frame() makes a table of it" if hasattr(dataframe, "to_frame") else ""
        raise TypeError(f"{asked.what}: expected a pandas.DataFrame, got {described(dataframe)}{hint}")
    reader = _Reader(asked, dtype, copy, nulls, len(dataframe))
    values: dict[Any, Any] = {}
    for path, (_, given) in zip(_paths(dataframe.columns.tolist(), separator, asked), dataframe.items(), strict=True):
        if path is not None:
            column = reader.column(given, path, Declared.of(cls, path))
            if column is not _FAILED:
                values[path] = column
    for name in dataframe.index.names:
        declared = None if name is None or (str(name),) in values else Declared.of(cls, (str(name),))
        if declared is not None and declared.spec is not None and declared.default() is NOTHING:
            asked.problems.add((str(name),), declared.shown, "the index", "table.reset_index() makes columns of it")
    if reader.masks:
        where = unravel_key_to_tuple(mask_key or _MASK)
        if where in values or where[:1] in values:
            asked.problems.add(where, "no column where the masks are written", "one", "give mask_key=")
        else:
            values |= {(*where, *path): mask for path, mask in reader.masks.items()}
    if not asked.auto and asked.batch_size is None:
        asked = asked._replace(batch_size=Size((len(dataframe),)))
    entered = fitted(cls, converted_entries(values, cls, asked), [len(dataframe)])
    return build(cls, entered, asked)  # type: ignore[no-any-return]


def to_pandas(data: TensorCollection, *, separator: str | None = None, copy: bool = True) -> Any:
    """See :meth:`TensorDict.to_pandas`."""
    pandas = require("pandas", _EXTRA, "to_pandas")
    if data.batch_dims != 1:
        raise ValueError(
            f"to_pandas: expected one batch dimension, the rows; got the batch size {list(data.batch_size)}. "
            "reshape(-1) makes one of several, unsqueeze(0) one of none"
        )
    columns: dict[str, Any] = {}
    _collect(pandas, data, separator, (), columns)
    return pandas.DataFrame(columns, index=pandas.RangeIndex(len(data)), copy=copy)


# -- labels -----------------------------------------------------------------------------------------------------------


def _paths(labels: Any, separator: str | None, asked: Plan) -> list[Path | None]:
    """The keys of columns by their labels; ``None`` for those that have none of their own, which is noted."""
    seen: dict[Path, bool] = {}  # whether it stands for a column, or for what is above some
    result: list[Path | None] = []
    for label in labels:
        path = _path(label, separator)
        parents = [path[:depth] for depth in range(1, len(path))]
        taken = path in seen or any(seen.get(parent) for parent in parents)
        if taken:
            got = "several" if seen.get(path) else "columns both at this key and below it"
            asked.problems.add(path, "one column", got, f"give the column {label!r} a name of its own")
        else:
            seen |= dict.fromkeys(parents, False)
            seen[path] = True
        result.append(None if taken else path)
    return result


def _path(label: Any, separator: str | None) -> Path:
    parts: list[str]
    if isinstance(label, tuple):  # of columns on several levels; pandas writes "" where one has fewer
        levels = cast("tuple[object, ...]", label)
        parts = [str(level) for level in levels if level != ""] or [""]
    else:
        parts = [str(label)]
    if separator is not None:
        parts = [name for part in parts for name in part.split(separator)]
    return tuple(parts)


# -- in ---------------------------------------------------------------------------------------------------------------

_FAILED: Any = object()  #: stands for a column that cannot be read; what is wrong is noted


class _Numbers(NamedTuple):
    """A column of numbers as an array."""

    array: Any
    #: ``True`` for each row without a number, where the array has anything; ``None`` where all have one
    missing: Any = None
    #: whether the array is the memory of the table
    shared: bool = False
    #: whether they are times, in nanoseconds
    times: bool = False


class _Reader:
    """Reads columns the way that was asked for."""

    def __init__(self, asked: Plan, dtype: torch.dtype | None, copy: bool | None, nulls: Nulls, rows: int) -> None:
        self.asked, self.dtype, self.copy, self.rows = asked, dtype, copy, rows
        self.nulls: Nulls = nulls
        self.masks: dict[Path, Tensor] = {}

    def column(self, column: Any, path: Path, declared: Declared | None) -> Any:
        """A column as the value under a key. ``_FAILED`` where it cannot be; what is wrong is noted."""
        if declared is None:  # no field: an error, or left out; so nothing else is wrong with it
            return None
        if (held := getattr(column.dtype, "pyarrow_dtype", None)) is not None:
            try:
                check_extensions(require("pyarrow", _EXTRA, "from_pandas"), held)
            except Unreadable as error:
                self.asked.problems.add(path, *error.problem)
                return _FAILED
        if (text := _text(column, declared)) is not None:
            return stack_of(text, row_by_row(Size((self.rows,))), None, None)
        if declared.kind == "object":
            missing = column.isna().to_numpy()
            if (
                self.nulls == "default"
                and _is_plain(column.dtype)
                and column.dtype.kind == "f"
                and _keeps_nan(declared)
            ):
                missing = np.zeros_like(missing)
            return self._objects(_objects_of(column, declared), missing, path, declared)
        try:
            numbers = None if declared.kind == "collection" else _numbers(column, declared, self.nulls)
        except (ValueError, OverflowError) as error:  # times that are too far away
            return self._fail(path, declared, f"a column of dtype {column.dtype}", str(error))
        if numbers is not None:
            return self._of_numbers(numbers, path, declared)
        return self._of_objects(column, path, declared)

    def _fail(self, path: Path, declared: Declared, got: str, hint: str) -> Any:
        self.asked.problems.add(path, declared.shown, got, hint)
        return _FAILED

    def _of_numbers(self, numbers: _Numbers, path: Path, declared: Declared) -> Any:
        array, missing = numbers.array, numbers.missing
        if missing is not None and not missing.any():
            missing = None
        tensor = self._tensor(array, numbers.shared and missing is None, path, declared)
        if tensor is _FAILED or missing is None:
            return tensor
        if self.nulls == "default" and declared.kind == "any" and declared.default() in (NOTHING, None):
            return self._as_the_peer(numbers, tensor, path, declared)
        return self._settled(tensor, missing, path, declared)

    def _tensor(self, array: Any, shared: bool, path: Path, declared: Declared) -> Any:
        if shared and (self.copy or array.dtype.kind == "V"):
            array = array.copy()
        elif self.copy is False and self.rows and not (shared and _is_shareable(array)):
            why = "its numbers do not stand in memory as torch needs them"
            return self._fail(path, declared, f"a column that cannot be read without a copy: {why}", "leave copy=False")
        elif shared and _is_shareable(array):
            array = np.asarray(_Memory(array))
        tensor = as_tensor(array)
        if tensor is None:
            return self._fail(path, declared, f"a column of dtype {array.dtype}", "torch does not have it: convert it")
        return tensor if self.dtype is None else tensor.to(self.dtype)

    def _as_the_peer(self, numbers: _Numbers, tensor: Tensor, path: Path, declared: Declared) -> Any:
        """Missing numbers where nothing says what stands for them: nan, and ``None`` among booleans."""
        missing = numbers.missing
        if numbers.times:
            return self._fail(path, declared, *_gaps(missing, "times"))
        if tensor.is_floating_point() or tensor.is_complex():
            return tensor  # which has nan there
        if numbers.array.dtype == bool:
            return objects([None if gone else bool(item) for item, gone in zip(numbers.array, missing, strict=True)],
                           Size((self.rows,)))  # fmt: skip
        if (np.abs(numbers.array[~missing].astype(object)) > _EXACT).any():
            got = "missing values beside numbers that a float with nan for them cannot hold"
            return self._fail(path, declared, got, "fill them, with .fillna or nulls='fill'")
        return torch.where(_from_numpy(missing), torch.nan, tensor.double())

    def _settled(self, values: Tensor, missing: Any, path: Path, declared: Declared) -> Any:
        """A tensor with what stands for the rows that are missing."""
        given = _from_numpy(~missing)
        if self.nulls == "mask":
            self.masks[path] = given
        if self.nulls in ("fill", "mask"):
            return values
        default = NOTHING if self.nulls == "raise" else declared.default()
        if default is None and missing.all():
            return None
        made = None if default is NOTHING or default is None else filled(values, given, default)
        if made is None:
            return self._fail(path, declared, *_gaps(missing, "values"))
        return made if self.dtype is None else made.to(self.dtype)

    def _objects(self, items: list[Any], missing: Any, path: Path, declared: Declared) -> Any:
        """Objects row by row."""
        if missing.any():
            if self.nulls == "raise":
                return self._fail(path, declared, *_gaps(missing, "values"))
            if self.nulls == "mask":
                self.masks[path] = _from_numpy(~missing)
            default = declared.default() if self.nulls == "default" else None
            if default in (NOTHING, None) and self.nulls == "default" and not declared.optional:
                return self._fail(path, declared, *_gaps(missing, "values"))
            plain = default in (NOTHING, None)
            items = [
                (None if plain else declared.default()) if gone else item
                for item, gone in zip(items, missing, strict=True)
            ]
        return objects(items, Size((self.rows,)), "")

    def _of_objects(self, column: Any, path: Path, declared: Declared) -> Any:
        """A column of objects that may be lists, arrays, dicts, numbers."""
        items, missing = column.tolist(), column.isna().to_numpy()
        present = [item for item, gone in zip(items, missing, strict=True) if not gone] if missing.any() else items
        if declared.kind == "any":
            kinds: set[type] = {*map(type, present)}
            if present and len(present) == len(items):
                if all(issubclass(kind, dict) for kind in kinds) and len({tuple(item) for item in present}) == 1:
                    return self._of_dicts(items, path, declared)
                if all(issubclass(kind, (list, np.ndarray, Tensor)) for kind in kinds):
                    tensor = _stacked(present)
                    if tensor is not None:
                        return tensor if self.dtype is None else tensor.to(self.dtype)
            return self._objects(items, missing, path, declared)
        if not present and items:
            return self._settled(torch.zeros(self.rows), missing, path, declared)
        if declared.kind == "collection":
            if not missing.any() and all(isinstance(item, (list, np.ndarray)) for item in present):
                return self._of_lists(present, path, declared)
            rows = [None if gone else entries(item) for item, gone in zip(items, missing, strict=True)]
            if all(row is not None or gone for row, gone in zip(rows, missing, strict=True)):
                return self._of_dicts(rows, path, declared)
            odd = next(item for item in present if entries(item) is None)
            return self._fail(path, declared, f"a column of {type(odd).__name__}", "its rows must be dicts")
        return self._stack(items, missing, present, path, declared)

    def _of_lists(self, lists: list[Any], path: Path, declared: Declared) -> Any:
        """Rows of lists of dicts, all as long, as a nested collection with a further dimension."""
        lengths = {len(items) for items in lists}
        if len(lengths) > 1:
            got = f"a column with lists of {min(lengths)} to {max(lengths)} items"
            return self._fail(
                path, declared, got, "a collection takes lists of one length; from_list makes a lazy stack"
            )
        size = (len(lists), *lengths)
        inner = _Reader(self.asked, self.dtype, self.copy, self.nulls, len(lists) * max(lengths, default=0))
        column = require("pandas", _EXTRA, "from_pandas").Series(
            [one for items in lists for one in items], dtype=object
        )
        made = inner.column(column, path, declared)
        self.masks |= {where: mask.reshape(size) for where, mask in inner.masks.items()}
        return _reshaped(made, size) if isinstance(made, dict) else made

    def _of_dicts(self, rows: list[Any], path: Path, declared: Declared) -> Any:
        """Rows of dicts as a column for each key."""
        series = require("pandas", _EXTRA, "from_pandas").Series
        keys: dict[Any, None] = {key: None for row in rows if row is not None for key in row}
        values: dict[Any, Any] = {}
        for key in keys:
            column = series([None if row is None else row.get(key) for row in rows])
            inner = Declared.of(declared.target, (key,))
            values[key] = self.column(column, (*path, key), inner)
        return {key: value for key, value in values.items() if value is not _FAILED}

    def _stack(self, items: list[Any], missing: Any, present: list[Any], path: Path, declared: Declared) -> Any:
        """Rows of numbers, lists or arrays as the tensor that a field holds."""
        tensor = _stacked(present)
        if tensor is None:
            kinds = sorted({type(item).__name__ for item in present})
            got = f"a column with rows of {', '.join(kinds)} that are no numbers, or no arrays that fit each other"
            return self._fail(path, declared, got, "convert them, or declare the field as objects")
        if not missing.any():
            return tensor if self.dtype is None else tensor.to(self.dtype)
        if not tensor.is_nested:
            nothing = torch.nan if tensor.is_floating_point() else 0
            rows = tensor.new_full((self.rows, *tensor.shape[1:]), nothing)
            rows[_from_numpy(~missing)] = tensor
            return self._settled(rows, missing, path, declared)
        default: Any = declared.default() if self.nulls == "default" else []
        if self.nulls == "raise" or default is NOTHING or default is None:
            return self._fail(path, declared, *_gaps(missing, "values"))
        if self.nulls == "mask":
            self.masks[path] = _from_numpy(~missing)
        whole = _stacked([default if gone else item for item, gone in zip(items, missing, strict=True)])
        if whole is None:
            return self._fail(path, declared, *_gaps(missing, "values"))
        return whole if self.dtype is None else whole.to(self.dtype)


def _reshaped(values: Any, size: tuple[int, ...]) -> Any:
    """The values of a nested collection with other dimensions in front than the one that they have."""
    if isinstance(values, dict):
        parts = cast("dict[str, Any]", values)
        return {key: _reshaped(value, size) for key, value in parts.items()}
    return None if values is None else values.reshape(*size, *values.shape[1:])


def _numbers(column: Any, declared: Declared, nulls: Nulls) -> _Numbers | None:
    """The numbers of a column, if it has such: those of numpy, nullable ones, those of Arrow, sparse ones, times."""
    own: Any = column.dtype
    kind = own.kind
    if _is_plain(own) and kind in "biufc":
        array = column.to_numpy()
        needed = kind in "fc" and (nulls != "default" or not _keeps_nan(declared))  # else nan is the number it is
        return _Numbers(array, np.isnan(array) if needed else None, True)
    name = str(own)
    if name.startswith("Sparse"):
        dense = _numbers(column.sparse.to_dense(), declared, nulls)
        return None if dense is None else dense._replace(shared=False)
    if name == "category":
        if column.cat.categories.dtype.kind not in "biufcM":
            return None
        return _numbers(column.astype(object).infer_objects(), declared, nulls)  # categories are their values
    if kind in "mM" and (declared.kind == "tensor" or (kind == "M" and not name.startswith("date32"))):
        column = column.astype("datetime64[s]") if name.startswith("date32") else column
        missing = column.isna().to_numpy()
        times = column.dt.as_unit("ns").to_numpy(dtype=f"{kind}8[ns]").view(np.int64)
        return _Numbers(np.where(missing, 0, times) if missing.any() else times, missing, name.endswith("[ns]"), True)
    if kind not in "biuf":
        return None
    missing = column.isna().to_numpy()
    if not missing.any():
        return _Numbers(column.to_numpy(dtype=own.numpy_dtype), missing, kind != "b")
    nothing = np.nan if kind == "f" else own.numpy_dtype.type(0)
    return _Numbers(column.to_numpy(dtype=own.numpy_dtype, na_value=nothing), missing)


def _keeps_nan(declared: Declared) -> bool:
    """Whether nan is a number like others in a column of floats: the field holds it, and has nothing in its place.

    pandas writes nan for a missing number, and for one that is not a number.
    """
    spec = declared.spec
    if spec is None:
        return True
    if declared.default() not in (NOTHING, None):
        return False
    if declared.kind == "object":
        return float in spec.types and not spec.optional
    dtypes = None if spec.contract is None else spec.contract.dtypes
    return dtypes is None or any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)


def _text(column: Any, declared: Declared) -> Text | None:
    """The text of a column, if it is held by Arrow and no row is missing, and if text is what it is for."""
    own: Any = column.dtype
    types = () if declared.spec is None else declared.spec.types
    if _is_plain(own) or declared.kind not in ("any", "object") or (types and str not in types) or not len(column):
        return None
    if not (own.name in ("str", "string") and own.storage == "pyarrow"):
        return None
    pa = require("pyarrow", _EXTRA, "from_pandas")
    held = pa.array(column.array)
    return Text(pa, held) if is_text(pa, held.type) and not held.null_count else None


def _is_plain(dtype: object) -> bool:
    """Whether a dtype of pandas is one of numpy."""
    return isinstance(dtype, np.dtype)


def _objects_of(column: Any, declared: Declared) -> list[Any]:
    """The rows of a column as Python's objects, of the classes that the field takes where pandas has others."""
    items: list[Any] = column.tolist()
    types = () if declared.spec is None else declared.spec.types
    if column.dtype.kind == "f" and int in types and float not in types:  # floats because values are missing
        return [int(item) if item == item and item is not None and item % 1 == 0 else item for item in items]
    if column.dtype.kind != "O":  # text is, too
        return items
    lists = next((kind for kind in types if kind in (list, tuple)), None)
    members: list[Any] = [kind.__members__ for kind in types if issubclass(kind, enum.Enum)]
    names: dict[str, Any] = dict(members[0]) if members else {}
    for position, item in enumerate(items):
        if names and isinstance(item, str) and str not in types:
            items[position] = names.get(item, item)
        elif isinstance(item, np.generic) and not isinstance(item, types or np.generic):
            items[position] = item.item()
        elif isinstance(item, np.ndarray) and lists is not None and np.ndarray not in types:  # as Parquet has them
            items[position] = lists(item.tolist())  # pyright: ignore[reportUnknownMemberType]
    return items


def _gaps(missing: Any, what: str) -> tuple[str, str]:
    """What was given, and what to do, where values are missing."""
    rows = np.flatnonzero(missing)
    got = f"{len(rows)} missing {what}, the first in row {rows[0]}"
    return got, "drop or fill them, give the field a default, or say nulls='fill' (with 0, False, nan, None) or 'mask'"


def _stacked(rows: list[Any]) -> Tensor | None:
    """Numbers, (nested) lists, arrays or tensors as one tensor, a jagged one where they differ in their length."""
    if not rows:
        return torch.zeros(0)  # a table of no rows does not say what they would be
    if all(issubclass(kind, Tensor) for kind in {*map(type, rows)}):
        parts = [row.detach() if not row.requires_grad else row for row in rows]
        if len({part.shape for part in parts}) == 1:
            return torch.stack(parts)
    else:
        try:
            arrays = np.asarray(rows)
        except ValueError:  # ragged
            arrays = np.empty(0, dtype=object)
        if arrays.dtype.kind in "biufc":
            return as_tensor(arrays)
        try:
            parts = [torch.as_tensor(row if isinstance(row, Tensor) else np.array(row)) for row in rows]
        except (TypeError, ValueError):
            return None
    filled_parts = [part for part in parts if part.numel()] or parts
    if not all(part.ndim and part.shape[1:] == filled_parts[0].shape[1:] for part in filled_parts):
        return None
    if not all(part.ndim for part in parts):
        return None
    lengths = torch.tensor([len(part) for part in parts])
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return torch.nested.nested_tensor_from_jagged(torch.cat(filled_parts), offsets)


class _Memory:
    """The memory of an array for writing, though the array is not: pandas gives its own only for reading."""

    def __init__(self, array: Any) -> None:
        self.array = array  # kept alive
        place: int = array.__array_interface__["data"][0]
        self.__array_interface__: Mapping[str, Any] = {**array.__array_interface__, "data": (place, False)}


def _is_shareable(array: Any) -> bool:
    native = array.dtype.isnative and array.dtype.kind in "biufc"
    if not native or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        return False
    if array.flags.writeable or not array.size:
        return True
    place: int = array.__array_interface__["data"][0]  # a column of a file that is mapped cannot always be written to
    return make_writable(place, (len(array) - 1) * array.strides[0] + array.itemsize)


# -- out --------------------------------------------------------------------------------------------------------------


def _collect(pandas: Any, data: TensorCollection, separator: str | None, path: Path, columns: dict[str, Any]) -> None:
    for key, value in data._items_for_export(False):
        where = (*path, key)
        name = (separator or ".").join(where)
        if isinstance(value, TensorCollection) and value._is_tree():
            if separator is None:
                raise ValueError(
                    f"to_pandas: {name!r} is nested; give a separator for its columns: to_pandas(separator='.')"
                )
            _collect(pandas, value, separator, where, columns)
            continue
        if name in columns:
            raise ValueError(f"to_pandas: two values would become the column {name!r}; give another separator")
        columns[name] = _array(pandas, name, value) if isinstance(value, Tensor) else _items(pandas, value.tolist())


def _array(pandas: Any, name: str, value: Tensor) -> Any:
    if value.is_meta:
        raise TypeError(
            f"to_pandas: {name!r} is on the device meta and has no numbers; to_empty(device='cpu') gives it some"
        )
    value = value.detach().cpu()
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    if value.layout not in (torch.strided, torch.jagged):
        raise TypeError(f"to_pandas: {name!r} is a tensor of the layout {value.layout}; make it strided first")
    try:
        if value.is_nested:
            rows = [row.numpy() for row in value.unbind()]
        elif value.ndim == 1:
            return value.numpy()
        else:
            rows = list(value.numpy())
    except TypeError:
        raise TypeError(
            f"to_pandas: {name!r} has the dtype {value.dtype}, which numpy does not have; convert it first, for "
            f"instance with .to({torch.float32})"
        ) from None
    return pandas.Series(rows, dtype=object)


def _items(pandas: Any, items: list[Any]) -> Any:
    """Objects as pandas takes them; beside ``None``, numbers stay what they are."""
    if any(item is None for item in items) and any(isinstance(item, (bool, int, float)) for item in items):
        return pandas.Series(items, dtype=object)
    return items
