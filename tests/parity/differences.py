"""Where the two libraries differ on purpose, as far as the drawn operations meet it.

Each entry stands under a heading of docs/differences.md, which gives the reason; test_differences asserts an example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from tests import strategies as draw
from tests.parity.cases.values import DTYPES
from tests.parity.drawn import Arguments, Drawn, Made, OnTheCollection
from tests.parity.sides import Collected, Objects, Raised, Seen, Values

Known = Callable[[str, Drawn, Arguments, Seen, Seen], bool]

#: an error here, and the one there, where both refuse: "Errors have the classes that torch raises for a tensor."
ERRORS: dict[str, set[tuple[type[Exception], type[Exception]]]] = {
    "flatten": {(IndexError, RuntimeError), (IndexError, ValueError), (RuntimeError, ValueError)},
    "unsqueeze": {(IndexError, RuntimeError)},
    "__exit__": {(IndexError, RuntimeError)},
    "repeat_interleave": {(IndexError, ValueError)},
    "split": {(RuntimeError, ValueError)},
    "chunk": {(RuntimeError, ValueError)},
    "tensor_split": {(RuntimeError, ValueError)},
    "narrow": {(IndexError, RuntimeError)},
    "rot90": {(IndexError, RuntimeError), (RuntimeError, IndexError)},
    "any": {(IndexError, RuntimeError)},
    "all": {(IndexError, RuntimeError)},
    "max": {(IndexError, RuntimeError)},
    "min": {(IndexError, RuntimeError)},
    "logsumexp": {(IndexError, ValueError)},
    "clamp": {(RuntimeError, TypeError)},
    "densify": {(ValueError, RuntimeError)},
    "refine_names": {(ValueError, IndexError), (RuntimeError, ValueError)},
    **{name: {(TypeError, RuntimeError)} for name in ("unravel_key", "unravel_key_list", "unravel_key_to_tuple")},
    "stack": {(RuntimeError, AttributeError)},
    "stack_tensors": {(TypeError, AttributeError)},
    "cat_tensors": {(TypeError, AttributeError)},
    "set": {(TypeError, RuntimeError)},
    "set_": {(TypeError, RuntimeError)},
    "update": {(TypeError, RuntimeError)},
    "update_": {(TypeError, RuntimeError)},
    "copy_": {(TypeError, RuntimeError)},
    **{name: {(AssertionError, RuntimeError)} for name in ("assert_close", "assert_allclose_td")},  # devices
    "__setitem__": {(RuntimeError, ValueError)},
    "merge_tensordicts": {(TypeError, AttributeError)},
    "cat": {(RuntimeError, KeyError), (RuntimeError, AttributeError)},
    "amin": {(IndexError, RuntimeError)},
    "amax": {(IndexError, RuntimeError)},
}
COMPARISONS = tuple(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge"))


#: makes a lazy stack
STACKING = ("lazy_stack", "maybe_dense_stack", "append", "insert", "extend")


#: calls that the peer refuses: "More inputs are accepted"
TAKEN: dict[str, type[Exception]] = {
    "__rpow__": NotImplementedError,
    "softmax": NotImplementedError,  # of integers
    "__reversed__": TypeError,
    "addcmul": TypeError,
    "addcmul_": TypeError,
    "addcdiv": TypeError,
    "addcdiv_": TypeError,
    **dict.fromkeys(("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"), TypeError),
}


def is_error(result: Any) -> bool:
    return isinstance(result, Raised)


def is_a(result: Any, cls: type[Exception]) -> bool:
    return bool(result == Raised(cls))


def collections(result: Any, change: Callable[[Collected], Collected]) -> Any:
    """A described result with each collection in it changed."""
    if isinstance(result, Collected):
        values = {key: collections(value, change) for key, value in result.values.items()}
        return change(result._replace(values=values))
    return [collections(part, change) for part in result] if isinstance(result, list) else result


def without_locks(result: Any) -> Any:
    return collections(result, lambda data: data._replace(locked=False))


def without_names(result: Any) -> Any:
    return collections(result, lambda data: data._replace(names=[]))


def without_devices(result: Any) -> Any:
    return collections(result, lambda data: data._replace(device=None))


def without_sizes(result: Any) -> Any:
    return collections(result, lambda data: data._replace(size=(), names=[], device=None))


def values_alone(result: Any) -> Any:
    return collections(result, lambda data: data._replace(locked=False, names=[], device=None))


def _without_empty(data: Collected) -> Collected:
    values = {k: v for k, v in data.values.items() if not (isinstance(v, Collected) and not v.values)}
    return data._replace(values=values)


def without_empty(result: Any) -> Any:
    """A described result without the collections in it that hold nothing."""
    return collections(result, _without_empty)


def has_empty(drawn: Drawn) -> bool:
    """Whether there are nested collections without tensors."""
    return any(isinstance(entry := drawn.entry(path), draw.Tree) and not entry.count() for path in drawn.paths)


def has_tensors(drawn: Drawn) -> bool:
    return bool(drawn.leaves)


def without_items(result: Any) -> bool:
    """Whether a described collection, or one of several, has a batch without items, at any level."""
    if isinstance(result, list):
        return any(map(without_items, result))
    if isinstance(result, Collected):
        return 0 in result.size or any(map(without_items, result.values.values()))
    return isinstance(result, Objects) and 0 in result.size


def objects_without_items(result: Any) -> bool:
    if isinstance(result, Collected):
        return any(map(objects_without_items, result.values.values()))
    return isinstance(result, Objects) and 0 in result.size


def other_errors(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return any(is_a(ours.result, here) and is_a(peers.result, there) for here, there in ERRORS.get(name, ()))


def softmax_of_nothing(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Integers that are none: the peer refuses others, and gives integers for these."""
    empty = [
        leaf
        for path, leaf in drawn.leaves.items()
        if 0 in (*drawn.batch_size, *more_dims(drawn, path[:-1]), *leaf.rest) and not leaf.dtype.is_floating_point
    ]
    return name == "softmax" and bool(empty) and not is_error(ours.result)


