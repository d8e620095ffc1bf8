"""A module that jaxtyping's import hook checks: see ``test_runtime_typing.py``."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

import tensorclass as tc


class Sample(tc.TensorClass):
    image: Float[Tensor, "3 h w"]
    label: Int[Tensor, ""] | None = None

    def twice(self) -> Sample:
        return self + self


@tc.tensorclass
class Decorated:
    image: Float[Tensor, "3 h w"]
    label: Int[Tensor, ""] | None = None


def same(sample: Sample) -> Sample:
    return sample


def decorated(sample: Sample, image: Float[Tensor, "b 3 h w"]) -> Decorated:
    return Decorated(image)


def wrong(sample: Sample) -> Decorated:
    return sample  # type: ignore[return-value]
