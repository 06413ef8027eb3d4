"""Field errors in the API server's form: type, path, bad value, detail.

Spec: core.md 2.1 "Error model". A path is plain text (`spec.tolerations[0].key`), so building one is cheap. How a
value prints depends on its Go type: strings are quoted like `%q`; enums, lists, maps and structs are JSON, structs
with their Go names (weir.validate.gonames). Spec: dra.md 1.15 "Order of errors", for handwritten and declared errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from weir.gates import Gates
from weir.values.names import byte_length
from weir.values.quoting import compact_json, quote


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances of one write."""

    gates: Gates
    subresource: str = ""
    namespaced: bool = True
    raw: bool = False  #: straight from a file: absent fields mean their default, the namespace may be absent
    #: written in resource.k8s.io/v1alpha4, which takes names v1 does not, or about what was written so
    relaxed: bool = False


@lru_cache(maxsize=256)
def context_for(
    gates: Gates, subresource: str, namespaced: bool, raw: bool, relaxed: bool = False
) -> Context:
    """Return the context, shared by all writes like this one."""
    return Context(gates, subresource, namespaced, raw, relaxed)


#: A JSON object as decoded: what every validator reads.
Document = dict[str, Any]
Errors = Iterator["FieldError"]

INVALID: Final = "FieldValueInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
REQUIRED: Final = "FieldValueRequired"
DUPLICATE: Final = "FieldValueDuplicate"
FORBIDDEN: Final = "FieldValueForbidden"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
NOT_FOUND: Final = "FieldValueNotFound"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
INTERNAL: Final = "InternalError"
#: Not a cause of the API server's: it refuses such a body before it validates.
UNKNOWN: Final = "UnknownField"

_PHRASE: Final = {
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    REQUIRED: "Required value",
    DUPLICATE: "Duplicate value",
    FORBIDDEN: "Forbidden",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    NOT_FOUND: "Not found",
    TYPE_INVALID: "Invalid value",
    INTERNAL: "Internal error",
    UNKNOWN: "strict decoding error: unknown field",
}
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG, INTERNAL, UNKNOWN})


class Enum(str):
    """A string that Go holds in a named type (an operator, an effect): it prints as JSON, not like `%q`."""

    __slots__ = ()


class Bare(str):
    """Text that prints as it stands: a few upstream checks pass an error where the value belongs."""

    __slots__ = ()


#: A value that is there but not printed: an object or list that breaks a rule about the whole of it.
OMITTED: Final = object()

#: of details of all errors together, since each error may list many names
MOST_CHARACTERS: Final = 1 << 20


