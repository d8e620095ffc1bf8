"""What is written comes back, in all formats: values, dtypes, shapes, batch sizes, names and classes."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorData, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tests import forkserver, strategies
from tests.storage.formats import FORMATS, contents


class Inner(TensorClass, stack_objects=True):
    q: Tensor
    note: str


class Outer(TensorClass, stack_objects=True):
    x: Tensor
    text: str
    inner: Inner
    rest: TensorDict
    maybe: Tensor | None = None
    numbers: Any = (1, 2.5)


ODD = (
    "a/b",
    "..",
    "",
    "%",
    "%41",
    "meta.json",
    "zarr.json",
    "__x",
    "Ä key",
    "\n",
    "a.b",
    "0",
    "shape",
    "<tag>",
    "\0",
    "c",
)
DTYPES = (torch.bfloat16, torch.float8_e4m3fn, torch.uint16, torch.uint64, torch.complex128, torch.int8)
OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


def strided(value: Tensor) -> Tensor:
    """The same values, which do not lie one behind the other."""
    wide = torch.zeros((*value.shape, 2), dtype=value.dtype)
    wide[..., 0] = value
    return wide[..., 0]


def renamed(data: Any, name: Callable[[str], str]) -> Any:
    """A collection with other keys at every level."""
    entries = {
        name(key): renamed(value, name) if isinstance(value, TensorDict) else value
        for key, value in data._store.items()
    }
    return TensorDict(entries, data.batch_size, names=data._names)


@st.composite
def batches(draw: Any) -> tuple[list[int], Any]:
    size = list(draw(strategies.shapes(max_dims=2, max_size=3)))
    return size, draw(strategies.names_or_none(len(size)))


@st.composite
def collections(draw: Any) -> Any:
    """Trees, records and lazy stacks of them, with tensors and objects of all kinds."""
    size, names = draw(batches())
    tree = draw(strategies.deep_trees(max_leaves=6, max_levels=3))
    data = tree.build(size, names)
    if draw(st.booleans()):
        data = data.apply(strided)
    for at, dtype in enumerate(draw(st.lists(st.sampled_from(DTYPES), max_size=2))):
        data[f"more{at}"] = torch.arange(6).to(torch.float32).to(dtype).expand(*size, 6)
    if draw(st.booleans()):
        data["object"] = NonTensorData(draw(OBJECTS), batch_size=size)
    if draw(st.booleans()):
        data["one"] = UnbatchedTensor(torch.arange(3))
    if draw(st.booleans()):
        odd = iter(draw(st.permutations(ODD)))
        known: dict[str, str] = {}
        data = renamed(data, lambda key: known.setdefault(key, next(odd, key)))
    kind = draw(st.sampled_from(("tree", "record", "stack", "stack of records", "tree in a record")))
    if "record" in kind:
        inner = Inner(q=torch.ones(*size, 2), note=draw(st.text(max_size=3)), batch_size=size)
        data = Outer(
            x=torch.zeros(*size, 0), text=draw(st.text(max_size=3)), inner=inner,
            rest=data if "tree" in kind else TensorDict(batch_size=size), numbers=draw(OBJECTS), batch_size=size,
        )  # fmt: skip
        if names is not None:
            data.names = names
    if "stack" in kind:
        parts = [data, data.clone()]
        if draw(st.booleans()):
            parts[1]["ragged" if kind == "stack" else "x"] = torch.ones(*size, 4)
            if kind == "stack":
                parts[0]["ragged"] = torch.ones(*size, 5)
        data = lazy_stack(parts, draw(st.integers(0, len(size))))
    # a record in a collection is of the class that the file names, a loaded one of the class that loads it
    return TensorDict({"below": data}, []) if "record" in kind or draw(st.booleans()) else data


@pytest.mark.parametrize("form", FORMATS)
def test_a_field_that_is_none_does_not_get_its_default(form: str, tmp_path: Path) -> None:
    inner = Inner(q=torch.ones(2), note="n")
    data = TensorDict(a=Outer(x=torch.ones(2), text="t", inner=inner, rest=TensorDict(), numbers=None))
    FORMATS[form].save(data, tmp_path / "place")
    assert FORMATS[form].load(tmp_path / "place")["a"].numbers is None


def round_trip(form: str, data: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "place"
        FORMATS[form].save(data, path)
        return contents(FORMATS[form].load(path))


@pytest.mark.parametrize("form", FORMATS)
def test_any_collection_comes_back(form: str) -> None:
    @settings(max_examples=8 if form == "zarr" else 30, suppress_health_check=list(HealthCheck), deadline=None)
    @given(collections())
    def comes_back(data: Any) -> None:
        try:
            back = round_trip(form, data)
        except TypeError as error:
            assume("the format has no tensors of the dtypes" not in str(error))
            raise
        assert back == contents(data)

    comes_back()


@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
@given(collections())
def test_any_collection_comes_back_from_torch_save(data: Any) -> None:
    file = io.BytesIO()
    torch.save(data, file)
    file.seek(0)
    with torch.serialization.safe_globals([bytes, set, frozenset]):  # objects that torch asks about
        assert contents(torch.load(file, weights_only=True)) == contents(data)


def _answer(pipe: Connection) -> None:
    torch.set_num_threads(1)
    while True:
        data = pipe.recv()
        if data is None:
            return
        pipe.send((contents(data), data))


@pytest.fixture(scope="module")
def worker() -> Iterator[Connection]:
    """Another process, which says what it gets, and sends it back."""
    context = forkserver.context()
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,), daemon=True)
    process.start()
    yield here
    here.send(None)
    process.join(20)


def test_any_collection_is_handed_over_to_a_process(worker: Connection) -> None:
    @settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
    @given(collections())
    def is_handed_over(data: Any) -> None:
        worker.send(data)
        there, back = worker.recv()
        assert there == contents(data)
        assert contents(back) == contents(data)

    is_handed_over()
