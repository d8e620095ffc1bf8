"""Operations on rows beside polars, on the same cores: ``python -m benchmarks.relational [--rows N]``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.columns_of_tables import compared
from tensorclass import TensorDict, Text

#: milliseconds of ours over polars', at most
GOALS = {"filter": 2.0, "sort": 2.0, "group": 4.0}


def workloads(rows: int) -> list[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Return pairs of ours and polars' by name."""
    import polars as pl

    generator = torch.Generator().manual_seed(0)
    few = torch.randint(1000, (rows,), generator=generator)
    many = torch.randint(rows, (rows,), generator=generator)
    wide = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    x = torch.rand(rows, generator=generator)
    y = torch.rand(rows, generator=generator, dtype=torch.float64)
    words = [f"word {code}" for code in few.tolist()]
    data = TensorDict({"few": few, "many": many, "wide": wide, "x": x, "y": y, "word": Text(words)}, [rows])
    table = pl.DataFrame({key: data[key].numpy() for key in ("few", "many", "wide", "x", "y")}).with_columns(
        word=pl.Series(words)
    )
    numbers, plain = data.exclude("word"), table.drop("word")
    side = TensorDict({"few": torch.arange(1000), "z": torch.rand(1000)}, [1000])
    side_table = pl.DataFrame({"few": side["few"].numpy(), "z": side["z"].numpy()})
    figures = [pl.col("x").mean().alias("mean"), pl.col("y").max().alias("high"), pl.len().alias("rows")]
    asked: dict[str, Any] = {"mean": ("x", "mean"), "high": ("y", "max"), "rows": "count"}
    return [
        ("filter", lambda: numbers.filter(x < 0.5), lambda: plain.filter(pl.col("x") < 0.5)),
        ("filter, with text", lambda: data.filter(x < 0.5), lambda: table.filter(pl.col("x") < 0.5)),
        ("sort by 1000 integers", lambda: numbers.sort_by("few"), lambda: plain.sort("few", maintain_order=True)),
        ("sort by many integers", lambda: numbers.sort_by("many"), lambda: plain.sort("many", maintain_order=True)),
        ("sort by int64", lambda: numbers.sort_by("wide"), lambda: plain.sort("wide", maintain_order=True)),
        ("sort by float32", lambda: numbers.sort_by("x"), lambda: plain.sort("x", maintain_order=True)),
        ("sort by float64", lambda: numbers.sort_by("y"), lambda: plain.sort("y", maintain_order=True)),
        (
            "sort by two keys",
            lambda: numbers.sort_by(["few", "x"]),
            lambda: plain.sort(["few", "x"], maintain_order=True),
        ),
        ("sort by text", lambda: data.sort_by("word"), lambda: table.sort("word", maintain_order=True)),
        ("group by 1000 integers", lambda: numbers.group_by("few").agg(**asked), lambda: _agg(plain, "few", figures)),
        ("group by many integers", lambda: numbers.group_by("many").agg(**asked), lambda: _agg(plain, "many", figures)),
        ("group by text", lambda: data.group_by("word").agg(**asked), lambda: _agg(table, "word", figures)),
        ("value_counts", lambda: numbers.value_counts("few"), lambda: table["few"].value_counts(sort=True)),
        ("unique", lambda: numbers.unique("few"), lambda: plain.unique("few", keep="first")),
        ("join", lambda: numbers.join(side, "few"), lambda: plain.join(side_table, on="few")),
    ]


def _agg(table: Any, key: str, figures: list[Any]) -> Any:
    return table.group_by(key).agg(figures).sort(key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{arguments.rows:,} rows, {cores} cores")
    print(f"{'':28}{'ours, ms':>10}{'polars, ms':>12}{'ours/polars':>13}{'goal':>6}")
    for name, ours, polars in workloads(arguments.rows):
        times = [1e3 * seconds for seconds in compared((ours, polars), runs=9)]
        goal = GOALS.get(name.split()[0].rstrip(","), "")
        print(f"{name:28}{times[0]:10.2f}{times[1]:12.2f}{times[0] / times[1]:13.2f}{goal:>6}")


if __name__ == "__main__":
    main()
