"""Functions of other packages that the engine calls itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .declaration import delegated

if TYPE_CHECKING:
    from tensorclass.nn.params import TensorDictParams
    from tensorclass.td.base import TensorCollection
    from tensorclass.td.columns.ragged import Ragged
    from tensorclass.td.columns.text import Text
    from tensorclass.td.memory.mapped_files import Filename


@delegated("tensorclass.storage.hdf5_zarr.group_loader")
def save(data: TensorCollection, filename: Filename, backend: str, *, options: dict[str, Any], **settings: Any) -> Any:
    """Write a collection to an HDF5 file or a zarr folder; without ``values``, arrays of zeros."""
    ...


@delegated("tensorclass.nn.params")
def as_parameters(tree: Any) -> TensorDictParams:
    """Return a module that has the tensors of a collection as its parameters and buffers."""
    ...


@delegated("tensorclass.distributed.shared_pickle")
def reduced(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function and its arguments, which make the collection again in another process."""
    ...


@delegated("tensorclass.convert.tables.arrow_columns")
def ragged_from_arrow(data: Any) -> Ragged[Any]:
    """Make a column from a list array of Arrow, or of a library that gives its arrays to Arrow."""
    ...


@delegated("tensorclass.convert.tables.arrow_columns")
def text_from_arrow(data: Any) -> Text:
    """Make a column from a string array of Arrow, or of a library that gives its arrays to Arrow."""
    ...
