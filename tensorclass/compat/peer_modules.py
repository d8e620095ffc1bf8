"""The modules of ``tensordict``: the names that each of them has, and where this package has them.

The names are those of ``tensordict`` 0.15.3. A module finds a name when it is asked for, so that nothing of this
package is imported before a program uses it.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Final

#: the version of ``tensordict`` whose interface this package has
VERSION: Final[str] = "0.15.3"

#: public modules, and what ``from module import *`` gives
PUBLIC: Final[dict[str, str]] = {
    "tensordict": (
        "KEY_SEPARATOR LazyStackedTensorDict LazyStackedTensorDictStore MemoryMappedTensor MetaData NestedKey "
        "NonTensorData NonTensorDataBase NonTensorStack PackLayout PersistentTensorDict TensorAttrs TensorClass "
        "TensorClassModuleBase TensorClassModuleWrapper TensorCollection TensorDict TensorDictBase "
        "TensorDictParams TensorDictStore TypedTensorDict UnbatchedTensor __version__ append_memmap "
        "as_tensordict_module assert_allclose_td assert_close capture_non_tensor_stack cat collate "
        "default_is_leaf dense_stack_tds from_any from_arrow from_consolidated from_csv from_dataclass from_dict "
        "from_h5 from_json from_module from_modules from_namedtuple from_pandas from_parquet from_pytree "
        "from_safetensors from_struct_array from_tuple from_zarr fromkeys get_defaults_to_none get_printoptions "
        "group_by is_bool is_floating is_inexact is_integer is_leaf_nontensor is_memmap_archive is_non_tensor "
        "is_tensor_collection is_tensorclass lazy_legacy lazy_stack list_to_stack load load_memmap "
        "make_tensordict maybe_dense_stack memmap merge_tensordicts pack_memmap pad pad_sequence "
        "parse_tensor_dict_string refresh_archive_checksums save set_capture_non_tensor_stack "
        "set_get_defaults_to_none set_lazy_legacy set_list_to_stack set_printoptions stack tensorclass to_arrow "
        "to_safetensors unpack_memmap unpad_sequence unravel_key unravel_key_list unravel_key_to_tuple"
    ),
    "tensordict.base": (
        "NO_DEFAULT TensorDictBase from_any from_csv from_dict from_h5 from_json from_namedtuple from_pandas "
        "from_parquet from_struct_array from_tuple from_zarr get_defaults_to_none is_tensor_collection "
        "set_get_defaults_to_none"
    ),
    "tensordict.functional": (
        "collate dense_stack_tds group_by make_tensordict merge_tensordicts pad pad_sequence unpad_sequence"
    ),
    "tensordict.memmap": "MemoryMappedTensor",
    "tensordict.nn": (
        "AddStateIndependentNormalScale CompositeDistribution CudaGraphModule EnsembleModule InteractionType "
        "NormalParamExtractor OneHotCategorical ProbabilisticTensorDictModule ProbabilisticTensorDictSequential "
        "TensorClassModuleBase TensorClassModuleWrapper TensorDictModule TensorDictModuleBase "
        "TensorDictModuleWrapper TensorDictParams TensorDictSequential TruncatedNormal WrapModule "
        "add_custom_mapping as_tensordict_module biased_softplus composite_lp_aggregate dispatch interaction_type "
        "inv_softplus make_tensordict mappings rand_one_hot set_composite_lp_aggregate set_interaction_type "
        "set_skip_existing skip_existing"
    ),
    "tensordict.nn.common": (
        "TensorDictModule TensorDictModuleBase TensorDictModuleWrapper WrapModule as_tensordict_module dispatch"
    ),
    "tensordict.nn.cudagraphs": "CudaGraphModule",
    "tensordict.nn.distributions": (
        "AddStateIndependentNormalScale CompositeDistribution Delta InteractionType NormalParamExtractor "
        "OneHotCategorical TruncatedNormal add_custom_mapping continuous discrete mappings rand_one_hot "
        "set_interaction_type"
    ),
    "tensordict.nn.distributions.composite": "CompositeDistribution",
    "tensordict.nn.distributions.continuous": "AddStateIndependentNormalScale Delta NormalParamExtractor",
    "tensordict.nn.distributions.discrete": "OneHotCategorical",
    "tensordict.nn.distributions.truncated_normal": "TruncatedNormal TruncatedStandardNormal",
    "tensordict.nn.distributions.utils": "",
    "tensordict.nn.ensemble": "EnsembleModule",
    "tensordict.nn.functional_modules": "",
    "tensordict.nn.params": "TensorDictParams",
    "tensordict.nn.probabilistic": (
        "InteractionType ProbabilisticTensorDictModule ProbabilisticTensorDictSequential interaction_type "
        "set_interaction_type"
    ),
    "tensordict.nn.sequence": "TensorDictSequential",
    "tensordict.nn.tensorclass_module": "TensorClassModuleBase TensorClassModuleWrapper",
    "tensordict.nn.utils": (
        "add_custom_mapping biased_softplus composite_lp_aggregate expln inv_softplus mappings "
        "set_composite_lp_aggregate set_skip_existing skip_existing"
    ),
    "tensordict.persistent": "PersistentTensorDict",
    "tensordict.prototype": "symbolic_trace",
    "tensordict.prototype.fx": "TDGraphModule symbolic_trace",
    "tensordict.store": "LazyStackedTensorDictStore STORE_BACKENDS TensorDictStore",
    "tensordict.tabular": "",
    "tensordict.tensorclass": (
        "MetaData NonTensorData NonTensorDataBase NonTensorStack TensorAttrs TensorClass from_dataclass "
        "is_non_tensor tensorclass"
    ),
    "tensordict.tensordict": (
        "LazyStackedTensorDict MemoryMappedTensor NO_DEFAULT NestedKey TensorDict TensorDictBase "
        "assert_allclose_td dense_stack_tds expand_as_right expand_right is_tensor_collection is_tensorclass "
        "make_tensordict merge_tensordicts pad pad_sequence"
    ),
    "tensordict.testing": "",
    "tensordict.typedtensordict": "TypedTensorDict",
    "tensordict.utils": (
        "Buffer DeviceType IndexType KEY_SEPARATOR LinkedList NestedKey TensorDictFuture assert_allclose_td "
        "assert_close capture_non_tensor_stack expand_as_right expand_right get_printoptions is_bool is_floating "
        "is_inexact is_integer is_non_tensor is_tensorclass isin lazy_legacy list_to_stack logger "
        "parse_tensor_dict_string print_directory_tree remove_duplicates set_capture_non_tensor_stack "
        "set_lazy_legacy set_list_to_stack set_printoptions timeit unravel_key unravel_key_list "
        "unravel_key_to_tuple"
    ),
}

#: private modules, which pickles and clients name
PRIVATE: Final[list[str]] = [
    "_C", "_archive", "_arrow", "_base", "_base.convert", "_base.device", "_base.distributed", "_base.factories",
    "_base.pointwise", "_base.reductions", "_base.serialization", "_base.shape", "_base.unsupported", "_contextlib",
    "_datasets", "_deprecation", "_indexing", "_lazy", "_nestedkey", "_pytree", "_reductions", "_safetensors",
    "_tabular", "_td", "_td_functions", "_td_memmap", "_tensorcollection", "_testing", "_torch_func", "_ucxx",
    "_unbatched", "_utils_key_json", "_utils_options", "_version", "store._connection", "store._lazy",
    "store._store", "store._utils",
]  # fmt: skip

#: all modules
MODULES: Final[frozenset[str]] = frozenset([*PUBLIC, *(f"tensordict.{name}" for name in PRIVATE)])

#: where names are looked up: the first module that has the name in ``__all__``
SOURCES: Final[tuple[str, ...]] = (
    "tensorclass.compat.peer_records",
    "tensorclass.compat.peer_pickles",
    "tensorclass.compat.peer_names",
    "tensorclass.compat.version_choice",
    "tensorclass",
    "tensorclass.utils",
    "tensorclass.td",
)

#: where they are looked up after that, or first in ``tensordict.nn`` and its modules
NETWORK_SOURCES: Final[tuple[str, ...]] = (
    "tensorclass.compat.peer_networks",
    "tensorclass.nn",
    "tensorclass.nn.distributions",
)


def fill(module: ModuleType) -> None:
    """Let a new module of ``tensordict`` find its names.

    The package loads its modules with it: programs use ``tensordict.nn`` without an import of their own.
    """
    name = module.__name__
    in_nn = name.startswith("tensordict.nn")
    sources = (*NETWORK_SOURCES, *SOURCES) if in_nn else (*SOURCES, *NETWORK_SOURCES)
    namespace = vars(module)
    public = PUBLIC.get(name, "").split()

    def find(attribute: str) -> Any:
        if not attribute.startswith("__"):
            for source in sources:
                defining = import_module(source)
                if attribute in defining.__all__:
                    namespace[attribute] = value = getattr(defining, attribute)
                    return value
        raise AttributeError(
            f"module {name!r} has no attribute {attribute!r} (tensorclass.compat stands in for tensordict {VERSION})",
            name=attribute,
            obj=module,
        )

    module.__doc__ = f"{name}, by tensorclass.compat: its names are those of this package."
    namespace["__getattr__"] = find
    namespace["__dir__"] = lambda: sorted({*namespace, *public})
    namespace["__all__"] = public
    if name == "tensordict":
        namespace["__version__"] = VERSION
        for child in sorted(MODULES - {name}):
            import_module(child)
        # the decorator and the function, not the modules of these names
        namespace["tensorclass"] = import_module("tensorclass.compat.peer_records").tensorclass
        namespace["memmap"] = import_module("tensorclass").memmap
