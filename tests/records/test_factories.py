"""Records made of the contracts of their fields: zeros, ones, empty, random."""

from typing import Annotated, Any, Literal

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import (
    ContractError,
    Device,
    DType,
    Range,
    Shape,
    TensorClass,
    TensorDict,
    field,
    lazy_stack,
    tensorclass,
)
from tests.contracts.samples import Level, Pair, Plain, Sample

MAKERS = {"zeros": 0, "ones": 1, "empty": None, "random": None}


class Kinds(TensorClass):
    floating: Float[Tensor, ""]
    signed: Int[Tensor, ""]
    unsigned: Annotated[Tensor, Shape(""), DType("uint")]
    flag: Annotated[Tensor, Shape(""), DType("bool")]
    number: Annotated[Tensor, Shape(""), DType("num")]
    complex_number: Annotated[Tensor, Shape(""), DType("complex")]
    small: Annotated[Tensor, Shape(""), DType("bfloat16", "float16")]
    plain: Tensor


class Dims(TensorClass):
    value: Annotated[Tensor, Shape("3 h h+1 _ #w *n")]
    other: Annotated[Tensor, Shape("... h-w")]


@pytest.mark.parametrize("name", MAKERS)
def test_every_maker_gives_a_valid_record_of_the_batch_size(name: str) -> None:
    made = getattr(Sample, name)([2, 3], h=4, w=5)
    assert type(made) is Sample
    assert made.batch_size == (2, 3)
    assert made.image.shape == (2, 3, 3, 4, 5)
    assert made.mask.shape == (2, 3, 4, 5)
    assert made.weight is None
    made.validate()
    if MAKERS[name] is not None:
        assert all((value == MAKERS[name]).all() for value in (made.image, made.mask, made.label))


@pytest.mark.parametrize("size", [8, [8], (8,), torch.Size([8])])
def test_a_batch_size_is_a_number_or_several(size: Any) -> None:
    assert Level.zeros(size, n=2).batch_size == (8,)


def test_without_a_batch_size_there_are_no_batch_dimensions() -> None:
    assert Level.zeros(n=2).value.shape == (2,)


def test_the_dtype_is_the_default_of_its_category() -> None:
    made = Kinds.zeros(2)
    assert [made.floating.dtype, made.signed.dtype, made.unsigned.dtype] == [torch.float32, torch.int64, torch.uint8]
    assert [made.flag.dtype, made.number.dtype, made.complex_number.dtype] == [
        torch.bool, torch.float32, torch.complex64,
    ]  # fmt: skip
    assert made.small.dtype == torch.float16
    assert made.plain.dtype == torch.float32
    assert made.plain.shape == (2,)


def test_the_dtype_follows_the_default_dtype() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = Kinds.zeros(2)
    finally:
        torch.set_default_dtype(before)
    assert [made.floating.dtype, made.number.dtype, made.plain.dtype] == [torch.float64] * 3
    assert made.complex_number.dtype == torch.complex128


def test_expressions_open_and_broadcastable_dimensions_are_resolved() -> None:
    made = Dims.zeros(2, h=5, w=2, n=(7, 8))
    assert made.value.shape == (2, 3, 5, 6, 1, 2, 7, 8)
    assert made.other.shape == (2, 3)


def test_sizes_can_be_a_mapping_for_names_that_are_no_keywords() -> None:
    class Named(TensorClass):
        value: Annotated[Tensor, Shape("device *device")]

    assert Named.zeros(2, sizes={"device": 3, "*device": [4, 5]}).value.shape == (2, 3, 4, 5)


def test_missing_sizes_are_listed() -> None:
    with pytest.raises(TypeError, match=r"dimensions h, w are not given.*Sample\.zeros\(\[8\], h=\.\.\., w=\.\.\.\)"):
        Sample.zeros(8)
    with pytest.raises(TypeError, match=r"dimensions w, n are not given"):
        Dims.random(8, h=3)
    with pytest.raises(TypeError, match=r"dimensions h, w are not given"):
        Pair.empty(8)


def test_sizes_of_no_dimension_are_refused() -> None:
    with pytest.raises(TypeError, match="no field that is made has the dimensions k,"):
        Sample.zeros(8, h=1, w=1, k=3)
    with pytest.raises(TypeError, match=r"left\.k"):
        Pair.zeros(8, h=1, w=1, left={"k": 3})


