"""The switch for checks of contracts: for a block, a function, or the rest of the program."""

from __future__ import annotations

from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from tensorclass.td.modes import FlagSetting, Mode

#: ``None``: never set, contracts are checked
VALIDATION: Mode[bool | None] = Mode("validation", None)


class validation(FlagSetting):
    """Switch the checks of contracts off, or on again, for a block.

    A context manager and a decorator that affects its own thread and task; ``validation(mode).set()`` affects the rest
    of the program. No block checks a class with the option ``validate=False``. Batch sizes are always checked.

    Args:
        mode: ``True`` to check contracts, ``False`` not to.

    Example:
        >>> import torch
        >>> from typing import Annotated
        >>> from tensorclass import Shape, TensorClass, validation
        >>> class Image(TensorClass):
        ...     pixels: Annotated[torch.Tensor, Shape("3 h w")]
        >>> with validation(False):
        ...     image = Image(pixels=torch.zeros(1, 8, 8))
        >>> image.pixels.shape
        torch.Size([1, 8, 8])
    """

    _mode = VALIDATION

    def __enter__(self) -> Self:
        return super().__enter__() if _is_checked() else self

    def __exit__(self, *exc: object) -> None:
        if _is_checked():
            super().__exit__(*exc)


def _is_checked() -> bool:
    """Return whether contracts matter to a block. Compiled code checks none, and cannot set the variable."""
    return not is_dynamo_compiling()
