"""TensorDictSequential: the order of modules, what they need together, and parts of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict
from tensorclass.nn import TensorDictModule, TensorDictSequential, set_skip_existing


class Sample(TensorClass):
    a: Tensor
    z: Tensor
    b: Tensor | None = None
    c: Tensor | None = None
    d: Tensor | None = None


def steps() -> list[TensorDictModule]:
    return [
        TensorDictModule(lambda a: a + 1, "a", "b"),
        TensorDictModule(lambda b: b * 2, "b", "c"),
        TensorDictModule(torch.add, ["c", "z"], "d"),
    ]


def keys(modules: Any) -> list[str]:
    return [module.out_keys[0] for module in modules]


def test_the_keys_are_what_the_modules_need_and_write_together() -> None:
    sequence = TensorDictSequential(*steps())
    assert (sequence.in_keys, sequence.out_keys) == (["a", "z"], ["b", "c", "d"])


def test_what_lies_in_a_value_that_was_written_is_not_needed() -> None:
    first = TensorDictModule(lambda a: TensorDict(x=a), "a", "n")
    second = TensorDictModule(torch.exp, ("n", "x"), "y")
    assert TensorDictSequential(first, second).in_keys == ["a"]


def test_a_key_that_is_written_twice_is_an_out_key_once() -> None:
    modules = [TensorDictModule(torch.exp, key, out) for key, out in [("a", "b"), ("b", "c"), ("c", "b")]]
    assert TensorDictSequential(*modules).out_keys == ["c", "b"]


@pytest.mark.parametrize("make", [lambda m: TensorDictSequential(*m), TensorDictSequential])
def test_a_collection_runs_through_and_comes_back(make: Any) -> None:
    data = TensorDict(a=1, z=2)
    assert make(steps())(data) is data
    assert data.to_dict() == {"a": 1, "b": 2, "c": 4, "d": 6, "z": 2}


def test_a_record_runs_through_and_comes_back() -> None:
    sample = Sample(a=torch.ones(3), z=torch.ones(3), batch_size=[3])
    assert TensorDictSequential(*steps())(sample) is sample
    assert sample.d is not None
    assert sample.d.tolist() == [5, 5, 5]


def test_tensors_come_by_position_and_by_keyword() -> None:
    sequence = TensorDictSequential(*steps())
    one, two = torch.tensor(1), torch.tensor(2)
    assert [value.item() for value in sequence(one, two)] == [2, 4, 6]
    assert [value.item() for value in sequence(one, z=two)] == [2, 4, 6]
    assert sequence.select_out_keys("d")(z=two, a=one).item() == 6


def test_a_dict_gives_names_to_the_modules() -> None:
    first, second, _ = steps()
    sequence = TensorDictSequential({"up": first, "twice": second})
    assert sequence["up"] is first
    assert sequence[1] is second
    assert [name for name, _ in sequence.named_modules()] == ["", "module", "module.up", "module.twice"]
    assert keys(sequence[:1]) == ["b"]
    with pytest.raises(KeyError, match="no module 'down'"):
        sequence["down"]


def test_parts_of_it_are_sequences() -> None:
    sequence = TensorDictSequential(*steps())
    assert len(sequence) == 3
    assert keys(sequence) == ["b", "c", "d"]
    assert keys(sequence[1:]) == ["c", "d"]
    assert sequence[1:].in_keys == ["b", "z"]
    assert sequence[-1] is sequence[2]
    with pytest.raises(IndexError, match="no module 3, there are 3"):
        sequence[3]


def test_it_can_be_changed_and_knows_its_keys() -> None:
    first, second, third = steps()
    sequence = TensorDictSequential(second).append(third).insert(0, first)
    assert sequence.in_keys == ["a", "z"]
    del sequence[0]
    assert sequence.in_keys == ["b", "z"]
    sequence[0] = TensorDictModule(torch.exp, "q", "c")
    assert (sequence.in_keys, sequence.out_keys) == (["q", "z"], ["c", "d"])


def test_a_function_on_collections_is_a_module() -> None:
    first, second, _ = steps()
    sequence = TensorDictSequential(first, lambda data: data.set("b", data["b"] * 10), second)
    assert sequence(TensorDict(a=1))["c"].item() == 40
    assert sequence.in_keys == ["a"]


@pytest.mark.parametrize(
    "modules, error",
    [([3], "expected a function or a module"), ([lambda data: None], "returned None; each module of a sequence must")],
    ids=["no function", "gives nothing"],
)
def test_what_gives_no_collection_is_an_error(modules: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        TensorDictSequential(*modules)(TensorDict(a=1))


def test_a_call_that_fails_changes_nothing() -> None:
    def fail(value: Tensor) -> Tensor:
        raise ZeroDivisionError

    data = TensorDict(a=1, n={"x": 1}, b=7)
    n = data["n"]
    sequence = TensorDictSequential(
        TensorDictModule(torch.neg, "a", ("n", "y")), steps()[0], TensorDictModule(fail, "b", "e")
    )
    with pytest.raises(ZeroDivisionError):
        sequence(data)
    assert data.to_dict() == {"a": 1, "n": {"x": 1}, "b": 7}
    assert data["n"] is n


def test_all_missing_keys_are_named() -> None:
    data = TensorDict(p=1)
    with pytest.raises(KeyError, match=r"\['a', 'z'\] are missing; the keys that are there: \['p'\]"):
        TensorDictSequential(*steps())(data)
    with pytest.raises(KeyError, match=r"\['z'\] are missing; the keys that are there: \['a'\]"):
        TensorDictSequential(*steps())(torch.tensor(1))


def test_other_arguments_are_refused() -> None:
    sequence = TensorDictSequential(*steps())
    with pytest.raises(RuntimeError, match="the keywords \\['scale'\\]"):
        sequence(TensorDict(a=1, z=2), scale=3)
    with pytest.raises(RuntimeError, match="unknown keywords \\['scale'\\]"):
        sequence(torch.tensor(1), torch.tensor(1), scale=3)


def test_selected_keys_are_written_alone_and_others_stay() -> None:
    sequence = TensorDictSequential(*steps(), selected_out_keys=["d"])
    assert (sequence.out_keys, sequence.out_keys_source) == (["d"], ["b", "c", "d"])
    assert sequence(TensorDict(a=1, z=2, b=9)).to_dict() == {"a": 1, "z": 2, "b": 9, "d": 6}
    assert sequence.reset_out_keys()(TensorDict(a=1, z=2)).to_dict() == {"a": 1, "b": 2, "c": 4, "d": 6, "z": 2}
    with pytest.raises(ValueError, match="no \\['q'\\]"):
        TensorDictSequential(*steps(), selected_out_keys=["q"])


def test_nested_keys_that_were_not_selected_leave_no_empty_collections() -> None:
    modules = [TensorDictModule(torch.neg, "a", ("n", "b")), TensorDictModule(torch.neg, ("n", "b"), "c")]
    assert TensorDictSequential(*modules, selected_out_keys=["c"])(TensorDict(a=1)).to_dict() == {"a": 1, "c": 1}


@pytest.mark.parametrize(
    "in_keys, out_keys, kept",
    [
        (None, None, "bcd"),
        (None, ["c"], "bc"),
        (["a"], None, "bc"),
        (["b", "z"], None, "cd"),
        (["a"], ["c"], "bc"),
        (["a"], ["b"], "b"),
    ],
)
def test_a_subsequence_leads_from_keys_to_keys(in_keys: Any, out_keys: Any, kept: str) -> None:
    assert keys(TensorDictSequential(*steps()).select_subsequence(in_keys, out_keys)) == list(kept)


def test_a_subsequence_goes_into_sequences() -> None:
    first, second, third = steps()
    sequence = TensorDictSequential(TensorDictSequential(first, second), third).select_subsequence(out_keys=["b"])
    assert [keys(part) for part in sequence] == [["b"]]  # type: ignore[arg-type]


def test_a_subsequence_without_modules_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no module leads from the keys \['z'\] to"):
        TensorDictSequential(*steps()).select_subsequence(in_keys=["z"])


def test_a_tolerant_one_leaves_modules_out() -> None:
    sequence = TensorDictSequential(*steps(), partial_tolerant=True)
    assert sequence(TensorDict(a=1)).to_dict() == {"a": 1, "b": 2, "c": 4}
    assert sequence(TensorDict(z=1)).to_dict() == {"z": 1}
    assert sequence[:1].partial_tolerant


def test_a_tolerant_one_looks_at_the_parts_of_a_lazy_stack() -> None:
    parts = [TensorDict(a=1), TensorDict(q=1)]
    TensorDictSequential(*steps(), partial_tolerant=True)(LazyStackedTensorDict.lazy_stack(parts))
    assert [sorted(part.keys()) for part in parts] == [["a", "b", "c"], ["q"]]


def test_a_failed_call_on_a_lazy_stack_changes_nothing() -> None:
    parts = [TensorDict(a=1), TensorDict(a=2)]
    with pytest.raises(KeyError):
        TensorDictSequential(*steps())(LazyStackedTensorDict.lazy_stack(parts))
    assert [list(part.keys()) for part in parts] == [["a"], ["a"]]


@pytest.mark.parametrize("inplace", [False, "empty"])
def test_it_can_write_beside_its_input(inplace: Any) -> None:
    data = TensorDict(a=torch.ones(2), z=torch.ones(2), batch_size=[2])
    result = TensorDictSequential(*steps(), inplace=inplace)(data)
    assert sorted(data.keys()) == ["a", "z"]
    assert sorted(result.keys()) == ["b", "c", "d"]
    assert list(result.batch_size) == ([] if inplace is False else [2])


def test_it_writes_into_its_input_whatever_its_modules_do() -> None:
    modules = [TensorDictModule(torch.neg, "a", "b", inplace=False), TensorDictModule(torch.neg, "b", "c")]
    data = TensorDict(a=1)
    assert TensorDictSequential(*modules, inplace=True)(data) is data
    assert data.to_dict() == {"a": 1, "b": -1, "c": 1}
    assert TensorDictSequential(*modules)(TensorDict(a=1)).to_dict() == {"b": -1, "c": 1}


def test_results_go_to_another_collection() -> None:
    data, out = TensorDict(a=1, z=2), TensorDict(k=1)
    assert TensorDictSequential(*steps(), selected_out_keys=["d"])(data, tensordict_out=out) is out
    assert out.to_dict() == {"k": 1, "d": 6}
    assert data.to_dict() == {"a": 1, "z": 2}


def test_modules_are_skipped_whose_results_are_there() -> None:
    with set_skip_existing(True):
        assert TensorDictSequential(*steps())(TensorDict(a=1, z=2, c=100))["d"].item() == 102


def test_parameters_have_the_names_of_the_positions() -> None:
    inner = TensorDictSequential(TensorDictModule(nn.Linear(1, 2), "a", "b"))
    assert [name for name, _ in TensorDictSequential(inner).named_parameters()] == [
        "module.0.module.0.module.weight",
        "module.0.module.0.module.bias",
    ]


def test_an_empty_one_gives_what_it_gets() -> None:
    data = TensorDict(a=1)
    assert TensorDictSequential()(data) is data


def test_the_other_collection_can_come_by_position() -> None:
    source, out = TensorDict(a=1.0, z=1.0), TensorDict()
    assert TensorDictSequential(*steps())(source, out) is out
    assert sorted(out.keys()) == ["b", "c", "d"]
    assert sorted(source.keys()) == ["a", "z"]


@pytest.mark.parametrize("selected", [("d", "b"), ["d", "b"]])
def test_selected_keys_can_stand_in_a_tuple(selected: Any) -> None:
    assert TensorDictSequential(*steps(), selected_out_keys=selected).out_keys == ["d", "b"]


def test_a_subsequence_leads_to_the_selected_keys() -> None:
    part = TensorDictSequential(*steps(), selected_out_keys=["b"]).select_subsequence()
    assert (part.in_keys, part.out_keys) == (["a"], ["b"])


def test_a_subsequence_takes_a_single_key() -> None:
    named = TensorDictSequential(TensorDictModule(torch.neg, "obs", "hidden"), TensorDictModule(torch.neg, "obs", "q"))
    assert named.select_subsequence(in_keys="obs", out_keys="hidden").out_keys == ["hidden"]


@pytest.mark.parametrize("index", [-1, 0, 2, 9, -9])
def test_a_module_is_inserted_where_a_list_inserts(index: int) -> None:
    sequence = TensorDictSequential(*steps())
    modules = [*sequence]
    added = TensorDictModule(torch.neg, "q", "r")
    modules.insert(index, added)
    assert [*sequence.insert(index, added)] == modules
