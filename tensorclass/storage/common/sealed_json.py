"""JSON that ends with a checksum of itself, the seal; and JSON that other programs wrote."""

from __future__ import annotations

import json
import zlib
from typing import Any

from .collection_tree import FileError, Node, as_dict


def sealed(known: Node, levels: int = 1) -> bytes:
    """Return a dict as JSON whose last key ``"crc32"`` is the checksum of the text before it.

    Args:
        known: the dict, not empty.
        levels: where the key goes: 1 for the dict itself, 2 for the dict that is its last value, which is not empty.
    """
    text = json.dumps(known, allow_nan=False, separators=_FORM).encode()[:-levels]
    return text + b', "crc32":"%08x"' % zlib.crc32(text) + b"}" * levels


#: the separators: no other program uses this combination, so that its rewritten JSON can be recognized
_FORM = (", ", ":")


def unsealed(text: bytes | bytearray, name: str, inner: str | None = None, *, nan: bool = False) -> Node:
    """Parse a JSON object, and check and remove its seal if it has one.

    Args:
        text: the JSON.
        name: the name of the file, for errors.
        inner: the key of the nested dict that has the seal; by default the outer dict has it.
        nan: see :func:`parsed`.

    Raises:
        FileError: the text is not a JSON object, has a key twice, or has changed since it was sealed.

    >>> unsealed(sealed({"a": 1}), "file")
    {'a': 1}
    """
    levels = 1 if inner is None else 2
    intact = _is_intact(text, levels)
    known = parse_json(text, name, intact, nan=nan)
    holder = known if inner is None else as_dict(known.get(inner))
    if holder is not None:
        seal = holder.pop("crc32", None)
        if not intact:
            check_seal(text, levels, seal, name)
    return known


def _is_intact(text: bytes | bytearray, levels: int) -> bool:
    """Return whether a text is unchanged since :func:`sealed` made it."""
    end = len(text) - 20 - levels
    return end > 0 and text[end:] == b', "crc32":"%08x"%b' % (zlib.crc32(memoryview(text)[:end]), b"}" * levels)


def parse_json(text: bytes | bytearray, name: str, intact: bool = False, *, nan: bool = False) -> Node:
    """Parse a JSON object in which no key occurs twice.

    Args:
        text: the JSON.
        name: the name of the file, for errors.
        intact: do not look for repeated keys, which takes as long again: the seal has been checked.
        nan: accept nan and infinities, which Python writes and JSON does not have; the peer's objects can hold them.

    Raises:
        FileError: the text is not such an object.
    """
    try:
        known = as_dict((_loads_intact if intact else _loads_nan if nan else _loads)(text.decode()))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: not valid JSON ({str(error)[:200]})") from None
    if known is None:
        raise FileError(f"{name}: expected a JSON object")
    return known


def check_seal(text: bytes | bytearray, levels: int, seal: object, name: str) -> None:
    """Raise if a text does not fit its seal.

    Args:
        text: the JSON.
        levels: see :func:`sealed`.
        seal: the parsed seal; ``None`` for JSON of another program, which is accepted.
        name: the name of the file, for errors.
    """
    if seal is None:
        return
    before, _, after = text.rstrip().rpartition(b'"crc32"')
    before = before.rstrip().removesuffix(b",")
    if after != b':"%08x"%b' % (zlib.crc32(before), b"}" * levels):
        raise FileError(
            f"{name}: it has changed since it was written: its checksum differs; if that was done on purpose, take the "
            '"crc32" out of it'
        )


def is_rewritten(text: bytes | bytearray) -> bool:
    """Return whether another program has rewritten a sealed text: it is valid JSON with common separators.

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


def parse_value(text: str) -> Any:
    """Parse any JSON in which no key occurs twice.

    Raises:
        ValueError: the text is not such JSON.

    >>> parse_value("[1]")
    [1]
    """
    value, end = _strict.raw_decode(text)
    return value if end == len(text) else _loads(text)  # there are spaces after it, or more


def _unique(pairs: list[tuple[str, Any]]) -> Node:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


_strict = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number)
_loads = _strict.decode
_loads_nan = json.JSONDecoder(object_pairs_hook=_unique).decode
_loads_intact = json.JSONDecoder(parse_constant=_no_number).decode
