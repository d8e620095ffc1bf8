"""Lists that write assigned items back to a collection: the result of reading a column of objects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any


class LinkedList(list[Any]):
    """A list of the rows of a collection, or of the objects of non-tensor data, that writes assigned items back to it.

    ``data["key"]`` returns one if the key holds an object for each row. Assigning an item writes it into the data.
    Methods that change the order or the number of items change only the list, which is unlinked from then on.

    Args:
        items: the items. Lists among them are linked, too, down to ``depth``.
        td: the collection to write to. Default: ``None``, a list like any other.
        depth: the number of batch dimensions that the list represents. Default: 1.
        place: the index of this list in ``td``. Default: ``()``.

    Example:
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"text": ["a", "b"]}, [2])
        >>> data["text"][0] = "new"
        >>> data["text"]
        ['new', 'b']
    """

    _check: Callable[[Any, int], None] | None

    __slots__ = ("_check", "_depth", "_place", "_td")

    def __init__(
        self, items: Iterable[Any] = (), *, td: Any = None, depth: int = 1, place: tuple[int, ...] = ()
    ) -> None:
        self._td, self._depth, self._place, self._check = td, depth, place, None
        super().__init__(items if td is None or depth == 1 else self._linked(items))

    def _linked(self, items: Iterable[Any]) -> list[LinkedList]:
        return [
            LinkedList(item, td=self._td, depth=self._depth - 1, place=(*self._place, i))
            for i, item in enumerate(items)
        ]

    @property
    def check(self) -> Callable[[Any, int], None] | None:
        """A function of items and their list depth that raises if the items cannot be written. Records set it.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"t": ["a", "b"]}, [2])["t"].check is None
            True
        """
        return self._check

    @check.setter
    def check(self, check: Callable[[Any, int], None]) -> None:
        self._check = check
        for item in self if self._depth > 1 else ():
            item.check = check

    def tolist(self) -> list[Any]:
        """Return a plain list, of plain lists, that is linked to nothing.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"text": ["a", "b"]}, [2])
            >>> plain = data["text"].tolist()
            >>> plain[0] = "new"
            >>> data["text"]
            ['a', 'b']
        """
        return [item.tolist() if isinstance(item, LinkedList) else item for item in self]

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._td is not None:
            single = not isinstance(index, slice)
            value = value if single else list(value)
            if self._check is not None:
                self._check(value, self._depth - single)
            self._td._write_items((*self._place, index), value, self._depth - single)
            if self._depth > 1:
                index, value = slice(None), self._linked(self._td[self._place].tolist())
        super().__setitem__(index, value)
        if self._td is not None and self._check is not None:
            self.check = self._check

    def __reduce__(self) -> Any:
        return LinkedList, (self.tolist(),)


def _unlinking(name: str) -> Callable[..., Any]:
    """Make the method of lists of a name, after which the list is linked to nothing."""
    own: Callable[..., Any] = getattr(list, name)

    @functools.wraps(own, assigned=("__name__",))  # the docstring is inherited
    def method(self: LinkedList, *args: Any, **kwargs: Any) -> Any:
        self._td = None
        return own(self, *args, **kwargs)

    method.__qualname__ = f"LinkedList.{name}"
    return method


for _name in (
    "append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort", "__delitem__", "__iadd__", "__imul__",
):  # fmt: skip
    setattr(LinkedList, _name, _unlinking(_name))
