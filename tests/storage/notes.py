"""What files say of themselves, changed value by value: ``python -m tests.storage.notes``.

Each value of each JSON text in a file (``meta.json``, headers, trailers, attributes) becomes one of every kind of JSON,
is left out, gets another name or a neighbour; numbers are huge, texts those of other places, lists deep. Each file that
comes of it is loaded: that gives a collection, or an error of a file, which names the file. It never raises anything
else, takes long, or ends the process. Where :mod:`tests.storage.fuzz` draws, this takes all, one at a time.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import itertools
import json
import random
import re
import resource
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.storage.formats import FORMATS, a_bit_of_all, contents, plain
from tests.storage.fuzz import SECONDS, Files, read_files, settled, write_files

DEEP = "@deep@"  #: stands for what ``json.dumps`` cannot write
_DEEPEST = {f'"{DEEP}"': "[" * 50_000 + "]" * 50_000, f'"{DEEP}{{"': '{"a":' * 5_000 + "1" + "}" * 5_000}

#: what any value can become
OTHERS: list[Any] = [
    None, True, 0, -1, 3, 2**31, 2**44, 2**62, 2**64, 10**30, 1.5, 1e308, "", "x", "\ud800", "float32", [], [1], [-1],
    [2**44], [2**44, 2**44], [None], ["x"], [[]], [{}], [True], [1.5], [0] * 70, {}, {"x": 1}, DEEP, DEEP + "{",
    *[{"type": kind} for kind in ("collection", "tensor", "text", "object", "objects", "lazy_stack", "unbatched",
                                  "jagged", "nested", "pickle", "", None, 1, [], {})],
    {"tensor": [1]}, {"tensor": ["x", 1]}, {"data": 1}, {"entries": {}}, {"entries": []}, {"parts": [1]},
    {"type": "collection", "batch_size": [2], "entries": {"x": {"type": "text"}}},
    {"type": "object", "batch_size": [], "data": ["<tag>", "tuple"]}, ["<tag>", "tuple"], ["<tag>", "dict", 1],
    ["<tag>", "pickle", 1], ["<tag>", "device", "x"], ["<tag>", "dtype", 1], ["<tag>", "set", 1], ["<tag>", [], 1],
]  # fmt: skip

#: puts a text in the place of another one
Put = Callable[[str], Files]


class Text(NamedTuple):
    """A JSON text in a file."""

    name: str
    text: str
    put: Put


def texts_of(form: str, files: Files) -> Iterator[Text]:
    """All JSON texts of a file, or folder, without the seals that they have."""
    if form in ("folder", "zarr"):
        for name, raw in files.items():
            if name.endswith(".json"):
                yield Text(name, raw.decode(), lambda text, name=name: {**files, name: _raw(text)})  # type: ignore[misc]
        return
    raw = files[""]
    if form in ("archive", "deflated"):
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
            kinds = {info.filename: info.compress_type for info in archive.infolist()}
        for name in members:
            if name.endswith(".json"):
                yield Text(
                    name, members[name].decode(), lambda text, name=name: {"": _zipped(members, kinds, name, text)}
                )  # type: ignore[misc]
    elif form == "safetensors":
        length = int.from_bytes(raw[:8], "little")
        header, rest = raw[8 : 8 + length].decode(), raw[8 + length :]
        yield Text("header", header, lambda text: {"": _headed(text, rest)})
        known = json.loads(header)
        notes = known["__metadata__"]
        for name in [name for name in notes if notes[name].startswith("{")]:
            # that of the peer is read where ours is not there
            kept = notes if name == "tensorclass" else {key: notes[key] for key in notes if "tensorclass" not in key}
            yield Text(
                name,
                notes[name],
                lambda text, name=name, kept=kept: {  # type: ignore[misc]
                    "": _headed(json.dumps({**known, "__metadata__": {**kept, name: text}}), rest)
                },
            )
    elif form == "consolidated":
        peer = raw[-8 - int.from_bytes(raw[-8:], "little") :]
        front = raw[: len(raw) - len(peer)]
        length = int.from_bytes(front[-16:-8], "little")
        own, values = front[-16 - length : -16], front[: -16 - length]
        yield Text("own", own.decode(), lambda text: {"": values + _trailed(text) + b"tensorcl" + peer})
        yield Text("peer", peer[:-8].decode(), lambda text: {"": values + _trailed(text)})
    else:
        yield from _texts_of_h5(raw)


def _texts_of_h5(raw: bytes) -> Iterator[Text]:
    import h5py

    with h5py.File(io.BytesIO(raw), "r") as file:
        nodes: list[Any] = [file]
        file.visititems(lambda _, node: nodes.append(node))
        found = [(node.name, node.attrs.get("tensorclass")) for node in nodes]

    def put(name: str, text: str) -> Files:
        held = io.BytesIO(raw)
        with h5py.File(held, "r+") as file:
            encoded = _raw(text)
            file[name].attrs["tensorclass"] = np.bytes_(encoded) if len(encoded) < 60_000 else text
        return {"": held.getvalue()}

    for name, note in found:
        if note is not None:
            text = note.decode() if isinstance(note, bytes) else str(note)
            if text.startswith("{"):
                yield Text(name, text, lambda text, name=name: put(name, text))  # type: ignore[misc]


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _trailed(text: str) -> bytes:
    raw = _raw(text)
    return raw + len(raw).to_bytes(8, "little")


def _headed(text: str, rest: bytes) -> bytes:
    raw = _raw(text)
    return len(raw).to_bytes(8, "little") + raw + rest


def _zipped(members: dict[str, bytes], kinds: dict[str, int], name: str, text: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for member, raw in members.items():
            archive.writestr(member, _raw(text) if member == name else raw, kinds[member])
    return made.getvalue()


# -- changes ----------------------------------------------------------------------------------------------------------

Place = tuple[Any, ...]


def unsealed(text: str) -> Any:
    """What a JSON text says, without the seals that would show each change."""
    return json.loads(re.sub(r',?\s*"(crc32|meta_crc32|seal)": ?("\w+"|\d+|\[[^\]]*\])', "", text))


def places(known: Any, before: Place = ()) -> Iterator[Place]:
    """Where the values of a JSON text are, that of the whole first."""
    yield before
    items: Any = known.items() if isinstance(known, dict) else enumerate(known) if isinstance(known, list) else ()
    for key, value in items:
        yield from places(value, (*before, key))


def changes(known: Any) -> Iterator[tuple[str, str]]:
    """Each text that differs from a JSON text in one value, with what differs."""
    words = sorted({value for value in _scalars(known) if isinstance(value, str)})[:12]
    for place in places(known):
        for other in [*OTHERS, *words]:
            yield (
                f"{list(place)} is {str(other)[:60]}",
                _text(_with(known, place, lambda parent, key, other=other: _set(parent, key, other))),
            )  # type: ignore[misc]
        if place:
            yield f"{list(place)} is left out", _text(_with(known, place, _leave_out))
            yield f"{list(place)} is there with another name", _text(_with(known, place, _rename))
            yield (
                f"{list(place)} stands in a list",
                _text(_with(known, place, lambda parent, key: _set(parent, key, [parent[key]]))),
            )
            yield f"{list(place)} is there twice", _text(_with(known, place, _double))


def _scalars(known: Any) -> Iterator[Any]:
    if isinstance(known, dict):
        yield from itertools.chain.from_iterable(map(_scalars, known.values()))
        yield from known
    elif isinstance(known, list):
        yield from itertools.chain.from_iterable(map(_scalars, known))
    else:
        yield known


def _with(known: Any, place: Place, change: Callable[[Any, Any], None]) -> Any:
    """A copy in which the value at a place was changed."""
    holder = [known]
    at: Any = holder
    for key in (0, *place)[:-1]:
        at[key] = dict(at[key]) if isinstance(at[key], dict) else list(at[key])
        at = at[key]
    last = (0, *place)[-1]
    change(at, last)
    return holder[0]


def _set(parent: Any, key: Any, other: Any) -> None:
    parent[key] = other


def _leave_out(parent: Any, key: Any) -> None:
    del parent[key]


def _rename(parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        parent["other"] = parent.pop(key)
    else:
        parent.insert(0, None)


def _double(parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        parent[f"{key}_"] = parent[key]
    else:
        parent.append(parent[key])


def _text(known: Any) -> str:
    found = json.dumps(known)
    for token, deep in _DEEPEST.items():
        found = found.replace(token, deep)
    return found


# -- the search -------------------------------------------------------------------------------------------------------


def tried(form: str, make: Any, share: float, rng: random.Random) -> Counter[str]:
    """What came of the changed files of a format, or of a share of them."""
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case"
        FORMATS[form].save(make(1), path)
        files = settled(form, read_files(path))
        write_files({"": b""}, path) if not FORMATS[form].is_folder else None
        for text in texts_of(form, files):
            for what, changed in changes(unsealed(text.text)):
                if share < 1 and rng.random() >= share:
                    continue
                write_files(text.put(changed), path)
                faulthandler.dump_traceback_later(SECONDS, exit=True)
                kind = _outcome(form, path)
                faulthandler.cancel_dump_traceback_later()
                results[kind if kind in ("equal", "error") else "WRONG"] += 1
                if kind not in ("equal", "error"):
                    results[f"{form}, {make.__name__}: {text.name}: {what}: {kind}"] += 1
    return results


def _outcome(form: str, path: Path) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            contents(FORMATS[form].load(path))
    except (ValueError, FileNotFoundError) as error:
        if str(error).startswith((str(path), f"there is no file {path}", f"nothing is saved in {path}")):
            return "error"
        return f"{type(error).__name__}: {str(error)[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "equal"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="all by default")
    parser.add_argument("--share", type=float, default=1.0, help="how many of the changes, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (24 * 2**30, 24 * 2**30))
    total: Counter[str] = Counter()
    for form in options.format or list(FORMATS):
        for make in (a_bit_of_all, plain):
            found = tried(form, make, options.share, random.Random(f"{options.seed} {form}"))
            for line in sorted(found.keys() - {"equal", "error", "WRONG"}):
                print(line, file=sys.stderr, flush=True)
            total.update({name: found[name] for name in ("equal", "error", "WRONG")})
            print(
                f"{form}, {make.__name__}: {found['equal']} loaded, {found['error']} refused, {found['WRONG']} wrong",
                flush=True,
            )
    return 1 if total["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
