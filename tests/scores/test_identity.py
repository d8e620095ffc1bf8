"""The rows of runs that are of one prompt: those of one task and one document, whatever their order and their text."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.cli import main
from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    ScoreData,
    align,
    compare,
    load_scores,
    read_run,
    read_runs,
    read_scores,
    save_scores,
)
from tensorclass.scores.identity import paired_keys, prompt_keys, task_of_rows

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]

DATE = "2026-01-31T10-20-30.123456"


def bare(number: int, right: float, **changes: Any) -> dict[str, Any]:
    """A row of an old log: without filter, metrics, hash and content."""
    return {"doc_id": number, "doc": {}, "filtered_resps": [""], "acc": right, **changes}


def differences(a: ScoreData, b: ScoreData) -> tuple[int, float]:
    found = compare(a, b)
    return found.prompts, found["acc"].value.item()


# --- tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hashed", [True, False])
def test_runs_of_different_tasks_are_an_error_that_names_both(write: Write, log_row: Make, hashed: bool) -> None:
    def rows(right: int) -> list[dict[str, Any]]:
        made = [log_row(number, {"acc": float(number < right)}) for number in range(10)]
        return made if hashed else [bare(number, row["acc"]) for number, row in enumerate(made)]

    paths = [write(f"samples_{task}_{DATE}.jsonl", rows(n)) for task, n in (("mathqa", 2), ("pubmed_qa", 6))]
    a, b = map(read_scores, paths)
    with pytest.raises(ValueError, match="expected two runs of one task, got 'mathqa' and 'pubmed_qa'"):
        compare(a, b)


def test_the_command_names_the_files_and_the_tasks(
    write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write(f"samples_{task}_{DATE}.jsonl", [log_row(0, {"acc": 1.0})]) for task in ("arc", "boolq")]
    assert main(["scores", *map(str, paths), "--compare"]) == 2
    err = capsys.readouterr().err
    assert f"{paths[0]}: --compare needs at least two runs of one task, got arc: " in err
    assert "; boolq: " in err


def test_numbers_of_documents_say_nothing_in_files_that_name_no_task(write: Write) -> None:
    paths = [write(f"{name}.jsonl", [bare(number, 1.0) for number in range(4)]) for name in ("mathqa", "pubmed_qa")]
    with pytest.raises(ValueError, match="expected two runs of one task, got 'mathqa' and 'pubmed_qa'"):
        compare(*map(read_scores, paths))


def test_numbers_of_documents_pair_in_files_of_one_task(write: Write) -> None:
    paths = [
        write(f"{model}/samples_arc_{date}.jsonl", [bare(number, float(number < right)) for number in order])
        for model, date, right, order in (("a", DATE, 1, range(4)), ("b", "2026-02-01", 3, range(3, 0, -1)))
    ]
    assert differences(*map(read_scores, paths)) == (3, pytest.approx(2 / 3))


def test_documents_of_one_number_and_other_content_are_others(write: Write) -> None:
    a = write("a.jsonl", [bare(number, 1.0, doc={"question": f"sum {number}"}) for number in range(4)])
    b = write("b.jsonl", [bare(number, 1.0, doc={"question": f"cell {number}"}) for number in range(4)])
    same = write("c.jsonl", [bare(number, 0.0, doc={"question": f"sum {number}"}) for number in (2, 0)])
    with pytest.raises(ValueError, match="expected prompts that both runs hold, got none among 4 and 4"):
        compare(read_scores(a), read_scores(b))
    assert differences(read_scores(a), read_scores(same)) == (2, -1.0)


def test_a_file_that_names_no_task_compares_with_one_that_does(write: Write, log_row: Make) -> None:
    a = write(f"samples_arc_{DATE}.jsonl", [log_row(number, {"acc": 1.0}) for number in range(3)])
    b = write("renamed.jsonl", [log_row(number, {"acc": 0.0}) for number in (2, 1)])
    assert differences(read_scores(a), read_scores(b)) == (2, -1.0)


def test_another_prompt_for_the_same_document_is_the_same_prompt(write: Write, log_row: Make) -> None:
    def read(shots: int) -> ScoreData:
        rows = [log_row(number, {"acc": 1.0}, prompt_hash=f"{shots}-{number}") for number in range(3)]
        return read_scores(write(f"{shots}/samples_arc_{DATE}.jsonl", rows))

    assert compare(read(0), read(5)).prompts == 3


def test_runs_of_several_tasks_pair_task_by_task(write: Write) -> None:
    def joined(model: str, right: dict[str, float]) -> ScoreData:
        runs = [
            read_scores(write(f"{model}/samples_{task}_{DATE}.jsonl", [bare(number, score) for number in range(3)]))
            for task, score in right.items()
        ]
        return torch.cat(align(*runs))

    a, b = joined("a", {"arc": 1.0, "boolq": 0.0}), joined("b", {"mmlu": 1.0, "boolq": 1.0, "arc": 1.0})
    found = compare(a, b)
    assert (found.prompts, found.only_a, found.only_b, found["acc"].value.item()) == (6, 0, 3, 0.5)


def test_a_document_of_two_tasks_is_two_prompts(write: Write, log_row: Make) -> None:
    rows = [log_row(number, {"acc": 1.0}) for number in range(3)]
    runs = [read_scores(write(f"samples_{task}_{DATE}.jsonl", rows)) for task in ("arc", "arc_chat")]
    both = torch.cat(runs)
    assert both.prompt_id.tolist() == runs[0].prompt_id.tolist() * 2
    keys = prompt_keys(both)
    assert keys is not None
    assert len(set(keys.tolist())) == 6
    assert compare(both, both[:4]).prompts == 4


def test_the_task_of_prompts_is_kept_by_operations_and_files(write: Write, log_row: Make, tmp_path: Path) -> None:
    rows = [log_row(number, {"acc": 1.0}) for number in range(3)]
    both = torch.cat([read_scores(write(f"samples_{task}_{DATE}.jsonl", rows)) for task in ("arc", "boolq")])
    save_scores(both, tmp_path / "both.pt")
    loaded = load_scores(tmp_path / "both.pt")
    codes, names = task_of_rows(loaded.flip(0))
    assert [names[code] for code in codes] == ["boolq"] * 3 + ["arc"] * 3
    with pytest.raises(ValueError, match="got 'arc' and 'boolq'"):
        compare(loaded[:3], loaded[3:])


def test_a_record_without_tasks_aligns_with_one_that_has_them(write: Write, log_row: Make) -> None:
    read = read_scores(write(f"samples_gsm_{DATE}.jsonl", [log_row(0, {"exact_match": 1.0})]))
    assert isinstance(read, ExactMatchScoreData)
    own = ExactMatchScoreData(torch.zeros(1), prompt_id=read.prompt_id + 1, batch_size=[1])
    both = torch.cat(align(own, read))
    assert both.prompt_task.tolist() == [-1, 0]
    assert compare(both, read)["exact_match"].value.item() == 0.0


# --- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hashed", [True, False])
def test_a_text_that_all_documents_share_identifies_none(write: Write, log_row: Make, hashed: bool) -> None:
    rows = [log_row(number, {"acc": float(number < 3)}, doc={"prompt": "Classify:"}) for number in range(6)]
    if not hashed:
        rows = [{key: value for key, value in row.items() if key != "doc_hash"} for row in rows]
    a, b = read_scores(write("a.jsonl", rows)), read_scores(write("b.jsonl", rows[::-1]))
    assert len(set(a.prompt_id.tolist())) == 6
    found = compare(a, b)
    assert (found.prompts, found["acc"].only_a.item(), found["acc"].only_b.item()) == (6, 0, 0)


def test_documents_of_ifeval_that_share_their_text_are_told_apart(write: Write, ifeval_row: Make) -> None:
    def row(number: int, verdicts: list[bool]) -> dict[str, Any]:
        made = ifeval_row(number, verdicts)
        return {**made, "doc": {**made["doc"], "prompt": "Write." if number < 3 else f"Write {number}."}}

    rows = [row(number, [number % 2 == 0]) for number in range(5)]
    a = read_run(write("a.jsonl", rows))
    b = read_run(write("b.jsonl", rows[::-1]))
    assert len(set(a.scores.prompt_id.tolist())) == 5
    assert compare(a.scores, b.scores)["prompt_level_strict_acc"].only_a.item() == 0
    assert a.notes == (
        "3 rows have the prompt of another document: these are told apart by their documents, not by text",
    )


def test_rows_of_result_files_with_one_text_and_other_instructions_are_told_apart(
    write: Write, reference_row: Make
) -> None:
    rows = [reference_row(number, [True] * (1 + number), prompt="Write.") for number in range(2)]
    rows += [reference_row(2, [True]), reference_row(2, [False])]
    scores = read_scores(write("strict.jsonl", rows))
    assert len(set(scores.prompt_id.tolist())) == 3
    assert scores.prompt_id[2] == scores.prompt_id[3]  # a repeat


def test_result_files_and_logs_of_the_same_prompts_pair(write: Write, reference_row: Make, ifeval_row: Make) -> None:
    reference = read_scores(write("strict.jsonl", [reference_row(number, [number > 1]) for number in range(5)]))
    log = read_scores(
        write(f"samples_leaderboard_ifeval_{DATE}.jsonl", [ifeval_row(number, [True]) for number in (4, 1, 2)])
    )
    found = compare(reference, log)
    assert (found.prompts, found.only_a, found.only_b) == (3, 2, 0)
    assert found["prompt_level_strict_acc"].value.item() == pytest.approx(1 / 3)


# --- records by hand -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids, message",
    [
        (torch.tensor([0.0, 1.5]), r"prompt_id: expected one integer a prompt, shape \[2\], got torch.float32 \[2\]"),
        (torch.tensor([[0, 1], [2, 3]]), r"prompt_id: expected one integer a prompt, shape \[2\], got .* \[2, 2\]"),
    ],
)
def test_ids_that_are_no_ids_are_an_error(ids: torch.Tensor, message: str) -> None:
    scores = ExactMatchScoreData(torch.ones(2), prompt_id=ids, batch_size=[2])
    with pytest.raises(ValueError, match=message):
        prompt_keys(scores)
    with pytest.raises(ValueError, match=message):
        compare(scores, scores)


def test_a_task_without_a_name_is_an_error() -> None:
    scores = ExactMatchScoreData(
        torch.ones(1), prompt_id=torch.ones(1).long(), prompt_task=torch.tensor([1]), task_names=("a",), batch_size=[1]
    )
    with pytest.raises(ValueError, match="prompt_task: expected codes below 1"):
        compare(scores, scores)


@pytest.mark.parametrize("change", [{"doc_id": None}, {"doc_id": [1]}, {"doc_id": True}, {"doc_hash": 7}])
def test_a_row_that_says_no_document_is_an_error(write: Write, log_row: Make, change: dict[str, Any]) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0}), log_row(1, {"acc": 1.0}, **change)])
    with pytest.raises(ValueError, match=rf"log.jsonl:2: {next(iter(change))}: expected the document's"):
        read_run(path)


# --- the search: any logs --------------------------------------------------------------------------------------------

TASKS = ("arc", "boolq", "mathqa")


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[str | None], bool, list[list[tuple[int, int]]]]:
    """Two logs: the tasks that their names say, whether rows have hashes, and rows (document, score)."""
    hashed = draw(st.booleans())
    task = st.sampled_from(TASKS[:2]) if not hashed else st.sampled_from([*TASKS[:2], None])
    rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=8)
    return [draw(task), draw(task)], hashed, [draw(rows), draw(rows)]


def line(document: int, score: int, hashed: bool, text: str | None) -> str:
    row: dict[str, Any] = {"doc_id": document, "metrics": ["acc"], "acc": float(score)}
    if hashed:
        row |= {"doc_id": 5 - document, "doc_hash": f"{document:064x}"}  # in another version, numbers are others
    if text is not None:
        row["doc"] = {"prompt": text}
    return json.dumps(row) + "\n"


@given(logs(), st.sampled_from([None, "Classify:"]), st.randoms(use_true_random=False))
def test_exactly_the_documents_that_are_the_same_are_paired(
    drawn: tuple[list[str | None], bool, list[list[tuple[int, int]]]], text: str | None, draw: random.Random
) -> None:
    tasks, hashed, rows = drawn
    with tempfile.TemporaryDirectory() as folder:
        paths: list[Path] = []
        for number, (task, own) in enumerate(zip(tasks, rows, strict=True)):
            path = Path(folder, str(number), f"samples_{task}_{DATE}.jsonl" if task else f"run{number}.jsonl")
            path.parent.mkdir()
            path.write_text("".join(line(*row, hashed, text) for row in own), encoding="utf-8")
            paths.append(path)
        runs = [run.scores for run in read_runs(paths)]
    shuffled = [run[torch.tensor(draw.sample(range(len(run)), len(run)))] for run in runs]
    held = [{document for document, _ in own} for own in rows]
    for run, own in zip(runs, rows, strict=True):  # within a run, rows of one document have one key
        keys = prompt_keys(run)
        assert keys is not None
        assert len(set(zip(keys.tolist(), (document for document, _ in own), strict=True))) == len({*keys.tolist()})
        assert len({*keys.tolist()}) == len({document for document, _ in own})
    if None not in tasks and tasks[0] != tasks[1]:
        with pytest.raises(ValueError, match=f"got '{tasks[0]}' and '{tasks[1]}'"):
            paired_keys(*shuffled)
        return
    keys_a, keys_b = (Counter(keys.tolist()) for keys in paired_keys(*shuffled))
    assert len(keys_a.keys() & keys_b.keys()) == len(held[0] & held[1])
    _check_comparison(runs, shuffled, rows, held[0] & held[1])
    for keys, own in ((keys_a, rows[0]), (keys_b, rows[1])):
        assert sorted(keys.values()) == sorted(Counter(document for document, _ in own).values())


def _check_comparison(
    runs: list[ScoreData], shuffled: list[ScoreData], rows: list[list[tuple[int, int]]], shared: set[int]
) -> None:
    """The comparison is that of the documents that both hold, each with all of its rows, whatever their order."""
    if not shared:
        with pytest.raises(ValueError, match="expected prompts that both runs hold, got none"):
            compare(*shuffled, resamples=1000)
        return
    found = compare(*shuffled, resamples=1000)
    assert found.to_dict() == compare(*runs, resamples=1000).to_dict()
    only_a, only_b = (len({document for document, _ in own} - shared) for own in rows)
    assert (found.prompts, found.only_a, found.only_b) == (len(shared), only_a, only_b)
    for value, own in ((found["acc"].a, rows[0]), (found["acc"].b, rows[1])):
        scores = [score for document, score in own if document in shared]
        assert value.item() == pytest.approx(sum(scores) / len(scores))
    repeated = any(len({document for document, _ in own}) < len(own) for own in rows)
    assert bool(found.notes) == repeated


def test_a_log_of_ifeval_without_texts_is_known_by_its_documents(write: Write, ifeval_row: Make) -> None:
    rows = [ifeval_row(number, [True], doc={"instruction_id_list": ["a:b"]}) for number in range(3)]
    scores = read_scores(write("log.jsonl", rows))
    assert isinstance(scores, IFEvalScoreData)
    assert len(set(scores.prompt_id.tolist())) == 3
