"""Files that the peer wrote are read here, and the other way round.

Archives, consolidated files and the safetensors format have modules of their own beside this one; here is what all
formats hold, and what both do with a folder that the other one wrote.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.storage.hdf5_zarr.persistent_tensordict import PersistentTensorDict
from tests import strategies as draw
from tests.parity.sides import OURS, PEER, Collected, described

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]  # the peer warns of changes to come

BOTH = [pytest.param(OURS, PEER, id="ours"), pytest.param(PEER, OURS, id="peers")]


def seen(data: Any) -> Any:
    """What is the same on both sides: values, dtypes, shapes, batch sizes and names."""
    return _plain(described(data))


def _plain(found: Any) -> Any:
    if not isinstance(found, Collected):
        return found
    return found._replace(
        locked=False, device=None, record="", values={key: _plain(value) for key, value in found.values.items()}
    )


# ---------------------------------------------------------------------------------------------------------------------
# formats


def folder(data: Any, path: Path, library: Any) -> None:
    data.memmap(path)


def archive(data: Any, path: Path, library: Any) -> None:
    data.save(path, archive=True)


def consolidated(data: Any, path: Path, library: Any) -> None:
    data.consolidate(path)


def safetensors(data: Any, path: Path, library: Any) -> None:
    library.to_safetensors(data, path)


def zarr(data: Any, path: Path, library: Any) -> None:
    data.to_zarr(path).close()


def hdf5(data: Any, path: Path, library: Any) -> None:
    data.to_h5(path).close()


#: how a format is written, and read
FORMATS: dict[str, tuple[Callable[[Any, Path, Any], None], Callable[[Any, Path], Any]]] = {
    "folder": (folder, lambda m, path: m.TensorDict.load_memmap(path)),
    "archive": (archive, lambda m, path: m.TensorDict.load_memmap(path)),
    "consolidated": (consolidated, lambda m, path: m.TensorDict.from_consolidated(path)),
    "safetensors": (safetensors, lambda m, path: m.from_safetensors(path)),
    "zarr": (zarr, lambda m, path: m.TensorDict.from_zarr(path)),
}

# ---------------------------------------------------------------------------------------------------------------------
# what files hold


def lazy(m: Any, *sizes: int, dim: int = 0, names: list[str] | None = None) -> Any:
    parts = [m.TensorDict({"a": torch.ones(2, size)}, [2], names=names) for size in sizes]
    return m.lazy_stack(parts, dim)


def keys(m: Any, *given: str) -> Any:
    """Each as the key of a tensor, a nested collection and an object."""
    inner: dict[str, Any] = {key: torch.ones(1) for key in given}
    return m.TensorDict(
        {**inner, "in": {key: {"x": torch.zeros(2)} for key in given}, "text": dict.fromkeys(given, "text")}
    )


VIEWS = torch.arange(24.0).view(4, 6)

#: what all formats hold
TREES: dict[str, Callable[[Any], Any]] = {
    "nested": lambda m: m.TensorDict(
        {"a": torch.arange(6.0).view(2, 3), "n": {"b": torch.arange(2), "below": {"c": torch.ones(2, 1)}}}, [2]
    ),
    "longer batch below": lambda m: m.TensorDict(
        {"n": m.TensorDict({"b": torch.ones(2, 3)}, [2, 3]), "m": m.TensorDict({}, [2, 3])}, [2]
    ),
    "without batch": lambda m: m.TensorDict({"a": torch.tensor(2.0), "b": torch.ones(3)}),
    "without values": lambda m: m.TensorDict({}, [3]),
    "without items": lambda m: m.TensorDict({"a": torch.zeros(0, 3), "n": {"z": torch.zeros(0, 2, 0)}}, [0]),
    "no dimensions": lambda m: m.TensorDict({"a": torch.tensor(1), "z": torch.zeros(0)}),
    "views": lambda m: m.TensorDict(
        {"t": VIEWS.T[:4], "step": VIEWS[:, ::2], "row": VIEWS[0, :4], "one": torch.ones(1).expand(4)}, [4]
    ),
    "dtypes": lambda m: m.TensorDict(
        {
            str(dtype)[6:]: torch.ones(3).to(dtype)
            for dtype in (torch.float16, torch.float64, torch.bool, torch.int8, torch.uint8, torch.int64)
        }
    ),
    "text": lambda m: m.TensorDict({"t": "hello", "none": m.NonTensorData(None), "a": torch.ones(2)}, [2]),
    "objects of JSON": lambda m: m.TensorDict(
        {"i": m.NonTensorData({"x": [1, None, 1.5, True]}), "l": m.NonTensorData([1, "a"]), "n": m.NonTensorData(1)}
    ),
}

#: what folders hold, and archives of them
STACKS: dict[str, Callable[[Any], Any]] = {
    "names": lambda m: m.TensorDict(
        {"n": m.TensorDict({"b": torch.ones(2, 3)}, [2, 3], names=["x", "y"])}, [2], names=["x"]
    ),
    "more dtypes": lambda m: m.TensorDict(
        {str(dtype)[6:]: torch.ones(3).to(dtype) for dtype in (torch.bfloat16, torch.complex64, torch.complex128)}
    ),
    "objects with infinities": lambda m: m.TensorDict({"o": m.NonTensorData({"x": [float("inf"), -float("inf")]})}),
    "an object a row": lambda m: m.TensorDict({"t": m.NonTensorStack("ab", "c"), "a": torch.ones(2)}, [2]),
    "objects a row": lambda m: m.TensorDict({"t": m.NonTensorStack({"a": 1}, [1, "b"])}, [2]),
    "objects in two dimensions": lambda m: m.TensorDict(
        {"t": m.NonTensorStack.from_list([["ab", "c"], ["d", "ef"]])}, [2, 2]
    ),
    "a lazy stack": lambda m: lazy(m, 3, 3),
    "a lazy stack along another dimension": lambda m: lazy(m, 3, 3, dim=1),
    "a lazy stack with names": lambda m: lazy(m, 3, 3, names=["x"]),
    "a lazy stack of different shapes": lambda m: m.TensorDict({"rows": lazy(m, 1, 2)}, [2]),
    "a lazy stack of different keys": lambda m: m.lazy_stack(
        [m.TensorDict({"a": torch.ones(3)}), m.TensorDict({"b": torch.ones(3), "t": "x"})]
    ),
    "lazy stacks of lazy stacks": lambda m: m.lazy_stack([lazy(m, 1, 2), lazy(m, 1, 2)], 1),
}

KEYS = (
    "a.b", ".hidden", "a/b", "/", "a b", " ", "%", "%41", "a%2Fb", "ü", "日本", "e\u0301", "😀", 'a"b', "a\\b", "a:b*?",
    "a\nb", "0", "con", "x" * 200, "other.pickle", "_tensordict", "data", "is_nested", "stack_dim", "a.memmap",
)  # fmt: skip


def tried(writer: Any, reader: Any, name: str, made: Callable[[Any], Any], path: Path) -> None:
    write, read = FORMATS[name]
    data = made(writer)
    write(data, path, writer)
    assert seen(read(reader, path)) == seen(data)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("writer, reader", BOTH)
def test_what_one_writes_the_other_reads(tmp_path: Path, writer: Any, reader: Any, name: str, tree: str) -> None:
    tried(writer, reader, name, TREES[tree], tmp_path / "saved")


@pytest.mark.parametrize("tree", STACKS)
@pytest.mark.parametrize("name", ["folder", "archive"])
@pytest.mark.parametrize("writer, reader", BOTH)
def test_stacks_and_all_dtypes_are_in_folders(tmp_path: Path, writer: Any, reader: Any, name: str, tree: str) -> None:
    tried(writer, reader, name, STACKS[tree], tmp_path / "saved")


@pytest.mark.parametrize("name", ["folder", "archive", "consolidated", "safetensors"])
@pytest.mark.parametrize("writer, reader", BOTH)
def test_keys_may_be_any_text(tmp_path: Path, writer: Any, reader: Any, name: str) -> None:
    tried(writer, reader, name, lambda m: keys(m, *KEYS), tmp_path / "saved")


@pytest.mark.parametrize("name", ["folder", "consolidated", "zarr"])
@given(tree=draw.trees(objects=False), size=draw.shapes(max_dims=2), names=st.booleans(), ours=st.booleans())
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_any_tree_is_read_by_the_other(name: str, tree: Any, size: Any, names: bool, ours: bool) -> None:
    writer, reader = (OURS, PEER) if ours else (PEER, OURS)
    given_names = [f"d{at}" for at in range(len(size))] if names and name == "folder" else None
    with tempfile.TemporaryDirectory() as place:
        tried(writer, reader, name, lambda m: tree.build(size, given_names, m), Path(place) / "saved")


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "zarr"])
def test_a_nan_in_an_object_of_the_peer_is_read(tmp_path: Path, name: str) -> None:
    write, read = FORMATS[name]
    write(tensordict.TensorDict({"o": tensordict.NonTensorData([1, float("nan")])}), tmp_path / "saved", PEER)
    assert repr(read(OURS, tmp_path / "saved")["o"]) == "[1, nan]"


@pytest.mark.parametrize("tree", ["an object a row", "objects a row", "objects in two dimensions"])
@pytest.mark.parametrize("name", ["consolidated", "zarr"])
@pytest.mark.parametrize("writer, reader", BOTH)
def test_objects_a_row_are_read_by_the_other(tmp_path: Path, writer: Any, reader: Any, name: str, tree: str) -> None:
    tried(writer, reader, name, STACKS[tree], tmp_path / "saved")


@pytest.mark.parametrize("name", ["folder", "archive", "consolidated", "safetensors"])
def test_keys_of_the_formats_are_read_too(tmp_path: Path, name: str) -> None:
    write, read = FORMATS[name]
    data = tensordict.TensorDict({key: torch.ones(2) for key in ("_names", "_tensorclass", "version", "keys")})
    write(data, tmp_path / "saved", PEER)
    assert seen(read(OURS, tmp_path / "saved")) == seen(data)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex32"])
def test_a_folder_of_the_peer_holds_dtypes_that_it_cannot_read_itself(tmp_path: Path, dtype: str) -> None:
    values = torch.ones(3).to(getattr(torch, dtype))
    tensordict.TensorDict({"a": values}).memmap(tmp_path)
    loaded = TensorDict.load_memmap(tmp_path)["a"]
    assert loaded.dtype == values.dtype
    assert loaded.view(torch.uint8).tolist() == values.view(torch.uint8).tolist()


RAGGED = [[0.0, 1.0], [2.0, 3.0, 4.0], []]


def ragged(layout: torch.layout) -> Tensor:
    return torch.nested.nested_tensor([torch.tensor(row) for row in RAGGED], layout=layout)


def test_nested_tensors_of_the_peer_are_jagged_here(tmp_path: Path) -> None:
    tensordict.TensorDict({"r": ragged(torch.strided)}, [3]).memmap(tmp_path)
    loaded = TensorDict.load_memmap(tmp_path)["r"]
    assert loaded.layout == torch.jagged
    assert [row.tolist() for row in loaded.unbind()] == RAGGED


@pytest.mark.parametrize("writer, reader", BOTH)
def test_jagged_tensors_are_in_consolidated_files(tmp_path: Path, writer: Any, reader: Any) -> None:
    data = writer.TensorDict({"a": torch.ones(3), "n": {"r": ragged(torch.jagged)}, "z": torch.zeros(3)}, [3])
    data.consolidate(tmp_path / "f")
    loaded = reader.TensorDict.from_consolidated(tmp_path / "f")
    assert [row.tolist() for row in loaded["n", "r"].unbind()] == RAGGED
    assert loaded["z"].tolist() == [0.0] * 3


# ---------------------------------------------------------------------------------------------------------------------
# records


@tensordict.tensorclass
class PeersInner:
    x: Tensor


@tensordict.tensorclass
class Peers:
    a: Tensor
    inner: PeersInner
    text: str
    opt: Tensor | None = None


class Inner(TensorClass):
    x: Tensor


class Sample(TensorClass):
    a: Tensor
    inner: Inner
    text: str
    opt: Tensor | None = None


def peers_record() -> Any:
    inner: Any = PeersInner(x=torch.ones(2, 3), batch_size=[2])  # type: ignore[call-arg]
    return Peers(a=torch.arange(2), inner=inner, text="hi", batch_size=[2])  # type: ignore[call-arg]


def sample() -> Sample:
    return Sample(a=torch.arange(2), inner=Inner(x=torch.ones(2, 3), batch_size=[2]), text="hi", batch_size=[2])


RECORD_FORMATS = FORMATS | {"hdf5": (hdf5, lambda m, path: m.TensorDict.from_h5(path, batch_size=[2]))}

#: how a record is read in each of the formats
READ: dict[str, Callable[[Any, Path], Any]] = {
    "folder": lambda cls, path: cls.load_memmap(path),
    "archive": lambda cls, path: cls.load_memmap(path),
    "consolidated": lambda cls, path: cls.from_consolidated(path),
    "safetensors": lambda cls, path: (
        tensordict.from_safetensors(path) if cls is tensordict.TensorDict else cls.from_safetensors(path)
    ),
    "zarr": lambda cls, path: cls.from_zarr(path),
    "hdf5": lambda cls, path: cls.from_h5(path, batch_size=[2]),
}


def assert_has_the_values(data: Any) -> None:
    assert tuple(data.batch_size) == (2,)
    assert data.get("a").tolist() == [0, 1]
    assert data.get("inner").get("x").tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("name", READ)
def test_a_record_of_the_peer_is_read_as_a_collection_and_as_a_record(tmp_path: Path, name: str) -> None:
    RECORD_FORMATS[name][0](peers_record(), tmp_path / "saved", PEER)
    data = READ[name](TensorDict, tmp_path / "saved")
    assert isinstance(data, TensorDict)
    assert not isinstance(data, TensorClass)
    assert_has_the_values(data)
    record = READ[name](Sample, tmp_path / "saved")
    assert isinstance(record, Sample)
    assert isinstance(record.inner, Inner)
    assert record.text == "hi"
    assert record.opt is None
    assert_has_the_values(record)


@pytest.mark.parametrize("name", READ)
def test_a_record_is_a_collection_for_the_peer(tmp_path: Path, name: str) -> None:
    RECORD_FORMATS[name][0](sample(), tmp_path / "saved", OURS)
    data = READ[name](tensordict.TensorDict, tmp_path / "saved")
    assert type(data).__module__.startswith("tensordict")
    assert_has_the_values(data)
    assert Peers.from_tensordict(data.to_tensordict()).inner.x.sum() == 6  # type: ignore[attr-defined]


def test_lazy_stacks_of_records_of_the_peer_are_read_as_such(tmp_path: Path) -> None:
    tensordict.lazy_stack([peers_record(), peers_record()], 1).memmap(tmp_path)
    loaded = Sample.load_memmap(tmp_path)
    assert isinstance(loaded, Sample)
    assert [type(part) for part in loaded.unbind(1)] == [Sample, Sample]
    assert loaded.inner.x.shape == (2, 2, 3)


def test_what_does_not_fit_a_record_is_an_error(tmp_path: Path) -> None:
    peers_record().memmap(tmp_path / "r")
    with pytest.raises(ValueError, match="unexpected"):
        Inner.load_memmap(tmp_path / "r")


@pytest.mark.parametrize("place", ["folder", "f.tdz"])
def test_parts_of_a_record_of_the_peer_are_loaded_by_themselves(tmp_path: Path, place: str) -> None:
    tensordict.TensorDict({"n": {"r": peers_record()}}, []).save(tmp_path / place)
    assert Inner.load(tmp_path / place, subpath=("n", "r", "inner")).x.shape == (2, 3)
    assert Sample.load(tmp_path / place, subpath=("n", "r")).text == "hi"


# ---------------------------------------------------------------------------------------------------------------------
# folders that the other one wrote


@pytest.mark.parametrize("written", [None, True, False])
@pytest.mark.parametrize("read", [None, True, False])
def test_keys_of_the_peer_are_read_however_it_wrote_them(tmp_path: Path, written: Any, read: Any) -> None:
    names = [key for key in KEYS if written is not False or "/" not in key]
    options = {} if written is None else {"robust_key": written}
    data = keys(PEER, *names)
    data.memmap(tmp_path, **options)
    assert seen(TensorDict.load_memmap(tmp_path, **({} if read is None else {"robust_key": read}))) == seen(data)


@pytest.mark.parametrize("first, second", [("a b", "a%20b"), ("a%20b", "a b")])
def test_robust_key_says_which_file_is_that_of_a_key(tmp_path: Path, first: str, second: str) -> None:
    """One key is the name of the other's file: what is meant must be said when the peer has used the other form."""
    data = tensordict.TensorDict({first: torch.zeros(2), second: torch.ones(2)})
    for robust in (True, False):
        data.memmap(tmp_path / str(robust), robust_key=robust)
        loaded = TensorDict.load_memmap(tmp_path / str(robust), robust_key=robust)
        assert loaded[first].tolist() == [0.0, 0.0]
        assert loaded[second].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("writer, reader", BOTH)
