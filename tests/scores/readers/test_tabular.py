from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorclass.scores import Run, ScoreFileError, compare, read_run, read_runs

Write = Callable[..., Path]

ROWS: list[dict[str, Any]] = [
    {"id": "a", "correct": 1, "ms": 12.5, "passage": 7, "subject": "law", "who": "gpt", "answer": "yes"},
    {"id": "b", "correct": 0, "ms": 13.5, "passage": 7, "subject": "art", "who": "gpt", "answer": "no"},
    {"id": "c", "correct": None, "ms": 1.0, "passage": 8, "subject": "law", "who": "gpt", "answer": "so, so"},
]
COLUMNS = {"prompt": "id", "accuracy": "correct", "latency": "ms"}


def comma_separated(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    lines = [",".join(rows[0])]
    lines += [
        ",".join(json.dumps(value) if "," in str(value) else str(value) for value in row.values()) for row in rows
    ]
    text = "\n".join(lines) + "\n"
    return text if delimiter == "," else text.replace('"so, so"', "so so").replace(",", delimiter)


@pytest.fixture(params=["csv", "tsv", "semicolons", "jsonl", "array", "parquet", "csv with a mark"])
def table(request: pytest.FixtureRequest, write: Write, tmp_path: Path) -> Path:
    """The same table in each format."""
    if request.param == "parquet":
        path = tmp_path / "table.parquet"
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    contents: dict[str, tuple[str, Any]] = {
        "csv": ("table.csv", comma_separated(ROWS)),
        "tsv": ("table.tsv", comma_separated(ROWS, "\t")),
        "semicolons": ("table.csv", comma_separated(ROWS, ";")),
        "jsonl": ("table.jsonl", ROWS),
        "array": ("table.json", json.dumps(ROWS)),
        "csv with a mark": ("table.csv", b"\xef\xbb\xbf" + comma_separated(ROWS).encode()),
    }
    return write(*contents[request.param])


def figures(run: Run) -> dict[str, tuple[float, str, float]]:
    return {name: (one.value.item(), one.unit, one.count.item()) for name, one in run.scores.aggregate().items()}


def test_metrics_are_columns_under_the_names_that_are_given(table: Path) -> None:
    run = read_run(table, columns=COLUMNS)
    assert figures(run) == {"accuracy": (0.5, "%", 2), "latency": (9.0, "", 3)}
    assert (run.format, run.name) == ("table", "table")


def test_each_model_and_task_of_a_table_is_a_run(write: Write) -> None:
    rows = [{**row, "who": who, "task": task} for who in ("gpt", "llama") for task in ("mmlu", "arc") for row in ROWS]
    columns = {**COLUMNS, "model": "who", "task": "task"}
    runs = read_runs([write("table.jsonl", rows)], columns=columns)
    assert [(run.name, run.model, run.task) for run in runs] == [
        ("gpt/mmlu", "gpt", "mmlu"),
        ("gpt/arc", "gpt", "arc"),
        ("llama/mmlu", "llama", "mmlu"),
        ("llama/arc", "llama", "arc"),
    ]
    assert compare(runs[0].scores, runs[2].scores).prompts == 3


def test_a_column_of_clusters_widens_intervals(write: Write) -> None:
    path = write("table.csv", comma_separated(ROWS))
    figure = read_run(path, columns={**COLUMNS, "cluster": "passage"}).scores.aggregate()["latency"]
    assert (figure.clusters.item(), figure.prompts.item()) == (2, 3)


def test_a_column_of_groups_breaks_figures_down(write: Write) -> None:
    run = read_run(write("table.csv", comma_separated(ROWS)), columns={**COLUMNS, "group": "subject"})
    groups = run.scores.aggregate().groups["accuracy"]
    assert {name: one.value.item() for name, one in groups.items()} == {"law": 1.0, "art": 0.0}


def test_rows_of_one_prompt_are_its_repeats(write: Write) -> None:
    run = read_run(write("table.csv", "id,right\n1,true\n1,false\n2,True\n"), columns={"prompt": "id", "acc": "right"})
    figure = run.scores.aggregate()["acc"]
    assert (figure.prompts.item(), figure.count.item()) == (2, 3)


def test_rows_without_a_column_of_prompts_are_paired_by_position(write: Write) -> None:
    runs = [
        read_run(write(f"{name}.csv", f"right\n{right}\n1\n"), columns={"acc": "right"})
        for name, right in (("a", 0), ("b", 1))
    ]
    assert compare(runs[0].scores, runs[1].scores)["acc"].value.item() == 0.5


def test_texts_are_read_again(table: Path) -> None:
    run = read_run(table, columns={**COLUMNS, "text": "subject", "response": "answer"})
    assert run.texts is not None
    texts = list(run.texts())
    assert [one.prompt_id for one in texts] == run.scores.prompt_id.tolist()
    assert (texts[0].prompt, texts[0].response) == ("law", "yes")


def test_quoted_cells_may_hold_separators_and_ends_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "right"], ["one\nprompt, long", "1"], ["two", "0"]])
    assert len(read_run(path, columns={"prompt": "id", "acc": "right"}).scores) == 2


