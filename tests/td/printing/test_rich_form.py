"""rich shows collections in colours."""

from __future__ import annotations

import io

import pytest
import torch

from tensorclass import TensorDict

console = pytest.importorskip("rich.console")


def test_rich_prints_the_short_form_in_colours() -> None:
    out = io.StringIO()
    shown = console.Console(file=out, width=120, force_terminal=True, color_system="standard")
    data = TensorDict({"x": torch.zeros(2), "[red]": {"y": "text"}}, [2])
    shown.print(data)
    plain = io.StringIO()
    console.Console(file=plain, width=120).print(data)
    assert [line.rstrip() for line in plain.getvalue().splitlines()] == repr(data).split("\n")
    assert "\x1b[1m  x:\x1b[0m\x1b[36m       f32\x1b[0m" in out.getvalue()
