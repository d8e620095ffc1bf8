"""Describe a collection for a file: a tree of nodes, see :mod:`.collection_tree`, and the buffers of its tensors."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor

from tensorclass.records.record import TensorClass
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.text import Text
from tensorclass.td.jagged import packed
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import Leaf
from tensorclass.td.leaves.object_codes import drop_unused, to_lists
from tensorclass.td.memory.consolidated_buffer import WHOLE, is_sharded
from tensorclass.td.stored_names import stored_name
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.stores.store_classes import dense_class

from . import collection_tree
from .collection_tree import DTYPES, MOST_VALUES, Node, Path, TensorLeaf
from .object_json import Unwritable, encode
from .unimported_classes import described_class


def describe(
    data: TensorCollection,
    what: str,
    allow_pickle: bool | None = False,
    checksum: bool = False,
    object_arrays: bool = True,
) -> tuple[Node, list[TensorLeaf]]:
    """Return the tree of a collection, and its tensors.

    Args:
        data: the collection.
        what: the caller, for errors.
        allow_pickle: pickle objects that have no JSON form; ``None`` if the format has no pickles.
        checksum: add checksums to the nodes of tensors.
        object_arrays: describe many objects by arrays, not in the tree.

    Raises:
        TypeError: some values cannot be written, or could not be loaded again. The message lists all of them.
    """
    problems: list[str] = []
    node, leaves = describe_item(data, (), problems, allow_pickle, checksum, object_arrays)
    if problems:
        raise TypeError(f"{what}: nothing was written; " + "; ".join(problems))
    if node["type"] == "unbatched":
        raise no_collection(data, what)
    return node, leaves


def describe_item(
    data: TensorCollection,
    path: Path,
    problems: list[str],
    allow_pickle: bool | None,
    checksum: bool,
    object_arrays: bool = True,
) -> tuple[Node, list[TensorLeaf]]:
    """Do the same as :func:`describe` for a part of what is written: reasons why it cannot be go to ``problems``."""
    describer = _Describer(allow_pickle, object_arrays)
    node = describer.node(data, path)
    problems += describer.problems
    if checksum and not describer.problems:
        add_checksums(describer.leaves)
    return node, describer.leaves


def no_collection(data: TensorCollection, what: str) -> TypeError:
    """Return the error for a value by itself, where a format has a place for collections alone."""
    return TypeError(
        f"{what}: nothing was written; expected a collection, got a {type_name(data)} by itself; put it under a key: "
        f"TensorDict({{'value': ...}}, batch_size={list(data._batch_size)})"
    )


def add_checksums(leaves: Sequence[TensorLeaf]) -> None:
    """Add the checksums of buffers to the nodes of their tensors."""
    for leaf in leaves:
        leaf.node.setdefault("crc32", []).append(collection_tree.checksum_of(leaf.tensor))


def describe_value(value: Any, path: Path, allow_pickle: bool, strict: bool = True) -> tuple[Node, list[str]]:
    """Return the node of one value, and the reasons why it cannot be written; raise for these if ``strict``.

    Objects are never in arrays of their own: HDF5 and zarr have rows of text.
    """
    describer = _Describer(allow_pickle, False)
    node = describer.node(value, path)
    if describer.problems and strict:
        raise TypeError("; ".join(describer.problems))
    return node, describer.problems


def collection_head(value: TensorCollection) -> Node:
    """Return the part of a collection's node that precedes its entries: batch size, names and class."""
    node: Node = {"batch_size": list(value._batch_size)}
    if value._names is not None:
        node["names"] = list(value._names)
    cls: Any = dense_class(value.__class__)
    if issubclass(cls, TensorClass):
        class_node: Node = {"module": cls.__module__, "name": cls.__qualname__}
        # without this list, such fields would get their defaults on loading
        if none := [
            spec.stored_name
            for name, spec in cls._specs.items()
            if spec.default is not None and name not in value._store
        ]:
            class_node["none"] = none
        node["class"] = class_node
    elif (stands_for := described_class(cls)) is not None:
        node["class"] = stands_for
    return node


