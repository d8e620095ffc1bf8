"""``tensorclass native``: what it says, and its exit codes."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tensorclass.cli import main
from tensorclass.td.native import library_builder, native_command, native_library
from tensorclass.td.native.library_builder import NotBuilt
from tensorclass.td.native.native_library import library_file


@pytest.fixture(autouse=True)
def handler_of_signals() -> Iterator[None]:
    """Put back the handler of SIGTERM, which the command sets for its process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_state(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(native_command, "ON", True)
    assert main(["native"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "native code: on"
    assert lines[1] == f"torch:       {torch.__version__}"
    assert lines[2].startswith(f"file:        {library_file()}")


def test_the_state_where_it_is_not_built(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(native_command, "ON", False)
    monkeypatch.setattr(native_command, "WHY_OFF", "not built")
    monkeypatch.setattr(native_command, "why_unusable", lambda: "not built")
    assert main(["native"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("origin: ") or native_library.found_library() is None
    assert (lines[0], lines[-1]) == ("native code: off: not built", "to build it: tensorclass native --build")


def test_the_state_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(native_command, "ON", False)
    monkeypatch.setattr(native_command, "WHY_OFF", "not built")
    assert main(["native", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["on"], state["reason"], state["torch"]) == (False, "not built", str(torch.__version__))
    assert state["file"] == str(native_library.found_library() or library_file())
    assert (state["origin"] is None) == (native_library.found_library() is None)


def test_building_and_removing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(native_command, "build_library", lambda: Path("made.so"))
    monkeypatch.setattr(native_command, "remove_libraries", lambda: [Path("made.so")])
    assert main(["native", "--build"]) == 0
    assert main(["native", "--remove"]) == 0
    monkeypatch.setattr(native_command, "remove_libraries", list)
    assert main(["native", "--remove"]) == 0
    assert capsys.readouterr().out.splitlines() == ["made.so: built", "made.so: removed", "nothing to remove"]


@pytest.mark.parametrize(
    "error, line",
    [
        (NotBuilt("there is no compiler"), "tensorclass native: there is no compiler"),
        (PermissionError(13, "cannot be written", "folder"), "tensorclass native: folder: cannot be written"),
        (ImportError("needs setuptools"), "tensorclass native: needs setuptools"),
    ],
)
def test_errors(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Path:
        raise error

    monkeypatch.setattr(native_command, "build_library", fail)
    assert main(["native", "--build"]) == 2
    assert capsys.readouterr().err.splitlines() == [line]


def test_sigterm_ends_a_build_as_an_interrupt_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_builder, "_check_tools", lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        main(["native", "--build"])
