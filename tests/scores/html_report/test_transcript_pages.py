"""Pages with the responses of two models, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.cli import main
from tensorclass.scores import PromptText, Run, write_html_report
from tensorclass.scores.html_report.markup import text_of_log
from tensorclass.scores.html_report.text_differences import marked_differences
from tests.scores.html_report.headless_browser import Browser


@dataclass(frozen=True)
class Answers:
    model: str
    rows: int

    def __call__(self) -> Iterator[PromptText]:
        for row in range(self.rows):
            yield PromptText(
                row, f"question {row} <script>alert(1)</script>", f"the answer is <b> of {self.model}", "t"
            )


@pytest.fixture
def pages(make_run: Callable[..., Run], tmp_path: Path) -> Path:
    """A report with its pages: of a four rights, of b two; a folder whose name a URL escapes."""
    folder = tmp_path / "a b"
    folder.mkdir()
    runs = [
        make_run(model, verdicts, task, Answers(model, 5))
        for model, verdicts in (("alpha", [1.0, 1, 1, 1, 0]), ("beta", [1.0, 0, 0, 1, 1]))
        for task in ("sums", "SUMS", "../x")
    ]
    write_html_report(folder / "report 1.html", runs, transcripts=True)
    return folder


def test_there_is_a_page_for_each_task_beside_the_report(pages: Path) -> None:
    assert sorted(path.name for path in pages.iterdir()) == ["report 1.html", "report 1_prompts"]
    names = sorted(path.name for path in (pages / "report 1_prompts").iterdir())
    assert names == ["SUMS-2.html", "_x.html", "sums.html"]
    report = (pages / "report 1.html").read_text(encoding="utf-8")
    assert all(f'href="report%201_prompts/{name}"' in report for name in names)


def test_all_prompts_are_on_the_page_with_escaped_texts(pages: Path) -> None:
    page = (pages / "report 1_prompts" / "sums.html").read_text(encoding="utf-8")
    assert page.count("<li data-model") == 5
    assert page.count('data-verdicts="alpha right, beta wrong"') == 2
    assert page.count('data-verdicts="both right"') == 2
    assert page.count("<script>") == 1
    assert "&lt;b&gt; of <mark>beta</mark>" in page
    assert 'href="../report%201.html"' in page


def test_verdicts_and_texts_are_filtered_in_the_browser(browser: Browser, pages: Path) -> None:
    browser.open(pages / "report 1_prompts" / "sums.html")
    shown = "document.querySelectorAll('#prompts-list > li:not([hidden])').length"
    assert browser.run(shown) == 5
    choose = "const s = document.querySelector('select'); s.value = 'alpha right, beta wrong'"
    browser.run(f"(() => {{ {choose}; s.dispatchEvent(new Event('change')); }})()")
    assert browser.run(shown) == 2
    search = "const s = document.querySelector('input'); s.value = 'question 2'"
    browser.run(f"(() => {{ {search}; s.dispatchEvent(new Event('input')); }})()")
    assert browser.run(shown) == 1
    assert browser.problems == []


def test_a_page_holds_a_thousand_prompts_and_says_how_many_there_are(
    make_run: Callable[..., Run], tmp_path: Path
) -> None:
    runs = [make_run(model, [0.0, right] * 600) for model, right in (("alpha", 0.0), ("beta", 1.0))]
    write_html_report(tmp_path / "report.html", runs, transcripts=True)
    page = (tmp_path / "report_prompts" / "sums.html").read_text(encoding="utf-8")
    assert page.count("<li data-model") == 1000
    assert "1,000 of 1,200 comparisons" in page
    assert page.count('data-verdicts="beta right, alpha wrong"') == 600


def test_transcripts_need_a_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,right\n1,1\n")
    assert main(["scores", str(file), "--columns", "prompt=id,acc=right", "--transcripts"]) == 2
    assert "--transcripts is for --report FILE, which is not given" in capsys.readouterr().err


def test_words_that_differ_are_marked() -> None:
    a, b = marked_differences("So the answer is 4.", "Then the answer is 5.")
    assert a == "<mark>So</mark> the answer is <mark>4</mark>."
    assert b == "<mark>Then</mark> the answer is <mark>5</mark>."
    assert marked_differences("same", "same") == ("same", "same")


def test_texts_without_anything_in_common_are_not_marked() -> None:
    assert marked_differences("one two", "three\tfour") == ("one two", "three\tfour")
    long = [" ".join(f"{word}{n}" for n in range(2_000)) for word in ("a", "b")]
    assert "<mark>" not in "".join(marked_differences(*long))


@given(st.text(), st.text())
def test_marks_change_nothing_of_the_text(a: str, b: str) -> None:
    def plain(text: str) -> str:
        return text.replace("<mark>", "").replace("</mark>", "")

    marked = marked_differences(a, b)
    assert [plain(one) for one in marked] == ["".join(text_of_log(a)), "".join(text_of_log(b))]
