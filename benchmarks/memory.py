"""What reading a large source costs in memory: `python -m benchmarks.memory [--filter REGEX] [--megabytes N]`

A source that is read without a copy must not make the process larger: neither by its size in memory, nor by a file that
was only to be mapped. Each reading runs in a fresh interpreter, which prints its resident set before and after, and the
largest it had meanwhile, so that a copy that was thrown away again is seen too. Linux only: it reads `/proc/self`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import REPOSITORY

#: how much larger the process may become by reading without a copy, in MB
LIMIT = 50

PROBE = """
def resident(entry="VmRSS"):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(entry))

def measured(read):
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the largest resident set counts from here
    before = resident()
    result = read()
    print(before, resident(), resident("VmHWM"))
    return result
"""


@dataclass(frozen=True)
class Reading:
    """A source and how it is read, as scripts that find `folder` and `size`, the number of bytes that it shall have.

    `write` puts the source into the folder, once for all readings that have the same; `open` makes what is there before
    the measurement, and `read` is one expression. `warm` runs first, so that imports are not counted.
    """

    name: str
    write: str
    open: str
    read: str
    warm: str = ""
    #: a reading that copies is there to compare with; it has no limit
    copies: bool = False

    def measure(self, folder: Path, size: int) -> tuple[int, int, int]:
        """The resident set before and after, and the largest one meanwhile, in bytes."""
        given = f"import gc, pathlib\nfolder = pathlib.Path({str(folder)!r})\nsize = {size}\n"
        _run(given + self.write)
        printed = _run(f"{given}{PROBE}\n{self.warm}\n{self.open}\nkept = measured(lambda: {self.read})")
        before, after, largest = map(int, printed.split())
        return before, after, largest


def _run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a measurement failed:\n{script}\n{done.stderr}")
    return done.stdout


ARRAY_FILE = """
import numpy as np
dtype = np.dtype({dtype!r})
path = folder / "{name}.npy"
if not path.exists():
    array = np.lib.format.open_memmap(path, "w+", dtype, (size // dtype.itemsize,))
    for start in range(0, len(array), 1 << 20):
        array[start : start + (1 << 20)] = np.ones((), dtype)
    array.flush()
"""
ALIGNED = [("a", "f8"), ("b", "f4"), ("c", "i4"), ("d", "f4", (4,))]
PACKED = [("flag", "u1"), ("a", "f8"), ("b", "f4"), ("c", "i4"), ("d", "f4", (4,))]
WARM = """
import numpy as np
from tensorclass import TensorDict
dtype = {dtype!r}
TensorDict.from_struct_array(np.zeros(8, dtype))[2:4].clone()
"""


def _arrays(name: str, dtype: list[tuple[object, ...]]) -> tuple[Reading, ...]:
    write, warm = ARRAY_FILE.format(name=name, dtype=dtype), WARM.format(dtype=dtype)
    mapped = f'source = np.load(folder / "{name}.npy", mmap_mode="r+")'
    in_memory = "source = np.ones(size // np.dtype(dtype).itemsize, dtype)"
    read = "TensorDict.from_struct_array(source)"
    return (
        Reading(f"structured array in memory, {name}", "", in_memory, read, warm),
        Reading(f"structured array in a mapped file, {name}", write, mapped, read, warm),
        Reading(f"1000 rows of an array in a mapped file, {name}", write, mapped, f"{read}[5000:6000].clone()", warm),
    )


FEATHER_FILE = """
import numpy as np
import pyarrow as pa
path = folder / "numbers.feather"
if not path.exists():
    column = pa.array(np.ones(size // 16))
    table = pa.table({"a": column, "b": column})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
"""
PARQUET_FILE = """
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
path = folder / "numbers.parquet"
if not path.exists():
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for start in range(0, size // 16, 1 << 20):
            column = pa.array(np.random.default_rng(start).standard_normal(min(1 << 20, size // 16 - start)))
            file.write_table(pa.table({"a": column, "b": column}))
"""
WARM_FILES = """
import io
from tensorclass import TensorDict
for kind in ("parquet", "feather"):
    file = io.BytesIO()
    getattr(TensorDict({"a": [1.0]}, [1]), f"to_{kind}")(file)
    file.seek(0)
    for _ in getattr(TensorDict, f"iter_{kind}")(file, batch_size=1):
        pass
"""
BATCHES = "sum(len(batch) for batch in TensorDict.iter_{kind}(folder / 'numbers.{kind}', batch_size=4096))"


READINGS: tuple[Reading, ...] = (
    Reading("Feather file", FEATHER_FILE, "", "TensorDict.from_feather(folder / 'numbers.feather')", WARM_FILES),
    Reading("Parquet file, in batches", PARQUET_FILE, "", BATCHES.format(kind="parquet"), WARM_FILES),
    *_arrays("aligned", ALIGNED),
    *_arrays("packed", PACKED),
    Reading(
        "structured array in memory, copied",
        "",
        "source = np.ones(size // np.dtype(dtype).itemsize, dtype)",
        "TensorDict.from_struct_array(source).clone()",
        WARM.format(dtype=ALIGNED),
        copies=True,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description="Memory that reading large sources takes.")
    parser.add_argument(
        "--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these readings"
    )
    parser.add_argument("--megabytes", type=int, default=1000, metavar="N", help="the size of each source")
    options = parser.parse_args()
    chosen = [reading for reading in READINGS if options.filter.search(reading.name)]
    if not chosen:
        parser.error(f"no reading's name matches {options.filter.pattern!r}")

    print(f"{'MB':<52}{'source':>9}{'before':>9}{'after':>9}{'more':>9}{'at most':>9}")
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for reading in chosen:
            before, after, largest = (n / 1e6 for n in reading.measure(Path(folder), options.megabytes * 1_000_000))
            row = f"{before:>9.0f}{after:>9.0f}{after - before:>9.1f}{largest - before:>9.1f}"
            print(f"{reading.name:<52}{options.megabytes:>9}{row}", flush=True)
            if not reading.copies and largest - before >= LIMIT:
                failed.append(reading.name)
    print(f"without a copy, reading takes less than {LIMIT} MB: {'no: ' + ', '.join(failed) if failed else 'yes'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
