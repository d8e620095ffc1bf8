"""What a collection looks like on the wire: its tensors one behind the other in one piece of memory, and a number that
says whether two processes mean the same by it.

A *layout* has the tensors in the order of their names, whatever the order of the keys is, with dtype, shape and first
byte, and the names of non-tensor data. It is found anew in each call and made once for each form of collections
(:func:`taken_apart`), so that a loop that sends records of one form pays for a look-up.

Two sides that both have a collection compare digests and move bytes (:meth:`Layout.pack`, :meth:`Layout.unpack`);
where they differ, :func:`differences` says in what. A side that has none is sent the text of :func:`described`, of
which :func:`rebuilt` makes a collection of the class that it asks for. Nothing here unpickles unless it is asked to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Size, Tensor

from tensorclass.record import TensorClass
from tensorclass.storage import sealing, tree
from tensorclass.storage.objects import decode
from tensorclass.storage.tree import DTYPES, FileError, Source, as_list
from tensorclass.td.base import TensorCollection
from tensorclass.td.consolidated import parts_of, places_of, view
from tensorclass.td.indexing import check_objects_in_files
from tensorclass.td.nontensor import NonTensorData, NonTensorDataBase, stack_of
from tensorclass.td.objects import codes_row_by_row
from tensorclass.td.shared_memory import shown_size
from tensorclass.td.stores.lazy.stack import LazyStacked
from tensorclass.td.unbatched import UnbatchedTensor

Path: TypeAlias = "tuple[str, ...]"
_is_contiguous: Callable[[Tensor], bool] = Tensor.is_contiguous
_foreach_copy: Any = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]


class Part(NamedTuple):
    """A tensor of a layout."""

    path: Path  #: keys, and numbers of parts of lazy stacks
    part: str  #: ``""``, or what of a tensor that consists of several: ``"offsets"``
    dtype: torch.dtype
    shape: Size
    start: int  #: its first byte in the memory

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return self.shape.numel() * self.dtype.itemsize


class Layout:
    """The form of a collection: which tensors, where they go in one piece of memory, which non-tensor data.

    Attributes:
        parts: the tensors, in the order of their names.
        size: how many bytes they take together.
        objects: the names of non-tensor data.
        digest: 64 bits that two forms share where they are the same: keys, dtypes, shapes, kinds of values. The order
            of keys, classes, batch sizes and devices are not part of it.
        entries: what the digest is of: what stands at each name.
    """

    __slots__ = ("digest", "entries", "flagged", "objects", "parts", "plans", "size")

    def __init__(self, parts: Sequence[Part], entries: dict[str, str], objects: Sequence[Path]) -> None:
        self.parts: tuple[Part, ...] = tuple(parts)
        self.objects: tuple[Path, ...] = tuple(objects)
        self.entries: dict[str, str] = entries
        last = max((part.start + part.nbytes for part in self.parts), default=0)
        self.size: int = -(-last // 16) * 16
        #: tensors that lie one behind the other and can be a conjugate or a negative for all that
        self.flagged: list[int] = [
            at for at, part in enumerate(self.parts) if part.dtype.is_complex or part.shape.numel() == 1
        ]
        self.plans: dict[Any, Any] = {}  #: what messages keep of it
        text = json.dumps(sorted(entries.items())).encode()
        self.digest: int = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")

    def views(self, memory: Tensor, start: int = 0) -> list[Tensor]:
        """The tensors as views of a piece of memory of bytes, in the order of ``parts``."""
        return [view(memory, part.dtype, part.shape, start + part.start) for part in self.parts]

    def pack(self, tensors: Sequence[Tensor], memory: Tensor | None = None) -> Tensor:
        """The values of tensors in one piece of memory.

        Args:
            tensors: those of :func:`taken_apart`.
            memory: where they go, ``size`` bytes; on the CPU or another device. New memory on the CPU by default.
        """
        if memory is None:
            memory = torch.zeros(self.size, dtype=torch.uint8, device="cpu")
        copy(self.views(memory), tensors)
        return memory

    def unpack(self, memory: Tensor, tensors: Sequence[Tensor]) -> None:
        """Writes the values of :meth:`pack` into tensors; see :func:`written` for what is to be done behind it."""
        copy(tensors, self.views(memory))


def copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Writes tensors into others of the same shapes by one call."""
    with torch.no_grad():
        if any(target.is_conj() or target.is_neg() for target in targets):
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source)
        elif targets:
            _foreach_copy(list(targets), list(sources))


# ---------------------------------------------------------------------------------------------------------------------
# taking apart

_known: dict[Any, tuple[Layout, list[int] | None]] = {}  #: by form; the numbers say which leaf a part is
_MOST = 256  #: forms that are kept
_BEGIN, _END, _NEXT = object(), object(), object()  #: in forms: what no key is


