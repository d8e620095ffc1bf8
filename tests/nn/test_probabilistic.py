"""Probabilistic modules: what they take from a distribution, where they write, log-probabilities, randomness."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch import distributions as d

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import (
    CompositeDistribution,
    InteractionType,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    set_composite_lp_aggregate,
    set_interaction_type,
    set_skip_existing,
)

MAP = {"a": d.Normal, ("b", "c"): d.Categorical}


def normal(**kwargs: Any) -> ProbabilisticTensorDictModule:
    return ProbabilisticTensorDictModule(
        **{"in_keys": ["loc", "scale"], "out_keys": ["x"], "distribution_class": d.Normal, **kwargs}
    )


def data(**more: Any) -> TensorDict:
    return TensorDict(loc=torch.arange(3.0), scale=torch.ones(3), batch_size=[3], **more)


def nested() -> TensorDict:
    return TensorDict(
        {
            ("params", "a", "loc"): torch.zeros(3, 2),
            ("params", "a", "scale"): torch.ones(3, 2),
            ("params", "b", "c", "logits"): torch.zeros(3, 2, 4),
        },
        [3],
    )


def composite(**kwargs: Any) -> ProbabilisticTensorDictModule:
    given = {"distribution_map": MAP, **kwargs.pop("distribution_kwargs", {})}
    return ProbabilisticTensorDictModule(
        ["params"], distribution_class=CompositeDistribution, distribution_kwargs=given, **kwargs
    )


# -- what is taken


class Silent(d.Normal):
    """No formulas at all."""

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError


class Known(d.Normal):
    deterministic_sample = torch.full((3,), 7.0)
    median = torch.full((3,), 8.0)


@pytest.mark.parametrize("kind", ["mode", "mean", "median", "deterministic"])
def test_a_statistic_is_taken(kind: str) -> None:
    given = data()
    found = normal(default_interaction_type=kind)(given)
    assert found is given
    torch.testing.assert_close(found["x"], torch.arange(3.0))
    with set_interaction_type(kind):
        torch.testing.assert_close(normal(default_interaction_type="random")(data())["x"], torch.arange(3.0))


def test_a_sample_is_taken() -> None:
    torch.manual_seed(0)
    found = normal(default_interaction_type="random")(data())["x"]
    torch.manual_seed(0)
    assert torch.equal(found, d.Normal(torch.arange(3.0), 1.0).rsample())
    with set_interaction_type(InteractionType.RANDOM):
        assert not torch.equal(normal()(data())["x"], torch.arange(3.0))


def test_gradients_flow_through_samples_that_can_be_reparametrized() -> None:
    given = data()
    given["loc"].requires_grad_()
    assert normal(default_interaction_type="random")(given)["x"].requires_grad
    one = TensorDict({("p", "a", "loc"): torch.zeros(3, requires_grad=True), ("p", "a", "scale"): torch.ones(3)}, [3])
    module = ProbabilisticTensorDictModule(
        {"params": "p"},
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": {"a": d.Normal}},
        default_interaction_type="random",
    )
    assert module(one)["a"].requires_grad


def test_own_statistics_go_first() -> None:
    module = normal(distribution_class=Known)
    assert module(data())["x"].tolist() == [7.0] * 3
    with set_interaction_type("median"):
        assert module(data())["x"].tolist() == [8.0] * 3


def test_a_mean_without_a_formula_is_estimated() -> None:
    module = normal(distribution_class=Silent, n_empirical_estimate=4000, default_interaction_type="mean")
    torch.manual_seed(0)
    torch.testing.assert_close(module(data())["x"], torch.arange(3.0), atol=0.1, rtol=0)
    module.default_interaction_type = InteractionType.DETERMINISTIC
    with pytest.warns(UserWarning, match="Silent has neither a deterministic_sample nor a formula for its mean"):
        module(data())
    for kind in ("mode", "median"):
        with set_interaction_type(kind), pytest.raises(NotImplementedError):
            module(data())


# -- keys


@pytest.mark.parametrize(
    "in_keys, arguments",
    [
        (["loc", "scale"], ["loc", "scale"]),
        ([("n", "loc"), ("m", "k", "scale")], ["loc", "scale"]),
        ({"loc": "a", "scale": ("b", "c")}, ["loc", "scale"]),
    ],
)
def test_the_parameters_stand_under_the_names_of_arguments_or_are_named(in_keys: Any, arguments: list[str]) -> None:
    module = normal(in_keys=in_keys)
    keys = list(in_keys.values()) if isinstance(in_keys, dict) else in_keys
    assert (module.in_keys, module.dist_params_keys, module.dist_keys) == (keys, keys, arguments)
    given = TensorDict(dict(zip(keys, (torch.zeros(3), torch.ones(3)), strict=True)), [3])
    assert module(given)["x"].tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "kwargs, keys",
    [
        ({}, ["x_log_prob"]),
        ({"out_keys": [("n", "x")]}, [("n", "x_log_prob")]),
        ({"log_prob_key": "lp"}, ["lp"]),
        ({"log_prob_keys": ["lp"]}, ["lp"]),
    ],
)
def test_log_probabilities_have_keys(kwargs: Any, keys: list[Any]) -> None:
    module = normal(**kwargs)
    assert (module.log_prob_keys, module.log_prob_key) == (keys, keys[0])
    assert module.out_keys == module.dist_sample_keys
    writing = normal(return_log_prob=True, **kwargs)
    assert writing.out_keys == writing.dist_sample_keys + keys
    given = writing(data())
    torch.testing.assert_close(given[keys[0]], d.Normal(torch.arange(3.0), 1.0).log_prob(torch.arange(3.0)))
    assert torch.equal(writing.log_prob(given), given[keys[0]])
    assert torch.equal(writing.log_prob(given, dist=d.Normal(1.0, 1.0)), d.Normal(1.0, 1.0).log_prob(torch.arange(3.0)))


def test_a_sum_of_log_probabilities_has_a_key_of_its_own() -> None:
    with set_composite_lp_aggregate(True):
        module, named = normal(return_log_prob=True), composite(return_log_prob=True, log_prob_key="lp")
        assert (module.out_keys, named.out_keys) == (["x", "sample_log_prob"], ["a", ("b", "c"), "lp"])
        assert module(data())["sample_log_prob"].shape == (3,)
        given = named(nested())
        assert given["lp"].shape == (3,)
        assert torch.equal(named.log_prob(given), given["lp"])
        with pytest.raises(RuntimeError, match="log_prob_key= names the sum"):
            normal(log_prob_keys=["lp"])
    for call in (lambda: module(data()), lambda: module.log_prob_keys, lambda: module.log_prob(data())):
        with pytest.raises(RuntimeError, match="was True when the module was made, and is False now"):
            call()


def test_a_sample_without_a_key_is_not_written() -> None:
    for kwargs in ({"out_keys": None}, {"out_keys": ["_"]}):
        module = normal(**kwargs, return_log_prob=True, log_prob_key="lp")
        assert {*module(data()).keys()} == {"loc", "scale", "lp"}


def test_several_variables_have_their_keys() -> None:
    module = composite(return_log_prob=True)
    assert module.out_keys == ["a", ("b", "c"), "a_log_prob", ("b", "c_log_prob")]
    found = module(nested())
    assert found["a_log_prob"].shape == found["b", "c_log_prob"].shape == (3, 2)
    with pytest.raises(RuntimeError, match="there are several log-probabilities"):
        module.log_prob_key
    renamed = composite(
        distribution_kwargs={"name_map": {"a": "A"}}, log_prob_keys=["p", ("q", "r")], return_log_prob=True
    )
    assert renamed.out_keys == ["A", ("b", "c"), "p", ("q", "r")]
    found = renamed(nested())
    assert sorted(renamed.log_prob(found).keys(True, True), key=str) == [("q", "r"), "p"]
    assert torch.equal(renamed.log_prob(found)["q", "r"], found["q", "r"])


def test_only_out_keys_are_written() -> None:
    found = composite(out_keys=["a"], return_log_prob=True)(nested())
    assert {*found.keys()} == {"params", "a", "a_log_prob"}
    module = composite(return_log_prob=True).select_out_keys(("b", "c"))
    assert {*module(nested()).keys(True, True)} == {*nested().keys(True, True), ("b", "c")}
    assert len(module.reset_out_keys().out_keys) == 4


def test_it_writes_to_another_collection() -> None:
    out = TensorDict(batch_size=[3])
    given = data()
    assert normal()(given, tensordict_out=out) is out
    assert ({*out.keys()}, {*given.keys()}) == ({"x"}, {"loc", "scale"})


def test_it_is_called_with_tensors() -> None:
    module = normal(return_log_prob=True)
    for found in (module(torch.zeros(2), torch.ones(2)), module(loc=torch.zeros(2), scale=torch.ones(2))):
        assert [value.shape for value in found] == [(2,), (2,)]
    assert normal()(torch.zeros(2), scale=torch.ones(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("num_samples, size", [(4, (4, 3)), ((4, 2), (4, 2, 3)), (torch.Size([4]), (4, 3))])
def test_several_samples_are_drawn(num_samples: Any, size: Any) -> None:
    given = data()
    module = normal(num_samples=num_samples, return_log_prob=True, default_interaction_type="random")
    found = module(given)
    assert found is not given
    assert "x" not in given
    assert found.batch_size == found["loc"].shape == found["x"].shape == found["x_log_prob"].shape == size
    assert found["x"].flatten().unique().numel() == found["x"].numel()
    assert torch.equal(module.log_prob(found), found["x_log_prob"])
    with set_interaction_type("mean"):
        assert torch.equal(module(given)["x"], torch.arange(3.0).expand(size))
    several = composite(num_samples=num_samples, default_interaction_type="random", return_log_prob=True)(nested())
    assert several["a"].shape == several["a_log_prob"].shape == (*size, 2)


def test_the_log_probability_of_a_sample_that_is_there_is_written() -> None:
    given = data(x=torch.full((3,), 2.0))
    found = normal(return_log_prob=True)(given, _requires_sample=False)
    assert found["x"].tolist() == [2.0] * 3
    assert torch.equal(found["x_log_prob"], d.Normal(torch.arange(3.0), 1.0).log_prob(torch.tensor(2.0)))
    assert {*normal()(data(), _requires_sample=False).keys()} == {"loc", "scale"}


def test_what_is_there_is_skipped() -> None:
    with set_skip_existing(True):
        assert normal()(data(x=torch.full((3,), 9.0)))["x"].tolist() == [9.0] * 3


def test_a_distribution_can_be_kept() -> None:
    module = ProbabilisticTensorDictModule(["param"], "x", cache_dist=True)
    first = module.get_dist(TensorDict(param=torch.zeros(3)))
    assert module.get_dist(TensorDict(param=torch.ones(4, 3))) is first
    assert first.batch_shape == (4,)
    other = ProbabilisticTensorDictModule(["param"], "x")
    assert other.get_dist(TensorDict(param=torch.zeros(3))) is not other.get_dist(TensorDict(param=torch.zeros(3)))
    plain = normal(cache_dist=True)
    assert plain.get_dist(data()) is not plain.get_dist(data())
    assert isinstance(plain.build_dist_from_params(data()), d.Normal)


# -- randomness


def drawn(module: ProbabilisticTensorDictModule, given: TensorDict) -> list[float]:
    """A sample; torch's own generator has to stay as it is."""
    before = torch.get_rng_state()
    found: list[float] = module(given)["x"].tolist()
    assert torch.equal(torch.get_rng_state(), before)
    return found


