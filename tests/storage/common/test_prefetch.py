"""``num_threads`` of loading: threads read what is read, and the result is the same."""

import struct
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Size, Tensor

from tensorclass import TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.storage import FileError
from tensorclass.storage.common import collection_tree, describe_collection, prefetch, rebuild_collection
from tensorclass.storage.common.collection_tree import TreeSource
from tensorclass.storage.common.prefetch import prefetching


class Sample(TensorClass):
    x: Tensor
    text: str


def data() -> TensorDict:
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)
    return TensorDict(
        {
            "a": torch.arange(6).view(2, 3),
            "empty": torch.zeros(2, 0),
            "below": {"b": torch.rand(2), "rows": ["u", "v"]},
            "parts": lazy_stack([TensorDict({"c": torch.ones(at + 1)}) for at in range(2)]),
            "record": Sample(torch.ones(2), "t", batch_size=[2]),
            "one": UnbatchedTensor(torch.ones(3)),
            "ragged": ragged,
        },
        [2],
    )


def values(found: Any) -> list[Tensor]:
    return [part for leaf in found._leaves() for part in (leaf.unbind() if leaf.is_nested else [leaf])]


class Seen:
    """The names of the threads that a function runs in."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.threads: set[str] = set()

    def __call__(self, *args: Any) -> Any:
        self.threads.add(threading.current_thread().name.split("_")[0])
        return self.function(*args)


@pytest.mark.parametrize("num_threads", [0, 1, 2, 5])
def test_checksums_are_compared_by_threads(tmp_path: Path, num_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = data()
    saved.memmap(tmp_path / "a", checksum=True)
    seen = Seen(collection_tree.checksum_of)
    monkeypatch.setattr(collection_tree, "checksum_of", seen)
    found = TensorDict.load_memmap(tmp_path / "a", verify=True, num_threads=num_threads)
    assert ("reading" in seen.threads) == (num_threads > 1)
    assert all(map(torch.equal, values(found), values(saved)))
    assert found["record"].text == "t"
    assert found["below", "rows"] == ["u", "v"]


@pytest.mark.parametrize("num_threads", [0, 3])
@pytest.mark.parametrize("name", ["a.memmap", "below/b.memmap", "parts/1/c.memmap", "ragged%offsets.memmap"])
def test_damage_is_seen_by_threads(tmp_path: Path, num_threads: int, name: str) -> None:
    data().memmap(tmp_path / "a", checksum=True)
    path = tmp_path / "a" / name
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    with pytest.raises(FileError, match="checksum differs"):
        TensorDict.load_memmap(tmp_path / "a", verify=True, num_threads=num_threads)


@pytest.mark.parametrize("num_threads", [0, 3])
def test_a_missing_file_is_the_same_error(tmp_path: Path, num_threads: int) -> None:
    data().memmap(tmp_path / "a", checksum=True)
    (tmp_path / "a" / "below" / "b.memmap").unlink()
    with pytest.raises(FileError, match=r"b\.memmap is missing"):
        TensorDict.load_memmap(tmp_path / "a", verify=True, num_threads=num_threads)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("reading")]


def plain() -> TensorDict:
    return TensorDict({"a": torch.arange(6.0).view(2, 3), "below": {"b": torch.rand(2)}, "rows": ["u", "v"]}, [2])


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_out_is_filled_in_place_by_threads(tmp_path: Path, num_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = plain()
    saved.memmap(tmp_path / "a")
    out = saved.clone().zero_()
    out["rows"] = ["x", "y"]
    own = out["a"]
    pools: list[int] = []
    monkeypatch.setattr(prefetch, "ThreadPoolExecutor", lambda n, **_: pools.append(n) or ThreadPoolExecutor(n))
    assert TensorDict.load_memmap(tmp_path / "a", out=out, num_threads=num_threads) is out
    assert pools == ([3] if num_threads == 3 else [])
    assert out["a"] is own
    assert (out == saved).all()
    assert out["rows"] == ["u", "v"]


@pytest.mark.parametrize("num_threads", [0, 3])
def test_an_out_that_does_not_fit_is_left_as_it_is(tmp_path: Path, num_threads: int) -> None:
    plain().memmap(tmp_path / "a")
    out = plain().zero_()
    out["below", "b"] = torch.zeros(2, 7)
    with pytest.raises(RuntimeError, match="b"):
        TensorDict.load_memmap(tmp_path / "a", out=out, num_threads=num_threads)
    assert not out["a"].any()


def test_values_for_a_device_are_read_by_threads_in_their_order() -> None:
    saved = data()
    node, leaves = describe_collection.describe(saved, "test")
    tensors = {(leaf.path, leaf.buffer): leaf.tensor for leaf in leaves}
    threads: list[str] = []
    main: list[tuple[str, ...]] = []

    def opened(path: Any, part: str, dtype: torch.dtype, shape: Size) -> Any:
        def work() -> Tensor:
            threads.append(threading.current_thread().name)
            return tensors[path, part].clone()

        return work

    def read(path: Any, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        main.append((*path, part))
        return tensors[path, part]

    with prefetching(node, TreeSource("file", read), opened, 3) as source:
        found = rebuild_collection.rebuild(node, None, source)
    assert all(map(torch.equal, values(found), values(saved)))
    assert len(threads) == len(tensors) - 1
    assert all(name.startswith("reading") for name in threads)
    assert main == [("ragged", "offsets")]  # needed at once


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("num_threads", [0, 4])
def test_values_go_to_a_device(tmp_path: Path, num_threads: int) -> None:
    plain().memmap(tmp_path / "a")
    found = TensorDict.load_memmap(tmp_path / "a", "cuda", num_threads=num_threads)
    assert found.device == torch.device("cuda:0")
    assert torch.equal(found["a"].cpu(), plain()["a"])


@pytest.mark.parametrize("compression", ["stored", "deflated"])
@pytest.mark.parametrize("num_threads", [0, 3])
def test_an_archive_is_read_by_threads(tmp_path: Path, compression: str, num_threads: int) -> None:
    saved = data()
    saved.memmap(tmp_path / "a.tdz", compression=compression)
    found = TensorDict.load_memmap(tmp_path / "a.tdz", num_threads=num_threads, verify=True)
    assert all(map(torch.equal, values(found), values(saved)))
    path = tmp_path / "a.tdz"
    text = bytearray(path.read_bytes())
    at = zipfile.ZipFile(path).getinfo("a.memmap").header_offset
    name, extra = struct.unpack_from("<HH", text, at + 26)
    text[at + 30 + name + extra + 2] ^= 1
    path.write_bytes(text)
    with pytest.raises(FileError):
        TensorDict.load_memmap(path, num_threads=num_threads, verify=True)
