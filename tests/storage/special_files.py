"""Pipes, devices, sockets and links in the place of files and folders: ``python -m tests.storage.special_files``.

For each format, each file and folder of what was saved, the path itself and the folder that it is in gives way to a
pipe, a device, a socket or a link: outwards to files that would fit, to a pipe, to nothing, in a circle, or inside.
Links in an HDF5 file lead outwards over several hops. Then it is loaded, opened for writing, written to, saved over and
appended to. Each must end soon, in little memory, as an error of a promised class that names a path, or with the right
result; what lies outside is neither opened nor changed. A link as the path that was given, or above it, is followed.

Each place runs in a process of its own, which is forked from one that has all libraries: a few milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import random
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tensorclass import (
    TensorDict,
    append_memmap,
    is_memmap_archive,
    lazy_stack,
    pack_memmap,
    refresh_archive_checksums,
    unpack_memmap,
)
from tensorclass.storage.hdf5_zarr.array_backend import DRAFT
from tests.storage.formats import FORMATS, _close, contents

SECONDS = 10.0  #: of the processor, for one case
PATIENCE = 120.0  #: seconds of waiting, after which a case hangs: other processes may have the processor
MEMORY = 512 * 2**20  #: bytes that a case may take more
OLD, OUTSIDE, NEW = 1, 7, 2  #: the values in what is there, in what lies outside, in what is saved over it
NAME = "saved"


def sample(value: int) -> TensorDict:
    """A collection of each kind of folder and group that there is, the same for the same number."""
    ragged = torch.nested.nested_tensor([torch.full((2,), value), torch.full((3,), value)], layout=torch.jagged)
    return TensorDict(
        {
            "x": torch.full((2, 3), float(value)),
            "below": {"c": torch.full((2,), value, dtype=torch.int16)},
            "parts": lazy_stack([TensorDict(a=torch.full((n,), value)) for n in (1, 3)]),
            "ragged": ragged,
            "text": f"text {value}",
            "rows": [f"u{value}", f"v{value}"],
        },
        [2],
        names=["time"],
    )


class Case(NamedTuple):
    """One thing in the place of another."""

    form: str
    place: str  #: a path in what was saved; "" is the path itself, ".." the folder that it is in
    kind: str

    def __str__(self) -> str:
        return f"{self.form}: {self.kind} as {self.place or 'the path'}"


# ---------------------------------------------------------------------------------------------------------------------
# what is planted


def _pipe(place: Path, outside: Path, root: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path, outside: Path, root: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # the name of a socket may be 107 bytes long
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(place.name)
    os.chdir(here)


def _device(place: Path, outside: Path, root: Path) -> None:
    os.mknod(place, 0o20666, os.makedev(1, 5))  # /dev/zero


def _outwards(place: Path, outside: Path, root: Path) -> None:
    place.symlink_to(outside)


def _relative(place: Path, outside: Path, root: Path) -> None:
    place.symlink_to(os.path.relpath(outside, place.parent))


def _twice(place: Path, outside: Path, root: Path) -> None:
    (root / "hop").symlink_to(outside)
    place.symlink_to(root / "hop")


def _folder_outside(place: Path, outside: Path, root: Path) -> None:
    place.symlink_to(root / "outside")


def _pipe_outside(place: Path, outside: Path, root: Path) -> None:
    place.symlink_to(root / "outside" / "pipe")


def _inside(place: Path, outside: Path, root: Path) -> None:
    moved = place.parent / f"moved-{place.name}"
    (root / "old").rename(moved)
    place.symlink_to(moved.name)


_FOLDER_OUTSIDE = "a link to a folder outside"
KINDS: dict[str, Callable[[Path, Path, Path], None]] = {
    "a pipe": _pipe,
    "a socket": _socket,
    "a link to a device": lambda place, outside, root: place.symlink_to("/dev/zero"),
    "a link outwards": _outwards,
    "a relative link outwards": _relative,
    "a link to a link outwards": _twice,
    _FOLDER_OUTSIDE: _folder_outside,
    "a link to a pipe outside": _pipe_outside,
    "a link to nothing": lambda place, outside, root: place.symlink_to(root / "outside" / "nothing"),
    "a link to itself": lambda place, outside, root: place.symlink_to(place.name),
    "a link to the folder above": lambda place, outside, root: place.symlink_to(".."),
    "a link inside": _inside,
}
if os.geteuid() == 0:
    KINDS["a device"] = _device

#: leads to what fits: as the path itself, or above it, it is followed
FITTING = ("a link outwards", "a relative link outwards", "a link to a link outwards", "a link inside")
#: leads to a folder or to nothing: what is saved there goes there
FOLLOWED = (*FITTING, _FOLDER_OUTSIDE, "a link to nothing", "a link to the folder above")
#: must be called by its name where it stands itself
NAMED = {"a pipe": "pipe", "a socket": "socket", "a device": "device"}


def planted(case: Case, template: Path, root: Path) -> Path:
    """A new folder of the case, with what was saved and what lies outside.

    Returns:
        The path that was saved to, and is loaded from.
    """
    inner = root / "inner"
    inner.mkdir(parents=True)
    _copied(template / f"{case.form}-{OLD}", inner / NAME)
    (root / "outside").mkdir()
    os.mkfifo(root / "outside" / "pipe")
    _copied(template / f"{case.form}-{OUTSIDE}", root / "outside" / NAME)
    if case.form.startswith("h5") and case.kind in HOPS:
        shutil.copy(template / f"{case.form}-{OUTSIDE}", root / "outside" / "raw")
        HOPS[case.kind](inner / NAME, case.place, root / "outside" / NAME)
    else:
        plant(case, root)
    return inner / NAME


def plant(case: Case, root: Path) -> None:
    """Put something in the place of something."""
    outside = root / "outside" / (NAME if case.place == "" else case.place if case.place == ".." else "")
    place = root / "inner" / NAME
    if case.place == "..":
        place, outside = root / "inner", root / "outside"
    elif case.place:
        place, outside = place / case.place, root / "outside" / NAME / case.place
    else:
        outside = root / "outside" / NAME
    if os.path.lexists(place):
        place.rename(root / "old")
    KINDS[case.kind](place, outside, root)


def _copied(old: Path, new: Path) -> None:
    if old.is_dir():
        shutil.copytree(old, new)
    else:
        shutil.copy(old, new)


def places_in(form: str, template: Path) -> list[str]:
    """All places of a format, from the path itself to the last chunk."""
    saved = template / f"{form}-{OLD}"
    below = sorted(str(path.relative_to(saved)) for path in saved.rglob("*")) if saved.is_dir() else []
    return ["..", "", *below]


# -- links of HDF5 ----------------------------------------------------------------------------------------------------

HIDDEN = DRAFT  #: a name that is no key: what it leads to is not looked at for itself


def _h5(plant: Callable[[Any, str, str], None]) -> Callable[[Path, str, Path], None]:
    def work(path: Path, place: str, outside: Path) -> None:
        import h5py

        with h5py.File(path, "r+") as file:
            parent, _, name = place.rpartition("/")
            group = file[parent] if parent else file
            if name in group:
                group.move(name, "%old")
                if "%old" in group:
                    del group["%old"]
            plant(group, name, str(outside))

    return work


def _external(group: Any, name: str, outside: str) -> None:
    import h5py

    group[name] = h5py.ExternalLink(outside, f"{group.name.rstrip('/')}/{name}")


def _soft_to_external(group: Any, name: str, outside: str) -> None:
    import h5py

    group[HIDDEN] = h5py.ExternalLink(outside, f"{group.name.rstrip('/')}/{name}")
    group[name] = h5py.SoftLink(HIDDEN)


def _softs_to_external(group: Any, name: str, outside: str) -> None:
    import h5py

    hops = group.file.require_group(HIDDEN)
    hops["out"] = h5py.ExternalLink(outside, "/")
    hops["hop"] = h5py.SoftLink(f"/{HIDDEN}/./out/{group.name.strip('/')}/{name}".replace("//", "/"))
    group[name] = h5py.SoftLink(f"/{HIDDEN}/hop")


def _external_to_pipe(group: Any, name: str, outside: str) -> None:
    import h5py

    group[name] = h5py.ExternalLink(str(Path(outside).with_name("pipe")), "/x")


def _soft_to_pipe(group: Any, name: str, outside: str) -> None:
    import h5py

    group[HIDDEN] = h5py.ExternalLink(str(Path(outside).with_name("pipe")), "/")
    group[name] = h5py.SoftLink(f"{HIDDEN}/x")


def _raw(target: str) -> Callable[[Any, str, str], None]:
    def plant(group: Any, name: str, outside: str) -> None:
        found = str(Path(outside).parent / target)  # an absolute one stays
        group.create_dataset(name, (2, 3), dtype="f4", external=[(found, 0, 24)])

    return plant


def _virtual(group: Any, name: str, outside: str, file: str = NAME) -> None:
    import h5py

    layout = h5py.VirtualLayout((2, 3), dtype="f4")
    layout[:] = h5py.VirtualSource(str(Path(outside).with_name(file)), "x", (2, 3))
    group.create_virtual_dataset(name, layout)


def _virtual_endless(group: Any, name: str, outside: str) -> None:
    """A virtual dataset of which the size is known when its sources are opened."""
    import h5py

    space = h5py.h5s.create_simple((2, 3), (h5py.h5s.UNLIMITED, 3))
    space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), block=(1, 3))
    kept = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    source = h5py.h5s.create_simple((2, 3), (h5py.h5s.UNLIMITED, 3))
    source.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), block=(1, 3))
    kept.set_virtual(space, outside.encode(), b"x", source)
    whole = h5py.h5s.create_simple((2, 3), (h5py.h5s.UNLIMITED, 3))
    h5py.h5d.create(group.id, name.encode(), h5py.h5t.IEEE_F32LE, whole, dcpl=kept)


def _softly(target: str) -> Callable[[Any, str, str], None]:
    def plant(group: Any, name: str, outside: str) -> None:
        import h5py

        group[name] = h5py.SoftLink(target.replace("NAME", name))

    return plant


def _soft_cycle(group: Any, name: str, outside: str) -> None:
    import h5py

    group[HIDDEN] = h5py.SoftLink(name)
    group[name] = h5py.SoftLink(HIDDEN)


def _hard_cycle(group: Any, name: str, outside: str) -> None:
    group[name] = group.file["/"]


def _committed(group: Any, name: str, outside: str) -> None:
    import numpy as np

    group[name] = np.dtype("f4")


HOPS: dict[str, Callable[[Path, str, Path], None]] = {
    "an external link": _h5(_external),
    "a soft link to an external one": _h5(_soft_to_external),
    "soft links over an external one": _h5(_softs_to_external),
    "an external link to a pipe": _h5(_external_to_pipe),
    "a soft link to a pipe": _h5(_soft_to_pipe),
    "values in a file outside": _h5(_raw("raw")),
    "values in a pipe": _h5(_raw("pipe")),
    "values in a device": _h5(_raw("/dev/zero")),
    "a virtual dataset": _h5(_virtual),
    "a virtual dataset of a pipe": _h5(partial(_virtual, file="pipe")),
    "a virtual dataset without an end": _h5(_virtual_endless),
    "a soft link to nothing": _h5(_softly("nothing/at/all")),
    "a soft link to itself": _h5(_softly("NAME")),
    "a soft link to the root": _h5(_softly("/")),
    "two soft links to each other": _h5(_soft_cycle),
    "a hard link to the root": _h5(_hard_cycle),
    "a type": _h5(_committed),
}


def nodes_of(path: Path) -> list[str]:
    """The groups and datasets in an HDF5 file."""
    import h5py

    found: list[str] = []
    with h5py.File(path) as file:
        file.visit(found.append)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# what is done


class Wrong(Exception):
    """What must not be."""


def _read_all(data: Any) -> None:
    contents(data.to_tensordict() if not hasattr(data, "to_memory") else data.to_memory())


def _change(data: Any) -> None:
    """Write to all that an open file has; what cannot be written is an error, and the next one is tried."""
    new = sample(NEW)
    errors: list[BaseException] = []
    for key in new.keys():  # noqa: SIM118  # it is no dict
        for work in (
            partial(data.__setitem__, key, new[key]),
            partial(data.set_at_, key, new[key][0], 0) if key != "text" else lambda: None,
            partial(data.__setitem__, (key, "new"), torch.ones(2)) if key == "below" else lambda: None,
            partial(data.__delitem__, key),
            partial(data.__setitem__, key, new[key]),
        ):
            try:
                work()
            except (ValueError, OSError, RuntimeError, KeyError, TypeError, NotImplementedError) as error:
                errors.append(error)
    if refused := [error for error in errors if isinstance(error, (ValueError, OSError))]:
        raise refused[0]


def _load(case: Case, path: Path, checked: bool) -> None:
    form = FORMATS[case.form]
    load = form.load_checked if checked else form.load
    if load is None:
        return
    found = contents(load(path))
    fits = case.place in ("", "..") and case.kind in FITTING and case.kind != "a link inside"
    fits = fits or (case.place == ".." and case.kind == _FOLDER_OUTSIDE)
    if found != contents(sample(OUTSIDE if fits else OLD)):
        raise Wrong("it has loaded what was not saved there")


def _open_and_write(case: Case, path: Path) -> None:
    if case.form.startswith("h5"):
        data = TensorDict.from_h5(path, mode="r+")
    elif case.form == "zarr":
        data = TensorDict.from_zarr(path, mode="r+")
    elif case.form in ("folder", "archive"):
        data = TensorDict.load_memmap(path, mode="r+")
        data["x"].fill_(NEW)
        data["below", "c"].fill_(NEW)
        return
    else:
        return
    try:
        _change(data)
    finally:
        _close(data)


def _opened_before(case: Case, path: Path, change: bool) -> None:
    """What is open already gives way: of zarr, whose files are opened one by one."""
    if case.form != "zarr" or case.kind == "a link inside":
        return
    root = path.parent.parent
    if case.kind not in HOPS:  # put back, opened, and planted again
        place = path / case.place if case.place not in ("", "..") else path if not case.place else path.parent
        if place.is_dir() and not place.is_symlink():
            return
        place.unlink()
        if (root / "hop").is_symlink():
            (root / "hop").unlink()
        if (root / "old").exists():
            (root / "old").rename(place)
    data = TensorDict.from_zarr(path, mode="r+")
    try:
        plant(case, root)
        if change:
            _change(data)
        else:
            _read_all(data)
    finally:
        _close(data)


def _save_over(case: Case, path: Path) -> None:
    form = FORMATS[case.form]
    form.save(sample(NEW), path)
    if contents(form.load(path)) != contents(sample(NEW)):
        raise Wrong("it has loaded what was not saved there")


def _append(case: Case, path: Path) -> None:
    if case.form == "folder":
        rows = sample(NEW)
        append_memmap(path, rows)


def _further(case: Case, path: Path) -> Iterator[Callable[[], Any]]:
    if case.form == "folder":
        yield lambda: pack_memmap(path, path.parent.parent / "packed.tdz")
        yield lambda: TensorDict.load_memmap(path, subpath="below")
        yield lambda: TensorDict.load_memmap(path, device="meta")
    if case.form in ("archive", "deflated"):
        yield lambda: unpack_memmap(path, path.parent.parent / "unpacked")
        yield lambda: refresh_archive_checksums(path)
        yield lambda: is_memmap_archive(path)
    # of another kind: the errors look at what is there
    yield lambda: TensorDict.load_safetensors(path) if case.form != "safetensors" else None
    yield lambda: TensorDict.from_h5(path) if not case.form.startswith("h5") else None


def _others(case: Case, path: Path) -> None:
    for work in _further(case, path):
        try:
            work()
        except (ValueError, OSError):
            continue


ACTIONS: dict[str, Callable[[Case, Path], None]] = {
    "load": partial(_load, checked=False),
    "load and verify": partial(_load, checked=True),
    "open and write": _open_and_write,
    "read what is open": partial(_opened_before, change=False),
    "write to what is open": partial(_opened_before, change=True),
    "append": _append,
    "other methods": _others,
    "save over": _save_over,
}


# ---------------------------------------------------------------------------------------------------------------------
# what lies outside


_IN_ALL = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200  # not the closing without a change


class Watched:
    """What lies in a folder, and who opens it: the system tells of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = _state(folder)
        self.handle = -1
        self.names: dict[int, str] = {}
        if sys.platform == "linux":
            self.library = ctypes.CDLL(None, use_errno=True)
            self.handle = self.library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            for place in (folder, *[path for path in folder.rglob("*") if path.is_dir()]):
                number = self.library.inotify_add_watch(self.handle, os.fsencode(place), _IN_ALL)
                self.names[number] = str(place)

    def seen(self) -> list[str]:
        """What was opened, and what has changed."""
        found: list[str] = []
        if self.handle >= 0:
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = os.read(self.handle, 2**16)
            os.close(self.handle)
            while data:
                number, mask, _, length = struct.unpack_from("iIII", data)
                name = data[16 : 16 + length].rstrip(b"\0").decode()
                found.append(f"{self.names.get(number)}/{name} was touched ({mask & 0xFFFF:#x})")
                data = data[16 + length :]
        if _state(self.folder) != self.before:
            found.append(f"{self.folder} has changed")
        return found


