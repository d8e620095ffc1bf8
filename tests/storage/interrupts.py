"""Writers with a fault at every point: ``python -m tests.storage.interrupts --all``.

Each writer writes a version over another one, again and again, each time with Ctrl-C at another line of the package, or
with an error of another call of the system. After each, the old version is there or the new one, whole; nothing is held
that was not before; the next writer succeeds, and leaves no draft.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import faulthandler
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tensorclass import (
    MemoryMappedTensor,
    Ragged,
    TensorDict,
    Text,
    pack_memmap,
    refresh_archive_checksums,
    unpack_memmap,
)
from tensorclass.storage import FileError
from tensorclass.support.atomic import swapped_folder, whole_file, whole_folder, whole_path
from tests.interrupting import Held, Outcome, failing, interrupted
from tests.storage.formats import FORMATS
from tests.storage.kills import forked

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EINTR": errno.EINTR}
FAULTS = ("SIGINT", *ERRORS)
PATIENCE = 30.0  #: seconds in which other threads may let go of what they hold
SECONDS = 120  #: that one writer with one fault may take


class Writer(NamedTuple):
    """How a version is written, and told."""

    write: Callable[[Path, int], object]  #: a number, to a path, where another may be
    read: Callable[[Path], int]  #: the number that is found; an error where two are mixed
    #: what is done before ``write``, and is not disturbed: gets the version that is there, and the next one
    begin: Callable[[Path, int, int], object] | None = None


class Problem(Exception):
    """A promise was not kept."""

    counts: Counter[str] = Counter()


# -- versions ---------------------------------------------------------------------------------------------------------


def version(number: int, rows: int = 2) -> TensorDict:
    """A small collection in which every value is the same number."""
    below = TensorDict({"y": torch.full((rows, 2), float(number)), "text": f"text {number}"}, [rows])
    return TensorDict(
        {
            "x": torch.full((rows,), number),
            "below": below,
            "rows": [f"row {number}"] * rows,
            "note": Text([f"{number}" * (row + 1) for row in range(rows)]),
            "tokens": Ragged([[number] * (row + 1) for row in range(rows)]),
            "empty": torch.ones(rows, 0),
        },
        [rows],
    )


def number_of(data: Any) -> int:
    """Which version it is; a mixture is an error."""
    found: set[int] = {int(value) for value in data["x"].unique()} | {
        int(value) for value in data["below", "y"].unique()
    }
    found.add(int(data["below", "text"].removeprefix("text ")))
    found |= {int(row.removeprefix("row ")) for row in data["rows"]}
    for at, row in enumerate(data["note"].tolist()):
        number = row[: len(row) // (at + 1)]
        found.add(int(number) if row == number * (at + 1) else -1)
    for at, items in enumerate(data["tokens"].tolist()):
        found |= {int(item) for item in items} if len(items) == at + 1 else {-1}
    return only(found)


def only(found: set[int]) -> int:
    """The number of which there is one."""
    if len(found) != 1:
        raise Problem(f"a mixture of the versions {found}")
    return found.pop()


def numbers(number: int, rows: int = 2) -> TensorDict:
    """A version of tensors alone."""
    return TensorDict({"x": torch.full((rows,), number), "y": torch.full((rows,), float(number))}, [rows])


def number_in(data: Any) -> int:
    """Which version of tensors it is."""
    return only({int(value) for key in ("x", "y") for value in data[key].unique()})


# -- writers ----------------------------------------------------------------------------------------------------------


def _saved(form: str) -> Writer:
    known = FORMATS[form]
    return Writer(lambda path, number: known.save(version(number), path), lambda path: number_of(known.load(path)))


def _text(path: Path, number: int) -> None:
    with whole_file(path) as file:
        file.write(b"%d" % number)


def _draft(path: Path, number: int) -> None:
    with whole_path(path) as draft:
        draft.write_text(str(number))


def _folder(writer: Any) -> Writer:
    def write(path: Path, number: int) -> None:
        with writer(path) as draft:
            (draft / "a").write_text(str(number))

    return Writer(write, lambda path: int((path / "a").read_text()))


def number_of_rows(data: Any) -> int:
    """Which version the tensors are of."""
    return only({int(value) for key in ("x", ("below", "y")) for value in data[key].unique()})


def _begin_rows(path: Path, number: int, next: int) -> None:
    data = version(number)
    del data["below", "text"]
    data.memmap(path)


def _append(path: Path, number: int) -> None:
    data = version(number, 1)
    del data["below", "text"]
    TensorDict.append_memmap(path, data)


def _read_rows(path: Path) -> int:
    data = TensorDict.load_memmap(path)
    if data.batch_size[0] not in (2, 3):
        raise Problem(f"expected 2 rows or 3, found {data.batch_size}")
    first, last = number_of_rows(data[:2]), number_of_rows(data[2:] if data.batch_size[0] == 3 else data[:2])
    wanted = [f"row {first}"] * 2 + [f"row {last}"] * (data.batch_size[0] - 2)
    if list(data["rows"]) != wanted:
        raise Problem(f"found the rows {list(data['rows'])}, expected {wanted}")
    notes, tokens = [f"{first}", f"{first}" * 2, f"{last}"], [[first], [first] * 2, [last]]
    count = data.batch_size[0]
    if data["note"].tolist() != notes[:count] or data["tokens"].tolist() != tokens[:count]:
        raise Problem(f"found {data['note'].tolist()} and {data['tokens'].tolist()}")
    return last


def _table(form: str, **options: Any) -> Writer:
    def write(path: Path, number: int) -> None:
        getattr(numbers(number), f"to_{form}")(path, **options)

    return Writer(write, lambda path: number_in(getattr(TensorDict, f"from_{form}")(path)))


def _zipped() -> Writer:
    table = _table("csv")
    return Writer(
        lambda path, number: table.write(path.with_suffix(".csv.gz"), number),
        lambda path: table.read(path.with_suffix(".csv.gz")),
    )


def _scores() -> Writer:
    from tensorclass.scores import ExactMatchScoreData, load_scores, save_scores

    def write(path: Path, number: int) -> None:
        save_scores(ExactMatchScoreData(torch.full((2,), number / 1000), batch_size=[2]), path)

    def read(path: Path) -> int:
        found: Any = load_scores(path)
        return only({round(float(value) * 1000) for value in found.exact_match})

    return Writer(write, read)


def _stubs() -> Writer:
    from tensorclass.typing.stubs.stubs_command import run

    def write(path: Path, number: int) -> None:
        source = path.with_name("source")
        source.mkdir(exist_ok=True)
        (source / "made.py").write_text(
            f"from tensorclass import tensorclass\n\n@tensorclass\nclass R{number}:\n    x: int\n"
        )
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            failed = run(Namespace(targets=[str(source / "made.py")], out=str(path), check=False))
        if failed:
            raise OSError(told.getvalue())

    def read(path: Path) -> int:
        (text,) = [file.read_text() for file in path.rglob("*.pyi")]
        return int(text.split("class R")[1].split("(")[0].split(":")[0])

    return Writer(write, read)


def _packed() -> Writer:
    def begin(path: Path, number: int, next: int) -> None:
        version(next).memmap(path.with_name("source"))

    def write(path: Path, number: int) -> None:
        pack_memmap(path.with_name("source"), path)

    return Writer(write, lambda path: number_of(TensorDict.load_memmap(path)), begin)


def _unpacked() -> Writer:
    def begin(path: Path, number: int, next: int) -> None:
        version(next).memmap(path.with_name("source"), archive=True)

    def write(path: Path, number: int) -> None:
        unpack_memmap(path.with_name("source"), path)

    return Writer(write, lambda path: number_of(TensorDict.load_memmap(path)), begin)


def _new_key(folder: bool) -> Writer:
    """Of a key that is made in a folder, alone or in a new collection, and then filled."""
    key = ("below", "new") if folder else ("new",)

    def write(path: Path, number: int) -> None:
        TensorDict.load_memmap(path).lock_().make_memmap(key, [2], dtype=torch.int64).fill_(number)

    def read(path: Path) -> int:
        data = TensorDict.load_memmap(path)
        number, made = number_in(data), data.get(key, None)
        filled = 0 if made is None else only({int(value) for value in made})
        if folder and made is None and "below" in data and not data["below"].is_empty():
            raise Problem(f"found {data['below']}")
        return filled or number

    return Writer(write, read, lambda path, number, next: numbers(number).memmap(path))


def _refreshed_archive() -> Writer:
    """Of checksums in an archive whose values were changed."""

    def begin(path: Path, number: int, next: int) -> None:
        numbers(number).memmap(path, archive=True)
        data = TensorDict.load_memmap(path, mode="r+")
        for key in ("x", "y"):
            data[key].fill_(next)

    def write(path: Path, number: int) -> None:
        refresh_archive_checksums(path)
        with zipfile.ZipFile(path) as found:
            if (wrong := found.testzip()) is not None:
                raise Problem(f"the checksum of {wrong} is not refreshed")

    return Writer(write, lambda path: number_in(TensorDict.load_memmap(path)), begin)


def _refreshed() -> Writer:
    """Of a collection in memory, whose folder another one has taken."""
    held: list[Any] = []

    def begin(path: Path, number: int, next: int) -> None:
        version(number).memmap(path)
        held[:] = [TensorDict.load_memmap(path)]
        version(next).memmap(path)

    def write(path: Path, number: int) -> None:
        held[0].memmap_refresh_()

    return Writer(write, lambda path: number_of(held.pop()), begin)


def _saved_by_command() -> Writer:
    from tensorclass.cli import _parser
    from tensorclass.scores import load_scores
    from tensorclass.scores.scores_command import run

    given = vars(_parser().parse_args(["scores", "log", "--json", "--seed", "0"]))  # with the default of each option

    def write(path: Path, number: int) -> None:
        rows = [
            {
                "doc_id": at,
                "doc": {"question": f"question {at}"},
                "target": "1",
                "arguments": {"gen_args_0": {"arg_0": "question"}},
                "resps": [["response"]],
                "filtered_resps": ["response"],
                "filter": "none",
                "metrics": ["exact_match"],
                "doc_hash": f"{at:064x}",
                "exact_match": number / 10_000,
            }
            for at in range(2)
        ]
        log = path.with_name("samples_task.jsonl")
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = run(Namespace(**{**given, "files": [str(log)], "save": str(path)}))
        if code == 130:
            raise KeyboardInterrupt
        if code:
            raise OSError(told.getvalue())

    def read(path: Path) -> int:
        (file,) = path.glob("*.pt")
        scores: Any = load_scores(file)
        text = json.loads((path / "scores.json").read_text())
        if not text:
            raise Problem("scores.json is empty")
        return only({round(float(value) * 10_000) for value in scores.exact_match})

    return Writer(write, read)


def _opened(form: str) -> Writer:
    """Of an open file that is written to: there a row is new or old, and each value of it by itself."""
    known = FORMATS[form]
    opens: Any = {"h5": TensorDict.from_h5, "zarr": TensorDict.from_zarr}[form]

    def data(number: int) -> TensorDict:
        return TensorDict({"kept": torch.ones(2), "x": torch.full((2,), number), "text": f"text {number}"}, [2])

    def begin(path: Path, number: int, next: int) -> None:
        data(number).to_h5(path, resizable=True).close() if form == "h5" else data(number).to_zarr(path).close()

    def write(path: Path, number: int) -> None:
        held = opens(path, mode="r+")
        try:
            held["x"] = torch.full((2,), number)
            held["text"] = f"text {number}"
            if form == "h5":
                row = torch.full((1,), number)
                held.extend(TensorDict({"kept": torch.ones(1), "x": row, "text": f"text {number}"}, [1]))
            held["new"] = torch.full(held.batch_size, number)
        finally:
            held.close()

    def read(path: Path) -> int:
        found = known.load(path)
        if set(found["kept"].tolist()) != {1.0}:
            raise Problem(f"what was not written to is {found['kept']}")
        number = only({int(value) for value in found["x"]})
        texts = only({int(value.removeprefix("text ")) for value in set(_texts(found["text"]))})
        if texts > number or ("new" in found and only({int(value) for value in found["new"]}) > number):
            raise Problem(f"beside {number} found the text {texts}, and {found.get('new', None)}")
        return number

    return Writer(write, read, begin)


def _texts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _mapped_file() -> Writer:
    def write(path: Path, number: int) -> None:
        MemoryMappedTensor.from_tensor(torch.full((3,), number), filename=path, existsok=True)

    def read(path: Path) -> int:
        found = MemoryMappedTensor.from_filename(path, torch.int64, (3,))
        return only({int(value) for value in found})

    return Writer(write, read)


def _threads() -> Writer:
    def write(path: Path, number: int) -> None:
        version(number).memmap(path, num_threads=2)

    return Writer(write, lambda path: number_of(TensorDict.load_memmap(path)))


WRITERS: dict[str, Callable[[], Writer]] = {
    "whole_file": lambda: Writer(_text, lambda path: int(path.read_text())),
    "whole_path": lambda: Writer(_draft, lambda path: int(path.read_text())),
    "whole_folder": lambda: _folder(whole_folder),
    "swapped_folder": lambda: _folder(swapped_folder),
    **{form: (lambda form=form: _saved(form)) for form in FORMATS},  # type: ignore[misc]
    "folder, threads": _threads,
    "mapped file": _mapped_file,
    "append": lambda: Writer(_append, _read_rows, _begin_rows),
    "open h5": lambda: _opened("h5"),
    "open zarr": lambda: _opened("zarr"),
    "new key": lambda: _new_key(folder=False),
    "new folder": lambda: _new_key(folder=True),
    "refresh": _refreshed,
    "checksums": _refreshed_archive,
    "scores --save": _saved_by_command,
    "pack": _packed,
    "unpack": _unpacked,
    "parquet": lambda: _table("parquet"),
    "feather": lambda: _table("feather"),
    "csv": lambda: _table("csv"),
    "csv.gz": _zipped,
    "json": lambda: _table("json"),
    "scores": _scores,
    "stubs": _stubs,
}


# -- faults -----------------------------------------------------------------------------------------------------------


class Bench:
    """A place, a writer, and the version that is there."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.path = folder / "saved"
        self.writer = WRITERS[name]()
        self.folder = folder
        self.number = 1
        if self.writer.begin is None:
            self.writer.write(self.path, 1)
        for number in (2, 3):  # what is imported, and kept for the next time, is there
            self._begun(number - 1, number)
            self.writer.write(self.path, number)
            self.check(number)
        self.number = 3
        self.kept = sorted(os.listdir(folder))

    def _begun(self, number: int, next: int) -> None:
        if self.writer.begin is not None:
            self.writer.begin(self.path, number, next)

    def check(self, *allowed: int) -> int:
        found = self.writer.read(self.path)
        if found not in allowed:
            raise Problem(f"found the version {found}, expected one of {allowed}")
        return found

    def fault(self, kind: str, at: int) -> tuple[Outcome, list[str]]:
        """Write a version with a fault at a point, and one without; what is wrong, in words."""
        old, new = self.number, self.number + 1
        self._begun(old, new)
        problems: list[str] = []
        before = Held.now()
        work = lambda: self.writer.write(self.path, new)
        outcome = interrupted(work, at) if kind == "SIGINT" else failing(work, at, ERRORS[kind])
        outcome = outcome._replace(result=None)
        problems += outcome.noticed
        wanted = KeyboardInterrupt if kind == "SIGINT" else (OSError, FileError)
        if outcome.error is None:
            if kind == "SIGINT" and outcome.is_lost:
                problems.append("the interrupt was lost")
        elif outcome.where is None or not isinstance(outcome.error, wanted):
            problems.append(f"raised {outcome.error!r}")
        try:
            found = self.check(*([new] if outcome.error is None else [old, new]))
        except Exception as error:
            problems.append(f"then cannot be read: {type(error).__name__}: {error}")
            found = old
        problems += _held_since(before)
        left = sorted(set(os.listdir(self.folder)) - set(self.kept))
        if left and kind == "SIGINT":
            problems.append(f"leaves {left}")
        self.number = new + 1
        try:
            self._begun(found, self.number)
            self.writer.write(self.path, self.number)
            self.check(self.number)
        except Exception as error:
            problems.append(f"then cannot be written: {type(error).__name__}: {error}")
        if left := sorted(set(os.listdir(self.folder)) - set(self.kept)):
            problems.append(f"the next one leaves {left}")
            for name in left:
                place = self.folder / name
                shutil.rmtree(place) if place.is_dir() else place.unlink()
        return outcome, problems


