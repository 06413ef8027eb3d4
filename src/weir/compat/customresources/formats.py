"""String formats of schemas, as kube-openapi checks them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from email.errors import MessageError
from email.headerregistry import Address
from typing import Final

from weir.cel.library.named_formats import FORMATS, is_datetime
from weir.fields.addresses import find_sloppy_ip, find_sloppy_network

_UUID: Final = r"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{0}[0-9a-f]{{3}}-?{1}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_HOST: Final = r"[^\W_]"
_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_SHORT_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_CARD: Final = (
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|"
    r"6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14}"
)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _named(name: str) -> Callable[[str], bool]:
    return lambda text: not FORMATS[name].check(text)


def is_hostname(text: str) -> bool:
    """Return whether *text* is the name of a host; letters may be any.

    >>> is_hostname("a.example"), is_hostname("a_b"), is_hostname("-a")
    (True, False, False)
    """
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    single = rf"{_HOST}(-?[\w]{{0,62}})?"
    several = rf"({_HOST}([\w-]{{0,61}}{_HOST})?\.)+[^\W\d_]{{2,63}}"
    return "_" not in text and re.fullmatch(f"{single}|{several}", text) is not None


def is_email(text: str) -> bool:
    """Return whether *text* is an address, with a name before it or without.

    >>> is_email("a@example.com"), is_email("Ann <a@example.com>"), is_email("a")
    (True, True, False)
    """
    found = re.fullmatch(r"(?:[^<>]*<)?([^<>\s]+)>?", text.strip())
    try:
        return found is not None and bool(Address(addr_spec=found[1]).domain)
    except (MessageError, ValueError, IndexError):
        return False


def is_duration(text: str) -> bool:
    """Return whether *text* is a duration, in Go's notation or in words.

    >>> is_duration("1h30m"), is_duration("22 ns"), is_duration("3 weeks"), is_duration("soon")
    (True, True, True, False)
    """
    if re.fullmatch(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", text):
        return True
    units = [unit.lower() for unit in re.findall(r"\d+\s*([A-Za-zµ]+)", text)]
    return any(unit in _SHORT_UNITS or unit.startswith(_UNITS) for unit in units)


def is_ipv6(text: str) -> bool:
    """Return whether *text* is an IPv6 address."""
    try:
        return isinstance(ipaddress.ip_address(text), ipaddress.IPv6Address) and "%" not in text
    except ValueError:
        return False


def is_isbn10(text: str) -> bool:
    """Return whether *text* is an ISBN of ten digits.

    >>> is_isbn10("0-321-75104-3"), is_isbn10("0321751042")
    (True, False)
    """
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((i + 1) * (10 if digit == "X" else int(digit)) for i, digit in enumerate(digits)) % 11 == 0


def is_isbn13(text: str) -> bool:
    """Return whether *text* is an ISBN of thirteen digits.

    >>> is_isbn13("978-0321751041"), is_isbn13("978-0321751042")
    (True, False)
    """
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if i % 2 else 1) for i, digit in enumerate(digits)) % 10 == 0


def is_card(text: str) -> bool:
    """Return whether *text* is the number of a credit card, with any other characters between its digits.

    >>> is_card("4111-1111-1111-1111"), is_card("4111-1111-1111-1112")
    (True, False)
    """
    digits = re.sub(r"\D", "", text)
    if not re.fullmatch(_CARD, digits, re.ASCII):
        return False
    doubled = (int(digit) * (2 if i % 2 else 1) for i, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


#: format, without dashes → whether a text has it
CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "byte": _named("byte"),
    "cidr": lambda text: find_sloppy_network(text) is not None,
    "creditcard": is_card,
    "date": _named("date"),
    "datetime": is_datetime,
    "duration": is_duration,
    "email": is_email,
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": is_hostname,
    "ipv4": lambda text: "." in text and find_sloppy_ip(text) is not None,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8slongname": _matches(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
    "k8sshortname": _matches(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "mac": _matches(
        r"[0-9a-fA-F]{2}(([:-])[0-9a-fA-F]{2}(\2[0-9a-fA-F]{2}){4}((\2[0-9a-fA-F]{2}){2}|(\2[0-9a-fA-F]{2}){14})?)|"
        r"[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2}((\.[0-9a-fA-F]{4})|(\.[0-9a-fA-F]{4}){7})?"
    ),
    "password": lambda text: True,
    "rgbcolor": _matches(
        r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,"
        r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)"
    ),
    "ssn": _matches(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": _named("uri"),
    "uuid": _named("uuid"),
    "uuid3": _matches(_UUID.format("3", "[0-9a-f]")),
    "uuid4": _matches(_UUID.format("4", "[89ab]")),
    "uuid5": _matches(_UUID.format("5", "[89ab]")),
}
