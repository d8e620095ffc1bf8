"""The table that connects a pattern of source code with an entry of docs/differences.md."""

from __future__ import annotations

from typing import NamedTuple

from .collection_values import Value
from .difference_patterns import (
    Block,
    Caught,
    Checked,
    ClassFields,
    Defined,
    Function,
    Membership,
    Method,
    Named,
    Pattern,
)

__all__ = ["DIFFERENCES", "Difference"]


class Difference(NamedTuple):
    """An entry of docs/differences.md, and the lines that it concerns."""

    anchor: str  #: of the entry
    says: str  #: the effect of such a line here
    patterns: tuple[Pattern, ...]


def _difference(anchor: str, says: str, *patterns: Pattern) -> Difference:
    return Difference(anchor, says, patterns)


DIFFERENCES: tuple[Difference, ...] = (
    # objects
    _difference(
        "a-field-of-objects-holds-one-object-for-all-rows",
        "stack_objects=True keeps an object for each row if they differ; Text and Column are columns of them",
        ClassFields(),
    ),
    _difference(
        "a-field-of-a-number-holds-that-number",
        "the field holds a number of Python, the same for all rows; annotate it Tensor for a number a row",
        ClassFields(numbers=True),
    ),
    _difference(
        "equal-objects-stay-one",
        "equal objects that are stacked stay one object",
        Named("NonTensorData", "NonTensorStack", "set_capture_non_tensor_stack", "capture_non_tensor_stack"),
    ),
    _difference(
        "separates-returns-only-the-requested-keys", "only the requested keys are returned", Method("separates")
    ),
    _difference(
        "merge_tensordicts-keeps-the-first-value-text-too",
        "the first collection that has a key provides its value, text too",
        Function("merge_tensordicts"),
    ),
    _difference("objects-are-not-leaves-for-in", "objects are not among the leaves", Membership("keys", "leaves_only")),
    _difference("a-list-that-is-one-object-stays-that-list", "the list stays as it is", Named("set_list_to_stack")),
    _difference(
        "each-process-has-its-own-objects",
        "objects that one process writes are not seen by others",
        Method("share_memory_"),
    ),
    _difference(
        "is_shared-asks-the-tensors", "true if the tensors are shared, however they came to be", Method("is_shared")
    ),
    # dimensions
    _difference("apply-names-renames", "names= renames", Method("apply", "named_apply", keywords=("names",))),
    _difference(
        "gather-takes-an-index-of-all-batch-dimensions", "the index has all dimensions of the batch", Method("gather")
    ),
    _difference(
        "update_at_-and-copy_at_-align-an-ellipsis-with-the-batch",
        "an ellipsis in the index stands for batch dimensions",
        Method("update_at_", "copy_at_"),
    ),
    _difference(
        "atleast_3d-puts-dimensions-where-torch-puts-them",
        "[4, 3] becomes [4, 3, 1]",
        Method("atleast_3d"),
        Function("torch.atleast_3d"),
    ),
    _difference(
        "a-tensor-in-where-is-aligned-with-the-batch",
        "a tensor is aligned with the batch dimensions",
        Method("where"),
        Function("where", "torch.where"),
    ),
    _difference(
        "masks-have-the-dimensions-of-what-they-mask",
        "masks of nested collections have their batch size",
        Function("pad_sequence", keywords=("return_mask",)),
    ),
    _difference(
        "sequences-are-padded-under-the-same-keys", "all collections must have the same keys", Function("pad_sequence")
    ),
    _difference(
        "an-empty-out-is-filled", "an empty out= is filled", Function("stack", "cat", "lazy_stack", keywords=("out",))
    ),
    _difference("rot90-copies", "copies, as torch does", Method("rot90"), Function("torch.rot90")),
    _difference("options-of-printing-take-effect-at-once", "takes effect when it is called", Named("set_printoptions")),
    _difference("attrs-of-a-record-is-a-tensordict", "returns a TensorDict", Method("attrs", of=Value.RECORD)),
    # errors
    _difference(
        "errors-have-the-classes-that-torch-raises-for-a-tensor",
        "some errors have another class",
        Caught("RuntimeError", "ValueError", "AttributeError", "IndexError"),
    ),
    _difference("a-missing-key-has-no-class", "a KeyError for a missing key", Method("entry_class")),
    # reductions
    _difference(
        "amin-amax-and-prod-reduce-as-sum-does",
        "reduces all given dimensions, and keeps further batch dimensions of nested collections",
        Method("amin", "amax", "prod", "max", "min", "cummax", "cummin", keywords=("dim", "keepdim")),
    ),
    _difference(
        "quantile-reduces-over-all-dimensions-that-it-is-given",
        "reduces over all given dimensions",
        Method("quantile", "nanquantile"),
    ),
    # rows, blocks, lazy stacks
    _difference(
        "results-and-copies-of-rows-are-plain",
        "copies of the rows do not write through",
        Method("get_sub_tensordict", "_get_sub_tensordict"),
    ),
    _difference(
        "update-ignore_lock-true-writes-to-a-locked-collection",
        "ignore_lock=True writes to a locked collection",
        Method("update", keywords=("ignore_lock",)),
    ),
    _difference("a-with-block-writes-back-all-changes", "the block writes back all changes", Block()),
    _difference(
        "operations-that-mix-items-return-a-plain-collection",
        "indices and reshapes that mix items stack the values",
        Function("lazy_stack", "LazyStackedTensorDict", "LazyStackedTensorDict.lazy_stack", "TensorDict.lazy_stack"),
        Method("to_lazystack"),
    ),
    _difference(
        "padded-values-lie-along-the-stack-dimension",
        "padded values have the batch size in front",
        Method("get", keywords=("as_padded_tensor",)),
    ),
    # keys
    _difference("a-collection-is-not-a-mapping", "a collection is not a Mapping", Checked("Mapping", "MutableMapping")),
    _difference("empty-collections-stay", "nested collections without values stay", Method("split_keys")),
    _difference(
        "only-the-requested-keys-are-updated",
        "a leaf of the source is not a nested key",
        Method("update", "update_", "update_at_", keywords=("keys_to_update",)),
    ),
    _difference("pack-keeps-the-order-of-the-keys", "keys keep their order", Method("pack")),
    _difference(
        "nested-keys-come-after-their-owner",
        "a nested key comes after its owner",
        Method("keys", "items", "values", keywords=("include_nested",)),
    ),
    # converters
    _difference(
        "pytrees-come-back-whole",
        "numbers and arrays come back as they were",
        Method("to_pytree"),
        Function("from_pytree", "TensorDict.from_pytree"),
    ),
    _difference("a-record-is-a-tree-of-its-fields", "a dict of the fields", Method("to_pytree", of=Value.RECORD)),
    _difference(
        "a-dataclass-has-one-record-class",
        "the same class each time, with the methods of the dataclass",
        Function("from_dataclass", "TensorDict.from_dataclass"),
    ),
    _difference(
        "text-of-arrays-and-tables-belongs-to-its-row",
        "text becomes a column of text",
        Method("from_struct_array", "to_struct_array"),
        Function("from_struct_array", "from_pandas", "from_arrow"),
    ),
    _difference(
        "categories-are-their-values",
        "categories become their values, rows of lists tensors or Ragged, and missing values are an error",
        Method("from_pandas"),
        Function("from_pandas"),
    ),
    _difference("lists-are-ragged-rows", "columns of lists are Ragged", Method("from_arrow"), Function("from_arrow")),
    _difference(
        "missing-values-in-files-are-an-error",
        "missing values are an error, without nulls=",
        Method("from_csv", "from_json", "from_parquet"),
        Function("from_csv", "from_json", "from_parquet"),
    ),
    _difference(
        "file-options-are-those-of-pyarrow",
        "further options are those of pyarrow",
        Method("from_csv", "to_csv"),
        Function("from_csv"),
    ),
    _difference(
        "padding-does-not-cast", "values of other dtypes are refused", Function("collate", keywords=("pad_keys",))
    ),
    # files
    _difference(
        "loading-into-a-collection-writes-in-place",
        "writes into the existing tensors",
        Method("load_memmap_", "load_"),
        Method("load_memmap", "load", keywords=("out",)),
    ),
    _difference(
        "a-collection-belongs-to-its-folder-locked-or-not",
        "kept after unlock_(); is_memmap() also requires the lock",
        Method("is_memmap"),
        Named("saved_path"),
    ),
    _difference(
        "reading-never-changes-a-file",
        "a file that is too short is an error",
        Function("MemoryMappedTensor.from_filename"),
    ),
    _difference(
        "a-folder-is-complete-and-has-no-files-of-earlier-keys",
        "the folder is replaced as a whole",
        Method("memmap", "memmap_", "memmap_like", "dumps", "save"),
        Function("memmap", "memmap_", "memmap_like", "dumps", "save"),
    ),
    _difference(
        "a-folder-is-loaded-into-the-requested-class",
        "TensorDict.load_memmap returns a TensorDict; call it on the record class, or tensorclass.load_memmap",
        Function("TensorDict.load_memmap", "TensorDict.load", "TensorDictBase.load_memmap"),
    ),
    _difference(
        "pickles-need-allow_pickle-true",
        "pickles need allow_pickle=True, also for reading",
        Function("load_memmap", "load", "TensorDict.load_memmap", "TensorDict.load"),
        Method("load_memmap", of=Value.RECORD),
    ),
    _difference(
        "consolidated-files-store-no-device",
        "loaded to the device in device=",
        Function("from_consolidated", "TensorDict.from_consolidated"),
    ),
    _difference(
        "names-from-other-programs-are-kept",
        "names such as layer.weight are kept; unflatten_keys splits them",
        Function("from_safetensors", "load_safetensors", "TensorDict.from_safetensors"),
    ),
    _difference(
        "operations-on-a-file-return-collections-in-memory",
        "rows and copies are in memory",
        Named("PersistentTensorDict", "from_h5", "from_zarr", "TensorDict.from_h5", "TensorDict.from_zarr"),
    ),
    # trees
    _difference(
        "optree-goes-into-collections", "goes into collections", Named("optree.tree_map", "optree.tree_flatten")
    ),
    # records
    _difference(
        "get-of-a-record-works-as-in-every-collection",
        "returns the holder of an object; a missing key is a KeyError",
        Method("get", of=Value.RECORD),
    ),
    _difference(
        "a-record-of-a-collection-is-separate-from-it",
        "the record is separate from its source",
        Method("from_tensordict"),
    ),
    _difference(
        "flat-keys-make-a-plain-collection",
        "returns a TensorDict",
        Method("flatten_keys", "unflatten_keys", of=Value.RECORD),
    ),
    _difference(
        "a-record-of-integers-keeps-them-in-a-cast",
        "integers of a record stay integers",
        Method("to", "half", "float", "double", "bfloat16", "type", of=Value.RECORD),
    ),
    _difference(
        "__post_init__-runs-when-a-record-is-made-from-values",
        "does not run on the results of operations",
        Defined("__post_init__"),
        Function("tensorclass", keywords=("skip_post_init_on_rebuild",)),
    ),
    _difference(
        "a-typed-tensordict-has-its-keys-from-the-start",
        "required keys must be there from the start",
        Named("TypedTensorDict"),
    ),
    _difference(
        "nested-tensors-are-jagged",
        "strided nested tensors are refused as values; densify() makes jagged ones",
        Method("densify"),
        Named("torch.nested.nested_tensor", "torch.nested.as_nested_tensor"),
    ),
    # distributions
    _difference(
        "the-bounds-of-a-truncated-normal-are-its-arguments", "a and b are the arguments", Named("TruncatedNormal")
    ),
    _difference("a-delta-is-of-any-dtype", "shapes and dtypes follow the point", Named("Delta")),
    _difference(
        "one-hot-categories-are-vectors",
        "the event_shape is the length of the vector, and draws differ",
        Named("OneHotCategorical", "rand_one_hot"),
    ),
    _difference(
        "the-inverse-softplus-needs-a-positive-number",
        "other numbers are a ValueError",
        Named("biased_softplus", "inv_softplus"),
    ),
    _difference(
        "location-and-scale-need-an-even-last-dimension",
        "an odd last dimension is a ValueError",
        Named("NormalParamExtractor"),
    ),
    _difference(
        "samples-of-several-variables-can-have-gradients",
        "samples have gradients if all distributions have rsample",
        Named("CompositeDistribution"),
    ),
    _difference("only-out_keys-are-written", "only out_keys are written", Named("CompositeDistribution")),
    _difference(
        "each-module-uses-its-own-interaction-type",
        "each module uses its own interaction type",
        Function("ProbabilisticTensorDictSequential"),
    ),
    _difference(
        "cache_dist-true-keeps-the-distribution",
        "cache_dist=True keeps the distribution",
        Function("ProbabilisticTensorDictModule", keywords=("cache_dist",)),
    ),
    _difference(
        "build_dist_from_params-returns-the-distribution-of-the-sequence",
        "returns the distribution of the whole sequence",
        Method("build_dist_from_params"),
    ),
    # modules
    _difference(
        "keys-that-are-not-selected-stay-as-they-are",
        "keys that are not selected are neither written nor deleted",
        Method("select_out_keys"),
        Function("TensorDictSequential", keywords=("selected_out_keys",)),
    ),
    _difference(
        "a-sequence-that-writes-elsewhere-writes-its-out_keys",
        "the result has only the out_keys",
        Function("TensorDictSequential", keywords=("inplace",)),
    ),
    _difference(
        "a-record-gives-a-record-with-inplace-false",
        "a record gives a record of its class",
        Function("TensorDictModule", keywords=("inplace",)),
    ),
    _difference(
        "keywords-of-the-call-take-precedence",
        "keywords of the call take precedence",
        Function("TensorDictModule", keywords=("method_kwargs",)),
    ),
    _difference("cuda-graphs-need-cuda", "an error without CUDA", Named("CudaGraphModule")),
    # parameters
    _difference(
        "a-swap-changes-the-tensors-of-a-module-and-nothing-else",
        "order, names and requires_grad of parameters stay",
        Method("to_module"),
    ),
    _difference(
        "use_state_dict-calls-the-hooks-of-state-dicts",
        "hooks of state dicts are called",
        Method("to_module", keywords=("use_state_dict",)),
    ),
    _difference(
        "parameters-leave-their-source-unchanged",
        "the source keeps its tensors; the parameters are those of the module's tables",
        Function("TensorDictParams"),
    ),
    _difference(
        "a-locked-collection-of-parameters-is-locked",
        "lock=True locks",
        Function("TensorDictParams", keywords=("lock",)),
    ),
    # between processes
    _difference(
        "a-record-is-one-message",
        "both ends must use this package",
        Method("send", "recv", "isend", "irecv", "init_remote", "from_remote_init", of=Value.COLLECTION),
        Method("send", "recv", "isend", "irecv", "init_remote", "from_remote_init", of=Value.RECORD),
    ),
    _difference(
        "all-ranks-report-a-mismatch",
        "all ranks raise RecordsDiffer where keys, shapes or dtypes differ",
        Method("all_reduce", "all_gather", "gather_and_stack", "reduce"),
    ),
    _difference("there-are-no-pipes", "not here: pipes need ucxx", Method("asend", "arecv")),
    _difference("chunks-are-seeded-not-workers", "chunks are seeded by torch's generator", Method("map", "map_iter")),
    _difference(
        "options-are-not-ignored",
        "options of workers beside a pool are an error",
        Method("map", "map_iter", keywords=("pool",)),
    ),
)
