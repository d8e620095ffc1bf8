"""Logs with a row for each scored answer, as tau-bench, SWE-bench, promptfoo and others write them."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main
from tensorclass.scores import Run, ScoreFileError, read_run, read_runs
from tests.scores.hostile_files import content
from tests.scores.log_samples import LOG_SAMPLES

Write = Callable[..., Path]

#: of each sample: the name of the reader, the figures, the model and the task
EXPECTED: dict[str, tuple[str, dict[str, float], str | None, str | None]] = {
    "tau_bench": ("tau_bench", {"pass^1": 0.5, "pass^2": 1 / 3, "pass^3": 0.25}, None, "tau-bench/retail"),
    "tau_bench, version 2": ("tau_bench", {"pass^1": 0.5, "pass^2": 0.0}, "gpt-4.1", "tau-bench/telecom"),
    "swe_bench": ("swe_bench", {"resolved": 0.4}, "org/model-1", "swe-bench"),
    "swe_bench, submission": ("swe_bench", {"resolved": 1 / 3}, None, "swe-bench"),
    "swe_bench, instances": ("swe_bench", {"resolved": 0.5}, None, "swe-bench"),
    "openai_evals": ("openai_evals", {"accuracy": 0.75}, "gpt-4", "test-match.s1.simple-v0"),
    "live_code_bench": ("live_code_bench", {"pass@1": 0.5}, None, "livecodebench"),
    "math_harness": ("math_harness", {"acc": 0.375}, None, None),
    "mmlu_pro": ("mmlu_pro", {"acc": 0.5}, None, "mmlu_pro"),
    "wild_bench": ("wild_bench", {"wb_score": 6.0}, "org/model", "wildbench"),
    "evalplus, BigCodeBench": ("evalplus", {"pass@1": 0.5}, None, "BigCodeBench"),
}


@pytest.fixture
def sample(tmp_path: Path) -> Callable[[str], Path]:
    """Write the files of a format, and return the first of them."""

    def write(form: str) -> Path:
        for name, value in LOG_SAMPLES[form]().items():
            (tmp_path / name).write_bytes(content(name, value))
        return tmp_path / next(iter(LOG_SAMPLES[form]()))

    return write


def figures(run: Run) -> dict[str, float]:
    return {name: one.value.item() for name, one in run.scores.aggregate().items()}


@pytest.mark.parametrize("form", EXPECTED)
def test_figures_models_and_tasks(form: str, sample: Callable[[str], Path]) -> None:
    name, expected, model, task = EXPECTED[form]
    run = read_run(sample(form))
    assert (run.format, run.model, run.task) == (name, model, task)
    assert figures(run) == pytest.approx(expected)


def test_the_cost_of_a_tau_bench_run_is_that_of_the_model_and_not_of_the_simulated_user(
    sample: Callable[[str], Path],
) -> None:
    assert read_run(sample("tau_bench")).usage == {}
    assert read_run(sample("tau_bench, version 2")).usage["cost"] == 0.5


@pytest.mark.parametrize("form", [form for form in LOG_SAMPLES if not form.startswith(("arena", "figures", "swe"))])
def test_texts_are_those_of_the_rows(form: str, sample: Callable[[str], Path]) -> None:
    for run in read_runs([sample(form)]):
        again = pickle.loads(pickle.dumps(run))
        assert [text.prompt_id for text in again.texts()] == run.scores.prompt_id.tolist()


ROWS = [form for form, files in LOG_SAMPLES.items() if isinstance(next(iter(files().values())), list)]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet", ".jsonl.gz", ".zip"])
@pytest.mark.parametrize("form", ROWS)
def test_rows_may_be_lines_an_array_parquet_or_in_an_archive(
    form: str, suffix: str, sample: Callable[[str], Path], tmp_path: Path
) -> None:
    path = sample(form)
    rows = next(iter(LOG_SAMPLES[form]().values()))
    if suffix == ".parquet" and form == "openai_evals":
        pytest.skip("events of several types are no table")
    other = tmp_path / f"other-retail{suffix}"
    if suffix == ".zip":
        other.write_bytes(content("x.zip", {"logs/other-retail.json": rows}))
    elif suffix.endswith(".gz"):
        other.write_bytes(gzip.compress(content("x.jsonl", rows)))
    else:
        other.write_bytes(content(f"x{suffix}", rows))
    first, second = read_runs([path]), read_runs([other])
    assert [one.scores.aggregate().to_dict() for one in first] == [one.scores.aggregate().to_dict() for one in second]
    assert [(one.format, one.task, one.model) for one in first] == [(one.format, one.task, one.model) for one in second]


@pytest.mark.parametrize("form", [form for form in ROWS if form != "openai_evals"])
def test_other_keys_and_their_order_do_not_matter(form: str, sample: Callable[[str], Path], write: Write) -> None:
    rows = next(iter(LOG_SAMPLES[form]().values()))
    turned = [dict(reversed([*row.items(), ("a new key", [1, {"x": None}])])) for row in rows]
    path = write("turned-retail.jsonl", turned)
    both = [[figures(one) for one in read_runs([file])] for file in (sample(form), path)]
    assert both[0] == both[1]


# --- single formats --------------------------------------------------------------------------------------------------


def test_ratings_of_an_arena_have_intervals(sample: Callable[[str], Path]) -> None:
    run = read_run(sample("arena"))
    ratings = run.scores.aggregate().groups["elo"]
    assert {name: round(one.value.item()) for name, one in ratings.items()} == {"alpha": 1000, "beta": 1000}
    assert run.notes[0] == "8 battles of 2 models, 4 of them ties, 0 without a verdict"
    csv = read_run(sample("arena, CSV"))
    assert csv.scores.outcome.tolist() == [1.0, 1.0, 0.5]


@pytest.mark.parametrize(
    "winner, outcome",
    [("model_a", 1.0), ("model_b", 0.0), ("beta", 0.0), ("A", 1.0), ("tie", 0.5), ("Tie (both bad)", 0.5)],
)
def test_winners_of_battles(winner: str, outcome: float, write: Write) -> None:
    path = write("battles.jsonl", [{"model_a": "alpha", "model_b": "beta", "winner": winner}])
    assert read_run(path).scores.outcome.tolist() == [outcome]


def test_a_winner_that_is_none_of_the_models_names_the_line(write: Write) -> None:
    row = {"model_a": "alpha", "model_b": "beta", "winner": "tie"}
    path = write("battles.jsonl", [row, {**row, "winner": "gamma"}])
    with pytest.raises(
        ScoreFileError, match=r"battles\.jsonl:2: winner: expected model_a, model_b, tie .* got 'gamma'"
    ):
        read_run(path)


def test_each_provider_of_promptfoo_is_a_model_with_its_cost(sample: Callable[[str], Path]) -> None:
    a, b = read_runs([sample("promptfoo")])
    assert (a.model, b.model) == ("openai:a", "openai:b")
    assert (figures(a)["pass"], figures(b)["pass"]) == (pytest.approx(2 / 3), 1.0)
    assert a.usage == pytest.approx({"cost": 0.002, "tokens": 20, "seconds": 0.5})
    assert a.scores.prompt_id.tolist() == b.scores.prompt_id.tolist()


def test_prompts_of_promptfoo_are_told_apart(write: Write) -> None:
    (result, *_) = LOG_SAMPLES["promptfoo, lines"]()["output.jsonl"]
    results = [{**result, "promptIdx": n, "prompt": {"raw": "r", "label": f"prompt {n}"}} for n in (0, 1)]
    runs = read_runs([write("out.json", json.dumps({"evalId": "e", "results": {"results": results}}))])
    assert [run.model for run in runs] == ["openai:a, 0", "openai:a, 1"]


def test_all_instances_of_swe_bench_count(sample: Callable[[str], Path]) -> None:
    run = read_run(sample("swe_bench"))
    assert run.scores.batch_size == (5,)
    assert run.notes == ("2 of 5 instances without a patch or with an error: not resolved",)
    assert run.published["resolved"].value == 0.4


def test_an_answer_that_was_not_found_is_wrong_and_said(sample: Callable[[str], Path]) -> None:
    run = read_run(sample("mmlu_pro"))
    assert run.notes == ("1 of 4 rows: no answer was found in the response; counted as wrong",)
    assert list(run.scores.aggregate().groups["acc"]) == ["law", "math"]


def test_a_list_of_verdicts_holds_repeats(sample: Callable[[str], Path]) -> None:
    run = read_run(sample("math_harness"))
    assert run.scores.batch_size == (8,)
    assert run.scores.aggregate()["acc"].prompts == 4


def test_a_judge_without_a_score_is_said(write: Write) -> None:
    rows = [{"session_id": str(n), "model_output": "m", "score": score} for n, score in enumerate(["8", "N/A", "6"])]
    run = read_run(write("wild.json", json.dumps(rows)))
    assert figures(run) == {"wb_score": 7.0}
    assert run.notes == ("1 of 3 rows: the judge's score is no number",)


def test_openai_evals_say_their_seed(sample: Callable[[str], Path]) -> None:
    assert read_run(sample("openai_evals")).conditions == {"seed": "20220722"}


def test_metrics_of_openai_evals_are_figures(write: Write) -> None:
    events = [
        {"spec": {"completion_fns": ["m"], "eval_name": "e", "base_eval": "e"}},
        *({"run_id": "r", "event_id": n, "sample_id": f"e.{n}", "type": "metrics", "data": data} for n, data in
          enumerate([{"choice": "Y", "score": 1.0}, {"choice": "N", "score": 0.5}])),
    ]  # fmt: skip
    run = read_run(write("log.jsonl", events))
    assert figures(run) == {"score": 0.75}
    assert run.notes == ("the log has no final_report: the run may not have ended",)


def test_columns_that_the_caller_names_are_read_as_a_table(write: Write) -> None:
    rows = [{"question_id": n, "options": [], "answer": "A", "pred": "A", "right": n % 2} for n in range(4)]
    run = read_run(write("rows.jsonl", rows), columns={"prompt": "question_id", "accuracy": "right"})
    assert (run.format, figures(run)) == ("table", {"accuracy": 0.5})


def test_keys_of_rows_make_groups_and_clusters(write: Write) -> None:
    rows = [
        {"question_id": n, "options": [], "answer": "A", "pred": "AB"[n % 2], "src": f"s{n // 2}"} for n in range(8)
    ]
    run = read_run(write("rows.jsonl", rows), columns={"group": "src", "cluster": "src"})
    assert list(run.scores.aggregate().groups["acc"]) == ["s0", "s1", "s2", "s3"]


@pytest.mark.parametrize(
    "row, problem",
    [
        ({"task_id": 1, "trial": 0, "reward": "much"}, "reward: expected a finite number, got 'much'"),
        ({"task_id": None, "trial": 0, "reward": 1.0}, "task_id: expected in each row, but this one lacks it"),
        ({"graded_list": [], "question_id": "1"}, "graded_list: expected the verdicts of the samples in a list"),
        ({"idx": 1, "gt": "1", "pred": ["1"], "score": ["perhaps"]}, "score: expected true or false, got 'perhaps'"),
        ({"session_id": None, "model_output": "", "score": "3"}, "session_id: expected in each row"),
    ],
)
def test_a_row_that_holds_no_score_names_the_line(row: dict[str, Any], problem: str, write: Write) -> None:
    with pytest.raises(ScoreFileError, match=rf"log\.jsonl:1: {problem}"):
        read_run(write("log.jsonl", [row]))


# --- figures only, archives, unknown formats -------------------------------------------------------------------------


def test_figures_without_logs_make_a_leaderboard_without_intervals(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    document = LOG_SAMPLES["figures only"]()["results.json"]
    write("a/results.json", json.dumps(document))
    document["config"]["model_args"] = "pretrained=org/other"
    document["results"]["piqa"]["acc"] = 0.5
    write("b/results.json", json.dumps(document, indent=2))
    assert main(["scores", str(tmp_path), "--leaderboard", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    board = found["leaderboard"]
    assert [(one["model"], one["macro"]["value"]) for one in board["models"]] == [
        ("org/other", 0.5), ("org/model", 0.375)
    ]  # fmt: skip
    assert [one["macro"]["low"] for one in board["models"]] == [None, None]
    assert all("figures only" in run["notes"][0] for run in found["runs"])


def test_filters_of_a_results_file_are_figures_of_their_own_and_groups_are_left_out(write: Write) -> None:
    document = {
        "results": {
            "gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.5, "exact_match,flexible-extract": 0.75},
            "mmlu": {"acc,none": 0.25},
            "mmlu_law": {"acc,none": 0.25, "acc_stderr,none": 0.1},
        },
        "groups": {"mmlu": {"acc,none": 0.25}},
        "group_subtasks": {"mmlu": ["mmlu_law"]},
        "config": {"model_args": {"pretrained": "org/m"}},
    }
    runs = read_runs([write("results_2026-01-01.json", json.dumps(document))])
    assert [run.task for run in runs] == ["gsm8k", "mmlu_law"]
    assert figures(runs[0]) == {"exact_match": 0.5, "flexible-extract/exact_match": 0.75}


def test_bigcode_states_figures(sample: Callable[[str], Path]) -> None:
    run = read_run(sample("figures only, bigcode"))
    assert (run.model, run.task, figures(run)) == ("org/coder", "humaneval", {"pass@1": 0.25, "pass@10": 0.5})


def test_an_archive_is_read_as_a_folder(tmp_path: Path) -> None:
    log = [{"doc_id": n, "metrics": ["acc"], "acc": n % 2, "filter": "none"} for n in range(4)]
    member = "org__model/samples_arc_2026-01-31T10-20-30.123456.jsonl"
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(member, "".join(json.dumps(row) + "\n" for row in log))
        file.writestr("readme.txt", "nothing")
    run = read_run(archive)
    assert (run.model, run.task, run.files) == ("org/model", "arc", (f"{archive}/{member}",))


def test_an_error_in_an_archive_names_the_member(write: Write) -> None:
    archive = write("all.zip", content("x.zip", {"a.json": [{"task_id": 1, "trial": 0, "reward": "much"}]}))
    with pytest.raises(ScoreFileError, match=r"all\.zip/a\.json:1: reward: expected a finite number"):
        read_run(archive)


def test_an_unknown_format_names_its_columns_first(write: Write) -> None:
    path = write("log.jsonl", [{"id": 7, "question": "q", "is_right": True}])
    with pytest.raises(ScoreFileError) as caught:
        read_run(path)
    text = str(caught.value)
    assert "with the columns 'id', 'question', 'is_right'" in text
    assert text.index("--columns prompt=id,accuracy=is_right") < text.index("formats that are read: ")
    assert figures(read_run(path, columns={"prompt": "id", "accuracy": "is_right"})) == {"accuracy": 1.0}
