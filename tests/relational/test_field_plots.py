"""Histograms of the fields that have numbers."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
import torch

from tensorclass import Ragged, TensorDict, Text

pytest.importorskip("matplotlib")


def data() -> TensorDict:
    return TensorDict(
        {
            "x": torch.randn(50),
            "n": {"label": torch.arange(50) % 4},
            "t": Text(["a"] * 50),
            "r": Ragged([[1, 2]] * 50),
            "c": torch.zeros(50, dtype=torch.complex64),
            "nan": torch.full((50,), float("nan")),
        },
        [50],
    )


def test_each_field_of_numbers_has_a_histogram() -> None:
    figure = data().plot()
    assert [axes.get_title() for axes in figure.axes] == ["x", "n.label", "r"]
    stairs = figure.axes[1].patches[0].get_data()
    assert stairs.values.sum() == 50
    assert stairs.edges.tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5]
    out = io.BytesIO()
    figure.savefig(out, format="png")
    assert out.getvalue().startswith(b"\x89PNG")


def test_notebooks_show_the_figure() -> None:
    figure: Any = data().plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure))._repr_png_().startswith(b"\x89PNG")


def test_keys_choose_the_fields() -> None:
    figure = data().plot(["r", ("n", "label")])
    assert [axes.get_title() for axes in figure.axes] == ["r", "n.label"]


@pytest.mark.parametrize("key", ["t", "c", "nan"])
def test_keys_without_numbers_are_errors(key: str) -> None:
    with pytest.raises(ValueError, match=rf"plot: expected keys of real numbers, got \['{key}'\]"):
        data().plot(["x", key])


def test_nothing_to_plot_is_an_error() -> None:
    with pytest.raises(ValueError, match="no value has real numbers"):
        TensorDict({"t": Text(["a"])}, [1]).plot()
    with pytest.raises(KeyError, match="no key 'missing'"):
        data().plot("missing")


def test_one_row_has_a_histogram_of_its_numbers() -> None:
    assert len(TensorDict({"image": torch.rand(3, 8, 8)}).plot().axes) == 1


def test_keys_are_no_commands_and_no_formulas() -> None:
    figure = TensorDict({"$a_$\x1b[2J\u202e": torch.ones(3)}, [3]).plot()
    figure.savefig(io.BytesIO(), format="png")
    assert figure.axes[0].get_title() == "\\$a_\\$\\x1b[2J\\u202e"
