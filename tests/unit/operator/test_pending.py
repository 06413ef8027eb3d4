"""The queue of pending pods: which of them lack an entry."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from weir.client.cache import Cache, ObjectKey
from weir.clock import RealClock
from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.triples import Triple
from weir.operator.aside import Aside
from weir.operator.entries import Entries
from weir.operator.pending import PendingPods
from weir.operator.rules import node_index
from weir.operator.views import pod_decoder

PODS = 600
NEW = (Triple("sla", "950", "NoExecute"), Triple("zone", "x", "NoExecute"))
FORMS = (
    {"key": "sla", "operator": "Gt", "value": "900"},
    {"operator": "CEL", "value": "taint.key == 'sla' && int(taint.value) > 900"},
    {"operator": "CEL", "value": "taint.key == 'sla' && int(taint.value) > 990"},
    {"key": "zone", "operator": "SemverGt", "value": "1.0.0"},
)


class Counted(Aside):
    """A thread that counts how often something waits for it."""

    hops = 0

    async def run(self, expressions, work, *arguments, **named):
        self.hops += bool(expressions)
        return await super().run(expressions, work, *arguments, **named)


@pytest.fixture
def pods():
    decode, cache = pod_decoder(), Cache(pod_decoder())
    cache.add_index("node", node_index)
    for number in range(PODS):
        metadata = {"name": f"p{number}", "namespace": "d", "resourceVersion": "12"}
        pod = {"metadata": metadata, "spec": {"tolerations": [FORMS[number % len(FORMS)]]}}
        lowered = answer(webhooks.POD_PATH, {"object": pod}, Cluster()).document
        cache.put(ObjectKey("d", f"p{number}"), decode(msgspec.json.encode(lowered)))
    return cache


def test_pods_are_judged_as_one_by_one_and_seldom_wait_for_the_thread(pods):
    async def both():
        aside = Counted(RealClock())
        entries = Entries(None, None, None, aside)
        together = await PendingPods(pods, None, entries).lacking(NEW)
        hops = aside.hops
        alone = [pod for pod in pods if await entries.lacks(pod, NEW)]
        aside.stop()
        return together, hops, alone

    together, hops, alone = asyncio.run(both())
    assert {pod.metadata.name for pod in together} == {pod.metadata.name for pod in alone}
    assert len(together) == PODS // 2 and hops < PODS / 20
