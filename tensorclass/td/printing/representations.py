"""``repr`` of collections, and what notebooks and rich show of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_dynamo_compiling

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection

from .long_form import all_shared, compact_text, long_text
from .print_options import OPTIONS
from .short_form import line_width, short_text
from .text_previews import cut, cut_middle, one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


class Printing(Collection):
    """``repr``: class, batch size, and a line for each field with some of its values."""

    __slots__ = ()

    def __repr__(self) -> str:
        if is_dynamo_compiling():
            return _traced_text(self)
        try:
            style = OPTIONS.everywhere["style"]
            return short_text(self) if style == "short" else self._long() if style == "long" else self._compact()
        except Exception as error:  # half-constructed, or on a store that is damaged: a debugger shows that, too
            return failed_text(self, error)

    #: the method that a class has which does not define its own
    _collection_repr = __repr__

    # Other stores, and leaves, replace some of the following. Each may raise: the form then says so.

    def _long(self) -> str:
        return long_text(self)

    def _compact(self) -> str:
        return compact_text(self)

    def _items_for_repr(self) -> Any:
        """Return keys and values for the long and the compact form."""
        order: Any = OPTIONS.everywhere["sort_keys"]
        given: Any = order
        if callable(order):
            return sorted(self._now().items(), key=lambda item: given(item[0]))
        return self._now().items() if order == "insertion" else sorted(self._now().items())

    def _names_for_repr(self) -> list[str]:
        """Return the keys for the short form."""
        order: Any = OPTIONS.everywhere["sort_keys"]
        names = list(self._store)
        return names if order in (None, "insertion") else sorted(names, key=None if order == "alphabetical" else order)

    def _value_for_repr(self, key: str) -> Any:
        """Return a value for the short form, or what :func:`~.field_previews.preview` takes in its place."""
        return self._store[key]

    def _values_for_repr(self) -> Iterable[Any]:
        """Return tensors and collections with the shapes and devices of all values."""
        return list(self._now().values()) if self._is_tree() else self._leaves_and_buffers()

    def _marks_for_repr(self) -> tuple[str, ...]:
        """Return what is special about the store."""
        return ()

    def _device_for_repr(self) -> torch.device | None:
        """Return the device of a leaf's tensors; ``None`` if it has none."""
        return None

    def _type_for_repr(self) -> str:
        """Return the type of a leaf."""
        return type_name(self)

    def _content_for_repr(self, width: int, ndim: int, count: int | None = None) -> str:
        """Return some content of a leaf.

        Args:
            width: columns.
            ndim: the number of batch dimensions of the collection that holds it.
            count: the number of rows, if these are only the first of them.
        """
        return cut(one_line(repr(self)), width)

    def _row_texts(self, count: int, width: int) -> list[str]:
        """Return the texts of the first rows of a leaf that has some of its own."""
        return []

    def _repr_html_(self) -> str | None:
        """Return what notebooks show, with fields that unfold; ``None`` (use the text) if that is off."""
        if not OPTIONS.everywhere["html"]:
            return None
        from .html_form import html_text

        try:
            return html_text(self) if self._is_tree() else None
        except Exception:
            return None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of ``repr`` in colours, for ``rich.print``."""
        from .rich_form import rich_text

        yield rich_text(repr(self))

    def is_shared(self) -> bool:
        """Return whether all tensors are in shared memory or memory-mapped files. CUDA tensors always count.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.zeros(3)}, [3])
            >>> data.is_shared(), data.share_memory_().is_shared()
            (False, True)
        """
        return all_shared(self)


def _traced_text(data: Printing) -> str:
    """Return class and batch size, all that a program that is traced can know."""
    return f"{type_name(data)}(batch_size={list(data._batch_size)}, keys={list(data._store)})"


def failed_text(data: object, error: Exception) -> str:
    """Return what is shown of a collection whose ``repr`` fails."""
    name = type_name(data)
    try:
        if not hasattr(data, "_batch_size"):
            return f"{name}(not initialized)"
        begin = f"{name}(cannot be shown: {type_name(error)}: "
        return f"{begin}{cut_middle(one_line(error), max(line_width() - len(begin) - 1, 20))})"
    except Exception:
        return f"{name}(cannot be shown)"
