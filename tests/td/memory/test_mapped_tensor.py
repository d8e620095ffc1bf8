"""Tensors whose memory is a file."""

from __future__ import annotations

import copy
import mmap
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import MemmapTensor, MemoryMappedTensor, TensorDict
from tensorclass.td.memory import readahead
from tests import forkserver
from tests.open_files import linux, open_files
from tests.strategies import indices, shapes

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64,
    torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def grid(folder: Path) -> MemoryMappedTensor:
    return MemoryMappedTensor.from_tensor(torch.arange(6).view(2, 3), filename=folder / "grid.memmap")


def on_disk(tensor: Tensor, folder: Path) -> Tensor:
    """What another process would read."""
    raw = (folder / "grid.memmap").read_bytes()
    return torch.frombuffer(bytearray(raw), dtype=tensor.dtype)


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back(dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.tensor([0, 1, 2, 1]).to(dtype).view(2, 2)
    MemoryMappedTensor.from_tensor(values, filename=tmp_path / "x")
    found = MemoryMappedTensor.from_filename(tmp_path / "x", dtype, [2, 2])
    assert found.dtype == dtype
    assert found.view(torch.uint8).tolist() == values.view(torch.uint8).tolist()


def test_the_older_name_is_the_same_class() -> None:
    assert MemmapTensor is MemoryMappedTensor


def test_what_is_written_goes_to_the_file(tmp_path: Path) -> None:
    x = grid(tmp_path)
    x[1] = 7
    x[0].add_(1)
    x.view(6)[5] = 9
    assert on_disk(x, tmp_path).tolist() == [1, 2, 3, 7, 7, 9]


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[0], lambda x: x[:, 1:], lambda x: x[None], lambda x: x[..., 0], lambda x: x[1][1:],
        lambda x: x[0:1][0], lambda x: x.unbind(1)[2], lambda x: x.unbind(-1)[2], lambda x: x.split(2, 1)[1],
        lambda x: x.split([1, 2], -1)[1], lambda x: x.chunk(2)[1], lambda x: x.split_with_sizes([1, 1])[1],
        lambda x: next(iter(x)), lambda x: x.detach(),
    ],
)  # fmt: skip
def test_a_part_lies_in_the_same_file_and_its_pickle_too(part: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    x = grid(tmp_path)
    found: Any = part(x)
    assert type(found) is MemoryMappedTensor
    assert found.filename == x.filename
    assert found.parent_shape == (2, 3)
    sent = pickle.loads(pickle.dumps(found))
    assert torch.equal(sent, part(torch.arange(6).view(2, 3)))
    sent.fill_(40)
    assert torch.equal(found, torch.full_like(found, 40))


@given(shapes(max_dims=3, min_size=1), st.data())
def test_indexing_gives_what_a_plain_tensor_gives(shape: tuple[int, ...], data: Any) -> None:
    index = data.draw(indices(shape))
    plain = torch.arange(torch.Size(shape).numel()).view(shape)
    mapped = MemoryMappedTensor.from_tensor(plain)
    try:
        wanted = plain[index]
    except (IndexError, TypeError, ValueError, RuntimeError) as error:
        with pytest.raises(type(error)):
            mapped[index]
        return
    found = mapped[index]
    assert torch.equal(found, wanted)
    same = found.untyped_storage().data_ptr() == mapped.untyped_storage().data_ptr()
    assert isinstance(found, MemoryMappedTensor) == same


def test_the_rows_at_an_index_tensor_are_a_plain_copy(tmp_path: Path) -> None:
    x = grid(tmp_path)
    rows = x[torch.tensor([1])]
    assert type(rows) is Tensor
    rows.zero_()
    assert x[1].tolist() == [3, 4, 5]
    opened = MemoryMappedTensor.from_filename(x.filename, torch.int64, [2, 3], torch.tensor([1]))
    assert type(opened) is Tensor


@pytest.mark.skipif(readahead.advise() is None, reason="the system cannot be told")
def test_of_a_map_larger_than_memory_the_system_is_told_which_rows_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, told = 2 * mmap.PAGESIZE, list[int]()

    def tell(start: int, size: int, advice: int) -> int:
        assert size == row
        told.append((start - x.data_ptr()) // row)
        return 0

    x = MemoryMappedTensor.zeros(8, row, dtype=torch.uint8, filename=tmp_path / "x")
    wanted = torch.tensor([[5, -1], [0, 2]])
    assert readahead.limit() > 2**20
    monkeypatch.setattr(readahead, "advise", lambda: tell)
    x[wanted]
    assert told == []  # it fits into memory, where reading around is better
    monkeypatch.setattr(readahead, "limit", lambda: 2**15)
    assert x[wanted].shape == (2, 2, row)
    assert told == [5, 7, 0, 2]
    x[x[:, 0] == 0], x[:2], x[3]
    with pytest.raises(IndexError):
        x[torch.tensor([8])]
    assert told == [5, 7, 0, 2]


@pytest.mark.skipif(readahead.advise() is None, reason="the system cannot be told")
def test_rows_of_a_map_larger_than_memory_are_those_of_a_plain_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readahead, "limit", lambda: 0)
    values = torch.randn(100, 3)
    x = MemoryMappedTensor.from_tensor(values, filename=tmp_path / "x")
    rows = torch.randint(-100, 100, (50,))
    assert torch.equal(x[rows], values[rows])
    assert torch.equal(x[3:][rows % 90], values[3:][rows % 90])  # does not begin at a page


def test_an_index_opens_a_part(tmp_path: Path) -> None:
    x = grid(tmp_path)
    row = MemoryMappedTensor.from_filename(x.filename, torch.int64, [2, 3], 1)
    assert row.index == 1
    assert row.parent_shape == (2, 3)
    assert row.tolist() == [3, 4, 5]
    assert x[1:][0].index == [slice(1, None), 0]


def test_results_of_operations_are_plain_tensors(tmp_path: Path) -> None:
    x = grid(tmp_path)
    for found in (x + 1, x.clone(), x.float(), torch.stack([x, x]), torch.empty_like(x), copy.deepcopy(x), x.view(6)):
        assert type(found) is Tensor
    assert type(x.add_(1)) is MemoryMappedTensor


def test_a_parameter_is_trained_in_its_file(tmp_path: Path) -> None:
    x = MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "w")
    weight = torch.nn.Parameter(x)
    weight.sum().backward()
    torch.optim.SGD([weight], lr=0.5).step()
    assert MemoryMappedTensor.from_filename(tmp_path / "w", torch.float32, [3]).tolist() == [0.5] * 3


