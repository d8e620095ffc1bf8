"""What makes a record of something else, and the way back.

`load` and `load_memmap` come with files.
"""

import dataclasses
from typing import Any, NamedTuple

import attrs
import numpy as np
from pydantic import BaseModel
from records import Box, Flags, Sample, Scene
from torch import Size, Tensor
from typing_extensions import assert_type

from tensorclass import (
    TensorClass,
    TensorDict,
    from_attrs,
    from_dataclass,
    from_dict,
    from_namedtuple,
    from_pydantic,
    from_tuple,
)


@dataclasses.dataclass
class Plain:
    image: Tensor
    label: Tensor
    source: str = ""

    @classmethod
    def of(cls, x: Tensor) -> Any:
        return cls(x, x)


class Plains(Plain, TensorClass):
    pass


@attrs.define
class OfAttrs:
    image: Tensor
    label: Tensor
    source: str = ""


class OfPydantic(BaseModel, arbitrary_types_allowed=True):
    image: Tensor
    label: Tensor
    source: str = ""


class Named(NamedTuple):
    seen: Tensor
    kept: Tensor


def into(x: Tensor, batch: Sample, data: TensorDict) -> None:
    assert_type(Sample.from_dict({"image": x, "label": x, "source": "a"}), Sample)
    assert_type(Sample.from_dict({"image": x, "label": x, "source": "a"}, batch_size=[4]), Sample)
    assert_type(Sample.from_dict({"image": x, "label": x, "source": "a"}, auto_batch_size=True), Sample)
    assert_type(Sample.from_tensordict(batch.to_tensordict()), Sample)
    assert_type(Sample.from_any({"image": x, "label": x, "source": "a"}), Sample)
    assert_type(Sample.from_dataclass(Plain(x, x)), Sample)
    assert_type(Sample.from_dataclass(Plain(x, x), batch_size=[4]), Sample)
    assert_type(Sample.from_list([{"image": 1.0, "label": 1.0, "source": "a"}]), Sample)
    assert_type(Flags.from_namedtuple(Named(x, x)), Flags)
    assert_type(Sample.from_dict({"image": x, "label": x, "source": "a"}).image, Tensor)
    assert_type(TensorDict.from_dict({"a": x}), TensorDict)
    assert_type(TensorDict.from_namedtuple(Named(x, x)), TensorDict)
    assert_type(TensorDict.from_tuple((x, x)), TensorDict)
    assert_type(Flags.from_pytree({"seen": x, "kept": x}), Flags)
    assert_type(Flags.from_pytree({"seen": x, "kept": x}, namespace="", strict=False), Flags)
    assert_type(Flags.from_tuple((x, x)), Flags)
    assert_type(from_dict({"a": x}), TensorDict)
    assert_type(from_tuple((x, x)), TensorDict)
    assert_type(from_namedtuple(Named(x, x)), TensorDict)


def instances(x: Tensor, batch: Sample) -> None:
    assert_type(Sample.from_attrs(OfAttrs(x, x)), Sample)
    assert_type(Sample.from_attrs(OfAttrs(x, x), batch_size=[4], strict=False), Sample)
    assert_type(Sample.from_pydantic(OfPydantic(image=x, label=x)), Sample)
    assert_type(TensorDict.from_pydantic(OfPydantic(image=x, label=x)), TensorDict)
    assert_type(Plains(x, x, batch_size=[4]).image, Tensor)
    assert_type(Plains(x, x, batch_size=[4])[0], Plains)
    assert_type(Plains.from_dataclass(Plain(x, x)), Plains)
    assert_type(from_dataclass(Sample), type[Sample])
    assert_type(from_dataclass(Plain(x, x), dest_cls=Sample, batch_size=[4]), Sample)
    assert_type(from_attrs(OfAttrs(x, x), dest_cls=Sample), Sample)
    assert_type(from_pydantic(OfPydantic(image=x, label=x), dest_cls=Sample), Sample)


def classes(x: Tensor) -> None:
    assert_type(from_dataclass(Plain)(x, x, batch_size=[4]).batch_size, Size)
    assert_type(from_dataclass(Plain, frozen=True)(x, x).to_dataclass(Plain), Plain)
    assert_type(from_dataclass(Plain(x, x)).to_tensordict(), TensorDict)
    assert_type(from_dataclass(Plain(x, x)).image, Any)
    assert_type(from_dataclass(Plain).of(x), Any)
    assert_type(from_attrs(OfAttrs)(x, x, batch_size=[4])[0].to_attrs(OfAttrs), OfAttrs)
    assert_type(from_pydantic(OfPydantic)(image=x, label=x, batch_size=[4])[0].label, Any)


def arrays() -> None:
    rows = np.array([(1, True), (2, False)], dtype=[("seen", "i8"), ("kept", "?")])
    assert_type(Flags.from_struct_array(rows), Flags)
    assert_type(Flags.from_any(rows), Flags)
    assert_type(TensorDict.from_struct_array(rows), TensorDict)


def tables(table: object) -> None:
    assert_type(Flags.from_pandas(table), Flags)
    assert_type(Flags.from_arrow(table), Flags)
    assert_type(TensorDict.from_pandas(table), TensorDict)


def out(batch: Sample, flags: Flags, scene: Scene) -> None:
    assert_type(batch.to_dict(), dict[str, Any])
    assert_type(scene.to_dict(retain_none=False), dict[str, Any])
    assert_type(batch.numpy(), dict[str, Any])
    assert_type(batch.to_tensordict(), TensorDict)
    assert_type(batch.to_dataclass(Plain), Plain)
    assert_type(batch.to_attrs(OfAttrs), OfAttrs)
    assert_type(batch.to_pydantic(OfPydantic), OfPydantic)
    assert_type(flags.to_namedtuple(Named), Named)
    assert_type(batch.to_dataclass(Plain).image, Tensor)


def from_schemas(box: Box) -> None:
    assert_type(TensorDict.from_schema({"a": ([3], box.low.dtype)}, batch_size=[4]), TensorDict)
