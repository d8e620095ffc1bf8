"""Pickles of protocol 5: the memory of tensors goes beside them, and comes back as memory of one's own."""

from __future__ import annotations

import mmap
import os
import pickle
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.td.memory.copy_on_write import copy_on_write
from tests import fresh_python
from tests import strategies as draw
from tests.checks import assert_equal
from tests.open_files import open_files
from tests.samples import mixed

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="maps are found through /proc")


class Sample(TensorClass):
    x: Tensor
    text: str = "t"


def taken_apart(data: Any) -> tuple[bytes, list[memoryview]]:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(data, 5, buffer_callback=buffers.append)
    return pickled, [buffer.raw() for buffer in buffers]


@given(draw.trees(), draw.shapes(0, 2, min_size=1), st.data())
def test_any_collection_comes_back(tree: Any, batch_size: Any, data: st.DataObject) -> None:
    collection = tree.build(batch_size, names=data.draw(draw.names_or_none(len(batch_size))))
    pickled, buffers = taken_apart(collection)
    assert_equal(pickle.loads(pickled, buffers=[bytes(buffer) for buffer in buffers]), collection)
    assert_equal(pickle.loads(pickle.dumps(collection, 5)), collection)


def test_the_memory_of_large_tensors_is_handed_out_as_it_is() -> None:
    data = Sample(torch.arange(1000.0), batch_size=[1000])
    pickled, buffers = taken_apart(data)
    assert len(pickled) < 600
    assert [np.frombuffer(buffer, np.uint8).__array_interface__["data"][0] for buffer in buffers] == [data.x.data_ptr()]


def test_tensors_that_share_memory_share_it_after_a_pickle_of_the_default_protocol() -> None:
    whole = torch.arange(10.0)
    data = TensorDict({"whole": whole, "rows": whole[2:6].view(2, 2), "below": {"same": whole}})
    back = pickle.loads(pickle.dumps(data, 4))
    assert_equal(back, data)
    assert back["below", "same"] is back["whole"]
    back["whole"].fill_(7)
    assert back["rows"].tolist() == [[7, 7], [7, 7]]
    assert data["rows"].tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_tensors_of_all_kinds_come_back_by_every_protocol(protocol: int) -> None:
    data = TensorDict(
        {
            "none": torch.empty(0, 3),
            "bfloat16": torch.arange(4, dtype=torch.bfloat16),
            "transposed": torch.arange(6).view(2, 3).t(),
            "expanded": torch.ones(1).expand(3),
            "first of a strided": torch.arange(4.0)[::2][:1],
            "column of one": torch.arange(6.0).view(2, 3)[:1, ::2].t()[:, :1],
            "parameter": torch.nn.Parameter(torch.ones(2)),
            "grad": torch.ones(2, requires_grad=True),
            "conj": torch.ones(2, dtype=torch.complex64).conj(),
            "sparse": torch.eye(2).to_sparse(),
        }
    )
    back = pickle.loads(pickle.dumps(data, protocol))
    for key, value in data.items():
        assert torch.equal(value.to_dense(), back[key].to_dense())
        assert (type(back[key]), back[key].dtype, back[key].requires_grad) == (
            type(value), value.dtype, value.requires_grad
        )  # fmt: skip


def test_small_tensors_stay_in_the_pickle() -> None:
    _, buffers = taken_apart(Sample(torch.arange(10.0), batch_size=[10]))
    assert buffers == []


def test_memory_that_can_be_written_is_not_copied() -> None:
    pickled, buffers = taken_apart(Sample(torch.arange(1000.0), batch_size=[1000]))
    memory = bytearray(buffers[0])
    back = pickle.loads(pickled, buffers=[memory])
    back.x[0] = 7
    assert np.frombuffer(memory, np.float32)[0] == 7


def test_memory_for_reading_alone_is_copied() -> None:
    pickled, buffers = taken_apart(Sample(torch.zeros(1000), batch_size=[1000]))
    memory = bytes(buffers[0])
    pickle.loads(pickled, buffers=[memory]).x.fill_(7)
    assert not any(memory)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(1200.0).view(30, 40).t(),
        torch.arange(1200.0).view(30, 40)[:, ::2],
        torch.arange(30.0).view(30, 1).expand(30, 400),
        torch.arange(2400).view(2, 30, 40).permute(2, 0, 1).to(torch.bfloat16),
        torch.arange(600.0).view(30, 20) * 1j,
        (torch.arange(600.0).view(30, 20) * 1j).conj(),
        torch.zeros(30, 0, 4, dtype=torch.int8),
        torch.arange(1200).view(30, 40) % 2 == 0,
        torch.ones(30, 40, requires_grad=True),
        torch.ones(30, 40).to_sparse(),
    ],
    ids=[
        "transposed",
        "strided",
        "expanded",
        "permuted",
        "complex",
        "conjugate",
        "empty",
        "bool",
        "gradient",
        "sparse",
    ],
)
def test_tensors_come_back_however_they_lie_in_memory(tensor: Tensor) -> None:
    data = TensorDict({"x": tensor}, [30] if tensor.shape[0] == 30 else [40])
    pickled, buffers = taken_apart(data)
    back = pickle.loads(pickled, buffers=[bytes(buffer) for buffer in buffers])["x"]
    assert torch.equal(back.to_dense(), tensor.to_dense())
    assert (back.dtype, back.requires_grad, back.layout) == (tensor.dtype, tensor.requires_grad, tensor.layout)


