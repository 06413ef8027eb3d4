"""The socket that components of this machine come by: who can open it, and whose their requests are."""

from __future__ import annotations

import stat
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
