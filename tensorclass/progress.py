"""Progress bars for long work."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from typing_extensions import Self

from tensorclass.printable import printable

T = TypeVar("T")


class Bar(Generic[T]):
    """A bar that :func:`bar` made, or nothing where none is shown.

    It is iterated over, or moved on by hand inside a ``with`` block.
    """

    def __init__(self, work: Iterable[T], shown: Any) -> None:
        self._work = work
        self._shown = shown

    def __iter__(self) -> Iterator[T]:
        with self:
            for item in self._work:
                yield item
                self.advance()

    def advance(self, count: int = 1) -> None:
        """So many items more are done."""
        if self._shown is not None:
            self._shown.update(count)

    def close(self) -> None:
        """Leave the bar as it is; no more is done."""
        if self._shown is not None:
            self._shown.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    """A progress bar on stderr, of tqdm, over work that is iterated over or counted by hand.

    Args:
        work: what is iterated over; or how many items there are, of which :meth:`Bar.advance` tells when they are done
            (``None``: nobody knows).
        what: what is being done, shown in front.
        unit: what is counted: ``"row"``.
        total: how many items ``work`` gives, where it has no length.
        progress: ``True`` shows the bar, ``False`` none; ``None`` shows it where stderr is a terminal and tqdm is
            installed.
        delay: seconds; work that is done before shows no bar, unless ``progress=True``.

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
    return Bar(items, _shown(what, unit, total, progress, 0.0 if progress else delay))


def bytes_of(total: int, what: str, progress: bool | None) -> Bar[Any]:
    """A bar over bytes that are written or read, which by default is shown where it takes more than two seconds."""
    if progress is None and total < _FEW:
        progress = False  # importing tqdm takes longer
    return bar(total, what, unit="B", progress=progress, delay=2.0)


_FEW = 2**26


def _shown(what: str, unit: str, total: int | None, progress: bool | None, delay: float) -> Any:
    if progress is False or (progress is None and not _on_terminal()):
        return None
    from tensorclass.convert.extras import require

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
