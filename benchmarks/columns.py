"""Text and ragged rows beside a plain tensor and other libraries: `python -m benchmarks.columns`.

The first table indexes columns of 1,000 to 1,000,000 rows; it gives microseconds, the smallest of some runs that take
turns, and in brackets the ratio to a plain tensor of 8 columns. "jagged" is torch's nested tensor, "lazy stack" the
peer's; both are left out where one index takes seconds. The second table gives the other figures with their targets.
"""

import argparse
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensordict
import torch
from torch import Tensor

from tensorclass import DataLoader, Ragged, TensorClass, TensorDict, Text
from tensorclass.convert.tables.arrow_columns import text_from_arrow

SIZES = (1_000, 50_000, 1_000_000)


def best(calls: dict[str, Callable[[], Any]], seconds: float, turns: int = 7) -> dict[str, float]:
    """The microseconds that each call takes at best; they take turns of that many seconds in all."""
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    counts: dict[str, int] = {}
    for name, timer in timers.items():
        once = timer.timeit(1)
        counts[name] = max(1, int(seconds / turns / max(once, 1e-7)))
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for name, timer in timers.items():
            found[name] = min(found[name], timer.timeit(counts[name]) / counts[name] * 1e6)
    return found


def sources(rows: int) -> tuple[Tensor, Tensor, list[str]]:
    """Items, lengths and strings of that many rows."""
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 40, (rows,), generator=random)
    items = torch.randint(0, 1000, (int(lengths.sum()),), generator=random)
    return items, lengths, [f"a prompt of some words, number {row}" for row in range(rows)]


def indices(rows: int) -> dict[str, Any]:
    random = torch.Generator().manual_seed(1)
    return {
        "[int]": rows // 2,
        "[slice]": slice(rows // 4, rows // 4 + 256),
        "[index of 256]": torch.randint(0, rows, (256,), generator=random),
        "[mask]": torch.rand(rows, generator=random) < 256 / rows,
    }


def others(items: Tensor, lengths: Tensor, strings: list[str]) -> dict[str, Any]:
    """The rows in other libraries."""
    offsets = torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)))
    arrow = pa.LargeListArray.from_arrays(pa.array(offsets.numpy()), pa.array(items.numpy()))
    found = {
        "pyarrow": arrow,
        "polars": pl.from_arrow(arrow),
        "awkward": ak.from_arrow(arrow),
        "arrow text": pa.array(strings),
    }
    if len(lengths) <= 1_000:
        found["jagged"] = torch.nested.nested_tensor_from_jagged(items, offsets)
        found["lazy stack"] = tensordict.lazy_stack(
            [tensordict.TensorDict({"a": row}) for row in items.split(lengths.tolist())]
        )
    return found


def indexed(name: str, data: Any, index: Any) -> Callable[[], Any] | None:
    """One library's way to index."""
    if name in ("pyarrow", "arrow text"):
        if isinstance(index, slice):
            return lambda: data[index]
        if isinstance(index, int):
            return lambda: data[index]
        key = pa.array(index.numpy())
        return (lambda: data.filter(key)) if index.dtype is torch.bool else (lambda: data.take(key))
    if name == "polars":
        if isinstance(index, Tensor):
            key = index.numpy()
            return (lambda: data.filter(pl.Series(key))) if index.dtype is torch.bool else (lambda: data.gather(key))
        return lambda: data[index]
    if name == "awkward":
        key = index.numpy() if isinstance(index, Tensor) else index
        return lambda: data[key]
    if name == "jagged":
        if isinstance(index, int):
            return lambda: data[index]
        if isinstance(index, slice):
            return lambda: data.unbind()[index]
        rows = index.nonzero().squeeze(1).tolist() if index.dtype is torch.bool else index.tolist()
        return lambda: [data.unbind()[row] for row in rows]
    return lambda: data[index]


def cell(time: float, plain: float) -> str:
    ratio = f"({time / plain:.2f})"
    return f"{time:>9.1f} {ratio:>6}"


