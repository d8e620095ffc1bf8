"""Options of printing take effect when they are set, and end where they should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tensorclass import TensorDict, get_printoptions, set_printoptions
from tensorclass.td.printing.print_options import OPTIONS


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = OPTIONS.everywhere
    yield
    OPTIONS.everywhere = before


def test_a_call_takes_effect_at_once() -> None:
    set_printoptions(style="compact")
    assert repr(TensorDict({})) == "TensorDict(batch_size=[], fields={})"
    set_printoptions(style="short")
    assert repr(TensorDict({})) == "TensorDict(batch_size=[])"


def test_options_end_with_the_block_and_nest() -> None:
    before = get_printoptions()
    with set_printoptions(compact=True), set_printoptions(show_shape=False):
        assert not get_printoptions()["show_shape"]
        assert get_printoptions()["style"] == "long"
    assert get_printoptions() == before


def test_a_block_of_options_that_were_set_before_ends_with_those_before_the_call() -> None:
    before = get_printoptions()
    options = set_printoptions(max_lines=7)
    with options:
        assert get_printoptions()["max_lines"] == 7
    assert get_printoptions() == before
    with options:
        assert get_printoptions()["max_lines"] == 7
    assert get_printoptions() == before


def test_a_block_keeps_what_was_set_between_the_call_and_it() -> None:
    options = set_printoptions(max_lines=7)
    set_printoptions(max_width=60)
    with options:
        pass
    assert (get_printoptions()["max_lines"], get_printoptions()["max_width"]) == (7, 60)


def test_a_decorator_holds_while_the_function_runs() -> None:
    before = get_printoptions()

    @set_printoptions(style="compact")
    def compact() -> str:
        return repr(TensorDict({}))

    assert get_printoptions() == before
    assert compact() == "TensorDict(batch_size=[], fields={})"
    assert get_printoptions() == before


def test_all_options_can_be_set_back() -> None:
    before = get_printoptions()
    set_printoptions(compact=True, max_lines=3, show_dtype=False)
    set_printoptions(**before)
    assert get_printoptions() == before


@pytest.mark.parametrize(
    "options, style",
    [
        ({"compact": True}, "compact"),
        ({"compact": False}, "long"),
        ({"show_grad": True}, "long"),
        ({"plain": True}, "long"),
        ({"show_grad": True, "style": "short"}, "short"),
        ({"show_device": False}, "short"),
        ({"verbose": False}, "short"),
        ({"max_lines": 3}, "short"),
    ],
    ids=str,
)
def test_options_of_one_form_select_it(options: dict[str, Any], style: str) -> None:
    with set_printoptions(**options):
        assert get_printoptions()["style"] == style


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"colour": True}, TypeError, "unknown options"),
        ({"sort_keys": "random"}, ValueError, "alphabetical"),
        ({"style": "tall"}, ValueError, "short"),
        ({"max_lines": 1}, ValueError, "max_lines: expected an int of at least 2, got 1"),
        ({"max_width": "wide"}, ValueError, "max_width"),
    ],
)
def test_what_is_no_option_is_an_error_and_changes_nothing(options: Any, error: type[Exception], message: str) -> None:
    before = get_printoptions()
    with pytest.raises(error, match=message):
        set_printoptions(**options)
    assert get_printoptions() == before


def test_keys_are_sorted_as_asked_for() -> None:
    data = TensorDict({"ccc": 1, "a": 2, "bb": 3})

    def keys(**options: Any) -> list[str]:
        with set_printoptions(**options):
            return [line.split(":")[0].strip() for line in repr(data).split("\n")[1:]]

    assert keys() == keys(sort_keys="insertion") == ["ccc", "a", "bb"]
    assert keys(sort_keys="alphabetical") == ["a", "bb", "ccc"]
    assert keys(sort_keys=len) == ["a", "bb", "ccc"]


@pytest.mark.parity
def test_the_options_of_the_peer_are_options_here() -> None:
    theirs, ours = tensordict.get_printoptions(), get_printoptions()
    assert ours.keys() - theirs.keys() == {"style", "max_lines", "max_width"}
    assert {key: value for key, value in theirs.items() if ours[key] != value} == {
        "compact": True,
        "sort_keys": "alphabetical",
    }
    with tensordict.set_printoptions(html=False), set_printoptions(html=False):
        assert tensordict.TensorDict({})._repr_html_() is tensorclass.TensorDict({})._repr_html_() is None


def test_numbers_are_written_as_torch_was_told() -> None:
    data = TensorDict({"x": torch.tensor([1 / 3, 2.0])})
    try:
        torch.set_printoptions(precision=2)
        assert "[0.33, 2.0]" in repr(data)
        torch.set_printoptions(sci_mode=True)
        assert "[3.33e-01, 2e+00]" in repr(data)
        torch.set_printoptions(profile="default", edgeitems=1)
        assert "[0, ..., 99]" in repr(TensorDict({"x": torch.arange(100)}, [100]))
        torch.set_printoptions(linewidth=50)
        assert max(map(len, repr(TensorDict({"x": "a" * 100})).split("\n"))) == 50
    finally:
        torch.set_printoptions(profile="default", sci_mode=None)
