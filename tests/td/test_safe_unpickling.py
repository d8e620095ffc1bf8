"""torch.save and torch.load(weights_only=True): collections come back, and no code of a user runs."""

import copy
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import MetaData, NonTensorData, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.td.safe_unpickling import class_named, found
from tests import fresh_python

RAN: list[str] = []


class Inner(TensorClass):
    q: Tensor


class Sample(TensorClass):
    x: Tensor
    text: str
    inner: Inner

    def __post_init__(self) -> None:
        RAN.append("post_init")


class Outer:
    class Held(TensorClass):
        x: Tensor


class Nest(TensorClass):
    class Egg(TensorClass):
        x: Tensor

    egg: Egg


def sample() -> Sample:
    return Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2])


def ragged() -> Tensor:
    return torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)


CASES: dict[str, Any] = {
    "tensors": lambda: TensorDict({"a": torch.rand(3, 2), "b": {"c": torch.ones(3)}}, [3], names=["time"]),
    "with a device": lambda: TensorDict(a=torch.ones(2), device="cpu"),
    "locked": lambda: TensorDict(a=torch.ones(2)).lock_(),
    "empty": lambda: TensorDict({}, [4]),
    "objects": lambda: TensorDict({"a": "text", "rows": ["u", "v"], "m": MetaData({"k": [1, (2.0, None)]})}, [2]),
    "an object alone": lambda: NonTensorData(3),
    "unbatched": lambda: TensorDict({"one": UnbatchedTensor(torch.ones(3))}, [2]),
    "a lazy stack": lambda: lazy_stack([TensorDict({"a": torch.zeros(3)}), TensorDict({"a": torch.ones(4)})]),
    "a lazy stack of records": lambda: lazy_stack([sample(), sample()]),
    "jagged": lambda: TensorDict({"r": ragged()}, [2]),
    "a record": sample,
    "a record in a collection": lambda: TensorDict({"s": sample(), "t": torch.ones(2)}, [2]),
    "a record of a class in a class": lambda: Outer.Held(torch.ones(2), batch_size=[2]),
    "a record of a class in a record": lambda: Nest(Nest.Egg(torch.ones(2), batch_size=[2]), batch_size=[2]),
    "a lazy stack of records of a class in a class": lambda: lazy_stack([Outer.Held(torch.ones(2))] * 2),
    "parameters": lambda: TensorDict(a=torch.nn.Parameter(torch.ones(2))),
    "a list of collections": lambda: [TensorDict(a=torch.ones(2)), {"k": sample()}],
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Tensor):
        if a.is_nested:  # each jagged tensor has a symbol of its own in its shape
            return all(map(torch.equal, a.unbind(), b.unbind()))
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)
    assert (type(a), a.batch_size, a.names, a.device, a.is_locked) == (
        (type(b), b.batch_size, b.names, b.device, b.is_locked)
    )
    assert list(a.keys(True)) == list(b.keys(True))
    for node, other in zip(a._nodes(), b._nodes(), strict=True):
        assert type(node) is type(other)
        assert getattr(node, "_objects", 0) == getattr(other, "_objects", 0)
    return all(map(same, a._leaves(), b._leaves()))


def torch_loads(tensor: Tensor) -> bool:
    """Return whether torch itself loads a tensor by default: torch 2.15 refuses jagged ones."""
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
    except pickle.UnpicklingError:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mapped", [False, True])
def test_it_comes_back_by_default(name: str, mapped: bool, tmp_path: Path) -> None:
    data = CASES[name]()
    torch.save(data, tmp_path / "f")
    if name != "jagged" or torch_loads(ragged()):
        assert same(torch.load(tmp_path / "f", mmap=mapped, weights_only=True), data)
    else:
        with pytest.raises(pickle.UnpicklingError, match="_rebuild_njt"):
            torch.load(tmp_path / "f", mmap=mapped, weights_only=True)
    assert same(torch.load(tmp_path / "f", weights_only=False), data)
    assert same(pickle.loads(pickle.dumps(data)), data)


def test_loading_a_record_calls_nothing_of_its_class() -> None:
    file = io.BytesIO()
    torch.save(sample(), file)
    RAN.clear()
    torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    assert RAN == []


