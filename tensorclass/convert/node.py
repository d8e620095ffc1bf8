"""What a collection was in a pytree: an object that it keeps, and that files can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from tensorclass.td.unpickling import allow_function

NOTHING: dict[str, Any] = {}


class Leaf:
    """Marks a collection that would be taken for a part of the tree, and is a leaf of it."""


class Node:
    """What a collection was in a tree. Nothing changes one."""

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
        #: :class:`Leaf`
        self.leaves: Mapping[str, Any] = leaves
        #: the keys of a dict, where they are others than those that they are stored under
        self.keys: Mapping[str, Any] = keys
        self.context: Any = context  #: what else its registration needs to make one
        self.namespace: str | None = namespace  #: that of its registration in optree; ``None`` for one of torch

    def __eq__(self, other: object) -> bool:
        """Whether trees of the one and of the other kind can be rows of one collection; numbers may differ."""
        if not isinstance(other, Node):
            return NotImplemented
        return self.built_as(other) and {key: kind_of_leaf(leaf) for key, leaf in self.leaves.items()} == {
            key: kind_of_leaf(leaf) for key, leaf in other.leaves.items()
        }

    def __hash__(self) -> int:
        return hash(self.kind)

    def __deepcopy__(self, memo: object) -> Node:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        from tensorclass.storage.objects import Unwritable, encode

        try:  # as files have it, which torch.load(weights_only=True) takes
            return restored, (encode(self),)
        except Unwritable:
            return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<{self.kind.__name__}>"

    def built_as(self, other: Node) -> bool:
        """Whether both are built alike, whatever their leaves are."""
        return self is other or (
            self.kind is other.kind
            and self.namespace == other.namespace
            and list(self.keys) == list(other.keys)
            and all(type(a) is type(b) and a == b for a, b in zip(self.keys.values(), other.keys.values(), strict=True))
            and bool(self.context == other.context)
        )


@allow_function
def restored(form: Any) -> Any:
    """A node that was pickled; what says what a file says cannot make anything else than a file can."""
    from tensorclass.storage.objects import decode

    return decode(form)


def kind_of_leaf(leaf: Any) -> Any:
    """What two leaves have in common that can be rows of one tensor."""
    return leaf.__class__ if isinstance(cast("object", leaf), (int, float, complex, np.generic)) else leaf
