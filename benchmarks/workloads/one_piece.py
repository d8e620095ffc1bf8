"""More than by hand: work on consolidated collections, whose tensors lie in one piece of memory, beside plain dicts."""

import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import tensordict
import torch
from torch import Tensor

import tensorclass
from benchmarks.sides import OURS, Batch, Form, Side, by_hand
from benchmarks.timing import Call
from benchmarks.workloads.table import ROWS, Workload


def _packed(tensors: dict[str, Tensor], batch: Batch) -> Any:
    """Copy tensors into one buffer, as a program without either package would."""
    sizes = [-(-value.nbytes // 8) * 8 for value in tensors.values()]
    memory = torch.empty(sum(sizes), dtype=torch.uint8)
    packed, start = {}, 0
    for (key, value), size in zip(tensors.items(), sizes, strict=True):
        packed[key] = memory[start : start + value.nbytes].view(value.dtype).view(value.shape)
        packed[key].copy_(value)
        start += size
    return packed, batch


def _saved(value: Any) -> bool:
    file = io.BytesIO()
    torch.save(value, file)
    return file.tell() > 0


def _through_a_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _to_meta_by_hand(tensors: dict[str, Tensor], _: Batch) -> str:
    moved = {key: value.to("meta") for key, value in tensors.items()}
    return next(iter(moved.values())).device.type


def _close(side: Side, ours: Any, theirs: Any) -> bool:
    (tensorclass if side is OURS else tensordict).assert_close(ours, theirs)
    return True


def _close_by_hand(tensors: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    for key, value in tensors.items():
        torch.testing.assert_close(value, others[key])
    return True


def _row(
    name: str, form: Form, library: Callable[[Any], Any], hand: Callable[[dict[str, Any], Batch], Any]
) -> Workload:
    def prepared(side: Side) -> Call:
        return partial(library, side.make(form, ROWS).consolidate())

    return Workload(f"{name} ({form})", prepared, lambda: partial(hand, *by_hand(form, ROWS)), is_beyond=True)


def _rows(form: Form) -> tuple[Workload, ...]:
    def consolidate(side: Side) -> Call:
        return side.make(form, ROWS).consolidate  # type: ignore[no-any-return]

    def close(side: Side) -> Call:
        return partial(_close, side, side.make(form, ROWS).consolidate(), side.make(form, ROWS).consolidate())

    def equal(side: Side) -> Call:
        one, other = side.make(form, ROWS).consolidate(), side.make(form, ROWS).consolidate()
        return lambda: bool((one == other).all())

    def equal_by_hand() -> Call:
        (one, _), (other, _) = by_hand(form, ROWS), by_hand(form, ROWS)
        return lambda: all(bool((value == other[key]).all()) for key, value in one.items())

    return (
        Workload(f"one piece: consolidate ({form})", consolidate, lambda: partial(_packed, *by_hand(form, ROWS)), True),
        _row("one piece: clone", form, lambda x: x.clone(), lambda d, n: ({k: v.clone() for k, v in d.items()}, n)),
        _row('one piece: to("meta")', form, lambda x: x.to("meta").device.type, _to_meta_by_hand),
        Workload(f"one piece: == and all ({form})", equal, equal_by_hand, True),
        Workload(
            f"one piece: assert_close ({form})",
            close,
            lambda: partial(_close_by_hand, by_hand(form, ROWS)[0], by_hand(form, ROWS)[0]),
            True,
        ),
        _row("one piece: pickle and back", form, _through_a_pickle, lambda d, n: _through_a_pickle((d, n))),
        _row("one piece: torch.save", form, _saved, lambda d, n: _saved((d, n))),
    )


WORKLOADS = (*_rows("record"), *_rows("td50"))
