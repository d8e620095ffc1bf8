"""Methods to look at rows and fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Generator
from typing_extensions import Self

from tensorclass.td.collection import Collection
from tensorclass.td.keys import NestedKey

from .declaration import delegated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tensorclass.relational.field_statistics import Summary


class Looks(Collection):
    """``head``, ``tail``, ``sample``, ``summary`` and ``plot``. Rows lie along the first dimension."""

    __slots__ = ()

    @delegated("tensorclass.relational.row_samples")
    def head(self, n: int = 5) -> Self:
        """Return the first rows.

        Args:
            n: how many at most.

        Returns:
            The rows, as ``data[:n]`` gives them. From a file only these rows are read.

        Raises:
            ValueError: there is no batch dimension, or ``n`` is negative.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": torch.arange(1000)}, [1000]).head(3)["x"]
            tensor([0, 1, 2])
        """
        ...

    @delegated("tensorclass.relational.row_samples")
    def tail(self, n: int = 5) -> Self:
        """Return the last rows.

        Args:
            n: how many at most.

        Returns:
            The rows in their order, as ``data[-n:]`` gives them for ``n > 0``. From a file only these rows are read.

        Raises:
            ValueError: there is no batch dimension, or ``n`` is negative.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": torch.arange(1000)}, [1000]).tail(3)["x"]
            tensor([997, 998, 999])
        """
        ...

    @delegated("tensorclass.relational.row_samples")
    def sample(self, n: int = 5, *, replacement: bool = False, generator: Generator | None = None) -> Self:
        """Return rows drawn at random, all with the same probability.

        Args:
            n: how many.
            replacement: whether a row can be drawn more than once. Default: ``False``.
            generator: the random numbers. Default: those of torch.

        Returns:
            The rows in the order in which they were drawn. From a file only these rows are read.

        Raises:
            ValueError: there is no batch dimension, ``n`` is negative, or there are too few rows.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.arange(1000)}, [1000])
            >>> rows = data.sample(3, generator=torch.Generator().manual_seed(0))
            >>> rows.batch_size, len(set(rows["x"].tolist()))
            (torch.Size([3]), 3)
        """
        ...

    @delegated("tensorclass.relational.field_statistics")
    def summary(self) -> Summary:
        """Return statistics of each field: count, nulls, unique values, mean, standard deviation, extremes, quartiles.

        Returns:
            A record with a row for each field, also of nested collections. It prints as a table.

        Raises:
            ValueError: a tensor has no values, such as one on the device ``meta``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict, Text
            >>> data = TensorDict({"x": torch.arange(5), "text": Text(["a", "b", "a", None, "b"])}, [5])
            >>> data.summary()
            key   dtype  count  nulls  unique  mean     std  min  q25  median  q75  max
            x     int64      5      0       5   2.0  1.5811  0.0  1.0     2.0  3.0  4.0
            text  Text       4      1       2     -       -    -    -       -    -    -
        """
        ...

    @delegated("tensorclass.relational.field_plots")
    def plot(self, keys: list[NestedKey] | NestedKey | None = None) -> Figure:
        """Draw a histogram of the numbers of each field.

        Needs matplotlib, the extra ``plot``.

        Args:
            keys: a key or a list of keys. Default: all whose values are real numbers, also of nested collections.

        Returns:
            The figure, which ``savefig`` writes, and which notebooks show.

        Raises:
            ImportError: matplotlib is not installed.
            KeyError: there is no such key.
            ValueError: a key has no real numbers.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> figure = TensorDict({"x": torch.randn(100), "y": torch.rand(100)}, [100]).plot()
            >>> [axes.get_title() for axes in figure.axes]
            ['x', 'y']
        """
        ...
