"""Files that were made to do harm: loading one is an error that names it, runs nothing and opens nothing elsewhere."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tensorclass import TensorDict, lazy_stack
from tensorclass.storage import FileError
from tests import fresh_python
from tests.storage.formats import FORMATS


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def payload(folder: Path) -> str:
    return base64.b64encode(pickle.dumps(Bomb(str(folder / "exploded")))).decode()


def saved(folder: Path) -> Path:
    place = folder / "saved"
    rows = lazy_stack([TensorDict(a=torch.zeros(n)) for n in (2, 3)])
    TensorDict({"x": torch.ones(2, 3), "below": {"y": torch.ones(2)}, "text": "t", "rows": rows}, [2]).memmap(place)
    (folder / "outside.memmap").write_bytes(bytes(24))
    return place


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes what a ``meta.json`` says, as a program would that knows the format."""
    meta = json.loads(path.read_text())
    for entry in meta["_tensorclass"].get("entries", {}).values():
        entry.pop("meta_crc32", None)
    meta["_tensorclass"].pop("crc32", None)
    change(meta)
    path.write_text(json.dumps(meta))


def own_data(data: Any) -> Callable[[dict[str, Any]], object]:
    """An object that only this package reads, in the place of the text."""
    entry = {"type": "object", "batch_size": [2], "data": data}
    return lambda meta: meta["_tensorclass"]["entries"].update(text=entry)


def tensor(shape: Any, dtype: Any = "torch.float32") -> dict[str, Any]:
    return {"device": "cpu", "shape": shape, "dtype": dtype, "is_nested": False}


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a key that climbs out": lambda meta: meta.update({"../outside": tensor([2, 3])}),
    "a key that climbs out from below": lambda meta: meta.update({"a/../../outside": tensor([2, 3])}),
    "a folder that climbs out": lambda meta: meta.update({"..": {"type": "TensorDict"}}),
    "a folder of its own": lambda meta: meta.update({".": {"type": "TensorDict"}}),
    "an absolute path": lambda meta: meta.update({"/etc/passwd": tensor([2, 3])}),
    "a NUL in a key": lambda meta: meta.update({"a\0b": tensor([2, 3])}),
    "half a character in a key": lambda meta: meta.update({"\ud800": tensor([2, 3])}),
    "half a character in a folder": lambda meta: meta.update({"\ud800": {"type": "TensorDict"}}),
    "a key of 10,000 characters": lambda meta: meta.update({"k" * 10_000: tensor([2, 3])}),
    "a folder of 10,000 characters": lambda meta: meta.update({"k" * 10_000: {"type": "TensorDict"}}),
    "a negative length": lambda meta: meta["x"].update(shape=[2, -3]),
    "10^18 values": lambda meta: meta["x"].update(shape=[2, 10**18]),
    "10^18 values, twice": lambda meta: meta["x"].update(shape=[10**9, 10**9]),
    "a length of 10^30": lambda meta: meta["x"].update(shape=[2, 10**30]),
    "nothing, 10^30 times": lambda meta: meta["x"].update(shape=[2, 0, 10**30]),
    "a thousand dimensions": lambda meta: meta["x"].update(shape=[2] * 1000),
    "a length that is no whole number": lambda meta: meta["x"].update(shape=[2, 3.0]),
    "a length that is text": lambda meta: meta["x"].update(shape=[2, "3"]),
    "a length that is true": lambda meta: meta["x"].update(shape=[2, True]),
    "a shape that is a number": lambda meta: meta["x"].update(shape=6),
    "a batch size of 10^30": lambda meta: meta.update(shape=[10**30]),
    "a batch size that is negative": lambda meta: meta.update(shape=[-2]),
    "a dtype that is none": lambda meta: meta["x"].update(dtype="torch.nn"),
    "a dtype that is a module": lambda meta: meta["x"].update(dtype="torch.onnx"),
    "a dtype that is a list": lambda meta: meta["x"].update(dtype=["float32"]),
    "a jagged tensor of 10^9 rows": lambda meta: meta["x"].update(is_nested=True, shape=[10**9, 2]),
    "a jagged tensor of -1 rows": lambda meta: meta["x"].update(is_nested=True, shape=[-1, 2]),
    "rows of our own jagged tensor": lambda meta: meta["_tensorclass"]["entries"].update(
        x={"type": "jagged", "dtype": "float32", "shape": [6], "rows": 10**9}
    ),
    "10^9 objects": lambda meta: meta["_tensorclass"]["entries"].update(
        text={"type": "objects", "batch_size": [10**9], "data": []}
    ),
    "names that are numbers": lambda meta: meta.update(_names=[5]),
    "too many names": lambda meta: meta.update(_names=["a", "b"]),
    "a version that is a list": lambda meta: meta["_tensorclass"].update(version=[1]),
    "a version that is not known": lambda meta: meta["_tensorclass"].update(version=2**70),
    "an own part that is a list": lambda meta: meta.update(_tensorclass=[1]),
    "an own part with more": lambda meta: meta["_tensorclass"].update(loader="os.system"),
    "entries that are a list": lambda meta: meta["_tensorclass"].update(entries=[1]),
    "a value that is a number": lambda meta: meta.update(x=5),
    "a pickle": lambda meta: own_data(["<tag>", "pickle", payload(Path("/nowhere"))])(meta),
    "a tag that is not known": own_data(["<tag>", "eval", "1"]),
    "a dtype tag of a module": own_data(["<tag>", "dtype", "onnx"]),
    "a dtype tag of a function": own_data(["<tag>", "dtype", "load"]),
    "a device that is not there": own_data(["<tag>", "device", "nothing:9999999999999"]),
    "a device that is a number": own_data(["<tag>", "device", 0]),
    "a numpy dtype of objects": own_data(["<tag>", "numpy", ["O", "AAAAAAAAAAA="]]),
    "a numpy dtype with fields": own_data(["<tag>", "numpy", [[["a", "O"]], ""]]),
    "a numpy text of 10^9 characters": own_data(["<tag>", "numpy", ["<U999999999", ""]]),
    "a uuid that is a number": own_data(["<tag>", "uuid", 7]),
    "a range without steps": own_data(["<tag>", "range", [0, 9, 0]]),
    "a timedelta beyond all": own_data(["<tag>", "timedelta", [10**30, 0, 0]]),
    "a set of lists": own_data(["<tag>", "set", [[1]]]),
    "a tag without its content": own_data(["<tag>"]),
}


