"""Text and ragged rows in batches: collation, datasets, workers, buckets of similar lengths."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import IterableDataset

from tensorclass import (
    BucketBatchSampler,
    Column,
    ConversionError,
    DataLoader,
    Ragged,
    RecordDataset,
    RecordStream,
    Stage,
    TensorClass,
    TensorDict,
    Text,
    collate,
)
from tests import forkserver


class Prompt(TensorClass):
    text: Text
    tokens: Ragged
    label: Tensor
    note: Text | None = None
    tags: Column[list[str]] | None = None


class Outer(TensorClass):
    name: Text
    prompt: Prompt


SAMPLES: list[dict[str, Any]] = [
    {"text": "a", "tokens": [1, 2], "label": 0, "note": None, "tags": ["u"]},
    {"text": "b", "tokens": [3], "label": 1, "note": "x", "tags": []},
    {"text": "c", "tokens": [], "label": 2, "note": "y", "tags": ["v", "w"]},
]


def content(batch: Any) -> list[tuple[Any, ...]]:
    columns = [batch[key].tolist() for key in ("text", "tokens", "label", "note", "tags")]
    return list(zip(*columns, strict=True))


ITEMS = st.lists(st.integers(-9, 9), max_size=3)
EXPECTED = [tuple(sample.values()) for sample in SAMPLES]


def whole() -> Prompt:
    values = {key: [sample[key] for sample in SAMPLES] for key in SAMPLES[0]}
    return Prompt(**{**values, "label": torch.arange(3)}, batch_size=[3])


# -- collation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [collate, torch.stack, torch.utils.data.default_collate])
def test_rows_of_one_buffer_share_it(function: Any) -> None:
    data = whole()
    batch = function([data[2], data[0]])
    assert content(batch) == [EXPECTED[2], EXPECTED[0]]
    assert batch.text.values is data.text.values
    assert batch.tokens.values is data.tokens.values


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.none() | st.text(max_size=3), st.none() | ITEMS), min_size=1, max_size=5))
def test_rows_of_other_buffers_are_joined(rows: list[tuple[Any, Any]]) -> None:
    samples = [
        TensorDict({"t": Text([text])[:].reshape(()), "r": Ragged([row], dtype=torch.int16).reshape(())}, [])
        for text, row in rows
    ]
    batch = collate(samples)
    assert batch["t"].tolist() == [text for text, _ in rows]
    assert batch["r"].tolist() == [row for _, row in rows]
    assert batch["r"].dtype is torch.int16


def test_dicts_of_columns_are_collated() -> None:
    batch = next(iter(TorchLoader([{"t": Text("a"), "n": 1}, {"t": Text("b"), "n": 2}], batch_size=2)))  # type: ignore[arg-type]
    assert batch["t"].tolist() == ["a", "b"]
    assert batch["n"].tolist() == [1, 2]


def test_ragged_values_can_be_padded_on_demand() -> None:
    samples = [TensorDict({"r": Ragged([row]).reshape(())}, []) for row in ([1, 2], [3])]
    batch = collate(samples, pad_keys={"r": -1}, mask_key={"r": "mask"})
    assert batch["r"].tolist() == [[1, 2], [3, -1]]
    assert batch["mask"].tolist() == [[True, True], [True, False]]
    with pytest.raises(ValueError, match=r"'tokens', which Prompt declares as Ragged.*to_padded"):
        collate([whole()[0], whole()[1]], pad_keys={"tokens": 0})
    with pytest.raises(ValueError, match=r"pad_keys names 'tokens', which Prompt declares as Ragged"):
        RecordDataset(Prompt, SAMPLES, pad_keys={"tokens": 0}).__getitems__([0, 1])


# -- datasets ---------------------------------------------------------------------------------------------------------


def as_arrays(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "tokens": np.array(sample["tokens"], dtype=np.int64), "text": np.str_(sample["text"])}


def as_tensors(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "tokens": torch.tensor(sample["tokens"], dtype=torch.int64)}


@pytest.mark.parametrize("form", [dict, as_arrays, as_tensors, lambda sample: tuple(sample.values())])
def test_lists_and_strings_go_into_columns(form: Any) -> None:
    dataset = RecordDataset(Prompt, [form(sample) for sample in SAMPLES])
    (batch,) = DataLoader(dataset, batch_size=3)
    assert content(batch) == EXPECTED
    assert batch.tokens.dtype is torch.int64
    assert type(batch.text) is Text
    one = dataset[0]
    assert (one.batch_size, one.text.item(), one.tokens.tolist()) == ((), "a", [1, 2])


def test_equal_rows_are_rows_too() -> None:
    (batch,) = DataLoader(RecordDataset(Prompt, [SAMPLES[0]] * 2), batch_size=2)
    assert content(batch) == [EXPECTED[0]] * 2
    assert list(batch.text) == ["a", "a"]


def test_rows_of_records_and_of_nested_records() -> None:
    data = whole()
    (batch,) = DataLoader(RecordDataset(Prompt, [data[at] for at in range(3)]), batch_size=3)
    assert content(batch) == EXPECTED
    (batch,) = DataLoader(RecordDataset(Outer, [{"name": "n", "prompt": sample} for sample in SAMPLES]), batch_size=3)
    assert content(batch.prompt) == EXPECTED
    assert batch.name.tolist() == ["n"] * 3


def test_a_stream_of_samples() -> None:
    batches = list(DataLoader(RecordStream(Prompt, SAMPLES), batch_size=2))
    assert [row for batch in batches for row in content(batch)] == EXPECTED


def test_the_sample_that_does_not_fit_is_named() -> None:
    dataset = RecordDataset(Prompt, [SAMPLES[0], {**SAMPLES[1], "text": 5}])
    with pytest.raises(ConversionError, match=r"\[1\]\.text"):
        list(DataLoader(dataset, batch_size=2))


# -- workers ----------------------------------------------------------------------------------------------------------


class Many:
    def __init__(self, items: int) -> None:
        self.items = items

    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> dict[str, Any]:
        return {**SAMPLES[1], "text": str(at) * self.items, "tokens": torch.full((self.items * (at % 2),), at)}


class Streamed(IterableDataset[dict[str, Any]]):
    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(SAMPLES)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("method, items", [("fork", 10), ("fork", 100_000), ("forkserver", 100_000)])
def test_workers_send_the_arrays_of_a_batch_by_one_handle(method: str, items: int) -> None:
    dataset = RecordDataset(Prompt, Many(items))
    loader = DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context=forkserver.context_of(method))
    for number, batch in enumerate(loader):
        own = [2 * number, 2 * number + 1]
        assert batch.text.tolist() == [str(at) * items for at in own]
        assert batch.tokens.lengths.tolist() == [0, items]
        memory = {_storage(part) for part in (batch.text.values, batch.text.spans, batch.tokens.values, batch.label)}
        assert len(memory) == 1
        assert batch.tokens.values.is_shared() == (items > 10)


def test_a_record_is_a_dataset_for_workers() -> None:
    batches = list(TorchLoader(whole(), batch_size=2, num_workers=2))  # type: ignore[arg-type]
    assert [row for batch in batches for row in content(batch)] == EXPECTED
    (batch,) = DataLoader(RecordStream(Prompt, Streamed()), batch_size=3, num_workers=1)
    assert content(batch) == EXPECTED


def test_rows_in_shared_memory_are_not_copied() -> None:
    data = TensorDict({"r": Ragged([[1.0] * 50_000, [2.0] * 50_000])}, [2]).share_memory_()
    seen = torch.multiprocessing.get_context("fork").SimpleQueue()
    process = torch.multiprocessing.get_context("fork").Process(target=_overwrite, args=(seen,))
    process.start()
    seen.put(data[1:])
    process.join(120)
    assert process.exitcode == 0
    assert data["r"][1].tensor()[0] == 7  # the other process has written to this memory


def _overwrite(queue: Any) -> None:
    queue.get()["r"][0].tensor()[0] = 7


# -- buckets ----------------------------------------------------------------------------------------------------------

LENGTHS = st.lists(st.integers(0, 20), max_size=40)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.none() | st.integers(1, 6), st.none() | st.integers(20, 60), st.booleans(), st.booleans(),
       st.none() | st.integers(1, 20))  # fmt: skip
def test_batches_of_similar_lengths(
    lengths: list[int],
    batch_size: int | None,
    max_items: int | None,
    shuffle: bool,
    drop_last: bool,
    bucket: int | None,
) -> None:
    if batch_size is None and max_items is None:
        max_items = 20
    sampler = BucketBatchSampler(
        lengths, batch_size, max_items=max_items, shuffle=shuffle, drop_last=drop_last, bucket_rows=bucket,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    for _ in range(3):
        count = len(sampler)
        batches = list(sampler)
        assert len(batches) == count
        rows = sorted(row for batch in batches for row in batch)
        missing = set(range(len(lengths))) - set(rows)
        assert len(set(rows)) == len(rows)
        assert not missing or drop_last
        for batch in batches:
            assert batch
            assert batch_size is None or len(batch) <= batch_size
            assert max_items is None or len(batch) * max(lengths[row] for row in batch) <= max_items
            if max_items is None and drop_last:
                assert len(batch) == batch_size
        if max_items is None:
            assert len(missing) < (batch_size or 1)


def test_epochs_differ_and_mix_lengths() -> None:
    lengths = torch.randint(1, 200, (2_000,), generator=torch.Generator().manual_seed(1))
    sampler = BucketBatchSampler(lengths, batch_size=10, generator=torch.Generator().manual_seed(0), bucket_rows=500)
    first, second = list(sampler), list(sampler)
    assert first != second
    again = BucketBatchSampler(lengths, batch_size=10, generator=torch.Generator().manual_seed(0), bucket_rows=500)
    assert [list(again), list(again)] == [first, second]
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in first)
    assert padded < 1.05 * int(lengths.sum())
    longest = [int(lengths[batch].max()) for batch in first]
    assert longest != sorted(longest)
    assert list(BucketBatchSampler([3, 1, 2], batch_size=2, shuffle=False)) == [[1, 2], [0]]


def test_an_epoch_is_resumed() -> None:
    lengths = list(range(50))
    sampler = BucketBatchSampler(lengths, batch_size=4)
    epoch = iter(sampler)
    seen = [next(epoch) for _ in range(5)]
    state = copy.deepcopy(sampler.state_dict())
    other = BucketBatchSampler(lengths, batch_size=4)
    other.load_state_dict(state)
    assert other.state_dict() == state
    rest = list(epoch)
    assert list(other) == rest
    assert sorted(row for batch in seen + rest for row in batch) == lengths
    assert len(list(other)) == 13  # the next epoch is whole
    fresh = BucketBatchSampler(lengths, batch_size=4)
    fresh.load_state_dict(sampler.state_dict())
    assert list(fresh) == list(sampler)


def test_a_loader_takes_the_sampler() -> None:
    data = whole()
    sampler = BucketBatchSampler(data.tokens, max_items=2, shuffle=False)
    for workers in (0, 1):
        loader = TorchLoader(data, batch_sampler=sampler, num_workers=workers)  # type: ignore[arg-type]
        assert [batch.tokens.tolist() for batch in loader] == [[[], [3]], [[1, 2]]]
    assert len(TorchLoader(data, batch_sampler=sampler)) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: BucketBatchSampler([1]), "give batch_size=, max_items=, or both"),
        (lambda: BucketBatchSampler([1], batch_size=0), "batch_size: expected a positive number, got 0"),
        (lambda: BucketBatchSampler([1, 9], max_items=5), "row 1 has 9 items, more than max_items=5"),
        (lambda: BucketBatchSampler([1.5], batch_size=1), "expected integers of one dimension"),
    ],
)
def test_arguments_of_the_sampler(make: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        make()


# -- padding in a stage -----------------------------------------------------------------------------------------------


class Padded(TensorClass):
    tokens: Tensor
    mask: Tensor
    text: Text


def padded(prompt: Prompt, length: int | None = None) -> Padded:
    tokens, mask = prompt.tokens.to_padded(-1, length=length, multiple_of=4 if length is None else None)
    return Padded(tokens, mask, prompt.text, batch_size=prompt.batch_size)


def test_a_stage_pads() -> None:
    stage = Stage[Prompt, Padded](partial(padded)) >> Stage[Padded, Padded](lambda batch: batch.flip(0))
    batch = stage(whole())
    assert batch.tokens.tolist() == [[-1] * 4, [3, -1, -1, -1], [1, 2, -1, -1]]
    assert batch.mask.sum(-1).tolist() == [0, 1, 2]
    assert list(batch.text) == ["c", "b", "a"]
    loader = TorchLoader(whole(), batch_size=2, collate_fn=stage)  # type: ignore[arg-type]
    assert [len(batch) for batch in loader] == [2, 1]
