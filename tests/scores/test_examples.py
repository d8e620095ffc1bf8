"""The bundled sample runs and the demo, and what the documentation shows."""

from __future__ import annotations

import doctest
import os
import runpy
import sys
from pathlib import Path

import pytest

from tensorclass.scores import read_runs
from tests import fresh_python


def script(repository: Path, *arguments: object) -> str:
    path = os.pathsep.join([str(repository), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    found = fresh_python.run([*map(str, arguments)], env={**os.environ, "PYTHONPATH": path}, cwd=repository)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


def test_the_bundled_samples_are_what_the_script_makes(repository: Path, tmp_path: Path) -> None:
    script(repository, "examples/make_samples.py", tmp_path)
    bundled = repository / "examples" / "data"
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(bundled))
    for made in tmp_path.iterdir():
        assert made.read_bytes() == (bundled / made.name).read_bytes()


def test_the_bundled_samples_hold_the_same_prompts_in_two_formats(repository: Path) -> None:
    runs = read_runs(sorted((repository / "examples" / "data").iterdir()))
    assert [(run.name, run.format) for run in runs] == [
        ("synthetic-alpha", "ifeval-reference"),
        ("synthetic-beta", "lm-eval"),
    ]
    assert runs[0].scores.prompt_id.tolist() == runs[1].scores.prompt_id.tolist()


def test_the_demo_prints_tables_and_draws_a_plot_all_labelled_synthetic(repository: Path, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "demo.png"
    output = script(repository, "examples/demo.py", picture)
    assert output.startswith("SYNTHETIC DATA")
    assert "synthetic-beta beside synthetic-alpha" in output
    assert "length_constraints:number_words" in output
    assert f"Plot: {picture}" in output
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20_000
    assert os.listdir(picture.parent) == ["demo.png"]


def test_the_example_writes_a_report_labelled_synthetic(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "report.html"
    monkeypatch.setattr(sys, "argv", ["score_report.py", str(page)])
    runpy.run_path(str(repository / "examples" / "score_report.py"), run_name="__main__")
    assert capsys.readouterr().out == f"Report: {page}\n"
    text = page.read_text(encoding="utf-8").replace("<mark>", "").replace("</mark>", "")
    assert "<h1>Synthetic data" in text
    assert "[synthetic response of synthetic-alpha]" in text
    assert "[synthetic response of synthetic-beta]" in text


def test_the_examples_of_the_guide_run(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    failed, tried = doctest.testfile(
        str(repository / "docs" / "scores.md"),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert tried > 10
    assert failed == 0
