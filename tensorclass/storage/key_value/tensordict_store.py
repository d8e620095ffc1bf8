"""Collections that stay in a Redis server, whose values are read and written in place."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Size
from typing_extensions import Self

from tensorclass.storage.hdf5_zarr.array_file import ArrayFile, FileOptions, check
from tensorclass.storage.hdf5_zarr.group_loader import LoadOptions, load_root
from tensorclass.storage.hdf5_zarr.persistent_tensordict import PersistentTensorDict
from tensorclass.support.interrupts import uninterrupted
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.keys import NestedKey
from tensorclass.td.stores.store_classes import dense_class
from tensorclass.td.tensordict import TensorDict

from .redis_backend import Redis
from .redis_server import StoreAddress

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

METHODS_OF = "Files"
C = TypeVar("C", bound="TensorCollection")


class TensorDictStore(PersistentTensorDict):
    """A collection whose values stay in a Redis server, or another one that speaks Redis's protocol.

    Each access reads a value from the server; an index reads only its rows. Nothing is cached. Writes go to the server,
    and results of operations are in memory. The data stay in the server, and take its memory, until
    :meth:`clear_redis` removes them. ``data.to_store()`` writes a collection or a record to a server;
    :meth:`from_store` opens it in other processes. This constructor makes an empty store that is filled key by key.

    Each array is one string of the server, of 512 MB at most unless its ``proto-max-bulk-len`` allows more. Objects are
    JSON; nothing that is read is run.

    Args:
        backend: ``"redis"``.
        host: the name of the server's machine.
        port: the port of the server.
        db: the number of the database in the server.
        unix_socket_path: the socket of a server on this machine, instead of host and port.
        prefix: the beginning of all keys in the server.
        batch_size: the leading dimensions of all values.
        device: where tensors go when they are read.
        td_id: the id of the store; by default a new one. Names with the prefix the store in the server.
        options: arguments of ``redis.Redis``: ``username``, ``password``, ``ssl``, ...

    Raises:
        ImportError: the package ``redis`` is not installed (the extra ``redis``).
        ConnectionError: the server cannot be reached.
        FileExistsError: the server has a store with this id.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDictStore
        >>> data = TensorDictStore(
        ...     unix_socket_path="redis.sock", batch_size=[4]
        ... )  # redis-server --port 0 --unixsocket redis.sock
        >>> data["x"] = torch.arange(4.0)
        >>> data[1:3] = {"x": torch.zeros(2)}
        >>> data["x"]
        tensor([0., 0., 0., 3.])
        >>> data.clear_redis()
    """

    __slots__ = ()

    _CONSTRUCTORS: ClassVar[tuple[str, ...]] = ("from_dict", "from_schema", "from_store")

    def __new__(
        cls,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = None,
        td_id: str | None = None,
        **options: Any,
    ) -> Self:
        where = StoreAddress(host, port, db, unix_socket_path, prefix, _store_id(backend, td_id), options)
        return _upload(TensorDict({}, batch_size or []), where, device)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(  # type: ignore[override]
        cls,
        input_dict: Mapping[str, Any] | TensorCollection,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        auto_batch_size: bool = False,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = None,
        batch_dims: int | None = None,
        names: Sequence[str] | None = None,
        td_id: str | None = None,
        **options: Any,
    ) -> Self:
        """Write the values of a mapping to a new store, completely or not at all.

        Args:
            input_dict: the values.
            backend: ``"redis"``.
            host: the name of the server's machine.
            port: the port of the server.
            db: the number of the database in the server.
            unix_socket_path: the socket of a server on this machine, instead of host and port.
            prefix: the beginning of all keys in the server.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_size: the batch size; by default that of a collection, and ``[]`` for a mapping.
            device: where tensors go when they are read.
            batch_dims: the largest number of dimensions of an inferred batch size; infers it.
            names: the names of the batch dimensions.
            td_id: the id of the store; by default a new one.
            options: arguments of ``redis.Redis``.

        Returns:
            A collection on the store.

        Raises:
            ImportError: the package ``redis`` is not installed.
            ConnectionError: the server cannot be reached.
            TypeError: the store cannot hold some values. Lists all of them. Nothing was written.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDictStore
            >>> data = TensorDictStore.from_dict(
            ...     {"x": torch.zeros(3, 2)}, batch_size=[3], unix_socket_path="redis.sock"
            ... )
            >>> data.batch_size
            torch.Size([3])
            >>> data.clear_redis()
        """
        where = StoreAddress(host, port, db, unix_socket_path, prefix, _store_id(backend, td_id), options)
        infers = auto_batch_size or batch_dims is not None
        if isinstance(input_dict, Collection) and batch_size is None and names is None and not infers:
            return _upload(input_dict, where, device)  # type: ignore[no-any-return]
        given: Any = input_dict
        data = TensorDict.from_dict(
            dict(given.items()), batch_size=None if infers else batch_size or [], batch_dims=batch_dims,
            auto_batch_size=infers or None, names=names,
        )  # fmt: skip
        return _upload(data, where, device)  # type: ignore[no-any-return]

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[NestedKey, tuple[Sequence[int], torch.dtype]],
        *,
        batch_size: Sequence[int] | None = None,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        device: DeviceLike | None = None,
        td_id: str | None = None,
        **options: Any,
    ) -> Self:
        """Make a new store of zeros. The server makes them: none are sent.

        Args:
            schema: for each key, nested or not, the shape after the batch dimensions, and the dtype.
            batch_size: the batch size; ``[]`` by default.
            backend: ``"redis"``.
            host: the name of the server's machine.
            port: the port of the server.
            db: the number of the database in the server.
            unix_socket_path: the socket of a server on this machine, instead of host and port.
            prefix: the beginning of all keys in the server.
            device: where tensors go when they are read.
            td_id: the id of the store; by default a new one.
            options: arguments of ``redis.Redis``.

        Returns:
            A collection on the store.

        Raises:
            ImportError: the package ``redis`` is not installed.
            ConnectionError: the server cannot be reached.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDictStore
            >>> schema = {"image": ([8, 8], torch.uint8), ("pose", "angle"): ([], torch.float32)}
            >>> data = TensorDictStore.from_schema(schema, batch_size=[100], unix_socket_path="redis.sock")
            >>> data["image"].shape
            torch.Size([100, 8, 8])
            >>> data.clear_redis()
        """
        where = StoreAddress(host, port, db, unix_socket_path, prefix, _store_id(backend, td_id), options)
        size = Size(batch_size or [])
        data = TensorDict({}, size)
        for key, (shape, dtype) in schema.items():
            data[key] = torch.zeros((), dtype=dtype, device="cpu").expand(*size, *shape)  # takes no memory
        return _upload(data, where, device, values=False)  # type: ignore[no-any-return]

    @classmethod
    def from_store(  # type: ignore[override]
        cls,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        td_id: str,
        device: DeviceLike | None = None,
        tensorclass_cls: type[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Open a store that is in the server. Only metadata is read.

        Args:
            backend: ``"redis"``.
            host: the name of the server's machine.
            port: the port of the server.
            db: the number of the database in the server.
            unix_socket_path: the socket of a server on this machine, instead of host and port.
            prefix: the beginning of all keys in the server.
            td_id: the id of the store.
            device: where tensors go when they are read.
            tensorclass_cls: the class of a record. The store is checked against its fields.
            options: arguments of ``redis.Redis``.

        Returns:
            A collection on the store: of the class ``tensorclass_cls``, or a :class:`~tensorclass.TensorDict`.

        Raises:
            ImportError: the package ``redis`` is not installed.
            ConnectionError: the server cannot be reached.
            KeyError: the server has no such store.
            FileError: the store is damaged, or does not fit the class.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict, TensorDictStore
            >>> written = TensorDict({"x": torch.arange(3)}, [3]).to_store(unix_socket_path="redis.sock")
            >>> TensorDictStore.from_store(td_id=written.td_id, unix_socket_path="redis.sock")["x"]
            tensor([0, 1, 2])
            >>> written.clear_redis()
        """
        where = StoreAddress(host, port, db, unix_socket_path, prefix, _store_id(backend, td_id), options)
        made: Any = TensorDict if tensorclass_cls is None else tensorclass_cls
        is_class = isinstance(made, type) and (hasattr(made, "_specs") or issubclass(made, TensorDict))
        if not is_class:
            raise TypeError(f"from_store: expected tensorclass_cls to be a class of records, got {made!r}")
        of_class: Callable[[Any], Any] = dense_class
        return load_root(of_class(tensorclass_cls or TensorDict), _file(where), LoadOptions(device=as_device(device)))

    @property
    def td_id(self) -> str:
        """The id of the store in the server, for :meth:`from_store`.

        Example:
            >>> from tensorclass import TensorDictStore
            >>> data = TensorDictStore(td_id="run-1", unix_socket_path="redis.sock")
            >>> data.td_id
            'run-1'
            >>> data.clear_redis()
        """
        return _backend(self).where.td_id

    def clear_redis(self) -> None:
        """Remove the store from the server, all of it in one step, and close the connection.

        Raises:
            RuntimeError: this is a nested collection of the store.

        Example:
            >>> from tensorclass import TensorDictStore
            >>> TensorDictStore(unix_socket_path="redis.sock").clear_redis()
        """
        if self._store.path:
            raise RuntimeError("clear_redis: this is a nested collection; call it on the whole store, or use del_")
        _backend(self).clear(self._store.file.root)
        PersistentTensorDict.close(self)


