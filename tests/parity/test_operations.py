"""Operations do the same here and in the peer: each by itself, and one after the other.

By default the examples are the same in every run. ``PARITY_EXAMPLES=100000 python -m pytest tests/parity -q`` draws
that many others, and prints how to repeat one that fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests import strategies as draw
from tests.parity.differences import Known, is_known, values_alone
from tests.parity.drawn import Arguments, Drawn, Lazy, numbers
from tests.parity.mistakes import several_mistakes
from tests.parity.operations import OPERATIONS
from tests.parity.record_differences import KNOWN_OF_RECORDS
from tests.parity.records import as_seen, records
from tests.parity.sides import (
    OURS,
    PEER,
    Raised,
    Seen,
    apart,
    described,
    is_collection,
    is_record,
    memory,
    outcome,
    shared,
)

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),  # the peer warns of changes to come
]

EXAMPLES = int(os.environ.get("PARITY_EXAMPLES", "3000"))
SHARDS = 8


def drawing(examples: int, at_least: int = 5) -> Callable[[Any], Any]:
    thorough = "PARITY_EXAMPLES" in os.environ
    return settings(
        max_examples=max(examples, at_least),
        derandomize=not thorough,
        print_blob=True,
        report_multiple_bugs=False,
        database=None,
        phases=[Phase.generate, Phase.shrink] if thorough else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def collections(data: Callable[..., Any], dims: int = 0, computing: bool = False, objects: bool = True) -> Drawn:
    leaf = numbers if computing else draw.leaves
    tree = data(draw.deep_trees(leaf=leaf, objects=objects))
    batch_size = data(draw.shapes(min_dims=dims))
    device = data(st.sampled_from((None, None, "cpu")))
    locked = data(st.integers(0, 9)) == 0
    return Drawn(tree, batch_size, data(draw.names_or_none(len(batch_size))), device, locked)


def built(drawn: Drawn) -> tuple[Any, Any]:
    """The collection on both sides; an example that the peer can't build is none."""
    peers = outcome(lambda: drawn.build(PEER))
    assume(not isinstance(peers, Exception))
    return drawn.build(OURS), peers


def step(
    name: str, drawn: Drawn, ours: Any, peers: Any, arguments: Arguments, more: tuple[Known, ...] = ()
) -> tuple[Any, Any] | None:
    """Do an operation on both sides and compare; the two results, or nothing where the two differ on purpose."""
    results, seen, before = [], [], described(ours)
    for library, data in ((OURS, ours), (PEER, peers)):
        pieces = memory(data)
        result = outcome(lambda data=data, library=library: OPERATIONS[name](name, data, library, arguments))
        results.append(result)
        what = Seen(described(result), result is data, shared(result, pieces), described(data), shared(data, pieces))
        seen.append(what)
    if isinstance(results[0], Exception):
        assert seen[0].source == before, f"{name} changed the collection, then raised {results[0]!r}"
    if seen[0] == seen[1]:
        return results[0], results[1]
    if is_known(name, drawn, arguments, *seen, more) or several_mistakes(name, drawn, arguments, *seen):
        return None
    errors = [
        f"\n{side}: {r!r}" for side, r in zip(("here", "there"), results, strict=True) if isinstance(r, Exception)
    ]
    raise AssertionError(f"{name} with {arguments} on {drawn}\n{apart(*seen)}{''.join(errors)}")


