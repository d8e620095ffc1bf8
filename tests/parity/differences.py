"""Where the two libraries differ on purpose, as far as the drawn operations meet it.

Each entry stands under a heading of docs/differences.md, which gives the reason; test_differences asserts an example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests import strategies as draw
from tests.parity.operations import OPERATORS, Drawn

Known = Callable[[str, Drawn, Any, Any, Any], bool]

# operation -> the class of the error here, and the one there
ERRORS: dict[str, set[tuple[type, type]]] = {
    "flatten": {(IndexError, RuntimeError), (IndexError, ValueError), (RuntimeError, ValueError)},
    "unsqueeze": {(IndexError, RuntimeError)},
    "repeat_interleave": {(IndexError, ValueError)},
    "split": {(RuntimeError, ValueError)},
    "chunk": {(RuntimeError, ValueError)},
    "tensor_split": {(RuntimeError, ValueError)},
    "narrow": {(IndexError, RuntimeError)},
    "rot90": {(IndexError, RuntimeError), (RuntimeError, IndexError)},
    "stack": {(RuntimeError, AttributeError)},
    "cat": {(RuntimeError, KeyError), (RuntimeError, AttributeError)},
    "amin": {(IndexError, RuntimeError)},
    "amax": {(IndexError, RuntimeError)},
}


def is_error(result: Any) -> bool:
    return isinstance(result, type)


def without_names(result: Any) -> Any:
    """A described result with no dimension names."""
    if isinstance(result, tuple) and result and result[0] == "collection":
        kind, size, _, device, values = result
        return kind, size, device, {key: without_names(value) for key, value in values.items()}
    return [without_names(part) for part in result] if isinstance(result, list) else result


def without_items(result: Any) -> bool:
    """Whether a described collection, or one of several, has a batch without items."""
    return any(map(without_items, result)) if isinstance(result, list) else 0 in result[1]


def other_errors(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    # keys and shapes can differ both: which is found first is nobody's concern
    two_wrong = "other" in name and ours is KeyError and peers is RuntimeError
    return is_error(ours) and is_error(peers) and (two_wrong or (ours, peers) in ERRORS.get(name, ()))


def unchecked_dims(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    names = ("flatten", "repeat_interleave", "rot90")
    return name in names and ours in (IndexError, RuntimeError) and not is_error(peers)


def other_names(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    moved = ("broadcast_to", "tile", "flatten", "unflatten", "squeeze", "index", "rot90")
    compared = [f"data {op} other" for op in OPERATORS if op in ("eq", "ne", "lt", "le", "gt", "ge")]
    return name in (*moved, *compared) and without_names(ours) == without_names(peers)


def moved_objects(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    if is_error(ours) or not drawn.tree.count(draw.Column) + drawn.tree.count(draw.Text):
        return False
    if is_error(peers):
        return name in ("view", "squeeze", "expand", "expand_as", "broadcast_to", "write rows")
    # batch dimensions of objects get lost in the peer where there is no item, or just one along a dimension
    if name in ("squeeze", "unflatten"):
        return 1 in (*drawn.batch_size, *ours[1])
    return name in ("repeat", "repeat_interleave", "tile", "tensor_split", "chunk", "split") and without_items(ours)


def written_names(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    return name == "write row by row" and drawn.names is not None and peers is RuntimeError and not is_error(ours)


def joined_sizes(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    return (
        name == "cat" and ours is RuntimeError and any(len(size) != len(drawn.batch_size) for _, size in arguments[0])
    )


def reductions(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    if name not in ("amin", "amax", "prod") or (is_error(ours) and is_error(peers)):
        return False
    (options,) = arguments
    dim = options.get("dim")
    nested = drawn.tree.count(draw.Tree)
    return (
        isinstance(dim, tuple)
        or (dim == "feature" and name != "prod")
        or (dim is None and "keepdim" in options)
        or bool(nested)
    )


def squeezed_to_nothing(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    return name == "squeeze" and set(drawn.batch_size) == {1} and peers is TypeError and not is_error(ours)


def empty_gather(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    return name == "gather" and not arguments[1].numel() and peers is RuntimeError and not is_error(ours)


def copied(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    return name == "rot90" and arguments[0] % 4 == 0 and ours == peers


KNOWN: tuple[Known, ...] = (
    other_errors,
    unchecked_dims,
    other_names,
    moved_objects,
    written_names,
    joined_sizes,
    reductions,
    squeezed_to_nothing,
    empty_gather,
    copied,
)


def is_known(name: str, drawn: Drawn, arguments: Any, ours: Any, peers: Any) -> bool:
    return any(known(name, drawn, arguments, ours, peers) for known in KNOWN)
