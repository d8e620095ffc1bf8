"""What annotations mean, and which values fit them."""

import enum
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import numpy as np
import pytest
import torch
import typing_extensions
from jaxtyping import Float, Int
from torch import Tensor, nn

from tensorclass import NonTensorData, NonTensorStack, TensorClass, TensorCollection, TensorDict, TensorDictBase
from tensorclass.records.fields import Kind, Meaning, Unresolved, classify

T = TypeVar("T")
BoundT = TypeVar("BoundT", bound=Tensor)
ChoiceT = TypeVar("ChoiceT", int, str)
UserId = NewType("UserId", int)
Image = NewType("Image", Tensor)
Alias = typing_extensions.TypeAliasType("Alias", Tensor | None)
Shape = Float[Tensor, "3 h w"]


class Color(enum.Enum):
    RED = 1


class Movie(TypedDict):
    title: str


class Drawable(Protocol):
    def draw(self) -> None: ...


@typing.runtime_checkable
class Closable(Protocol):
    def close(self) -> None: ...


class Inner(TensorClass):
    value: Tensor


class Other(TensorClass):
    other: Tensor


class Box(TensorClass, Generic[T]):
    value: T


def label(value: Any) -> str:
    """A name of a case that is the same in every process."""
    return re.sub(r" at 0x\w+", "", str(value))


def record_with(annotation: Any, **options: bool) -> Any:
    """A record with one field ``x`` of that annotation."""

    class Record(TensorClass, **{"stack_objects": True, **options}):
        x: annotation

    return Record


@pytest.mark.parametrize(
    "annotation, meaning",
    [
        (Tensor, Meaning(Kind.TENSOR, (Tensor,))),
        (nn.Parameter, Meaning(Kind.TENSOR, (nn.Parameter,))),
        (Float[Tensor, "3 h w"], Meaning(Kind.TENSOR, (Tensor,))),
        (Annotated[Tensor, "pixels"], Meaning(Kind.TENSOR, (Tensor,))),
        (Final[Tensor], Meaning(Kind.TENSOR, (Tensor,))),
        (Image, Meaning(Kind.TENSOR, (Tensor,))),
        (BoundT, Meaning(Kind.TENSOR, (Tensor,))),
        (Tensor | None, Meaning(Kind.TENSOR, (Tensor,), True)),
        (Optional[Tensor], Meaning(Kind.TENSOR, (Tensor,), True)),
        (Float[Tensor, "n"] | None, Meaning(Kind.TENSOR, (Tensor,), True)),
        (Annotated[Tensor | None, "pixels"], Meaning(Kind.TENSOR, (Tensor,), True)),
        (Alias, Meaning(Kind.TENSOR, (Tensor,), True)),
        (Float[Tensor, "n"] | Int[Tensor, "n"], Meaning(Kind.TENSOR, (Tensor,))),
        (Inner, Meaning(Kind.COLLECTION, (Inner,))),
        (Inner | Other, Meaning(Kind.COLLECTION, (Inner, Other))),
        (Inner | None, Meaning(Kind.COLLECTION, (Inner,), True)),
        (Box[Tensor], Meaning(Kind.COLLECTION, (Box,))),
        (TensorDict, Meaning(Kind.COLLECTION, (TensorDict,))),
        (TensorDictBase, Meaning(Kind.COLLECTION, (TensorCollection,))),
        (typing_extensions.Self, Meaning(Kind.COLLECTION, (Inner,))),
        (str, Meaning(Kind.OBJECT, (str,))),
        (int | str, Meaning(Kind.OBJECT, (int, str))),
        (Union[int, str, None], Meaning(Kind.OBJECT, (int, str), True)),
        (list[str], Meaning(Kind.OBJECT, (list,))),
        (Mapping[str, Tensor], Meaning(Kind.OBJECT, (Mapping,))),
        (Callable[[int], str], Meaning(Kind.OBJECT, (Callable,))),
        (Color, Meaning(Kind.OBJECT, (Color,))),
        (UserId, Meaning(Kind.OBJECT, (int,))),
        (ChoiceT, Meaning(Kind.OBJECT, (int, str))),
        (Closable, Meaning(Kind.OBJECT, (Closable,))),
        (None, Meaning(Kind.OBJECT, (type(None),), True)),
        (Literal["a", "b"], Meaning(Kind.OBJECT, (str,), False, ("a", "b"))),
        (Literal["a", 1, None], Meaning(Kind.OBJECT, (str, int), True, ("a", 1))),
        (Literal["a"] | None, Meaning(Kind.OBJECT, (str,), True, ("a",))),
        (Literal["a"] | Literal[1], Meaning(Kind.OBJECT, (str, int), False, ("a", 1))),
        (Literal["a"] | int, Meaning(Kind.OBJECT, (str, int))),
        (Tensor | int, Meaning(Kind.ANY, (Tensor, int))),
        (Inner | Tensor | None, Meaning(Kind.ANY, (Inner, Tensor), True)),
        (Any, Meaning(Kind.ANY, optional=True)),
        (object, Meaning(Kind.ANY, optional=True)),
        (NonTensorData, Meaning(Kind.ANY, optional=True)),
        (T, Meaning(Kind.ANY, optional=True)),
        (Tensor | Any, Meaning(Kind.ANY, optional=True)),
        (Drawable, Meaning(Kind.ANY)),
        (Movie, Meaning(Kind.ANY)),
    ],
    ids=label,
)
def test_meaning_of_an_annotation(annotation: Any, meaning: Meaning) -> None:
    assert classify(annotation, {}, {}, Inner) == meaning


