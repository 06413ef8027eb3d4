"""URLs as Go reads them in a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values.url import UrlError, check_request_uri, parse_url


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty url"),
        ("x", "invalid URI for request"),
        ("../x", "invalid URI for request"),
        (":x", "missing protocol scheme"),
        ("http://a\x7f", "net/url: invalid control character in URL"),
        ("https://a:b:c/", 'invalid port ":b:c" after host'),
        ("http://[::1", "missing ']' in host"),
        ("http://[::1]x", 'invalid port "x" after host'),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://%41/", 'invalid URL escape "%41"'),
        ("http://x/%zz", 'invalid URL escape "%zz"'),
        ("http://x/%a", 'invalid URL escape "%a"'),
        ("http://a b@x/", "net/url: invalid userinfo"),
    ],
)
def test_what_is_no_url_says_why(text: str, problem: str) -> None:
    with pytest.raises(UrlError) as error:
        parse_url(text)
    assert str(error.value).endswith(f": {problem}") and str(error.value).startswith('parse "')


@pytest.mark.parametrize(
    ("text", "printed", "host", "path"),
    [
        ("https://user:pw@example.com:80/p a/?k=v#f", "https://user:pw@example.com:80/p%20a/?k=v#f", "example.com:80",
         "/p%20a/"),
        ("/abs", "/abs", "", "/abs"),
        ("HTTP://Example.COM/", "http://Example.COM/", "Example.COM", "/"),
        ("mailto:a@b.c", "mailto:a@b.c", "", ""),
        ("http://[fe80::1%25eth0]:8/", "http://[fe80::1%25eth0]:8/", "[fe80::1%eth0]:8", "/"),
        ("/a%2fb", "/a%2fb", "", "/a%2fb"),
        ("/a%41b", "/a%41b", "", "/a%41b"),
        ("http:/x", "http:/x", "", "/x"),
        ("http://x?", "http://x?", "x", ""),
        ("*", "*", "", "*"),
        ("http://é/ü", "http://%C3%A9/%C3%BC", "é", "/%C3%BC"),
        ("//host/path", "//host/path", "host", "/path"),
        ("///path", "///path", "", "///path"),
        ("http://x/a#b c", "http://x/a#b%20c", "x", "/a"),
        ("http://x/?q#f%41", "http://x/?q#f%41", "x", "/"),
    ],
)  # fmt: skip
def test_a_url_is_taken_apart_and_printed(text: str, printed: str, host: str, path: str) -> None:
    url = parse_url(text)
    assert (str(url), url.host, url.escaped_path) == (printed, host, path)


@pytest.mark.parametrize(
    ("text", "hostname", "port"),
    [
        ("http://a:80/", "a", "80"),
        ("http://a:/", "a", ""),
        ("http://[::1]/", "::1", ""),
        ("http://a/", "a", ""),
    ],
)
def test_host_and_port_are_split(text: str, hostname: str, port: str) -> None:
    url = parse_url(text)
    assert (url.hostname, url.port) == (hostname, port)


def test_a_fragment_is_no_part_of_the_query() -> None:
    assert parse_url("http://x/?a=1#b").query() == {"a": ["1"]}


def test_a_host_without_scheme_is_checked_only_when_it_is_asked_for() -> None:
    check_request_uri("//a b/")
    with pytest.raises(UrlError, match="invalid character"):
        parse_url("//a b/")


def test_a_query_is_read_pair_by_pair() -> None:
    query = parse_url("http://x/?a=1&a=2&&b&c=%41+d&bad=%zz&e;f=1").query()
    assert query == {"a": ["1", "2"], "b": [""], "c": ["A d"]}


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_and_a_printed_url_is_read_again(text: str) -> None:
    try:
        url = parse_url(text)
    except UrlError:
        return
    assert str(parse_url(str(url))) == str(url)
