"""Files and records that several tests need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PUBLIC = REPOSITORY.parent / "shared" / "data" / "ifeval"

TYPES = ("punctuation:no_comma", "length_constraints:number_words", "keywords:existence")


def reference_row(number: int, verdicts: list[bool], **changes: Any) -> dict[str, Any]:
    """A row as IFEval's reference scorer writes it."""
    return {
        "follow_all_instructions": all(verdicts),
        "follow_instruction_list": verdicts,
        "instruction_id_list": list(TYPES[: len(verdicts)]),
        "prompt": f"prompt {number}",
        "response": "response",
        **changes,
    }


def ifeval_log_row(number: int, strict: list[bool], loose: list[bool], **changes: Any) -> dict[str, Any]:
    """A row of a sample log of lm-evaluation-harness for IFEval."""
    return log_row(
        number,
        {
            "prompt_level_strict_acc": all(strict),
            "inst_level_strict_acc": strict,
            "prompt_level_loose_acc": all(loose),
            "inst_level_loose_acc": loose,
        },
        doc={"key": number, "prompt": f"prompt {number}", "instruction_id_list": list(TYPES[: len(strict)])},
        **changes,
    )


def log_row(number: int, metrics: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A row of a sample log of lm-evaluation-harness."""
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


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (or text) as a file in a fresh folder."""

    def write_file(name: str, rows: Iterable[dict[str, Any]] | str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(rows, bytes):
            path.write_bytes(rows)
        elif isinstance(rows, str):
            path.write_text(rows, encoding="utf-8")
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write_file
