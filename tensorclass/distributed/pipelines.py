"""Stages on many rows: batch by batch here, in processes, or on the workers of a cluster."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from tensorclass.progress import bar
from tensorclass.stage import Stage
from tensorclass.td.base import TensorCollection

from .chunks import Chunks, join

In = TypeVar("In", bound=TensorCollection)
Out = TypeVar("Out", bound=TensorCollection)


def run(
    stage: Stage[In, Out],
    record: In,
    on: Any,
    batch_size: int | None,
    num_workers: int | None,
    timeout: float | None,
    retries: int,
    pbar: bool,
) -> Out:
    """See :meth:`Stage.run`."""
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ValueError(f"{stage.name}: batch_size: expected a number of rows, at least 1, got {batch_size!r}")
    if on is not None and num_workers is not None:
        raise ValueError(f"{stage.name}: expected on= or num_workers=, got both: on= has workers of its own")
    batch = Batch(stage)
    if on is None and num_workers is None:
        if timeout is not None or retries:
            raise ValueError(
                f"{stage.name}: timeout and retries are for the workers of on= or num_workers=, and none are asked for"
            )
        here: Out = _here(batch, record, batch_size, pbar)
        return here
    rows: Any = record
    if not record.batch_dims:
        raise ValueError(f"{stage.name}: expected a batch dimension, the rows, got the batch size []; call the stage")
    found: Out = rows.map(
        batch, num_workers=num_workers, chunksize=batch_size, executor=on, timeout=timeout, retries=retries, pbar=pbar
    )
    return found


def _here(batch: Batch, record: Any, batch_size: int | None, pbar: bool) -> Any:
    if batch_size is None or not record.batch_dims:
        return batch(record)
    chunks = Chunks(0, len(record), batch_size, False)
    results: list[Any] = []
    with bar(chunks.total, batch.stage.name, unit="batch", progress=pbar) as shown:
        for part in chunks.cut(record):
            results.append(batch(part))
            shown.advance()
    return join(results, 0, False)


class Batch:
    """A stage that records no gradients, which do not come back from other processes either."""

    def __init__(self, stage: Stage[Any, Any]) -> None:
        self.stage: Stage[Any, Any] = stage
        self.__name__: str = stage.name

    def __call__(self, record: Any) -> Any:
        with torch.no_grad():
            return self.stage(record)