class Taken(NamedTuple):
    """A collection that was taken apart."""

    layout: Layout
    tensors: list[Tensor]  #: in the order of the layout
    plain: bool  #: they are on the CPU, and the items of each lie one behind the other
    #: in the order of the tree, where the collection has to be told that they were written into
    leaves: list[Tensor] | None
    #: those of a consolidated collection, of which ``tensors`` is the memory
    parts: list[Tensor] | None = None


def taken_apart(data: TensorCollection) -> tuple[Layout, list[Tensor]]:
    """The layout of a collection, and its tensors in that order.

    Raises:
        TypeError: values that no message can hold: sparse and quantized tensors, those of the device ``meta``.

    >>> from tensorclass import TensorDict
    >>> layout, tensors = taken_apart(TensorDict({"b": torch.zeros(2), "a": {"c": torch.ones(2, 3)}}, [2]))
    >>> [(part.path, part.start) for part in layout.parts], layout.size, [tensor.ndim for tensor in tensors]
    ([(('a', 'c'), 0), (('b',), 24)], 32, [2, 1])
    """
    return taken(data)[:2]


def taken(data: TensorCollection) -> Taken:
    """:func:`taken_apart`, and how the tensors can be read and written.

    It is called for each message, and a few microseconds are much of what one costs: so the tensors are asked together.
    """
    form: list[Any] = []
    leaves: list[Tensor] = []
    special = _walk(data, form, leaves)
    try:
        plain = all(map(_is_contiguous, leaves)) and False not in [leaf.is_cpu for leaf in leaves]
    except RuntimeError:  # a sparse tensor
        plain = False
    if not plain:
        form += [(leaf.layout, leaf.is_meta) for leaf in leaves]
    key = (*form, *[leaf.dtype for leaf in leaves], *[leaf.shape for leaf in leaves])
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        found = _known[key] = _laid_out(data)
    layout, order = found
    tensors = leaves if order is None else [leaves[at] for at in order]
    if plain and layout.flagged:
        plain = not any(tensors[at].is_conj() or tensors[at].is_neg() for at in layout.flagged)
    return Taken(layout, tensors, plain, leaves if special else None)


def layout_of(data: TensorCollection) -> Layout:
    """The layout of a collection; see :func:`taken_apart`."""
    return taken_apart(data)[0]


def _walk(value: Any, form: list[Any], leaves: list[Tensor]) -> bool:
    """What tells forms apart but dtypes and shapes, in the order of the tree, and the tensors.

    Returns:
        Whether the collection has to be told that its tensors were written into.
    """
    store: Any = value._store
    if isinstance(value, LazyStacked):
        form.append((store.dim, len(store.items_)))
        special = False
        for part in store.items_:
            form.append(_NEXT)
            special = _walk(part, form, leaves) or special
        return special
    special = store.__class__ is not dict
    for key, item in store.items():
        if item.__class__ is Tensor:
            form.append(key)
            leaves.append(item)
        elif isinstance(item, Tensor):
            form += (key, item.__class__, item.layout)
            leaves += parts_of(item)
            special = special or item.is_nested
        elif isinstance(item, NonTensorDataBase):
            form += (key, isinstance(item, NonTensorData) or item._batch_size)
        elif isinstance(item, UnbatchedTensor):
            form += (key, UnbatchedTensor)
            leaves.append(item._tensor)
        else:
            form += (key, _BEGIN)
            special = _walk(item, form, leaves) or special
            form.append(_END)
    return special


def _laid_out(data: TensorCollection) -> tuple[Layout, list[int] | None]:
    found: list[tuple[Path, str, Tensor]] = []
    entries: dict[str, str] = {}
    objects: list[Path] = []
    problems: list[str] = []
    _note(data, (), found, entries, objects, problems)
    if problems:
        raise TypeError("; ".join(problems))
    order = sorted(range(len(found)), key=lambda at: found[at][:2])
    places, _ = places_of([found[at][2] for at in order])
    parts = [Part(*found[at][:2], dtype, shape, start) for at, (dtype, shape, start) in zip(order, places, strict=True)]
    return Layout(parts, entries, sorted(objects)), None if order == sorted(order) else order


