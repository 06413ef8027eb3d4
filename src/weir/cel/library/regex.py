"""Regular expressions: `matches`, `find`, `findAll`, with RE2's syntax and in linear time.

Spec: cel.md 10.3. A literal pattern is compiled when the program is built. `matches` searches
anywhere, `$` means the very end of the text, `\\d` and `\\w` are ASCII only; an empty match right behind another
match is not counted by `findAll`.
Messages are those of Go's regexp; RE2's own are translated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import re2

from weir.cel import costs
from weir.cel.env import UNKNOWN, Library, Specialized
from weir.cel.errors import CostLimitExceeded, EvaluationError
from weir.cel.library.declare import functions, method, plain
from weir.cel.library.regex_runs import compile_steps
from weir.cel.library.simple_regex import translate
from weir.cel.types import BOOL, INT, STRING, list_of
from weir.cel.values import Value
from weir.cel.work import current, spend

#: RE2's words → Go's words.
_GO_WORDS: Final = {
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
    "invalid named capture group": "invalid named capture",
}
#: Bytes RE2 may take for a program and its automata: 20,000 instructions. Its own default is sixteen times as much.
_MEMORY: Final = 1 << 19
#: Units of compiling: for each character, for a class of Unicode, for an instruction, and for a program that was too
#: large in the end.
_PER_CHARACTER: Final = 6
#: Steps through optional parts for a unit (weir.cel.library.regex_runs).
_COMPILE_STEPS_PER_UNIT: Final = 128
_PER_CLASS: Final = 4_000
_PER_INSTRUCTION: Final = 8
_TOO_LARGE: Final = 100_000
_TOO_LARGE_WORDS: Final = "error parsing regexp: expression too large"
#: Bytes times instructions for a unit: RE2 simulates all instructions for every byte when its automaton has too many
#: states.
_STEPS_PER_UNIT: Final = 10
_UNANCHORED: Final = re2._Anchor.UNANCHORED


class RegexError(ValueError):
    """The pattern is not a regular expression; the message is Go's."""


