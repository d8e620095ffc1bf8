"""The hypothesis strategy for records."""

import enum
from typing import Annotated, Any, Literal

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import DType, Range, Shape, TensorClass, TensorDict, field, tensorclass
from tensorclass.testing import records
from tests import fresh_python
from tests.contracts.samples import Level, Pair, Plain, Sample

quick = settings(max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Everything(TensorClass):
    open_dims: Annotated[Tensor, Shape("... 3 _ #n")]
    numbers: Annotated[Tensor, Shape("*k n-2"), DType("num"), Range(-1, 0.5)]
    either: Int[Tensor, "*k"] | Float[Tensor, ""]
    divided: Float[Tensor, "n//2 n%2 2*n"]
    spread: Float[Tensor, "*#k"]
    plain: Tensor
    text: str
    count: int
    share: float
    flag: bool
    color: Color
    word: Literal["a", "b"]
    source: str = "none"
    parts: list[int] = field(default_factory=list)
    extra: TensorDict | None = None
    anything: object = None
    computed: Tensor | None = field(init=False, default=None)
    next: "Everything | None" = None


@tensorclass
class Decorated:
    value: Annotated[Tensor, Shape("n")]


@pytest.mark.parametrize("cls", [Sample, Pair, Level, Plain, Everything, Decorated])
@quick
@given(data=st.data())
def test_every_record_that_is_drawn_is_valid(cls: Any, data: st.DataObject) -> None:
    record = data.draw(records(cls))
    assert type(record) is cls
    record.validate()


@pytest.mark.parametrize("cls", [Sample, Pair, Level])
@quick
@given(data=st.data())
def test_every_random_record_is_valid(cls: Any, data: st.DataObject) -> None:
    sizes = {"n": data.draw(st.integers(0, 4))} if cls is Level else dict.fromkeys("hw", data.draw(st.integers(0, 4)))
    cls.random(data.draw(st.integers(0, 3)), seed=data.draw(st.integers(0, 9)), sizes=sizes).validate()


def test_records_shrink_to_few_small_dimensions_and_zeros() -> None:
    record = find(records(Pair), lambda record: True)
    assert record.batch_size == ()
    assert record.left.image.shape == (3, 1, 1)
    assert (record.left.image == 0).all()
    assert (record.left.weight, record.right) == (None, None)


def test_optional_fields_are_drawn_too() -> None:
    assert find(records(Pair), lambda record: record.right is not None).left.weight is None
    assert find(records(Everything), lambda record: record.next is not None).next.next is None


def test_dtypes_of_a_category_are_drawn() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        found = find(records(Sample), lambda record, dtype=dtype: record.image.dtype == dtype)
        assert found.batch_size == ()


@quick
@given(records(Sample, batch_size=[2, 3]))
def test_a_batch_size_can_be_given(record: Sample) -> None:
    assert record.batch_size == (2, 3)


@quick
@given(records(Sample, st.integers(5, 6)))
def test_a_batch_size_can_be_drawn(record: Sample) -> None:
    assert record.batch_size[0] in (5, 6)


@quick
@given(records(Pair, h=7, w=st.integers(8, 9), left={"w": 5}))
def test_sizes_can_be_given_drawn_and_set_for_a_nested_record(record: Pair) -> None:
    assert record.left.mask.shape[-2:] == (7, 5)
    if record.right is not None:
        assert record.right.mask.shape[-2] == 7
        assert record.right.mask.shape[-1] in (8, 9)


@quick
@given(records(Plain, batch_size=2, value=st.just(torch.ones(2))))
def test_a_field_can_have_a_strategy(record: Plain) -> None:
    assert (record.value == 1).all()


@quick
@given(records(Plain, value=lambda size: st.just(torch.full(size, 7))))
def test_a_field_can_follow_the_batch_size(record: Plain) -> None:
    assert (record.value == 7).all()


@quick
@given(records(Everything, text="always", sizes={"k": (2, 3), "n": 4}))
def test_values_and_several_sizes_can_be_given(record: Everything) -> None:
    assert record.text == "always"
    assert record.numbers.shape[record.batch_dims :] == (2, 3, 2)


def test_a_keyword_that_is_neither_field_nor_dimension_is_refused() -> None:
    with pytest.raises(TypeError, match=r"records\(Sample\): k: neither a field nor the name"):
        records(Sample, k=3)


def test_a_field_that_cannot_be_drawn_wants_a_strategy() -> None:
    class Thing:
        pass

    class Holder(TensorClass):
        thing: Thing

    with pytest.raises(TypeError, match=r"how to draw thing .*records\(Holder, thing="):
        find(records(Holder), lambda record: True)
    assert find(records(Holder, thing=st.builds(Thing)), lambda record: True).batch_size == ()


def test_a_strategy_shows_its_class() -> None:
    assert "Sample" in repr(records(Sample))


def test_without_hypothesis_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None; sys.modules['hypothesis.strategies'] = None\n"
        "from tensorclass import TensorClass\n"
        "from tensorclass.testing import records\n"
        "try:\n    records(TensorClass)\nexcept ImportError as error:\n    print(error)"
    )
    done = fresh_python.run(["-c", code], check=True)
    assert "pip install 'tensorclass[testing]'" in done.stdout
