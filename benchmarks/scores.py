"""Sample logs: reading and aggregating one here, beside polars, duckdb and pandas.

    python benchmarks/scores.py [--rows N] [--shape choice|ifeval] [--pandas] [--keep FILE]

Every measurement runs in a process of its own, three times, all programs in turn, and the best is taken; the file is
read once before, so that all find it in the system's cache. Printed are seconds within the process (imports apart), the
seconds of a core that all its threads took, which other programs on the machine change little, and the peak of its
memory (resident set, with everything imported). polars and duckdb may use all cores, and compute the means; this
package uses one, also checks every row, identifies every prompt, and computes intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS = """
from tensorclass.scores import read_scores
start, cpu = time.perf_counter(), time.process_time()
report = read_scores(path).aggregate()
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
figures = {name: round(float(one.value), 6) for name, one in report.items()}
"""

POLARS = """
import polars
names = {metrics!r}
start, cpu = time.perf_counter(), time.process_time()
means = polars.scan_ndjson(path).select([polars.col(name).cast(polars.Float64).mean() for name in names])
row = means.collect().row(0)
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
figures = {{name: round(value, 6) for name, value in zip(names, row)}}
"""

DUCKDB = """
import duckdb
names = {metrics!r}
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
start, cpu = time.perf_counter(), time.process_time()
means = ", ".join(f"avg({{name}}::DOUBLE)" for name in names)
row = connection.execute(f"SELECT {{means}} FROM read_ndjson(?)", [path]).fetchone()
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
figures = {{name: round(value, 6) for name, value in zip(names, row)}}
"""

PANDAS = """
import pandas
names = {metrics!r}
start, cpu = time.perf_counter(), time.process_time()
frame = pandas.read_json(path, lines=True)
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
figures = {{name: round(float(frame[name].mean()), 6) for name in names}}
"""

# The kernel's own mark of this program's peak; getrusage starts from that of the process that started this one.
PROCESS = """
import json, re, sys, time
path = sys.argv[1]
{code}
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({{"seconds": seconds, "cpu": cpu, "megabytes": peak, "figures": figures}}))
"""

COMMAND = """
import resource, subprocess, sys, time, json
start = time.perf_counter()
subprocess.run([sys.executable, "-m", "tensorclass.cli", "scores", "--json", sys.argv[1]],
               stdout=subprocess.DEVNULL, check=True)
seconds = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": peak, "figures": {}}))
"""

RUNS = 3

TYPES = ("punctuation:no_comma", "length_constraints:number_words", "keywords:existence", "detectable_format:title")


def choice_row(number: int, rng: random.Random, words: list[str]) -> dict[str, Any]:
    """A question with four choices: about 630 bytes."""
    question = f"Question {number}: " + " ".join(rng.choices(words, k=16))
    likelihoods = [[str(round(-rng.expovariate(0.2), 6)), "False"] for _ in range(4)]
    return {
        "doc_id": number,
        "doc": {"question": question, "answer": number % 4},
        "target": number % 4,
        "arguments": {"gen_args_0": {"arg_0": question[:20], "arg_1": " A"}},
        "resps": [[one] for one in likelihoods],
        "filtered_resps": likelihoods,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": f"{number:064x}",
        "acc": float(rng.random() < 0.7),
        "acc_norm": float(rng.random() < 0.6),
    }


def ifeval_row(number: int, rng: random.Random, words: list[str]) -> dict[str, Any]:
    """A prompt of IFEval with a short response: about 2.2 kB."""
    count = 1 + number % 3
    types = [TYPES[(number + place) % len(TYPES)] for place in range(count)]
    strict = [rng.random() < 0.8 for _ in types]
    loose = [verdict or rng.random() < 0.2 for verdict in strict]
    prompt = f"Prompt {number}: " + " ".join(rng.choices(words, k=25))
    response = " ".join(rng.choices(words, k=60))
    return {
        "doc_id": number,
        "doc": {"key": number, "prompt": prompt, "instruction_id_list": types, "kwargs": [{} for _ in types]},
        "target": 0,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": [], "max_gen_toks": 1280}}},
        "resps": [[response]],
        "filtered_resps": [response],
        "filter": "none",
        "metrics": [
            "prompt_level_strict_acc",
            "inst_level_strict_acc",
            "prompt_level_loose_acc",
            "inst_level_loose_acc",
        ],
        "doc_hash": f"{number:064x}",
        "prompt_hash": f"{number + 1:064x}",
        "target_hash": f"{number + 2:064x}",
        "prompt_level_strict_acc": all(strict),
        "inst_level_strict_acc": strict,
        "prompt_level_loose_acc": all(loose),
        "inst_level_loose_acc": loose,
    }


# the rows, and the metrics with one value a row
SHAPES: dict[str, tuple[Callable[[int, random.Random, list[str]], dict[str, Any]], list[str]]] = {
    "choice": (choice_row, ["acc", "acc_norm"]),
    "ifeval": (ifeval_row, ["prompt_level_strict_acc", "prompt_level_loose_acc"]),
}


def write_log(path: Path, rows: int, shape: str) -> None:
    """An invented sample log."""
    rng = random.Random(0)
    words = [f"word{number}" for number in range(500)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            file.write(json.dumps(SHAPES[shape][0](number, rng, words)) + "\n")


def measure(programs: dict[str, str], path: Path) -> dict[str, dict[str, Any]]:
    """Seconds and peak memory of each program in fresh processes; the best of three, taken in turn."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(RUNS):
        for name, code in programs.items():
            command = [sys.executable, "-c", code, str(path)]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the log (default: 200,000)")
    parser.add_argument("--shape", choices=SHAPES, default="choice", help="kind of rows (default: choice)")
    parser.add_argument("--pandas", action="store_true", help="measure pandas as well: slow, and in much memory")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the log here and leave it; use it if it exists"
    )
    arguments = parser.parse_args()
    metrics = SHAPES[arguments.shape][1]
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder, "samples_task.jsonl")
        if not path.exists():
            write_log(path, arguments.rows, arguments.shape)
        print(f"{arguments.rows:,} rows, {os.path.getsize(path) / 1e6:,.0f} MB")
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
        others = {
            "polars.scan_ndjson(path)": POLARS,
            "duckdb: FROM read_ndjson(path)": DUCKDB,
            **({"pandas.read_json(path, lines=True)": PANDAS} if arguments.pandas else {}),
        }
        programs = {
            "read_scores(path).aggregate()": PROCESS.format(code=OURS),
            "tensorclass scores --json, start to end": COMMAND,
            **{name: PROCESS.format(code=code.format(metrics=metrics)) for name, code in others.items()},
        }
        found = measure(programs, path)
    print(f"{'':44}{'seconds':>10}{'of a core':>11}{'peak MB':>10}")
    for name, one in found.items():
        print(f"{name:44}{one['seconds']:10.2f}{one['cpu']:11.2f}{one['megabytes']:10.0f}  {one['figures'] or ''}")


if __name__ == "__main__":
    main()
