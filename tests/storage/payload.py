"""Which bytes of files are values of tensors, and nothing else: found by other means than those that read the files."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

#: by the path of a file in its folder (``""`` for one file): where values begin and end
Spans: TypeAlias = dict[str, list[tuple[int, int]]]


def of_folder(path: Path) -> Spans:
    """Of memory maps: the files that are not ``meta.json``."""
    return {str(file.relative_to(path)): [(0, file.stat().st_size)] for file in path.rglob("*.memmap")}


def of_archive(path: Path) -> Spans:
    """Of an archive: the bytes of stored members that are not ``meta.json``."""
    spans: list[tuple[int, int]] = []
    text = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".memmap"):
                header = text[info.header_offset : info.header_offset + 30]
                sizes = [int.from_bytes(header[at : at + 2], "little") for at in (26, 28)]
                start = info.header_offset + 30 + sum(sizes)
                spans.append((start, start + info.compress_size))
    return {"": spans}


def of_safetensors(path: Path) -> Spans:
    """Of safetensors: what is behind the header."""
    text = path.read_bytes()
    return {"": [(8 + int.from_bytes(text[:8], "little"), len(text))]}


def of_consolidated(path: Path) -> Spans:
    """Of a consolidated file: what is before the texts, of which the first begins so."""
    text = path.read_bytes()
    return {"": [(0, text.rindex(b'{"version":'))]}


def of_h5(path: Path) -> Spans:
    """Of HDF5: the bytes of datasets of numbers."""
    import h5py

    spans: list[tuple[int, int]] = []
    most = [1]

    def look(_: str, node: Any) -> None:
        if not isinstance(node, h5py.Dataset) or h5py.check_string_dtype(node.dtype) is not None:
            return
        if node.chunks is None:
            start = node.id.get_offset()
            if start is not None:
                spans.append((start, start + node.nbytes))
            return
        most.append(node.ndim + 1)
        for at in range(node.id.get_num_chunks()):
            chunk = node.id.get_chunk_info(at)
            spans.append((chunk.byte_offset, chunk.byte_offset + chunk.size))

    with h5py.File(path) as file:
        file.visititems(look)
    text, length = path.read_bytes(), 24 + 64 * 8 + 65 * (8 + 8 * max(most))
    # where chunks are: of all that HDF5 says, this alone has no checksum
    spans += [(found.start(), found.start() + length) for found in re.finditer(b"TREE\1", text)]
    return {"": spans}


def of_zarr(path: Path) -> Spans:
    """Of zarr: the chunks of arrays that hold no objects."""

    def chunks() -> Iterator[Path]:
        for about in path.rglob("zarr.json"):
            known = json.loads(about.read_text())
            if known["node_type"] == "array":
                note = known["attributes"].get("tensorclass", {})
                if note.get("type") not in ("object", "objects"):
                    yield from (file for file in about.parent.rglob("*") if file.is_file() and file != about)

    return {str(file.relative_to(path)): [(0, file.stat().st_size)] for file in chunks()}
