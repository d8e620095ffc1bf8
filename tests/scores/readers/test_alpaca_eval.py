from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.scores import (
    AlpacaEvalScoreData,
    FileHead,
    ReadOptions,
    ScoreFileError,
    length_controlled_win_rate,
    read_run,
    read_runs,
)
from tensorclass.scores.readers.alpaca_eval import READER

Write = Callable[..., Path]

PREFERENCES = [2.0, 1.0, 1.5, 0.0, None, 1.75]


def entry(number: int, preference: float | None, **more: Any) -> dict[str, Any]:
    return {
        "instruction": f"instruction {number}",
        "output_1": "short",
        "generator_1": "davinci",
        "dataset": "koala" if number % 2 else "vicuna",
        "output_2": "long" * (number + 1),
        "generator_2": "model-a",
        "annotator": "judge",
        "preference": preference,
        **more,
    }


ENTRIES = [entry(number, preference) for number, preference in enumerate(PREFERENCES)]


def test_preferences_are_win_rates(write: Write) -> None:
    run = read_run(write("annotations.json", json.dumps(ENTRIES, indent=1)))
    assert isinstance(run.scores, AlpacaEvalScoreData)
    report = run.scores.aggregate()
    assert report["win_rate"].value.item() == pytest.approx((1 + 0 + 0.5 + 0.5 + 0.75) / 5)
    assert report["win_rate"].count.item() == 5
    assert (run.name, run.model, run.task) == ("model-a", "model-a", "alpaca_eval/judge/davinci")
    assert run.notes[0] == "wins: 2, losses: 1, draws: 2, not judged: 1"
    assert set(report.groups["win_rate"]) == {"koala", "vicuna"}


def test_json_lines_are_read_as_well(write: Write) -> None:
    run = read_run(write("annotations.jsonl", ENTRIES))
    other = read_run(write("annotations.json", json.dumps(ENTRIES)))
    assert run.scores.aggregate().to_dict() == other.scores.aggregate().to_dict()


def test_the_win_rate_controlled_for_length_is_that_of_the_regression(write: Write) -> None:
    run = read_run(write("annotations.json", json.dumps(ENTRIES)))
    preferences = [float("nan") if one is None else one for one in (1.0, 0.0, 0.5, 0.5, None, 0.75)]
    longer = [len(one["output_2"]) - len(one["output_1"]) for one in ENTRIES]
    expected = length_controlled_win_rate(preferences, longer)
    figures = run.scores.aggregate()
    assert figures["length_adjusted_win_rate"].value.item() == pytest.approx(expected)
    assert "length_controlled_win_rate" not in figures
    assert "is not AlpacaEval's length_controlled_winrate" in run.notes[1]


def test_difficulties_are_estimated_from_ten_models_that_are_read_together(write: Write) -> None:
    files = [
        write(
            f"m{model}.json", json.dumps([entry(n, 1.0 + (n % 7 < model), generator_2=f"m{model}") for n in range(40)])
        )
        for model in range(10)
    ]
    runs = read_runs(files)
    gamma = runs[0].scores.difficulty
    assert gamma.argmax().item() % 7 == 0
    assert all(torch.equal(run.scores.difficulty, gamma) for run in runs)
    assert "estimated from 10 models" in runs[3].notes[-1]
    expected = length_controlled_win_rate(runs[3].scores.preference, runs[3].scores.length_difference, gamma)
    assert runs[3].scores.aggregate()["length_controlled_win_rate"].value.item() == pytest.approx(expected)
    assert all(run.scores.difficulty is None for run in read_runs(files[:9]))


def test_difficulties_are_read_from_a_key_that_the_caller_names(write: Write) -> None:
    path = write("annotations.json", json.dumps([{**one, "gamma": place - 2.5} for place, one in enumerate(ENTRIES)]))
    (run,) = READER.read(FileHead.of(path), ReadOptions(columns={"difficulty": "gamma"}))
    assert run.scores.difficulty.tolist() == [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
    assert len(run.notes) == 1
    with pytest.raises(ScoreFileError, match="delta: expected in each entry, but entry 0 lacks it"):
        READER.read(FileHead.of(path), ReadOptions(columns={"difficulty": "delta"}))


def test_each_model_of_a_file_is_a_run(write: Write) -> None:
    entries = [*ENTRIES, *(entry(number, 2.0, generator_2="model-b") for number in range(3))]
    runs = read_runs([write("annotations.json", json.dumps(entries))])
    assert [(run.name, len(run.scores)) for run in runs] == [("model-a", 6), ("model-b", 3)]


def test_the_leaderboard_beside_is_published(write: Write) -> None:
    write(
        "leaderboard.csv", ",win_rate,standard_error,length_controlled_winrate\nmodel-a,55.0,20.1,60.5\nother,1,1,1\n"
    )
    run = read_run(write("annotations.json", json.dumps(ENTRIES)))
    assert (run.published["win_rate"].value, run.published["win_rate"].stderr) == (0.55, pytest.approx(0.201))
    assert run.left_out[0].startswith("length_controlled_winrate is 60.50 in ")


def test_a_leaderboard_that_says_otherwise_is_an_error(write: Write) -> None:
    write("leaderboard.csv", ",win_rate\nmodel-a,54.0\n")
    with pytest.raises(ScoreFileError, match=r"win_rate: the rows give 0\.55, but .*leaderboard\.csv says 0\.54"):
        read_run(write("annotations.json", json.dumps(ENTRIES)))


def test_texts_are_the_instruction_and_the_answer_of_the_model(write: Write) -> None:
    run = read_run(write("annotations.json", json.dumps(ENTRIES)))
    assert run.texts is not None
    texts = list(run.texts())
    assert [one.prompt_id for one in texts] == run.scores.prompt_id.tolist()
    assert (texts[1].prompt, texts[1].response) == ("instruction 1", "longlong")


def test_a_preference_outside_of_its_range_is_an_error(write: Write) -> None:
    path = write("annotations.json", json.dumps([*ENTRIES, entry(6, 3.0)]))
    with pytest.raises(ScoreFileError, match=r"preference: expected a number from 1 .* got 3\.0 in entry 6"):
        read_run(path)


def test_prompts_that_nobody_judged_are_an_error(write: Write) -> None:
    with pytest.raises(ScoreFileError, match="1 prompts, none of them judged"):
        read_run(write("annotations.json", json.dumps([entry(0, None)])))