def test_samples_come_from_a_generator() -> None:
    reference = torch.Generator().manual_seed(3)
    expected = [(torch.arange(3.0) + torch.randn(3, generator=reference)).tolist() for _ in range(2)]
    for source in (3, torch.Generator().manual_seed(3)):
        module = normal(generator=source, default_interaction_type="random")
        assert [drawn(module, data()), drawn(module, data())] == expected
    module = normal(generator=("r", "g"), default_interaction_type="random")
    given = data()
    given.set_non_tensor(("r", "g"), torch.Generator().manual_seed(3))
    assert [drawn(module, given), drawn(module, given)] == expected


@pytest.mark.parametrize("seed", [3, torch.tensor(3)], ids=["int", "tensor"])
def test_a_seed_in_a_collection_is_exchanged(seed: Any) -> None:
    module = normal(generator="g", default_interaction_type="random")

    def run() -> list[list[float]]:
        given = TensorDict(loc=torch.arange(3.0), scale=torch.ones(3))
        if isinstance(seed, int):
            given.set_non_tensor("g", seed)
        else:
            given["g"] = seed
        return [drawn(module, given) for _ in range(3)]

    found = run()
    assert found[0] == (torch.arange(3.0) + torch.randn(3, generator=torch.Generator().manual_seed(3))).tolist()
    assert found == run()
    assert len({tuple(sample) for sample in found}) == 3


