"""What do synthetic labels stand for just now? Requirements and DaemonSets, as long as somebody uses them.

A requirement is in use while a pod, a DaemonSet's template or a volume has it. Every replica keeps the rules, because
every replica answers the hook that labels nodes.
Not here: what a rule says about a node (weir.lowering.node_labels).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weir.client.cache import Cache
from weir.lowering.daemonsets import automatic, daemonset_label, original_tolerations
from weir.lowering.names import REQUIREMENTS
from weir.lowering.node_labels import LabelRules
from weir.lowering.tolerations import read_originals
from weir.operator.views import LoweredPod

Document = dict[str, Any]


class Rules:
    """The label rules, kept up to date from what uses them."""

    def __init__(
        self, pods: Cache[LoweredPod], daemonsets: Cache[Document], volumes: Cache[Document]
    ) -> None:
        self.labels = LabelRules()
        self.changed: Callable[[], None] = lambda: None
        self._used: Counter[str] = Counter()
        self._pods = pods
        pods.listen(self._pod)
        daemonsets.listen(self._daemonset)
        volumes.listen(self._volume)

    def runs_here(self, label: str, node: str) -> bool:
        """Return whether a pod of the DaemonSet with this label runs on the node."""
        return any(not pod.ended and pod.node for pod in self._pods.by_index("daemon", f"{label} {node}"))

    def _pod(self, old: LoweredPod | None, new: LoweredPod | None) -> None:
        before = old.requirements if old is not None else ()
        after = new.requirements if new is not None else ()
        if before != after:
            self._count(dict(before), dict(after))

    def _volume(self, old: Document | None, new: Document | None) -> None:
        self._count(_requirements(old), _requirements(new))

    def _daemonset(self, old: Document | None, new: Document | None) -> None:
        before, after = _template(old), _template(new)
        self._count(_requirements(before), _requirements(after))
        label, known = daemonset_label(after), daemonset_label(before)
        if known and known != label:
            self.labels.daemonsets.pop(known, None)
            self.changed()
        if label:
            self.expect(after)

    def expect(self, template: Document) -> None:
        """Take in the template of a lowered DaemonSet, which may not be stored yet."""
        label, tolerations = (
            daemonset_label(template),
            [*original_tolerations(template), *automatic(template)],
        )
        if self.labels.daemonsets.get(label) != tolerations:
            self.labels.daemonsets[label] = tolerations
            self.changed()

    def _count(self, before: Mapping[str, Document], after: Mapping[str, Document]) -> None:
        new = False
        for hash_, requirement in after.items():
            self._used[hash_] += 1
            if hash_ not in self.labels.requirements:
                self.labels.requirements[hash_] = requirement
                new = True
        for hash_ in before:
            self._used[hash_] -= 1
            if self._used[hash_] <= 0:
                del self._used[hash_]
                self.labels.requirements.pop(hash_, None)
        if new:
            self.changed()


def daemon_index(pod: LoweredPod) -> Iterable[str]:
    """Return where a DaemonSet's pod is found: by its label and its node."""
    return (f"{pod.label} {pod.target}",) if pod.label and pod.target else ()


def node_index(pod: LoweredPod) -> Iterable[str]:
    """Return where a lowered pod is found: by its node, "" while it has none."""
    return (pod.node,) if pod.lowered else ()


def _template(daemonset: Document | None) -> Document:
    return ((daemonset or {}).get("spec") or {}).get("template") or {}


def _requirements(document: Mapping[str, Any] | None) -> dict[str, Document]:
    return read_originals(((document or {}).get("metadata") or {}).get("annotations"), REQUIREMENTS)
