"""The functions of the package are the methods."""

from __future__ import annotations

import inspect
import pickle
import pydoc

import pytest

import tensorclass as tc
from tensorclass import TensorDict, functions
from tensorclass.convert.python.tuple import from_tuple
from tests.convert.samples import Sample, values

#: functions of files and modules, which have tests of their own
OTHERS = {"from_consolidated", "from_module", "from_modules", "from_safetensors", "to_safetensors"}


@pytest.mark.parametrize(
    "name",
    [name for name in functions.__all__ if name.startswith(("from_", "iter_", "to_")) and name not in OTHERS],
)
def test_a_function_has_signature_help_and_pickle_of_the_method(name: str) -> None:
    function = getattr(tc, name)
    owner = TensorDict if name.startswith(("from_", "iter_")) else tc.TensorCollection
    assert function == getattr(owner, name)
    assert inspect.signature(function) == inspect.signature(getattr(owner, name))
    assert inspect.getdoc(function)
    assert name in pydoc.render_doc(function)
    assert pickle.loads(pickle.dumps(function)) == function


def test_an_unknown_argument_is_an_error_that_names_the_call() -> None:
    with pytest.raises(TypeError, match=r"TensorDict.from_tuple\(\) got an unexpected keyword argument 'batchsize'"):
        from_tuple(TensorDict, (1,), batchsize=[])  # type: ignore[call-arg]


def test_every_converter_is_a_function_of_the_package() -> None:
    methods = {name for name in dir(TensorDict()) if name.startswith(("from_", "to_"))}
    others = {"from_dict_instance", "from_schema", "from_tensordict", "from_store", "from_module", "from_modules"}
    others |= {"to_tensordict", "to_module", "to_lazystack", "to_padded_tensor", "from_remote_init"}
    others |= {"to_store", "from_safetensors", "to_safetensors"}  # servers and files, which other modules have
    assert [name for name in sorted(methods - others) if not hasattr(tc, name)] == []


def test_a_function_takes_collections_of_every_class() -> None:
    assert tc.to_dict(TensorDict({"a": "text"})) == {"a": "text"}
    assert tc.to_dict(Sample(values(2)))["label"] == "a"
    assert type(tc.from_list([{"a": 1}])) is TensorDict
