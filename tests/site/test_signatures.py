"""Signatures in the reference have the parameters of the functions."""

from __future__ import annotations

import inspect
import io
import sys
import warnings
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from public_names import canonical, is_ours, public_names

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("pydata_sphinx_theme")

DOCS = Path(__file__).parents[2] / "docs"

FUNCTIONS = {
    name: item
    for name, item in public_names().items()
    if inspect.isroutine(item) and is_ours(item) and canonical(name) == name
}


def _signatures() -> dict[Any, inspect.Signature]:
    """Return the signatures that are kept with functions."""
    functions = [getattr(item, "__func__", item) for item in FUNCTIONS.values()]
    return {function: vars(function)["__signature__"] for function in functions if "__signature__" in vars(function)}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """The parameters of each signature of each function in a reference of functions alone."""
    from sphinx import addnodes
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    folder = tmp_path_factory.mktemp("functions")
    by_module: dict[str, list[str]] = {}
    for name in FUNCTIONS:
        by_module.setdefault(name.rpartition(".")[0], []).append(name.rpartition(".")[2])
    directives = [f".. names:: {module}\n\n   {' '.join(names)}\n" for module, names in by_module.items()]
    (folder / "index.rst").write_text("Functions\n=========\n\n" + "\n".join(directives), encoding="utf-8")
    path, signatures = list(sys.path), _signatures()
    with warnings.catch_warnings(), patch_docutils(DOCS), docutils_namespace():
        warnings.simplefilter("ignore")  # of Sphinx and its extensions, for their authors
        app = Sphinx(
            folder,
            DOCS,
            folder / "out",
            folder / "doctrees",
            "dummy",
            status=None,
            warning=io.StringIO(),
        )
        app.build()
    sys.path[:] = path
    for function in _signatures().keys() - signatures.keys():  # autodoc gives them other ones, to preserve defaults
        del function.__signature__
    found: dict[str, list[list[str]]] = {}
    for signature in app.env.get_doctree("index").findall(addnodes.desc_signature):
        parameters = [[*one.findall(addnodes.desc_sig_name)] for one in signature.findall(addnodes.desc_parameter)]
        own = [names[0].astext() for names in parameters if names]
        found.setdefault(f"{signature['module']}.{signature['fullname']}", []).append(own)
    return found


def test_functions_have_all_parameters(shown: dict[str, list[list[str]]]) -> None:
    """Also those that are methods of a class, from which autodoc takes the class."""
    expected = {
        name: ["data" if one == "self" else one for one in inspect.signature(item).parameters]
        for name, item in FUNCTIONS.items()
    }
    assert len(expected) > 120
    plain = {name: signatures[0] for name, signatures in shown.items() if len(signatures) == 1}
    assert {name: own for name, own in plain.items() if own != expected[name]} == {}
    for name, signatures in shown.items():
        if len(signatures) > 1:  # of overloads, which name what the function takes as further keywords
            parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
            further = {one.name for one in parameters if one.kind is one.VAR_KEYWORD}
            assert {*chain(*signatures)} >= {*expected[name]} - further, name
    assert shown.keys() == expected.keys()
    assert plain["tensorclass.from_csv"][0] == "path"
    assert plain["tensorclass.to_csv"][:2] == ["data", "path"]
