"""Answers to AdmissionReviews: the changed object, or a refusal in the words of a server that has the feature.

Spec: stock.md 2, 5, 8. Nothing is remembered: a dry run gets the same answer as the write itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from weir.lowering import webhooks
from weir.lowering.affinity import mark_volume, volume_problems
from weir.lowering.annotated import annotation_problems, with_annotated
from weir.lowering.annotated_affinity import (
    affinity_annotation_problems,
    affinity_of_now,
    with_annotated_affinity,
)
from weir.lowering.daemonsets import (
    daemonset_label,
    exact_pod,
    lower_daemonset,
    mixed,
    with_annotation_of_now,
)
from weir.lowering.grace import split_grace
from weir.lowering.key_rules import MOST_RULES, MOST_VALUES, crowded_keys
from weir.lowering.names import ANNOTATED, ANNOTATED_AFFINITY, GATE, REQUIREMENTS
from weir.lowering.node_labels import MOST_REQUIREMENTS, LabelRules
from weir.lowering.ownership import with_owners
from weir.lowering.rule_pods import with_keys, with_own_rule, with_rule_of
from weir.lowering.templates import (
    annotated,
    mark_template,
    template_of,
    template_place,
    template_problems,
    with_template,
)
from weir.lowering.tolerations import (
    MANY_ENTRIES,
    MOST_ORIGINALS,
    Completed,
    complete,
    is_extended,
    read_originals,
    unite,
)
from weir.lowering.triples import Triple

Document = dict[str, Any]

_INVALID: Final = 422
_LONGEST_MESSAGE: Final = 16 * 1024
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Cluster:
    """What answers depend on besides the request."""

    known: Collection[Triple] = ()
    native_numeric: bool = False
    rules: LabelRules = field(default_factory=LabelRules)
    runs_here: Callable[[str, str], bool] = lambda label, node: False
    #: The label of nodes that a DaemonSet, by namespace and name, was given before it is stored with it, or "".
    announced: Callable[[str, str], str] = lambda namespace, name: ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes, with the object as it shall be; or no, with a code and the reason."""

    document: Document | None = None
    code: int = 200
    message: str = ""
    warning: str = ""

    @property
    def allowed(self) -> bool:
        return not self.message


def answer(path: str, request: Mapping[str, Any], cluster: Cluster) -> Answer:
    """Return the answer of the webhook at *path* to the request of an AdmissionReview."""
    new: Document = request.get("object") or {}
    old: Document = request.get("oldObject") or {}
    place: tuple[str, ...] = ()
    match path:
        case webhooks.POD_PATH:
            found = _pod(new, old, cluster)
        case webhooks.TEMPLATE_PATH | webhooks.DAEMONSET_PATH:
            found = _workload(new, request, cluster)
            place = template_place((request.get("kind") or {}).get("kind") or new.get("kind") or "")
        case webhooks.VOLUME_PATH:
            found = _volume(new, cluster)
        case webhooks.NODE_LABELS_PATH:
            return _node(new, cluster)
        case _:
            return Answer(code=404, message=f"weir serves no webhook at {path}")
    if found.document is None:
        return found
    return replace(found, document=with_owners(found.document, new, old, (*place, "spec")))


def _pod(new: Document, old: Document, cluster: Cluster) -> Answer:
    if refusal := _refusal(new, new, ""):
        return refusal
    marked = mark_template(with_annotated_affinity(with_annotated(new)), cluster.native_numeric)
    spec, metadata = dict(marked.get("spec") or {}), marked.get("metadata") or {}
    if not old and "tolerations" in spec:
        spec["tolerations"], _ = split_grace(exact_pod(marked))  # grace is copied from a bound pod
    originals = read_originals(metadata.get("annotations"))
    requirements = read_originals(metadata.get("annotations"), REQUIREMENTS)
    if refusal := _no_labels(requirements, cluster):
        return refusal
    lowered = originals or requirements or daemonset_label(new)
    if old:
        before = old.get("spec") or {}
        united = unite(spec.get("tolerations") or [], before.get("tolerations") or (), originals)
        if united or "tolerations" in spec:
            spec["tolerations"] = united
        gate = _gated(before)  # only the operator removes it
    else:
        gate = bool(lowered) and not spec.get("nodeName")
    if gate and not _gated(spec):
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": GATE}]
    marked = {**marked, "spec": spec}
    if not originals or (old and spec.get("nodeName")):
        return Answer(with_rule_of(old, marked) if old else marked)
    marked = with_rule_of(old, marked) if old else with_own_rule(marked, originals)
    done = _completed(marked, originals, cluster)
    total = len(done.tolerations) + len(done.left_out)
    keys: list[str] = []
    if not old and len(cluster.rules.rules) < MOST_RULES:
        keys = crowded_keys(total, (*done.added, *done.left_out), originals)
    if keys:
        marked = with_keys(marked, originals, keys)
        done = _completed(marked, originals, cluster)
    changed = {**marked, "spec": {**marked["spec"], "tolerations": done.tolerations}}
    return Answer(changed, warning=_warning(total, keys, len(done.left_out)))


