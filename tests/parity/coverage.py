"""The public names of the peer, and why some of them have no parity case."""

from __future__ import annotations

import re
from pathlib import Path

import tensordict
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, TensorDictBase

LIST = Path(__file__).resolve().parents[3] / "shared" / "api" / "tensordict-0.15.3.txt"

#: sections of the list, and what is introspected where the list is not at hand
SECTIONS = {
    "TensorDictBase": TensorDictBase,
    "TensorDict": TensorDict,
    "LazyStackedTensorDict": LazyStackedTensorDict,
    "NonTensorData": NonTensorData,
    "NonTensorStack": NonTensorStack,
}

#: implementation, and what every Python object has
_NO_OPERATIONS = {
    "__abstractmethods__", "__annotations__", "__class_getitem__", "__slots__", "__weakref__",
}  # fmt: skip

#: subjects that come later
LATER: dict[str, str] = {}

#: names that have no case on purpose -> the reason
LEFT_OUT = {
    "from_module from_modules to_module from_module() from_modules()": "take modules; test_nn_params.py compares them",
    "Buffer()": "torch.nn.Buffer itself",
    "arecv asend to_mds": "left out by the issue",
    "to_store": "needs a server: tests/storage/key_value/test_tensordict_store.py",
    "send recv isend irecv init_remote from_remote_init": "need several processes: tests/parity/test_distributed.py",
    "all_gather all_reduce broadcast gather_and_stack reduce scatter": "as well: tests/parity/test_collectives.py",
    "from_csv to_csv from_json to_json from_parquet to_parquet from_pandas to_pandas from_csv() from_json()"
    " from_parquet() from_pandas() from_arrow() to_arrow()": "tables, in tests/parity/test_converters.py",
    "from_h5 to_h5 from_zarr to_zarr from_h5() from_zarr()": "differ in metadata; tests/parity/test_files.py has them",
    "from_safetensors() to_safetensors()": "tests/parity/test_safetensors.py and test_files.py have them",
    "is_consolidated make_memmap_from_storage": "tests/parity/test_differences.py and test_files.py have them",
    "map map_iter": "run in other processes; tests/parity/test_map.py has them",
    "print_directory_tree()": "prints files",
    "cuda pin_memory pin_memory_ record_stream": "need a GPU; tests/td/test_devices.py has them",
    "backward": "changes tensors that are not the collection's; tests/td/test_devices.py has it",
    "qint32 qint8 quint4x2 quint8": "torch makes no quantised tensors this way: `.to(torch.qint8)` is an error there",
    "clear_refs_for_compile_": "nothing to compare: what it drops belongs to the peer's lock graph",
    "__setstate__": "called by pickle",
    "KEY_SEPARATOR() __version__()": "are no functions",
    "tensorclass()": "makes classes; records are compared as a form of all operations",
    "implement_for() timeit() logger()": "tools of the peer's own development",
}


def public_names() -> list[str]:
    """The public methods and functions (with ``()``) of the peer, from the list where it is at hand."""
    return _listed(LIST.read_text()) if LIST.is_file() else _introspected()


def _listed(text: str) -> list[str]:
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            sections[line[3:].split("  (")[0]] = current = []
        elif special := re.match(r"  special methods: (.*)", line):
            current += special[1].split()
        elif (entry := re.match(r"  (?:class )?(\w+)", line)) and not line.startswith("  constructor"):
            current.append(entry[1])
    methods = [name for section in SECTIONS for name in sections[section]]
    functions = sections["functions of the package"] + sections["utils (functions users call)"]
    return _without_internals([*methods, *(f"{name}()" for name in functions)])


def _introspected() -> list[str]:
    methods = [name for cls in SECTIONS.values() for name in dir(cls) if not name.startswith("_")]
    functions = [f"{name}()" for name in tensordict.__all__ if not isinstance(getattr(tensordict, name), type)]
    return _without_internals([*methods, *functions])


def _without_internals(names: list[str]) -> list[str]:
    return sorted(set(names) - _NO_OPERATIONS)


def excused() -> set[str]:
    """The names without a case, for a reason."""
    return {name for table in (LATER.values(), LEFT_OUT) for names in table for name in names.split()}
