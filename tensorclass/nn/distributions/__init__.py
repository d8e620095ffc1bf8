"""Distributions over tensors and collections, and what makes their parameters."""

from tensorclass.nn.interaction import InteractionType as InteractionType
from tensorclass.nn.interaction import set_interaction_type as set_interaction_type

from .aggregation import composite_lp_aggregate as composite_lp_aggregate
from .aggregation import set_composite_lp_aggregate as set_composite_lp_aggregate
from .composite import CompositeDistribution as CompositeDistribution
from .continuous import Delta as Delta
from .deterministic import deterministic_sample as deterministic_sample
from .discrete import OneHotCategorical as OneHotCategorical
from .discrete import rand_one_hot as rand_one_hot
from .parameters import AddStateIndependentNormalScale as AddStateIndependentNormalScale
from .parameters import NormalParamExtractor as NormalParamExtractor
from .scales import add_custom_mapping as add_custom_mapping
from .scales import biased_softplus as biased_softplus
from .scales import expln as expln
from .scales import inv_softplus as inv_softplus
from .scales import mappings as mappings
from .truncated_normal import TruncatedNormal as TruncatedNormal

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
