"""What is written is found whole, or not at all."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from tensorclass.atomic import whole_file, whole_folder


def test_a_file_that_is_not_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def interrupted() -> None:
        with whole_file(path) as file:
            file.write(b"ne")
            assert path.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_folder_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with whole_folder(tmp_path / "results") as folder:
            (folder / "a").write_text("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_a_folder_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with whole_folder(tmp_path / "results") as folder:
        (folder / "a").write_text("a")
    assert os.listdir(tmp_path / "results") == ["a"]


def test_files_are_as_readable_as_the_user_has_them(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with whole_file(tmp_path / "whole") as file:
        file.write(b"")
    with whole_folder(tmp_path / "folder"):
        pass
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain folder").mkdir()
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "plain folder").stat().st_mode


def test_a_place_that_cannot_be_written_to_is_named_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "draft")

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    with pytest.raises(PermissionError, match=r"can't be written: Permission denied") as denied:
        whole_folder(tmp_path / "results").__enter__()
    assert denied.value.filename == str(tmp_path / "results")
