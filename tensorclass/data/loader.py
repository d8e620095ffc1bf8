"""Datasets whose samples are records, and a data loader that says what it yields.

What becomes one batch of samples is made as one record: its fields are joined column by column and checked once. Only
where something does not fit are the samples looked at one by one, to say which of them it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar, cast, overload

from torch import Size, Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from tensorclass.contracts.checking import inferred_size
from tensorclass.convert.conversion_errors import ConversionError, Problem
from tensorclass.convert.conversion_options import ConversionOptions
from tensorclass.convert.conversion_steps import build_nested, convert_entries
from tensorclass.convert.conversion_targets import entries
from tensorclass.convert.python.class_adapters import PLAIN
from tensorclass.records.fields import shown_value
from tensorclass.records.record import TensorClass
from tensorclass.support.help_links import no_dataset
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.dataset import Keys, Numbers, Ragged
from tensorclass.td.keys import NestedKey

from .collate import SampleJoiner, SampleMismatch, declared_column

if TYPE_CHECKING:
    from torch import Generator
    from torch.utils.data import DataLoader as _DataLoader
    from torch.utils.data import Sampler

C = TypeVar("C", bound=TensorCollection)
B = TypeVar("B", covariant=True)
R = TypeVar("R", bound=TensorCollection)
S = TypeVar("S")

Path = tuple[str, ...]


# -- the loader -------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:

    class DataLoader(_DataLoader[B]):
        """``torch.utils.data.DataLoader``, of which type checkers know what it yields.

        A loader of records (a record, a list of them, a :class:`RecordDataset`, any ``Dataset[Sample]``) yields records
        of their class, one with ``collate_fn`` what that returns. Where that is unknown, say it:
        ``DataLoader[Sample](dataset, collate_fn=...)``. When the program runs, this *is* torch's class.
        """

        # written out four times: ty reports no wrong keywords where they are a TypedDict

        @overload
        def __init__(
            self: DataLoader[R],
            dataset: Dataset[R] | Sequence[R] | R,
            batch_size: int | None = 1,
            shuffle: bool | None = None,
            sampler: Sampler[Any] | Iterable[Any] | None = None,
            batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
            num_workers: int = 0,
            collate_fn: None = None,
            pin_memory: bool = False,
            drop_last: bool = False,
            timeout: float = 0,
            worker_init_fn: Callable[[int], None] | None = None,
            multiprocessing_context: Any = None,
            generator: Generator | None = None,
            *,
            prefetch_factor: int | None = None,
            persistent_workers: bool = False,
            pin_memory_device: str = "",
            in_order: bool = True,
        ) -> None: ...
        @overload
        def __init__(
            self,
            dataset: RecordDataset[R] | R,
            batch_size: int | None = 1,
            shuffle: bool | None = None,
            sampler: Sampler[Any] | Iterable[Any] | None = None,
            batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
            num_workers: int = 0,
            *,
            collate_fn: Callable[[R], B],
            pin_memory: bool = False,
            drop_last: bool = False,
            timeout: float = 0,
            worker_init_fn: Callable[[int], None] | None = None,
            multiprocessing_context: Any = None,
            generator: Generator | None = None,
            prefetch_factor: int | None = None,
            persistent_workers: bool = False,
            pin_memory_device: str = "",
            in_order: bool = True,
        ) -> None: ...
        @overload
        def __init__(
            self,
            dataset: Dataset[S] | Sequence[S],
            batch_size: int | None = 1,
            shuffle: bool | None = None,
            sampler: Sampler[Any] | Iterable[Any] | None = None,
            batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
            num_workers: int = 0,
            *,
            collate_fn: Callable[[list[S]], B],
            pin_memory: bool = False,
            drop_last: bool = False,
            timeout: float = 0,
            worker_init_fn: Callable[[int], None] | None = None,
            multiprocessing_context: Any = None,
            generator: Generator | None = None,
            prefetch_factor: int | None = None,
            persistent_workers: bool = False,
            pin_memory_device: str = "",
            in_order: bool = True,
        ) -> None: ...
        @overload
        def __init__(  # pyright: ignore[reportOverlappingOverload]
            self: DataLoader[Any],
            dataset: Dataset[Any] | Sequence[Any],
            batch_size: int | None = 1,
            shuffle: bool | None = None,
            sampler: Sampler[Any] | Iterable[Any] | None = None,
            batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
            num_workers: int = 0,
            collate_fn: None = None,
            pin_memory: bool = False,
            drop_last: bool = False,
            timeout: float = 0,
            worker_init_fn: Callable[[int], None] | None = None,
            multiprocessing_context: Any = None,
            generator: Generator | None = None,
            *,
            prefetch_factor: int | None = None,
            persistent_workers: bool = False,
            pin_memory_device: str = "",
            in_order: bool = True,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def __iter__(self) -> Iterator[B]: ...  # type: ignore[override]

else:
    from torch.utils.data import DataLoader


# -- datasets ---------------------------------------------------------------------------------------------------------


class SampleSource(Protocol):
    """An object that returns a sample for an index: a ``torch.utils.data.Dataset``, a list, a Hugging Face dataset."""

    def __getitem__(self, index: int, /) -> Any: ...


#: values of these classes need no conversion
_WHOLE = (PLAIN | {Tensor}) - {list}
_NAMES = frozenset((str,))
_ONLY_DICTS = frozenset((dict,))


class _SampleValues(NamedTuple):
    """The values of a sample by key, and its batch size if it is a collection."""

    values: dict[Any, Any]
    size: Size | None = None


class _Options(NamedTuple):
    """Options for turning samples into records of a class."""

    cls: Any
    what: str
    keys: Sequence[NestedKey] | Mapping[Any, NestedKey] | None
    transform: Callable[[Any], Any] | None
    strict: bool

    @staticmethod
    def of(kind: type, cls: Any, keys: Any, transform: Any, strict: bool) -> _Options:
        if not isinstance(cls, type) or not issubclass(cls, TensorCollection):
            raise TypeError(f"{class_name(kind)}: expected a class of records, or TensorDict, got {cls!r}")
        if isinstance(keys, str):
            raise TypeError(f"{class_name(kind)}: expected keys in a list, or by the keys of the samples, got {keys!r}")
        return _Options(cls, f"{class_name(kind)}({class_name(cls)})", keys, transform, strict)

    def parts(self, given: Any, index: int) -> _SampleValues:
        """Return the values of a sample, under the keys that they have in the record."""
        sample: object = given if self.transform is None else self.transform(given)
        kind: type = type(sample)
        if kind is dict and self.keys is None:
            return _SampleValues(cast("dict[Any, Any]", sample))
        if isinstance(sample, (tuple, list)) and not hasattr(cast("object", sample), "_fields"):
            items, names = cast("Sequence[object]", sample), self._positions()
            if len(items) > len(names):
                raise self._problem(index, f"at most {len(names)} items, {names}", f"{len(items)}")
            return _SampleValues(dict(zip(names, items, strict=False)))
        size = sample.batch_size if isinstance(sample, TensorCollection) else None
        found: dict[Any, Any] | None = dict(sample._store) if isinstance(sample, TensorCollection) else entries(sample)
        if found is None:
            expected = "a mapping, a (named) tuple, a dataclass or a collection"
            raise self._problem(index, expected, shown_value(sample), "transform= can make one of it")
        if isinstance(self.keys, Mapping):
            return _SampleValues({self.keys.get(key, key): value for key, value in found.items()}, size)
        if self.keys is not None:
            expected = f"a tuple with items for keys={list(self.keys)}"
            raise self._problem(index, expected, shown_value(sample), "give keys={its key: the field} for others")
        return _SampleValues(found, size)

    def _positions(self) -> list[NestedKey]:
        """Return the keys for the items of a tuple."""
        if self.keys is not None and not isinstance(self.keys, Mapping):
            return list(self.keys)
        names: list[NestedKey]
        if issubclass(self.cls, TensorClass):
            names = [name for name, spec in self.cls._specs.items() if spec.init]
        else:
            raise TypeError(f"{self.what}: the items of tuples have no keys; give keys=[...], one for each item")
        if isinstance(self.keys, Mapping):
            raise TypeError(f"{self.what}: the items of tuples are named by a list, keys={names}; got a mapping")
        return names

    def plan(self, size: Size | None) -> ConversionOptions:
        return ConversionOptions.of(self.what, batch_size=size, strict=self.strict)

    def record(self, parts: _SampleValues, index: int, left_out: set[Path]) -> Any:
        """Return the record of one sample."""
        asked, where = self.plan(self._size(parts)), (f"[{index}]",)
        values = convert_entries(parts.values, self.cls, asked, where)
        for name, value in values.items():
            if value is None and (column := declared_column(self.cls, name)) is not None:
                values[name] = column.made([None], Size((1,)))._index_value(0)  # a row without a value can be stacked
        result = build_nested(self.cls, values, asked, where)
        self.finish(asked, left_out)
        return result

    def _size(self, parts: _SampleValues) -> Size | None:
        """Return the batch size of a sample; ``()`` for values that are one row of each field that holds a column."""
        if parts.size is not None or not issubclass(self.cls, TensorClass):
            return parts.size
        declared = [(spec.column, parts.values.get(name)) for name, spec in self.cls._specs.items()]
        sizes = [column.implied_size(value) for column, value in declared if column is not None]
        return Size(()) if sizes and not any(size and size.numel() for size in sizes) else None

    def takes_whole(self, samples: list[Any]) -> bool:
        """Return whether samples are dicts that are the values of records as they are."""
        return self.transform is None and self.keys is None and _ONLY_DICTS.issuperset(map(type, samples))

    def batch(
        self, values: list[dict[Any, Any]], sizes: list[Size | None] | None, ragged: Ragged, left_out: set[Path]
    ) -> Any:
        """Return the record of several samples.

        Args:
            values: the values of each sample by key.
            sizes: the batch size of each sample. Default: none is a collection.
        """
        rows = values
        entering = chain.from_iterable([row.values() for row in rows])
        if not (_WHOLE.issuperset(map(type, entering)) and _NAMES.issuperset(map(type, chain.from_iterable(rows)))):
            single = self.plan(None)
            rows = [convert_entries(row, self.cls, single) for row in rows]
            single.problems.check()
        columns = SampleJoiner(self.cls, ragged, len(rows)).join(rows)
        inner: Size | None = None
        if sizes is not None:
            inner = sizes[0]
            if len({*sizes}) > 1:
                position, other = next((position, size) for position, size in enumerate(sizes) if size != inner)
                raise SampleMismatch(position, (), f"a batch size {list(inner or ())}", f"{list(other or ())}")
        size: Size | None = None
        if inner is None and issubclass(self.cls, TensorClass) and self.cls._item_ranks:
            size = inferred_size(self.cls._item_ranks, columns)
        asked = self.plan(Size((len(rows), *(inner or ()))) if size is None else size)
        result = build_nested(self.cls, columns, asked)
        self.finish(asked, left_out)
        return result

    @staticmethod
    def finish(asked: ConversionOptions, left_out: set[Path]) -> None:
        """Raises an error for what is wrong, and warns of keys that were left out, once for each."""
        asked.problems.check()
        if not asked.problems.left_out.keys() <= left_out:
            left_out.update(asked.problems.left_out)
            asked.problems.warn()

    def _problem(self, index: int, expected: str, got: str, hint: str = "") -> ConversionError:
        return ConversionError(self.what, [Problem((f"[{index}]",), expected, got, hint)])


class RecordDataset(Dataset[C]):
    """A dataset that converts the samples of another dataset to records.

    ``dataset[3]`` is the record of one sample. A ``DataLoader`` gets each batch as one record, without collating:
    tensors and numbers are stacked, objects such as text have an item for each sample.

    Args:
        cls: the class of the records, or :class:`TensorDict`.
        source: the samples: a map-style ``torch.utils.data.Dataset``, a list, or a Hugging Face dataset. Samples
            are mappings, tuples, named tuples, dataclasses or collections. Items of tuples go to the fields in order.
        keys: the fields of the items of tuples, ``["image", "label"]``; or the fields of keys that have other names,
            ``{"img": "image"}``.
        transform: a function that is called with each sample first. It must be picklable if worker processes are
            spawned.
        strict: ``False`` drops keys that are not fields, and warns about them.
        pad_keys, nested_keys, mask_key, padding_side: for fields whose first dimension has another length in each
            sample, as for :func:`collate`. The field of a mask needs a default, because single samples have no mask.

    Raises:
        ConversionError: a sample (its index is named) lacks a field, or has one too many, or a value that the field
            does not take; or the samples of a batch differ in dtypes or shapes.
        ContractError: a value breaks the contract of its field.

    Example:
        >>> import torch
        >>> from torch import Tensor
        >>> from torch.utils.data import TensorDataset
        >>> from tensorclass import DataLoader, RecordDataset, TensorClass
        >>> class Sample(TensorClass):
        ...     image: Tensor
        ...     label: Tensor
        >>> dataset = RecordDataset(Sample, TensorDataset(torch.zeros(100, 3, 8, 8), torch.arange(100)))
        >>> for batch in DataLoader(dataset, batch_size=50):
        ...     print(type(batch).__name__, batch.image.shape)
        Sample torch.Size([50, 3, 8, 8])
        Sample torch.Size([50, 3, 8, 8])
    """

    def __init__(
        self,
        cls: type[C],
        source: SampleSource,
        *,
        keys: Sequence[NestedKey] | Mapping[Any, NestedKey] | None = None,
        transform: Callable[[Any], Any] | None = None,
        strict: bool = True,
        pad_keys: Numbers | None = None,
        nested_keys: Sequence[NestedKey] | None = None,
        mask_key: NestedKey | Keys | None = None,
        padding_side: Literal["right", "left"] = "right",
    ) -> None:
        self._options = _Options.of(RecordDataset, cls, keys, transform, strict)
        kind = type(source)
        if not hasattr(source, "__getitem__") or issubclass(kind, IterableDataset):
            raise TypeError(
                f"{self._options.what}: expected a source with a sample for each index, got a {kind.__name__}; "
                "RecordStream takes what is iterated over"
            )
        if isinstance(source, TensorCollection) and not source.batch_size:
            raise TypeError(f"{self._options.what}: {no_dataset(source)}")
        self.source: SampleSource = source
        self._ragged = Ragged.of(pad_keys, nested_keys, mask_key, padding_side)
        self._left_out: set[Path] = set()

    def __len__(self) -> int:
        return len(cast("Sequence[Any]", self.source))

    def __getitem__(self, index: int) -> C:
        options = self._options
        record: C = options.record(options.parts(self.source[index], index), index, self._left_out)
        return record

    def __getitems__(self, indices: list[int]) -> C:
        """The samples at some indices, as one record; a ``DataLoader`` asks for a batch so."""
        if not indices:
            raise ValueError(f"{self._options.what}: expected at least one index for a batch, got none")
        fetch = getattr(self.source, "__getitems__", None)
        samples: list[Any] = [self.source[index] for index in indices] if fetch is None else list(fetch(indices))
        options, rows = self._options, list[_SampleValues]()
        values, sizes = samples, None
        if len(samples) != len(indices) or not options.takes_whole(samples):
            rows = [options.parts(sample, index) for sample, index in zip(samples, indices, strict=True)]
            values, sizes = [row.values for row in rows], [row.size for row in rows]
        try:
            result: C = options.batch(values, sizes, self._ragged, self._left_out)
        except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:
            wrong = error
        else:
            return result
        self._explain(rows or [_SampleValues(sample) for sample in samples], indices, wrong)

    def _explain(self, rows: list[_SampleValues], indices: list[int], error: Exception) -> NoReturn:
        """Raises the error of the sample that is to blame, where it is one."""
        for row, index in zip(rows, indices, strict=True):
            self._options.record(row, index, self._left_out)
        if isinstance(error, SampleMismatch):
            where, expected = f"[{indices[error.position]}]", f"{error.expected}, as [{indices[0]}] has"
            raise ConversionError(self._options.what, [Problem((where, *error.path), expected, error.got, error.hint)])
        raise error

    def __repr__(self) -> str:
        return f"RecordDataset({class_name(self._options.cls)}, {self.source!r})"


class RecordStream(IterableDataset[C]):
    """An iterable dataset that converts the samples of another one to records.

    A source that is an iterable dataset splits its samples among worker processes by itself. From any other iterable,
    worker ``i`` of ``n`` takes each ``n``-th sample, starting with the ``i``-th.

    Args:
        cls: the class of the records, or :class:`TensorDict`.
        source: an iterable ``torch.utils.data.IterableDataset`` (such as a streamed Hugging Face dataset), or another
            iterable of samples.
        keys, transform, strict: as for :class:`RecordDataset`.

    Raises:
        ConversionError: a sample (its position is named) cannot be a record.

    Example:
        >>> from torch import Tensor
        >>> from tensorclass import DataLoader, RecordStream, TensorClass
        >>> class Sample(TensorClass):
        ...     x: Tensor
        >>> stream = RecordStream(Sample, [{"x": 1.0}, {"x": 2.0}, {"x": 3.0}])
        >>> [batch.x.tolist() for batch in DataLoader(stream, batch_size=2)]
        [[1.0, 2.0], [3.0]]
    """

    def __init__(
        self,
        cls: type[C],
        source: Iterable[Any],
        *,
        keys: Sequence[NestedKey] | Mapping[Any, NestedKey] | None = None,
        transform: Callable[[Any], Any] | None = None,
        strict: bool = True,
    ) -> None:
        self._options = _Options.of(RecordStream, cls, keys, transform, strict)
        if not hasattr(source, "__iter__"):
            raise TypeError(
                f"{self._options.what}: expected an iterable of samples, got a {type_name(source)}; RecordDataset "
                "takes what has a sample for each index"
            )
        self.source: Iterable[Any] = source
        self._left_out: set[Path] = set()

    def __len__(self) -> int:
        return len(cast("Sequence[Any]", self.source))

    def __iter__(self) -> Iterator[C]:
        options, worker = self._options, get_worker_info()
        samples: Iterable[tuple[int, Any]] = enumerate(self.source)
        if worker is not None and not isinstance(self.source, IterableDataset):
            samples = islice(samples, worker.id, None, worker.num_workers)
        for index, sample in samples:
            yield options.record(options.parts(sample, index), index, self._left_out)

    def __repr__(self) -> str:
        return f"RecordStream({class_name(self._options.cls)}, {self.source!r})"
