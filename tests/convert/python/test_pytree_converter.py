"""from_pytree and to_pytree are inverse."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree

import tensorclass as tc
from tensorclass import NonTensorData, NonTensorStack, TensorDict
from tensorclass.convert.python.pytree_converter import TYPE, PytreeNode
from tests import fresh_python
from tests.convert.samples import Inner, Pair, Sample, values
from tests.convert.sides import both


class Key:
    """A key that is not a string."""


class Text(str):
    """A subclass of str as key."""


class Missing(dict[Any, Any]):
    """A dict type that no registry knows."""


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Registered:
    """A type in torch's registry."""

    x: Any
    y: Any
    static: str = "s"


class Known:
    """A type in optree's registry: globally, and in a namespace with another function."""

    def __init__(self, x: Any, how: str = "") -> None:
        self.x = x
        self.how = how


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    _pytree.register_pytree_node(
        Registered,
        lambda node: ([node.x, node.y], node.static),
        lambda children, static: Registered(*children, static),
    )
    yield
    _pytree.SUPPORTED_NODES.pop(Registered)


def same(ours: Any, source: Any) -> bool:
    """Return whether a tree is unchanged: types, values, dtypes, order of keys, and the very tensors."""
    if type(ours) is not type(source):
        return False
    if isinstance(source, Tensor):
        return ours is source
    if tc.is_tensor_collection(source):
        return ours is source or (type(ours) is type(source) and bool(same(ours.to_dict(), source.to_dict())))
    if isinstance(source, (np.ndarray, np.generic)):
        return ours.dtype == source.dtype and ours.shape == source.shape and ours.tobytes() == source.tobytes()
    if isinstance(source, (float, complex)):
        return repr(ours) == repr(source)  # tells -0.0 and nan
    if isinstance(source, dict):
        if isinstance(source, collections.defaultdict) and ours.default_factory is not source.default_factory:
            return False
        return len(ours) == len(source) and all(
            type(a) is type(b) and a == b and same(ours[a], source[b]) for a, b in zip(ours, source, strict=True)
        )
    if isinstance(source, torch.Size):
        return ours == source
    if isinstance(source, (list, tuple, collections.deque)):
        length = not isinstance(source, collections.deque) or ours.maxlen == source.maxlen
        return length and len(ours) == len(source) and all(map(same, ours, source))
    if isinstance(source, Registered):
        return same((ours.x, ours.y, ours.static), (source.x, source.y, source.static))
    return bool(ours == source)


def arrays() -> st.SearchStrategy[Any]:
    dtypes = st.sampled_from(
        ["?", "u1", "i2", "i4", "i8", "u8", "f2", "f4", ">f4", "f8", ">i2", "c8", "U2", "O", "M8[s]"]
    )
    shapes = st.sampled_from([(), (0,), (3,), (2, 3)])
    made = st.builds(lambda dtype, shape: np.zeros(shape, dtype), dtypes, shapes)
    return st.one_of(
        made,
        made.map(lambda array: array[::-1] if array.ndim else array),
        made.map(lambda array: array.T),
        st.just(np.broadcast_to(np.float32(1), (2, 2))),  # cannot be written to
        st.just(np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])),
    )


