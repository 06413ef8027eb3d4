"""JSON parser that keeps duplicate keys and number literals.

Spec: apiserver.md 2 "Decoding". For weir.objects.strict_decoder: objects are lists of pairs, fractions keep their
spelling (`1.0` is not an integer to Go), and invalid JSON raises JsonError with the message of Go's scanner.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from weir.values.quoting import quote

#: Objects are a few dozen levels deep. Deeper text is refused, so that no walk ever runs out of stack.
DEEPEST: Final = 200
#: An object of 1.5 MiB, the largest that is stored, has some tens of thousands of values.
MOST_VALUES: Final = 150_000
#: From this size on a text that is wrong is searched for its fault without building what it holds.
_LARGE_BYTES: Final = 64 * 1024
TOO_DEEP: Final = "exceeded max depth"
_WHITE: Final = " \t\r\n"
_LONGEST_INTEGER: Final = 20


class JsonError(ValueError):
    """The text is not JSON; the message is Go's."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written: keys in order, duplicates included."""

    __slots__ = ()


class Fraction(float):
    """A number that is not a plain int64 literal; `text` is how it was written."""

    text: str

    def __new__(cls, text: str) -> Fraction:
        self = super().__new__(cls, text)
        self.text = text
        return self


def parse_json(body: bytes) -> Any:
    """Return the value *body* holds; objects are Pairs.

    >>> parse_json(b'{"a": 1.0, "a": 2}')
    [('a', 1.0), ('a', 2)]
    >>> parse_json(b'{"a": tru}')
    Traceback (most recent call last):
    weir.objects.jsontext.JsonError: invalid character '}' in literal true (expecting 'e')
    """
    text = body.decode("utf-8", "replace")
    if len(text) > _LARGE_BYTES and (problem := _Scanner(text).problem()):
        raise JsonError(problem)
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise JsonError(TOO_DEEP) from None
    except ValueError:
        raise JsonError(_Scanner(text).problem() or "unexpected end of JSON input") from None
    if too_deep(value):
        raise JsonError(TOO_DEEP)
    return value


def may_be_too_deep(body: bytes) -> bool:
    """Whether the text has enough brackets to be nested deeper than DEEPEST; cheap, and true for large objects."""
    return body.count(b"{") + body.count(b"[") > DEEPEST


def too_deep(value: Any) -> bool:
    """Whether *value* is nested deeper than DEEPEST.

    >>> deep: list[Any] = []
    >>> for _ in range(300):
    ...     deep = [deep]
    >>> too_deep({"a": [1]}), too_deep(deep)
    (False, True)
    """
    level = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += [inner for inner in item.values() if isinstance(inner, dict | list)]
            elif type(item) is Pairs:
                below += [inner for _, inner in item if isinstance(inner, dict | list)]
            elif isinstance(item, list):
                below += [inner for inner in item if isinstance(inner, dict | list)]
        if not below:
            return False
        level = below
    return True


def has_more_values_than(body: bytes, most: int) -> bool:
    """Whether a JSON text has more commas and opening brackets than *most*, those in strings left out.

    That is how many values it can hold at most, found without building any of them.

    >>> has_more_values_than(b'{"a": [1, 2], "b": "[[,,"}', 4), has_more_values_than(b'{"a": [1, 2], "b": 3}', 3)
    (False, True)
    """
    if len(body) <= most or body.count(b",") + body.count(b"{") + body.count(b"[") <= most:
        return False
    count = 0
    for piece in _OUTSIDE_STRINGS.finditer(body):
        outside = piece[1]
        count += outside.count(b",") + outside.count(b"{") + outside.count(b"[")
        if count > most:
            return True
    return False


def duplicate_fields(value: Any, path: str = "") -> list[str]:
    """Return the paths of keys that occur again in one object, in the order they are met.

    >>> duplicate_fields(parse_json(b'{"a": {"b": 1, "b": 2}, "c": [{"d": 1, "d": 2}]}'))
    ['a.b', 'c[0].d']
    """
    duplicates: list[str] = []
    if type(value) is Pairs:
        seen: set[str] = set()
        for key, item in value:
            at = f"{path}.{key}" if path else key
            if key in seen:
                duplicates.append(at)
            seen.add(key)
            duplicates += duplicate_fields(item, at)
    elif type(value) is list:
        for index, item in enumerate(value):
            duplicates += duplicate_fields(item, f"{path}[{index}]")
    return list(dict.fromkeys(duplicates))


def plain(value: Any) -> Any:
    """Return *value* with Pairs as dicts (the last duplicate wins) and Fractions as floats."""
    if type(value) is Pairs:
        return {key: plain(item) for key, item in value}
    if type(value) is list:
        return [plain(item) for item in value]
    if type(value) is Fraction:
        return float(value)
    if type(value) is str:
        return whole_text(value)
    return value


