"""Notes are a line for each kind, at most ten."""

from __future__ import annotations

from tensorclass.scores.grouped_notes import grouped_notes


def test_a_note_on_many_runs_is_one_line() -> None:
    assert grouped_notes([(name, "took 'strict'") for name in "abcde"]) == ["a, b, c and 2 more: took 'strict'"]


def test_notes_that_differ_in_numbers_are_of_one_kind() -> None:
    notes = [("a", "2 of 10 rows left out"), ("b", "3 of 10 rows left out"), ("c", "figures are of another task")]
    assert grouped_notes(notes) == [
        "a: 2 of 10 rows left out (and the like of b)",
        "c: figures are of another task",
    ]


def test_notes_about_nobody_stand_alone() -> None:
    assert grouped_notes([("", "arc: left out"), ("", "arc: left out")]) == ["arc: left out"]
    assert grouped_notes([("", "1 left"), ("", "2 left")]) == ["1 left (and the like of 1 more)"]


def test_ten_lines_are_given_and_the_others_counted() -> None:
    notes = [("", f"note {chr(97 + n)}") for n in range(26)]
    found = grouped_notes(notes)
    assert len(found) == 10
    assert found[-1] == "and 17 more notes: --json has them all"
