"""IP addresses and networks, parsed with Go's rules and messages.

Spec: cel.md 10.7. Python's ipaddress differs in messages and keeps no host bits of a network. No leading zeros in
IPv4; an IPv4 tail in IPv6 is valid, and an IPv4-mapped address prints with its dotted tail.
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

from weir.values.quoting import quote

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")


class AddressError(ValueError):
    """The text is not an IP address; the message is Go's."""

    def __init__(self, text: str, problem: str, at: str = "") -> None:
        where = f" (at {quote(at)})" if at else ""
        super().__init__(f"ParseAddr({quote(text)}): {problem}{where}")


class NetworkError(ValueError):
    """The text is not address/prefix; the message is Go's."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"netip.ParsePrefix({quote(text)}): {problem}")


class Address(NamedTuple):
    """An IP address: its number, its width (32 or 128 bits) and, for IPv6, its zone."""

    number: int
    bits: int
    zone: str = ""

    @property
    def is_mapped(self) -> bool:
        """Whether this is an IPv4 address written as IPv6 (`::ffff:1.2.3.4`)."""
        return self.bits == 128 and self.number >> 32 == 0xFFFF

    def __str__(self) -> str:
        if self.bits == 32:
            return str(ipaddress.IPv4Address(self.number))
        zone = f"%{self.zone}" if self.zone else ""
        if self.is_mapped:
            return f"::ffff:{ipaddress.IPv4Address(self.number & 0xFFFFFFFF)}{zone}"
        return str(ipaddress.IPv6Address(self.number)) + zone


class Network(NamedTuple):
    """An address as written and the number of leading bits that name the network."""

    address: Address
    prefix: int

    def masked(self) -> Network:
        """Return the network with its host bits cleared."""
        return Network(self.address._replace(number=self._head(self.address)), self.prefix)

    def contains(self, address: Address) -> bool:
        """Return whether *address* lies in this network; another family never does."""
        return address.bits == self.address.bits and self._head(address) == self._head(self.address)

    def covers(self, other: Network) -> bool:
        """Return whether all of *other* lies in this network."""
        return self.prefix <= other.prefix and self.contains(other.address)

    def _head(self, address: Address) -> int:
        host_bits = address.bits - self.prefix
        return address.number >> host_bits << host_bits

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


def parse_address(text: str) -> Address:
    """Return the address *text* writes.

    >>> str(parse_address("2001:DB8::0:1")), parse_address("10.0.0.1").bits
    ('2001:db8::1', 32)
    >>> parse_address("1.2.3.256")
    Traceback (most recent call last):
    weir.values.netip.AddressError: ParseAddr("1.2.3.256"): IPv4 field has value >255
    """
    for char in text:
        if char == ".":
            return Address(_ipv4(text, text), 32)
        if char == ":":
            return _ipv6(text)
        if char == "%":
            raise AddressError(text, "missing IPv6 address")
    raise AddressError(text, "unable to parse IP")


def parse_network(text: str) -> Network:
    """Return the network *text* writes; host bits may be set.

    >>> str(parse_network("10.0.0.1/8").masked())
    '10.0.0.0/8'
    """
    head, slash, bits = text.rpartition("/")
    if not slash:
        raise NetworkError(text, "no '/'")
    try:
        address = parse_address(head)
    except AddressError as error:
        raise NetworkError(text, str(error)) from None
    if address.zone:
        raise NetworkError(text, "IPv6 zones cannot be present in a prefix")
    plain = bits.isascii() and bits.isdigit() and len(bits) < 20
    if not plain or (len(bits) > 1 and bits[0] == "0"):
        raise NetworkError(text, f"bad bits after slash: {quote(bits)}")
    if int(bits) > address.bits:
        raise NetworkError(text, "prefix length out of range")
    return Network(address, int(bits))


def _ipv4(whole: str, text: str) -> int:
    """Return the number of a dotted quad; *whole* is the text the message names."""
    fields: list[int] = []
    value = digits = 0
    for index, char in enumerate(text):
        if char in _DIGITS:
            if digits == 1 and value == 0:
                raise AddressError(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise AddressError(whole, "IPv4 field has value >255")
        elif char == ".":
            if index == 0 or index == len(text) - 1 or text[index - 1] == ".":
                raise AddressError(whole, "IPv4 field must have at least one digit", text[index:])
            if len(fields) == 3:
                raise AddressError(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise AddressError(whole, "unexpected character", text[index:])
    if len(fields) < 3:
        raise AddressError(whole, "IPv4 address too short")
    return int.from_bytes(bytes([*fields, value]))


def _ipv6(whole: str) -> Address:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise AddressError(whole, "zone must be a non-empty string")
    groups: list[int] = []
    gap = -1  # how many groups stand before the `::`
    if text.startswith("::"):
        gap, text = 0, text[2:]
        if not text:
            return Address(0, 128, zone)
    while len(groups) < 8:
        length = _group_length(whole, text)
        if text[length : length + 1] == ".":
            groups += _ipv4_tail(whole, text, len(groups), gap)
            text = ""
            break
        groups.append(int(text[:length], 16))
        text = text[length:]
        if not text:
            break
        if text[0] != ":":
            raise AddressError(whole, "unexpected character, want colon", text)
        if len(text) == 1:
            raise AddressError(whole, "colon must be followed by more characters", text)
        text = text[1:]
        if text[0] == ":":
            if gap >= 0:
                raise AddressError(whole, "multiple :: in address", text)
            gap, text = len(groups), text[1:]
            if not text:
                break
    if text:
        raise AddressError(whole, "trailing garbage after address", text)
    if len(groups) < 8:
        if gap < 0:
            raise AddressError(whole, "address string too short")
        groups[gap:gap] = [0] * (8 - len(groups))
    elif gap >= 0:
        raise AddressError(whole, "the :: must expand to at least one field of zeros")
    number = 0
    for group in groups:
        number = number << 16 | group
    return Address(number, 128, zone)


def _group_length(whole: str, text: str) -> int:
    """Return how many hexadecimal digits *text* starts with: one to four."""
    length = 0
    while length < len(text) and text[length] in _HEX:
        if length > 3:
            raise AddressError(whole, "each group must have 4 or less digits", text)
        length += 1
    if length == 0:
        raise AddressError(whole, "each colon-separated field must have at least one digit", text)
    return length


def _ipv4_tail(whole: str, text: str, groups: int, gap: int) -> list[int]:
    """Return the two groups of an IPv4 tail."""
    if gap < 0 and groups != 6:
        problem = "embedded IPv4 address must replace the final 2 fields of the address"
        raise AddressError(whole, problem, text)
    if groups + 2 > 8:
        problem = "too many hex fields to fit an embedded IPv4 at the end of the address"
        raise AddressError(whole, problem, text)
    number = _ipv4(whole, text)
    return [number >> 16, number & 0xFFFF]
