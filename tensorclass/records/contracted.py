"""The base class of records with the methods about contracts: checking, making values, schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Size
from typing_extensions import Self

from tensorclass.contracts.checking import Checks, ItemRank, inferred_size, problems_below
from tensorclass.contracts.contract_error import ContractError
from tensorclass.contracts.validation_mode import validation
from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .factories import Drawn, Empty, SizeLike, make, ones, zeros
from .fields import FieldSpec
from .name_errors import no_field
from .schema import json_schema, schema

if TYPE_CHECKING:
    from tensorclass.td.collection import Value


class Contracted(TensorCollection):
    """A collection whose keys are fields that can have contracts."""

    __slots__ = ()

    # without annotations, which typing.get_type_hints would find
    _spec_class = FieldSpec  # the class of the analysed annotation of a field
    _specs = cast("dict[str, FieldSpec]", {})
    _item_ranks = cast("dict[str, ItemRank]", {})  # dimensions of one item, by field: see item_ranks()
    _checks = cast("Checks | None", None)  # None if the class has no contracts

    def _spec(self, key: str) -> FieldSpec:
        try:
            return self._specs[key]
        except KeyError:
            raise no_field(self, key) from None

    # -- checking ------------------------------------------------------------------------------------------------------

    def _check_entering(self, entries: Mapping[str, Value]) -> None:
        if self._checks is not None:
            self._checks.check_entries(self, entries)

    def _check_changed(self, before: Mapping[str, Value]) -> None:
        if self._checks is not None:
            changed = {key: value for key, value in self._now().items() if before.get(key) is not value}
            if changed:
                self._checks.check_entries(self, changed)

    def _check_behind(self, size: Size) -> None:
        super()._check_behind(size)
        if self._checks is not None:
            self._checks.check_entries(self, self._store, size)

    def _find_batch_size(self, batch_dims: int | None, keep_compliant_size: bool) -> None:
        size = inferred_size(self._item_ranks, self._store) if self._item_ranks else None
        if size is None:
            super()._find_batch_size(batch_dims, keep_compliant_size)
        else:
            self._set_batch_size(size[:batch_dims])

    @classmethod
    def unchecked(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a record without checking the contracts of its fields.

        Everything else that the constructor checks is still checked, such as the batch size and the types of values.

        Args:
            args: values of fields, in the order of their declaration.
            kwargs: values of fields by name, and ``batch_size``, ``device`` and ``names``.

        Returns:
            A record. Its tensors share memory with the values.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import Shape, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Shape("3 h w")]
            >>> Image.unchecked(torch.zeros(4, 1, 8, 8), batch_size=[4]).pixels.shape
            torch.Size([4, 1, 8, 8])
        """
        dense: type[Self] = getattr(cls, "_dense", cls)
        with validation(False):
            return dense(*args, **kwargs)

    def validate(self) -> Self:
        """Check the contracts of all fields, including nested records, even if checks are switched off.

        Returns:
            The record itself.

        Raises:
            ContractError: values break the contracts of their fields. The error lists all of them.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import Range, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Range(0, 1)]
            >>> image = Image(torch.ones(4), batch_size=[4])
            >>> image.pixels.mul_(2)
            tensor([2., 2., 2., 2.])
            >>> image.validate()
            Traceback (most recent call last):
            ContractError: Image.pixels: expected ...
        """
        found = problems_below(self)
        if found:
            raise ContractError(type_name(self), found)
        return self

    # -- made of contracts --------------------------------------------------------------------------------------------

    @classmethod
    def zeros(
        cls,
        batch_size: Sequence[int] | int = (),
        *,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        sizes: Mapping[str, SizeLike] | None = None,
        **named: SizeLike,
    ) -> Self:
        """Make a record of zeros: each tensor has the shape and dtype of its field's contract.

        A tensor has torch's default dtype if the contract allows it, otherwise another one that the contract allows
        (``int64``, ``bool``, a complex one, ...). A field whose contract names no shape has one number per item. A
        dimension of any size has size 1, and ``...`` adds no dimensions. Fields with a default get the default, and
        other optional fields are ``None``.

        The rows of a ``Ragged`` have the length given for its name: a number, or a sequence with one for each row. They
        have one item where the length can be anything. A ``Text`` has empty strings, and a ``Column`` of a builtin type
        its empty objects (0, ``""``, ``[]``).

        Args:
            batch_size: the batch size; none by default.
            device: the device of the record and of its tensors. By default each tensor is on the device of its
                contract, or on torch's default device.
            names: a name or ``None`` for each batch dimension.
            sizes: sizes of dimensions that contracts name, for names that cannot be keywords.
            named: sizes by keyword: a number, or a sequence for a ``*name``. They hold for nested records too. A
                mapping under the name of a nested record gives sizes for that record alone:
                ``Pair.zeros(8, h=32, left={"h": 16})``.

        Returns:
            A record with new tensors.

        Raises:
            TypeError: the size of a dimension is missing, or a given size has no dimension; or a field has neither a
                contract nor a default that says what to put into it.
            ContractError: 0 is not in the range of a field.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import DType, Shape, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Shape("3 h w")]
            ...     label: Annotated[torch.Tensor, Shape(""), DType("int")]
            >>> image = Image.zeros([8], h=32, w=16)
            >>> image.pixels.shape, image.label.dtype
            (torch.Size([8, 3, 32, 16]), torch.int64)
        """
        return make(cls, "zeros", zeros, batch_size, device, names, sizes, named)

    @classmethod
    def ones(
        cls,
        batch_size: Sequence[int] | int = (),
        *,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        sizes: Mapping[str, SizeLike] | None = None,
        **named: SizeLike,
    ) -> Self:
        """Make a record of ones: each tensor has the shape and dtype of its field's contract.

        Dtypes, defaults and sizes follow the rules of :meth:`zeros`.

        Args:
            batch_size: the batch size; none by default.
            device: the device of the record and of its tensors. By default each tensor is on the device of its
                contract, or on torch's default device.
            names: a name or ``None`` for each batch dimension.
            sizes: sizes of dimensions that contracts name, for names that cannot be keywords.
            named: sizes by keyword: a number, or a sequence for a ``*name``. A mapping under the name of a nested
                record gives sizes for that record alone.

        Returns:
            A record with new tensors.

        Raises:
            TypeError: the size of a dimension is missing, or a given size has no dimension; or a field has neither a
                contract nor a default that says what to put into it.
            ContractError: 1 is not in the range of a field.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import DType, Shape, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Shape("h w"), DType("int32")]
            >>> Image.ones([2], h=1, w=3).pixels
            tensor([[[1, 1, 1]],
                    [[1, 1, 1]]], dtype=torch.int32)
        """
        return make(cls, "ones", ones, batch_size, device, names, sizes, named)

    @classmethod
    def random(
        cls,
        batch_size: Sequence[int] | int = (),
        *,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
        generator: torch.Generator | None = None,
        seed: int | None = None,
        sizes: Mapping[str, SizeLike] | None = None,
        **named: SizeLike,
    ) -> Self:
        """Make a record of random values that keep the contracts. Shapes and dtypes follow the rules of :meth:`zeros`.

        Floating-point numbers are uniform between the bounds of their range. With one bound, their distance from it is
        the absolute value of a normal number; without bounds they are normal, as complex numbers are. Integers are
        uniform between their bounds. With one bound, they are among the hundred next to it; without bounds, from 0 to
        99.

        Lengths of ragged rows that are not given are drawn for each row, from 1 to 8. Strings have 1 to 8 letters.
        Objects of a ``Column`` are drawn if its type is made of builtin types, enums, ``Literal`` and unions.

        Args:
            batch_size: the batch size; none by default.
            device: the device of the record and of its tensors, as for :meth:`zeros`.
            names: a name or ``None`` for each batch dimension.
            generator: draws the values, on their device; by default torch's own generator.
            seed: the seed of a new generator, instead of ``generator``.
            sizes: sizes of dimensions that contracts name, as for :meth:`zeros`.
            named: sizes by keyword, as for :meth:`zeros`.

        Returns:
            A record with new tensors.

        Raises:
            TypeError: as for :meth:`zeros`; or both ``generator`` and ``seed`` are given.
            ValueError: the dtype of a field has no value in its range.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import Range, Shape, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Shape("3 h w"), Range(0, 1)]
            >>> Image.random(2, h=4, w=4, seed=0).pixels.amax() <= 1
            tensor(True)
        """
        return make(cls, "random", Drawn(generator, seed), batch_size, device, names, sizes, named)

    if TYPE_CHECKING:
        empty: ClassVar[Empty]  # pyright: ignore[reportIncompatibleMethodOverride]
    else:
        empty = Empty()  # Sample.empty(batch_size) makes a record, record.empty() is one without its values

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return the declarations of the class as plain data that JSON can hold. Equal classes give equal data.

        Returns:
            A dict with ``version`` (of this format), ``name`` and ``module`` of the class, and ``fields`` in their
            order. If there are nested records, ``records`` has ``name``, ``module`` and ``fields`` of their classes,
            under the names that the ``record`` of a field refers to.

            A field has its ``kind`` (``"tensor"``, ``"record"``, ``"collection"``, ``"object"``, ``"any"``) and whether
            it is ``optional`` (can be ``None``). If they apply, it also has: ``record``; ``types`` and ``values``, the
            classes or the only objects that it takes; ``contract``; ``default``, or ``default_repr`` if JSON cannot
            hold the default, or the name of its ``default_factory``; ``stored_name``, the name in files and tables, if
            that is another one; and ``init`` and ``kw_only`` if they differ from dataclass defaults.

            A contract has the arguments of its markers: ``shape``, ``dtype`` (a list), ``low`` and ``high``,
            ``device``. A union has ``or``, a list of contracts.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import DType, Shape, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Shape("3 h w"), DType("float")]
            ...     source: str = ""
            >>> schema = Image.schema()
            >>> schema["version"], schema["name"], [*schema["fields"]]
            (1, 'Image', ['pixels', 'source'])
            >>> schema["fields"]["pixels"]
            {'kind': 'tensor', 'optional': False, 'contract': {'shape': '3 h w', 'dtype': ['float']}}
            >>> schema["fields"]["source"]
            {'kind': 'object', 'optional': False, 'types': ['str'], 'default': ''}
        """
        return schema(cls)

    @classmethod
    def json_schema(cls, batch_dims: int = 0, *, stored_names: bool = False) -> dict[str, Any]:
        """Return a JSON Schema (draft 2020-12) of the nested lists that ``to_dict(convert_tensors=True)`` returns.

        Rows of ``tolist(convert_tensors=True)`` fit the schema without batch dimensions. The schema is weaker than the
        contracts: dimensions of one name may differ; complex numbers, and objects of classes that JSON does not have,
        may be anything; a tensor of any dtype holds numbers or booleans.

        Args:
            batch_dims: the number of batch dimensions: of lists around those of an item. Default: 0.
            stored_names: describe rows of JSON files, where a field can have another name (``field(name=...)``).
                Default: ``False``.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import DType, Range, Shape, TensorClass
            >>> class Point(TensorClass):
            ...     place: Annotated[torch.Tensor, Shape("3"), DType("float"), Range(low=0)]
            >>> Point.json_schema()["properties"]["place"]
            {'type': 'array', 'items': {'type': 'number', 'minimum': 0}, 'minItems': 3, 'maxItems': 3}
        """
        return json_schema(cls, batch_dims, stored_names=stored_names)
