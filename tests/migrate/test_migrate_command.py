"""The command ``tensorclass migrate``: what it reads, writes, prints and returns."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tensorclass.cli import main

OLD = b"from tensordict import TensorDict\n"
NEW = b"from tensorclass import TensorDict\n"


def test_check_writes_nothing_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(OLD)
    assert main(["migrate", "--check", str(path)]) == 1
    assert path.read_bytes() == OLD
    assert capsys.readouterr().out == f"{path}: would be rewritten\n1 file would be rewritten, 0 lines to look at\n"


def test_a_second_run_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(OLD)
    assert main(["migrate", str(path)]) == 0
    assert path.read_bytes() == NEW
    assert capsys.readouterr().out == f"{path}: rewritten\n1 file rewritten, 0 lines to look at\n"
    assert main(["migrate", str(path)]) == 0
    assert main(["migrate", "--check", str(path)]) == 0
    assert path.read_bytes() == NEW


@pytest.mark.parametrize(
    "rest",
    [b"x = 1\r\ny = 2\r\n", b"x = '\xc3\xa9'", b"\tif x:\n\t\ty = 2\n"],
    ids=["line ends", "no end of line", "tabs"],
)
def test_all_else_in_a_file_stays(tmp_path: Path, rest: bytes) -> None:
    end = b"\r\n" if b"\r\n" in rest else b"\n"
    rest = b"if x:\n" + rest if rest.startswith(b"\t") else rest
    path = tmp_path / "a.py"
    path.write_bytes(OLD.replace(b"\n", end) + rest)
    assert main(["migrate", str(path)]) == 0
    assert path.read_bytes() == NEW.replace(b"\n", end) + rest


@pytest.mark.parametrize("head, text", [(b"# coding: latin-1\n", b"\xe9"), (b"\xef\xbb\xbf", "é".encode())])
def test_the_encoding_of_a_file_stays(tmp_path: Path, head: bytes, text: bytes) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(head + OLD + b"x = '" + text + b"'\n")
    assert main(["migrate", str(path)]) == 0
    assert path.read_bytes() == head + NEW + b"x = '" + text + b"'\n"


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(OLD)
    path.chmod(0o755)
    assert main(["migrate", str(path)]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_file_that_nothing_changes_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(NEW)
    before = path.stat()
    assert main(["migrate", str(path)]) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_folders_and_files_are_read_once_and_environments_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("src/a.py", "src/sub/b.pyi", "script", ".venv/c.py", "env/d.py", "src/__pycache__/e.py", "src/t.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(OLD)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    os.symlink(tmp_path / "script", tmp_path / "src" / "link.py")
    assert main(["migrate", str(tmp_path), str(tmp_path / "src" / "a.py"), str(tmp_path / "script")]) == 0
    told = capsys.readouterr().out.splitlines()
    rewritten = [line.removesuffix(": rewritten") for line in told if line.endswith(": rewritten")]
    assert rewritten == [str(tmp_path / name) for name in ("src/a.py", "src/sub/b.pyi", "script")]
    assert (tmp_path / "env" / "d.py").read_bytes() == OLD


def test_a_syntax_error_is_named_and_other_files_are_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_bytes(OLD + b"def f(:\n")
    (tmp_path / "b.py").write_bytes(OLD)
    (tmp_path / "c.py").write_bytes(OLD + b"x = '\xff'\n")
    assert main(["migrate", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.err.splitlines()[0] == f"tensorclass migrate: {tmp_path / 'a.py'}: line 2: syntax error; skipped"
    assert f"{tmp_path / 'c.py'}: cannot be read as Python: " in told.err
    assert told.out.endswith("1 file rewritten, 0 lines to look at, 2 files skipped\n")
    assert (tmp_path / "a.py").read_bytes() == OLD + b"def f(:\n"
    assert (tmp_path / "b.py").read_bytes() == NEW


def test_a_path_that_is_not_there_is_an_error_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_bytes(OLD)
    assert main(["migrate", str(tmp_path / "a.py"), str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"tensorclass migrate: {tmp_path / 'none'}: no such file or folder\n"
    assert (tmp_path / "a.py").read_bytes() == OLD


def test_a_file_that_cannot_be_written_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("tensorclass.migrate.migrate_command.whole_file", refuse)
    (tmp_path / "a.py").write_bytes(OLD)
    assert main(["migrate", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"tensorclass migrate: {tmp_path / 'a.py'}: Permission denied; skipped\n"


def test_dependencies_and_notebooks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "requirements.txt").write_text("torch\ntensordict>=0.8\n")
    (tmp_path / "a.ipynb").write_text('{"cells": ["import tensordict"]}')
    assert main(["migrate", str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()
    stays = "names tensordict; this file stays as it is"
    assert told[:2] == [f"{tmp_path / 'a.ipynb'}:1: {stays}", f"{tmp_path / 'requirements.txt'}:2: {stays}"]


def test_lines_are_those_of_the_file_as_it_is_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.py"
    path.write_text("from tensordict import stack, TensorDictParams\nx = TensorDictParams(y)\n")
    assert main(["migrate", "--check", str(path)]) == 1
    assert f"{path}:2: " in capsys.readouterr().out
    assert main(["migrate", str(path)]) == 0
    assert f"{path}:3: " in capsys.readouterr().out


def test_without_libcst_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "libcst", None)
    assert main(["migrate", str(tmp_path)]) == 2
    assert "pip install 'tensorclass[migrate]'" in capsys.readouterr().err
