"""Kubernetes' own libraries: semver, quantity, addresses, URLs and named formats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.library import costs, error, value
from weir.cel.library.semver import is_semver, parse
from weir.values.semver import find_tolerant


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("semver('1.2.3-rc.1+build.5').patch()", 3), ("semver('18446744073709551615.0.0').major()", -1),
        ("semver('v1.2', true) == semver('1.2.0')", True), ("semver('01.02.03', true).minor()", 2),
        ("semver('1.2.3+a') == semver('1.2.3+b')", True), ("semver('1.0.0-10').compareTo(semver('1.0.0-9'))", 1),
        ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", True), ("isSemver('1.0')", False),
        ("isSemver('1.0', true)", True), ("isSemver('1.0.0 ', true)", False), ("isSemver('vv1.0.0', true)", False),
        ("semver('1.0.0-1').isGreaterThan(semver('1.0.0-a'))", False),
        ("quantity('1k').compareTo(quantity('1Ki'))", -1), ("sign(quantity('-1'))", -1),
        ("quantity('1').add(quantity('500m')).asApproximateFloat()", 1.5), ("quantity('1k').sub(1).asInteger()", 999),
        ("quantity('1k').add(24).isInteger()", True), ("quantity('2000m').isInteger()", False),
        ("quantity('1n').asApproximateFloat()", 1e-09), ("isQuantity('1.3Gi')", True), ("isQuantity('x')", False),
        ("quantity('1k') in [quantity('1000')]", True),
        ("quantity('50k').add(quantity('20k')) == quantity('70k')", True),
        ("ip('::1').family()", 6), ("string(ip('2001:DB8::1'))", "2001:db8::1"), ("ip('127.9.9.9').isLoopback()", True),
        ("ip('0.0.0.0').isUnspecified()", True), ("ip('224.0.0.255').isLinkLocalMulticast()", True),
        ("ip('ff05::1').isLinkLocalMulticast()", False), ("ip('ff12::1').isLinkLocalMulticast()", True),
        ("ip('fe80::1').isLinkLocalUnicast()", True), ("ip('169.254.1.1').isGlobalUnicast()", False),
        ("ip('10.0.0.1').isGlobalUnicast()", True), ("ip('255.255.255.255').isGlobalUnicast()", False),
        ("ip('224.1.2.3').isGlobalUnicast()", False), ("isIP('1.2.3.04')", False), ("ip.isCanonical('::0')", False),
        ("cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8')", True),
        ("cidr('10.0.0.1/8') == cidr('10.0.0.0/8')", False),
        ("cidr('10.0.0.0/8').containsIP('10.1.1.1')", True), ("cidr('10.0.0.0/8').containsIP(ip('::1'))", False),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True), ("string(cidr('10.0.0.1/8'))", "10.0.0.1/8"),
        ("cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))", False), ("cidr('0.0.0.0/0').prefixLength()", 0),
        ("cidr('10.0.0.9/8').ip() == ip('10.0.0.9')", True), ("isCIDR('10.0.0.0/8/8')", False),
        ("url('https://[::1]:80/').getHost()", "[::1]:80"), ("url('https://[::1]:80/').getHostname()", "::1"),
        ("url('https://a:80/').getPort()", "80"), ("url('mailto:a@b.c').getHost()", ""),
        ("url('HTTP://X/p a').getEscapedPath()", "/p%20a"), ("url('HTTP://X/').getScheme()", "http"),
        ("url('http://x/?a=1&a=b+c&b;=1&%zz=2').getQuery()", {"a": ["1", "b c"]}), ("isURL('../x')", False),
        ("url('http://x/a') == url('http://x/a')", True), ("isURL('http://host:99999/')", True),
        ("format.named('nope').hasValue()", False), ("format.named('uuid').value() == format.uuid()", True),
        ("format.dns1123Label() == format.dns1035Label()", False),
        ("format.uuid().validate('123E4567e89b12d3a456426614174000').hasValue()", False),
        ("format.byte().validate('YQ==').hasValue()", False), ("format.byte().validate('').hasValue()", True),
        ("format.date().validate('2021-02-29').hasValue()", True),
        ("format.labelValue().validate('').hasValue()", False),
        ("format.datetime().validate('2021-01-01t00:00:00z').hasValue()", False),
        ("format.dns1123LabelPrefix().validate('a-').hasValue()", False),
        ("format.dns1123Label().validate('a-').hasValue()", True),
    ],
)  # fmt: skip
def test_a_call_gives_its_value(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("semver('').major()", "Version string empty"),
        ("semver('1.2').major()", "No Major.Minor.Patch elements found"),
        ("semver('v1.2.3').major()", 'Invalid character(s) found in major number "v1"'),
        ("semver('1.02.3').major()", 'Minor number must not contain leading zeroes "02"'),
        ("semver('1.2.3.4').major()", 'Invalid character(s) found in patch number "3.4"'),
        ("semver('1.2.3-a..b').major()", "Prerelease is empty"),
        ("semver('1.2.3+a_b').major()", 'Invalid character(s) found in build meta data "a_b"'),
        ("semver('1.2-rc1', true).major()", "short version cannot contain PreRelease/Build meta data"),
        ("quantity('200K')", "unable to parse quantity's suffix"),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        ("quantity('70k') == quantity('50k').add(quantity('20k'))", "no such overload"),
        ("ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        (
            "ip('1.2.3.256')",
            'IP Address "1.2.3.256" parse error during conversion from string: ParseAddr("1.2.3.256"): '
            "IPv4 field has value >255",
        ),
        (
            "cidr('10.0.0.0/33')",
            "network address parse error during conversion from string: network address parse error during "
            'conversion from string: netip.ParsePrefix("10.0.0.0/33"): prefix length out of range',
        ),
        ("cidr('10.0.0.0/8').containsIP('x')", "no such overload"),
        (
            "url('../x')",
            'URL parse error during conversion from string: parse "../x": invalid URI for request',
        ),
    ],
)
def test_a_call_that_fails_says_why(expression: str, message: str) -> None:
    assert error(expression) == message


@pytest.mark.parametrize(
    ("call", "messages"),
    [
        ("dns1123Label().validate('" + "a" * 64 + "')", ["must be no more than 63 characters"]),
        ("dns1123Subdomain().validate('" + "a" * 254 + "')", ["must be no more than 253 characters"]),
        ("qualifiedName().validate('/a')", ["prefix part must be non-empty"]),
        ("qualifiedName().validate('a/" + "b" * 64 + "')", ["name part must be no more than 63 bytes"]),
        ("uri().validate('x')", ['parse "x": invalid URI for request']),
        ("uuid().validate('x')", ["does not match the UUID format"]),
        ("byte().validate('?')", ["invalid base64"]),
        ("date().validate('x')", ["invalid date"]),
        ("datetime().validate('2021-01-01T25:00:00Z')", ["invalid datetime"]),
    ],
)
def test_formats_say_what_is_wrong(call: str, messages: list[str]) -> None:
    assert value(f"format.{call}.value()") == messages


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("isSemver(taint.value) && semver(taint.value).major() >= 5", (2, 20, 8)),
        ("semver(taint.value) == semver('6.1.0')", (4, 11, 5)),
        ("semver(taint.value) != semver('6.1.0')", (4, 1844674407370955274, 5)),
        ("quantity(taint.key).isInteger()", (3, 35, 5)),
        ("ip('::1') != ip('::2')", (3, 1844674407370955266, 4)),
        ("isURL(taint.key)", (3, 3, 3)),
        ("url('https://a.b') == url('https://a.b')", (5, 6, 5)),
        ("cidr('::/64').containsIP('::1')", (3, 6, 4)),
        ("cidr('::/64').containsCIDR('::1/128')", (5, 9, 6)),
        ("format.dns1123Label().validate(taint.value).hasValue()", (4, 228, 12)),
        ("format.dns1123Label() == format.dns1123Label()", (3, 9, 3)),
    ],
)
def test_a_call_costs_what_kubernetes_charges(expression: str, expected: tuple[int, int, int]) -> None:
    assert costs(expression) == expected


@given(st.from_regex(r"v?[0-9]{1,3}(\.[0-9]{1,3}){0,2}(-[0-9a-z.]{1,5})?", fullmatch=True))
def test_normalising_reads_what_the_forgiving_parser_of_taints_reads(text: str) -> None:
    forgiving = find_tolerant(text)
    assert is_semver(text, True) == (forgiving is not None)
    assert forgiving is None or parse(text, True).version == forgiving


def test_zero_plus_an_int_prints_with_an_exponent() -> None:
    assert str(value("quantity('0').add(5000)")) == "5e3"
