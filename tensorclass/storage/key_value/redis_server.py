"""Connections to a Redis server, whose errors say which server and what to do."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tensorclass.storage.common.collection_tree import FileError
from tensorclass.support.extras import require

_EXTRA = "redis"


class Unreachable(FileError, ConnectionError):
    """The server cannot be reached."""


class ServerError(FileError):
    """The server has refused a command: its memory is full, for example."""


@dataclass(frozen=True)
class StoreAddress:
    """The address of a store: the server, the prefix of its keys, and its id."""

    host: str = "localhost"
    port: int = 6379
    db: int = 0
    unix_socket_path: str | None = None
    prefix: str = "tensordict"
    td_id: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)  #: passed to the client: passwords, ...

    @property
    def server(self) -> str:
        """The server, for errors."""
        if self.unix_socket_path is not None:
            return f"unix:{self.unix_socket_path}/{self.db}"
        return f"redis://{self.host}:{self.port}/{self.db}"

    @property
    def key(self) -> str:
        """The key of the root group; the other keys of the store begin with it."""
        return f"{self.prefix}:{self.td_id}"

    def __str__(self) -> str:
        return f"{self.server}/{self.key}"


class RedisServer:
    """An open connection to the server of a store.

    Args:
        address: where the store is.

    Raises:
        ImportError: the package ``redis`` is not installed.
        Unreachable: there is no server at this address.
    """

    def __init__(self, address: StoreAddress) -> None:
        self.address: StoreAddress = address
        self._library = require("redis", _EXTRA, "to_store")
        backoff, retry = require("redis.backoff", _EXTRA, "to_store"), require("redis.retry", _EXTRA, "to_store")
        # once, for connections that the server has closed: all commands can be repeated
        options = {"retry": retry.Retry(backoff.NoBackoff(), 1), **address.options}
        if address.unix_socket_path is not None:
            options["unix_socket_path"] = address.unix_socket_path
        else:
            options |= {"host": address.host, "port": address.port}
        self.client: Any = self._library.Redis(db=address.db, **options)
        self.is_open: bool = True
        try:
            with self.commands() as client:
                client.ping()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def commands(self) -> Generator[Any, None, None]:
        """Give the client for a block; its errors become those of this package."""
        errors, address = self._library.exceptions, self.address
        try:
            yield self.client
        except (errors.AuthenticationError, errors.AuthorizationError) as error:
            raise ServerError(f"{address}: {error}; pass username= and password=") from None
        except (errors.ConnectionError, errors.TimeoutError) as error:
            start = "redis-server"
            if address.unix_socket_path is not None:
                start += f" --port 0 --unixsocket {address.unix_socket_path}"
            elif address.port != 6379:
                start += f" --port {address.port}"
            raise Unreachable(
                f"{address.server}: the Redis server cannot be reached: {error}; is it running? Start one with "
                f"`{start}`, or pass host=, port= or unix_socket_path="
            ) from None
        except errors.RedisError as error:
            hint = ""
            if "maximum allowed size" in str(error):
                hint = "; an array is one string: raise proto-max-bulk-len of the server, or write several arrays"
            raise ServerError(f"{address}: the Redis server refused: {error}{hint}") from None

    def change(self, make: Callable[[Any], None], *watched: str) -> None:
        """Run a transaction; again if another client has changed the watched keys meanwhile.

        Args:
            make: takes a pipeline: reads what it needs, calls ``multi()``, then queues its commands.
            watched: the keys that must not change between its reads and the commands.
        """
        with self.commands() as client:
            client.transaction(make, *watched)

    def close(self) -> None:
        """Close the connection. The data stay in the server."""
        self.is_open = False
        self.client.close()
