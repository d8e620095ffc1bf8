"""The figures of published IFEval results come out exactly, whatever way the scores go."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import IFEvalScoreData, Report, align, compare, read_run, read_runs

METRICS = ("prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "inst_level_loose_acc")
# prompts, instructions, and percent in the order of METRICS, as the data's README has them
EXPECTED = {
    "gpt4": (540, 832, (77.22, 83.77, 79.63, 85.58)),
    "gpt4o-100": (100, 161, (80.00, 85.71, 85.00, 89.44)),
    "llama3-100": (100, 161, (69.00, 78.26, 79.00, 85.71)),
}


def scores(public: Path, name: str) -> IFEvalScoreData:
    found = read_run(public / f"{name}.eval_results_strict.jsonl").scores
    assert type(found) is IFEvalScoreData
    return found


def check(name: str, report: Report) -> None:
    prompts, instructions, percent = EXPECTED[name]
    for metric, expected in zip(METRICS, percent, strict=True):
        one = report[metric]
        assert round(100 * one.value.item(), 2) == expected
        assert one.low < one.value < one.high
        assert one.prompts.item() == prompts
        assert one.count.item() == (instructions if metric.startswith("inst") else prompts)


@pytest.mark.parametrize("name", EXPECTED)
def test_from_files(name: str, public: Path) -> None:
    check(name, scores(public, name).aggregate())


@pytest.mark.parametrize("name", EXPECTED)
def test_through_operations_on_the_record(name: str, public: Path) -> None:
    data = scores(public, name)
    generator = torch.Generator().manual_seed(0)
    data = data[torch.randperm(len(data), generator=generator)]
    data = torch.stack([data, data.flip(0)])[0]
    data = torch.cat([data[:33], data[33:]])
    data = pickle.loads(pickle.dumps(data))
    check(name, data.aggregate())
    assert data.aggregate().to_dict() == scores(public, name).aggregate().to_dict()


def test_after_stacking_models(public: Path) -> None:
    names = ("gpt4o-100", "llama3-100")
    report = torch.stack([scores(public, name) for name in names]).aggregate()
    for place, metric in enumerate(METRICS):
        assert [round(100 * value, 2) for value in report[metric].value.tolist()] == [
            EXPECTED[name][2][place] for name in names
        ]
    for place, name in enumerate(names):
        check(name, torch.stack([scores(public, name) for name in names])[place].aggregate())


def test_after_joining_models(public: Path) -> None:
    joined = torch.cat(align(scores(public, "gpt4"), scores(public, "gpt4o-100")))
    check("gpt4", joined[:540].aggregate())
    check("gpt4o-100", joined[540:].aggregate())


def test_types_add_up_to_the_whole(public: Path) -> None:
    report = scores(public, "gpt4").aggregate()
    for metric in ("inst_level_strict_acc", "inst_level_loose_acc"):
        types = {name: one for name, one in report.groups[metric].items() if ":" in name}
        categories = {name: one for name, one in report.groups[metric].items() if ":" not in name}
        assert (len(types), len(categories)) == (25, 9)
        for groups in (types.values(), categories.values()):
            assert sum(one.count.item() for one in groups) == 832
            followed = sum(one.count.item() * one.value.item() for one in groups)
            assert followed == pytest.approx(832 * report[metric].value.item())
        keywords = [one for name, one in types.items() if name.startswith("keywords:")]
        assert categories["keywords"].count.item() == sum(one.count.item() for one in keywords)
    assert report.groups["inst_level_strict_acc"]["length_constraints:number_words"].count.item() == 52


def test_two_models_on_the_same_prompts(public: Path) -> None:
    found = compare(scores(public, "llama3-100"), scores(public, "gpt4o-100"))
    assert (found.prompts, found.only_a, found.only_b) == (100, 0, 0)
    assert round(100 * found["prompt_level_strict_acc"].value.item(), 2) == 11.00
    assert round(100 * found["inst_level_strict_acc"].value.item(), 2) == 7.45


def test_a_model_on_more_prompts_is_compared_on_those_that_both_hold(public: Path) -> None:
    whole = scores(public, "gpt4")
    found = compare(whole[:50], whole[25:])
    assert (found.prompts, found.only_a, found.only_b) == (25, 25, 490)
    assert found["prompt_level_strict_acc"].value.item() == 0.0


def test_through_the_command(public: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", "--json", *map(str, sorted(public.glob("*.eval_results_*.jsonl")))]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [one["name"] for one in runs] == list(EXPECTED)
    for one in runs:
        assert [round(100 * metric["value"], 2) for metric in one["metrics"]] == list(EXPECTED[one["name"]][2])


def test_all_files_give_a_run_for_each_model(public: Path) -> None:
    assert [run.name for run in read_runs(sorted(public.glob("*.eval_results_*.jsonl")))] == list(EXPECTED)
