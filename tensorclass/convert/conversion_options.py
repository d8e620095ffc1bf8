"""Options of converters: the keyword arguments of ``from_x``, checked once and passed on as one value.

A converter declares ``**kwargs: Unpack[ConversionKwargs]`` (``TableKwargs`` for tables) and calls
:meth:`ConversionOptions.of` (:func:`table_call_options`) before it looks at its source.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import torch
from torch import Size
from typing_extensions import Self, TypedDict

from tensorclass.support.nearest import did_you_mean
from tensorclass.td import shapes
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.delegated.arguments import BatchSize, Nulls, RaggedForm
from tensorclass.td.keys import NestedKey

from .conversion_errors import Problems

#: the choices of arguments
_CHOICES: dict[str, tuple[str, ...]] = {"nulls": get_args(Nulls), "ragged": get_args(RaggedForm)}


class ConversionKwargs(TypedDict, total=False):
    """Keyword arguments that every ``from_x`` has.

    Args:
        auto_batch_size: infer the batch size from the leading dimensions that all values share.
        batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
        batch_size: the batch size; ``[]`` by default.
        device: where the values are moved; by default they stay where they are.
        strict: with ``False``, drop keys that are not fields of a record, and warn about them.
    """

    auto_batch_size: bool
    batch_dims: int | None
    batch_size: BatchSize
    device: DeviceLike | None
    strict: bool


class NamedKwargs(TypedDict, total=False):
    """Keyword arguments of ``from_x`` whose results have names of dimensions.

    Args:
        auto_batch_size: infer the batch size; by default only if ``batch_dims`` is given.
        ConversionKwargs: batch_size, device, batch_dims, strict
        names: a name or ``None`` for each batch dimension.
    """

    auto_batch_size: bool | None
    batch_size: BatchSize
    device: DeviceLike | None
    batch_dims: int | None
    names: Sequence[str | None] | None
    strict: bool


class TableKwargs(ConversionKwargs, total=False):
    """Keyword arguments of every ``from_x`` of tables that Arrow describes.

    Args:
        copy: ``True`` always copies. ``False`` raises for a column of numbers that needs a copy. By default columns are
            copied where needed.
        nulls: what becomes of nulls, as in :meth:`from_arrow`.
        mask_key: the key of the collection of masks; ``"_mask"`` by default.
        device: where the values are moved; by default the CPU.
        columns: the names of the columns to read; all by default.
        rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
        ragged: what becomes of lists of numbers of different lengths, as in :meth:`from_arrow`.
        batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
        strict: with ``False``, drop columns that are not fields of a record, and warn about them.
    """

    copy: bool | None
    nulls: Nulls
    mask_key: NestedKey | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    ragged: RaggedForm


class StreamKwargs(TypedDict, total=False):
    """Keyword arguments of every ``iter_x`` of datasets, beside those about batches.

    Args:
        batch_size: the number of rows per batch. The last batch can have fewer.
        drop_last: drop a last batch with fewer rows.
        TableKwargs: nulls, mask_key, device, columns, rename, strict
        ragged: what becomes of lists of numbers of different lengths in a batch, as in :meth:`from_arrow`.

    Returns:
        An iterator of collections of this class.
    """

    device: DeviceLike | None
    nulls: Nulls
    mask_key: NestedKey | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    ragged: RaggedForm
    strict: bool


class ConversionOptions(NamedTuple):
    """The checked options of one conversion, with the problems found on the way."""

    #: the call, for messages: ``"Sample.from_dict"``
    what: str
    #: infer the batch size, with at most ``batch_dims`` dimensions
    auto: bool
    batch_dims: int | None
    batch_size: Size | None
    device: torch.device | None
    #: of the batch dimensions
    names: Sequence[str | None] | None
    #: keys that are no fields of a record are an error; otherwise they are left out, with a warning
    strict: bool
    problems: Problems

    @classmethod
    def of(
        cls,
        what: str,
        *,
        auto_batch_size: bool | None = False,
        batch_dims: int | None = None,
        batch_size: BatchSize = None,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        strict: bool = True,
        conflict: type[Exception] = TypeError,
        **unknown: Any,
    ) -> Self:
        """Check the options of ``from_x``.

        Args:
            what: the call, for messages.
            auto_batch_size: infer the batch size.
            batch_dims: largest number of inferred batch dimensions; implies ``auto_batch_size``.
            batch_size: the batch size.
            device: device of the values.
            names: names of the batch dimensions.
            strict: raise for keys that are no fields of a record, instead of leaving them out.
            conflict: class of the error if the batch size is both given and to be inferred.
            unknown: other keyword arguments, which raise.

        Raises:
            TypeError: an argument is unknown, or the batch size is both given and to be inferred (``conflict``).
            ValueError: ``batch_dims`` is negative.
        """
        if unknown:
            wrong = next(iter(unknown))
            near = did_you_mean(wrong, inspect.signature(cls.of).parameters)
            raise TypeError(f"{what}() got an unexpected keyword argument {wrong!r}{near}")
        if batch_size is not None and (auto_batch_size or batch_dims is not None):
            other = "auto_batch_size=True" if auto_batch_size else f"batch_dims={batch_dims}"
            raise conflict(
                f"{what}: batch_size={list(shapes.as_size(batch_size))} and {other} exclude each other: give the batch "
                "size, or let it be inferred"
            )
        if batch_dims is not None and batch_dims < 0:
            raise ValueError(f"{what}: expected batch_dims of at least 0, got {batch_dims}")
        auto = bool(auto_batch_size) or batch_dims is not None
        size = None if batch_size is None else shapes.as_size(batch_size)
        return cls(what, auto, batch_dims, size, as_device(device), names, strict, Problems(what))

    def nested(self) -> Self:
        """Return options for a nested value with a batch size of its own."""
        return type(self)(self.what, False, None, None, None, None, self.strict, self.problems)

    def renamed(self, what: str) -> Self:
        """Return the same options for another call, with an empty list of problems."""
        return self._replace(what=what, problems=Problems(what))


class TableOptions(NamedTuple):
    """The checked options for reading columns."""

    nulls: Nulls = "default"
    copy: bool | None = None
    ragged: RaggedForm = "column"
    #: key of the masks, for ``nulls="mask"``
    mask_key: NestedKey | None = None
    #: names of the columns to read; ``None``: all
    columns: Sequence[str] | None = None
    #: other names for columns, which are then treated as if they had them
    rename: Mapping[str, str] | None = None
    #: splits column names into nested keys
    separator: str | None = None
    #: dtype of all tensors; ``None``: that of each column
    dtype: torch.dtype | None = None
    #: no argument: the format has no type for lists of one length, so those that have one are a tensor
    untyped_lists: bool = False

    def check(self, what: str) -> None:
        """Check the options.

        Raises:
            TypeError: ``rename`` is no mapping from text to text.
            ValueError: ``nulls`` or ``ragged`` is not one of its choices, ``mask_key`` is given without
                ``nulls="mask"``, or ``separator`` is empty.
        """
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                got = f"{value!r}{did_you_mean(value, choices)}"
                raise ValueError(f"{what}: expected {name} to be one of {choices}, got {got}")
        if self.mask_key is not None and self.nulls != "mask":
            raise ValueError(f"{what}: mask_key={self.mask_key!r} needs nulls='mask', got nulls={self.nulls!r}")
        if self.separator == "":
            raise ValueError(f"{what}: expected a separator of at least one character, got ''")
        if self.rename is not None and not _maps_texts(self.rename):
            raise TypeError(
                f"{what}: expected rename to be new names of columns, {{'column': 'field'}}, got {self.rename!r}"
            )


def _maps_texts(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    pairs = cast("Mapping[object, object]", given).items()
    return all(isinstance(old, str) and isinstance(new, str) for old, new in pairs)


def table_call_options(what: str, **given: Any) -> tuple[ConversionOptions, TableOptions]:
    """Check the options of ``from_x`` for a table: those for columns, and those that every conversion has."""
    table = TableOptions(**{name: given.pop(name) for name in TableOptions._fields[:-1] if name in given})
    table.check(what)
    return ConversionOptions.of(what, **given), table
