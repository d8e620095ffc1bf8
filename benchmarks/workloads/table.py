"""What a row of the table is, and the factories that most rows come from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.checking import differences, normal
from benchmarks.sides import OURS, PEER, Batch, Form, Side, by_hand
from benchmarks.timing import Call

ROWS: Batch = (32,)
GRID: Batch = (8, 4)
BOTH: tuple[Form, ...] = ("record", "td")


@dataclass(frozen=True)
class Workload:
    """The same work three times. Each factory makes data of its own, so that writing in place stays inside a side."""

    name: str
    library: Callable[[Side], Call]
    hand: Callable[[], Call]
    is_beyond: bool = False
    """Whether the library does more than the work by hand, so that the row stands apart from the means."""

    def ours(self) -> Call:
        return self.library(OURS)

    def peer(self) -> Call:
        return self.library(PEER)

    def differences(self) -> list[str]:
        """Where the results of the three sides differ, after one call of each; empty for a fair row."""
        ours, peer, hand = normal(self.ours()()), normal(self.peer()()), normal(self.hand()())
        return [
            *(f"ours and peer {line}" for line in differences(ours, peer)),
            *(f"ours and hand {line}" for line in differences(ours, hand)),
        ]


@dataclass(frozen=True)
class Operation:
    """One operation on collections, written once for both libraries and once by hand.

    `library` takes the collection (and `other`, where a second one is needed); `hand` takes the dict and the batch size
    (and the other's dict).
    """

    name: str
    library: Callable[..., Any]
    hand: Callable[..., Any]
    batch: Batch = ROWS
    other: Batch | None = None
    """The batch size of the second operand."""

    def on(self, form: Form) -> Workload:
        def library(side: Side) -> Call:
            operands = [side.make(form, self.batch)]
            if self.other is not None:
                operands.append(side.make(form, self.other, seed=10))
            return partial(self.library, *operands)

        def hand() -> Call:
            operands: list[Any] = [*by_hand(form, self.batch)]
            if self.other is not None:
                operands.append(by_hand(form, self.other, seed=10)[0])
            return partial(self.hand, *operands)

        return Workload(f"{self.name} ({form})", library, hand)


@dataclass(frozen=True)
class Combination:
    """One operation on a list of `count` collections; by hand, on a list of (dict, batch size)."""

    name: str
    library: Callable[[list[Any]], Any]
    hand: Callable[[list[Any]], Any]
    count: int
    batch: Batch = ROWS

    def on(self, form: Form) -> Workload:
        seeds = range(self.count)
        return Workload(
            f"{self.name} ({form})",
            lambda side: partial(self.library, [side.make(form, self.batch, seed) for seed in seeds]),
            lambda: partial(self.hand, [by_hand(form, self.batch, seed) for seed in seeds]),
        )


def on_forms(operations: Iterable[Operation | Combination], forms: Sequence[Form] = BOTH) -> Iterator[Workload]:
    """Each operation on each form."""
    return (operation.on(form) for operation in operations for form in forms)
