"""Extension types whose values are made by code of another library: none of it runs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tensorclass import ConversionError, TensorClass, TensorDict

NAME = "tests.pickled_object"  # as "ray.data.arrow_pickled_object" does


class Scalar(pa.ExtensionScalar):  # type: ignore[misc]
    def as_py(self, **options: Any) -> Any:
        return None if self.value is None else pickle.loads(self.value.as_py())


class Pickled(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(pa.large_binary(), NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Pickled:
        return cls()

    def __arrow_ext_scalar_class__(self) -> type:
        return Scalar


class Bomb:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    pa.register_extension_type(Pickled())
    yield
    pa.unregister_extension_type(NAME)


def offsets(kind: Any = None) -> Any:
    return pa.array([0, 1], kind or pa.int32())


#: columns of one row, and the location of the type in each
NESTED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "itself": (lambda one: one, ""),
    "list": (lambda one: pa.ListArray.from_arrays(offsets(), one), "in [], "),
    "large list": (lambda one: pa.LargeListArray.from_arrays(offsets(pa.int64()), one), "in [], "),
    "list view": (
        lambda one: pa.ListViewArray.from_arrays(pa.array([0], pa.int32()), pa.array([1], pa.int32()), one), "in [], "
    ),
    "fixed list": (lambda one: pa.FixedSizeListArray.from_arrays(one, 1), "in [], "),
    "list in list": (
        lambda one: pa.ListArray.from_arrays(offsets(), pa.ListArray.from_arrays(offsets(), one)), "in [][], "
    ),
    "struct": (lambda one: pa.StructArray.from_arrays([one], ["a"]), "in .a, "),
    "struct in list": (
        lambda one: pa.ListArray.from_arrays(offsets(), pa.StructArray.from_arrays([one], ["a"])), "in [].a, "
    ),
    "map": (lambda one: pa.MapArray.from_arrays(offsets(), pa.array(["k"]), one), "in {values}, "),
    "keys of a map": (lambda one: pa.MapArray.from_arrays(offsets(), one, pa.array(["v"])), "in {keys}, "),
    "union": (
        lambda one: pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [one, pa.array([1])]), "in .0, "
    ),
    "dense union": (
        lambda one: pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [one]), "in .0, "
    ),
    "runs": (lambda one: pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), one), ""),
    "dictionary": (lambda one: pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), one), ""),
}  # fmt: skip


def bombs(path: Path) -> Any:
    storage = pa.array([pickle.dumps(Bomb(str(path / "exploded")))], pa.large_binary())
    return pa.ExtensionArray.from_storage(Pickled(), storage)


def refused(read: Callable[[], object], where: str, path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        read()
    assert f"{where}the extension type '{NAME}'" in str(caught.value)
    assert "odd" in str(caught.value)
    assert not (path / "exploded").exists()


@pytest.mark.parametrize("what", NESTED)
def test_a_type_of_another_library_is_refused_at_every_depth(what: str, tmp_path: Path) -> None:
    make, where = NESTED[what]
    try:
        column = make(bombs(tmp_path))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        pytest.skip("this pyarrow cannot hold it")
    table = pa.table({"plain": [1], "odd": column})
    refused(lambda: TensorDict.from_arrow(table), where, tmp_path)
    refused(lambda: TensorDict.from_arrow(table, nulls="mask", ragged="lazy", batch_dims=1), where, tmp_path)
    assert TensorDict.from_arrow(table, columns=["plain"])["plain"].tolist() == [1]


class Sample(TensorClass):
    plain: Float[Tensor, ""]
    odd: object


def _parquet(table: Any, path: Path) -> Callable[[Any], object]:
    pq.write_table(table, path / "f.parquet")
    return lambda cls: cls.from_parquet(path / "f.parquet")


def _batches(table: Any, path: Path) -> Callable[[Any], object]:
    pq.write_table(table, path / "f.parquet")
    return lambda cls: next(iter(cls.iter_parquet(path / "f.parquet", batch_size=1)))


def _feather(table: Any, path: Path) -> Callable[[Any], object]:
    pyarrow.feather.write_feather(table, path / "f.feather", compression="uncompressed")
    return lambda cls: cls.from_feather(path / "f.feather")


def _stream(table: Any, path: Path) -> Callable[[Any], object]:
    with pa.ipc.new_stream(path / "f.arrow", table.schema) as writer:
        writer.write_table(table)
    return lambda cls: next(iter(cls.iter_feather(path / "f.arrow", batch_size=1)))


def _pandas(table: Any, path: Path) -> Callable[[Any], object]:
    kinds = {name: pd.ArrowDtype(table.schema.field(name).type) for name in table.column_names}
    frame = pd.DataFrame(
        {name: pd.Series(pd.arrays.ArrowExtensionArray(table[name])).astype(kind) for name, kind in kinds.items()}
    )
    return lambda cls: cls.from_pandas(frame)


CONVERTERS = {"parquet": _parquet, "batches": _batches, "feather": _feather, "stream": _stream, "pandas": _pandas}


@pytest.mark.parametrize("cls", [TensorDict, Sample])
@pytest.mark.parametrize("reader", CONVERTERS)
def test_every_reader_refuses_it(reader: str, cls: Any, tmp_path: Path) -> None:
    column = pa.ListArray.from_arrays(offsets(), bombs(tmp_path))
    read = CONVERTERS[reader](pa.table({"plain": [1.0], "odd": column}), tmp_path)
    refused(lambda: read(cls), "in [], ", tmp_path)


def test_a_struct_is_read_as_far_as_the_class_has_fields(tmp_path: Path) -> None:
    class Inner(TensorClass):
        a: Tensor

    class Outer(TensorClass):
        below: Inner

    column = pa.StructArray.from_arrays([pa.array([1]), bombs(tmp_path)], ["a", "odd"])
    pq.write_table(pa.table({"below": column}), tmp_path / "f.parquet")
    with pytest.warns(UserWarning, match="odd"):
        assert Outer.from_parquet(tmp_path / "f.parquet", strict=False).below.a.tolist() == [1]
    refused(lambda: TensorDict.from_parquet(tmp_path / "f.parquet"), "in .odd, ", tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_types_of_arrow_and_of_pandas_are_read(tmp_path: Path) -> None:
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(torch.arange(4.0).reshape(2, 2).numpy())
    periods = pa.array(pd.period_range("2020-01", periods=2, freq="M"))
    columns = {
        "tensors": tensors,
        "listed": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), tensors),
        "flags": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())),
        "ids": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16))),
        "texts": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", "[]"])),
        "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.int8(), "a", "b"), pa.array([1, 2], pa.int8())),
        "periods": periods,
    }
    pq.write_table(pa.table({name: columns[name] for name in columns}), tmp_path / "f.parquet")
    for data in (TensorDict.from_arrow(pa.table(columns)), TensorDict.from_parquet(tmp_path / "f.parquet")):
        assert data["tensors"].shape == (2, 2)
        assert data["listed"].tolist() == [[[0.0, 1.0]], [[2.0, 3.0]]]
        assert data["listed"].item_shape == (2,)
        assert data["flags"].tolist() == [True, False]
        assert data["texts"].tolist() == ["{}", "[]"]
        assert data["opaque"].tolist() == [1, 2]
        assert data["periods"].dtype == torch.int64
        assert len(data["ids"]) == 2


def test_objects_of_polars_are_those_of_the_program() -> None:
    frame = pl.DataFrame({"odd": pl.Series([{1}, {2}], dtype=pl.Object)})
    assert TensorDict.from_polars(frame)["odd"] == [{1}, {2}]
