"""The site builds without a warning, no link of it is dead, and its pages fit wide and narrow windows.

The docstrings are left out, which take most of the time of a build: ``make docs`` builds all of it, and
``test_reference.py`` checks the links in docstrings.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from tensorclass.support.project_links import SOURCE
from tests.scores.html_report.headless_browser import Browser, browser_command, headless_browser

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("pydata_sphinx_theme")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DASHES, QUOTES = "\N{EN DASH}\N{EM DASH}", "".join(map(chr, range(0x2018, 0x2020)))
WRONG = re.compile(rf"[{DASHES}][A-Za-z]|--[a-z]|\|.*\||python -m |pip install |>>> |``|\*\*[A-Za-z]")


class Piece(NamedTuple):
    """Text of a page, in one element."""

    text: str
    elements: tuple[str, ...]  #: the elements around it
    link: str  #: the address that it leads to

    @property
    def is_code(self) -> bool:
        return not {"code", "pre", "dt"}.isdisjoint(self.elements)


class Page(HTMLParser):
    """A page: its links, the anchors that links may lead to, the cells of its tables, and the text of its article."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.tables: list[list[int]] = []  #: the cells of each row
        self.pieces: list[Piece] = []
        self._open: list[tuple[str, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = ""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                address = value
        if tag not in _VOID:
            self._open.append((tag, address))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in ("td", "th"):
            self.tables[-1][-1] += 1

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        elements = tuple(tag for tag, _ in self._open)
        if "article" not in elements or not data.strip():
            return
        link = next((address for tag, address in reversed(self._open) if tag == "a"), "")
        last = self.pieces[-1] if self.pieces else None
        if last is not None and "pre" in elements and "pre" in last.elements:  # colours are elements
            self.pieces[-1] = last._replace(text=last.text + data)
        else:
            self.pieces.append(Piece(data, elements, link))


_VOID = ("br", "col", "hr", "img", "input", "link", "meta", "path", "source", "wbr")


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


def text_faults(pages: dict[Path, Page]) -> list[str]:
    """Return what markup became by mistake: commands outside of code, rows outside of tables, dashes for hyphens."""
    found = []
    for path, page in pages.items():
        for piece in page.pieces:
            text = " ".join(piece.text.split())
            fault = re.search(f"[{DASHES}{QUOTES}]", text) if piece.is_code else WRONG.search(text)
            if fault:
                found.append(f"{path.name}: {text}")
    return found


def test_commands_are_code_and_rows_are_in_tables(pages: dict[Path, Page]) -> None:
    assert sum(len(page.pieces) for page in pages.values()) > 15_000
    assert text_faults(pages) == []


@pytest.mark.parametrize(
    "article, faults",
    [
        ("<p>run it with \N{EN DASH}data-sets 600</p>", 1),
        ("<p>python -m tests.scores</p><p>from 0 \N{EN DASH} 1, and a--b</p>", 2),
        ("<p><code>x \N{EN DASH}data</code></p><pre>a <span>\N{LEFT SINGLE QUOTATION MARK}b</span></pre>", 2),
        ("<p>| <code>html</code> | text |</p>", 1),
        ("<p>one <code>python -m x --all</code></p><pre>| a | b |</pre><p>10 \N{EN DASH} 20 | 30</p>", 0),
    ],
)
def test_markup_that_went_wrong_is_found(article: str, faults: int, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(f"<article>{article}</article><p>\N{EN DASH}data</p>", encoding="utf-8")
    assert len(text_faults({page: Page(page)})) == faults


def test_rows_of_tables_have_the_cells_of_the_head(pages: dict[Path, Page]) -> None:
    tables = [(path.name, rows) for path, page in pages.items() for rows in page.tables]
    assert len(tables) > 100
    assert [(name, rows) for name, rows in tables if len(set(rows)) > 1] == []


def test_rows_of_sources_have_the_cells_of_the_head() -> None:
    """Markdown drops what a row has more, and fills up what it lacks."""
    sources = [path for path in ROOT.rglob("*.md") if not {".venv", "build", "node_modules"} & {*path.parts}]
    assert len(sources) > 40
    assert [fault for path in sources for fault in row_faults(path.read_text(encoding="utf-8"), path.name)] == []


def row_faults(text: str, name: str) -> list[str]:
    """Return the rows of tables in Markdown that have more or less cells than the head, or stand outside of a table."""
    found, cells = [], 0
    lines = re.sub(r"^( *)(```+|~~~+).*?^\1\2", "", text, flags=re.MULTILINE | re.DOTALL).split("\n")
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        own = len(re.findall(r"(?<!\\)\|", line)) if line.lstrip().startswith("|") else 0
        if re.fullmatch(r"\s*\|( *:?-+:? *\|)+\s*", below):
            cells = own
        if not own:
            cells = 0
        elif own != cells and not line.startswith("    "):
            found.append(f"{name}: {line}")
    return found


def test_a_broken_row_is_found() -> None:
    table = "| a | b |\n| --- | --- |\n| 1 | `x \\| y` |\n"
    assert row_faults(f"{table}\ntext | text\n\n{table}", "") == []
    for broken in ("| 1 |\n", "| 1 | `x | y` |\n", "\n| 1 | 2 |\n", "| 1 | 2\n"):
        assert len(row_faults(table + broken, "")) == 1


_CHECKOUT = re.compile(r"(?<![\w/.-])(benchmarks|examples|tests)/\w|python -m (benchmarks|tests)\b")


def test_files_that_no_wheel_has_are_links_to_the_repository(pages: dict[Path, Page]) -> None:
    """In a block of code, where nothing is a link, they are those of a link on the page."""
    seen, wrong = 0, []
    for path, page in pages.items():
        linked = {piece.link.removeprefix(f"{SOURCE}/").partition("/main/")[2] for piece in page.pieces} - {""}
        for piece in page.pieces:
            if (named := _CHECKOUT.search(piece.text)) is None:
                continue
            seen += 1
            folder = named[1] or named[2]
            of_page = "pre" in piece.elements and any(one.startswith(folder) for one in linked)
            if not (of_page or piece.link.startswith(SOURCE)):
                wrong.append(f"{path.name}: {' '.join(piece.text.split())}")
    assert seen > 40
    assert wrong == []


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
