"""Whether native code is used, and the reason if not."""

import os
from pathlib import Path

import pytest
import torch

from tensorclass.td import native
from tensorclass.td.native import native_library
from tensorclass.td.native.native_library import library_file, other_libraries, why_not_wanted, why_unusable
from tests.native_code import IN_BOTH_MODES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of that of the package, with sources and no library."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "module.cpp").write_text("// nothing\n")
    monkeypatch.setattr(native_library, "FOLDER", tmp_path)
    monkeypatch.setattr(native_library, "SOURCES", tmp_path / "source")
    monkeypatch.delenv("TENSORCLASS_NATIVE", raising=False)
    return tmp_path


def test_native_code_is_on_where_it_is_built_and_wanted() -> None:
    assert (why_not_wanted() or why_unusable()) == native.WHY_OFF


def test_a_library_belongs_to_one_version_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = library_file()
    monkeypatch.setattr(torch, "__version__", "2.99.0+cu131")
    assert library_file() != before
    assert library_file().name.startswith("_native_torch_2_99_0_cu131.")


def test_a_library_that_is_missing(folder: Path) -> None:
    assert why_unusable() == "not built"


def test_a_library_of_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_file().touch()
    built, version = library_file(), torch.__version__
    monkeypatch.setattr(torch, "__version__", "2.99.0+cu131")
    assert other_libraries() == [built]
    named = "".join(character if character.isalnum() else "." for character in version)
    assert why_unusable() == f"not built for torch 2.99.0+cu131, only {named}"


def test_a_library_is_stale_once_a_source_has_changed(folder: Path) -> None:
    library_file().touch()
    time = native_library.source_time()
    os.utime(library_file(), ns=(time, time))
    assert why_unusable() == ""
    for other in (time - 10**9, time + 10**9):
        os.utime(library_file(), ns=(other, other))
        assert why_unusable() == "made from other sources"


def test_the_variable_switches_it_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORCLASS_NATIVE", "0")
    assert native._load() == "switched off by TENSORCLASS_NATIVE=0"
    monkeypatch.setenv("TENSORCLASS_NATIVE", "no")
    with pytest.raises(ValueError, match=r"expected 0 \(off\) or 1 \(required\), got 'no'"):
        native._load()


def test_a_required_library_that_is_missing_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORCLASS_NATIVE", "1")
    with pytest.raises(ImportError, match=r"native code is not built .*; build it with `tensorclass native --build`"):
        native._load()


def test_a_damaged_library_is_a_warning_or_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_file().write_text("no library")
    time = native_library.source_time()
    os.utime(library_file(), ns=(time, time))
    with pytest.warns(RuntimeWarning, match=r"native code cannot be loaded: .*; build it again"):
        assert native._load().startswith("cannot be loaded: ")
    monkeypatch.setenv("TENSORCLASS_NATIVE", "1")
    with pytest.raises(ImportError):
        native._load()


def test_files_that_run_in_both_modes_exist() -> None:
    folder = Path(__file__).parents[2]
    assert [name for name in IN_BOTH_MODES if not (folder / name).is_file()] == []
