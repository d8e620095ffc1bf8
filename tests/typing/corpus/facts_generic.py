"""The same facts for any record: functions of a type variable."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
from records import Box, Sample
from torch import Tensor
from typing_extensions import assert_type

import tensorclass
from tensorclass import TensorClass, TensorCollection

T = TypeVar("T", bound=TensorClass)
C = TypeVar("C", bound=TensorCollection)


def operations(record: T, mask: Tensor) -> T:
    assert_type(record[0], T)
    assert_type(record[mask], T)
    assert_type(record[1:, None], T)
    assert_type(record.reshape(-1), T)
    assert_type(record.view(-1), T)
    assert_type(record.permute(1, 0), T)
    assert_type(record.to("cpu"), T)
    assert_type(record.to(torch.float64), T)
    assert_type(record + 1, T)
    assert_type(1 + record, T)
    assert_type(record + record, T)
    assert_type(record == record, T)
    assert_type(record < 1, T)
    assert_type(record.exp(), T)
    assert_type(record.mul(record), T)
    assert_type(record.sum(0), T)
    assert_type(record.clone(), T)
    assert_type(record.unbind(0), tuple[T, ...])
    assert_type(record.split(2), tuple[T, ...])
    assert_type(record.apply(torch.zeros_like), T)
    assert_type(record.update(record), T)
    assert_type(record.load_state_dict(record.state_dict()), T)
    assert_type(tensorclass.stack([record, record]), T)
    assert_type(tensorclass.cat([record, record]), T)
    assert_type(type(record).stack([record]), T)
    # a name of the type takes them; what the checkers show for such an expression differs
    result: T = -record
    for row in record:
        result = row
    with record.unlock_() as free:
        result = free
    return result


def collections(collection: C) -> C:
    assert_type(collection[0], C)
    assert_type(collection + 1, C)
    assert_type(collection.exp(), C)
    assert_type(collection.batch_size, torch.Size)
    return collection


def loaded(rows: Iterable[T], size: int) -> Iterator[T]:
    block: list[T] = []
    for row in rows:
        block.append(row)
        if len(block) == size:
            yield tensorclass.stack(block)
            block = []


def mapped(function: Callable[[T], Tensor], records: Sequence[T]) -> list[Tensor]:
    return [function(record) for record in records]


def made(kind: type[T], values: dict[str, Tensor]) -> T:
    return kind.from_dict(values)


def uses(batch: Sample, box: Box) -> None:
    assert_type(list(loaded(batch, 2)), list[Sample])
    assert_type(next(loaded([box, box], 2)), Box)
    assert_type(mapped(lambda record: record.image, list(batch)), list[Tensor])
    assert_type(made(Sample, {"image": batch.image, "label": batch.label}), Sample)
