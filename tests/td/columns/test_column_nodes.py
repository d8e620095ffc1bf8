"""Columns in pytrees, `torch.func`, `torch.vmap`, lazy stacks and other walks over a collection."""

from __future__ import annotations

import copy
from typing import Any

import optree
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree

from tensorclass import Column, Ragged, TensorClass, TensorDict, Text, UnbatchedTensor, lazy_stack, pad_sequence


class Row(TensorClass):
    text: Text | None
    numbers: Ragged
    tags: Column[list[str]]
    x: Tensor


def rows(names: list[str] | None = None) -> Row:
    return Row(
        text=["a", "bc", None],
        numbers=[[1.0, 2.0], [3.0], []],
        tags=[["u"], [], ["v", "w"]],
        x=torch.arange(3.0),
        batch_size=[3],
        names=names,
    )


def content(data: Any) -> dict[str, Any]:
    return {key: data[key].tolist() for key in ("text", "numbers", "tags", "x")}


# -- pytrees ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [pytree, optree], ids=["torch", "optree"])
def test_a_function_over_the_leaves_acts_on_the_items(module: Any) -> None:
    class Two(TensorClass):
        text: Text | None
        numbers: Ragged

    data = Two(text=["a", "bc", None], numbers=[[1.0, 2.0], [3.0], []], batch_size=[3])
    doubled = module.tree_map(lambda leaf: leaf * 2, data)
    assert type(doubled) is Two
    assert doubled.numbers.tolist() == [[2.0, 4.0], [6.0], []]
    assert doubled.text.tolist() == ["a", "bc", None]
    assert doubled.batch_size == (3,)


@pytest.mark.parametrize("function", [torch.clone, torch.detach, lambda leaf: leaf.to("cpu")])
def test_a_function_that_keeps_the_leaves_keeps_the_rows(function: Any) -> None:
    assert content(pytree.tree_map(function, rows())) == content(rows())


def test_the_leaves_of_ragged_rows_are_their_items_alone() -> None:
    numbers = rows().numbers[[1, 0]]
    items, spans = pytree.tree_leaves(numbers)
    assert items.tolist() == [3.0, 1.0, 2.0]
    assert spans.tolist() == [[0, 1], [1, 2]]
    assert pytree.tree_map(lambda leaf: leaf + 1, numbers).tolist() == [[4.0], [2.0, 3.0]]


def test_a_function_can_change_the_dtype_and_the_shape_of_items() -> None:
    numbers = rows().numbers
    assert pytree.tree_map(lambda leaf: leaf.to(torch.float64), numbers).dtype is torch.float64
    wide = pytree.tree_map(lambda leaf: leaf.unsqueeze(-1).expand(-1, 4) if leaf.ndim == 1 else leaf, numbers)
    assert wide.item_shape == (4,)


def test_a_function_that_changes_the_number_of_items_is_an_error() -> None:
    with pytest.raises(ValueError, match="as many items as it takes: expected 3, got 2"):
        pytree.tree_map(lambda leaf: leaf[:2], rows().numbers)
    with pytest.raises(ValueError, match="expected 3, got a number"):
        pytree.tree_map(lambda leaf: leaf.sum(), rows().numbers)


def test_leaves_of_other_rows_make_these_rows() -> None:
    _, structure = pytree.tree_flatten(rows())
    other = rows()[[2, 0]]
    tags = pytree.tree_flatten(rows()[[2, 0]].tags)
    assert tags[1] == pytree.tree_flatten(rows().tags)[1]
    made = pytree.tree_unflatten(pytree.tree_leaves(other), structure)
    assert content(made) == content(other)


def test_structures_of_other_rows_are_equal() -> None:
    one, other = pytree.tree_structure(rows()), pytree.tree_structure(rows()[:2])
    assert one == other
    assert hash(one) == hash(other)
    assert Column([1], int).item_type is int
    assert pytree.tree_structure(Column([1], int)) != pytree.tree_structure(Column([1], object))


