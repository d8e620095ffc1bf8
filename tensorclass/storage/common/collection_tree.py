"""The description of a collection that all file formats share: a tree of JSON nodes, and tensors by path.

A *node* is a dict with a ``"type"``:

- ``collection``: ``batch_size``, ``names`` (absent if there are none), ``class`` (of a record: module and name) and
  ``entries``, a node for each key;
- ``lazy_stack``: ``stack_dim``, ``stack_dim_name`` and ``parts``, a node for each item;
- ``tensor``: ``dtype`` and ``shape``; ``unbatched``, one tensor for all rows, has the same;
- ``jagged``: ``dtype`` and ``shape`` of the concatenated values, ``rows``: the number of rows. The tensor is written as
  two buffers: the values, and the ``offsets`` where rows begin;
- ``column``: a :class:`Text` or :class:`Ragged`. ``column`` is the name of the class; ``entries`` has the nodes of
  ``values``, the items of all rows in order (a ``column`` for ragged of ragged), and of ``spans``, start and length of
  each row; ``missing`` says whether a row has no value (length -1); ``names`` as for collections; ``batch_size`` is
  that of the outermost column, for the peer, which reads a collection of ``values`` and ``spans``;
- ``strings``: many objects that are strings, with their ``batch_size``. ``entries`` has the nodes of ``values`` (UTF-8)
  and ``spans`` of the distinct strings, and of ``codes``, the string of each row;
- ``object``: one object for all rows as ``data``, and the ``batch_size``; ``objects``: ``data`` is a flat list with an
  object for each row. :mod:`tensorclass.storage.common.object_json` turns objects into JSON.

Nodes of tensors have ``crc32`` if checksums were asked for: a number for each buffer, in the order of writing.

:func:`describe` makes the tree of a collection, :func:`rebuild` makes a collection from a tree. A format writes the
tree and the tensors, and reads a tensor by its path.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Size, Tensor
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

from tensorclass.records.record import TensorClass
from tensorclass.records.typed import TypedTensorDict
from tensorclass.support.printable import printable
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.nontensor import MetaData, NonTensorData, NonTensorDataBase, stack_of
from tensorclass.td.leaves.object_codes import codes_row_by_row, drop_unused, to_lists
from tensorclass.td.leaves.unbatched_tensor import UnbatchedTensor
from tensorclass.td.memory.consolidated_buffer import WHOLE, is_sharded
from tensorclass.td.memory.mapped_files import pieces
from tensorclass.td.stores.lazy.lazy_base import lazily
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.stores.store_classes import dense_class
from tensorclass.td.tensordict import TensorDict

from .object_json import Unwritable, decode, encode

Node: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

VERSION = 1  #: the version of this description

#: the dtypes that files can hold, by name
DTYPES: dict[str, torch.dtype] = {
    str(found).removeprefix("torch."): found
    for found in vars(torch).values()
    if isinstance(found, torch.dtype) and not re.match(r"torch\.(q|bits|u?int[1-7]$)", str(found))
}

#: the most levels of nested collections in a file
DEPTH = 200


class TensorLeaf(NamedTuple):
    """A buffer of a tensor in a tree."""

    path: Path  #: keys, and positions in lazy stacks
    buffer: str  #: ``""`` for the values, ``"offsets"`` for those of a jagged tensor
    tensor: Tensor
    node: Node  #: the node of the tensor
    of_objects: bool = False  #: it holds strings of a stack of objects, and is no tensor of the collection


class TensorReader(Protocol):
    """Reads a buffer of a tensor from a file."""

    def __call__(self, path: Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor: ...


class FileError(ValueError):
    """A file is damaged, or does not fit the class that is loaded from it."""

    def __init__(self, *args: object) -> None:
        # names of files and keys are not trusted
        super().__init__(*(printable(one, lines=True) if isinstance(one, str) else one for one in args))


# ---------------------------------------------------------------------------------------------------------------------
# writing


def describe(
    data: TensorCollection,
    what: str,
    allow_pickle: bool | None = False,
    checksum: bool = False,
    within: Path = (),
    string_arrays: bool = True,
) -> tuple[Node, list[TensorLeaf]]:
    """Return the tree of a collection, and its tensors.

    Args:
        data: the collection.
        what: the caller, for errors.
        allow_pickle: pickle objects that have no JSON form; ``None`` if the format has no pickles.
        checksum: add checksums to the nodes of tensors.
        within: the key of the collection in an existing file, for errors; paths of tensors do not begin with it.
        string_arrays: describe many strings by arrays, not in the tree.

    Raises:
        TypeError: some values cannot be written, or could not be loaded again. The message lists all of them.
    """
    leaves: list[TensorLeaf] = []
    problems: list[str] = []
    node = _describe(data, within, leaves, problems, allow_pickle, string_arrays)
    if within:
        leaves = [leaf._replace(path=leaf.path[len(within) :]) for leaf in leaves]
    if problems:
        raise TypeError(f"{what}: nothing was written; " + "; ".join(problems))
    if checksum:
        for leaf in leaves:
            leaf.node.setdefault("crc32", []).append(checksum_of(leaf.tensor))
    return node, leaves


def describe_value(value: Any, path: Path, allow_pickle: bool, strict: bool = True) -> tuple[Node, list[str]]:
    """Return the node of one value, and the reasons why it cannot be written; raise for these if ``strict``.

    Strings are never in arrays of their own: HDF5 and zarr have arrays of strings.
    """
    problems: list[str] = []
    node = _describe(value, path, [], problems, allow_pickle, False)
    if problems and strict:
        raise TypeError("; ".join(problems))
    return node, problems


def collection_head(value: TensorCollection) -> Node:
    """Return the part of a collection's node that precedes its entries: batch size, names and class."""
    node: Node = {"batch_size": list(value._batch_size)}
    if value._names is not None:
        node["names"] = list(value._names)
    cls: Any = dense_class(value.__class__)
    if issubclass(cls, TensorClass):
        class_node: Node = {"module": cls.__module__, "name": cls.__qualname__}
        # without this list, such fields would get their defaults on loading
        if none := [name for name, spec in cls._specs.items() if spec.default is not None and name not in value._store]:
            class_node["none"] = none
        node["class"] = class_node
    return node


