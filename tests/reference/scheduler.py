"""The scheduler as a plain loop over nodes and pods: slow, obvious, and the definition the columns are held against.

Written from the specification of each plugin, without sharing code with the columnar plugins beyond the semantic
predicates (tolerations, node selectors, label selectors, request sums).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec

from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import LabelSelector, LabelSelectorRequirement, Node, Pod, Taint
from weir.objects.requests import host_ports, node_allocatable, pod_requests
from weir.scheduler.pod_class import nonzero_requests, with_tag
from weir.selectors.labels import from_object
from weir.selectors.node import pod_selects_node, preferred_terms, term_matches
from weir.taints.toleration import BLOCKING, SCORING, find_tolerating, untolerated

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
U, UU = "Unschedulable", "UnschedulableAndUnresolvable"


def cut(numerator, denominator):
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator >= 0) == (denominator > 0) else -quotient


def scaled(raw, reverse):
    highest = max(raw.values(), default=0)
    if highest == 0:
        return {n: 100 if reverse else s for n, s in raw.items()}
    return {n: 100 - 100 * s // highest if reverse else 100 * s // highest for n, s in raw.items()}


def preference(pod, labels, node_name, gates):
    """Return the summed weight of the preferred terms that select the node."""
    return sum(t.weight for t in preferred_terms(pod) if term_matches(t.preference, labels, node_name, gates))


@dataclass
class Cluster:
    """Nodes in the order they came, and the pods on each."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    gates: Gates = ALL_FEATURES

    # ── order ──
    def ordered(self):
        zones: dict[tuple[str, str], list[str]] = {}
        for name, node in self.nodes.items():
            labels = node.labels
            zone = labels.get(
                "failure-domain.beta.kubernetes.io/zone", labels.get("topology.kubernetes.io/zone", "")
            )
            region = labels.get(
                "failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region", "")
            )
            zones.setdefault((region, zone), []).append(name)
        longest = max(map(len, zones.values()), default=0)
        return [names[i] for i in range(longest) for names in zones.values() if i < len(names)]

    # ── filters, in order; each returns None or (plugin, code, reasons) ──
    def status(self, pod, name):
        node = self.nodes[name]
        for check in (
            self.node_name,
            self.unschedulable,
            self.taints,
            self.affinity,
            self.ports,
            self.fit,
            self.spread,
            self.inter_pod,
        ):
            found = check(pod, node)
            if found is not None:
                return (found[0], found[1], tuple(found[2]))
        return None

    def node_name(self, pod, node):
        if pod.spec.node_name and pod.spec.node_name != node.name:
            return "NodeName", UU, ["node(s) didn't match the requested node name"]
        return None

    def unschedulable(self, pod, node):
        if node.spec.unschedulable and not find_tolerating(pod.tolerations, CORDON, self.gates):
            return "NodeUnschedulable", UU, ["node(s) were unschedulable"]
        return None

    def taints(self, pod, node):
        for taint in untolerated(node.taints, pod.tolerations, self.gates, BLOCKING)[:1]:
            return "TaintToleration", UU, [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"]
        return None

    def affinity(self, pod, node):
        if not pod_selects_node(pod, node.labels, node.name, self.gates):
            return "NodeAffinity", UU, ["node(s) didn't match Pod's node affinity/selector"]
        return None

    def ports(self, pod, node):
        held = [port for other in self.pods[node.name] for port in host_ports(other)]
        for ip, protocol, port in host_ports(pod):
            for other_ip, other_protocol, other_port in held:
                same_ip = ip == other_ip or "0.0.0.0" in (ip, other_ip)
                if (protocol, port) == (other_protocol, other_port) and same_ip:
                    return "NodePorts", U, ["node(s) didn't have free ports for the requested pod ports"]
        return None

    def fit(self, pod, node):
        alloc = node_allocatable(node) or {}
        used: dict[str, int] = {}
        for other in self.pods[node.name]:
            for resource, amount in pod_requests(other).items():
                used[resource] = used.get(resource, 0) + amount
        reasons, code = [], U
        if len(self.pods[node.name]) + 1 > alloc.get("pods", 0):
            reasons.append("Too many pods")
        requests = pod_requests(pod)
        scalars = sorted(set(requests) - {"cpu", "memory", "ephemeral-storage", "pods"})
        for resource in ["cpu", "memory", "ephemeral-storage", *scalars]:
            wanted = requests.get(resource, 0)
            if wanted > 0 and wanted > alloc.get(resource, 0) - used.get(resource, 0):
                reasons.append(f"Insufficient {resource}")
                if wanted > alloc.get(resource, 0):
                    code = UU
        return ("NodeResourcesFit", code, reasons) if reasons else None

    # ── topology spread ──
    def constraints(self, pod, when):
        return [c for c in pod.spec.topology_spread_constraints or () if c.when_unsatisfiable == when]

    def counted(self, constraint, pod, node):
        """Pods on the node that the constraint counts."""
        selector = self.spread_selector(constraint, pod)
        if selector is None or not selector:
            return 0
        namespace = pod.metadata.namespace
        return sum(
            other.metadata.namespace == namespace and selector.matches(other.metadata.labels or {})
            for other in self.pods[node.name]
        )

    def spread_selector(self, constraint, pod):
        selector = constraint.label_selector
        labels = pod.metadata.labels or {}
        if selector is not None:
            extra = tuple(
                LabelSelectorRequirement(key, "In", (labels[key],))
                for key in constraint.match_label_keys or ()
                if key in labels
            )
            selector = LabelSelector(selector.match_labels, (*(selector.match_expressions or ()), *extra))
        return read_selector(selector)

    def included(self, constraint, pod, node):
        if constraint.node_affinity_policy != "Ignore" and self.affinity(pod, node):
            return False
        return not (constraint.node_taints_policy == "Honor" and self.taints(pod, node))

    def spread(self, pod, node):
        hard = self.constraints(pod, "DoNotSchedule")
        keys = [c.topology_key for c in hard]
        for c in hard:
            domains: dict[str, int] = {}
            for other in self.nodes.values():
                if all(key in other.labels for key in keys) and self.included(c, pod, other):
                    value = other.labels[c.topology_key]
                    domains[value] = domains.get(value, 0) + self.counted(c, pod, other)
            if c.topology_key not in node.labels:
                return (
                    "PodTopologySpread",
                    UU,
                    ["node(s) didn't match pod topology spread constraints (missing required label)"],
                )
            smallest = min(domains.values(), default=2**31 - 1)
            if len(domains) < (c.min_domains or 1):
                smallest = 0
            selector = self.spread_selector(c, pod)
            itself = selector is not None and selector.matches(pod.metadata.labels or {})
            if domains.get(node.labels[c.topology_key], 0) + itself - smallest > c.max_skew:
                return "PodTopologySpread", U, ["node(s) didn't match pod topology spread constraints"]
        return None

    # ── inter-pod affinity ──
    def term_selects(self, term, owner, other):
        namespaces = set(term.namespaces or ())
        if term.namespace_selector is not None:
            chosen = read_selector(term.namespace_selector)
            if chosen is not None:
                namespaces |= {n for n, labels in self.namespaces.items() if chosen.matches(labels)}
                if not chosen:
                    namespaces.add(other.metadata.namespace)
        elif not namespaces:
            namespaces = {owner.metadata.namespace}
        selector = read_selector(term.label_selector)
        return (
            selector is not None
            and other.metadata.namespace in namespaces
            and selector.matches(other.metadata.labels or {})
        )

    def terms(self, pod, which, required=True):
        affinity = pod.spec.affinity
        part = getattr(affinity, which) if affinity else None
        return ((part.required if required else part.preferred) or ()) if part else ()

    def placed(self):
        return [(self.nodes[name], other) for name, pods in self.pods.items() for other in pods]

    def inter_pod(self, pod, node):
        near = self.terms(pod, "pod_affinity")
        if near:
            everyone = [
                (where, other)
                for where, other in self.placed()
                if all(self.term_selects(t, pod, other) for t in near)
            ]
            pairs = {
                (t.topology_key, w.labels[t.topology_key])
                for w, _ in everyone
                for t in near
                if t.topology_key in w.labels
            }
            labelled = all(t.topology_key in node.labels for t in near)
            met = labelled and all((t.topology_key, node.labels[t.topology_key]) in pairs for t in near)
            first = not pairs and all(self.term_selects(t, pod, pod) for t in near) and labelled
            if not met and not first:
                return "InterPodAffinity", UU, ["node(s) didn't match pod affinity rules"]
        for term in self.terms(pod, "pod_anti_affinity"):
            if any(
                same_domain(where, node, term.topology_key) and self.term_selects(term, pod, other)
                for where, other in self.placed()
            ):
                return "InterPodAffinity", U, ["node(s) didn't match pod anti-affinity rules"]
        for where, other in self.placed():
            for term in self.terms(other, "pod_anti_affinity"):
                if same_domain(where, node, term.topology_key) and self.term_selects(term, other, pod):
                    return "InterPodAffinity", U, ["node(s) didn't satisfy existing pods anti-affinity rules"]
        return None

    # ── scores ──
    def totals(self, pod, feasible):
        total = dict.fromkeys(feasible, 0)
        for weight, scores in (
            (3, scaled({n: self.disliked(pod, self.nodes[n]) for n in feasible}, True)),
            (2, self.affinity_scores(pod, feasible)),
            (1, {n: self.least_allocated(pod, self.nodes[n]) for n in feasible}),
            (2, self.spread_scores(pod, feasible)),
            (2, self.inter_pod_scores(pod, feasible)),
            (1, self.balanced(pod, feasible)),
            (1, self.image_scores(pod, feasible)),
        ):
            for name, score in scores.items():
                total[name] += weight * score
        return total

    def disliked(self, pod, node):
        kept = [t for t in pod.tolerations if t.effect in ("", "PreferNoSchedule")]
        return len(untolerated(node.taints, kept, self.gates, SCORING))

    def affinity_scores(self, pod, feasible):
        return scaled({n: preference(pod, self.nodes[n].labels, n, self.gates) for n in feasible}, False)

    def least_allocated(self, pod, node):
        alloc = node_allocatable(node) or {}
        wanted = nonzero_requests(pod)
        total = weights = 0
        for which, resource in enumerate(("cpu", "memory")):
            capacity = alloc.get(resource, 0)
            if capacity == 0:
                continue
            used = sum(nonzero_requests(other)[which] for other in self.pods[node.name]) + wanted[which]
            total += 0 if used > capacity else (capacity - used) * 100 // capacity
            weights += 1
        return total // weights if weights else 0

    def balanced(self, pod, feasible):
        requests = pod_requests(pod)
        if not (requests.get("cpu") or requests.get("memory")):
            return {}

        def balance(node, added):
            alloc = node_allocatable(node) or {}
            shares = []
            for resource in ("cpu", "memory"):
                capacity = alloc.get(resource, 0)
                if capacity == 0:
                    continue
                used = sum(pod_requests(other).get(resource, 0) for other in self.pods[node.name])
                shares.append(min(1.0, (used + added.get(resource, 0)) / capacity))
            deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
            return int((1 - deviation) * 100)

        return {
            n: 50 + cut(50 + balance(self.nodes[n], requests) - balance(self.nodes[n], {}), 2)
            for n in feasible
        }

    def spread_scores(self, pod, feasible):
        soft = self.constraints(pod, "ScheduleAnyway")
        if not soft:
            return {}
        keys = [c.topology_key for c in soft]
        scored = [n for n in feasible if all(key in self.nodes[n].labels for key in keys)]
        raw = {}
        for n in scored:
            node, total = self.nodes[n], 0.0
            for c in soft:
                if c.topology_key == "kubernetes.io/hostname":
                    size, count = len(scored), self.counted(c, pod, node)
                else:
                    size = len({self.nodes[m].labels[c.topology_key] for m in scored})
                    count = sum(
                        self.counted(c, pod, other)
                        for other in self.nodes.values()
                        if all(key in other.labels for key in keys)
                        and self.included(c, pod, other)
                        and other.labels[c.topology_key] == node.labels[c.topology_key]
                    )
                total += count * math.log(size + 2) + (c.max_skew - 1)
            raw[n] = math.floor(total + 0.5)
        if not raw:
            return {}
        high, low = max(raw.values()), min(raw.values())
        return {n: 100 if high == 0 else 100 * (high + low - s) // high for n, s in raw.items()}

    def inter_pod_scores(self, pod, feasible):
        weights: dict[tuple[str, str], int] = {}
        said = False

        def add(where, key, weight):
            nonlocal said
            said = True
            if key in where.labels:
                pair = (key, where.labels[key])
                weights[pair] = weights.get(pair, 0) + weight

        for where, other in self.placed():
            for which, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1)):
                for wanted in self.terms(pod, which, required=False):
                    if self.term_selects(wanted.pod_affinity_term, pod, other):
                        add(where, wanted.pod_affinity_term.topology_key, sign * wanted.weight)
                for wanted in self.terms(other, which, required=False):
                    if self.term_selects(wanted.pod_affinity_term, other, pod):
                        add(where, wanted.pod_affinity_term.topology_key, sign * wanted.weight)
            for term in self.terms(other, "pod_affinity"):
                if self.term_selects(term, other, pod):
                    add(where, term.topology_key, 1)
        if not said:
            return {}
        raw = {
            n: sum(w for (k, v), w in weights.items() if self.nodes[n].labels.get(k) == v) for n in feasible
        }
        high, low = max(raw.values()), min(raw.values())
        return {n: 0 if high == low else int(100.0 * ((s - low) / (high - low))) for n, s in raw.items()}

    def image_scores(self, pod, feasible):
        holders: dict[str, dict[str, int]] = {}
        for name, node in self.nodes.items():
            for image in node.status.images or ():
                for tag in image.names or ():
                    holders.setdefault(tag, {})[name] = image.size_bytes
        images = [
            with_tag(c.image) for c in (*(pod.spec.init_containers or ()), *pod.spec.containers) if c.image
        ]
        most = 1000 * 2**20 * max(len(images), 1)
        result = {}
        for n in feasible:
            total = sum(
                int(holders[i][n] * (len(holders[i]) / len(self.nodes)))
                for i in images
                if n in holders.get(i, {})
            )
            total = min(max(total, 23 * 2**20), most)
            result[n] = 100 * (total - 23 * 2**20) // (most - 23 * 2**20)
        return result

    # ── the whole ──
    def decide(self, pod):
        """Return (node or None, statuses of refused nodes, totals of feasible ones)."""
        statuses = {name: found for name in self.nodes if (found := self.status(pod, name))}
        feasible = [name for name in self.ordered() if name not in statuses]
        totals = self.totals(pod, feasible) if feasible else {}
        best = max(feasible, key=lambda n: totals[n]) if feasible else None
        return best, statuses, totals


def read_selector(selector):
    return from_object(msgspec.to_builtins(selector)) if selector is not None else None


def same_domain(a, b, key):
    return key in a.labels and key in b.labels and a.labels[key] == b.labels[key]
