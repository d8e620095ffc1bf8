"""Messages of a peer that lies: ``python -m tests.distributed.hostile``.

Each value of each text that a process receives (records of ``from_remote_init`` and ``broadcast``, objects of ``recv``,
notes in the store, what ranks tell of their calls) becomes another one, as :mod:`tests.storage.notes` has them; lengths
are huge. What reads it gives a record, or raises a ``ValueError`` or ``RecordsDiffer``, and nothing else.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tensorclass import TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.distributed import RecordsDiffer
from tensorclass.distributed.collectives import agreement
from tensorclass.distributed.messages import exchange, record_layout, remote_init
from tests.storage.notes import changes

SECONDS = 60  #: that reading a message may take


def record() -> TensorDict:
    """All that a message can have."""
    ragged = torch.nested.nested_tensor([torch.rand(2), torch.rand(3)], layout=torch.jagged)
    return TensorDict(
        {
            "x": torch.rand(2, 3),
            "below": {"y": torch.arange(2)},
            "parts": lazy_stack([TensorDict({"a": torch.rand(n)}) for n in (1, 3)]),
            "ragged": ragged,
            "one": UnbatchedTensor(torch.rand(3)),
            "text": "words",
            "rows": ["p", "q"],
            "odd": (1, {"a": {1.5}}, b"1"),
        },
        [2],
        names=["time"],
    )


def _remote(text: bytes) -> None:
    _, memory = remote_init._serialize(record(), "init_remote", False)
    remote_init._deserialize(text, memory, TensorDict, "the record of rank 0", None, False)


def _told(text: bytes) -> None:
    """As ``broadcast`` and ``gather_and_stack`` read a record."""
    specs = record_layout.specs_in(text, "broadcast")
    tensors: dict[Any, Tensor] = {}
    for spec in specs:
        if spec.component == "offsets" and spec.shape == (3,):
            tensors[spec.path, spec.component] = torch.tensor([0, 2, 5])
        elif spec.shape.numel() < 1000:
            tensors[spec.path, spec.component] = torch.zeros(spec.shape, dtype=spec.dtype)
        else:
            record_layout.allocate(spec.shape, spec.dtype, torch.device("cpu"), "broadcast")
            raise ValueError("broadcast: it never comes")  # a message of its own, which ends with the time-out
    record_layout.rebuild_record(text, None, record_layout.lookup_in(tensors, "broadcast"), "broadcast")


def _objects(text: bytes) -> None:
    data = record()
    record_layout.read_content(text, data, record_layout.layout_of(data), "recv: the record of rank 0")()


def _answer(text: bytes) -> None:
    found = exchange._parse_note(text, "recv: the note of rank 0")
    record_layout.differences({"a": "float32 [3]"}, found["entries"])


def _side(text: bytes) -> None:
    agreement._parse_side(text, "all_reduce: what rank 0 tells")


def _texts() -> dict[str, tuple[bytes, Callable[[bytes], None]]]:
    """The texts, with what reads them."""
    data = record()
    note = {"digest": 1, "tag": 2, "size": 3, "entries": {"a": "float32 [3]"}, "gone": "", "beside": ""}
    side = {"what": "all_reduce", "entries": {"a": "float32 [3]"}, "problem": "ValueError: no"}
    return {
        "from_remote_init": (remote_init._serialize(data, "init_remote", False)[0], _remote),
        "broadcast": (record_layout.describe_record(data, "broadcast"), _told),
        "recv": (record_layout.content_of(data, record_layout.layout_of(data), "send"), _objects),
        "a note": (json.dumps(note).encode(), _answer),
        "a call": (json.dumps(side).encode(), _side),
    }


def tried(name: str, share: float, rng: random.Random) -> tuple[Counter[str], list[str]]:
    """Read all changes of a text, or a share of them. Return counts by outcome, and the failures."""
    text, read = _texts()[name]
    read(text)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for what, changed in changes(json.loads(text)):
        if share < 1 and rng.random() >= share:
            continue
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            read(changed.encode(errors="surrogatepass"))
            counts["read"] += 1
        except (ValueError, RecordsDiffer) as error:
            counts["refused"] += 1
            if ":" not in str(error):
                wrong.append(f"{name}: {what}: who sent it is not said: {error}")
        except Exception as error:
            wrong.append(f"{name}: {what}: {type(error).__name__}: {str(error)[:200]}")
        finally:
            faulthandler.cancel_dump_traceback_later()
    return counts, wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="how many of the changes, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    for name in _texts():
        counts, wrong = tried(name, options.share, random.Random(f"{options.seed} {name}"))
        for line in wrong:
            print(line, file=sys.stderr, flush=True)
        failed += len(wrong)
        print(f"{name}: {counts['read']} read, {counts['refused']} refused, {len(wrong)} wrong", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
