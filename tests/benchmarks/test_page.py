"""The tables of docs/performance.md: what writes them finds where they stand, and their rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import compiled, growth, real_work
from benchmarks.page import PAGE, fill, number, table
from benchmarks.report import ON_PAGE, Results, Row, over_the_goals, page_table
from benchmarks.workloads import WORKLOADS

TABLES = (
    "beside hand-written code",
    "more than by hand",
    "how cost grows",
    "compiled functions",
    "compiled networks",
    "real work",
    "programs",
    "rows over the goals",
)


def test_the_page_has_room_for_each_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert tuple(re.findall(r"<!-- end of (.*) -->", text)) == TABLES
    for name in TABLES:
        assert text.index(f"<!-- {name} -->\n") < text.index(f"\n<!-- end of {name} -->")


def test_a_table_is_replaced_and_all_else_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    for _ in range(2):
        fill("a", r"\1 new", page)
    assert page.read_text() == "before\n<!-- a -->\n\n\\1 new\n\n<!-- end of a -->\nafter\n"
    with pytest.raises(ValueError, match="expected a table between"):
        fill("b", "new", page)


def test_a_table_has_a_line_for_each_row() -> None:
    assert table(("a", "b"), [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


@pytest.mark.parametrize("value, shown", [(0.012345, "0.0123"), (3.456, "3.46"), (99.96, "100"), (1234.5, "1,230")])
def test_figures_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_the_workloads_of_the_page_exist() -> None:
    assert set(ON_PAGE) <= {workload.name for workload in WORKLOADS}


def test_rows_over_the_goals_are_slow_beside_one_of_the_others() -> None:
    rows = [
        Row("fast", 1.0, 3.0, 1.0),
        Row("short", 1.8, 3.0, 0.9),
        Row("long", 3.2, 6.0, 2.0),
        Row("behind", 2.0, 1.0, 1.9),
    ]
    found = over_the_goals(Results(calls=rows))
    assert re.findall(r"^\| (\w+) \|", found, re.MULTILINE) == ["workload", "long", "behind"]
    assert "| long | 3.2 | 1.60 | 1.88 |" in found


def test_the_table_of_workloads_ends_with_the_means() -> None:
    results = Results(calls=[Row(ON_PAGE[0], 2.0, 4.0, 1.0), Row("another", 2.0, 4.0, 4.0)])
    lines = page_table(results).splitlines()
    assert lines[2:] == [
        f"| {ON_PAGE[0]} | 2 | 2.00 | 2.00 |",
        "| geometric mean of 2 |  | 1.00 | 2.00 |",
        "| ... of the 1 that take over 1 us by hand |  | 0.50 | 2.00 |",
    ]


def test_the_table_of_growth_has_the_power_by_hand() -> None:
    steep = growth.Growth("rows: clone", (1, 10, 100), lambda size, place: size, lambda given: given)
    lines = growth.page_table([growth.Figures(steep, [1.0, 10.0, 200.0], [0, 0, 0], [1.0, 10.0, 190.0])]).splitlines()
    assert lines[2] == "| rows: clone | 1 to 100 | 1 | 200 | 1.30 (by hand 1.28) | 0 | 2,110 |"


def test_the_table_of_compiled_functions_has_both_sides() -> None:
    figures, call = compiled.Figures(0, 39, 2, 0.05), compiled.Call(11.5, 1.7)
    line = compiled.Line("[slice]", figures, compiled.Figures(0, 10, 2, 0.03), call, compiled.Call(10.0, 0.8))
    assert compiled.page_table([line]).splitlines()[2] == (
        "| `[slice]` | 39 | 10 | 1.7 | 0.8 | 11.5 | 10.0 | 0.05 | 0.03 |"
    )


def test_the_table_of_works_leaves_out_ways_that_a_work_does_not_have() -> None:
    measured = {"an epoch": {"ours": 2.0, "by hand": 3.0}, "logs": {"ours": 1.0, "polars": 0.5}}
    assert real_work.page_table(measured).splitlines() == [
        "| work | s | by hand / ours | polars / ours |",
        "| --- | ---: | ---: | ---: |",
        "| an epoch | 2 | 1.50 |  |",
        "| logs | 1 |  | 0.50 |",
    ]
