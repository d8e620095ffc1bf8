"""The page: what it holds, and that nothing from a log becomes markup."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tensorclass import field
from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    MacroF1,
    Mean,
    PromptText,
    Published,
    Run,
    ScoreData,
    codes,
    leaderboard,
    metric,
    ragged,
    write_html_report,
)
from tensorclass.scores.model_names import short_names

pytestmark = pytest.mark.xdist_group("browser")  # where the page of many models is made as well

VOID = ("br", "col", "input", "meta", "wbr")


class Page(HTMLParser):
    """A page whose tags must match: elements by tag, ids, and the text of tables row by row."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._open: list[str] = []
        self._table: list[list[str]] = []
        self.feed(self.html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += tag != "mark"  # their number depends on the texts
        self.attributes += attrs
        named = dict(attrs)
        if (id_ := named.get("id")) is not None:
            self.ids.append(id_)
        if tag == "table":
            self._table = self.tables[named["id"] or ""] = []
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            return
        self.text.append(data)
        if ("td" in self._open or "th" in self._open) and "caption" not in self._open:
            self._table[-1][-1] += data

    @property
    def shown(self) -> str:
        return " ".join("".join(self.text).split())


@pytest.fixture
def write_page(tmp_path: Path) -> Callable[..., Page]:
    def write(runs: list[Run], **options: object) -> Page:
        path = tmp_path / "report.html"
        write_html_report(path, runs, **options)  # type: ignore[arg-type]
        return Page(path)

    return write


def test_the_figures_are_those_of_the_leaderboard(
    make_grid: Callable[[int, int, int], list[Run]], write_page: Callable[..., Page]
) -> None:
    runs = make_grid(3, 4, 40)
    page, board = write_page(runs), leaderboard(runs)
    rows = page.tables["leaderboard-table"][1:]
    short = short_names(board.models)
    assert [row[1] for row in rows] == [f"{short[model]}{model}" for model in board.models]
    assert [row[2] for row in rows] == [f"{100 * float(board.macro[model].value):.2f} %" for model in board.models]
    assert [row[-3] for row in rows] == [board.letters[model] for model in board.models]
    assert [row[-2:] for row in rows] == [["160", "0"]] * 3
    matrix = page.tables["tasks-table"]
    assert matrix[0][2:] == [short[model] for model in board.models]
    for task, row in zip(board.tasks, matrix[1:], strict=False):
        assert row[0] == task
        assert [cell.split("[")[0] for cell in row[2:]] == [
            f"{100 * float(board.figures[task][model].value):.2f}" for model in board.models
        ]
    assert len(page.tables["comparison-table"]) == 1 + 3
    assert len(page.tables["comparison-tasks-table"]) == 1 + 3 * 4


def test_the_same_runs_give_the_same_page(
    make_grid: Callable[[int, int, int], list[Run]], write_page: Callable[..., Page]
) -> None:
    assert write_page(make_grid(2, 2, 20)).html == write_page(make_grid(2, 2, 20)).html


def test_nothing_is_loaded_and_the_policy_names_the_script_and_the_style_sheet(
    make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    page = write_page([make_run("a", [0, 1]), make_run("b", [1, 1])])
    assert page.tags["script"] == page.tags["style"] == 1
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert not [name for name, _ in page.attributes if name in ("src", "style") or name.startswith("on")]
    assert {value[0] for name, value in page.attributes if name == "href" and value} == {"#"}
    (policy,) = (value or "" for name, value in page.attributes if name == "content" and "default-src" in (value or ""))
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.html, re.DOTALL)
        assert f"{tag}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy


def test_ids_are_unique_and_links_lead_to_them(
    make_grid: Callable[[int, int, int], list[Run]], write_page: Callable[..., Page]
) -> None:
    page = write_page(make_grid(2, 3, 20))
    assert len(page.ids) == len(set(page.ids))
    targets = {(value or "").removeprefix("#") for name, value in page.attributes if name == "href"}
    targets |= {value or "" for name, value in page.attributes if name == "aria-labelledby"}
    assert targets - set(page.ids) == set()


HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "\" onmouseover=alert(1) x='",
    "<img src=x onerror=alert(1)>",
    "</style></title></textarea></pre><svg onload=alert(1)>",
    "<!--",
    "]]><a href=javascript:alert(1)>",
    "\x1b[31m\u202e\x00\ud800",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_texts_stay_text(
    name: str, make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    def texts() -> Iterator[PromptText]:
        for row in range(3):
            yield PromptText(row, f"{name} {row}", name, name)

    runs = [
        make_run(
            f"{model}{name}",
            verdicts,
            f"{task}{name}",
            texts=texts,
            notes=(name,),
            left_out=(name,),
            ignored=(f"figure {name}",),
            filter=name,
            published={"exact_match": Published(0.5), name: Published(0.1, 0.2)},
        )
        for task in ("one", "two")
        for model, verdicts in (("a", [0.0, 1, 1]), ("b", [1.0, 1, 0]))
    ]
    page = write_page(runs, title=name, baseline=f"a{name}")
    harmless = write_page(
        [
            make_run(
                f"{model}-",
                verdicts,
                f"{task}-",
                notes=("-",),
                left_out=("-",),
                ignored=("figure -",),
                filter="-",
                published={"exact_match": Published(0.5), "-": Published(0.1, 0.2)},
            )
            for task in ("one", "two")
            for model, verdicts in (("a", [0.0, 1, 1]), ("b", [1.0, 1, 0]))
        ],
        title="-",
        baseline="a-",
    )
    for tag in ("wbr", "small"):  # where names may be broken, and beside short names
        del page.tags[tag], harmless.tags[tag]
    assert page.tags == harmless.tags
    assert not [found for found, _ in page.attributes if found in ("src", "style") or found.startswith("on")]


def test_groups_and_all_figures_are_in_the_breakdown(write_page: Callable[..., Page]) -> None:
    def run(model: str, verdicts: list[list[bool]]) -> Run:
        scores = IFEvalScoreData(
            prompt_level_strict_acc=torch.tensor([all(one) for one in verdicts]),
            inst_level_strict_acc=ragged(verdicts),
            instruction_id=torch.tensor([[0, 1], [1, -1]]),
            instruction_types=("a:first", "b:second"),
            batch_size=[2],
        )
        return Run(model, scores, (), "memory", model=model, task="ifeval")

    page = write_page([run("old", [[True, False], [True]]), run("new", [[True, True], [True]])])
    assert [row[0] for row in page.tables["figures-table"][1:]] == ["prompt_level_strict_acc", "inst_level_strict_acc"]
    assert [row[0] for row in page.tables["groups-0-table"][1:]] == ["a", "a:first", "b", "b:second"]
    assert page.tables["groups-0-table"][4][1] == "2"
    assert "difference" in page.tables["groups-0-table"][0]


def test_notes_left_out_and_published_figures_are_shown(
    make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    run = make_run(
        "a",
        [0, 1, 1, 1],
        notes=("another filter",),
        left_out=("bleu: a corpus metric",),
        ignored=("rouge", "bleu"),
        published={"exact_match": Published(0.5, 0.25), "bleu": Published(31.0)},
    )
    page = write_page([run])
    for sentence in ("another filter", "Left out: bleu: a corpus metric", "Not read: rouge a", "a/sums.jsonl"):
        assert sentence in page.shown
    assert page.tables["published-table"][1:] == [
        ["a", "sums", "exact_match", "50.00 %", "75.00 %", "+25.00 %", "25.00 %", "25.00 %"],
        ["a", "sums", "bleu", "31 ", "-", "-", "-", "-"],
    ]


def test_one_model_has_no_comparison_and_no_prompts(
    make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    page = write_page([make_run("a", [0, 1, 1, 1])])
    assert {"leaderboard", "breakdown", "sources"} <= set(page.ids)
    assert not {"tasks", "comparison", "prompts"} & set(page.ids)


def test_one_model_has_its_intervals_drawn(make_run: Callable[..., Run], write_page: Callable[..., Page]) -> None:
    page = write_page([make_run("a", [0, 1, 1, 1], "sums"), make_run("a", [0, 1, 0, 1], "words")])
    assert page.html.split('<table id="tasks-table"')[1].split("</table>")[0].count('<svg class="interval"') == 3
    assert page.tables["leaderboard-table"][0][0] == "model"
    assert "a: macro average 62.50 %" in page.shown


def test_groups_of_tasks_have_averages(make_run: Callable[..., Run], write_page: Callable[..., Page]) -> None:
    groups = {"some": ("sums", "words"), "all": ("sums", "words", "names"), "one": ("sums",)}
    runs = [
        make_run(model, verdicts, task, groups=groups)
        for model in ("a", "b")
        for task, verdicts in (("sums", [0.0] * 4 + [1.0] * 4), ("words", [1.0] * 4), ("names", [0.0] * 4))
    ]
    page = write_page(runs)
    rows = [[row[0], *(cell.split("[")[0] for cell in row[2:])] for row in page.tables["task-groups-table"][1:]]
    assert rows == [
        ["somemacro average of 2 tasks", "75.00", "75.00"],
        ["somemicro average of 2 tasks", "66.67", "66.67"],
    ]


def test_a_figure_of_all_rows_leaves_prompts_to_one_that_scores_them(write_page: Callable[..., Page]) -> None:
    class Labelled(ScoreData):
        label: Tensor | None = field(default=None, metadata=metric(MacroF1("target")))
        target: Tensor | None = field(default=None, metadata=metric())
        acc: Tensor | None = None

    def run(model: str, labels: list[int]) -> Run:
        label, target = torch.tensor(labels), torch.tensor([0, 1, 0, 1, 0, 1])
        scores = Labelled(label=label, target=target, acc=(label == target).double(), batch_size=[6])
        return Run(model, scores, (), "memory", model=model, task="labels")

    page = write_page([run("old", [0, 1, 0, 1, 1, 0]), run("new", [0, 1, 0, 1, 0, 0])], resamples=100)
    assert "has the best macro_f1" in page.shown
    assert "acc 100 → 0 %" in page.shown


def test_runs_of_two_families_are_shown_without_a_comparison_of_all_figures(write_page: Callable[..., Page]) -> None:
    class Other(ScoreData):
        exact_match: Tensor | None = None

    verdicts = torch.tensor([0.0, 1, 1])
    runs = [
        Run("a", ExactMatchScoreData(exact_match=verdicts, batch_size=[3]), (), "memory", model="a", task="sums"),
        Run("b", Other(exact_match=1 - verdicts, batch_size=[3]), (), "memory", model="b", task="sums"),
    ]
    page = write_page(runs)
    assert len(page.tables["comparison-table"]) == 2
    assert "difference" not in page.tables["figures-table"][0]


def test_models_without_a_common_task_are_shown_without_a_leaderboard(
    make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    runs = [make_run("a", [0, 1], "sums"), make_run("b", [1, 1], "words")]
    page = write_page(runs)
    assert "No task has runs of all models" in page.shown
    assert [row[0] for row in page.tables["figures-table"][1:]] == ["sums: exact_match", "words: exact_match"]
    assert page.tables["figures-table"][1][-1] == "-"
    with pytest.raises(ValueError, match="expected a task that all models have"):
        write_page(runs, baseline="a")


def test_models_that_are_not_ranked_are_in_the_breakdown(
    make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    class Timed(ScoreData):
        latency: Tensor | None = None

    scores = Timed(latency=torch.ones(2), prompt_id=torch.arange(2), batch_size=[2])
    timed = Run("c", scores, (), "memory", model="c", task="mixed")
    runs = [make_run(model, [0, 1], task) for task in ("sums", "mixed") for model in ("a", "b")]
    page = write_page([*runs, timed])
    assert [row[1] for row in page.tables["leaderboard-table"][1:]] == ["a", "b"]
    assert page.tables["figures-table"][0][2:5] == ["a", "b", "c"]
    assert [row[0] for row in page.tables["figures-table"][1:]] == [
        "sums: exact_match",
        "mixed: exact_match",
        "mixed: latency",
    ]


def test_of_many_groups_the_largest_are_shown(write_page: Callable[..., Page]) -> None:
    class Grouped(ScoreData):
        acc: Tensor | None = field(default=None, metadata=metric(Mean(by="group")))
        group: Tensor | None = field(default=None, metadata=codes("group_names"))
        group_names: tuple[str, ...] | None = None

    group = torch.cat([torch.arange(301), torch.arange(1, 301)])  # the first group has one row, all others two
    names = tuple(f"group {number}" for number in range(301))
    scores = Grouped(acc=torch.ones(601), group=group, group_names=names, batch_size=[601])
    page = write_page([Run("a", scores, (), "memory", model="a", task="sums")])
    shown = [row[0] for row in page.tables["groups-0-table"][1:]]
    assert len(shown) == 300
    assert "group 0" not in shown
    assert "The 300 largest of 301 groups" in page.shown


def test_many_notes_are_in_a_fold(make_run: Callable[..., Run], write_page: Callable[..., Page]) -> None:
    few, many = (write_page([make_run("a", [0, 1], notes=tuple(map(str, range(count))))]) for count in (12, 13))
    assert "Notes: " not in few.shown
    assert "Notes: 13" in many.shown


def test_marks_tell_which_tasks_differ_from_the_baseline(
    make_run: Callable[..., Run], write_page: Callable[..., Page]
) -> None:
    worse, better = [0.0] * 30 + [1.0] * 30, [1.0] * 60
    runs = [
        make_run("old", worse, "sums"),
        make_run("new", better, "sums"),
        make_run("old", better, "words"),
        make_run("new", worse, "words"),
        make_run("old", worse, "names"),
        make_run("new", worse, "names"),
    ]
    page = write_page(runs, baseline="old")
    rows = {row[0]: row for row in page.tables["tasks-table"][1:]}
    column = page.tables["tasks-table"][0].index("new")
    assert "better than the baseline" in rows["sums"][column]
    assert "worse than the baseline" in rows["words"][column]
    assert "baseline" not in rows["names"][column]
    assert "old baseline" in page.shown


def test_without_texts_prompts_are_listed_by_row(make_run: Callable[..., Run], write_page: Callable[..., Page]) -> None:
    runs = [make_run("a", [0, 1, 1]), make_run("b", [1, 1, 1])]
    with_texts, without = write_page(runs), write_page(runs, texts=False)
    assert "answer 0 of b" in with_texts.shown
    assert "answer 0 of b" not in without.shown
    assert "left out on request" in without.shown
    assert "sums, row 1" in without.shown


def test_ten_models_on_57_subjects_make_a_page_of_moderate_size(hard_page: Path) -> None:
    page = Page(hard_page)
    assert len(page.html) < 1_600_000
    assert len(page.tables["comparison-tasks-table"]) == 1 + 600
    assert "of 2,565; the others are left out here" in page.shown
    assert page.html.count("<li data-model=") == 200
    assert re.search(r"200 of [\d,]+ are shown", page.shown)


def test_an_error_leaves_the_old_page(make_run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="baseline: expected one of the models"):
        write_html_report(path, [make_run("a", [0, 1])], baseline="b")
    with pytest.raises(ValueError, match="prompts: expected a number of at least 0, got -1"):
        write_html_report(path, [make_run("a", [0, 1])], prompts=-1)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_the_wheel_holds_the_style_sheet_and_the_script(repository: Path) -> None:
    import tensorclass.scores.html_report as package

    folder = Path(package.__file__).parent
    held = {path.name for path in folder.iterdir() if path.suffix not in (".py", ".pyc")}
    assert held - {"__pycache__"} == {"README.md", "report.css", "report.js"}
    settings = (repository / "pyproject.toml").read_text()
    wheel = settings.split("[tool.hatch.build.targets.wheel]")[1].split("\n[")[0]
    assert '"tensorclass"' in wheel  # hatch takes every file of the folder that git does not ignore
    assert "exclude" not in wheel
    assert not re.search(r"\*\.(css|js)", (repository / ".gitignore").read_text())