def test_vmap_and_grad_take_them(tmp_path: Path) -> None:
    x = grid(tmp_path)
    assert torch.vmap(lambda row: row.sum())(x).tolist() == [3, 12]
    wanted = torch.arange(6).view(2, 3) * 2.0
    assert torch.equal(torch.func.grad(lambda y: (y**2).sum())(MemoryMappedTensor.from_tensor(x.float())), wanted)


def test_torch_compile_takes_them(tmp_path: Path) -> None:
    x = grid(tmp_path)

    @torch.compile(backend="eager", fullgraph=True)
    def doubled(y: Tensor) -> Tensor:
        return y * 2 + y[0]

    assert torch.equal(doubled(x), x * 2 + x[0])


def test_torch_save_writes_the_name_of_the_file(tmp_path: Path) -> None:
    x = grid(tmp_path)
    torch.save(x, tmp_path / "saved.pt")
    loaded = torch.load(tmp_path / "saved.pt", weights_only=False)
    assert loaded.filename == x.filename
    loaded[0] = 5
    assert x[0].tolist() == [5, 5, 5]


def test_a_relative_name_is_kept_when_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = MemoryMappedTensor.from_tensor(torch.ones(3), filename="x.memmap")
    monkeypatch.chdir("/")
    assert x.filename == str(tmp_path / "x.memmap")
    assert pickle.loads(pickle.dumps(x)).tolist() == [1.0] * 3