def test_without_a_generator_in_the_collection_torchs_own_is_taken() -> None:
    module = normal(generator="g", default_interaction_type="random")
    torch.manual_seed(1)
    found = module(data())["x"]
    torch.manual_seed(1)
    assert torch.equal(found, d.Normal(torch.arange(3.0), 1.0).sample())


@pytest.mark.parametrize(
    "value, kind, message",
    [(torch.tensor([1, 2]), ValueError, "a tensor of 2 elements"), ("seed", TypeError, "holds 'seed', no generator")],
)
def test_what_is_no_seed_is_refused(value: Any, kind: type[Exception], message: str) -> None:
    given = TensorDict(loc=torch.zeros(3), scale=torch.ones(3), g=value)
    with pytest.raises(kind, match=message):
        normal(generator="g", default_interaction_type="random")(given)
    assert "x" not in given


def test_a_failed_draw_leaves_torchs_generator_as_it_was() -> None:
    class Broken(d.Normal):
        def rsample(self, sample_shape: Any = ()) -> Tensor:
            torch.randn(1)
            raise ArithmeticError

    module = normal(distribution_class=Broken, generator=1, default_interaction_type="random")
    before = torch.get_rng_state()
    with pytest.raises(ArithmeticError):
        module(data())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_with_a_generator_is_copied_and_pickled() -> None:
    module = normal(generator=3, default_interaction_type="random")
    drawn(module, data())
    copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module))]
    assert drawn(copies[0], data()) == drawn(copies[1], data()) == drawn(module, data())


