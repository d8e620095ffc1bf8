"""Converters on drawn objects, arrays and tables, with all of their options, in both libraries."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.convert.samples import Pair
from tests.convert.sides import both
from tests.parity.sides import OURS, PEER

pytestmark = pytest.mark.parity

ROWS = 3
DTYPES = ("?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8")


@dataclasses.dataclass
class Fields:
    x: Any
    y: Any = None


# -- objects ----------------------------------------------------------------------------------------------------------

shapes = st.sampled_from([(3,), (3,), (3, 2), (3, 2), (3, 2, 4), (2,), (), (0,)])
arrays = st.builds(lambda shape, dtype: np.zeros(shape, dtype), shapes, st.sampled_from(DTYPES))
tensors = arrays.map(torch.from_numpy)
numbers = st.sampled_from([1, 2.5, True, np.float32(1)])
texts = st.just(["a", "b", "c"])
leaves = st.one_of(
    tensors,
    arrays,
    numbers,
    st.sampled_from(["text", None, np.array(["a", "b"]), frozenset([1])]),
    st.sampled_from([[1, 2, 3], [[1, 2], [3, 4], [5, 6]], [1.5, 2.5, 3.5], [True, False, True]]),
    texts,
)


def nodes(below: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "from_dict": st.dictionaries(st.sampled_from("abc"), below, max_size=3),
        "from_namedtuple": st.builds(Pair, below, below),
        "from_tuple": st.lists(below, min_size=1, max_size=3).map(tuple),
        "from_dataclass": st.builds(Fields, below, below),
    }


below = st.recursive(leaves, lambda part: st.one_of(*nodes(part).values()), max_leaves=5)
sources = nodes(below)
sources["from_any"] = st.one_of(*sources.values())

sizes = st.one_of(
    st.just({}),
    st.just({"auto_batch_size": True}),
    st.builds(lambda dims: {"auto_batch_size": True, "batch_dims": dims}, st.integers(0, 2)),
    st.builds(lambda size: {"batch_size": size}, st.sampled_from([[], [3], torch.Size([3]), [3, 2], [4]])),
)
devices = st.sampled_from([{}, {}, {"device": "cpu"}, {"device": torch.device("cpu")}])
options = st.builds(lambda size, device: {**size, **device}, sizes, devices)


def parts(source: Any) -> Iterator[Any]:
    """All that a source consists of, itself too."""
    yield source
    inner: Any = source.values() if isinstance(source, dict) else source if isinstance(source, tuple) else ()
    if isinstance(source, Fields):
        inner = (source.x, source.y)
    for part in inner:
        yield from parts(part)


def shapeless(source: Any) -> bool:
    """Whether a node has nothing in it that has a shape: here it fits any batch."""
    return isinstance(source, (dict, tuple, Fields)) and all(
        isinstance(part, (dict, tuple, Fields, str, frozenset)) or part is None or _of_text(part)
        for part in parts(source)
    )


def _of_text(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "U"


def differs(name: str, source: Any, given: dict[str, Any]) -> bool:
    """What docs/differences.md says of these options."""
    size = given.get("batch_size")
    if given.get("auto_batch_size"):
        return any(shapeless(part) for part in parts(source))
    if size and [*size] != [ROWS]:
        return any(_number(part) or (isinstance(part, list) and isinstance(part[0], str)) for part in parts(source))
    # a number is an object for all rows: there only in a mapping
    return bool(size) and any(
        _number(item) for part in parts(source) if not isinstance(part, dict) for item in [*parts(part)][1:]
    )


def _number(part: Any) -> bool:
    return isinstance(part, (bool, int, float, np.generic))


@pytest.mark.parametrize("name", sorted(sources))
@settings(max_examples=40)
@given(data=st.data())
def test_objects_become_what_they_become_there(name: str, data: st.DataObject) -> None:
    source, chosen = data.draw(sources[name]), data.draw(options)
    assume(not differs(name, source, chosen))
    ours, peers = both(lambda m: getattr(m.TensorDict, name)(source, **chosen))
    assert ours == peers


@settings(max_examples=40)
@given(source=sources["from_dict"], chosen=options)
def test_an_instance_makes_what_it_makes_there(source: Any, chosen: dict[str, Any]) -> None:
    assume(not differs("from_dict", source, chosen))
    ours, peers = both(lambda m: m.TensorDict.from_dict(source).from_dict_instance(source, **chosen))
    assert ours == peers


def destination(library: Any) -> Any:
    class Destination(library.TensorClass):  # type: ignore[misc]
        x: torch.Tensor
        y: torch.Tensor

    return Destination


@settings(max_examples=40)
@given(source=st.builds(Fields, tensors, tensors), chosen=options, given=st.sampled_from([True, False]))
def test_dataclasses_become_the_records_that_they_become_there(
    source: Any, chosen: dict[str, Any], given: bool
) -> None:
    assume(not differs("from_dataclass", source, chosen))

    def made(library: Any) -> Any:
        more = {"dest_cls": destination(library)} if given else {}
        record = library.from_dataclass(source, **chosen, **more)
        return type(record).__name__, record.batch_size, record.x, record.y

    ours, peers = both(made)
    assert ours == peers


# -- arrays and tables ------------------------------------------------------------------------------------------------

plain = st.sampled_from([("f4",), ("i8",), ("?",), ("f8",), ("i4", (2,)), ("f4", (2, 2)), ("u1",), ("f2",)])
inner = st.just(([("x", "f4"), ("y", "i8")],))
dtypes = st.builds(
    lambda fields, align: np.dtype([(name, *field) for name, field in fields.items()], align=align),
    st.dictionaries(st.sampled_from("abc"), st.one_of(plain, plain, inner), min_size=1),
    st.booleans(),
)


@settings(max_examples=30)
@given(dtype=dtypes, shape=st.sampled_from([(3,), (2, 3), ()]), chosen=options)
def test_structured_arrays_become_what_they_become_there(dtype: Any, shape: Any, chosen: dict[str, Any]) -> None:
    ones = np.ones(np.zeros(shape, dtype).nbytes, "u1")
    array = np.frombuffer(ones.tobytes(), dtype).reshape(shape).copy()
    assume("device" not in chosen or all(dtype[name].names is None for name in dtype.names))
    ours, peers = both(lambda m: m.TensorDict.from_struct_array(array, **chosen))
    assert ours == peers
    ours, peers = both(lambda m: m.TensorDict.from_struct_array(array).to_struct_array())
    assert ours == peers


columns = st.sampled_from(
    [
        np.arange(ROWS),
        np.arange(ROWS, dtype="f4"),
        np.zeros(ROWS, bool),
        np.array([1.5, np.nan, 2]),
        np.ones(ROWS, "i1"),
    ]
)
names = st.sampled_from(["a", "b", "n.x", "n.y", "n_z"])
options_of_tables = st.builds(
    lambda size, device, separator, dtype: {**size, **device, **separator, **dtype},
    sizes,
    devices,
    st.sampled_from([{}, {"separator": "."}, {"separator": "_"}]),
    st.sampled_from([{}, {"dtype": torch.float32}, {"dtype": torch.float64}]),
)


@settings(max_examples=30)
@given(source=st.dictionaries(names, columns, min_size=1), start=st.integers(0, 5), chosen=options_of_tables)
def test_tables_of_pandas_become_what_they_become_there(source: Any, start: int, chosen: dict[str, Any]) -> None:
    table = pd.DataFrame(source, index=range(start, start + ROWS))
    ours, peers = both(lambda m: m.TensorDict.from_pandas(table, **chosen))
    assert ours == peers


@settings(max_examples=30)
@given(source=st.dictionaries(names, columns, min_size=1), separator=st.sampled_from([None, ".", "/"]))
def test_tables_of_pandas_come_back_as_there(source: Any, separator: str | None) -> None:
    def back(library: Any) -> Any:
        data = library.TensorDict.from_pandas(pd.DataFrame(source), separator=".")
        table = data.to_pandas(separator=separator)
        return list(table.columns), list(table.index), {name: table[name].to_numpy() for name in table.columns}

    ours, peers = both(back)
    assert ours == peers


arrow_columns = st.sampled_from(
    [
        pa.array(range(ROWS)),
        pa.array(range(ROWS), pa.float32()),
        pa.array([True, False, True]),
        pa.array(["a", "b", "a"]),
        pa.array([1, None, 3]),
        pa.array([1.5, None, 3]),
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
        pa.chunked_array([pa.array([1, 2]), pa.array([3])]),
    ]
)


@settings(max_examples=30)
@given(
    source=st.dictionaries(st.sampled_from("abc"), arrow_columns, min_size=1),
    nulls=st.sampled_from([{}, {"nulls": "raise"}, {"nulls": "fill"}, {"nulls": "mask"}]),
    copy=st.sampled_from([{}, {"copy": True}]),
    device=devices,
)
def test_tables_of_arrow_become_what_they_become_there(source: Any, nulls: Any, copy: Any, device: Any) -> None:
    ours, peers = both(lambda m: m.from_arrow(pa.table(source), **nulls, **copy, **device))
    assert ours == peers


@settings(max_examples=30)
@given(source=st.dictionaries(st.sampled_from("abc"), arrow_columns, min_size=1))
def test_tables_of_arrow_come_back_as_there(source: Any) -> None:
    assume(not any(column.null_count for column in source.values()))

    def back(library: Any) -> Any:
        table = library.to_arrow(library.from_arrow(pa.table(source)))
        return [str(column.type) for column in table.columns], table.to_pydict()

    ours, peers = both(back)
    assert ours == peers


CONTENT = {
    "csv": lambda table: table.to_csv(index=False).encode(),
    "json": lambda table: table.to_json(orient="records").encode(),
    "parquet": lambda table: table.to_parquet(None),
}
in_files = st.sampled_from([np.arange(ROWS), np.array([1.5, 2, -3]), np.zeros(ROWS, bool)])


def read(kind: str, content: bytes, **options: Any) -> tuple[Any, Any]:
    """What both read in a file; the peer takes only the path of one of Parquet."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return both(lambda m: getattr(m.TensorDict, f"from_{kind}")(file.name, **options))


