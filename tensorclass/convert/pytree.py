"""Trees of lists, tuples, dicts and whatever else the registries of torch and optree know.

Every node becomes a :class:`TensorDict` that also keeps, under the key ``"_pytree_type"``, a :class:`Node`: what it
was, and what its leaves were where they became tensors. So :func:`to_pytree` gives the tree back, also after an
operation: a number is a number while it can be one, an array an array, with the values that they have by then.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Size, Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils import _pytree

from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.memmap import MemoryMappedTensor
from tensorclass.td.namesakes import namesake
from tensorclass.td.nontensor import NonTensorData, NonTensorDataBase
from tensorclass.td.objects import listed
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import StridedNested, as_tensor, is_strided_nested, strided_nested

from .namedtuple import is_namedtuple
from .node import NOTHING, Leaf, Node, kind_of_leaf
from .tree import BatchSize, C, Plan, build, entries, plan, settled

TYPE = "_pytree_type"  #: the key of what a node was; a user's key of this name is stored under another one
_NUMBERS = frozenset((bool, int, float, complex))
_DICTS = frozenset((dict, collections.OrderedDict, collections.defaultdict))
_NO_SIZE = Size()


def from_pytree(
    cls: type[C],
    pytree: Any,
    *,
    batch_size: BatchSize = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    namespace: str = "",
    strict: bool = True,
) -> Any:
    """See :meth:`TensorDict.from_pytree`."""
    asked = plan(f"{cls.__name__}.from_pytree", auto_batch_size, batch_dims, batch_size, device, strict=strict)
    if issubclass(cls, TensorClass) and not isinstance(pytree, cls):
        return build(cls, _fields(cls, pytree, namespace, asked), asked)
    sized = bool(asked.batch_size)
    tree = _Reader(namespace, bare=not sized).tree(pytree)
    if sized and isinstance(tree, dict):
        return build(cls, cast("dict[str, Any]", tree), asked)
    if not isinstance(tree, TensorCollection):
        return tree.to(asked.device) if isinstance(tree, Tensor) and asked.device is not None else tree
    if asked.auto or asked.device is not None or asked.batch_size is not None:
        return settled(tree.clone(False), asked)
    return tree


def to_pytree(data: TensorCollection) -> Any:
    """See :meth:`TensorDict.to_pytree`."""
    return _of_record(data) if isinstance(data, TensorClass) else _grown(data, None)


# -- in ---------------------------------------------------------------------------------------------------------------


class _Reader:
    """Makes collections of nodes; or, where they are to get a batch size, dicts, which then become collections."""

    __slots__ = ("bare", "namespace")

    def __init__(self, namespace: str, bare: bool) -> None:
        self.namespace = namespace
        self.bare = bare

    def tree(self, tree: Any) -> Any:
        """A tree: a node as a collection or dict, a leaf as the value that stands for it."""
        return self.value(tree, "", {})

    def value(self, tree: Any, key: str, leaves: dict[str, Any]) -> Any:
        """What is below a key of a node. Where a leaf becomes something else, ``leaves`` says what it was."""
        kind: Any = tree.__class__
        if kind is str or tree is None:
            return _held(tree)
        if isinstance(tree, Tensor):
            return tree
        if kind in _DICTS:
            return self.of_dict(tree, kind)
        if kind is list or kind is tuple:
            return self.of_items(tree, kind)
        if isinstance(tree, Collection):
            if isinstance(tree, NonTensorDataBase) or (isinstance(tree, TensorDict) and TYPE in tree._store):
                leaves[key] = Leaf
            return tree
        if kind in _NUMBERS or isinstance(tree, (np.generic, int, float, complex)):
            tensor = _number(tree)
            if tensor is not None:
                leaves[key] = tree
                return tensor
        elif kind is np.ndarray or kind is np.memmap:  # others have more than their numbers: a mask, say
            tensor = as_tensor(tree)
            if tensor is not None:
                leaves[key] = tree.dtype
                return tensor
        elif is_namedtuple(tree):
            return self.node(kind, dict(zip(tree._fields, tree, strict=True)))
        else:
            found = _registered(kind, self.namespace)
            if found is not None:
                flatten, _, registry = found
                children, context, *_ = flatten(tree)
                return self.of_items(children, kind, context, registry)
        return _held(tree)

    def of_items(self, items: Iterable[Any], kind: type, context: Any = None, namespace: str | None = None) -> Any:
        return self.node(kind, {str(i): item for i, item in enumerate(items)}, NOTHING, context, namespace)

    def of_dict(self, tree: dict[Any, Any], kind: type) -> Any:
        context = tree.default_factory if isinstance(tree, collections.defaultdict) else None
        for key in tree:
            if type(key) is not str or key == TYPE:
                break
        else:
            return self.node(kind, dict(tree), NOTHING, context)
        children: dict[str, Any] = {}
        keys: dict[str, Any] = {}
        for position, (key, value) in enumerate(tree.items()):
            name = key
            if type(key) is not str or key == TYPE:
                name = f"<{position}>"
                while name in tree:
                    name += ">"
                keys[name] = key
            children[name] = value
        return self.node(kind, children, keys, context)

    def node(
        self,
        kind: type,
        children: dict[str, Any],
        keys: Mapping[str, Any] = NOTHING,
        context: Any = None,
        namespace: str | None = None,
    ) -> Any:
        """The node for children, which are converted in place."""
        leaves: dict[str, Any] = {}
        value = self.value
        for key, child in children.items():
            if type(child) is not Tensor:
                try:
                    child = children[key] = value(child, key, leaves)
                except StridedNested as error:
                    raise error.below(key) from None
            if self.bare and is_strided_nested(child):  # with a batch size the constructor says so
                raise strided_nested(key)
        children[TYPE] = _held(Node(kind, leaves or NOTHING, keys, context, namespace))
        if not self.bare:
            return children
        new = object.__new__(TensorDict)  # without a batch size every value fits
        new._store = children
        new._batch_size = _NO_SIZE
        new._device = new._names = new._lock = None
        return new


def _held(value: Any) -> NonTensorData:
    new = object.__new__(NonTensorData)
    new._store = {}
    new._batch_size = _NO_SIZE
    new._device = new._names = new._lock = new._metadata = None
    new._objects = (value,)
    return new


def _number(value: Any) -> Tensor | None:
    """A number as a tensor; ``None`` for one that no tensor can hold, such as an integer of more than 64 bits."""
    try:
        return as_tensor(value)
    except (RuntimeError, ValueError, OverflowError):
        return None


def _registered(kind: Any, namespace: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any], str | None] | None:
    """How a class is taken apart and made, and in which namespace of optree; ``None`` there where torch knows it.

    optree is asked where it was imported: nothing can be registered there else.
    """
    known = _pytree.SUPPORTED_NODES.get(kind)
    if known is not None and kind is not Size:  # a size is an object: it cannot hold tensors
        return known.flatten_fn, known.unflatten_fn, None
    optree: Any = sys.modules.get("optree")
    entry = None if optree is None else optree.register_pytree_node.get(kind, namespace=namespace)
    if entry is None or entry.type is not kind:  # one for all that is made like this, such as struct sequences
        return None
    return entry.flatten_func, lambda children, context: entry.unflatten_func(context, children), entry.namespace


def _fields(
    cls: type[TensorClass], source: Any, namespace: str, plan: Plan, path: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields of a record; below them trees are kept as such where a field holds any collection."""
    given: Any = source
    found = None if isinstance(given, tuple) and not is_namedtuple(source) else entries(source)
    values: dict[str, Any] = {}
    if found is None:
        fields = ", ".join(cls._specs)
        expected = f"a mapping, a named tuple or a dataclass with the fields {fields}"
        got: type = source.__class__
        plan.problems.add(path, expected, f"a {got.__name__}", namesake(got, [cls]))
        return values
    for key, value in found.items():
        spec = cls._specs.get(key)
        target = None if spec is None else spec.target(cls)
        if target is None or issubclass(target, Tensor) or isinstance(value, Collection) or value is None:
            values[key] = value
        elif issubclass(target, TensorClass):
            values[key] = _fields(target, value, namespace, plan, (*path, key))
        else:
            values[key] = _Reader(namespace, bare=True).tree(value)
    return values


