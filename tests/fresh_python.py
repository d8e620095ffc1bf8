"""Fresh interpreters in milliseconds: forks of a process that has imported torch, and nothing else.

``python -c "import torch"`` takes two seconds of a core. :func:`run` takes the arguments of ``python`` and returns what
:func:`subprocess.run` returns. The program has its own ``__main__``, arguments, environment, folder and standard
streams, and ends as an interpreter does. No module is loaded when it begins but those that torch imports.

:func:`command` is for programs that start others, such as torchrun: it stands for the path of the interpreter.
"""

from __future__ import annotations

import builtins
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

_NUMBER = struct.Struct("i")

# -- the asking side --------------------------------------------------------------------------------------------------


def run(
    arguments: Sequence[str | Path],
    *,
    input: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    text: bool = True,
    timeout: float = 600.0,
    check: bool = False,
) -> subprocess.CompletedProcess[Any]:
    """Run ``python`` with these arguments, and return its exit code, output and errors.

    Args:
        arguments: ``-c CODE``, ``-m MODULE`` or the path of a script, and what the program gets; ``-W ignore`` may
            stand before them.
        input: what it reads; nothing by default.
        env: its environment; that of this process by default.
        cwd: its folder; that of this process by default.
        text: output and errors are strings.
        timeout: the seconds after which it is killed.
        check: an exit code other than 0 is an error.
    """
    import subprocess
    import tempfile

    command = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(input.encode() if isinstance(input, str) else input or b"")
        stdin.seek(0)
        code = _ask(_server(), command, (stdin, stdout, stderr), env, cwd, timeout)
        found: list[Any] = []
        for stream in (stdout, stderr):
            stream.seek(0)
            found.append(stream.read().decode() if text else stream.read())
    if code is None:
        raise subprocess.TimeoutExpired(command, timeout, *found)
    if check and code:
        raise AssertionError(f"exit code {code}: {found[1]}")
    return subprocess.CompletedProcess(command, code, *found)


def start() -> None:
    """Start the server, for tests that count the processes they leave behind."""
    _server()


def command() -> list[str]:
    """Return what stands for ``python`` in the command of another program: a process that asks for a fork."""
    return [sys.executable, "-I", "-S", __file__, "ask", _server()]


def _ask(
    server: str,
    arguments: Sequence[str],
    streams: Sequence[IO[bytes] | int],
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float | None = None,
) -> int | None:
    """Return the exit code of a program, or ``None`` if it was killed after the time-out."""
    request = json.dumps([list(arguments), dict(os.environ if env is None else env), os.fspath(cwd or os.getcwd())])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        numbers = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        socket.send_fds(connection, [b"x"], numbers)
        connection.sendall(request.encode() + b"\n")
        pid = _number(connection)
        try:
            if not select.select([connection], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                _number(connection)
                return None
            return _number(connection)
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGKILL)
            raise


def _number(connection: socket.socket) -> int:
    data = connection.recv(_NUMBER.size, socket.MSG_WAITALL)
    if len(data) < _NUMBER.size:
        raise EOFError("the server of fresh interpreters has ended; its error is above")
    number: int = _NUMBER.unpack(data)[0]
    return number


@cache
def _server() -> str:
    """Return the path of the socket of this process's server. The first call starts it."""
    import atexit
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix="fresh-python-")  # no TemporaryDirectory: a fork that ends would remove it
    path = os.path.join(folder, "socket")
    theirs, ours = os.pipe()  # the server ends when this process and its forks do, which closes their ends
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        files = (listening.fileno(), theirs)
        process = subprocess.Popen(
            [sys.executable, __file__, "serve", *map(str, files)],
            pass_fds=files, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    os.close(theirs)
    started_by = os.getpid()

    @atexit.register
    def end() -> None:
        if os.getpid() == started_by:
            os.close(ours)
            process.kill()  # a fork that hangs would keep it waiting
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)

    return path


# -- the server -------------------------------------------------------------------------------------------------------


def _serve(listening: socket.socket, lifeline: int) -> list[Any]:
    """Answer requests for ever. Returns in the forks, with the request."""
    while True:
        ready, _, _ = select.select([listening, lifeline], [], [])
        if lifeline in ready:
            os._exit(0)
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            os.close(lifeline)
            return _attend(connection)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that have attended
                pass


def _attend(connection: socket.socket) -> list[Any]:
    """Fork the program, which returns with the request, and send its process id and its exit code."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as file:
        request: list[Any] = json.loads(file.readline())
    pid = os.fork()
    if not pid:
        connection.close()
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
            os.close(stream)
        return request
    for stream in streams:
        os.close(stream)
    try:
        connection.sendall(_NUMBER.pack(pid))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(_NUMBER.pack(code))
    finally:
        os._exit(0)


def _become(arguments: list[str], env: dict[str, str], cwd: str, own_path: list[str]) -> None:
    """Run the program that ``python`` runs with these arguments."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.modules["__main__"] = main = ModuleType("__main__")
    vars(main).update(__builtins__=builtins, __spec__=None)
    while arguments[0] == "-W":
        import warnings

        sys.warnoptions.append(arguments[1])
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        arguments = arguments[2:]
    given = [os.path.abspath(path) for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *given, *own_path]
    if arguments[0] == "-m":
        import runpy

        sys.path[0], sys.argv = cwd, arguments[:1] + arguments[2:]
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
    elif arguments[0] == "-c":
        sys.argv = arguments[:1] + arguments[2:]
        exec(compile(arguments[1], "<string>", "exec", dont_inherit=True), vars(main))
    else:
        sys.path[0], sys.argv = os.path.dirname(os.path.abspath(arguments[0])), arguments
        main.__file__ = os.path.abspath(arguments[0])
        exec(compile(Path(arguments[0]).read_bytes(), arguments[0], "exec", dont_inherit=True), vars(main))


def _own_path() -> list[str]:
    """The entries of ``sys.path`` that every interpreter of this environment has."""
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return [path for path in sys.path[1:] if path not in given]


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        _code = _ask(sys.argv[2], sys.argv[3:], (0, 1, 2))
        sys.exit(_code if _code is None or _code >= 0 else 128 - _code)
    import gc

    import torch  # noqa: F401

    gc.collect()
    gc.freeze()  # otherwise each fork copies all pages with objects of torch when it ends
    _become(*_serve(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3])), _own_path())
