"""Layouts of collections in messages."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorData, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.distributed.messages import record_layout as layouts
from tensorclass.distributed.messages.message_buffer import MessageBuffer, packing_of
from tensorclass.distributed.messages.record_layout import (
    describe_record,
    differences,
    flatten_record,
    layout_of,
    rebuild_record,
    specs_in,
)

DTYPES = [torch.float32, torch.int64, torch.bool, torch.uint8, torch.bfloat16, torch.complex128, torch.float16]


class Pair(TensorClass):
    x: Tensor
    name: str = "none"


@st.composite
def collections(draw: Any, batch: int = 2, depth: int = 2) -> TensorDict:
    data = TensorDict({}, [batch])
    for key in draw(st.lists(st.sampled_from(["a", "b", "c.d", "e", "0"]), unique=True, max_size=4)):
        kind = draw(st.sampled_from(["tensor", "tensor", "object", "nested", "lazy", "unbatched"]))
        if kind == "object":
            data.set_non_tensor(key, draw(st.sampled_from(["text", 3, (1, 2), None])))
        elif kind == "nested" and depth:
            data[key] = draw(collections(batch, depth - 1))
        elif kind == "lazy":
            data[key] = lazy_stack([TensorDict({"x": torch.rand(at + 1)}) for at in range(batch)])
        else:
            shape = draw(st.lists(st.integers(0, 3), max_size=2))
            values = torch.randint(0, 2, [batch, *shape]).to(draw(st.sampled_from(DTYPES)))
            data[key] = UnbatchedTensor(values[0].clone()) if kind == "unbatched" else values
    return data


@given(collections())
def test_what_is_packed_and_unpacked_is_the_same(data: TensorDict) -> None:
    layout, tensors, *_ = flatten_record(data)
    target = data.clone()
    for leaf in target._leaves():
        leaf.zero_()
    buffer = MessageBuffer(16, packing_of(layout.specs), torch.device("cpu"))
    buffer.gather(tensors)
    buffer.scatter(flatten_record(target).tensors)
    assert [leaf.dtype for leaf in target._leaves()] == [leaf.dtype for leaf in data._leaves()]
    assert all(torch.equal(a, b) for a, b in zip(data._leaves(), target._leaves(), strict=True))


@given(collections())
def test_a_collection_is_made_anew_of_its_text_and_its_bytes(data: TensorDict) -> None:
    layout, tensors, *_ = flatten_record(data)
    text = describe_record(data, "send")
    specs = specs_in(text, "rank 1")
    assert tuple(specs) == layout.specs
    named = {(spec.path, spec.component): tensor for spec, tensor in zip(specs, tensors, strict=True)}
    made = rebuild_record(text, TensorDict, layouts.lookup_in(named, "rank 1"), "rank 1")
    assert layout_of(made).entries == layout.entries
    assert made.batch_size == data.batch_size
    assert describe_record(made, "send") == text
    assert all(torch.equal(a, b) for a, b in zip(data._leaves(), made._leaves(), strict=True))


@given(collections(), collections())
def test_digests_are_the_same_where_there_are_no_differences(one: TensorDict, other: TensorDict) -> None:
    ours, theirs = layout_of(one), layout_of(other)
    assert (ours.digest == theirs.digest) == (differences(ours.entries, theirs.entries) == [])


@given(collections())
def test_the_order_of_keys_makes_no_difference(data: TensorDict) -> None:
    turned = TensorDict({key: data.get(key) for key in reversed(list(data.keys()))}, data.batch_size)
    (ours, tensors, *_), (theirs, others, *_) = flatten_record(data), flatten_record(turned)
    assert ours.digest == theirs.digest
    assert all(torch.equal(a, b) for a, b in zip(tensors, others, strict=True))


def test_a_form_that_was_seen_is_not_laid_out_again() -> None:
    data = TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(3, 2)}}, [3])
    assert layout_of(data) is layout_of(data.clone())


@pytest.mark.parametrize(
    "other",
    [
        TensorDict({"a": torch.zeros(3, dtype=torch.int32)}),
        TensorDict({"a": torch.zeros(3, 1)}),
        TensorDict({"b": torch.zeros(3)}),
        TensorDict({"a": torch.zeros(3), "b": torch.zeros(3)}),
        TensorDict({"a": {"a": torch.zeros(3)}}),
        TensorDict({"a": "text"}),
        TensorDict({"a": UnbatchedTensor(torch.zeros(3))}),
    ],
    ids=["dtype", "shape", "key", "more", "nested", "object", "unbatched"],
)
def test_what_differs_has_another_digest_and_is_listed(other: TensorDict) -> None:
    ours, theirs = layout_of(TensorDict({"a": torch.zeros(3)})), layout_of(other)
    assert ours.digest != theirs.digest
    assert differences(ours.entries, theirs.entries)


def test_non_tensor_data_is_read_whole_or_not_at_all() -> None:
    data = TensorDict({"name": "a", "n": {"rows": ["x", "y"]}}, [2])
    data["n", "rows"] = ["x", "y"]
    layout = layout_of(data)
    text = layouts.content_of(data, layout, "send")
    target = data.clone()
    target["name"] = "b"
    for damaged in (b"[]", b"[1]", b'["a", "b"]', b"3"):
        with pytest.raises(ValueError, match="rank 1"):
            layouts.read_content(damaged, target, layout, "rank 1")
    assert target["name"] == "b"
    layouts.read_content(text, target, layout, "rank 1")()
    assert target["name"] == "a"


def test_objects_that_json_lacks_are_refused_on_both_sides() -> None:
    data = TensorDict({"f": NonTensorData(object)})
    with pytest.raises(TypeError, match="allow_pickle"):
        layouts.content_of(data, layout_of(data), "send")
    text = layouts.content_of(data, layout_of(data), "send", allow_pickle=True)
    with pytest.raises(ValueError, match="pickle"):
        layouts.read_content(text, data, layout_of(data), "rank 1")


@pytest.mark.parametrize("tensor", [torch.zeros(3).to_sparse(), torch.zeros(3, device="meta")], ids=["sparse", "meta"])
def test_values_that_no_message_holds_are_refused(tensor: Tensor) -> None:
    with pytest.raises(TypeError, match="a: "):
        layout_of(TensorDict({"a": tensor}))


def test_a_jagged_tensor_is_two_parts() -> None:
    rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    layout, tensors, *_ = flatten_record(TensorDict({"a": rows}, [2]))
    assert [(spec.component, tuple(spec.shape)) for spec in layout.specs] == [("", (5,)), ("offsets", (3,))]
    assert [tuple(tensor.shape) for tensor in tensors] == [(5,), (3,)]


def test_records_and_dicts_of_the_same_values_have_the_same_digest() -> None:
    record = Pair(torch.zeros(3), batch_size=[3])
    assert layout_of(record).digest == layout_of(TensorDict({"x": torch.zeros(3), "name": "a"})).digest


def test_forms_that_look_alike_are_told_apart() -> None:
    one = torch.zeros(2)
    pairs: list[tuple[Any, Any]] = [
        (
            lazy_stack([TensorDict({"a": one, "b": one}), TensorDict({})]),
            lazy_stack([TensorDict({"a": one}), TensorDict({"b": one})]),
        ),
        (
            TensorDict({"a": one, "{": one, "}": one, "n": {}}),
            TensorDict({"a": {}, "n": one, "{": one, "}": one}),
        ),
    ]
    for left, right in pairs:
        assert layout_of(left).digest != layout_of(right).digest
        assert differences(layout_of(left).entries, layout_of(right).entries)


def test_layouts_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_layouts", {})
    monkeypatch.setattr(layouts, "_MOST_LAYOUTS", 3)
    found = [len(layouts._layouts) for size in range(8) if layout_of(TensorDict({"a": torch.zeros(size)}))]
    assert found == [1, 2, 3, 1, 2, 3, 1, 2]
    one = TensorDict({"a": torch.zeros(7)})
    assert layout_of(one) is layout_of(one.clone())
