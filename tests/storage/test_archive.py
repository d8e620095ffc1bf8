"""Archives of memory-mapped folders: one ZIP file."""

import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tensorclass import TensorDict, lazy_stack
from tensorclass.storage import (
    FileError,
    is_memmap_archive,
    pack_memmap,
    refresh_archive_checksums,
    unpack_memmap,
)
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tests.open_files import linux, open_files
from tests.storage.memmap.test_memmap_folder import Inner, Sample, a_tree, files_in


def same(a: Any, b: Any) -> bool:
    one, other = dict(a._named_leaves()), dict(b._named_leaves())
    return one.keys() == other.keys() and all(
        value.dtype == other[key].dtype and torch.equal(value, other[key]) for key, value in one.items()
    )


@pytest.mark.parametrize("compression", [None, "stored", "deflated", "deflate", "bzip2", "lzma", 8])
def test_a_tree_comes_back_as_it_was_written(tmp_path: Path, compression: Any) -> None:
    data = a_tree()
    saved = data.memmap(tmp_path / "f", archive=True, compression=compression)
    loaded = TensorDict.load_memmap(tmp_path / "f", verify=True)
    assert os.listdir(tmp_path) == ["f"]
    for found in (saved, loaded):
        assert same(found, data)
        assert found.names == ["time"]
        assert (found["text"], found["rows"]) == ("hello", ["u", "v"])


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.text(max_size=6), st.sampled_from([torch.float32, torch.bool, torch.complex128]), max_size=5),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([None, "deflated"]),
)
def test_any_keys_dtypes_and_shapes_come_back(
    tmp_path_factory: Any, keys: dict[str, torch.dtype], shape: list[int], compression: str | None
) -> None:
    path = tmp_path_factory.mktemp("drawn") / "f"
    data = TensorDict({key: torch.randn(shape).to(dtype) for key, dtype in keys.items()}, shape)
    data["nested"] = data.clone()
    data.save(path, archive=True, compression=compression)
    loaded = TensorDict.load(path)
    assert same(loaded, data)
    assert loaded.batch_size == data.batch_size


def test_records_and_lazy_stacks_come_back(tmp_path: Path) -> None:
    data = Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2])
    data.memmap(tmp_path / "f.tdz")
    loaded = Sample.load_memmap(tmp_path / "f.tdz")
    assert type(loaded) is Sample
    assert type(loaded.inner) is Inner
    assert torch.equal(loaded.x, data.x)
    rows = lazy_stack([TensorDict({"a": torch.zeros(3)}), TensorDict({"a": torch.ones(4)})])
    rows.memmap(tmp_path / "g", archive=True)
    assert TensorDict.load_memmap(tmp_path / "g")[1]["a"].tolist() == [1.0] * 4


def test_the_suffix_asks_for_an_archive(tmp_path: Path) -> None:
    a_tree().save(tmp_path / "f.tdz")
    a_tree().save(tmp_path / "g.tdz", archive=False)
    assert is_memmap_archive(tmp_path / "f.tdz")
    assert (tmp_path / "g.tdz").is_dir()


def test_stored_tensors_are_mapped_and_compressed_ones_are_read(tmp_path: Path) -> None:
    data = TensorDict(a=torch.zeros(1000), b={"c": torch.zeros(1000)})
    data.save(tmp_path / "f.tdz")
    loaded = TensorDict.load(tmp_path / "f.tdz")
    assert loaded["a"].data_ptr() % 64 == loaded["b", "c"].data_ptr() % 64 == 0
    assert loaded["a"].untyped_storage().data_ptr() <= loaded["b", "c"].data_ptr()
    assert data.save(tmp_path / "g.tdz", compression="deflated")["a"].tolist() == [0.0] * 1000
    assert (tmp_path / "g.tdz").stat().st_size < 2000


def test_what_is_written_stays_in_the_process_unless_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "f.tdz"
    TensorDict(a=torch.zeros(3)).save(path)
    TensorDict.load(path)["a"].fill_(1.0)
    assert TensorDict.load(path, verify=True)["a"].tolist() == [0.0] * 3
    TensorDict.load(path, mode="r+")["a"].fill_(2.0)
    with pytest.raises(FileError, match=r"a\.memmap: damaged"):
        TensorDict.load(path, verify=True)
    assert refresh_archive_checksums(path) == path
    assert TensorDict.load(path, verify=True)["a"].tolist() == [2.0] * 3
    TensorDict(a=torch.zeros(3)).save(path, compression="lzma")
    with pytest.raises(RuntimeError, match="compressed"):
        TensorDict.load(path, mode="r+")


