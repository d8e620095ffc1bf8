"""Where records of the two libraries differ on purpose: examples for test_differences, then as the drawn ones do."""

from __future__ import annotations

import types
import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch.utils.data import DataLoader

from tests import strategies as draw
from tests.parity.differences import CASTS, Known, collections, is_a, is_error, tensors_alone
from tests.parity.drawn import Arguments, Drawn, Made, Path
from tests.parity.records import FIELDS, RecordTree, classes
from tests.parity.sides import Collected, Objects, Seen, Values, described


def error(cls: type[Exception]) -> Any:
    return described(cls())


def sample_class(library: Any) -> Any:
    @library.tensorclass  # type: ignore[untyped-decorator]
    class Sample:
        a: torch.Tensor
        text: str
        b: torch.Tensor | None = None

    return Sample


def cast_field(library: Any, option: str, annotation: Any) -> Any:
    """A record class with this option and a field of this annotation."""
    namespace = {"__annotations__": {"a": annotation}, "__module__": __name__}
    return types.new_class("Field", (library.TensorClass[option],), {}, lambda body: body.update(namespace))


def at_a_dimension(data: Any) -> Any:
    from functorch.dim import dims  # here: it takes a while to import

    return data[dims(1)]


def with_a_batch_size(library: Any) -> Any:
    class Sized(library.TensorClass["shadow"]):
        batch_size: torch.Tensor

    return Sized


def undecorated_is_decorated(library: Any) -> bool:
    class Plain:
        a: torch.Tensor

    return isinstance(library.tensorclass(Plain)(torch.zeros(2), batch_size=[2]), Plain)


def numbered(library: Any) -> Any:
    @library.tensorclass  # type: ignore[untyped-decorator]
    class Numbered:
        a: torch.Tensor
        b: int

    return Numbered


def sample(library: Any) -> Any:
    return sample_class(library)(torch.zeros(2), "t", batch_size=[2])


def two_texts(library: Any) -> list[Any]:
    cls = sample_class(library)
    return [cls(torch.zeros(2), text, batch_size=[2]) for text in ("t", "u")]


def ids(library: Any) -> Any:
    return sample_class(library)(torch.tensor([257, 30001]), "t", batch_size=[2])


def strided() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.as_nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])


def contracted(library: Any) -> Any:
    class Contracted(library.TensorClass):
        x: Float[torch.Tensor, "3"]

    return Contracted


def source(library: Any, **values: Any) -> Any:
    return library.TensorDict({"a": torch.zeros(2), **values}, [2])


def written_by_key(record: Any) -> Any:
    record["a"] = torch.ones(2)
    record[0] = {"a": torch.tensor(2.0)}
    return record.a


def source_after_a_field_is_set(library: Any) -> Any:
    data = source(library, text="t")
    record = sample_class(library).from_tensordict(data)
    record.a = torch.ones(2)
    return data["a"]


def renamed(record: Any) -> list[str]:
    return sorted(record.rename_key_("a", "z").keys())


def missing_key(library: Any, record: Any) -> Any:
    """What a key without a default gives where a default is asked for."""
    library.set_get_defaults_to_none(False)
    try:
        return record.get("z")
    finally:
        library.set_get_defaults_to_none(True)


def outer(library: Any, size: tuple[int, ...] = (2,)) -> Any:
    """A record with another one."""
    inner = classes(library)["Inner"](torch.zeros(size), batch_size=size)
    return classes(library)["Plain"](torch.zeros(size), inner, batch_size=size)


def row_of_one(record: Any) -> Any:
    record[None] = 1
    return record


def trees(library: Any, record: Any) -> list[str]:
    return sorted(library.from_pytree(record.to_dict()).keys())


def set_attribute(data: Any, name: str, value: Any) -> Any:
    setattr(data, name, value)
    return data


def extended(record: Any) -> Any:
    stack = record.to_lazystack(0)
    stack.extend([record[0]])
    return stack


