"""Each operation does the same here and in the peer, on collections built from the same values."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies as draw
from tests.parity.differences import is_known
from tests.parity.operations import OPERATIONS, Drawn
from tests.parity.sides import OURS, PEER, described, outcome, shared

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=max(settings().max_examples // 4, 25))
@given(data=st.data())
def test_does_the_same_as_in_the_peer(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    tree = data.draw(
        draw.trees(
            max_leaves=12, max_levels=3, leaf=operation.leaf, objects=operation.objects, empty=False, min_leaves=1
        )
    )
    batch_size = data.draw(draw.shapes(min_dims=operation.batch_dims))
    drawn = Drawn(tree, batch_size, data.draw(draw.names_or_none(len(batch_size))))
    arguments = data.draw(operation.arguments(drawn))
    results: list[Any] = []
    for library in (OURS, PEER):
        source = drawn.build(library)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peer warns of changes to come
            result = outcome(lambda source=source, library=library: operation.call(source, library, *arguments))
            results.append((described(result), shared(result, source)))
    ours, peers = results
    assert ours == peers or is_known(name, drawn, arguments, ours[0], peers[0])
