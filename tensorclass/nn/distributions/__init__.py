"""Distributions over tensors and collections, and modules and mappings for their parameters."""

from tensorclass.nn.interaction import InteractionType, set_interaction_type

from .aggregation import composite_lp_aggregate, set_composite_lp_aggregate
from .composite import CompositeDistribution
from .continuous import Delta
from .deterministic import deterministic_sample
from .discrete import OneHotCategorical, rand_one_hot
from .parameters import AddStateIndependentNormalScale, NormalParamExtractor
from .scales import add_custom_mapping, biased_softplus, expln, inv_softplus, mappings
from .truncated_normal import TruncatedNormal

__all__ = [
    "AddStateIndependentNormalScale",
    "CompositeDistribution",
    "Delta",
    "InteractionType",
    "NormalParamExtractor",
    "OneHotCategorical",
    "TruncatedNormal",
    "add_custom_mapping",
    "biased_softplus",
    "composite_lp_aggregate",
    "deterministic_sample",
    "expln",
    "inv_softplus",
    "mappings",
    "rand_one_hot",
    "set_composite_lp_aggregate",
    "set_interaction_type",
]