def test_leaves_have_paths() -> None:
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(rows())[0]]
    assert paths == ["['text'].items", "['text'].spans", "['numbers'].items", "['numbers'].spans", "['tags'].codes",
                     "['x']"]  # fmt: skip
    assert optree.tree_paths(rows().numbers) == [("items",), ("spans",)]


def test_leaves_can_be_other_objects() -> None:
    names = pytree.tree_map(lambda leaf: str(leaf.dtype), rows())
    assert sorted(set(pytree.tree_leaves(names))) == ["torch.float32", "torch.int64", "torch.uint8"]


def test_rows_of_ragged_rows_are_leaves_too() -> None:
    nested = Ragged.from_list([[[1, 2], [3]], [[4]]], ragged_dims=2)
    added = pytree.tree_map(lambda leaf: leaf * 10, nested[[1, 0]])
    assert added.tolist() == [[[40]], [[10, 20], [30]]]


def test_structures_go_through_json() -> None:
    data = TensorDict({"numbers": rows().numbers, "text": rows().text}, [3])
    leaves, structure = pytree.tree_flatten(data)
    loaded = pytree.treespec_loads(pytree.treespec_dumps(structure))
    made = pytree.tree_unflatten(leaves, loaded)
    assert made["numbers"].tolist() == rows().numbers.tolist()
    assert made["text"].tolist() == rows().text.tolist()


# -- torch.func -------------------------------------------------------------------------------------------------------


def test_gradients_by_items() -> None:
    data = TensorDict({"numbers": rows().numbers, "text": rows().text, "x": torch.arange(3.0)}, [3])
    gradients = torch.func.grad(lambda d: (d["numbers"].sum() * d["x"]).sum())(data)
    assert gradients["numbers"].tolist() == [[0.0, 0.0], [1.0], []]
    assert gradients["text"].tolist() == ["a", "bc", None]
    assert gradients["x"].tolist() == [3.0, 3.0, 0.0]


def test_gradients_of_padded_indexed_and_summed_rows() -> None:
    items = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def function(values: Tensor) -> tuple[Tensor, ...]:
        numbers = Ragged.from_lengths(values, [2, 0, 3])
        chosen = numbers[torch.tensor([2, 0, 2])]
        padded = chosen.to_padded(length=4, side="left").values
        return padded, chosen.sum(), numbers.softmax().values, (chosen * 2)[0].tensor()

    assert torch.autograd.gradcheck(function, (items,))


def test_a_module_called_with_other_parameters_takes_columns() -> None:
    module = torch.nn.Embedding(5, 2)
    tokens = Ragged([[1, 2], [3]])
    weight = torch.ones(5, 2)
    out = torch.func.functional_call(
        _Embedded(module), {"embedding.weight": weight}, (TensorDict({"tokens": tokens}, [2]),)
    )
    assert out.tolist() == [[2.0, 2.0], [1.0, 1.0]]


class _Embedded(torch.nn.Module):
    def __init__(self, embedding: torch.nn.Embedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, data: TensorDict) -> Tensor:
        tokens: Any = data["tokens"]
        total: Tensor = tokens.map_values(self.embedding).sum()
        return total


# -- vmap -------------------------------------------------------------------------------------------------------------


def test_vmap_hides_a_batch_dimension() -> None:
    data = rows(["batch"])
    seen: list[Any] = []

    def function(one: Row) -> Any:
        seen.append((one.batch_size, one.numbers.batch_size, one.text.batch_size, one.tags.batch_size, repr(one.text)))
        return one

    mapped = torch.vmap(function)(data)
    assert seen[0][:4] == ((), (), (), ())
    assert content(mapped) == content(data)
    assert mapped.tags.item_type == list[str]
    assert mapped.names == ["batch"] or mapped.names == [None]
    mapped.numbers[0] = [9.0]  # the buffer belongs to the result
    assert data.numbers.tolist() == [[1.0, 2.0], [3.0], []]


