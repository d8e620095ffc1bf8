"""Collections on their way to other processes: one handle, the same values, nothing left."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
from hypothesis import given
from torch import Tensor
from torch.nn import Parameter
from torch.utils.data import Dataset

from tensorclass import (
    DataLoader,
    LazyStackedTensorDict,
    MemoryMappedTensor,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    lazy_stack,
)
from tensorclass.distributed import shared_pickle
from tensorclass.distributed.shared_pickle import SMALL, packed
from tests import strategies as draw
from tests.checks import assert_equal
from tests.distributed.leftovers import nothing_left
from tests.forkserver import context_of
from tests.interrupting import Held, interrupted
from tests.open_files import linux, open_segments

LIMIT = 60  # seconds, for what takes one


class Pair(TensorClass):
    x: Tensor
    text: str
    weight: Tensor | None = None


def large(fields: int = 10, rows: int = 4) -> TensorDict:
    """More than goes with the text of a pickle."""
    size = SMALL // 4 // rows
    return TensorDict({f"f{at}": torch.full((rows, size), float(at)) for at in range(fields)}, [rows])


def sent(value: Any, small: int | None) -> Any:
    return packed(value, small=small).opened()


WAYS = pytest.mark.parametrize("small", [-1, 0], ids=["with the text", "in shared memory"])

MADE: dict[str, Callable[[], Any]] = {
    "nested": lambda: TensorDict({"a": torch.rand(3), "b": {"c": torch.rand(3, 2)}}, [3], names=["time"]),
    "record": lambda: Pair(torch.rand(3), "t", batch_size=[3]),
    "lazy stack": lambda: lazy_stack([TensorDict({"a": torch.rand(2)}), TensorDict({"a": torch.rand(2)})]),
    "objects": lambda: TensorDict({"a": torch.rand(2), "rows": ["p", "q"], "one": {1, 2}}, [2]),
    "unbatched": lambda: TensorDict({"u": UnbatchedTensor(torch.rand(2))}, [2]),
    "transposed": lambda: TensorDict({"s": torch.rand(4, 6).t()}, [6]),
    "with steps": lambda: TensorDict({"s": torch.rand(4, 6)[::2, ::3]}, [2]),
    "empty": lambda: TensorDict({"a": torch.rand(0, 3), "e": torch.rand(3, 0).t()}, [0]),
    "no tensors": lambda: TensorDict({}, [2]),
    "dtypes": lambda: TensorDict(
        {
            str(dtype): torch.ones(3, dtype=dtype)
            for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.complex64)
        },
        [3],
    ),
    "conjugate": lambda: TensorDict({"c": torch.rand(3, dtype=torch.complex64).conj()}, [3]),
}


@WAYS
@pytest.mark.parametrize("name", MADE)
def test_what_is_sent_is_what_comes(name: str, small: int) -> None:
    data = MADE[name]()
    found = sent(data, small)
    assert type(found) is type(data)
    assert_equal(found, data)


@given(draw.trees(), draw.shapes(max_dims=2, max_size=3))
def test_any_collection_comes_as_it_was(tree: draw.Tree, size: tuple[int, ...]) -> None:
    data = tree.build(size)
    for small in (-1, 0):
        assert_equal(sent(data, small), data)


@WAYS
def test_a_locked_collection_is_locked_there(small: int) -> None:
    assert sent(MADE["nested"]().lock_(), small).is_locked


@WAYS
def test_lazy_stacks_of_several_shapes_are_sent(small: int) -> None:
    data = lazy_stack([TensorDict({"a": torch.rand(at)}) for at in range(3)])
    found = sent(data, small)
    assert isinstance(found, LazyStackedTensorDict)
    for row, expected in zip(found.unbind(0), data.unbind(0), strict=True):
        assert_equal(row, expected)


@WAYS
def test_strides_stay(small: int) -> None:
    data = TensorDict(
        {"t": torch.rand(4, 6).t(), "e": torch.rand(6, 1).expand(6, 1000), "s": torch.rand(6, 9)[:, ::3]}, [6]
    )
    found = sent(data, small)
    assert found["t"].stride() == (1, 6)
    assert found["e"].stride() == (1, 0)
    assert found["s"].is_contiguous()
    assert len(packed(data, small=-1).memory or b"") < 1000


@WAYS
def test_tied_tensors_stay_tied(small: int) -> None:
    x = torch.rand(3)
    found = sent(TensorDict({"a": x, "b": {"c": x}, "d": x[:]}, [3]), small)
    found["a"][0] = 7
    assert found["b", "c"][0] == found["d"][0] == 7
    assert len(packed(TensorDict({"a": x, "b": x}, [3]), small=-1).memory or b"") == 12


@WAYS
def test_gradients_are_wanted_there_too(small: int) -> None:
    data = TensorDict({"a": torch.rand(3, requires_grad=True), "p": Parameter(torch.rand(3), requires_grad=False)}, [3])
    found = sent(data, small)
    assert found["a"].requires_grad
    assert found["a"].is_leaf
    assert type(found["p"]) is Parameter
    assert not found["p"].requires_grad


def test_a_tensor_with_a_history_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"send data.detach\(\)"):
        ForkingPickler.dumps(TensorDict({"a": torch.rand(3, requires_grad=True) * 2}, [3]))


def test_sparse_tensors_go_in_torchs_own_way() -> None:
    data = TensorDict({"s": torch.eye(3).to_sparse()}, [3])
    assert packed(data).others
    assert torch.equal(sent(data, -1)["s"].to_dense(), torch.eye(3))


def test_a_copy_is_sent_unless_the_memory_is_shared() -> None:
    data = MADE["nested"]()
    sent(data, 0)["a"].fill_(7)
    assert not (data["a"] == 7).any()
    data.share_memory_()
    sent(data, None)["a"].fill_(7)
    assert (data["a"] == 7).all()
    packed(data, copies=True).opened()["a"].fill_(8)
    assert (data["a"] == 7).all()


def test_files_are_sent_by_their_names(tmp_path: Path) -> None:
    data = large().memmap(tmp_path / "rows")
    assert len(ForkingPickler.dumps(data)) < 5000
    found = sent(data[1:3], None)
    assert isinstance(found["f1"], MemoryMappedTensor)
    found["f1"].fill_(7)
    assert (data["f1"][1:3] == 7).all()


def test_small_collections_need_no_handle() -> None:
    assert isinstance(packed(MADE["nested"]()).memory, bytearray)
    assert isinstance(packed(large()).memory, torch.UntypedStorage)


def test_pickles_for_files_are_as_they_were() -> None:
    data = large()
    assert_equal(pickle.loads(pickle.dumps(data)), data)
    assert b"tensorclass.distributed" not in pickle.dumps(data)


# -- to another process -----------------------------------------------------------------------------------------------


def _echo(inbox: Any, outbox: Any) -> None:
    for data in iter(inbox.get, None):
        outbox.put(data)
        del data


class Echo:
    """Another process, which sends back what it gets."""

    def __init__(self) -> None:
        context: Any = torch.multiprocessing.get_context("fork")
        self.inbox, self.outbox = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(target=_echo, args=(self.inbox, self.outbox), daemon=True)
        self.process.start()

    def ask(self, data: Any) -> Any:
        self.inbox.put(data)
        return self.outbox.get()

    def close(self) -> None:
        self.inbox.put(None)
        self.process.join(LIMIT)
        assert self.process.exitcode == 0


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.mark.parametrize("name", MADE)
def test_a_collection_goes_through_two_queues(echo: Echo, name: str) -> None:
    data = MADE[name]()
    found = echo.ask(data)
    assert type(found) is type(data)
    assert_equal(found, data)


def _segments() -> set[str]:
    """Segments that are open here once those that were sent have been closed."""
    resource_sharer.stop()  # its thread sends files and closes them afterwards; the next file starts it anew
    gc.collect()
    return open_segments()


@linux
def test_a_large_collection_takes_one_open_file(echo: Echo) -> None:
    data = large()
    before = _segments()
    kept = [echo.ask(data) for _ in range(3)]
    assert len(_segments() - before) == 3
    assert_equal(kept[0], data)
    assert len({leaf.untyped_storage()._cdata for leaf in kept[0]._leaves()}) == 1
    del kept
    assert _segments() <= before


def test_tuples_and_dicts_with_collections_are_sent_as_well(echo: Echo) -> None:
    data = MADE["record"]()
    found = echo.ask({"a": (data, 3), "b": [data]})
    assert found["a"][1] == 3
    assert_equal(found["a"][0], data)
    assert_equal(found["b"][0], data)


def _sum(data: Any, outbox: Any) -> None:
    outbox.send(float(sum(leaf.sum() for leaf in data._leaves())))


@linux
@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_process_is_started_with_a_large_collection(method: str) -> None:
    context = context_of(method)
    data = large()
    before = _segments()
    here, there = context.Pipe()
    with here, there:
        process = context.Process(target=_sum, args=(data, there))
        process.start()
        assert here.poll(LIMIT)
        assert here.recv() == float(sum(leaf.sum() for leaf in data._leaves()))
        process.join(LIMIT)
        assert process.exitcode == 0
    process.close()
    del process
    assert _segments() <= before


@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_a_loader_are_started_with_a_large_collection(method: str) -> None:
    data = large(rows=12)
    loader: Any = DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context_of(method))
    assert_equal(torch.cat(list(loader)), data)


# -- data loaders -----------------------------------------------------------------------------------------------------


class Rows(Dataset[Any]):
    """Samples one by one."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.data[index]