numbers = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.sampled_from([2**63, -(2**63), 2**64 - 1, 1e300, 1e-50, 0.1, -0.0, Level.LOW]),
    st.sampled_from([np.float32(0.1), np.float64(0.1), np.int8(3), np.bool_(True), np.complex64(1j), np.float16(1.5)]),
    st.sampled_from([np.datetime64("2020-01-01"), np.longdouble(1), np.str_("a")]),
)
leaves = st.one_of(
    st.none(),
    numbers,
    st.text("ab", max_size=2),
    st.binary(max_size=2),
    st.builds(lambda n: torch.arange(n), st.integers(0, 3)),
    arrays(),
    st.builds(lambda n: TensorDict({"a": torch.zeros(n)}, [n]), st.integers(0, 3)),
    st.builds(lambda n: Inner(torch.zeros(n), "t", batch_size=[n]), st.integers(0, 3)),
    st.sampled_from([torch.Size([2, 3]), Missing(a=1), frozenset([1]), range(3), int, ...]),
    st.builds(lambda: NonTensorData("x")),
    st.builds(lambda: NonTensorStack("x", "y")),
    st.builds(lambda: TensorDict({TYPE: "list", "0": 1.0})),
    st.builds(lambda: TensorDict.from_pytree([1.0, {"a": "b"}])),
)
keys = st.one_of(
    st.text("ab_", max_size=2),
    st.sampled_from([TYPE, "_pytree_context", "<NON_NESTED>0", "<0>", "<0>>", "<1>", "value", "key", "0", "", "a.b"]),
    st.sampled_from([Text(TYPE), Text("a"), b"a", np.int64(7), np.float32(0.5), (), (TYPE,), (("a",), 1), int]),
    st.integers(0, 3),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.tuples(st.text("ab", max_size=1), st.text("ab", max_size=1)),
    st.frozensets(st.integers(0, 3), max_size=2),
)