def test_what_is_written_in_place_is_seen_by_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    data = writer.TensorDict({"a": torch.zeros(3, 2), "n": {"b": torch.zeros(3)}}, [3]).memmap(tmp_path)
    loaded = reader.TensorDict.load_memmap(tmp_path)
    loaded["a"].fill_(1)
    data["n", "b"].fill_(2)
    loaded[1:]["a"] += 1
    assert data["a"].tolist() == [[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]
    assert loaded["n", "b"].tolist() == [2.0] * 3


@pytest.mark.parametrize("writer, reader", BOTH)
def test_files_without_values_are_filled_by_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    row = writer.TensorDict({"a": torch.ones(2), "n": {"b": torch.ones((), dtype=torch.int16)}, "t": "text"})
    row.expand(5).memmap_like(tmp_path)
    data = reader.TensorDict.load_memmap(tmp_path)
    assert data["a"].tolist() == [[0.0, 0.0]] * 5
    data["n", "b"][2:] = 3
    assert writer.TensorDict.load_memmap(tmp_path)["n", "b"].tolist() == [0, 0, 3, 3, 3]
    assert data["t"] in ("text", ["text"] * 5)  # the peer writes it five times


@pytest.mark.parametrize("writer, reader", BOTH)
def test_keys_that_are_made_in_a_folder_are_read_by_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    data = writer.TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2]).memmap(tmp_path)
    data.make_memmap("new", (2, 3), dtype=torch.int16).fill_(1)
    data.make_memmap(("n", "new"), (2,)).fill_(2)
    data.make_memmap(("other", "a b"), (2,)).fill_(3)
    data.make_memmap_from_tensor("from tensor", torch.arange(2))
    loaded = reader.TensorDict.load_memmap(tmp_path)
    assert seen(loaded) == seen(writer.TensorDict.load_memmap(tmp_path))
    assert loaded["other", "a b"].tolist() == [3.0, 3.0]
    assert loaded["from tensor"].tolist() == [0, 1]
    if reader is OURS:
        loaded.lock_().make_memmap("newer", (2,)).fill_(4)
        assert writer.TensorDict.load_memmap(tmp_path)["newer"].tolist() == [4.0, 4.0]


