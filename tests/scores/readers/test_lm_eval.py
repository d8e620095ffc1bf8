"""Sample logs of lm-evaluation-harness, alone and beside the results files of their runs."""

from __future__ import annotations

import gzip
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass import assert_close
from tensorclass.scores import (
    ExactMatchScoreData,
    MultipleChoiceScoreData,
    Run,
    ScoreFileError,
    load_scores,
    read_run,
    read_runs,
    read_scores,
    save_scores,
)
from tensorclass.scores.readers import lm_eval_results, projected_rows
from tensorclass.scores.readers.lm_eval_columns import LoggedColumns

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]

DATE = "2026-01-02T03-04-05.678901"


@pytest.fixture
def logs(data_dir: Path) -> Path:
    """Logs of public runs; where they are absent, the test is skipped."""
    return data_dir / "logs" / "lm-eval"


def results(**changes: Any) -> str:
    """A results file of the task arc."""
    content = {
        "results": {"arc": {"alias": "arc", "acc,none": 0.5, "acc_stderr,none": 0.25, "bleu,none": 31.5}},
        "group_subtasks": {"arc": [], "science": ["arc", "physics"], "physics": ["forces"]},
        "configs": {"arc": {"metric_list": [{"metric": "acc", "aggregation": "mean"}]}},
        "higher_is_better": {"arc": {"acc": True, "bleu": True}},
        "n-samples": {"arc": {"original": 90, "effective": 4}},
        "model_name": "example/model-a",
    }
    return json.dumps({**content, **changes})


def log(write: Write, log_row: Make, values: list[float], **changes: Any) -> Path:
    rows = [log_row(number, {"acc": value}, **changes) for number, value in enumerate(values)]
    return write(f"example__model-a/samples_arc_{DATE}.jsonl", rows)


# --- published figures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task, figures",
    [
        ("negotiationtom_belief", {"acc": 0.45}),
        ("negotiationtom_desire", {"acc": 0.6}),
        ("negotiationtom_intention", {"exact_match": 0.2, "micro_f1": 0.301887, "macro_f1": 0.252381}),
        ("stereotype_classification", {"acc": 0.683087, "acc_norm": 0.683087, "f1": 0.679262}),
    ],
)
def test_logs_give_the_figures_of_their_results_files(logs: Path, task: str, figures: dict[str, float]) -> None:
    (path,) = logs.glob(f"samples_{task}_*")
    run = read_run(path)
    report = run.scores.aggregate()
    assert {name: report[name].value.item() for name in figures} == pytest.approx(figures, abs=1e-6)
    assert {name: run.published[name].value for name in figures} == pytest.approx(figures, abs=1e-6)
    assert run.task == task
    assert run.model in ("Qwen/Qwen3-8B", "meta-llama/Meta-Llama-3-8B")
    assert all(run.higher_is_better.values())
    for name, said in run.published.items():
        # bootstrapped there and here, so alike; the others are equal but for documents that occur twice
        assert said.stderr is None or report[name].stderr.item() == pytest.approx(said.stderr, rel=0.05)


def test_figures_of_texts_are_named_with_what_the_results_file_says(logs: Path) -> None:
    (path,) = logs.glob("samples_masakhaner_*")
    with pytest.raises(ScoreFileError, match=r"f1: the rows hold .* \(the results file says 0.065627\)"):
        read_run(path)


def test_groups_are_those_of_the_results_file(logs: Path) -> None:
    (path,) = logs.glob("samples_negotiationtom_belief_*")
    tasks = tuple(f"negotiationtom_{name}" for name in ("belief", "desire", "intention"))
    assert read_run(path).groups == {"negotiationtom": tasks}


# --- results files ---------------------------------------------------------------------------------------------------


def test_a_results_file_beside_the_log_says_model_figures_and_groups(write: Write, log_row: Make) -> None:
    path = log(write, log_row, [1.0, 0.0, 1.0, 0.0])
    beside = write(f"example__model-a/results_{DATE}.json", results())
    run = read_run(path)
    assert run.files == (str(path), str(beside))
    assert (run.model, run.task, run.notes) == ("example/model-a", "arc", ())
    assert (run.published["acc"].value, run.published["acc"].stderr, run.published["bleu"].stderr) == (0.5, 0.25, None)
    assert run.higher_is_better == {"acc": True, "bleu": True}
    assert run.groups == {"science": ("arc", "forces"), "physics": ("forces",)}


