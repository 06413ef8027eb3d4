"""The barrier goes first, held pods are let go, what others have in the namespace stays, and dependants are named."""

from __future__ import annotations

import json

from weir.gates import KUBERNETES_DEFAULTS
from weir.install.manifests import Installation, documents
from weir.install.removal import plan, remove
from weir.lowering.names import GATE, TOLERATIONS, marker_key, toleration_hash
from weir.simulation.cluster import Cluster

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
ANNOTATIONS = {TOLERATIONS: json.dumps({toleration_hash(GT): GT})}
LOWERED = {
    "containers": [{"name": "c", "image": "i"}],
    "tolerations": [{"key": marker_key(toleration_hash(GT)), "operator": "Exists"}],
}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}, "annotations": ANNOTATIONS}, "spec": LOWERED},
    },
}
HELD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "held", "annotations": ANNOTATIONS},
    "spec": {**LOWERED, "schedulingGates": [{"name": "mine"}, {"name": GATE}]},
}


async def removed(client):
    return [line async for line in remove(client, await plan(client))]


def installed(cluster):
    # Without their hooks: nobody answers here.
    cluster.apply(*(each for each in documents(Installation(image="i")) if "Webhook" not in each["kind"]))


def test_what_depends_on_it_is_said_and_held_pods_are_let_go():
    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster:
        installed(cluster)
        cluster.apply(WEB, HELD)
        found = cluster._do(plan(cluster.client))
        assert found.workloads == ("deployment default/web: sla > 900",)
        assert (found.lowered_pods, found.held_pods) == (1, (("default", "held"),))
        said = cluster._do(removed(cluster.client))
        assert "pod/held in default let go" in said and said[-1] == "namespace/weir-system deleted"
        assert cluster.get("Pod", "held")["spec"]["schedulingGates"] == [{"name": "mine"}]
        cluster.advance(120)
        assert cluster.get("Namespace", "weir-system", "") is None
        assert cluster._do(plan(cluster.client)).objects == ()


def test_the_barrier_is_the_first_to_go_and_the_rights_stay_until_nothing_uses_them():
    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster:
        cluster.apply(*documents(Installation(image="i")))
        kinds = [each["kind"] for each in cluster._do(plan(cluster.client)).objects]
        assert kinds[0] == "ValidatingWebhookConfiguration" and kinds[1] == "MutatingWebhookConfiguration"
        assert kinds.index("Deployment") < kinds.index("ClusterRoleBinding") < kinds.index("Namespace")


def test_what_is_not_weirs_stays():
    with Cluster(nodes=0, gates=KUBERNETES_DEFAULTS) as cluster:
        installed(cluster)
        other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine", "namespace": "weir-system"}}
        cluster.create({**other, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        cluster.patch("ConfigMap", "weir-triples", {"metadata": {"labels": None}}, "weir-system")
        said = cluster._do(removed(cluster.client))
        assert said[-1] == "namespace/weir-system kept: pod/mine is in it"
        assert cluster.get("ConfigMap", "weir-triples", "weir-system") is not None