# -- records


class Policy(TensorClass):
    loc: Tensor
    scale: Tensor
    x: Tensor | None = None
    x_log_prob: Tensor | None = None


def test_a_record_comes_back_as_the_record_that_it_is() -> None:
    record = Policy(loc=torch.zeros(3), scale=torch.ones(3), batch_size=[3])
    found = normal(return_log_prob=True)(record)
    assert found is record
    assert record.x is not None
    assert torch.equal(normal().log_prob(record), d.Normal(0.0, 1.0).log_prob(record.x))
    several = normal(num_samples=2, default_interaction_type="random")(record)
    assert (type(several), several.batch_size) == (Policy, (2, 3))
    with pytest.raises(Exception, match="other"):
        normal(out_keys=["other"])(record)


# -- errors


@pytest.mark.parametrize(
    "kwargs, kind, message",
    [
        ({"default_interaction_type": "best"}, ValueError, "default_interaction_type: expected one of"),
        ({"default_interaction_type": None}, ValueError, "default_interaction_type: expected one of"),
        ({"log_prob_keys": ["a", "b"]}, ValueError, r"for each of the out_keys \['x'\], got \['a', 'b'\]"),
        ({"log_prob_keys": ["a"], "log_prob_key": "b"}, ValueError, "not both"),
        ({"generator": 1.5}, TypeError, "a torch.Generator, a seed, or a key; got 1.5"),
        ({"generator": True}, TypeError, "a torch.Generator, a seed, or a key; got True"),
        ({"in_keys": [("a", "loc"), ("b", "loc")]}, TypeError, r"the arguments \['loc'\] .* given twice"),
        ({"distribution_kwargs": {"loc": 1}}, TypeError, r"the arguments \['loc'\] .* given twice"),
        ({"n_empirical_estimate": 0}, ValueError, "at least 1"),
        ({"in_keys": [3]}, ValueError, "in_keys"),
    ],
)
def test_a_module_that_cannot_work_is_not_made(kwargs: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        normal(**kwargs)


@pytest.mark.parametrize(
    "kwargs, given, kind, message",
    [
        ({}, TensorDict(a=torch.zeros(3)), KeyError, r"in_keys \['loc', 'scale'\] are missing; .* \['a'\]"),
        ({"distribution_class": d.Bernoulli}, data(), TypeError, r"Bernoulli does not take .* \['loc', 'scale'\]"),
        ({"distribution_kwargs": {"foo": 1}}, data(), TypeError, r"distribution_kwargs \['foo'\]"),
        ({"out_keys": ["x", "y"]}, data(), ValueError, r"expected 2 values, for the out_keys \['x', 'y'\], got 1"),
    ],
)
def test_a_call_that_cannot_work_changes_nothing(kwargs: Any, given: Any, kind: Any, message: str) -> None:
    before = {*given.keys()}
    with pytest.raises(kind, match=message):
        normal(**kwargs)(given)
    assert {*given.keys()} == before


def test_samples_that_are_not_there_have_no_log_probability() -> None:
    for error in (KeyError, ValueError):
        with pytest.raises(error, match=r"no samples under \['x'\]; the keys that are there: \['loc', 'scale'\]"):
            normal().log_prob(data())
    with pytest.raises(KeyError, match=r"no samples under \['a', \('b', 'c'\)\]"):
        composite().log_prob(nested())
    with pytest.raises(ValueError, match=r"no variables for the out_keys \['z'\]"):
        composite(out_keys=["z"])(nested())


# -- sequences


def policy(*more: Any, **kwargs: Any) -> ProbabilisticTensorDictSequential:
    torch.manual_seed(0)
    net = TensorDictModule(nn.Linear(3, 4), ["obs"], ["h"])
    params = TensorDictModule(NormalParamExtractor(), ["h"], ["loc", "scale"])
    return ProbabilisticTensorDictSequential(net, params, normal(return_log_prob=True), *more, **kwargs)


def chain(**kwargs: Any) -> ProbabilisticTensorDictSequential:
    """A second sample around the first."""
    second = normal(in_keys={"loc": "x", "scale": "scale"}, out_keys=["y"], log_prob_keys=["lp"], return_log_prob=True)
    return policy(second, **kwargs)


def observed(**more: Any) -> TensorDict:
    return TensorDict(obs=torch.ones(5, 3), batch_size=[5], **more)


def test_a_sequence_ends_in_a_distribution() -> None:
    sequence = policy()
    assert (sequence.in_keys, sequence.out_keys) == (["obs"], ["h", "loc", "scale", "x", "x_log_prob"])
    assert (sequence.dist_params_keys, sequence.dist_sample_keys) == (["loc", "scale"], ["x"])
    assert (sequence.log_prob_keys, sequence.log_prob_key) == (["x_log_prob"], "x_log_prob")
    assert (sequence.default_interaction_type, sequence.num_samples) == ("deterministic", ())
    given = observed()
    assert sequence(given) is given
    assert torch.equal(sequence.log_prob(given), given["x_log_prob"])
    fresh = observed()
    dist: Any = sequence.get_dist(fresh)
    assert torch.equal(dist.loc, given["loc"])
    assert {*fresh.keys()} == {"obs", "h", "loc", "scale"}
    assert torch.equal(sequence.build_dist_from_params(fresh).mean, given["loc"])
    assert sequence.get_dist_params(fresh) is fresh
    assert type(sequence.det_part) is TensorDictSequential
    assert sequence.det_part.out_keys == ["h", "loc", "scale"]


def test_a_sequence_writes_to_another_collection() -> None:
    sequence = policy()
    for call in (sequence, sequence.get_dist, sequence.get_dist_params):
        given, out = observed(), TensorDict()
        call(given, tensordict_out=out)
        assert {*given.keys()} == {"obs"}
        assert {"h", "loc", "scale"} <= {*out.keys()}
    given, out = observed(x=torch.zeros(5, 2)), TensorDict()
    sequence.log_prob(given, out)
    assert ({*given.keys()}, {*out.keys()}) == ({"obs", "x"}, {"h", "loc", "scale"})


def test_a_sequence_takes_the_sample_that_is_there() -> None:
    sequence = policy()
    given = observed(x=torch.full((5, 2), 3.0))
    dist = sequence.get_dist(observed())
    assert torch.equal(sequence.log_prob(given), dist.log_prob(torch.tensor(3.0)))
    assert torch.equal(sequence.log_prob(given, dist=d.Normal(0.0, 1.0)), d.Normal(0.0, 1.0).log_prob(given["x"]))
    found = sequence(given, _requires_sample=False)
    assert found["x"].eq(3.0).all()
    assert torch.equal(found["x_log_prob"], dist.log_prob(torch.tensor(3.0)))
    out = TensorDict()
    sequence(observed(x=torch.full((5, 2), 3.0)), tensordict_out=out, _requires_sample=False)
    assert torch.equal(out["x_log_prob"], dist.log_prob(torch.tensor(3.0)))
    for error in (KeyError, ValueError):
        with pytest.raises(error, match=r"no samples under \['x'\]"):
            sequence.log_prob(observed())


def test_several_probabilistic_modules_are_a_composite_distribution() -> None:
    sequence = chain()
    assert (sequence.dist_params_keys, sequence.dist_sample_keys) == (["x", "scale", "loc", "scale"], ["y", "x"])
    assert sequence.log_prob_keys == ["lp", "x_log_prob"]
    with pytest.raises(RuntimeError, match="there are several log-probabilities"):
        sequence.log_prob_key
    given = sequence(observed())
    fresh = observed()
    dist: Any = sequence.get_dist(fresh)
    assert list(dist) == ["x", "y"]
    assert {*fresh.keys()} == {"obs"}
    assert list(sequence.build_dist_from_params(given)) == ["x", "y"]  # type: ignore[call-overload]
    found = sequence.log_prob(given)
    assert {*found.keys()} == {"lp", "x_log_prob"}
    assert torch.equal(found["lp"], given["lp"])
    with set_composite_lp_aggregate(True):
        torch.testing.assert_close(sequence_of_sums().log_prob(given), (given["lp"] + given["x_log_prob"]).sum(-1))
    last: Any = chain(return_composite=False).get_dist(observed())
    assert isinstance(last, d.Normal)
    assert torch.equal(last.loc, given["x"])


def sequence_of_sums() -> ProbabilisticTensorDictSequential:
    """As :func:`chain`, made while log-probabilities are added up."""
    torch.manual_seed(0)
    return ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), ["obs"], ["h"]),
        TensorDictModule(NormalParamExtractor(), ["h"], ["loc", "scale"]),
        normal(),
        normal(in_keys={"loc": "x", "scale": "scale"}, out_keys=["y"]),
    )


