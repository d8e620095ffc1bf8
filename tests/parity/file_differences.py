"""Where files and those of the peer differ, as tests/parity/test_differences.py lists it."""

from __future__ import annotations

import itertools
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensordict
import torch
from safetensors.torch import save_file

from tensorclass import TensorClass
from tensorclass.storage import PersistentTensorDict
from tests.parity.sides import OURS, PEER, described, outcome

Call = Callable[[Any], Any]

_ROOT = tempfile.TemporaryDirectory(prefix="tensorclass_parity")
_NUMBERS = itertools.count()


def new(suffix: str = "") -> Path:
    """A path that nothing is at, also of the other processes that run tests: they are forks."""
    return Path(_ROOT.name, f"{os.getpid()}-{next(_NUMBERS)}{suffix}")


def error(cls: type[Exception]) -> Any:
    return described(cls())


def rows(m: Any, **more: Any) -> Any:
    return m.TensorDict({"a": torch.arange(2), "n": {"b": torch.ones(2, 3)}, **more}, [2])


def saved(m: Any, **more: Any) -> Path:
    path = new()
    rows(m, **more).memmap(path)
    return path


def some_rows(m: Any, index: Any = slice(0, 1)) -> Any:
    """Rows of a new collection that write through."""
    data = m.TensorDict({"a": torch.zeros(2)}, [2])
    return data.get_sub_tensordict(index) if hasattr(data, "get_sub_tensordict") else data._get_sub_tensordict(index)


def class_of_saved_rows(m: Any) -> str:
    path = new()
    some_rows(m).memmap(path)
    return type(m.load_memmap(path)).__name__


def class_of_mapped_rows(m: Any) -> str:
    file = str(new())
    m.MemoryMappedTensor.from_tensor(torch.arange(4), filename=file)
    mapped = m.MemoryMappedTensor.from_filename(file, dtype=torch.int64, shape=torch.Size([4]), index=[0, 2])
    return type(mapped).__name__


def opened_beside_a_writer(m: Any) -> Any:
    file = str(new(".h5"))
    written = rows(m).to_h5(file)
    try:
        return m.TensorDict.from_h5(file)["a"].tolist()
    finally:
        written.close()


def locked_after_a_pickle(m: Any) -> bool:
    return bool(pickle.loads(pickle.dumps(rows(m).consolidate().lock_())).is_locked)


def rows_after_loading(m: Any) -> float:
    path = new()
    m.TensorDict({"a": torch.ones(1)}, [1]).memmap(path)
    return float(some_rows(m).load_memmap_(path)["a"])


def storages_of_an_archive(m: Any) -> int:
    path = new(".tdz")
    rows(m).memmap(path, archive=True)
    data = m.load_memmap(path)
    return len({value.untyped_storage().data_ptr() for value in (data["a"], data["n", "b"])})


def future_of_an_archive(m: Any) -> bool:
    future = rows(m).memmap(new(".tdz"), archive=True, return_early=True)
    future.result()
    return hasattr(future, "result")


def load_through_a_link(m: Any) -> list[float]:
    path, elsewhere = new(), new()
    m.TensorDict({"a": torch.zeros(4)}, [4]).memmap(path)
    (path / "a.memmap").rename(elsewhere)
    (path / "a.memmap").symlink_to(elsewhere)
    values: list[float] = m.load_memmap(path)["a"].tolist()
    return values


def overlapping() -> dict[str, torch.Tensor]:
    values = torch.zeros(4)
    return {"a": values, "b": values[:2]}


def held_by(m: Any, **values: Any) -> Any:
    """What a folder gives back of a value."""
    path = new()
    m.TensorDict(values, [2]).memmap(path)
    return m.TensorDict.load_memmap(path)[next(iter(values))]


def loaded_into(m: Any, out: bool) -> Any:
    """Values and dtype of a tensor into whose collection a folder was loaded, and whether it is in there still."""
    values = torch.zeros(2)
    data = m.TensorDict({"a": values}, [2])
    data = m.TensorDict.load_memmap(saved(m), out=data) if out else data.load_memmap_(saved(m))
    return values.tolist(), str(data["a"].dtype)


def unpickled(m: Any, **fields: Any) -> Any:
    """A record of ``x`` and ``y``, unpickled when its class has other fields, with these defaults."""

    def define(**fields: Any) -> Any:
        defaults = {name: value for name, value in fields.items() if value is not None}
        namespace = {"__annotations__": dict.fromkeys(fields, Any), "__module__": __name__, **defaults}
        globals()["Changing"] = cls = m.tensorclass(type("Changing", (), namespace))
        return cls

    text = pickle.dumps(define(x=None, y=None)(x=torch.ones(2), y=torch.ones(2), batch_size=[2]))
    define(**fields)
    return pickle.loads(text)


