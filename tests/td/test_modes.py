"""Modes hold for a block, a function or the program, and for nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tensorclass
from tensorclass import (
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    capture_non_tensor_stack,
    list_to_stack,
    set_capture_non_tensor_stack,
    set_list_to_stack,
    stack,
)
from tensorclass.td.modes import CAPTURE, LIST_TO_STACK

MODES: dict[str, tuple[Callable[..., bool | None], Callable[[bool], Any], Any]] = {
    "list_to_stack": (list_to_stack, set_list_to_stack, LIST_TO_STACK),
    "capture_non_tensor_stack": (capture_non_tensor_stack, set_capture_non_tensor_stack, CAPTURE),
}
each = pytest.mark.parametrize("read, setting", [mode[:2] for mode in MODES.values()], ids=MODES)


@pytest.fixture(autouse=True)
def unset() -> Iterator[None]:
    """What a test sets for the whole program does not outlive it."""
    yield
    for _, _, mode in MODES.values():
        mode.everywhere = None


# -- how a mode is set -------------------------------------------------------------------------------------------------


@each
def test_a_mode_that_was_never_set_is_the_default(read: Any, setting: Any) -> None:
    assert read() is True
    assert read(allow_none=True) is None


@each
def test_a_with_statement_sets_it_inside_only(read: Any, setting: Any) -> None:
    with setting(False):
        assert read() is read(allow_none=True) is False
        with setting(True):
            assert read() is True
        assert read() is False
    assert read(allow_none=True) is None


@each
def test_one_setting_can_be_entered_more_than_once(read: Any, setting: Any) -> None:
    off = setting(False)
    with off:
        with off:
            pass
        assert read() is False
    assert read() is True


@each
def test_an_error_leaves_the_block(read: Any, setting: Any) -> None:
    with pytest.raises(KeyError), setting(False):
        raise KeyError
    assert read(allow_none=True) is None


@each
def test_a_decorator_sets_it_in_the_calls(read: Any, setting: Any) -> None:
    @setting(False)
    def call(deeper: bool) -> list[Any]:
        return [read(), *(call(False) if deeper else [])]

    assert call(True) == [False, False]
    assert read() is True


@each
def test_a_decorated_generator_sets_it_between_its_yields_only(read: Any, setting: Any) -> None:
    @setting(False)
    def values() -> Iterator[Any]:
        yield read()
        yield read()

    assert [(value, read()) for value in values()] == [(False, True), (False, True)]


@each
def test_a_decorated_coroutine_sets_it_for_itself(read: Any, setting: Any) -> None:
    @setting(False)
    async def inside() -> Any:
        await asyncio.sleep(0)
        return read()

    async def outside() -> Any:
        await asyncio.sleep(0)
        return read()

    async def both() -> list[Any]:
        return list(await asyncio.gather(inside(), outside(), inside()))

    assert asyncio.run(both()) == [False, True, False]


@each
def test_an_asynchronous_generator_is_refused(read: Any, setting: Any) -> None:
    async def values() -> Any:
        yield 1

    with pytest.raises(TypeError, match="cannot decorate the asynchronous generator"):
        setting(False)(values)


@each
def test_a_with_statement_is_not_seen_by_other_threads(read: Any, setting: Any) -> None:
    seen: list[Any] = []
    with setting(False):
        thread = threading.Thread(target=lambda: seen.append(read()))
        thread.start()
        thread.join()
    assert seen == [True]


@each
def test_set_holds_for_the_program_but_where_a_with_statement_says_otherwise(read: Any, setting: Any) -> None:
    assert setting(False).set() is None
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(read()))
    thread.start()
    thread.join()
    with setting(True):
        seen.append(read())
    assert [*seen, read(allow_none=True)] == [False, True, False]


@each
def test_a_mode_is_a_bool(read: Any, setting: Any) -> None:
    with pytest.raises(TypeError, match="expected True or False, got 'x'"):
        setting("x")


# -- what list_to_stack does -------------------------------------------------------------------------------------------


class Note(TensorClass, stack_objects=True):
    text: str
    anything: Any = None


@pytest.mark.parametrize("batch_size", [(), (2,), (3,)])
def test_without_lists_as_stacks_a_list_is_one_object(batch_size: tuple[int, ...]) -> None:
    texts = ["a", "b"]
    with set_list_to_stack(False):
        data = TensorDict({"text": texts}, batch_size)
        data["other"] = texts
    assert data["text"] is data["other"] is texts


def test_with_lists_as_stacks_every_list_is_one() -> None:
    with set_list_to_stack(True):
        assert TensorDict({"text": ["a", "b"]}).get("text").batch_size == (2,)
        assert TensorDict({"text": [["a"], ["b"]]}, [2]).get("text").batch_size == (2, 1)
        assert TensorDict({"text": [["a"], ["b", "c"]]}, [2])[0]["text"] == ["a"]


@pytest.mark.parametrize("batch_size", [(3,), (2, 2)])
def test_with_lists_as_stacks_a_list_that_does_not_fit_is_refused(batch_size: tuple[int, ...]) -> None:
    with set_list_to_stack(True), pytest.raises(RuntimeError, match=r"text: batch dimension mismatch"):
        TensorDict({"text": ["a", "b"]}, batch_size)


@pytest.mark.parametrize("mode", [True, False])
def test_numbers_become_tensors_in_any_mode(mode: bool) -> None:
    with set_list_to_stack(mode):
        assert isinstance(TensorDict({"a": [1, 2]}, [2])["a"], torch.Tensor)


def test_a_list_of_collections_is_stacked() -> None:
    rows = [TensorDict({"x": 1}), TensorDict({"x": 2})]
    assert TensorDict({"rows": rows}, [2])["rows", "x"].tolist() == [1, 2]
    assert TensorDict({"rows": [NonTensorData("a"), NonTensorData("b")]}, [2])["rows"] == ["a", "b"]
    assert TensorDict({"rows": rows})["rows"] is rows
    with set_list_to_stack(True):
        assert TensorDict({"rows": rows})["rows"].batch_size == (2,)
    with set_list_to_stack(False):
        assert TensorDict({"rows": rows}, [2])["rows"] is rows


def test_a_field_of_a_record_takes_a_list_for_its_rows_as_the_mode_says() -> None:
    assert Note(text=["a", "b"], batch_size=[2]).text == ["a", "b"]  # type: ignore[arg-type]
    with set_list_to_stack(False), pytest.raises(TypeError, match=r"Note\.text"):
        Note(text=["a", "b"], batch_size=[2])  # type: ignore[arg-type]
    with set_list_to_stack(True), pytest.raises(RuntimeError, match="text: batch dimension mismatch"):
        Note(text=["a", "b"], batch_size=[3])  # type: ignore[arg-type]


# -- what capture_non_tensor_stack does --------------------------------------------------------------------------------

GROWING: dict[str, Callable[[Any], Any]] = {
    "stack": lambda data: stack([data, data]),
    "stack of others": lambda data: stack([data, data.clone(False)], -1),
    "unsqueeze": lambda data: data.unsqueeze(0),
    "expand": lambda data: data.expand(3, 2),
}


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING)
def test_one_object_becomes_a_stack_where_the_batch_grows_without_capture(grow: Callable[[Any], Any]) -> None:
    data = NonTensorData("a", batch_size=[2], names=["x"])
    one = grow(data)
    with set_capture_non_tensor_stack(False):
        several, nested = grow(data), grow(TensorDict({"text": data}, [2]))
    assert type(one) is NonTensorData
    assert type(several) is type(nested.get("text")) is NonTensorStack
    assert several.tolist() == nested["text"] == one.tolist()
    assert several.names == one.names


def test_metadata_is_one_in_any_mode() -> None:
    data = MetaData("a", batch_size=[2])
    with set_capture_non_tensor_stack(False):
        assert {type(grow(data)) for grow in GROWING.values()} == {MetaData}


def test_a_mode_can_be_set_around_a_compiled_function_for_the_program() -> None:
    @torch.compile(fullgraph=True, backend="eager")
    def grow(data: Any) -> Any:
        return data.unsqueeze(0)

    data = TensorDict({"text": "a"}, [2])
    assert grow(data)["text"] == "a"
    set_capture_non_tensor_stack(False).set()
    assert type(grow(data).get("text")) is NonTensorStack


def test_the_names_are_public() -> None:
    for name in MODES:
        assert hasattr(tensorclass, name)
        assert hasattr(tensorclass, f"set_{name}")
