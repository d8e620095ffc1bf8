"""What a class declares, as plain data and as JSON Schema."""

import enum
import json
from typing import Annotated, Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import Device, DType, Range, Shape, TensorClass, TensorDict, field, tensorclass
from tensorclass.contracts.dims import parse
from tensorclass.testing import records
from tests.contracts.samples import Level, Pair, Sample


class Color(enum.Enum):
    RED = 1


class Node(TensorClass):
    """A bit of everything, and a record of its own class."""

    value: Annotated[Tensor, Shape("... 3"), DType("real")]
    either: Float[Tensor, "3"] | Int[Tensor, "#4"] | None = None
    bounded: Annotated[Tensor, Shape("n"), DType("uint8"), Range(1, float("inf"))] | None = None
    here: Annotated[Tensor, DType("bool"), Device("cpu")] | None = None
    color: Color = Color.RED
    word: Literal["a", "b"] = "a"
    parts: list[int] = field(default_factory=list)
    extra: TensorDict | None = None
    hidden: int = field(default=0, init=False)
    named: float = field(default=0.5, kw_only=True)
    any_object: object = None
    next: "Node | None" = None


def entry(cls: Any, name: str) -> Any:
    return cls.schema()["fields"][name]


@pytest.mark.parametrize("cls", [Sample, Pair, Level, Node])
def test_a_schema_is_json_and_the_same_each_time(cls: Any) -> None:
    text = json.dumps(cls.schema(), allow_nan=False)
    assert json.loads(text) == cls.schema()
    assert json.dumps(cls.schema(), allow_nan=False) == text
    assert json.loads(json.dumps(cls.json_schema(), allow_nan=False)) == cls.json_schema()


def test_a_schema_names_version_class_and_fields_in_order() -> None:
    schema = Sample.schema()
    assert (schema["version"], schema["name"], schema["module"]) == (1, "Sample", Sample.__module__)
    assert list(schema["fields"]) == ["image", "mask", "label", "weight"]
    assert "records" not in schema


def test_a_field_has_its_contract() -> None:
    assert entry(Sample, "image") == {
        "kind": "tensor", "optional": False, "contract": {"shape": "3 h w", "dtype": ["float"]},
    }  # fmt: skip
    assert entry(Sample, "weight") == {
        "kind": "tensor", "optional": True, "contract": {"shape": "h+1", "dtype": ["float"]}, "default": None,
    }  # fmt: skip
    assert entry(Node, "bounded")["contract"] == {"shape": "n", "dtype": ["uint8"], "low": 1, "high": "inf"}
    assert entry(Node, "here")["contract"] == {"dtype": ["bool"], "device": "cpu"}
    assert entry(Node, "either")["contract"] == {
        "shape": "3", "dtype": ["float"], "or": [{"shape": "#4", "dtype": ["int"]}],
    }  # fmt: skip


def test_jaxtyping_and_our_markers_have_one_schema() -> None:
    class Marked(TensorClass):
        image: Annotated[Tensor, Shape("3 h w"), DType("float")]

    assert entry(Marked, "image") == entry(Sample, "image")


def test_a_schema_makes_the_contract_again() -> None:
    contract = Node._specs["bounded"].contract
    plain = entry(Node, "bounded")["contract"]
    assert contract is not None
    assert parse(plain["shape"]) == contract.dims
    assert DType(*plain["dtype"]).allowed == contract.dtypes
    assert Range(plain["low"], float(plain["high"])) == Range(contract.low, contract.high)


def test_objects_have_types_values_and_defaults() -> None:
    assert entry(Node, "color")["types"] == [f"{__name__}.Color"]
    assert entry(Node, "color")["default_repr"] == "<Color.RED: 1>"
    assert (entry(Node, "word")["values"], entry(Node, "word")["default"]) == (["a", "b"], "a")
    assert entry(Node, "parts")["default_factory"] == "list"
    assert entry(Node, "any_object")["kind"] == "any"
    assert entry(Node, "extra")["kind"] == "collection"
    assert entry(Node, "hidden")["init"] is False
    assert entry(Node, "named")["kw_only"] is True


def test_a_default_without_a_name_of_its_own_has_no_address() -> None:
    class Thing:
        pass

    class Holder(TensorClass):
        thing: object = Thing()

    assert "0x" not in entry(Holder, "thing")["default_repr"]


