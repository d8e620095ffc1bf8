"""Collections in a Redis server."""

from __future__ import annotations

import doctest
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import PersistentTensorDict, Ragged, TensorClass, TensorDict, TensorDictStore, Text, lazy_stack
from tensorclass.storage import FileError
from tensorclass.support import extras
from tests.docstring_examples import FLAGS, examples_that_need

ROOT = Path(__file__).parents[3]


class Pose(TensorClass):
    angle: Tensor


class Sample(TensorClass):
    image: Tensor
    pose: Pose
    text: Text
    boxes: Ragged
    tag: str = "a"


def sample(rows: int = 5) -> Sample:
    texts = ["a", "bb", "", "ccc", "dé"][:rows]
    boxes = [torch.ones(n, 4) * n for n in (0, 1, 2, 1, 0)[:rows]]
    angle = torch.arange(float(rows))
    return Sample(torch.rand(rows, 3, 3), Pose(angle, batch_size=[rows]), texts, boxes, batch_size=[rows])


def data() -> TensorDict:
    values = {
        "x": torch.arange(20.0).view(10, 2),
        "n": {"y": torch.arange(10), "deep": {"z": torch.ones(10, dtype=torch.bfloat16)}},
        "flag": torch.arange(10) > 4,
        "words": "hello",
        "empty": torch.zeros(10, 0),
    }
    return TensorDict(values, [10], names=["time"])


@pytest.fixture
def client(redis_socket: Path) -> Iterator[Any]:
    import redis

    with redis.Redis(unix_socket_path=str(redis_socket)) as client:
        client.flushall()
        yield client


@pytest.fixture
def server(client: Any, redis_socket: Path) -> dict[str, Any]:
    return {"unix_socket_path": str(redis_socket)}


def same(held: Any, expected: Any) -> None:
    read = held.to_tensordict()
    assert set(read.keys(True, True)) == set(expected.to_tensordict().keys(True, True))
    assert (read == expected.to_tensordict()).all()


def test_a_collection_is_written_and_read(server: dict[str, Any]) -> None:
    held = data().to_store(**server)
    assert isinstance(held, TensorDictStore)
    assert isinstance(held, TensorDict)
    assert (held.batch_size, held.names) == (torch.Size([10]), ["time"])
    assert list(held.keys()) == ["x", "n", "flag", "words", "empty"]
    same(held, data())
    there: Any = TensorDictStore.from_store(td_id=held.td_id, **server)
    same(there, data())
    assert there["n", "deep", "z"].dtype is torch.bfloat16
    assert there.names == ["time"]


@pytest.mark.parametrize(
    "index", [3, -1, slice(3, 8), slice(0, 10, 3), [7, 1, 1], torch.tensor([0, 9]), torch.arange(10) > 6, None, ()]
)
def test_an_index_gives_the_rows(index: Any, server: dict[str, Any]) -> None:
    held, expected = data().to_store(**server), data()
    assert (held[index] == expected[index]).all()
    rows = expected[index].apply(lambda x: x + 1 if x.dtype is not torch.bool else ~x)
    held[index] = rows
    expected[index] = rows
    same(held, expected)


def test_an_index_reads_only_its_rows(server: dict[str, Any], client: Any) -> None:
    held = TensorDict({"x": torch.zeros(100_000, 10)}, [100_000]).to_store(**server)
    before = client.info("stats")["total_net_output_bytes"]
    assert held[500:502]["x"].shape == (2, 10)
    assert client.info("stats")["total_net_output_bytes"] - before < 20_000  # and the statistics


def test_keys_change_on_the_server(server: dict[str, Any], client: Any) -> None:
    held = data().to_store(**server)
    there: Any = TensorDictStore.from_store(td_id=held.td_id, **server)
    held["new"] = torch.ones(10)
    held["n", "more"] = {"w": torch.ones(10, 3)}
    held["x"] = torch.ones(10, 5)  # another shape
    held.rename_key_("flag", "renamed")
    held.update({"words": "others"})
    del held["empty"]
    held["x"] += 1
    assert list(there.keys()) == ["x", "n", "words", "new", "renamed"]
    assert there["x"].unique().tolist() == [2.0]
    assert there["words"] == "others"
    fresh: Any = TensorDictStore.from_store(td_id=held.td_id, **server)
    assert fresh["n", "more", "w"].shape == (10, 3)
    same(fresh, held)
    del fresh["n"]
    assert {client.ttl(key) for key in client.scan_iter()} == {-1}
    assert len(client.keys()) == 1 + len(fresh.keys())  # the root, and an array for each key: nothing is left over


