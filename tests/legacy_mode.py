"""The legacy mode, for tests: the methods that it replaces are put back behind the block."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from tensorclass import set_lazy_legacy
from tensorclass.td.inherited_members import replace_member
from tensorclass.td.operations import OPERATIONS
from tensorclass.td.permute_and_flip import Permuting
from tensorclass.td.shape_operations import Shaping
from tensorclass.td.stores.lazy.lazy_shapes import LazyShaping


@contextmanager
def legacy_mode() -> Iterator[None]:
    with legacy_methods(), switched_on():
        yield


@contextmanager
def switched_on() -> Iterator[None]:
    """The legacy mode alone. The methods stay replaced: within :func:`legacy_methods` only the first time is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        mode = set_lazy_legacy(True)
    with mode:
        yield


@contextmanager
def legacy_methods() -> Iterator[None]:
    """Put back the methods behind the block: of all classes that other tests have made, too, which takes a while."""
    families = (Shaping, Permuting, LazyShaping)
    names = [row.name for row in OPERATIONS if row.legacy_view]
    before = [(family, name, vars(family)[name]) for family in families for name in names if name in vars(family)]
    try:
        yield
    finally:
        for family, name, member in before:
            replace_member(family, name, member, calls_nested=False)
