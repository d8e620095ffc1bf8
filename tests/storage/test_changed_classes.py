"""Pickles of records, `torch.save`'s and those between processes, whose class has changed since."""

import io
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import field
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack


def defines(fields: dict[str, Any], **defaults: Any) -> Any:
    """The class `Changing` of this module, with these fields from now on."""
    namespace = {"__annotations__": fields, "__module__": __name__, **defaults}
    cls = types.new_class("Changing", (TensorClass,), {"kw_only": True}, lambda made: made.update(namespace))
    vars(sys.modules[__name__])["Changing"] = cls
    return cls


XY: dict[str, Any] = {"x": Tensor, "y": Tensor}


def saved(data: Any) -> bytes:
    file = io.BytesIO()
    torch.save(data, file)
    return file.getvalue()


def handed_over(data: Any) -> bytes:
    return bytes(ForkingPickler.dumps(data))


#: how it is written, and read
WAYS: list[Any] = [
    pytest.param(saved, lambda text: torch.load(io.BytesIO(text), weights_only=True), id="weights only"),
    pytest.param(saved, lambda text: torch.load(io.BytesIO(text), weights_only=False), id="torch.load"),
    pytest.param(pickle.dumps, pickle.loads, id="pickle"),
    pytest.param(handed_over, pickle.loads, id="another process"),
]
in_each_way = pytest.mark.parametrize("write, read", WAYS)

Write = Callable[[Any], bytes]
Read = Callable[[bytes], Any]


def written() -> Any:
    return defines(XY)(x=torch.ones(3, 2), y=torch.arange(3.0), batch_size=[3])


@in_each_way
def test_a_class_that_is_the_same_gives_the_same(write: Write, read: Read) -> None:
    data = written()
    assert read(write(data)).y.tolist() == [0, 1, 2]


@in_each_way
def test_a_field_that_came_later_gets_its_default(write: Write, read: Read) -> None:
    text = write(written())
    cls = defines(
        {**XY, "maybe": Tensor | None, "text": str, "more": Tensor},
        text="new",
        more=field(default_factory=lambda: torch.zeros(3)),
        maybe=None,
    )
    loaded = read(text)
    assert type(loaded) is cls
    assert (loaded.maybe, loaded.text, loaded.more.tolist()) == (None, "new", [0, 0, 0])
    assert list(loaded.keys()) == ["x", "y", "text", "more"]


@in_each_way
def test_a_field_that_came_later_without_a_default_and_one_that_went_are_listed(write: Write, read: Read) -> None:
    text = write(written())
    defines({"x": Tensor, "z": Tensor, "w": Tensor})
    with pytest.raises(ValueError, match=r"Changing: .*missing, without a default: \['z', 'w'\]; unexpected: \['y'\]"):
        read(text)


@in_each_way
def test_a_default_that_does_not_fit_is_an_error(write: Write, read: Read) -> None:
    text = write(written())
    defines({**XY, "more": Tensor}, more=field(default_factory=lambda: torch.zeros(7)))
    with pytest.raises(ValueError, match=r"Changing: .*more.*\[7\]"):
        read(text)


@in_each_way
def test_a_default_that_breaks_the_contract_of_the_fields_is_an_error(write: Write, read: Read) -> None:
    text = write(written())
    defines(
        {"x": Float[Tensor, "n"], "y": Tensor, "more": Float[Tensor, "n"]},
        more=field(default_factory=lambda: torch.zeros(3, 5)),
    )
    with pytest.raises(ValueError, match=r"Changing.*more.* n "):
        read(text)


@in_each_way
def test_a_field_that_was_none_stays_none(write: Write, read: Read) -> None:
    cls = defines({**XY, "maybe": str | None}, maybe="a default")
    data = cls(x=torch.ones(2), y=torch.ones(2), maybe=None, batch_size=[2])
    text, again = write(data), write(data)  # what is handed over is taken once
    assert read(text).maybe is None
    defines({**XY, "maybe": str | None, "more": str}, maybe="a default", more="more")
    loaded = read(again)
    assert (loaded.maybe, loaded.more) == (None, "more")


@in_each_way
def test_a_field_that_was_none_may_go(write: Write, read: Read) -> None:
    cls = defines({**XY, "maybe": str | None}, maybe=None)
    text = write(cls(x=torch.ones(2), y=torch.ones(2), batch_size=[2]))
    defines(XY)
    assert list(read(text).keys()) == ["x", "y"]


@in_each_way
def test_a_record_that_lacks_fields_comes_back_without_them(write: Write, read: Read) -> None:
    part = written().select("x")
    assert list(read(write(part)).keys()) == ["x"]
    assert list(part.keys()) == ["x"]


def between(inner: Any) -> Any:
    return TensorDict({"first": torch.zeros(3), "inner": inner, "last": torch.ones(3)}, [3])


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "in a collection": between,
    "in one piece of memory": lambda record: between(record).consolidate(),
    "locked in one piece of memory": lambda record: between(record).consolidate().lock_(),
    "in a lazy stack": lambda record: between(lazy_stack([record, record], 1)),
    "in a lazy stack in one piece of memory": lambda record: between(lazy_stack([record, record], 1)).consolidate(),
}


@in_each_way
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_record_gets_its_default_where_it_is_held(write: Write, read: Read, holder: str) -> None:
    data = HOLDERS[holder](written())
    text, again = write(data), write(data)
    more, last = (field(default_factory=lambda: torch.full((3,), 7.0)) for _ in range(2))
    defines({"more": Tensor, **XY, "last": Tensor}, more=more, last=last)
    loaded = read(text)
    inner = loaded["inner"][:, 1] if "lazy" in holder else loaded["inner"]
    assert (inner.more.tolist(), inner.y.tolist(), inner.last.tolist()) == ([7, 7, 7], [0, 1, 2], [7, 7, 7])
    assert loaded["last"].tolist() == data["last"].tolist()
    assert loaded.is_locked == data.is_locked
    defines({"x": Tensor})
    with pytest.raises(ValueError, match=r"unexpected: \['y'\]"):
        read(again)


def test_a_locked_record_is_locked_with_its_default() -> None:
    text = pickle.dumps(written().lock_())
    defines({**XY, "inner": TensorDict}, inner=field(default_factory=lambda: TensorDict({"a": torch.zeros(3)}, [3])))
    loaded = pickle.loads(text)
    assert loaded.is_locked
    assert loaded.inner.is_locked


def test_what_is_in_one_piece_of_memory_is_pickled_once() -> None:
    data = TensorDict({str(at): torch.zeros(1000) for at in range(10)}).consolidate()
    assert len(pickle.dumps(data)) < 50_000
    loaded = pickle.loads(pickle.dumps(data))
    assert len({leaf.untyped_storage()._cdata for leaf in loaded.values(True, True)}) == 1
