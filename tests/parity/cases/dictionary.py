"""The dict interface, nested keys, copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.parity.cases.shaping import like
from tests.parity.drawn import Drawn, Made, case, maybe, spread

FLAGS = st.booleans()


def key(drawn: Drawn) -> st.SearchStrategy[Any]:
    """A key that is there, mostly, as a string where it can be."""
    keys = [*drawn.paths, ("missing",), ("missing", "below")]
    return st.sampled_from(keys).flatmap(lambda key: st.sampled_from((key, key[0])) if len(key) == 1 else st.just(key))


def new_key(drawn: Drawn) -> st.SearchStrategy[Any]:
    return st.sampled_from([*drawn.tree.entries, "new", ("new", "below")]) | key(drawn)


def keys_apart(drawn: Drawn) -> st.SearchStrategy[Any]:
    """Keys, each at most once."""
    return st.lists(st.sampled_from([*drawn.tree.entries, *drawn.paths, "missing"]), max_size=3, unique=True)


@st.composite
def value(data: Callable[..., Any], drawn: Drawn) -> Any:
    """A value that fits the batch, mostly."""
    kind = data(st.sampled_from(("leaf", "leaf", "leaf", "object", "tree", "wrong", "number")))
    if kind == "number":
        return data(st.sampled_from((1, 2.5, True)))
    size = (*drawn.batch_size[:-1], 7) if kind == "wrong" and drawn.batch_size else drawn.batch_size
    entry = {"object": draw.texts, "tree": draw.trees(3, 1)}.get(kind, draw.leaves)
    return Made(data(entry), size)


@st.composite
def fitting(data: Callable[..., Any], drawn: Drawn) -> Any:
    """A key, and a value like the one that stands there, mostly."""
    path = data(st.sampled_from([*drawn.leaves, ("missing",)]))
    leaf = drawn.leaves.get(path, draw.Leaf())
    rest = data(st.sampled_from((leaf.rest, leaf.rest, (*leaf.rest, 2))))
    dtype = data(st.sampled_from((leaf.dtype, torch.float32)))
    return path, Made(draw.Leaf(rest, dtype, 3), drawn.batch_size)


def another(drawn: Drawn) -> st.SearchStrategy[Any]:
    trees = st.just(drawn.tree) | draw.trees(4, 1)
    return trees.map(lambda tree: Made(replace(tree, more=()), drawn.batch_size))


def _set_item(data: Any, library: Any, key: Any, value: Any) -> None:
    data[key] = value


def _del_item(data: Any, library: Any, key: Any) -> None:
    del data[key]


def _fallback(data: Any, library: Any, key: Any) -> Any:
    return data.get(key, 5)


KEYS_OPTIONS = {"include_nested": maybe(FLAGS), "leaves_only": maybe(FLAGS), "sort": maybe(FLAGS)}


def _listed(name: str) -> Callable[..., Any]:
    return lambda data, library, **options: list(getattr(data, name)(**options))


READING = {
    "__getitem__: a key": case(key),
    "__contains__": case(key),
    "__len__": case(call=lambda data, library: len(data) if data.ndim else None),
    "__bool__": case(call=lambda data, library: bool(data)),
    "get": case(key),
    "get: with a default": case(key, 5),
    "get_item_shape": case(key),
    "entry_class": case(key, call=lambda data, library, key: data.entry_class(key).__name__),
    "is_non_tensor": case(key),
    "get_non_tensor": case(key, default=maybe(None)),
    "keys": case(call=_listed("keys"), **KEYS_OPTIONS),
    "keys: in": case(key, call=lambda data, library, key: key in data.keys(True)),
    "values": case(call=_listed("values"), **KEYS_OPTIONS),
    "items": case(call=_listed("items"), **KEYS_OPTIONS),
    "sorted_keys": case(call=lambda data, library: list(data.sorted_keys)),
    "non_tensor_items": case(maybe(FLAGS), call=lambda data, library, *flag: list(data.non_tensor_items(*flag))),
    "is_empty": case(),
    "batch_size": case(),
    "batch_dims": case(),
    "shape": case(),
    "ndim": case(),
    "ndimension": case(),
    "dim": case(),
    "size": case(),
    "size: of a dim": case(lambda d: draw.any_dims(d.ndim)),
    "numel": case(),
    "depth": case(),
    "dtype": case(),
    "device": case(),
    "is_cpu": case(),
    "is_cuda": case(),
    "is_meta": case(),
    "is_shared": case(),
    "is_contiguous": case(),
    "is_floating_point": case(),
    "requires_grad": case(),
    "bytes": case(count_duplicates=maybe(FLAGS)),
    "param_count": case(count_duplicates=maybe(FLAGS)),
    "names": case(),
}

WRITING = {
    "__setitem__: a key": case(new_key, value, call=_set_item),
    "__delitem__": case(key, call=_del_item),
    "set": case(new_key, value, inplace=maybe(FLAGS)),
    "set_": spread(fitting),
    "set: in place": spread(fitting, call=lambda data, library, key, value: data.set(key, value, inplace=True)),
    "set_non_tensor": case(new_key, st.sampled_from(draw.OBJECTS)),
    "setdefault": case(new_key, value),
    "fill_": case(key, 1),
    "pop": case(key),
    "pop: with a default": case(key, None),
    "popitem": case(),
    "del_": case(key),
    "clear": case(),
    "create_nested": case(new_key),
    "rename_key_": case(key, new_key, safe=maybe(FLAGS)),
    "rename_keys": case(
        lambda d: st.dictionaries(key(d), st.sampled_from(("new", "newer", ("new", "below"))), max_size=2),
        strict=maybe(FLAGS),
    ),
    "update": case(another, clone=maybe(FLAGS), inplace=maybe(FLAGS)),
    "update: of some keys": case(another, keys_to_update=keys_apart),
    "update: of a dict": case(lambda d: st.dictionaries(new_key(d), value(d), max_size=3)),
    "update_": case(lambda d: like(d) | another(d)),
    "update_: of some keys": case(like, keys_to_update=keys_apart),
    "replace": case(another),
    "copy_": case(lambda d: like(d) | another(d)),
    "filter_empty_": case(),
}

CHOOSING = {
    "select": spread(keys_apart),
    "select: not strict": spread(keys_apart, call=lambda data, library, *keys: data.select(*keys, strict=False)),
    "select: in place": spread(
        keys_apart, call=lambda data, library, *keys: data.select(*keys, strict=False, inplace=True)
    ),
    "exclude": spread(keys_apart),
    "exclude: in place": spread(keys_apart, call=lambda data, library, *keys: data.exclude(*keys, inplace=True)),
    "split_keys": case(keys_apart, inplace=maybe(FLAGS), strict=maybe(FLAGS), reproduce_struct=maybe(FLAGS)),
    "split_keys: two sets": case(keys_apart, keys_apart, strict=False),
    "separates": spread(keys_apart),
    "separates: not strict": spread(
        keys_apart, call=lambda data, library, *keys: data.separates(*keys, strict=False, default=None)
    ),
    "flatten_keys": case(separator=maybe(st.sampled_from("./_")), inplace=maybe(FLAGS)),
    "unflatten_keys": case(separator=maybe(st.sampled_from("./_")), inplace=maybe(FLAGS)),
    "unflatten_keys: of flat ones": case(call=lambda data, library: data.flatten_keys("/").unflatten_keys("/")),
    "filter_non_tensor_data": case(),
}

COPIES = {
    "empty": case(maybe(FLAGS)),
    "copy": case(),
    "clone": case(maybe(FLAGS)),
    "__copy__": case(call=lambda data, library: copy.copy(data)),
    "__deepcopy__": case(call=lambda data, library: copy.deepcopy(data)),
    "to_dict": case(retain_none=maybe(FLAGS), convert_tensors=maybe(st.sampled_from((True, False, "numpy")))),
    "to_tensordict": case(),
    "tolist": case(),
    "numpy": case(objects=False),
    "state_dict": case(call=lambda data, library: dict(data.state_dict())),
    "load_state_dict": case(
        like, call=lambda data, library, other: data.load_state_dict(other.state_dict()), objects=False
    ),
}
