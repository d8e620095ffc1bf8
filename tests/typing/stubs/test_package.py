"""The stubs of the package itself are those that its sources give, and agree with what runs."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorclass.td.dataframe_names import INSTEAD
from tensorclass.typing.stubs import package
from tests.operations import POINTWISE

REPOSITORY = Path(__file__).resolve().parents[3]
STUBS = REPOSITORY / "stubs" / "tensorclass-stubs"

TABLE = """\
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload
from table.numbers import Number

C = TypeVar("C", bound="Base")
R = TypeVar("R", covariant=True)

class Bound(Protocol[R]):
    def __call__(self, other: Number, *, default: Any = None) -> R: ...

class Unary(Protocol):
    def __get__(self, instance: C, owner: Any) -> Callable[[], C]: ...

class Binary(Protocol):
    def __get__(self, instance: C, owner: Any) -> Bound[C]: ...

class BoundTotal(Protocol[R]):
    @overload
    def __call__(self, dim: int = ...) -> R: ...
    @overload
    def __call__(self, dim: None) -> Number: ...

class Total(Protocol):
    def __get__(self, instance: C, owner: Any) -> BoundTotal[C]: ...

def unary(name: str) -> Unary: ...
def binary(name: str) -> Binary: ...
def total(name: str) -> Total: ...
def _helper() -> int: ...
"""
CLASS = """\
from typing import TYPE_CHECKING
from .kinds import Binary, Total, _helper, binary, total, unary

class Base:
    abs, neg = unary("abs"), unary("neg")
    mul: Binary = binary("mul")
    sum: Total = total("sum")
    _private = unary("x")
    count = len("abc")
    def _hidden(self) -> int: ...
    if TYPE_CHECKING:
        def borrowed(self) -> int: ...

x: int = _helper()
def _unused() -> None: ...
"""


def test_they_are_up_to_date() -> None:
    """Where this fails, run `make stubs`."""
    assert package.main(["--check", "--out", str(REPOSITORY / "stubs")]) == 0


def test_every_operation_of_the_table_is_a_method() -> None:
    (definition,) = [
        node
        for node in ast.parse((STUBS / "td" / "pointwise.pyi").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "Pointwise"
    ]
    methods = {node.name: node for node in definition.body if isinstance(node, ast.FunctionDef)}
    lacking = [name for name in POINTWISE if name not in methods]
    assert lacking == []
    assert {ast.unparse(methods[name].returns or ast.Constant(0)) for name in POINTWISE} == {"Self"}


def test_a_new_entry_of_a_table_needs_no_line(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    for name, text in {"__init__": "", "kinds": TABLE, "base": CLASS, "numbers": "class Number: ..."}.items():
        (folder / f"{name}.py").write_text(text)
    texts = {path.name: text for path, text in package.stubs("table", tmp_path, tmp_path / "out").items()}
    assert sorted(texts) == ["__init__.pyi", "base.pyi", "kinds.pyi", "numbers.pyi"]
    assert texts["base.pyi"].partition("class Base:")[2].split("\n") == [
        "",
        "    def abs(self) -> Self: ...",
        "    def neg(self) -> Self: ...",
        "    def mul(self, other: Number, *, default: Any = None) -> Self: ...",
        "    @overload",
        "    def sum(self, dim: int = ...) -> Self: ...",
        "    @overload",
        "    def sum(self, dim: None) -> Number: ...",
        "    count: int",
        "",
        "x: int",
        "",
    ]
    assert "from table.numbers import Number" in texts["base.pyi"]
    assert "_helper" not in texts["kinds.pyi"]


#: stubtest, without the half of its time in which it collects and frees a gigabyte of syntax trees
STUBTEST = """\
import gc, os, sys
from mypy import stubtest
gc.disable()
code = stubtest.main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""

#: what the stubs import of other packages names nothing of these: half of what mypy would read for it
UNREAD = (
    "torch._decomp torch._dynamo torch._export torch._functorch torch._higher_order_ops torch._inductor torch._refs "
    "torch.ao torch.backends torch.distributed.checkpoint torch.distributed.elastic torch.distributed.fsdp "
    "torch.distributed.pipelining torch.distributed.rpc torch.distributed.tensor torch.export torch.fx torch.onnx "
    "torch.package torch.testing IPython _pytest hypothesis markdown_it matplotlib polars prompt_toolkit pydantic "
    "pytest redis rich"
)


@pytest.mark.slow
def test_mypys_stubtest_agrees(tmp_path: Path) -> None:
    unread = ",".join(f"{name}.*" for name in UNREAD.split())
    settings = f"[mypy]\n[mypy-{unread}]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n"
    (tmp_path / "mypy.ini").write_text(settings)
    (tmp_path / "tensorclass").symlink_to(STUBS)  # under the name of the package itself, which mypy looks for
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            STUBTEST,
            "tensorclass",
            "--concise",
            f"--mypy-config-file={tmp_path / 'mypy.ini'}",
            f"--allowlist={Path(__file__).with_name('allowlist.txt')}",
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    # One function stands for many methods of leaves that are no tensors, and takes whatever they are given.
    takes_all = re.compile(r"is inconsistent, stub does not have \*{1,2}(args|kwargs) parameter")
    # Names of data frames are errors when they are read, so stubs do not have them.
    missing = re.compile(rf"\.({'|'.join(INSTEAD)}) is not present in stub$")
    lines = result.stdout.splitlines()
    found = [line for line in lines if not takes_all.search(line) and not missing.search(line)]
    assert [line for line in found if not line.startswith("Found ")] == [], result.stderr
    assert result.stdout or result.returncode == 0, result.stderr
