"""Validation of FlowSchema and PriorityLevelConfiguration.

Spec: upstream's rules of flowcontrol.apiserver.k8s.io/v1. The referenced priority level need not exist: a dangling
schema is reported in its status. The specs of `catch-all` and `exempt` are fixed, except for the shares of the level
`exempt`. Levels have two passes: handwritten, and declarative (unions and required types).
"""

from __future__ import annotations

import math
from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import validate_meta
from weir.objects import flow_control
from weir.validate.gonames import equal, go_struct
from weir.values.names import check_dns1123_label, check_dns1123_subdomain

HIGHEST_PRECEDENCE: Final = 10_000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_OTHERS: Final = {
    "Group": ("serviceAccount", "user"), "ServiceAccount": ("user", "group"), "User": ("serviceAccount", "group")
}  # fmt: skip
_NAMESPACES: Final = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a FlowSchema."""
    yield from validate_meta(new, old, context)
    if context.subresource != "status":
        name, spec = (new.get("metadata") or {}).get("name") or "", new.get("spec") or {}
        yield from _validate_spec(spec, name)
        fixed = flow_control.mandatory_spec(flow_control.SCHEMA, name)
        if fixed is not None and not equal("FlowSchemaSpec", spec, fixed):
            shown = go_struct("FlowSchemaSpec", spec)
            yield field.invalid("spec", shown, f"spec of '{name}' must equal the fixed value")
    yield from validate_flow_conditions(new)


def validate_flow_conditions(new: Document) -> Errors:
    """Yield what is wrong with the conditions of a schema or a level: each type once."""
    seen: set[str] = set()
    for i, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        kind = condition.get("type") or ""
        yield from field.unique(kind, seen, f"status.conditions[{i}].type", Enum(kind))
        yield from field.present(f"status.conditions[{i}].type", kind)


def _validate_spec(spec: Document, name: str) -> Errors:
    precedence, at = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    yield from field.at_least(at, precedence, 1, "must be a positive value")
    if precedence > HIGHEST_PRECEDENCE:
        yield field.invalid(at, precedence, f"must not be greater than {HIGHEST_PRECEDENCE}")
    if precedence == 1 and name != flow_control.EXEMPT:
        yield field.invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = go_struct("FlowDistinguisherMethod", method)
        yield field.not_supported("spec.distinguisherMethod.type", shown, _METHODS)
    yield from field.required_well_formed(
        "spec.priorityLevelConfiguration.name",
        (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
        check_dns1123_subdomain,
        "must reference a priority level",
    )
    yield from field.each(_validate_rule, spec.get("rules"), "spec.rules")


def _validate_rule(rule: Document, at: str) -> Errors:
    yield from field.each(_validate_subject, rule.get("subjects"), f"{at}.subjects")
    yield from field.present(
        f"{at}.subjects", rule.get("subjects"), "subjects must contain at least one value"
    )
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield field.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty")
    yield from field.each(_validate_resources, rule.get("resourceRules"), f"{at}.resourceRules")
    yield from field.each(_validate_urls, rule.get("nonResourceRules"), f"{at}.nonResourceRules")


def _validate_subject(subject: Document, at: str) -> Errors:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield field.not_supported(f"{at}.kind", kind, _SUBJECTS)
        return
    member = _SUBJECTS[kind]
    found = subject.get(member)
    if found is None:
        yield field.required(f"{at}.{member}", f"{member} is required when subject kind is '{kind}'")
    else:
        yield from _validate_named(found, f"{at}.{member}", account=kind == "ServiceAccount")
    for other in _OTHERS[kind]:
        if subject.get(other) is not None:
            detail = f"{other} is forbidden when subject kind is not '{other[0].upper() + other[1:]}'"
            yield field.forbidden(f"{at}.{other}", detail)


def _validate_named(found: Document, at: str, *, account: bool) -> Errors:
    name = found.get("name") or ""
    if not name:
        yield field.required(f"{at}.name")
    elif account and name != "*":
        yield from field.each_invalid(f"{at}.name", name, check_dns1123_subdomain(name))
    if account:
        yield from field.required_well_formed(
            f"{at}.namespace",
            found.get("namespace") or "",
            check_dns1123_label,
            "must specify namespace for service account",
        )


def _validate_verbs(verbs: list[str], at: str) -> Errors:
    if not verbs:
        yield field.required(f"{at}.verbs", "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _validate_alone(verbs, f"{at}.verbs", "verbs")
    elif not set(verbs) <= set(_VERBS):
        yield field.not_supported(f"{at}.verbs", verbs, _VERBS)


def _validate_alone(values: list[str], at: str, what: str) -> Errors:
    """Yield that a star stands beside something else."""
    if "*" in values and len(values) > 1:
        yield field.invalid(at, values, f"if '*' is present, must not specify other {what}")


def _validate_resources(rule: Document, at: str) -> Errors:
    yield from _validate_verbs(rule.get("verbs") or [], at)
    for name, one, many in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(name) or []
        yield from field.present(f"{at}.{name}", values, f"resource rules must supply at least one {one}")
        yield from _validate_alone(values, f"{at}.{name}", many)
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        yield field.required(f"{at}.namespaces", detail)
    elif "*" in namespaces:
        yield from _validate_alone(namespaces, f"{at}.namespaces", "namespaces")
    else:
        for i, namespace in enumerate(namespaces):
            problems = (_NAMESPACES + problem for problem in check_dns1123_label(namespace))
            yield from field.each_invalid(f"{at}.namespaces[{i}]", namespace, problems)


def _validate_urls(rule: Document, at: str) -> Errors:
    yield from _validate_verbs(rule.get("verbs") or [], at)
    urls = rule.get("nonResourceURLs") or []
    if not urls:
        yield field.required(f"{at}.nonResourceURLs", "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _validate_alone(urls, f"{at}.nonResourceURLs", "non-resource URLs")
    else:
        for i, url in enumerate(urls):
            if problem := _url_problem(url):
                yield field.invalid(f"{at}.nonResourceURLs[{i}]", url, problem)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


# ── PriorityLevelConfiguration ────────────────────────────────────────────────────────────────────────


MOST_QUEUES: Final = 10_000_000
#: Bits of a flow's hash that shuffle sharding can use.
HASH_BITS: Final = 60
_V1BETA3_NOTE: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_LEVEL_TYPES: Final = ("Exempt", "Limited")
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
    yield from _validate_level(spec, name)
    fixed = flow_control.mandatory_spec(flow_control.LEVEL, name)
    if fixed is None:
        return
    shown, but = go_struct("PriorityLevelConfigurationSpec", spec), ""
    if name == flow_control.EXEMPT:
        spec, but = {**spec, "exempt": fixed["exempt"]}, " except the 'spec.exempt' field"
    if not equal("PriorityLevelConfigurationSpec", spec, fixed):
        yield field.invalid("spec", shown, f"spec of '{name}'{but} must equal the fixed value")


def _validate_level(spec: Document, name: str) -> Errors:
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
        yield field.not_supported("spec.type", kind, _LEVEL_TYPES)
    else:
        yield from field.covered([field.required("spec.type")])


def _validate_shares(found: Document, at: str) -> Errors:
    shares = found.get("nominalConcurrencyShares")
    yield from field.at_least(f"{at}.nominalConcurrencyShares", shares, 0, "must be a non-negative integer")


def _validate_lendable(found: Document, at: str) -> Errors:
    percent = found.get("lendablePercent")
    yield from field.in_range(
        f"{at}.lendablePercent", percent, 0, 100, "must be between 0 and 100, inclusive"
    )


def _validate_limited(limited: Document) -> Errors:
    at = "spec.limited"
    yield from _validate_shares(limited, at)
    yield from _validate_response(limited.get("limitResponse") or {}, f"{at}.limitResponse")
    yield from _validate_lendable(limited, at)
    borrowing = limited.get("borrowingLimitPercent")
    yield from field.at_least(
        f"{at}.borrowingLimitPercent", borrowing, 0, "if specified, must be a non-negative integer"
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
