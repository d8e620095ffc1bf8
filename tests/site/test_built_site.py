"""The site builds without a warning, no link of it is dead, and its pages fit wide and narrow windows.

The docstrings are left out, which take most of the time of a build: ``make docs`` builds all of it, and
``test_reference.py`` checks the links in docstrings.
"""

from __future__ import annotations

import io
import sys
import warnings
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.scores.html_report.headless_browser import Browser, browser_command, headless_browser

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("pydata_sphinx_theme")

DOCS = Path(__file__).parents[2] / "docs"


class Page(HTMLParser):
    """The links of a page and the anchors that links may lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    folder = tmp_path_factory.mktemp("site")
    said = io.StringIO()
    path = list(sys.path)
    with warnings.catch_warnings(), patch_docutils(DOCS), docutils_namespace():
        warnings.simplefilter("ignore")  # of Sphinx and its extensions, for their authors
        app = Sphinx(
            DOCS,
            DOCS,
            folder / "html",
            folder / "doctrees",
            "html",
            confoverrides={"nitpicky": True, "reference_docstrings": False},
            status=None,
            warning=said,
        )
        app.build()
    sys.path[:] = path
    assert said.getvalue() == ""
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = browser_command()
    if command is None:
        pytest.skip("no Chromium; Debian: apt-get install chromium")
    with headless_browser(command, tmp_path_factory.mktemp("browser")) as started:
        yield started


def test_every_page_of_the_folder_is_built(pages: dict[Path, Page], site: Path) -> None:
    sources = [path for suffix in ("md", "rst") for path in DOCS.rglob(f"*.{suffix}") if path.parent.name[0] != "_"]
    built = {str(path.relative_to(site).with_suffix("")) for path in pages}
    assert len(sources) > 50
    assert {str(path.relative_to(DOCS).with_suffix("")) for path in sources} - built == set()


def dead_links(pages: dict[Path, Page]) -> list[str]:
    """Return the links to files and anchors that are not there, with the name of the page."""
    dead = []
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            anchor = unquote(target.fragment)
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].anchors):
                dead.append(f"{path.name}: {link}")
    return dead


def test_no_internal_link_is_dead(pages: dict[Path, Page]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 3_000
    assert dead_links(pages) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text('<a href="b.html">b</a> <a href="#here">x</a> <h1 id="there">x</h1> <a href="a.html#there">x</a>')
    assert dead_links({page: Page(page)}) == ["a.html: b.html", "a.html: #here"]


def test_other_sites_can_link_to_members_by_each_class_that_has_them(site: Path) -> None:
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)
    names = {line.split(" ")[0] for line in zlib.decompress(inventory[4]).decode().splitlines()}
    for name in ("TensorDict.reshape", "TensorClass.reshape", "TensorClass.zeros", "Text.split", "stack", "td.stack"):
        assert f"tensorclass.{name}" in names


def test_nothing_is_loaded_from_other_sites(pages: dict[Path, Page], site: Path) -> None:
    """Pages work without a network: scripts, styles and pictures are their own."""
    for path in (site / "index.html", site / "reference" / "records.html"):
        text = path.read_text(encoding="utf-8")
        assert 'src="http' not in text
        assert '<link rel="stylesheet" href="http' not in text


def test_the_search_finds_guides_and_names(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    for found in ('"tutorial"', '"reference/rows-by-value"', '"reshape"', '"from_parquet"'):
        assert found in index


@pytest.mark.parametrize("page", ["index", "records", "storage", "reference/field-types", "reference/arithmetic"])
@pytest.mark.parametrize("width", [1400, 390])
def test_a_page_fits_its_window(site: Path, browser: Browser, page: str, width: int) -> None:
    browser.open(site / f"{page}.html", width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []
    assert all(url.startswith(("file:", "data:")) for url in browser.requests)


def test_a_search_shows_results(site: Path, browser: Browser) -> None:
    browser.open(site / "search.html")
    browser.run("Search.setIndex ? 1 : 0")
    browser.run("Search.performSearch('reshape')")
    results = browser.run(
        "new Promise(done => { const look = () => document.querySelectorAll('#search-results li a').length"
        " ? done([...document.querySelectorAll('#search-results li a')].map(a => a.textContent))"
        " : setTimeout(look, 20); look(); })"
    )
    assert any("reshape" in result for result in results)


def test_light_and_dark_differ(site: Path, browser: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(site / "index.html")
    light = browser.run(background)
    browser.open(site / "index.html", dark=True)
    assert browser.run(background) != light
    assert browser.run("getComputedStyle(document.querySelector('img.only-light')).display") == "none"
