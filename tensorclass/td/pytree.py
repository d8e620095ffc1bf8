"""Collections as nodes of pytrees: in ``torch.utils._pytree`` (used by ``torch.func``, export and compile) and optree.

A function over the leaves may change their leading dimensions, and so the batch size. Tree structures therefore compare
classes, keys, devices and objects, but not batch sizes, which are read off the leaves on unflattening. So an exported
program takes any batch size, and ``torch.func`` may compare trees that gained or lost dimensions.

``torch.vmap`` also changes the number of dimensions: every leaf loses one on the way in and gets one on the way out,
and the unflatten function is not told which. On the way in, the leaves know it. On the way out, it follows from a
comparison with the leaves when they were flattened (:class:`_Origin`). While dynamo traces, both ways use the
comparison. Most calls of ``torch.vmap`` do not come here: see :mod:`~tensorclass.td.vmapping`.
"""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Size, Tensor
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch.compiler import is_dynamo_compiling, is_exporting
from torch.utils import _pytree

from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import class_name, type_name

from . import multiprocessing_reducers, optree_nodes, registry, shapes
from .collection import Collection, functorch
from .first_class_dims import is_bound
from .safe_unpickling import allow_class, is_allowed
from .shapes import Names
from .tracing import sizes_are_known
from .value_checks import all_begin_with, explained, refuse_strided_nested

if TYPE_CHECKING:
    from .base import TensorCollection

    Context = tuple[type[TensorCollection], tuple[str, ...], Any, Any, Any]
    Form = tuple[Size, tuple[int, ...]]


class _Origin:
    """State of a collection when it was flattened: batch size, names, level of ``torch.func``, values.

    It is part of the context that pytrees compare, and compares equal to all others: transforms compare trees whose
    dimensions have changed. Few collections come back with more dimensions, so the forms of the leaves are read off the
    values only then. While dynamo traces, they are recorded at once.
    """

    __slots__ = ("forms", "level", "names", "size", "values", "vmapped")

    def __init__(
        self,
        size: Size,
        names: Names,
        level: int = 0,
        forms: Sequence[Any] = (),
        vmapped: bool = False,
        values: Sequence[Any] | None = None,
    ) -> None:
        self.size = size
        self.names = names
        self.level = level
        self.forms = forms
        self.vmapped = vmapped
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (_Origin, tuple))

    def __hash__(self) -> int:
        return hash(())

    def __repr__(self) -> str:
        return f"<{list(self.size)}>"


def _traced_origin(collection: Any) -> Any:
    """Return the origin of a flattened collection while dynamo traces."""
    size, names = collection._batch_size, collection._names
    if is_exporting():  # the structure of a result must be constant: sizes come from the leaves, or the level above
        return len(size), names
    level, leaves = functorch.get_dynamic_layer_stack_depth(), _tensors(collection)
    return _Origin(size, names, level, [_form(leaf) for leaf in leaves], _vmapped(leaves))


#: the level of collections of bound tensors: no transform changes their dimensions, torch binds them by layers of vmap
_BOUND = 1 << 30


def _context(collection: Any, keys: tuple[str, ...], values: list[Any]) -> Context:
    """Return the context of a flattened collection: everything except its values."""
    cls = collection.__class__
    if is_dynamo_compiling():
        made_as, objects = getattr(collection, "_dense", cls), getattr(collection, "_objects", None)
        return made_as, keys, collection._device, objects, _traced_origin(collection)
    level = functorch.get_dynamic_layer_stack_depth() if _transforms_active() else 0
    if values and values[0].__class__ is not Tensor and isinstance(values[0], Tensor) and is_bound(values[0]):
        level = _BOUND
    form = NODE_CLASSES.get(cls) or _node_class(cls)
    return (
        form[0] or getattr(collection, "_dense", cls),  # unflattened on a plain dict, whatever the store
        keys,
        collection._device,
        collection._objects if form[1] else None,
        _Origin(collection._batch_size, collection._names, level, (), False, values if level else None),
    )


def _flatten(collection: Any) -> tuple[list[Any], Context]:
    store = collection._now()
    values = list(store.values())
    return values, _context(collection, tuple(store), values)


def _flatten_with_keys(collection: Any) -> tuple[list[tuple[Any, Any]], Context]:
    values, context = _flatten(collection)
    return [(_pytree.MappingKey(key), value) for key, value in zip(context[1], values, strict=True)], context


