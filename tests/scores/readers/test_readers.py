from __future__ import annotations

import gc
import gzip
import json
import os
import pickle
import signal
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import field
from tensorclass.scores import (
    INSTRUCTION_TYPES,
    ExactMatchScoreData,
    IFEvalScoreData,
    Mean,
    MultipleChoiceScoreData,
    ScoreData,
    ScoreFileError,
    codes,
    compare,
    metric,
    read_run,
    read_runs,
    read_scores,
)
from tensorclass.scores.readers import lines, unpacked_file
from tensorclass.scores.readers.growing_columns import prompt_id
from tensorclass.scores.readers.lines import json_rows
from tests.interrupting import Held, interrupted
from tests.open_files import linux, open_files

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]

STRICT = [[True, False], [True], [True, True, True], [False]]
LOOSE = [[True, True], [True], [True, True, True], [False]]


def values(tensor: Tensor | None) -> list[Any]:
    """A padded tensor as lists, padding as None."""
    assert tensor is not None
    return [[None if value != value or value == -1 else value for value in row] for row in tensor.tolist()]


@pytest.fixture
def pair(write: Write, reference_row: Make) -> tuple[Path, Path]:
    """The strict and the loose file of a run."""
    return (
        write("model.eval_results_strict.jsonl", (reference_row(*row) for row in enumerate(STRICT))),
        write("model.eval_results_loose.jsonl", (reference_row(*row) for row in enumerate(LOOSE))),
    )


# --- result files of the reference scorer ----------------------------------------------------------------------------


def test_a_pair_of_result_files_is_read_as_one_run(pair: tuple[Path, Path]) -> None:
    run = read_run(pair[0])
    assert (run.name, run.format, run.notes) == ("model", "ifeval-reference", ())
    assert run.files == tuple(map(str, pair))
    scores = run.scores
    assert type(scores) is IFEvalScoreData
    assert scores.prompt_level_strict_acc.tolist() == [all(row) for row in STRICT]
    assert scores.prompt_level_strict_acc.dtype == torch.bool
    assert values(scores.inst_level_strict_acc) == [[*row, None, None][:3] for row in STRICT]
    assert scores.prompt_level_loose_acc.tolist() == [all(row) for row in LOOSE]
    assert values(scores.inst_level_loose_acc) == [[*row, None, None][:3] for row in LOOSE]
    assert scores.prompt_id.tolist() == [prompt_id(f"prompt {number}") for number in range(4)]
    names = [[scores.instruction_types[code] for code in row if code >= 0] for row in scores.instruction_id.tolist()]
    assert names[2] == ["punctuation:no_comma", "length_constraints:number_words", "keywords:existence"]
    assert scores.instruction_types == INSTRUCTION_TYPES


def test_either_file_of_a_pair_stands_for_both(pair: tuple[Path, Path]) -> None:
    strict, loose = pair
    for given in ([strict], [loose], [strict, loose], [loose, strict], [strict, strict]):
        (run,) = read_runs(given)
        assert (run.name, sorted(run.files)) == ("model", sorted(map(str, pair)))
        assert run.scores.aggregate()["prompt_level_loose_acc"].value.item() == 0.75


def test_texts_of_result_files_are_read_again(pair: tuple[Path, Path]) -> None:
    run = read_run(pair[1])
    assert run.texts is not None
    texts = list(pickle.loads(pickle.dumps(run.texts))())
    assert run.scores.prompt_id is not None
    assert [one.prompt_id for one in texts] == run.scores.prompt_id.tolist()
    assert (texts[1].prompt, texts[1].response, texts[1].target) == ("prompt 1", "response", None)


def test_one_level_alone_is_read_and_the_other_is_none(write: Write, reference_row: Make) -> None:
    run = read_run(write("model_loose.jsonl", [reference_row(0, [True])]))
    assert run.name == "model"
    assert run.scores.prompt_level_strict_acc is None
    assert run.scores.prompt_level_loose_acc.tolist() == [True]
    assert run.notes == ("no strict file beside it",)


