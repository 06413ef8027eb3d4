"""The server of the page, asked by others than the page: what gets in, and what does not."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.ui.conftest import EXAMPLES


@pytest.fixture
def server(serve):
    return serve(EXAMPLES / "shop-cluster.yaml")


def ask(server, method, path, headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def visit(server):
    path = server.door.url.partition(str(server.server_port))[2]
    code, headers, body = ask(server, "GET", path)
    assert code == 200 and b"url=/" in body
    return {"Cookie": headers["Set-Cookie"].partition(";")[0]}


def test_the_address_lets_one_visit_in_and_leaves_no_token_behind(server):
    cookie = visit(server)
    path = server.door.url.partition(str(server.server_port))[2]
    assert ask(server, "GET", path)[0] == 403, "the token was used"
    assert ask(server, "GET", path, cookie)[0] == 200, "the same browser may come back"
    assert ask(server, "GET", "/", cookie)[0] == 200
    assert ask(server, "GET", "/?token=guess")[0] == 403


def test_nothing_is_read_without_the_cookie(server):
    for path in ("/", "/app.js", "/api/v1/state", "/api/v1/matrix"):
        assert ask(server, "GET", path)[0] == 401, path


def test_another_name_for_this_machine_is_refused_even_with_the_cookie(server):
    cookie = visit(server)
    code, _, body = ask(
        server, "GET", "/api/v1/state", {**cookie, "Host": f"evil.example:{server.server_port}"}
    )
    assert code == 421 and b"cluster" not in body


def test_writes_of_another_site_are_refused(server):
    cookie = visit(server)
    own = f"http://127.0.0.1:{server.server_port}"
    good = {**cookie, "Origin": own, "X-Weir-Ui": "1", "Content-Type": "application/json"}
    body = json.dumps({"tries": []})
    assert ask(server, "POST", "/api/v1/try", good, body)[0] == 422
    attacks = [
        {**good, "Origin": "http://evil.example"},
        {**good, "Content-Type": "text/plain"},
        {**good, "Sec-Fetch-Site": "cross-site"},
        {name: value for name, value in good.items() if name != "X-Weir-Ui"},
        {name: value for name, value in good.items() if name != "Origin"},
        {name: value for name, value in good.items() if name != "Cookie"},
    ]
    assert [ask(server, "POST", "/api/v1/try", each, body)[0] for each in attacks] == [
        403,
        415,
        403,
        403,
        403,
        401,
    ]
    assert ask(server, "OPTIONS", "/api/v1/try", {"Origin": "http://evil.example"})[0] in (403, 405)


def test_every_answer_carries_the_policy(server):
    cookie = visit(server)
    for path in ("/", "/style.css", "/api/v1/state", "/none"):
        _, headers, _ = ask(server, "GET", path, cookie)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'"), path
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/__init__.py"]
)
def test_there_are_no_other_files(server, path):
    cookie = visit(server)
    assert ask(server, "GET", path, cookie)[0] == 404


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"\xff", b"null", b'"x"', b"[]"])
def test_a_body_that_is_no_question_is_answered_with_one_line(server, body):
    cookie = visit(server)
    headers = {
        **cookie,
        "Origin": f"http://127.0.0.1:{server.server_port}",
        "X-Weir-Ui": "1",
        "Content-Type": "application/json",
    }
    code, _, said = ask(server, "POST", "/api/v1/try", headers, body)
    assert code == 400 and list(json.loads(said)) == ["error"]


def test_a_body_without_end_is_refused(server):
    cookie = visit(server)
    code, _, _ = ask(server, "POST", "/api/v1/try", {**cookie, "Content-Length": str(1 << 40)})
    assert code == 413
