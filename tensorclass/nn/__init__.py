"""Modules on collections and records: what they read and write is named by keys."""

from tensorclass.td import make_tensordict

from .cudagraphs import CudaGraphModule
from .dispatch import dispatch
from .distributions import (
    AddStateIndependentNormalScale,
    CompositeDistribution,
    NormalParamExtractor,
    OneHotCategorical,
    TruncatedNormal,
    add_custom_mapping,
    biased_softplus,
    composite_lp_aggregate,
    inv_softplus,
    mappings,
    rand_one_hot,
    set_composite_lp_aggregate,
)
from .ensemble import EnsembleModule
from .functional import make_functional
from .interaction import InteractionType, interaction_type, set_interaction_type
from .module import TensorDictModule
from .module_base import TensorDictModuleBase
from .params import Buffer, TensorDictParams
from .probabilistic import ProbabilisticTensorDictModule
from .probabilistic_sequence import ProbabilisticTensorDictSequential
from .record_module import TensorClassModuleBase, TensorClassModuleWrapper
from .sequence import TensorDictSequential
from .skipping import set_skip_existing, skip_existing
from .wrap import TensorDictModuleWrapper, WrapModule, as_tensordict_module

__all__ = [
    "AddStateIndependentNormalScale",
    "Buffer",
    "CompositeDistribution",
    "CudaGraphModule",
    "EnsembleModule",
    "InteractionType",
    "NormalParamExtractor",
    "OneHotCategorical",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "TensorClassModuleBase",
    "TensorClassModuleWrapper",
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictModuleWrapper",
    "TensorDictParams",
    "TensorDictSequential",
    "TruncatedNormal",
    "WrapModule",
    "add_custom_mapping",
    "as_tensordict_module",
    "biased_softplus",
    "composite_lp_aggregate",
    "dispatch",
    "interaction_type",
    "inv_softplus",
    "make_functional",
    "make_tensordict",
    "mappings",
    "rand_one_hot",
    "set_composite_lp_aggregate",
    "set_interaction_type",
    "set_skip_existing",
    "skip_existing",
]
