"""Label selectors: text form and object form.

Spec: apiserver.md 9.2 "Selectors": the text form (`a=b,c in (d,e),!f,g>1`) and the object form (matchLabels,
matchExpressions). Messages are those of the real parser. `!=` and `notin` also select objects without the label; `>`
and `<` compare integers and never select other values; `a in ()` is rejected although `a in (,)` means the empty
value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weir.values.names import check_label_key, check_label_value
from weir.values.quoting import quote

_BINARY = "in, notin, =, ==, !=, gt, lt"
_OPERATORS: Final = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
#: Read in one pass of the expression: a selector may have as many words as its line has room for.
_TOKEN: Final = re.compile(r"[=!]=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_END: Final = ""
#: Non-identifiers; `in` and `notin` are identifiers wherever no operator is expected.
_SYMBOLS: Final = frozenset({_END, "(", ")", ",", "!", *_OPERATORS})
_NO_KEY: Final = _SYMBOLS - {"!"}
_ENDS_REQUIREMENT: Final = (_END, ",")


class SelectorError(ValueError):
    """A selector that cannot be read; the message is what the API answers."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str  # in, notin, exists, !, gt, lt
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy this requirement."""
        found = labels.get(self.key)
        match self.operator:
            case "in":
                return found is not None and found in self.values
            case "notin":
                return found is None or found not in self.values
            case "exists":
                return found is not None
            case "!":
                return found is None
        if found is None:
            return False
        have, want = _integer(found), _integer(self.values[0])
        if have is None or want is None:
            return False
        return have > want if self.operator == "gt" else have < want

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "gt":
                return f"{self.key}>{self.values[0]}"
            case "lt":
                return f"{self.key}<{self.values[0]}"
            case "in" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "notin" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none at all selects everything."""

    requirements: tuple[Requirement, ...] = ()
    #: what labels must say, where that is all there is to it, as with the selectors of workloads
    _equal: Mapping[str, str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        equal = {
            one.key: one.values[0]
            for one in self.requirements
            if one.operator == "in" and len(one.values) == 1
        }
        object.__setattr__(self, "_equal", equal if len(equal) == len(self.requirements) else None)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether this selects an object with *labels*.

        >>> parse("tier!=db,env in (qa,prod)").matches({"env": "qa"})
        True
        """
        if self._equal is not None:
            return self._equal.items() <= labels.items()
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()


def _integer(text: str) -> int | None:
    """Return *text* as Go's ParseInt reads it, if it does."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


#: Bounded because evaluation blocks the event loop; clients that need more can list all.
MOST_REQUIREMENTS: Final = 4096


def parse(text: str) -> Selector:
    """Return the selector *text* stands for; raises SelectorError.

    >>> str(parse(" app = web , tier in (b,a), !old"))
    'app=web,tier in (a,b),!old'
    >>> parse("app in (a")
    Traceback (most recent call last):
    ...
    weir.selectors.labels.SelectorError: unable to parse requirement: found '', expected: ',' or ')'
    """
    return Selector(_Parser(text).parse()) if text else EVERYTHING


def from_object(selector: Mapping[str, Any] | None) -> Selector | None:
    """Return a LabelSelector object as a Selector; None selects nothing, `{}` everything.

    >>> str(from_object({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In"}]}))
    'a=b,c in ()'
    """
    if selector is None:
        return None
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    requirements = [
        Requirement(key, "in", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = operators.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(
                f"{quote(expression.get('operator', ''))} is not a valid label selector operator"
            )
        requirements.append(
            Requirement(
                expression.get("key", ""), operator, tuple(sorted(set(expression.get("values") or ())))
            )
        )
    return Selector(tuple(requirements))


def print_selector(selector: Mapping[str, Any] | None) -> str:
    """Return a label selector as Kubernetes' programs print it in messages.

    >>> print_selector({"matchLabels": {"z": "1", "a": "2"}})
    '&LabelSelector{MatchLabels:map[string]string{a: 2,z: 1,},MatchExpressions:[]LabelSelectorRequirement{},}'
    >>> print_selector(None)
    'nil'
    """
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each['key']},Operator:{each['operator']},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


class _Parser:
    """Recursive descent over the words and symbols of a text, with the real parser's sentences."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._at = 0

    def _look(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        token = self._tokens[self._at]
        if token:  # the end is not passed
            self._at += 1
        return token

    def parse(self) -> tuple[Requirement, ...]:
        """Return every requirement of the text."""
        requirements: list[Requirement] = []
        while self._look() != _END:
            if self._look() in _NO_KEY:
                raise SelectorError(f"found '{self._look()}', expected: !, identifier, or 'end of string'")
            if len(requirements) >= MOST_REQUIREMENTS:
                raise SelectorError(f"it has more than {MOST_REQUIREMENTS} requirements")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._take()
            if token == _END:
                break
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if self._look() in _NO_KEY:
                raise SelectorError(f"found '{self._look()}', expected: identifier after ','")
        return tuple(requirements)

    def _requirement(self) -> Requirement:
        key = self._take()
        absent = key == "!"
        if absent:
            key = self._take()
        if key in _SYMBOLS:
            raise SelectorError(f"found '{key}', expected: identifier")
        if problems := check_label_key(key):
            raise SelectorError(f"<nil>: Invalid value: {quote(key)}: {'; '.join(problems)}")
        if absent or self._look() in _ENDS_REQUIREMENT:
            return Requirement(key, "!" if absent else "exists")
        token = self._take()
        if token in ("in", "notin"):
            return _checked(key, token, self._values())
        if token not in _OPERATORS:
            raise SelectorError(f"found '{token}', expected: {_BINARY}")
        return _checked(key, _OPERATORS[token], self._exact())

    def _values(self) -> set[str]:
        token = self._take()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        token = self._look()
        if token == ")":
            self._take()
            return {""}  # as upstream reads it: no value is the empty value
        if token != "," and token in _SYMBOLS:
            raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
        found = self._identifiers()
        self._take()
        return found

    def _identifiers(self) -> set[str]:
        """Return the values up to the closing parenthesis, which is left."""
        values: set[str] = set()
        while True:
            token = self._take()
            if token not in _SYMBOLS:
                values.add(token)
                following = self._look()
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{following}', expected: ',' or ')'")
            elif token == ",":
                if not values:
                    values.add("")
                following = self._look()
                if following == ")":
                    values.add("")
                    return values
                if following == ",":
                    self._take()
                    values.add("")
            else:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")

    def _exact(self) -> set[str]:
        if self._look() in _ENDS_REQUIREMENT:
            return {""}
        token = self._take()
        if token in _SYMBOLS:
            raise SelectorError(f"found '{token}', expected: identifier")
        return {token}


def _checked(key: str, operator: str, values: set[str]) -> Requirement:
    """Return the requirement, or raise what is wrong with its values."""
    ordered = tuple(sorted(values))
    problems: list[str] = []
    if operator in ("in", "notin") and not ordered:
        problems.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in ("gt", "lt") and _integer(ordered[0]) is None:
        problems.append(
            f"values[0]: Invalid value: {quote(ordered[0])}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for index, value in enumerate(ordered):
        if wrong := check_label_value(value):
            problems.append(f"values[{index}][{key}]: Invalid value: {quote(value)}: {'; '.join(wrong)}")
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, ordered)
