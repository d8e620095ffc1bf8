"""The long and the compact form: keys with shapes, dtypes and devices, never the content of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensordict
import torch
from hypothesis import given

import tensorclass
from tensorclass import (
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    set_printoptions,
)
from tests import strategies as draw
from tests.samples import nested


@pytest.fixture(autouse=True)
def _long() -> Iterator[None]:
    with set_printoptions(style="long"):
        yield


class Record(TensorClass):
    """A record that is shown among other values."""

    x: torch.Tensor
    text: str = "t"


def test_a_collection_shows_every_key_and_its_metadata() -> None:
    data = TensorDict(
        {"a": torch.zeros(3, 2), "b": {"c": torch.zeros(3, dtype=torch.int64)}, "text": "hello"},
        [3],
        device="cpu",
        names=["row"],
    )
    assert repr(data) == (
        "TensorDict(\n"
        "    fields={\n"
        "        a: Tensor(shape=torch.Size([3, 2]), device=cpu, dtype=torch.float32, is_shared=False),\n"
        "        b: TensorDict(\n"
        "            fields={\n"
        "                c: Tensor(shape=torch.Size([3]), device=cpu, dtype=torch.int64, is_shared=False)},\n"
        "            batch_size=torch.Size([3]),\n"
        "            device=cpu,\n"
        "            names=['row'],\n"
        "            is_shared=False),\n"
        "        text: NonTensorData(data='hello', batch_size=torch.Size([3]), device=cpu)},\n"
        "    batch_size=torch.Size([3]),\n"
        "    device=cpu,\n"
        "    names=['row'],\n"
        "    is_shared=False)"
    )


def test_an_empty_collection_shows_its_metadata() -> None:
    assert repr(TensorDict()) == (
        "TensorDict(\n    fields={},\n    batch_size=torch.Size([]),\n    device=None,\n    is_shared=False)"
    )


def test_keys_are_shown_in_alphabetical_order() -> None:
    shown = repr(TensorDict({"z": 1, "a": 1, "m": 1}))
    assert shown.index("a: ") < shown.index("m: ") < shown.index("z: ")


def test_str_is_repr() -> None:
    assert str(nested()) == repr(nested()) == f"{nested()}"


def test_names_are_shown_only_where_there_are_some() -> None:
    assert "names" not in repr(nested())
    assert "names=['row']" in repr(nested(names=["row"]))
    assert "names=['row', None]" in repr(nested(names=["row"]))


def test_the_content_of_a_tensor_is_not_shown() -> None:
    assert "12345" not in repr(TensorDict({"a": torch.full((3,), 12345)}, [3]))


def test_shared_memory_is_shown() -> None:
    assert "is_shared=False" not in repr(nested().exclude("empty").share_memory_())


def test_the_class_of_a_tensor_is_shown() -> None:
    assert "p: Parameter(shape=" in repr(TensorDict({"p": torch.nn.Parameter(torch.zeros(3))}))


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(3, device="meta"),
        torch.eye(3).to_sparse(),
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3), torch.zeros(1)], layout=torch.jagged),
        torch.zeros(3, requires_grad=True) * 2,
    ],
    ids=["meta", "sparse", "jagged", "in the graph"],
)
def test_every_kind_of_tensor_can_be_shown(value: Any) -> None:
    assert "a: " in repr(TensorDict({"a": value}, [3]))


def test_objects_are_shown_by_their_own_repr() -> None:
    data = TensorDict({"one": {"a"}, "none": None}, [2]).set("rows", NonTensorStack("p", "q"))
    assert "one: NonTensorData(data={'a'}, batch_size=torch.Size([2]), device=None)" in repr(data)
    assert "none: NonTensorData(data=None" in repr(data)
    assert "rows: NonTensorStack(['p', 'q'], batch_size=torch.Size([2]), device=None)" in repr(data)
    assert repr(NonTensorData("t")) == "NonTensorData(data='t', batch_size=torch.Size([]), device=None)"


def test_a_record_in_a_collection_is_shown_as_a_record() -> None:
    shown = repr(TensorDict({"r": Record(torch.zeros(3), batch_size=[3])}, [3]))
    assert "        r: Record(\n            x=Tensor(" in shown


def test_a_value_of_several_lines_is_indented() -> None:
    class Lines:
        def __repr__(self) -> str:
            return "first\nsecond"

    assert "data=first\n        second" in repr(TensorDict({"a": Lines()}))


@given(draw.trees())
def test_every_key_and_every_shape_is_shown(tree: Any) -> None:
    data = tree.build((2,))
    shown = repr(data)
    for key, value in data.items(True):
        assert f"{key if isinstance(key, str) else key[-1]}: " in shown
        if isinstance(value, torch.Tensor):
            assert f"shape={value.shape}" in shown
            assert f"dtype={value.dtype}" in shown
    assert shown.count("fields=") == 1 + tree.count(draw.Tree)


# -- options -----------------------------------------------------------------------------------------------------------


class Printed(TensorClass):
    value: torch.Tensor
    text: str = "x"
    other: torch.Tensor | None = None


def printed(library: Any) -> Any:
    """A collection of everything whose form has a peer."""
    return library.TensorDict(
        {
            "a": torch.arange(6.0).reshape(3, 2),
            "m": library.TensorDict({"x": torch.zeros(3, 2, dtype=torch.int64)}, [3, 2]),
            "e": library.TensorDict({}, [3]),
        },
        [3],
    )


@pytest.mark.parametrize(
    "options",
    [
        {"compact": True},
        {"compact": True, "show_dtype": False},
        {"compact": True, "show_batch_size": False},
        {"compact": True, "sort_keys": "insertion"},
        {"compact": False},
        {"compact": False, "verbose": False},
        {"show_grad": True, "show_is_contiguous": True, "show_is_view": True, "show_storage_size": True},
        {"show_shape": False},
        {"show_is_shared": False, "show_field_is_shared": False},
        {"show_field_device": False},
        {"compact": False, "show_device": False, "show_dtype": False, "show_batch_size": False},
        {"plain": True},
    ],
    ids=str,
)
def test_the_options_show_what_they_show_in_the_peer(options: dict[str, Any]) -> None:
    with tensordict.set_printoptions(**options):
        expected = repr(printed(tensordict)).replace("{\n            }", "{}")
    with set_printoptions(**options):
        assert repr(printed(tensorclass)) == expected


def test_the_compact_form_of_a_record_and_of_objects() -> None:
    data = TensorDict(
        {
            "r": Printed(torch.zeros(3), batch_size=[3]),
            "s": ["p", "q", "r"],
            "t": "text",
            "far": torch.zeros(3, device="meta"),
        },
        [3],
    )
    with set_printoptions(compact=True):
        assert repr(data).split("\n") == [
            "TensorDict(batch_size=[3], fields={",
            "    far: f32[]@meta,",
            "    r: Printed{value: f32[], text: str, other: None},",
            "    s: NonTensorStack,",
            "    t: str})",
        ]
        assert repr(data["r"]) == "Printed(batch_size=[3], fields={value: f32[], text: str, other: None})"


def test_keys_are_sorted_by_a_function() -> None:
    data = TensorDict({"aaa": 1, "b": 2, "cc": 3})
    with set_printoptions(sort_keys=len, compact=True):
        assert repr(data).index("b:") < repr(data).index("cc:") < repr(data).index("aaa:")
