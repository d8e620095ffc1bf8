"""Methods for single files: HDF5, zarr, consolidated, safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.keys import NestedKey
from tensorclass.td.memory.mapped_files import Filename

from .declaration import delegated

if TYPE_CHECKING:
    from concurrent.futures import Future


class Files(Collection):
    """``to_h5``, ``consolidate``, ``save_safetensors`` and their kin."""

    __slots__ = ()

    @classmethod
    @delegated("tensorclass.storage.hdf5_zarr.group_loader")
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
        """Open an HDF5 file as a collection, also one that another program wrote.

        Only metadata is read. A value is read when it is accessed, and ``data[index]`` reads only its rows. In the mode
        ``"r+"`` writes go to the file. Groups are nested collections. A record is checked against its fields.
        ``close()``, or a ``with`` statement, closes the file. See :class:`~tensorclass.storage.PersistentTensorDict`.

        Args:
            filename: the file.
            mode: ``"r"`` to read, ``"r+"`` to read and write, ``"w"`` to create a file, ``"a"`` to open or create one.
            auto_batch_size: infer the batch size from the leading dimensions that all values share, even if the file
                has one. It is always inferred from files without one, as other programs write them.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            batch_size: the batch size; by default that of the file.
            non_tensor_as_stack: read one object that stands for all rows as one object per row.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files
                that you trust.
            device: where tensors are moved when they are read; by default the CPU.
            strict: with ``False``, ignore values that are not fields of a record.
            verify: read all tensors now, and compare them with the checksums that ``to_h5(checksum=True)`` stored.

        Returns:
            A collection of this class on the file.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file is damaged, or does not fit the record or the batch size.

        Example:
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

    @delegated("tensorclass.storage.hdf5_zarr.group_loader")
    def to_h5(
        self: Self,
        filename: Filename,
        *,
        allow_pickle: bool | None = None,
        resizable: bool = False,
        progress: bool | None = None,
        pbar: bool | None = None,
        checksum: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Write the collection to an HDF5 file, completely or not at all, and return the collection on the file.

        Args:
            filename: the file. An existing one is replaced.
            allow_pickle: write objects that JSON cannot hold as pickles.
            resizable: let ``extend`` append rows later. The arrays are then chunked.
            progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
            pbar: another name of ``progress``.
            checksum: store a checksum of each tensor for ``from_h5(verify=True)``. Writing to a tensor drops its
                checksum.
            kwargs: how arrays are stored, in the words of ``h5py``: ``chunks`` (``True``, the number of rows of a
                chunk, or its first dimensions), ``compression`` (``"gzip"``, ``"lzf"``), ``compression_opts``,
                ``shuffle``, ``fletcher32`` (checksums), ...

        Returns:
            A collection of this class on the file, opened in the mode ``"r+"``.

        Raises:
            TypeError: the file cannot hold some values. Lists all of them. Nothing was written.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5", compression="gzip") as data:
            ...         data["x"]
            tensor([0., 0., 0.])
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.hdf5_zarr.group_loader")
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
        """Open a zarr folder as a collection. See :meth:`from_h5`.

        Args:
            filename: the folder.
            mode: ``"r"`` to read, ``"r+"`` to read and write, ``"w"`` to create a folder, ``"a"`` to open or create
                one.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            batch_size: the batch size; by default that of the folder.
            non_tensor_as_stack: read one object that stands for all rows as one object per row.
            allow_pickle: read objects that were written as pickles. Use it only for files that you trust.
            device: where tensors are moved when they are read; by default the CPU.
            strict: with ``False``, ignore values that are not fields of a record.
            verify: read all tensors now, and compare them with the checksums that ``to_zarr(checksum=True)`` stored.

        Returns:
            A collection of this class on the folder.

        Raises:
            ImportError: zarr is not installed (the extra ``zarr``).
            FileNotFoundError: the folder does not exist.
            ValueError: the folder is damaged, or does not fit the record or the batch size.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     TensorDict({"x": torch.arange(6).view(3, 2)}, [3]).to_zarr(folder + "/rows.zarr").close()
            ...     with TensorDict.from_zarr(folder + "/rows.zarr") as data:
            ...         data[1:]["x"]
            tensor([[2, 3],
                    [4, 5]])
        """
        ...

    @delegated("tensorclass.storage.hdf5_zarr.group_loader")
    def to_zarr(
        self: Self,
        filename: Filename,
        *,
        allow_pickle: bool | None = None,
        resizable: bool = False,
        progress: bool | None = None,
        pbar: bool | None = None,
        checksum: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Write the collection to a zarr folder, completely or not at all, and return the collection on the folder.

        Args:
            filename: the folder. An existing one is replaced.
            allow_pickle: write objects that JSON cannot hold as pickles.
            resizable: has no effect here: rows can always be appended.
            progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
            pbar: another name of ``progress``.
            checksum: store a checksum of each tensor for ``from_zarr(verify=True)``. Writing to a tensor drops its
                checksum.
            kwargs: how arrays are stored, in the words of ``zarr``: ``chunks``, ``shards``, ``compressors``,
                ``filters``.

        Returns:
            A collection of this class on the folder, opened in the mode ``"r+"``.

        Raises:
            ImportError: zarr is not installed (the extra ``zarr``).
            TypeError: the folder cannot hold some values. Lists all of them. Nothing was written.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_zarr(folder + "/rows.zarr", chunks=2) as data:
            ...         data["x"]
            tensor([0., 0., 0.])
        """
        ...

    @delegated("tensorclass.storage.key_value.tensordict_store")
    def to_store(
        self: Self,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        device: DeviceLike | None = None,
        td_id: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Write the collection to a Redis server, completely or not at all, and return the collection on the server.

        The result reads and writes the server; an index reads only its rows. Other processes open it with
        :meth:`TensorDictStore.from_store() <tensorclass.TensorDictStore.from_store>` and the ``td_id`` of the result.

        Args:
            backend: ``"redis"``, for all servers that speak its protocol.
            host: the name of the server's machine.
            port: the port of the server.
            db: the number of the database in the server.
            unix_socket_path: the socket of a server on this machine, instead of host and port.
            prefix: the beginning of all keys in the server.
            device: where tensors go when they are read; by default the device of the collection.
            td_id: the id of the store; by default a new one.
            kwargs: arguments of ``redis.Redis``: ``username``, ``password``, ``ssl``, ...

        Returns:
            A collection of this class on the server: a :class:`~tensorclass.TensorDictStore`.

        Raises:
            ImportError: the package ``redis`` is not installed (the extra ``redis``).
            ConnectionError: the server cannot be reached.
            FileExistsError: the server has a store with this id.
            TypeError: the server cannot hold some values. Lists all of them. Nothing was written.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.zeros(3)}, [3]).to_store(unix_socket_path="redis.sock")
            >>> data[:2] = {"x": torch.ones(2)}
            >>> data["x"]
            tensor([1., 1., 0.])
            >>> data.clear_redis()
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
    @delegated("tensorclass.storage.consolidated_file")
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
        """Return a locked copy with all tensors one after the other in one buffer.

        The copy moves to another device in one transfer, and is pickled and sent to another process as one piece.

        Args:
            filename: also write a file, completely or not at all, which :meth:`from_consolidated` reads. The tensors
                are then mapped from the file, and writes to them stay in this process.
            num_threads: the number of threads that copy; 0 copies in this thread.
            device: the device of the buffer; by default that of the tensors, which must then all be on one device.
            non_blocking: do not wait for the transfer to the device.
            inplace: put the new tensors into this collection and lock it.
            return_early: return a future whose ``result()`` is the collection. Do not write to the tensors until then.
            use_buffer: with a file, keep the tensors in memory instead of mapping them from the file.
            share_memory: allocate the buffer in memory that processes share.
            pin_memory: allocate the buffer in page-locked memory, from which transfers to an accelerator are
                asynchronous.
            metadata: for code written for the peer. The collection, its pickles and its file have the metadata anyway.
            allow_pickle: write objects that JSON cannot hold to the file as pickles.

        Returns:
            A locked collection of this class, this one if ``inplace``. With ``return_early``, a future.

        Raises:
            ValueError: the tensors are on several devices, and ``device`` is not given.
            TypeError: tensors are not dense, or the file cannot hold some values. Nothing was written.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.ones(3), "below": {"y": torch.zeros(3, dtype=torch.int64)}}, [3])
            >>> packed = data.consolidate()
            >>> packed["x"].untyped_storage().nbytes(), data.is_consolidated(), packed.is_consolidated()
            (40, False, True)
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.consolidated_file")
    def from_consolidated(
        cls, filename: Filename, *, device: DeviceLike | None = None, allow_pickle: bool = False, strict: bool = True
    ) -> Self:
        """Load the collection in a file that :meth:`consolidate` wrote, mapped to memory.

        Writes to the tensors stay in this process. No code in the file runs.

        Args:
            filename: the file.
            device: where the tensors are moved, in one transfer; by default they stay mapped. ``meta`` reads none of
                them.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files
                that you trust.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file is damaged or does not fit the record. Names every field that does not fit.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     saved = TensorDict({"x": torch.ones(3)}, [3]).consolidate(folder + "/rows.td")
            ...     TensorDict.from_consolidated(folder + "/rows.td")["x"].sum()
            tensor(3.)
        """
        ...

    # -- one file -----------------------------------------------------------------------------------------------------

    @delegated("tensorclass.storage.safetensors")
    def save_safetensors(self: Files, path: Filename, *, checksum: bool = False) -> None:
        """Write the collection to one file in the safetensors format, completely or not at all.

        Other tools can read its tensors. Nested collections, batch sizes, names, fields of records and objects are in
        its metadata.

        Args:
            path: the file. An existing one is replaced.
            checksum: store a checksum of each tensor for ``load_safetensors(verify=True)``.

        Raises:
            ImportError: safetensors is not installed (the extra ``safetensors``).
            TypeError: the file cannot hold some values. Lists all of them. Nothing was written.

        Example:
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
        """Load the collection in a safetensors file, also in one that another program wrote.

        The file is mapped to memory: values are read when they are used, and a slice reads only its rows. Writes to the
        tensors stay in this process.

        Args:
            path: the file.
            device: where the tensors are moved; by default they stay mapped. ``meta`` reads none of them.
            keys: the keys to load, nested or not; all by default.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.
            verify: read all values, and compare them with the checksums that ``save_safetensors(checksum=True)``
                stored.

        Raises:
            ImportError: safetensors is not installed (the extra ``safetensors``).
            FileNotFoundError: the file does not exist.
            ValueError: the file is damaged or does not fit the record. Names every field that does not fit.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     TensorDict({"x": torch.ones(3), "y": torch.zeros(3)}, [3]).save_safetensors(folder + "/rows")
            ...     data = TensorDict.load_safetensors(folder + "/rows", keys=["x"])
            >>> data.batch_size, data.to_dict()
            (torch.Size([3]), {'x': tensor([1., 1., 1.])})
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
        """Load the collection in a safetensors file: the same as :meth:`load_safetensors`.

        Args:
            path: the file.
            device: where the tensors are moved; by default they stay mapped. ``meta`` reads none of them.
            keys: the keys to load, nested or not; all by default.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.
            verify: read all values, and compare them with the checksums that ``save_safetensors(checksum=True)``
                stored.

        Returns:
            A collection of this class. Writes to its tensors stay in this process.

        Raises:
            ImportError: safetensors is not installed (the extra ``safetensors``).
            FileNotFoundError: the file does not exist.
            ValueError: the file is damaged or does not fit the record. Names every field that does not fit.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     TensorDict({"x": torch.ones(3)}, [3]).save_safetensors(folder + "/rows.safetensors")
            ...     TensorDict.from_safetensors(folder + "/rows.safetensors")["x"]
            tensor([1., 1., 1.])
        """
        ...
