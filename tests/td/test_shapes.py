"""The algebra of batch sizes agrees with torch, on tensors without memory."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Size, Tensor

from tensorclass import TensorDict, lazy_stack
from tensorclass.td import shapes
from tensorclass.td.prepared_index import convert_ellipsis_to_idx
from tests import strategies as draw
from tests.checks import outcome


def meta(batch_size: Sequence[int]) -> Tensor:
    """A tensor of a shape, without memory."""
    return torch.empty(tuple(batch_size), device="meta")


def assert_same_outcome(
    ours: Callable[[], Any], torchs: Callable[[], Any], errors: type[Exception] | tuple[type[Exception], ...] = ()
) -> None:
    """The two give the same, or raise an error of the same class (or one of those named)."""
    expected, got = outcome(torchs), outcome(ours)
    if isinstance(expected, Exception):
        assert isinstance(got, (type(expected), *(errors if isinstance(errors, tuple) else (errors,)))), repr(got)
    else:
        assert got == expected


sizes = draw.shapes(max_dims=4)
anything = st.data()


# -- what users write -------------------------------------------------------------------------------------------------


@given(sizes)
def test_a_batch_size_is_written_as_any_sequence_of_ints(size: tuple[int, ...]) -> None:
    for spelling in (size, list(size), Size(size), iter(size)):
        assert shapes.as_size(spelling) == Size(size)


@given(sizes)
def test_a_batch_size_is_always_a_torch_size(size: tuple[int, ...]) -> None:
    assert type(shapes.as_size(size)) is Size


def test_no_batch_size_is_no_dimension_and_an_int_is_one() -> None:
    assert shapes.as_size(None) == Size([])
    assert shapes.as_size(3) == Size([3])


@pytest.mark.parametrize("wrong", ["3", b"3", 1.5, object()])
def test_a_batch_size_that_is_no_sequence_of_ints_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError, match="batch_size: expected an int or a sequence of ints"):
        shapes.as_size(wrong)


@given(sizes)
def test_sizes_are_given_one_by_one_or_as_one_sequence(size: tuple[int, ...]) -> None:
    assert shapes.as_sequence(size) == size
    assert shapes.as_sequence((size,)) == size
    assert shapes.as_sequence((list(size),)) == size


# -- dimensions -------------------------------------------------------------------------------------------------------


@given(sizes, st.integers(-6, 5))
def test_wrap_dim_finds_the_dimension_that_torch_means(size: tuple[int, ...], dim: int) -> None:
    # torch lets -1 and 0 stand for a dimension of a tensor that has none; a batch has none then
    expected = outcome(lambda: size[meta(size).transpose(dim, dim) is None or dim]) if size else IndexError()
    got = outcome(lambda: size[shapes.wrap_dim(dim, len(size))])
    assert type(got) is type(expected)
    if not isinstance(expected, Exception):
        assert got == expected


@given(anything)
def test_wrap_dims_refuses_a_dimension_that_appears_twice(data: st.DataObject) -> None:
    size = data.draw(draw.shapes(min_dims=1))
    dims = data.draw(st.lists(draw.any_dims(len(size)), max_size=3))
    assert_same_outcome(
        lambda: tuple(meta(size).flip(shapes.wrap_dims(dims, len(size))).shape),
        lambda: tuple(meta(size).flip(dims).shape),
    )


# -- one function an operation ----------------------------------------------------------------------------------------

any_size = st.integers(-2, 12)


@given(anything)
def test_reshaped(data: st.DataObject) -> None:
    size = data.draw(sizes)
    # mostly factors of what there is, with or without one of them left open
    factors = data.draw(st.permutations(size))
    cut = data.draw(st.integers(0, len(size)))
    shape = [*factors[:cut], math.prod(factors[cut:])]
    if data.draw(st.booleans()):
        shape[data.draw(st.integers(0, len(shape) - 1))] = -1
    if data.draw(st.integers(0, 4)) == 0:
        shape.append(data.draw(any_size))
    assert_same_outcome(lambda: shapes.reshaped(Size(size), tuple(shape)), lambda: meta(size).reshape(shape).shape)


@given(anything)
def test_flattened(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1, max_dims=4)))
    start, end = data.draw(draw.any_dims(len(size))), data.draw(draw.any_dims(len(size)))
    assert_same_outcome(
        lambda: shapes.flattened(size, *shapes.flat_range(size, start, end)),
        lambda: meta(size).flatten(start, end).shape,
    )


@given(anything)
def test_unflattened(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1, max_size=12)))
    dim = data.draw(draw.dims(len(size)))
    parts = tuple(data.draw(st.lists(st.sampled_from((-1, 0, 1, 2, 3, 4, size[dim])), min_size=1, max_size=3)))
    assert_same_outcome(
        lambda: shapes.unflattened(size, shapes.wrap_dim(dim, len(size)), parts),
        lambda: meta(size).unflatten(dim, parts).shape,
    )


@given(anything)
def test_permuted(data: st.DataObject) -> None:
    size = Size(data.draw(sizes))
    order = data.draw(st.permutations(range(len(size)))) + data.draw(
        st.just([]) | st.lists(draw.any_dims(4), max_size=1)
    )
    order = [d - len(size) if data.draw(st.booleans()) else d for d in order]
    assert_same_outcome(
        lambda: shapes.permuted(size, shapes.permutation(len(size), order)),
        lambda: meta(size).permute(order).shape,
        errors=ValueError,
    )


@given(anything)
def test_transposed(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1)))
    dim0, dim1 = data.draw(draw.any_dims(len(size))), data.draw(draw.any_dims(len(size)))
    assert_same_outcome(
        lambda: shapes.permuted(size, shapes.transposition(len(size), dim0, dim1)),
        lambda: meta(size).transpose(dim0, dim1).shape,
        errors=ValueError,
    )


@given(anything)
def test_moved(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1, max_dims=4)))
    source = data.draw(st.lists(draw.any_dims(len(size)), max_size=3) | draw.dims(len(size)))
    destination = data.draw(st.lists(draw.any_dims(len(size)), max_size=3) | draw.dims(len(size)))
    assert_same_outcome(
        lambda: shapes.permuted(size, shapes.movement(len(size), source, destination)),
        # torch takes two ints or two sequences
        lambda: meta(size).movedim(_sequence(source), _sequence(destination)).shape,
        errors=(IndexError, RuntimeError),  # where more than one thing is wrong
    )


def _sequence(dims: int | Sequence[int]) -> tuple[int, ...]:
    return (dims,) if isinstance(dims, int) else tuple(dims)


@given(anything)
def test_squeezed(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1, max_size=2)))
    dim = data.draw(st.none() | draw.any_dims(len(size)) | st.lists(draw.any_dims(len(size)), max_size=3))
    assert_same_outcome(
        lambda: Size(shapes.without(size, shapes.squeezed_dims(size, dim))),
        lambda: (meta(size).squeeze() if dim is None else meta(size).squeeze(dim)).shape,
        errors=(IndexError, RuntimeError),  # where more than one thing is wrong
    )


@given(sizes, st.integers(-7, 6))
def test_unsqueezed(size: tuple[int, ...], dim: int) -> None:
    assert_same_outcome(
        lambda: shapes.inserted(Size(size), shapes.unsqueezed_dim(len(size), dim), 1),
        lambda: meta(size).unsqueeze(dim).shape,
    )


@given(anything)
def test_expanded(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(max_size=2)))
    shape = [data.draw(st.sampled_from((-1, n, n, 3))) for n in size]
    shape = data.draw(st.lists(st.integers(0, 3), max_size=2)) + shape[data.draw(st.sampled_from((0, 0, 0, 1))) :]
    assert_same_outcome(lambda: shapes.expanded(size, tuple(shape)), lambda: meta(size).expand(shape).shape)


def test_a_new_dimension_cannot_be_expanded_to_an_open_size() -> None:
    with pytest.raises(RuntimeError, match="-1 keeps the size of an existing dimension"):
        shapes.expanded(Size((3,)), (-1, 3))


@given(anything)
def test_repeated(data: st.DataObject) -> None:
    size = Size(data.draw(sizes))
    repeats = tuple(data.draw(st.lists(st.integers(-1, 3), min_size=max(len(size) - 1, 0), max_size=len(size) + 2)))
    assert_same_outcome(lambda: shapes.repeated(size, repeats), lambda: meta(size).repeat(repeats).shape)


@given(st.integers(0, 9), st.integers(-1, 10) | st.lists(st.integers(-1, 5), max_size=4))
def test_split_sizes(total: int, split_size: int | list[int]) -> None:
    assert_same_outcome(
        lambda: shapes.split_sizes(total, split_size),
        lambda: [len(part) for part in meta([total]).split(split_size)],
    )


@given(st.integers(0, 9), anything)
def test_split_sizes_that_sum_to_the_whole(total: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=3)))
    parts = [stop - start for start, stop in zip([0, *cuts], [*cuts, total], strict=True)]
    assert shapes.split_sizes(total, parts) == [len(part) for part in meta([total]).split(parts)]


@given(anything)
def test_with_size(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1)))
    dim, new = data.draw(st.integers(0, len(size) - 1)), data.draw(st.integers(0, 5))
    assert (
        shapes.with_size(size, dim, new)
        == meta(size).index_select(dim, torch.zeros(new, dtype=torch.long, device="meta")).shape
    )


@given(anything)
def test_inserted(data: st.DataObject) -> None:
    size = Size(data.draw(sizes))
    dim, count = data.draw(st.integers(0, len(size))), data.draw(st.integers(1, 3))
    assert shapes.inserted(size, dim, count) == torch.stack([meta(size)] * count, dim).shape


@given(anything)
def test_reduced(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1)))
    dims = tuple(data.draw(st.sets(st.integers(0, len(size) - 1), min_size=1)))
    keepdim = data.draw(st.booleans())
    assert shapes.reduced(size, dims, keepdim) == meta(size).sum(dims, keepdim=keepdim).shape


@given(sizes)
def test_numel(size: tuple[int, ...]) -> None:
    assert shapes.numel(Size(size)) == meta(size).numel()


# -- indices ----------------------------------------------------------------------------------------------------------


@given(anything)
def test_slice_length(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 7))
    item = data.draw(draw.slices(size))
    assert shapes.slice_length(item, size) == len(meta([size])[item])


@pytest.mark.parametrize("step", [0, -1])
def test_a_slice_without_a_positive_step_is_a_value_error_as_in_torch(step: int) -> None:
    assert_same_outcome(lambda: shapes.slice_length(slice(None, None, step), 3), lambda: len(meta([3])[::step]))


@given(anything)
def test_indexed_agrees_with_torch_for_any_prepared_index(data: st.DataObject) -> None:
    size = Size(data.draw(sizes))
    index = data.draw(draw.prepared_indices(size))
    assert_same_outcome(lambda: shapes.indexed(size, index), lambda: torch.empty(size)[index].shape)


KINDS: tuple[Any, ...] = (slice(None), 1, None, torch.tensor([0, 1]), torch.tensor(1), True)


def consumed(index: tuple[Any, ...]) -> int:
    """How many dimensions an index takes."""
    return sum(item is not None and item is not True for item in index)


@pytest.mark.parametrize("length", range(6))
def test_the_dimensions_of_index_tensors_come_where_torch_puts_them(length: int) -> None:
    # in front, or where the first of them stands: that depends on what stands between them
    tensor = torch.empty(2, 3, 5, 7)
    for index in itertools.product(KINDS, repeat=length):
        if consumed(index) <= tensor.ndim:
            assert shapes.indexed(tensor.shape, index) == tensor[index].shape, index


@given(anything)
def test_indexed_refuses_positions_out_of_range(data: st.DataObject) -> None:
    size = Size(data.draw(draw.shapes(min_dims=1)))
    dim = data.draw(st.integers(0, len(size) - 1))
    index = (*[slice(None)] * dim, data.draw(st.sampled_from((size[dim], -size[dim] - 1))))
    assert_same_outcome(lambda: shapes.indexed(size, index), lambda: torch.empty(size)[index].shape)


# -- names ------------------------------------------------------------------------------------------------------------
#
# A name belongs to a dimension, as its size does. So where dimensions are of different sizes, and the operation keeps
# sizes, the names of the result are those of its sizes.

DISTINCT = Size((2, 3, 5, 7))
NAMES = ("w", "x", "y", "z")
NAME_OF = dict(zip(DISTINCT, NAMES, strict=True))


def named_by_size(size: Sequence[int]) -> shapes.Names:
    """The names that belong to sizes; a size that no dimension had before has none."""
    return shapes.names_or_none([NAME_OF.get(n) for n in size])


@given(anything)
def test_names_are_a_tuple_or_none_when_no_dimension_has_one(data: st.DataObject) -> None:
    names = data.draw(draw.names(data.draw(st.integers(0, 4))))
    assert shapes.as_names(names, len(names)) == (tuple(names) if any(names) else None)
    assert shapes.as_names(None, len(names)) is None


@given(st.integers(0, 4), st.integers(0, 4))
def test_there_must_be_a_name_for_each_dimension(count: int, ndim: int) -> None:
    names = list(NAMES[:count])
    if count == ndim:
        assert shapes.as_names(names, ndim) == (tuple(names) or None)
    else:
        with pytest.raises(ValueError, match=f"names: expected {ndim} of them"):
            shapes.as_names(names, ndim)


def test_a_name_can_stand_for_one_dimension_only() -> None:
    with pytest.raises(ValueError, match="expected a different name for each dimension"):
        shapes.as_names(["x", None, "x"], 3)


def test_a_name_is_a_string() -> None:
    with pytest.raises(TypeError, match="names: expected strings or None, got 1"):
        shapes.as_names(["x", 1], 2)  # type: ignore[list-item]


def test_names_are_a_sequence_not_one_string() -> None:
    with pytest.raises(TypeError, match="names"):
        shapes.as_names("xy", 2)


@given(st.permutations(range(4)))
def test_names_follow_a_permutation(order: list[int]) -> None:
    assert shapes.names_permuted(NAMES, tuple(order)) == named_by_size(meta(DISTINCT).permute(order).shape)


@given(st.sets(st.integers(0, 3)))
def test_names_go_with_the_dimensions_that_are_taken_away(dims: set[int]) -> None:
    assert shapes.names_without(NAMES, tuple(dims)) == named_by_size(shapes.without(DISTINCT, tuple(dims)))


@given(st.integers(0, 4))
def test_a_new_dimension_has_no_name_unless_one_is_given(dim: int) -> None:
    assert shapes.names_inserted(NAMES, dim) == named_by_size(meta(DISTINCT).unsqueeze(dim).shape)
    named = shapes.names_inserted(NAMES, dim, "new")
    assert named is not None
    assert named[dim] == "new"


@given(anything)
def test_dimensions_that_were_flattened_together_have_no_name(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 3))
    end = data.draw(st.integers(start, 3))
    flat = shapes.flattened(DISTINCT, start, end)
    assert shapes.names_flattened(NAMES, start, end) == named_by_size(flat)


@given(st.integers(0, 3), st.integers(1, 3))
def test_the_parts_of_a_dimension_have_no_name_unless_there_is_just_one(dim: int, parts: int) -> None:
    names = shapes.names_unflattened(NAMES, dim, parts)
    assert names is not None
    assert len(names) == 3 + parts
    assert names[:dim] + names[dim + parts :] == NAMES[:dim] + NAMES[dim + 1 :]
    assert names[dim : dim + parts] == (NAMES[dim : dim + 1] if parts == 1 else (None,) * parts)


def test_names_survive_a_reshape_only_when_it_changes_nothing() -> None:
    assert shapes.names_reshaped(NAMES, DISTINCT, DISTINCT) == NAMES
    assert shapes.names_reshaped(NAMES, DISTINCT, Size((210,))) is None
    assert shapes.names_reshaped(NAMES, DISTINCT, Size((1, *DISTINCT))) is None


@given(st.integers(-4, 3))
def test_names_are_padded_with_none_in_front_or_cut_there(new: int) -> None:
    expected = (None,) * new + NAMES if new >= 0 else NAMES[-new:]
    assert shapes.names_padded(NAMES, new) == shapes.names_or_none(expected)


@given(st.integers(0, 6))
def test_names_are_fitted_to_a_number_of_dimensions_at_the_end(ndim: int) -> None:
    assert shapes.names_fitted(NAMES, ndim) == shapes.names_or_none((*NAMES, None, None)[:ndim])


@given(st.sets(st.integers(0, 3), min_size=1), st.booleans())
def test_a_reduction_takes_the_names_with_the_dimensions(dims: set[int], keepdim: bool) -> None:
    reduced = shapes.reduced(DISTINCT, tuple(dims), False)
    assert shapes.names_reduced(NAMES, tuple(dims), keepdim) == (NAMES if keepdim else named_by_size(reduced))


@pytest.mark.parametrize(
    "function",
    [
        lambda: shapes.names_reshaped(None, DISTINCT, DISTINCT),
        lambda: shapes.names_flattened(None, 0, 1),
        lambda: shapes.names_unflattened(None, 0, 2),
        lambda: shapes.names_permuted(None, (1, 0)),
        lambda: shapes.names_without(None, (0,)),
        lambda: shapes.names_inserted(None, 0),
        lambda: shapes.names_padded(None, 2),
        lambda: shapes.names_fitted(None, 2),
        lambda: shapes.names_reduced(None, (0,), False),
        lambda: shapes.names_indexed(None, (0,)),
    ],
)
def test_without_names_there_are_none_afterwards(function: Callable[[], shapes.Names]) -> None:
    assert function() is None


@pytest.mark.parametrize("length", range(6))
def test_names_follow_an_index_of_any_kinds(length: int) -> None:
    # a part of a dimension is that dimension; what several tensors make together, or a bool, is none of before
    positions = torch.zeros(11, dtype=torch.long)
    for index in itertools.product((slice(None), 1, None, positions, torch.tensor(1), True), repeat=length):
        if consumed(index) > len(DISTINCT):
            continue
        name_of: dict[int, str] = dict(NAME_OF)
        places = [place for place, item in enumerate(index) if item is positions]
        if len(places) == 1 and not any(item is True for item in index):
            name_of[11] = NAMES[consumed(index[: places[0]])]
        size = torch.empty(DISTINCT)[index].shape
        expected = shapes.names_or_none([name_of.get(n) for n in size])
        assert shapes.names_indexed(NAMES, index) == expected, index


@given(st.integers(0, 3), st.sampled_from(((11,), (11, 13), (11, 13, 17))), st.booleans())
def test_an_index_tensor_of_several_dimensions_or_a_bool_makes_dimensions_without_a_name(
    dim: int, shape: tuple[int, ...], flag: bool
) -> None:
    item: Any = True if flag else torch.zeros(1, *shape, dtype=torch.long)
    index = (*[slice(None)] * dim, item)
    assert shapes.names_indexed(NAMES, index) == named_by_size(torch.empty(DISTINCT)[index].shape)


def test_an_index_tensor_without_dimensions_takes_its_dimension_away() -> None:
    assert shapes.names_indexed(NAMES, (slice(None), torch.tensor(0))) == ("w", "y", "z")


def test_ints_of_numpy_and_torch_are_batch_sizes() -> None:
    assert shapes.as_size(np.int64(3)) == shapes.as_size(torch.tensor(3)) == torch.Size([3])
    assert type(shapes.as_size(np.int64(3))[0]) is int
    assert shapes.as_size(np.array([3, 4])) == shapes.as_size([np.int64(3), torch.tensor(4)]) == torch.Size([3, 4])


# -- sizes that overflow ----------------------------------------------------------------------------------------------

#: factors of sizes near the bounds of 32 and 64 bits
huge = st.sampled_from(
    (0, 1, 2, 3, 4, 2**31, 2**32 - 1, 2**32, 2**61, 2**62, 2**62 + 1, 6148914691236517205, 2**63 - 1)
)
beyond = huge | st.sampled_from((-1, 2**63, 2**64 + 4, 2**70))


def huge_arguments(name: str, size: tuple[int, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    several = st.lists(beyond, min_size=1, max_size=3).map(tuple)
    if name == "unflatten":
        return st.tuples(st.integers(0, len(size) - 1), several)
    if name == "flatten":
        return st.just(())
    if name == "repeat":
        return st.tuples(*[beyond] * len(size))
    if name == "repeat_interleave":
        return st.tuples(beyond, st.integers(0, len(size) - 1))
    if name == "narrow":
        return st.tuples(st.just(0), huge, beyond)
    return several.map(lambda sizes: (sizes,))


JOINS: dict[str, Callable[[Any], Any]] = {
    "cat": lambda value: torch.cat([value, value]),
    "stack": lambda value: torch.stack([value, value]),
    "slice": lambda value: value[1 : 2**62],
    "unsqueeze": lambda value: value.unsqueeze(0),
}


@pytest.mark.parametrize(
    "name", ["reshape", "view", "flatten", "unflatten", "expand", "repeat", "repeat_interleave", "narrow", *JOINS]
)
@given(data=anything)
def test_huge_sizes_are_those_of_torch_or_an_error(name: str, data: st.DataObject) -> None:
    size = tuple(data.draw(st.lists(huge, min_size=1, max_size=3)))
    args = () if name in JOINS else data.draw(huge_arguments(name, size))
    call = JOINS.get(name) or (lambda value: getattr(value, name)(*args))
    got = outcome(lambda: call(TensorDict({}, size)).batch_size)
    expected = outcome(lambda: call(torch.empty(size, dtype=torch.uint8, device="meta")).shape)
    if not isinstance(expected, Exception):
        assert got == expected
    elif not isinstance(got, Exception):  # torch has no tensor of so many elements, or refuses the strides
        assert all(0 <= entry < 2**63 for entry in got)
        if name in ("reshape", "view", "flatten", "unflatten"):
            assert math.prod(got) == math.prod(size)


@pytest.mark.parametrize("size", [2**63, [2**70], [3, 2**64 + 4]])
def test_a_batch_size_that_no_tensor_can_have_is_an_error_that_names_it(size: Any) -> None:
    for make in (
        lambda: TensorDict({}, size),
        lambda: setattr(TensorDict({}), "batch_size", size),
        lambda: TensorDict({}, [1]).expand(size),
        lambda: lazy_stack([TensorDict({}, [1])]).expand(1, *shapes.as_size(size)),
    ):
        with pytest.raises(RuntimeError, match=r"batch_size: expected sizes below 2\*\*63, got \[") as info:
            make()
        assert str(max(shapes.as_size(size))) in str(info.value)


def test_shapes_whose_number_of_elements_would_wrap_around_are_errors() -> None:
    for size, shape in (
        ([2**62, 2], (-1, 3, 6148914691236517205)),
        ([0], (2**32, 2**32)),
        ([4], (2**62 + 1, 4)),
    ):
        for change in (TensorDict.reshape, TensorDict.view):
            with pytest.raises(RuntimeError, match="is invalid for the batch size"):
                change(TensorDict({}, size), *shape)
    with pytest.raises(RuntimeError, match="expected sizes below"):
        TensorDict({}, [2**62, 4]).flatten()


S = Size
OTHERS = "other dimensions are those of single values"

#: what is refused, the class of the error and all that it says, without links to the guide
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: shapes.as_size("ab"), TypeError, "batch_size: expected an int or a sequence of ints, got 'ab'"),
    (lambda: shapes.as_size(1.5), TypeError, "batch_size: expected an int or a sequence of ints, got 1.5"),
    (
        lambda: shapes.check_size(S((2, -1))),
        RuntimeError,
        "batch_size: expected sizes that are not negative, got [2, -1]",
    ),
    (
        lambda: shapes.check_largest([3, 2**63]),
        RuntimeError,
        f"batch_size: expected sizes below 2**63, got [3, {2**63}]",
    ),
    (
        lambda: shapes.wrap_dim(0, 0),
        IndexError,
        "dimension 0 is out of range: there are no batch dimensions; give batch_size= when you make the collection",
    ),
    (
        lambda: shapes.wrap_dim(2, 2),
        IndexError,
        "batch dimension out of range: expected it in [-2, 1], got 2; other dimensions are those of single values",
    ),
    (lambda: shapes.wrap_dims((0, -2), 2), RuntimeError, "a dimension appears twice in (0, -2)"),
    (lambda: shapes.reshaped((4,), (-1, -1)), RuntimeError, "only one dimension of [-1, -1] can be -1"),
    (lambda: shapes.reshaped((4,), (-1, -2)), RuntimeError, "invalid shape [-1, -2]: a size is negative"),
    *(
        (
            lambda size=size, shape=shape: shapes.reshaped(size, shape),  # type: ignore[misc]
            RuntimeError,
            f"shape {list(shape)} is invalid for the batch size {list(size)}; {OTHERS}",
        )
        for size, shape in [((0,), (-1, 0)), ((4,), (3,)), ((4,), (-1, 3))]
    ),
    (lambda: shapes.flat_range(S((2, 3)), 1, 0), RuntimeError, "flatten: start_dim 1 comes after end_dim 0"),
    (
        lambda: shapes.permutation(2, [0]),
        ValueError,
        "permute: expected 2 dims, one for each batch dimension, got (0,)",
    ),
    (lambda: shapes.permutation(2, [0, 0]), ValueError, "permute: each batch dimension must appear once, got (0, 0)"),
    (
        lambda: shapes.movement(2, (0, 1), 0),
        RuntimeError,
        "movedim: source (0, 1) and destination 0 differ in length",
    ),
    (
        lambda: shapes.unsqueezed_dim(2, 3),
        IndexError,
        "unsqueeze: expected a dim in [-3, 2] for 2 batch dimensions, got 3",
    ),
    (
        lambda: shapes.expanded(S((2, 3)), (3,)),
        RuntimeError,
        "expand: [3] has fewer dimensions than the batch size [2, 3]",
    ),
    (
        lambda: shapes.expanded(S((2, 3)), (2, 4)),
        RuntimeError,
        "expand: the batch size [2, 3] cannot be expanded to [2, 4]",
    ),
    (
        lambda: shapes.expanded(S((3,)), (-1, 3)),
        RuntimeError,
        "expand: -1 keeps the size of an existing dimension; the new ones in [-1, 3] need a size",
    ),
    (
        lambda: shapes.repeated(S((2, 3)), (4,)),
        RuntimeError,
        "repeat: expected at least 2 repeats, one per batch dimension, got (4,)",
    ),
    (lambda: shapes.repeated(S((2,)), (-1,)), RuntimeError, "repeat: repeats cannot be negative, got (-1,)"),
    (lambda: shapes.split_sizes(3, -1), RuntimeError, "split: split_size must be positive, got -1"),
    (
        lambda: shapes.split_sizes(3, [1, 1]),
        RuntimeError,
        "split: the sizes [1, 1] must be non-negative and sum to 3",
    ),
    (
        lambda: shapes.slice_length(slice(None, None, -1), 3),
        ValueError,
        "a slice of a tensor needs a positive step; use .flip() to reverse a dimension",
    ),
    (
        lambda: shapes.indexed(S((2, 3)), (slice(None), 3)),
        IndexError,
        "index 3 is out of bounds for batch dimension 1 with size 3",
    ),
    (
        lambda: shapes.as_names("ab", 2),
        TypeError,
        "names: expected a sequence with one name or None for each batch dimension, got 'ab'",
    ),
    (
        lambda: shapes.as_names(["a"], 2),
        ValueError,
        "names: expected 2 of them, one for each batch dimension (None: no name), got ['a']",
    ),
    (lambda: shapes.as_names([1, "a"], 2), TypeError, "names: expected strings or None, got 1"),  # type: ignore[list-item]
    (
        lambda: shapes.as_names(["a", "a"], 2),
        ValueError,
        "names: expected a different name for each dimension, got ['a', 'a']",
    ),
    (
        lambda: shapes.infer_size_impl([2, -2], 4),
        RuntimeError,
        "expected sizes that are -1 or not negative, got [2, -2]",
    ),
    (lambda: shapes.infer_size_impl([-1, -1], 4), RuntimeError, "expected -1 for at most one size, got [-1, -1]"),
    (lambda: shapes.infer_size_impl([3], 4), RuntimeError, "a shape [3] cannot hold 4 items"),
    (lambda: shapes.infer_size_impl([3, -1], 4), RuntimeError, "a shape [3, -1] cannot hold 4 items"),
    (lambda: shapes.infer_size_impl([0, -1], 0), RuntimeError, "a shape [0, -1] cannot hold 0 items"),
    (lambda: convert_ellipsis_to_idx((..., ...), [2]), RuntimeError, "an index can hold one ... only"),
    (
        lambda: convert_ellipsis_to_idx((0, ..., 0), [2]),
        RuntimeError,
        "too many indices: 2 for 1 dimensions",
    ),
]


@pytest.mark.parametrize("call, error, message", ERRORS, ids=[message[:40] for *_, message in ERRORS])
def test_an_error_says_what_was_expected_and_what_came(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as found:
        call()
    assert re.fullmatch(re.escape(message) + r"( \(see https://\S+\))?", str(found.value))


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_an_open_size_is_what_is_left(shape: list[int], data: st.DataObject) -> None:
    count = math.prod(shape)
    assert shapes.infer_size_impl(shape, count) == shape
    if shape and count:
        dim = data.draw(st.integers(0, len(shape) - 1))
        assert shapes.infer_size_impl([*shape[:dim], -1, *shape[dim + 1 :]], count) == shape


@given(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))
def test_an_ellipsis_stands_for_the_dimensions_between(before: int, behind: int, rest: int) -> None:
    size = [2] * (before + behind + rest)
    index = (*[0] * before, ..., None, *[1] * behind)
    expected = (*[0] * before, *[slice(None)] * rest, None, *[1] * behind)
    assert convert_ellipsis_to_idx(index, size) == expected
    same = (0, None)
    assert convert_ellipsis_to_idx(same, size) is same
