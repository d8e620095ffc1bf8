"""Seeds of a model are a level of their own: recognised, said, and compared as random unless one asks otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import ExactMatchScoreData, Run, compare, leaderboard, read_runs
from tensorclass.scores.model_names import told_apart
from tensorclass.scores.readers.lm_eval_results import HarnessResults
from tensorclass.scores.readers.run import model_name, seed_path
from tensorclass.scores.run_conditions import ConditionsDifferError, check_conditions
from tensorclass.scores.run_figures import aggregate_run, compare_runs
from tensorclass.scores.seeds import joined, with_seeds

Write = Callable[..., Path]

SETTINGS = {"seed": 0, "resamples": None, "confidence": 0.95}


def run_of(file: str, right: np.ndarray[Any, Any], model: str | None = None, task: str = "arc") -> Run:
    ids = torch.arange(len(right))
    scores = ExactMatchScoreData(torch.as_tensor(right), prompt_id=ids, batch_size=[len(right)])
    return Run(file, scores, (file,), "table", model=model or model_name(file), task=task)


def of_model(model: str, rate: float, seeds: int = 3, prompts: int = 60) -> list[Run]:
    rng = np.random.default_rng(len(model) + int(100 * rate))
    return [
        run_of(f"/runs/{model}/seed{seed}/scores.csv", (rng.random(prompts) < rate).astype(float), model)
        for seed in range(seeds)
    ]


@pytest.mark.parametrize(
    "path, seed, model",
    [
        ("/runs/llama/seed1/samples_arc_2026-01-31.jsonl", "seed1", "llama"),
        ("/runs/org__llama_seed-2/samples_arc_2026-01-31.jsonl", "seed-2", "org/llama"),
        ("/runs/llama/seed_3.csv", "seed_3", "llama"),
        ("/runs/llama-SEED4.csv", "SEED4", "llama"),
        ("/runs/seed5/llama/samples_arc_2026-01-31.jsonl", "seed5", "llama"),
        ("/runs/seedling/samples_arc_2026-01-31.jsonl", None, "seedling"),
    ],
)
def test_paths_name_seeds_and_models(path: str, seed: str | None, model: str) -> None:
    found = seed_path(path)
    assert (None if found is None else found.seed) == seed
    assert model_name(path) == model


def test_seeds_of_a_model_are_one_run() -> None:
    found = with_seeds([*of_model("a", 0.5), *of_model("b", 0.6)])
    assert [(run.model, len(run.seeds), len(run.scores)) for run in found] == [("a", 3, 180), ("b", 3, 180)]
    assert "3 seeds, compared with the seeds as random" in found[0].notes[-1]


def test_other_tasks_and_a_seed_that_comes_twice_are_not_joined() -> None:
    a, b, _ = of_model("a", 0.5)
    assert len(with_seeds([a, replace(b, task="piqa")])) == 2
    assert len(with_seeds([a, b, replace(a, files=("/runs/a/seed0/other.csv",))])) == 3


def test_seeds_may_be_pooled_or_models_or_named_by_a_pattern() -> None:
    runs = of_model("a", 0.5)
    (pooled,) = with_seeds(runs, "pooled")
    assert (pooled.seeds, len(pooled.scores)) == ((), 180)
    assert with_seeds(runs, "apart") == runs
    renamed = [replace(run, files=(f"/runs/a/try{n}/scores.csv",)) for n, run in enumerate(runs)]
    assert len(with_seeds(renamed)) == 3
    (found,) = with_seeds(renamed, pattern="try*")
    assert [name for name, _ in found.seeds] == ["try0", "try1", "try2"]


def test_a_seed_that_the_log_says_is_one() -> None:
    runs = [
        replace(run, files=(f"/{n}.eval",), conditions={"seed": str(n)}) for n, run in enumerate(of_model("a", 0.5))
    ]
    (found,) = with_seeds(runs)
    assert [name for name, _ in found.seeds] == ["seed 0", "seed 1", "seed 2"]


def test_figures_are_those_with_random_repeats() -> None:
    runs = {model: of_model(model, rate) for model, rate in (("a", 0.5), ("b", 0.62))}
    found = with_seeds([run for own in runs.values() for run in own])
    stacked = [torch.stack([run.scores for run in own]) for own in runs.values()]
    expected = stacked[0].aggregate(dim=(0, 1), repeats="random")["exact_match"]
    one = aggregate_run(found[0], **SETTINGS)["exact_match"]
    assert (one.low.item(), one.high.item(), one.interval) == (expected.low.item(), expected.high.item(), "crossed t")
    expected = compare(*stacked, dim=(0, 1), repeats="random")["exact_match"]
    one = compare_runs(*found, **SETTINGS)["exact_match"]
    assert (one.low.item(), one.p_value.item()) == (expected.low.item(), expected.p_value.item())
    (of_board,) = leaderboard(found).differences[:1]
    assert of_board.difference.p_value.item() == pytest.approx(expected.p_value.item())


def test_a_run_without_seeds_varies_as_the_other_one_does() -> None:
    rng = np.random.default_rng(0)
    own = [
        run_of(f"/runs/a/seed{seed}/scores.csv", (rng.random(400) < rate).astype(float), "a")
        for seed, rate in enumerate((0.4, 0.5, 0.6))
    ]
    (a,) = with_seeds(own)
    b = run_of("/runs/b/scores.csv", (rng.random(400) < 0.7).astype(float), "b")
    one = compare_runs(a, b, **SETTINGS)["exact_match"]
    assert one.interval == "crossed t"
    assert compare(own[2].scores, b.scores)["exact_match"].p_value < 0.05
    assert one.p_value > 0.05
    assert one.stderr.item() == pytest.approx(0.1 * (1 + 1 / 3) ** 0.5, rel=0.25)  # of seeds, for both runs


def test_what_an_answer_took_is_the_mean_over_seeds() -> None:
    a, b, c = (
        replace(run, usage={"cost": cost}) for run, cost in zip(of_model("a", 0.5), (1.0, 2.0, 6.0), strict=True)
    )
    assert with_seeds([a, b, c])[0].usage == {"cost": 3.0}
    assert with_seeds([a, b, c], "pooled")[0].usage == {"cost": 3.0}
    assert with_seeds([a, replace(b, usage={})])[0].usage == {}


def test_prompts_that_a_seed_lacks_are_left_out() -> None:
    """A seed that ended before the hard prompts doesn't make a model better."""
    first, second, third = of_model("a", 0.5)
    short = replace(third, scores=third.scores[:20])
    found = joined([first, second, short], ("1", "2", "3"))
    one = aggregate_run(found, **SETTINGS)["exact_match"]
    assert (one.prompts.item(), one.count.item(), one.missing.item()) == (20, 60, 40)
    rows = torch.cat([run.scores[:20] for run in (first, second, third)]).exact_match
    assert one.value.item() == pytest.approx(rows.mean().item())