def nodes(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.dictionaries(keys, below, max_size=3)
    items = st.lists(below, max_size=3)
    return st.one_of(
        items,
        items.map(tuple),
        st.builds(Pair, below, below),
        plain,
        plain.map(collections.OrderedDict),
        st.builds(collections.defaultdict, st.sampled_from([list, int, None]), plain),
        st.builds(collections.deque, items, st.sampled_from([None, 3, 5])),
        st.builds(Registered, below, below, st.sampled_from(["s", "t"])),
    )


trees = st.recursive(leaves, nodes, max_leaves=12)


@given(tree=trees)
@example(tree={TYPE: 1, "<0>": 2, "<0>>": 3, 0: 4, "0": 5, (TYPE,): 6})
def test_a_tree_comes_back_as_it_was(tree: Any) -> None:
    tree = [tree]  # a single leaf has no node around it
    data = TensorDict.from_pytree(tree)
    assert same(data.to_pytree(), tree)
    assert same(TensorDict.from_pytree([data]).to_pytree()[0].to_pytree(), tree)  # a leaf of another tree


@given(tree=trees)
def test_rows_of_stacked_trees_are_the_trees(tree: Any) -> None:
    tree = [tree, 1]
    data = TensorDict.from_pytree(tree)
    back = torch.stack([data, data])[1].to_pytree()
    assert kinds(back) == kinds(tree)


def kinds(tree: Any) -> Any:
    """Return the structure of a tree with the classes of its leaves."""
    leaves, structure = _pytree.tree_flatten(tree, is_leaf=tc.is_tensor_collection)
    return list(map(type, leaves)), structure


# -- what numbers and arrays are after an operation -------------------------------------------------------------------


def test_a_number_comes_back_with_the_value_that_it_has_now() -> None:
    tree = {
        "float": 0.1,
        "int": 3,
        "bool": True,
        "complex": 1j,
        "numpy": np.float32(2),
        "array": np.arange(3),
        "text": "a",
    }
    back = (TensorDict.from_pytree(tree) * 2).to_pytree()
    assert [type(value) for value in back.values()] == [float, int, int, complex, np.float32, np.ndarray, str]
    assert back["float"] == pytest.approx(0.2)
    assert (back["int"], back["bool"], back["complex"], back["numpy"], back["text"]) == (6, 2, 2j, 4, "a")
    assert back["array"].tolist() == [0, 2, 4]


def test_a_number_has_the_kind_that_its_tensor_has_now() -> None:
    data = TensorDict.from_pytree([1, 0.5, True, np.float32(1), np.arange(2, dtype=">i4"), Level.LOW])
    back = data.to(torch.float64).to_pytree()
    assert [type(value) for value in back] == [float, float, float, np.float64, np.ndarray, float]
    assert back[4].dtype == np.float64
    assert [type(value) for value in (data > 0).to_pytree()] == [bool, bool, bool, np.bool_, np.ndarray, bool]


def test_digits_that_a_tensor_lacks_come_back_only_while_it_is_unchanged() -> None:
    data = TensorDict.from_pytree([0.1, Level.LOW])
    assert data.clone().to_pytree() == [0.1, Level.LOW]
    assert (data + 1).to_pytree() == [torch.tensor(1.1).item(), 2]
    data["0"] = 0.25
    assert data.to_pytree()[0] == 0.25


def test_a_number_with_batch_dimensions_is_a_tensor_and_an_array_an_array() -> None:
    rows = torch.stack([TensorDict.from_pytree([x, np.float32(x), np.full(2, x)]) for x in (0.5, 1.5)])
    numbers, scalars, table = rows.to_pytree()
    assert torch.equal(numbers, torch.tensor([0.5, 1.5]))
    assert (scalars.tolist(), scalars.dtype) == ([0.5, 1.5], np.float32)
    assert table.tolist() == [[0.5, 0.5], [1.5, 1.5]]
    number, scalar, array = rows[1].to_pytree()
    assert (number, type(number), scalar, type(scalar), array.tolist()) == (1.5, float, 1.5, np.float32, [1.5, 1.5])


def test_a_row_of_arrays_is_an_array() -> None:
    data = TensorDict.from_pytree({"a": np.arange(6).reshape(3, 2), "b": np.arange(3)}, batch_size=[3])
    back = data[1].to_pytree()
    assert (back["a"].tolist(), back["b"].shape, back["b"][()]) == ([2, 3], (), 1)


def test_what_no_number_and_no_array_can_be_stays_a_tensor() -> None:
    data = TensorDict.from_pytree([1.0, np.zeros(2, np.float32)])
    for changed in (data.clone().requires_grad_(), data.to("meta"), data.expand(3)):
        assert isinstance(changed.to_pytree()[0], Tensor)
    assert isinstance(data.to(torch.bfloat16).to_pytree()[1], Tensor)
    assert type(data.expand(3).to_pytree()[1]) is np.ndarray
    grad = torch.func.grad(lambda x: TensorDict.from_pytree([x]).to_pytree()[0] ** 2)(torch.tensor(3.0))
    assert grad == 6
    seen: list[Any] = []
    torch.vmap(lambda td: seen.extend(td.to_pytree()) or td)(data.expand(3))
    assert all(isinstance(value, Tensor) for value in seen)


def test_arrays_share_their_memory_in_and_out() -> None:
    array = np.zeros(3)
    data = TensorDict.from_pytree([array])
    back = data.to_pytree()[0]
    array[1] = 5
    assert (data["0"].tolist(), back.tolist()) == ([0, 5, 0], [0, 5, 0])


# -- what operations do to nodes --------------------------------------------------------------------------------------


def test_rows_of_a_tree_are_trees() -> None:
    data = TensorDict.from_pytree([values(3), {"a": (values(3, 2), "text"), 7: values(3)}], batch_size=[3])
    first, second = data[1].to_pytree()
    assert first == 1
    assert second["a"][0].tolist() == [2, 3]
    assert (second["a"][1], second[7]) == ("text", 1)
    stacked = torch.stack([data[0], data[1]]).to_pytree()
    assert stacked[0].tolist() == [0, 1]


def test_rows_of_different_kinds_are_told_and_come_back_one_by_one() -> None:
    rows = torch.stack([TensorDict.from_pytree(tree) for tree in ([values(2)], (values(2),))])
    with pytest.raises(ValueError, match=r"the rows are trees of different kinds, \['<list>', '<tuple>'\]"):
        rows.to_pytree()
    assert [type(row.to_pytree()) for row in rows.unbind(0)] == [list, tuple]
    assert type(rows[:1].to_pytree()) is list
    assert type(rows[:0].to_pytree()) is list


def test_rows_whose_leaves_were_of_different_kinds_have_tensors_for_them() -> None:
    rows = torch.stack([TensorDict.from_pytree(tree) for tree in ([1.0, 2], [torch.tensor(1.0), 3])])
    assert all(isinstance(leaf, Tensor) for leaf in rows.to_pytree())
    assert [type(leaf) for leaf in rows[0].to_pytree()] == [float, int]
    assert [type(leaf) for leaf in rows[1].to_pytree()] == [Tensor, int]


def test_keys_that_are_equal_and_of_different_kinds_stay_apart() -> None:
    rows = torch.stack([TensorDict.from_pytree({key: values(2)}) for key in (1, True)])
    assert [type(next(iter(row.to_pytree()))) for row in rows.unbind(0)] == [int, bool]


def test_lazy_stacks_of_trees_are_trees() -> None:
    rows = tc.lazy_stack([TensorDict.from_pytree([values(2), {"a": x}]) for x in (1.0, 2.0)])
    first, second = rows.to_pytree()
    assert first.shape == (2, 2)
    assert second["a"].tolist() == [1, 2]


def test_the_structure_is_not_copied_and_survives_pickling() -> None:
    tree = {1: [0.1, np.zeros(2, ">f4")], "d": collections.deque([TensorDict({TYPE: 1})], 3)}
    data = TensorDict.from_pytree(tree)
    for copied in (data.clone(), copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        back = copied.to_pytree()
        assert (list(back), back[1][0], back[1][1].dtype) == ([1, "d"], 0.1, np.dtype(">f4"))
        assert (back["d"].maxlen, list(back["d"][0].keys())) == (3, [TYPE])
    assert data.clone()[TYPE] is data[TYPE]


def test_keys_can_be_taken_away_and_added() -> None:
    data = TensorDict.from_pytree({"list": list(range(12)), "dict": {"a": 1}, "pair": Pair(1, 2)})
    data["dict", "b"] = 2
    data["list", "12"] = 12
    del data["dict", "a"]
    assert data.to_pytree()["dict"] == {"b": torch.tensor(2)}
    assert data.to_pytree()["list"][10:] == [10, 11, torch.tensor(12)]
    del data["pair", "x"]
    with pytest.raises(ValueError, match=r"to_pytree: a Pair needs an entry for 'x', and has \['y'\]"):
        data.to_pytree()


# -- beside the peer --------------------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize(
    "tree",
    [
        [values(1), values(2)],
        (1, values(2)),
        {"a": 1, "b": {"c": [1, (2,)]}},
        Pair(1, {"a": 2}),
        collections.OrderedDict(a=1),
        [],
        (),
        {},
        [np.zeros(2), [[1.5]]],
        {"a": {}, "b": ()},
    ],
    ids=str,
)
def test_keys_and_tensors_are_those_of_the_peer(tree: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_pytree(tree).filter_non_tensor_data())
    assert ours == peers
    ours, peers = both(lambda m: list(m.TensorDict.from_pytree(tree).keys(True)))
    assert sorted(map(str, ours)) == sorted(map(str, peers))


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"auto_batch_size": True},
        {"batch_size": [3]},
        {"auto_batch_size": True, "batch_dims": 1},
        {"batch_size": [4]},
    ],
    ids=str,
)
def test_the_batch_size_is_that_of_the_peer(options: dict[str, Any]) -> None:
    tree = [values(3, 4), {"a": values(3, 5)}]
    ours, peers = both(lambda m: m.from_pytree(tree, **options).filter_non_tensor_data())
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("leaf", [1, 2.5, values(2), np.zeros(2)], ids=str)
def test_a_single_leaf_is_a_tensor_as_in_the_peer(leaf: Any) -> None:
    ours, peers = both(lambda m: m.from_pytree(leaf))
    assert ours == peers


