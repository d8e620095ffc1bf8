"""Modules give back the class of what they are called with; modules from record to record have types of their own."""

from typing import Any

import torch
from records import Box, Sample
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import Stage, TensorClass, TensorDict
from tensorclass.nn import (
    EnsembleModule,
    TensorClassModuleBase,
    TensorClassModuleWrapper,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    WrapModule,
    as_tensordict_module,
    dispatch,
    set_skip_existing,
    skip_existing,
)


class Bound(TensorClassModuleBase[Sample, Box]):
    def forward(self, x: Sample, /) -> Box:
        corner = x.image.flatten(-2)[..., :3]
        return Box(corner, corner + 1, batch_size=x.batch_size)


class Widen(TensorClassModuleBase[Box, Box]):
    def forward(self, x: Box, /) -> Box:
        return x


class Own(TensorDictModuleBase):
    in_keys = ["label"]
    out_keys = ["image"]

    @dispatch
    def forward(self, tensordict: Sample) -> Sample:
        return tensordict


@Stage
def same(box: Box) -> Box:
    return box


@as_tensordict_module(in_keys=["image"], out_keys=["image"])
def negated(image: Tensor) -> Tensor:
    return -image


def modules(batch: Sample, data: TensorDict) -> None:
    module = TensorDictModule(torch.neg, ["image"], ["image"])
    assert_type(module(batch), Sample)
    assert_type(TensorDictModule(torch.neg, "a", "a")(data), TensorDict)
    assert_type(module(batch, tensordict_out=data), TensorDict)
    assert_type(module.forward(batch), Sample)
    assert_type(module.select_out_keys("image"), TensorDictModule)
    assert_type(module.reset_out_keys()(batch), Sample)
    assert_type(module.device, torch.device)
    assert_type(Stage[Sample, Sample](module)(batch), Sample)
    assert_type(negated(batch), Sample)
    assert_type(negated(data), TensorDict)


def sequences(batch: Sample, data: TensorDict) -> None:
    module = TensorDictModule(torch.neg, "image", "image")
    sequence = TensorDictSequential(module, WrapModule(lambda data: data), [module][0])
    assert_type(sequence(batch), Sample)
    assert_type(sequence(batch, tensordict_out=data), TensorDict)
    assert_type(sequence(data), TensorDict)
    assert_type(sequence(data, tensordict_out=batch), Sample)
    assert_type(TensorDictSequential([module, module])(batch), Sample)
    assert_type(TensorDictSequential({"first": module})(batch), Sample)
    assert_type(sequence[0], TensorDictModuleBase)
    assert_type(sequence[1:], TensorDictSequential)
    assert_type(len(sequence), int)
    assert_type(list(sequence), list[TensorDictModuleBase])
    assert_type(sequence.select_subsequence(out_keys=["image"]), TensorDictSequential)
    assert_type(sequence.append(module), TensorDictSequential)
    with set_skip_existing(True) as skipping:
        assert_type(skipping, set_skip_existing)
        assert_type(skip_existing() is False, bool)


def records(batch: Sample) -> None:
    assert_type(Bound()(batch), Box)
    assert_type(Bound().forward(batch), Box)
    assert_type(Bound().as_td_module(), TensorClassModuleWrapper)
    assert_type(Bound() >> Widen(), Stage[Sample, Box])
    assert_type(Bound() >> same, Stage[Sample, Box])
    assert_type((Bound() >> Widen() >> same)(batch), Box)
    assert_type(same >> Widen(), Stage[Box, Box])
    assert_type(Stage(Bound()), Stage[Sample, Box])


def ensembles(batch: Sample, data: TensorDict) -> None:
    ensemble = EnsembleModule(TensorDictModule(torch.neg, "image", "image"), 2)
    assert_type(ensemble(batch), Sample)
    assert_type(ensemble.forward(batch), Sample)
    assert_type(EnsembleModule(TensorDictModule(torch.neg, "a", "a"), 2)(data), TensorDict)


def own(batch: Sample) -> None:
    assert_type(Own().forward(batch), Sample)
    assert_type(TensorDictModuleBase.is_tdmodule_compatible(Own()), bool)


def general(module: TensorClassModuleBase[Sample, TensorClass], batch: Sample) -> Any:
    return module(batch)


def given(batch: Sample) -> None:
    general(Bound(), batch)