def test_plain_names_of_result_files_take_the_name_of_their_folder(write: Write, reference_row: Make) -> None:
    for level in ("strict", "loose"):
        write(f"gpt/eval_results_{level}.jsonl", [reference_row(0, [True])])
        path = write(f"llama/eval_results_{level}.jsonl", [reference_row(0, [True])])
    runs = read_runs([path.parents[1] / "gpt" / path.name, path])
    assert [run.name for run in runs] == ["gpt", "llama"]


def test_a_result_file_whose_name_says_no_level_is_an_error(write: Write, reference_row: Make) -> None:
    path = write("model.jsonl", [reference_row(0, [True])])
    with pytest.raises(ScoreFileError, match="doesn't say whether it is strict or loose"):
        read_run(path)


@pytest.mark.parametrize(
    "change, line, message",
    [
        ({"prompt": "another"}, 2, "expected the prompt of line 2 of model.eval_results_strict.jsonl, got another"),
        ({"instruction_id_list": ["a:b"]}, 2, "expected the instructions of line 2"),
        ({"follow_instruction_list": [True, True]}, 2, "expected a verdict for each of the 1 instructions, got 2"),
        ({"follow_instruction_list": "yes"}, 2, "follow_instruction_list: expected a list of verdicts, got 'yes'"),
        ({"follow_instruction_list": ["yes"]}, 2, "expected a list of finite numbers or true or false"),
        ({"follow_all_instructions": "yes"}, 2, "expected a finite number or true or false, got 'yes'"),
    ],
)
def test_rows_that_disagree_are_errors_that_name_the_line(
    pair: tuple[Path, Path], write: Write, reference_row: Make, change: dict[str, Any], line: int, message: str
) -> None:
    rows = [reference_row(*row) for row in enumerate(LOOSE)]
    rows[1].update(change)
    loose = write("model.eval_results_loose.jsonl", rows)
    with pytest.raises(ScoreFileError, match=message) as caught:
        read_run(pair[0])
    assert (caught.value.path, caught.value.line) == (str(loose), line)


@pytest.mark.parametrize("short", [0, 1])
def test_a_file_that_ends_before_the_other_is_an_error(pair: tuple[Path, Path], short: int) -> None:
    lines = pair[short].read_text().splitlines(keepends=True)
    pair[short].write_text("".join(lines[:2]))
    with pytest.raises(ScoreFileError, match="the file ends here") as caught:
        read_run(pair[0])
    assert (caught.value.path, caught.value.line) == (str(pair[short]), 3)


def test_a_row_that_lacks_a_key_is_an_error(write: Write, reference_row: Make) -> None:
    rows = [reference_row(number, [True]) for number in range(3)]
    del rows[2]["prompt"]
    with pytest.raises(ScoreFileError, match=r"strict.jsonl:3: prompt: expected in every row"):
        read_run(write("strict.jsonl", rows))


def test_the_other_file_in_another_format_is_an_error(pair: tuple[Path, Path], write: Write, ifeval_row: Make) -> None:
    write("model.eval_results_loose.jsonl", [ifeval_row(0, [True])])
    with pytest.raises(ScoreFileError, match=r"loose.jsonl:1: expected a result file as model.eval_results_strict"):
        read_run(pair[0])


def test_a_missing_file_is_an_error_also_where_the_other_level_is_there(pair: tuple[Path, Path]) -> None:
    pair[1].unlink()
    with pytest.raises(ScoreFileError, match=r"loose.jsonl: no such file"):
        read_runs(pair)


def test_an_unknown_instruction_type_is_kept(write: Write, reference_row: Make) -> None:
    row = reference_row(0, [True], instruction_id_list=["new:type"])
    scores = read_scores(write("strict.jsonl", [row, row]))
    assert scores.instruction_types == (*INSTRUCTION_TYPES, "new:type")
    assert list(scores.aggregate().groups["inst_level_strict_acc"]) == ["new", "new:type"]


