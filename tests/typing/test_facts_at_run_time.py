"""What the corpus says of types is true of the values that come, in both forms of records."""

import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from tensorclass import Column, Ragged, TensorDict, Text
from tests.typing.forms import decorated
from tests.typing.judging import CORPUS, FORMS

FACTS = sorted(CORPUS.glob("facts_*.py"))


def holds(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, as far as the type of a value can be seen."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if isinstance(kind, typing.TypeVar):
        return holds(value, kind.__bound__)
    if origin in (typing.Union, types.UnionType):
        return any(holds(value, arg) for arg in args)
    if origin is tuple and args[-1] is Ellipsis:
        return type(value) is tuple and all(holds(item, args[0]) for item in value)
    if origin is list:
        return isinstance(value, list) and all(holds(item, args[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            holds(key, args[0]) and holds(item, args[1]) for key, item in value.items()
        )
    if origin is typing.Literal:
        return value in args
    if origin is not None:
        return isinstance(value, origin)
    return isinstance(value, (float, int) if kind is float else kind or type(None))


def load(path: Path, name: str, source: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec"), vars(module))
    return module


@pytest.fixture(params=FORMS)
def records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    path = CORPUS / "records.py"
    source = path.read_text()
    monkeypatch.setitem(sys.modules, "records", types.ModuleType("records"))
    return load(path, "records", decorated(source) if request.param == "decorated" else source)


def arguments(r: Any) -> dict[str, Any]:
    """A value for each name of a parameter in the corpus. The batch size is [4, 6]; scenes have [4]."""
    size = [4, 6]
    x = torch.rand(size) + 0.5

    def sample(cls: Any = r.Sample, size: list[int] = size) -> Any:
        return cls(torch.rand(*size, 2, 2) + 0.5, torch.rand(size) + 0.5, "a", batch_size=size)

    def box(cls: Any = r.Box, size: list[int] = size, *more: Any) -> Any:
        return cls(torch.zeros(*size, 3), torch.ones(*size, 3), *more, batch_size=size)

    scene = r.Scene(box(size=[4]), sample(size=[4]), ["a", "b"], box(size=[4]), batch_size=[4])
    described = sample(r.Described)
    described.weight = x
    return {
        "x": x,
        "mask": torch.rand(size) > 0.5,
        "rows": torch.tensor([0, 2]),
        "batch": sample(),
        "described": described,
        "scored": sample(r.Scored),
        "flags": r.Flags(x > 1, x < 1, batch_size=size),
        "box": box(),
        "cube": box(r.Cube, size, torch.ones(size)),
        "scene": scene,
        "video": r.Video(scene, torch.arange(4), batch_size=[4]),
        "options": r.Options(rate=x),
        "built": r.Built(x),
        "stored": r.Stored(x),
        "cast": r.Cast(1, "a"),
        "pair": r.Pair(sample(), box(), batch_size=size),
        "twins": r.Twins(x, x, batch_size=size),
        "data": TensorDict({"a": x, "n": {"b": x}}, size),
        "state": sample().state_dict(),
        "kind": r.Sample,
        "patch": r.Patch(x, batch_size=size),
        "grid": r.Grid(torch.rand(4), 4),
        "samples": [sample()],
        "either": sample(),
        "table": pandas.DataFrame({"seen": [1, 2], "kept": [True, False]}),
        "question": r.Question(
            prompt=["a", "b", "c", "d"],
            tokens=[[1], [2, 3], [], [4]],
            tags=[["u"], ["v"], [], ["u", "v"]],
            mask=[[True], [False, True], [], [True]],
            note=["x", None, "y", None],
            answers=[["yes"]] * 4,
        ),
        "text": Text(["a", "b"]),
        "tokens": Ragged([[1], [2, 3]]),
        "tags": Column([["u"], ["v"]], list[str]),
        "array": np.ones((2, 3), dtype=np.int64),
        "numbers": torch.ones(2, 3, dtype=torch.int64),
        "strings": ["a", "b"],
        "record": r.Twins(x, x, batch_size=size),
        "collection": TensorDict({"a": x}, size),
    }


@pytest.mark.parametrize("path", FACTS, ids=lambda path: path.stem)
def test_values_have_the_types_that_the_corpus_says(path: Path, records: types.ModuleType, tmp_path: Path) -> None:
    wrong: list[str] = []

    def check(value: Any, kind: Any) -> Any:
        line = sys._getframe(1).f_lineno
        if not holds(value, kind):
            wrong.append(f"{path.name}:{line}: {lines[line - 1].strip()}: a {type(value).__name__}")
        return value

    source = path.read_text()
    lines = source.splitlines()
    space = vars(load(path, path.stem, source))
    space["assert_type"] = check
    checks = [one for one in space.values() if inspect.isfunction(one) and one.__module__ == path.stem]
    called = 0
    for function in checks:
        folder = tmp_path / function.__name__
        folder.mkdir()
        given = {**arguments(records), "path": folder}
        parameters = list(inspect.signature(function).parameters)
        if given.keys() >= set(parameters):  # the others are called by these
            function(**{parameter: given[parameter] for parameter in parameters})
            called += 1
    assert called
    assert not wrong, "\n".join(wrong)
