"""Every hint of the package is followed: the call that fails says what to do, and what it says works.

``hints.txt`` has a block for a hint::

    give batch_size=
    : data = {"a": torch.ones(3)}
    ! TensorDict(data)[0]
    > TensorDict(data, batch_size=[3])[0]

The first line is a part of the message, ``:`` prepares, ``!`` fails, ``>`` does what the hint says. Lines of one sign
are one program. The last tests find the hints in the sources of the package: a new one needs a block. Those without
one are in ``ELSEWHERE``, with the test that provokes them.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tensorclass

PACKAGE = Path(tensorclass.__file__).parent
TABLE = Path(__file__).with_name("hints.txt")


class Block(NamedTuple):
    """A hint of the table."""

    hint: str
    programs: dict[str, str]
    line: int


def _blocks() -> Iterator[Block]:
    for match in re.finditer(r"^(?![#:!>\s])(.+)\n((?:[:!>].*\n)+)", TABLE.read_text(encoding="utf-8"), re.MULTILINE):
        programs = dict.fromkeys(":!>", "")
        for line in match[2].splitlines():
            programs[line[0]] += line[2:] + "\n"
        yield Block(match[1], programs, TABLE.read_text(encoding="utf-8").count("\n", 0, match.start()) + 1)


BLOCKS = list(_blocks())


def _names() -> dict[str, Any]:
    """Return the names of a module, in which programs can define classes."""
    module = sys.modules["hints"] = types.ModuleType("hints")
    exec(_PRELUDE, module.__dict__)
    return module.__dict__


_PRELUDE = """
import dataclasses, datetime, io, json, os, pickle, sys, collections, typing, warnings
from typing import Annotated, Any, NamedTuple
import numpy as np
import torch
from pathlib import Path
from torch import Tensor, nn
from torch.utils.data import DataLoader
from jaxtyping import Bool, Float, Int
from tensorclass import *
from tensorclass import field
from tensorclass.nn import *

class Row(TensorClass):
    x: Tensor
    t: Text | None = None

def td():
    return TensorDict({"a": torch.arange(3), "b": torch.ones(3, 2), "n": {"c": torch.zeros(3)}}, [3])

def rows():
    return Row(torch.ones(3), Text(["p", "q", "r"]), batch_size=[3])

def texts(error):
    return "".join(f"{one}" for one in (error, error.__cause__) if one is not None)
"""


def _run(block: Block, sign: str, names: dict[str, Any]) -> None:
    """Run a part that works. It may warn of what it leaves out, as ``strict=False`` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exec(compile(block.programs[sign], f"{TABLE.name}:{block.line}", "exec"), names)


