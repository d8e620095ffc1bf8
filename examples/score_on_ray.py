"""Score 100 log files on a Ray cluster: each is read by a worker, and comes back as a typed record.

    pip install 'tensorclass[scores,ray]'
    python examples/score_on_ray.py [FOLDER]

Without a folder of logs, 100 synthetic ones are made: invented verdicts of no real model. The cluster is that of
RAY_ADDRESS; without one, it is started on this machine and ends with the program. The same on the command line:

    tensorclass scores --ray FOLDER/*.jsonl
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

import ray

from tensorclass.scores import ExactMatchScoreData, Run, read_runs

FILES, PROMPTS = 100, 200


def make_logs(folder: Path) -> None:
    """Logs as lm-evaluation-harness writes them, of checkpoints that become better."""
    draw = random.Random(0)
    for step in range(FILES):
        right = 0.2 + 0.6 * step / FILES
        rows = [
            {
                "doc_id": number,
                "doc": {"question": f"question {number}"},
                "target": "1",
                "resps": [["answer"]],
                "filtered_resps": ["answer"],
                "filter": "none",
                "metrics": ["exact_match"],
                "doc_hash": f"{number:064x}",
                "exact_match": float(draw.random() < right),
            }
            for number in range(PROMPTS)
        ]
        path = folder / f"samples_step_{step:03}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def score(files: list[Path]) -> list[tuple[str, float, tuple[float, float]]]:
    """The share of right answers in each file with its interval, the best first."""
    runs: list[Run] = read_runs(files, executor=ray)
    found: list[tuple[str, float, tuple[float, float]]] = []
    for run in runs:
        assert isinstance(run.scores, ExactMatchScoreData)
        figure = run.scores.aggregate()["exact_match"]
        found.append((run.name, float(figure.value), (float(figure.low), float(figure.high))))
    return sorted(found, key=lambda one: -one[1])


def main(folder: Path) -> None:
    files = sorted(folder.glob("*.jsonl"))
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, logging_level="error")
    try:
        scores = score(files)
    finally:
        if started:
            ray.shutdown()
    print(f"{len(scores)} files")
    for name, share, (low, high) in [*scores[:3], *scores[-1:]]:
        print(f"{name}  {share:7.2%}  [{low:.2%}, {high:.2%}]")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            make_logs(Path(made))
            print("SYNTHETIC DATA")
            main(Path(made))
