"""What is written is found whole, or not at all."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tensorclass.atomic import is_swapped, swapped_folder, whole_file, whole_folder


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
    def refused(path: Path, mode: int = 0o777) -> None:
        if not path.exists():
            raise PermissionError(errno.EACCES, "Permission denied", "draft")
        raise FileExistsError

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(PermissionError, match=r"can't be written: Permission denied") as denied:
        whole_folder(tmp_path / "results").__enter__()
    assert denied.value.filename == str(tmp_path / "results")


def a_killed_writer(code: str, folder: Path) -> None:
    """A process that dies in the middle of writing, by a signal that it cannot catch."""
    program = "import os, signal, sys\nfrom tensorclass import atomic\nplace = sys.argv[1]\n" + code
    done = subprocess.run([sys.executable, "-c", program, str(folder / "place")], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


WRITERS = {
    "whole_file": "with atomic.whole_file(place) as file:\n    file.write(b'new')\n    os.kill(os.getpid(), 9)",
    "whole_path": "with atomic.whole_path(place) as draft:\n    draft.write_text('new')\n    os.kill(os.getpid(), 9)",
    "whole_folder": "with atomic.whole_folder(place) as new:\n    (new / 'a').mkdir()\n    os.kill(os.getpid(), 9)",
    "swapped_folder": "with atomic.swapped_folder(place) as new:\n    (new / 'a').mkdir()\n    os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_killed_writer_leaves_goes_with_the_next_one(writer: str, tmp_path: Path) -> None:
    a_killed_writer(WRITERS[writer], tmp_path)
    assert len(os.listdir(tmp_path)) == 1
    assert not (tmp_path / "place").exists()
    with whole_file(tmp_path / "place") as file:
        file.write(b"whole")
    assert os.listdir(tmp_path) == ["place"]


def test_drafts_of_writers_that_live_stay(tmp_path: Path) -> None:
    with whole_file(tmp_path / "place") as first:
        first.write(b"first")
        with whole_file(tmp_path / "place") as second:
            second.write(b"second")
        assert (tmp_path / "place").read_bytes() == b"second"
    assert (tmp_path / "place").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["place"]


def test_without_locks_nothing_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_killed_writer(WRITERS["whole_file"], tmp_path)
    monkeypatch.setattr("tensorclass.atomic.fcntl", None)
    with whole_file(tmp_path / "place") as file:
        file.write(b"whole")
    assert (tmp_path / "place").read_bytes() == b"whole"
    assert len(os.listdir(tmp_path)) == 2


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorclass.atomic._renameat2", None)


@pytest.mark.usefixtures("no_exchange")
def test_folders_are_swapped_where_the_system_cannot_exchange_them(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with swapped_folder(tmp_path / "place") as folder:
            (folder / text).write_text(text)
    assert os.listdir(tmp_path) == ["place"]
    assert os.listdir(tmp_path / "place") == ["new"]


def test_a_folder_that_was_set_aside_by_a_writer_that_died_is_put_back(tmp_path: Path) -> None:
    with swapped_folder(tmp_path / "place") as folder:
        (folder / "old").write_text("")
    code = """
atomic._renameat2 = None
rename = os.rename
def once(one, other):
    rename(one, other)
    os.kill(os.getpid(), 9)
with atomic.swapped_folder(place) as new:
    os.rename = once
"""
    a_killed_writer(code, tmp_path)
    assert not (tmp_path / "place").exists()
    assert is_swapped(tmp_path / "place")

    def fails() -> None:
        with swapped_folder(tmp_path / "place"):
            raise KeyError("a value")

    with pytest.raises(KeyError):
        fails()
    assert os.listdir(tmp_path) == ["place"]
    assert os.listdir(tmp_path / "place") == ["old"]


@pytest.mark.usefixtures("no_exchange")
def test_the_old_folder_is_put_back_where_the_new_one_cannot_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with swapped_folder(tmp_path / "place") as folder:
        (folder / "old").write_text("")
    rename, calls = os.rename, list[object]()

    def second_fails(one: Path, other: Path) -> None:
        calls.append(one)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error", str(one))
        rename(one, other)

    def swapped() -> None:
        with swapped_folder(tmp_path / "place") as folder:
            (folder / "new").write_text("")
            monkeypatch.setattr(os, "rename", second_fails)

    with pytest.raises(OSError, match="Input/output") as failed:
        swapped()
    assert failed.value.filename == str(tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]
    assert os.listdir(tmp_path / "place") == ["old"]


def test_a_full_disk_is_an_error_of_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("old")

    def full() -> None:
        with whole_file(tmp_path / "place"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as failed:
        full()
    assert failed.value.filename == str(tmp_path / "place")
    assert (tmp_path / "place").read_text() == "old"
    assert os.listdir(tmp_path) == ["place"]
