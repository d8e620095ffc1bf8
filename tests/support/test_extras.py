"""Packages of extras: missing, too old, or as they should be."""

from importlib import metadata

import pytest

from tensorclass.support import extras
from tensorclass.support.extras import require


@pytest.fixture(autouse=True)
def empty_caches() -> None:
    extras._too_old.cache_clear()


def test_a_package_that_is_missing_names_its_extra() -> None:
    missing = r"from_x needs nosuch, which is not installed: pip install 'tensorclass\[x\]'"
    with pytest.raises(ImportError, match=missing):
        require("nosuch.inner", "x", "from_x")


@pytest.mark.parametrize("version, old", [("3.1.0", True), ("3.1.3rc1", False), ("3.2", False), ("10.0", False)])
def test_a_package_that_is_too_old_names_its_version(version: str, old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_bounds", lambda: {"pytest": "3.1.3"})
    monkeypatch.setattr(metadata, "version", lambda name: version)
    if not old:
        assert require("pytest", "zarr", "to_zarr") is pytest
        return
    message = r"to_zarr: pytest 3.1.0 is too old, 3.1.3 or later is needed: pip install --upgrade 'tensorclass\[zarr\]'"
    for module in ("pytest", "pytest.nosuch"):
        with pytest.raises(ImportError, match=message):
            require(module, "zarr", "to_zarr")


def test_the_bounds_are_those_of_the_metadata() -> None:
    bounds = extras._bounds()
    assert bounds["h5py"]
    assert {"torch", "zarr", "pyarrow", "safetensors", "ray"} <= bounds.keys()
    assert all(not extras._too_old(name) for name in bounds)
