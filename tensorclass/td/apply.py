"""A function on each value: ``apply`` and ``named_apply``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name

from . import shapes
from .collection import Collection, DeviceLike, as_device, functorch, is_tree
from .get import NO_DEFAULT
from .hidden_members import with_members
from .keys import join_key
from .update import Updating
from .value_checks import BatchMismatch, as_tensor, batch_mismatch, shape_of

if TYPE_CHECKING:
    from .collection import Store

#: the default of ``device`` and ``names``: those of the collection. Not NO_DEFAULT: where two parameters have one
#: object as their default, torch.compile guards in Python that it is the same. The ellipsis is a constant.
_KEEP: Any = ...


def _is_kept(option: object) -> bool:
    """Return whether ``device`` or ``names`` is not given. The peer's default is :data:`NO_DEFAULT`."""
    return option is _KEEP or option is NO_DEFAULT


class MappedCall(NamedTuple):
    """The arguments of a call of ``apply`` or ``named_apply`` that are the same at all levels of a tree."""

    fn: Callable[..., Any]  #: called with the nested key and the values
    device: DeviceLike | None
    default: Any
    filter_empty: bool | None
    propagate_lock: bool
    call_on_nested: bool
    is_leaf: Callable[[type], bool] | None


class Applying(Updating):
    """``apply``, ``apply_`` and ``named_apply``."""

    __slots__ = ()

    @overload
    def apply(
        self,
        fn: Callable[[Tensor], Any] | Callable[[Tensor, Tensor], Any],
        *others: Any,
        batch_size: Sequence[int] | None = ...,
        device: DeviceLike | None = ...,
        names: Sequence[str | None] | None = ...,
        inplace: bool = ...,
        default: Any = ...,
        filter_empty: bool | None = ...,
        propagate_lock: bool = ...,
        out: Collection | None = ...,
        num_threads: int | None = ...,
        **kwargs: Any,
    ) -> Self: ...
    @overload
    def apply(
        self,
        fn: Callable[..., Any],
        *others: Any,
        batch_size: Sequence[int] | None = ...,
        device: DeviceLike | None = ...,
        names: Sequence[str | None] | None = ...,
        inplace: bool = ...,
        default: Any = ...,
        filter_empty: bool | None = ...,
        propagate_lock: bool = ...,
        call_on_nested: bool = ...,
        is_leaf: Callable[[type], bool] | None = ...,
        out: Collection | None = ...,
        num_threads: int | None = ...,
        **kwargs: Any,
    ) -> Self: ...
    def apply(
        self,
        fn: Callable[..., Any],
        *others: Any,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = _KEEP,
        names: Sequence[str | None] | None = _KEEP,
        inplace: bool = False,
        default: Any = NO_DEFAULT,
        filter_empty: bool | None = None,
        propagate_lock: bool = False,
        call_on_nested: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        out: Collection | None = None,
        num_threads: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Call a function on each tensor: ``fn(value, *others)``.

        Args:
            fn: called with a value, and with the values of ``others`` under the same key. Returns a tensor, or ``None``
                to leave the key out of the result.
            others: collections with the same keys.
            batch_size: the batch size of the result, if ``fn`` changes the leading dimensions.
            device: the device of the result. Default: that of this collection. Tensors are not moved.
            names: a name or ``None`` for each batch dimension of the result.
            inplace: write the results into the values of this collection. Default: ``False``.
            default: used for keys that one of the others lacks. By default such a key is an error.
            filter_empty: leave out nested collections that end up without leaves. By default they stay, unless ``fn``
                returned ``None`` for all their leaves.
            propagate_lock: lock the result if this collection is locked. Default: ``False``.
            call_on_nested: call ``fn`` on nested collections instead of on their values. Default: ``False``.
            is_leaf: called with the class of a value; returns whether ``fn`` is called on it.
            out: a collection that the results are written to, and that is returned.
            num_threads: call ``fn`` in this many threads. Default: in the calling one.
            kwargs: keyword arguments of ``fn``.

        Returns:
            A new collection with the results; this one if ``inplace`` is set.

        Raises:
            KeyError: one of the others lacks a key, and there is no default.
            TypeError: ``inplace`` is given together with ``batch_size``, ``device``, ``names`` or ``out``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.ones(3), "b": torch.arange(3)}, [3])
            >>> list(data.apply(lambda x: x * 2 if x.is_floating_point() else None).keys())
            ['a']
        """
        if kwargs:
            fn = functools.partial(fn, **kwargs)
        if not callable(fn):
            raise TypeError(f"apply: expected a function of a tensor, such as torch.sqrt, got {fn!r}")
        if (
            not others and batch_size is None and device is _KEEP and names is _KEEP and not inplace
            and filter_empty is None and not propagate_lock and not call_on_nested and is_leaf is None and out is None
            and num_threads is None
        ):  # fmt: skip
            return self._plain_apply(fn)
        if inplace:
            _check_inplace("apply", batch_size, device, names, out)

        def function(_: Any, *values: Any) -> Any:
            return fn(*values)

        call = MappedCall(function, device, default, filter_empty, propagate_lock, call_on_nested, is_leaf)
        if num_threads is not None:
            call = self._called_in_threads(call, others, num_threads)
        return self._mapped(call, others, (), batch_size, names, inplace, out)

    @overload
    def named_apply(
        self,
        fn: Callable[[str, Tensor], Any] | Callable[[str, Tensor, Tensor], Any],
        *others: Any,
        nested_keys: Literal[False] = ...,
        batch_size: Sequence[int] | None = ...,
        device: DeviceLike | None = ...,
        names: Sequence[str | None] | None = ...,
        inplace: bool = ...,
        default: Any = ...,
        filter_empty: bool | None = ...,
        propagate_lock: bool = ...,
        out: Collection | None = ...,
        num_threads: int | None = ...,
        **kwargs: Any,
    ) -> Self: ...
    @overload
    def named_apply(
        self,
        fn: Callable[..., Any],
        *others: Any,
        nested_keys: bool = ...,
        batch_size: Sequence[int] | None = ...,
        device: DeviceLike | None = ...,
        names: Sequence[str | None] | None = ...,
        inplace: bool = ...,
        default: Any = ...,
        filter_empty: bool | None = ...,
        propagate_lock: bool = ...,
        call_on_nested: bool = ...,
        is_leaf: Callable[[type], bool] | None = ...,
        out: Collection | None = ...,
        num_threads: int | None = ...,
        **kwargs: Any,
    ) -> Self: ...
    def named_apply(
        self,
        fn: Callable[..., Any],
        *others: Any,
        nested_keys: bool = False,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = _KEEP,
        names: Sequence[str | None] | None = _KEEP,
        inplace: bool = False,
        default: Any = NO_DEFAULT,
        filter_empty: bool | None = None,
        propagate_lock: bool = False,
        call_on_nested: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        out: Collection | None = None,
        num_threads: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Call a function with the key and the value of each tensor: ``fn(key, value, *others)``.

        Args:
            fn: called with a key, the value, and the values of ``others`` under the same key. Returns a tensor, or
                ``None`` to leave the key out of the result.
            others: collections with the same keys.
            nested_keys: pass the whole nested key, as a tuple for values below the first level, instead of its last
                name. Default: ``False``.
            batch_size: the batch size of the result, if ``fn`` changes the leading dimensions.
            device: the device of the result. Default: that of this collection. Tensors are not moved.
            names: a name or ``None`` for each batch dimension of the result.
            inplace: write the results into the values of this collection. Default: ``False``.
            default: used for keys that one of the others lacks. By default such a key is an error.
            filter_empty: leave out nested collections that end up without leaves. By default they stay, unless ``fn``
                returned ``None`` for all their leaves.
            propagate_lock: lock the result if this collection is locked. Default: ``False``.
            call_on_nested: call ``fn`` on nested collections instead of on their values. Default: ``False``.
            is_leaf: called with the class of a value; returns whether ``fn`` is called on it.
            out: a collection that the results are written to, and that is returned.
            num_threads: call ``fn`` in this many threads. Default: in the calling one.
            kwargs: keyword arguments of ``fn``.

        Returns:
            A new collection with the results; this one if ``inplace`` is set.

        Raises:
            KeyError: one of the others lacks a key, and there is no default.
            TypeError: ``inplace`` is given together with ``batch_size``, ``device``, ``names`` or ``out``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"weight": torch.ones(2), "below": {"bias": torch.ones(2)}}, [2])
            >>> data.named_apply(lambda name, x: x * 0 if name == "bias" else x).to_dict()
            {'weight': tensor([1., 1.]), 'below': {'bias': tensor([0., 0.])}}
            >>> _ = data.named_apply(lambda key, x: print(key), nested_keys=True)
            weight
            ('below', 'bias')
        """
        if kwargs:
            fn = functools.partial(fn, **kwargs)
        if (
            not others and batch_size is None and device is _KEEP and names is _KEEP and not inplace
            and filter_empty is None and not propagate_lock and not call_on_nested and is_leaf is None and out is None
            and num_threads is None
        ):  # fmt: skip
            return self._plain_apply(fn, True, () if nested_keys else None)
        if inplace:
            _check_inplace("named_apply", batch_size, device, names, out)

        def by_name(key: Any, *values: Any) -> Any:
            return fn(key if isinstance(key, str) else key[-1], *values)

        function = fn if nested_keys else by_name
        call = MappedCall(function, device, default, filter_empty, propagate_lock, call_on_nested, is_leaf)
        if num_threads is not None:
            call = self._called_in_threads(call, others, num_threads)
        return self._mapped(call, others, (), batch_size, names, inplace, out)

    def _called_in_threads(self, call: MappedCall, others: tuple[Any, ...], num_threads: int) -> MappedCall:
        """Call a function on all values, in threads. Return one that gives the results by nested key.

        Components of a lazy stack have the same keys, so a key can have several results.
        """
        if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 1:
            raise ValueError(f"num_threads: expected a positive number of threads, got {num_threads!r}")
        calls: list[tuple[Any, ...]] = []

        def note(*args: Any) -> None:
            calls.append(args)

        self._mapped(call._replace(fn=note, device=_KEEP, filter_empty=None, propagate_lock=False), others, ())
        with ThreadPoolExecutor(num_threads) as pool:
            running = [(args[0], pool.submit(call.fn, *args)) for args in calls]
        results: dict[Any, list[Any]] = {}
        for key, future in reversed(running):
            results.setdefault(key, []).append(future.result())

        def result(key: Any, *args: Any) -> Any:
            return results[key].pop()

        return call._replace(fn=result)

    @overload
    def apply_(
        self, fn: Callable[[Tensor], Any] | Callable[[Tensor, Tensor], Any], *others: Any, default: Any = ...
    ) -> Self: ...
    @overload
    def apply_(
        self,
        fn: Callable[..., Any],
        *others: Any,
        default: Any = ...,
        call_on_nested: bool = ...,
        is_leaf: Callable[[type], bool] | None = ...,
        num_threads: int | None = ...,
        **kwargs: Any,
    ) -> Self: ...
    def apply_(self, fn: Callable[..., Any], *others: Any, **kwargs: Any) -> Self:
        """Replace each value in place by the result of a function: :meth:`apply` with ``inplace=True``.

        Args:
            fn: called with a value, and with the values of ``others`` under the same key. Returns a tensor of the same
                shape, or ``None`` to leave the value as it is.
            others: collections with the same keys.
            kwargs: ``default``, ``call_on_nested``, ``is_leaf`` and ``num_threads``, as for :meth:`apply`, and keyword
                arguments of ``fn``.

        Returns:
            This collection. Its tensors keep their memory, into which the results are copied.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.ones(2), "b": torch.arange(2)}, [2])
            >>> data.apply_(lambda x: x * 3 if x.is_floating_point() else None).to_dict()
            {'a': tensor([3., 3.]), 'b': tensor([0, 1])}
        """
        return with_members(self).apply(fn, *others, inplace=True, **kwargs)

    def _plain_apply(self, fn: Callable[..., Any], named: bool = False, path: tuple[str, ...] | None = None) -> Self:
        """:meth:`apply` where all arguments but the function have their defaults.

        Args:
            fn: called with the value, and before it with the key if ``named``.
            named: whether this is :meth:`named_apply`.
            path: the keys above, if the function gets nested keys as a whole.
        """
        store: Store = {}
        size = self._batch_size
        ndim = len(size)
        for key, value in self._now().items():
            name = (*path, key) if path else key
            if isinstance(value, Collection):
                below = None if path is None else (*path, key)
                try:
                    if is_tree(value):
                        part = value._plain_apply(fn, named, below)
                    else:
                        part = _applied(value, fn, name) if named else _applied(value, fn)
                except BatchMismatch as error:
                    raise error.below(key) if path is None else error from None
                if part is not None and (part._store or not value._store):
                    store[key] = part
            else:
                result = fn(name, value) if named else fn(value)
                try:
                    fits = isinstance(result, Tensor) and result.shape[:ndim] == size
                except RuntimeError:  # a nested tensor can have no shape
                    fits = False
                if fits:
                    store[key] = result
                elif result is not None:
                    store[key] = _fit(name, result, size)
        return self._same(store)

    def _mapped(
        self,
        call: MappedCall,
        others: tuple[Any, ...],
        path: tuple[str, ...],
        batch_size: Sequence[int] | None = None,
        names: Sequence[str | None] | None = _KEEP,
        inplace: bool = False,
        out: Any = None,
    ) -> Self:
        fn, device, default, filter_empty, propagate_lock, call_on_nested, is_leaf = call
        # writes go to the values that the function was called with; those that get collections may change them
        source = self._levels_now() if inplace and not call_on_nested and is_leaf is None else self
        own_size, own_names, own_items = source._batch_size, source._names, source._now().items()
        size = own_size if batch_size is None else shapes.as_size(batch_size)
        store: Store = {}
        tables = [_entries(other) for other in others]
        for key, value in own_items:
            operands = [_other(table, other, key, default) for table, other in zip(tables, others, strict=True)]
            whole = (
                not isinstance(value, Collection) or call_on_nested or (is_leaf is not None and is_leaf(type(value)))
            )
            if isinstance(value, Collection) and not value._is_tree() and (is_leaf is None or not is_leaf(type(value))):
                if value._wrapped_tensor() is not None:
                    part = _applied(value, fn, join_key(path, key), *operands)
                    if part is not None:
                        store[key] = part if batch_size is None else part._resized(size)
                    continue
                # non-tensor data: kept as it is, in the batch size of the result
                store[key] = value if inplace else value._shallow() if batch_size is None else value._resized(size)
                continue
            if whole:
                result = fn(join_key(path, key), value, *operands)
                if result is None:
                    continue
                store[key] = _fit(join_key(path, key), result, size)
                continue
            assert isinstance(value, Applying)
            part = value._mapped(call, tuple(operands), (*path, key), None if batch_size is None else size)
            if filter_empty is False or (
                not with_members(part).is_empty() if filter_empty else part._store or not value._store
            ):
                store[key] = part
        if inplace or out is not None:
            target: Any = source if inplace else out
            results = target._changes(store)
            target._require(results, None, True, True)
            target._take_results(results)
            return self if inplace else target
        new_names = (own_names if size == own_size else None) if _is_kept(names) else shapes.as_names(names, len(size))
        new = self._like(store, size, new_names)
        if not _is_kept(device):
            new._device = as_device(device)
        if not _is_kept(names):
            new._set_names(new_names)
        if propagate_lock and self._lock is not None:
            with_members(new).lock_()
        return new

    def _changes(self, results: Any) -> dict[str, Any]:
        """The results of a function that are not the values themselves; non-tensor data stays as it is."""
        changes: dict[str, Any] = {}
        for key, result in results.items():
            current: Any = self._store.get(key)
            if current is result:
                continue
            if isinstance(result, Collection) and isinstance(current, Applying) and result._is_tree():
                result = current._changes(result._store)
                if not result:
                    continue
            elif isinstance(result, Collection) and current is not None and result._wrapped_tensor() is None:
                continue
            changes[key] = result
        return changes

    def _take_results(self, results: dict[str, Any]) -> None:
        """Writes checked results."""
        for key, result in results.items():
            current: Any = self._store.get(key)
            if current is None:
                self._set(key, result)
            elif type(result) is dict:
                current._take_results(result)
            else:
                self._set_(key, result)

    if TYPE_CHECKING:

        def _resized(self, batch_size: Size) -> Self: ...


