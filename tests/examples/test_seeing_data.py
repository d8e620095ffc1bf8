"""The notebook runs, and what it shows can be read in a browser, in light and in dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scores.html_report.headless_browser import Browser, browser_command, headless_browser

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The data that each cell with a result shows, by MIME type; what cells print under ``"print"``."""
    notebook = nbformat.read(ROOT / "examples" / "seeing_data.ipynb", 4)
    patch = pytest.MonkeyPatch()
    with patch.context() as set_variables:
        set_variables.setenv("PYTHONPATH", str(ROOT))
        folder = str(tmp_path_factory.mktemp("notebook"))
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    return [
        dict(output.get("data", {})) | ({"print": output["text"]} if output["output_type"] == "stream" else {})
        for cell in notebook.cells
        if cell["cell_type"] == "code"
        for output in cell["outputs"]
    ]


def test_the_notebook_shows_text_tables_and_figures(outputs: list[dict[str, Any]]) -> None:
    record, printed, table, captions, options, figure = outputs
    assert record["text/plain"] == printed["print"].rstrip()
    assert printed["print"].startswith("Photo(batch_size=[500], on cpu, ")
    assert table["text/plain"].startswith("key         dtype          count  nulls  unique ")
    assert "text/html" not in table
    assert captions["text/plain"].startswith("Text(batch_size=[3]")
    assert options["print"].split("\n")[4].startswith("  ... 5 more: label, caption")
    assert figure["image/png"]


def test_what_it_shows_can_be_read_in_light_and_dark(outputs: list[dict[str, Any]], tmp_path: Path) -> None:
    command = browser_command()
    if command is None:
        pytest.skip("no Chromium; Debian: apt-get install chromium")
    shown = outputs[0]["text/html"]
    assert len(shown.encode()) < 100_000
    with headless_browser(command, tmp_path / "profile") as browser:
        for name, background, ink in (("light", "#ffffff", "#111111"), ("dark", "#111111", "#eeeeee")):
            page = tmp_path / f"{name}.html"
            page.write_text(
                f'<!doctype html><meta charset="utf-8"><body style="background:{background};color:{ink}">{shown}',
                encoding="utf-8",
            )
            browser.open(page, width=1000, height=800)
            _check_page(browser, ink)
            browser.screenshot(tmp_path / f"{name}.png", whole=True)
            assert (tmp_path / f"{name}.png").stat().st_size > 10_000
            assert browser.problems == []
            assert all(url.startswith(("file:", "data:")) for url in browser.requests)


def _check_page(browser: Browser, ink: str) -> None:
    assert browser.run("document.querySelectorAll('.tc-repr img').length") == 12
    assert browser.run("[...document.images].every(image => image.naturalWidth === 48)")
    assert browser.run("document.querySelectorAll('.tc-repr b').length") == 1  # captions are no HTML
    rgb = ", ".join(str(int(ink[start : start + 2], 16)) for start in (1, 3, 5))
    assert browser.run("getComputedStyle(document.querySelector('.tc-repr .tc-c')).color") == f"rgb({rgb})"
    score = "document.querySelectorAll('.tc-repr details details')[2]"
    assert browser.run(f"{score}.querySelector('.tc-more').checkVisibility()") is False
    browser.run(f"{score}.querySelector('summary').click()")
    assert browser.run(f"{score}.querySelector('.tc-more').checkVisibility()") is True
    assert browser.run(f"{score}.querySelector('svg').getBoundingClientRect().height") == 44
    assert browser.run("document.documentElement.scrollWidth <= 1000")
    browser.run("document.querySelectorAll('.tc-repr details').forEach(one => one.open = true)")
