"""Locks, dimension names, and blocks that undo an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.operations import SHAPE_OPERATIONS
from tests.parity.drawn import Case, Drawn, case, spread
from tests.parity.sides import is_record

NAMES = ("time", "batch", "env", None, ...)


def new_names(drawn: Drawn) -> st.SearchStrategy[Any]:
    """As many names as there are dimensions, mostly."""
    return draw.names(drawn.ndim) | st.lists(st.sampled_from(("time", "batch", None)), max_size=3)


def _undone(name: str, arguments: Callable[[Drawn], Any], dims: int = 1) -> Case:
    def call(data: Any, library: Any, *args: Any) -> Any:
        with getattr(data, name)(*args) as inside:
            size = tuple(inside.batch_size)
            inside.set("a" if is_record(inside) else "written inside", torch.ones(size))
        return size

    return spread(arguments, call=call, dims=dims)


def _unlocked(data: Any, library: Any) -> Any:
    with data.unlock_() as inside:
        inside.set("b" if is_record(inside) else "new", torch.zeros(inside.batch_size))
    return data.is_locked


def _locked(data: Any, library: Any) -> Any:
    with data.lock_() as inside:
        return inside.is_locked


LOCKING = {
    "lock_": case(),
    "unlock_": case(),
    "is_locked": case(),
    "is_locked: set": case(st.booleans(), call=lambda data, library, flag: setattr(data, "is_locked", flag)),
    "lock_: a block": case(call=_locked),
    "unlock_: a block": case(call=_unlocked),
    "__enter__: view": _undone("view", lambda d: st.just((-1,))),
    "__exit__: unsqueeze": _undone("unsqueeze", lambda d: st.tuples(draw.any_dims(d.ndim))),
    **{
        f"{name}: a block": _undone(name, lambda d, name=name: SHAPE_OPERATIONS[name](d.batch_size))
        for name in ("permute", "transpose", "flatten", "unflatten")
    },
    "squeeze: a block": _undone("squeeze", lambda d: st.tuples(draw.any_dims(d.ndim))),
    "names: set": case(new_names, call=lambda data, library, names: setattr(data, "names", names)),
    "refine_names": spread(lambda d: st.lists(st.sampled_from(NAMES), max_size=d.ndim + 1)),
    "rename": spread(new_names),
    "rename_": spread(new_names),
    "rename: a mapping": case(
        st.dictionaries(st.sampled_from(("time", "batch", "env")), st.sampled_from(("head", "time")), max_size=2),
        call=lambda data, library, names: data.rename(**names),
    ),
}
