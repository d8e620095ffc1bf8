"""What is written is found whole, or not at all."""

import ctypes
import errno
import io
import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tensorclass.support import atomic
from tensorclass.support.atomic import (
    acquire_folder,
    is_swapped,
    swapped_folder,
    whole_file,
    whole_folder,
    whole_path,
)
from tensorclass.support.folder_locks import FolderLock
from tensorclass.support.interrupts import uninterrupted
from tests import fresh_python, interrupting
from tests.interrupting import Held, calls, failing, interrupted


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


def test_a_process_that_is_forked_leaves_the_draft_of_its_parent(tmp_path: Path) -> None:
    writer = whole_file(tmp_path / "result.json")
    with writer as file:
        file.write(b"{}")
        file.flush()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                writer.__exit__(KeyError, KeyError("in the child"), None)
            os._exit(0)
        os.waitpid(child, 0)
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "{}"


def test_files_of_a_folder_come_to_those_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for name in ("stays", "changes"):
        (tmp_path / "results" / name).write_text("old")
    with whole_folder(tmp_path / "results") as folder:
        for name in ("comes", "changes"):
            (folder / name).write_text("new")
    found = {path.name: path.read_text() for path in (tmp_path / "results").iterdir()}
    assert found == {"stays": "old", "changes": "new", "comes": "new"}
    assert os.listdir(tmp_path) == ["results"]


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
        if not os.path.exists(path):
            raise PermissionError(errno.EACCES, "Permission denied", "draft")
        raise FileExistsError

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(PermissionError, match=r"can't be written: Permission denied") as denied:
        whole_folder(tmp_path / "results").__enter__()
    assert denied.value.filename == str(tmp_path / "results")


def test_a_file_is_whole_on_disk_before_it_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "place").write_text("old")
    seen: list[tuple[int, str]] = []
    monkeypatch.setattr(os, "fsync", lambda file: seen.append((os.fstat(file).st_size, content(tmp_path / "place"))))
    written("whole_file", tmp_path / "place", "longer")
    assert seen == [(6, "old")]


def test_a_block_that_fails_may_have_detached_the_file(tmp_path: Path) -> None:
    def fails() -> None:
        with whole_file(tmp_path / "place") as file:
            cast("io.BufferedWriter", file).detach().close()
            raise KeyError("a value")

    with pytest.raises(KeyError, match="a value"):
        fails()
    assert os.listdir(tmp_path) == []


def a_killed_writer(code: str, folder: Path) -> None:
    """A process that dies in the middle of writing, by a signal that it cannot catch."""
    program = "import os, signal, sys\nfrom tensorclass.support import atomic\nplace = sys.argv[1]\n" + code
    done = fresh_python.run(["-c", program, str(folder / "place")])
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
    monkeypatch.setattr("tensorclass.support.atomic.fcntl", None)
    with whole_file(tmp_path / "place") as file:
        file.write(b"whole")
    assert (tmp_path / "place").read_bytes() == b"whole"
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
def test_what_removes_the_draft_of_a_killed_writer_leaves_nothing_open(tmp_path: Path) -> None:
    a_killed_writer(WRITERS["whole_file"], tmp_path)
    before = Held.now()
    written("whole_file", tmp_path / "place")
    assert Held.now().beyond(before) == []


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "renameat2"), reason="this system cannot exchange folders")
def test_a_folder_is_not_missing_for_an_instant_where_the_system_can_exchange_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one, other = bytes(tmp_path / "one"), bytes(tmp_path / "other")
    if ctypes.CDLL(None).renameat2(-100, one, -100, other, 2):
        pytest.skip("this file system cannot exchange folders")
    written("swapped_folder", tmp_path / "one", "old")
    monkeypatch.setattr(os, "rename", None)  # which would move the old folder away first
    written("swapped_folder", tmp_path / "one", "new")
    assert content(tmp_path / "one") == "new"


@pytest.mark.parametrize("name", ["place", "link"])
def test_a_folder_is_swapped_as_long_as_the_old_one_is_beside_the_draft_and_the_new_one_missing(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("place")
    assert not is_swapped(tmp_path / name)
    (tmp_path / ".place.3.tmp" / "place.old").mkdir(parents=True)
    assert is_swapped(tmp_path / name)
    (tmp_path / "place").mkdir()
    assert not is_swapped(tmp_path / name)


def test_the_draft_of_another_user_may_be_about_to_replace_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "lstat", refused)
    assert is_swapped(tmp_path / "place")


