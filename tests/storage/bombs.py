"""Small files that say much, of all formats: ``python -m tests.storage.bombs``.

Each generator makes a file that nests or repeats, in a size that can be doubled. It is opened in a process of its own
with a limit of memory and of time. What that takes is printed beside the size of the file; ``--check`` ends with an
error where it is more than :data:`SECONDS` and :data:`BYTES` allow, whatever the outcome: an error or a collection.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tensorclass.storage.common import sealed_json

#: what docs/storage.md promises: seconds and bytes of memory that opening takes at most, fixed and for each byte
SECONDS = (2.0, 1e-5)
BYTES = (2**27, 1200)
HARD_SECONDS = 60
HARD_BYTES = 2**33
PLAIN = {"_type": "<class 'tensordict._td.TensorDict'>", "_format_version": 1, "_class": "tensordict:TensorDict"}
STACK = {"_type": "<class 'tensordict._lazy.LazyStackedTensorDict'>"}


class Bomb(NamedTuple):
    """How a file is made, and read."""

    make: Callable[[Path, int], object]
    load: str  #: the method of TensorDict
    size: int  #: that the smallest is made with


def meta(**known: Any) -> dict[str, Any]:
    return {"shape": [], "device": "cpu", **PLAIN, **known}


def own(entries: dict[str, Any], **known: Any) -> dict[str, Any]:
    """The ``meta.json`` of a folder with entries of this package."""
    return meta(**known, _tensorclass={"version": 1, "entries": entries})


def one_object(data: Any) -> dict[str, Any]:
    return own({"o": {"type": "object", "batch_size": [], "data": data}})


def written(path: Path, known: Any) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "meta.json").write_text(known if isinstance(known, str) else json.dumps(known))


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def tensors(path: Path, text: Any, peer: Any = None, count: int = 1) -> None:
    from safetensors.torch import save_file

    told = {} if text is None else {"tensorclass": json.dumps({"version": 1, "tree": text})}
    told |= {} if peer is None else {"tensordict": json.dumps({"version": 1, "root": peer})}
    save_file({f"t{at}": torch.ones(1) for at in range(count)}, path, metadata=told)


def packed(path: Path, tree: Any, starts: list[int], size: int) -> None:
    text = sealed_json.sealed({"version": 1, "size": size, "starts": starts, "tree": tree})
    shown = b'{"cls": "tensorclass"}'
    path.write_bytes(
        bytes(size) + text + len(text).to_bytes(8, "little") + b"tensorcl" + shown + len(shown).to_bytes(8, "little")
    )


def collection(entries: dict[str, Any]) -> dict[str, Any]:
    return {"type": "collection", "batch_size": [], "entries": entries}


def colliding(count: int) -> list[int]:
    return [at * (2**61 - 1) for at in range(count)]


def compressed(method: int, says: int | None = None) -> Callable[[Path, int], None]:
    """An archive with so many megabytes of zeros, or which says that it has a few bytes."""

    def make(path: Path, count: int) -> None:
        size = count * 2**20
        known = {"device": "cpu", "shape": [says or size], "dtype": "torch.uint8", "is_nested": False}
        zipped(path, {"meta.json": json.dumps(meta(x=known)).encode(), "x.memmap": bytes(size)}, method)
        if says is not None:
            path.write_bytes(path.read_bytes().replace(size.to_bytes(4, "little"), says.to_bytes(4, "little")))

    return make


def long_texts(path: Path, count: int) -> None:
    zipped(path, {"meta.json": json.dumps(one_object([[]] * count)).encode()}, zipfile.ZIP_DEFLATED)


def lazy_stacks(path: Path, count: int) -> None:
    members = {"meta.json": json.dumps(meta(**{f"k{at}": {"type": "TensorDict"} for at in range(count)})).encode()}
    for at in range(count):
        members[f"k{at}/meta.json"] = json.dumps({**STACK, "stack_dim": 0, "stack_dim_name": None}).encode()
        for part in range(2):
            members[f"k{at}/{part}/meta.json"] = json.dumps(meta()).encode()
    zipped(path, members)


def deep_names(path: Path, count: int) -> None:
    members = {"meta.json": json.dumps(meta()).encode()}
    members |= {f"{at:06}" + "/a" * 32_000: b"" for at in range(count)}
    zipped(path, members)


def texts_in_one(path: Path, count: int) -> None:
    """An HDF5 file in which all texts are one."""
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("s", data=["x" * (16 * count)] + [""] * (count - 1), dtype=h5py.string_dtype())
        start = file["s"].id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[start : start + 16 * count] = raw[start : start + 16] * count
    path.write_bytes(raw)


def texts_in_chunks(path: Path, count: int) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        made = file.create_dataset("s", shape=(count * 2**20,), dtype=h5py.string_dtype(), chunks=(1024,))
        made.attrs["tensorclass"] = json.dumps({"type": "objects", "batch_size": [count * 2**20], "form": "text"})


def zarr_texts(path: Path, count: int) -> None:
    import zarr

    root = zarr.open_group(str(path), mode="w", zarr_format=3)
    root.attrs.update(
        {"tensorclass": {"type": "collection", "version": 1, "batch_size": []}, "tensorclass_version": "1"}
    )
    raw = b"[" + b"[]," * (count * 2**18) + b"0]"
    made = root.create_array("o", shape=(len(raw),), dtype="u1", chunks=(len(raw),))
    import numpy as np

    made[...] = np.frombuffer(raw, "u1")
    said = {"type": "object", "batch_size": [], "form": "data"}
    made.attrs.update({"tensorclass": said, "tensorclass_version": "1"})


def peer_tree(path: Path, count: int) -> None:
    """Many nested collections, and as many tensors."""
    keys = {f"k{at}": {"td": {"batch_size": [], "names": None, "keys": {}}} for at in range(count)}
    tensors(path, None, {"batch_size": [], "names": None, "keys": keys}, count)


def nested(path: Path, count: int) -> None:
    """Objects nested as deep as may be, side by side."""
    form: Any = []
    for _ in range(90):
        form = [form]
    written(path, one_object([form] * count))


def huge_shape(path: Path, count: int) -> None:
    known = {"device": "cpu", "shape": [10**4000] * count, "dtype": "torch.uint8", "is_nested": False}
    written(path, meta(x=known))


def empty_shapes(path: Path, count: int) -> None:
    known = {"device": "cpu", "shape": [2**50, 0], "dtype": "torch.uint8", "is_nested": False}
    entries = {f"o{at}": {"type": "object", "batch_size": [2**50], "data": "x"} for at in range(count)}
    written(path, own(entries, shape=[2**50], **{f"k{at}": known for at in range(count)}))


def keys_of_pytrees(path: Path, count: int) -> None:
    form = {"kind": "dict", "keys": {str(at): key for at, key in enumerate(colliding(count))}, "leaves": []}
    written(path, one_object(["<tag>", "pytree", form]))


def folder(data: Callable[[int], Any]) -> Callable[[Path, int], None]:
    return lambda path, count: written(path, one_object(data(count)))


BOMBS: dict[str, Bomb] = {
    "archive: deflated zeros": Bomb(compressed(zipfile.ZIP_DEFLATED), "load_memmap", 100),
    "archive: bzip2 of zeros": Bomb(compressed(zipfile.ZIP_BZIP2), "load_memmap", 100),
    "archive: lzma of zeros": Bomb(compressed(zipfile.ZIP_LZMA), "load_memmap", 100),
    "archive: bzip2 that lies": Bomb(compressed(zipfile.ZIP_BZIP2, 64), "load_memmap", 100),
    "archive: lzma that lies": Bomb(compressed(zipfile.ZIP_LZMA, 64), "load_memmap", 100),
    "archive: deflated JSON": Bomb(long_texts, "load_memmap", 2**20),
    "archive: lazy stacks": Bomb(lazy_stacks, "load_memmap", 1000),
    "archive: deep names": Bomb(deep_names, "load_memmap", 20),
    "folder: a set of one hash": Bomb(folder(lambda count: ["<tag>", "set", colliding(count)]), "load_memmap", 20_000),
    "folder: keys of one hash": Bomb(
        folder(lambda count: ["<tag>", "dict", [[key, 0] for key in colliding(count)]]), "load_memmap", 20_000
    ),
    "folder: tuples of one hash": Bomb(
        folder(lambda count: ["<tag>", "frozenset", [["<tag>", "tuple", [1, key]] for key in colliding(count)]]),
        "load_memmap", 20_000,
    ),
    "folder: keys of a pytree": Bomb(keys_of_pytrees, "load_memmap", 20_000),
    "folder: empty lists": Bomb(folder(lambda count: [[]] * count), "load_memmap", 2**18),
    "folder: nested lists": Bomb(nested, "load_memmap", 2000),
    "folder: long numbers": Bomb(
        folder(lambda count: [["<tag>", "float", "1" * 10 * count], ["<tag>", "decimal", "9" * 10 * count]]),
        "load_memmap", 50_000,
    ),
    "folder: a shape of long numbers": Bomb(huge_shape, "load_memmap", 200),
    "folder: rows without values": Bomb(empty_shapes, "load_memmap", 5000),
    "consolidated: a set of one hash": Bomb(
        lambda path, count: packed(
            path,
            collection({"o": {"type": "object", "batch_size": [], "data": ["<tag>", "set", colliding(count)]}}), [], 0,
        ),
        "from_consolidated", 20_000,
    ),
    "consolidated: one tensor again and again": Bomb(
        lambda path, count: packed(
            path,
            collection({f"k{at}": {"type": "tensor", "dtype": "uint8", "shape": [count]} for at in range(count)}),
            [0] * count, count,
        ),
        "from_consolidated", 5000,
    ),
    "safetensors: nested collections": Bomb(peer_tree, "load_safetensors", 2000),
    "safetensors: a set of one hash": Bomb(
        lambda path, count: tensors(
            path, collection({"o": {"type": "object", "batch_size": [], "data": ["<tag>", "set", colliding(count)]}})
        ),
        "load_safetensors", 20_000,
    ),
    "h5: texts that are one": Bomb(texts_in_one, "from_h5", 4000),
    "h5: texts that are nowhere": Bomb(texts_in_chunks, "from_h5", 16),
    "zarr: compressed JSON": Bomb(zarr_texts, "from_zarr", 4),
}  # fmt: skip

PROGRAM = """
import json, resource, sys, time
import torch, h5py, zarr
from tensorclass import TensorDict
from tests.storage.formats import _read

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

