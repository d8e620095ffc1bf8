"""Records are pickled, and saved by torch."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass
from tests.records.classes import Decorated, Point, frozen, nested, point


@pytest.mark.parametrize(
    "make",
    [
        lambda: point(tag=["a", "b"]),
        nested,
        frozen,
        lambda: Point.Nested(torch.zeros(2), batch_size=[2]),
        lambda: Decorated.Nested(torch.zeros(2), batch_size=[2], names=["n"]),
        lambda: point().lock_(),
        lambda: point(y=torch.ones(2)).exclude("x"),
    ],
    ids=["plain", "decorated", "frozen", "nested class", "nested decorated class", "locked", "incomplete"],
)
def test_a_record_is_pickled(make: Callable[[], Any]) -> None:
    record = make()
    loaded = pickle.loads(pickle.dumps(record))
    assert type(loaded) is type(record)
    assert repr(loaded) == repr(record)
    assert all(torch.equal(a, b) for a, b in zip(loaded._leaves(), record._leaves(), strict=True))
    assert loaded.is_locked == record.is_locked


def test_a_record_is_saved_by_torch() -> None:
    file = io.BytesIO()
    torch.save(nested(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is Decorated
    assert loaded.point.x.tolist() == [0, 1]


def test_unpickling_does_not_run_post_init() -> None:
    assert pickle.loads(pickle.dumps(Doubled(torch.ones(2)))).x.tolist() == [2, 2]


class Doubled(TensorClass):
    x: Tensor

    def __post_init__(self) -> None:
        self.x = self.x * 2
