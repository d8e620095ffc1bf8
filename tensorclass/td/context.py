"""Undo an operation at the end of a ``with`` statement.

``with data.view(-1) as flat: ...`` writes changes of ``flat`` back into ``data``. An operation that can be undone notes
how in the slot ``_context`` of its result: a weak reference to its source, an :class:`Inverse`, and its arguments. A
call without ``with`` pays for nothing else. The values of the result are recorded when the block begins and compared
when it ends.

Each change is repeated in the source. A replaced value is replaced there, a new one is set, a removed key is removed. A
value that was written in place is in the source already if both share memory; if the operation copied, it is written
into the source's value.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import type_name

from . import native
from .collection import Collection, is_tree
from .get import MISSING
from .hidden_members import with_members

if TYPE_CHECKING:
    from .remove import Removing

Path: TypeAlias = tuple[str, ...]

#: the value of an unset slot ``_context``
NOTHING: Any = ((), None)


def _same_path(source: Removing, path: Path, *args: object) -> Path:
    return path


@dataclass(frozen=True)
class Inverse:
    """The way back from the result of an operation to its source.

    ``value(new, old, source, ndim, *args)`` converts a value of the result for the source. ``old`` is the present value
    of the source (``MISSING`` if there is none), ``ndim`` the number of batch dimensions of the result, ``args`` are
    the arguments of the operation. ``path(source, path, *args)`` returns the key in the source. ``content`` is set if
    the operation copies, so that writes in place into the result do not reach the source; called like ``value``, it
    returns what to write there.
    """

    value: Callable[..., Any]
    path: Callable[..., Path] = _same_path
    content: Callable[..., Any] | None = None
    #: whether a nested collection that was set is taken key by key, because keys of the source have another depth
    by_key: bool = False


# -- inverses of shape operations -------------------------------------------------------------------------------------


def _resized(new: Any, old: Any, source: Collection, ndim: int) -> Any:
    members = with_members(new)
    return members.reshape((*source._batch_size, *members.shape[ndim:]))


def _permuted(new: Any, old: Any, source: Collection, ndim: int, order: tuple[int, ...]) -> Any:
    back = [order.index(dim) for dim in range(ndim)]
    members = with_members(new)
    return members.permute(*back, *range(ndim, members.ndim)) if back else new


def _flipped(new: Any, old: Any, source: Collection, ndim: int, dims: tuple[int, ...]) -> Any:
    return with_members(new).flip(dims)


def _rolled(new: Any, old: Any, source: Any, ndim: int, shifts: Any, dims: Any) -> Any:
    back = -shifts if isinstance(shifts, int) else tuple([-shift for shift in shifts])
    members = with_members(new)
    if dims is not None:
        return members.roll(back, dims)
    flat = members.reshape((-1, *members.shape[ndim:]))
    return with_members(with_members(flat).roll(back, 0)).reshape(members.shape)


def _rotated(new: Any, old: Any, source: Collection, ndim: int, k: int, dims: tuple[int, int]) -> Any:
    return with_members(new).rot90(-k, dims)


def _viewed_back(new: Any, old: Any, source: Collection, ndim: int) -> Any:
    """Undo a view of another dtype."""
    return new.view(old.dtype) if isinstance(new, Tensor) and isinstance(old, Tensor) else new


RESIZED = Inverse(_resized)
COPIED = Inverse(_resized, content=_resized)
PERMUTED = Inverse(_permuted)
FLIPPED = Inverse(_flipped, content=_flipped)
ROLLED = Inverse(_rolled, content=_rolled)
ROTATED = Inverse(_rotated, content=_rotated)
VIEWED = Inverse(_viewed_back)


# -- inverses of casts and of operations on keys ----------------------------------------------------------------------


def _cast_back(new: Any, old: Any, source: Collection, ndim: int) -> Any:
    return new.to(device=old.device, dtype=old.dtype) if isinstance(new, Tensor) and isinstance(old, Tensor) else new


def _cast_where_it_changed(new: Tensor, old: Tensor, source: Collection, ndim: int) -> Tensor:
    """Cast back. Elements that did not change keep the source's value, in its precision."""
    same = old.to(device=new.device, dtype=new.dtype) == new
    return torch.where(same.to(old.device), old, new.to(device=old.device, dtype=old.dtype))


def _unchanged(new: Any, old: Any, source: Collection, ndim: int, separator: str) -> Any:
    return new


def _nested_path(source: Removing, path: Path, separator: str) -> Path:
    """Return the key in a source whose keys were flattened. Names may contain the separator themselves."""
    name, *rest = path
    found: list[str] = []
    node: Any = source
    while node is not None and name not in node._store:
        for key, value in node._now().items():
            if isinstance(value, Collection) and value._is_tree() and name.startswith(key + separator):
                found.append(key)
                name = name[len(key) + len(separator) :]
                node = value
                break
        else:
            node = None
    return (*found, *([name] if node is not None else name.split(separator)), *rest)


