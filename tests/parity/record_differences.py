"""Where records of the two libraries differ on purpose; see test_differences."""

from __future__ import annotations

from typing import Any

import torch

from tests.parity.sides import described


def error(cls: type[Exception]) -> Any:
    return described(cls())


def sample_class(library: Any) -> Any:
    @library.tensorclass  # type: ignore[untyped-decorator]
    class Sample:
        a: torch.Tensor
        text: str
        b: torch.Tensor | None = None

    return Sample


def sample(library: Any) -> Any:
    return sample_class(library)(torch.zeros(2), "t", batch_size=[2])


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


RECORDS: dict[str, list[tuple[Any, Any, Any]]] = {
    "A record has keys.": [
        (lambda m: sample(m)["a"], torch.zeros(2), error(ValueError)),
        (lambda m: written_by_key(sample(m)), torch.tensor([2.0, 1.0]), error(ValueError)),
    ],
    "`get` of a record is that of every collection.": [
        (lambda m: m.is_non_tensor(sample(m).get("text")), True, False),
        (lambda m: sample(m).text, "t", "t"),
    ],
    "A record has its fields, and no others.": [
        (lambda m: sorted(sample_class(m).from_dict({"text": "t"}).keys()), error(ValueError), ["text"]),
        (lambda m: sorted(sample_class(m).from_tensordict(source(m)).keys()), error(ValueError), ["a"]),
        (lambda m: renamed(sample(m)), error(AttributeError), ["text", "z"]),
        (lambda m: sample(m).update({"z": torch.zeros(2)}), error(AttributeError), error(ValueError)),
    ],
    "A record of a collection is one of its own.": [
        (source_after_a_field_is_set, torch.zeros(2), torch.ones(2)),
    ],
    "Wrong arguments are a `TypeError`.": [
        (lambda m: sample_class(m)(a=torch.zeros(2), text="t", z=1), error(TypeError), error(AttributeError)),
        (lambda m: sample_class(m)(torch.zeros(2), "t", a=torch.zeros(2)), error(TypeError), error(ValueError)),
        (lambda m: sample_class(m).from_tensordict({"a": torch.zeros(2)}), error(TypeError), error(RuntimeError)),
    ],
}
