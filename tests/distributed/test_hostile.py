"""Peers that lie: errors of the promised classes, and the group can be used as before. A short run of ``hostile``."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.distributed.collectives import broadcast_ranks
from tensorclass.distributed.messages import point_to_point, remote_init
from tensorclass.storage.common.collection_tree import FileError
from tests.distributed import hostile
from tests.distributed.processes import Group

HUGE = 2**44
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("name", sorted(hostile._texts()))
def test_texts_that_lie_are_refused(name: str) -> None:
    """A share; ``python -m tests.distributed.hostile`` takes all."""
    counts, wrong = hostile.tried(name, 0.03 if name in ("from_remote_init", "broadcast") else 0.2, random.Random(1))
    assert wrong == []
    assert counts["refused"] > 20


class Long(bytes):
    """A text that says that it is longer than it is."""

    def __len__(self) -> int:
        return HUGE


def lies(rank: int, how: str) -> Any:
    """Return what rank 1 gets from rank 0, which lies, and whether the group is usable afterwards."""
    data = TensorDict({"x": torch.ones(3), "text": "words"}, [])
    error = "none"
    with pytest.MonkeyPatch.context() as patch:
        if rank == 0:
            objects = Long(b'["words"]') if how == "recv: length" else b'["words", ' + DEEP + b"]"
            if how.startswith("recv"):
                patch.setattr(point_to_point, "content_of", lambda *_: objects)
            if how == "recv: length":  # what nobody takes is not sent
                posted = point_to_point._post
                patch.setattr(point_to_point, "_post", lambda turn, messages: posted(turn, messages[:-1]))
            text, memory = remote_init._serialize(data, "init_remote", False)
            if how == "from_remote_init: length":
                move = remote_init._PeerTransport.move
                patch.setattr(remote_init, "_serialize", lambda *_: (Long(text), memory))
                patch.setattr(remote_init._PeerTransport, "move", lambda way, messages: move(way, messages[:1]))
            elif how == "from_remote_init: text":
                patch.setattr(remote_init, "_serialize", lambda *_: (b'{"tree":' + DEEP + b"}", memory))
            shape = b"[3]" if how == "broadcast: text" else b"[%d]" % HUGE
            found, specs, tensors = broadcast_ranks.describe_with_tensors(data, "broadcast")
            other = found.replace(b"[3]", shape).replace(b'"words"', DEEP)
            if how.startswith("broadcast"):
                patch.setattr(broadcast_ranks, "describe_with_tensors", lambda *_: (other, specs, tensors))
        call: Any = {
            "recv": lambda: data.send(1) if rank == 0 else data.recv(0, timeout=20),
            "from_remote_init": lambda: (
                data.init_remote(1, timeout=20) if rank == 0 else TensorDict.from_remote_init(0, timeout=20)
            ),
            "broadcast": lambda: data.broadcast(0),
        }[how.partition(":")[0]]
        try:
            call()
        except FileError as found:
            error = str(found)
        except Exception as found:
            error = f"{type(found).__name__}: {found}" if rank else "its own"
    return error, data["x"].tolist(), data["text"]


@pytest.mark.parametrize(
    "how, message",
    [
        ("recv: length", r"recv: the record of rank 0: it announces 17\.6 TB, more memory than there is here"),
        ("recv: text", "recv: the record of rank 0: not valid JSON|nested too deep"),
        ("from_remote_init: length", r"from_remote_init: the record of rank 0: it announces 17\.6 TB"),
        ("from_remote_init: text", "from_remote_init: the record of rank 0: not valid JSON"),
        ("broadcast: text", "broadcast: not valid JSON"),
    ],
)
def test_lies_of_a_peer_are_errors_that_name_it(pair: Group, how: str, message: str) -> None:
    error, values, text = pair.run(lies, how, seconds=120)[1]
    assert re.search(message, error), error
    assert (values, text) == ([1.0] * 3, "words")
