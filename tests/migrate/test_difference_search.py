"""Lines that behave differently are found, each with its entry of docs/differences.md."""

from __future__ import annotations

import re
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper

from tensorclass.migrate.difference_search import CLIENTS, Remark, remarks_on
from tensorclass.migrate.known_differences import DIFFERENCES
from tensorclass.migrate.source_names import SourceNames

ROOT = Path(__file__).parents[2]

HEAD = """\
import torch
from tensordict import *
from tensordict import LazyStackedTensorDict, MemoryMappedTensor, NonTensorData, PersistentTensorDict, TensorDict
from tensordict import TypedTensorDict, collate, from_arrow, from_consolidated, from_csv, from_dataclass, from_pandas
from tensordict import from_safetensors, merge_tensordicts, pad_sequence, set_list_to_stack, set_printoptions, stack
from tensordict import tensorclass
from tensordict import nn as N
@tensorclass
class Sample:
    image: Tensor
def f(data: TensorDict, record: Sample, unknown, others):
    pass
"""

#: a line for each entry of the table
LINES = {
    "a-field-of-objects-holds-one-object-for-all-rows": "@tensorclass\nclass A:\n    a: str",
    "a-field-of-a-number-holds-that-number": "@tensorclass\nclass A:\n    a: 'float | None' = None",
    "equal-objects-stay-one": "x = NonTensorData('a')",
    "separates-returns-only-the-requested-keys": "x = unknown.separates('a')",
    "merge_tensordicts-keeps-the-first-value-text-too": "x = merge_tensordicts(data, data)",
    "objects-are-not-leaves-for-in": "x = 'a' in data.keys(True, leaves_only=True)",
    "a-list-that-is-one-object-stays-that-list": "set_list_to_stack(True).set()",
    "each-process-has-its-own-objects": "data.share_memory_()",
    "is_shared-asks-the-tensors": "data.is_shared()",
    "apply-names-renames": "data.apply(torch.relu, names=['x'])",
    "gather-takes-an-index-of-all-batch-dimensions": "data.gather(0, index)",
    "update_at_-and-copy_at_-align-an-ellipsis-with-the-batch": "unknown.update_at_(data, 0)",
    "atleast_3d-puts-dimensions-where-torch-puts-them": "torch.atleast_3d(data)",
    "a-tensor-in-where-is-aligned-with-the-batch": "torch.where(mask, data, 0)",
    "masks-have-the-dimensions-of-what-they-mask": "pad_sequence([data], return_mask=True)",
    "sequences-are-padded-under-the-same-keys": "pad_sequence([data])",
    "an-empty-out-is-filled": "stack([data], out=data)",
    "rot90-copies": "data.rot90()",
    "options-of-printing-take-effect-at-once": "set_printoptions(compact=True)",
    "attrs-of-a-record-is-a-tensordict": "record.attrs()",
    "errors-have-the-classes-that-torch-raises-for-a-tensor": "try:\n    data[0]\nexcept (KeyError, ValueError): 0",
    "a-missing-key-has-no-class": "data.entry_class('a')",
    "amin-amax-and-prod-reduce-as-sum-does": "data.amax(dim=0)",
    "quantile-reduces-over-all-dimensions-that-it-is-given": "data[0].quantile(0.5)",
    "results-and-copies-of-rows-are-plain": "unknown.get_sub_tensordict(0)",
    "update-ignore_lock-true-writes-to-a-locked-collection": "data.update(data, ignore_lock=True)",
    "a-with-block-writes-back-all-changes": "with data.view(-1) as flat: 0",
    "operations-that-mix-items-return-a-plain-collection": "LazyStackedTensorDict.lazy_stack([data])",
    "padded-values-lie-along-the-stack-dimension": "data.get('a', as_padded_tensor=True)",
    "a-collection-is-not-a-mapping": "isinstance(unknown, (list, Mapping))",
    "empty-collections-stay": "data.split_keys(['a'])",
    "only-the-requested-keys-are-updated": "data.update(data, keys_to_update=['a'])",
    "pack-keeps-the-order-of-the-keys": "data.pack()",
    "nested-keys-come-after-their-owner": "data.keys(include_nested=True)",
    "pytrees-come-back-whole": "TensorDict.from_pytree([1])",
    "a-record-is-a-tree-of-its-fields": "record.to_pytree()",
    "a-dataclass-has-one-record-class": "from_dataclass(unknown)",
    "text-of-arrays-and-tables-belongs-to-its-row": "data.to_struct_array()",
    "categories-are-their-values": "from_pandas(frame)",
    "lists-are-ragged-rows": "from_arrow(table)",
    "missing-values-in-files-are-an-error": "TensorDict.from_json(path)",
    "file-options-are-those-of-pyarrow": "from_csv(path)",
    "padding-does-not-cast": "collate(rows, pad_keys={'a': 0})",
    "loading-into-a-collection-writes-in-place": "TensorDict.load_memmap(path, out=data)",
    "a-collection-belongs-to-its-folder-locked-or-not": "unknown.is_memmap()",
    "reading-never-changes-a-file": "MemoryMappedTensor.from_filename(path, torch.int, [2])",
    "a-folder-is-complete-and-has-no-files-of-earlier-keys": "unknown.memmap_(path)",
    "a-folder-is-loaded-into-the-requested-class": "TensorDict.load_memmap(path)",
    "pickles-need-allow_pickle-true": "Sample.load_memmap(path)",
    "consolidated-files-store-no-device": "from_consolidated(path)",
    "names-from-other-programs-are-kept": "from_safetensors(path)",
    "operations-on-a-file-return-collections-in-memory": "PersistentTensorDict(filename=path)",
    "optree-goes-into-collections": "import optree\noptree.tree_map(f, data)",
    "get-of-a-record-works-as-in-every-collection": "record.get('a')",
    "a-record-of-a-collection-is-separate-from-it": "Sample.from_tensordict(data)",
    "flat-keys-make-a-plain-collection": "record.flatten_keys()",
    "a-record-of-integers-keeps-them-in-a-cast": "record.to(torch.half)",
    "__post_init__-runs-when-a-record-is-made-from-values": "class B(Sample):\n    def __post_init__(self): ...",
    "a-typed-tensordict-has-its-keys-from-the-start": "class T(TypedTensorDict): ...",
    "nested-tensors-are-jagged": "data.densify()",
    "the-bounds-of-a-truncated-normal-are-its-arguments": "N.ProbabilisticTensorDictModule(['x'], N.TruncatedNormal)",
    "a-delta-is-of-any-dtype": "N.distributions.Delta(x)",
    "one-hot-categories-are-vectors": "N.OneHotCategorical(x)",
    "the-inverse-softplus-needs-a-positive-number": "N.biased_softplus(0.1)",
    "location-and-scale-need-an-even-last-dimension": "N.NormalParamExtractor()",
    "samples-of-several-variables-can-have-gradients": "N.CompositeDistribution({}, {})",
    "only-out_keys-are-written": "N.distributions.CompositeDistribution({}, {})",
    "each-module-uses-its-own-interaction-type": "N.ProbabilisticTensorDictSequential(a, b)",
    "cache_dist-true-keeps-the-distribution": "N.ProbabilisticTensorDictModule(['x'], cache_dist=True)",
    "build_dist_from_params-returns-the-distribution-of-the-sequence": "unknown.build_dist_from_params(data)",
    "keys-that-are-not-selected-stay-as-they-are": "unknown.select_out_keys('a')",
    "a-sequence-that-writes-elsewhere-writes-its-out_keys": "N.TensorDictSequential(a, inplace=False)",
    "a-record-gives-a-record-with-inplace-false": "N.TensorDictModule(a, inplace=False)",
    "keywords-of-the-call-take-precedence": "N.TensorDictModule(a, method_kwargs={})",
    "cuda-graphs-need-cuda": "N.CudaGraphModule(a)",
    "a-swap-changes-the-tensors-of-a-module-and-nothing-else": "unknown.to_module(a)",
    "use_state_dict-calls-the-hooks-of-state-dicts": "unknown.to_module(a, use_state_dict=True)",
    "parameters-leave-their-source-unchanged": "N.TensorDictParams(data)",
    "a-locked-collection-of-parameters-is-locked": "N.TensorDictParams(data, lock=True)",
    "a-record-is-one-message": "data.send(1)",
    "all-ranks-report-a-mismatch": "data.all_reduce()",
    "there-are-no-pipes": "unknown.asend(pipe)",
    "chunks-are-seeded-not-workers": "data.map(f)",
    "options-are-not-ignored": "data.map(f, pool=pool)",
}

