"""Progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, overload

from typing_extensions import Self

from tensorclass.support.printable import printable

T = TypeVar("T")


class Bar(Generic[T]):
    """A progress bar made by :func:`bar`; it may be invisible.

    Iterate over it, or call :meth:`advance` inside a ``with`` block.
    """

    def __init__(self, items: Iterable[T], tqdm_bar: Any) -> None:
        self._items = items
        self._tqdm_bar = tqdm_bar

    def __iter__(self) -> Iterator[T]:
        with self:
            for item in self._items:
                yield item
                self.advance()

    def advance(self, count: int = 1) -> None:
        """Count items as done."""
        if self._tqdm_bar is not None:
            self._tqdm_bar.update(count)

    def close(self) -> None:
        """Stop; the bar stays as it is."""
        if self._tqdm_bar is not None:
            self._tqdm_bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@overload
def bar(
    work: Iterable[T],
    what: str = ...,
    *,
    unit: str = ...,
    total: int | None = ...,
    progress: bool | None = ...,
    delay: float = ...,
) -> Bar[T]: ...
@overload
def bar(
    work: int | None,
    what: str = ...,
    *,
    unit: str = ...,
    total: int | None = ...,
    progress: bool | None = ...,
    delay: float = ...,
) -> Bar[Any]: ...
def bar(
    work: Iterable[T] | int | None,
    what: str = "",
    *,
    unit: str = "it",
    total: int | None = None,
    progress: bool | None = None,
    delay: float = 0.0,
) -> Bar[T]:
    """Make a tqdm progress bar on stderr, to iterate over or to advance by hand.

    Args:
        work: an iterable; or the number of items, which :meth:`Bar.advance` counts (``None``: unknown).
        what: text in front of the bar.
        unit: what is counted, such as ``"row"``.
        total: number of items of an iterable without a length.
        progress: ``True`` shows the bar, ``False`` does not. ``None`` (default) shows it if stderr is a terminal and
            tqdm is installed.
        delay: seconds before the bar appears. Ignored if ``progress=True``.

    Raises:
        ImportError: ``progress=True``, and tqdm is not installed.

    >>> sum(bar([1, 2, 3], "adding", progress=False))
    6
    >>> with bar(100, "reading", unit="row", progress=False) as rows:
    ...     rows.advance(60)
    ...     rows.advance(40)
    """
    items: Iterable[T] = () if work is None or isinstance(work, int) else work
    if total is None:
        total = work if isinstance(work, int) else len(work) if isinstance(work, Sized) else None
    return Bar(items, _tqdm_bar(what, unit, total, progress, 0.0 if progress else delay))


def bytes_of(total: int, what: str, progress: bool | None) -> Bar[Any]:
    """Make a bar that counts bytes. By default it appears after two seconds."""
    if progress is None and total < _SMALL_TOTAL:
        progress = False  # importing tqdm takes longer
    return bar(total, what, unit="B", progress=progress, delay=2.0)


_SMALL_TOTAL = 2**26  #: bytes


def _tqdm_bar(what: str, unit: str, total: int | None, progress: bool | None, delay: float) -> Any:
    if progress is False or (progress is None and not _on_terminal()):
        return None
    from tensorclass.support.extras import require

    try:
        tqdm: Any = require("tqdm.auto", "progress", "progress=True").tqdm
    except ImportError:
        if progress:
            raise
        return None
    scaled = total is None or total >= 10_000
    return tqdm(desc=printable(what) or None, unit=unit, total=total, unit_scale=scaled, delay=delay)


def _on_terminal() -> bool:
    stream: Any = sys.stderr  # None in programs without a console
    return stream is not None and bool(stream.isatty())


def progress_of(what: str, progress: bool | None, pbar: bool | None) -> bool | None:
    """Return the argument ``progress``, which has the other name ``pbar``.

    Args:
        what: the call, for messages.
        progress: the argument.
        pbar: the argument under its other name.

    Raises:
        TypeError: both are given, and differ.

    >>> progress_of("map", None, True)
    True
    """
    if progress is not None and pbar is not None and progress != pbar:
        raise TypeError(f"{what}: got progress={progress} and pbar={pbar}, two names of one argument; give one of them")
    return pbar if progress is None else progress
