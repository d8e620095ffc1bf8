"""Make a collection from a tree of nodes, see :mod:`.collection_tree`, and a function that reads its tensors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import torch
from torch import Size, Tensor
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

from tensorclass.records.record import TensorClass
from tensorclass.records.typed import TypedTensorDict
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.leaves.content import Content, leaf_class
from tensorclass.td.leaves.leaf import Leaf, holds_objects
from tensorclass.td.leaves.nontensor import NonTensorData, stack_of
from tensorclass.td.leaves.object_codes import CPU, codes_row_by_row, to_lists
from tensorclass.td.leaves.unbatched_tensor import UnbatchedTensor
from tensorclass.td.stored_names import by_field, field_name, shown_names, stored_name
from tensorclass.td.stores.lazy.lazy_base import lazily
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.stores.store_classes import dense_class
from tensorclass.td.tensordict import TensorDict

from . import collection_tree
from .collection_tree import FileError, Node, Path, TreeSource, Unfit, as_dict, as_list, at_key, parse_names, parse_size
from .object_json import decode
from .stored_objects import StoredObjects
from .unimported_classes import stand_in


def rebuild(node: Any, target: type[TensorCollection] | TensorCollection | None, source: TreeSource) -> Any:
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
        leaves = ("object", "objects", "column", *collection_tree.OBJECT_ARRAYS)
        if kind not in leaves or issubclass(cls, (TensorDict, TensorClass)):
            raise source.damaged((), f"expected a collection, got {ascii(kind)[:40]}")
    try:
        return _rebuild(node, target, source, ())
    except RecursionError:
        raise source.damaged((), "its metadata is nested too deep") from None


def _rebuild(node: Any, target: Any, source: TreeSource, path: Path) -> Any:
    found = as_dict(node)
    if found is None:
        raise source.damaged(path, f"expected the description of a value, got {str(node)[:40]}")
    kind = found.get("type")
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise source.damaged(path, f"the type {str(kind)[:40]!r} is unknown here; a newer version may have written it")
    return make(found, target, source, path)


def _collection(node: Node, target: Any, source: TreeSource, path: Path) -> Any:
    source.check_depth(path)
    cls = target_class(node, target)
    size = parse_size(node.get("batch_size"), source, path)
    names = parse_names(node.get("names"), size, source, path)
    given = as_dict(node.get("entries"))
    if given is None:
        raise source.damaged(path, "its entries are missing")
    if issubclass(cls, TensorClass):
        return _record(cls, node, target, size, names, source, path)
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
            extendable = isinstance(value, Collection) and not value._CONTENT.has_spans
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
            raise Unfit.of(source.file, [at_key(path, error)]) from None
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
    named = as_dict(node.get("class"))
    if target is TensorDict:
        return stand_in(named)
    if target is not None and target is not TensorCollection:
        return dense_class(target)
    if named is not None:
        found: Any = sys.modules.get(str(named.get("module")))
        for name in str(named.get("name")).split("."):
            inside: dict[str, Any] = getattr(found, "__dict__", {})
            found = inside.get(name)
        if isinstance(found, type) and issubclass(found, TensorClass):
            return found
    return stand_in(named)


def _record(
    cls: type[TensorClass], node: Node, target: Any, size: Size, names: Any, source: TreeSource, path: Path
) -> Any:
    """Make a record without its constructor, since ``__post_init__`` ran before it was saved.

    Shapes and dtypes are checked; elements are not, since that would read all of them.
    """
    specs = cls._specs
    wrong: list[str] = []
    names_in_file = names_by_field(cls, node["entries"], source, path)
    entries: dict[str, Any] = {key: node["entries"][name] for key, name in names_in_file.items()}
    was_none = collection_tree.none_fields(node)
    none = [field_name(cls, name) if isinstance(name, str) else name for name in was_none]
    unexpected = [key for key in entries if key not in specs]
    if unexpected and not source.strict:
        warnings.warn(
            f"{source.file}: {class_name(cls)} has no fields for {unexpected}, which are left out", stacklevel=4
        )
    values: dict[str, Any] = {}
    unread: set[str] = set()
    for key, entry in entries.items():
        if key not in specs:
            continue
        below = target._store.get(key) if isinstance(target, TensorCollection) else specs[key].target(cls)
        if isinstance(below, type) and not issubclass(below, TensorCollection):
            below = None  # a field of tensors
        try:
            values[key] = _rebuild(entry, below, source, (*path, names_in_file[key]))
        except Unfit as error:
            wrong += error.differences
            unread.add(key)
    missing = cls._lacking(entries)
    if missing or (unexpected and source.strict):
        fields = f"the fields of {class_name(cls)} are [{', '.join(shown_names(cls, specs))}]"
        wrong.append(
            at_key(path, f"{fields}, the file has {list(names_in_file.values())}")
            + (f"; missing, without a default: {missing}" if missing else "")
            + (f"; unexpected: {unexpected} (strict=False leaves them out)" if unexpected and source.strict else "")
            + did_you_mean(unexpected, missing)
        )
    record: Any = _make(cls, {}, size, names, source.device)
    absent = {name for name in specs if name in none and name not in values and specs[name].allows_none(record)}
    problems = record._restore(values, unread.union(missing, absent))
    begin = ".".join(path) + ": " if path else ""
    wrong += [f"{begin}it does not fit {class_name(cls)}: {error}" for error in problems]
    if wrong:
        raise Unfit.of(source.file, wrong)
    return record


def names_by_field(cls: type[Collection], names: Iterable[str], source: TreeSource, path: Path) -> dict[str, str]:
    """Return the names of entries in a file by the keys that a class has for them.

    Raises:
        FileError: two names stand for one field.
    """
    found, twice = by_field(cls, {name: name for name in names})
    if twice:
        key, one, other = twice[0]
        raise source.damaged((*path, key), f"the file has both {one!r} and {other!r}, which are names of this field")
    return dict(found)


def names_in_tree(cls: Any, node: Node, path: Path) -> Path:
    """Return the names in a tree of a nested key of a class. Names in the tree are accepted, too."""
    names: list[str] = []
    owner: Any = cls
    below: Node | None = node
    for key in path:
        entries = as_dict((below or {}).get("entries")) or {}
        record: Any = owner if isinstance(owner, type) and issubclass(owner, TensorClass) else None
        names.append(key if record is None or key in entries else stored_name(record, key))
        spec = None if record is None else record._specs.get(field_name(record, names[-1]))
        owner = None if spec is None else spec.target(record)
        below = as_dict(entries.get(names[-1]))
    return tuple(names)


def _lazy_stack(node: Node, target: Any, source: TreeSource, path: Path) -> Any:
    parts, dim, name = as_list(node.get("parts")), node.get("stack_dim"), node.get("stack_dim_name")
    if not parts or not (name is None or isinstance(name, str)):
        raise source.damaged(path, "a lazy stack without items")
    source.check_depth(path)
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


def _tensor(node: Node, source: TreeSource, path: Path) -> Tensor:
    dtype = collection_tree.parse_dtype(node.get("dtype"), source, path)
    value = source.read(path, "", dtype, parse_size(node.get("shape"), source, path))
    return verify_checksum(value, node, 0, source, path) if source.verify else value


def shared_tensor(node: Node, value: Tensor) -> Any:
    """Return the leaf of one tensor for all rows, of the class that a node names: :class:`UnbatchedTensor` without."""
    return (leaf_class(node.get("kind"), Content.TENSOR) or UnbatchedTensor)(value)


def blank_reader(device: torch.device | None) -> collection_tree.TensorReader:
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


def placing(read: collection_tree.TensorReader, device: torch.device | None) -> collection_tree.TensorReader:
    """Return a reader that puts what ``read`` returns on a device; one of tensors without values where these do."""
    if needs_no_values(device):
        return blank_reader(device or CPU)
    if device is None or device.type == "cpu":
        return read
    return lambda path, buffer, dtype, shape, /: read(path, buffer, dtype, shape).to(device)


def verify_checksum(value: Tensor, node: Node, buffer: int, source: TreeSource, path: Path) -> Tensor:
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
        if (source.checksum or collection_tree.checksum_of)(value) != sums[buffer]:
            raise source.damaged(path, "its values are damaged: their checksum differs")
    return value


def needs_no_values(device: torch.device | None) -> bool:
    """Return whether tensors without values are made: on the device ``meta``, and in a ``FakeTensorMode``."""
    if device is not None and device.type == "meta":
        return True
    active: Any = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    return active is not None


def read_jagged(node: Node, source: TreeSource, path: Path) -> Tensor:
    """Read a jagged tensor; raise if its offsets do not fit its values."""
    rows = node.get("rows")
    values = _tensor(node, source, path)
    if not _is_count(rows, collection_tree.MOST_VALUES):
        raise source.damaged(path, "the number of its rows is missing")
    offsets = verify_checksum(source.read(path, "offsets", torch.int64, Size([rows + 1])), node, 1, source, path)
    if not needs_no_values(offsets.device):
        steps = offsets.diff()
        if values.ndim == 0 or int(offsets[0]) or int(offsets[-1]) != len(values) or bool((steps < 0).any()):
            raise source.damaged(path, "its offsets do not fit its values")
    return _jagged_of(values, offsets)


def _is_count(given: object, most: int) -> TypeGuard[int]:
    return type(given) is int and 0 <= given < most


def _jagged_of(values: Tensor, offsets: Tensor) -> Tensor:
    ragged: Any = torch.nested.nested_tensor_from_jagged(values, offsets)
    return ragged  # type: ignore[no-any-return]


def _nested(node: Node, target: Any, source: TreeSource, path: Path) -> Tensor:
    """Read a nested tensor of torch's older layout, which the peer writes: the values, and the shape of each row."""
    if source.verify:
        raise source.damaged(path, "verify=True needs checksums, and another program wrote this without any")
    rows, dims = node.get("rows"), node.get("dims")
    if not (_is_count(rows, collection_tree.MOST_VALUES) and _is_count(dims, 64) and dims):
        raise source.damaged(path, "expected the numbers of rows and dimensions")
    sizes = source.read(path, "shapes", torch.int64, Size([rows, dims]))
    if sizes.is_meta:
        raise source.damaged(path, "a nested tensor of this layout cannot be loaded without its values")
    if rows and bool((sizes[:, 1:] != sizes[0, 1:]).any()):
        raise source.damaged(path, "its rows differ in more than the first dimension, which no jagged tensor can have")
    rest: list[int] = to_lists(sizes[0, 1:]) if rows else [0] * (dims - 1)
    offsets = torch.cat([sizes.new_zeros(1), sizes[:, 0].cumsum(0)])
    shape = parse_size([int(offsets[-1]), *rest], source, path)
    dtype = collection_tree.parse_dtype(node.get("dtype"), source, path)
    return _jagged_of(source.read(path, "", dtype, shape), offsets)


