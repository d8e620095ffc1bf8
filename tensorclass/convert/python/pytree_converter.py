"""Pytrees: lists, tuples, dicts and all types in the registries of torch and optree.

Each node becomes a :class:`TensorDict` that also keeps a :class:`PytreeNode` under the key ``"_pytree_type"``: the type
of the node, and of leaves that became tensors. So :func:`to_pytree` restores the tree, also after operations: numbers
and arrays come back as such, with their current values, where the tensor still allows that.
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
from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionKwargs, ConversionOptions
from tensorclass.convert.conversion_steps import C, build, with_metadata
from tensorclass.convert.conversion_targets import entries
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.leaves.nontensor import NonTensorData
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.same_named_classes import namesake
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import StridedNested, as_tensor, have_plain_keys, is_strided_nested, strided_nested

from .namedtuple import is_namedtuple
from .pytree_node import NOTHING, PytreeLeaf, PytreeNode, leaf_category

METHODS_OF = "PythonObjects"

TYPE = "_pytree_type"  #: key of the recorded node; a user's key of this name is stored under another one
_NUMBERS = frozenset((bool, int, float, complex))
#: the dtypes of numbers; ``None`` is the default dtype
_DTYPES: dict[type, torch.dtype | None] = {bool: torch.bool, int: torch.int64, float: None}
_DICTS = frozenset((dict, collections.OrderedDict, collections.defaultdict))
_NO_SIZE = Size()
#: the nodes of most trees: their leaves and keys are stored as they are
_PLAIN_NODES: dict[type, PytreeNode] = {node_type: PytreeNode(node_type) for node_type in (dict, list, tuple)}


def from_pytree(cls: type[C], pytree: Any, *, namespace: str = "", **kwargs: Unpack[ConversionKwargs]) -> Any:
    """Convert a pytree and remember its structure, which :meth:`to_pytree` restores.

    Every node becomes a :class:`TensorDict`: lists, tuples, named tuples, dicts with any keys, deques, and classes
    that are registered with ``torch.utils._pytree`` or optree. Numbers and arrays become tensors, collections stay
    unchanged, other leaves become non-tensor data. The type of each node is stored beside the values, under the key
    ``"_pytree_type"``. A tree that is a single leaf gives the value itself: a number gives a tensor.

    Args:
        pytree: the tree.
        ConversionKwargs: batch_size, auto_batch_size, batch_dims, device
        namespace: a namespace of optree's registry, in addition to the global one.
        ConversionKwargs: strict

    Example:
        >>> from tensorclass import TensorDict
        >>> data = TensorDict.from_pytree([1, {"a": (2.5, None), 3: "text"}])
        >>> data.to_pytree()
        [1, {'a': (2.5, None), 3: 'text'}]
        >>> (data * 2).to_pytree()
        [2, {'a': (5.0, None), 3: 'text'}]
    """
    options = ConversionOptions.of(f"{class_name(cls)}.from_pytree", **kwargs)
    if issubclass(cls, TensorClass) and not isinstance(pytree, cls):
        return build(cls, _fields(cls, pytree, namespace, options), options)
    sized = bool(options.batch_size)
    tree = _PytreeReader(namespace, bare=not sized).tree(pytree)
    if sized and isinstance(tree, dict):
        return build(cls, cast("dict[str, Any]", tree), options)
    if not isinstance(tree, TensorCollection):
        return tree.to(options.device) if isinstance(tree, Tensor) and options.device is not None else tree
    if options.auto or options.device is not None or options.batch_size is not None:
        return with_metadata(tree.clone(False), options)
    return tree


def to_pytree(data: TensorCollection) -> Any:
    """Return the tree from which :meth:`from_pytree` made this collection.

    A collection that does not come from :meth:`from_pytree` is a leaf and is returned unchanged. Numbers and arrays
    come back as numbers and arrays, with their current values and dtypes. They stay tensors if they are on another
    device or require a gradient, and numbers also if they have batch dimensions. A record gives a dict of its
    fields. Records and trees in fields that are declared so are restored as well.

    Raises:
        ValueError: the rows are trees of different structures (:meth:`unbind` separates them), an entry that a named
            tuple needs is missing, or a class is no longer registered.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_pytree([1, (2.5, "text")]).to_pytree()
        [1, (2.5, 'text')]
    """
    return _restore_record(data) if isinstance(data, TensorClass) else _restore(data, None)


# -- in ---------------------------------------------------------------------------------------------------------------


class _PytreeReader:
    """Converts nodes to collections, or to dicts if a batch size is to be set."""

    __slots__ = ("bare", "namespace")

    def __init__(self, namespace: str, bare: bool) -> None:
        self.namespace = namespace
        self.bare = bare

    def tree(self, tree: Any) -> Any:
        """Convert a tree."""
        return self.value(tree, "", {})

    def value(self, tree: Any, key: str, leaves: dict[str, Any]) -> Any:
        """Convert the value under a key of a node. ``leaves`` records what converted leaves were."""
        node_type: Any = tree.__class__
        if node_type is list or node_type is tuple:
            return self.node(node_type, {str(i): item for i, item in enumerate(tree)})
        if node_type in _DICTS:
            return self.of_dict(tree, node_type)
        if node_type is str or tree is None:
            return NonTensorData._of_rows(tree, _NO_SIZE)
        if isinstance(tree, Tensor):
            return tree
        if isinstance(tree, Collection):
            if holds_objects(tree) or (isinstance(tree, TensorDict) and TYPE in tree._store):
                leaves[key] = PytreeLeaf
            return tree
        if node_type in _NUMBERS or isinstance(tree, (np.generic, int, float, complex)):
            tensor = _number(tree)
            if tensor is not None:
                leaves[key] = tree
                return tensor
        elif node_type is np.ndarray or node_type is np.memmap:  # subclasses have more than numbers, as a mask
            tensor = as_tensor(tree)
            if tensor is not None:
                leaves[key] = tree.dtype
                return tensor
        elif is_namedtuple(tree):
            return self.node(node_type, dict(zip(tree._fields, tree, strict=True)))
        else:
            found = _registered(node_type, self.namespace)
            if found is not None:
                flatten, _, registry = found
                items, context, *_ = flatten(tree)
                children = {str(i): item for i, item in enumerate(items)}
                return self.node(node_type, children, NOTHING, context, registry)
        return NonTensorData._of_rows(tree, _NO_SIZE)

    def of_dict(self, tree: dict[Any, Any], node_type: type) -> Any:
        context: Any = getattr(tree, "default_factory", None)
        if TYPE not in tree and have_plain_keys(tree):
            return self.node(node_type, dict(tree), NOTHING, context)
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
        return self.node(node_type, children, keys, context)

    def node(
        self,
        node_type: type,
        children: dict[str, Any],
        keys: Mapping[str, Any] = NOTHING,
        context: Any = None,
        namespace: str | None = None,
    ) -> Any:
        """Make a node; its children are converted in place."""
        leaves: dict[str, Any] = {}
        value = self.value
        for key, child in children.items():
            if type(child) is not Tensor:
                try:
                    child = children[key] = value(child, key, leaves)
                except StridedNested as error:
                    raise error.below(key) from None
                if type(child) is TensorDict:
                    continue
            elif not child.is_nested:
                continue
            if self.bare and is_strided_nested(child):  # with a batch size the constructor says so
                raise strided_nested(key)
        node = None if leaves or keys or context is not None else _PLAIN_NODES.get(node_type)
        if node is None:
            node = PytreeNode(node_type, leaves or NOTHING, keys, context, namespace)
        children[TYPE] = NonTensorData._of_rows(node, _NO_SIZE)
        return TensorDict._on_store(children, _NO_SIZE) if self.bare else children  # every value fits an empty size


def _number(value: Any) -> Tensor | None:
    """Convert a number to a tensor; ``None`` if no tensor holds it, as an integer of more than 64 bits."""
    number_type: type = value.__class__
    try:
        if number_type in _DTYPES:
            return torch.scalar_tensor(value, dtype=_DTYPES[number_type])  # faster than torch.tensor
    except (RuntimeError, OverflowError):  # too large; torch.tensor makes infinities of floats
        pass
    try:
        return as_tensor(value)
    except (RuntimeError, ValueError, OverflowError):
        return None


def _registered(
    node_type: Any, namespace: str
) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any], str | None] | None:
    """Look up flatten and unflatten functions of a type, and its namespace in optree (``None`` for torch).

    optree is asked only if it has been imported: nothing can be registered with it otherwise.
    """
    known = _pytree.SUPPORTED_NODES.get(node_type)
    if known is not None and node_type is not Size:  # a torch.Size is an object: it cannot hold tensors
        return known.flatten_fn, known.unflatten_fn, None
    optree: Any = sys.modules.get("optree")
    entry = None if optree is None else optree.register_pytree_node.get(node_type, namespace=namespace)
    if entry is None or entry.type is not node_type:  # an entry for several types, such as struct sequences
        return None
    return entry.flatten_func, lambda children, context: entry.unflatten_func(context, children), entry.namespace


def _fields(
    cls: type[TensorClass], source: Any, namespace: str, options: ConversionOptions, path: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the fields of a record. Fields that take any collection hold trees."""
    given: Any = source
    found = None if isinstance(given, tuple) and not is_namedtuple(source) else entries(source)
    values: dict[str, Any] = {}
    if found is None:
        fields = ", ".join(cls._specs)
        expected = f"a mapping, a named tuple or a dataclass with the fields {fields}"
        got: type = source.__class__
        options.problems.add(path, expected, f"a {class_name(got)}", namesake(got, [cls]))
        return values
    for key, value in found.items():
        spec = cls._specs.get(key)
        target = None if spec is None else spec.target(cls)
        if target is None or issubclass(target, Tensor) or isinstance(value, Collection) or value is None:
            values[key] = value
        elif issubclass(target, TensorClass):
            values[key] = _fields(target, value, namespace, options, (*path, key))
        else:
            values[key] = _PytreeReader(namespace, bare=True).tree(value)
    return values