def none_fields(node: Node) -> list[Any]:
    """Return the fields of a record that were ``None`` although they have another default."""
    return as_list((as_dict(node.get("class")) or {}).get("none")) or []


def _describe(
    value: Any,
    path: Path,
    leaves: list[TensorLeaf],
    problems: list[str],
    allow_pickle: bool | None,
    string_arrays: bool = True,
) -> Node:
    if isinstance(value, Tensor):
        return describe_tensor(value, path, leaves, problems)
    if isinstance(value, NonTensorDataBase):
        strings = _describe_strings(value, path, leaves, problems) if string_arrays else None
        return _describe_objects(value, path, problems, allow_pickle) if strings is None else strings
    if isinstance(value, BufferColumn):
        return _describe_column(value, path, leaves, problems)
    if isinstance(value, UnbatchedTensor):
        one = describe_tensor(value._tensor, path, leaves, problems)
        one["type"] = "unbatched"
        return one
    if len(path) > DEPTH:
        problems.append(f"{'.'.join(path[:3])}: collections are nested deeper than {DEPTH} levels")
        return {}
    if isinstance(value, LazyStacked):
        store: Any = value._store
        return {
            "type": "lazy_stack",
            "stack_dim": store.dim,
            "stack_dim_name": store.name,
            "parts": [
                _describe(item, (*path, str(at)), leaves, problems, allow_pickle, string_arrays)
                for at, item in enumerate(store.items_)
            ],
        }
    _check_size(value._batch_size, path, problems)
    node: Node = {"type": "collection", **collection_head(value)}
    node["entries"] = {
        key: _describe(item, (*path, key), leaves, problems, allow_pickle, string_arrays)
        for key, item in value._store.items()
    }
    return node


def describe_tensor(value: Tensor, path: Path, leaves: list[TensorLeaf], problems: list[str]) -> Node:
    """Return the node of a tensor. Appends its buffers to ``leaves``, and reasons why it cannot be written."""
    dtype = str(value.dtype).removeprefix("torch.")
    name = ".".join(path)
    node: Node = {"type": "tensor", "dtype": dtype, "shape": list(value.shape)}
    if dtype not in DTYPES:
        problems.append(f"{name}: files have no tensors of the dtype {value.dtype}")
    elif value.is_meta:
        problems.append(f"{name}: a tensor on the device meta has no values")
    elif value.is_nested and value.layout == torch.jagged:
        jagged: Any = value
        if jagged.lengths() is not None or jagged._ragged_idx != 1:
            problems.append(f"{name}: a jagged tensor with holes, or a ragged dimension other than 1; clone it first")
        else:
            _check_size(jagged.values().shape, path, problems)
            node.update(type="jagged", shape=list(jagged.values().shape), rows=len(jagged))
            leaves.append(TensorLeaf(path, "", jagged.values(), node))
            leaves.append(TensorLeaf(path, "offsets", jagged.offsets().to(torch.int64), node))
    elif is_sharded(value):
        problems.append(f"{name}: {WHOLE}")
    elif value.layout != torch.strided:
        problems.append(f"{name}: a tensor of the layout {value.layout}; make it dense first, with to_dense()")
    else:
        _check_size(value.shape, path, problems)
        leaves.append(TensorLeaf(path, "", value, node))
    return node