# --- sample logs of lm-evaluation-harness ----------------------------------------------------------------------------


def test_an_ifeval_log_gives_what_the_result_files_give(
    pair: tuple[Path, Path], write: Write, ifeval_row: Make
) -> None:
    rows = [ifeval_row(number, *both) for number, both in enumerate(zip(STRICT, LOOSE, strict=True))]
    run = read_run(write("samples_ifeval_2026-01-02T03-04-05.678.jsonl", rows))
    assert (run.format, run.filter, run.ignored) == ("lm-eval", "none", ())
    assert run.name.endswith("/ifeval")
    reference = read_scores(pair[0])
    for name in ("prompt_level_strict_acc", "prompt_level_loose_acc", "prompt_id", "instruction_id"):
        assert getattr(run.scores, name).tolist() == getattr(reference, name).tolist()
    for name in ("inst_level_strict_acc", "inst_level_loose_acc"):
        assert values(getattr(run.scores, name)) == values(getattr(reference, name))
    assert compare(run.scores, reference)["prompt_level_strict_acc"].value.item() == 0.0


def test_exact_match_and_multiple_choice_are_recognised(write: Write, log_row: Make) -> None:
    gsm8k = read_scores(write("gsm8k.jsonl", [log_row(0, {"exact_match": 1.0}), log_row(1, {"exact_match": 0})]))
    assert type(gsm8k) is ExactMatchScoreData
    assert (gsm8k.exact_match.tolist(), gsm8k.exact_match.dtype) == ([1.0, 0.0], torch.float32)
    arc = read_scores(write("arc.jsonl", [log_row(0, {"acc": 1.0, "acc_norm": 0.0})]))
    assert type(arc) is MultipleChoiceScoreData
    assert (arc.acc.tolist(), arc.acc_norm.tolist()) == ([1.0], [0.0])
    mmlu = read_scores(write("mmlu.jsonl", [log_row(0, {"acc": True}), log_row(1, {"acc": False})]))
    assert mmlu.acc.tolist() == [True, False]
    assert mmlu.acc_norm is None


def test_rows_logged_once_for_each_filter_are_counted_once(write: Write, log_row: Make) -> None:
    rows = [
        log_row(number, {"exact_match": float(number < right)}, filter=name)
        for name, right in (("strict-match", 1), ("flexible-extract", 3))
        for number in range(4)
    ]
    path = write("gsm8k.jsonl", rows)
    run = read_run(path)
    assert (run.filter, run.filters) == ("strict-match", {"strict-match": 4, "flexible-extract": 4})
    assert run.scores.aggregate()["exact_match"].value.item() == 0.25
    assert run.scores.batch_size == (4,)
    assert "took 'strict-match', left out 'flexible-extract'" in run.notes[0]
    assert read_scores(path, filter="flexible-extract").aggregate()["exact_match"].value.item() == 0.75
    with pytest.raises(
        ScoreFileError, match="expected rows of 'loose', got only rows of 'strict-match', 'flexible-extract'"
    ):
        read_run(path, filter="loose")


def test_filters_may_take_turns(write: Write, log_row: Make) -> None:
    rows = [log_row(n, {"exact_match": float(name == "b")}, filter=name) for n in range(3) for name in ("a", "b")]
    path = write("log.jsonl", rows)
    assert read_scores(path).exact_match.tolist() == [0.0, 0.0, 0.0]
    assert read_scores(path, filter="b").exact_match.tolist() == [1.0, 1.0, 1.0]


