from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from torch import Tensor

from tensorclass import field
from tensorclass.scores import Mean, Run, ScoreData, ScoreFileError, codes, metric, read_run
from tensorclass.scores.readers.inspect_ai import value_of

Write = Callable[..., Path]


def sample(number: int, scores: dict[str, Any] | None, epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "epoch": epoch,
        "input": [{"role": "user", "content": f"question {number}", "id": "random"}],
        "target": ["A", "B"],
        "output": {"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}}]},
        "scores": None if scores is None else {name: {"value": value, "answer": "x"} for name, value in scores.items()},
        "events": [{"event": "model", "huge": "x" * 100}],
        **more,
    }


def header(**more: Any) -> dict[str, Any]:
    evaluation = {"task": "arc", "model": "openai/gpt-4o", "dataset": {"name": "arc"}}
    return {"version": 2, "status": "success", "eval": evaluation, **more}


def archive(path: Path, samples: list[dict[str, Any]], members: dict[str, Any] | None = None) -> Path:
    members = {"header.json": header()} if members is None else members
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for one in samples:
            file.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        for name, content in members.items():
            file.writestr(name, json.dumps(content))
    return path


def figures(run: Run) -> dict[str, float]:
    return {name: round(one.value.item(), 4) for name, one in run.scores.aggregate().items()}


@pytest.mark.parametrize(
    "value, expected",
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        (True, 1.0),
        (0.25, 0.25),
        ("Yes", 1.0),
        ("no", 0.0),
        ("0.5", 0.5),
    ],
)
def test_values_are_converted_as_inspect_ai_converts_them(value: object, expected: float) -> None:
    assert value_of(value) == expected


@pytest.mark.parametrize("value", [None, float("nan"), "nan"])
def test_null_and_nan_are_not_scored(value: object) -> None:
    assert value_of(value) is None


def test_each_scorer_is_a_figure(tmp_path: Path) -> None:
    samples = [sample(1, {"match": "C", "f1": 0.5}), sample(2, {"match": "I", "f1": 0.25})]
    run = read_run(archive(tmp_path / "log.eval", samples))
    assert figures(run) == {"match": 0.5, "f1": 0.375}
    assert (run.format, run.model, run.task) == ("inspect_ai", "openai/gpt-4o", "arc")


def test_logs_of_version_one_have_one_score(tmp_path: Path) -> None:
    one = {**sample(1, None), "score": {"value": "C"}}
    assert figures(read_run(archive(tmp_path / "log.eval", [one]))) == {"score": 1.0}


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", [sample(number, {"match": "C"}) for number in range(3)])
    told: list[int] = []
    read_run(path, progress=lambda file: told.append)
    assert told == sorted(told)
    assert len(told) == 3
    assert told[-1] < path.stat().st_size


def test_a_document_gives_the_same_run_as_an_archive(tmp_path: Path, write: Write) -> None:
    samples = [sample(1, {"match": "C"}), sample(2, {"match": "I"})]
    run = read_run(write("log.json", json.dumps(header(samples=samples), indent=2)))
    other = read_run(archive(tmp_path / "log.eval", samples))
    assert run.scores.aggregate().to_dict() == other.scores.aggregate().to_dict()
    assert run.scores.prompt_id.tolist() == other.scores.prompt_id.tolist()


def test_values_of_a_dictionary_are_figures_of_their_own(tmp_path: Path) -> None:
    run = read_run(archive(tmp_path / "log.eval", [sample(1, {"judge": {"style": 3, "right": "C", "odd": None}})]))
    assert figures(run) == {"judge/style": 3.0, "judge/right": 1.0}
    report = run.scores.aggregate()
    assert (report["judge/style"].unit, report["judge/right"].unit) == ("", "%")


def test_values_of_a_list_are_figures_by_position(tmp_path: Path) -> None:
    assert figures(read_run(archive(tmp_path / "log.eval", [sample(1, {"judge": ["C", "I"]})]))) == {
        "judge/0": 1.0,
        "judge/1": 0.0,
    }


