"""Importing the package is cheap: what only some users need is imported when they need it."""

import pytest

import tensorclass
from tests import fresh_python

EXTRAS = ["matplotlib", "pandas", "pyarrow", "polars", "rich", "orjson", "jaxtyping", "ray", "dask"]
OWN = ["tensorclass.nn", "tensorclass.distributed", "tensorclass.storage"]
HEAVY = [*EXTRAS, *OWN, "h5py", "numpy.ma", "scipy", "tensordict", "torch._dynamo"]


def test_importing_the_package_imports_no_extra_and_no_compiler() -> None:
    code = f"import sys, tensorclass; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = fresh_python.run(["-c", code], check=True)
    assert result.stdout.strip() == "[]"


def test_collections_in_files_are_imported_when_they_are_asked_for() -> None:
    code = """
import sys, tensorclass
before = [name for name in sys.modules if name.startswith("tensorclass.storage")]
from tensorclass import PersistentTensorDict
from tensorclass.storage import PersistentTensorDict as same
print(before, PersistentTensorDict is same, tensorclass.PersistentTensorDict is same, "h5py" in sys.modules)
try:
    tensorclass.PersistentTensorDicts
except AttributeError as error:
    print(error)
"""
    result = fresh_python.run(["-c", code], check=True)
    assert result.stdout.splitlines() == [
        "[] True True False",
        "module 'tensorclass' has no attribute 'PersistentTensorDicts'",
    ]


def test_all_public_names_exist() -> None:
    import tensorclass
    from tensorclass import functions

    missing = [name for name in tensorclass.__all__ if not hasattr(tensorclass, name)]
    assert missing == []
    assert functions.__all__ == sorted(functions.__all__)
    assert set(functions.__all__) <= set(tensorclass.__all__)
    kinds = {name: (not name.isupper(), not name[0].isupper(), name) for name in tensorclass.__all__}
    assert tensorclass.__all__ == sorted(tensorclass.__all__, key=kinds.__getitem__)


def test_a_package_that_is_not_imported_yet_is_named() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'scores'; import it first: import tensorclass\.scores"):
        tensorclass.__getattr__("scores")
    with pytest.raises(AttributeError, match=r"no attribute 'scors'$"):
        tensorclass.__getattr__("scors")
