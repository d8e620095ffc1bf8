"""Ray: calls on its workers, and functions from record to record on its datasets (the extra ``ray``).

The object store needs nothing of this: ``ray.get(reference)`` of a record copies no tensor
(:mod:`tensorclass.td.pickle_buffers`). ``to_ray_dataset`` and ``from_ray_dataset`` make and read datasets.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, TypeVar, cast

from tensorclass.convert.tables.ray_dataset import check_dataset
from tensorclass.pipelines.stage import Stage
from tensorclass.support.extras import require
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection

from .map.executors import ClusterRunner

__all__ = ["RayRunner", "as_batches", "map_batches"]

_EXTRA = "ray"
_LEAVE_SECONDS = 0.25  #: that calls have to end by themselves
_END_SECONDS = 5.0  #: that the processes of cancelled calls have to end

In = TypeVar("In", bound=TensorCollection)
Out = TypeVar("Out", bound=TensorCollection)


# -- calls ------------------------------------------------------------------------------------------------------------


class RayRunner(ClusterRunner):
    """Runs calls as tasks of Ray. ``executor=ray`` makes one with the defaults.

    Connects to a cluster if the program has not: to the one of ``RAY_ADDRESS``, or to a new one on this machine.

    Args:
        library: the module ``ray``.
        workers: number of calls that run at the same time. Default: as many as the cluster has room for.
        **options: options of ``ray.remote``: ``num_cpus``, ``num_gpus``, ``resources``, ``runtime_env``, ...

    Raises:
        ImportError: Ray is not installed.
        TypeError: ``max_retries`` or ``retry_exceptions`` is among the options: ``map`` counts retries itself.
        ValueError: the cluster has no room for a call, and ``workers`` is not given.

    Example:
        >>> import ray, torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.distributed.ray import RayRunner
        >>> data = TensorDict({"x": torch.arange(4)}, [4])
        >>> data.map(lambda rows: rows + 1, chunksize=2, executor=RayRunner(num_cpus=1))["x"]
        tensor([1, 2, 3, 4])
    """

    def __init__(self, library: Any = None, *, workers: int | None = None, **options: Any) -> None:
        self._ray: Any = require("ray", _EXTRA, "RayRunner") if library is None else library
        for name in ("max_retries", "retry_exceptions"):
            if name in options:
                raise TypeError(f"RayRunner: {name} is not an option here; give retries= to map or to Stage.run")
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False)
        room: dict[str, float] = self._ray.cluster_resources()
        if workers is None:
            wanted = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
            fitting = [int(room.get(name, 0) / each) for name, each in wanted.items() if each]
            workers = min(fitting, default=1)
            if not workers:
                has = ", ".join([f"{room.get(name, 0):g} of {name}" for name, each in wanted.items() if each])
                asked = ", ".join([f"{each:g} of {name}" for name, each in wanted.items() if each])
                raise ValueError(
                    f"RayRunner: a call needs {asked}, and the cluster has {has}, so it would never start; ask for "
                    "less, or, if the cluster grows, give workers=, the number of calls that run at a time"
                )
        super().__init__("Ray", workers)
        self._call: Any = self._ray.remote(**{"max_retries": 0, **options})(_called)

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        reference = self._call.remote(function, *args)
        return self._future_of(reference, reference.future())

    def _cancel(self, call: Any) -> None:
        self._ray.cancel(call, force=True)

    def leave(self, futures: list[Future[Any]]) -> None:
        # Ray (2.60) sometimes aborts this program when a call is cancelled while it is handed to a worker, which
        # happens when another call has ended. So short calls get time to end by themselves.
        wait(futures, _LEAVE_SECONDS)
        cancelled = [future for future in futures if not future.done()]
        super().leave(cancelled)
        wait(cancelled, _END_SECONDS)  # Ray could give the next call to a process that is being killed

    def keep(self, value: Any) -> Any:
        return _StoredValue([self._ray.put(value)], uuid.uuid4().hex)


class _StoredValue(NamedTuple):
    """A value in the object store. Ray would unpickle an argument of its own type for each call."""

    reference: list[Any]
    name: str

    def value(self) -> Any:
        """Return the value. A worker caches the last one."""
        if self.name not in _kept:
            ray: Any = require("ray", _EXTRA, "RayRunner")
            found = ray.get(self.reference[0])
            _kept.clear()
            _kept[self.name] = found
        return _kept[self.name]


_kept: dict[str, Any] = {}


def _called(function: Callable[..., Any], *args: Any) -> Any:
    return function(*[one.value() if isinstance(one, _StoredValue) else one for one in args])


# -- datasets ---------------------------------------------------------------------------------------------------------


def as_batches(
    function: Callable[[In], Out], takes: type[In] | None = None, *, strict: bool = True
) -> Callable[[Any], Any]:
    """Adapt a function from record to record for ``dataset.map_batches(..., batch_format="pyarrow")``.

    Args:
        function: takes a batch as a record and returns a record, with any number of rows. May be a stage.
        takes: class of the records that it takes. Default: the annotation of the function.
        strict: raise if a column is not a field of the record. Otherwise drop the column with a warning.

    Returns:
        A function from table to table of Arrow.

    Raises:
        TypeError: the function has no annotation, and ``takes`` is not given.

    Example:
        >>> import torch
        >>> from tensorclass import TensorClass, TensorDict
        >>> from tensorclass.distributed.ray import as_batches
        >>> class Sample(TensorClass):
        ...     x: torch.Tensor
        >>> double = as_batches(lambda sample: sample * 2, Sample)
        >>> double(TensorDict({"x": torch.arange(3)}, [3]).to_arrow())["x"].to_pylist()
        [0, 2, 4]
    """
    cls: Any = _record_class_of(function) if takes is None else takes
    return _RecordBatches(function, cls, strict)


def map_batches(
    dataset: Any,
    function: Callable[[In], Out],
    takes: type[In] | None = None,
    *,
    batch_size: int | None = 1024,
    strict: bool = True,
    **options: Any,
) -> Any:
    """Call ``dataset.map_batches`` with a function from record to record. Its types are checked.

    Args:
        dataset: a ``ray.data.Dataset``.
        function: takes a batch as a record and returns a record, with any number of rows. May be a stage.
        takes: class of the records that it takes. Default: the annotation of the function.
        batch_size: rows of a batch; ``None`` for blocks as they are.
        strict: raise if a column is not a field of the record. Otherwise drop the column with a warning.
        **options: options of Ray's ``map_batches``: ``concurrency``, ``num_cpus``, ``num_gpus``, ...

    Returns:
        The dataset of the results. Ray computes it when it is read.

    Raises:
        TypeError: the function has no annotation and ``takes`` is not given, or ``dataset`` is not a Ray dataset.

    Example:
        >>> import ray.data
        >>> from tensorclass import TensorDict
        >>> from tensorclass.distributed.ray import map_batches
        >>> dataset = ray.data.from_items([{"x": 1.0}, {"x": 2.0}])
        >>> doubled = map_batches(dataset, lambda rows: rows * 2, TensorDict)
        >>> TensorDict.from_ray_dataset(doubled)["x"]
        tensor([2., 4.], dtype=torch.float64)
    """
    check_dataset(dataset, "map_batches")
    batches = as_batches(function, takes, strict=strict)
    return dataset.map_batches(batches, batch_size=batch_size, batch_format="pyarrow", zero_copy_batch=True, **options)


class _RecordBatches:
    """A function on records, called with tables. Ray sends it to its workers."""

    def __init__(self, function: Callable[[Any], Any], takes: type[TensorCollection], strict: bool) -> None:
        self.function: Callable[[Any], Any] = function
        self.takes: type[TensorCollection] = takes
        self.strict: bool = strict
        self.__name__: str = getattr(function, "name", getattr(function, "__name__", type(function).__name__))

    def __call__(self, table: Any) -> Any:
        from tensorclass.convert.tables.ray_dataset import as_plain

        given = self.function(self.takes.from_arrow(as_plain(table), strict=self.strict))
        if not isinstance(given, TensorCollection):
            raise TypeError(f"{self.__name__}: expected a function that returns a record, got a {type_name(given)}")
        return given.to_arrow()


def _record_class_of(function: Callable[..., Any]) -> type[TensorCollection]:
    """Return the class of the records that a function takes, from its annotations."""
    stage: Stage[Any, Any] = cast("Any", function) if isinstance(function, Stage) else Stage(function)
    try:
        cls = stage.input_type
    except TypeError:
        cls = None
    if not inspect.isclass(cls):
        raise TypeError(
            f"{stage.name}: expected a function whose annotation names the record that it takes; annotate it, or give "
            "the class: map_batches(dataset, function, Sample)"
        )
    return cls