class _Describer:
    """Makes the nodes of values. Collects the buffers of tensors, and reasons why values cannot be written."""

    def __init__(self, allow_pickle: bool | None, object_arrays: bool) -> None:
        self.allow_pickle = allow_pickle
        self.object_arrays = object_arrays
        self.leaves: list[TensorLeaf] = []
        self.problems: list[str] = []

    def node(self, value: Any, path: Path) -> Node:
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        content = value._CONTENT
        if content is Content.OBJECTS:
            return self._objects(value, path)
        if content.has_spans:
            return self._column(value, path, value._batch_size)
        if content is Content.TENSOR:
            node = self._tensor(value._wrapped_tensor(), path)
            node.update(type="unbatched", **kind_note(value))
            return node
        if len(path) > collection_tree.DEPTH:
            self.problems.append(
                f"{'.'.join(path[:3])}: collections are nested deeper than {collection_tree.DEPTH} levels"
            )
            return {}
        if isinstance(value, LazyStacked):
            store: Any = value._store
            parts = [self.node(item, (*path, str(at))) for at, item in enumerate(store.items_)]
            return {"type": "lazy_stack", "stack_dim": store.dim, "stack_dim_name": store.name, "parts": parts}
        _check_size(value._batch_size, path, self.problems)
        node = {"type": "collection", **collection_head(value)}
        cls: Any = value.__class__
        node["entries"] = {
            name: self.node(item, (*path, name))
            for name, item in ((stored_name(cls, key), item) for key, item in value._now().items())
        }
        return node

    def _tensor(self, value: Tensor, path: Path) -> Node:
        return describe_tensor(value, path, self.leaves, self.problems)

    def _column(self, value: Any, path: Path, size: Size) -> Node:
        """Return the node of a column. Only the items of its rows are written, in the order of the rows.

        ``size`` is the batch size of the outermost column of ragged rows of ragged rows.
        """
        compact = value.compact()
        items, spans = compact._items, compact._spans()
        node = {**column_head(compact), "batch_size": list(size)}
        _check_size(spans.shape, path, self.problems)
        below = (*path, "values")
        node["entries"] = {
            "values": self._tensor(items, below) if isinstance(items, Tensor) else self._column(items, below, size),
            "spans": self._tensor(spans, (*path, "spans")),
        }
        return node

    def _objects(self, value: Leaf, path: Path) -> Node:
        _check_size(value._batch_size, path, self.problems)
        try:
            if value._is_uniform:
                return _describe_object(value, self.allow_pickle)
            forms, codes = forms_of(value, self.allow_pickle)
        except Unwritable as error:
            self.problems.append(f"{dotted(path)}: {error}")
            return {}
        if self.object_arrays:
            node = describe_forms(forms, codes, path, self.leaves, self.problems)
        else:
            node = _forms_in_tree(forms, codes)
        node.update(kind_note(value))
        return node


def kind_note(value: Leaf) -> Node:
    """Return the entry of a node that names the class of a leaf; without one, the type of the node says it."""
    return {} if value._KIND is None else {"kind": value._KIND}


def describe_tensor(value: Tensor, path: Path, leaves: list[TensorLeaf], problems: list[str]) -> Node:
    """Return the node of a tensor. Appends its buffers to ``leaves``, and reasons why it cannot be written."""
    dtype = str(value.dtype).removeprefix("torch.")
    name = ".".join(path)
    node: Node = {"type": "tensor", "dtype": dtype, "shape": list(value.shape)}
    if dtype not in DTYPES:
        problems.append(f"{name}: files have no tensors of the dtype {value.dtype}")
    elif value.is_meta:
        problems.append(f"{name}: a tensor on the device meta has no values")
    elif value.is_nested and value.layout == torch.jagged:
        jagged: Any = packed(value)
        if jagged._ragged_idx != 1:
            problems.append(f"{name}: a jagged tensor whose ragged dimension is not 1; transpose it first")
        else:
            _check_size(jagged.values().shape, path, problems)
            node.update(type="jagged", shape=list(jagged.values().shape), rows=len(jagged))
            leaves.append(TensorLeaf(path, "", jagged.values(), node))
            leaves.append(TensorLeaf(path, "offsets", jagged.offsets().to(torch.int64), node))
    elif is_sharded(value):
        problems.append(f"{name}: {WHOLE}")
    elif value.layout != torch.strided:
        problems.append(f"{name}: a tensor of the layout {value.layout}; make it dense first, with to_dense()")
    else:
        _check_size(value.shape, path, problems)
        leaves.append(TensorLeaf(path, "", value, node))
    return node


