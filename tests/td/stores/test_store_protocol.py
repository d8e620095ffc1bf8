"""Every store answers the protocol of stores, as its mapping and in its methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import PersistentTensorDict, TensorDict, TensorDictStore, lazy_stack
from tensorclass.td.base import TensorCollection
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.stores.legacy_views import LegacyView
from tensorclass.td.stores.store_classes import OnStore
from tensorclass.td.stores.store_protocol import WRITTEN_BACK, StoreMapping, StoreMethods
from tensorclass.td.stores.sub_tensordict import SubTensorDict
from tensorclass.td.stores.user_mapping import OnMapping
from tensorclass.td.stores.write_back import WrittenBack
from tests.legacy_mode import legacy_mode

METHODS: list[type[OnStore]] = [LazyStacked, OnMapping, SubTensorDict, LegacyView, TensorDictStore]
NAMES = [
    name
    for name, member in vars(StoreMethods).items()
    if inspect.isfunction(member) and member.__module__ == StoreMethods.__module__ and not name.startswith("__")
]


def values() -> dict[str, Any]:
    return {"a": torch.arange(4.0), "n": TensorDict({"b": torch.ones(4, 2)}, [4])}


def legacy_view(data: TensorDict) -> TensorDict:
    with legacy_mode():
        return data.view(4)


def in_file(backend: str) -> Callable[[Path], TensorDict]:
    def made(folder: Path) -> Any:
        if backend == "zarr":
            pytest.importorskip("zarr")  # needs Python 3.11
        data = PersistentTensorDict(filename=folder / "file", mode="w", backend=backend, batch_size=[4])
        return data.update(values())

    return made


#: store -> a collection of batch size [4] on it that holds `values()`
STORES: dict[str, Callable[[Path], Any]] = {
    "dict": lambda _: TensorDict(values(), [4]),
    "lazy stack": lambda _: lazy_stack(list(TensorDict(values(), [4]).unbind(0))),
    "mapping": lambda _: TensorDict.from_store({"a": torch.arange(4.0), "n": {"b": torch.ones(4, 2)}}, [4]),
    "rows": lambda _: TensorDict({k: torch.cat([v, v]) for k, v in values().items()}, [8]).get_sub_tensordict(slice(4)),
    "legacy view": lambda _: legacy_view(TensorDict(values(), [4]).reshape(2, 2)),
    "HDF5": in_file("h5"),
    "zarr": in_file("zarr"),
}


@pytest.fixture(params=[*STORES, "Redis"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "Redis":
        socket = str(request.getfixturevalue("redis_socket"))
        made: Any = TensorDict(values(), [4]).to_store(unix_socket_path=socket)
    else:
        made = STORES[request.param](tmp_path)
    yield made
    if hasattr(made, "close"):
        made.close()


def test_every_store_of_the_package_is_tested() -> None:
    def below(cls: type) -> set[type]:
        return {cls}.union(*[below(one) for one in cls.__subclasses__()])

    own = {cls for cls in below(OnStore) if cls.__module__.startswith("tensorclass.") and not hasattr(cls, "_dense")}
    stores = {cls for cls in own if not any(other is not cls and issubclass(other, cls) for other in own)}
    assert stores == set(METHODS)


def test_the_store_is_a_mapping_of_the_protocol(data: Any) -> None:
    assert isinstance(data._store, StoreMapping)


def test_keys_are_counted_ordered_and_known(data: Any) -> None:
    store = data._store
    assert list(store) == list(store) == list(store.keys()) == ["a", "n"]
    assert len(store) == 2
    assert "a" in store
    assert "x" not in store


def test_values_are_tensors_and_collections_with_the_batch_size_in_front(data: Any) -> None:
    store = data._store
    assert isinstance(store["a"], Tensor)
    assert isinstance(store["n"], TensorCollection)
    assert store["a"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert [value.shape[:1] for value in store.values()] == [torch.Size([4])] * 2
    assert store.get("x") is None


def test_a_missing_key_raises_a_key_error(data: Any) -> None:
    for access in (data._store.__getitem__, data._store.__delitem__):
        with pytest.raises(KeyError):
            access("x")


def test_keys_are_written_and_removed(data: Any) -> None:
    store = data._store
    store["a"] = torch.full((4,), 7.0)
    store["c"] = torch.zeros(4, 3)
    assert list(store) == ["a", "n", "c"] or sorted(store) == ["a", "c", "n"]
    assert store["a"].tolist() == [7.0] * 4
    del store["c"]
    assert sorted(store) == ["a", "n"]


def test_a_nested_collection_reads_the_same_data_each_time(data: Any) -> None:
    data._store["n"].set_("b", torch.full((4, 2), 5.0))
    assert data._store["n"]["b"].tolist() == [[5.0, 5.0]] * 4


def test_the_methods_of_the_protocol_are_found() -> None:
    assert {"_like", "_take", "_leaves", "_set_"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_of_the_protocol_has_an_answer(name: str) -> None:
    owner = WrittenBack if name in WRITTEN_BACK else OnStore
    assert callable(getattr(owner, name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("methods", METHODS, ids=lambda cls: cls.__name__)
def test_a_method_takes_the_arguments_of_the_protocol(methods: type[OnStore], name: str) -> None:
    if name in WRITTEN_BACK and not issubclass(methods, WrittenBack):
        return
    wanted = list(inspect.signature(getattr(StoreMethods, name)).parameters)
    own = inspect.signature(getattr(methods, name))
    own.bind(*wanted)  # by position, as the engine calls them


@pytest.mark.parametrize("methods", [cls for cls in METHODS if issubclass(cls, WrittenBack)])
def test_a_store_that_gives_copies_takes_values_back(methods: type[WrittenBack]) -> None:
    assert methods._take is not WrittenBack._take


def test_results_are_on_a_plain_dict(data: Any) -> None:
    result = data.reshape(2, 2) if not isinstance(data, LazyStacked) else data._densified()
    assert type(result._store) is dict
    assert type(result) is TensorDict


def test_operations_in_place_reach_the_store(data: Any) -> None:
    data.add_(1)
    assert data._store["a"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert data._store["n"]["b"].tolist() == [[2.0, 2.0]] * 4
