"""What an editor shows: completions, asked of the language servers of the checkers that have one."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.typing.checkers import SCRIPTS, Project

SERVERS = {
    "pyright": ("pyright-langserver", "--stdio"),
    "pyrefly": ("pyrefly", "lsp"),
    "ty": ("ty", "server"),
}


def completions(server: str, project: Project, file: str, positions: list[tuple[int, int]]) -> list[list[str]]:
    """The names that are offered at each of some positions in a file: lines and columns, counted from 0."""
    path = project.folder / file
    program, *options = SERVERS[server]
    environment = {**os.environ, "VIRTUAL_ENV": str(project.environment)}
    environment["PATH"] = f"{project.python.parent}{os.pathsep}{environment['PATH']}"
    environment.pop("PYTHONPATH", None)
    with subprocess.Popen(
        [SCRIPTS / program, *options],
        cwd=project.folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            return _asked(_Server(process, project.folder), path, positions)
        except BaseException:
            process.kill()
            raise


class _Server:
    """The language server protocol, as far as it is needed."""

    def __init__(self, process: "subprocess.Popen[bytes]", root: Path) -> None:
        assert process.stdin
        assert process.stdout
        self.input, self.output, self.root = process.stdin, process.stdout, root

    def send(self, method: str, params: Any, number: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(message if number is None else {**message, "id": number})

    def write(self, message: dict[str, Any]) -> None:
        content = json.dumps(message).encode()
        self.input.write(b"Content-Length: %d\r\n\r\n%s" % (len(content), content))
        self.input.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        while header := self.output.readline():
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
            elif not header.strip():
                yield json.loads(self.output.read(length))

    def answer(self, number: int) -> Any:
        """The answer to a request; questions of the server about settings are answered with none."""
        for message in self.messages():
            if message.get("id") == number and "method" not in message:
                return message.get("result")
            if "id" in message and "method" in message:
                items = message.get("params", {}).get("items", []) if "configuration" in message["method"] else None
                result = None if items is None else [{} for _ in items]
                self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})
        raise RuntimeError("the server ended without an answer")


def _asked(server: _Server, path: Path, positions: list[tuple[int, int]]) -> list[list[str]]:
    root = server.root.as_uri()
    folders = [{"uri": root, "name": "project"}]
    capabilities = {"workspace": {"configuration": True, "workspaceFolders": True}, "textDocument": {"completion": {}}}
    server.send(
        "initialize",
        {"processId": os.getpid(), "rootUri": root, "workspaceFolders": folders, "capabilities": capabilities},
        1,
    )
    server.answer(1)
    server.send("initialized", {})
    document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": path.read_text()}
    server.send("textDocument/didOpen", {"textDocument": document})
    offered: list[list[str]] = []
    for number, (line, column) in enumerate(positions, 2):
        position = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
        server.send("textDocument/completion", position, number)
        found = server.answer(number)
        items = found["items"] if isinstance(found, dict) else found or []
        offered.append([item["label"] for item in items])
    server.send("shutdown", None, 1)
    server.answer(1)
    server.send("exit", None)
    return offered
