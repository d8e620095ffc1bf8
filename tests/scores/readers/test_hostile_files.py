"""Hostile and unlucky files: a sample of :mod:`tests.scores.hostile_files`, small files that become large, pipes."""

from __future__ import annotations

import json
import os
import struct
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main
from tensorclass.scores import ScoreFileError, read_run, read_runs, read_scores
from tensorclass.scores.readers import lines, log_sizes, unpacked_file
from tests.scores.hostile_files import PACKERS, SAMPLES, search

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("form", SAMPLES)
def test_a_changed_file_is_read_or_named(form: str) -> None:
    """One case of 100; ``python -m tests.scores.hostile_files --all`` tries all of them."""
    outcomes = [(str(case), outcome) for case, outcome in search([form], 100)]
    assert [(case, outcome.says) for case, outcome in outcomes if outcome.kind == "WRONG"] == []
    assert len(outcomes) > 1


@pytest.mark.parametrize("form", SAMPLES)
def test_the_files_that_are_changed_are_read_as_they_are(form: str) -> None:
    assert {outcome.kind for case, outcome in search([form], 1, only="as it is")} == {"read"}


# --- values ----------------------------------------------------------------------------------------------------------


def test_a_number_of_5000_digits_is_an_error_that_names_the_line(
    write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    long = json.dumps(log_row(1, {"acc": 0.5})).replace("0.5", "1" * 5000)
    path = write("log.jsonl", json.dumps(log_row(0, {"acc": 1.0})) + "\n" + long + "\n")
    with pytest.raises(ScoreFileError, match=r"log.jsonl:2: no scores: a whole number of more than 4,300 digits"):
        read_run(path)
    assert main(["scores", str(path)]) == 2
    assert f"{path}:2: no scores" in capsys.readouterr().err


@pytest.mark.parametrize("name", ['ac"c', "a\\c", "a\nb", "\x01", "filter", "doc", "metrics", "doc_hash"])
def test_a_metric_may_have_any_name(name: str, write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [log_row(number, {"acc": number % 2}) for number in range(4)]
    for row in rows:
        row["metrics"].append(name)
        row.setdefault(name, 0.5)
    path = write("log.jsonl", rows)
    assert read_scores(path).aggregate()["acc"].value.item() == 0.5
    assert main(["scores", str(path)]) == 0
    if rows[0][name] == 0.5:
        assert read_scores(path).aggregate()[name].value.item() == 0.5
        assert name in capsys.readouterr().out or not name.isprintable()


def test_a_share_that_is_none_names_the_file(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("t.csv", "id,right\n1,1\n2,-3\n")
    assert main(["scores", str(path), "--columns", "prompt=id,acc=right"]) == 2
    assert f"{path}: acc: expected fractions from 0 to 1" in capsys.readouterr().err


# --- small files that become large -----------------------------------------------------------------------------------

SAMPLE = '{"id": 1, "epoch": 1, "scores": {"m": {"value": "C"}}, "x": "%s"}'
HEADER = json.dumps({"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}})


def eval_log(path: Path, sample: str, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", HEADER)
        archive.writestr("samples/1_epoch_1.json", sample)
    return path


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached soon."""
    monkeypatch.setattr(log_sizes, "_UNPACKED", 2**16)
    monkeypatch.setattr(log_sizes, "_TIMES_PACKED", 20)
    monkeypatch.setattr(lines, "LONGEST_LINE", 2**20)


def allowing(error: ScoreFileError) -> int:
    """The bytes that an error says to allow."""
    return int(str(error).partition(f"{log_sizes.VARIABLE}=")[2])


def test_a_sample_of_400_mb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = eval_log(tmp_path / "a.eval", SAMPLE % ("y" * 400_000))
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 400_063), struct.pack("<I", 400_000_063)))
    tracemalloc.start()
    try:
        with pytest.raises(ScoreFileError, match=r"400,000,063 bytes, .*TENSORCLASS_LARGEST_LOG=400000") as caught:
            read_run(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert caught.value.path == f"{path}/samples/1_epoch_1.json"


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_large_sample_is_read_if_the_limit_is_raised_as_the_error_says(
    method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = eval_log(tmp_path / "a.eval", SAMPLE % ("y" * 3_000_000), method)
    assert main(["scores", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"tensorclass scores: {path}/samples/1_epoch_1.json: 3,000,063 bytes")
    with pytest.raises(ScoreFileError, match="if it is right, set the environment variable") as caught:
        read_run(path)
    monkeypatch.setenv(log_sizes.VARIABLE, str(allowing(caught.value)))
    assert read_run(path).scores.batch_size == (1,)


@pytest.mark.usefixtures("small_limits")
def test_a_member_among_others_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", HEADER)
        archive.writestr("samples/1_epoch_1.json", SAMPLE % ("y" * 5_000_000))
        archive.writestr("assets/noise", os.urandom(500_000))
    with pytest.raises(
        ScoreFileError, match=r"a.eval/samples/1_epoch_1.json: 5,000,063 bytes, compressed to 4,9"
    ) as caught:
        read_run(path)
    assert allowing(caught.value) == 5_000_063


def test_members_that_are_the_same_bytes_are_counted_each(tmp_path: Path) -> None:
    """As in bombs without nesting: thousands of entries lead to one compressed member."""
    path = eval_log(tmp_path / "a.eval", SAMPLE % ("y" * 100_000))
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    end = data.index(b"PK\x05\x06")
    entry, tail = data[start:end], bytearray(data[end:])
    names = [entry.replace(b"1_epoch_1", b"%09d" % number) for number in range(30_000)]
    tail[8:12] = struct.pack("<HH", 30_001, 30_001)
    content = data[: data.index(b"PK\x01\x02")]
    directory = data[len(content) : start] + b"".join(names)
    tail[12:20] = struct.pack("<II", len(directory), len(content))
    path.write_bytes(content + directory + tail)
    with pytest.raises(
        ScoreFileError, match=r"samples/.*: 100,063 bytes, 3,00.* with the other members, in an archive of "
    ):
        read_run(path)


def test_a_member_that_is_larger_than_it_says_is_not_unpacked_further(tmp_path: Path) -> None:
    path = eval_log(tmp_path / "a.eval", SAMPLE % ("y" * 80_000_000))
    size = len(SAMPLE % ("y" * 80_000_000))
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", size), struct.pack("<I", 70)))
    tracemalloc.start()
    try:
        with pytest.raises(ScoreFileError, match="damaged"):
            read_run(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("name", ["log.jsonl", "log.json", "t.csv"])
def test_a_compressed_file_that_unpacks_to_many_times_its_size_is_refused(
    name: str, packer: str, write: Write, log_row: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = json.dumps(log_row(0, {"acc": 1.0}))
    long = row[:-1] + ', "x": "' + "y" * 3_000_000 + '"}'
    contents = {
        "log.jsonl": f"{row}\n" * 4_000,
        "log.json": f"[{row},\n{long}]",
        "t.csv": "id,right\n" + "1,1\n" * 1_000_000,
    }
    path = write(f"{name}.gz", PACKERS[packer](contents[name].encode()))
    columns = {"prompt": "id", "accuracy": "right"} if name == "t.csv" else None
    with pytest.raises(ScoreFileError, match=rf"{name}.gz: unpacks from .* to more than .* bytes; if it is right"):
        read_run(path, columns=columns)
    if name == "log.jsonl":
        monkeypatch.setenv(log_sizes.VARIABLE, "100000000")
        assert read_run(path).scores.batch_size == (4_000,)


@pytest.mark.usefixtures("small_limits")
def test_a_long_line_is_refused_and_read_if_it_is_allowed(
    write: Write, log_row: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("log.jsonl", [log_row(0, {"acc": 1.0}), log_row(1, {"acc": 1.0}, target="y" * 2_000_000)])
    with pytest.raises(ScoreFileError, match=r"log.jsonl:2: a line of 1,048,576 bytes or more; .*TENSORCLASS_LARGEST"):
        list(lines.json_rows(path))
    monkeypatch.setenv(log_sizes.VARIABLE, "3000000")
    assert len(list(lines.json_rows(path))) == 2


def test_a_limit_that_is_no_number_is_an_error(write: Write, log_row: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(log_sizes.VARIABLE, "4 GB")
    with pytest.raises(ScoreFileError, match=r"TENSORCLASS_LARGEST_LOG: expected a number of bytes .* got '4 GB'"):
        read_run(write("log.jsonl", [log_row(0, {"acc": 1.0})]))


def test_an_archive_may_be_compressed_once_more(tmp_path: Path) -> None:
    path = eval_log(tmp_path / "a.eval", SAMPLE % "y")
    for suffix, pack in PACKERS.items():
        packed = tmp_path / f"a.eval{suffix}"
        packed.write_bytes(pack(path.read_bytes()))
        assert read_run(packed).scores.batch_size == (1,)


def test_a_frame_of_zstd_that_claims_a_large_size_is_damaged(tmp_path: Path) -> None:
    frame = b"\x28\xb5\x2f\xfd" + b"\xe0" + struct.pack("<Q", 2**60) + b"\x01\x00\x00"
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", HEADER)
        archive.writestr("samples/1_epoch_1.json", frame)
    data = path.read_bytes()
    head = data.rindex(b"PK\x03\x04")
    entry = data.rindex(b"PK\x01\x02")
    method = struct.pack("<H", 93)
    path.write_bytes(data[: head + 8] + method + data[head + 10 : entry + 10] + method + data[entry + 12 :])
    with pytest.raises(ScoreFileError, match=r"a.eval/samples/1_epoch_1.json: damaged"):
        read_run(path)


# --- pipes -----------------------------------------------------------------------------------------------------------

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@needs_pipes
def test_a_pipe_that_nobody_writes_to_is_an_error_after_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unpacked_file, "PATIENCE", 0.1)
    pipe = tmp_path / "log.jsonl"
    os.mkfifo(pipe)
    assert main(["scores", str(pipe)]) == 2
    assert f"{pipe}: a pipe that nobody writes to" in capsys.readouterr().err


@needs_pipes
def test_a_writer_may_take_its_time(tmp_path: Path, log_row: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacked_file, "PATIENCE", 0.2)
    pipe = tmp_path / "log.jsonl"
    os.mkfifo(pipe)
    row = json.dumps(log_row(0, {"acc": 1.0})).encode()

    def write() -> None:
        with open(pipe, "wb", buffering=0) as file:
            time.sleep(0.6)  # longer than anybody waits for a writer
            file.write(row[:20])
            time.sleep(0.2)
            file.write(row[20:])

    writer = threading.Thread(target=write)
    writer.start()
    assert read_scores(pipe).batch_size == (1,)
    writer.join()


@needs_pipes
def test_a_writer_that_leaves_without_a_word_wrote_an_empty_file(tmp_path: Path) -> None:
    pipe = tmp_path / "log.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b""))
    writer.start()
    with pytest.raises(ScoreFileError, match="the file is empty"):
        read_run(pipe)
    writer.join()


@needs_pipes
@pytest.mark.parametrize("name", ["results_2026-01-31.json", "m_loose.jsonl"])
def test_a_pipe_beside_a_log_is_named(
    name: str, write: Write, log_row: Make, reference_row: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked_file, "PATIENCE", 0.1)
    path = write("samples_arc_2026-01-31.jsonl", [log_row(0, {"acc": 1.0})])
    if name.startswith("m_"):
        path = write("m_strict.jsonl", [reference_row(0, [True])])
    os.mkfifo(path.with_name(name))
    with pytest.raises(ScoreFileError, match=rf"{name}: .*pipe"):
        read_runs([path])
