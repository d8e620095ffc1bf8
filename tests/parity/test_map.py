"""``map`` and ``map_iter`` beside the peer: the same function on the same chunks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch

import tensorclass

pytestmark = pytest.mark.parity

ROWS = 7


def _data(module: Any) -> Any:
    return module.TensorDict({"a": torch.arange(3.0 * ROWS).view(ROWS, 3), "b": {"n": torch.arange(ROWS)}}, [ROWS])


def same(chunk: Any) -> Any:
    return chunk


def plus(chunk: Any) -> Any:
    return type(chunk)({"y": chunk["a"] + 1}, batch_size=chunk.batch_size)


def tensor(chunk: Any) -> Any:
    return chunk["a"] * 2


def nothing(chunk: Any) -> Any:
    return None


def some(chunk: Any) -> Any:
    return chunk if int(chunk["b", "n"].reshape(-1)[0]) % 2 else None


def number(chunk: Any) -> int:
    return int(chunk["b", "n"].sum())


def drawn(chunk: Any) -> Any:
    return type(chunk)({"r": torch.rand(chunk.batch_size)}, batch_size=chunk.batch_size)


def in_place(chunk: Any) -> Any:
    chunk["a"].add_(100)


def raises(chunk: Any) -> Any:
    raise KeyError("wanted")


def _values(found: Any) -> Any:
    """What is compared of a result: values as lists, shapes, the class of an error."""
    if isinstance(found, Exception):
        return "error", found
    if isinstance(found, torch.Tensor):
        return "tensor", found.tolist()
    if hasattr(found, "batch_size"):
        return tuple(found.batch_size), {key: _values(value) for key, value in sorted(found.items())}
    return [_values(item) for item in found] if isinstance(found, list) else found


def _both(call: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What both libraries give; the peer warns of random numbers that will be others in its next versions."""
    found: list[Any] = []
    for module in (tensorclass, tensordict):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = _data(module)
            try:
                found.append((_values(call(data)), _values(data)))
            except Exception as error:
                found.append((_values(error), _values(data)))
    return found[0], found[1]


def _map(fn: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda data: data.map(fn, num_workers=2, generator=torch.Generator().manual_seed(1), **options)


def _iter(fn: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda data: list(data.map_iter(fn, num_workers=2, generator=torch.Generator().manual_seed(1), **options))


CALLS: dict[str, Callable[[Any], Any]] = {
    "map": _map(same),
    "map, chunks of 3": _map(same, chunksize=3),
    "map, 3 chunks": _map(plus, num_chunks=3),
    "map, single rows": _map(plus, chunksize=0),
    "map, cut where it is needed": _map(plus, chunksize=3, index_with_generator=True),
    "map to tensors": _map(tensor, chunksize=3),
    "map to nothing": _map(nothing, chunksize=3),
    "map to some": _map(some, chunksize=1),
    "map in place": _map(in_place, chunksize=3),
    "random numbers of the first worker": lambda data: data.map(
        drawn, num_workers=1, generator=torch.Generator().manual_seed(1)
    ),
    "map_iter": _iter(same, chunksize=3),
    "map_iter, single rows": _iter(plus, chunksize=0),
    "map_iter, a chunk for each worker": _iter(tensor),
    "map_iter to some": _iter(some, chunksize=1),
    "map_iter to numbers": _iter(number, chunksize=2),
    "another dimension": lambda data: _map(same, dim=1, chunksize=2)(data.unsqueeze(1).expand(ROWS, 5).clone()),
    "the last dimension": lambda data: _map(same, dim=-1, chunksize=2)(data.unsqueeze(1).expand(ROWS, 5).clone()),
    "no rows": lambda data: _map(same, chunksize=2)(data[:0]),
    "no single rows": lambda data: _map(same, chunksize=0)(data[:0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_chunks_give_the_same_results(name: str) -> None:
    ours, theirs = _both(CALLS[name])
    assert ours == theirs
    assert ours[0] != "error"


WRONG: dict[str, Callable[[Any], Any]] = {
    "no such dimension": _map(same, dim=1),
    "no dimensions": lambda data: _map(same)(data[0]),
    "both sizes": _map(same, chunksize=1, num_chunks=1),
    "a negative size": _map(same, chunksize=-1),
    "a size that is no int": _map(same, chunksize=1.5),
    "no chunks": _map(same, num_chunks=0),
    "no workers": lambda data: data.map(same, num_workers=0),
    "no function": _map(3),
    "the function raises": _map(raises),
    "the function raises, one by one": _iter(raises),
    "no method": _map(same, mp_start_method="nowhere"),
    "shuffled in advance": lambda data: list(data.map_iter(same, shuffle=True, index_with_generator=False)),
    "a function without a name": _map(lambda chunk: chunk, mp_start_method="spawn"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_except_clause_for_the_peer_takes_our_error(name: str) -> None:
    ours, theirs = _both(WRONG[name])
    assert theirs[0][0] == "error"
    assert isinstance(ours[0][1], type(theirs[0][1])), ours


@pytest.mark.parametrize("chunksize", [0, 3])
def test_results_are_written_into_shared_memory_and_files_alike(chunksize: int, tmp_path: Any) -> None:
    for name, made in (("shared", lambda out: out.share_memory_()), ("mapped", lambda out: out.memmap_())):

        def call(data: Any, made: Any = made) -> Any:
            out = made(type(data)({"y": torch.zeros(ROWS, 3)}, [ROWS]))
            assert _map(plus, chunksize=chunksize, out=out)(data) is out
            return out

        ours, theirs = _both(call)
        assert ours == theirs, name


def test_the_generator_is_moved_on_by_one_draw() -> None:
    states: list[Any] = []
    for module in (tensorclass, tensordict):
        generator = torch.Generator().manual_seed(1)
        _data(module).map(same, num_workers=1, generator=generator)
        states.append(generator.get_state())
    assert torch.equal(*states)