def assert_refused(load: Callable[[], object], path: Path, *, seconds: float = 5.0) -> None:
    """Loading is an error of the file, which it names, and takes few seconds of the processor."""
    start = time.process_time()
    with pytest.raises((FileError, FileNotFoundError)) as caught:
        load()
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 30_000
    assert time.process_time() - start < seconds


@pytest.mark.parametrize("what", CHANGES)
def test_a_folder_that_says_what_cannot_be_is_refused(what: str, tmp_path: Path) -> None:
    place = saved(tmp_path)
    edited(place / "meta.json", CHANGES[what])
    assert_refused(lambda: TensorDict.load_memmap(place), place)


@pytest.mark.parametrize("count", [10**9, -1, True, 1.5, "2", [2]])
def test_a_lazy_stack_has_the_parts_that_are_there(count: Any, tmp_path: Path) -> None:
    place = saved(tmp_path)
    edited(place / "rows" / "meta.json", lambda meta: meta["_tensorclass"].update(parts=count))
    assert_refused(lambda: TensorDict.load_memmap(place), place)


@pytest.mark.parametrize("dim", [10**18, -1, True, "0", None, [0]])
def test_a_lazy_stack_is_along_a_dimension(dim: Any, tmp_path: Path) -> None:
    place = saved(tmp_path)
    edited(place / "rows" / "meta.json", lambda meta: meta.update(stack_dim=dim))
    assert_refused(lambda: TensorDict.load_memmap(place), place)


TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\x80\x04pickled",
    "no UTF-8": b'{"shape": [], "\xff\xfe": 1}',
    "UTF-16": '{"shape": []}'.encode("utf-16"),
    "a list": b"[1]",
    "a number of 10,000 digits": b'{"shape": [' + b"9" * 10_000 + b"]}",
    "not a number": b'{"shape": [NaN]}',
    "100,000 levels": deep(100_000).encode(),
    "100,000 levels in a dict": b'{"shape": ' + deep(100_000).encode() + b"}",
    "900 levels in a shape": b'{"shape": ' + deep(900).encode() + b"}",
    "900 levels in an entry": b'{"shape": [], "a": ' + deep(900).encode() + b"}",
    "a key twice": b'{"shape": [], "shape": [], "_type": "TensorDict"}',
}


