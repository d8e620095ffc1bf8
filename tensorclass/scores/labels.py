"""Names as integer codes: how a tensor field says which of a few types each value belongs to.

The codes are in a tensor field, their names in a plain field beside it (the vocabulary: code ``i`` means
``names[i]``; negative codes are padding). Records with the same vocabulary keep it once. Where records with different
ones were stacked or concatenated, the plain field holds a vocabulary for each position; then the codes are translated
into one common vocabulary before they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vocabulary", "common_codes", "is_vocabulary", "label_number", "merge", "text_hash", "translate"]

Vocabulary: TypeAlias = tuple[str, ...]


def text_hash(text: str) -> int:
    """A number for a text, the same in every run and on every machine: 64 bits of BLAKE2b (RFC 7693) of its UTF-8.

    Example:
        >>> text_hash("Write a poem.") == text_hash("Write a poem."), text_hash("a") == text_hash("b")
        (True, False)
    """
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def label_number(name: str) -> float:
    """A number for a label, the same in every run: 53 bits of :func:`text_hash`, which float64 holds.

    Example:
        >>> label_number("yes") == label_number("yes"), label_number("yes") == label_number("no")
        (True, False)
    """
    return float(text_hash(name) >> 11)


def is_vocabulary(names: object) -> TypeGuard[Sequence[str]]:
    """Return whether ``names`` is one vocabulary, rather than one for each position."""
    if not isinstance(names, (tuple, list)):
        return False
    return all(isinstance(name, str) for name in cast("Sequence[object]", names))


def merge(vocabularies: Iterable[Sequence[str]]) -> Vocabulary:
    """One vocabulary with all names, in the order of first occurrence.

    Example:
        >>> merge([("a", "b"), ("a", "c")])
        ('a', 'b', 'c')
    """
    return tuple(dict.fromkeys(name for names in vocabularies for name in names))


def translate(codes: NDArray[np.int64], old: Sequence[str], new: Sequence[str]) -> NDArray[np.int64]:
    """Codes of the vocabulary ``old`` as codes of ``new``, which holds all its names; padding becomes -1.

    Example:
        >>> translate(np.array([0, 1, -1]), ("a", "b"), ("b", "a")).tolist()
        [1, 0, -1]
    """
    if codes.size and codes.max() >= len(old):
        raise ValueError(
            f"expected codes below {len(old)}, the number of names ({', '.join(map(repr, old[:3]))}, ...), "
            f"got {int(codes.max())}"
        )
    place = {name: code for code, name in enumerate(new)}
    table = np.array([*(place[name] for name in old), -1], dtype=np.int64)
    return table[np.where(codes < 0, len(old), codes)]


def common_codes(
    codes: NDArray[np.int64], names: object, batch_shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], Vocabulary]:
    """Translate codes into one vocabulary, if ``names`` holds one for each position.

    Args:
        codes: ``[*batch, ...]``.
        names: a tuple of names; nested lists of such tuples in the shape of the batch; or None, when the codes
            themselves are the names.
        batch_shape: the batch dimensions of ``codes``.

    Example:
        >>> codes, names = common_codes(np.array([[0], [0]]), [("a",), ("b",)], (2,))
        >>> codes.tolist(), names
        ([[0], [1]], ('a', 'b'))
    """
    if names is None:
        count = int(codes.max(initial=-1)) + 1
        return np.maximum(codes, -1), tuple(str(code) for code in range(count))
    if is_vocabulary(names):
        vocabulary: Vocabulary = tuple(names)
        return translate(codes, vocabulary, vocabulary), vocabulary
    each = _flatten(names, len(batch_shape))
    vocabulary = merge(each)
    rows = np.reshape(codes, (len(each), -1))
    translated = np.empty_like(rows)
    for kind in dict.fromkeys(each):
        positions = [position for position, own in enumerate(each) if own == kind]
        translated[positions] = translate(rows[positions], kind, vocabulary)
    return np.reshape(translated, codes.shape), vocabulary


def _flatten(names: object, depth: int) -> list[Vocabulary]:
    level: list[object] = [names]
    for _ in range(depth):
        for group in level:
            if not isinstance(group, (list, tuple)):
                raise ValueError(f"expected a tuple of names, or one for each position, got {group!r}")
        level = [part for group in level for part in cast("Sequence[object]", group)]
    for part in level:
        if part is not None and not is_vocabulary(part):
            raise ValueError(f"expected a tuple of names at each position, got {part!r}")
    return [tuple(cast("Sequence[str]", part or ())) for part in level]