# -- leaves -----------------------------------------------------------------------------------------------------------


def test_leaves_of_other_kinds_are_objects() -> None:
    tree = {"s": "text", "none": None, "object": Missing(a=1), "size": torch.Size([2]), "holder": NonTensorData("x")}
    back = TensorDict.from_pytree(tree).to_pytree()
    assert back["object"] is tree["object"]
    assert (back["s"], back["none"], back["size"]) == ("text", None, torch.Size([2]))
    assert back["holder"] is tree["holder"]


def test_an_array_with_a_mask_keeps_it() -> None:
    masked = np.ma.masked_equal(np.arange(3), 1)
    assert TensorDict.from_pytree([masked]).to_pytree()[0] is masked


def test_a_collection_that_was_not_made_of_a_tree_is_a_leaf() -> None:
    data = TensorDict({"a": {"b": 1}})
    assert data.to_pytree() is data
    assert TensorDict.from_pytree(data) is data


def test_collections_among_the_leaves_are_not_changed() -> None:
    leaf = TensorDict({"a": values(3, 2)})
    for options in ({"batch_size": [3]}, {"auto_batch_size": True}):
        data = TensorDict.from_pytree([leaf, values(3)], **options)
        assert (data["0"].batch_size[:1], leaf.batch_size) == ((3,), ())
    assert TensorDict.from_pytree(leaf, batch_size=[3]).batch_size == (3,)
    assert leaf.batch_size == ()