def test_a_log_without_filter_metrics_and_hash_is_read(write: Write) -> None:
    rows = [{"doc_id": number, "doc": {}, "filtered_resps": [""], "acc": 1.0} for number in range(3)]
    scores = read_scores(write("old.jsonl", rows))
    assert scores.acc.tolist() == [1.0, 1.0, 1.0]
    assert len(set(scores.prompt_id.tolist())) == 3


def test_null_is_not_scored(write: Write, log_row: Make) -> None:
    scores = read_scores(write("log.jsonl", [log_row(0, {"acc": None}), log_row(1, {"acc": True})]))
    one = scores.aggregate()["acc"]
    assert (one.value.item(), one.count.item()) == (1.0, 1.0)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"acc": "yes"}, "acc: expected a finite number or true or false, got 'yes'"),
        ({"acc": [1.0]}, r"acc: expected a finite number or true or false, got \[1.0\]"),
        ({"acc": 1e300}, "acc: expected a finite number"),
        ({"filter": 3}, "filter: expected a name, got 3"),
    ],
)
def test_a_value_that_is_no_score_is_an_error(
    write: Write, log_row: Make, change: dict[str, Any], message: str
) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0}), log_row(1, {"acc": 1.0}, **change)])
    with pytest.raises(ScoreFileError, match=f"log.jsonl:2: {message}"):
        read_run(path)


def test_a_row_that_lacks_a_metric_is_an_error(write: Write, log_row: Make) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0, "acc_norm": 1.0}), log_row(1, {"acc": 1.0})])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:2: acc_norm: expected in every row"):
        read_run(path)


def test_a_row_of_another_kind_is_an_error(write: Write, log_row: Make) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0}), {"acc": 1.0}])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:2: expected a row of a sample log"):
        read_run(path)


def test_verdicts_that_are_not_as_many_as_instructions_are_an_error(write: Write, ifeval_row: Make) -> None:
    path = write("log.jsonl", [ifeval_row(0, [True]), ifeval_row(1, [True], inst_level_loose_acc=[True, False])])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:2: .*1 in inst_level_strict_acc, 2 in inst_level_loose_acc"):
        read_run(path)


class SummaryScoreData(ScoreData):
    bleu: Tensor | None = field(metadata=metric(Mean(by="subject_id")))
    votes: Tensor | None = None
    subject_id: Tensor | None = field(default=None, kw_only=True, metadata=codes("subjects", logged=("doc", "subject")))
    subjects: tuple[str, ...] | None = field(default=None, kw_only=True)


def test_a_family_of_ones_own_is_read_by_the_names_of_its_fields(write: Write, log_row: Make) -> None:
    rows = [
        log_row(number, {"bleu": number / 4, "votes": [1.0] * number}, doc={"subject": "law" if number else "art"})
        for number in range(3)
    ]
    scores = read_scores(write("log.jsonl", rows), family=SummaryScoreData)
    assert type(scores) is SummaryScoreData
    assert scores.bleu.tolist() == [0.0, 0.25, 0.5]
    assert scores.subjects == ("art", "law")
    report = scores.aggregate()
    assert report["votes"].count.item() == 3
    assert report.groups["bleu"]["law"].value.item() == 0.375
    with pytest.raises(ScoreFileError, match=r"expected a metric of SummaryScoreData .*, got acc"):
        read_scores(write("other.jsonl", [log_row(0, {"acc": 1.0})]), family=SummaryScoreData)


class CodeScoreData(ScoreData):
    first_try: Tensor | None = field(default=None, metadata=metric(Mean(key="pass@1")))


