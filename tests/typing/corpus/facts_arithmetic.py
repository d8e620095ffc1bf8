"""Arithmetic and comparison give records of the same class, both ways round."""

import torch
from records import Box, Described, Flags, Sample, Twins
from torch import Tensor
from typing_extensions import assert_type


def with_numbers(batch: Sample, described: Described, box: Box) -> None:
    assert_type(batch + 1, Sample)
    assert_type(batch - 1, Sample)
    assert_type(batch * 2, Sample)
    assert_type(batch / 2, Sample)
    assert_type(batch // 2, Sample)
    assert_type(batch % 2, Sample)
    assert_type(batch**2, Sample)
    assert_type(batch + 1.5, Sample)
    assert_type(described + 1, Described)
    assert_type(box * 2.0, Box)


def numbers_first(batch: Sample, described: Described, box: Box) -> None:
    assert_type(1 + batch, Sample)
    assert_type(1 - batch, Sample)
    assert_type(2 * batch, Sample)
    assert_type(2 / batch, Sample)
    assert_type(2 // batch, Sample)
    assert_type(2 % batch, Sample)
    assert_type(2**batch, Sample)
    assert_type(1.5 - batch, Sample)
    assert_type(1 - described, Described)
    assert_type(2.0 * box, Box)


def with_records(batch: Sample, box: Box, twins: Twins) -> None:
    assert_type(batch + batch, Sample)
    assert_type(batch - batch, Sample)
    assert_type(batch * batch, Sample)
    assert_type(batch / batch, Sample)
    assert_type(batch // batch, Sample)
    assert_type(batch % batch, Sample)
    assert_type(batch**batch, Sample)
    assert_type(box - box, Box)
    assert_type((batch + batch) / 2, Sample)
    assert_type(twins + twins, Twins)


def with_tensors(batch: Sample, x: Tensor) -> None:
    assert_type(batch + x, Sample)
    assert_type(batch - x, Sample)
    assert_type(batch * x, Sample)
    assert_type(batch / x, Sample)
    assert_type(batch + torch.tensor(1.0), Sample)


def signs(batch: Sample, flags: Flags, box: Box) -> None:
    assert_type(-batch, Sample)
    assert_type(+batch, Sample)
    assert_type(abs(batch), Sample)
    assert_type(~flags, Flags)
    assert_type(-box, Box)


def comparison(batch: Sample, box: Box, x: Tensor) -> None:
    assert_type(batch == batch, Sample)
    assert_type(batch != batch, Sample)
    assert_type(batch == 1, Sample)
    assert_type(batch != 1, Sample)
    assert_type(batch == x, Sample)
    assert_type(batch < batch, Sample)
    assert_type(batch <= batch, Sample)
    assert_type(batch > batch, Sample)
    assert_type(batch >= batch, Sample)
    assert_type(batch < 1, Sample)
    assert_type(batch >= 0.5, Sample)
    assert_type(1 < batch, Sample)  # noqa: SIM300
    assert_type(1.0 >= batch, Sample)  # noqa: SIM300
    assert_type(box == box, Box)
    assert_type((batch == batch).all(), bool)


def logic(flags: Flags) -> None:
    assert_type(flags & flags, Flags)
    assert_type(flags | flags, Flags)
    assert_type(flags ^ flags, Flags)
    assert_type(flags & True, Flags)
    assert_type(True & flags, Flags)
    assert_type(True | flags, Flags)
    assert_type(True ^ flags, Flags)
    assert_type(flags.logical_and(flags), Flags)
    assert_type(flags.logical_or(flags), Flags)
    assert_type(flags.logical_not(), Flags)
    assert_type(flags.bitwise_not(), Flags)


def in_place(batch: Sample, flags: Flags) -> None:
    batch += 1
    assert_type(batch, Sample)
    batch -= 1
    assert_type(batch, Sample)
    batch *= 2
    assert_type(batch, Sample)
    batch /= 2
    assert_type(batch, Sample)
    batch **= 2
    assert_type(batch, Sample)
    batch += batch
    assert_type(batch, Sample)
    assert_type(batch.add_(1), Sample)
    assert_type(batch.mul_(batch), Sample)
    assert_type(batch.zero_(), Sample)
    assert_type(batch.clamp_max_(1.0), Sample)


def functions_of_one(batch: Sample, box: Box) -> None:
    assert_type(batch.abs(), Sample)
    assert_type(batch.neg(), Sample)
    assert_type(batch.exp(), Sample)
    assert_type(batch.log(), Sample)
    assert_type(batch.sqrt(), Sample)
    assert_type(batch.sigmoid(), Sample)
    assert_type(batch.tanh(), Sample)
    assert_type(batch.round(), Sample)
    assert_type(batch.square(), Sample)
    assert_type(batch.isnan(), Sample)
    assert_type(batch.isfinite(), Sample)
    assert_type(batch.abs_(), Sample)
    assert_type(batch.exp_(), Sample)
    assert_type(box.floor(), Box)
    assert_type(batch.softmax(0), Sample)
    assert_type(batch.cumsum(0), Sample)


def functions_of_two(batch: Sample, x: Tensor) -> None:
    assert_type(batch.add(1), Sample)
    assert_type(batch.add(batch, alpha=2), Sample)
    assert_type(batch.sub(x), Sample)
    assert_type(batch.mul(2), Sample)
    assert_type(batch.div(batch), Sample)
    assert_type(batch.pow(2), Sample)
    assert_type(batch.maximum(batch), Sample)
    assert_type(batch.minimum(batch), Sample)
    assert_type(batch.clamp(0, 1), Sample)
    assert_type(batch.clamp(min=0.0), Sample)
    assert_type(batch.clamp_min(0.0), Sample)
    assert_type(batch.eq(batch), Sample)
    assert_type(batch.lt(1), Sample)
    assert_type(batch.lerp(batch, 0.5), Sample)
    assert_type(batch.addcmul(batch, batch), Sample)
    assert_type(batch.mul(batch, default=1.0), Sample)


def reductions(batch: Sample, flags: Flags, box: Box) -> None:
    assert_type(batch.sum(), Sample)
    assert_type(batch.sum(0), Sample)
    assert_type(batch.sum(dim=(0, 1)), Sample)
    assert_type(batch.sum("feature"), Sample)
    assert_type(batch.sum(0, keepdim=True), Sample)
    assert_type(batch.sum(reduce=True), Tensor)
    assert_type(batch.mean(), Sample)
    assert_type(batch.mean(0), Sample)
    assert_type(batch.mean(reduce=True), Tensor)
    assert_type(batch.prod(0), Sample)
    assert_type(batch.std(), Sample)
    assert_type(batch.var(0), Sample)
    assert_type(batch.amax(0), Sample)
    assert_type(batch.amin(reduce=True), Tensor)
    assert_type(batch.max(), Sample)
    assert_type(batch.min(return_indices=False), Sample)
    assert_type(batch.max(0).values, Sample)
    assert_type(batch.max(0).indices, Sample)
    assert_type(batch.cummax(0).values, Sample)
    assert_type(batch.logsumexp(0), Sample)
    assert_type(batch.quantile(0.5), Sample)
    assert_type(batch.norm(), Sample)
    assert_type(box.sum(0), Box)
    assert_type(flags.all(), bool)
    assert_type(flags.any(), bool)
    assert_type(flags.all(0), Flags)
    assert_type(flags.any(dim=1), Flags)
