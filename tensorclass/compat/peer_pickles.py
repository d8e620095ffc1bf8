"""Pickles of ``tensordict``: what they call, which builds collections of this package.

A pickle names the functions and classes of ``tensordict`` by their modules. Its states are plain data: the values under
``_tensordict``, the batch size, device and dimension names beside them. Records and non-tensor data are made without a
constructor, and take their state by ``__setstate__`` (:func:`take_state`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import torch
from torch import Size, Tensor, nn

from tensorclass.nn.module import TensorDictModule
from tensorclass.nn.module_base import TensorDictModuleBase
from tensorclass.nn.params import TensorDictParams
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.leaves.nontensor import MetaData, NonTensorData, NonTensorStack
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.stores.lazy.lazy_stack import LazyStackedTensorDict
from tensorclass.td.stores.store_classes import on_store
from tensorclass.td.stores.sub_tensordict import SubTensorDict
from tensorclass.td.tensordict import TensorDict

__all__ = [
    "CLS_MAP",
    "STATEFUL",
    "_LockedSchema",
    "_make_td",
    "_rebuild_tensordict_files_consolidated",
    "take_module_state",
    "take_state",
]

#: classes that consolidated buffers name
CLS_MAP: Final[dict[str, type]] = {
    cls.__name__: cls for cls in (TensorDict, LazyStackedTensorDict, NonTensorData, NonTensorStack, MetaData)
}


class _LockedSchema:
    """The keys of a locked collection. Pickles hold it beside the collection, which has them itself."""

    def __init__(self, *args: Any) -> None: ...


def _make_td(cls: type, state: Mapping[str, Any]) -> Any:
    """Return the collection of a state."""
    made: Any
    if "tensordicts" in state:
        made = LazyStackedTensorDict(*state["tensordicts"], stack_dim=state["stack_dim"])
        if state.get("_td_dim_name") is not None:
            made.names = [
                state["_td_dim_name"] if dim == made.stack_dim else name for dim, name in enumerate(made.names)
            ]
    elif "_tensordict" in state:
        made = TensorDict(
            state["_tensordict"], state["_batch_size"], state.get("_device"), names=state.get("_td_dim_names")
        )
    else:
        raise TypeError(
            f"a pickle of tensordict holds a {class_name(cls)} with {sorted(state)}, which cannot be read here"
        )
    return made.lock_() if state.get("_is_locked") else made


def take_state(self: Any, state: Mapping[str, Any]) -> None:
    """Take the state of a pickle: ``__setstate__`` of records, non-tensor data and parameters."""
    made: Any
    if "_param_td" in state:
        made = TensorDictParams(state["_param_td"], no_convert=state.get("no_convert", False))
        self.__dict__.update(made.__dict__)
    elif "tensordicts" in state:
        made = type(self)(*state["tensordicts"], stack_dim=state["stack_dim"])
    else:
        held = state["tensordict"]
        beside = {key: value for key, value in state["non_tensordict"].items() if value is not None}
        if holds_objects(self):
            made = cast("Any", type(self))(
                state["non_tensordict"]["data"], batch_size=held.batch_size, device=held.device
            )
            made._names = held._names
        else:
            made = cast("Any", type(self)).from_tensordict(held, beside)
    _become(self, made)


def take_rows(self: Any, state: Mapping[str, Any]) -> None:
    """Take the state of a pickle: ``__setstate__`` of rows that write through, whose source is in the pickle, too."""
    made = state["_source"].get_sub_tensordict(state["idx"])
    self.__class__ = type(made)
    _become(self, made)


def _become(new: Any, made: Any) -> None:
    """Give an object that was made without a constructor the slots of another one."""
    for cls in type(new).__mro__:
        for slot in vars(cls).get("__slots__", ()):
            if slot != "__weakref__" and hasattr(made, slot):
                object.__setattr__(new, slot, getattr(made, slot))


def new_rows(cls: type, *args: Any, **kwargs: Any) -> Any:
    """Make rows that write through; without arguments for a pickle, which hands over the state later."""
    if args or kwargs:
        return _new_rows(cls, *args, **kwargs)
    return object.__new__(on_store(SubTensorDict, TensorDict))


_new_rows: Final[Callable[..., Any]] = SubTensorDict.__new__


def take_module_state(self: Any, state: Mapping[str, Any]) -> None:
    """Take the state of a pickle: ``__setstate__`` of modules."""
    if "_out_keys_apparent" not in state:  # written by this package
        cast("Any", nn.Module).__setstate__(self, dict(state))
        return
    if type(self) is not TensorDictModule:
        raise TypeError(
            f"a pickle of tensordict holds a {type_name(self)}, which cannot be read here; make the "
            "module, and load its state_dict"
        )
    options = {name: state[name] for name in ("inplace", "method", "method_kwargs", "strict")}
    made = TensorDictModule(
        state["_modules"].get("module", state.get("module")),
        state["_in_keys"],
        state["_out_keys"],
        get_kwargs=state["_get_kwargs"],
        **options,
    )
    vars(self).update(vars(made))
    self.train(state["training"])
    if state["_out_keys_apparent"] != state["_out_keys"]:
        self.select_out_keys(*state["_out_keys_apparent"])


#: the classes whose objects a pickle makes without a constructor, and what takes the state
STATEFUL: Final[dict[type, Callable[[Any, Mapping[str, Any]], None]]] = {
    SubTensorDict: take_rows,
    TensorClass: take_state,
    NonTensorDataBase: take_state,
    TensorDictParams: take_state,
    TensorDictModuleBase: take_module_state,
}


def _rebuild_tensordict_files_consolidated(metadata: Mapping[str, Any], storage: Tensor) -> Any:
    """Return the collection of a consolidated buffer: ``metadata`` says where in its bytes each leaf is."""
    own = metadata["cls_metadata"]
    parts = {
        key: _rebuild_tensordict_files_consolidated(value, storage)
        for key, value in metadata.items()
        if key not in ("cls", "non_tensors", "leaves", "cls_metadata")
    }
    leaves = {key: _leaf(storage, *where) for key, where in metadata["leaves"].items()}
    objects = {
        key: NonTensorData(data, batch_size=size, device=device)
        for key, (data, size, device) in metadata["non_tensors"].items()
    }
    if metadata["cls"] == "LazyStackedTensorDict":
        raise TypeError("a pickle of tensordict holds a consolidated lazy stack, which cannot be read here")
    names = own["names"] if any(own["names"]) else None
    made: Any = TensorDict({**leaves, **objects, **parts}, own["batch_size"], own["device"], names=names)
    cls = CLS_MAP.get(metadata["cls"], TensorDict)
    if not issubclass(cls, Collection):
        raise TypeError(f"a pickle of tensordict holds a consolidated {metadata['cls']}, which cannot be read here")
    return made.lock_() if own["is_locked"] else made


def _leaf(storage: Tensor, dtype: str, shape: list[int], start: int, stop: int, pad: int) -> Tensor:
    """Return the tensor of some bytes of a buffer."""
    kind: torch.dtype = getattr(torch, dtype.removeprefix("torch."))
    count = Size(shape).numel()
    return storage[start : stop - pad].view(kind)[:count].view(shape)