def test_the_key_of_a_metric_need_not_be_an_identifier(write: Write, log_row: Make) -> None:
    scores = read_scores(write("log.jsonl", [log_row(n, {"pass@1": n / 4}) for n in range(4)]), family=CodeScoreData)
    assert scores.first_try.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert scores.aggregate()["pass@1"].value.item() == 0.375
    with pytest.raises(ScoreFileError, match=r"expected a metric of CodeScoreData \(pass@1\), got acc"):
        read_scores(write("other.jsonl", [log_row(0, {"acc": 1.0})]), family=CodeScoreData)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, line, message",
    [
        (b"", 1, "the file is empty"),
        (b"\n  \n", 1, "the file is empty"),
        (b'{"a": 1}\n', 1, "unknown format: rows with the columns 'a'.*--columns accuracy=a; formats that are read: "),
        (b"\n{}\n", 2, "unknown format: .*no keys"),
        (b"[1]\n", 1, "expected a JSON object on each line, got an array"),
        (b"null\n", 1, "expected a JSON object on each line, got null"),
        (b"doc_id,acc\n", 1, "not JSON at column 1: .*expected one JSON object on each line"),
        (b'{\n "results": {}\n}\n', 1, r"JSON over several lines; .*not a summary \(results_\*.json\)"),
        (b'{"doc_id": 1, "acc"', 1, "the line is cut off"),
        (b'{"doc_id": 1, "acc"\n', 1, "not JSON at column"),
        (b"\xff\xfe{}\n", 1, "not UTF-8 at byte 1"),
        (b"[" * 200_000 + b"\n", 1, "nested too deeply"),
    ],
)
def test_a_file_that_holds_no_scores_is_an_error(write: Write, content: bytes, line: int, message: str) -> None:
    path = write("log.jsonl", content)
    with pytest.raises(ScoreFileError, match=message) as caught:
        read_run(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert "\n" not in str(caught.value)


def test_a_log_cut_off_inside_its_last_line_is_an_error(write: Write, log_row: Make) -> None:
    text = "".join(json.dumps(log_row(number, {"acc": 1.0})) + "\n" for number in range(3))
    path = write("log.jsonl", text[:-20])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:3: the line is cut off"):
        read_run(path)
    assert read_scores(write("log.jsonl", text[:-1])).batch_size == (3,)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScoreFileError, match=r"nowhere.jsonl: no such file"):
        read_run(tmp_path / "nowhere.jsonl")


def test_one_path_for_several_and_a_family_that_is_no_class_are_errors() -> None:
    with pytest.raises(TypeError, match=r"paths: expected a list of files, got 'log.jsonl'"):
        read_runs("log.jsonl")
    with pytest.raises(TypeError, match=r"family: expected a class derived from ScoreData, got 'ifeval'"):
        read_scores("log.jsonl", family="ifeval")  # type: ignore[arg-type]


def test_empty_lines_and_a_byte_order_mark_are_passed_over(write: Write, log_row: Make) -> None:
    row = json.dumps(log_row(0, {"acc": 1.0}))
    assert read_scores(write("log.jsonl", f"\ufeff{row}\n\n \r\n{row}\r\n")).batch_size == (2,)


def test_what_python_writes_as_json_is_read(write: Write, log_row: Make) -> None:
    row = log_row(0, {"acc": float("nan")}, resps=[[-float("inf"), "\ud83d"]], doc={"prompt": "half \ud83d"})
    scores = read_scores(write("log.jsonl", [row, log_row(1, {"acc": 1.0})]))
    assert scores.aggregate()["acc"].count.item() == 1


def test_a_compressed_file_is_read(write: Write, log_row: Make) -> None:
    text = "".join(json.dumps(log_row(number, {"acc": 1.0})) + "\n" for number in range(50))
    packed = gzip.compress(text.encode())
    run = read_run(write("log.jsonl.gz", packed))
    assert (run.name, run.scores.batch_size) == ("log", (50,))
    with pytest.raises(ScoreFileError, match=r"cut.jsonl.gz:\d+: the compressed file is cut off or damaged"):
        read_run(write("cut.jsonl.gz", packed[:-30]))
    with pytest.raises(ScoreFileError, match=r"bad.jsonl.gz:\d+: the compressed file is cut off or damaged"):
        read_run(write("bad.jsonl.gz", packed[:100] + b"\0\0\0\0" + packed[104:]))


