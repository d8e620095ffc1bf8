"""Where the converters and those of the peer differ, as tests/parity/test_differences.py lists it."""

from __future__ import annotations

import collections
import dataclasses
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np
import pandas as pd
import pyarrow as pa
import pydantic
import torch

from tensorclass import Text
from tests.parity.records import classes
from tests.parity.sides import described

Call = Callable[[Any], Any]

PETS = np.array([("Rex", 9), ("Fido", 3)], dtype=[("name", "S4"), ("age", "i4")])


@dataclasses.dataclass
class Defaults:
    x: int = 3


@dataclasses.dataclass
class Pet:
    age: torch.Tensor
    other: Pet | None = None

    def older(self) -> Any:
        return self.age + 1


@dataclasses.dataclass
class Dog(Pet):
    pass


@dataclasses.dataclass
class Partly:
    x: int
    y: int = dataclasses.field(init=False)


@attrs.define
class OfAttrs:
    x: int


class OfPydantic(pydantic.BaseModel):
    x: int


class Pair(NamedTuple):
    x: Any
    y: Any


NAT = torch.tensor(-(2**63))
NAN = torch.tensor(float("nan"), dtype=torch.float64)


def record(library: Any) -> Any:
    class Weighed(library.TensorClass):  # type: ignore[misc]
        x: torch.Tensor = torch.tensor(3.0)

    return Weighed


def error(cls: type[Exception]) -> Any:
    return described(cls())


def whole_numbers_from_csv(library: Any) -> torch.dtype:
    file = io.BytesIO()
    library.TensorDict({"a": torch.ones(2)}, [2]).to_csv(file)
    file.seek(0)
    return library.TensorDict.from_csv(file)["a"].dtype  # type: ignore[no-any-return]


def tree(library: Any, *leaves: Any) -> Any:
    return library.TensorDict.from_pytree(*leaves).to_pytree()


def written_to_a_packed_field(library: Any) -> float:
    array = np.zeros(2, dtype=[("a", "u1"), ("b", "f8")])
    data = library.from_struct_array(array)
    array["b"] = 5
    return float(data["b"][1])


