"""A sample log of 200,000 rows: reading and aggregating it here, beside reading it with pandas.

    python benchmarks/scores.py [--rows N] [--keep FILE]

Every measurement runs in a process of its own, three times, and the best is taken; the file is read once before, so
that all find it in the system's cache. Printed are seconds within the process (imports apart) and the peak of its
memory (resident set, with everything imported).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

OURS = """
from tensorclass.scores import read_scores
start = time.perf_counter()
report = read_scores(path).aggregate()
seconds = time.perf_counter() - start
figures = {name: round(float(one.value), 6) for name, one in report.items()}
"""

PANDAS = """
import pandas
start = time.perf_counter()
frame = pandas.read_json(path, lines=True)
seconds = time.perf_counter() - start
figures = {name: round(float(frame[name].mean()), 6) for name in frame["metrics"][0] if name.startswith("prompt")}
"""

# The kernel's own mark of this program's peak; getrusage starts from that of the process that started this one.
PROCESS = """
import json, re, sys, time
path = sys.argv[1]
{code}
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({{"seconds": seconds, "megabytes": peak, "figures": figures}}))
"""

COMMAND = """
import resource, subprocess, sys, time, json
start = time.perf_counter()
subprocess.run([sys.executable, "-m", "tensorclass.cli", "scores", "--json", sys.argv[1]],
               stdout=subprocess.DEVNULL, check=True)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "megabytes": peak, "figures": {}}))
"""

TYPES = ("punctuation:no_comma", "length_constraints:number_words", "keywords:existence", "detectable_format:title")


def write_log(path: Path, rows: int) -> None:
    """An invented IFEval sample log; a row has about 2.2 kB, as with short responses."""
    rng = random.Random(0)
    words = [f"word{number}" for number in range(500)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            count = 1 + number % 3
            types = [TYPES[(number + place) % len(TYPES)] for place in range(count)]
            strict = [rng.random() < 0.8 for _ in types]
            loose = [verdict or rng.random() < 0.2 for verdict in strict]
            prompt = f"Prompt {number}: " + " ".join(rng.choices(words, k=25))
            response = " ".join(rng.choices(words, k=60))
            row = {
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
            file.write(json.dumps(row) + "\n")


def measure(code: str, path: Path) -> dict[str, float]:
    """Seconds and peak memory of the code in a fresh process; the best of three."""
    best: dict[str, float] = {}
    for _ in range(3):
        command = [sys.executable, "-c", code, str(path)]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        if not best or found["seconds"] < best["seconds"]:
            best = found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the log (default: 200,000)")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the log here and leave it; use it if it exists"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder, "samples_ifeval.jsonl")
        if not path.exists():
            write_log(path, arguments.rows)
        megabytes = os.path.getsize(path) / 1e6
        print(f"{arguments.rows:,} rows, {megabytes:,.0f} MB")
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
        ours = measure(PROCESS.format(code=OURS), path)
        pandas = measure(PROCESS.format(code=PANDAS), path)
        command = measure(COMMAND, path)
    print(f"{'':44}{'seconds':>10}{'peak MB':>10}")
    print(f"{'read_scores(path).aggregate()':44}{ours['seconds']:10.2f}{ours['megabytes']:10.0f}")
    print(f"{'tensorclass scores --json, start to end':44}{command['seconds']:10.2f}{command['megabytes']:10.0f}")
    print(f"{'pandas.read_json(path, lines=True)':44}{pandas['seconds']:10.2f}{pandas['megabytes']:10.0f}")
    print(f"pandas / ours: {pandas['seconds'] / ours['seconds']:.1f} times")
    print(f"figures: {ours['figures']}")
    print(f"pandas:  {pandas['figures']}")


if __name__ == "__main__":
    main()
