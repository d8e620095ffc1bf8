"""Notebooks show the short form with fields that unfold, in less than 100 KB; it raises nothing."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorData, TensorClass, TensorDict, Text, lazy_stack, set_printoptions
from tensorclass.td.printing.html_charts import histogram, png_uri, svg_histogram


class Photo(TensorClass):
    image: Tensor
    score: Tensor
    caption: Text
    nested: TensorDict
    source: str = "<camera>"


def photos(rows: int = 12) -> Photo:
    torch.manual_seed(0)
    return Photo(
        torch.rand(rows, 3, 16, 20),
        torch.randn(rows),
        Text(["a <b> & c"] * rows),
        TensorDict({"x": torch.rand(rows, 5)}, [rows]),
        batch_size=[rows],
    )


def parsed(data: Any) -> ElementTree.Element:
    shown = data._repr_html_()
    assert shown is not None
    assert len(shown.encode()) < 100_000
    return ElementTree.fromstring(shown)


def test_fields_unfold_to_pictures_histograms_and_samples() -> None:
    tree = parsed(photos())
    rows = {"".join(row.find("summary").itertext()).split(":")[0].split()[0]: row for row in tree.iter("details")}  # type: ignore[union-attr]
    assert list(rows) == ["Photo", "image", "score", "caption", "nested", "x"]
    assert len(list(rows["image"].iter("img"))) == 6
    assert len(list(rows["score"].iter("rect"))) > 5
    assert "std" in "".join(rows["score"].itertext())
    assert "0 'a <b> & c'" in "".join(rows["caption"].itertext())
    assert "open" in rows["nested"].attrib
    assert "open" not in rows["x"].attrib


def test_nothing_of_the_data_becomes_html() -> None:
    shown = TensorDict({"<script>": 1, "t": "</div><script>"})._repr_html_()
    assert shown is not None
    assert "<script>" not in shown


def test_colours_are_those_of_the_notebook() -> None:
    shown = photos()._repr_html_()
    assert shown is not None
    assert not re.search(r"(?<![-\w])(background|color):(?!inherit)", shown)


@pytest.mark.parametrize("fields", [5, 200])
def test_large_collections_stay_below_100_kb(fields: int) -> None:
    data = TensorDict({f"f{number}": torch.rand(8, 3, 64, 64) for number in range(fields)}, [8])
    tree = parsed(data)
    assert len(list(tree.iter("img"))) > 0
    data = TensorDict({"<" * 300 + str(number): "<" * 100_000 for number in range(60)})
    parsed(data)


def test_a_million_numbers_are_counted_in_part() -> None:
    found = histogram(torch.arange(3_000_000))
    assert found is not None
    assert 900_000 < found.total < 1_100_000
    assert sum(found.counts) == found.total


@pytest.mark.parametrize(
    "values, counts",
    [
        (torch.tensor([True, False, True]), [1, 2]),
        (torch.tensor([5, 5, 7]), [2, 0, 1]),
        (torch.tensor([1.0, 1.0]), [2]),
        (torch.tensor([float("nan"), 1.0]), [1]),
    ],
)
def test_histograms_count(values: Tensor, counts: list[int]) -> None:
    found = histogram(values)
    assert found is not None
    assert found.counts == counts
    ElementTree.fromstring(svg_histogram(found))


def test_numbers_that_are_not_finite_have_no_histogram() -> None:
    assert histogram(torch.tensor([float("nan"), float("inf")])) is None


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_pictures_are_png(channels: int, dtype: torch.dtype) -> None:
    image = pytest.importorskip("PIL.Image")
    numpy = pytest.importorskip("numpy")
    pixels = torch.randint(0, 256, (channels, 40, 30), dtype=torch.uint8)
    given = pixels if dtype is torch.uint8 else pixels / 255
    found = image.open(io.BytesIO(base64.b64decode(png_uri(given).partition(",")[2])))
    assert found.size == (30, 40)
    shown = torch.from_numpy(numpy.array(found)).reshape(40, 30, channels).permute(2, 0, 1)
    assert torch.equal(shown, pixels)


def test_large_pictures_are_shrunk_and_other_ranges_scaled() -> None:
    image = pytest.importorskip("PIL.Image")
    found = image.open(io.BytesIO(base64.b64decode(png_uri(torch.randn(3, 500, 400) * 9).partition(",")[2])))
    assert max(found.size) <= 48
    assert found.getextrema()[0][1] > 100


@pytest.mark.parametrize("form", ["h5", "zarr"])
def test_files_show_their_first_rows(tmp_path: Path, form: str) -> None:
    pytest.importorskip({"h5": "h5py", "zarr": "zarr"}[form])
    getattr(photos(300), f"to_{form}")(tmp_path / f"rows.{form}").close()
    with getattr(Photo, f"from_{form}")(tmp_path / f"rows.{form}") as held:
        tree = parsed(held)
    assert len(list(tree.iter("img"))) == 6
    assert "(from the first 256 rows)" in "".join(tree.itertext())
    assert held._repr_html_() is None  # closed: the text says so


@pytest.mark.parametrize(
    "data",
    [
        TensorDict({"meta": torch.zeros(3, device="meta"), "c": torch.zeros(3, dtype=torch.complex64)}, [3]),
        TensorDict({"image": torch.zeros(3, 8, 8), "empty": torch.zeros(0, 3)}),
        TensorDict({"f8": torch.zeros(3).to(torch.float8_e4m3fn), "sparse": torch.eye(3).to_sparse()}, [3]),
        lazy_stack([TensorDict({"r": torch.zeros(number + 1), "a": torch.zeros(3)}) for number in range(3)]),
        TensorDict(),
    ],
)
def test_values_of_all_sorts_are_shown(data: TensorDict) -> None:
    assert parsed(data).tag == "div"


def test_nested_batches_show_pictures_of_the_first_row() -> None:
    tree = parsed(TensorDict({"video": torch.rand(4, 5, 1, 16, 16)}, [4, 5]))
    assert len(list(tree.iter("img"))) == 5


def test_text_is_shown_without_html_of_leaves_and_of_what_is_broken() -> None:
    with set_printoptions(html=False):
        assert TensorDict({})._repr_html_() is None
    assert NonTensorData("a")._repr_html_() is None
    assert object.__new__(Photo)._repr_html_() is None
