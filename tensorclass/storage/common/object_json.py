"""Objects as JSON, with tags for types that JSON lacks; pickles only if writer and reader allow them.

Values of JSON's own types (``None``, ``bool``, ``int``, ``float``, ``str``, lists, dicts with strings as keys) are
unchanged. Any other value is a list of three items: a tuple is ``["<tag>", "tuple", [...]]``. A list that begins with
that string is tagged too, so that it is not mistaken for one.
"""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import math
import pathlib
import pickle
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from tensorclass.convert.python.pytree_node import PytreeLeaf, PytreeNode
from tensorclass.support.printable import printable

TAG = "<tag>"

#: the most levels of a nested object; Python's recursion ends at some 1,000
DEPTH = 100

#: the most items of a set with the same hash; without intent it is one or two
_MOST_COLLISIONS = 100

_OR_PICKLE = ", or pass allow_pickle=True, here and on loading"


class Unwritable(TypeError):
    """An object that a file cannot hold."""


def encode(value: Any, allow_pickle: bool | None = False, depth: int = 0) -> Any:
    """Return an object as JSON.

    Args:
        value: the object.
        allow_pickle: pickle an object that has no JSON form; ``None`` if the format has no pickles.
        depth: the number of levels above the object.

    Raises:
        Unwritable: the object has no JSON form, and pickles are not allowed.

    >>> encode({"a": (1, 2)})
    {'a': ['<tag>', 'tuple', [1, 2]]}
    """
    kind: Any = value.__class__
    if kind in _PLAIN or (kind is float and math.isfinite(value)):
        return value
    if depth > DEPTH:
        raise Unwritable(f"it is nested deeper than {DEPTH} levels")
    if kind is list:
        items = _encoded(value, allow_pickle, depth)
        return [TAG, "list", items] if items[:1] == [TAG] else items
    if kind is dict:
        given: dict[Any, Any] = value
        if all(type(key) is str for key in given):
            return {key: encode(item, allow_pickle, depth + 1) for key, item in given.items()}
        _check_hashes(given)
        return [TAG, "dict", [_encoded(pair, allow_pickle, depth) for pair in given.items()]]
    if kind is collections.Counter:  # the state of torch's MultiStepLR has one
        _check_hashes(value)
        return [TAG, "counter", [_encoded(pair, allow_pickle, depth) for pair in value.items()]]
    if kind in _COLLECTIONS:
        if kind is not tuple:
            _check_hashes(value)
        return [TAG, kind.__name__, _encoded(value, allow_pickle, depth)]
    if issubclass(kind, np.generic) and value.dtype.kind in "biufcSUmM":
        return [TAG, "numpy", [value.dtype.str, base64.b64encode(value.tobytes()).decode("ascii")]]
    if kind is PytreeNode:
        if allow_pickle and not _has_plain_class(value):
            return _pickled(value)
        return [TAG, "pytree", _node_form(value, allow_pickle, depth)]
    for known, (name, write, _) in _FORMS.items():
        if isinstance(value, known) if known is pathlib.PurePath else kind is known:
            return [TAG, name, write(value)]
    if not allow_pickle:
        raise Unwritable(
            f"a {printable(f'{kind.__module__}.{kind.__qualname__}')} cannot be written as JSON; write its content as "
            "text, numbers, lists and dicts" + (_OR_PICKLE if allow_pickle is False else "")
        )
    return _pickled(value)


