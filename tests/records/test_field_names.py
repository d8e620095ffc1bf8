"""Fields of any name: each makes a class that works, or is refused by its name."""

from __future__ import annotations

import linecache
import re
import types
import typing
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from tensorclass import TensorClass, TensorDict, TypedTensorDict, tensorclass


class Inner(TensorClass):
    x: Float[Tensor, "n"]


#: each way in which the generated text enters a field
KINDS: dict[str, Any] = {
    "tensor": Tensor,
    "optional": typing.Optional[Tensor],
    "contract": Float[Tensor, "n m"],
    "bound twice": Float[Tensor, "m"],
    "record": Inner,
    "object": str,
    "anything": Any,
    "later": "NotDefinedYet",
}
VALUES: dict[str, Any] = {
    "tensor": torch.zeros(2, 3),
    "optional": None,
    "contract": torch.zeros(2, 3, 4),
    "bound twice": torch.zeros(2, 4),
    "record": Inner(torch.zeros(2, 3)),
    "object": "text",
    "anything": "text",
    "later": None,
}


def made(annotations: dict[str, Any], base: Any = TensorClass, **options: Any) -> Any:
    def body(space: dict[str, Any]) -> None:
        space.update(__annotations__=dict(annotations), __module__=__name__)

    return types.new_class("Sample", (base,), options, body)


def words() -> set[str]:
    """The identifiers in the texts that are generated for a class that has all of it."""
    cls = made({f"field_{i}": kind for i, kind in enumerate(KINDS.values())})
    assert cls is not None
    texts = ["".join(lines) for name, (_, _, lines, *_) in _generated() if "Sample" in name]
    assert texts
    return {word for text in texts for word in re.findall(r"[^\W\d]\w*", text)}


def _generated() -> Iterator[tuple[str, Any]]:
    return ((name, entry) for name, entry in list(linecache.cache.items()) if name.startswith("<generated"))


WORDS = sorted(
    {*words(), "self", "cls", "_", "__class__", "__dict__", "__slots__", "__init__", "__doc__", "ﬁ", "match"}
)
names = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(lambda word: f"_{word}"),
    st.sampled_from(WORDS).map(lambda word: f"__default_{word}"),
    st.from_regex(r"[^\W\d]\w{0,5}", fullmatch=True),
)


@given(st.lists(st.tuples(names, st.sampled_from(sorted(KINDS))), min_size=1, max_size=4, unique_by=lambda one: one[0]))
@example([(name, "tensor") for name in ("__size", "x")])
@example([(name, "contract") for name in ("__store", "x")])
@example([(name, "record") for name in ("__errors", "__entered")])
@example([("__class__", "tensor")])
@example([("class", "tensor")])
@example([("get", "anything"), ("clone", "tensor"), ("validate", "tensor")])
@example([("self", "record"), ("isinstance", "contract"), ("len", "bound twice"), ("Tensor", "tensor")])
def test_a_field_of_any_name_works_or_is_refused_by_its_name(fields: list[tuple[str, str]]) -> None:
    annotations = {name: KINDS[kind] for name, kind in fields}
    values = {name: VALUES[kind] for name, kind in fields}
    try:
        cls = made(annotations)
    except AttributeError as error:
        text = str(error)
        assert any(repr(name) in text for name in annotations), text
        return
    record = cls(**values, batch_size=[2])
    for name, value in values.items():
        assert getattr(record, name) is value or isinstance(value, (str, Inner))
        assert (TensorClass.get(record, name, None) is not None) == (value is not None)  # a field can be called get
    with pytest.raises((TypeError, RuntimeError, NameError)):
        cls(**dict.fromkeys(values, torch.zeros(7, 7, 7, 7)), batch_size=[3])
    assert torch.stack([record, record])[0].batch_size == record[:].batch_size == TensorClass.clone(record).batch_size
    TensorClass.validate(record)


@pytest.mark.parametrize(
    "name", ["__size", "__store", "__self", "__default_a", "__class__", "__dict__", "class", "a b", "ﬁ"]
)
def test_names_that_no_field_can_have_are_named(name: str) -> None:
    for base in (TensorClass, TypedTensorDict):
        with pytest.raises(AttributeError, match=f"^Sample: no (field|key) can be .*{name!r}.*rename"):
            made({name: Tensor, "a": Tensor}, base)


def test_what_a_collection_keeps_cannot_be_hidden() -> None:
    for name in ("_store", "_batch_size", "_lock", "_device", "_names", "_context"):
        for base in (TensorClass, TypedTensorDict):
            with pytest.raises(AttributeError, match=f"Sample: .*'{name}'.* cannot be hidden; rename"):
                made({name: Tensor}, base, shadow=True)


def test_names_that_are_mangled_are_fields() -> None:
    class Sample(TensorClass):
        __size: Tensor
        __slots: ClassVar[int] = 3

    assert [f.name for f in Sample.fields()] == ["_Sample__size"]
    assert Sample(torch.zeros(2)).get("_Sample__size").shape == (2,)

    @tensorclass
    class Other:
        __slots__: ClassVar[tuple[str, ...]] = ()
        __hash__: ClassVar[None] = None  # type: ignore[assignment]
        a: Tensor

    assert TensorDict.from_any(Other(torch.zeros(2))) is not None
