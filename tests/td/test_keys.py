"""A nested key is the same key in every nesting of its parts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import unravel_key, unravel_key_list, unravel_key_to_tuple
from tensorclass.td.keys import is_nested_key, join_key, key_tree

names = st.text(max_size=3)
nested_keys = st.recursive(names, lambda parts: st.lists(parts, min_size=1, max_size=3).map(tuple), max_leaves=6)
not_keys: tuple[Any, ...] = (0, None, 1.5, b"a", ["a"], {"a"}, (), ("a", 0), ("a", ()), (("a", ["b"]),), ("a", None))


def parts(key: Any) -> list[str]:
    """The strings of a nested key, one by one."""
    return [key] if isinstance(key, str) else [name for part in key for name in parts(part)]


@given(nested_keys)
def test_a_key_as_a_tuple_has_its_strings_in_order(key: Any) -> None:
    assert unravel_key_to_tuple(key) == tuple(parts(key))


@given(nested_keys)
def test_an_unravelled_key_is_a_string_or_a_flat_tuple_of_at_least_two(key: Any) -> None:
    flat = unravel_key(key)
    assert flat == (parts(key)[0] if len(parts(key)) == 1 else tuple(parts(key)))


@given(nested_keys)
def test_unravelling_a_second_time_changes_nothing(key: Any) -> None:
    assert unravel_key(unravel_key(key)) == unravel_key(key)
    assert unravel_key_to_tuple(unravel_key_to_tuple(key)) == unravel_key_to_tuple(key)


@given(st.lists(nested_keys, max_size=4))
def test_a_list_of_keys_is_unravelled_one_by_one(keys: list[Any]) -> None:
    assert unravel_key_list(keys) == [unravel_key(key) for key in keys]
    assert unravel_key_list(iter(keys)) == [unravel_key(key) for key in keys]


@given(nested_keys)
def test_every_nesting_of_strings_is_a_nested_key(key: Any) -> None:
    assert is_nested_key(key)


@pytest.mark.parametrize("key", not_keys, ids=repr)
def test_nothing_else_is_a_nested_key(key: Any) -> None:
    assert not is_nested_key(key)


@pytest.mark.parametrize("unravel", [unravel_key, unravel_key_to_tuple])
@pytest.mark.parametrize("key", not_keys, ids=repr)
def test_unravelling_what_is_no_key_is_a_type_error_that_shows_it(unravel: Any, key: Any) -> None:
    with pytest.raises(TypeError, match="a key is a string or a non-empty"):
        unravel(key)


def test_one_string_is_no_list_of_keys() -> None:
    with pytest.raises(TypeError, match=r"write \['abc'\]"):
        unravel_key_list("abc")


class Name(str):
    """A string of another class."""

    __slots__ = ()


def test_strings_of_other_classes_are_keys() -> None:
    assert unravel_key((Name("a"), (Name("b"),))) == ("a", "b")
    assert is_nested_key((Name("a"), "b"))


@given(st.lists(names, max_size=3).map(tuple), names)
def test_a_joined_key_is_the_unravelled_key_of_prefix_and_name(prefix: tuple[str, ...], name: str) -> None:
    assert join_key(prefix, name) == unravel_key((*prefix, name))


# -- trees of keys ----------------------------------------------------------------------------------------------------


def whole(tree: dict[str, Any], prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The keys that stand for whole entries of a tree."""
    found: set[tuple[str, ...]] = set()
    for name, below in tree.items():
        found |= {(*prefix, name)} if below is None else whole(below, (*prefix, name))
    return found


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple), max_size=6))
def test_a_tree_holds_the_keys_that_no_other_key_contains(keys: list[tuple[str, ...]]) -> None:
    inside = {key for key in keys for other in keys if len(other) < len(key) and key[: len(other)] == other}
    assert whole(key_tree(keys)) == set(keys) - inside


@given(st.lists(nested_keys, max_size=4))
def test_a_tree_unravels_its_keys(keys: list[Any]) -> None:
    assert key_tree(keys) == key_tree([unravel_key(key) for key in keys])


def test_a_tree_keeps_the_order_of_the_keys() -> None:
    tree = key_tree([("b", "y"), "a", ("b", "x")])
    assert list(tree) == ["b", "a"]
    assert list(tree["b"]) == ["y", "x"]
