"""Datasets of records made of other datasets: what a sample becomes, and a batch of them."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from collections.abc import Callable, Iterator
from traceback import clear_frames
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    get_worker_info,
    random_split,
)

import tensorclass
from tensorclass import (
    ContractError,
    ConversionError,
    DataLoader,
    RecordDataset,
    RecordStream,
    TensorClass,
    TensorDict,
    stack,
)
from tests import forkserver
from tests.checks import assert_consistent, assert_equal
from tests.open_files import linux, open_segments


class Sample(TensorClass, stack_objects=True):
    image: Tensor
    label: Tensor
    text: str = ""


class Contracted(TensorClass):
    image: Float[Tensor, "3 h w"]
    label: Int[Tensor, ""]


class Ragged(TensorClass):
    tokens: Int[Tensor, "time"]
    mask: Tensor | None = None


class Inner(TensorClass, stack_objects=True):
    x: Tensor
    name: str = ""


class Outer(TensorClass, stack_objects=True):
    inner: Inner
    free: TensorDict
    number: int = 0
    anything: Any = None


@dataclasses.dataclass
class Plain:
    image: Tensor
    label: int
    text: str = ""


class Named(NamedTuple):
    image: Tensor
    label: int
    text: str = ""


def image(i: int) -> Tensor:
    return torch.full((2, 2), float(i))


def of_dict(i: int) -> Any:
    return {"image": image(i), "label": i, "text": f"row {i}"}


MAKERS: dict[str, Callable[[int], Any]] = {
    "dict": of_dict,
    "tuple": lambda i: (image(i), i, f"row {i}"),
    "list": lambda i: [image(i), i, f"row {i}"],
    "named tuple": lambda i: Named(image(i), i, f"row {i}"),
    "dataclass": lambda i: Plain(image(i), i, f"row {i}"),
    "arrays": lambda i: {"image": image(i).numpy(), "label": np.int64(i), "text": f"row {i}"},
    "lists of numbers": lambda i: {"image": image(i).tolist(), "label": i, "text": f"row {i}"},
    "TensorDict": lambda i: TensorDict(of_dict(i)),
    "record": lambda i: Sample(image(i), torch.tensor(i), f"row {i}"),
}


class Rows(Dataset[Any]):
    """A dataset that makes its samples with a function of the index."""

    def __init__(self, make: Callable[[int], Any] = of_dict, n: int = 10) -> None:
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def expected(indices: list[int]) -> Sample:
    texts: Any = [f"row {i}" for i in indices]
    return Sample(torch.stack([image(i) for i in indices]), torch.tensor(indices), texts, batch_size=[len(indices)])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_samples_of_all_kinds_become_records(make: Callable[[int], Any]) -> None:
    dataset = RecordDataset(Sample, Rows(make))
    assert len(dataset) == 10
    one = dataset[3]
    assert_consistent(one)
    assert_equal(one, Sample(image(3), torch.tensor(3), "row 3"))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_batch_is_one_record(make: Callable[[int], Any]) -> None:
    batches = list(DataLoader(RecordDataset(Sample, Rows(make)), batch_size=4))
    assert [type(batch) for batch in batches] == [Sample] * 3
    for batch, indices in zip(batches, ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9]), strict=True):
        assert_consistent(batch)
        assert_equal(batch, expected(indices))


def test_a_batch_is_what_its_samples_stack_to() -> None:
    def make(i: int) -> Any:
        inner = {"x": [1.0 * i, 2.0], "name": f"n{i}"}
        return {
            "inner": inner,
            "free": {"a": np.float32(i), "b": {"c": "abc"[i]}},
            "number": i,
            "anything": np.ones(i + 1)[:1],
        }

    dataset = RecordDataset(Outer, Rows(make, 3))
    batch = dataset.__getitems__([0, 1, 2])
    assert_consistent(batch)
    assert_equal(batch, stack([dataset[0], dataset[1], dataset[2]]))
    assert type(batch.inner) is Inner
    assert batch.number == [0, 1, 2]
    assert batch.anything.dtype == torch.float64


def test_objects_have_an_item_for_each_sample_also_where_all_are_equal() -> None:
    source = [{"image": image(0), "label": 0, "text": "same"}] * 2
    assert RecordDataset(Sample, source).__getitems__([0, 1]).text == ["same", "same"]


@given(
    n=st.integers(1, 6),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16]),
    shape=st.lists(st.integers(0, 3), max_size=3),
    data=st.data(),
)
def test_any_batch_equals_the_stack_of_its_samples(n: int, dtype: torch.dtype, shape: list[int], data: Any) -> None:
    rows = [{"image": torch.randint(0, 2, shape).to(dtype), "label": i, "text": str(i)} for i in range(n)]
    indices = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6))
    dataset = RecordDataset(Sample, rows)
    batch = dataset.__getitems__(indices)
    assert batch.batch_size == (len(indices),)
    assert batch.image.dtype == dtype
    for row, index in zip(batch, indices, strict=True):
        assert_equal(row, dataset[index])
    untyped = RecordDataset(TensorDict, rows).__getitems__(indices)
    assert torch.equal(untyped["image"], batch.image)
    assert untyped["text"] == batch.text


def test_an_untyped_collection_takes_what_comes() -> None:
    batch = RecordDataset(TensorDict, Rows()).__getitems__([1, 2])
    assert type(batch) is TensorDict
    assert_equal(batch, expected([1, 2]).to_tensordict())
    pairs = TensorDataset(torch.arange(4), torch.zeros(4, 2))
    assert RecordDataset(TensorDict, pairs, keys=["a", ("n", "b")]).__getitems__([3, 1])["n", "b"].shape == (2, 2)


def test_samples_without_an_optional_value_have_none() -> None:
    rows = [{"tokens": torch.tensor([i])} for i in range(2)]
    assert RecordDataset(Ragged, rows).__getitems__([0, 1]).mask is None


def test_samples_with_a_batch_of_their_own_keep_it() -> None:
    rows = [Inner(torch.zeros(5, 2) + i, "a", batch_size=[5]) for i in range(3)]
    batch = RecordDataset(Inner, rows).__getitems__([0, 1])
    assert batch.batch_size == (2, 5)
    assert RecordDataset(Inner, rows)[0].batch_size == (5,)
    rows.append(Inner(torch.zeros(4, 2), "a", batch_size=[4]))
    with pytest.raises(ConversionError, match=r"\[3\]"):
        RecordDataset(Inner, rows).__getitems__([0, 3])


def test_contracts_tell_the_batch_size() -> None:
    rows = [{"image": torch.zeros(5, 3, 4, 4), "label": torch.arange(5)} for _ in range(2)]
    dataset = RecordDataset(Contracted, rows)
    assert dataset[0].batch_size == (5,)
    assert dataset.__getitems__([0, 1]).batch_size == (2, 5)


# -- keys, transform, strict ------------------------------------------------------------------------------------------


def test_keys_name_the_items_of_tuples() -> None:
    rows = [(i, f"row {i}", image(i)) for i in range(4)]
    dataset = RecordDataset(Sample, rows, keys=["label", "text", "image"])
    assert_equal(dataset.__getitems__([0, 2]), expected([0, 2]))
    assert_equal(dataset[1], expected([1])[0])


def test_keys_rename_those_of_mappings() -> None:
    rows = [{"img": image(i), "label": i, "text": f"row {i}"} for i in range(4)]
    assert_equal(RecordDataset(Sample, rows, keys={"img": "image"}).__getitems__([0, 2]), expected([0, 2]))
    nested = RecordDataset(Outer, [{"x": 1.0, "free": {}}], keys={"x": ("inner", "x")})
    assert nested[0].inner.x == 1


def test_a_transform_is_called_first_with_each_sample_once() -> None:
    seen: list[int] = []

    def make(i: int) -> Any:
        seen.append(i)
        return of_dict(i)

    dataset = RecordDataset(Sample, range(10), transform=make)
    assert_equal(dataset.__getitems__([2, 5]), expected([2, 5]))
    assert_equal(dataset[7], expected([7])[0])
    assert seen == [2, 5, 7]


def test_an_error_of_the_transform_comes_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        RecordDataset(Sample, [0], transform=lambda x: 1 / x).__getitems__([0])


def test_what_is_no_field_is_left_out_with_one_warning() -> None:
    rows = [{**of_dict(i), "url": "x"} for i in range(4)]
    with pytest.raises(ConversionError, match=r"\[2\]\.url: expected one of the fields"):
        RecordDataset(Sample, rows).__getitems__([2, 3])
    dataset = RecordDataset(Sample, rows, strict=False)
    with pytest.warns(UserWarning, match="left out what is no field: 'url'"):
        batch = dataset.__getitems__([0, 1])
    assert_equal(batch, expected([0, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_equal(dataset.__getitems__([2, 3]), expected([2, 3]))
        assert_equal(dataset[0], expected([0])[0])


# -- padding ----------------------------------------------------------------------------------------------------------


def tokens(lengths: list[int]) -> list[Any]:
    return [{"tokens": torch.arange(1, length + 1)} for length in lengths]


@pytest.mark.parametrize("mask_key", ["mask", {"tokens": "mask"}])
@pytest.mark.parametrize("side", ["right", "left"])
def test_ragged_samples_are_padded_and_masked(mask_key: Any, side: Any) -> None:
    dataset = RecordDataset(Ragged, tokens([2, 0, 3]), pad_keys={"tokens": -1}, mask_key=mask_key, padding_side=side)
    batch = dataset.__getitems__([0, 1, 2])
    assert_consistent(batch)
    right = [[1, 2, -1], [-1, -1, -1], [1, 2, 3]]
    assert batch.tokens.tolist() == (right if side == "right" else [[-1, 1, 2], [-1, -1, -1], [1, 2, 3]])
    assert batch.mask is not None
    assert torch.equal(batch.mask, batch.tokens != -1)
    assert dataset[0].mask is None
    equal = dataset.__getitems__([2, 2])
    assert equal.mask is not None
    assert bool(equal.mask.all())


def test_masks_of_several_values_go_to_a_collection_or_each_to_its_own_field() -> None:
    class Two(TensorClass):
        a: Tensor
        b: Tensor
        masks: TensorDict | None = None
        a_mask: Tensor | None = None

    rows = [{"a": torch.ones(i), "b": torch.ones(2 * i, 3)} for i in (1, 2)]
    pads: Any = {"a": 0, "b": 0}
    batch = RecordDataset(Two, rows, pad_keys=pads, mask_key="masks").__getitems__([0, 1])
    assert batch.masks is not None
    assert batch.masks["b"].tolist() == [[True] * 2 + [False] * 2, [True] * 4]
    batch = RecordDataset(Two, rows, pad_keys=pads, mask_key={"a": "a_mask"}).__getitems__([0, 1])
    assert batch.masks is None
    assert batch.a_mask is not None
    with pytest.raises(ValueError, match=r"a_mask: the field holds one tensor, and there are masks of \['a', 'b'\]"):
        RecordDataset(Two, rows, pad_keys=pads, mask_key="a_mask").__getitems__([0, 1])


def test_ragged_samples_are_nested_tensors() -> None:
    dataset = RecordDataset(TensorDict, tokens([2, 3]), nested_keys=["tokens"])
    batch = dataset.__getitems__([0, 1])
    assert [len(row) for row in batch["tokens"].unbind()] == [2, 3]
    assert batch.batch_size == (2,)


def test_nested_values_are_padded() -> None:
    rows = [{"n": {"x": [1.0] * i}, "y": i} for i in (1, 2)]
    dataset = RecordDataset(TensorDict, rows, pad_keys={("n", "x"): 0}, mask_key="own")
    batch = dataset.__getitems__([0, 1])
    assert batch["n", "x"].tolist() == [[1, 0], [1, 1]]
    assert batch["own", "n", "x"].tolist() == [[True, False], [True, True]]


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), side=st.sampled_from(["left", "right"]))
def test_what_the_mask_tells_is_what_the_samples_had(lengths: list[int], side: Any) -> None:
    rows = tokens(lengths)
    dataset = RecordDataset(Ragged, rows, pad_keys={"tokens": 9}, mask_key="mask", padding_side=side)
    batch = dataset.__getitems__(list(range(len(rows))))
    for row, source in zip(batch, rows, strict=True):
        assert row.mask is not None
        assert torch.equal(row.tokens[row.mask], source["tokens"])
        assert bool((row.tokens[~row.mask] == 9).all())


# -- mistakes ---------------------------------------------------------------------------------------------------------


def broken(change: dict[str, Any], at: int = 7) -> RecordDataset[Sample]:
    def make(i: int) -> Any:
        sample = of_dict(i)
        if i == at:
            sample.update(change)
            for key in [key for key, value in sample.items() if value is ...]:
                del sample[key]
        return sample

    return RecordDataset(Sample, Rows(make))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a missing field": ({"label": ...}, r"\[7\]\.label: expected Tensor, got nothing"),
    "one too many": ({"z": 1}, r"\[7\]\.z: expected one of the fields"),
    "text for a tensor": ({"image": "cat"}, r"\[7\]\.image: expected Tensor, got str 'cat'"),
    "a number for text": ({"text": 3}, r"\[7\]\.text: expected str, got int 3"),
    "another shape": (
        {"image": torch.zeros(3, 2)},
        r"\[7\]\.image: expected the shape \[2, 2\], as \[6\] has, got \[3, 2\]; pad_keys=",
    ),
    "another dtype": (
        {"image": image(1).double()},
        r"\[7\]\.image: expected the dtype torch.float32, as \[6\] has, got torch.float64",
    ),
    "another number": (
        {"label": 0.5},
        r"\[7\]\.label: expected the dtype torch.int64, as \[6\] has, got torch.float32",
    ),
    "a key that others have": (
        {"text": ...},
        r"\[7\]: expected the keys \['image', 'label', 'text'\], as \[6\] has, got \['image', 'label'\]",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_names_the_sample_and_the_field(name: str) -> None:
    change, message = MISTAKES[name]
    dataset = broken(change)
    with pytest.raises(ConversionError, match=message):
        dataset.__getitems__([6, 7, 8])
    dataset.__getitems__([5, 6, 8])


def test_the_error_lists_every_offending_field_of_a_sample() -> None:
    with pytest.raises(ConversionError) as caught:
        broken({"image": "cat", "label": ...})[7]
    assert [problem.path for problem in caught.value.problems] == [("[7]", "image"), ("[7]", "label")]


def test_a_value_that_breaks_a_contract_is_named_with_its_sample() -> None:
    rows = [{"image": torch.zeros(3, 4, 4), "label": 1}, {"image": torch.zeros(1, 4, 4), "label": 2}]
    dataset = RecordDataset(Contracted, rows)
    for make in (lambda: dataset[1], lambda: dataset.__getitems__([0, 1])):
        with pytest.raises(ContractError, match=r"\[1\]\.image"):
            make()


def test_an_error_in_a_worker_names_the_sample() -> None:
    loader = DataLoader(broken({"label": ...}), batch_size=5, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(ConversionError, match=r"\[7\]\.label") as caught:
        list(loader)
    # the iterator is free now: as garbage in a cycle it would wait 5 s for its worker, in any later test
    clear_frames(caught.tb)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: RecordDataset(int, []), "expected a class of records, or TensorDict, got <class 'int'>"),
        (lambda: RecordDataset(Sample, iter([])), "RecordStream takes what is iterated over"),
        (lambda: RecordDataset(Sample, Stream()), "RecordStream takes what is iterated over"),
        (lambda: RecordStream(Sample, 3), "RecordDataset takes what has a sample for each index"),
        (lambda: RecordDataset(Sample, [], keys="image"), "expected keys in a list"),
        (lambda: RecordDataset(TensorDict, [(1,)])[0], r"the items of tuples have no keys; give keys="),
        (lambda: RecordDataset(Sample, [(1,)], keys={"a": "image"})[0], r"named by a list"),
        (lambda: RecordDataset(Sample, [3])[0], r"\[0\]: expected a mapping, .* got int 3; transform="),
        (lambda: RecordDataset(Sample, [(1, 2, "a", 4)])[0], r"\[0\]: expected at most 3 items, .* got 4"),
        (lambda: RecordDataset(Sample, [of_dict(0)], keys=["image"])[0], r"expected a tuple with items for keys="),
    ],
)
def test_what_cannot_be_a_dataset_of_records_is_an_error(make: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        make()


def test_a_key_to_pad_that_no_sample_has_is_an_error() -> None:
    with pytest.raises(KeyError, match="no value under 'z' to pad"):
        RecordDataset(TensorDict, tokens([1]), pad_keys={"z": 0}).__getitems__([0])
    with pytest.raises(ValueError, match="at least one index"):
        RecordDataset(TensorDict, tokens([1])).__getitems__([])


def test_a_mask_over_a_value_is_an_error() -> None:
    rows = [{"tokens": torch.ones(1), "mask": torch.ones(1)}]
    with pytest.raises(ValueError, match="mask_key='mask' is a key of the samples"):
        RecordDataset(TensorDict, rows, pad_keys={"tokens": 0}, mask_key={"tokens": "mask"}).__getitems__([0])


# -- samplers, parts, workers -----------------------------------------------------------------------------------------


def labels(loader: Any) -> list[int]:
    return torch.cat([batch.label for batch in loader]).tolist()


def test_samplers_subsets_and_parts_work() -> None:
    dataset = RecordDataset(Sample, Rows())
    assert sorted(labels(DataLoader(dataset, batch_size=3, shuffle=True))) == list(range(10))
    assert sorted(labels(DataLoader(dataset, batch_size=2, sampler=SubsetRandomSampler([1, 4, 7])))) == [1, 4, 7]
    assert labels(DataLoader(Subset(dataset, [2, 5]), batch_size=2)) == [2, 5]
    parts = random_split(dataset, [7, 3])
    assert sorted(labels(DataLoader(parts[0], 4)) + labels(DataLoader(parts[1], 4))) == list(range(10))
    both = ConcatDataset([dataset, RecordDataset(Sample, Rows(n=2))])
    assert labels(DataLoader(both, batch_size=12)) == [*range(10), 0, 1]
    assert [row.label.tolist() for row in DataLoader(dataset, batch_size=None)] == list(range(10))


def test_a_source_that_gives_several_samples_at_once_is_asked_so() -> None:
    class Several(Rows):
        asked: list[list[int]] = []

        def __getitems__(self, indices: list[int]) -> list[Any]:
            self.asked.append(indices)
            return [of_dict(i) for i in indices]

    assert labels(DataLoader(RecordDataset(Sample, Several()), batch_size=5)) == list(range(10))
    assert Several.asked == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_workers_give_the_same_batches(context: str) -> None:
    start = forkserver.context_of(context)
    loader = DataLoader(RecordDataset(Sample, Rows()), batch_size=4, num_workers=2, multiprocessing_context=start)
    first, second, third = loader
    assert_equal(first, expected([0, 1, 2, 3]))
    assert_equal(second, expected([4, 5, 6, 7]))
    assert_equal(third, expected([8, 9]))


@linux
def test_small_batches_of_workers_take_no_shared_memory() -> None:
    loader = DataLoader(RecordDataset(Sample, Rows(n=64)), batch_size=2, num_workers=1, multiprocessing_context="fork")
    before = open_segments()
    batches = list(loader)
    assert len(batches) == 32
    assert open_segments() <= before


def test_a_dataset_can_be_pickled() -> None:
    dataset = pickle.loads(pickle.dumps(RecordDataset(Sample, Rows(), keys={"a": "b"})))
    assert_equal(dataset.__getitems__([1, 2]), expected([1, 2]))
    assert repr(dataset).startswith("RecordDataset(Sample, <")


def test_the_loader_is_that_of_torch() -> None:
    assert tensorclass.DataLoader is torch.utils.data.DataLoader
    (batch,) = DataLoader[Sample](RecordDataset(Sample, Rows(n=3)), batch_size=3)
    assert_equal(batch, expected([0, 1, 2]))


# -- streams ----------------------------------------------------------------------------------------------------------


class Stream(IterableDataset[Any]):
    """Ten samples, which the workers share among them in halves."""

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is None:
            yield from map(of_dict, range(10))
        else:
            yield from map(of_dict, range(5 * worker.id, 5 * worker.id + 5))


@pytest.mark.parametrize("source", [Stream(), [of_dict(i) for i in range(10)]], ids=["dataset", "list"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_gives_every_sample_once(source: Any, workers: int) -> None:
    stream = RecordStream(Sample, source)
    batches = list(DataLoader(stream, batch_size=5, num_workers=workers))
    assert [type(batch) for batch in batches] == [Sample, Sample]
    assert sorted(labels(batches)) == list(range(10))
    assert [record.text for record in stream] == [f"row {i}" for i in range(10)]


def test_a_stream_has_the_length_of_its_source() -> None:
    assert len(DataLoader(RecordStream(Sample, [of_dict(0)] * 3), batch_size=2)) == 2
    with pytest.raises(TypeError):
        len(RecordStream(Sample, Stream()))


def test_a_stream_names_the_sample_that_does_not_fit() -> None:
    with pytest.raises(ConversionError, match=r"RecordStream\(Sample\): \[1\]\.image: expected Tensor"):
        list(RecordStream(Sample, [of_dict(0), {"image": "a", "label": 1}]))
    assert repr(RecordStream(Sample, [1])) == "RecordStream(Sample, [1])"
