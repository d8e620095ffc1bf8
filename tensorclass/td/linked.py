"""Lists that write back: what reading a column of objects gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex


class LinkedList(list[Any]):
    """A list of the rows of a collection, or of the objects of non-tensor data, that writes to it what is assigned.

    ``data["key"]`` gives one where the key holds an object for each row. Assigning items writes into the data; what
    changes the order or the number of the items changes the list only, which is a list like any other from then on.

    >>> from tensorclass import TensorDict
    >>> data = TensorDict({"text": ["a", "b"]}, [2])
    >>> data["text"][0] = "new"
    >>> data["text"]
    ['new', 'b']

    Args:
        items: the items; lists among them, down to ``depth``, are linked too.
        td: what is written to; ``None`` for a list like any other.
        depth: how many dimensions of the batch the list stands for.
        place: the index of this list in ``td``.
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
        """Raises where items, in lists of so many levels, cannot be written; a record sets it for its fields."""
        return self._check

    @check.setter
    def check(self, check: Callable[[Any, int], None]) -> None:
        self._check = check
        for item in self if self._depth > 1 else ():
            item.check = check

    def tolist(self) -> list[Any]:
        """A plain list (of plain lists) that is linked to nothing."""
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

    # -- what unlinks it ----------------------------------------------------------------------------------------------

    def append(self, item: Any) -> None:
        self._td = None
        super().append(item)

    def extend(self, items: Iterable[Any]) -> None:
        self._td = None
        super().extend(items)

    def insert(self, index: SupportsIndex, item: Any) -> None:
        self._td = None
        super().insert(index, item)

    def pop(self, index: SupportsIndex = -1) -> Any:
        self._td = None
        return super().pop(index)

    def remove(self, item: Any) -> None:
        self._td = None
        super().remove(item)

    def clear(self) -> None:
        self._td = None
        super().clear()

    def reverse(self) -> None:
        self._td = None
        super().reverse()

    def sort(self, **kwargs: Any) -> None:
        self._td = None
        super().sort(**kwargs)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        self._td = None
        super().__delitem__(index)

    def __iadd__(self, items: Iterable[Any]) -> LinkedList:  # type: ignore[misc]
        self._td = None
        super().__iadd__(items)
        return self

    def __imul__(self, times: SupportsIndex) -> LinkedList:
        self._td = None
        super().__imul__(times)
        return self

    def __reduce__(self) -> Any:
        return LinkedList, (self.tolist(),)
