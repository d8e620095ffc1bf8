"""Datasets of Hugging Face, to collections and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import tensorclass
from tensorclass import ConversionError, DataLoader, RecordDataset, RecordStream, TensorClass, TensorDict, Text
from tests.checks import assert_consistent, assert_equal

datasets: Any = pytest.importorskip("datasets")


class Sample(TensorClass, stack_objects=True):
    x: Tensor
    label: Tensor
    text: str = ""


class Named(TensorClass, stack_objects=True):
    label: str


class Stored(TensorClass, shadow=True, stack_objects=True):
    bytes: bytes
    path: str | None = None


class Picture(TensorClass):
    picture: Stored


class Splits(TensorClass):
    train: Sample
    test: Sample


def dataset(n: int = 4) -> Any:
    return datasets.Dataset.from_dict(
        {
            "x": np.arange(2.0 * n, dtype="f4").reshape(n, 2).tolist(),
            "label": list(range(n)),
            "text": list("abcdefghij")[:n],
        },
        features=datasets.Features(
            x=datasets.List(datasets.Value("float32"), length=2),
            label=datasets.Value("int64"),
            text=datasets.Value("string"),
        ),
    )


def expected(rows: list[int]) -> Sample:
    texts: Any = ["abcdefghij"[row] for row in rows]
    x = torch.tensor([[2.0 * row, 2.0 * row + 1] for row in rows])
    return Sample(x, torch.tensor(rows), texts, batch_size=[len(rows)])


def test_columns_are_fields_and_rows_the_batch() -> None:
    made = Sample.from_huggingface(dataset())
    assert_consistent(made)
    assert_equal(made, expected([0, 1, 2, 3]))
    untyped = TensorDict.from_huggingface(dataset())
    assert (type(untyped["text"]), untyped["text"].tolist()) == (Text, ["a", "b", "c", "d"])
    assert_equal(untyped.exclude("text"), expected([0, 1, 2, 3]).to_tensordict().exclude("text"))
    assert type(tensorclass.from_huggingface(dataset())) is TensorDict


def test_the_rows_are_those_that_the_dataset_shows() -> None:
    data = dataset()
    assert_equal(Sample.from_huggingface(data.select([3, 1])), expected([3, 1]))
    shuffled = data.shuffle(seed=3)
    assert_equal(Sample.from_huggingface(shuffled), expected(shuffled["label"][:]))
    assert_equal(Sample.from_huggingface(data.select(range(1, 3))), expected([1, 2]))
    kept = data.filter(lambda row: row["label"] % 2 == 1)
    assert_equal(Sample.from_huggingface(kept), expected([1, 3]))
    joined = datasets.concatenate_datasets([data, data.select([0])])
    assert_equal(Sample.from_huggingface(joined), expected([0, 1, 2, 3, 0]))
    assert Sample.from_huggingface(data.select([])).batch_size == (0,)


def test_a_format_chooses_columns() -> None:
    data = dataset()
    for kind in ("torch", "numpy", "pandas", "arrow"):
        assert_equal(Sample.from_huggingface(data.with_format(kind)), expected([0, 1, 2, 3]))
    chosen = data.with_format("torch", columns=["x", "label"])
    assert list(TensorDict.from_huggingface(chosen).keys()) == ["x", "label"]
    assert list(TensorDict.from_huggingface(chosen.select([1, 0])).keys()) == ["x", "label"]
    assert list(TensorDict.from_huggingface(data, columns=["text"]).keys()) == ["text"]


def test_numbers_share_memory_with_the_table_and_with_a_file(tmp_path: Path) -> None:
    values = np.arange(6, dtype="f4")
    data = datasets.Dataset(pa.table({"a": values}))
    made = TensorDict.from_huggingface(data, copy=False)
    assert made["a"].data_ptr() == values.ctypes.data
    assert TensorDict.from_huggingface(data, copy=True)["a"].data_ptr() != values.ctypes.data
    data.save_to_disk(str(tmp_path / "saved"))
    mapped = datasets.load_from_disk(str(tmp_path / "saved"))
    loaded = TensorDict.from_huggingface(mapped, copy=False)
    again = TensorDict.from_huggingface(mapped, copy=False)
    assert loaded["a"].data_ptr() == again["a"].data_ptr()
    assert loaded["a"].tolist() == values.tolist()


def test_labels_are_numbers_or_names() -> None:
    features = datasets.Features(label=datasets.ClassLabel(names=["cat", "dog"]))
    data = datasets.Dataset.from_dict({"label": [1, 0, 1]}, features=features)
    assert torch.equal(TensorDict.from_huggingface(data)["label"], torch.tensor([1, 0, 1]))
    named = Named.from_huggingface(data)
    assert list(named.label) == ["dog", "cat", "dog"]
    back = named.to_huggingface(features=features)
    assert back.features == features
    assert back["label"][:] == [1, 0, 1]
    unknown = datasets.Dataset.from_dict({"label": [-1, 0]}, features=features)
    with pytest.raises(ConversionError, match="label"):
        Named.from_huggingface(unknown)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (1, 2, 3, 2)])
def test_arrays_are_tensors_of_their_shape(shape: tuple[int, ...]) -> None:
    kind = getattr(datasets, f"Array{len(shape)}D")
    values = np.arange(3 * np.prod(shape), dtype="f4").reshape(3, *shape)
    features = datasets.Features(a=kind(shape=shape, dtype="float32"))
    data = datasets.Dataset.from_dict({"a": values}, features=features)
    made = TensorDict.from_huggingface(data, copy=False)
    assert torch.equal(made["a"], torch.from_numpy(values))
    assert torch.equal(TensorDict.from_huggingface(data.select([2, 0]))["a"], torch.from_numpy(values[[2, 0]]))
    back = made.to_huggingface(features=features)
    assert back.features == features
    assert np.array_equal(np.array(back["a"][:]), values)


def test_arrays_of_several_lengths_are_ragged() -> None:
    features = datasets.Features(a=datasets.Array2D(shape=(None, 2), dtype="int32"))
    data = datasets.Dataset.from_dict({"a": [[[1, 2]], [[3, 4], [5, 6]]]}, features=features)
    rows = TensorDict.from_huggingface(data)["a"].unbind()
    assert [row.tolist() for row in rows] == [[[1, 2]], [[3, 4], [5, 6]]]


def test_lists_structs_and_large_lists_are_read() -> None:
    features = datasets.Features(
        tokens=datasets.List(datasets.Value("int64")),
        large=datasets.LargeList(datasets.Value("int32")),
        nested={"a": datasets.Value("float64"), "b": datasets.Value("string")},
    )
    source = {
        "tokens": [[1], [2, 3]],
        "large": [[1, 2], [3, 4]],
        "nested": [{"a": 1.0, "b": "x"}, {"a": 2.0, "b": "y"}],
    }
    made = TensorDict.from_huggingface(datasets.Dataset.from_dict(source, features=features))
    assert (made["tokens"].tolist(), made["large"].tolist()) == ([[1], [2, 3]], [[1, 2], [3, 4]])
    assert (made["tokens"].dtype, made["large"].dtype) == (torch.int64, torch.int32)
    assert made["nested", "a"].tolist() == [1.0, 2.0]
    assert made["nested", "b"].tolist() == ["x", "y"]


def test_nulls_are_the_default_of_the_field_or_an_error() -> None:
    data = datasets.Dataset.from_dict({"x": [1.0, None], "label": [1, 2], "text": ["a", None]})
    with pytest.raises(ConversionError, match="x"):
        Sample.from_huggingface(data)
    made = TensorDict.from_huggingface(data, nulls="mask")
    assert made["_mask", "x"].tolist() == [True, False]


def test_what_is_decoded_when_it_is_read_is_an_error_that_says_what_to_do() -> None:
    stored = [{"bytes": b"1", "path": None}, {"bytes": b"2", "path": None}]
    data = datasets.Dataset.from_dict(
        {"picture": stored}, features=datasets.Features(picture=datasets.Image(decode=False))
    )
    assert Picture.from_huggingface(data).picture.bytes == [b"1", b"2"]
    assert TensorDict.from_huggingface(data, nulls="fill")["picture", "bytes"] == [b"1", b"2"]
    decoded = data.cast_column("picture", datasets.Image())
    with pytest.raises(ConversionError, match=r"picture: .* got a feature Image .* Image\(decode=False\)"):
        TensorDict.from_huggingface(decoded)
    several = data.map(lambda row: {"all": [row["picture"]]}).cast_column("all", datasets.List(datasets.Image()))
    with pytest.raises(ConversionError, match="all: "):
        TensorDict.from_huggingface(several)


def test_all_that_does_not_fit_is_in_one_error() -> None:
    data = datasets.Dataset.from_dict({"x": ["a"], "other": [1]})
    with pytest.raises(ConversionError) as caught:
        Sample.from_huggingface(data)
    assert {problem.path for problem in caught.value.problems} == {("x",), ("label",), ("other",)}
    assert str(caught.value).startswith("Sample.from_huggingface: 3 problems")
    more = dataset().add_column("z", [0] * 4)
    with pytest.warns(UserWarning, match="'z'"):
        assert_equal(Sample.from_huggingface(more, strict=False), expected([0, 1, 2, 3]))
    with pytest.raises(ConversionError, match="nothing"):
        Sample.from_huggingface(dataset(), columns=["nothing", "x", "label"])


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: datasets.DatasetDict(train=dataset()), r"the splits \['train'\]; take one, dataset\['train'\]"),
        (lambda: dataset().to_iterable_dataset(), "iter_huggingface gives batches"),
        (lambda: dataset().with_transform(lambda rows: rows), "the dataset has a transform"),
        (lambda: {"x": [1]}, "expected a datasets.Dataset, got a dict"),
    ],
)
def test_what_is_no_dataset_with_rows_is_an_error(make: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        Sample.from_huggingface(make())


def test_splits_are_fields_of_a_record() -> None:
    splits = datasets.DatasetDict(train=dataset(), test=dataset(2))
    made = Splits.from_dict(splits)
    assert_equal(made.train, expected([0, 1, 2, 3]))
    assert_equal(made.test, expected([0, 1]))
    assert TensorDict.from_dict(splits)["test"].batch_size == (2,)
    assert_equal(Sample.from_any(dataset()), expected([0, 1, 2, 3]))


@pytest.mark.parametrize("streamed", [False, True])
def test_batches_come_one_by_one(streamed: bool) -> None:
    data = dataset().to_iterable_dataset(num_shards=1) if streamed else dataset().select([0, 1, 2, 3])
    batches = list(Sample.iter_huggingface(data, batch_size=3))
    assert_equal(batches[0], expected([0, 1, 2]))
    assert_equal(batches[1], expected([3]))
    assert len(list(Sample.iter_huggingface(data, batch_size=3, drop_last=True))) == 1
    with pytest.raises(TypeError, match="splits"):
        Sample.iter_huggingface(datasets.DatasetDict(train=data), batch_size=3)


def test_a_dataset_can_be_the_source_of_a_dataset_of_records() -> None:
    for data in (dataset(), dataset().with_format("torch")):
        (batch,) = DataLoader(RecordDataset(Sample, data), batch_size=4)
        assert_equal(batch, expected([0, 1, 2, 3]))
    stream = RecordStream(Sample, dataset().to_iterable_dataset(num_shards=2))
    batches = list(DataLoader(stream, batch_size=2, num_workers=2, multiprocessing_context="fork"))
    assert sorted(torch.cat([batch.label for batch in batches]).tolist()) == [0, 1, 2, 3]


# -- out --------------------------------------------------------------------------------------------------------------

DTYPES = [torch.float32, torch.float64, torch.float16, torch.int8, torch.int64, torch.uint8, torch.bool]


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 4),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 3), max_size=3),
    texts=st.lists(st.text(max_size=3), min_size=4, max_size=4),
)
def test_what_is_written_is_read_back(n: int, dtype: torch.dtype, shape: list[int], texts: list[str]) -> None:
    values = torch.randint(0, 2, [n, *shape]).to(dtype)
    text: Any = texts[:n]
    data = TensorDict({"a": values, "n": {"b": values, "t": text}}, [n])
    written = data.to_huggingface()
    assert isinstance(written, datasets.Dataset)
    back = TensorDict.from_huggingface(written)
    assert back.batch_size == (n,)
    for key in ("a", ("n", "b")):
        assert back[key].dtype == dtype
        assert torch.equal(back[key], values)
    assert list(back["n", "t"]) == texts[:n]


def test_a_dataset_has_the_values_of_the_record() -> None:
    written = expected([0, 1]).to_huggingface()
    assert written[1] == {"x": [2.0, 3.0], "label": 1, "text": "b"}
    assert_equal(Sample.from_huggingface(written), expected([0, 1]))
    jagged = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)
    assert TensorDict({"a": jagged}, [2]).to_huggingface()["a"][:] == [[1.0], [1.0, 1.0]]


def test_what_cannot_be_written_is_an_error() -> None:
    with pytest.raises(ValueError, match="batch dimension"):
        TensorDict({"a": 1}).to_huggingface()
    with pytest.raises(ValueError, match=r"expected features for the columns \['a'\], got \['b'\]"):
        TensorDict({"a": torch.ones(2)}, [2]).to_huggingface(features=datasets.Features(b=datasets.Value("int64")))


def test_the_batch_size_can_be_given_or_found_out() -> None:
    source = datasets.Dataset.from_dict({"a": [[1, 2], [3, 4], [5, 6]], "b": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    assert TensorDict.from_huggingface(source).batch_size == (3,)
    assert TensorDict.from_huggingface(source, auto_batch_size=True).batch_size == (3, 2)
    assert TensorDict.from_huggingface(source, batch_dims=1).batch_size == (3,)
    assert TensorDict.from_huggingface(source, batch_size=()).batch_size == ()
    assert Sample.from_huggingface(dataset(3), batch_size=[3]).batch_size == (3,)
    back = TensorDict.from_huggingface(source, batch_size=[3, 2])
    assert back.batch_size == (3, 2)
    assert back["a"].tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(TypeError, match="exclude each other"):
        TensorDict.from_huggingface(source, batch_size=[3], batch_dims=1)
    with pytest.raises(ValueError, match="batch"):
        TensorDict.from_huggingface(source, batch_size=[4])
