"""All that the package exports has a type that every checker reads in the same way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing.checkers import NODE, SCRIPTS, Project


@pytest.mark.parametrize("inline", [True, False], ids=["source", "stubs"])
def test_every_exported_symbol_has_a_known_type(tmp_path: Path, inline: bool) -> None:
    project = Project(tmp_path, inline=inline)
    project.install()
    path = f"{project.python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [SCRIPTS / "pyright", "--verifytypes", "tensorclass", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, **NODE, "PATH": path, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)["typeCompleteness"]
    lacking = [
        f"{symbol['name']}: {' '.join(said['message'] for said in symbol['diagnostics'])}"
        for symbol in found["symbols"]
        if symbol["isExported"] and (not symbol["isTypeKnown"] or symbol.get("isTypeAmbiguous"))
    ]
    assert not lacking, "\n".join(lacking)
    assert found["completenessScore"] == 1, sys.version
    assert found["exportedSymbolCounts"]["withKnownType"] > 1000
