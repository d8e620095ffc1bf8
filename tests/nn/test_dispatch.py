"""dispatch: a method on collections is called with tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import TensorDictModuleBase, dispatch, set_skip_existing


class Record(TensorClass):
    a: Tensor
    b: Tensor | None = None


class Step(TensorDictModuleBase):
    in_keys = ["a", ("n", "b")]
    out_keys = ["c", ("m", "d")]

    @dispatch
    def forward(self, tensordict: Any, scale: int = 1) -> Any:
        self.size = tensordict.batch_size
        return tensordict.update({"c": tensordict["a"] * scale, ("m", "d"): tensordict["n", "b"]})


def test_values_come_by_position_and_by_keyword() -> None:
    module, a, b = Step(), torch.ones(2, 3), torch.zeros(2)
    for c, d in (module(a, b), module(a=a, n_b=b), module(a, n_b=b)):
        assert (c.shape, d.shape) == ((2, 3), (2,))
    assert module.size == (2,)
    assert module(a, b, 5)[0].sum() == 30
    assert module(a, b, scale=5)[0].sum() == 30


def test_a_collection_goes_through() -> None:
    data = TensorDict(a=1, n={"b": 1})
    assert Step()(data) is data
    assert Step()(tensordict=data) is data


def test_a_record_goes_through() -> None:
    class Copy(TensorDictModuleBase):
        in_keys = ["a"]
        out_keys = ["b"]

        @dispatch()
        def forward(self, record: Any) -> Any:
            return record.set("b", record.a)

    record = Record(a=torch.ones(2), batch_size=[2])
    assert Copy()(record) is record


def test_the_separator_the_keys_and_the_batch_size_are_arguments() -> None:
    class Other(nn.Module):
        asks = ["x", ("y", "z")]

        @dispatch(separator=".", source="asks", dest=["w", "_"], auto_batch_size=False)
        def forward(self, tensordict: Any) -> Any:
            return tensordict.set("w", tensordict["x"] + tensordict["y", "z"] + tensordict.ndim)

    assert Other()(x=torch.ones(2), **{"y.z": torch.ones(2)}).tolist() == [2, 2]


def test_wrong_arguments_are_refused() -> None:
    one = torch.tensor(1)
    with pytest.raises(RuntimeError, match="'a' is given by position and by keyword"):
        Step()(one, one, a=one)
    with pytest.raises(TypeError):
        Step()(one, one, 1, 1)
    with pytest.raises(KeyError):
        Step()(one)


def test_a_function_can_be_dispatched() -> None:
    function: Any = dispatch(source=["a"], dest=["b"])(lambda data: data.set("b", -data["a"]))
    assert function(torch.tensor(1)).item() == -1


def test_a_method_can_be_skipped() -> None:
    class Skipped(TensorDictModuleBase):
        in_keys = ["a"]
        out_keys = ["b"]
        runs = 0

        @dispatch
        @set_skip_existing(None)
        def forward(self, tensordict: Any) -> Any:
            self.runs += 1
            return tensordict.set("b", tensordict["a"])

    module = Skipped()
    with set_skip_existing(True):
        assert module(TensorDict(a=1, b=2))["b"].item() == 2
        assert module.runs == 0
        assert module(torch.tensor(3)).item() == 3
    module(TensorDict(a=1, b=2))
    assert module.runs == 2


def test_a_block_needs_a_mode() -> None:
    with pytest.raises(RuntimeError, match="is a decorator"), set_skip_existing(None):
        pass
    with pytest.raises(TypeError, match="expected True, False, None or a list of keys"):
        set_skip_existing(3)  # type: ignore[arg-type]
