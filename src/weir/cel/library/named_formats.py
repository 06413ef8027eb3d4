"""Named formats: `format.dns1123Label().validate(s)` says what is wrong with a text.

Spec: cel.md 10.9. `validate` returns none for a valid text, else the messages Kubernetes prints. The
prefix formats look at the text without its last two characters when it ends in a dash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.library.declare import functions, method, plain
from weir.cel.types import STRING, Type, list_of, optional_of
from weir.cel.values import NONE, Optional
from weir.cel.work import spend
from weir.values import names
from weir.values.timestamp import parse_date
from weir.values.url import UrlError, check_request_uri

NAMED_FORMAT: Final = types.opaque("kubernetes.NamedFormat")

_UUID: Final = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z", re.ASCII | re.IGNORECASE
)
_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})\Z", re.ASCII
)
_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})\Z", re.ASCII
)

Check = Callable[[str], Sequence[str]]


class NamedFormat:
    """A format as a CEL value; equal when the names are equal. `regex_size` prices `validate`.

    `title` is what upstream calls it when it prints one, which is not always the name it is asked for by.
    """

    __slots__ = ("check", "name", "regex_size", "title")
    cel_type: ClassVar[Type] = NAMED_FORMAT

    def __init__(self, name: str, check: Check, regex_size: int, title: str = "") -> None:
        self.name, self.check, self.regex_size, self.title = name, check, regex_size, title or name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is NamedFormat and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.title

    def __repr__(self) -> str:
        return f"NamedFormat({self.name!r})"


def _prefix(check: Check) -> Check:
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> Sequence[str]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _only(test: Callable[[str], bool], message: str) -> Check:
    return lambda text: [] if test(text) else [message]


def is_datetime(text: str) -> bool:
    """Return whether *text* is an RFC 3339 date and time; upstream takes either case of `t` and `z`.

    >>> is_datetime("2021-01-01T00:00:00Z"), is_datetime("2021-01-01 00:00:00Z")
    (True, False)
    """
    parts = text.lower().split("t")
    if len(parts) < 2 or not parse_date(parts[0]):
        return False
    time = _TIME.match(parts[1])
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


FORMATS: Final = {
    known.name: known
    for known in (
        NamedFormat("dns1123Label", names.check_dns1123_label, 30, "DNS1123Label"),
        NamedFormat("dns1123Subdomain", names.check_dns1123_subdomain, 60, "DNS1123Subdomain"),
        NamedFormat("dns1035Label", names.check_dns1035_label, 30, "DNS1035Label"),
        NamedFormat("qualifiedName", names.check_label_key, 60, "QualifiedName"),
        NamedFormat("dns1123LabelPrefix", _prefix(names.check_dns1123_label), 30, "DNS1123LabelPrefix"),
        NamedFormat(
            "dns1123SubdomainPrefix", _prefix(names.check_dns1123_subdomain), 60, "DNS1123SubdomainPrefix"
        ),
        NamedFormat("dns1035LabelPrefix", _prefix(names.check_dns1035_label), 30, "DNS1035LabelPrefix"),
        NamedFormat("labelValue", names.check_label_value, 40, "LabelValue"),
        NamedFormat("uri", _uri, 1103, "URI"),
        NamedFormat(
            "uuid", _only(lambda text: _UUID.match(text) is not None, "does not match the UUID format"), 70
        ),
        NamedFormat("byte", _only(lambda text: _BASE64.match(text) is not None, "invalid base64"), 84),
        NamedFormat("date", _only(parse_date, "invalid date"), 71),
        NamedFormat("datetime", _only(is_datetime, "invalid datetime"), 71),
    )
}


def validate(of: NamedFormat, text: str) -> Optional:
    """Return what is wrong with *text*, or none."""
    spend(len(text) * 5)
    messages = list(of.check(text))
    return Optional(messages) if messages else NONE


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _constant(known: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: known


LIBRARY: Final = Library(
    "format",
    functions(
        *(
            plain(f"format.{name}", f"format.{name}", (), NAMED_FORMAT, _constant(known))
            for name, known in FORMATS.items()
        ),
        plain("format.named", "format-named", (STRING,), optional_of(NAMED_FORMAT), _named, costs.NAMED_FLAT),
        method("validate", "format-validate", (NAMED_FORMAT, STRING), optional_of(list_of(STRING)), validate,
               costs.VALIDATE),
    ),
)  # fmt: skip
