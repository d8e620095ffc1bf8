"""Of several implementations of a function, that for the installed version of a module is called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tensorclass.compat.version_choice import implement_for


def test_the_implementation_for_the_installed_version_is_called(stand_in: Any) -> None:
    assert stand_in.utils.implement_for is implement_for

    @implement_for("torch", None, "2.0")
    def shape(x: int) -> str:
        return f"old {x}"

    first = shape

    @implement_for("torch", "2.0")  # type: ignore[no-redef]
    def shape(x: int) -> str:
        return f"new {x}"

    assert (shape(3), first(3)) == ("new 3", "new 3")


@pytest.mark.parametrize(
    "bounds, called", [(("1.2", "1.3"), True), (("1.3", None), False), ((None, "1.2.5"), False), ((None, None), True)]
)
def test_the_first_version_counts_and_the_last_does_not(
    bounds: Any, called: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(implement_for, "_chosen", {})  # by the name of the function, which is one for all these cases
    module = SimpleNamespace(__version__="1.2.5")

    class Holder:
        @implement_for(lambda: module, *bounds, class_method=True)
        def name(cls: Any) -> str:
            return str(cls.__name__)

    if called:
        assert Holder.name() == "Holder"
    else:
        with pytest.raises(ModuleNotFoundError, match="no implementation for the installed version"):
            Holder.name()


def test_a_module_that_is_missing_has_no_version() -> None:
    @implement_for("no_such_module", "1.0")
    def function() -> None: ...

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        function()
