"""Write a report on two bundled sample runs, one HTML page. The runs are synthetic: no real model made them.

    pip install 'tensorclass[scores]'
    python examples/score_report.py [HTML]

The same on the command line, where --baseline names the run by its file:

    tensorclass scores examples/data/*.jsonl --baseline synthetic-alpha --report report.html
"""

from __future__ import annotations

import sys
from pathlib import Path

from tensorclass.scores import read_runs, write_html_report

DATA = Path(__file__).parent / "data"
FILES = [DATA / "synthetic-alpha.eval_results_strict.jsonl", DATA / "synthetic-beta.jsonl"]


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-out", "report.html")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_html_report(
        page,
        read_runs(FILES),
        title="Synthetic data: two invented runs, which say nothing about any model",
        baseline="synthetic-alpha",
    )
    print(f"Report: {page}")


if __name__ == "__main__":
    main()
