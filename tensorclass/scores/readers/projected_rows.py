"""JSON Lines in chunks: only the keys that a format needs are decoded, into structs of msgspec.

A chunk that doesn't decode is read row by row: it holds a row that is wrong, which the reader of rows then names, or
something that Python's ``json`` writes and JSON doesn't have (NaN, half a surrogate pair).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase, BytesIO
from pathlib import Path
from types import GenericAlias
from typing import Any, Final, TypeAlias, cast, get_args

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lines import OnProgress, Row, rows_of_array, rows_of_lines
from tensorclass.scores.readers.log_sizes import LONGEST_LINE, raised
from tensorclass.scores.readers.unpacked_file import BROKEN, broken, opened, read_whole
from tensorclass.scores.score_errors import require

__all__ = ["CHUNK", "RowChunk", "Struct", "is_key", "row_chunks", "struct_of"]

CHUNK: Final[int] = 512 * 1024
"""The bytes of a chunk; a longer line makes a longer one."""

Struct: TypeAlias = Any  # a class made at run time, with a field for each key


_KEY: Final = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')


def is_key(name: str) -> bool:
    r"""Return whether :func:`struct_of` can take a name for a key, which msgspec writes in JSON as it is.

    Example:
        >>> is_key("pass@1"), is_key('"'), is_key("\ud800")
        (True, False, False)
    """
    return _KEY.fullmatch(name) is not None


@dataclass(frozen=True)
class RowChunk:
    """Some lines of a file.

    Attributes:
        name: the file, for errors.
        line: computes the number of its first line, from 1.
        data: the lines.
        structs: the rows; None if they don't decode.
        struct: the class of the rows.
        is_array: the data is a JSON array of rows, whose lines are counted as rows.
    """

    name: str
    line: Callable[[], int]
    data: bytes
    structs: list[Struct] | None
    struct: Struct
    is_array: bool = False

    def rows(self) -> Iterator[tuple[int, Row]]:
        """The rows as dictionaries, with their line numbers.

        Raises:
            ScoreFileError: a line that is not JSON, is cut off, or is something else than an object.
        """
        if self.is_array:
            return rows_of_array(self.name, self.data)
        return rows_of_lines(self.name, BytesIO(self.data), self.line())


def struct_of(keys: dict[str, Any], name: str = "Row") -> Struct:
    """Make a struct of msgspec.

    Args:
        keys: the type of the value of each key; a dictionary stands for an object with these keys. Rows without one of
            them don't decode, unless ``msgspec.UnsetType`` is among its types.
        name: the name of the class.

    Returns:
        The class; its fields are ``v0``, ``v1``, ... in the order of ``keys``.

    Example:
        >>> import msgspec
        >>> row = struct_of({"pass@1": float, "doc": {"subject": str}})
        >>> found = msgspec.json.decode(b'{"pass@1": 1, "doc": {"subject": "law", "text": "..."}}', type=row)
        >>> found.v0, found.v1.v0
        (1.0, 'law')
    """
    msgspec = require("msgspec", "reading score files")
    fields: list[tuple[Any, ...]] = []
    for number, kind in enumerate(keys.values()):
        default = (msgspec.UNSET,) if msgspec.UnsetType in get_args(kind) else ()
        if isinstance(kind, dict):
            kind = struct_of(cast("dict[str, Any]", kind), f"{name}{number}_")
        fields.append((f"v{number}", kind, *default))
    names = {f"v{number}": key for number, key in enumerate(keys)}
    # Rows hold no cycles; collecting garbage among so many of them takes longer than decoding them.
    return msgspec.defstruct(name, fields, rename=names, kw_only=True, gc=False)


def row_chunks(head: FileHead, structs: Sequence[Struct], on_progress: OnProgress | None = None) -> Iterator[RowChunk]:
    """Read a JSON Lines file, or a JSON array of objects, in chunks.

    Args:
        head: the file.
        structs: what to decode of each row, made with :func:`struct_of`: the first by which all rows of a chunk decode
            is taken.
        on_progress: called with the bytes read so far.

    Raises:
        ScoreFileError: the file can't be opened, or is damaged.
        MissingExtraError: msgspec is not installed.
    """
    msgspec = require("msgspec", "reading score files")
    name = str(head.path)
    if head.is_array:
        with head.open() as stream:
            data = read_whole(stream, name)
        decoders = {struct: msgspec.json.Decoder(GenericAlias(list, (struct,))).decode for struct in structs}
        yield RowChunk(name, lambda: 1, data, *_decoded(decoders, data, msgspec), is_array=True)
        return
    decoders = {struct: msgspec.json.Decoder(struct).decode_lines for struct in structs}
    error = None
    longest = raised(LONGEST_LINE)
    held: list[bytes] = []  # the start of a line whose end was not read yet
    with opened(head.location, name) as (stream, raw):
        lines = _LineNumbers(head.location) if stream is raw else _CountedLines()
        while error is None:
            more, error = _block(stream)
            is_last = not more and error is None
            end = more.rfind(b"\n") + 1
            if not (end or is_last or error) and sum(map(len, held)) < longest:
                held.append(more)
                continue
            data = b"".join([*held, more if is_last else more[:end]])
            held = [more[end:]]
            yield RowChunk(name, lines.here(), data, *_decoded(decoders, data, msgspec))
            lines.advance(data)
            if on_progress is not None:
                on_progress(raw.tell())
            if is_last:
                return
        line = lines.here()()
    raise broken(name, line, error)


class _CountedLines:
    """The number of the next line of a stream."""

    def __init__(self) -> None:
        self._line = 1

    def here(self) -> Callable[[], int]:
        """Return a function that computes the number."""
        line = self._line
        return lambda: line

    def advance(self, data: bytes) -> None:
        """Advance past ``data``, which are whole lines."""
        self._line += data.count(b"\n")


class _LineNumbers(_CountedLines):
    """The number of the next line of a file. The lines are counted in the file, but only when a number is needed.

    Args:
        path: the file, which is not compressed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._offset = 0  # of the next line
        self._counted = 0  # the offset of the line that has the number _line

    def here(self) -> Callable[[], int]:
        return partial(self._line_at, self._offset)

    def advance(self, data: bytes) -> None:
        self._offset += len(data)

    def _line_at(self, offset: int) -> int:
        with open(self._path, "rb") as file:
            file.seek(self._counted)
            while self._counted < offset and (data := file.read(min(offset - self._counted, CHUNK))):
                self._line += data.count(b"\n")
                self._counted += len(data)
        return self._line


def _block(stream: BufferedIOBase) -> tuple[bytes, Exception | None]:
    """The next bytes, none at the end of the file; those before a damage come with its error."""
    parts: list[bytes] = []
    size = 0
    try:
        while size < CHUNK and (part := stream.read1(CHUNK - size)):
            parts.append(part)
            size += len(part)
    except BROKEN as error:
        return b"".join(parts), error
    return b"".join(parts), None


def _decoded(
    decoders: Mapping[Struct, Callable[[bytes], list[Struct]]], data: bytes, msgspec: Any
) -> tuple[list[Struct] | None, Struct]:
    """The rows and their class; None for both if no class fits."""
    for struct, decode in decoders.items():
        try:
            return decode(data), struct
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
    return None, None
