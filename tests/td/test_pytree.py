"""Collections are nodes of pytrees; what a function over the leaves, or ``vmap``, does to the batch size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree

from tensorclass import NonTensorStack, TensorClass, TensorDict
from tests import fresh_python
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged, mixed, nested


class Record(TensorClass):
    """A record whose class must be kept."""

    x: Tensor
    text: str = "t"


# -- flattening and unflattening --------------------------------------------------------------------------------------


def test_the_leaves_are_the_tensors() -> None:
    data = nested()
    leaves, _ = pytree.tree_flatten(data)
    assert all(a is b for a, b in zip(leaves, data.values(True, True), strict=True))


def test_unflattening_gives_the_collection_back() -> None:
    for data in (nested(device="cpu", names=["row"]), mixed()):
        result = pytree.tree_unflatten(*pytree.tree_flatten(data))
        assert_equal(result, data)
        assert result.device == data.device
        assert result is not data


def test_an_unflattened_collection_is_not_locked() -> None:
    data = nested().lock_()
    result = pytree.tree_map(lambda x: x, data)
    assert not result.is_locked
    assert not result["b"].is_locked


def test_the_class_of_a_record_is_kept() -> None:
    result = pytree.tree_map(lambda x: x + 1, Record(torch.zeros(3), "text", batch_size=[3]))
    assert type(result) is Record
    assert result.text == "text"


def test_a_collection_can_lie_in_a_larger_tree() -> None:
    tree = {"data": [nested(), 1], "more": (torch.ones(2),)}
    result = pytree.tree_map(lambda x: x * 2, tree)
    assert (result["data"][0] == nested() * 2).all()
    assert result["data"][1] == 2


def test_trees_of_one_structure_are_mapped_together() -> None:
    data = nested()
    assert (pytree.tree_map(torch.add, data, data * 2) == data * 3).all()


@pytest.mark.parametrize(
    "other",
    [
        nested().exclude("a"),
        nested(device="cpu"),
        Record(torch.zeros(3), batch_size=[3]),
    ],
    ids=["keys", "device", "class"],
)
def test_collections_that_differ_have_different_structures(other: Any) -> None:
    assert pytree.tree_structure(other) != pytree.tree_structure(nested())
    with pytest.raises(ValueError, match="mismatch"):
        pytree.tree_map(lambda x, y: x, nested(), other)


def test_batch_size_and_names_are_no_part_of_the_structure() -> None:
    first, second = mixed().exclude("labels"), torch.cat([mixed(), mixed()]).exclude("labels")
    assert pytree.tree_structure(first) == pytree.tree_structure(first.clone().refine_names("row"))
    assert pytree.tree_structure(first) == pytree.tree_structure(second)
    assert hash(pytree.tree_structure(first)) == hash(pytree.tree_structure(second))
    assert_equal(pytree.tree_unflatten(pytree.tree_leaves(second), pytree.tree_structure(first)), second)


def test_objects_are_part_of_the_structure() -> None:
    make = lambda text: TensorDict({"text": text, "x": torch.zeros(2)}, [2])
    assert pytree.tree_structure(make("a")) == pytree.tree_structure(make("a"))
    assert pytree.tree_structure(make("a")) != pytree.tree_structure(make("b"))


def test_paths_are_the_keys() -> None:
    paths = [path for path, _ in pytree.tree_flatten_with_path(nested())[0]]
    assert [tuple(entry.key for entry in path) for path in paths] == [("a",), ("b", "c"), ("b", "inner", "d")]
    seen: list[str] = []
    pytree.tree_map_with_path(lambda path, leaf: seen.append(pytree.keystr(path)), nested())
    assert seen == ["['a']", "['b']['c']", "['b']['inner']['d']"]


def test_structures_have_a_hash() -> None:
    assert hash(pytree.tree_structure(nested())) == hash(pytree.tree_structure(nested() * 2))


def test_a_structure_shows_itself() -> None:
    assert "TensorDict" in repr(pytree.tree_structure(nested()))


@pytest.mark.parametrize("data", [nested(device="cpu", names=["row"]), mixed(), TensorDict({"e": {}}, [2, 3])])
def test_a_structure_goes_through_json(data: TensorDict) -> None:
    structure = pytree.tree_structure(data)
    again = pytree.treespec_loads(pytree.treespec_dumps(structure))
    assert again == structure
    result = pytree.tree_unflatten(pytree.tree_leaves(data), again)
    assert_equal(result, data)
    assert result.device == data.device


def test_objects_that_json_does_not_have_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"objects of \['object'\]; leave them out first"):
        pytree.treespec_dumps(pytree.tree_structure(TensorDict({"x": object()})))


def test_a_value_for_each_node_above_the_leaves() -> None:
    data = nested()
    assert pytree.tree_structure(data).num_leaves == 3
    assert pytree._broadcast_to_and_flatten(0, pytree.tree_structure(data)) == [0, 0, 0]
    assert pytree._broadcast_to_and_flatten([1], pytree.tree_structure([data])) == [1, 1, 1]


# -- other libraries of trees -----------------------------------------------------------------------------------------


def test_the_trees_of_torch_in_c() -> None:
    from torch.utils import _cxx_pytree as cxx

    data = nested(names=["row"])
    leaves, structure = cxx.tree_flatten(data)
    assert all(a is b for a, b in zip(leaves, data.values(True, True), strict=True))
    assert_equal(cxx.tree_unflatten(leaves, structure), data)
    assert_equal(cxx.tree_map(lambda x: x * 2, data), data * 2)


def test_the_trees_of_optree() -> None:
    optree = pytest.importorskip("optree")
    data = nested(device="cpu", names=["row"])
    leaves, structure = optree.tree_flatten(data)
    assert all(a is b for a, b in zip(leaves, data.values(True, True), strict=True))
    assert_equal(optree.tree_unflatten(structure, leaves), data)
    assert optree.tree_paths(data) == [("a",), ("b", "c"), ("b", "inner", "d")]
    assert all(accessor(data) is leaf for accessor, leaf in zip(optree.tree_accessors(data), leaves, strict=True))
    assert_equal(optree.tree_map(torch.add, data, data), data * 2)
    sliced = optree.tree_map(lambda x: x[:2], {"data": data})["data"]
    assert sliced.batch_size == sliced["empty"].batch_size == (2,)
    assert_consistent(sliced)
    record = optree.tree_map(lambda x: x + 1, Record(torch.zeros(3), "text", batch_size=[3]))
    assert (type(record), record.text) == (Record, "text")
    assert optree.tree_map(lambda x, y: y, [data], [5], is_leaf=lambda x: isinstance(x, TensorDict)) == [5]
    assert optree.broadcast_prefix(7, data) == [7, 7, 7]


@pytest.mark.parametrize("first", ["import optree, tensorclass", "import tensorclass, optree"])
def test_optree_may_be_imported_before_or_after(first: str) -> None:
    pytest.importorskip("optree")
    code = f"""