# -- out --------------------------------------------------------------------------------------------------------------


def _restore(value: Any, recorded: Any) -> Any:
    """Restore the tree of a value; ``recorded`` is what its node recorded."""
    if recorded is PytreeLeaf:
        return value
    if not isinstance(value, TensorDict):
        if isinstance(value, Tensor):
            return value if recorded is None else _restore_leaf(value, recorded)
        return value._unwrapped() if holds_objects(value) else value
    node = _node_of(value)
    if node is None:
        return value
    node_type: Any = node.kind
    leaves = node.leaves
    children: dict[str, Any] = {
        key: child if type(child) is Tensor and key not in leaves else _restore(child, leaves.get(key))
        for key, child in {**value._store}.items()
        if key != TYPE
    }
    if node_type is list or node_type is tuple:
        items: Any = _in_order(node, children, map(str, range(len(children))))
        return items if node_type is list else tuple(items)
    if node_type in _DICTS:
        if node.keys:
            children = {node.keys.get(key, key): child for key, child in children.items()}
        if node_type is collections.defaultdict:
            return collections.defaultdict(node.context, children)
        return children if node_type is dict else collections.OrderedDict(children)
    if is_namedtuple(node_type):
        return node_type._make(_in_order(node, children, node_type._fields))
    found = _registered(node_type, node.namespace or "")
    if found is None:
        raise ValueError(
            f"to_pytree: {node_type.__module__}.{node_type.__qualname__} is not registered in this process, neither "
            "with torch nor with optree; import the module that registers it"
        )
    return found[1](_in_order(node, children, map(str, range(len(children)))), node.context)