def test_a_writer_of_rows_waits_for_a_folder_that_is_being_swapped(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with swapped_folder(tmp_path / "place") as draft, FolderLock() as folder_lock:
        os.rename(tmp_path / "place", f"{draft}.old")
        timer = threading.Timer(0.2, os.rename, (f"{draft}.old", tmp_path / "place"))
        timer.start()
        assert acquire_folder(folder_lock, tmp_path / "place")
        timer.join()


def test_a_writer_of_rows_takes_a_folder_that_is_put_back_after_it_has_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = FolderLock.acquire

    def acquire_and_put_back(folder_lock: FolderLock, path: str | os.PathLike[str]) -> bool:
        found = acquire(folder_lock, path)
        os.makedirs(path, exist_ok=True)
        return found

    monkeypatch.setattr(FolderLock, "acquire", acquire_and_put_back)
    with FolderLock() as folder_lock:
        assert acquire_folder(folder_lock, tmp_path / "place")


def test_a_folder_that_a_dead_writer_has_moved_away_is_put_back_at_once(tmp_path: Path) -> None:
    (tmp_path / ".place.0.tmp" / "place.old" / "old").mkdir(parents=True)
    with FolderLock() as folder_lock:
        assert acquire_folder(folder_lock, tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]
    assert os.listdir(tmp_path / "place") == ["old"]


def test_a_folder_that_does_not_come_back_is_missing(tmp_path: Path) -> None:
    with FolderLock() as folder_lock:
        begin = time.monotonic()
        assert not acquire_folder(folder_lock, tmp_path / "place")
        assert time.monotonic() - begin < 0.5
        with swapped_folder(tmp_path / "place") as draft:  # another writer, which is at work
            os.mkdir(f"{draft}.old")
            assert not acquire_folder(folder_lock, tmp_path / "place")
            assert 0.9 < time.monotonic() - begin < 10


def test_the_last_step_of_a_swap_sees_the_new_folder_while_the_old_one_is_locked(tmp_path: Path) -> None:
    written("swapped_folder", tmp_path / "place", "old")
    seen: list[tuple[str, str]] = []

    def finish(draft: Path) -> None:
        seen.append((content(draft), content(tmp_path / "place")))
        assert folder_lock.is_locked

    with FolderLock() as folder_lock:
        with swapped_folder(tmp_path / "place", folder_lock, finish) as draft:
            (draft / "a").write_text("new")
            assert not folder_lock.is_locked
        assert folder_lock.is_locked  # until the caller releases it
    assert seen == [("new", "old")]
    assert content(tmp_path / "place") == "new"


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorclass.support.atomic._renameat2", None)


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


# -- modes and owners -------------------------------------------------------------------------------------------------


def written(kind: str, path: Path, text: str = "new") -> None:
    """One of the four writers, and what it writes: a file, or a folder with one."""
    if kind == "whole_file":
        with whole_file(path) as file:
            file.write(text.encode())
    elif kind == "whole_path":
        with whole_path(path) as draft:
            draft.write_text(text)
    else:
        with (whole_folder if kind == "whole_folder" else swapped_folder)(path) as draft:
            (draft / "a").write_text(text)


def content(path: Path) -> str:
    return (path / "a" if path.is_dir() else path).read_text()


def made(kind: str, path: Path, text: str = "old") -> None:
    """What stands there before."""
    if "folder" in kind:
        path.mkdir()
        path /= "a"
    path.write_text(text)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_replaced_leaves_its_mode(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "place")
    inside = tmp_path / "place" / "a"
    if "folder" in kind:
        inside.chmod(0o604)
    (tmp_path / "place").chmod(0o740)
    written(kind, tmp_path / "place")
    assert content(tmp_path / "place") == "new"
    assert mode(tmp_path / "place") == 0o740
    if "folder" in kind:
        assert mode(inside) == 0o604


def test_a_program_that_is_replaced_no_longer_runs_as_its_owner(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("old")
    (tmp_path / "place").chmod(0o6755)
    written("whole_file", tmp_path / "place")
    assert mode(tmp_path / "place") == 0o755


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_replaced_leaves_its_owner_and_group(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "place")
    places = [tmp_path / "place", *(tmp_path / "place").glob("a")]
    for place in places:
        os.chown(place, 1234, 2345)
    written(kind, tmp_path / "place")
    assert content(tmp_path / "place") == "new"
    assert [(place.stat().st_uid, place.stat().st_gid) for place in places] == [(1234, 2345)] * len(places)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_where_the_group_cannot_stay_the_new_one_may_do_what_all_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "place").write_text("old")
    (tmp_path / "place").chmod(0o664)
    os.chown(tmp_path / "place", 1234, 2345)

    def refused(*given: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    written("whole_file", tmp_path / "place")
    assert mode(tmp_path / "place") == 0o644
    assert (tmp_path / "place").stat().st_uid == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_the_group_stays_where_the_owner_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "place").write_text("old")
    (tmp_path / "place").chmod(0o664)
    os.chown(tmp_path / "place", 1234, 2345)
    chown = os.chown

    def as_one_of_the_group(path: str, user: int, group: int) -> None:
        if user != -1:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        chown(path, user, group)

    monkeypatch.setattr(os, "chown", as_one_of_the_group)
    written("whole_file", tmp_path / "place")
    info = (tmp_path / "place").stat()
    assert (mode(tmp_path / "place"), info.st_uid, info.st_gid) == (0o664, 0, 2345)


def test_a_file_that_a_writer_makes_private_gets_the_mode_that_open_gives(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with whole_path(tmp_path / "place") as draft:
        draft.write_text("new")
        draft.chmod(0o600)
    assert mode(tmp_path / "place") == mode(tmp_path / "plain")


def test_a_file_with_the_name_of_an_old_folder_keeps_its_own_mode(tmp_path: Path) -> None:
    for name in ("changes", "was a file"):
        (tmp_path / "place" / name).mkdir(parents=True) if name == "changes" else (tmp_path / "place" / name).touch()
        (tmp_path / "place" / name).chmod(0o700)
    (tmp_path / "plain").touch()
    (tmp_path / "plain folder").mkdir()
    with swapped_folder(tmp_path / "place") as draft:
        (draft / "changes").touch()
        (draft / "was a file").mkdir()
        (draft / "was a file" / "inside").touch()
    assert mode(tmp_path / "place" / "changes") == mode(tmp_path / "plain")
    assert mode(tmp_path / "place" / "was a file") == mode(tmp_path / "plain folder")


def test_files_deep_in_a_folder_get_the_mode_of_those_that_they_replace(tmp_path: Path) -> None:
    file = tmp_path / "place" / "below" / "deep" / "file"
    file.parent.mkdir(parents=True)
    file.touch()
    file.chmod(0o604)
    with swapped_folder(tmp_path / "place") as draft:
        (draft / "below" / "deep").mkdir(parents=True)
        for name in ("file", "another"):
            (draft / "below" / "deep" / name).write_text("new")
    assert mode(file) == 0o604
    assert file.read_text() == "new"


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_what_is_new_has_the_mode_that_open_gives(kind: str, mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        made(kind, tmp_path / "plain")
        written(kind, tmp_path / "place")
    finally:
        os.umask(before)
    assert mode(tmp_path / "place") == mode(tmp_path / "plain")


@pytest.mark.parametrize("kind", WRITERS)
def test_the_umask_is_not_set_to_read_it(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that other threads make meanwhile would have another mode."""

    def refused(mask: int) -> int:
        raise AssertionError("the umask was set")

    monkeypatch.setattr(os, "umask", refused)
    written(kind, tmp_path / "place")
    written(kind, tmp_path / "place")


@pytest.mark.parametrize("kind", WRITERS)
def test_nobody_else_can_look_at_a_draft(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "place")
    (tmp_path / "place").chmod(0o700 if "folder" in kind else 0o600)
    with getattr(atomic, kind)(tmp_path / "place") as given:
        if kind == "whole_path":
            given.write_text("new")
            given.chmod(0o600)
        (draft,) = tmp_path.glob(".place.*")
        assert mode(draft) == 0o700
        for file in draft.glob("place"):
            assert mode(file) == 0o600 or "folder" in kind


# -- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_followed(kind: str, dangling: bool, tmp_path: Path) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    if not dangling:
        made(kind, tmp_path / "there" / "file")
    (tmp_path / "here" / "link").symlink_to("../there/next")
    (tmp_path / "there" / "next").symlink_to("file")
    written(kind, tmp_path / "here" / "link")
    assert os.readlink(tmp_path / "here" / "link") == "../there/next"
    assert os.readlink(tmp_path / "there" / "next") == "file"
    assert not (tmp_path / "there" / "file").is_symlink()
    assert content(tmp_path / "here" / "link") == "new"
    assert os.listdir(tmp_path / "here") == ["link"]
    assert sorted(os.listdir(tmp_path / "there")) == ["file", "next"]


@pytest.mark.parametrize("kind", WRITERS)
def test_an_error_behind_a_link_names_the_link(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "file")
    (tmp_path / "link").symlink_to("file")

    def full() -> None:
        with getattr(atomic, kind)(tmp_path / "link"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as failed:
        full()
    assert failed.value.filename == str(tmp_path / "link")
    assert content(tmp_path / "file") == "old"
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_link_that_leads_to_itself_is_an_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match="leads to itself") as raised:
        written(kind, tmp_path / "link")
    assert (raised.value.errno, raised.value.filename) == (errno.ELOOP, str(tmp_path / "link"))
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_pipe_is_not_replaced(kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"pipe.*expected a folder|expected a file to write to.*pipe'$") as raised:
        written(kind, tmp_path / "pipe")
    assert "folder" in kind or raised.value.errno == errno.EINVAL
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_is_not_followed_is_replaced(there: bool, tmp_path: Path) -> None:
    if there:
        (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    with whole_file(tmp_path / "link", follow=False) as file:
        file.write(b"new")
    assert not (tmp_path / "link").is_symlink()
    assert content(tmp_path / "link") == "new"
    assert not there or content(tmp_path / "file") == "old"


# -- targets that cannot be written to --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["whole_folder", "swapped_folder"])
def test_missing_parents_of_a_folder_are_made(kind: str, tmp_path: Path) -> None:
    written(kind, tmp_path / "a" / "b" / "place")
    assert content(tmp_path / "a" / "b" / "place") == "new"


@pytest.mark.parametrize("kind", ["whole_folder", "swapped_folder"])
def test_a_file_in_the_place_of_a_parent_is_named(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(NotADirectoryError, match=r"expected a folder, .*/a is a file") as raised:
        written(kind, tmp_path / "a" / "place")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOTDIR, str(tmp_path / "a" / "place"))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_does_not_replace_a_folder_or_a_folder_a_file(kind: str, tmp_path: Path) -> None:
    made("whole_file" if "folder" in kind else "whole_folder", tmp_path / "place")
    expected = r"place: expected a folder to write to, found a file|expected a file to write to, found a folder.*place'"
    with pytest.raises((IsADirectoryError, NotADirectoryError), match=expected):
        written(kind, tmp_path / "place")
    assert content(tmp_path / "place") == "old"
    assert os.listdir(tmp_path) == ["place"]


def test_the_working_directory_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("place/below", "place/bel"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "place" / "below")
    for folder in (tmp_path / "place", tmp_path / "place" / "below"):
        with pytest.raises(OSError, match="contains the working directory") as raised:
            written("swapped_folder", folder)
        assert (raised.value.errno, raised.value.filename) == (errno.EBUSY, str(folder))
    for name in ("here", "../bel"):
        written("swapped_folder", Path(name))
        assert content(Path(name)) == "new"


@pytest.mark.parametrize("kind", WRITERS)
def test_names_may_be_as_long_as_the_system_takes_them(kind: str, tmp_path: Path) -> None:
    place = tmp_path / ("n" * 255)
    written(kind, place, "first")
    written(kind, place, "second")
    assert content(place) == "second"
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize("length", [239, 240, 241, 255])
def test_targets_with_long_names_have_drafts_of_their_own(length: int, tmp_path: Path) -> None:
    one, other = (tmp_path / ("é" * ((length - 1) // 2) + end * (2 - length % 2)) for end in "ab")
    assert len(os.fsencode(one.name)) == length
    with whole_file(one) as file:
        (draft,) = os.listdir(tmp_path)
        written("whole_file", other)
        assert set(os.listdir(tmp_path)) == {draft, other.name}
        file.write(b"first")
    assert (content(one), content(other)) == ("first", "new")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_name_that_is_too_long_is_an_error_of_the_target(kind: str, tmp_path: Path) -> None:
    place = tmp_path / ("n" * 256)
    with pytest.raises(OSError, match="can't be written: File name too long") as raised:
        written(kind, place)
    assert (raised.value.errno, raised.value.filename) == (errno.ENAMETOOLONG, str(place))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", [".mode", "place.old", ".old"])
def test_no_name_is_reserved(kind: str, name: str, tmp_path: Path) -> None:
    for text in ("first", "second"):
        written(kind, tmp_path / name, text)
        assert content(tmp_path / name) == text
    assert os.listdir(tmp_path) == [name]


@pytest.mark.usefixtures("no_exchange")
def test_a_folder_of_a_long_name_is_swapped_without_an_exchange(tmp_path: Path) -> None:
    written("swapped_folder", tmp_path / ("n" * 255), "first")
    written("swapped_folder", tmp_path / ("n" * 255), "second")
    assert content(tmp_path / ("n" * 255)) == "second"


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_exchange")
def test_an_old_folder_that_cannot_be_put_back_comes_back_with_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("swapped_folder", tmp_path / "place", "old")
    rename, calls = os.rename, list[object]()

    def all_but_the_first_fail(one: str, other: str) -> None:
        calls.append(one)
        if len(calls) > 1:
            raise OSError(errno.EIO, "Input/output error", str(one))
        rename(one, other)

    monkeypatch.setattr(os, "rename", all_but_the_first_fail)
    with pytest.raises(OSError, match="Input/output"):
        written("swapped_folder", tmp_path / "place")
    assert not (tmp_path / "place").exists()
    monkeypatch.setattr(os, "rename", rename)

    def fails() -> None:
        with swapped_folder(tmp_path / "place"):
            raise KeyError("a value")

    with pytest.raises(KeyError):
        fails()
    assert content(tmp_path / "place") == "old"
    assert os.listdir(tmp_path) == ["place"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
@pytest.mark.parametrize("kind", WRITERS)
def test_what_fails_while_it_cleans_up_hides_no_error_and_leaves_nothing_open(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(kind, tmp_path / "place")
    before = Held.now()
    close, rmdir = os.close, os.rmdir

    def closes(handle: int) -> None:
        close(handle)
        raise OSError(errno.EIO, "Input/output error")

    def broken(*given: Any, **options: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def fails() -> None:
        with getattr(atomic, kind)(tmp_path / "place"):
            monkeypatch.setattr(os, "close", closes)
            monkeypatch.setattr(os, "rmdir", broken)
            raise KeyError("the first error")

    with pytest.raises(KeyError, match="the first error"):
        fails()
    monkeypatch.setattr(os, "close", close)
    monkeypatch.setattr(os, "rmdir", rmdir)
    assert Held.now().beyond(before) == []
    assert content(tmp_path / "place") == "old"
    written(kind, tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]


def windowed(kind: str, path: Path) -> None:
    """A writer as the package has it: the block alone can be interrupted."""
    maker: Callable[[Path], AbstractContextManager[Any]] = getattr(atomic, kind)
    with uninterrupted() as section, maker(path) as draft, section.interruptible():
        if kind == "whole_file":
            draft.write(b"new")
        elif kind == "whole_path":
            draft.write_text("new")
        else:
            (draft / "a").write_text("new")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("write", [written, windowed])
@pytest.mark.parametrize("kind", WRITERS)
def test_an_interrupt_at_any_line_leaves_the_old_or_the_new_and_nothing_else(
    kind: str,
    write: Callable[[str, Path], None],
    exchanges: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not exchanges:
        if kind != "swapped_folder":
            return
        monkeypatch.setattr("tensorclass.support.atomic._renameat2", None)
    monkeypatch.setattr(interrupting, "PACKAGE", (interrupting.PACKAGE, __file__))
    place = tmp_path / "place"
    seen = set()
    for at in range(1, 2000, 7):  # tests.storage.interrupts takes them all
        made(kind, place)
        before = Held.now()
        outcome = interrupted(lambda: write(kind, place), at)
        assert Held.now().beyond(before) == [], outcome
        assert not outcome.noticed, outcome
        seen.add(content(place))
        assert os.listdir(tmp_path) == ["place"], outcome
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        if outcome.where is None:
            break
        assert isinstance(outcome.error, KeyboardInterrupt), outcome
    assert seen == {"old", "new"}
    assert at > 50


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EINTR])
@pytest.mark.parametrize("kind", WRITERS)
def test_an_error_of_any_call_leaves_the_old_or_the_new_and_what_the_next_one_cleans_up(
    kind: str, number: int, exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        if kind != "swapped_folder":
            return
        monkeypatch.setattr("tensorclass.support.atomic._renameat2", None)
    place = tmp_path / "place"
    made(kind, place)
    count = calls(lambda: written(kind, place))
    for at in range(1, 2 * count, 2 if number == errno.EIO else 5):
        written(kind, place, "old")
        before = Held.now()
        outcome = failing(lambda: written(kind, place), at, number)
        assert Held.now().beyond(before) == [], outcome
        assert not outcome.noticed, outcome
        assert outcome.error is None or isinstance(outcome.error, OSError), outcome
        assert content(place) == "new" if outcome.error is None else content(place) in ("old", "new"), outcome
        written(kind, place, "next")
        assert content(place) == "next"
        assert os.listdir(tmp_path) == ["place"], outcome
        if outcome.where is None:
            break
    assert at > 5
