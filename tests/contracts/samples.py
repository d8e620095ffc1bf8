"""Records with contracts that several tests use."""

from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import DType, Range, Shape, TensorClass


class Sample(TensorClass):
    """An image, a mask of the same height and width, and a label; weights one longer than the image is high."""

    image: Float[Tensor, "3 h w"]
    mask: Annotated[Tensor, Shape("h w"), DType("bool")]
    label: Int[Tensor, ""]
    weight: Float[Tensor, "h+1"] | None = None


class Plain(TensorClass):
    value: Tensor


class Pair(TensorClass):
    left: Sample
    right: Sample | None = None


class Level(TensorClass):
    value: Annotated[Tensor, Shape("n"), Range(0, 1)]


def sample(*batch: int, h: int = 4, w: int = 5) -> Sample:
    return Sample(
        image=torch.zeros(*batch, 3, h, w),
        mask=torch.zeros(*batch, h, w, dtype=torch.bool),
        label=torch.zeros(batch, dtype=torch.int64),
    )