def test_values_of_a_piece_of_memory_are_read_by_the_peer(tmp_path: Path) -> None:
    data = TensorDict({"a": torch.zeros(2)}, [2]).memmap(tmp_path)
    data.make_memmap_from_storage("new", torch.arange(2).untyped_storage(), (2,), dtype=torch.int64)
    assert tensordict.TensorDict.load_memmap(tmp_path)["new"].tolist() == [0, 1]


def grown(m: Any, rows: int, start: int = 0) -> Any:
    values = torch.arange(start, start + rows)
    return m.TensorDict({"a": values, "n": {"b c": values.float()}, "text": "hi", "none": torch.zeros(rows, 0)}, [rows])


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("writer", [OURS, PEER])
def test_rows_are_appended_by_both_in_turn(tmp_path: Path, writer: Any, checksum: bool) -> None:
    options = {"checksum": True} if checksum and writer is OURS else {}
    grown(writer, 3).memmap(tmp_path / "rows", **options)
    total = 3
    for library in (PEER, OURS, OURS, PEER, PEER, OURS):
        library.append_memmap(tmp_path / "rows", grown(library, 2, total))
        total += 2
        for reader in (OURS, PEER):
            assert seen(reader.TensorDict.load_memmap(tmp_path / "rows")) == seen(grown(reader, total))


