"""The table that connects a pattern of source code with an entry of docs/differences.md."""

from __future__ import annotations

from collections.abc import Mapping

from .collection_values import Value
from .difference_patterns import (
    Pattern,
    block,
    caught,
    checked,
    class_fields,
    defined,
    function,
    membership,
    method,
    named,
)


class Difference:
    """An entry of docs/differences.md: its effect on the lines that it concerns, and patterns of such lines."""

    def __init__(self, says: str, *patterns: Pattern) -> None:
        self.says = says
        self.patterns = patterns


#: the differences, by the anchors of their entries
DIFFERENCES: Mapping[str, Difference] = {
    # objects
    "a-field-of-objects-holds-one-object-for-all-rows": Difference(
        "stack_objects=True keeps an object for each row if they differ; Text and Column are columns of them",
        class_fields(),
    ),
    "a-field-of-a-number-holds-that-number": Difference(
        "the field holds a number of Python, the same for all rows; annotate it Tensor for a number a row",
        class_fields(numbers=True),
    ),
    "equal-objects-stay-one": Difference(
        "equal objects that are stacked stay one object",
        named("NonTensorData", "NonTensorStack", "set_capture_non_tensor_stack", "capture_non_tensor_stack"),
    ),
    "separates-returns-only-the-requested-keys": Difference(
        "only the requested keys are returned", method("separates")
    ),
    "merge_tensordicts-keeps-the-first-value-text-too": Difference(
        "the first collection that has a key provides its value, text too", function("merge_tensordicts")
    ),
    "objects-are-not-leaves-for-in": Difference("objects are not among the leaves", membership("keys", "leaves_only")),
    "a-list-that-is-one-object-stays-that-list": Difference("the list stays as it is", named("set_list_to_stack")),
    "each-process-has-its-own-objects": Difference(
        "objects that one process writes are not seen by others", method("share_memory_")
    ),
    "is_shared-asks-the-tensors": Difference(
        "true if the tensors are shared, however they came to be", method("is_shared")
    ),
    # dimensions
    "apply-names-renames": Difference("names= renames", method("apply", "named_apply", keywords=("names",))),
    "gather-takes-an-index-of-all-batch-dimensions": Difference(
        "the index has all dimensions of the batch", method("gather")
    ),
    "update_at_-and-copy_at_-align-an-ellipsis-with-the-batch": Difference(
        "an ellipsis in the index stands for batch dimensions", method("update_at_", "copy_at_")
    ),
    "atleast_3d-puts-dimensions-where-torch-puts-them": Difference(
        "[4, 3] becomes [4, 3, 1]", method("atleast_3d"), function("torch.atleast_3d")
    ),
    "a-tensor-in-where-is-aligned-with-the-batch": Difference(
        "a tensor is aligned with the batch dimensions", method("where"), function("where", "torch.where")
    ),
    "masks-have-the-dimensions-of-what-they-mask": Difference(
        "masks of nested collections have their batch size", function("pad_sequence", keywords=("return_mask",))
    ),
    "sequences-are-padded-under-the-same-keys": Difference(
        "all collections must have the same keys", function("pad_sequence")
    ),
    "an-empty-out-is-filled": Difference(
        "an empty out= is filled", function("stack", "cat", "lazy_stack", keywords=("out",))
    ),
    "rot90-copies": Difference("copies, as torch does", method("rot90"), function("torch.rot90")),
    "options-of-printing-take-effect-at-once": Difference("takes effect when it is called", named("set_printoptions")),
    "attrs-of-a-record-is-a-tensordict": Difference("returns a TensorDict", method("attrs", of=Value.RECORD)),
    # errors
    "errors-have-the-classes-that-torch-raises-for-a-tensor": Difference(
        "some errors have another class", caught("RuntimeError", "ValueError", "AttributeError", "IndexError")
    ),
    "a-missing-key-has-no-class": Difference("a KeyError for a missing key", method("entry_class")),
    # reductions
    "amin-amax-and-prod-reduce-as-sum-does": Difference(
        "reduces all given dimensions, and keeps further batch dimensions of nested collections",
        method("amin", "amax", "prod", "max", "min", "cummax", "cummin", keywords=("dim", "keepdim")),
    ),
    "quantile-reduces-over-all-dimensions-that-it-is-given": Difference(
        "reduces over all given dimensions", method("quantile", "nanquantile")
    ),
    # rows, blocks, lazy stacks
    "results-and-copies-of-rows-are-plain": Difference(
        "copies of the rows do not write through", method("get_sub_tensordict", "_get_sub_tensordict")
    ),
    "update-ignore_lock-true-writes-to-a-locked-collection": Difference(
        "ignore_lock=True writes to a locked collection", method("update", keywords=("ignore_lock",))
    ),
    "a-with-block-writes-back-all-changes": Difference("the block writes back all changes", block()),
    "operations-that-mix-items-return-a-plain-collection": Difference(
        "indices and reshapes that mix items stack the values",
        function("lazy_stack", "LazyStackedTensorDict", "LazyStackedTensorDict.lazy_stack", "TensorDict.lazy_stack"),
        method("to_lazystack"),
    ),
    "padded-values-lie-along-the-stack-dimension": Difference(
        "padded values have the batch size in front", method("get", keywords=("as_padded_tensor",))
    ),
    # keys
    "a-collection-is-not-a-mapping": Difference("a collection is not a Mapping", checked("Mapping", "MutableMapping")),
    "empty-collections-stay": Difference("nested collections without values stay", method("split_keys")),
    "only-the-requested-keys-are-updated": Difference(
        "a leaf of the source is not a nested key",
        method("update", "update_", "update_at_", keywords=("keys_to_update",)),
    ),
    "pack-keeps-the-order-of-the-keys": Difference("keys keep their order", method("pack")),
    "nested-keys-come-after-their-owner": Difference(
        "a nested key comes after its owner", method("keys", "items", "values", keywords=("include_nested",))
    ),
    # converters
    "pytrees-come-back-whole": Difference(
        "numbers and arrays come back as they were",
        method("to_pytree"),
        function("from_pytree", "TensorDict.from_pytree"),
    ),
    "a-record-is-a-tree-of-its-fields": Difference("a dict of the fields", method("to_pytree", of=Value.RECORD)),
    "a-dataclass-has-one-record-class": Difference(
        "the same class each time, with the methods of the dataclass",
        function("from_dataclass", "TensorDict.from_dataclass"),
    ),
    "text-of-arrays-and-tables-belongs-to-its-row": Difference(
        "text becomes a column of text",
        method("from_struct_array", "to_struct_array"),
        function("from_struct_array", "from_pandas", "from_arrow"),
    ),
    "categories-are-their-values": Difference(
        "categories become their values, rows of lists tensors or Ragged, and missing values are an error",
        method("from_pandas"),
        function("from_pandas"),
    ),
    "lists-are-ragged-rows": Difference("columns of lists are Ragged", method("from_arrow"), function("from_arrow")),
    "missing-values-in-files-are-an-error": Difference(
        "missing values are an error, without nulls=",
        method("from_csv", "from_json", "from_parquet"),
        function("from_csv", "from_json", "from_parquet"),
    ),
    "file-options-are-those-of-pyarrow": Difference(
        "further options are those of pyarrow", method("from_csv", "to_csv"), function("from_csv")
    ),
    "padding-does-not-cast": Difference(
        "values of other dtypes are refused", function("collate", keywords=("pad_keys",))
    ),
    # files
    "loading-into-a-collection-writes-in-place": Difference(
        "writes into the existing tensors",
        method("load_memmap_", "load_"),
        method("load_memmap", "load", keywords=("out",)),
    ),
    "a-collection-belongs-to-its-folder-locked-or-not": Difference(
        "kept after unlock_(); is_memmap() also requires the lock", method("is_memmap"), named("saved_path")
    ),
    "reading-never-changes-a-file": Difference(
        "a file that is too short is an error", function("MemoryMappedTensor.from_filename")
    ),
    "a-folder-is-complete-and-has-no-files-of-earlier-keys": Difference(
        "the folder is replaced as a whole",
        method("memmap", "memmap_", "memmap_like", "dumps", "save"),
        function("memmap", "memmap_", "memmap_like", "dumps", "save"),
    ),
    "a-folder-is-loaded-into-the-requested-class": Difference(
        "TensorDict.load_memmap returns a TensorDict; call it on the record class, or tensorclass.load_memmap",
        function("TensorDict.load_memmap", "TensorDict.load", "TensorDictBase.load_memmap"),
    ),
    "pickles-need-allow_pickle-true": Difference(
        "pickles need allow_pickle=True, also for reading",
        function("load_memmap", "load", "TensorDict.load_memmap", "TensorDict.load"),
        method("load_memmap", of=Value.RECORD),
    ),
    "consolidated-files-store-no-device": Difference(
        "loaded to the device in device=", function("from_consolidated", "TensorDict.from_consolidated")
    ),
    "names-from-other-programs-are-kept": Difference(
        "names such as layer.weight are kept; unflatten_keys splits them",
        function("from_safetensors", "load_safetensors", "TensorDict.from_safetensors"),
    ),
    "operations-on-a-file-return-collections-in-memory": Difference(
        "rows and copies are in memory",
        named("PersistentTensorDict", "from_h5", "from_zarr", "TensorDict.from_h5", "TensorDict.from_zarr"),
    ),
    # trees
    "optree-goes-into-collections": Difference(
        "goes into collections", named("optree.tree_map", "optree.tree_flatten")
    ),
    # records
    "get-of-a-record-works-as-in-every-collection": Difference(
        "returns the holder of an object; a missing key is a KeyError", method("get", of=Value.RECORD)
    ),
    "a-record-of-a-collection-is-separate-from-it": Difference(
        "the record is separate from its source", method("from_tensordict")
    ),
    "flat-keys-make-a-plain-collection": Difference(
        "returns a TensorDict", method("flatten_keys", "unflatten_keys", of=Value.RECORD)
    ),
    "a-record-of-integers-keeps-them-in-a-cast": Difference(
        "integers of a record stay integers",
        method("to", "half", "float", "double", "bfloat16", "type", of=Value.RECORD),
    ),
    "__post_init__-runs-when-a-record-is-made-from-values": Difference(
        "does not run on the results of operations",
        defined("__post_init__"),
        function("tensorclass", keywords=("skip_post_init_on_rebuild",)),
    ),
    "a-typed-tensordict-has-its-keys-from-the-start": Difference(
        "required keys must be there from the start", named("TypedTensorDict")
    ),
    "nested-tensors-are-jagged": Difference(
        "strided nested tensors are refused as values; densify() makes jagged ones",
        method("densify"),
        named("torch.nested.nested_tensor", "torch.nested.as_nested_tensor"),
    ),
    # distributions
    "the-bounds-of-a-truncated-normal-are-its-arguments": Difference(
        "a and b are the arguments", named("TruncatedNormal")
    ),
    "a-delta-is-of-any-dtype": Difference("shapes and dtypes follow the point", named("Delta")),
    "one-hot-categories-are-vectors": Difference(
        "the event_shape is the length of the vector, and draws differ", named("OneHotCategorical", "rand_one_hot")
    ),
    "the-inverse-softplus-needs-a-positive-number": Difference(
        "other numbers are a ValueError", named("biased_softplus", "inv_softplus")
    ),
    "location-and-scale-need-an-even-last-dimension": Difference(
        "an odd last dimension is a ValueError", named("NormalParamExtractor")
    ),
    "samples-of-several-variables-can-have-gradients": Difference(
        "samples have gradients if all distributions have rsample", named("CompositeDistribution")
    ),
    "only-out_keys-are-written": Difference("only out_keys are written", named("CompositeDistribution")),
    "each-module-uses-its-own-interaction-type": Difference(
        "each module uses its own interaction type", function("ProbabilisticTensorDictSequential")
    ),
    "cache_dist-true-keeps-the-distribution": Difference(
        "cache_dist=True keeps the distribution", function("ProbabilisticTensorDictModule", keywords=("cache_dist",))
    ),
    "build_dist_from_params-returns-the-distribution-of-the-sequence": Difference(
        "returns the distribution of the whole sequence", method("build_dist_from_params")
    ),
    # modules
    "keys-that-are-not-selected-stay-as-they-are": Difference(
        "keys that are not selected are neither written nor deleted",
        method("select_out_keys"),
        function("TensorDictSequential", keywords=("selected_out_keys",)),
    ),
    "a-sequence-that-writes-elsewhere-writes-its-out_keys": Difference(
        "the result has only the out_keys", function("TensorDictSequential", keywords=("inplace",))
    ),
    "a-record-gives-a-record-with-inplace-false": Difference(
        "a record gives a record of its class", function("TensorDictModule", keywords=("inplace",))
    ),
    "keywords-of-the-call-take-precedence": Difference(
        "keywords of the call take precedence", function("TensorDictModule", keywords=("method_kwargs",))
    ),
    "cuda-graphs-need-cuda": Difference("an error without CUDA", named("CudaGraphModule")),
    # parameters
    "a-swap-changes-the-tensors-of-a-module-and-nothing-else": Difference(
        "order, names and requires_grad of parameters stay", method("to_module")
    ),
    "use_state_dict-calls-the-hooks-of-state-dicts": Difference(
        "hooks of state dicts are called", method("to_module", keywords=("use_state_dict",))
    ),
    "parameters-leave-their-source-unchanged": Difference(
        "the source keeps its tensors; the parameters are those of the module's tables", function("TensorDictParams")
    ),
    "a-locked-collection-of-parameters-is-locked": Difference(
        "lock=True locks", function("TensorDictParams", keywords=("lock",))
    ),
    # between processes
    "a-record-is-one-message": Difference(
        "both ends must use this package",
        method("send", "recv", "isend", "irecv", "init_remote", "from_remote_init", of=Value.COLLECTION),
        method("send", "recv", "isend", "irecv", "init_remote", "from_remote_init", of=Value.RECORD),
    ),
    "all-ranks-report-a-mismatch": Difference(
        "all ranks raise RecordsDiffer where keys, shapes or dtypes differ",
        method("all_reduce", "all_gather", "gather_and_stack", "reduce"),
    ),
    "there-are-no-pipes": Difference("not here: pipes need ucxx", method("asend", "arecv")),
    "chunks-are-seeded-not-workers": Difference("chunks are seeded by torch's generator", method("map", "map_iter")),
    "options-are-not-ignored": Difference(
        "options of workers beside a pool are an error", method("map", "map_iter", keywords=("pool",))
    ),
}
