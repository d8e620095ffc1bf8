"""Types of arguments that several families of methods share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Literal, TypeAlias

BatchSize: TypeAlias = Sequence[int] | int | None
#: handling of missing values
Nulls: TypeAlias = Literal["default", "raise", "fill", "mask"]
#: form of lists of numbers of different lengths
Ragged: TypeAlias = Literal["column", "jagged", "lazy", "raise"]
#: a path, a pattern such as ``"part-*.csv"``, several of them, or a file that is open for bytes
Source: TypeAlias = str | os.PathLike[str] | IO[bytes] | Sequence[str | os.PathLike[str]]
#: a path, or a file that is open for bytes
Target: TypeAlias = str | os.PathLike[str] | IO[bytes]