def test_what_the_peer_has_written_anew_is_not_damaged_and_what_is_damaged_is(tmp_path: Path) -> None:
    TensorDict({"a": torch.zeros(3), "t": "text"}, [3]).memmap(tmp_path, checksum=True)
    TensorDict.load_memmap(tmp_path, verify=True)
    tensordict.append_memmap(tmp_path, tensordict.TensorDict({"a": torch.ones(1), "t": "text"}, [1]))
    assert TensorDict.load_memmap(tmp_path)["t"] == "text"
    with pytest.raises(ValueError, match="checksums"):  # they were of the rows before
        TensorDict.load_memmap(tmp_path, verify=True)
    TensorDict({"a": torch.zeros(3)}, [3]).memmap(tmp_path)
    text = (tmp_path / "meta.json").read_text()
    (tmp_path / "meta.json").write_text(text.replace("[3]", "[2]"))
    with pytest.raises(ValueError, match="has changed since it was written"):
        TensorDict.load_memmap(tmp_path)


def test_rows_are_appended_to_records_of_the_peer(tmp_path: Path) -> None:
    peers_record().memmap(tmp_path / "rows")
    tensordict.append_memmap(tmp_path / "rows", peers_record())
    Sample.append_memmap(tmp_path / "rows", sample())
    loaded = Sample.load_memmap(tmp_path / "rows")
    assert loaded.a.tolist() == [0, 1] * 3
    assert tensordict.TensorDict.load_memmap(tmp_path / "rows")["inner", "x"].sum() == 18
    assert not (tmp_path / "rows" / "_tensordict").exists()


