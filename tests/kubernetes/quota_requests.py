"""Requests that LimitRanges and ResourceQuotas look at, asked of a real API server and of weir.

Quotas are told as used by hand, since no controller runs: a real server admits nothing before that.
"""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.requests import MERGE, Asked, Document, document, pod


class Namespace:
    """The requests of one namespace with one LimitRange or some quotas in it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.prepared: list[Asked] = []
        self.asked: list[Asked] = []
        self._prepare("/api/v1/namespaces", document("Namespace", name))

    def _prepare(
        self, path: str, body: Document, method: str = "POST", content: str = "application/json"
    ) -> None:
        self.prepared.append(Asked(f"{self._name} prepare {len(self.prepared)}", method, path, body, content))

    def path(self, plural: str, group: str = "api/v1") -> str:
        return f"/{group}/namespaces/{self._name}/{plural}"

    def limits(self, *limits: Document) -> None:
        self._prepare(self.path("limitranges"), document("LimitRange", "l", spec={"limits": list(limits)}))

    def quota(self, name: str, hard: Document, **spec: Any) -> None:
        self._prepare(
            self.path("resourcequotas"), document("ResourceQuota", name, spec={"hard": hard, **spec})
        )
        status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        self._prepare(self.path(f"resourcequotas/{name}/status"), status, "PATCH", MERGE)

    def post(self, plural: str, body: Document, group: str = "api/v1") -> None:
        name = f"{self._name} {len(self.asked)} {body['kind']} {body['metadata']['name']}"
        self.asked.append(Asked(name, "POST", self.path(plural, group), body))

    def patch(self, where: str, body: Document) -> None:
        self.asked.append(
            Asked(f"{self._name} {len(self.asked)} patch {where}", "PATCH", self.path(where), body, MERGE)
        )

    def pod(self, name: str, *resources: Document, **spec: Any) -> None:
        containers = [{"name": f"c{i}", "image": "i", "resources": one} for i, one in enumerate(resources)]
        self.post("pods", pod(name, **({"containers": containers} if containers else {}), **spec))

    def claim(self, name: str, storage: str, **spec: Any) -> None:
        whole = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
            "storageClassName": "",
            **spec,
        }
        self.post("persistentvolumeclaims", document("PersistentVolumeClaim", name, spec=whole))


def res(requests: Document | None = None, limits: Document | None = None) -> Document:
    return {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}


def init(name: str, resources: Document, **more: Any) -> Document:
    return {"name": name, "image": "i", "resources": resources, **more}


def limit_ranges() -> Iterator[Namespace]:
    n = Namespace("lim-container")
    n.limits(
        {
            "type": "Container",
            "min": {"cpu": "100m", "memory": "1Mi"},
            "max": {"cpu": "2", "memory": "1Gi"},
            "maxLimitRequestRatio": {"cpu": "2"},
        }
    )
    n.pod("a")
    n.pod("b", res({"cpu": "50m", "memory": "1Ki"}, {"cpu": "50m", "memory": "1Ki"}))
    n.pod("c", res({"cpu": "3", "memory": "2Gi"}, {"cpu": "3", "memory": "2Gi"}))
    n.pod("d", res({"cpu": "500m"}, {"cpu": "1500m"}))
    n.pod("e", res({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}))
    n.pod("f", res({"cpu": "500m", "memory": "1Gi"}), res({"cpu": "300m"}, {"cpu": "1"}))
    n.pod(
        "g",
        res({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}),
        initContainers=[init("i", res({"cpu": "4"}, {"cpu": "4"}))],
    )
    n.pod("h", res(None, {"cpu": "2"}), initContainers=[init("i", {}, restartPolicy="Always")])
    yield n
    n = Namespace("lim-default")
    n.limits(
        {"type": "Container", "default": {"cpu": "1", "memory": "512Mi"}, "defaultRequest": {"cpu": "100m"}}
    )
    n.pod("a")
    n.pod("b", res({"cpu": "2"}))
    n.pod("c", res(None, {"cpu": "2"}), res({"memory": "1Gi"}, {"memory": "1Gi"}))
    n.pod("d", res(), initContainers=[init("i", {}), init("s", res({"cpu": "1"}), restartPolicy="Always")])
    n.pod("e", res(), resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    yield n
    n = Namespace("lim-pod-level")
    n.limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})
    both = res({"cpu": "1"}, {"cpu": "2"})
    n.pod("a", both, resources={})
    n.pod("b", both, resources={"requests": {"memory": "1Gi"}})
    n.pod("c", both, res(), resources={"requests": {"cpu": "2"}})
    n.pod("d", both, both, resources={"requests": {"cpu": "5"}})
    n.pod(
        "e",
        both,
        resources={"limits": {"memory": "1Gi"}},
        initContainers=[init("i", both), init("s", both, restartPolicy="Always")],
    )
    n.pod(
        "f",
        res({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}),
        resources={"requests": {"cpu": "1"}},
    )
    yield n
    n = Namespace("lim-max-only")
    n.limits({"type": "Container", "max": {"cpu": "1"}}, {"type": "Pod", "min": {"memory": "1Mi"}})
    n.pod("a")
    n.pod("b", res({"cpu": "2"}))
    n.pod("c", res(None, {"cpu": "2"}))
    yield n
    n = Namespace("lim-pod")
    n.limits(
        {
            "type": "Pod",
            "min": {"cpu": "1"},
            "max": {"cpu": "2", "memory": "1Gi"},
            "maxLimitRequestRatio": {"memory": "1.5"},
        }
    )
    n.pod("a")
    n.pod("b", res({"cpu": "500m"}, {"cpu": "500m"}), res({"cpu": "400m"}, {"cpu": "400m"}))
    n.pod("c", res({"cpu": "2"}, {"cpu": "2"}), res({"cpu": "1"}, {"cpu": "1", "memory": "2Gi"}))
    n.pod("d", res({"cpu": "1", "memory": "500Mi"}, {"cpu": "1", "memory": "1000Mi"}))
    n.pod("e", res({"cpu": "1", "memory": "500Mi"}, {"cpu": "1", "memory": "600Mi"}))
    n.pod(
        "f",
        res({"cpu": "1", "memory": "1Mi"}, {"cpu": "1", "memory": "1Mi"}),
        initContainers=[init("i", res({"cpu": "3"}, {"cpu": "3"}))],
    )
    n.pod(
        "g",
        res({"memory": "1Mi"}, {"memory": "1Mi"}),
        resources={"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
    )
    yield n
    n = Namespace("lim-claim")
    n.limits({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}})
    n.claim("a", "500Mi")
    n.claim("b", "11Gi")
    n.claim("c", "5Gi")
    n.claim("d", "5368709120")
    n.patch("persistentvolumeclaims/c", {"spec": {"resources": {"requests": {"storage": "20Gi"}}}})
    n.patch("persistentvolumeclaims/c", {"metadata": {"labels": {"a": "b"}}})
    yield n


def quotas() -> Iterator[Namespace]:
    n = Namespace("quo-best-effort")
    n.quota("best", {"pods": "1"}, scopes=["BestEffort"])
    n.quota("not-best", {"pods": "1", "requests.cpu": "1"}, scopes=["NotBestEffort"])
    n.pod("a")
    n.pod("b")
    n.pod("c", res({"cpu": "2"}))
    n.pod("d", res({"cpu": "500m"}))
    n.pod("e", res({"memory": "1Mi"}))
    n.pod("f", res({"cpu": "600m"}))
    yield n
    n = Namespace("quo-terminating")
    n.quota("ends", {"pods": "1", "cpu": "1"}, scopes=["Terminating"])
    n.quota("stays", {"pods": "1"}, scopes=["NotTerminating"])
    n.pod("a", activeDeadlineSeconds=10)
    n.pod("b", res({"cpu": "1"}), activeDeadlineSeconds=10)
    n.pod("c", res({"cpu": "1"}), activeDeadlineSeconds=10)
    n.pod("d")
    n.pod("e")
    yield n
    n = Namespace("quo-priority")
    n.quota(
        "in",
        {"pods": "0"},
        scopeSelector={
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
            ]
        },
    )
    n.pod("a")
    n.pod("b", priorityClassName="system-cluster-critical")
    n.pod("c", priorityClassName="system-node-critical")
    yield n
    n = Namespace("quo-no-priority")
    n.quota(
        "none",
        {"pods": "0"},
        scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]},
    )
    n.pod("a")
    n.pod("b", priorityClassName="system-cluster-critical")
    yield n
    n = Namespace("quo-some-priority")
    n.quota(
        "some",
        {"pods": "0"},
        scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
    )
    n.pod("a")
    n.pod("b", priorityClassName="system-cluster-critical")
    yield n
    n = Namespace("quo-affinity")
    n.quota("cross", {"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    n.pod("a")
    for name, term in {"b": {"namespaces": ["x"]}, "c": {"namespaceSelector": {}}, "d": {}}.items():
        whole = {"topologyKey": "zone", "labelSelector": {}, **term}
        n.pod(name, affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [whole]}})
        preferred = [{"weight": 1, "podAffinityTerm": whole}]
        n.pod(
            f"{name}2",
            affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        )
    yield n
    n = Namespace("quo-counts")
    n.quota("counts", {
        "count/roles.rbac.authorization.k8s.io": "1", "count/deployments.apps": "0", "count/jobs.batch": "0", "services": "3", "services.nodeports": "2", "services.loadbalancers": "0",
        "count/resourceclaims.resource.k8s.io": "0", "count/leases.coordination.k8s.io": "0", "secrets": "0", "count/secrets": "0", "count/persistentvolumeclaims": "0", "replicationcontrollers": "0",
    })  # fmt: skip
    for name in "ab":
        n.post(
            "roles",
            document("Role", name, "rbac.authorization.k8s.io/v1"),
            "apis/rbac.authorization.k8s.io/v1",
        )
    n.post("secrets", document("Secret", "a"))
    n.post("leases", document("Lease", "a", "coordination.k8s.io/v1"), "apis/coordination.k8s.io/v1")
    n.post("services", document("Service", "a", spec={"ports": [{"port": 80}]}))
    ports = [{"name": f"p{i}", "port": 80 + i} for i in range(3)]
    n.post("services", document("Service", "b", spec={"type": "NodePort", "ports": ports}))
    n.post("services", document("Service", "c", spec={"type": "LoadBalancer", "ports": ports[:1]}))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    n.post(
        "deployments",
        document(
            "Deployment", "a", "apps/v1", spec={"selector": {"matchLabels": {"a": "b"}}, "template": template}
        ),
        "apis/apps/v1",
    )
    n.post(
        "resourceclaims",
        document("ResourceClaim", "a", "resource.k8s.io/v1", spec={}),
        "apis/resource.k8s.io/v1",
    )
    n.claim("a", "1Gi")
    yield n
    n = Namespace("quo-storage")
    n.quota(
        "storage",
        {
            "requests.storage": "10Gi",
            "persistentvolumeclaims": "2",
            "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        },
    )
    n.claim("a", "11Gi")
    n.claim("b", "2Gi", storageClassName="gold")
    n.claim("c", "1Gi", storageClassName="gold")
    n.claim("d", "500Mi", storageClassName="gold")
    n.claim("e", "1Gi")
    n.claim("f", "1Gi")
    yield n
    n = Namespace("quo-amounts")
    n.quota(
        "amounts",
        {
            "requests.cpu": "1",
            "limits.cpu": "2",
            "requests.memory": "1Gi",
            "requests.ephemeral-storage": "1Gi",
            "requests.example.com/gpu": "1",
            "requests.hugepages-2Mi": "2Mi",
        },
    )
    n.pod("a")
    n.pod("b", res({"cpu": "2", "memory": "2Gi"}, {"cpu": "3", "memory": "2Gi"}))
    n.pod(
        "c",
        res({"cpu": "100m", "memory": "1Mi", "example.com/gpu": "2"}, {"cpu": "1", "example.com/gpu": "2"}),
    )
    n.pod("d", res({"cpu": "100m", "memory": "1Mi", "ephemeral-storage": "2Gi"}, {"cpu": "1"}))
    n.pod(
        "e",
        res({"cpu": "100m", "memory": "1Mi"}, {"cpu": "1"}),
        res({"cpu": "100m"}),
        initContainers=[init("i", {})],
    )
    n.pod(
        "f",
        res({"cpu": "100m", "memory": "1Mi"}, {"cpu": "1"}),
        initContainers=[init("i", res({"cpu": "4", "memory": "1Mi"}, {"cpu": "4"}))],
    )
    n.pod(
        "g",
        res({"cpu": "100m", "memory": "4Mi", "hugepages-2Mi": "4Mi"}, {"cpu": "1", "hugepages-2Mi": "4Mi"}),
    )
    n.pod("h", res(), resources={"requests": {"cpu": "2", "memory": "1Mi"}, "limits": {"cpu": "2"}})
    n.pod("i", res({"cpu": "900m", "memory": "1Mi"}, {"cpu": "1"}))
    n.pod("j", res({"cpu": "200m", "memory": "1Mi"}, {"cpu": "1"}))
    yield n


def last() -> Namespace:
    """Return the namespace made last: once all is refused there, a server has seen every LimitRange and quota."""
    n = Namespace("last")
    n.limits({"type": "Container", "max": {"cpu": "1m"}})
    n.quota("q", {"count/configmaps": "0"})
    n.pod("too-much", res({"cpu": "1"}, {"cpu": "1"}))
    n.post("configmaps", document("ConfigMap", "one-too-many"))
    return n


NAMESPACES = [*limit_ranges(), *quotas()]
LAST = last()
CASES = [case for namespace in NAMESPACES for case in namespace.asked]
