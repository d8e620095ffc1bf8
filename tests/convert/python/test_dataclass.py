"""from_dataclass: instances, and record classes of dataclasses; to_dataclass."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import DType, Shape, TensorClass, TensorDict
from tests.convert.samples import Inner, Plain, Sample, values
from tests.convert.sides import both

T = TypeVar("T")


@dataclasses.dataclass
class Base:
    x: Tensor
    tags: list[str] = dataclasses.field(default_factory=list)
    kind: ClassVar[str] = "base"

    def total(self) -> Tensor:
        return self.x.sum(-1)


@dataclasses.dataclass
class Derived(Base):
    label: str = "a"

    @property
    def shout(self) -> str:
        return self.label.upper()

    def total(self) -> Tensor:
        return super().total() + 1

    def __repr__(self) -> str:
        return "my own repr"


@dataclasses.dataclass(frozen=True)
class Fixed:
    x: Tensor

    def item(self, index: int) -> Tensor:
        return self.x[..., index]


@dataclasses.dataclass
class Holder:
    inner: Plain
    base: Base | None = None
    count: int = dataclasses.field(default=3, kw_only=True)


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Tensor
    label: str = "a"

    def doubled(self) -> Tensor:
        return 2 * self.x


@dataclasses.dataclass(frozen=True)
class FixedMore(Fixed):
    more: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, x: Tensor) -> Any:
        return cls(x)

    @property
    def last(self) -> Tensor:
        return self.item(-1)

    def item(self, index: int) -> Tensor:
        return super().item(index) + 1


# -- an instance as a collection --------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [{}, {"auto_batch_size": True}, {"auto_batch_size": True, "batch_dims": 1}, {"batch_size": [3]}, {"device": "cpu"},
     {"batch_size": [3], "auto_batch_size": True}, {"batch_size": [4]}],
    ids=str,
)  # fmt: skip
def test_an_instance_becomes_what_it_becomes_in_the_peer(options: dict[str, Any]) -> None:
    source = Plain(values(3, 4), "x", Plain(values(3, 4, 5)))
    ours, peers = both(lambda m: m.TensorDict.from_dataclass(source, **options))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("bad", [1, None, {"a": 1}, (1, 2), Plain, int], ids=str)
def test_other_objects_are_refused_as_in_the_peer(bad: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_dataclass(bad))
    assert ours is peers is TypeError


def test_the_error_for_a_class_says_what_takes_one() -> None:
    with pytest.raises(TypeError, match="got the class Plain; as_tensorclass=True takes a class"):
        TensorDict.from_dataclass(Plain)


def test_a_record_is_made_of_an_instance_with_its_fields() -> None:
    source = dataclasses.make_dataclass("Like", ["x", "tag"])(values(2), ["a", "b"])
    record = Inner.from_dataclass(source, auto_batch_size=True)
    assert (type(record), record[1].tag) == (Inner, "b")
    with pytest.raises(ValueError, match=r"Sample.from_dataclass: below: expected one of the fields"):
        Sample.from_dataclass(Plain(values(2)))


def test_as_tensorclass_makes_a_record() -> None:
    source = Plain(values(3))
    record = TensorDict.from_dataclass(source, as_tensorclass=True, batch_size=[3])
    assert type(record) is tc.from_dataclass(Plain) is TensorDict.from_dataclass(Plain, as_tensorclass=True)
    own = tc.from_dataclass(Plain)
    assert type(own.from_dataclass(source, as_tensorclass=True)) is own
    with pytest.raises(ValueError, match=r"needs as_tensorclass=True; or call Plain_tc.from_dataclass"):
        TensorDict.from_dataclass(source, dest_cls=own)


# -- the class --------------------------------------------------------------------------------------------------------


def test_a_record_class_keeps_fields_defaults_methods_and_bases() -> None:
    made = tc.from_dataclass(Derived)
    assert made.__name__ == "Derived_tc"
    assert issubclass(made, TensorClass)
    assert issubclass(made, Derived)
    record = made(values(2, 3), label="b", batch_size=[2])
    assert (record.label, record.shout, record.tags, record.kind) == ("b", "B", [], "base")
    assert record.total().tolist() == [4, 13]
    assert record[1].total() == 13
    assert [f.name for f in made.fields()] == ["x", "tags", "label"]
    assert made(1).tags is not made(1).tags


def test_special_methods_that_a_user_wrote_stay_and_those_of_dataclasses_do_not() -> None:
    assert repr(tc.from_dataclass(Derived)(values(2))) == "my own repr"
    record = tc.from_dataclass(Base)(values(2), batch_size=[2])
    assert repr(record).startswith("Base_tc(batch_size=[2], ")
    assert (record == record).x.all()


def test_the_dataclass_itself_stays_as_it_was() -> None:
    before = dict(vars(Plain))
    tc.from_dataclass(Plain)
    assert dict(vars(Plain)) == before
    assert Plain(values(2)) is not None


def test_there_is_one_class_for_a_dataclass_and_its_options() -> None:
    assert tc.from_dataclass(Base) is tc.from_dataclass(Base)
    assert tc.from_dataclass(Base, nocast=True) is not tc.from_dataclass(Base)
    records = [tc.from_dataclass(Base(values(2))) for _ in range(2)]
    assert torch.stack(records).batch_size == (2,)


def test_fields_that_hold_dataclasses_hold_records() -> None:
    source = Holder(Plain(values(3), "i", Plain(values(3), "j")), Base(values(3)))
    record = tc.from_dataclass(source, auto_batch_size=True)
    assert type(record.inner) is tc.from_dataclass(Plain)
    assert type(record.inner.below) is tc.from_dataclass(Plain)
    assert type(record.base) is tc.from_dataclass(Base)
    assert (record.batch_size, record[0].inner.below.x, record.count) == ((3,), 0, 3)
    assert tc.from_dataclass(Holder(Plain(1.0), count=4)).base is None  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["frozen", "autocast", "nocast", "tensor_only"])
def test_options_are_those_of_records(option: str) -> None:
    made = tc.from_dataclass(dataclasses.make_dataclass("Numbers", [("x", Tensor)]), **{option: True})
    assert made._options[option] is True


def test_a_frozen_dataclass_gives_a_frozen_record() -> None:
    record = tc.from_dataclass(Fixed(values(2)), batch_size=[2])
    assert record[1].x == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.x = values(2)
    made = tc.from_dataclass(FixedMore)
    record = made.of(values(3))
    assert (type(record), record.more, record.last) == (made, [], 3)
    assert FixedMore(values(3)).last == 3


def test_a_dataclass_with_slots_gives_a_record_with_its_fields_and_methods() -> None:
    record = tc.from_dataclass(Slotted(values(2)), batch_size=[2])
    assert (record.label, record[1].doubled()) == ("a", 2)
    with pytest.raises(AttributeError):
        record.other = 1
    assert Slotted(values(2)).doubled().tolist() == [0, 2]


def test_dest_cls_is_the_class_of_the_record() -> None:
    like = dataclasses.make_dataclass("Like", ["x", "tag"])(values(2), "t")
    assert type(tc.from_dataclass(like, dest_cls=Inner, batch_size=[2])) is Inner
    with pytest.raises(TypeError, match="dest_cls must be a class of records"):
        tc.from_dataclass(like, dest_cls=Plain)
    with pytest.raises(ValueError, match="Inner has its options already"):
        tc.from_dataclass(like, dest_cls=Inner, frozen=True)


def test_what_is_about_an_instance_is_an_error_for_a_class() -> None:
    for options in ({"batch_size": [3]}, {"auto_batch_size": True}, {"device": "cpu"}, {"dest_cls": Inner}):
        with pytest.raises(ValueError, match="are about an instance; Plain is a class"):
            tc.from_dataclass(Plain, **options)  # type: ignore[arg-type]


def test_what_cannot_be_done_says_so() -> None:
    with pytest.raises(TypeError, match="inplace=True is not supported: write @tensorclass over the class"):
        tc.from_dataclass(Plain, inplace=True)
    for bad in (int, 3):
        with pytest.raises(TypeError, match="expected a dataclass"):
            tc.from_dataclass(bad)


def test_a_record_class_is_its_own() -> None:
    assert tc.from_dataclass(Inner) is Inner


def test_fields_of_make_dataclass_without_types_take_anything() -> None:
    made = dataclasses.make_dataclass("Untyped", ["x", "label", ("inner", Plain)])
    record = tc.from_dataclass(made(values(3), "a", Plain(values(3))), auto_batch_size=True)
    assert (record.batch_size, record.x[1].item(), record.label) == ((3,), 1, "a")
    assert type(record.inner) is tc.from_dataclass(Plain)
    assert type(record)(x="b", label=None, inner=record.inner[0]).x == "b"

    class Derived(TensorClass, dataclasses.make_dataclass("Untyped", ["x"])):  # type: ignore[misc]
        y: Tensor

    assert Derived(values(2), values(2), batch_size=[2])[1].x == 1


@dataclasses.dataclass
class Made:
    """Fields that the constructor computes."""

    x: Tensor
    factor: dataclasses.InitVar[float]
    y: Tensor = dataclasses.field(init=False)

    def __post_init__(self, factor: float) -> None:
        self.x = self.x + 1
        self.y = self.x * factor


@dataclasses.dataclass
class Partly:
    x: Tensor
    y: Tensor = dataclasses.field(init=False)


class HasX(Protocol):
    x: Tensor


@dataclasses.dataclass
class Implements(HasX):
    x: Tensor

    def tripled(self) -> Tensor:
        return 3 * self.x


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass(slots=True)
class Boxes(Box[int]):
    inner: Box[Tensor] | None = None


@dataclasses.dataclass
class Parent:
    x: int
    child: Child | None = None


@dataclasses.dataclass
class Child(Parent):
    friend: Friend | None = None


@dataclasses.dataclass
class Friend:
    parent: Parent | None = None
    child: Annotated[Child, "of someone"] | None = None


class Named(NamedTuple):
    plain: Plain
    number: int


@dataclasses.dataclass
class Many:
    """Instances in all containers."""

    parts: list[Plain] = dataclasses.field(default_factory=list)
    by_name: dict[str, Plain] = dataclasses.field(default_factory=dict)
    pair: tuple[int, Plain] = (0, Plain(torch.zeros(1)))
    several: tuple[Plain, ...] = ()
    named: Named | None = None
    either: Base | Fixed | None = None
    number: int | float = 1
    text: str | Plain | None = None
    numbers: list[int] = dataclasses.field(default_factory=list)
    tensors: list[Tensor] = dataclasses.field(default_factory=list)
    flag: bool = False
    phase: complex = 1j
    array: np.ndarray[Any, Any] | None = None


def test_the_record_of_an_instance_has_its_values_and_no_constructor_runs() -> None:
    source = Made(values(2), 3.0)
    record = tc.from_dataclass(source, auto_batch_size=True)
    assert (record.x.tolist(), record.y.tolist()) == ([1, 2], [3, 6])
    assert type(record).from_dataclass(source).x is source.x
    assert type(record).from_list([source, source]).x.tolist() == [[1, 2], [1, 2]]
    made = type(record)(values(2), 3.0, batch_size=[2])
    assert (made.x.tolist(), made.y.tolist()) == ([1, 2], [3, 6])


def test_an_argument_that_the_instance_does_not_keep_is_a_key_on_the_way_out() -> None:
    data = TensorDict.from_dataclass(Made(values(2), 3.0))
    with pytest.raises(tc.ConversionError, match=r"factor: expected .*float.*, got nothing: there is no such key"):
        data.to_dataclass(Made)
    back = data.set("factor", 5.0).to_dataclass(Made)
    assert (back.x.tolist(), back.y.tolist()) == ([2, 3], [3, 6])


def test_a_field_that_was_never_set_has_no_entry() -> None:
    assert list(TensorDict.from_dataclass(Partly(values(2))).keys()) == ["x"]
    record = tc.from_dataclass(Partly(values(2)))
    with pytest.raises(AttributeError):
        _ = record.y
    assert not hasattr(record.to_dataclass(Partly), "y")


def test_a_dataclass_with_a_protocol_among_its_bases_gives_a_record() -> None:
    assert tc.from_dataclass(Implements(values(2)), batch_size=[2])[1].tripled() == 3


def test_generic_dataclasses_give_records() -> None:
    record = tc.from_dataclass(Boxes(1, Box(values(2))))
    assert (record.content, type(record.inner)) == (1, tc.from_dataclass(Box))
    assert record.to_dataclass(Boxes).inner.content.tolist() == [0, 1]


def test_the_record_class_of_a_derived_dataclass_is_derived() -> None:
    assert issubclass(tc.from_dataclass(Derived), tc.from_dataclass(Base))
    assert issubclass(tc.from_dataclass(FixedMore), tc.from_dataclass(Fixed))
    record = tc.from_dataclass(Holder(Plain(values(2)), Derived(values(2), label="d")))
    assert type(record.base) is tc.from_dataclass(Derived)
    assert type(record.to_dataclass(Holder).base) is Derived


@pytest.mark.parametrize(
    "first, option", [(Parent, "nocast"), (Child, "frozen"), (Friend, "shadow")], ids=lambda one: str(one)
)
def test_dataclasses_that_name_each_other_give_records_that_do(first: Any, option: str) -> None:
    options: Any = {option: True}  # makes the classes here
    tc.from_dataclass(first, **options)
    source = Parent(1, Child(2, friend=Friend(Parent(3), Child(4))))
    record = tc.from_dataclass(source, **options)
    classes = [tc.from_dataclass(cls, **options) for cls in (Parent, Child, Friend)]
    assert [type(record), type(record.child), type(record.child.friend)] == classes
    assert [type(record.child.friend.parent), type(record.child.friend.child)] == classes[:2]
    assert record.to_dataclass(Parent) == source


def test_contracts_of_a_dataclass_are_those_of_its_record() -> None:
    @dataclasses.dataclass
    class Image:
        pixels: Annotated[Tensor, Shape("3 h w")]
        mask: Annotated[Tensor, Shape("h w")]

    @dataclasses.dataclass
    class Scene:
        image: Image
        scale: Annotated[Tensor, DType(torch.float32)]

    Scene.__annotations__["image"] = Scene.__dataclass_fields__["image"].type = Image
    assert tc.from_dataclass(Image)(torch.zeros(5, 3, 2, 2), torch.zeros(5, 2, 2)).batch_size == (5,)
    with pytest.raises(tc.ContractError, match=r"Image_tc.mask: .* w is 2 .*, but dimension 1 is 4"):
        tc.from_dataclass(Image(torch.zeros(3, 2, 2), torch.zeros(2, 4)))
    with pytest.raises(tc.ContractError) as caught:
        tc.from_dataclass(Scene(Image(torch.zeros(3, 2, 2), torch.zeros(2, 4)), torch.zeros(1, dtype=torch.int64)))
    assert [broken.path for broken in caught.value.broken] == [("image", "mask"), ("scale",)]


def test_a_class_that_cannot_be_made_leaves_nothing_behind() -> None:
    @dataclasses.dataclass
    class Wrong:
        names: list[str]
        holder: Other | None = None

    @dataclasses.dataclass
    class Other:
        wrong: Wrong | None = None

    Wrong.__annotations__["holder"] = Other | None
    Wrong.__dataclass_fields__["holder"].type = Other | None
    Other.__annotations__["wrong"] = Wrong | None
    with pytest.raises(AttributeError, match=r"members of their own with the names \['names'\]"):
        tc.from_dataclass(Wrong)
    with pytest.raises(AttributeError, match=r"members of their own with the names \['names'\]"):
        tc.from_dataclass(Other)
    assert tc.from_dataclass(Other(), shadow=True).wrong is None


def test_a_record_class_can_be_written_down_beside_the_dataclass() -> None:
    class Circles(Plain, TensorClass):
        pass

    record = Circles.from_dataclass(Plain(values(2), "b"), auto_batch_size=True)
    assert (record[1].doubled(), record.label, isinstance(record, Plain)) == (2, "b", True)


# -- pickling ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Renamed:
    x: Tensor


Decorated: Any = Renamed
Renamed = tc.from_dataclass(Renamed)  # type: ignore[misc]
Assigned_tc = tc.from_dataclass(dataclasses.make_dataclass("Assigned", [("x", Tensor)]))
Assigned_tc.__module__ = __name__


@pytest.mark.parametrize(
    "source",
    [Base(torch.ones(3)), Derived(torch.ones(3)), Fixed(torch.ones(3)), FixedMore(torch.ones(3)),
     Slotted(torch.ones(3)), Decorated(torch.ones(3)), Holder(Plain(torch.ones(3), "i", Plain(torch.ones(3), "j")))],
    ids=lambda source: type(source).__name__,
)  # fmt: skip
def test_records_of_a_dataclass_that_has_a_name_are_pickled(source: Any) -> None:
    record = tc.from_dataclass(source, auto_batch_size=True)
    again = pickle.loads(pickle.dumps(record))
    assert (type(again), again.batch_size) == (type(record), (3,))
    assert (again.to_tensordict() == record.to_tensordict()).all()
    stacked = tc.lazy_stack([record, record])
    assert type(pickle.loads(pickle.dumps(stacked))) is type(stacked)
    file = io.BytesIO()
    torch.save(record, file)
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is type(record)
    assert type(copy.deepcopy(record)) is type(record)


def test_a_pickled_record_has_the_options_of_its_class() -> None:
    made = tc.from_dataclass(Base, nocast=True)
    assert type(pickle.loads(pickle.dumps(made(values(2))))) is made is pickle.loads(pickle.dumps(made))


def test_a_record_class_under_its_own_name_is_pickled_by_that() -> None:
    assert pickle.loads(pickle.dumps(Assigned_tc)) is Assigned_tc
    assert pickle.loads(pickle.dumps(Renamed)) is Renamed


def test_records_of_a_dataclass_that_cannot_be_found_are_not_pickled() -> None:
    @dataclasses.dataclass
    class Local:
        x: Tensor

    for record in (
        tc.from_dataclass(Local(values(2))),
        tc.from_dataclass(dataclasses.make_dataclass("Made", ["x"])(1)),
    ):
        with pytest.raises(pickle.PicklingError, match=r"cannot pickle a \w+_tc: .* is not that class; define"):
            pickle.dumps(record)


# -- back -------------------------------------------------------------------------------------------------------------


def test_an_instance_comes_back() -> None:
    source = Holder(Plain(values(3), "i", Plain(values(3), "j")), count=5)
    for data in (TensorDict.from_dataclass(source), tc.from_dataclass(source)):
        back = data.to_dataclass(Holder)
        assert (type(back), type(back.inner.below), back.inner.below.label) == (Holder, Plain, "j")
        assert back.inner.x is source.inner.x
        assert (back.base, back.count) == (None, 5)


numbers = st.integers(-(2**63), 2**63 - 1)
plains = st.builds(Plain, st.just(torch.ones(2)), st.text(max_size=2))


@given(
    st.builds(
        Many,
        parts=st.lists(plains, max_size=2),
        by_name=st.dictionaries(st.sampled_from(["k", "l"]), plains),
        pair=st.tuples(numbers, plains),
        several=st.lists(plains, max_size=2).map(tuple),
        named=st.none() | st.builds(Named, plains, numbers),
        either=st.none() | st.builds(Base, st.just(torch.ones(2))) | st.builds(Fixed, st.just(torch.ones(2))),
        number=numbers | st.floats(width=32, allow_nan=False),
        text=st.none() | st.text(max_size=2) | plains,
        numbers=st.lists(numbers, max_size=3),
        tensors=st.lists(st.just(torch.ones(2)), max_size=2),
        flag=st.booleans(),
        phase=st.just(2j),
        array=st.none() | st.just(np.arange(3)),
    )
)
def test_what_holds_instances_comes_back_as_the_annotations_say(source: Many) -> None:
    for made in (tc.from_dataclass(source), TensorDict.from_dataclass(source)):
        back = made.to_dataclass(Many)
        assert _plainly(back) == _plainly(source)


def _plainly(value: Any) -> Any:
    """Convert to classes and lists, for comparisons."""
    if isinstance(value, (Tensor, np.ndarray)):
        return type(value), value.dtype, value.tolist()
    if dataclasses.is_dataclass(value):
        return type(value), {f.name: _plainly(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return type(value), [_plainly(item) for item in value]
    if isinstance(value, dict):
        return {key: _plainly(item) for key, item in value.items()}
    return type(value), value


def test_a_number_that_requires_a_gradient_stays_a_tensor() -> None:
    loss = torch.tensor(1.0, requires_grad=True)
    back = TensorDict({"number": loss}).to_dataclass(Many)
    assert back.number is loss  # type: ignore[comparison-overlap]


def test_the_rows_of_a_batch_are_instances() -> None:
    rows = [Plain(values(2), "a"), Plain(values(2) + 1, "b", Plain(values(1)))]
    same = [Plain(values(2), "a"), Plain(values(2) + 1, "b")]
    for cls in (TensorDict, tc.from_dataclass(Plain)):
        for given_rows in (rows, same):
            batch = cls.from_list(given_rows)
            assert [_plainly(row.to_dataclass(Plain)) for row in batch] == [_plainly(row) for row in given_rows]


def test_keys_that_are_not_the_fields_are_an_error_that_lists_all_of_them() -> None:
    with pytest.raises(tc.ConversionError) as caught:
        TensorDict({"y": 1, "below": {"label": "b"}}).to_dataclass(Plain)
    assert str(caught.value) == (
        "to_dataclass: 3 problems; nothing was made\n"
        "  below.x: expected Tensor, got nothing: there is no such key\n"
        "  x: expected Tensor, got nothing: there is no such key\n"
        "  y: expected one of the fields 'x', 'label', 'below' of Plain, got a key that is none of them"
    )
    with pytest.raises(TypeError, match="expected a dataclass, got <class 'int'>"):
        TensorDict({"y": 1}).to_dataclass(int)
