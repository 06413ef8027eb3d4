"""Name and label formats, with the API server's messages.

Spec: core.md 2.2 "Shared format messages", apiserver.md 13 "Name rules". Each check returns the messages in the API
server's order; none means valid. Lengths count UTF-8 bytes. The doubled blanks before `or` in the messages are
upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

Messages = tuple[str, ...]
FINE: Final[Messages] = ()
#: Of generated names: neither vowels nor digits that look like them, so that no words appear.
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_BYTES: Final = bytes(ord(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)]) for byte in range(256))

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL + r"(\." + _LABEL + ")*"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_C_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY: Final = r"[-._a-zA-Z0-9]+"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_HEADER: Final = r"[-A-Za-z0-9]+"

# Python's `$` also matches before a last line feed: every check is a full match.
# These say the same as the patterns printed in the messages, without groups to remember.
_match_label = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?").fullmatch
_match_subdomain = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
).fullmatch
_match_underscored = re.compile(
    r"_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:\._?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*"
).fullmatch
_match_name = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?").fullmatch
_match_dns1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?").fullmatch
_match_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_match_config_key = re.compile(_CONFIG_KEY).fullmatch
_match_http_header = re.compile(_HTTP_HEADER).fullmatch
_match_wildcard = re.compile(rf"\*\.{_SUBDOMAIN}").fullmatch
_match_http_path = re.compile(_HTTP_PATH).fullmatch
_match_environment = re.compile(r"[ -<>-~]+").fullmatch

EMPTY: Final = "must be non-empty"
LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_UNDERSCORED: Final = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
UNDERSCORED_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_UNDERSCORED}')"
)
CASELESS_MESSAGE: Final = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'Example.com', regex used for validation is '{_SUBDOMAIN}')"
)
NAME_PART: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
LABEL_KEY_MESSAGE: Final = (
    f"a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
LABEL_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    f"is '({_NAME})?')"
)
DNS1035_MESSAGE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_DNS1035}')"
)
C_IDENTIFIER_MESSAGE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    f"'{_C_IDENTIFIER}')"
)
ENVIRONMENT_MESSAGE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
CONFIG_KEY_MESSAGE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)
WILDCARD_MESSAGE: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '\\*\\.{_SUBDOMAIN}')"
)
HTTP_HEADER_MESSAGE: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    f"validation is '{_HTTP_HEADER}')"
)


def byte_length(text: str) -> int:
    """Return the length of *text* in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def too_long(limit: int) -> str:
    """Return the message for label text of more than *limit* bytes."""
    return f"must be no more than {limit} bytes"


def too_many_characters(limit: int) -> str:
    """Return the message for names of more than *limit* characters; only labels speak of bytes."""
    return f"must be no more than {limit} characters"


def in_bytes(messages: Messages) -> Messages:
    """Return *messages* as the newer checks word them: every length is counted in bytes.

    >>> in_bytes(("must be no more than 63 characters", "must not contain dots"))
    ('must be no more than 63 bytes', 'must not contain dots')
    """
    return tuple(
        text.replace("characters", "bytes") if text.startswith("must be no more than") else text
        for text in messages
    )


def check_dns1123_label(text: str) -> Messages:
    """Return what is wrong with *text* as a container, host or namespace name.

    >>> check_dns1123_label("web-1"), check_dns1123_label("web.1")
    ((), ('must not contain dots',))
    """
    if len(text) <= 63 and _match_label(text):
        return FINE
    long = (too_many_characters(63),) if byte_length(text) > 63 else FINE
    if _match_label(text):
        return long
    return (*long, "must not contain dots" if _match_subdomain(text) else LABEL_MESSAGE)


def check_dns1123_subdomain(text: str) -> Messages:
    """Return what is wrong with *text* as the name of most objects.

    >>> check_dns1123_subdomain("web.example.com")
    ()
    """
    if len(text) <= 253 and _match_subdomain(text):
        return FINE
    long = (too_many_characters(253),) if byte_length(text) > 253 else FINE
    return long if _match_subdomain(text) else (*long, SUBDOMAIN_MESSAGE)


def check_caseless_subdomain(text: str) -> Messages:
    """Return what is wrong with *text* as a subdomain in any case, in the words of the newer checks.

    >>> check_caseless_subdomain("Gpu.Example.com")
    ()
    """
    long = (too_long(253),) if byte_length(text) > 253 else FINE
    return long if _match_subdomain(text.lower()) else (*long, CASELESS_MESSAGE)


def check_wildcard_subdomain(text: str) -> Messages:
    """Return what is wrong with *text* as a name for every host below a domain.

    >>> check_wildcard_subdomain("*.example.com"), check_wildcard_subdomain("*bar.com")[0][:30]
    ((), 'a wildcard DNS-1123 subdomain ')
    """
    messages = (too_many_characters(253),) if byte_length(text) > 253 else FINE
    return messages if _match_wildcard(text) else (*messages, WILDCARD_MESSAGE)


def check_search_domain(text: str) -> Messages:
    """Return what is wrong with *text* as a DNS search path, where underscores are common.

    >>> check_search_domain("_tcp.example.com")
    ()
    """
    long = (too_many_characters(253),) if byte_length(text) > 253 else FINE
    return long if _match_underscored(text) else (*long, UNDERSCORED_MESSAGE)


def check_dns1035_label(text: str) -> Messages:
    """Return what is wrong with *text* as a name that must start with a letter.

    >>> check_dns1035_label("9lives")[0][:18]
    'a DNS-1035 label m'
    """
    if len(text) <= 63 and _match_dns1035(text):
        return FINE
    long = (too_many_characters(63),) if byte_length(text) > 63 else FINE
    return long if _match_dns1035(text) else (*long, DNS1035_MESSAGE)