def _flat_path(source: Removing, path: Path, separator: str) -> Path:
    """Return the key in a source whose keys were unflattened. Collections that were nested before stay nested."""
    for depth in range(len(path), 0, -1):
        name = separator.join(path[:depth])
        value = source._store.get(name)
        if value is not None and (depth == len(path) or (isinstance(value, Collection) and value._is_tree())):
            return (name, *path[depth:])
    return (separator.join(path),)


CAST = Inverse(_cast_back, content=_cast_where_it_changed)
native.tell("bind_inverses", COPIED, RESIZED, PERMUTED, CAST)
FLAT_KEYS = Inverse(_unchanged, _nested_path, by_key=True)
NESTED_KEYS = Inverse(_unchanged, _flat_path, by_key=True)


# -- changes within a block -------------------------------------------------------------------------------------------

#: marks a tensor that shares memory with the source
SHARED = -1
#: marks a nested collection on another store than a dict, which has a `with` block of its own
OWN_BLOCK: Any = object()


def _version(value: Tensor) -> int | None:
    """Return torch's count of writes in place; ``None`` for an inference tensor or under ``torch.compile``."""
    return None if torch.compiler.is_compiling() or value.is_inference() else value._version


def _snapshot(node: Collection, copies: bool, entered: list[Any]) -> dict[str, tuple[Any, Any]]:
    """Record the values of every level, each with a mark by which a write in place can be detected."""
    noted: dict[str, tuple[Any, Any]] = {}
    for key, value in node._now().items():
        if isinstance(value, Tensor):
            noted[key] = (value, _version(value) if copies else SHARED)
        elif not value._is_tree():
            noted[key] = (value, value._identity())
        elif type(value._store) is not dict and getattr(value, "_context", NOTHING)[1] is not None:
            entered.append(value.__enter__())
            noted[key] = (value, OWN_BLOCK)
        else:
            noted[key] = (value, _snapshot(value, copies, entered))
    return noted


def _stands_on_dicts(node: Collection) -> bool:
    """Return whether all levels are based on dicts. Other stores may return copies of their values."""
    if type(node._store) is not dict:
        return False
    for value in node._nodes():  # noqa: SIM110  (a generator would cost more than the loop)
        if not _stands_on_dicts(value):
            return False
    return True


class _Changes:
    """The differences between a collection and its recorded values."""

    def __init__(self, now: Collection, before: dict[str, tuple[Any, Any]]) -> None:
        self.removed: list[Path] = []
        self.replaced: list[tuple[Path, Any]] = []
        self.written: list[tuple[Path, Any]] = []  # in place, without sharing memory with the source
        self._compare(now, before, ())

    def _compare(self, now: Collection, before: dict[str, tuple[Any, Any]], path: Path) -> None:
        for key in before:
            if key not in now._store:
                self.removed.append((*path, key))
        for key, value in now._now().items():
            here = (*path, key)
            old, note = before.get(key, (None, None))
            if value is not old:
                self.replaced.append((here, value))
            elif isinstance(value, Tensor):
                if note is None or (note != SHARED and note != value._version):
                    self.written.append((here, value))
            elif note is OWN_BLOCK:
                pass
            elif value._is_tree():
                self._compare(value, note, here)
            elif not _identical(value._identity(), note):
                self.replaced.append((here, value))