def test_without_a_results_file_the_folder_says_the_model(write: Write, log_row: Make) -> None:
    run = read_run(log(write, log_row, [1.0]))
    assert (run.model, run.task, run.published) == ("example/model-a", "arc", {})
    plain = read_run(write("gpt4.jsonl", [log_row(0, {"acc": 1.0})]))
    assert (plain.model, plain.task) == ("gpt4", None)


def test_results_of_another_date_or_task_are_not_taken(write: Write, log_row: Make) -> None:
    path = log(write, log_row, [1.0])
    write("example__model-a/results_2027-01-02T03-04-05.678901.json", results())
    write(f"example__model-a/results_{DATE}.json", results(results={"other": {"acc,none": 0.0}}))
    assert read_run(path).published == {}


def test_a_results_file_can_be_given(write: Write, log_row: Make) -> None:
    path = log(write, log_row, [1.0, 0.0, 1.0, 0.0])
    given = write("elsewhere.json", results())
    assert read_run(path, results=given).published["acc"].value == 0.5
    other = write("other.json", results(results={"piqa": {"acc,none": 0.5}}))
    with pytest.raises(ScoreFileError, match=r"other.json: expected figures of the task 'arc', got those of 'piqa'"):
        read_run(path, results=other)


def test_figures_that_disagree_with_the_results_file_are_an_error_with_both(write: Write, log_row: Make) -> None:
    path = log(write, log_row, [1.0, 0.0, 0.0, 0.0])
    beside = write(f"example__model-a/results_{DATE}.json", results())
    with pytest.raises(ScoreFileError) as caught:
        read_run(path)
    assert str(caught.value) == (
        f"{path}: acc: the rows give 0.25, but {beside} says 0.5; these are files of different runs, or one of them "
        "was changed"
    )


@pytest.mark.parametrize("verdicts", [[1.0, 0.0], [1.0, 0.0, 0.0]], ids=["the same figure", "another figure"])
def test_a_log_with_fewer_rows_is_an_error_unless_some_may_be_missing(
    write: Write, log_row: Make, verdicts: list[float]
) -> None:
    path = log(write, log_row, verdicts)
    write(f"example__model-a/results_{DATE}.json", results())
    with pytest.raises(ScoreFileError, match=rf"holds {len(verdicts)} of the 4 rows of its run: .* --missing drop"):
        read_run(path)
    for most in (None, 0.5):
        run = read_run(path, max_missing=most)
        assert run.notes == (f"{len(verdicts)} rows, but 4 documents in results_{DATE}.json",)
        assert (len(run.scores), run.expected) == (len(verdicts), 4)


def test_a_metric_that_the_task_does_not_average_is_left_out_and_named(write: Write, log_row: Make) -> None:
    rows = [log_row(number, {"acc": 1.0, "worst": float(number)}) for number in range(4)]
    path = write(f"m/samples_arc_{DATE}.jsonl", rows)
    said = {"arc": {"acc,none": 1.0, "worst,none": 3.0}}
    listed = {"arc": {"metric_list": [{"metric": "worst", "aggregation": "def worst(items): ..."}]}}
    write(f"m/results_{DATE}.json", results(results=said, configs=listed))
    run = read_run(path)
    assert list(run.scores.aggregate()) == ["acc"]
    assert run.left_out == (
        "worst: the task makes its figure otherwise than as the mean over rows (1.5) (the results file says 3)",
    )


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", r"results_.*\.json:1: not JSON"),
        ("[]", r"results_.*\.json: expected a results file of lm-evaluation-harness"),
    ],
)
def test_a_broken_results_file_is_an_error(write: Write, log_row: Make, content: str, message: str) -> None:
    path = log(write, log_row, [1.0])
    write(f"example__model-a/results_{DATE}.json", content)
    with pytest.raises(ScoreFileError, match=message):
        read_run(path)


