"""Modules under the names that they had before: for programs, and for pickles and files of ``torch.save``."""

from __future__ import annotations

import base64
import importlib
import io
import pickle
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tensorclass
from tensorclass import TensorDict
from tensorclass.support.moved_modules import MOVED, former_names

PACKAGE = Path(tensorclass.__file__).parent

# made at 37185b9, before the modules were moved: data with a tensor, a nested collection, text, an unbatched tensor,
# and a lazy stack
PICKLE = (
    "eNrdlOtS1EgYhjMHBrd3PaOuoi66HoK7G4EBBM/rgT1EI7SHyh8rlUkaOhoT3nQPC1ZNFX+GEq/BC9BLsMpfw43ZnQQFVm7A/Eg6X955v377e2"
    "pWq4FkiUizIPaFsGRoCelLRjLWakdxSGCYOwXFaxgFkjzJl/f0EpUOqqZbNwwj9KWPGjdMrmp1062o2jL6AqlMuOW1ZRQL4pUdvMLOWxojaJil"
    "RqiHv8CIF6d+6M1n6SuvtSKZIOgPvCANWSAIS/SCYI97RDXorVZ7b0m88an3bmbj49CL3vvZ45YqPtz4UNPPjgriHlAbWcxSmQZp7C2xTERpgo"
    "qWuHvVpziSMmYeS8LIT1DtvXGJqsqVReaJ6DUTqOVx+lRR8DST6LOrbk29RYlEw67n4eM0WUC/XW+3dVvT7dfqIg6MIh6ZUbHk4zIjKu4+pZlu"
    "Tk82x0ebExOjU+MjKIyDxTZqds2RqM9pu+cwviWu+JZWf716q7fU/TZ+cBt6S76MklGQNfxI8VMXeyn22YZd62K/XeniwHqgziNmgVTHIcijLG"
    "QZC4uhHhymOCRxmGIgt0qYkCzEkXK4R/PZruAYHxDa72fHWZc4TnEiPwvJliUGd/KTpEk585Yv2BcQCE6au0qJkyYlbAouglN5Yx+nu/ilgyHd"
    "+4zjqHM6S/FrPqH5aFlt9NxOx3bS8mXAWbil73lzd9XTzVXRneACH9DdLuqgJsVwHjRL/xO4xBsm7+d73LPfEY9jU82JyZHtPDZ243FTrHhsfI"
    "vH7XD+xhWRv1P80YVFcVkTaVfXMGJX7NoaRte5hm9Mokkx3tZnPpHTNUlxpcgs/eAlpv7//5VmTFix/3rFyiVbJj2tqH2Oq2aJ7zWT9/EBvknz"
    "da45Hs673KC4yQf5SZOf4gqyWx3cHs4B+5PiTrvQ3KW4V/70/nanmS1Of1H8XTrl0LbwTxf/dmAXfg8oHpZ+DsUjZhuOY1e7mDWdDua0gqpPjy"
    "melKqnFM+sz31PvQ8="
)
FILE = (
    "eNqlVc1z20QUX9vxR9WQxAHyBYRvqtBWsfztljbFLS5UoBpBZzzMMB5Z3mQ1Va08aZ0mnfFMZxh3JlfODBf+BoZDOXLgwIU7F+DEiX+BXUlxJa"
    "VOgO6MvLvS+/3e7719b91WUjMI5XLo2FhAi0h3DGLu4c2+TnVp967Vas6hLyLjYdKgeODajmHprivRvuRSnWLBwb2hafUFQGLcwN/2TYMKn3vL"
    "G3wJiREkxQ4Tg7g3SBEkEvZuRuwk2Lt9SBuUkRCpO6Sm5QrdwEPXp+vuFQXIiGIny4xdZqnvYMj6EKFl2Tr9zH8pQM4jLMCZTorNxu4QBCVF4e"
    "ynClJSY5hVEmN47tAwbMvCBjXtgSvcdvrYwX1f6NyGBvMUFjTIdzKMYYBdivuwGAh+3qM/gBdI3uV8L6rqIYUlDZa94Cjep7ASz8nAHgRx9HQX"
    "T4ITYFWcaiqo9iBIIEuYAGueYx1eGsPLI3iF+15XVZXCqxq81kmzb9vmPhP6epxxOOjp1CC4H/L7hjjd6s7RyvcuwJskz729xQN9W4N3vEAd+7"
    "4L5wg7E5Ilfs5lEImgZChseLlWko/gXSWhpB7B+UPC03qBwkUNpCFn2/TyVtBA9rSzsjLuQvF4tdkOdiVLf3AgeSahGErsPL6EshgcTEUkaZIn"
    "R+dUJfyENjwvNQ3qZIWsimSNsPQ1RnBpw0vdZQ3eG/o2VzS4GkC3okzXQkzva9AMmLyQe3B9DDdG8IHP19LgZsD3oQYfYQWpqpIcwy1RHYHCLT"
    "5mnz7RQA2sbmvQltpKNvfTH79/h1nB8qc9tWmX0dKkaaVt27mn0+4edlxWxa3mYqx3+ZA59w9///YVF8uf6dxrqPaEO2ixrm6ZO4N7eEBbzdJT"
    "6E8d1TIXsHUf/koyF8kTBeTR1kRA74Bim3dlq3n5//g9GpZJqYW5hvGVP1d5O2dO1DCHrkZuxc1Cq3npGQT4rA+32M81rmL3x58Ls2wze4qKel"
    "SF3GqW0bP6j2u52b01s8I2KydqmUfnJ1ompXbu34opCdzTr9/u3Dn9/NdR8UkBemG72DFZBT7Q+TXdNfutpvQfs1CoVGW5UK8US1W5Ua0VKsVG"
    "Wa5WaoVitVosyoVio1RrlOsVrnL7l8cpkekQPZUJLnaiM9yeC8eUx/9H4+hwAy5HkN+n0LSGjpOEm2gt2jgz6ITOjfOEGyEf4fk6xDNpwDg8XM"
    "FzEfhSGsV6J44NV1wU+00cK8ex4Rqaj2DFDIpXaBwcPtr1aMwh8NOLrq1kMheOSjR1cYLMxeazSX+uZ/2Z4bzV9TP+3r990xkfk/Psfdt/ABQ0"
    "VIM="
)


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _check(loaded: Any) -> None:
    assert type(loaded) is TensorDict
    data, stack = loaded["data"], loaded["stack"]
    assert data.batch_size == torch.Size([3])
    assert data["x"].tolist() == data["nested", "y"].tolist() == data["fixed"].tolist() == [0.0, 1.0, 2.0]
    assert data["text"] == "a"
    assert isinstance(stack, tensorclass.LazyStackedTensorDict)
    assert stack["text"] == ["a", "b"]
    assert stack["nested", "y"].shape == (2, 3)


