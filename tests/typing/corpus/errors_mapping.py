"""Wrong uses of ``map`` and of its results are reported."""

from records import Flags, Sample

from tensorclass import TensorDict


def flags(chunk: Sample) -> Flags:
    return Flags(chunk.label > 0, chunk.label > 1, batch_size=chunk.batch_size)


def of_flags(chunk: Flags) -> Flags:
    return chunk


def results(batch: Sample) -> None:
    batch.map(flags).image  # E: a field of another record
    one: Sample = batch.map(flags)  # E: another record
    print(one)
    for two in batch.map_iter(flags):
        two.image  # E: a field of another record


def arguments(batch: Sample, data: TensorDict) -> None:
    batch.map(of_flags)  # E: a function of another record
    batch.map_iter(of_flags)  # E: a function of another record
    batch.map_iter(flags, chunksize="3")  # E: a number
    batch.map_iter(flags, colour=3)  # E: no such argument
    batch.map_iter(3)  # E: no function
