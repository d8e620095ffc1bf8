"""Defaults, ``field()``, class variables, and ``__post_init__``."""

import dataclasses
import inspect
from dataclasses import KW_ONLY, InitVar, field
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tensorclass import Column, Ragged, TensorClass, Text
from tests.records.classes import MakeForm


def test_a_default_stands_for_a_field_that_is_not_given(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Default(base):
        x: Tensor
        tag: str = "default"
        y: Tensor | None = None

    record = Default(torch.zeros(2), batch_size=[2])
    assert (record.tag, record.y) == ("default", None)


def test_a_default_factory_is_called_for_each_record(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Default(base):
        x: Tensor = field(default_factory=lambda: torch.zeros(2))

    assert Default().x is not Default().x


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        class Default(TensorClass):
            x: list = []


def test_a_field_without_default_after_one_with_default_is_refused(form: MakeForm) -> None:
    decorate, base, _ = form()
    with pytest.raises(TypeError, match="'b' without a default follows 'a'"):

        @decorate
        class Wrong(base):
            a: Tensor | None = None
            b: Tensor


def test_a_field_with_init_false_is_no_argument_and_has_its_default(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Counted(base):
        x: Tensor
        count: int = field(default=3, init=False)
        made: Tensor = field(default_factory=lambda: torch.ones(2), init=False)

    record = Counted(torch.zeros(2), batch_size=[2])
    assert (record.count, record.made.tolist()) == (3, [1, 1])
    assert "count" not in inspect.signature(Counted).parameters


def test_a_field_with_init_false_can_be_set_after_init(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Total(base):
        x: Tensor
        total: Tensor = field(init=False)

        def __post_init__(self) -> None:
            self.total = self.x * 2

    assert Total(torch.ones(2), batch_size=[2]).total.tolist() == [2, 2]


def test_a_field_that_was_never_set_cannot_be_read() -> None:
    class Unset(TensorClass):
        total: Tensor = field(init=False)

    with pytest.raises(AttributeError, match=r"Unset\.total is not set"):
        Unset().total


def test_a_field_with_repr_false_is_not_shown() -> None:
    class Hidden(TensorClass):
        x: Tensor
        secret: str = field(default="hidden", repr=False)

    assert "hidden" not in repr(Hidden(torch.zeros(2)))


def test_metadata_of_field_is_kept() -> None:
    class Documented(TensorClass):
        x: Tensor = field(metadata={"unit": "m"})

    assert dataclasses.fields(Documented)[0].metadata["unit"] == "m"


def test_a_keyword_only_field_comes_after_the_positional_ones(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Mixed(base):
        a: Tensor = field(kw_only=True)
        b: Tensor

    assert list(inspect.signature(Mixed).parameters)[:2] == ["b", "a"]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'a'"):
        Mixed(torch.zeros(2))


def test_fields_behind_the_kw_only_mark_are_keyword_only(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Marked(base):
        a: Tensor
        _: KW_ONLY
        b: Tensor

    assert Marked(torch.zeros(2), b=torch.ones(2)).b.tolist() == [1, 1]
    with pytest.raises(TypeError, match="positional"):
        Marked(torch.zeros(2), torch.zeros(2))


def test_init_vars_are_given_to_post_init_and_are_no_fields(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Scaled(base):
        x: Tensor
        scale: InitVar[float]
        shift: InitVar[float] = 1.0

        def __post_init__(self, scale: float, shift: float) -> None:
            self.x = self.x * scale + shift

    assert Scaled(torch.ones(2), 3.0, batch_size=[2]).x.tolist() == [4, 4]
    assert [f.name for f in dataclasses.fields(Scaled)] == ["x"]


def test_class_variables_are_no_fields(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class WithClassVar(base):
        x: Tensor
        count: ClassVar[int] = 3

    assert WithClassVar.count == 3
    assert [f.name for f in dataclasses.fields(WithClassVar)] == ["x"]
    assert "count" not in inspect.signature(WithClassVar).parameters


def test_post_init_runs_after_the_fields_are_set(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Checked(base):
        x: Tensor

        def __post_init__(self) -> None:
            if (self.x < 0).any():
                raise ValueError("negative")

    with pytest.raises(ValueError, match="negative"):
        Checked(torch.tensor([-1.0]))


def test_post_init_does_not_run_for_results_of_operations() -> None:
    runs = []

    class Counted(TensorClass):
        x: Tensor

        def __post_init__(self) -> None:
            runs.append(1)

    record = Counted(torch.zeros(2), batch_size=[2])
    torch.stack([record[0], record.clone()[1] + 1])
    assert len(runs) == 1


class Defaults(TensorClass):
    x: Tensor
    tags: Column[list[str]] = field(default_factory=list)
    prompt: Text = ""
    tokens: Ragged = field(default_factory=list)
    weights: Ragged = field(default_factory=lambda: [0.5, 0.5])
    level: Column[int] = 3


@pytest.mark.parametrize("size", [[], [1], [3], [0], [2, 2], [2, 0]], ids=str)
def test_each_row_gets_the_default_of_a_column(size: list[int]) -> None:
    record = Defaults(torch.zeros(*size, 4), batch_size=size)
    flat = record.reshape(-1)
    count = flat.shape[0]
    assert all(value.shape[: len(size)] == record.batch_size for value in record.values())
    assert flat.tags.tolist() == [[]] * count
    assert flat.prompt.tolist() == [""] * count
    assert flat.tokens.tolist() == [[]] * count
    assert flat.weights.tolist() == [[0.5, 0.5]] * count
    assert flat.level.tolist() == [3] * count


def test_rows_get_a_default_object_of_their_own() -> None:
    first, second = Defaults(torch.zeros(2), batch_size=[2]).tags
    assert first is not second


def test_a_column_without_batch_dimensions_is_a_default_row() -> None:
    class Named(TensorClass):
        name: Text
        tags: Column[list[str]] = field(default_factory=lambda: Column([list[str]()], batch_size=()))
        tokens: Ragged = field(default_factory=lambda: Ragged([[1, 2]])[0])

    record = Named(["a", "b"])
    assert (record.tags.tolist(), record.tokens.tolist()) == ([[], []], [[1, 2], [1, 2]])
    assert record.tags[0] is not record.tags[1]
    assert Named("a").tags.item() == []


def test_a_default_with_rows_of_its_own_tells_the_batch_size() -> None:
    class Named(TensorClass):
        name: Text = field(default_factory=lambda: ["a", "b"])
        tags: Column[list[str]] = field(default_factory=lambda: [["u"], ["v"]])

    assert Named().batch_size == (2,)
    assert Named().tags.tolist() == [["u"], ["v"]]


def test_the_default_row_of_a_column_tells_no_batch_size() -> None:
    class Named(TensorClass):
        level: Column[int] = 3
        tags: Column[list[str]] = field(default_factory=list)
        name: Text = ""

    assert Named(name=["a", "b"]).level.tolist() == [3, 3]
    assert Named().tags.item() == []


def test_columns_that_a_pickle_lacks_get_their_default_in_each_row() -> None:
    record = Defaults._from_finished({"x": torch.zeros(2)}, [2], None, None)
    assert (record.tags.tolist(), record.level.tolist()) == ([[], []], [3, 3])


def test_a_default_that_does_not_fit_a_column_is_refused() -> None:
    class Wrong(TensorClass):
        level: Column[int] = "high"

    with pytest.raises(TypeError, match=r"Wrong\.level: .*a sequence with an object for each row, got a str"):
        Wrong(batch_size=[2])
