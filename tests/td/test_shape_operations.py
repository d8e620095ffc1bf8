"""A shape operation does on every value, along the batch dimensions, what torch does on a tensor of that shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorDict
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal, assert_taken, leaf_pairs, outcome, positions, shares_memory
from tests.operations import SHAPE_OPERATIONS

Size = tuple[int, ...]

# torch itself is not of one mind; and more than one thing can be wrong at a time
ERRORS = (IndexError, RuntimeError, ValueError)


def call(x: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    return outcome(lambda: getattr(x, name)(*arguments))


def parts(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)


cases = pytest.mark.parametrize("name", SHAPE_OPERATIONS)
#: for what depends on the operation more than on its arguments
few = settings(max_examples=settings().max_examples // 4)


@cases
@settings(max_examples=settings().max_examples // 2)
@given(draw.trees(), st.data())
def test_the_items_move_as_those_of_a_tensor_do(name: str, tree: draw.Tree, data: st.DataObject) -> None:
    batch_size = data.draw(draw.shapes(min_dims=1))
    names = data.draw(draw.names_or_none(len(batch_size)))
    arguments = data.draw(SHAPE_OPERATIONS[name](batch_size))
    source, where = tree.build(batch_size, names), positions(batch_size)
    before = source.clone()
    expected, got = call(where, name, arguments), call(source, name, arguments)
    if isinstance(expected, Exception):
        assert isinstance(got, ERRORS), repr(got)
    else:
        assert not isinstance(got, Exception), repr(got)
        for part, at in zip(parts(got), parts(expected), strict=True):
            assert type(part) is TensorDict
            assert_taken(part, source, at)
    assert_equal(source, before)


@cases
@few
@given(draw.trees(min_leaves=1, objects=False), st.data())
def test_memory_is_shared_where_torch_shares_it(name: str, tree: draw.Tree, data: st.DataObject) -> None:
    batch_size = data.draw(draw.shapes(min_dims=1, min_size=1))
    arguments = data.draw(SHAPE_OPERATIONS[name](batch_size))
    source, where = tree.build(batch_size), positions(batch_size)
    expected, got = call(where, name, arguments), call(source, name, arguments)
    if not isinstance(expected, Exception):
        for part, at in zip(parts(got), parts(expected), strict=True):
            if at.numel():
                for leaf, old in leaf_pairs(part, source):
                    assert shares_memory(leaf, old) == shares_memory(at, where)


@cases
@few
@given(draw.trees(max_leaves=2), st.data())
def test_a_locked_collection_gives_one_that_is_not_locked(name: str, tree: draw.Tree, data: st.DataObject) -> None:
    batch_size = data.draw(draw.shapes(min_dims=1))
    got = call(tree.build(batch_size).lock_(), name, data.draw(SHAPE_OPERATIONS[name](batch_size)))
    if not isinstance(got, Exception):
        for part in parts(got):
            assert not part.is_locked
            part["new"] = torch.zeros(part.batch_size)


WITHOUT_DIMENSIONS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(()),
    "reshape to ones": lambda x: x.reshape(1, -1),
    "view": lambda x: x.view(1),
    "view as it is": lambda x: x.view(()),
    "flatten": lambda x: x.flatten(),
    "permute": lambda x: x.permute(()),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "unsqueeze from the end": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x.expand(2, 3),
    "expand to itself": lambda x: x.expand(()),
    "broadcast_to": lambda x: x.broadcast_to((2,)),
    "repeat": lambda x: x.repeat(()),
    "tile": lambda x: x.tile((2,)),
    "roll": lambda x: x.roll(1),
    "repeat_interleave": lambda x: x.repeat_interleave(2),
    "flip": lambda x: x.flip(()),
    "contiguous": lambda x: x.contiguous(),
    "atleast_1d": lambda x: torch.atleast_1d(x) if isinstance(x, Tensor) else x.atleast_1d(),
    "atleast_2d": lambda x: torch.atleast_2d(x) if isinstance(x, Tensor) else x.atleast_2d(),
    "atleast_3d": lambda x: torch.atleast_3d(x) if isinstance(x, Tensor) else x.atleast_3d(),
}


@pytest.mark.parametrize("operation", WITHOUT_DIMENSIONS.values(), ids=WITHOUT_DIMENSIONS)
@few
@given(tree=draw.trees())
def test_without_batch_dimensions(operation: Callable[[Any], Any], tree: draw.Tree) -> None:
    source = tree.build(())
    assert_taken(operation(source), source, operation(positions(())))


NEEDS_A_DIMENSION: dict[str, Callable[[Any], Any]] = {
    "unflatten": lambda x: x.unflatten(0, (1, 1)),
    "split": lambda x: x.split(1),
    "chunk": lambda x: x.chunk(1),
    "tensor_split": lambda x: x.tensor_split(1),
    "unbind": lambda x: x.unbind(0),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "fliplr": lambda x: x.fliplr(),
    "flipud": lambda x: x.flipud(),
    "rot90": lambda x: x.rot90(),
    "gather": lambda x: x.gather(0, torch.tensor(0)),
    "squeeze": lambda x: x.squeeze(0),
    "take": lambda x: x.take(torch.tensor([0])),
}


@pytest.mark.parametrize("operation", NEEDS_A_DIMENSION.values(), ids=NEEDS_A_DIMENSION)
def test_an_operation_along_a_dimension_needs_one(operation: Callable[[Any], Any]) -> None:
    with pytest.raises((IndexError, RuntimeError), match="dimension"):
        operation(TensorDict({"a": torch.zeros(3)}))


OUT_OF_RANGE: dict[str, Callable[[Any], Any]] = {
    "flatten": lambda x: x.flatten(0, 2),
    "unflatten": lambda x: x.unflatten(2, (1, 1)),
    "permute": lambda x: x.permute(0, 2),
    "transpose": lambda x: x.transpose(0, 2),
    "movedim": lambda x: x.movedim(0, 2),
    "squeeze": lambda x: x.squeeze(-3),
    "unsqueeze": lambda x: x.unsqueeze(3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 2),
    "split": lambda x: x.split(1, 2),
    "chunk": lambda x: x.chunk(1, -3),
    "tensor_split": lambda x: x.tensor_split(1, 2),
    "unbind": lambda x: x.unbind(2),
    "flip": lambda x: x.flip(2),
    "roll": lambda x: x.roll(1, 2),
    "rot90": lambda x: x.rot90(1, (0, 2)),
    "narrow": lambda x: x.narrow(2, 0, 1),
    "gather": lambda x: x.gather(2, torch.zeros(2, 3, dtype=torch.long)),
    "take": lambda x: x.take(torch.tensor([0]), 2),
}


@pytest.mark.parametrize("operation", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_a_feature_dimension_is_no_batch_dimension_for(operation: Callable[[Any], Any]) -> None:
    with pytest.raises((IndexError, ValueError), match="dim"):
        operation(TensorDict({"a": torch.zeros(2, 3, 4, 5)}, [2, 3]))


# -- what no method of a tensor says -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(), (4,), (4, 3), (4, 3, 2), (4, 3, 2, 2)], ids=repr)
@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_dimensions_are_added_up_to_a_number_where_torch_adds_them(name: str, size: Size) -> None:
    source = draw.Tree({"a": draw.Leaf((5,)), "text": draw.Text()}).build(size)
    assert_taken(getattr(source, name)(), source, getattr(torch, name)(positions(size)))


@given(draw.trees(), draw.shapes(min_dims=1), st.data())
def test_take_gives_the_items_at_positions_of_a_dimension(
    tree: draw.Tree, batch_size: Size, data: st.DataObject
) -> None:
    source = tree.build(batch_size)
    dim = data.draw(draw.dims(len(batch_size)))
    size = batch_size[dim]
    index = data.draw(st.lists(st.integers(-size, size - 1), max_size=4) if size else st.just([]))
    where = positions(batch_size).index_select(dim, torch.tensor([i % size for i in index], dtype=torch.long))
    assert_taken(source.take(torch.tensor(index, dtype=torch.long), dim), source, where)


@given(draw.trees(), draw.shapes(min_dims=1), st.data())
def test_masked_select_gives_the_items_where_a_mask_over_leading_dimensions_is_true(
    tree: draw.Tree, batch_size: Size, data: st.DataObject
) -> None:
    source = tree.build(batch_size)
    depth = data.draw(st.integers(1, len(batch_size)))
    mask = torch.as_tensor(data.draw(draw.masks(batch_size[:depth])), dtype=torch.bool)
    assert_taken(source.masked_select(mask), source, positions(batch_size)[mask])


@given(draw.trees(), draw.shapes(min_dims=1, min_size=1))
def test_a_collection_that_is_no_longer_contiguous_is_made_so(tree: draw.Tree, batch_size: Size) -> None:
    source = tree.build(batch_size).permute(*reversed(range(len(batch_size))))
    result = source.contiguous()
    assert result.is_contiguous()
    assert all(leaf.is_contiguous() for leaf in result.values(True, True))  # type: ignore[union-attr]
    assert_equal(result, source)


def test_a_collection_with_one_value_that_is_not_contiguous_is_not() -> None:
    assert not TensorDict({"a": torch.zeros(2, 2), "n": {"b": torch.zeros(2, 2).t()}}, [2]).is_contiguous()


def test_canonical_strides_are_those_of_a_new_tensor() -> None:
    odd = torch.empty_strided((1, 3), (7, 1)).fill_(1)
    source = TensorDict({"a": odd, "n": {"b": odd.clone(), "text": "t"}}, [1])
    result = source.contiguous(canonical=True)
    assert result["a"].stride() == torch.empty(1, 3).stride()
    assert_equal(result, source)


def test_expanding_as_a_collection_takes_its_batch_size() -> None:
    source = TensorDict({"a": torch.zeros(3)}, [3])
    assert source.expand_as(TensorDict({}, [2, 3])).batch_size == (2, 3)


def test_view_takes_the_size_by_keyword() -> None:
    source = TensorDict({"a": torch.zeros(6)}, [6])
    assert source.view(size=[2, 3])["a"].shape == (2, 3)
    assert source.view(batch_size=torch.Size([3, 2]))["a"].shape == (3, 2)


def test_view_does_not_copy_where_reshape_does() -> None:
    source = TensorDict({"a": torch.zeros(2, 3)}, [2, 3]).permute(1, 0)
    assert source.reshape(6)["a"].shape == (6,)
    with pytest.raises(RuntimeError, match="view"):
        source.view(6)


def test_view_with_a_dtype_reads_the_memory_as_that_dtype() -> None:
    source = TensorDict({"a": torch.tensor([1.0, 2.0]), "n": {"b": torch.zeros(2, 3)}, "text": "t"}, [2])
    result = source.view(torch.int32)
    assert torch.equal(result["a"], source["a"].view(torch.int32))
    assert result["n", "b"].dtype == torch.int32
    assert shares_memory(result["a"], source["a"])
    assert result["text"] == "t"


def test_view_with_a_dtype_of_another_size_needs_a_feature_dimension() -> None:
    assert TensorDict({"a": torch.zeros(2, 3)}, [2]).view(torch.float16)["a"].shape == (2, 6)
    with pytest.raises(RuntimeError, match=r"a: .* read as torch.float16 its shape \[2\] becomes \[4\]"):
        TensorDict({"a": torch.zeros(2)}, [2]).view(torch.float16)


def test_view_with_a_dtype_leaves_objects_alone() -> None:
    rows = torch.stack([TensorDict({"text": text, "a": 0.0}) for text in "ab"])  # type: ignore[type-var]
    assert rows.view(torch.int32)["text"] == ["a", "b"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "operation, size",
    [
        (lambda x: x.permute(dims=(1, 0)), (3, 2)),
        (lambda x: x.reshape(size=(6,)), (6,)),
        (lambda x: x.expand(size=(4, 2, 3)), (4, 2, 3)),
        (lambda x: x.flip(dims=(0,)), (2, 3)),
        (lambda x: x.squeeze(dim=0), (2, 3)),
        (lambda x: x.unsqueeze(dim=0), (1, 2, 3)),
        (lambda x: torch.permute(x, dims=(1, 0)), (3, 2)),
        (lambda x: torch.reshape(x, shape=(6,)), (6,)),
        (lambda x: torch.flip(x, dims=(0,)), (2, 3)),
    ],
)
def test_sizes_and_dims_are_taken_by_keyword_too(operation: Callable[[Any], Any], size: Size) -> None:
    assert operation(TensorDict({"a": torch.zeros(2, 3, 5)}, [2, 3])).batch_size == size


def test_repeats_cannot_be_negative() -> None:
    with pytest.raises(RuntimeError, match="negative"):
        TensorDict({"a": torch.zeros(2)}, [2]).repeat(-1)


def test_flip_takes_dims_one_by_one() -> None:
    source = TensorDict({"a": torch.arange(6).reshape(2, 3)}, [2, 3])
    assert torch.equal(source.flip(0, 1)["a"], source["a"].flip(0, 1))


def test_repeat_interleave_checks_the_size_that_it_is_told() -> None:
    source = TensorDict({"a": torch.arange(2)}, [2])
    repeats = torch.tensor([1, 2])
    assert source.repeat_interleave(repeats, dim=0, output_size=3)["a"].tolist() == [0, 1, 1]
    with pytest.raises(RuntimeError, match="size"):
        source.repeat_interleave(repeats, dim=0, output_size=4)
    with pytest.raises(RuntimeError, match="output_size is 3, the repeats sum to 4"):
        source.repeat_interleave(2, dim=0, output_size=3)


def test_gather_writes_into_out() -> None:
    source = TensorDict({"a": torch.arange(4), "n": {"b": torch.ones(4)}}, [4])
    out = TensorDict({"a": torch.zeros(2, dtype=torch.long), "n": {"b": torch.zeros(2)}}, [2])
    leaf = out["a"]
    assert source.gather(0, torch.tensor([3, 1]), out=out) is out
    assert out["a"] is leaf
    assert leaf.tolist() == [3, 1]


def test_gather_needs_an_index_with_the_dimensions_of_the_batch() -> None:
    with pytest.raises(RuntimeError, match="expected an index of 2 dimensions, as many as the batch, got 1"):
        TensorDict({}, [2, 3]).gather(0, torch.tensor([0]))


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation, names",
    [
        (lambda x: x.reshape(2, 3, 4), ["x", "y", "z"]),
        (lambda x: x.reshape(-1), [None]),
        (lambda x: x.view(6, 4), [None, None]),
        (lambda x: x.flatten(), [None]),
        (lambda x: x.flatten(0, 1), [None, "z"]),
        (lambda x: x.flatten(1, 1), ["x", "y", "z"]),
        (lambda x: x.unflatten(2, (2, 2)), ["x", "y", None, None]),
        (lambda x: x.permute(2, 0, 1), ["z", "x", "y"]),
        (lambda x: x.transpose(0, 2), ["z", "y", "x"]),
        (lambda x: x.movedim(0, -1), ["y", "z", "x"]),
        (lambda x: x[:1].squeeze(), ["y", "z"]),
        (lambda x: x[:1].squeeze(0), ["y", "z"]),
        (lambda x: x.squeeze(0), ["x", "y", "z"]),
        (lambda x: x.unsqueeze(1), ["x", None, "y", "z"]),
        (lambda x: x.expand(5, 2, 3, 4), [None, "x", "y", "z"]),
        (lambda x: x.repeat(1, 2, 1), ["x", "y", "z"]),
        (lambda x: x.tile((2, 1, 1, 1)), [None, "x", "y", "z"]),
        (lambda x: x.repeat_interleave(2, dim=0), ["x", "y", "z"]),
        (lambda x: x.repeat_interleave(2), [None]),
        (lambda x: x.split(1)[0], ["x", "y", "z"]),
        (lambda x: x.chunk(2, 1)[0], ["x", "y", "z"]),
        (lambda x: x.tensor_split(2)[0], ["x", "y", "z"]),
        (lambda x: x.tensor_split([1])[0], ["x", "y", "z"]),
        (lambda x: x.unbind(1)[0], ["x", "z"]),
        (lambda x: x.flip(0), ["x", "y", "z"]),
        (lambda x: x.roll(1), ["x", "y", "z"]),
        (lambda x: x.roll(1, 1), ["x", "y", "z"]),
        (lambda x: x.rot90(1, (0, 1)), ["y", "x", "z"]),
        (lambda x: x.rot90(2, (0, 1)), ["x", "y", "z"]),
        (lambda x: x.narrow(0, 0, 1), ["x", "y", "z"]),
        (lambda x: x.take(torch.tensor([0]), 1), ["x", "y", "z"]),
        (lambda x: x.gather(0, torch.zeros(1, 3, 4, dtype=torch.long)), ["x", "y", "z"]),
        (lambda x: x.masked_select(torch.ones(2, 3, dtype=torch.bool)), [None, "z"]),
        (lambda x: x.contiguous(), ["x", "y", "z"]),
        (lambda x: x.atleast_1d(), ["x", "y", "z"]),
    ],
)  # fmt: skip
def test_the_names_after(operation: Callable[[Any], Any], names: list[str | None]) -> None:
    nested = draw.Tree({"b": draw.Leaf((2,)), "text": draw.Text(), "column": draw.Column()}, more=(2,))
    source = draw.Tree({"a": draw.Leaf(), "n": nested}).build((2, 3, 4), ["x", "y", "z"])
    source["n"].names = ["x", "y", "z", "own"]
    result = operation(source)
    assert result.names == names
    assert_consistent(result)


# -- in place ----------------------------------------------------------------------------------------------------------

IN_PLACE: dict[str, Callable[..., Any]] = {
    "flatten": lambda x, **kw: x.flatten(0, 1, **kw),
    "unflatten": lambda x, **kw: x.unflatten(0, (2, -1), **kw),
    "repeat": lambda x, **kw: x.repeat(2, 1, **kw),
    "repeat_interleave": lambda x, **kw: x.repeat_interleave(2, 0, **kw),
    "repeat_interleave of all": lambda x, **kw: x.repeat_interleave(2, **kw),
    "roll": lambda x, **kw: x.roll(1, 0, **kw),
    "roll of all": lambda x, **kw: x.roll(1, **kw),
    "gather": lambda x, **kw: x.gather(0, torch.zeros(1, 3, dtype=torch.long), **kw),
    "masked_select": lambda x, **kw: x.masked_select(torch.ones(4, 3, dtype=torch.bool), **kw),
    "contiguous": lambda x, **kw: x.contiguous(**kw),
}
in_place = pytest.mark.parametrize("operation", IN_PLACE.values(), ids=IN_PLACE)


@in_place
def test_in_place_the_collection_itself_becomes_the_result(operation: Callable[..., Any]) -> None:
    nested = draw.Tree({"b": draw.Leaf((2,)), "column": draw.Column()}, more=(2,))
    tree = draw.Tree({"a": draw.Leaf(), "n": nested, "text": draw.Text()})
    source, other = tree.build((4, 3), ["x", "y"]), tree.build((4, 3), ["x", "y"])
    assert operation(source, inplace=True) is source
    assert_equal(source, operation(other))


@in_place
def test_in_place_a_locked_collection_stays_as_it_is(operation: Callable[..., Any]) -> None:
    source = draw.Tree({"a": draw.Leaf((2,))}).build((4, 3)).lock_()
    before = source.clone()
    with pytest.raises(RuntimeError, match="locked"):
        operation(source, inplace=True)
    assert_equal(source, before)


def test_tile_takes_one_count_as_an_int() -> None:
    data = TensorDict({"a": torch.arange(3)}, [3])
    assert_equal(data.tile(2), data.tile((2,)))


def test_repeats_that_fit_no_tensor_fit_no_collection_without_tensors() -> None:
    for repeats in (-1, torch.tensor(-1), torch.tensor([1, 2])):
        for data in (TensorDict({}, [3]), TensorDict({"a": torch.zeros(3)}, [3])):
            with pytest.raises(RuntimeError, match="repeat"):
                data.repeat_interleave(repeats, 0)
