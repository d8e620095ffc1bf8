"""Try a library of native code before it is put in place: ``python check_library.py FILE``.

This is run as a script, in a process of its own: a library that does not fit ends the process, and nothing else.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def check() -> None:
    """Run operations with native code and in Python, under a collector that runs often, and compare their results.

    Raises:
        AssertionError: a result differs.
    """
    import torch

    from tensorclass import TensorClass, TensorDict, Text
    from tensorclass.td import native

    class Sample(TensorClass):
        x: torch.Tensor
        y: torch.Tensor
        note: str = "a"

    def nested() -> Any:
        return TensorDict({"a": torch.arange(12.0).reshape(4, 3), "b": {"c": torch.arange(4)}}, [4])

    def record() -> Any:
        return Sample(torch.arange(12.0).reshape(4, 3), torch.arange(4), batch_size=[4])

    def written(data: Any) -> Any:
        data[1:3] = data[:2].clone()
        return data.set(("b", "d"), torch.ones(4)).update({"e": torch.zeros(4)})

    operations: dict[str, Callable[[], Any]] = {
        "a record": record,
        "an index": lambda: (nested()[0], record()[1:3], nested()[torch.tensor([0, 2])], record()[None]),
        "arithmetic": lambda: (nested() + 1, record().exp() * record(), nested() == nested()),
        "a shape": lambda: (nested().reshape(2, 2), nested().unsqueeze(0).squeeze(0), record().flatten()),
        "a stack": lambda: (torch.stack([nested(), nested()]), torch.cat([record(), record()]), nested().unbind(0)),
        "writing": lambda: written(nested()),
        "keys": lambda: (list(nested().keys(True, True)), nested().flatten_keys("."), nested().select("a")),
        "copies": lambda: (nested().clone(), nested().to(torch.float64), record().to_dict(), record().detach()),
        "a reduction": lambda: (nested().float().mean(0), record().sum(0), nested().split(2)),
        "text": lambda: Text(["p", "q", "r"])[1:].tolist(),
    }
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for name, operation in operations.items():
            results: list[Any] = []
            for on in (True, False):
                native.switch(on)
                results.append(_plain(operation()))
            assert results[0] == results[1], f"{name}: {results[0]}, in Python {results[1]}"
    finally:
        gc.set_threshold(*thresholds)
        native.switch(True)


def _plain(value: Any) -> Any:
    """Return a result as numbers, strings, lists and dicts."""
    if type(value) in (list, tuple):
        return [*map(_plain, value)]
    if hasattr(value, "to_dict"):
        return {"batch size": [*value.batch_size], **_plain(value.to_dict())}
    if hasattr(value, "items"):
        return {key: _plain(item) for key, item in value.items()}
    return [str(value.dtype), value.tolist()] if hasattr(value, "tolist") else value


if __name__ == "__main__":
    os.environ.update({"TENSORCLASS_NATIVE": "1", "_TENSORCLASS_NATIVE_TRIED": sys.argv[1]})
    sys.path[0] = str(Path(__file__).parents[3])
    check()
    print("works")