def column_head(value: Any) -> Node:
    """Return the part of a column's node that precedes its entries."""
    spans = value._spans()
    node: Node = {"type": "column", "column": value._KIND}
    node["missing"] = not spans.is_meta and bool((spans[..., 1] < 0).any())
    if value._names is not None:
        node["names"] = list(value._names)
    return node


#: the fewest rows of objects that are written as arrays; fewer are in the tree, which people and the peer read
ARRAYS_FROM = 1000


def _describe_object(value: Any, allow_pickle: bool | None) -> Node:
    data = encode(value._unwrapped(), allow_pickle)
    node: Node = {"type": "object", "batch_size": list(value._batch_size), "data": data}
    if value._metadata is not None:
        node["metadata"] = encode(value._metadata, allow_pickle)
    return {**node, **kind_note(value)}


def forms_of(value: Leaf, allow_pickle: bool | None) -> tuple[list[Any], Tensor]:
    """Return the JSON forms of objects, and the codes, which index them.

    Raises:
        Unwritable: an object has no JSON form.
    """
    objects, codes = drop_unused(*value._coded_objects())
    return [encode(item, allow_pickle) for item in objects], codes


def describe_forms(
    forms: Sequence[Any],
    codes: Tensor,
    path: Path,
    leaves: list[TensorLeaf],
    problems: list[str],
    as_type: str | None = None,
) -> Node:
    """Return the node of the JSON forms of objects: many are described by arrays, which are appended to ``leaves``.

    Args:
        forms: the forms.
        codes: the form of each row.
        path: the key.
        leaves: gets the arrays.
        problems: gets the reasons why they cannot be written.
        as_type: the type of the node. Default: ``strings`` or ``object_rows`` for many objects, else ``objects``.
    """
    if as_type is None and codes.numel() < ARRAYS_FROM:
        return _forms_in_tree(forms, codes)
    text = None if as_type == "object_rows" else as_strings(forms)
    kind = "object_rows" if text is None else "strings"
    text = Text.from_list(list(map(_json, forms))) if text is None else text
    parts = {"values": text.values, "spans": text.spans, "codes": codes.contiguous()}
    found: list[TensorLeaf] = []
    node: Node = {"type": kind, "batch_size": list(codes.shape)}
    node["entries"] = {key: describe_tensor(part, (*path, key), found, problems) for key, part in parts.items()}
    leaves += [leaf._replace(of_objects=True) for leaf in found]
    return node


def as_strings(forms: Sequence[Any]) -> Text | None:
    """Return the text of JSON forms that are all strings; ``None`` if one is something else, or not Unicode text."""
    if all(type(form) is str for form in forms):
        with contextlib.suppress(ValueError):  # half of a surrogate pair, which JSON can hold
            return Text.from_list(forms)
    return None


def _forms_in_tree(forms: Sequence[Any], codes: Tensor) -> Node:
    flat: list[int] = to_lists(codes.reshape(-1))
    return {"type": "objects", "batch_size": list(codes.shape), "data": [forms[code] for code in flat]}


_json = json.JSONEncoder(allow_nan=False).encode


def _check_size(size: Size, path: Path, problems: list[str]) -> None:
    """Note a shape that :func:`parse_size` would refuse: without values, but above 2**58 in its other dimensions."""
    total = size.numel()
    if (not total or total > MOST_VALUES) and math.prod([length or 1 for length in size]) > MOST_VALUES:
        problems.append(f"{'.'.join(path) + ': ' if path else ''}files have no shapes as large as {list(size)}")


def check_loadable_size(size: Size, path: Path, what: str) -> None:
    """Raise for a shape that could not be loaded again. ``what`` is the caller, for errors."""
    problems: list[str] = []
    _check_size(size, path, problems)
    if problems:
        raise ValueError(f"{what}: {problems[0]}")