# -- what is registered -----------------------------------------------------------------------------------------------


def test_what_torch_has_registered_comes_back() -> None:
    pair = torch.max(values(3, 2), 0)
    back = TensorDict.from_pytree({"max": pair, "deque": collections.deque([1, 2], 2), "own": Registered(1.5, [2])})
    back = back.to_pytree()
    assert type(back["max"]) is type(pair)
    assert back["max"].indices is pair.indices
    assert back["deque"] == collections.deque([1, 2])
    assert back["own"] == Registered(1.5, [2])


def test_what_optree_has_registered_comes_back() -> None:
    optree = pytest.importorskip("optree")
    for namespace in ("a", "b"):
        optree.register_pytree_node(
            Known,
            lambda node, namespace=namespace: ((node.x,), namespace),
            lambda context, children: Known(*children, context),
            namespace=namespace,
        )
    try:
        tree = [Known({"k": 1.5})]
        assert TensorDict.from_pytree(tree).to_pytree()[0] is tree[0]  # an object, outside of the namespaces
        for namespace in ("a", "b"):
            back = TensorDict.from_pytree(tree, namespace=namespace).to_pytree()[0]
            assert (type(back), back.x, back.how) == (Known, {"k": 1.5}, namespace)
            doubled = (TensorDict.from_pytree(tree, namespace=namespace) * 2).to_pytree()[0]
            assert doubled.x == {"k": 3.0}
    finally:
        for namespace in ("a", "b"):
            optree.unregister_pytree_node(Known, namespace=namespace)


def test_a_class_that_is_registered_no_more_is_told() -> None:
    data = TensorDict.from_pytree([Registered(1, 2)])
    known = _pytree.SUPPORTED_NODES.pop(Registered)
    try:
        with pytest.raises(ValueError, match=r"test_pytree_converter\.Registered is not registered in this process"):
            data.to_pytree()
    finally:
        _pytree.SUPPORTED_NODES[Registered] = known


def test_optree_is_not_imported_for_trees() -> None:
    code = "import sys, tensorclass as tc; tc.from_pytree([{1: object()}]).to_pytree(); print('optree' in sys.modules)"
    result = fresh_python.run(["-c", code], check=True)
    assert result.stdout.strip() == "False"


# -- records ----------------------------------------------------------------------------------------------------------


class Trees(tc.TensorClass):
    x: Tensor
    tree: TensorDict
    inner: Inner | None = None
    pair: tuple[Any, ...] = ()


