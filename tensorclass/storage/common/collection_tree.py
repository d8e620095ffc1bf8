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
- ``object_rows``: many objects in the same arrays; the strings are the JSON of the objects;
- ``object``: one object for all rows as ``data``, and the ``batch_size``; ``objects``: few objects, ``data`` is a flat
  list with one for each row. :mod:`tensorclass.storage.common.object_json` turns objects into JSON.

Nodes of tensors have ``crc32`` if checksums were asked for: a number for each buffer, in the order of writing.

:mod:`.describe_collection` makes the tree of a collection, :mod:`.rebuild_collection` makes a collection from a tree. A
format writes the tree and the tensors, and reads a tensor by its path. This module has what both share: the types, the
limits, and the checks of metadata that is not trusted.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Size, Tensor

from tensorclass.support.printable import printable
from tensorclass.td import shapes
from tensorclass.td.keys import dotted
from tensorclass.td.memory.consolidated_buffer import view
from tensorclass.td.memory.mapped_files import pieces

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
    of_objects: bool = False  #: it holds texts of a stack of objects, and is no tensor of the collection


class TensorReader(Protocol):
    """Reads a buffer of a tensor from a file."""

    def __call__(self, path: Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor: ...


#: opens a buffer of a tensor: takes what a :class:`TensorReader` takes, and returns a function that reads it
TensorOpener: TypeAlias = Callable[[Path, str, torch.dtype, Size], Callable[[], Tensor]]


class FileError(ValueError):
    """A file is damaged, or does not fit the class that is loaded from it."""

    def __init__(self, *args: object) -> None:
        # names of files and keys are not trusted
        super().__init__(*(printable(one, lines=True) if isinstance(one, str) else one for one in args))


def at_key(path: Path, why: object) -> str:
    """Return a message that begins with the key; the message alone for the outermost collection."""
    return f"{dotted(path)}: {why}" if path else str(why)


def damaged(file: str, path: Path, why: str) -> FileError:
    """Return an error that names the file and the key."""
    return FileError(f"{file}: {at_key(path, why)}")


class Unfit(FileError):
    """The content of a file does not fit the record class."""

    differences: Sequence[str] = ()

    @classmethod
    def of(cls, file: str, differences: Sequence[str]) -> Unfit:
        """Return an error that lists the differences."""
        found = [f"{len(differences)} differences; nothing was loaded", *differences]
        error = cls(f"{file}: " + ("\n  ".join(found) if len(differences) > 1 else "".join(differences)))
        error.differences = differences
        return error


def none_fields(node: Node) -> list[Any]:
    """Return the fields of a record that were ``None`` although they have another default."""
    return as_list((as_dict(node.get("class")) or {}).get("none")) or []


class TreeSource(NamedTuple):
    """The file of a tree, and how a collection is made from it."""

    file: str  #: the path, for errors
    read: TensorReader
    device: torch.device | None = None  #: the device of the collections
    allow_pickle: bool = False
    strict: bool = True  #: the fields of a record and the keys in the file must be the same
    same_objects: bool = False  #: take the objects of the target, of which the file has copies
    verify: bool = False  #: compare values with their checksums
    checksum: Callable[[Tensor], int] | None = None  #: computes checksums in place of :func:`checksum_of`
    #: reads texts of objects, if ``read`` makes tensors without values or on another device
    read_strings: TensorReader | None = None
    check_text: bool = False  #: check the encoding of text, as ``verify`` does

    def damaged(self, path: Path, why: str) -> FileError:
        """Return an error that names the file and the key."""
        return damaged(self.file, path, why)

    def check_depth(self, path: Path) -> None:
        """Raise if a collection is nested too deep."""
        if len(path) > DEPTH:
            raise self.damaged(path[:3], f"collections are nested deeper than {DEPTH} levels")


#: the types of nodes of objects whose texts lie in arrays
OBJECT_ARRAYS = ("strings", "object_rows")


def has_object_arrays(node: Any) -> bool:
    """Return whether a tree has objects in arrays, which are read also where tensors get no values."""
    known = as_dict(node) or {}
    parts = [*(as_dict(known.get("entries")) or {}).values(), *(as_list(known.get("parts")) or ())]
    return known.get("type") in OBJECT_ARRAYS or any(map(has_object_arrays, parts))


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


class BufferReader:
    """Reads tensors that lie in one buffer.

    Args:
        file: the source of the buffer, for errors.
        memory: the buffer.
        size: its bytes.
        starts: the offset of each tensor, by path and buffer. It is not trusted.
        absent: the error for a tensor that is not in the buffer.
    """

    def __init__(
        self, file: str, memory: Tensor, size: int, starts: Mapping[tuple[Path, str], Any], absent: str
    ) -> None:
        self._file, self._memory, self._size, self._starts, self._absent = file, memory, size, starts, absent
        self._found: list[tuple[int, int, Path]] = []  #: start, end and key of what was read

    def read(self, path: Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        """Return a view of the buffer; see :class:`TensorReader`."""
        start, count = self._starts.get((path, buffer)), shape.numel() * dtype.itemsize
        if type(start) is not int or not 0 <= start <= start + count <= self._size:
            raise FileError(f"{self._file}: {'.'.join(path)}: {self._absent}")
        if count:
            self._found.append((start, start + count, path))
        return view(self._memory, dtype, shape, start)

    def check_disjoint(self) -> None:
        """Raise if two of the tensors share bytes, since writing to one would change the other.

        Raises:
            FileError: two tensors share bytes.
        """
        self._found.sort()
        for (_, end, one), (start, stop, other) in itertools.pairwise(self._found):
            if start < end:
                raise FileError(
                    f"{self._file}: {'.'.join(one)} and {'.'.join(other)} have {min(end, stop) - start} bytes in "
                    f"common, from byte {start} on; writing to one would change the other"
                )


def as_dict(given: object) -> dict[str, Any] | None:
    """Return a JSON object, or ``None`` for anything else."""
    found: Any = given
    return found if type(given) is dict else None


def as_list(given: object) -> list[Any] | None:
    """Return a JSON array, or ``None`` for anything else."""
    found: Any = given
    return found if type(given) is list else None


def stated_names(given: object) -> list[Any] | None:
    """Return the dimension names of a description by the peer, which has a list of ``None`` if there are none."""
    names = as_list(given)
    return names if names and any(name is not None for name in names) else None


def parse_size(given: Any, source: TreeSource, path: Path) -> Size:
    """Return the shape that a file gives; raise if it is none, or too large."""
    form: object = given
    if type(form) is list:
        total = 1
        for length in given:
            if type(length) is not int or length < 0:
                break
            total *= length or 1
            if total > MOST_VALUES:  # stop here: the product of many large numbers takes long
                break
        else:
            return Size(given)
    raise source.damaged(path, f"expected a shape, got {str(given)[:80]}")


def parse_dtype(given: Any, source: TreeSource, path: Path) -> torch.dtype:
    """Return the dtype that a file names; raise if it is unknown."""
    found = DTYPES.get(given) if isinstance(given, str) else None
    if found is None:
        raise source.damaged(path, f"the dtype {str(given)[:40]!r} is unknown here")
    return found


def parse_names(given: Any, size: Size, source: TreeSource, path: Path) -> Any:
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


def no_tensor(path: Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
    """Raise: the reader of trees whose tensors are not read."""
    raise FileError(f"{'.'.join(path)}: not a tensor")


def check_length(length: int, most: int, what: str, where: str = "the collection") -> None:
    """Raise if metadata is longer than the limit for reading.

    Args:
        length: its bytes.
        most: the limit.
        what: the caller, for the error.
        where: what it describes, for the error.
    """
    if length > most:
        raise ValueError(
            f"{what}: nothing was written; the metadata of {where} takes {length} bytes as JSON, at most {most} can be "
            "read: objects take most of it"
        )


MOST_VALUES = 2**58  #: values in a tensor: the number of their bytes fits in 63 bits


def checksum_of(tensor: Tensor, start: int = 0) -> int:
    """Return the CRC-32 of the bytes of a tensor in C order, continued from ``start``."""
    checksum = start
    for piece in pieces(tensor):
        checksum = zlib.crc32(piece, checksum)
    return checksum
