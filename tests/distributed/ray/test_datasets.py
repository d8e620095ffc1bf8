"""Datasets of Ray, in and out, and functions from record to record on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import ConversionError, NonTensorData, Stage, TensorClass, TensorDict
from tensorclass.distributed.ray import as_batches, map_batches
from tests.checks import assert_equal

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),  # Ray sets them itself
]


class Position(TensorClass, stack_objects=True):
    xy: Tensor
    place: str = ""


class Sample(TensorClass, stack_objects=True):
    x: Tensor
    image: Tensor
    position: Position
    text: str
    known: str | None = None


class Partly(TensorClass, stack_objects=True):
    value: Tensor
    known: str | None = None


class Scores(TensorClass, stack_objects=True):
    value: Tensor
    text: str


def sample(rows: int = 12) -> Sample:
    return Sample(
        torch.arange(rows * 3.0).view(rows, 3),
        torch.arange(rows * 4, dtype=torch.uint8).view(rows, 2, 2),
        Position(torch.ones(rows, 2), place="here", batch_size=[rows]),
        text=[f"row {n}" for n in range(rows)],
        known=["a" if n % 3 else None for n in range(rows)],
        batch_size=[rows],
    )


def score(given: Sample) -> Scores:
    return Scores(given.x.sum(-1), text=given.text, batch_size=given.batch_size)


@pytest.fixture(autouse=True)
def quiet(cluster: Any) -> Any:
    """Blocks in the order of their rows, and no bars."""
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    return ray.data


@pytest.mark.parametrize("blocks", [None, 3])
def test_a_record_comes_back_from_a_dataset(blocks: int | None) -> None:
    dataset = sample().to_ray_dataset(blocks=blocks)
    assert dataset.count() == 12
    assert dataset.num_blocks() == (blocks or 1)
    back = Sample.from_ray_dataset(dataset)
    assert type(back) is Sample
    assert type(back.position) is Position
    assert_equal(back, sample())


def test_the_functions_of_the_package_are_the_methods() -> None:
    data = TensorDict({"x": torch.arange(3.0)}, [3])
    assert_equal(tensorclass.from_ray_dataset(tensorclass.to_ray_dataset(data)), data)


@pytest.mark.parametrize("blocks", [1, 2])
def test_types_that_arrow_has_not_come_back(blocks: int) -> None:
    data = TensorDict(
        {
            "half": torch.ones(4, 2, dtype=torch.bfloat16),
            "complex": torch.ones(4) * 1j,
            "flags": torch.tensor([True, False, True, True]),
            "inner": TensorDict({"a": torch.zeros(4, 2, 5)}, [4, 2]),
            "empty": torch.zeros(4, 0),
            "one": NonTensorData("text", batch_size=[4]),
        },
        [4],
    )
    assert_equal(TensorDict.from_ray_dataset(data.to_ray_dataset(blocks=blocks)), data)


@pytest.mark.parametrize("blocks", [1, 2])
def test_tensors_in_the_type_of_ray_have_their_shape(quiet: Any, blocks: int) -> None:
    array = np.arange(24.0, dtype="f4").reshape(4, 2, 3)
    dataset = quiet.from_numpy(array).repartition(blocks)
    back = TensorDict.from_ray_dataset(dataset)
    assert torch.equal(back["data"], torch.from_numpy(array))


def test_rows_that_python_made_are_read(quiet: Any) -> None:
    dataset = quiet.from_items([{"value": 1.5, "known": "a"}, {"value": None, "known": None}])
    with pytest.raises(ConversionError, match=r"(?s)value.*known|value.*null"):
        Partly.from_ray_dataset(dataset, nulls="raise")
    back = Partly.from_ray_dataset(dataset, nulls="fill")
    assert back.value[0] == 1.5
    assert back.value[1].isnan()
    assert list(back.known or []) == ["a", None]


def test_columns_are_checked_and_chosen(quiet: Any) -> None:
    dataset = sample().to_ray_dataset()
    with pytest.raises(ConversionError, match="image"):
        Scores.from_ray_dataset(dataset)
    chosen = TensorDict.from_ray_dataset(dataset, columns=["text"])
    assert list(chosen.keys()) == ["text"]


def test_what_is_no_dataset_and_what_has_no_rows_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"expected a ray.data.Dataset, got a list"):
        Sample.from_ray_dataset([1])
    with pytest.raises(ValueError, match="batch dimension"):
        sample()[0].to_ray_dataset()
    with pytest.raises(ValueError, match="at least 1, got 0"):
        sample().to_ray_dataset(blocks=0)
    with pytest.raises(TypeError, match=r"map_batches: expected a ray.data.Dataset, got a Sample"):
        map_batches(sample(), score)
    with pytest.raises(ValueError, match=r"batch_size: expected a number of rows, at least 1, got 0"):
        Sample.iter_ray_dataset(score(sample()).to_ray_dataset(), batch_size=0)


def test_a_dataset_without_rows_is_read() -> None:
    back = Scores.from_ray_dataset(score(sample())[:0].to_ray_dataset())
    assert back.batch_size == (0,)


def test_batches_come_one_by_one() -> None:
    found = list(Sample.iter_ray_dataset(sample().to_ray_dataset(blocks=2), batch_size=5))
    assert [len(batch) for batch in found] == [5, 5, 2]
    assert all(type(batch) is Sample for batch in found)
    assert_equal(torch.cat(found), sample())
    found = list(Sample.iter_ray_dataset(sample().to_ray_dataset(), batch_size=5, drop_last=True))
    assert [len(batch) for batch in found] == [5, 5]


def test_numbers_of_one_block_are_not_copied_and_can_be_written_to() -> None:
    rows = 2**19
    dataset = TensorDict({"x": torch.arange(rows * 1.0)}, [rows]).to_ray_dataset()
    first = TensorDict.from_ray_dataset(dataset, copy=False)
    first["x"].zero_()
    assert torch.equal(TensorDict.from_ray_dataset(dataset)["x"], torch.arange(rows * 1.0))


def test_few_numbers_of_the_store_can_be_written_to() -> None:
    dataset = sample().to_ray_dataset()
    Sample.from_ray_dataset(dataset).x.zero_()
    assert_equal(Sample.from_ray_dataset(dataset), sample())


def test_tables_out_of_the_store_can_be_written_to(cluster: Any) -> None:
    reference = cluster.put(pa.table({"x": np.arange(2.0**18)}))
    TensorDict.from_arrow(cluster.get(reference))["x"].zero_()
    assert cluster.get(reference)["x"][7].as_py() == 7.0


# -- functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [4, None])
def test_functions_from_record_to_record_run_on_batches(batch_size: int | None) -> None:
    dataset = map_batches(sample().to_ray_dataset(blocks=2), score, batch_size=batch_size)
    assert_equal(Scores.from_ray_dataset(dataset), score(sample()))


def test_a_stage_that_gets_a_dataset_says_what_takes_it(cluster: Any) -> None:
    stage: Any = Stage(_same_sample)
    with pytest.raises(TypeError, match=r"map_batches\(dataset, stage\) takes datasets"):
        stage.run(cluster.data.range(3), on=cluster)


def _same_sample(sample: Sample) -> Sample:
    return sample


def test_stages_run_on_batches() -> None:
    @Stage
    def double(given: Scores) -> Scores:
        return given.replace(value=given.value * 2)

    dataset = map_batches(sample().to_ray_dataset(), Stage(score) >> double, batch_size=5)
    assert torch.equal(Scores.from_ray_dataset(dataset).value, score(sample()).value * 2)


def test_a_function_without_annotations_is_given_the_class() -> None:
    dataset = map_batches(sample().to_ray_dataset(), lambda given: given[given.x[:, 0] > 10], Sample, batch_size=5)
    assert_equal(Sample.from_ray_dataset(dataset), sample()[4:])
    with pytest.raises(TypeError, match=r"annotate it, or give the class"):
        as_batches(lambda given: given)


def test_an_adapter_can_be_given_to_ray() -> None:
    dataset = sample().to_ray_dataset().map_batches(as_batches(score), batch_format="pyarrow", batch_size=6)
    assert dataset.schema().names == ["value", "text"]
    assert_equal(Scores.from_ray_dataset(dataset), score(sample()))


def test_batches_with_other_objects_can_be_joined() -> None:
    def named(given: Scores) -> Scores:
        return Scores(given.value, text=f"from {given.value[0]:.0f}", batch_size=given.batch_size)

    dataset = map_batches(score(sample()).to_ray_dataset(blocks=4), named, batch_size=None)
    found = Scores.from_ray_dataset(dataset).text
    assert list(found) == [f"from {3 + 27 * block}" for block in range(4) for _ in range(3)]


def test_what_a_function_raises_and_gives_instead_of_a_record_is_told(cluster: Any) -> None:
    def fail(given: Scores) -> Scores:
        raise KeyError("no such row")

    def number(given: Scores) -> Scores:
        return 1  # type: ignore[return-value]

    scores = score(sample()).to_ray_dataset()
    with pytest.raises(cluster.exceptions.RayTaskError, match=r"(?s)in fail.*no such row"):
        Scores.from_ray_dataset(map_batches(scores, fail))
    with pytest.raises(cluster.exceptions.RayTaskError, match=r"number: expected a function that returns a record"):
        Scores.from_ray_dataset(map_batches(scores, number))


def test_objects_that_ray_pickles_are_refused(tmp_path: Any) -> None:
    import os
    import pickle

    import pyarrow.parquet as pq

    try:
        from ray.data._internal.object_extensions.arrow import ArrowPythonObjectType  # registered by ray.data
    except ImportError:  # where it was before
        from ray.air.util.object_extensions.arrow import ArrowPythonObjectType

    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "exploded"),)

    storage = pa.array([pickle.dumps(Bomb())], pa.large_binary())
    column = pa.ListArray.from_arrays([0, 1], pa.ExtensionArray.from_storage(ArrowPythonObjectType(), storage))
    pq.write_table(pa.table({"odd": column}), tmp_path / "f.parquet")
    table = pq.read_table(tmp_path / "f.parquet")
    assert isinstance(table.schema.field("odd").type.value_type, ArrowPythonObjectType)
    for read in (lambda: TensorDict.from_parquet(tmp_path / "f.parquet"), lambda: TensorDict.from_arrow(table)):
        with pytest.raises(ConversionError, match=r"odd: .*in \[\], the extension type .*arrow_pickled"):
            read()
    assert not (tmp_path / "exploded").exists()