ACC = {"acc": "right"}
NO_NUMBER = "right: expected a number or true or false, got"


@pytest.mark.parametrize(
    "name, content, columns, problem",
    [
        (
            "t.csv",
            "id,right\na,1\n",
            {**ACC, "prompt": "name"},
            r":1: name: expected a column of the table \(id, right\)",
        ),
        ("t.csv", "id,right\na,1\nb\n", ACC, ":3: expected 2 cells, as in the first line, got 1"),
        ("t.csv", "id,right\na,1\nb,yes\n", ACC, f":3: {NO_NUMBER} 'yes'"),
        ("t.csv", "id,right\n", ACC, "a table without rows"),
        ("t.csv", "id,right\na,\nb,nan\n", ACC, "acc: no row has a value"),
        ("t.csv", 'id,right\n"a,1\n', ACC, "not CSV: unexpected end of data"),
        ("t.csv", "id,right\na,inf\n", ACC, ":2: acc: expected a finite number"),
        ("t.csv", b"id,right\n\xff,1\n", ACC, "not UTF-8: invalid start byte"),
        ("t.jsonl", '{"id": 1, "right": 1}\n{"id": 2}\n', ACC, ":2: right: expected a column of the table"),
        ("t.jsonl", '{"id": 1, "right": [[1]]}\n', ACC, rf":1: {NO_NUMBER} \[1\]"),
        ("t.parquet", b"PAR1 cut off", ACC, "the Parquet file is cut off or damaged"),
    ],
)
def test_bad_tables_are_errors(
    name: str, content: str | bytes, columns: dict[str, str], problem: str, write: Write
) -> None:
    with pytest.raises(ScoreFileError, match=problem):
        read_run(write(name, content), columns=columns)


def test_a_table_without_columns_is_an_error_that_says_how_to_name_them(table: Path) -> None:
    with pytest.raises(ScoreFileError, match="--columns prompt=id,accuracy=correct"):
        read_run(table)


def test_columns_are_an_error_for_logs_that_have_none(write: Write, log_row: Callable[..., dict[str, Any]]) -> None:
    path = write("samples_arc_2025-01-01.jsonl", [log_row(0, {"acc": 1.0})])
    with pytest.raises(ScoreFileError, match=r"columns: expected roles of lm-eval \(group, cluster\), got 'prompt'"):
        read_run(path, columns=COLUMNS)


def test_tables_in_a_folder_are_found_by_their_columns(write: Write) -> None:
    write("runs/a.csv", comma_separated(ROWS))
    write("runs/notes.csv", "some,notes\n1,2\n")
    folder = write("runs/b.jsonl", ROWS).parent
    assert [run.name for run in read_runs([folder], columns=COLUMNS)] == ["a", "b"]


def test_lists_hold_the_values_of_repeats(write: Write) -> None:
    rows = [{"id": n, "score": [True, n > 0], "other": n} for n in range(4)]
    columns = {"prompt": "id", "accuracy": "score", "size": "other"}
    run = read_run(write("t.jsonl", rows), columns=columns)
    assert run.scores.batch_size == (8,)
    assert run.scores.aggregate()["accuracy"].value.item() == 0.875
    path = write("u.jsonl", [{"id": 1, "score": [True, False], "other": [1]}])
    with pytest.raises(ScoreFileError, match=r"u\.jsonl:1: expected lists of the same length in a row, got \[1, 2\]"):
        read_run(path, columns=columns)


def test_a_text_of_csv_may_be_long(write: Write) -> None:
    path = write("t.csv", f"id,right,text\n1,1,{'x' * 200_000}\n2,0,y\n")
    run = read_run(path, columns={"prompt": "id", "accuracy": "right", "text": "text", "response": "text"})
    assert run.texts is not None
    assert [len(one.prompt) for one in run.texts()] == [200_000, 1]
