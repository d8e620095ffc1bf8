"""The layout of a collection in messages: its tensors in a fixed order, and a digest of names, dtypes and shapes.

The order of tensors is that of their names, whatever the order of the keys. :func:`flatten_record` runs for each
message; layouts are cached by form, so a loop that sends records of one form pays for a look-up.

Two processes that both have a record compare digests and send bytes; if the digests differ, :func:`differences` lists
in what. A process without a record receives the JSON of :func:`describe_record`, from which :func:`rebuild_record`
makes a collection of the class asked for. Nothing is unpickled unless the caller allows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Size, Tensor

from tensorclass.records.record import TensorClass
from tensorclass.storage.common import collection_tree, describe_collection, rebuild_collection, sealed_json
from tensorclass.storage.common.collection_tree import FileError, TreeSource, as_list
from tensorclass.storage.common.object_json import decode
from tensorclass.support.exact_types import DICT
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.indexing import check_objects_in_files
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind, has_spans
from tensorclass.td.leaves.nontensor import NonTensorData
from tensorclass.td.leaves.object_codes import codes_row_by_row
from tensorclass.td.memory.consolidated_buffer import parts_of
from tensorclass.td.memory.shared_memory import shown_size
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked

from .byte_tensors import digest_of
from .column_bytes import ColumnForm, column_bytes, split_columns, split_tensors, tensor_bytes

Path: TypeAlias = "tuple[str, ...]"
_is_contiguous: Callable[[Tensor], bool] = Tensor.is_contiguous
_foreach_copy: Any = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]


class TensorSpec(NamedTuple):
    """Name, dtype and shape of a tensor of a layout."""

    path: Path  #: keys, and positions in lazy stacks
    component: str  #: ``""``, or the buffer of a jagged tensor: ``"offsets"``
    dtype: torch.dtype
    shape: Size

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.shape.numel() * self.dtype.itemsize


class RecordLayout:
    """The form of a collection: specs of its tensors, and the names of its non-tensor data.

    Attributes:
        specs: the tensors, ordered by name.
        objects: paths of non-tensor data.
        columns: paths of text and ragged rows.
        digest: 64 bits over ``entries``: keys, dtypes, shapes, types of values. Not over the order of keys, classes,
            batch sizes and devices.
        entries: description of each value by name, for error messages.
    """

    __slots__ = ("columns", "digest", "entries", "has_content", "may_be_lazy", "objects", "plans", "specs")

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        entries: dict[str, str],
        objects: Sequence[Path],
        columns: Sequence[Path] = (),
    ) -> None:
        self.specs: tuple[TensorSpec, ...] = tuple(specs)
        self.objects: tuple[Path, ...] = tuple(objects)
        self.columns: tuple[Path, ...] = tuple(columns)
        #: whether there is content of any length, which :func:`content_of` returns
        self.has_content: bool = bool(self.objects or self.columns)
        self.entries: dict[str, str] = entries
        #: tensors that can be contiguous and still have a conjugate or negative bit
        self.may_be_lazy: list[int] = [
            at for at, spec in enumerate(self.specs) if spec.dtype.is_complex or spec.shape.numel() == 1
        ]
        self.plans: dict[Any, Any] = {}  #: cache of messages with this layout
        self.digest: int = digest_of(json.dumps(sorted(entries.items())).encode())


def copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors into others of the same shapes in one call."""
    with torch.no_grad():
        if any(target.is_conj() or target.is_neg() for target in targets):
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source)
        elif targets:
            _foreach_copy(list(targets), list(sources))


# ---------------------------------------------------------------------------------------------------------------------
# layout of a collection

#: layouts by form, with the position of each spec among the leaves
_layouts: dict[Any, tuple[RecordLayout, list[int] | None]] = {}
_MOST_LAYOUTS = 256
_BEGIN, _END, _NEXT = object(), object(), object()  #: brackets in forms; no key equals them


class FlatRecord(NamedTuple):
    """A collection as layout and tensors."""

    layout: RecordLayout
    tensors: list[Tensor]  #: in the order of the layout
    is_plain: bool  #: all are contiguous and on the CPU, without conjugate and negative bits
    tree_leaves: list[Tensor] | None  #: in tree order, if the collection must be told when they were written