def test_vmap_pads_and_adds() -> None:
    data = rows()
    padded = torch.vmap(lambda one: (one.numbers * 2 + 1).to_padded(length=2).values)(data)
    assert padded.tolist() == [[3.0, 5.0], [7.0, 0.0], [0.0, 0.0]]
    lengths = torch.vmap(lambda one: one.numbers.lengths + one.x)(data)
    assert lengths.tolist() == [2.0, 2.0, 2.0]


def test_vmap_over_any_dimension() -> None:
    data = torch.stack([rows(), rows().flip(0)])
    for dim in (0, 1):
        mapped = torch.vmap(lambda one: one.flip(0), in_dims=dim, out_dims=dim)(data)
        assert content(mapped) == content(data.flip(1 - dim))


def test_vmap_with_a_value_of_each_row() -> None:
    scaled = torch.vmap(lambda one: one.numbers * one.x)(rows())
    assert scaled.tolist() == [[0.0, 0.0], [3.0], []]


@pytest.mark.parametrize(
    "function",
    [lambda one: one.sum(), lambda one: one.to_padded().values, lambda one: one.softmax(), lambda one: one.max()],
)
def test_what_needs_lengths_is_a_clear_error_in_vmap(function: Any) -> None:
    with pytest.raises(RuntimeError, match="vmap: this needs the lengths of the rows"):
        torch.vmap(lambda one: function(one.numbers))(rows())


def test_vmap_of_leaves_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match=r"vmap: the items of a (Ragged|Text) are one buffer for all rows"):
        torch.vmap(lambda one: one.x, chunk_size=2)(TensorDict({"x": torch.ones(3), "r": Ragged([[1], [2], [3]])}, [3]))


# -- other walks ------------------------------------------------------------------------------------------------------


def test_apply_acts_on_items() -> None:
    names: list[Any] = []

    def double(name: Any, leaf: Tensor) -> Tensor:
        names.append(name)
        return leaf * 2

    data = TensorDict({"a": {"numbers": rows().numbers}, "text": rows().text}, [3])
    for made in (data.apply(lambda leaf: leaf * 2), data.named_apply(double, nested_keys=True)):
        assert made["a", "numbers"].tolist() == [[2.0, 4.0], [6.0], []]
        assert made["text"].tolist() == ["a", "bc", None]
    assert names == [("a", "numbers")]


def test_lazy_stacks_of_columns() -> None:
    stack = lazy_stack([rows(), rows()[[2, 1, 0]]])
    assert stack["text"].tolist() == [["a", "bc", None], [None, "bc", "a"]]
    assert stack["numbers"].tolist() == [[[1.0, 2.0], [3.0], []], [[], [3.0], [1.0, 2.0]]]
    assert stack[:, 1]["text"].tolist() == ["bc", "bc"]
    assert stack[1]["tags"].tolist() == [["v", "w"], [], ["u"]]
    stack[1, 0] = rows()[1]
    assert stack["text"].tolist()[1] == ["bc", "bc", "a"]
    stack["text"] = Text([["q", "r", "s"]] * 2)
    assert stack[0]["text"].tolist() == ["q", "r", "s"]


def test_lazy_stacks_of_different_batches() -> None:
    stack = lazy_stack([rows(), rows()[:2]])
    assert stack[1]["numbers"].tolist() == [[1.0, 2.0], [3.0]]
    assert [item["text"].tolist() for item in stack.unbind(0)] == [["a", "bc", None], ["a", "bc"]]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.booleans(), min_size=3, max_size=3), st.lists(st.integers(-3, 2), max_size=5))
def test_where_and_gather_take_rows(mask: list[bool], index: list[int]) -> None:
    data, other = rows(), rows()[[1, 2, 0]]
    chosen = torch.where(torch.tensor(mask), data, other)
    index = [at % 3 for at in index]
    taken = data.gather(0, torch.tensor(index, dtype=torch.int64))
    one, two = content(data), content(other)
    for key in one:
        assert content(chosen)[key] == [a if m else b for m, a, b in zip(mask, one[key], two[key], strict=True)]
        assert content(taken)[key] == [one[key][at] for at in index]


