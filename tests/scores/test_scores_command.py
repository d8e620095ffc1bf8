from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import IFEvalScoreData, load_scores, scores_command
from tensorclass.scores import score_errors as errors_module
from tensorclass.scores.command import exit_codes, run_files
from tensorclass.support import interrupts
from tests import fresh_python
from tests.interrupting import Held, interrupted
from tests.terminal import Terminal

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def logs(write: Write, ifeval_row: Make) -> list[Path]:
    """Two runs on the same prompts."""
    first = [[True, False], [True], [True, True], [False], [True]]
    second = [[True, True], [True], [False, True], [True], [True]]
    return [
        write(f"{name}.jsonl", (ifeval_row(number, row) for number, row in enumerate(verdicts)))
        for name, verdicts in (("first", first), ("second", second))
    ]


def run(*arguments: object) -> int:
    return main(["scores", *map(str, arguments)])


def test_a_table_shows_every_metric(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(logs[0]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(r"prompt_level_strict_acc +60\.00 +\[14\.60, 96\.71\] +24\.49 +5 +5", out)
    assert re.search(r"inst_level_loose_acc +71\.43 .* 5 +7", out)
    assert "length_constraints:number_words" in out
    assert "Intervals: t over prompts, two right and two wrong ones added." in " ".join(out.split())


def test_several_runs_stand_below_each_other(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs) == 0
    out = capsys.readouterr().out
    assert re.search(r"prompt_level_strict_acc +first +60\.00", out)
    assert re.search(r"second +80\.00", out)


def test_a_comparison_shows_differences_and_mcnemars_test(
    logs: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert run(*logs, "--compare") == 0
    out = capsys.readouterr().out
    assert "second beside first, on the 5 prompts that both hold" in out
    assert re.search(r"prompt_level_strict_acc +5 +60\.00 +80\.00 +\+20\.00 +\[.*\] +1\.000 +[\d.]+ +1 / 2", out)
    assert "McNemar's exact test" in " ".join(out.split())


def test_a_narrow_terminal_keeps_every_number(
    logs: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*logs, "--compare") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for number in ("+20.00", "+14.29", "24.49", "1 / 2"):
        assert number in out


def test_json_is_for_machines(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--compare", "--json", "--seed", 3) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert document["schema"] == "tensorclass.scores/1"
    first, second = document["runs"]
    assert (first["name"], first["prompts"], first["format"], first["seed"]) == ("first", 5, "lm-eval", 3)
    figures = {one["name"]: one for one in first["metrics"]}
    assert figures["prompt_level_strict_acc"]["value"] == 0.6
    assert figures["inst_level_strict_acc"]["count"] == 7
    types = {one["name"]: one["value"] for one in second["groups"]["inst_level_strict_acc"]}
    assert types == {
        "length_constraints": 1.0,
        "length_constraints:number_words": 1.0,
        "punctuation": 0.8,
        "punctuation:no_comma": 0.8,
    }
    (comparison,) = document["comparisons"]
    assert (comparison["a"], comparison["b"], comparison["prompts"]) == ("first", "second", 5)
    assert comparison["metrics"][0]["mcnemar"] == {"only_a": 1, "only_b": 2, "p_value": 1.0}


def test_the_seed_fixes_the_output(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for seed in (1, 1, 2):
        run(logs[0], "--json", "--seed", seed)
        outputs.append(json.loads(capsys.readouterr().out)["runs"][0]["metrics"])
    assert outputs[0] == outputs[1]


def test_save_writes_results_and_records(logs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "results"
    assert run(*logs, "--save", folder, "--json") == 0
    assert sorted(path.name for path in folder.iterdir()) == ["first.pt", "scores.json", "second.pt"]
    assert os.listdir(folder.parent) == ["results"]
    assert (folder / "scores.json").read_text(encoding="utf-8") == capsys.readouterr().out
    scores = load_scores(folder / "first.pt")
    assert type(scores) is IFEvalScoreData
    assert scores.aggregate()["prompt_level_strict_acc"].value.item() == pytest.approx(0.6)


def test_save_keeps_what_else_is_in_the_folder(logs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "scores.json").write_text("old")
    assert run(logs[0], "--save", folder) == 0
    assert (folder / "notes.txt").read_text() == "mine"
    assert json.loads((folder / "scores.json").read_text())["schema"] == "tensorclass.scores/1"


def test_runs_whose_names_a_file_cannot_hold_are_saved_apart(write: Write, log_row: Make, tmp_path: Path) -> None:
    paths = [write(f"{name}.jsonl", [log_row(0, {"acc": 1.0})]) for name in ("a b", "a+b")]
    assert run(*paths, "--save", tmp_path / "out") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a_b-2.pt", "a_b.pt", "scores.json"]


def test_the_filter_is_chosen(write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [log_row(n, {"exact_match": float(name == "b")}, filter=name) for name in ("a", "b") for n in range(3)]
    path = write("log.jsonl", rows)
    assert run(path) == 0
    assert "log: rows are logged once for each filter: took 'a', left out 'b'" in capsys.readouterr().out
    assert run(path, "--filter", "b", "--json") == 0
    one = json.loads(capsys.readouterr().out)["runs"][0]
    assert (one["filter"], one["filters"], one["metrics"][0]["value"]) == ("b", {"a": 3, "b": 3}, 1.0)


def failures(write: Write, reference_row: Make, ifeval_row: Make, log_row: Make) -> dict[str, tuple[list[Path], str]]:
    """Arguments that fail, and the start of the one line they give."""
    good = write("good.jsonl", [log_row(0, {"acc": 1.0})])
    text = json.dumps(ifeval_row(0, [True]))
    other = write("other.jsonl", [log_row(7, {"acc": 1.0})])
    exact = write("exact.jsonl", [log_row(0, {"exact_match": 1.0})])
    strict = write("x.eval_results_strict.jsonl", [reference_row(0, [True]), reference_row(1, [True])])
    write("x.eval_results_loose.jsonl", [reference_row(0, [True]), reference_row(2, [True])])
    settings = write("settings/run.json", "{\n}").parent
    cases: dict[str, tuple[list[Any], str]] = {
        "missing": ([good.with_name("nowhere.jsonl")], "{0}: no such file"),
        "folder": (
            [settings],
            "{0}: expected score files in this folder, found only files of unknown formats: run.json",
        ),
        "truncated": ([write("cut.jsonl", f"{text}\n{text[:50]}")], "{0}:2: the line is cut off"),
        "not JSON": ([write("text.jsonl", f"{text}\nhello\n")], "{0}:2: not JSON at column 1"),
        "unknown format": ([write("unknown.jsonl", '{"score": 1}\n')], "{0}:1: unknown format"),
        "empty": ([write("empty.jsonl", "")], "{0}:1: the file is empty"),
        "disagreeing": ([strict], f"{strict.parent}/x.eval_results_loose.jsonl:2: expected the prompt of line 2"),
        "second file": ([good, write("bad.jsonl", "x\n")], "{1}:1: not JSON"),
        "one run compared": ([good, "--compare"], "{0}: --compare needs at least two runs"),
        "no prompt in common": ([good, other, "--compare"], "{1}: can't be compared with {0}: prompt_id: expected"),
        "other metrics": (
            [good, exact, "--compare"],
            "{0}: --compare needs at least two runs of one task, got MultipleChoice: good; ExactMatch: exact",
        ),
        "filter": ([good, "--filter", "x"], "{0}:1: filter: expected rows of 'x'"),
    }
    return {name: (files, message.format(*files)) for name, (files, message) in cases.items()}


FAILURES = (
    "missing", "folder", "truncated", "not JSON", "unknown format", "empty", "disagreeing", "second file",
    "one run compared", "no prompt in common", "other metrics", "filter",
)  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(
    name: str, write: Write, reference_row: Make, ifeval_row: Make, log_row: Make, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    arguments, message = failures(write, reference_row, ifeval_row, log_row)[name]
    before = sorted(tmp_path.iterdir())
    assert run(*arguments, "--save", tmp_path / "results") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tensorclass scores: {message}")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_where_the_folder_should_be_is_said_before_reading(
    logs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("mine")
    assert run(logs[0], "--save", tmp_path / "taken") == 2
    assert capsys.readouterr().err.endswith("taken: expected a folder to save in, found a file\n")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_save_that_fails_leaves_nothing(
    logs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "first.pt")

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(torch, "save", full)
    assert run(logs[0], "--save", tmp_path / "results") == 2
    assert capsys.readouterr().err == "tensorclass scores: first.pt: No space left on device\n"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_save_that_is_ended_leaves_nothing(
    number: signal.Signals, logs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tmp_path.iterdir())
    handler = signal.getsignal(signal.SIGTERM)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    monkeypatch.setattr(torch, "save", lambda *_: signal.raise_signal(number))
    try:
        code: object = run(logs[0], "--save", tmp_path / "results")
    except SystemExit as ended:
        code = ended.code
    finally:
        signal.signal(signal.SIGINT, interrupt)
    assert code == 128 + number
    assert sorted(tmp_path.iterdir()) == before
    assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
def test_an_interrupt_at_any_line_of_the_command_leaves_the_handlers_as_they_were(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scores_command, "_run", lambda arguments: 0)

    def work() -> None:
        if scores_command.run(Namespace()):
            raise KeyboardInterrupt

    line = 0
    while True:
        line += 1
        before = Held.now().state
        outcome = interrupted(work, line, inside=(exit_codes.__file__, interrupts.__file__))
        assert Held.now().state == before, outcome.where
        if outcome.where is None:
            break
        assert not outcome.is_lost, outcome.where
    assert line > 50


@pytest.mark.parametrize("package", ["orjson"])
def test_a_missing_extra_is_named(
    package: str, logs: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=package)

    monkeypatch.setattr(errors_module, "import_module", absent)
    assert run(logs[0]) == 2
    err = capsys.readouterr().err
    assert f"needs the package '{package}', which is not installed: pip install 'tensorclass[scores]'" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["scores"],
        ["scores", "x", "--seed", "-1"],
        ["scores", "x", "--seed", "a"],
        ["nothing"],
        ["scores", "x", "--js"],
        ["scores", "x", "--columns", "id"],
    ],
)
def test_wrong_usage_is_said_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "--help" in err


def test_help_and_version_are_answered(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["--help"], "scores"),
        (["scores", "--help"], "--compare"),
        (["--version"], "tensorclass "),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert text in capsys.readouterr().out


def process(repository: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(repository), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return fresh_python.run([*map(str, arguments)], env={**os.environ, "PYTHONPATH": path})


def test_a_process_ends_with_the_exit_code(repository: Path, logs: list[Path]) -> None:
    good = process(repository, "-m", "tensorclass.cli", "scores", "--json", logs[0])
    assert (good.returncode, good.stderr) == (0, "")
    json.loads(good.stdout)
    bad = process(repository, "-m", "tensorclass.cli", "scores", logs[0].with_name("nowhere.jsonl"))
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


def test_a_reader_that_leaves_early_is_no_error(repository: Path, logs: list[Path]) -> None:
    code = f"""
import os, subprocess, sys
read, write = os.pipe()
os.close(read)
command = {[*fresh_python.command(), "-m", "tensorclass.cli", "scores", str(logs[0])]!r}
sys.exit(subprocess.run(command, stdout=write).returncode)
"""
    found = process(repository, "-c", code)
    assert (found.returncode, found.stderr) == (0, "")


def test_importing_the_command_loads_nothing_that_only_commands_need(repository: Path) -> None:
    heavy = ("rich", "orjson", "matplotlib", "tensorclass.scores")
    code = f"import sys, tensorclass.cli; print([name for name in {heavy} if name in sys.modules])"
    assert process(repository, "-c", code).stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (["scores", "--help"], 0, "--keep-going"),
        (["--version"], 0, "tensorclass 0."),
        (["scores"], 2, "the following arguments are required: FILE"),
        (["scores", "log.jsonl", "--seed", "-1"], 2, "--seed: expected"),
        (["scores", "log.jsonl", "nowhere.jsonl"], 2, "tensorclass scores: log.jsonl: no such file"),
    ],
)
def test_help_and_wrong_usage_do_not_wait_for_torch(
    repository: Path, tmp_path: Path, arguments: list[str], code: int, text: str
) -> None:
    program = f"""
import sys
sys.argv[1:] = {arguments!r}
import tensorclass_command
try:
    code = tensorclass_command.main()
except SystemExit as error:
    code = error.code
print(code, "torch" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert found.stdout.splitlines()[-1] == f"{code} False"
    assert text in found.stdout + found.stderr
    assert "Traceback" not in found.stderr


def test_the_script_runs_the_command(repository: Path, logs: list[Path]) -> None:
    found = process(repository, "-m", "tensorclass_command", "scores", "--json", logs[0])
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["runs"][0]["name"] == "first"


def test_a_long_file_shows_its_progress_on_a_terminal(
    logs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_files, "LONG_FILE", 0)
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal.file)
        code = run(logs[0], "--json")
    shown = terminal.close()
    assert code == 0
    assert "first.jsonl" in shown
    json.loads(capsys.readouterr().out)


def test_files_that_cannot_be_read_are_reported_at_the_end(
    logs: list[Path], write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, missing = write("broken.jsonl", "{"), logs[0].with_name("nowhere.jsonl")
    assert run("--json", "--keep-going", broken, *logs, missing) == 2
    out, err = capsys.readouterr()
    assert [one["name"] for one in json.loads(out)["runs"]] == ["first", "second"]
    assert err.splitlines() == [
        f"tensorclass scores: {error}"
        for error in (
            f"{broken}:1: the line is cut off: the file ends inside it; write the file again or drop this line",
            f"{missing}: no such file",
        )
    ]
    assert run("--keep-going", missing) == 2
    assert capsys.readouterr() == ("", f"tensorclass scores: {missing}: no such file\n")


def test_a_folder_is_read_and_files_of_unknown_formats_in_it_are_named(
    logs: list[Path], write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write("settings.json", "{\n}")
    assert run("--json", logs[0].parent) == 0
    out, err = capsys.readouterr()
    assert [one["name"] for one in json.loads(out)["runs"]] == ["first", "second"]
    assert err == f"tensorclass scores: left out, of unknown formats: {other}\n"


def test_each_task_has_its_filter(write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [log_row(0, {"exact_match": float(name == "b")}, filter=name) for name in ("a", "b")]
    tasks = [write(f"samples_{task}_2026-01-01.jsonl", rows) for task in ("gsm8k", "math")]
    assert run("--json", *tasks, "--filter", "math=b") == 0
    assert [one["filter"] for one in json.loads(capsys.readouterr().out)["runs"]] == ["a", "b"]
    assert run(*tasks, "--filter", "b", "--filter", "math=b") == 2
    assert "--filter b: expected TASK=NAME, each task once, or one NAME for all tasks" in capsys.readouterr().err
