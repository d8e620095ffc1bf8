"""A file of groups and arrays, opened when it is needed, and how values are written to it."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.interrupts import Uninterrupted, uninterrupted
from tensorclass.printable import printable
from tensorclass.progress import Bar
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import dotted
from tensorclass.td.nontensor import NonTensorDataBase
from tensorclass.td.stores.lazy.stack import LazyStacked
from tensorclass.td.unbatched import UnbatchedTensor

from . import tree
from .hierarchy import NATIVE, Format, NotWritable, Replaced, Said, stored_as
from .tree import FileError

MODES = ("r", "r+", "w", "w-", "x", "a")


def format_of(name: str) -> Format:
    """The format of a backend.

    Raises:
        NotImplementedError: there is none of this name.
    """
    if name == "h5":
        from .hdf5 import HDF5

        return HDF5()
    if name == "zarr":
        from .zarr import Zarr

        return Zarr()
    raise NotImplementedError(f"there is no backend {name!r}; the backends are 'h5' and 'zarr'")


class File:
    """A file, and how it is used. A copy that is sent to another process opens it there when it is first needed."""

    def __init__(
        self,
        format: Format,
        path: str,
        mode: str = "r",
        *,
        options: dict[str, Any] | None = None,
        resizable: bool = False,
        checksum: bool = False,
        as_stack: bool = False,
        allow_pickle: bool = False,
        root: Any = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"{printable(path)}: the mode is one of {', '.join(MODES)}, not {mode!r}")
        self.format = format
        self.path = path
        self.mode = mode
        self.options: dict[str, Any] = options or {}
        format.check_options(self.options)
        self.resizable = resizable
        self.checksum: bool = checksum  #: tensors are written with one
        self.as_stack = as_stack
        self.allow_pickle = allow_pickle
        self.is_blank: bool = False  #: tensors are arrays of zeros, their values are not written
        self.shown: Bar[Any] | None = None  #: is told of the bytes that are written
        self.section: Uninterrupted | None = None  #: in which it is written: interrupts come between values
        self.is_closed: bool = False
        self.is_lent: bool = root is not None  # whoever opened it closes it
        self._root = None if root is None else format.lent(root)
        self._pid = os.getpid()
        self._inherited: list[Any] = []
        self._end: weakref.finalize[[Format, Any, int], File] | None = None
        self._changes = 0  #: blocks of changes that are open
        self._is_pending = False  #: the library may hold some of a change

    @property
    def root(self) -> Any:
        """The root group, opened now if it is not yet."""
        if self.is_closed:
            raise ValueError(f"{printable(self.path)}: the file was closed; open it again")
        if self._root is not None:
            if self._pid == os.getpid():
                if not self.format.is_open(self._root):
                    raise ValueError(f"{printable(self.path)}: the file was closed; open it again")
                if self.mode != "r":
                    self._check_there()
                return self._root
            self._inherited.append(self._root)  # of the process that forked this one, whose file it is: never closed
        with self._guarded():
            self._root = self.format.open(self.path, self.mode)
            self._pid = os.getpid()
            self._watch()
        if self.mode not in ("r", "r+"):
            self.mode = "r+"  # opened again, what is in it stays
        return self._root

    def adopt(self, root: Any) -> None:
        """Takes the root group of the file, which was opened under another name."""
        with self._guarded():
            self._root = root
            self._pid = os.getpid()
            self._watch()

    def close(self) -> None:
        """Closes the file, for all collections that stand on it.

        Raises:
            OSError: the disk is full. The message says what has become of the last change.
        """
        with self._guarded():
            root, self._root = self._root, None
            is_open = root is not None and self._pid == os.getpid() and not self.is_lent and not self.is_closed
            self.is_closed = True
            self._unwatch()
            if is_open and (error := self.format.close(root)) is not None and self._is_pending:
                raise OSError(error.errno, error.strerror, self.path)

    def _watch(self) -> None:
        """Have the file closed where nobody does it: when the last of it is dropped the library writes, too."""
        self._unwatch()
        if self.mode != "r" and not self.is_lent:
            self._end = weakref.finalize(self, _close_dropped, self.format, self._root, self._pid)
            self._end.atexit = False

    def _unwatch(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.detach()

    def _guarded(self) -> AbstractContextManager[object]:
        """A block that interrupts wait for, where the file is open for writing: a library may write at any call."""
        return nullcontext() if self.mode == "r" else uninterrupted()

    @contextmanager
    def changing(self, whole: bool = True) -> Generator[None, None, None]:
        """A change of the file: when the outermost block ends it is written, or is an error and undone.

        Interrupts wait for its end, or come between the values of a collection that is written.

        Args:
            whole: it is in the file when the block ends; otherwise the library may hold some of it.
        """
        with uninterrupted() as section:
            outer, self.section = self.section, self.section or section
            self._changes += 1
            self._is_pending = True
            try:
                yield
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                raise OSError(error.errno, error.strerror, self.path) from None
            finally:
                self._changes -= 1
                self.section = outer
            if not self._changes:
                self.settle(whole)

    def settle(self, whole: bool) -> None:
        """Raises an error where a change could not be written, and closes the file; see :meth:`changing`."""
        root = self._root
        if root is None or self.mode == "r" or self._pid != os.getpid():
            return
        error = self.format.settle(root, whole)
        if error is not None:
            self._root, self.is_closed = None, True
            self._unwatch()
            closed = self.format.close(root) or error
            raise OSError(closed.errno, closed.strerror, self.path)
        if whole:
            self._is_pending = False

    def __getstate__(self) -> dict[str, Any]:
        if self.is_lent:
            raise TypeError(
                f"{printable(self.path)}: a group that was opened elsewhere cannot be sent; open it by its file name"
            )
        if self._root is not None and self._pid == os.getpid() and self.mode != "r":
            self.settle(True)
        return {
            **self.__dict__,
            "_root": None,
            "_end": None,
            "_inherited": [],
            "_changes": 0,
            "is_closed": self.is_closed,
        }

    def check_writable(self, what: str = "") -> None:
        """Raises an error where the file is open for reading alone."""
        if self.mode == "r":
            raise NotWritable(
                f"{self.path}: {what + ': ' if what else ''}cannot be written, the file is open for reading (mode "
                "'r'); open it with mode='r+'"
            )

    @contextmanager
    def reading(self, path: tuple[str, ...]) -> Generator[None, None, None]:
        """What a library raises for a damaged file, as a ``FileError``."""
        with self._guarded():
            try:
                yield
                self._check_there()
            except Replaced:
                raise
            except Exception as error:
                self._check_there()  # what was read of the one folder and of the other does not fit: neither is damaged
                if isinstance(error, FileError):
                    raise
                where = f"{dotted(path)}: " if path else ""
                too_large = "it does not fit in memory: " if isinstance(error, MemoryError) else ""
                raise FileError(f"{self.path}: {where}{too_large}{_first_line(error)}") from None

    def _check_there(self) -> None:
        if self._root is not None:
            try:
                self.format.check_there(self._root)
            except Replaced as error:
                raise Replaced(f"{printable(self.path)}: {error}") from None

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, parent: Any, name: str, value: Any) -> Any:
        """Writes a value, which :func:`check` has looked at, under a name that is free."""
        if self.section is not None:
            self.section.check()
        if isinstance(value, Tensor):
            if value.is_nested:
                return self._put_jagged(parent, name, value)
            return self._put_tensor(parent, name, value)
        if isinstance(value, UnbatchedTensor):
            return self._put_tensor(parent, name, value._tensor, "unbatched")
        if isinstance(value, NonTensorDataBase):
            return self._put_objects(parent, name, value)
        group = self.format.make_group(parent, name)
        self.fill(group, value)
        return group

    def fill(self, group: Any, value: Any) -> None:
        """Writes a collection into a group."""
        if isinstance(value, LazyStacked):
            store: Any = value._store
            said: Said = {"type": "lazy_stack", "version": tree.VERSION, "parts": len(store.items_)}
            self.format.say(group, {**said, "stack_dim": store.dim, "stack_dim_name": store.name})
            for at, part in enumerate(store.items_):
                self.put(group, str(at), part)
            return
        self.format.say(group, note_of(value, self.format))
        for key in value._store:
            self.put(group, escaped(key), value._store[key])

    def _put_tensor(self, parent: Any, name: str, value: Tensor, kind: str = "tensor") -> Any:
        values = None if self.is_blank else as_array(value)
        sums = [tree.checksum_of(value)] if self.checksum else []
        made = self.make_array(parent, name, value.shape, value.dtype, values, kind, sums)
        if self.shown is not None:
            self.shown.advance(value.numel() * value.element_size())
        return made

    def make_array(
        self,
        parent: Any,
        name: str,
        shape: Size,
        dtype: torch.dtype,
        values: Any,
        kind: str = "tensor",
        sums: Sequence[int] = (),
    ) -> Any:
        """A new array for a tensor; zeros where there are no values."""
        format = self.format
        made = format.make_array(parent, name, shape, stored_as(dtype), values, self.options, self.resizable)
        said: Said = {} if kind == "tensor" else {"type": kind}
        if dtype not in NATIVE:
            said = {"type": kind, "dtype": str(dtype).removeprefix("torch.")}
        if sums:
            said = {"type": kind, **said, "crc32": sums}
        if said or not format.has_seals:
            said = {"type": kind, **said}
            format.say(made, said)
        return made

    def _put_jagged(self, parent: Any, name: str, value: Any) -> Any:
        group = self.format.make_group(parent, name)
        dtype = str(value.dtype).removeprefix("torch.")
        said: Said = {"type": "jagged", "dtype": dtype, "rows": len(value)}
        values, offsets = value.values(), value.offsets().to(torch.int64)
        if self.checksum:
            said["crc32"] = [tree.checksum_of(values), tree.checksum_of(offsets)]
        self.format.say(group, said)
        self._put_tensor(group, "values", values)
        self._put_tensor(group, "offsets", offsets)
        return group

    def _put_objects(self, parent: Any, name: str, value: NonTensorDataBase) -> Any:
        node, _ = tree.described(value, (name,), self.allow_pickle)
        data = node.pop("data")
        plain = self.format.can_hold_text
        texts: str | list[str]
        if node["type"] == "object":
            is_text = isinstance(data, str) and "metadata" not in node and plain(data)
            texts = data if is_text else _json({"data": data, "metadata": node.pop("metadata", None)})
        else:
            is_text = all(isinstance(item, str) and plain(item) for item in data)
            texts = data if is_text else [_json(item) for item in data]
        node["form"] = "text" if is_text else "json"
        made = self.format.make_texts(parent, name, texts, node)
        self.format.say(made, node)
        return made


def _close_dropped(format: Format, root: Any, pid: int) -> None:
    """Close a file that was dropped open."""
    if pid == os.getpid() and format.is_open(root):
        with uninterrupted():
            error = format.close(root)
        if error is not None:
            raise error


def check(value: Any, path: tuple[str, ...], what: str, allow_pickle: bool) -> None:
    """Raises an error where a value, or one below it, cannot be written."""
    problems = tree.described(value, path, allow_pickle, strict=False)[1]
    if problems:
        raise TypeError(f"{what}: nothing was written; " + "; ".join(problems))


def note_of(value: Any, format: Format) -> Said:
    """What is noted of a collection."""
    said = {"type": "collection", "version": tree.VERSION, **tree.head_of(value)}
    return said if format.keeps_order else {**said, "order": [escaped(key) for key in value._store]}


def as_array(value: Tensor) -> np.ndarray[Any, Any]:
    """The values of a tensor, in the dtype that they are stored as."""
    plain: Any = value.detach().as_subclass(Tensor).cpu().resolve_conj().resolve_neg().contiguous()
    if plain.dtype in NATIVE:
        return plain.numpy()  # type: ignore[no-any-return]
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[plain.dtype.itemsize]
    return plain.view(raw).numpy().view(stored_as(plain.dtype))  # type: ignore[no-any-return]


def as_tensor(array: np.ndarray[Any, Any], dtype: torch.dtype) -> Tensor:
    """The tensor that an array stands for."""
    native: Any = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
    from_numpy: Any = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if dtype in NATIVE:
        return from_numpy(native)  # type: ignore[no-any-return]
    signed = native.view(native.dtype.str.replace("u", "i") if native.itemsize > 1 else "u1")
    return from_numpy(signed).view(dtype)  # type: ignore[no-any-return]


def replaced(file: File, parent: Any, name: str, value: Any) -> Any:
    """Writes a value in the place of what is there."""
    make: Callable[[Any, str], Any] = lambda group, draft: file.put(group, draft, value)  # noqa: E731
    return file.format.replaced(parent, name, make)


def escaped(key: str) -> str:
    """The name of a key in a file: a slash would make it two.

    >>> escaped("a/b"), escaped("50%"), escaped("..")
    ('a%2Fb', '50%25', '%2E%2E')
    """
    if not key:
        return "%"
    name = key.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    if not name.strip(".") or name.startswith("__") or name in ("zarr.json", ".zgroup", ".zarray", ".zattrs"):
        name = "".join([f"%{ord(char):02X}" for char in name[:2]]) + name[2:]
    return name


def unescaped(name: str) -> str:
    """The key of a name.

    >>> [unescaped(escaped(key)) for key in ("a/b", "50%", "..", "", "__x")]
    ['a/b', '50%', '..', '', '__x']
    """
    if "%" not in name:
        return name
    if name == "%":
        return ""
    first, *rest = name.split("%")
    return first + "".join([chr(int(part[:2], 16)) + part[2:] for part in rest])


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _first_line(error: BaseException) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text.splitlines()[0][:300] if text else type(error).__name__


def is_record(cls: type[TensorCollection]) -> bool:
    """Whether a class is that of a record, with fields."""
    return hasattr(cls, "_specs")