def of_another_shape(m: Any) -> Any:
    data = m.TensorDict({"a": torch.zeros(2, 4)}, [2])
    return list(data.load_(saved(m))["a"].shape)


def has_path(data: Any) -> bool:
    return isinstance(outcome(lambda: data.saved_path), Path)


def made_in_a_loaded_folder(m: Any) -> Any:
    return m.TensorDict.load_memmap(saved(m)).lock_().make_memmap("k", (2,)).tolist()


def longer_than_its_file(m: Any) -> Any:
    path = new()
    path.write_bytes(bytes(8))
    m.MemoryMappedTensor.from_filename(path, torch.float32, torch.Size([4]))
    return path.stat().st_size


def cut(m: Any) -> Any:
    path = saved(m)
    os.truncate(path / "a.memmap", 8)
    return m.TensorDict.load_memmap(path)["a"].tolist()


class Unwritable:
    def __reduce__(self) -> Any:
        raise ValueError("it cannot be written")


def after_a_write_that_failed(m: Any) -> Any:
    path = new()
    m.TensorDict({"a": torch.ones(2)}).memmap(path)
    outcome(lambda: m.TensorDict({"a": torch.zeros(2), "z": m.NonTensorData(Unwritable())}).memmap(path))
    return m.TensorDict.load_memmap(path)["a"].tolist()


def files_after_another_was_saved(m: Any) -> Any:
    path = new()
    m.TensorDict({"a": torch.ones(2)}).memmap(path)
    m.TensorDict({"b": torch.ones(2)}).memmap(path)
    return sorted(os.listdir(path))


def saved_beside_another(m: Any) -> Any:
    path = new()
    m.TensorDict({"a": torch.ones(2)}).memmap(path)
    return list(m.TensorDict({"b": torch.ones(2)}).memmap(path, existsok=False).keys())


@tensordict.tensorclass
class Peers:
    a: torch.Tensor


@tensordict.tensorclass
class PeersOther:
    b: torch.Tensor


class Sample(TensorClass):
    a: torch.Tensor


class Other(TensorClass):
    b: torch.Tensor


def loaded_record(m: Any, into: Any) -> str:
    path = new()
    cls: Any = Sample if m is OURS else Peers
    cls(a=torch.zeros(2), batch_size=[2]).memmap(path)
    return type(into.load_memmap(path)).__name__


def pickle_of_the_peer(m: Any) -> Any:
    path = new()
    tensordict.TensorDict({"o": tensordict.NonTensorData({1})}).memmap(path)
    return m.TensorDict.load_memmap(path)["o"]


def appended(m: Any, data: Any, more: Any) -> Any:
    path = new()
    data.memmap(path)
    m.append_memmap(path, more)
    return list(m.TensorDict.load_memmap(path).batch_size)


def text_after_a_state_dict(m: Any) -> Any:
    data = m.TensorDict({"text": "new", "a": torch.ones(2)})
    data.load_state_dict(m.TensorDict({"text": "old", "a": torch.zeros(2)}).state_dict())
    return data["text"]


def foreign_names(m: Any) -> Any:
    path = new()
    save_file({"layer.weight": torch.zeros(2)}, path)
    return list(m.from_safetensors(path).keys())


def held(m: Any, name: str = "h5", data: Any = None, **options: Any) -> Any:
    """A collection in a file."""
    path = new()
    getattr(rows(m) if data is None else data, f"to_{name}")(path).close()
    return getattr(m.TensorDict, f"from_{name}")(path, **options)


def in_a_file(m: Any, operation: Call) -> bool:
    result = operation(held(m, mode="r+"))
    return isinstance(result, PersistentTensorDict if m is OURS else PEER.PersistentTensorDict) or (
        type(result).__name__ == "_SubTensorDict"
    )


def closed(m: Any, name: str = "h5") -> Any:
    data = held(m, name)
    data.close()
    return data["a"].tolist()


def through_a_consolidated_file(m: Any) -> Any:
    path = new()
    rows(m).to("cpu").consolidate(path)
    return m.TensorDict.from_consolidated(path)


def ragged() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)], layout=torch.jagged)


def of_different_shapes(m: Any) -> Any:
    return m.TensorDict({"r": m.lazy_stack([m.TensorDict({"a": torch.zeros(n)}) for n in (1, 2)])}, [2])


def through_safetensors(m: Any, data: Any) -> Any:
    path = new()
    m.to_safetensors(data, path)
    return m.from_safetensors(path)


