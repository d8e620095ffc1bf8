"""``state_dict`` and ``load_state_dict`` of collections."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import type_name

from .collection import Collection, is_tree
from .hidden_members import with_members
from .keys import dotted, unravel_key_to_tuple
from .pickling import rebuild as rebuild  # earlier versions named it here in pickles
from .pickling import rebuild_in_buffer as rebuild_in_buffer
from .stored_names import has_stored_names, key_path, stored_name, stored_path
from .update import Updating, restore
from .value_checks import shape_of

_ordered: Callable[[], Any] = OrderedDict  # typed as Any, because it gets an attribute


class State(Updating):
    """``state_dict`` and ``load_state_dict``."""

    __slots__ = ()

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
        flatten: bool = True,
    ) -> dict[str, Any]:
        """Return the tensors as a state dict, in the form of ``nn.Module.state_dict``.

        Batch sizes and devices are in the attribute ``_metadata`` of the dict, where ``nn.Module`` has versions.

        Args:
            destination: dict to fill. Default: a new ``OrderedDict``.
            prefix: prefix of every key. Default: none.
            keep_vars: keep the history of the tensors instead of detaching them. Default: ``False``.
            flatten: join nested keys with dots; ``False`` makes nested dicts. Default: ``True``.

        Returns:
            A dict with tensors that share memory with the collection.

        Example:
            >>> from tensorclass import TensorDict
            >>> list(TensorDict({"a": 1, "b": {"c": 2}}).state_dict())
            ['a', 'b.c']
        """
        result: Any = _ordered() if destination is None else destination
        if destination is None:
            result._metadata = _ordered()
        if hasattr(result, "_metadata"):
            result._metadata[prefix[:-1]] = {"batch_size": self._batch_size, "device": self._device}
        cls = type(self)
        for key, value in self._now().items():
            key = stored_name(cls, key)
            if isinstance(value, Tensor):
                result[prefix + key] = value if keep_vars else value.detach()
            elif not is_tree(value):
                leaves: Any = value._compacted()
                for path, leaf in leaves._state_leaves():
                    kept = leaf if keep_vars else leaf.detach()
                    if flatten:
                        result[".".join((prefix + key, *path))] = kept
                    else:
                        holder = result
                        for name in (prefix + key, *path)[:-1]:
                            holder = holder.setdefault(name, {})
                        holder[path[-1] if path else prefix + key] = kept
            elif flatten:
                with_members(value).state_dict(result, f"{prefix}{key}.", keep_vars, True)
            else:
                result[prefix + key] = with_members(value).state_dict(None, "", keep_vars, False)
        return result  # type: ignore[no-any-return]

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        assign: bool = False,
        from_flatten: bool | None = None,
    ) -> Self:
        """Load the tensors and batch sizes of a state dict.

        Args:
            state_dict: result of :meth:`state_dict`, flat or nested.
            strict: require the same keys. Default: ``True``.
            assign: replace the tensors instead of writing into them. Default: ``False``.
            from_flatten: dots in keys separate levels. Default: found out from the keys.

        Returns:
            This collection.

        Raises:
            TypeError: ``state_dict`` is not a mapping.
            RuntimeError: keys, shapes or batch sizes do not fit; all differences are listed. Nothing is loaded then.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2)}, [2])
            >>> data.load_state_dict(TensorDict({"a": torch.ones(2)}, [2]).state_dict())["a"]
            tensor([1., 1.])
        """
        if not isinstance(state_dict, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"load_state_dict: expected a dict of tensors, got {type_name(state_dict)}")
        nested = any(isinstance(value, Mapping) for value in state_dict.values())
        split = not nested if from_flatten is None else from_flatten
        columns: dict[tuple[str, ...], Any] = dict(self._named_columns())
        own = {unravel_key_to_tuple(key): leaf for key, leaf in self._named_leaves() if key not in columns}
        buffers: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for path, column in columns.items():
            named = [((*path, *name), leaf) for name, leaf in column._compacted()._state_leaves()]
            own.update(named)
            buffers[path] = [name for name, _ in named]
        # our own keys can contain dots
        given: dict[tuple[str, ...], Any] = {}
        joined = {".".join(key): key for key in own}
        if has_stored_names(self):
            joined |= {".".join(stored_path(self, key)): stored_path(self, key) for key in own}
        _collect(state_dict, (), joined if split else None, given)
        source = self._by_key(given)
        missing = [".".join(key) for key in own if key not in source]
        unexpected = [".".join(key) for key in source if key not in own]
        problems: list[str] = []
        if strict and missing:
            problems.append(f"missing keys: {missing}")
        if strict and unexpected:
            problems.append(f"unexpected keys: {unexpected}{did_you_mean(unexpected, missing)}")
        of_columns = {name for names in buffers.values() for name in names}
        for key, value in source.items():
            if key in own and shape_of(value, key) != own[key].shape and not assign and key not in of_columns:
                problems.append(f"{dotted(key)}: expected shape {list(own[key].shape)}, got {list(value.shape)}")
        before = self._sizes_below(())
        found = _sizes(state_dict, ())
        if has_stored_names(self):
            found = {".".join(key_path(self, path.split("."))): size for path, size in found.items()}
        sizes = {path: size for path, size in found.items() if size != before.get(path, size)}
        for key, leaf in own.items() if sizes else ():
            shape = source.get(key, leaf).shape
            above = [sizes.get(".".join(key[:depth]), Size(())) for depth in range(len(key))]
            problems += [
                f"{dotted(key)}: shape {list(shape)} does not have the batch size {list(size)}"
                for size in above
                if shape[: len(size)] != size and isinstance(self._find(key), Tensor)
            ]
        loaded: dict[tuple[str, ...], Any] = {}
        for path, names in buffers.items():
            if all(name in source for name in names):
                try:
                    loaded[path] = columns[path]._from_state(
                        {name[len(path) :]: source[name] for name in names}, assign
                    )
                except (TypeError, ValueError, RuntimeError) as error:
                    problems.append(f"{dotted(path)}: {error}")
        if problems:
            raise RuntimeError(f"load_state_dict: nothing was loaded into {type_name(self)}; " + "; ".join(problems))
        wanted = {key: value for key, value in source.items() if key in own and key not in of_columns}
        if assign:
            self._take_sizes(dict.fromkeys(sizes, Size(())), ())  # so that tensors of any batch size fit
            undo: list[Any] = []
            try:
                self._check_unlocked()
                self._merge({**wanted, **loaded}, None, False, False, False, None, undo)
                self._take_sizes(sizes, ())
                for node, store, *_ in undo:
                    node._check_changed(store)
            except BaseException:
                restore(undo)
                self._take_sizes(before, ())
                raise
            return self
        with torch.no_grad():
            for key, value in wanted.items():
                holder = self._parent_of(key[:-1])
                if type(holder._store) is dict:
                    own[key].data.copy_(value)
                else:  # another store may have given a copy
                    holder._set_(key[-1], value)
            for path, column in loaded.items():
                holder = self._parent_of(path[:-1])
                if type(holder._store) is dict:
                    columns[path]._become(column)
                else:
                    holder._set_(path[-1], column)
        self._take_sizes(sizes, ())
        return self

    def _by_key(self, named: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
        """Return the values of a state dict by nested key in place of names."""
        if not has_stored_names(self):
            return named
        names: dict[tuple[str, ...], tuple[str, ...]] = {}
        for name in named:
            key = key_path(self, name)
            if names.setdefault(key, name) != name:
                raise RuntimeError(
                    f"load_state_dict: nothing was loaded into {type_name(self)}; {dotted(key)} is there twice, as "
                    f"{dotted(names[key])!r} and as {dotted(name)!r}"
                )
        return {key: named[name] for key, name in names.items()}

    def _named_columns(self) -> list[tuple[tuple[str, ...], Any]]:
        """Return the columns of the tree, whose state is several tensors, with their keys as flat tuples."""
        return [
            ((key, *path), column)
            for key, value in self._now().items()
            if isinstance(value, Collection)
            for path, column in value._named_columns()
        ]

    def _sizes_below(self, path: tuple[str, ...]) -> dict[str, Size]:
        """Return the batch size of each collection of the tree, by joined key."""
        sizes = {".".join(path): self._batch_size}
        for key, value in self._now().items():
            if isinstance(value, State) and value._is_tree():
                sizes |= value._sizes_below((*path, key))
        return sizes

    def _take_sizes(self, sizes: Mapping[str, Size], path: tuple[str, ...]) -> None:
        """Set the batch sizes that differ from the present ones, from the top down."""
        if not sizes:
            return
        size = sizes.get(".".join(path), self._batch_size)
        if size != self._batch_size:
            self._check_batch_size(size, ())
            self._take_batch_size(size)
        for key, value in self._now().items():
            if isinstance(value, State) and value._is_tree():
                value._take_sizes(sizes, (*path, key))


def _collect(
    source: Any,
    path: tuple[str, ...],
    joined: Mapping[str, tuple[str, ...]] | None,
    into: dict[tuple[str, ...], Any],
) -> None:
    """Collect the tensors of a state dict by nested key. Names that are not in ``joined`` are split at the dots."""
    for key, value in source.items():
        if isinstance(value, Mapping):
            _collect(value, (*path, key), joined, into)
        elif isinstance(value, Tensor):
            name = ".".join((*path, key))
            into[(*path, key) if joined is None else joined.get(name, tuple(name.split(".")))] = value


def _sizes(source: Any, path: tuple[str, ...]) -> dict[str, Size]:
    """Return the batch sizes in a state dict, by joined key."""
    sizes = {
        ".".join((*path, name) if name else path): Size(about["batch_size"])
        for name, about in getattr(source, "_metadata", {}).items()
        if "batch_size" in about
    }
    for key, value in source.items():
        if isinstance(value, Mapping):
            sizes |= _sizes(value, (*path, key))
    return sizes
