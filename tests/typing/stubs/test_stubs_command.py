"""``tensorclass stubs``: what it writes where, what it compares, and what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensorclass.cli import main

RECORD = """\
from tensorclass import tensorclass
from torch import Tensor

@tensorclass
class Point:
    x: Tensor

    def scaled(self, by: float = 1.0) -> Tensor:
        return self.x * by

def helper(a: int) -> str:
    return str(a)

SIZE = 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module and a package, which is the working directory."""
    write(tmp_path / "points.py", RECORD)
    write(tmp_path / "plain.py", "x = 1\n")
    write(tmp_path / "pack" / "__init__.py", "from .records import Point\n")
    write(tmp_path / "pack" / "records.py", RECORD)
    write(tmp_path / "pack" / "sub" / "__init__.py", "")
    write(tmp_path / "pack" / "sub" / "more.py", RECORD)
    write(tmp_path / "pack" / "sub" / "plain.py", "from tensorclass import TensorDict\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_module_has_its_stub_under_its_name(project: Path) -> None:
    assert main(["stubs", "points.py"]) == 0
    assert files(project / "typings") == ["points.pyi"]
    assert "class Point(TensorClass):" in (project / "typings" / "points.pyi").read_text()


@pytest.mark.parametrize("target", ["pack", "./pack", "pack/"])
def test_modules_of_a_package_are_in_a_partial_stub_package(project: Path, target: str) -> None:
    assert main(["stubs", target]) == 0
    assert files(project / "typings") == ["pack-stubs/py.typed", "pack-stubs/records.pyi", "pack-stubs/sub/more.pyi"]
    assert (project / "typings" / "pack-stubs" / "py.typed").read_text() == "partial\n"


@pytest.mark.parametrize("target", ["pack.sub.more", "pack/sub/more.py"])
def test_one_module_of_a_package(project: Path, target: str) -> None:
    assert main(["stubs", target]) == 0
    assert files(project / "typings") == ["pack-stubs/py.typed", "pack-stubs/sub/more.pyi"]


def test_a_folder_stands_for_all_modules_below_it(project: Path) -> None:
    write(project / ".venv" / "pyvenv.cfg", "")
    write(project / ".venv" / "lib.py", RECORD)
    write(project / "env" / "pyvenv.cfg", "")
    write(project / "env" / "lib.py", RECORD)
    assert main(["stubs", "."]) == 0
    assert files(project / "typings") == [
        "pack-stubs/py.typed",
        "pack-stubs/records.pyi",
        "pack-stubs/sub/more.pyi",
        "points.pyi",
    ]


def test_a_package_without_init_is_found_by_its_dotted_name(project: Path) -> None:
    write(project / "tools" / "record.py", RECORD)
    assert main(["stubs", "tools"]) == 0
    assert main(["stubs", "tools.record"]) == 0
    assert (project / "typings" / "tools-stubs" / "record.pyi").exists()


def test_a_package_that_holds_records_itself(project: Path) -> None:
    write(project / "pack" / "__init__.py", RECORD)
    assert main(["stubs", "pack"]) == 0
    assert "pack-stubs/__init__.pyi" in files(project / "typings")


def test_stubs_can_stand_beside_their_modules(project: Path) -> None:
    assert main(["stubs", "pack", "points", "--out", "."]) == 0
    assert [name for name in files(project) if name.endswith((".pyi", "py.typed"))] == [
        "pack/records.pyi",
        "pack/sub/more.pyi",
        "points.pyi",
    ]
    assert main(["stubs", "pack", "points", "--out", ".", "--check"]) == 0


def test_nothing_is_imported_or_run(project: Path) -> None:
    write(project / "pack" / "__init__.py", "raise SystemExit(9)\n")
    write(project / "pack" / "records.py", "import no_such_module\nprint('run')\n" + RECORD)
    result = subprocess.run(
        [sys.executable, "-m", "tensorclass.cli", "stubs", "pack.records"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "typings/pack-stubs/py.typed: written",
        "typings/pack-stubs/records.pyi: written",
    ]


OTHER = """\
from dataclasses import dataclass
from enum import Enum
from tensorclass import TensorClass, tensorclass as plain

