"""Folders, patterns and results files stand for logs; each run is read once."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tensorclass.scores import ScoreFileError, read_runs
from tensorclass.scores.readers.log_files import log_files

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]

DATE = "2026-01-02T03-04-05.678901"


@pytest.fixture
def folder(write: Write, log_row: Make, reference_row: Make, tmp_path: Path) -> Path:
    """Runs of two models on two tasks, with a results file, and a pair of another format."""
    for place, model in enumerate(("a", "b")):
        for task in ("arc", "piqa"):
            rows = [log_row(n, {"acc": float(n > place)}) for n in range(4)]
            write(f"runs/{model}/samples_{task}_{DATE}.jsonl", rows)
    said = {"results": {"arc": {"acc,none": 0.75}, "piqa": {"acc,none": 0.75}}, "model_name": "model-a"}
    write(f"runs/a/results_{DATE}.json", json.dumps(said))
    for level in ("strict", "loose"):
        write(f"runs/c.eval_results_{level}.jsonl", [reference_row(0, [True])])
    write("runs/notes.txt", "some text")
    write("runs/settings.json", '{\n  "temperature": 0\n}')
    write("runs/.hidden/log.jsonl", "{")
    return tmp_path / "runs"


def test_a_folder_stands_for_the_logs_in_it(folder: Path) -> None:
    found = [(run.model, run.task) for run in read_runs([folder])]
    assert found == [(None, None), ("model-a", "arc"), ("model-a", "piqa"), ("b", "arc"), ("b", "piqa")]
    assert [path.name for path in log_files([folder]).unknown] == ["settings.json"]


def test_a_pattern_stands_for_the_files_that_have_such_a_name(folder: Path) -> None:
    assert [run.task for run in read_runs([f"{folder}/*/samples_arc_*"])] == ["arc", "arc"]
    assert [run.task for run in read_runs([f"{folder}/**/samples_piqa_*"])] == ["piqa", "piqa"]
    with pytest.raises(ScoreFileError, match=r"nothing\*: no file has a name of this pattern"):
        read_runs([folder / "nothing*"])


def test_a_file_whose_name_is_a_pattern_is_that_file(write: Write, log_row: Make) -> None:
    assert len(read_runs([write("log[1].jsonl", [log_row(0, {"acc": 1.0})])])) == 1


def test_a_results_file_stands_for_the_logs_beside_it(folder: Path) -> None:
    (results,) = (folder / "a").glob("results_*")
    assert [run.task for run in read_runs([results])] == ["arc", "piqa"]
    assert [run.task for run in read_runs([folder / "a" / f"samples_piqa_{DATE}.jsonl", results])] == ["piqa", "arc"]


def test_a_results_file_without_logs_is_an_error(write: Write) -> None:
    path = write(f"results_{DATE}.json", json.dumps({"results": {}}, indent=1))
    with pytest.raises(ScoreFileError, match="stands for the sample logs of its date beside it: there are none"):
        read_runs([path])


def test_a_folder_without_score_files_is_an_error(tmp_path: Path, write: Write) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScoreFileError, match="empty: expected score files in this folder, found none"):
        read_runs([tmp_path / "empty"])
    write("other/settings.json", "{\n}")
    with pytest.raises(ScoreFileError, match=r"other: expected .* found only files of unknown formats: settings.json"):
        read_runs([tmp_path / "other"])


def test_a_broken_file_in_a_folder_is_an_error(folder: Path, write: Write) -> None:
    write("runs/cut.jsonl", '{"doc_id": 1, "acc"')
    with pytest.raises(ScoreFileError, match=r"cut.jsonl:1: the line is cut off"):
        read_runs([folder])


@pytest.mark.parametrize("threads", [0, 2])
def test_errors_can_be_collected_while_the_other_files_are_read(folder: Path, write: Write, threads: int) -> None:
    broken = [write("runs/b/samples_cut_2026-01-01.jsonl", "{"), folder / "nowhere.jsonl", folder / "no*thing"]
    errors: list[ScoreFileError] = []
    with ThreadPoolExecutor(2) as pool:
        runs = read_runs([*broken, folder], on_error=errors.append, executor=pool if threads else None)
    assert len(runs) == 5
    assert [error.path for error in errors] == [str(broken[2]), str(broken[0]), str(broken[1])]


def test_the_same_run_in_two_files_is_an_error(write: Write, log_row: Make) -> None:
    rows = [log_row(0, {"acc": 1.0})]
    first = write("m/samples_arc_2026-01-01.jsonl", rows)
    second = write("m/samples_arc_2026-01-02.jsonl", rows)
    with pytest.raises(ScoreFileError) as caught:
        read_runs([first, second])
    assert str(caught.value) == f"{second}: holds the same run as {first}: the same model, task and rows; give one"


def test_another_run_of_the_same_model_and_task_is_read(write: Write, log_row: Make) -> None:
    first = write("m/samples_arc_2026-01-01.jsonl", [log_row(0, {"acc": 1.0})])
    second = write("m/samples_arc_2026-01-02.jsonl", [log_row(0, {"acc": 0.0})])
    runs = read_runs([first, second])
    assert [(run.files[0], run.notes) for run in runs] == [(str(first), ()), (str(second), ())]


def test_the_same_rows_under_two_seeds_are_two_runs(write: Write, log_row: Make) -> None:
    """At temperature 0, seeds give the same answers."""
    for seed in (1, 2):
        folder = write(f"m/seed{seed}/samples_arc_2026-01-01.jsonl", [log_row(0, {"acc": 1.0})]).parent.parent
    assert [run.model for run in read_runs([folder])] == ["m", "m"]
