"""Comparison of an answer with the recorded one, without what differs in a second run.

Volatile paths are masked on both sides. Where the recording lists errors in the order of a Go map, the causes are
compared as a set (core.md 2.1); the text of a diff that follows an immutability error is not compared (core.md 2.6).
"""

from __future__ import annotations

import copy
import hashlib
import re
from typing import Any

from tests.golden.decisions import DECISIONS
from tests.golden.recording import Document, Exchange

MASK = "*"
DIGEST = "sha256:"
DESCRIPTION = re.compile(r"columnDefinitions\[\d+\]\.description$")
AGE = re.compile(r"(\d+[smhdy])+")
IGNORED_HEADERS = frozenset({"Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid", "Transfer-Encoding"})
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[\*\]|\["((?:[^"\\]|\\.|"(?!\]))*)"\]')


def steps(path: str) -> list[str]:
    """Split a volatile path: names, `[*]`, and quoted keys.

    >>> steps('response.body.items[*].metadata["f:a"]')
    ['response', 'body', 'items', '[*]', 'metadata', 'f:a']
    """
    found = []
    for match in _STEP.finditer(path):
        if match[0] == "[*]":
            found.append("[*]")
        else:
            found.append(match[1] if match[1] is not None else match[2])
    return found


def mask(value: Any, path: list[str]) -> None:
    """Replace what lies at *path* by a mark, wherever it exists."""
    if not path:
        return
    head, rest = path[0], path[1:]
    if head == "[*]":
        if isinstance(value, list):
            for index, item in enumerate(value):
                if rest:
                    mask(item, rest)
                else:
                    value[index] = MASK
        return
    if not isinstance(value, dict):
        return
    names = [head]
    if MASK in head:
        pattern = re.compile(re.escape(head).replace(r"\*", ".*"))
        names = [name for name in value if pattern.fullmatch(name)]
        for name in names:
            value[head] = value.pop(name)
        names = [head] if names else []
    for name in names:
        if name in value:
            if rest:
                mask(value[name], rest)
            else:
                value[name] = MASK


def masked(response: dict[str, Any], volatile: list[str]) -> dict[str, Any]:
    """Return the response with everything volatile masked."""
    whole = {"response": copy.deepcopy(response)}
    for path in volatile:
        if path.startswith("response"):
            mask(whole, steps(path))
    return whole["response"]


def digest(text: str) -> str:
    """Return what stands in a recording for a text in upstream's own prose, such as a column's description."""
    return DIGEST + hashlib.sha256(text.encode()).hexdigest()


def without_diff(text: str) -> str:
    """Cut the diff an immutability error appends."""
    return re.sub(
        r"(may not change fields other than[^\n]*|is immutable[^\n]*|bound claims)\n.*",
        r"\1",
        text,
        flags=re.S,
    )


def differences(expected: Any, actual: Any, at: str = "") -> list[str]:
    """Return every place where *actual* is not what was recorded."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        for name in sorted(expected.keys() | actual.keys()):
            place = f"{at}.{name}" if at else name
            if name not in actual:
                found.append(f"{place}: missing, recorded {short(expected[name])}")
            elif name not in expected:
                found.append(f"{place}: unexpected {short(actual[name])}")
            else:
                found += differences(expected[name], actual[name], place)
        return found
    if isinstance(expected, list) and isinstance(actual, list):
        if at.endswith("causes") and same_set(expected, actual):
            return []
        found = []
        for index in range(max(len(expected), len(actual))):
            place = f"{at}[{index}]"
            if index >= len(actual):
                found.append(f"{place}: missing, recorded {short(expected[index])}")
            elif index >= len(expected):
                found.append(f"{place}: unexpected {short(actual[index])}")
            else:
                found += differences(expected[index], actual[index], place)
        return found
    if isinstance(expected, str) and isinstance(actual, str):
        if DESCRIPTION.search(at) and bool(expected) == bool(actual):
            return []  # decision 42: weir describes columns in its own words
        if expected.startswith(DIGEST):  # upstream's prose is not kept, only its digest
            actual = digest(actual)
        if ".cells[" in at and AGE.fullmatch(expected) and AGE.fullmatch(actual):
            return []  # decision G-07: an age is the time of the run
        if expected == actual or without_diff(expected) == without_diff(actual):
            return []
        if at.endswith("message") and same_errors(expected, actual):
            return []
    elif type(expected) is type(actual) and expected == actual:
        return []
    return [f"{at}: recorded {short(expected)}, got {short(actual)}"]


def same_set(expected: list[Any], actual: list[Any]) -> bool:
    left, right = sorted(map(repr, expected)), sorted(map(repr, actual))
    return left == right


def same_errors(expected: str, actual: str) -> bool:
    """Whether two `is invalid: [a, b]` messages list the same errors in another order."""
    left, right = expected.partition(" is invalid: ["), actual.partition(" is invalid: [")
    if not left[1] or left[0] != right[0]:
        return False
    return sorted(left[2].removesuffix("]").split(", ")) == sorted(right[2].removesuffix("]").split(", "))


def short(value: Any, limit: int = 300) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def compare(exchange: Exchange, got: Document) -> list[str]:
    """Return how *got* differs from the recording, decisions considered."""
    expected = masked(exchange.response, exchange.volatile)
    actual = masked(got, exchange.volatile)
    decisions = [found for found in DECISIONS if found.covers(exchange)]
    for found in decisions:
        if found.instead is not None:
            return found.instead(exchange, actual)
        if found.leave_out is not None:
            found.leave_out(actual)
    for side in (expected, actual):
        side["headers"] = {k: v for k, v in side["headers"].items() if k not in IGNORED_HEADERS}
        whole = {"response": side}
        for path in (path for found in decisions for path in found.paths):
            mask(whole, steps(path))
        if any(found.number == "G-04" for found in decisions) and "events" in side:
            side["events"] = _collapsed(side["events"])
    wrong = differences(expected, actual)
    if wrong and any(found.subset for found in decisions) and actual["code"] == expected["code"]:
        return subset_differences(expected.get("body"), actual.get("body"))
    return wrong


def _collapsed(events: list[Document]) -> list[Document]:
    kept: list[Document] = []
    for event in events:
        if kept and event["type"] == "BOOKMARK" and kept[-1] == event:
            continue
        kept.append(event)
    return kept


def subset_differences(expected: Any, actual: Any, at: str = "body") -> list[str]:
    """Return what is listed here and not, or differently, in the recording."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = [f"{at}.{name}: unexpected" for name in actual if name not in expected]
        for name in actual.keys() & expected.keys():
            found += subset_differences(expected[name], actual[name], f"{at}.{name}")
        return found
    if isinstance(expected, list) and isinstance(actual, list):
        found = []
        if all(isinstance(item, str) for item in expected):
            return [f"{at}: unexpected {item!r}" for item in actual if item not in expected]
        known = {_label(item): item for item in expected}
        for item in actual:
            label = _label(item)
            if label not in known:
                found.append(f"{at}: unexpected {label}")
            else:
                found += subset_differences(known[label], item, f"{at}[{label}]")
        return found
    return [] if expected == actual else [f"{at}: recorded {expected!r}, got {actual!r}"]


def _label(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    for name in ("name", "resource", "subresource", "version", "groupVersion", "clientCIDR"):
        if name in item:
            return str(item[name])
    return str((item.get("metadata") or {}).get("name", ""))
