"""The table and its verdict."""

import pytest

from benchmarks.report import Results, Row, ScoreLog, line, means, page_table, verdicts

FAIR = Row("reshape", ours=3.0, peer=9.0, hand=2.5)


def verdict(results: Results, target: str) -> str:
    (found,) = (said for text, said in verdicts(results) if target in text)
    return found


def test_a_line_shows_microseconds_and_both_ratios() -> None:
    assert line(FAIR).split() == ["reshape", "3.00", "3.00", "1.20"]


def test_a_line_shows_another_unit_and_no_ratio_without_a_hand_written_side() -> None:
    assert line(Row("memory", 400.0, 800.0, None, "B")).split() == ["memory", "400.00", "B", "2.00", "-"]


def test_the_means_are_geometric() -> None:
    results = Results([Row("a", 1.0, 1.0, 1.0), Row("b", 1.0, 4.0, 0.25)])
    assert means(results).splitlines()[0].split()[-2:] == ["2.00", "2.00"]


def test_a_second_mean_leaves_out_work_below_a_microsecond() -> None:
    results = Results([FAIR, Row("get", 0.5, 0.9, 0.1)])
    assert means(results).splitlines()[1].split()[-2:] == ["3.00", "1.20"]


def test_figures_without_native_code_are_a_column_where_they_were_measured() -> None:
    row = Row("clone (record)", ours=3.0, peer=9.0, hand=2.5, python_over_hand=1.5)
    assert line(row).split()[-3:] == ["in", "Python", "1.50"]
    assert means(Results([row])).splitlines()[0].split()[-2:] == ["Python", "1.50"]
    head, _, *rows = page_table(Results([row])).splitlines()
    assert head.count("|") == 6
    assert [text.split("|")[-2].strip() for text in rows] == ["1.50"] * 3
    assert page_table(Results([FAIR])).splitlines()[0].count("|") == 5


def test_an_offender_is_named_with_its_figures() -> None:
    results = Results([FAIR, Row("view", 10.0, 9.0, 2.0)])
    assert "view: 10.00 beside 2.00 us, 5.00 times" in verdict(results, "at most 1.5")
    assert "view: 10.00 beside 9.00 us, 0.90 times" in verdict(results, "never faster")
    assert "reshape" not in verdict(results, "at most 1.5")


def test_work_below_a_microsecond_may_cost_more_than_by_hand() -> None:
    assert "reached" in verdict(Results([FAIR, Row("get", 0.5, 0.9, 0.1)]), "at most 1.5")


def test_what_was_filtered_out_is_not_judged() -> None:
    assert {said for _, said in verdicts(Results())} == {"not measured"}


def test_limits_hold_for_the_slowest_row() -> None:
    rows = [Row("define (subclass)", 300.0, 700.0, 200.0), Row("define (decorated)", 600.0, 2000.0, 200.0)]
    assert "define (decorated): 600 us" in verdict(Results([], rows), "0.4 ms")
    assert verdict(Results([], rows[:1]), "0.4 ms") == "reached (300 us)"


@pytest.mark.parametrize(
    "seconds, megabytes, said", [(2.0, 400, "reached"), (6.0, 400, "MISSED"), (2.0, 600, "MISSED")]
)
def test_a_score_log_must_be_fast_and_small(seconds: float, megabytes: float, said: str) -> None:
    log = ScoreLog(200_000, seconds, megabytes, pandas_seconds=5.0, pandas_megabytes=900.0)
    assert verdict(Results(score_log=log), "score log").startswith(said)