def _describe_column(
    value: Any, path: Path, leaves: list[TensorLeaf], problems: list[str], size: Size | None = None
) -> Node:
    """Return the node of a column. Only the items of its rows are written, in the order of the rows.

    ``size`` is the batch size of the outermost column of ragged rows of ragged rows.
    """
    compact = value.compact()
    items, spans = compact._items, compact._spans()
    outer: Size = value._batch_size if size is None else size
    node = {**column_head(compact), "batch_size": list(outer)}
    _check_size(spans.shape, path, problems)
    below = (*path, "values")
    node["entries"] = {
        "values": describe_tensor(items, below, leaves, problems)
        if isinstance(items, Tensor)
        else _describe_column(items, below, leaves, problems, outer),
        "spans": describe_tensor(spans, (*path, "spans"), leaves, problems),
    }
    return node


def column_head(value: Any) -> Node:
    """Return the part of a column's node that precedes its entries."""
    spans = value._spans()
    node: Node = {"type": "column", "column": "Text" if isinstance(value, Text) else "Ragged"}
    node["missing"] = not spans.is_meta and bool((spans[..., 1] < 0).any())
    if value._names is not None:
        node["names"] = list(value._names)
    return node


#: the fewest rows of strings that are written as arrays; fewer are JSON, which people and the peer read
STRINGS_FROM = 1000


def _describe_strings(
    value: NonTensorDataBase, path: Path, leaves: list[TensorLeaf], problems: list[str]
) -> Node | None:
    """Return the node of many strings; ``None`` if there are few, or other objects."""
    size = value._batch_size
    if size.numel() < STRINGS_FROM or isinstance(value, NonTensorData) or value._metadata is not None:
        return None
    objects, codes = drop_unused(value._objects, value._codes())
    if not all(type(item) is str for item in objects):
        return None
    return describe_strings(objects, codes, path, leaves, problems)


def describe_strings(
    objects: Sequence[str], codes: Tensor, path: Path, leaves: list[TensorLeaf], problems: list[str]
) -> Node | None:
    """Return the node of strings; ``None`` if one of them is not Unicode text. Appends its buffers to ``leaves``."""
    try:
        text = Text.from_list(objects)
    except ValueError:  # half of a surrogate pair, which JSON can hold
        return None
    parts = {"values": text.values, "spans": text.spans, "codes": codes.contiguous()}
    found: list[TensorLeaf] = []
    node: Node = {"type": "strings", "batch_size": list(codes.shape)}
    node["entries"] = {key: describe_tensor(part, (*path, key), found, problems) for key, part in parts.items()}
    leaves += [leaf._replace(of_objects=True) for leaf in found]
    return node


def _check_size(size: Size, path: Path, problems: list[str]) -> None:
    """Note a shape that :func:`parse_size` would refuse: without values, but above 2**58 in its other dimensions."""
    total = size.numel()
    if (not total or total > _MOST_VALUES) and math.prod([length or 1 for length in size]) > _MOST_VALUES:
        problems.append(f"{'.'.join(path) + ': ' if path else ''}files have no shapes as large as {list(size)}")


def check_loadable_size(size: Size, path: Path, what: str) -> None:
    """Raise for a shape that could not be loaded again. ``what`` is the caller, for errors."""
    problems: list[str] = []
    _check_size(size, path, problems)
    if problems:
        raise ValueError(f"{what}: {problems[0]}")


def _describe_objects(value: NonTensorDataBase, path: Path, problems: list[str], allow_pickle: bool | None) -> Node:
    size = list(value._batch_size)
    _check_size(value._batch_size, path, problems)
    try:
        if isinstance(value, NonTensorData):
            node = {"type": "object", "batch_size": size, "data": encode(value._objects[0], allow_pickle)}
            if value._metadata is not None:
                node["metadata"] = encode(value._metadata, allow_pickle)
            if isinstance(value, MetaData):
                node["kind"] = "MetaData"
            return node
        codes: list[int] = to_lists(value._codes().reshape(-1))
        forms = [encode(item, allow_pickle) for item in value._objects]
        return {"type": "objects", "batch_size": size, "data": [forms[code] for code in codes]}
    except Unwritable as error:
        problems.append(f"{dotted(path)}: {error}")
        return {}


# ---------------------------------------------------------------------------------------------------------------------
# reading


class Source(NamedTuple):
    """The file of a tree, and how a collection is made from it."""

    file: str  #: the path, for errors
    read: TensorReader
    device: torch.device | None = None  #: the device of the collections
    allow_pickle: bool = False
    strict: bool = True  #: the fields of a record and the keys in the file must be the same
    same_objects: bool = False  #: take the objects of the target, of which the file has copies
    verify: bool = False  #: compare values with their checksums
    checksum: Callable[[Tensor], int] | None = None  #: computes checksums in place of :func:`checksum_of`
    #: reads strings, if ``read`` makes tensors without values or on another device
    read_strings: TensorReader | None = None
    check_text: bool = False  #: check the encoding of text, as ``verify`` does

    def damaged(self, path: Path, why: str) -> FileError:
        """Return an error that names the file and the key."""
        return FileError(f"{self.file}: {dotted(path) + ': ' if path else ''}{why}")