def problems_of(call: Callable[[], Any]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except (ValueError, TypeError, RuntimeError) as raised:
            return len(getattr(raised, "problems", [raised]))
    return 0


def given_to_a_converter(library: Any) -> tuple[int, ...]:
    inner = library.TensorDict({"x": torch.zeros(3)})
    library.TensorDict.from_tuple((inner,), auto_batch_size=True)
    return tuple(inner.batch_size)


def nested_pet(library: Any) -> str:
    record = library.from_dataclass(Pet(torch.zeros(2), Pet(torch.zeros(2))))
    return type(record.other).__name__


CONVERTERS: dict[str, list[tuple[Call, Any, Any]]] = {
    "All problems are one error.": [
        (lambda m: problems_of(lambda: record(m).from_dict({"y": 2, "z": 3})), 2, 1),
        (lambda m: problems_of(lambda: record(m).from_dict({"x": 1.0, "y": 2}, strict=False)), 0, 1),
    ],
    "A list of tensors is a tensor.": [
        (lambda m: type(m.from_dict({"a": [torch.zeros(2)] * 2}).get("a")).__name__, "Tensor", "NonTensorStack"),
    ],
    "`batch_dims` infers the batch size.": [
        (lambda m: tuple(m.from_tuple((torch.zeros(3, 4),), batch_dims=1).batch_size), (3,), ()),
        (
            lambda m: tuple(m.from_tuple((torch.zeros(3, 4),), batch_dims=1, batch_size=[3]).batch_size),
            error(TypeError),
            (3,),
        ),
        (
            lambda m: tuple(m.from_dict({"a": torch.zeros(3)}, auto_batch_size=True, batch_size=[3]).batch_size),
            error(ValueError),
            (3,),
        ),
    ],
    "Converters leave their source unchanged.": [
        (given_to_a_converter, (), (3,)),
    ],
    "A class is an object.": [
        (lambda m: isinstance(m.from_any(Defaults), type), True, False),
    ],
    "A number beside a batch is an object for all rows.": [
        (lambda m: m.from_tuple((1, torch.zeros(3)), batch_size=[3])["0"], 1, error(RuntimeError)),
    ],
    "Collections without values fit any batch.": [
        (lambda m: tuple(m.from_dict({"n": {}, "a": torch.zeros(3)}, auto_batch_size=True).batch_size), (3,), ()),
        (lambda m: tuple(m.from_any((torch.zeros(3), (None,)), auto_batch_size=True).batch_size), (3,), ()),
    ],
    "Options reach every level.": [
        (
            lambda m: (
                type(
                    m.from_dict({"n": {"x": 1, "m": {"a": [1, 2]}}}, auto_batch_size=True).to_dict(tolist_first=True)[
                        "n"
                    ]["m"]
                ).__name__
            ),
            "list",
            "dict",
        ),
        (
            lambda m: m.from_struct_array(np.zeros(2, [("n", [("x", "f4")])]), device="cpu")["n", "x"].tolist(),
            [0.0, 0.0],
            error(RuntimeError),
        ),
    ],
    "Converters take only their own type.": [
        (lambda m: m.from_tuple({"a": 1})["0"], error(TypeError), "a"),
        (lambda m: m.from_namedtuple({"a": 1})["a"], error(TypeError), torch.tensor(1)),
    ],
    "A dataclass has one record class.": [
        (lambda m: m.from_dataclass(Pet) is m.from_dataclass(Pet), True, False),
        (lambda m: m.from_dataclass(Pet(torch.zeros(2))).older(), torch.ones(2), error(AttributeError)),
        (nested_pet, "Pet_tc", "dict"),
        (lambda m: issubclass(m.from_dataclass(Dog), m.from_dataclass(Pet)), True, False),
    ],
    "A field that was never set has no entry.": [
        (lambda m: list(m.TensorDict.from_dataclass(Partly(3)).keys()), ["x"], error(AttributeError)),
    ],
    "Instances of attrs and pydantic classes are converted.": [
        (lambda m: int(m.from_any({"a": OfAttrs(3)})["a", "x"]), 3, error(KeyError)),
        (lambda m: int(m.from_any({"a": OfPydantic(x=3)})["a", "x"]), 3, error(KeyError)),
    ],
    "Pytrees come back whole.": [
        (lambda m: tree(m, ["text", None]), ["text", None], error(NotImplementedError)),
        (lambda m: list(tree(m, {("a", "b"): 1})), [("a", "b")], ["a"]),
        (lambda m: tree(m, collections.defaultdict(list, a=1)).default_factory is list, True, False),
        (lambda m: [type(leaf).__name__ for leaf in tree(m, [1.5, np.zeros(2)])], ["float", "ndarray"], ["Tensor"] * 2),
        (lambda m: tree(m, [1j, np.float32(1)]), [1j, np.float32(1)], error(NotImplementedError)),
        (lambda m: tree(m, [2**70]), [2**70], error(ValueError)),
        (lambda m: list(tree(m, {"a": 1, "_pytree_type": 2})), ["a", "_pytree_type"], ["a"]),
        (lambda m: type(tree(m, collections.deque([1]))), collections.deque, error(NotImplementedError)),
    ],
    "A record is a tree of its fields.": [
        (lambda m: type(classes(m)["Inner"](torch.zeros(2)).to_pytree()).__name__, "dict", "Inner"),
    ],
    "Text of arrays and tables belongs to its row.": [
        (lambda m: type(m.from_struct_array(PETS)[0]["name"]).__name__, "bytes", "ndarray"),
        (lambda m: str(m.from_struct_array(PETS).to_struct_array().dtype["name"]), "|S4", "<U10"),
        (lambda m: type(m.from_arrow(pa.table({"a": ["u", "v"]})).get("a")).__name__, "Text", "NonTensorStack"),
        (
            lambda m: m.TensorDict({"o": {1, 2}}, [1]).to_struct_array()["o"].tolist(),
            [{1, 2}],
            ["{1, 2}"],
        ),
    ],
    "Packed fields share memory.": [
        (written_to_a_packed_field, 5.0, 0.0),
    ],
    "Categories are their values.": [
        (
            lambda m: m.from_pandas(pd.DataFrame({"c": pd.Categorical(["u", "v"])}))["c"],
            Text(["u", "v"]),
            torch.tensor([0, 1], dtype=torch.int8),
        ),
    ],
    "Rows of lists are tensors.": [
        (
            lambda m: m.from_pandas(pd.DataFrame({"c": [[1, 2], [3, 4]]}))["c"][0].tolist(),
            [1, 2],
            error(AttributeError),
        ),
        (
            lambda m: m.TensorDict({"c": torch.zeros(1, 2)}, [1]).to_pandas()["c"][0].tolist(),
            [0, 0],
            error(ValueError),
        ),
        (lambda m: m.from_pandas(pd.DataFrame({"c": [{"a": 1}]}))["c"][0]["a"], torch.tensor(1), 1),
    ],
    "Missing values in files are an error.": [
        (lambda m: m.from_csv(io.BytesIO(b"a,b\n1,2\n,3\n"))["a"][1].isnan().item(), error(ValueError), True),
        (lambda m: m.from_json(io.BytesIO(b'[{"a": 1}, {"a": null}]'))["a"][1].isnan().item(), error(ValueError), True),
    ],
    "File options are those of pyarrow.": [
        (lambda m: m.from_csv(io.BytesIO(b"a;b\n1;2\n"), sep=";")["b"].item(), error(TypeError), 2),
    ],
    "Files hold nested values.": [
        (lambda m: m.TensorDict({"n": {"a": torch.zeros(1)}}, [1]).to_parquet(io.BytesIO()), None, error(ValueError)),
        (lambda m: m.TensorDict({"a": torch.zeros(1, 2)}, [1]).to_json(io.BytesIO()), None, error(ValueError)),
    ],
    "Whole numbers in CSV files are integers.": [
        (whole_numbers_from_csv, torch.int64, torch.float64),
    ],
    "Missing times are an error.": [
        (lambda m: m.from_pandas(pd.DataFrame({"c": pd.to_datetime([None])}))["c"][0], error(TypeError), NAT),
        (
            lambda m: m.from_pandas(pd.DataFrame({"c": pd.to_datetime(["1970-01-01"]).tz_localize("UTC")}))["c"][0],
            torch.tensor(0),
            pd.Timestamp(0, tz="UTC"),
        ),
    ],
    "Missing values get the default.": [
        (lambda m: record(m).from_pandas(pd.DataFrame({"x": [1.0, None]})).x[1], torch.tensor(3.0).double(), NAN),
    ],
    "Multi-level columns are nested keys.": [
        (lambda m: list(m.from_pandas(pd.DataFrame({("a", "b"): [1.0]})).keys()), ["a"], ["('a', 'b')"]),
        (lambda m: m.from_pandas(pd.DataFrame([[1, 2]], columns=["a", "a"]))["a"].shape[1], error(ValueError), 2),
        (
            lambda m: len(m.from_arrow(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])).keys()),
            error(ValueError),
            1,
        ),
    ],
    "Rows without text have a value of their own.": [
        (
            lambda m: m.from_arrow(pa.table({"a": ["u", None]}))["a"],
            Text(["u", None]),
            error(ValueError),
        ),
    ],
    "Lists are ragged rows.": [
        (lambda m: type(m.from_arrow(pa.table({"a": [[1, 2], [3, 4]]}))["a"]).__name__, "Ragged", "NestedTensor"),
        (
            lambda m: m.from_arrow(pa.table({"a": [[[1], [2]], [[3], [4]]]})).get("a").tolist(),
            [[[1], [2]], [[3], [4]]],
            [[[1], [2]], [[3], [4]]],
        ),
    ],
    "Numbers are tensors, however a column holds them.": [
        (
            lambda m: m.from_arrow(pa.table({"a": pa.array([1, 1]).dictionary_encode()}))["a"],
            torch.tensor([1, 1]),
            [1, 1],
        ),
        (
            lambda m: m.from_arrow(pa.table({"a": pa.RunEndEncodedArray.from_arrays([2], [1])}))["a"],
            torch.tensor([1, 1]),
            [1, 1],
        ),
    ],
    "A table takes more.": [
        (lambda m: m.to_arrow(m.TensorDict({"a": torch.zeros(2, 3)}, [2, 3])).num_rows, 2, error(ValueError)),
        (lambda m: m.to_arrow(m.TensorDict({"a": torch.zeros(2, 0)}, [2])).num_rows, 2, error(ValueError)),
        (lambda m: m.to_arrow(m.TensorDict({"a": torch.zeros(2).bfloat16()}, [2])).num_rows, 2, error(TypeError)),
        (
            lambda m: str(m.to_arrow(m.lazy_stack([m.TensorDict({"a": torch.zeros(n)}) for n in (1, 2)]))["a"].type),
            "list<item: float>",
            error(RuntimeError),
        ),
    ],
    "`copy=False` never copies.": [
        (lambda m: m.from_arrow(pa.table({"a": [True]}), copy=False)["a"], error(ValueError), torch.tensor([True])),
    ],
    "A mask says where in a list a value was missing.": [
        (
            lambda m: m.from_arrow(pa.table({"a": pa.array([[1, None], None], pa.list_(pa.int8(), 2))}), nulls="mask")[
                "_mask", "a"
            ],
            torch.tensor([[True, False], [False, False]]),
            torch.tensor([True, False]),
        ),
    ],
    "Padding does not cast.": [
        (
            lambda m: m.collate(
                [m.TensorDict({"a": torch.ones(2, dtype=torch.int64)}), m.TensorDict({"a": torch.tensor([1.5])})],
                pad_keys={"a": 0},
            )["a"],
            error(RuntimeError),
            torch.tensor([[1, 1], [1, 0]]),
        ),
    ],
    "`None` stays.": [
        (lambda m: list(m.TensorDict({"a": None}).numpy()), ["a"], []),
        (lambda m: list(m.TensorDict({"a": None}).to_namedtuple()._fields), ["a"], []),
    ],
}
