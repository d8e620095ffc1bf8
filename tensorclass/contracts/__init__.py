"""Contracts: what the annotation of a field says about the tensor in it, and how that is checked.

The contract of a field is ``FieldSpec.contract`` (``Sample._specs["image"].contract``), a :class:`Contract` or
``None``. What is made from contracts, such as values that keep them, needs its attributes alone: ``dims`` (each a
:class:`~tensorclass.contracts.dims.Dim`), ``rank``, ``names``, ``item_shape(sizes)``, ``dtypes``, ``low``, ``high``,
``device``, ``others``.
"""

from .contract import Contract
from .dims import Dim
from .errors import Broken, ContractError
from .markers import Device, DType, Marker, Range, Shape
from .switch import validation

__all__ = ["Broken", "Contract", "ContractError", "DType", "Device", "Dim", "Marker", "Range", "Shape", "validation"]
