"""Consolidated collections: one piece of memory, one file."""

import io
import json
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tensorclass import TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.storage import FileError
from tensorclass.storage.common import sealed_json
from tests.storage.memmap.test_memmap_folder import Inner, Sample, a_tree
from tests.storage.test_archive import same


def mixed() -> TensorDict:
    return TensorDict({"a": torch.arange(6.0).view(2, 3), "b": {"c": torch.ones(2, dtype=torch.uint8)}, "s": "t"}, [2])


def storages(data: Any) -> int:
    return len({leaf.untyped_storage().data_ptr() for leaf in data._leaves() if leaf.numel()})


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=4), st.sampled_from([torch.float32, torch.bool, torch.complex128, torch.bfloat16]), max_size=5
    ),
    st.lists(st.integers(0, 3), max_size=3),
)
def test_any_keys_dtypes_and_shapes_come_back(
    tmp_path_factory: Any, keys: dict[str, torch.dtype], shape: list[int]
) -> None:
    path = tmp_path_factory.mktemp("drawn") / "f"
    data = TensorDict({key: torch.randn(shape).to(dtype) for key, dtype in keys.items()}, shape)
    data["nested"] = data.clone()
    packed = data.consolidate(path)
    loaded = TensorDict.from_consolidated(path)
    for found in (packed, loaded, pickle.loads(pickle.dumps(packed))):
        assert same(found, data)
        assert found.batch_size == data.batch_size
        assert storages(found) <= 1


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"share_memory": True}, {"device": "cpu"}])
def test_all_tensors_lie_in_one_piece(options: Any) -> None:
    data = mixed()
    packed = data.consolidate(**options)
    assert same(packed, data)
    assert (storages(packed), packed.is_locked, packed.is_consolidated()) == (1, True, True)
    assert (data.is_consolidated(), data.is_locked, packed["s"]) == (False, False, "t")
    assert packed["a"].is_shared() is ("share_memory" in options)


def test_in_place_the_collection_itself_gets_the_tensors(tmp_path: Path) -> None:
    for filename in (None, tmp_path / "f"):
        data, want = mixed(), mixed()
        assert data.consolidate(filename, inplace=True) is data
        assert same(data, want)
        assert (storages(data), data.is_locked) == (1, True)


def test_early_there_is_a_future() -> None:
    assert same(mixed().consolidate(return_early=True).result(), mixed())


def test_a_transfer_moves_one_piece() -> None:
    moved = mixed().consolidate().to("meta")
    assert moved["a"].untyped_storage()._cdata == moved["b", "c"].untyped_storage()._cdata
    assert (moved.device, moved["b"].device) == (torch.device("meta"), torch.device("meta"))
    assert mixed().to("meta")["a"].shape == (2, 3)


def test_a_pickle_has_the_memory_once() -> None:
    data = TensorDict({str(at): torch.rand(1000) for at in range(50)})
    packed = data.consolidate()
    assert len(pickle.dumps(packed)) < 220_000
    again = pickle.loads(pickle.dumps(packed))
    assert same(again, data)
    assert again.is_locked
    assert again.is_consolidated()
    file = io.BytesIO()
    torch.save(packed, file)
    assert same(torch.load(io.BytesIO(file.getvalue()), weights_only=True), data)


@pytest.mark.parametrize("name", ["record", "lazy", "unbatched", "jagged", "tree"])
def test_every_kind_of_collection_comes_back(tmp_path: Path, name: str) -> None:
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)
    data: Any = {
        "record": Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2]),
        "lazy": lazy_stack([TensorDict({"a": torch.zeros(3)}), TensorDict({"a": torch.ones(4)})]),
        "unbatched": TensorDict({"one": UnbatchedTensor(torch.ones(3)), "a": torch.ones(2)}, [2]),
        "jagged": TensorDict({"r": ragged, "a": torch.ones(2)}, [2]),
        "tree": a_tree(),
    }[name]
    packed = data.consolidate(tmp_path / "f")
    loaded = (Sample if name == "record" else TensorDict).from_consolidated(tmp_path / "f")
    for found in (packed, loaded, pickle.loads(pickle.dumps(packed))):
        assert type(found) is type(data)
        assert found.batch_size == data.batch_size
        if name == "jagged":
            assert [row.tolist() for row in found["r"].unbind()] == [[0.0, 0.0], [1.0, 1.0, 1.0]]
        elif name == "lazy":
            assert all(map(same, found.unbind(), data.unbind()))
        else:
            assert same(found, data)


def test_a_file_is_mapped_and_what_is_written_stays_in_the_process(tmp_path: Path) -> None:
    packed = mixed().consolidate(tmp_path / "f")
    packed["a"].fill_(7.0)
    TensorDict.from_consolidated(tmp_path / "f")["a"].fill_(8.0)
    assert same(TensorDict.from_consolidated(tmp_path / "f"), mixed())
    assert same(mixed().consolidate(tmp_path / "f", use_buffer=True), mixed())
    assert os.listdir(tmp_path) == ["f"]


