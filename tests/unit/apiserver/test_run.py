"""Claims about the listening server: TLS by default, certificates seen, limits kept, on a real loopback socket."""

import asyncio
import json
import signal
import ssl
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import User
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.run import LONGEST, local_socket, serve
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Request, Response
from weir.client.http import local_transport
from weir.clock import RealClock

SELF = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
SELF_PATH = b"/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
async def running(tmp_path):
    clock = RealClock()
    options = Options(
        tmp_path, store="memory", secure_port=0, kubeconfig=tmp_path / "kubeconfig", max_writing=1
    )
    server = await build(options, await open_store(options, clock), clock)
    await serve(server, clock)
    yield server
    await server.stop()


def trusting(running, identity=None, tmp_path=None):
    context = ssl.create_default_context(cadata=running.credentials.ca_pem.decode())
    if identity is not None:
        pair = running.credentials.issue_client(identity, datetime.now(UTC))
        (tmp_path / "client.pem").write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(tmp_path / "client.pem")
    return context


async def ask(running, context, head, body=b""):
    """Send raw bytes, return (status line, headers, body) of the answer."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", running.port, ssl=context, server_hostname="localhost"
    )
    writer.write(head + b"Host: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
    answer = await reader.read()
    writer.close()
    top, _, rest = answer.partition(b"\r\n\r\n")
    line, *headers = top.split(b"\r\n")
    return line, headers, rest


def review(headers=b""):
    return b"POST " + SELF_PATH + b" HTTP/1.1\r\nContent-Type: application/json\r\n" + headers


async def who(running, context, headers=b""):
    line, _, body = await ask(running, context, review(headers), SELF)
    assert line == b"HTTP/1.1 201 Created"
    return json.loads(body)["status"]["userInfo"]


async def test_a_client_certificate_is_the_users_name(running, tmp_path):
    info = await who(running, trusting(running, pki.Identity("jane", ("dev", "ops")), tmp_path))
    assert (info["username"], info["groups"]) == ("jane", ["dev", "ops", "system:authenticated"])


async def test_without_a_certificate_one_is_nobody(running):
    line, _, _ = await ask(running, trusting(running), review(), SELF)
    assert line == b"HTTP/1.1 401 Unauthorized"


async def test_a_certificate_of_another_authority_does_not_get_in(running, tmp_path):
    stranger = pki.ensure(tmp_path / "other", now=datetime.now(UTC))
    pair = stranger.issue_client(pki.ADMIN, datetime.now(UTC))
    (tmp_path / "client.pem").write_bytes(pair.certificate + pair.key)
    context = trusting(running)
    context.load_cert_chain(tmp_path / "client.pem")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        line, _, _ = await ask(running, context, review(), SELF)
        if not line:  # TLS 1.3 tells the client on its first read
            raise ConnectionResetError


async def test_plain_http_is_not_spoken(running):
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


async def test_http2_is_never_offered(running):
    context = trusting(running)
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection(
        "127.0.0.1", running.port, ssl=context, server_hostname="localhost"
    )
    chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()
    assert chosen == "http/1.1"


async def test_every_group_of_a_repeated_header_counts(running, tmp_path):
    headers = b"Impersonate-User: joe\r\nImpersonate-Group: a\r\nImpersonate-Group: b\r\n"
    info = await who(running, trusting(running, pki.ADMIN, tmp_path), headers)
    assert info["groups"] == ["a", "b", "system:authenticated"]


async def test_a_body_beyond_the_limit_is_refused(running, tmp_path):
    body = b" " * (3 * 1024 * 1024 + 1)
    _, _, answer = await ask(running, trusting(running, pki.ADMIN, tmp_path), review(), body)
    status = json.loads(answer)
    assert (status["code"], status["message"]) == (413, "Request entity too large: limit is 3145728")


async def test_a_head_beyond_the_limit_is_refused(running, tmp_path):
    line, _, _ = await ask(running, trusting(running), review(b"X: " + b"y" * 100_000 + b"\r\n"), SELF)
    assert line.startswith(b"HTTP/1.1 431")


async def test_a_full_level_says_when_to_come_back(running, tmp_path):
    flow_control = running.server._security.flow_control
    for level in flow_control.levels():
        level.described = level.described._replace(queues=0)  # refuses what finds no seat
        level.seats_in_use = 1_000_000
    jane = trusting(running, pki.Identity("jane"), tmp_path)
    line, headers, _ = await ask(running, jane, review(), SELF)
    assert line.startswith(b"HTTP/1.1 429") and b"Retry-After: 1" in headers


async def test_the_kubeconfig_is_private_and_opens_the_server(running, tmp_path):
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert config["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{running.port}"
    assert "client-key-data" in config["users"][0]["user"]


@pytest.mark.parametrize(("mode", "warned"), [(0o777, True), (0o1777, False), (0o700, False), (0o755, False)])
async def test_a_data_folder_that_everybody_may_write_to_is_warned_of(tmp_path, caplog, mode, warned):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    options, clock = Options(folder, store="memory", insecure=True), RealClock()
    running = await build(options, await open_store(options, clock), clock)
    await running.stop()
    assert ("everybody may write to the data folder" in caplog.text) is warned


async def test_what_is_turned_away_before_it_is_a_request_is_counted(running):
    context = trusting(running)
    line, _, _ = await ask(running, context, b"NONSENSE\r\n")
    assert line == b"HTTP/1.1 400 Bad Request"
    line, _, _ = await ask(running, context, b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n")
    assert b"431" in line
    text = running.metrics.render().decode()
    assert 'weir_apiserver_refused_total{code="400"} 1' in text
    assert 'weir_apiserver_refused_total{code="431"} 1' in text


async def test_behind_a_flood_over_sockets_another_user_waits_one_turn(tmp_path):
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("janetoken,jane,1\njoetoken,joe,2\n")
    options = Options(tmp_path, store="memory", secure_port=0, insecure=True, token_file=tokens)
    clock = RealClock()
    running = await build(options, await open_store(options, clock), clock)
    await serve(running, clock)
    flow_control, handlers = running.server._security.flow_control, running.server._handlers
    begun, seen = [], []
    admit, handle = flow_control.admit, handlers.handle

    def admitted(user, *rest):
        if user.name == "joe":
            seen.append(len(begun))
        return admit(user, *rest)

    async def handled(request, *rest):
        begun.append(request.user.name)
        return await handle(request, *rest)

    flow_control.admit, handlers.handle = admitted, handled
    running.server._security.authorizer._allows_all = True

    async def request(token):
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        head = b"GET /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        writer.write(head + b"Authorization: Bearer " + token + b"\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200") and b"X-Kubernetes-PF-FlowSchema-UID: " in answer, answer

    await asyncio.gather(*(request(b"janetoken") for _ in range(150)), request(b"joetoken"))
    await running.stop()
    assert len(begun) == 151
    assert begun.index("joe") - seen[0] <= 8


# ── the socket that components of this machine come by: who can open it, and whose their requests are ──


async def ask_locally(folder: Path, certificates: list[bytes]) -> tuple[Path, list[bytes | None]]:
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
    path, whose = await ask_locally(tmp_path, [b"old", b"renewed"])
    assert (path.parent, whose) == (tmp_path, [b"old", b"renewed"])


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "api.sock").touch()
    assert (await ask_locally(tmp_path, [b"a"]))[1] == [b"a"]


async def test_a_folder_others_may_enter_and_a_long_path_get_a_folder_of_their_own(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    deep = tmp_path / ("x" * LONGEST)
    deep.mkdir(mode=0o700)
    for folder in (shared, deep):
        path, whose = await ask_locally(folder, [b"a"])
        assert (path.is_relative_to(tmp_path), path.parent.exists(), whose) == (False, False, [b"a"])


SERVER = """
import asyncio, sys
from pathlib import Path
from weir.apiserver.transport.connections import Connections
from weir.apiserver.run import local_socket

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
        await ask_locally(shared, [b"a"])
        assert [path.parent.exists() for path in paths] == [False, True]
        assert (places / "weir-socket-other" / "file").exists()
        assert {each.name for each in places.iterdir()} == {paths[1].parent.name, "weir-socket-other"}
    finally:
        for each in servers:
            each.kill()
            each.wait()
            each.stdout.close()
