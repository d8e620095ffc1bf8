"""The nearest known name at the end of an error, looked for when the error is shown."""

import copy
import difflib
import pickle

import pytest

from tensorclass import TensorDict
from tensorclass.support.nearest import KeyMessage, did_you_mean


@pytest.mark.parametrize(
    "wrong, near",
    [
        ("imgae", "image"),
        ("Image", "image"),
        ("images", "image"),
        (["lable", "imgae"], "label', 'image"),
        ("image", ""),  # known: the name is right, something else is wrong
        ("weight", ""),
        (3, ""),
        (None, ""),
    ],
)
def test_the_nearest_name_is_named(wrong: object, near: str) -> None:
    assert did_you_mean(wrong, ["image", "label", 3]) == (f". Did you mean: '{near}'?" if near else "")


def test_of_many_wrong_names_the_first_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, *_, **__: looked_up.append(word) or [])
    did_you_mean((f"a{i}" for i in range(100)), ["x"])  # an iterator is one object, which is no name
    did_you_mean([f"a{i}" for i in range(100)], ["x"])
    assert looked_up == [f"a{i}" for i in range(5)]


def test_a_key_error_looks_for_the_nearest_key_when_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    data = TensorDict({"image": 1.0})
    with monkeypatch.context() as patched:
        patched.setattr(difflib, "get_close_matches", lambda *_, **__: pytest.fail("nothing was shown yet"))
        with pytest.raises(KeyError) as raised:
            data["imgae"]
        assert data.get("imgae") is None
        assert "imgae" not in data
    assert type(raised.value) is KeyError
    assert str(raised.value).endswith("the keys are ['image']. Did you mean: 'image'?")


@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_the_message_of_a_key_error_can_be_copied(copied: object) -> None:
    error = KeyError(KeyMessage("no key 'imgae'", "imgae", ["image"]))
    again = copied(error)  # type: ignore[operator]
    assert str(again) == str(error) == "no key 'imgae'. Did you mean: 'image'?"
    assert again.args == ("no key 'imgae'",)
