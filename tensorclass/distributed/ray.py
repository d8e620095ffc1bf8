"""Ray: calls on its workers, and functions from record to record on its datasets (the extra ``ray``).

Records need nothing of this to go through Ray's object store: ``ray.put(record)`` and ``ray.get(reference)`` copy no
tensor on the way out (:mod:`tensorclass.td.buffers`). Datasets are made and read by ``to_ray_dataset`` and
``from_ray_dataset``.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, TypeVar, cast

from tensorclass.convert.extras import require
from tensorclass.convert.ray import check_dataset
from tensorclass.stage import Stage
from tensorclass.td.base import TensorCollection

from .executors import Runner

__all__ = ["RayRunner", "as_batches", "map_batches"]

_EXTRA = "ray"
_SETTLE = 0.25  #: seconds for calls to end by themselves

In = TypeVar("In", bound=TensorCollection)
Out = TypeVar("Out", bound=TensorCollection)


# -- calls ------------------------------------------------------------------------------------------------------------


class RayRunner(Runner):
    """Calls as tasks of Ray: ``executor=ray`` makes one with the defaults.

    A cluster that the program has not connected to yet is connected to, as Ray does it: that of ``RAY_ADDRESS``, or one
    that is started on this machine.

    Args:
        library: the module ``ray``.
        workers: how many calls run at the same time; by default as many as the cluster has room for.
        **options: of ``ray.remote``, for each call: ``num_cpus``, ``num_gpus``, ``resources``, ``runtime_env``, ...

    Raises:
        ImportError: Ray is not installed.
        TypeError: ``max_retries`` or ``retry_exceptions`` is among the options: who runs the calls counts retries.
        ValueError: the cluster has no room for a call, and ``workers`` is not given.
    """

    def __init__(self, library: Any = None, *, workers: int | None = None, **options: Any) -> None:
        self._ray: Any = require("ray", _EXTRA, "RayRunner") if library is None else library
        for name in ("max_retries", "retry_exceptions"):
            if name in options:
                raise TypeError(f"RayRunner: {name} is no option here; give retries to what runs the calls")
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
                    f"RayRunner: a call wants {asked}, and the cluster has {has}, so that it would never begin; ask "
                    "for less, or give workers=, how many calls run at a time, where the cluster grows"
                )
        super().__init__("Ray", workers, "machines", survives=True)
        self._call: Any = self._ray.remote(**{"max_retries": 0, **options})(_called)
        self._running: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        reference = self._call.remote(function, *args)
        self._running[future] = reference

        def done(there: Future[Any]) -> None:
            self._running.pop(future, None)
            error = there.exception()
            if error is None:
                future.set_result(there.result())
            else:
                future.set_exception(error)

        reference.future().add_done_callback(done)
        return future

    def cancel(self, future: Future[Any]) -> None:
        reference = self._running.pop(future, None)
        if reference is not None:
            self._ray.cancel(reference, force=True)

    def leave(self, futures: list[Future[Any]]) -> None:
        # Ray (2.60) aborts this program, now and then, when a call is cancelled while it is given to a worker, as it is
        # when another one has ended. Short calls end by themselves, and then nothing begins.
        wait(futures, _SETTLE)
        super().leave([future for future in futures if not future.done()])

    def keep(self, value: Any) -> Any:
        return _Kept([self._ray.put(value)], uuid.uuid4().hex)


class _Kept(NamedTuple):
    """A value in the object store. Ray would unpickle it for each call, if it were given to it itself."""

    reference: list[Any]
    name: str

    def value(self) -> Any:
        """The value, which a worker keeps until it is given another one."""
        if self.name not in _kept:
            ray: Any = require("ray", _EXTRA, "RayRunner")
            found = ray.get(self.reference[0])
            _kept.clear()
            _kept[self.name] = found
        return _kept[self.name]


_kept: dict[str, Any] = {}


def _called(function: Callable[..., Any], *args: Any) -> Any:
    return function(*[one.value() if isinstance(one, _Kept) else one for one in args])


# -- datasets ---------------------------------------------------------------------------------------------------------


def as_batches(
    function: Callable[[In], Out], takes: type[In] | None = None, *, strict: bool = True
) -> Callable[[Any], Any]:
    """A function from record to record as one from table to table, for ``map_batches(..., batch_format="pyarrow")``.

    Args:
        function: takes a batch as a record, and gives a record, with as many rows or others. A stage, too.
        takes: the class of the records that it takes; by default that of its annotation.
        strict: whether columns that are no fields of the record are an error; else they are left out, with a warning.

    Raises:
        TypeError: nothing says what the function takes.
    """
    cls: Any = _taken(function) if takes is None else takes
    return _Batches(function, cls, strict)


def map_batches(
    dataset: Any,
    function: Callable[[In], Out],
    takes: type[In] | None = None,
    *,
    batch_size: int | None = 1024,
    strict: bool = True,
    **options: Any,
) -> Any:
    """``dataset.map_batches`` with a function from record to record, whose types are checked.

        scores = map_batches(samples.to_ray_dataset(blocks=8), score, batch_size=256)
        Scores.from_ray_dataset(scores)

    Args:
        dataset: a ``ray.data.Dataset``.
        function: takes a batch as a record, and gives a record, with as many rows or others. A stage, too.
        takes: the class of the records that it takes; by default that of its annotation.
        batch_size: how many rows a batch has; ``None`` for blocks as they are.
        strict: whether columns that are no fields of the record are an error; else they are left out, with a warning.
        **options: of Ray's ``map_batches``: ``concurrency``, ``num_cpus``, ``num_gpus``, ...

    Raises:
        TypeError: nothing says what the function takes, or ``dataset`` is something else.
    """
    check_dataset(dataset, "map_batches")
    batches = as_batches(function, takes, strict=strict)
    return dataset.map_batches(batches, batch_size=batch_size, batch_format="pyarrow", zero_copy_batch=True, **options)


class _Batches:
    """A function on records as one on tables. Ray sends it to its workers."""

    def __init__(self, function: Callable[[Any], Any], takes: type[TensorCollection], strict: bool) -> None:
        self.function: Callable[[Any], Any] = function
        self.takes: type[TensorCollection] = takes
        self.strict: bool = strict
        self.__name__: str = getattr(function, "name", getattr(function, "__name__", type(function).__name__))

    def __call__(self, table: Any) -> Any:
        from tensorclass.convert.ray import as_plain

        given = self.function(self.takes.from_arrow(as_plain(table), strict=self.strict))
        if not isinstance(given, TensorCollection):
            raise TypeError(f"{self.__name__}: expected a function that gives a record, got a {type(given).__name__}")
        return given.to_arrow()


def _taken(function: Callable[..., Any]) -> type[TensorCollection]:
    """The class of the records that a function takes, by its annotations."""
    stage: Stage[Any, Any] = cast("Any", function) if isinstance(function, Stage) else Stage(function)
    try:
        cls = stage.input_type
    except TypeError:
        cls = None
    if not inspect.isclass(cls):
        raise TypeError(
            f"{stage.name}: expected a function whose annotation says which record it takes; annotate it, or give the "
            "class: map_batches(dataset, function, Sample)"
        )
    return cls
