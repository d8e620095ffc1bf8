"""Writing a collection to files and reading it again; tests/parity/test_files.py has files of one for the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from tests.parity.drawn import case

FLAGS = st.booleans()


def _with_a_path(function: Callable[..., Any]) -> Callable[..., Any]:
    """A call that gets a path which nothing is at; what is there goes when it is done."""

    def call(data: Any, library: Any, *args: Any, **options: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return function(data, library, Path(folder, "saved"), *args, **options)

    return call


def written(name: str) -> Callable[..., Any]:
    return _with_a_path(lambda data, library, path, **options: getattr(data, name)(path, **options))


def _values(data: Any) -> Any:
    """Nested dicts of what a collection, or a dict, holds; fields of records that are ``None`` are no values."""
    found = data if isinstance(data, dict) else data.to_dict()
    return {
        key: _values(value) if isinstance(value, dict) else value for key, value in found.items() if value is not None
    }


def _plain(data: Any, library: Any) -> Any:
    """A collection, not lazy and no record, with at least one tensor."""
    plain = library.TensorDict(_values(data), data.batch_size)
    plain["own"] = torch.zeros(data.batch_size)
    return plain


@_with_a_path
def loaded(data: Any, library: Any, path: Path, name: str, **options: Any) -> Any:
    data.memmap(path)
    return getattr(type(data), name)(path, **options)


@_with_a_path
def loaded_by_a_function(data: Any, library: Any, path: Path, name: str) -> Any:
    getattr(library, "memmap" if name == "load_memmap" else "save")(data, path)
    return _values(getattr(library, name)(path))


def written_by_a_function(name: str) -> Callable[..., Any]:
    return _with_a_path(lambda data, library, path, **options: getattr(library, name)(data, path, **options))


@_with_a_path
def loaded_in_place(data: Any, library: Any, path: Path, name: str) -> Any:
    data.memmap(path)
    return getattr(data.clone().zero_(), name)(path).clone()


@_with_a_path
def refreshed(data: Any, library: Any, path: Path) -> Any:
    return _plain(data, library).memmap(path).memmap_refresh_()


@_with_a_path
def with_a_path(data: Any, library: Any, path: Path) -> bool:
    held: Path = _plain(data, library).memmap(path).saved_path
    return held == path


@_with_a_path
def mapped(data: Any, library: Any, path: Path, locked: bool) -> Any:
    made = _plain(data, library).memmap(path)
    return (made if locked else made.unlock_()).is_memmap(), data.is_memmap()


def _made(data: Any, library: Any, path: Path, make: Callable[[Any], Any]) -> Any:
    held = _plain(data, library).memmap(path)
    make(held).fill_(1)
    return held


@_with_a_path
def made(data: Any, library: Any, path: Path, key: Any, rest: list[int], dtype: torch.dtype) -> Any:
    return _made(data, library, path, lambda held: held.make_memmap(key, [*data.shape, *rest], dtype=dtype))


@_with_a_path
def made_of_a_tensor(data: Any, library: Any, path: Path, key: Any, rest: list[int], copy: bool) -> Any:
    tensor = torch.zeros(*data.shape, *rest)
    return _made(data, library, path, lambda held: held.make_memmap_from_tensor(key, tensor, copy_data=copy))


@_with_a_path
def packed(data: Any, library: Any, path: Path, file: bool) -> Any:
    made = data.consolidate(path) if file else data.consolidate()
    return made.is_locked, _values(made)


@_with_a_path
def unpacked(data: Any, library: Any, path: Path) -> Any:
    data.consolidate(path)
    return _values(library.TensorDict.from_consolidated(path))


@_with_a_path
def unpacked_by_a_function(data: Any, library: Any, path: Path) -> Any:
    data.consolidate(path)
    return _values(library.from_consolidated(path))


@_with_a_path
def appended(data: Any, library: Any, path: Path) -> Any:
    data.memmap(path)
    library.append_memmap(path, data.clone())
    return _values(library.TensorDict.load_memmap(path))


@_with_a_path
def archived(data: Any, library: Any, path: Path, compression: str | None) -> Any:
    data.memmap(path)
    library.pack_memmap(path, path.with_name("f.tdz"), compression=compression)
    return _values(library.load_memmap(path.with_name("f.tdz"))), library.is_memmap_archive(path)


@_with_a_path
def unarchived(data: Any, library: Any, path: Path) -> Any:
    data.save(path, archive=True)
    library.unpack_memmap(path, path.with_name("folder"))
    return _values(library.load_memmap(path.with_name("folder"))), library.is_memmap_archive(path)


@_with_a_path
def asked(data: Any, library: Any, path: Path, archive: bool) -> Any:
    data.save(path, archive=archive)
    return library.is_memmap_archive(path)


@_with_a_path
def checked(data: Any, library: Any, path: Path) -> Any:
    data.save(path, archive=True)
    return library.refresh_archive_checksums(path) == path


new_keys = st.sampled_from(("new", ("new", "below")))
rests = st.lists(st.integers(1, 3), max_size=2)

FILES = {
    "memmap": case(call=written("memmap"), num_threads=st.integers(0, 2), objects=False),
    "memmap_": case(call=written("memmap_"), objects=False),
    "memmap_like": case(call=written("memmap_like"), objects=False),
    "save": case(call=written("save"), archive=st.sampled_from((None, True, False)), objects=False),
    "dumps": case(call=written("dumps"), objects=False),
    "load_memmap": case("load_memmap", call=loaded, objects=False),
    "load_memmap: meta": case("load_memmap", call=loaded, device="meta", objects=False),
    "load": case("load", call=loaded, objects=False),
    "load_memmap_": case("load_memmap_", call=loaded_in_place, objects=False),
    "load_": case("load_", call=loaded_in_place, objects=False),
    "memmap_refresh_": case(call=refreshed, objects=False),
    "saved_path": case(call=with_a_path, objects=False),
    "is_memmap": case(FLAGS, call=mapped, objects=False),
    "make_memmap": case(new_keys, rests, st.sampled_from((torch.float32, torch.int64)), call=made, objects=False),
    "make_memmap_from_tensor": case(new_keys, rests, FLAGS, call=made_of_a_tensor, objects=False),
    "consolidate": case(FLAGS, call=packed, objects=False),
    "from_consolidated": case(call=unpacked, objects=False),
    "memmap()": case(call=written_by_a_function("memmap"), objects=False),
    "save()": case(call=written_by_a_function("save"), objects=False),
    "load_memmap()": case("load_memmap", call=loaded_by_a_function, objects=False),
    "load()": case("load", call=loaded_by_a_function, objects=False),
    "from_consolidated()": case(call=unpacked_by_a_function, objects=False),
    "append_memmap()": case(call=appended, objects=False),
    "pack_memmap()": case(st.sampled_from((None, "deflated")), call=archived, objects=False),
    "unpack_memmap()": case(call=unarchived, objects=False),
    "is_memmap_archive()": case(FLAGS, call=asked, objects=False),
    "refresh_archive_checksums()": case(call=checked, objects=False),
}
