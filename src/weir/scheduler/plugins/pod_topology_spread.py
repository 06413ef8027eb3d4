"""PodTopologySpread: spreads the pods of a group over zones, nodes or any other label.

Spec: core.md 3.7.7.
DoNotSchedule constraints filter by skew, ScheduleAnyway constraints score. Which nodes count follows
`nodeAffinityPolicy` (default Honor) and `nodeTaintsPolicy` (default Ignore), the latter with every toleration
operator and expression. A node excluded by these policies is not rejected here; its pods do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from weir.gates import Gates
from weir.objects.core import LabelSelector, LabelSelectorRequirement, Pod, TopologySpreadConstraint
from weir.scheduler.framework import DefaultSelector, Extensions, Plugin
from weir.scheduler.judged_taints import JudgedTaints
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity
from weir.scheduler.plugins.spread_constraints import NAME, BoundPodTopologySpread, Constraint
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration
from weir.scheduler.pod_class import PodClass
from weir.scheduler.pod_counts import PodCounts, read_selector
from weir.scheduler.profile_arguments import SYSTEM_DEFAULTS
from weir.scheduler.queueing_hints import (
    NODE_ADD,
    NODE_DELETE,
    NODE_LABEL,
    NODE_TAINT,
    OWN_LABEL,
    OWN_TOLERATION,
    POD_ADD,
    POD_DELETE,
    POD_LABEL,
    ClusterEvent,
    QueueingHint,
    always,
)


class PodTopologySpread(Plugin):
    """The plugin; `default_selector` gives the selector for pods without constraints of their own."""

    name = NAME

    def __init__(
        self,
        pod_counts: PodCounts,
        gates: Gates,
        taints: JudgedTaints,
        defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS,
        *,
        system_defaults: bool = True,
        default_selector: DefaultSelector | None = None,
    ) -> None:
        self._counts, self._table, self._gates, self._taints = pod_counts, pod_counts.table, gates, taints
        self._defaults, self._system_defaults = defaults, system_defaults
        self._default_selector = default_selector

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod that nothing spreads, until its default selector changes."""
        bound, stale = self._bound(pod), self._watch_selector(pod)
        if bound is None:
            return Extensions(stale=stale)
        return Extensions(
            filter=bound if bound.filters else None,
            cluster_score=bound if bound.scores else None,
            stale=stale,
        )

    def _bound(self, pod: PodClass) -> BoundPodTopologySpread | None:
        require_all = True
        constraints = [(c, selector_for(c, pod.labels)) for c in pod.spread]
        if not pod.spread:
            selector = self._default_selector(pod) if self._default_selector is not None else None
            if selector is None:
                return None
            constraints = [(c, selector) for c in self._defaults]
            require_all = not self._system_defaults
        read = [
            self._read(c, s, pod, index if pod.spread else -1) for index, (c, s) in enumerate(constraints)
        ]
        hard = [one for (c, _), one in zip(constraints, read, strict=True) if _forbids(c)]
        soft = [
            one
            for (c, _), one in zip(constraints, read, strict=True)
            if c.when_unsatisfiable == "ScheduleAnyway"
        ]
        if not hard and not soft:
            return None
        return BoundPodTopologySpread(
            hard,
            soft,
            self._table,
            BoundNodeAffinity(pod, self._table, self._gates, None),
            BoundTaintToleration(pod, self._table, self._taints),
            require_all,
        )

    def _watch_selector(self, pod: PodClass) -> Callable[[], bool] | None:
        """Return what says whether the default selector of *pod* has changed since now; None: it never does."""
        selector_of = self._default_selector
        if selector_of is None or pod.spread:
            return None
        version, selector = selector_of.version, selector_of(pod)

        def changed() -> bool:
            nonlocal version
            if version == selector_of.version:
                return False
            version = selector_of.version
            return selector_of(pod) != selector

        return changed

    def _read(
        self, spec: TopologySpreadConstraint, selector: LabelSelector | None, pod: PodClass, index: int
    ) -> Constraint:
        matcher = read_selector(selector)
        empty = matcher is None or not matcher
        namespace = pod.namespace

        def selects(other: PodClass) -> bool:
            if empty or other.terminating or other.namespace != namespace:
                return False
            return matcher.matches(other.labels)  # type: ignore[union-attr]

        key = ("spread", namespace, msgspec.json.encode(selector, order="sorted"))
        return Constraint(
            spec.topology_key,
            spec.max_skew,
            1 if spec.min_domains is None else spec.min_domains,
            spec.node_affinity_policy != "Ignore",
            spec.node_taints_policy == "Honor",
            self._counts.selected(key, selects, (namespace,), _wanted_label(selector)),
            matcher is not None and matcher.matches(pod.labels),
            index,
        )

    # ── queueing hints ───────────────────────────────────────────────────────────────────────────

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: self._has_keys,
            NODE_DELETE: self._has_keys,
            NODE_LABEL: self._has_keys,
            NODE_TAINT: self._has_keys,
            POD_ADD: self._counted_differently,
            POD_DELETE: self._counted_differently,
            POD_LABEL: self._counted_differently,
            OWN_LABEL: always,
            OWN_TOLERATION: self._honours_taints,
        }

    def _counted_differently(self, pod: Pod, event: ClusterEvent) -> bool:
        """A pod that the constraints count has come or gone, or is counted otherwise than before."""
        other = event.new or event.old
        if other.metadata.namespace != pod.metadata.namespace:
            return False
        selectors = [read_selector(selector_for(c, pod.metadata.labels or {})) for c in _hard(pod)]
        if not selectors:
            return True  # the profile's constraints rejected it, with a selector that is not the pod's own
        counted = [
            [
                version is not None and s is not None and s.matches(version.metadata.labels or {})
                for s in selectors
            ]
            for version in (event.old, event.new)
        ]
        return counted[0] != counted[1]

    def _has_keys(self, pod: Pod, event: ClusterEvent) -> bool:
        keys = [constraint.topology_key for constraint in _hard(pod)]
        if not keys:
            return True  # as above
        versions = [version for version in (event.old, event.new) if version is not None]
        complete = [all(key in version.labels for key in keys) for version in versions]
        if event.label == NODE_LABEL:
            values = [[version.labels.get(key) for key in keys] for version in versions]
            return any(complete) and values[0] != values[-1]
        return any(complete)

    def _honours_taints(self, pod: Pod, event: ClusterEvent) -> bool:
        constraints = _hard(pod)
        return not constraints or any(c.node_taints_policy == "Honor" for c in constraints)


def _wanted_label(selector: LabelSelector | None) -> tuple[str, str] | None:
    """Return a label that every pod has which *selector* selects, if it names one."""
    if selector is None:
        return None
    for key, value in (selector.match_labels or {}).items():
        return key, value
    for requirement in selector.match_expressions or ():
        if requirement.operator == "In" and requirement.values and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


def _forbids(constraint: TopologySpreadConstraint) -> bool:
    return constraint.when_unsatisfiable == "DoNotSchedule"


def _hard(pod: Pod) -> list[TopologySpreadConstraint]:
    """Return the spread constraints of *pod* that can refuse a node."""
    constraints = pod.spec.topology_spread_constraints or ()
    return [each for each in constraints if _forbids(each)]


def selector_for(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> LabelSelector | None:
    """Return the constraint's selector with matchLabelKeys added from the pod's *labels*."""
    selector = constraint.label_selector
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    if selector is None or not keys:
        return selector
    added = tuple(LabelSelectorRequirement(key, "In", (labels[key],)) for key in keys)
    return LabelSelector(selector.match_labels, (*(selector.match_expressions or ()), *added))
