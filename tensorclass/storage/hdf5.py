"""The HDF5 format, as far as :mod:`.persistent` needs it: groups, arrays and text, through h5py.

What HDF5 does not say is in the attribute ``tensorclass`` of a group or dataset, as JSON: see docs/formats.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from .hierarchy import NOTE, STACK, DamagedFile, Format, Said, Texts, chunk_shape
from .partial import along, pieces
from .tree import FileError, as_dict

_TEXT = "__tensordict_str__"
_DRAFT = "%draft"


def _h5py() -> Any:
    """The library, imported now: it takes a while."""
    import h5py

    return h5py


class HDF5(Format):
    """HDF5 files."""

    name: ClassVar[str] = "h5"
    options: ClassVar[tuple[str, ...]] = (
        "chunks", "compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset", "fillvalue",
        "track_times", "track_order",
    )  # fmt: skip

    def open(self, path: str, mode: str) -> Any:
        library = _h5py()
        if mode in ("r", "r+") and not os.path.exists(path):
            raise FileNotFoundError(f"there is no file {path}")
        if os.path.isdir(path):
            raise FileError(f"{path}: expected a file, found a folder")
        try:
            return library.File(path, mode, track_order=True)
        except OSError as error:
            if error.errno is not None:
                raise type(error)(error.errno, f"{path}: {error}") from None
            raise DamagedFile(f"{path}: it is no HDF5 file, or damaged: {error}") from None
        except (RuntimeError, ValueError, KeyError) as error:
            raise DamagedFile(f"{path}: it is no HDF5 file, or damaged: {error}") from None

    def close(self, root: Any) -> None:
        root.close()

    def is_open(self, root: Any) -> bool:
        return bool(root)

    def names(self, group: Any) -> list[str]:
        return list(group)

    def find(self, group: Any, name: str) -> Any:
        library = _h5py()
        encoded = name.encode("utf-8", "surrogateescape")
        if encoded not in group.id:
            raise KeyError(f"there is no {name!r}")
        if group.id.links.get_info(encoded).type == library.h5l.TYPE_EXTERNAL:
            raise ValueError("it is a link to another file, which is not followed")
        found = group[name]
        if isinstance(found, library.Dataset):
            kept = found.id.get_create_plist()
            layout = kept.get_layout()
            if layout == library.h5d.VIRTUAL or (layout == library.h5d.CONTIGUOUS and kept.get_external_count()):
                raise ValueError("its values lie in other files, which are not opened")
        elif not isinstance(found, library.Group):
            raise ValueError("it is neither a group nor a dataset")
        return found

    def address(self, node: Any) -> object:
        h5o = _h5py().h5o
        return h5o.get_info(node.id).addr

    def is_group(self, node: Any) -> bool:
        return not hasattr(node, "dtype")

    def said(self, node: Any) -> Said | None:
        attributes = node.attrs
        if not len(attributes):
            return None
        if NOTE in attributes:
            text = attributes[NOTE]
            return as_dict(json.loads(text)) or {} if isinstance(text, str) else {}
        if STACK in attributes and not self.is_group(node):  # as the peer notes it
            return {"type": "objects", "batch_size": list(node.shape), "form": "values"}
        return None

    def say(self, node: Any, said: Said) -> None:
        node.attrs[NOTE] = json.dumps(said, allow_nan=False)

    def make_group(self, parent: Any, name: str) -> Any:
        return parent.create_group(name, track_order=True)

    def make_array(
        self,
        parent: Any,
        name: str,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        values: Any,
        options: dict[str, Any],
        resizable: bool,
    ) -> Any:
        given: dict[str, Any] = dict(options) if len(shape) and all(shape) else {}
        if "chunks" in given:
            given["chunks"] = chunk_shape(given["chunks"], shape)
        if resizable and len(shape):
            given["maxshape"] = (None, *shape[1:])
            if not all(shape):
                given["chunks"] = tuple([max(1, min(length or 64, 64)) for length in shape])
        if values is None:
            given.setdefault("fillvalue", 0)  # otherwise what is not written can be anything
        if values is not None and all(shape):
            return parent.create_dataset(name, data=values, **given)  # in one go, which takes half the time of two
        return parent.create_dataset(name, shape=tuple(shape), dtype=dtype, **given)

    def replaced(self, parent: Any, name: str, make: Any) -> Any:
        with suppress(KeyError):
            del parent[_DRAFT]  # of a process that was killed
        try:
            made = make(parent, _DRAFT)
        except BaseException:
            with suppress(KeyError):
                del parent[_DRAFT]
            raise
        if name in parent:
            del parent[name]
        parent.move(_DRAFT, name)
        return made

    def remove(self, parent: Any, name: str) -> None:
        del parent[name]

    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        parts = [array[piece] if piece or array.shape else array[()] for _, piece in pieces(box)]
        if len(parts) == 1:
            return np.asarray(parts[0])
        return np.concatenate(parts, [isinstance(item, slice) for item in box].index(False))

    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        for where, piece in pieces(box):
            array[piece or ...] = values[along(box, where)] if box else values

    def resize(self, array: Any, length: int) -> None:
        array.resize(length, axis=0)

    def can_resize(self, array: Any) -> bool:
        return bool(array.maxshape) and array.maxshape[0] is None

    def make_texts(self, parent: Any, name: str, texts: Texts, said: Said) -> Any:
        library = _h5py()
        shape = () if isinstance(texts, str) else tuple(said["batch_size"])
        made = parent.create_dataset(name, shape=shape, dtype=library.string_dtype())
        if isinstance(texts, str):
            made[()] = texts
            if said.get("form") == "text":
                made.attrs[_TEXT] = True  # a note of the peer's, which reads it so
        else:
            if texts:
                held: Any = np.array(texts, dtype=object)
                made[...] = held.reshape(shape)
            made.attrs[STACK] = np.array(shape, dtype=np.int64)
        return made

    def texts(self, array: Any) -> Any:
        library = _h5py()
        if array.shape is None:  # h5py.Empty
            return None
        if library.check_string_dtype(array.dtype) is None:
            if array.dtype.kind not in "biuf":
                raise ValueError(f"values of the dtype {array.dtype} are neither tensors nor text")
            return array[()].tolist()
        found: Any = array.asstr("utf-8", "surrogateescape")[()]
        return found if isinstance(found, str) else found.tolist()

    def is_text(self, array: Any) -> bool:
        library = _h5py()
        return array.shape is None or library.check_string_dtype(array.dtype) is not None

    def can_hold_text(self, text: str) -> bool:
        if "\0" in text:  # HDF5 ends text there
            return False
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return True

    def flush(self, root: Any) -> None:
        root.flush()