def rebuild(node: Any, target: type[TensorCollection] | TensorCollection | None, source: Source) -> Any:
    """Return the collection of a tree.

    Args:
        node: the tree. It is not trusted: all of it is checked.
        target: the class of the result, or a collection whose classes it gets. ``None`` takes the record class that the
            file names if that is defined already (nothing is imported), else :class:`TensorDict`.
        source: reads the tensors.

    Raises:
        FileError: the tree is damaged, or does not fit the record.
    """
    if source.verify and source.device is not None and source.device.type == "meta":
        raise ValueError("verify=True needs values, which the device meta has not")
    kind = (as_dict(node) or {}).get("type")
    if kind not in ("collection", "lazy_stack"):  # objects are allowed if no other class is asked for
        cls = dense_class(target) if isinstance(target, type) else type(target)
        if kind not in ("object", "objects", "strings", "column") or issubclass(cls, (TensorDict, TensorClass)):
            raise source.damaged((), f"expected a collection, got {ascii(kind)[:40]}")
    try:
        return _rebuild(node, target, source, ())
    except RecursionError:
        raise source.damaged((), "its metadata is nested too deep") from None


def _rebuild(node: Any, target: Any, source: Source, path: Path) -> Any:
    found = as_dict(node)
    if found is None:
        raise source.damaged(path, f"expected the description of a value, got {str(node)[:40]}")
    kind = found.get("type")
    if kind == "collection":
        return _collection(found, target, source, path)
    if kind == "tensor":
        return _tensor(found, source, path)
    if kind == "object" or kind == "objects":
        return _objects(found, target, source, path)
    if kind == "column":
        return _column(found, target, source, path)
    if kind == "strings":
        return _strings(found, target, source, path)
    if kind == "lazy_stack":
        return _lazy_stack(found, target, source, path)
    if kind == "unbatched":
        return UnbatchedTensor(_tensor(found, source, path))
    if kind == "jagged":
        return read_jagged(found, source, path)
    if kind == "nested":
        return _nested(found, source, path)
    raise source.damaged(path, f"the type {str(kind)[:40]!r} is unknown here; a newer version may have written it")


def _collection(node: Node, target: Any, source: Source, path: Path) -> Any:
    if len(path) > DEPTH:
        raise source.damaged(path[:3], f"collections are nested deeper than {DEPTH} levels")
    cls = target_class(node, target)
    size = parse_size(node.get("batch_size"), source, path)
    names = parse_names(node.get("names"), size, source, path)
    given = as_dict(node.get("entries"))
    if given is None:
        raise source.damaged(path, "its entries are missing")
    if issubclass(cls, TensorClass):
        return _record(cls, given, none_fields(node), target, size, names, source, path)
    store: dict[str, Any] = {}
    below = target if isinstance(target, TensorCollection) else None
    ndim, batch = len(size), node["batch_size"]
    for key, entry in given.items():
        value: Any
        form: object = entry
        if type(form) is dict and entry.get("type") == "tensor":  # the common case
            value = _tensor(entry, source, (*path, key))
            if entry["shape"][:ndim] == batch:
                store[key] = value
                continue
        else:
            value = _rebuild(entry, None if below is None else below._store.get(key), source, (*path, key))
        shape = value._batch_size if isinstance(value, Collection) else value.shape
        if shape[:ndim] != size:
            extendable = isinstance(value, Collection) and not isinstance(value, BufferColumn)
            if not extendable or len(shape) >= ndim:
                raise source.damaged(
                    (*path, key), f"its shape {list(shape)} does not begin with the batch size {list(size)}"
                )
            value._set_batch_size(size)  # its batch size was shorter, so it can be extended
        store[key] = value
    if issubclass(cls, TypedTensorDict):
        try:
            cls._check_required(store)
        except TypeError as error:
            raise Unfit.of(source.file, [f"{dotted(path) + ': ' if path else ''}{error}"]) from None
    return _make(cls, store, size, names, source.device)


def _make(cls: Any, store: dict[str, Any], size: Size, names: Any, device: torch.device | None) -> Any:
    """Make a collection without checks."""
    new = object.__new__(cls)
    new._store = store
    new._batch_size = size
    new._device = device
    new._names = names
    new._lock = None
    return new


def target_class(node: Node, target: Any) -> Any:
    """Return the class for a collection. A class that the file names is not imported, since an import runs code."""
    if isinstance(target, TensorCollection):
        return dense_class(type(target))
    if target is not None and target is not TensorCollection:
        return dense_class(target)
    named = as_dict(node.get("class"))
    if named is not None:
        found: Any = sys.modules.get(str(named.get("module")))
        for name in str(named.get("name")).split("."):
            inside: dict[str, Any] = getattr(found, "__dict__", {})
            found = inside.get(name)
        if isinstance(found, type) and issubclass(found, TensorClass):
            return found
    return TensorDict


