"""Who gets in: the browser that was opened, once; and what is refused."""

from __future__ import annotations

import pytest

from weir.ui.server import HEADERS, AccessControl

HOST = {"host": "127.0.0.1:8123"}


@pytest.fixture
def door():
    return AccessControl(8123)


def cookie(door):
    return {"cookie": door.set_cookie().partition(";")[0]}


def posted(door, **more):
    return {
        **HOST,
        **cookie(door),
        "origin": "http://127.0.0.1:8123",
        "x-weir-ui": "1",
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def test_a_token_is_good_once(door):
    token = door.url.partition("token=")[2]
    assert [door.trade("wrong"), door.trade(token), door.trade(token)] == [False, True, False]


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(door):
    assert "HttpOnly" in door.set_cookie() and "SameSite=Strict" in door.set_cookie()
    assert door.knows(cookie(door)) and not door.knows({"cookie": "weir-ui-8123=guess"})
    assert not AccessControl(8123).knows(cookie(door))


@pytest.mark.parametrize(
    "headers, code",
    [
        ({}, 421),
        ({"host": "evil.example:8123"}, 421),  # a name that was made to point to this machine
        ({"host": "127.0.0.1:9999"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({**HOST}, 401),
        ({**HOST, "cookie": "weir-ui-8123=x"}, 401),
        ({**HOST, "sec-fetch-site": "cross-site"}, 403),
        ({**HOST, "sec-fetch-site": "same-site"}, 403),
        ({**HOST, "origin": "http://evil.example"}, 403),
        ({**HOST, "origin": "null"}, 403),
        ({**HOST, "origin": "http://localhost:8123"}, 403),
    ],
)
def test_what_is_refused_before_anything_is_read(door, headers, code):
    refusal = door.refuse("GET", headers)
    assert refusal is not None and refusal.code == code


def test_a_page_with_the_cookie_reads_and_writes(door):
    assert door.refuse("GET", {**HOST, **cookie(door)}) is None
    assert door.refuse("GET", {"host": "LOCALHOST:8123", **cookie(door)}) is None
    assert door.refuse("POST", posted(door)) is None


@pytest.mark.parametrize(
    "more, code",
    [
        ({"origin": "http://evil.example"}, 403),
        ({"x_weir_ui": "0"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"cookie": ""}, 401),
        ({"sec_fetch_site": "cross-site"}, 403),
    ],
)
def test_a_write_that_does_not_come_from_the_page_is_refused(door, more, code):
    refusal = door.refuse("POST", posted(door, **more))
    assert refusal is not None and refusal.code == code


def test_a_write_without_an_origin_is_refused(door):
    headers = {name: value for name, value in posted(door).items() if name != "origin"}
    refusal = door.refuse("POST", headers)
    assert refusal is not None and refusal.code == 403


def test_other_methods_are_refused(door):
    assert {door.refuse(name, posted(door)).code for name in ("PUT", "DELETE", "PATCH", "OPTIONS")} == {405}


def test_the_policy_lets_nothing_in_from_elsewhere():
    policy = dict(part.strip().split(" ", 1) for part in HEADERS["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'"
    assert not [value for value in policy.values() if "unsafe" in value or "http" in value or "*" in value]