def _unflatten(values: Iterable[Any], context: Context) -> Any:
    cls, keys, device, objects, origin = context
    new = object.__new__(cls)
    new._store = dict(zip(keys, values, strict=True))
    new._device = device
    new._lock = None
    if isinstance(origin, _Origin):
        new._batch_size, new._names = origin.size, origin.names
    else:
        ndim, new._names = origin
        new._batch_size = Size((0,) * ndim)
    if objects is not None:
        new._objects = objects  # type: ignore[attr-defined]
        new._metadata = None  # type: ignore[attr-defined]
    for value in new._now().values():
        if isinstance(value, (Tensor, Collection)):
            break
    else:  # torch compares structures with other objects as leaves
        return new
    if not (_transforms_active() and isinstance(origin, _Origin) and _follow_vmap(new, origin)):
        _fit(new)
    return new


def _fit(new: TensorCollection) -> None:
    """Set the batch size to the leading dimensions that all values share, at most as many as before."""
    ndim = len(new._batch_size)
    if not ndim:
        if sizes_are_known():
            refuse_strided_nested(new._store)
        return
    if sizes_are_known() and all_begin_with(new._now().values(), new._batch_size):
        return
    size: Size | None = None
    empty: list[Any] = []
    try:
        for value in new._now().values():
            if isinstance(value, Collection):
                if not has_tensors(value):
                    empty.append(value)
                    continue
            elif not isinstance(value, Tensor):
                continue
            shape = (value._batch_size if isinstance(value, Collection) else value.shape)[:ndim]
            if size is None:
                size = shape
            elif shape != size:
                size = shapes.common((size, shape))
    except RuntimeError as error:  # a strided nested tensor has no shape
        raise explained(error, new._store) from None
    if size is None:  # no tensors
        return
    new._batch_size = size
    if len(size) != ndim:
        new._names = None
    for value in empty:
        _change(value, lambda own: size + own[ndim:], lambda names: names if len(size) == ndim else None)


# -- vmap -------------------------------------------------------------------------------------------------------------


def _follow_vmap(new: TensorCollection, origin: _Origin) -> bool:
    """Set the batch size of a collection whose leaves a ``vmap`` changed. Return whether that happened."""
    if is_dynamo_compiling():
        return _trace_vmap(new, origin)
    depth = functorch.get_dynamic_layer_stack_depth()
    if depth <= origin.level:
        return _longer(new, origin) and _leave(new, origin)
    ndim = len(new._batch_size)
    if not ndim:
        return True
    lost = {_lost(leaf, origin.level) for leaf in _tensors(new)}
    return any(lost) and _enter(new, {tuple([dim for dim in dims if dim < ndim]) for dims in lost})


def _trace_vmap(new: TensorCollection, origin: _Origin) -> bool:
    """:func:`_follow_vmap` while dynamo traces."""
    leaves, ndim = _tensors(new), len(new._batch_size)
    if not leaves:
        return False
    if functorch.get_dynamic_layer_stack_depth() > origin.level:
        lost = [_missing(form, _form(leaf)) for form, leaf in zip(origin.forms, leaves)]  # noqa: B905
        return any(lost) and _enter(new, {tuple(dim for dim in dims if dim < ndim) for dims in lost})
    if len(origin.forms) != len(leaves):
        return False
    if _vmapped(leaves) and origin.level <= 1:
        return False  # these leaves are arguments of a vmap, not results; for nested transforms only the forms decide
    positions = list(range(ndim + 1))
    for form, leaf in zip(origin.forms, leaves):  # noqa: B905
        positions = _gained(form, _form(leaf), positions)
    return bool(positions) and _insert(new, positions[0], leaves, origin.vmapped)


def _leave(new: TensorCollection, origin: _Origin) -> bool:
    """Insert the batch dimension that the leaves have gained, if they agree on its position."""
    before, leaves, level = _tensors_among(origin.values or ()), _tensors(new), origin.level
    if len(before) != len(leaves):
        return False
    is_batched, level_of = functorch.is_batchedtensor, functorch.maybe_get_level
    vmapped = False
    positions = [*range(len(new._batch_size) + 1)]
    for was, leaf in zip(before, leaves, strict=True):
        if is_batched(leaf) and level_of(leaf) == level:
            return False  # not on the way out
        vmapped = vmapped or (is_batched(was) and level_of(was) == level)
        known, now = was.shape, leaf.shape
        positions = [dim for dim in positions if now[:dim] + now[dim + 1 :] == known]
    if len(positions) > 1:
        for was, leaf in zip(before, leaves, strict=True):
            positions = _gained(_form(was), _form(leaf), positions)
    return bool(positions) and _insert(new, positions[0], leaves, vmapped)