def _check_inplace(what: str, batch_size: object, device: object, names: object, out: object) -> None:
    """Raise if there are options of a new collection, which a call in place does not make."""
    options = {"batch_size": batch_size, "device": device, "names": names, "out": out}
    given = [
        name
        for name, value in options.items()
        if not (_is_kept(value) if name in ("device", "names") else value is None)
    ]
    if given:
        raise TypeError(f"{what}: {', '.join(given)} do not go with inplace=True, which changes values only")


def _applied(leaf: Any, fn: Callable[..., Any], *args: Any) -> Any:
    """Return a leaf with the result of ``fn(name, tensor, *operands)``, where ``tensor`` is the one that it wraps.

    A leaf without a tensor is copied in a new holder. ``args``: the name, and the operands.
    """
    held = leaf._wrapped_tensor()
    if held is None:
        return leaf._shallow()
    name, operands = args[:1], [arg._wrapped_tensor() if isinstance(arg, Collection) else arg for arg in args[1:]]
    result = fn(*name, held, *operands)
    return None if result is None else leaf._with_leaves(iter([_fit(name, result, Size(()))]))


def _entries(other: Any) -> Any:
    """Return a snapshot of the values of a collection, or a dict itself; ``None`` for anything else."""
    entries: Any = other
    return other._now() if isinstance(other, Collection) else entries if isinstance(other, dict) else None


def _other(entries: Any, other: Any, key: str, default: Any) -> Any:
    if entries is None:
        return other  # the default, which stands for a whole nested collection here
    value = entries.get(key, NO_DEFAULT)
    if value is not NO_DEFAULT:
        return value
    if default is NO_DEFAULT:
        raise KeyError(
            f"apply: {key!r} is missing in another collection, whose keys are {list(entries)}; give default= a value"
        )
    return default


def _fit(key: Any, result: Any, size: Size) -> Any:
    if not isinstance(result, (Tensor, Collection)):
        tensor = as_tensor(result)
        if tensor is None:
            raise TypeError(f"apply: {key!r}: expected the function to give a tensor or None, got {type_name(result)}")
        result = tensor
    if shape_of(result, key)[: len(size)] != size and not functorch.maybe_current_level():
        raise batch_mismatch(key, size, result.shape)
    return result