def _column(node: Node, target: Any, source: TreeSource, path: Path) -> Any:
    source.check_depth(path)
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
    node: Node, items: Any, spans: Tensor, target: Any, source: TreeSource, path: Path, *, chosen: bool = False
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
    base = leaf_class(node.get("column"), Content.TEXT, Content.RAGGED)
    if base is None or type(node.get("missing")) is not bool:
        raise source.damaged(path, f"expected the description of a column, got {ascii(node.get('column'))[:40]}")
    if isinstance(items, Tensor) and not items.ndim:
        raise source.damaged(path, "expected a buffer of items, got one value")
    is_text = base._CONTENT is Content.TEXT
    if is_text and not (isinstance(items, Tensor) and items.dtype is torch.uint8 and items.ndim == 1):
        got = f"{items.dtype} of {list(items.shape)}" if isinstance(items, Tensor) else "ragged items"
        raise source.damaged(path, f"expected the UTF-8 of its strings as uint8 of one dimension, got {got}")
    compact = False
    try:
        span_functions.check(spans, len(items), base.__name__)
        if not (chosen or needs_no_values(spans.device)):
            total = span_functions.check_unshared(spans, len(items), has_missing=bool(node["missing"]))
            compact = total == len(items) and torch.equal(spans, span_functions.from_lengths(spans[..., 1]))
        names = parse_names(node.get("names"), spans.shape[:-1], source, path)
        made: Any = _column_class(base, target)._of(items, spans, names, compact=compact)
        if (source.verify or source.check_text) and is_text:
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