#: lines about which there is nothing to say
ALIKE = (
    "x = torch.zeros(3).amax(dim=0)",
    "unknown.gather(0, index), unknown.quantile(0.5), unknown.to(torch.half), unknown.map(f), unknown.pack()",
    "torch.where(mask, unknown, 0)",
    "data.to(torch.half)",
    "data['a'].amax(dim=0), data[others].amax(dim=0)",
    "with unknown.view(-1) as flat: 0",
    "isinstance(data, TensorDict)",
    "'a' in data.keys()",
    "try:\n    unknown.view(3)\nexcept ValueError: 0",
    "class A:\n    a: str\n    def __post_init__(self): ...",
    "import numpy as np\nnp.load(path), np.save(path)",
    "data = unknown\ndata.amax(dim=0)",
)


def remarks(lines: str) -> list[Remark]:
    """Return the remarks on lines in a function that has ``data`` and ``record``, with numbers from its first line."""
    source = HEAD.rstrip() + "\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    wrapper = MetadataWrapper(cst.parse_module(source))
    first = HEAD.count("\n")
    return [one._replace(line=one.line - first) for one in remarks_on(wrapper, SourceNames(wrapper))]


def test_each_entry_of_the_table_has_a_line() -> None:
    assert set(DIFFERENCES) == set(LINES)


