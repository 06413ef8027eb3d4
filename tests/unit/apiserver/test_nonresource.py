"""What the checks of health came to, as a page of metrics."""

from __future__ import annotations

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.nonresource import HealthMetrics


@pytest.fixture
async def cluster():
    cluster = Cluster(GATES_ON)
    await cluster.start()
    return cluster


async def test_every_question_for_health_is_counted(cluster):
    for _ in range(2):
        await cluster.call("GET", "/livez", "", {}, b"")
    page = (await cluster.call("GET", "/metrics/slis", "", {}, b""))["body"]
    assert 'kubernetes_healthchecks_total{name="etcd",status="success",type="livez"} 2' in page
    assert 'kubernetes_healthcheck{name="etcd",type="healthz"} 1' in page


def test_the_last_result_is_shown_and_all_are_counted():
    metrics = HealthMetrics()
    metrics.checked("readyz", ["etcd"], ["etcd"])
    metrics.checked("readyz", ["etcd"], [])
    page = metrics.render().decode()
    assert 'kubernetes_healthcheck{name="etcd",type="readyz"} 1' in page
    assert 'status="error",type="readyz"} 1' in page
    assert 'status="success",type="readyz"} 1' in page
