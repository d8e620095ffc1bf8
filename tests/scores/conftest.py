"""Files that several tests need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]

TYPES = ("punctuation:no_comma", "length_constraints:number_words", "keywords:existence")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def public(data_dir: Path) -> Path:
    """The folder with public results of IFEval; where it is absent, the test is skipped."""
    return data_dir / "ifeval"


@pytest.fixture(scope="session")
def reference_row() -> Callable[..., dict[str, Any]]:
    """Make a row as IFEval's reference scorer writes it."""

    def make(number: int, verdicts: list[bool], **changes: Any) -> dict[str, Any]:
        return {
            "follow_all_instructions": all(verdicts),
            "follow_instruction_list": verdicts,
            "instruction_id_list": list(TYPES[: len(verdicts)]),
            "prompt": f"prompt {number}",
            "response": "response",
            **changes,
        }

    return make


@pytest.fixture(scope="session")
def log_row() -> Callable[..., dict[str, Any]]:
    """Make a row of a sample log of lm-evaluation-harness."""

    def make(number: int, metrics: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return {
            "doc_id": number,
            "doc": {"question": f"question {number}"},
            "target": "1",
            "arguments": {"gen_args_0": {"arg_0": "question"}},
            "resps": [["response"]],
            "filtered_resps": ["response"],
            "filter": "none",
            "metrics": list(metrics),
            "doc_hash": f"{number:064x}",
            "prompt_hash": "0",
            "target_hash": "0",
            **metrics,
            **changes,
        }

    return make


@pytest.fixture(scope="session")
def ifeval_row(log_row: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Make a row of a sample log of lm-evaluation-harness for IFEval."""

    def make(number: int, strict: list[bool], loose: list[bool] | None = None, **changes: Any) -> dict[str, Any]:
        loose = strict if loose is None else loose
        metrics = {
            "prompt_level_strict_acc": all(strict),
            "inst_level_strict_acc": strict,
            "prompt_level_loose_acc": all(loose),
            "inst_level_loose_acc": loose,
        }
        doc = {"key": number, "prompt": f"prompt {number}", "instruction_id_list": list(TYPES[: len(strict)])}
        return log_row(number, metrics, **{"doc": doc, **changes})

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write rows, text or bytes as a file in a fresh folder."""

    def write_file(name: str, content: Iterable[dict[str, Any]] | str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        elif not isinstance(content, bytes):
            content = "".join(json.dumps(row) + "\n" for row in content).encode()
        path.write_bytes(content)
        return path

    return write_file
