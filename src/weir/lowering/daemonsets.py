"""Lowering of DaemonSets with extended tolerations, to a node label of their own.

Spec: stock.md 8. The DaemonSet controller evaluates nodes by the template, so entries in pods would not help and values
in the template would roll out. Behind each marker stands `Exists` on the key, and a node selector on a label of the
DaemonSet's own says which nodes are meant. The label is set in the write that changes the taint. A node that is no
longer tolerated for NoSchedule keeps the label while the DaemonSet's pod runs there, as that pod would stay natively.
Where `Exists` would not say the same about a tolerated node, the pods get entries for values as any other pod does, and
only the template stays broad: for an expression, which names no key, and where another entry for the key has other
seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir.gates import ALL_FEATURES
from weir.lowering.annotated import annotated_tolerations, has_annotated, with_annotated
from weir.lowering.names import (
    LABEL_VALUE,
    daemonset_hash,
    label_key,
    labelled_hash,
    marked_hash,
)
from weir.lowering.templates import mark_template
from weir.lowering.tolerations import CEL, is_extended, read_entry, read_originals
from weir.lowering.triples import Triple
from weir.taints import wellknown
from weir.taints.toleration import find_tolerating

Document = dict[str, Any]


def lower_daemonset(
    template: Mapping[str, Any], namespace: str, name: str, native_numeric: bool = False, label: str = ""
) -> Document:
    """Return the template of the DaemonSet *name* as a stock cluster's controller can judge nodes by it.

    It keeps the *label* that it had: nodes carry it, and the controller deletes every pod on a node without.
    """
    plain = _without_own(template)
    marked = mark_template(plain, native_numeric)
    spec, metadata = dict(marked["spec"]), marked.get("metadata") or {}
    originals = read_originals(metadata.get("annotations"))
    if not originals:
        return marked
    tolerations: list[Document] = []
    for entry in spec["tolerations"]:
        tolerations.append(entry)
        if (hash_ := marked_hash(entry.get("key") or "")) in originals:
            tolerations += _broad(originals[hash_])
    spec["tolerations"] = tolerations
    key = label or label_key(daemonset_hash(namespace, name, original_tolerations(marked)))
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), key: LABEL_VALUE}
    return {**marked, "spec": spec}


def with_annotation_of_now(template: Mapping[str, Any], before: Mapping[str, Any]) -> Document:
    """Return a DaemonSet's template with what its annotation says in place of what it said *before*.

    With an annotation every marker is the annotation's (`mixed`), so what an edit took out of it goes.
    """
    if not has_annotated(template) and not has_annotated(before):
        return dict(template)
    plain = _without_own(template)
    spec, gone = plain["spec"], annotated_tolerations(before)
    kept = [
        entry
        for entry in spec.get("tolerations") or ()
        if not marked_hash(entry.get("key") or "") and entry not in gone
    ]
    return with_annotated({**plain, "spec": {**spec, "tolerations": kept}})


def mixed(template: Mapping[str, Any]) -> bool:
    """Return whether extended tolerations stand in the annotation and beside it."""
    entries = (template.get("spec") or {}).get("tolerations") or ()
    return has_annotated(template) and any(map(is_extended, entries))


def _broad(original: Mapping[str, Any]) -> list[Document]:
    """Return the entries that tolerate whatever *original* might, as long as it would."""
    names = ("effect",) if original.get("operator") == CEL else ("key", "effect")
    entry: Document = {"operator": "Exists"} | {name: original[name] for name in names if original.get(name)}
    seconds = original.get("tolerationSeconds")
    if seconds is None:
        return [entry]
    if entry.get("effect"):
        return [{**entry, "tolerationSeconds": seconds}]
    timed = {**entry, "effect": "NoExecute", "tolerationSeconds": seconds}
    return [timed, *({**entry, "effect": effect} for effect in ("NoSchedule", "PreferNoSchedule"))]


def exact_pod(pod: Mapping[str, Any]) -> list[Document]:
    """Return the tolerations of a DaemonSet's pod, marked, without broad entries where these say too much."""
    tolerations: list[Document] = (pod.get("spec") or {}).get("tolerations") or []
    originals = read_originals((pod.get("metadata") or {}).get("annotations"))
    if not daemonset_label(pod) or not _says_too_much(original_tolerations(pod)):
        return tolerations
    return _without_broad(pod, originals)