@pytest.mark.parametrize("composite", [None, False])
def test_log_probabilities_are_those_of_the_samples_that_are_there(composite: bool | None) -> None:
    sequence = chain(return_composite=composite)
    x, y = torch.full((5, 2), 2.0), torch.full((5, 2), 3.0)
    with set_interaction_type("random"):
        found = sequence.log_prob(observed(x=x, y=y))
    scale = sequence.det_part(observed())["scale"]
    torch.testing.assert_close(found if composite is False else found["lp"], d.Normal(x, scale).log_prob(y))


def test_modules_behind_the_sample_make_it_composite() -> None:
    sequence = policy(TensorDictModule(nn.Linear(2, 2), ["x"], ["out"]))
    given = sequence(observed())
    assert "out" in given
    assert list(sequence.get_dist(observed())) == ["x"]  # type: ignore[call-overload]
    assert torch.equal(sequence.log_prob(given)["x_log_prob"], given["x_log_prob"])
    alone = policy(TensorDictModule(nn.Linear(2, 2), ["x"], ["out"]), return_composite=False)
    assert isinstance(alone.get_dist(observed()), d.Normal)


def test_sequences_nest() -> None:
    inner = policy()
    outer = ProbabilisticTensorDictSequential(inner, normal(in_keys={"loc": "x", "scale": "scale"}, out_keys=["y"]))
    given = outer(observed())
    assert list(outer.get_dist(observed())) == ["x", "y"]  # type: ignore[call-overload]
    assert outer.log_prob(given)["y_log_prob"].shape == (5, 2)
    only = ProbabilisticTensorDictSequential(TensorDictModule(nn.Identity(), ["obs"], ["obs"]), inner)
    assert isinstance(only.get_dist(observed()), d.Normal)
    assert torch.equal(only.log_prob(inner(observed())), inner(observed())["x_log_prob"])


