"""Score two bundled sample runs, compare them and draw them. The runs are synthetic: no real model made them.

python examples/demo.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tensorclass.scores import compare, read_runs
from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.plot import plot
from tensorclass.scores.score_sheets import score_sheets
from tensorclass.scores.sheet_formats import to_text
from tensorclass.support.atomic import whole_file

DATA = Path(__file__).parent / "data"
FILES = [DATA / "synthetic-alpha.eval_results_strict.jsonl", DATA / "synthetic-beta.jsonl"]
LABEL = "SYNTHETIC DATA: two invented runs, made by examples/make_samples.py; they say nothing about any model."


def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-out", "scores.png")
    print(f"{LABEL}\n")

    runs = read_runs(FILES)
    for run in runs:
        print(f"{run.name}: {run.scores.batch_size[0]} prompts, format {run.format}")

    scored = [ScoredRun(run, run.scores.aggregate()) for run in runs]
    compared = ComparedRuns(runs[0].name, runs[1].name, compare(runs[0].scores, runs[1].scores))
    print(f"\n{to_text(score_sheets(scored, [compared]), width=100)}\n")

    figure = plot(
        scored,
        compared,
        title="Instruction following of two synthetic runs",
        subtitle="Synthetic data: invented verdicts on 120 invented prompts, no real model.",
    )
    picture.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(picture) as file:
        figure.savefig(file, format="png", dpi=150)
    print(f"{LABEL}\nPlot: {picture}")


if __name__ == "__main__":
    main()
