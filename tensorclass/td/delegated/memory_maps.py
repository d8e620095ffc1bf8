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
from tensorclass.td.memmap import Filename, MemoryMappedTensor

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
    ) -> Future[Self]: ...
    @delegated("tensorclass.storage.memmap")
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
    ) -> Self | Future[Self]:
        """Writes the collection to a folder, and gives one whose tensors lie in the files there.

        The folder is written as a whole or not at all: it takes its place when all is written, in one step, and so does
        one that is written over. The result is locked; its values can be written in place, and go to the files.

        Args:
            prefix: the folder, with a folder in it for each nested collection. Without one the tensors are in memory
                that processes share.
            copy_existing: copy tensors that lie in other files already; otherwise that is an error.
            num_threads: how many threads write files.
            return_early: give a future whose ``result()`` is the collection. Leave the tensors alone until then.
            share_non_tensor: not supported where there are objects: each process has its own.
            existsok: write over a collection that is there already.
            robust_key: write keys that are no names of files (``"a/b"``) in another form; ``False``: an error.
            archive: write one file, an archive of the folder, from which tensors are mapped to memory; see
                :func:`pack_memmap`. By default where ``prefix`` ends with ``.tdz``. The result is not locked, and what
                is written to it stays in this process.
            compression: of the archive: ``"deflated"``, ``"bzip2"`` or ``"lzma"``; tensors are then read, not mapped.
            atomic: for calls as the peer has them; a folder is whole or absent in any case.
            allow_pickle: write objects that JSON cannot hold as pickles, which only ``allow_pickle=True`` reads.
            checksum: write down what the values of each tensor add up to, so that ``load_memmap(verify=True)`` sees
                damage. It holds until values are written in place.
            progress: show a bar; by default on a terminal, where it takes more than two seconds.

        Raises:
            FileExistsError: a collection is there, and ``existsok`` is ``False``. It is a RuntimeError, too.
            RuntimeError: a tensor lies in another file, and ``copy_existing`` is ``False``.
            TypeError: values that files cannot hold, all of them. Nothing was written.

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
    ) -> Future[Self]: ...
    @delegated("tensorclass.storage.memmap")
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
    ) -> Self | Future[Self]:
        """:meth:`memmap` in place: the tensors of this collection become those in the files, and it is locked.

        The arguments are those of :meth:`memmap`. Where writing fails, the collection stays as it was.
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
    @delegated("tensorclass.storage.memmap")
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
        """:meth:`memmap` without the values: files of the same shapes and dtypes, for a data set that is to be filled.

        The files hold zeros, and take no space before they are written. Objects are written as they are. The arguments
        are those of :meth:`memmap`.

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
    @delegated("tensorclass.storage.memmap")
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
        """The collection that :meth:`memmap` wrote to a folder, its tensors mapped to memory.

        Only what the folder says of itself is read; values are read when they are used. A record is checked against its
        fields, whatever class wrote the folder. No code in the folder runs, and nothing is imported for it.

        Args:
            prefix: the folder, or an archive; a folder of a nested collection is loaded by itself.
            device: where the tensors go. ``meta`` opens no file of a tensor, as fake tensors do.
            non_blocking: do not wait for them to get there.
            out: a collection to write the values into, as :meth:`load_memmap_` does, which is then the result.
            robust_key: a folder that tensordict wrote does not say how it names the files of keys like ``"a b"``. Both
                ways are tried; ``False`` tries the key itself first, which matters where another key is named as its
                file would be. In folders of this package it changes nothing.
            subpath: the key of a nested collection, to load this one alone.
            mode: ``"r+"`` writes to the files what is written to the tensors, ``"r"`` keeps it in this process; by
                default the first where the files may be written.
            num_threads: how many threads read values, where they are read: to go to a device or into ``out``, for
                ``verify``, and of a compressed archive. Where tensors are mapped only, nothing is read.
            allow_pickle: read objects that were written as pickles. A pickle can run any code: only for files that you
                trust.
            strict: for a record, the folder has its fields and no others; ``False`` leaves others out, with a warning.
            verify: read all values, and compare them with the checksums that ``memmap(checksum=True)`` wrote.

        Raises:
            FileNotFoundError: there is no folder, or nothing was saved there.
            ValueError: a file is damaged, or does not fit the record: every field that does not is named.

        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3), "below": {"y": torch.ones(3)}}, [3]).memmap(folder)
        ...     TensorDict.load_memmap(folder, subpath="below")["y"]
        MemoryMappedTensor([1., 1., 1.])
        """
        ...

    @classmethod
    @delegated("tensorclass.storage.memmap", "load_memmap")
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
        """:meth:`load_memmap`, whose arguments it has."""
        ...

    @classmethod
    @delegated("tensorclass.storage.appending")
    def append_memmap(
        cls, prefix: Filename, rows: Self, *, allow_pickle: bool | None = None, progress: bool | None = None
    ) -> None:
        """Writes more rows behind those that :meth:`memmap` wrote to a folder.

        What is there is not copied: it takes as long as writing the rows. Readers see the rows that were there or those
        and all of the new ones, and so it stays where the process is killed. Collections that were loaded before keep
        their rows; :meth:`memmap_refresh_` gives them the new ones. Several processes may append at a time. Files that
        a snapshot of hard links shares are copied before they grow.

        Args:
            prefix: the folder.
            rows: a collection with the keys, the dtypes and, but for the first dimension, the shapes of what is there;
                for a record one of this class. Objects become a column where they differ; the rows of a lazy
                stack are further parts; an unbatched tensor stays what it is.
            allow_pickle: write objects that JSON cannot hold as pickles.
            progress: show a bar; by default on a terminal, where it takes more than two seconds.

        Raises:
            ValueError: nothing is saved there, or the rows do not fit; all differences are named, nothing was written.
            OSError: the disk is full, or has no locks; nothing was written.

        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
        ...     TensorDict.append_memmap(folder + "/rows", TensorDict({"x": torch.ones(2)}, [2]))
        ...     TensorDict.load_memmap(folder + "/rows")["x"].tolist()
        [0.0, 0.0, 0.0, 1.0, 1.0]
        """
        ...

    @delegated("tensorclass.storage.memmap")
    def load_memmap_(
        self,
        prefix: Filename,
        robust_key: bool | None = True,
        *,
        allow_pickle: bool | None = None,
        mode: str | None = None,
    ) -> Self:
        """Writes the values in a folder into this collection; :meth:`load_memmap` says what the arguments are.

        The tensors that are here get the values in place; keys that are missing here are added, unless it is locked,
        with tensors mapped to the folder; others stay.

        Raises:
            RuntimeError: shapes differ, or a key is missing and the collection is locked.
        """
        ...

    load_ = load_memmap_

    @delegated("tensorclass.storage.memmap")
    def memmap_refresh_(self, *, allow_pickle: bool | None = None) -> Self:
        """Looks again at the folder that this collection lies in: what another process saved there meanwhile.

        Raises:
            RuntimeError: it does not lie in a folder.
        """
        ...

    @delegated("tensorclass.storage.memmap")
    def make_memmap(
        self, key: NestedKey, shape: Sequence[int], *, dtype: torch.dtype | None = None, robust_key: bool | None = True
    ) -> MemoryMappedTensor:
        """A new tensor of this memory-mapped collection, of zeros, in a file of its folder.

        Args:
            key: where it goes; a nested collection that is not there is made.
            shape: its shape, which begins with the batch size.
            dtype: torch's default by default.
            robust_key: see :meth:`memmap`.

        Raises:
            RuntimeError: the collection is not memory-mapped, or has the key already, or is a lazy stack.
        """
        ...

    @delegated("tensorclass.storage.memmap")
    def make_memmap_from_tensor(
        self,
        key: NestedKey,
        tensor: Tensor,
        *,
        copy_data: bool = True,
        existsok: bool = True,
        robust_key: bool | None = True,
    ) -> MemoryMappedTensor:
        """:meth:`make_memmap` of a tensor.

        Args:
            key: where it goes.
            tensor: its shape and dtype, and its values.
            copy_data: write the values; otherwise the file has zeros.
            existsok: write over a file of that name which belongs to no key; otherwise that is an error.
            robust_key: see :meth:`memmap`.
        """
        ...

    @delegated("tensorclass.storage.memmap")
    def make_memmap_from_storage(
        self,
        key: NestedKey,
        storage: torch.UntypedStorage,
        shape: Sequence[int],
        *,
        dtype: torch.dtype | None = None,
        robust_key: bool | None = True,
    ) -> MemoryMappedTensor:
        """:meth:`make_memmap` with the values in a piece of memory."""
        ...

    @property
    @delegated("tensorclass.storage.memmap")
    def saved_path(self) -> Path:
        """The folder that a memory-mapped collection lies in.

        Raises:
            AttributeError: it does not lie in a folder.
        """
        ...
