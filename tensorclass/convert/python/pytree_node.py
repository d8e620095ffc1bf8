"""The original form of a pytree node: an object that its collection keeps, and that files can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from tensorclass.support.printable import class_name
from tensorclass.td.delegated.declaration import delegated
from tensorclass.td.safe_unpickling import allow_function

NOTHING: dict[str, Any] = {}


class PytreeLeaf:
    """Marks a collection that is a leaf of the tree, though it looks like a node."""


class PytreeNode:
    """The original form of a node: type, leaves, keys. Immutable."""

    __slots__ = ("context", "keys", "kind", "leaves", "namespace")

    def __init__(
        self,
        kind: type,
        leaves: Mapping[str, Any] = NOTHING,
        keys: Mapping[str, Any] = NOTHING,
        context: Any = None,
        namespace: str | None = None,
    ) -> None:
        self.kind: type = kind
        #: the leaves that were something else than what stands for them: a number, the dtype of an array, or
        #: :class:`PytreeLeaf`
        self.leaves: Mapping[str, Any] = leaves
        #: original keys of a dict, if stored under other ones
        self.keys: Mapping[str, Any] = keys
        self.context: Any = context  #: context that its registration needs to make one
        self.namespace: str | None = namespace  #: namespace of its registration in optree; ``None`` for torch

    def __eq__(self, other: object) -> bool:
        """Return whether both can be rows of one collection: the same structure, and leaves of the same types."""
        if not isinstance(other, PytreeNode):
            return NotImplemented
        return self.built_as(other) and {key: leaf_category(leaf) for key, leaf in self.leaves.items()} == {
            key: leaf_category(leaf) for key, leaf in other.leaves.items()
        }

    def __hash__(self) -> int:
        return hash(self.kind)

    def __deepcopy__(self, memo: object) -> PytreeNode:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        try:  # as in files, a form that torch.load(weights_only=True) accepts
            return restored, (encode(self),)
        except TypeError:  # JSON cannot hold a part of it
            return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<{class_name(self.kind)}>"

    def built_as(self, other: PytreeNode) -> bool:
        """Return whether both have the same structure, whatever their leaves are."""
        return self is other or (
            self.kind is other.kind
            and self.namespace == other.namespace
            and list(self.keys) == list(other.keys)
            and all(type(a) is type(b) and a == b for a, b in zip(self.keys.values(), other.keys.values(), strict=True))
            and bool(self.context == other.context)
        )


@allow_function
def restored(form: Any) -> Any:
    """Unpickle a node. The form can make only what a file can."""
    return decode(form)


@delegated("tensorclass.storage.common.object_json")
def encode(value: Any, allow_pickle: bool | None = False, depth: int = 0) -> Any:
    """Return an object as JSON."""


@delegated("tensorclass.storage.common.object_json")
def decode(value: Any, allow_pickle: bool = False) -> Any:
    """Return the object of a JSON value."""


def leaf_category(leaf: Any) -> Any:
    """Return what leaves must share to be rows of one tensor: the class of numbers, else the leaf itself."""
    return leaf.__class__ if isinstance(cast("object", leaf), (int, float, complex, np.generic)) else leaf
