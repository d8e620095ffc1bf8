"""The registry of the engine: all names that it declares are there once the package is imported, each once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from tensorclass import TensorAttrs, TensorDict
from tensorclass.td import registry


def _declared() -> list[str]:
    tree = ast.parse(Path(registry.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    names: list[str] = []
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names


def test_every_name_that_is_declared_is_registered() -> None:
    names = _declared()
    assert {"TensorDict", "NonTensorData", "TensorAttrs", "lazy_stack"} <= set(names)
    assert [name for name in names if not hasattr(registry, name)] == []
    assert registry.TensorDict is TensorDict
    assert registry.TensorAttrs is TensorAttrs


def test_nothing_is_registered_that_is_not_declared() -> None:
    own = {"Any", "Callable", "TYPE_CHECKING", "annotations", "register"}
    assert {name for name in vars(registry) if not name.startswith("__")} - own == set(_declared())


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="TensorDict is registered already"):
        registry.register(TensorDict)


def test_dynamo_reads_the_registry_in_a_graph() -> None:
    def nested(x: torch.Tensor) -> TensorDict:
        return registry.TensorDict({"a": {"b": x}, "text": "t"}, [3])

    compiled = torch.compile(nested, fullgraph=True, backend="eager")
    assert compiled(torch.arange(3.0))["a", "b"].tolist() == [0.0, 1.0, 2.0]