def print_indexing(seconds: float, sizes: tuple[int, ...]) -> None:
    names = ("tensor", "Ragged", "Text", "record", "pyarrow", "arrow text", "polars", "awkward", "jagged", "lazy stack")
    print(f"{'us':<26}" + "".join(f"{name:>16}" for name in names))
    for rows in sizes:
        items, lengths, strings = sources(rows)
        ragged, text = Ragged.from_lengths(items, lengths), Text.from_list(strings)
        data: dict[str, Any] = {
            "tensor": torch.zeros(rows, 8, dtype=torch.int64),
            "Ragged": ragged,
            "Text": text,
            "record": TensorDict({"tokens": ragged, "text": text}, [rows]),
            **others(items, lengths, strings),
        }
        for what, index in indices(rows).items():
            calls = {name: call for name, one in data.items() if (call := indexed(name, one, index)) is not None}
            if what == "[int]":  # as a value of a collection, where a row stays a column
                calls["Text"] = lambda text=text, index=index: text._index_value(index)
            found = best(calls, seconds)
            cells = "".join(cell(found[name], found["tensor"]) if name in found else f"{'':>16}" for name in names)
            print(f"{rows:>9,} {what:<16}{cells}", flush=True)


class Row(TensorClass):
    tokens: Ragged[Tensor]


def epoch(data: Any, pad: Callable[[Any], Any], loads: bool) -> Callable[[], None]:
    """A shuffled epoch in batches of 256, by the package's loader or by indices alone."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(2))
    loader = DataLoader(data, batch_size=256, shuffle=True)

    def run() -> None:
        for batch in loader if loads else (data[indices] for indices in order.split(256)):
            pad(batch)

    return run


def print_others(seconds: float) -> None:
    print(f"\n{'':<52}{'ours':>12}{'beside':>12}{'ratio':>8}{'target':>8}")

    def show(what: str, ours: float, beside: float, target: float, unit: str = "us") -> None:
        print(f"{what + ', ' + unit:<52}{ours:>12,.1f}{beside:>12,.1f}{ours / beside:>8.2f}{target:>8}", flush=True)

    items, lengths, strings = sources(50_000)
    ragged = Ragged.from_lengths(items, lengths)
    record = Row(tokens=ragged)
    padded = TensorDict({"tokens": ragged.to_padded().values}, [50_000])
    for what, loads in (
        ("shuffled epoch of 50,000 rows with padding", True),
        ("the same by indices, no loader", False),
    ):
        found = best(
            {
                "ours": epoch(record, lambda batch: batch.tokens.to_padded(), loads),
                "padded": epoch(padded, lambda batch: batch["tokens"], loads),
            },
            seconds,
            3,
        )
        show(what, found["ours"] / 1e3, found["padded"] / 1e3, 2, "ms")

    batch = ragged[torch.randperm(50_000)[:256]]
    tensors = batch.tensors()
    found = best(
        {
            "ours": lambda: batch.to_padded(),
            "torch": lambda: torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True),
        },
        seconds,
    )
    show("to_padded of 256 rows, beside pad_sequence", found["ours"], found["torch"], 1.5)

    _, _, strings = sources(1_000_000)
    arrow = pa.array(strings)
    text = Text.from_list(strings)
    show("memory of 1,000,000 texts, beside pyarrow", text.nbytes() / 1e6, arrow.nbytes / 1e6, 1.2, "MB")
    wanted = strings[500]
    found = best({"ours": lambda: text == wanted, "arrow": lambda: pc.equal(arrow, wanted)}, seconds, 5)
    show("== with a string, 1,000,000 texts, beside pyarrow", found["ours"] / 1e3, found["arrow"] / 1e3, 3, "ms")
    mixed = [f"{row % 977}" * (row % 7) for row in range(1_000_000)]
    arrow, text = pa.array(mixed), Text.from_list(mixed)
    found = best({"ours": lambda: text == "500500", "arrow": lambda: pc.equal(arrow, "500500")}, seconds, 5)
    show("the same, of 0 to 18 characters", found["ours"] / 1e3, found["arrow"] / 1e3, 3, "ms")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.parquet"
        pq.write_table(pa.table({"text": strings[:200_000]}), path)
        found = best(
            {
                "ours": lambda: text_from_arrow(pq.read_table(path)["text"]),
                "from_parquet": lambda: TensorDict.from_parquet(path),
                "arrow": lambda: pq.read_table(path),
            },
            seconds,
            5,
        )
    show("200,000 texts of Parquet, beside pyarrow", found["from_parquet"] / 1e3, found["arrow"] / 1e3, 1.2, "ms")
    show("Arrow's 200,000 texts as a Text", found["ours"] / 1e3, found["arrow"] / 1e3, 1.2, "ms")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.columns", description="Text and ragged rows.")
    parser.add_argument("--quick", action="store_true", help="shorter samples, no 1,000,000 rows in the first table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print_indexing(0.05 if options.quick else 0.3, SIZES[:2] if options.quick else SIZES)
    print_others(0.2 if options.quick else 1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