def flatten_record(data: TensorCollection) -> FlatRecord:
    """Return the layout of a collection and its tensors.

    Runs for each message, in which a few microseconds count: so properties are read of all tensors together.

    Raises:
        TypeError: values that no message can hold: sparse and quantized tensors, tensors on the device ``meta``.

    >>> from tensorclass import TensorDict
    >>> flat = flatten_record(TensorDict({"b": torch.zeros(2), "a": {"c": torch.ones(2, 3)}}, [2]))
    >>> [spec.path for spec in flat.layout.specs], [tensor.ndim for tensor in flat.tensors]
    ([('a', 'c'), ('b',)], [2, 1])
    """
    form: list[Any] = []
    leaves: list[Tensor] = []
    needs_update = _walk(data, form, leaves)
    try:
        plain = all(map(_is_contiguous, leaves)) and False not in [leaf.is_cpu for leaf in leaves]
    except RuntimeError:  # a sparse tensor
        plain = False
    if not plain:
        form += [(leaf.layout, leaf.is_meta) for leaf in leaves]
    key = (*form, *[leaf.dtype for leaf in leaves], *[leaf.shape for leaf in leaves])
    cached = _layouts.get(key)
    if cached is None:
        if len(_layouts) >= _MOST_LAYOUTS:
            _layouts.clear()
        cached = _layouts[key] = _make_layout(data)
    layout, order = cached
    tensors = leaves if order is None else [leaves[at] for at in order]
    if plain and layout.may_be_lazy:
        plain = not any(tensors[at].is_conj() or tensors[at].is_neg() for at in layout.may_be_lazy)
    return FlatRecord(layout, tensors, plain, leaves if needs_update else None)


def layout_of(data: TensorCollection) -> RecordLayout:
    """Return the layout of a collection; see :func:`flatten_record`."""
    return flatten_record(data).layout


def _walk(value: Any, form: list[Any], leaves: list[Tensor]) -> bool:
    """Collect the tensors in tree order, and all of the form but dtypes and shapes.

    Returns:
        Whether the collection must be told when its tensors were written.
    """
    store: Any = value._store
    if isinstance(value, LazyStacked):
        form.append((store.dim, len(store.items_)))
        needs_update = False
        for item in store.items_:
            form.append(_NEXT)
            needs_update = _walk(item, form, leaves) or needs_update
        return needs_update
    needs_update = type(store) is not DICT
    for key, item in store.items():
        if item.__class__ is Tensor:
            form.append(key)
            leaves.append(item)
        elif isinstance(item, Tensor):
            form += (key, item.__class__, item.layout)
            leaves += parts_of(item)
            needs_update = needs_update or item.is_nested
        elif (content := item._CONTENT) is Content.TREE:
            form += (key, _BEGIN)
            needs_update = _walk(item, form, leaves) or needs_update
            form.append(_END)
        elif content is Content.OBJECTS:
            form += (key, item._is_uniform or item._batch_size)
        elif content is Content.TENSOR:
            form += (key, content)
            leaves.append(item._wrapped_tensor())
        else:
            form += (key, ColumnForm.of(item))
    return needs_update


def _make_layout(data: TensorCollection) -> tuple[RecordLayout, list[int] | None]:
    found = _LayoutParts([], {}, [], [], [])
    found.add(data, ())
    if found.problems:
        raise TypeError("; ".join(found.problems))
    specs = found.specs
    order = sorted(range(len(specs)), key=lambda at: specs[at][:2])
    layout = RecordLayout([specs[at] for at in order], found.entries, sorted(found.objects), sorted(found.columns))
    return layout, None if order == sorted(order) else order


class _LayoutParts(NamedTuple):
    """The parts of a layout, in tree order, and why it cannot be one."""

    specs: list[TensorSpec]
    entries: dict[str, str]
    objects: list[Path]
    columns: list[Path]
    problems: list[str]

    def add(self, value: Any, path: Path) -> None:
        """Add the content of a value, in the order of :func:`_walk`."""
        if isinstance(value, LazyStacked):
            store: Any = value._store
            shown = f"a lazy stack of {len(store.items_)} parts in dimension {store.dim}"
            self.entries[path_name((*path, "*"))] = shown
            for at, item in enumerate(store.items_):
                self.add(item, (*path, str(at)))
            return
        for key, item in value._now().items():
            below = (*path, key)
            content = content_kind(item)
            if content is Content.TREE:
                self.add(item, below)
            elif content is Content.OBJECTS:
                each = "" if item._is_uniform else f" for each row of {list(item._batch_size)}"
                self.entries[path_name(below)] = f"an object{each}"
                self.objects.append(below)
            elif has_spans(item):
                if item._spans().is_meta:
                    self.problems.append(f"{path_name(below)}: rows on the device meta have no values")
                self.entries[path_name(below)] = str(ColumnForm.of(item))
                self.columns.append(below)
            else:
                self._add_tensor(item, below)

    def _add_tensor(self, item: Any, path: Path) -> None:
        tensor = item if isinstance(item, Tensor) else item._wrapped_tensor()
        leaves: list[collection_tree.TensorLeaf] = []
        node = describe_collection.describe_tensor(tensor, path, leaves, self.problems)
        prefix = "" if node["type"] == "tensor" and tensor is item else f"{node['type']} "
        rows = f" in {node['rows']} rows" if "rows" in node else ""
        self.entries[path_name(path)] = f"{prefix}{node['dtype']} {node['shape']}{rows}"
        self.specs.extend(map(_spec_of, leaves))


