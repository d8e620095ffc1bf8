"""Results of HumanEval's scorer: ``samples.jsonl_results.jsonl``, a row for each sample.

A row has ``task_id``, ``completion``, ``result`` (``passed``, ``failed: ...``, ``timed out``) and ``passed``. Source:
https://github.com/openai/human-eval#readme.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tensorclass.scores.families import PassAtKScoreData
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Run, run_name
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "HumanEvalReader"]


class HumanEvalReader(Reader):
    """Reads results of HumanEval's scorer."""

    name: str = "human_eval"
    description = "results of HumanEval (task_id, result, passed)"

    def recognises(self, head: FileHead) -> bool:
        return head.first_row is not None and _is_row(head.first_row)

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name)
        return [_run(head, options)]


READER = HumanEvalReader()


def _is_row(row: Row) -> bool:
    return "task_id" in row and "passed" in row and ("completion" in row or "result" in row)


def _run(head: FileHead, options: ReadOptions) -> Run:
    path = str(head.path)
    samples: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for line, row in head.rows(options.on_progress(head.path)):
        if not _is_row(row):
            raise ScoreFileError(path, line, "expected task_id and passed, as in the first row")
        problem, verdict = str(row["task_id"]), row["passed"]
        if not isinstance(verdict, bool):
            raise ScoreFileError(path, line, f"passed: expected true or false, got {shown(verdict)}")
        samples[problem] += 1
        passed[problem] += verdict
    gathered = GatheredScores(head)
    for problem, count in samples.items():
        values = {"num_samples": count, "num_correct": passed[problem]}
        gathered.add(problem, values, task=_suite(problem))
    return gathered.run(
        READER.name,
        options.family or PassAtKScoreData,
        name=run_name(head.path).removesuffix("_results").removesuffix(".jsonl"),
        task=_suite(next(iter(samples))),
        texts=partial(_texts, head.path),
    )


def _suite(problem: str) -> str | None:
    return problem.rpartition("/")[0] or None


def _texts(path: Path) -> Iterator[PromptText]:
    """The first completion of each problem; the file holds no more of the prompt than the problem's name."""
    held: set[str] = set()
    for _, row in FileHead.of(path).rows():
        problem = str(row["task_id"])
        if problem not in held:
            held.add(problem)
            completion = row.get("completion")
            yield PromptText(prompt_id(problem), problem, completion if isinstance(completion, str) else None)
