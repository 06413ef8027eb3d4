"""A real Chromium, driven by its own protocol: opens pages, presses keys, reads what is there, takes pictures.

Not here: what is tried with it (the tests beside this file).
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import websocket

_PATIENCE_SECONDS = 60.0
_START_SECONDS = 60.0
_KEYS = {
    "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""), " ": ("Space", 32, " "),
    "ArrowDown": ("ArrowDown", 40, ""), "ArrowUp": ("ArrowUp", 38, ""), "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""), "Home": ("Home", 36, ""), "End": ("End", 35, ""),
}  # fmt: skip


def find_chromium() -> str | None:
    """Return where the browser is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class PageError(AssertionError):
    """A script of the page failed."""


class Tab:
    """One page. What its scripts throw, say as errors, and ask for is kept."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=_PATIENCE_SECONDS, suppress_origin=True)
        self._number = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """Let go of it."""
        with suppress(Exception):
            self.send("Page.close")
        self._socket.close()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the browser's answer to a command."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                found: dict[str, Any] = message["result"]
                return found
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(each.get("value")) for each in params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                entry = params["entry"]
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Go to an address."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def js(self, code: str) -> Any:
        """Return what an expression of the page comes to."""
        found = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise PageError(found["exceptionDetails"].get("exception", {}).get("description", code))
        return found["result"].get("value")

    def until(self, code: str, seconds: float = _PATIENCE_SECONDS) -> Any:
        """Return what an expression comes to, once that is something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(PageError):
                if found := self.js(f"((v) => v instanceof Node || v)({code})"):
                    return found
            time.sleep(0.03)
        raise AssertionError(f"not within {seconds:g} s: {code}\npage: {self.text()[:600]}\n{self.errors}")

    def processor_ms(self) -> float:
        """Return how long the page has kept the processor busy so far: what other programs take away is not in it."""
        self.send("Performance.enable", timeDomain="threadTicks")
        found = {each["name"]: each["value"] for each in self.send("Performance.getMetrics")["metrics"]}
        return float(found["ThreadTime"]) * 1000

    def text(self, selector: str = "body") -> str:
        """Return the words of an element."""
        return str(
            self.js(f"(document.querySelector({json.dumps(selector)}) || {{innerText: ''}}).innerText")
        )

    def click(self, selector: str) -> None:
        """Click on the first element that a selector finds."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def fill(self, selector: str, value: str) -> None:
        """Give a field a value, as typing it would."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
            "for (const n of ['input', 'change']) e.dispatchEvent(new Event(n, {bubbles: true})); })()"
        )

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            code, number, text = _KEYS.get(
                key, (f"Key{key.upper()}", ord(key.upper()) if len(key) == 1 else 0, key)
            )
            common = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def size(self, width: int, height: int = 800, *, dark: bool = False) -> None:
        """Make the window another size, and the system light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def picture(self) -> bytes:
        """Return the page as it is seen, as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])


class Browser:
    """A Chromium of its own, without a window."""

    def __init__(self, port: int) -> None:
        self._port = port

    def tab(self, url: str = "about:blank") -> Tab:
        """Open a page that shares nothing with others of before: a fresh profile is the browser's, not the page's."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
            found = json.load(answer)
        tab = Tab(found["webSocketDebuggerUrl"])
        tab.size(1280)
        if url != "about:blank":
            tab.open(url)
        return tab


@contextmanager
def chromium(binary: str) -> Iterator[Browser]:
    """Run a browser with a fresh profile, and end it."""
    with tempfile.TemporaryDirectory(prefix="weir-chromium-", ignore_cleanup_errors=True) as profile:
        command = [
            binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-component-update",
            "--hide-scrollbars", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--remote-allow-origins=*",
            "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Browser(_debugging_port(Path(profile), process))
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)


def _debugging_port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    said, end = profile / "DevToolsActivePort", time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "the browser ended before it came up"
        if said.exists() and (lines := said.read_text().split()):
            return int(lines[0])
        time.sleep(0.05)
    raise AssertionError("the browser does not answer")