RECORDS: dict[str, list[tuple[Any, Any, Any]]] = {
    "A record has keys.": [
        (lambda m: sample(m)["a"], torch.zeros(2), error(ValueError)),
        (lambda m: written_by_key(sample(m)), torch.tensor([2.0, 1.0]), error(ValueError)),
        (lambda m: "a" in sample(m), True, False),
    ],
    "`get` of a record works as in every collection.": [
        (lambda m: m.is_non_tensor(sample(m).get("text")), True, False),
        (lambda m: sample(m).text, "t", "t"),
        (lambda m: missing_key(m, sample(m)), error(KeyError), error(AttributeError)),
        (lambda m: sample(m).get_at("text", np.array([0])).tolist(), ["t"], error(TypeError)),
        (lambda m: isinstance(sample(m).get("batch_size", None), torch.Size), False, True),
    ],
    "`autocast` casts to optional types and unions.": [
        (lambda m: cast_field(m, "autocast", int | None)("3").a, 3, "3"),
        (lambda m: cast_field(m, "autocast", int)("3").a, 3, 3),
        (lambda m: isinstance(cast_field(m, "autocast", Any)(3).a, int), True, False),
        (lambda m: cast_field(m, "autocast", str)({"k": 1}).a, "{'k': 1}", {"k": 1}),
    ],
    "`tensor_only` takes any annotation.": [
        (lambda m: cast_field(m, "tensor_only", int)(3).a, torch.tensor(3), error(TypeError)),
        (lambda m: isinstance(cast_field(m, "tensor_only", torch.Tensor)("text").a, str), error(TypeError), False),
    ],
    "Collections at first-class dimensions have all operations.": [
        (lambda m: tuple((at_a_dimension(source(m)) + 1).batch_size), (), error(RuntimeError)),
        (lambda m: tuple(at_a_dimension(m.lazy_stack([source(m)] * 2)).batch_size), (2,), error(ValueError)),
    ],
    "No field is called `batch_size`.": [
        (lambda m: tuple(with_a_batch_size(m)(batch_size=torch.ones(3)).shape), error(AttributeError), ()),
    ],
    "A lazy stack has a class of its own.": [
        (lambda m: type(m.lazy_stack(two_texts(m)[:1])).__name__, "Sample", "Sample"),
        (lambda m: isinstance((rows := two_texts(m)[:1])[0], type(m.lazy_stack(rows))), False, True),
        (lambda m: isinstance(m.lazy_stack(rows := two_texts(m)[:1]), type(rows[0])), True, True),
    ],
    "The decorator makes a new class.": [
        (lambda m: undecorated_is_decorated(m), False, True),
    ],
    "A record has its fields, and no others.": [
        (lambda m: sorted(sample_class(m).from_dict({"text": "t"}).keys()), error(ValueError), ["text"]),
        (lambda m: sorted(sample_class(m).from_tensordict(source(m)).keys()), error(ValueError), ["a"]),
        (lambda m: sample(m).replace({"z": torch.zeros(2)}), error(AttributeError), error(ValueError)),
        (lambda m: sample(m).separates("z", default=None), error(AttributeError), error(ValueError)),
        (lambda m: sorted(sample(m).set_non_tensor("z", "t").keys()), error(AttributeError), ["a", "text", "z"]),
        (lambda m: renamed(sample(m)), error(AttributeError), ["text", "z"]),
        (lambda m: sample(m).update({"z": torch.zeros(2)}), error(AttributeError), error(ValueError)),
        (lambda m: sample(m).update_(m.TensorDict({"z": {"z": 0}})), error(KeyError), error(TypeError)),
    ],
    "Fields are checked against their type.": [
        (lambda m: type(sample_class(m)("text", "t").a).__name__, error(TypeError), "str"),
        (lambda m: type(outer(m).set("inner", torch.zeros(2)).inner).__name__, error(TypeError), "Tensor"),
        (lambda m: type(outer(m).set("inner", {"x": torch.zeros(2)}).inner).__name__, "Inner", "dict"),
    ],
    "A field of a number holds that number.": [
        (lambda m: type(numbered(m)(torch.zeros(2), 3).b).__name__, "int", "Tensor"),
        (lambda m: type(numbered(m)(torch.zeros(2), torch.tensor(3)).b).__name__, error(TypeError), "Tensor"),
    ],
    "Flat keys make a plain collection.": [
        (lambda m: sorted(outer(m).flatten_keys().keys()), ["a", "inner.x"], error(ValueError)),
        (
            lambda m: sorted(outer(m).flatten_keys(inplace=True).keys()),
            error(TypeError),
            ["a", "inner.x"],
        ),
        (lambda m: type(outer(m).unflatten_keys()).__name__, "TensorDict", "Plain"),
    ],
    "A nested record stays one.": [
        (lambda m: type(outer(m).split_keys([("inner", "x")])[0].inner).__name__, "Inner", "TensorDict"),
    ],
    "Records are joined with records of their class.": [
        (lambda m: torch.stack([sample(m), sample(m).to_tensordict()]), error(TypeError), error(AttributeError)),
        (
            lambda m: type(m.lazy_stack([sample(m), sample(m).to_tensordict()])).__name__,
            error(TypeError),
            "LazyStackedTensorDict",
        ),
    ],
    "A field of objects holds one object for all rows.": [
        (lambda m: torch.stack(two_texts(m)).text, error(RuntimeError), [["t", "t"], ["u", "u"]]),
        (lambda m: torch.cat(two_texts(m)).text, error(RuntimeError), ["t", "t", "u", "u"]),
    ],
    "A field that is `None` has no entry.": [
        (lambda m: [key for key, _ in sample(m).non_tensor_items()], ["text"], ["b", "text"]),
        (lambda m: sorted(sample(m)[0].tolist()), ["a", "b", "text"], ["a", "text"]),
        (lambda m: sorted(sample(m).replace({"b": None}).keys()), ["a", "text"], ["a", "b", "text"]),
        (lambda m: outer(m).update_(m.TensorDict({"b": {"b": "text"}}, [2])).b, error(KeyError), None),
        (lambda m: sample(m).to_namedtuple()._fields, ("a", "text", "b"), error(AttributeError)),
        (
            lambda m: sorted(m.from_pytree(outer(m).to_dict()).keys())[1:],
            ["a", "b", "inner"],
            error(NotImplementedError),
        ),
    ],
    "A record does what a collection does.": [
        (lambda m: outer(m).grad, None, error(RuntimeError)),
        (lambda m: set_attribute(outer(m), "is_locked", True).is_locked, True, error(AttributeError)),
        (lambda m: set_attribute(outer(m).to_lazystack(0), "hook_in", abs).hook_in, abs, error(AttributeError)),
        (lambda m: list(extended(outer(m)).batch_size), [3], error(TypeError)),
        (lambda m: outer(m).del_(("b", "below")), error(KeyError), error(AttributeError)),
        (lambda m: list(outer(m)[()].batch_size), [2], error(ValueError)),
        (lambda m: list(outer(m).get_at(("inner",), ()).batch_size), [2], error(ValueError)),
        (lambda m: outer(m).lock_().set("a", torch.ones(2), inplace=True).a, torch.ones(2), error(RuntimeError)),
        (lambda m: outer(m).copy_at_(outer(m)[:1], slice(1)).a, torch.zeros(2), error(RuntimeError)),
        (
            lambda m: outer(m).set(("inner", "x"), torch.ones(2, dtype=torch.int64), inplace=True).inner.x.dtype,
            torch.float32,
            torch.int64,
        ),
        (lambda m: row_of_one(outer(m, ())).a, torch.tensor(1.0), error(AttributeError)),
        (lambda m: outer(m, ()).update_at_(outer(m, (1,)), None).a, torch.tensor(0.0), torch.zeros(1)),
        (lambda m: outer(m).update_at_(outer(m, (2, 1)), ()).a, error(RuntimeError), torch.zeros(2, 1)),
        (lambda m: outer(m, (1,)).update_at_(outer(m, (1, 2)), slice(None)).a, error(RuntimeError), torch.zeros(1, 2)),
        (lambda m: outer(m, ()).update_at_(outer(m, (1, 2)), None).a, error(RuntimeError), torch.zeros(1, 2)),
    ],
    "A record of a collection is separate from it.": [
        (source_after_a_field_is_set, torch.zeros(2), torch.ones(2)),
    ],
    "Contracts are checked, and imply the batch size.": [
        (lambda m: contracted(m)(x=torch.zeros(8, 3)).batch_size, torch.Size([8]), torch.Size([])),
        (lambda m: contracted(m)(x=torch.zeros(8, 4), batch_size=[8]).batch_size, error(ValueError), torch.Size([8])),
    ],
    "A collection without rows is not a dataset.": [
        (lambda m: [*DataLoader(sample_class(m)(torch.zeros(2), "t"))], error(TypeError), []),
        (lambda m: [*DataLoader(m.TensorDict(a=torch.zeros(2)))], error(TypeError), []),
    ],
    "Nested tensors are jagged.": [
        (lambda m: type(m.TensorDict({"a": strided()}, [2])).__name__, error(RuntimeError), "TensorDict"),
    ],
    "A record of integers keeps them in a cast.": [
        (lambda m: ids(m).to(torch.bfloat16).a.tolist(), [257, 30001], [256.0, 29952.0]),
        (lambda m: ids(m).half().a.dtype, torch.int64, torch.float16),
    ],
    "Wrong arguments are a `TypeError`.": [
        (lambda m: sample_class(m)(a=torch.zeros(2), text="t", z=1), error(TypeError), error(AttributeError)),
        (lambda m: sample_class(m)(torch.zeros(2), "t", a=torch.zeros(2)), error(TypeError), error(ValueError)),
        (lambda m: sample_class(m).from_tensordict({"a": torch.zeros(2)}), error(TypeError), error(RuntimeError)),
    ],
}


