"""Wrong uses of data loaders and of their batches are reported."""

from records import Flags, Sample

from tensorclass import DataLoader, RecordDataset, RecordStream


def batches(batch: Sample, rows: list[Flags]) -> None:
    for one in DataLoader(batch, 32):
        one.pixels  # E: no such field
    for two in DataLoader(RecordDataset(Flags, rows), 32):
        two.image  # E: a field of another record
    other: DataLoader[Flags] = DataLoader[Sample](batch)  # E: a loader of other records
    print(other)


def arguments(batch: Sample, rows: list[Flags]) -> None:
    DataLoader(batch, batch_size="32")  # E: a number
    DataLoader(batch, colour=3)  # E: no such argument
    DataLoader(3)  # E: no dataset
    RecordDataset(Flags)  # E: a source
    RecordDataset(int, rows)  # E: a class of records
    RecordDataset(Flags, rows, padding_side="top")  # E: right or left
    RecordDataset(Flags, 3)  # E: no dataset
    RecordStream(Flags, 3)  # E: no iterable
    RecordStream(Flags, rows, pad_keys={})  # E: no such argument