# -- out --------------------------------------------------------------------------------------------------------------


def _grown(value: Any, was: Any) -> Any:
    """The tree for a value; ``was`` is what its node says of it."""
    if isinstance(value, Tensor):
        return value if was is None or was is Leaf else _as_it_was(value, was)
    if was is Leaf:
        return value
    if isinstance(value, NonTensorDataBase):
        return value._unwrapped()
    if not isinstance(value, TensorDict) or TYPE not in value._store:
        return value
    node = _node_of(value)
    if node is None:
        return value
    kind: Any = node.kind
    leaves = node.leaves
    children: dict[str, Any] = {
        key: child if type(child) is Tensor and key not in leaves else _grown(child, leaves.get(key))
        for key, child in value._store.items()
        if key != TYPE
    }
    if kind in _DICTS:
        if node.keys:
            children = {node.keys.get(key, key): child for key, child in children.items()}
        if kind is collections.defaultdict:
            return collections.defaultdict(node.context, children)
        return children if kind is dict else collections.OrderedDict(children)
    if is_namedtuple(kind):
        return kind._make(_in_order(node, children, kind._fields))
    items = _in_order(node, children, map(str, range(len(children))))
    if kind is list:
        return items
    if kind is tuple:
        return tuple(items)
    found = _registered(kind, node.namespace or "")
    if found is None:
        raise ValueError(
            f"to_pytree: {kind.__module__}.{kind.__qualname__} is not registered in this process, neither with torch "
            "nor with optree; import the module that registers it"
        )
    return found[1](items, node.context)