def _note(
    value: Any,
    path: Path,
    found: list[tuple[Path, str, Tensor]],
    entries: dict[str, str],
    objects: list[Path],
    problems: list[str],
) -> None:
    """What a value is, in the order of :func:`_walk`."""
    if isinstance(value, LazyStacked):
        store: Any = value._store
        entries[named((*path, "*"))] = f"a lazy stack of {len(store.items_)} parts in dimension {store.dim}"
        for at, part in enumerate(store.items_):
            _note(part, (*path, str(at)), found, entries, objects, problems)
        return
    for key, item in value._store.items():
        where = (*path, key)
        if isinstance(item, NonTensorDataBase):
            one = isinstance(item, NonTensorData)
            entries[named(where)] = "an object" if one else f"an object for each row of {list(item._batch_size)}"
            objects.append(where)
        elif isinstance(item, (Tensor, UnbatchedTensor)):
            tensor = item if isinstance(item, Tensor) else item._tensor
            leaves: list[tree.TensorLeaf] = []
            node = tree.describe_tensor(tensor, where, leaves, problems)
            kind = "" if node["type"] == "tensor" and tensor is item else f"{node['type']} "
            told = f"{kind}{node['dtype']} {node['shape']}"
            entries[named(where)] = f"{told} in {node['rows']} rows" if "rows" in node else told
            found += [(where, leaf.buffer, leaf.tensor) for leaf in leaves]
        else:
            _note(item, where, found, entries, objects, problems)


def named(path: Path) -> str:
    """A path as the name that messages have.

    >>> named(("a", "b")), named(("a.b",))
    ('a.b', '"a.b"')
    """
    return ".".join(json.dumps(key) if "." in key or '"' in key else key for key in path)


# ---------------------------------------------------------------------------------------------------------------------
# comparing