def test_a_results_file_is_parsed_once_for_all_logs_of_its_run(
    write: Write, log_row: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"arc": {"acc,none": 1.0}, "piqa": {"acc,none": 1.0}}
    write(f"m/results_{DATE}.json", results(results=said, **{"n-samples": {}}))
    logs = [write(f"m/samples_{task}_{DATE}.jsonl", [log_row(0, {"acc": 1.0})]) for task in said]
    read = lm_eval_results.read_whole
    opened: list[str] = []
    monkeypatch.setattr(lm_eval_results, "read_whole", lambda *given: opened.append(given[1]) or read(*given))
    assert [run.model for run in read_runs(logs)] == ["example/model-a"] * 2
    assert [Path(name).name for name in opened] == [f"results_{DATE}.json"]


def test_figures_of_older_results_files_have_no_filter(write: Write, log_row: Make) -> None:
    path = log(write, log_row, [1.0, 0.0, 1.0, 0.0])
    said = {"arc": {"acc": 0.5, "acc_stderr": 0.25, "version": 0}}
    write(f"example__model-a/results_{DATE}.json", results(results=said))
    assert list(read_run(path).published) == ["acc"]


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_of_any_name_are_read(write: Write, log_row: Make) -> None:
    rows = [log_row(n, {"pass@1": n / 4, "mae": 3.0 - n, "acc": True, "bleu": ["a", ["b"]]}) for n in range(4)]
    run = read_run(write("log.jsonl", rows))
    report = run.scores.aggregate()
    figures = {name: (one.value.item(), one.unit) for name, one in report.items()}
    assert figures == {"pass@1": (0.375, "%"), "mae": (1.5, ""), "acc": (1.0, "%")}
    assert run.ignored == ("bleu",)
    assert run.left_out == ("bleu: the rows hold lists, of which lm-evaluation-harness makes one figure for all rows",)
    assert pickle.loads(pickle.dumps(run)).scores.aggregate()["pass@1"].value.item() == 0.375


def test_a_metric_of_unknown_name_is_a_share_if_its_values_are_fractions(write: Write, log_row: Make) -> None:
    rows = [log_row(number, {"tone": number / 2, "words": 10.0 * number, "mcc": 0.5}) for number in range(3)]
    report = read_scores(write("log.jsonl", rows)).aggregate()
    assert {name: one.unit for name, one in report.items()} == {"tone": "%", "words": "", "mcc": ""}


def test_percents_of_a_known_share_are_an_error(write: Write, log_row: Make) -> None:
    path = write("log.jsonl", [log_row(0, {"em": 1.0, "f1": 0.5}), log_row(1, {"em": 87.5, "f1": 0.5})])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:2: em: expected a fraction from 0 to 1.*divide percents"):
        read_run(path)


def test_metrics_that_only_later_rows_name_are_named(write: Write, log_row: Make) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0}), log_row(1, {"acc": 1.0, "bleu": 0.5})])
    assert read_run(path).ignored == ("bleu",)


def test_a_metric_that_no_row_has_is_noted(write: Write, log_row: Make) -> None:
    rows = [log_row(number, {"acc": None, "acc_norm": 1.0}) for number in range(3)]
    run = read_run(write("log.jsonl", rows))
    assert run.notes == ("acc: no row is scored, each is null or NaN",)
    with pytest.raises(ScoreFileError, match=r"none.jsonl: no row is scored: acc is null or NaN in all 3 rows"):
        read_run(write("none.jsonl", [log_row(number, {"acc": None}) for number in range(3)]))


def pairs(write: Write, log_row: Make, metric: str, values: list[Any], said: float | None = None) -> Run:
    """The run of a log whose rows hold pairs, with the figure that a results file says."""
    path = write(f"m/samples_arc_{DATE}.jsonl", [log_row(n, {metric: value}) for n, value in enumerate(values)])
    (path.parent / f"results_{DATE}.json").unlink(missing_ok=True)
    if said is not None:
        write(f"m/results_{DATE}.json", json.dumps({"results": {"arc": {f"{metric},none": said}}}))
    return read_run(path)


CLASSES = [[1, 1], [1, 0], [0, 0], [0, 0], [0, 1], [1, 1]]  # expected, predicted


