"""Options of converters: the keyword arguments of ``from_x``, checked once and passed on as one value.

A converter declares ``**kwargs: Unpack[ConversionKwargs]`` (``TableKwargs`` for tables) and calls
:meth:`ConversionOptions.of` (:func:`table_call_options`) before it looks at its source.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import Size
from typing_extensions import Self, TypedDict, Unpack

from tensorclass.support.nearest import did_you_mean
from tensorclass.td import shapes
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.keys import NestedKey

from .conversion_errors import Problems

BatchSize: TypeAlias = Sequence[int] | int | None
#: handling of nulls: the default of the field, an error, a zero (nan, ``None``), or that and a mask
NullMode: TypeAlias = Literal["default", "raise", "fill", "mask"]
#: form of lists of numbers: ragged rows (for a field of a tensor, as "jagged"); a tensor, or if their lengths
#: differ, a jagged tensor, a lazy stack of rows, an error
RaggedMode: TypeAlias = Literal["column", "jagged", "lazy", "raise"]

_NULL_MODES = ("default", "raise", "fill", "mask")
_RAGGED_MODES = ("column", "jagged", "lazy", "raise")


class ConversionKwargs(TypedDict, total=False):
    """Keyword arguments that every ``from_x`` has."""

    auto_batch_size: bool | None
    batch_dims: int | None
    batch_size: BatchSize
    device: DeviceLike | None
    strict: bool


class TableKwargs(ConversionKwargs, total=False):
    """Keyword arguments of every ``from_x`` of tables that Arrow describes."""

    copy: bool | None
    nulls: NullMode
    mask_key: NestedKey | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    ragged: RaggedMode


class StreamKwargs(TypedDict, total=False):
    """Keyword arguments of every ``iter_x`` of datasets, beside those about batches."""

    device: DeviceLike | None
    nulls: NullMode
    mask_key: NestedKey | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    ragged: RaggedMode
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

    nulls: NullMode = "default"
    copy: bool | None = None
    ragged: RaggedMode = "column"
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
    #: the format has no type for lists of one length, so those that have one are a tensor
    untyped_lists: bool = False

    @classmethod
    def of(
        cls,
        what: str,
        *,
        nulls: NullMode = "default",
        copy: bool | None = None,
        ragged: RaggedMode = "column",
        mask_key: NestedKey | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Check the options for columns.

        Raises:
            TypeError: ``rename`` is no mapping from text to text.
            ValueError: ``nulls`` or ``ragged`` is not one of its choices, ``mask_key`` is given without
                ``nulls="mask"``, or ``separator`` is empty.
        """
        for name, value, choices in (("nulls", nulls, _NULL_MODES), ("ragged", ragged, _RAGGED_MODES)):
            if value not in choices:
                got = f"{value!r}{did_you_mean(value, choices)}"
                raise ValueError(f"{what}: expected {name} to be one of {choices}, got {got}")
        if mask_key is not None and nulls != "mask":
            raise ValueError(f"{what}: mask_key={mask_key!r} needs nulls='mask', got nulls={nulls!r}")
        if separator == "":
            raise ValueError(f"{what}: expected a separator of at least one character, got ''")
        if rename is not None and not _maps_texts(rename):
            raise TypeError(
                f"{what}: expected rename to be new names of columns, {{'column': 'field'}}, got {rename!r}"
            )
        return cls(nulls, copy, ragged, mask_key, columns, rename, separator, dtype)


def _maps_texts(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    pairs = cast("Mapping[object, object]", given).items()
    return all(isinstance(old, str) and isinstance(new, str) for old, new in pairs)


def table_call_options(
    what: str,
    *,
    copy: bool | None = None,
    nulls: NullMode = "default",
    mask_key: NestedKey | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    ragged: RaggedMode = "column",
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    **kwargs: Unpack[ConversionKwargs],
) -> tuple[ConversionOptions, TableOptions]:
    """Check all options of ``from_x`` for a table."""
    table = TableOptions.of(
        what, nulls=nulls, copy=copy, ragged=ragged, mask_key=mask_key, columns=columns, rename=rename,
        separator=separator, dtype=dtype,
    )  # fmt: skip
    return ConversionOptions.of(what, **kwargs), table