def test_epochs_are_repeats_of_their_sample(tmp_path: Path) -> None:
    samples = [sample(number, {"match": "CI"[epoch % 2]}, epoch) for epoch in (1, 2) for number in (1, 2, 3)]
    report = read_run(archive(tmp_path / "log.eval", samples)).scores.aggregate()
    assert (report["match"].value.item(), report["match"].prompts.item(), report["match"].count.item()) == (0.5, 3, 6)


def test_another_reducer_than_the_mean_is_a_figure_of_its_own(tmp_path: Path) -> None:
    samples = [sample(number, {"match": "CI"[epoch % 2]}, epoch) for epoch in (1, 2) for number in (1, 2)]
    reductions = [
        {"scorer": "match", "reducer": "mean", "samples": [{"sample_id": 1, "value": 0.5}]},
        {"scorer": "match", "reducer": "max", "samples": [{"sample_id": 1, "value": 1}, {"sample_id": 2, "value": 0}]},
    ]
    path = archive(tmp_path / "log.eval", samples, {"header.json": header(), "reductions.json": reductions})
    report = read_run(path).scores.aggregate()
    assert (report["match"].value.item(), report["match/max"].value.item()) == (0.5, 0.5)
    assert report["match/max"].count.item() == 2


def test_metadata_with_few_values_makes_groups(tmp_path: Path) -> None:
    samples = [
        sample(number, {"match": "CI"[number % 2]}, metadata={"subject": "ab"[number % 2], "confidence": number / 7})
        for number in range(6)
    ]
    run = read_run(archive(tmp_path / "log.eval", samples))
    groups = run.scores.aggregate().groups["match"]
    assert {name: one.value.item() for name, one in groups.items()} == {"a": 1.0, "b": 0.0}
    assert run.left_out == ("labels that make no groups: confidence",)


def test_figures_of_the_log_itself_are_published(tmp_path: Path) -> None:
    metrics = {"accuracy": {"name": "accuracy", "value": 0.5}, "stderr": {"value": 0.25}, "std": {"value": 0.7}}
    results = {"scores": [{"name": "match", "scorer": "match", "metrics": metrics}]}
    samples = [sample(1, {"match": "C"}), sample(2, {"match": "I"})]
    run = read_run(archive(tmp_path / "log.eval", samples, {"header.json": header(results=results)}))
    assert (run.published["match"].value, run.published["match"].stderr) == (0.5, 0.25)
    assert run.left_out == ("match: the log states std 0.7",)


def test_figures_of_the_log_that_differ_are_noted(tmp_path: Path) -> None:
    results = {"scores": [{"name": "match", "scorer": "match", "metrics": {"accuracy": {"value": 0.75}}}]}
    path = archive(tmp_path / "log.eval", [sample(1, {"match": "C"})], {"header.json": header(results=results)})
    assert read_run(path).notes == ("match: the rows give 1, but the log itself says 0.75",)


