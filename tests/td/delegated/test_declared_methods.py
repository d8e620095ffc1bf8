"""Declared methods: what they declare is what the functions take, and they behave as methods that are written."""

import importlib
import inspect
import pickle
import pkgutil
import sys

import pytest
import torch

from tensorclass import TensorClass, TensorCollection, TensorDict
from tensorclass.td import delegated as declarations
from tensorclass.td.delegated.declaration import delegated
from tests import fresh_python


def _declared():
    """Each declared function with its name, and whether it is a method."""
    for info in pkgutil.iter_modules(declarations.__path__):
        module = importlib.import_module(f"{declarations.__name__}.{info.name}")
        for holder in [module, *(value for value in vars(module).values() if inspect.isclass(value))]:
            if holder is not module and holder.__module__ != module.__name__:
                continue
            for value in vars(holder).values():
                if isinstance(value, classmethod):
                    value = value.__func__
                elif isinstance(value, property):
                    value = value.fget
                if hasattr(value, "__delegated__"):
                    yield pytest.param(value, id=value.__qualname__)


def _arguments(function):
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


DECLARED = list(_declared())


def test_there_are_declared_methods_of_each_subject():
    assert len(DECLARED) > 75


@pytest.mark.parametrize("declared", DECLARED)
def test_the_function_takes_the_arguments_that_are_declared(declared):
    module, name = declared.__delegated__
    function = getattr(importlib.import_module(module), name)
    assert function.__module__ == module, "name the module that defines the function"
    first, *others = _arguments(declared)
    _, *taken = _arguments(function)
    if not hasattr(importlib.import_module(module), "METHODS_OF"):  # of others, tests.declarations makes the method
        assert taken == others
    if first[0] not in ("self", "cls"):
        assert _arguments(function)[0] == first


# -- a declared method is a method ------------------------------------------------------------------------------------


def test_importing_the_package_imports_none_of_the_functions():
    code = "import sys, tensorclass; print([m for m in sys.modules if m.startswith('tensorclass.')])"
    loaded = fresh_python.run(["-c", code], check=True).stdout
    assert "tensorclass.td.delegated.file_methods" in loaded
    for module in (
        "tensorclass.storage.hdf5_zarr.group_loader",
        "tensorclass.distributed.map.parallel_map",
        "tensorclass.nn.params",
    ):
        assert module not in loaded


def test_a_declared_method_has_the_attributes_of_one_that_is_written():
    method = TensorCollection.to_arrow
    assert (method.__name__, method.__qualname__) == ("to_arrow", "Tables.to_arrow")
    assert method.__module__ == "tensorclass.td.delegated.table_methods"
    assert "pyarrow.Table" in method.__doc__
    assert list(inspect.signature(method).parameters) == ["self", "schema"]
    assert list(inspect.signature(TensorDict({}).to_arrow).parameters) == ["schema"]
    assert next(iter(inspect.signature(TensorDict.from_dict).parameters)) == "input_dict"
    assert inspect.getsource(method).lstrip().startswith("@delegated(")


class Scaled(TensorClass):
    x: torch.Tensor

    @classmethod
    def from_dict(cls, input_dict, **kwargs):
        made = super().from_dict(input_dict, **kwargs)
        return made * 2

    def to_tuple(self):
        return ("scaled", *super().to_tuple())


def test_a_subclass_overrides_and_calls_super():
    made = Scaled.from_dict({"x": torch.ones(3)}, batch_size=[3])
    assert type(made) is Scaled
    assert made.x.tolist() == [2.0, 2.0, 2.0]
    name, x = made.to_tuple()
    assert name == "scaled"
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_bound_methods_are_pickled():
    data = TensorDict({"x": torch.ones(3)}, [3])
    assert pickle.loads(pickle.dumps(data.to_tuple))()[0].tolist() == [1.0, 1.0, 1.0]
    assert pickle.loads(pickle.dumps(TensorDict.from_dict)) == TensorDict.from_dict
    assert pickle.loads(pickle.dumps(TensorCollection.to_tuple)) is TensorCollection.to_tuple


def test_wrong_arguments_are_an_error_that_names_the_method():
    with pytest.raises(TypeError, match=r"^from_dict\(\) got an unexpected keyword argument 'batchsize'"):
        TensorDict.from_dict({}, batchsize=[])
    with pytest.raises(TypeError, match=r"^to_h5\(\) missing a required argument: 'filename'"):
        TensorDict({}).to_h5()


def test_a_function_is_imported_once(tmp_path, monkeypatch):
    (tmp_path / "far_module.py").write_text("def double(self, x=1):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "far_module", raising=False)

    @delegated("far_module")
    def double(self, x: int = 1) -> int: ...

    assert "far_module" not in sys.modules
    assert double(None) == 2
    monkeypatch.delitem(sys.modules, "far_module")
    assert double(None, x=3) == 6
    assert "far_module" not in sys.modules


def test_a_module_that_is_missing_is_named():
    @delegated("no_such_module")
    def nothing(self) -> int: ...

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        nothing(None)


FAR = """
def scale(self, factor=2.0):
    return self["x"] * factor

def make(cls, x, *, size):
    return cls({"x": x}, size)
"""


@pytest.mark.parametrize("first", ["compiled", "eager"])
def test_dynamo_traces_through_a_call_also_where_it_is_the_first(tmp_path, monkeypatch, first):
    (tmp_path / "far_operations.py").write_text(FAR)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "far_operations", raising=False)

    class Far(TensorDict):
        __slots__ = ()

        @delegated("far_operations")
        def scale(self, factor: float = 2.0) -> torch.Tensor: ...

        @classmethod
        @delegated("far_operations")
        def make(cls, x: torch.Tensor, *, size: list[int]) -> "Far": ...

    def both(x):
        return Far.make(x, size=[3]).scale(factor=3.0)

    x = torch.arange(3.0)
    if first == "eager":
        assert both(x).tolist() == [0.0, 3.0, 6.0]
    compiled = torch.compile(both, fullgraph=True, backend="eager")
    assert compiled(x).tolist() == [0.0, 3.0, 6.0]
    assert both(x + 1).tolist() == [3.0, 6.0, 9.0]
    assert compiled(x + 1).tolist() == [3.0, 6.0, 9.0]
    monkeypatch.delitem(sys.modules, "far_operations")