def _in_order(node: Node, children: Mapping[str, Any], keys: Iterable[str]) -> list[Any]:
    try:
        return [children[key] for key in keys]
    except KeyError as error:
        raise ValueError(
            f"to_pytree: a {node.kind.__name__} needs an entry for {error.args[0]!r}, and has {list(children)}"
        ) from None


def _node_of(data: TensorDict) -> Node | None:
    """What a collection was in a tree, as far as its rows agree; ``None`` where it is none."""
    holder = data._store.get(TYPE)
    if not isinstance(holder, NonTensorDataBase):
        return None
    nodes = holder._objects
    if len(nodes) > 1:
        nodes = tuple([nodes[code] for code in sorted({*listed(holder._codes().flatten())})]) or nodes[:1]
    if not nodes or not all(isinstance(node, Node) for node in nodes):
        return None
    first: Node = nodes[0]
    if len(nodes) == 1:
        return first
    if not all(first.built_as(node) for node in nodes):
        kinds = sorted({repr(node) for node in nodes})
        raise ValueError(
            f"to_pytree: the rows are trees of different kinds, {kinds}; take them one by one: "
            "[row.to_pytree() for row in data.unbind(0)]"
        )
    common = {
        key: leaf
        for key, leaf in first.leaves.items()
        if all(kind_of_leaf(node.leaves.get(key)) == kind_of_leaf(leaf) for node in nodes)
    }
    return Node(first.kind, common, first.keys, first.context, first.namespace)


def _as_it_was(tensor: Tensor, was: Any) -> Any:
    """A tensor as a number or an array, where one can be what the tensor is."""
    if not tensor.is_cpu or tensor.requires_grad or is_functorch_wrapped_tensor(tensor):
        return tensor
    if type(tensor) is not Tensor and not isinstance(tensor, MemoryMappedTensor):
        return tensor
    if isinstance(was, (np.dtype, np.generic)):
        try:
            array: Any = tensor.resolve_conj().resolve_neg().numpy()
        except (TypeError, RuntimeError):  # a dtype or a layout that numpy does not have
            return tensor
        if isinstance(was, np.generic):
            return array[()]
        native = cast("Any", was).newbyteorder("=")
        return array.astype(was, copy=False) if array.dtype == native else array
    if tensor.ndim:
        return tensor
    number: Any = tensor.item()
    if number == was and type(number) is type(was):
        return number
    if isinstance(was, bool) or not isinstance(was, type(number)):
        return number
    # what it was has more digits than the tensor, or a class of its own: it is still that if no operation came between
    return was if repr(_rounded(was, tensor)) == repr(number) else number  # which tells nan and -0.0


def _rounded(number: Any, like: Tensor) -> Any:
    try:
        return torch.tensor(number, dtype=like.dtype).item()
    except (RuntimeError, ValueError, OverflowError):
        return None


def _of_record(record: TensorClass) -> dict[str, Any]:
    """The fields of a record as :func:`from_pytree` takes them."""
    cls = type(record)
    tree: dict[str, Any] = {}
    for key, value in record._items_for_export(True):
        target = cls._specs[key].target(cls)
        inner = isinstance(value, TensorClass) and target is not None and issubclass(target, TensorClass)
        tree[key] = _of_record(value) if inner else _grown(value, None)
    return tree
