"""Collections in ``torch.utils.data``: as a dataset, as samples of another dataset, as batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from traceback import clear_frames
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)

from tensorclass import LazyStackedTensorDict, NonTensorStack, RecordDataset, TensorClass, TensorDict, collate, stack
from tests import forkserver, fresh_python
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged, mixed, nested


class Sample(TensorClass, stack_objects=True):
    x: Tensor
    label: Tensor
    text: str = ""
    extra: Tensor | None = None


def record(n: int = 10) -> Sample:
    texts: Any = NonTensorStack(*[f"row {i}" for i in range(n)])
    return Sample(torch.arange(2.0 * n).reshape(n, 2), torch.arange(n), texts, batch_size=[n])


def loader(dataset: Any, **options: Any) -> Any:
    return DataLoader(dataset, **options)


# -- a collection as the dataset --------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_record_is_a_dataset_of_its_rows(drop_last: bool) -> None:
    data = record()
    with Unchanged(data):
        batches = list(loader(data, batch_size=4, drop_last=drop_last))
    assert [type(batch) for batch in batches] == [Sample] * (2 if drop_last else 3)
    for i, batch in enumerate(batches):
        assert_equal(batch, data[4 * i : 4 * i + 4])


def test_a_nested_collection_with_objects_is_a_dataset() -> None:
    for data in (nested(names=["row"]), mixed()):
        first, second = loader(data, batch_size=2)
        assert_equal(first, data[:2])
        assert_equal(second, data[2:])


def test_further_batch_dimensions_stay() -> None:
    data = TensorDict({"a": torch.arange(24).reshape(4, 3, 2)}, [4, 3])
    batches = list(loader(data, batch_size=3))
    assert [batch.batch_size for batch in batches] == [(3, 3), (1, 3)]


def test_a_batch_is_made_with_one_index_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    getitems = Sample.__getitems__
    monkeypatch.setattr(
        Sample, "__getitems__", lambda self, indices: (calls.append(indices), getitems(self, indices))[1]
    )
    list(loader(record(), batch_size=5))
    assert calls == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_shuffling_gives_every_row_once() -> None:
    data = record()
    generator = torch.Generator().manual_seed(0)
    batches = list(loader(data, batch_size=3, shuffle=True, generator=generator))
    labels = torch.cat([batch.label for batch in batches])
    assert labels.tolist() != list(range(10))
    assert sorted(labels.tolist()) == list(range(10))
    for batch in batches:
        assert_equal(batch, data[batch.label])
        assert [f"row {i}" for i in batch.label.tolist()] == list(batch.text)


def test_samplers_choose_the_rows() -> None:
    data = record()
    weights = [0.0] * 9 + [1.0]
    (batch,) = loader(data, batch_size=5, sampler=WeightedRandomSampler(weights, 5))
    assert batch.label.tolist() == [9] * 5
    seen = torch.cat([batch.label for batch in loader(data, batch_size=2, sampler=SubsetRandomSampler([1, 4, 7]))])
    assert sorted(seen.tolist()) == [1, 4, 7]


def test_a_batch_sampler_chooses_the_batches() -> None:
    data = record()
    batches = list(loader(data, batch_sampler=[[0, 9], [5], [1, 1, 1]]))
    assert [batch.label.tolist() for batch in batches] == [[0, 9], [5], [1, 1, 1]]
    batches = list(loader(data, batch_sampler=BatchSampler(range(4), 3, False)))
    assert [batch.label.tolist() for batch in batches] == [[0, 1, 2], [3]]


def test_without_automatic_batches_rows_come_one_by_one_or_as_the_sampler_says() -> None:
    data = record()
    rows = list(loader(data, batch_size=None))
    assert [type(row) for row in rows] == [Sample] * 10
    assert_equal(rows[3], data[3])
    sampler: Any = BatchSampler(range(10), 4, False)
    assert [batch.batch_size for batch in loader(data, batch_size=None, sampler=sampler)] == [(4,), (4,), (2,)]


def test_an_own_collate_function_gets_the_batch() -> None:
    seen: list[Any] = []
    list(loader(record(), batch_size=10, collate_fn=lambda batch: seen.append(batch)))
    assert_equal(seen[0], record())


def test_parts_of_a_dataset_are_datasets() -> None:
    data = record()
    (batch,) = loader(Subset(data, [2, 3, 5]), batch_size=4)
    assert_equal(batch, data[[2, 3, 5]])
    parts = random_split(data, [7, 3], generator=torch.Generator().manual_seed(0))
    labels = [torch.cat([batch.label for batch in loader(part, batch_size=2)]).tolist() for part in parts]
    assert sorted(labels[0] + labels[1]) == list(range(10))
    (batch,) = loader(ConcatDataset([data[:2], data[5:6]]), batch_size=4)
    assert_equal(batch, data[[0, 1, 5]])
    (batch,) = loader(StackDataset(first=data, second=torch.arange(10)), batch_size=10)
    assert_equal(batch["first"], data)


def test_an_empty_record_gives_no_batch() -> None:
    assert list(loader(record()[:0], batch_size=2)) == []


# -- collections as samples -------------------------------------------------------------------------------------------


class Rows(Dataset[Any]):
    """Makes each sample when it is asked for."""

    def __init__(self, make: Any = None) -> None:
        self.rows, self.make = record(), make

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        return self.make(row) if self.make else row


def test_samples_are_stacked() -> None:
    first, second = loader(Rows(), batch_size=5)
    assert_equal(first, record()[:5])
    assert_equal(second, record()[5:])


def test_samples_in_other_samples_are_stacked() -> None:
    (batch,) = loader(Rows(lambda row: (row, {"again": row, "label": int(row.label)})), batch_size=10)
    assert_equal(batch[0], record())
    assert_equal(batch[1]["again"], record())
    assert torch.equal(batch[1]["label"], torch.arange(10))


def test_a_list_of_records_is_a_dataset() -> None:
    (batch,) = loader(list(record()), batch_size=10)
    assert_equal(batch, record())


class Stream(IterableDataset[Any]):
    """Ten rows, shared among the workers."""

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        start, step = (worker.id, worker.num_workers) if worker else (0, 1)
        yield from record()[start::step]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterable_dataset_yields_records(workers: int) -> None:
    batches = list(loader(Stream(), batch_size=5, num_workers=workers))
    assert [type(batch) for batch in batches] == [Sample, Sample]
    labels = torch.cat([batch.label for batch in batches])
    assert sorted(labels.tolist()) == list(range(10))
    rows = list(loader(Stream(), batch_size=None))
    assert_equal(rows[4], record()[4])


@pytest.mark.parametrize("context", ["fork", "forkserver"])
@pytest.mark.parametrize("dataset", [record(), Rows()], ids=["record", "dataset of records"])
def test_workers_give_the_same_batches(dataset: Any, context: str) -> None:
    start = forkserver.context_of(context)
    batches = list(loader(dataset, batch_size=4, num_workers=2, multiprocessing_context=start))
    assert [type(batch) for batch in batches] == [Sample] * 3
    for i, batch in enumerate(batches):
        assert_equal(batch, record()[4 * i : 4 * i + 4])


def test_samples_that_differ_in_shape_become_a_lazy_stack() -> None:
    rows = [TensorDict({"a": torch.ones(i + 1), "b": torch.ones(2)}) for i in range(2)]
    for batch in (next(iter(loader(rows, batch_size=2))), collate(rows)):
        assert isinstance(batch, LazyStackedTensorDict)
        assert torch.equal(batch["b"], torch.ones(2, 2))
        assert batch.get("a", as_list=True)[1].shape == (2,)


def test_an_error_in_a_worker_names_what_is_wrong() -> None:
    class Other(TensorClass):
        x: Tensor

    samples: list[Any] = [record(1)[0], Other(torch.zeros(2))]
    with pytest.raises(TypeError, match=r"expected records of the class Sample only; item 1 is a Other") as caught:
        next(iter(loader(samples, batch_size=2, num_workers=1, multiprocessing_context="fork")))
    # the iterator is free now: as garbage in a cycle it would wait 5 s for its worker, in any later test
    clear_frames(caught.tb)


def test_pinning_memory_pins_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils.pin_memory import pin_memory

    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda self, *args: (pinned.append(self), self)[1])
    data = record()
    result: Any = pin_memory((data, [data["x"]]))
    assert type(result[0]) is Sample
    assert [tensor.data_ptr() for tensor in pinned] == [data.x.data_ptr(), data.label.data_ptr(), data.x.data_ptr()]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_loader_with_pin_memory_gives_pinned_batches() -> None:
    batch = next(iter(loader(record(), batch_size=4, pin_memory=True)))
    assert type(batch) is Sample
    assert batch.is_pinned()


def test_importing_the_package_imports_nothing_of_torch_that_torch_does_not_import_itself() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import tensorclass; print(sorted(sys.modules.keys() - before))"
    )
    result = fresh_python.run(["-c", code], check=True)
    assert "torch.utils.data" not in result.stdout


# -- collate ----------------------------------------------------------------------------------------------------------


def ragged() -> list[TensorDict]:
    return [
        TensorDict({"n": {"c": torch.full((3 - i,), i)}, "a": torch.full((i + 1, 2), 1.0 + i), "b": torch.ones(3)})
        for i in range(3)
    ]


class Pair(NamedTuple):
    first: Any
    second: Any


def test_collate_without_options_does_what_torch_does_and_keeps_tuples() -> None:
    rows = list(record())
    assert_equal(collate(rows), record())
    assert_equal(collate([{"a": row} for row in rows])["a"], default_collate([{"a": row} for row in rows])["a"])
    assert torch.equal(collate([1, 2]), default_collate([1, 2]))
    assert collate(["a", "b"]) == ["a", "b"]
    pair = collate([(row, 1) for row in rows])
    assert type(pair) is tuple
    assert_equal(pair[0], record())
    assert torch.equal(pair[1], torch.ones(10, dtype=torch.long))
    assert type(collate([Pair(row, 1) for row in rows])) is Pair


@pytest.mark.parametrize("batch", [record(), (record(), 1), torch.ones(2), []], ids=["record", "tuple", "tensor", "[]"])
def test_what_is_a_batch_already_comes_back(batch: Any) -> None:
    assert collate(batch) is batch


def test_values_of_several_lengths_are_padded() -> None:
    rows = ragged()
    result = collate(rows, pad_keys={"a": -1.0, ("n", "c"): 7})
    assert_consistent(result)
    assert list(result.keys(True, True)) == list(rows[0].keys(True, True))
    for key, number in (("a", -1.0), (("n", "c"), 7)):
        values = [row[key] for row in rows]
        wanted = torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=number)
        assert torch.equal(result[key], wanted)
        assert result[key].dtype == values[0].dtype
    assert torch.equal(result["b"], torch.ones(3, 3))


@pytest.mark.parametrize("mask_key", ["mask", ("m", "mask")])
def test_masks_say_what_is_no_padding(mask_key: Any) -> None:
    result = collate(ragged(), pad_keys={"a": 0, ("n", "c"): 0}, mask_key=mask_key)
    assert_consistent(result)
    masks = result[mask_key]
    lower = torch.ones(3, 3, dtype=torch.bool).tril()
    assert torch.equal(masks["a"], lower)
    assert torch.equal(masks["n", "c"], lower.flip(0))


def test_values_of_several_lengths_are_kept_as_nested_tensors() -> None:
    rows = ragged()
    result = collate(rows, nested_keys=["a", ("n", "c")])
    assert result.batch_size == (3,)
    for key in ("a", ("n", "c")):
        assert result[key].is_nested
        assert all(torch.equal(part, row[key]) for part, row in zip(result[key].unbind(), rows, strict=True))
    both = collate(rows, nested_keys=["a"], pad_keys={("n", "c"): 0})
    assert both["a"].is_nested
    assert both["n", "c"].shape == (3, 3)


def test_only_the_level_of_values_that_are_not_padded_is_a_lazy_stack() -> None:
    result = collate(ragged(), pad_keys={"a": 0})
    assert type(result) is TensorDict
    assert result["a"].shape == (3, 3, 2)
    assert isinstance(result["n"], LazyStackedTensorDict)
    beside = collate(
        [TensorDict({"a": torch.ones(i + 1), "b": torch.ones(i + 1)}) for i in range(2)], pad_keys={"a": 0}
    )
    assert isinstance(beside, LazyStackedTensorDict)
    assert torch.equal(beside["a"], torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="other values beside it differ in shape"):
        collate([TensorDict({"a": torch.ones(i + 1), "b": torch.ones(i + 1)}) for i in range(2)], nested_keys=["a"])


def test_the_samples_stay_as_they_were() -> None:
    rows = ragged()
    with Unchanged(rows[1]):
        collate(rows, pad_keys={"a": 0}, nested_keys=[("n", "c")], mask_key="mask")


def test_padded_records_are_records() -> None:
    class Frozen(TensorClass, frozen=True):
        x: Tensor
        y: Tensor
        mask: TensorDict | None = None

    rows = [Frozen(torch.ones(i + 1), torch.ones(2)) for i in range(3)]
    result = collate(rows, pad_keys={"x": 0})
    assert type(result) is Frozen
    assert torch.equal(result.x, torch.ones(3, 3).tril())
    with pytest.raises(AttributeError, match="no field 'm'"):
        collate([Sample(torch.ones(i + 1), torch.ones(1)) for i in range(2)], pad_keys={"x": 0}, mask_key="m")


def test_samples_are_padded_inside_of_other_samples() -> None:
    rows = [TensorDict({"a": torch.ones(i + 1)}) for i in range(3)]
    data, label = collate([(row, i) for i, row in enumerate(rows)], pad_keys={"a": 0})
    assert torch.equal(data["a"], torch.ones(3, 3).tril())
    assert torch.equal(label, torch.arange(3))


def test_a_loader_pads() -> None:
    rows = [TensorDict({"a": torch.ones(i + 1)}) for i in range(4)]
    function = functools.partial(collate, pad_keys={"a": 0}, mask_key="own")
    first, second = loader(rows, batch_size=2, collate_fn=function)
    assert (first["a"].shape, second["own", "a"].shape) == ((2, 2), (2, 4))


@pytest.mark.parametrize(
    "options, error, match",
    [
        ({"mask_key": "m"}, ValueError, "needs pad_keys"),
        ({"pad_keys": {"a": 0}, "nested_keys": ["a"]}, ValueError, r"\['a'\] are in pad_keys and in nested_keys"),
        ({"pad_keys": {"z": 0}}, KeyError, r"sample 0 has no value under 'z'; its keys are"),
        ({"nested_keys": [("n", "z")]}, KeyError, r"no value under 'n\.z'"),
        ({"pad_keys": {"a": 0, ("n", "c"): 0}, "mask_key": "b"}, ValueError, "is a key of sample 0"),
    ],
)
def test_options_that_do_not_fit_are_errors(options: Any, error: Any, match: str) -> None:
    rows = ragged()
    with Unchanged(rows[0]), pytest.raises(error, match=match):
        collate(rows, **options)


def test_values_that_cannot_be_padded_are_errors() -> None:
    with pytest.raises(
        ValueError, match=r"a: its first dimension is a batch dimension of sample 0, of batch size \[2\]"
    ):
        collate([TensorDict({"a": torch.ones(2, 3)}, [2])], pad_keys={"a": 0})
    with pytest.raises(RuntimeError, match="a: expected a tensor with a first dimension, sample 0 has a number"):
        collate([TensorDict({"a": torch.ones(())})], pad_keys={"a": 0})
    with pytest.raises(RuntimeError, match=r"a: only the first dimension .* \[\[1, 2\], \[2, 3\]\]"):
        collate([TensorDict({"a": torch.ones(i, i + 1)}) for i in (1, 2)], pad_keys={"a": 0})


def test_collate_of_stacked_samples_is_stack() -> None:
    rows = [nested(), nested() * 2]
    assert_equal(collate(rows), stack(rows))


# -- without rows -----------------------------------------------------------------------------------------------------


LOADERS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda data: [*DataLoader(data)],
    "shuffled": lambda data: [*DataLoader(data, shuffle=True)],
    "in batches": lambda data: [*DataLoader(data, batch_size=4)],
    "not batched": lambda data: [*DataLoader(data, batch_size=None)],
    "its length": lambda data: len(DataLoader(data)),
    "in a dataset of records": lambda data: RecordDataset(type(data), data),
    "in a concatenation": lambda data: torch.utils.data.ConcatDataset([data]),
    "split": lambda data: torch.utils.data.random_split(data, [0.5, 0.5]),
    "by ranks": lambda data: torch.utils.data.DistributedSampler(data, 1, 0),
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_collection_without_rows_is_no_dataset(load: Callable[[Any], Any]) -> None:
    class One(TensorClass):
        a: Tensor

    for data in (One(torch.zeros(10)), TensorDict(a=torch.zeros(10)), One.lazy_stack([One(torch.zeros(3))])[0]):
        with pytest.raises(TypeError, match=rf"{type(data).__name__} has the batch size \[\].*auto_batch_size_\(1\)"):
            load(data)


def test_what_the_error_for_a_collection_without_rows_advises_works() -> None:
    class One(TensorClass):
        a: Tensor

    data = One(torch.zeros(10))
    assert len([*DataLoader([data, data])]) == 2
    assert len([*DataLoader(data.auto_batch_size_(1))]) == 10
    assert [*DataLoader(One(torch.zeros(0), batch_size=[0]))] == []
