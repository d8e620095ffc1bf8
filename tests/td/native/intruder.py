"""Python code that runs in the middle of an operation, and changes the collections that the operation works on.

An :class:`Intruder` makes collections whose tensors each hold a number of their own, and remembers the states that each
of them has had: keys, numbers, batch sizes; no key and no value, which would then live on. :meth:`Intruder.possible`
gives the outcomes that an operation may have: one for each state that its collections had while it ran.
"""

from __future__ import annotations

import gc
import itertools
import weakref
import zlib
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tensorclass import LazyStackedTensorDict, NonTensorData, TensorClass, TensorDict
from tensorclass.td.collection import Collection
from tests.native_code import native_code

SIZE = (4, 3)

#: dtypes and last dimensions of tensors; a key has one of them, in every collection
KINDS: tuple[tuple[torch.dtype, tuple[int, ...]], ...] = (
    (torch.float32, ()),
    (torch.float32, (2,)),
    (torch.int64, ()),
    (torch.float64, (2,)),
)

#: more outcomes than these are not compared
MANY = 200


class Point(TensorClass):
    """A record."""

    x: Tensor
    y: Tensor


#: the intruder of the running operation
current: Intruder | None = None


def fire(*ignored: object) -> None:
    """Let the intruder in: called by everything that runs in the middle of an operation."""
    if current is not None:
        current.event()


def _collected(phase: str, info: dict[str, int]) -> None:
    if phase == "start":
        fire()


class Firing(Tensor):
    """A tensor whose functions run Python code."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fire()
        return super().__torch_function__(func, types, args, kwargs or {})


class Canary:
    """Something whose end runs Python code."""

    def __del__(self) -> None:
        fire()


class FiringKey(str):
    """A key that runs Python code where it is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        fire()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        fire()
        return str.__eq__(self, other)


class FiringInt:
    """An integer that runs Python code."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        fire()
        return self.value


class FiringMapping(UserDict[Any, Any]):
    """A mapping of the user's."""

    def __iter__(self) -> Iterator[Any]:
        for key in list(self.data):
            fire()
            yield key

    def __getitem__(self, key: Any) -> Any:
        fire()
        return self.data[key]

    def keys(self) -> Any:
        fire()
        return super().keys()


class History(NamedTuple):
    """The states that a collection has had."""

    form: str
    contents: list[Any]
    sizes: list[Any]


