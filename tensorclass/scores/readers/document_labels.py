"""Labels of rows that the caller names: keys of the documents of a sample log, for groups and clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from tensorclass.scores.logged_scores import NAMES_OF
from tensorclass.scores.readers.growing_columns import AnyLabelColumn
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["LABEL_ROLES", "DocumentLabels"]

LABEL_ROLES: Final = ("group", "cluster")
"""The roles that a key of the documents can have."""


class DocumentLabels:
    """The labels of a run.

    Args:
        roles: the key of the documents for ``group`` and for ``cluster``; none of both if there are no labels.
        first: the first row.
        path: the file, for errors.
        number: the line of the first row.

    Raises:
        ScoreFileError: the first document lacks a key.

    Attributes:
        columns: the column of each label, by key.
    """

    def __init__(self, roles: Mapping[str, str], first: Row, path: str, number: int) -> None:
        self._roles = roles
        doc: object = first.get("doc")
        held = list(cast("Row", doc)) if isinstance(doc, dict) else []
        for key in roles.values():
            if key not in held:
                known = ", ".join(map(str, held)) or "none"
                raise ScoreFileError(path, number, f"columns: expected a key of the documents ({known}), got {key!r}")
        self.columns: dict[str, AnyLabelColumn] = {key: AnyLabelColumn(()) for key in roles.values()}

    @property
    def declaration(self) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
        """The labels, groups and cluster of the family."""
        group = self._roles.get("group")
        return tuple(self.columns), () if group is None else (group,), self._roles.get("cluster")

    def values(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """The fields of the record.

        Args:
            fields: the field of each label.
        """
        found: dict[str, Any] = {}
        for key, column in self.columns.items():
            found[fields[key]], found[NAMES_OF + fields[key]] = column.tensor(1), column.vocabulary
        return found
