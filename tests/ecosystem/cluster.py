"""A `weir up` of one's own, and plain questions to it: what the programs of the field did is read from the API.

Not weir's own client: these tests say what a program that knows nothing of weir sees.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

Document = dict[str, Any]
T = TypeVar("T")
PATIENCE_SECONDS = 120.0


class Refused(Exception):
    """What the API server did not do; `status` is its answer."""

    def __init__(self, code: int, status: Document) -> None:
        super().__init__(f"{code} {status.get('reason', '')}: {status.get('message', status)}")
        self.code, self.status = code, status
        self.message = str(status.get("message", ""))


@dataclass(frozen=True)
class Cluster:
    """A running cluster: where its kubeconfig lies, and who may ask it everything."""

    folder: Path
    kubeconfig: Path
    server: str
    trust: ssl.SSLContext

    @classmethod
    def of(cls, folder: Path, kubeconfig: Path) -> Cluster:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trust = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        pair = folder / "client.pem"
        pair.touch(0o600)
        pair.write_bytes(
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
        )
        trust.load_cert_chain(pair)
        return cls(folder, kubeconfig, cluster["server"], trust)

    @property
    def environment(self) -> dict[str, str]:
        """What a program is given to find this cluster, and no other."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(home), "KUBECONFIG": str(self.kubeconfig)}

    def ask(self, method: str, path: str, body: object = None, media: str = "application/json") -> Document:
        """Return the server's answer; raises Refused."""
        request = urllib.request.Request(
            self.server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": media, "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=self.trust, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read()
            try:
                status = json.loads(said)
            except ValueError:
                status = {"message": said.decode(errors="replace")}
            raise Refused(error.code, status) from None

    def get(self, path: str) -> Document:
        return self.ask("GET", path)

    def items(self, path: str) -> list[Document]:
        return self.ask("GET", path)["items"]

    def find(self, path: str) -> Document | None:
        """Return what is at *path*, or None."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.code != 404:
                raise
            return None

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)

    def patch(self, path: str, patch: Document) -> Document:
        return self.ask("PATCH", path, patch, "application/merge-patch+json")

    def path(self, document: Document) -> str:
        """Return where an object of the API lives, by what the server says of its kind."""
        version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        known = [
            row for row in self.get(prefix)["resources"] if row["kind"] == kind and "/" not in row["name"]
        ]
        assert known, f"no matches for kind {kind} in version {version}"
        place = f"/namespaces/{metadata.get('namespace', 'default')}" if known[0]["namespaced"] else ""
        return f"{prefix}{place}/{known[0]['name']}/{metadata['name']}"

    def create(self, document: Document) -> Document:
        return self.ask("POST", self.path(document).rpartition("/")[0], document)

    def apply(self, *given: Document | str | Path) -> list[Document]:
        """Apply documents, YAML text or files as kubectl's server-side apply does; raises Refused."""
        return [
            self.ask(
                "PATCH",
                f"{self.path(document)}?fieldManager=tests&force=true",
                document,
                "application/apply-patch+yaml",
            )
            for each in given
            for document in documents(each)
        ]

    def define(self, *given: Document | str | Path) -> None:
        """Apply CustomResourceDefinitions and wait until their kinds are served."""
        for made in self.apply(*given):
            where = self.path(made)
            wait_for(lambda where=where: condition(self.get(where), "Established"), f"{where} is established")

    def running(self, namespace: str = "default", selector: str = "") -> list[Document]:
        pods = self.items(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def documents(given: Document | str | Path) -> list[Document]:
    """Return what a file, a text or a document holds, one after another."""
    if isinstance(given, dict):
        return [given]
    text = given.read_text() if isinstance(given, Path) else given
    return [document for document in yaml.safe_load_all(text) if document]


def condition(document: Document, kind: str) -> bool:
    """Whether a condition of this type is True."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def wait_for(question: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Ask again until the answer is true; return it. Fails with *what* did not become so, and the last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what} (last answer: {answer!r})"
        time.sleep(0.2)
    return answer


@contextmanager
def program(
    log: Path, *command: str | Path, environment: dict[str, str], folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; what it said is in *log*, and shown if the block fails."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
        )
    try:
        yield process
        assert process.poll() is None, f"{command[0]} ended by itself with {process.returncode}"
    except BaseException:
        said = log.read_text(errors="replace").splitlines()[-60:]
        print(f"{Path(command[0]).name} said last:", *said, sep="\n")
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running_cluster(folder: Path, *options: str) -> Iterator[Cluster]:
    """Give a `weir up` that answers, in *folder*."""
    log, kubeconfig = folder / "weir.log", folder / "data" / "kubeconfig"
    command = [sys.executable, "-m", "weir", "up", "--data-dir", str(folder / "data"), "--secure-port", "0"]
    with program(log, *command, *options, environment=dict(os.environ), folder=folder):
        wait_for(lambda: "export KUBECONFIG=" in log.read_text(), "weir up is up")
        yield Cluster.of(folder, kubeconfig)
