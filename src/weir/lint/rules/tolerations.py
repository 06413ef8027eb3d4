"""Rules about tolerations: what they match in vain, twice, or too widely."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity, listed
from weir.lint.subject import MOST_TOLERATIONS, Facts, Path, Subject
from weir.objects.core import Toleration
from weir.taints.operators import find_in_affinity, find_operator
from weir.taints.toleration import compares, gate_of, tolerates
from weir.taints.wellknown import OWN_PREFIXES


def _never_matches(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations that tolerate none of the known taints."""
    if not facts.taints:
        return
    for path, toleration in subject.tolerations:
        if toleration.key.startswith(OWN_PREFIXES) or not (toleration.key or toleration.expression):
            continue
        if not any(tolerates(toleration, taint, facts.gates) for taint in facts.taints):
            yield Problem(
                path, _why_never(toleration, facts), "remove it, or correct its key, value or effect"
            )


def _why_never(toleration: Toleration, facts: Facts) -> str:
    if toleration.expression:
        return f"the expression tolerates none of the {len(facts.taints)} taints on the {facts.nodes} given nodes"
    same_key = [taint for taint in facts.taints if taint.key == toleration.key]
    if not same_key:
        return f"no given node has a taint with the key {toleration.key}"
    effects = sorted({taint.effect for taint in same_key})
    if toleration.effect and toleration.effect not in effects:
        return (
            f"{toleration.key} is on given nodes only with {' and '.join(effects)}, not {toleration.effect}"
        )
    values = list(dict.fromkeys(taint.value for taint in same_key))
    return f"no given node has {toleration.key} with a value this tolerates; the values are {listed(values)}"


