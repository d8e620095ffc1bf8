"""A consolidated collection does in one call what others do for each tensor, with the same results."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses import FakeTensor, FakeTensorMode

import tensorclass.td.buffer_operations as buffer_operations
from tensorclass import Ragged, TensorClass, TensorDict, Text, assert_close, lazy_stack
from tensorclass.distributed import shared_pickle
from tensorclass.td.buffer_operations import buffer_of
from tensorclass.td.pickling import rebuild_in_buffer


@pytest.fixture(autouse=True, scope="module")
def _as_on_an_accelerator() -> Iterator[None]:
    """Operate on buffers on the CPU, too, where a call for each tensor would be as fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_operations, "_QUICK", frozenset())
        yield


class Inner(TensorClass):
    mean: Tensor
    count: Tensor


class Reduced(TensorClass):
    x: Tensor

    def __reduce__(self) -> Any:
        return _increased, (self.x,)


def _increased(x: Tensor) -> Reduced:
    return Reduced(x=x + 1, batch_size=[2])


class Sample(TensorClass):
    image: Tensor
    inner: Inner
    weight: Tensor


def sample() -> Sample:
    inner = Inner(mean=torch.rand(2, 3), count=torch.rand(2, 1), batch_size=[2])
    return Sample(image=torch.rand(2, 3), inner=inner, weight=torch.rand(2), batch_size=[2])


def packed(data: Any) -> Any:
    made = data.consolidate()
    assert buffer_of(made) is not None
    return made


def calls_of(name: str, action: Callable[[], Any]) -> int:
    """Return how often torch calls an operation of this name."""
    with torch.profiler.profile() as profile:
        action()
    return sum(event.count for event in profile.key_averages() if event.key == f"aten::{name}")


# -- the same results -------------------------------------------------------------------------------------------------

_DTYPES = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.float16, torch.complex128]


@st.composite
def tensors(draw: st.DrawFn, dtypes: st.SearchStrategy[torch.dtype]) -> Tensor:
    shape = draw(st.lists(st.integers(0, 3), max_size=2))
    values = torch.arange(2 * torch.Size(shape).numel()) % draw(st.integers(1, 5))
    return values.view(2, *shape).to(draw(dtypes))


def trees() -> st.SearchStrategy[dict[str, Any]]:
    dtypes = st.one_of(st.sampled_from([st.just(dtype) for dtype in _DTYPES]), st.just(st.sampled_from(_DTYPES)))
    keys = st.sampled_from("abcdef")
    return dtypes.flatmap(
        lambda own: st.recursive(
            st.dictionaries(keys, tensors(own), min_size=1, max_size=5),
            lambda below: st.dictionaries(keys, st.one_of(tensors(own), below), min_size=1, max_size=4),
            max_leaves=4,
        )
    )


def same(one: Any, other: Any) -> bool:
    ours, theirs = one.to_dict(), other.to_dict()
    flat, structure = torch.utils._pytree.tree_flatten(ours)
    others, expected = torch.utils._pytree.tree_flatten(theirs)
    return structure == expected and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b) for a, b in zip(flat, others, strict=True)
    )


@settings(max_examples=60, deadline=None)
@given(trees())
def test_operations_give_the_same_as_without_the_buffer(tree: dict[str, Any]) -> None:
    data = TensorDict(tree, [2])
    one, other = data.consolidate(), data.clone().consolidate()
    assert same(one.clone(), data)
    assert not any(a.data_ptr() == b.data_ptr() for a, b in zip(one._leaves(), one.clone()._leaves()) if a.numel())  # noqa: B905
    real = not any(leaf.is_complex() for leaf in data._leaves())
    for dtype in (torch.complex128, *((torch.float64, torch.int32) if real else ())):
        assert same(one.to(dtype), data.to(dtype))
        assert same(one.type(dtype), data.type(dtype))
    assert same(one == other, data == data)
    assert same(one != other, data != data)
    assert (one == other).all() is True
    assert assert_close(one, other)
    assert same(pickle.loads(pickle.dumps(one)), data)
    changed = next((leaf for leaf in other._leaves() if leaf.numel()), None)
    if changed is not None:
        changed[...] = changed.logical_not()
        assert (one == other).all() is False
        assert same(one == other, data == other.to_tensordict())
        with pytest.raises(AssertionError):
            assert_close(one, other)


