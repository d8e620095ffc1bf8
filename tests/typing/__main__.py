"""The table of `make types`: what each checker gets right and wrong of the corpus, in both forms of records.

    python -m tests.typing [--verbose] [--checker NAME ...] [--form NAME ...] [--inline]

The exit code is 1 where a line is wrong that is not among the known faults, or a known fault does not occur.
"""

import argparse
import sys

from tests.typing.checkers import CHECKERS
from tests.typing.judging import FORMS, judge, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="make types", description="What type checkers see of records.")
    parser.add_argument("--checker", choices=CHECKERS, nargs="+", default=CHECKERS)
    parser.add_argument("--form", choices=FORMS, nargs="+", default=FORMS)
    parser.add_argument("--verbose", action="store_true", help="print the known faults too")
    parser.add_argument("--inline", action="store_true", help="read the types in the package, not its stubs")
    arguments = parser.parse_args()
    verdicts = [
        judge(checker, form, inline=arguments.inline) for form in arguments.form for checker in arguments.checker
    ]
    print(table(verdicts))
    for one in verdicts:
        if one.failure:
            print(f"\n{one.checker}, {one.form}: did not run\n{one.failure}")
        shown = () if one.failure else one.wrong if arguments.verbose else one.unlisted
        if shown:
            print(f"\n{one.checker}, {one.form}:", *shown, sep="\n  ")
        for fault in one.mended:
            print(f"\n{one.checker}, {one.form}: listed, and right by now: {fault.module}: {fault.code}")
    return 0 if all(one.passed for one in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
