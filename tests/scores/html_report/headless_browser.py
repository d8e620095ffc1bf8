"""Headless Chromium, driven through its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: names of the browser's command, of Debian and others
_COMMANDS = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 120.0  # seconds for an answer


def browser_command() -> str | None:
    """The path of the browser, or None where there is none."""
    return next((path for name in _COMMANDS if (path := shutil.which(name)) is not None), None)


class Browser:
    """A page in the browser.

    Attributes:
        problems: what the console and the browser's log said: errors of scripts, violations of the page's policy.
        requests: the addresses that the page asked for, itself included.
    """

    def __init__(self, read_end: int, write_end: int) -> None:
        self._read_end, self._write_end = read_end, write_end
        self._received = b""
        self._last = 0
        self._loaded = False
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, path: Path, *, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of a size, and wait until it is loaded."""
        self.resize(width, height)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.problems.clear()
        self.requests.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not self._loaded:
            self._note(self._message())

    def resize(self, width: int, height: int) -> None:
        """Change the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """Evaluate an expression of JavaScript and return its value."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key: a character, ``"Tab"`` or ``"Enter"``."""
        codes: Mapping[str, tuple[int, str]] = {"Tab": (9, ""), "Enter": (13, "\r")}
        code, text = codes.get(key, (ord(key[0].upper()), key))
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture (PNG) of the window, or of the whole page."""
        result = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(result["data"]))

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        """End the browser."""
        self._session = None
        self.call("Browser.close")

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            self.problems.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._received:
            if not select.select([self._read_end], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {_PATIENCE} s")
            chunk = os.read(self._read_end, 1 << 16)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def headless_browser(command: str, profile: Path) -> Iterator[Browser]:
    """Start the browser; end it with the block.

    Args:
        command: its path.
        profile: a folder for what it writes.
    """
    to_browser, from_here = os.pipe()
    from_browser, to_here = os.pipe()

    def pass_pipes() -> None:  # the browser reads from descriptor 3 and writes to 4
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (to_browser, to_here)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        [
            command,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # root has none
            "--disable-gpu",
            "--disable-extensions",
            "--no-first-run",
            f"--user-data-dir={profile}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=pass_pipes,
        close_fds=False,
    )
    os.close(to_browser)
    os.close(to_here)
    try:
        browser = Browser(from_browser, from_here)
        yield browser
        browser.close()
        process.wait(timeout=_PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(from_browser)
        os.close(from_here)