def test_equal_models_stay_equal_if_a_seed_ends_early() -> None:
    right = np.repeat([1.0, 0.0], [20, 40])
    whole = {model: [run_of(f"/r/{model}/seed{n}/s.csv", right, model) for n in range(3)] for model in "AB"}
    whole["A"][1] = replace(whole["A"][1], scores=whole["A"][1].scores[:25])
    runs = with_seeds([run for own in whole.values() for run in own])
    board = leaderboard(runs)
    assert {model: one.value.item() for model, one in board.macro.items()} == {"A": 0.8, "B": 0.8}
    (one,) = board.differences[:1]
    assert (one.difference.value.item(), one.difference.prompts.item()) == (0.0, 25)
    assert compare_runs(*runs, **SETTINGS)["exact_match"].value.item() == 0.0
    assert "missing are 35 of A" in board.notes[0]


def test_seeds_share_their_shift_over_tasks() -> None:
    """A shift of all tasks doesn't average out over them."""
    rng = np.random.default_rng(0)
    chances, shifts = rng.random((2, 300)), (0.25, 0.0, -0.25)

    def of(task: int, shift: float, name: str) -> Run:
        right = (rng.random(300) < np.clip(chances[task] + shift, 0, 1)).astype(float)
        return run_of(f"/a/{name}/{task}.csv", right, "a", f"task {task}")

    def width(order: list[float]) -> float:
        runs = [of(0, shift, f"seed{n}") for n, shift in enumerate(shifts)]
        runs += [of(1, shift, f"seed{n}") for n, shift in enumerate(order)]
        one = leaderboard(with_seeds(runs)).macro["a"]
        return float(one.stderr)

    assert width([0.25, 0.0, -0.25]) > 3 * width([-0.25, 0.0, 0.25])


def test_repeats_without_ids_of_prompts_are_an_error() -> None:
    without = [replace(run, scores=run.scores.replace(prompt_id=None)) for run in of_model("a", 0.5)]
    with pytest.raises(ValueError, match="expected ids of prompts, by which repeats are told, got None"):
        with_seeds(without)


def said(run: Run, seed: object, file: str, **conditions: str) -> Run:
    """The run as its log says its seed."""
    return replace(run, files=(file,), conditions={"seed": str(seed), **conditions})