class Unfit(FileError):
    """The content of a file does not fit the record class."""

    differences: Sequence[str] = ()

    @classmethod
    def of(cls, file: str, differences: Sequence[str]) -> Unfit:
        """Return an error that lists the differences."""
        error = cls(f"{file}: {'; '.join(differences)}")
        error.differences = differences
        return error


def _record(
    cls: type[TensorClass],
    entries: dict[str, Any],
    none: list[Any],
    target: Any,
    size: Size,
    names: Any,
    source: Source,
    path: Path,
) -> Any:
    """Make a record without its constructor, since ``__post_init__`` ran before it was saved.

    Shapes and dtypes are checked; elements are not, since that would read all of them.
    """
    specs = cls._specs
    wrong: list[str] = []
    unexpected = [key for key in entries if key not in specs]
    if unexpected and not source.strict:
        warnings.warn(f"{source.file}: {cls.__name__} has no fields for {unexpected}, which are left out", stacklevel=4)
    values: dict[str, Any] = {}
    unread: set[str] = set()
    for key, entry in entries.items():
        if key not in specs:
            continue
        below = target._store.get(key) if isinstance(target, TensorCollection) else specs[key].target(cls)
        if isinstance(below, type) and not issubclass(below, TensorCollection):
            below = None  # a field of tensors
        try:
            values[key] = _rebuild(entry, below, source, (*path, key))
        except Unfit as error:
            wrong += error.differences
            unread.add(key)
    missing = cls._lacking(entries)
    if missing or (unexpected and source.strict):
        wrong.append(
            f"{dotted(path) + ': ' if path else ''}the fields of {cls.__name__} are {list(specs)}, the file has "
            f"{list(entries)};"
            + (f" missing, without a default: {missing}" if missing else "")
            + (f" unexpected: {unexpected} (strict=False leaves them out)" if unexpected and source.strict else "")
        )
    record: Any = _make(cls, {}, size, names, source.device)
    absent = {name for name in specs if name in none and name not in values and specs[name].allows_none(record)}
    problems = record._restore(values, unread.union(missing, absent))
    begin = ".".join(path) + ": " if path else ""
    wrong += [f"{begin}it does not fit {cls.__name__}: {error}" for error in problems]
    if wrong:
        raise Unfit.of(source.file, wrong)
    return record


def _lazy_stack(node: Node, target: Any, source: Source, path: Path) -> Any:
    parts, dim, name = as_list(node.get("parts")), node.get("stack_dim"), node.get("stack_dim_name")
    if not parts or not (name is None or isinstance(name, str)):
        raise source.damaged(path, "a lazy stack without items")
    if len(path) > DEPTH:
        raise source.damaged(path[:3], f"collections are nested deeper than {DEPTH} levels")
    like: Any = target
    targets: list[Any] = [target] * len(parts)
    if isinstance(target, LazyStacked) and len(like._store.items_) == len(parts):
        targets = like._store.items_
    elif isinstance(target, TensorCollection):
        targets = [dense_class(type(target))] * len(parts)
    items: list[Any] = [
        _rebuild(item, below, source, (*path, str(at)))
        for at, (item, below) in enumerate(zip(parts, targets, strict=True))
    ]
    if any(not isinstance(item, TensorCollection) for item in items) or len({item.ndim for item in items}) != 1:
        raise source.damaged(path, "the items of a lazy stack must be collections with the same number of dimensions")
    if not isinstance(dim, int) or not 0 <= dim <= items[0].ndim:
        raise source.damaged(path, f"a lazy stack cannot have the dimension {str(dim)[:20]}")
    try:
        return lazily(items, dim, name=name)
    except (RuntimeError, ValueError, TypeError) as error:
        raise source.damaged(path, str(error)) from None


def _tensor(node: Node, source: Source, path: Path) -> Tensor:
    named = node.get("dtype")
    dtype = DTYPES.get(named) if type(named) is str else None
    if dtype is None:
        dtype = parse_dtype(named, source, path)  # raises
    value = source.read(path, "", dtype, parse_size(node.get("shape"), source, path))
    return verify_checksum(value, node, 0, source, path) if source.verify else value


