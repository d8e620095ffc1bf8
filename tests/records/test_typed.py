"""TypedTensorDict: a TensorDict with declared keys."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest
import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils import _pytree
from typing_extensions import NotRequired

import tensorclass as ours
from tensorclass import Column, NonTensorData, Ragged, TensorDict, Text, TypedTensorDict, field, lazy_stack

T = TypeVar("T")


class State(TypedTensorDict):
    a: Tensor
    b: Tensor

    def total(self) -> Tensor:
        return self.a + self.b


class Longer(State):
    c: NotRequired[Tensor]  # type: ignore[valid-type]
    d: Tensor | None = None


def state() -> State:
    return State(a=torch.zeros(3), b=torch.ones(3), batch_size=[3])


def test_declared_keys_are_attributes() -> None:
    data = state()
    assert data.a is data["a"]
    data.a = torch.ones(3)
    assert data["a"].tolist() == [1, 1, 1]
    del data.a
    assert "a" not in data
    with pytest.raises(AttributeError, match=r"State\.a is not set: the key is declared, but not there"):
        _ = data.a


def test_other_keys_can_be_set_but_are_no_attributes() -> None:
    data = state()
    data["z"] = torch.ones(3)
    assert list(data[0].keys()) == ["a", "b", "z"]
    with pytest.raises(AttributeError):
        data.y = torch.ones(3)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "index": lambda d: d[0],
    "arithmetic": lambda d: d + 1,
    "reshape": lambda d: d.reshape(3, 1),
    "stack": lambda d: torch.stack([d, d]),
    "lazy stack": lambda d: lazy_stack([d, d]),
    "clone": lambda d: d.clone(),
    "to": lambda d: d.to(torch.float64),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "tree_map": lambda d: _pytree.tree_map(lambda x: x + 1, d),
    "vmap": torch.vmap(lambda d: d + 1),
    "compile": torch.compile(lambda d: d + d.b[0], fullgraph=True, backend="eager"),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
def test_results_are_of_the_class(operation: Callable[[Any], Any]) -> None:
    result = operation(state())
    assert isinstance(result, State)
    assert result.total().equal(result["a"] + result["b"])


def test_a_constructor_can_be_compiled() -> None:
    compiled = torch.compile(lambda x: State(a=x, b=x, batch_size=[3]).total(), fullgraph=True, backend="eager")
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]


def test_defaults_come_in_and_none_is_not_stored() -> None:
    class A(TypedTensorDict):
        a: Tensor = field(default_factory=lambda: torch.zeros(2))
        b: Tensor | None = None
        c: Tensor = torch.ones(2)

    first, second = A(), A()
    assert first.a is not second.a
    assert first.c is second.c
    assert list(first.keys()) == ["a", "c"]
    assert first.b is None
    first.b = torch.ones(2)
    first.b = None
    assert "b" not in first


def test_class_variables_are_no_keys() -> None:
    class A(TypedTensorDict):
        a: Tensor
        x: ClassVar[int] = 3

    assert A.__required_keys__ == {"a"}
    assert A(a=torch.zeros(2)).x == 3


def test_a_class_can_be_generic() -> None:
    class A(TypedTensorDict, Generic[T]):
        a: T

    assert A[int](a=torch.zeros(2)).a.tolist() == [0, 0]  # type: ignore[arg-type, attr-defined]
    with pytest.raises(TypeError, match="State is not generic"):
        State[int]


def test_a_frozen_one_is_locked_when_it_is_made() -> None:
    class A(TypedTensorDict["frozen"]):  # type: ignore[misc, type-arg]
        a: Tensor

    data = A(a=torch.zeros(2))
    assert data.is_locked
    with pytest.raises(RuntimeError, match="locked"):
        data.a = torch.ones(2)


def test_a_key_can_hide_a_member() -> None:
    with pytest.raises(AttributeError, match=r"a member of their own with the name 'shape'.* shadow=True"):

        class A(TypedTensorDict):
            shape: Tensor

    class B(TypedTensorDict):
        keys: Tensor
        values: Tensor

    data = B({"keys": torch.zeros(2), "values": torch.ones(2)})
    assert data.keys.tolist() == [0, 0]
    assert (data + 1).unsqueeze(0).flatten_keys()["keys"].tolist() == [[1, 1]]


@pytest.mark.parametrize("option", ["autocast", "nocast", "tensor_only"])
def test_options_that_look_at_values_are_refused(option: str) -> None:
    with pytest.raises(TypeError, match=rf"has no options \['{option}'\]"):
        TypedTensorDict[option]


def test_from_tensordict_shares_the_keys() -> None:
    source = TensorDict(a=torch.zeros(3), b=torch.ones(3), z=torch.ones(3), batch_size=[3])
    data = State.from_tensordict(source)
    data.a = torch.ones(3)
    source["b"] = torch.zeros(3)
    assert (source["a"].tolist(), data.b.tolist()) == ([1, 1, 1], [0, 0, 0])


def test_from_tensordict_of_a_lazy_stack_writes_to_its_parts() -> None:
    source = lazy_stack([TensorDict(a=torch.zeros(2), b=torch.zeros(2)) for _ in range(3)])
    data = State.from_tensordict(source)
    data.a = torch.ones(3, 2)
    assert (type(data[0]), data[0].total().tolist()) == (State, [1, 1])
    assert source[2]["a"].tolist() == [1, 1]


def test_from_tensordict_of_rows_writes_to_the_whole() -> None:
    whole = TensorDict(a=torch.zeros(3), b=torch.ones(3), batch_size=[3])
    rows = State.from_tensordict(whole.get_sub_tensordict(slice(0, 2)))
    rows.a = torch.ones(2)
    assert whole["a"].tolist() == [1, 1, 0]


def test_from_tensordict_takes_collections_only() -> None:
    with pytest.raises(TypeError, match="expected a collection, got a dict"):
        State.from_tensordict({"a": torch.zeros(2)})  # type: ignore[arg-type]


def test_a_mapping_without_a_required_key_is_an_error_unless_it_is_unchecked() -> None:
    for make in (State, State.from_dict):
        with pytest.raises(TypeError, match=r"State: \['b'\] must be given"):
            make({"a": torch.zeros(2)})
    assert list(State.from_dict({"a": torch.zeros(2)}, check=False).keys()) == ["a"]
    assert list(State.from_any({"a": torch.zeros(2)}).keys()) == ["a"]


def test_the_store_of_a_locked_source_is_locked() -> None:
    source = TensorDict(a=torch.zeros(3), b=torch.ones(3)).lock_()
    with pytest.raises(RuntimeError, match="locked"):
        State.from_tensordict(source).a = torch.ones(3)


def _classes(library: Any) -> tuple[Any, Any]:
    base: Any = library.TypedTensorDict

    class A(base):  # type: ignore[misc]
        a: Tensor
        b: Tensor

    class B(A):
        c: NotRequired[Tensor]  # type: ignore[valid-type]

    return A, B


def _tensors(*names: str) -> dict[str, Tensor]:
    return {name: torch.full((3,), float(position)) for position, name in enumerate(names)}


CALLS: dict[str, Callable[[Any], Any]] = {
    "by keyword": lambda m: _classes(m)[0](**_tensors("a", "b"), batch_size=[3]),
    "a mapping": lambda m: _classes(m)[0](_tensors("a", "b", "z"), batch_size=[3]),
    "missing": lambda m: _classes(m)[0](**_tensors("a")),
    "unexpected": lambda m: _classes(m)[0](**_tensors("a", "b", "z")),
    "by position": lambda m: _classes(m)[0](torch.zeros(3), torch.ones(3)),
    "batch size": lambda m: _classes(m)[0](**_tensors("a", "b"), batch_size=[4]),
    "unpacked": lambda m: _classes(m)[1](**_classes(m)[0](**_tensors("a", "b"), batch_size=[3]), batch_size=[3]),
    "not required": lambda m: _classes(m)[1](**_tensors("a", "b", "c"), batch_size=[3]),
    "unset": lambda m: _classes(m)[1](**_tensors("a", "b")).c,
    "from_tensordict": lambda m: _classes(m)[0].from_tensordict(m.TensorDict(_tensors("a", "b", "z"), [3])),
    "from_tensordict, missing": lambda m: _classes(m)[0].from_tensordict(m.TensorDict(_tensors("a"), [3])),
    "from_tensordict, unchecked": lambda m: _classes(m)[0].from_tensordict(m.TensorDict(_tensors("a")), check=False),
    "from_dict": lambda m: _classes(m)[0].from_dict(_tensors("a", "b"), auto_batch_size=True),
    "from_dict, unchecked": lambda m: _classes(m)[0].from_dict(_tensors("a"), check=False),
    "select": lambda m: _classes(m)[0](**_tensors("a", "b")).select("a"),
    "to_tensordict": lambda m: _classes(m)[0](**_tensors("a", "b")).to_tensordict(),
    "flatten_keys": lambda m: _classes(m)[0](**_tensors("a"), b=m.TensorDict(_tensors("x"))).flatten_keys(),
    "nested": lambda m: _classes(m)[0](a=_classes(m)[0](**_tensors("a", "b")), b=torch.zeros(3)).a,
    "update": lambda m: _classes(m)[0](**_tensors("a", "b")).update(_tensors("z")),
    "required": lambda m: sorted(_classes(m)[1].__required_keys__),
    "optional": lambda m: sorted(_classes(m)[1].__optional_keys__),
    "is_tensorclass": lambda m: m.is_tensorclass(_classes(m)[0]),
    "is_tensor_collection": lambda m: m.is_tensor_collection(_classes(m)[0]),
    "locked": lambda m: _classes(m)[0](**_tensors("a", "b"), lock=True).is_locked,
}


@pytest.mark.parity
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_it_does_what_the_peers_does(call: Callable[[Any], Any]) -> None:
    import tensordict

    def seen(library: Any) -> Any:
        try:
            result = call(library)
        except Exception as error:
            return next(cls for cls in (TypeError, AttributeError, RuntimeError, Exception) if isinstance(error, cls))
        if not hasattr(result, "batch_size"):
            return result
        values = {key: value.tolist() for key, value in result.items()}
        return type(result).__name__, list(result.batch_size), values

    assert seen(ours) == seen(tensordict)


class Rows(TypedTensorDict):
    prompt: Text
    tokens: Ragged[Int[Tensor, "n"]]
    tags: NotRequired[Column[list[str]]]
    notes: Column[list[str]] = field(default_factory=list)
    source: str = "web"


class MoreRows(Rows):
    answer: Text
    notes: Column[list[str]]


def test_rows_under_the_key_of_a_column_become_the_column() -> None:
    rows = Rows(prompt=["a", "b"], tokens=[[1, 2], []], tags=[["u"], []], batch_size=[2])
    kinds = {key: type(value) for key, value in rows.items()}
    assert kinds == {"prompt": Text, "tokens": Ragged, "tags": Column, "notes": Column, "source": NonTensorData}
    assert (rows.prompt[1], rows.tokens.tolist(), rows.tags.item_type) == ("b", [[1, 2], []], list[str])
    assert rows.notes.tolist() == [[], []]
    rows.prompt = ["c", "d"]
    rows["tags"] = [["v"], ["w"]]
    rows.update({"tokens": [[3], [4]]})
    assert (rows.prompt[0], rows.tags[0], rows.tokens.tolist()) == ("c", ["v"], [[3], [4]])


@pytest.mark.parametrize("make", [MoreRows, MoreRows.from_dict], ids=["constructor", "from_dict"])
def test_columns_are_inherited_and_made_from_mappings(make: Callable[..., MoreRows]) -> None:
    rows = make({"prompt": ["a"], "tokens": [[1]], "answer": ["x"], "other": ["free"]}, batch_size=[1])
    assert [type(rows.get(key)) for key in ("prompt", "tokens", "answer")] == [Text, Ragged, Text]


def test_an_inherited_default_of_a_column_is_a_row() -> None:
    assert MoreRows(prompt=["a"], tokens=[[1]], answer=["x"], batch_size=[1]).notes.tolist() == [[]]


def test_rows_that_a_declared_column_cannot_take_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"Rows\.tags: Column\[list\[str\]\]: row 1: expected list\[str\], got int 3"):
        Rows(prompt=["a", "b"], tokens=[[1], [2]], tags=[["u"], 3], batch_size=[2])
