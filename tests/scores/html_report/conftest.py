"""Made-up runs, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch

from tensorclass.scores import ExactMatchScoreData, PromptText, Run, write_html_report
from tests.scores.html_report.headless_browser import Browser, browser_command, headless_browser


@dataclass(frozen=True)
class MadeTexts:
    """Texts of a made-up log."""

    model: str
    rows: int
    beginning: str = ""
    prompt: str = "question"

    def __call__(self) -> Iterator[PromptText]:
        for row in range(self.rows):
            prompt = f"{self.beginning}{self.prompt} {row}"
            yield PromptText(row, prompt, f"answer {row} of {self.model}", f"target {row}")


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    """Make a run of verdicts, with texts."""

    def make(
        model: str,
        verdicts: list[float],
        task: str = "sums",
        texts: Callable[[], Iterator[PromptText]] | None = None,
        **attributes: object,
    ) -> Run:
        rows = len(verdicts)
        scores = ExactMatchScoreData(torch.tensor(verdicts), prompt_id=torch.arange(rows), batch_size=[rows])
        texts = texts or MadeTexts(model, rows)
        files = (f"{model}/{task}.jsonl",)
        return Run(model, scores, files, "memory", model=model, task=task, texts=texts, **attributes)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def make_grid(make_run: Callable[..., Run]) -> Callable[[int, int, int], list[Run]]:
    """Make runs of several models on several tasks, drawn at random."""

    def make(models: int, tasks: int, rows: int) -> list[Run]:
        generator = torch.Generator().manual_seed(0)
        return [
            make_run(
                f"maker__model-{model}-instruct",
                (torch.rand(rows, generator=generator) < 0.4 + 0.05 * model).double().tolist(),
                f"mmlu_subject_{task:02}",
            )
            for task in range(tasks)
            for model in range(models)
        ]

    return make


@pytest.fixture(scope="session")
def hard_page(make_grid: Callable[[int, int, int], list[Run]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on ten models and 57 tasks."""
    path = tmp_path_factory.mktemp("hard") / "report.html"
    write_html_report(path, make_grid(10, 57, 12))
    return path


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium; the test is skipped where there is none."""
    command = browser_command()
    if command is None:
        pytest.skip("no Chromium; Debian: apt-get install chromium")
    with headless_browser(command, tmp_path_factory.mktemp("browser")) as started:
        yield started