def test_several_samples_go_through_a_sequence() -> None:
    sequence = ProbabilisticTensorDictSequential(
        normal(num_samples=4, default_interaction_type="random"),
        normal(
            in_keys={"loc": "x", "scale": "scale"}, out_keys=["y"], num_samples=2, default_interaction_type="random"
        ),
    )
    assert sequence.num_samples == (2, 4)
    assert sequence(data())["y"].shape == (2, 4, 3)


def test_a_sequence_can_be_cut() -> None:
    sequence = policy()
    assert isinstance(sequence[-1], ProbabilisticTensorDictModule)
    assert isinstance(sequence[1:], ProbabilisticTensorDictSequential)
    assert sequence.select_subsequence(out_keys=["loc"]).out_keys == ["h", "loc", "scale"]
    assert {*policy(selected_out_keys=["x"])(observed()).keys()} == {"obs", "x"}
    assert {*policy(inplace=False)(observed()).keys()} == {"h", "loc", "scale", "x", "x_log_prob"}


def test_a_sequence_without_a_distribution_has_none() -> None:
    with pytest.raises(ValueError, match="at least one module"):
        ProbabilisticTensorDictSequential()
    plain = ProbabilisticTensorDictSequential(TensorDictModule(nn.Linear(3, 4), ["obs"], ["h"]))
    assert plain(observed())["h"].shape == (5, 4)
    for call in (plain.get_dist, plain.log_prob, plain.build_dist_from_params):
        with pytest.raises(RuntimeError, match="none of the modules is probabilistic"):
            call(observed())
    with pytest.raises(TypeError, match="unknown keywords"):
        policy().get_dist(observed(), foo=1)


