"""Validation of IP addresses and CIDRs, with the API server's messages.

Spec: apiserver.md 13 (podCIDRs), the pod status and host aliases.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
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


def find_sloppy_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address *text* writes, or None; zeros in front are read, as they were for long.

    >>> find_sloppy_ip("010.000.0.01"), find_sloppy_ip("::ffff:1.2.3.4")
    (IPv4Address('10.0.0.1'), IPv6Address('::ffff:102:304'))
    """
    if ":" not in text:
        text = ".".join(part.lstrip("0") or part[:1] for part in text.split("."))
    return find_ip(text)


def find_sloppy_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network that the address and length in *text* lie in, or None; zeros in front are read.

    >>> find_sloppy_network("010.1.2.3/08"), find_sloppy_network("10.0.0.0")
    (IPv4Network('10.0.0.0/8'), None)
    """
    address, _, prefix = text.partition("/")
    found = find_sloppy_ip(address)
    if found is None or not (prefix.isascii() and prefix.isdigit()) or int(prefix) > found.max_prefixlen:
        return None
    return ipaddress.ip_network(f"{found}/{int(prefix)}", strict=False)


def check_ip(text: str) -> Messages:
    """Return what is wrong with *text* as an IP address; it need not be in canonical form.

    >>> check_ip("10.0.0.1"), check_ip("bad")[0][:21], check_ip("10.0.0.01"), check_ip("FE80::0abc")
    ((), 'must be a valid IP ad', ('must not have leading 0s',), ())
    """
    found = find_ip(text)
    if found is None:
        return (IP_MESSAGE,) if find_sloppy_ip(text) is None else ("must not have leading 0s",)
    return ("must not be an IPv4-mapped IPv6 address",) if _is_mapped(found) else FINE


def check_canonical_ip(text: str) -> Messages:
    """Return what is wrong with *text* as an IP address that must be written in its canonical form.

    >>> check_canonical_ip("2001:DB8::1")
    ('must be in canonical form ("2001:db8::1")',)
    """
    messages = check_ip(text)
    canonical = str(find_ip(text))
    return messages or (FINE if canonical == text else (_canonical(canonical),))


def _is_mapped(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None


def _canonical(text: str) -> str:
    return f'must be in canonical form ("{text}")'


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
    """Return what is wrong with *text* as a network; it need not be in canonical form.

    >>> check_cidr("10.0.0.0/8"), check_cidr("10.0.0.1/8"), check_cidr("10.0.0.0/08")[0][:22]
    ((), ('must not have bits set beyond the prefix length',), 'must not have leading ')
    """
    network = find_sloppy_network(text)
    if network is None:
        return (CIDR_MESSAGE,)
    address, _, prefix = text.partition("/")
    found = find_ip(address)
    if found is None or prefix != str(int(prefix)):
        return ("must not have leading 0s in IP or prefix length",)
    if _is_mapped(found):
        return ("must not have an IPv4-mapped IPv6 address",)
    return FINE if found == network.network_address else ("must not have bits set beyond the prefix length",)


def check_canonical_cidr(text: str) -> Messages:
    """Return what is wrong with *text* as a network that must be written in its canonical form.

    >>> check_canonical_cidr("2001:DB8::/64")
    ('must be in canonical form ("2001:db8::/64")',)
    """
    messages = check_cidr(text)
    canonical = str(find_sloppy_network(text))
    return messages or (FINE if canonical == text else (_canonical(canonical),))


def address_warnings(text: str, at: str) -> Iterator[str]:
    """Yield what a client should know about an address that is accepted."""
    found = find_ip(text)
    if found is not None and found.version == 6 and str(found) != text:
        yield f'{at}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{found}")'


def network_warnings(text: str, at: str) -> Iterator[str]:
    """Yield what a client should know about a network that is accepted."""
    network = find_sloppy_network(text)
    if network is None:
        return
    address, _, prefix = text.partition("/")
    found, plain = find_sloppy_ip(address), True
    if found is not None and found != network.network_address:
        single = f"{found}/{found.max_prefixlen}"
        yield f'{at}: CIDR value "{text}" is ambiguous in this context (should be "{network}" or "{single}"?)'
        plain = False
    if find_ip(address) is None or prefix != str(int(prefix)) or (found is not None and _is_mapped(found)):
        yield f'{at}: non-standard CIDR value "{text}" is invalid: use "{network}"'
    elif plain and network.version == 6 and str(network) != text:
        yield f'{at}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")'


def canonical_interface(text: str) -> str | None:
    """Return an address with the length of its network's prefix as it should be written, or None if it is none.

    >>> canonical_interface("010.9.8.7/24"), canonical_interface("2001:DB8::1/64"), canonical_interface("10.9.8.7")
    ('10.9.8.7/24', '2001:db8::1/64', None)
    """
    address, _, prefix = text.partition("/")
    if not (prefix.isascii() and prefix.isdigit()):
        return None
    found, size = find_sloppy_ip(address), int(prefix)
    if found is None or size > found.max_prefixlen:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        return f"{found.ipv4_mapped}/{size - 96 if size > 32 else size}"
    return f"{found}/{size}"
