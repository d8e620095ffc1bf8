"""Values are looked at wherever they enter a record, and a record that refuses one stays as it was."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Callable
from typing import Annotated, Any

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor

import tensorclass as tc
from tensorclass import BatchMismatch, ContractError, Device, DType, Range, Shape, TensorClass, TensorDict, tensorclass
from tensorclass.support.help_links import help_link
from tests.contracts.samples import Level, Pair, Plain, Sample, sample

WRONG_LABEL = torch.zeros(8)  # floats
WRONG_MASK = torch.zeros(8, 4, 9, dtype=torch.bool)  # the width of the image is 5


def values(**changes: Any) -> dict[str, Any]:
    return {**dict(sample(8).items()), **changes}


# -- construction -----------------------------------------------------------------------------------------------------


class Made(TensorClass):
    """Has a constructor of its own."""

    image: Float[Tensor, "3 h w"]
    label: Int[Tensor, ""]

    def __init__(self, image: Tensor, label: Tensor) -> None:
        super().__init__(image, label)


@tensorclass
class Decorated:
    image: Float[Tensor, "3 h w"]
    mask: Annotated[Tensor, Shape("h w"), DType("bool")]
    label: Int[Tensor, ""]


class Derived(Sample):
    other: Float[Tensor, "w"] | None = None


CONSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "constructor": lambda **fields: Sample(**fields, batch_size=[8]),
    "constructor, batch size inferred": lambda **fields: Sample(**fields),
    "subclass": lambda **fields: Derived(**fields, batch_size=[8]),
    "decorated": lambda **fields: Decorated(**fields, batch_size=[8]),
    "positional": lambda **fields: Sample(fields["image"], fields["mask"], fields["label"], batch_size=[8]),
    "from_dict": lambda **fields: Sample.from_dict(fields, batch_size=[8]),
    "from_dict, batch size found": lambda **fields: Sample.from_dict(fields, auto_batch_size=True),
    "from_tensordict": lambda **fields: Sample.from_tensordict(TensorDict(fields, [8])),
    "from_namedtuple": lambda **fields: Sample.from_namedtuple(TensorDict(fields, [8]).to_namedtuple(), batch_size=[8]),
    "from_store": lambda **fields: Sample.from_store(fields, [8]),
    "from_any": lambda **fields: Sample.from_any(fields, batch_size=[8]),
    "dataclasses.replace": lambda **fields: dataclasses.replace(sample(8), **fields),
    "replace": lambda **fields: sample(8).replace(**fields),
}


@pytest.mark.parametrize("how", CONSTRUCTIONS)
def test_a_record_of_values_that_fit_is_made(how: str) -> None:
    record = CONSTRUCTIONS[how](**values())
    assert (record.batch_size, record.label.dtype) == ((8,), torch.int64)


@pytest.mark.parametrize("how", CONSTRUCTIONS)
def test_no_record_is_made_of_values_that_do_not_fit_and_all_of_them_are_listed(how: str) -> None:
    with pytest.raises(ContractError) as raised:
        CONSTRUCTIONS[how](**values(mask=WRONG_MASK, label=WRONG_LABEL))
    assert [problem.path for problem in raised.value.broken] == [("mask",), ("label",)]


def test_a_constructor_of_ones_own_checks_what_it_hands_on() -> None:
    assert Made(torch.zeros(8, 3, 4, 5), torch.zeros(8, dtype=torch.int64)).batch_size == (8,)
    with pytest.raises(ContractError, match="dimension 1 must be 3, it is 1"):
        Made(torch.zeros(8, 1, 4, 5), torch.zeros(8, dtype=torch.int64))


def test_numbers_arrays_and_lists_are_looked_at_as_the_tensors_that_they_become() -> None:
    made = Sample(torch.zeros(2, 3, 4, 5).numpy(), torch.ones(2, 4, 5).bool().tolist(), [1, 2])
    assert (made.batch_size, made.mask.dtype) == ((2,), torch.bool)
    with pytest.raises(ContractError, match="the dtype float32 is not int"):
        made.replace(label=[1.0, 2.0])


def test_a_default_is_looked_at_too() -> None:
    class Weighted(TensorClass):
        x: Float[Tensor, "n"]
        weight: Float[Tensor, "n"] = tc.field(default_factory=lambda: torch.ones(2, 3))

    assert Weighted(torch.zeros(2, 3)).batch_size == (2,)
    with pytest.raises(ContractError, match=r"n is 4 \(in the field x\), but dimension 1 is 3"):
        Weighted(torch.zeros(2, 4))


def test_what_post_init_sets_is_looked_at_after_what_it_is_given() -> None:
    class Normal(TensorClass):
        x: Float[Tensor, "n"]
        scale: Annotated[Tensor, Shape("n")] | None = None

        def __post_init__(self) -> None:
            self.scale = self.x.new_ones(*self.batch_size, 3)

    assert Normal(torch.zeros(2, 3)).scale is not None
    with pytest.raises(ContractError, match=r"Normal\.scale"):
        Normal(torch.zeros(2, 4))


def test_a_value_of_a_wrong_type_is_a_type_error_as_ever() -> None:
    with pytest.raises(TypeError, match=r"Sample\.label: expected .*, got str"):
        Sample(**values(label="a"))
    with pytest.raises(TypeError, match=r"Sample\.label"):
        Sample(**values(label=None))


def test_fields_without_a_contract_are_listed_too_where_they_lack_the_batch_size() -> None:
    class Mixed(TensorClass):
        x: Float[Tensor, "n"]
        free: Tensor

    with pytest.raises(ContractError) as raised:
        Mixed(torch.zeros(4, 2, 2), torch.zeros(3), batch_size=[4])
    assert [problem.path for problem in raised.value.broken] == [("x",), ("free",)]
    with pytest.raises(BatchMismatch, match=r"free: batch dimension mismatch"):
        Mixed(torch.zeros(4, 2), torch.zeros(3), batch_size=[4])


# -- writing ----------------------------------------------------------------------------------------------------------


def by_attribute(record: Any, key: str, value: Any) -> None:
    setattr(record, key, value)


def by_item(record: Any, key: str, value: Any) -> None:
    record[key] = value


WRITES: dict[str, Callable[[Any, str, Any], Any]] = {
    "setattr": by_attribute,
    "set": lambda record, key, value: record.set(key, value),
    "[]": by_item,
    "update": lambda record, key, value: record.update({key: value}),
    "update from a collection": lambda record, key, value: record.update(TensorDict({key: value}, record.batch_size)),
    "update by keyword": lambda record, key, value: record.update({}, **{key: value}),
    "nested set": lambda record, key, value: TensorDict({"a": record}, record.batch_size).set(("a", key), value),
    "nested update": lambda record, key, value: TensorDict({"a": record}, record.batch_size).update(
        {"a": {key: value}}
    ),
    "load_state_dict": lambda record, key, value: record.load_state_dict(
        {**record.state_dict(), key: value}, assign=True
    ),
}


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("key, value", [("label", WRONG_LABEL), ("mask", WRONG_MASK)])
def test_a_value_that_does_not_fit_is_not_written(how: str, key: str, value: Tensor) -> None:
    record = sample(8)
    before = dict(record.items())
    with pytest.raises(ContractError, match=key):
        WRITES[how](record, key, value)
    assert list(before) == list(record.keys())
    assert all(record.get(name) is held for name, held in before.items())
    assert record.batch_size == (8,)


@pytest.mark.parametrize("how", WRITES)
def test_a_value_that_fits_is_written(how: str) -> None:
    record = sample(8)
    WRITES[how](record, "label", torch.arange(8))
    assert record.label.tolist() == list(range(8))


def test_fields_that_depend_on_each_other_change_together() -> None:
    record, other = sample(8), sample(8, h=7)
    with pytest.raises(ContractError, match=r"h is 4 \(in the field image\), but dimension 1 is 7"):
        record.mask = other.mask
    record.update({"mask": other.mask}, image=other.image)
    assert record.mask is other.mask
    assert record.replace(image=sample(8).image, mask=sample(8).mask).image.shape == (8, 3, 4, 5)


def test_what_is_removed_binds_no_names() -> None:
    record = sample(8)
    del record.image
    record.mask = torch.zeros(8, 1, 1, dtype=torch.bool)
    record.weight = torch.zeros(8, 2)
    with pytest.raises(ContractError, match=r"must be h\+1, which is 2 with h = 1 \(in the field mask\); it is 9"):
        record.weight = torch.zeros(8, 9)
    record.weight = None
    assert record.weight is None


def test_only_what_changes_is_looked_at() -> None:
    marks = sample(8) == sample(8)  # a record of bools: results of operations are not looked at
    assert marks.image.dtype is torch.bool
    marks.label = torch.arange(8)
    with pytest.raises(ContractError, match="image"):
        marks.image = marks.image
    with pytest.raises(ContractError) as raised:
        marks.validate()
    assert [problem.path for problem in raised.value.broken] == [("image",)]


def test_rename_looks_at_the_value_as_one_of_its_new_field() -> None:
    class Two(TensorClass):
        x: Float[Tensor, "n"] | None = None
        y: Int[Tensor, "n"] | None = None

    record = Two(x=torch.zeros(2, 3))
    with pytest.raises(ContractError, match="the dtype float32 is not int"):
        record.rename_key_("x", "y")
    assert list(record.keys()) == ["x"]


def test_a_field_that_rows_bring_is_looked_at() -> None:
    record = sample(8)
    with pytest.raises(ContractError, match=r"h\+1, which is 5 with h = 4"):
        record[:2] = {"label": torch.ones(2, dtype=torch.int64), "weight": torch.zeros(2, 9)}
    assert record.weight is None
    assert record.label.sum() == 0
    record[:2] = {"weight": torch.ones(2, 5)}
    assert record.weight is not None
    assert record.weight.shape == (8, 5)


def test_writing_in_place_keeps_shape_and_dtype_and_is_not_looked_at() -> None:
    record = sample(8)
    record.set_("label", torch.ones(8))
    record[0] = sample()
    assert (record.label.dtype, record.label.tolist()) == (torch.int64, [0] + [1] * 7)


def test_setting_the_batch_size_is_looked_at() -> None:
    record = sample(8)
    for size in ([], [8, 3]):
        with pytest.raises((ContractError, RuntimeError)):
            record.batch_size = size
    assert record.batch_size == (8,)
    record.label = record.label.clone()
    pair = Pair(left=sample(8))
    with pytest.raises(RuntimeError):
        pair.batch_size = [7]
    pair.batch_size = [8]


def test_auto_batch_size_is_what_the_contracts_tell() -> None:
    same = torch.zeros(8, 3, 4, 5)

    class Two(TensorClass):
        x: Float[Tensor, "3 h w"]
        y: Float[Tensor, "3 h w"]

    assert Two.from_dict({"x": same, "y": same}, auto_batch_size=True).auto_batch_size_().batch_size == (8,)


def test_a_size_from_which_another_field_follows_does_not_change_alone() -> None:
    class Steps(TensorClass):
        edges: Float[Tensor, "n+1"] | None
        heights: Float[Tensor, "n"]

    record = Steps(torch.zeros(2, 4), torch.zeros(2, 3))
    writes: list[Callable[[], Any]] = [
        lambda: record.set("heights", torch.zeros(2, 5)),
        lambda: record.update({"heights": torch.zeros(2, 5)}),
        lambda: record.replace(heights=torch.zeros(2, 5)),
    ]
    for write in writes:
        with pytest.raises(
            ContractError, match=r"Steps\.heights: .* in the field edges, dimension 1 must be n\+1, which"
        ):
            write()
    assert record.heights.shape == (2, 3)
    record.update({"heights": torch.zeros(2, 5), "edges": torch.zeros(2, 6)})
    record.edges = None
    record.heights = torch.zeros(2, 3)
    assert record.validate().heights.shape == (2, 3)
    broken = Steps.unchecked(torch.zeros(2, 4), torch.zeros(2, 9), batch_size=[2])
    assert broken.replace(heights=torch.zeros(2, 3)).validate() is not broken


# -- other stores -----------------------------------------------------------------------------------------------------


def test_parts_of_a_lazy_stack_keep_their_own_names() -> None:
    stack = tc.lazy_stack([sample(8), sample(8, h=7)])
    stack.label = torch.ones(2, 8, dtype=torch.int64)
    with pytest.raises(ContractError, match="label"):
        stack.label = torch.zeros(2, 8)
    with pytest.raises(ContractError, match="label"):
        stack.update({"label": torch.zeros(2, 8)})
    assert stack.label.dtype is torch.int64
    assert stack.validate() is stack
    with tc.validation(False):
        stack[1].label = torch.zeros(8)
    with pytest.raises(ContractError) as raised:
        stack.validate()
    assert raised.value.broken[0].path == ("[1]", "label")


def test_rows_of_another_record_are_looked_at() -> None:
    record = sample(8)
    rows = record.get_sub_tensordict(slice(0, 4))
    with pytest.raises(ContractError, match=r"h\+1"):
        rows.set("weight", torch.zeros(4, 9))
    rows.set("weight", torch.ones(4, 5))
    assert record.weight is not None
    assert record.weight.sum() == 20


def test_a_mapping_of_the_users_is_looked_at() -> None:
    store = values()
    record = Sample.from_store(store, [8])
    for write in (WRITES["set"], WRITES["update"]):
        with pytest.raises(ContractError, match=r"Sample\.label"):
            write(record, "label", WRONG_LABEL)
    assert store["label"].dtype is torch.int64
    with pytest.raises(ContractError, match="label"):
        Sample.from_store(values(label=WRONG_LABEL), [8])


# -- nested records ---------------------------------------------------------------------------------------------------


def test_a_nested_record_is_looked_at_where_it_is_made_and_names_the_way_to_it() -> None:
    with pytest.raises(ContractError) as raised:
        Pair(left=values(mask=WRONG_MASK, label=WRONG_LABEL), batch_size=[8])
    assert [problem.path for problem in raised.value.broken] == [("left", "mask"), ("left", "label")]
    with pytest.raises(ContractError, match=re.escape('left.label: expected Int[Tensor, ""]')):
        Pair.from_dict({"left": values(label=WRONG_LABEL)}, batch_size=[8])


def test_what_is_wrong_with_nested_records_is_listed_with_the_rest() -> None:
    class Outer(TensorClass):
        pair: Pair
        weight: Float[Tensor, "3"]
        free: Tensor

    left, right = values(label=WRONG_LABEL), values(mask=WRONG_MASK, label=WRONG_LABEL)
    with pytest.raises(ContractError) as raised:
        Outer.from_dict({"pair": {"left": left, "right": right}, "weight": torch.zeros(8, 4), "free": torch.zeros(8)})
    assert {problem.path for problem in raised.value.broken} == {
        ("weight",),
        ("pair", "left", "label"),
        ("pair", "right", "mask"),
        ("pair", "right", "label"),
    }
    with pytest.raises(ContractError) as raised:
        Pair(left=left, right=right)
    assert len(raised.value.broken) == 3


def test_an_update_of_a_nested_record_names_the_way_to_it() -> None:
    data = TensorDict({"a": {"b": sample(8)}}, [8])
    with pytest.raises(ContractError, match=r"^a\.b\.label: expected"):
        data.update({"a": {"b": {"label": WRONG_LABEL}}})
    with pytest.raises(ContractError, match=r"^a\.b\.label: expected"):
        data["a", "b", "label"] = WRONG_LABEL


def test_a_key_of_one_name_is_one_of_the_record() -> None:
    with pytest.raises(ContractError, match=r"^Sample\.label: expected"):
        sample(8)[("label",)] = WRONG_LABEL


def test_what_is_wrong_is_listed_in_the_order_of_the_fields() -> None:
    class Outer(TensorClass):
        pair: Pair
        level: Level
        label: Int[Tensor, ""]

    with pytest.raises(ContractError) as raised:
        Outer({"left": values(label=WRONG_LABEL)}, {"value": torch.full((8, 2), 2.0)}, WRONG_LABEL, batch_size=[8])
    assert [problem.path for problem in raised.value.broken] == [
        ("pair", "left", "label"),
        ("level", "value"),
        ("label",),
    ]


def test_names_are_those_of_one_record() -> None:
    assert Pair(left=sample(8), right=sample(8, h=9), batch_size=[8]).right is not None


def test_the_batch_of_a_nested_record_can_have_a_contract() -> None:
    class Clip(TensorClass):
        frames: Annotated[Sample, Shape("t")]
        times: Float[Tensor, "t"]

    clip = Clip(frames=sample(2, 6), times=torch.zeros(2, 6))
    assert (clip.batch_size, clip[0].frames.batch_size) == ((2,), (6,))
    with pytest.raises(ContractError, match=r"t is 6 \(in the field frames\), but dimension 1 is 5"):
        Clip(frames=sample(2, 6), times=torch.zeros(2, 5))
    with pytest.raises(ContractError, match="an item has 1 dimension, it has 0 here"):
        Clip(frames=sample(2), times=torch.zeros(2, 5), batch_size=[2])
    clip = clip.replace(frames=sample(2, 4), times=torch.zeros(2, 4))
    with pytest.raises(ContractError, match="frames"):
        clip.frames = sample(2, 5)


def test_a_contract_that_is_not_known_when_the_class_is_made_holds_from_the_first_value_on() -> None:
    class Late(TensorClass):
        x: Later

    globals()["Later"] = Float[Tensor, "3"]
    try:
        with pytest.raises(ContractError, match="dimension 1 must be 3, it is 4"):
            Late(torch.zeros(2, 4), batch_size=[2])
        record = Late(torch.zeros(2, 3), batch_size=[2])
        with pytest.raises(ContractError, match="the dtype int64 is not float"):
            record.x = torch.zeros(2, 3, dtype=torch.int64)
    finally:
        del globals()["Later"]


# -- what is looked at ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, message",
    [
        ([[0.5, 2.0]], "the largest element is 2, above 1"),
        ([[-3.0, 2.0]], "the smallest element is -3, below 0; the largest element is 2, above 1"),
        ([[0.5, float("nan")]], "an element is nan"),
        ([[1j, 0]], "complex numbers have no order"),
    ],
)
def test_elements_outside_of_the_range_are_refused(value: list[Any], message: str) -> None:
    with pytest.raises(ContractError) as raised:
        Level(value=torch.tensor(value))
    assert message in str(raised.value)
    record = Level(value=torch.zeros(1, 2))
    with pytest.raises(ContractError):
        record.value = torch.tensor(value)
    assert record.value.sum() == 0


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[0.0, 1.0]]),
        torch.tensor([[0, 1]]),
        torch.tensor([[False, True]]),
        torch.tensor([[0.5]], requires_grad=True),
        torch.tensor([[0.5]]).to(torch.float8_e4m3fn),
        torch.tensor([[0.5]]).half(),
        torch.tensor([[1]], dtype=torch.uint16),
        torch.zeros(0, 3),
        torch.empty(2, 3, device="meta"),
        torch.eye(3).to_sparse(),
    ],
    ids=lambda value: f"{value.dtype} {value.layout} {value.device}",
)
def test_elements_in_the_range_are_taken_whatever_their_dtype(value: Tensor) -> None:
    assert Level(value=value).value is value


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_bound_is_what_the_dtype_has_of_it(dtype: torch.dtype) -> None:
    class Bounded(TensorClass):
        x: Annotated[Tensor, Shape(""), Range(0.1, 0.3)]

    ends = torch.tensor([0.1, 0.3], dtype=dtype)
    assert Bounded(ends).batch_size == (2,)
    for outside in (ends - torch.finfo(dtype).eps, ends + torch.finfo(dtype).eps):
        with pytest.raises(ContractError, match="element is 0"):
            Bounded(outside)


def test_whole_numbers_outside_of_a_range_are_shown_in_full() -> None:
    class Large(TensorClass):
        x: Annotated[Tensor, Range(0, 2**62)]

    with pytest.raises(ContractError, match=f"the largest element is {2**62 + 1}, above {2**62}"):
        Large(torch.tensor(2**62 + 1))


@pytest.mark.filterwarnings("ignore")
def test_the_range_of_other_kinds_of_tensors_is_read_too() -> None:
    inside, outside = torch.tensor([[0.5, 1.0]]), torch.tensor([[0.5, 2.0]])
    kinds: list[Callable[[Tensor], Tensor]] = [
        lambda tensor: TwoTensor(tensor, tensor.clone()),  # which has no tolist(), as a DTensor
        lambda tensor: torch.masked.masked_tensor(tensor, tensor > 0),
        lambda tensor: torch.quantize_per_tensor(tensor, 0.25, 0, torch.quint8),
    ]
    for make in kinds:
        assert Level(make(inside)).value.shape == (1, 2)
        with pytest.raises(ContractError, match="the largest element is 2, above 1"):
            Level(make(outside))
    hidden = torch.masked.masked_tensor(outside, outside < 1)
    assert Level(hidden).batch_size == (1,)


def test_ranges_are_not_read_inside_vmap_and_of_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    result = torch.vmap(lambda value: Level(value=value).value * 2)(torch.ones(4, 3))
    assert result.shape == (4, 3)
    with FakeTensorMode():
        assert Level(value=torch.ones(4, 3)).batch_size == (4,)


@pytest.mark.parametrize("high, value", [(None, 5.0), (9.0, 9.0)])
def test_a_range_can_be_open(high: float | None, value: float) -> None:
    class Open(TensorClass):
        x: Annotated[Tensor, Range(0, high)]

    assert Open(torch.tensor(value)).x == value
    with pytest.raises(ContractError, match="below 0"):
        Open(torch.tensor(-1))


def test_the_device_is_looked_at() -> None:
    class Placed(TensorClass):
        x: Annotated[Tensor, Device("meta")]

    assert Placed(torch.zeros(2, device="meta")).x.is_meta
    with pytest.raises(ContractError, match=r'it is on cpu; move the tensor with \.to\("meta"\)'):
        Placed(torch.zeros(2))
    assert Placed(torch.zeros(2), device="meta").x.is_meta  # moved before it is looked at


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device_without_an_index_stands_for_all_of_its_type() -> None:
    class Placed(TensorClass):
        x: Annotated[Tensor, Device("cuda"), Range(0, 1)]

    class First(TensorClass):
        x: Annotated[Tensor, Device("cuda:0"), Range(0, 1)]

    for cls in (Placed, First):
        assert cls(torch.ones(2), device="cuda").x.is_cuda
        with pytest.raises(ContractError, match="it is on cpu"):
            cls(torch.ones(2))
        with pytest.raises(ContractError, match="above 1"):
            cls(torch.full([2], 2.0, device="cuda"))


def test_a_union_of_contracts_takes_what_keeps_one_of_them() -> None:
    class Either(TensorClass):
        x: Float[Tensor, "n"] | Int[Tensor, "n m"] | str
        y: Float[Tensor, "n"] | None = None

    assert Either(torch.zeros(3), torch.zeros(3)).x.shape == (3,)
    assert Either(torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3)).x.shape == (3, 2)
    assert Either("text").x == "text"
    for x in (torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), torch.zeros(4)):
        with pytest.raises(ContractError):
            Either(x, torch.zeros(3))


def test_optional_fields_are_looked_at_where_they_are_there() -> None:
    assert Sample(**values()).weight is None
    assert Sample(**values(weight=torch.zeros(8, 5))).weight is not None
    with pytest.raises(ContractError, match=r"Sample.weight: .*must be h\+1, which is 5"):
        Sample(**values(weight=torch.zeros(8, 4)))


def test_operations_give_records_without_looking_at_them() -> None:
    record = sample(8)
    for result in (
        record[0],
        record.reshape(2, 4),
        record.to(torch.float64),
        torch.stack([record, record]),
        record > 0,
    ):
        assert type(result) is Sample
    loaded = pickle.loads(pickle.dumps(record > 0))
    assert loaded.image.dtype is torch.bool


def test_a_record_without_contracts_has_nothing_to_check() -> None:
    assert Plain._checks is None
    assert Plain(torch.zeros(2)).validate().value.shape == (2,)


# -- the error --------------------------------------------------------------------------------------------------------


def test_an_error_names_field_expected_got_and_why() -> None:
    with pytest.raises(ContractError) as raised:
        Sample(torch.zeros(8, 1, 4, 5), torch.zeros(8, 4, 9), torch.zeros(7, dtype=torch.int64), batch_size=[8])
    lines = str(raised.value).splitlines()
    assert lines[0] == f"Sample: 3 fields break their contracts{help_link('broken-contract')}:"
    assert lines[1:] == [f"  {problem}" for problem in raised.value.broken]
    behind = "behind the batch dimensions [8]"
    image, mask, label = raised.value.broken
    assert image.expected == f'Float[Tensor, "3 h w"] {behind}'
    assert mask.expected == f'Annotated[Tensor, Shape("h w"), DType("bool")] {behind}'
    assert (image.got, label.got) == ("shape [8, 1, 4, 5], float32, cpu", "shape [7], int64, cpu")
    assert image.why == "dimension 1 must be 3, it is 1"
    assert mask.why.split("; ") == [
        "w is 5 (in the field image), but dimension 2 is 9",
        "the dtype float32 is not bool",
        "cast the tensor with .to(dtype)",
    ]
    assert label.why == "the batch dimensions [8] do not come first"


def test_an_error_is_caught_as_those_for_wrong_types_values_and_batch_sizes() -> None:
    for kind in (TypeError, ValueError, RuntimeError):
        with pytest.raises(kind):
            Sample(**values(label=WRONG_LABEL))


def test_an_error_can_be_pickled() -> None:
    with pytest.raises(ContractError) as raised:
        Pair(left=values(label=WRONG_LABEL))
    loaded = pickle.loads(pickle.dumps(raised.value))
    assert (str(loaded), loaded.broken) == (str(raised.value), raised.value.broken)


def test_flat_items_are_told_how_to_get_their_shape() -> None:
    class Picture(TensorClass):
        pixels: Float[Tensor, "3 2 4"]

    flat = torch.zeros(5, 24)
    with pytest.raises(ContractError, match=r"1 here; \.unflatten\(-1, \(3, 2, 4\)\) gives its 24 values that shape"):
        Picture(flat, batch_size=[5])
    assert Picture(flat.unflatten(-1, (3, 2, 4))).batch_size == (5,)
    with pytest.raises(ContractError, match=r"it has 1 here \(see"):
        Picture(flat[:, 1:], batch_size=[5])