def test_a_record_keeps_its_class(server: dict[str, Any]) -> None:
    given = sample()
    held = given.to_store(**server)
    assert isinstance(held, Sample)
    assert isinstance(held.pose, Pose)
    assert held[1:3].text.tolist() == ["bb", ""]
    assert [len(rows) for rows in held[[3, 2]].boxes.tolist()] == [1, 2]
    held.pose.angle = torch.ones(5)
    held[0] = given[3]
    there = TensorDictStore.from_store(td_id=held.td_id, tensorclass_cls=Sample, **server)  # type: ignore[attr-defined]
    assert isinstance(there, Sample)
    assert there.pose.angle.tolist() == [3.0, 1.0, 1.0, 1.0, 1.0]
    assert there.text.tolist() == ["ccc", "bb", "", "ccc", "dé"]
    assert torch.equal(there.image[1:], given.image[1:])
    with pytest.raises(FileError, match="angle"):
        TensorDictStore.from_store(td_id=held.td_id, tensorclass_cls=Pose, **server)  # type: ignore[attr-defined]
    assert type(there[:2]) is Sample


def test_constructors_of_a_collection_in_a_store_are_those_of_its_class(server: dict[str, Any]) -> None:
    held = TensorDict({"x": torch.zeros(2)}, [2]).to_store(**server)
    assert not isinstance(type(held).from_dict({"y": torch.ones(2)}), TensorDictStore)
    assert type(held).from_store({"y": torch.ones(2)}, [2])["y"].tolist() == [1.0, 1.0]


def test_rows_are_appended(server: dict[str, Any]) -> None:
    held: Any = sample().to_store(**server)
    held.extend(sample(2))
    assert held.batch_size == (7,)
    there: Any = TensorDictStore.from_store(td_id=held.td_id, tensorclass_cls=Sample, **server)
    assert there.text.tolist() == ["a", "bb", "", "ccc", "dé", "a", "bb"]
    assert there.pose.angle.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 1.0]


def test_lazy_stacks_and_stacks_of_objects(server: dict[str, Any]) -> None:
    parts = lazy_stack([TensorDict({"x": torch.ones(n), "s": str(n)}) for n in (2, 3)])
    held: Any = parts.to_store(**server)
    assert [len(x) for x in held.get("x", as_list=True)] == [2, 3]
    objects = TensorDict({"s": ["a", "b", None], "o": [(1, 2), {"k": 1.5}, "x"]}, [3])
    there: Any = objects.to_store(**server)
    assert there["s"] == ["a", "b", None]
    assert there[1:]["o"] == [{"k": 1.5}, "x"]


def test_a_schema_makes_zeros(server: dict[str, Any], client: Any) -> None:
    schema: Any = {"image": ([4, 4], torch.uint8), ("pose", "angle"): ([], torch.bfloat16)}
    before = client.info("stats")["total_net_input_bytes"]
    held = TensorDictStore.from_schema(schema, batch_size=[10_000], **server)
    assert client.info("stats")["total_net_input_bytes"] - before < 10_000
    assert (held["image"].shape, held["image"].dtype) == ((10_000, 4, 4), torch.uint8)
    held[7] = {"image": torch.ones(4, 4, dtype=torch.uint8), "pose": {"angle": torch.tensor(2.0).bfloat16()}}
    assert int(held["image"].sum()) == 16
    assert held["pose", "angle"].nonzero().tolist() == [[7]]


def test_from_dict_and_the_constructor(server: dict[str, Any]) -> None:
    held = TensorDictStore.from_dict({"x": torch.zeros(3, 2), "n": {"y": torch.ones(3)}}, batch_size=[3], **server)
    assert held.batch_size == (3,)
    assert TensorDictStore.from_dict({"x": torch.zeros(3, 2)}, batch_dims=1, **server).batch_size == (3,)
    assert TensorDictStore.from_dict(data(), **server).names == ["time"]
    empty = TensorDictStore(batch_size=[4], td_id="mine", **server)
    empty["x"] = torch.arange(4)
    assert TensorDictStore.from_store(td_id="mine", **server)["x"].tolist() == [0, 1, 2, 3]
    with pytest.raises(FileExistsError, match="mine"):
        TensorDictStore(td_id="mine", **server)
    assert TensorDictStore.from_store(td_id="mine", **server)["x"].tolist() == [0, 1, 2, 3]