def _identical(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


class Block:
    """A ``with`` statement on the result of an operation, from its begin to its end."""

    def __init__(self, result: Collection, inverse: Inverse, ref: weakref.ref[Any], args: tuple[Any, ...]) -> None:
        source = ref()
        if source is None:
            raise RuntimeError(
                f"with: the collection that this {type_name(result)} was made from no longer exists, so that "
                "nothing can be written back into it; keep it in a variable, also between operations in a row: "
                "`a = data.view(-1)`, then `with a.unsqueeze(0) as b: ...`"
            )
        self.source: Removing = source
        self.inverse = inverse
        self.args = args
        self.size: Size = result._batch_size
        self.content: Callable[..., Any] | None = inverse.content
        if self.content is None and not _stands_on_dicts(source):
            self.content = inverse.value
        self.entered: list[Any] = []
        copies = self.content is not None
        self.noted: Any = _snapshot(result, copies, self.entered) if result._is_tree() else result._identity()

    def leave(self, result: Collection, *exception: Any) -> None:
        """End the block. Without an exception, write the changes back."""
        for value in reversed(self.entered):
            value.__exit__(*exception)
        if exception[0] is None:
            self.write_back(result)

    def _by_key(self, replaced: list[tuple[Path, Any]]) -> Iterator[tuple[Path, Any]]:
        """Yield the new values; instead of a nested collection under a new key its values."""
        for path, new in replaced:
            if is_tree(new) and new._store and not self._had(path):
                yield from self._by_key([((*path, key), value) for key, value in new._now().items()])
            else:
                yield path, new

    def _had(self, path: Path) -> bool:
        """Return whether the result had a value under this key when the block began."""
        level: Any = self.noted
        for key in path:
            if type(level) is not DICT or key not in level:
                return False
            level = level[key][1]
        return True

    def write_back(self, result: Collection) -> None:
        """Write all changes of the result into the source; none of them on an error."""
        if result._batch_size != self.size:
            raise RuntimeError(
                f"with: the batch size changed from {list(self.size)} to {list(result._batch_size)} inside the block; "
                "changes can only be written back if it stays the same"
            )
        source, ndim, inverse = self.source, len(self.size), self.inverse
        if not result._is_tree():
            if not _identical(result._identity(), self.noted):
                source.update(inverse.value(result, source, source, ndim, *self.args))
            return
        changes = _Changes(result, self.noted)
        replaced: list[tuple[Path, Any]] = []
        for path, new in self._by_key(changes.replaced) if inverse.by_key else changes.replaced:
            path = inverse.path(source, path, *self.args)
            replaced.append((path, inverse.value(new, source._find(path), source, ndim, *self.args)))
        written: list[tuple[Path, Tensor]] = []
        for path, new in changes.written:
            path = inverse.path(source, path, *self.args)
            old = source._find(path)
            if isinstance(old, Tensor) and old is not new:
                assert self.content is not None
                written.append((path, self.content(new, old, source, ndim, *self.args)))
        removed = [inverse.path(source, path, *self.args) for path in changes.removed]
        if removed or replaced:
            _rewrite(source, removed, replaced)
        for path, new in written:
            with_members(source).set_(path, new)


def _rewrite(source: Removing, removed: list[Path], replaced: list[tuple[Path, Any]]) -> None:
    """Remove and set keys. On an error, restore the previous state."""
    before: list[tuple[Collection, dict[str, Any]]] = []
    _levels(source, before)
    try:
        for path in removed:
            if source._find(path) is not MISSING:
                with_members(source).pop(path)
        for path, value in replaced:
            # replace an object in place, because a lock allows that
            inplace = not isinstance(value, Tensor) and not value._is_tree()
            old = source._find(path)
            inplace = inplace and isinstance(old, Collection) and not old._is_tree()
            if old is not value:
                with_members(source).set(path, value, inplace=inplace)
    except BaseException:
        for node, store in before:
            node._store.clear()
            node._store.update(store)
        raise


def _levels(node: Collection, found: list[tuple[Collection, dict[str, Any]]]) -> None:
    if node._holds_values():
        found.append((node, {**node._store}))
    for value in node._nodes():
        if value._is_tree():
            _levels(value, found)


class Contexts(Collection):
    """``with`` on the result of an operation."""

    __slots__ = ()

    def clear_refs_for_compile_(self) -> Self:
        """Forget how a ``with`` statement would undo the last operation, here and in nested collections.

        Call it on results of a compiled function: ``torch.compile`` cannot return the weak reference to the source.

        Returns:
            This collection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(2, 3)}, [2, 3])
            >>> with data.view(-1).clear_refs_for_compile_() as flat:
            ...     flat["b"] = torch.ones(6)
            >>> "b" in data  # nothing was written back
            False
        """
        self._context = (getattr(self, "_context", NOTHING)[0], None)
        for value in self._now().values():
            if isinstance(value, Contexts):
                with_members(value).clear_refs_for_compile_()
        return self

    # _context is (blocks, undo, ...): the open blocks, and how the next block undoes the operation. `undo` is None, the
    # name of a method, or an Inverse, followed by a reference to the source and the arguments.

    def _undoes(self, undo: str | None) -> None:
        """Note the method that undoes the operation which ends now."""
        self._context = (getattr(self, "_context", NOTHING)[0], undo)

    def __enter__(self) -> Self:
        context = getattr(self, "_context", NOTHING)
        blocks, undo = context[0], context[1]
        if undo is not None and isinstance(undo, Inverse):  # it can be entered again
            block = Block(self, undo, context[2], context[3:])
            self._context = ((*blocks, (block, context)), *context[1:])
        else:
            self._context = (blocks + ((undo, (blocks, None)),), None)  # noqa: RUF005  (a third of the time)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        undo, before = self._context[0][-1]
        self._context = before
        if type(undo) is str:
            getattr(with_members(self) if self._hidden_members else self, undo)()
            self._context = before
        elif undo is not None:
            undo.leave(self, exc_type, exc, traceback)
