"""The socket that components of this machine come by: who can open it, and whose their requests are."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from weir.apiserver.auth.authn import User
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response
from weir.apiserver.transport.local_socket import LONGEST, local_socket
from weir.client.http import local_transport


async def ask(folder: Path, certificates: list[bytes]) -> tuple[Path, list[bytes | None]]:
    """Ask once for each certificate, on one connection; return the socket's path and whose each request was."""
    whose: list[bytes | None] = []
    left = iter(certificates)

    async def handle(request: Request) -> Response:
        whose.append(request.peer_certificate)
        return Response(200, b"{}")

    connections = Connections(handle, lambda request: User("admin"))
    async with local_socket(connections, folder, lambda: next(left)) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        transport = local_transport(path)
        for _ in certificates:
            assert (await transport.request("GET", "/api")).code == 200
        assert len(connections.open) == 1
        await transport.close()
    assert not path.exists()
    return path, whose


async def test_a_request_is_the_administrators_by_the_certificate_of_its_time(tmp_path):
    tmp_path.chmod(0o700)
    path, whose = await ask(tmp_path, [b"old", b"renewed"])
    assert (path.parent, whose) == (tmp_path, [b"old", b"renewed"])


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "api.sock").touch()
    assert (await ask(tmp_path, [b"a"]))[1] == [b"a"]


async def test_a_folder_others_may_enter_and_a_long_path_get_a_folder_of_their_own(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    deep = tmp_path / ("x" * LONGEST)
    deep.mkdir(mode=0o700)
    for folder in (shared, deep):
        path, whose = await ask(folder, [b"a"])
        assert (path.is_relative_to(tmp_path), path.parent.exists(), whose) == (False, False, [b"a"])


SERVER = """
import asyncio, sys
from pathlib import Path
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.local_socket import local_socket

async def serve():
    async with local_socket(Connections(None), Path(sys.argv[1]), lambda: None) as path:
        print(path, flush=True)
        await asyncio.sleep(60)

asyncio.run(serve())
"""


async def test_the_folder_of_a_killed_server_is_removed_and_a_live_ones_is_not(tmp_path, monkeypatch):
    shared, places = tmp_path / "shared", tmp_path / "t"
    shared.mkdir(mode=0o755)
    places.mkdir()
    monkeypatch.setenv("TMPDIR", str(places))
    monkeypatch.setattr(tempfile, "tempdir", None)
    command = [sys.executable, "-c", SERVER, str(shared)]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        paths = [Path(each.stdout.readline().strip()) for each in servers]
        (places / "weir-socket-other").mkdir()
        (places / "weir-socket-other" / "file").touch()
        servers[0].send_signal(signal.SIGKILL)
        servers[0].wait()
        assert paths[0].exists()  # what was left behind
        await ask(shared, [b"a"])
        assert [path.parent.exists() for path in paths] == [False, True]
        assert (places / "weir-socket-other" / "file").exists()
        assert {each.name for each in places.iterdir()} == {paths[1].parent.name, "weir-socket-other"}
    finally:
        for each in servers:
            each.kill()
            each.wait()
            each.stdout.close()
