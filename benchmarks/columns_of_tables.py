"""Text and token lists of tables, beside pyarrow: `python -m benchmarks.columns_of_tables`.

Reading: a Parquet file of texts, and one of token lists, to a collection and to pyarrow's table; milliseconds, the
smallest of some runs that take turns, and the ratio. Memory, in MB: the buffers of pyarrow's table of texts, and all
that a Text of the same file holds, in Arrow's pool and in torch.

`--rows N` sets the size of files, `--texts N` the number of texts in memory, `--length N` their mean length.
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tensorclass import TensorDict, Text


def texts(rows: int, length: int) -> pa.Array:
    """Strings of letters, each another one, of a mean length."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(length // 2, length * 3 // 2, rows)
    offsets = np.concatenate(([0], sizes.cumsum())).astype("i4")
    letters = rng.integers(97, 123, offsets[-1], dtype=np.uint8)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def tokens(rows: int) -> pa.Array:
    """Lists of 0 to 100 token numbers."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate(([0], rng.integers(0, 100, rows).cumsum())).astype("i4")
    return pa.ListArray.from_arrays(offsets, rng.integers(0, 50_000, offsets[-1]))


def compared(calls: tuple[Callable[[], Any], ...], runs: int) -> list[float]:
    """The seconds that each call takes at best; they take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(runs):
        for position, call in enumerate(calls):
            began = time.perf_counter()
            kept = call()
            best[position] = min(best[position], time.perf_counter() - began)
            del kept
    return best


def reading(rows: int, length: int, runs: int) -> None:
    print(f"{'ms to read':<34}{'rows':>9}{'pyarrow':>10}{'tensorclass':>13}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, column in (("texts", texts(rows, length)), ("token lists", tokens(rows))):
            path = Path(folder) / f"{name}.parquet"
            pa.parquet.write_table(pa.table({"column": column}), path)
            own, ours = compared(
                (lambda path=path: pa.parquet.read_table(path), lambda path=path: TensorDict.from_parquet(path)), runs
            )
            print(
                f"{'Parquet, ' + name:<34}{rows:>9}{1e3 * own:>10.1f}{1e3 * ours:>13.1f}{ours / own:>7.2f}", flush=True
            )


def memory(rows: int, length: int) -> None:
    """Print the bytes of a column of texts: the buffers of a table of pyarrow, and the buffer and spans of a Text."""
    print(f"{'MB of texts':<34}{'rows':>9}{'pyarrow':>10}{'tensorclass':>13}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.parquet"
        pa.parquet.write_table(pa.table({"column": texts(rows, length)}), path)
        own = pa.parquet.read_table(path).nbytes
        gc.collect()
        before = pa.total_allocated_bytes()
        text = TensorDict.from_parquet(path)["column"]
        assert isinstance(text, Text)
        held = pa.total_allocated_bytes() - before  # what Arrow keeps for the buffer, if the Text shares it
        ours = max(held, text.values.untyped_storage().nbytes()) + text.spans.untyped_storage().nbytes()
    label = f"texts of {length} bytes"
    print(f"{label:<34}{rows:>9}{own / 1e6:>10.1f}{ours / 1e6:>13.1f}{ours / own:>7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.columns_of_tables", description="Text and lists of tables.")
    parser.add_argument("--rows", type=int, default=200_000, metavar="N", help="of the files that are timed")
    parser.add_argument("--texts", type=int, default=1_000_000, metavar="N", help="in memory")
    parser.add_argument("--length", type=int, default=100, metavar="N", help="mean number of bytes of a text")
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="how often each is read")
    options = parser.parse_args()
    reading(options.rows, options.length, options.runs)
    memory(options.texts, options.length)


if __name__ == "__main__":
    main()
