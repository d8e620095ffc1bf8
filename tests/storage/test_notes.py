"""What files say of themselves, changed value by value: a short run of :mod:`tests.storage.notes`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tensorclass.storage.common.collection_tree import FileError
from tests.storage import notes
from tests.storage.formats import FORMATS, a_bit_of_all, plain
from tests.storage.fuzz import read_files, settled, write_files


@pytest.mark.parametrize("form", FORMATS)
def test_changed_values_are_refused_or_loaded(form: str) -> None:
    """A share; ``python -m tests.storage.notes`` takes all."""
    found = notes.tried(form, plain, 0.006 if form == "zarr" else 0.02, random.Random(2))
    assert sorted(found.keys() - {"equal", "error"}) == []
    assert found["error"] > 5


@pytest.mark.parametrize(
    "form, place, text, message",
    [
        ("h5", "/below", '{"type": "text"}', "/below: its type is 'text', which only an array can have"),
        ("h5", "/ragged", '{"type": "tensor"}', "'tensor', which only an array can have"),
        ("safetensors", "tensordict", "", "x.: its metadata is damaged"),
        ("consolidated", "own", "", "expected the numbers of rows and dimensions"),
    ],
)
def test_notes_of_another_kind_are_errors_of_the_file(
    form: str, place: str, text: str, message: str, tmp_path: Path
) -> None:
    path, make = tmp_path / "case", plain if form == "safetensors" else a_bit_of_all
    FORMATS[form].save(make(1), path)
    files = settled(form, read_files(path))
    found = {one.name: one for one in notes.texts_of(form, files)}[place]
    if form == "safetensors":
        text = found.text.replace('{"tensor": "x"}', '{"tensor": ["x"]}')
    elif form == "consolidated":
        known = notes.unsealed(found.text)
        known["tree"]["entries"]["text"] = {"type": "nested"}
        text = json.dumps(known)
    assert text != found.text
    write_files(found.put(text), path)
    with pytest.raises(FileError, match=message) as caught:
        FORMATS[form].load(path)
    assert str(caught.value).startswith(str(path))