def test_a_record_keeps_its_classes_and_metadata() -> None:
    data = sample()
    data.names = ["row"]
    for made in (packed(data).clone(), packed(data).double(), packed(data) == packed(data), packed(data).to("meta")):
        assert type(made) is Sample
        assert type(made.inner) is Inner
        assert made.batch_size == made.inner.batch_size == torch.Size([2])
        assert made.names == ["row"]
        assert not made.is_locked


def test_columns_and_objects_are_kept() -> None:
    values = {"text": Text(["a", "bcd"]), "rows": Ragged([[1, 2], [3]]), "x": torch.rand(2), "y": torch.rand(2)}
    data = TensorDict(values, [2])
    copied = packed(data).clone()
    assert copied.is_consolidated()
    assert copied["text"].tolist() == ["a", "bcd"]
    assert copied["rows"].tolist() == [[1, 2], [3]]
    labels = [{"a": 1}, {"b": 2}]
    with_objects = TensorDict({"x": torch.rand(2), "y": torch.rand(2), "labels": labels}, [2])
    copied = packed(with_objects).clone()
    assert copied["labels"] == labels
    assert copied["labels"][0] is not labels[0]


def test_a_lazy_stack_is_copied_and_compared() -> None:
    rows = lazy_stack([TensorDict(a=torch.rand(2), b=torch.rand(3)) for _ in range(2)])
    one = rows.consolidate()
    assert (one.clone() == rows).all()
    assert assert_close(one, rows)


# -- one call ---------------------------------------------------------------------------------------------------------


def test_each_operation_is_one_call() -> None:
    data, other = packed(sample()), packed(sample())
    assert calls_of("clone", data.clone) == 1
    assert calls_of("eq", lambda: data == other) == 1
    assert calls_of("all", lambda: (data == data).all()) == 1
    assert calls_of("_to_copy", lambda: data.to("meta")) == 1
    assert calls_of("_to_copy", lambda: data.to(torch.float16)) == 1
    assert calls_of("_to_copy", data.double) == 1


def test_on_a_cpu_tensors_are_copied_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_operations, "_QUICK", frozenset(("cpu",)))
    data = packed(sample())
    assert calls_of("clone", data.clone) == 4
    assert calls_of("_to_copy", lambda: data.to("meta")) == 1  # a transfer is one


def test_a_copy_can_be_copied_as_one() -> None:
    copied = packed(sample()).clone()
    assert copied.is_consolidated()
    assert calls_of("clone", copied.lock_().clone) == 1
    assert calls_of("_to_copy", lambda: copied.to("meta")) == 1


# -- other processes and files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_has_the_buffer_once_and_gives_it_back(protocol: int) -> None:
    data = packed(sample())
    data.names = ["row"]
    text = pickle.dumps(data, protocol)
    found = pickle.loads(text)
    assert type(found) is Sample
    assert type(found.inner) is Inner
    assert found.names == ["row"]
    assert found.is_locked
    assert found.inner.is_locked
    assert found.is_consolidated()
    assert buffer_of(found) is not None
    assert assert_close(found, data)
    assert len(pickle.dumps(packed(TensorDict({str(at): torch.zeros(1000) for at in range(50)})))) < 203_000


def test_a_saved_buffer_is_loaded_without_running_code(tmp_path: Path) -> None:
    data = packed(sample())
    torch.save(data, tmp_path / "f")
    found = torch.load(tmp_path / "f", weights_only=True)
    assert type(found) is Sample
    assert assert_close(found, data)


def test_a_queue_sends_the_buffer_as_one_tensor() -> None:
    data = packed(sample())
    found = shared_pickle.packed(data, copies=True)
    assert assert_close(found.opened(), data)
    assert found.opened().is_locked
    shared = sample().consolidate(share_memory=True)
    assert shared_pickle.packed(shared).opened().image.data_ptr() == shared.image.data_ptr()


def test_a_batch_from_a_worker_process_is_one_buffer() -> None:
    batch = sample()
    received = shared_pickle.packed(batch, small=-1).opened()  # as a queue of multiprocessing sends it
    assert not batch.is_consolidated()
    assert received.is_consolidated()
    assert calls_of("_to_copy", lambda: received.to("meta")) == 1


