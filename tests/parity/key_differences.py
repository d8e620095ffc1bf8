"""Where the two libraries differ on purpose in what they do with keys; see test_differences."""

from __future__ import annotations

from typing import Any

import torch

from tests.parity.sides import described


def error(cls: type[Exception]) -> Any:
    return described(cls())


def collection(library: Any, values: dict[str, Any], size: list[int] | None = None, **options: Any) -> Any:
    return library.TensorDict(values, batch_size=size or [], **options)


#: for each heading: a call, what it gives here, and what in the peer
KEYS: dict[str, list[tuple[Any, Any, Any]]] = {
    "Empty collections stay.": [
        (lambda m: collection(m, {"n": "a"}).update({"n": {}}, inplace=True)["n"], error(TypeError), "a"),
        (
            lambda m: len(
                collection(m, {"n": collection(m, {}, [1, 1])}, [1])
                .update(collection(m, {"n": m.NonTensorStack("a")}, [1]), inplace=True)["n"]
                .keys()
            ),
            error(TypeError),
            0,
        ),
        (lambda m: collection(m, {}, [2]).update(collection(m, {}, [1])).is_empty(), True, error(RuntimeError)),
        (lambda m: collection(m, {}, device="cpu").auto_device_().device, torch.device("cpu"), None),
        (lambda m: len(collection(m, {"n": {}}).set("n", "a", inplace=True)["n"].keys()), error(TypeError), 0),
        (lambda m: list((collection(m, {"n": {}, "a": torch.zeros(2)}, [2]) + 1).keys()), ["n", "a"], ["a"]),
        (lambda m: list(collection(m, {"n": {}}).split_keys([])[-1].keys()), ["n"], []),
        (lambda m: collection(m, {"n": {}}).depth, 1, 0),
        (lambda m: list(collection(m, {}).mod(2).keys()), [], error(AttributeError)),
        (lambda m: list(collection(m, {}).add(collection(m, {"a": torch.zeros(())}), default=0.0).keys()), ["a"], []),
        (
            lambda m: type(collection(m, {"n": 1}).replace(collection(m, {"n": {}}))["n"]).__name__,
            "TensorDict",
            "Tensor",
        ),
    ],
    "A renamed value must fit its new owner.": [
        (
            lambda m: tuple(
                collection(m, {"n": collection(m, {}, [1]), "a": 1}).rename_key_("a", ("n", "a"))["n"].get("a").shape
            ),
            error(RuntimeError),
            (),
        ),
        (
            lambda m: tuple(
                collection(m, {"n": collection(m, {}, [2]), "a": "text"})
                .rename_key_("a", ("n", "a"))["n"]
                .get("a")
                .batch_size
            ),
            (2,),
            (),
        ),
    ],
    "A key moves below itself only if nothing is lost.": [
        (
            lambda m: list(collection(m, {"n": {"a": 1}}).rename_key_("n", ("n", "a"), safe=True)["n"].keys()),
            error(KeyError),
            ["a"],
        ),
    ],
    "Below a leaf there is nothing.": [
        (lambda m: collection(m, {"leaf": "text"}).set(("leaf", "x"), 1)["leaf"], error(KeyError), "text"),
        (lambda m: collection(m, {"leaf": torch.zeros(1)}).get(("leaf", "x")), None, error(ValueError)),
        (
            lambda m: collection(m, {"leaf": torch.zeros(1)}).get_item_shape(("leaf", "x")),
            error(KeyError),
            error(ValueError),
        ),
        (lambda m: list(collection(m, {"y": "a", "y.x": 1}).unflatten_keys().keys()), error(KeyError), ["y"]),
        (lambda m: list(collection(m, {}).set_(("x", "y"), 1).keys()), error(KeyError), ["x"]),
    ],
    "Only the requested keys are updated.": [
        (lambda m: list(collection(m, {}).update({"a": 1}, keys_to_update=[("a", "b")]).keys()), [], ["a"]),
        (
            lambda m: list(
                collection(m, {"a": {"b": 1}}).update({"a": 2}, keys_to_update=[("a", "b")]).keys(True, True)
            ),
            [("a", "b")],
            ["a"],
        ),
        (
            lambda m: (
                collection(m, {"a": {"b": 1, "c": 1}})
                .update({"a": {"b": 2, "c": 2}}, keys_to_update=["a", ("a", "b")])["a", "c"]
                .item()
            ),
            2,
            1,
        ),
    ],
    "A leaf and a collection do not merge.": [
        (
            lambda m: int(m.merge_tensordicts(collection(m, {"a": 1}), collection(m, {"a": {}}))["a"]),
            error(TypeError),
            1,
        ),
        (
            lambda m: m.merge_tensordicts(collection(m, {"a": 1}), collection(m, {"a": {"b": 1}})),
            error(TypeError),
            error(AttributeError),
        ),
        (
            lambda m: m.merge_tensordicts(*(collection(m, {"a": a}, [1]) for a in ("b", {"b": torch.ones(1)})))[0]["a"],
            error(TypeError),
            error(ValueError),
        ),
    ],
}
