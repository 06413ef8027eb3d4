"""Patches that add missing entries to stored pods: one merge patch with the pod's resourceVersion.

Spec: stock.md 3. A concurrent write is a conflict, after which the pod is read again: nothing that another replica
added is lost. The same patch removes the gate where the pod is to be released, so that no pod is bound without its
entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.events import ObjectReference, Recorder, reference
from weir.lowering.admission import many_entries, too_many_entries
from weir.lowering.grace import ended, graced
from weir.lowering.key_entries import closed
from weir.lowering.names import GATE, OPERATOR
from weir.lowering.ownership import given_back
from weir.lowering.tolerations import (
    MANY_ENTRIES,
    MOST_ENTRIES,
    Completed,
    LoweredList,
    complete,
    read_entry,
    read_originals,
)
from weir.lowering.triples import Triple
from weir.lowering.webhooks import LAST_APPLIED
from weir.objects.kinds import PODS
from weir.operator.aside import Aside, takes_long
from weir.operator.metrics import OperatorMetrics
from weir.operator.views import LoweredPod, version_of
from weir.taints.expression import STOPPED_REASON
from weir.taints.expression import shared as shared_expressions

_TRIES: Final = 10

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a pod: its version now (0: it is gone), where it is bound by now, what did not fit."""

    version: int
    node: str = ""
    added: tuple[Triple, ...] = ()
    left_out: tuple[Triple, ...] = ()


def _lacks(pod: LoweredPod, triples: Iterable[Triple], native_numeric: bool) -> tuple[Triple, ...]:
    if pod.ended or pod.tolerations is None or not pod.tolerations.originals:
        return ()
    return pod.tolerations.lack(triples, native_numeric)


@dataclass(frozen=True, slots=True)
class _State:
    """What a patch is made from: a pod as some version of it was."""

    version: str
    node: str
    gates: tuple[str, ...]
    deleting: bool
    tolerations: list[Document]
    originals: Mapping[str, Document]

    @classmethod
    def of_view(cls, pod: LoweredPod) -> _State:
        found = pod.tolerations
        entries, originals = (found.entries, found.originals) if found is not None else ([], {})
        return cls(pod.metadata.resource_version, pod.node, pod.gates, pod.ended, entries, originals)

    @classmethod
    def of_document(cls, pod: Mapping[str, Any]) -> _State:
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        return cls(
            metadata["resourceVersion"],
            spec.get("nodeName") or "",
            tuple(gate.get("name") or "" for gate in spec.get("schedulingGates") or ()),
            bool(metadata.get("deletionTimestamp")),
            spec.get("tolerations") or [],
            read_originals(metadata.get("annotations")),
        )


def _workload(pod: Document) -> ObjectReference:
    """Return what events about *pod* are recorded of: its controller, so that those of many pods are folded."""
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            named = (owner["kind"], owner["name"], metadata["namespace"], owner["uid"], owner["apiVersion"])
            return ObjectReference(*named)
    return reference(pod, "Pod")


