"""Probabilistic modules and composite distributions; by hand, torch's distributions on the values of a dict.

Where something is drawn, each call starts from the same seed, so that the results can be compared.
"""

from typing import Any

import tensordict.nn
import torch
from torch import distributions as d

import tensorclass.nn
from benchmarks.sides import OURS, Batch, Side, by_hand
from benchmarks.timing import Call
from benchmarks.workloads.table import ROWS, Workload

UNCHECKED = {"validate_args": False}


def _modules(side: Side) -> Any:
    return tensorclass.nn if side is OURS else tensordict.nn


def _seed() -> None:
    torch.default_generator.manual_seed(0)


def _law(values: Any) -> tuple[Any, Any]:
    """Parameters of a normal distribution."""
    return values["observation"], values["observation"] + 1.0


def _module(side: Side) -> Any:
    return _modules(side).ProbabilisticTensorDictModule(
        ["loc", "scale"],
        ["sample"],
        distribution_class=d.Normal,
        distribution_kwargs=UNCHECKED,
        default_interaction_type="random",
        return_log_prob=True,
    )


def _parameters(side: Side) -> Any:
    data = side.make("td", ROWS)
    loc, scale = _law(data)
    return data.empty().update({"loc": loc, "scale": scale})


def _sample(side: Side) -> Call:
    module, data = _module(side), _parameters(side)

    def call() -> Any:
        _seed()
        return module(data)

    return call


def _sample_by_hand() -> Call:
    values, size = by_hand("td", ROWS)
    loc, scale = _law(values)

    def call() -> Any:
        _seed()
        dist = d.Normal(loc, scale, validate_args=False)
        sample = dist.rsample()
        return {"loc": loc, "scale": scale, "sample": sample, "sample_log_prob": dist.log_prob(sample)}, size

    return call


def _log_prob(side: Side) -> Call:
    module, data = _module(side), _parameters(side)
    data["sample"] = data["loc"]
    return lambda: module.log_prob(data)


def _log_prob_by_hand() -> Call:
    loc, scale = _law(by_hand("td", ROWS)[0])
    return lambda: d.Normal(loc, scale, validate_args=False).log_prob(loc)


def _composite(side: Side) -> tuple[Any, Any]:
    """Two variables, and values of them."""
    data = side.make("td", ROWS)
    loc, scale = _law(data)
    params = data.empty().update({"move": {"loc": loc, "scale": scale}, "gear": {"logits": loc}})
    laws = {"move": d.Normal, "gear": d.Categorical}
    made = _modules(side).CompositeDistribution(params, laws, extra_kwargs={"move": UNCHECKED, "gear": UNCHECKED})
    return made, data.empty().update({"move": loc, "gear": torch.zeros(ROWS, dtype=torch.long)})


def _composite_log_prob(side: Side) -> Call:
    composite, sample = _composite(side)
    return lambda: composite.log_prob(sample)


def _composite_sample(side: Side) -> Call:
    composite, _ = _composite(side)

    def call() -> Any:
        _seed()
        return composite.sample()

    return call


def _composite_by_hand() -> tuple[d.Normal, d.Categorical, Any, Batch]:
    values, size = by_hand("td", ROWS)
    loc, scale = _law(values)
    gears = d.Categorical(logits=loc, validate_args=False)
    return d.Normal(loc, scale, validate_args=False), gears, loc, size


def _composite_log_prob_by_hand() -> Call:
    moves, gears, loc, size = _composite_by_hand()
    gear = torch.zeros(ROWS, dtype=torch.long)
    return lambda: ({"move_log_prob": moves.log_prob(loc), "gear_log_prob": gears.log_prob(gear)}, size)


def _composite_sample_by_hand() -> Call:
    moves, gears, _, size = _composite_by_hand()

    def call() -> Any:
        _seed()
        return {"move": moves.sample(), "gear": gears.sample()}, size

    return call


WORKLOADS = (
    Workload("probabilistic module: sample and log_prob", _sample, _sample_by_hand),
    Workload("probabilistic module: log_prob", _log_prob, _log_prob_by_hand),
    Workload("composite distribution: log_prob", _composite_log_prob, _composite_log_prob_by_hand),
    Workload("composite distribution: sample", _composite_sample, _composite_sample_by_hand),
)