class FieldError:
    """One broken rule: which field, what was there, and what should have been.

    >>> print(invalid("spec.tolerations[0].value", "0950", "must be a valid decimal integer in canonical form"))
    spec.tolerations[0].value: Invalid value: "0950": must be a valid decimal integer in canonical form
    """

    __slots__ = ("detail", "field", "type", "value")

    def __init__(self, type: str, field: str, value: Any, detail: str) -> None:
        self.type, self.field, self.value, self.detail = type, field, value, detail

    @property
    def body(self) -> str:
        """The message without the path: what a Status cause carries."""
        phrase = _PHRASE[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            phrase = f"{phrase}: {show(self.value)}"
        return f"{phrase}: {self.detail}" if self.detail else phrase

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    def __repr__(self) -> str:
        return f"FieldError({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldError) and (self.type, str(self)) == (other.type, str(other))

    def __hash__(self) -> int:
        return hash((self.type, str(self)))


class Tolerated(FieldError):
    """An error that an update did not introduce: reported as a warning."""

    __slots__ = ()


def within_reason(errors: Errors) -> list[FieldError]:
    """Return the errors, or as many as have `MOST_CHARACTERS` of detail: some name every other item of a long list."""
    found: list[FieldError] = []
    left = MOST_CHARACTERS
    for error in errors:
        found.append(error)
        left -= len(error.detail)
        if left < 0:
            break
    return found


def show(value: Any) -> str:
    """Return *value* as the API server prints a bad value.

    >>> show("a<b"), show(Enum("a<b")), show(None), show(True)
    ('"a<b"', '"a\\\\u003cb"', 'null', 'true')
    """
    if type(value) is str:
        return quote(value)
    return str(value) if type(value) is Bare else compact_json(value)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return that *value* breaks a rule."""
    return FieldError(INVALID, field, value, detail)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return that the enum *value* is none of *supported*, which print in the order given."""
    listed = ", ".join(quote(each) for each in supported)
    shown = Enum(value) if type(value) is str else value
    return FieldError(NOT_SUPPORTED, field, shown, f"supported values: {listed}")


def required(field: str, detail: str = "") -> FieldError:
    """Return that the field must be set."""
    return FieldError(REQUIRED, field, "", detail)


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    """Return that *value* was there before."""
    return FieldError(DUPLICATE, field, value, detail)


def forbidden(field: str, detail: str) -> FieldError:
    """Return that the field may not be set, or not be changed."""
    return FieldError(FORBIDDEN, field, "", detail)


def too_long(field: str, limit: int, value: Any = "") -> FieldError:
    """Return that the text is longer than *limit* bytes; the text itself is not printed."""
    return FieldError(TOO_LONG, field, value, f"may not be more than {limit} byte{'' if limit == 1 else 's'}")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    """Return that the list has more than *limit* entries."""
    return FieldError(TOO_MANY, field, actual, f"must have at most {limit} item{'' if limit == 1 else 's'}")


def not_found(field: str, value: Any, detail: str = "") -> FieldError:
    """Return that *value* names something that is not there."""
    return FieldError(NOT_FOUND, field, value, detail)


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return that *value* has another JSON type than the field."""
    return FieldError(TYPE_INVALID, field, value, detail)


def internal(field: str, text: str) -> FieldError:
    """Return that checking the field failed by itself."""
    return FieldError(INTERNAL, field, "", text)


def unknown(field: str, hint: str = "") -> FieldError:
    """Return that the kind has no such field, with the one that was meant."""
    return FieldError(UNKNOWN, field, "", hint)


def each_invalid(field: str, value: Any, messages: Iterable[str]) -> Errors:
    """Yield one Invalid for each of *messages*."""
    for message in messages:
        yield FieldError(INVALID, field, value, message)


# ── rules that many fields share ──────────────────────────────────────────────────────────────────


def present(at: str, value: Any, detail: str = "") -> Errors:
    """Yield that a value is missing or empty."""
    if not value:
        yield required(at, detail)


def one_of(at: str, value: Any, allowed: Collection[str]) -> Errors:
    """Yield that a value is not allowed; None is absent, which is fine."""
    if value is not None and value not in allowed:
        yield not_supported(at, value, allowed)


def required_one_of(at: str, value: Any, allowed: Collection[str], detail: str = "") -> Errors:
    """Yield that a value is missing, with *detail*, or not allowed."""
    if not value:
        yield required(at, detail)
    elif value not in allowed:
        yield not_supported(at, value, allowed)


def well_formed(at: str, value: Any, check: Callable[[str], Iterable[str]]) -> Errors:
    """Yield what *check* finds wrong with a text; None is absent, which is fine."""
    if value is not None:
        yield from each_invalid(at, value, check(value))


def required_well_formed(
    at: str, value: Any, check: Callable[[str], Iterable[str]], detail: str = ""
) -> Errors:
    """Yield that a text is missing, with *detail*, or what *check* finds wrong with it."""
    if not value:
        yield required(at, detail)
    else:
        yield from each_invalid(at, value, check(value))


def at_least(at: str, value: int | None, low: int, detail: str) -> Errors:
    """Yield that a number is below *low*; None is absent, which is fine."""
    if value is not None and value < low:
        yield invalid(at, value, detail)


def in_range(at: str, value: int | None, low: int, high: int, detail: str) -> Errors:
    """Yield that a number is out of range; None is absent, which is fine."""
    if value is not None and not low <= value <= high:
        yield invalid(at, value, detail)


def short_enough(at: str, text: str, limit: int) -> Errors:
    """Yield that a text has more than *limit* bytes."""
    if byte_length(text) > limit:
        yield too_long(at, limit)


def at_most(at: str, items: Sized, limit: int) -> Errors:
    """Yield that a list or map has more than *limit* entries."""
    if len(items) > limit:
        yield too_many(at, len(items), limit)


def each(
    check: Callable[..., Errors], items: Iterable[Any] | None, at: str, /, *args: Any, **options: Any
) -> Errors:
    """Yield what *check* finds wrong with each of *items*, given the item, its path and *args*."""
    for i, item in enumerate(items or ()):
        yield from check(item, f"{at}[{i}]", *args, **options)


def each_well_formed(at: str, items: Iterable[str] | None, check: Callable[[str], Iterable[str]]) -> Errors:
    """Yield what *check* finds wrong with each text of a list."""
    for i, text in enumerate(items or ()):
        yield from each_invalid(f"{at}[{i}]", text, check(text))


def unique(key: Any, seen: set[Any], at: str, shown: Any = None) -> Errors:
    """Yield that *key* is one of *seen*, printed as *shown* if given; it is one of them from now on."""
    if key in seen:
        yield duplicate(at, key if shown is None else shown)
    seen.add(key)


class Covered(FieldError):
    """A handwritten error that the declared pass usually reports instead."""

    __slots__ = ()


def covered(errors: Iterable[FieldError]) -> Errors:
    """Yield *errors* as ones that a declared error of the same type and place replaces."""
    for error in errors:
        yield Covered(error.type, error.field, error.value, error.detail)


def settle(handwritten: Iterable[FieldError], declared: Iterable[FieldError]) -> Errors:
    """Yield what both passes report: the handwritten errors that stay, then the declared ones.

    A *covered* one is dropped when the declared pass reports the same type of error at the same path. The two print a
    path differently when a map key is long, so both are then reported.

    >>> from weir.fields.field import required
    >>> [str(error) for error in settle(covered([required("a"), required("b")]), [required("b")])]
    ['a: Required value', 'b: Required value']
    """
    second = list(declared)
    reported = {(error.type, error.field) for error in second}
    for error in handwritten:
        if type(error) is not Covered or (error.type, error.field) not in reported:
            yield error
    yield from second