def decode(value: Any, allow_pickle: bool = False) -> Any:
    """Return the object of a JSON value that :func:`encode` made.

    Args:
        value: the JSON value.
        allow_pickle: load pickles, which can run any code.

    Raises:
        ValueError: :func:`encode` does not make such a value, or it is a pickle and these are not allowed.

    >>> decode(["<tag>", "tuple", [1, 2]])
    (1, 2)
    """
    given: Any = value
    if type(value) is dict:
        return {key: decode(item, allow_pickle) for key, item in given.items()}
    if type(value) is not list:
        return given
    if given[:1] != [TAG]:
        return [decode(item, allow_pickle) for item in given]
    name = given[1] if len(given) == 3 and isinstance(given[1], str) else "?"
    content = given[-1]
    if name == "pickle":
        if not allow_pickle:
            raise ValueError(
                "an object was written as a pickle, and loading a pickle can run any code; pass allow_pickle=True for "
                "a file that you trust"
            )
        return pickle.loads(base64.b64decode(content, validate=True))
    try:
        if name in _BY_NAME:
            return _BY_NAME[name](content)
        if name == "list":
            return [decode(item, allow_pickle) for item in content]
        if name == "dict" or name == "counter":
            keys = _distinct([decode(key, allow_pickle) for key, _ in content])
            items = [decode(item, allow_pickle) for _, item in content]
            found = dict(zip(keys, items, strict=True))
            return found if name == "dict" else collections.Counter(found)
        if name == "pytree":
            return _node(content)
        if name == "numpy":
            known = _NUMPY.fullmatch(content[0])
            if known is None:
                raise ValueError("its dtype is unknown")
            dtype, raw = np.dtype(content[0]), base64.b64decode(content[1], validate=True)
            # by the number in the text: the size of a dtype of 4 GB overflows in older numpy, which makes room for it
            if len(raw) < max(dtype.itemsize, int(known["length"] or 0)):
                raise ValueError("its bytes are fewer than those of its dtype")
            return np.frombuffer(raw, dtype=dtype, count=1)[0] if dtype.itemsize else dtype.type()
        for kind in _COLLECTIONS:
            if name == kind.__name__:
                items = [decode(item, allow_pickle) for item in content]
                return kind(items if kind is tuple else _distinct(items))
    except (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError, AttributeError) as error:
        raise ValueError(f"an object of the type {name!r} is damaged: {error}") from None
    raise ValueError(f"an object has the type {name!r}, which is unknown here: {str(given)[:80]}")


def _distinct(items: list[Any]) -> list[Any]:
    """Return the items for a set. Raise if many of them have the same hash.

    The hash of an int is its remainder by 2**61 - 1, so making a set of multiples of that takes quadratic time.
    """
    if _collide(items):
        raise ValueError(f"more than {_MOST_COLLISIONS} of its items have the same hash")
    return items


def _check_hashes(items: Iterable[Any]) -> None:
    if _collide(items):
        raise Unwritable(
            f"more than {_MOST_COLLISIONS} items of a set, or keys, have the same hash, which loading would refuse"
        )


def _collide(items: Iterable[Any]) -> bool:
    """Return whether very many items have the same hash."""
    return max(collections.Counter(map(hash, items)).values(), default=0) > _MOST_COLLISIONS


def _encoded(items: Iterable[Any], allow_pickle: bool | None, depth: int) -> list[Any]:
    return [encode(item, allow_pickle, depth + 1) for item in items]


def _pickled(value: Any) -> list[Any]:
    return [TAG, "pickle", base64.b64encode(pickle.dumps(value)).decode("ascii")]


def _has_plain_class(node: PytreeNode) -> bool:
    """Return whether a pytree node is a dict, list or tuple: a file cannot name the code that makes others."""
    return node.kind in _NODES and node.context is None and node.namespace is None


def _is_dtype(leaf: Any) -> bool:
    return isinstance(leaf, np.dtype)


