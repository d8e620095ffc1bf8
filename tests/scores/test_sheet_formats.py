from __future__ import annotations

import pytest

from tensorclass.scores.sheet import Sheet, SheetColumn
from tensorclass.scores.sheet_formats import to_html, to_latex, to_markdown, to_text


@pytest.fixture
def sheet() -> Sheet:
    found = Sheet("A & B", [SheetColumn("model_a", is_label=True), SheetColumn("x | y")], caption="50 %")
    found.add("<b>*_\\", "[1, 2]", styles={1: "good"})
    return found


def test_markdown_escapes_what_it_would_take_for_markup(sheet: Sheet) -> None:
    assert to_markdown([sheet, "a_b"]).split("\n\n") == [
        "**A & B**",
        "| model\\_a | x \\| y |\n| :--- | ---: |\n| \\<b\\>\\*\\_\\\\ | \\[1, 2\\] |",
        "50 %",
        "a\\_b\n",
    ]


def test_latex_escapes_what_it_would_take_for_commands(sheet: Sheet) -> None:
    text = to_latex([sheet])
    assert r"\caption{A \& B. 50 \%}" in text
    assert r"\textless{}b\textgreater{}*\_\textbackslash{} & {[1, 2]} \\" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_html_escapes_tags_and_names_its_rows(sheet: Sheet) -> None:
    text = to_html([sheet, "<i>"])
    assert ">A &amp; B</caption>" in text
    assert '<th scope="row" style="text-align: left">&lt;b&gt;*_\\</th>' in text
    assert '<td style="text-align: right; color: #1a7f37">[1, 2]</td>' in text
    assert "<p>&lt;i&gt;</p>" in text


def test_text_has_a_blank_line_between_sheets(sheet: Sheet) -> None:
    assert to_text([sheet, "note", sheet]).split("\n\n")[1] == "note"