def test_metadata_may_be_clusters(tmp_path: Path) -> None:
    samples = [sample(number, {"match": "CI"[number % 2]}, metadata={"passage": number // 2}) for number in range(6)]
    path = archive(tmp_path / "log.eval", samples)
    figure = read_run(path, columns={"cluster": "passage"}).scores.aggregate()["match"]
    assert (figure.clusters.item(), figure.prompts.item()) == (3, 6)


def test_a_run_that_nobody_scored_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", [sample(1, {}), sample(2, None)])
    with pytest.raises(ScoreFileError, match="2 samples, none of them scored: there is nothing to aggregate"):
        read_run(path)


def test_a_log_without_samples_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScoreFileError, match=r"holds no samples"):
        read_run(archive(tmp_path / "log.eval", []))


def test_a_run_that_did_not_end_is_read_and_noted(tmp_path: Path) -> None:
    members = {"_journal/start.json": {"version": 2, "eval": {"task": "arc", "model": "m"}}}
    run = read_run(archive(tmp_path / "log.eval", [sample(1, {"match": "C"})], members))
    assert run.model == "m"
    assert run.notes == ("the run's status is 'started': the figures are of the 1 samples that it logged",)


def test_samples_with_errors_are_counted_in_a_note(tmp_path: Path) -> None:
    samples = [sample(1, {"match": "C"}), sample(2, None, error={"message": "timeout"})]
    run = read_run(archive(tmp_path / "log.eval", samples))
    assert run.scores.aggregate()["match"].count.item() == 1
    assert run.notes == ("1 of 2 samples ended with an error; one without a score isn't counted",)


def test_values_that_are_no_scores_are_noted(tmp_path: Path) -> None:
    run = read_run(archive(tmp_path / "log.eval", [sample(1, {"match": "C"}), sample(2, {"match": "maybe"})]))
    assert figures(run) == {"match": 1.0}
    assert run.notes == ("match: 1 values are no scores, such as 'maybe'; they aren't counted",)


def test_nan_in_json_is_not_scored(tmp_path: Path) -> None:
    run = read_run(archive(tmp_path / "log.eval", [sample(1, {"f1": float("nan")}), sample(2, {"f1": 0.5})]))
    assert run.scores.aggregate()["f1"].count.item() == 1


def test_texts_are_read_again_in_the_order_of_the_rows(tmp_path: Path) -> None:
    run = read_run(archive(tmp_path / "log.eval", [sample(1, {"match": "C"}), sample(2, {"match": "I"})]))
    assert run.texts is not None
    texts = list(run.texts())
    assert [text.prompt_id for text in texts] == run.scores.prompt_id.tolist()
    assert (texts[1].prompt, texts[1].response, texts[1].target) == ("question 2", "yes", "A\nB")


def test_members_compressed_with_zstd_are_read(tmp_path: Path) -> None:
    """Python before 3.14 neither writes nor reads them, so the archive is made by hand."""
    content = {"header.json": header(), "samples/1_epoch_1.json": sample(1, {"match": "C"})}
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        plain: dict[str, bytes] = {}
        for name, value in content.items():
            plain[name] = json.dumps(value).encode()
            file.writestr(name, zstandard.ZstdCompressor().compress(plain[name]))
        for info in file.infolist():  # what is stored is a frame of zstd: say so in the directory
            info.compress_type, info.file_size, info.CRC = (
                93,
                len(plain[info.filename]),
                zlib.crc32(plain[info.filename]),
            )
    assert figures(read_run(path)) == {"match": 1.0}


def test_an_archive_that_is_cut_off_is_an_error(tmp_path: Path, write: Write) -> None:
    whole = archive(tmp_path / "log.eval", [sample(1, {"match": "C"})]).read_bytes()
    with pytest.raises(ScoreFileError, match="zip archive is cut off or damaged"):
        read_run(write("cut.eval", whole[: len(whole) // 2]))


def test_a_damaged_sample_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("samples/1_epoch_1.json", '{"id": 1,')
        file.writestr("header.json", json.dumps(header()))
    with pytest.raises(ScoreFileError, match=r"samples/1_epoch_1\.json:1: not JSON"):
        read_run(path)


def test_a_log_of_another_shape_is_an_error(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", [sample(1, {"match": "C"})], {"header.json": {"eval": "arc"}})
    with pytest.raises(ScoreFileError, match=r"header\.json: of another shape than logs of this format"):
        read_run(path)


def test_a_filter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScoreFileError, match="filter: expected none for inspect_ai, got 'none'"):
        read_run(archive(tmp_path / "log.eval", [sample(1, {"match": "C"})]), filter="none")


def test_scores_are_read_into_a_class_of_ones_own(tmp_path: Path) -> None:
    class GradedScoreData(ScoreData):
        match: Tensor | None = field(default=None, metadata=metric(Mean(by="subject_id")))
        subject_id: Tensor | None = field(default=None, metadata=codes("subjects", logged=("metadata", "subject")))
        subjects: tuple[str, ...] | None = None

    samples = [sample(1, {"match": "C"}, metadata={"subject": "law"}), sample(2, {"match": "I"})]
    run = read_run(archive(tmp_path / "log.eval", samples), family=GradedScoreData)
    assert isinstance(run.scores, GradedScoreData)
    report = run.scores.aggregate()
    assert (report["match"].value.item(), report.groups["match"]["law"].value.item()) == (0.5, 1.0)


def test_a_part_of_the_samples_is_an_error_unless_some_may_be_missing(tmp_path: Path) -> None:
    log = archive(
        tmp_path / "a.eval", [sample(1, {"match": "C"})], {"header.json": header(results={"total_samples": 79})}
    )
    with pytest.raises(
        ScoreFileError, match="holds 1 of the 79 rows of its run: it is unfinished, or a part of the log"
    ):
        read_run(log)
    run = read_run(log, max_missing=None)
    assert (len(run.scores), run.expected) == (1, 79)


@pytest.mark.parametrize(
    "evaluation, expected",
    [
        ({"dataset": {"sample_ids": [1, 2, 3]}, "config": {"epochs": 2}}, 6),
        ({"dataset": {"samples": 100}, "config": {"limit": 10}}, 10),
        ({"dataset": {"samples": 100}, "config": {"limit": [5, 9]}}, None),
        ({}, None),
    ],
)
def test_a_run_that_did_not_end_says_how_many_samples_it_was_to_have(
    tmp_path: Path, evaluation: dict[str, Any], expected: int | None
) -> None:
    log = archive(tmp_path / "a.eval", [sample(1, {"match": "C"})], {"header.json": header(eval=evaluation)})
    assert read_run(log, max_missing=None).expected == expected


def test_the_spec_of_the_evaluation_says_its_conditions(tmp_path: Path) -> None:
    evaluation = {
        "task": "arc",
        "task_version": 2,
        "task_args": {"cot": True},
        "dataset": {"name": "arc"},
        "scorers": [{"name": "match", "options": {}}],
        "model_generate_config": {"temperature": 0.5},
    }
    plan = {"steps": [{"solver": "generate", "params": {}}], "config": {"max_tokens": 100}}
    log = archive(tmp_path / "a.eval", [sample(1, {"match": "C"})], {"header.json": header(eval=evaluation, plan=plan)})
    assert read_run(log).conditions == {
        "version": "2",
        "task_args": "{'cot': True}",
        "dataset": "arc",
        "solver": "[('generate', {})]",
        "scorer": "[('match', {})]",
        "temperature": "0.5",
        "max_tokens": "100",
    }


def test_a_document_may_begin_with_its_status(write: Write) -> None:
    sample = {"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}}}
    path = write(
        "log.json", json.dumps({"status": "success", "eval": {"task": "t", "model": "m"}, "samples": [sample]})
    )
    run = read_run(path)
    assert (run.format, run.model, run.task) == ("inspect_ai", "m", "t")


def test_a_log_without_samples_says_what_it_states(write: Write) -> None:
    scores = [{"name": "match", "scorer": "match", "metrics": {"accuracy": {"value": 0.35}}}]
    log = {"status": "success", "eval": {"task": "t", "model": "m"}, "results": {"scores": scores}}
    with pytest.raises(
        ScoreFileError, match=r"holds no samples.* its status is 'success'; the log states match accuracy 0.35"
    ):
        read_run(write("log.json", json.dumps(log, indent=2)))


def test_a_pointer_of_git_lfs_is_named(write: Write) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    with pytest.raises(ScoreFileError, match=r"found a pointer of git-LFS .*; run `git lfs pull`"):
        read_run(write("log.json", pointer))