def _insert(new: TensorCollection, dim: int, leaves: list[Tensor], vmapped: bool) -> bool:
    """Insert a batch dimension, unless the leaves show that no vmap added it."""
    if not vmapped and any(leaf.stride(dim) for leaf in leaves):
        return False  # vmap expands (stride 0) values that do not depend on the mapped arguments
    count = leaves[0].shape[dim]
    _change(new, lambda size: shapes.inserted(size, dim, count), lambda names: shapes.names_inserted(names, dim))
    return True


def _longer(new: TensorCollection, origin: _Origin) -> bool:
    """Return whether the first tensor has one dimension more than when it was flattened, as in results of a vmap.

    This is a quick check: most trees that are unflattened under transforms fail it.
    """
    now, before = _first_tensor(new._now().values()), _first_tensor(origin.values or ())
    return now is not None and before is not None and now.ndim == before.ndim + 1


def _enter(new: TensorCollection, taken: set[tuple[int, ...]]) -> bool:
    """Remove the batch dimensions that the leaves have lost, if they agree on them."""
    if len(taken) != 1:
        return False
    dims = taken.pop()
    _change(new, lambda size: Size(shapes.without(size, dims)), lambda names: shapes.names_without(names, dims))
    return True


def _vmapped(leaves: Sequence[Tensor]) -> bool:
    """Return whether a vmap hides a dimension of a leaf. Dynamo does not tell the level of the vmap."""
    return any(functorch.is_batchedtensor(leaf) for leaf in leaves)


def _lost(leaf: Tensor, level: int) -> tuple[int, ...]:
    """Return the dimensions that vmaps above a level hide of a tensor, counted in the tensor outside of them."""
    if functorch.maybe_get_level(leaf) == level + 1 and functorch.is_batchedtensor(leaf):  # the most frequent case
        return (functorch.maybe_get_bdim(leaf),)
    hidden: list[int] = []
    while functorch.is_functorch_wrapped_tensor(leaf) and functorch.maybe_get_level(leaf) > level:
        if functorch.is_batchedtensor(leaf):
            hidden.append(functorch.maybe_get_bdim(leaf))
        leaf = functorch.get_unwrapped(leaf)
    if not hidden:
        return ()
    seen = list(range(leaf.ndim))
    return tuple(sorted(seen.pop(dim) for dim in reversed(hidden)))  # each vmap sees what the outer ones left


def _missing(before: Form, after: Form) -> tuple[int, ...]:
    """Return the dimensions that are gone, if sizes and strides tell; else ``()``."""
    all_of, left = list(zip(*before)), list(zip(*after))  # noqa: B905
    for dims in itertools.combinations(range(len(all_of)), max(len(all_of) - len(left), 0)):
        if [entry for dim, entry in enumerate(all_of) if dim not in dims] == left:
            return dims
    return ()


def _form(leaf: Tensor) -> Form:
    """Return sizes and strides: sizes alone may not tell which of two dimensions is new."""
    return leaf.shape, leaf.stride()


def _gained(before: Form, after: Form, positions: list[int]) -> list[int]:
    """Return those of some positions at which a dimension can have been inserted."""
    known, now = list(zip(*before)), list(zip(*after))  # noqa: B905
    if len(now) != len(known) + 1:
        return []
    return [dim for dim in positions if now[:dim] + now[dim + 1 :] == known]


# -- the tree ---------------------------------------------------------------------------------------------------------


def _tensors(node: Collection) -> list[Tensor]:
    """Return the tensors of a tree over the batch: leaves, codes of NonTensorStacks, spans of columns.

    Unbatched tensors and items of columns are left out: they tell nothing about the batch size.
    """
    store: Any = node._store
    if type(store) is not dict:
        return [leaf for leaf in node._leaves() if isinstance(leaf, Tensor)]
    return _tensors_among(node._now().values())


def _tensors_among(values: Iterable[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, Collection):
            found += _tensors(value)
    return found


def _first_tensor(values: Iterable[Any]) -> Tensor | None:
    """Return the first of :func:`_tensors_among`."""
    for value in values:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Collection):
            store: Any = value._now()
            found = _first_tensor(store.values() if type(store) is DICT else _tensors(value))
            if found is not None:
                return found
    return None


def has_tensors(node: Collection) -> bool:
    """Return whether there is a tensor over the batch in a tree."""
    return _first_tensor((node,)) is not None


def _change(new: Collection, size: Callable[[Size], Size], names: Callable[[Names], Names]) -> None:
    """Change batch size and names of a collection, and of those below it without tensors."""
    new._names = names(new._names)
    new._batch_size = size(new._batch_size)
    for value in new._now().values():
        if isinstance(value, Collection) and not has_tensors(value):
            _change(value, size, names)