def test_mode_r_keeps_what_is_written_in_this_process(tmp_path: Path) -> None:
    x = grid(tmp_path)
    mine = MemoryMappedTensor.from_filename(x.filename, torch.int64, [2, 3], mode="r")
    mine[0] = 9
    assert mine[0].tolist() == [9, 9, 9]
    assert x[0].tolist() == [0, 1, 2]
    assert not mine.is_shared()
    with pytest.raises(ValueError, match="expected mode to be 'r', 'r\\+' or None, got 'w'"):
        MemoryMappedTensor.from_filename(x.filename, torch.int64, [2, 3], mode="w")


@pytest.mark.skipif(os.geteuid() == 0, reason="for root no file is only read")
def test_a_file_that_is_only_read_opens_in_mode_r(tmp_path: Path) -> None:
    x = grid(tmp_path)
    os.chmod(x.filename, 0o444)
    assert not MemoryMappedTensor.from_filename(x.filename, torch.int64, [2, 3]).is_shared()
    with pytest.raises(PermissionError):
        MemoryMappedTensor.from_filename(x.filename, torch.int64, [2, 3], mode="r+")


def test_views_are_shared_too_and_never_leave_their_file(tmp_path: Path) -> None:
    x = grid(tmp_path)
    view = x.view(6)
    assert view.is_shared()
    view.share_memory_()  # moves what is not shared, and would take x with it
    x[0] = 8
    assert on_disk(x, tmp_path).tolist() == [8, 8, 8, 3, 4, 5]


def test_a_file_that_is_there_is_written_over_only_when_asked(tmp_path: Path) -> None:
    x = grid(tmp_path)
    for make in (MemoryMappedTensor.empty, MemoryMappedTensor.zeros, MemoryMappedTensor.ones):
        with pytest.raises(FileExistsError, match="existsok=True"):
            make(2, 3, filename=x.filename)
        with pytest.raises(RuntimeError):  # as in the peer
            make(2, 3, filename=x.filename)
    MemoryMappedTensor.full((2,), 4, filename=x.filename, existsok=True)
    assert on_disk(x, tmp_path).tolist() == [4, 4]
    assert x[1].tolist() == [3, 4, 5]  # who has mapped the old file keeps it
    assert os.listdir(tmp_path) == ["grid.memmap"]


