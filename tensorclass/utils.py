"""What ``tensordict.utils`` has for users, by the same names; each lives in the module of its subject."""

from torch.nn import Buffer

from .td import (
    KEY_SEPARATOR,
    assert_allclose_td,
    assert_close,
    convert_ellipsis_to_idx,
    expand_as_right,
    expand_right,
    infer_size_impl,
    is_non_tensor,
    is_seq_of_nested_key,
    isin,
    lazy_legacy,
    remove_duplicates,
    set_lazy_legacy,
    unravel_key,
    unravel_key_list,
)

__all__ = [
    "KEY_SEPARATOR",
    "Buffer",
    "assert_allclose_td",
    "assert_close",
    "convert_ellipsis_to_idx",
    "expand_as_right",
    "expand_right",
    "infer_size_impl",
    "is_non_tensor",
    "is_seq_of_nested_key",
    "isin",
    "lazy_legacy",
    "remove_duplicates",
    "set_lazy_legacy",
    "unravel_key",
    "unravel_key_list",
]
