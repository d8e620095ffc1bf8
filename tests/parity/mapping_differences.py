"""Where ``map``, and what is sent to other processes, differ from the peer's."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import torch

from tensorclass.distributed import WorkerRaised
from tests.parity.sides import Raised
from tests.pools import pool_of

Call = Callable[[Any], Any]


def data(m: Any, rows: int = 4) -> Any:
    return m.TensorDict({"a": torch.arange(float(rows))}, batch_size=[rows])


def raises(chunk: Any) -> Any:
    raise KeyError("wanted")


def number(chunk: Any) -> int:
    return int(chunk["a"].sum())


def tensor(chunk: Any) -> Any:
    return chunk["a"] + 1


def drawn(chunk: Any) -> Any:
    return torch.rand(chunk.batch_size)


def some(chunk: Any) -> Any:
    return None if int(chunk["a"][0]) == 0 else chunk


def row_totals(chunk: Any) -> Any:
    return type(chunk)({"s": chunk["a"] + 1}, batch_size=[])


def without_the_dimension(m: Any) -> Any:
    rows = m.TensorDict({"a": torch.zeros(3, 4)}, batch_size=[3, 4])
    return rows.map(row_totals, 1, num_workers=1, chunksize=0).batch_size


def says_where(m: Any) -> bool:
    try:
        data(m).map(raises, num_workers=1)
    except KeyError as error:
        return isinstance(error, WorkerRaised) and "chunk 0 of 1 (rows 0 to 3)" in str(error)
    return False


def twice_the_same(m: Any) -> bool:
    first, second = (data(m).map(drawn, num_workers=1) for _ in range(2))
    return torch.equal(first, second)


def one_seed_a_chunk(m: Any) -> bool:
    """Whether one worker and the first chunk of two have the same random numbers behind a chunk of another."""
    found = list(data(m).map_iter(drawn, num_workers=1, chunksize=2, generator=torch.Generator().manual_seed(1)))
    base = int(torch.empty((), dtype=torch.int64).random_(0, 2**62, generator=torch.Generator().manual_seed(1)))
    return torch.equal(found[1], torch.rand(2, generator=torch.Generator().manual_seed(base + 1)))


def rows_without_result(m: Any) -> Any:
    out = m.TensorDict({"a": torch.full((4,), 9.0)}, batch_size=[4])
    return data(m).map(some, num_workers=1, chunksize=2, out=out)["a"]


def too_short(m: Any) -> Any:
    return data(m).map(some, num_workers=1, chunksize=2, out=m.TensorDict({"a": torch.zeros(3)}, batch_size=[3]))["a"]


def beside_a_pool(m: Any) -> Any:
    with pool_of(1, get_context("fork")) as pool:
        return data(m).map(tensor, pool=pool, num_workers=7)


def no_rows(m: Any) -> Any:
    return data(m)[:0].map(tensor, num_workers=1)


def _fill(inbox: Any, outbox: Any) -> None:
    inbox.get()["a"].fill_(7)
    outbox.put(True)


def written_there(m: Any) -> Any:
    context = torch.multiprocessing.get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_fill, args=(inbox, outbox), daemon=True)
    process.start()
    sent = data(m)
    inbox.put(sent)
    outbox.get()
    process.join()
    return sent["a"]


#: for each sentence of docs/differences.md: a call, what is expected here, and what of the peer
MAPPING: dict[str, list[tuple[Call, Any, Any]]] = {
    "Errors of workers name the chunk.": [(says_where, True, False)],
    "Chunks are seeded, not workers.": [(twice_the_same, False, True), (one_seed_a_chunk, True, False)],
    "Results of any type are returned.": [
        (lambda m: data(m).map(number, num_workers=1, chunksize=2), [1, 5], Raised(TypeError)),
        (lambda m: data(m).map(tensor, num_workers=1, chunksize=0), torch.arange(1.0, 5.0), Raised(AttributeError)),
        (without_the_dimension, Raised(RuntimeError), torch.Size([4])),
    ],
    "`out` is as long as the data.": [
        (rows_without_result, torch.tensor([9.0, 9.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 9.0, 9.0])),
        (too_short, Raised(ValueError), torch.tensor([2.0, 3.0, 0.0])),
    ],
    "Options are not ignored.": [(beside_a_pool, Raised(ValueError), torch.arange(1.0, 5.0))],
    "A collection without rows is one chunk.": [(no_rows, torch.zeros(0), Raised(ValueError))],
    "Records are sent as copies.": [(written_there, torch.arange(4.0), torch.full((4,), 7.0))],
}
