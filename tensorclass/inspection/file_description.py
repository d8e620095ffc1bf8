"""A description of a file: its class, fields, rows and bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tensorclass.support.printable import printable
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.leaves.object_codes import to_lists

from .data_files import opened


@dataclass(frozen=True)
class FieldDescription:
    """A field of a file.

    Attributes:
        name: the key; nested keys with dots.
        kind: ``"tensor"``, ``"text"``, ``"ragged"`` or ``"object"``.
        dtype: the dtype of numbers, ``"float32"``; empty for text and objects.
        shape: the shape of one row.
        bytes: the size of all rows in memory; ``None`` where it is not known without reading them.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int | None


@dataclass(frozen=True)
class FileDescription:
    """The content of a file; :func:`describe_file` makes one, and ``str`` shows it.

    Attributes:
        path: the file.
        format: its format: ``"memmap"``, ``"parquet"``, ...
        class_name: the record class that the file names, ``"module.Class"``; ``None`` without one.
        rows: the number of rows; ``None`` without batch dimensions.
        batch_size: the batch size.
        bytes: the size on the disk, of a folder with all its files.
        checksums: whether there are checksums of the values; ``None`` if the format has none.
        verified: whether all values were read, and agreed with the checksums if there are any.
        fields: the fields, in the order of the file.
        first: the first rows as text.
    """

    path: str
    format: str
    class_name: str | None
    rows: int | None
    batch_size: tuple[int, ...]
    bytes: int
    checksums: bool | None
    verified: bool
    fields: tuple[FieldDescription, ...] = field(default_factory=tuple)
    first: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.inspection import describe_file
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = TensorDict({"x": torch.zeros(4, 2)}, [4]).memmap(folder + "/rows")
            ...     describe_file(folder + "/rows").to_dict()["fields"]
            [{'name': 'x', 'kind': 'tensor', 'dtype': 'float32', 'shape': [2], 'bytes': 32}]
        """
        plain = asdict(self)
        plain["batch_size"] = list(self.batch_size)
        plain["fields"] = [{**asdict(one), "shape": list(one.shape)} for one in self.fields]
        return plain

    def __str__(self) -> str:
        rows = "no batch dimension" if self.rows is None else f"{self.rows:,} rows"
        if len(self.batch_size) > 1:
            rows += f", batch size {list(self.batch_size)}"
        seals = {None: "", True: ", with checksums", False: ", without checksums"}[self.checksums]
        verified = "" if not self.verified else ", intact" if self.checksums else ", all bytes readable"
        lines = [
            self.path,
            f"  format  {self.format}, {shown_bytes(self.bytes)} on disk{seals}{verified}",
            f"  class   {self.class_name or 'none named: a TensorDict'}",
            f"  rows    {rows}",
            "  fields",
        ]
        width = max([len(one.name) for one in self.fields], default=0)
        for one in self.fields:
            what = one.kind if one.kind != "tensor" and not one.dtype else f"{one.dtype}{list(one.shape) or ''}"
            what = f"ragged {what}" if one.kind == "ragged" else what
            size = "" if one.bytes is None else shown_bytes(one.bytes)
            lines.append(f"    {one.name:{width}}  {what:24} {size}".rstrip())
        lines = [printable(line) for line in lines]
        return "\n".join([*lines, *([] if not self.first else ["  first rows", self.first])])


def describe_file(path: str | os.PathLike[str], *, rows: int = 5, verify: bool = False) -> FileDescription:
    """Describe a file of any format that this package writes, or of Parquet, Arrow, CSV, JSON, safetensors or HDF5.

    The format is found in the content. No class is imported and nothing of the file is run. Only the first rows are
    read, and for CSV, JSON and Arrow all rows are counted.

    Args:
        path: the file or folder.
        rows: the number of first rows to show.
        verify: read all values, and compare them with the checksums that the file has.

    Returns:
        The description.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is of no known format, or damaged.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.inspection import describe_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = TensorDict({"x": torch.zeros(4, 2)}, [4]).memmap(folder + "/rows")
        ...     found = describe_file(folder + "/rows")
        >>> found.format, found.rows, found.fields[0].dtype
        ('memmap', 4, 'float32')
    """
    given = Path(path)
    with opened(given) as file:
        if verify:
            file.verify()
        count = file.rows()
        first = file.first(max(rows, 1))
        size = tuple(first._batch_size)
        return FileDescription(
            path=str(given),
            format=file.name,
            class_name=file.class_name(),
            rows=count,
            batch_size=size if count is None else (count, *size[1:]),
            bytes=bytes_of(given),
            checksums=file.checksums(),
            verified=verify,
            fields=tuple(_fields(first, count, ())),
            first=_shown_rows(first[:rows] if count is not None else first) if rows else "",
        )


def _fields(data: Any, rows: int | None, path: tuple[str, ...]) -> list[FieldDescription]:
    found: list[FieldDescription] = []
    for key in data._store:
        value: Any = data._store[key]
        name = ".".join((*path, key))
        content = content_kind(value)
        if content is Content.TREE:
            found += _fields(value, rows, (*path, key))
        elif content is Content.RAGGED:
            dtype = str(value.dtype).removeprefix("torch.")
            found.append(FieldDescription(name, "ragged", dtype, (), None))
        elif content is Content.TEXT:
            found.append(FieldDescription(name, "text", "", (), None))
        elif isinstance(value, Tensor):
            found.append(_tensor(name, value, len(data._batch_size), rows))
        else:
            found.append(FieldDescription(name, "object", "", (), None))
    return found


def _tensor(name: str, value: Tensor, ndim: int, rows: int | None) -> FieldDescription:
    dtype = str(value.dtype).removeprefix("torch.")
    if value.is_nested:
        return FieldDescription(name, "ragged", dtype, (), None)
    shape = tuple(value.shape)
    size = shape if rows is None or not shape else (rows, *shape[1:])
    return FieldDescription(name, "tensor", dtype, shape[ndim:], torch.Size(size).numel() * value.element_size())


#: characters of the values in a line
_WIDTH = 80


def _shown_rows(data: Any) -> str:
    """Return rows as text: a line for each field."""
    plain = list(_texts(data, ()))
    width = max([len(name) for name, _ in plain], default=0)
    return "\n".join(printable(f"    {name:{width}}  {text}") for name, text in plain)


def _texts(data: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the keys and their values."""
    for key in data._store:
        value: Any = data._store[key]
        if isinstance(value, Collection) and value._is_tree():
            yield from _texts(value, (*path, key))
            continue
        text = " ".join(repr(_plain(value)).split())
        yield ".".join((*path, key)), text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return [_rounded(row) for row in value] if value.ndim else _rounded(value)
    return value.tolist()


def _rounded(value: Tensor) -> Any:
    """Return a tensor's values with few digits, the first eight of it."""
    flat: list[Any] = to_lists(value.detach().reshape(-1)[:9])
    shown = [float(f"{item:.4g}") if isinstance(item, float) else item for item in flat]
    return (shown if len(shown) < 9 else [*shown[:8], "..."]) if value.ndim else shown[0]


def bytes_of(path: Path) -> int:
    """Return the size of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def shown_bytes(count: int) -> str:
    """Return a number of bytes for people.

    >>> shown_bytes(999), shown_bytes(12_345_678)
    ('999 B', '12.3 MB')
    """
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
