"""Devices, dtypes, gradients, copies."""

import copy

import torch
from records import Box, Described, Sample, Scene
from torch import Tensor
from typing_extensions import assert_type


def moved(batch: Sample, described: Described, scene: Scene) -> None:
    assert_type(batch.to("cpu"), Sample)
    assert_type(batch.to(torch.device("cpu")), Sample)
    assert_type(batch.to(device="cpu"), Sample)
    assert_type(batch.to("cpu", non_blocking=True), Sample)
    assert_type(batch.to(torch.device("cpu"), copy=True), Sample)
    assert_type(batch.cpu(), Sample)
    assert_type(described.to("cpu"), Described)
    assert_type(scene.to("cpu").box, Box)
    if torch.cuda.is_available():
        assert_type(batch.to(0), Sample)
        assert_type(batch.cuda(), Sample)
        assert_type(batch.cuda(0), Sample)
        assert_type(batch.pin_memory(), Sample)


def cast(batch: Sample, box: Box) -> None:
    assert_type(batch.to(torch.float64), Sample)
    assert_type(batch.to(dtype=torch.float64), Sample)
    assert_type(batch.to("cpu", torch.float64), Sample)
    assert_type(batch.to(torch.device("cpu"), torch.float64, True), Sample)
    assert_type(batch.to("cpu", dtype=torch.float64), Sample)
    assert_type(batch.to(torch.float64, non_blocking=True, copy=True), Sample)
    assert_type(batch.double(), Sample)
    assert_type(batch.float(), Sample)
    assert_type(batch.half(), Sample)
    assert_type(batch.int(), Sample)
    assert_type(batch.bool(), Sample)
    assert_type(batch.bfloat16(), Sample)
    assert_type(batch.type(torch.float64), Sample)
    assert_type(batch.half(cast_filter=lambda key, value: key[0] == "image"), Sample)
    assert_type(box.double(), Box)


def alike(batch: Sample, x: Tensor) -> None:
    assert_type(batch.to(x), Sample)
    assert_type(batch.to(batch), Sample)
    assert_type(batch.to(other=x), Sample)
    assert_type(batch.to(x, non_blocking=True), Sample)
    assert_type(batch.to(batch_size=[4]), Sample)
    assert_type(batch.to("cpu", batch_size=[4]), Sample)
    assert_type(batch.to(memory_format=torch.preserve_format), Sample)


def copied(batch: Sample, scene: Scene) -> None:
    assert_type(batch.clone(), Sample)
    assert_type(batch.clone(False), Sample)
    assert_type(batch.clone(recurse=False), Sample)
    assert_type(copy.copy(batch), Sample)
    assert_type(copy.deepcopy(batch), Sample)
    assert_type(scene.clone().shot, Sample)


def gradients(batch: Sample) -> None:
    assert_type(batch.detach(), Sample)
    assert_type(batch.detach_(), Sample)
    assert_type(batch.data, Sample)
    assert_type(batch.grad, Sample | None)
    assert_type(batch.requires_grad_(), Sample)
    assert_type(batch.requires_grad_(False), Sample)
    assert_type(batch.zero_grad(), Sample)


def made(batch: Sample, box: Box) -> None:
    assert_type(batch.new_zeros(4), Sample)
    assert_type(batch.new_ones((4, 6)), Sample)
    assert_type(batch.new_empty([2]), Sample)
    assert_type(batch.new_full((4,), 1.0), Sample)
    assert_type(box.new_zeros(2), Box)


def shared(batch: Sample) -> None:
    assert_type(batch.share_memory_(), Sample)
    assert_type(batch.is_shared(), bool)
    assert_type(batch.auto_batch_size_(), Sample)
    assert_type(batch.auto_device_(), Sample)
    assert_type(batch.clear_device_(), Sample)
    assert_type(batch.refine_names("time", ...), Sample)
    assert_type(batch.rename_("a", "b"), Sample)
    assert_type(batch.rename("a", None), Sample)
