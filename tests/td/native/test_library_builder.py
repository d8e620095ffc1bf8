"""Building native code: what is checked before, what is left after an error or an interrupt."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from tensorclass.td.native import check_library, compile_extension, library_builder, native_library
from tensorclass.td.native.library_builder import NotBuilt, build_library, remove_libraries
from tensorclass.td.native.native_library import library_file

#: stands for the script that calls the compiler: NAME SOURCE FOLDER
COMPILED = """
import pathlib, sys
made = pathlib.Path(sys.argv[3], sys.argv[1] + ".so")
made.parent.mkdir(parents=True)
made.write_text("library")
print("g++ ...")
print(made)
"""
FAILED = "print('module.cpp:1: error: expected ;'); raise SystemExit(1)"
#: as the script itself does where its standard input is closed
WAITING = """
import os, sys
os.makedirs(sys.argv[3])
os.kill(int(os.environ["TEST_PID"]), 2)
os.read(0, 1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of that of the package, with sources and no library."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "module.cpp").write_text("// nothing\n")
    for module in (native_library, library_builder):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
        monkeypatch.setattr(module, "SOURCES", tmp_path / "source")
    monkeypatch.setattr(library_builder.sysconfig, "get_path", lambda name: str(tmp_path / "include"))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()
    monkeypatch.setenv("CXX", sys.executable)
    return tmp_path


def script(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, check: str = "") -> None:
    """Let scripts stand for the one that compiles, and the one that tries what was made."""
    for module, content in ((compile_extension, text), (check_library, check)):
        file = folder / Path(str(module.__file__)).name
        file.write_text(content)
        monkeypatch.setattr(module, "__file__", str(file))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "native_torch" in path.name)


def test_a_library_replaces_those_of_other_versions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(folder, monkeypatch, COMPILED)
    (folder / library_file().name.replace("_torch_", "_torch_1_")).touch()
    (folder / "_native_torch_1.another-python.so").touch()
    assert build_library() == library_file()
    assert library_file().read_text() == "library"
    assert names(folder) == ["_native_torch_1.another-python.so", library_file().name]
    assert remove_libraries() == [library_file()]
    assert remove_libraries() == []


def test_a_failed_compilation_shows_the_output_and_leaves_the_old_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(folder, monkeypatch, FAILED)
    library_file().write_text("old")
    with pytest.raises(NotBuilt, match=r"(?s)the compilation failed; see https.*/native\.html; .*1: error: expected ;"):
        build_library()
    assert library_file().read_text() == "old"
    assert names(folder) == [library_file().name]


@pytest.mark.parametrize(
    "check, end",
    [("import os; os.kill(os.getpid(), 11)", r" \(signal SIGSEGV\)"), ("raise AssertionError('stack: [1]')", "")],
)
def test_a_library_that_does_not_work_is_not_put_in_place(
    check: str, end: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(folder, monkeypatch, COMPILED, check)
    library_file().write_text("old")
    output = "stack: " if "stack" in check else "Fatal Python error"
    with pytest.raises(NotBuilt, match=rf"(?s)built, but does not work{end}, so it was not put in place; .*{output}"):
        build_library()
    assert library_file().read_text() == "old"
    assert names(folder) == [library_file().name]


def test_an_interrupt_stops_the_compiler_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert threading.current_thread() is threading.main_thread()
    script(folder, monkeypatch, WAITING)
    monkeypatch.setenv("TEST_PID", str(os.getpid()))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        build_library()
    assert names(folder) == []


def test_what_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(NotBuilt, match=r"there is no compiler for C\+\+ \(no-such-compiler\): install one"):
        build_library()
    monkeypatch.setenv("CXX", sys.executable)
    (folder / "include" / "Python.h").unlink()
    with pytest.raises(NotBuilt, match=r"there are no headers of Python \(.*Python.h\): install them"):
        build_library()


def test_setuptools_belongs_to_an_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "setuptools", None)
    with pytest.raises(ImportError, match=r"tensorclass native --build needs setuptools.*'tensorclass\[compile\]'"):
        build_library()


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match=r"build as the user who installed the package"):
        build_library()
