"""TensorDictModule: what it reads, calls and writes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    dispatch,
    set_skip_existing,
    skip_existing,
)


class Sample(TensorClass):
    a: Tensor
    b: Tensor | None = None
    c: Tensor | None = None


def both(x: Any) -> tuple[Any, Any]:
    return x + 1, x * 2


def data(**more: Any) -> TensorDict:
    return TensorDict(a=torch.ones(2, 3), batch_size=[2]).update(more)


def test_it_reads_and_writes_by_key_and_gives_the_collection_back() -> None:
    module = TensorDictModule(nn.Linear(3, 4), "a", "b")
    source = data()
    assert module(source) is source
    torch.testing.assert_close(source["b"], module.module(source["a"]))


def test_a_record_comes_back_as_the_record_that_it_is() -> None:
    sample = Sample(a=torch.ones(2, 3), batch_size=[2])
    result = TensorDictModule(both, ["a"], ["b", "c"])(sample)
    assert result is sample
    assert sample.c is not None
    assert sample.c.tolist() == [[2.0] * 3] * 2


def test_a_key_that_is_no_field_leaves_the_record_as_it_was() -> None:
    sample = Sample(a=torch.ones(2, 3), batch_size=[2])
    with pytest.raises(AttributeError, match="no field 'other'"):
        TensorDictModule(both, ["a"], ["b", "other"])(sample)
    assert sample.b is None


def test_nested_keys_are_read_and_written() -> None:
    module = TensorDictModule(both, [("n", ("a",))], [("n", "b"), ("m", "k", "c")])
    assert list(module.in_keys) == [("n", "a")]
    result = module(TensorDict(n={"a": 1}))
    assert (result["n", "b"].item(), result["m", "k", "c"].item()) == (2, 2)


@pytest.mark.parametrize("way", [True, None, False])
def test_a_dict_of_in_keys_gives_arguments_by_keyword(way: bool | None) -> None:
    keys: dict[Any, Any] = {"x": "a", "y": ("n", "b")}
    if way is False:
        keys = {key: argument for argument, key in keys.items()}
    module = TensorDictModule(lambda *, y, x: x - y, keys, ["c"], out_to_in_map=way)
    assert list(module.in_keys) == ["a", ("n", "b")]
    assert module(TensorDict(a=5, n={"b": 3}))["c"].item() == 2
    assert module(torch.tensor(5), n_b=torch.tensor(1)).item() == 4


def test_a_method_is_called_with_its_arguments() -> None:
    class Text:
        def times(self, x: Tensor, factor: int = 1) -> Tensor:
            return x * factor

    module = TensorDictModule(Text(), "a", "b", method="times", method_kwargs={"factor": 3})  # type: ignore[arg-type]
    assert module(TensorDict(a=2))["b"].item() == 6
    assert module(TensorDict(a=2), factor=5)["b"].item() == 10


def test_a_discarded_result_is_not_written() -> None:
    module = TensorDictModule(both, ["a"], ["_", "c"])
    assert sorted(module(TensorDict(a=1)).keys()) == ["a", "c"]
    assert module(torch.tensor(1)).item() == 2


def test_a_mapping_gives_its_values_by_key() -> None:
    module = TensorDictModule(lambda x: {"c": x, "b": x + 1, "d": 0}, ["a"], ["b", "c"])
    assert module(TensorDict(a=1)).to_dict() == {"a": 1, "b": 2, "c": 1}


def test_missing_keys_are_all_named_with_those_that_are_there() -> None:
    source = TensorDict(p=1, q={"r": 2})
    module = TensorDictModule(torch.add, ["a", ("q", "s")], "b")
    with pytest.raises(
        KeyError,
        match=r"TensorDictModule\(\w+\): the in_keys \['a', \('q', 's'\)\] are missing; .* \['p', \('q', 'r'\)\]",
    ):
        module(source)
    assert list(source.keys(True, True)) == ["p", ("q", "r")]


def test_strict_does_not_call_the_module_where_a_key_is_missing() -> None:
    called: list[object] = []
    with pytest.raises(KeyError, match=r"\['b'\] are missing"):
        TensorDictModule(lambda a, b: called.append(a), ["a", "b"], [], strict=True)(TensorDict(a=1))
    assert not called


def test_an_optional_argument_may_be_missing() -> None:
    module = TensorDictModule(lambda a, b=None: a if b is None else a + b, ["a", "b"], "c")
    assert module(TensorDict(a=1))["c"].item() == 1
    assert module(torch.tensor(1), torch.tensor(2)).item() == 3


@pytest.mark.parametrize("given", [(1, 2, 3), (1,), None, {"b": 1}], ids=["three", "one", "none", "other keys"])
def test_a_wrong_number_of_results_changes_nothing(given: Any) -> None:
    source = TensorDict(a=1)
    with pytest.raises(RuntimeError, match=r"expected 2 results, for the out_keys \['b', 'c'\], got"):
        TensorDictModule(lambda x: given, ["a"], ["b", "c"])(source)
    assert list(source.keys()) == ["a"]


def test_a_result_that_does_not_fit_changes_nothing() -> None:
    source = TensorDict(a=torch.ones(2), n={"x": torch.ones(2)}, batch_size=[2])
    before = source.clone()
    module = TensorDictModule(lambda x: (x, x, x.sum()), ["a"], [("n", "x"), ("n", "y"), "c"])
    with pytest.raises(RuntimeError, match="expected batch dimensions"):
        module(source)
    assert (source == before).all()
    assert sorted(source.keys(True, True), key=str) == sorted(before.keys(True, True), key=str)


def test_keys_below_a_leaf_change_nothing() -> None:
    source = TensorDict(a=1)
    with pytest.raises(KeyError, match="b is a leaf"):
        TensorDictModule(both, ["a"], ["b", ("b", "c")])(source)
    assert list(source.keys()) == ["a"]


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        ((3, "a", "b"), {}, "expected a function or a module, got 3"),
        ((nn.Linear, "a", "b"), {}, "make an object of the class"),
        ((both, [None], "b"), {}, "in_keys: a key is a string"),
        ((both, "a", 7), {}, "out_keys: expected a key"),
        ((both, "a", ["b", "b"]), {}, "two results have the same key"),
        ((both, "a", "b"), {"inplace": "full"}, "inplace is True, False or 'empty'"),
        ((both, "a", "b"), {"out_to_in_map": True}, "out_to_in_map"),
        ((both, {"x": 1}, "b"), {}, "in_keys: a key is a string"),
        ((both, {("n", "x"): "a"}, "b"), {}, "names of arguments"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TensorDictModule(*arguments, **options)


def test_a_method_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        TensorDictModule(nn.Linear(1, 1), "a", "b", method="nothing")


@pytest.mark.parametrize(
    "inplace, keys, size", [(True, ["a", "b"], [2]), ("empty", ["b"], [2]), (False, ["b"], []), (None, ["b"], [])]
)
def test_inplace_says_where_it_writes(inplace: Any, keys: list[str], size: list[int]) -> None:
    source = data()
    result = TensorDictModule(torch.exp, "a", "b", inplace=inplace)(source)
    assert (result is source) is (inplace is True)
    assert sorted(result.keys()) == keys
    assert list(result.batch_size) == size


@pytest.mark.parametrize("inplace", ["empty", False])
def test_a_record_that_is_not_written_to_gives_another_record(inplace: Any) -> None:
    sample = Sample(a=torch.ones(2, 3), batch_size=[2])
    result = TensorDictModule(torch.exp, "a", "b", inplace=inplace)(sample)
    assert type(result) is Sample
    assert sample.b is None
    assert result.b is not None
    assert result.batch_size == sample.batch_size


def test_the_results_go_to_another_collection() -> None:
    source, out = data(), TensorDict(k=1)
    assert TensorDictModule(torch.exp, "a", "b")(source, tensordict_out=out) is out
    assert sorted(out.keys()) == ["b", "k"]
    assert list(source.keys()) == ["a"]


def test_tensors_come_by_position_and_by_keyword() -> None:
    module = TensorDictModule(lambda x, y, scale=1: (x + y) * scale, ["a", ("n", "b")], "c")
    one, two = torch.tensor(1), torch.tensor(2)
    assert [module(one, two).item(), module(one, n_b=two).item(), module(a=one, n_b=two).item()] == [3, 3, 3]
    assert module(one, two, scale=2).item() == 6
    assert module(1, 2).item() == 3
    with pytest.raises(ValueError, match="at most 2 positional arguments"):
        module(one, two, two)
    with pytest.raises(RuntimeError, match="'a' is given by position and by keyword"):
        module(one, a=one)
    with pytest.raises(KeyError, match=r"\[\('n', 'b'\)\] are missing"):
        module(one)


def test_selected_keys_are_written_alone_and_others_stay() -> None:
    module = TensorDictModule(lambda x: (x, x * 2, x * 3), ["a"], ["b", "c", "d"])
    assert module.select_out_keys("c") is module
    assert (list(module.out_keys), list(module.out_keys_source)) == (["c"], ["b", "c", "d"])
    assert module(TensorDict(a=1, b=7)).to_dict() == {"a": 1, "b": 7, "c": 2}
    assert module(torch.tensor(1)).item() == 2
    with pytest.raises(ValueError, match=r"no \['d'\] among the out_keys \['c'\], selected of"):
        module.select_out_keys("d")
    assert module.reset_out_keys() is module
    assert module(TensorDict(a=1)).to_dict() == {"a": 1, "b": 1, "c": 2, "d": 3}


def test_selecting_works_for_a_forward_of_the_users() -> None:
    class Two(TensorDictModuleBase):
        in_keys = ["a"]
        out_keys = ["b", ("n", "c")]

        @dispatch
        def forward(self, tensordict: Any) -> Any:
            return tensordict.update({"b": tensordict["a"] + 1, ("n", "c"): tensordict["a"]})

    module = Two()
    assert module.select_out_keys("b")(TensorDict(a=1)).to_dict() == {"a": 1, "b": 2}
    assert module(torch.tensor(1)).item() == 2
    assert Two().out_keys == ["b", ("n", "c")]
    assert module.reset_out_keys()(TensorDict(a=1)).to_dict() == {"a": 1, "b": 2, "n": {"c": 1}}


def test_keys_can_be_set() -> None:
    module = TensorDictModule(both, ["a"], ["b", "c"])
    module.select_out_keys("c")
    module.in_keys, module.out_keys = ["x"], ["y", "z"]
    assert module(TensorDict(x=1)).to_dict() == {"x": 1, "y": 2, "z": 2}
    assert list(module.out_keys_source) == ["y", "z"]


def test_attributes_of_the_module_are_its_own() -> None:
    module = TensorDictModule(nn.Linear(3, 4), "a", "b")
    assert (module.in_features, module.weight.shape) == (3, (4, 3))
    assert list(module.state_dict()) == ["module.weight", "module.bias"]
    assert module.device == torch.device("cpu")
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing


def test_hooks_see_the_collection() -> None:
    seen: list[object] = []
    module = TensorDictModule(nn.Identity(), "a", "b")
    module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    module.register_forward_hook(lambda _, args, result: seen.append(result))
    source = data()
    module(source)
    assert len(seen) == 2
    assert all(item is source for item in seen)
    module.module.register_forward_hook(lambda _, args, result: result * 0)
    assert module(data())["b"].sum() == 0


def test_modules_are_skipped_whose_results_are_there() -> None:
    module = TensorDictModule(both, ["a"], ["b", "c"])
    with set_skip_existing(True):
        assert skip_existing() is True
        assert module(TensorDict(a=1, b=7, c=8)).to_dict() == {"a": 1, "b": 7, "c": 8}
        assert module(TensorDict(a=1, b=7)).to_dict() == {"a": 1, "b": 2, "c": 2}
        with set_skip_existing(False):
            assert module(TensorDict(a=1, b=7, c=8)).to_dict() == {"a": 1, "b": 2, "c": 2}
    with set_skip_existing(["b"]):
        assert module(TensorDict(a=1, b=7, c=8))["b"].item() == 2
    with set_skip_existing(["b", "c"]):
        assert module(TensorDict(a=1, b=7, c=8))["b"].item() == 7
    assert skip_existing() is False


def test_parameters_are_reset() -> None:
    module = TensorDictModule(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), "a", "b")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert module.reset_parameters_recursive() is None
    assert all((value != before[name]).any() for name, value in module.state_dict().items())


def test_given_parameters_are_reset_without_those_of_the_module() -> None:
    module = TensorDictModule(nn.Linear(2, 3), "a", "b")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    given = TensorDict.from_module(module).detach().clone()
    kept = given.clone()
    fresh = module.reset_parameters_recursive(given)
    assert fresh is not None
    assert (fresh != given).any()
    assert (given == kept).all()
    assert all((value == before[name]).all() for name, value in module.state_dict().items())
    assert fresh["module", "weight"].requires_grad
    with pytest.raises(RuntimeError, match="without batch dimensions"):
        module.reset_parameters_recursive(torch.stack([given, given]))


def test_a_tuple_is_one_nested_key_and_a_list_several() -> None:
    assert TensorDictModule(torch.neg, (("n", "x"), "a"), "b").in_keys == [("n", "x", "a")]
    assert TensorDictModule(torch.add, [("n", "x"), "a"], "b").in_keys == [("n", "x"), "a"]


def test_in_the_body_of_a_class_a_tuple_is_several_keys() -> None:
    class Two(TensorDictModuleBase):
        in_keys = ("a", "b")
        out_keys = ("c",)

    assert (Two().in_keys, Two().out_keys) == (["a", "b"], ["c"])


def test_results_of_a_call_with_tensors_come_in_the_order_of_the_selected_keys() -> None:
    module = TensorDictModule(both, "a", ["b", "c"]).select_out_keys("c", "b")
    c, b = module(torch.ones(2))
    assert (b.tolist(), c.tolist()) == ([2, 2], [2, 2])
    c, b = module(torch.zeros(2))
    assert (b.tolist(), c.tolist()) == ([1, 1], [0, 0])


def test_keys_that_are_a_property_of_the_class_cannot_be_selected() -> None:
    class Own(TensorDictModuleBase):
        in_keys = ["a"]

        @property
        def out_keys(self) -> list[str]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
            return ["b", "c"]

        def forward(self, data: TensorDict) -> TensorDict:
            return data.set("b", data["a"]).set("c", data["a"])

    module = Own()
    with pytest.raises(RuntimeError, match="its out_keys are a property of the class"):
        module.select_out_keys("b")
    assert sorted(module(data()).keys()) == ["a", "b", "c"]


def test_a_module_without_keys_can_be_printed() -> None:
    assert repr(TensorDictModuleBase()) == "TensorDictModuleBase()"


def test_the_arguments_of_a_call_go_before_those_of_the_module() -> None:
    module = TensorDictModule(torch.add, ["a", "a"], "b", method_kwargs={"alpha": 3})
    assert module(TensorDict(a=1.0))["b"] == 4
    assert module(TensorDict(a=1.0), alpha=5)["b"] == 6


class Inner(TensorClass):
    x: Tensor
    y: Tensor | None = None


class Outer(TensorClass):
    inner: Inner
    z: Tensor | None = None


@pytest.mark.parametrize("inplace", [False, "empty"])
@pytest.mark.parametrize("in_sequence", [False, True])
def test_what_is_written_into_a_nested_record_comes_in_one(inplace: Any, in_sequence: bool) -> None:
    make: Any = TensorDictModule
    module = make(torch.neg, ("inner", "x"), ("inner", "y"), inplace=inplace)
    if in_sequence:
        module = TensorDictSequential(TensorDictModule(torch.neg, ("inner", "x"), ("inner", "y")), inplace=inplace)
    inner = Inner(x=torch.ones(2, 3), batch_size=[2])
    for source in (Outer(inner=inner, batch_size=[2]), TensorDict(inner=inner, batch_size=[2])):
        result = module(source)
        assert type(result) is type(source)
        found = result.get("inner")
        assert type(found) is Inner
        assert found.batch_size == (2,)
        assert torch.equal(found.y, -torch.ones(2, 3))  # type: ignore[arg-type]
    assert inner.y is None


def test_parameters_with_buffers_are_reset() -> None:
    module = TensorDictModule(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), "a", "b")
    fresh = module.reset_parameters_recursive(TensorDict.from_module(module))
    assert fresh is not None
    leaves = {key: leaf.requires_grad for key, leaf in fresh.flatten_keys(".").items()}
    assert {key for key, trained in leaves.items() if trained} == {name for name, _ in module.named_parameters()}
    assert not torch.equal(fresh["module", "0", "weight"], module.module[0].weight)  # type: ignore[index]
