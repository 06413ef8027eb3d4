"""Addresses and networks: Go's reading, Go's messages, Python's ipaddress as witness."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values.netip import AddressError, NetworkError, parse_address, parse_network

texts = st.text("0123456789abcdefABCDEF:.%/x", max_size=20)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unable to parse IP"),
        ("x", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("1:2", "address string too short"),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("::1x", 'unexpected character, want colon (at "x")'),
        ("fe80::1%", "zone must be a non-empty string"),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("1:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
    ],
)
def test_what_is_no_address_says_why(text: str, problem: str) -> None:
    with pytest.raises(AddressError) as error:
        parse_address(text)
    assert str(error.value) == f'ParseAddr("{text}"): {problem}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0", "no '/'"),
        ("10.0.0.0/", 'bad bits after slash: ""'),
        ("10.0.0.0/08", 'bad bits after slash: "08"'),
        ("10.0.0.0/+8", 'bad bits after slash: "+8"'),
        ("10.0.0.0/33", "prefix length out of range"),
        ("::/129", "prefix length out of range"),
        ("x/8", 'ParseAddr("x"): unable to parse IP'),
        ("fe80::1%en0/24", "IPv6 zones cannot be present in a prefix"),
    ],
)
def test_what_is_no_network_says_why(text: str, problem: str) -> None:
    with pytest.raises(NetworkError) as error:
        parse_network(text)
    assert str(error.value) == f'netip.ParsePrefix("{text}"): {problem}'


@given(st.one_of(texts, st.ip_addresses().map(str)))
def test_addresses_are_those_of_python(text: str) -> None:
    try:
        expected = ipaddress.ip_address(text)
    except ValueError:
        with pytest.raises(AddressError):
            parse_address(text)
    else:
        found = parse_address(text)
        assert (found.number, found.bits) == (int(expected), expected.max_prefixlen)


@given(st.ip_addresses(v=6))
def test_an_address_is_printed_canonically_and_read_back(address: ipaddress.IPv6Address) -> None:
    found = parse_address(address.exploded)
    assert parse_address(str(found)) == found and str(found) == str(parse_address(str(address)))


@given(st.ip_addresses(v=4), st.integers(0, 32), st.ip_addresses(v=4))
def test_a_network_contains_what_python_says(
    base: ipaddress.IPv4Address, prefix: int, other: ipaddress.IPv4Address
) -> None:
    network = parse_network(f"{base}/{prefix}")
    expected = ipaddress.ip_network(f"{base}/{prefix}", strict=False)
    assert network.contains(parse_address(str(other))) == (other in expected)
    assert str(network.masked()) == str(expected)
