"""YAML scalar resolution: words, numbers and keys as Go's YAML library reads them."""

from __future__ import annotations

import re
from math import isinf
from typing import Any, Final

import yaml

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)\Z", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?\Z", re.ASCII)
_LONGEST_NUMBER: Final = 400
_NUMERIC: Final = frozenset("0123456789+-.")


def scalar_of(node: yaml.ScalarNode | yaml.ScalarEvent) -> Any:
    """Return the value of a scalar by Kubernetes' YAML rules; quoted text is always text."""
    text: str = node.value
    if node.style:
        return text
    tag: str | None = node.tag
    if tag and (tag == "tag:yaml.org,2002:str" or not tag.startswith("tag:yaml.org,2002:")):
        return text
    if text[:1] in _NUMERIC or text in _WORDS:
        return plain_scalar(text)
    return text


def plain_scalar(text: str) -> Any:
    """Return what the unquoted *text* means in YAML 1.1 as Kubernetes reads it.

    >>> [plain_scalar(word) for word in ("on", "0o17", "1_000", "1.50", "2024-01-15", "5m")]
    [True, 15, 1000, 1.5, '2024-01-15', '5m']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-." or len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    if _INTEGER.match(digits):
        number = _integer(digits)
        if -(2**63) <= number < 2**64:
            return number
        return _float(digits, text) if _FLOAT.match(digits) else text
    return _float(digits, text) if _FLOAT.match(digits) else text


def _float(digits: str, text: str) -> float | str:
    """Return the number, or *text* itself when it is beyond what a float holds."""
    number = float(digits)
    return text if isinf(number) else number


def _integer(digits: str) -> int:
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def key_of(node: yaml.ScalarNode | yaml.ScalarEvent) -> str:
    """Return a mapping key as JSON needs it: text."""
    value = scalar_of(node)
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
