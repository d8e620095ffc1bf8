"""The engine: untyped collections of tensors. It knows nothing of records."""

from . import vmapping
from .base import TensorCollection
from .comparing import assert_allclose_td, assert_close
from .dataset import collate
from .dtypes import is_bool, is_floating, is_inexact, is_integer
from .get import default_is_leaf, get_defaults_to_none, set_get_defaults_to_none
from .grouping import group_by, isin, remove_duplicates
from .keys import (
    KEY_SEPARATOR,
    NestedKey,
    is_seq_of_nested_key,
    unravel_key,
    unravel_key_list,
    unravel_key_to_tuple,
)
from .leaves.linked_list import LinkedList
from .leaves.nontensor import (
    MetaData,
    NonTensorData,
    NonTensorDataBase,
    NonTensorStack,
    is_leaf_nontensor,
    is_non_tensor,
)
from .leaves.unbatched_tensor import UnbatchedTensor
from .legacy import lazy_legacy, set_lazy_legacy
from .memory.mapped_tensor import MemmapTensor, MemoryMappedTensor
from .modes import (
    capture_non_tensor_stack,
    list_to_stack,
    set_capture_non_tensor_stack,
    set_list_to_stack,
)
from .packing import PackLayout
from .padding import pad, pad_sequence, unpad_sequence
from .prepared_index import convert_ellipsis_to_idx
from .printing.print_options import get_printoptions, set_printoptions
from .repr_parser import parse_tensor_dict_string
from .shape_operations import expand_as_right, expand_right
from .shapes import infer_size_impl
from .stack_and_cat import cat, merge_tensordicts, stack, where
from .stores import SubTensorDict
from .stores.lazy import LazyStackedTensorDict, dense_stack_tds, lazy_stack, maybe_dense_stack
from .tensordict import TensorDict, fromkeys, make_tensordict

vmapping.install()

__all__ = [
    "KEY_SEPARATOR",
    "LazyStackedTensorDict",
    "LinkedList",
    "MemmapTensor",
    "MemoryMappedTensor",
    "MetaData",
    "NestedKey",
    "NonTensorData",
    "NonTensorDataBase",
    "NonTensorStack",
    "PackLayout",
    "SubTensorDict",
    "TensorCollection",
    "TensorDict",
    "UnbatchedTensor",
    "assert_allclose_td",
    "assert_close",
    "capture_non_tensor_stack",
    "cat",
    "collate",
    "convert_ellipsis_to_idx",
    "default_is_leaf",
    "dense_stack_tds",
    "expand_as_right",
    "expand_right",
    "fromkeys",
    "get_defaults_to_none",
    "get_printoptions",
    "group_by",
    "infer_size_impl",
    "is_bool",
    "is_floating",
    "is_inexact",
    "is_integer",
    "is_leaf_nontensor",
    "is_non_tensor",
    "is_seq_of_nested_key",
    "isin",
    "lazy_legacy",
    "lazy_stack",
    "list_to_stack",
    "make_tensordict",
    "maybe_dense_stack",
    "merge_tensordicts",
    "pad",
    "pad_sequence",
    "parse_tensor_dict_string",
    "remove_duplicates",
    "set_capture_non_tensor_stack",
    "set_get_defaults_to_none",
    "set_lazy_legacy",
    "set_list_to_stack",
    "set_printoptions",
    "stack",
    "unpad_sequence",
    "unravel_key",
    "unravel_key_list",
    "unravel_key_to_tuple",
    "where",
]
