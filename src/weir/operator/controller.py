"""Controller of the operator: releases gated pods, labels nodes, and repairs what bypassed the hooks.

Spec: stock.md 5, 8, 11. Only the elected replica acts. A gated pod is released when the table of triples has been read
after the pod was seen, the nodes carry the labels of its requirements, and its entries are complete, all in one patch.
A DaemonSet's pod is released if its node would be chosen without it. What should not happen is repaired and counted:
a node that got a taint past the barrier, a pod that lacks an entry, a label that is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Cache, ObjectKey
from weir.client.events import ObjectReference
from weir.client.queue import WorkQueue, work
from weir.clock import Clock
from weir.lowering.daemonsets import may_run
from weir.lowering.names import OPERATOR, is_synthetic
from weir.lowering.node_labels import LabelRules, RunsHere
from weir.lowering.tolerations import LoweredList
from weir.lowering.triples import Triple, triples_of
from weir.objects.kinds import NODES
from weir.observe.logs import Log
from weir.operator.aside import Turns, takes_long
from weir.operator.coalesced import Coalesced
from weir.operator.entries import Entries
from weir.operator.keys_in_use import KeysInUse
from weir.operator.known_triples import KnownTriples, NotRecorded
from weir.operator.metrics import OperatorMetrics
from weir.operator.node_taints import NodeTaints
from weir.operator.pending import PendingPods
from weir.operator.rules import Rules
from weir.operator.views import LoweredPod

#: Releases at once: enough to keep an API server busy, and few enough that a bulk of pods is created beside them.
WORKERS: Final = 8
#: Everything else at once. It waits in a queue of its own: a rule that is new or a start concerns every node.
OTHERS: Final = 16
#: Pending pods are looked at so long after a triple appeared: by then the barrier has served them.
LOOK_AGAIN_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
#: Keys that are not in use any more are refused no longer so soon after; new ones are shown at once.
KEYS_SECONDS: Final = 10.0
NOT_INSTALLED_SECONDS: Final = 1.0
#: A label on nodes goes when nothing has asked for it so long: a workload that is replaced asks again at once.
UNUSED_SECONDS: Final = 1800.0
#: Grace that a barrier has ended comes back so long after: by then the write has come, or will not.
GRACE_AGAIN_SECONDS: Final = 60.0

Document = dict[str, Any]


class PodKey(NamedTuple):
    namespace: str
    name: str


class NodeKey(NamedTuple):
    node: str


class GraceKey(NamedTuple):
    pod: PodKey


#: All pods without a node, which are looked at together.
PENDING: Final = "pending pods"
#: The table of taints, of which rows have gone.
TABLE: Final = "table"
EVERYTHING: Final = "everything"


def _synthetic(node: Document) -> set[str]:
    labels = (node.get("metadata") or {}).get("labels") or {}
    return set(filter(is_synthetic, labels))


def _evicting(triples: Iterable[Triple]) -> list[Triple]:
    return [triple for triple in triples if triple.effect == "NoExecute"]


class Controller:
    """Acts on what the caches show, while elected."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pods: Cache[LoweredPod],
        nodes: Cache[Document],
        rules: Rules,
        known: KnownTriples,
        entries: Entries,
        pending: PendingPods,
        metrics: OperatorMetrics,
        taints: NodeTaints,
        keys: KeysInUse,
    ) -> None:
        self._client, self._clock, self._taints, self._keys = client, clock, taints, keys
        self._pods, self._nodes, self._rules = pods, nodes, rules
        self._known, self._entries, self._pending, self._metrics = known, entries, pending, metrics
        self._log = Log("weir.operator")
        self._queue: WorkQueue[Hashable] | None = None
        self._releases: WorkQueue[Hashable] | None = None  #: pods that are held, which nothing else delays
        self._new: set[Triple] = set()  #: that not every pending pod is known to have been completed for
        #: Synthetic labels on nodes that nothing asks for, and since when.
        self._unused: dict[str, float] = {}
        self._label_all = Coalesced(self.label_nodes)
        self._added: set[str] = set()  #: nodes that are new here: no barrier recorded their taints
        pods.listen(self._pod_changed)
        nodes.listen(self._node_changed)
        known.listeners.append(self._learned)
        known.lost = lambda: self._add(TABLE)
        rules.changed = self._every_node

    async def run(self) -> None:
        """Act until cancelled; begins with everything there is.

        That is a key as any other: whoever begins while the API server is away tries again until it is back.
        """
        queue: WorkQueue[Hashable] = WorkQueue(self._clock, longest_retry_seconds=10.0)
        releases: WorkQueue[Hashable] = WorkQueue(self._clock, longest_retry_seconds=10.0)
        self._queue, self._releases = queue, releases
        self._metrics.leader.set(1)
        tasks = [
            asyncio.ensure_future(work(each, self._reconcile, failed=self.failed))
            for each, workers in ((releases, WORKERS), (queue, OTHERS))
            for _ in range(workers)
        ]
        tasks += [asyncio.ensure_future(each) for each in (self._forget(), self._show_keys())]
        self._new.clear()
        self._add(EVERYTHING)
        try:
            await asyncio.gather(*tasks)
        finally:
            self._queue = self._releases = None
            self._metrics.leader.set(0)
            queue.close()
            releases.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_over(self) -> None:
        """Take in what was there before: taints of nodes first, then every pod."""
        await self._known.read()
        await self._record(self._taints.all())
        self._every_node()
        for pod in self._pods:
            if pod.lowered:
                self._add_pod(pod)
                self._look_at_grace(pod)

    async def _record(self, triples: Iterable[Triple]) -> None:
        """Take what nodes have into the table, as far as there is room."""
        try:
            await self._known.add([triple for triple in triples if triple.valid])
        except NotRecorded as error:
            self._log.warning("Pods get no entries for some taints of nodes", error=str(error))

    async def _forget(self) -> None:
        while True:
            await self._clock.sleep(FORGET_SECONDS)
            try:
                gone = await self._known.forget(self._taints.all())
                await self._drop_unused_labels()
            except (errors.ApiError, Unreachable) as error:
                self._log.warning("The table of taints could not be tidied", error=str(error))
                continue
            if gone:
                self._log.info("Taints that no node has any more are forgotten", count=len(gone))

    async def _show_keys(self) -> None:
        while True:
            installed = False
            try:
                installed = await self._keys.publish()
            except (errors.ApiError, Unreachable) as error:
                self._log.warning("The keys in use could not be shown to webhooks", error=str(error))
            await self._clock.sleep(KEYS_SECONDS if installed else NOT_INSTALLED_SECONDS)

    async def _drop_unused_labels(self) -> None:
        """Take synthetic labels off nodes that nothing has asked for since long; a new pod brings its label again."""
        self._rules.expire()
        now, known = self._clock.monotonic(), self._rules.labels.known()
        marked = {node["metadata"]["name"]: _synthetic(node) - known for node in self._nodes}
        unused = {label for labels in marked.values() for label in labels}
        self._unused = {label: self._unused.get(label, now) for label in unused}
        old = {label for label, since in self._unused.items() if now - since >= UNUSED_SECONDS}
        for name, labels in marked.items():
            if gone := labels & old:
                patch = {"metadata": {"labels": dict.fromkeys(sorted(gone))}}
                with suppress(errors.NotFound):
                    await self._client.patch(NODES, name, patch, field_manager=OPERATOR, read=False)
        if old:
            self._log.info("Labels that nothing asks for any more are gone", count=len(old))

    # ── what changed ─────────────────────────────────────────────────────────────────────────────

    def _add(self, key: Hashable, after: float = 0.0) -> None:
        if self._queue is not None:
            self._queue.add_after(key, after)

    def _add_pod(self, pod: LoweredPod) -> None:
        queue = self._releases if pod.gated else self._queue
        if queue is not None:
            queue.add(PodKey(pod.metadata.namespace, pod.metadata.name))

    def _pod_changed(self, old: LoweredPod | None, new: LoweredPod | None) -> None:
        if self._queue is None:
            return
        if new is not None and new.lowered and not new.ended:
            self._add_pod(new)
            self._look_at_grace(new)
        if old is not None and old.label and (new is None or new.ended or new.node != old.node):
            self._add(NodeKey(old.target))  # the label may have stayed for its sake
        elif new is not None and new.label and new.ended:
            self._add(NodeKey(new.target))

    def _look_at_grace(self, pod: LoweredPod) -> None:
        seconds, found = self._entries.grace_seconds, pod.tolerations
        if not seconds or not pod.node or found is None or found.is_graced(seconds):
            return
        key = GraceKey(PodKey(pod.metadata.namespace, pod.metadata.name))
        self._add(key, GRACE_AGAIN_SECONDS if found.has_grace else 0.0)

    def look_at_every_grace(self) -> None:
        """Look at every bound pod again: how much time they get has changed."""
        for pod in self._pods if self._queue is not None else ():
            self._look_at_grace(pod)

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if self._queue is None or new is None:
            return
        if old is None:
            self._added.add(new["metadata"]["name"])
        self._add(NodeKey(new["metadata"]["name"]))

    def _learned(self, triples: set[Triple]) -> None:
        self._new |= triples
        self._add(PENDING, LOOK_AGAIN_SECONDS)

    def _every_node(self) -> None:
        for key in self._nodes.keys() if self._queue is not None else ():
            self._add(NodeKey(key.name))

    # ── one key ──────────────────────────────────────────────────────────────────────────────────

    async def _reconcile(self, key: Hashable) -> None:
        if isinstance(key, PodKey):
            await self._reconcile_pod(key)
        elif isinstance(key, NodeKey):
            await self._reconcile_node(key.node)
        elif isinstance(key, GraceKey):
            await self._reconcile_grace(key.pod)
        elif key is EVERYTHING:
            await self._take_over()
        elif key is PENDING:
            await self._reconcile_pending()
        elif key is TABLE:
            await self._record(self._unknown(self._taints.all()))

    def failed(self, key: Hashable, error: Exception) -> None:
        if isinstance(error, errors.Conflict):
            return  # another was faster: the next try sees
        if isinstance(error, errors.WeirError):
            self._log.warning("Will be tried again", key=str(key), error=str(error))
            return
        try:
            raise error
        except Exception:
            self._log.exception("The operator failed", key=str(key))

    async def _reconcile_pod(self, key: PodKey) -> None:
        pod = self._pods.get(ObjectKey(*key))
        if pod is None or not pod.lowered or pod.ended:
            return
        if pod.node:
            triples = triples_of(self._nodes.get(ObjectKey("", pod.node)))
            leaves = await self._entries.overstays(pod, _evicting(triples))
            if not leaves and not await self._entries.lacks(pod, triples):
                return
            written = await self._entries.add(pod, lambda: triples, "repair", leaves=leaves)
            # No barrier sees to taints that evict nobody: their entries come now, and nothing was wrong.
            if not leaves and any(_evicting(written.added)):
                self._metrics.repairs.child("entries").inc()
                self._log.warning(
                    "A running pod lacked entries for its node's taints", pod=f"{key.namespace}/{key.name}"
                )
            return
        if pod.gated:
            await self.release(pod)
        elif await self._entries.lacks(pod, self._known.known):
            await asyncio.gather(*self._pending.complete([pod]).values())

    async def _reconcile_pending(self) -> None:
        """See to it that every pending pod has what the table says, whichever replica learned of it."""
        triples = tuple(self._new)
        await asyncio.gather(*self._pending.complete(await self._pending.lacking(triples)).values())
        self._new.difference_update(triples)

    async def release(self, pod: LoweredPod) -> None:
        """Complete a pod that is held and let it go, unless its node is not ready for it."""
        if pod.label and pod.daemon and not await self._daemon_may_run(pod):
            await self._reconcile_node(pod.target)
            return
        await self._keys.cover(pod, sure=self._queue is not None)
        await self._known.read()  # begun after the pod was seen: no barrier before it is missed
        if unlabelled := self._rules.labels_of(pod) - self._rules.labelled:
            await self._label_all()
            self._rules.labelled |= unlabelled & self._rules.labels.known()
        await self._entries.add(pod, lambda: self._known.known, "release", release=True)

    async def _reconcile_grace(self, key: PodKey) -> None:
        """Give a bound pod its grace entries, unless it is about to leave."""
        pod = self._pods.get(ObjectKey(*key))
        if pod is None or pod.ended or not pod.node or pod.tolerations is None:
            return
        found = LoweredList(pod.tolerations.entries, pod.tolerations.originals, self._entries.native_numeric)
        triples = triples_of(self._nodes.get(ObjectKey("", pod.node)))
        if await self._entries.aside.run(
            pod.evaluates, lambda: all(map(found.tolerates, _evicting(triples)))
        ):
            await self._entries.give_grace(pod)

    async def _daemon_may_run(self, pod: LoweredPod) -> bool:
        node = self._nodes.get(ObjectKey("", pod.target))
        tolerations = self._rules.tolerations_of(pod.label, pod.metadata.namespace)
        if node is None or tolerations is None:
            return False
        expressions = takes_long(tolerations)
        return await self._entries.aside.run(expressions, may_run, tolerations, triples_of(node), False)

    async def label_nodes(self) -> None:
        """Give every node the labels that it lacks."""
        wrong, turns = [], Turns()
        for node in list(self._nodes):
            if await self._labels(node) is not None:
                wrong.append(node)
            await turns.pause()
        self._warn_of_daemonsets()
        for start in range(0, len(wrong), OTHERS):
            await asyncio.gather(*(self._label(node) for node in wrong[start : start + OTHERS]))

    def _warn_of_daemonsets(self) -> None:
        for daemonset, tolerations in self._rules.daemonsets():
            about = ObjectReference("DaemonSet", daemonset.name, daemonset.namespace, api_version="apps/v1")
            self._entries.warn(about, tolerations)

    async def _labels(self, node: Document) -> dict[str, str | None] | None:
        """Return the labels to change on *node*, or None."""
        metadata = node.get("metadata") or {}
        before = metadata.get("labels") or {}
        rules: tuple[LabelRules, RunsHere] = self._rules.labels, self._rules.runs_here
        if expressions := self._rules.have_expressions:
            rules = self._rules.copy_for(metadata.get("name") or "")
        after = await self._entries.aside.run(expressions, rules[0].labels, node, rules[1])
        if before == after:
            return None
        changed: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
        return changed | {key: value for key, value in after.items() if before.get(key) != value}

    async def _label(self, node: Document) -> None:
        name = node["metadata"]["name"]
        for _ in range(10):
            change = await self._labels(node)
            if change is None:
                return
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"], "labels": change}
            try:
                await self._client.patch(
                    NODES, name, {"metadata": metadata}, field_manager=OPERATOR, read=False
                )
            except errors.NotFound:
                return
            except errors.Conflict:
                found = await self._client.find(NODES, name)
                if found is None:
                    return
                node = found
                continue
            self._metrics.repairs.child("labels").inc()
            return
        raise errors.Conflict(f"node {name} is changed by others all the time")

    def _unknown(self, triples: Iterable[Triple]) -> list[Triple]:
        return [triple for triple in triples if not triple.conditional and triple not in self._known]

    async def _reconcile_node(self, name: str) -> None:
        node = self._nodes.get(ObjectKey("", name))
        if node is None:
            self._added.discard(name)
            return
        triples = triples_of(node)
        if self._unknown(triples):
            await (
                self._known.read()
            )  # the barrier of another replica knows them: what is new is looked at then
        if passed := self._unknown(triples):
            if name not in self._added:
                shown = ",".join(map(str, passed[:10]))
                self._log.warning("A node got taints past the hook", node=name, taints=shown)
            await self._record(passed)
        self._added.discard(name)
        for pod in list(self._pods.by_index("node", name)):
            if await self._entries.lacks(pod, triples) or await self._entries.overstays(
                pod, _evicting(triples)
            ):
                self._add_pod(pod)
        await self._label(node)
        self._warn_of_daemonsets()