@pytest.mark.parametrize(
    "text", ["Tensor", "typing.Annotated[Tensor, 'x']", "'Tensor'", "Image", 'Float[Tensor, "3 h w"]', "Local"]
)
def test_meaning_of_an_annotation_that_is_text(text: str) -> None:
    assert classify(text, globals(), {"Local": Tensor}).kind is Kind.TENSOR


def test_an_optional_forward_reference_is_resolved_inside() -> None:
    assert classify(Optional["Inner"], globals(), {}) == Meaning(Kind.COLLECTION, (Inner,), True)


def test_a_name_that_is_not_defined_is_not_resolved() -> None:
    with pytest.raises(Unresolved):
        classify("Nowhere | None", globals(), {})


@pytest.mark.parametrize(
    "annotation, value",
    [
        (Tensor, torch.zeros(2)),
        (nn.Parameter, torch.zeros(2)),
        (Float[Tensor, "n"], torch.zeros(2)),
        (str, "text"),
        (int, 3),
        (int, True),
        (float, 3),
        (complex, 3.0),
        (list[str], ["a", "b", "c"]),
        (Sequence[int], (1, 2)),
        (Iterable, {1: 2}),
        (dict[str, int], {"a": 1}),
        (Path, Path("a")),
        (Color, Color.RED),
        (UserId, 3),
        (type[int], int),
        (Callable[..., Any], print),
        (Literal["a", 1], 1),
        (Drawable, object()),
        (Movie, {"title": "a"}),
        (Any, "text"),
        (object, 3),
        (T, ["a"]),
        (int | str, "text"),
        (Tensor | str, "text"),
        (Tensor | str, torch.zeros(2)),
        (Tensor | int, 3),
        (Inner | Tensor, torch.zeros(2)),
        (np.ndarray, np.zeros(2)),
        (np.ndarray | Tensor, np.zeros(2)),
    ],
    ids=label,
)
def test_a_value_that_fits_is_kept_as_it_is(annotation: Any, value: Any) -> None:
    assert record_with(annotation)(value).x is value


@pytest.mark.parametrize(
    "annotation, value",
    [
        (Tensor, 3),
        (Tensor, 3.5),
        (Tensor, True),
        (Tensor, [1, 2]),
        (Tensor, [[1, 2], [3, 4]]),
        (Tensor, (1.0, 2.0)),
        (Tensor, np.arange(3)),
        (Tensor, np.float32(3)),
        (Tensor, [np.zeros(2), np.ones(2)]),
        (Tensor, [torch.zeros(2), torch.ones(2)]),
        (Tensor | str, [1, 2]),
        (Tensor | Inner, 3),
        (Any, np.arange(3)),
    ],
    ids=label,
)
def test_numbers_and_arrays_become_tensors(annotation: Any, value: Any) -> None:
    stored = record_with(annotation)(value).x
    assert isinstance(stored, Tensor)
    assert stored.tolist() == torch.as_tensor(np.asarray(value)).tolist()


def test_an_array_shares_its_memory_with_the_tensor() -> None:
    array = np.zeros(2)
    record_with(Tensor)(array).x[0] = 1
    assert array[0] == 1


