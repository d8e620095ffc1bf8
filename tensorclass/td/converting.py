"""Convert collections to plain dicts, arrays and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass.support.printable import printable

from . import native
from .collection import Collection
from .columns.utf8_rows import EncodingError
from .hidden_members import with_members
from .leaves.linked_list import LinkedList
from .leaves.object_codes import to_lists


class Converting(Collection):
    """``to_dict``, ``numpy`` and ``tolist``."""

    __slots__ = ()

    @native.tries("to_dict")
    def to_dict(
        self: Converting,
        *,
        retain_none: bool = True,
        convert_tensors: bool | Literal["numpy"] = False,
        tolist_first: bool = False,
    ) -> dict[str, Any]:
        """Return a plain dict: nested collections become dicts, and non-tensor data the objects themselves.

        Args:
            retain_none: keep entries that are ``None``. Default: ``True``.
            convert_tensors: ``True`` converts tensors to numbers or nested lists of numbers, ``"numpy"`` to arrays.
                Default: ``False``.
            tolist_first: give nested collections and objects row by row, as :meth:`tolist` does. Default: ``False``.

        Returns:
            A new dict. Tensors that are not converted are shared.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1, "b": {"c": "text"}}).to_dict(convert_tensors=True)
            {'a': 1, 'b': {'c': 'text'}}
        """
        copied = self._exports_store()
        now: dict[str, Any] = self._now() if copied else {}  # type: ignore[assignment]
        result: dict[str, Any] = {**now}
        items: Any = now.items() if copied else self._items_for_export(retain_none)
        for key, value in items:
            entry: Any
            if type(value) is Tensor and not convert_tensors:
                if not copied:
                    result[key] = value
                continue
            if isinstance(value, Converting):
                try:
                    rows = tolist_first and len(value._batch_size)
                    if value._wrapped_tensor() is not None:
                        entry = with_members(value).to_dict(convert_tensors=convert_tensors)
                    elif not value._is_tree():
                        entry = with_members(value).tolist() if rows else value._unwrapped()
                        if entry is value and convert_tensors:  # a column
                            entry = value.numpy() if convert_tensors == "numpy" else value.tolist()
                        if not retain_none and value._unwrapped() is None:
                            result.pop(key, None)
                            continue
                    elif rows:
                        entry = with_members(value).tolist(convert_tensors=convert_tensors, tolist_first=True)
                    else:
                        entry = with_members(value).to_dict(
                            retain_none=retain_none, convert_tensors=convert_tensors, tolist_first=tolist_first
                        )
                except EncodingError as error:
                    raise error.below(key) from None
            elif convert_tensors == "numpy":
                entry = _array(key, value)
            else:
                entry = to_lists(value) if convert_tensors else value
            result[key] = entry
        return result

    def numpy(self) -> dict[str, Any]:
        """Return a plain dict of numpy arrays. Non-tensor data stays as it is.

        Returns:
            A new dict, nested as the collection is. Arrays share memory with tensors on the CPU.

        Raises:
            RuntimeError: a tensor requires a gradient, which would be lost; see :meth:`detach`.
            TypeError: a tensor has a dtype that numpy does not have.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": [1, 2], "b": {"c": "text"}}).numpy()
            {'a': array([1, 2]), 'b': {'c': 'text'}}
        """
        result: dict[str, Any] = {}
        for key, value in self._now().items():
            try:
                result[key] = with_members(value).numpy() if isinstance(value, Converting) else _array(key, value)
            except EncodingError as error:
                raise error.below(key) from None
        return result

    def tolist(
        self,
        *,
        convert_nodes: bool = True,
        convert_tensors: bool | Literal["numpy"] = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """Return one dict per row, in lists as deep as the batch has dimensions.

        Args:
            convert_nodes: convert each row to a dict; with ``False`` rows stay collections. Default: ``True``.
            convert_tensors: ``True`` converts tensors to numbers or nested lists of numbers, ``"numpy"`` to arrays.
                Default: ``False``.
            tolist_first: give nested collections and objects row by row too, as for :meth:`to_dict`. Default:
                ``False``.
            as_linked_list: return a :class:`LinkedList`: assigning a row to it writes the row to this collection.
                Default: ``False``.

        Returns:
            Nested lists of dicts; without batch dimensions, one dict. Tensors that are not converted share memory with
            this collection.

        Raises:
            TypeError: ``convert_tensors`` is set, but ``convert_nodes`` is not.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": torch.tensor([[1, 2], [3, 4]]), "t": ["a", "b"]}, [2]).tolist(convert_tensors=True)
            [{'x': [1, 2], 't': 'a'}, {'x': [3, 4], 't': 'b'}]
        """
        if convert_tensors and not convert_nodes:
            raise TypeError("tolist: convert_tensors needs convert_nodes=True: rows that stay collections hold tensors")
        if not self._batch_size:
            if not convert_nodes:
                return self
            return with_members(self).to_dict(convert_tensors=convert_tensors, tolist_first=tolist_first)
        options: Any = {
            "convert_nodes": convert_nodes, "convert_tensors": convert_tensors, "tolist_first": tolist_first,
        }  # fmt: skip
        rows = [with_members(row).tolist(**options) for row in with_members(self).unbind(0)]
        return LinkedList(rows, td=self, depth=len(self._batch_size)) if as_linked_list else rows

    def _write_items(self, index: tuple[Any, ...], value: Any, depth: int) -> None:
        """Writes what is assigned to items of a linked list: a row, or lists of rows for ``depth`` dimensions."""
        if not depth:
            self[index] = value  # type: ignore[index]
            return
        *before, last = index
        if not isinstance(last, slice):
            before, last = list(index), slice(None)
        places = range(self._batch_size[len(before)])[last]
        rows: Any = value
        if not isinstance(value, list) or len(rows) != len(places):
            raise ValueError(f"expected a list of {len(places)} rows; nothing was written")
        for place, row in zip(places, rows, strict=True):
            self._write_items((*before, place), row, depth - 1)

    if TYPE_CHECKING:

        def _exports_store(self) -> bool: ...
        def _items_for_export(self, retain_none: bool) -> Any: ...
        def unbind(self, dim: int = 0) -> tuple[Self, ...]: ...


def _array(key: str, value: Tensor) -> Any:
    if value.requires_grad:
        raise RuntimeError(
            f"{printable(key)}: the tensor requires a gradient, which an array cannot have; call detach() first"
        )
    if value.is_meta:
        raise TypeError(
            f"{printable(key)}: the device meta has no numbers; torch.zeros_like(data, device='cpu') has some"
        )
    if value.is_nested or value.layout != torch.strided:
        raise TypeError(
            f"{printable(key)}: expected a strided tensor, got a ragged or sparse one; to_padded_tensor() makes a "
            "rectangle of a ragged one, to_dense() of a sparse one"
        )
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    try:
        return value.cpu().numpy()
    except TypeError:
        raise TypeError(
            f"{printable(key)}: numpy does not have the dtype {value.dtype}; convert it first, for instance with "
            f".to({torch.float32})"
        ) from None
