"""Run the same call here and in the peer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.parity.sides import OURS, PEER, described, outcome


def both(call: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the result of a call in both libraries as plain data; errors as their class."""
    results: list[Any] = []
    for library in (OURS, PEER):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peer warns of changes to come
            result = outcome(lambda library=library: call(library))
        results.append(result if isinstance(result, Exception) else described(result))
    ours, peers = results
    if isinstance(ours, Exception) and isinstance(peers, Exception) and isinstance(ours, _class(peers)):
        return _class(peers), _class(peers)  # ours may derive from several classes
    return tuple([_class(one) if isinstance(one, Exception) else one for one in results])  # type: ignore[return-value]


def _class(error: Exception) -> type:
    """Return the builtin class of an error, which users catch: each library derives its own from it."""
    return next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
