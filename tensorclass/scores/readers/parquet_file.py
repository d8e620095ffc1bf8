"""Parquet files of scores, read with pyarrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError
from tensorclass.support.extras import require

__all__ = ["ParquetRows"]


class ParquetRows:
    """An open Parquet file.

    Args:
        file: the file, as pyarrow opened it.

    Attributes:
        columns: the names of its columns.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.columns: tuple[str, ...] = tuple(file.schema_arrow.names)

    @classmethod
    @contextmanager
    def of(cls, head: FileHead) -> Generator[ParquetRows, None, None]:
        """Open a file.

        Raises:
            ScoreFileError: it is cut off or damaged.
            MissingExtraError: pyarrow is not installed.
        """
        try:
            parquet = require("pyarrow.parquet", "arrow", f"reading {head.path}")
        except ImportError as error:
            raise MissingExtraError(str(error), name="pyarrow") from None
        try:
            file = parquet.ParquetFile(head.location)
        except (OSError, ValueError) as error:
            raise ScoreFileError(str(head.path), None, f"the Parquet file is cut off or damaged: {error}") from None
        with file:
            yield cls(file)

    def fields(self, column: str) -> tuple[str, ...]:
        """The names of the fields of a structure; empty for another column."""
        kind: Any = self._file.schema_arrow.field(column).type
        return tuple(kind.field(place).name for place in range(kind.num_fields)) if hasattr(kind, "fields") else ()

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """The rows with these columns, each with its number from 1.

        Args:
            columns: names of columns; ``doc.id`` takes one field of a structure.
        """
        number = 0
        for batch in self._file.iter_batches(columns=list(columns)):
            for row in cast("list[Row]", batch.to_pylist()):
                number += 1
                yield number, row