def _node_form(node: PytreeNode, allow_pickle: bool | None, depth: int) -> dict[str, Any]:
    if not _has_plain_class(node):
        raise Unwritable(
            f"the pytree has a {node.kind.__module__}.{node.kind.__qualname__} here, which cannot be made from a file; "
            "use dicts, lists and tuples" + (_OR_PICKLE if allow_pickle is False else "")
        )
    form: dict[str, Any] = {"kind": node.kind.__name__}
    if node.keys:
        form["keys"] = {name: encode(key, allow_pickle, depth + 1) for name, key in node.keys.items()}
    numbers = {key: leaf for key, leaf in node.leaves.items() if leaf is not PytreeLeaf and not _is_dtype(leaf)}
    if numbers:
        form["numbers"] = {key: encode(leaf, allow_pickle, depth + 1) for key, leaf in numbers.items()}
    arrays: dict[str, str] = {key: leaf.str for key, leaf in node.leaves.items() if _is_dtype(leaf)}
    if arrays:
        form["arrays"] = arrays
    leaves = [key for key, leaf in node.leaves.items() if leaf is PytreeLeaf]
    if leaves:
        form["leaves"] = leaves
    return form


def _node(form: Any) -> PytreeNode:
    keys = {name: decode(key) for name, key in form.get("keys", {}).items()}
    if len(set(_distinct(list(keys.values())))) < len(keys):  # set() also raises if they cannot be keys
        raise ValueError("two keys are the same")
    leaves: dict[str, Any] = {key: decode(leaf) for key, leaf in form.get("numbers", {}).items()}
    if not all(isinstance(leaf, (int, float, complex, np.generic)) for leaf in leaves.values()):
        raise TypeError("expected numbers")
    for key, name in form.get("arrays", {}).items():
        if not _NUMPY.fullmatch(name):
            raise ValueError("the dtype of an array is unknown")
        leaves[key] = np.dtype(name)
    leaves.update(dict.fromkeys(form.get("leaves", ()), PytreeLeaf))
    return PytreeNode(_NODE_KINDS[form["kind"]], leaves, keys)


#: dtypes by name: getattr(torch, name) could import a module
_DTYPES = {str(found).removeprefix("torch."): found for found in vars(torch).values() if isinstance(found, torch.dtype)}


def _of_text(make: Callable[[str], Any], what: str) -> Callable[[Any], Any]:
    """Return a function that takes only text, for one that takes other objects, too. ``what`` says what the text is."""

    def read(text: Any) -> Any:
        if not isinstance(text, str):
            raise TypeError(f"expected {what}")
        return make(text)

    return read


def _seconds(value: datetime.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


_NUMPY = re.compile(r"[<>|=][biufcSU](?P<length>\d{1,9})|[<>][mM]8(\[\d{0,9}\w{1,9}\])?")

_PLAIN = frozenset((str, bool, int, type(None)))
_NODES = frozenset((dict, list, tuple, collections.OrderedDict))
_NODE_KINDS = {kind.__name__: kind for kind in _NODES}
_COLLECTIONS: tuple[Any, ...] = (tuple, set, frozenset)

#: type -> its name in files, the function to JSON, and the function back
_FORMS: dict[Any, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    float: ("float", repr, float),  # nan and infinities, which JSON lacks
    complex: ("complex", lambda value: [repr(value.real), repr(value.imag)], lambda pair: complex(*map(float, pair))),
    bytes: (
        "bytes",
        lambda value: base64.b64encode(value).decode("ascii"),
        lambda text: base64.b64decode(text, validate=True),
    ),
    torch.dtype: ("dtype", lambda value: str(value).removeprefix("torch."), _DTYPES.__getitem__),
    torch.device: ("device", str, _of_text(torch.device, "the name of a device")),
    torch.Size: ("size", list, torch.Size),
    range: ("range", lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    type(...): ("ellipsis", lambda value: None, lambda value: ...),
    datetime.datetime: ("datetime", datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.timedelta: ("timedelta", _seconds, lambda parts: datetime.timedelta(*parts)),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    uuid.UUID: ("uuid", str, _of_text(uuid.UUID, "a text")),
    pathlib.PurePath: ("path", str, pathlib.Path),
}
_BY_NAME: dict[str, Callable[[Any], Any]] = {name: read for name, _, read in _FORMS.values()}
