"""What does a webhook call come to? The pure answer, or the barrier's, with a time limit and a count.

Spec: stock.md 2 (dry runs write nothing and remember nothing), 5, 6, 9. A replica that does not know the cluster yet
answers 503, which the API server takes as no answer: `Fail` refuses then.
Not here: the answers (weir.lowering.admission), HTTP (weir.operator.hook_server).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from weir import errors
from weir.client.api import Unreachable
from weir.client.events import Recorder, reference
from weir.clock import Clock
from weir.lowering import webhooks
from weir.lowering.admission import Answer, Cluster, answer, respond
from weir.lowering.daemonsets import daemonset_label
from weir.lowering.templates import template_of
from weir.lowering.triples import new_triples
from weir.observe.logs import Log
from weir.operator.barrier import Barrier, NoRoom, TimedOut, Unconfirmed
from weir.operator.entries import Entries
from weir.operator.known_triples import KnownTriples
from weir.operator.metrics import OperatorMetrics
from weir.operator.rules import Rules

Document = dict[str, Any]

#: Below the webhook's own limit, so that the writer gets a reason and not a broken connection.
BARRIER_SECONDS: Final = 8.0
LABELLING_SECONDS: Final = 8.0


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
    ) -> None:
        self._clock, self._known, self._rules, self._label_nodes = clock, known, rules, label_nodes
        self._barrier, self._entries, self._metrics, self._recorder = barrier, entries, metrics, recorder
        self._log = Log("weir.operator")

    async def review(self, path: str, review: Mapping[str, Any]) -> Document:
        """Return the answer to *review*, sent to the webhook at *path*."""
        began = self._clock.monotonic()
        request = review.get("request") or {}
        result = "failed"
        try:
            given = await self._answer(path, request)
            result = "allowed" if given.allowed else "refused"
        finally:
            self._metrics.hook_duration.child(path, result).observe(self._clock.monotonic() - began)
        if not given.allowed:
            self._log.info(
                "Refused",
                path=path,
                object=f"{request.get('namespace') or ''}/{request.get('name') or ''}",
                code=given.code,
                reason=given.message,
            )
        return respond(review, given)

    async def _answer(self, path: str, request: Mapping[str, Any]) -> Answer:
        if path == webhooks.NODE_BARRIER_PATH:
            return await self._hold(request)
        cluster = Cluster(
            known=self._known.known,
            native_numeric=self._entries.native_numeric,
            rules=self._rules.labels,
            runs_here=self._rules.runs_here,
        )
        given = answer(path, request, cluster)
        if path == webhooks.DAEMONSET_PATH and given.document is not None and not request.get("dryRun"):
            given = await self._label_first(request, given)
        return given

    async def _label_first(self, request: Mapping[str, Any], given: Answer) -> Answer:
        """Label the nodes of a DaemonSet that is lowered while its pods run: on others they would be deleted."""
        before = template_of(request.get("oldObject") or {}, "DaemonSet")
        after = template_of(given.document or {}, "DaemonSet")
        if not request.get("oldObject") or not daemonset_label(after) or daemonset_label(before):
            return given
        self._rules.expect(after)
        try:
            async with asyncio.timeout(LABELLING_SECONDS):
                await self._label_nodes()
        except (TimeoutError, errors.ApiError, Unreachable) as error:
            return Answer(
                code=429,
                message=f"nodes could not be labelled for this DaemonSet yet, try again: {str(error) or 'out of time'}",
            )
        return given

    async def _hold(self, request: Mapping[str, Any]) -> Answer:
        node: Document = request.get("object") or {}
        triples = new_triples(node, request.get("oldObject"))
        if not triples or request.get("dryRun"):
            return Answer()
        name = (node.get("metadata") or {}).get("name") or request.get("name") or ""
        about = reference(node, "Node")
        written = ", ".join(map(str, triples))
        try:
            patched = await self._barrier.hold(name, triples, BARRIER_SECONDS)
        except TimedOut as error:
            self._recorder.record(about, "Warning", "TaintHeldBack", str(error))
            return Answer(code=429, message=str(error))
        except (NoRoom, Unconfirmed) as error:
            self._recorder.record(about, "Warning", "TaintRefused", str(error))
            return Answer(code=403, message=str(error))
        except (errors.ApiError, Unreachable) as error:
            return Answer(
                code=429, message=f"pods could not be made ready for {written} on node {name}: {error}"
            )
        if patched:
            self._recorder.record(
                about, "Normal", "Lowered", f"{patched} pods got an entry for {written} first"
            )
        return Answer()
