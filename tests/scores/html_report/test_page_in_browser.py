"""The page in headless Chromium: what it draws, how it is used with keys, and how it prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tensorclass.scores import PromptText, Run, write_html_report
from tests.scores.html_report.headless_browser import Browser

pytestmark = pytest.mark.xdist_group("browser")

#: the texts of the page whose contrast with what is behind them is below that of WCAG 2.2, 1.4.3 (AA)
FAINT = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => {
    const [r, g, b] = rgb(colour).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (rgb(colour)[3] === 255) return colour;
    }
    return "white";
  };
  const found = {};
  for (const node of document.body.querySelectorAll("*:not(script)")) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    const style = getComputedStyle(node);
    const colour = node instanceof SVGElement ? style.fill : style.color;
    const pair = [luminance(colour), luminance(behind(node))].sort((one, other) => other - one);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) found[`${node.tagName}.${node.className} ${colour} on ${behind(node)}`] = contrast;
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def page(make_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on three models and twelve tasks."""
    verdicts = {"low": [1.0, 0, 0, 0, 0, 0, 0, 0], "high": [1.0] * 7 + [0.0], "middle": [1.0, 1, 1, 0, 1, 0, 0, 0]}
    runs = [
        make_run(model, 5 * [*values[task % 8 :], *values[: task % 8]], f"task_{task:02}")
        for task in range(12)
        for model, values in verdicts.items()
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html_report(path, runs, baseline="low")
    return path


def column(browser: Browser, table: str, number: int) -> list[str]:
    """The text of a column of a table, of the rows that are shown."""
    rows = f"[...document.querySelectorAll('#{table} > tbody > tr:not([hidden])')]"
    found: list[str] = browser.run(f"{rows}.map(row => row.cells[{number}].innerText.split('\\n')[0])")
    return found


def test_the_page_loads_nothing_and_says_nothing_to_the_console(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.problems == []
    assert browser.requests == [page.as_uri()]


def test_a_script_in_a_log_does_not_run(browser: Browser, make_run: Callable[..., Run], tmp_path: Path) -> None:
    attack = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"

    def texts() -> Iterator[PromptText]:
        for row in range(2):
            yield PromptText(row, f"</pre>{attack}{row}", attack, attack)

    path = tmp_path / "report.html"
    runs = [
        make_run(f"{model}{attack}", verdicts, attack, texts=texts)
        for model, verdicts in (("a", [0, 1]), ("b", [1, 1]))
    ]
    write_html_report(path, runs, title="Whole")
    browser.open(path)
    assert browser.run("document.title") == "Whole"
    assert browser.run("document.images.length") == 0
    assert (browser.problems, len(browser.requests)) == ([], 1)


def test_the_policy_stops_a_script_that_got_onto_the_page(browser: Browser, page: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    attack = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script></body>"
    path.write_text(page.read_text(encoding="utf-8").replace("</body>", attack), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.title") == "Evaluation scores"
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_a_column_sorts_with_the_keyboard_and_says_so(browser: Browser, page: Path) -> None:
    browser.open(page)
    original = column(browser, "tasks-table", 2)
    browser.run("document.querySelector('#tasks-table thead th:nth-child(3) button').focus()")
    state = "document.querySelector('#tasks-table thead th:nth-child(3)').getAttribute('aria-sort')"
    assert browser.run(state) == "none"
    for expected in ("descending", "ascending"):
        browser.press("Enter")
        assert browser.run(state) == expected
        numbers = [float(text.split("\N{BLACK UP-POINTING TRIANGLE}")[0]) for text in column(browser, "tasks-table", 2)]
        assert numbers == sorted(numbers, reverse=expected == "descending")
    assert browser.run("document.querySelectorAll('#tasks-table th[aria-sort=ascending]').length") == 1
    browser.press("Enter")
    assert column(browser, "tasks-table", 2) == original


def test_the_filter_shows_the_rows_with_all_words_and_counts_them(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.querySelector('#tasks input[type=search]').focus()")
    for key in "sk_1":
        browser.press(key)
    assert column(browser, "tasks-table", 0) == ["task_10", "task_11"]
    assert browser.run("document.querySelector('#tasks output').textContent") == "2 of 12 tasks"
    assert browser.run("document.querySelector('#tasks output').ariaLive") == "polite"


def test_intervals_of_a_matrix_can_be_hidden(browser: Browser, page: Path) -> None:
    browser.open(page)
    height = "document.querySelector('#tasks-table .range').offsetHeight"
    assert browser.run(height) > 0
    browser.run("document.querySelector('#tasks input[type=checkbox]').click()")
    assert browser.run(height) == 0


def test_prompts_are_chosen_by_model_task_change_and_text(browser: Browser, page: Path) -> None:
    browser.open(page)
    shown = "document.querySelectorAll('#prompts-list > li:not([hidden])').length"
    everything = browser.run(shown)
    assert everything == browser.run("document.querySelectorAll('#prompts-list > li').length") > 0
    choose = """
        ((label, value) => {
          const select = [...document.querySelectorAll("#prompts label")].find((one) =>
            one.firstChild.textContent === label).querySelector("select");
          select.value = value;
          select.dispatchEvent(new Event("change"));
        })
    """
    browser.run(f"{choose}('Model', 'middle')")
    of_model = browser.run(shown)
    browser.run(f"{choose}('Task', 'task_03')")
    of_task = browser.run(shown)
    assert everything > of_model > of_task > 0
    assert browser.run("document.querySelector('#prompts output').textContent") == f"{of_task} of {everything} prompts"
    browser.run("document.querySelector('#prompts input[type=search]').focus()")
    for key in "nowhere":
        browser.press(key)
    assert browser.run(shown) == 0


def test_texts_open_with_the_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.querySelector('#prompts-list summary').focus()")
    browser.press("Enter")
    text = browser.run("document.querySelector('#prompts-list details[open] .texts').innerText")
    assert "Prompt" in text
    assert "Response of high" in text


def test_the_tab_key_reaches_the_tables_and_the_focus_can_be_seen(browser: Browser, page: Path) -> None:
    browser.open(page)
    reached: list[str] = []
    for _ in range(12):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.className || document.activeElement.innerText"))
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached[0] == "skip"
    assert "scroll" in reached
    assert "model" in reached


def test_a_screen_reader_finds_names_of_tables_and_controls(browser: Browser, page: Path) -> None:
    browser.open(page)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
    ]
    roles = {role for role, _ in named}
    assert {"banner", "navigation", "main", "contentinfo", "table", "columnheader", "rowheader"} <= roles
    wanted = ("table", "region", "searchbox", "combobox", "checkbox", "navigation", "button")
    assert [role for role, name in named if role in wanted and not name.strip()] == []
    assert ("searchbox", "Filter tasks") in named
    headings = browser.run("[...document.querySelectorAll('h1,h2,h3')].map(node => Number(node.tagName[1]))")
    assert headings[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(headings))


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out_from_what_is_behind_them(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(15, 19, 24)" if dark else "rgb(255, 255, 255)")
    assert browser.run(FAINT) == {}


def test_marks_in_a_column_out_of_sight_do_not_widen_the_page(
    browser: Browser, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    runs = [
        make_run(f"model-{number}", [1.0] * (60 - 4 * number) + [0.0] * 4 * number, task)
        for task in ("sums", "words")
        for number in range(10)
    ]
    write_html_report(tmp_path / "report.html", runs, baseline="model-0", texts=False)
    browser.open(tmp_path / "report.html", width=390)
    assert "worse than" in browser.run("document.querySelector('#tasks-table tbody tr').lastChild.textContent")
    assert browser.run("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_is_as_wide_as_the_window_and_tables_scroll_by_themselves(
    browser: Browser, hard_page: Path, width: int
) -> None:
    browser.open(hard_page, width=width)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []
    if width == 1400:  # all columns are in sight
        for section in ("leaderboard", "tasks", "comparison"):
            region = f"document.querySelector('#{section} .scroll')"
            assert browser.run(f"{region}.scrollWidth <= {region}.clientWidth")


def test_a_name_without_places_to_break_does_not_widen_the_page(
    browser: Browser, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    runs = [make_run(f"{model}{'w' * 300}", verdicts, "t" * 300) for model, verdicts in (("a", [0, 1]), ("b", [1, 1]))]
    write_html_report(path, runs, title="x" * 300)
    browser.open(path, width=390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelector('#leaderboard-table tbody th').offsetWidth") < 200


def test_on_paper_tables_are_whole_and_controls_are_gone(browser: Browser, hard_page: Path) -> None:
    browser.open(hard_page, width=1031)  # A4 across, within its margins
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.run("document.documentElement.scrollWidth") <= 1031
        assert browser.run("document.querySelector('#tasks .scroll').clientHeight") > 57 * 15
        assert (
            browser.run("document.querySelector('.controls').offsetHeight + document.querySelector('nav').offsetHeight")
            == 0
        )
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.pdf().startswith(b"%PDF-")
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_without_its_script_the_page_is_complete(browser: Browser, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.querySelectorAll('button, input, select').length") == 0
    assert len(column(browser, "tasks-table", 0)) == 12
    assert browser.run("document.querySelector('#tasks-table .range').offsetHeight") > 0
