"""Collections in folders of memory-mapped files."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.storage import FileError
from tensorclass.storage.memmap.memmap_methods import take_values
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tests.interrupting import interrupted


class Inner(TensorClass):
    q: Tensor


class Sample(TensorClass):
    x: Tensor
    text: str
    inner: Inner
    maybe: Tensor | None = None


def a_tree() -> TensorDict:
    return TensorDict(
        {
            "a": torch.arange(6.0).view(2, 3),
            "b": {"c": torch.ones(2, dtype=torch.bool), "d/e": torch.ones(2, 4, dtype=torch.bfloat16)},
            "text": "hello",
            "rows": ["u", "v"],
            "one": UnbatchedTensor(torch.ones(3)),
            "shape": torch.ones(2),
            "empty": torch.zeros(2, 0),
        },
        [2],
        names=["time"],
    )


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_tree_comes_back_as_it_was_written(tmp_path: Path) -> None:
    data = a_tree()
    data.memmap(tmp_path / "saved")
    loaded = TensorDict.load_memmap(tmp_path / "saved")
    assert set(loaded.keys(True)) == set(data.keys(True))
    assert loaded.names == ["time"]
    assert loaded.batch_size == data.batch_size
    for key in ("a", ("b", "c"), ("b", "d/e"), "one", "shape", "empty"):
        assert loaded[key].dtype == data[key].dtype
        assert torch.equal(loaded[key], data[key])
    assert loaded["text"] == "hello"
    assert loaded["rows"] == ["u", "v"]


def test_a_record_comes_back_with_its_nested_record(tmp_path: Path) -> None:
    data = Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2])
    saved = data.memmap(tmp_path / "saved")
    assert type(saved) is Sample
    loaded = Sample.load_memmap(tmp_path / "saved")
    assert type(loaded) is Sample
    assert type(loaded.inner) is Inner
    assert torch.equal(loaded.x, data.x)
    assert loaded.text == "t"
    assert loaded.maybe is None


def test_values_written_in_place_go_to_the_files(tmp_path: Path) -> None:
    saved = a_tree().memmap(tmp_path / "saved")
    saved["a"][0] = 9.0
    assert TensorDict.load_memmap(tmp_path / "saved")["a"][0].tolist() == [9.0] * 3


def test_memmap_locks_and_unlocking_ends_it(tmp_path: Path) -> None:
    saved = a_tree().memmap(tmp_path / "saved")
    assert saved.is_locked
    assert saved.is_memmap()
    assert saved.saved_path == tmp_path / "saved"
    assert saved["b"].saved_path == tmp_path / "saved" / "b"
    saved.unlock_()
    assert not saved.is_memmap()


def test_memmap_in_place_keeps_the_collection(tmp_path: Path) -> None:
    data = a_tree()
    inner = data["b"]
    assert data.memmap_(tmp_path / "saved") is data
    assert data.is_memmap()
    assert data["b"] is inner
    assert type(inner["c"]) is MemoryMappedTensor


def test_parts_of_a_lazy_stack_have_folders_of_their_own(tmp_path: Path) -> None:
    rows = lazy_stack([TensorDict({"a": torch.zeros(3)}), TensorDict({"a": torch.ones(4), "b": torch.ones(1)})])
    rows.memmap(tmp_path / "rows")
    loaded = TensorDict.load_memmap(tmp_path / "rows")
    assert loaded[1]["a"].tolist() == [1.0] * 4
    assert TensorDict.load_memmap(tmp_path / "rows" / "1")["b"].tolist() == [1.0]


def test_a_nested_collection_is_loaded_by_itself(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "saved")
    assert TensorDict.load_memmap(tmp_path / "saved", subpath="b")["c"].all()
    assert TensorDict.load_memmap(tmp_path / "saved" / "b")["c"].all()


def test_memmap_like_writes_no_values(tmp_path: Path) -> None:
    row = TensorDict({"image": torch.ones(3, 8), "label": torch.ones((), dtype=torch.int64)})
    data = row.expand(1000).memmap_like(tmp_path / "data")
    assert data["image"].shape == (1000, 3, 8)
    assert not data["image"].any()
    assert os.stat(tmp_path / "data" / "image.memmap").st_blocks == 0


def test_tensors_in_other_files_are_copied_only_when_asked(tmp_path: Path) -> None:
    saved = a_tree().memmap(tmp_path / "one")
    with pytest.raises(RuntimeError, match="copy_existing=True"):
        saved.memmap(tmp_path / "two")
    assert os.listdir(tmp_path) == ["one"]
    saved.memmap(tmp_path / "two", copy_existing=True)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_saving_to_the_same_place_keeps_the_files(tmp_path: Path) -> None:
    saved = a_tree().memmap(tmp_path / "one")
    before = os.stat(tmp_path / "one" / "a.memmap").st_ino
    again = saved.memmap(tmp_path / "one")
    assert os.stat(tmp_path / "one" / "a.memmap").st_ino == before
    saved["a"][0] = 5.0
    assert again["a"][0].tolist() == [5.0] * 3


def test_writing_over_leaves_files_of_others_and_takes_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    a_tree().memmap(folder)
    (folder / "config.yaml").write_text("x")
    (folder / "logs" / "deep").mkdir(parents=True)
    (folder / "logs" / "deep" / "log.txt").write_text("y")
    TensorDict(q=torch.ones(2)).memmap(folder)
    assert files_in(folder) == ["config.yaml", "logs/deep/log.txt", "meta.json", "q.memmap"]
    assert os.listdir(tmp_path) == ["saved"]


def test_existsok_false_refuses_a_folder_that_is_there(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "saved")
    with pytest.raises(FileExistsError, match="existsok"):
        a_tree().memmap(tmp_path / "saved", existsok=False)


def test_a_future_has_the_result(tmp_path: Path) -> None:
    future = a_tree().memmap(tmp_path / "saved", return_early=True, num_threads=2)
    assert future.result().is_memmap()


def test_without_a_folder_tensors_are_in_shared_memory() -> None:
    data = a_tree().memmap()
    assert data.is_memmap()
    assert data["a"].is_shared()
    with pytest.raises(AttributeError, match="folder"):
        _ = data.saved_path


def test_meta_and_fake_tensors_open_no_file(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "saved")
    for file in (tmp_path / "saved").rglob("*.memmap"):
        file.unlink()
    assert TensorDict.load_memmap(tmp_path / "saved", device="meta")["a"].is_meta
    from torch._subclasses import FakeTensor, FakeTensorMode

    with FakeTensorMode():
        assert isinstance(TensorDict.load_memmap(tmp_path / "saved")["a"], FakeTensor)


def test_values_are_loaded_into_a_collection(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "saved")
    data = a_tree()
    data["a"].zero_()
    data["text"] = "other"
    inner = data["a"]
    data.load_memmap_(tmp_path / "saved")
    assert data["a"] is inner
    assert torch.equal(inner, a_tree()["a"])
    assert data["text"] == "hello"


def test_an_interrupted_refresh_takes_all_values_or_none(tmp_path: Path) -> None:
    def version(number: int) -> TensorDict:
        return TensorDict({"a": torch.full((2,), number), "b": {"c": torch.full((2,), number)}}, [2])

    for at in range(1, 1000):
        version(0).memmap(tmp_path / "place")
        data = TensorDict.load_memmap(tmp_path / "place")
        version(1).memmap(tmp_path / "place")
        outcome = interrupted(data.memmap_refresh_, at, inside=take_values.__code__.co_filename)
        assert len({int(value) for key in ("a", ("b", "c")) for value in data[key]}) == 1, outcome.where
        if outcome.where is None:
            break
    else:
        raise AssertionError("no end")


def test_refresh_sees_what_was_saved_meanwhile(tmp_path: Path) -> None:
    data = TensorDict(a=torch.zeros(3)).memmap(tmp_path / "saved")
    TensorDict(a=torch.ones(3)).memmap(tmp_path / "saved")
    assert data["a"].tolist() == [0.0] * 3
    data.memmap_refresh_()
    assert data["a"].tolist() == [1.0] * 3


def test_a_pickle_has_names_of_files_only(tmp_path: Path) -> None:
    data = TensorDict(a=torch.zeros(10_000)).memmap(tmp_path / "saved")
    sent = pickle.dumps(data)
    assert len(sent) < 1000
    pickle.loads(sent)["a"][3] = 4.0
    assert data["a"][3] == 4.0


def test_a_new_tensor_gets_a_file(tmp_path: Path) -> None:
    data = a_tree().memmap(tmp_path / "saved")
    data.make_memmap(("b", "new"), [2, 5], dtype=torch.int64)[1] = 3
    data.make_memmap_from_tensor("copy", torch.ones(2))
    loaded = TensorDict.load_memmap(tmp_path / "saved")
    assert loaded["b", "new"].tolist() == [[0] * 5, [3] * 5]
    assert loaded["copy"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="batch size"):
        data.make_memmap("wrong", [3])


def test_all_values_that_no_file_can_hold_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    data = TensorDict(a=torch.ones(2), obj=object(), meta=torch.zeros(2, device="meta"))
    with pytest.raises(TypeError, match=r"(?s)obj: .*JSON.*meta: .*no values"):
        data.memmap(tmp_path / "saved")
    assert os.listdir(tmp_path) == []


def test_objects_are_pickled_only_where_both_sides_allow_it(tmp_path: Path) -> None:
    data = TensorDict(when=complex, a=torch.ones(2))
    data.memmap(tmp_path / "saved", allow_pickle=True)
    with pytest.raises(FileError, match="allow_pickle"):
        TensorDict.load_memmap(tmp_path / "saved")
    assert TensorDict.load_memmap(tmp_path / "saved", allow_pickle=True)["when"] is complex


def test_a_folder_without_a_collection_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        TensorDict.load_memmap(tmp_path / "no")
    with pytest.raises(FileNotFoundError, match="nothing is saved"):
        TensorDict.load_memmap(tmp_path)


@pytest.mark.parametrize(
    "damage, message",
    [(lambda file: os.truncate(file, 8), r"saved/a\.memmap: expected 24 bytes"), (os.unlink, r"a\.memmap")],
    ids=["short", "missing"],
)
def test_a_short_or_missing_file_is_an_error_that_names_it(tmp_path: Path, damage: Any, message: str) -> None:
    a_tree().memmap(tmp_path / "saved")
    damage(tmp_path / "saved" / "a.memmap")
    with pytest.raises(FileError, match=message):
        TensorDict.load_memmap(tmp_path / "saved")


def test_a_record_names_the_fields_that_differ(tmp_path: Path) -> None:
    TensorDict(x=torch.ones(2), other=torch.ones(2)).memmap(tmp_path / "saved")
    with pytest.raises(FileError, match=r"missing, without a default: \['text', 'inner'\]; unexpected: \['other'\]"):
        Sample.load_memmap(tmp_path / "saved")


def test_a_locked_collection_is_mapped_in_place_and_twice(tmp_path: Path) -> None:
    data = a_tree().lock_().memmap_(tmp_path / "saved")
    assert data.is_memmap()
    assert data.memmap_(tmp_path / "saved") is data
    with pytest.raises(RuntimeError, match="copy_existing=True"):
        data.memmap_(tmp_path / "other")
    data.memmap_(tmp_path / "other", copy_existing=True)
    assert data.saved_path == tmp_path / "other"


def test_the_device_of_what_is_mapped_is_the_cpu() -> None:
    assert a_tree().memmap().device == torch.device("cpu")
    assert lazy_stack([a_tree(), a_tree()]).memmap_().device == torch.device("cpu")


def test_files_in_place_are_a_runtime_error_too(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "saved")
    with pytest.raises(RuntimeError, match="existsok"):
        a_tree().memmap_like(tmp_path / "saved", existsok=False)


def test_objects_are_not_shared_between_processes(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="its own objects"):
        a_tree().memmap(tmp_path / "saved", share_non_tensor=True)
    assert os.listdir(tmp_path) == []
    TensorDict(a=torch.ones(2)).memmap(tmp_path / "saved", share_non_tensor=True)


def texts(nested: bool) -> TensorDict:
    data = TensorDict({"a": torch.zeros(3), "one": "x", "rows": ["x", "y", "z"]}, [3])
    return TensorDict({"a": torch.zeros(3), "below": data.exclude("a")}, [3]) if nested else data


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("key", ["one", "rows"])
@pytest.mark.parametrize("part", [False, True])
def test_rows_with_other_objects_are_an_error_for_files_would_not_have_them(
    nested: bool, key: str, part: bool, tmp_path: Path
) -> None:
    texts(nested).memmap(tmp_path / "saved")
    data = TensorDict.load_memmap(tmp_path / "saved")[1 if part else 0 :]
    row = TensorDict({"a": 1.0, **({"below": {key: "new"}} if nested else {key: "new"})})
    with pytest.raises(RuntimeError, match=rf"^{'below.' if nested else ''}{key}: .*append_memmap.*[Nn]othing"):
        data[1] = row
    assert TensorDict.load_memmap(tmp_path / "saved")["a"].tolist() == [0.0, 0.0, 0.0]
    data[1] = data[1].clone().set("a", torch.tensor(7.0))  # the same objects
    assert data["a"].tolist()[1] == 7.0


@pytest.mark.parametrize(
    "write",
    [
        lambda data: data.update_({"a": torch.ones(3), "rows": "new"}),
        lambda data: data.update({"a": torch.ones(3), "rows": "new"}, inplace=True),
        lambda data: data.set_("rows", "new"),
        lambda data: data.set_at_("rows", "new", 0),
        lambda data: data["rows"].__setitem__(0, "new"),
        lambda data: data.get("rows").__setitem__(0, "new"),
    ],
    ids=["update_", "update", "set_", "set_at_", "list", "holder"],
)
def test_objects_beside_files_are_not_written_in_place(write: Callable[[Any], Any], tmp_path: Path) -> None:
    data = texts(False).memmap(tmp_path / "saved")
    with pytest.raises(RuntimeError, match="in place"):
        write(data)
    assert data["a"].tolist() == [0.0, 0.0, 0.0]
    assert data["rows"] == ["x", "y", "z"]


WRITES: dict[str, Callable[[Any], Any]] = {
    "list": lambda data: data["rows"].__setitem__(0, "new"),
    "holder": lambda data: data.get("rows").__setitem__(0, "new"),
    "rows": lambda data: data.__setitem__(0, TensorDict({"rows": "new"})),
    "set_": lambda data: data.set_("rows", "new"),
    "set_ of one": lambda data: data.set_("one", "new"),
    "update_": lambda data: data.update_({"one": "new"}),
    "set_at_": lambda data: data.set_at_("rows", "new", 0),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_objects_of_an_unlocked_collection_in_files_are_not_written_in_place(
    nested: bool, write: str, tmp_path: Path
) -> None:
    made = texts(nested).memmap(tmp_path / "saved").unlock_()
    for data in (TensorDict.load_memmap(tmp_path / "saved"), made):
        part = data["below"] if nested else data
        with pytest.raises(RuntimeError, match="in place"):
            WRITES[write](part)
        assert (part["one"], part["rows"]) == ("x", ["x", "y", "z"])
        part.set_("rows", ["x", "y", "z"])  # the same
        part["rows"] = ["u", "v", "w"]  # others in their place
        part["rows"][0] = "new"
        assert part["rows"] == ["new", "v", "w"]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("key", ["one", "rows"])
def test_objects_of_copies_are_written(nested: bool, key: str, tmp_path: Path) -> None:
    source = texts(nested)
    loaded = source.memmap(tmp_path / "saved")
    rows = torch.tensor([0, 1, 2])
    for data in (source, loaded.clone(), loaded[rows], torch.stack([loaded])[0], loaded.to(torch.float64)):
        part = data["below"] if nested else data
        part[0] = TensorDict({key: "new"})
        assert part[key][0] == "new"


def test_objects_are_written_where_nothing_goes_to_files(tmp_path: Path) -> None:
    texts(False).memmap(tmp_path / "saved")
    row = TensorDict({"rows": "new"})
    for data in (TensorDict.load_memmap(tmp_path / "saved", mode="r"), texts(False).memmap(), texts(False).lock_()):
        data[0] = row
        assert data["rows"][0] == "new"


def test_loading_into_a_collection_adds_the_keys_that_it_lacks(tmp_path: Path) -> None:
    TensorDict(a=torch.ones(2), b={"c": torch.ones(2)}).memmap(tmp_path / "saved")
    data = TensorDict(a=torch.zeros(2), other=torch.zeros(1))
    mine = data["a"]
    assert TensorDict.load_memmap(tmp_path / "saved", out=data) is data
    assert data["a"] is mine
    assert mine.tolist() == [1.0, 1.0]
    assert set(data.keys(True, True)) == {"a", "other", ("b", "c")}
    with pytest.raises(RuntimeError):
        TensorDict(a=torch.zeros(2)).lock_().load_memmap_(tmp_path / "saved")


def test_a_key_without_a_collection_is_told(tmp_path: Path) -> None:
    a_tree().memmap(tmp_path / "saved")
    for key in ("none", "a", ("b", "c")):
        with pytest.raises(ValueError, match="no collection is saved there under"):
            TensorDict.load_memmap(tmp_path / "saved", subpath=key)


def test_a_new_tensor_in_a_new_nested_collection(tmp_path: Path) -> None:
    data = a_tree().memmap(tmp_path / "saved")
    data.make_memmap(("new", "below", "z"), [2, 5])[1] = 3.0
    assert data["new"].is_locked
    for found in (data, TensorDict.load_memmap(tmp_path / "saved")):
        assert found["new", "below", "z"].tolist() == [[0.0] * 5, [3.0] * 5]
        assert found["new", "below"].batch_size == (2,)
    data.unlock_()
    assert not data["new", "below"].is_locked


def test_a_new_tensor_in_shared_memory() -> None:
    data = TensorDict(a=torch.ones(2)).memmap()
    assert data.make_memmap("z", [2, 5]).is_shared()
    assert data["z"].shape == (2, 5)


def test_a_new_tensor_needs_one_place(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="each of its items"):
        lazy_stack([a_tree(), a_tree()]).memmap(tmp_path / "rows").make_memmap("z", [2, 2])
    data = a_tree().memmap(tmp_path / "saved")
    (tmp_path / "saved" / "z.memmap").write_bytes(b"of another")
    with pytest.raises(FileExistsError):
        data.make_memmap_from_tensor("z", torch.ones(2), existsok=False)
    assert "z" not in data
    data.make_memmap_from_tensor("z", torch.ones(2))
    assert data["z"].tolist() == [1.0, 1.0]


def test_a_schema_in_files(tmp_path: Path) -> None:
    schema = {"a": ([3], torch.float32), ("b", "n"): ([], torch.int64)}
    data = TensorDict.from_schema(schema, batch_size=[1000], storage="memmap", prefix=tmp_path / "data")
    assert data.is_memmap()
    assert os.stat(tmp_path / "data" / "a.memmap").st_blocks == 0
    assert TensorDict.load_memmap(tmp_path / "data")["b", "n"].shape == (1000,)
    assert TensorDict.from_schema(schema, batch_size=[2], storage="memmap").is_memmap()


def test_parts_of_a_collection_lie_in_its_files(tmp_path: Path) -> None:
    data = TensorDict(a=torch.zeros(4, 2), batch_size=[4]).memmap(tmp_path / "saved")
    for part in (data[1], data[1:], *data.unbind(0), *data.split(2), *data.chunk(2)):
        assert type(part["a"]) is MemoryMappedTensor
        pickle.loads(pickle.dumps(part))["a"].add_(1)
    assert data["a"][:, 0].tolist() == [3.0, 5.0, 4.0, 4.0]


def test_the_functions_of_the_package_are_the_methods(tmp_path: Path) -> None:
    import tensorclass

    data = Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2])
    assert tensorclass.save(data, tmp_path / "saved").is_memmap()
    for load in (tensorclass.load, tensorclass.load_memmap):
        found = load(tmp_path / "saved")
        assert type(found) is Sample  # which is defined already
        assert type(found.inner) is Inner
    assert type(TensorDict.load(tmp_path / "saved")) is TensorDict


@pytest.mark.parametrize("size", [(1, 1), (1,), ()])
def test_a_single_value_of_a_longer_row_is_written(tmp_path: Path, size: tuple[int, ...]) -> None:
    value = torch.tensor([1.0, 2.0]).view(*size, 2).unbind(-1)[1]  # its strides are 2
    data = TensorDict({"a": value})
    data.memmap(tmp_path / "folder")
    data.consolidate(tmp_path / "file")
    assert TensorDict.load_memmap(tmp_path / "folder")["a"].sum() == 2.0
    assert TensorDict.from_consolidated(tmp_path / "file")["a"].sum() == 2.0


@pytest.mark.parametrize("place", ["folder", "archive.tdz", None])
def test_files_are_made_for_a_collection_on_meta(place: str | None, tmp_path: Path) -> None:
    outline = TensorDict({"x": torch.zeros(100, 3, dtype=torch.int16), "b": {"c": torch.zeros(100)}}, [100]).to("meta")
    made = outline.memmap_like(None if place is None else tmp_path / place)
    assert made.device == torch.device("cpu")
    assert (made == TensorDict({"x": torch.zeros(100, 3), "b": {"c": torch.zeros(100)}}, [100])).all()
    assert outline["x"].is_meta
