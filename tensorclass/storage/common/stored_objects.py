"""Objects of a file as text, one each, which are made when they are asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from tensorclass.td.columns import spans as span_functions
from tensorclass.td.columns.text import Text
from tensorclass.td.leaves.object_codes import Deferred, is_immutable

from .collection_tree import FileError, Path, damaged
from .object_json import TAG, decode
from .sealed_json import parse_value


class StoredObjects(Deferred):
    """Objects whose texts lie in arrays.

    Nothing of the arrays is read, or checked, before an object is asked for. An object that can be changed is kept once
    it is made, so that it is the same object each time.

    Args:
        arrays: ``values``, the UTF-8, ``uint8[bytes]``; ``spans``, start and length of each text, ``int64[n, 2]``;
            ``codes``, the number of the text of each row, int64.
        is_json: the texts are the JSON of the objects. Otherwise, they are the objects.
        file: the file, for errors.
        path: the key, for errors.
        allow_pickle: load objects that were pickled.
    """

    __slots__ = (
        "_allow_pickle", "_arrays", "_bytes", "_checks", "_file", "_is_json", "_kept", "_path", "_rows", "kind",
    )  # fmt: skip

    def __init__(
        self, arrays: Mapping[str, Tensor], *, is_json: bool, file: str, path: Path, allow_pickle: bool
    ) -> None:
        super().__init__()
        self.kind: type | None = None if is_json else str
        self._arrays = arrays
        text: Any = arrays["values"].numpy()
        self._bytes = memoryview(text)
        self._rows: Any = arrays["spans"].numpy()
        self._is_json = is_json
        self._file = file
        self._allow_pickle = allow_pickle
        self._path = path
        self._kept: dict[int, Any] = {}  #: objects that can be changed, by position
        self._checks: tuple[Callable[[int, Any], None], ...] = ()

    def __len__(self) -> int:
        return len(self._rows)

    def _one(self, position: int) -> Any:
        if not 0 <= position < len(self._rows):
            raise self._damaged(f"expected codes of its {len(self._rows)} objects")
        if position in self._kept:
            return self._kept[position]
        start, length = self._rows[position].tolist()
        size = len(self._bytes)
        if start < 0 or length < 0 or start > size - length:
            raise self._damaged(
                f"row {position}: expected items within the {size} of the buffer, got start {start} and length {length}"
            )
        try:
            text = bytes(self._bytes[start : start + length]).decode()
        except UnicodeDecodeError as error:
            raise self._damaged(f"row {position}: the bytes are not UTF-8: {error}") from None
        return self._object(position, text)

    def _object(self, position: int, text: str) -> Any:
        """Return the object of a text."""
        value: Any = text
        if self._is_json:
            try:
                value = parse_value(text)
                if TAG in text or "\\u" in text:  # as another program may write the tag
                    value = decode(value, self._allow_pickle)
            except (ValueError, RecursionError) as error:
                raise self._damaged(f"row {position}: {str(error)[:200]}") from None
        for check in self._checks:
            try:
                check(position, value)
            except (TypeError, ValueError) as error:
                raise self._damaged(str(error)) from None
        # two threads get the same object
        return value if is_immutable(value) else self._kept.setdefault(position, value)

    def _all(self) -> tuple[Any, ...]:
        spans, codes = self._arrays["spans"], self._arrays["codes"]
        try:
            if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < len(spans):
                raise ValueError(f"expected codes of its {len(spans)} objects")
            span_functions.check(spans, len(self._bytes), "Text")
            span_functions.check_unshared(spans, len(self._bytes), has_missing=False)
            texts: list[Any] = Text._of(self._arrays["values"], spans)._strings()
        except ValueError as error:
            raise self._damaged(str(error)) from None
        if not self._is_json and not self._checks:
            return tuple(texts)
        kept = self._kept
        return tuple([
            kept[position] if position in kept else self._object(position, text) for position, text in enumerate(texts)
        ])  # fmt: skip

    def _damaged(self, why: str) -> FileError:
        return damaged(self._file, self._path, why)

    def checked(self, check: Callable[[int, Any], None]) -> StoredObjects:
        """Return the objects, each of which is checked when it is made.

        Args:
            check: is called with the position of an object and the object, and raises for one that is wrong.
        """
        for position, value in list(self._kept.items()):
            check(position, value)
        new = self._with_kept(dict(self._kept))
        new._checks = (*self._checks, check)
        return new

    def copied(self, memo: dict[int, Any]) -> StoredObjects:
        """Return deep copies of the objects that were made; the others are made of the file."""
        return self._with_kept({position: copy.deepcopy(value, memo) for position, value in list(self._kept.items())})

    def _with_kept(self, kept: dict[int, Any]) -> StoredObjects:
        new = StoredObjects(
            self._arrays, is_json=self._is_json, file=self._file, path=self._path, allow_pickle=self._allow_pickle
        )
        new._checks = self._checks
        new._kept = kept
        return new
