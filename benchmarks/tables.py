"""Reading files of tables, beside pyarrow's, pandas' and polars' own readers: `python -m benchmarks.tables`.

A row is one file; the columns are milliseconds, the smallest of some runs that take turns, and the ratio to pyarrow's
own reading of the file to a table. `--rows N` sets the size. "mapped" is pyarrow with `memory_map=True`, which is what
ours does by default where a format has it; of Feather it reads nothing yet then. Text becomes Python's strings when it
is asked for: "with strings" has that in the time of ours.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet

from tensorclass import TensorDict


def _with_strings(path: Path) -> Any:
    data = TensorDict.from_parquet(path) if path.suffix == ".parquet" else TensorDict.from_feather(path)
    return data, [data.get(key).tolist() for key in ("kind", "id") if key in data]


READERS: dict[str, tuple[Callable[[Path], Any] | None, ...]] = {
    "parquet": (
        pa.parquet.read_table,
        lambda path: pa.parquet.read_table(path, memory_map=True),
        TensorDict.from_parquet,
        _with_strings,
        pd.read_parquet,
        pl.read_parquet,
    ),
    "feather": (
        pa.feather.read_table,
        lambda path: pa.feather.read_table(path, memory_map=True),
        TensorDict.from_feather,
        _with_strings,
        pd.read_feather,
        pl.read_ipc,
    ),
    "csv": (pa.csv.read_csv, None, TensorDict.from_csv, None, pd.read_csv, pl.read_csv),
    "json": (
        pa.json.read_json,
        None,
        lambda path: TensorDict.from_json(path, lines=True),
        None,
        lambda path: pd.read_json(path, lines=True),
        pl.read_ndjson,
    ),
}
NAMES = ("pyarrow", "mapped", "tensorclass", "with strings", "pandas", "polars")


def numbers(rows: int) -> pa.Table:
    """Twelve columns of numbers."""
    rng = np.random.default_rng(0)
    columns = {f"f{i}": rng.standard_normal(rows).astype("f4" if i % 2 else "f8") for i in range(8)}
    return pa.table(columns | {f"i{i}": rng.integers(0, 1000 * 10**i, rows) for i in range(4)})


def text(rows: int) -> pa.Table:
    """Ten columns of numbers and two of text: one that repeats some, one that is another in each row."""
    table = numbers(rows).select(range(10))
    table = table.append_column("kind", pa.array([f"kind {i % 1000}" for i in range(rows)]))
    return table.append_column("id", pa.array([f"id-{i}" for i in range(rows)]))


def write(table: pa.Table, kind: str, path: Path) -> None:
    if kind == "parquet":
        pa.parquet.write_table(table, path)
    elif kind == "feather":
        pa.feather.write_feather(table, str(path), compression="uncompressed")
    elif kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        pl.from_arrow(table).write_ndjson(path)  # type: ignore[union-attr]


def times(calls: tuple[Callable[[Path], Any] | None, ...], path: Path, runs: int) -> list[float | None]:
    """The seconds that each call takes at best; they take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(runs):
        for position, call in enumerate(calls):
            if call is None:
                continue
            began = time.perf_counter()
            kept = call(path)
            best[position] = min(best[position], time.perf_counter() - began)
            del kept
    return [None if call is None else one for call, one in zip(calls, best, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.tables", description="Reading files of tables.")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, metavar="N", help="of Parquet and Feather; others a fifth"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is read")
    options = parser.parse_args()
    print(f"{'ms to read':<22}{'rows':>9}" + "".join(f"{name:>18}" for name in NAMES))
    with tempfile.TemporaryDirectory() as folder:
        for kind, calls in READERS.items():
            rows = options.rows if kind in ("parquet", "feather") else options.rows // 5
            for name, make in (("numbers", numbers), ("with text", text)):
                path = Path(folder) / f"{name}.{kind}"
                write(make(rows), kind, path)
                seconds = times(calls, path, options.runs)
                own = seconds[0] or 1.0
                cells = "".join(
                    f"{'':>18}" if one is None else f"{1000 * one:>11.1f} {one / own:>5.2f}x" for one in seconds
                )
                print(f"{kind + ', ' + name:<22}{rows:>9}{cells}", flush=True)
                path.unlink()


if __name__ == "__main__":
    main()