@pytest.mark.parametrize(
    "annotation, value",
    [
        (Tensor, "text"),
        (Tensor, None),
        (Tensor, {"a": 1}),
        (Tensor, ["a"]),
        (Tensor, [[1], [2, 3]]),
        (Tensor, TensorDict({})),
        (Tensor, NonTensorData("a")),
        (Inner, "text"),
        (Inner, torch.zeros(2)),
        (Inner, 3),
        (Inner, Other(torch.zeros(2))),
        (Inner | TensorDict, torch.zeros(2)),
        (TensorDict, torch.zeros(2)),
        (str, 3),
        (str, torch.zeros(2)),
        (str, None),
        (str, [3]),
        (int, 3.0),
        (int, torch.tensor(3)),
        (float, True),
        (float, "3"),
        (bool, 1),
        (list[str], ("a",)),
        (Color, 1),
        (UserId, "a"),
        (int | str, 3.0),
        (ChoiceT, 3.0),
        (Literal["a", 1], "b"),
        (Literal["a", 1], True),
        (Literal["a"] | None, "b"),
        (Tensor | int, "text"),
        (Tensor | int, None),
        (Tensor | int, Inner(torch.zeros(2))),
        (Inner | Tensor, Other(torch.zeros(2))),
        (Inner | Tensor, "text"),
        (Inner | str, 3),
        (Drawable, None),
        (str, NonTensorData(3)),
        (str | None, NonTensorStack("a", 3)),
        (Tensor | str, NonTensorData(3)),
        (Literal["a"], NonTensorData("b")),
    ],
    ids=label,
)
def test_a_value_that_does_not_fit_is_a_type_error_that_says_so(annotation: Any, value: Any) -> None:
    advice = "give it that type, or change the annotation"
    if value is None:
        advice = r"to allow None, declare x: .+ \| None$"
    elif annotation is Tensor and isinstance(value, list):
        advice = ".*declared x: (Text|Ragged)"
    with pytest.raises(TypeError, match=rf"^Record\.x: expected .+, got \w+.*; {advice}"):
        record_with(annotation)(value)


def test_the_error_does_not_show_a_long_value() -> None:
    with pytest.raises(TypeError, match=r"expected int, got str; give"):
        record_with(int)("long " * 20)


@pytest.mark.parametrize("annotation", [str, str | None, Literal["a", "b"]], ids=label)
def test_the_error_for_a_list_with_an_object_for_each_row_says_what_lacks(annotation: Any) -> None:
    with pytest.raises(
        TypeError, match=r"got list .*; it has an object for each row of a batch: give batch_size=\[2\]$"
    ):
        record_with(annotation)(["a", "b"])


@pytest.mark.parametrize(
    "annotation", [Any, object, T, Tensor | None, Inner | None, str | None, Literal["a", None], None]
)
def test_none_fits_an_optional_field(annotation: Any) -> None:
    assert record_with(annotation)(None).x is None


def test_a_default_of_none_makes_a_field_optional() -> None:
    class Record(TensorClass):
        x: Tensor = None

    assert Record().x is None
    assert Record(torch.zeros(2)).x.tolist() == [0, 0]


# -- one object for each row ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation, column",
    [
        (str, ["a", "b"]),
        (str | None, ["a", None]),
        (str | int, ["a", 1]),
        (Literal["a", "b"], ["a", "b"]),
        (Tensor | str, ["a", "b"]),
        (float, [1, 2.5]),
        (Color, [Color.RED, Color.RED]),
        (list | None, [["a"], None]),
    ],
    ids=label,
)
def test_a_list_with_one_object_for_each_row(annotation: Any, column: list[Any]) -> None:
    record = record_with(annotation)(column, batch_size=[2])
    assert [row.x for row in record] == column if annotation != list | None else record.x == column


def test_nested_lists_follow_the_batch_dimensions() -> None:
    record = record_with(str)([["a", "b", "c"], ["d", "e", "f"]], batch_size=[2, 3])
    assert record[1, 2].x == "f"
    assert record[:, 1].x == ["b", "e"]


def test_nested_lists_that_are_ragged_are_refused() -> None:
    with pytest.raises((TypeError, RuntimeError)):
        record_with(str)([["a", "b", "c"], ["d", "e"]], batch_size=[2, 3])


def test_a_list_for_a_field_of_lists_is_one_object() -> None:
    record = record_with(list[str])(["a", "b"], batch_size=[2])
    assert record[0].x == ["a", "b"]


@pytest.mark.parametrize("column", [["a", 3], ["a", None], ["a"]], ids=label)
def test_a_list_with_an_object_that_does_not_fit_is_refused(column: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"Record\.x: expected str, got list"):
        record_with(str)(column, batch_size=[2])


