"""What comes from other processes has the class of the record that is asked."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager

import torch.distributed as dist
from records import Sample
from typing_extensions import assert_type

from tensorclass import TensorDict
from tensorclass.distributed.collectives import Pending


@contextmanager
def alone() -> Generator[None, None, None]:
    """A group of one process."""
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


def of_records(sample: Sample, data: TensorDict) -> None:
    with alone():
        assert_type(sample.broadcast(0), Sample)
        assert_type(sample.scatter(0, [sample]), Sample)
        assert_type(sample.all_gather(), list[Sample])
        assert_type(sample.gather_and_stack(0), Sample | None)
        assert_type(data.broadcast(0, timeout=5.0), TensorDict)
        assert_type(data.all_gather(), list[TensorDict])


def sums(sample: Sample) -> None:
    with alone():
        assert_type(sample.clone().all_reduce(dist.ReduceOp.MAX), None)
        assert_type(sample.clone().all_reduce(async_op=True), list[Pending] | None)
        assert_type(sample.clone().reduce(0), list[Pending] | None)
