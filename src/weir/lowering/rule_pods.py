"""Pods with key entries: their list, the annotation of their rule, and the node selector on its label, together.

Like every mark, these are users' to write as well: a new pod keeps only what it would be given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from weir.lowering.grace import split_grace
from weir.lowering.key_entries import changed, split_keys
from weir.lowering.key_rules import KeyRule, key_entries, pod_rule, read_rule, write_rule
from weir.lowering.names import KEY_ENTRIES, LABEL_VALUE, is_rule_label
from weir.lowering.originals import raised_tolerations

Document = dict[str, Any]
Originals = Mapping[str, Document]


def with_keys(pod: Document, originals: Originals, keys: Collection[str]) -> Document:
    """Return a new pod that says *keys* as a whole; one that has its node already needs no label."""
    if not keys:
        return pod
    spec = pod["spec"]
    tolerations = changed(spec.get("tolerations") or [], key_entries(keys, originals))
    result = {**pod, "spec": {**spec, "tolerations": tolerations}}
    return result if spec.get("nodeName") else _with_rule(result, write_rule(keys, _own(pod, originals)))


def with_own_rule(pod: Document, originals: Originals) -> Document:
    """Return a new pod without key entries and labels that it was written with, unless they are what it would get."""
    text = _annotation(pod)
    rule = rule_of(pod)
    plain = _without_rule(pod)
    if rule is not None and text == write_rule(rule.keys, _own(plain, originals)):
        return with_keys(plain, originals, rule.keys)
    return plain


def with_rule_of(stored: Mapping[str, Any], pod: Document) -> Document:
    """Return *pod*, which is to replace the *stored* one, with the label and the annotation of its rule."""
    return pod if rule_of(stored) is None else _with_rule(pod, _annotation(stored))


def rule_of(pod: Mapping[str, Any]) -> KeyRule | None:
    """Return the rule of a pod, or None."""
    return pod_rule((pod.get("spec") or {}).get("nodeSelector"), _annotation(pod))


def _annotation(pod: Mapping[str, Any]) -> str:
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(KEY_ENTRIES)
    return text if isinstance(text, str) else ""


def _own(pod: Document, originals: Originals) -> list[Document]:
    tolerations = split_grace(pod["spec"].get("tolerations") or [])[0]
    return raised_tolerations(tolerations, originals, values=True)


def _with_rule(pod: Document, text: str) -> Document:
    rule = read_rule(text)
    if rule is None:
        return pod
    metadata, spec = pod.get("metadata") or {}, pod["spec"]
    annotations = {**(metadata.get("annotations") or {}), KEY_ENTRIES: text}
    selector = {**(spec.get("nodeSelector") or {}), rule.label: LABEL_VALUE}
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, "nodeSelector": selector},
    }


def _without_rule(pod: Document) -> Document:
    spec, metadata = dict(pod["spec"]), dict(pod.get("metadata") or {})
    if "tolerations" in spec:
        spec["tolerations"] = split_keys(spec["tolerations"])[0]
    for holder, name in ((spec, "nodeSelector"), (metadata, "annotations")):
        if kept := {key: value for key, value in (holder.get(name) or {}).items() if not _is_own(key)}:
            holder[name] = kept
        else:
            holder.pop(name, None)
    return {**pod, "metadata": metadata, "spec": spec}


def _is_own(name: str) -> bool:
    return name == KEY_ENTRIES or is_rule_label(name)