@linux
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("module", [lines, unpacked_file])
def test_a_reader_that_is_interrupted_at_any_line_closes_its_file(
    tmp_path: Path, suffix: str, module: ModuleType
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes((gzip.compress if suffix else bytes)(b'{"a": 1}\n\n{"a": 2}\n'))
    line = 0
    while True:
        line += 1
        before = Held.now()
        outcome = interrupted(lambda: list(json_rows(path)), line, inside=module.__file__)
        assert outcome.noticed == (), outcome.where
        assert Held.now().beyond(before) == [], outcome.where
        if outcome.where is None:
            break
        assert isinstance(outcome.error, KeyboardInterrupt), outcome.where
    assert line > 8


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_reader_that_waits_for_the_writer_of_a_pipe_can_be_interrupted(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    interrupt = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))

    def read() -> None:
        interrupt.start()  # here, since the interrupt comes to a busy thread wherever it is
        read_run(pipe)

    # ends the wait where the interrupt does not
    rescue = threading.Timer(60, lambda: os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)))
    rescue.start()
    with pytest.raises(KeyboardInterrupt):
        read()
    rescue.cancel()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_log_is_read_from_a_pipe(tmp_path: Path, log_row: Make) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(json.dumps(log_row(number, {"acc": 1.0})) + "\n" for number in range(10))
    writer = threading.Thread(target=lambda: pipe.write_text(text))
    writer.start()
    assert read_scores(pipe).batch_size == (10,)
    writer.join()


@linux
def test_an_error_leaves_no_file_open(pair: tuple[Path, Path], write: Write, reference_row: Make) -> None:
    write(pair[1].name, [reference_row(7, [True])])
    gc.collect()
    gc.disable()  # files are closed at once, not when garbage is collected
    try:
        with pytest.raises(ScoreFileError, match="expected the prompt of line 1"):
            read_run(pair[0])
        held = open_files()
    finally:
        gc.enable()
    assert not set(held) & set(map(str, pair))


def test_rows_stream_by_and_only_scores_are_kept(write: Write, ifeval_row: Make) -> None:
    padding = "x" * 20_000

    def rows() -> Iterator[dict[str, Any]]:
        return (ifeval_row(number, [True, False], target=padding) for number in range(2_000))

    path = write("log.jsonl", rows())
    assert path.stat().st_size > 40_000_000
    read_scores(path)  # what is loaded once is not counted
    tracemalloc.start()
    try:
        read_scores(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def test_progress_is_told_in_bytes(write: Write, log_row: Make) -> None:
    path = write("log.jsonl", [log_row(number, {"acc": 1.0}) for number in range(3000)])
    told: list[int] = []
    assert sum(1 for _ in json_rows(path, told.append)) == 3000
    assert told == sorted(told)
    assert told[-1] == path.stat().st_size
    assert len(told) == 3


def test_runs_of_one_name_are_told_apart_by_their_folders(write: Write, log_row: Make) -> None:
    paths = [write(f"{model}/log.jsonl", [log_row(0, {"acc": 1.0})]) for model in ("gpt", "llama")]
    assert [run.name for run in read_runs(paths)] == ["gpt/log", "llama/log"]


def test_a_filter_is_not_for_result_files(pair: tuple[Path, Path]) -> None:
    with pytest.raises(ScoreFileError, match="filter: expected none for ifeval-reference, got 'x'"):
        read_run(pair[0], filter="x")
    with pytest.raises(TypeError, match="expected IFEvalScoreData"):
        read_run(pair[0], family=ExactMatchScoreData)


def test_a_folder_in_place_of_the_other_level_is_an_error(pair: tuple[Path, Path]) -> None:
    strict, loose = pair
    loose.unlink()
    loose.mkdir()
    with pytest.raises(ScoreFileError, match=r"loose\.jsonl: expected a file, found a folder"):
        read_run(strict)
