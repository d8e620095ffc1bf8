"""Where messages between processes and those of the peer differ.

What takes several processes has no case here: tests/parity/test_distributed.py and test_collectives.py ask both
libraries, under the name of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[[Any], Any]


def has_pipes(m: Any) -> list[bool]:
    return [hasattr(m.TensorDict({}, batch_size=[]), name) for name in ("asend", "arecv")]


#: for each sentence of docs/differences.md: a call, what is expected here, and what of the peer
DISTRIBUTED: dict[str, list[tuple[Call, Any, Any]]] = {
    "A record is one message.": [],
    "Both sides report a mismatch.": [],
    "Nothing is unpickled.": [],
    "The receiver chooses the class.": [],
    "A message in transit is one object.": [],
    "All ranks report a mismatch.": [],
    "Only the destination of `reduce` changes.": [],
    "Tensors that share memory are reduced once.": [],
    "Records stay records.": [],
    "`broadcast` returns the sender's own collection.": [],
    "There are no pipes.": [(has_pipes, [False, False], [True, True])],
}
