"""Methods for collections on memory-mapped tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.keys import NestedKey
from tensorclass.td.memory.mapped_files import Filename
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor

from .declaration import delegated

if TYPE_CHECKING:
    from concurrent.futures import Future


class MemoryMaps(Collection):
    """``memmap``, ``load_memmap`` and their kin."""

    __slots__ = ()

    # -- memory maps --------------------------------------------------------------------------------------------------

    @overload
    def memmap(
        self: Self,
        prefix: Filename | None = ...,
        copy_existing: bool = ...,
        *,
        num_threads: int = ...,
        return_early: Literal[False] = ...,
        share_non_tensor: bool = ...,
        existsok: bool = ...,
        robust_key: bool | None = ...,
        archive: bool | None = ...,
        compression: str | int | None = ...,
        atomic: bool = ...,
        allow_pickle: bool = ...,
        checksum: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
    ) -> Self: ...
    @overload
    def memmap(
        self: Self,
        prefix: Filename | None = ...,
        copy_existing: bool = ...,
        *,
        num_threads: int = ...,
        return_early: Literal[True],
        share_non_tensor: bool = ...,
        existsok: bool = ...,
        robust_key: bool | None = ...,
        archive: bool | None = ...,
        compression: str | int | None = ...,
        atomic: bool = ...,
        allow_pickle: bool = ...,
        checksum: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
    ) -> Future[Self]: ...
    @delegated("tensorclass.storage.memmap.memmap_methods")
    def memmap(
        self: Self,
        prefix: Filename | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        archive: bool | None = None,
        compression: str | int | None = None,
        atomic: bool = True,
        allow_pickle: bool = False,
        checksum: bool = False,
        progress: bool | None = None,
        pbar: bool | None = None,
    ) -> Self | Future[Self]:
        """Write the collection to a folder, and return a collection whose tensors are mapped to the files there.

        The folder is written completely or not at all: it takes its place in one step when everything is written, also
        if it replaces another one.

        Args:
            prefix: the folder. Each nested collection gets a folder inside it. Without a prefix, the tensors are in
                memory that processes share.
            copy_existing: copy tensors that are mapped to other files. By default they are an error, unless an archive
                is written.
            num_threads: the number of threads that write files; 0 writes in this thread. One thread writes an archive;
                the others prepare the next tensors.
            return_early: return a future whose ``result()`` is the collection. Do not write to the tensors until then.
            share_non_tensor: not supported if there are objects: each process has its own.
            existsok: replace a collection that is already there.
            robust_key: encode keys that cannot be names of files (``"a/b"``). With ``False`` they are an error.
            archive: write one file, an archive of the folder, from which tensors are mapped; see :func:`pack_memmap`.
                By default this is done if ``prefix`` ends in ``.tdz``. The result is not locked, and writes to it stay
                in this process.
            compression: the compression of an archive: ``"deflated"``, ``"bzip2"`` or ``"lzma"``. Tensors are then read
                instead of mapped.
            atomic: accepted for compatibility with tensordict. The write is atomic in any case.
            allow_pickle: write objects that JSON cannot hold as pickles, which only ``allow_pickle=True`` reads.
            checksum: store a checksum of each tensor, with which ``load_memmap(verify=True)`` detects damage. It holds
                until values are written in place.
            progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
            pbar: another name of ``progress``.

        Returns:
            A locked collection of this class. Writes to its values in place go to the files. With ``return_early``, a
            future.

        Raises:
            FileExistsError: a collection is there, and ``existsok`` is ``False``. It is also a RuntimeError.
            RuntimeError: a tensor is mapped to another file, and ``copy_existing`` is ``False``.
            TypeError: the files cannot hold some values. Lists all of them. Nothing was written.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rows = TensorDict({"x": torch.zeros(3, 2)}, [3]).memmap(folder + "/rows")
            ...     rows["x"][1] = 1.0
            ...     TensorDict.load_memmap(folder + "/rows")["x"].sum()
            tensor(2.)
        """
        ...

    @overload
    def memmap_(
        self: Self,
        prefix: Filename | None = ...,
        copy_existing: bool = ...,
        *,
        num_threads: int = ...,
        return_early: Literal[False] = ...,
        share_non_tensor: bool = ...,
        existsok: bool = ...,
        robust_key: bool | None = ...,
        atomic: bool = ...,
        allow_pickle: bool = ...,
        checksum: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
    ) -> Self: ...
    @overload
    def memmap_(
        self: Self,
        prefix: Filename | None = ...,
        copy_existing: bool = ...,
        *,
        num_threads: int = ...,
        return_early: Literal[True],
        share_non_tensor: bool = ...,
        existsok: bool = ...,
        robust_key: bool | None = ...,
        atomic: bool = ...,
        allow_pickle: bool = ...,
        checksum: bool = ...,
        progress: bool | None = ...,
        pbar: bool | None = ...,
    ) -> Future[Self]: ...
    @delegated("tensorclass.storage.memmap.memmap_methods")
    def memmap_(
        self: Self,
        prefix: Filename | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        atomic: bool = True,
        allow_pickle: bool = False,
        checksum: bool = False,
        progress: bool | None = None,
        pbar: bool | None = None,
    ) -> Self | Future[Self]:
        """Write the collection to a folder and map its own tensors to the files: :meth:`memmap` in place.

        The collection is locked. If writing fails, it stays unchanged.

        Args:
            prefix: the folder; without one, the tensors are in memory that processes share.
            copy_existing: copy tensors that are mapped to other files. By default they are an error.
            num_threads: the number of threads that write files.
            return_early: return a future whose ``result()`` is the collection. Do not write to the tensors until then.
            share_non_tensor: not supported if there are objects.
            existsok: replace a collection that is already there.
            robust_key: encode keys that cannot be names of files. With ``False`` they are an error.
            atomic: accepted for compatibility with tensordict. The write is atomic in any case.
            allow_pickle: write objects that JSON cannot hold as pickles.
            checksum: store a checksum of each tensor.
            progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
            pbar: another name of ``progress``.

        Returns:
            This collection. With ``return_early``, a future.

        Raises:
            FileExistsError, RuntimeError, TypeError: as in :meth:`memmap`.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.ones(3)}, [3])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = data.memmap_(folder + "/rows")
            ...     data.is_memmap(), data.is_locked
            (True, True)
        """
        ...

    @overload
    def memmap_like(
        self: Self,
        prefix: Filename | None = ...,
        copy_existing: bool = ...,
        *,
        num_threads: int = ...,
        return_early: Literal[False] = ...,
        share_non_tensor: bool = ...,
        existsok: bool = ...,
        robust_key: bool | None = ...,
        archive: bool | None = ...,
        atomic: bool = ...,
        allow_pickle: bool = ...,
    ) -> Self: ...
    @overload
    def memmap_like(
        self: Self,
        prefix: Filename | None = ...,
        copy_existing: bool = ...,
        *,
        num_threads: int = ...,
        return_early: Literal[True],
        share_non_tensor: bool = ...,
        existsok: bool = ...,
        robust_key: bool | None = ...,
        archive: bool | None = ...,
        atomic: bool = ...,
        allow_pickle: bool = ...,
    ) -> Future[Self]: ...
    @delegated("tensorclass.storage.memmap.memmap_methods")
    def memmap_like(
        self: Self,
        prefix: Filename | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        archive: bool | None = None,
        atomic: bool = True,
        allow_pickle: bool = False,
    ) -> Self | Future[Self]:
        """Create the files of :meth:`memmap` without the values, for a data set that is to be filled.

        The files have the same shapes and dtypes. They hold zeros, and occupy no disk space until they are written.
        Objects are written as they are.

        Args:
            prefix: the folder; without one, the tensors are in memory that processes share.
            copy_existing: accept tensors that are mapped to other files. By default they are an error.
            num_threads: the number of threads that create files.
            return_early: return a future whose ``result()`` is the collection.
            share_non_tensor: not supported if there are objects.
            existsok: replace a collection that is already there.
            robust_key: encode keys that cannot be names of files. With ``False`` they are an error.
            archive: write one file, an archive of the folder; by default if ``prefix`` ends in ``.tdz``.
            atomic: accepted for compatibility with tensordict. The write is atomic in any case.
            allow_pickle: write objects that JSON cannot hold as pickles.

        Returns:
            A locked collection of this class, of zeros. With ``return_early``, a future.

        Raises:
            FileExistsError, RuntimeError, TypeError: as in :meth:`memmap`.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> row = TensorDict(
            ...     {"image": torch.zeros(3, 8, 8, dtype=torch.uint8), "label": torch.zeros((), dtype=torch.int64)}
            ... )
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = row.expand(1000).memmap_like(folder + "/data")  # expand allocates nothing
            ...     data[10:20] = row.expand(10) + 1
            ...     int(TensorDict.load_memmap(folder + "/data")["label"].sum())
            10
        """
        ...

    save = memmap

    dumps = memmap

    @classmethod
    @delegated("tensorclass.storage.memmap.memmap_methods")
    def load_memmap(
        cls,
        prefix: Filename,
        device: DeviceLike | None = None,
        non_blocking: bool = False,
        *,
        out: Self | None = None,
        robust_key: bool | None = True,
        subpath: NestedKey | None = None,
        mode: str | None = None,
        num_threads: int = 0,
        allow_pickle: bool | None = None,
        strict: bool = True,
        verify: bool = False,
    ) -> Self:
        """Load the collection that :meth:`memmap` wrote to a folder, with its tensors mapped to memory.

        Only the metadata is read; values are read when they are used. A record is checked against its fields, whatever
        class wrote the folder. No code in the folder runs, and nothing is imported for it.

        Args:
            prefix: the folder, or an archive. A folder of a nested collection can be loaded by itself.
            device: where the tensors are moved; by default they stay mapped. ``meta`` opens no file of a tensor, nor
                does fake tensor mode.
            non_blocking: do not wait until the tensors are on the device.
            out: a collection to write the values into, as :meth:`load_memmap_` does. It becomes the result.
            robust_key: matters only for folders that tensordict wrote, which do not say how the files of keys such as
                ``"a b"`` are named. Both ways are tried; ``False`` tries the key itself first, which matters if another
                key has that name.
            subpath: the key of a nested collection, to load only this one.
            mode: ``"r+"`` writes changes of the tensors to the files, ``"r"`` keeps them in this process. By default
                ``"r+"`` if the files are writable.
            num_threads: the number of threads that read values, if values are read: to move them to a device or into
                ``out``, to verify them, or from a compressed archive.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files
                that you trust.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.
            verify: read all values, and compare them with the checksums that ``memmap(checksum=True)`` stored.

        Raises:
            FileNotFoundError: the folder does not exist, or nothing was saved there.
            ValueError: a file is damaged or does not fit the record. Names every field that does not fit.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     saved = TensorDict({"x": torch.ones(3), "below": {"y": torch.ones(3)}}, [3]).memmap(folder)
            ...     TensorDict.load_memmap(folder, subpath="below")["y"]
            MemoryMappedTensor([1., 1., 1.])
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.memmap.memmap_methods", "load_memmap")
    def load(  # not an alias, which mypy does not take for a class method
        cls,
        prefix: Filename,
        device: DeviceLike | None = None,
        non_blocking: bool = False,
        *,
        out: Self | None = None,
        robust_key: bool | None = True,
        subpath: NestedKey | None = None,
        mode: str | None = None,
        num_threads: int = 0,
        allow_pickle: bool | None = None,
        strict: bool = True,
        verify: bool = False,
    ) -> Self:
        """Load the collection that :meth:`memmap` wrote to a folder: the same as :meth:`load_memmap`.

        Args:
            prefix: the folder, or an archive.
            device: where the tensors are moved; by default they stay mapped.
            non_blocking: do not wait until the tensors are on the device.
            out: a collection to write the values into, as :meth:`load_memmap_` does. It becomes the result.
            robust_key: how files of keys such as ``"a b"`` are named, in folders that tensordict wrote.
            subpath: the key of a nested collection, to load only this one.
            mode: ``"r+"`` writes changes of the tensors to the files, ``"r"`` keeps them in this process. By default
                ``"r+"`` if the files are writable.
            num_threads: the number of threads that read values, if values are read.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files
                that you trust.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.
            verify: read all values, and compare them with the checksums that ``memmap(checksum=True)`` stored.

        Returns:
            A collection of this class, whose tensors share memory with the files.

        Raises:
            FileNotFoundError: the folder does not exist, or nothing was saved there.
            ValueError: a file is damaged or does not fit the record. Names every field that does not fit.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     saved = TensorDict({"x": torch.ones(3)}, [3]).memmap(folder)
            ...     TensorDict.load(folder)["x"]
            MemoryMappedTensor([1., 1., 1.])
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.memmap.append")
    def append_memmap(
        cls,
        prefix: Filename,
        rows: Self,
        *,
        allow_pickle: bool | None = None,
        progress: bool | None = None,
        pbar: bool | None = None,
    ) -> None:
        """Append rows to those that :meth:`memmap` wrote to a folder.

        Existing rows are not copied, so the time depends on the new rows only. Readers see either the old rows or all
        rows, also if the process is killed. Collections that were loaded before keep their rows;
        :meth:`memmap_refresh_` gives them the new ones. Several processes may append at the same time. Files that a
        snapshot shares by hard links are copied before they grow.

        Args:
            prefix: the folder.
            rows: a collection with the same keys, dtypes and, except for the first dimension, shapes; for a record, of
                this class. Objects that differ become a column. The rows of a lazy stack become further parts. An
                unbatched tensor stays unchanged.
            allow_pickle: write objects that JSON cannot hold as pickles.
            progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
            pbar: another name of ``progress``.

        Raises:
            ValueError: nothing is saved there, or the rows do not fit. Lists all differences. Nothing was written.
            OSError: the disk is full or does not support locks. Nothing was written.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     saved = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
            ...     TensorDict.append_memmap(folder + "/rows", TensorDict({"x": torch.ones(2)}, [2]))
            ...     TensorDict.load_memmap(folder + "/rows")["x"].tolist()
            [0.0, 0.0, 0.0, 1.0, 1.0]
        """
        ...

    @delegated("tensorclass.storage.memmap.memmap_methods")
    def load_memmap_(
        self,
        prefix: Filename,
        robust_key: bool | None = True,
        *,
        allow_pickle: bool | None = None,
        mode: str | None = None,
    ) -> Self:
        """Read the values in a folder into this collection.

        Existing tensors get the values in place. Missing keys are added with tensors that are mapped to the folder,
        unless the collection is locked. Other keys stay unchanged.

        Args:
            prefix: the folder, or an archive.
            robust_key: matters only for folders that tensordict wrote; see :meth:`load_memmap`.
            allow_pickle: read objects that were written as pickles. Use it only for files that you trust.
            mode: how files of added keys are mapped; see :meth:`load_memmap`.

        Returns:
            This collection.

        Raises:
            RuntimeError: shapes differ, or a key is missing and the collection is locked.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.zeros(3)}, [3])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     saved = TensorDict({"x": torch.ones(3)}, [3]).memmap(folder + "/rows")
            ...     data.load_memmap_(folder + "/rows")["x"]
            tensor([1., 1., 1.])
        """
        ...

    load_ = load_memmap_

    @delegated("tensorclass.storage.memmap.memmap_methods")
    def memmap_refresh_(self, *, allow_pickle: bool | None = None) -> Self:
        """Reload the folder of this memory-mapped collection, to see what another process saved there.

        Args:
            allow_pickle: read objects that were written as pickles. Use it only for files that you trust.

        Returns:
            This collection.

        Raises:
            RuntimeError: the collection is not in a folder.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
            ...     TensorDict.append_memmap(folder + "/rows", TensorDict({"x": torch.ones(2)}, [2]))
            ...     data.memmap_refresh_().batch_size
            torch.Size([5])
        """
        ...

    @delegated("tensorclass.storage.memmap.memmap_methods")
    def make_memmap(
        self, key: NestedKey, shape: Sequence[int], *, dtype: torch.dtype | None = None, robust_key: bool | None = True
    ) -> MemoryMappedTensor:
        """Create a tensor of zeros in this memory-mapped collection, in a file of its folder.

        Args:
            key: the key of the tensor. Missing nested collections are created.
            shape: the shape, which begins with the batch size.
            dtype: the dtype; by default torch's default dtype.
            robust_key: encode keys that cannot be names of files. With ``False`` they are an error.

        Returns:
            The new tensor.

        Raises:
            RuntimeError: the collection is not memory-mapped, already has the key, or is a lazy stack.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
            ...     data.make_memmap("y", [3, 2]).fill_(1.0)
            ...     sorted(TensorDict.load_memmap(folder + "/rows").keys())
            MemoryMappedTensor([[1., 1.],
                                [1., 1.],
                                [1., 1.]])
            ['x', 'y']
        """
        ...

    @delegated("tensorclass.storage.memmap.memmap_methods")
    def make_memmap_from_tensor(
        self,
        key: NestedKey,
        tensor: Tensor,
        *,
        copy_data: bool = True,
        existsok: bool = True,
        robust_key: bool | None = True,
    ) -> MemoryMappedTensor:
        """Create a copy of a tensor in this memory-mapped collection; see :meth:`make_memmap`.

        Args:
            key: the key of the new tensor.
            tensor: gives the shape, the dtype and the values.
            copy_data: write the values; with ``False`` the file holds zeros.
            existsok: replace a file of that name that belongs to no key; with ``False`` it is an error.
            robust_key: encode keys that cannot be names of files. With ``False`` they are an error.

        Returns:
            The new tensor.

        Raises:
            RuntimeError: as in :meth:`make_memmap`.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
            ...     _ = data.make_memmap_from_tensor("y", torch.arange(3))
            ...     TensorDict.load_memmap(folder + "/rows")["y"]
            MemoryMappedTensor([0, 1, 2])
        """
        ...

    @delegated("tensorclass.storage.memmap.memmap_methods")
    def make_memmap_from_storage(
        self,
        key: NestedKey,
        storage: torch.UntypedStorage,
        shape: Sequence[int],
        *,
        dtype: torch.dtype | None = None,
        robust_key: bool | None = True,
    ) -> MemoryMappedTensor:
        """Create a tensor with the values of a storage in this memory-mapped collection; see :meth:`make_memmap`.

        Args:
            key: the key of the new tensor.
            storage: the values.
            shape: the shape, which begins with the batch size.
            dtype: the dtype of the values; by default torch's default dtype.
            robust_key: encode keys that cannot be names of files. With ``False`` they are an error.

        Returns:
            The new tensor.

        Raises:
            RuntimeError: as in :meth:`make_memmap`.
            ValueError: the storage has fewer bytes than the shape needs.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
            ...     storage = torch.arange(6.0).untyped_storage()
            ...     _ = data.make_memmap_from_storage("y", storage, [3, 2])
            ...     TensorDict.load_memmap(folder + "/rows")["y"]
            MemoryMappedTensor([[0., 1.],
                                [2., 3.],
                                [4., 5.]])
        """
        ...

    @property
    @delegated("tensorclass.storage.memmap.memmap_methods")
    def saved_path(self) -> Path:
        """The folder of a memory-mapped collection.

        Raises:
            AttributeError: the collection is not in a folder.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder)
            ...     str(data.saved_path) == folder
            True
        """
        ...