def _completed(pod: Document, originals: Mapping[str, Document], cluster: Cluster) -> Completed:
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    bound = bool(spec.get("nodeName"))
    return complete(tolerations, originals, cluster.known, cluster.native_numeric, bound=bound)


def _warning(total: int, keys: Sequence[str], left_out: int) -> str:
    """Return what the author of a pod is warned of."""
    if keys:
        named = ", ".join(keys[:_MOST_NAMED]) + (" …" if len(keys) > _MOST_NAMED else "")
        return (
            f"the extended tolerations would stand as {total} entries, one for each taint value that they "
            f"tolerate; for {named} nodes get a label instead, by which this pod selects them"
        )
    if left_out:
        return f"{too_many_entries(left_out)}: the pod stays away from nodes with these"
    return many_entries(total) if total >= MANY_ENTRIES else ""


def too_many_entries(left_out: int) -> str:
    """Return what is said of a pod whose list is full."""
    return f"the extended tolerations have no room for {left_out} of the taint values that they tolerate"


def many_entries(total: int) -> str:
    """Return the warning for a pod that stands as *total* entries."""
    return (
        f"the extended tolerations stand as {total} entries, one for each taint value of this cluster that they "
        f"tolerate; beyond {MOST_VALUES} new pods select nodes by a label instead: narrow them, or use fewer "
        "distinct values"
    )


def _gated(spec: Mapping[str, Any]) -> bool:
    return any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ())


def _workload(new: Document, request: Mapping[str, Any], cluster: Cluster) -> Answer:
    kind = (request.get("kind") or {}).get("kind") or new.get("kind") or ""
    template = template_of(new, kind)
    at = ".".join(template_place(kind)) + "."
    if refusal := _refusal(new, template, at):
        return refusal
    if kind == "DaemonSet":
        metadata = new.get("metadata") or {}
        namespace = request.get("namespace") or metadata.get("namespace") or ""
        name = metadata.get("name") or metadata.get("generateName") or ""
        before = template_of(request.get("oldObject") or {}, kind)
        label = daemonset_label(before) or cluster.announced(namespace, name)
        if mixed(template):
            return _in_both(f"{at}spec.tolerations", "extended tolerations", ANNOTATED)
        written = affinity_of_now(with_annotation_of_now(template, before), before)
        if written is None:
            return _in_both(f"{at}spec.affinity.nodeAffinity", "node affinity", ANNOTATED_AFFINITY)
        lowered = lower_daemonset(written, namespace, name, cluster.native_numeric, label)
    else:
        lowered = mark_template(template, cluster.native_numeric)
    return Answer(with_template(new, kind, lowered))


def _in_both(place: str, what: str, annotation: str) -> Answer:
    text = f"{place}: {what} of a DaemonSet stand here or in the annotation {annotation}, not in both"
    return Answer(code=_INVALID, message=text)


def _no_labels(requirements: Mapping[str, Document], cluster: Cluster) -> Answer | None:
    """Return a refusal where nodes would get more synthetic labels than they may have."""
    if len(cluster.rules.requirements.keys() | requirements.keys()) <= MOST_REQUIREMENTS:
        return None
    if requirements.keys() <= cluster.rules.requirements.keys():
        return None
    return Answer(
        code=_INVALID,
        message=f"pods and volumes of this cluster have {MOST_REQUIREMENTS} distinct SemVer requirements on nodes "
        "already, and each is a label of every node that satisfies it; use one of those, or remove some",
    )


