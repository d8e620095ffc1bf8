"""The error for values that break the contracts of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from typing_extensions import Self

from tensorclass.support.help_links import help_link
from tensorclass.td.value_checks import Misfit


class Broken(NamedTuple):
    """A field whose value breaks its contract.

    Attributes:
        path: the field, below the record that raised the error.
        expected: the contract, and the batch dimensions in front of the item.
        got: shape, dtype and device of the value.
        why: what is wrong.

    Example:
        >>> from tensorclass.contracts import Broken
        >>> str(Broken(("image", "pixels"), "Range(0, 1)", "shape [3]", "the largest element is 2, above 1"))
        'image.pixels: expected Range(0, 1), got shape [3]: the largest element is 2, above 1'
    """

    path: tuple[str, ...]
    expected: str
    got: str
    why: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: expected {self.expected}, got {self.got}: {self.why}"


class ContractError(Misfit, TypeError, ValueError, RuntimeError):
    """Values break the contracts of their fields. Nothing was made or changed.

    It is a ``TypeError`` and a ``ValueError``, as for values of a wrong type, and a ``RuntimeError``, as for values
    that lack the batch size.

    Attributes:
        owner: the name of the record class; empty if the record is nested in another collection.
        broken: all fields that break their contracts.
    """

    def __init__(self, owner: str, broken: Sequence[Broken], hint: str = "") -> None:
        self.owner: str = owner
        self.hint: str = hint
        self.broken: tuple[Broken, ...] = tuple(broken)
        lines, link = [str(problem) for problem in self.broken], help_link("broken-contract")
        if len(lines) == 1:
            lines[0] = f"{owner}{owner and '.'}{lines[0]}{link}"
        else:
            lines = [
                f"{owner}{owner and ': '}{len(lines)} fields break their contracts{link}:",
                *[f"  {line}" for line in lines],
            ]
        message = "\n".join([*lines, hint] if hint else lines)
        Exception.__init__(self, message)
        self.key: tuple[str, ...] = self.broken[0].path
        self.what: str = message

    def __reduce__(self) -> Any:
        return type(self), (self.owner, self.broken, self.hint)

    def below(self, *path: str) -> Self:
        """Return the error of a collection that holds the record under a key.

        Args:
            path: the keys from the collection down to the record, outermost first.

        Returns:
            A new error, whose paths begin with ``path`` and whose ``owner`` is empty; this error if ``path`` is empty.

        Example:
            >>> import torch
            >>> from typing import Annotated
            >>> from tensorclass import ContractError, Shape, TensorClass
            >>> class Image(TensorClass):
            ...     pixels: Annotated[torch.Tensor, Shape("3 h w")]
            >>> try:
            ...     Image(torch.zeros(2, 1, 8, 8), batch_size=[2])
            ... except ContractError as error:
            ...     error.below("left").broken[0].path
            ('left', 'pixels')
        """
        if not path:
            return self
        moved = [problem._replace(path=(*path, *problem.path)) for problem in self.broken]
        return type(self)("", moved, self.hint)  # the path starts at another class now
