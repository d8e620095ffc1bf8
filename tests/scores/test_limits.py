"""Scores that no evaluation gives are errors, in files and in memory; scores that some evaluation gives are read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import field
from tensorclass.cli import main
from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    Mean,
    MultipleChoiceScoreData,
    PassAtKScoreData,
    PreferenceScoreData,
    Ratio,
    ScoreData,
    ScoreFileError,
    compare,
    load_scores,
    metric,
    ragged,
    read_run,
    read_scores,
    save_scores,
)
from tensorclass.scores.limits import contradiction

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]

# --- shares ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [87.5, -3, 1.001, -0.01, 2])
def test_a_share_outside_of_0_and_1_is_an_error_that_names_the_line(
    write: Write, log_row: Make, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0}), log_row(1, {"acc": value})])
    assert main(["scores", str(path)]) == 2
    assert (
        f"log.jsonl:2: acc: expected a fraction from 0 to 1, since it is a share, got {value}; divide percents by 100"
        in (capsys.readouterr().err)
    )


def test_a_list_of_shares_is_checked_as_well(write: Write, ifeval_row: Make) -> None:
    path = write("log.jsonl", [ifeval_row(0, [True], inst_level_strict_acc=[100])])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:1: inst_level_strict_acc: expected a list of fractions"):
        read_run(path)


@pytest.mark.parametrize("value", [[0.5, float("nan")], [float("nan"), 0.5], [float("inf")], [None], ["1"]])
def test_a_list_holds_numbers_alone(write: Write, ifeval_row: Make, value: list[Any]) -> None:
    path = write("log.jsonl", [ifeval_row(0, [True, True], inst_level_strict_acc=value)])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:1: inst_level_strict_acc: expected a list of finite numbers"):
        read_run(path)


class TranslationScoreData(ScoreData):
    bleu: Tensor | None = field(default=None, metadata=metric(Mean(unit="points")))
    perplexity: Tensor | None = field(default=None, metadata=metric(Mean(unit="")))
    chrf: Tensor | None = None


def test_a_metric_that_is_no_share_has_no_limits(write: Write, log_row: Make) -> None:
    rows = [log_row(number, {"bleu": 35.5, "perplexity": 1e6, "chrf": 0.5}) for number in range(2)]
    report = read_scores(write("log.jsonl", rows), family=TranslationScoreData).aggregate()
    assert (report["bleu"].value.item(), report["perplexity"].value.item()) == (35.5, 1e6)
    assert TranslationScoreData(bleu=torch.tensor([-3.0]), batch_size=[1]).aggregate()["bleu"].value.item() == -3
    bad = write("log.jsonl", [log_row(0, {"bleu": 35.5, "chrf": 60.0})])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:1: chrf: expected a fraction .*metric\(Mean\(unit=...\)\)"):
        read_run(bad, family=TranslationScoreData)


def test_metrics_that_are_left_out_may_hold_anything(write: Write, log_row: Make) -> None:
    run = read_run(write("log.jsonl", [log_row(0, {"acc": 1.0, "bleu": ["a", ["b"]], "f1": [["a"], ["b"]]})]))
    assert (run.scores.aggregate()["acc"].value.item(), run.ignored) == (1.0, ("bleu", "f1"))


def test_shares_up_to_rounding_are_read(write: Write, log_row: Make) -> None:
    path = write(
        "log.jsonl", [log_row(0, {"acc": 1.0000000001}), log_row(1, {"acc": -1e-12}), log_row(2, {"acc": 0.5})]
    )
    assert read_scores(path).aggregate()["acc"].value.item() == pytest.approx(0.5)


def in_memory() -> dict[str, tuple[ScoreData, str]]:
    """Records that cannot be, and the start of the error."""
    nan = float("nan")
    counts = torch.tensor([3, 4])
    return {
        "percent": (
            MultipleChoiceScoreData(torch.tensor([0.5, 87.5]), batch_size=[2]),
            "acc: expected fractions from 0 to 1, since it is a share, got 87.5 in row 1; divide percents by 100",
        ),
        "negative": (
            ExactMatchScoreData(torch.tensor([nan, -3.0]), batch_size=[2]),
            "exact_match: expected fractions from 0 to 1, since it is a share, got -3 in row 1",
        ),
        "counts": (ExactMatchScoreData(counts, batch_size=[2]), "exact_match: expected fractions from 0 to 1"),
        "ragged": (
            IFEvalScoreData(None, torch.tensor([[1.0, nan], [1.0, 100.0]]), None, None, batch_size=[2]),
            r"inst_level_strict_acc: expected fractions from 0 to 1, since it is a share, got 100 in row \[1, 1\]",
        ),
        "preference": (
            PreferenceScoreData(torch.tensor([1, 3]), None, torch.tensor([1, -1]), batch_size=[2]),
            "losses: expected counts of at least 0, got -1 in row 1",
        ),
        "preference code": (
            PreferenceScoreData(torch.tensor([1, -1]), None, torch.tensor([1, 3]), batch_size=[2]),
            "wins: expected counts of at least 0, got -1 in row 1",
        ),
        "samples": (
            PassAtKScoreData(counts, counts + 1, batch_size=[2]),
            "num_correct: expected no more right samples",
        ),
        "negative samples": (PassAtKScoreData(counts, -counts, batch_size=[2]), "num_correct: expected whole numbers"),
        "verdicts": (
            IFEvalScoreData(torch.tensor([True, True]), ragged([[1], [0, 0]]), None, None, batch_size=[2]),
            "prompt_level_strict_acc: expected at most 0, as inst_level_strict_acc has an instruction, got 1 in row 1",
        ),
        "loose verdicts": (
            IFEvalScoreData(None, None, torch.tensor([1.0]), torch.tensor([[1.0, 0.0]]), batch_size=[1]),
            "prompt_level_loose_acc: expected at most 0",
        ),
    }


@pytest.mark.parametrize("name", in_memory())
def test_what_cannot_be_in_memory_is_told_by_aggregate_and_by_compare(name: str, tmp_path: Path) -> None:
    scores, message = in_memory()[name]
    with pytest.raises(ValueError, match=message):
        scores.aggregate()
    with pytest.raises(ValueError, match=message):
        compare(scores, scores)
    save_scores(scores, tmp_path / "scores.pt")
    with pytest.raises(ValueError, match=message):
        load_scores(tmp_path / "scores.pt").aggregate()


def test_differences_of_fields_may_be_negative() -> None:
    class NetScoreData(ScoreData):
        up: Tensor | None = field(metadata=metric(Ratio("net", {"up": 1, "down": -1}, {"up": 1, "down": 1})))
        down: Tensor | None = field(metadata=metric())

    scores = NetScoreData(torch.tensor([0, 1]), torch.tensor([2, 1]), batch_size=[2])
    assert scores.aggregate()["net"].value.item() == -0.5


def test_more_errors_than_words_are_a_rate_above_1() -> None:
    class SpeechScoreData(ScoreData):
        errors: Tensor | None = field(metadata=metric(Ratio("wer", {"errors": 1}, {"words": 1})))
        words: Tensor | None = field(metadata=metric())

    assert SpeechScoreData(torch.tensor([6]), torch.tensor([4]), batch_size=[1]).aggregate()["wer"].value.item() == 1.5


# --- verdicts on prompts and on instructions -------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["strict", "loose"])
@pytest.mark.parametrize("every, each", [(True, [False, False]), (True, [True, False]), (False, [True, True])])
def test_verdicts_of_result_files_that_contradict_each_other_are_errors(
    write: Write, reference_row: Make, level: str, every: bool, each: list[bool]
) -> None:
    for name in ("strict", "loose"):
        wrong = {"follow_all_instructions": every} if name == level else {}
        write(f"m.eval_results_{name}.jsonl", [reference_row(0, [True]), reference_row(1, each, **wrong)])
    path = write(
        f"m.eval_results_{level}.jsonl",
        [reference_row(0, [True]), reference_row(1, each, follow_all_instructions=every)],
    )
    expected, got = ("true", "false") if all(each) else ("false", "true")
    message = rf"follow_all_instructions: expected {expected}, since .* in follow_instruction_list, got {got}"
    with pytest.raises(ScoreFileError, match=message) as caught:
        read_run(path)
    assert (caught.value.path, caught.value.line) == (str(path), 2)


def test_verdicts_of_logs_that_contradict_each_other_are_errors(write: Write, ifeval_row: Make) -> None:
    path = write("log.jsonl", [ifeval_row(0, [True]), ifeval_row(1, [True, False], prompt_level_loose_acc=True)])
    with pytest.raises(
        ScoreFileError,
        match=r"log.jsonl:2: prompt_level_loose_acc: expected false, .* in inst_level_loose_acc, got true",
    ):
        read_run(path)


def test_verdicts_that_are_not_scored_contradict_nothing(write: Write, ifeval_row: Make) -> None:
    scores = read_scores(write("log.jsonl", [ifeval_row(0, [True, False], prompt_level_strict_acc=None)]))
    assert scores.aggregate()["prompt_level_strict_acc"].count.item() == 0
    part = IFEvalScoreData(torch.tensor([False]), ragged([[1, 1]]), None, None, batch_size=[1])  # others left out
    assert part.aggregate()["inst_level_strict_acc"].value.item() == 1.0


def test_files_whose_names_seem_exchanged_have_a_note(write: Write, reference_row: Make) -> None:
    write("m.eval_results_loose.jsonl", [reference_row(0, [False])])
    run = read_run(write("m.eval_results_strict.jsonl", [reference_row(0, [True])]))
    assert run.notes == ("fewer prompts are followed loosely than strictly: are the names of the two files exchanged?",)


@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_means_over_samples_of_true_verdicts_never_contradict(samples: int, width: int, data: st.DataObject) -> None:
    drawn = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=samples, max_size=samples))
    )
    assert contradiction(float(drawn.all(axis=1).mean()), drawn.mean(axis=0).tolist()) is None


# --- the search: any value in any field ------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=3),
    st.lists(st.one_of(st.none(), st.booleans(), st.floats(-2, 2), st.text(max_size=1)), max_size=3),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=1),
)
FIELDS = {
    "log": ("acc", "acc_norm", "doc_id", "doc", "doc_hash", "filter", "metrics"),
    "ifeval": ("prompt_level_strict_acc", "inst_level_strict_acc", "inst_level_loose_acc"),
    "strict": ("follow_all_instructions", "follow_instruction_list", "instruction_id_list", "prompt"),
}


@given(st.data())
def test_whatever_a_row_holds_figures_lie_in_their_range_or_the_line_is_named(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(FIELDS)))
    changed = data.draw(st.sampled_from(FIELDS[kind]))
    value = data.draw(VALUES)
    verdicts = data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
    rows = [_row(kind, number, verdicts) for number in range(3)]
    rows[1][changed] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "strict.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        found = _read(path)
    if isinstance(found, ScoreFileError):
        assert found.line == 2
        assert changed in found.problem or changed == "instruction_id_list"  # verdicts are not as many as its names
        return
    for one in found.aggregate().values():
        assert bool(one.value.isnan()) or 0 <= one.value.item() <= 1


def _read(path: Path) -> ScoreData | ScoreFileError:
    try:
        return read_scores(path)
    except ScoreFileError as error:
        # without the traceback, whose frames hold the file open and, by way of the caller's, the error
        return ScoreFileError(str(path), error.line, error.problem)


def _row(kind: str, number: int, verdicts: Sequence[bool]) -> dict[str, Any]:
    types = [f"type:{place}" for place in range(len(verdicts))]
    if kind == "strict":
        return {
            "follow_all_instructions": all(verdicts),
            "follow_instruction_list": list(verdicts),
            "instruction_id_list": types,
            "prompt": f"prompt {number}",
        }
    row: dict[str, Any] = {"doc_id": number, "doc": {"prompt": f"prompt {number}"}, "filter": "none"}
    if kind == "log":
        return row | {"metrics": ["acc", "acc_norm"], "acc": verdicts[0], "acc_norm": 0.5, "doc_hash": f"{number:064x}"}
    levels = {
        f"{unit}_level_{level}_acc": every
        for level in ("strict", "loose")
        for unit, every in (("prompt", all(verdicts)), ("inst", list(verdicts)))
    }
    row["doc"]["instruction_id_list"] = types
    return row | {"metrics": list(levels), **levels}