class Regex:
    """A compiled pattern. `test(text)` is truthy when it matches somewhere; `size` is the length of its program."""

    __slots__ = ("_match", "bytes", "size", "test")

    def __init__(self, pattern: str) -> None:
        program = _compile(pattern)
        self._match: Callable[..., Any] = program.Match
        self.size: Final = max(program.ProgramSize(), program.ReverseProgramSize())
        self.test: Callable[[str], object] = _tester(pattern, self._match, self.size)
        #: memory it takes at most, with the automata that RE2 builds while it searches
        self.bytes: Final = _MEMORY // 2 if translate(pattern) is None else 4_096 + 64 * len(pattern)

    def find(self, text: str) -> str:
        """Return the first match, or ""."""
        octets = text.encode()
        spend(len(octets) * self.size // _STEPS_PER_UNIT)
        start, end = self._match(_UNANCHORED, octets, 0, len(octets))[0]
        return "" if start < 0 else octets[start:end].decode()

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Return the matches from left to right that do not overlap, at most *limit* (negative: all)."""
        octets = text.encode()
        found: list[str] = []
        position, last_end = 0, -1
        while position <= len(octets) and (limit < 0 or len(found) < limit):
            # Whether a match reads a byte or all the rest is not known before.
            spend(12 + (len(octets) - position) * self.size // _STEPS_PER_UNIT)
            start, end = self._match(_UNANCHORED, octets, position, len(octets))[0]
            if start < 0:
                break
            if end == position:  # an empty match here
                if start != last_end:
                    found.append("")
                position += 1
                while position < len(octets) and octets[position] & 0xC0 == 0x80:
                    position += 1
            else:
                found.append(octets[start:end].decode())
                position = end
            last_end = end
        return found


def _tester(pattern: str, match: Callable[..., Any], size: int) -> Callable[[str], object]:
    if (plain_pattern := translate(pattern)) is not None:
        compiled = re.compile(plain_pattern)
        if plain_pattern.startswith(r"\A"):
            return _paying(compiled.match, 1)
        return _paying(compiled.search, 1 + size)  # an attempt at each place, each as long as the pattern

    def test(text: str) -> bool:
        octets = text.encode()
        spend(len(octets) * size // _STEPS_PER_UNIT)
        return bool(match(_UNANCHORED, octets, 0, len(octets))[0][0] >= 0)

    return test


def _paying(search: Callable[[str], object], steps: int) -> Callable[[str], object]:
    """Return *search*, which charges long texts with *steps* for each character."""

    def test(text: str) -> object:
        if len(text) > 64:
            spend(len(text) * steps // _STEPS_PER_UNIT)
        return search(text)

    return test


def _compile(pattern: str) -> Any:
    """Return RE2's program of *pattern*."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    if _uses_any_byte(pattern):
        raise RegexError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        compiled = re2._Regexp(pattern, options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        raise RegexError(_in_go_words(error, pattern)) from None
    return compiled._regexp


def _uses_any_byte(pattern: str) -> bool:
    """Return whether the pattern holds `\\C`, which only RE2 in C++ knows."""
    return any(escape == "\\C" for escape in re.findall(r"\\.", pattern))


def _in_go_words(error: Exception, pattern: str) -> str:
    message = error.args[0] if error.args else b""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    words, _, argument = text.partition(": ")
    if words == "trailing \\":
        argument = ""
    elif words == "invalid perl operator" and argument.startswith("(?<"):
        # Go knows no look-behind and takes it for the name of a group, up to the next `>`.
        rest = pattern[pattern.find(argument) :]
        words, argument = "invalid named capture group", rest[: rest.find(">") + 1] or rest
    if words not in _GO_WORDS:
        return _TOO_LARGE_WORDS
    return f"error parsing regexp: {_GO_WORDS[words]}: `{argument}`"


@lru_cache(maxsize=64)
def compile_regex(pattern: str) -> Regex:
    """Return *pattern* compiled; the caller has charged for it.

    >>> bool(compile_regex("^a+$").test("aaa")), compile_regex("b*").find_all("abc")
    (True, ['', 'b', ''])
    >>> compile_regex("[")
    Traceback (most recent call last):
    weir.cel.library.regex.RegexError: error parsing regexp: missing closing ]: `[`
    """
    return Regex(pattern)


def paid_regex(pattern: str) -> Regex:
    """Return *pattern* compiled; an evaluation pays for it once, whether or not another one had it compiled."""
    patterns = current().patterns
    regex: Regex | None = patterns.get(pattern)
    if regex is None:
        classes = pattern.count("\\p") + pattern.count("\\P")
        spend(300 + len(pattern) * _PER_CHARACTER + classes * _PER_CLASS)
        spend(compile_steps(pattern) // _COMPILE_STEPS_PER_UNIT)
        try:
            regex = compile_regex(pattern)
        except RegexError as error:
            if str(error) == _TOO_LARGE_WORDS:
                spend(_TOO_LARGE)
            raise
        spend(regex.size * _PER_INSTRUCTION)
        patterns[pattern] = regex
    return regex


def _matches(text: str, pattern: str) -> bool:
    try:
        return bool(paid_regex(pattern).test(text))
    except RegexError as error:
        raise EvaluationError(str(error)) from None


def _find(text: str, pattern: str) -> str:
    return _computed(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _computed(pattern).find_all(text, limit)


def _computed(pattern: str) -> Regex:
    try:
        return paid_regex(pattern)
    except RegexError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _literal(args: Sequence[Value]) -> Regex | None:
    """Return the compiled second argument if it is a constant; a bad one is a program error."""
    if args[1] is UNKNOWN or args[1].__class__ is not str:
        return None
    try:
        return paid_regex(args[1])
    except CostLimitExceeded:  # building a program has a bound as well
        raise EvaluationError(_TOO_LARGE_WORDS) from None
    except RegexError as error:
        raise EvaluationError(str(error)) from None


def _special_matches(args: Sequence[Value]) -> Specialized | None:
    regex = _literal(args)
    # Truth is asked for in the expression itself: a call less on a path every taint takes.
    return None if regex is None else Specialized(regex.test, inline="not not {f}({0})")


def _special_find(args: Sequence[Value]) -> Specialized | None:
    regex = _literal(args)
    return None if regex is None else Specialized(regex.find)


def _special_find_all(args: Sequence[Value]) -> Specialized | None:
    regex = _literal(args)
    return None if regex is None else Specialized(regex.find_all)


_BOTH: Final = (STRING, STRING)
_STRINGS: Final = list_of(STRING)

#: `matches` belongs to the standard library.
MATCHES: Final = functions(
    plain("matches", "matches", _BOTH, BOOL, _matches, costs.REGEX, fails=True, specialize=_special_matches),
    method("matches", "matches_string", _BOTH, BOOL, _matches, costs.REGEX, fails=True, specialize=_special_matches),
)  # fmt: skip

LIBRARY: Final = Library(
    "regex",
    functions(
        method("find", "string_find_string", _BOTH, STRING, _find, costs.REGEX_FIND, fails=True,
               specialize=_special_find),
        method("findAll", "string_find_all_string", _BOTH, _STRINGS, _find_all, costs.REGEX_FIND, fails=True,
               specialize=_special_find_all),
        method("findAll", "string_find_all_string_int", (*_BOTH, INT), _STRINGS, _find_all, costs.REGEX_FIND,
               fails=True, specialize=_special_find_all),
    ),
)  # fmt: skip
