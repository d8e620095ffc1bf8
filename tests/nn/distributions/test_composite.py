"""Several variables as one distribution: samples, log-probabilities, entropies, names and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as d

from tensorclass import TensorClass, TensorDict
from tensorclass.nn.distributions import CompositeDistribution, set_composite_lp_aggregate

MAP = {"speed": d.Normal, ("box", "gear"): d.Categorical}


def params() -> TensorDict:
    torch.manual_seed(0)
    return TensorDict(
        {
            "speed": {"loc": torch.randn(3, 4), "scale": torch.rand(3, 4) + 0.5},
            ("box", "gear", "logits"): torch.randn(3, 5),
        },
        [3],
    )


def both(**kwargs: Any) -> CompositeDistribution:
    return CompositeDistribution(params(), MAP, **kwargs)


class NoEntropy(d.Normal):
    def entropy(self) -> Tensor:
        raise NotImplementedError


def test_it_is_a_mapping_to_its_distributions() -> None:
    composite = both()
    assert list(composite) == list(composite.keys()) == ["speed", ("box", "gear")]
    assert len(composite) == 2
    assert isinstance(composite["speed"], d.Normal)
    assert composite["box", "gear"] is composite.get(("box", ("gear",))) is list(composite.values())[1]
    assert composite.get("other") is None
    assert composite.get("other", 3) == 3
    assert "speed" in composite
    assert "other" not in composite
    with pytest.raises(KeyError):
        composite["other"]
    assert hash(composite) != hash(both())
    assert "speed" in repr(composite)


def test_samples_have_all_variables() -> None:
    composite = both()
    assert (composite.batch_shape, composite.event_shape, composite.has_rsample) == ((3,), (), False)
    torch.manual_seed(1)
    sample = composite.sample((2,))
    torch.manual_seed(1)
    assert torch.equal(sample["speed"], composite["speed"].sample((2,)))
    assert torch.equal(sample["box", "gear"], composite["box", "gear"].sample((2,)))
    assert (sample.batch_size, type(sample)) == ((2, 3), TensorDict)
    for name in ("mode", "mean", "deterministic_sample"):
        assert torch.equal(getattr(composite, name)["speed"], params()["speed", "loc"])
    assert torch.equal(composite.mode["box", "gear"], params()["box", "gear", "logits"].argmax(-1))
    with pytest.raises(NotImplementedError, match=r"no gradients flow through samples of \[\('box', 'gear'\)\]"):
        composite.rsample()


def test_gradients_flow_through_reparametrized_samples() -> None:
    given = params().select("speed")
    given.apply_(lambda value: value.requires_grad_())
    composite = CompositeDistribution(given, {"speed": d.Normal})
    assert composite.has_rsample
    sample, log_prob = composite.rsample_and_log_prob((2,))
    (sample["speed"].sum() + log_prob["speed_log_prob"].sum()).backward()
    assert given["speed", "loc"].grad is not None
    assert not composite.sample()["speed"].requires_grad


def test_log_probabilities_stand_beside_each_other_or_are_added_up() -> None:
    composite = both()
    for shape in ((), (2,)):
        sample = composite.sample(shape)
        speed, gear = (dist.log_prob(sample[key]) for key, dist in composite.items())
        each = composite.log_prob(sample)
        assert sorted(each.keys(True, True), key=str) == [("box", "gear_log_prob"), "speed_log_prob"]
        assert torch.equal(each["speed_log_prob"], speed)
        assert torch.equal(each["box", "gear_log_prob"], gear)
        assert each.batch_size == sample.batch_size
        with set_composite_lp_aggregate(True):
            torch.testing.assert_close(composite.log_prob(sample), speed.sum(-1) + gear)


def test_composite_log_probabilities_can_have_their_sum() -> None:
    composite = both(log_prob_key=("all", "lp"))
    sample = composite.sample()
    with set_composite_lp_aggregate(True):
        total = composite.log_prob(sample)
    keys = {"speed_log_prob", ("box", "gear_log_prob")}
    assert {*composite.log_prob_composite(sample).keys(True, True)} == keys
    found = composite.log_prob_composite(sample, include_sum=True)
    assert {*found.keys(True, True)} == keys | {("all", "lp")}
    torch.testing.assert_close(found["all", "lp"], total)
    assert {*sample.keys(True, True)} == set(MAP)
    with set_composite_lp_aggregate(True):
        assert {*composite.log_prob_composite(sample, include_sum=False).keys(True, True)} == keys | set(MAP)
        assert {*sample.keys(True, True)} == set(MAP)
        assert composite.log_prob_composite(sample) is sample
    assert {*sample.keys(True, True)} == keys | set(MAP) | {("all", "lp")}


def test_samples_come_with_their_log_probability() -> None:
    composite = both()
    sample, log_prob = composite.sample_and_log_prob((2,))
    assert torch.equal(composite.log_prob(sample)["speed_log_prob"], log_prob["speed_log_prob"])
    with set_composite_lp_aggregate(True):
        sample, log_prob = composite.sample_and_log_prob()
        assert torch.equal(composite.log_prob(sample), log_prob)


def test_entropies_stand_beside_each_other_or_are_added_up() -> None:
    composite = both(entropy_key="h")
    speed, gear = (dist.entropy() for dist in composite.values())
    total = speed.sum(-1) + gear
    each = composite.entropy()
    assert torch.equal(each["speed_entropy"], speed)
    assert torch.equal(each["box", "gear_entropy"], gear)
    assert "h" not in each
    torch.testing.assert_close(composite.entropy(include_sum=True)["h"], total)
    torch.testing.assert_close(composite.entropy_composite(include_sum=True)["h"], total)
    torch.testing.assert_close(composite.entropy(aggregate_probabilities=True), total)
    with set_composite_lp_aggregate(True):
        torch.testing.assert_close(composite.entropy(), total)
        torch.testing.assert_close(composite.entropy_composite()["h"], total)
        assert "h" not in composite.entropy_composite(include_sum=False)
        assert torch.equal(composite.entropy(aggregate_probabilities=False)["speed_entropy"], speed)


def test_an_entropy_without_a_formula_is_estimated() -> None:
    torch.manual_seed(0)
    composite = CompositeDistribution(params(), {"speed": NoEntropy})
    found = composite.entropy(samples_mc=20_000)["speed_entropy"]
    exact = d.Normal(params()["speed", "loc"], params()["speed", "scale"]).entropy()
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)


def test_distribution_functions_are_written_beside_the_values() -> None:
    composite = CompositeDistribution(params(), {"speed": d.Normal})
    sample = composite.sample()
    assert composite.cdf(sample) is sample
    torch.testing.assert_close(sample["speed_cdf"], composite["speed"].cdf(sample["speed"]))
    composite.icdf(sample)
    torch.testing.assert_close(sample["speed_icdf"], sample["speed"], rtol=1e-4, atol=1e-4)
    given = TensorDict(speed_cdf=torch.full((3, 4), 0.5), batch_size=[3])
    torch.testing.assert_close(composite.icdf(given)["speed_icdf"], params()["speed", "loc"])
    with pytest.raises(NotImplementedError):
        both().cdf(both().sample())


def test_variables_have_names_of_their_own() -> None:
    composite = both(name_map={"speed": ("car", "v")})
    assert list(composite) == [("car", "v"), ("box", "gear")]
    assert sorted(composite.log_prob(composite.sample()).keys(True, True)) == [
        ("box", "gear_log_prob"),
        ("car", "v_log_prob"),
    ]
    composite.log_prob_key, composite.entropy_key = "a", ("b", "c")
    assert (composite.log_prob_key, composite.entropy_key) == ("a", ("b", "c"))
    assert (both().log_prob_key, both().entropy_key) == ("sample_log_prob", "entropy")


def test_arguments_are_added() -> None:
    composite = both(extra_kwargs={"speed": {"validate_args": False}})
    assert composite["speed"]._validate_args is False


def test_it_is_made_of_distributions() -> None:
    speed = d.Normal(torch.zeros(3), 1.0)
    composite = CompositeDistribution.from_distributions(params(), {"a": speed}, name_map={"a": "b"}, log_prob_key="lp")
    assert composite["b"] is speed
    assert (composite.batch_shape, composite.log_prob_key) == ((3,), "lp")


def test_it_expands() -> None:
    composite = both().expand((2, 3))
    assert composite.sample().batch_size == (2, 3)
    assert composite.sample()["speed"].shape == (2, 3, 4)


class Law(TensorClass):
    loc: Tensor
    scale: Tensor


class Both(TensorClass):
    speed: Law
    angle: Law


class Drawn(TensorClass):
    speed: Tensor
    angle: Tensor


def test_parameters_and_samples_can_be_records() -> None:
    law = Law(loc=torch.zeros(3), scale=torch.ones(3), batch_size=[3])
    composite = CompositeDistribution(
        Both(speed=law, angle=law, batch_size=[3]), {"speed": d.Normal, "angle": d.Cauchy}
    )
    sample = composite.sample()
    record = Drawn.from_tensordict(sample)
    found = composite.log_prob(record)
    assert type(found) is TensorDict
    assert torch.equal(found["angle_log_prob"], composite.log_prob(sample)["angle_log_prob"])
    with set_composite_lp_aggregate(True):
        assert torch.equal(composite.log_prob(record), composite.log_prob(sample))


def test_distributions_of_collections_nest() -> None:
    inner = both()
    outer = CompositeDistribution.from_distributions(params(), {"in": inner, "x": d.Normal(torch.zeros(3), 1.0)})
    sample = outer.sample()
    assert sample["in", "speed"].shape == (3, 4)
    with set_composite_lp_aggregate(True):
        torch.testing.assert_close(
            outer.log_prob(sample), inner.log_prob(sample["in"]) + outer["x"].log_prob(sample["x"])
        )


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        ((TensorDict(), {"a": d.Normal, "b": d.Normal}), KeyError, r"no params for \['a', 'b'\]"),
        ((params(), {"speed": d.Categorical}), TypeError, r"'speed': .*Categorical.* does not take \['loc', 'scale'\]"),
        ((TensorDict(a=torch.zeros(3)), {"a": d.Normal}), TypeError, "nested collection, .* got Tensor"),
        (({"a": 1}, {"a": d.Normal}), TypeError, "is a collection or a record, got dict"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        CompositeDistribution(*arguments)


@pytest.mark.parametrize("name", ["name_map", "extra_kwargs"])
def test_what_is_said_of_no_variable_is_refused(name: str) -> None:
    with pytest.raises(KeyError, match=rf"{name}: there are no distributions for \['other'\]"):
        both(**{name: {"other": {}}})


def test_a_sample_without_variables_is_refused() -> None:
    with pytest.raises(KeyError, match=r"the sample has no \[\('box', 'gear'\)\]; it has \['speed'\]"):
        both().log_prob(both().sample().select("speed"))
    law = d.TransformedDistribution(d.Normal(torch.zeros(3), 1.0), [d.TanhTransform()])
    composite = CompositeDistribution.from_distributions(params(), {"x": law})
    with pytest.raises(NotImplementedError, match="'x': TransformedDistribution has neither"):
        composite.deterministic_sample
    with pytest.raises(ValueError, match="no variables"), set_composite_lp_aggregate(True):
        CompositeDistribution(params(), {}).log_prob(TensorDict())


def _total(given: TensorDict, sample: TensorDict) -> Tensor:
    off: Any = {"speed": {"validate_args": False}, ("box", "gear"): {"validate_args": False}}
    composite = CompositeDistribution(given, MAP, extra_kwargs=off)
    each = composite.log_prob(sample)
    with set_composite_lp_aggregate(True):
        total: Tensor = composite.log_prob(sample)
    return total + each["speed_log_prob"].sum(-1)


def test_it_compiles_as_one_graph() -> None:
    sample = both().sample()
    compiled = torch.compile(_total, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(params(), sample), _total(params(), sample))


def test_it_works_under_vmap() -> None:
    sample = both().sample()
    torch.testing.assert_close(torch.vmap(_total)(params(), sample), _total(params(), sample))