def whole_text(text: str) -> str:
    """Return *text* with lone surrogates replaced, as Go does when it reads an escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _integer(text: str) -> int | Fraction:
    return int(text) if len(text) <= _LONGEST_INTEGER else Fraction(text)


def _refuse(text: str) -> Any:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_float=Fraction, parse_int=_integer, parse_constant=_refuse
)


_OUTSIDE_STRINGS: Final = re.compile(rb'([^"]*+)(?:"(?:[^"\\]++|\\.)*+"?)?', re.DOTALL)
_BLANKS: Final = re.compile(f"[{_WHITE}]*+")
#: What may stand in a string: any character but these, and escapes.
_ORDINARY: Final = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_DIGITS: Final = re.compile("[0-9]*+")


class _Problem(Exception):
    """What the scanner ran into."""


class _Scanner:
    """Finds the first place where *text* stops being JSON."""

    def __init__(self, text: str) -> None:
        self._text = text + " "  # Go's scanner ends its input with a blank
        self._end = len(text)
        self._at = 0

    def problem(self) -> str:
        """Return what is wrong, "" when nothing is."""
        try:
            self._skip_white()
            self._value()
            self._skip_white()
            if self._at < self._end:
                raise self._unexpected("after top-level value")
        except _Problem as problem:
            return str(problem)
        except RecursionError:
            return TOO_DEEP
        return ""

    def _peek(self) -> str:
        if self._at > self._end:
            raise _Problem("unexpected end of JSON input")
        return self._text[self._at]

    def _skip_white(self) -> None:
        if self._text[self._at] in _WHITE:
            self._at = min(_BLANKS.match(self._text, self._at).end(), self._end)  # type: ignore[union-attr]

    def _need(self) -> str:
        """Return the next character that is not white space; the end of input is its own problem."""
        self._skip_white()
        if self._at >= self._end:
            raise _Problem("unexpected end of JSON input")
        return self._text[self._at]

    def _unexpected(self, context: str) -> _Problem:
        char = self._text[self._at]
        if ord(char) > 0x7F:  # Go looks at one byte
            char = chr(char.encode("utf-8", "replace")[0])
        shown = {"'": "\\'", '"': '"'}.get(char) or quote(char)[1:-1]
        return _Problem(f"invalid character '{shown}' {context}")

    def _value(self) -> None:
        char = self._need()
        if char == "{":
            self._object()
        elif char == "[":
            self._array()
        elif char == '"':
            self._string()
        elif char == "-" or "0" <= char <= "9":
            self._number()
        elif char in "tfn":
            self._literal({"t": "true", "f": "false", "n": "null"}[char])
        else:
            raise self._unexpected("looking for beginning of value")

    def _object(self) -> None:
        self._at += 1
        if self._need() == "}":
            self._at += 1
            return
        while True:
            if self._need() != '"':
                raise self._unexpected("looking for beginning of object key string")
            self._string()
            if self._need() != ":":
                raise self._unexpected("after object key")
            self._at += 1
            self._value()
            char = self._need()
            if char not in ",}":
                raise self._unexpected("after object key:value pair")
            self._at += 1
            if char == "}":
                return

    def _array(self) -> None:
        self._at += 1
        if self._need() == "]":
            self._at += 1
            return
        while True:
            self._value()
            char = self._need()
            if char not in ",]":
                raise self._unexpected("after array element")
            self._at += 1
            if char == "]":
                return

    def _string(self) -> None:
        self._at = _ORDINARY.match(self._text, self._at + 1).end()  # type: ignore[union-attr]
        while (char := self._peek()) != '"':
            if ord(char) < 0x20:
                raise self._unexpected("in string literal")
            self._at += 1
            if char == "\\":
                if self._peek() not in 'bfnrt\\/"u':
                    raise self._unexpected("in string escape code")
                self._at += 1
                if self._text[self._at - 1] == "u":
                    self._hex()
            self._at = _ORDINARY.match(self._text, self._at).end()  # type: ignore[union-attr]
        self._at += 1

    def _hex(self) -> None:
        for _ in range(4):
            if self._peek() not in "0123456789abcdefABCDEF":
                raise self._unexpected("in \\u hexadecimal character escape")
            self._at += 1

    def _literal(self, word: str) -> None:
        for expected in word:
            if self._peek() != expected:
                raise self._unexpected(f"in literal {word} (expecting '{expected}')")
            self._at += 1

    def _digits(self, context: str) -> None:
        if not ("0" <= self._peek() <= "9"):
            raise self._unexpected(context)
        self._at = _DIGITS.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
        if self._peek() == "0":
            self._at += 1
        else:
            self._digits("in numeric literal")
        if self._peek() == ".":
            self._at += 1
            self._digits("after decimal point in numeric literal")
        if self._peek() in "eE":
            self._at += 1
            if self._peek() in "+-":
                self._at += 1
            self._digits("in exponent of numeric literal")