# -- structures as text, as exported programs keep them in files ------------------------------------------------------


_DUMPED = ("keys", "device", "objects", "batch_size", "names")


def _dumpable(context: Context) -> dict[str, Any]:
    cls, keys, device, objects, origin = context
    if objects is not None and not all(type(item) in (str, int, float, bool, type(None)) for item in objects):
        names_of_classes = sorted({type_name(item) for item in objects})
        raise TypeError(
            f"the structure of a {class_name(cls)} is written as JSON, which has text, numbers, booleans and None, not "
            f"objects of {names_of_classes}; leave them out first: data.exclude(...)"
        )
    size: Any
    names: Any
    if isinstance(origin, _Origin):  # sizes of an exported program may be symbols, which mean nothing outside of it
        size, names = [n if isinstance(n, int) else 0 for n in origin.size], origin.names
    else:
        ndim, names = origin
        size = [0] * ndim
    return dict(zip(_DUMPED, (keys, device and str(device), objects and tuple(objects), size, names), strict=True))


def _restored(cls: type[TensorCollection]) -> Callable[[dict[str, Any]], Context]:
    def context(dumped: dict[str, Any]) -> Context:
        keys, device, objects, size, names = (dumped[name] for name in _DUMPED)
        return (
            cls,
            tuple(keys),
            None if device is None else torch.device(device),
            None if objects is None else tuple(objects),
            _Origin(Size(size), None if names is None else tuple(names)),
        )

    return context


# -- registration -----------------------------------------------------------------------------------------------------

Slots = dict[str, Any]

#: for each class that is flattened to its values: the class that unflattening makes (``None``: the instance tells), the
#: slots with content other than the store, and slots to which each copy gives a value of its own
NODE_CLASSES: dict[type[Any], tuple[type[Any] | None, tuple[str, ...], Slots]] = {}


def _node_class(cls: type[Any]) -> tuple[type[Any] | None, tuple[str, ...], Slots]:
    """Return the entry of a class in :data:`NODE_CLASSES`: a class on another store becomes one on a plain dict."""
    made: type[Any] | None = None if cls.__dictoffset__ else getattr(cls, "_dense", cls)
    if hasattr(cls, "_objects"):
        return made, ("_objects",), {"_metadata": None}
    return made, (), {}


def register(
    cls: type[Collection],
    flatten: Callable[[Any], Any] = _flatten,
    unflatten: Callable[[Any, Any], Any] = _unflatten,
    flatten_with_keys: Callable[[Any], Any] = _flatten_with_keys,
    *,
    entries: Callable[[Any], tuple[str, ...]] | None = None,
    slots: tuple[str, ...] = (),
    new_slots: Slots | None = None,
    to_text: Callable[[Any], dict[str, Any]] | None = None,
    from_text: Callable[[dict[str, Any]], Any] | None = None,
) -> bool:
    """Register a class as a node of pytrees, and for processes to send by one handle.

    Every concrete class of collections is registered when it is defined.

    Args:
        cls: the class.
        flatten, unflatten, flatten_with_keys: as torch takes them.
        entries: returns the names of the leaves, for optree. Default: the keys of the store.
        slots: content of a leaf beside its store, which :mod:`~tensorclass.td.vmapping` hands on.
        new_slots: slots that its copies have with other content.
        to_text, from_text: turn a context into JSON and back, for a class with functions of its own.

    Returns:
        ``False`` for the empty class that cloudpickle makes first, which is left out: see :class:`_Registration`.
    """
    if _is_skeleton():
        return False
    functions = flatten, unflatten, flatten_with_keys
    options: dict[str, Any] = {
        "entries": entries, "slots": slots, "new_slots": new_slots, "to_text": to_text, "from_text": from_text,
    }  # fmt: skip
    type.__setattr__(cls, "__registration__", _Registration(cls, functions, options))
    as_text: dict[str, Any] = {}
    if flatten is _flatten:
        NODE_CLASSES[cls] = _node_class(cls)
        dense = cast("type[TensorCollection]", getattr(cls, "_dense", cls))
        store = "" if dense is cls else f"[{cls.__mro__[1].__name__}]"
        as_text = {
            "serialized_type_name": f"{cls.__module__}.{cls.__qualname__}{store}",
            "to_dumpable_context": _dumpable,
            "from_dumpable_context": _restored(dense),
        }
    elif to_text is not None and from_text is not None:
        as_text = {
            "serialized_type_name": f"{cls.__module__}.{cls.__qualname__}",
            "to_dumpable_context": to_text,
            "from_dumpable_context": from_text,
        }
    if slots:
        NODE_CLASSES[cls] = (cls, slots, new_slots or {})
    multiprocessing_reducers.register(cls)
    _pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys, **as_text)
    optree_nodes.register_with_optree(cls, flatten, unflatten, entries)
    return True


