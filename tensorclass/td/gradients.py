"""Gradients: detach, require, read and write them, run the backward pass."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name

from . import native
from .collection import Collection
from .hidden_members import member_items, with_members

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store


class Gradients(Collection):
    """Gradients of the tensors of a collection, which a collection with the same keys holds."""

    __slots__ = ()

    @native.tries("detach")
    def detach(self) -> Self:
        """Return the values without their autograd history.

        Returns:
            A new collection. Tensors share memory.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> weights = TensorDict({"a": torch.ones(2)}).requires_grad_()
            >>> (weights * 2).detach().requires_grad
            False
        """
        store = {**self._store}
        for key, value in member_items(store):
            store[key] = value.detach()
        return self._same(store)

    def detach_(self) -> Self:
        """Detach the values from the graph that computed them, in place.

        Returns:
            This collection.

        Raises:
            RuntimeError: a tensor is a view of another one, which torch does not detach.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> weights = TensorDict({"a": torch.ones(2)}).requires_grad_()
            >>> (weights * 2).detach_().requires_grad
            False
        """
        leaves = list(self._leaves())
        leaves.sort(key=lambda leaf: leaf._base is None)  # torch rejects views: raise before another one is detached
        for leaf in leaves:
            leaf.detach_()
        return self

    @property
    def requires_grad(self) -> builtins.bool:
        """``True`` if any of the tensors requires gradients.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.ones(2, requires_grad=True), "b": torch.ones(2)}, [2]).requires_grad
            True
        """
        return any(leaf.requires_grad for leaf in self._leaves())

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Self:
        """Set whether the tensors require gradients.

        Args:
            requires_grad: whether they do. Default: ``True``.

        Returns:
            This collection.

        Raises:
            RuntimeError: a tensor is neither floating nor complex, or not a leaf of the autograd graph. Nothing was
                changed.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.ones(2)}).requires_grad_()["a"].requires_grad
            True
        """
        leaves = list(self._leaves())
        if requires_grad:
            for leaf in leaves:
                if not (leaf.is_floating_point() or leaf.is_complex()):
                    torch.empty(0, dtype=leaf.dtype).requires_grad_()  # raises before the first tensor is changed
        before = [leaf.requires_grad for leaf in leaves]
        try:
            for leaf in leaves:
                leaf.requires_grad_(requires_grad)
        except BaseException:
            for leaf, was in zip(leaves, before, strict=True):
                if leaf.requires_grad is not was:
                    leaf.requires_grad_(was)
            raise
        return self

    @property
    def data(self) -> Self:
        """The values as ``tensor.data`` returns them: memory is shared, autograd does not track them.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.ones(2, requires_grad=True)}, [2])
            >>> data.data["a"]
            tensor([1., 1.])
        """
        return self._plain()

    @data.setter
    def data(self, value: Collection) -> None:
        self._set_data(value)

    def _set_data(self, value: Collection) -> None:
        self._assign("data", value)

    def _assign(self, what: str, values: Collection) -> None:
        """Set an attribute of each tensor."""
        for leaf, new in _leaf_pairs(self, values, what):
            setattr(leaf, what, new)

    def _plain(self) -> Self:
        # not through the property `data`, which is another one in non-tensor data
        return self._same(
            {key: value.data if isinstance(value, Tensor) else value._plain() for key, value in self._now().items()}
        )

    @property
    def grad(self) -> Self | None:
        """The gradients of values that have one, as a collection; ``None`` if no value has one.

        It is locked if this collection is.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.ones(2, requires_grad=True)}, [2])
            >>> (data * 3)["a"].sum().backward()
            >>> data.grad["a"]
            tensor([3., 3.])
        """
        found = self._gradient()
        if found is not None and self._lock is not None:
            with_members(found).lock_()  # type: ignore[attr-defined]
        return found

    @grad.setter
    def grad(self, value: Collection | None) -> None:
        self._set_gradient(value)

    def _gradient(self) -> Self | None:
        store: Store = {}
        found = False
        for key, value in self._now().items():
            if isinstance(value, Gradients) and not value._is_tree() and value._wrapped_tensor() is None:
                store[key] = value
            elif (gradient := value._gradient() if isinstance(value, Gradients) else value.grad) is not None:
                store[key] = gradient
                found = True
        return self._same(store) if found else None

    def _set_gradient(self, value: Collection | None) -> None:
        if value is None:
            with_members(self).zero_grad()
            return
        self._assign("grad", value)

    def backward(
        self,
        gradient: TensorCollection | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Collection | Sequence[Tensor] | None = None,
    ) -> None:
        """Compute the gradients of all values in one pass, as ``torch.Tensor.backward`` does for one tensor.

        Args:
            gradient: a collection with a gradient for each value that requires one. Scalars need none.
            retain_graph: keep the graph for another backward pass. Default: the value of ``create_graph``.
            create_graph: make the gradients differentiable. Default: ``False``.
            inputs: the tensors for which to accumulate gradients, as a sequence or a collection. Default: all leaves of
                the autograd graph.

        Raises:
            RuntimeError: no value requires gradients; or a value is not a scalar and there is no ``gradient``.
            KeyError: ``gradient`` lacks a value.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> weights = TensorDict({"a": torch.ones(2), "b": torch.ones(())}).requires_grad_()
            >>> (weights * 3).sum().backward()
            >>> weights.grad["a"]
            tensor([3., 3.])
        """
        tensors: list[Tensor] = []
        gradients: list[Tensor | None] = []
        for path, leaf in self._named_leaves():
            if not leaf.requires_grad:
                continue
            given: Any = None
            if gradient is not None:
                given = gradient.get(path)
                if given is None:
                    raise KeyError(f"backward: the gradient lacks the key {'.'.join(path)!r}")
            elif leaf.numel() != 1:
                raise RuntimeError(
                    f"backward: {'.'.join(path)!r} is not a scalar, its shape is {list(leaf.shape)}; give gradient= a "
                    "collection like this one, or reduce the values to scalars first, for instance with .sum()"
                )
            tensors.append(leaf)
            gradients.append(given)
        if not tensors:
            raise RuntimeError("backward: no value requires gradients")
        targets: Any = list(inputs._leaves()) if isinstance(inputs, Collection) else inputs
        torch.autograd.backward(tensors, gradients, retain_graph, create_graph, inputs=targets)

    def zero_grad(self, set_to_none: builtins.bool = True) -> Self:
        """Discard the gradients of the values, or set them to zero.

        Args:
            set_to_none: set each ``grad`` to ``None``; ``False`` fills it with zeros in place. Default: ``True``.

        Returns:
            This collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> weights = TensorDict({"a": torch.ones(2)}).requires_grad_()
            >>> weights.sum(reduce=True).backward()
            >>> print(weights.zero_grad().grad)
            None
        """
        for leaf in self._leaves():
            if leaf.grad is None:
                continue
            if set_to_none:
                leaf.grad = None
            else:
                leaf.grad.detach_().zero_()
        return self


def _leaf_pairs(owner: Collection, values: Collection, what: str) -> Iterable[tuple[Tensor, Tensor]]:
    if not isinstance(values, Collection):
        raise TypeError(f"{what}: expected a collection, got a {type_name(values)}")
    from .foreach import aligned_operands

    leaves: list[Tensor] = []
    tree = owner._captured(leaves)
    return zip(leaves, list(aligned_operands(tree, values)), strict=True)
