"""What data loaders yield: batches of records, wherever the samples come from."""

from functools import partial
from typing import Any

import torch
import torch.utils.data
from records import Flags, Sample
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, RandomSampler, Subset, random_split
from typing_extensions import assert_type

from tensorclass import DataLoader, RecordDataset, RecordStream, TensorDict, collate
from tensorclass.distributed.ray import map_batches


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(2), torch.zeros(2)


class Samples(Dataset[Sample]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Sample:
        return Sample(torch.zeros(2), torch.zeros(2))


STREAMED = [{"a": 0, "kept": 1}, {"a": 1, "kept": 1}]


def count(samples: list[Sample]) -> int:
    return len(samples)


def loaders_of_records(batch: Sample, flags: Flags, data: TensorDict) -> None:
    samples = Samples()
    for one in DataLoader(batch, batch_size=32, shuffle=True):
        assert_type(one, Sample)
        assert_type(one.image, Tensor)
    for two in DataLoader([flags, flags], 32):
        assert_type(two, Flags)
    for three in DataLoader(data, 32):
        assert_type(three, TensorDict)
    for four in DataLoader(samples, batch_size=4, drop_last=True):
        assert_type(four, Sample)
    for five in DataLoader(Subset(samples, [1, 2]), sampler=RandomSampler([1, 2])):
        assert_type(five, Sample)
    joined: ConcatDataset[Sample] = ConcatDataset([samples, samples])
    for six in DataLoader(joined):
        assert_type(six, Sample)
    for seven in DataLoader(random_split(samples, [3, 1])[0]):
        assert_type(seven, Sample)
    assert_type(next(iter(DataLoader(batch))), Sample)
    assert_type(DataLoader(batch), DataLoader[Sample])
    assert_type(DataLoader(samples, 4, num_workers=2, persistent_workers=True), DataLoader[Sample])


def datasets_of_records() -> None:
    dataset = RecordDataset(Sample, Pairs())
    assert_type(dataset, RecordDataset[Sample])
    assert_type(dataset[0], Sample)
    assert_type(RecordDataset(Flags, STREAMED, keys={"a": "seen"}, strict=False)[0].seen, Tensor)
    assert_type(RecordDataset(TensorDict, Pairs(), keys=["image", "label"], pad_keys={"image": 0})[0], TensorDict)
    for one in DataLoader(dataset, batch_size=32):
        assert_type(one, Sample)
    for two in DataLoader(RecordStream(Flags, STREAMED, keys={"a": "seen"}), batch_size=32):
        assert_type(two, Flags)
    for three in RecordStream(Flags, STREAMED, keys={"a": "seen"}):
        assert_type(three, Flags)
    for four in DataLoader(Subset(dataset, [1, 2]), 32):
        assert_type(four, Sample)


def with_a_function() -> None:
    samples, pairs = Samples(), Pairs()
    for one in DataLoader(samples, collate_fn=count):
        assert_type(one, int)
    padded = partial(collate, pad_keys={"image": 0}, mask_key={"image": "source"})
    for two in DataLoader[TensorDict]([TensorDict({"image": [1.0, 2.0]})], 32, collate_fn=padded):
        assert_type(two, TensorDict)
    for three in DataLoader[Sample](pairs, 32, collate_fn=lambda rows: Sample(torch.zeros(2), torch.zeros(2))):
        assert_type(three, Sample)
    for four in DataLoader[Sample](samples, 32, collate_fn=collate):
        assert_type(four, Sample)
    for five in DataLoader(RecordDataset(Sample, pairs), 32, collate_fn=lambda batch: batch.image):
        assert_type(five, Tensor)
    rows = [samples[0], samples[1]]
    assert_type(collate(rows), Sample)
    assert_type(collate(rows, nested_keys=["image"]), Sample)


def as_that_of_torch(batch: Sample) -> None:
    loader: torch.utils.data.DataLoader[Sample] = DataLoader(batch)
    dataset: Dataset[Sample] = RecordDataset(Sample, Pairs())
    print(loader, dataset)


def hugging_face(dataset: Any) -> None:
    assert_type(Flags.from_huggingface(dataset), Flags)
    assert_type(TensorDict.from_huggingface(dataset, nulls="fill"), TensorDict)
    assert_type(next(Flags.iter_huggingface(dataset, batch_size=1)), Flags)
    for one in DataLoader(RecordDataset(Flags, dataset)):
        assert_type(one, Flags)


def flags_of(sample: Sample) -> Flags:
    return Flags(sample.label > 0, sample.label < 0, batch_size=sample.batch_size)


def of_ray(dataset: Any, batch: Sample) -> None:
    assert_type(Flags.from_ray_dataset(dataset), Flags)
    assert_type(TensorDict.from_ray_dataset(dataset, nulls="fill"), TensorDict)
    assert_type(next(Flags.iter_ray_dataset(dataset, batch_size=1)), Flags)
    mapped = map_batches(batch.to_ray_dataset(blocks=2), flags_of, batch_size=2, concurrency=2)
    assert_type(Flags.from_ray_dataset(mapped), Flags)
    map_batches(dataset, lambda sample: sample + 1, Sample)


def of_others() -> None:
    for one in DataLoader(Pairs(), 32):
        assert_type(one, Any)