def _buffer_nodes(node: Node, names: tuple[str, ...], source: TreeSource, path: Path) -> list[Node]:
    """Return the nodes of the buffers of a column or of strings."""
    entries = as_dict(node.get("entries")) or {}
    found = [as_dict(entries.get(name)) for name in names]
    if set(entries) != set(names):
        raise source.damaged(path, f"expected the buffers {list(names)}, got {str(list(entries))[:80]}")
    return [one or {} for one in found]


def _buffer(node: Node, source: TreeSource, path: Path) -> Tensor:
    if node.get("type") != "tensor":
        raise source.damaged(path, f"expected a tensor, got {ascii(node.get('type'))[:40]}")
    return _tensor(node, source, path)


def rebuild_objects(node: Node, target: Any, source: TreeSource, path: Path) -> Any:
    """Return objects whose texts lie in arrays. They are read when they are asked for, or now to verify them."""
    size = parse_size(node.get("batch_size"), source, path)
    if (same := _same_objects(target, size, source)) is not None:
        return same
    makes_fakes = needs_no_values(None)
    names = ("values", "spans", "codes")
    nodes = _buffer_nodes(node, names, source, path)
    with _disable_current_modes():
        reading = source._replace(read=source.read_strings or source.read)
        arrays = {
            key: _buffer(one, reading, (*path, key)).as_subclass(Tensor).cpu()
            for key, one in zip(names, nodes, strict=True)
        }
        values, spans, codes = arrays.values()
        if values.dtype is not torch.uint8 or values.ndim != 1:
            raise source.damaged(path, f"expected UTF-8 as uint8 of one dimension, got {values.dtype}")
        if spans.dtype is not torch.int64 or spans.ndim != 2 or spans.shape[1] != 2:
            raise source.damaged(path, f"expected spans int64[n, 2], got {spans.dtype}{list(spans.shape)}")
        if codes.dtype is not torch.int64 or codes.shape != size or (size.numel() and not len(spans)):
            raise source.damaged(path, f"expected an object for each position of the batch size {list(size)}")
        objects = StoredObjects(
            arrays, is_json=node["type"] == "object_rows", file=source.file, path=path, allow_pickle=source.allow_pickle
        )
        if source.verify:
            objects.made()
        if not makes_fakes:
            return objects_of(node, objects, codes, source.device)
        listed = tuple([objects[code] for code in to_lists(codes.reshape(-1))])
    return objects_of(node, listed, codes_row_by_row(size), source.device)


