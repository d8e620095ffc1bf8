"""JSON that says at its end what the text before adds up to, so that damage is seen; and JSON of other writers."""

from __future__ import annotations

import json
import zlib
from typing import Any

from .tree import FileError, Node, as_dict


def sealed(known: Node, levels: int = 1) -> bytes:
    """A dict as JSON that says at its end what the text before adds up to, so that damage is seen.

    Args:
        known: the dict, not empty.
        levels: where that stands: 1 for the dict itself, 2 for the dict that is its last value, which is not empty.
    """
    text = json.dumps(known, allow_nan=False, separators=_FORM).encode()[:-levels]
    return text + b', "crc32":"%08x"' % zlib.crc32(text) + b"}" * levels


#: between values, and behind keys; other programs write neither, so that what they have written anew can be told
_FORM = (", ", ":")


def unsealed(text: bytes | bytearray, name: str, inner: str | None = None, *, nan: bool = False) -> Node:
    """The dict of a JSON text, sealed or not.

    Args:
        text: the JSON.
        name: of the file, for errors.
        inner: the key of the dict that has the seal, where it is not the dict itself.
        nan: see :func:`parsed`.

    Raises:
        FileError: the text is no JSON object, has a key twice, or is not what was sealed.

    >>> unsealed(sealed({"a": 1}), "file")
    {'a': 1}
    """
    levels = 1 if inner is None else 2
    intact = _is_intact(text, levels)
    known = parsed(text, name, intact, nan=nan)
    holder = known if inner is None else as_dict(known.get(inner))
    if holder is not None:
        seal = holder.pop("crc32", None)
        if not intact:
            check_seal(text, levels, seal, name)
    return known


def _is_intact(text: bytes | bytearray, levels: int) -> bool:
    """Whether a text is one that :func:`sealed` has made."""
    end = len(text) - 20 - levels
    return end > 0 and text[end:] == b', "crc32":"%08x"%b' % (zlib.crc32(memoryview(text)[:end]), b"}" * levels)


def parsed(text: bytes | bytearray, name: str, intact: bool = False, *, nan: bool = False) -> Node:
    """The dict of a JSON text, in which no key may stand twice.

    Args:
        text: the JSON.
        name: of the file, for errors.
        intact: it is sealed, so that there is no need to look for keys that stand twice, which takes as long again.
        nan: take nan and infinities as Python writes them, of which JSON has none; the peer's objects can have them.
    """
    try:
        known = as_dict((_loads_intact if intact else _loads_nan if nan else _loads)(text.decode()))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: it is no JSON that can be read ({str(error)[:200]})") from None
    if known is None:
        raise FileError(f"{name}: expected a JSON object")
    return known


def check_seal(text: bytes | bytearray, levels: int, seal: object, name: str) -> None:
    """Compares a text with its seal, which stands at the end of the last object of some levels."""
    if seal is None:
        return  # another program wrote it
    before, _, after = text.rstrip().rpartition(b'"crc32"')
    before = before.rstrip().removesuffix(b",")
    if after != b':"%08x"%b' % (zlib.crc32(before), b"}" * levels):
        raise FileError(
            f"{name}: it is not what was written, its checksum differs; where it was changed on purpose, take "
            'the "crc32" out of it'
        )


def is_rewritten(text: bytes | bytearray) -> bool:
    """Whether another program has written a sealed JSON text anew: it is whole, and in the form of another writer.

    >>> is_rewritten(b'{"a": [1, 2]}'), is_rewritten(b'{"a":[1,2]}'), is_rewritten(b'{"a":[1, 2]}')
    (True, True, False)
    """
    found = bytes(text).strip()
    try:
        known = json.loads(found)
    except (ValueError, RecursionError):
        return False
    return any(
        found == json.dumps(known, separators=form, ensure_ascii=escaped).encode(errors="replace")
        for form in ((", ", ": "), (",", ":"))
        for escaped in (True, False)
    )


def _unique(pairs: list[tuple[str, Any]]) -> Node:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_loads = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number).decode
_loads_nan = json.JSONDecoder(object_pairs_hook=_unique).decode
_loads_intact = json.JSONDecoder(parse_constant=_no_number).decode
