"""Importing the package is cheap: what only some users need is imported when they need it."""

import subprocess
import sys

EXTRAS = ["matplotlib", "pandas", "pyarrow", "polars", "rich", "orjson", "jaxtyping"]
HEAVY = [*EXTRAS, "h5py", "scipy", "tensordict", "torch._dynamo"]


def test_importing_the_package_imports_no_extra_and_no_compiler() -> None:
    code = f"import sys, tensorclass; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_all_public_names_exist() -> None:
    import tensorclass
    from tensorclass import persistent
    from tensorclass.convert import functions

    missing = [name for name in tensorclass.__all__ if not hasattr(tensorclass, name)]
    assert missing == []
    for module in (functions, persistent):
        assert module.__all__ == sorted(module.__all__)
        assert set(module.__all__) <= set(tensorclass.__all__)
    kinds = {name: (not name.isupper(), not name[0].isupper(), name) for name in tensorclass.__all__}
    assert tensorclass.__all__ == sorted(tensorclass.__all__, key=kinds.__getitem__)