@pytest.mark.parametrize(
    "stored", [NonTensorData("a", batch_size=[2]), NonTensorStack("a", "b")], ids=["data", "stack"]
)
def test_non_tensor_data_is_stored_as_it_is(stored: Any) -> None:
    assert record_with(str)(stored, batch_size=[2]).get("x") is stored


def test_non_tensor_data_of_another_batch_size_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"x: .*\[3\]"):
        record_with(str)(NonTensorStack("a", "b"), batch_size=[3])


# -- tensors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation, value",
    [(a, v) for a in (Tensor, Tensor | str) for v in (torch.zeros(3), [1, 2, 3], 3, np.zeros((3, 2)))]
    + [(Any, torch.zeros(3)), (Any, np.zeros(3))],
    ids=label,
)
def test_the_batch_size_is_checked_whatever_becomes_a_tensor(annotation: Any, value: Any) -> None:
    with pytest.raises(RuntimeError, match=r"x: batch dimension mismatch: expected batch dimensions \[2\]"):
        record_with(annotation)(value, batch_size=[2])


@pytest.mark.parametrize("value", [torch.zeros(2), [1, 2], np.zeros(2)], ids=["tensor", "list", "array"])
@pytest.mark.parametrize("annotation", [Tensor, Tensor | str], ids=label)
def test_a_value_that_becomes_a_tensor_goes_to_the_device(annotation: Any, value: Any) -> None:
    assert record_with(annotation)(value, device="meta").x.is_meta


@pytest.mark.parametrize("value", [3, [1, 2], np.zeros(2)], ids=["number", "list", "array"])
@pytest.mark.parametrize("annotation", [Tensor, Tensor | str], ids=label)
def test_nocast_takes_tensors_only(annotation: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"Record\.x: expected"):
        record_with(annotation, nocast=True)(value)


def test_nocast_leaves_an_array_an_object_where_any_value_will_do() -> None:
    array = np.zeros(2)
    assert record_with(Any, nocast=True)(array).x is array


@pytest.mark.parametrize("annotation", [int, Any, int | str, Tensor, Tensor | str])
def test_with_tensor_only_numbers_become_tensors(annotation: Any) -> None:
    record = record_with(annotation, tensor_only=True)([1, 2], batch_size=[2])
    assert record[1].x.item() == 2


def test_with_tensor_only_records_stay_records() -> None:
    assert type(record_with(Inner, tensor_only=True)({"value": 3}).x) is Inner


def test_a_tensor_only_child_takes_tensors_for_inherited_fields() -> None:
    class Child(record_with(int), tensor_only=True):
        pass

    assert isinstance(Child(3).x, Tensor)


# -- autocast ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation, value, expected",
    [
        (int, "3", 3),
        (int, 3.7, 3),
        (int, torch.tensor(3), 3),
        (str, 3, "3"),
        (float, "2.5", 2.5),
        (bool, 1, True),
        (list[int], (1, 2), [1, 2]),
        (Path, "a/b", Path("a/b")),
        (Color, 1, Color.RED),
        (int | None, "3", 3),
        (Literal["1"], 1, "1"),
    ],
    ids=label,
)
def test_autocast_converts_to_the_annotated_type(annotation: Any, value: Any, expected: Any) -> None:
    stored = record_with(annotation, autocast=True)(value).x
    assert stored == expected
    assert type(stored) is type(expected)


@pytest.mark.parametrize(
    "annotation, value", [(int, "three"), (Color, 2), (Literal["1"], 2), (str, TensorDict({}))], ids=label
)
def test_autocast_refuses_what_cannot_be_converted(annotation: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"Record\.x: expected"):
        record_with(annotation, autocast=True)(value)


def test_autocast_makes_a_record_of_another_one_with_the_same_fields() -> None:
    class Twin(TensorClass):
        value: Tensor

    stored = record_with(Inner, autocast=True)(Twin(torch.zeros(2), batch_size=[2])).x
    assert type(stored) is Inner
    assert stored.batch_size == torch.Size([2])


# -- collections ------------------------------------------------------------------------------------------------------


def test_of_several_records_the_one_whose_fields_a_dict_has_is_made() -> None:
    assert type(record_with(Inner | Other)({"other": 1}).x) is Other
    assert type(record_with(Inner | Other)({"value": 1}).x) is Inner


def test_a_dict_that_has_the_fields_of_no_record_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Record\.x: Other: .*missing: \['other'\]"):
        record_with(Inner | Other)({"unknown": 1})