def unchecked_dims(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    if not (is_a(ours.result, IndexError) or is_a(ours.result, RuntimeError)) or is_error(peers.result):
        return False
    if name == "batch_size":  # of empty collections
        sizes = [(*drawn.batch_size, *more_dims(drawn, path[:-1]), *leaf.rest) for path, leaf in drawn.leaves.items()]
        wanted = tuple(arguments.args[0])
        return has_empty(drawn) and all(size[: len(wanted)] == wanted for size in sizes)
    if name in ("stack_tensors", "cat_tensors"):  # of empty collections
        entries = [drawn.entry(_path(key)) for key in arguments.args]
        return all(isinstance(entry, draw.Tree) and not entry.count() for entry in entries)
    return name in ("flatten", "repeat_interleave", "rot90") or not has_tensors(drawn)


def other_names(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    moved = (
        "broadcast_to",
        "tile",
        "flatten",
        "unflatten",
        "squeeze",
        "__getitem__",
        "rot90",
        "masked_select",
        "expand_as",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_tensor",
        "from_tuple",
        "to_lazystack",
        *STACKING,
        "__and__",
        "__or__",
        "__xor__",
        "__rand__",
        "__ror__",
        "__rxor__",
        "bitwise_and",
        "logical_and",
        "mod",
        "__mod__",
        "rsub",
        *COMPARISONS,
    )
    if name not in moved and drawn.leaves:
        return False
    changed = [replace(seen, result=without_names(seen.result), source=without_names(seen.source) if seen.itself
                       else seen.source) for seen in (ours, peers)]  # fmt: skip
    return changed[0] == changed[1]


def attributes(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return name == "attrs" and without_devices(ours.result) == without_devices(peers.result)


def expanded(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """As another collection: the peer loses objects, names, and the further dimensions of nested collections."""
    return name == "expand_as" and isinstance(arguments.args[0], OnTheCollection)


#: operations that fail in the peer for the objects in a collection
FAILING = (
    "apply", "apply_", "pad", "dense_stack_tds", "stack", "cat", "view", "squeeze", "expand", "expand_as",
    "broadcast_to", "__setitem__", "where", "tolist", "update_at_",
)  # fmt: skip


#: cast to another dtype
CASTS = (*DTYPES, "type", "to")


def moved_objects(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    if name in ("maybe_to_stack", "from_nontensordata", "to_dict"):  # without items
        return 0 in drawn.batch_size
    if is_error(ours.result) or not drawn.objects:
        return False
    if is_error(peers.result):
        if name == "unflatten":  # several new dimensions in a block
            return 1 in drawn.batch_size and len(arguments.args[1]) > 2 and is_a(peers.result, RuntimeError)
        if name in CASTS:  # a stack of objects without items
            return is_a(peers.result, RuntimeError) and objects_without_items(ours.result)
        if name == "roll":  # one object that has come into a batch of more dimensions
            return "inplace" in arguments.kwargs and is_a(peers.result, ValueError)
        if name == "to_tensordict":  # objects whose rows come from collections with other names
            return any(drawn.names or ()) and is_a(peers.result, ValueError)
        return name in FAILING or (name == "flatten" and is_a(peers.result, NotImplementedError))
    # batch dimensions of objects get lost in the peer where there is no item, or just one along a dimension
    if name in ("squeeze", "unflatten"):
        return 1 in drawn.batch_size or (not is_error(ours.result) and 1 in ours.result.size)
    if name == "view" and isinstance(arguments.args[0], torch.dtype):  # which loses objects there
        return without_items(ours.result)
    names = ("repeat", "repeat_interleave", "tile", "tensor_split", "chunk", "split")
    return name in names and without_items(ours.result)


def written_names(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    refused = {"__setitem__": RuntimeError, "update": ValueError, "replace": ValueError}.get(name)
    return refused is not None and bool(drawn.names) and is_a(peers.result, refused) and not is_error(ours.result)


def ellipses(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    if name == "refine_names":
        return arguments.args.count(...) > 1 and is_a(ours.result, RuntimeError)
    index = arguments.args[1] if name in ("update_at_", "copy_at_") and len(arguments.args) > 1 else None
    return isinstance(index, tuple) and any(item is ... for item in index)


def without_object_sizes(result: Any) -> Any:
    def change(data: Collected) -> Collected:
        values = {k: Objects((), v.objects) if isinstance(v, Objects) else v for k, v in data.values.items()}
        return data._replace(values=values)

    return collections(result, change)


def corners(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """What only long runs come across."""
    here, there = ours.result, peers.result
    if name in ("clone", "__deepcopy__"):  # of dtypes that torch cannot add to
        return is_a(there, NotImplementedError)
    if name == "copy_at_":  # the peer refuses stores other than a dict
        return drawn.lazy is not None and is_a(there, RuntimeError)
    if name == "unpad_sequence":  # masks that differ, of values without items
        return is_a(here, ValueError)
    if not drawn.objects:
        return False
    if name == "to_dict":  # equal objects stay one
        return 1 in drawn.batch_size or (drawn.lazy is not None and same_objects(here, there))
    if name == "entry_class":  # also where a lazy stack has them in its parts
        return drawn.lazy is not None and (here, there) == ("NonTensorData", "NonTensorStack")
    if name == "__getitem__":
        return drawn.lazy is not None or there == for_each_row(here, drawn, arguments.args[0])
    if name == "__exit__":
        return 0 in drawn.batch_size and is_a(there, RuntimeError)
    # batch dimensions of objects get lost in the peer
    return without_object_sizes(here) == without_object_sizes(there)


def same_objects(here: Any, there: Any) -> bool:
    """Whether ``to_dict`` gives the same, but for one object where there is a list for each row of it, or for none."""
    if isinstance(here, dict) and isinstance(there, dict):
        return here.keys() == there.keys() and all(same_objects(here[key], there[key]) for key in here)
    return not objects_of(here) or not objects_of(there) or bool(one_object(here) == one_object(there))


def one_object(value: Any) -> Any:
    if isinstance(value, list) and value and all(part == value[0] for part in value):
        return one_object(value[0])
    return value


def for_each_row(value: Any, drawn: Drawn, key: Any) -> Any:
    """The lists of an object for each position, where there is one object; nothing where the key is an index."""
    path = _path(key)
    if not all(isinstance(part, str) for part in path):
        return None
    for n in reversed((*drawn.batch_size, *more_dims(drawn, path[:-1]))):
        value = [value] * n
    return value


def joined_sizes(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    others = arguments.args[0] if name == "cat" else ()
    return is_a(ours.result, RuntimeError) and any(len(other.size) != drawn.ndim for other in others)


def reductions(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    if name == "pad_sequence" and any(len(path) > 1 for path in drawn.paths):  # masks of nested collections
        return not is_error(ours.result) and not is_error(peers.result)
    if name == "merge_tensordicts":  # batch sizes of nested collections
        return without_sizes(without_empty(ours.result)) == without_sizes(without_empty(peers.result))
    if name in ("max", "min", "cummax", "cummin"):
        return any(len(path) > 1 for path in drawn.paths) or not drawn.leaves
    if name == "quantile":  # the peer reduces over the first dimension of several
        several = isinstance(dim := arguments.kwargs.get("dim"), tuple) and len(dim) > 1
        return several and not is_error(ours.result) and not is_error(peers.result)
    if name not in ("amin", "amax", "prod") or (is_error(ours.result) and is_error(peers.result)):
        return False
    dim = arguments.kwargs.get("dim")
    return (
        isinstance(dim, tuple)
        or (dim == "feature" and name != "prod")
        or (dim is None and "keepdim" in arguments.kwargs)
        or any(len(path) > 1 for path in drawn.paths)
    )


def squeezed_to_nothing(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return name == "squeeze" and set(drawn.batch_size) == {1} and is_a(peers.result, TypeError)


def empty_gather(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return name == "gather" and not arguments.args[1].numel() and is_a(peers.result, RuntimeError)


def copied(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return name == "rot90" and arguments.args[0] % 4 == 0 and ours.result == peers.result


def atleast_3d(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return name == "atleast_3d" and drawn.ndim in (1, 2)


#: operations on two collections
OPERATING = {
    f"{before}{name}{after}"
    for name in ("add", "sub", "mul", "div", "truediv", "pow", "mod", "maximum", "minimum", "clamp_min", "clamp_max",
                 "and", "or", "xor", "lerp", "addcmul", "addcdiv", "bitwise_and", "logical_and", "rsub")
    for before, after in (("", ""), ("", "_"), ("__", "__"), ("__r", "__"), ("__i", "__"))
}  # fmt: skip


def empty_collections(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    if name == "replace":  # with an empty collection, which replaces nothing there
        other = arguments.args[0].entry
        return any(isinstance(entry, draw.Tree) and not entry.count() for entry in other.entries.values())
    without_common_keys = not drawn.leaves or is_a(peers.result, RuntimeError)
    if "default" in arguments.kwargs and not is_error(ours.result) and without_common_keys:
        return True
    if is_a(ours.result, KeyError) and name in OPERATING:  # keys that one of two collections lacks
        return any(isinstance(arg, Made) for arg in arguments.args)
    if is_a(peers.result, KeyError) and is_error(ours.result) and name in OPERATING:  # and dtypes that do not go
        return True
    if not drawn.leaves and is_a(ours.result, TypeError) and name in OPERATING:  # a number where torch needs a tensor
        return not is_error(peers.result)
    if name == "copy_" and is_a(peers.result, KeyError):  # from a collection with more keys
        return not is_error(ours.result) or lacks(drawn.tree, arguments.args[0].entry)
    if name in ("copy_", "update_") and is_a(ours.result, KeyError):  # from a collection without tensors
        other = arguments.args[0].entry
        return not other.count() or (not is_error(peers.result) and not lacks(drawn.tree, without_objects(other)))
    if name == "auto_batch_size_" or "auto_batch_size" in arguments.kwargs:
        return has_empty(drawn)
    if name in ("apply", "named_apply") and peers.result is None:  # the function gave None for each tensor
        return (ours.itself or not without_empty(ours.result).values) and ours.source == peers.source
    if peers.result is None and not drawn.leaves and not is_error(ours.result):
        return name in ("mod", "bitwise_and", "logical_and", "__mod__", "__and__", "__rand__")
    return [without_empty(p) for p in (ours.result, ours.source)] == [
        without_empty(p) for p in (peers.result, peers.source)
    ]


def locked(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    both = is_error(ours.result) and is_error(peers.result)  # locked, and the key is missing
    return drawn.locked and (is_a(ours.result, RuntimeError) or both) and ours.source == peers.source


def half_written(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return is_error(ours.result) and is_error(peers.result) and (ours.result == peers.result or "at_" in name)


def other_devices(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """The peer forgets the device of a collection that holds a stack of objects."""
    if not drawn.objects and name not in ("to", "cat"):
        return False
    return drawn.device is not None and without_devices(ours.result) == without_devices(peers.result)


#: what the peer does without regard to objects, or to objects alone
OBJECTS_IN = (
    "is_contiguous", "numel", "grad", "auto_batch_size_", "empty", "new_zeros", "new_ones", "new_full", "new_empty",
    "new_tensor", "batch_size", "get_at", "attrs", "separates",
    "copy_at_", "merge_tensordicts", "get_non_tensor",
)  # fmt: skip


def objects_in(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    here, there = ours.result, peers.result
    if not drawn.objects or name not in OBJECTS_IN:
        return False
    if name == "is_contiguous":
        return (here, there) == (True, False)
    if name == "numel":
        return bool(here < there)
    if name == "grad":
        return here is None and isinstance(there, Collected)
    if name == "get_at":
        return isinstance(here, Objects) and is_a(there, ValueError)
    if name == "get_non_tensor":  # of objects that are all None, or none at all
        return here is None and isinstance(there, list) and not any(objects_of(there))
    if name == "copy_at_":
        return is_a(here, RuntimeError) and not is_error(there)
    if name == "batch_size":  # set: objects limit it in the peer
        return is_a(there, RuntimeError) and not is_error(here)
    if name == "auto_batch_size_":
        if objects_without_items(there):  # here there is one again
            return bool(tensors_alone(here) == tensors_alone(there))
        return bool(once_each(without_sizes(here)) == once_each(without_sizes(there)))
    if name == "merge_tensordicts" and isinstance(here, Collected):  # an object that comes first
        return first_object(tensors_alone(there), tensors_alone(here), drawn.tree, arguments.args[0].entry)
    return isinstance(here, Collected) and bool(tensors_alone(here) == tensors_alone(there))


def first_object(there: Any, here: Any, first: Any, second: Any) -> bool:
    """Whether merged collections have the same tensors, but for those that come second, after an object."""
    if not all(isinstance(part, Collected) for part in (there, here)):
        return bool(there == here)
    a, b = (tree.entries if isinstance(tree, draw.Tree) else {} for tree in (first, second))
    late = {
        k for k in a.keys() & b.keys() if isinstance(a[k], (draw.Text, draw.Column)) and isinstance(b[k], draw.Leaf)
    }
    keys = there.values.keys() - late
    return keys == here.values.keys() and all(
        first_object(there.values[k], here.values[k], a.get(k), b.get(k)) for k in keys
    )


def once_each(result: Any) -> Any:
    """A described result with one of equal objects under a key, however many positions have it."""

    def change(data: Collected) -> Collected:
        values = {
            k: Objects((), [o for i, o in enumerate(v.objects) if o not in v.objects[:i]])
            if isinstance(v, Objects)
            else v
            for k, v in data.values.items()
        }
        return data._replace(values=values)

    return collections(result, change)


def objects_of(value: Any) -> list[Any]:
    """The objects in nested lists."""
    return [part for below in value for part in objects_of(below)] if isinstance(value, list) else [value]


def tensors_alone(result: Any) -> Any:
    """A described result without objects, and without the collections that hold nothing then."""

    def change(data: Collected) -> Collected:
        return data._replace(values={k: v for k, v in data.values.items() if not isinstance(v, Objects)})

    return without_empty(collections(without_sizes(result), change))


def same_where_read(here: Any, there: Any) -> bool:
    """Whether two collections have the same values, as far as both can be read."""
    if isinstance(here, Collected) and isinstance(there, Collected):
        both = here.values.keys() & there.values.keys()
        return here.size == there.size and all(same_where_read(here.values[key], there.values[key]) for key in both)
    return "cannot be read" in (here, there) if str in map(type, (here, there)) else bool(here == there)


def other_kind(tree: draw.Tree, other: draw.Tree) -> bool:
    """Whether there is a collection under a key on one side, and none on the other."""
    pairs = [(tree.entries[key], other.entries[key]) for key in tree.entries.keys() & other.entries.keys()]
    return any(
        isinstance(a, draw.Tree) != isinstance(b, draw.Tree)
        or (isinstance(a, draw.Tree) and isinstance(b, draw.Tree) and other_kind(a, b))
        for a, b in pairs
    )


def becomes_several(tree: draw.Tree, other: draw.Tree) -> bool:
    """Whether there is an object under a key, and one for each row on the other side."""
    pairs = [(tree.entries[key], other.entries[key]) for key in tree.entries.keys() & other.entries.keys()]
    return any(
        (isinstance(a, draw.Text) and isinstance(b, draw.Column))
        or (isinstance(a, draw.Tree) and isinstance(b, draw.Tree) and becomes_several(a, b))
        for a, b in pairs
    )


def empty_of_other_size(tree: Any, other: Any, size: tuple[int, ...], others_size: tuple[int, ...]) -> bool:
    """Whether a collection without values has another batch size than the one under the same key."""
    if not isinstance(tree, draw.Tree) or not isinstance(other, draw.Tree):
        return False
    size, others_size = (*size, *tree.more), (*others_size, *other.more)
    values = sum(other.count(kind) for kind in (draw.Leaf, draw.Text, draw.Column))
    if not values and any(a != b for a, b in zip(size, others_size, strict=False)):
        return True
    keys = tree.entries.keys() & other.entries.keys()
    return any(empty_of_other_size(tree.entries[key], other.entries[key], size, others_size) for key in keys)


def without_objects(tree: draw.Tree) -> draw.Tree:
    entries = {
        key: without_objects(entry) if isinstance(entry, draw.Tree) else entry
        for key, entry in tree.entries.items()
        if not isinstance(entry, (draw.Text, draw.Column))
    }
    return replace(tree, entries=entries)


def lacks(other: draw.Tree, tree: draw.Tree) -> bool:
    """Whether a key is missing in the other one."""
    return any(
        key not in other.entries
        or (isinstance(entry, draw.Tree) and isinstance(below := other.entries[key], draw.Tree) and lacks(below, entry))
        for key, entry in tree.entries.items()
    )


def same_items(here: list[Any], there: list[Any]) -> bool:
    """Whether two lists hold the same, in whatever order."""
    left = list(there)
    for item in here:
        if item not in left:
            return False
        left.remove(item)
    return not left


def small(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    here, there = ours.result, peers.result
    if name == "numel":  # of nothing
        return (here, there) == (0, 1)
    if name == "depth":  # a level that holds nothing is one
        return here > there
    if name == "auto_device_":  # of nothing
        return not drawn.leaves and without_devices(here) == without_devices(there)
    if name in ("set", "update") and arguments.kwargs.get("inplace") and is_a(here, TypeError) and not is_error(there):
        return True  # an object over an empty collection, or the other way
    if name == "unpad_sequence" and without_items(ours.source) and not is_error(here) and not is_error(there):
        return True  # a mask without items says nothing about lengths
    if name in ("set", "set_"):  # what does not fit, into a batch without items
        return is_a(here, RuntimeError) and 0 in drawn.batch_size
    if name == "entry_class":
        return is_a(here, KeyError) and there == "NoneType"
    if name == "rename_keys":  # a key that is missing has no new name, in or out of the way
        refused = is_a(there, ValueError) or (is_a(there, AttributeError) and not is_error(here))  # of a record
        return refused and not set(map(_path, arguments.args[0])) <= set(drawn.paths)
    if name == "rename" and not any(arguments.args) and not drawn.ndim:  # no names for no dimensions
        return is_a(there, ValueError)
    if name in ("names", "rename", "rename_"):  # more names than dimensions, the last ones None
        return is_a(here, ValueError) and len((arguments.args and arguments.args[-1]) or arguments.args) > drawn.ndim
    if "batch_dims" in arguments.kwargs:  # asks for a batch size, in each of these functions
        return not is_error(here) and not is_error(there)
    if name in ("cat_tensors", "stack_tensors") and is_a(there, KeyError):  # a key twice
        return len(set(map(_path, arguments.args))) < len(arguments.args)
    if name == "to_dict":  # an object for each position, all of them None
        return drawn.objects and arguments.kwargs.get("retain_none") is False
    if name == "update" and is_a(here, KeyError):  # a key below a leaf
        return not is_error(there) or ours.source != peers.source
    if name in AT and is_a(there, IndexError) and ... in as_tuple(arguments.args[-1]):  # for batch dimensions
        return True
    if name in AT and 0 in drawn.batch_size:  # no item to write
        return True
    if name in ("separates", "split_keys") and without_sizes(here) == without_sizes(there):  # of nested collections
        return True
    if name == "rename_key_":  # to one below itself that is there
        old, new = map(_path, arguments.args)
        before, after = more_dims(drawn, old[:-1]), more_dims(drawn, new[:-1])
        if before[: len(after)] != after and not is_error(there):  # where it must fit
            return is_a(here, RuntimeError) or not is_error(here)
        return is_a(here, KeyError) and owns(old, new)
    if name in ("select", "exclude"):  # a key and its owner
        paths = [*map(_path, arguments.args)]
        return any(a != b and a[: len(b)] == b for a in paths for b in paths)
    if name in ("split_keys", "separates"):  # a key twice in a set, or with its owner
        sets = [[*map(_path, keys)] for keys in (arguments.args if name == "split_keys" else [arguments.args])]
        twice = [a for keys in sets for i, a in enumerate(keys) for b in keys[i + 1 :] if owns(a, b) or owns(b, a)]
        return bool(twice) and not is_error(here)
    if arguments.kwargs.get("dim") == "feature" and "keepdim" in arguments.kwargs:
        return is_a(there, TypeError)
    if name in ("keys", "values", "items"):  # nested ones come behind their owner
        return not is_error(here) and not is_error(there) and same_items(here, there)
    if name in ("update", "update_", "copy_") and is_a(there, RuntimeError) and not is_error(here):
        other = arguments.args[0]
        return isinstance(other, Made) and (
            becomes_several(drawn.tree, other.entry)  # in place
            or (name == "update" and empty_of_other_size(drawn.tree, other.entry, drawn.batch_size, other.size))
        )
    if name in ("update_", "copy_") and is_a(here, TypeError):  # a value where there is a collection
        return other_kind(drawn.tree, arguments.args[0].entry)
    if name == "copy_" and is_a(here, KeyError):  # fewer keys than there are
        return lacks(arguments.args[0].entry, drawn.tree) or other_kind(drawn.tree, arguments.args[0].entry)
    if name == "fromkeys":  # a key and its owner
        return any(isinstance(key, tuple) and len(key) > 1 for key in arguments.args[0])
    if name == "auto_batch_size_":  # without tensors
        return not drawn.leaves
    if "dim" in arguments.kwargs and not drawn.leaves:  # without a tensor, options are not looked at here
        return is_a(there, TypeError)
    if name == "pack":  # in the order of the keys; the peer sorts them
        both = isinstance(here, Values) and isinstance(there, Values) and here.tensor.dtype == there.tensor.dtype
        return both and torch.equal(here.tensor.sort(-1).values, there.tensor.sort(-1).values)
    if name == "share_memory_":
        return drawn.locked and is_a(there, RuntimeError)
    if name == "remove_duplicates":
        return 0 in drawn.batch_size and is_a(there, IndexError)
    if name in ("to_struct_array", "from_struct_array", "unpad_sequence"):
        return is_a(there, ValueError) and (not drawn.leaves or has_empty(drawn))
    if name == "to_padded_tensor":  # lazy in the peer, and uneven
        return "cannot be read" in repr(there) and (is_a(here, RuntimeError) or same_where_read(here, there))
    if name in STACKING:  # devices that differ, and names, which the peer looks at when they are read
        devices = drawn.device is not None and (is_a(there, RuntimeError) or is_a(there, ValueError))
        if "cannot be read" in repr(here) + repr(there) and not (is_error(here) or is_error(there)):
            return same_where_read(here, there)  # values of different kinds
        kinds = name == "maybe_dense_stack" and is_a(there, AttributeError) and not is_error(here)
        return devices or kinds or (any(drawn.names or ()) and is_a(here, ValueError))
    if name == "logsumexp":  # over the features of a single item, of integers
        return drawn.ndim == 0
    if name in ("unravel_key", "unravel_key_to_tuple"):
        return is_a(here, TypeError) and not is_error(there)
    return False


def more_dims(drawn: Drawn, path: tuple[str, ...]) -> tuple[int, ...]:
    """The batch dimensions that a nested collection has beyond those of the whole."""
    entry: Any = drawn.tree
    more: tuple[int, ...] = ()
    for key in path:
        entry = entry.entries.get(key) if isinstance(entry, draw.Tree) else None
        more += entry.more if isinstance(entry, draw.Tree) else ()
    return more


def ends_above(tree: draw.Tree, path: tuple[str, ...]) -> bool:
    """Whether there is a leaf on the way to a key."""
    entry: Any = tree
    for key in path:
        if entry is not None and not isinstance(entry, draw.Tree):
            return True
        entry = entry and entry.entries.get(key)
    return False


def leaf_meets_collection(tree: draw.Tree, other: draw.Tree) -> bool:
    """Whether one has an object where the other has a collection, or a tensor and one without leaves."""
    for key in tree.entries.keys() & other.entries.keys():
        both = tree.entries[key], other.entries[key]
        nested = [entry for entry in both if isinstance(entry, draw.Tree)]
        if len(nested) == 2 and leaf_meets_collection(*nested):
            return True
        if len(nested) == 1 and any(isinstance(entry, (draw.Text, draw.Column)) for entry in both):
            return True
        if len(nested) == 1 and not any(nested[0].count(kind) for kind in (draw.Leaf, draw.Text, draw.Column)):
            return True
    return False


#: takes a key first
KEYED = (
    "__getitem__", "__contains__", "get", "get_item_shape", "entry_class", "is_non_tensor", "get_non_tensor", "keys",
    "get_at", "set", "set_", "set_at_", "__setitem__", "set_non_tensor", "setdefault", "fill_", "create_nested",
    "pop", "del_", "__delitem__", "rename_key_",
)  # fmt: skip


def below_a_leaf(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A key below a leaf: for the peer there is one, or it is another error."""
    key = arguments.args[0] if arguments.args else None
    if name not in KEYED or not isinstance(key, tuple) or not all(isinstance(part, str) for part in key):
        return False
    return ends_above(drawn.tree, key) and (is_a(ours.result, KeyError) or not is_error(ours.result))


def unflattened_below(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A key that would lie below an object, which the peer loses."""
    if name != "unflatten_keys" or not is_a(ours.result, KeyError) or is_error(peers.result):
        return False
    above = [key for key, entry in drawn.tree.entries.items() if isinstance(entry, (draw.Text, draw.Column))]
    separator = arguments.kwargs.get("separator", ".")
    return any(other.startswith(key + separator) for key in above for other in drawn.tree.entries)


def lazy_there(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """What the peer cannot do with the lazy stack that it has from an operation before."""
    in_place = name == "flatten" and "inplace" in arguments.kwargs
    return in_place and is_a(peers.result, NotImplementedError) and not is_error(ours.result)


def detached(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Views, such as those that torch gives for ``rot90``, cannot be detached in place."""
    return name == "detach_" and is_a(ours.result, RuntimeError) and not is_error(peers.result)


def asked_for(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Keys to be updated that lie below a leaf of the source, which the peer takes, or beside their owner."""
    if name != "update" or is_error(ours.result) or is_error(peers.result):
        return False
    keys = [*map(_path, arguments.kwargs.get("keys_to_update", ()))]
    below = any(ends_above(arguments.args[0].entry, key) for key in keys)
    return below or any(len(a) < len(b) and owns(a, b) for a in keys for b in keys)


def merged(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    if name != "merge_tensordicts" or not is_a(ours.result, TypeError) or is_error(peers.result):
        return False
    return leaf_meets_collection(drawn.tree, arguments.args[0].entry)


def rows_behind(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Rows with too many dimensions, at an index that holds ``False``, so that none is written."""
    if name != "__setitem__" or not is_a(ours.result, RuntimeError) or is_error(peers.result):
        return False
    index = arguments.args[-1]
    return any(item is False for item in (index if isinstance(index, tuple) else (index,)))


#: writes rows
AT = ("update_at_", "set_at_", "__setitem__", "copy_at_")


def as_tuple(index: Any) -> list[Any]:
    """The items of an index that are no tensors, which an ellipsis cannot be compared with."""
    return [item for item in (index if isinstance(index, tuple) else (index,)) if item is ...]


def owns(owner: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return path[: len(owner)] == owner


def _path(key: Any) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


def left_alone(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Collections in what a converter takes: the peer changes their batch size."""
    return name == "from_tuple" and ours.result == peers.result and "auto_batch_size" in arguments.kwargs


def taken(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    return name in TAKEN and is_a(peers.result, TAKEN[name])


KNOWN: tuple[Known, ...] = (
    empty_collections,
    locked,
    half_written,
    other_devices,
    objects_in,
    small,
    taken,
    left_alone,
    other_errors,
    unchecked_dims,
    softmax_of_nothing,
    other_names,
    attributes,
    expanded,
    moved_objects,
    written_names,
    ellipses,
    corners,
    joined_sizes,
    reductions,
    below_a_leaf,
    unflattened_below,
    lazy_there,
    detached,
    asked_for,
    merged,
    rows_behind,
    squeezed_to_nothing,
    empty_gather,
    copied,
    atleast_3d,
)


def is_known(
    case: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen, more: tuple[Known, ...] = ()
) -> bool:
    name = case.split(":")[0].removesuffix("()")
    if not ours.itself:  # "Results of operations are not locked."
        ours, peers = (replace(seen, result=without_locks(seen.result), itself=False) for seen in (ours, peers))
    return ours == peers or any(known(name, drawn, arguments, ours, peers) for known in (*KNOWN, *more))
