"""Functions that workers call; they stand in a module so that every process can import them."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict


class Row(TensorClass, stack_objects=True):
    """A record that workers get."""

    x: Tensor
    n: Tensor
    text: str = ""


class Total(TensorClass):
    """A record that workers give."""

    total: Tensor


def rows(length: int = 12) -> Row:
    """Rows that are told apart."""
    return Row(x=torch.arange(2.0 * length).view(length, 2), n=torch.arange(length), text="t", batch_size=[length])


def same(chunk: Any) -> Any:
    return chunk


def plus(chunk: Any) -> TensorDict:
    return TensorDict({"x": chunk.x + 1, "n": chunk.n}, chunk.batch_size)


def total(chunk: Row) -> Total:
    return Total(total=chunk.x.sum(-1), batch_size=chunk.batch_size)


def tensor(chunk: Row) -> Tensor:
    return chunk.x * 2


def nothing(chunk: Row) -> None:
    return None


def first_number(chunk: Row) -> int:
    return int(chunk.n.reshape(-1)[0])


def with_text(chunk: Row) -> Row:
    new = chunk.clone()
    new.text = f"from {first_number(chunk)}"
    return new


def even_only(chunk: Row) -> Row | None:
    return None if first_number(chunk) % 4 else chunk


def in_place(chunk: Row) -> None:
    chunk.x.add_(100)


def total_in_place(chunk: Row) -> Total:
    found = total(chunk)
    chunk.x.add_(100)
    return found


def drawn(chunk: Row) -> TensorDict:
    numpys = float(np.random.rand())  # noqa: NPY002  (what is seeded for programs that use it)
    numbers = [float(torch.rand(())), numpys, random.random()]
    return TensorDict({"r": torch.tensor([numbers] * len(chunk))}, chunk.batch_size)


def pid(chunk: Row) -> int:
    return os.getpid()


def threads(chunk: Row) -> int:
    return torch.get_num_threads()


def grows(chunk: Row) -> TensorDict:
    return TensorDict({"y": torch.repeat_interleave(chunk.n, 2)}, [2 * len(chunk)])


def with_local(chunk: Row) -> Any:
    return lambda: chunk


def slowly(chunk: Row, seconds: float = 0.2) -> int:
    time.sleep(seconds)
    return first_number(chunk)


# -- faults -----------------------------------------------------------------------------------------------------------


class OwnError(Exception):
    """An error that pickle cannot make again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")

    def __reduce__(self) -> Any:
        return OwnError, self.args  # as it is without this, but for tblib, which Dask brings


def raises(chunk: Any) -> Any:
    raise KeyError("wanted")


class MadeError(ValueError):
    """An error that makes its text of other arguments, as many do."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row = row


def raises_made(chunk: Any) -> Any:
    raise MadeError(3, "torn")


def raises_own(chunk: Any) -> Any:
    raise OwnError(1, 2)


def dies(chunk: Any) -> Any:
    os._exit(3)


def is_asked_to_end(chunk: Any) -> Any:
    os.kill(os.getpid(), signal.SIGTERM)
    hangs(chunk)


def killed(chunk: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
    hangs(chunk)


def hangs(chunk: Any) -> Any:
    time.sleep(200)


def leaves(chunk: Any) -> Any:
    sys.exit(5)


FAULTS = {"raises": raises, "dies": dies, "is killed": killed, "hangs": hangs}


class At:
    """Does something at one row; gives the chunk and random numbers elsewhere, and the second time there.

    Args:
        fault: what is done.
        row: where.
        flag: a file that is made the first time; without one each time is the first.
    """

    def __init__(self, fault: Any, row: int = 4, flag: Path | None = None) -> None:
        self.fault, self.row, self.flag = fault, row, flag

    def __call__(self, chunk: Any) -> TensorDict:
        if self.row in chunk.n.reshape(-1).tolist() and self._is_first():
            self.fault(chunk)
        return TensorDict({"n": chunk.n, "r": torch.rand(chunk.n.shape)}, chunk.batch_size)

    def _is_first(self) -> bool:
        if self.flag is None:
            return True
        try:
            self.flag.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def in_thread(chunk: Any) -> str:
    return threading.current_thread().name
