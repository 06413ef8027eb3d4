"""What no forecast knows about a plan, with the objects of the cluster that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from weir.explain.phrases import counted, listed

Document = dict[str, Any]
#: A pod that does not say how long it may take to end may take so long.
_GRACE_SECONDS: Final = 30
#: On nodes that Karpenter adds and removes.
_KARPENTER: Final = "karpenter.sh/nodepool"


def unknowns(evicted: Iterable[Document], workloads: set[str], objects: Sequence[Document]) -> Iterator[str]:
    """Yield what is not known of a plan that moves pods of *workloads* in the cluster of *objects*, those but pods."""
    yield _durations(evicted)
    yield _autoscalers(workloads, objects)
    yield "what other people and programs change meanwhile"
    jobs = sorted(name for name in workloads if "/Job/" in name)
    named = (
        f": {listed([name.replace('/Job/', '/') for name in jobs], 3)} may end by themselves" if jobs else ""
    )
    yield f"when jobs end{named}"


def _durations(evicted: Iterable[Document]) -> str:
    text = "how long pods take to end and to start: each wave waits for its state, times are foreseen, not promised"
    grace, name = max(map(_grace, evicted), default=(0, ""))
    return f"{text}; {name} may take {grace} s to end" if grace > _GRACE_SECONDS else text


def _grace(pod: Document) -> tuple[int, str]:
    metadata = pod["metadata"]
    seconds = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
    return _GRACE_SECONDS if seconds is None else seconds, name


def _autoscalers(workloads: set[str], objects: Sequence[Document]) -> str:
    scaled = sorted(
        f"{namespace}/{each['metadata']['name']}"
        for each in objects
        if each.get("kind") == "HorizontalPodAutoscaler"
        for namespace in (each["metadata"].get("namespace") or "default",)
        for target in ((each.get("spec") or {}).get("scaleTargetRef") or {},)
        if f"{namespace}/{target.get('kind')}/{target.get('name')}" in workloads
    )
    managed = sum(
        _KARPENTER in (each["metadata"].get("labels") or {}) for each in objects if each.get("kind") == "Node"
    )
    named = [f"the HorizontalPodAutoscaler {listed(scaled, 3)} scales pods that are moved"] if scaled else []
    named += [f"Karpenter manages {counted(managed, 'node')}"] if managed else []
    text = "autoscalers that add or remove nodes or pods meanwhile"
    return f"{text}: {', '.join(named)}" if named else text
