"""The sentinel may go in the middle of everything: whoever waits for it goes on with the next one."""

from __future__ import annotations

import pytest

from tests.stock.virtual import StockCluster
from weir.lowering.names import NAMESPACE, SENTINEL
from weir.objects.kinds import by_kind

PODS = by_kind("v1", "Pod")
GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}


def lose_it_once(cluster, monkeypatch):
    """Let the sentinel be deleted right after it was counted up, the first time."""
    sentinel = cluster.operators[0].sentinel
    count, lost = sentinel._raise, []

    async def counted():
        mark = await count()
        if not lost:
            lost.append(mark)
            await cluster.client.delete(PODS, SENTINEL, NAMESPACE, grace_period_seconds=0)
        return mark

    monkeypatch.setattr(sentinel, "_raise", counted)
    return lost


@pytest.mark.parametrize("what", ["catch_up", "confirm"])
def test_who_waits_for_a_sentinel_that_is_deleted_gets_an_answer_from_the_next(monkeypatch, what):
    with StockCluster() as cluster:
        lost = lose_it_once(cluster, monkeypatch)
        asked = cluster._loop.create_task(getattr(cluster.operators[0].sentinel, what)())
        cluster.advance(5)
        assert lost and asked.done() and asked.result().version > lost[0].version
        again = cluster._loop.create_task(getattr(cluster.operators[0].sentinel, what)())
        cluster.advance(5)
        assert again.done() and again.result().version > asked.result().version


def test_a_node_write_survives_it(monkeypatch):
    with StockCluster() as cluster:
        cluster.node("n")
        cluster.set_taints("n", ("sla", "950", "NoExecute"))
        cluster.run_pod("p", GT)
        lose_it_once(cluster, monkeypatch)
        writing = cluster._loop.create_task(
            cluster.client.patch(
                by_kind("v1", "Node"),
                "n",
                {"spec": {"taints": [{"key": "sla", "value": "960", "effect": "NoExecute"}]}},
            )
        )
        cluster.advance(5)
        assert writing.done() and writing.result()["spec"]["taints"][0]["value"] == "960"
        assert cluster.where("p") == "n"
