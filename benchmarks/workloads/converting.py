"""Collections from Python objects and arrays, and back."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.sides import SOURCES, Batch, Form, Hand, Side, by_hand, fifty, four, nested
from benchmarks.timing import Call
from benchmarks.workloads.table import ROWS, Operation, Workload, on_forms

# -- dicts ------------------------------------------------------------------------------------------------------------


def _of_dict(source: dict[str, Any], size: Batch) -> Hand:
    """A copy of a (nested) dict, each tensor checked against the batch size."""
    values: dict[str, Any] = {}
    for key, value in source.items():
        if isinstance(value, dict):
            values[key] = _of_dict(value, size)[0]
        else:
            if value.shape[: len(size)] != size:
                raise ValueError(f"{key}: expected batch size {size}, got shape {tuple(value.shape)}")
            values[key] = value
    return values, size


def _common(source: dict[str, Any]) -> list[int]:
    """The leading dimensions that all tensors share."""
    found: list[int] | None = None
    for value in source.values():
        own = _common(value) if isinstance(value, dict) else list(value.shape)
        if found is None:
            found = own
        else:
            same = [a == b for a, b in zip(found, own, strict=False)]
            found = found[: same.index(False) if False in same else len(same)]
    return found or []


def _three(batch: Batch) -> dict[str, Any]:
    values = four(batch)
    del values["value"]
    return values


def _from_dict(name: str, source: Callable[[Batch], dict[str, Any]], **options: Any) -> Workload:
    def library(side: Side) -> Call:
        given, method = source(ROWS), side.TensorDict.from_dict
        return lambda: method(given, **options)

    def hand() -> Call:
        given = source(ROWS)
        if options.get("auto_batch_size"):
            return lambda: _of_dict(given, tuple(_common(given)))
        return lambda: _of_dict(given, options.get("batch_size", ()))

    return Workload(name, library, hand)


def _record_from_dict(name: str, form: Form) -> Workload:
    def library(side: Side) -> Call:
        given = SOURCES[form](ROWS)
        method = (side.Nested if form == "nested record" else side.Record).from_dict
        return lambda: method(given, batch_size=ROWS)

    def hand() -> Call:
        given = SOURCES[form](ROWS)
        return lambda: _of_dict(given, ROWS)

    return Workload(name, library, hand)


def _to_dict_by_hand(values: dict[str, Any], size: Batch) -> dict[str, Any]:
    return {key: _to_dict_by_hand(one, size) if isinstance(one, dict) else one for key, one in values.items()}


def _to_dict_of_three() -> Workload:
    def library(side: Side) -> Call:
        return side.TensorDict(_three(ROWS), ROWS).to_dict

    def hand() -> Call:
        source = _three(ROWS)
        return lambda: dict(source)

    return Workload("to_dict (3 keys)", library, hand)


TO_DICT = Operation("to_dict", lambda x: x.to_dict(), _to_dict_by_hand)

# -- named tuples, lists ----------------------------------------------------------------------------------------------

Four = namedtuple("Four", ["observation", "action", "reward", "value"])
Nested = namedtuple("Nested", ["before", "after", "reward", "value"])


def _named(batch: Batch) -> Any:
    source = nested(batch)
    return Nested(Four(**source["before"]), Four(**source["after"]), source["reward"], source["value"])


def _from_namedtuple() -> Workload:
    def library(side: Side) -> Call:
        given, method = _named(ROWS), side.TensorDict.from_namedtuple
        return lambda: method(given, batch_size=ROWS)

    def hand() -> Call:
        given = _named(ROWS)

        def convert() -> Hand:
            source = given._asdict()
            for key in ("before", "after"):
                source[key] = source[key]._asdict()
            return _of_dict(source, ROWS)

        return convert

    return Workload("from_namedtuple (nested)", library, hand)


def _to_namedtuple() -> Workload:
    def library(side: Side) -> Call:
        return side.TensorDict(four(ROWS), ROWS).to_namedtuple

    def hand() -> Call:
        values, _ = by_hand("td", ROWS)
        return lambda: Four(**values)

    return Workload("to_namedtuple", library, hand)


def _from_list() -> Workload:
    def library(side: Side) -> Call:
        rows, method = [four((), seed) for seed in range(32)], side.TensorDict.from_list
        return lambda: method(rows)

    def hand() -> Call:
        rows = [four((), seed) for seed in range(32)]
        return lambda: ({key: torch.stack([row[key] for row in rows]) for key in rows[0]}, (32,))

    return Workload("from_list (32 rows)", library, hand)


# -- trees ------------------------------------------------------------------------------------------------------------


def _small_tree() -> Any:
    values = four(ROWS)
    return [values["observation"], {"a": (values["action"], values["reward"]), "b": {"c": values["value"]}}]


def _wide_tree() -> Any:
    return fifty(ROWS)


def _deep_tree() -> Any:
    tree: Any = four(ROWS)["value"]
    for level in range(20):
        tree = [tree] if level % 2 else {"below": tree}
    return tree


def _tree_of_numbers() -> Any:
    return {"step": 3, "lr": 0.5, "betas": (0.5, 0.25), "array": np.zeros(2, np.float32), "done": False}


def _of_tree(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {**{key: _of_tree(value) for key, value in tree.items()}, "_pytree_type": type(tree)}
    if isinstance(tree, (list, tuple)):
        return {**{str(i): _of_tree(value) for i, value in enumerate(tree)}, "_pytree_type": type(tree)}
    return tree


def _to_tree(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    kind = tree["_pytree_type"]
    if kind is dict:
        return {key: _to_tree(value) for key, value in tree.items() if key != "_pytree_type"}
    return kind([_to_tree(tree[str(i)]) for i in range(len(tree) - 1)])


def _leaves(tree: Any) -> Any:
    """By hand: a tensor for each number and array."""
    if isinstance(tree, dict):
        return {key: _leaves(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(_leaves, tree))
    return torch.as_tensor(tree)


def _from_pytree(name: str, make: Callable[[], Any], numbers: bool = False) -> Workload:
    def library(side: Side) -> Call:
        given, method = make(), side.TensorDict.from_pytree
        return lambda: method(given)

    def hand() -> Call:
        given = make()
        return lambda: (_of_tree(_leaves(given) if numbers else given), ())

    return Workload(f"from_pytree ({name})", library, hand)


def _to_pytree(name: str, make: Callable[[], Any]) -> Workload:
    def library(side: Side) -> Call:
        return side.TensorDict.from_pytree(make()).to_pytree

    def hand() -> Call:
        given = _of_tree(make())
        return lambda: _to_tree(given)

    return Workload(f"to_pytree ({name})", library, hand)


# -- structured arrays ------------------------------------------------------------------------------------------------


#: the dtypes of fields by name; the items of the packed ones are 17 bytes apart
ARRAYS: dict[str, list[Any]] = {
    "3 fields": [("a", "f4"), ("b", "i4"), ("c", "f4")],
    "50 fields": [(f"f{i:02d}", "f4") for i in range(50)],
    "packed": [("a", "u1"), ("b", "f8"), ("c", "i4"), ("d", "f4")],
}
MANY: Batch = (1_000_000,)


def _array(dtype: list[Any], batch: Batch) -> Any:
    random = np.random.default_rng(0)
    array = np.empty(batch, dtype)
    for name, kind in dtype:
        array[name] = random.integers(0, 100, batch).astype(kind)
    return array


def _of_array(columns: dict[str, Any], size: Batch) -> Hand:
    return {name: torch.from_numpy(column) for name, column in columns.items()}, size


def _to_array(values: dict[str, Any], size: Batch) -> Any:
    dtype = [(key, value.numpy().dtype, value.shape[len(size) :]) for key, value in values.items()]
    array = np.empty(size, dtype)
    for key, value in values.items():
        array[key] = value.numpy()
    return array


def _from_struct_array(form: str, batch: Batch = ROWS) -> Workload:
    def library(side: Side) -> Call:
        given, method = _array(ARRAYS[form], batch), side.TensorDict.from_struct_array
        return lambda: method(given)

    def hand() -> Call:
        given = _array(ARRAYS[form], batch)
        if form == "packed":
            return lambda: _of_array({name: given[name].copy() for name in given.dtype.names}, batch)
        return lambda: _of_array({name: given[name] for name in given.dtype.names}, batch)

    return Workload(f"from_struct_array ({form}{'' if batch == ROWS else ', 1e6 rows'})", library, hand)


def _to_struct_array(form: str, batch: Batch = ROWS) -> Workload:
    def values() -> dict[str, Any]:
        array = _array(ARRAYS[form], batch)
        return {name: torch.from_numpy(array[name].copy()) for name in array.dtype.names}

    def library(side: Side) -> Call:
        return side.TensorDict(values(), batch).to_struct_array

    def hand() -> Call:
        given = values()
        return lambda: _to_array(given, batch)

    return Workload(f"to_struct_array ({form}{'' if batch == ROWS else ', 1e6 rows'})", library, hand)


WORKLOADS = (
    _from_dict("from_dict (3 keys)", _three, batch_size=ROWS),
    _from_dict("from_dict (3 keys, no batch size)", _three),
    _from_dict("from_dict (3 keys, auto_batch_size)", _three, auto_batch_size=True),
    _from_dict("from_dict (td50)", SOURCES["td50"], batch_size=ROWS),
    _from_dict("from_dict (td50, auto_batch_size)", SOURCES["td50"], auto_batch_size=True),
    _from_dict("from_dict (nested td)", nested, batch_size=ROWS),
    _from_dict("from_dict (nested td, auto_batch_size)", nested, auto_batch_size=True),
    _record_from_dict("from_dict (record)", "record"),
    _record_from_dict("from_dict (nested record)", "nested record"),
    _to_dict_of_three(),
    *on_forms([TO_DICT], ("record", "td", "td50", "nested record", "nested td")),
    _from_namedtuple(),
    _to_namedtuple(),
    _from_list(),
    _from_pytree("4 values", _small_tree),
    _from_pytree("50 values", _wide_tree),
    _from_pytree("20 levels", _deep_tree),
    _from_pytree("numbers", _tree_of_numbers, numbers=True),
    _to_pytree("4 values", _small_tree),
    _to_pytree("50 values", _wide_tree),
    _to_pytree("20 levels", _deep_tree),
    *(make(form) for make in (_from_struct_array, _to_struct_array) for form in ARRAYS),
    *(make(form, MANY) for make in (_from_struct_array, _to_struct_array) for form in ("3 fields", "packed")),
)