def check_label_value(text: str) -> Messages:
    """Return what is wrong with *text* as the value of a label or a taint.

    >>> check_label_value("v1.2_beta"), check_label_value("")
    ((), ())
    """
    if not text or (len(text) <= 63 and _match_name(text)):
        return FINE
    long = (too_long(63),) if byte_length(text) > 63 else FINE
    return long if _match_name(text) else (*long, LABEL_VALUE_MESSAGE)


def check_label_key(text: str) -> Messages:
    """Return what is wrong with *text* as the key of a label, a taint or an annotation.

    >>> check_label_key("example.com/tier")
    ()
    >>> check_label_key("/tier")
    ('prefix part must be non-empty',)
    """
    # Pods repeat a handful of keys; only short text is worth remembering.
    return _check_short_label_key(text) if len(text) <= 128 else _check_label_key(text)


def _check_label_key(text: str) -> Messages:
    if len(text) <= 63 and _match_name(text):
        return FINE
    prefix, slash, name = text.partition("/")
    if "/" in name:
        return (LABEL_KEY_MESSAGE,)
    if not slash:
        return _check_name_part(text)
    if not prefix:
        return ("prefix part " + EMPTY, *_check_name_part(name))
    return (*map(_of_prefix, check_dns1123_subdomain(prefix)), *_check_name_part(name))


def _of_prefix(message: str) -> str:
    """Return a name's message adapted to the prefix of a key, whose length is in bytes."""
    return "prefix part " + (too_long(253) if message == too_many_characters(253) else message)


_check_short_label_key = lru_cache(maxsize=4096)(_check_label_key)


def _check_name_part(name: str) -> Messages:
    messages: Messages = FINE
    if not name:
        messages = ("name part " + EMPTY,)
    elif byte_length(name) > 63:
        messages = ("name part " + too_long(63),)
    return messages if _match_name(name) else (*messages, "name part " + NAME_PART)


def check_c_identifier(text: str) -> Messages:
    """Return what is wrong with *text* as an identifier.

    >>> check_c_identifier("_model2")
    ()
    """
    return FINE if _match_c_identifier(text) else (C_IDENTIFIER_MESSAGE,)


def check_environment_name(text: str) -> Messages:
    """Return what is wrong with *text* as the name of an environment variable.

    >>> check_environment_name("a b")
    ()
    """
    return FINE if _match_environment(text) else (ENVIRONMENT_MESSAGE,)


def check_config_key(text: str) -> Messages:
    """Return what is wrong with *text* as a key of a ConfigMap or Secret.

    >>> check_config_key("..")
    ("must not be '..'",)
    """
    messages = (too_many_characters(253),) if byte_length(text) > 253 else FINE
    if not _match_config_key(text):
        messages = (*messages, CONFIG_KEY_MESSAGE)
    if text == ".":
        return (*messages, "must not be '.'")
    if text == "..":
        return (*messages, "must not be '..'")
    return (*messages, "must not start with '..'") if text.startswith("..") else messages


def check_path_segment(text: str) -> Messages:
    """Return what is wrong with *text* as a name that is only used in paths.

    >>> check_path_segment("system:node"), check_path_segment("a/b")
    ((), ("may not contain '/'",))
    """
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in text)


def check_domain_prefixed_path(text: str) -> tuple[tuple[str, str], ...]:
    """Return what is wrong with *text* as a path below a domain: the bad part with the message, for each.

    >>> check_domain_prefixed_path("acme.io/foo"), check_domain_prefixed_path("acme.io")
    ((), (('acme.io', 'must be a domain-prefixed path (such as "acme.io/foo")'),))
    """
    domain, _, path = text.partition("/")
    if not domain or not path:
        return ((text, 'must be a domain-prefixed path (such as "acme.io/foo")'),)
    problems = tuple((domain, message) for message in check_dns1123_subdomain(domain))
    if _match_http_path(path):
        return problems
    return (*problems, (path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))


def check_http_header(text: str) -> Messages:
    """Return what is wrong with *text* as the name of an HTTP header.

    >>> check_http_header("X-Trace")
    ()
    """
    return FINE if _match_http_header(text) else (HTTP_HEADER_MESSAGE,)


def check_port_name(text: str) -> Messages:
    """Return what is wrong with *text* as the name of a port.

    >>> check_port_name("8080")
    ('must contain at least one letter (a-z)',)
    """
    messages = []
    if byte_length(text) > 15:
        messages.append(too_many_characters(15))
    if not re.fullmatch(r"[-a-z0-9]+", text):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", text):
        messages.append("must contain at least one letter (a-z)")
    if "--" in text:
        messages.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return tuple(messages)


def check_generated(check: Callable[[str], Messages], prefix: str) -> Messages:
    """Return what is wrong with *prefix* as generateName: a last dash is fine, the suffix follows it.

    The server checks the prefix with its last two characters replaced, whatever the one before the dash is.

    >>> check_generated(check_dns1123_label, "web-"), check_generated(check_dns1123_label, "web--")
    ((), ())
    """
    return check(prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix)


def name_suffix(random_bytes: Callable[[int], bytes]) -> str:
    """Return the five random characters at the end of a generated name."""
    return random_bytes(5).translate(_SUFFIX_BYTES).decode()


def generate_name(prefix: str, random_bytes: Callable[[int], bytes]) -> str:
    """Return a name for `generateName: prefix`, cut so that it is a DNS label with its suffix.

    >>> generate_name("web-", bytes)
    'web-bbbbb'
    """
    return prefix[:58] + name_suffix(random_bytes)