def test_a_record_takes_a_tree_by_its_fields_and_gives_it_back() -> None:
    x = values(2)
    source = {"x": x, "tree": [1, {7: 0.5}], "inner": {"x": x, "tag": None}, "pair": (1, 2)}
    record = Trees.from_pytree(source)
    assert isinstance(record, Trees)
    assert (type(record.inner), record.pair) == (Inner, (1, 2))
    assert same(record.to_pytree(), source)
    assert same(Trees.from_pytree(record.to_pytree()).to_pytree(), source)
    assert Trees.from_pytree(record) is record


def test_fields_that_are_left_out_have_their_defaults() -> None:
    x = values(2)
    record = Trees.from_pytree({"x": x, "tree": []})
    assert same(record.to_pytree(), {"x": x, "tree": [], "inner": None, "pair": ()})


def test_a_record_takes_named_tuples_and_dataclasses() -> None:
    @dataclasses.dataclass
    class Source:
        x: Tensor
        tree: Any

    fields = collections.namedtuple("fields", ["x", "tree"])
    for source in (Source(values(3), [1]), fields(values(3), [1])):
        record = Trees.from_pytree(source)
        assert same(record.tree.to_pytree(), [1])


def test_rows_of_a_record_of_trees_are_trees() -> None:
    record = Trees.from_pytree({"x": values(3), "tree": (values(3), {0: values(3, 2)})}, batch_size=[3])
    tree = record[1].to_pytree()["tree"]
    assert (type(tree), tree[0], tree[1][0].tolist()) == (tuple, 1, [2, 3])


def test_what_no_record_can_be_made_of_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Trees\.from_pytree: expected a mapping, a named tuple or a dataclass with"):
        Trees.from_pytree([1, 2])
    with pytest.raises(tc.ConversionError) as caught:
        Trees.from_pytree({"x": "text", "inner": [1], 1: 2})
    assert {problem.path for problem in caught.value.problems} == {("x",), ("tree",), ("inner",), (1,)}


def test_what_is_no_field_can_be_left_out() -> None:
    with pytest.warns(UserWarning, match=r"Trees\.from_pytree: left out what is no field: 'inner\.more', '1'"):
        record = Trees.from_pytree(
            {"x": values(1), "tree": [], "inner": {"x": values(1), "more": 1}, 1: 2}, strict=False
        )
    assert record.tree.to_pytree() == []


def test_records_in_trees_stay_records() -> None:
    record = Sample(values(2))
    back = TensorDict.from_pytree({"r": record, 1: [record]}).to_pytree()
    assert back["r"] is record
    assert back[1][0] is record


def test_a_node_is_no_value_that_a_user_has() -> None:
    assert isinstance(TensorDict.from_pytree([])[TYPE], PytreeNode)
    forged = TensorDict({TYPE: list, "0": 1.0})
    assert forged.to_pytree() is forged


def test_a_tree_goes_to_the_device_that_is_asked_for() -> None:
    tree = {"a": [1.0, torch.ones(2)], "n": {"b": np.ones(2)}, "text": "t"}
    data = TensorDict.from_pytree(tree, device="cpu")
    assert data.device == data["a"].device == torch.device("cpu")
    assert data.to_pytree()["a"][0] == 1.0
    for sized in (None, ()):
        moved = TensorDict.from_pytree(tree, device="meta", batch_size=sized)
        assert moved.device == torch.device("meta")
        assert moved["a", "1"].device.type == moved["n", "b"].device.type == "meta"
    assert TensorDict.from_pytree(1.0, device="meta").device.type == "meta"
    given = TensorDict({"a": torch.ones(2)})
    assert TensorDict.from_pytree(given, device="meta")["a"].is_meta
    assert given.device is None
    assert not given["a"].is_meta
    record = Trees.from_pytree({"x": torch.ones(2), "tree": [torch.ones(1)]}, device="meta")
    assert record.device == torch.device("meta")
    assert record.x.is_meta
