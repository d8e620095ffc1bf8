"""Labels of rows that the caller names: keys of the documents of a sample log, for groups and clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from tensorclass.scores.logged_scores import NAMES_OF
from tensorclass.scores.readers.growing_columns import LabelColumn, Misfit, shown
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["LABEL_ROLES", "AnyLabelColumn", "DocumentLabels"]

LABEL_ROLES: Final = ("group", "cluster")
"""The roles that a key of the documents can have."""


class AnyLabelColumn(LabelColumn):
    """A name, number or verdict a row, as the code of its text; -1 where there is none."""

    def add(self, value: object) -> None:
        self._values.append(self._code_of(value))

    def checked(self, values: Sequence[object]) -> Callable[[], None]:
        if not all(value is None or isinstance(value, (str, int, float)) for value in values):
            raise Misfit
        return lambda: self._values.extend(map(self._code_of, values))

    def _code_of(self, value: object) -> int:
        if value is None:
            return -1
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"a name or a number, got {shown(value)}")
        return self.code(str(value))


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
