"""Typed records of tensors for PyTorch.

@tensorclass
class Sample:
    image: Tensor
    label: Tensor

batch = Sample(image=torch.zeros(32, 3, 8, 8), label=torch.zeros(32), batch_size=[32])
batch[:8].to("cuda").reshape(2, 4)
"""

import gc
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

# A collection of garbage during the import would walk all objects of torch: longer than the import itself.
_collects_garbage = gc.isenabled()
gc.disable()
try:
    from .contracts import ContractError, Device, DType, Range, Shape, validation
    from .convert.conversion_errors import ConversionError
    from .convert.python.record_functions import record_from_attrs as from_attrs
    from .convert.python.record_functions import record_from_dataclass as from_dataclass
    from .convert.python.record_functions import record_from_pydantic as from_pydantic
    from .data.buckets import BucketBatchSampler
    from .data.loader import DataLoader, RecordDataset, RecordStream
    from .functions import *
    from .pipelines.stage import Pipeline, Stage
    from .records.decorator import tensorclass
    from .records.field_specifier import field
    from .records.record import TensorClass
    from .records.tensor_attributes import TensorAttrs
    from .records.typed import TypedTensorDict
    from .support.moved_modules import install as _find_moved_modules
    from .support.version import VERSION
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
    from .td.columns.column import Column
    from .td.columns.padded_rows import Padded
    from .td.columns.ragged import Ragged
    from .td.columns.text import Text, UniqueText
    from .td.native import settle as _settle
    from .td.value_checks import BatchMismatch

    _settle()
finally:
    if _collects_garbage:
        gc.enable()

if TYPE_CHECKING:
    from . import nn as nn
    from . import utils as utils
    from .storage.hdf5_zarr.persistent_tensordict import PersistentTensorDict
    from .storage.key_value.tensordict_store import TensorDictStore
else:

    def __getattr__(name):
        """Import on first access what many programs do not need: files of arrays, modules, helpers."""
        if name in ("nn", "utils"):
            return _import_module(f"{__name__}.{name}")
        if name not in ("PersistentTensorDict", "TensorDictStore"):
            is_package = name in ("compat", "migrate", "scores", "testing")
            hint = f"; import it first: import {__name__}.{name}" if is_package else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        from .storage.hdf5_zarr.persistent_tensordict import PersistentTensorDict
        from .storage.key_value.tensordict_store import TensorDictStore

        found = PersistentTensorDict if name == "PersistentTensorDict" else TensorDictStore
        globals()[name] = found
        return found


_find_moved_modules()

for _error in (BatchMismatch, ContractError, ConversionError):
    _error.__module__ = __name__  # the name in tracebacks

#: the name of the base of all collections in other libraries
TensorDictBase = TensorCollection

__version__ = VERSION

__all__ = [
    "KEY_SEPARATOR",
    "BatchMismatch",
    "BucketBatchSampler",
    "Column",
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
    "Padded",
    "PersistentTensorDict",
    "Pipeline",
    "Ragged",
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
    "TensorDictStore",
    "Text",
    "TypedTensorDict",
    "UnbatchedTensor",
    "UniqueText",
    "append_memmap",
    "assert_allclose_td",
    "assert_close",
    "capture_non_tensor_stack",
    "cat",
    "collate",
    "default_is_leaf",
    "dense_stack_tds",
    "dumps",
    "field",
    "from_any",
    "from_arrow",
    "from_attrs",
    "from_consolidated",
    "from_csv",
    "from_dataclass",
    "from_dict",
    "from_feather",
    "from_h5",
    "from_huggingface",
    "from_json",
    "from_list",
    "from_module",
    "from_modules",
    "from_namedtuple",
    "from_pandas",
    "from_parquet",
    "from_polars",
    "from_pydantic",
    "from_pytorch_tensordict",
    "from_pytree",
    "from_ray_dataset",
    "from_safetensors",
    "from_struct_array",
    "from_tuple",
    "from_zarr",
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
    "iter_csv",
    "iter_feather",
    "iter_huggingface",
    "iter_json",
    "iter_parquet",
    "iter_ray_dataset",
    "lazy_legacy",
    "lazy_stack",
    "list_to_stack",
    "load",
    "load_memmap",
    "load_safetensors",
    "make_tensordict",
    "maybe_dense_stack",
    "memmap",
    "memmap_",
    "memmap_like",
    "merge_tensordicts",
    "pack_memmap",
    "pad",
    "pad_sequence",
    "parse_tensor_dict_string",
    "refresh_archive_checksums",
    "save",
    "save_safetensors",
    "set_capture_non_tensor_stack",
    "set_get_defaults_to_none",
    "set_lazy_legacy",
    "set_list_to_stack",
    "set_printoptions",
    "stack",
    "tensorclass",
    "to_arrow",
    "to_attrs",
    "to_csv",
    "to_dataclass",
    "to_dict",
    "to_feather",
    "to_h5",
    "to_huggingface",
    "to_json",
    "to_namedtuple",
    "to_pandas",
    "to_parquet",
    "to_polars",
    "to_pydantic",
    "to_pytorch_tensordict",
    "to_pytree",
    "to_ray_dataset",
    "to_safetensors",
    "to_struct_array",
    "to_tuple",
    "to_zarr",
    "unpack_memmap",
    "unpad_sequence",
    "unravel_key",
    "unravel_key_list",
    "unravel_key_to_tuple",
    "validation",
    "where",
]


def is_tensor_collection(datatype: object) -> bool:
    """Return whether an object, or a class, is a collection.

    Args:
        datatype: the object or class.

    Example:
        >>> from tensorclass import TensorDict, is_tensor_collection
        >>> is_tensor_collection(TensorDict({})), is_tensor_collection(TensorDict), is_tensor_collection({})
        (True, True, False)
    """
    return issubclass(datatype if isinstance(datatype, type) else type(datatype), TensorCollection)


def is_tensorclass(obj: object) -> bool:
    """Return whether an object, or a class, is a record.

    Args:
        obj: the object or class.

    Example:
        >>> from tensorclass import TensorClass, TensorDict, is_tensorclass
        >>> is_tensorclass(TensorClass), is_tensorclass(TensorDict({}))
        (True, False)
    """
    return issubclass(obj if isinstance(obj, type) else type(obj), TensorClass)
