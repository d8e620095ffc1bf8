"""Reductions do to each tensor what torch does, over batch dimensions, features or everything."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorDict
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal, shares_memory
from tests.samples import Unchanged

Reduce = Callable[..., Tensor]


def _prod(value: Tensor, dims: tuple[int, ...], keepdim: bool = False, **kwargs: Any) -> Tensor:
    for dim in sorted(dims, reverse=True):
        value = torch.prod(value, dim, keepdim=keepdim, **kwargs)
    return value


def _median(value: Tensor, dims: tuple[int, ...], keepdim: bool = False, q: Any = 0.3, **kwargs: Any) -> Tensor:
    order = [dim for dim in range(value.ndim) if dim not in dims] + list(dims)
    flat = value.permute(order).flatten(value.ndim - len(dims))
    result = torch.quantile(flat, q, -1, **kwargs)
    if keepdim:
        for dim in sorted(dims):
            result = result.unsqueeze(dim)
    return result


#: the method -> the same on one tensor, over a non-empty tuple of dims
TABLE: dict[str, Reduce] = {
    "sum": torch.sum,
    "nansum": torch.nansum,
    "mean": torch.mean,
    "nanmean": torch.nanmean,
    "prod": _prod,
    "std": torch.std,
    "var": torch.var,
    "amax": torch.amax,
    "amin": torch.amin,
    "quantile": _median,
    "logsumexp": torch.logsumexp,
    "all": torch.all,
    "any": torch.any,
}
#: those that take reduce=, and without dim reduce everything
WHOLE = [name for name in TABLE if name not in ("logsumexp", "all", "any")]
DIMS = [0, 1, -1, -2, (0,), (0, 1), (1, 0), [-1, 0]]

every = pytest.mark.parametrize("name", TABLE)
keeping = pytest.mark.parametrize("keepdim", [False, True], ids=["", "keepdim"])


def arguments(name: str) -> tuple[Any, ...]:
    """What the method needs in front of the dims."""
    return (0.3,) if name == "quantile" else ()


def collection() -> TensorDict:
    """A batch of two dimensions, the first one named; the nested level has a longer batch."""
    generator = torch.Generator().manual_seed(0)
    values = lambda *shape: torch.rand(shape, generator=generator)
    nest = TensorDict({"y": values(2, 3, 4, 5), "w": values(2, 3, 4)}, [2, 3, 4])
    return TensorDict(
        {"x": values(2, 3), "v": values(2, 3, 2, 2), "nest": nest, "empty": {}}, [2, 3], names=["row", None]
    )


def assert_reduced(
    result: Any, data: TensorDict, function: Callable[[Tensor, int], Tensor], size: Callable[[torch.Size], Any]
) -> None:
    """``function(leaf, batch_dims)`` of each leaf, and ``size(batch_size)`` of each level."""
    assert type(result) is type(data)
    assert result.batch_size == size(data.batch_size)
    assert_consistent(result)
    assert list(result.keys()) == list(data.keys())
    for key, value in data.items():
        if isinstance(value, TensorDict):
            assert_reduced(result[key], value, function, size)
        else:
            torch.testing.assert_close(result[key], function(value, data.batch_dims))


def without(size: torch.Size, dims: Any, ndim: int, keepdim: bool) -> torch.Size:
    """The size after a reduction, by torch."""
    wrapped = tuple(dim % ndim for dim in ([dims] if isinstance(dims, int) else dims))
    return torch.empty(size, device="meta").sum(wrapped, keepdim=keepdim).shape


# -- over batch dimensions --------------------------------------------------------------------------------------------


@keeping
@pytest.mark.parametrize("dims", DIMS, ids=str)
@every
def test_over_batch_dimensions(name: str, dims: Any, keepdim: bool) -> None:
    data = collection()
    wrapped = tuple(dim % 2 for dim in ([dims] if isinstance(dims, int) else dims))
    with Unchanged(data):
        result = getattr(data, name)(*arguments(name), dims, keepdim)
    assert_reduced(
        result,
        data,
        lambda leaf, _: TABLE[name](leaf, wrapped, keepdim=keepdim),
        lambda size: without(size, dims, 2, keepdim),
    )


@every
def test_the_names_of_the_dimensions_that_stay_are_kept(name: str) -> None:
    data, args = collection(), arguments(name)
    assert getattr(data, name)(*args, 0).names == [None]
    assert getattr(data, name)(*args, 1).names == ["row"]
    assert getattr(data, name)(*args, 1, keepdim=True).names == ["row", None]
    assert getattr(data.select("v"), name)(*args, dim="feature").names == ["row", None]


@keeping
@pytest.mark.parametrize("name", [name for name in TABLE if name not in ("all", "any", "logsumexp")])
def test_no_dimensions_are_all_of_them_as_in_torch(name: str, keepdim: bool) -> None:
    data, args = collection(), arguments(name)
    assert_equal(getattr(data, name)(*args, (), keepdim), getattr(data, name)(*args, None, keepdim))
    assert torch.equal(data.sum((), keepdim)["x"], data["x"].sum((), keepdim))
    assert data.sum((), reduce=True).ndim == 0


@pytest.mark.parametrize("name", ["all", "any"])
def test_over_no_dimension_every_item_stands_for_itself_as_in_torch(name: str) -> None:
    data = collection()
    result = getattr(data, name)(*arguments(name), ())
    assert_reduced(result, data, lambda leaf, _: TABLE[name](leaf.unsqueeze(-1), (leaf.ndim,)), lambda size: size)


@pytest.mark.parametrize("dims", [2, -3, (0, 5)], ids=str)
@every
def test_dimensions_behind_the_batch_are_out_of_range(name: str, dims: Any) -> None:
    data = collection()
    with Unchanged(data), pytest.raises(IndexError, match="batch dimension out of range"):
        getattr(data, name)(*arguments(name), dims)


@every
def test_a_dimension_twice_is_an_error(name: str) -> None:
    with pytest.raises(RuntimeError, match="twice"):
        getattr(collection(), name)(*arguments(name), (0, -2))


@every
def test_another_word_than_feature_is_an_error(name: str) -> None:
    with pytest.raises(TypeError, match="'feature'"):
        getattr(collection(), name)(*arguments(name), "features")


# -- over features, over everything -----------------------------------------------------------------------------------


@keeping
@every
def test_over_the_features_each_level_has_its_own_batch(name: str, keepdim: bool) -> None:
    data = collection().exclude("x", ("nest", "w"))

    def over_features(leaf: Tensor, batch_dims: int) -> Tensor:
        return TABLE[name](leaf, tuple(range(batch_dims, leaf.ndim)), keepdim=keepdim)

    result = getattr(data, name)(*arguments(name), dim="feature", keepdim=keepdim)
    assert_reduced(result, data, over_features, lambda size: size)


@pytest.mark.parametrize("name", [name for name in TABLE if name not in ("std", "var", "all", "any", "logsumexp")])
def test_a_tensor_without_features_stays_as_it_is(name: str) -> None:
    data = collection().select("x", ("nest", "w"))
    result = getattr(data, name)(*arguments(name), dim="feature")
    for key, leaf in data.items(True, True):
        torch.testing.assert_close(result[key], leaf)


@keeping
@pytest.mark.parametrize("name", WHOLE)
def test_without_dim_each_tensor_is_reduced_whole(name: str, keepdim: bool) -> None:
    data = collection()
    result = getattr(data, name)(*arguments(name), keepdim=keepdim)
    assert_reduced(
        result,
        data,
        lambda leaf, _: TABLE[name](leaf, tuple(range(leaf.ndim)), keepdim=keepdim),
        lambda size: (1,) * len(size) if keepdim else (),
    )
    assert result.names == (["row", None] if keepdim else [])


@keeping
def test_logsumexp_without_dim_is_over_the_batch_dimensions_of_the_whole(keepdim: bool) -> None:
    data = collection()
    assert_reduced(
        data.logsumexp(keepdim=keepdim),
        data,
        lambda leaf, _: torch.logsumexp(leaf, (0, 1), keepdim=keepdim),
        lambda size: without(size, (0, 1), 2, keepdim),
    )


def test_all_and_any_without_dim_give_one_bool() -> None:
    data = TensorDict({"a": torch.tensor([True, False]), "b": {"c": torch.tensor([[True], [True]])}}, [2])
    assert data.all() is False
    assert data.any() is True
    assert data.select("b").all() is True
    assert (data == data).all() is True
    assert data.logical_not().select("b").any() is False


def test_all_and_any_of_nothing() -> None:
    data = TensorDict({"text": "t", "empty": {}}, [2])
    assert data.all() is True
    assert data.any() is False


@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_the_norm_is_of_each_tensor_whole(dtype: Any) -> None:
    data = collection()
    assert_reduced(
        data.norm(dtype=dtype),
        data,
        lambda leaf, _: torch.linalg.vector_norm(leaf, dtype=dtype),
        lambda size: (),
    )


@pytest.mark.parametrize("name", ["norm", "logsumexp"])
def test_out_is_written_into(name: str) -> None:
    data = collection()
    wanted = getattr(data, name)()
    out = wanted * 0
    tensors = list(out.values(True, True))
    assert getattr(data, name)(out=out) is out
    assert all(a is b for a, b in zip(out.values(True, True), tensors, strict=True))
    assert (out == wanted).all()


# -- one tensor for all -----------------------------------------------------------------------------------------------


def alike() -> TensorDict:
    """Tensors of one shape at two levels."""
    a, b, c = torch.rand(3, 2, 3, 4, generator=torch.Generator().manual_seed(1))
    return TensorDict({"a": a, "text": "t", "nest": {"b": b, "c": c}}, [2, 3])


@keeping
@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_reduce_joins_the_tensors_along_the_first_reduced_dimension(name: str, dims: Any, keepdim: bool) -> None:
    data = alike()
    wrapped = tuple(dim % 2 for dim in ([dims] if isinstance(dims, int) else dims))
    joined = torch.cat(list(data.values(True, True)), wrapped[0])
    with Unchanged(data):
        result = getattr(data, name)(*arguments(name), dims, keepdim, reduce=True)
    torch.testing.assert_close(result, TABLE[name](joined, wrapped, keepdim=keepdim))


@pytest.mark.parametrize("name", WHOLE)
def test_reduce_over_everything_takes_tensors_of_any_shape(name: str) -> None:
    data = collection()
    joined = torch.cat([leaf.flatten() for leaf in data.values(True, True)])
    torch.testing.assert_close(getattr(data, name)(*arguments(name), reduce=True), TABLE[name](joined, (0,)))


@keeping
@pytest.mark.parametrize("name", WHOLE)
def test_reduce_over_the_features_takes_tensors_of_any_shape(name: str, keepdim: bool) -> None:
    data = collection()
    joined = torch.cat([leaf.reshape(2, 3, -1) for leaf in data.values(True, True)], -1)
    result = getattr(data, name)(*arguments(name), dim="feature", keepdim=keepdim, reduce=True)
    torch.testing.assert_close(result, TABLE[name](joined, (2,), keepdim=keepdim))


@pytest.mark.parametrize("name", WHOLE)
def test_reduce_over_batch_dimensions_needs_one_shape(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"need one shape.*\[2, 3\], \[2, 3, 2, 2\]"):
        getattr(collection(), name)(*arguments(name), 0, reduce=True)


@pytest.mark.parametrize("dim", [None, 0, "feature"])
@pytest.mark.parametrize("name", WHOLE)
def test_reduce_needs_a_tensor(name: str, dim: Any) -> None:
    with pytest.raises(ValueError, match="no tensor"):
        getattr(TensorDict({"text": "t", "empty": {}}, [2]), name)(*arguments(name), dim, reduce=True)


@pytest.mark.parametrize("name", WHOLE)
def test_reduce_false_is_the_default(name: str) -> None:
    data = collection()
    for reduce in (False, None):
        assert (
            getattr(data, name)(*arguments(name), 0, reduce=reduce) == getattr(data, name)(*arguments(name), 0)
        ).all()


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [None, 0, (0, 1), "feature"], ids=str)
@pytest.mark.parametrize("name", ["sum", "nansum", "mean", "nanmean", "prod"])
def test_dtype_is_that_of_the_computation(name: str, dim: Any) -> None:
    data = (alike() * 10).to(torch.int32)
    wanted = getattr(data.to(torch.float64), name)(dim)
    if name in ("nansum", "nanmean"):
        data = data.float()
    result = getattr(data, name)(dim, dtype=torch.float64)
    assert {leaf.dtype for leaf in result.values(True, True)} == {torch.float64}
    for key, leaf in wanted.items(True, True):
        torch.testing.assert_close(result[key], leaf)
    one = getattr(data, name)(dim, dtype=torch.float64, reduce=True)
    assert one.dtype == torch.float64


@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("dim, dims", [(1, (1,)), ((0, 1), (0, 1)), ("feature", (2,)), (None, (0, 1, 2))], ids=str)
@pytest.mark.parametrize("name", ["std", "var"])
def test_correction_is_subtracted_from_the_count(name: str, dim: Any, dims: tuple[int, ...], correction: int) -> None:
    data = alike()
    result = getattr(data, name)(dim, correction=correction)
    for key, leaf in data.items(True, True):
        torch.testing.assert_close(result[key], getattr(torch, name)(leaf, dims, correction=correction))


def test_nansum_and_nanmean_leave_nan_out() -> None:
    data = TensorDict({"a": torch.tensor([[1.0, math.nan], [3.0, 4.0]])}, [2])
    assert data.nansum(0)["a"].tolist() == [4, 4]
    assert data.nanmean(0)["a"].tolist() == [2, 4]
    assert data.nansum(reduce=True) == 8


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantile_interpolates(interpolation: str) -> None:
    data = alike()
    result = data.quantile(0.3, 1, interpolation=interpolation)
    for key, leaf in data.items(True, True):
        torch.testing.assert_close(result[key], torch.quantile(leaf, 0.3, 1, interpolation=interpolation))


@pytest.mark.parametrize("dim, rest", [(0, (3,)), ((0, 1), ()), ("feature", (2, 3)), (None, ())], ids=str)
def test_several_quantiles_make_a_first_batch_dimension(dim: Any, rest: tuple[int, ...]) -> None:
    data, q = collection(), torch.tensor([0.1, 0.5, 0.9, 1.0])
    result = data.quantile(q, dim)
    assert result.batch_size == (4, *rest)
    assert_consistent(result)
    for i, row in enumerate(result):
        single = data.quantile(float(q[i]), dim)
        for key, leaf in single.items(True, True):
            torch.testing.assert_close(row[key], leaf)
    assert data.quantile(q, reduce=True).shape == (4,)


# -- extremes with indices --------------------------------------------------------------------------------------------

EXTREMES = ["max", "min"]


@keeping
@pytest.mark.parametrize("dim", [0, 1, -1, (1,)], ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_along_a_dimension_come_with_their_indices(name: str, dim: Any, keepdim: bool) -> None:
    data = collection()
    one = dim if isinstance(dim, int) else dim[0]
    with Unchanged(data):
        values, indices = result = getattr(data, name)(dim, keepdim)
    assert type(result) is getattr(torch.return_types, name)
    assert result.values is values
    assert result.indices is indices
    for part, got in enumerate((values, indices)):
        assert_reduced(
            got,
            data,
            lambda leaf, _, part=part: getattr(torch, name)(leaf, one % 2, keepdim)[part],
            lambda size: without(size, one, 2, keepdim),
        )


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_without_indices_are_amax_and_amin(name: str) -> None:
    data = collection()
    plain = getattr(data, f"a{name}")
    assert (getattr(data, name)() == plain()).all()
    assert (getattr(data, name)(0, return_indices=False) == plain(0)).all()
    assert (getattr(data, name)((0, 1), return_indices=False) == plain((0, 1))).all()
    assert (getattr(data, name)(dim="feature") == plain(dim="feature")).all()
    assert getattr(data, name)(reduce=True) == plain(reduce=True)
    assert getattr(data, name)().batch_size == ()


@pytest.mark.parametrize("name", [*EXTREMES, "cummax", "cummin"])
def test_the_extremes_of_all_tensors_joined(name: str) -> None:
    data = alike()
    joined = torch.cat(list(data.values(True, True)), 1)
    values, indices = getattr(data, name)(1, reduce=True)
    wanted = getattr(torch, name)(joined, 1)
    assert torch.equal(values, wanted.values)
    assert torch.equal(indices, wanted.indices)
    assert torch.equal(getattr(data, name)(1, reduce=True, return_indices=False), wanted.values)


@pytest.mark.parametrize("name", EXTREMES)
def test_indices_exist_along_one_dimension_only(name: str) -> None:
    with pytest.raises(TypeError, match="return_indices=False"):
        getattr(collection(), name)((0, 1))


# -- along a dimension ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "softmax"])
def test_functions_along_a_dimension_keep_the_batch_size(name: str, dim: int) -> None:
    data = collection()
    with Unchanged(data):
        result = getattr(data, name)(dim)
    assert_reduced(result, data, lambda leaf, _: getattr(torch, name)(leaf, dim % 2), lambda size: size)
    assert result.names == data.names
    assert {leaf.dtype for leaf in getattr(data, name)(dim, dtype=torch.float64).values(True, True)} == {torch.float64}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_come_with_their_indices(name: str, dim: int) -> None:
    data = collection()
    values, indices = result = getattr(data, name)(dim)
    assert type(result) is getattr(torch.return_types, name)
    for part, got in enumerate((values, indices)):
        assert_reduced(
            got, data, lambda leaf, _, part=part: getattr(torch, name)(leaf, dim % 2)[part], lambda size: size
        )
    assert (getattr(data, name)(dim, return_indices=False) == values).all()


@pytest.mark.parametrize("dim", [2, -3])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "softmax", "cummax", "cummin", "max", "min"])
def test_functions_along_a_dimension_need_one_of_the_batch(name: str, dim: int) -> None:
    with pytest.raises(IndexError, match="batch dimension out of range"):
        getattr(collection(), name)(dim)


# -- objects, records, empty batches ----------------------------------------------------------------------------------


def with_objects() -> TensorDict:
    return TensorDict({"x": torch.rand(3, 2), "text": "t", "labels": NonTensorStack("p", "q", "r")}, [3])


@every
def test_one_object_for_the_batch_stays_in_the_batch_size_of_the_result(name: str) -> None:
    data, args = with_objects().exclude("labels"), arguments(name)
    for dim, keepdim, size in ((0, False, ()), (0, True, (1,)), ("feature", False, (3,))):
        result = getattr(data, name)(*args, dim, keepdim)
        assert result["text"] == "t"
        assert result.get("text").batch_size == size
    if name in WHOLE:
        assert getattr(data, name)(*args).get("text").batch_size == ()


@every
def test_of_several_objects_the_first_stands_for_them(name: str) -> None:
    data, args = with_objects(), arguments(name)
    assert getattr(data, name)(*args, 0)["labels"] == "p"
    assert getattr(data, name)(*args, 0, True)["labels"] == ["p"]
    assert getattr(data, name)(*args, dim="feature")["labels"] == ["p", "q", "r"]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "softmax"])
def test_objects_stay_where_every_row_stays(name: str) -> None:
    result = getattr(with_objects(), name)(0)
    assert (result["text"], result["labels"]) == ("t", ["p", "q", "r"])


@pytest.mark.parametrize("name", [*EXTREMES, "cummax", "cummin"])
def test_objects_stay_beside_values_and_indices(name: str) -> None:
    for part in getattr(with_objects(), name)(0):
        assert part["text"] == "t"
        assert_consistent(part)


@every
def test_the_class_of_a_record_is_kept(name: str) -> None:
    class Record(TensorClass):
        x: Tensor
        text: str = "t"

    record = Record(torch.rand(3, 2), batch_size=[3])
    assert type(getattr(record, name)(*arguments(name), 0)) is Record


@every
def test_a_collection_without_keys_has_the_reduced_batch_size(name: str) -> None:
    data, args = TensorDict({"empty": {}}, [2, 3]), arguments(name)
    assert getattr(data, name)(*args, 0).batch_size == (3,)
    assert getattr(data, name)(*args, 0)["empty"].batch_size == (3,)
    assert getattr(data, name)(*args, (0, 1), True).batch_size == (1, 1)


@pytest.mark.parametrize("name", ["sum", "prod", "all", "any"])
def test_over_a_dimension_without_items_torch_decides(name: str) -> None:
    data = TensorDict({"x": torch.zeros(0, 2)}, [0])
    assert torch.equal(getattr(data, name)(0)["x"], TABLE[name](data["x"], (0,)))


def test_a_reduction_is_not_a_view() -> None:
    data = TensorDict({"x": torch.ones(1, 2)}, [1])
    assert not shares_memory(data.sum(0)["x"], data["x"])


def test_gradients_flow_through_a_reduction() -> None:
    data = alike().exclude("text").requires_grad_()
    data.mean(reduce=True).backward()
    for leaf in data.grad.values(True, True):
        assert torch.allclose(leaf, torch.full_like(leaf, 1 / 72))


@given(draw.trees(leaf=draw.leaves.filter(lambda leaf: leaf.dtype.is_floating_point)), draw.shapes(1, 3), st.data())
def test_the_sum_of_any_collection_is_the_sum_of_its_tensors(tree: Any, batch_size: Any, data: st.DataObject) -> None:
    whole = tree.build(batch_size)
    dims = data.draw(st.lists(st.integers(0, len(batch_size) - 1), unique=True, min_size=1))
    keepdim = data.draw(st.booleans())
    result = whole.sum(dims, keepdim)
    assert result.batch_size == without(whole.batch_size, dims, len(batch_size), keepdim)
    assert_consistent(result)
    for key, leaf in whole.items(True, True):
        torch.testing.assert_close(result[key], leaf.sum(dims, keepdim=keepdim), equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1, (0, 1), None])
def test_the_quantile_of_no_items_is_refused_as_torch_does(dim: Any) -> None:
    with pytest.raises(RuntimeError, match="input tensor must be non-empty"):
        TensorDict({"a": torch.zeros(0, 0)}, [0, 0]).quantile(0.5, dim)


def test_the_quantile_of_a_single_number_is_the_number() -> None:
    data = TensorDict({"a": torch.tensor(3.0), "b": torch.tensor([1.0, 2.0])})
    assert data.quantile(0.5)["a"] == 3.0
    assert data.quantile(0.5)["b"] == 1.5


def test_a_product_over_several_dims_is_that_of_all_items_at_once() -> None:
    values = torch.arange(54.0).reshape(2, 3, 3, 3)
    data = TensorDict({"a": values}, [2, 3])
    assert data.prod()["a"] == 0  # the product of the others alone is infinite
    assert data.prod((0, 1))["a"].shape == (3, 3)
    assert data.prod((0, 1), keepdim=True)["a"].shape == (1, 1, 3, 3)
    assert torch.equal(data.prod((0, 1))["a"], values.reshape(6, 3, 3).prod(0))