def test_nested_records_stand_beside_the_fields() -> None:
    schema = Pair.schema()
    assert schema["fields"]["left"] == {"kind": "record", "optional": False, "record": "Sample"}
    assert schema["records"] == {"Sample": {key: Sample.schema()[key] for key in ("name", "module", "fields")}}


def test_a_record_of_its_own_class_refers_to_itself() -> None:
    assert entry(Node, "next") == {"kind": "record", "optional": True, "record": "Node", "default": None}


def test_two_classes_of_one_name_are_told_apart() -> None:
    def made() -> Any:
        class Same(TensorClass):
            value: Tensor

        return Same

    first, second = made(), made()
    holder: Any = type(TensorClass)("Holder", (TensorClass,), {"__annotations__": {"a": first, "b": second}})
    fields = holder.schema()["fields"]
    assert fields["a"]["record"] != fields["b"]["record"]
    assert set(holder.schema()["records"]) == {fields["a"]["record"], fields["b"]["record"]}


@tensorclass
class Decorated:
    value: Annotated[Tensor, Shape("n")]


def test_a_decorated_class_has_a_schema() -> None:
    cls: Any = Decorated
    assert entry(cls, "value")["contract"] == {"shape": "n"}


# -- JSON Schema ------------------------------------------------------------------------------------------------------

_CLASSES = {
    "array": list, "object": dict, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip


def accepts(schema: Any, value: Any, root: Any = None) -> bool:
    """Whether a JSON Schema, in the keywords that ours use, accepts a value: a reading of its own of the draft."""
    root = schema if root is None else root
    unknown = set(schema) - {
        "$schema", "$defs", "$ref", "title", "type", "properties", "required", "additionalProperties", "anyOf", "items",
        "minItems", "maxItems", "minimum", "maximum", "enum",
    }  # fmt: skip
    assert not unknown
    if "$ref" in schema and not accepts(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root):
        return False
    if "anyOf" in schema and not any(accepts(one, value, root) for one in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(
            isinstance(value, _CLASSES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names
        ):
            return False
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", float("inf")):
            return False
        return all(accepts(schema.get("items", {}), item, root) for item in value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if any(name not in value for name in schema.get("required", ())):
            return False
        if schema.get("additionalProperties") is False and set(value) - set(properties):
            return False
        return all(accepts(properties.get(name, {}), item, root) for name, item in value.items())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", -float("inf")) <= value <= schema.get("maximum", float("inf")))
    return True


@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("cls", [Sample, Pair, Level, Node])
@given(data=st.data())
def test_a_json_schema_accepts_every_record(cls: Any, data: st.DataObject) -> None:
    record = data.draw(records(cls))
    assert accepts(cls.json_schema(record.batch_dims), record.to_dict(convert_tensors=True))
    rows = record.reshape(-1).tolist(convert_tensors=True) if record.batch_dims else []
    assert all(accepts(cls.json_schema(), row) for row in rows)


@pytest.mark.parametrize(
    "change",
    [
        {"image": [[[0.0]]]},  # 3 of them
        {"image": [[[0.0]], [[0.0]], [["0"]]]},
        {"mask": [[0]]},
        {"label": 0.5},
        {"label": [0]},
        {"label": None},
        {"more": 1},
    ],
)
def test_a_json_schema_refuses_what_breaks_a_contract(change: dict[str, Any]) -> None:
    row = Sample.zeros(h=1, w=1).to_dict(convert_tensors=True)
    assert accepts(Sample.json_schema(), row)
    assert not accepts(Sample.json_schema(), {**row, **change})


def test_a_json_schema_has_the_range_and_the_required_fields() -> None:
    assert Level.json_schema()["properties"]["value"]["items"] == {
        "type": ["number", "boolean"], "minimum": 0, "maximum": 1,
    }  # fmt: skip
    assert Pair.json_schema()["required"] == ["left"]


@pytest.mark.parametrize("batch_dims", [-1, 1.5, True, "1"])
def test_batch_dims_is_a_number_of_dimensions(batch_dims: Any) -> None:
    with pytest.raises(ValueError, match="batch_dims"):
        Sample.json_schema(batch_dims)


def test_complex_numbers_are_anything_in_json() -> None:
    class Wave(TensorClass):
        value: Annotated[Tensor, Shape("n"), DType(torch.complex64)]

    assert Wave.json_schema()["properties"]["value"]["items"] == {}