@pytest.mark.parametrize("kind", CONTENT)
@settings(max_examples=10)
@given(source=st.dictionaries(names, in_files, min_size=1), chosen=options_of_tables)
def test_files_of_tables_become_what_they_become_there(kind: str, source: Any, chosen: dict[str, Any]) -> None:
    content = CONTENT[kind](pd.DataFrame(source))
    ours, peers = read(kind, content, **chosen)
    assert ours == peers


@pytest.mark.parametrize("kind", ["json", "parquet"])  # in CSV 2.0 is written as 2, there as 2.0
@settings(max_examples=10)
@given(source=st.dictionaries(names, in_files, min_size=1), separator=st.sampled_from([None, ".", "/"]))
def test_either_library_reads_the_files_of_the_other(kind: str, source: Any, separator: str | None) -> None:
    def written(library: Any) -> bytes:
        data = library.TensorDict.from_pandas(pd.DataFrame(source), separator=separator)
        with tempfile.TemporaryDirectory() as folder:  # the peer would write Parquet for a buffer to a file of its repr
            path = Path(folder, "table")
            getattr(data, f"to_{kind}")(str(path), separator=separator or "_")
            return path.read_bytes()

    for writer in (OURS, PEER):
        ours, peers = read(kind, written(writer))
        assert ours == peers


