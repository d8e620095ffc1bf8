"""The examples of docstrings that need Ray show what is true."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from tests.docstring_examples import examples_that_need, run

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),  # Ray sets them itself
]

EXAMPLES = examples_that_need("ray")


def test_the_examples_are_found() -> None:
    assert {"from_ray_dataset", "iter_ray_dataset", "to_ray_dataset"} <= {
        example.name.rpartition(".")[2] for example in EXAMPLES
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_of_ray_runs(cluster: Any, example: doctest.DocTest) -> None:
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    run(example.name, example.docstring or "")