@pytest.mark.parametrize("robust", [True, False])
def test_rows_are_appended_to_odd_keys_of_the_peer(tmp_path: Path, robust: bool) -> None:
    rows = {"a b": torch.zeros(2), "c:d": {"%": torch.zeros(2)}}
    tensordict.TensorDict(rows, [2]).memmap(tmp_path / "rows", robust_key=robust)
    TensorDict.append_memmap(tmp_path / "rows", TensorDict(rows, [2]) + 1)
    for reader in (OURS, PEER):
        loaded = reader.TensorDict.load_memmap(tmp_path / "rows")
        assert loaded["a b"].tolist() == loaded["c:d", "%"].tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("writer, reader", BOTH)
def test_one_saves_over_the_folder_of_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    grown(writer, 3).memmap(tmp_path)
    data = reader.TensorDict({"new": torch.ones(2)}, [2])
    data.memmap(tmp_path)
    for library in (writer, reader):
        assert seen(library.TensorDict.load_memmap(tmp_path)) == seen(data)


@pytest.mark.parametrize("writer, reader", BOTH)
def test_values_are_loaded_in_place(tmp_path: Path, writer: Any, reader: Any) -> None:
    data = grown(writer, 3).memmap(tmp_path)
    for load in (
        lambda here: here.load_memmap_(tmp_path),
        lambda here: reader.TensorDict.load_memmap(tmp_path, out=here),
    ):
        here = grown(reader, 3, 5)
        values = here["a"]
        load(here)
        assert seen(here) == seen(data)
        assert reader is PEER or values.tolist() == [0, 1, 2]