def test_a_dict_becomes_a_record_where_the_field_takes_a_tensor_too() -> None:
    assert type(record_with(Inner | Tensor)({"value": 1}).x) is Inner


def test_a_field_of_any_collection_keeps_the_one_it_gets() -> None:
    inner = Inner(torch.zeros(2))
    assert record_with(TensorCollection)(inner).x is inner
    assert type(record_with(TensorCollection)({"a": 1}).x) is TensorDict


def test_a_field_of_any_value_keeps_dicts_as_objects() -> None:
    assert record_with(Any)({"a": 1}).x == {"a": 1}


def test_self_is_the_record_itself() -> None:
    class Node(TensorClass):
        value: Tensor
        child: typing_extensions.Self | None = None

    assert type(Node(1, {"value": 2}).child) is Node
    with pytest.raises(TypeError, match=r"Node\.child: expected"):
        Node(1, Inner(torch.zeros(())))


def test_a_class_that_is_defined_later_is_found_when_the_first_value_comes() -> None:
    assert type(Early(1, {"value": 2}).later) is Later
    with pytest.raises(TypeError, match=r"Early\.later: expected Later \| None, got str"):
        Early(1, "text")
    assert Early(1).later is None


class Early(TensorClass):
    value: Tensor
    later: "Later | None" = None
    required: "Later" = None


class Later(TensorClass):
    value: Tensor


def test_none_for_a_class_that_is_defined_later_is_refused_where_the_field_is_not_optional() -> None:
    with pytest.raises(TypeError, match=r"Strict\.later: expected DefinedLater"):
        Strict(None)


class Strict(TensorClass):
    later: "DefinedLater"


class DefinedLater(TensorClass):
    value: Tensor


def test_two_classes_can_refer_to_each_other() -> None:
    parent = Parent(torch.zeros(2), Child(torch.ones(2), batch_size=[2]), batch_size=[2])
    parent.child.parent = {"value": torch.ones(2)}
    assert type(parent[0].child.parent) is Parent


class Parent(TensorClass):
    value: Tensor
    child: "Child | None" = None


class Child(TensorClass):
    value: Tensor
    parent: "Parent | None" = None


def test_a_local_class_that_is_defined_later_is_known_by_its_instances() -> None:
    class First(TensorClass):
        second: "Second | None"

    class Second(TensorClass):
        value: Tensor

    second = Second(torch.zeros(2), batch_size=[2])
    record = First(second, batch_size=[2])
    assert record.second is second
    assert type(record[0].second) is Second
    record.second = None
    del record.second
    assert record.second is First(None).second is None
    with pytest.raises(TypeError, match="second"):
        First(torch.zeros(2), batch_size=[2])


def test_an_annotation_that_names_nothing_is_an_error_when_a_value_comes() -> None:
    class Record(TensorClass):
        x: "Tensr"  # type: ignore[name-defined]

    with pytest.raises(NameError, match=r"Record\.x.*'Tensr'.*Tensor"):
        Record(torch.zeros(2), batch_size=[2])
    with pytest.raises(NameError, match=r"Record\.x"):
        Record("text")


def test_names_of_a_function_around_are_found() -> None:
    Local = Tensor

    class Record(TensorClass):
        x: "Local"

    assert isinstance(Record(3).x, Tensor)


def test_names_in_the_body_of_the_class_are_found() -> None:
    class Outer(TensorClass):
        class Part(TensorClass):
            value: Tensor

        part: "Part"

    assert type(Outer({"value": 3}).part) is Outer.Part


def test_the_body_of_a_class_around_is_not_searched() -> None:
    class Around:
        Tensor = str  # hides nothing: names in the body of a class are not seen in classes within

        class Record(TensorClass):
            x: "Tensor"

    assert isinstance(Around.Record(3).x, Tensor)


def test_names_of_code_that_is_run_with_names_of_its_own_are_found() -> None:
    names: dict[str, Any] = {"__name__": __name__, "TensorClass": TensorClass, "Renamed": Tensor}
    exec("class Record(TensorClass):\n    x: 'Renamed'", names)
    assert isinstance(names["Record"](3).x, Tensor)


def test_inherited_annotations_are_read_in_the_module_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    vars(module).update(TensorClass=TensorClass)
    exec("class Base(TensorClass):\n    x: 'Elsewhere'", vars(module))
    module.Elsewhere = Tensor

    class First(TensorClass):
        y: Tensor

    class Both(First, module.Base):
        pass

    assert isinstance(Both(x=3, y=4).x, Tensor)