@linux
@pytest.mark.parametrize("one_by_one", [False, True], ids=["a record", "a dataset of records"])
def test_a_batch_of_a_data_loader_takes_one_open_file(one_by_one: bool) -> None:
    data = large(fields=20, rows=12)
    loader: Any = DataLoader(Rows(data) if one_by_one else data, batch_size=4, num_workers=2)
    with nothing_left():
        gc.collect()
        before = open_segments()
        batches: list[Any] = list(loader)
        assert len(open_segments() - before) == 3  # what the workers sent ahead is here, too
        assert_equal(torch.cat(batches), data)
        batches.clear()
        gc.collect()
        assert open_segments() <= before


def test_loaders_that_are_left_early_leave_nothing() -> None:
    with nothing_left():
        for batch in DataLoader(large(rows=12), batch_size=1, num_workers=2):
            assert len(batch) == 1
            break
        del batch
        gc.collect()


def test_rows_that_differ_in_shape_come_as_lazy_stacks() -> None:
    data = lazy_stack([TensorDict({"a": torch.ones(at)}) for at in range(4)])
    batches = list(DataLoader(data, batch_size=2, num_workers=1))
    assert all(isinstance(batch, LazyStackedTensorDict) for batch in batches)
    assert [len(row["a"]) for batch in batches for row in batch.unbind(0)] == [0, 1, 2, 3]


@linux
def test_an_interrupt_at_any_line_of_opening_leaves_no_memory_mapped() -> None:
    handles = packed(large(), small=0)

    def work() -> None:
        handles.by_handles().opened()

    work()
    line = 0
    gc.collect()
    gc.freeze()  # what is imported is not looked through at each line
    try:
        while True:
            line += 1
            gc.collect()
            before = Held.now()
            outcome = interrupted(work, line, inside=shared_pickle.__file__)
            gc.collect()
            assert Held.now().beyond(before) == [], outcome.where
            if outcome.where is None:
                break
            assert isinstance(outcome.error, KeyboardInterrupt), outcome.where
    finally:
        gc.unfreeze()
    assert line > 10