W006 = Rule(
    code="W006",
    name="never-matches",
    severity=Severity.WARNING,
    summary="A toleration matches no taint of the given nodes.",
    help="""\
Every taint of the given nodes was held against this toleration, and none is tolerated by it. A misspelt key, a wrong
effect or an impossible value does no harm that anyone sees: the pod just stays pending.

Taints that Kubernetes sets by itself (`node.kubernetes.io/…`) are left out: they come and go.
Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=_never_matches,
)


def _shadowed(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield each toleration that an earlier, or an equally lasting later one makes useless."""
    entries = subject.tolerations
    for index, (path, toleration) in enumerate(entries):
        for other_index, (_, other) in enumerate(entries):
            if other_index == index or not covers(other, toleration):
                continue
            if other_index > index and (covers(toleration, other) or not _same_stay(toleration, other)):
                continue  # equal entries are reported once; a first entry with other seconds still decides
            yield Problem(
                path,
                f"this entry changes nothing: entry {other_index} ({_show(other)}) tolerates all that it does"
                + (" and comes first" if other_index < index else ""),
                "remove it",
            )
            break


def covers(broad: Toleration, narrow: Toleration) -> bool:
    """Return whether *broad* surely tolerates every taint that *narrow* tolerates.

    >>> covers(Toleration("sla", "Gt", "100"), Toleration("sla", "Gt", "900"))
    True
    """
    if broad.expression or narrow.expression:
        return broad.expression == narrow.expression
    if broad.key and broad.key != narrow.key:
        return False
    if broad.effect and broad.effect != narrow.effect:
        return False
    operator, other = find_operator(broad.operator), find_operator(narrow.operator)
    if operator is None or other is None:
        return broad.operator == narrow.operator and broad.value == narrow.value
    if not broad.key and operator.takes_value:
        return False
    return operator.covers(broad.value, other, narrow.value)


def _same_stay(first: Toleration, second: Toleration) -> bool:
    return first.toleration_seconds == second.toleration_seconds


def _show(toleration: Toleration) -> str:
    if toleration.expression:
        return f"expression {toleration.expression}"
    words = [toleration.key or "any key", toleration.operator or "Equal"]
    return " ".join(words + ([toleration.value] if toleration.value else []))


W007 = Rule(
    code="W007",
    name="shadowed",
    severity=Severity.WARNING,
    summary="A toleration is covered by a broader one and changes nothing.",
    help="""\
Tolerations are ORed, and for each taint the first entry that tolerates it decides, its `tolerationSeconds` included.
An entry behind a broader one is therefore never used.

```yaml
tolerations:
- {key: sla, operator: Exists}
- {key: sla, operator: Gt, value: "900"}   # never used
```

A range cannot be written either: `Gt 100` together with `Lt 200` tolerates everything but nothing in between is
excluded, because either entry is enough.""",
    check=_shadowed,
)


def _seconds_on_match(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the comparisons that carry a time limit."""
    for path, toleration in subject.tolerations:
        if toleration.toleration_seconds is None:
            continue
        if compares(toleration):
            seconds = max(0, toleration.toleration_seconds)
            yield Problem(
                (*path, "tolerationSeconds"),
                f"the pod is evicted after {seconds} s even while the value is good, and at once when it turns bad",
                "leave tolerationSeconds out: the comparison alone keeps the pod while the value is good",
            )


W009 = Rule(
    code="W009",
    name="seconds-on-match",
    severity=Severity.WARNING,
    summary="tolerationSeconds limits a toleration that matches; it is no grace after the value degrades.",
    help="""\
`tolerationSeconds` says how long a *matching* toleration lasts. A pod with `Lt 5` and 30 seconds on a node at 2 is
evicted 30 seconds after it arrives; its controller puts a new one there, and so on. When the value rises to 5 the
toleration no longer matches and the pod is deleted at once: there is no grace either way beyond
`terminationGracePeriodSeconds`.""",
    check=_seconds_on_match,
)


def _empty_toleration(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations without any content."""
    for path, toleration in subject.tolerations:
        if toleration == Toleration():
            yield Problem(
                path,
                "an empty toleration matches every taint that has no value, node conditions included; "
                "the API server refuses it, a component that dropped `expression` is left with it",
                "remove it, or write what it should tolerate",
            )


W010 = Rule(
    code="W010",
    name="empty-toleration",
    severity=Severity.WARNING,
    summary="The toleration {} tolerates every taint with an empty value.",
    help="""\
No operator means `Equal`, no key means every key, no effect every effect: `{}` is "any taint whose value is empty",
which includes `node.kubernetes.io/not-ready` and all its kin. The API server refuses it on creation. It appears all
the same where an old component drops the `expression` field it does not know: what remains is `{}`.""",
    check=_empty_toleration,
)


def _tolerates_everything(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the tolerations that name no key."""
    for path, toleration in subject.tolerations:
        if toleration.operator == "Exists" and not toleration.key and not toleration.expression:
            effect = f"every {toleration.effect} taint" if toleration.effect else "every taint"
            severity = Severity.NOTE if subject.kind == "DaemonSet" else None
            yield Problem(
                path,
                f"tolerates {effect}, node conditions too: the pod stays on nodes that are not ready or unreachable",
                "name the keys it should tolerate",
                severity,
            )


W011 = Rule(
    code="W011",
    name="tolerates-everything",
    severity=Severity.WARNING,
    summary="Exists without a key tolerates every taint, node conditions included.",
    help="""\
`operator: Exists` without a key is the wildcard. It also tolerates `node.kubernetes.io/unreachable` and
`not-ready` for ever, so the pod is not moved away from a dead node. For node agents that is meant (in a DaemonSet it
is only a note); for a workload it rarely is.""",
    check=_tolerates_everything,
)


def _gate_off(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield every use of a gated feature whose gate is off; with it on, which workloads depend on it."""
    seen: set[str] = set()
    for path, word, gate in gated_uses(subject):
        if not facts.gates.enabled(gate):
            yield Problem(
                path, _without_gate(subject, word, gate), f"turn it on with --feature-gates={gate}=true"
            )
        elif subject.owns_pods and gate not in seen:
            seen.add(gate)
            yield Problem(
                path,
                f"{subject.name} would loop if {gate} were turned off: every pod its controller creates would be "
                "refused, again and again",
                f"rewrite it before turning {gate} off",
                Severity.NOTE,
            )


def gated_uses(subject: Subject) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, the word and the gate of every gated feature *subject* uses."""
    for path, toleration in subject.tolerations:
        if gate := gate_of(toleration):
            field = "expression" if toleration.expression else "operator"
            yield (*path, field), "expression" if toleration.expression else toleration.operator, gate
    for path, requirement in subject.requirements:
        comparison = find_in_affinity(requirement.operator)
        if comparison is not None and comparison.affinity_gate:
            yield (*path, "operator"), requirement.operator, comparison.affinity_gate


def _without_gate(subject: Subject, word: str, gate: str) -> str:
    effect = f"{word} needs the feature gate {gate}, which is off: it is refused when new and matches nothing"
    if subject.owns_pods:
        return f"{effect}; {subject.name} would loop, its controller creating pods that are refused"
    return effect


W014 = Rule(
    code="W014",
    name="gate-off",
    severity=Severity.WARNING,
    summary="A gated feature is used while its gate is off.",
    help="""\
With a gate off the API server refuses new objects that use the feature, while objects stored earlier stay and may be
updated. Matching treats such a toleration as absent: pending pods stay pending, and pods that rely on it for a
NoExecute taint are evicted.

The worst case is a Deployment, Job or DaemonSet stored while the gate was on: its controller creates pods that are
refused, for ever. Such workloads are named, as a note even while the gate is on, because they must be rewritten
before it is turned off.""",
    check=_gate_off,
)


def _too_many_tolerations(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the list of tolerations when it is longer than is compared."""
    if subject.pod_spec_path is not None and subject.toleration_count > MOST_TOLERATIONS:
        yield Problem(
            (*subject.pod_spec_path, "tolerations"),
            f"{subject.toleration_count} tolerations: rules look at the first {MOST_TOLERATIONS} of them",
            "tolerate a group of taints with one entry: a key with Exists, a comparison, or an expression",
        )


W016 = Rule(
    code="W016",
    name="too-many-tolerations",
    severity=Severity.WARNING,
    summary="A pod has more tolerations than rules compare with each other.",
    help=f"""\
The scheduler holds every toleration of a pod against every taint of a node, and several rules of `weir lint` compare
tolerations with each other. They look at the first {MOST_TOLERATIONS}; validation (W001) looks at all of them.""",
    check=_too_many_tolerations,
)