def test_a_folder_of_the_peer_is_refreshed(tmp_path: Path) -> None:
    grown(PEER, 3).memmap(tmp_path)
    data = TensorDict.load_memmap(tmp_path)
    tensordict.append_memmap(tmp_path, grown(PEER, 2, 3))
    assert data.memmap_refresh_()["a"].tolist() == [0, 1, 2, 3, 4]


PICKLED = [{1, 2}, b"x", 1j, torch.float32, {1: 2}, Path, (1, {2})]


@pytest.mark.parametrize("place", ["folder", "f.tdz"])
def test_pickles_of_the_peer_are_read_where_they_are_allowed(tmp_path: Path, place: str) -> None:
    values = {f"o{at}": tensordict.NonTensorData(value) for at, value in enumerate(PICKLED)}
    rows = tensordict.NonTensorStack("a", b"b", {3}, [b"c"])
    tensordict.TensorDict({**values, "n": tensordict.TensorDict({"rows": rows}, [4])}).save(tmp_path / place)
    with pytest.raises(ValueError, match="allow_pickle"):
        TensorDict.load(tmp_path / place)
    loaded = TensorDict.load(tmp_path / place, allow_pickle=True)
    assert [loaded[key] for key in values] == PICKLED
    assert loaded["n", "rows"] == ["a", b"b", {3}, [b"c"]]
    if place == "folder":
        below: Any = loaded["n"]
        TensorDict.append_memmap(tmp_path / place / "n", below, allow_pickle=True)
        assert TensorDict.load(tmp_path / place / "n", allow_pickle=True)["rows"] == 2 * ["a", b"b", {3}, [b"c"]]


def test_a_pickle_that_is_damaged_is_an_error_with_the_name_of_the_file(tmp_path: Path) -> None:
    tensordict.TensorDict({"o": tensordict.NonTensorData({1})}).memmap(tmp_path)
    content: bytes
    for content in (b"", b"no pickle", b"N.", b"cnothing\nnothing\n."):
        (tmp_path / "o" / "other.pickle").write_bytes(content)
        with pytest.raises(ValueError, match=r"o/other\.pickle"):
            TensorDict.load_memmap(tmp_path, allow_pickle=True)


