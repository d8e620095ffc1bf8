"""The house does not grow again: see :mod:`tests.house`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import house

pytestmark = pytest.mark.xdist_group("house")  # the sources are read and parsed once

#: the counts of today, which may shrink; towards the goals of ``python -m tests.house``
MOST = {
    "places that ask whether native code is on": 1,
    "places that ask whether a compiler traces": 15,
    "places that look behind fields with names of members": 225,
    "isinstance with the class of a leaf, outside of leaves/ and columns/": 5,
    "modules in the largest circle of imports": 0,
    "lines of code of the package": 73_100,
    "lines of code of td/": 22_700,
    "lines of C++": 2_620,
    "modules of more than 700 lines": 0,
    "words of the glossary": 20,
}


@pytest.mark.parametrize("count", house.COUNTS, ids=lambda count: count.what)
def test_a_count_does_not_grow(count: house.Count) -> None:
    found = count.now()
    assert count.number() <= MOST[count.what], found


def test_lines_of_code_are_those_without_docstrings_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""Docstring,\nof two lines."""\n\n# comment\nx = """a\nb"""\n\n\ndef f():\n    """Doc."""\n    return x\n'
    )
    assert house.code_lines(file) == 4


def test_places_are_those_of_code(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text('"""native.ON"""\nfrom a import native\nif native.ON:  # native.ON\n    pass\n')
    assert len(house.places(r"native\.ON", tmp_path)) == 1