def test_a_nested_collection_is_loaded_by_itself_and_meta_reads_none(tmp_path: Path) -> None:
    a_tree().save(tmp_path / "f.tdz")
    assert set(TensorDict.load(tmp_path / "f.tdz", subpath="b").keys()) == {"c", "d/e"}
    assert TensorDict.load(tmp_path / "f.tdz", device="meta")["b", "c"].is_meta
    with pytest.raises(FileError, match="nothing"):
        TensorDict.load(tmp_path / "f.tdz", subpath="nothing")


def test_it_is_loaded_into_a_collection(tmp_path: Path) -> None:
    TensorDict(a=torch.ones(3)).save(tmp_path / "f.tdz")
    data = TensorDict(a=torch.zeros(3))
    assert data.load_memmap_(tmp_path / "f.tdz")["a"].tolist() == [1.0] * 3
    other = TensorDict(a=torch.zeros(3))
    assert TensorDict.load_memmap(tmp_path / "f.tdz", out=other) is other
    assert other["a"].tolist() == [1.0] * 3


def test_shapes_alone_are_written_as_zeros(tmp_path: Path) -> None:
    made = TensorDict(a=torch.ones(3), text="t").memmap_like(tmp_path / "f.tdz")
    assert (made["a"].tolist(), made["text"]) == ([0.0] * 3, "t")


def test_a_folder_is_packed_and_unpacked(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "folder")
    (tmp_path / "folder" / "README.md").write_text("mine")
    assert pack_memmap(tmp_path / "folder", tmp_path / "f", compression="deflated", compresslevel=9) == tmp_path / "f"
    assert unpack_memmap(tmp_path / "f", tmp_path / "again") == tmp_path / "again"
    assert files_in(tmp_path / "again") == files_in(tmp_path / "folder")
    assert same(TensorDict.load(tmp_path / "again"), a_tree())
    unpack_memmap(tmp_path / "f", tmp_path / "again")
    assert sorted(os.listdir(tmp_path)) == ["again", "f", "folder"]


def test_the_same_values_are_the_same_file(tmp_path: Path) -> None:
    for name in ("f", "g"):
        a_tree().save(tmp_path / name, archive=True)
    assert (tmp_path / "f").read_bytes() == (tmp_path / "g").read_bytes()


def test_what_is_no_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with zipfile.ZipFile(tmp_path / "other", "w") as archive:
        archive.writestr("a.txt", "x")
    for name in ("text", "other", "none", "."):
        assert not is_memmap_archive(tmp_path / name)
    for name in ("text", "other"):
        with pytest.raises(FileError, match=str(tmp_path / name)):
            TensorDict.load(tmp_path / name)
        with pytest.raises(FileError, match=str(tmp_path / name)):
            unpack_memmap(tmp_path / name, tmp_path / "out")
    with pytest.raises(FileError, match="nothing is saved"):
        pack_memmap(tmp_path, tmp_path / "packed")
    assert sorted(os.listdir(tmp_path)) == ["other", "text"]


def test_calls_that_cannot_be_done_are_errors(tmp_path: Path) -> None:
    data = TensorDict(a=torch.ones(2))
    with pytest.raises(ValueError, match="compression"):
        data.save(tmp_path / "f", archive=True, compression="zip")
    with pytest.raises(ValueError, match="archive"):
        data.save(tmp_path / "f", compression="lzma")
    with pytest.raises(ValueError, match="path"):
        data.save(archive=True)
    data.save(tmp_path / "f", archive=True)
    with pytest.raises(FileExistsError):
        data.save(tmp_path / "f", archive=True, existsok=False)