def test_writing_over_its_own_file_keeps_the_values(tmp_path: Path) -> None:
    x = grid(tmp_path)
    MemoryMappedTensor.from_tensor(x[1:], filename=x.filename, existsok=True, copy_existing=True)
    assert on_disk(x, tmp_path).tolist() == [3, 4, 5]


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    bad = torch.zeros(2, device="meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        MemoryMappedTensor.from_tensor(bad, filename=tmp_path / "x")
    with pytest.raises((RuntimeError, NotImplementedError)):
        MemoryMappedTensor.from_tensor(bad, filename=tmp_path / "x", existsok=True)
    assert os.listdir(tmp_path) == []


def test_a_tensor_that_is_there_already_is_the_result(tmp_path: Path) -> None:
    x = grid(tmp_path)
    assert MemoryMappedTensor.from_tensor(x, filename=x.filename) is x
    shared = MemoryMappedTensor.from_tensor(torch.ones(2))
    assert MemoryMappedTensor.from_tensor(shared) is shared
    with pytest.raises(RuntimeError, match="copy_existing=True"):
        MemoryMappedTensor.from_tensor(x, filename=tmp_path / "other")
    other = MemoryMappedTensor.from_tensor(x, filename=tmp_path / "other", copy_existing=True)
    assert torch.equal(other, x)


def test_tensors_that_want_gradients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="detach"):
        MemoryMappedTensor.from_tensor(torch.ones(2, requires_grad=True))


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="got list"):
        MemoryMappedTensor.from_tensor([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float32"):
        MemoryMappedTensor(torch.ones(2), dtype=torch.float32)


@pytest.mark.parametrize("make", ["empty", "zeros", "ones"])
def test_files_are_mapped_to_the_memory_of_the_cpu(make: str) -> None:
    function = getattr(MemoryMappedTensor, make)
    assert function(2, device="cpu").shape == (2,)
    with pytest.raises(RuntimeError, match="CPU"):
        function(2, device="cuda")


def test_factories_take_shapes_as_torch_does(tmp_path: Path) -> None:
    for size in ((2, 3), ([2, 3],), (torch.Size([2, 3]),)):
        assert MemoryMappedTensor.zeros(*size).shape == (2, 3)
    assert MemoryMappedTensor.full([2], 3).tolist() == [3, 3]
    assert MemoryMappedTensor.full(2, fill_value=3.0).dtype == torch.float32
    like = torch.zeros(2, dtype=torch.int8)
    assert MemoryMappedTensor.full_like(like, 4, filename=tmp_path / "x").tolist() == [4, 4]
    for other in (MemoryMappedTensor.ones_like(like), MemoryMappedTensor.zeros_like(like)):
        assert (other.dtype, other.shape) == (torch.int8, (2,))


def test_tensors_without_values_need_no_memory(tmp_path: Path) -> None:
    assert MemoryMappedTensor.empty(0, 3).shape == (0, 3)
    x = MemoryMappedTensor.from_tensor(torch.zeros(0, 3), filename=tmp_path / "x")
    assert MemoryMappedTensor.from_filename(x.filename, torch.float32, [0, 3]).shape == (0, 3)
    assert pickle.loads(pickle.dumps(x)).shape == (0, 3)


def test_a_file_that_is_missing_or_short_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        MemoryMappedTensor.from_filename(tmp_path / "none", torch.int64, [2])
    x = grid(tmp_path)
    with pytest.raises(ValueError, match=r"grid\.memmap: expected 56 bytes.*; it has 48"):
        MemoryMappedTensor.from_filename(x.filename, torch.int64, [7])


def test_a_file_name_stays(tmp_path: Path) -> None:
    x = grid(tmp_path)
    with pytest.raises(RuntimeError, match="stays"):
        x.filename = str(tmp_path / "other")
    with pytest.raises(RuntimeError, match="no file name"):
        _ = MemoryMappedTensor.ones(2).filename


def test_a_handler_gives_the_same_memory() -> None:
    x = MemoryMappedTensor.from_tensor(torch.arange(4))
    again = MemoryMappedTensor.from_handler(x.handler, torch.int64, [4], slice(1, 3))
    again.zero_()
    assert x.tolist() == [0, 0, 0, 3]
    assert MemoryMappedTensor(None, handler=x.handler, dtype=torch.int64, shape=[2, 2]).shape == (2, 2)
    with pytest.raises(ValueError, match="memory that processes share"):
        MemoryMappedTensor.from_storage(torch.ones(2).untyped_storage(), shape=[2])


@linux
def test_no_file_stays_open(tmp_path: Path) -> None:
    kept = [MemoryMappedTensor.ones(2, filename=tmp_path / str(at)) for at in range(20)]
    kept += [MemoryMappedTensor.from_filename(tmp_path / str(at), torch.float32, [2]) for at in range(20)]
    assert open_files(tmp_path) == []
    del kept
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def _add_one(incoming: Any, outgoing: Any) -> None:
    for _ in range(3):
        tensor = incoming.get()
        tensor += 1
        outgoing.put(type(tensor).__name__)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_processes_write_to_the_same_file(method: str, tmp_path: Path) -> None:
    context = forkserver.context_of(method)
    incoming, outgoing = context.Queue(), context.Queue()
    worker = context.Process(target=_add_one, args=(incoming, outgoing))
    worker.start()
    x = grid(tmp_path)
    data = TensorDict(a=torch.zeros(2)).memmap(tmp_path / "data")
    for sent in (x, x[1], data):
        incoming.put(sent)
    assert [outgoing.get(timeout=120) for _ in range(3)] == ["MemoryMappedTensor", "MemoryMappedTensor", "TensorDict"]
    worker.join()
    assert on_disk(x, tmp_path).tolist() == [1, 2, 3, 5, 6, 7]
    assert data["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("index", [[0, 2], [-1, 0], [[1, 0], [2, 2]], [True, False, True]], ids=str)
def test_rows_at_an_index_tensor_are_a_plain_copy(index: list[object], tmp_path: Path) -> None:
    values = torch.arange(6).view(3, 2)
    mapped = MemoryMappedTensor.from_tensor(values, filename=tmp_path / "rows.memmap")
    found = mapped[torch.tensor(index)]
    assert type(found) is torch.Tensor
    assert torch.equal(found, values[torch.tensor(index)])
    found.zero_()
    assert torch.equal(mapped, values)
    with pytest.raises(IndexError):
        mapped[torch.tensor([3])]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda file: MemoryMappedTensor.empty(-2, filename=file), RuntimeError, r"without negative sizes, got \[-2\]"),
        (lambda file: MemoryMappedTensor.zeros(2.5, filename=file), TypeError, r"expected a shape, .* got 2\.5"),
        (lambda file: MemoryMappedTensor.full((2, 2), filename=file), TypeError, r"a shape and a number"),
        (lambda file: MemoryMappedTensor.full(filename=file), TypeError, r"a shape and a number"),
        (lambda file: MemoryMappedTensor.from_filename(file, None, [2]), TypeError, r"expected dtype .* got None"),
        (lambda file: MemoryMappedTensor.from_filename(__file__, torch.int8, [-1]), RuntimeError, r"negative"),
        (
            lambda file: MemoryMappedTensor.from_tensor(torch.ones(2).to_sparse(), filename=file),
            TypeError,
            r"dense tensors, got one of the layout torch\.sparse_coo",
        ),
        (
            lambda file: MemoryMappedTensor.from_tensor(torch.ones(2), shape=[3], copy_data=False, filename=file),
            ValueError,
            r"\[3\] does not fit 2 values",
        ),
        (
            lambda file: MemoryMappedTensor(torch.ones(2), handler=torch.ones(2).untyped_storage(), filename=file),
            TypeError,
            r"not both",
        ),
    ],
    ids=[
        "negative",
        "float",
        "nothing to fill with",
        "nothing",
        "dtype",
        "all",
        "sparse",
        "other shape",
        "two sources",
    ],
)
def test_arguments_that_make_no_sense_say_so_and_leave_no_file(
    call: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_files_are_mapped_to_the_cpu_also_where_another_device_is_the_default(tmp_path: Path) -> None:
    with torch.device("meta"):
        made = [
            MemoryMappedTensor.zeros(2),
            MemoryMappedTensor.zeros(0),
            MemoryMappedTensor.full((2,), 3, filename=tmp_path / "x"),
            MemoryMappedTensor.from_handler(MemoryMappedTensor.ones(2).handler, torch.float32, [2]),
        ]
    assert [tensor.tolist() for tensor in made] == [[0.0, 0.0], [], [3, 3], [1.0, 1.0]]


def test_the_shape_can_be_given_by_its_name() -> None:
    assert MemoryMappedTensor.empty(shape=[2, 3], dtype=torch.int64).shape == (2, 3)
    assert MemoryMappedTensor.zeros(shape=torch.Size([2])).tolist() == [0.0, 0.0]
    assert MemoryMappedTensor.ones(shape=2).tolist() == [1.0, 1.0]
    assert MemoryMappedTensor.full(shape=(2,), fill_value=3).tolist() == [3, 3]
    with pytest.raises(TypeError, match="by position or as shape=, got both"):
        MemoryMappedTensor.empty(2, shape=[2])