def blank_reader(device: torch.device | None) -> TensorReader:
    """Return a reader of tensors without values: on the device ``meta``, or fake tensors of an active mode."""
    if device is None or device.type != "meta":
        return lambda path, buffer, dtype, shape, /: torch.empty(shape, dtype=dtype, device=device)
    made: dict[tuple[torch.dtype, Size], Tensor] = {}

    def read(path: Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        like = made.get((dtype, shape))
        if like is None:
            like = made[dtype, shape] = torch.empty(shape, dtype=dtype, device=device)
        return like.clone()  # takes a third of the time of torch.empty()

    return read


def verify_checksum(value: Tensor, node: Node, buffer: int, source: Source, path: Path) -> Tensor:
    """Return a buffer of a tensor, compared with its checksum if the source says so.

    Args:
        value: the buffer.
        node: the node of the tensor.
        buffer: the position of the buffer in the order of writing.
        source: says whether to verify.
        path: the key, for errors.

    Raises:
        FileError: the checksum differs, or there is none.
    """
    if source.verify:
        sums = as_list(node.get("crc32"))
        if sums is None or buffer >= len(sums):
            raise source.damaged(path, "verify=True needs checksums, which checksum=True writes; the file has none")
        if (source.checksum or checksum_of)(value) != sums[buffer]:
            raise source.damaged(path, "its values are damaged: their checksum differs")
    return value


def needs_no_values(device: torch.device | None) -> bool:
    """Return whether tensors without values are made: on the device ``meta``, and in a ``FakeTensorMode``."""
    if device is not None and device.type == "meta":
        return True
    active: Any = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    return active is not None


def read_jagged(node: Node, source: Source, path: Path) -> Tensor:
    """Read a jagged tensor; raise if its offsets do not fit its values."""
    rows = node.get("rows")
    values = _tensor(node, source, path)
    if type(rows) is not int or not 0 <= rows < _MOST_VALUES:
        raise source.damaged(path, "the number of its rows is missing")
    offsets = verify_checksum(source.read(path, "offsets", torch.int64, Size([rows + 1])), node, 1, source, path)
    if not needs_no_values(offsets.device):
        steps = offsets.diff()
        if values.ndim == 0 or int(offsets[0]) or int(offsets[-1]) != len(values) or bool((steps < 0).any()):
            raise source.damaged(path, "its offsets do not fit its values")
    ragged: Any = torch.nested.nested_tensor_from_jagged(values, offsets)
    return ragged  # type: ignore[no-any-return]


def _nested(node: Node, source: Source, path: Path) -> Tensor:
    """Read a nested tensor of torch's older layout, which the peer writes: the values, and the shape of each row."""
    if source.verify:
        raise source.damaged(path, "verify=True needs checksums, and another program wrote this without any")
    rows, dims = node.get("rows"), node.get("dims")
    if type(rows) is not int or type(dims) is not int or not (0 <= rows < _MOST_VALUES and 0 < dims < 64):
        raise source.damaged(path, "expected the numbers of rows and dimensions")
    sizes = source.read(path, "shapes", torch.int64, Size([rows, dims]))
    if sizes.is_meta:
        raise source.damaged(path, "a nested tensor of this layout cannot be loaded without its values")
    if rows and bool((sizes[:, 1:] != sizes[0, 1:]).any()):
        raise source.damaged(path, "its rows differ in more than the first dimension, which no jagged tensor can have")
    rest: list[int] = to_lists(sizes[0, 1:]) if rows else [0] * (dims - 1)
    offsets = torch.cat([sizes.new_zeros(1), sizes[:, 0].cumsum(0)])
    shape = parse_size([int(offsets[-1]), *rest], source, path)
    values = source.read(path, "", parse_dtype(node.get("dtype"), source, path), shape)
    ragged: Any = torch.nested.nested_tensor_from_jagged(values, offsets)
    return ragged  # type: ignore[no-any-return]


def _column(node: Node, target: Any, source: Source, path: Path) -> Any:
    if len(path) > DEPTH:
        raise source.damaged(path[:3], f"collections are nested deeper than {DEPTH} levels")
    values_node, spans_node = _buffer_nodes(node, ("values", "spans"), source, path)
    below = (*path, "values")
    if values_node.get("type") == "column":
        items: Any = _column(values_node, None, source, below)
        if items.ndim != 1:
            raise source.damaged(below, f"expected items in one dimension, got {list(items.shape)}")
    else:
        items = _buffer(values_node, source, below)
    spans = _buffer(spans_node, source, (*path, "spans"))
    return column_of(node, items, spans, target, source, path)


def column_of(
    node: Node, items: Any, spans: Tensor, target: Any, source: Source, path: Path, *, chosen: bool = False
) -> Any:
    """Return the column of a buffer and spans of a file. Both are checked.

    Args:
        node: the node of the column.
        items: the buffer.
        spans: start and length of each row.
        target: a subclass of the column's class, or an instance of one, which the result gets.
        source: the file, for errors; says whether to verify the encoding of text.
        path: the key, for errors.
        chosen: these are chosen rows, some of them perhaps several times.

    Raises:
        FileError: a row lies outside of the buffer, or is not UTF-8; the dtype of a buffer is wrong.
    """
    base = _COLUMNS.get(str(node.get("column")))
    if base is None or type(node.get("missing")) is not bool:
        raise source.damaged(path, f"expected the description of a column, got {ascii(node.get('column'))[:40]}")
    if isinstance(items, Tensor) and not items.ndim:
        raise source.damaged(path, "expected a buffer of items, got one value")
    if base is Text and not (isinstance(items, Tensor) and items.dtype is torch.uint8 and items.ndim == 1):
        got = f"{items.dtype} of {list(items.shape)}" if isinstance(items, Tensor) else "ragged items"
        raise source.damaged(path, f"expected the UTF-8 of its strings as uint8 of one dimension, got {got}")
    compact = False
    try:
        span_functions.check(spans, len(items), base.__name__)
        if not (chosen or needs_no_values(spans.device)):
            compact = _check_rows(spans, len(items), bool(node["missing"]))
        names = parse_names(node.get("names"), spans.shape[:-1], source, path)
        made: Any = _column_class(base, target)._of(items, spans, names, compact=compact)
        if (source.verify or source.check_text) and isinstance(made, Text):
            made.check_encoding()
    except FileError:
        raise
    except (TypeError, ValueError) as error:
        raise source.damaged(path, str(error)) from None
    return made


def _column_class(base: Any, target: Any) -> Any:
    if isinstance(target, base):
        return target.__class__
    return target if isinstance(target, type) and issubclass(target, base) else base


_COLUMNS: dict[str, Any] = {"Text": Text, "Ragged": Ragged}


def _check_rows(spans: Tensor, size: int, missing: bool) -> bool:
    """Raise if rows share items or have no value against the description. Return whether they fill the buffer in order.

    Files have no rows that share items: a copy of many rows that are the whole buffer would take any amount of memory.
    """
    lengths = spans[..., 1]
    total = int(lengths.clamp(min=0).sum())
    if total > size or total < 0:
        raise ValueError(f"its rows have {total} items together, more than the {size} of the buffer: some are shared")
    if not missing:
        none = (lengths < 0).nonzero()
        if len(none):
            row = to_lists(none[0])
            raise ValueError(
                f"row {row[0] if len(row) == 1 else row} has no value, but its description has no such row"
            )
    return total == size and torch.equal(spans, span_functions.from_lengths(lengths))


def _buffer_nodes(node: Node, names: tuple[str, ...], source: Source, path: Path) -> list[Node]:
    """Return the nodes of the buffers of a column or of strings."""
    entries = as_dict(node.get("entries")) or {}
    found = [as_dict(entries.get(name)) for name in names]
    if set(entries) != set(names):
        raise source.damaged(path, f"expected the buffers {list(names)}, got {str(list(entries))[:80]}")
    return [one or {} for one in found]


def _buffer(node: Node, source: Source, path: Path) -> Tensor:
    if node.get("type") != "tensor":
        raise source.damaged(path, f"expected a tensor, got {ascii(node.get('type'))[:40]}")
    return _tensor(node, source, path)


def _strings(node: Node, target: Any, source: Source, path: Path) -> Any:
    size = parse_size(node.get("batch_size"), source, path)
    if source.same_objects and isinstance(target, NonTensorDataBase) and target._batch_size == size:
        return target._shallow()
    nodes = _buffer_nodes(node, ("values", "spans", "codes"), source, path)
    has_values = not needs_no_values(source.device)
    with _disable_current_modes():
        reading = source._replace(read=source.read_strings or source.read)
        values, spans, codes = [
            _buffer(one, reading, (*path, key)).as_subclass(Tensor).cpu()
            for key, one in zip(("values", "spans", "codes"), nodes, strict=True)
        ]
        if spans.ndim != 2 or codes.dtype is not torch.int64 or codes.shape != size:
            raise source.damaged(path, f"expected a string for each position of the batch size {list(size)}")
        if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < len(spans):
            raise source.damaged(path, f"expected codes of its {len(spans)} strings")
        text = column_of(
            {"column": "Text", "missing": False},
            values,
            spans,
            None,
            source._replace(verify=False, check_text=False),
            path,
        )
        try:
            objects: list[str] = text._strings()
        except ValueError as error:
            raise source.damaged(path, str(error)) from None
        if not has_values:
            flat: list[int] = to_lists(codes.reshape(-1))
            objects = [objects[code] for code in flat]
        codes = codes.clone()  # so that the strings need no file
    return stack_of(tuple(objects), codes if has_values else codes_row_by_row(size), source.device, None)


def read_strings(node: Node, source: Source) -> list[str]:
    """Return the string of each row of a node of strings."""
    objects = _strings(node, None, source, ())
    return [objects._objects[code] for code in to_lists(objects._codes().reshape(-1))]


def _objects(node: Node, target: Any, source: Source, path: Path) -> Any:
    size = parse_size(node.get("batch_size"), source, path)
    try:
        if node["type"] == "object":
            if source.same_objects and isinstance(target, NonTensorData) and target._batch_size == size:
                return target._shallow()  # with the same object
            cls = MetaData if node.get("kind") == "MetaData" else NonTensorData
            value = decode(node["data"], source.allow_pickle)
            return cls(value, decode(node.get("metadata"), source.allow_pickle), batch_size=size, device=source.device)
        if source.same_objects and isinstance(target, NonTensorDataBase) and target._batch_size == size:
            return target._shallow()
        items = as_list(node["data"])
        if items is None or len(items) != size.numel():
            raise ValueError(f"expected {size.numel()} objects for the batch size {list(size)}")
        objects = tuple([decode(item, source.allow_pickle) for item in items])
        return stack_of(objects, codes_row_by_row(size), source.device, None)
    except KeyError as error:
        raise source.damaged(path, f"{error} is missing") from None
    except ValueError as error:
        raise source.damaged(path, str(error)) from None


def has_strings(node: Any) -> bool:
    """Return whether a tree has strings in arrays, which are read also where tensors get no values."""
    known = as_dict(node) or {}
    parts = [*(as_dict(known.get("entries")) or {}).values(), *(as_list(known.get("parts")) or ())]
    return known.get("type") == "strings" or any(map(has_strings, parts))


def tensor_nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, str, Node]]:
    """Yield (path, buffer, node) for each buffer of the tensors in a tree, in the order of writing. Skips damage."""
    known = as_dict(node) or {}
    kind = known.get("type")
    if kind in ("tensor", "unbatched", "jagged"):
        yield path, "", known
        if kind == "jagged":
            yield path, "offsets", known
    elif len(path) <= DEPTH:
        for key, entry in (as_dict(known.get("entries")) or {}).items():
            yield from tensor_nodes(entry, (*path, key))
        for at, item in enumerate(as_list(known.get("parts")) or ()):
            yield from tensor_nodes(item, (*path, str(at)))