def test_collections_without_values() -> None:
    data = rows().select("text", "numbers", "x") if False else TensorDict({"r": rows().numbers, "t": rows().text}, [3])
    there = data.to("meta")
    assert there["r"].device.type == there["t"].device.type == "meta"
    assert there[1:].reshape(1, 2)["r"].batch_size == (1, 2)
    assert there["r"].to_padded(length=4).values.shape == (3, 4)
    assert copy.deepcopy(there)["t"].batch_size == (3,)


def test_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    data = TensorDict({"r": rows().numbers, "t": rows().text, "x": torch.ones(3)}, [3])
    fake = pytree.tree_map(mode.from_tensor, data)
    with mode:
        assert fake[1:]["r"].to_padded(length=2).values.shape == (2, 2)
        assert fake.reshape(1, 3)["t"].batch_size == (1, 3)
        assert (fake["r"] * 2).spans.shape == (3, 2)


def test_unbatched_tensors_stand_beside_columns() -> None:
    data = TensorDict({"r": rows().numbers, "u": UnbatchedTensor(torch.ones(7))}, [3])
    made = pytree.tree_map(lambda leaf: leaf * 2, data)
    assert made.batch_size == (3,)
    assert made["r"].tolist() == [[2.0, 4.0], [6.0], []]


def test_ragged_rows_become_padded_tensors_and_a_mask() -> None:
    data = TensorDict({"r": rows().numbers, "n": {"r": rows().numbers}, "t": rows().text}, [3])
    padded = data.to_padded_tensor(-1, mask_key="mask")
    assert padded["r"].tolist() == [[1.0, 2.0], [3.0, -1.0], [-1.0, -1.0]]
    assert padded["n", "r"].shape == (3, 2)
    assert padded["mask"].sum(-1).tolist() == [2, 1, 0]
    assert padded["t"].tolist() == ["a", "bc", None]
    data["other"] = Ragged([[1], [2], [3]])
    with pytest.raises(RuntimeError, match=r"one mask cannot mark the items of \['r', 'other'\]"):
        data.to_padded_tensor(mask_key="mask")
    with pytest.raises(RuntimeError, match=r"\['numbers'\] of a Row hold ragged rows"):
        rows().to_padded_tensor()


def test_densify_keeps_columns() -> None:
    dense = lazy_stack([rows(), rows()[[2, 1, 0]]]).densify()
    assert dense["numbers"].tolist() == [[[1.0, 2.0], [3.0], []], [[], [3.0], [1.0, 2.0]]]
    assert dense["text"].tolist()[1] == [None, "bc", "a"]


def test_sequences_of_rows_are_padded() -> None:
    data = TensorDict({"text": rows().text, "numbers": rows().numbers}, [3])
    padded = pad_sequence([data, data[:1]])
    assert padded["text"].tolist() == [["a", "bc", None], ["a", None, None]]
    assert padded["numbers"].tolist() == [[[1.0, 2.0], [3.0], []], [[1.0, 2.0], [], []]]


class Prompt(Text):
    """A subclass of a user."""


class Tokens(Ragged):
    """A subclass of a user."""


class Tags(Column[list[str]]):
    """A subclass of a user."""


@pytest.mark.parametrize("column", [Prompt(["a", None]), Tokens([[1], [2, 3]]), Tags([["u"], []])], ids=["p", "t", "c"])
def test_subclasses_are_nodes(column: Any) -> None:
    for tree in (pytree, optree):
        leaves = tree.tree_leaves(column)
        assert all(isinstance(leaf, Tensor) for leaf in leaves)
        mapped: Any = tree.tree_map(torch.clone, column)
        assert type(mapped) is type(column)
        assert mapped.tolist() == column.tolist()
    data = TensorDict({"x": torch.arange(2.0), "column": column}, [2])
    assert torch.vmap(lambda row: row["x"] * 2)(data).tolist() == [0.0, 2.0]
