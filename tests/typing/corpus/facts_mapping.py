"""What ``map`` and ``map_iter`` give is what their function gives."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from records import Flags, Sample
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorDict


def flags(chunk: Sample) -> Flags:
    return Flags(chunk.label > 0, chunk.label > 1, batch_size=chunk.batch_size)


def some(chunk: Sample) -> Sample | None:
    return chunk


def nothing(chunk: Sample) -> None:
    return None


def tensor(chunk: Sample) -> Tensor:
    return chunk.image


def number(chunk: Sample) -> int:
    return len(chunk)


def untyped(chunk: TensorDict) -> TensorDict:
    return chunk


def scaled(chunk: Sample, by: float) -> Sample:
    return chunk * by


def records(batch: Sample) -> None:
    with ThreadPoolExecutor(1) as executor:
        assert_type(batch.map(flags, executor=executor), Flags)
        assert_type(batch.map(flags, executor=executor).seen, Tensor)
        assert_type(batch.map(some, chunksize=2, executor=executor), Sample | None)
        assert_type(batch.map(tensor, executor=executor), Tensor)
        assert_type(batch.map(number, executor=executor), list[int])
        assert_type(batch.map(lambda chunk: chunk, executor=executor), Sample)
        assert_type(batch.map(lambda chunk: chunk.image, 0, executor=executor), Tensor)
        assert_type(batch.map(partial(scaled, by=2.0), executor=executor), Sample)
        assert_type(batch.map(some, out=batch.clone(), executor=executor), Sample)
        assert_type(batch.map(tensor, out=batch.image.clone(), executor=executor), Tensor)


def one_by_one(batch: Sample) -> None:
    with ThreadPoolExecutor(1) as executor:
        assert_type(batch.map_iter(flags, chunksize=2, executor=executor), Iterator[Flags])
        for one in batch.map_iter(flags, chunksize=2, executor=executor):
            assert_type(one, Flags)
        for two in batch.map_iter(number, chunksize=2, executor=executor):
            assert_type(two, int)
        for three in batch.map_iter(lambda chunk: chunk.label, chunksize=2, executor=executor):
            assert_type(three, Tensor)
        for four in batch.map_iter(some, chunksize=2, shuffle=True, executor=executor):
            assert_type(four, Sample | None)


def collections(data: TensorDict) -> None:
    with ThreadPoolExecutor(1) as executor:
        assert_type(data.map(untyped, executor=executor), TensorDict)
        for one in data.map_iter(untyped, executor=executor):
            assert_type(one, TensorDict)
