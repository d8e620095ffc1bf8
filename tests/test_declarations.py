"""What is made of the declarations of converters: methods, functions of the package, lists of names."""

from __future__ import annotations

import ast
import inspect

import pytest

from tensorclass.convert.conversion_options import ConversionOptions, TableOptions
from tests.declarations import DEFAULTS, Methods, Source, texts, with_functions


def test_what_is_made_of_the_converters_fits_them() -> None:
    pytest.importorskip("ruff")  # formats what is made
    assert [path.name for path, text in texts().items() if path.read_text() != text] == [], "run make stubs"


def test_the_defaults_of_arguments_are_those_of_the_options() -> None:
    given = {name: one.default for name, one in inspect.signature(ConversionOptions.of).parameters.items()}
    known = given | TableOptions._field_defaults
    assert {name: ast.literal_eval(text) for name, text in DEFAULTS.items()} == {
        name: known.get(name, False) for name in DEFAULTS
    }


DECLARATION = '''
from typing import Any

from tensorclass.convert.conversion_steps import C
from tensorclass.td.delegated.arguments import TableSource

METHODS_OF = "TableFiles"


def from_x(cls: type[C], path: TableSource, *, lines: int = 3, **kwargs: Any) -> C:
    """Read an X file.

    Args:
        path: the file.
        FileKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype
        lines: the number of lines.
        FileKwargs: columns, rename, nulls, strict
        kwargs: options, as in :meth:`from_{x}`.

    Raises:
        FileKwargs: OSError
    """


def to_x(data: TensorCollection, path: TableSource) -> None:
    """Write an X file.

    Args:
        path: the file.
    """
'''

MADE = '''
    @classmethod
    @delegated("package.x_files")
    def from_x(
        cls, path: TableSource, *, auto_batch_size: bool = False, batch_dims: int | None = None,
        device: DeviceLike | None = None, batch_size: BatchSize = None, separator: str | None = None,
        dtype: torch.dtype | None = None, lines: int = 3, columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None, nulls: Nulls = "default", strict: bool = True, **kwargs: Any
    ) -> Self:
        """Read an X file.

        Args:
            path: the file.
            auto_batch_size: infer the batch size instead of taking the number of rows.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            lines: the number of lines.
            columns: the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            kwargs: options, as in :meth:`from_x`.

        Raises:
            OSError: a file does not exist or cannot be read.
        """
        ...

    @delegated("package.x_files")
    def to_x(self: TableFiles, path: TableSource) -> None:
        """Write an X file.

        Args:
            path: the file.
        """
        ...
'''


def _methods(text: str) -> Methods:
    at, made = Source("package.x_files", text), Methods("TableFiles")
    for functions in at.functions().values():
        made.add(functions, at)
    return made


def test_a_function_becomes_a_method_with_the_arguments_and_texts_that_it_names() -> None:
    made = _methods(DECLARATION)
    assert "\n\n".join(made.body) == MADE.strip("\n")
    assert "from collections.abc import Sequence" in made.imports


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("nulls, strict", "nulls", r"x_files.from_x: Args does not explain \['strict'\]"),
        ("nulls, strict", "nulls, stict", r"FileKwargs explains no 'stict' under Args"),
    ],
)
def test_a_declaration_that_does_not_fit_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        _methods(DECLARATION.replace(old, new))


def test_functions_of_the_package_are_written_with_their_names() -> None:
    rule = '# -- converters: written by "make stubs" -----'
    text = f'__all__ = [\n    "from_old",\n    "load",\n]\n{rule}\n\nfrom_old: Final = _T.from_old\n\n# -- files\n'
    assert with_functions(text, [("from_x", "_T")]) == (
        f'__all__ = [\n    "from_x",\n    "load",\n]\n{rule}\n\nfrom_x: Final = _T.from_x\n\n# -- files\n'
    )
