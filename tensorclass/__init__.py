"""Typed records of tensors for PyTorch.

@tensorclass
class Sample:
    image: Tensor
    label: Tensor

batch = Sample(image=torch.zeros(32, 3, 8, 8), label=torch.zeros(32), batch_size=[32])
batch[:8].to("cuda").reshape(2, 4)
"""

from dataclasses import field

from . import persistent as _persistent
from .archives import is_memmap_archive, pack_memmap, refresh_archive_checksums, unpack_memmap
from .attributes import TensorAttrs
from .contracts import ContractError, Device, DType, Range, Shape, validation
from .convert import functions as _functions
from .convert.attrs import record_class as from_attrs
from .convert.dataclass import record_class as from_dataclass
from .convert.functions import *  # noqa: F403
from .convert.problems import ConversionError
from .convert.pydantic import record_class as from_pydantic
from .decorator import tensorclass
from .folders import append_memmap
from .loading import DataLoader, RecordDataset, RecordStream
from .persistent import *  # noqa: F403
from .record import TensorClass
from .stage import Pipeline, Stage
from .td import (
    KEY_SEPARATOR,
    LazyStackedTensorDict,
    LinkedList,
    MemmapTensor,
    MemoryMappedTensor,
    MetaData,
    NestedKey,
    NonTensorData,
    NonTensorDataBase,
    NonTensorStack,
    PackLayout,
    SubTensorDict,
    TensorCollection,
    TensorDict,
    UnbatchedTensor,
    assert_allclose_td,
    assert_close,
    capture_non_tensor_stack,
    cat,
    collate,
    default_is_leaf,
    dense_stack_tds,
    fromkeys,
    get_defaults_to_none,
    get_printoptions,
    group_by,
    is_bool,
    is_floating,
    is_inexact,
    is_integer,
    is_leaf_nontensor,
    is_non_tensor,
    lazy_legacy,
    lazy_stack,
    list_to_stack,
    make_tensordict,
    maybe_dense_stack,
    merge_tensordicts,
    pad,
    pad_sequence,
    parse_tensor_dict_string,
    set_capture_non_tensor_stack,
    set_get_defaults_to_none,
    set_lazy_legacy,
    set_list_to_stack,
    set_printoptions,
    stack,
    unpad_sequence,
    unravel_key,
    unravel_key_list,
    unravel_key_to_tuple,
    where,
)
from .td.values import BatchMismatch
from .typed import TypedTensorDict

for _error in (BatchMismatch, ContractError, ConversionError):
    _error.__module__ = __name__  # how a traceback names them

#: the name of the base of all collections in other libraries
TensorDictBase = TensorCollection

__version__ = "0.1.0"

__all__ = [
    "KEY_SEPARATOR",
    "BatchMismatch",
    "ContractError",
    "ConversionError",
    "DType",
    "DataLoader",
    "Device",
    "LazyStackedTensorDict",
    "LinkedList",
    "MemmapTensor",
    "MemoryMappedTensor",
    "MetaData",
    "NestedKey",
    "NonTensorData",
    "NonTensorDataBase",
    "NonTensorStack",
    "PackLayout",
    "Pipeline",
    "Range",
    "RecordDataset",
    "RecordStream",
    "Shape",
    "Stage",
    "SubTensorDict",
    "TensorAttrs",
    "TensorClass",
    "TensorCollection",
    "TensorDict",
    "TensorDictBase",
    "TypedTensorDict",
    "UnbatchedTensor",
    "append_memmap",
    "assert_allclose_td",
    "assert_close",
    "capture_non_tensor_stack",
    "cat",
    "collate",
    "default_is_leaf",
    "dense_stack_tds",
    "field",
    "from_attrs",
    "from_dataclass",
    "from_pydantic",
    "fromkeys",
    "get_defaults_to_none",
    "get_printoptions",
    "group_by",
    "is_bool",
    "is_floating",
    "is_inexact",
    "is_integer",
    "is_leaf_nontensor",
    "is_memmap_archive",
    "is_non_tensor",
    "is_tensor_collection",
    "is_tensorclass",
    "lazy_legacy",
    "lazy_stack",
    "list_to_stack",
    "make_tensordict",
    "maybe_dense_stack",
    "merge_tensordicts",
    "pack_memmap",
    "pad",
    "pad_sequence",
    "parse_tensor_dict_string",
    "refresh_archive_checksums",
    "set_capture_non_tensor_stack",
    "set_get_defaults_to_none",
    "set_lazy_legacy",
    "set_list_to_stack",
    "set_printoptions",
    "stack",
    "tensorclass",
    "unpack_memmap",
    "unpad_sequence",
    "unravel_key",
    "unravel_key_list",
    "unravel_key_to_tuple",
    "validation",
    "where",
]
__all__ += _functions.__all__
__all__ += _persistent.__all__


def is_tensor_collection(datatype: object) -> bool:
    """Whether an object, or a class, is a collection.

    >>> is_tensor_collection(TensorDict({})), is_tensor_collection(TensorDict), is_tensor_collection({})
    (True, True, False)
    """
    return issubclass(datatype if isinstance(datatype, type) else type(datatype), TensorCollection)


def is_tensorclass(obj: object) -> bool:
    """Whether an object, or a class, is a record.

    >>> is_tensorclass(TensorClass), is_tensorclass(TensorDict({}))
    (True, False)
    """
    return issubclass(obj if isinstance(obj, type) else type(obj), TensorClass)
