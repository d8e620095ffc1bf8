from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch

from tensorclass.scores import ExactMatchScoreData, PromptText, Run
from tensorclass.scores.model_names import find_model, renamed, short_names, told_apart


def run(model: str, task: str | None = None, file: str | None = None) -> Run:
    scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
    return Run(f"{model}/{task}", scores, () if file is None else (file,), "test", model=model, task=task)


@pytest.mark.parametrize(
    "names, short",
    [
        (["gpt", "llama"], ["gpt", "llama"]),
        (["meta-llama/Llama-3-8B", "Qwen/Qwen3-8B"], ["Llama-3-8B", "Qwen3-8B"]),
        (["a/model", "b/model", "b/other"], ["a/model", "b/model", "other"]),
        (["org__model-a", "org__model-b"], ["model-a", "model-b"]),
        (["experiment-of-yesterday-lr-1-final", "experiment-of-yesterday-lr-2-final"], ["1", "2"]),
        (["synthetic-alpha", "synthetic-beta"], ["synthetic-alpha", "synthetic-beta"]),
        (["a-very-long-name-of-one-single-model"], ["a-very-long-name-of-one-single-model"]),
        (["same", "same"], ["same"]),
        (["", "a"], ["", "a"]),
    ],
)
def test_names_are_as_short_as_they_can_be_told_apart(names: list[str], short: list[str]) -> None:
    assert list(short_names(names).values()) == short


def test_runs_of_one_model_and_task_are_told_apart_by_their_folders() -> None:
    runs = [
        run("qwen", "arc", "/data/before/qwen/samples_arc.jsonl"),
        run("qwen", "piqa", "/data/before/qwen/samples_piqa.jsonl"),
        run("qwen", "arc", "/data/after/qwen/samples_arc.jsonl"),
        run("llama", "arc", "/data/after/llama/samples_arc.jsonl"),
    ]
    assert [one.model for one in told_apart(runs)] == ["before/qwen", "before/qwen", "after/qwen", "llama"]


def test_runs_in_one_folder_keep_their_name() -> None:
    runs = [run("qwen", "arc", f"/data/qwen/samples_arc_{number}.jsonl") for number in range(2)]
    found = told_apart(runs)
    assert [one.model for one in found] == ["qwen", "qwen"]
    assert [one.name for one in found] == ["samples_arc_0.jsonl", "samples_arc_1.jsonl"]


def test_models_are_renamed_in_all_their_runs() -> None:
    runs = [run("org/a", "arc"), run("org/b", "arc"), run("org/a", "piqa")]
    assert [(one.model, one.name) for one in renamed(runs, "x, y")] == [("x", "x/arc"), ("y", "y/arc"), ("x", "x/piqa")]
    assert [one.model for one in renamed(runs, "org/b=y")] == ["org/a", "y", "org/a"]


@pytest.mark.parametrize(
    "names, message",
    [
        ("x", r"names: expected one for each model \(a, b\), got 1: x"),
        ("x,", r"names: expected a name for each model \(a, b\), got an empty one: x,"),
        ("c=x", "expected one of the models a, b, got 'c'"),
        ("x,x", "a/None: expected ids of prompts, by which repeats are told, got None"),
    ],
)
def test_names_that_fit_no_model_are_an_error(names: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        renamed([run("a"), run("b")], names)


def test_a_model_is_found_by_its_name_or_its_files() -> None:
    runs = [run("org/a", "arc", "/data/a/log.jsonl"), run("org/b", "arc", "/data/b/log.jsonl")]
    for name in ("org/b", "b", "org/b/arc", "/data/b", "/data/b/log.jsonl"):
        assert find_model(name, runs) == "org/b"
    for name in ("c", "/data"):
        with pytest.raises(ValueError, match="expected one of the models org/a, org/b, got"):
            find_model(name, runs)


def test_models_of_one_name_are_repeats_of_one() -> None:
    runs = [
        Run(
            f"seed-{seed}",
            ExactMatchScoreData(torch.arange(20) < right, prompt_id=torch.arange(20), batch_size=[20]),
            (f"seed-{seed}.jsonl",),
            "test",
            notes=("rows were left out",),
        )
        for seed, right in enumerate((4, 8, 15))
    ]
    (seeds, _), (one, other) = renamed(runs, "A,A,B"), renamed(runs, "A,A,B", pooled=True)
    assert seeds.seeds == (("seed-0", 20), ("seed-1", 20))
    assert "2 seeds, compared with the seeds as random" in seeds.notes[-1]
    assert (one.name, one.files, other.name) == ("A", ("seed-0.jsonl", "seed-1.jsonl"), "B")
    assert one.notes == ("rows were left out", "2 runs are repeats of one, pooled within their prompts")
    figure = one.scores.aggregate()["exact_match"]
    assert (figure.value.item(), int(figure.prompts), int(figure.count)) == (0.3, 20, 40)


def test_repeats_have_the_texts_of_their_rows_in_order() -> None:
    def texts(seed: int) -> Iterator[PromptText]:
        yield from (PromptText(row, f"prompt {row}", f"answer of {seed}") for row in range(2))

    scores = ExactMatchScoreData(torch.ones(2), prompt_id=torch.arange(2), batch_size=[2])
    runs = [Run(f"seed-{seed}", scores, (), "test", texts=partial(texts, seed)) for seed in range(2)]
    (joined,) = renamed(runs, "A,A")
    assert joined.texts is not None
    assert [(one.prompt_id, one.response) for one in joined.texts()] == [
        (0, "answer of 0"),
        (1, "answer of 0"),
        (0, "answer of 1"),
        (1, "answer of 1"),
    ]
    (half,) = renamed([runs[0], replace(runs[1], texts=None)], "A,A")
    assert half.texts is None