def _in_order(node: PytreeNode, children: Mapping[str, Any], keys: Iterable[str]) -> list[Any]:
    """Return the children in the order of keys."""
    try:
        return [children[key] for key in keys]
    except KeyError as error:
        raise ValueError(
            f"to_pytree: a {class_name(node.kind)} needs an entry for {error.args[0]!r}, and has {list(children)}"
        ) from None


def _node_of(data: TensorDict) -> PytreeNode | None:
    """Return the recorded node of a collection, as far as its rows agree; ``None`` without one."""
    holder = data._store.get(TYPE)
    if not holds_objects(holder):
        return None
    if holder._is_uniform and isinstance(only := holder._unwrapped(), PytreeNode):  # most nodes: no codes are needed
        return only
    nodes, codes = holder._coded_objects()
    if len(nodes) > 1:
        nodes = tuple([nodes[code] for code in sorted({*to_lists(codes.flatten())})]) or nodes[:1]
    if not nodes or not all(isinstance(node, PytreeNode) for node in nodes):
        return None
    first: PytreeNode = nodes[0]
    if not all(first.built_as(node) for node in nodes):
        shown = sorted({repr(node) for node in nodes})
        raise ValueError(
            f"to_pytree: the rows are trees of different kinds, {shown}; take them one by one: "
            "[row.to_pytree() for row in data.unbind(0)]"
        )
    common = {
        key: leaf
        for key, leaf in first.leaves.items()
        if all(leaf_category(node.leaves.get(key)) == leaf_category(leaf) for node in nodes)
    }
    return PytreeNode(first.kind, common, first.keys, first.context, first.namespace)


def _restore_leaf(tensor: Tensor, recorded: Any) -> Any:
    """Restore a tensor to a number or array, if its value allows that."""
    if not tensor.is_cpu or tensor.requires_grad or is_functorch_wrapped_tensor(tensor):
        return tensor
    if type(tensor) is not Tensor and not isinstance(tensor, MemoryMappedTensor):
        return tensor
    if isinstance(recorded, (np.dtype, np.generic)):
        try:
            array: Any = tensor.resolve_conj().resolve_neg().numpy()
        except (TypeError, RuntimeError):  # numpy lacks the dtype or layout
            return tensor
        if isinstance(recorded, np.generic):
            return array[()]
        native = cast("Any", recorded).newbyteorder("=")
        return array.astype(recorded, copy=False) if array.dtype == native else array
    if tensor.ndim:
        return tensor
    number: Any = tensor.item()
    if number == recorded and type(number) is type(recorded):
        return number
    if isinstance(recorded, bool) or not isinstance(recorded, type(number)):
        return number
    # The original has more digits, or a class of its own. Return it if no operation changed the value;
    return recorded if repr(_rounded(recorded, tensor)) == repr(number) else number  # repr distinguishes nan and -0.0


def _rounded(number: Any, like: Tensor) -> Any:
    try:
        return torch.tensor(number, dtype=like.dtype).item()
    except (RuntimeError, ValueError, OverflowError):
        return None


def _restore_record(record: TensorClass) -> dict[str, Any]:
    """Return the fields of a record, as :func:`from_pytree` takes them."""
    cls = type(record)
    tree: dict[str, Any] = {}
    for key, value in record._items_for_export(True):
        target = cls._specs[key].target(cls)
        inner = isinstance(value, TensorClass) and target is not None and issubclass(target, TensorClass)
        tree[key] = _restore_record(value) if inner else _restore(value, None)
    return tree
