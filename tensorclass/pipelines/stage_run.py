"""Run a stage on many rows: in batches in this process, or in worker processes and on clusters through ``map``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch

from tensorclass.support.progress import bar
from tensorclass.td.base import TensorCollection

if TYPE_CHECKING:
    from tensorclass.pipelines.stage import Stage

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
    progress: bool,
) -> Out:
    """See :meth:`Stage.run`."""
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ValueError(f"{stage.name}: batch_size: expected a number of rows, at least 1, got {batch_size!r}")
    if on is not None and num_workers is not None:
        raise ValueError(f"{stage.name}: expected on= or num_workers=, got both: on= has workers of its own")
    function = StageWithoutGradients(stage)
    if on is None and num_workers is None:
        if timeout is not None or retries:
            raise ValueError(f"{stage.name}: timeout and retries need workers: give on= or num_workers= as well")
        result: Out = _run_here(function, record, batch_size, progress)
        return result
    rows: Any = record
    if not record.batch_dims:
        raise ValueError(f"{stage.name}: expected a batch dimension, the rows, got the batch size []; call the stage")
    mapped: Out = rows.map(
        function,
        num_workers=num_workers,
        chunksize=batch_size,
        executor=on,
        timeout=timeout,
        retries=retries,
        progress=progress,
    )
    return mapped


def _run_here(function: StageWithoutGradients, record: Any, batch_size: int | None, progress: bool) -> Any:
    if batch_size is None or not record.batch_dims:
        return function(record)
    batches = [record] if len(record) <= batch_size else record.split(batch_size, 0)
    results: list[Any] = []
    name = function.stage.name
    with bar(len(batches), name, unit="batch", progress=progress) as shown:
        for batch in batches:
            results.append(function(batch))
            shown.advance()
    if len(results) == 1:
        return results[0]
    if not all(result.batch_dims for result in results):
        raise RuntimeError(
            f"{name}: cannot concatenate the batches: expected results with a batch dimension, the rows, got the batch "
            "size []; return one row for each row, or leave out batch_size"
        )
    return torch.cat(results, 0)


class StageWithoutGradients:
    """Call a stage without recording gradients, which other processes could not send back either."""

    def __init__(self, stage: Stage[Any, Any]) -> None:
        self.stage: Stage[Any, Any] = stage
        self.__name__: str = stage.name

    def __call__(self, record: Any) -> Any:
        with torch.no_grad():
            return self.stage(record)