def test_a_pickle_that_points_outside_of_its_memory_is_an_error() -> None:
    memory = torch.zeros(8, dtype=torch.uint8)
    tree = (("a",), {}, TensorDict, (), None, None, False)
    assert rebuild_in_buffer(memory, (torch.float32,), "0 4 1", tree)["a"].tolist() == [0.0]
    for numbers in ("0 0 3", "0 6 1", "0 -4 1"):
        with pytest.raises(ValueError, match="damaged"):
            rebuild_in_buffer(memory, (torch.float32,), numbers, tree)


def test_a_nested_class_pickles_itself() -> None:
    data = packed(TensorDict({"inner": Reduced(x=torch.zeros(2), batch_size=[2]), "y": torch.zeros(2)}, [2]))
    assert pickle.loads(pickle.dumps(data))["inner"].x.tolist() == [1.0, 1.0]


def test_what_was_moved_is_marked_on_its_device() -> None:
    data = packed(sample())
    moved = buffer_operations.on_buffer(data, *buffer_of(data))
    other = sample()
    buffer_operations.hand_over(moved, other)
    assert other._buffer is moved._buffer
    assert buffer_of(data.to("meta")) is None  # tensors without memory have no addresses


# -- what lies between the tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("filler", [0, 255])
def test_bytes_between_tensors_are_not_compared(filler: int) -> None:
    one = packed(TensorDict(a=torch.ones(3), b=torch.ones(3)))
    other = packed(TensorDict(a=torch.ones(3), b=torch.ones(3)))
    memory = torch.empty(0, dtype=torch.uint8).set_(other["a"].untyped_storage())
    memory[12:16] = memory[28:32] = filler  # 255: NaN
    assert (one == other).all() is True
    assert assert_close(one, other)
    assert (one == other)["b"].tolist() == [True] * 3


# -- what ends the mark, and what keeps it ----------------------------------------------------------------------------


def _replaced(data: Any) -> None:
    data.unlock_()["a"] = torch.rand(3)
    data.lock_()


def _added(data: Any) -> None:
    data.unlock_()["c"] = torch.rand(3)
    data.lock_()


def _removed(data: Any) -> None:
    del data.unlock_()["a"]
    data.lock_()


def _set_data(data: Any) -> None:
    data["a"].data = torch.rand(3)


def _swapped(data: Any) -> None:
    data.unlock_()
    data["a"], data["b"] = data["b"], data["a"]
    data.lock_()


ENDS: list[Callable[[Any], Any]] = [
    _replaced,
    _added,
    _removed,
    _set_data,
    _swapped,
    lambda data: data["a"].requires_grad_(),
    lambda data: data["a"].resize_(2),
    lambda data: data["a"].set_(torch.rand(3)),
    lambda data: data["a"].unsqueeze_(0),
    lambda data: data.share_memory_(),
]
KEEPS: list[Callable[[Any], Any]] = [
    lambda data: data["a"].zero_(),
    lambda data: data.set_("a", torch.rand(3)),
    lambda data: data.update_({"b": torch.rand(3)}),
    lambda data: data.copy_(TensorDict(a=torch.rand(3), b=torch.rand(3))),
    lambda data: data.add_(1),
    lambda data: data.zero_(),
    lambda data: data.unlock_().lock_(),
]


@pytest.mark.parametrize("write", ENDS)
def test_a_change_of_where_tensors_are_ends_the_mark(write: Callable[[Any], Any]) -> None:
    data = packed(TensorDict(a=torch.rand(3), b=torch.rand(3)))
    write(data)
    plain = TensorDict(dict(data.items()))
    assert buffer_of(data) is None
    assert (data.clone() == plain).all()
    assert (data == plain).all()
    assert (data.double() == plain.double()).all()


@pytest.mark.parametrize("write", KEEPS)
def test_values_that_are_written_keep_the_mark(write: Callable[[Any], Any]) -> None:
    data = packed(TensorDict(a=torch.rand(3), b=torch.rand(3)))
    write(data)
    assert buffer_of(data) is not None
    assert (data.clone() == TensorDict({key: value.clone() for key, value in data.items()})).all()


def test_a_mark_holds_no_tensors() -> None:
    data = packed(TensorDict(a=torch.zeros(3), b=torch.zeros(3)))
    reachable = gc.get_referents(data._buffer, data._buffer.layout, data._buffer.pointers)
    assert not any(isinstance(held, (Tensor, torch.UntypedStorage)) for held in reachable)


# -- autograd, transforms, compilation --------------------------------------------------------------------------------


