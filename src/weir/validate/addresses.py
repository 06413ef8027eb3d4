"""Is this text an IP address, or a network?

Spec: apiserver.md 13 (podCIDRs), the pod status and host aliases. Messages are the API server's.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from weir.values.names import FINE, Messages

IP_MESSAGE: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_MESSAGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def find_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address *text* writes, or None."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def find_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network *text* writes, or None; the prefix must be there."""
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def check_ip(text: str) -> Messages:
    """Return what is wrong with *text* as an IP address.

    >>> check_ip("10.0.0.1"), check_ip("bad")[0][:21]
    ((), 'must be a valid IP ad')
    """
    return FINE if find_ip(text) else (IP_MESSAGE,)


def check_usable_ip(text: str) -> Messages:
    """Return why traffic cannot be sent to an address.

    >>> check_usable_ip("127.0.0.1")
    ('may not be in the loopback range (127.0.0.0/8, ::1/128)',)
    """
    found = find_ip(text)
    if found is None:
        return ("must be a valid IP address",)
    if found.is_unspecified:
        return (f"may not be unspecified ({text})",)
    if found.is_loopback:
        return ("may not be in the loopback range (127.0.0.0/8, ::1/128)",)
    if found.is_link_local:
        return ("may not be in the link-local range (169.254.0.0/16, fe80::/10)",)
    if any(found.version == network.version and found in network for network in _LOCAL_MULTICAST):
        return ("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",)
    return FINE


def check_cidr(text: str) -> Messages:
    """Return what is wrong with *text* as a network.

    >>> check_cidr("10.0.0.0/8")
    ()
    """
    return FINE if find_network(text) else (CIDR_MESSAGE,)


def canonical_interface(text: str) -> str | None:
    """Return an address with the length of its network's prefix as it should be written, or None if it is none.

    >>> canonical_interface("010.9.8.7/24"), canonical_interface("2001:DB8::1/64"), canonical_interface("10.9.8.7")
    ('10.9.8.7/24', '2001:db8::1/64', None)
    """
    address, _, prefix = text.partition("/")
    if not (prefix.isascii() and prefix.isdigit()):
        return None
    if ":" not in address:  # zeros in front are read, as they were for long
        parts = address.split(".")
        address = ".".join(part.lstrip("0") or part[:1] for part in parts)
    found, size = find_ip(address), int(prefix)
    if found is None or size > found.max_prefixlen:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        return f"{found.ipv4_mapped}/{size - 96 if size > 32 else size}"
    return f"{found}/{size}"
