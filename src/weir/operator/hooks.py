"""Answers to webhook calls: the pure answer, or the barrier's, with a time limit and a count.

Spec: stock.md 2 (dry runs write nothing and remember nothing), 5, 6, 9. A review changes nothing by itself: what it
names is compared with what the cluster shows, its taints are validated as an API server does, and
what is held because of it is dropped unless the cluster shows it soon (weir.operator.holds). A replica that does not
know the cluster yet answers 503, which the API server takes as no answer: `Fail` refuses then.

Whether the cluster shows the object that a webhook review speaks of. A review is a claim. The object that it says is
being changed must be one that this replica has seen or that the API server gives when asked: by name and uid. Only a
review about such an object may have an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Cache, ObjectKey
from weir.client.events import Recorder, reference
from weir.clock import Clock
from weir.lowering import webhooks
from weir.lowering.admission import Answer, Cluster, answer, respond
from weir.lowering.daemonsets import daemonset_label
from weir.lowering.templates import template_of
from weir.lowering.tolerations import read_originals
from weir.lowering.triples import Triple, listed, new_triples, triples_of
from weir.objects.kind import Document, Kind
from weir.objects.kinds import DAEMON_SETS, NODES
from weir.observe.logs import Log
from weir.operator.aside import Aside, takes_long
from weir.operator.barrier import Barrier, Busy, NoRoom, TimedOut, Unconfirmed
from weir.operator.entries import Entries
from weir.operator.known_triples import KnownTriples, NotRecorded
from weir.operator.metrics import OperatorMetrics
from weir.operator.rules import Rules
from weir.validate.core.node import validate_taints

#: Below the webhook's own limit, so that the writer gets a reason and not a broken connection.
BARRIER_SECONDS: Final = 8.0
LABELLING_SECONDS: Final = 8.0
#: Of one write; a node has a handful.
MOST_NEW_TAINTS: Final = 64
_LONGEST_TEXT: Final = 300


class Shown:
    """Nodes and DaemonSets as the cluster shows them."""

    def __init__(self, client: Client, nodes: Cache[Document], daemonsets: Cache[Document]) -> None:
        self._client, self._nodes, self._daemonsets = client, nodes, daemonsets

    async def node(self, request: Mapping[str, Any]) -> Document | None:
        """Return the node whose update *request* announces, or None. Raises ApiError, Unreachable."""
        return await self._find(NODES, self._nodes, request)

    async def named_node(self, name: str) -> Document | None:
        """Return the node *name* as the API server has it now, or None. Raises ApiError, Unreachable."""
        return await self._client.find(NODES, name) if name else None

    async def daemonset(self, request: Mapping[str, Any]) -> Document | None:
        """Return the DaemonSet whose update *request* announces, or None. Raises ApiError, Unreachable."""
        return await self._find(DAEMON_SETS, self._daemonsets, request)

    async def _find(self, kind: Kind, cache: Cache[Document], request: Mapping[str, Any]) -> Document | None:
        metadata = (request.get("oldObject") or {}).get("metadata") or {}
        new = (request.get("object") or {}).get("metadata") or {}
        name, namespace, uid = metadata.get("name"), metadata.get("namespace") or "", metadata.get("uid")
        same = (new.get("name"), new.get("namespace") or "", request.get("name") or name) == (
            name,
            namespace,
            name,
        )
        if not (same and isinstance(name, str) and isinstance(namespace, str) and name and uid):
            return None
        known = cache.get(ObjectKey(namespace, name))
        if known is not None and known["metadata"].get("uid") == uid:
            return known
        found = await self._client.find(kind, name, namespace)
        return found if found is not None and found["metadata"].get("uid") == uid else None


class Hooks:
    """Answers AdmissionReviews."""

    def __init__(
        self,
        clock: Clock,
        known: KnownTriples,
        rules: Rules,
        barrier: Barrier,
        entries: Entries,
        metrics: OperatorMetrics,
        recorder: Recorder,
        label_nodes: Callable[[], Awaitable[None]],
        shown: Shown,
        aside: Aside,
    ) -> None:
        self._shown, self._aside = shown, aside
        self._clock, self._known, self._rules, self._label_nodes = clock, known, rules, label_nodes
        self._barrier, self._entries, self._metrics, self._recorder = barrier, entries, metrics, recorder
        self._log = Log("weir.operator")

    async def review(self, path: str, review: Mapping[str, Any]) -> Document:
        """Return the answer to *review*, sent to the webhook at *path*, which is one that is served."""
        began = self._clock.monotonic()
        request = review.get("request") or {}
        result = "failed"
        try:
            decision = await self._answer(path, request)
            result = "allowed" if decision.allowed else "refused"
        finally:
            self._metrics.hook_duration.child(path, result).observe(self._clock.monotonic() - began)
        if not decision.allowed:
            self._log.info(
                "Refused",
                path=path,
                object=_short(f"{request.get('namespace') or ''}/{request.get('name') or ''}"),
                code=decision.code,
                reason=_short(decision.message),
            )
        return respond(review, decision)

    async def _answer(self, path: str, request: Mapping[str, Any]) -> Answer:
        if path == webhooks.NODE_BARRIER_PATH:
            return await self._hold(request)
        self._rules.expire()
        cluster = Cluster(
            known=self._known.known,
            native_numeric=self._entries.native_numeric,
            rules=self._rules.labels,
            runs_here=self._rules.runs_here,
            announced=self._rules.announced,
        )
        expressions = path == webhooks.POD_PATH and _takes_long(request.get("object"))
        if path == webhooks.NODE_LABELS_PATH:
            expressions = self._rules.have_expressions
            if expressions:
                node = (request.get("object") or {}).get("metadata", {}).get("name") or ""
                rules, runs_here = self._rules.copy_for(node)
                cluster = replace(cluster, rules=rules, runs_here=runs_here)
        decision = await self._aside.run(expressions, answer, path, request, cluster)
        if path == webhooks.DAEMONSET_PATH and decision.document is not None and not request.get("dryRun"):
            decision = await self._label_first(request, decision)
        return decision

    async def _label_first(self, request: Mapping[str, Any], decision: Answer) -> Answer:
        """Label the nodes of a DaemonSet that is lowered while its pods run: on others they would be deleted."""
        before = template_of(request.get("oldObject") or {}, "DaemonSet")
        after = template_of(decision.document or {}, "DaemonSet")
        if not request.get("oldObject") or not daemonset_label(after) or daemonset_label(before):
            return decision
        try:
            async with asyncio.timeout(LABELLING_SECONDS):
                stored = await self._shown.daemonset(request)
                if stored is None:
                    return _not_shown("DaemonSet")
                metadata = stored["metadata"]
                if not self._rules.expect(ObjectKey(metadata["namespace"], metadata["name"]), after):
                    return Answer(
                        code=429, message="too many DaemonSets get labels for their nodes, try again"
                    )
                await self._label_nodes()
        except (TimeoutError, errors.ApiError, Unreachable) as error:
            return Answer(
                code=429,
                message=f"nodes could not be labelled for this DaemonSet yet, try again: {str(error) or 'out of time'}",
            )
        return decision

    async def _hold(self, request: Mapping[str, Any]) -> Answer:
        node: Document = request.get("object") or {}
        triples = new_triples(node, request.get("oldObject"))
        if not triples or request.get("dryRun"):
            return Answer()
        if len(triples) > MOST_NEW_TAINTS:
            return Answer(code=403, message=f"more than {MOST_NEW_TAINTS} new taints in one write")
        if not all(triple.valid for triple in triples):
            return Answer(
                code=422, message="; ".join(map(str, validate_taints(_taints(node)))) or "invalid taints"
            )
        name = (node.get("metadata") or {}).get("name") or ""
        created = not request.get("oldObject")
        if created and not self._barrier.concerns_new(name):
            return Answer()  # schedulers see it with its taints from the first
        try:
            if created:
                if await self._shown.named_node(name) is not None:
                    return Answer()  # the API server refuses it: it is there already
            else:
                stored = await self._shown.node(request)
                if stored is None:
                    return _not_shown("Node")
                triples = tuple(dict.fromkeys((*triples, *new_triples(node, stored))))
        except (errors.ApiError, Unreachable) as error:
            return Answer(
                code=429, message=f"node {name} could not be looked at, try again: {_short(str(error))}"
            )
        present = () if created else (*triples_of(request.get("oldObject")), *triples_of(node))
        return await self._make_ready(node, name, triples, created, present)

    async def _make_ready(
        self,
        node: Document,
        name: str,
        triples: tuple[Triple, ...],
        created: bool,
        present: tuple[Triple, ...],
    ) -> Answer:
        about = reference(node, "Node")
        try:
            patched = await self._barrier.hold(
                name, triples, BARRIER_SECONDS, created=created, present=present
            )
        except TimedOut as error:
            self._recorder.record(about, "Warning", "TaintHeldBack", str(error))
            return Answer(code=429, message=str(error))
        except Busy as error:
            return Answer(code=429, message=str(error))
        except (NoRoom, NotRecorded, Unconfirmed) as error:
            self._recorder.record(about, "Warning", "TaintRefused", str(error))
            return Answer(code=403, message=str(error))
        except (errors.ApiError, Unreachable) as error:
            return Answer(
                code=429,
                message=f"pods could not be made ready for {listed(triples)} on node {name}: {_short(str(error))}",
            )
        if patched:
            self._recorder.record(
                about, "Normal", "Lowered", f"{patched} pods got an entry for {listed(triples)} first"
            )
        return Answer()


def _not_shown(kind: str) -> Answer:
    return Answer(code=429, message=f"the cluster does not show this {kind} as the request has it, try again")


def _takes_long(pod: Any) -> bool:
    spec = pod.get("spec") if isinstance(pod, dict) else None
    tolerations = spec.get("tolerations") if isinstance(spec, dict) else None
    annotations = (pod.get("metadata") or {}).get("annotations") if isinstance(pod, dict) else None
    originals = read_originals(annotations if isinstance(annotations, dict) else None)
    return takes_long([*(tolerations if isinstance(tolerations, list) else ()), *originals.values()])


def _taints(node: Document) -> list[Document]:
    return (node.get("spec") or {}).get("taints") or []


def _short(text: str) -> str:
    """Return *text* as a log or an answer may hold it."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
