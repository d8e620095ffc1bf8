"""Views that write through to their source, in the mode of old releases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_legacy, lazy_stack, set_lazy_legacy
from tensorclass.td.shape_operations import Shaping
from tests.legacy_mode import legacy_mode


@pytest.fixture(autouse=True)
def mode() -> Iterator[None]:
    with legacy_mode():
        yield


def data() -> TensorDict:
    nested = TensorDict({"b": torch.zeros(2, 3, 4)}, [2, 3, 4])
    return TensorDict({"a": torch.arange(6.0).view(2, 3), "text": "t", "n": nested}, [2, 3], names=["x", "y"])


VIEWS: dict[str, Any] = {
    "view": lambda d: d.view(6),
    "permute": lambda d: d.permute(1, 0),
    "transpose": lambda d: d.transpose(0, 1),
    "swapaxes": lambda d: d.swapaxes(0, 1),
    "unsqueeze": lambda d: d.unsqueeze(1),
    "squeeze": lambda d: d.unsqueeze(0).squeeze(0),
    "two in a row": lambda d: d.unsqueeze(0).permute(2, 0, 1),
    "torch.permute": lambda d: torch.permute(d, (1, 0)),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_keys_that_are_set_in_a_view_are_set_in_the_source(view: Any) -> None:
    source = data()
    seen = view(source)
    seen["new"] = torch.ones(*seen.batch_size, 2)
    seen["a"] = seen["a"] * 2
    seen["n", "c"] = torch.full(tuple(seen["n"].batch_size), 3.0)
    seen["text"] = "u"
    assert source["new"].shape == (2, 3, 2)
    assert source["a"].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert source["n", "c"].shape == (2, 3, 4)
    assert source["text"] == "u"
    assert source.batch_size == (2, 3)
    seen.rename_key_("new", "other")
    del seen["a"]
    assert sorted(source.keys()) == ["n", "other", "text"]


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_writes_in_place_reach_the_source(view: Any) -> None:
    source = data()
    seen = view(source)
    seen.add_(1)
    seen["n"].fill_("b", 5.0)
    seen.update_({"a": seen["a"] * 2})
    assert source["a"].tolist() == [[2, 4, 6], [8, 10, 12]]
    assert bool((source["n", "b"] == 5).all())
    seen[0] = 0
    assert 0 in source["a"]


def test_a_view_reads_what_the_source_holds_now() -> None:
    source = data()
    seen = source.permute(1, 0)
    source["late"] = torch.ones(2, 3)
    assert seen["late"].shape == (3, 2)
    assert seen.names == ["y", "x"]
    assert list(seen.keys()) == list(source.keys())


def test_the_lock_is_the_one_of_the_source() -> None:
    source = data()
    seen = source.view(6)
    source.lock_()
    assert seen.is_locked
    with pytest.raises(RuntimeError, match="is locked"):
        seen["new"] = torch.ones(6)
    seen.unlock_()
    assert not source.is_locked
    seen.lock_()
    assert source.is_locked


def test_a_value_that_does_not_fit_changes_nothing() -> None:
    source = data()
    with pytest.raises(RuntimeError, match="new"):
        source.view(6)["new"] = torch.ones(5)
    assert "new" not in source


def test_results_and_copies_are_collections_of_their_own() -> None:
    source = data()
    seen = source.view(6)
    for result in (seen + 1, seen[:2], seen.clone(), seen.clone(False), seen.reshape(6), source.reshape(6)):
        result["new"] = torch.ones(*result.batch_size)
    assert "new" not in source


def test_what_a_view_has_from_its_source_is_not_changed() -> None:
    seen = data().view(6)
    with pytest.raises(RuntimeError, match="of the legacy mode"):
        seen.batch_size = []
    with pytest.raises(RuntimeError, match="of the legacy mode"):
        seen.names = ["row"]
    with pytest.raises(RuntimeError, match="of the legacy mode"):
        seen.flatten(inplace=True)


def test_the_view_of_a_record_is_of_its_class() -> None:
    class Sample(TensorClass):
        x: Tensor

    source = Sample(x=torch.zeros(2, 3), batch_size=[2, 3])
    seen = source.permute(1, 0)
    seen.x = torch.ones(3, 2)
    assert isinstance(seen, Sample)
    assert source.x.tolist() == [[1, 1, 1]] * 2


def test_a_view_of_a_lazy_stack_writes_into_its_parts() -> None:
    source = lazy_stack([TensorDict({"a": torch.zeros(3)}, [3]) for _ in range(2)])
    source.view(6)["new"] = torch.arange(6)
    assert source[1]["new"].tolist() == [3, 4, 5]


def test_a_view_as_a_dtype_is_a_collection_of_its_own() -> None:
    source = data().exclude("n")
    source.view(torch.int32)["new"] = torch.ones(2, 3)
    assert "new" not in source


def test_the_mode_is_announced_and_ends() -> None:
    with pytest.warns(DeprecationWarning, match="tensordict 0.17 removes it"):
        set_lazy_legacy(True)
    assert lazy_legacy() is True
    with set_lazy_legacy(False):
        assert lazy_legacy() is False
        source = data()
        source.view(6)["new"] = torch.ones(6)
        assert "new" not in source


def test_methods_ask_for_the_mode_only_once_it_was_used() -> None:
    assert hasattr(Shaping.view, "_asks")
    with pytest.raises(TypeError, match="expected True or False"):
        set_lazy_legacy(None)  # type: ignore[arg-type]


def test_compiled_code_calls_the_replaced_methods() -> None:
    class Sample(TensorClass):
        x: Tensor

    source = Sample(torch.rand(2, 3), batch_size=[2, 3])
    compiled = torch.compile(lambda data: data.rot90(), fullgraph=True, backend="eager")
    assert torch.equal(compiled(source).x, source.x.rot90())
