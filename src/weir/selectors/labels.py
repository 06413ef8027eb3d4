"""Does this label selector select these labels?

Spec: apiserver.md 9.2 "Selectors": the text form (`a=b,c in (d,e),!f,g>1`) and the object form (matchLabels,
matchExpressions). Messages are those of the real parser, since clients show them.
What surprises: `!=` and `notin` also select objects without the label; `>` and `<` compare integers and never
select a value that is not one; `a in ()` is refused although `a in (,)` means the empty value.
Not here: node selectors with their semver operators (weir.selectors.node), field selectors (.fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weir.values.names import check_label_key, check_label_value
from weir.values.quoting import quote

__all__ = ["EVERYTHING", "Requirement", "Selector", "SelectorError", "from_object", "parse", "print_selector"]

_BINARY = "in, notin, =, ==, !=, gt, lt"
_SPECIAL = frozenset("=!(),<>")
_SYMBOLS = frozenset({")", ",", "!", "==", "=", ">", "<", "!=", "("})
_END = ""


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


#: Whoever needs more lists all; each costs time before anybody else has a turn.
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
    found = [
        Requirement(key, "in", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = operators.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(
                f"{quote(expression.get('operator', ''))} is not a valid label selector operator"
            )
        found.append(
            Requirement(
                expression.get("key", ""), operator, tuple(sorted(set(expression.get("values") or ())))
            )
        )
    return Selector(tuple(found))


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


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return (kind, literal) pairs: kind is the symbol itself, `in`, `notin`, `id`, `error` or the end."""
    found: list[tuple[str, str]] = []
    at, size = 0, len(text)
    while at < size:
        char = text[at]
        if char in " \t\r\n":
            at += 1
        elif char in _SPECIAL:
            end, literal, last = at, "", ""
            while end < size and text[end] in _SPECIAL:
                literal += text[end]
                if literal in _SYMBOLS:
                    last = literal
                elif last:
                    break
                end += 1
            if last:
                found.append((last, last))
                at += len(last)
            else:
                found.append(("error", f"error expected: keyword found '{literal}'"))
                at = end
        else:
            end = at
            while end < size and text[end] not in _SPECIAL and text[end] not in " \t\r\n":
                end += 1
            word = text[at:end]
            found.append((word if word in ("in", "notin") else "id", word))
            at = end
    found.append((_END, ""))
    return found


class _Parser:
    """Recursive descent over the tokens, with the real parser's sentences."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _look(self, *, operator: bool = False) -> tuple[str, str]:
        kind, literal = self._tokens[min(self._at, len(self._tokens) - 1)]
        return ("id", literal) if kind in ("in", "notin") and not operator else (kind, literal)

    def _take(self, *, operator: bool = False) -> tuple[str, str]:
        token = self._look(operator=operator)
        self._at += 1
        return token

    def parse(self) -> tuple[Requirement, ...]:
        """Return every requirement of the text."""
        found: list[Requirement] = []
        while True:
            kind, literal = self._look()
            if kind == _END:
                return tuple(found)
            if kind not in ("id", "!"):
                raise SelectorError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            if len(found) >= MOST_REQUIREMENTS:
                raise SelectorError(f"it has more than {MOST_REQUIREMENTS} requirements")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, literal = self._take()
            if kind == _END:
                return tuple(found)
            if kind != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self._look()
            if kind not in ("id", "!"):
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, literal = self._take()
        absent = kind == "!"
        if absent:
            kind, literal = self._take()
        if kind != "id":
            raise SelectorError(f"found '{literal}', expected: identifier")
        key = literal
        if problems := check_label_key(key):
            raise SelectorError(f"<nil>: Invalid value: {quote(key)}: {'; '.join(problems)}")
        if self._look()[0] in (_END, ",") or absent:
            return Requirement(key, "!" if absent else "exists")
        kind, literal = self._take(operator=True)
        if kind in ("in", "notin"):
            return _checked(key, kind, self._values())
        operators = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
        if kind not in operators:
            raise SelectorError(f"found '{literal}', expected: {_BINARY}")
        return _checked(key, operators[kind], self._exact())

    def _values(self) -> set[str]:
        kind, literal = self._take()
        if kind != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self._look()
        if kind == ")":
            self._take()
            return {""}  # as upstream reads it: no value is the empty value
        if kind not in ("id", ","):
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        found = self._identifiers()
        if self._take()[0] != ")":
            raise SelectorError(f"found '{literal}', expected: ')'")
        return found

    def _identifiers(self) -> set[str]:
        found: set[str] = set()
        while True:
            kind, literal = self._take()
            if kind == "id":
                found.add(literal)
                kind, literal = self._look()
                if kind == ")":
                    return found
                if kind != ",":
                    raise SelectorError(f"found '{literal}', expected: ',' or ')'")
            elif kind == ",":
                if not found:
                    found.add("")
                following = self._look()[0]
                if following == ")":
                    found.add("")
                    return found
                if following == ",":
                    self._take()
                    found.add("")
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")

    def _exact(self) -> set[str]:
        if self._look()[0] in (_END, ","):
            return {""}
        kind, literal = self._take()
        if kind != "id":
            raise SelectorError(f"found '{literal}', expected: identifier")
        return {literal}


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