@pytest.mark.parametrize(
    "metric, values, figure, unit",
    [
        ("f1", CLASSES, 2 / 3, "%"),
        ("macro_f1", CLASSES, 2 / 3, "%"),
        ("weighted_f1", [[0, 0], [0, 1], [0, 1], [1, 1]], 0.5, "%"),
        ("micro_f1", [[0, 0], [2, 1]], 0.5, "%"),
        ("mcc", CLASSES, 1 / 3, ""),
        ("micro_f1", [[["a", "b"], ["a"]], [["c"], ["c", "a"]], [[], []]], 2 * 2 / (3 + 3), "%"),
        ("macro_f1", [[["a", "b"], ["a"]], [["c"], ["c", "a"]]], (2 / 3 + 0 + 1) / 3, "%"),
        ("word_perplexity", [[-2.0, 1], [-4.0, 2]], math.exp(2), ""),
        ("byte_perplexity", [[-2.0, 4]], math.exp(0.5), ""),
        ("bits_per_byte", [[-2.0, 1], [-4.0, 2]], 2 / math.log(2), "bits"),
        ("perplexity", [-1.0, -3.0], math.exp(2), ""),
    ],
)
def test_figures_of_pairs_are_computed(
    write: Write, log_row: Make, metric: str, values: list[Any], figure: float, unit: str
) -> None:
    run = pairs(write, log_row, metric, values)
    one = run.scores.aggregate()[metric]
    assert one.value.item() == pytest.approx(figure)
    assert one.unit == unit
    assert run.notes[0].startswith(f"{metric}: ")
    save_scores(run.scores, write("scores.pt", ""))
    again = pickle.loads(pickle.dumps(load_scores(write("x", "").with_name("scores.pt"))))
    assert again.aggregate()[metric].value.item() == one.value.item()


def test_the_results_file_says_which_f1_is_meant(write: Write, log_row: Make) -> None:
    values = [[0, 0], [0, 1], [0, 1], [1, 1]]
    assert pairs(write, log_row, "f1", values, 0.5).notes == ("f1: F1",)
    uneven = [[0, 0], [0, 0], [0, 1], [1, 1]]
    weighted = 0.75 * 0.8 + 0.25 * (2 / 3)
    run = pairs(write, log_row, "f1", uneven, weighted)
    assert run.scores.aggregate()["f1"].value.item() == pytest.approx(weighted)
    assert "weighted by how often each is expected" in run.notes[0]


def test_a_figure_of_pairs_that_is_none_of_those_known_is_named(write: Write, log_row: Make) -> None:
    with pytest.raises(ScoreFileError, match=r"f1: the task makes its figure otherwise than .*file says 0.123"):
        pairs(write, log_row, "f1", CLASSES, 0.123)
    with pytest.raises(ScoreFileError, match=r"f1: rows hold pairs, and without a results file it may be F1 or"):
        pairs(write, log_row, "f1", [[0, 2], [1, 1]])


@pytest.mark.parametrize(
    "metric, value, message",
    [
        ("f1", [1], "f1: expected a pair, the expected and the predicted class"),
        ("f1", [1, "a"], "f1: expected a finite number"),
        ("word_perplexity", [-1.0, 0], "word_perplexity: expected a number of units above 0"),
        ("perplexity", "a", "perplexity: expected a finite number"),
    ],
)
def test_a_value_that_is_no_pair_is_an_error(
    write: Write, log_row: Make, metric: str, value: object, message: str
) -> None:
    first = {"f1": [1, 0], "word_perplexity": [-1.0, 2], "perplexity": -1.0}[metric]
    with pytest.raises(ScoreFileError, match=rf"jsonl:2: {message}"):
        pairs(write, log_row, metric, [first, value])


# --- filters ---------------------------------------------------------------------------------------------------------


def test_each_task_has_its_filter(write: Write, log_row: Make) -> None:
    gsm8k = [
        log_row(n, {"exact_match": float(name == "loose")}, filter=name) for name in ("strict", "loose") for n in (0, 1)
    ]
    paths = [
        write(f"samples_gsm8k_{DATE}.jsonl", gsm8k),
        write(f"samples_arc_{DATE}.jsonl", [log_row(0, {"acc": 1.0})]),
    ]
    found = read_runs(paths, filter={"gsm8k": "loose"})
    assert [(run.filter, run.scores.batch_size[0]) for run in found] == [("loose", 2), ("none", 1)]
    with pytest.raises(ScoreFileError, match="expected rows of 'loose', got only rows of 'none'"):
        read_runs(paths, filter="loose")


# --- files -----------------------------------------------------------------------------------------------------------