def _spec_of(leaf: collection_tree.TensorLeaf) -> TensorSpec:
    return TensorSpec(leaf.path, leaf.buffer, leaf.tensor.dtype, leaf.tensor.shape)


def path_name(path: Path) -> str:
    """Return a path as messages show it.

    >>> path_name(("a", "b")), path_name(("a.b",))
    ('a.b', '"a.b"')
    """
    return ".".join(json.dumps(key) if "." in key or '"' in key else key for key in path)


def differences(ours: dict[str, str], theirs: dict[str, str], us: str = "here", them: str = "there") -> list[str]:
    """List the differences between the entries of two layouts, for messages.

    >>> differences({"a": "float32 [3]", "b": "an object"}, {"a": "float32 [4]", "c": "int64 [1]"}, "rank 0", "rank 1")
    ['a: float32 [3] on rank 0, float32 [4] on rank 1', 'b: an object on rank 0, absent on rank 1', \
'c: absent on rank 0, int64 [1] on rank 1']
    """
    on = "" if us == "here" else "on "
    return [
        f"{name}: {ours.get(name, 'absent')} {on}{us}, {theirs.get(name, 'absent')} {on}{them}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# a collection as JSON and tensors


def as_json(value: object) -> bytes:
    """Return the JSON of a message."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def describe_record(data: TensorCollection, what: str, allow_pickle: bool = False) -> bytes:
    """Return all of a collection but the values of its tensors as JSON: batch sizes, names, types, non-tensor data.

    Args:
        data: the collection.
        what: the operation, which begins error messages.
        allow_pickle: pickle objects that JSON cannot hold.

    Raises:
        TypeError: values that no message can hold. The message lists all of them.
    """
    node, problems = describe_collection.describe_value(data, (), allow_pickle, strict=False)
    if problems:
        raise TypeError(f"{what}: nothing was sent; " + "; ".join(problems))
    return as_json(node)


def describe_with_tensors(
    data: TensorCollection, what: str, allow_pickle: bool = False
) -> tuple[bytes, list[TensorSpec], list[Tensor]]:
    """Return the JSON of :func:`describe_record`, and the specs and tensors that it names, as :func:`specs_in` orders.

    Other than those of a layout, they include the buffers of columns, in their own lengths, and of many strings.
    """
    node, leaves = describe_collection.describe(data, what, allow_pickle)
    leaves = sorted(leaves, key=lambda leaf: leaf[:2])
    text = as_json(node)
    return text, [_spec_of(leaf) for leaf in leaves], [leaf.tensor for leaf in leaves]


def whole_record(data: TensorCollection, layout: RecordLayout, what: str, allow_pickle: bool = False) -> bytes:
    """Return the JSON of :func:`describe_record` with the buffers of columns after it, for :func:`rebuild_whole`."""
    node, leaves = describe_collection.describe(data, what, allow_pickle, object_arrays=False)
    text = as_json(node)
    plain = {spec[:2] for spec in layout.specs}
    rest = sorted([leaf for leaf in leaves if leaf[:2] not in plain], key=lambda leaf: leaf[:2])
    return tensor_bytes([leaf.tensor for leaf in rest], text)


def split_specs_in(text: bytes | bytearray, origin: str) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the specs of :func:`specs_in` of tensors, and those of the buffers of columns."""
    columns = _column_paths(sealed_json.parse_json(text, origin), ())
    specs: tuple[list[TensorSpec], list[TensorSpec]] = [], []
    for spec in specs_in(text, origin):
        specs[any(spec.path[: len(path)] == path for path in columns)].append(spec)
    return specs


def _column_paths(node: Any, path: Path) -> list[Path]:
    known = collection_tree.as_dict(node) or {}
    if known.get("type") == "column":
        return [path]
    below = (collection_tree.as_dict(known.get("entries")) or {}).items()
    parts = [(str(at), part) for at, part in enumerate(as_list(known.get("parts")) or ())]
    return [found for key, entry in (*below, *parts) for found in _column_paths(entry, (*path, key))]


def rebuild_whole(
    content: bytes | bytearray, tensors: Sequence[Tensor], origin: str, allow_pickle: bool = False
) -> Any:
    """Make a collection of the content of :func:`whole_record` and its other tensors, in the order of the layout.

    Raises:
        FileError: the content is damaged. It is a ValueError.
    """

    def forms(text: bytes) -> list[tuple[torch.dtype, Size]]:
        return [spec[2:] for spec in split_specs_in(text, origin)[1]]

    text, buffers = split_tensors(content, forms, origin)
    plain, rest = split_specs_in(text, origin)
    if len(plain) != len(tensors):
        raise FileError(f"{origin}: its description is damaged")
    named = zip((*plain, *rest), (*tensors, *buffers), strict=True)
    lookup = lookup_in({spec[:2]: tensor for spec, tensor in named}, origin)
    return rebuild_record(text, None, lookup, origin, allow_pickle=allow_pickle)


#: returns the tensor of a spec: path, component, dtype, shape
TensorLookup: TypeAlias = Callable[[Path, str, torch.dtype, Size], Tensor]


def rebuild_record(
    text: bytes | bytearray,
    target: type[TensorCollection] | TensorCollection | None,
    lookup: TensorLookup,
    origin: str,
    device: torch.device | None = None,
    allow_pickle: bool = False,
) -> Any:
    """Make a collection from the JSON of :func:`describe_record` and its tensors.

    Args:
        text: the JSON.
        target: the class of the collection, or a collection whose classes it gets.
        lookup: returns the tensors.
        origin: where the text comes from, for error messages.
        device: device of the collection.
        allow_pickle: unpickle objects. Pickles can run any code.

    Raises:
        FileError: the text is damaged, or does not fit ``target``. It is a ValueError.
    """
    return rebuild_collection.rebuild(
        sealed_json.parse_json(text, origin), target, TreeSource(origin, lookup, device, allow_pickle)
    )


def specs_in(text: bytes | bytearray, origin: str) -> list[TensorSpec]:
    """Return the specs of the tensors that a JSON of :func:`describe_record` names, in the order of the layout."""
    source = TreeSource(origin, rebuild_collection.blank_reader(None))
    specs: list[TensorSpec] = []
    for path, component, node in collection_tree.tensor_nodes(sealed_json.parse_json(text, origin)):
        if component == "offsets":
            rows = node.get("rows")
            if type(rows) is not int or not 0 <= rows < 2**40:
                raise source.damaged(path, "the number of its rows is missing")
            specs.append(TensorSpec(path, component, torch.int64, Size([rows + 1])))
        else:
            dtype = collection_tree.parse_dtype(node.get("dtype"), source, path)
            specs.append(
                TensorSpec(path, component, dtype, collection_tree.parse_size(node.get("shape"), source, path))
            )
    return sorted(specs, key=lambda spec: spec[:2])


def allocate(shape: int | Sequence[int], dtype: torch.dtype, device: torch.device, origin: str) -> Tensor:
    """Allocate memory for a tensor that another process announced.

    Raises:
        FileError: there is not enough memory. It is a ValueError.
    """
    sizes = [shape] if isinstance(shape, int) else list(shape)
    try:
        return torch.empty(sizes, dtype=dtype, device=device)
    except (RuntimeError, OverflowError, TypeError):
        nbytes = dtype.itemsize
        for length in sizes:
            nbytes *= length
        raise FileError(f"{origin}: it announces {shown_size(nbytes)}, more memory than there is here") from None


def lookup_in(tensors: Mapping[tuple[Path, str], Tensor], origin: str) -> TensorLookup:
    """Return a lookup for :func:`rebuild_record` that raises if the text names a tensor that was not sent."""

    def lookup(path: Path, component: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        tensor = tensors.get((path, component))
        if tensor is None or tensor.dtype != dtype or tensor.shape != shape:
            raise FileError(f"{origin}: {path_name(path)}: its values were not sent")
        return tensor

    return lookup


# ---------------------------------------------------------------------------------------------------------------------
# non-tensor data and columns, sent into an existing collection


def content_of(data: TensorCollection, layout: RecordLayout, what: str, allow_pickle: bool = False) -> bytes:
    """Return all of a collection that can have any length: non-tensor data as JSON, and the rows of columns.

    Raises:
        TypeError: JSON cannot hold an object, and ``allow_pickle`` is off.
    """
    nodes: list[Any] = []
    for path in layout.objects:
        node, problems = describe_collection.describe_value(value_at(data, path), path, allow_pickle, strict=False)
        if problems:
            raise TypeError(f"{what}: nothing was sent; {'; '.join(problems)}")
        nodes.append(node["data"])
    text = as_json(nodes)
    return column_bytes([value_at(data, path) for path in layout.columns], text) if layout.columns else text


def read_content(
    text: bytes | bytearray, data: TensorCollection, layout: RecordLayout, origin: str, allow_pickle: bool = False
) -> Callable[[], None]:
    """Read the content of :func:`content_of`. The returned function writes objects and rows into a collection.

    Raises:
        ValueError: the text is damaged, or has pickles and ``allow_pickle`` is off. Nothing was written.
        TypeError: a field of a record does not accept an object. Nothing was written.
        RuntimeError: the collection lies in files, whose objects cannot change. Nothing was written.
    """
    try:
        return _read_content(text, data, layout, origin, allow_pickle)
    except RecursionError:
        raise FileError(f"{origin}: its non-tensor data is nested too deep. Nothing was written") from None


def _read_content(
    text: bytes | bytearray, data: TensorCollection, layout: RecordLayout, origin: str, allow_pickle: bool
) -> Callable[[], None]:
    columns: list[BufferColumn] = []
    if layout.columns:
        holders = [value_at(data, path) for path in layout.columns]
        text, columns = split_columns(text, [ColumnForm.of(holder) for holder in holders], origin)
    nodes = as_list(sealed_json.parse_json(b'{"data":' + text + b"}", origin).get("data"))
    if nodes is None or len(nodes) != len(layout.objects):
        raise ValueError(f"{origin}: expected {len(layout.objects)} pieces of non-tensor data")
    read: list[tuple[Path, Any, Any]] = []  #: path, old value, new value
    for path, node in zip(layout.objects, nodes, strict=True):
        parent: Any = value_at(data, path[:-1])
        holder: Any = parent._store[path[-1]]
        new: Any
        if holder._is_uniform:
            new = NonTensorData(_decode_object(node, allow_pickle, origin, path), batch_size=holder._batch_size)
        else:
            items = as_list(node)
            if items is None or len(items) != holder._batch_size.numel():
                raise ValueError(f"{origin}: {path_name(path)}: expected {holder._batch_size.numel()} objects")
            objects = tuple([_decode_object(item, allow_pickle, origin, path) for item in items])
            try:
                new = holder._with_objects(objects, codes_row_by_row(holder._batch_size))
            except TypeError as error:
                raise TypeError(f"{origin}: {path_name(path)}: {error}. Nothing was written") from None
        _check_fits(parent, path, new, origin)
        read.append((path, holder, new))
    rows: list[tuple[Any, Any]] = []  #: old and new column
    for path, column in zip(layout.columns, columns, strict=True):
        parent = value_at(data, path[:-1])
        holder = parent._store[path[-1]]
        made: Any = holder.__class__._of(column._items, column._spans(), holder._names, compact=True)
        if holder._device != made._device:
            made = made._to_device(holder._device, False)
        _check_fits(parent, path, made, origin)
        rows.append((holder, made))
    if read:
        check_objects_in_files(data, (), read)

    def write() -> None:
        for _, holder, new in read:
            holder._take_objects(new)
        for holder, new in rows:
            holder._become(new)

    return write


def _check_fits(parent: Any, path: Path, new: Any, origin: str) -> None:
    if isinstance(parent, TensorClass):
        try:
            parent._check_entry(path[-1], new)
        except TypeError as error:
            raise TypeError(f"{origin}: {error}. Nothing was written") from None


def _decode_object(node: Any, allow_pickle: bool, origin: str, path: Path) -> Any:
    try:
        return decode(node, allow_pickle)
    except ValueError as error:
        raise FileError(f"{origin}: {path_name(path)}: {error}. Nothing was written") from None


def value_at(data: Any, path: Path) -> Any:
    """Return the value at a path as its store holds it."""
    for key in path:
        store = data._store
        data = store.items_[int(key)] if isinstance(data, LazyStacked) else store[key]
    return data
