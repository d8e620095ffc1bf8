"""The examples in the documents of the peer: a user who moves over runs them as they are, with another import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = pytest.mark.parity

EXAMPLES: dict[str, Callable[[Any], Any]] = {}


def example(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    EXAMPLES[function.__name__] = function
    return function


def images(m: Any) -> Any:
    values = {"key 1": torch.ones(3, 4, 5), "key 2": torch.zeros(3, 4, 5, dtype=torch.bool)}
    return m.TensorDict(values, batch_size=[3, 4])


def nested(m: Any) -> Any:
    return m.TensorDict({"a": {"c": torch.arange(6.0).reshape(3, 2)}, "b": torch.arange(3)}, batch_size=3)


def step(m: Any, number: int) -> Any:
    data = m.TensorDict({}, batch_size=[])
    data["a"] = torch.full((3,), float(number))
    data["b"] = m.TensorDict({"c": torch.zeros(2)}, batch_size=[])
    return data


@example
def writing_and_reading(m: Any) -> Any:
    data = m.TensorDict({"zeros": torch.zeros(2, 3, 4), "ones": torch.ones(2, 3, 4, 5)}, batch_size=[2, 3])
    data["twos"] = 2 * torch.ones(2, 3)
    return data, data["zeros"], data[..., :2], data.reshape(6)


@example
def writing_in_place(m: Any) -> Any:
    data = nested(m)
    before = data["b"]
    data.set("b", torch.ones(3, dtype=torch.int64), inplace=True).set("new", torch.ones(3), inplace=True)
    return before, data, outcome(lambda: data.set_("missing", torch.ones(3)))


@example
def nested_keys(m: Any) -> Any:
    data = images(m)
    data["nested", ("supernested", ("key",))] = torch.zeros(3, 4)
    found = (("nested",), "supernested", (("key",),)) in data.keys(include_nested=True)
    return found, data["nested", "supernested", "key"], data.get(("nested", "supernested", "key"))


@example
def parts_of_a_batch(m: Any) -> Any:
    return nested(m).unbind(0), nested(m).split(2), nested(m)[[0, 2]], nested(m)[torch.tensor([True, False, True])]


@example
def stacking_and_joining(m: Any) -> Any:
    parts = [images(m), images(m)]
    return torch.stack(parts, 1), torch.cat(parts, 0), m.stack(parts), m.cat(parts, -1), m.TensorDict.stack(parts)


@example
def shapes_of_a_batch(m: Any) -> Any:
    return images(m).view(-1), images(m).reshape(-1), images(m).unsqueeze(-1), images(m).permute(1, 0)


@example
def arithmetic(m: Any) -> Any:
    data = m.TensorDict.fromkeys(["a", "b", "c"], 0)
    data += 1
    return data, (data == 1).all()


@example
def filtering_with_apply(m: Any) -> Any:
    data = m.TensorDict({"a": torch.tensor(1.0), "b": torch.tensor(1)}, [])
    return data.apply(lambda x: x if x.dtype == torch.float else None)


@example
def rows_fill_an_empty_collection(m: Any) -> Any:
    data = m.TensorDict({}, batch_size=[4])
    for row in (2, 0, 3, 1):
        data[row] = step(m, row)
    return data, torch.stack([step(m, row) for row in range(4)])


@example
def flat_and_nested(m: Any) -> Any:
    data = nested(m).flatten_keys(separator=".")
    return data, data.unflatten_keys(".")


@example
def objects(m: Any) -> Any:
    data = m.TensorDict({"a-tensor": torch.randn(1, 2)}, batch_size=[1, 2])
    data["non-tensor"] = "a string!"
    return data["non-tensor"]


@example
def locks(m: Any) -> Any:
    data = nested(m).lock_()
    refused = outcome(lambda: data.set("key", torch.zeros(3)))
    with data.unlock_():
        data.set("key", torch.zeros(3))
    return refused, data.is_locked, data


@example
def lazy_stacks_write_through(m: Any) -> Any:
    parts = [m.TensorDict({"a": torch.rand(2), "b": torch.rand(2, 3)}, [2]) for _ in range(3)]
    stacked = m.lazy_stack(parts, 0)
    stacked["a"] = torch.zeros_like(stacked["a"])
    return [part["a"] for part in parts], stacked.batch_size


@example
def stacks_of_different_shapes(m: Any) -> Any:
    parts = [m.TensorDict({"a": torch.ones(n)}, []) for n in (1, 2)]
    stacked = m.maybe_dense_stack(parts)
    return stacked[0], outcome(lambda: stacked["a"]), stacked.get("a", as_list=True), m.pad_sequence(parts)


@example
def named_tuples(m: Any) -> Any:
    values = {"a_tensor": torch.zeros(3), "nested": {"a_tensor": torch.zeros(3), "a_string": "zero!"}}
    given = m.TensorDict(values, [3]).to_namedtuple()
    return given, m.TensorDict.from_namedtuple(given, auto_batch_size=True)


@example
def tuples(m: Any) -> Any:
    return m.TensorDict.from_tuple((1, 2, 3))


@example
def struct_arrays_share_memory(m: Any) -> Any:
    array = np.array([(9, 81.0), (3, 27.0)], dtype=[("age", "i4"), ("weight", "f4")])
    data = m.TensorDict.from_struct_array(array)
    array["age"] += 1
    return data, (data.to_struct_array() == array).all()


@example
def pytrees(m: Any) -> Any:
    class Key:
        pass

    key = Key()
    tree = ([torch.arange(3), torch.zeros(2)], {"tensor": torch.ones(2), key: torch.ones(2), "list": [1, 2, 3]})
    back = m.TensorDict.from_pytree(tree).to_pytree()
    numbers = [torch.as_tensor(number) for number in back[1]["list"]]  # here they are numbers again
    return type(back), back[0], back[1]["tensor"], back[1][key], numbers


@example
def state_dicts(m: Any) -> Any:
    source = m.TensorDict({"n": m.TensorDict({"a": torch.ones(3, 4)}, [3, 4])}, [3])
    data = m.TensorDict({"n": {"a": torch.zeros(3, 4)}}, [])
    state = source.state_dict()
    data.load_state_dict(state)
    return state, {key: dict(about) for key, about in state._metadata.items()}, data


@example
def ensembles(m: Any) -> Any:
    models = m.TensorDict({"weight": torch.arange(8.0).reshape(2, 2, 2), "bias": torch.ones(2, 2)}, [2])
    return torch.vmap(lambda p, x: torch.nn.functional.linear(x, p["weight"], p["bias"]), (0, None))(
        models, torch.ones(3, 2)
    )


@example
def records(m: Any) -> Any:
    @m.tensorclass  # type: ignore[untyped-decorator]
    class MyData:
        image: Tensor
        mask: Tensor
        label: Tensor

        def mask_image(self) -> Tensor:
            return self.image[self.mask.expand_as(self.image)].view(*self.batch_size, -1)  # type: ignore[attr-defined]

        def select_label(self, label: int) -> Any:
            return self[self.label == label]  # type: ignore[index]

    mask = torch.tensor([[[True, False]]]).expand(4, 1, 2)
    data: Any = MyData(torch.ones(4, 3, 2), mask, label=torch.tensor([0, 1, 1, 0]), batch_size=[4])  # type: ignore[call-arg]
    chosen, square = data.select_label(1), data.reshape(2, 2)
    both = MyData.stack([data, data])  # type: ignore[attr-defined]
    return [
        (type(part).__name__, part.batch_size, part.image, part.label, part.mask_image())
        for part in (data, chosen, square, both, torch.cat([data, data]))
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_gives_there(name: str) -> None:
    torch.manual_seed(0)
    ours = outcome(lambda: EXAMPLES[name](OURS))
    torch.manual_seed(0)
    peers = outcome(lambda: EXAMPLES[name](PEER))
    assert not isinstance(peers, Exception), peers
    assert described(ours) == described(peers)