def test_seeds_that_logs_say_are_joined_only_under_the_same_conditions() -> None:
    a, b, c = of_model("a", 0.5)
    runs = [said(a, 1, "/1.eval", temperature="0"), said(b, 2, "/2.eval", temperature="1")]
    assert len(with_seeds(runs)) == 2
    runs = [said(a, 1, "/1.eval", harness="0.4"), said(b, 2, "/2.eval", harness="0.5"), said(c, 2, "/x/2.eval")]
    assert [len(run.seeds) for run in with_seeds(runs[:2])] == [2]


def test_a_seed_that_comes_twice_is_one_of_each_folder() -> None:
    runs = [
        said(run, seed, f"/{folder}/{seed}.eval")
        for folder in ("before", "after")
        for seed, run in enumerate(of_model("a", 0.5))
    ]
    found = with_seeds(runs)
    assert [len(run.seeds) for run in found] == [3, 3]
    assert [run.model for run in told_apart(found)] == ["before/a", "after/a"]


def test_seeds_may_draw_other_examples_for_the_prompts() -> None:
    """Prompts are compared with those of the same seed, if there is such a run."""
    a, b, _ = of_model("a", 0.5)
    of_seed = {seed: np.arange(60) + 100 * seed for seed in (1, 2)}
    runs = [
        replace(said(run, seed, f"/{model}{seed}.eval"), model=model, name=model, prompt_hashes=of_seed[seed])
        for model in "AB"
        for seed, run in ((1, a), (2, b))
    ]
    assert check_conditions(runs) == []
    with pytest.raises(ConditionsDifferError, match="60 of 60 prompts have another text in B than in A"):
        check_conditions([runs[0], runs[3]])
    with pytest.raises(ConditionsDifferError, match="1 of 60 prompts have another text in B than in A"):
        check_conditions([*runs[:3], replace(runs[3], prompt_hashes=np.where(np.arange(60) > 0, of_seed[2], 0))])


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def logs(write: Write, log_row: Callable[..., dict[str, Any]]) -> Path:
    """Two models of three seeds."""
    rng = np.random.default_rng(0)
    for model, rate in (("A", 0.5), ("B", 0.55)):
        for seed in range(3):
            rows = [log_row(n, {"acc": float(rng.random() < rate)}) for n in range(100)]
            path = write(f"runs/{model}/seed{seed}/samples_arc_2026-01-31T10-20-30.123456.jsonl", rows)
    return path.parents[2]


