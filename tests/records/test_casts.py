"""Casts of records: to a floating or complex dtype go the floating and complex tensors, ids and masks stay."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Int
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict, UnbatchedTensor
from tensorclass.td.stores import SubTensorDict

IDS = torch.tensor([257, 30001])


class Tokens(TensorClass):
    ids: Int[Tensor, ""]
    mask: Tensor
    logits: Tensor
    wave: Tensor
    text: str = ""


class Holder(TensorClass):
    tokens: Tokens
    extra: TensorDict
    many: Any = None
    count: Tensor | None = None


def tokens() -> Tokens:
    return Tokens(
        IDS, torch.tensor([True, False]), torch.ones(2), torch.ones(2, dtype=torch.complex64), "t", batch_size=[2]
    )


def holder() -> Holder:
    many = TensorDict.lazy_stack([TensorDict(ids=IDS[0]), TensorDict(ids=IDS[1], more=torch.ones(3))])
    unbatched: Any = UnbatchedTensor(torch.tensor([257, 30001, 5]))
    return Holder(tokens(), TensorDict(ids=IDS, x=torch.ones(2), table=unbatched), many, IDS, batch_size=[2])


CASTS: dict[str, Callable[[Any], Any]] = {
    "half": lambda record: record.half(),
    "bfloat16": lambda record: record.bfloat16(),
    "float": lambda record: record.float(),
    "double": lambda record: record.double(),
    "type": lambda record: record.type(torch.float16),
    "type by name": lambda record: record.type("torch.HalfTensor"),
    "to": lambda record: record.to(torch.bfloat16),
    "to by keyword": lambda record: record.to(dtype=torch.bfloat16),
    "to a device too": lambda record: record.to("cpu", torch.bfloat16),
    "to with a copy": lambda record: record.to(torch.bfloat16, copy=True),
    "to a tensor's": lambda record: record.to(torch.zeros(1, dtype=torch.bfloat16)),
    "to a collection's": lambda record: record.to(TensorDict(a=torch.zeros(1, dtype=torch.bfloat16))),
    "to in place": lambda record: record.clone().to(torch.bfloat16, inplace=True),
    "cpu": lambda record: record.cpu(dtype=torch.bfloat16),
    "8 bits": lambda record: record.to(torch.float8_e4m3fn),
    "complex": lambda record: record.to(torch.complex128),
}
each_cast = pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
# as nn.Module.to does it, and says it
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real discards the imaginary part")


@each_cast
def test_ids_and_masks_stay_what_they_are(cast: Callable[[Any], Any]) -> None:
    record = cast(tokens())
    assert torch.equal(record.ids, IDS)
    assert record.mask.dtype is torch.bool
    assert record.logits.dtype is record.wave.dtype is cast(TensorDict(x=torch.ones(1)))["x"].dtype
    assert record.text == "t"
    record.validate()


@each_cast
def test_the_rule_holds_for_all_that_a_record_holds(cast: Callable[[Any], Any]) -> None:
    record = cast(holder())
    assert torch.equal(record.count, IDS)
    assert torch.equal(record.tokens.ids, IDS)
    assert torch.equal(record.extra["ids"], IDS)
    assert record.extra.get("table").data.tolist() == [257, 30001, 5]
    assert record.extra["x"].dtype is record.tokens.logits.dtype is record.many[1]["more"].dtype
    assert [part["ids"].item() for part in record.many.unbind(0)] == IDS.tolist()


@each_cast
def test_a_record_in_a_tensordict_follows_its_own_rule_and_the_tensordict_casts_all(cast: Callable[[Any], Any]) -> None:
    data = cast(TensorDict(record=tokens(), ids=IDS))
    assert torch.equal(data["record"].ids, IDS)
    assert data["ids"].dtype is data["record"].logits.dtype


@each_cast
def test_lazy_stacks_of_records_keep_their_ids(cast: Callable[[Any], Any]) -> None:
    record = cast(Tokens.lazy_stack([tokens(), tokens()]))
    assert torch.equal(record.ids, torch.stack([IDS, IDS]))
    assert record.mask.dtype is torch.bool
    assert record.logits.dtype is record.wave.dtype


def test_records_on_other_stores_keep_their_ids() -> None:
    rows: Any = SubTensorDict(tokens(), slice(0, 2))
    with tempfile.TemporaryDirectory() as folder:
        records: list[Any] = [rows, tokens().memmap(Path(folder) / "mapped")]
        for record in records:
            cast = record.to(torch.bfloat16)
            assert torch.equal(torch.as_tensor(cast.get("ids")), IDS)
            assert cast.get("logits").dtype is torch.bfloat16


def test_an_integer_or_boolean_dtype_is_for_all_tensors() -> None:
    class Plain(TensorClass):
        ids: Tensor
        mask: Tensor
        x: Tensor

    record = Plain(IDS, torch.tensor([True, False]), torch.ones(2), batch_size=[2])
    for cast, dtype in (
        (record.int(), torch.int32),
        (record.bool(), torch.bool),
        (record.to(torch.int64), torch.int64),
        (record.type(torch.int16), torch.int16),
    ):
        assert {value.dtype for value in cast.values()} == {dtype}


def test_a_filter_decides_alone() -> None:
    record = tokens()
    everything = record.float(cast_filter=lambda key, tensor: key != ("wave",))
    assert everything.ids.dtype is everything.mask.dtype is torch.float32

    class Own(TensorClass, cast_filter=lambda key, tensor: key == ("a",)):
        a: Tensor
        b: Tensor

    class Around(TensorClass):
        own: Own

    own = Own(IDS, torch.ones(2), batch_size=[2])
    for cast in (own.double(), Around(own, batch_size=[2]).to(torch.float64).own):
        assert (cast.a.dtype, cast.b.dtype) == (torch.float64, torch.float32)


def test_what_is_not_cast_is_moved_and_copied() -> None:
    moved = tokens().to("meta", torch.float64)
    assert {value.device.type for value in (moved.ids, moved.mask, moved.logits)} == {"meta"}
    assert (moved.ids.dtype, moved.logits.dtype, moved.device) == (torch.int64, torch.float64, torch.device("meta"))
    record = tokens()
    assert record.to(torch.float16).ids is record.ids
    assert record.to(torch.float16, copy=True).ids.data_ptr() != record.ids.data_ptr()


def test_a_compiled_cast_keeps_ids() -> None:
    for cast in (lambda r: r.to(torch.float16), lambda r: r.half(), lambda r: r.to("cpu", torch.float16)):
        result = torch.compile(cast, fullgraph=True, backend="eager")(holder())
        assert torch.equal(result.tokens.ids, IDS)
        assert torch.equal(result.extra["ids"], IDS)
        assert result.tokens.logits.dtype is torch.float16


def test_gradients_go_through_a_cast() -> None:
    record = tokens()
    record.logits.requires_grad_()
    record.to(torch.float64).logits.sum().backward()
    assert record.logits.grad is not None
    assert record.logits.grad.dtype is torch.float32


def test_a_module_casts_its_buffers_as_a_record_does() -> None:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ids", IDS)
            self.register_buffer("wave", torch.ones(2, dtype=torch.complex64))

    module: Any = Module().to(torch.float64)
    record = tokens().to(torch.float64)
    assert (record.ids.dtype, record.wave.dtype) == (module.ids.dtype, module.wave.dtype)
