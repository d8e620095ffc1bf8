"""Every operation of the table does to each tensor of a collection what torch does to a tensor.

The tests take the operations from the table: a new line in it is tested without a new line here.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorDict
from tests.checks import assert_equal, outcome
from tests.operations import POINTWISE as NAMES
from tests.samples import Unchanged, mixed, nested

BATCH = (2, 3)
DTYPES = (torch.float32, torch.int64, torch.bool)


def count_operands(name: str) -> int:
    """How many operands an operation needs beside the collection."""
    parameters = list(inspect.signature(getattr(TensorDict, name)).parameters.values())[1:]
    return sum(p.default is p.empty for p in parameters)


UNARY = [name for name in NAMES if count_operands(name) == 0]
BINARY = [name for name in NAMES if count_operands(name) == 1]
TERNARY = [name for name in NAMES if count_operands(name) == 2]


def in_place(name: str) -> bool:
    return name.endswith("_")


def on_tensor(name: str, value: Tensor, *operands: Any) -> Tensor:
    """What torch makes of one tensor, which stays as it is."""
    if name.rstrip("_") in ("maximum", "minimum") and (in_place(name) or not isinstance(operands[0], Tensor)):
        name = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")  # what torch has for these
    function = getattr(Tensor, name, None) or getattr(torch, name.rstrip("_"))
    result: Tensor = function(value.clone(), *operands)
    return result


def numbers(shape: tuple[int, ...], dtype: torch.dtype, start: float = 0.1) -> Tensor:
    """Numbers on which every function of the table is defined."""
    values = torch.linspace(start, start + 0.8, torch.Size(shape).numel()).reshape(shape)
    return values.to(dtype) if dtype.is_floating_point else (values * 10).round().to(torch.int64).to(dtype)


def collection(dtype: torch.dtype = torch.float32, start: float = 0.1) -> TensorDict:
    """Tensors at three levels, behind the batch as many dimensions as the level; objects and empty levels between."""
    inner = TensorDict({"z": numbers((*BATCH, 4, 5), dtype, start)}, (*BATCH, 4))
    return TensorDict(
        {
            "x": numbers(BATCH, dtype, start),
            "text": "text",
            "nest": {"y": numbers((*BATCH, 4), dtype, start), "inner": inner, "empty": {}},
            "labels": NonTensorStack.from_list([["a", "b", "c"], ["d", "e", "f"]]),
        },
        BATCH,
        names=["row", None],
    )


def aligned(operand: Any, leaf: Tensor, batch_dims: int) -> Any:
    """A tensor over the batch as it meets a leaf."""
    if not isinstance(operand, Tensor) or operand.ndim == 0:
        return operand
    return operand.reshape(*operand.shape, *[1] * (leaf.ndim - batch_dims))


def expected(name: str, data: TensorDict, *operands: Any) -> Any:
    """The outcome of an operation by hand: the result, or the first error."""
    leaves: list[Tensor] = []
    for key, leaf in data.items(True, True):
        own = [o.get(key) if isinstance(o, TensorDict) else aligned(o, leaf, data.batch_dims) for o in operands]
        result = outcome(lambda leaf=leaf, own=own: on_tensor(name, leaf, *own))
        if isinstance(result, Exception):
            return result
        leaves.append(result)
    new: Iterator[Tensor] = iter(leaves)
    return rebuilt(data, new)


def rebuilt(data: TensorDict, leaves: Iterator[Tensor]) -> TensorDict:
    """The same tree on other tensors."""
    result = data.empty()
    for key, value in data.items():
        if isinstance(value, TensorDict):
            result[key] = rebuilt(value, leaves)
        else:
            result[key] = next(leaves) if isinstance(value, Tensor) else value
    return result


def assert_close(result: TensorDict, wanted: TensorDict) -> None:
    """The same keys, objects and metadata, and the same numbers (NaN included)."""
    assert list(result.keys(True)) == list(wanted.keys(True))
    assert (result.batch_size, result.names, result.device) == (wanted.batch_size, wanted.names, wanted.device)
    for key, value in wanted.items(True):
        if isinstance(value, Tensor):
            torch.testing.assert_close(result[key], value, equal_nan=True, msg=lambda text, key=key: f"{key}: {text}")
        elif isinstance(value, TensorDict):
            assert result[key].batch_size == value.batch_size
        elif isinstance(result.get(key), Tensor):  # a comparison of objects, which is tested by itself
            assert result[key].dtype == torch.bool
        else:
            assert result[key] == wanted[key]


def assert_operates(name: str, data: TensorDict, *operands: Any) -> bool:
    """The operation does as torch does, results and errors; whether there was a result."""
    wanted = expected(name, data, *operands)
    tensors = list(data.values(True, True))
    before = data.clone()
    result = outcome(lambda: getattr(data, name)(*operands))
    if isinstance(wanted, Exception):
        assert isinstance(result, Exception), result
        return False
    assert not isinstance(result, Exception), result
    assert_close(result, wanted)
    if in_place(name):
        assert result is data
        assert all(a is b for a, b in zip(data.values(True, True), tensors, strict=True))
    else:
        assert_equal(data, before)
        assert not {id(leaf) for leaf in result.values(True, True)} & {id(leaf) for leaf in tensors}
    return True


# -- the table --------------------------------------------------------------------------------------------------------


def test_the_table_has_operations_of_each_kind() -> None:
    assert min(len(UNARY), len(BINARY), len(TERNARY)) > 5
    assert len(UNARY) + len(BINARY) + len(TERNARY) == len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tensor(name: str) -> None:
    done = [assert_operates(name, collection(dtype)) for dtype in DTYPES]
    assert any(done)


def operands_for(kind: str, dtype: torch.dtype, start: float) -> Any:
    """A second operand of a dtype."""
    if kind == "collection":
        return collection(dtype, start)
    if kind == "number":
        return {torch.float32: start, torch.int64: int(start * 10), torch.bool: True}[dtype]
    if kind == "tensor without dimensions":
        return numbers((1,), dtype, start)[0]
    return numbers({"tensor over the batch": BATCH, "row": (3,), "column": (2, 1), "one": (1,)}[kind], dtype, start)


KINDS = ("collection", "number", "tensor without dimensions", "tensor over the batch", "row", "column", "one")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_operands(name: str, kind: str) -> None:
    done = [assert_operates(name, collection(dtype), operands_for(kind, dtype, 0.3)) for dtype in DTYPES]
    # torch has no logic between a tensor and a number
    assert any(done) or (kind == "number" and name.startswith("logical"))


@pytest.mark.parametrize("kind", ["number", "collection", "tensor over the batch"])
@pytest.mark.parametrize("name", BINARY)
def test_the_dtypes_of_two_operands_meet_as_in_torch(name: str, kind: str) -> None:
    for dtype, other in ((torch.int64, torch.float32), (torch.float32, torch.int64), (torch.bool, torch.int64)):
        assert_operates(name, collection(dtype), operands_for(kind, other, 0.3))


@pytest.mark.parametrize("name", BINARY)
def test_a_tensor_without_dimensions_meets_the_dtypes_of_all_levels_as_in_torch(name: str) -> None:
    for dtype, other in ((torch.float32, torch.float64), (torch.float16, torch.float64), (torch.int64, torch.float64)):
        assert_operates(name, collection(dtype), torch.tensor(0.5, dtype=other))


@pytest.mark.parametrize("kind", ["collection", "tensor without dimensions", "tensor over the batch", "row"])
@pytest.mark.parametrize("name", TERNARY)
def test_a_function_of_three_operands(name: str, kind: str) -> None:
    first, second = (operands_for(kind, torch.float32, start) for start in (0.3, 0.5))
    assert assert_operates(name, collection(), first, second)
    assert assert_operates(name, collection(), operands_for("collection", torch.float32, 0.3), second)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_collection_stays_empty(name: str) -> None:
    data = TensorDict({"text": "t", "nest": {}}, [3], names=["row"])
    result = getattr(data, name)(*[data] * count_operands(name))
    assert_equal(result.exclude("text"), data.exclude("text"))
    if name not in ("eq", "ne"):
        assert result["text"] == "t"
    none = TensorDict({}, [3], names=["row"])
    assert_equal(getattr(none, name)(*[none] * count_operands(name)), none)


@pytest.mark.parametrize("name", NAMES)
def test_the_class_of_a_record_is_kept(name: str) -> None:
    class Record(TensorClass):
        x: Tensor
        text: str = "t"

    for dtype in DTYPES:
        record = Record(numbers((3,), dtype), batch_size=[3])
        result = outcome(lambda record=record: getattr(record, name)(*[record] * count_operands(name)))
        if not isinstance(result, Exception):
            assert type(result) is Record
            return
    pytest.fail("no dtype worked")


@pytest.mark.parametrize("name", BINARY + TERNARY)
def test_two_collections_need_the_same_keys(name: str) -> None:
    data = collection(torch.int64 if "bitwise" in name else torch.float32)
    fits = [data.clone() for _ in range(count_operands(name) - 1)]
    others = {
        "lacks": data.exclude("x"),
        "lacks nested": data.exclude(("nest", "y")),
        "more": data.copy().set("z", data["x"]),
        "other": data.exclude("x").set("z", data["x"]),
    }
    for other in others.values():
        with Unchanged(data), pytest.raises(KeyError, match="differ in their keys"):
            getattr(data, name)(other, *fits)


@pytest.mark.parametrize("name", ["add", "add_", "sub", "mul_", "div", "pow", "maximum", "clamp_min_"])
def test_a_tensor_does_not_meet_a_collection_or_an_object_under_its_key(name: str) -> None:
    data = TensorDict({"x": torch.ones(BATCH), "y": torch.ones(BATCH)}, BATCH)
    for other in (data.replace(y={"z": torch.ones(BATCH)}), data.replace(y="text")):
        with Unchanged(data), pytest.raises(TypeError, match="has a tensor where the other has a"):
            getattr(data, name)(other)


@pytest.mark.parametrize("shape", [(2,), (4,), (2, 3, 4), (3, 2)], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_a_tensor_that_is_not_over_the_batch_is_refused(name: str, shape: tuple[int, ...]) -> None:
    data = collection()
    with Unchanged(data), pytest.raises(RuntimeError, match=r"broadcasts to \[2, 3\], got"):
        getattr(data, name)(torch.ones(shape))


@pytest.mark.parametrize("other", ["text", None, [1, 2, 3], object()], ids=["str", "None", "list", "object"])
@pytest.mark.parametrize("name", BINARY)
def test_what_is_no_operand_is_a_type_error(name: str, other: Any) -> None:
    data = collection()
    with Unchanged(data), pytest.raises(TypeError, match="expected a collection, a tensor or a number"):
        getattr(data, name)(other)


@pytest.mark.parametrize("name", [name for name in BINARY if not in_place(name)])
def test_a_mapping_stands_for_a_collection(name: str) -> None:
    for dtype in DTYPES:
        data = collection(dtype).select("x", ("nest", "y"))
        other = {"x": numbers(BATCH, dtype, 0.3), "nest": {"y": numbers((*BATCH, 4), dtype, 0.3)}}
        wanted = outcome(lambda data=data, other=other: getattr(data, name)(TensorDict(other, BATCH)))
        if not isinstance(wanted, Exception):
            assert_close(getattr(data, name)(other), wanted)
            return
    pytest.fail("no dtype worked")


# -- keys that one side lacks -----------------------------------------------------------------------------------------

WITH_DEFAULT = [name for name in NAMES if "default" in inspect.signature(getattr(TensorDict, name)).parameters]


def with_other_keys() -> tuple[TensorDict, TensorDict]:
    """Two collections with one key in common at each level."""
    first = TensorDict({"x": numbers((3,), torch.float32), "only": numbers((3, 2), torch.float32), "t": "text"}, [3])
    second = TensorDict({"x": numbers((3,), torch.float32, 0.3), "other": numbers((3,), torch.float32, 0.3)}, [3])
    first["nest"], second["nest"] = first.select("x", "only"), second.select("x", "other")
    return first, second


def test_the_functions_of_two_operands_that_are_not_in_place_take_a_default() -> None:
    assert set(WITH_DEFAULT) == {name for name in BINARY if not in_place(name)}


@pytest.mark.parametrize("default", [0.5, torch.tensor(0.5)], ids=["number", "tensor"])
@pytest.mark.parametrize("name", WITH_DEFAULT)
def test_a_default_stands_for_a_missing_key(name: str, default: Any) -> None:
    first, second = with_other_keys()
    half = lambda leaf: torch.full_like(leaf, 0.5)
    left = first.copy().update({"other": half(second["other"]), "nest": {"other": half(second["nest", "other"])}})
    right = second.copy().update({"only": half(first["only"]), "nest": {"only": half(first["nest", "only"])}})
    wanted = outcome(lambda: getattr(left.exclude("t"), name)(right))
    result = outcome(lambda: getattr(first, name)(second, default=default))
    if isinstance(wanted, Exception):  # bitwise functions, on floats
        assert isinstance(result, type(wanted))
        return
    assert result["t"] == "text"
    assert set(result.keys(True, True)) == set(wanted.keys(True, True))
    for key, leaf in wanted.items(True, True):
        torch.testing.assert_close(result[key], leaf)


@pytest.mark.parametrize("name", WITH_DEFAULT)
def test_intersection_drops_the_keys_that_one_side_lacks(name: str) -> None:
    for convert in (lambda d: d, lambda d: (d.exclude("t") * 10).to(torch.int64)):
        first, second = map(convert, with_other_keys())
        wanted = outcome(
            lambda a=first, b=second: getattr(a.select("x", ("nest", "x")), name)(b.select("x", ("nest", "x")))
        )
        if not isinstance(wanted, Exception):
            result = getattr(first, name)(second, default="intersection").exclude("t")
            assert_close(result, wanted)
            return
    pytest.fail("no dtype worked")


def test_a_default_stands_for_a_whole_level() -> None:
    first, second = with_other_keys()
    second["level"] = {"z": second["x"], "deeper": {"w": second["x"]}, "text": "t"}
    result = first.exclude("t").sub(second, default=1.0)
    torch.testing.assert_close(result["level", "z"], 1 - second["x"])
    torch.testing.assert_close(result["level", "deeper", "w"], 1 - second["x"])
    assert result["level", "text"] == "t"
    result = second.sub(first.exclude("t"), default=1.0)
    torch.testing.assert_close(result["level", "deeper", "w"], second["x"] - 1)
    assert "level" not in first.exclude("t").sub(second, default="intersection")


def test_a_default_over_the_batch_is_aligned_with_it() -> None:
    first, default = with_other_keys()[0].select("x", "only"), torch.tensor([1.0, 2.0, 3.0])
    result = first.sub(first.select("x"), default=default)
    torch.testing.assert_close(result["only"], first["only"] - default[:, None])
    result = first.select("x").sub(first, default=default)
    torch.testing.assert_close(result["only"], default[:, None] - first["only"])


def test_a_default_takes_part_in_type_promotion_as_a_number_does() -> None:
    data = TensorDict({"n": torch.arange(3)}, [3])
    assert data.add(TensorDict({}, [3]), default=0.5)["n"].tolist() == [0.5, 1.5, 2.5]
    assert TensorDict({}, [3]).add(data, default=0.5)["n"].tolist() == [0.5, 1.5, 2.5]


def test_another_default_in_words_is_refused() -> None:
    first, second = with_other_keys()
    with pytest.raises(ValueError, match="intersection"):
        first.add(second, default="union")


# -- alpha, value, clamp, masked_fill ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "add_", "sub", "sub_", "rsub"])
@pytest.mark.parametrize("kind", KINDS)
def test_alpha_is_a_factor_of_the_other_operand(name: str, kind: str) -> None:
    data, other = collection(), operands_for(kind, torch.float32, 0.3)
    for key, leaf in data.clone().items(True, True):
        own = other.get(key) if isinstance(other, TensorDict) else aligned(other, leaf, 2)
        function = torch.rsub if name == "rsub" else getattr(torch, name.rstrip("_"))
        wanted = function(leaf, own, alpha=3)
        torch.testing.assert_close(getattr(data.clone(), name)(other, alpha=3)[key], wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_rsub_subtracts_the_collection(kind: str) -> None:
    data, other = collection(), operands_for(kind, torch.float32, 0.3)
    assert_close(data.rsub(other), data.neg().add(other))


@pytest.mark.parametrize("name", ["addcmul", "addcmul_", "addcdiv", "addcdiv_"])
def test_value_is_a_factor_of_the_product(name: str) -> None:
    data, first, second = collection(), collection(start=0.3), collection(start=0.5)
    wanted = {k: getattr(torch, name.rstrip("_"))(v, first[k], second[k], value=3) for k, v in data.items(True, True)}
    result = getattr(data.clone(), name)(first, second, value=3)
    for key, leaf in wanted.items():
        torch.testing.assert_close(result[key], leaf)
    assert_close(getattr(data.clone(), name)(first, second, value=None), getattr(data.clone(), name)(first, second))


@pytest.mark.parametrize("name", ["lerp", "lerp_"])
def test_a_number_can_be_the_weight(name: str) -> None:
    assert assert_operates(name, collection(), collection(start=0.3), 0.25)


def test_mod_is_remainder() -> None:
    for other in (0.3, collection(start=0.3), numbers(BATCH, torch.float32)):
        assert_close(collection().mod(other), collection().remainder(other))


@pytest.mark.parametrize(
    "bounds",
    [{"min": 0.4}, {"max": 0.4}, {"min": 0.3, "max": 0.6}, {"min": 0.6, "max": 0.3}],
    ids=str,
)
def test_clamp_limits_each_tensor(bounds: dict[str, float]) -> None:
    data = collection()
    with Unchanged(data):
        result = data.clamp(**bounds)
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], leaf.clamp(**bounds))


def test_clamp_takes_collections_and_tensors_over_the_batch() -> None:
    data, low, high = collection(), collection(start=0.0) + 0.3, numbers(BATCH, torch.float32, 0.2)
    result = data.clamp(low, high)
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], leaf.clamp(low[key], aligned(high, leaf, 2)))


def test_clamp_writes_to_out() -> None:
    data, out = nested(), nested()
    tensors = list(out.values(True, True))
    assert data.clamp(0.3, 0.6, out=out) is out
    assert all(a is b for a, b in zip(out.values(True, True), tensors, strict=True))
    assert_close(out, data.clamp(0.3, 0.6))


def test_clamp_needs_a_bound() -> None:
    with pytest.raises(RuntimeError, match="min, max or both"):
        collection().clamp()


@pytest.mark.parametrize(
    "mask", [torch.tensor([True, False]), torch.tensor([[True, False, True]] * 2)], ids=["(2,)", "(2, 3)"]
)
def test_masked_fill_writes_where_the_mask_is_true(mask: Tensor) -> None:
    data = collection()
    with Unchanged(data):
        result = data.masked_fill(mask, 7)
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], leaf.masked_fill(mask.reshape(*mask.shape, *[1] * (leaf.ndim - mask.ndim)), 7))
    tensors = list(data.values(True, True))
    assert data.masked_fill_(mask, 7) is data
    assert all(a is b for a, b in zip(data.values(True, True), tensors, strict=True))
    assert_close(data, result)


# -- operators --------------------------------------------------------------------------------------------------------

Operator = Callable[[Any, Any], Any]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv, operator.mod]
COMPARISON = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
LOGIC = [operator.and_, operator.or_, operator.xor]
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow, operator.ifloordiv, operator.imod,
    operator.iand, operator.ior, operator.ixor,
]  # fmt: skip


def dtype_for(op: Operator) -> torch.dtype:
    return torch.int64 if op.__name__.lstrip("i").rstrip("_") in ("and", "or", "xor", "nd") else torch.float32


def per_leaf(op: Operator, data: TensorDict, other: Any, swapped: bool = False) -> dict[Any, Tensor]:
    result = {}
    for key, leaf in data.items(True, True):
        own = other[key] if isinstance(other, TensorDict) else aligned(other, leaf, data.batch_dims)
        result[key] = op(own, leaf) if swapped else op(leaf, own)
    return result


def assert_leaves(result: TensorDict, leaves: dict[Any, Tensor], data: TensorDict) -> None:
    assert type(result) is type(data)
    assert (result.batch_size, result.names) == (data.batch_size, data.names)
    for key, leaf in leaves.items():
        torch.testing.assert_close(result[key], leaf)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ARITHMETIC + COMPARISON + LOGIC, ids=lambda op: op.__name__)
def test_an_operator_with_the_collection_on_the_left_and_on_the_right(op: Operator, kind: str) -> None:
    data, other = collection(dtype_for(op)), operands_for(kind, dtype_for(op), 0.3)
    for swapped in (False, True) if kind != "collection" else (False,):
        with Unchanged(data):
            result = op(other, data) if swapped else op(data, other)
        assert_leaves(result, per_leaf(op, data, other, swapped=swapped), data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_an_operator_with_assignment_gives_the_same_numbers(op: Operator, kind: str) -> None:
    dtype = torch.int64 if op in (operator.iand, operator.ior, operator.ixor) else torch.float32
    data, other = collection(dtype), operands_for(kind, dtype, 0.3)
    wanted = {key: op(leaf.clone(), other[key] if isinstance(other, TensorDict) else aligned(other, leaf, 2))
              for key, leaf in data.items(True, True)}  # fmt: skip
    assert_leaves(op(data, other), wanted, data)


@pytest.mark.parametrize("op", IN_PLACE[:5], ids=lambda op: op.__name__)
def test_arithmetic_with_assignment_writes_into_the_tensors(op: Operator) -> None:
    data = collection()
    tensors = list(data.values(True, True))
    assert op(data, 2) is data
    assert all(a is b for a, b in zip(data.values(True, True), tensors, strict=True))


@pytest.mark.parametrize("op", [operator.neg, operator.abs, operator.pos, operator.invert], ids=lambda op: op.__name__)
def test_an_operator_of_one_operand(op: Callable[[Any], Any]) -> None:
    data = collection(torch.int64 if op is operator.invert else torch.float32)
    result = op(data)
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], op(leaf))


@pytest.mark.parametrize("op", ARITHMETIC + LOGIC + COMPARISON[2:] + IN_PLACE, ids=lambda op: op.__name__)
@pytest.mark.parametrize("other", ["text", None, [1], object()], ids=["str", "None", "list", "object"])
def test_an_operator_with_what_is_no_operand_is_a_type_error(op: Operator, other: Any) -> None:
    with pytest.raises(TypeError):
        op(collection(), other)
    if not isinstance(other, (str, list)):  # these have a meaning of their own for % and +=
        with pytest.raises(TypeError):
            op(other, collection())


def test_an_operator_lets_the_other_side_answer() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "radd"

        def __eq__(self, left: object) -> Any:
            return "eq"

        __hash__ = None  # type: ignore[assignment]

    assert collection() + Other() == "radd"
    assert (collection() == Other()) == "eq"


def test_equality_with_what_cannot_be_compared_is_false() -> None:
    for other in ("text", None, object()):
        assert (collection() == other) is False
        assert (collection() != other) is True


def test_equality_compares_objects_position_by_position() -> None:
    data, other = mixed(), mixed().set("labels", ["p", "z", "r"])
    equal, unequal = data == other, data != other
    assert equal["labels"].tolist() == [True, False, True]
    assert unequal["labels"].tolist() == [False, True, False]
    assert equal["text"].tolist() == [True, True, True]
    assert not equal.all()
    assert unequal.any()
    assert (data == mixed()).all()


def test_a_collection_has_no_truth_value() -> None:
    for data in (TensorDict(), TensorDict({"a": True}), collection() == collection()):
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(data)


def test_a_collection_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(collection())


# -- objects, devices, dtypes of a tree -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("eq", "ne")])
def test_objects_are_kept(name: str) -> None:
    for dtype in DTYPES:
        data = collection(dtype)
        result = outcome(lambda data=data: getattr(data, name)(*[data.clone()] * count_operands(name)))
        if not isinstance(result, Exception):
            assert result["text"] == "text"
            assert result["labels"] == [["a", "b", "c"], ["d", "e", "f"]]
            return
    pytest.fail("no dtype worked")


@pytest.mark.parametrize("name", NAMES)
def test_tensors_without_memory_are_operated_on_without_memory(name: str) -> None:
    for dtype in DTYPES:
        real, data = collection(dtype), collection(dtype).to("meta")
        wanted = outcome(lambda real=real: getattr(real, name)(*[real.clone()] * count_operands(name)))
        if not isinstance(wanted, Exception):
            result = getattr(data, name)(*[data.clone()] * count_operands(name))
            assert result.device == torch.device("meta")
            for key, leaf in wanted.items(True, True):
                if not data.is_non_tensor(key):
                    assert (result[key].shape, result[key].dtype) == (leaf.shape, leaf.dtype)
                    assert result[key].is_meta
            return
    pytest.fail("no dtype worked")


# -- autograd ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_gradients_flow_as_through_torch(name: str) -> None:
    data = collection().select("x", ("nest", "y")).requires_grad_()
    others = [collection(start=start).select("x", ("nest", "y")) for start in (0.3, 0.5)][: count_operands(name)]
    result = outcome(lambda: getattr(data * 1, name)(*others))
    for key, leaf in data.items(True, True):
        own = leaf.detach().clone().requires_grad_()
        wanted = outcome(lambda key=key, own=own: on_tensor(name, own * 1, *[other[key] for other in others]))
        if isinstance(wanted, Exception):
            assert isinstance(result, Exception)
            continue
        assert result[key].requires_grad == wanted.requires_grad
        if wanted.requires_grad:
            right = outcome(lambda wanted=wanted, own=own: torch.autograd.grad(wanted.sum(), own))
            found = outcome(lambda key=key, leaf=leaf: torch.autograd.grad(result[key].sum(), leaf, retain_graph=True))
            if isinstance(right, Exception):
                assert str(found) == str(right)
            else:
                torch.testing.assert_close(found, right, equal_nan=True)


def test_in_place_operations_refuse_leaves_of_the_graph_as_torch_does() -> None:
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        nested(requires_grad=True).add_(1)


# -- tensors for which torch has no foreach kernel --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_inside_vmap_an_operation_does_the_same(name: str) -> None:
    count = count_operands(name)
    for dtype in DTYPES:
        data = collection(dtype).select("x", ("nest", "y"))
        others = [collection(dtype, start).select("x", ("nest", "y")) for start in (0.3, 0.5)][:count]
        wanted = expected(name, data, *others)
        if isinstance(wanted, Exception):
            continue
        result = torch.vmap(lambda d, *o: getattr(d.clone(), name)(*o))(data, *others)
        for key, leaf in wanted.items(True, True):
            torch.testing.assert_close(result[key], leaf, equal_nan=True)
        assert result.batch_size == data.batch_size
        return
    pytest.fail("no dtype worked")


@pytest.mark.parametrize(
    "op", [op for op in ARITHMETIC + COMPARISON if op is not operator.mod], ids=lambda op: op.__name__
)
def test_inside_vmap_of_a_function_on_tensors_an_operator_does_the_same(op: Operator) -> None:
    x, y = numbers((4, 3), torch.float32), numbers((4, 3), torch.float32, 0.3)
    result = torch.vmap(lambda a, b: op(TensorDict({"v": a}, [3]), b)["v"])(x, y)
    torch.testing.assert_close(result, op(x, y))


def jagged(start: float = 0.1) -> Tensor:
    rows = [numbers((n,), torch.float32, start) for n in (2, 3)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_jagged_tensors_are_operated_on_as_far_as_torch_can(name: str) -> None:
    values = jagged()
    for operands in [()] if name in UNARY else [(0.5,), (values * 2,)]:
        data = TensorDict({"v": values.clone(), "w": values.clone()}, [2])
        wanted = outcome(lambda operands=operands: on_tensor(name, values, *operands))
        others = [TensorDict({"v": o, "w": o}, [2]) if isinstance(o, Tensor) else o for o in operands]
        result = outcome(lambda data=data, others=others: getattr(data, name)(*others))
        if isinstance(wanted, Exception):
            continue
        assert not isinstance(result, Exception), result
        for key in ("v", "w"):
            assert result[key].is_nested
            torch.testing.assert_close(result[key].values(), wanted.values(), equal_nan=True)


def test_jagged_tensors_beside_others_are_operated_on_together() -> None:
    data = TensorDict({"v": jagged(), "x": torch.ones(2, 4), "nest": {"w": jagged()}}, [2])
    result = ((data + 1) * data).exp()
    torch.testing.assert_close(result["nest", "w"].values(), ((data["v"] + 1) * data["v"]).exp().values())
    assert torch.equal(result["x"], ((data["x"] + 1) * data["x"]).exp())
    data.add_(1)
    assert torch.equal(data["x"], torch.full((2, 4), 2.0))


@pytest.mark.parametrize("other", [{}, {"x": torch.ones(2)}, "text"], ids=["empty collection", "collection", "object"])
@pytest.mark.parametrize("operation", [operator.mul, operator.sub, operator.imul, TensorDict.maximum, TensorDict.pow])
def test_a_tensor_does_not_meet_what_is_no_tensor(operation: Callable[[Any, Any], Any], other: Any) -> None:
    left, right = TensorDict({"v": torch.ones(2)}, [2]), TensorDict({"v": other}, [2])
    with pytest.raises(TypeError, match="has a tensor where the other has a"):
        operation(left, right)


def test_integers_stand_beside_tensors_that_require_gradients() -> None:
    weight = torch.ones(2, requires_grad=True)
    data = TensorDict({"weight": weight, "nested": {"steps": torch.tensor([1, 2])}})
    result = (data * 2 + data).neg()
    assert result["nested", "steps"].tolist() == [-3, -6]
    result["weight"].sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [-3, -3]
