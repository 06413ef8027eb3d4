"""IP addresses and networks: `ip(s)`, family and kind; `cidr('10.0.0.0/8')` and what lies in it.

Spec: cel.md 10.7. Zones and IPv4-mapped IPv6 addresses are refused; private ranges count as global unicast;
`ip.isCanonical(s)` is an error, not false, for text that is no address. Host bits of networks are kept and count in
`==`; `containsIP` of text that is no address fails with `no such overload`, `containsCIDR` of text that is no network
with the parser's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import Row, functions, method, plain
from weir.cel.types import BOOL, INT, STRING, Type
from weir.cel.work import spend
from weir.values.netip import Address, AddressError, Network, NetworkError, parse_address, parse_network
from weir.values.quoting import quote

NET_IP: Final = types.opaque("net.IP")


class IP:
    """An address as a CEL value."""

    __slots__ = ("address",)
    cel_type: ClassVar[Type] = NET_IP

    def __init__(self, address: Address) -> None:
        self.address: Final = address

    @property
    def cel_size(self) -> int:
        """What runtime cost takes as its size: bytes of the address."""
        return self.address.bits // 8

    def __eq__(self, other: object) -> bool:
        return other.__class__ is IP and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)

    def __repr__(self) -> str:
        return f"IP({str(self.address)!r})"


def parse(text: str) -> IP:
    """Return the address *text* writes, as an evaluation error when it writes none that CEL takes."""
    spend(len(text) * 4)
    try:
        address = parse_address(text)
    except AddressError as error:
        raise EvaluationError(
            f"IP Address {quote(text)} parse error during conversion from string: {error}"
        ) from None
    if address.zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if address.is_mapped:
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def is_ip(text: str) -> bool:
    """Return whether *text* writes an address that CEL takes."""
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def is_unspecified(at: Address) -> bool:
    return at.number == 0


def is_loopback(at: Address) -> bool:
    return at.number >> 24 == 127 if at.bits == 32 else at.number == 1


def is_multicast(at: Address) -> bool:
    return at.number >> 28 == 0xE if at.bits == 32 else at.number >> 120 == 0xFF


def is_link_local_multicast(at: Address) -> bool:
    if at.bits == 32:
        return at.number >> 8 == 0xE00000
    return at.number >> 112 & 0xFF0F == 0xFF02


def is_link_local_unicast(at: Address) -> bool:
    return at.number >> 16 == 0xA9FE if at.bits == 32 else at.number >> 118 == 0x3FA


def is_global_unicast(at: Address) -> bool:
    """Whether the address is none of the others; private ranges are global, the broadcast address is not."""
    if at.bits == 32 and at.number == 0xFFFFFFFF:
        return False
    others = (is_unspecified, is_loopback, is_multicast, is_link_local_unicast)
    return not any(other(at) for other in others)


def _test(name: str, id: str, test: Callable[[Address], bool]) -> Row:
    return method(name, id, (NET_IP,), BOOL, lambda of: test(of.address), costs.NAMED_FLAT)


LIBRARY: Final = Library(
    "ip",
    functions(
        plain("ip", "string_to_ip", (STRING,), NET_IP, parse, costs.READ, fails=True),
        plain("isIP", "is_ip", (STRING,), BOOL, is_ip, costs.READ),
        plain("ip.isCanonical", "ip_is_canonical", (STRING,), BOOL, lambda text: str(parse(text)) == text,
              costs.READ_TWICE, fails=True),
        method("family", "ip_family", (NET_IP,), INT, lambda of: 4 if of.address.bits == 32 else 6, costs.NAMED_FLAT),
        _test("isUnspecified", "ip_is_unspecified", is_unspecified),
        _test("isLoopback", "ip_is_loopback", is_loopback),
        _test("isLinkLocalMulticast", "ip_is_link_local_multicast", is_link_local_multicast),
        _test("isLinkLocalUnicast", "ip_is_link_local_unicast", is_link_local_unicast),
        _test("isGlobalUnicast", "ip_is_global_unicast", is_global_unicast),
        plain("string", "ip_to_string", (NET_IP,), STRING, str),
    ),
    types=(NET_IP,),
)  # fmt: skip


# ── networks ──────────────────────────────────────────────────────────────────────────────────────────


NET_CIDR: Final = types.opaque("net.CIDR")
_FAILED: Final = "network address parse error during conversion from string: "


class CIDR:
    """A network as a CEL value."""

    __slots__ = ("network",)
    cel_type: ClassVar[Type] = NET_CIDR

    def __init__(self, network: Network) -> None:
        self.network: Final = network

    @property
    def cel_size(self) -> int:
        """What runtime cost takes as its size: bytes that the prefix touches."""
        return (self.network.prefix + 7) // 8

    def __eq__(self, other: object) -> bool:
        return other.__class__ is CIDR and self.network == other.network

    def __hash__(self) -> int:
        return hash(self.network)

    def __str__(self) -> str:
        return str(self.network)

    def __repr__(self) -> str:
        return f"CIDR({str(self.network)!r})"


def parse_cidr(text: str) -> CIDR:
    """Return the network *text* writes, as an evaluation error when it writes none."""
    spend(len(text) * 4)
    try:
        network = parse_network(text)
    except NetworkError as error:
        raise EvaluationError(f"{_FAILED}{_FAILED}{error}") from None  # said by two layers upstream
    if network.address.is_mapped:
        raise EvaluationError(f"{_FAILED}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(network)


def is_cidr(text: str) -> bool:
    """Return whether *text* writes a network."""
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


def _contains_text(of: CIDR, text: str) -> bool:
    try:
        address = parse(text)
    except EvaluationError:
        raise EvaluationError(NO_SUCH_OVERLOAD) from None
    return of.network.contains(address.address)


CIDR_LIBRARY: Final = Library(
    "cidr",
    functions(
        plain("cidr", "string_to_cidr", (STRING,), NET_CIDR, parse_cidr, costs.READ, fails=True),
        plain("isCIDR", "is_cidr", (STRING,), BOOL, is_cidr, costs.READ),
        method("containsIP", "cidr_contains_ip_string", (NET_CIDR, STRING), BOOL, _contains_text,
               costs.CONTAINS_IP_TEXT, fails=True),
        method("containsIP", "cidr_contains_ip_ip", (NET_CIDR, NET_IP), BOOL, lambda of,
               x: of.network.contains(x.address), costs.CONTAINS_IP),
        method("containsCIDR", "cidr_contains_cidr_string", (NET_CIDR, STRING), BOOL, lambda of,
               text: of.network.covers(parse_cidr(text).network), costs.CONTAINS_CIDR_TEXT, fails=True),
        method("containsCIDR", "cidr_contains_cidr", (NET_CIDR, NET_CIDR), BOOL, lambda of,
               x: of.network.covers(x.network), costs.CONTAINS_CIDR),
        method("ip", "cidr_ip", (NET_CIDR,), NET_IP, lambda of: IP(of.network.address), costs.NAMED_FLAT),
        method("masked", "cidr_masked", (NET_CIDR,), NET_CIDR, lambda of: CIDR(of.network.masked()),
               costs.NAMED_FLAT),
        method("prefixLength", "cidr_prefix_length", (NET_CIDR,), INT, lambda of: of.network.prefix,
               costs.NAMED_FLAT),
        plain("string", "cidr_to_string", (NET_CIDR,), STRING, str),
    ),
    types=(NET_CIDR,),
)  # fmt: skip
