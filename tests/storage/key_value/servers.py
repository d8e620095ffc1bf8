"""Start a Redis server for tests, and end it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_SECONDS = 60  #: for the server to answer; it takes a hundredth


@contextmanager
def redis_server() -> Iterator[Path]:
    """Start a server that writes no files, and end it with the block. Skips the test where there is none.

    Returns:
        The path of its socket, ``redis.sock`` in a folder of its own, whose path is short as sockets need it.
    """
    library: Any = pytest.importorskip("redis")
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        socket = Path(folder, "redis.sock")
        command = [binary, "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
        process = subprocess.Popen(
            [*command, "--dir", folder], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait(library, process, socket)
            yield socket
        finally:
            process.kill()
            process.wait()


def _wait(library: Any, process: subprocess.Popen[bytes], socket: Path) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            with library.Redis(unix_socket_path=str(socket)) as client:
                client.ping()
            return
        except library.exceptions.RedisError:
            assert process.poll() is None, "redis-server has ended"
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.01)
