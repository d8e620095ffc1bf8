"""Trees of lists, tuples, dicts and whatever else torch's pytrees know.

Every node becomes a :class:`TensorDict` that also keeps, under the key ``"_pytree_type"``, what it was; so
:func:`to_pytree` gives the tree back. Numbers and arrays come back as tensors, other leaves as they were.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from torch import Size, Tensor
from torch.utils import _pytree

from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.nontensor import NonTensorData, NonTensorDataBase
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import as_tensor

from .namedtuple import is_namedtuple
from .tree import BatchSize, C, build, plan

TYPE = "_pytree_type"  #: the class of a node
CONTEXT = "_pytree_context"  #: what else its registration needs to make one
_ENTRY = "<NON_NESTED>"  #: begins the key of an entry whose own key is no string, followed by a number
_DICTS: tuple[type, ...] = (dict, collections.OrderedDict, collections.defaultdict)


class Leaf:
    """Marks a collection of the tree that looks like a node of it, and is none."""


def from_pytree(
    cls: type[C],
    pytree: Any,
    *,
    batch_size: BatchSize = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    strict: bool = True,
) -> Any:
    """See :meth:`TensorDict.from_pytree`."""
    asked = plan(f"{cls.__name__}.from_pytree", auto_batch_size, batch_dims, batch_size, None, strict=strict)
    if issubclass(cls, TensorClass):
        names = list(cls._specs)
        if isinstance(pytree, cls):
            return pytree
        if not isinstance(pytree, Mapping) and not is_namedtuple(pytree):
            raise TypeError(
                f"{cls.__name__}.from_pytree: expected a mapping or a named tuple with the fields {names}, got a "
                f"{type(pytree).__name__}"
            )
        found = cast("Mapping[str, Any]", pytree) if isinstance(pytree, Mapping) else pytree._asdict()
        return build(cls, {key: _below(cls, key, value) for key, value in found.items()}, asked)
    node = _node(pytree)
    return build(cls, cast("dict[str, Any]", node), asked) if isinstance(node, dict) else node


def to_pytree(data: TensorCollection) -> Any:
    """See :meth:`TensorDict.to_pytree`."""
    return _tree(data)


# -- in ---------------------------------------------------------------------------------------------------------------


def _below(cls: type[TensorClass], key: Any, value: Any) -> Any:
    """A field of a record: trees below it are kept as such where it holds any collection."""
    spec = cls._specs.get(key)
    target = None if spec is None else spec.target(cls)
    if target is None or issubclass(target, Tensor) or isinstance(value, Collection):
        return value
    return from_pytree(target, value) if issubclass(target, TensorClass) else _node(value)


def _node(tree: Any) -> Any:
    """A node as a dict of the values of its collection; a leaf as its value."""
    kind: Any = tree.__class__
    if isinstance(tree, Tensor):
        return tree
    if isinstance(tree, Collection):
        looks_like_a_node = isinstance(tree, NonTensorDataBase) or TYPE in tree._store
        return {TYPE: NonTensorData(Leaf), "value": tree} if looks_like_a_node else tree
    if isinstance(tree, (bool, int, float, complex, np.ndarray, np.generic)):
        tensor = as_tensor(tree)
        return NonTensorData(tree) if tensor is None else tensor
    if kind in _DICTS:
        node = _dict(tree)
        if kind is collections.defaultdict:
            node[CONTEXT] = NonTensorData(tree.default_factory)
    elif kind is list or kind is tuple:
        node = {str(position): _node(item) for position, item in enumerate(tree)}
    elif is_namedtuple(tree):
        node = {name: _node(item) for name, item in zip(tree._fields, tree, strict=True)}
    elif kind in _pytree.SUPPORTED_NODES and kind is not Size:  # a size is an object: it cannot hold tensors
        children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(tree)
        node = {str(position): _node(item) for position, item in enumerate(children)}
        node[CONTEXT] = NonTensorData(context)
    else:
        return NonTensorData(tree)
    node[TYPE] = NonTensorData(kind)
    return node


def _dict(tree: Mapping[Any, Any]) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for position, (key, value) in enumerate(tree.items()):
        if type(key) is str and key not in (TYPE, CONTEXT) and not key.startswith(_ENTRY):
            node[key] = _node(value)
        else:
            node[f"{_ENTRY}{position}"] = {"value": _node(value), "key": NonTensorData(key)}
    return node


# -- out --------------------------------------------------------------------------------------------------------------


def _tree(value: Any) -> Any:
    if isinstance(value, NonTensorDataBase):
        return value._unwrapped()
    if not isinstance(value, TensorDict) or TYPE not in value._store:
        return value
    kind: Any = value[TYPE]
    children: dict[str, Any] = {key: item for key, item in value._store.items() if key not in (TYPE, CONTEXT)}
    if kind is Leaf:
        return children["value"]
    if kind in _DICTS:
        made: dict[Any, Any] = kind(value[CONTEXT]) if CONTEXT in value._store else kind()  # a defaultdict's factory
        for key, item in children.items():
            if key.startswith(_ENTRY):
                made[item._store["key"]._unwrapped()] = _tree(item._store["value"])
            else:
                made[key] = _tree(item)
        return made
    if CONTEXT in value._store:
        unflatten: Callable[[Any, Any], Any] = _pytree.SUPPORTED_NODES[kind].unflatten_fn
        return unflatten([_tree(children[str(position)]) for position in range(len(children))], value[CONTEXT])
    if is_namedtuple(kind):
        return kind(*[_tree(children[name]) for name in kind._fields])
    return kind(_tree(children[str(position)]) for position in range(len(children)))
