"""Name the known name that is nearest to a wrong one, as Python does for attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any

#: how many names are compared: tables can have thousands of columns
_MOST, _MOST_WRONG = 1000, 5


def did_you_mean(wrong: object, known: Iterable[object]) -> str:
    """Return the end of a message: the known name that is nearest to a wrong one.

    Args:
        wrong: a name, or several.
        known: the names that there are. Those that are not strings are left out.

    Returns:
        A full stop and a question; empty if no name is near.

    >>> did_you_mean("imgae", ["image", "label"])
    ". Did you mean: 'image'?"
    >>> did_you_mean(["imgae", "lable"], ["image", "label"])
    ". Did you mean: 'image', 'label'?"
    >>> did_you_mean("x", ["image", "label"]), did_you_mean("Image", ["image"])
    ('', ". Did you mean: 'image'?")
    """
    given: Any = wrong
    is_one = isinstance(wrong, (str, bytes)) or not issubclass(type(wrong), Collection)
    wrongs: Iterable[object] = (wrong,) if is_one else given
    names = [name for name in islice(known, _MOST) if isinstance(name, str)]
    found = [
        near
        for name in islice(wrongs, _MOST_WRONG)
        if isinstance(name, str) and (near := nearest(name, names)) is not None
    ]
    return f". Did you mean: {', '.join(repr(name) for name in dict.fromkeys(found))}?" if found else ""


def nearest(wrong: str, names: Sequence[str]) -> str | None:
    """Return the name that is nearest to a wrong one; ``None`` if none is near.

    >>> nearest("lable", ["image", "label"])
    'label'
    """
    from difflib import get_close_matches  # only errors need it

    if wrong in names:  # right, but not here
        return None
    folded = {name.casefold(): name for name in reversed(names)}
    near = get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


class KeyMessage(str):
    """The argument of a ``KeyError`` about a name. Printed, it is not quoted, and ends with the nearest known name.

    That name is looked for when the error is printed: programs raise and catch many a ``KeyError``.

    Args:
        message: the message.
        wrong: the unknown name, or several.
        known: the known names.

    >>> error = KeyError(KeyMessage("no key 'imgae'", "imgae", ["image", "label"]))
    >>> print(error)
    no key 'imgae'. Did you mean: 'image'?
    >>> print(error.args[0])
    no key 'imgae'
    """

    __slots__ = ("known", "wrong")

    def __new__(cls, message: str, wrong: object = "", known: Iterable[object] = ()) -> KeyMessage:
        made = super().__new__(cls, message)
        made.wrong = wrong
        made.known = tuple(known)
        return made

    wrong: object
    known: tuple[object, ...]

    def __repr__(self) -> str:
        return str(self) + did_you_mean(self.wrong, self.known)

    def __reduce__(self) -> tuple[type[KeyMessage], tuple[str, object, tuple[object, ...]]]:
        return KeyMessage, (str(self), self.wrong, self.known)
