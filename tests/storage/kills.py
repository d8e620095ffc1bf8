"""Writers that are killed at random moments: ``python -m tests.storage.kills --kills 1000 --readers 1``.

A process saves a collection over the one before, again and again, and is killed by a signal that it cannot catch. After
each kill the path must load as one of the versions, whole; it may be missing only as long as none was saved. With
``--readers`` processes that load all the time: all that they see must be whole, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from tensorclass import TensorDict
from tensorclass.storage.hdf5_zarr.array_backend import Replaced
from tensorclass.support import atomic
from tests.storage.formats import FORMATS

LEAVES = 12


def version(number: int) -> TensorDict:
    """A collection in which every value is the same number, in as many files as a writer can be killed between."""
    tensors = {f"x{at}": torch.full((50, at + 1), number) for at in range(LEAVES)}
    below = {"y": torch.full((50, 200), float(number)), "text": f"text {number}"}
    return TensorDict({**tensors, "below": below, "rows": [f"row {number}"] * 50}, [50])


def number_of(data: TensorDict) -> int:
    """Which version it is; a mixture is an error."""
    found: set[int] = {int(value) for at in range(LEAVES) for value in data[f"x{at}"].unique()}
    found |= {int(value) for value in data["below", "y"].unique()}
    found.add(int(data["below", "text"].removeprefix("text ")))
    found |= {int(row.removeprefix("row ")) for row in data["rows"]}
    if len(found) != 1:
        raise AssertionError(f"a mixture of the versions {found}")
    return found.pop()


def forked(work: Callable[[], None]) -> int:
    """A process that does the work and no more; importing torch again for each would take seconds."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def write_for_ever(form: str, path: Path, first: int) -> None:
    """What the process does that is killed."""
    while True:
        FORMATS[form].save(version(first), path)
        first += 1


def read_for_ever(form: str, path: Path, stop: Path) -> None:
    """Reads until a file is there, and writes to it how often it saw a whole version, and how many."""
    seen: set[int] = set()
    count = 0
    while not stop.exists():
        try:
            seen.add(number_of(FORMATS[form].load(path)))
        except Replaced:  # of a zarr folder: it says so, and another attempt reads the new one
            continue
        count += 1
    with stop.open("a") as file:
        file.write(f"{count} {len(seen)}\n")


def run(kills: int, form: str, place: Path, readers: int = 0, seed: int = 0) -> Counter[str]:
    """Kills writers, looks at what they leave, and counts it.

    Args:
        kills: how many.
        form: the format.
        place: a folder, in which nothing else is.
        readers: how many processes read meanwhile.
        seed: of the moments, at which a writer has begun, or has written several times.
    """
    rng = random.Random(seed)
    place, stop = place / "files", place / "stop"
    place.mkdir()
    path, results = place / "saved", Counter[str]()
    last = 1
    FORMATS[form].save(version(last), path)
    start = time.monotonic()
    FORMATS[form].save(version(last), path)
    seconds = min(0.5, 3 * (time.monotonic() - start))
    watching = [forked(lambda: read_for_ever(form, path, stop)) for _ in range(readers)]
    for _ in range(kills):
        first = last + 1
        writer = forked(lambda first=first: write_for_ever(form, path, first))
        time.sleep(rng.random() * seconds)
        os.kill(writer, signal.SIGKILL)
        _, status = os.waitpid(writer, 0)
        if not os.WIFSIGNALED(status):
            raise AssertionError("a writer could not write")
        if atomic._renameat2 is None and not path.exists():  # what was set aside comes back with the next writer
            FORMATS[form].save(version(last), path)
            results["put back"] += 1
        found = number_of(FORMATS[form].load(path))
        results["new" if found > last else "old"] += 1
        if found < last:
            raise AssertionError(f"version {found} came back after {last}")
        last = found
        left = [name for name in os.listdir(place) if name != "saved"]
        results["drafts left"] += len(left)
        if len(left) > 1:
            raise AssertionError(f"drafts of writers that are dead stay: {left}")
    stop.touch()
    for reader in watching:
        _, status = os.waitpid(reader, 0)
        if status:
            raise AssertionError("a reader has seen what is not whole")
    for line in stop.read_text().splitlines():
        count, versions = line.split()
        results["read"] += int(count)
        results["versions read"] += int(versions)
    FORMATS[form].save(version(last), path)
    assert os.listdir(place) == ["saved"], os.listdir(place)
    return results


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="all by default")
    parser.add_argument("--readers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-exchange", action="store_true", help="as where folders cannot be exchanged in one step")
    options = parser.parse_args()
    torch.set_num_threads(1)  # a process with threads must not fork
    if options.no_exchange:
        atomic._renameat2 = None
    for form in options.format or list(FORMATS):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = run(options.kills, form, Path(folder), options.readers, options.seed)
        print(json.dumps({"format": form, **found, "seconds": round(time.monotonic() - start)}), flush=True)


if __name__ == "__main__":
    main()
