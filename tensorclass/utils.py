"""The public names of ``tensordict.utils``. Each is defined in the module of its subject."""

from torch.nn import Buffer

from . import is_tensorclass
from .support.log import logger
from .support.timing import timeit
from .td import (
    KEY_SEPARATOR,
    LinkedList,
    assert_allclose_td,
    assert_close,
    capture_non_tensor_stack,
    convert_ellipsis_to_idx,
    expand_as_right,
    expand_right,
    get_printoptions,
    infer_size_impl,
    is_non_tensor,
    is_seq_of_nested_key,
    isin,
    lazy_legacy,
    list_to_stack,
    parse_tensor_dict_string,
    remove_duplicates,
    set_capture_non_tensor_stack,
    set_lazy_legacy,
    set_list_to_stack,
    set_printoptions,
    unravel_key,
    unravel_key_list,
)

__all__ = [
    "KEY_SEPARATOR",
    "Buffer",
    "LinkedList",
    "assert_allclose_td",
    "assert_close",
    "capture_non_tensor_stack",
    "convert_ellipsis_to_idx",
    "expand_as_right",
    "expand_right",
    "get_printoptions",
    "infer_size_impl",
    "is_non_tensor",
    "is_seq_of_nested_key",
    "is_tensorclass",
    "isin",
    "lazy_legacy",
    "list_to_stack",
    "logger",
    "parse_tensor_dict_string",
    "remove_duplicates",
    "set_capture_non_tensor_stack",
    "set_lazy_legacy",
    "set_list_to_stack",
    "set_printoptions",
    "timeit",
    "unravel_key",
    "unravel_key_list",
]
