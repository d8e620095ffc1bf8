"""What cannot be loaded is not saved: each limit that reading has is looked at before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensorclass import NonTensorData, TensorDict, lazy_stack
from tensorclass.storage import consolidated_file, safetensors
from tensorclass.storage.common import collection_tree
from tensorclass.storage.hdf5_zarr import zarr
from tensorclass.storage.memmap import folder_layout
from tests.storage.formats import FORMATS, a_bit_of_all, contents


def nested(depth: int, values: dict[str, Any]) -> TensorDict:
    """Collections in collections, the innermost with values."""
    data = TensorDict(values, [])
    for _ in range(depth):
        data = TensorDict({"a": data}, [])
    return data


def deep_object() -> Any:
    """An object that is nested as deep as one may be, in the forms that take most levels of JSON."""
    found: Any = 1
    for at in range(100):
        found = {(1, 2): found} if at % 2 else (found,)
    return found


def two_lengths() -> TensorDict:
    return lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(2))])


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("zarr", "h5-chunks", "deflated")])  # slow
def test_collections_may_be_nested_to_the_limit(form: str, tmp_path: Path) -> None:
    values = {"x": torch.ones(2), "text": "text", "flat": (1, (2,)), "stack": two_lengths()}
    deepest = nested(collection_tree.DEPTH - 1, {"x": torch.ones(2), "text": "text"})
    data = TensorDict({"a": deepest, "b": nested(collection_tree.DEPTH - 3, values)}, [])
    FORMATS[form].save(data, tmp_path / "place")
    assert (contents(FORMATS[form].load(tmp_path / "place")) == contents(data)) is True  # shown, it takes minutes


@pytest.mark.parametrize("form", ["zarr", "h5-chunks", "deflated"])
def test_collections_may_be_nested_to_a_lower_limit(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_tree, "DEPTH", 6)
    data = TensorDict({"b": nested(collection_tree.DEPTH - 3, {"x": torch.ones(2), "stack": two_lengths()})}, [])
    FORMATS[form].save(data, tmp_path / "place")
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(data)
    with pytest.raises((TypeError, ValueError), match="nothing was written"):
        FORMATS[form].save(TensorDict({"b": data}, []), tmp_path / "place")


@pytest.mark.parametrize("form", FORMATS)
def test_objects_may_be_nested_to_the_limit(form: str, tmp_path: Path) -> None:
    data = nested(20, {"x": torch.ones(2), "deep": NonTensorData(deep_object())})
    FORMATS[form].save(data, tmp_path / "place")
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(data)


TOO_LARGE: dict[str, Callable[[], TensorDict]] = {
    "a collection nested too deep": lambda: nested(collection_tree.DEPTH + 1, {"x": torch.ones(2)}),
    "a collection nested far too deep": lambda: nested(3 * collection_tree.DEPTH, {"x": torch.ones(2)}),
    "a stack nested too deep": lambda: nested(collection_tree.DEPTH, {"stack": two_lengths()}),
    "parts of a stack nested too deep": lambda: nested(
        collection_tree.DEPTH - 2, {"stack": lazy_stack([nested(1, {"x": torch.ones(n)}) for n in (1, 2)])}
    ),
    "an object nested too deep": lambda: TensorDict({"x": NonTensorData([[deep_object()]])}, []),
    "a batch size": lambda: TensorDict({}, [2**40, 2**30]),
    "a batch size of objects": lambda: TensorDict({"x": "text"}, [2**40, 2**30, 0]),
    "a shape of no values": lambda: TensorDict({"x": torch.empty(2**59, 0)}, []),
}


@pytest.mark.parametrize("form", FORMATS)
def test_what_could_not_be_loaded_leaves_the_old_version(form: str, tmp_path: Path) -> None:
    FORMATS[form].save(a_bit_of_all(1), tmp_path / "place")
    for make in TOO_LARGE.values():
        data = make()
        with pytest.raises((TypeError, ValueError), match="nothing was written"):
            FORMATS[form].save(data, tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(a_bit_of_all(1))


LENGTHS = {
    "folder": (folder_layout, "LONGEST"),
    "archive": (folder_layout, "LONGEST"),
    "deflated": (folder_layout, "LONGEST"),
    "safetensors": (safetensors, "_LONGEST"),
    "consolidated": (consolidated_file, "_LONGEST"),
}


@pytest.mark.parametrize("form", LENGTHS)
def test_what_is_said_of_a_collection_is_no_longer_than_what_is_read(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FORMATS[form].save(a_bit_of_all(1), tmp_path / "place")
    monkeypatch.setattr(*LENGTHS[form], 10_000)
    FORMATS[form].save(a_bit_of_all(1), tmp_path / "place")
    with pytest.raises(ValueError, match=r"nothing was written.*at most 10000"):
        FORMATS[form].save(TensorDict(x=torch.ones(1), text="long" * 10_000), tmp_path / "place")
    assert os.listdir(tmp_path) == ["place"]
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(a_bit_of_all(1))


def test_the_header_of_safetensors_has_the_limit_of_the_library(tmp_path: Path) -> None:
    """Reading refuses one byte more; what is said of the file by the test is that it is as long."""
    from safetensors import SafetensorError, safe_open

    length = safetensors._LONGEST
    for more, said in ((0, "InvalidHeaderLength"), (1, "HeaderTooLarge")):
        (tmp_path / "place").write_bytes((length + more).to_bytes(8, "little") + b"{}")
        with pytest.raises(SafetensorError, match=f"(?i){said}|{'invalid header length' if not more else 'too large'}"):
            safe_open(str(tmp_path / "place"), "pt")


@pytest.mark.parametrize("form", ["archive", "deflated"])
def test_keys_that_are_too_long_for_an_archive_leave_the_old_version(form: str, tmp_path: Path) -> None:
    FORMATS[form].save(a_bit_of_all(1), tmp_path / "place")
    with pytest.raises(ValueError, match=r"nothing was written.*65535"):
        FORMATS[form].save(TensorDict({"k" * 70_000: torch.ones(2)}), tmp_path / "place")
    assert contents(FORMATS[form].load(tmp_path / "place")) == contents(a_bit_of_all(1))


@pytest.mark.parametrize("form", FORMATS)
def test_numbers_and_texts_of_numpy_are_read_again(form: str, tmp_path: Path) -> None:
    values: list[Any] = [np.str_(""), np.bytes_(b""), np.datetime64("2020-01-01", "25D"), np.float16(2), np.str_("ab")]
    data = TensorDict(x=torch.ones(1)).set_non_tensor("values", values)
    FORMATS[form].save(data, tmp_path / "place")
    found: list[Any] = FORMATS[form].load(tmp_path / "place")["values"]
    assert found == values
    assert [(type(item), item.dtype) for item in found] == [(type(item), item.dtype) for item in values]


def test_a_part_that_is_appended_is_not_nested_too_deep_where_it_comes(tmp_path: Path) -> None:
    def parts(depth: int, length: int) -> TensorDict:
        return lazy_stack([nested(depth, {"x": torch.ones(length)}), nested(depth, {"x": torch.ones(length + 1)})])

    lazy_stack([nested(1, {"x": torch.ones(1)}), nested(1, {"x": torch.ones(2)})]).memmap(tmp_path / "place")
    with pytest.raises((TypeError, ValueError), match="nested deeper"):
        TensorDict.append_memmap(tmp_path / "place", parts(collection_tree.DEPTH, 1))
    TensorDict.append_memmap(tmp_path / "place", parts(collection_tree.DEPTH - 1, 1))
    assert TensorDict.load_memmap(tmp_path / "place").batch_size == torch.Size([4])


def test_a_key_that_is_added_to_a_folder_is_not_nested_too_deep(tmp_path: Path) -> None:
    data = nested(collection_tree.DEPTH, {"x": torch.ones(2)})
    data.memmap_(tmp_path / "place")
    with pytest.raises(ValueError, match="nested deeper"):
        data.make_memmap((*("a",) * collection_tree.DEPTH, "below", "x"), torch.Size([2]))
    with pytest.raises(ValueError, match="no shapes as large"):
        data.make_memmap("new", torch.Size([2**59, 0]))
    assert (contents(TensorDict.load_memmap(tmp_path / "place")) == contents(data)) is True


def test_a_collection_that_is_put_into_a_file_is_not_nested_too_deep_where_it_comes(tmp_path: Path) -> None:
    saved = nested(2, {"x": torch.ones(2)})
    FORMATS["h5"].save(saved, tmp_path / "place")
    held = TensorDict.from_h5(tmp_path / "place", mode="r+")
    try:
        with pytest.raises((TypeError, ValueError), match="nested deeper"):
            held["a", "a", "new"] = nested(collection_tree.DEPTH - 2, {"x": torch.ones(2)})
        held["a", "a", "new"] = nested(collection_tree.DEPTH - 3, {"x": torch.ones(2)})
    finally:
        held.close()
    assert ("a", "a", "new") in FORMATS["h5"].load(tmp_path / "place").keys(True)


def test_zeros_in_very_many_chunks_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few chunks zarr leaves those of zeros out; of many, most missing are a small file that says it is large."""
    monkeypatch.setattr(zarr, "_MANY_CHUNKS", 8)
    data = TensorDict({"x": torch.zeros(20), "y": torch.zeros(20, 2), "few": torch.zeros(6)}, [])
    data.to_zarr(tmp_path / "place", chunks=(1,)).close()
    assert contents(FORMATS["zarr"].load(tmp_path / "place")) == contents(data)
    held = TensorDict.from_zarr(tmp_path / "place", mode="r+")
    held["x"] = torch.ones(20)
    held["x"] = torch.zeros(20)
    held["new"] = torch.zeros(20)
    held.close()
    found = FORMATS["zarr"].load(tmp_path / "place")
    assert [len(found[key]) for key in ("x", "new")] == [20, 20]
