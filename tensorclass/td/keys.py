"""Nested keys: a tuple of strings, or any nesting of such tuples, names one entry in a tree of collections.

A key is *unravelled* into a string or a flat tuple of strings before it is looked up, so that ``("a", ("b", ("c",)))``
and ``("a", "b", "c")`` are the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

from torch.compiler import is_compiling

from tensorclass.support.nearest import KeyMessage
from tensorclass.support.printable import printable

#: a key of a collection: a string, or a tuple of strings for an entry of a nested collection
NestedKey: TypeAlias = "str | tuple[NestedKey, ...]"
FlatKey: TypeAlias = str | tuple[str, ...]


#: the separator of a nested key that is written as one string
KEY_SEPARATOR = "."


class NoKey(TypeError, KeyError):
    """Not a valid key: a value of a wrong type (``TypeError``), which no collection has (``KeyError``)."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError.__str__ would quote the message


def _key_error(key: object) -> NoKey:
    return NoKey(f"a key is a string or a non-empty (nested) tuple of strings, got {key!r}")


def missing_key(message: str, wrong: object, known: Iterable[object]) -> KeyError:
    """Return the error for a key that there is not. Printed, it ends with the nearest of the known keys.

    Args:
        message: the message.
        wrong: the key, one name of a nested key, or several keys.
        known: the keys that there are.

    >>> raise missing_key("sort_by: there is no key 'lable'", "lable", ["image", "label"])
    Traceback (most recent call last):
    KeyError: sort_by: there is no key 'lable'. Did you mean: 'label'?
    """
    return KeyError(message if is_compiling() else KeyMessage(message, wrong, known))


def unravel_key_to_tuple(key: NestedKey) -> tuple[str, ...]:
    """Return a key as a flat tuple of strings.

    Args:
        key: a string, or a tuple of strings and such tuples.

    Raises:
        TypeError: this is not a valid key.

    Example:
        >>> from tensorclass import unravel_key_to_tuple
        >>> unravel_key_to_tuple(("a", ("b", ("c",))))
        ('a', 'b', 'c')
        >>> unravel_key_to_tuple("a")
        ('a',)
    """
    if isinstance(key, str):
        return (key,)
    if not key or type(key) is not tuple:
        raise _key_error(key)
    for part in key:
        if type(part) is not str:
            break
    else:
        return key  # type: ignore[return-value]  # flat already
    flat: tuple[str, ...] = ()
    for part in key:
        flat += (part,) if type(part) is str else unravel_key_to_tuple(part)
    return flat


def unravel_key(key: NestedKey) -> FlatKey:
    """Return a key in its shortest form: a string, or a flat tuple of at least two strings.

    Args:
        key: a string, or a tuple of strings and such tuples.

    Raises:
        TypeError: this is not a valid key.

    Example:
        >>> from tensorclass import unravel_key
        >>> unravel_key((("a",),))
        'a'
        >>> unravel_key(("a", ("b",)))
        ('a', 'b')
    """
    if isinstance(key, str):
        return key
    flat = unravel_key_to_tuple(key)
    return flat[0] if len(flat) == 1 else flat


def unravel_key_list(keys: Iterable[NestedKey]) -> list[FlatKey]:
    """Return :func:`unravel_key` of each key.

    Args:
        keys: the keys.

    Raises:
        TypeError: an item is not a valid key, or ``keys`` is one string.

    Example:
        >>> from tensorclass import unravel_key_list
        >>> unravel_key_list(["a", ("b", ("c",))])
        ['a', ('b', 'c')]
    """
    if isinstance(keys, str):
        raise TypeError(f"expected a sequence of keys, got the string {keys!r}; write [{keys!r}]")
    return [unravel_key(key) for key in keys]


def is_nested_key(key: object) -> TypeGuard[NestedKey]:
    """Return whether ``key`` is a string or a non-empty nesting of tuples of strings.

    Example:
        >>> is_nested_key(("a", ("b",))), is_nested_key(("a", 0)), is_nested_key(())
        (True, False, False)
    """
    if isinstance(key, str):
        return True
    parts: Any = key
    return isinstance(key, tuple) and bool(parts) and all(is_nested_key(part) for part in parts)


def is_seq_of_nested_key(seq: object) -> TypeGuard[Sequence[NestedKey]]:
    """Return whether ``seq`` is a string or a sequence of nested keys, such as a list of strings and tuples of strings.

    Args:
        seq: any object.

    Example:
        >>> from tensorclass.utils import is_seq_of_nested_key
        >>> is_seq_of_nested_key(["a", ("b", "c")]), is_seq_of_nested_key([("a", 1)])
        (True, False)
    """
    parts: Any = seq
    return isinstance(seq, str) or (isinstance(seq, Sequence) and all(is_nested_key(part) for part in parts))


def join_key(prefix: tuple[str, ...], name: str) -> FlatKey:
    """Return ``name`` below ``prefix``, in the shortest form.

    >>> join_key((), "a"), join_key(("a",), "b")
    ('a', ('a', 'b'))
    """
    return (*prefix, name) if prefix else name


def dotted(path: Iterable[str]) -> str:
    r"""Return the names of a nested key as errors print them: with dots in between and without control characters.

    >>> dotted(("a", "b")), dotted(["\x1b[2J"])
    ('a.b', '\\x1b[2J')
    """
    return printable(KEY_SEPARATOR.join(path))


def key_tree(keys: Iterable[NestedKey]) -> dict[str, Any]:
    """Return keys as a tree of nested dicts. ``None`` stands for an entry as a whole.

    A key takes precedence over keys below it.

    >>> key_tree(["a", ("b", "c"), ("b", "d")])
    {'a': None, 'b': {'c': None, 'd': None}}
    """
    tree: dict[str, Any] = {}
    for key in keys:
        if type(key) is str:
            tree[key] = None
            continue
        *path, last = unravel_key_to_tuple(key)
        node = tree
        for part in path:
            child: dict[str, Any] | None = node.setdefault(part, {})
            if child is None:
                break
            node = child
        else:
            node[last] = None
    return tree