def test_text_that_is_the_name_of_a_pickle_is_text(tmp_path: Path) -> None:
    tensordict.TensorDict({"o": "other.pickle"}).memmap(tmp_path)
    assert TensorDict.load_memmap(tmp_path)["o"] == "other.pickle"


# ---------------------------------------------------------------------------------------------------------------------
# HDF5 and zarr


@pytest.mark.parametrize("writer, reader", BOTH)
def test_hdf5_files_are_read_by_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    values = {"a": torch.arange(6.0).view(2, 3), "n": {"b": torch.ones(2, dtype=torch.int16)}, "a b.c": torch.ones(2)}
    data = writer.TensorDict({**values, "rows": writer.NonTensorStack("ab", "c")}, [2])
    data.to_h5(tmp_path / "f").close()
    loaded = reader.TensorDict.from_h5(tmp_path / "f", batch_size=[2])  # the peer's files do not say it
    assert seen(loaded.to_tensordict()) == seen(data)
    assert list(loaded["rows"]) == ["ab", "c"]
    loaded.close()


@pytest.mark.parametrize("writer, reader", BOTH)
@pytest.mark.parametrize("name", ["h5", "zarr"])
def test_one_writes_into_an_open_file_of_the_other(tmp_path: Path, writer: Any, reader: Any, name: str) -> None:
    data = writer.TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(3)}}, [3])
    getattr(data, f"to_{name}")(tmp_path / "f").close()
    held = getattr(reader.TensorDict, f"from_{name}")(tmp_path / "f", mode="r+", batch_size=[3])
    held["a"] = torch.ones(3)
    held["new"] = torch.full((3,), 2.0)
    held["n", "b"] = torch.full((3,), 3.0)
    held.close()
    again = getattr(writer.TensorDict, f"from_{name}")(tmp_path / "f", batch_size=[3])
    assert {key: again[key].tolist() for key in ("a", "new", ("n", "b"))} == {
        "a": [1.0] * 3, "new": [2.0] * 3, ("n", "b"): [3.0] * 3,
    }  # fmt: skip
    again.close()


def test_names_of_the_peer_in_zarr_stand_for_themselves(tmp_path: Path) -> None:
    data = tensordict.TensorDict({key: torch.ones(2) for key in ("%41", "a%2Fb", "50%")})
    data.to_zarr(tmp_path / "f").close()
    held = TensorDict.from_zarr(tmp_path / "f", mode="r+")
    assert sorted(held.keys()) == ["%41", "50%", "a%2Fb"]
    held["%41"] = torch.zeros(2)
    assert tensordict.TensorDict.from_zarr(tmp_path / "f")["%41"].tolist() == [0.0, 0.0]


def test_pickles_of_the_peer_in_zarr_are_read_where_they_are_allowed(tmp_path: Path) -> None:
    values = {f"o{at}": tensordict.NonTensorData(value) for at, value in enumerate(PICKLED)}
    rows = tensordict.NonTensorStack("a", b"b", {3})
    tensordict.TensorDict({**values, "rows": tensordict.TensorDict({"r": rows}, [3])}).to_zarr(tmp_path / "f").close()
    with pytest.raises(ValueError, match="allow_pickle"):
        TensorDict.from_zarr(tmp_path / "f")["o0"]
    held: Any = PersistentTensorDict(filename=tmp_path / "f", backend="zarr", batch_size=[], allow_pickle=True)
    assert [held[key] for key in values] == PICKLED
    assert held["rows", "r"] == ["a", b"b", {3}]


@pytest.mark.parametrize("name, error", [("h5", OSError), ("zarr", ValueError)])
@pytest.mark.parametrize("library", [OURS, PEER])
def test_writing_into_a_file_that_is_read_is_an_error(tmp_path: Path, library: Any, name: str, error: Any) -> None:
    getattr(library.TensorDict({"a": torch.zeros(2)}, [2]), f"to_{name}")(tmp_path / "f").close()
    held = getattr(library.TensorDict, f"from_{name}")(tmp_path / "f")
    with pytest.raises(error):
        held["a"] = torch.ones(2)
