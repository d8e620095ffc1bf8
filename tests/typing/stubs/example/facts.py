"""What every checker says about the package `shop` where it reads the stubs. Lines that must be reported end in WRONG."""

import logging
from pathlib import Path

import torch
from shop import Price, loaders, total
from shop.data import loaders as same_loaders
from shop.data.loaders import load as load_sample
from shop.data.records import (
    DEVICE,
    HAS_H5,
    KERNEL,
    LATER,
    NAMES,
    PRICE,
    RATIO,
    ROOT,
    SIZES,
    TABLE,
    TEXT,
    Boxed,
    ByKeyword,
    Frozen,
    Hiding,
    InheritsFrozen,
    Net,
    Options,
    Point,
    Sample,
    Small,
    Sub,
    first,
    log,
    opened,
    second,
)
from torch import Tensor, nn
from typing_extensions import assert_type

assert_type(total(3), float)
assert_type(log, logging.Logger)
assert_type(ROOT, Path)
assert_type(SIZES, tuple[int, int])
assert_type(NAMES, list[str])
assert_type(TABLE, dict[str, int])
assert_type(RATIO, float)
assert_type(TEXT, str)
assert_type(KERNEL, Tensor)
assert_type(PRICE, Price)
assert_type(LATER, float)
assert_type(DEVICE, str | None)
assert_type(HAS_H5, bool)
assert_type(first, int)
assert_type(second, str)
assert_type(Point(1).y, int)
assert_type(load_sample(3), Sample)
assert_type(loaders.load(3), Sample)
assert_type(same_loaders.load(3)[0].reshape(1), Sample)
with opened("a") as number:
    assert_type(number, int)


def uses(
    sample: Sample, frozen: Frozen, hiding: Hiding, net: Net, boxed: Boxed[int], options: Options, small: Small, sub: Sub
) -> None:
    assert_type(sample.reshape(3), Sample)
    assert_type(sample[0], Sample)
    assert_type(sample + 1, Sample)
    assert_type(sample.image, Tensor)
    assert_type(sample.label, Tensor | None)
    assert_type(sample.tags, list[str])
    assert_type(sample.height, int)
    assert_type(sample.batch_size, torch.Size)
    assert_type(Sample.blank(), Sample)
    assert_type(sample.pick(3), Tensor)
    assert_type(sample.pick("a"), str)
    assert_type(sample.flipped(), Sample)
    assert_type(sample.CONST, int)
    assert_type(frozen.reshape(3), Frozen)
    assert_type(frozen.flipped(), Frozen)
    assert_type(hiding.names, Tensor)
    assert_type(net.width, int)
    assert_type(net.linear, nn.Linear)
    assert_type(net.cache, int | None)
    assert_type(boxed.extra, int | None)
    assert_type(boxed.reshape(3), Boxed[int])
    assert_type(options.rate, float)
    assert_type(small.reshape(3), Small)
    assert_type(sub.reshape(3), Sub)
    assert_type(Sample.Inner(torch.zeros(3)).reshape(3), Sample.Inner)
    Sample(torch.zeros(3), None, "a", [], extra="x", many=[], batch_size=[3])
    ByKeyword(second=torch.zeros(3), batch_size=[3])
    Options(1, rate=2.0)


def mistakes(sample: Sample, frozen: Frozen, inherits: InheritsFrozen, small: Small, sub: Sub) -> None:
    sample.no_such  # WRONG
    frozen.weight = None  # WRONG
    inherits.more = None  # WRONG
    small.x = torch.zeros(3)  # WRONG
    sub.x = torch.zeros(3)  # WRONG
    Sample(image="x")  # WRONG
    Sample(nothing=3)  # WRONG
    Options(1, [], {})  # WRONG
    ByKeyword(torch.zeros(3))  # WRONG