class Intruder:
    """Changes collections at some of the moments at which Python code runs during an operation.

    Args:
        seed: of all choices.
        moments: by how many moments at most the changes come late; they are early more often than late.
        reaches_results: whether collections that are not made by the intruder are changed, too: half-made results.
    """

    def __init__(self, seed: str, moments: int = 400, reaches_results: bool = False) -> None:
        self.rng = Random(seed)
        first = int(moments ** self.rng.random())
        self.schedule = {first, *(first + self.rng.randrange(1, 30) for _ in range(self.rng.choice((0, 0, 1, 2))))}
        self.reaches_results = reaches_results
        self.events = self.changes = 0
        self.done: list[str] = []
        self.kinds_of_changes: tuple[Change, ...] = CHANGES
        self.failure: Exception | None = None
        self.busy = True
        self.codes = itertools.count(1)
        self.aliases: dict[int, Tensor] = {}  # by number: the memory of each tensor, but not the tensor
        self.code_at: dict[int, int] = {}
        self.collections: list[weakref.ref[Any]] = []
        self.histories: list[History] = []
        self.lists: list[list[Any]] = []
        self.references: list[Any] = []

    # -- what it makes ------------------------------------------------------------------------------------------------

    def key(self) -> str:
        """A key that no other object has."""
        name = f"{self.rng.choice('aczkq')}{self.rng.randrange(9)}"
        return FiringKey(name) if self.rng.random() < 0.05 else name

    def tensor(self, key: str, size: tuple[int, ...] = SIZE) -> Tensor:
        """A tensor for a key: it holds a number of its own."""
        code = next(self.codes)
        value = tensor_of(code, kind_of(key), size)
        self.aliases[code] = value.detach()
        self.code_at[value.data_ptr()] = code
        kind = self.rng.random()
        if kind < 0.05:
            return value.as_subclass(Firing)
        if kind < 0.08 and value.is_floating_point():
            return value.requires_grad_()
        if kind < 0.2:
            value.canary = Canary()  # type: ignore[attr-defined]
        elif kind < 0.3:
            self.references.append(weakref.ref(value, fire))
        return value

    def collection(self, form: str) -> Any:
        """A collection of a form, with those inside of it."""
        if form == "lazy":
            parts = [self.collection("row") for _ in range(SIZE[0])]
            return self.register(LazyStackedTensorDict.lazy_stack(parts, 0), "lazy")
        if form == "record":
            return self.register(Point(self.tensor("x"), self.tensor("y"), batch_size=SIZE), "record")
        size = SIZE[1:] if form == "row" else SIZE
        made = TensorDict({}, size)
        for key in FORMS[form]:
            name = "".join(list(key))  # an object of its own
            made.set(name, self.tensor(name, size))
        if form == "nested":
            inner = self.collection("inner")
            inner.set("".join("d"), self.collection("row of all"))
            made.set("".join("inner"), inner)
            made.set("".join("p"), self.collection("record"))
            made.set("".join("a2"), self.tensor("a2"))
        if form == "objects":
            made.set("".join("o"), NonTensorData(f"object {next(self.codes)}", batch_size=SIZE))
            made.set("".join("a2"), self.tensor("a2"))
        return self.register(made, "row" if form == "row" else "dict")

    def register(self, collection: Any, form: str = "other") -> Any:
        """Have a collection changed, and return it."""
        self.histories.append(History(form, [], []))
        self.collections.append(weakref.ref(collection))
        return collection

    def register_all(self, value: Any) -> None:
        """Have the collections of all levels changed; their states are not followed."""
        if isinstance(value, Collection):
            self.register(value)
            store = value._store
            for below in list(store.values()) if isinstance(store, dict) else list(getattr(store, "parts", ())):
                self.register_all(below)

    # -- running ------------------------------------------------------------------------------------------------------

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Change collections during this block: at allocations, and whenever something fires."""
        global current
        for history in self.histories:
            history.contents.clear()
            history.sizes.clear()
        self._remember_all()
        current = self
        gc.callbacks.append(_collected)
        gc.set_threshold(1, 1000, 1000)
        self.busy = False
        try:
            yield
        finally:
            self.busy = True
            gc.set_threshold(700, 10, 10)
            gc.callbacks.remove(_collected)
            current = None
            if self.failure is not None:
                raise RuntimeError("the intruder has failed") from self.failure

    def event(self) -> None:
        """A moment at which Python code runs."""
        if self.busy:
            return
        self.events += 1
        if self.events not in self.schedule:
            return
        self.busy = True
        try:
            self.change()
        except Exception as error:  # a collector or a finalizer would only print it
            self.failure = error
        finally:
            self.busy = False

    def change(self) -> None:
        """Change something."""
        alive = [collection for ref in self.collections if (collection := ref()) is not None]
        if self.reaches_results:
            alive += [found for found in gc.get_objects(0) if issubclass(type(found), Collection)]
        if self.lists and self.rng.random() < 0.5:
            change_list(self, self.rng.choice(self.lists))
        elif alive:
            target = self.rng.choice(alive)
            with suppress(Exception):  # locked, or has no such key any more; some of it may be done
                change = self.rng.choice(self.kinds_of_changes)
                self.done.append(f"{change.__name__} at {self.events}")
                change(self, target)
        self.changes += 1
        self._remember_all()

    # -- states -------------------------------------------------------------------------------------------------------

    def _remember_all(self) -> None:
        for number, ref in enumerate(self.collections):
            collection = ref()
            if collection is not None:
                self._remember(number, collection)

    def _remember(self, number: int, collection: Any) -> None:
        history = self.histories[number]
        if history.form == "other":
            return
        entries = self._parts(collection) if history.form == "lazy" else self._entries(collection)
        if not history.contents or history.contents[-1] != entries:
            history.contents.append(entries)
        size = tuple(collection.batch_size)
        if size not in history.sizes:
            history.sizes.append(size)

    def _entries(self, collection: Any) -> Any:
        return tuple((str.encode(key), self._entry(value)) for key, value in collection._store.items())

    def _parts(self, collection: Any) -> Any:
        return tuple((b"", self._entry(part)) for part in collection.tensordicts)

    def _entry(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            code = self.code_at.get(value.data_ptr())
            return ("?",) if code is None else ("tensor", code)
        if isinstance(value, NonTensorData):
            return ("object", value.data, tuple(value.batch_size))
        number = self.number(value)
        return ("?",) if number is None else ("collection", number)

    def number(self, value: Any) -> int | None:
        """The number of a collection that is followed."""
        for number, ref in enumerate(self.collections):
            if ref() is value and self.histories[number].form != "other":
                return number
        return None

    def plans(self, number: int) -> list[Any] | None:
        """The trees that a collection has been: each level in one of its states. ``None``: not known, or too many."""
        history = self.histories[number]
        found: list[Any] = []
        for entries, size in itertools.product(history.contents, history.sizes):
            options: list[list[Any]] = []
            for _, entry in entries:
                below = self.plans(entry[1]) if entry[0] == "collection" else [entry]
                if entry[0] == "?" or below is None:
                    return None
                options.append(below)
            keys = [key for key, _ in entries]
            chosen = itertools.islice(itertools.product(*options), MANY + 1)
            found += [("tree", number, history.form, size, tuple(zip(keys, values, strict=True))) for values in chosen]
            if len(found) > MANY:
                return None
        return found

    def build(self, plan: Any, built: Built) -> Any:
        """Make a tree anew."""
        if plan[0] == "tensor":
            alias = self.aliases[plan[1]]
            value = torch.full(alias.shape, plan[1], dtype=alias.dtype)
            built.aliases[plan[1]] = value.detach()
            return value
        if plan[0] == "object":
            return NonTensorData(plan[1], batch_size=plan[2])
        _, number, form, size, entries = plan
        values = {key.decode(): self.build(below, built) for key, below in entries}
        made: Any
        if form == "lazy":
            made = LazyStackedTensorDict.lazy_stack([self.build(below, built) for _, below in entries], 0)
        else:
            made = Point(*[torch.zeros(size)] * 2, batch_size=size) if form == "record" else TensorDict({}, size)
            made._store.clear()  # a record can have lost a field, a batch size can be shorter than that around it
            made._store.update(values)
        built.collections[id(made)] = number
        built.kept.append(made)
        return made

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def outcome(self, result: Any, built: Built | None = None, by_value: bool = False) -> Any:
        """What an operation has returned, and what it has written to tensors; see :func:`content_of`."""
        aliases = self.aliases if built is None else built.aliases
        written = {
            code: content
            for code, alias in aliases.items()
            if (content := TensorContent.of(alias)).values != bytes_of(torch.full_like(alias, code))
        }
        number = self.number if built is None else lambda value: built.collections.get(id(value))
        return content_of(result, number, by_value), written

    def possible(
        self, operation: Callable[..., Any], collections: list[Any], by_value: bool = False
    ) -> list[Any] | None:
        """The outcomes of an operation for all states that its collections have had. ``None``: too many to compare."""
        options: list[list[Any]] = []
        for collection in collections:
            number = self.number(collection)
            plans = None if number is None else self.plans(number)
            if plans is None:
                return None
            options.append(plans)
        found: list[Any] = []
        for at, chosen in enumerate(itertools.product(*options)):
            if at > MANY:
                return None
            built = Built()
            with native_code(False):
                try:
                    made = operation(*[self.build(plan, built) for plan in chosen])
                    found.append(self.outcome(made, built, by_value))
                except Exception:  # no such state, or an error for this one
                    continue
        return found


class Built:
    """A tree that was made anew: the memory of its tensors by number, the numbers of its collections by id."""

    def __init__(self) -> None:
        self.aliases: dict[int, Tensor] = {}
        self.collections: dict[int, int] = {}
        self.kept: list[Any] = []


FORMS: dict[str, list[str]] = {
    "flat": ["a", "b", "z", "c1", "c2", "c3"],
    "wide": [f"k{i}" for i in range(40)] + ["a", "z"],
    "nested": ["z", "a", "c1"],
    "inner": ["c", "c4"],
    "row of all": ["e", "f"],
    "row": ["a", "z", "k1", "k2"],
    "objects": ["a", "z"],
}


def kind_of(key: str) -> tuple[torch.dtype, tuple[int, ...]]:
    """Dtype and last dimensions of the tensors of a key."""
    return KINDS[zlib.crc32(str.encode(key)) % len(KINDS)]


def tensor_of(code: int, kind: tuple[torch.dtype, tuple[int, ...]], size: tuple[int, ...]) -> Tensor:
    return torch.full((*size, *kind[1]), code, dtype=kind[0])


def bytes_of(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


class TensorContent(NamedTuple):
    """Dtype, shape and values of a tensor, printed in short."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    values: bytes

    @classmethod
    def of(cls, tensor: Tensor) -> TensorContent:
        return cls(tensor.dtype, tuple(tensor.shape), b"" if tensor.is_meta else bytes_of(tensor.contiguous()))

    def __repr__(self) -> str:
        numbers = torch.frombuffer(bytearray(self.values), dtype=self.dtype).tolist() if self.values else []
        first = ", ".join(f"{number:g}" for number in list(dict.fromkeys(numbers))[:5])
        return f"{str(self.dtype).removeprefix('torch.')}{[*self.shape]}({first})"


