"""Contracts: what the annotation of a field says about the tensor in it, and how that is checked.

``FieldSpec.contract`` (of a class: ``Sample._specs["image"].contract``) is the :class:`Contract` of a field or ``None``.
What can be made from it, such as values that keep it, needs no more than its attributes: ``dims`` (each a
:class:`~tensorclass.contracts.dims.Dim`), ``rank``, ``names``, ``item_shape(sizes)``, ``dtypes``, ``low``, ``high``, ``device``,
``others``.
"""

from .contract import Contract
from .dims import Dim
from .errors import Broken, ContractError
from .markers import Device, DType, Marker, Range, Shape
from .switch import validation

__all__ = ["Broken", "Contract", "ContractError", "DType", "Device", "Dim", "Marker", "Range", "Shape", "validation"]