# -- drawn records -----------------------------------------------------------------------------------------------------

#: what is read and written by key, which a record of the peer refuses
BY_KEY = ("__getitem__", "__setitem__", "__delitem__")


def _path(key: Any) -> Path:
    return key if isinstance(key, tuple) else (key,)


def _is_key(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(part, str) for part in value))


def is_tree(value: Any) -> bool:
    return isinstance(value, Made) and isinstance(value.entry, draw.Tree)


def keys_written(name: str, arguments: Arguments) -> dict[Path, Any]:
    """The keys that a call writes, with what it writes there as far as that was drawn."""
    args = arguments.args
    if name in ("set", "__setitem__", "set_non_tensor", "setdefault", "set_") and _is_key(args[0]):
        return {_path(args[0]): draw.Text(args[1]) if name == "set_non_tensor" else args[1]}
    if name in ("update", "replace", "merge_tensordicts"):
        values = args[0].entry.entries if isinstance(args[0], Made) else args[0]
        written = {_path(key): value for key, value in values.items()}
        parts = [
            (path, value.entry.entries) for path, value in written.items() if path == ("inner",) and is_tree(value)
        ]
        return {**written, **{(*path, key): entry for path, entries in parts for key, entry in entries.items()}}
    if name in ("separates", "split_keys"):
        keys = args if name == "separates" else args[0]
        return {_path(key): draw.Tree() for key in keys}
    if name in ("create_nested", "rename_key_"):
        return {_path(args[-1]): draw.Tree()}
    if name == "rename_keys":
        return {_path(key): draw.Tree() for key in args[0].values()}
    return {("out",): draw.Leaf()} if name in ("cat_tensors", "stack_tensors") else {}


