"""Validation of PriorityLevelConfiguration.

Spec: upstream's rules of flowcontrol.apiserver.k8s.io/v1. Two passes: handwritten, and declarative (unions and
required types). The spec of `catch-all` is fixed, and that of `exempt` except for its shares.
"""

from __future__ import annotations

import math
from typing import Final

from weir.objects import flow_control
from weir.validate import field
from weir.validate.field import Context, Document, Enum, Errors
from weir.validate.flowcontrol.flow_schema import validate_flow_conditions
from weir.validate.gonames import equal, go_struct
from weir.validate.meta import validate_meta

MOST_QUEUES: Final = 10_000_000
#: Bits of a flow's hash that shuffle sharding can use.
HASH_BITS: Final = 60
_V1BETA3_NOTE: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_TYPES: Final = ("Exempt", "Limited")
_RESPONSES: Final = ("Queue", "Reject")


def validate_priority_level_configuration(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PriorityLevelConfiguration."""
    yield from validate_meta(new, old, context)
    if context.subresource != "status":
        metadata, spec = new.get("metadata") or {}, new.get("spec") or {}
        before = None if old is None else old.get("spec") or {}
        yield from field.settle(_by_hand(metadata, spec), _declared(spec, before))
    yield from validate_flow_conditions(new)


def _by_hand(metadata: Document, spec: Document) -> Errors:
    if _V1BETA3_NOTE in (metadata.get("annotations") or {}):
        yield field.forbidden("metadata.annotations", f"annotation '{_V1BETA3_NOTE}' is forbidden")
    name = metadata.get("name") or ""
    yield from _validate_spec(spec, name)
    fixed = flow_control.mandatory_spec(flow_control.LEVEL, name)
    if fixed is None:
        return
    shown, but = go_struct("PriorityLevelConfigurationSpec", spec), ""
    if name == flow_control.EXEMPT:
        spec, but = {**spec, "exempt": fixed["exempt"]}, " except the 'spec.exempt' field"
    if not equal("PriorityLevelConfigurationSpec", spec, fixed):
        yield field.invalid("spec", shown, f"spec of '{name}'{but} must equal the fixed value")


def _validate_spec(spec: Document, name: str) -> Errors:
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (name == flow_control.EXEMPT) != (kind == "Exempt"):
        yield field.invalid("spec.type", Enum(kind), "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if limited is not None:
            yield from field.covered(
                [field.forbidden("spec.limited", "must be nil if the type is not Limited")]
            )
        if exempt is not None:
            yield from _validate_shares(exempt, "spec.exempt")
            yield from _validate_lendable(exempt, "spec.exempt")
    elif kind == "Limited":
        if exempt is not None:
            yield from field.covered([field.forbidden("spec.exempt", "must be nil if the type is Limited")])
        if limited is None:
            yield from field.covered(
                [field.required("spec.limited", "must not be empty when type is Limited")]
            )
        else:
            yield from _validate_limited(limited)
    elif kind:
        yield field.not_supported("spec.type", kind, _TYPES)
    else:
        yield from field.covered([field.required("spec.type")])


def _validate_shares(found: Document, at: str) -> Errors:
    shares = found.get("nominalConcurrencyShares")
    if shares is not None and shares < 0:
        yield field.invalid(f"{at}.nominalConcurrencyShares", shares, "must be a non-negative integer")


def _validate_lendable(found: Document, at: str) -> Errors:
    percent = found.get("lendablePercent")
    if percent is not None and not 0 <= percent <= 100:
        yield field.invalid(f"{at}.lendablePercent", percent, "must be between 0 and 100, inclusive")


def _validate_limited(limited: Document) -> Errors:
    at = "spec.limited"
    yield from _validate_shares(limited, at)
    yield from _validate_response(limited.get("limitResponse") or {}, f"{at}.limitResponse")
    yield from _validate_lendable(limited, at)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        yield field.invalid(
            f"{at}.borrowingLimitPercent", borrowing, "if specified, must be a non-negative integer"
        )


def _validate_response(response: Document, at: str) -> Errors:
    kind, queuing = response.get("type") or "", response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            yield from field.covered([field.forbidden(f"{at}.queuing", detail)])
    elif kind == "Queue":
        if queuing is None:
            detail = "must not be empty if limited.limitResponse.type is Limited"
            yield from field.covered([field.required(f"{at}.queuing", detail)])
        else:
            yield from _validate_queuing(queuing, f"{at}.queuing")
    elif kind:
        yield field.not_supported(f"{at}.type", kind, _RESPONSES)
    else:
        yield from field.covered([field.required(f"{at}.type")])


def _validate_queuing(queuing: Document, at: str) -> Errors:
    length, queues, hand = (queuing.get(name) or 0 for name in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield field.invalid(f"{at}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield field.invalid(f"{at}.queues", queues, "must be positive")
    elif queues > MOST_QUEUES:
        yield field.invalid(f"{at}.queues", queues, f"must not be greater than {MOST_QUEUES}")
    if hand <= 0:
        yield field.invalid(f"{at}.handSize", hand, "must be positive")
    elif hand > queues:
        yield field.invalid(f"{at}.handSize", hand, f"should not be greater than queues ({queues})")
    elif entropy_bits(queues, hand) > HASH_BITS:
        needed = f"required entropy bits of deckSize {queues} and handSize {hand}"
        yield field.invalid(f"{at}.handSize", hand, f"{needed} should not be greater than {HASH_BITS}")


def entropy_bits(queues: int, hand: int) -> int:
    """Return how many bits of a hash it takes to deal *hand* of *queues*.

    >>> entropy_bits(128, 6), entropy_bits(512, 7)
    (42, 63)
    """
    return math.ceil(math.log2(queues) * hand)


def _declared(spec: Document, before: Document | None) -> Errors:
    """What the rules declared beside the fields say; they leave what did not change alone."""
    old = before or {}
    kind, limited = spec.get("type") or "", spec.get("limited")
    same_kind = before is not None and (old.get("type") or "") == kind
    yield from _declared_member(
        "spec.exempt", spec.get("exempt"), old.get("exempt"), kind == "Exempt", same_kind, False
    )
    yield from _declared_member("spec.limited", limited, old.get("limited"), kind == "Limited", same_kind)
    if not kind and not same_kind:
        yield field.required("spec.type")
    if limited is None:
        return
    response = limited.get("limitResponse") or {}
    then = (old.get("limited") or {}).get("limitResponse")
    answer = response.get("type") or ""
    same_answer = then is not None and (then.get("type") or "") == answer
    at = "spec.limited.limitResponse"
    queuing, queued = response.get("queuing"), (then or {}).get("queuing")
    yield from _declared_member(f"{at}.queuing", queuing, queued, answer == "Queue", same_answer)
    if not answer and not same_answer:
        yield field.required(f"{at}.type")


def _declared_member(
    at: str, found: Document | None, before: Document | None, chosen: bool, same: bool, needed: bool = True
) -> Errors:
    """Yield that the member of a union is there though not chosen, or the other way round."""
    if same and (found is None) == (before is None):
        return
    if found is not None and not chosen:
        yield field.forbidden(at, "")
    elif found is None and chosen and needed:
        yield field.required(at)