class _Calls:
    """Pickled as a call of a class with arguments."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def test_a_file_cannot_call_the_class_of_a_record() -> None:
    file = io.BytesIO()
    torch.save(_Calls(Sample, torch.ones(2), "t", None), file)
    RAN.clear()
    with pytest.raises(TypeError, match="not callable"):
        torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    assert RAN == []


@pytest.mark.parametrize("module", ["tensorclass.td.pickling", "tensorclass.td.leaves.unbatched_tensor"])
def test_a_file_cannot_have_another_class_put_together(module: str) -> None:
    file = io.BytesIO()
    if module == "tensorclass.td.pickling":
        call = _Calls(sys.modules[module].rebuild, torch.Tensor, {}, (), None, None, False)
    else:  # this one calls the class, which must be its own
        call = _Calls(sys.modules[module]._rebuild, Sample, torch.ones(2), (), None, False)
    torch.save(call, file)
    RAN.clear()
    with pytest.raises(pickle.UnpicklingError, match="expected"):
        torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    assert RAN == []


def test_an_object_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save(TensorDict(a=torch.ones(1), o=_Calls(os.mkdir, str(tmp_path / "made"))), tmp_path / "f")
    with pytest.raises(pickle.UnpicklingError, match="mkdir"):
        torch.load(tmp_path / "f", weights_only=True)
    assert not (tmp_path / "made").exists()


def test_tensors_that_share_memory_still_do() -> None:
    x = torch.arange(6.0)
    file = io.BytesIO()
    torch.save(TensorDict(a=x, b=x[2:]), file)
    loaded = torch.load(io.BytesIO(file.getvalue()))
    loaded["a"][2] = 9.0
    assert loaded["b"][0] == 9.0


def test_the_last_class_of_a_name_is_taken() -> None:
    def define() -> Any:
        class Again(TensorClass):
            x: Tensor

        Again.__qualname__ = "Again"
        return Again

    from tensorclass.td.safe_unpickling import _NAMED, allow_class

    first, second = define(), define()
    for cls in (first, second):
        allow_class(cls)
    assert found(_NAMED[f"{__name__}.Again"], TensorClass) is second
    del _NAMED[f"{__name__}.Again"]


def test_a_class_that_is_gone_is_an_error() -> None:
    with pytest.raises(pickle.UnpicklingError, match="where a TensorClass was expected"):
        found(None, TensorClass)


@pytest.mark.parametrize(
    "definition, name",
    [("class Own(TensorClass):\n    x: Tensor\n", "Own"),
     ("class Outer:\n    class Own(TensorClass):\n        x: Tensor\n", "Outer.Own")],
)  # fmt: skip
def test_a_record_of_a_class_of_a_script_comes_back(tmp_path: Path, definition: str, name: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys, torch\nfrom torch import Tensor\nfrom tensorclass import TensorClass\n{definition}"
        f"if sys.argv[1] == 'write': torch.save({name}(torch.ones(2), batch_size=[2]), sys.argv[2])\n"
        f"else: print([type(torch.load(sys.argv[2], weights_only=only)) is {name} for only in (True, False)])\n"
    )
    for task in ("write", "read"):
        done = fresh_python.run([str(script), task, str(tmp_path / "f")], check=True)
    assert done.stdout == "[True, True]\n"


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_record_of_a_class_in_a_class_that_is_not_there_is_an_error_that_says_so(weights_only: bool) -> None:
    file = io.BytesIO()
    torch.save(TensorDict(a=_Calls(class_named, "json.tool", "Outer.Held")), file)
    with pytest.raises(pickle.UnpicklingError, match=r"Outer.Held.*json.tool.*import"):
        torch.load(io.BytesIO(file.getvalue()), weights_only=weights_only)
    assert "json.tool" not in sys.modules


def local_record() -> Any:
    class Local(TensorClass):
        x: Tensor

    return Local(torch.ones(2), batch_size=[2])


@pytest.mark.parametrize("write", [pickle.dumps, lambda data: torch.save(data, io.BytesIO())], ids=["pickle", "torch"])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_record_of_a_class_in_a_function_is_an_error_that_says_what_to_do(write: Any, stacked: bool) -> None:
    data = lazy_stack([local_record()] * 2) if stacked else local_record()
    # pickle of Python 3.14 has the protocol of cloudpickle, which takes such classes, and refuses by itself
    with pytest.raises(pickle.PicklingError, match=r"Local.*is defined in a function.*memmap|local object .*Local"):
        write(data)


def test_a_record_of_a_class_in_a_function_is_copied() -> None:
    data = local_record()
    for copied in (copy.copy(data), copy.deepcopy(data)):
        assert type(copied) is type(data)
        assert torch.equal(copied.x, data.x)


@pytest.mark.parametrize("module", ["tensorclass.td.nontensor", "tensorclass.td.leaves.nontensor", "its own"])
@pytest.mark.parametrize("cls", [NonTensorData, MetaData], ids=lambda cls: cls.__name__)
def test_files_name_a_class_by_the_modules_that_it_was_in(cls: type, module: str) -> None:
    named = class_named(cls.__module__ if module == "its own" else module, cls.__name__)
    assert found(named, object) is cls
