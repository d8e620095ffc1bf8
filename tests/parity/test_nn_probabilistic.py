"""Probabilistic modules and sequences: the same seeds, keys and calls in both libraries."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import tensordict.nn
import torch
from torch import Tensor, nn
from torch import distributions as d

import tensorclass.nn

pytestmark = pytest.mark.parity

Call = Callable[[Any], Any]
LIBRARIES = (
    SimpleNamespace(data=tensordict.TensorDict, nn=tensordict.nn),
    SimpleNamespace(data=tensorclass.TensorDict, nn=tensorclass.nn),
)
KINDS = ["mode", "mean", "random", "deterministic"]


@pytest.fixture(autouse=True)
def separate() -> Any:
    """What earlier tests may have left: the peer's mode, and torch's checks of arguments."""
    d.Distribution.set_default_validate_args(True)
    with tensordict.nn.set_composite_lp_aggregate(False):
        yield


def described(value: Any) -> Any:
    """What is compared: keys, shapes and numbers, kinds of distributions."""
    if hasattr(value, "batch_size") and hasattr(value, "keys"):
        found = {key: described(value[key]) for key in value.keys(True, True)}
        return {"batch_size": tuple(value.batch_size), **dict(sorted(found.items(), key=str))}
    if isinstance(value, Tensor):
        return tuple(value.shape), [f"{number:.3f}" for number in (value.detach().double().flatten() + 0.0).tolist()]
    if isinstance(value, d.Distribution):
        inner = {key: type(dist).__name__ for key, dist in value.items()} if hasattr(value, "items") else value.mean
        return type(value).__name__, described(inner) if isinstance(inner, Tensor) else inner
    if isinstance(value, (tuple, list)):
        return [described(part) for part in value]
    return str(value) if isinstance(value, str) else value


def agree(call: Call, aggregate: bool = False) -> None:
    found = []
    for library in LIBRARIES:
        torch.manual_seed(0)
        with library.nn.set_composite_lp_aggregate(aggregate):
            found.append(described(call(library)))
    assert found[1] == found[0]


def data(library: Any, **more: Any) -> Any:
    return library.data({"loc": torch.arange(3.0), "scale": torch.ones(3) * 2, **more}, [3])


def normal(library: Any, **kwargs: Any) -> Any:
    return library.nn.ProbabilisticTensorDictModule(
        **{"in_keys": ["loc", "scale"], "out_keys": ["x"], "distribution_class": d.Normal, **kwargs}
    )


def nested(library: Any) -> Any:
    values = {
        ("params", "a", "loc"): torch.zeros(3, 2),
        ("params", "a", "scale"): torch.ones(3, 2),
        ("params", "b", "c", "logits"): torch.arange(24.0).reshape(3, 2, 4).cos(),
    }
    return library.data(values, [3])


def composite(library: Any, names: dict[Any, Any] | None = None, **kwargs: Any) -> Any:
    given = {"distribution_map": {"a": d.Normal, ("b", "c"): d.Categorical}}
    return library.nn.ProbabilisticTensorDictModule(
        ["params"],
        distribution_class=library.nn.CompositeDistribution,
        distribution_kwargs={**given, **({"name_map": names} if names else {})},
        **kwargs,
    )


def renamed(library: Any, **kwargs: Any) -> Any:
    return composite(library, {"a": "A", ("b", "c"): "B"}, **kwargs)


def keys(module: Any) -> Any:
    return module.in_keys, module.out_keys, module.dist_params_keys, module.dist_sample_keys, module.log_prob_keys


CALLS: dict[str, Call] = {
    "keys": lambda m: keys(normal(m)),
    "keys with log_prob": lambda m: keys(normal(m, return_log_prob=True)),
    "key of log_prob": lambda m: normal(m, log_prob_key="lp").log_prob_key,
    "a dict": lambda m: keys(normal(m, in_keys={"loc": "a", "scale": ("b", "c")})),
    "nested keys": lambda m: keys(normal(m, in_keys=[("n", "loc"), ("m", "scale")], out_keys=[("n", "x")])),
    "log_prob": lambda m: normal(m, return_log_prob=True)(data(m)),
    "get_dist": lambda m: normal(m).get_dist(data(m)),
    "build": lambda m: normal(m).build_dist_from_params(data(m)),
    "log_prob of": lambda m: normal(m).log_prob(data(m, x=torch.ones(3))),
    "log_prob of dist": lambda m: normal(m).log_prob(data(m, x=torch.ones(3)), dist=d.Normal(1.0, 2.0)),
    "out": lambda m: normal(m)(data(m), tensordict_out=m.data(batch_size=[3])),
    "no sample": lambda m: normal(m)(data(m), _requires_sample=False),
    "no sample, log_prob": lambda m: normal(m, return_log_prob=True)(data(m, x=torch.ones(3)), _requires_sample=False),
    "positions": lambda m: normal(m, return_log_prob=True)(torch.zeros(2), torch.ones(2)),
    "keywords": lambda m: normal(m)(loc=torch.zeros(2), scale=torch.ones(2)),
    "delta": lambda m: m.nn.ProbabilisticTensorDictModule(["param"], "x")(m.data({"param": torch.ones(3)})),
    "kwargs": lambda m: normal(m, distribution_kwargs={"validate_args": False})(data(m)),
    "composite keys": lambda m: keys(composite(m, return_log_prob=True)),
    "composite": lambda m: composite(m, return_log_prob=True)(nested(m)),
    "composite with keys": lambda m: renamed(m, log_prob_keys=["p", "q"], return_log_prob=True)(nested(m)),
    "composite log_prob": lambda m: composite(m, log_prob_keys=["p", "q"]).log_prob(composite(m)(nested(m))),
    "seed": lambda m: normal(m, generator=3, default_interaction_type="random")(data(m)),
    "truncated": lambda m: normal(
        m, distribution_class=m.nn.TruncatedNormal, distribution_kwargs={"a": -1.0, "b": 2.0}, return_log_prob=True
    )(data(m)),
    "one-hot": lambda m: m.nn.ProbabilisticTensorDictModule(
        ["logits"], "x", distribution_class=m.nn.OneHotCategorical, default_interaction_type="random"
    )(m.data({"logits": torch.arange(6.0).reshape(2, 3)}, [2])),
    **{
        f"samples {kind} {size}": lambda m, kind=kind, size=size: normal(
            m, num_samples=size, default_interaction_type=kind, return_log_prob=True
        )(data(m))
        for kind in KINDS
        for size in (4, (4, 2))
    },
    **{
        f"{kind} of several": lambda m, kind=kind: composite(m, default_interaction_type=kind, num_samples=2)(nested(m))
        for kind in ("mode", "random", "deterministic")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_modules_agree(name: str) -> None:
    agree(CALLS[name])


SUMS: dict[str, Call] = {
    "keys": lambda m: keys(normal(m, return_log_prob=True)),
    "a key": lambda m: keys(normal(m, return_log_prob=True, log_prob_key="lp")),
    "module": lambda m: normal(m, return_log_prob=True)(data(m)),
    "log_prob": lambda m: composite(m).log_prob(composite(m)(nested(m))),
    "composite keys": lambda m: keys(composite(m, return_log_prob=True)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_log_probabilities_agree(name: str) -> None:
    agree(SUMS[name], aggregate=True)


PARAMS: dict[str, Any] = {
    "Bernoulli": {"probs": torch.tensor([0.3, 0.6])},
    "Beta": {"concentration1": torch.tensor([2.5, 2.0]), "concentration0": torch.tensor([2.1, 5.0])},
    "Binomial": {"total_count": torch.tensor([3.0, 5.0]), "probs": torch.tensor([0.3, 0.6])},
    "Categorical": {"logits": torch.tensor([[0.1, 2.0], [3.0, 1.0]])},
    "Cauchy": {"loc": torch.tensor([0.3, 0.6]), "scale": torch.tensor([1.0, 2.0])},
    "Dirichlet": {"concentration": torch.tensor([[1.1, 2.0], [3.0, 1.5]])},
    "Exponential": {"rate": torch.tensor([0.3, 0.6])},
    "Gamma": {"concentration": torch.tensor([1.3, 2.6]), "rate": torch.tensor([1.0, 2.0])},
    "Geometric": {"probs": torch.tensor([0.3, 0.6])},
    "Gumbel": {"loc": torch.tensor([0.3, 0.6]), "scale": torch.tensor([1.0, 2.0])},
    "HalfNormal": {"scale": torch.tensor([0.3, 0.6])},
    "Laplace": {"loc": torch.tensor([0.3, 0.6]), "scale": torch.tensor([1.0, 2.0])},
    "LogNormal": {"loc": torch.tensor([0.3, 0.6]), "scale": torch.tensor([1.0, 2.0])},
    "LogisticNormal": {"loc": torch.tensor([[0.3, 0.6]]), "scale": torch.tensor([[1.0, 2.0]])},
    "Multinomial": {"probs": torch.tensor([[0.3, 0.7], [0.6, 0.4]])},
    "NegativeBinomial": {"total_count": torch.tensor([3.0, 5.0]), "probs": torch.tensor([0.3, 0.6])},
    "Normal": {"loc": torch.tensor([0.3, 0.6]), "scale": torch.tensor([1.0, 2.0])},
    "OneHotCategorical": {"logits": torch.tensor([[0.1, 2.0], [3.0, 1.0]])},
    "OneHotCategoricalStraightThrough": {"logits": torch.tensor([[0.1, 2.0], [3.0, 1.0]])},
    "Pareto": {"scale": torch.tensor([0.3, 0.6]), "alpha": torch.tensor([2.0, 3.0])},
    "Poisson": {"rate": torch.tensor([2.6, 0.6])},
    "RelaxedBernoulli": {"temperature": torch.tensor([0.3, 0.3]), "probs": torch.tensor([0.3, 0.6])},
    "RelaxedOneHotCategorical": {"temperature": torch.tensor(0.3), "logits": torch.tensor([[0.1, 2.0], [3.0, 1.0]])},
    "StudentT": {"df": torch.tensor([3.3, 4.6])},
    "Uniform": {"low": torch.tensor([0.3, 0.6]), "high": torch.tensor([1.0, 2.0])},
    "VonMises": {"loc": torch.tensor([0.3, 0.6]), "concentration": torch.tensor([1.0, 2.0])},
    "Weibull": {"scale": torch.tensor([0.3, 0.6]), "concentration": torch.tensor([1.0, 2.0])},
}


@pytest.mark.filterwarnings("ignore:deterministic_sample wasn't found", "ignore:.*has neither a deterministic_sample")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PARAMS)
def test_the_same_is_taken_of_the_distributions_of_torch(name: str, kind: str) -> None:
    if kind == "mode" and name in ("LogisticNormal", "Multinomial", "RelaxedBernoulli", "RelaxedOneHotCategorical"):
        pytest.skip("torch has no mode of it")
    params = PARAMS[name]
    made = getattr(d, name)
    agree(
        lambda m: m.nn.ProbabilisticTensorDictModule(
            list(params), "x", distribution_class=made, default_interaction_type=kind, n_empirical_estimate=20
        )(m.data(params))
    )


def test_gradients_agree() -> None:
    found = []
    for library in LIBRARIES:
        torch.manual_seed(0)
        given = data(library)
        given["loc"].requires_grad_()
        module = normal(library, default_interaction_type="random", return_log_prob=True)(given)
        (module["x"].sum() + module["x_log_prob"].sum()).backward()
        found.append(given["loc"].grad)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("source", ["int", "generator", "generator in data", "seed in data", "tensor in data"])
def test_generators_agree(source: str) -> None:
    found = []
    for library in LIBRARIES:
        given = library.data({"loc": torch.arange(3.0), "scale": torch.ones(3)}, [])
        generator: Any = {"int": 3, "generator": torch.Generator().manual_seed(3)}.get(source, "g")
        if source == "generator in data":
            given.set_non_tensor("g", torch.Generator().manual_seed(3))
        elif source == "seed in data":
            given.set_non_tensor("g", 3)
        elif source == "tensor in data":
            given["g"] = torch.tensor(3)
        module = normal(library, generator=generator, default_interaction_type="random")
        found.append([module(given)["x"].tolist() for _ in range(3)])
        if source.endswith("data") and source != "generator in data":
            found[-1].append(int(given["g"]))
    assert found[0] == found[1]


def policy(library: Any, *more: Any, **kwargs: Any) -> Any:
    torch.manual_seed(0)
    net = library.nn.TensorDictModule(nn.Linear(3, 4), ["obs"], ["h"])
    params = library.nn.TensorDictModule(library.nn.NormalParamExtractor(), ["h"], ["loc", "scale"])
    last = normal(library, return_log_prob=True)
    return library.nn.ProbabilisticTensorDictSequential(net, params, last, *more, **kwargs)


def chain(library: Any, **kwargs: Any) -> Any:
    second = normal(library, in_keys={"loc": "x", "scale": "scale"}, out_keys=["y"], return_log_prob=True)
    return policy(library, second, **kwargs)


def observed(library: Any, **more: Any) -> Any:
    return library.data({"obs": torch.ones(5, 3), **more}, [5])


def after(call: Call, given: Any) -> Any:
    """What a call leaves in a collection."""
    call(given)
    return given


SEQUENCES: dict[str, Call] = {
    "keys": lambda m: keys(policy(m)),
    "kind": lambda m: (policy(m).default_interaction_type, policy(m).num_samples, policy(m).log_prob_key),
    "forward": lambda m: policy(m)(observed(m)),
    "out": lambda m: policy(m)(observed(m), tensordict_out=m.data()),
    "get_dist": lambda m: policy(m).get_dist(observed(m)),
    "get_dist leaves": lambda m: after(policy(m).get_dist, observed(m)),
    "params": lambda m: policy(m).get_dist_params(observed(m)),
    "build": lambda m: policy(m).build_dist_from_params(policy(m).get_dist_params(observed(m))),
    "log_prob": lambda m: policy(m).log_prob(observed(m, x=torch.ones(5, 2))),
    "log_prob leaves": lambda m: after(policy(m).log_prob, observed(m, x=torch.ones(5, 2))),
    "given sample": lambda m: policy(m)(observed(m, x=torch.ones(5, 2)), _requires_sample=False),
    "det_part": lambda m: policy(m).det_part.out_keys,
    "state": lambda m: list(policy(m).state_dict()),
    "chain keys": lambda m: keys(chain(m)),
    "chain": lambda m: chain(m)(observed(m)),
    "chain get_dist": lambda m: chain(m).get_dist(observed(m)),
    "chain get_dist leaves": lambda m: after(chain(m).get_dist, observed(m)),
    "chain log_prob": lambda m: chain(m).log_prob(chain(m)(observed(m))),
    "chain, last": lambda m: chain(m, return_composite=False).get_dist(observed(m)),
    "one, composite": lambda m: policy(m, return_composite=True).get_dist(observed(m)),
    "more behind": lambda m: policy(m, m.nn.TensorDictModule(nn.Linear(2, 2), ["x"], ["z"])).get_dist(observed(m)),
    "selected": lambda m: policy(m, selected_out_keys=["x"])(observed(m)),
    "not in place": lambda m: policy(m, inplace=False)(observed(m)),
    "some": lambda m: policy(m).select_subsequence(out_keys=["loc"]).out_keys,
    "tensors": lambda m: policy(m)(obs=torch.ones(3)),
}


@pytest.mark.filterwarnings("ignore:ProbabilisticTensorDictSequential.det_part")
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_agree(name: str) -> None:
    agree(SEQUENCES[name])


def test_sums_of_log_probabilities_of_sequences_agree() -> None:
    agree(lambda m: chain(m).log_prob(chain(m)(observed(m))), aggregate=True)


MISTAKES: dict[str, Call] = {
    "interaction": lambda m: normal(m, default_interaction_type="best"),
    "generator": lambda m: normal(m, generator=1.5),
    "argument": lambda m: normal(m, distribution_kwargs={"foo": 1})(data(m)),
    "parameters": lambda m: normal(m, distribution_class=d.Bernoulli)(data(m)),
    "too many keys": lambda m: normal(m, out_keys=["x", "y"])(data(m)),
    "no sample": lambda m: normal(m).log_prob(data(m)),
    "no parameters": lambda m: normal(m)(m.data({"a": torch.ones(3)})),
    "several keys": lambda m: composite(m).log_prob_key,
    "no modules": lambda m: m.nn.ProbabilisticTensorDictSequential(),
    "seeds": lambda m: normal(m, generator="g")(data(m, g=torch.ones(3))),
    "no mode": lambda m: normal(
        m, in_keys=["probs"], distribution_class=d.ContinuousBernoulli, default_interaction_type="mode"
    )(m.data({"probs": torch.ones(3) * 0.3})),
    "sequence without sample": lambda m: policy(m).log_prob(observed(m)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_errors_are_of_the_same_class(name: str) -> None:
    theirs, mine = LIBRARIES
    with pytest.raises(Exception) as expected:
        MISTAKES[name](theirs)
    with pytest.raises(type(expected.value)):
        MISTAKES[name](mine)


@pytest.mark.parametrize("aggregate", [False, True])
def test_a_change_of_the_mode_is_the_same_error(aggregate: bool) -> None:
    for library in LIBRARIES:
        with library.nn.set_composite_lp_aggregate(aggregate):
            module = composite(library, return_log_prob=True)
        with library.nn.set_composite_lp_aggregate(not aggregate), pytest.raises(RuntimeError):
            module(nested(library))
