"""Networks: `cidr('10.0.0.0/8')` and what lies in them.

Spec: cel.md 10.7. Host bits are kept and count in `==`; `containsIP` of text that is no address
fails with `no such overload`, `containsCIDR` of text that is no network with the parser's words.
"""

from __future__ import annotations

from typing import ClassVar, Final

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import function, method, plain
from weir.cel.library.ip import IP, NET_IP
from weir.cel.library.ip import parse as parse_ip
from weir.cel.types import BOOL, INT, STRING, Type
from weir.cel.work import spend
from weir.values.netip import Network, NetworkError, parse_network
from weir.values.quoting import quote

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


def parse(text: str) -> CIDR:
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
        parse(text)
    except EvaluationError:
        return False
    return True


def _contains_text(of: CIDR, text: str) -> bool:
    try:
        address = parse_ip(text)
    except EvaluationError:
        raise EvaluationError(NO_SUCH_OVERLOAD) from None
    return of.network.contains(address.address)


LIBRARY: Final = Library(
    "cidr",
    (
        function("cidr", plain("string_to_cidr", (STRING,), NET_CIDR, parse, costs.READ, fails=True)),
        function("isCIDR", plain("is_cidr", (STRING,), BOOL, is_cidr, costs.READ)),
        function(
            "containsIP",
            method(
                "cidr_contains_ip_string",
                (NET_CIDR, STRING),
                BOOL,
                _contains_text,
                costs.CONTAINS_IP_TEXT,
                fails=True,
            ),
            method(
                "cidr_contains_ip_ip",
                (NET_CIDR, NET_IP),
                BOOL,
                lambda of, x: of.network.contains(x.address),
                costs.CONTAINS_IP,
            ),
        ),
        function(
            "containsCIDR",
            method(
                "cidr_contains_cidr_string",
                (NET_CIDR, STRING),
                BOOL,
                lambda of, text: of.network.covers(parse(text).network),
                costs.CONTAINS_CIDR_TEXT,
                fails=True,
            ),
            method(
                "cidr_contains_cidr",
                (NET_CIDR, NET_CIDR),
                BOOL,
                lambda of, x: of.network.covers(x.network),
                costs.CONTAINS_CIDR,
            ),
        ),
        function(
            "ip", method("cidr_ip", (NET_CIDR,), NET_IP, lambda of: IP(of.network.address), costs.NAMED_FLAT)
        ),
        function(
            "masked",
            method(
                "cidr_masked", (NET_CIDR,), NET_CIDR, lambda of: CIDR(of.network.masked()), costs.NAMED_FLAT
            ),
        ),
        function(
            "prefixLength",
            method("cidr_prefix_length", (NET_CIDR,), INT, lambda of: of.network.prefix, costs.NAMED_FLAT),
        ),
        function("string", plain("cidr_to_string", (NET_CIDR,), STRING, str, costs.FLAT)),
    ),
    types=(NET_CIDR,),
)