def content_of(value: Any, number: Callable[[Any], int | None], by_value: bool = False) -> Any:
    """Everything of a value that is compared. Collections that are followed are but named.

    ``by_value``: whether the order of keys, and whether a result is a lazy stack, is of no account.
    """
    if isinstance(value, Tensor):
        return TensorContent.of(value.detach().as_subclass(Tensor).resolve_conj().resolve_neg())
    if isinstance(value, Collection):
        known = number(value)
        if known is not None:
            return ("source", known)
        if isinstance(value, NonTensorData):
            return ("object", value.data)
        if by_value and isinstance(value, LazyStackedTensorDict):
            with suppress(RuntimeError):  # tensors of several shapes
                value = value.contiguous()
        if isinstance(value, LazyStackedTensorDict):
            entries = [content_of(part, number, by_value) for part in value.tensordicts]
        else:
            entries = [(str.encode(key), content_of(below, number, by_value)) for key, below in value._store.items()]
            entries = sorted(entries, key=lambda entry: entry[0]) if by_value else entries
        return (type(value).__name__, tuple(value.batch_size), *entries)
    if isinstance(value, dict):
        found = [(content_of(key, number), content_of(below, number, by_value)) for key, below in value.items()]
        return ("dict", *(sorted(found, key=lambda entry: repr(entry[0])) if by_value else found))
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *[content_of(below, number, by_value) for below in value])
    if isinstance(value, str):
        return str.encode(value)
    return value if isinstance(value, (bool, int, float, type(None))) else type(value).__name__


