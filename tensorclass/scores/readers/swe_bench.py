"""Reports of SWE-bench: ``MODEL.RUN.json`` with the ids of resolved and other instances.

The lists are ``resolved_ids``, ``unresolved_ids``, ``error_ids``, ``empty_patch_ids``, ``incomplete_ids``,
``completed_ids`` and ``submitted_ids``; in the results of submissions ``resolved``, ``applied``, ``no_generation``,
``no_logs``, ... ``report.json`` of instances maps each id to an object with ``resolved``. All instances count, as on
the leaderboard: one without a patch is not resolved. Source: https://www.swebench.com/SWE-bench/guides/evaluation/ and
https://github.com/SWE-bench/experiments#readme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.json_document import read_document
from tensorclass.scores.readers.lines import OnProgress, Row
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, mapping, verdict
from tensorclass.scores.readers.run import Published, run_name
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "SweBenchReader"]

_REPORT: Final = frozenset(("resolved_ids", "resolved_instances", "completed_ids", "submitted_ids"))
_SUBMISSION: Final = frozenset(("no_generation", "no_logs", "generated", "applied", "with_logs", "install_fail"))
_INSTANCE: Final = re.compile(rb'\s*\{\s*"[^"]+__[^"]+"\s*:\s*\{')


class SweBenchReader(RowReader):
    """Reads reports of SWE-bench."""

    name = "swe_bench"
    description = "a report of SWE-bench (resolved_ids, unresolved_ids, ...)"
    default_task = "swe-bench"

    def recognises(self, head: FileHead) -> bool:
        submission = "resolved" in head.keys and _SUBMISSION & head.keys
        instances = _INSTANCE.match(head.start) is not None and b'"resolved"' in head.start
        return bool(_REPORT & head.keys or submission or instances)

    def is_row(self, row: Row) -> bool:
        return False

    def rows(self, head: FileHead, on_progress: OnProgress | None = None) -> Iterator[tuple[int | None, Row]]:
        report = _report(head)
        lists = {name.removesuffix("_ids"): ids for name in report if (ids := _ids(report, name)) is not None}
        if "resolved" not in lists:
            found = {key: one for key, one in report.items() if "resolved" in mapping(one)}
            if not found:
                raise ScoreFileError(str(head.path), None, "resolved_ids: expected the ids of resolved instances")
            lists = {"reported": list(found), "resolved": [key for key, one in found.items() if _resolved(one)]}
        resolved = set(lists["resolved"])
        for name in dict.fromkeys(sorted(one for ids in lists.values() for one in ids)):
            yield None, {"instance_id": name, "resolved": name in resolved}

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        name: str = row["instance_id"]
        yield ScoredRow(name, {"resolved": row["resolved"]}, labels={"repository": name.rpartition("-")[0]})

    def about(self, head: FileHead, rows: Sequence[GatheredScores]) -> Mapping[str, Any]:
        report, count = _report(head), sum(one.rows for one in rows)
        right, total = report.get("resolved_instances"), report.get("total_instances")
        stem = run_name(head.path)
        is_report = "schema_version" in report and "." in stem
        about: dict[str, Any] = {"model": stem.rpartition(".")[0].replace("__", "/", 1)} if is_report else {}
        missing = [_ids(report, f"{kind}_ids") or [] for kind in ("incomplete", "empty_patch", "error")]
        unfinished = len({one for ids in missing for one in ids})
        notes = [f"{unfinished} of {count} instances without a patch or with an error: not resolved"] * (unfinished > 0)
        if isinstance(right, int) and isinstance(total, int) and total > 0:
            about |= {
                "published": {"resolved": Published(right / total)},
                "may_differ": True,
                "published_in": "the report",
            }
            if total > count:
                notes.append(f"the report names {count} of {total} instances; the others aren't counted")
        return {**about, "notes": tuple(notes), "higher_is_better": {"resolved": True}, "texts": None}


READER = SweBenchReader()


def _report(head: FileHead) -> dict[str, object]:
    return read_document(head.location, dict[str, object], str(head.path))


def _ids(report: Mapping[str, object], name: str) -> list[str] | None:
    """A list of ids; None for another value."""
    found = report.get(name)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in cast("list[object]", found)):
        return None
    return cast("list[str]", found)


def _resolved(instance: object) -> bool:
    try:
        return verdict(mapping(instance).get("resolved"), "resolved") is True
    except FieldError:
        return False
