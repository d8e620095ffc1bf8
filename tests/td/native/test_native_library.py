"""Whether native code is used, and the reason if not."""

import os
from pathlib import Path

import pytest
import torch

from tensorclass.td import native
from tensorclass.td.native import library_name, native_library
from tensorclass.td.native.first_load import FirstLoad
from tensorclass.td.native.native_library import library_file, other_libraries, why_not_wanted, why_unusable
from tests import fresh_python
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
    assert library_file().name.startswith("_native_torch_2_99_")


def test_a_library_that_is_missing(folder: Path) -> None:
    assert why_unusable() == "not built"


def test_a_library_of_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_file().touch()
    built, version = library_file(), torch.__version__
    monkeypatch.setattr(torch, "__version__", "2.99.0+cu131")
    assert other_libraries() == [built]
    monkeypatch.undo()
    named = native_library.torch_version()
    monkeypatch.setattr(native_library, "FOLDER", folder)
    monkeypatch.setattr(native_library, "SOURCES", folder / "source")
    monkeypatch.setattr(torch, "__version__", "2.99.0+cu131")
    assert version.startswith(named)
    assert why_unusable() == f"not built for torch 2.99, only for {named}"


def test_a_library_is_stale_once_a_source_has_changed(folder: Path) -> None:
    library_file().touch()
    assert why_unusable() == ""
    os.utime(folder / "source" / "module.cpp", ns=(1, 1))  # times do not matter: archives and checkouts set them
    library_name.fingerprint.cache_clear()
    assert why_unusable() == ""
    (folder / "source" / "module.cpp").write_text("// changed\n")
    library_name.fingerprint.cache_clear()
    assert why_unusable() == "made from other sources"


def test_the_package_of_built_libraries_is_used_where_none_is_built_here(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "tensorclass_native"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    assert why_unusable() == "not built"
    (package / "_native_torch_2_1_0123456789ab.so").touch()
    brought = package / library_file().name
    brought.touch()
    assert (native_library.found_library(), why_unusable()) == (brought, "")
    assert native_library.origin_of(brought) == "the package tensorclass-native"
    library_file().touch()
    assert native_library.found_library() == library_file()
    assert native_library.origin_of(library_file()) == "built here by `tensorclass native --build`"


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
    with pytest.warns(RuntimeWarning, match=r"native code cannot be loaded: .*; build it again"):
        assert native._load().startswith("cannot be loaded: ")
    monkeypatch.setenv("TENSORCLASS_NATIVE", "1")
    with pytest.raises(ImportError):
        native._load()


# -- the first load ---------------------------------------------------------------------------------------------------


@pytest.fixture
def note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FirstLoad:
    """The note about a library, in a cache of its own."""
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", str(folder / "cache"))
    library_file().write_text("no library")
    return FirstLoad(library_file())


def test_a_library_that_crashed_is_left_out_with_a_warning(note: FirstLoad, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"""
import sys
from pathlib import Path
from tensorclass.td.native.first_load import FirstLoad
import os
FirstLoad(Path({str(library_file())!r})).begin()
os.kill(os.getpid(), 11)
"""
    crashed = fresh_python.run(["-c", code])
    assert crashed.returncode == -11
    assert note.crashed()
    with pytest.warns(
        RuntimeWarning,
        match=r"is left out, as a process ended while it loaded it .*TENSORCLASS_NATIVE=1 tries it again",
    ):
        assert native._load().startswith("left out")
    monkeypatch.setenv("TENSORCLASS_NATIVE", "1")
    with pytest.raises(ImportError, match=r"file too short|invalid ELF"):
        native._load()  # tried again
    library_file().write_text("another library")
    assert not FirstLoad(library_file()).crashed()


def test_a_process_that_is_loading_it_has_not_crashed(note: FirstLoad) -> None:
    note.begin()
    assert not note.crashed()
    os.utime(note.file, (1, 1))  # long ago: the number of the process can be another one's
    assert note.crashed()
    note.begin()
    note.end()
    assert note.file.read_text() == "loaded"
    note.begin()
    assert note.file.read_text() == "loaded"


def test_an_error_or_an_interrupt_is_no_crash(note: FirstLoad) -> None:
    code = f"""
from pathlib import Path
from tensorclass.td.native.first_load import FirstLoad
FirstLoad(Path({str(library_file())!r})).begin()
raise KeyboardInterrupt
"""
    assert fresh_python.run(["-c", code]).returncode not in (0, -11)
    assert not note.crashed()


def test_a_cache_that_cannot_be_written_does_not_matter(note: FirstLoad, folder: Path) -> None:
    (folder / "cache").write_text("a file")
    note.begin()
    note.end()
    note.settle()
    assert not note.crashed()


def test_files_that_run_in_both_modes_exist() -> None:
    folder = Path(__file__).parents[2]
    assert [name for name in IN_BOTH_MODES if not (folder / name).is_file()] == []