def differences(ours: dict[str, str], theirs: dict[str, str], us: str = "here", them: str = "there") -> list[str]:
    """In what the entries of two layouts differ, for messages; nothing where they do not.

    >>> differences({"a": "float32 [3]", "b": "an object"}, {"a": "float32 [4]", "c": "int64 [1]"}, "rank 0", "rank 1")
    ['a: float32 [3] on rank 0, float32 [4] on rank 1', 'b: an object on rank 0, absent on rank 1', \
'c: absent on rank 0, int64 [1] on rank 1']
    """
    return [
        f"{name}: {ours.get(name, 'absent')} on {us}, {theirs.get(name, 'absent')} on {them}"
        if us != "here"
        else f"{name}: {ours.get(name, 'absent')} {us}, {theirs.get(name, 'absent')} {them}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# a whole collection as text, and one made of it


def described(data: TensorCollection, what: str, allow_pickle: bool = False) -> bytes:
    """All of a collection but the values of its tensors, as JSON: batch sizes, names, kinds, non-tensor data.

    Args:
        data: the collection.
        what: who asks, to begin errors with.
        allow_pickle: write objects that JSON cannot hold as pickles.

    Raises:
        TypeError: values that no message can hold, all of them.
    """
    node, _ = tree.describe(data, what, allow_pickle)
    return json.dumps(node, allow_nan=False, separators=(",", ":")).encode()


#: gives the tensor of a part: path, what of it, dtype, shape
Reader: TypeAlias = Callable[[Path, str, torch.dtype, Size], Tensor]


def rebuilt(
    text: bytes | bytearray,
    target: type[TensorCollection] | TensorCollection | None,
    read: Reader,
    origin: str,
    device: torch.device | None = None,
    allow_pickle: bool = False,
) -> Any:
    """The collection of :func:`described`, with other tensors.

    Args:
        text: the JSON.
        target: its class, or a collection whose classes it gets.
        read: gives the tensors.
        origin: where it comes from, for errors.
        device: that of the collection.
        allow_pickle: read objects that were pickled, which can run any code.

    Raises:
        FileError: the text is damaged, or does not fit the record that is asked for. It is a ValueError.
    """
    return tree.rebuild(sealing.parse_json(text, origin), target, Source(origin, read, device, allow_pickle))


def parts_in(text: bytes | bytearray, origin: str) -> list[Part]:
    """The tensors that the text of :func:`described` tells of, with their places, as the layout of the collection."""
    source = Source(origin, tree.blank_reader(None))
    found: list[tuple[Path, str, torch.dtype, Size]] = []
    for path, part, node in tree.tensor_nodes(sealing.parse_json(text, origin)):
        if part == "offsets":
            rows = node.get("rows")
            if type(rows) is not int or not 0 <= rows < 2**40:
                raise source.damaged(path, "the number of its rows is missing")
            found.append((path, part, torch.int64, Size([rows + 1])))
        else:
            dtype = tree.parse_dtype(node.get("dtype"), source, path)
            found.append((path, part, dtype, tree.parse_size(node.get("shape"), source, path)))
    found.sort(key=lambda item: item[:2])
    end, parts = 0, list[Part]()
    for path, part, dtype, shape in found:
        unit = max(8, dtype.itemsize)
        start = -(-end // unit) * unit if shape.numel() else end
        parts.append(Part(path, part, dtype, shape, start))
        end = start + parts[-1].nbytes
    return parts


def space(shape: int | Sequence[int], dtype: torch.dtype, device: torch.device, origin: str) -> Tensor:
    """Memory for what another process tells that it sends.

    Raises:
        FileError: there is not as much. It is a ValueError.
    """
    given = [shape] if isinstance(shape, int) else list(shape)
    try:
        return torch.empty(given, dtype=dtype, device=device)
    except (RuntimeError, OverflowError, TypeError):
        size = dtype.itemsize
        for length in given:
            size *= length
        raise FileError(f"{origin}: it tells of {shown_size(size)}, for which there is no memory here") from None


def reader_of(tensors: Mapping[tuple[Path, str], Tensor], origin: str) -> Reader:
    """Gives the tensors of a message that came, for :func:`rebuilt`; an error where the text tells of another one."""

    def read(path: Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        found = tensors.get((path, part))
        if found is None or found.dtype != dtype or found.shape != shape:
            raise FileError(f"{origin}: {named(path)}: its values were not sent")
        return found

    return read


# ---------------------------------------------------------------------------------------------------------------------
# non-tensor data of a collection that is there


def objects_text(data: TensorCollection, layout: Layout, what: str, allow_pickle: bool = False) -> bytes:
    """The non-tensor data of a collection as JSON, in the order of ``layout.objects``.

    Raises:
        TypeError: an object that JSON cannot hold, and ``allow_pickle`` is off.
    """
    nodes: list[Any] = []
    for path in layout.objects:
        node, problems = tree.describe_value(value_at(data, path), path, allow_pickle, strict=False)
        if problems:
            raise TypeError(f"{what}: nothing was sent; {'; '.join(problems)}")
        nodes.append(node["data"])
    return json.dumps(nodes, allow_nan=False, separators=(",", ":")).encode()


def read_objects(
    text: bytes | bytearray, data: TensorCollection, layout: Layout, origin: str, allow_pickle: bool = False
) -> Callable[[], None]:
    """What writes the non-tensor data of :func:`objects_text` into a collection of the same layout.

    Raises:
        ValueError: the text is damaged, or has pickles, and ``allow_pickle`` is off. Nothing was written.
        TypeError: an object is none that a field of a record can have; likewise.
        RuntimeError: the collection lies in files, which cannot have other objects; likewise.
    """
    try:
        return _read_objects(text, data, layout, origin, allow_pickle)
    except RecursionError:
        raise FileError(f"{origin}: its non-tensor data is nested too deep. Nothing was written") from None


def _read_objects(
    text: bytes | bytearray, data: TensorCollection, layout: Layout, origin: str, allow_pickle: bool
) -> Callable[[], None]:
    given = as_list(sealing.parse_json(b'{"data":' + text + b"}", origin).get("data"))
    if given is None or len(given) != len(layout.objects):
        raise ValueError(f"{origin}: expected {len(layout.objects)} pieces of non-tensor data")
    made: list[tuple[Path, Any, Any]] = []
    for path, form in zip(layout.objects, given, strict=True):
        above: Any = value_at(data, path[:-1])
        holder: Any = above._store[path[-1]]
        new: Any
        if isinstance(holder, NonTensorData):
            new = NonTensorData(_decoded(form, allow_pickle, origin, path), batch_size=holder._batch_size)
        else:
            items = as_list(form)
            if items is None or len(items) != holder._batch_size.numel():
                raise ValueError(f"{origin}: {named(path)}: expected {holder._batch_size.numel()} objects")
            objects = tuple([_decoded(item, allow_pickle, origin, path) for item in items])
            new = stack_of(objects, codes_row_by_row(holder._batch_size), holder._device, None)
        if isinstance(above, TensorClass):
            try:
                above._check_entry(path[-1], new)
            except TypeError as error:
                raise TypeError(f"{origin}: {error}. Nothing was written") from None
        made.append((path, holder, new))
    if made:
        check_objects_in_files(data, (), made)

    def write() -> None:
        for _, holder, new in made:
            holder._objects = new._objects
            holder._store = new._store

    return write


def _decoded(form: Any, allow_pickle: bool, origin: str, path: Path) -> Any:
    try:
        return decode(form, allow_pickle)
    except ValueError as error:
        raise FileError(f"{origin}: {named(path)}: {error}. Nothing was written") from None


def value_at(data: Any, path: Path) -> Any:
    """What stands at a path, as the stores hold it."""
    for key in path:
        store = data._store
        data = store.items_[int(key)] if isinstance(data, LazyStacked) else store[key]
    return data


__all__ = [
    "DTYPES",
    "Layout",
    "Part",
    "copy",
    "described",
    "differences",
    "layout_of",
    "named",
    "objects_text",
    "parts_in",
    "read_objects",
    "reader_of",
    "rebuilt",
    "space",
    "taken_apart",
]
