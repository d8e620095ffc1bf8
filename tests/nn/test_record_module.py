"""Modules from record to record: alone, in typed pipelines, on collections."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import Stage, TensorClass, TensorDict
from tensorclass.nn import TensorClassModuleBase, TensorClassModuleWrapper, TensorDictModule, TensorDictSequential


class Text(TensorClass):
    x: Tensor


class Scores(TensorClass):
    y: Tensor


class Nested(TensorClass):
    text: Text
    k: Tensor | None = None


class Net(TensorClassModuleBase[Text, Scores]):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Text, /) -> Scores:
        return Scores(y=self.linear(x.x), batch_size=x.batch_size)


class Same(TensorClassModuleBase[Nested, Nested]):
    def forward(self, x: Nested, /) -> Nested:
        return x.clone()


def text() -> Text:
    return Text(x=torch.ones(2, 3), batch_size=[2])


def test_it_goes_from_record_to_record() -> None:
    scores = Net()(text())
    assert type(scores) is Scores
    assert (Net().input_type, Net().output_type) == (Text, Scores)


def test_it_is_a_stage_of_pipelines() -> None:
    @Stage
    def best(scores: Scores) -> Scores:
        return Scores(scores.y.max(-1).values, batch_size=scores.batch_size)

    @Stage
    def twice(given: Text) -> Text:
        return given + given

    net = Net()
    for pipeline in (twice >> net >> best, twice >> (net >> best)):
        assert isinstance(pipeline, Stage)
        assert pipeline.output_type is Scores
        assert pipeline(text()).y.shape == (2,)
    with pytest.raises(TypeError, match="Net gives Scores, twice takes Text"):
        net >> twice


def test_a_module_on_collections_is_a_stage_where_its_types_are_said() -> None:
    module = TensorDictModule(torch.neg, "x", "x")
    pipeline = Stage[Text, Text](module) >> Net()
    assert type(pipeline(text())) is Scores
    with pytest.raises(TypeError, match="TensorDictModule: does not say what it takes and gives"):
        Stage(module) >> Net()


def test_on_collections_its_keys_are_the_fields() -> None:
    module = Net().as_td_module()
    assert isinstance(module, TensorClassModuleWrapper)
    assert (module.in_keys, module.out_keys) == (["x"], ["y"])
    assert list(module.state_dict()) == ["tc_module.linear.weight", "tc_module.linear.bias"]
    data = TensorDict(x=torch.ones(2, 3), z=torch.ones(2), batch_size=[2])
    result = module(data)
    assert type(result) is TensorDict
    assert (list(result.keys()), result.batch_size) == (["y"], (2,))
    assert sorted(data.keys()) == ["x", "z"]
    assert type(module(text())) is Scores
    assert module(torch.ones(2, 3)).shape == module(x=torch.ones(2, 3)).shape == (2, 4)


def test_nested_records_have_nested_keys() -> None:
    module = Same().as_td_module()
    assert module.in_keys == module.out_keys == [("text", "x"), "k"]
    result = module(TensorDict(text={"x": 1}))
    assert result.to_dict() == {"text": {"x": 1}}
    assert type(result["text"]) is TensorDict


def test_missing_fields_are_named() -> None:
    with pytest.raises(KeyError, match=r"Net: the in_keys \['x'\] are missing; the keys that are there: \['z'\]"):
        Net().as_td_module()(TensorDict(z=1))
    with pytest.raises(KeyError, match=r"\[\('text', 'x'\)\]"):
        Same().as_td_module()(TensorDict(text={"z": 1}))


def test_it_stands_in_a_sequence() -> None:
    sequence = TensorDictSequential(Net().as_td_module(), TensorDictModule(torch.exp, "y", "z"))
    assert sequence.in_keys == ["x"]
    assert sorted(sequence(TensorDict(x=torch.ones(3))).keys()) == ["y", "z"]


def test_the_types_can_be_those_of_forward() -> None:
    class Bare(TensorClassModuleBase):  # type: ignore[type-arg]
        def forward(self, x: Text, /) -> Scores:
            return Scores(y=x.x, batch_size=x.batch_size)

    assert Bare().as_td_module().in_keys == ["x"]


def test_types_that_are_no_records_are_refused() -> None:
    class Tensors(TensorClassModuleBase[Text, Tensor]):
        def forward(self, x: Text, /) -> Tensor:
            return x.x

    class Untold(TensorClassModuleBase):  # type: ignore[type-arg]
        def forward(self, x, /):  # type: ignore[no-untyped-def]
            return x

    assert Tensors()(text()).shape == (2, 3)
    with pytest.raises(ValueError, match="it gives"):
        Tensors().as_td_module()
    with pytest.raises(ValueError, match="does not say what it takes and gives"):
        Untold().as_td_module()


def test_the_base_cannot_be_made() -> None:
    base: Any = TensorClassModuleBase
    with pytest.raises(TypeError, match="abstract"):
        base()