def _held_since(before: Held) -> list[str]:
    """What is held after a moment: threads of pyarrow let go of a file that they have read a little later."""
    end = time.monotonic() + PATIENCE
    while (found := Held.now().beyond(before)) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def sampled(count: int, samples: int | None, rng: random.Random) -> list[int]:
    """Points of 1 to a count: all, or some, one of each stretch of them."""
    if samples is None or samples >= count:
        return list(range(1, count + 1))
    return sorted(rng.randrange(count * at // samples, count * (at + 1) // samples) + 1 for at in range(samples))


def run(
    name: str,
    folder: Path,
    faults: tuple[str, ...] = FAULTS,
    samples: int | None = None,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
) -> Counter[str]:
    """Count the outcomes of faults of a writer.

    Args:
        name: the writer.
        folder: an empty folder to write to.
        faults: the kinds of faults.
        samples: the number of points of each kind; all by default.
        seed: for drawing points.
        share: ``(k, n)`` takes every n-th of the points, from the k-th.

    Raises:
        Problem: a promise was not kept, with all that was found.
    """
    rng, counts, found = random.Random(seed), Counter[str](), dict[str, int]()
    bench = Bench(name, folder)
    for kind in faults:
        outcome, problems = bench.fault(kind, 0)
        if problems:
            raise Problem(f"{name}: without a fault: {problems}")
        for at in sampled(outcome.count + 5, samples, rng)[share[0] :: share[1]]:
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            outcome, problems = bench.fault(kind, at)
            faulthandler.cancel_dump_traceback_later()
            counts[kind if outcome.where else "beyond the end"] += 1
            for problem in problems:
                text = f"{kind} at {outcome.where}: {problem}"
                found[text] = found.get(text, 0) + 1
    if found:
        problem = Problem(f"{name}: {len(found)} problems:\n" + "\n".join(found))
        problem.counts = counts
        raise problem
    return counts


def results(
    names: list[str], faults: tuple[str, ...], samples: int | None, seed: int, share: tuple[int, int] = (0, 1)
) -> Iterator[dict[str, Any]]:
    """Run :func:`run` for each writer, each in a process of its own, and yield the counts."""
    for name in names:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            place, told = Path(folder) / "files", Path(folder) / "told"
            place.mkdir()

            def work(name: str = name, place: Path = place, told: Path = told) -> None:
                signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what runs behind
                try:
                    said: dict[str, Any] = dict(run(name, place, faults, samples, seed, share))
                except Problem as problem:
                    said = {**problem.counts, "problem": str(problem)}
                told.write_text(json.dumps(said))

            _, status = os.waitpid(forked(work), 0)
            said = json.loads(told.read_text()) if told.exists() else {"problem": f"{name}: ended with {status}"}
        yield {"writer": name, **said, "seconds": round(time.monotonic() - start)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="all points; otherwise --samples of each kind")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--writer", action="append", choices=list(WRITERS), help="all by default")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", default="0/1", help="1/4 is the second of four parts, which can run side by side")
    options = parser.parse_args()
    part, parts = map(int, options.share.split("/"))
    torch.set_num_threads(1)  # a process with threads must not fork
    failed = False
    for said in results(
        options.writer or list(WRITERS),
        tuple(options.fault or FAULTS),
        None if options.all else options.samples,
        options.seed,
        (part, parts),
    ):
        problem = said.pop("problem", None)
        print(json.dumps(said), flush=True)
        if problem is not None:
            failed = True
            print(problem, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
