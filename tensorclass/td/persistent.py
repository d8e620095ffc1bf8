"""HDF5 files and zarr folders: collections that are read and written there.

What is done is in :mod:`tensorclass.storage.persistent`, which is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import Self

from .collection import Collection, DeviceLike
from .memmap import Filename


class Persistent(Collection):
    """``from_h5``, ``to_h5``, ``from_zarr``, ``to_zarr``."""

    __slots__ = ()

    @classmethod
    def from_h5(
        cls,
        filename: Filename,
        *,
        mode: str = "r",
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: Sequence[int] | None = None,
        non_tensor_as_stack: bool = False,
        allow_pickle: bool | None = None,
        device: DeviceLike | None = None,
        strict: bool = True,
        verify: bool = False,
    ) -> Self:
        """The collection in an HDF5 file, also in one that another program wrote.

        Only what the file says of itself is read. A value is read when it is asked for, and with ``data[index]`` the
        rows alone; in the mode ``"r+"`` what is written goes to the file. Groups are nested collections. A record is
        checked against its fields. ``close()``, or ``with``, closes the file. See
        :class:`~tensorclass.storage.PersistentTensorDict`.

        Args:
            filename: the file.
            mode: ``"r"`` to read, ``"r+"`` to write too, ``"w"`` for a new file, ``"a"`` for either.
            auto_batch_size: take the dimensions that all values have in front, whatever the file says. That is also
                done where it says nothing, as files of other programs.
            batch_dims: how many dimensions the batch size has at most, where it is found so.
            batch_size: the batch size; by default what the file says.
            non_tensor_as_stack: read one object for all rows as one for each.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: only for files that you
                trust.
            device: where tensors go when they are read.
            strict: for a record, the file has its fields and no others; ``False`` leaves others out.
            verify: read all tensors now, and compare them with the checksums that ``to_h5(checksum=True)`` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or does not fit the record or the batch size.

        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.arange(6).view(3, 2)}, [3]).to_h5(folder + "/rows.h5").close()
        ...     with TensorDict.from_h5(folder + "/rows.h5") as data:
        ...         data[1:]["x"]
        tensor([[2, 3],
                [4, 5]])
        """
        from tensorclass.storage.opening import load

        return load(  # type: ignore[no-any-return]
            cls, filename, "h5", mode=mode, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
            batch_size=batch_size, non_tensor_as_stack=non_tensor_as_stack, allow_pickle=allow_pickle, device=device,
            strict=strict, verify=verify,
        )  # fmt: skip

    def to_h5(
        self: Self,
        filename: Filename,
        *,
        allow_pickle: bool | None = None,
        resizable: bool = False,
        progress: bool | None = None,
        checksum: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Writes the collection to an HDF5 file, as a whole or not at all, and gives the one in the file.

        Args:
            filename: the file; one that is there is replaced.
            allow_pickle: write objects that JSON cannot hold as pickles.
            resizable: rows can be appended later, with ``extend``. The arrays are chunked then.
            progress: show a bar; by default on a terminal, where it takes more than two seconds.
            checksum: write down what the values of each tensor add up to, for ``from_h5(verify=True)``. That of a
                tensor goes when values of it are written in the file.
            kwargs: how arrays are stored, as ``h5py`` names it: ``chunks`` (``True``, the rows of a chunk, or its first
                dimensions), ``compression`` (``"gzip"``, ``"lzf"``), ``compression_opts``, ``shuffle``, ``fletcher32``
                (checksums), ...

        Raises:
            TypeError: values that the file cannot hold, all of them. Nothing was written.
        """
        from tensorclass.storage.opening import save

        return save(  # type: ignore[no-any-return]
            self, filename, "h5", allow_pickle=allow_pickle,  # type: ignore[arg-type]
            resizable=resizable, checksum=checksum, progress=progress, options=kwargs,
        )  # fmt: skip

    @classmethod
    def from_zarr(
        cls,
        filename: Filename,
        *,
        mode: str = "r",
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: Sequence[int] | None = None,
        non_tensor_as_stack: bool = False,
        allow_pickle: bool | None = None,
        device: DeviceLike | None = None,
        strict: bool = True,
        verify: bool = False,
    ) -> Self:
        """The collection in a zarr folder; see :meth:`from_h5` for the arguments.

        Raises:
            ImportError: zarr is not installed (the extra ``zarr``).
            FileNotFoundError: there is no such folder.
            ValueError: it is damaged, or does not fit the record or the batch size.
        """
        from tensorclass.storage.opening import load

        return load(  # type: ignore[no-any-return]
            cls, filename, "zarr", mode=mode, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
            batch_size=batch_size, non_tensor_as_stack=non_tensor_as_stack, allow_pickle=allow_pickle, device=device,
            strict=strict, verify=verify,
        )  # fmt: skip

    def to_zarr(
        self: Self,
        filename: Filename,
        *,
        allow_pickle: bool | None = None,
        resizable: bool = False,
        progress: bool | None = None,
        checksum: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Writes the collection to a zarr folder, as a whole or not at all, and gives the one in the folder.

        Args:
            filename: the folder; one that is there is replaced.
            allow_pickle: write objects that JSON cannot hold as pickles.
            resizable: says nothing here: rows can be appended in any case.
            progress: show a bar; by default on a terminal, where it takes more than two seconds.
            checksum: write down what the values of each tensor add up to, for ``from_zarr(verify=True)``. That of a
                tensor goes when values of it are written in the folder.
            kwargs: how arrays are stored, as ``zarr`` names it: ``chunks``, ``shards``, ``compressors``, ``filters``.

        Raises:
            ImportError: zarr is not installed (the extra ``zarr``).
            TypeError: values that the folder cannot hold, all of them. Nothing was written.
        """
        from tensorclass.storage.opening import save

        return save(  # type: ignore[no-any-return]
            self, filename, "zarr", allow_pickle=allow_pickle,  # type: ignore[arg-type]
            resizable=resizable, checksum=checksum, progress=progress, options=kwargs,
        )  # fmt: skip
