"""Methods for single files: HDF5, zarr, consolidated, safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.keys import NestedKey
from tensorclass.td.memmap import Filename

from .declaration import delegated

if TYPE_CHECKING:
    from concurrent.futures import Future


class Files(Collection):
    """``to_h5``, ``consolidate``, ``save_safetensors`` and their kin."""

    __slots__ = ()

    @classmethod
    @delegated("tensorclass.storage.opening")
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
        ...

    @delegated("tensorclass.storage.opening")
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
        ...

    @classmethod
    @delegated("tensorclass.storage.opening")
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
        ...

    @delegated("tensorclass.storage.opening")
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
        ...

    # -- one piece of memory ------------------------------------------------------------------------------------------

    @overload
    def consolidate(
        self,
        filename: Filename | None = ...,
        *,
        num_threads: int = ...,
        device: DeviceLike | None = ...,
        non_blocking: bool = ...,
        inplace: bool = ...,
        return_early: Literal[False] = ...,
        use_buffer: bool = ...,
        share_memory: bool = ...,
        pin_memory: bool = ...,
        metadata: bool = ...,
        allow_pickle: bool = ...,
    ) -> Self: ...
    @overload
    def consolidate(
        self,
        filename: Filename | None = ...,
        *,
        num_threads: int = ...,
        device: DeviceLike | None = ...,
        non_blocking: bool = ...,
        inplace: bool = ...,
        return_early: Literal[True],
        use_buffer: bool = ...,
        share_memory: bool = ...,
        pin_memory: bool = ...,
        metadata: bool = ...,
        allow_pickle: bool = ...,
    ) -> Future[Self]: ...
    @delegated("tensorclass.storage.consolidated")
    def consolidate(
        self,
        filename: Filename | None = None,
        *,
        num_threads: int = 0,
        device: DeviceLike | None = None,
        non_blocking: bool = False,
        inplace: bool = False,
        return_early: bool = False,
        use_buffer: bool = False,
        share_memory: bool = False,
        pin_memory: bool = False,
        metadata: bool = False,
        allow_pickle: bool = False,
    ) -> Self | Future[Self]:
        """A copy, locked, with all tensors one behind the other in one piece of memory.

        It is moved to another device by one transfer, and pickled and sent to another process as one piece.

        Args:
            filename: write a file too, as a whole or not at all, which :meth:`from_consolidated` reads. The tensors are
                then mapped from the file; what is written to them stays in this process.
            num_threads: how many threads copy.
            device: where the memory is; by default where the tensors are, which must then be one device.
            non_blocking: do not wait for the transfer to the device.
            inplace: give this collection those tensors, and lock it.
            return_early: give a future whose ``result()`` is the collection. Leave the tensors alone until then.
            use_buffer: with a file: the tensors are in memory, not mapped from the file.
            share_memory: in memory that processes share.
            pin_memory: in page-locked memory, from which transfers to an accelerator run by themselves.
            metadata: not supported: what the tensors belong to is in the collection, and in the file.
            allow_pickle: write objects that JSON cannot hold to the file as pickles.

        Raises:
            ValueError: the tensors are on several devices, and ``device`` does not say where they go.
            TypeError: tensors that are not dense, or values that the file cannot hold. Nothing was written.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.ones(3), "below": {"y": torch.zeros(3, dtype=torch.int64)}}, [3])
        >>> packed = data.consolidate()
        >>> packed["x"].untyped_storage().nbytes(), data.is_consolidated(), packed.is_consolidated()
        (40, False, True)
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.consolidated")
    def from_consolidated(
        cls, filename: Filename, *, device: DeviceLike | None = None, allow_pickle: bool = False, strict: bool = True
    ) -> Self:
        """The collection in a file that :meth:`consolidate` wrote, mapped to memory.

        What is written to the tensors stays in this process. No code in the file runs.

        Args:
            filename: the file.
            device: where the tensors go, by one transfer; ``meta`` reads none of them.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: only for files that you
                trust.
            strict: for a record, the file has its fields and no others; ``False`` leaves others out, with a warning.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or does not fit the record: every field that does not is named.
        """
        ...

    # -- one file -----------------------------------------------------------------------------------------------------

    @delegated("tensorclass.storage.safetensors")
    def save_safetensors(self: Files, path: Filename, *, checksum: bool = False) -> None:
        """Writes the collection to one file in the safetensors format, as a whole or not at all.

        Other tools read its tensors; what they belong to (nested collections, batch sizes, names, fields of records,
        objects) is in the metadata.

        Args:
            path: the file; one that is there is replaced.
            checksum: write down what the values of each tensor add up to, for ``load_safetensors(verify=True)``.

        Raises:
            ImportError: safetensors is not installed (the extra ``safetensors``).
            TypeError: values that the file cannot hold, all of them. Nothing was written.

        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.ones(3), "text": "a"}, [3]).save_safetensors(folder + "/rows.safetensors")
        ...     TensorDict.load_safetensors(folder + "/rows.safetensors")[1].to_dict()
        {'x': tensor(1.), 'text': 'a'}
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.safetensors")
    def load_safetensors(
        cls,
        path: Filename,
        *,
        device: DeviceLike | None = None,
        keys: Sequence[NestedKey] | None = None,
        strict: bool = True,
        verify: bool = False,
    ) -> Self:
        """The collection in a file in the safetensors format, also in one that another program wrote.

        The file is mapped to memory: values are read when they are used, a slice alone where a slice is used. What is
        written to them stays in this process.

        Args:
            path: the file.
            device: where the tensors go; ``meta`` reads none of them.
            keys: those that are wanted, nested or not; all by default.
            strict: for a record, the file has its fields and no others; ``False`` leaves others out, with a warning.
            verify: read all values, and compare them with the checksums that ``save_safetensors(checksum=True)`` wrote.

        Raises:
            ImportError: safetensors is not installed (the extra ``safetensors``).
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or does not fit the record: every field that does not is named.
        """
        ...

    to_safetensors = save_safetensors

    @classmethod
    @delegated("tensorclass.storage.safetensors", "load_safetensors")
    def from_safetensors(
        cls,
        path: Filename,
        *,
        device: DeviceLike | None = None,
        keys: Sequence[NestedKey] | None = None,
        strict: bool = True,
        verify: bool = False,
    ) -> Self:
        """:meth:`load_safetensors`, whose arguments it has."""
        ...
