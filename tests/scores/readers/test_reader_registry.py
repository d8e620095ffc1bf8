"""Readers are found by content; a user registers their own."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.scores import (
    ExactMatchScoreData,
    FileHead,
    Reader,
    ReadOptions,
    Run,
    ScoreFileError,
    read_run,
    read_runs,
    register_reader,
)
from tensorclass.scores.readers import reader_registry

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


class MarksReader(Reader):
    """Two runs a file, a line each: ``gpt ++-+``."""

    name = "marks"
    description = "a file of marks"

    def recognises(self, head: FileHead) -> bool:
        return head.name.endswith(".marks")

    def read(self, head: FileHead, options: ReadOptions) -> Sequence[Run]:
        runs: list[Run] = []
        with head.open() as stream:
            for line in stream.read().decode().splitlines():
                name, marks = line.split()
                right = torch.tensor([mark == "+" for mark in marks])
                scores = ExactMatchScoreData(right, batch_size=[len(marks)])
                runs.append(Run(name, scores, files=(str(head.path),), format=self.name))
        return runs


@pytest.fixture
def own_reader() -> Iterator[Reader]:
    before = reader_registry.registered()
    yield register_reader(MarksReader())
    reader_registry._registered[:] = before


def test_a_registered_reader_reads_the_files_it_recognises(own_reader: Reader, write: Write, log_row: Make) -> None:
    marks = write("two.marks", "gpt ++-+\nllama +---\n")
    log = write("log.jsonl", [log_row(0, {"acc": 1.0})])
    runs = read_runs([marks, log, marks])
    assert [(run.name, run.format) for run in runs] == [("gpt", "marks"), ("llama", "marks"), ("log", "lm-eval")]
    with pytest.raises(ScoreFileError, match=r"expected one run, got 2 \('gpt', 'llama'\); read them with read_runs"):
        read_run(marks)


def test_a_registered_reader_goes_to_the_processes_of_an_executor(own_reader: Reader, write: Write) -> None:
    with ProcessPoolExecutor(1) as pool:
        runs = read_runs([write("a.marks", "gpt ++-+\n")], executor=pool)
    assert runs[0].scores.aggregate()["exact_match"].value.item() == 0.75


def test_a_reader_registered_again_takes_the_place_of_the_former(own_reader: Reader) -> None:
    again = register_reader(MarksReader())
    assert [one for one in reader_registry.registered() if one.name == "marks"] == [again]


def test_what_is_no_reader_is_an_error() -> None:
    class Nameless(MarksReader):
        name = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="expected an instance of a class derived from Reader, got 'marks'"):
        register_reader("marks")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a reader with a name, got Nameless without one"):
        register_reader(Nameless())


@pytest.mark.parametrize(
    "content, row",
    [
        (b'{"a": 1}\n{"a": 2}\n', {"a": 1}),
        (b'\n\n  {"a": 1}\n', {"a": 1}),
        (b'\xef\xbb\xbf{"a": NaN}', {"a": pytest.approx(float("nan"), nan_ok=True)}),
        (b'[{"a": 1}, {"a": 2}]', {"a": 1}),
        (b'[\n  {\n    "a": "' + b"x" * 100_000 + b'"\n  },\n  {}\n]', {"a": "x" * 100_000}),
        (b'{"a": "' + b"x" * 100_000 + b'"}\n', {"a": "x" * 100_000}),
        (b"[1, 2]", None),
        (b"[]", None),
        (b"[" * 200_000, None),
        (b'[{"a": 1', None),
        (b'{\n  "a": 1\n}', None),
        (b"id,right\n1,0\n", None),
        (b"", None),
    ],
)
def test_the_first_row_of_lines_and_of_arrays(write: Write, content: bytes, row: object) -> None:
    assert FileHead.of(write("file", content)).first_row == row


def test_the_head_of_a_compressed_file_is_decompressed(write: Write) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = b'{"a": 1}\n' * 20_000
    for suffix, packed in (
        (".gz", gzip.compress(text)),
        (".bz2", bz2.compress(text[:90_000]) + bz2.compress(text[90_000:])),
        (".zst", zstandard.compress(text[:90_000]) + zstandard.compress(text[90_000:])),
    ):
        head = FileHead.of(write(f"log.jsonl{suffix}", packed))
        assert (head.name, head.start, head.first_row) == ("log.jsonl", text[: 64 * 1024], {"a": 1})
        assert sum(1 for _ in head.rows()) == 20_000
        with head.open() as stream:
            assert stream.read() == text
        cut = FileHead.of(write(f"cut.jsonl{suffix}", packed[:-8]))
        with pytest.raises(ScoreFileError, match=r"cut.jsonl.*:\d+: the compressed file is cut off or damaged here"):
            list(cut.rows())


def test_damaged_zstd_is_an_error(write: Write) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b'{"a": 1}\n' * 1000))
    packed[-1] ^= 1
    with pytest.raises(ScoreFileError, match="the compressed file is cut off or damaged here"):
        list(FileHead.of(write("bad.zst", bytes(packed))).rows())


def test_the_standard_input_is_read(write: Write, log_row: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(write("log.jsonl", [log_row(0, {"acc": 1.0})]).read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    run = read_run("-")
    assert (run.name, run.files, run.scores.batch_size) == ("stdin", ("-",), (1,))


def test_a_run_can_be_pickled(write: Write, log_row: Make) -> None:
    run = pickle.loads(pickle.dumps(read_run(write("samples_arc_2025-01-01.jsonl", [log_row(0, {"acc": 1.0})]))))
    assert (run.task, run.files) == ("arc", run.files)