class Spans:
    """Byte ranges of tensors in one buffer, which must not overlap."""

    def __init__(self, file: str) -> None:
        self.file: str = file
        self._found: list[tuple[int, int, Path]] = []

    def add(self, start: int, stop: int, path: Path) -> None:
        """Add the byte range of a tensor."""
        if start < stop:
            self._found.append((start, stop, path))

    def check(self) -> None:
        """Raise if two tensors share bytes, since writing to one would change the other.

        Raises:
            FileError: two tensors share bytes.
        """
        self._found.sort()
        last: tuple[int, int, Path] = (0, 0, ())
        for span in self._found:
            if span[0] < last[1]:
                one, other = (".".join(path) for path in (last[2], span[2]))
                shared = min(last[1], span[1]) - span[0]
                raise FileError(
                    f"{self.file}: {one} and {other} have {shared} bytes in common, from byte {span[0]} on; writing to "
                    "one would change the other"
                )
            last = span


# ---------------------------------------------------------------------------------------------------------------------
# checks of untrusted metadata


def as_dict(given: object) -> dict[str, Any] | None:
    """Return a JSON object, or ``None`` for anything else."""
    found: Any = given
    return found if type(given) is dict else None


def as_list(given: object) -> list[Any] | None:
    """Return a JSON array, or ``None`` for anything else."""
    found: Any = given
    return found if type(given) is list else None