def test_the_command_says_that_seeds_are_random(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", str(logs), "--leaderboard"]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"^[AB] +[12] ", out, re.MULTILINE)) == 2
    assert "A, B: 3 seeds, compared with the seeds as random; --seeds pooled pools them, --seeds apart" in out
    assert main(["scores", str(logs), "--compare"]) == 0
    out = capsys.readouterr().out
    assert "p-values: t test over prompts and repeated runs" in " ".join(out.split())
    assert "sign-flip" not in out
    assert main(["scores", str(logs), "--compare", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(run["model"], run["seeds"]) for run in document["runs"]] == [
        (model, {"seed0": 100, "seed1": 100, "seed2": 100}) for model in "AB"
    ]
    assert document["comparisons"][0]["metrics"][0]["test"] == "t"


def test_seeds_are_said_once_of_a_model_with_several_tasks(
    logs: Path, write: Write, log_row: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for model in "AB":
        for seed in range(3):
            rows = [log_row(n, {"acc": float((n + seed) % 3 > 0)}) for n in range(30)]
            write(f"runs/{model}/seed{seed}/samples_piqa_2026-01-31T10-20-30.123456.jsonl", rows)
    assert main(["scores", str(logs), "--leaderboard"]) == 0
    assert re.search("^A, B: 3 seeds, compared", capsys.readouterr().out, re.MULTILINE)


def test_the_command_pools_seeds_or_takes_them_apart(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", str(logs), "--compare", "--json", "--seeds", "pooled"]) == 0
    assert json.loads(capsys.readouterr().out)["comparisons"][0]["metrics"][0]["test"] == "exact"
    assert main(["scores", str(logs), "--leaderboard", "--json", "--seeds", "apart"]) == 0
    assert len(json.loads(capsys.readouterr().out)["leaderboard"]["models"]) == 6
    assert main(["scores", str(logs), "--compare", "--json", "--seeds", "apart", "--names", "A,A,A,B,B,B"]) == 0
    assert json.loads(capsys.readouterr().out)["comparisons"][0]["metrics"][0]["test"] == "t"


def test_a_gate_and_a_report_take_seeds_as_random(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert main(["scores", str(logs), "--fail-if-worse-than", "A", "--report", str(page)]) == 0
    assert "passed: --fail-if-worse-than A: B beside A, arc, acc" in capsys.readouterr().out
    assert "3 seeds, compared with the seeds as random" in page.read_text()
    assert "p-values of two models by t tests over prompts and seeds" in page.read_text()


# --- seeds that logs say ----------------------------------------------------------------------------------------------


def inspect_log(model: str, seed: int, rights: list[bool]) -> dict[str, Any]:
    samples = [
        {"id": n, "epoch": 1, "input": f"q{n}", "target": "x", "scores": {"match": {"value": "C" if right else "I"}}}
        for n, right in enumerate(rights)
    ]
    evaluation = {"task": "arc", "model": model, "model_generate_config": {"seed": seed}}
    return {"version": 2, "status": "success", "eval": evaluation, "samples": samples}


@pytest.fixture
def said_seeds(request: pytest.FixtureRequest, write: Write, log_row: Callable[..., dict[str, Any]]) -> Path:
    """Two models of three seeds each, in logs that say the seed; no path does."""
    rng = np.random.default_rng(0)
    for model, rate in (("A", 0.5), ("B", 0.55)):
        for seed in (11, 12, 13):
            rights = (rng.random(100) < rate).tolist()
            if request.param == "inspect":
                path = write(f"logs/{model}_{seed}.json", json.dumps(inspect_log(model, seed, rights)))
                continue
            date = f"2026-01-31T10-20-{seed}.123456"
            path = write(
                f"logs/{model}/samples_arc_{date}.jsonl", [log_row(n, {"acc": x}) for n, x in enumerate(rights)]
            )
            results = {
                "results": {"arc": {"acc,none": sum(rights) / 100, "acc_stderr,none": 0.05}},
                "config": dict.fromkeys(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), seed),
                "model_name": model,
            }
            path = write(f"logs/{model}/results_{date}.json", json.dumps(results))
    return path.parent if request.param == "inspect" else path.parents[1]


@pytest.mark.parametrize("said_seeds", ["inspect", "lm-eval"], indirect=True)
def test_seeds_of_logs_are_random_in_all_output(
    said_seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = str(said_seeds), tmp_path / "report.html"
    assert main(["scores", folder, "--leaderboard", "--fail-if-worse-than", "A", "--report", str(page)]) == 0
    out = capsys.readouterr().out
    assert "A, B: 3 seeds, compared with the seeds as random" in out
    assert "passed: --fail-if-worse-than A: B beside A" in out
    assert "3 seeds, compared with the seeds as random" in page.read_text()
    assert main(["scores", folder, "--compare", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    seeds = {f"seed {seed}": 100 for seed in (11, 12, 13)}
    assert [(run["model"], run["seeds"]) for run in document["runs"]] == [("A", seeds), ("B", seeds)]
    assert document["comparisons"][0]["metrics"][0]["test"] == "t"


@pytest.mark.parametrize("said_seeds", ["inspect"], indirect=True)
def test_amounts_are_those_of_models(said_seeds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in said_seeds.glob("*.json"):
        log = json.loads(path.read_text())
        for one in log["samples"]:
            one["total_time"] = 2.5
        path.write_text(json.dumps(log))
    assert main(["scores", str(said_seeds), "--compare"]) == 0
    assert re.search(r"^A +2\.5$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("said_seeds", ["inspect"], indirect=True)
def test_two_seeds_of_one_model_are_compared_if_asked_for(said_seeds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(said_seeds / f"A_{seed}.json") for seed in (11, 12)]
    assert main(["scores", *files, "--compare"]) == 2
    assert "needs at least two runs of one task, got one run of 2 seeds; --seeds apart" in capsys.readouterr().err
    assert main(["scores", *files, "--compare", "--seeds", "apart"]) == 0


def test_seeds_with_the_same_rows_are_no_copies(write: Write) -> None:
    """An answer at temperature 0 doesn't change with the seed."""
    rights = [True, False, True, True]
    files = [write(f"{seed}.json", json.dumps(inspect_log("A", seed, rights))) for seed in (1, 2)]
    (found,) = with_seeds(read_runs(files))
    assert [name for name, _ in found.seeds] == ["seed 1", "seed 2"]


def test_lm_eval_says_its_seeds_as_it_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    config = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}
    path.write_text(json.dumps({"results": {"arc": {}}, "config": config}))
    assert HarnessResults(path).conditions("arc")["seed"] == "0,1234,1234,1234"