def test_a_large_array_is_sent_in_pieces(server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorclass.storage.key_value.redis_backend._PIECE", 100)
    values = torch.arange(1000.0).view(100, 10)
    held = TensorDict({"x": values}, [100]).to_store(**server)
    assert torch.equal(held["x"], values)
    held[10:60] = {"x": -values[10:60]}
    assert torch.equal(held[10:60]["x"], -values[10:60])
    assert torch.equal(held["x"][60:], values[60:])


def test_a_pickle_opens_the_store(server: dict[str, Any]) -> None:
    held = data().to_store(**server)
    there = pickle.loads(pickle.dumps(held))
    assert isinstance(there, TensorDictStore)
    there["flag"] = torch.ones(10, dtype=torch.bool)
    assert held["flag"].all()


def test_a_store_is_removed_whole(server: dict[str, Any], client: Any) -> None:
    one, other = data().to_store(**server), data().to_store(prefix="other", **server)
    with pytest.raises(RuntimeError, match="nested"):
        one["n"].clear_redis()
    one.clear_redis()  # type: ignore[attr-defined]
    assert all(key.startswith(b"other:") for key in client.scan_iter())
    same(other, data())
    with pytest.raises(ValueError, match="closed"):
        one["x"]


def test_a_store_that_fails_leaves_nothing(
    server: dict[str, Any], client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError, match=r"nothing was written.*words"):
        TensorDict({"x": torch.ones(2), "words": object()}, [2]).to_store(**server)
    assert client.keys() == []

    def fail(self: Any, root: Any) -> None:
        assert client.keys()
        assert not client.exists(root.key)  # it is not there before it is whole
        assert min(client.ttl(key) for key in client.scan_iter()) > 0  # of a killed writer, all vanishes
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorclass.storage.key_value.redis_backend.Redis.publish", fail)
    with pytest.raises(KeyboardInterrupt):
        data().to_store(**server)
    assert client.keys() == []


def test_a_value_that_fails_leaves_the_old_one(
    server: dict[str, Any], client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = data().to_store(**server)
    keys = set(client.keys())
    monkeypatch.setattr("tensorclass.storage.key_value.redis_backend._queue", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        held["n"] = {"y": torch.zeros(10)}
    assert set(client.keys()) == keys
    same(held, data())


def test_another_clients_changes_are_noticed(server: dict[str, Any]) -> None:
    held = data().to_store(**server)
    there: Any = TensorDictStore.from_store(td_id=held.td_id, **server)
    nested = there["n"]
    del held["n"]
    with pytest.raises(FileError, match="another client has replaced or removed it"):
        nested["new"] = torch.ones(10)
    with pytest.raises(FileError, match="another client"):
        list(nested.keys())
    entry = there._store.find("x")
    held["x"] = torch.ones(10, 3)
    with pytest.raises(FileError, match="x: nothing was written; another client"):
        entry.write(torch.zeros(10, 2))
    assert held["x"].unique().tolist() == [1.0]


def test_errors_say_what_to_do(server: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError, match="no store with the id 'none'"):
        TensorDictStore.from_store(td_id="none", **server)
    with pytest.raises(ConnectionError, match=r"cannot be reached.*redis-server --port 0 --unixsocket .*gone"):
        data().to_store(unix_socket_path=str(tmp_path / "gone"))
    with pytest.raises(NotImplementedError, match="dragonfly"):
        data().to_store(backend="dragonfly", **server)
    with pytest.raises(TypeError, match="tensorclass_cls"):
        TensorDictStore.from_store(td_id="x", tensorclass_cls="os.system", **server)  # type: ignore[arg-type]
    held = data().to_store(**server)
    with pytest.raises(KeyError, match="absent"):
        held["absent"]
    with pytest.raises(RuntimeError, match="x"):
        held["x"] = torch.ones(3)

    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(ImportError, match=r"pip install 'tensorclass\[redis\]'"):
        data().to_store(**server)


@pytest.mark.parametrize(
    "header",
    [
        b"no json",
        b"[]",
        b"{}",
        {"array": "../../other", "dtype": "<f4", "shape": [10, 2]},
        {"dtype": "|O"},
        {"dtype": "<f4, <f4"},
        {"shape": [-1, 2]},
        {"shape": [10**6, 2]},
        {"shape": None},
    ],
)
def test_damage_is_an_error_that_names_the_key(header: Any, server: dict[str, Any], client: Any) -> None:
    held: Any = TensorDict({"x": torch.zeros(10, 2)}, [10]).to_store(td_id="one", **server)
    if isinstance(header, dict):
        header = json.dumps({**json.loads(client.hget("tensordict:one", "x")), **header})
    client.hset("tensordict:one", "x", header)
    with pytest.raises(FileError, match=r"tensordict:one: .*\bx\b|tensordict:one: "):
        held["x"]


def test_it_is_a_persistent_collection(server: dict[str, Any]) -> None:
    held = data().to_store(**server)
    assert isinstance(held, PersistentTensorDict)
    assert f"in tensordict:{held.td_id}"[:20] in repr(held)  # type: ignore[attr-defined]
    with held as same_one:
        assert same_one is held
    with pytest.raises(ValueError, match="closed"):
        held["x"]


def test_the_examples_of_the_docstrings_run(
    server: dict[str, Any], redis_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(redis_socket.parent)
    examples = examples_that_need("redis")
    assert len(examples) >= 7
    for example in examples:
        lines: list[str] = []
        result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=lines.append)
        assert not result.failed, "".join(lines)


def test_the_example_of_the_guide_runs(
    server: dict[str, Any], redis_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(redis_socket.parent)
    section = (ROOT / "docs/storage.md").read_text().split("\n## Redis\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "docs/storage.md", "exec"), names)
    assert names["there"][2:6]["label"].tolist() == [2, 0, 0, 5]