frozen_record = plain(frozen=True)

@frozen_record
class Base:
    x: int

class Colors(Enum): ...
"""
USING = """\
from .other import Base, Colors, frozen_record as record, plain
from . import again

@record
class A:
    y: int

@plain
class B(Base):
    z: int = 3

class C(Colors):
    RED = 1

@again.plain
class D: ...
"""


def test_what_other_modules_of_the_project_define_is_followed(project: Path) -> None:
    write(project / "pack" / "other.py", OTHER)
    write(project / "pack" / "again.py", "from .other import *\nfrom .other import plain\n")
    write(project / "pack" / "using.py", USING)
    assert main(["stubs", "pack.using"]) == 0
    assert (project / "typings" / "pack-stubs" / "using.pyi").read_text().splitlines()[1:] == [
        "from tensorclass import TensorClass",
        "from pack.other import Base, Colors",
        "",
        "class A(TensorClass, frozen=True):",
        "    y: int",
        "",
        "class B(Base, frozen=True):",
        "    z: int = 3",
        "",
        "class C(Colors):",
        "    RED = 1",
        "",
        "class D(TensorClass): ...",
    ]
    write(project / "pack" / "other.py", OTHER.replace("frozen=True", ""))
    assert main(["stubs", "pack.using", "--check"]) == 1


# -- check ------------------------------------------------------------------------------------------------------------


def test_check_writes_nothing_and_lists_what_is_missing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stubs", "points.py", "--check"]) == 1
    assert capsys.readouterr().out == "typings/points.pyi: missing\n"
    assert not (project / "typings").exists()


@pytest.mark.parametrize(
    "old, new",
    [
        ("x: Tensor", "y: Tensor"),
        ("x: Tensor", "x: Tensor | None"),
        ("x: Tensor\n", "x: Tensor = None\n"),
        ("x: Tensor\n", "x: Tensor\n    z: int\n"),
        ("@tensorclass", "@tensorclass(frozen=True)"),
        ("class Point", "class Line"),
        ("by: float", "by: int"),
        ("1.0", "2.0"),
        ("-> Tensor", "-> int"),
        ("scaled", "_scaled"),
        ("-> str", "-> bytes"),
        ("def helper", "async def helper"),
        ("a: int", "a: int, /"),
        ("def helper", "@staticmethod\ndef helper"),
        ("SIZE = 3", "SIZE = 'a'"),
        ("SIZE = 3", "SIZE = 3\n__all__ = []"),
        ("from torch import Tensor", "from torch import Tensor as Tensor"),
    ],
)
def test_check_finds_every_change_of_a_signature(
    project: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    assert main(["stubs", "points.py"]) == 0
    assert main(["stubs", "points.py", "--check"]) == 0
    capsys.readouterr()
    assert old in RECORD
    write(project / "points.py", RECORD.replace(old, new))
    assert main(["stubs", "points.py", "--check"]) == 1
    assert capsys.readouterr().out == "typings/points.pyi: stale\n"


def test_check_does_not_mind_what_a_stub_leaves_out(project: Path) -> None:
    assert main(["stubs", "points.py"]) == 0
    changed = RECORD.replace("self.x * by", "self.x * by + 1").replace(
        "class Point:", 'class Point:\n    """Text."""\n'
    )
    write(project / "points.py", "# a comment\nimport os\n" + changed)
    assert main(["stubs", "points.py", "--check"]) == 0


def test_a_stub_that_nothing_needs_is_listed_and_removed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stubs", "."]) == 0
    write(project / "pack" / "records.py", "x = 1\n")
    (project / "pack" / "sub" / "more.py").unlink()
    capsys.readouterr()
    assert main(["stubs", ".", "--check"]) == 1
    gone = ["pack-stubs/records.pyi", "pack-stubs/sub/more.pyi", "pack-stubs/py.typed"]
    assert capsys.readouterr().out.splitlines() == [f"typings/{name}: no longer needed" for name in gone]
    assert main(["stubs", "."]) == 0
    assert files(project / "typings") == ["points.pyi"]
    assert not (project / "typings" / "pack-stubs").exists()
    assert main(["stubs", ".", "--check"]) == 0


def test_stubs_of_modules_that_were_not_named_stay(project: Path) -> None:
    assert main(["stubs", "."]) == 0
    before = files(project / "typings")
    write(project / "pack" / "sub" / "more.py", RECORD.replace("Point", "Line"))
    assert main(["stubs", "points.py"]) == 0
    assert main(["stubs", "pack.records"]) == 0
    assert files(project / "typings") == before


@pytest.mark.parametrize("target", ["points.py", "src/shop/part", "tests", "src.shop.cart", "tests/helpers.py"])
def test_stubs_of_other_roots_and_of_other_parts_of_a_package_stay(project: Path, target: str) -> None:
    write(project / "src" / "shop" / "__init__.py", "")
    write(project / "src" / "shop" / "cart.py", RECORD)
    write(project / "src" / "shop" / "part" / "__init__.py", "")
    write(project / "src" / "shop" / "part" / "more.py", RECORD)
    write(project / "tests" / "helpers.py", RECORD)
    assert main(["stubs", "src", "tests"]) == 0
    before = files(project / "typings")
    assert before == ["helpers.pyi", "shop-stubs/cart.pyi", "shop-stubs/part/more.pyi", "shop-stubs/py.typed"]
    assert main(["stubs", target]) == 0
    assert set(before) <= set(files(project / "typings"))


def test_running_it_again_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stubs", "."]) == 0
    times = {path: path.stat().st_mtime_ns for path in (project / "typings").rglob("*.pyi")}
    capsys.readouterr()
    assert main(["stubs", "."]) == 0
    assert capsys.readouterr().out == ""
    assert {path: path.stat().st_mtime_ns for path in times} == times


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nothing.py"], "nothing.py: there is no such file, folder or module"),
        (["no.such.module"], "no.such.module: there is no such file, and no such module"),
        (["plain.py"], "plain.py: no class there is decorated with @tensorclass"),
        (["plain.py", "--check"], "plain.py: no class there is decorated with @tensorclass"),
        (["broken.py"], "broken.py:3: "),
        (["latin.py"], "latin.py:2: not in its encoding"),
        (["readme.txt"], "readme.txt: expected a Python file"),
        (["points.py", "--out", "plain.py"], "plain.py: expected a folder"),
        (["points.py", "--out", "foreign"], "foreign/points.pyi: this file was not generated"),
    ],
)
def test_errors_are_one_line_and_change_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    write(project / "broken.py", "from tensorclass import tensorclass\n\ndef f(:\n")
    (project / "latin.py").write_bytes(RECORD.encode().replace(b"\n", b"\n# caf\xe9\n", 1))
    write(project / "readme.txt", "")
    write(project / "foreign" / "points.pyi", "x: int\n")
    before = files(project)
    assert main(["stubs", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.startswith("tensorclass stubs: ")
    assert output.err.count("\n") == 1
    assert files(project) == before


DEEP = 20_000
#: what cannot be read, behind a record: the bytes before it and behind it
UNREADABLE: dict[str, tuple[bytes, bytes]] = {
    "parentheses": (b"", b"y = " + b"(" * DEEP + b"1" + b")" * DEEP),
    "attributes": (b"", b"y = a" + b".b" * DEEP),
    "a sum": (b"", b"y = 1" + b"+1" * DEEP),
    "signs": (b"", b"y = " + b"-" * DEEP + b"1"),
    "calls": (b"", b"y = f" + b"()" * DEEP),
    "conditions": (b"", b"y = " + b"a if b else " * DEEP + b"1"),
    "branches": (b"", b"if a:\n    b: int\n" + b"elif a:\n    b: int\n" * 5000),
    "what is returned": (b"", b"@tensorclass\nclass B:\n    def f(self):\n        return x" + b".b()" * 450),
    "text": (b"", b"@tensorclass\nclass B:\n    a: 'x" + b".b" * DEEP + b"' = None"),
    "rot13": (b"# coding: rot13\n", b""),
    "base64": (b"# coding: base64\n", b""),
    "unknown": (b"# coding: klingon\n", b""),
    "undefined": (b"# coding: undefined\n", b""),
    "another one than the mark": (b"\xef\xbb\xbf# coding: latin-1\n", b""),
    "a null byte": (b"", b"\0"),
    "an end": (b"", b"\x1a"),
    "no UTF-8": (b"", b"# \xff\xfe"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_module_that_cannot_be_read_is_named(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    before, behind = UNREADABLE[name]
    (project / "hard.py").write_bytes(before + RECORD.encode() + behind + b"\n")
    for target in ("hard.py", "."):
        assert main(["stubs", target]) == 2
        error = capsys.readouterr().err
        assert "hard.py:" in error
        assert error.count("\n") == 1
    (project / "points.py").write_text(RECORD + "from hard import z\n")  # a neighbour of it can be read
    assert main(["stubs", "points.py"]) == 0


def test_a_pipe_is_no_stub(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "typings").mkdir()
    os.mkfifo(project / "typings" / "points.pyi")
    assert main(["stubs", "points.py"]) == 2
    assert "this file was not generated" in capsys.readouterr().err


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb\xbf# coding: utf-8\n", b"# coding: latin-1\n# \xff\n"])
def test_modules_with_marks_and_encodings_are_read(project: Path, mark: bytes) -> None:
    (project / "marked.py").write_bytes(mark + RECORD.encode())
    assert main(["stubs", "marked.py"]) == 0


def test_one_module_with_an_error_keeps_all_stubs_as_they_are(project: Path) -> None:
    write(project / "pack" / "broken.py", "from tensorclass import tensorclass\nclass:\n")
    assert main(["stubs", "pack"]) == 2
    assert not (project / "typings").exists()


# -- files as they can be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first, second", [("pack", "pack.sub"), ("src", "points.py"), ("src/lib", "pack")])
def test_stubs_of_another_run_stay(project: Path, first: str, second: str) -> None:
    write(project / "src" / "lib" / "__init__.py", RECORD)
    write(project / "src" / "single.py", RECORD)
    assert main(["stubs", first]) == 0
    before = files(project / "typings")
    assert main(["stubs", second]) == 0
    assert set(before) <= set(files(project / "typings"))
    assert main(["stubs", second, "--check"]) == 0


def test_a_link_to_a_folder_around_it_is_not_followed_and_one_to_nothing_is_passed_over(project: Path) -> None:
    (project / "pack" / "sub" / "loop").symlink_to(project / "pack")
    (project / "pack" / "gone.py").symlink_to(project / "no_such.py")
    assert main(["stubs", "pack"]) == 0
    assert files(project / "typings") == ["pack-stubs/py.typed", "pack-stubs/records.pyi", "pack-stubs/sub/more.pyi"]


def test_two_modules_of_one_name_are_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("one", "two"):
        write(project / folder / "util.py", RECORD)
        write(project / folder / "conftest.py", "x = 1\n")
    assert main(["stubs", "one", "two"]) == 2
    error = capsys.readouterr().err
    assert "typings/util.pyi: " in error
    assert "one/util.py and " in error
    assert not (project / "typings").exists()


def test_a_file_that_is_no_text_is_none_of_ours(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "typings").mkdir()
    (project / "typings" / "points.pyi").write_bytes(b"\xff\xfe")
    assert main(["stubs", "points.py"]) == 2
    assert "points.pyi: this file was not generated" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stubs", "points.py", "--out", "/proc/no_such"]) == 2
    assert capsys.readouterr().err.startswith("tensorclass stubs: /proc/no_such")


def test_stubs_that_git_gave_the_line_ends_of_windows_are_not_stale(project: Path) -> None:
    assert main(["stubs", "points.py"]) == 0
    path = project / "typings" / "points.pyi"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (project / "points.py").write_bytes(b"\xef\xbb\xbf" + RECORD.replace("\n", "\r\n").encode())
    assert main(["stubs", "points.py", "--check"]) == 0