def _state(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        info = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (info.st_mode, info.st_nlink if path.is_file() else 0, content)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# one after the other


def looked_at(case: Case, action: str, template: Path, place: Path) -> str:
    """Do one thing with one case.

    Returns:
        ``"refused"`` or ``"right"``; what is wrong otherwise.
    """
    root = place / "root"
    path = planted(case, template, root)
    follows = case.place in ("", "..") and case.kind in FOLLOWED
    watched = Watched(root / "outside")
    start, result = time.process_time(), "right"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        ACTIONS[action](case, path)
    except (ValueError, OSError) as error:
        result = "refused"
        text = str(error)
        if str(root) not in text:
            result = f"{type(error).__name__} without a path: {text}"
        elif case.kind in NAMED and case.place != ".." and action == "load" and NAMED[case.kind] not in text:
            result = f"does not say what it is: {text}"
        elif follows and case.kind in FITTING and "what is open" not in action:  # that has another place
            result = f"a link that was given is not followed: {text}"
    except Wrong as error:
        result = str(error)
    except BaseException:
        result = traceback.format_exc()
    if time.process_time() - start > SECONDS:
        result = f"{time.process_time() - start:.1f} s, {result}"
    if (more := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 > MEMORY:
        result = f"{more >> 10} MB, {result}"
    seen = watched.seen()
    if seen and not follows:
        result = f"{'; '.join(seen[:3])}; {result}"
    shutil.rmtree(place)
    return result


def in_child(work: Callable[[Callable[[str], None]], None]) -> tuple[list[str], str]:
    """What a forked process says, line by line; and how it ended, where that is wrong."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reads)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.setsid()
            now = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_DATA, (now + 2 * MEMORY, resource.RLIM_INFINITY))
            work(lambda line: void(os.write(writes, line.encode() + b"\n")))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writes)
    text, ended = b"", ""
    while True:
        ready, _, _ = select.select([reads], [], [], PATIENCE)
        if not ready:
            ended = "it hangs"
            os.kill(child, signal.SIGKILL)
            break
        piece = os.read(reads, 2**16)
        if not piece:
            break
        text += piece
    os.close(reads)
    _, status = os.waitpid(child, 0)
    if status and not ended:
        ended = f"the process ended with {status}"
    return text.decode().splitlines(), ended


def void(_: object) -> None:
    """Nothing."""


def make_template(forms: list[str], template: Path) -> None:
    """What was saved, of each format."""

    def work(say: Callable[[str], None]) -> None:
        template.mkdir()
        for form in forms:
            for value in (OLD, OUTSIDE):
                (FORMATS[form].save_checked or FORMATS[form].save)(sample(value), template / f"{form}-{value}")

    _, ended = in_child(work)
    if ended:
        raise AssertionError(ended)


def cases_of(forms: list[str], template: Path) -> list[Case]:
    """All cases."""
    found: list[Case] = []
    for form in forms:
        for place in places_in(form, template):
            found += [Case(form, place, kind) for kind in KINDS if not (kind == "a link inside" and place == "..")]
        if form.startswith("h5"):
            found += [Case(form, place, kind) for place in nodes_of(template / f"{form}-{OLD}") for kind in HOPS]
    return found


def run(
    cases: list[Case], template: Path, place: Path, rng: random.Random, most: int = len(ACTIONS)
) -> tuple[Counter[str], list[str]]:
    """Go through cases.

    Args:
        cases: the cases.
        template: a folder of what was saved.
        place: a folder, in which nothing else is.
        rng: draws what is done.
        most: how many things are done with each case.

    Returns:
        How often each result came, and what is wrong.
    """
    results, wrong = Counter[str](), list[str]()
    for at, case in enumerate(cases):
        left = list(ACTIONS) if most >= len(ACTIONS) else rng.sample(list(ACTIONS), most)

        def work(say: Callable[[str], None], case: Case = case, at: int = at, left: list[str] = left) -> None:
            for action in left:
                say(json.dumps([action, looked_at(case, action, template, place / str(at))]))

        lines, ended = in_child(work)
        for line in lines:
            action, result = json.loads(line)
            results[result if result in ("right", "refused") else "wrong"] += 1
            if result not in ("right", "refused"):
                wrong.append(f"{case}: {action}: {result}")
        if ended:
            results["wrong"] += 1
            wrong.append(f"{case}: {left[len(lines)]}: {ended}")
        shutil.rmtree(place / str(at), ignore_errors=True)
    return results, wrong


def prepare() -> None:
    """Import what cases need, so that forked processes have it. No thread is started."""
    for name in ("zarr", "h5py", "safetensors.torch", "numcodecs"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    torch.set_num_threads(1)  # a process with threads must not fork
    with tempfile.TemporaryDirectory() as folder:
        for name, form in FORMATS.items():
            if name != "zarr":  # which has threads
                form.save(sample(OLD), Path(folder, name))
                contents(form.load(Path(folder, name)))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="all by default")
    parser.add_argument("--cases", type=int, help="so many of each format, drawn; all by default")
    parser.add_argument("--share", default="0/1", help="1/4 is the second of four parts, which can run side by side")
    parser.add_argument("--actions", type=int, default=len(ACTIONS), help="so many with each case; all by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    prepare()
    forms: list[str] = options.format or list(FORMATS)
    part, parts = map(int, options.share.split("/"))
    failed, rng = False, random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "template")
        make_template(forms, template)
        for form in forms:
            start = time.monotonic()
            cases = cases_of([form], template)[part::parts]
            if options.cases is not None:
                cases = rng.sample(cases, min(options.cases, len(cases)))
            results, wrong = run(cases, template, Path(folder, "places"), rng, options.actions)
            for line in wrong:
                print(line.replace(folder, "FOLDER"))
            failed = failed or bool(wrong)
            seconds = round(time.monotonic() - start)
            print(json.dumps({"format": form, "cases": len(cases), **results, "seconds": seconds}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
