"""Label rules: what synthetic node labels stand for, as long as a pod, a DaemonSet or a volume uses them.

Every replica keeps the rules, because every replica answers the hook that labels nodes. A label is one DaemonSet's: a
template that names another's is not believed, and neither is a DaemonSet of which a review speaks before the cluster
shows it, for longer than a moment (weir.operator.holds).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from weir.client.cache import Cache, ObjectKey
from weir.clock import Clock
from weir.lowering.daemonsets import automatic, daemonset_label, original_tolerations
from weir.lowering.key_rules import MOST_RULES, KeyRule
from weir.lowering.names import REQUIREMENTS, daemonset_hash, label_key
from weir.lowering.node_labels import MOST_REQUIREMENTS, LabelRules, RunsHere
from weir.lowering.tolerations import read_originals
from weir.operator.aside import takes_long
from weir.operator.holds import Holds
from weir.operator.views import LoweredPod

#: DaemonSets that were announced with a label and are not stored with it, and how fast lost ones come back.
MOST_EXPECTED: Final = 64
REFILL_SECONDS: Final = 10.0

Document = dict[str, Any]


class Rules:
    """The label rules, kept up to date from what uses them."""

    def __init__(
        self,
        clock: Clock,
        pods: Cache[LoweredPod],
        daemonsets: Cache[Document],
        volumes: Cache[Document],
    ) -> None:
        self.labels = LabelRules()
        #: Labels of rules and requirements that nodes were given; from then on each change of a node keeps them.
        self.labelled: set[str] = set()
        self.changed: Callable[[], None] = lambda: None
        self._used: Counter[str] = Counter()
        self._requirements: dict[str, Document] = {}  #: all that are used; the first of them have labels
        self._owners: dict[str, ObjectKey] = {}  #: the DaemonSet of each label
        self._expected: dict[ObjectKey, str] = {}  #: labels of DaemonSets that are not stored with them yet
        self._holds: Holds[ObjectKey] = Holds(clock, MOST_EXPECTED, REFILL_SECONDS)
        self._pods = pods
        pods.listen(self._pod)
        daemonsets.listen(self._daemonset)
        volumes.listen(self._volume)

    def runs_here(self, label: str, node: str) -> bool:
        """Return whether a pod of the DaemonSet with this label runs on the node."""
        owner = self._owners.get(label)
        return owner is not None and any(
            not pod.ended and pod.node and pod.metadata.namespace == owner.namespace
            for pod in self._pods.by_index("daemon", f"{label} {node}")
        )

    def labels_of(self, pod: LoweredPod) -> set[str]:
        """Return the labels by which *pod* selects nodes, but for a DaemonSet's."""
        labels = {label_key(hash_) for hash_, _ in pod.requirements if hash_ in self.labels.requirements}
        return labels if pod.rule is None else labels | {pod.rule.label}

    @property
    def have_expressions(self) -> bool:
        """Whether a label of nodes depends on an expression."""
        rules = (rule.entries for rule in self.labels.rules.values())
        return any(map(takes_long, (*self.labels.daemonsets.values(), *rules)))

    def copy_for(self, node: str) -> tuple[LabelRules, RunsHere]:
        """Return the rules and who runs on *node* as they are now, for a thread to read while the loop changes them."""
        rules = self.labels
        running = {label for label in rules.daemonsets if self.runs_here(label, node)}
        copied = LabelRules(
            dict(rules.requirements), dict(rules.daemonsets), dict(rules.rules), set(rules.retired)
        )
        return copied, lambda label, node: label in running

    def tolerations_of(self, label: str, namespace: str) -> list[Document] | None:
        """Return the tolerations of the DaemonSet in *namespace* that has this label, or None."""
        owner = self._owners.get(label)
        return self.labels.daemonsets.get(label) if owner and owner.namespace == namespace else None

    def daemonsets(self) -> Iterator[tuple[ObjectKey, list[Document]]]:
        """Yield the DaemonSets that have a label, with their tolerations."""
        for label, owner in self._owners.items():
            yield owner, self.labels.daemonsets.get(label) or []

    def _pod(self, old: LoweredPod | None, new: LoweredPod | None) -> None:
        before = old.requirements if old is not None else ()
        after = new.requirements if new is not None else ()
        if before != after:
            self._count(dict(before), dict(after))
        was, now = (each.rule if each is not None and not each.ended else None for each in (old, new))
        if was != now:
            self._count_rule(was, now)

    def _count_rule(self, before: KeyRule | None, after: KeyRule | None) -> None:
        if after is not None:
            self._used[after.label] += 1
            if after.label not in self.labels.rules and len(self.labels.rules) < MOST_RULES:
                self.labels.rules = {**self.labels.rules, after.label: after}
                self.changed()
        if before is not None:
            self._used[before.label] -= 1
            if self._used[before.label] <= 0:
                del self._used[before.label]
                self.labelled.discard(before.label)  # nobody keeps it from here on
                rules = self.labels.rules
                self.labels.rules = {label: rule for label, rule in rules.items() if label != before.label}

    def _volume(self, old: Document | None, new: Document | None) -> None:
        self._count(_requirements(old), _requirements(new))

    def _daemonset(self, old: Document | None, new: Document | None) -> None:
        key = _key(new or old or {})
        before, after = _template(old), _template(new)
        self._count(_requirements(before), _requirements(after))
        label, known = daemonset_label(after), daemonset_label(before)
        if known and known != label:
            self._drop(known, key)
        if label:
            if self._expected.get(key) == label:
                del self._expected[key]
            self._holds.shown([key])
            self._claim(label, key, after)

    def expect(self, daemonset: ObjectKey, template: Document) -> bool:
        """Take in the template of a DaemonSet that is about to get a label; False when too many are announced."""
        label = daemonset_label(template)
        if not self._holds.take([daemonset]):
            return False
        self._expected[daemonset] = label
        self._claim(label, daemonset, template)
        return True

    def announced(self, namespace: str, name: str) -> str:
        """Return the label that a DaemonSet was announced with, which it keeps whatever is edited meanwhile, or ""."""
        return self._expected.get(ObjectKey(namespace, name), "")

    def expire(self) -> None:
        """Drop what was announced and never stored; nodes lose the label that they got for it."""
        for key in self._holds.expired():
            if label := self._expected.pop(key, ""):
                if len(self.labels.retired) >= MOST_EXPECTED:
                    self.labels.retired.pop()
                self.labels.retired.add(label)
                self._drop(label, key)

    def _claim(self, label: str, daemonset: ObjectKey, template: Document) -> None:
        if self._owners.setdefault(label, daemonset) != daemonset:
            first = label_key(daemonset_hash(*daemonset, original_tolerations(template)))
            if label != first:
                return  # another's: this template was written by hand
            self._owners[label] = daemonset
        self.labels.retired.discard(label)
        tolerations = [*original_tolerations(template), *automatic(template)]
        if self.labels.daemonsets.get(label) != tolerations:
            self.labels.daemonsets[label] = tolerations
            self.changed()

    def _drop(self, label: str, daemonset: ObjectKey) -> None:
        if self._owners.get(label) == daemonset:
            del self._owners[label]
            self.labels.daemonsets.pop(label, None)
            self.changed()

    def _count(self, before: Mapping[str, Document], after: Mapping[str, Document]) -> None:
        if before.keys() == after.keys():
            return
        for hash_, requirement in after.items():
            self._used[hash_] += 1
            self._requirements.setdefault(hash_, requirement)
        for hash_ in before:
            self._used[hash_] -= 1
            if self._used[hash_] <= 0:
                del self._used[hash_]
                self._requirements.pop(hash_, None)
                self.labelled.discard(label_key(hash_))
        labelled = dict(list(self._requirements.items())[:MOST_REQUIREMENTS])
        is_new = not labelled.keys() <= self.labels.requirements.keys()
        self.labels.requirements = labelled
        if is_new:
            self.changed()


def daemon_index(pod: LoweredPod) -> Sequence[str]:
    """Return where a DaemonSet's pod is found: by its label and its node."""
    return (f"{pod.label} {pod.target}",) if pod.label and pod.target else ()


def node_index(pod: LoweredPod) -> Sequence[str]:
    """Return where a lowered pod is found: by its node, "" while it has none."""
    return (pod.node,) if pod.lowered else ()


def _key(document: Mapping[str, Any]) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata["name"])


def _template(daemonset: Document | None) -> Document:
    return ((daemonset or {}).get("spec") or {}).get("template") or {}


def _requirements(document: Mapping[str, Any] | None) -> dict[str, Document]:
    return read_originals(((document or {}).get("metadata") or {}).get("annotations"), REQUIREMENTS)