def test_an_array_of_rows_is_read(write: Write, log_row: Make) -> None:
    rows = [log_row(number, {"acc": float(number > 1)}) for number in range(4)]
    for text in (json.dumps(rows), json.dumps(rows, indent=2)):
        run = read_run(write(f"samples_arc_{DATE}.json", text))
        assert (run.task, run.scores.acc.tolist()) == ("arc", [0.0, 0.0, 1.0, 1.0])
        assert run.texts is not None
        assert len(list(run.texts())) == 4
    rows[2]["acc"] = "yes"
    with pytest.raises(ScoreFileError, match=r"bad.json:3: acc: expected a finite number"):
        read_run(write("bad.json", json.dumps(rows)))


def test_rows_are_the_same_in_chunks_and_one_by_one(
    write: Write, log_row: Make, ifeval_row: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [None, True, False, 0.25, 1]
    mixed = [log_row(n, {"acc": every[n % 5], "f1": n / 40}, filter="ab"[n % 3 == 0]) for n in range(40)]
    mixed[7]["resps"] = [[float("nan")]]  # is no JSON: this chunk is read row by row
    verdicts = [ifeval_row(n, [bool(n % 2)] * (n % 3 + 1)) for n in range(40)]
    for rows in (mixed, verdicts):
        path = write(f"samples_arc_{DATE}.jsonl", rows)
        found: list[Run] = []
        for size in (projected_rows.CHUNK, 1500, 10):
            monkeypatch.setattr(projected_rows, "CHUNK", size)
            found.append(read_run(path))
        whole = LoggedColumns.add_all
        monkeypatch.setattr(LoggedColumns, "add_all", _none_at_once)
        found.append(read_run(path))
        monkeypatch.setattr(LoggedColumns, "add_all", whole)
        for run in found[1:]:
            assert (run.filters, run.ignored, run.notes) == (found[0].filters, found[0].ignored, found[0].notes)
            assert_close(run.scores, found[0].scores, equal_nan=True)
            assert run.scores.prompt_id.tolist() == found[0].scores.prompt_id.tolist()


def _none_at_once(columns: LoggedColumns, structs: list[Any], *, is_narrow: bool) -> None:
    from tensorclass.scores.readers.growing_columns import Misfit

    raise Misfit


def test_texts_are_read_when_they_are_asked_for(write: Write, log_row: Make) -> None:
    generated = log_row(0, {"exact_match": 1.0}, filter="b", filtered_resps=["42"], target="42")
    choices = {
        "gen_args_0": {"arg_0": "Pick:", "arg_1": " red"},
        "gen_args_1": {"arg_0": "Pick:", "arg_1": " blue"},
    }
    picked = log_row(1, {"exact_match": 1.0}, filter="b", arguments=choices)
    picked["filtered_resps"] = [["-3.5", "False"], ["-0.5", "True"]]
    path = write("log.jsonl", [log_row(0, {"exact_match": 0.0}, filter="a"), generated, picked])
    run = read_run(path, filter="b")
    assert run.texts is not None
    texts = list(pickle.loads(pickle.dumps(run.texts))())
    assert [one.prompt_id for one in texts] == run.scores.prompt_id.tolist()
    assert [(one.prompt, one.response, one.target) for one in texts] == [
        ("question", "42", "42"),
        ("Pick:", " blue", "1"),
    ]


def test_families_are_those_of_the_package_where_they_have_all_metrics(write: Write, log_row: Make) -> None:
    assert type(read_scores(write("a.jsonl", [log_row(0, {"exact_match": 1.0})]))) is ExactMatchScoreData
    assert type(read_scores(write("b.jsonl", [log_row(0, {"acc_norm": 1.0})]))) is MultipleChoiceScoreData


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_errors_name_the_line_in_later_chunks(
    write: Write, log_row: Make, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(projected_rows, "CHUNK", 1000)
    rows = [json.dumps(log_row(number, {"acc": 1.0})) for number in range(30)]
    rows[3] = rows[3].replace("1.0", "NaN")  # is read row by row
    rows[20] = rows[20].replace("1.0", "2.0")
    rows.insert(10, "")
    data = "\n".join(rows).encode()
    path = write(f"log.jsonl{suffix}", gzip.compress(data) if suffix else data)
    with pytest.raises(ScoreFileError, match=r"log.jsonl[.gz]*:22: acc: expected a fraction from 0 to 1"):
        read_run(path)