def test_gradients_flow_through_a_copy() -> None:
    data = packed(TensorDict(a=torch.rand(3), b=torch.rand(3)))
    leaf = data["a"].requires_grad_()
    data.clone()["a"].sum().backward()
    assert leaf.grad.tolist() == [1.0] * 3


def test_tensors_of_one_buffer_are_independent_to_autograd() -> None:
    for data in (packed(TensorDict(a=torch.ones(3), b=torch.ones(3))), packed(sample().select("image")).clone()):
        first, *_ = data._leaves()
        assert not first._is_view()
    copied = packed(TensorDict(a=torch.ones(3), b=torch.ones(3))).clone()
    weight = torch.ones(3, requires_grad=True)
    product = weight * copied["a"]
    copied["b"].add_(1)  # a shared version counter would make the backward pass fail
    product.sum().backward()
    copied["b"].add_(weight)
    assert copied["b"].requires_grad
    assert not copied["a"].requires_grad


def test_transforms_and_tangents_see_each_tensor() -> None:
    data = packed(TensorDict(a=torch.rand(3, 2), b=torch.rand(3, 2), batch_size=[3]))
    assert (torch.vmap(lambda row: row.clone())(data) == data).all()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(data["a"], torch.ones(3, 2))
        made = TensorDict({"a": dual, "b": data["b"]}, [3]).to(torch.float64)
        assert torch.autograd.forward_ad.unpack_dual(made["a"]).tangent is not None


@pytest.mark.filterwarnings("error")
def test_a_mode_that_makes_fake_tensors_gets_them() -> None:
    one, other = packed(sample()), packed(sample())
    with FakeTensorMode(allow_non_fake_inputs=True):
        for made in (one.clone(), one.double(), one == other, one.to("meta")):
            assert isinstance(made.image, FakeTensor)
            assert made.image.shape == one.image.shape


def test_compiled_code_copies_and_compares_a_consolidated_collection() -> None:
    data = packed(TensorDict(a=torch.rand(3), b=torch.rand(3)))

    def step(one: TensorDict) -> tuple[TensorDict, bool]:
        return one.clone(), one == one

    copied, equal = torch.compile(step, backend="eager", fullgraph=True)(data)
    assert (copied == data).all()
    assert equal.all()


# -- classes that do more ---------------------------------------------------------------------------------------------


def test_nested_classes_that_override_a_method_are_called() -> None:
    class Counting(TensorClass):
        x: Tensor

        def clone(self, *args: Any, **kwargs: Any) -> Any:
            copied = super().clone(*args, **kwargs)
            copied.x += 1
            return copied

    inner = Counting(x=torch.zeros(2), batch_size=[2])
    copied = packed(TensorDict({"inner": inner, "y": torch.zeros(2)}, [2])).clone()
    assert copied["inner"].x.tolist() == [1.0, 1.0]


def test_integers_of_records_are_not_cast_to_floats() -> None:
    class Counts(TensorClass):
        a: Tensor
        b: Tensor

    data = packed(Counts(a=torch.arange(2), b=torch.arange(2), batch_size=[2]))
    assert data.to(torch.float32).a.dtype == data.float().b.dtype == torch.int64
    assert data.to(torch.int32).a.dtype == torch.int32


# -- page-locked memory -----------------------------------------------------------------------------------------------


def _page_locked(size: int) -> Tensor:
    """Stand for page-locked memory, of which there is none without an accelerator."""
    return torch.full((size,), 7, dtype=torch.uint8)


def test_page_locked_memory_is_one_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_operations, "page_locked", _page_locked)
    values = {"text": Text(["a", "bcd"]), "x": torch.rand(2, 3), "n": torch.arange(2), "empty": torch.zeros(2, 0)}
    data = TensorDict(values, [2])
    locked = data.pin_memory()
    assert locked.is_consolidated()
    assert assert_close(locked, data)
    assert calls_of("_to_copy", lambda: locked.to("meta")) == 1


def test_tensors_that_no_buffer_holds_are_pinned_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_operations, "page_locked", _page_locked)
    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    for odd in (torch.rand(2, requires_grad=True), torch.rand(4)[::2], torch.eye(2).to_sparse()):
        TensorDict(a=odd, b=torch.rand(2)).pin_memory()
        assert len(pinned) == 2
        pinned.clear()


def test_a_loader_pins_one_buffer_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils.pin_memory import pin_memory

    monkeypatch.setattr(buffer_operations, "page_locked", _page_locked)
    assert pin_memory(sample()[:1]).is_consolidated()
