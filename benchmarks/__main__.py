"""`python -m benchmarks [--filter REGEX] [--quick] [--json FILE]`"""

import argparse
import json
import re
import sys
from pathlib import Path

import torch

from benchmarks.processes import PROCESS_WORKLOADS
from benchmarks.report import Results, Row, header, line, means, verdict_block
from benchmarks.timing import FULL, QUICK, Plan, time_in_turns
from benchmarks.workloads import WORKLOADS, Workload


def measure(workload: Workload, plan: Plan) -> Row:
    """Times a workload's three sides, on data of their own."""
    ours, peer, hand = time_in_turns([workload.ours(), workload.peer(), workload.hand()], plan)
    return Row(workload.name, ours, peer, hand)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="The package beside the peer and hand-written code."
    )
    parser.add_argument(
        "--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these workloads"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    options = parser.parse_args()

    torch.set_num_threads(1)
    chosen = [workload for workload in WORKLOADS if options.filter.search(workload.name)]
    processes = [workload for workload in PROCESS_WORKLOADS if options.filter.search(workload.name)]
    if not chosen and not processes:
        parser.error(f"no workload's name matches {options.filter.pattern!r}")

    results = Results([], [])
    unfair: list[str] = []
    print(header())
    for workload in chosen:
        if wrong := workload.differences():
            unfair += [f"{workload.name}: {difference}" for difference in wrong]
            continue
        results.calls.append(measure(workload, QUICK if options.quick else FULL))
        print(line(results.calls[-1]), flush=True)
    for process in processes:
        results.processes.append(process.measure(options.quick))
        print(line(results.processes[-1]), flush=True)

    if results.calls:
        print("-" * len(header()))
        print(means(results))
    print()
    print(verdict_block(results))
    if unfair:
        print("\nnot timed, since the sides' results differ")
        print("\n".join(f"  {text}" for text in unfair))
    if options.json:
        options.json.write_text(json.dumps(results.as_json(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