@pytest.mark.parametrize("size", [-1, 1.5, "a", (1, 2), None])
def test_a_size_is_a_number_that_is_not_negative(size: Any) -> None:
    with pytest.raises(TypeError, match="h"):
        Sample.zeros(8, h=size, w=1)


def test_a_size_is_given_once() -> None:
    with pytest.raises(TypeError, match="twice"):
        Sample.zeros(8, h=1, w=2, sizes={"h": 1})


def test_nested_records_are_made_with_the_sizes_around_them_or_their_own() -> None:
    class Twice(TensorClass):
        one: Sample
        two: Annotated[Sample, Shape("t")]

    made = Twice.zeros(2, h=3, w=4, t=5, two={"h": 6})
    assert made.one.image.shape == (2, 3, 3, 4)
    assert made.two.batch_size == (2, 5)
    assert made.two.image.shape == (2, 5, 3, 6, 4)
    made.validate()


def test_untyped_collections_are_made_empty() -> None:
    class Holder(TensorClass):
        extra: TensorDict
        value: Tensor

    made = Holder.zeros(3)
    assert made.extra.batch_size == (3,)
    assert made.extra.is_empty()


def test_fields_with_defaults_have_them_and_optional_ones_are_none() -> None:
    class Mixed(TensorClass):
        value: Tensor
        source: str = "none"
        parts: list[int] = field(default_factory=list)
        more: Float[Tensor, "k"] | None = None
        late: "Mixed | None" = None
        computed: Float[Tensor, ""] | None = field(init=False, default=None)

    made = Mixed.random(2)
    assert (made.source, made.parts, made.more, made.late) == ("none", [], None, None)
    made.parts.append(1)
    assert Mixed.random(2).parts == []


def test_fields_that_no_contract_describes_are_listed() -> None:
    class Objects(TensorClass):
        value: Tensor
        source: str
        kind: Literal["a", "b"]

    with pytest.raises(TypeError, match=r"Objects\.ones: nothing says.*source \(str\), kind \(.*Literal.*default"):
        Objects.ones(2)

    class Around(TensorClass):
        inner: Objects

    with pytest.raises(TypeError, match=r"inner\.source"):
        Around.zeros(2)


def test_a_class_that_needs_itself_is_refused() -> None:
    class Endless(TensorClass):
        value: Tensor
        again: "Endless"

    with pytest.raises(TypeError, match=r"again"):
        Endless.zeros(2)


def test_values_outside_a_range_are_refused() -> None:
    class Positive(TensorClass):
        value: Annotated[Tensor, Shape(""), Range(low=1)]

    with pytest.raises(ContractError, match="below 1"):
        Positive.zeros(3)
    Positive.empty(3)
    assert (Positive.ones(3).value == 1).all()


def test_device_and_names_are_those_of_the_record() -> None:
    made = Sample.zeros(2, device="meta", names=["time"], h=1, w=1)
    assert made.device == torch.device("meta")
    assert made.image.is_meta
    assert made.names == ["time"]
    assert Sample.random(2, device="meta", seed=0, h=1, w=1).image.is_meta


def test_a_field_is_made_on_the_device_of_its_contract() -> None:
    class There(TensorClass):
        value: Annotated[Tensor, Shape(""), Device("meta")]
        here: Tensor

    made = There.zeros(2)
    assert (made.value.is_meta, made.here.is_meta, made.device) == (True, False, None)
    with pytest.raises(ContractError, match="meta"):
        There.zeros(2, device="cpu")


def test_an_instance_keeps_its_own_empty() -> None:
    made = Sample.ones(2, h=1, w=1)
    assert type(made.empty()) is Sample
    assert list(made.empty().keys()) == []
    assert made.empty(batch_size=[3]).batch_size == (3,)
    assert lazy_stack([made, made]).empty().batch_size == (2, 2)


def test_a_record_on_another_store_makes_plain_ones() -> None:
    cls: Any = type(lazy_stack([Level.zeros(n=1), Level.zeros(n=2)]))
    assert type(cls.zeros(2, n=3)) is Level


@tensorclass
class Decorated:
    value: Annotated[Tensor, Shape("n")]


def test_a_decorated_class_has_the_makers() -> None:
    cls: Any = Decorated
    assert cls.zeros(2, n=3).value.shape == (2, 3)
    assert cls.empty(2, n=3).empty().batch_size == (2,)