def test_tensors_that_are_mapped_from_other_files_are_copied(tmp_path: Path) -> None:
    mapped = TensorDict(a=MemoryMappedTensor(torch.ones(2), filename=tmp_path / "m"))
    for copy_existing in (False, True):
        mapped.save(tmp_path / "g", copy_existing, archive=True)
        assert TensorDict.load(tmp_path / "g")["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_threads_and_futures_make_the_same_archive(num_threads: int, tmp_path: Path) -> None:
    values = {str(number): torch.arange(12.0).view(3, 4).T + number for number in range(9)}
    data = TensorDict({**values, "empty": torch.zeros(4, 0), "text": "t"}, [4])
    data.memmap(tmp_path / "one", archive=True)
    early = data.memmap(tmp_path / "early", archive=True, num_threads=num_threads, return_early=True)
    assert (early.result() == data).all()
    assert (tmp_path / "early").read_bytes() == (tmp_path / "one").read_bytes()
    like = data.memmap_like(tmp_path / "like", archive=True, num_threads=num_threads)
    assert (like["8"] == 0).all()
    assert like["text"] == "t"


def test_an_error_of_a_thread_leaves_no_archive(tmp_path: Path) -> None:
    data = TensorDict(a=torch.ones(2), b=torch.ones(2, device="meta"))
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        data.save(tmp_path / "f", archive=True, num_threads=2)
    assert os.listdir(tmp_path) == []


# -- archives that lie ------------------------------------------------------------------------------------------------


def rewritten(path: Path, change: Any) -> None:
    """The archive with other members: ``change`` gets names and contents, and gives infos and contents."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in change(members):
            archive.writestr(info, content)


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


HOSTILE = {
    "a path that leads out": lambda members: [*members, ("../outside", b"x")],
    "a path that leads out below": lambda members: [*members, ("b/../../outside", b"x")],
    "an absolute path": lambda members: [*members, ("/outside", b"x")],
    "a backslash": lambda members: [*members, ("..\\outside", b"x")],
    "a link": lambda members: [*members, (link("outside"), b"/etc/passwd")],
    "a link to a folder": lambda members: [(link("b"), b"/tmp"), *members],
    "two of one name": lambda members: [*members, members[0]],
    "no meta.json": lambda members: members[1:],
    "an empty name": lambda members: [*members, ("b//c", b"x")],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_an_error_that_names_it_and_touches_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "f.tdz"
    a_tree().save(path)
    rewritten(path, HOSTILE[name])
    for call in (lambda: TensorDict.load(path), lambda: unpack_memmap(path, tmp_path / "out" / "deep")):
        with pytest.raises(FileError, match=str(path)):
            call()
    assert [entry for entry in os.listdir(tmp_path) if entry != "out"] == ["f.tdz"]
    assert not (tmp_path / "out" / "deep").exists()


@pytest.mark.parametrize("field", [14, 18, 22])  # checksum, packed size, size, in the directory two further on
def test_a_directory_that_lies_about_a_member_is_an_error(tmp_path: Path, field: int) -> None:
    path = tmp_path / "f.tdz"
    TensorDict(a=torch.ones(100)).save(path, compression="deflated")
    raw = bytearray(path.read_bytes())
    at = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 1)
    raw[at + field + 2 : at + field + 6] = (10**9 if field == 22 else 7).to_bytes(4, "little")
    path.write_bytes(raw)
    for call in (lambda: TensorDict.load(path), lambda: unpack_memmap(path, tmp_path / "out")):
        with pytest.raises(FileError, match=str(path)):
            call()
    assert os.listdir(tmp_path) == ["f.tdz"]


def test_a_member_too_short_for_its_tensor_or_missing_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f.tdz"
    TensorDict(a=torch.ones(100)).save(path)
    rewritten(path, lambda members: [members[0], ("a.memmap", b"short")])
    with pytest.raises(FileError, match=r"a\.memmap: expected 400 bytes"):
        TensorDict.load(path)
    rewritten(path, lambda members: members[:1])
    with pytest.raises(FileError, match=r"a\.memmap: missing"):
        TensorDict.load(path)


def test_an_archive_that_says_it_needs_more_than_the_disk_has_is_not_unpacked(tmp_path: Path, monkeypatch: Any) -> None:
    a_tree().save(tmp_path / "f.tdz")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(FileError, match="unpacking it takes"):
        unpack_memmap(tmp_path / "f.tdz", tmp_path / "out")
    assert os.listdir(tmp_path) == ["f.tdz"]


def test_a_cut_or_changed_archive_is_an_error_or_whole(tmp_path: Path) -> None:
    path = tmp_path / "f.tdz"
    data = a_tree()
    data.save(path)
    raw = path.read_bytes()
    for at in range(0, len(raw), 7):
        for mutated in (raw[:at], raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :]):
            path.write_bytes(mutated)
            try:
                loaded = TensorDict.load(path, verify=True)
            except FileError as error:
                wrong = None if str(error).startswith(str(path)) else error
            else:
                wrong = None if same(loaded, data) else loaded
            assert wrong is None


def test_a_link_in_a_folder_is_not_packed(tmp_path: Path) -> None:
    TensorDict(a=torch.ones(2)).memmap(tmp_path / "folder")
    (tmp_path / "folder" / "out").symlink_to("/etc")
    with pytest.raises(FileError, match="link"):
        pack_memmap(tmp_path / "folder", tmp_path / "f")
    assert os.listdir(tmp_path) == ["folder"]


@linux
def test_no_file_stays_open(tmp_path: Path) -> None:
    a_tree().save(tmp_path / "f.tdz")
    loaded = TensorDict.load(tmp_path / "f.tdz")
    unpack_memmap(tmp_path / "f.tdz", tmp_path / "out")
    with pytest.raises(FileError):
        TensorDict.load(tmp_path / "f.tdz", subpath="q")
    del loaded
    assert open_files(tmp_path) == []
