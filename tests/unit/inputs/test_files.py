"""Addresses are fetched as kubectl fetches them, and long work shows on a terminal only."""

from __future__ import annotations

import gzip
import json
import random
import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.work import counting_calls
from weir.cli.main import run
from weir.exit_codes import FINDINGS, USAGE
from weir.inputs import files
from weir.output import progress

POD = b"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}"
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}}"


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/pod.yaml"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(POD if found else b"")

    def log_message(self, *words):
        pass


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = HTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_address_is_fetched_as_a_file_is_read(site, tmp_path, capsys):
    (tmp_path / "n.yaml").write_text(NODE)
    assert run(["explain", "-f", f"{site}/pod.yaml", "--cluster", str(tmp_path / "n.yaml")]) == 0
    assert capsys.readouterr().out.startswith("Pod default/web fits on")


@pytest.mark.parametrize("path", ["/none.yaml", ""])
def test_an_address_that_gives_nothing_is_one_line(site, tmp_path, capsys, path):
    (tmp_path / "n.yaml").write_text(NODE)
    asked = site + path if path else "http://127.0.0.1:1/pod.yaml"
    assert run(["explain", "-f", asked, "--cluster", str(tmp_path / "n.yaml")]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert asked in line and "cannot be fetched" in line


def test_lint_checks_what_stands_at_an_address_beside_what_lies_in_files(site, tmp_path, capsys):
    (tmp_path / "n.yaml").write_text(
        NODE.replace("}}", "}, spec: {taints: [{key: a b, effect: NoSchedule}]}}")
    )
    files = [f"{site}/pod.yaml", f"{site}/none.yaml", str(tmp_path / "n.yaml")]
    assert run(["lint", "--fix", "-o", "json", *files]) == FINDINGS
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {each["file"] for each in found} >= {f"{site}/none.yaml", str(tmp_path / "n.yaml")}
    (missing,) = [each for each in found if each["file"] == f"{site}/none.yaml"]
    assert missing["code"] == "W000" and "cannot be fetched" in missing["message"]


def test_more_than_anyone_writes_is_not_read(monkeypatch):
    """Of an answer without end as much is read as is taken, and then no more."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(files, "_MOST_FETCHED", 100_000)

    def pour():
        opened, _ = server.accept()
        with opened, suppress(OSError):
            opened.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                opened.sendall(b"x" * 65_536)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=pour, daemon=True).start()
        with pytest.raises(files.click.UsageError, match="fetch it and give the file"):
            files.fetch(f"http://127.0.0.1:{server.getsockname()[1]}/pod.yaml")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_work_shows_how_far_it_is_on_a_terminal_only(capsys, monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("judging:", patience_seconds=-1.0) as tick:
        tick(500, 33_330)
    assert ("judging: 500 of 33,330" in capsys.readouterr().err) is is_terminal


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_address_that_drips_is_given_up(monkeypatch, start):
    """The bound is one of the whole, not of each read."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(files, "_FETCH_SECONDS", 0.5)
    over = threading.Event()

    def drip():
        opened, _ = server.accept()
        with opened, suppress(OSError):
            opened.sendall(start)
            while not over.wait(0.05):
                opened.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/pod.yaml"
        with pytest.raises(files.click.UsageError, match=r"cannot be fetched: no answer within 0\.5 seconds"):
            files.fetch(address)
        over.set()


def test_what_follows_a_member_of_gzip_is_not_copied_for_each() -> None:
    """Five thousand empty members before 32 MB: a copy of the rest for each would be 160 GB."""
    rest = random.Random(1).randbytes(32_000_000)
    content = gzip.compress(b"") * 5_000 + gzip.compress(rest, 0)
    with counting_calls():
        assert files.unpacked(content, "snapshot.json.gz") == rest
