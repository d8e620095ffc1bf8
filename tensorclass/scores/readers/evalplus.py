"""Results of EvalPlus (HumanEval+, MBPP+) and of BigCodeBench: ``eval_results.json``, with the samples of each problem.

``eval`` maps each problem to its samples, each with ``base_status`` and ``plus_status``: ``pass``, ``fail`` or
``timeout``. Files of versions before 0.2 have lists of pairs under ``base`` and ``plus``. A sample passes the added
tests if it passes the base tests as well. BigCodeBench has one ``status``, and the figures ``pass@k``. Source:
https://github.com/evalplus/evalplus#readme, https://github.com/bigcode-project/bigcodebench#readme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from typing_extensions import TypedDict

from tensorclass.scores.families import EvalPlusScoreData, PassAtKScoreData
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.json_document import read_document
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Published, Run, run_name
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "EvalPlusReader"]

_START: Final = re.compile(rb'"eval"\s*:\s*\{\s*"[^"]+/[^"/]+"\s*:\s*[\[{]')
_PASSED: Final = ("pass", "success")
_SUFFIX: Final = re.compile(r"[._-]?eval[._-]results$")


class _Sample(TypedDict, total=False):
    solution: str | None
    base_status: str | None
    plus_status: str | None
    status: str | None  # of BigCodeBench, which has one set of tests


class _OldProblem(TypedDict, total=False):
    base: list[object]
    plus: list[object]


class _Results(TypedDict, total=False):
    eval: dict[str, list[_Sample] | _OldProblem]
    pass_at_k: dict[str, dict[str, float]] | None


class EvalPlusReader(Reader):
    """Reads results of EvalPlus."""

    name: str = "evalplus"
    description = "results of EvalPlus or BigCodeBench (eval, with the samples of each problem)"
    companions: Sequence[str] = ("*pass_at_k.json",)

    def recognises(self, head: FileHead) -> bool:
        return head.start.lstrip()[:1] == b"{" and _START.search(head.start) is not None

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name)
        return [_run(head, options)]


READER = EvalPlusReader()


def _run(head: FileHead, options: ReadOptions) -> Run:
    path = str(head.path)
    results = read_document(head.location, _Results, path)
    gathered = GatheredScores(head)
    suite, has_base = None, False
    for problem, samples in results.get("eval", {}).items():
        verdicts = _verdicts(samples, problem, path)
        suite = problem.rpartition("/")[0]
        has_base = has_base or isinstance(samples, Mapping) or any("base_status" in one for one in samples)
        added = [base and plus for base, plus in verdicts if plus is not None]
        gathered.add(
            problem,
            {
                "num_samples": len(verdicts),
                "num_correct": sum(base for base, _ in verdicts),
                "num_correct_plus": sum(added) if len(added) == len(verdicts) else None,
            },
            task=suite,
        )
    if not gathered.rows:
        raise ScoreFileError(path, None, "eval: expected the samples of at least one problem, got none")
    published = {
        f"{tests}/{name}": Published(value)
        for tests, figures in (results.get("pass_at_k") or {}).items()
        for name, value in figures.items()
    }
    return gathered.run(
        READER.name,
        options.family or (EvalPlusScoreData if has_base else PassAtKScoreData),
        name=_SUFFIX.sub("", run_name(head.path)) or head.path.absolute().parent.name,
        task=suite,
        published=published,
        published_in="its pass_at_k",
        higher_is_better=dict.fromkeys(published, True),
        texts=partial(_texts, head.path),
    )


def _verdicts(samples: Sequence[_Sample] | _OldProblem, problem: str, path: str) -> list[tuple[bool, bool | None]]:
    """For each sample, whether it passes the base tests and the added ones, None where these did not run."""
    if isinstance(samples, Mapping):
        base = [_passed(one, problem, path) for one in samples.get("base", [])]
        plus = [_passed(one, problem, path) for one in samples.get("plus", [])]
        return [(one, plus[place] if place < len(plus) else None) for place, one in enumerate(base)]
    return [
        (
            _passed(one.get("base_status", one.get("status")), problem, path),
            None if one.get("plus_status") is None else _passed(one.get("plus_status"), problem, path),
        )
        for one in samples
    ]


def _passed(status: object, problem: str, path: str) -> bool:
    if isinstance(status, list):  # of older versions: the status, and the verdict of each test
        status = next(iter(cast("list[object]", status)), None)
    if not isinstance(status, str):
        raise ScoreFileError(
            path, None, f"{problem}: expected the status of a sample, such as 'pass', got {shown(status)}"
        )
    return status in _PASSED


def _texts(path: Path) -> Iterator[PromptText]:
    """The first solution of each problem; the file holds no more of the prompt than the problem's name."""
    for problem, samples in read_document(path, _Results).get("eval", {}).items():
        solution = samples[0].get("solution") if isinstance(samples, list) and samples else None
        yield PromptText(prompt_id(problem), problem, solution)
