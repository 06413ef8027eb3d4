from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values import names

printable = st.text(alphabet="aZ0-._/é \n", max_size=70)


@given(printable)
def test_a_label_value_is_exactly_what_its_printed_pattern_matches(text: str) -> None:
    pattern = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
    fits = re.fullmatch(pattern, text) is not None and len(text.encode()) <= 63
    assert (names.check_label_value(text) == ()) == fits


@given(printable)
def test_a_subdomain_is_exactly_what_its_printed_pattern_matches(text: str) -> None:
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    fits = re.fullmatch(rf"{label}(\.{label})*", text) is not None and len(text.encode()) <= 253
    assert (names.check_dns1123_subdomain(text) == ()) == fits


@given(printable)
def test_every_label_is_a_subdomain(text: str) -> None:
    if names.check_dns1123_label(text) == ():
        assert names.check_dns1123_subdomain(text) == ()


@given(printable)
def test_a_short_label_key_and_a_long_one_are_judged_alike(text: str) -> None:
    assert names.check_label_key(text) == names._check_label_key(text)


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", ["name part must be non-empty", "name part must consist"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", "name part must consist"]),
        ("A/b", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/b/c", ["a valid label key must consist"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("ok", []),
        ("é", ["name part must consist"]),
    ],
)
def test_a_label_key_gets_one_message_for_each_fault(text: str, starts: list[str]) -> None:
    messages = names.check_label_key(text)
    assert len(messages) == len(starts)
    assert all(message.startswith(start) for message, start in zip(messages, starts, strict=True))


def test_lengths_are_counted_in_bytes() -> None:
    assert names.check_label_value("é" * 32)[0] == "must be no more than 63 bytes"


def test_a_last_line_feed_is_not_overlooked() -> None:
    assert names.check_dns1123_label("web\n") and names.check_label_value("v\n")


@pytest.mark.parametrize("text", ["http", "a-1", "123a"])
def test_port_names_may_be_short_words(text: str) -> None:
    assert names.check_port_name(text) == ()


@pytest.mark.parametrize("text", ["", "8080", "a--b", "-a", "UPPER", "sixteen-chars-xx"])
def test_port_names_may_not_be(text: str) -> None:
    assert names.check_port_name(text)


@pytest.mark.parametrize("text", [".", "..", "..a", "a b", ""])
def test_config_keys_may_not_be(text: str) -> None:
    assert names.check_config_key(text)
