from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorclass.scores import ScoreFileError, read_run

DATE = "2025-01-31T10-20-30.123456"


@pytest.fixture
def details(tmp_path: Path) -> Callable[..., Path]:
    """Write details as lighteval does, and a results file if there are results."""

    def write(rows: list[dict[str, Any]], results: dict[str, Any] | None = None) -> Path:
        path = tmp_path / "out" / "details" / "org" / "model" / DATE / f"details_lighteval|gsm8k|5_{DATE}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
        if results is not None:
            file = tmp_path / "out" / "results" / "org" / "model" / f"results_{DATE}.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps({"results": results}))
        return path

    return write


def row(number: int, metrics: dict[str, Any], **document: Any) -> dict[str, Any]:
    return {
        "__doc__": {"query": f"question {number}", "id": str(number), "choices": ["A", "B"], **document},
        "__model_response__": {"text": [f"answer {number}", "other"], "input_tokens": [1, 2]},
        "__metric__": metrics,
    }


def test_metrics_of_rows_are_figures(details: Callable[..., Path]) -> None:
    rows = [row(number, {"extractive_match": number % 2, "length": 10 * number}) for number in range(4)]
    run = read_run(details(rows))
    report = run.scores.aggregate()
    assert {name: (one.value.item(), one.unit) for name, one in report.items()} == {
        "extractive_match": (0.5, "%"),
        "length": (15.0, ""),
    }
    assert (run.format, run.model, run.task) == ("lighteval", "org/model", "lighteval|gsm8k|5")


def test_figures_of_the_results_file_are_published(details: Callable[..., Path]) -> None:
    results = {"lighteval|gsm8k|5": {"em": 0.5, "em_stderr": 0.25}, "all": {"em": 0.1}}
    run = read_run(details([row(number, {"em": number % 2}) for number in range(4)], results))
    assert (run.published["em"].value, run.published["em"].stderr) == (0.5, 0.25)
    assert [Path(file).suffix for file in run.files] == [".parquet", ".json"]


def test_texts_are_the_query_and_the_first_response(details: Callable[..., Path]) -> None:
    run = read_run(details([row(number, {"em": 1}) for number in range(3)]))
    assert run.texts is not None
    texts = list(run.texts())
    assert [one.prompt_id for one in texts] == run.scores.prompt_id.tolist()
    assert (texts[2].prompt, texts[2].response) == ("question 2", "answer 2")


def test_documents_without_numbers_are_known_by_their_text(details: Callable[..., Path]) -> None:
    run = read_run(details([row(number, {"em": 1}, id="") for number in range(3)]))
    assert len(set(run.scores.prompt_id.tolist())) == 3


def test_columns_of_older_versions_are_read(details: Callable[..., Path]) -> None:
    rows = [
        {
            "example": f"question {number}",
            "metrics": {"acc": float(number)},
            "predictions": [f"{number}"],
            "hash": {"x": "1"},
        }
        for number in range(2)
    ]
    run = read_run(details(rows))
    assert run.scores.aggregate()["acc"].value.item() == 0.5
    assert run.texts is not None
    assert [text.response for text in run.texts()] == ["0", "1"]


def test_metrics_that_are_no_numbers_are_left_out(details: Callable[..., Path]) -> None:
    run = read_run(details([row(number, {"em": 1, "bleu": ["a", "b"]}) for number in range(2)]))
    assert run.left_out == ("bleu: no number, but ['a', 'b']",)
    assert list(run.scores.aggregate()) == ["em"]


def test_details_without_a_number_are_an_error(details: Callable[..., Path]) -> None:
    with pytest.raises(ScoreFileError, match=r"no metric of the rows is a number \(metrics: bleu\)"):
        read_run(details([row(0, {"bleu": ["a", "b"]})]))


def test_details_that_are_cut_off_are_an_error(details: Callable[..., Path]) -> None:
    path = details([row(0, {"em": 1})])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ScoreFileError, match="the Parquet file is cut off or damaged"):
        read_run(path)