def test_a_pickle_made_before_is_read() -> None:
    _check(pickle.loads(_bytes(PICKLE)))


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_of_torch_save_made_before_is_read(weights_only: bool) -> None:
    _check(torch.load(io.BytesIO(_bytes(FILE)), weights_only=weights_only))


@pytest.mark.parametrize("former", MOVED)
def test_a_former_name_gives_the_module(former: str) -> None:
    old, new = f"tensorclass.{former}", f"tensorclass.{MOVED[former]}"
    module = importlib.import_module(new)
    assert importlib.import_module(old) is module
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__ == new
    assert old in former_names(new)
    assert not (PACKAGE / Path(*former.split("."))).with_suffix(".py").exists()


def test_other_names_are_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tensorclass\.nowhere"):
        importlib.import_module("tensorclass.nowhere")
    assert former_names("elsewhere.progress") == []


def test_no_former_name_is_that_of_a_function_or_class_of_its_package() -> None:
    """The import of a module sets it in its package, where it would hide the function."""
    hidden: list[str] = []
    for former in MOVED:
        package, _, name = former.rpartition(".")
        if package in MOVED:
            continue
        parent = importlib.import_module(".".join(["tensorclass", package]).rstrip("."))
        found = getattr(parent, name, None)
        if found is not None and not isinstance(found, ModuleType):
            hidden.append(former)
    assert not hidden