@pytest.mark.parametrize("what", TEXTS)
def test_what_is_no_tree_is_refused(what: str, tmp_path: Path) -> None:
    place = saved(tmp_path)
    (place / "meta.json").write_bytes(TEXTS[what])
    assert_refused(lambda: TensorDict.load_memmap(place), place)


def test_what_says_too_much_is_not_read(tmp_path: Path) -> None:
    place = saved(tmp_path)
    os.truncate(place / "meta.json", 2**40)
    assert_refused(lambda: TensorDict.load_memmap(place), place)


def test_folders_are_nested_to_an_end(tmp_path: Path) -> None:
    place = saved(tmp_path)
    text = json.dumps({"shape": [], "_type": "TensorDict", "k": {"type": "TensorDict"}})
    handle = os.open(place, os.O_RDONLY)
    for _ in range(300):
        below = os.open("meta.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=handle)
        os.write(below, text.encode())
        os.close(below)
        os.mkdir("k", dir_fd=handle)
        below = os.open("k", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    assert_refused(lambda: TensorDict.load_memmap(place), place)


def test_a_record_of_the_peer_stands_in_one_folder_not_in_many(tmp_path: Path) -> None:
    place = saved(tmp_path)
    for folder in (place, place / "_tensordict", place / "_tensordict" / "_tensordict"):
        folder.mkdir(exist_ok=True)
        (folder / "meta.json").write_text("{}")
    assert_refused(lambda: TensorDict.load_memmap(place), place)


def _link(to: Path) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket may be 107 bytes long
        opened.bind(path.name)
        os.chdir(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "a link out of the folder": _link(Path("../outside.memmap")),
    "a link to a file of the system": _link(Path("/etc/passwd")),
    "a link to a device without an end": _link(Path("/dev/zero")),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to the folder above": _link(Path("..")),
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a socket": _socket,
}
if os.geteuid() == 0:
    KINDS["a device"] = lambda path: os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero


@pytest.mark.parametrize("mode", [None, "r", "r+"])
@pytest.mark.parametrize(
    "name", ["x.memmap", "meta.json", "below", "below/meta.json", "rows/0", "text", "text/meta.json"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_only_files_and_folders_are_opened(kind: str, name: str, mode: str | None, tmp_path: Path) -> None:
    place = saved(tmp_path)
    path = place / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    KINDS[kind](path)
    assert_refused(lambda: TensorDict.load_memmap(place, mode=mode), place)


@pytest.mark.parametrize("name", ["other.pickle", "pickle.pkl"])
def test_pickles_of_other_programs_are_not_read_where_none_is_asked_for(name: str, tmp_path: Path) -> None:
    place = saved(tmp_path)
    edited(place / "meta.json", lambda meta: meta["_tensorclass"]["entries"].pop("text"))
    (place / "text" / "meta.json").write_text(json.dumps({"_type": "<class 'tensordict.tensorclass.NonTensorData'>"}))
    (place / "text" / name).write_bytes(pickle.dumps(Bomb(str(tmp_path / "exploded"))))
    assert_refused(lambda: TensorDict.load_memmap(place), place)
    assert not (tmp_path / "exploded").exists()


def test_no_class_is_imported_for_its_name(tmp_path: Path) -> None:
    place = saved(tmp_path)
    (tmp_path / "hostile_module.py").write_text(f"import os; os.mkdir({str(tmp_path / 'exploded')!r})")
    sys.path.insert(0, str(tmp_path))
    try:
        for name in ("hostile_module", "antigravity", "this", "../saved"):
            named = {"module": name, "name": "Class"}
            edited(place / "meta.json", lambda meta, named=named: meta["_tensorclass"].update({"class": named}))
            edited(
                place / "meta.json", lambda meta, name=name: meta.update(_class=f"{name}:Class", _type=f"{name}.Class")
            )
            assert type(TensorDict.load_memmap(place)) is TensorDict
            assert name not in sys.modules
    finally:
        sys.path.remove(str(tmp_path))
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "named", [{"module": "os", "name": "system"}, {"module": 5, "name": ["a"]}, {"name": "a.b.c" * 1000}, [1], "os", {}]
)
def test_a_class_that_is_no_record_is_passed_over(named: Any, tmp_path: Path) -> None:
    place = saved(tmp_path)
    edited(place / "meta.json", lambda meta: meta["_tensorclass"].update({"class": named}))
    assert type(TensorDict.load_memmap(place)) is TensorDict


TREES: dict[str, Any] = {
    "a list": [1],
    "a tensor": {"type": "tensor", "dtype": "float32", "shape": [2]},
    "an object": {"type": "object", "batch_size": [], "data": 1},
    "a tensor that is not there": {"x": {"type": "tensor", "dtype": "float32", "shape": [2]}},
    "10^18 values": {"a": {"type": "tensor", "dtype": "float32", "shape": [10**9, 10**9]}},
    "10^9 rows": {"a": {"type": "jagged", "dtype": "float32", "shape": [2], "rows": 10**9}},
    "a pickle": {"a": {"type": "object", "batch_size": [], "data": ["<tag>", "pickle", payload(Path("/nowhere"))]}},
    "no entries": {"type": "collection", "batch_size": []},
    "no parts": {"a": {"type": "lazy_stack", "parts": 10**9, "stack_dim": 0}},
}


@pytest.mark.parametrize("what", TREES)
def test_a_safetensors_file_that_says_what_cannot_be_is_refused(what: str, tmp_path: Path) -> None:
    tree = TREES[what]
    if isinstance(tree, dict) and "type" not in tree:
        tree = {"type": "collection", "batch_size": [], "entries": tree}
    text = json.dumps({"version": 1, "tree": tree})
    save_file({"a": torch.ones(2)}, tmp_path / "f", metadata={"tensorclass": text})
    assert_refused(lambda: TensorDict.load_safetensors(tmp_path / "f"), tmp_path / "f")


@pytest.mark.parametrize("levels", [150, 300, 900, 100_000])
def test_a_safetensors_file_is_nested_to_an_end(levels: int, tmp_path: Path) -> None:
    inner = '{"type": "collection", "batch_size": [], "entries": {"k": '
    tree = inner * levels + '{"type": "tensor", "dtype": "float32", "shape": [-1]}' + "}}" * levels
    save_file({"a": torch.ones(2)}, tmp_path / "f", metadata={"tensorclass": f'{{"version": 1, "tree": {tree}}}'})
    assert_refused(lambda: TensorDict.load_safetensors(tmp_path / "f"), tmp_path / "f")


WATCHED = """
import sys, warnings
warnings.simplefilter("ignore")
from tests.storage.formats import FORMATS
form, good, root, *bad = sys.argv[1:]
load = FORMATS[form].load
load(good)
try:
    load(root + "/none")
except ValueError:
    pass
except FileNotFoundError:
    pass
seen = []
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        name = args[0] if isinstance(args[0], str) else args[0].decode()
        if name.startswith("/") and not name.startswith((root, "/proc/self/fd/")):
            seen.append((event, name))
    elif event.split(".")[0] in ("import", "exec", "subprocess", "pickle", "shutil", "socket") or event in (
        "os.system", "os.exec", "os.fork", "os.mkdir", "os.remove", "os.rename", "os.symlink", "os.link", "compile"
    ):
        seen.append((event, str(args)[:200]))
sys.addaudithook(watch)
for path in bad:
    try:
        load(path)
    except (ValueError, OSError):
        pass
    else:
        seen.append(("loaded", path))
found = list(seen)
print(found)
"""


def test_nothing_is_run_imported_or_opened_elsewhere(tmp_path: Path) -> None:
    """Seen from below: Python tells a hook of files that are opened, and of code that runs."""
    root = tmp_path / "root"
    root.mkdir()
    bad: list[Path] = []
    for at, change in enumerate(CHANGES.values()):
        (root / str(at)).mkdir()
        bad.append(saved(root / str(at)))
        edited(bad[-1] / "meta.json", change)
    for at, make in enumerate(KINDS.values()):
        (root / f"k{at}").mkdir()
        bad.append(saved(root / f"k{at}"))
        (bad[-1] / "x.memmap").unlink()
        make(bad[-1] / "x.memmap")
    good = saved(tmp_path)
    done = fresh_python.run(["-c", WATCHED, "folder", str(good), str(root), *map(str, bad)])
    assert done.stdout.strip() == "[]", done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("form", FORMATS)
def test_an_object_that_is_a_pickle_is_not_read(form: str, tmp_path: Path) -> None:
    data = TensorDict(text=["<tag>", "pickle", payload(tmp_path)], x=torch.ones(2))  # a list, and stays one
    FORMATS[form].save(data, tmp_path / "f")
    assert FORMATS[form].load(tmp_path / "f")["text"] == data["text"]
    assert not (tmp_path / "exploded").exists()