def by_key(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A record has keys."""
    return (
        name in BY_KEY
        and _is_key(arguments.args[0])
        and is_a(peers.result, AttributeError if name == "__delitem__" else ValueError)
    )


def held_objects(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """`get` of a record works as in every collection."""
    if name == "set_get_defaults_to_none":
        return is_a(ours.result, KeyError) and is_a(peers.result, AttributeError)
    if name == "get_at":  # an array as an index of a list, or none of its rows
        at_text = _path(arguments.args[0]) == ("text",) and isinstance(ours.result, Objects)
        return at_text and (
            is_a(peers.result, TypeError) or (is_a(peers.result, RuntimeError) and 0 in ours.result.size)
        )
    if name != "get" or _path(arguments.args[0]) != ("text",) or not isinstance(ours.result, Objects):
        return False
    return ours.result.objects == [peers.result] * len(ours.result.objects)


def no_field(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A record has its fields, and no others."""
    fields = FIELDS[drawn.tree.cls]
    if name == "update_" and not is_a(peers.result, KeyError):
        if not is_error(peers.result):  # a field without a value
            return is_a(ours.result, KeyError) and lacking(drawn) and ours.source == peers.source
        return (
            is_a(peers.result, TypeError)
            and is_a(ours.result, KeyError)
            and any((key,) not in fields for key in arguments.args[0].entry.entries)
        )
    other = set(keys_written(name, arguments)) - fields
    if name == "rename_keys" and is_a(peers.result, AttributeError):  # nor is the key there
        return bool(other) and is_a(ours.result, KeyError)
    return bool(other) and is_a(ours.result, AttributeError)


def misfits(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Fields are checked against their type."""
    written = keys_written(name, arguments)
    refused = is_a(ours.result, TypeError) or is_a(ours.result, ValueError)
    return refused and not all(fits(path, value) for path, value in written.items())


def fits(path: Path, value: Any) -> bool:
    entry = value.entry if isinstance(value, Made) else value
    if path == ("inner",):
        return isinstance(entry, RecordTree)
    if path == ("text",):
        return isinstance(entry, draw.Text) and isinstance(entry.value, str)
    return isinstance(entry, (draw.Leaf, int, float))


def flat_keys(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Flat keys make a plain collection."""
    if arguments.kwargs.get("inplace"):
        return name in ("flatten_keys", "unflatten_keys") and is_a(ours.result, TypeError)
    if name == "flatten_keys":
        return is_a(peers.result, ValueError)
    return name == "unflatten_keys" and (
        is_a(peers.result, ValueError) or ours.result == peers.result._replace(record="")
    )


def joined(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """Records are joined with records of their class."""
    if name not in JOINING:
        return False
    others = arguments.args[1 if name == "insert" else 0]
    others = others if isinstance(others, list) else [others]
    is_refused = is_a(ours.result, TypeError) or is_a(ours.result, RuntimeError)
    return is_refused and not all(isinstance(other.entry, RecordTree) for other in others)


#: puts records beside one another
JOINING = ("stack", "cat", "lazy_stack", "maybe_dense_stack", "append", "insert", "extend")


def lacking(drawn: Drawn) -> bool:
    """Whether a field has no value."""
    return "b" not in drawn.tree.entries or "y" not in drawn.tree.entries["inner"].entries


def _without_b(value: Any) -> Any:
    """Rows as dicts, in lists, without the field that has no value."""
    if isinstance(value, list):
        return [_without_b(row) for row in value]
    return {key: part for key, part in value.items() if key != "b"}


def _without_none(data: Collected) -> Collected:
    nothing = [key for key, value in data.values.items() if isinstance(value, Objects) and not any(value.objects)]
    return data._replace(values={key: value for key, value in data.values.items() if key not in nothing})


def missing(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A field that is `None` has no entry."""
    if name in ("to_namedtuple", "from_namedtuple"):
        return is_a(peers.result, AttributeError)
    if name == "from_pytree":
        return lacking(drawn) and is_a(peers.result, NotImplementedError)
    if name == "tolist":
        return "b" not in drawn.tree.entries and _without_b(ours.result) == peers.result
    if name == "replace":  # by None
        return lacking(drawn) and ours.result == collections(peers.result, _without_none)
    return name == "non_tensor_items" and ours.result == [item for item in peers.result if item[1] is not None]


def tree_of_fields(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A record is a tree of its fields."""
    return name == "to_pytree" and _fields(ours.result) == _fields(peers.result)


def _fields(value: Any) -> Any:
    """The fields of a record, and of those in it, that are not ``None``."""
    fields = value.values if isinstance(value, Collected) else value
    if not isinstance(fields, dict):
        return value
    plain = {key: part for key, part in fields.items() if part is not None}
    if isinstance(value, Collected):
        plain = _without_none(value).values
    return {key: _fields(part) for key, part in plain.items()}


def refused(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A record does what a collection does."""
    here, there = ours.result, peers.result
    if name == "grad":
        return here is None and is_a(there, RuntimeError)
    if name in ("is_locked", "hook_in", "hook_out"):
        return is_a(there, AttributeError)
    if name == "extend":
        return is_a(there, TypeError)
    if name == "del_":  # below a field without a value
        return is_a(here, KeyError) and is_a(there, AttributeError)
    if name in ("__getitem__", "get_at"):
        return arguments.args[-1] == () and is_a(there, ValueError) and not is_error(here)
    if name == "copy_at_" and is_a(there, RuntimeError):
        return not is_error(here)
    if drawn.locked and name in ("set", "update_at_"):  # in place
        return not is_error(here) and is_a(there, RuntimeError)
    if name == "set":  # in place, under a tuple
        return isinstance(arguments.args[0], tuple) and arguments.kwargs.get("inplace", True) and not is_error(there)
    if name in ("__setitem__", "update_at_") and not drawn.ndim:
        return True
    if name == "update_at_" and (arguments.args[1] == () or len(arguments.args[0].size) > drawn.ndim):
        return is_a(here, RuntimeError) and not is_error(there)
    return False


def taken_out(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A nested record stays one."""
    return name == "split_keys" and without_classes(ours.result) == without_classes(peers.result)


def whole_numbers(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """A record of integers keeps them in a cast."""
    return name in CASTS and _with_all_cast(ours.result, peers.result) == peers.result


def _with_all_cast(here: Any, there: Any) -> Any:
    """A result whose integers and booleans have the dtypes that they have in the other one."""
    if isinstance(here, Values) and isinstance(there, Values):
        tensor, dtype = here.tensor, there.tensor.dtype
        whole = not (tensor.is_floating_point() or tensor.is_complex())
        return Values(tensor.to(dtype)) if whole and (dtype.is_floating_point or dtype.is_complex) else here
    if not isinstance(here, Collected) or not isinstance(there, Collected) or here.values.keys() != there.values.keys():
        return here
    return here._replace(values={key: _with_all_cast(value, there.values[key]) for key, value in here.values.items()})


def attributes(name: str, drawn: Drawn, arguments: Arguments, ours: Seen, peers: Seen) -> bool:
    """`attrs()` of a record is a TensorDict."""
    if name != "attrs" or is_error(ours.result) or ours.result.record:
        return False
    here, there = (tensors_alone(without_classes(seen.result)) for seen in (ours, peers))
    return bool(here == there)


def without_classes(result: Any) -> Any:
    return collections(result, lambda data: data._replace(record=""))


KNOWN_OF_RECORDS: tuple[Known, ...] = (
    by_key, held_objects, no_field, misfits, flat_keys, joined, missing, tree_of_fields, refused,
    attributes,
    taken_out,
    whole_numbers,
)  # fmt: skip