FILES: dict[str, list[tuple[Call, Any, Any]]] = {
    "`return_early=True` gives a future.": [
        (lambda m: hasattr(rows(m).memmap(new(), return_early=True), "result"), True, False),
        (lambda m: hasattr(rows(m).memmap(new(), return_early=True, num_threads=2), "result"), True, True),
        (future_of_an_archive, True, error(NotImplementedError)),
        (lambda m: hasattr(rows(m).consolidate(return_early=True), "result"), True, False),
    ],
    "`robust_key=False` writes only valid file names.": [
        (
            lambda m: list(m.TensorDict({"a b": torch.zeros(1)}).memmap(new(), robust_key=False).keys()),
            error(ValueError),
            ["a b"],
        ),
        (
            lambda m: m.TensorDict({"a/b": torch.zeros(1)}).memmap(new(), robust_key=False),
            error(ValueError),
            error(RuntimeError),
        ),
    ],
    "Loading into a collection writes in place.": [
        (lambda m: loaded_into(m, False), ([0.0, 1.0], "torch.float32"), ([0.0, 0.0], "torch.int64")),
        (lambda m: loaded_into(m, True), ([0.0, 1.0], "torch.float32"), ([0.0, 0.0], "torch.int64")),
        (of_another_shape, error(RuntimeError), [2]),
    ],
    "Rows of a mapped collection are mapped, and not locked.": [
        (lambda m: rows(m).memmap(new())[0].is_locked, False, True),
        (lambda m: type(rows(m).memmap(new())[0]["a"]) is m.MemoryMappedTensor, True, True),
        (lambda m: rows(m).memmap(new()).view(-1).is_locked, False, True),
        (lambda m: (rows(m).memmap(new()) + 1).is_locked, False, True),
        (lambda m: rows(m).memmap(new())[0].lock_().is_memmap(), True, True),
    ],
    "A collection belongs to its folder, locked or not.": [
        (lambda m: has_path(rows(m).memmap(new()).unlock_()), True, False),
        (lambda m: has_path(m.TensorDict.load_memmap(saved(m))), True, False),
        (lambda m: has_path(rows(m).memmap(new()).select("a")), True, False),
        (lambda m: m.TensorDict.load_memmap(saved(m)).lock_().is_memmap(), True, False),
        (made_in_a_loaded_folder, [0.0, 0.0], error(RuntimeError)),
        (lambda m: rows(m).memmap().saved_path, error(AttributeError), None),
        (lambda m: m.TensorDict({}).memmap(new()).is_memmap(), False, True),
        (lambda m: has_path(m.TensorDict({}).memmap(new())), False, True),
    ],
    "Reading never changes a file.": [
        (longer_than_its_file, error(ValueError), 16),
        (cut, error(ValueError), [0, 0]),
    ],
    "A folder is complete, and has no files of earlier keys.": [
        (after_a_write_that_failed, [1.0, 1.0], [0.0, 0.0]),
        (files_after_another_was_saved, ["b.memmap", "meta.json"], ["a.memmap", "b.memmap", "meta.json"]),
        (saved_beside_another, error(RuntimeError), ["b"]),
    ],
    "A folder is loaded into the requested class.": [
        (lambda m: loaded_record(m, m.TensorDict), "TensorDict", "Peers"),
        (lambda m: loaded_record(m, Other if m is OURS else PeersOther), error(ValueError), "Peers"),
        (lambda m: loaded_record(m, m), "Sample", "Peers"),
    ],
    "Pickles need `allow_pickle=True`.": [
        (lambda m: held_by(m, o=m.NonTensorData(Path)), error(TypeError), Path),
        (pickle_of_the_peer, error(ValueError), {1}),
    ],
    "A pickle of a record is compared with the fields of its class.": [
        (lambda m: unpickled(m, x=None, y=None, more="new").more, "new", None),
        (lambda m: sorted(unpickled(m, x=None).keys()), error(ValueError), ["x", "y"]),
    ],
    "Objects in files come back as they were.": [
        (lambda m: held_by(m, o=m.NonTensorData((1, (2,)))), (1, (2,)), [1, [2]]),
        (lambda m: type(held_by(m, o=m.NonTensorData((1, 2)))), tuple, list),
    ],
    "Objects are not shared between processes.": [
        (
            lambda m: list(rows(m, t="text").memmap(new(), share_non_tensor=True).keys()),
            error(NotImplementedError),
            ["a", "n", "t"],
        ),
    ],
    "Objects are not part of state dicts.": [
        (text_after_a_state_dict, "new", "old"),
    ],
    "Files hold more.": [
        (lambda m: held_by(m, r=ragged()).is_nested, True, error(NotImplementedError)),
        (lambda m: m.TensorDict({"z": torch.zeros(0)}).memmap()["z"].tolist(), [], error(ValueError)),
        (lambda m: list(held_by(m, u=m.UnbatchedTensor(torch.zeros(3))).shape), [3], error(NotImplementedError)),
        (lambda m: str(held_by(m, a=torch.ones(2).to(torch.float8_e5m2)).dtype), "torch.float8_e5m2", error(KeyError)),
        (
            lambda m: str(held(m, data=m.TensorDict({"a": torch.ones(2).bfloat16()}))["a"].dtype),
            "torch.bfloat16",
            error(TypeError),
        ),
        (lambda m: held(m, data=m.TensorDict({"o": m.NonTensorData({"a": 1})}))["o"], {"a": 1}, error(TypeError)),
        (lambda m: list(held(m, data=of_different_shapes(m))["r"].batch_size), [2], error(RuntimeError)),
        (lambda m: list(through_safetensors(m, of_different_shapes(m))["r"].batch_size), [2], error(RuntimeError)),
        (
            lambda m: through_safetensors(m, m.TensorDict({"t": m.NonTensorStack("a", "b")}, [2]))["t"],
            ["a", "b"],
            error(TypeError),
        ),
    ],
    "`append_memmap` extends objects and lazy stacks.": [
        (
            lambda m: appended(
                m,
                m.TensorDict({"t": m.NonTensorStack("a", "b")}, [2]),
                m.TensorDict({"t": m.NonTensorStack("c")}, [1]),
            ),
            [3],
            error(ValueError),
        ),
        (lambda m: appended(m, m.lazy_stack([rows(m)] * 2), m.lazy_stack([rows(m)])), [3, 2], error(ValueError)),
    ],
    "One whole tensor is consolidated.": [
        (lambda m: m.TensorDict({"a": torch.zeros(4)}, [4]).is_consolidated(), True, False),
        (lambda m: rows(m).is_consolidated(), False, False),
        (lambda m: rows(m).consolidate().unlock_().is_consolidated(), True, False),
        (locked_after_a_pickle, True, False),
    ],
    "A copy of a mapped tensor is a plain tensor.": [
        (class_of_mapped_rows, "Tensor", "MemoryMappedTensor"),
    ],
    "Consolidated files store no device.": [
        (lambda m: described(through_a_consolidated_file(m).device), None, torch.device("cpu")),
    ],
    "A file of rows holds those rows.": [
        (class_of_saved_rows, "TensorDict", "_SubTensorDict"),
        (rows_after_loading, 1.0, error(RuntimeError)),
    ],
    "Tensors of an archive are separate.": [
        (storages_of_an_archive, 2, 1),
    ],
    "Links are not followed.": [
        (load_through_a_link, error(ValueError), [0.0] * 4),
    ],
    "Memory counts once.": [
        (lambda m: m.TensorDict(overlapping()).bytes(count_duplicates=False), 16, 24),
        (lambda m: m.TensorDict({"a": torch.zeros(1).expand(5)}).bytes(count_duplicates=False), 4, 20),
        (lambda m: m.TensorDict({"a": ragged()}, [2]).bytes(), 12, 36),
    ],
    "Names from other programs are kept.": [
        (foreign_names, ["layer.weight"], ["layer"]),
    ],
    "Operations on a file return collections in memory.": [
        (lambda m: in_a_file(m, lambda d: d), True, True),
        (lambda m: in_a_file(m, lambda d: d.clone()), False, True),
        (lambda m: in_a_file(m, lambda d: d[0]), False, True),
        (lambda m: in_a_file(m, lambda d: d.to("cpu")), False, True),
        (lambda m: in_a_file(m, lambda d: d.select("a")), False, error(NotImplementedError)),
        (lambda m: in_a_file(m, lambda d: d.unsqueeze(0)), False, error(RuntimeError)),
    ],
    "A file stores its batch size.": [
        (
            lambda m: list(held(m, data=m.TensorDict({"a": torch.zeros(2, 3)}, [2])).batch_size),
            [2],
            [2, 3],
        ),
        (
            lambda m: held(m, data=m.TensorDict({"a": torch.zeros(2, 3)}, [2], names=["x"])).names,
            ["x"],
            [None, None],
        ),
    ],
    "Text in HDF5 is text.": [
        (lambda m: held(m, data=rows(m, t="text"))["t"], "text", b"text"),
    ],
    "A closed file raises a `ValueError`.": [
        (closed, error(ValueError), error(KeyError)),
        (lambda m: closed(m, "zarr"), error(ValueError), [0, 1]),
    ],
    "A file is open in one mode.": [
        (opened_beside_a_writer, error(OSError), [0, 1]),
    ],
    "Stores in Redis have a layout of their own.": [
        (lambda m: hasattr(m.TensorDictStore, "td_id"), True, False),
    ],
    "One storage target is missing.": [
        (lambda m: hasattr(m.TensorDict, "to_mds"), False, True),
    ],
}
