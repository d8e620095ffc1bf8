"""from_tuple."""

from __future__ import annotations

from typing import Any

import pytest

from tensorclass import TensorDict
from tests.convert.samples import Inner, Pair, Sample, values
from tests.convert.sides import both


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"auto_batch_size": True},
        {"auto_batch_size": True, "batch_dims": 1},
        {"batch_size": [3]},
        {"batch_size": [3], "auto_batch_size": True},
        {"device": "cpu"},
        {"batch_size": [4]},
    ],
    ids=str,
)
def test_the_items_stand_under_their_positions_as_in_the_peer(options: dict[str, Any]) -> None:
    for obj in [(values(3, 4), (values(3, 4, 5), "x")), [values(3, 4), values(3, 4)], Pair(values(3), values(3))]:
        ours, peers = both(lambda m, obj=obj: m.TensorDict.from_tuple(obj, **options))
        assert ours == peers
        ours, peers = both(lambda m, obj=obj: m.from_tuple(obj, **options))
        assert ours == peers


def test_batch_dims_finds_the_batch_size_out() -> None:
    assert TensorDict.from_tuple((values(3, 4), values(3, 4)), batch_dims=1).batch_size == (3,)


@pytest.mark.parametrize("obj", [1, None, {"a": 1}, "ab", TensorDict({"a": 1})], ids=str)
def test_other_objects_are_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match=f"from_tuple: expected a tuple, got a {type(obj).__name__}; from_any takes"):
        TensorDict.from_tuple(obj)


def test_a_record_takes_the_items_in_the_order_of_its_fields() -> None:
    record = Sample.from_tuple((values(2), "b", {"x": values(2)}), batch_size=[2])
    assert (record.label, type(record.inner), record.x.tolist()) == ("b", Inner, [0, 1])
    with pytest.raises(TypeError, match=r"Inner\.from_tuple: expected at most 2 items, \['x', 'tag'\]; got 3"):
        Inner.from_tuple((1, "a", 3))
    with pytest.raises(ValueError, match=r"x: expected Tensor, got nothing"):
        Sample.from_tuple(())
