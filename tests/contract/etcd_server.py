"""A real etcd for the tests: found or installed, started on a port that was free, removed afterwards."""

from __future__ import annotations

import os
import platform
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


def find_etcd() -> str:
    """Return the etcd program; install the distribution's package where that is possible, else skip."""
    found = os.environ.get("ETCD_BIN") or shutil.which("etcd")
    if not found and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(
            ["apt-get", "install", "-y", "--no-install-recommends", "etcd-server"],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            timeout=300,
        )
        found = shutil.which("etcd")
    if not found:
        message = "etcd is not installed (package etcd-server): the etcd store is not tested here"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def free_port() -> int:
    """Return a port that nobody has, below those the kernel lends to outgoing connections: a member that was killed
    finds its port free again."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class EtcdServer:
    """One etcd process and its data, which survive `stop` and are there again after `start`."""

    def __init__(
        self,
        program: str,
        directory: Path,
        arguments: Sequence[str] = (),
        scheme: str = "http",
        name: str = "default",
    ) -> None:
        self.name, self.members = name, [self]
        self._program, self._directory, self._arguments, self._scheme = program, directory, arguments, scheme
        self._client, self._peer = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._client}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _cluster(self) -> str:
        return ",".join(f"{one.name}=http://127.0.0.1:{one._peer}" for one in self.members)

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        client, peer = f"{self._scheme}://127.0.0.1:{self._client}", f"http://127.0.0.1:{self._peer}"
        log = (self._directory / "etcd.log").open("ab")
        self._process = subprocess.Popen(
            [
                self._program,
                *("--data-dir", str(self._directory / "data")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--name", self.name, "--initial-cluster", self._cluster()),
                *self._arguments,
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "ETCD_UNSUPPORTED_ARCH": platform.machine().replace("aarch64", "arm64")},
        )

    def wait(self) -> None:
        """Return when it serves."""
        deadline = time.monotonic() + 60
        assert self._process is not None
        while time.monotonic() < deadline and self._process.poll() is None:
            if b"serving client" in self.log() or b"serving insecure client" in self.log():  # 3.7 and older
                return
            time.sleep(0.02)
        raise RuntimeError(f"etcd did not start: {self.log().decode(errors='replace')[-2000:]}")

    def move_to(self, data: Path) -> None:
        """Take the folder *data* in place of its own; it must not run."""
        shutil.rmtree(self._directory / "data")
        shutil.move(data, self._directory / "data")

    @property
    def membership(self) -> list[str]:
        """What makes a new member of a snapshot this one: arguments of etcdutl."""
        peer = f"http://127.0.0.1:{self._peer}"
        return [
            "--name",
            self.name,
            "--initial-cluster",
            self._cluster(),
            "--initial-advertise-peer-urls",
            peer,
        ]

    def log(self) -> bytes:
        return (self._directory / "etcd.log").read_bytes()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            (self._directory / "etcd.log").write_bytes(b"")


@contextmanager
def running_etcd(arguments: Sequence[str] = (), scheme: str = "http") -> Iterator[EtcdServer]:
    program = find_etcd()
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None, prefix="weir-etcd-") as directory:
        server = EtcdServer(program, Path(directory), arguments, scheme)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def running_cluster(size: int = 3) -> Iterator[list[EtcdServer]]:
    """Several members that elect a leader among them."""
    program = find_etcd()
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None, prefix="weir-etcd-") as directory:
        members = []
        for number in range(size):
            place = Path(directory) / f"m{number}"
            place.mkdir()
            quick = ["--heartbeat-interval", "50", "--election-timeout", "500"]
            members.append(EtcdServer(program, place, quick, name=f"m{number}"))
        for member in members:
            member.members = members
            member.launch()
        try:
            for member in members:
                member.wait()
            yield members
        finally:
            for member in members:
                member.kill()
