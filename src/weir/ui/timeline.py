"""Timeline screen: the effect of a change over time, as `weir what-if` computes it.

The response is the document of `weir what-if -o json`, the command that makes the change, and, for a taint, the
values that make a difference: each threshold of each toleration of its key, and the value on its other side; a slider
needs no other stops. The counts beside each value are of this moment; where pods go, only the simulation says.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Any, Final

from weir.gates import GateError, Gates, parse_settings
from weir.inputs.certainty import distinct
from weir.inputs.forecasts import (
    check_kinds,
    not_considered,
    places_unmeasured,
    run_copy,
    unmeasured_nodes,
    used_gates,
)
from weir.objects.core import Node, Pod, Taint
from weir.selectors.labels import SelectorError, parse
from weir.taints.eviction import stay
from weir.taints.notation import NODE_EFFECTS, TaintNotationError, parse_taint
from weir.taints.operators import find_comparison
from weir.taints.toleration import EVICTING
from weir.ui.source import ClusterView
from weir.values.integer import IntegerError, parse_int64
from weir.values.semver import find_tolerant
from weir.whatif import changes as made
from weir.whatif.forecast import Forecast
from weir.whatif.horizon import Tick
from weir.whatif.report import report
from weir.whatif.run import HOUR, WhatIfOptions

Document = dict[str, Any]
MOST_TICKS: Final = 60
#: A change the page can request, and whether it can be made in a live cluster from there.
KINDS: Final = ("taint", "untaint", "drain", "cordon", "uncordon", "delete-node", "gates", "apply")
_LONGEST: Final = 24 * HOUR
_GRACE_SECONDS: Final = 30  #: of a pod that does not say


class BadQuestion(ValueError):
    """An invalid request, with the problem."""


@dataclass(frozen=True)
class Question:
    """A requested change, as the page describes it."""

    kind: str
    nodes: made.Nodes = field(default_factory=made.Nodes)
    taint: Taint = field(default_factory=Taint)
    settings: str = ""
    documents: tuple[Document, ...] = ()
    force: bool = False
    until: float = HOUR

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Question:
        """Return what the page asks; raises BadQuestion."""
        kind = body.get("change")
        if kind not in KINDS:
            raise BadQuestion(f"change: expected one of {', '.join(KINDS)}")
        until = body.get("until", HOUR)
        if not isinstance(until, int | float) or isinstance(until, bool) or not 0 < until <= _LONGEST:
            raise BadQuestion(f"until: expected seconds, at most {_LONGEST:g}")
        found = {"kind": kind, "until": float(until), "force": body.get("force") is True}
        if kind == "gates":
            try:
                Gates(parse_settings(_text(body, "gates")))
            except GateError as error:
                raise BadQuestion(f"gates: {error}") from None
            return cls(**found, settings=_text(body, "gates"))
        if kind == "apply":
            return cls(**found, documents=(_rule(body.get("rule")),))
        found["nodes"] = _nodes(body.get("nodes"))
        if kind in ("taint", "untaint"):
            found["taint"] = _taint(body, effect_required=kind == "taint")
        return cls(**found)

    def change(self, gates: Gates) -> made.Change:
        """Return the change itself."""
        match self.kind:
            case "taint" | "untaint":
                return made.Taint(self.nodes, (made.TaintEdit(self.taint, self.kind == "untaint"),))
            case "drain":
                return made.Drain(self.nodes, self.force)
            case "cordon" | "uncordon":
                return made.Cordon(self.nodes, on=self.kind == "cordon")
            case "delete-node":
                return made.DeleteNode(self.nodes)
            case "gates":
                return made.SetGates(tuple(parse_settings(self.settings).items()), (), before=gates)
        return made.Apply(self.documents)

    def commands(self) -> list[str]:
        """Return what makes the change on a command line, and what asks the same question there."""
        nodes = _words(self.nodes)
        match self.kind:
            case "taint" | "untaint":
                taint = f"{self.taint}{'-' if self.kind == 'untaint' else ''}"
                return [_command("kubectl", "taint", "nodes", *_for_kubectl(self.nodes), taint),
                        _command("weir", "what-if", "taint", *nodes, taint)]  # fmt: skip
            case "drain":
                options = [
                    "--ignore-daemonsets",
                    "--delete-emptydir-data",
                    *(["--force"] if self.force else []),
                ]
                return [_command("kubectl", "drain", *_for_drain(self.nodes), *options),
                        _command("weir", "what-if", "drain", *nodes, *(["--force"] if self.force else []))]  # fmt: skip
            case "cordon" | "uncordon":
                return [_command("kubectl", self.kind, *_for_drain(self.nodes)),
                        _command("weir", "what-if", self.kind, *nodes)]  # fmt: skip
            case "delete-node":
                return [_command("kubectl", "delete", "node", *_for_kubectl(self.nodes)),
                        _command("weir", "what-if", "delete-node", *nodes)]  # fmt: skip
            case "gates":
                return [
                    f"--feature-gates={self.settings}",
                    _command("weir", "what-if", "gates", self.settings),
                ]
        return ["kubectl apply -f rule.yaml", "weir what-if apply -f rule.yaml"]


def _command(*words: str) -> str:
    return shlex.join(words)


def _words(nodes: made.Nodes) -> list[str]:
    if nodes.names:
        return list(nodes.names)
    return ["-l", nodes.selector] if nodes.selector else ["--all-nodes"]


def _for_kubectl(nodes: made.Nodes) -> list[str]:
    return list(nodes.names) or (["-l", nodes.selector] if nodes.selector else ["--all"])


def _for_drain(nodes: made.Nodes) -> list[str]:
    return list(nodes.names) or [
        "-l",
        nodes.selector,
    ]  # kubectl drain has no --all; an empty selector means all


# ── reading a question ───────────────────────────────────────────────────────────────────────────


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name, "")
    if not isinstance(found, str) or len(found) > 4096:
        raise BadQuestion(f"{name}: expected a text")
    return found.strip()


def _nodes(body: Any) -> made.Nodes:
    if not isinstance(body, dict):
        raise BadQuestion('nodes: expected {"names": […]}, {"selector": "…"} or {"all": true}')
    names, selector = body.get("names") or [], _text(body, "selector")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BadQuestion("nodes.names: expected a list of names")
    if sum((bool(names), bool(selector), body.get("all") is True)) != 1:
        raise BadQuestion("nodes: name nodes, or give a selector, or all: one of them")
    try:
        parse(selector)
    except SelectorError as error:
        raise BadQuestion(f"nodes.selector: {error}") from None
    return made.Nodes(tuple(names), selector)


def _taint(body: Mapping[str, Any], *, effect_required: bool) -> Taint:
    key, value, effect = (_text(body, name) for name in ("key", "value", "effect"))
    written = f"{key}={value}" if value else key
    try:
        return parse_taint(
            f"{written}:{effect}" if effect else written, NODE_EFFECTS, effect_required=effect_required
        )
    except TaintNotationError as error:
        raise BadQuestion(f"taint: {error}") from None


def _rule(rule: Any) -> Document:
    if not isinstance(rule, dict) or rule.get("kind") != "DeviceTaintRule":
        raise BadQuestion("rule: expected a DeviceTaintRule")
    metadata = rule.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise BadQuestion("rule: metadata.name is missing")
    return rule


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


def foresee(seen: ClusterView, question: Question, tick: Tick | None = None) -> tuple[Document, Forecast]:
    """Return what a copy of the cluster lives through: the document of `weir what-if -o json`, and the command."""
    check_kinds(seen.held, question.documents)
    used = used_gates(seen.held, question.documents)
    now = datetime.now(UTC)
    unread = [each.plural for each in seen.held.missing]

    def answer(gates: Gates) -> Forecast:
        return run_copy(seen.held, [question.change(gates)], WhatIfOptions(gates, now, question.until), tick)

    def machine(found: Forecast, gates: Gates) -> Document:
        return report(found, gates, seen.known.report(), list(not_considered(found, unread)))

    def same(one: Forecast, other: Forecast) -> bool:
        return machine(one, Gates()) == machine(other, Gates())

    (gates, found), *others = distinct(seen.known, used, answer, same)
    document = machine(found, gates)
    for other_gates, other in others:
        document["otherwise"] = machine(other, other_gates)
    if places := places_unmeasured(found, unmeasured_nodes(seen.held)):
        document["uncertain"] = places
    grace = {each["pod"]: _grace(seen, each["pod"]) for each in document["leaving"]}
    return {
        "schema": "weir.ui.what-if/v1",
        "whatIf": document,
        "graceSeconds": grace,
        "commands": question.commands(),
    }, found


def _grace(seen: ClusterView, pod: str) -> int:
    spec = (seen.pods.get(pod) or {}).get("spec") or {}
    seconds = spec.get("terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else _GRACE_SECONDS


# ── the values that matter ───────────────────────────────────────────────────────────────────────


def ticks(seen: ClusterView, question: Question) -> Document:
    """Return the values of a taint at which something changes, lowest first, each with the pods it keeps and evicts."""
    gates = seen.known.possible(())[0]
    chosen = chosen_nodes(seen, question.nodes)
    names = {node.name for node in chosen}
    there = [pod for pod in seen.world.pods.values() if pod.spec.node_name in names and not pod.terminated]
    key, effect = question.taint.key, question.taint.effect
    thresholds = _thresholds(seen, key, effect)
    found = []
    own = {question.taint.value} - {""}
    values = _ordered({*thresholds, *_beside(seen, key), *_carried(seen, key), *own})
    for value in _spread(values, MOST_TICKS, own):
        stays, leaves, later = _counts(there, Taint(key, value, effect), gates)
        found.append(
            {
                "value": value,
                "thresholds": sorted(thresholds.get(value, ())),
                "stay": stays,
                "leave": leaves,
                "later": later,
            }
        )
    return {
        "schema": "weir.ui.ticks/v1",
        "nodes": len(chosen),
        "pods": len(there),
        "values": len(values),
        "ticks": found,
    }


def chosen_nodes(seen: ClusterView, nodes: made.Nodes) -> list[Node]:
    """Return the nodes a question is about."""
    if nodes.names:
        return [seen.world.nodes[name] for name in nodes.names if name in seen.world.nodes]
    selector = parse(nodes.selector)
    return [node for node in seen.world.nodes.values() if selector.matches(node.metadata.labels or {})]


def _counts(pods: Sequence[Pod], taint: Taint, gates: Gates) -> tuple[int, int, int]:
    """Return how many pods may stay for ever, must leave at once, and may stay for a while."""
    if taint.effect not in EVICTING:
        return len(pods), 0, 0
    limits = [stay([taint], pod.tolerations, gates).limit for pod in pods]
    stays = sum(limit is None for limit in limits)
    leaves = sum(limit is not None and not limit for limit in limits)
    return stays, leaves, len(limits) - stays - leaves


def _thresholds(seen: ClusterView, key: str, effect: str) -> dict[str, set[str]]:
    """Return the values that tolerations of *key* name, each with its tolerations."""
    found: dict[str, set[str]] = {}
    for workload in seen.workloads:
        for each in _tolerations(workload.subject.pod_spec):
            if each.get("key") == key and each.get("value") and each.get("effect") in (None, "", effect):
                operator = each.get("operator") or "Equal"
                found.setdefault(str(each["value"]), set()).add(f"{operator} {each['value']} ({workload.id})")
    return found


def _beside(seen: ClusterView, key: str) -> Iterable[str]:
    """Yield the nearest value on the other side of each threshold."""
    for workload in seen.workloads:
        for each in _tolerations(workload.subject.pod_spec):
            if each.get("key") == key and isinstance(each.get("value"), str):
                comparison = find_comparison(each.get("operator"))
                if comparison is not None and (value := comparison.beside(each["value"])):
                    yield value


def _carried(seen: ClusterView, key: str) -> set[str]:
    return {
        taint.value
        for node in seen.world.nodes.values()
        for taint in node.taints
        if taint.key == key and taint.value
    }


def _tolerations(spec: Any) -> list[Document]:
    found = spec.get("tolerations") if isinstance(spec, dict) else None
    return [each for each in found or () if isinstance(each, dict)]


def _spread(values: Sequence[str], most: int, kept: Set[str]) -> Sequence[str]:
    """Return at most *most* of *values* from the first to the last, with those that are *kept*.

    >>> _spread(["1", "2", "3", "4", "5", "6"], 4, {"5"})
    ['1', '3', '5', '6']
    """
    if len(values) <= most:
        return values
    at = {position for position, value in enumerate(values) if value in kept}
    steps = most - len(at)
    at |= {step * (len(values) - 1) // (steps - 1) for step in range(steps)}
    return [values[position] for position in sorted(at)]


def _ordered(values: Iterable[str]) -> list[str]:
    """Return values in the order a slider has them: numbers, then versions, then names.

    >>> _ordered({"10", "9", "b", "1.10.0", "1.9.0"})
    ['9', '10', '1.9.0', '1.10.0', 'b']
    """

    def rank(value: str) -> tuple[int, Any]:
        try:
            return 0, parse_int64(value)
        except IntegerError:
            version = find_tolerant(value)
            return (2, value) if version is None else (1, version)

    def compare(one: str, other: str) -> int:
        (kind, left), (other_kind, right) = rank(one), rank(other)
        if kind != other_kind:
            return kind - other_kind
        return -1 if left < right else int(right < left)

    return sorted(sorted(values), key=cmp_to_key(compare))