class Entries:
    """Adds entries to stored pods."""

    def __init__(self, client: Client, metrics: OperatorMetrics, recorder: Recorder, aside: Aside) -> None:
        self._client, self._metrics, self._recorder, self.aside = client, metrics, recorder, aside
        self.native_numeric = False
        #: How long a bound pod stays that a controller has not seen with its newest entry; 0: no grace.
        self.grace_seconds = 0
        self._giving_back: set[asyncio.Task[None]] = set()

    async def lacks(self, pod: LoweredPod, triples: Iterable[Triple]) -> tuple[Triple, ...]:
        """Return which of *triples* the pod tolerates by an extended entry and has nothing for."""
        return await self.aside.run(pod.evaluates, _lacks, pod, triples, self.native_numeric)

    async def lacking(self, pods: Iterable[LoweredPod], triples: tuple[Triple, ...]) -> list[LoweredPod]:
        """Return those of *pods* that lack one of *triples*; beside the loop all are judged in one go."""
        groups: tuple[list[LoweredPod], list[LoweredPod]] = ([], [])
        for pod in pods:
            groups[pod.evaluates].append(pod)

        def lack(some: list[LoweredPod]) -> list[LoweredPod]:
            return [pod for pod in some if _lacks(pod, triples, self.native_numeric)]

        return lack(groups[False]) + await self.aside.run(bool(groups[True]), lack, groups[True])

    async def overstays(
        self, pod: LoweredPod, evicting: Iterable[Triple], *, grace: bool = False
    ) -> set[str]:
        """Return the keys of *evicting* that only a key entry of a bound pod, or its *grace*, tolerates."""
        if pod.ended or not pod.node or pod.tolerations is None or not pod.tolerations.may_overstay:
            return set()
        found = LoweredList(pod.tolerations.entries, pod.tolerations.originals, self.native_numeric)
        return await self.aside.run(pod.evaluates, found.overstays, evicting, grace=grace)

    async def add(
        self,
        pod: LoweredPod,
        triples: Callable[[], Iterable[Triple]],
        why: str,
        *,
        release: bool = False,
        leaves: Collection[str] = (),
    ) -> Written:
        """Add what *pod* lacks of *triples*, and with *release* remove its gate. Raises ApiError, Unreachable.

        For the keys that it *leaves* because of, it gets no grace any more, and its key entries are closed.

        The copy we have is good enough for a first try: the server compares its version. A pod of the same name that
        has taken its place is another: what was looked at before it was made says nothing about it.
        """
        metadata = pod.metadata
        state: _State | None = _State.of_view(pod)
        for _ in range(_TRIES):
            try:
                if state is None:
                    stored = await self._client.get(PODS, metadata.name, metadata.namespace)
                    if stored["metadata"]["uid"] != metadata.uid:
                        return Written(0)
                    state = _State.of_document(stored)
                patch, done = await self._patch(state, triples(), release, leaves)
                about = ObjectReference("Pod", metadata.name, metadata.namespace, metadata.uid)
                self.warn(about, state.originals.values())
                if patch is None:
                    return Written(version_of(state.version), state.node, done.added, done.left_out)
                written = await self._client.patch(
                    PODS, metadata.name, patch, metadata.namespace, field_manager=OPERATOR
                )
            except errors.NotFound:
                return Written(0)
            except errors.Conflict:
                state = None
                continue
            self._metrics.added.child(why).inc(len(done.added))
            self._report(written, done, release)
            if done.added or leaves:
                self._give_back(written)
            if leaves:
                self._metrics.grace.child("ended").inc()
            state = _State.of_document(written)
            return Written(version_of(state.version), state.node, done.added, done.left_out)
        raise errors.Conflict(f"pod {metadata.namespace}/{metadata.name} is changed by others all the time")

    def warn(self, about: ObjectReference, tolerations: Iterable[Document]) -> None:
        """Record, once for each object, that one of its expressions is not evaluated any more."""
        expressions = shared_expressions()
        if not expressions.stopped:
            return
        identity = about.uid or f"{about.kind} {about.namespace}/{about.name}"
        if warning := expressions.warning(identity, map(read_entry, tolerations)):
            self._recorder.record(about, "Warning", STOPPED_REASON, warning)

    async def _patch(
        self, state: _State, triples: Iterable[Triple], release: bool, leaves: Collection[str]
    ) -> tuple[Document | None, Completed]:
        stored = state.tolerations
        if leaves:
            before = closed(ended(state.tolerations, leaves), leaves)
            state = replace(state, tolerations=before)
        done = await self._complete(state, triples)
        tolerations = done.tolerations
        change: Document = {"tolerations": tolerations} if tolerations != stored else {}
        if release and GATE in state.gates:
            change["schedulingGates"] = [{"name": name} for name in state.gates if name != GATE] or None
        if not change or state.deleting:
            return None, Completed(stored, (), done.left_out)
        return {"metadata": {"resourceVersion": state.version}, "spec": change}, done

    async def _complete(self, state: _State, triples: Iterable[Triple]) -> Completed:
        expressions = takes_long(state.originals.values())
        return await self.aside.run(
            expressions,
            complete,
            state.tolerations,
            state.originals,
            triples,
            self.native_numeric,
            bound=bool(state.node),
        )

    async def give_grace(self, pod: LoweredPod) -> None:
        """Give a bound pod time for the keys of its extended tolerations. Raises ApiError, Unreachable."""
        state = _State.of_view(pod)
        tolerations = graced(state.tolerations, state.originals, self.grace_seconds)
        if tolerations == state.tolerations or len(tolerations) > MOST_ENTRIES:
            return
        patch = {"metadata": {"resourceVersion": state.version}, "spec": {"tolerations": tolerations}}
        metadata = pod.metadata
        with suppress(errors.NotFound):
            written = await self._client.patch(
                PODS, metadata.name, patch, metadata.namespace, field_manager=OPERATOR
            )
            self._metrics.grace.child("given").inc()
            self._give_back(written)

    def _give_back(self, pod: Document) -> None:
        """Let the author own the list again, beside everything else: nobody waits for it."""
        metadata = pod["metadata"]
        applied = LAST_APPLIED in (metadata.get("annotations") or {})  # may be applied on the server next
        managed = given_back(metadata.get("managedFields") or (), OPERATOR, released=applied)
        if managed is None:
            return
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": managed}}

        async def write() -> None:
            # Where the pod has changed meanwhile, the next entry gives the next chance.
            with suppress(errors.ApiError, Unreachable):
                await self._client.patch(
                    PODS, metadata["name"], patch, metadata["namespace"], field_manager=OPERATOR, read=False
                )

        task = asyncio.ensure_future(write())
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    def _report(self, pod: Document, done: Completed, release: bool) -> None:
        about = _workload(pod)
        total = len(pod["spec"].get("tolerations") or ())
        if release:
            self._metrics.released.child().inc()
            self._metrics.entries.child().observe(total)
        if total >= MANY_ENTRIES and (release or total - len(done.added) < MANY_ENTRIES):
            self._recorder.record(about, "Warning", "ManyTolerations", many_entries(total))
        if done.left_out:
            self._metrics.capped.child().inc()
            self._recorder.record(
                about,
                "Warning",
                "TooManyTolerations",
                f"{too_many_entries(len(done.left_out))}, such as {done.left_out[0]}: the pod stays away from nodes "
                "with these; a new pod in its place selects nodes by a label",
            )
