"""Mistakes are put into a copy, run with the tests of the module, and told: see :mod:`tests.mutate`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutate import ROOT, equal_mutants

#: where `make mutate` has installed mutmut
LIBRARIES = Path(sys.prefix) / "mutmut"


def test_equal_mutants_are_of_lines_that_exist() -> None:
    for (path, function, changes), reason in equal_mutants().items():
        source = (ROOT / path).read_text(encoding="utf-8")
        lines = [line.strip() for line in source.splitlines()]
        assert function.rpartition(".")[2] in source
        assert [line for line in changes if line[0] == "-" and line[2:] not in lines] == []
        assert any(line[0] == "+" for line in changes)
        assert reason


def test_an_equal_mutant_is_a_block_of_lines() -> None:
    text = """# a comment

tensorclass/a.py C.f
    - if x > 0:
    + if x >= 0:
    = 0 is
    = not a value
"""
    changes = ("- if x > 0:", "+ if x >= 0:")
    assert equal_mutants(text) == {("tensorclass/a.py", "C.f", changes): "0 is not a value"}


SOURCE = '''
"""Docstring."""
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os

class C:
    @property
    def f(self) -> int:
        """Docstring."""
        check(1, zip([], [], strict=True))
        if self.ready:
            raise ValueError(f"text {self.x + 1}", "text")
        return self.x < 2
'''


@pytest.fixture
def _mutmut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LIBRARIES))
    pytest.importorskip("mutmut")


@pytest.mark.usefixtures("_mutmut")
def test_mistakes_are_those_that_tests_can_notice() -> None:
    from tests.mutants import compiles, mutants_of

    mutants = mutants_of("c.py", SOURCE)
    assert all(map(compiles, mutants))
    assert {mutant.function for mutant in mutants} == {"C.f"}
    changes = {tuple(line[2:] for line in mutant.changes) for mutant in mutants}
    call, test, error, result = (SOURCE.splitlines()[line].strip() for line in (11, 12, 13, 14))
    assert {
        (call, "pass"),
        (call, "check(2, zip([], [], strict=True))"),
        (test, "if not (self.ready):"),
        (error, 'raise ValueError(f"text {self.x - 1}", "text")'),
        (result, "return self.x <= 2"),
        (result, "return self.x < 3"),
        (result, "return None"),
    } <= changes
    assert not [new for _, new in changes if "XX" in new or ("zip(" in new and "strict=True" not in new)]


@pytest.mark.slow
@pytest.mark.usefixtures("_mutmut")
def test_the_command_tells_what_survives_and_leaves_the_checkout_alone(tmp_path: Path) -> None:
    module = ROOT / "tensorclass" / "support" / "nearest.py"
    before = module.read_bytes()
    paths = [str(ROOT), str(LIBRARIES), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path)}

    def told(old: str, new: str) -> str:
        command = [sys.executable, "-m", "tests.mutate", str(module), "--replace", old, new]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert " 1       0         1    0.0%" in told(
        "from __future__ import annotations\n", "from __future__ import annotations \n"
    )
    first = next(line for line in before.decode().splitlines(keepends=True) if line.startswith("def "))
    assert " 1       1         0  100.0%" in told(first, f"raise KeyError\n{first}")
    assert module.read_bytes() == before
    assert os.listdir(tmp_path) == []
