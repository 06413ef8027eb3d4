"""The load generator of the bench reads watches in pieces and ends with the answer of a refused request."""

from __future__ import annotations

import pytest
from bench._generator import Generator, Target, Watch

from tests.e2e.server import running_server


def test_a_watch_counts_events_that_come_in_pieces():
    watch = object.__new__(Watch)
    watch.count, watch._rest, watch._seen, watch._mark = 0, b"", None, b'{"type":"ADDED"'
    events = [b'{"type":"%b","object":{"metadata":{"resourceVersion":"%d"}}}\n' % (kind, number)
              for number, kind in enumerate([b"ADDED", b"MODIFIED", b"ADDED", b"ADDED"])]  # fmt: skip
    text = b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in events)
    for size in (1, 7, 64, 1000):
        watch.count, watch._rest = 0, b""
        for at in range(0, len(text), size):
            watch._take(watch._rest + text[at : at + size])
        assert watch.count == 3, size


def test_a_refused_request_ends_the_run_with_the_answer(tmp_path):
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,admin,1\n")
    with running_server(tmp_path, "--token-auth-file", str(tokens)) as server:
        target = Target.of(server.kubeconfig, "secret")
        with Generator(target) as generator, pytest.raises(RuntimeError, match="403"):
            generator.finish([target.request("GET", "/api/v1/nodes")])