# -- rows -------------------------------------------------------------------------------------------------------------

row_values = st.sampled_from(
    [
        lambda row: row,
        lambda row: float(row),
        lambda row: torch.full((2,), row),
        lambda row: f"text {row}",
        lambda row: {"x": row},
        lambda row: np.full((2, 2), row),
    ]
)


@settings(max_examples=30)
@given(
    makes=st.dictionaries(st.sampled_from("abc"), row_values, min_size=1),
    count=st.integers(1, 3),
    chosen=st.sampled_from(
        [{}, {"auto_batch_size": True}, {"auto_batch_size": False}, {"batch_size": [2]}, {"batch_size": [3]}]
    ),
    lazy=st.sampled_from([{}, {"lazy": True}, {"lazy": False}, {"lazy": None}]),
    device=devices,
)
def test_rows_become_what_they_become_there(makes: Any, count: int, chosen: Any, lazy: Any, device: Any) -> None:
    rows = [{key: make(row) for key, make in makes.items()} for row in range(count)]
    ours, peers = both(lambda m: m.TensorDict.from_list(rows, **chosen, **lazy, **device))
    assert ours == peers


# -- and back ---------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    source=sources["from_dict"],
    size=st.sampled_from([{}, {"auto_batch_size": True}]),
    chosen=st.fixed_dictionaries(
        {},
        optional={
            "retain_none": st.booleans(),
            "convert_tensors": st.sampled_from([True, False, "numpy"]),
            "tolist_first": st.booleans(),
        },
    ),
)
def test_dicts_come_back_as_there(source: Any, size: dict[str, Any], chosen: dict[str, Any]) -> None:
    assume(not differs("from_dict", source, size))
    deep = any(inside is not part for part in [*parts(source)][1:] for inside in parts(part))
    assume(not (chosen.get("tolist_first") and deep))  # the peer looks at the first level alone
    ours, peers = both(lambda m: m.TensorDict.from_dict(source, **size).to_dict(**chosen))
    assert ours == peers


@settings(max_examples=30)
@given(
    source=sources["from_dict"],
    size=st.sampled_from([{}, {"auto_batch_size": True}, {"batch_size": [3]}]),
    chosen=st.fixed_dictionaries(
        {},
        optional={
            "convert_nodes": st.booleans(),
            "convert_tensors": st.sampled_from([True, False, "numpy"]),
            "tolist_first": st.booleans(),
        },
    ),
)
def test_lists_come_back_as_there(source: Any, size: dict[str, Any], chosen: dict[str, Any]) -> None:
    assume(not differs("from_dict", source, size))
    ours, peers = both(lambda m: m.TensorDict.from_dict(source, **size).tolist(**chosen))
    assert ours == peers


@settings(max_examples=30)
@given(source=sources["from_namedtuple"], size=st.sampled_from([{}, {"auto_batch_size": True}]))
def test_named_tuples_come_back_as_there(source: Any, size: dict[str, Any]) -> None:
    assume(not differs("from_namedtuple", source, size))
    assume(not any(part is None for part in parts(source)))  # None stays, as an item of the tuple

    def back(library: Any) -> Any:
        data = library.TensorDict.from_namedtuple(source, **size)
        return data.to_namedtuple(Pair), data.to_namedtuple()._asdict()

    ours, peers = both(back)
    assert ours == peers
