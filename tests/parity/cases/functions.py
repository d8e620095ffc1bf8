"""Functions of the package, constructors, conversions: what is not called on a collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tests.parity.cases.dictionary import another, keys_apart
from tests.parity.cases.shaping import existing_dim, like
from tests.parity.drawn import case, maybe, spread

FLAGS = st.booleans()


def _class(name: str, *values: Callable[[Any], Any]) -> Callable[..., Any]:
    """A call of a constructor with what is made of the collection, and options."""
    return lambda data, library, *args, **options: getattr(library.TensorDict, name)(
        *(value(data) for value in values), *args, **options
    )


def _function(name: str, *values: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda data, library, *args, **options: getattr(library, name)(
        *(value(data) for value in values), *args, **options
    )


def as_dict(data: Any) -> dict[str, Any]:
    return data.to_dict()  # type: ignore[no-any-return]


AUTO = {"auto_batch_size": maybe(FLAGS), "batch_dims": maybe(st.integers(0, 2))}
KEYS = st.sampled_from(("a", ("a", "b"), ("a", ("b", "c")), (("a",),), "a.b", 1, ("a", 1), None, ()))


def _from_instance(data: Any, library: Any, **options: Any) -> Any:
    return data.from_dict_instance(data.to_dict(), **options)


def _size(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.just(drawn.batch_size)


CONSTRUCTORS = {
    "from_dict": case(call=_class("from_dict", as_dict), **AUTO, objects=False),
    "from_dict: a batch size": case(call=_class("from_dict", as_dict), batch_size=_size, objects=False),
    "from_dict()": case(call=_function("from_dict", as_dict), **AUTO, objects=False),
    "from_dict_instance": case(call=_from_instance, **AUTO, objects=False),
    "from_any": case(call=_class("from_any", as_dict), **AUTO, objects=False),
    "from_any()": case(call=_function("from_any", as_dict), **AUTO, objects=False),
    "from_pytree": case(call=_class("from_pytree", as_dict), **AUTO, objects=False),
    "from_pytree()": case(call=_function("from_pytree", as_dict), **AUTO, objects=False),
    "to_pytree": case(objects=False),
    "from_tuple": case(call=_class("from_tuple", lambda data: tuple(data.values())), **AUTO, objects=False),
    "from_tuple()": case(call=_function("from_tuple", lambda data: tuple(data.values())), **AUTO, objects=False),
    "from_list": case(call=_class("from_list", lambda data: [part.to_dict() for part in data]), dims=1, objects=False),
    "fromkeys": case(keys_apart, 1, call=_class("fromkeys")),
    "fromkeys()": case(keys_apart, 1, call=_function("fromkeys")),
    "make_tensordict()": case(call=_function("make_tensordict", as_dict), auto_batch_size=maybe(FLAGS), objects=False),
    "from_schema": case(
        call=lambda data, library: library.TensorDict.from_schema(
            {"a": ([2], torch.float32), "b": ([], torch.int64)}, batch_size=data.batch_size
        ).zero_()
    ),
    "attrs": case(fields=maybe(st.sampled_from((("shape",), ("dtype", "device"))))),
}  # fmt: skip


def _padding(drawn: Drawn) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 2), min_size=2 * drawn.ndim, max_size=2 * drawn.ndim)


def _padded(data: Any, library: Any, other: Any, **options: Any) -> Any:
    return library.pad_sequence([data[:1], other], **options)


def _joined(name: str) -> Callable[..., Any]:
    return lambda data, library, *keys: getattr(data, name)(*keys, out_key="out")


TENSORS = {
    "pad": case(_padding, value=maybe(1.0), dims=1),
    "pad()": case(_padding, value=maybe(1.0), dims=1),
    "pad_sequence()": case(
        like, padding_value=maybe(1.0), return_mask=maybe(FLAGS), dims=1, objects=False, call=_padded
    ),
    "cat_tensors": spread(keys_apart, call=_joined("cat_tensors"), objects=False),
    "stack_tensors": spread(keys_apart, call=_joined("stack_tensors"), objects=False),
    "cat_from_tensordict": case(maybe(existing_dim), objects=False),
    "stack_from_tensordict": case(maybe(existing_dim), objects=False),
    "pack": case(call=lambda data, library: data.pack()[0], objects=False, numbers=True),
    "merge_tensordicts()": case(another),
    "assert_close()": case(like),
    "dense_stack_tds()": case(like, call=lambda data, library, other: library.dense_stack_tds([data, other], 0)),
    "is_tensor_collection()": case(),
    "is_tensorclass()": case(),
    "is_non_tensor()": case(),
}  # fmt: skip

PLAIN = {
    "unravel_key()": case(KEYS, call=lambda data, library, key: library.unravel_key(key)),
    "unravel_key_list()": case(
        st.lists(KEYS, max_size=3), call=lambda data, library, keys: library.unravel_key_list(keys)
    ),
    "unravel_key_to_tuple()": case(KEYS, call=lambda data, library, key: library.unravel_key_to_tuple(key)),
}
