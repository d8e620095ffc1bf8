"""A leaf that is based on ``Leaf`` alone is a value like any other: collections need none of its further methods."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass import (
    Column,
    ConversionError,
    NonTensorData,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorCollection,
    TensorDict,
    Text,
    UnbatchedTensor,
    is_tensor_collection,
    lazy_stack,
    stack,
)
from tensorclass.distributed.messages import record_layout
from tensorclass.td.leaves import content
from tensorclass.td.leaves.content import register_kind
from tensorclass.td.leaves.leaf import FullLeaf, Leaf, RowByRow
from tests import strategies as draw
from tests.operations import SHAPE_OPERATIONS
from tests.storage.formats import FORMATS

CODES = "<codes>"
WORDS = ("a", "b", "c")


class Words(Leaf):
    """A word for each position: an index into words that all leaves share."""

    __slots__ = ("_words",)

    _KIND = "tests.Words"

    _words: Sequence[str]

    def __init__(self, codes: Any, words: Sequence[str] = WORDS) -> None:
        codes = torch.as_tensor(codes)
        self._store = {CODES: codes}
        self._batch_size = codes.shape
        self._device = self._names = self._lock = None
        self._words = words

    def _like(self, store: Any, batch_size: Size, names: Any = None) -> Self:
        new = super()._like(store, batch_size, names)
        new._words = self._words
        return new

    def _same(self, store: Any) -> Self:
        return self._like(store, self._batch_size, self._names)

    @property
    def codes(self) -> Tensor:
        codes = self._store[CODES]
        assert isinstance(codes, Tensor)
        return codes

    def tolist(self, **options: Any) -> Any:
        def words(codes: Any) -> Any:
            return [words(code) for code in codes] if isinstance(codes, list) else self._words[codes]

        return words(self.codes.tolist())

    def _unwrapped(self) -> Any:
        return self.tolist()

    def __repr__(self) -> str:
        return f"Words({self.tolist()})"

    def __reduce__(self) -> Any:
        return Words, (self.codes, self._words)

    def _coded_objects(self) -> tuple[Sequence[Any], Tensor]:
        return self._words, self.codes

    @classmethod
    def _from_objects(cls, objects: Sequence[Any], codes: Tensor, device: torch.device | None) -> Any:
        return cls(codes, objects)

    def _resized(self, batch_size: Size) -> Any:
        return self.expand(batch_size)

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        self._store, self._words = dict(source._store), source._words
        return self

    def _check_rows(self, rows: Any, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        if not isinstance(rows, Words):
            raise RuntimeError(f"{path}: expected Words, got {type(rows).__name__}")


register_kind(Words)


def words(size: Sequence[int]) -> Words:
    return Words(torch.arange(Size(size).numel()).reshape(tuple(size)) % 3)


def sample(size: tuple[int, ...] = (4,)) -> TensorDict:
    nested = TensorDict({"w": words(size)}, size)
    return TensorDict({"x": torch.arange(Size(size).numel()).reshape(size), "w": words(size), "n": nested}, size)


def held(data: Any, key: Any = "w") -> Words:
    value = data.get(key)
    assert type(value) is Words
    assert value.batch_size == data.batch_size
    return value


def test_it_has_few_methods() -> None:
    names = {name for name in dir(Leaf) if name[0] != "_"}
    assert not names & {"select", "to_h5", "from_pandas", "to_module", "send", "map", "state_dict", "pop"}
    assert not issubclass(Leaf, TensorCollection)


@pytest.mark.parametrize("cls", [NonTensorData, NonTensorStack, UnbatchedTensor])
def test_those_of_the_peer_are_collections(cls: type) -> None:
    assert issubclass(cls, FullLeaf)
    assert issubclass(cls, TensorCollection)
    assert is_tensor_collection(cls)


# -- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPE_OPERATIONS)
@settings(max_examples=20)
@given(st.data())
def test_operations_on_shapes_act_on_it_as_on_a_tensor(name: str, data: st.DataObject) -> None:
    size = data.draw(draw.shapes(min_dims=1))
    arguments = data.draw(SHAPE_OPERATIONS[name](size))
    source = sample(size)
    try:
        expected = getattr(source.exclude("w", ("n", "w")), name)(*arguments)
    except Exception as error:
        with pytest.raises(type(error)):
            getattr(source, name)(*arguments)
        return
    result = getattr(source, name)(*arguments)
    for part, like in zip(*((r if isinstance(r, tuple) else (r,)) for r in (result, expected)), strict=True):
        assert part.batch_size == like.batch_size
        for value in (held(part), held(part["n"])):
            assert torch.equal(value.codes, like["x"] % 3)


@given(draw.shapes(), st.data())
def test_an_index_acts_on_it_as_on_a_tensor(size: tuple[int, ...], data: st.DataObject) -> None:
    index = data.draw(draw.indices(size))
    source = sample(size)
    try:
        expected = source["x"][index]
    except IndexError:
        return
    assert torch.equal(held(source[index]).codes, expected % 3)


def test_rows_are_stacked_concatenated_and_chosen() -> None:
    data = sample()
    assert held(stack([data, data], 1)).batch_size == (4, 2)
    assert held(torch.cat([data, data])).tolist() == [*"abca"] * 2  # type: ignore[call-overload]
    assert held(stack(list(data.unbind(0)))).tolist() == [*"abca"]
    assert held(lazy_stack([data, data])[0]).tolist() == [*"abca"]
    assert lazy_stack([data, data]).get("w").tolist() == [[*"abca"]] * 2


# -- as a value -------------------------------------------------------------------------------------------------------


def test_keys_end_at_it() -> None:
    data = sample()
    assert list(data.keys(True)) == ["x", "w", "n", ("n", "w")]
    assert [key for key, _ in data.items(True)] == ["x", "w", "n", ("n", "w")]
    assert list(data.keys(True, True)) == ["x"]
    assert ("w", CODES) not in data
    assert data.get(("w", CODES)) is None
    assert [key for key, _ in data.non_tensor_items(True)] == ["w", ("n", "w")]
    assert not data["n"].is_empty()
    with pytest.raises(KeyError, match="is a leaf"):
        data["w", "new"] = 1


@pytest.mark.parametrize(
    "operation",
    [
        lambda data: data.clone(),
        lambda data: data.clone(False),
        lambda data: data.copy(),
        lambda data: data.select("w", ("n", "w")),
        lambda data: data.exclude("x"),
        lambda data: data.flatten_keys().unflatten_keys(),
        lambda data: data.replace(x=torch.zeros(4)),
        lambda data: data.rename_keys({"x": "y"}),
        lambda data: data.to_tensordict(),
        lambda data: data.to(torch.float64),
        lambda data: data.to("cpu"),
        lambda data: data.double(),
        lambda data: data.detach(),
        lambda data: data.contiguous(),
        lambda data: data.apply(lambda x: x + 1),
        lambda data: data.named_apply(lambda _, x: x + 1),
        lambda data: data + 1,
        lambda data: -data,
        lambda data: data.abs(),
        lambda data: data.clamp(0, 1),
        lambda data: data.cumsum(0),
        lambda data: data.add_(1),
        lambda data: data.zero_(),
        lambda data: torch.zeros_like(data),
        lambda data: data.masked_fill(torch.tensor([True, False, True, False]), 0),
        lambda data: data.lock_().unlock_(),
        lambda data: data.update({"x": torch.zeros(4)}),
        lambda data: data.clone().update(data),
        lambda data: data.clone().update_(data),
        lambda data: data.auto_batch_size_(1),
        lambda data: data.filter_empty_(),
        lambda data: pickle.loads(pickle.dumps(data)),
        lambda data: copy.deepcopy(data),
        lambda data: copy.copy(data),
        lambda data: data.empty(recurse=True).update(data),
    ],
)
def test_operations_keep_it(operation: Callable[[Any], Any]) -> None:
    result = operation(sample())
    assert held(result).tolist() == held(result["n"]).tolist() == [*"abca"]


def test_results_have_a_leaf_of_their_own() -> None:
    data = sample()
    for result in (data + 1, data.clone(False), data.copy(), data.flatten_keys(), data.apply(lambda x: x)):
        assert result.get("w") is not data.get("w")


def test_rows_are_written() -> None:
    data = sample()
    data[1:3] = TensorDict({"x": torch.zeros(2), "w": Words([0, 0]), "n": TensorDict({"w": Words([1, 1])}, [2])}, [2])
    assert held(data).tolist() == [*"aaaa"]
    assert held(data["n"]).tolist() == [*"abba"]
    data.set_("w", Words([2, 2, 2, 2]))
    assert held(data).tolist() == [*"cccc"]
    with pytest.raises(RuntimeError, match="expected Words"):
        data[0] = {"w": "text"}


def test_it_is_locked_with_its_collection() -> None:
    data = sample().lock_()
    assert data.get("w").is_locked
    assert not data.unlock_().get("w").is_locked


def test_it_has_the_names_and_the_size_of_its_collection() -> None:
    data = sample()
    data.names = ["row"]
    assert data.get("w").names == ["row"]
    data.batch_size = ()
    assert data["w"].shape == (4,)
    with pytest.raises(RuntimeError, match="batch_size"):
        data.batch_size = (3,)


def test_it_is_printed_and_converted() -> None:
    data = sample()
    assert "Words(['a', 'b', 'c', 'a'])" in str(data.get("w"))
    assert "w" in repr(data)
    assert data.to_dict()["w"] == [*"abca"]
    assert data.tolist()[1]["w"] == "b"
    assert data.state_dict().keys() == {"x"}
    assert data.bytes() == 4 * 8


def test_a_field_of_a_record_holds_it() -> None:
    class Sentence(TensorClass):
        x: Tensor
        w: Words

    record = Sentence(x=torch.zeros(4), w=words([4]), batch_size=[4])
    assert record[1:].w.tolist() == [*"bca"]
    assert stack([record, record]).w.shape == (2, 4)


# -- outside of the engine, which knows its content and not its class -------------------------------------------------


@pytest.mark.parametrize("count", [4, 1200])  # many objects are written as arrays
@pytest.mark.parametrize("name", FORMATS)
def test_files_hold_it(name: str, count: int, tmp_path: Path) -> None:
    path, data = tmp_path / "data", sample((count,))
    FORMATS[name].save(data, path)
    loaded = FORMATS[name].load(path)
    assert held(loaded).tolist() == held(loaded["n"]).tolist() == held(data).tolist()


class Tags(Text):
    """Strings with a class of their own."""

    __slots__ = ()
    _KIND = "tests.Tags"


class Scale(UnbatchedTensor):
    """A tensor of all rows with a class of its own."""

    __slots__ = ()
    _KIND = "tests.Scale"


register_kind(Tags)
register_kind(Scale)


@pytest.mark.parametrize("name", FORMATS)
def test_files_hold_the_class_of_rows_and_of_a_tensor_of_all_rows(name: str, tmp_path: Path) -> None:
    path, data = tmp_path / "data", TensorDict({"tags": Tags(["a", "bc"]), "scale": Scale(torch.ones(3))}, [2])
    FORMATS[name].save(data, path)
    loaded = FORMATS[name].load(path)
    tags, scale = loaded.get("tags"), loaded.get("scale")
    assert type(tags) is Tags
    assert tags.tolist() == ["a", "bc"]
    assert type(scale) is Scale
    assert torch.equal(scale.data, torch.ones(3))


def test_a_file_whose_reader_lacks_the_class_holds_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample().save(tmp_path / "data")
    monkeypatch.setattr(content, "_kinds", {})
    loaded = TensorDict.load(tmp_path / "data")
    assert type(loaded.get("w")) is NonTensorStack
    assert loaded["w"] == [*"abca"]


class Version(NonTensorData):
    """A text for all rows, which is checked."""

    __slots__ = ()
    _KIND = "tests.Version"
    accepted: Any = (str, int)

    def __init__(self, data: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(data, self.accepted):
            raise TypeError(f"expected a version, got {data!r}")
        super().__init__(data, *args, **kwargs)


register_kind(Version)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_with_an_object_that_its_class_refuses_is_damaged(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FORMATS[name].save(TensorDict({"v": Version(5, batch_size=[2]), "x": torch.zeros(2)}, [2]), tmp_path / "data")
    monkeypatch.setattr(Version, "accepted", str)
    with pytest.raises(ValueError, match="v: expected a version, got 5"):
        _ = FORMATS[name].load(tmp_path / "data")["v"]


def test_another_class_cannot_take_its_name_in_files() -> None:
    with pytest.raises(ValueError, match=r"files name .*Words 'tests.Words' already"):
        register_kind(type("Others", (Words,), {"__slots__": ()}))


def test_rows_are_appended_to_a_file(tmp_path: Path) -> None:
    sample().memmap(tmp_path / "data")
    TensorDict.append_memmap(tmp_path / "data", sample((2,)))
    assert held(TensorDict.load_memmap(tmp_path / "data")).tolist() == [*"abcaab"]


def test_a_message_describes_it() -> None:
    data = sample()
    flat = record_layout.flatten_record(data)
    assert flat.layout.objects == (("n", "w"), ("w",))
    lookup = record_layout.lookup_in({(("x",), ""): data["x"]}, "here")
    made = record_layout.rebuild_record(record_layout.describe_record(data, "send"), None, lookup, "here")
    assert held(made).tolist() == held(made["n"]).tolist() == [*"abca"]


def test_a_message_is_written_into_it() -> None:
    source, target = sample(), sample()
    source["w"], holder = Words([2, 2, 1, 1]), target.get("w")
    layout = record_layout.flatten_record(source).layout
    assert layout.digest == record_layout.flatten_record(target).layout.digest
    record_layout.read_content(record_layout.content_of(source, layout, "send"), target, layout, "here")()
    assert target.get("w") is holder
    assert held(target).tolist() == [*"ccbb"]


def test_rows_are_sorted_joined_and_counted_by_it() -> None:
    data = TensorDict({"x": torch.arange(4), "w": words([4])}, [4])
    assert held(data.sort_by("w")).tolist() == [*"aabc"]
    assert held(data.unique("w")).tolist() == [*"abc"]
    assert held(data.value_counts("w"))[0].tolist() == "a"
    assert held(data[2:].join(data.select("w"), "w")).tolist() == [*"caa"]
    other = TensorDict({"x": torch.arange(2), "y": words([2])}, [2])
    assert data.join(other, "x", how="left").get("y").tolist() == ["a", "b", None, None]
    counts, groups = data.group_by("w").agg(n=("x", "sum")), data.summary()
    assert held(counts).tolist() == [*"abc"]
    assert groups[groups.key == "w"].unique.tolist() == [3]


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
def test_tables_hold_it() -> None:
    data = TensorDict({"x": torch.arange(4), "w": words([4])}, [4])
    assert held(TensorDict.from_arrow(data.to_arrow())).tolist() == [*"abca"]
    assert data.to_arrow()["w"].to_pylist() == [*"abca"]
    assert data.to_struct_array()["w"].tolist() == [*"abca"]


def test_a_record_names_the_field_that_lacks_it() -> None:
    class Sentence(TensorClass):
        x: Tensor
        w: Words

    assert held(Sentence.from_dict({"x": torch.zeros(4), "w": words([4])}, batch_size=[4])).tolist() == [*"abca"]
    with pytest.raises(ConversionError) as raised:
        Sentence.from_dict({"x": torch.zeros(4), "w": "text"}, batch_size=[4])
    assert [problem.path for problem in raised.value.problems] == [("w",)]


def test_a_field_of_objects_takes_it() -> None:
    class Sentence(TensorClass, stack_objects=True):
        x: Tensor
        w: str

    good: Any = words([4])
    record = Sentence(x=torch.zeros(4), w=good, batch_size=[4])
    assert record.get("w").tolist() == [*"abca"]
    numbers: Any = (1,)
    bad: Any = Words([0], numbers)
    with pytest.raises(TypeError, match="expected str, got int"):
        Sentence(x=torch.zeros(1), w=bad, batch_size=[1])


# -- what leaves with content for each position have in common: text, ragged rows, objects -----------------------------

ROWS: dict[str, Any] = {
    "stack": lambda: NonTensorStack(NonTensorStack("a", "b"), NonTensorStack("c", "d")),
    "column": lambda: Column([["a", "b"], ["c", "d"]], str, batch_size=[2, 2]),
    "text": lambda: Text([["a", "b"], ["c", "d"]]),
    "ragged": lambda: Ragged([[1], [2, 3], [4], []]).reshape(2, 2),
}
WITHOUT_NUMBERS = ("stack", "column", "text")


@pytest.mark.parametrize("name", ROWS)
def test_the_batch_size_is_that_of_the_content(name: str) -> None:
    leaf = ROWS[name]()
    assert isinstance(leaf, RowByRow)
    leaf.batch_size = [2, 2]
    for size in ([], [2], [2, 3]):
        message = r"which holds an? \w+ for each position of \[2, 2\]. Nothing was changed"
        with pytest.raises(RuntimeError, match=message):
            leaf.batch_size = size
    data = TensorDict({"rows": leaf}, [2])
    with pytest.raises(RuntimeError, match=r"does not fit 'rows', which holds an? \w+ for each position of \[2, 2\]"):
        data.batch_size = [2, 2, 1]
    assert data.batch_size == Size([2])


@pytest.mark.parametrize("name", WITHOUT_NUMBERS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_reduction_keeps_the_first_row(name: str, keepdim: bool) -> None:
    data = TensorDict({"rows": ROWS[name](), "x": torch.ones(2, 2)}, [2, 2], names=["a", "b"])
    rows = data.sum(0, keepdim=keepdim).get("rows")
    assert rows.tolist() == ([["a", "b"]] if keepdim else ["a", "b"])
    assert rows.names == (["a", "b"] if keepdim else ["b"])
    assert data.sum(1, keepdim=keepdim).get("rows").tolist() == ([["a"], ["c"]] if keepdim else ["a", "c"])
    smallest: Any = data.min(0)
    assert smallest[0].get("rows").tolist() == ["a", "b"]


@pytest.mark.parametrize("name", WITHOUT_NUMBERS)
def test_a_reduction_of_no_rows_has_no_value(name: str) -> None:
    data = TensorDict({"rows": ROWS[name](), "x": torch.ones(2, 2)}, [2, 2], names=["a", "b"])[:0]
    rows = data.sum(0).get("rows")
    assert (rows.batch_size, rows.names, rows.tolist()) == (Size([2]), ["b"], [None, None])