def _says_too_much(tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether `Exists` in place of an extended entry decides what another entry should."""
    evicting = [entry for entry in tolerations if entry.get("effect") in (None, "", "NoExecute")]
    for entry in filter(is_extended, tolerations):
        if entry.get("operator") == CEL:
            return True
        rivals = [each for each in evicting if each.get("operator") == CEL or _may_match(each, entry)]
        if len({each.get("tolerationSeconds") for each in rivals}) > 1:
            return True
    return False


def _may_match(entry: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return entry.get("key") in (None, "", other.get("key"))


def automatic(template: Mapping[str, Any]) -> list[Document]:
    """Return the tolerations that the DaemonSet controller gives to every pod of its own accord."""
    host_network = bool((template.get("spec") or {}).get("hostNetwork"))
    return [
        {"key": key, "operator": "Exists", "effect": effect}
        for key, effect in wellknown.daemon_taints(host_network=host_network)
    ]


def original_tolerations(template: Mapping[str, Any]) -> list[Document]:
    """Return the tolerations that the user wrote, from a marked or a lowered template."""
    originals = read_originals((template.get("metadata") or {}).get("annotations"))
    return [
        originals.get(marked_hash(entry.get("key") or ""), entry)
        for entry in _without_broad(template, originals)
    ]


def _without_broad(template: Mapping[str, Any], originals: Mapping[str, Document]) -> list[Document]:
    """Return the tolerations without those that stand behind markers."""
    kept: list[Document] = []
    own: list[Document] = []
    for entry in (template.get("spec") or {}).get("tolerations") or ():
        if own and entry == own[0]:
            own = own[1:]
            continue
        kept.append(entry)
        hash_ = marked_hash(entry.get("key") or "")
        own = _broad(originals[hash_]) if hash_ in originals else []
    return kept


def daemonset_label(template: Mapping[str, Any]) -> str:
    """Return the label by which a lowered template selects its nodes, or ""."""
    selector = (template.get("spec") or {}).get("nodeSelector") or {}
    return next((key for key in selector if labelled_hash(key)), "")


def may_run(
    tolerations: Sequence[Mapping[str, Any]],
    triples: Iterable[Triple],
    runs_here: bool,
) -> bool:
    """Return whether a node with *triples* carries the label of a DaemonSet that originally has *tolerations*.

    >>> may_run([{"key": "sla", "operator": "Gt", "value": "900"}], [Triple("sla", "800", "NoSchedule")], False)
    False
    """
    read = [read_entry(entry) for entry in tolerations]
    # By keys the controller itself judges Kubernetes' own taints; behind an expression it has no key to judge by.
    judged = any(entry.get("operator") == CEL for entry in tolerations)
    effects = {"NoExecute"} if runs_here else {"NoExecute", "NoSchedule"}
    return all(
        find_tolerating(read, triple.taint, ALL_FEATURES) is not None
        for triple in triples
        if triple.effect in effects and (judged or not triple.conditional)
    )


def _without_own(template: Mapping[str, Any]) -> Document:
    """Return the template without entries and selectors of an earlier lowering; markers stay."""
    spec = dict(template.get("spec") or {})
    originals = read_originals((template.get("metadata") or {}).get("annotations"))
    if "tolerations" in spec:
        spec["tolerations"] = _without_broad(template, originals)
    if selector := spec.get("nodeSelector"):
        spec["nodeSelector"] = {key: value for key, value in selector.items() if not labelled_hash(key)}
        if not spec["nodeSelector"]:
            del spec["nodeSelector"]
    return {**template, "spec": spec}
