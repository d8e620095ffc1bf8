"""What is made of the functions behind methods: the methods, functions of the package, lists of names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tensorclass.convert.conversion_options import ConversionOptions, TableKwargs, TableOptions
from tensorclass.distributed.map.parallel_map import MapKwargs
from tensorclass.distributed.map.scheduler import MapOptions
from tensorclass.distributed.messages import point_to_point
from tensorclass.storage.hdf5_zarr.group_loader import GroupFileKwargs, open_file
from tests.declarations import Methods, Source, default_of, source, texts, with_functions


def test_what_is_made_of_the_functions_fits_them() -> None:
    pytest.importorskip("ruff")  # formats what is made
    assert [path.name for path, text in texts().items() if path.read_text() != text] == [], "run make stubs"


@pytest.mark.parametrize(
    "takes, keywords",
    [
        ([ConversionOptions.of, TableOptions], TableKwargs),
        ([open_file], GroupFileKwargs),
        ([point_to_point._Call], point_to_point.MessageKwargs),
        ([MapOptions], MapKwargs),
    ],
)
def test_the_defaults_of_arguments_are_those_of_what_takes_them(
    takes: list[Callable[..., Any]], keywords: type
) -> None:
    taken = {name: repr(one.default) for each in takes for name, one in inspect.signature(each).parameters.items()}
    at = source(keywords.__module__)
    declared = {name: default_of(name, text) for name, text in Methods("Files").keywords(keywords.__name__, at).items()}
    assert {name: taken[name].replace("'", '"') for name in declared} == declared


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

    Example:
        >>> TensorDict.from_{x}("x")
    """


def to_x(data: TensorCollection, path: TableSource) -> None:
    """Write an X file.

    Args:
        path: the file.

    Example:
        >>> data.to_x("x")
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

        Example:
            >>> TensorDict.from_x("x")
        """
        ...

    @delegated("package.x_files")
    def to_x(self: TableFiles, path: TableSource) -> None:
        """Write an X file.

        Args:
            path: the file.

        Example:
            >>> data.to_x("x")
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


OVERLOADED = '''
from concurrent.futures import Future
from typing import Literal, TypeVar, overload

C = TypeVar("C", bound="TensorCollection")
METHODS_OF = "Files"
PROPERTIES = ("place",)


@overload
def save_x(data: C, *, later: Literal[False] = ...) -> C: ...
@overload
def save_x(data: C, *, later: Literal[True]) -> Future[C]: ...  # type: ignore[overload-overlap]
def save_x(
    data: C, path: str | None = None, *, later: bool = False, fast: bool = True, limit: float | None = None
) -> C | Future[C]:
    """Write an X file.

    Args:
        path: the file.
        fast: hurry.
        later: return at once.
        limit: seconds.

    Example:
        >>> data.save_x("rows.x")
    """


write_x = dump_x = save_x


def load_x(cls: type[C], path: str) -> C:
    """Read an X file.

    Args:
        path: the file.

    Example:
        >>> TensorDict.load_x("rows.x")
    """


open_x = load_x


def place(data: TensorCollection) -> str:
    """The file.

    Example:
        >>> data.place
    """


def helper(data: C) -> C:
    """Help."""
'''

OVERLOADS = """
    @overload
    def save_x(
        self: Self, path: str | None = ..., *, fast: bool = ..., later: Literal[False] = ..., limit: float | None = ...
    ) -> Self: ...
    @overload
    def save_x(  # type: ignore[overload-overlap]
        self: Self, path: str | None = ..., *, fast: bool = ..., later: Literal[True], limit: float | None = ...
    ) -> Future[Self]: ...
    @delegated("package.x_files")
    def save_x(
        self: Self, path: str | None = None, *, fast: bool = True, later: bool = False, limit: float | None = None
    ) -> Self | Future[Self]:
"""

OTHER_NAMES = """
    write_x = save_x

    dump_x = save_x
"""

OF_CLASS = '''
    @classmethod
    @delegated("package.x_files", "load_x")
    def open_x(cls, path: str) -> Self:
        """Read an X file.

        Another name of :meth:`load_x`.

        Args:
            path: the file.

        Example:
            >>> TensorDict.open_x("rows.x")
        """
        ...
'''

PROPERTY = """
    @property
    @delegated("package.x_files")
    def place(self) -> str:
"""


@pytest.mark.parametrize("part", [OVERLOADS, OTHER_NAMES, OF_CLASS, PROPERTY])
def test_overloads_other_names_and_properties_are_written_out(part: str) -> None:
    body = "\n\n".join(_methods(OVERLOADED).body)
    assert part.strip("\n") in body
    assert "helper" not in body


def test_an_overload_cannot_name_an_argument_in_another_way_than_the_function() -> None:
    with pytest.raises(SystemExit, match="an overload has the argument path by name"):
        _methods(OVERLOADED.replace("later: Literal[True]", "path: str, later: Literal[True]"))


def test_functions_of_the_package_are_written_with_their_names() -> None:
    rule = '# -- converters: written by "make stubs" -----'
    end = "# -- files\nload: Final = _T.load\n"
    text = f'__all__ = [\n    "from_old",\n    "load",\n]\n{rule}\n\nfrom_old: Final = _T.from_old\n\n{end}'
    assert with_functions(text, [("from_x", "_T")]) == (
        f'__all__ = [\n    "from_x",\n    "load",\n]\n{rule}\n\nfrom_x: Final = _T.from_x\n\n{end}'
    )
