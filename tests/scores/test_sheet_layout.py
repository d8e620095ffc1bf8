from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores.sheet import Sheet, SheetColumn
from tensorclass.scores.sheet_layout import fold, lay_out, text_width


def matrix(rows: int, columns: int) -> Sheet:
    names = [f"Llama-3-{number}B-Instruct" for number in range(columns)]
    sheet = Sheet("Scores, %", [SheetColumn("task", is_label=True), *map(SheetColumn, names)], caption="Some words.")
    for row in range(rows):
        sheet.add(f"mmlu_high_school_subject_{row}", *(f"{10 + row}.{10 + column}" for column in range(columns)))
    return sheet


def comparison() -> Sheet:
    headings = ("prompts", "synthetic-alpha", "synthetic-beta", "difference", "95 % interval", "p")
    sheet = Sheet("b beside a", [SheetColumn("metric", is_label=True), *map(SheetColumn, headings)])
    for row in range(4):
        sheet.add(f"prompt_level_strict_acc_{row}", "120", "60.00", "72.50", f"+1{row}.50", "[+0.21, +24.02]", "0.053")
    return sheet


def lines(sheet: Sheet, width: int | None) -> list[str]:
    return ["".join(piece.text for piece in line) for line in lay_out(sheet, width)]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("sheet", [matrix(57, 10), matrix(3, 57), matrix(1, 1), comparison()], ids=str)
def test_every_number_is_there_at_any_width(sheet: Sheet, width: int) -> None:
    found = lines(sheet, width)
    assert max(map(text_width, found)) <= width
    text = "\n".join(found)
    for row in sheet.rows:
        for cell in row.cells[1:]:
            assert cell in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_part_of_a_label_is_there_at_any_width(width: int) -> None:
    text = "\n".join(lines(matrix(12, 10), width))
    for part in ("mmlu_", "high_", "school_", "subject_", "Llama-3-", *(f"{number}B" for number in range(10))):
        assert part in text


def test_a_wide_terminal_shows_the_sheet_as_it_is() -> None:
    assert lines(comparison(), 200)[1].split() == [
        "metric", "prompts", "synthetic-alpha", "synthetic-beta", "difference", "95", "%", "interval", "p",
    ]  # fmt: skip


def test_columns_become_rows_where_that_fits() -> None:
    found = lines(matrix(3, 30), 60)
    assert sum("Instruct" in line for line in found) >= 30
    assert len(found) < 40


def test_columns_come_in_pages_where_neither_fits() -> None:
    found = lines(matrix(30, 30), 60)
    assert sum(set(line) == {"─"} for line in found) > 1


def test_rows_become_blocks_on_a_very_narrow_terminal() -> None:
    sheet = Sheet("", [SheetColumn("model", is_label=True), *map(SheetColumn, ("figure", "interval"))])
    sheet.add("a-model-with-a-name", "60.00", "[50.00, 70.00]")
    assert lines(sheet, 20) == [
        "a-model-with-a-name",
        "  figure",
        "               60.00",
        "  interval",
        "      [50.00, 70.00]",
    ]


def test_a_merged_cell_is_blank_below_itself_and_full_where_rows_turn() -> None:
    columns = [
        SheetColumn("metric", is_label=True, is_merged=True),
        SheetColumn("run", is_label=True),
        SheetColumn("x"),
    ]
    sheet = Sheet("", columns)
    for run in ("a", "b"):
        sheet.add("acc", run, "1")
    sheet.add("f1", "a", "2")
    assert lines(sheet, 80)[2:] == ["acc     a    1", "        b    1", "", "f1      a    2"]
    assert [column.heading for column in sheet.turned().columns] == ["metric / run", "acc / a", "acc / b", "f1 / a"]


def test_control_characters_are_shown_as_escapes() -> None:
    sheet = Sheet("a\x1b[31m", [SheetColumn("m\n", is_label=True)])
    sheet.add("x\x07")
    assert "\\x1b[31m" in lines(sheet, 80)[0]
    assert not any(char in "".join(lines(sheet, 80)) for char in "\x1b\x07\n")


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="cells: expected one for each of 2 columns, got 1"):
        Sheet("", [SheetColumn("a", is_label=True), SheetColumn("b")]).add("x")


@given(st.text("ab_- /精", max_size=60), st.integers(2, 30), st.sampled_from([" ", " /_-:.,|="]))
def test_folding_keeps_every_character_but_spaces(text: str, width: int, breaks: str) -> None:
    folded = fold(text, width, breaks)
    assert "".join(folded).replace(" ", "") == text.replace(" ", "")
    assert max(map(text_width, folded)) <= width


def test_words_are_kept_whole() -> None:
    assert fold("two right and two wrong ones", 12, " ") == ["two right", "and two", "wrong ones"]
    assert fold("for prompt_level_strict_acc, too", 14, " ") == ["for", "prompt_level_", "strict_acc,", "too"]