for load, path in json.loads(sys.argv[1]):
    found = None
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before, start = peak(), time.process_time()
    try:
        found = getattr(TensorDict, load)(path)
        if load in ("from_h5", "from_zarr"):
            found = _read(found)
        said = "opened"
    except (ValueError, OSError) as error:
        said = type(error).__name__ + ": " + str(error).replace(path, "PATH")[:150]
    print(json.dumps([time.process_time() - start, peak() - before, said]), flush=True)
"""


class Result(NamedTuple):
    """What opening a file took."""

    size: int  #: of the file, in bytes
    seconds: float  #: of the processor
    memory: int  #: bytes beyond what the process had before, at most
    said: str

    @property
    def has_bounded_memory(self) -> bool:
        return self.memory <= BYTES[0] + BYTES[1] * self.size

    @property
    def is_bounded(self) -> bool:
        return self.seconds <= SECONDS[0] + SECONDS[1] * self.size and self.has_bounded_memory


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*"))


def opened(files: list[tuple[str, Path]]) -> list[Result]:
    """Opens files one after the other in a process with limits, and in another one what comes after a broken limit."""
    results: list[Result] = []
    while len(results) < len(files):
        rest = files[len(results) :]
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            PROGRAM,
            json.dumps([[load, str(path)] for load, path in rest]),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=HARD_SECONDS + 5 * len(rest), preexec_fn=_limited
            )
            said, lines = done.stderr[-300:] or f"ended with {done.returncode}", done.stdout.splitlines()
        except subprocess.TimeoutExpired as error:
            said, lines = "it took too long", (error.stdout or b"").decode().splitlines()
        results += [Result(size_of(path), *json.loads(line)) for (_, path), line in zip(rest, lines, strict=False)]
        if len(lines) < len(rest):
            results.append(Result(size_of(rest[len(lines)][1]), float("inf"), 2**62, said))
    return results


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (HARD_BYTES, HARD_BYTES))


def run(chosen: dict[str, Bomb], times: tuple[float, ...]) -> list[tuple[str, Result]]:
    """Makes files of some multiples of their size, and opens them."""
    with tempfile.TemporaryDirectory() as place:
        files: list[tuple[str, str, Path]] = []
        for name, bomb in chosen.items():
            for factor in times:
                path = Path(place) / str(len(files))
                bomb.make(path, max(1, int(bomb.size * factor)))
                files.append((name, bomb.load, path))
        found = opened([(load, path) for _, load, path in files])
        return [(name, result) for (name, _, _), result in zip(files, found, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only those whose name has this")
    parser.add_argument("--check", action="store_true", help="end with an error where one takes more than is promised")
    options = parser.parse_args()
    wrong = 0
    print("| file | its bytes | seconds | megabytes of memory | outcome |\n| --- | --- | --- | --- | --- |")
    for name, result in run({name: bomb for name, bomb in BOMBS.items() if options.filter in name}, (1, 2, 4)):
        said = result.said if result.is_bounded else f"TOO MUCH: {result.said}"
        wrong += not result.is_bounded
        print(f"| {name} | {result.size:,} | {result.seconds:.2f} | {result.memory / 1e6:.0f} | {said} |")
    if options.check and wrong:
        sys.exit(f"{wrong} files took more than is promised")


if __name__ == "__main__":
    main()
