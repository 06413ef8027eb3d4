"""Merges handwritten and declarative validation errors of resource.k8s.io.

Spec: dra.md 1.15 "Order of errors". A handwritten error that is *covered* is dropped when declarative validation
reports the same type of error at the same path. The two print a path differently when a map key is long, so both are
then reported.
"""

from __future__ import annotations

from collections.abc import Iterable

from weir.validate.field import Errors, FieldError


class Covered(FieldError):
    """A handwritten error that the declared pass usually reports instead."""

    __slots__ = ()


def covered(errors: Iterable[FieldError]) -> Errors:
    """Yield *errors* as ones that a declared error of the same type and place replaces."""
    for error in errors:
        yield Covered(error.type, error.field, error.value, error.detail)


def settle(handwritten: Iterable[FieldError], declared: Iterable[FieldError]) -> Errors:
    """Yield what both passes report: the handwritten errors that stay, then the declared ones.

    >>> from weir.validate.field import required
    >>> [str(error) for error in settle(covered([required("a"), required("b")]), [required("b")])]
    ['a: Required value', 'b: Required value']
    """
    second = list(declared)
    reported = {(error.type, error.field) for error in second}
    for error in handwritten:
        if type(error) is not Covered or (error.type, error.field) not in reported:
            yield error
    yield from second
