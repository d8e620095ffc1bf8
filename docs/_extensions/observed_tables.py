"""Tables of the reference that are observed, not written: they show what the package does when the site is built.

``.. field-types::``, ``.. names-of-fields::``, ``.. file-formats::``
"""

from __future__ import annotations

import datetime
import enum
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from docutils import nodes
from jaxtyping import Float, Int
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from torch import Tensor

from tensorclass import Column, DType, Ragged, Shape, TensorClass, TensorDict, Text
from tensorclass.inspection.data_files import FORMATS, TableFile
from tensorclass.inspection.data_writers import FOLDERS, WRITERS
from tensorclass.records.field_names import MEMBER_NAMES, NEED_SHADOW
from tensorclass.td.pytree import forget_class


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("field-types", FieldTypes)
    app.add_directive("names-of-fields", NamesOfFields)
    app.add_directive("file-formats", FileFormats)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Table(SphinxDirective):
    """A table whose cells are reStructuredText."""

    header: ClassVar[Sequence[str]]

    def rows(self) -> Iterable[Sequence[str]]:
        """Return the cells, a sequence for each row."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
        for row in (self.header, *self.rows()):
            lines += [f"   {'* -' if not number else '  -'} {cell}" for number, cell in enumerate(row)]
        return self.parse_text_to_nodes("\n".join(lines))


# --- types of fields --------------------------------------------------------------------------------------------------


class Point(TensorClass):
    """A record that is the field of another."""

    x: Tensor


class Color(enum.Enum):
    """An enum that is the type of a field."""

    RED = 1
    BLUE = 2


class Declared(NamedTuple):
    """An annotation, and a value of two rows for it."""

    text: str
    annotation: Any
    value: Callable[[], Any]


_TYPES = (
    Declared("Tensor", Tensor, lambda: torch.zeros(2, 3)),
    Declared('Float[Tensor, "3 h w"]', Float[Tensor, "3 h w"], lambda: torch.zeros(2, 3, 4, 4)),
    Declared('Int[Tensor, ""]', Int[Tensor, ""], lambda: [0, 1]),
    Declared(
        'Annotated[Tensor, Shape("n"), DType("bool")]',
        Annotated[Tensor, Shape("n"), DType("bool")],
        lambda: torch.zeros(2, 3, dtype=torch.bool),
    ),
    Declared("Point (a record)", Point, lambda: Point(torch.zeros(2), batch_size=[2])),
    Declared("TensorDict", TensorDict, lambda: TensorDict({"x": torch.zeros(2)}, [2])),
    Declared("Text", Text, lambda: ["one", "two"]),
    Declared('Ragged[Int[Tensor, "n"]]', Ragged[Int[Tensor, "n"]], lambda: [[1], [2, 3]]),
    Declared("Column[list[str]]", Column[list[str]], lambda: [["a"], ["b", "c"]]),
    Declared("Column[Color] (an enum)", Column[Color], lambda: [Color.RED, Color.BLUE]),
    Declared("Column[date]", Column[datetime.date], lambda: [datetime.date(2026, 1, 1)] * 2),
    Declared("Tensor | None", Tensor | None, lambda: None),
    Declared("str", str, lambda: "camera 1"),
    Declared("int", int, lambda: 3),
    Declared("list[str]", list[str], lambda: ["a", "b"]),
    Declared("Path", pathlib.Path, lambda: pathlib.Path("rows.csv")),
    Declared("Any", Any, lambda: torch.zeros(2)),
)


class FieldTypes(Table):
    """What a field of each type holds, for a record of two rows."""

    header = (
        "annotation",
        "value of two rows",
        "``record.field`` is",
        "``record[0].field`` is",
        "column in Arrow, Parquet",
    )

    def rows(self) -> Iterable[Sequence[str]]:
        for declared in _TYPES:
            value = declared.value()
            record = _record_class("field", declared.annotation)(field=value, batch_size=[2])
            yield (
                f"``{declared.text}``",
                _described(value),
                _described(record.field),
                _described(record[0].field),
                _arrow_type(record),
            )


def _record_class(name: str, annotation: Any, **options: bool) -> Any:
    namespace = {"__annotations__": {name: annotation}, "__module__": __name__}
    return type(TensorClass)("Row", (TensorClass,), namespace, **options)


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"``{str(value.dtype).removeprefix('torch.')}{list(value.shape)}``"
    if isinstance(value, Text | Ragged | Column) and not value.batch_size:
        return f"``{type(value).__name__}`` of ``{value.tolist()!r}``"
    if isinstance(value, TensorClass | TensorDict | Text | Ragged | Column):
        return f"``{type(value).__name__}``, batch size ``{list(value.batch_size)}``"
    return f"``{value!r}``"


def _arrow_type(record: Any) -> str:
    fields = record.to_arrow().schema
    if "field" not in fields.names:
        return "none"
    found = fields.field("field").type
    shape = getattr(found, "shape", None)
    return f"``{found}``" if shape is None else f"``fixed_shape_tensor[{found.value_type}, {shape}]``"


# --- names of fields --------------------------------------------------------------------------------------------------


class NamesOfFields(Table):
    """Which names a field can have, found by declaring a class with each."""

    header = ("name", "can be a field", "effect")
    hiding: Sequence[str]

    def rows(self) -> Iterable[Sequence[str]]:
        public = sorted(name for name in MEMBER_NAMES if name[0] != "_")
        refused = [name for name in public if not _allowed(name, shadow=True)]
        shadowed = [name for name in public if name not in refused and not _allowed(name, shadow=False)]
        if set(shadowed) != NEED_SHADOW:
            raise self.error(f"names that need shadow are {sorted(NEED_SHADOW)}, found {shadowed}")
        hiding = [name for name in public if name not in refused and name not in shadowed]
        yield (_literals(refused), "no", "The constructor of every record takes it.")
        yield (_literals(shadowed), "with ``shadow=True``", "Hides the attribute, which programs read from any tensor.")
        yield ("keywords of Python, such as ``class``", "no", "They cannot be arguments.")
        yield ("``__name``: with two underscores in front", "no", "They belong to Python and to generated code.")
        yield ("``_name``: with one underscore", "with few exceptions", "An error lists those that records use.")
        yield ("names of methods and attributes: below", "yes", "Hides the member: ``record.name`` is the field.")
        yield ("any other name", "yes", "None.")
        self.hiding = hiding

    def run(self) -> list[nodes.Node]:
        return super().run() + self.parse_text_to_nodes(f"Names of members: {_literals(self.hiding)}.")


def _allowed(name: str, shadow: bool) -> bool:
    try:
        forget_class(_record_class(name, Tensor, shadow=shadow))
    except AttributeError:
        return False
    return True


def _literals(names: Iterable[str]) -> str:
    return ", ".join(f"``{name}``" for name in names)


# --- formats of files -------------------------------------------------------------------------------------------------


class FileFormats(Table):
    """The formats that ``tensorclass inspect`` and ``tensorclass convert`` know."""

    header = ("``--to``", "ends of names", "stored as", "``inspect`` reads it", "``convert`` writes it", "holds")

    def rows(self) -> Iterable[Sequence[str]]:
        for known in FORMATS:
            is_table = issubclass(known, TableFile)
            yield (
                f"``{known.name}``",
                _literals(known.suffixes) or "none: a folder",
                "a folder" if known.name in FOLDERS else "a file",
                "yes",
                "yes" if known.name in WRITERS else "no",
                "a table: a column for each field" if is_table else "a collection of any shape",
            )