class _Registration:
    """The attribute ``__registration__`` of a registered class: unpickling it registers the class.

    cloudpickle pickles a class that is defined in a function, or in ``__main__``, with its attributes. Each time it
    loads one it makes an empty class first, and drops it again if it has loaded the class before. The registries would
    keep each of those empty classes, so :func:`register` leaves them out, and the class is registered from here.
    """

    __slots__ = ("cls", "functions", "options")

    def __init__(self, cls: type[Any], functions: tuple[Callable[..., Any], ...], options: dict[str, Any]) -> None:
        self.cls = cls
        self.functions = functions
        self.options = options

    def __reduce__(self) -> Any:
        dense = vars(self.cls).get("_dense")
        return _register_loaded, (self.cls, dense, self.functions, self.options, is_allowed(self.cls))


def _register_loaded(
    cls: type[Any],
    dense: type[Any] | None,
    functions: Iterable[Callable[..., Any]],
    options: dict[str, Any],
    allowed: bool,
) -> _Registration:
    """Register a class that cloudpickle is loading, unless it was loaded before."""
    if "__registration__" not in vars(cls):
        if dense is not None:  # its other attributes are set later
            cls._dense = dense
        register(cls, *functions, **options)
        if allowed:
            allow_class(cls)
    registration: _Registration = vars(cls)["__registration__"]
    return registration


def _is_skeleton() -> bool:
    """Return whether cloudpickle, or a copy of it in another package, is making an empty class."""
    frame: Any = sys._getframe(2)
    for _ in range(_FRAMES_TO_SKELETON):
        if frame is None:
            return False
        if frame.f_code.co_name == "_make_skeleton_class":
            return True
        frame = frame.f_back
    return False


#: the calls between ``_make_skeleton_class`` and :func:`register`, with some to spare for metaclasses
_FRAMES_TO_SKELETON = 10


def forget_class(cls: type[Any]) -> None:
    """Unregister a class of collections, so that it is freed like any other class if nothing else refers to it.

    torch keeps registered classes, so a record class that is defined in a function, or repeatedly in a notebook, lives
    as long as the program. Afterwards pytrees treat instances of the class, and of those derived from it, as leaves.

    Args:
        cls: the class. Nothing happens if it is not registered any more.

    Raises:
        TypeError: it is not a class of collections, or it belongs to this package.

    Example:
        >>> import gc, weakref
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> def train() -> weakref.ref[type]:
        ...     class Sample(TensorClass):
        ...         x: Tensor
        ...
        ...     forget_class(Sample)
        ...     return weakref.ref(Sample)
        >>> freed = train()
        >>> _ = gc.collect()
        >>> freed() is None
        True
    """
    if not isinstance(cls, type) or not issubclass(cls, Collection):
        raise TypeError(f"forget_class: expected a class of collections, got {cls!r}")
    package = __name__.partition(".")[0]
    module = sys.modules.get(cls.__module__) if cls.__module__.partition(".")[0] == package else None
    if getattr(module, cls.__qualname__, None) is cls:
        raise TypeError(f"forget_class: {class_name(cls)} is a class of {package}, which needs it")
    given: Any = cls
    found: list[type[Any]] = [registry.dense_class(given)]
    for known in found:  # grows during the loop
        _forget(known)
        found += known.__subclasses__()  # among them the class on other stores


def _forget(cls: type[Any]) -> None:
    NODE_CLASSES.pop(cls, None)
    multiprocessing_reducers.forget(cls)
    optree_nodes.unregister_from_optree(cls)
    registry: Any = _pytree  # its own function to unregister fails for two classes of one name
    with registry._NODE_REGISTRY_LOCK:
        if "__registration__" in vars(cls):
            del cls.__registration__
        registry.SUPPORTED_NODES.pop(cls, None)
        said = registry.SUPPORTED_SERIALIZED_TYPES.pop(cls, None)
        named: dict[str, Any] = registry.SERIALIZED_TYPE_TO_PYTHON_TYPE
        if said is not None and named.get(said.serialized_type_name) is cls:
            del named[said.serialized_type_name]
            source: str = getattr(getattr(vars(cls).get("__init__"), "__code__", None), "co_filename", "")
            if source.startswith("<generated "):
                linecache.cache.pop(source, None)
