"""Pickles of records whose class has changed, here and in the peer."""

import pickle
from typing import Any

import pytest
import tensordict
import torch

from tensorclass import tensorclass


def reloaded(decorator: Any, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Any:
    """A record of ``x`` and ``y``, unpickled when its class has other fields, with these defaults."""

    def define(**fields: Any) -> Any:
        defaults = {name: value for name, value in fields.items() if value is not None}
        namespace = {"__annotations__": dict.fromkeys(fields, Any), "__module__": __name__, **defaults}
        cls = decorator(type("Changing", (), namespace))
        monkeypatch.setitem(globals(), "Changing", cls)
        return cls

    text = pickle.dumps(define(x=None, y=None)(x=torch.ones(2), y=torch.ones(2), batch_size=[2]))
    define(**fields)
    return pickle.loads(text)


def test_a_field_that_came_later_gets_its_default_and_none_in_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reloaded(tensorclass, monkeypatch, x=None, y=None, more="new").more == "new"
    assert reloaded(tensordict.tensorclass, monkeypatch, x=None, y=None, more="new").more is None


def test_a_field_that_went_is_an_error_and_stays_in_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"unexpected: \['y'\]"):
        reloaded(tensorclass, monkeypatch, x=None)
    assert set(reloaded(tensordict.tensorclass, monkeypatch, x=None).keys()) == {"x", "y"}