def test_the_metadata_is_kept_in_any_case() -> None:
    for metadata in (False, True):
        packed = pickle.loads(pickle.dumps(mixed().consolidate(metadata=metadata)))
        assert packed.is_consolidated()
        assert same(packed, mixed())


def test_what_cannot_be_done_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device="):
        TensorDict(a=torch.ones(1), b=torch.ones(1, device="meta")).consolidate()
    with pytest.raises(TypeError, match="sparse"):
        TensorDict(a=torch.eye(3).to_sparse()).consolidate()
    with pytest.raises(TypeError, match="o:"):
        TensorDict(a=torch.ones(1), o=object()).consolidate(tmp_path / "f")
    assert TensorDict(a=torch.ones(1), o=object).consolidate()["o"] is object
    with pytest.raises(RuntimeError, match="locked"):
        mixed().lock_().consolidate(inplace=True)
    assert os.listdir(tmp_path) == []


def test_a_cut_or_changed_file_is_an_error_or_tells_the_same_shapes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    mixed().consolidate(path)
    raw = path.read_bytes()
    for at in range(32, len(raw), 3):  # behind the values
        for mutated in (raw[:at], raw[:at] + bytes([raw[at] ^ 0x15]) + raw[at + 1 :]):
            path.write_bytes(mutated)
            try:
                wrong: Any = None if same(TensorDict.from_consolidated(path), mixed()) else mutated
            except FileError as error:
                wrong = None if str(error).startswith(str(path)) else error
            assert wrong is None


def _sent(queue: Any, back: Any) -> None:
    back.put(float(queue.get()["a"].sum()))


def test_it_is_sent_to_a_process() -> None:
    context = multiprocessing.get_context("fork")
    queue, back = context.Queue(), context.Queue()
    worker = context.Process(target=_sent, args=(queue, back))
    worker.start()
    queue.put(mixed().consolidate(share_memory=True))
    assert back.get(timeout=120) == 15.0
    worker.join()


def overlapping(path: Path, starts: list[int]) -> None:
    """A file of this package whose tensors begin at these bytes."""
    TensorDict(a=torch.ones(4), z=torch.zeros(0), b=torch.ones(4), below={"c": torch.ones(2)}).consolidate(path)
    raw = path.read_bytes()
    peer = int.from_bytes(raw[-8:], "little") + 8
    end = len(raw) - peer - 16
    own = int.from_bytes(raw[end : end + 8], "little")
    known = sealed_json.unsealed(raw[end - own : end], "")
    text = sealed_json.sealed({**known, "starts": starts})
    path.write_bytes(raw[: end - own] + text + len(text).to_bytes(8, "little") + raw[end + 8 :])


@pytest.mark.parametrize(
    "starts, keys",
    [
        ([0, 0, 0, 32], "a and b have 16 bytes"),
        ([0, 0, 12, 32], "a and b have 4 bytes"),
        ([0, 0, 16, 8], "a and below.c have 8 bytes"),
        ([16, 0, 0, 12], r"b and below.c have 4 bytes"),
    ],
)
def test_tensors_that_share_bytes_are_refused(starts: list[int], keys: str, tmp_path: Path) -> None:
    overlapping(tmp_path / "f", starts)
    with pytest.raises(FileError, match=f"^{tmp_path}/f: {keys} in common"):
        TensorDict.from_consolidated(tmp_path / "f")


def test_tensors_without_values_lie_anywhere(tmp_path: Path) -> None:
    overlapping(tmp_path / "f", [24, 30, 0, 16])
    data = TensorDict.from_consolidated(tmp_path / "f")
    data["b"].zero_()
    assert data["a"].numel() == 4
    assert data["below", "c"].tolist() == [1.0, 1.0]


def test_tensors_of_the_peer_that_share_bytes_are_refused(tmp_path: Path) -> None:
    TensorDict(a=torch.ones(4), b=torch.ones(4)).consolidate(tmp_path / "f")
    raw = (tmp_path / "f").read_bytes()
    length = int.from_bytes(raw[-8:], "little")
    known = json.loads(raw[-8 - length : -8])
    known["leaves"]["b"][2:4] = known["leaves"]["a"][2:4]
    text = json.dumps(known).encode()
    (tmp_path / "f").write_bytes(bytes(32) + text + len(text).to_bytes(8, "little"))
    with pytest.raises(FileError, match="a and b have 16 bytes in common"):
        TensorDict.from_consolidated(tmp_path / "f")


def test_a_collection_without_tensors_is_consolidated() -> None:
    for data in (TensorDict(batch_size=[2]), TensorDict({"text": "a"}, [2]), TensorDict({"x": torch.zeros(2, 0)}, [2])):
        packed = data.consolidate()
        assert packed.is_locked
        assert [*packed.keys()] == [*data.keys()]