import sys
{first}
import torch
class Record(tensorclass.TensorClass):
    x: torch.Tensor
record = Record(torch.ones(3), batch_size=[3])
data = tensorclass.TensorDict(dict(a=dict(b=torch.ones(3)), r=record), [3])
assert optree.tree_paths(data) == [("a", "b"), ("r", "x")], optree.tree_paths(data)
assert not any(type(finder).__module__ == "tensorclass.td.optree_nodes" for finder in sys.meta_path)
assert type(optree.__spec__.loader).__module__ != "tensorclass.td.optree_nodes", optree.__spec__
"""
    fresh_python.run(["-c", code], check=True)


def test_optree_is_not_imported_by_this_package() -> None:
    code = "import sys, tensorclass, importlib.util; importlib.util.find_spec('optree'); print('optree' in sys.modules)"
    result = fresh_python.run(["-c", code], check=True)
    assert result.stdout.strip() == "False"


# -- what a function over the leaves does to the batch size -----------------------------------------------------------


def test_a_function_that_keeps_the_leading_dimensions_keeps_the_batch_size() -> None:
    data = nested(names=["row"])
    result = pytree.tree_map(lambda x: x.unsqueeze(-1), data)
    assert result.batch_size == (3,)
    assert result["b", "inner"].batch_size == (3, 2)
    assert result.names == ["row"]


def test_a_function_that_changes_a_size_changes_the_batch_size() -> None:
    data = TensorDict({"a": torch.zeros(3, 2), "b": {"c": torch.zeros(3)}, "t": "text"}, [3], names=["row"])
    result = pytree.tree_map(lambda x: x[:2], data)
    assert result.batch_size == result["b"].batch_size == result.get("t").batch_size == (2,)
    assert result.names == ["row"]
    assert_consistent(result)


def test_a_function_that_takes_dimensions_away_leaves_those_that_all_leaves_share() -> None:
    data = TensorDict({"a": torch.zeros(3, 4, 5), "b": {"c": torch.zeros(3, 4)}, "t": "text", "e": {}}, [3, 4])
    result = pytree.tree_map(lambda x: x[0], data)
    assert result.batch_size == result["b"].batch_size == result.get("t").batch_size == (4,)
    assert pytree.tree_map(torch.sum, data).batch_size == ()
    assert_consistent(pytree.tree_map(lambda x: x.flatten(), data))


def test_a_function_that_changes_the_leaves_differently_leaves_what_is_in_common() -> None:
    data = TensorDict({"a": torch.zeros(3, 4), "b": torch.zeros(3, 4)}, [3, 4])
    rows = iter((2, 3))
    result = pytree.tree_map(lambda x: x[:, : next(rows)], data)
    assert result.batch_size == (3,)


def test_nested_collections_keep_their_longer_batch_size_as_far_as_it_fits() -> None:
    result = pytree.tree_map(lambda x: x[:2], nested())
    assert result.batch_size == result["b"].batch_size == (2,)
    assert result["b", "inner"].batch_size == (2, 2)
    assert_consistent(result)


@pytest.mark.parametrize(
    "function", [str, lambda x: x.shape, lambda x: None, lambda x: 5], ids=["str", "shape", "None", "5"]
)
def test_leaves_can_be_replaced_by_anything(function: Any) -> None:
    data = nested()
    result = pytree.tree_map(function, data)
    assert type(result) is TensorDict
    assert result.batch_size == (3,)
    assert dict(result._store)["a"] == function(data["a"])
    assert "a: " in repr(result)


@given(draw.trees(), draw.shapes(1, 3, min_size=1), st.data())
def test_the_result_of_any_index_on_the_leaves_is_consistent(tree: Any, batch_size: Any, data: st.DataObject) -> None:
    collection = tree.build(batch_size)
    size = data.draw(st.integers(0, 3))
    result = pytree.tree_map(lambda x: x[:size], collection)
    assert_consistent(result)
    if any(True for _ in collection.values(True, True)):
        assert result.batch_size[0] == min(size, batch_size[0])


# -- vmap -------------------------------------------------------------------------------------------------------------


def collection(batch_size: tuple[int, ...]) -> TensorDict:
    """Tensors at three levels, objects, an empty level; a name for each dimension."""
    values = lambda *rest: torch.rand((*batch_size, *rest))
    data = TensorDict(
        {
            "a": values(5),
            "b": {"c": values(), "inner": TensorDict({"d": values(2, 6)}, (*batch_size, 2))},
            "text": "text",
            "empty": {},
        },
        batch_size,
    )
    data.names = [f"dim{i}" for i in range(len(batch_size))]
    return data


def inside(seen: list[Any]) -> Any:
    """The identity, that notes what it is called with."""

    def function(data: TensorDict) -> TensorDict:
        assert_consistent(data)
        seen.append((tuple(data.batch_size), tuple(data.names)))
        for key in ("b", "empty"):
            assert data[key].batch_size == data.batch_size
        assert data.get("text").batch_size == data.batch_size
        assert data["b", "inner"].batch_size == (*data.batch_size, 2)
        assert data["a"].shape == (*data.batch_size, 5)
        return data

    return function


def without(sequence: Any, dim: int) -> tuple[Any, ...]:
    return (*sequence[:dim], *sequence[dim + 1 :])


@pytest.mark.parametrize("batch_size", [(3,), (3, 4), (3, 3), (3, 4, 2), (5, 5, 5)], ids=str)
def test_vmap_takes_a_dimension_away_inside_and_puts_one_in_outside(batch_size: tuple[int, ...]) -> None:
    data = collection(batch_size)
    names = [f"dim{i}" for i in range(len(batch_size))]
    for in_dim in range(len(batch_size)):
        for out_dim in range(len(batch_size)):
            seen: list[Any] = []
            with Unchanged(data):
                result = torch.vmap(inside(seen), in_dims=in_dim, out_dims=out_dim)(data)
            rest, rest_names = without(batch_size, in_dim), without(names, in_dim)
            assert seen == [(rest, rest_names)]
            assert result.batch_size == (*rest[:out_dim], batch_size[in_dim], *rest[out_dim:])
            assert result.names == [*rest_names[:out_dim], None, *rest_names[out_dim:]]
            assert_consistent(result)
            assert torch.equal(result["a"], data["a"].movedim(in_dim, out_dim))
            assert result.get("text").batch_size == result["empty"].batch_size == result.batch_size


def test_vmap_in_vmap() -> None:
    data = collection((2, 3, 4))
    numbers = torch.arange(24).reshape(2, 3, 4)
    for outer in range(3):
        for inner in range(2):
            for inner_out in range(2):
                for outer_out in range(3):
                    seen: list[Any] = []

                    def both(function: Any, outer=outer, inner=inner, inner_out=inner_out, outer_out=outer_out) -> Any:
                        function = torch.vmap(function, in_dims=inner, out_dims=inner_out)
                        return torch.vmap(function, in_dims=outer, out_dims=outer_out)

                    result = both(inside(seen))(data)
                    assert [size for size, _ in seen] == [without(without((2, 3, 4), outer), inner)]
                    assert result.batch_size == both(lambda x: x)(numbers).shape
                    assert_consistent(result)
                    assert torch.equal(result["b", "c"], both(lambda x: x)(data["b", "c"]))


def test_vmap_sees_the_results_of_operations_inside() -> None:
    data = collection((3, 4))
    sizes: list[Any] = []

    def function(x: TensorDict) -> Any:
        y = (x + 1).reshape(2, 2)
        mapped = pytree.tree_map(lambda leaf: leaf * 2, y)
        sizes.extend([tuple(y.batch_size), tuple(mapped.batch_size), tuple(mapped[0].batch_size)])
        return mapped, x["a"].sum(), mapped.sum(0)

    mapped, number, total = torch.vmap(function)(data)
    assert sizes == [(2, 2), (2, 2), (2,)]
    assert mapped.batch_size == (3, 2, 2)
    assert number.shape == (3,)
    assert total.batch_size == (3, 2)
    assert (mapped == ((data + 1).reshape(3, 2, 2) * 2)).exclude("text").all()


def test_a_function_over_the_leaves_inside_of_vmap_follows_the_rule_outside() -> None:
    data = collection((3, 4)).exclude("text", "empty")
    for function in (lambda x: x[None], lambda x: x[0], lambda x: x[:2], lambda x: x.sum()):
        result = torch.vmap(lambda x, f=function: pytree.tree_map(f, x))(data)
        alone = pytree.tree_map(function, data[0])
        assert result.batch_size == (3, *alone.batch_size)
        seen: list[Any] = []
        torch.vmap(lambda x, f=function, s=seen: (s.append(pytree.tree_map(f, data[0]).batch_size), x)[1])(data)
        assert seen == [alone.batch_size]


def test_vmap_over_dimensions_behind_the_batch_keeps_the_batch_size() -> None:
    data = TensorDict({"a": torch.rand(3, 4, 5), "b": torch.rand(3, 4)}, [3], names=["row"])
    seen: list[Any] = []
    result = torch.vmap(lambda x: (seen.append((x.batch_size, x.names)), x)[1], in_dims=1, out_dims=1)(data)
    assert seen == [((3,), ["row"])]
    assert result.batch_size == (3, 4)
    result = torch.vmap(lambda x: x, in_dims=1, out_dims=-1)(data)
    assert result.batch_size == (3,)
    assert result["a"].shape == (3, 5, 4)


@pytest.mark.parametrize("out_dim, expected", [(0, (3, 3)), (1, (3, 3)), (2, (3,)), (3, (3,)), (-1, (3,))])
def test_equal_sizes_do_not_hide_where_the_dimension_went(out_dim: int, expected: Any) -> None:
    data = TensorDict({"a": torch.rand(3, 3, 3, 3)}, [3, 3])
    assert torch.vmap(lambda x: x, out_dims=out_dim)(data).batch_size == expected


def test_a_dimension_counted_from_the_end_is_another_one_for_each_leaf() -> None:
    data = TensorDict({"a": torch.rand(3, 4, 5), "b": torch.rand(3, 5)}, [3], names=["row"])
    sizes: list[Any] = []
    result = torch.vmap(lambda x: (sizes.append((x.batch_size, x["a"].shape)), x)[1], in_dims=-1, out_dims=-1)(data)
    assert sizes == [((3,), (3, 4))]
    assert result.batch_size == (3,)
    data = TensorDict({"a": torch.rand(3, 4, 4), "b": torch.rand(3, 4)}, [3, 4])
    torch.vmap(lambda x: sizes.append((x.batch_size, x["a"].shape)) or x["a"], in_dims=-1)(data)
    assert sizes[1] == ((3,), (3, 4))


def test_vmap_with_arguments_that_are_not_mapped() -> None:
    data, other = collection((3, 4)), collection((4,)).exclude("text")
    seen: list[Any] = []

    def function(x: TensorDict, y: TensorDict, number: Tensor) -> TensorDict:
        seen.append((x.batch_size, y.batch_size))
        return x.exclude("text") * y * number

    result = torch.vmap(function, in_dims=(0, None, None))(data, other, torch.tensor(2.0))
    assert seen == [((4,), (4,))]
    assert result.batch_size == (3, 4)
    torch.testing.assert_close(result["a"], data["a"] * other["a"] * 2)


def test_vmap_over_several_collections_in_a_tree() -> None:
    first, second = collection((3, 4)), collection((4, 3))
    result = torch.vmap(lambda tree: {"sum": tree["x"] + tree["y"]}, in_dims=({"x": 0, "y": 1},))(
        {"x": first, "y": second}
    )
    assert result["sum"].batch_size == (3, 4)


def test_vmap_in_chunks() -> None:
    data = collection((5, 4))
    result = torch.vmap(lambda x: x + 1, chunk_size=2)(data)
    assert result.batch_size == (5, 4)
    assert_consistent(result)
    torch.testing.assert_close(result["a"], data["a"] + 1)


def test_a_structure_from_outside_of_vmap_is_filled_inside() -> None:
    data = collection((2, 3, 4))
    leaves, structure = pytree.tree_flatten(data)
    seen: list[Any] = []

    def function(values: list[Tensor]) -> Tensor:
        x = pytree.tree_unflatten(values, structure)
        assert_consistent(x)
        seen.append((tuple(x.batch_size), x.names))
        return x.sum(reduce=True)

    torch.vmap(function, in_dims=1)(leaves)
    torch.vmap(torch.vmap(function, in_dims=1))(leaves)
    assert seen == [((2, 4), ["dim0", "dim2"]), ((3,), ["dim1"])]


def test_objects_for_each_row_go_through_vmap() -> None:
    data = TensorDict({"x": torch.rand(3, 2), "labels": NonTensorStack("p", "q", "r")}, [3])
    sizes: list[Any] = []
    result = torch.vmap(lambda x: (sizes.append(x.get("labels").batch_size), x + 1)[1])(data)
    assert sizes == [()]
    assert result["labels"] == ["p", "q", "r"]


def test_a_record_is_mapped() -> None:
    record = Record(torch.arange(6.0).reshape(3, 2), "text", batch_size=[3, 2])
    result = torch.vmap(lambda r: r.replace(x=r.x * 2), in_dims=1)(record)
    assert type(result) is Record
    assert result.batch_size == (2, 3)
    assert torch.equal(result.x, record.x.T * 2)
    assert result.text == "text"


def test_a_collection_made_inside_of_vmap_is_batched_outside() -> None:
    make = lambda x: TensorDict({"a": x * 2, "b": {"c": torch.ones(4)}}, [4])
    result = torch.vmap(make)(torch.rand(3, 4))
    assert result.batch_size == result["b"].batch_size == result["b", "c"].shape == (3, 4)
    assert torch.vmap(lambda x: make(x)["b"])(torch.rand(3, 4)).batch_size == (3, 4)


def test_a_collection_shows_itself_inside_of_vmap() -> None:
    shown: list[str] = []
    torch.vmap(lambda x: (shown.append(repr(x)), x)[1])(collection((3, 4)))
    assert shown[0].startswith("TensorDict(batch_size=[4]")


def test_an_unmapped_dimension_out_of_range_is_the_error_of_torch() -> None:
    with pytest.raises(ValueError, match="in_dim"):
        torch.vmap(lambda x: x, in_dims=3)(collection((3, 4)))


# -- gradients --------------------------------------------------------------------------------------------------------


def loss(data: TensorDict) -> Tensor:
    return (data["a"] ** 2).sum() + (data["b", "c"] * 3).sum() + data["b", "inner", "d"].exp().sum()


def assert_gradient(result: TensorDict, data: TensorDict) -> None:
    assert result.batch_size == data.batch_size
    assert_consistent(result)
    torch.testing.assert_close(result["a"], data["a"] * 2)
    torch.testing.assert_close(result["b", "c"], torch.full_like(data["b", "c"], 3))
    torch.testing.assert_close(result["b", "inner", "d"], data["b", "inner", "d"].exp())


def test_grad_gives_a_collection_of_gradients() -> None:
    data = collection((3, 4))
    with Unchanged(data):
        result = torch.func.grad(loss)(data)
    assert result.names == data.names
    assert result["text"] == "text"
    assert_gradient(result, data)


def test_grad_and_value() -> None:
    data = collection((3,))
    gradient, value = torch.func.grad_and_value(loss)(data)
    torch.testing.assert_close(value, loss(data))
    assert_gradient(gradient, data)


def test_the_gradient_of_each_row() -> None:
    data = collection((3, 4))
    for in_dim in (0, 1):
        result = torch.vmap(torch.func.grad(loss), in_dims=in_dim, out_dims=in_dim)(data)
        assert_gradient(result, data)


def test_the_gradient_of_a_mapped_function() -> None:
    data = collection((3, 4))
    assert_gradient(torch.func.grad(lambda x: torch.vmap(loss)(x).sum())(data), data)


def test_jvp_and_vjp() -> None:
    data = collection((3,)).exclude("text")
    out, tangent = torch.func.jvp(lambda x: x * x, (data,), (data * 0 + 1,))
    torch.testing.assert_close(tangent["a"], data["a"] * 2)
    assert out.batch_size == tangent.batch_size == (3,)
    value, pull = torch.func.vjp(lambda x: x * x, data)
    (gradient,) = pull(data * 0 + 1)
    torch.testing.assert_close(gradient["b", "c"], data["b", "c"] * 2)
    assert value.batch_size == gradient.batch_size == (3,)


def test_the_jacobian_of_a_function_of_a_collection() -> None:
    data = TensorDict({"a": torch.rand(3), "b": torch.rand(3)}, [3])
    result = torch.func.jacrev(lambda x: x["a"] * x["b"])(data)
    torch.testing.assert_close(result["a"], torch.diag(data["b"]))
    assert result.batch_size == (3,)


def test_parameters_of_a_functional_call_can_be_stacked_and_mapped() -> None:
    modules = [torch.nn.Linear(2, 3) for _ in range(4)]
    params = torch.stack([TensorDict(dict(module.named_parameters())) for module in modules]).detach()
    x = torch.rand(5, 2)
    call = lambda p: torch.func.functional_call(modules[0], p.to_dict(), (x,))
    result = torch.vmap(call)(params)
    torch.testing.assert_close(result, torch.stack([module(x) for module in modules]).detach())


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_vmap_with_randomness(randomness: str) -> None:
    data = TensorDict({"a": torch.zeros(4, 3)}, [4])
    result = torch.vmap(lambda x: x + torch.rand(3), randomness=randomness)(
        TensorDict({"a": torch.zeros(4, 3)}, [4, 3])
    )
    assert result.batch_size == (4, 3)
    same = (result["a"] == result["a"][0]).all()
    assert bool(same) is (randomness == "same")
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(lambda x: x.apply(lambda y: y + torch.rand(3)))(data)


def test_jacobians_and_hessians_follow_the_leaves() -> None:
    data = TensorDict({"a": torch.rand(3), "b": {"c": torch.rand(3)}}, [3])
    function = lambda x: x["a"] ** 2 * x["b", "c"]
    wanted = torch.func.jacrev(lambda a: a**2 * data["b", "c"])(data["a"])
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        result = jacobian(function)(data)
        torch.testing.assert_close(result["a"], wanted)
        assert result.batch_size == (3,)
    hessian = torch.func.hessian(lambda x: function(x).sum())(data)
    wanted = torch.func.hessian(lambda a: (a**2 * data["b", "c"]).sum())(data["a"])
    torch.testing.assert_close(hessian["a"]["a"], wanted)


def test_a_function_that_gives_a_collection_has_a_jacobian_for_each_value() -> None:
    x = torch.rand(3)
    result = torch.func.jacrev(lambda x: TensorDict({"square": x**2, "double": x * 2}, [3]))(x)
    torch.testing.assert_close(result["square"], torch.diag(2 * x))
    torch.testing.assert_close(result["double"], torch.eye(3) * 2)


def test_value_and_grad_with_an_auxiliary_collection() -> None:
    data = collection((3,))
    gradient, (value, aux) = torch.func.grad_and_value(lambda x: (loss(x), x * 2), has_aux=True)(data)
    assert_gradient(gradient, data)
    torch.testing.assert_close(value, loss(data))
    assert_equal(aux, data * 2)


def module() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def parameters(model: torch.nn.Module) -> TensorDict:
    return TensorDict(dict(model.named_parameters())).detach().unflatten_keys(".")


def test_gradients_of_each_sample_in_one_call() -> None:
    model, x, y = module(), torch.rand(5, 2), torch.rand(5, 1)

    def sample_loss(params: TensorDict, x: Tensor, y: Tensor) -> Tensor:
        out = torch.func.functional_call(model, dict(params.flatten_keys(".").items()), (x,))
        return torch.nn.functional.mse_loss(out, y)

    params = parameters(model)
    gradients = torch.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))(params, x, y)
    assert gradients.batch_size == gradients["0"].batch_size == (5,)
    for i in range(5):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(x[i]), y[i]).backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients.flatten_keys(".")[name][i], parameter.grad)


def test_an_ensemble_is_a_stack_of_parameters() -> None:
    models = [module() for _ in range(3)]
    params = torch.stack([parameters(model) for model in models])
    x = torch.rand(3, 5, 2)

    def call(params: TensorDict, x: Tensor) -> Tensor:
        return torch.func.functional_call(models[0], dict(params.flatten_keys(".").items()), (x,))

    result = torch.vmap(call)(params, x)
    torch.testing.assert_close(result, torch.stack([model(part) for model, part in zip(models, x, strict=True)]))
    one_input = torch.vmap(call, in_dims=(0, None))(params, x[0])
    torch.testing.assert_close(one_input, torch.stack([model(x[0]) for model in models]))
    step = params - torch.vmap(torch.func.grad(lambda p, x: call(p, x).sum()))(params, x) * 0.1
    assert step.batch_size == (3,)