def test_a_class_with_its_own_init_is_made_without_it() -> None:
    class Own(TensorClass):
        value: Annotated[Tensor, Shape("n")]

        def __init__(self, n: int) -> None:
            super().__init__(value=torch.zeros(n))

    assert Own.ones(2, n=3).value.shape == (2, 3)


def test_post_init_sees_what_is_made() -> None:
    class Seen(TensorClass):
        value: Annotated[Tensor, Shape("n")]

        def __post_init__(self) -> None:
            self.value = self.value + 1

    assert (Seen.zeros(n=3).value == 1).all()


# -- random -----------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_values_and_leaves_the_generator_of_torch_alone() -> None:
    state = torch.get_rng_state()
    one, two = Sample.random(2, h=3, w=3, seed=1), Sample.random(2, h=3, w=3, seed=1)
    assert (one == two).all()
    assert not (one == Sample.random(2, h=3, w=3, seed=2)).all()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_generator_goes_on() -> None:
    generator = torch.Generator().manual_seed(0)
    one, two = Sample.random(2, h=3, w=3, generator=generator), Sample.random(2, h=3, w=3, generator=generator)
    assert not torch.equal(one.image, two.image)
    with pytest.raises(TypeError, match="seed"):
        Sample.random(2, h=3, w=3, generator=generator, seed=0)


BOUNDS = [(0, 1), (-0.3, 0.1), (0.1, None), (None, -5), (2.5, 7.25), (None, None)]
DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int64", "int8", "bool", "uint8", "uint16"]
#: dtypes that have no value in a range
NOTHING = [("bool", None, -5), ("bool", 2.5, 7.25), ("uint8", None, -5), ("uint16", None, -5)]


def ranged(dtype: str, low: float | None, high: float | None) -> Any:
    marks = () if low is None and high is None else (Range(low, high),)

    class Ranged(TensorClass):
        value: Annotated[(Tensor, Shape("n"), DType(dtype), *marks)]  # type: ignore[valid-type]

    return Ranged


@pytest.mark.parametrize("dtype, low, high", NOTHING)
def test_a_range_without_values_of_the_dtype_is_an_error(dtype: str, low: float | None, high: float | None) -> None:
    with pytest.raises(ValueError, match=f"no {dtype} lies from"):
        ranged(dtype, low, high).random(50, n=20)


@pytest.mark.parametrize(
    "dtype, low, high",
    [(dtype, *bounds) for dtype in DTYPES for bounds in BOUNDS if (dtype, *bounds) not in NOTHING],
)
def test_random_values_are_in_their_range(dtype: str, low: float | None, high: float | None) -> None:
    Ranged = ranged(dtype, low, high)
    made = Ranged.random(50, n=20, seed=0).validate()
    values = made.value.double()
    assert low is None or values.min() >= low
    assert high is None or values.max() <= high
    assert values.isfinite().all()
    if dtype.startswith("float"):
        assert len(values.unique()) > 5


def test_random_flags_and_whole_numbers_vary() -> None:
    made = Kinds.random(1000, seed=0)
    assert 300 < made.flag.sum() < 700
    assert made.signed.unique().tolist() == list(range(100))
    assert made.complex_number.imag.std() > 0.1


def test_a_range_without_a_value_of_the_dtype_is_an_error() -> None:
    class Between(TensorClass):
        value: Annotated[Tensor, Shape(""), DType("int"), Range(0.2, 0.8)]

    with pytest.raises(ValueError, match=r"no int64 lies from 0\.2 to 0\.8"):
        Between.random(2)


# -- compiled ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_makers_compile(name: str) -> None:
    def made(x: Tensor) -> Any:
        return getattr(Dims, name)(x.shape[0], h=x.shape[1], w=1, n=(2,))

    compiled = torch.compile(made, fullgraph=True, backend="eager")
    assert compiled(torch.ones(2, 3)).value.shape == (2, 3, 3, 4, 1, 1, 2)
    assert compiled(torch.ones(5, 7)).other.shape == (5, 6)


def test_empty_of_an_instance_compiles() -> None:
    compiled = torch.compile(lambda data: data.empty(), fullgraph=True, backend="eager")
    assert compiled(Plain(torch.zeros(3), batch_size=[3])).batch_size == (3,)
