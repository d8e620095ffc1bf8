"""Types of arguments that several families of methods share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Literal, TypeAlias

BatchSize: TypeAlias = Sequence[int] | int | None
#: handling of nulls: the default of the field, an error, a zero (nan, ``None``), or that and a mask
Nulls: TypeAlias = Literal["default", "raise", "fill", "mask"]
#: form of lists of numbers: ragged rows (for a field of a tensor, as "jagged"); a tensor, or if their lengths differ, a
#: jagged tensor, a lazy stack of rows, an error
RaggedForm: TypeAlias = Literal["column", "jagged", "lazy", "raise"]
#: a path, a pattern such as ``"part-*.csv"``, several of them, or a file that is open for bytes
TableSource: TypeAlias = str | os.PathLike[str] | IO[bytes] | Sequence[str | os.PathLike[str]]
#: a path, or a file that is open for bytes
Target: TypeAlias = str | os.PathLike[str] | IO[bytes]
