"""`python -m benchmarks [--filter REGEX] [--quick] [--json FILE] [--no-native | --both-modes] [--page | --programs]`"""

import argparse
import json
import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

from benchmarks.modes import in_python, native_line
from benchmarks.page import fill
from benchmarks.processes import PROCESS_WORKLOADS, SCORE_LOG, measure_score_log
from benchmarks.report import (
    Results,
    Row,
    beyond_table,
    header,
    heading,
    line,
    means,
    over_the_goals,
    page_table,
    score_log_lines,
    verdict_block,
)
from benchmarks.timing import FULL, QUICK, Plan, time_in_turns
from benchmarks.workloads import WORKLOADS, Workload
from tensorclass.td import native


def measure(workload: Workload, plan: Plan, python_over_hand: float | None) -> Row:
    """Times a workload's three sides, on data of their own."""
    ours, peer, hand = time_in_turns([workload.ours(), workload.peer(), workload.hand()], plan)
    return Row(workload.name, ours, peer, hand, python_over_hand=python_over_hand)


def ratios(pattern: re.Pattern[str], quick: bool) -> dict[str, float]:
    """Return the times of our side beside the work by hand, of all workloads that give what that does."""
    found: dict[str, float] = {}
    for workload in WORKLOADS:
        if pattern.search(workload.name):
            with suppress(Exception):  # the other run says so
                ours, hand = time_in_turns([workload.ours(), workload.hand()], QUICK if quick else FULL)
                found[workload.name] = ours / hand
    return found


def main() -> int:
    if "--programs" in sys.argv:
        from benchmarks import programs

        return programs.main([argument for argument in sys.argv[1:] if argument != "--programs"])
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="The package beside the peer and hand-written code."
    )
    parser.add_argument(
        "--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these workloads"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples, no score log")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--no-native", action="store_true", help="run operations in Python alone")
    modes.add_argument(
        "--both-modes", action="store_true", help="measure again without native code, for a column of its own"
    )
    parser.add_argument(
        "--page", action="store_true", help="write the tables into docs/performance.md; both modes if native code is on"
    )
    parser.add_argument("--ratios", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ratios:
        torch.set_num_threads(1)
        print(json.dumps(ratios(options.filter, options.quick)))
        return 0
    if options.no_native:
        native.switch(False)
    elif options.both_modes and not native.ON:
        parser.error(f"--both-modes needs native code, which is {native.WHY_OFF}: tensorclass native --build")

    torch.set_num_threads(1)
    chosen = [workload for workload in WORKLOADS if options.filter.search(workload.name)]
    processes = [workload for workload in PROCESS_WORKLOADS if options.filter.search(workload.name)]
    score_log = options.filter.search(SCORE_LOG) and not options.quick
    if not (chosen or processes or score_log):
        parser.error(f"no workload's name matches {options.filter.pattern!r}")

    alone: dict[str, float] = {}
    if native.ON and (options.both_modes or options.page):
        print("in Python alone ...", flush=True)
        quick = ["--quick"] if options.quick else []
        alone = json.loads(in_python("benchmarks", "--ratios", "--filter", options.filter.pattern, *quick))
    results = Results()
    unfair: list[str] = []
    print(native_line())
    print(header())
    for workload in chosen:
        try:
            wrong = workload.differences()
            row = None if wrong else measure(workload, QUICK if options.quick else FULL, alone.get(workload.name))
        except Exception as error:  # a side that raises leaves the other rows alone
            wrong, row = [f"{type(error).__name__}: {error}"], None
        unfair += [f"{workload.name}: {reason}" for reason in wrong]
        if row is not None:
            if workload.is_beyond and not results.beyond:
                print(heading("more than by hand"))
            (results.beyond if workload.is_beyond else results.calls).append(row)
            print(line(row), flush=True)
    for process in processes:
        results.processes.append(process.measure(options.quick))
        print(line(results.processes[-1]), flush=True)

    if results.calls:
        print("-" * len(header()))
        print(means(results))
    if score_log:
        results.score_log = measure_score_log()
        print(score_log_lines(results.score_log))
    print()
    print(verdict_block(results))
    if unfair:
        print("\nnot timed, since a side raised or the results differ")
        print("\n".join(f"  {text}" for text in unfair))
    if options.page:
        fill("beside hand-written code", page_table(results))
        fill("more than by hand", beyond_table(results))
        fill("rows over the goals", over_the_goals(results))
    if options.json:
        options.json.write_text(json.dumps(results.as_json(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