def _message(block: Block, names: dict[str, Any]) -> str:
    """Run the part that fails. Return its error, or its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(block.programs["!"], f"{TABLE.name}:{block.line}", "exec"), names)
        except Exception as error:
            told = repr(error.args[0]) if isinstance(error, KeyError) and error.args else ""
            return f"{error}\n{told}\n{''.join(getattr(error, '__notes__', []))}"
    return "\n".join(str(one.message) for one in caught)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.line}-{block.hint[:40]}")
def test_what_a_hint_says_works(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    optional = r"^import (\w+)  # optional(?:, from (\d+) on)?"
    for name, version in re.findall(optional, "".join(block.programs.values()), re.MULTILINE):
        pytest.importorskip(name, minversion=version or None)
    if any("redis.sock" in program for program in block.programs.values()):
        (tmp_path / "redis.sock").symlink_to(request.getfixturevalue("redis_socket"))
    monkeypatch.chdir(tmp_path)
    assert block.programs["!"].strip()
    assert block.programs[">"].strip() not in ("", "pass")
    names = _names()
    _run(block, ":", names)
    assert block.hint in _message(block, names)
    _run(block, ">", names)


# --- the hints in the sources ----------------------------------------------------------------------------------------

_VERBS = (
    "add|annotate|append|ask|assign|call|cast|choose|clone|close|convert|copy|correct|declare|define|derive|drop|fill|give|"
    "import|index|install|iterate|keep|leave|let|load|make|move|name|open|override|pad|pass|pip|print|put|raise|read|reduce|"
    "register|remove|rename|reset|run|save|say|select|send|set|share|start|take|truncate|try|unbind|unlock|use|wrap|write"
)
_EFFECTS = (
    "casts?|converts?|copies|gives?|keeps?|leaves?|loads?|makes?|opens?|reads?|removes?|renames?|replaces?|returns?|rounds?|"
    "fills?|finds?|repeats?|reverses?|says?|takes?|turns?|unpacks?|writes?"
)
#: "give batch_size=", "; use to_dict", ", or leave it out"
_IMPERATIVE = re.compile(
    rf"(?:^|[;:.,(] |\bor )(?!run \{{\}}:)(?:{_VERBS})\b(?!:| \{{\}} (?:is|exceed))(?= )", re.IGNORECASE
)
#: "unsqueeze(0) makes one", "strict=False leaves it out"
_TOOL = re.compile(rf"(?:\w\([^()]*\)|\b\w+=[^\s,;]+|\]) (?:{_EFFECTS})\b")
#: fewer characters than these say nothing by which a message is recognised
_FIXED = 12
#: texts that no error holds: help of commands, pages, generated sources
_NO_ERRORS = ("cli/", "migrate/", "typing/", "scores/html_report/", "compat/__main__.py", "td/printing/html_form.py")


class Hint(NamedTuple):
    """A text of the sources that says what to do, with ``{}`` for what is filled in."""

    file: str
    line: int
    text: str

    def advice(self) -> str:
        """Return the text from what to do on; all of it if little else is fixed."""
        found = [match.start() for match in (_IMPERATIVE.search(self.text), _TOOL.search(self.text)) if match]
        rest = self.text[min(found) :]
        return rest if len(rest.replace("{}", "").strip()) >= _FIXED else self.text

    def is_in(self, message: str) -> bool:
        """Return whether a message has the pieces of the advice, in order."""
        at = 0
        for piece in self.advice().strip(" .,;:()").split("{}"):
            at = message.find(piece, at) + len(piece)
            if at < len(piece):
                return False
        return True


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else _text(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def hints_of(source: str, file: str) -> list[Hint]:
    """Return the texts of a module that say what to do, docstrings aside."""
    tree = ast.parse(source)
    within: set[int] = set()
    found: list[Hint] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            within.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            within.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        text = _text(node) if id(node) not in within else ""
        is_message = text.count(" ") > 1 and "\n    " not in text and "``" not in text
        if is_message and (_IMPERATIVE.search(text) or _TOOL.search(text)):
            found.append(Hint(file, getattr(node, "lineno", 0), text))
    return sorted(found, key=lambda hint: hint.line)


def package_hints() -> list[Hint]:
    found: list[Hint] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith(_NO_ERRORS):
            found += hints_of(path.read_text(encoding="utf-8"), file)
    return found


def test_hints_are_found_in_sources() -> None:
    source = '''
"""Use what is no hint: a docstring."""
def f(x):
    if x: raise ValueError(f"{x}: expected rows; give batch_size={x}")
    note("unsqueeze(0) makes one", "a name: of no use to anybody")
'''
    assert [hint.text for hint in hints_of(source, "")] == [
        "{}: expected rows; give batch_size={}",
        "unsqueeze(0) makes one",
    ]


_SENT = "distributed/messages/test_point_to_point.py::test_what_cannot_be_is_refused_before_anything_is_sent"
_RAY = "distributed/ray/test_runner.py"
_NATIVE = "td/native/test_library_builder.py::test_what_is_missing_is_named"

#: Hints that no block provokes, by their file and a part of their text, and the test that does. They need several
#: processes, a cluster, a GPU, or a system that lacks something.
_MISSING = "scores/test_missing_verdicts.py"
ELSEWHERE = {
    ("compat/import_hook.py", "install before anything imports it"): (
        "compat/test_import_hook.py::test_after_an_import_of_tensordict_it_is_too_late"
    ),
    ("distributed/collectives/rank_tensors.py", "use a group across the mesh"): (
        "distributed/test_dtensor_leaves.py::test_what_cannot_be_done_with_shards_is_said"
    ),
    ("distributed/messages/exchange.py", "make it with torch.distributed.new_group"): (
        "distributed/messages/test_exchange.py::test_a_backend_without_tags_must_be_registered"
    ),
    ("distributed/messages/exchange.py", "exactly one of them"): _SENT,
    ("distributed/messages/exchange.py", "give group= as well"): _SENT,
    ("distributed/messages/point_to_point.py", "clone it first. Nothing was received"): _SENT,
    ("distributed/messages/point_to_point.py", "=True does not wait"): _SENT,
    ("distributed/ray.py", "give retries= to map"): f"{_RAY}::test_what_counts_retries_is_who_runs_the_calls",
    ("distributed/ray.py", "ask for less"): f"{_RAY}::test_workers_are_as_many_as_there_is_room_for",
    ("distributed/ray.py", "annotate it, or give the class"): (
        "distributed/ray/test_datasets.py::test_a_function_without_annotations_is_given_the_class"
    ),
    ("distributed/worker_errors.py", "make a new one, or start the processes anew"): (
        "distributed/collectives/test_collectives.py::test_a_rank_that_hangs_is_named_within_the_time_out"
    ),
    ("nn/cudagraphs.py", "leave assign=True out"): "nn/test_cudagraphs.py::test_the_state_is_that_of_the_module",
    ("nn/cudagraphs.py", "Make another CudaGraphModule for other inputs"): (
        "nn/test_cudagraphs.py::test_a_call_unlike_the_recorded_one_is_an_error"
    ),
    ("pipelines/stage.py", "map_batches(dataset, stage) takes datasets"): (
        "distributed/ray/test_datasets.py::test_a_stage_that_gets_a_dataset_says_what_takes_it"
    ),
    ("scores/leaderboard.py", "leave the leaderboard out"): (
        "scores/test_leaderboard.py::test_battles_are_ranked_by_themselves"
    ),
    ("scores/missing_verdicts.py", "--missing drop leaves them out"): (
        f"{_MISSING}::test_more_than_one_percent_is_an_error_that_names_the_options"
    ),
    ("scores/missing_verdicts.py", "is no share of right answers"): (
        f"{_MISSING}::test_a_figure_that_is_no_share_has_no_wrong_answer"
    ),
    ("scores/missing_verdicts.py", "have other metrics"): (
        f"{_MISSING}::test_prompts_of_runs_with_other_metrics_or_repeats_can_only_be_left_out"
    ),
    ("scores/missing_verdicts.py", "{} hold {}; use --missing drop"): (
        f"{_MISSING}::test_prompts_of_runs_with_other_metrics_or_repeats_can_only_be_left_out"
    ),
    ("scores/readers/alpaca_difficulties.py", "read the annotations of at least {} models"): (
        "scores/readers/test_alpaca_eval.py::test_difficulties_are_estimated_from_ten_models_that_are_read_together"
    ),
    ("scores/readers/inspect_ai.py", "holds no samples"): (
        "scores/readers/test_inspect_ai.py::test_a_log_without_samples_says_what_it_states"
    ),
    ("scores/run_conditions.py", "runs under other conditions"): (
        "scores/test_run_conditions.py::test_all_that_differs_is_told_at_once"
    ),
    ("scores/run_grid.py", "no prompt has a verdict of all models"): (
        f"{_MISSING}::test_models_without_a_prompt_that_all_answered_are_an_error"
    ),
    ("support/folder_locks.py", "write to another folder"): (
        "storage/memmap/test_append.py::test_a_handler_of_signals_that_saves_to_the_folder_of_an_append_is_an_error"
    ),
    ("td/memory/shared_memory.py", "Raise the limit (`ulimit -n`)"): (
        "distributed/test_full_shared_memory.py::test_open_files_that_are_used_up_are_no_lack_of_memory"
    ),
    ("td/memory/shared_memory.py", "Make it larger"): (
        "distributed/test_full_shared_memory.py::test_all_that_takes_shared_memory_raises_the_same_error"
    ),
    ("support/extras.py", "pip install --upgrade"): (
        "support/test_extras.py::test_a_package_that_is_too_old_names_its_version"
    ),
    ("td/native/__init__.py", "build it again with"): (
        "td/native/test_native_library.py::test_a_damaged_library_is_a_warning_or_an_error"
    ),
    ("td/native/library_builder.py", "there is no compiler for C++"): _NATIVE,
    ("td/native/library_builder.py", "there are no headers of Python"): _NATIVE,
}


@functools.cache
def _without_block() -> list[Hint]:
    return [hint for hint in package_hints() if not any(hint.is_in(block.hint) for block in BLOCKS)]


def test_every_hint_has_a_block() -> None:
    found = {
        f"{hint.file}: {hint.text!r}"
        for hint in _without_block()
        if not any(hint.file == file and part in hint.text for file, part in ELSEWHERE)
    }
    assert not found


@pytest.mark.parametrize("file, part", ELSEWHERE)
def test_a_hint_without_a_block_is_provoked_by_another_test(file: str, part: str) -> None:
    assert any(hint.file == file and part in hint.text for hint in _without_block()), "it is gone, or has a block"
    path, _, name = ELSEWHERE[file, part].partition("::")
    assert f"\ndef {name}(" in (TABLE.parent / path).read_text(encoding="utf-8")