def to_store(
    data: C,
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
) -> C:
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
    where = StoreAddress(host, port, db, unix_socket_path, prefix, _store_id(backend, td_id), kwargs)
    return _upload(data, where, device)  # type: ignore[no-any-return]


def _store_id(backend: str, td_id: str | None) -> str:
    """Return the id of a store, or a new one. Raise if there is no such backend."""
    if backend != "redis":
        raise NotImplementedError(
            f"there is no backend {backend!r}; the backend is 'redis', for all servers that speak its protocol"
        )
    if td_id == "":
        raise ValueError("td_id: expected the id of a store, got an empty string")
    return uuid.uuid4().hex if td_id is None else td_id


def _backend(data: Any) -> Redis:
    return data._store.file.backend  # type: ignore[no-any-return]


def _file(where: StoreAddress) -> ArrayFile:
    file = ArrayFile(Redis(where), str(where), "r+", FileOptions())
    file.form = TensorDictStore
    return file


def _upload(data: Any, where: StoreAddress, device: DeviceLike | None, values: bool = True) -> Any:
    """Write a collection to a new store. Without ``values``, its arrays are zeros, which are not sent."""
    given: Any = data
    outline = given._outline() if isinstance(data, PersistentTensorDict) else given
    check(outline, (), "to_store", False)
    file = _file(where)
    backend = Redis(where)
    with uninterrupted() as section:
        root = backend.draft()
        file.adopt(root)
        file.writes_zeros = not values
        try:
            with section.interruptible():
                file.write_collection(root, given)
            backend.publish(root)
        except BaseException:
            backend.drop(root)
            file.close()
            raise
        file.writes_zeros = False
    own = given._device if device is None else as_device(device)
    return load_root(dense_class(given.__class__), file, LoadOptions(device=own))