def parse_size(given: Any, source: Source, path: Path) -> Size:
    """Return the shape that a file gives; raise if it is none, or too large."""
    form: object = given
    if type(form) is list:
        total = 1
        for length in given:
            if type(length) is not int or length < 0:
                break
            total *= length or 1
            if total > _MOST_VALUES:  # stop here: the product of many large numbers takes long
                break
        else:
            return Size(given)
    raise source.damaged(path, f"expected a shape, got {str(given)[:80]}")


def parse_dtype(given: Any, source: Source, path: Path) -> torch.dtype:
    """Return the dtype that a file names; raise if it is unknown."""
    found = DTYPES.get(given) if isinstance(given, str) else None
    if found is None:
        raise source.damaged(path, f"the dtype {str(given)[:40]!r} is unknown here")
    return found


def parse_names(given: Any, size: Size, source: Source, path: Path) -> Any:
    """Return the names that a file gives for the dimensions of a batch size; raise if they do not fit it."""
    if given is None:
        return None
    names = as_list(given)
    if names is not None and all(name is None or isinstance(name, str) for name in names):
        try:
            return shapes.as_names(names, len(size))
        except (ValueError, TypeError, RuntimeError) as error:
            raise source.damaged(path, str(error)) from None
    raise source.damaged(path, f"expected names of dimensions, got {str(given)[:80]}")


_MOST_VALUES = 2**58  #: values in a tensor: the number of their bytes fits in 63 bits


def checksum_of(tensor: Tensor, start: int = 0) -> int:
    """Return the CRC-32 of the bytes of a tensor in C order, continued from ``start``."""
    checksum = start
    for piece in pieces(tensor):
        checksum = zlib.crc32(piece, checksum)
    return checksum
