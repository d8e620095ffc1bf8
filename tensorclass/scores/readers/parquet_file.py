"""Parquet files of scores, read with pyarrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from tensorclass.scores.readers.lines import Row
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError
from tensorclass.support.extras import require

__all__ = ["ParquetRows"]


class ParquetRows:
    """An open Parquet file.

    Args:
        file: the file, as pyarrow opened it.
        name: the file, for errors.

    Attributes:
        columns: the names of its columns.
    """

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self._name = name
        self.columns: tuple[str, ...] = tuple(file.schema_arrow.names)

    @classmethod
    @contextmanager
    def of(cls, path: Path, name: str) -> Generator[ParquetRows, None, None]:
        """Open a file.

        Args:
            path: the file.
            name: the file as the caller named it, for errors.

        Raises:
            ScoreFileError: it is cut off or damaged.
            MissingExtraError: pyarrow is not installed.
        """
        try:
            parquet = require("pyarrow.parquet", "arrow", f"reading {name}")
        except ImportError as error:
            raise MissingExtraError(str(error), name="pyarrow") from None
        try:
            file = parquet.ParquetFile(path)
        except _DAMAGE as error:
            raise _damaged(name, None, error) from None
        with file:
            yield cls(file, name)

    def fields(self, column: str) -> tuple[str, ...]:
        """The names of the fields of a structure; empty for another column."""
        kind: Any = self._file.schema_arrow.field(column).type
        return tuple(kind.field(place).name for place in range(kind.num_fields)) if hasattr(kind, "fields") else ()

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """The rows with these columns, each with its number from 1.

        Args:
            columns: names of columns; ``doc.id`` takes one field of a structure.

        Raises:
            ScoreFileError: the file is damaged, or its values take more memory than there is.
        """
        number = 0
        batches = iter(self._file.iter_batches(_ROWS, columns=list(columns)))
        while True:
            try:
                batch = next(batches, None)
                rows = [] if batch is None else cast("list[Row]", batch.to_pylist())
            except _DAMAGE as error:
                raise _damaged(self._name, number + 1, error) from None
            if batch is None:
                return
            for row in rows:
                number += 1
                yield number, row


_ROWS: Final = 1024  # to read at a time: they may hold long texts
_DAMAGE: Final = (OSError, ValueError, NotImplementedError, OverflowError, MemoryError)


def _damaged(name: str, row: int | None, error: Exception) -> ScoreFileError:
    return ScoreFileError(name, row, f"the Parquet file is cut off or damaged: {' '.join(str(error).split())}")
