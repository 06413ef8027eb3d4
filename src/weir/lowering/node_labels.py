"""Synthetic labels of a node.

Spec: stock.md 8. One for each SemVer requirement of a pod, a template or a volume that its labels satisfy, and one for
each DaemonSet with extended tolerations that may run on it. The hook gives a node its labels in the write that changes
what they depend on; the operator repairs what passed the hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weir.lowering.affinity import relabelled, requirement_labels
from weir.lowering.daemonsets import may_run
from weir.lowering.key_rules import KeyRule
from weir.lowering.names import label_key
from weir.lowering.triples import triples_of

Document = dict[str, Any]
#: Distinct SemVer requirements of a cluster that have labels: every node carries one for each that it satisfies.
MOST_REQUIREMENTS: Final = 512
#: Whether a pod of the DaemonSet with this label runs on the node with this name.
RunsHere = Callable[[str, str], bool]


@dataclass(slots=True)
class LabelRules:
    """What synthetic labels stand for, by their hash (requirements) or whole key (DaemonSets, rules)."""

    requirements: dict[str, Document] = field(default_factory=dict)
    daemonsets: dict[str, list[Document]] = field(default_factory=dict)
    rules: dict[str, KeyRule] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)  #: labels that no node may carry any more

    def known(self) -> set[str]:
        """Return every label that is, or was, somebody's; others are not touched."""
        requirements = {label_key(hash_) for hash_ in self.requirements}
        return requirements | self.daemonsets.keys() | self.rules.keys() | self.retired

    def wanted(self, node: Mapping[str, Any], runs_here: RunsHere) -> set[str]:
        """Return the labels that *node* should carry."""
        metadata = node.get("metadata") or {}
        labels, name = metadata.get("labels") or {}, metadata.get("name") or ""
        wanted = set(requirement_labels(self.requirements, labels))
        triples = triples_of(node)
        wanted |= {
            label
            for label, tolerations in self.daemonsets.items()
            if may_run(tolerations, triples, runs_here(label, name))
        }
        return wanted | {label for label, rule in self.rules.items() if rule.allows(triples)}

    def labels(self, node: Mapping[str, Any], runs_here: RunsHere) -> dict[str, str]:
        """Return the labels of *node* with the synthetic ones as they should be."""
        before = (node.get("metadata") or {}).get("labels") or {}
        return relabelled(before, self.wanted(node, runs_here), self.known())
