"""Names of modules before they were moved: pickles and programs of version 0.1.0 name them.

An import of such a name gives the module under its present name. The finder comes last, so that it is only asked for
imports that would fail.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_PACKAGE = "tensorclass."

#: below ``tensorclass``: the modules that pickles name, or that users import
MOVED: Final[dict[str, str]] = {
    "atomic": "support.atomic",
    "attributes": "records.tensor_attributes",
    "contracts.errors": "contracts.contract_error",
    "contracts.switch": "contracts.validation_mode",
    "convert.dataclass": "convert.python.dataclass",
    "convert.namedtuple": "convert.python.namedtuple",
    "convert.node": "convert.python.pytree_node",
    "convert.problems": "convert.conversion_errors",
    "convert.pytree": "convert.python.pytree_converter",
    "convert.record_class": "convert.python.record_class",
    "convert.streams": "convert.tables.row_batches",
    "decorator": "records.decorator",
    "distributed.executors": "distributed.map.executors",
    "distributed.faults": "distributed.worker_errors",
    "distributed.reducing": "distributed.collectives.reduce_ranks",
    "distributed.sharing": "distributed.shared_pickle",
    "fields": "records.fields",
    "loading": "data.loader",
    "log": "support.log",
    "nn.base": "nn.module_base",
    "nn.records": "nn.record_module",
    "progress": "support.progress",
    "record": "records.record",
    "scores.record": "scores.score_data",
    "stage": "pipelines.stage",
    "storage.persistent": "storage.hdf5_zarr.persistent_tensordict",
    "storage.tree": "storage.common.collection_tree",
    "td.buffers": "td.pickle_buffers",
    "td.combining": "td.stack_and_cat",
    "td.consolidated": "td.memory.consolidated_buffer",
    "td.crossing": "td.multiprocessing_reducers",
    "td.linked": "td.leaves.linked_list",
    "td.loading": "td.dataset",
    "td.memmap": "td.memory.mapped_tensor",
    "td.modules": "td.module_parameters",
    "td.nontensor": "td.leaves.nontensor",
    "td.nontensor_base": "td.leaves.nontensor_base",
    "td.objects": "td.leaves.object_codes",
    "td.packed": "td.leaves.packed_tensor",
    "td.reading": "td.get",
    "td.shared_memory": "td.memory.shared_memory",
    "td.state": "td.state_dict",
    "td.stores.lazy.stack": "td.stores.lazy.lazy_stack",
    "td.stores.sub": "td.stores.sub_tensordict",
    "td.unbatched": "td.leaves.unbatched_tensor",
    "td.unpickling": "td.safe_unpickling",
    "td.values": "td.value_checks",
    "timing": "support.timing",
    "typed": "records.typed",
}


class _Moved(MetaPathFinder, Loader):
    """Finds modules under their former names, after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        is_moved = fullname.startswith(_PACKAGE) and fullname.removeprefix(_PACKAGE) in MOVED
        return ModuleSpec(fullname, self) if is_moved else None

    def exec_module(self, module: ModuleType) -> None:
        former = module.__name__
        sys.modules[former] = import_module(_PACKAGE + MOVED[former.removeprefix(_PACKAGE)])


def install() -> None:
    """Let imports find modules under their former names."""
    sys.meta_path.append(_Moved())


def former_names(module: str) -> list[str]:
    """Return the names that a module had before.

    Args:
        module: its full name.

    Example:
        >>> former_names("tensorclass.support.progress")
        ['tensorclass.progress']
    """
    if not module.startswith(_PACKAGE):
        return []
    name = module.removeprefix(_PACKAGE)
    return [_PACKAGE + former for former, present in MOVED.items() if present == name]