# -- changes ----------------------------------------------------------------------------------------------------------

Change = Callable[[Intruder, Any], object]


def _any_key(intruder: Intruder, collection: Any) -> str:
    return intruder.rng.choice(list(collection.keys()))


def _size(collection: Any) -> tuple[int, ...]:
    return tuple(collection.batch_size)


def pop(intruder: Intruder, collection: Any) -> None:
    collection.pop(_any_key(intruder, collection))


def add(intruder: Intruder, collection: Any) -> None:
    key = intruder.key()
    collection.set(key, intruder.tensor(key, _size(collection)))


def add_many(intruder: Intruder, collection: Any) -> None:
    for number in range(40):
        key = f"many{number}"
        collection.set(key, intruder.tensor(key, _size(collection)))


def pop_and_add(intruder: Intruder, collection: Any) -> None:
    pop(intruder, collection)
    add(intruder, collection)


def replace(intruder: Intruder, collection: Any) -> None:
    key = _any_key(intruder, collection)
    collection.set(key, intruder.tensor(key, _size(collection)))


def rename(intruder: Intruder, collection: Any) -> None:
    collection.rename_key_(_any_key(intruder, collection), intruder.key())


def clear(intruder: Intruder, collection: Any) -> None:
    for key in list(collection.keys()):
        del collection[key]


def refill(intruder: Intruder, collection: Any) -> None:
    """The same keys in another order, with other values."""
    keys = list(collection.keys())
    clear(intruder, collection)
    intruder.rng.shuffle(keys)
    for key in keys:
        name = "".join(list(key))
        collection.set(name, intruder.tensor(name, _size(collection)))


def swap(intruder: Intruder, collection: Any) -> None:
    one, other = intruder.rng.sample(list(collection.keys()), 2)
    first, second = collection.pop(one), collection.pop(other)
    collection.set(one, second)
    collection.set(other, first)


def nest(intruder: Intruder, collection: Any) -> None:
    """A collection in the place of a tensor."""
    below = intruder.register(TensorDict({}, _size(collection)), "dict")
    add(intruder, below)
    collection.set(_any_key(intruder, collection), below)


def unnest(intruder: Intruder, collection: Any) -> None:
    """A tensor in the place of a collection."""
    for key, value in list(collection.items()):
        if isinstance(value, Collection):
            collection.set(key, intruder.tensor(key, _size(collection)))


def resize(intruder: Intruder, collection: Any) -> None:
    collection.batch_size = SIZE[: intruder.rng.randrange(3)]


def lock(intruder: Intruder, collection: Any) -> None:
    collection.unlock_() if collection.is_locked else collection.lock_()


def change_list(intruder: Intruder, items: list[Any]) -> None:
    kind = intruder.rng.randrange(4)
    if kind == 0 and items:
        items.pop()
    elif kind == 1:
        items.clear()
    elif kind == 2 and items:
        items[intruder.rng.randrange(len(items))] = intruder.collection("flat")
    else:
        items.extend([intruder.collection("flat") for _ in range(9)])


CHANGES: tuple[Change, ...] = (
    pop, pop, add, add_many, pop_and_add, pop_and_add, replace, replace, rename, rename, clear, refill, swap, nest,
    unnest, resize, lock,
)  # fmt: skip