def _volume(new: Document, cluster: Cluster) -> Answer:
    if found := volume_problems(new):
        return Answer(code=_INVALID, message="; ".join(found))
    marked, requirements = mark_volume(new)
    if refusal := _no_labels(requirements, cluster):
        return refusal
    metadata = dict(marked.get("metadata") or {})
    changed = annotated(metadata.get("annotations"), {REQUIREMENTS: requirements})
    if changed is not None:
        metadata["annotations"] = changed
    return Answer({**marked, "metadata": metadata})


def _node(new: Document, cluster: Cluster) -> Answer:
    metadata = dict(new.get("metadata") or {})
    labels = cluster.rules.labels(new, cluster.runs_here)
    if labels or "labels" in metadata:
        metadata["labels"] = labels
    return Answer({**new, "metadata": metadata})


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


def _refusal(new: Document, template: Mapping[str, Any], at: str) -> Answer | None:
    for place, text in _lost_expressions(new, template, at):
        return Answer(
            code=_INVALID,
            message=f"{place}: this API server drops the field `expression`, and what is left of the entry would "
            f"tolerate more than you wrote; write the expression as operator and value instead: "
            f"{{operator: CEL, value: {json.dumps(text, ensure_ascii=False)}}}",
        )
    if found := annotation_problems(template, at) + affinity_annotation_problems(template, at):
        return Answer(code=_INVALID, message="; ".join(found))
    tolerations = (with_annotated(template).get("spec") or {}).get("tolerations") or ()
    if sum(map(is_extended, tolerations)) > MOST_ORIGINALS:
        return Answer(
            code=_INVALID, message=f"{at}spec.tolerations: more than {MOST_ORIGINALS} extended entries"
        )
    found = template_problems(template, at)
    return Answer(code=_INVALID, message="; ".join(found)) if found else None


def _lost_expressions(
    new: Mapping[str, Any], template: Mapping[str, Any], at: str
) -> Iterator[tuple[str, str]]:
    """Yield the expressions that `kubectl apply` sent and the API server dropped."""
    annotations = (new.get("metadata") or {}).get("annotations") or {}
    try:
        applied: Any = json.loads(annotations.get(webhooks.LAST_APPLIED) or "{}")
        for name in at.split(".")[:-1]:
            applied = applied.get(name) or {}
        sent = (applied.get("spec") or {}).get("tolerations") or []
    except (ValueError, AttributeError, RecursionError):
        return
    if not isinstance(sent, list):
        return
    kept = (template.get("spec") or {}).get("tolerations") or []
    if any(entry.get("expression") for entry in kept):
        return  # a server that knows the field
    for i, entry in enumerate(sent):
        if isinstance(entry, dict) and entry.get("expression"):
            yield f"{at}spec.tolerations[{i}].expression", str(entry["expression"])


# ── the review ───────────────────────────────────────────────────────────────────────────────────


def respond(review: Mapping[str, Any], given: Answer) -> Document:
    """Return the AdmissionReview that carries *given* back."""
    request = review.get("request") or {}
    response: Document = {"uid": request.get("uid") or "", "allowed": given.allowed}
    if not given.allowed:
        reason = {_INVALID: "Invalid", 429: "TooManyRequests", 403: "Forbidden"}.get(given.code, "")
        response["status"] = {
            "status": "Failure",
            "code": given.code,
            "reason": reason,
            "message": given.message[:_LONGEST_MESSAGE],
        }
    elif given.document is not None:
        patch = list(json_patch(request.get("object") or {}, given.document))
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if given.warning:
        response["warnings"] = [given.warning]
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def json_patch(old: Mapping[str, Any], new: Mapping[str, Any], at: str = "") -> Iterator[Document]:
    """Yield the operations that make *new* of *old*; lists and plain values are replaced whole.

    >>> list(json_patch({"a": {"b/c": 1}}, {"a": {"b/c": 2, "d": []}}))
    [{'op': 'replace', 'path': '/a/b~1c', 'value': 2}, {'op': 'add', 'path': '/a/d', 'value': []}]
    """
    for name in old:
        if name not in new:
            yield {"op": "remove", "path": _pointer(at, name)}
    for name, value in new.items():
        if name not in old:
            yield {"op": "add", "path": _pointer(at, name), "value": value}
        elif isinstance(value, dict) and isinstance(old[name], dict):
            yield from json_patch(old[name], value, _pointer(at, name))
        elif value != old[name]:
            yield {"op": "replace", "path": _pointer(at, name), "value": value}


def _pointer(at: str, name: str) -> str:
    escaped = name.replace("~", "~0").replace("/", "~1")
    return f"{at}/{escaped}"
