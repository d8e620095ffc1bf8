from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import Text
from tensorclass.scores import (
    ExactMatchScoreData,
    Run,
    align,
    compare,
    load_scores,
    read_run,
    save_scores,
    with_texts,
)


def scored(rows: int) -> ExactMatchScoreData:
    return ExactMatchScoreData(
        (torch.arange(rows) % 2).double(),
        prompt=Text([f"prompt {row}" for row in range(rows)]),
        response=Text([None if row == 1 else f"answer {row}" for row in range(rows)]),
        prompt_id=torch.arange(rows),
        batch_size=[rows],
    )


def test_texts_go_with_their_rows(tmp_path: Path) -> None:
    scores = scored(4)
    both = torch.cat(align(scores[:2], scores[2:]))
    assert both.prompt.tolist() == scores.prompt.tolist()
    assert scores[torch.tensor([3, 1])].response.tolist() == ["answer 3", None]
    assert torch.stack([scores, scores]).prompt[1].tolist() == scores.prompt.tolist()
    assert pickle.loads(pickle.dumps(scores)).response.tolist() == scores.response.tolist()
    save_scores(scores, tmp_path / "scores.pt")
    assert load_scores(tmp_path / "scores.pt").response.tolist() == scores.response.tolist()
    save_scores(torch.stack([scores, scores]), tmp_path / "scores.pt")
    assert load_scores(tmp_path / "scores.pt").prompt[1].tolist() == scores.prompt.tolist()


def test_texts_are_no_metrics() -> None:
    scores = scored(4)
    plain = scores.replace(prompt=None, response=None)
    assert scores.aggregate().to_dict() == plain.aggregate().to_dict()
    assert compare(scores, plain).prompts == 4
    with pytest.raises(ValueError, match="prompt: expected texts in each record or in none, got None in some"):
        align(scores, plain)


def test_texts_are_read_again_on_demand(write: Callable[..., Path], log_row: Callable[..., dict[str, Any]]) -> None:
    rows = [log_row(number, {"exact_match": number % 2}, filtered_resps=[f"answer {number}"]) for number in range(3)]
    run = read_run(write("samples_task_2024-01-01T00-00-00.jsonl", rows))
    assert run.scores.prompt is None
    scores = with_texts(run)
    assert [bool(text) for text in scores.prompt.tolist()] == [True] * 3
    assert len(set(scores.response.tolist())) == 3
    torch.testing.assert_close(scores.exact_match, run.scores.exact_match)


def test_runs_without_texts_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected a run whose files hold texts"):
        with_texts(Run("mine", ("mine.csv",), "table", scored(2)))
