from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.scores import ScoreFileError, read_run
from tensorclass.scores.readers.log_files import log_files

Write = Callable[..., Path]


def stat(name: str, value: float, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": {"name": name, "split": "test", **more}, "count": count, "sum": value * count, "sum_squared": 0}


def instance(number: int, *stats: dict[str, Any], trial: int = 0, **more: Any) -> dict[str, Any]:
    return {"instance_id": f"id{number}", "train_trial_index": trial, "stats": list(stats), **more}


@pytest.fixture
def folder(write: Write) -> Callable[..., Path]:
    """Write a folder of HELM and return its file of instances."""

    def make(instances: list[dict[str, Any]], summary: list[dict[str, Any]] | None = None) -> Path:
        spec = {"name": "bbq:subject=all,model=openai_gpt-4o", "adapter_spec": {"model": "openai/gpt-4o"}}
        write("bbq/run_spec.json", json.dumps(spec))
        if summary is not None:
            write("bbq/stats.json", json.dumps(summary, indent=2))
        return write("bbq/per_instance_stats.json", json.dumps(instances))

    return make


def test_statistics_of_instances_are_figures_and_bookkeeping_is_ignored(folder: Callable[..., Path]) -> None:
    run = read_run(
        folder([instance(n, stat("exact_match", n % 2), stat("num_bytes", 3), stat("empty", 0, 0)) for n in range(4)])
    )
    report = run.scores.aggregate()
    assert {name: one.value.item() for name, one in report.items()} == {"exact_match": 0.5}
    assert (run.ignored, run.model, run.task, run.name) == (("num_bytes",), "openai/gpt-4o", "bbq:subject=all", "bbq")


def test_train_trials_are_repeats_of_their_instance(folder: Callable[..., Path]) -> None:
    instances = [instance(n, stat("exact_match", trial), trial=trial) for trial in (0, 1) for n in range(3)]
    figure = read_run(folder(instances)).scores.aggregate()["exact_match"]
    assert (figure.value.item(), figure.prompts.item(), figure.count.item()) == (0.5, 3, 6)


def test_perturbed_instances_and_other_splits_are_read_if_asked_for(folder: Callable[..., Path]) -> None:
    perturbed = {"name": "robustness"}
    path = folder(
        [
            instance(1, stat("exact_match", 1)),
            instance(1, stat("exact_match", 0, perturbation=perturbed), perturbation=perturbed),
            instance(2, stat("exact_match", 0, split="valid")),
        ]
    )
    run = read_run(path)
    assert (run.filter, run.filters) == ("test", {"test": 1, "test/robustness": 1, "valid": 1})
    assert run.notes == ("instances of the split 'test' are read; left out 'test/robustness', 'valid'",)
    for name, value in {"test": 1.0, "test/robustness": 0.0, "valid": 0.0}.items():
        assert read_run(path, filter=name).scores.aggregate()["exact_match"].value.item() == value
    with pytest.raises(ScoreFileError, match="filter: expected one of 'test', 'test/robustness', 'valid', got 'train'"):
        read_run(path, filter="train")


def test_figures_of_the_summary_are_published_or_said_to_be_left_out(folder: Callable[..., Path]) -> None:
    summary = [
        {**stat("exact_match", 0.5), "mean": 0.5},
        {**stat("exact_match", 0.1, perturbation={"name": "robustness", "computed_on": "worst"}), "mean": 0.1},
        {**stat("bbq_accuracy", 0.95), "mean": 0.95},
    ]
    run = read_run(folder([instance(n, stat("exact_match", n % 2)) for n in range(4)], summary))
    assert {name: one.value for name, one in run.published.items()} == {"exact_match": 0.5}
    assert run.left_out == (
        "bbq_accuracy is 0.95 in stats.json; per_instance_stats.json doesn't hold what it is made of",
    )
    assert [Path(file).name for file in run.files] == ["per_instance_stats.json", "run_spec.json", "stats.json"]


def test_a_summary_that_says_otherwise_is_an_error(folder: Callable[..., Path]) -> None:
    path = folder([instance(1, stat("exact_match", 1))], [{**stat("exact_match", 0.5), "mean": 0.5}])
    with pytest.raises(ScoreFileError, match=r"exact_match: the rows give 1, but stats\.json says 0\.5"):
        read_run(path)


def test_texts_are_those_of_the_requests(folder: Callable[..., Path], write: Write) -> None:
    path = folder([instance(n, stat("exact_match", 1)) for n in (2, 1)])
    states = [
        {
            "instance": {"id": f"id{n}"},
            "request": {"prompt": f"question {n}"},
            "result": {"completions": [{"text": f"answer {n}"}]},
        }
        for n in (1, 2)
    ]
    write("bbq/scenario_state.json", json.dumps({"request_states": states}))
    run = read_run(path)
    assert run.texts is not None
    texts = list(run.texts())
    assert [(one.prompt, one.response) for one in texts] == [("question 2", "answer 2"), ("question 1", "answer 1")]
    assert [one.prompt_id for one in texts] == run.scores.prompt_id.tolist()


def test_files_beside_the_instances_are_no_unknown_formats(folder: Callable[..., Path], write: Write) -> None:
    path = folder([instance(1, stat("exact_match", 1))])
    write("bbq/scenario.json", "{}")
    other = write("bbq/other.json", "{}")
    found = log_files([path.parent])
    assert (found.files, found.unknown) == ((path,), (other,))


def test_a_summary_alone_is_an_error_that_names_the_file_to_give(write: Write) -> None:
    path = write("bbq/stats.json", json.dumps([stat("exact_match", 1)]))
    with pytest.raises(ScoreFileError, match=r"expected per_instance_stats\.json"):
        read_run(path)


def test_scenarios_of_language_models_have_perplexities(folder: Callable[..., Path]) -> None:
    likelihoods = [
        [stat("logprob", -2.0), stat("num_perplexity_tokens", 1), stat("num_bytes", 4)],
        [stat("logprob", -4.0), stat("num_perplexity_tokens", 5), stat("num_bytes", 8)],
    ]
    path = folder([instance(number, *stats) for number, stats in enumerate(likelihoods)])
    report = read_run(path).scores.aggregate()
    assert report["perplexity"].value.item() == pytest.approx(math.exp(6 / 6))
    assert report["bits_per_byte"].value.item() == pytest.approx(6 / 12 / math.log(2))


def test_instances_without_scores_are_an_error(folder: Callable[..., Path]) -> None:
    with pytest.raises(ScoreFileError, match="1 instances without a score: there is nothing to aggregate"):
        read_run(folder([instance(1, stat("num_bytes", 1))]))


def test_the_spec_of_the_run_says_its_conditions_and_the_figures_how_many_instances(
    folder: Callable[..., Path], write: Write
) -> None:
    path = folder([instance(1, stat("exact_match", 1))], [stat("num_instances", 100.0) | {"mean": 100.0}])
    adapter = {"model": "m", "method": "generation", "max_train_instances": 5, "instructions": "", "temperature": 0.0}
    adapter["random"] = "7"
    write("bbq/run_spec.json", json.dumps({"name": "bbq", "adapter_spec": adapter, "metric_specs": []}))
    with pytest.raises(ScoreFileError, match="holds 1 of the 100 rows of its run"):
        read_run(path)
    found = read_run(path, max_missing=None).conditions
    assert {name: found[name] for name in ("n_shot", "method", "instructions", "temperature", "metric", "seed")} == {
        "seed": "7",
        "n_shot": "5",
        "method": "generation",
        "instructions": "none",
        "temperature": "0.0",
        "metric": "[]",
    }
