"""Nothing leaks over days: after days of Jobs, rollouts and namespaces that come and go, as much is there as before."""

from __future__ import annotations

from collections import Counter
from itertools import count

from tests.integration.test_cronjobs import cron
from tests.integration.test_namespaces import in_team, quota
from tests.integration.test_statefulset import database
from tests.integration.test_workloads import web
from weir.objects.kinds import KINDS
from weir.simulation.cluster import Cluster

HOUR = 3600
DAYS = 2


def population(cluster):
    """Return how many objects of each kind there are."""
    kinds = [kind for kind in KINDS if kind.stored and "list" in kind.verbs and not kind.hub]
    counted = Counter(
        {kind.plural: len(cluster.list(kind.kind)) for kind in kinds if kind.group != "events.k8s.io"}
    )
    return +counted


def remembered(cluster):
    """Return how much the controllers keep in mind beside what is there."""
    found = Counter()
    for worker in cluster.plane.controllers.workers:
        for name, value in vars(worker.controller).items():
            if isinstance(value, dict | set | list):
                found[f"{worker.controller.name} {name}"] = len(value)
        queue = worker.queue
        found[f"{worker.controller.name} queue"] = len(queue) + queue.delayed + len(queue._failures)
    return found


def job(name, **spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"annotations": spec.pop("annotations", {})}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, "ttlSecondsAfterFinished": HOUR, **spec},
    }


def daemons(image):
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template, "revisionHistoryLimit": 3}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec}


def stateful(image, replicas):
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenScaled": "Delete"}
    more = {"revisionHistoryLimit": 3, "persistentVolumeClaimRetentionPolicy": policy}
    return database(replicas, image, volumeClaimTemplates=[claim], **more)


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
TEAM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def a_day(cluster, numbers):
    """Let a day pass in which everything that people do to a cluster is done to it."""
    for _ in range(6):  # what alternates is as it was when the day began
        n = next(numbers)
        cluster.apply(
            web(3, f"web:{n}", revisionHistoryLimit=3), daemons(f"d:{n}"), stateful(f"db:{n}", 1 + n % 3)
        )
        cluster.apply(job(f"fine-{n}", completions=3, parallelism=2))
        cluster.apply(job(f"bad-{n}", backoffLimit=1, annotations={"weir.dev/exit-code": "1"}))
        if n % 3 == 0:
            cluster.apply(TEAM, quota(pods=20), in_team(web(2)))
        elif n % 3 == 1:
            cluster.delete("Namespace", "team")
        cluster.taint("node-0", *(["flaky=1:NoExecute"] if n % 2 else []))
        cluster.advance(4 * HOUR)


def test_days_of_churn_leave_no_more_behind_than_the_first():
    with Cluster(nodes=3) as cluster:
        cluster.apply(SERVICE, cron(schedule="0 */2 * * *"), web(3))
        numbers = count(3)
        seen = []
        for _ in range(DAYS):
            a_day(cluster, numbers)
            seen.append((population(cluster), remembered(cluster)))
        (first, in_mind), *_, (last, at_last) = seen
        first.pop("events"), last.pop("events")  # the server forgets them after an hour
        assert (last - first, at_last - in_mind) == (Counter(), Counter())