def objects_of(node: Node, objects: Sequence[Any], codes: Tensor, device: torch.device | None) -> Any:
    """Return the leaf of objects and codes, of the class that a node names: of :class:`NonTensorStack` without one."""
    cls = leaf_class(node.get("kind"), Content.OBJECTS)
    return stack_of(objects, codes, device, None) if cls is None else cls._from_objects(objects, codes, device)


def object_class(node: Node) -> Any:
    """Return the class of one object for all rows that a node names: :class:`NonTensorData` without one."""
    cls = leaf_class(node.get("kind"), Content.OBJECTS)
    return NonTensorData if cls is None or not cls._is_uniform else cls


def _same_objects(target: Any, size: Size, source: TreeSource) -> Leaf | None:
    """Return the objects of the target, of which the file has copies."""
    if source.same_objects and holds_objects(target) and target._batch_size == size:
        return target._shallow()
    return None


def _objects(node: Node, target: Any, source: TreeSource, path: Path) -> Any:
    size = parse_size(node.get("batch_size"), source, path)
    same = _same_objects(target, size, source)
    if same is not None and (node["type"] != "object" or same._is_uniform):
        return same
    try:
        if node["type"] == "object":
            cls = object_class(node)
            value = decode(node["data"], source.allow_pickle)
            return cls(value, decode(node.get("metadata"), source.allow_pickle), batch_size=size, device=source.device)
        items = as_list(node["data"])
        if items is None or len(items) != size.numel():
            raise ValueError(f"expected {size.numel()} objects for the batch size {list(size)}")
        objects = tuple([decode(item, source.allow_pickle) for item in items])
        return objects_of(node, objects, codes_row_by_row(size), source.device)
    except KeyError as error:
        raise source.damaged(path, f"{error} is missing") from None
    except (TypeError, ValueError) as error:  # also those of the constructors of leaves
        raise source.damaged(path, str(error)) from None


#: makes the value of a node of each type, for the target of :func:`rebuild`
_MAKERS: dict[str, Callable[[Node, Any, TreeSource, Path], Any]] = {
    "collection": _collection,
    "lazy_stack": _lazy_stack,
    "tensor": lambda node, target, source, path: _tensor(node, source, path),
    "unbatched": lambda node, target, source, path: shared_tensor(node, _tensor(node, source, path)),
    "jagged": lambda node, target, source, path: read_jagged(node, source, path),
    "nested": _nested,
    "column": _column,
    "object": _objects,
    "objects": _objects,
    **dict.fromkeys(collection_tree.OBJECT_ARRAYS, rebuild_objects),
}
