"""Storage beside what it is built on, and beside the peer: `python -m benchmarks.storage [--filter REGEX]`

A row is one piece of work. Its sides take turns, each is measured in milliseconds, and the ratios are what counts: ours
to the bare library that the row names (torch.save, safetensors, h5py and zarr by hand, plain tensors) with what it may
be at most, and ours to the peer, than which it shall be no slower. Files lie in a temporary folder (`--folder`: below
another one), and are in the page cache when they are read. What is written is new, unless the row says "over": then it
takes the place of what is there, as a whole, which the peer does with `atomic=True`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import re
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import safetensors.torch
import tensordict
import torch
import zarr
from torch import Tensor

from benchmarks.timing import Call, Plan, time_in_turns
from tensorclass import TensorClass, TensorDict

# one block: the smallest sample of all rounds, since a neighbour that writes to the same disk can take whole blocks
FULL = Plan(blocks=1, rounds=24)
QUICK = Plan(blocks=1, rounds=6)
NO_SLOWER = 1.0  #: than the peer; a row whose ratio is within the noise of a busy machine is shown as it is


@dataclass(frozen=True)
class Scale:
    """How much is stored."""

    leaves: int = 200
    rows: int = 1024  #: of 33 floats: 135 KB a leaf, 27 MB in all
    mapped: int = 100_000  #: rows of the record that is gathered from
    many: int = 2000  #: leaves of the tree that is opened on meta
    large: int = 100_000_000  #: bytes of the largest leaves that are opened, in a file that takes no space


@dataclass(frozen=True)
class Row:
    """A piece of work and its sides."""

    name: str
    ours: Call
    beside: str  #: what `hand` is
    hand: Call
    most: float | None = None  #: how much of `hand`'s time ours may take
    peer: Call | None = None  #: none where the peer has nothing like it, or is no part of the question
    written: tuple[str, ...] = ()  #: what ours, hand and peer write, which is removed before they do


@dataclass(frozen=True)
class Figure:
    """What a row took, in milliseconds."""

    name: str
    beside: str
    ours: float
    hand: float
    peer: float | None
    most: float | None

    @property
    def ratio(self) -> float:
        return self.ours / self.hand

    @property
    def to_peer(self) -> float | None:
        return None if self.peer is None else self.ours / self.peer

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "ours/hand": self.ratio, "ours/peer": self.to_peer}


class Rows(TensorClass):
    """The record that rows are gathered from."""

    image: Tensor
    label: Tensor


class PeerRows(tensordict.TensorClass):
    """The same of the peer."""

    image: Tensor
    label: Tensor


Source = Callable[[ExitStack, Path, Scale], Iterator[Row]]


def flat(scale: Scale) -> dict[str, Tensor]:
    """What is written and opened: by default 27 MB in 200 leaves."""
    return {f"leaf{at}": torch.rand(scale.rows, 33) for at in range(scale.leaves)}


def both(values: dict[str, Any], size: list[int]) -> tuple[TensorDict, tensordict.TensorDict]:
    return TensorDict(values, size), tensordict.TensorDict(values, size)


def files(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    """Whole collections, written to a file or a folder and opened."""
    values = flat(scale)
    ours, peer = both(values, [scale.rows])
    what = f"{sum(value.nbytes for value in values.values()) / 1e6:.0f} MB in {scale.leaves} leaves"
    at, theirs = str(folder / "ours"), str(folder / "theirs")
    pt, st = str(folder / "hand.pt"), str(folder / "hand.safetensors")

    def write(form: str, suffix: str, call: Call, peer_call: Call, most: float | None = 1.0) -> Row:
        saving: Call = lambda: torch.save(values, pt)  # noqa: E731
        return Row(
            f"write {what}: {form}", call, "torch.save", saving, most, peer_call, (at + suffix, pt, theirs + suffix)
        )

    yield write("memmap folder", "", lambda: ours.memmap(at), lambda: peer.memmap(theirs))
    yield write(
        "safetensors",
        ".safetensors",
        lambda: ours.save_safetensors(at + ".safetensors"),
        lambda: tensordict.to_safetensors(peer, theirs + ".safetensors"),
    )
    yield Row(
        f"write {what}: safetensors, beside its own",
        lambda: ours.save_safetensors(at + ".safetensors"),
        "save_file",
        lambda: safetensors.torch.save_file(values, st),
        written=(at + ".safetensors", st),
    )
    yield write(
        "consolidated",
        ".one",
        lambda: ours.consolidate(filename=at + ".one"),
        lambda: peer.consolidate(filename=theirs + ".one"),
    )
    yield write("archive", ".tdz", lambda: ours.memmap(at + ".tdz"), lambda: peer.memmap(theirs + ".tdz", archive=True))
    yield write(
        "torch.save of it", ".pt", lambda: torch.save(ours, at + ".pt"), lambda: torch.save(peer, theirs + ".pt"), None
    )
    yield Row(
        f"write {what}: memmap folder, over one",
        lambda: ours.memmap(at),
        "torch.save",
        lambda: torch.save(values, pt),
        None,
        lambda: peer.memmap(theirs, atomic=True),
    )

    def open_(form: str, call: Call, peer_call: Call, most: float | None = None) -> Row:
        return Row(f"open {what}: {form}", call, "load_file", lambda: safetensors.torch.load_file(st), most, peer_call)

    load, peer_load = TensorDict.load_memmap, tensordict.TensorDict.load_memmap
    yield open_("memmap folder", lambda: load(at), lambda: peer_load(theirs), 1.5)
    yield open_(
        "safetensors",
        lambda: TensorDict.load_safetensors(at + ".safetensors"),
        lambda: tensordict.from_safetensors(theirs + ".safetensors"),
        1.5,
    )
    yield open_(
        "consolidated",
        lambda: TensorDict.from_consolidated(at + ".one"),
        lambda: tensordict.TensorDict.from_consolidated(theirs + ".one"),
    )
    yield open_("archive", lambda: load(at + ".tdz"), lambda: peer_load(theirs + ".tdz"))
    yield Row(
        f"open {what}: torch.save of it",
        lambda: torch.load(at + ".pt", weights_only=False),
        "torch.load",
        lambda: torch.load(pt, weights_only=False),
        None,
        lambda: torch.load(theirs + ".pt", weights_only=False),
    )
    yield Row(
        f"open {what}: torch.save of it, weights_only",
        lambda: torch.load(at + ".pt", weights_only=True),
        "torch.load",
        lambda: torch.load(pt, weights_only=True),
    )


def gather(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    """Rows of a record that lies in files."""
    image, label = torch.rand(scale.mapped, 64), torch.arange(scale.mapped)
    size = [scale.mapped]
    ours = Rows(image=image, label=label, batch_size=size).memmap(folder / "ours")
    peer = PeerRows(image=image, label=label, batch_size=size).memmap(str(folder / "theirs"))  # type: ignore[call-arg]
    index = torch.randint(scale.mapped, (256,))
    yield Row(
        f"gather 256 of {scale.mapped} mapped rows",
        lambda: ours[index],
        "plain tensors",
        lambda: (image[index], label[index]),
        1.1,
        lambda: peer[index],
    )
    yield Row(
        f"gather 256 of {scale.mapped} mapped rows of one tensor",
        lambda: ours.image[index],
        "plain tensor",
        lambda: image[index],
        1.1,
        lambda: peer.image[index],
    )


def meta(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    """Opening without values, which takes what there is to say of a tree."""
    for each in (1024, 32 * 1024, scale.rows * 132):  # the last one is that of the files above
        inner = {f"leaf{at}": torch.rand(8, each // 32) for at in range(20)}
        tree = {f"part{at}": inner for at in range(scale.many // 20)}
        at, theirs = folder / f"ours{each}", str(folder / f"theirs{each}")
        ours, peer = both({key: dict(value) for key, value in tree.items()}, [8])
        ours.memmap(at)
        peer.memmap(theirs)
        yield Row(
            f"open {scale.many} leaves of {each // 1024} KB on meta",
            lambda at=at: TensorDict.load_memmap(at, device="meta"),  # type: ignore[misc]
            "reading them",
            lambda at=at: TensorDict.load_memmap(at).clone(),  # type: ignore[misc]
            0.1,
            lambda theirs=theirs: tensordict.TensorDict.load_memmap(theirs, device="meta"),  # type: ignore[misc]
        )


def growth(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    """Opening costs what the number of leaves does, not what is in them."""

    def saved(name: str, leaves: int, each: int) -> Path:
        empty = {f"leaf{at}": torch.zeros(()).expand(each // 4) for at in range(leaves)}
        TensorDict(empty, []).memmap_like(folder / name)
        return folder / name

    def opening(place: Path) -> Call:
        return lambda: TensorDict.load_memmap(place)

    small = opening(saved("small", 20, 1000))
    for each in (scale.large // 1000, scale.large):
        name = f"open 20 leaves of {each / 1e6:g} MB"
        yield Row(name, opening(saved(f"of{each}", 20, each)), "of 1 KB", small, 1.2)
    few, many = scale.leaves // 10, scale.leaves * 10
    name = f"open {many} leaves"
    yield Row(name, opening(saved("many", many, 4)), f"{few} leaves", opening(saved("few", few, 4)), 120.0)


def groups(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    """HDF5 and zarr, beside those who write and read them by hand."""
    values = flat(scale)
    ours, peer = both(values, [scale.rows])
    what = f"{sum(value.nbytes for value in values.values()) / 1e6:.0f} MB in {scale.leaves} leaves"
    at, theirs, hand = (str(folder / name) for name in ("ours.h5", "theirs.h5", "hand.h5"))

    def write_by_hand() -> None:
        with h5py.File(hand, "w") as file:
            for key, value in values.items():
                file[key] = value.numpy()

    def open_by_hand() -> list[tuple[int, ...]]:
        with h5py.File(hand) as file:
            return [node.shape for node in file.values()]

    yield Row(
        f"HDF5: write {what}",
        lambda: ours.to_h5(at).close(),
        "h5py by hand",
        write_by_hand,
        None,
        lambda: peer.to_h5(theirs).close(),
        (at, hand, theirs),
    )
    yield Row(
        f"HDF5: open {what}",
        lambda: TensorDict.from_h5(at).close(),
        "h5py by hand",
        open_by_hand,
        None,
        lambda: tensordict.TensorDict.from_h5(theirs, batch_size=[scale.rows]).close(),
    )
    values = {"image": torch.rand(scale.mapped, 64)}
    index = torch.randperm(scale.mapped)[:256].sort().values
    ours, peer = both(values, [scale.mapped])
    name = str(folder / "rows.h5")
    ours.to_h5(name).close()
    mine, other = TensorDict.from_h5(name), tensordict.TensorDict.from_h5(name, batch_size=[scale.mapped])
    array = stack.enter_context(h5py.File(name))["image"]
    stack.callback(other.close)
    stack.callback(mine.close)
    positions = index.numpy()
    lines = (
        ("256 rows", index, positions),
        ("256 rows side by side", slice(5000, 5256), slice(5000, 5256)),
        ("all", slice(None), ...),
    )
    for told, item, by_hand in lines:
        yield Row(
            f"HDF5: read {told} of {scale.mapped}",
            lambda item=item: mine[item],  # type: ignore[misc]
            "h5py by hand",
            lambda by_hand=by_hand: array[by_hand],  # type: ignore[misc]
            None,
            lambda item=item: other[item].to_tensordict(),  # type: ignore[misc]
        )
    yield from zarrs(stack, folder, scale)


def zarrs(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    leaves = scale.leaves // 10
    values = {f"leaf{at}": torch.rand(scale.rows, 33) for at in range(leaves)}
    ours, peer = both(values, [scale.rows])
    at, theirs, hand = (str(folder / name) for name in ("ours.zarr", "theirs.zarr", "hand.zarr"))

    def write_by_hand() -> None:
        group = zarr.open_group(hand, mode="w")
        for key, value in values.items():
            group.create_array(key, data=value.numpy())

    def peers_to_zarr() -> None:
        peer.to_zarr(theirs).close()

    yield Row(
        f"zarr: write {leaves} leaves",
        lambda: ours.to_zarr(at).close(),
        "zarr by hand",
        write_by_hand,
        None,
        peers_to_zarr,
        (at, hand, theirs),
    )
    yield Row(
        f"zarr: open {leaves} leaves",
        lambda: TensorDict.from_zarr(at).close(),
        "zarr by hand",
        lambda: [node.shape for _, node in zarr.open_group(hand, mode="r").arrays()],
        None,
        lambda: tensordict.TensorDict.from_zarr(theirs, batch_size=[scale.rows]).close(),
    )


def processes(stack: ExitStack, folder: Path, scale: Scale) -> Iterator[Row]:
    """What is in files or in shared memory goes to another process without a copy."""
    values = {f"leaf{at}": torch.rand(scale.rows, 33) for at in range(scale.leaves // 10)}
    ours, peer = both(values, [scale.rows])
    mapped, peer_mapped = ours.memmap(folder / "ours"), peer.memmap(str(folder / "theirs"))
    plain = dict(values)
    yield Row(
        f"pickle {len(values)} mapped leaves, and back",
        lambda: pickle.loads(pickle.dumps(mapped)),
        "plain tensors",
        lambda: pickle.loads(pickle.dumps(plain)),
        1.0,
        lambda: pickle.loads(pickle.dumps(peer_mapped)),
    )
    context: Any = torch.multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=_answer, args=(there, back), daemon=True)
    process.start()
    stack.callback(process.join)
    stack.callback(lambda: there.put(None))

    def sent(value: Any) -> Call:
        def call() -> object:
            there.put(value)
            return back.get()

        return call

    shared = {key: value.clone().share_memory_() for key, value in values.items()}
    pair = both(values, [scale.rows])
    for form, mine, other in (
        ("mapped", mapped, peer_mapped),
        ("shared", pair[0].clone().share_memory_(), pair[1].clone().share_memory_()),
    ):
        name = f"send {len(values)} {form} leaves through a queue"
        yield Row(name, sent(mine), "shared tensors", sent(shared), None, sent(other))


def _answer(there: multiprocessing.Queue[Any], back: multiprocessing.Queue[Any]) -> None:
    torch.set_num_threads(1)
    while (value := there.get()) is not None:
        back.put(float(value["leaf0"][0, 0]))


SOURCES: tuple[Source, ...] = (files, gather, meta, growth, groups, processes)


def measure(row: Row, plan: Plan) -> Figure:
    calls = [row.ours, row.hand, *([] if row.peer is None else [row.peer])]
    if row.written:
        ours, hand, *rest = _time_writing(calls, row.written, plan)
    else:
        ours, hand, *rest = (time / 1000 for time in time_in_turns(calls, plan))
    return Figure(row.name, row.beside, ours, hand, rest[0] if rest else None, row.most)


def _time_writing(calls: Sequence[Call], written: Sequence[str], plan: Plan) -> list[float]:
    """As :func:`time_in_turns`, in milliseconds, of calls before each of which what it writes is removed."""
    minima: list[list[float]] = [[] for _ in calls]
    for _ in range(plan.blocks):
        best = [float("inf")] * len(calls)
        for turn in range(plan.rounds):
            for step in range(len(calls)):
                at = (turn + step) % len(calls)
                _remove(written[at])
                began = time.perf_counter()
                kept = calls[at]()
                best[at] = min(best[at], time.perf_counter() - began)
                del kept
        for found, smallest in zip(minima, best, strict=True):
            found.append(smallest)
    return [1000 * statistics.median(found) for found in minima]


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def header() -> str:
    return f"{'':<52}{'ours':>9}  {'beside':<16}{'ms':>9}{'ratio':>7}{'at most':>9}{'peer':>9}{'ratio':>7}"


def line(figure: Figure) -> str:
    most = "" if figure.most is None else f"{figure.most:g}" + (" " if figure.ratio <= figure.most else "!")
    peer = "" if figure.peer is None else f"{figure.peer:>9.2f}{figure.to_peer:>7.2f}"
    text = f"{figure.name:<52}{figure.ours:>9.3f}  {figure.beside:<16}{figure.hand:>9.3f}{figure.ratio:>7.2f}{most:>9}"
    return (text + peer).rstrip()


def missed(figures: list[Figure]) -> list[str]:
    """The rows whose ratio is above what it may be."""
    found: list[str] = []
    for figure in figures:
        if figure.most is not None and figure.ratio > figure.most:
            found.append(f"{figure.name}: {figure.ratio:.2f} times {figure.beside}, at most {figure.most:g}")
        if figure.to_peer is not None and figure.to_peer > NO_SLOWER:
            found.append(f"{figure.name}: {figure.to_peer:.2f} times the peer")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.storage", description="Storage beside what it is built on.")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these rows")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--folder", type=Path, metavar="PATH", help="where files are written; a temporary folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    figures: list[Figure] = []
    print(header())
    for source in SOURCES:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, ExitStack() as stack:
            for row in source(stack, Path(folder), Scale()):
                if not options.filter.search(row.name):
                    for call in (row.ours, row.hand, row.peer):  # rows that read need what others write
                        if row.name.startswith("write") and call is not None:
                            call()
                    continue
                figures.append(measure(row, QUICK if options.quick else FULL))
                print(line(figures[-1]), flush=True)
    failed = missed(figures)
    print("every target is met" if not failed else "above a target:\n" + "\n".join(f"  {text}" for text in failed))
    if options.json:
        options.json.write_text(json.dumps([figure.as_json() for figure in figures], indent=2) + "\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