@pytest.mark.parametrize("name", OPERATIONS)
@drawing(EXAMPLES * 3 // 4 // len(OPERATIONS))
@given(data=st.data())
def test_does_the_same_as_in_the_peer(name: str, data: st.DataObject) -> None:
    case = OPERATIONS[name]
    drawn = data.draw(collections(case.dims, case.numbers, case.objects))
    arguments = data.draw(case.arguments(drawn))
    step(name, drawn, *built(drawn), arguments)


def one_object(ours: Seen, dense: Seen) -> bool:
    """Whether an object is one here and one for each row there: "Equal objects stay one." """
    return isinstance(dense.result, list) and dense.result == [ours.result] * len(dense.result)


@pytest.mark.parametrize("name", OPERATIONS)
@drawing(EXAMPLES // 8 // len(OPERATIONS), 2)
@given(data=st.data())
def test_a_record_does_the_same_as_in_the_peer(name: str, data: st.DataObject) -> None:
    case = OPERATIONS[name]
    drawn = data.draw(records(case.dims, case.numbers, case.objects))
    arguments = data.draw(case.arguments(drawn))
    step(name, drawn, *built(drawn), arguments, KNOWN_OF_RECORDS)


@st.composite
def lazy_stacks(data: Callable[..., Any], dims: int, computing: bool, objects: bool) -> Drawn:
    drawn = data(collections(max(dims, 1), computing, objects))
    size = tuple(max(n, 1) for n in drawn.batch_size)
    lazy = Lazy(data(st.integers(0, len(size) - 1)), data(st.integers(0, 3)) == 0)
    return replace(drawn, batch_size=size, names=None, lazy=lazy)  # the peer loses the name of the dimension


def done(name: str, data: Any, library: Any, arguments: Arguments) -> Seen:
    """What an operation does, without regard to what becomes lazy."""
    result = described(outcome(lambda: OPERATIONS[name](name, data, library, arguments)))
    return Seen(values_alone(result), False, None, values_alone(described(data)), None)


def refused(name: str, ours: Seen, arguments: Arguments) -> bool:
    """What a lazy stack cannot do: parts become others in place, or lose the dimension of the stack."""
    in_place = isinstance(ours.result, Raised) and "inplace" in arguments.kwargs
    given = "batch_dims" in arguments.kwargs or (name == "auto_batch_size_" and arguments.args != ())
    return in_place or (given and ours.result == Raised(RuntimeError))


@pytest.mark.parametrize("name", OPERATIONS)
@drawing(EXAMPLES // 8 // len(OPERATIONS), 2)
@given(data=st.data())
def test_a_lazy_stack_does_the_same_as_in_the_peer_or_as_one_that_is_not_lazy(name: str, data: st.DataObject) -> None:
    case = OPERATIONS[name]
    drawn = data.draw(lazy_stacks(case.dims, case.numbers, case.objects))
    arguments = data.draw(case.arguments(drawn))
    ours, peers = (
        done(name, side, library, arguments) for side, library in zip(built(drawn), (OURS, PEER), strict=True)
    )
    if ours == peers or is_known(name, drawn, arguments, ours, peers) or refused(name, ours, arguments):
        return
    dense = done(name, replace(drawn, lazy=None).build(OURS), OURS, arguments)
    if ours != dense and not (one_object(ours, dense) or several_mistakes(name, drawn, arguments, ours, dense)):
        raise AssertionError(f"{name} with {arguments} on {drawn}\n{apart(ours, dense)}")


@lru_cache(maxsize=256)
def fitting(ndim: int, numeric: bool, objects: bool) -> list[str]:
    return [
        name
        for name, case in OPERATIONS.items()
        if ndim >= case.dims and (numeric or not case.numbers) and (case.objects or not objects)
    ]


def sequence(data: st.DataObject, drawn: Drawn, shard: int, more: tuple[Known, ...] = ()) -> None:
    """Operations one after the other, on what one of them gives or on the same collection again."""
    ours, peers = built(drawn)
    kind = OURS.TensorClass if is_record(ours) else OURS.TensorDict
    for _ in range(data.draw(st.integers(1, 6))):
        names = fitting(drawn.ndim, drawn.numeric, drawn.objects)
        # each shard begins in another place, so that they draw different sequences
        at = data.draw(st.integers(0, len(names) - 1))
        name = names[(at + shard * len(names) // SHARDS) % len(names)]
        arguments = data.draw(OPERATIONS[name].arguments(drawn), label=name)
        both = step(name, drawn, ours, peers, arguments, more)
        if both is None or not (is_collection(ours)):
            return
        if isinstance(both[0], (list, tuple)) and both[0]:
            both = both[0][0], both[1][0]
        if is_collection(both[0]) and isinstance(both[0], kind) and data.draw(st.booleans()):
            ours, peers = both
        seen = outcome(lambda data=ours: as_seen(data))
        if isinstance(seen, Exception):  # values of a lazy stack that cannot be read in one
            return
        drawn = seen


@pytest.mark.parametrize("shard", range(SHARDS))
@drawing(EXAMPLES // 4 // SHARDS)
@given(data=st.data())
def test_sequences_do_the_same_as_in_the_peer(shard: int, data: st.DataObject) -> None:
    computing = data.draw(st.booleans())
    sequence(data, data.draw(collections(0, computing, not computing)), shard)


@pytest.mark.parametrize("shard", range(SHARDS))
@drawing(EXAMPLES // 40 // SHARDS)
@given(data=st.data())
def test_sequences_on_a_record_do_the_same_as_in_the_peer(shard: int, data: st.DataObject) -> None:
    computing = data.draw(st.booleans())
    sequence(data, data.draw(records(0, computing, not computing)), shard, KNOWN_OF_RECORDS)