@pytest.mark.parametrize("anchor", LINES)
def test_a_line_is_found_with_its_entry(anchor: str) -> None:
    assert f"docs/differences.md#{anchor}" in [remark.entry for remark in remarks(LINES[anchor])]


@pytest.mark.parametrize("lines", ALIKE)
def test_lines_that_behave_alike_are_not_reported(lines: str) -> None:
    assert remarks(lines) == []


def test_a_remark_has_the_line_of_its_code() -> None:
    assert [remark.line for remark in remarks("x = 0\ndata.amax(\n    dim=0)\nx = data.quantile(0.5)")] == [2, 4]


def test_names_without_a_counterpart_are_named() -> None:
    source = "from tensordict.utils import _zip_strict\nimport tensordict as td\ntd.no_such_name\n"
    wrapper = MetadataWrapper(cst.parse_module(source))
    assert [(one.line, one.says) for one in remarks_on(wrapper, SourceNames(wrapper))] == [
        (1, "tensordict.utils._zip_strict has no counterpart: a private name of tensordict"),
        (3, "tensordict.no_such_name has no counterpart: this package has nothing of that name"),
    ]


def test_modules_named_by_text_and_libraries_on_the_peer_are_named() -> None:
    assert [
        one.says
        for one in remarks("importlib.import_module('tensordict.nn')\nimport torchrl.data\nfrom torchrl import envs")
    ] == [
        '"tensordict.nn" is text, and stays as it is',
        "torchrl takes and returns collections of tensordict",
    ]


def test_every_entry_has_an_anchor_in_the_page() -> None:
    anchors = re.findall(r'^<a id="([\w-]+)"></a>$', (ROOT / "docs" / "differences.md").read_text(), re.MULTILINE)
    assert len(anchors) == len(set(anchors))
    assert [anchor for anchor in DIFFERENCES if anchor not in anchors] == []


def test_pages_for_other_libraries_have_their_headings() -> None:
    for page in CLIENTS.values():
        path, _, anchor = page.partition("#")
        headings = re.findall(r"^#+ (.+)", (ROOT / path).read_text(), re.MULTILINE)
        assert anchor in [heading.lower().replace(" ", "-") for heading in headings]
