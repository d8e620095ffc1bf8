"""Contracts: requirements that the annotation of a field makes on its tensor, and their checks.

The contract of a field is ``FieldSpec.contract`` (``Sample._specs["image"].contract``), a :class:`Contract` or
``None``. Code that builds on contracts, such as the generators of values, needs only its attributes: ``dims`` (each a
:class:`~tensorclass.contracts.dims.Dim`), ``rank``, ``names``, ``item_shape(sizes)``, ``dtypes``, ``low``, ``high``,
``device``, ``others``.
"""

from .contract import Contract
from .contract_error import Broken, ContractError
from .dims import Dim
from .markers import Device, DType, Marker, Range, Shape
from .validation_mode import validation

__all__ = ["Broken", "Contract", "ContractError", "DType", "Device", "Dim", "Marker", "Range", "Shape", "validation"]
