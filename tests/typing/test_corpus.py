"""Four type checkers see of records what the corpus says, in both forms, but for the faults that are listed."""

import pytest

from tests.typing.checkers import CHECKERS, Outcome, Report
from tests.typing.judging import CORPUS, FORMS, Verdict, Wrong, expected, judge, judged
from tests.typing.known_faults import KNOWN_FAULTS

pytestmark = pytest.mark.xdist_group("type checkers")  # projects that share mypy's cache


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_agrees_with_the_corpus(checker: str, form: str) -> None:
    verdict = judge(checker, form)
    assert not verdict.failure, verdict.failure
    assert not verdict.unlisted, "\n".join(map(str, verdict.unlisted))
    assert not verdict.mended, f"listed in known_faults.py, and right by now: {verdict.mended}"
    assert verdict.right > 700


def test_the_corpus_is_as_large_as_promised() -> None:
    found = [expected(path.read_text()) for path in CORPUS.glob("*.py")]
    assert sum(len(one.facts) for one in found) >= 300
    assert sum(len(one.errors) for one in found) >= 60


def test_the_known_faults_are_lines_of_the_corpus() -> None:
    for fault in KNOWN_FAULTS:
        lines = [line.strip() for line in (CORPUS / f"{fault.module}.py").read_text().splitlines()]
        assert lines.count(fault.code) == 1, fault


SOURCE = """\
assert_type(a, int)
assert_type(
    b, int
)
a.c  # E: no such attribute
a.d
"""


def verdict(*lines: int) -> Verdict:
    reports = tuple(Report("m.py", line, "said") for line in lines)
    return judged("mypy", "subclass", {"m": SOURCE}, Outcome(reports))


def test_all_is_right_where_only_the_marked_line_is_reported() -> None:
    assert not verdict(5).unlisted
    assert verdict(5).right == 3


@pytest.mark.parametrize("line", [1, 3, 6])
def test_a_report_on_another_line_is_wrong(line: int) -> None:
    start = {3: 2}.get(line, line)
    assert [wrong.line for wrong in verdict(5, line).unlisted] == [start]


def test_a_marked_line_that_is_not_reported_is_wrong() -> None:
    assert verdict().unlisted == [Wrong("m", 5, "a.c  # E: no such attribute", "not reported")]
    assert verdict().right == 2
