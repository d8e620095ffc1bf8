"""How the ranks of a group make sure that they mean the same before a value is written.

A collective whose ranks come with different sizes hangs, or gives garbage. So each call begins with a message of a size
that all know. The general one is a few numbers of each rank (:func:`agree`): which call, which form of record
(:attr:`.layout.Layout.digest`), whether it has an error of its own. Where they differ, all ranks raise an error that
says in what.

That message takes as long as one with a small record. So what came behind what is remembered: where a call was followed
twice by the same one, that one is expected to come again, and begins with its own message, in which the values go along
with the digest (a :class:`Head`). Whoever comes with another call sends zeros of the expected size and its own digest;
all see that, and begin again with the general message. Since what is expected follows from calls that all
ranks have agreed on, it is the same for all, and no rank ever checks alone. But what one rank sends to the others
(:mod:`.spreading`) has no answer: there the rank that comes with another call is the only one that sees it.

An asynchronous call that is expected does not wait for its head. If that shows a difference, the detailed message has
to be the next one of all ranks: so it is looked at before the next call begins (:func:`.groups.settle`).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass.storage import sealing, tree
from tensorclass.storage.tree import FileError

from .faults import RecordsDiffer, WorkerRaised
from .groups import Group, named_ranks
from .layout import differences, space

#: calls whose successors are remembered, a group
_MOST = 256

MASK = 2**63 - 1
_NONE = -(2**63)  #: less than the digest of any form, and than its negative
_ReduceOp: Any = dist.ReduceOp
_MAX: Any = _ReduceOp.MAX


class Head(ABC):
    """The first message of a call that is expected, with values in it.

    Args:
        call: the digest of the call.
    """

    __slots__ = ("call",)

    def __init__(self, call: int) -> None:
        self.call: int = call

    @abstractmethod
    def agreed(self, group: Group, call: int, content: Any) -> bool:
        """Takes part in the message; whether all ranks came with the call that was expected.

        Args:
            group: the group.
            call: the digest of the call that this rank comes with.
            content: its values, where that is the one expected.
        """


class Expected:
    """What came behind a call the last time."""

    __slots__ = ("call", "head", "sure")

    def __init__(self, call: int) -> None:
        self.call: int = call
        self.head: Head | None = None
        #: whether it came twice in a row
        self.sure: bool = False


class Call(NamedTuple):
    """What a rank comes with."""

    what: str  #: the operation and its arguments, in words
    form: int  #: the digest of the record; 0 where there is none to compare
    entries: dict[str, str]  #: what the digest is of
    problem: BaseException | None = None  #: why this rank cannot take part
    numbers: tuple[int, ...] = ()  #: told to all: sizes of what comes next

    @property
    def digest(self) -> int:
        """64 bits of all that must be the same on all ranks."""
        return mixed(self.what, self.form)


def mixed(what: str, form: int) -> int:
    """A digest of a call, the same in all processes."""
    text = what.encode() + form.to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") & MASK


def expected(group: Group) -> Head | None:
    """The head of the call that is expected to come now."""
    following = group.known.following.get(group.known.last)
    return following.head if following is not None and following.sure else None


def note(group: Group, call: int, head: Callable[[], Head | None]) -> None:
    """Remembers that a call came, and all ranks agreed on it."""
    known = group.known
    following = known.following.get(known.last)
    if following is None or following.call != call:
        if len(known.following) >= _MOST:
            known.following.clear()
        known.following[known.last] = Expected(call)
    elif not following.sure:
        following.sure = True
        following.head = head()
    known.last = call


class Agreed(NamedTuple):
    """What all ranks know when they mean the same."""

    form: int  #: the digest of the records
    most: list[int]  #: the largest of each number
    same: bool  #: the first two numbers are the same on all ranks


def agree(group: Group, call: Call) -> Agreed:
    """Compares what the ranks come with.

    Raises:
        RecordsDiffer: they differ. On all ranks, with the same message.
        WorkerRaised: another rank cannot take part.
        Exception: this rank cannot: its own error.
    """
    known = group.known
    what, form = mixed(call.what, 0), call.form & MASK
    first, second, third = (*call.numbers, 0, 0, 0)[:3]
    mine = [what, -what, *((form, -form) if form else (_NONE, _NONE)), int(call.problem is not None)]
    told = torch.tensor([*mine, first, second, third, -first, -second], dtype=torch.int64, device=known.device)
    group.wait(group.all_reduce(told, _MAX))
    most: list[int] = numbers_of(told)
    some = most[2] != _NONE
    if most[0] != -most[1] or (some and most[2] != -most[3]) or most[4]:
        known.forget()
        raise _error(group, call)
    return Agreed(most[2] if some else 0, most[5:8], most[5:7] == [-most[8], -most[9]])


def refuse(group: Group, what: str, problem: Exception) -> NoReturn:
    """Raises an error of this rank, when the others know of it, too."""
    head = expected(group)
    if head is not None:
        try:
            head.agreed(group, 0, None)
        except RecordsDiffer:  # the others went on
            raise problem from None
    agree(group, Call(what, 0, {}, problem))
    raise problem


def gathered(group: Group, tensor: Tensor) -> Tensor:
    """The tensors of all ranks, one behind the other."""
    target = torch.empty(group.known.size * tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    group.wait(group.all_gather(target, tensor.view(-1)))
    return target.view(group.known.size, *tensor.shape)


def texts(group: Group, text: bytes, sizes: Sequence[int] | None = None) -> list[bytes]:
    """The texts of all ranks."""
    if sizes is None:
        own: Tensor = torch.tensor(len(text), dtype=torch.int64, device=group.known.device)
        lengths: list[int] = numbers_of(gathered(group, own))
        return texts(group, text, lengths)
    most = max(sizes)
    if not most:
        return [b""] * len(sizes)
    own = space(most, torch.uint8, torch.device("cpu"), f"{group.what}: a text of another rank").zero_()
    own[: len(text)] = as_bytes(text)
    table = gathered(group, own.to(group.known.device)).cpu()
    return [to_bytes(row[:size]) for row, size in zip(table, sizes, strict=True)]


def numbers_of(tensor: Tensor) -> Any:
    """The items of a tensor, in lists."""
    found: Any = tensor
    return found.tolist()


def as_bytes(text: bytes) -> Tensor:
    """A text as a tensor."""
    if not text:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    found: Tensor = torch.frombuffer(bytearray(text), dtype=torch.uint8)  # pyright: ignore[reportUnknownMemberType]
    return found


def to_bytes(tensor: Tensor) -> bytes:
    """The text of a tensor on the CPU."""
    return tensor.numpy().tobytes()


def _side(text: bytes, origin: str) -> dict[str, Any]:
    """Parse and check what another rank tells of its call."""
    found = sealing.parse_json(text, origin)
    entries = tree.as_dict(found.get("entries", 0)) or {}
    texts = [found.get("what"), found.get("problem", ""), *entries.values()]
    if any(type(item) is not str for item in texts) or (entries == {} and found.get("entries") not in (None, {})):
        raise FileError(f"{origin} is damaged, or of another version of this package")
    return {"entries": None, **found}


def _error(group: Group, call: Call) -> BaseException:
    """What is wrong, found out by one more message of each rank."""
    known = group.known
    told: dict[str, Any] = {"what": call.what, "entries": call.entries if call.form else None}
    if call.problem is not None:
        told["problem"] = f"{type(call.problem).__name__}: {call.problem}"
    text = json.dumps(told).encode()
    ranked = zip(known.ranks, texts(group, text), strict=True)
    sides = [_side(found, f"{group.what}: what rank {rank} tells of its record") for rank, found in ranked]
    if call.problem is not None:
        return call.problem
    problems = [f"rank {known.ranks[at]}: {side['problem']}" for at, side in enumerate(sides) if "problem" in side]
    if problems:
        raised = [known.ranks[at] for at, side in enumerate(sides) if "problem" in side]
        who = named_ranks(raised)
        return WorkerRaised.of(None, f"{group.what}: nothing was written; {'; '.join(problems)}", worker=who)
    asked: dict[str, list[int]] = {}
    for rank, side in zip(known.ranks, sides, strict=True):
        asked.setdefault(side["what"], []).append(rank)
    if len(asked) > 1:
        lines = [f"{what} on {named_ranks(ranks)}" for what, ranks in asked.items()]
        return RecordsDiffer(
            f"{group.what}: the ranks do not call the same: {'; '.join(lines)}. Nothing was written", differences=lines
        )
    alike: list[tuple[dict[str, str], list[int]]] = []
    for rank, side in zip(known.ranks, sides, strict=True):
        entries: dict[str, str] | None = side["entries"]
        if entries is None:
            continue
        for other, ranks in alike:
            if other == entries:
                ranks.append(rank)
                break
        else:
            alike.append((entries, [rank]))
    alike.sort(key=lambda item: (-len(item[1]), item[1]))  # most of them are right, as a rule
    lines = [
        line
        for entries, ranks in alike[1:]
        for line in differences(alike[0][0], entries, named_ranks(alike[0][1]), named_ranks(ranks))
    ]
    listed = "; ".join(lines[:20]) + (f"; and {len(lines) - 20} more" if len(lines) > 20 else "")
    return RecordsDiffer(
        f"{group.what}: the records of the ranks differ: {listed}. Nothing was written", differences=lines
    )
