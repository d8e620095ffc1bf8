"""Sequences of writes do to a collection what they do to plain nested dicts, errors included."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from tensorclass import TensorDict
from tests.checks import assert_consistent

Tree: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

# -- the model: nested dicts of numbers -------------------------------------------------------------------------------


def find(tree: Tree, path: Path) -> Any:
    node: Any = tree
    for name in path:
        if not isinstance(node, dict):
            raise KeyError(path)
        node = node[name]
    return node


def write(tree: Tree, path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise KeyError(path)
    tree[path[-1]] = copy.deepcopy(value)


def remove(tree: Tree, path: Path) -> Any:
    value = find(tree, path)
    del find(tree, path[:-1])[path[-1]]
    return value


def rename(tree: Tree, old: Path, new: Path) -> None:
    value = find(tree, old)
    if old != new:
        remove(tree, old)
        write(tree, new, value)


def merge(tree: Tree, source: Tree) -> None:
    for name, value in source.items():
        if isinstance(value, dict) and isinstance(tree.get(name), dict):
            merge(tree[name], value)
        else:
            tree[name] = copy.deepcopy(value)


def chosen(tree: Tree, paths: list[Path], keep: bool) -> Tree:
    """The tree with only some keys, or without them."""
    result: Tree = {}
    for name, value in tree.items():
        whole = (name,) in paths
        below = [path[1:] for path in paths if path[0] == name and len(path) > 1]
        if not whole and below and isinstance(value, dict):
            result[name] = chosen(value, below, keep)
        elif whole == keep:
            result[name] = value
    return result


# -- what is done to both ---------------------------------------------------------------------------------------------

names = st.sampled_from("abc")
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
numbers = st.integers(0, 99)
trees = st.recursive(numbers, lambda below: st.dictionaries(names, below, max_size=2), max_leaves=4)
levels = st.dictionaries(names, trees, max_size=2)

Step: TypeAlias = tuple[str, Callable[[Tree], Any], Callable[[TensorDict], Any]]


def replaced(tree: Tree, new: Tree) -> None:
    tree.clear()
    tree.update(new)


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda p, v: ("set", lambda t: write(t, p, v), lambda d: d.set(p, v)), paths, trees),
    st.builds(lambda p, v: ("item", lambda t: write(t, p, v), lambda d: d.__setitem__(p, v)), paths, trees),
    st.builds(lambda p: ("pop", lambda t: remove(t, p), lambda d: d.pop(p)), paths),
    st.builds(lambda p: ("del", lambda t: remove(t, p), lambda d: d.__delitem__(p)), paths),
    st.builds(
        lambda p, q: (f"rename {p} to {q}", lambda t: rename(t, p, q), lambda d: d.rename_key_(p, q)), paths, paths
    ),
    st.builds(lambda s: (f"update {s}", lambda t: merge(t, s), lambda d: d.update(s)), levels),
    st.builds(lambda s: (f"update {s}", lambda t: merge(t, s), lambda d: d.update(TensorDict(s))), levels),
    st.builds(lambda p: (f"nest {p}", lambda t: write(t, p, {}), lambda d: d.create_nested(p)), paths),
    st.builds(
        lambda ps: (
            f"exclude {ps}",
            lambda t: replaced(t, chosen(t, ps, False)),
            lambda d: d.exclude(*ps, inplace=True),
        ),
        st.lists(paths, max_size=3),
    ),
    st.builds(
        lambda ps: (
            f"select {ps}",
            lambda t: replaced(t, chosen(t, ps, True)),
            lambda d: d.select(*ps, inplace=True, strict=False),
        ),
        st.lists(paths, max_size=3),
    ),
)


def outcome(call: Callable[[], Any]) -> bool:
    """Whether a call succeeds; the only error that is expected is a missing key, or one below a leaf."""
    try:
        call()
    except KeyError:
        return False
    return True


def plain(data: TensorDict) -> Tree:
    return data.to_dict(convert_tensors=True)


@settings(max_examples=300)
@given(levels, st.lists(steps, max_size=8))
def test_writes_do_what_they_do_to_nested_dicts(start: Tree, done: list[Step]) -> None:
    tree, data = copy.deepcopy(start), TensorDict(start)
    for name, on_tree, on_data in done:
        attempt = copy.deepcopy(tree)
        expected = outcome(lambda on_tree=on_tree, attempt=attempt: on_tree(attempt))
        assert outcome(lambda on_data=on_data: on_data(data)) == expected, name
        tree = attempt if expected else tree
        assert plain(data) == tree, name
        assert_consistent(data)


@settings(max_examples=300)
@given(levels, st.lists(steps, min_size=1, max_size=4), st.booleans())
def test_no_write_reaches_a_copy_or_a_locked_collection(start: Tree, done: list[Step], locked: bool) -> None:
    data = TensorDict(start)
    other = data.copy()
    if locked:
        other.lock_()
    for _, _, on_data in done:
        if locked:
            try:
                on_data(other)
            except (KeyError, RuntimeError):
                continue
        else:
            outcome(lambda on_data=on_data: on_data(data))
    assert plain(other) == start


@given(levels, paths, st.integers())
def test_reading_finds_what_nested_dicts_hold(start: Tree, path: Path, default: int) -> None:
    data = TensorDict(start)
    try:
        expected = find(start, path)
    except KeyError:
        assert path not in data
        assert data.get(path, default) == default
        assert data.pop(path, default) == default
    else:
        assert path in data
        found = data[path]
        assert (plain(found) if isinstance(found, TensorDict) else int(found)) == expected