def test_a_failed_get_dist_changes_nothing() -> None:
    sequence = ProbabilisticTensorDictSequential(TensorDictModule(nn.Linear(3, 4), ["obs"], ["h"]), normal())
    given = observed()
    with pytest.raises(KeyError, match=r"\['loc', 'scale'\]"):
        sequence.get_dist(given)
    assert {*given.keys()} == {"obs"}


class Step(TensorClass):
    obs: Tensor
    h: Tensor | None = None
    loc: Tensor | None = None
    scale: Tensor | None = None
    x: Tensor | None = None
    x_log_prob: Tensor | None = None


def test_a_record_goes_through_a_sequence() -> None:
    record = Step(obs=torch.ones(5, 3), batch_size=[5])
    sequence = policy()
    found = sequence(record)
    assert found is record
    assert torch.equal(sequence.log_prob(record), found.x_log_prob)
    assert isinstance(sequence.get_dist(Step(obs=torch.ones(5, 3), batch_size=[5])), d.Normal)
    assert torch.equal(sequence(observed())["x"], found.x)


# -- compiled, vectorised, trained


def _step(sequence: ProbabilisticTensorDictSequential, obs: Tensor) -> Tensor:
    found = sequence(TensorDict(obs=obs, batch_size=obs.shape[:1]))
    log_prob: Tensor = sequence.log_prob(found)
    return found["x_log_prob"] + found["x"] + log_prob


def test_a_training_step_compiles_as_one_graph() -> None:
    off = normal(return_log_prob=True, distribution_kwargs={"validate_args": False})
    torch.manual_seed(0)
    sequence = ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Sequential(nn.Linear(3, 4), NormalParamExtractor()), ["obs"], ["loc", "scale"]), off
    )
    compiled = torch.compile(_step, fullgraph=True, backend="aot_eager")
    obs = torch.randn(5, 3)
    torch.testing.assert_close(compiled(sequence, obs), _step(sequence, obs))
    with set_interaction_type("random"):
        random = compiled(sequence, obs)
    assert not torch.allclose(random, _step(sequence, obs))
    random.sum().backward()
    assert all(parameter.grad is not None for parameter in sequence.parameters())


def test_a_module_works_under_vmap() -> None:
    module = normal(return_log_prob=True, distribution_kwargs={"validate_args": False})

    def run(loc: Tensor, scale: Tensor) -> Tensor:
        found: Tensor = module(TensorDict(loc=loc, scale=scale))["x_log_prob"]
        return found

    loc, scale = torch.randn(4, 3), torch.rand(4, 3) + 1
    torch.testing.assert_close(torch.vmap(run)(loc, scale), run(loc, scale))