def test_rows_that_are_one_in_memory_are_sent_once() -> None:
    data = TensorDict({"x": torch.ones(1, 1000).expand(1000, 1000)}, [1000])
    _, buffers = taken_apart(data)
    assert [buffer.nbytes for buffer in buffers] == [4000]


def test_a_part_of_a_tensor_does_not_bring_the_rest() -> None:
    data = Sample(torch.ones(10_000), batch_size=[10_000])
    _, buffers = taken_apart(data[:1000])
    assert [buffer.nbytes for buffer in buffers] == [4000]


def test_a_tensor_under_two_keys_is_one() -> None:
    x = torch.ones(1000)
    back = pickle.loads(pickle.dumps(TensorDict({"a": x, "b": {"c": x}}, [1000]), 5))
    assert back["a"].data_ptr() == back["b", "c"].data_ptr()


def test_consolidated_memory_is_one_buffer() -> None:
    data = mixed().apply(lambda x: x.repeat_interleave(500, -1) if x.ndim > 1 else x).consolidate()
    pickled, buffers = taken_apart(data)
    back = pickle.loads(pickled, buffers=[bytes(buffer) for buffer in buffers])
    assert len(buffers) == 1
    assert back.is_consolidated()
    assert_equal(back, data)


def test_a_lazy_stack_and_its_gradients_come_back() -> None:
    data = lazy_stack([Sample(torch.ones(3, n, requires_grad=True), batch_size=[3]) for n in (400, 500)])
    pickled, buffers = taken_apart(data)
    back = pickle.loads(pickled, buffers=buffers)
    assert [part.x.shape[1] for part in back.unbind(0)] == [400, 500]
    assert all(part.x.requires_grad for part in back.unbind(0))


def test_between_processes_of_one_program_tensors_are_shared_whatever_the_protocol() -> None:
    data = TensorDict({"x": torch.zeros(1000)}, [1000]).share_memory_()
    back = pickle.loads(bytes(ForkingPickler.dumps(data, 5)))
    back["x"][0] = 7
    assert data["x"][0] == 7


def test_a_class_in_a_function_goes_with_cloudpickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")

    class Local(TensorClass):
        x: Tensor
        text: str = "t"

    data = Local(torch.ones(3), text="other", batch_size=[3])
    assert type(pickle.loads(cloudpickle.dumps(data))) is Local
    program = (
        "import pickle, sys; back = pickle.loads(sys.stdin.buffer.read()); print(type(back).__name__, back[:2].x.sum())"
    )
    ran = fresh_python.run(["-c", program], input=cloudpickle.dumps(data), check=True, text=False)
    assert ran.stdout.decode().strip() == "Local tensor(2.)"


# -- pages ------------------------------------------------------------------------------------------------------------

SIZE = 3 * 2**20


@pytest.fixture
def shared() -> Iterator[mmap.mmap]:
    """Memory as that of an object store: a file without a name, which is mapped to be shared."""
    file = os.memfd_create("store")
    os.ftruncate(file, SIZE)
    try:
        with mmap.mmap(file, SIZE) as memory:
            memory[:] = bytes(range(256)) * (SIZE // 256)
            yield memory
    finally:
        os.close(file)


def private(memory: mmap.mmap, begin: int, size: int) -> Any:
    return copy_on_write(memoryview(memory)[begin : begin + size].toreadonly())


@linux
def test_pages_that_are_shared_are_read_and_written_without_anybody_seeing_it(shared: mmap.mmap) -> None:
    pages = private(shared, 5000, 10_000)
    assert bytes(pages) == shared[5000:15_000]
    pages[0:3] = b"new"
    assert pages[0:3] == b"new"
    assert shared[5000:5003] == bytes([5000 % 256, 5001 % 256, 5002 % 256])
    with pytest.raises(BufferError):
        shared.close()
    del pages
    shared.close()


@linux
def test_a_large_tensor_of_a_store_is_no_copy(shared: mmap.mmap) -> None:
    pickled, buffers = taken_apart(Sample(torch.ones(500_000), batch_size=[500_000]))
    shared[64 : 64 + 2_000_000] = bytes(buffers[0])
    back = pickle.loads(pickled, buffers=[memoryview(shared)[64 : 64 + 2_000_000].toreadonly()])
    shared[64:68] = bytes(4)  # what nobody does with a store; it shows that the memory is the same
    assert back.x[0] == 0
    back.x[1] = 5
    assert np.frombuffer(shared[64:72], np.float32).tolist() == [0, 1]
    with pytest.raises(BufferError):  # the record keeps the memory
        shared.close()


@linux
def test_no_file_stays_open(shared: mmap.mmap) -> None:
    before = open_files()
    held = [private(shared, 0, SIZE) for _ in range(10)]
    assert all(pages is not None for pages in held)
    assert set(open_files()) <= set(before)


def test_memory_of_this_process_alone_has_no_pages_to_share() -> None:
    assert copy_on_write(memoryview(bytes(SIZE))) is None
