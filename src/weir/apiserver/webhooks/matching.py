"""Does this webhook want to see this write?

Spec: admissionregistration.k8s.io/v1. A hook is asked in the order upstream asks: namespace selector, object
selector, rules, match conditions. A webhook configuration is never shown to webhooks (a broken one could not be
repaired), and neither are reviews. Every kind is served in one version here, so `matchPolicy: Equivalent` finds
nothing that `Exact` does not; the two event groups are matched by their own names only.

Not here: match conditions (weir.apiserver.webhooks.match_conditions), calling (weir.apiserver.webhooks.client), the
order of calls (weir.apiserver.webhooks.dispatch).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.apiserver.admission.attributes import CREATE, NAMESPACE, UPDATE, Attributes, Reader
from weir.apiserver.webhooks.match_conditions import Decide, conditions_hold
from weir.errors import InternalError, NotFound
from weir.selectors import labels

Document = Mapping[str, Any]
EXEMPT_GROUPS = frozenset({"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"})


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    index: int
    wire: Document

    @property
    def name(self) -> str:
        return str(self.wire.get("name", ""))

    @property
    def uid(self) -> tuple[str, int]:
        """What distinguishes this hook from all others, also from one of the same name."""
        return self.configuration, self.index

    @property
    def ignores_failures(self) -> bool:
        return self.wire.get("failurePolicy") == "Ignore"

    @property
    def seconds(self) -> int:
        return int(self.wire.get("timeoutSeconds") or 10)


def hooks_of(configurations: Iterable[Document]) -> tuple[Hook, ...]:
    """Return every hook in calling order: configurations by name, hooks as written."""
    ordered = sorted(configurations, key=lambda one: str(one["metadata"]["name"]))
    return tuple(
        Hook(one["metadata"]["name"], index, wire)
        for one in ordered
        for index, wire in enumerate(one.get("webhooks") or ())
    )


def wants(hook: Hook, a: Attributes, reader: Reader, decide: Decide | None = None) -> bool:
    """Return whether *hook* is to be called; raises when that cannot be decided.

    *decide* answers what match conditions ask about rights.
    """
    return (
        rules_match(hook, a)
        and _namespace_matches(hook, a, reader)
        and _object_matches(hook, a)
        and _conditions_hold(hook, a, decide)
    )


def _conditions_hold(hook: Hook, a: Attributes, decide: Decide | None) -> bool:
    conditions = hook.wire.get("matchConditions")
    if not conditions:
        return True
    return conditions_hold(conditions, a, decide, ignore_failures=hook.ignores_failures)


def rules_match(hook: Hook, a: Attributes) -> bool:
    """Return whether the hook's rules cover the write: the part that does not depend on the object."""
    return any(rule_matches(rule, a) for rule in hook.wire.get("rules") or ())


def rule_matches(rule: Document, a: Attributes) -> bool:
    """Return whether one rule covers the write; `*` as resource covers no subresources, `*/*` everything."""
    is_namespace = a.kind is NAMESPACE
    scope = rule.get("scope") or "*"
    if scope == "Namespaced" and (is_namespace or not a.namespace):
        return False
    if scope == "Cluster" and a.namespace and not is_namespace:
        return False
    return (
        _has(rule.get("operations"), a.operation)
        and _has(rule.get("apiGroups"), a.kind.group)
        and _has(rule.get("apiVersions"), a.kind.version)
        and any(_resource_matches(entry, a) for entry in rule.get("resources") or ())
    )


def _resource_matches(entry: str, a: Attributes) -> bool:
    resource, _, subresource = entry.partition("/")
    return resource in ("*", a.kind.plural) and subresource in ("*", a.subresource)


def _has(entries: Iterable[str] | None, wanted: str) -> bool:
    return any(entry in ("*", wanted) for entry in entries or ())


def _namespace_matches(hook: Hook, a: Attributes, reader: Reader) -> bool:
    if not a.namespace and a.kind is not NAMESPACE:
        return True  # about the cluster: no namespace could exempt it
    selector = _selector(hook.wire.get("namespaceSelector"))
    if not selector:
        return True
    return selector.matches(_namespace_labels(a, reader))


def _namespace_labels(a: Attributes, reader: Reader) -> Mapping[str, str]:
    """Return the labels of the write's namespace; of one being written, those it is about to have."""
    if a.kind is NAMESPACE and not a.subresource and a.operation in (CREATE, UPDATE):
        return _labels(a.object)
    name = a.namespace or a.name
    namespace = reader.get_now(NAMESPACE, "", name)
    if namespace is None:
        raise NotFound.object(NAMESPACE, name)
    return _labels(namespace)


def _object_matches(hook: Hook, a: Attributes) -> bool:
    selector = _selector(hook.wire.get("objectSelector"))
    if not selector:
        return True
    return any(one is not None and selector.matches(_labels(one)) for one in (a.object, a.old))


def _labels(document: Document | None) -> Mapping[str, str]:
    return ((document or {}).get("metadata") or {}).get("labels") or {}


def _selector(wire: Document | None) -> labels.Selector:
    try:
        return labels.from_object(wire or {}) or labels.EVERYTHING
    except labels.SelectorError as error:
        raise InternalError(f"Internal error occurred: {error}", reason="InternalError") from error
