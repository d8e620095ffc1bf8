"""Mutated files of all formats: ``python -m tests.storage.fuzz --files 100000``.

Each is loaded, and must be an error of a file, or the collection that was written. Where bytes of tensors were mutated
and no checksum was asked for, those bytes alone may differ. No load may take long, end the process or raise anything
else. Batches run in processes of their own; what is reported has the number that makes the same file again.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.storage.formats import FORMATS, a_bit_of_all, contents, plain
from tests.storage.payload import Spans

SECONDS = 60  #: that a load may take
BATCH = 1000
Files = dict[str, bytes]  #: by path in a folder; one file has the path ""

NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**62, 2**64, 10**18, -(10**18), 10**30, 1.5, 1e308, "", "x", "..",
    "../x", "/etc/passwd", "a\0b", "\ud800", "float32", "torch.float64", "object", "qint8", "torch.int7", "pickle",
    "other.pickle", "tensor", "collection", "lazy_stack", "objects", "jagged", [], {}, [1], [-1], [2, 3],
    [10**9, 10**9], [1.0], ["2"], [True], [0, 2**62], [0] * 100, [1] * 1000, {"type": "tensor"}, {"type": "collection"},
    {"dtype": "float32", "shape": [2]}, ["<tag>", "pickle", "gASVAAAA"], ["<tag>", "dtype", "onnx"],
    ["<tag>", "uuid", 5], "x" * 5000,
    ["<tag>", "device", "cuda:99999999999"], ["<tag>", "numpy", ["O", ""]], ["<tag>", "range", [0, 0, 0]], ["<tag>"],
    ["<tag>", "set", [[1]]], ["<tag>", "size", [-1]], ["<tag>", "dict", [[1]]], ["<tag>", "tuple"], [[[[[[[[[1]]]]]]]]],
]  # fmt: skip


def read_files(path: Path) -> Files:
    """All files of a folder, or the one file."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def write_files(files: Files, path: Path) -> None:
    """Makes the path hold these files and no others."""
    if path.is_dir():
        shutil.rmtree(path)
    for name, text in files.items():
        place = path / name if name else path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text)


