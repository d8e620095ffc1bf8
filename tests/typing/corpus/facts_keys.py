"""Functions on each value, and what chooses and writes values by their keys."""

from collections.abc import Mapping
from typing import Any

import torch
from records import Box, Described, Sample, Scene
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorDict


def double(value: Tensor) -> Tensor:
    return value * 2


def named(key: str, value: Tensor) -> Tensor:
    return value + len(key)


def applied(batch: Sample, box: Box, scene: Scene) -> None:
    assert_type(batch.apply(double), Sample)
    assert_type(batch.apply(torch.zeros_like), Sample)
    assert_type(batch.apply(lambda value: value + 1), Sample)
    assert_type(batch.apply(torch.add, batch), Sample)
    assert_type(batch.apply(lambda one, other: one + other, batch), Sample)
    assert_type(batch.apply(lambda value: value.sum(1), batch_size=[4]), Sample)
    assert_type(batch.apply_(double), Sample)
    assert_type(batch.named_apply(named), Sample)
    assert_type(batch.named_apply(lambda key, value: value + len(key)), Sample)
    assert_type(box.apply(double), Box)
    assert_type(scene.apply(double), Scene)


def updated(batch: Sample, described: Described, x: Tensor) -> None:
    assert_type(batch.update({"label": x}), Sample)
    assert_type(batch.update(batch), Sample)
    assert_type(batch.update(label=x), Sample)
    assert_type(batch.update({"label": x}, inplace=True), Sample)
    assert_type(batch.update_({"label": x}), Sample)
    assert_type(batch.update_(batch), Sample)
    assert_type(batch.update_at_(batch[0], 1), Sample)
    assert_type(batch.copy_(batch), Sample)
    assert_type(described.update(caption="a"), Described)


def chosen(batch: Sample, described: Described) -> None:
    assert_type(batch.select("image"), Sample)
    assert_type(batch.exclude("label"), Sample)
    assert_type(batch.split_keys(["image"]), tuple[Sample, ...])
    assert_type(batch.copy(), Sample)
    assert_type(batch.empty(), Sample)
    assert_type(batch.replace(label=batch.label), Sample)
    assert_type(batch.rename_key_("image", "label"), Sample)
    assert_type(described.del_("weight"), Described)


def walked(batch: Sample) -> None:
    for key in batch.keys():
        assert_type(key, Any)
    assert_type(batch.pop("label"), Any)
    assert_type(batch.get_at("image", 0), Any)
    assert_type(batch.is_non_tensor("source"), bool)


def untyped(batch: Sample, scene: Scene) -> None:
    assert_type(batch.to_tensordict(), TensorDict)
    assert_type(scene.flatten_keys(), TensorDict)
    assert_type(scene.flatten_keys("_"), TensorDict)
    assert_type(scene.unflatten_keys("_"), TensorDict)
    assert_type(batch.to_tensordict()[0], TensorDict)


def states(batch: Sample, described: Described, state: Mapping[str, Any]) -> None:
    assert_type(batch.state_dict(), dict[str, Any])
    assert_type(batch.state_dict(prefix="a."), dict[str, Any])
    assert_type(batch.load_state_dict(batch.state_dict()), Sample)
    assert_type(batch.load_state_dict(state, strict=False), Sample)
    assert_type(described.load_state_dict(described.state_dict()), Described)
    assert_type(batch.load_state_dict(batch.state_dict()).image, Tensor)


def of_dicts(data: TensorDict) -> None:
    assert_type(data[0], TensorDict)
    assert_type(data.reshape(-1), TensorDict)
    assert_type(data + 1, TensorDict)
    assert_type(data["a"], Any)
    assert_type(data.flatten_keys("."), TensorDict)
    assert_type(data.unflatten_keys("."), TensorDict)
    assert_type(data.update({"b": data["a"]}), TensorDict)
    assert_type(data.batch_size, torch.Size)
    assert_type(TensorDict({"a": 1}), TensorDict)
    assert_type(TensorDict({"a": 1}, batch_size=[]), TensorDict)
