"""What would the scheduler itself write? The message of its event and of the pod's condition.

Spec: core.md 3.6 "Reason strings of all filters", 3.10 "Events and conditions". Unlike explain, the scheduler stops
at the first filter that refuses a node, so each node counts with that filter's reasons only.
Not here: sentences for people (weir.explain.words).
"""

from __future__ import annotations

from typing import Final

from weir.explain.explanation import Explanation
from weir.explain.reasons import Gated, Over, Reason, Refused, UnreadablePreference, UntoleratedTaint
from weir.objects.core import Pod
from weir.selectors.node import NODE_NAME_FIELD, required_selector

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"


def scheduler_message(explanation: Explanation, *, upstream: bool = False) -> str:
    """Return what the scheduler would write as event and condition, or "" when it would write nothing.

    With *upstream* in the words of Kubernetes 1.35 and later, which keep the taint to themselves. The part about
    preemption is left out where it depends on a dry run.
    """
    if explanation.fits or explanation.placed_on or explanation.pod.spec.node_name:
        return ""
    if any(isinstance(reason, Gated | Over | Refused) for reason in explanation.blockers):
        return ""
    total = len(explanation.nodes)
    if not total:
        return "no nodes available to schedule pods"
    head = f"0/{total} nodes are available:"
    useless = f"preemption: {head} {total} {_NOT_HELPFUL}."
    if isinstance(explanation.blockers[0] if explanation.blockers else None, UnreadablePreference):
        return explanation.blockers[0].message()
    if explanation.blockers:
        # Upstream's device plugin loses its state here and says so; an accident worth repeating only verbatim.
        return f"{head} {explanation.blockers[0].message()}. {'not found' if upstream else useless}"
    named = narrowed(explanation.pod)
    if named is not None and not named:
        return f"{head} pod affinity terms conflict. {'not found' if upstream else useless}"
    counts: dict[str, int] = {}
    hopeless = 0
    for verdict in explanation.nodes:
        if named is not None and verdict.node not in named:
            reasons, helpless = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"], True
        else:
            deciding = verdict.deciding
            reasons = [_message(reason, upstream) for reason in deciding]
            helpless = not all(reason.preemptible for reason in deciding)
        hopeless += helpless
        for text in reasons:
            counts[text] = counts.get(text, 0) + 1
    histogram = ", ".join(sorted(f"{number} {text}" for text, number in counts.items()))
    if explanation.pod.spec.preemption_policy == "Never":
        return f"{head} {histogram}. preemption: not eligible due to preemptionPolicy=Never."
    if any(verdict.victims for verdict in explanation.nodes):
        return f"{head} {histogram}."
    tried = ((total - hopeless, _NO_VICTIMS), (hopeless, _NOT_HELPFUL))
    return f"{head} {histogram}. preemption: {head} {', '.join(sorted(f'{n} {t}' for n, t in tried if n))}."


def _message(reason: Reason, upstream: bool) -> str:
    if upstream and isinstance(reason, UntoleratedTaint):
        return "node(s) had untolerated taint(s)"
    return reason.message()


def narrowed(pod: Pod) -> frozenset[str] | None:
    """Return the only nodes the scheduler looks at, when every affinity term names nodes; else None."""
    required = required_selector(pod)
    names: set[str] = set()
    for term in (required.node_selector_terms or ()) if required else ():
        listed_names = [
            frozenset(requirement.values or ())
            for requirement in term.match_fields or ()
            if (requirement.key, requirement.operator) == (NODE_NAME_FIELD, "In")
        ]
        if not listed_names:
            return None
        names |= frozenset.intersection(*listed_names)
    return frozenset(names) if required and required.node_selector_terms else None