def settled(form: str, files: Files) -> Files:
    """Files that are the same in each run: safetensors writes its metadata in any order."""
    if form != "safetensors":
        return files
    text = files[""]
    length = int.from_bytes(text[:8], "little")
    header = json.loads(text[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    raw = json.dumps(header, separators=(",", ":")).encode()
    return {"": len(raw).to_bytes(8, "little") + raw + text[8 + length :]}


def damaged(text: bytes, rng: random.Random) -> bytes:
    """Bytes with flips, cuts, insertions or repetitions."""
    found = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at = rng.randrange(len(found) + 1)
        if len(found) > 2000 and rng.random() < 0.6:
            at = rng.randrange(1500)  # where it says what it is
        length = rng.choice((1, 1, 2, 8, 100))
        how = rng.randrange(6)
        if how == 0:
            del found[at:]
        elif how == 1:
            del found[at : at + length]
        elif how == 2:
            found[at:at] = rng.choice((rng.randbytes(length), bytes(length), found[at : at + length], b"9", b"[", b'"'))
        elif how == 3 and at < len(found):
            found[at] = rng.randrange(256)
        elif at < len(found):
            found[at] ^= 1 << rng.randrange(8)
    return bytes(found)


def json_changed(text: str, rng: random.Random) -> str:
    """A JSON text in which values are others, and which nothing seals."""
    known = json.loads(re.sub(r',?\s*"(crc32|meta_crc32|seal)": ?("\w+"|\d+|\[[^\]]*\])', "", text))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places: list[tuple[Any, Any]] = []
        todo: list[Any] = [known]
        while todo:
            part = todo.pop()
            items: list[Any] = list(part.items() if isinstance(part, dict) else enumerate(part))
            places.extend((part, key) for key, _ in items)
            todo.extend(value for _, value in items if isinstance(value, (dict, list)))
        if not places:
            break
        part, key = rng.choice(places)
        how = rng.randrange(5)
        if how == 0 and isinstance(part, dict):
            part[rng.choice([place for _, place in places] + ["new", "../x", "_type"])] = part.pop(key)
        elif how == 1:
            del part[key]
        elif how == 2:
            other, at = rng.choice(places)
            part[key] = json.loads(json.dumps(other[at]))
        elif how == 3 and type(part[key]) is int:
            part[key] += rng.choice((-1, 1, 10**9))
        else:
            part[key] = copy.deepcopy(rng.choice(NASTY))
    return json.dumps(known)


def header_changed(text: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose header, or the tree in it, is another one."""
    length = int.from_bytes(text[:8], "little")
    header, rest = text[8 : 8 + length].decode(), text[8 + length :]
    if rng.random() < 0.7:
        known = json.loads(header)
        known["__metadata__"]["tensorclass"] = json_changed(known["__metadata__"]["tensorclass"], rng)
        header = json.dumps(known)
    else:
        header = json_changed(header, rng)
    raw = header.encode()
    return len(raw).to_bytes(8, "little") + raw + rest


def member_changed(text: bytes, rng: random.Random) -> bytes:
    """An archive in which a ``meta.json`` is another one, or a member has another name."""
    result = io.BytesIO()
    warnings.filterwarnings("ignore", "Duplicate name")
    with zipfile.ZipFile(io.BytesIO(text)) as old, zipfile.ZipFile(result, "w") as new:
        infos = old.infolist()
        chosen = rng.choice([info for info in infos if info.filename.endswith(".json")])
        renamed = rng.choice(infos) if rng.random() < 0.3 else None
        for info in infos:
            held = old.read(info)
            if info is chosen:
                held = json_changed(held.decode(), rng).encode()
            name = info.filename
            if info is renamed:
                name = rng.choice(("../x", "/x", "x", "x/y", infos[-1].filename, "a\\b", "%"))
            new.writestr(name, held, info.compress_type)
    return result.getvalue()


def trailer_changed(text: bytes, rng: random.Random) -> bytes:
    """A consolidated file that tells another tree, to this package and at times to none but the peer."""
    peer = text[-8 - int.from_bytes(text[-8:], "little") :]
    front = text[: len(text) - len(peer) - 16]
    own = front[-int.from_bytes(text[len(front) : len(front) + 8], "little") :]
    front = front[: len(front) - len(own)]
    if rng.random() < 0.3:
        told = json_changed(peer[:-8].decode(), rng).encode()
        return front + told + len(told).to_bytes(8, "little")
    own = json_changed(own.decode(), rng).encode()
    return front + own + len(own).to_bytes(8, "little") + b"tensorcl" + peer


def notes_changed(text: bytes, rng: random.Random) -> bytes:
    """An HDF5 file in which groups and datasets say something else, or are others."""
    import h5py

    held = io.BytesIO(text)
    with h5py.File(held, "r+") as file:
        nodes: list[Any] = [file]
        file.visititems(lambda _, node: nodes.append(node))
        for _ in range(rng.choice((1, 1, 2))):
            node, other = rng.choice(nodes), rng.choice(nodes[1:])
            how = rng.randrange(6)
            note = node.attrs.get("tensorclass")
            if how < 3 and type(note) is np.bytes_ and note.startswith(b"{"):  # it may be another by now
                note = json_changed(note.decode(), rng)
                node.attrs["tensorclass"] = np.bytes_(note.encode()) if len(note) < 60_000 else note
            elif how == 3 and rng.random() < 0.3:
                value = rng.choice((1, "x", np.zeros(3), b"\xff\xfe", np.bytes_(b""), b"\xed\xa0\x80"))
                node.attrs[rng.choice(("tensorclass", "__tensordict_stack__"))] = value
            elif how == 4 and isinstance(node, h5py.Group):
                name = f"new{rng.randrange(1000)}"
                links = h5py.SoftLink("/x"), h5py.ExternalLink("/etc/passwd", "/")
                node[name] = rng.choice((other, *links, "text", 1.5))
            elif how == 5 and isinstance(node, h5py.Group) and len(node):
                del node[rng.choice(list(node))]
    return held.getvalue()


#: what changes what a file of one piece says, as a program would
CHANGED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "safetensors": header_changed,
    "archive": member_changed,
    "deflated": member_changed,
    "consolidated": trailer_changed,
    "h5": notes_changed,
    "h5-chunks": notes_changed,
}


class Base(NamedTuple):
    """The files of a collection, those of another one, and what the first must be when it is loaded."""

    files: Files
    other: Files
    spans: Spans
    right: Any


def are_values(before: bytes, after: bytes, spans: list[tuple[int, int]]) -> bool:
    """Whether values of tensors are among what changed."""
    if len(before) == len(after):
        changed = [at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
        return any(start <= at < stop for start, stop in spans for at in changed)
    shorter = min(len(before), len(after))
    first = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    same = next((at for at in range(shorter - first) if before[-1 - at] != after[-1 - at]), shorter - first)
    return any(start <= len(before) - same and first <= stop for start, stop in spans)


class Case:
    """A mutated file, and what may come of it."""

    def __init__(self, form: str, base: Base, rng: random.Random) -> None:
        files, other, spans, _ = base
        self.files: Files = dict(files)
        self.any_value: bool = False  #: what it says is changed as a program would, not damaged
        likely = [name for name in files if not name or name not in spans or rng.random() < 0.4]
        name = rng.choice(likely or list(files))
        how = rng.randrange(10)
        if how < 4:
            self.files[name] = damaged(files[name], rng)
        elif how < 8 and name.endswith(".json"):
            self.files[name] = json_changed(files[name].decode(), rng).encode()
            self.any_value = True
        elif how < 8 and form in CHANGED:
            self.files[name] = CHANGED[form](files[name], rng)
            self.any_value = True
        elif how == 8 and len(files) > 1:
            twin = rng.choice([one for one in files if one.endswith(name[-5:])])
            self.files[name], self.files[twin] = files[twin], files[name]
        elif len(files) > 1 and rng.random() < 0.3:
            del self.files[name]
        elif name in other and len(files) > 1:
            self.files[name] = other[name]
        else:
            self.files[name] = damaged(files[name], rng)
        self.payload: bool = any(
            are_values(text, self.files.get(name, b""), spans.get(name, []))
            for name, text in files.items()
            if self.files.get(name) != text
        )


def without_values(found: Any) -> Any:
    """Contents without the bytes of tensors."""
    if isinstance(found, bytes):
        return len(found)
    if isinstance(found, list):
        return [without_values(part) for part in found]
    return {key: without_values(part) for key, part in found.items()} if isinstance(found, dict) else found


class Fuzzer:
    """Makes mutated files in a folder, and loads them."""

    def __init__(self, folder: Path, formats: list[str]) -> None:
        self.place: Path = folder
        self.bases: dict[tuple[str, bool, str], Base] = {}
        for form in formats:
            for checked in (False, True):
                save = FORMATS[form].save_checked if checked else FORMATS[form].save
                if save is not None:
                    for make in (a_bit_of_all, plain):
                        self.bases[form, checked, make.__name__] = self._base(form, save, make)

    def _base(self, form: str, save: Any, make: Any) -> Base:
        path = self.place / "base"
        save(make(2), path)
        other = settled(form, read_files(path))
        save(make(1), path)
        files = settled(form, read_files(path))
        write_files(files, path)
        spans = FORMATS[form].payload(path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return Base(files, other, spans, contents(make(1)))

    def try_one(self, seed: int) -> tuple[str, str]:
        """What came of the file with a number: ``"error"``, ``"equal"``, ``"values"``, ``"other"`` or ``"WRONG"``."""
        rng = random.Random(seed)
        form, checked, what = rng.choice(list(self.bases))
        base = self.bases[form, checked, what]
        case = Case(form, base, rng)
        path = self.place / "case"
        write_files(case.files, path)
        load: Any = FORMATS[form].load_checked if checked else FORMATS[form].load
        where = f"{seed} ({form}, {what}{', verified' if checked else ''})"
        try:
            found = contents(load(path))
        except (ValueError, FileNotFoundError) as error:
            if str(error).startswith((str(path), f"there is no file {path}", f"nothing is saved in {path}")):
                return "error", form
            return "WRONG", f"{where}: {type(error).__name__}: {str(error)[:200]}"
        except Exception as error:
            return "WRONG", f"{where}: {type(error).__name__}: {str(error)[:200]}"
        finally:
            if path.is_file():
                path.unlink()
        if found == base.right:
            return "equal", form
        if case.any_value:
            return "other", form
        if case.payload and not checked and without_values(found) == without_values(base.right):
            return "values", form
        return "WRONG", f"{where}: another value"


def run_batch(start: int, count: int, formats: list[str]) -> Counter[str]:
    """Tries files in this process, and prints what is wrong."""
    warnings.simplefilter("ignore")
    faulthandler.enable()
    results: Counter[str] = Counter()
    root = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=root) as folder:
        fuzzer = Fuzzer(Path(folder), formats)
        for seed in range(start, start + count):
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            kind, what = fuzzer.try_one(seed)
            results[f"{kind} {what}" if kind != "WRONG" else kind] += 1
            if kind == "WRONG":
                print(what, file=sys.stderr, flush=True)
        faulthandler.cancel_dump_traceback_later()
    return results


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="all by default")
    parser.add_argument("--batch", action="store_true", help="in this process")
    options = parser.parse_args()
    formats: list[str] = options.format or list(FORMATS)
    if options.batch:
        resource.setrlimit(resource.RLIMIT_AS, (24 * 2**30, 24 * 2**30))
        print(json.dumps(run_batch(options.start, options.files, formats)))
        return 0
    total: Counter[str] = Counter()
    end = options.start + options.files
    for start in range(options.start, end, BATCH):
        chosen = [word for form in formats for word in ("--format", form)]
        count = str(min(BATCH, end - start))
        command = [
            sys.executable,
            "-m",
            "tests.storage.fuzz",
            "--batch",
            "--start",
            str(start),
            "--files",
            count,
            *chosen,
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            name = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
            print(f"files {start} to {start + int(count) - 1}: the process ended with {name}", file=sys.stderr)
            total["DIED"] += 1
        else:
            total.update(json.loads(done.stdout))
    print(json.dumps(dict(sorted(total.items())), indent=1))
    return 1 if total["WRONG"] or total["DIED"] else 0


if __name__ == "__main__":
    sys.exit(main())
